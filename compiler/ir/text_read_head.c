// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What stands above the body in a kernel's text: the kernel, its parameters, layouts; and types.
#include <stdio.h>
#include <string.h>

#include "compiler/ir/text_read.h"

enum { MOST_WARPS = 64, MOST_NAME = 1000, MOST_PARAMS = 4096, MOST_LAYOUTS = 1 << 16, MOST_BYTES = 1 << 20 };

// ------------------------------------------------------------------------------------------- types

static bool read_extent(ir_reading *r, ir_type *type, unsigned *sum) {
  int64_t extent;
  if (type->rank == IR_MAX_RANK) return ir_words_fail(&r->w, "at most 12 axes");
  if (type->is_view && ir_words_take(&r->w, "_")) return type->log2[type->rank++] = IR_DROPPED, true;
  const ir_place place = r->w.place;
  if (!ir_words_number(&r->w, 1, 1 << IR_MAX_LOG2_ELEMENTS, &extent)) return false;
  if (extent & (extent - 1))
    return ir_words_fail_at(&r->w, place, "expected a power of two, found %d", (int)extent);
  const unsigned log2 = (unsigned)__builtin_ctzll((uint64_t)extent);
  *sum += log2;
  type->log2[type->rank++] = (uint8_t)log2;
  return *sum <= IR_MAX_LOG2_ELEMENTS ||
         ir_words_fail_at(&r->w, place, "expected at most %d elements in a tile, found more",
                          1 << IR_MAX_LOG2_ELEMENTS);
}

static bool read_scalar(ir_reading *r, ir_type *type) {
  for (unsigned i = 0; i < KILN_SCALAR_COUNT; i++)
    if (ir_words_take(&r->w, kiln_scalars[i].spelling)) return type->scalar = (uint8_t)i, true;
  return ir_words_fail(&r->w, "a type");
}

bool ir_read_type(ir_reading *r, ir_type *out) {
  unsigned sum = 0;
  int64_t slots;
  *out = (ir_type){0};
  out->is_view = ir_words_take(&r->w, "view");
  const bool is_shared = !out->is_view && ir_words_take(&r->w, "shared");
  while (out->pointer < 2 && ir_words_take(&r->w, "*")) out->pointer++;
  if (!read_scalar(r, out)) return false;
  if (out->is_view && out->pointer) return ir_words_fail(&r->w, "a view of elements, not of pointers");
  if (ir_words_take(&r->w, "[")) {
    do {
      if (!read_extent(r, out, &sum)) return false;
    } while (ir_words_take(&r->w, ","));
    if (!ir_words_expect(&r->w, "]")) return false;
  } else if (out->is_view) {
    return ir_words_fail(&r->w, "the tile of a view");
  }
  if (!is_shared) return r->w.error.status == KILN_OK;
  if (!ir_words_expect(&r->w, "x") || !ir_words_number(&r->w, 1, UINT8_MAX, &slots)) return false;
  out->slots = (uint8_t)slots;
  return true;
}

// ----------------------------------------------------------------------------------------- layouts

bool ir_read_layout(ir_reading *r, const kiln_layout **out) {
  uint64_t number = 0;
  *out = NULL;
  if (!ir_words_take(&r->w, "@")) return true;
  bool is_name = r->w.kind == IR_TOKEN_WORD && r->w.length > 1 && r->w.length < 8 && *r->w.start == 'l';
  for (size_t i = 1; is_name && i < r->w.length; i++) {
    is_name = r->w.start[i] >= '0' && r->w.start[i] <= '9';
    number = 10 * number + (uint64_t)(r->w.start[i] - '0');
  }
  if (!is_name || number >= r->layout_count)
    return ir_words_fail(&r->w, "a layout that is listed above the body");
  *out = r->layouts[number];
  ir_words_next(&r->w);
  return true;
}

static bool read_bases(ir_reading *r, kiln_layout *l) {
  uint8_t *const counts[] = {&l->registers, &l->lanes, &l->warps};
  unsigned used = 0;
  for (unsigned kind = 0; kind < 3; kind++) {
    if (kind && !ir_words_expect(&r->w, "|")) return false;
    while (r->w.kind == IR_TOKEN_NUMBER) {
      int64_t basis;
      if (used == LAYOUT_MAX_PLACES)
        return ir_words_fail(&r->w, "at most 32 bits of registers, lanes and warps");
      if (!ir_words_number(&r->w, 0, (1 << l->bits) - 1, &basis)) return false;
      l->basis[used++] = (uint32_t)basis;
      ++*counts[kind];
    }
  }
  return true;
}

/// "l0 of 128: (1 2 | 4 8 16 32 64 | 0 0)".
static bool read_layout_line(ir_reading *r) {
  char name[16];
  int64_t elements;
  kiln_layout *l = KILN_NEW(r->w.arena, kiln_layout);
  snprintf(name, sizeof name, "l%u", r->layout_count);
  if (r->layout_count == MOST_LAYOUTS) return ir_words_fail(&r->w, "at most 65536 layouts");
  if (!ir_words_expect(&r->w, name) || !ir_words_expect(&r->w, "of")) return false;
  const ir_place place = r->w.place;
  if (!ir_words_number(&r->w, 1, 1 << LAYOUT_MAX_BITS, &elements)) return false;
  if (elements & (elements - 1))
    return ir_words_fail_at(&r->w, place, "expected a power of two, found %d", (int)elements);
  l->bits = (uint8_t)__builtin_ctzll((uint64_t)elements);
  if (!ir_words_expect(&r->w, ":") || !ir_words_expect(&r->w, "(") || !read_bases(r, l)) return false;
  KILN_GROW(r->w.arena, r->layouts, r->layout_count, r->layout_capacity);
  r->layouts[r->layout_count++] = l;
  return ir_words_expect(&r->w, ")");
}

// -------------------------------------------------------------------------------------- parameters

static bool read_power(ir_reading *r, uint32_t *out) {
  int64_t n;
  const ir_place place = r->w.place;
  if (!ir_words_expect(&r->w, "=") || !ir_words_number(&r->w, 1, MOST_BYTES, &n)) return false;
  *out = (uint32_t)n;
  return !(n & (n - 1)) || ir_words_fail_at(&r->w, place, "expected a power of two, found %d", (int)n);
}

static bool read_range(ir_reading *r, ir_param *p) {
  p->has_range = true;
  return ir_words_expect(&r->w, "=") && ir_words_number(&r->w, INT64_MIN, INT64_MAX, &p->lo) &&
         ir_words_expect(&r->w, ".") && ir_words_expect(&r->w, ".") &&
         ir_words_number(&r->w, INT64_MIN, INT64_MAX, &p->hi);
}

static bool read_facts(ir_reading *r, ir_param *p) {
  while (r->w.kind == IR_TOKEN_WORD && r->w.place.line == r->w.last_line) {
    bool is_good;
    if (ir_words_take(&r->w, "noalias")) is_good = p->noalias = true;
    else if (p->type.pointer && ir_words_take(&r->w, "within")) is_good = p->within = true;
    else if (ir_words_take(&r->w, "align")) is_good = read_power(r, &p->align);
    else if (p->type.is_view && ir_words_take(&r->w, "rows")) is_good = read_power(r, &p->rows);
    else if (ir_words_take(&r->w, "div"))
      is_good = ir_words_expect(&r->w, "=") && ir_words_number(&r->w, 0, INT64_MAX, &p->div);
    else if (ir_words_take(&r->w, "range")) is_good = read_range(r, p);
    else return ir_words_fail(&r->w, "a fact of a parameter");
    if (!is_good) return false;
  }
  if (p->rows && p->rows < kiln_scalars[p->type.scalar].bytes)
    return ir_words_fail(&r->w, "rows of at least one element");
  return r->w.error.status == KILN_OK;
}

static bool read_param(ir_reading *r) {
  static const char *const modes[] = {"in", "out", "inout", "accum"};
  ir_name name;
  ir_param p = {.name = ""};
  if (r->kernel->param_count == MOST_PARAMS) return ir_words_fail(&r->w, "at most 4096 parameters");
  if (!ir_read_name(r, &name)) return false;
  if (r->w.kind == IR_TOKEN_WORD) {
    p.name = kiln_arena_text(r->w.arena, r->w.start, r->w.length);
    ir_words_next(&r->w);
  } else if (r->w.kind == IR_TOKEN_TEXT && !ir_words_text(&r->w, &p.name)) {
    return false;
  }
  if (!ir_words_expect(&r->w, ":")) return false;
  for (unsigned i = 0; i < 4 && !p.access; i++)
    if (ir_words_take(&r->w, modes[i])) p.access = (uint8_t)(i + 1);
  const ir_place place = r->w.place;
  if (!ir_read_type(r, &p.type)) return false;
  if (p.type.slots || (p.type.rank && !p.type.is_view))
    return ir_words_fail_at(&r->w, place, "expected a scalar, a pointer or a view as parameter");
  return read_facts(r, &p) && ir_define_name(r, &name, ir_add_param(r->kernel, &p));
}

// ------------------------------------------------------------------------------------------ kernel

static bool read_small(ir_reading *r, int64_t least, int64_t most, uint16_t *out) {
  int64_t n;
  if (!ir_words_expect(&r->w, "=") || !ir_words_number(&r->w, least, most, &n)) return false;
  *out = (uint16_t)n;
  return true;
}

static bool read_grid(ir_reading *r, int64_t limit[3]) {
  if (!ir_words_expect(&r->w, "=")) return false;
  for (unsigned i = 0; i < 3; i++)
    if ((i && !ir_words_expect(&r->w, ",")) || !ir_words_number(&r->w, 0, INT64_MAX, &limit[i])) return false;
  return true;
}

static bool read_tested(ir_reading *r, uint32_t limit[3]) {
  int64_t n;
  if (!ir_words_expect(&r->w, "=")) return false;
  for (unsigned i = 0; i < 3; i++) {
    if ((i && !ir_words_expect(&r->w, ",")) || !ir_words_number(&r->w, 0, UINT32_MAX, &n)) return false;
    limit[i] = (uint32_t)n;
  }
  return true;
}

static bool read_kernel_facts(ir_reading *r) {
  ir_kernel *k = r->kernel;
  while (r->w.kind == IR_TOKEN_WORD && r->w.place.line == r->kernel_line) {
    bool is_good;
    if (ir_words_take(&r->w, "warps")) is_good = read_small(r, 1, MOST_WARPS, &k->warps);
    else if (ir_words_take(&r->w, "stages")) is_good = read_small(r, 0, UINT16_MAX, &k->stages);
    else if (ir_words_take(&r->w, "registers")) is_good = read_small(r, 0, UINT16_MAX, &k->max_registers);
    else if (ir_words_take(&r->w, "strict")) is_good = k->fp_strict = true;
    else if (ir_words_take(&r->w, "flush")) is_good = k->fp_flush = true;
    else if (ir_words_take(&r->w, "groups_beside")) is_good = k->groups_beside = true;
    else if (ir_words_take(&r->w, "grid")) is_good = read_grid(r, k->grid_limit);
    else if (ir_words_take(&r->w, "tested")) is_good = read_tested(r, k->tests.programs);
    else return ir_words_fail(&r->w, "a fact of the kernel");
    if (!is_good) return false;
  }
  if (k->warps & (k->warps - 1))
    return ir_words_fail_at(&r->w, (ir_place){.line = r->kernel_line, .column = 1},
                            "expected a power of two of warps, found %u", k->warps);
  return r->w.error.status == KILN_OK;
}

/// Lines that begin with a word: layouts, and those of notes.
static bool read_line(ir_reading *r) {
  char word[16];
  const uint32_t line = r->w.place.line;
  if (ir_words_take(&r->w, "layout")) return read_layout_line(r);
  if (ir_words_take(&r->w, "condition")) return ir_read_condition(r, line);
  snprintf(word, sizeof word, "%.*s", (int)(r->w.length < 15 ? r->w.length : 15), r->w.start);
  if (r->notes && r->w.length < 15) {
    const ir_place place = r->w.place;
    ir_words_next(&r->w);
    if (r->notes->read_line(r, word)) return true;
    return ir_words_fail_at(&r->w, place, "expected a parameter, a layout or '{', found '%s'", word);
  }
  return ir_words_fail(&r->w, "a parameter, a layout or '{'");
}

bool ir_read_head(ir_reading *r) {
  if (!ir_words_expect(&r->w, "kernel")) return false;
  if (r->w.kind != IR_TOKEN_WORD || memchr(r->w.start, '.', r->w.length) ||
      memchr(r->w.start, '-', r->w.length))
    return ir_words_fail(&r->w, "the name of the kernel");
  if (r->w.length > MOST_NAME) return ir_words_fail(&r->w, "a name of at most 1000 characters");
  r->kernel = ir_kernel_create(r->w.arena, kiln_arena_text(r->w.arena, r->w.start, r->w.length));
  ir_words_next(&r->w);
  if (!read_kernel_facts(r)) return false;
  while (r->w.kind == IR_TOKEN_VALUE)
    if (!read_param(r)) return false;
  while (r->w.kind == IR_TOKEN_WORD)
    if (!read_line(r)) return false;
  return r->w.error.status == KILN_OK;
}
