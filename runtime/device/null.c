// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements the device that runs nothing, which shows what this library itself costs in a launch. "null"
// accepts every code; "null:sm_90" chooses codes as that device would, which shows what another machine
// would get. With a number in front, "null:1" or "null:1:sm_90", a program gets as many devices of a kind
// as it wants.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/device.h"
#include "runtime/device/host_memory.h"
#include "runtime/tensor_map.h"

// What follows the number, if there is one; NULL where that is neither.
static const char *after_number(const char *rest) {
  enum { MOST_DIGITS = 4 };
  size_t digits = strspn(rest, "0123456789");
  if (!digits) return rest;
  bool has_target = rest[digits] == ':' && rest[digits + 1];
  return digits > MOST_DIGITS || (rest[digits] && !has_target) ? NULL : rest + digits + has_target;
}

// What no kernel writes is read back as zeros.
static kiln_status alloc(kiln_device *d, size_t size, void **out, kiln_error *err) {
  KILN_TRY(kiln_host_memory_alloc(d, size, out, err));
  memset(*out, 0, size);
  return KILN_OK;
}

static kiln_status open_null(kiln_device *d, const char *rest, kiln_error *err) {
  if (!(rest = after_number(rest)))
    return kiln_fail(err, KILN_STATUS_NO_DEVICE,
                     "'%s': expected null, null:N with a number from 0 to 9999, null:TARGET or null:N:TARGET",
                     d->name);
  d->state = malloc(1); // an address of its own stands for modules and streams
  if (!d->state) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  KILN_TRY(alloc(d, KILN_NOWHERE_BYTES, &d->nowhere, err));
  snprintf(d->description, sizeof d->description, "runs nothing");
  if (*rest) return kiln_device_target_parse(rest, &d->target, err);
  d->accepts_all = true;
  snprintf(d->target.name, sizeof d->target.name, "null");
  return KILN_OK;
}

static void close_null(kiln_device *d) { free(d->state); }

static kiln_status load(kiln_device *d, const kiln_code *code, const kiln_bytes *bytes, kiln_module *out,
                        kiln_error *err) {
  (void)code, (void)bytes, (void)err;
  out->module = out->function = d->state;
  return KILN_OK;
}

static void unload(kiln_device *d, kiln_module *module) { (void)d, (void)module; }

static kiln_status launch(kiln_device *d, const kiln_launch_call *call, kiln_error *err) {
  (void)d, (void)call, (void)err;
  return KILN_OK;
}

// What a driver is told, in plain: element, rank, swizzle, interleave, fill (u8 each), 3 zeros, address, 5
// extents, 4 strides (u64), 5 box extents (u32).
static kiln_status encode_map(kiln_device *d, const kiln_tensor_map_values *v, void *out, kiln_error *err) {
  (void)d, (void)err;
  const kiln_tensor_map *m = v->map;
  uint8_t *to = out;
  memcpy(to, (const uint8_t[8]){m->element, m->rank, m->swizzle, m->interleave, m->fill}, 8);
  memcpy(to + 8, &v->address, 8);
  memcpy(to + 16, v->extents, sizeof v->extents);
  memcpy(to + 56, v->strides, sizeof v->strides);
  memcpy(to + 88, m->box, sizeof m->box);
  memset(to + 108, 0, KILN_MAP_BYTES - 108);
  return KILN_OK;
}

static void in_child(kiln_device *d) { (void)d; }

const kiln_device_kind kiln_device_null = {
    .name = "null",
    .outlives = true,
    .in_child = in_child,
    .open = open_null,
    .close = close_null,
    .load = load,
    .unload = unload,
    .launch = launch,
    .encode_map = encode_map,
    .stream_create = kiln_host_stream_create,
    .stream_destroy = kiln_host_stream_destroy,
    .sync = kiln_host_stream_sync,
    .alloc = alloc,
    .release = kiln_host_memory_release,
    .copy_in = kiln_host_memory_copy,
    .copy_out = kiln_host_memory_copy,
    .fill = kiln_host_memory_fill,
};
