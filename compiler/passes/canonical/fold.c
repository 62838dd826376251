// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Folding: operations on constants, identities that hold bit for bit, splats moved outwards so that uniform
// work is done once.
//
// Needs nothing. Keeps order and effects. Leaves unused operations to DCE. Mathematical functions of
// constants are left alone: their bits would be those of the building machine's libm.
#include "compiler/passes/pass.h"

#include <math.h>
#include <stdlib.h>

#include "compiler/ir/scalar.h"

typedef struct folding {
  ir_kernel *kernel;
  ir_builder b; // stands before the operation that is looked at
  bool changed;
} folding;

/// Looks at one operation; returns what replaces its only result, or NULL.
typedef ir_value *simplifier(folding *f, ir_op *op);

// -------------------------------------------------------------------------------------------- help

static ir_value *constant(folding *f, ir_type type, uint64_t bits) {
  ir_value *v = ir_const_bits(&f->b, ir_element(type), bits);
  return type.rank ? ir_splat(&f->b, v, type) : v;
}

static ir_value *integer(folding *f, ir_type type, int64_t value) {
  return constant(f, type, (uint64_t)value);
}

static bool is_integral(ir_type type) { return ir_type_class(type) & (KILN_CLASS_INT | KILN_CLASS_BOOL); }

static bool is_constant(const ir_value *v) {
  uint64_t bits;
  return ir_constant_bits(v, &bits);
}

/// Under `@fp(ftz)` an operation that changes nothing else still takes denormals away.
static bool takes_denormals(const folding *f, const ir_op *op) {
  return f->kernel->fp_flush && kiln_scalar_flushes(op);
}

// --------------------------------------------------------------------------------------- constants

static ir_value *fold_constants(folding *f, ir_op *op) {
  uint64_t bits[3];
  ir_type type = op->results[0].type;
  if (!kiln_scalar_knows(op->code) || ir_has(op->code, IR_INEXACT) || type.pointer) return NULL;
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (!ir_constant_bits(op->operands[i], &bits[i])) return NULL;
  return constant(f, type,
                  f->kernel->fp_flush ? kiln_scalar_eval_flushed(op, bits) : kiln_scalar_eval(op, bits));
}

/// op(splat a, splat b) is splat(op(a, b)).
static ir_value *fold_splats(folding *f, ir_op *op) {
  ir_value *scalars[3];
  ir_type type = op->results[0].type;
  if (!type.rank || !(kiln_scalar_knows(op->code) || op->code == IR_PTRADD)) return NULL;
  for (uint32_t i = 0; i < op->operand_count; i++) {
    scalars[i] = op->operands[i]->type.rank ? ir_splat_source(op->operands[i]) : op->operands[i];
    if (!scalars[i]) return NULL;
  }
  ir_type element = ir_element(type);
  ir_op *scalar = ir_emit(&f->b, op->code, &op->attrs, scalars, op->operand_count, &element, NULL, 0);
  return scalar ? ir_splat(&f->b, &scalar->results[0], type) : NULL;
}

// -------------------------------------------------------------------------------------- identities

static int log2_exact(int64_t n) { return n > 0 && (n & (n - 1)) == 0 ? __builtin_ctzll((uint64_t)n) : -1; }

static ir_value *fold_arithmetic(folding *f, ir_op *op) {
  const ir_opcode code = op->code;
  ir_value *left = op->operands[0], *right = op->operands[1];
  const ir_type type = op->results[0].type;
  const bool is_unsigned = op->attrs.flags & IR_UNSIGNED, keeps = !takes_denormals(f, op);
  int64_t n;
  double d;
  int e;
  // x op constant and x op x, by the properties of ops.def.
  if (keeps && left == right && ir_has(code, IR_REPEATS)) return left;
  if (keeps && left == right && ir_has(code, IR_CANCELS) && is_integral(type)) return integer(f, type, 0);
  if (keeps && ir_constant_int(right, &n)) {
    if (ir_type_bits(right->type) == 1) n = -n; // a true i1 is all ones
    if (n == 0 && ir_has(code, IR_ENDS_0)) return integer(f, type, 0);
    if (n == -1 && ir_has(code, IR_ENDS_ONES)) return right;
    const bool unit = n == 0   ? ir_has(code, IR_UNIT_0)
                      : n == 1 ? ir_has(code, IR_UNIT_1)
                               : ir_has(code, IR_UNIT_ONES) && n == -1;
    if (unit) return left;
  }
  if (keeps && ir_type_class(type) == KILN_CLASS_FLOAT && ir_constant_float(right, &d)) {
    const bool is_zero = d == 0 && !signbit(d) == (code != IR_ADD); // -0 + 0 is +0
    if ((is_zero && ir_has(code, IR_UNIT_0)) || (d == 1 && ir_has(code, IR_UNIT_1))) return left;
  }
  // (x op c) op d is x op (c op d) for integers.
  ir_op *inner = ir_producer(left, code);
  if (ir_has(code, IR_ASSOCIATES) && is_integral(left->type) && inner && is_constant(right) &&
      is_constant(inner->operands[1])) {
    ir_value *both = ir_binary(&f->b, code, op->attrs.flags, inner->operands[1], right);
    return ir_binary(&f->b, code, op->attrs.flags, inner->operands[0], both);
  }
  // Cheaper forms: subtraction of a constant, unsigned division by a power of two, division of floats by one.
  if (ir_constant_int(right, &n) && is_integral(left->type)) {
    const ir_type of = left->type;
    if (code == IR_SUB) return ir_binary(&f->b, IR_ADD, 0, left, integer(f, of, (int64_t)(0 - (uint64_t)n)));
    if (code == IR_DIV && is_unsigned && log2_exact(n) > 0)
      return ir_binary(&f->b, IR_SHR, IR_UNSIGNED, left, integer(f, of, log2_exact(n)));
    if (code == IR_REM && n == 1) return integer(f, of, 0);
    if (code == IR_REM && is_unsigned && log2_exact(n) > 0)
      return ir_binary(&f->b, IR_AND, 0, left, integer(f, of, n - 1));
  }
  if (code == IR_DIV && ir_constant_float(right, &d) && isfinite(d) && fabs(frexp(d, &e)) == 0.5 &&
      abs(e) < 12)
    return ir_binary(&f->b, IR_MUL, 0, left, ir_const_like(&f->b, left->type, 1 / d));
  return NULL;
}

/// Constants go to the right; a comparison changes its predicate then.
static void commute(folding *f, ir_op *op) {
  if (!ir_has(op->code, IR_COMMUTES) && op->code != IR_CMP) return;
  if (!is_constant(op->operands[0]) || is_constant(op->operands[1])) return;
  static const uint8_t swapped[] = {
      [IR_EQ] = IR_EQ, [IR_NE] = IR_NE, [IR_LT] = IR_GT, [IR_LE] = IR_GE, [IR_GT] = IR_LT, [IR_GE] = IR_LE};
  ir_value *left = op->operands[0];
  op->operands[0] = op->operands[1];
  op->operands[1] = left;
  if (op->code == IR_CMP) op->attrs.kind = swapped[op->attrs.kind];
  f->changed = true;
}

/// not(a < b) is a >= b, for integers; and for == and != of floats.
static ir_value *fold_xor(folding *f, ir_op *op) {
  static const uint8_t inverse[] = {
      [IR_EQ] = IR_NE, [IR_NE] = IR_EQ, [IR_LT] = IR_GE, [IR_LE] = IR_GT, [IR_GT] = IR_LE, [IR_GE] = IR_LT};
  int64_t n;
  ir_op *test = ir_producer(op->operands[0], IR_CMP);
  if (test && ir_type_bits(op->operands[0]->type) == 1 && ir_constant_int(op->operands[1], &n) && n == 1) {
    bool is_float = ir_type_class(test->operands[0]->type) == KILN_CLASS_FLOAT;
    if (!is_float || test->attrs.kind == IR_EQ || test->attrs.kind == IR_NE)
      return ir_compare(&f->b, inverse[test->attrs.kind], test->attrs.flags, test->operands[0],
                        test->operands[1]);
  }
  return fold_arithmetic(f, op);
}

static ir_value *fold_compare(folding *f, ir_op *op) {
  if (op->operands[0] != op->operands[1] || ir_type_class(op->operands[0]->type) == KILN_CLASS_FLOAT)
    return NULL;
  bool holds = op->attrs.kind == IR_EQ || op->attrs.kind == IR_LE || op->attrs.kind == IR_GE;
  return integer(f, op->results[0].type, holds);
}

static ir_value *fold_select(folding *f, ir_op *op) {
  ir_value *c = op->operands[0], *a = op->operands[1], *b = op->operands[2];
  int64_t n, x, y;
  if (ir_constant_int(c, &n)) return n ? a : b;
  if (a == b) return a;
  ir_op *inverted = ir_producer(c, IR_XOR);
  if (inverted && ir_constant_int(inverted->operands[1], &n) && n)
    return ir_ternary(&f->b, IR_SELECT, 0, inverted->operands[0], b, a);
  if (ir_splat_source(c)) return ir_ternary(&f->b, IR_SELECT, 0, ir_splat_source(c), a, b);
  if (!ir_type_equal(c->type, a->type) || !ir_constant_int(a, &x) || !ir_constant_int(b, &y)) return NULL;
  if (!x == !y) return a;
  return x ? c : ir_binary(&f->b, IR_XOR, 0, c, integer(f, c->type, 1));
}

static ir_value *fold_fma(folding *f, ir_op *op) {
  double d;
  if (ir_constant_float(op->operands[1], &d) && d == 1.0)
    return ir_binary(&f->b, IR_ADD, 0, op->operands[0], op->operands[2]);
  return NULL;
}

/// A hint that says nothing.
static ir_value *fold_hint(folding *f, ir_op *op) {
  (void)f;
  return op->attrs.hint.divisible <= 1 && op->attrs.hint.contiguous <= 1 ? op->operands[0] : NULL;
}

// ------------------------------------------------------------------------------------------- casts

/// A chain of integer conversions from A through B to C is one from A to C when B is no narrower than A.
static ir_value *fold_integer_chain(folding *f, ir_op *op, ir_op *inner) {
  ir_type from = inner->operands[0]->type, through = inner->results[0].type, to = op->results[0].type;
  if (ir_type_class(through) != KILN_CLASS_INT || ir_type_class(to) != KILN_CLASS_INT || !is_integral(from))
    return NULL;
  unsigned a = ir_type_bits(from), b = ir_type_bits(through), c = ir_type_bits(to);
  bool inner_unsigned = (inner->attrs.flags & IR_UNSIGNED) || a == 1,
       outer_unsigned = op->attrs.flags & IR_UNSIGNED;
  if (b < a) return c <= b ? ir_cast(&f->b, inner->operands[0], to.scalar, 0, 0) : NULL;
  if (c > b && b > a && outer_unsigned && !inner_unsigned) return NULL;
  if (c > b && b == a) return NULL;
  return ir_cast(&f->b, inner->operands[0], to.scalar, c > a && inner_unsigned && a > 1 ? IR_UNSIGNED : 0, 0);
}

static ir_value *fold_cast(folding *f, ir_op *op) {
  ir_value *x = op->operands[0];
  if (ir_type_equal(x->type, op->results[0].type)) return x;
  ir_op *inner = ir_producer(x, IR_CAST);
  if (!inner || takes_denormals(f, op)) return NULL;
  ir_value *v = fold_integer_chain(f, op, inner);
  if (v) return v;
  ir_type from = inner->operands[0]->type, through = x->type;
  bool there_and_back =
      ir_type_equal(from, op->results[0].type) && ir_type_class(from) == KILN_CLASS_FLOAT &&
      ((through.scalar == KILN_F32 && ir_type_bits(from) == 16) || through.scalar == KILN_F64);
  return there_and_back ? inner->operands[0] : NULL;
}

static ir_value *fold_bitcast(folding *f, ir_op *op) {
  ir_value *x = op->operands[0];
  if (ir_type_equal(x->type, op->results[0].type)) return x;
  ir_op *inner = ir_producer(x, IR_BITCAST);
  return inner ? ir_bitcast(&f->b, inner->operands[0], ir_element(op->results[0].type)) : NULL;
}

/// Base, extent or stride of a view that stands here.
static ir_value *fold_view_part(folding *f, ir_op *op) {
  (void)f;
  ir_op *view = ir_producer(op->operands[0], IR_VIEW);
  return view ? view->operands[ir_view_part(op)] : NULL;
}

// ------------------------------------------------------------------------------------------ shapes

/// The shape operation of a splat is a splat; of a scalar too.
static ir_value *reshaped_splat(folding *f, ir_op *op) {
  ir_value *x = op->operands[0], *s = x->type.rank ? ir_splat_source(x) : x;
  ir_type type = op->results[0].type;
  if (!s) return NULL;
  return type.rank ? ir_splat(&f->b, s, type) : s;
}

static ir_value *fold_shape(folding *f, ir_op *op) {
  ir_value *x = op->operands[0];
  ir_op *inner = ir_producer(x, op->code);
  if (op->code != IR_EXPAND && ir_type_equal(x->type, op->results[0].type)) return x;
  if (inner && op->code == IR_RESHAPE) return ir_reshape(&f->b, inner->operands[0], op->results[0].type);
  if (inner && op->code == IR_BROADCAST) return ir_broadcast(&f->b, inner->operands[0], op->results[0].type);
  return reshaped_splat(f, op);
}

static ir_value *fold_trans(folding *f, ir_op *op) {
  ir_op *inner = ir_producer(op->operands[0], IR_TRANS);
  unsigned rank = op->results[0].type.rank, fixed = 0;
  for (unsigned i = 0; i < rank; i++) fixed += op->attrs.perm[i] == i;
  if (fixed == rank) return op->operands[0];
  if (inner) {
    ir_attrs attrs = op->attrs;
    for (unsigned i = 0; i < rank; i++) attrs.perm[i] = inner->attrs.perm[op->attrs.perm[i]];
    ir_op *one = ir_emit(&f->b, IR_TRANS, &attrs, inner->operands, 1, NULL, NULL, 0);
    return one ? &one->results[0] : NULL;
  }
  return reshaped_splat(f, op);
}

static ir_value *fold_join(folding *f, ir_op *op) {
  ir_value *s = ir_splat_source(op->operands[0]);
  if (op->operands[0]->type.rank == 0 && op->operands[0] == op->operands[1]) s = op->operands[0];
  bool same = op->operands[0] == op->operands[1] || (s && s == ir_splat_source(op->operands[1]));
  if (s && same) return ir_splat(&f->b, s, op->results[0].type);
  if (op->operands[0]->type.rank) return NULL;
  // Two scalars: lane 0 takes the left one. Back ends then see no scalar where they look for a tile.
  ir_value *lane = ir_iota(&f->b, 1),
           *first = ir_compare(&f->b, IR_EQ, 0, lane, ir_const_like(&f->b, lane->type, 0));
  ir_type type = op->results[0].type;
  return ir_ternary(&f->b, IR_SELECT, 0, first, ir_splat(&f->b, op->operands[0], type),
                    ir_splat(&f->b, op->operands[1], type));
}

/// A uniform offset goes to the pointer before one that is not: splat(p) + t + splat(s) is splat(p + s) + t.
/// Sums are taken apart by kiln_part_offsets.
static ir_value *fold_pointer(folding *f, ir_op *op) {
  ir_value *p = op->operands[0], *offset = op->operands[1], *base, *uniform;
  int64_t n;
  if (ir_constant_int(offset, &n) && n == 0) return p;
  ir_op *inner = ir_producer(p, IR_PTRADD);
  if (ir_splat_source(p) || !inner || !(uniform = ir_splat_source(offset)) ||
      !(base = ir_splat_source(inner->operands[0])))
    return NULL;
  return ir_binary(&f->b, IR_PTRADD, 0,
                   ir_splat(&f->b, ir_binary(&f->b, IR_PTRADD, 0, base, uniform), p->type),
                   inner->operands[1]);
}

// ---------------------------------------------------------------- reductions, memory, many results

static void forward(folding *f, ir_op *op, uint32_t result, ir_value *v) {
  ir_forward(&op->results[result], v);
  f->changed = true;
}

/// Along an axis of extent 1 there is nothing to combine; max, min, and, or of equal elements is the element.
static bool fold_lanes(folding *f, ir_op *op) {
  bool idempotent = ir_combines[op->attrs.kind].is_idempotent;
  bool single = op->operands[0]->type.log2[op->attrs.axis] == 0;
  if (takes_denormals(f, op) || (!single && !(idempotent && ir_splat_source(op->operands[0])))) return false;
  for (uint32_t i = 0; i < op->operand_count; i++) {
    ir_type type = op->results[i].type;
    ir_value *x = op->operands[i], *s = ir_splat_source(x);
    if (op->code == IR_REDUCE) x = !s ? ir_reshape(&f->b, x, type) : type.rank ? ir_splat(&f->b, s, type) : s;
    if (!x) return false;
    forward(f, op, i, x);
  }
  return true;
}

static bool fold_split(folding *f, ir_op *op) {
  ir_op *join = ir_producer(op->operands[0], IR_JOIN);
  ir_value *s = ir_splat_source(op->operands[0]);
  if (!join && !s) return false;
  for (uint32_t i = 0; i < 2; i++)
    forward(f, op, i,
            join                       ? join->operands[i]
            : op->results[i].type.rank ? ir_splat(&f->b, s, op->results[i].type)
                                       : s);
  return true;
}

/// Accesses under a constant mask: without it, or not at all.
static bool fold_masked(folding *f, ir_op *op) {
  uint32_t at = op->code == IR_LOAD ? 1 : 2;
  int64_t on;
  if (op->operand_count <= at || !ir_constant_int(op->operands[at], &on)) return false;
  if (!on && op->result_count) {
    ir_type type = op->results[0].type;
    bool has_other = op->code == IR_LOAD && op->operand_count > 2;
    if (type.pointer && !has_other) return false;
    forward(f, op, 0, has_other ? op->operands[2] : constant(f, type, 0));
  }
  if (on) {
    ir_op *plain = ir_emit(&f->b, op->code, &op->attrs, op->operands, at, NULL, NULL, 0);
    if (!plain) return false;
    if (op->result_count) forward(f, op, 0, &plain->results[0]);
  }
  f->changed = true;
  return true;
}

/// assume(true), assert(true).
static bool fold_claim(folding *f, ir_op *op) {
  int64_t n;
  if (!ir_constant_int(op->operands[0], &n) || !n) return false;
  f->changed = true;
  return true;
}

/// By operation: what replaces its only result, or what forwards its results itself; true: then it goes.
typedef struct rule {
  simplifier *value;
  bool (*whole)(folding *f, ir_op *op);
} rule;

/// Elementwise operations of two operands have a rule without a case: it asks the table for their properties.
static rule rule_of(ir_opcode code) {
  switch (code) {
  case IR_XOR: return (rule){.value = fold_xor};
  case IR_CMP: return (rule){.value = fold_compare};
  case IR_SELECT: return (rule){.value = fold_select};
  case IR_FMA: return (rule){.value = fold_fma};
  case IR_CAST: return (rule){.value = fold_cast};
  case IR_BITCAST: return (rule){.value = fold_bitcast};
  case IR_EXPAND:
  case IR_BROADCAST:
  case IR_RESHAPE: return (rule){.value = fold_shape};
  case IR_TRANS: return (rule){.value = fold_trans};
  case IR_JOIN: return (rule){.value = fold_join};
  case IR_PTRADD: return (rule){.value = fold_pointer};
  case IR_HINT: return (rule){.value = fold_hint};
  case IR_VIEW_BASE:
  case IR_DIM:
  case IR_VIEW_STRIDE: return (rule){.value = fold_view_part};
  case IR_REDUCE:
  case IR_SCAN: return (rule){.whole = fold_lanes};
  case IR_SPLIT: return (rule){.whole = fold_split};
  case IR_LOAD:
  case IR_STORE:
  case IR_ATOMIC: return (rule){.whole = fold_masked};
  case IR_ASSUME:
  case IR_ASSERT: return (rule){.whole = fold_claim};
  default: return (rule){.value = ir_has(code, IR_EACH) && ir_ops[code].most == 2 ? fold_arithmetic : NULL};
  }
}

kiln_status kiln_pass_fold(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)err;
  folding f = {.kernel = kernel, .b = {.arena = kernel->arena}};
  for (ir_op *op = ir_next(kernel->body, NULL), *next; op; op = next) {
    next = ir_after(kernel->body, op);
    for (uint32_t i = 0; i < op->operand_count; i++) op->operands[i] = ir_resolve(op->operands[i]);
    ir_build_before(&f.b, op);
    rule r = rule_of(op->code);
    bool goes = r.whole && r.whole(&f, op);
    if (!r.whole && op->result_count == 1 && !op->region_count && op->operand_count) {
      commute(&f, op);
      ir_value *v = fold_constants(&f, op);
      if (!v && r.value) v = r.value(&f, op);
      if (!v) v = fold_splats(&f, op);
      if (v) forward(&f, op, 0, v);
      goes = v != NULL;
    }
    if (goes) ir_remove(op);
    else next = ir_next(kernel->body, op);
  }
  ir_apply_forwards(kernel);
  context->changed |= f.changed;
  return KILN_OK;
}
