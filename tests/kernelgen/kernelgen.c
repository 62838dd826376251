// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Generates random kernels: a pool of values, a table of statements that take from it and add to it, and
// buffers at both ends. This file has the statements that make values, and the whole.
#include "tests/kernelgen/kernelgen_parts.h"

// -------------------------------------------------------------------------------------- statements

static void state_load(kernelgen_generator *g) {
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
static ir_value *other_view(kernelgen_generator *g, ir_value *view, unsigned rank) {
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

static void state_view_load(kernelgen_generator *g) {
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
  ir_attrs attrs = {.access = {.has_other = chance(g, 50)}};
  if (attrs.access.has_other) operands[count++] = whole_numbers(g, ir_scalar_type(view.scalar), 1);
  draw_first(g, view, &attrs);
  ir_op *op = ir_emit(&g->b, IR_VIEW_LOAD, &attrs, operands, count, NULL, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
  if (chance(g, 80)) return;
  op = ir_emit(&g->b, IR_DIM, &(ir_attrs){.axis = (uint8_t)below(g, rank)}, operands, 1, NULL, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
}

static void state_integer(kernelgen_generator *g) {
  static const ir_opcode codes[] = {IR_ADD, IR_SUB, IR_MUL, IR_MIN, IR_MAX, IR_AND,  IR_OR,
                                    IR_XOR, IR_SHL, IR_SHR, IR_DIV, IR_REM, IR_MULHI};
  ir_value *a = pick_any(g, KILN_CLASS_INT), *b = pick_like(g, a->type);
  ir_opcode code = codes[below(g, sizeof codes / sizeof *codes)];
  if (code == IR_MULHI && ir_type_bits(a->type) < 32) code = IR_SUB;
  if (code == IR_DIV || code == IR_REM) b = binary(g, IR_OR, b, constant(g, b->type, 1));
  keep(g, ir_binary(&g->b, code, chance(g, 30) ? IR_UNSIGNED : 0, a, b));
}

static void state_boolean(kernelgen_generator *g) {
  static const ir_opcode codes[] = {IR_AND, IR_OR, IR_XOR};
  ir_value *a = pick_any(g, KILN_CLASS_BOOL);
  keep(g, binary(g, codes[below(g, 3)], a, pick_like(g, a->type)));
}

static void state_float(kernelgen_generator *g) {
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

static void state_unary(kernelgen_generator *g) {
  static const ir_opcode plain[] = {IR_ABS, IR_FLOOR, IR_CEIL, IR_ROUND, IR_SQRT};
  static const ir_opcode maths[] = {IR_EXP2, IR_LOG2, IR_SIN, IR_COS, IR_TANH, IR_ERF, IR_RSQRT};
  bool hard = !g->options->no_maths && chance(g, 40);
  ir_value *a = pick_any(g, KILN_CLASS_FLOAT);
  if (g->options->no_half_steps && is_half(a->type)) return;
  keep(g, ir_unary(&g->b, hard ? maths[below(g, 7)] : plain[below(g, 5)], IR_PRECISE, a));
}

static void state_fma(kernelgen_generator *g) {
  ir_value *a = pick_any(g, KILN_CLASS_FLOAT);
  if (g->options->no_half_steps && is_half(a->type)) return;
  keep(g, ir_ternary(&g->b, IR_FMA, 0, a, pick_like(g, a->type), pick_like(g, a->type)));
}

static void state_compare(kernelgen_generator *g) {
  ir_value *a = pick_any(g, KILN_CLASS_INT | KILN_CLASS_FLOAT | KILN_CLASS_BOOL);
  keep(g, ir_compare(&g->b, (ir_predicate)below(g, 6), chance(g, 25) ? IR_UNSIGNED : 0, a,
                     pick_like(g, a->type)));
}

static void state_select(kernelgen_generator *g) {
  ir_value *a = pick_any(g, KILN_CLASS_INT | KILN_CLASS_FLOAT | KILN_CLASS_BOOL | KILN_CLASS_FP8);
  ir_type condition = ir_scalar_type(KILN_I1);
  if (chance(g, 70)) condition = ir_with_element(a->type, condition);
  keep(g, ir_ternary(&g->b, IR_SELECT, 0, pick_like(g, condition), a, pick_like(g, a->type)));
}

static void state_cast(kernelgen_generator *g) {
  ir_value *a = pick_any(g, KILN_CLASS_INT | KILN_CLASS_FLOAT | KILN_CLASS_BOOL | KILN_CLASS_FP8);
  kiln_scalar to = random_scalar(g);
  if (g->options->no_half_steps &&
      (kiln_scalars[to].bits == 16 || kiln_scalars[to].type_class == KILN_CLASS_FP8))
    to = KILN_F32;
  bool to_float = kiln_scalars[to].type_class == KILN_CLASS_FLOAT;
  ir_round round = to_float && chance(g, 15) ? IR_ROUND_ZERO : IR_ROUND_NEAREST;
  keep(g, ir_cast(&g->b, a, to, chance(g, 25) ? IR_UNSIGNED : 0, round));
}

static void state_bitcast(kernelgen_generator *g) {
  ir_value *a = pick_any(g, KILN_CLASS_INT);
  kiln_scalar to = random_scalar(g);
  if (kiln_scalars[to].bits != ir_type_bits(a->type))
    to = ir_type_bits(a->type) == 32 ? KILN_F32 : a->type.scalar;
  keep(g, ir_bitcast(&g->b, a, ir_scalar_type(to)));
  a = whole_numbers(g, ir_with_element(a->type, ir_scalar_type(KILN_F32)), 1023);
  if (chance(g, 50)) keep(g, ir_bitcast(&g->b, a, ir_scalar_type(KILN_I32)));
}

static void state_broadcast(kernelgen_generator *g) {
  ir_value *a = pick_any(g, ANY_CLASS);
  if (a->type.rank > 2 || ir_log2_elements(a->type) > 6) return;
  ir_value *wide = ir_expand(&g->b, a, below(g, a->type.rank + 1u));
  ir_type type = wide->type;
  for (unsigned i = 0; i < type.rank; i++)
    if (!type.log2[i]) type.log2[i] = (uint8_t)below(g, 3);
  keep(g, ir_broadcast(&g->b, wide, type));
}

static void state_reshape(kernelgen_generator *g) {
  ir_value *a = pick_any(g, ANY_CLASS);
  unsigned total = ir_log2_elements(a->type), first = below(g, total + 1);
  uint8_t log2[2] = {(uint8_t)first, (uint8_t)(total - first)};
  ir_type type = tile(a->type.scalar, chance(g, 60) ? 2 : 1, log2);
  if (type.rank == 1) type.log2[0] = (uint8_t)total;
  keep(g, ir_reshape(&g->b, a, type));
}

static void state_trans(kernelgen_generator *g) {
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

static void state_join(kernelgen_generator *g) {
  ir_value *a = pick_any(g, ANY_CLASS);
  if (a->type.rank > 3 || ir_log2_elements(a->type) >= MAX_LOG2) return;
  ir_op *op = ir_emit(&g->b, IR_JOIN, NULL, (ir_value *[]){a, pick_like(g, a->type)}, 2, NULL, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
}

static void state_split(kernelgen_generator *g) {
  ir_value *a = pick_any(g, ANY_CLASS);
  unsigned total = ir_log2_elements(a->type);
  if (!total) return;
  a = shaped(g, a, tile(a->type.scalar, 2, (uint8_t[]){(uint8_t)(total - 1), 1}));
  ir_op *op = ir_emit(&g->b, IR_SPLIT, NULL, &a, 1, NULL, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
  keep(g, &op->results[1]);
}

/// Floats are added and multiplied only where every order gives the same.
static ir_value *reducible(kernelgen_generator *g, ir_combine kind) {
  bool bits = kind >= IR_COMBINE_AND;
  ir_value *a = pick_any(g, bits ? KILN_CLASS_INT | KILN_CLASS_BOOL : KILN_CLASS_INT | KILN_CLASS_FLOAT);
  bool ordered = kind == IR_COMBINE_MAX || kind == IR_COMBINE_MIN;
  if (!a->type.rank) a = keep(g, whole_numbers(g, tile(a->type.scalar, 1, (uint8_t[]){6}), 1));
  if (ir_type_class(a->type) != KILN_CLASS_FLOAT || ordered) return a;
  if (kind == IR_COMBINE_ADD) return whole_numbers(g, a->type, is_half(a->type) ? 1 : 7);
  return binary(g, IR_ADD, whole_numbers(g, a->type, 1), constant(g, a->type, 1));
}

static void state_lanes(kernelgen_generator *g) {
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
static void state_sort(kernelgen_generator *g) {
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

static void state_gather(kernelgen_generator *g) {
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
static void state_argmax(kernelgen_generator *g) {
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

static void state_dot(kernelgen_generator *g) {
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

ir_value *kernelgen_cheap(kernelgen_generator *g) {
  ir_type shape = random_shape(g);
  if (!shape.rank) shape = tile(KILN_I32, 1, (uint8_t[]){6});
  if (chance(g, 40)) return keep(g, lanes(g, shape));
  const bool is_factor = chance(g, 20);
  if (is_factor) shape = tile(KILN_I32, 2, (uint8_t[]){4, 4});
  ir_value *v = binary(g, IR_MUL, lanes(g, shape), constant(g, shape, 1 + below(g, 4)));
  v = binary(g, IR_AND, v, constant(g, shape, 63));
  return keep(g, cast(g, v, is_factor ? KILN_I8 : random_scalar(g)));
}

static ir_value *gathered(kernelgen_generator *g, ir_value *a, ir_value *from) {
  ir_attrs attrs = {.axis = (uint8_t)below(g, a->type.rank)};
  ir_type index = ir_with_element(a->type, ir_scalar_type(KILN_I32));
  ir_value *at = binary(g, IR_MUL, lanes(g, index), constant(g, index, 1 + 2 * below(g, 8)));
  at = binary(g, IR_XOR, at, cast(g, from, KILN_I32));
  ir_op *op = ir_emit(&g->b, IR_GATHER, &attrs, (ir_value *[]){a, at}, 2, NULL, NULL, 0);
  return op ? &op->results[0] : NULL;
}

/// The product of an i8 tile with itself.
static ir_value *squared(kernelgen_generator *g, ir_value *a, ir_value *from) {
  ir_value *sum = cast(g, from, KILN_I32);
  ir_op *op = ir_emit(&g->b, IR_DOT, NULL, (ir_value *[]){a, a, sum}, 3, NULL, NULL, 0);
  return op ? cast(g, &op->results[0], KILN_I8) : NULL;
}

ir_value *kernelgen_want(kernelgen_generator *g, ir_value *a, ir_value *from) {
  const bool is_int = ir_type_class(a->type) == KILN_CLASS_INT;
  const bool is_factor =
      a->type.scalar == KILN_I8 && a->type.rank == 2 && a->type.log2[0] == 4 && a->type.log2[1] == 4;
  if (is_factor && chance(g, 60)) return keep(g, squared(g, a, from));
  if (!is_int || chance(g, 70)) return keep(g, gathered(g, a, from));
  ir_attrs attrs = {.kind = IR_COMBINE_XOR, .axis = (uint8_t)below(g, a->type.rank)};
  ir_value *made = from == a ? a : binary(g, IR_ADD, a, from);
  ir_op *op = chance(g, 50) ? ir_emit(&g->b, IR_SORT, NULL, &made, 1, &made->type, NULL, 0)
                            : ir_emit(&g->b, IR_SCAN, &attrs, &made, 1, NULL, NULL, 0);
  return keep(g, op ? &op->results[0] : NULL);
}

static void state_hint(kernelgen_generator *g) {
  ir_value *a = pick_any(g, KILN_CLASS_INT);
  ir_op *op = ir_emit(&g->b, IR_HINT, &(ir_attrs){.hint = {.divisible = 1}}, &a, 1, NULL, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
  ir_value *claim = ir_compare(&g->b, IR_GT, 0, g->small, ir_const_int(&g->b, KILN_I32, 0));
  if (chance(g, 30)) ir_emit(&g->b, IR_BARRIER, NULL, NULL, 0, NULL, NULL, 0);
  ir_emit(&g->b, chance(g, 50) ? IR_ASSUME : IR_ASSERT, NULL, &claim, 1, NULL, NULL, 0);
}

// ------------------------------------------------------------------------------------------- table

static const struct statement {
  void (*make)(kernelgen_generator *g);
  uint32_t weight;
  bool nests;
} statements[] = {
    {state_load, 8, false},         {state_view_load, 4, false},       {state_integer, 10, false},
    {state_boolean, 2, false},      {state_float, 8, false},           {state_unary, 4, false},
    {state_fma, 3, false},          {state_compare, 4, false},         {state_select, 4, false},
    {state_cast, 8, false},         {state_bitcast, 2, false},         {state_broadcast, 5, false},
    {state_reshape, 3, false},      {state_trans, 3, false},           {state_join, 2, false},
    {state_split, 2, false},        {state_lanes, 6, false},           {state_argmax, 2, false},
    {state_sort, 2, false},         {state_gather, 2, false},          {state_dot, 2, false},
    {state_hint, 1, false},         {kernelgen_state_atomic, 2, true}, {kernelgen_state_store, 3, true},
    {kernelgen_state_for, 3, true}, {kernelgen_state_while, 2, true},  {kernelgen_state_if, 2, true},
    {kernelgen_state_cas, 1, true},
};

static void one_statement(kernelgen_generator *g) {
  uint32_t total = 0, i = 0;
  for (size_t k = 0; k < sizeof statements / sizeof *statements; k++) total += statements[k].weight;
  uint32_t at = below(g, total);
  while (at >= statements[i].weight) at -= statements[i++].weight;
  if (statements[i].nests && g->depth > 1) i = 2;
  g->depth++;
  statements[i].make(g);
  g->depth--;
}

void kernelgen_statements(kernelgen_generator *g, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) one_statement(g);
}

// ------------------------------------------------------------------------------------------- whole

static void add_inputs(kernelgen_generator *g) {
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

static ir_value *program_axis(kernelgen_generator *g, ir_opcode code, unsigned axis) {
  return &ir_emit(&g->b, code, &(ir_attrs){.axis = (uint8_t)axis}, NULL, 0, NULL, NULL, 0)->results[0];
}

static void find_program(kernelgen_generator *g) {
  ir_value *id = program_axis(g, IR_PID, 2);
  for (unsigned axis = 2; axis-- > 0;)
    id = binary(g, IR_ADD, binary(g, IR_MUL, id, program_axis(g, IR_NPID, axis)),
                program_axis(g, IR_PID, axis));
  g->program = keep(g, id);
}

void kernelgen_make(kiln_arena *arena, uint64_t seed, const kernelgen_options *options, kernelgen_case *out) {
  if (options->rereads) {
    kernelgen_make_rereads(arena, seed, out);
    return;
  }
  kernelgen_generator *g = KILN_NEW(arena, kernelgen_generator);
  *out = (kernelgen_case){.seed = seed};
  *g = (kernelgen_generator){.arena = arena, .options = options, .c = out, .random = seed};
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
  kernelgen_store_unused(g);
  if (g->b.error.status != KILN_OK) FAIL("seed %llu: %s", (unsigned long long)seed, g->b.error.text);
}
