// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches a kernel several times with its buffers at different places, to find reads and writes outside of
// the buffers.
#include "tools/run/bounds.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "tools/common/cli.h"

enum { FAR = 256, USUAL_ZONE = 0xa5, TIMES = 3 };
static const uint8_t other_zones[] = {0x5a, 0xff}; // large numbers; what is not a number

static const run_place at_begin = {true, FAR, USUAL_ZONE};

// ----------------------------------------------------------------------------------------- launches

static void name_memory(const run_call *c, const run_value *v) {
  char text[100];
  snprintf(text, sizeof text, "argument '%.80s'", v->param.name);
  ptx_device_name(c->interpreter, v->memory.at, text);
}

static kiln_status place_one(run_call *c, size_t index, run_place place, kiln_error *err) {
  run_value *v = &c->values[index];
  KILN_TRY(run_value_place(v, c->device, c->guard, place, err));
  if (c->interpreter && v->bytes) name_memory(c, v);
  memcpy(c->block + v->param.offset, v->packed, v->param.size);
  return KILN_OK;
}

static kiln_status place_all(run_call *c, const run_place *places, kiln_error *err) {
  for (size_t i = 0; i < c->count; i++) KILN_TRY(place_one(c, i, places ? places[i] : at_begin, err));
  return KILN_OK;
}

/// What the arguments need is compared with the sizes of the buffers.
static kiln_status check_sizes(const run_call *c, kiln_error *err) {
  size_t *bytes = calloc(c->count + 1, sizeof *bytes);
  if (!bytes) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  for (size_t i = 0; i < c->count; i++) bytes[i] = c->values[i].bytes ? c->values[i].size : KILN_SIZE_UNKNOWN;
  kiln_status status = kiln_check_sizes(c->kernel, c->block, c->size, bytes, c->count, err);
  free(bytes);
  return status;
}

kiln_status run_call_begin(run_call *c, kiln_choice *out, kiln_error *err) {
  KILN_TRY(place_all(c, NULL, err));
  KILN_TRY(check_sizes(c, err));
  return kiln_choose(c->kernel, c->block, c->size, out, err);
}

kiln_status run_call_take_scratch(run_call *c, kiln_error *err) {
  void *memory;
  KILN_TRY(kiln_scratch_size(c->kernel, c->block, c->size, &c->scratch_bytes, err));
  if (!c->scratch_bytes) return KILN_OK;
  KILN_TRY(kiln_alloc(c->device, c->scratch_bytes + (c->interpreter ? 0 : FAR), &memory, err));
  c->scratch = memory;
  if (c->interpreter) ptx_device_name(c->interpreter, memory, "the scratch memory");
  return KILN_OK;
}

void run_call_end(run_call *c) {
  kiln_free(c->device, c->scratch);
  c->scratch = NULL;
}

static kiln_status launch(run_call *c, kiln_error *err) {
  if (c->grid) return kiln_launch_grid(c->kernel, NULL, c->grid, c->block, c->size, err);
  if (!c->scratch) return kiln_launch_packed(c->kernel, NULL, c->block, c->size, err);
  if (c->interpreter) { // it knows what was never written, of new memory
    run_call_end(c);
    KILN_TRY(run_call_take_scratch(c, err));
  } else {
    KILN_TRY(kiln_fill(c->device, c->scratch, USUAL_ZONE, c->scratch_bytes + FAR, err));
  }
  return kiln_launch_scratch(c->kernel, NULL, c->block, c->size, c->scratch, c->scratch_bytes, err);
}

static kiln_status check_scratch(const run_call *c, kiln_error *err) {
  uint8_t after[FAR];
  if (!c->scratch || c->interpreter) return KILN_OK;
  KILN_TRY(kiln_copy_out(c->device, after, c->scratch + c->scratch_bytes, FAR, err));
  for (size_t i = 0; i < FAR; i++)
    if (after[i] != USUAL_ZONE)
      return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                       "the kernel wrote at byte %zu of its scratch memory, which has %zu",
                       c->scratch_bytes + i, c->scratch_bytes);
  return KILN_OK;
}

void run_call_silence(run_call *c) {
  fflush(stdout);
  const int kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3),
            nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (kept >= 0 && nowhere >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0) c->kept_output = kept;
  else if (kept >= 0) close(kept);
  if (nowhere >= 0) close(nowhere);
}

void run_call_unsilence(run_call *c) {
  if (!c->kept_output) return;
  fflush(stdout);
  dup2(c->kept_output, STDOUT_FILENO);
  close(c->kept_output);
  c->kept_output = 0;
}

kiln_status run_call_launch(run_call *c, kiln_error *err) {
  if (c->guard == RUN_GUARD_PAGES) run_memory_watch(true);
  kiln_status status = launch(c, err);
  if (status == KILN_OK) status = kiln_sync(c->device, NULL, err);
  if (c->guard == RUN_GUARD_PAGES) run_memory_watch(false);
  if (c->interpreter) status = ptx_device_explain(c->interpreter, c->name, UINT32_MAX, status, err);
  if (c->prints_once) {
    c->prints_once = false;
    run_call_silence(c);
  }
  return status;
}

kiln_status run_call_check(const run_call *c, kiln_error *err) {
  for (size_t i = 0; i < c->count; i++) KILN_TRY(run_memory_check(&c->values[i].memory, err));
  return check_scratch(c, err);
}

static kiln_status launch_placed(run_call *c, const run_place *places, kiln_error *err) {
  KILN_TRY(place_all(c, places, err));
  KILN_TRY(run_call_launch(c, err));
  return run_call_check(c, err);
}

// ------------------------------------------------------------------------- what depends on the zones

static size_t total_size(const run_call *c) {
  size_t size = 0;
  for (size_t i = 0; i < c->count; i++) size += c->values[i].size;
  return size;
}

/// The contents of all buffers after a launch, one after another.
static kiln_status results_of(run_call *c, const run_place *places, uint8_t *out, kiln_error *err) {
  KILN_TRY(launch_placed(c, places, err));
  for (size_t i = 0; i < c->count; i++) {
    const run_value *v = &c->values[i];
    if (v->size) KILN_TRY(kiln_copy_out(c->device, out, v->memory.at, v->size, err));
    out += v->size;
  }
  return KILN_OK;
}

/// A difference counts only if identical launches give identical results: floats may be summed in any order.
static kiln_status confirm(run_call *c, run_place *places, size_t index, uint8_t zone,
                           uint8_t *const results[2], uint8_t *scratch, bool *out_depends, kiln_error *err) {
  size_t size = total_size(c);
  *out_depends = true;
  for (unsigned i = 0; i < 2 * TIMES && *out_depends; i++) {
    places[index].zone = i % 2 ? zone : USUAL_ZONE;
    KILN_TRY(results_of(c, places, i < 2 ? results[i] : scratch, err));
    if (i >= 2) *out_depends = !memcmp(results[i % 2], scratch, size);
  }
  *out_depends = *out_depends && memcmp(results[0], results[1], size);
  places[index].zone = USUAL_ZONE;
  return KILN_OK;
}

static kiln_status name_reader(run_call *c, run_place *places, uint8_t zone, uint8_t *const results[2],
                               uint8_t *scratch, kiln_error *err) {
  for (size_t i = 0; i < c->count; i++) {
    const run_value *v = &c->values[i];
    bool depends;
    if (!v->bytes) continue;
    KILN_TRY(confirm(c, places, i, zone, results, scratch, &depends, err));
    if (depends)
      return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                       "argument '%s' (%s) has %zu elements, and the kernel read outside of them: what it "
                       "stores depends on what lies there",
                       v->param.name, v->param.type, run_value_count(v));
  }
  return KILN_OK;
}

static bool has_zones(const run_call *c) {
  for (size_t i = 0; i < c->count; i++)
    if (c->values[i].memory.before || c->values[i].memory.after) return true;
  return false;
}

static kiln_status find_readers(run_call *c, run_place *places, kiln_error *err) {
  size_t size = total_size(c) + 1;
  uint8_t *results[] = {malloc(size), malloc(size)}, *scratch = malloc(size);
  kiln_status status = results[0] && results[1] && scratch
                           ? results_of(c, places, results[0], err)
                           : kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  for (unsigned z = 0; z < sizeof other_zones && status == KILN_OK; z++) {
    for (size_t i = 0; i < c->count; i++) places[i].zone = other_zones[z];
    status = results_of(c, places, scratch, err);
    for (size_t i = 0; i < c->count; i++) places[i].zone = USUAL_ZONE;
    if (status == KILN_OK && memcmp(results[0], scratch, size - 1))
      status = name_reader(c, places, other_zones[z], results, scratch, err);
  }
  free(results[0]);
  free(results[1]);
  free(scratch);
  return status;
}

// ---------------------------------------------------------------------------------- ends of the host

static bool is_same_code(const kiln_choice *a, const kiln_choice *b) {
  return !strcmp(a->config, b->config) && !strcmp(a->variant, b->variant) && !strcmp(a->target, b->target);
}

/// Moves the buffer to the end of its memory with the least alignment for which `like` is chosen (any code if
/// NULL), while the other buffers stay where they are.
static kiln_status move_to_end(run_call *c, size_t index, const kiln_choice *like, run_place *out,
                               kiln_error *err) {
  size_t element = c->values[index].memory.element;
  for (size_t alignment = element; alignment <= FAR; alignment *= 2) {
    kiln_choice choice;
    kiln_error ignored = {0};
    *out = (run_place){false, alignment, USUAL_ZONE};
    KILN_TRY(place_one(c, index, *out, err));
    if (kiln_choose(c->kernel, c->block, c->size, &choice, &ignored)) continue;
    if (!like || is_same_code(like, &choice)) return KILN_OK;
  }
  *out = at_begin;
  return place_one(c, index, *out, err);
}

static kiln_status find_ends(run_call *c, const kiln_choice *like, run_place *out, kiln_error *err) {
  KILN_TRY(place_all(c, NULL, err));
  for (size_t i = 0; i < c->count; i++) {
    out[i] = at_begin;
    if (c->values[i].bytes) KILN_TRY(move_to_end(c, i, like, &out[i], err));
  }
  return KILN_OK;
}

static kiln_status find_outside_host(run_call *c, const kiln_choice *usual, run_place *places,
                                     run_place *least, kiln_error *err) {
  KILN_TRY(launch_placed(c, NULL, err));
  KILN_TRY(find_ends(c, usual, places, err));
  KILN_TRY(launch_placed(c, places, err));
  if (has_zones(c)) KILN_TRY(find_readers(c, places, err));
  KILN_TRY(find_ends(c, NULL, least, err));
  for (size_t i = 0; i < c->count; i++)
    if (least[i].is_at_begin != places[i].is_at_begin || least[i].alignment != places[i].alignment)
      return launch_placed(c, least, err);
  return KILN_OK;
}

kiln_status run_call_find_outside(run_call *c, const kiln_choice *usual, kiln_error *err) {
  run_place *places = calloc(2 * c->count + 1, sizeof *places);
  if (!places) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  for (size_t i = 0; i < c->count; i++) places[i] = at_begin;
  kiln_status status = c->guard == RUN_GUARD_PAGES
                           ? find_outside_host(c, usual, places, places + c->count, err)
                       : has_zones(c) ? find_readers(c, places, err)
                                      : KILN_OK;
  free(places);
  return status;
}
