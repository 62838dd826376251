// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Generates random kernels: a pool of values, a table of statements that take from it and add to it, and
// buffers at both ends. This file has the statements that make values, and the whole.
#include "base/check.h"
#include "tests/kernelgen/kernelgen_parts.h"

// -------------------------------------------------------------------------------------- statements

/// At places that may be anything, where they are in the buffer.
static void load_guarded(kernelgen_generator *g, ir_value *base) {
  ir_type shape = random_shape(g);
  shape.scalar = chance(g, 60) ? KILN_I32 : KILN_I64;
  ir_value *index = pick_like(g, shape), *operands[3];
  if (chance(g, 40)) index = with_number(g, IR_MUL, index, 1 + (double)below(g, 1u << 30));
  ir_value *last = constant(g, shape, INPUT_ELEMENTS - 1 - below(g, 100));
  if (chance(g, 50)) operands[1] = ir_compare(&g->b, IR_LE, IR_UNSIGNED, index, last);
  else {
    operands[1] = ir_compare(&g->b, IR_LE, 0, index, last);
    ir_value *from = constant(g, shape, below(g, 3));
    operands[1] = binary(g, IR_AND, operands[1], ir_compare(&g->b, IR_GE, 0, index, from));
  }
  uint32_t count = 2;
  operands[0] = pointers(g, base, index);
  if (chance(g, 50)) operands[count++] = pick_like(g, ir_with_element(shape, ir_pointee(base->type)));
  keep(g, one(g, IR_LOAD, NULL, operands, count, NULL));
}

static void state_load(kernelgen_generator *g) {
  ir_value *base = g->inputs[chance(g, 25) ? 0 : below(g, g->input_count)], *operands[3];
  if (chance(g, 12)) {
    load_guarded(g, base);
    return;
  }
  ir_type shape = random_shape(g), value = ir_with_element(shape, ir_pointee(base->type));
  ir_value *index = lanes(g, shape);
  index = with_number(g, IR_ADD, index, below(g, 64));
  if (chance(g, 40)) {
    index = with_number(g, IR_MUL, index, 2 * below(g, 20) + 1);
    index = with_number(g, IR_AND, index, INPUT_ELEMENTS - 1);
  }
  if (chance(g, 30)) index = cast(g, index, KILN_I64);
  uint32_t count = 1;
  operands[0] = pointers(g, base, index);
  if (chance(g, 20)) operands[count++] = mask_of(g, shape);
  else if (chance(g, 50)) operands[count++] = compared(g, cast(g, index, KILN_I32), 200);
  if (count == 2 && chance(g, 50))
    operands[count++] = whole_numbers(g, value, value.scalar == KILN_I1 ? 1 : 63);
  ir_attrs attrs = {0};
  draw_caching(g, &attrs);
  ir_op *op = ir_emit(&g->b, IR_LOAD, &attrs, operands, count, NULL, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
}

/// 0, 1, and of integers those at the ends of the type and around powers of two. Not what would do nothing but
/// flush denormals.
static ir_value *some_constant(kernelgen_generator *g, kiln_scalar scalar) {
  const unsigned bits = kiln_scalars[scalar].bits;
  const ir_type type = ir_scalar_type(scalar);
  if (ir_type_class(type) != KILN_CLASS_INT || chance(g, 40))
    return constant(g, type, below(g, 2) + (may_flush(g, type) ? 0 : 3));
  const uint64_t power = (uint64_t)1 << (chance(g, 50) ? bits - 1 : below(g, bits));
  return ir_const_int(&g->b, scalar, (int64_t)(power + below(g, 3) - 1) << (64 - bits) >> (64 - bits));
}

/// Constants, numbers of elements and of programs, and copies of a scalar.
static void state_source(kernelgen_generator *g) {
  ir_type shape = random_shape(g);
  switch (below(g, 4)) {
  case 0: {
    keep(g, some_constant(g, random_scalar(g)));
    return;
  }
  case 1:
    keep(g, ir_iota(&g->b, chance(g, 50) && g->favourite.rank == 1 ? g->favourite.log2[0] : below(g, 9)));
    return;
  case 2: {
    const ir_opcode code = chance(g, 50) ? IR_PID : IR_NPID;
    const uint8_t axis = (uint8_t)(chance(g, 80) ? 1 + below(g, 2) : 0);
    keep(g, one(g, code, &(ir_attrs){.axis = axis}, NULL, 0, NULL));
    return;
  }
  default: {
    ir_value *v = pick_like(g, ir_scalar_type(random_scalar(g)));
    if (shape.rank) keep(g, ir_splat(&g->b, v, ir_with_element(shape, v->type)));
  }
  }
}

static void state_integer(kernelgen_generator *g) {
  static const ir_opcode codes[] = {IR_ADD, IR_SUB, IR_MUL, IR_MIN, IR_MAX, IR_AND,  IR_OR,
                                    IR_XOR, IR_SHL, IR_SHR, IR_DIV, IR_REM, IR_MULHI};
  ir_value *a = pick_any(g, KILN_CLASS_INT);
  if (chance(g, 8)) {
    keep(g, ir_unary(&g->b, IR_ABS, 0, a));
    return;
  }
  ir_value *b = pick_like(g, a->type);
  ir_opcode code = codes[below(g, sizeof codes / sizeof *codes)];
  if (code == IR_MULHI && ir_type_bits(a->type) < 32) code = IR_SUB;
  if (code == IR_DIV || code == IR_REM) b = with_number(g, IR_OR, b, 1);
  keep(g, ir_binary(&g->b, code, chance(g, 30) ? IR_UNSIGNED : 0, a, b));
}

static void state_boolean(kernelgen_generator *g) {
  static const ir_opcode codes[] = {IR_AND, IR_OR, IR_XOR};
  ir_value *a = pick_any(g, KILN_CLASS_BOOL);
  const ir_opcode code = codes[below(g, 3)];
  keep(g, binary(g, code, a, pick_like(g, a->type)));
}

/// Under `@fp(ftz)` input 1 is of a type whose denormals are flushed.
static ir_value *loaded_float(kernelgen_generator *g, ir_type shape) {
  ir_value *index = lanes(g, ir_with_element(shape, ir_scalar_type(KILN_I32)));
  const uint32_t elements = 1u << ir_log2_elements(shape);
  KILN_ASSERT(elements <= INPUT_ELEMENTS); // a load past the buffer differs on each device
  const uint32_t room = INPUT_ELEMENTS - elements + 1;
  index = with_number(g, IR_ADD, index, below(g, room < 900 ? room : 900));
  ir_value *p = pointers(g, g->inputs[1], index);
  return keep(g, one(g, IR_LOAD, NULL, &p, 1, NULL));
}

static ir_value *pick_float(kernelgen_generator *g) {
  return g->kernel->fp_flush && chance(g, 60) ? loaded_float(g, random_shape(g))
                                              : pick_any(g, KILN_CLASS_FLOAT);
}

static ir_value *other_float(kernelgen_generator *g, ir_type type) {
  const bool is_loaded = g->kernel->fp_flush && type.scalar == g->inputs[1]->type.scalar && chance(g, 50);
  return is_loaded ? loaded_float(g, type) : pick_like(g, type);
}

static void state_float(kernelgen_generator *g) {
  static const ir_opcode codes[] = {IR_ADD, IR_SUB, IR_MUL, IR_DIV, IR_MIN,
                                    IR_MAX, IR_ADD, IR_SUB, IR_MUL, IR_REM};
  ir_value *a = pick_float(g);
  ir_opcode code = codes[below(g, 10)];
  if (g->options->no_half_steps && is_half(a->type)) return;
  if ((code == IR_MIN || code == IR_MAX) && !may_flush(g, a->type)) code = IR_ADD;
  uint32_t flags = code == IR_DIV                                        ? IR_PRECISE
                   : (code == IR_MIN || code == IR_MAX) && chance(g, 40) ? IR_NAN
                                                                         : 0;
  keep(g, ir_binary(&g->b, code, flags, a, other_float(g, a->type)));
}

static void state_unary(kernelgen_generator *g) {
  static const ir_opcode plain[] = {IR_ABS, IR_FLOOR, IR_CEIL, IR_ROUND, IR_SQRT};
  static const ir_opcode maths[] = {IR_EXP2, IR_LOG2, IR_SIN, IR_COS, IR_TANH, IR_ERF, IR_RSQRT};
  bool hard = !g->options->no_maths && chance(g, 55);
  ir_value *a = chance(g, 40) ? pick_float(g) : pick_any(g, KILN_CLASS_FLOAT);
  if (g->options->no_half_steps && is_half(a->type)) return;
  const ir_opcode code = hard ? maths[below(g, 7)] : plain[below(g, 5)];
  const bool flushes = code == IR_EXP2 && a->type.scalar == KILN_F32 && chance(g, 40);
  keep(g, ir_unary(&g->b, code, IR_PRECISE | (flushes ? IR_FTZ : 0), a));
}

static void state_fma(kernelgen_generator *g) {
  ir_value *a = pick_float(g);
  if (g->options->no_half_steps && is_half(a->type)) return;
  ir_value *b = other_float(g, a->type);
  keep(g, ir_ternary(&g->b, IR_FMA, 0, a, b, other_float(g, a->type)));
}

static void state_compare(kernelgen_generator *g) {
  ir_value *a = pick_any(g, KILN_CLASS_INT | KILN_CLASS_FLOAT | KILN_CLASS_BOOL);
  const ir_predicate predicate = (ir_predicate)below(g, 6);
  const uint32_t flags = chance(g, 25) ? IR_UNSIGNED : 0;
  keep(g, ir_compare(&g->b, predicate, flags, a, pick_like(g, a->type)));
}

static void state_select(kernelgen_generator *g) {
  ir_value *a = pick_any(g, KILN_CLASS_INT | KILN_CLASS_FLOAT | KILN_CLASS_BOOL | KILN_CLASS_FP8);
  ir_type condition = ir_scalar_type(KILN_I1);
  if (chance(g, 70)) condition = ir_with_element(a->type, condition);
  ir_value *test = pick_like(g, condition);
  keep(g, ir_ternary(&g->b, IR_SELECT, 0, test, a, pick_like(g, a->type)));
}

static void state_cast(kernelgen_generator *g) {
  ir_value *a = chance(g, 20)
                    ? pick_any(g, KILN_CLASS_FP8)
                    : pick_any(g, KILN_CLASS_INT | KILN_CLASS_FLOAT | KILN_CLASS_BOOL | KILN_CLASS_FP8);
  kiln_scalar to = random_scalar(g);
  if (g->options->no_half_steps &&
      (kiln_scalars[to].bits == 16 || kiln_scalars[to].type_class == KILN_CLASS_FP8))
    to = KILN_F32;
  if (makes_denormals(g, to) && a->type.scalar == KILN_F64) to = KILN_F32;
  bool to_float = kiln_scalars[to].type_class == KILN_CLASS_FLOAT;
  ir_round round = to_float && chance(g, 15) ? IR_ROUND_ZERO : IR_ROUND_NEAREST;
  const bool overflows = kiln_scalars[to].type_class == KILN_CLASS_FP8 && chance(g, 30);
  keep(g,
       ir_cast(&g->b, a, to, (chance(g, 25) ? IR_UNSIGNED : 0) | (overflows ? IR_SATURATE_OFF : 0), round));
}

/// Bits of integers as whatever is as wide, and bits of whole numbers in other types as integers.
static void state_bitcast(kernelgen_generator *g) {
  ir_value *a = pick_any(g, KILN_CLASS_INT);
  kiln_scalar to = random_scalar(g);
  if (kiln_scalars[to].bits != ir_type_bits(a->type))
    to = ir_type_bits(a->type) == 32 ? KILN_F32 : a->type.scalar;
  if (makes_denormals(g, to)) to = a->type.scalar;
  keep(g, ir_bitcast(&g->b, a, ir_scalar_type(to)));
  const kiln_scalar from = chance(g, 40) ? KILN_F32 : random_of(g, KILN_CLASS_FLOAT | KILN_CLASS_FP8);
  a = whole_numbers(g, ir_with_element(a->type, ir_scalar_type(from)), from == KILN_F32 ? 1023 : 15);
  if (chance(g, 50)) keep(g, ir_bitcast(&g->b, a, ir_scalar_type(ir_integer_of(kiln_scalars[from].bits))));
}

static void state_broadcast(kernelgen_generator *g) {
  ir_value *a = chance(g, 10) ? pick_like(g, ir_scalar_type(random_scalar(g))) : pick_any(g, ANY_CLASS);
  if (a->type.rank >= IR_MAX_RANK || ir_log2_elements(a->type) > 6) return;
  if (chance(g, 10)) a = whole_numbers(g, tile(random_scalar(g), 1, (uint8_t[]){0}), 1);
  ir_value *wide =
      a->type.rank == 1 && !a->type.log2[0] ? a : ir_expand(&g->b, a, below(g, a->type.rank + 1u));
  ir_type type = wide->type;
  for (unsigned i = 0; i < type.rank; i++)
    if (!type.log2[i] && ir_log2_elements(type) < MAX_LOG2) type.log2[i] = (uint8_t)below(g, 3);
  keep(g, ir_broadcast(&g->b, wide, type));
}

static void state_reshape(kernelgen_generator *g) {
  ir_value *a = pick_any(g, ANY_CLASS);
  unsigned total = ir_log2_elements(a->type), first = below(g, total + 1);
  const unsigned most = chance(g, 30) ? IR_MAX_RANK : 4;
  const unsigned rank = chance(g, 80) ? 1 + below(g, 2) : total ? 3 + below(g, most - 2) : below(g, most + 1);
  uint8_t log2[IR_MAX_RANK] = {(uint8_t)first, (uint8_t)(total - first)};
  if (rank == 1) log2[0] = (uint8_t)total;
  for (unsigned i = 2; i < rank; i++) { // a part of the last axis becomes one more
    log2[i] = (uint8_t)below(g, log2[i - 1] + 1u);
    log2[i - 1] = (uint8_t)(log2[i - 1] - log2[i]);
  }
  keep(g, ir_reshape(&g->b, a, tile(a->type.scalar, rank, log2)));
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
  ir_value *a = chance(g, 10) ? pick_like(g, ir_scalar_type(random_scalar(g))) : pick_any(g, ANY_CLASS);
  if (a->type.rank >= IR_MAX_RANK || ir_log2_elements(a->type) >= MAX_LOG2) return;
  ir_op *op = ir_emit(&g->b, IR_JOIN, NULL, (ir_value *[]){a, pick_like(g, a->type)}, 2, NULL, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
}

static void state_split(kernelgen_generator *g) {
  ir_value *a = pick_any(g, ANY_CLASS);
  unsigned total = ir_log2_elements(a->type);
  if (!total) return;
  ir_type pairs = tile(a->type.scalar, 2, (uint8_t[]){(uint8_t)(total - 1), 1});
  if (total == 1 && chance(g, 50)) pairs = tile(a->type.scalar, 1, (uint8_t[]){1});
  if (total > 4 && chance(g, 20)) {
    pairs = tile(a->type.scalar, 5 + below(g, IR_MAX_RANK - 4),
                 (uint8_t[IR_MAX_RANK]){1, 0, 1, (uint8_t)(total - 3)});
    pairs.log2[pairs.rank - 1] = 1;
  } else if (total > 2 && chance(g, 40))
    pairs = tile(a->type.scalar, 4, (uint8_t[]){1, 0, (uint8_t)(total - 2), 1});
  else if (total > 1 && chance(g, 30))
    pairs = tile(a->type.scalar, 3, (uint8_t[]){1, (uint8_t)(total - 2), 1});
  a = shaped(g, a, pairs);
  ir_op *op = ir_emit(&g->b, IR_SPLIT, NULL, &a, 1, NULL, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
  keep(g, &op->results[1]);
}

/// Floats are added and multiplied only where every order gives the same.
static ir_value *reducible(kernelgen_generator *g, ir_combine kind) {
  bool bits = kind >= IR_COMBINE_AND;
  ir_value *a = pick_any(g, bits ? KILN_CLASS_INT | KILN_CLASS_BOOL : KILN_CLASS_INT | KILN_CLASS_FLOAT);
  bool ordered = (kind == IR_COMBINE_MAX || kind == IR_COMBINE_MIN) && may_flush(g, a->type);
  if (!a->type.rank) a = keep(g, whole_numbers(g, tile(a->type.scalar, 1, (uint8_t[]){6}), 1));
  if (ir_type_class(a->type) != KILN_CLASS_FLOAT || ordered) return a;
  if (kind == IR_COMBINE_ADD) return whole_numbers(g, a->type, is_half(a->type) ? 1 : 7);
  return with_number(g, IR_ADD, whole_numbers(g, a->type, 1), 1);
}

static void state_lanes(kernelgen_generator *g) {
  ir_combine kind = (ir_combine)(1 + below(g, 7));
  ir_value *a = reducible(g, kind);
  ir_opcode code = chance(g, 60) ? IR_REDUCE : IR_SCAN;
  uint32_t flags = chance(g, 25) ? IR_UNSIGNED : 0;
  if (code == IR_SCAN && chance(g, 40)) flags |= IR_REVERSE;
  if ((kind == IR_COMBINE_MAX || kind == IR_COMBINE_MIN) && chance(g, 30)) flags |= IR_NAN;
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

/// Numbers of elements, times an odd number.
static ir_value *odd_lanes(kernelgen_generator *g, ir_type index) {
  ir_value *at = lanes(g, index);
  return with_number(g, IR_MUL, at, 1 + 2 * (double)below(g, 8));
}

static void state_gather(kernelgen_generator *g) {
  ir_value *a = pick_any(g, ANY_CLASS);
  if (!a->type.rank) return;
  ir_attrs attrs = {.axis = (uint8_t)below(g, a->type.rank)};
  ir_type index = ir_with_element(a->type, ir_scalar_type(KILN_I32));
  index.log2[attrs.axis] = (uint8_t)below(g, a->type.log2[attrs.axis] + 1u);
  ir_value *at = chance(g, 50) ? pick_like(g, index) : odd_lanes(g, index);
  ir_op *op = ir_emit(&g->b, IR_GATHER, &attrs, (ir_value *[]){a, at}, 2, NULL, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
}

/// Values of any shape, many at few places or spread over more than there are.
static void state_scatter(kernelgen_generator *g) {
  ir_value *v = pick_any(g, KILN_CLASS_INT);
  if (!v->type.rank) return;
  if (ir_type_bits(v->type) < 32) v = cast(g, v, KILN_I32);
  ir_type index = ir_with_element(v->type, ir_scalar_type(KILN_I32));
  ir_value *at = chance(g, 50) ? pick_like(g, index) : odd_lanes(g, index);
  if (chance(g, 60)) at = with_number(g, IR_AND, at, (double)((2u << below(g, 7)) - 1));
  ir_value *into = pick_like(g, tile((kiln_scalar)v->type.scalar, 1, (uint8_t[]){(uint8_t)below(g, 8)}));
  ir_op *op = ir_emit(&g->b, IR_SCATTER, NULL, (ir_value *[]){into, at, v}, 3, NULL, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
}

/// The largest value and where it stands; the first of equals.
static void state_argmax(kernelgen_generator *g) {
  ir_value *a = pick_any(g, KILN_CLASS_INT);
  if (!a->type.rank) return;
  ir_value *at = lanes(g, ir_with_element(a->type, ir_scalar_type(KILN_I32)));
  ir_block *region = KILN_NEW(g->arena, ir_block);
  ir_builder in = {.arena = g->arena, .block = region};
  ir_type value = ir_element(a->type), index = ir_scalar_type(KILN_I32);
  ir_value *v = ir_block_arg(g->arena, region, value), *i = ir_block_arg(g->arena, region, index);
  ir_value *w = ir_block_arg(g->arena, region, value), *j = ir_block_arg(g->arena, region, index);
  ir_value *equal = ir_compare(&in, IR_EQ, 0, v, w);
  equal = ir_binary(&in, IR_AND, 0, equal, ir_compare(&in, IR_LT, 0, i, j));
  ir_value *first = ir_binary(&in, IR_OR, 0, equal, ir_compare(&in, IR_GT, 0, v, w));
  v = ir_ternary(&in, IR_SELECT, 0, first, v, w);
  i = ir_ternary(&in, IR_SELECT, 0, first, i, j);
  ir_yield(&in, (ir_value *[]){v, i}, 2);
  ir_attrs attrs = {.axis = (uint8_t)below(g, a->type.rank)};
  ir_op *op =
      ir_emit(&g->b, chance(g, 70) ? IR_REDUCE : IR_SCAN, &attrs, (ir_value *[]){a, at}, 2, NULL, &region, 1);
  keep(g, op ? &op->results[0] : NULL);
  keep(g, &op->results[1]);
}

/// A reduction or scan by a function of one value, in any order the same: of what the functions of the
/// language have no name for.
static void state_function(kernelgen_generator *g) {
  ir_value *a = pick_any(g, KILN_CLASS_INT);
  if (!a->type.rank) return;
  ir_block *region = KILN_NEW(g->arena, ir_block);
  ir_builder in = {.arena = g->arena, .block = region};
  ir_type element = ir_element(a->type);
  ir_value *x = ir_block_arg(g->arena, region, element), *y = ir_block_arg(g->arena, region, element), *both;
  switch (below(g, 3)) {
  case 0: // x + y + xy, which is (x + 1)(y + 1) - 1
    both = ir_binary(&in, IR_ADD, 0, x, y);
    both = ir_binary(&in, IR_ADD, 0, both, ir_binary(&in, IR_MUL, 0, x, y));
    break;
  case 1: // without a sign, so that the least value, whose magnitude is itself, is the largest of all
    both = ir_unary(&in, IR_ABS, 0, x);
    both = ir_binary(&in, IR_MAX, IR_UNSIGNED, both, ir_unary(&in, IR_ABS, 0, y));
    break;
  default:
    both = ir_binary(&in, IR_XOR, 0, x, y);
    both = ir_binary(&in, IR_XOR, 0, both, ir_const_int(&in, element.scalar, 5));
  }
  ir_yield(&in, &both, 1);
  ir_attrs attrs = {.axis = (uint8_t)below(g, a->type.rank)};
  ir_op *op = ir_emit(&g->b, chance(g, 70) ? IR_REDUCE : IR_SCAN, &attrs, &a, 1, NULL, &region, 1);
  keep(g, op ? &op->results[0] : NULL);
}

/// An operand of a product: of floats, small whole numbers that may come from data.
static ir_value *factor(kernelgen_generator *g, ir_type type) {
  if (type.scalar == KILN_I8 && chance(g, 60)) return pick_like(g, type);
  ir_type bits = ir_with_element(type, ir_scalar_type(KILN_I32));
  ir_value *source = made_since(g, 0, bits);
  if (!source || chance(g, 40)) return whole_numbers(g, type, 3);
  return cast(g, binary(g, IR_AND, source, constant(g, bits, 3)), type.scalar);
}

static uint8_t precision_of(kernelgen_generator *g, kiln_scalar element) {
  if (!chance(g, 40)) return IR_PREC_IEEE; // the operands have few bits: all are exact
  if (element == KILN_F32) return chance(g, 50) ? IR_PREC_TF32 : IR_PREC_TF32X3;
  return kiln_scalars[element].type_class == KILN_CLASS_FP8 ? IR_PREC_FAST : IR_PREC_IEEE;
}

static uint8_t draw_extent(kernelgen_generator *g) {
  return (uint8_t)(chance(g, 75) ? 4 + below(g, 2) : below(g, 7));
}

ir_value *kernelgen_product(kernelgen_generator *g, ir_value *sum) {
  static const kiln_scalar elements[] = {KILN_I8,  KILN_F16,  KILN_BF16, KILN_F32,
                                         KILN_F64, KILN_E4M3, KILN_E5M2};
  kiln_scalar element = elements[below(g, 7)];
  const kiln_scalar wanted = sum ? sum->type.scalar : KILN_F32;
  if (sum && wanted == KILN_I32) element = KILN_I8;
  else if (sum && wanted == KILN_F64) element = KILN_F64;
  else if (sum && (element == KILN_I8 || element == KILN_F64)) element = KILN_F16;
  const kiln_scalar of = element == KILN_I8 ? KILN_I32 : element == KILN_F64 ? KILN_F64 : KILN_F32;
  const bool batched = !sum && chance(g, 25);
  uint8_t m = draw_extent(g), n = draw_extent(g), k = draw_extent(g), batch = (uint8_t)below(g, 2);
  if (sum) m = sum->type.log2[0], n = sum->type.log2[1];
  else if (chance(g, 40)) m = n = k = 4; // what meets other values
  const uint8_t shapes[3][3] = {{batch, m, k}, {batch, k, n}, {batch, m, n}};
  ir_type types[3];
  for (int i = 0; i < 3; i++) types[i] = tile(i < 2 ? element : of, batched ? 3 : 2, shapes[i] + !batched);
  if (!sum) sum = of == KILN_I32 && chance(g, 60) ? pick_like(g, types[2]) : whole_numbers(g, types[2], 3);
  ir_value *operands[3] = {factor(g, types[0]), NULL, sum};
  const bool is_square = ir_type_equal(types[0], types[1]) && chance(g, 20);
  operands[1] = is_square ? operands[0] : factor(g, types[1]);
  return one(g, IR_DOT, &(ir_attrs){.precision = precision_of(g, element)}, operands, 3, NULL);
}

static void state_dot(kernelgen_generator *g) { keep(g, kernelgen_product(g, NULL)); }

ir_value *kernelgen_digest(kernelgen_generator *g) {
  ir_value *v = pick_any(g, KILN_CLASS_INT);
  if (v->type.rank) {
    v = shaped(g, v, tile(v->type.scalar, 1, (uint8_t[]){(uint8_t)ir_log2_elements(v->type)}));
    ir_attrs attrs = {.kind = chance(g, 50) ? IR_COMBINE_XOR : IR_COMBINE_ADD};
    v = one(g, IR_REDUCE, &attrs, &v, 1, NULL);
  }
  return cast(g, v, KILN_I32);
}

ir_value *kernelgen_cheap(kernelgen_generator *g) {
  ir_type shape = random_shape(g);
  if (!shape.rank) shape = tile(KILN_I32, 1, (uint8_t[]){6});
  if (chance(g, 40)) return keep(g, lanes(g, shape));
  const bool is_factor = chance(g, 20);
  if (is_factor) shape = tile(KILN_I32, 2, (uint8_t[]){4, 4});
  ir_value *v = lanes(g, shape);
  v = with_number(g, IR_MUL, v, 1 + below(g, 4));
  v = with_number(g, IR_AND, v, 63);
  return keep(g, cast(g, v, is_factor ? KILN_I8 : random_scalar(g)));
}

static ir_value *gathered(kernelgen_generator *g, ir_value *a, ir_value *from) {
  ir_attrs attrs = {.axis = (uint8_t)below(g, a->type.rank)};
  ir_type index = ir_with_element(a->type, ir_scalar_type(KILN_I32));
  ir_value *at = odd_lanes(g, index);
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

// ------------------------------------------------------------------------------------------- table

static const struct statement {
  void (*make)(kernelgen_generator *g);
  uint32_t weight;
  bool nests;
} statements[] = {
    {state_load, 11, false},
    {kernelgen_state_view_load, 4, false},
    {state_integer, 13, false},
    {state_boolean, 2, false},
    {state_float, 8, false},
    {state_unary, 9, false},
    {state_fma, 3, false},
    {state_compare, 4, false},
    {state_select, 4, false},
    {state_cast, 10, false},
    {state_bitcast, 3, false},
    {state_broadcast, 7, false},
    {state_reshape, 3, false},
    {state_trans, 3, false},
    {state_join, 3, false},
    {state_split, 2, false},
    {state_lanes, 6, false},
    {state_argmax, 2, false},
    {state_function, 2, false},
    {state_sort, 2, false},
    {state_gather, 3, false},
    {state_scatter, 3, false},
    {state_dot, 3, false},
    {state_source, 7, false},
    {kernelgen_state_view_part, 6, false},
    {kernelgen_state_place, 5, false},
    {kernelgen_state_table, 3, false},
    {kernelgen_state_store_pointers, 1, false},
    {kernelgen_state_reread_by_table, 1, false},
    {kernelgen_state_claim, 2, false},
    {kernelgen_state_atomic, 3, false},
    {kernelgen_state_cas, 2, false},
    {kernelgen_state_store, 3, false},
    {kernelgen_state_reread, 3, false},
    {kernelgen_state_for, 4, true},
    {kernelgen_state_while, 3, true},
    {kernelgen_state_if, 4, true},
};

static void one_statement(kernelgen_generator *g) {
  uint32_t total = 0, i = 0;
  if (g->pool_count && g->pool_count < POOL && chance(g, 30)) { // something older is near again
    ir_value *old = g->pool[below(g, g->pool_count)];
    g->pool[g->pool_count++] = old;
  }
  for (size_t k = 0; k < sizeof statements / sizeof *statements; k++) total += statements[k].weight;
  uint32_t at = below(g, total);
  while (at >= statements[i].weight) at -= statements[i++].weight;
  if (statements[i].nests && g->depth > 1) i = 2;
  g->depth++;
  if (g->kernel->fp_flush && chance(g, 20)) (chance(g, 70) ? state_float : state_fma)(g);
  else statements[i].make(g);
  g->depth--;
}

void kernelgen_statements(kernelgen_generator *g, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) one_statement(g);
}

// ------------------------------------------------------------------------------------------- whole

static void add_inputs(kernelgen_generator *g) {
  g->input_count = 3 + below(g, 2);
  for (uint32_t i = 0; i < g->input_count; i++) {
    kiln_scalar scalar = !i && chance(g, 60) ? KILN_I32 : random_scalar(g);
    if (i == 1 && g->kernel->fp_flush) scalar = chance(g, 60) ? KILN_F32 : KILN_BF16;
    g->inputs[i] = add_buffer(g, scalar, INPUT_ELEMENTS, false);
  }
  g->small = ir_add_param(
      g->kernel,
      &(ir_param){.name = "small", .type = ir_scalar_type(KILN_I32), .has_range = true, .lo = 1, .hi = 4});
  keep(g, g->small);
  keep(g, ir_add_param(g->kernel, &(ir_param){.name = "x", .type = ir_scalar_type(KILN_F32)}));
  g->wide = ir_add_param(g->kernel, &(ir_param){.name = "wide", .type = ir_scalar_type(KILN_I64)});
  keep(g, g->wide);
  kernelgen_scalar_inputs(g);
}

static ir_value *program_axis(kernelgen_generator *g, ir_opcode code, unsigned axis) {
  return &ir_emit(&g->b, code, &(ir_attrs){.axis = (uint8_t)axis}, NULL, 0, NULL, NULL, 0)->results[0];
}

static void find_program(kernelgen_generator *g) {
  unsigned axis = 2;
  while (axis && g->c->grid[axis] == 1) axis--; // what does not matter is for statements
  ir_value *id = program_axis(g, IR_PID, axis);
  while (axis-- > 0) {
    id = binary(g, IR_MUL, id, program_axis(g, IR_NPID, axis));
    id = binary(g, IR_ADD, id, program_axis(g, IR_PID, axis));
  }
  g->program = keep(g, id);
}

static void make(kiln_arena *arena, uint64_t seed, const kernelgen_options *options, kernelgen_case *out) {
  kernelgen_generator *g = KILN_NEW(arena, kernelgen_generator);
  *out = (kernelgen_case){.seed = seed};
  *g = (kernelgen_generator){.arena = arena, .options = options, .c = out, .random = seed};
  g->kernel = out->kernel = ir_kernel_create(arena, "generated");
  g->kernel->warps = (uint16_t)(1u << (chance(g, 85) ? below(g, 3) : 3));
  if (chance(g, 20)) g->kernel->stages = (uint16_t)(1 + below(g, 4));
  if (chance(g, 10)) g->kernel->max_registers = 128;
  g->b = (ir_builder){.arena = arena, .block = g->kernel->body};
  g->kernel->fp_strict = chance(g, 15), g->kernel->fp_flush = chance(g, 20);
  out->is_normal = g->kernel->fp_flush && chance(g, 50);
  out->is_tiny = g->kernel->fp_flush && !out->is_normal;
  for (int i = 0; i < 3; i++) out->grid[i] = 1 + below(g, i ? 2 : 3);
  for (int i = 0; i < 3; i++)
    if (chance(g, 40)) g->kernel->grid_limit[i] = out->grid[i] + below(g, 3);
  do g->favourite = drawn_shape(g);
  while (!g->favourite.rank || ir_log2_elements(g->favourite) > MAX_LOG2);
  if (chance(g, 30)) g->favourite = tile(KILN_I32, 2, (uint8_t[]){4, 4});
  add_inputs(g);
  for (uint32_t i = 0; i < g->input_count; i++) kernelgen_keep_place(g, g->inputs[i], 0);
  find_program(g);
  out->statement_count = options->statements ? options->statements : 6 + below(g, KERNELGEN_STATEMENTS - 8);
  for (g->statement = 0; g->statement < out->statement_count; g->statement++) {
    g->random = seed * 1000003 + g->statement; // so that dropping one statement leaves the others' choices
    if (!(options->dropped >> g->statement & 1)) one_statement(g);
  }
  kernelgen_store_unused(g);
  ir_number(g->kernel); // clears the notes of what is used
  if (g->b.error.status != KILN_OK) FAIL("seed %llu: %s", (unsigned long long)seed, g->b.error.text);
}

void kernelgen_make(kiln_arena *arena, uint64_t seed, const kernelgen_options *options, kernelgen_case *out) {
  if (options->rereads) kernelgen_make_rereads(arena, seed, out);
  else if (options->products) kernelgen_make_products(arena, seed, out);
  else make(arena, seed, options, out);
  out->param_count = out->kernel->param_count;
  out->params = kiln_arena_copy(arena, out->kernel->params, out->param_count * sizeof *out->params);
}
