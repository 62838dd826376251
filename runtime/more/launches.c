// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches of kernels that have scratch memory: what may stand in place of the kernel's own launch is read
// from a note of the bundle (base/launches.h), once a kernel, when scratch memory is first asked about.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/expr.h"
#include "runtime/more/core.h"

enum { SCRATCH_ALIGNMENT = 128 };

// ------------------------------------------------------------------------------------------ reading

// Whether the launch hands the kernel what it takes.
static bool fits(const kiln_kernel *k, const kiln_launch_record *l, const kiln_kernel *to) {
  bool fits = l->arg_count == to->interface.param_count;
  for (uint32_t i = 0; fits && i < l->arg_count; i++) {
    const kiln_param_record *p = &to->interface.params[i];
    if (l->args[i].value.size) {
      fits = !p->view_rank &&
             (p->pointer || kiln_scalars[p->scalar].type_class & (KILN_CLASS_INT | KILN_CLASS_BOOL));
    } else {
      const kiln_param_record *from = &k->interface.params[l->args[i].param];
      fits = from->size == p->size && from->view_rank == p->view_rank && from->pointer == p->pointer;
    }
  }
  return fits;
}

// As of sizes: what cannot be used is logged, and the kernel itself runs.
static void give_up(struct kiln_launches *l, const kiln_kernel *k, const char *why) {
  char text[700];
  l->note.launch_count = 0;
  snprintf(text, sizeof text, "the launches in place of '%.200s' in %.200s are not used: %.250s",
           k->interface.name, k->bundle->name, why);
  kiln_log(k->device, k->interface.name, KILN_LOG_WARNING, text);
}

static void find_kernels(struct kiln_launches *l, const kiln_kernel *k) {
  kiln_error why;
  for (uint32_t i = 0; i < l->note.launch_count; i++) {
    const kiln_launch_record *record = &l->note.launches[i];
    if (kiln_kernel_get(k->device, record->kernel, NULL, &l->kernels[i], &why) != KILN_OK)
      give_up(l, k, why.text);
    else if (!fits(k, record, l->kernels[i])) give_up(l, k, "a launch does not fit the kernel's parameters");
  }
}

static const char *read_note(const kiln_kernel *k) {
  char key[sizeof KILN_LAUNCHES_PREFIX + KILN_BUNDLE_MAX_NAME];
  size_t size;
  snprintf(key, sizeof key, KILN_LAUNCHES_NOTE, k->interface.name);
  pthread_mutex_lock(&k->device->lock);
  const char *text = kiln_bundle_note(k->bundle, key, &size);
  pthread_mutex_unlock(&k->device->lock);
  return text;
}

static struct kiln_launches *make_launches(const kiln_kernel *k) {
  kiln_arena *arena = kiln_arena_create_with(NULL);
  struct kiln_launches *l = arena ? KILN_NEW(arena, struct kiln_launches) : NULL;
  if (!l) {
    if (arena) kiln_arena_destroy(arena);
    return NULL;
  }
  l->arena = arena;
  l->note = k->interface;
  const char *text = read_note(k);
  if (text && !kiln_launches_decode(arena, text, &l->note))
    give_up(l, k, "they do not fit the kernel's parameters");
  find_kernels(l, k);
  return l;
}

static kiln_status find_launches(kiln_kernel *k, const struct kiln_launches **out, kiln_error *err) {
  struct kiln_launches *none = NULL;
  *out = atomic_load_explicit(&k->launches, memory_order_acquire);
  if (*out) return KILN_OK;
  struct kiln_launches *made = make_launches(k);
  if (!made) return kiln_kernel_no_memory(k, err);
  *out = made;
  if (atomic_compare_exchange_strong(&k->launches, &none, made)) return KILN_OK;
  kiln_arena_destroy(made->arena);
  *out = none;
  return KILN_OK;
}

// --------------------------------------------------------------------------------------- deciding

/// Arguments, the address of the scratch memory, and what is computed first.
typedef struct launch_values {
  int64_t of[KILN_MOST_PARAMS + 1 + KILN_MOST_VALUES];
  size_t needed; // bytes of scratch memory
} launch_values;

static bool computes(kiln_span code, const launch_values *values, int64_t *out) {
  return kiln_expr_eval(code.bytes, code.size, values->of, out);
}

// False when there is nothing but the kernel itself: one of the values overflows or divides by zero.
static bool compute(const kiln_kernel *k, const struct kiln_launches *l, const uint8_t *block,
                    const void *scratch, launch_values *out) {
  const kiln_interface *note = &l->note;
  const uint32_t first = k->interface.param_count + 1;
  int64_t bytes = 0;
  out->needed = 0;
  if (!note->launch_count) return false;
  kiln_read_integers(k, block, out->of);
  out->of[first - 1] = (int64_t)(intptr_t)scratch;
  for (uint32_t i = 0; i < note->value_count; i++) {
    const kiln_launch_value *v = &note->values[i];
    int64_t *value = &out->of[first + i], is_wanted = 1;
    *value = 0;
    if (v->condition.size && !computes(v->condition, out, &is_wanted)) return false;
    if (is_wanted && !computes(v->value, out, value)) return false;
  }
  if (!computes(note->scratch, out, &bytes)) return false;
  out->needed = bytes > 0 ? (size_t)bytes : 0;
  return true;
}

kiln_status kiln_more_scratch_size(kiln_kernel *k, const void *block, size_t size, size_t *out,
                                   kiln_error *err) {
  launch_values values;
  const struct kiln_launches *l;
  KILN_NEED(out, "result");
  *out = 0;
  if (!k || size != k->interface.block_bytes || (!block && size)) return kiln_refuse_size(k, size, err);
  KILN_TRY(find_launches(k, &l, err));
  if (compute(k, l, block, NULL, &values)) *out = values.needed;
  return KILN_OK;
}

// False: an argument cannot be computed, or its parameter cannot hold it.
static bool fill_block(const kiln_kernel *k, const kiln_launch_record *record, const kiln_kernel *to,
                       const uint8_t *from, const launch_values *values, uint8_t *block) {
  memset(block, 0, to->interface.block_bytes);
  for (uint32_t i = 0; i < record->arg_count; i++) {
    const kiln_launch_argument *arg = &record->args[i];
    const kiln_param_record *p = &to->interface.params[i];
    uint8_t bytes[8];
    int64_t value;
    if (!arg->value.size) {
      memcpy(block + p->offset, from + k->interface.params[arg->param].offset, p->size);
      continue;
    }
    if (!computes(arg->value, values, &value)) return false;
    kiln_put64(bytes, (uint64_t)value);
    if (!p->pointer && p->size < 8 &&
        value != kiln_read_integer(bytes, (uint8_t)p->size, p->scalar != KILN_I1))
      return false;
    memcpy(block + p->offset, bytes, p->size < 8 ? p->size : 8);
  }
  return true;
}

// The first time each launch is only tried: one that would be refused leaves the kernel itself, and nothing has run.
kiln_status kiln_more_launches_decide(kiln_kernel *k, const uint8_t *block, const void *scratch, size_t bytes,
                                      kiln_launches_visit *visit, void *context, bool *out_any,
                                      kiln_error *err) {
  launch_values values;
  int64_t holds;
  uint8_t its_block[KILN_MOST_BLOCK];
  kiln_launch_call call;
  kiln_error unseen;
  const struct kiln_launches *l;
  *out_any = false;
  if (!scratch) return KILN_OK;
  if ((uintptr_t)scratch % SCRATCH_ALIGNMENT)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "'%s': expected scratch memory at a multiple of %d bytes, found %p", k->interface.name,
                     SCRATCH_ALIGNMENT, scratch);
  KILN_TRY(find_launches(k, &l, err));
  if (!compute(k, l, block, scratch, &values) || bytes < values.needed) return KILN_OK;
  for (uint32_t i = 0; i < 2 * l->note.launch_count; i++) {
    const bool runs = i >= l->note.launch_count;
    const uint32_t at = i % l->note.launch_count;
    const kiln_launch_record *record = &l->note.launches[at];
    kiln_kernel *to = l->kernels[at];
    if (!computes(record->condition, &values, &holds)) return KILN_OK;
    if (!holds) continue;
    if (!fill_block(k, record, to, block, &values, its_block)) return KILN_OK;
    if (!runs && kiln_decide(to, its_block, NULL, &call, &unseen) != KILN_OK) return KILN_OK;
    *out_any = runs;
    if (runs) KILN_TRY(visit(context, to, its_block, err));
  }
  return KILN_OK;
}

// ------------------------------------------------------------------------------------------ public

kiln_status kiln_more_launches_find(kiln_kernel *k, kiln_error *err) {
  const struct kiln_launches *l;
  KILN_TRY(find_launches(k, &l, err));
  return l->note.launch_count ? KILN_OK : KILN_STATUS_NOT_FOUND;
}

static kiln_status launch_one(void *context, kiln_kernel *k, const uint8_t *block, kiln_error *err) {
  return kiln_launch_packed(k, *(kiln_stream *)context, block, k->interface.block_bytes, err);
}

kiln_status kiln_more_launch_scratch(kiln_kernel *k, kiln_stream stream, const void *block, size_t size,
                                     void *scratch, size_t scratch_bytes, kiln_error *err) {
  bool any;
  if (!k || size != k->interface.block_bytes || (!block && size)) return kiln_refuse_size(k, size, err);
  KILN_TRY(kiln_more_launches_decide(k, block, scratch, scratch_bytes, launch_one, &stream, &any, err));
  return any ? KILN_OK : kiln_launch_packed(k, stream, block, size, err);
}

typedef struct search {
  size_t left;
  const char *name;
} search;

static kiln_status count_one(void *context, kiln_kernel *k, const uint8_t *block, kiln_error *err) {
  (void)block, (void)err;
  search *s = context;
  if (!s->left--) s->name = k->interface.name;
  return KILN_OK;
}

kiln_status kiln_more_scratch_launch_at(kiln_kernel *k, const void *block, size_t size, const void *scratch,
                                        size_t scratch_bytes, size_t index, const char **out,
                                        kiln_error *err) {
  search s = {.left = index};
  bool any;
  KILN_NEED(out, "result");
  *out = NULL;
  if (!k || size != k->interface.block_bytes || (!block && size)) return kiln_refuse_size(k, size, err);
  KILN_TRY(kiln_more_launches_decide(k, block, scratch, scratch_bytes, count_one, &s, &any, err));
  *out = s.name;
  if (s.name) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_NOT_FOUND, "'%s': there is no launch %zu, %zu would be made",
                   k->interface.name, index, index - s.left);
}

kiln_status kiln_more_launches_load(kiln_kernel *k, kiln_error *err) {
  const struct kiln_launches *l;
  KILN_TRY(find_launches(k, &l, err));
  for (uint32_t i = 0; i < l->note.launch_count; i++) KILN_TRY(kiln_kernel_load(l->kernels[i], err));
  return KILN_OK;
}
