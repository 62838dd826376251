// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Generates kernels that read what they have written: loads, stores and atomics of two parameters, in drawn
// orders, at drawn places, in loops and branches. One thread often loads an element that another one
// stored. They are made as text in the kernel language; all values are small integers, so no order of
// additions can change a result, and no store writes an element twice.
#include <string.h>

#include "compiler/front.h"
#include "tests/harness.h"
#include "tests/kernelgen.h"

enum {
  REGION = 1 << 15, // elements of a buffer that belong to a program
  MOST_VALUES = 24,
  MOST_DEPTH = 3
};

typedef struct shape {
  unsigned rows, columns; ///< rows 0: one axis
} shape;

typedef struct value {
  unsigned number;
  bool is_scalar;
  shape shape;
} value;

typedef struct writer {
  uint64_t seed;
  kiln_buffer text;
  value values[MOST_VALUES];
  unsigned value_count, numbers, depth, left; ///< left: statements that may still be written
  const char *scalar;
  bool is_one_buffer; ///< q is p: loads go through q, stores through p
} writer;

static unsigned below(writer *w, unsigned n) { return (unsigned)((kiln_test_random(&w->seed) >> 33) % n); }
static bool chance(writer *w, unsigned percent) { return below(w, 100) < percent; }

#define PUT(...) kiln_buffer_format(&w->text, __VA_ARGS__)

static void indent(writer *w) { PUT("%*s", 2 + 2 * (int)w->depth, ""); }

static shape random_shape(writer *w) {
  static const shape shapes[] = {{0, 16},  {0, 64},  {0, 256}, {0, 1024}, {8, 8},   {16, 16}, {32, 32},
                                 {64, 32}, {32, 64}, {64, 64}, {4, 128},  {128, 4}, {16, 64}};
  return shapes[below(w, sizeof shapes / sizeof *shapes)];
}

static unsigned elements(shape s) { return s.rows ? s.rows * s.columns : s.columns; }
static bool same_shape(shape a, shape b) { return a.rows == b.rows && a.columns == b.columns; }

static void put_lanes(writer *w, shape s, const char *axis) {
  if (!s.rows) PUT("iota(%u)", s.columns);
  else if (*axis == 'i') PUT("iota(%u)[:, _]", s.rows);
  else PUT("iota(%u)[_, :]", s.columns);
}

/// An offset of each element, no two alike, below 4 * elements.
static void put_pattern(writer *w, shape s) {
  const unsigned n = s.columns;
  if (!s.rows) {
    switch (below(w, 6)) {
    case 0: PUT("(%u - iota(%u))", n - 1, n); return;
    case 1: PUT("(iota(%u) ^ %u)", n, 1 + below(w, n - 1)); return;
    case 2: PUT("iota(%u) * %u", n, 2 + below(w, 2)); return;
    case 3: PUT("(iota(%u) * %u & %u)", n, 2 * below(w, 8) + 1, n - 1); return;
    default: PUT("iota(%u)", n); return;
    }
  }
  const unsigned pad = chance(w, 30) ? 1 + below(w, 8) : 0, form = below(w, 5);
  const unsigned inner = form == 1 ? s.rows : s.columns;
  const char *outer_axis = form == 1 ? "j" : "i", *inner_axis = form == 1 ? "i" : "j";
  PUT("(");
  if (form == 2) PUT("(%u - ", s.rows - 1);
  put_lanes(w, s, outer_axis);
  if (form == 2) PUT(")");
  PUT(" * %u + ", inner + pad);
  if (form == 3) PUT("(%u - ", s.columns - 1);
  put_lanes(w, s, inner_axis);
  if (form == 3) PUT(")");
  PUT(")");
}

/// A pointer of the program's region; inside of loops it may move with their counters.
static void put_pointer(writer *w, const shape *s, bool is_load) {
  static const unsigned shifts[] = {0, 0, 0, 1, 7, 16, 64, 512, 1024};
  const bool is_p = w->is_one_buffer ? !is_load : chance(w, 70);
  PUT("%s + (o + %u", is_p ? "p" : "q", shifts[below(w, 9)]);
  if (w->depth && chance(w, 50)) {
    const unsigned steps[] = {1, 3, s ? s->columns : 2, s ? elements(*s) : 8, 64};
    PUT(" + k%u", below(w, w->depth));
    PUT(" * %u", steps[below(w, 5)]);
  }
  if (s) PUT(" + "), put_pattern(w, *s);
  PUT(")");
}

static const value *find_value(writer *w, bool is_scalar, shape s) {
  const value *found = NULL;
  unsigned seen = 0;
  for (unsigned i = 0; i < w->value_count; i++) {
    const value *v = &w->values[i];
    if (v->is_scalar == is_scalar && (is_scalar || same_shape(v->shape, s)) && !below(w, ++seen)) found = v;
  }
  return found;
}

static void put_expression(writer *w, bool is_scalar, shape s) {
  const value *v = find_value(w, is_scalar, s), *c = find_value(w, true, s);
  PUT("(");
  if (v) PUT("v%u * %u", v->number, 1 + 2 * below(w, 3));
  else if (is_scalar) PUT("%u", below(w, 60));
  else {
    put_lanes(w, s, "j");
    if (s.rows) PUT(" * 3 + "), put_lanes(w, s, "i");
  }
  if (c && chance(w, 40)) PUT(" + v%u", c->number);
  PUT(" + %u & 63)", below(w, 60));
}

static void put_mask(writer *w, shape s) {
  if (!chance(w, 25)) return;
  PUT(", ");
  put_lanes(w, s, "j");
  PUT(" < %u", s.columns / 2 + below(w, s.columns / 2 + 1));
  if (!s.rows) return;
  PUT(" & (");
  put_lanes(w, s, "i");
  PUT(" < %u)", s.rows / 2 + below(w, s.rows / 2 + 1));
}

static void keep(writer *w, unsigned number, bool is_scalar, shape s) {
  if (w->value_count < MOST_VALUES) w->values[w->value_count++] = (value){number, is_scalar, s};
}

static void write_load(writer *w) {
  const bool is_scalar = chance(w, 20);
  const shape s = random_shape(w);
  indent(w);
  PUT("let v%u = load(", w->numbers);
  put_pointer(w, is_scalar ? NULL : &s, true);
  if (!is_scalar) put_mask(w, s);
  PUT(") as i32\n");
  keep(w, w->numbers++, is_scalar, s);
}

static void write_store(writer *w) {
  const bool is_scalar = chance(w, 20);
  const shape s =
      w->value_count && chance(w, 70) ? w->values[below(w, w->value_count)].shape : random_shape(w);
  const bool is_atomic = !strcmp(w->scalar, "i32") && chance(w, 15);
  const bool is_kept = is_atomic && chance(w, 40);
  if (w->is_one_buffer) indent(w), PUT("barrier()\n"); // of different parameters a store waits for no load
  indent(w);
  if (is_kept) PUT("let v%u = ", w->numbers);
  PUT(is_atomic ? "atomic.add(" : "store(");
  put_pointer(w, is_scalar ? NULL : &s, false);
  PUT(", ");
  put_expression(w, is_scalar, s);
  PUT(" as %s", w->scalar);
  if (!is_scalar) put_mask(w, s);
  PUT(")\n");
  if (is_kept) keep(w, w->numbers++, is_scalar, s);
}

/// What changes a tile's layout on its way: another shape, a product, a sum.
static void write_value(writer *w) {
  if (!w->value_count) return;
  const value v = w->values[below(w, w->value_count)];
  shape s = v.shape;
  if (v.is_scalar) return;
  const bool is_product = s.rows >= 16 && s.columns >= 16 && chance(w, 60);
  const bool is_turned = !is_product && s.rows && chance(w, 50);
  indent(w);
  PUT("let v%u = ", w->numbers);
  if (is_product) {
    PUT("dot((v%u & 3) as f16, (trans(v%u) & 3) as f16) as i32 & 63\n", v.number, v.number);
    s.columns = s.rows;
  } else if (is_turned) {
    PUT("trans(v%u)\n", v.number);
    s = (shape){s.columns, s.rows};
  } else if (!s.rows) PUT("reduce.add(v%u, 0) & 63\n", v.number);
  else {
    PUT("reduce.%s(v%u, 1) & 63\n", chance(w, 50) ? "add" : "max", v.number);
    s = (shape){0, s.rows};
  }
  keep(w, w->numbers++, !v.shape.rows && !is_product && !is_turned, s);
}

static void write_block(writer *w);

/// The block after `head`. Each has a counter; that of a branch is 0.
static void write_inner(writer *w, bool is_branch) {
  const unsigned kept = w->value_count;
  PUT(" {\n");
  w->depth++;
  if (is_branch) indent(w), PUT("let k%u = 0\n", w->depth - 1);
  write_block(w);
  w->depth--;
  w->value_count = kept;
  indent(w);
  PUT("}\n");
}

static void write_loop(writer *w) {
  indent(w);
  PUT("for k%u in 0 .. %s", w->depth, chance(w, 50) ? "n" : chance(w, 80) ? "3" : "1");
  write_inner(w, false);
}

static void write_if(writer *w) {
  const value *v = find_value(w, true, (shape){0, 0});
  indent(w);
  if (v) PUT("if v%u < %u", v->number, below(w, 64));
  else PUT("if n > %u", below(w, 4));
  write_inner(w, true);
}

static void write_block(writer *w) {
  const unsigned count = 2 + below(w, 4);
  for (unsigned i = 0; i < count && w->left; i++) {
    w->left--;
    const unsigned what = below(w, 100);
    if (what < 32) write_load(w);
    else if (what < 66) write_store(w);
    else if (what < 80) write_value(w);
    else if (what < 93 && w->depth < MOST_DEPTH) write_loop(w);
    else if (what < 98 && w->depth < MOST_DEPTH) write_if(w);
    else if (what == 98) indent(w), PUT("barrier()\n");
  }
}

static bool is_one_buffer(uint64_t seed) { return seed % 3 == 0; }

void kernelgen_rereads_share(uint64_t seed, uint8_t *args) {
  enum { ALIGNMENT = 16, MOST_APART = 8 };
  uint64_t address;
  if (!is_one_buffer(seed)) return;
  memcpy(&address, args, sizeof address);
  address += seed / 3 % MOST_APART * ALIGNMENT;
  memcpy(args + sizeof address, &address, sizeof address);
}

void kernelgen_rereads_text(uint64_t seed, kiln_buffer *out) {
  static const char *const scalars[] = {"i32", "i32", "f32", "i16", "i8"};
  writer made = {.seed = seed * 0x9e3779b97f4a7c15u + 1, .left = 26}, *w = &made;
  w->is_one_buffer = is_one_buffer(seed);
  for (unsigned i = 0; i < 4; i++) kiln_test_random(&w->seed);
  w->scalar = scalars[below(w, 5)];
  PUT("kiln 1\nkernel rereads(p: inout *%s @align(16), q: inout *%s @align(16), n: i32 @range(1, 4)) "
      "@grid(2) "
      "@config(warps = %u) {\n  let o = pid(0) * %u\n",
      w->scalar, w->scalar, 1u << below(w, 4), REGION);
  while (w->left > 4) write_block(w);
  PUT("}\n");
  kiln_buffer_u8(&w->text, 0);
  *out = w->text;
}

ir_kernel *kernelgen_lower_text(kiln_arena *arena, uint64_t seed, kiln_buffer *text) {
  kiln_target target; // the text asks for none
  kiln_error err = {0};
  CHECK_OK(kiln_target_parse("sm_80", &target, &err), err);
  kiln_diagnostics d = {.arena = arena};
  const char *kept = kiln_arena_text(arena, (const char *)text->bytes, text->size - 1);
  kiln_buffer_deinit(text);
  kiln_unit *unit = kiln_unit_open(arena, "generated.kiln", kept, strlen(kept), NULL, &d);
  ir_kernel *kernel = unit ? kiln_unit_lower(unit, arena, 0, 0, 0, &target, &d) : NULL;
  if (!kernel)
    FAIL("seed %llu: line %u: %s\n%s", (unsigned long long)seed, d.items[0].line, d.items[0].text, kept);
  return kernel;
}

void kernelgen_make_rereads(kiln_arena *arena, uint64_t seed, kernelgen_case *out) {
  kiln_buffer text = {0};
  kernelgen_rereads_text(seed, &text);
  ir_kernel *kernel = kernelgen_lower_text(arena, seed, &text);
  *out = (kernelgen_case){.seed = seed, .kernel = kernel, .grid = {2, 1, 1}, .buffer_count = 2};
  for (unsigned i = 0; i < 2; i++)
    out->buffers[i] =
        (kernelgen_buffer){.scalar = kernel->params[i].type.scalar, .count = 2 * REGION, .written = true};
}
