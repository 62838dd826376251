// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens devices by name, ranks targets for them, and passes calls on to the kind of device.
#include "runtime/device/device.h"
#include "runtime/hook.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const kiln_device_kind *const kinds[] = {&kiln_device_host, &kiln_device_cuda, &kiln_device_hip,
                                                &kiln_device_null};

static const kiln_device_kind *find_kind(const char *name, size_t length) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strlen(kinds[i]->name) == length && !memcmp(kinds[i]->name, name, length)) return kinds[i];
  return NULL;
}

// A policy that some kernel cannot keep on this device fails here, not at the first launch.
static kiln_status check_policy(kiln_device *d, kiln_error *err) {
  bool is_strict = d->library->policy & (KILN_EXACT_ONLY | KILN_NO_JIT) && !d->accepts_all;
  return is_strict ? kiln_check_policy(d, err) : KILN_OK;
}

static bool make_ranks(kiln_device *d) {
  d->ranks = calloc(d->library->bundle_count, sizeof *d->ranks);
  for (size_t i = 0; d->ranks && i < d->library->bundle_count; i++) {
    d->ranks[i] = calloc(2 * d->library->bundles[i]->section_count[KILN_BUNDLE_TARGETS] + 1, 1);
    if (!d->ranks[i]) return false;
  }
  return d->ranks != NULL;
}

static kiln_device *device_of(kiln_fork_node *node) {
  return (kiln_device *)((char *)node - offsetof(kiln_device, fork));
}

// In the child of a fork: nothing is loaded there any more, the lock may be held by a thread that is not.
static void after_fork(kiln_fork_node *node) {
  kiln_device *d = device_of(node);
  pthread_mutex_init(&d->lock, NULL);
  if (d->kind->in_child) {
    d->kind->in_child(d);
  } else {
    d->kind = &kiln_device_gone;
  }
}

static void choose_table(kiln_fork_node *node) {
  kiln_device *d = device_of(node);
  if (!d->kind->is_gone) d->kind = kiln_hook_is_any() ? &d->hooked : d->own;
}

void kiln_devices_choose_table(void) { kiln_fork_each(after_fork, choose_table); }

// Gives back what the device holds; the struct stays, and its kernels'.
static void end_device(kiln_device *d) {
  kiln_fork_forget(&d->fork);
  for (kiln_module *m = d->modules, *next; m; m = next) {
    next = m->next;
    d->kind->unload(d, m);
    free(m->symbol);
    free(m);
  }
  for (uint32_t i = 0; i < d->kernel_slots; i++)
    if (d->kernels[i]) kiln_kernel_end(d->kernels[i]);
  if (d->nowhere) d->kind->release(d, d->nowhere);
  if (d->state) d->kind->close(d);
  for (size_t i = 0; d->ranks && i < d->library->bundle_count; i++) free(d->ranks[i]);
  free(d->ranks);
  pthread_mutex_destroy(&d->lock);
  kiln_library_drop(d->library);
}

void kiln_device_drop(kiln_device *d) {
  if (atomic_fetch_sub(&d->references, 1) > 1) return;
  for (uint32_t i = 0; i < d->kernel_slots; i++) free(d->kernels[i]);
  free(d->kernels);
  free(d);
}

static void drop_closed(kiln_closed_node *node) {
  kiln_device_drop((kiln_device *)((char *)node - offsetof(kiln_device, closed)));
}

kiln_status kiln_device_open(kiln_library *library, const char *name, kiln_device **out, kiln_error *err) {
  KILN_NEED(out, "result");
  *out = NULL;
  KILN_NEED(library, "library");
  KILN_NEED(name, "name");
  if (atomic_load(&library->is_closed))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "'%.60s': the library is closed", name);
  size_t length = strcspn(name, ":");
  const kiln_device_kind *kind = find_kind(name, length);
  if (!kind || strlen(name) >= sizeof(*out)->name)
    return kiln_fail(err, KILN_STATUS_NO_DEVICE,
                     "'%.60s' is not a device; expected host[:THREADS], cuda:N, hip:N, null[:TARGET]", name);
  kiln_device *d = calloc(1, sizeof *d);
  if (!d) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  d->kind = d->own = kind;
  d->library = library;
  d->references = 1;
  atomic_fetch_add(&library->references, 1);
  pthread_mutex_init(&d->lock, NULL);
  snprintf(d->name, sizeof d->name, "%s", name);
  for (unsigned i = 0; i < 3; i++) d->grid_limit[i] = UINT32_MAX;
  kiln_status status =
      make_ranks(d) ? KILN_OK : kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  if (status == KILN_OK) status = kind->open(d, name[length] ? name + length + 1 : "", err);
  if (status == KILN_OK) status = check_policy(d, err);
  if (status != KILN_OK) {
    end_device(d);
    kiln_device_drop(d);
    return status;
  }
  kiln_hook_wrap(d);
  kiln_fork_watch(&d->fork, after_fork);
  kiln_devices_choose_table();
  *out = d;
  return KILN_OK;
}

void kiln_device_close(kiln_device *d) {
  if (!d || d->is_closed) return;
  end_device(d);
  d->kind = &kiln_device_gone;
  d->is_closed = true;
  kiln_closed_keep(&d->closed, sizeof *d + d->kernel_count * sizeof(kiln_kernel), drop_closed);
}

const char *kiln_device_target_name(const kiln_device *d) { return d ? d->target.name : NULL; }
const char *kiln_device_description(const kiln_device *d) { return d ? d->description : NULL; }
uint32_t kiln_device_units(const kiln_device *d) { return d ? d->processors : 0; }

// -------------------------------------------------------------------------------------------- rank

static unsigned apply_policy(const kiln_device *d, unsigned rank, char rule[KILN_RULE_TEXT]) {
  if (rank == KILN_RANK_REFUSED) return rank;
  if (d->library->policy & KILN_NO_JIT && rank == KILN_RANK_PTX) {
    snprintf(rule, KILN_RULE_TEXT, "the policy allows no code that a driver has to compile");
    return KILN_RANK_REFUSED;
  }
  if (d->library->policy & KILN_EXACT_ONLY && rank > KILN_RANK_EXACT) {
    snprintf(rule, KILN_RULE_TEXT, "the policy allows exact code only");
    return KILN_RANK_REFUSED;
  }
  return rank;
}

static unsigned compute_rank(kiln_device *d, size_t index, uint32_t number, bool is_ptx,
                             char rule[KILN_RULE_TEXT]) {
  kiln_error err;
  kiln_target target;
  const char *text = kiln_bundle_target_at(d->library->bundles[index], number, &err);
  rule[0] = 0;
  if (d->accepts_all && text) return KILN_RANK_EXACT;
  if (!text || kiln_target_parse(text, &target, &err) != KILN_OK) {
    snprintf(rule, KILN_RULE_TEXT, "%.*s", KILN_RULE_TEXT - 1, err.text);
    return KILN_RANK_REFUSED;
  }
  return apply_policy(d, kiln_target_rank(&target, is_ptx, &d->target, rule), rule);
}

unsigned kiln_device_rank(kiln_device *d, size_t index, uint32_t number, bool is_ptx, char *rule) {
  char text[KILN_RULE_TEXT];
  _Atomic(uint8_t) *known = (_Atomic(uint8_t) *)&d->ranks[index][2 * number + is_ptx];
  uint8_t stored = atomic_load_explicit(known, memory_order_relaxed);
  if (!rule && stored) return stored == KILN_RANK_REFUSED ? KILN_RANK_REFUSED : stored - 1u;
  unsigned rank = compute_rank(d, index, number, is_ptx, rule ? rule : text);
  atomic_store_explicit(known, (uint8_t)(rank == KILN_RANK_REFUSED ? rank : rank + 1), memory_order_relaxed);
  return rank;
}

// --------------------------------------------------------------------------------- memory, streams

kiln_status kiln_stream_create(kiln_device *d, kiln_stream *out, kiln_error *err) {
  KILN_NEED(out, "result");
  *out = NULL;
  KILN_NEED(d, "device");
  return d->kind->stream_create(d, out, err);
}
void kiln_stream_destroy(kiln_device *d, kiln_stream stream) {
  if (d) d->kind->stream_destroy(d, stream);
}
kiln_status kiln_sync(kiln_device *d, kiln_stream stream, kiln_error *err) {
  KILN_NEED(d, "device");
  return d->kind->sync(d, stream, err);
}

kiln_status kiln_alloc(kiln_device *d, size_t size, void **out, kiln_error *err) {
  KILN_NEED(out, "result");
  *out = NULL;
  KILN_NEED(d, "device");
  return d->kind->alloc(d, size ? size : 1, out, err);
}

void kiln_free(kiln_device *d, void *memory) {
  if (d && memory) d->kind->release(d, memory);
}

kiln_status kiln_copy_in(kiln_device *d, void *to, const void *from, size_t size, kiln_error *err) {
  KILN_NEED(d, "device");
  KILN_NEED(!size || (to && from), "memory");
  return size ? d->kind->copy_in(d, to, from, size, err) : KILN_OK;
}

kiln_status kiln_copy_out(kiln_device *d, void *to, const void *from, size_t size, kiln_error *err) {
  KILN_NEED(d, "device");
  KILN_NEED(!size || (to && from), "memory");
  return size ? d->kind->copy_out(d, to, from, size, err) : KILN_OK;
}

kiln_status kiln_fill(kiln_device *d, void *memory, uint8_t byte, size_t size, kiln_error *err) {
  KILN_NEED(d, "device");
  KILN_NEED(!size || memory, "memory");
  return size ? d->kind->fill(d, memory, byte, size, err) : KILN_OK;
}
