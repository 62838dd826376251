// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic at compile time: literals exactly (64-bit integers, doubles), typed constants as the machine
// would compute them.
#include <math.h>

#include "compiler/front/operations.h"
#include "compiler/ir/scalar.h"

static kiln_value fold_ints(kiln_elab *e, ir_place place, ir_opcode code, int64_t a, int64_t b) {
  int64_t r = 0;
  bool failed = false;
  switch (code) {
  case IR_ADD: failed = __builtin_add_overflow(a, b, &r); break;
  case IR_SUB: failed = __builtin_sub_overflow(a, b, &r); break;
  case IR_MUL: failed = __builtin_mul_overflow(a, b, &r); break;
  case IR_DIV:
  case IR_REM:
    if (!b) return kiln_elab_error(e, place, "a compile-time division by zero");
    if (b == -1) failed = __builtin_sub_overflow(0, a, &r), r = code == IR_DIV ? r : 0;
    else r = code == IR_DIV ? a / b : a % b;
    break;
  case IR_OR: r = a | b; break;
  case IR_XOR: r = a ^ b; break;
  case IR_AND: r = a & b; break;
  case IR_SHL:
    if (b < 0 || b > 62)
      return kiln_elab_error(e, place, "expected a shift count from 0 to 62, found %lld", (long long)b);
    failed = __builtin_mul_overflow(a, INT64_C(1) << b, &r);
    break;
  default:
    if (b < 0 || b > 63)
      return kiln_elab_error(e, place, "expected a shift count from 0 to 63, found %lld", (long long)b);
    r = a >> b;
    break;
  }
  if (failed) return kiln_elab_error(e, place, "a compile-time integer overflows 64 bits");
  return kiln_value_int(r);
}

static double real_of(kiln_value v) { return v.kind == KILN_VALUE_INT ? (double)v.integer : v.real; }

static kiln_value fold_reals(kiln_elab *e, ir_place place, ir_opcode code, double a, double b) {
  double r;
  switch (code) {
  case IR_ADD: r = a + b; break;
  case IR_SUB: r = a - b; break;
  case IR_MUL: r = a * b; break;
  case IR_DIV: r = a / b; break;
  case IR_REM: r = fmod(a, b); break;
  default: return kiln_elab_error(e, place, "'%s' needs integers, found a float literal", ir_ops[code].sign);
  }
  if (isinf(r) && isfinite(a) && isfinite(b) && (code != IR_DIV || b != 0))
    return kiln_elab_error(e, place, "a compile-time float overflows f64: %g %s %g", a, ir_ops[code].sign, b);
  return kiln_value_real(r);
}

// Typed constants are computed as the kernel would compute them.
static bool is_flushing(const kiln_elab *e) { return e->kernel && e->kernel->fp_flush; }

static uint64_t evaluate(const kiln_elab *e, const ir_op *op, const uint64_t *bits) {
  return is_flushing(e) ? kiln_scalar_eval_flushed(op, bits) : kiln_scalar_eval(op, bits);
}

// Runs one operation of the IR on constants of one type.
static uint64_t run(const kiln_elab *e, ir_opcode code, uint8_t kind, uint32_t flags, ir_type type,
                    uint64_t a, uint64_t b) {
  ir_value left = {.type = type}, right = {.type = type},
           result = {.type = code == IR_CMP ? ir_scalar_type(KILN_I1) : type};
  ir_value *operands[] = {&left, &right};
  ir_op op = {.code = code,
              .operand_count = 2,
              .result_count = 1,
              .operands = operands,
              .results = &result,
              .attrs = {.kind = kind, .flags = flags}};
  uint64_t bits[] = {a, b};
  return evaluate(e, &op, bits);
}

static bool bring_together(kiln_elab *e, ir_place place, kiln_value *a, kiln_value *b) {
  ir_type type = a->kind == KILN_VALUE_CONST ? a->type : b->type;
  *a = kiln_elab_as_element(e, place, *a, type, "left operand");
  *b = kiln_elab_as_element(e, place, *b, type, "right operand");
  return a->kind == KILN_VALUE_CONST && b->kind == KILN_VALUE_CONST;
}

bool kiln_fold_binary(kiln_elab *e, ir_place place, ir_opcode code, kiln_value a, kiln_value b,
                      kiln_value *out) {
  if (!kiln_value_is_known(a) || !kiln_value_is_known(b)) return false;
  if (a.kind == KILN_VALUE_INT && b.kind == KILN_VALUE_INT) {
    *out = fold_ints(e, place, code, a.integer, b.integer);
    const bool is_either = code == IR_AND || code == IR_OR || code == IR_XOR,
               is_shift = code == IR_SHL || code == IR_SHR;
    out->is_pattern =
        (is_either ? a.is_pattern || b.is_pattern : a.is_pattern && (b.is_pattern || is_shift)) &&
        out->kind == KILN_VALUE_INT && out->integer >= 0;
    return true;
  }
  if (a.kind != KILN_VALUE_CONST && b.kind != KILN_VALUE_CONST)
    return *out = fold_reals(e, place, code, real_of(a), real_of(b)), true;
  if (!bring_together(e, place, &a, &b)) return *out = (kiln_value){0}, true;
  unsigned class = ir_type_class(a.type);
  if (!(ir_ops[code].classes & class)) return false;
  if ((code == IR_DIV || code == IR_REM) && class == KILN_CLASS_INT && !b.bits) return false;
  *out = kiln_value_const(a.type, run(e, code, 0, 0, a.type, a.bits, b.bits));
  return true;
}

static bool holds(ir_predicate p, bool less, bool equal) {
  switch (p) {
  case IR_EQ: return equal;
  case IR_NE: return !equal;
  case IR_LT: return less;
  case IR_LE: return less || equal;
  case IR_GT: return !less && !equal;
  case IR_GE: return !less;
  }
  return false;
}

bool kiln_fold_compare(kiln_elab *e, ir_place place, ir_predicate p, bool is_unsigned, kiln_value a,
                       kiln_value b, kiln_value *out) {
  if (!kiln_value_is_known(a) || !kiln_value_is_known(b)) return false;
  if (a.kind == KILN_VALUE_CONST || b.kind == KILN_VALUE_CONST) {
    if (!bring_together(e, place, &a, &b)) return *out = (kiln_value){0}, true;
    *out = kiln_value_bool(run(e, IR_CMP, (uint8_t)p, is_unsigned ? IR_UNSIGNED : 0, a.type, a.bits, b.bits));
  } else if (a.kind == KILN_VALUE_INT && b.kind == KILN_VALUE_INT) {
    *out = kiln_value_bool(
        holds(p, is_unsigned ? (uint64_t)a.integer < (uint64_t)b.integer : a.integer < b.integer,
              a.integer == b.integer));
  } else {
    double x = real_of(a), y = real_of(b);
    *out = kiln_value_bool(isnan(x) || isnan(y) ? p == IR_NE : holds(p, x < y, x == y));
  }
  return true;
}

kiln_value kiln_fold_cast(const kiln_elab *e, kiln_value v, ir_type element, uint32_t flags, ir_round round) {
  kiln_scalar from = v.kind == KILN_VALUE_CONST ? (kiln_scalar)v.type.scalar
                     : v.kind == KILN_VALUE_INT ? KILN_I64
                                                : KILN_F64;
  uint64_t bits = v.kind == KILN_VALUE_INT    ? (uint64_t)v.integer
                  : v.kind == KILN_VALUE_REAL ? ir_float_to_bits(KILN_F64, v.real, false)
                                              : v.bits;
  // A literal has no width, and its sign.
  if (v.kind == KILN_VALUE_INT && (ir_type_class(element) & (KILN_CLASS_FLOAT | KILN_CLASS_FP8)))
    flags &= ~IR_UNSIGNED;
  const kiln_scalar to = (kiln_scalar)element.scalar;
  const bool is_flushed =
      is_flushing(e) && v.kind == KILN_VALUE_CONST && kiln_scalar_flushes_cast(from, to); // as at run time
  bits = (is_flushed ? kiln_scalar_cast_flushed : kiln_scalar_cast)(from, to, flags, round, bits);
  return kiln_value_const(element, bits);
}

// Literals are computed as i64 and f64 and stay literals.
static ir_type folding_type(const kiln_value *values, uint32_t count) {
  bool real = false;
  for (uint32_t i = 0; i < count; i++) {
    if (values[i].kind == KILN_VALUE_CONST) return values[i].type;
    real |= values[i].kind == KILN_VALUE_REAL;
  }
  return ir_scalar_type(real ? KILN_F64 : KILN_I64);
}

bool kiln_fold_operation(kiln_elab *e, ir_place place, ir_opcode code, uint32_t flags,
                         const kiln_value *values, uint32_t count, kiln_value *out) {
  enum { MOST = 3 };
  ir_value operands[MOST] = {0}, *pointers[MOST] = {&operands[0], &operands[1], &operands[2]};
  uint64_t bits[MOST] = {0};
  bool typed = false;
  for (uint32_t i = 0; i < count; i++) {
    if (!kiln_value_is_known(values[i])) return false;
    typed |= values[i].kind == KILN_VALUE_CONST;
  }
  ir_type type = folding_type(values, count);
  bool real_needed = !typed && type.scalar == KILN_I64 && !(ir_ops[code].classes & KILN_CLASS_INT);
  if (real_needed) type = ir_scalar_type(KILN_F64);
  if (!kiln_scalar_knows(code) || ir_has(code, IR_INEXACT) || !(ir_ops[code].classes & ir_type_class(type)) ||
      (!typed && flags & IR_UNSIGNED))
    return false;
  for (uint32_t i = 0; i < count; i++) {
    kiln_value v = kiln_elab_as_element(e, place, values[i], type, "operand");
    if (v.kind == KILN_VALUE_ERROR) return *out = v, true;
    operands[i].type = type;
    bits[i] = v.bits;
  }
  bool divides = (code == IR_DIV || code == IR_REM) && ir_type_class(type) == KILN_CLASS_INT;
  if (divides && !bits[1]) return false;
  ir_value result = {.type = type};
  ir_op op = {.code = code,
              .operand_count = count,
              .result_count = 1,
              .operands = pointers,
              .results = &result,
              .attrs = {.flags = flags}};
  *out = kiln_value_const(type, typed ? evaluate(e, &op, bits) : kiln_scalar_eval(&op, bits));
  if (!typed)
    *out = type.scalar == KILN_F64 ? kiln_value_real(kiln_value_const_real(*out))
                                   : kiln_value_int((int64_t)out->bits);
  return true;
}
