// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The generator: a pool of values, a table of statements that take from it and add to it, buffers at the
// ends.
#include "tests/kernelgen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness.h"

enum { POOL = 256, INPUT_ELEMENTS = 2048, MAX_LOG2 = 8 };

typedef struct generator {
  kiln_arena *arena;
  const kernelgen_options *options;
  kernelgen_case *c;
  ir_kernel *kernel;
  ir_builder b;
  uint64_t random;
  ir_value *pool[POOL];
  uint32_t pool_count;
  ir_value *inputs[KERNELGEN_BUFFERS];
  uint32_t input_count, depth, statement;
  ir_value *program, *small; // linear program id; a scalar parameter in 1 .. 4
} generator;

// ---------------------------------------------------------------------------------------- choosing

static uint32_t below(generator *g, uint32_t n) { return (uint32_t)(kiln_test_random(&g->random) % n); }
static bool chance(generator *g, uint32_t percent) { return below(g, 100) < percent; }

static ir_type tile(kiln_scalar scalar, unsigned rank, const uint8_t *log2) {
  ir_type type = {.scalar = (uint8_t)scalar, .rank = (uint8_t)rank};
  memcpy(type.log2, log2, rank);
  return type;
}

static ir_type random_shape(generator *g) {
  static const struct {
    uint8_t rank, log2[3];
  } shapes[] = {
      {1, {5}},    {1, {7}},    {1, {4}},       {1, {8}},    {2, {3, 4}}, {2, {4, 4}},
      {2, {5, 3}}, {2, {0, 5}}, {3, {1, 3, 2}}, {2, {4, 1}}, {1, {1}},    {0, {0}},
  };
  uint32_t i = below(g, sizeof shapes / sizeof *shapes);
  return tile(KILN_I32, shapes[i].rank, shapes[i].log2);
}

static kiln_scalar random_scalar(generator *g) { return (kiln_scalar)below(g, KILN_SCALAR_COUNT); }

static kiln_scalar random_of(generator *g, unsigned classes) {
  kiln_scalar s;
  do s = random_scalar(g);
  while (!(kiln_scalars[s].type_class & classes));
  return s;
}

static bool is_half(ir_type type) { return type.scalar == KILN_F16 || type.scalar == KILN_BF16; }

static ir_value *keep(generator *g, ir_value *v) {
  if (!v) FAIL("seed %llu, statement %u: %s", (unsigned long long)g->c->seed, g->statement, g->b.error.text);
  if (g->pool_count < POOL) g->pool[g->pool_count++] = v;
  return v;
}

/// A value of one of the classes, later ones being likelier; NULL when there is none.
static ir_value *pick(generator *g, unsigned classes) {
  ir_value *found = NULL;
  uint32_t seen = 0;
  for (uint32_t i = g->pool_count; i-- > 0 && seen < 12;) {
    if (!(ir_type_class(g->pool[i]->type) & classes) || g->pool[i]->type.pointer) continue;
    if (g->options->no_half_steps && is_half(g->pool[i]->type)) continue;
    if (below(g, ++seen) == 0) found = g->pool[i];
  }
  return found;
}

// ------------------------------------------------------------------------------------------ making

static ir_value *constant(generator *g, ir_type like, double n) { return ir_const_like(&g->b, like, n); }
static ir_value *binary(generator *g, ir_opcode code, ir_value *a, ir_value *b) {
  return ir_binary(&g->b, code, 0, a, b);
}
static ir_value *cast(generator *g, ir_value *v, kiln_scalar to) {
  return v->type.scalar == to ? v : ir_cast(&g->b, v, to, 0, 0);
}

static ir_value *shaped(generator *g, ir_value *flat, ir_type type) {
  return ir_same_shape(flat->type, type) ? flat : ir_reshape(&g->b, flat, type);
}

/// 0, 1, 2, ... in the shape.
static ir_value *lanes(generator *g, ir_type shape) {
  if (!shape.rank) return ir_const_int(&g->b, KILN_I32, 0);
  return shaped(g, ir_iota(&g->b, ir_log2_elements(shape)), shape);
}

static ir_value *spread(generator *g, ir_value *scalar, ir_type shape) {
  return shape.rank ? ir_splat(&g->b, scalar, shape) : scalar;
}

/// Small whole numbers 0 .. top (a power of two less one) in any type, different from lane to lane and
/// program to program.
static ir_value *whole_numbers(generator *g, ir_type type, int64_t top) {
  ir_type shape = ir_with_element(type, ir_scalar_type(KILN_I32));
  ir_value *v = binary(g, IR_ADD, lanes(g, shape), spread(g, g->program, shape));
  v = binary(g, IR_ADD, binary(g, IR_MUL, v, constant(g, shape, 2 * below(g, 50) + 1)),
             constant(g, shape, below(g, 100)));
  ir_value *source = chance(g, 60) ? pick(g, KILN_CLASS_INT) : NULL;
  if (source && ir_same_shape(source->type, shape)) v = binary(g, IR_XOR, v, cast(g, source, KILN_I32));
  v = binary(g, IR_AND, binary(g, IR_XOR, v, ir_binary(&g->b, IR_SHR, IR_UNSIGNED, v, constant(g, shape, 5))),
             constant(g, shape, (double)top));
  return cast(g, v, type.scalar);
}

/// A value of exactly this type.
static ir_value *pick_like(generator *g, ir_type type) {
  uint32_t start = g->pool_count ? below(g, g->pool_count) : 0;
  for (uint32_t i = 0; i < g->pool_count; i++) {
    ir_value *v = g->pool[(start + i) % g->pool_count];
    if (ir_type_equal(v->type, type)) return v;
  }
  return whole_numbers(g, type, type.scalar == KILN_I1 ? 1 : 127);
}

static ir_value *pick_any(generator *g, unsigned classes) {
  ir_value *v = chance(g, 90) ? pick(g, classes) : NULL;
  return v ? v
           : keep(g, whole_numbers(g, ir_with_element(random_shape(g), ir_scalar_type(random_of(g, classes))),
                                   63));
}

/// First element offset of this program in a buffer of `elements` a program.
static ir_value *own_offsets(generator *g, ir_type shape) {
  ir_type index = ir_with_element(shape, ir_scalar_type(KILN_I32));
  ir_value *base =
      binary(g, IR_MUL, g->program, ir_const_int(&g->b, KILN_I32, (int64_t)1 << ir_log2_elements(shape)));
  return binary(g, IR_ADD, spread(g, base, index), lanes(g, index));
}

static uint32_t programs(const generator *g) { return g->c->grid[0] * g->c->grid[1] * g->c->grid[2]; }

static ir_value *add_buffer(generator *g, kiln_scalar scalar, size_t count, bool written) {
  uint32_t i = g->c->buffer_count++;
  g->c->buffers[i] = (kernelgen_buffer){scalar, count, written};
  return ir_add_param(g->kernel, &(ir_param){.name = kiln_arena_format(g->arena, "b%u", i),
                                             .type = ir_pointer_type(scalar),
                                             .access = written ? IR_ACCESS_INOUT : IR_ACCESS_IN,
                                             .align = 64});
}

static ir_value *pointers(generator *g, ir_value *base, ir_value *offsets) {
  ir_type type = ir_with_element(offsets->type, base->type);
  return binary(g, IR_PTRADD, spread(g, base, type), offsets);
}

// -------------------------------------------------------------------------------------- statements

static void state_load(generator *g) {
  ir_value *base = g->inputs[below(g, g->input_count)], *operands[3];
  ir_type shape = random_shape(g), value = ir_with_element(shape, ir_pointee(base->type));
  ir_value *index = binary(g, IR_ADD, lanes(g, shape), constant(g, shape, below(g, 64)));
  if (chance(g, 40))
    index = binary(g, IR_AND, binary(g, IR_MUL, index, constant(g, shape, 2 * below(g, 20) + 1)),
                   constant(g, shape, INPUT_ELEMENTS - 1));
  if (chance(g, 30)) index = cast(g, index, KILN_I64);
  uint32_t count = 1;
  operands[0] = pointers(g, base, index);
  if (chance(g, 50))
    operands[count++] = ir_compare(&g->b, (ir_predicate)below(g, 6), 0, cast(g, index, KILN_I32),
                                   constant(g, shape, below(g, 200)));
  if (count == 2 && chance(g, 50))
    operands[count++] = whole_numbers(g, value, value.scalar == KILN_I1 ? 1 : 63);
  ir_op *op = ir_emit(&g->b, IR_LOAD, NULL, operands, count, NULL, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
}

/// `view` or one with a column less, by a condition that is not known.
static ir_value *other_view(generator *g, ir_value *view, unsigned rank) {
  ir_value *parts[5];
  parts[0] = &ir_emit(&g->b, IR_VIEW_BASE, NULL, &view, 1, NULL, NULL, 0)->results[0];
  for (unsigned i = 0; i < 2 * rank; i++) {
    ir_attrs axis = {.axis = (uint8_t)(i % rank)};
    ir_opcode part = i < rank ? IR_DIM : IR_VIEW_STRIDE;
    parts[1 + i] = &ir_emit(&g->b, part, &axis, &view, 1, NULL, NULL, 0)->results[0];
  }
  parts[rank] = binary(g, IR_SUB, parts[rank], ir_const_int(&g->b, KILN_I64, 1));
  ir_op *made = ir_emit(&g->b, IR_VIEW, NULL, parts, 1 + 2 * rank, &view->type, NULL, 0);
  ir_value *test = ir_compare(&g->b, (ir_predicate)below(g, 6), 0, g->small,
                              ir_const_int(&g->b, KILN_I32, 1 + below(g, 4)));
  return ir_ternary(&g->b, IR_SELECT, 0, test, view, &made->results[0]);
}

/// Some accesses take only the first elements along an axis. Drawn beside the other numbers, so that kernels
/// of a seed are otherwise what they were.
static void draw_first(const generator *g, ir_type view, ir_attrs *attrs) {
  uint64_t beside = g->random ^ 0x6669727374;
  ir_type tile = ir_view_tile(view);
  uint32_t drawn = (uint32_t)(kiln_test_random(&beside) >> 16);
  if (!tile.rank || drawn % 4) return;
  uint8_t axis = (uint8_t)(drawn / 4 % tile.rank);
  uint32_t extent = 1u << tile.log2[axis];
  if (extent < 2) return;
  attrs->axis = axis;
  attrs->first = 1 + drawn / 64 % (extent - 1);
}

static void state_view_load(generator *g) {
  ir_value *base = g->inputs[below(g, g->input_count)], *operands[8];
  unsigned rank = 1 + below(g, 2);
  ir_type view = {.scalar = base->type.scalar, .is_view = 1, .rank = (uint8_t)rank};
  uint32_t count = 0;
  operands[count++] = base;
  for (unsigned i = 0; i < rank; i++)
    view.log2[i] = rank == 2 && i == 0 && chance(g, 25) ? IR_DROPPED : (uint8_t)(2 + below(g, 3));
  for (unsigned i = 0; i < rank; i++) operands[count++] = ir_const_int(&g->b, KILN_I64, 1 + below(g, 40));
  for (unsigned i = 0; i < rank; i++)
    operands[count++] = ir_const_int(&g->b, KILN_I64, i + 1 == rank ? 1 : 45);
  ir_op *made = ir_emit(&g->b, IR_VIEW, NULL, operands, count, &view, NULL, 0);
  keep(g, made ? &made->results[0] : NULL);
  operands[0] = g->pool[--g->pool_count];
  if (chance(g, 40)) operands[0] = other_view(g, operands[0], rank);
  count = 1;
  for (unsigned i = 0; i < rank; i++)
    operands[count++] = ir_const_int(&g->b, KILN_I64, (int64_t)below(g, 40) - 8);
  ir_attrs attrs = {.flags = chance(g, 50) ? IR_HAS_OTHER : 0};
  if (attrs.flags) operands[count++] = whole_numbers(g, ir_scalar_type(view.scalar), 1);
  draw_first(g, view, &attrs);
  ir_op *op = ir_emit(&g->b, IR_VIEW_LOAD, &attrs, operands, count, NULL, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
  if (chance(g, 80)) return;
  op = ir_emit(&g->b, IR_DIM, &(ir_attrs){.axis = (uint8_t)below(g, rank)}, operands, 1, NULL, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
}

static void state_integer(generator *g) {
  static const ir_opcode codes[] = {IR_ADD, IR_SUB, IR_MUL, IR_MIN, IR_MAX, IR_AND,  IR_OR,
                                    IR_XOR, IR_SHL, IR_SHR, IR_DIV, IR_REM, IR_MULHI};
  ir_value *a = pick_any(g, KILN_CLASS_INT), *b = pick_like(g, a->type);
  ir_opcode code = codes[below(g, sizeof codes / sizeof *codes)];
  if (code == IR_MULHI && ir_type_bits(a->type) < 32) code = IR_SUB;
  if (code == IR_DIV || code == IR_REM) b = binary(g, IR_OR, b, constant(g, b->type, 1));
  keep(g, ir_binary(&g->b, code, chance(g, 30) ? IR_UNSIGNED : 0, a, b));
}

static void state_boolean(generator *g) {
  static const ir_opcode codes[] = {IR_AND, IR_OR, IR_XOR};
  ir_value *a = pick_any(g, KILN_CLASS_BOOL);
  keep(g, binary(g, codes[below(g, 3)], a, pick_like(g, a->type)));
}

static void state_float(generator *g) {
  static const ir_opcode codes[] = {IR_ADD, IR_SUB, IR_MUL, IR_DIV, IR_MIN,
                                    IR_MAX, IR_ADD, IR_SUB, IR_MUL, IR_REM};
  ir_value *a = pick_any(g, KILN_CLASS_FLOAT);
  ir_opcode code = codes[below(g, 10)];
  if (g->options->no_half_steps && is_half(a->type)) return;
  uint32_t flags = code == IR_DIV                                        ? IR_PRECISE
                   : (code == IR_MIN || code == IR_MAX) && chance(g, 40) ? IR_NAN
                                                                         : 0;
  keep(g, ir_binary(&g->b, code, flags, a, pick_like(g, a->type)));
}

static void state_unary(generator *g) {
  static const ir_opcode plain[] = {IR_ABS, IR_FLOOR, IR_CEIL, IR_ROUND, IR_SQRT};
  static const ir_opcode maths[] = {IR_EXP2, IR_LOG2, IR_SIN, IR_COS, IR_TANH, IR_ERF, IR_RSQRT};
  bool hard = !g->options->no_maths && chance(g, 40);
  ir_value *a = pick_any(g, KILN_CLASS_FLOAT);
  if (g->options->no_half_steps && is_half(a->type)) return;
  keep(g, ir_unary(&g->b, hard ? maths[below(g, 7)] : plain[below(g, 5)], IR_PRECISE, a));
}

static void state_fma(generator *g) {
  ir_value *a = pick_any(g, KILN_CLASS_FLOAT);
  if (g->options->no_half_steps && is_half(a->type)) return;
  keep(g, ir_ternary(&g->b, IR_FMA, 0, a, pick_like(g, a->type), pick_like(g, a->type)));
}

static void state_compare(generator *g) {
  ir_value *a = pick_any(g, KILN_CLASS_INT | KILN_CLASS_FLOAT | KILN_CLASS_BOOL);
  keep(g, ir_compare(&g->b, (ir_predicate)below(g, 6), chance(g, 25) ? IR_UNSIGNED : 0, a,
                     pick_like(g, a->type)));
}

static void state_select(generator *g) {
  ir_value *a = pick_any(g, KILN_CLASS_INT | KILN_CLASS_FLOAT | KILN_CLASS_BOOL | KILN_CLASS_FP8);
  ir_type condition = ir_scalar_type(KILN_I1);
  if (chance(g, 70)) condition = ir_with_element(a->type, condition);
  keep(g, ir_ternary(&g->b, IR_SELECT, 0, pick_like(g, condition), a, pick_like(g, a->type)));
}

static void state_cast(generator *g) {
  ir_value *a = pick_any(g, KILN_CLASS_INT | KILN_CLASS_FLOAT | KILN_CLASS_BOOL | KILN_CLASS_FP8);
  kiln_scalar to = random_scalar(g);
  if (g->options->no_half_steps &&
      (kiln_scalars[to].bits == 16 || kiln_scalars[to].type_class == KILN_CLASS_FP8))
    to = KILN_F32;
  bool to_float = kiln_scalars[to].type_class == KILN_CLASS_FLOAT;
  ir_round round = to_float && chance(g, 15) ? IR_ROUND_ZERO : IR_ROUND_NEAREST;
  keep(g, ir_cast(&g->b, a, to, chance(g, 25) ? IR_UNSIGNED : 0, round));
}

static void state_bitcast(generator *g) {
  ir_value *a = pick_any(g, KILN_CLASS_INT);
  kiln_scalar to = random_scalar(g);
  if (kiln_scalars[to].bits != ir_type_bits(a->type))
    to = ir_type_bits(a->type) == 32 ? KILN_F32 : a->type.scalar;
  keep(g, ir_bitcast(&g->b, a, ir_scalar_type(to)));
  a = whole_numbers(g, ir_with_element(a->type, ir_scalar_type(KILN_F32)), 1023);
  if (chance(g, 50)) keep(g, ir_bitcast(&g->b, a, ir_scalar_type(KILN_I32)));
}

enum { ANY_CLASS = KILN_CLASS_BOOL | KILN_CLASS_INT | KILN_CLASS_FLOAT | KILN_CLASS_FP8 };

static void state_broadcast(generator *g) {
  ir_value *a = pick_any(g, ANY_CLASS);
  if (a->type.rank > 2 || ir_log2_elements(a->type) > 6) return;
  ir_value *wide = ir_expand(&g->b, a, below(g, a->type.rank + 1u));
  ir_type type = wide->type;
  for (unsigned i = 0; i < type.rank; i++)
    if (!type.log2[i]) type.log2[i] = (uint8_t)below(g, 3);
  keep(g, ir_broadcast(&g->b, wide, type));
}

static void state_reshape(generator *g) {
  ir_value *a = pick_any(g, ANY_CLASS);
  unsigned total = ir_log2_elements(a->type), first = below(g, total + 1);
  uint8_t log2[2] = {(uint8_t)first, (uint8_t)(total - first)};
  ir_type type = tile(a->type.scalar, chance(g, 60) ? 2 : 1, log2);
  if (type.rank == 1) type.log2[0] = (uint8_t)total;
  keep(g, ir_reshape(&g->b, a, type));
}

static void state_trans(generator *g) {
  ir_value *a = pick_any(g, ANY_CLASS);
  unsigned rank = a->type.rank;
  ir_attrs attrs = {0};
  if (rank < 2) return;
  for (unsigned i = 0; i < rank; i++) attrs.perm[i] = (uint8_t)i;
  for (unsigned i = rank; i-- > 1;) {
    unsigned k = below(g, i + 1);
    uint8_t t = attrs.perm[i];
    attrs.perm[i] = attrs.perm[k];
    attrs.perm[k] = t;
  }
  ir_op *op = ir_emit(&g->b, IR_TRANS, &attrs, &a, 1, NULL, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
}

static void state_join(generator *g) {
  ir_value *a = pick_any(g, ANY_CLASS);
  if (a->type.rank > 3 || ir_log2_elements(a->type) >= MAX_LOG2) return;
  ir_op *op = ir_emit(&g->b, IR_JOIN, NULL, (ir_value *[]){a, pick_like(g, a->type)}, 2, NULL, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
}

static void state_split(generator *g) {
  ir_value *a = pick_any(g, ANY_CLASS);
  unsigned total = ir_log2_elements(a->type);
  if (!total) return;
  a = shaped(g, a, tile(a->type.scalar, 2, (uint8_t[]){(uint8_t)(total - 1), 1}));
  ir_op *op = ir_emit(&g->b, IR_SPLIT, NULL, &a, 1, NULL, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
  keep(g, &op->results[1]);
}

/// Floats are added and multiplied only where every order gives the same.
static ir_value *reducible(generator *g, ir_combine kind) {
  bool bits = kind >= IR_COMBINE_AND;
  ir_value *a = pick_any(g, bits ? KILN_CLASS_INT | KILN_CLASS_BOOL : KILN_CLASS_INT | KILN_CLASS_FLOAT);
  bool ordered = kind == IR_COMBINE_MAX || kind == IR_COMBINE_MIN;
  if (!a->type.rank) a = keep(g, whole_numbers(g, tile(a->type.scalar, 1, (uint8_t[]){6}), 1));
  if (ir_type_class(a->type) != KILN_CLASS_FLOAT || ordered) return a;
  if (kind == IR_COMBINE_ADD) return whole_numbers(g, a->type, is_half(a->type) ? 1 : 7);
  return binary(g, IR_ADD, whole_numbers(g, a->type, 1), constant(g, a->type, 1));
}

static void state_lanes(generator *g) {
  ir_combine kind = (ir_combine)(1 + below(g, 7));
  ir_value *a = reducible(g, kind);
  ir_opcode code = chance(g, 60) ? IR_REDUCE : IR_SCAN;
  uint32_t flags = (chance(g, 25) ? IR_UNSIGNED : 0) | (code == IR_SCAN && chance(g, 40) ? IR_REVERSE : 0);
  ir_attrs attrs = {.kind = kind, .axis = (uint8_t)below(g, a->type.rank), .flags = flags};
  if (g->options->no_half_steps && is_half(a->type)) return;
  ir_op *op = ir_emit(&g->b, code, &attrs, &a, 1, NULL, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
}

/// Rows in order, whole or their first elements; now and then of a tile larger than others are.
static void state_sort(generator *g) {
  ir_value *a = pick_any(g, KILN_CLASS_INT);
  if (!a->type.rank || chance(g, 30))
    a = whole_numbers(g, tile(a->type.scalar, 1, (uint8_t[]){(uint8_t)(6 + below(g, 5))}), 3);
  ir_type type = a->type;
  uint8_t *last = &type.log2[type.rank - 1];
  if (chance(g, 40)) *last = (uint8_t)below(g, *last + 1u);
  if (ir_log2_elements(type) > MAX_LOG2) *last = (uint8_t)(*last - (ir_log2_elements(type) - MAX_LOG2));
  ir_op *op = ir_emit(&g->b, IR_SORT, NULL, &a, 1, &type, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
}

static void state_gather(generator *g) {
  ir_value *a = pick_any(g, ANY_CLASS);
  if (!a->type.rank) return;
  ir_attrs attrs = {.axis = (uint8_t)below(g, a->type.rank)};
  ir_type index = ir_with_element(a->type, ir_scalar_type(KILN_I32));
  index.log2[attrs.axis] = (uint8_t)below(g, a->type.log2[attrs.axis] + 1u);
  ir_value *at = binary(g, IR_MUL, lanes(g, index), constant(g, index, 1 + 2 * (double)below(g, 8)));
  ir_op *op = ir_emit(&g->b, IR_GATHER, &attrs, (ir_value *[]){a, at}, 2, NULL, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
}

/// The largest value and where it stands; the first of equals.
static void state_argmax(generator *g) {
  ir_value *a = pick_any(g, KILN_CLASS_INT);
  if (!a->type.rank) return;
  ir_value *at = lanes(g, ir_with_element(a->type, ir_scalar_type(KILN_I32)));
  ir_block *region = ir_block_create(g->arena);
  ir_builder in = {.arena = g->arena, .block = region};
  ir_type value = ir_element(a->type), index = ir_scalar_type(KILN_I32);
  ir_value *v = ir_block_arg(g->arena, region, value), *i = ir_block_arg(g->arena, region, index);
  ir_value *w = ir_block_arg(g->arena, region, value), *j = ir_block_arg(g->arena, region, index);
  ir_value *equal =
      ir_binary(&in, IR_AND, 0, ir_compare(&in, IR_EQ, 0, v, w), ir_compare(&in, IR_LT, 0, i, j));
  ir_value *first = ir_binary(&in, IR_OR, 0, ir_compare(&in, IR_GT, 0, v, w), equal);
  ir_yield(
      &in,
      (ir_value *[]){ir_ternary(&in, IR_SELECT, 0, first, v, w), ir_ternary(&in, IR_SELECT, 0, first, i, j)},
      2);
  ir_attrs attrs = {.axis = (uint8_t)below(g, a->type.rank)};
  ir_op *op =
      ir_emit(&g->b, chance(g, 70) ? IR_REDUCE : IR_SCAN, &attrs, (ir_value *[]){a, at}, 2, NULL, &region, 1);
  keep(g, op ? &op->results[0] : NULL);
  keep(g, &op->results[1]);
}

static void state_dot(generator *g) {
  static const kiln_scalar elements[] = {KILN_I8,  KILN_F16,  KILN_BF16, KILN_F32,
                                         KILN_F64, KILN_E4M3, KILN_E5M2};
  kiln_scalar element = elements[below(g, 7)];
  kiln_scalar sum = element == KILN_I8 ? KILN_I32 : element == KILN_F64 ? KILN_F64 : KILN_F32;
  uint8_t m = (uint8_t)(4 + below(g, 2)), n = (uint8_t)(4 + below(g, 2)), k = (uint8_t)(4 + below(g, 2)),
          batch = (uint8_t)below(g, 2);
  bool batched = chance(g, 25);
  ir_value *operands[3];
  const uint8_t shapes[3][3] = {{batch, m, k}, {batch, k, n}, {batch, m, n}};
  for (int i = 0; i < 3; i++)
    operands[i] = whole_numbers(g, tile(i < 2 ? element : sum, batched ? 3 : 2, shapes[i] + !batched), 3);
  ir_op *op = ir_emit(&g->b, IR_DOT, NULL, operands, 3, NULL, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
}

static void state_hint(generator *g) {
  ir_value *a = pick_any(g, KILN_CLASS_INT);
  ir_op *op = ir_emit(&g->b, IR_HINT, &(ir_attrs){.divisible = 1}, &a, 1, NULL, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
  ir_value *claim = ir_compare(&g->b, IR_GT, 0, g->small, ir_const_int(&g->b, KILN_I32, 0));
  if (chance(g, 30)) ir_emit(&g->b, IR_BARRIER, NULL, NULL, 0, NULL, NULL, 0);
  ir_emit(&g->b, chance(g, 50) ? IR_ASSUME : IR_ASSERT, NULL, &claim, 1, NULL, NULL, 0);
}

// --------------------------------------------------------------------------------- writes, control

static bool has_room(const generator *g) { return g->c->buffer_count < KERNELGEN_BUFFERS; }

/// Each lane its own element; the old values go on.
static void state_atomic(generator *g) {
  static const ir_combine kinds[] = {IR_COMBINE_ADD, IR_COMBINE_MAX, IR_COMBINE_MIN, IR_COMBINE_AND,
                                     IR_COMBINE_OR,  IR_COMBINE_XOR, IR_COMBINE_XCHG};
  if (!has_room(g)) return;
  ir_type type = ir_with_element(random_shape(g), ir_scalar_type(chance(g, 60) ? KILN_I32 : KILN_I64));
  bool same_address = chance(g, 25);
  ir_value *base = add_buffer(g, type.scalar, (size_t)programs(g) << ir_log2_elements(type), true);
  ir_value *offsets =
      same_address ? constant(g, ir_with_element(type, ir_scalar_type(KILN_I32)), 0) : own_offsets(g, type);
  ir_value *operands[3] = {pointers(g, base, offsets), pick_like(g, type), NULL};
  uint32_t count = 2;
  if (chance(g, 40)) operands[count++] = pick_like(g, ir_with_element(type, ir_scalar_type(KILN_I1)));
  ir_attrs attrs = {.kind = same_address ? IR_COMBINE_ADD : kinds[below(g, 7)],
                    .flags = chance(g, 25) ? IR_UNSIGNED : 0};
  ir_op *op = ir_emit(&g->b, IR_ATOMIC, &attrs, operands, count, NULL, NULL, 0);
  if (!op) keep(g, NULL);
  if (!same_address) keep(g, &op->results[0]);
}

static void state_cas(generator *g) {
  if (!has_room(g)) return;
  ir_type type = ir_with_element(random_shape(g), ir_scalar_type(chance(g, 60) ? KILN_I32 : KILN_I64));
  ir_value *base = add_buffer(g, type.scalar, (size_t)programs(g) << ir_log2_elements(type), true);
  ir_value *operands[3] = {pointers(g, base, own_offsets(g, type)), whole_numbers(g, type, 3),
                           pick_like(g, type)};
  ir_op *op = ir_emit(&g->b, IR_CAS, NULL, operands, 3, NULL, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
}

/// Through a view of this program's part that may be smaller than the tile or begin inside it.
static void store_through_view(generator *g, ir_value *v) {
  ir_type type = v->type, view = {.scalar = type.scalar, .is_view = 1, .rank = type.rank};
  bool adds = (type.scalar == KILN_I32 || type.scalar == KILN_I64) && chance(g, 40);
  unsigned total = ir_log2_elements(type), count = 0;
  ir_value *base = add_buffer(g, type.scalar, (size_t)programs(g) << total, true),
           *operands[2 * IR_MAX_RANK + 2];
  operands[count++] = binary(
      g, IR_PTRADD, base, binary(g, IR_MUL, g->program, ir_const_int(&g->b, KILN_I32, (int64_t)1 << total)));
  memcpy(view.log2, type.log2, sizeof view.log2);
  for (unsigned i = 0; i < type.rank; i++)
    operands[count++] =
        ir_const_int(&g->b, KILN_I64,
                     chance(g, 60) ? (int64_t)1 << type.log2[i] : 1 + (int64_t)below(g, 1u << type.log2[i]));
  for (unsigned i = 0; i < type.rank; i++)
    operands[count++] = ir_const_int(&g->b, KILN_I64, (int64_t)1 << (total -= type.log2[i]));
  ir_op *made = ir_emit(&g->b, IR_VIEW, NULL, operands, count, &view, NULL, 0);
  if (!made) keep(g, NULL);
  operands[0] = &made->results[0];
  count = 1;
  for (unsigned i = 0; i < type.rank; i++)
    operands[count++] = ir_const_int(&g->b, KILN_I64, (int64_t)below(g, 4) - 2);
  operands[count++] = v;
  ir_attrs attrs = {.kind = adds ? IR_COMBINE_ADD : 0};
  draw_first(g, view, &attrs);
  if (!ir_emit(&g->b, adds ? IR_VIEW_ATOMIC : IR_VIEW_STORE, &attrs, operands, count, NULL, NULL, 0))
    keep(g, NULL);
}

static void store_value(generator *g, ir_value *v) {
  ir_value *operands[3];
  if (v->type.rank && chance(g, 25)) {
    store_through_view(g, v);
    return;
  }
  ir_value *base = add_buffer(g, v->type.scalar, (size_t)programs(g) << ir_log2_elements(v->type), true);
  uint32_t count = 2;
  operands[0] = pointers(g, base, own_offsets(g, v->type));
  operands[1] = v;
  if (chance(g, 40)) operands[count++] = pick_like(g, ir_with_element(v->type, ir_scalar_type(KILN_I1)));
  if (!ir_emit(&g->b, IR_STORE, NULL, operands, count, NULL, NULL, 0)) keep(g, NULL);
}

static void state_store(generator *g) {
  if (has_room(g)) store_value(g, pick_any(g, ANY_CLASS));
}

/// At the end: what nothing has used yet, so that little of the kernel is dead.
static void store_unused(generator *g) {
  ir_count_uses(g->kernel);
  for (uint32_t i = g->pool_count; i-- > 0 && has_room(g);)
    if (!g->pool[i]->uses && !g->pool[i]->type.pointer && g->pool[i]->def) store_value(g, g->pool[i]);
}

static void some_statements(generator *g, uint32_t count);

/// Fills a region: statements, then the yield of a value of each type. Restores the pool.
static void fill_region(generator *g, ir_block *block, ir_value *const *given, uint32_t given_count,
                        const ir_type *types, uint32_t count) {
  ir_builder outer = g->b;
  uint32_t pool = g->pool_count;
  ir_value *values[4];
  g->b = (ir_builder){.arena = g->arena, .block = block};
  for (uint32_t i = 0; i < given_count; i++) keep(g, given[i]);
  some_statements(g, 1 + below(g, 3));
  for (uint32_t i = 0; i < count; i++) values[i] = pick_like(g, types[i]);
  ir_yield(&g->b, values, count);
  if (g->b.error.status != KILN_OK) keep(g, NULL);
  g->b = outer;
  g->pool_count = pool;
}

static void state_for(generator *g) {
  ir_block *body = ir_block_create(g->arena);
  kiln_scalar index = chance(g, 70) ? KILN_I32 : KILN_I64;
  ir_value *first[4] = {pick_any(g, ANY_CLASS), pick_any(g, ANY_CLASS)}, *given[3], *operands[5];
  ir_type types[2] = {first[0]->type, first[1]->type};
  given[0] = ir_block_arg(g->arena, body, ir_scalar_type(index));
  for (int i = 0; i < 2; i++) given[1 + i] = ir_block_arg(g->arena, body, types[i]);
  fill_region(g, body, given, 3, types, 2);
  operands[0] = ir_const_int(&g->b, index, (int64_t)below(g, 5) - 2);
  operands[1] = chance(g, 50) ? cast(g, g->small, index) : ir_const_int(&g->b, index, below(g, 7));
  operands[2] = ir_const_int(&g->b, index, 1 + below(g, 3));
  operands[3] = first[0];
  operands[4] = first[1];
  ir_op *op = ir_emit(&g->b, IR_FOR, NULL, operands, 5, NULL, &body, 1);
  keep(g, op ? &op->results[0] : NULL);
  keep(g, &op->results[1]);
}

static void state_while(generator *g) {
  ir_block *test = ir_block_create(g->arena), *body = ir_block_create(g->arena);
  ir_value *first = pick_any(g, ANY_CLASS);
  ir_type types[2] = {ir_scalar_type(KILN_I32), first->type};
  ir_builder t = {.arena = g->arena, .block = test};
  ir_value *args[2] = {ir_block_arg(g->arena, test, types[0]), ir_block_arg(g->arena, test, types[1])};
  ir_value *passed[3] = {ir_compare(&t, IR_LT, 0, args[0], ir_const_int(&t, KILN_I32, 1 + below(g, 4))),
                         args[0], args[1]};
  ir_emit(&t, IR_COND, NULL, passed, 3, NULL, NULL, 0);
  ir_value *given[2] = {ir_block_arg(g->arena, body, types[0]), ir_block_arg(g->arena, body, types[1])};
  fill_region(g, body, given, 2, types, 2);
  ir_op *end = ir_terminator(body);
  ir_builder w = {.arena = g->arena, .block = body, .before = end};
  end->operands[0] = ir_binary(&w, IR_ADD, 0, given[0], ir_const_int(&w, KILN_I32, 1));
  ir_value *initial[2] = {ir_const_int(&g->b, KILN_I32, 0), first};
  ir_op *op = ir_emit(&g->b, IR_WHILE, NULL, initial, 2, NULL, (ir_block *[]){test, body}, 2);
  keep(g, op ? &op->results[0] : NULL);
  keep(g, &op->results[1]);
}

static void state_if(generator *g) {
  ir_block *regions[2] = {ir_block_create(g->arena), ir_block_create(g->arena)};
  ir_type type = pick_any(g, ANY_CLASS)->type;
  ir_value *condition =
      ir_compare(&g->b, (ir_predicate)below(g, 6), 0, g->program, ir_const_int(&g->b, KILN_I32, below(g, 3)));
  for (int i = 0; i < 2; i++) fill_region(g, regions[i], NULL, 0, &type, 1);
  ir_op *op = ir_emit(&g->b, IR_IF, NULL, &condition, 1, NULL, regions, 2);
  keep(g, op ? &op->results[0] : NULL);
}

static const struct statement {
  void (*make)(generator *g);
  uint32_t weight;
  bool nests;
} statements[] = {
    {state_load, 8, false},    {state_view_load, 4, false}, {state_integer, 10, false},
    {state_boolean, 2, false}, {state_float, 8, false},     {state_unary, 4, false},
    {state_fma, 3, false},     {state_compare, 4, false},   {state_select, 4, false},
    {state_cast, 8, false},    {state_bitcast, 2, false},   {state_broadcast, 5, false},
    {state_reshape, 3, false}, {state_trans, 3, false},     {state_join, 2, false},
    {state_split, 2, false},   {state_lanes, 6, false},     {state_argmax, 2, false},
    {state_sort, 2, false},    {state_gather, 2, false},    {state_dot, 2, false},
    {state_hint, 1, false},    {state_atomic, 2, true},     {state_store, 3, true},
    {state_for, 3, true},      {state_while, 2, true},      {state_if, 2, true},
    {state_cas, 1, true},
};

static void one_statement(generator *g) {
  uint32_t total = 0, i = 0;
  for (size_t k = 0; k < sizeof statements / sizeof *statements; k++) total += statements[k].weight;
  uint32_t at = below(g, total);
  while (at >= statements[i].weight) at -= statements[i++].weight;
  if (statements[i].nests && g->depth > 1) i = 2;
  g->depth++;
  statements[i].make(g);
  g->depth--;
}

static void some_statements(generator *g, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) one_statement(g);
}

// ------------------------------------------------------------------------------------------- whole

static void add_inputs(generator *g) {
  g->input_count = 3 + below(g, 2);
  for (uint32_t i = 0; i < g->input_count; i++)
    g->inputs[i] = add_buffer(g, random_scalar(g), INPUT_ELEMENTS, false);
  g->small = ir_add_param(
      g->kernel,
      &(ir_param){.name = "small", .type = ir_scalar_type(KILN_I32), .has_range = true, .lo = 1, .hi = 4});
  keep(g, g->small);
  keep(g, ir_add_param(g->kernel, &(ir_param){.name = "x", .type = ir_scalar_type(KILN_F32)}));
  keep(g, ir_add_param(g->kernel, &(ir_param){.name = "wide", .type = ir_scalar_type(KILN_I64)}));
}

static ir_value *program_axis(generator *g, ir_opcode code, unsigned axis) {
  return &ir_emit(&g->b, code, &(ir_attrs){.axis = (uint8_t)axis}, NULL, 0, NULL, NULL, 0)->results[0];
}

static void find_program(generator *g) {
  ir_value *id = program_axis(g, IR_PID, 2);
  for (unsigned axis = 2; axis-- > 0;)
    id = binary(g, IR_ADD, binary(g, IR_MUL, id, program_axis(g, IR_NPID, axis)),
                program_axis(g, IR_PID, axis));
  g->program = keep(g, id);
}

void kernelgen_make(kiln_arena *arena, uint64_t seed, const kernelgen_options *options, kernelgen_case *out) {
  generator *g = KILN_NEW(arena, generator);
  *out = (kernelgen_case){.seed = seed};
  *g = (generator){.arena = arena, .options = options, .c = out, .random = seed};
  g->kernel = out->kernel = ir_kernel_create(arena, "generated");
  g->kernel->warps = (uint16_t)(1u << below(g, 3));
  g->b = (ir_builder){.arena = arena, .block = g->kernel->body};
  for (int i = 0; i < 3; i++) out->grid[i] = 1 + below(g, i ? 2 : 3);
  add_inputs(g);
  find_program(g);
  out->statement_count = options->statements ? options->statements : 6 + below(g, KERNELGEN_STATEMENTS - 8);
  for (g->statement = 0; g->statement < out->statement_count; g->statement++) {
    g->random = seed * 1000003 + g->statement; // so that dropping one statement leaves the others' choices
    if (!(options->dropped >> g->statement & 1)) one_statement(g);
  }
  store_unused(g);
  if (g->b.error.status != KILN_OK) FAIL("seed %llu: %s", (unsigned long long)seed, g->b.error.text);
}

static uint64_t random_element(kiln_scalar scalar, uint64_t *random) {
  uint64_t r = kiln_test_random(random);
  unsigned class = kiln_scalars[scalar].type_class;
  if (class == KILN_CLASS_BOOL) return r & 1;
  if (class == KILN_CLASS_INT) return r % 4 ? (uint64_t)((int64_t)(r >> 8 & 0xff) - 128) : r >> 3;
  if (r % 16 == 0) return r >> 8; // any pattern, so also infinities, NaN and denormals
  double value = (double)((int64_t)(r >> 8 & 0x3ff) - 512);
  return ir_float_to_bits(scalar, r % 3 ? value : value / 64, true);
}

void kernelgen_memory_init(const kernelgen_case *c, kernelgen_memory *out) {
  uint64_t random = c->seed ^ 0x6b65726e;
  size_t at = 0;
  memset(out, 0, sizeof *out);
  for (uint32_t i = 0; i < c->buffer_count; i++) {
    size_t bytes = kiln_scalars[c->buffers[i].scalar].bytes,
           size = (c->buffers[i].count * bytes + 63) & ~(size_t)63;
    out->bytes[i] = aligned_alloc(64, size);
    memset(out->bytes[i], 0, size);
    for (size_t k = 0; k < c->buffers[i].count; k++) {
      uint64_t bits = random_element(c->buffers[i].scalar, &random);
      memcpy(out->bytes[i] + k * bytes, &bits, bytes);
    }
  }
  uint32_t buffer = 0;
  for (uint32_t i = 0; i < c->kernel->param_count; i++) {
    ir_type type = c->kernel->params[i].type;
    size_t bytes = type.pointer ? 8 : kiln_scalars[type.scalar].bytes;
    uint64_t value =
        type.pointer ? (uint64_t)(uintptr_t)out->bytes[buffer++] : random_element(type.scalar, &random);
    if (!type.pointer && c->kernel->params[i].has_range) value = 1 + value % 4;
    at = (at + bytes - 1) & ~(bytes - 1);
    memcpy(out->args + at, &value, bytes);
    at += bytes;
  }
}

void kernelgen_memory_deinit(kernelgen_memory *m) {
  for (int i = 0; i < KERNELGEN_BUFFERS; i++) free(m->bytes[i]);
}

static bool equal_elements(kiln_scalar scalar, uint64_t a, uint64_t b) {
  if (a == b) return true;
  if (!(kiln_scalars[scalar].type_class & (KILN_CLASS_FLOAT | KILN_CLASS_FP8))) return false;
  double x = ir_bits_to_float(scalar, a), y = ir_bits_to_float(scalar, b);
  return x != x && y != y;
}

bool kernelgen_memory_equal(const kernelgen_case *c, const kernelgen_memory *a, const kernelgen_memory *b,
                            char *out, size_t size) {
  for (uint32_t i = 0; i < c->buffer_count; i++) {
    kiln_scalar scalar = c->buffers[i].scalar;
    size_t bytes = kiln_scalars[scalar].bytes;
    for (size_t k = 0; k < c->buffers[i].count; k++) {
      uint64_t x = 0, y = 0;
      memcpy(&x, a->bytes[i] + k * bytes, bytes);
      memcpy(&y, b->bytes[i] + k * bytes, bytes);
      if (equal_elements(scalar, x, y)) continue;
      snprintf(out, size, "seed %llu: buffer %u (%s), element %zu of %zu: expected 0x%llx, found 0x%llx",
               (unsigned long long)c->seed, i, kiln_scalars[scalar].spelling, k, c->buffers[i].count,
               (unsigned long long)x, (unsigned long long)y);
      return false;
    }
  }
  return true;
}

uint64_t kernelgen_reduce(uint64_t seed, const kernelgen_options *options,
                          bool (*fails)(uint64_t seed, const kernelgen_options *options, void *context),
                          void *context) {
  kernelgen_options smaller = *options;
  for (bool progress = true; progress;) {
    progress = false;
    for (uint32_t i = KERNELGEN_STATEMENTS; i-- > 0;) {
      uint64_t before = smaller.dropped;
      if (before >> i & 1) continue;
      smaller.dropped |= (uint64_t)1 << i;
      if (fails(seed, &smaller, context)) progress = true;
      else smaller.dropped = before;
    }
  }
  return smaller.dropped;
}
