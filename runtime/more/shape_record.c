// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Records the argument values of launches for which there is no tuned choice, and writes them to a file for
// `kiln tune --record`.
#include "runtime/more/shape_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/float_state.h"
#include "base/output.h"
#include "base/control_characters.h"
#include "runtime/more/core.h"

enum { PROBES = 64 };

// A parameter as the file needs it; the kernel may be gone when the file is written.
typedef struct param {
  char *name; // owned
  kiln_scalar scalar;
  uint32_t offset, size;
  uint8_t pointer, view_rank;
} param;

struct kiln_recorder {
  kiln_recorder *next; // owned list of the library
  char *name;          // owned
  param *params;       // owned
  uint32_t param_count, block_size;
  atomic_uint lost;
  _Atomic(uint64_t) hashes[KILN_RECORDED_SHAPES]; // 0: free
  atomic_bool is_whole[KILN_RECORDED_SHAPES];     // the block is copied
  uint8_t *blocks;                                // owned: one a hash
};

static void free_recorder(kiln_recorder *r) {
  for (uint32_t i = 0; r->params && i < r->param_count; i++) free(r->params[i].name);
  free(r->params);
  free(r->blocks);
  free(r->name);
  free(r);
}

kiln_status kiln_more_recorders_free(kiln_library *l, kiln_error *err) {
  (void)err;
  kiln_recorder *r = atomic_load(&l->recorders);
  while (r) {
    kiln_recorder *next = r->next;
    free_recorder(r);
    r = next;
  }
  atomic_store(&l->recorders, NULL);
  return KILN_OK;
}

static bool is_of(const kiln_recorder *r, const kiln_kernel *k) {
  const kiln_interface *in = &k->interface;
  bool same =
      !strcmp(r->name, in->name) && r->param_count == in->param_count && r->block_size == k->used_bytes;
  for (uint32_t i = 0; same && i < r->param_count; i++)
    same = !strcmp(r->params[i].name, in->params[i].name) && r->params[i].offset == in->params[i].offset &&
           r->params[i].scalar == in->params[i].scalar && r->params[i].pointer == in->params[i].pointer &&
           r->params[i].view_rank == in->params[i].view_rank;
  return same;
}

static kiln_recorder *create(const kiln_kernel *k) {
  const kiln_interface *in = &k->interface;
  kiln_recorder *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->block_size = k->used_bytes;
  r->name = strdup(in->name);
  r->params = calloc((size_t)in->param_count + 1, sizeof *r->params);
  r->blocks = malloc((size_t)KILN_RECORDED_SHAPES * r->block_size + 1);
  bool whole = r->name && r->params && r->blocks;
  for (; whole && r->param_count < in->param_count; r->param_count++) {
    const kiln_param_record *p = &in->params[r->param_count];
    param *to = &r->params[r->param_count];
    *to = (param){strdup(p->name), p->scalar, p->offset, p->size, p->pointer, p->view_rank};
    whole = to->name;
  }
  if (whole) return r;
  free_recorder(r);
  return NULL;
}

kiln_recorder *kiln_recorder_of(const kiln_kernel *k) {
  kiln_library *l = k->device->library;
  if (!l->record_path) return NULL;
  for (kiln_recorder *r = atomic_load(&l->recorders); r; r = r->next)
    if (is_of(r, k)) return r;
  kiln_recorder *r = create(k);
  if (!r) return NULL;
  r->next = atomic_load(&l->recorders);
  while (!atomic_compare_exchange_weak(&l->recorders, &r->next, r)) {
  }
  return r; // a second one that came meanwhile does no harm
}

// Of the values of which inputs: another device's table may have others.
static uint64_t hash_of(const kiln_tuned *t, const uint8_t *values) {
  uint64_t h = 0xcbf29ce484222325u;
  for (uint32_t i = 0; i < t->input_count; i++) {
    h = (h ^ (t->inputs[i].offset << 2 | (uint32_t)t->inputs[i].kind)) * 0x100000001b3u;
    h = (h ^ values[i]) * 0x100000001b3u;
  }
  h ^= h >> 29;
  return h ? h : 1;
}

void kiln_recorder_note(const kiln_tuned *t, const uint8_t *values, const uint8_t *block) {
  kiln_recorder *r = t->recorder;
  uint64_t hash = hash_of(t, values);
  for (uint32_t i = 0; i < PROBES; i++) {
    uint32_t at = (uint32_t)(hash + i) % KILN_RECORDED_SHAPES;
    uint64_t there = atomic_load_explicit(&r->hashes[at], memory_order_relaxed);
    if (!there && atomic_compare_exchange_strong(&r->hashes[at], &there, hash)) {
      memcpy(r->blocks + (size_t)at * r->block_size, block, r->block_size);
      atomic_store_explicit(&r->is_whole[at], true, memory_order_release);
      return;
    }
    if (there == hash) return;
  }
  atomic_fetch_add_explicit(&r->lost, 1, memory_order_relaxed);
}

// ----------------------------------------------------------------------------------------- writing

static float half_to_float(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16, rest = bits & 0x7fff;
  union {
    uint32_t bits;
    float value;
  } word = {.bits = rest << 13}; // scaled by 2^-112
  word.value *= 0x1p112f;
  if (rest >= 0x7c00) word.bits |= 0x7f800000;
  word.bits |= sign;
  return word.value;
}

// False: a type that is no argument's in practice; whoever reads the file asks for it.
static bool write_float(kiln_scalar scalar, const uint8_t *at, kiln_buffer *out) {
  uint32_t bits = scalar == KILN_F32 ? kiln_le32(at) : (uint32_t)kiln_le16(at) << 16;
  uint64_t wide = scalar == KILN_F64 ? kiln_le64(at) : 0;
  float value;
  double number;
  memcpy(&value, &bits, sizeof value);
  memcpy(&number, &wide, sizeof number);
  kiln_float_all was = kiln_float_enter_all(); // the caller may flush denormals, and round otherwise
  if (scalar == KILN_F16) value = half_to_float(kiln_le16(at));
  if (scalar == KILN_F64) kiln_buffer_format(out, "%.17g", number);
  else kiln_buffer_format(out, "%.9g", (double)value);
  kiln_float_leave_all(&was);
  return scalar == KILN_F32 || scalar == KILN_F64 || scalar == KILN_F16 || scalar == KILN_BF16;
}

static void write_view(const param *p, const uint8_t *at, kiln_buffer *out) {
  for (unsigned i = 0; i < 2u * p->view_rank; i++)
    kiln_buffer_format(out, "%s%lld",
                       !i                  ? "["
                       : i == p->view_rank ? ";"
                                           : ",",
                       (long long)kiln_le64(at + 8 + 8 * (size_t)i));
  kiln_buffer_u8(out, ']');
}

// " n=1000"; nothing of what cannot be said: where a buffer lies and what is in it.
static void write_argument(const param *p, const uint8_t *block, kiln_buffer *out) {
  const uint8_t *at = block + p->offset;
  size_t begin = out->size;
  bool is_said = true;
  kiln_buffer_format(out, " %s=", p->name);
  if (p->view_rank) write_view(p, at, out);
  else if (p->pointer) {
    is_said = !kiln_le64(at);
    kiln_buffer_format(out, "null");
  } else if (kiln_scalars[p->scalar].type_class & (KILN_CLASS_INT | KILN_CLASS_BOOL))
    kiln_buffer_format(out, "%lld", (long long)kiln_read_integer(at, p->size, p->scalar != KILN_I1));
  else is_said = write_float(p->scalar, at, out);
  if (!is_said) out->size = begin;
}

typedef struct lines {
  char **all; // owned
  size_t count, capacity;
  bool failed;
} lines;

// A name with a line end would begin a line of its own.
static bool has_lines(const kiln_recorder *r) {
  bool has = !kiln_is_plain(r->name);
  for (uint32_t i = 0; i < r->param_count; i++) has |= !kiln_is_plain(r->params[i].name);
  return has;
}

static void add_line(lines *l, const kiln_recorder *r, const uint8_t *block) {
  kiln_buffer text = {0};
  kiln_buffer_format(&text, "%s", r->name);
  for (uint32_t i = 0; i < r->param_count; i++) write_argument(&r->params[i], block, &text);
  kiln_buffer_format(&text, "\n");
  kiln_buffer_u8(&text, 0);
  if (l->count == l->capacity) {
    size_t capacity = l->capacity ? 2 * l->capacity : 64;
    char **more = realloc(l->all, capacity * sizeof *more);
    if (more) l->all = more, l->capacity = capacity;
  }
  l->failed |= text.failed || l->count == l->capacity;
  if (l->failed) kiln_buffer_deinit(&text);
  else l->all[l->count++] = (char *)text.bytes;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static kiln_status write_lines(const lines *l, unsigned lost, const char *path, kiln_error *err) {
  kiln_buffer text = {0};
  kiln_buffer_format(&text, "# kiln shapes: met without a tuned choice; for `kiln tune --record`\n");
  if (lost) kiln_buffer_format(&text, "# %u launches more were of shapes that had no room\n", lost);
  for (size_t i = 0; i < l->count; i++)
    if (!i || strcmp(l->all[i], l->all[i - 1])) kiln_buffer_format(&text, "%s", l->all[i]);
  kiln_status status = text.failed || l->failed
                           ? kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "%s: memory is exhausted", path)
                           : kiln_output_write(path, text.bytes, text.size, err);
  kiln_buffer_deinit(&text);
  return status;
}

kiln_status kiln_more_record_shapes(kiln_library *l, const char *path, kiln_error *err) {
  if (!l || atomic_load(&l->is_closed) || !path || !*path)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "kiln_record_shapes needs an open library and a path, found %s",
                     !l                           ? "no library"
                     : atomic_load(&l->is_closed) ? "a library that is closed"
                                                  : "no path");
  char *copy = strdup(path);
  if (!copy) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "%s: memory is exhausted", path);
  free(l->record_path);
  l->record_path = copy;
  return KILN_OK;
}

kiln_status kiln_more_write_shapes(kiln_library *l, kiln_error *err) {
  if (!l || atomic_load(&l->is_closed) || !l->record_path)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "kiln_write_shapes: nothing is recorded; call kiln_record_shapes before");
  lines all = {0};
  unsigned lost = 0;
  for (kiln_recorder *r = atomic_load(&l->recorders); r; r = r->next) {
    if (has_lines(r)) continue;
    lost += atomic_load(&r->lost);
    for (size_t i = 0; i < KILN_RECORDED_SHAPES; i++)
      if (atomic_load_explicit(&r->is_whole[i], memory_order_acquire))
        add_line(&all, r, r->blocks + i * r->block_size);
  }
  if (all.count) qsort(all.all, all.count, sizeof *all.all, by_text);
  kiln_status status = write_lines(&all, lost, l->record_path, err);
  for (size_t i = 0; i < all.count; i++) free(all.all[i]);
  free(all.all);
  return status;
}
