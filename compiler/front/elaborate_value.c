// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values of elaboration: literals take the type of what they meet, scalars broadcast to tiles, extents of 1 grow; and
// arithmetic at compile time: literals exactly (64-bit integers, doubles), typed constants as the machine would compute
// them.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compiler/front/elaborate.h"
#include "compiler/front/operations.h"
#include "compiler/ir/scalar.h"

// ------------------------------------------------------------------------------------ types that values take

bool kiln_value_is_known(kiln_value v) {
  return v.kind == KILN_VALUE_INT || v.kind == KILN_VALUE_REAL || v.kind == KILN_VALUE_CONST;
}
kiln_value kiln_value_int(int64_t v) { return (kiln_value){.kind = KILN_VALUE_INT, .integer = v}; }
kiln_value kiln_value_real(double v) { return (kiln_value){.kind = KILN_VALUE_REAL, .real = v}; }
kiln_value kiln_value_const(ir_type type, uint64_t bits) {
  unsigned width = ir_type_bits(type);
  return (kiln_value){.kind = KILN_VALUE_CONST,
                      .type = type,
                      .bits = width < 64 ? bits & ((UINT64_C(1) << width) - 1) : bits};
}
kiln_value kiln_value_bool(bool v) { return kiln_value_const(ir_scalar_type(KILN_I1), v); }
kiln_value kiln_value_type(ir_type type) { return (kiln_value){.kind = KILN_VALUE_TYPE, .type = type}; }
kiln_value kiln_value_runtime(ir_value *v) {
  return (kiln_value){.kind = KILN_VALUE_RUNTIME, .type = v->type, .ir = v};
}

const char *kiln_value_text(kiln_value v, char out[IR_TYPE_TEXT]) {
  static const char *const words[] = {[KILN_VALUE_INT] = "an integer literal",
                                      [KILN_VALUE_REAL] = "a float literal",
                                      [KILN_VALUE_TYPE] = "a type",
                                      [KILN_VALUE_TEXT] = "a string",
                                      [KILN_VALUE_TARGET] = "TARGET"};
  if (v.kind == KILN_VALUE_CONST || v.kind == KILN_VALUE_RUNTIME) return ir_type_text(v.type, out);
  return words[v.kind] ? words[v.kind] : "an error";
}

int64_t kiln_value_const_int(kiln_value v) {
  unsigned width = ir_type_bits(v.type);
  if (width == 1 || width >= 64) return (int64_t)v.bits;
  return (int64_t)(v.bits << (64 - width)) >> (64 - width);
}

double kiln_value_const_real(kiln_value v) { return ir_bits_to_float((kiln_scalar)v.type.scalar, v.bits); }

kiln_value kiln_elab_result(kiln_elab *e, ir_place place, ir_value *v) {
  if (v) {
    e->steps = e->steps > 9 ? e->steps - 8 : 1; // the last one is left for kiln_elab_eval, which reports
    return kiln_value_runtime(v);
  }
  if (e->b.error.status != KILN_OK) kiln_elab_error(e, place, "%s", e->b.error.text);
  e->b.error.status = KILN_OK;
  return (kiln_value){0};
}

// ---------------------------------------------------------------------------------------- literals

static kiln_value int_as(kiln_elab *e, ir_place place, kiln_value v, ir_type element) {
  unsigned width = ir_type_bits(element);
  if (width < 64 && v.kind == KILN_VALUE_INT) {
    const unsigned digits = v.is_pattern || width == 1 ? width : width - 1;
    const int64_t least = v.is_pattern ? 0 : -(INT64_C(1) << (width - 1)), most = (INT64_C(1) << digits) - 1;
    if (v.integer < least || v.integer > most)
      return kiln_elab_error(
          e, place, "%lld does not fit %s%s", (long long)v.integer, kiln_scalars[element.scalar].spelling,
          v.integer > most && v.integer >> width == 0 ? "; hexadecimal integers are bit patterns" : "");
  }
  return kiln_value_const(element, (uint64_t)v.integer);
}

// What is written as a number is one in the type: no literal overflows to infinity or NaN in silence.
static kiln_value float_as(kiln_elab *e, ir_place place, kiln_value v, ir_type element) {
  kiln_scalar scalar = (kiln_scalar)element.scalar;
  double real = v.kind == KILN_VALUE_INT ? (double)v.integer : v.real;
  uint64_t bits = v.kind == KILN_VALUE_INT ? kiln_scalar_cast(KILN_I64, scalar, IR_SATURATE_OFF,
                                                              IR_ROUND_NEAREST, (uint64_t)v.integer)
                                           : ir_float_to_bits(scalar, real, false);
  uint64_t top = ir_float_to_bits(scalar, INFINITY, true);
  double got = ir_bits_to_float(scalar, bits), largest = ir_bits_to_float(scalar, top);
  if (isinf(largest)) largest = ir_bits_to_float(scalar, top - 1);
  if (isfinite(real) && !isfinite(got))
    return kiln_elab_error(e, place, "%g does not fit %s, whose largest number is %g", real,
                           kiln_scalars[scalar].spelling, largest);
  if (isinf(real) && !isinf(got))
    return kiln_elab_error(e, place, "%s has no infinity; its largest number is %g",
                           kiln_scalars[scalar].spelling, largest);
  return kiln_value_const(element, bits);
}

static kiln_value mismatch(kiln_elab *e, ir_place place, const char *what, ir_type want, kiln_value v) {
  char a[IR_TYPE_TEXT], b[IR_TYPE_TEXT];
  bool cast = v.kind == KILN_VALUE_CONST || v.kind == KILN_VALUE_RUNTIME;
  cast = cast && !want.pointer && !v.type.pointer && !v.type.is_view && !want.is_view &&
         want.scalar != v.type.scalar;
  return kiln_elab_error(e, place, "%s: expected %s, found %s%s%s", what, ir_type_text(want, a),
                         kiln_value_text(v, b), cast ? "; types are not converted, write 'as " : "",
                         cast ? kiln_arena_format(e->arena, "%s'", kiln_scalars[want.scalar].spelling) : "");
}

kiln_value kiln_elab_as_element(kiln_elab *e, ir_place place, kiln_value v, ir_type element,
                                const char *what) {
  unsigned class = ir_type_class(element);
  switch ((kiln_value_kind)v.kind) {
  case KILN_VALUE_ERROR: return v;
  case KILN_VALUE_INT:
    if (class == KILN_CLASS_INT) return int_as(e, place, v, element);
    if (class & (KILN_CLASS_FLOAT | KILN_CLASS_FP8)) return float_as(e, place, v, element);
    return mismatch(e, place, what, element, v);
  case KILN_VALUE_REAL:
    if (class & (KILN_CLASS_FLOAT | KILN_CLASS_FP8)) return float_as(e, place, v, element);
    return mismatch(e, place, what, element, v);
  case KILN_VALUE_CONST:
  case KILN_VALUE_RUNTIME:
    if (ir_type_equal(ir_element(v.type), element) && !v.type.is_view) return v;
    return mismatch(e, place, what, element, v);
  case KILN_VALUE_TYPE:
  case KILN_VALUE_TEXT:
  case KILN_VALUE_TARGET: return mismatch(e, place, what, element, v);
  }
  return (kiln_value){0};
}

static kiln_value default_literal(kiln_elab *e, ir_place place, kiln_value v) {
  if (v.kind == KILN_VALUE_INT) return int_as(e, place, v, ir_scalar_type(KILN_I32));
  if (v.kind == KILN_VALUE_REAL) return float_as(e, place, v, ir_scalar_type(KILN_F32));
  return v;
}

kiln_value kiln_elab_emit_const(kiln_elab *e, kiln_value v) {
  if (v.kind == KILN_VALUE_CONST && !v.ir && e->has_builder) v.ir = ir_const_bits(&e->b, v.type, v.bits);
  return v;
}

ir_value *kiln_elab_runtime(kiln_elab *e, ir_place place, kiln_value v) {
  char text[IR_TYPE_TEXT];
  v = default_literal(e, place, v);
  if (v.kind == KILN_VALUE_RUNTIME) return v.ir;
  if (v.kind == KILN_VALUE_CONST) {
    if (e->has_builder) return kiln_elab_emit_const(e, v).ir;
    kiln_elab_error(e, place, "expected a value that is known at compile time");
    return NULL;
  }
  if (v.kind != KILN_VALUE_ERROR)
    kiln_elab_error(e, place, "expected a value, found %s", kiln_value_text(v, text));
  return NULL;
}

bool kiln_elab_type_of(kiln_elab *e, ir_place place, kiln_value v, ir_type *out) {
  *out = (ir_type){0};
  v = default_literal(e, place, v);
  if (v.kind == KILN_VALUE_CONST || v.kind == KILN_VALUE_RUNTIME) return *out = v.type, true;
  if (v.kind != KILN_VALUE_ERROR) kiln_elab_runtime(e, place, v);
  return false;
}

// ------------------------------------------------------------------------------------------ shapes

bool kiln_elab_is_sensible(kiln_elab *e, ir_place place, ir_opcode code, uint32_t flags, const char *name,
                           kiln_value left, kiln_value right) {
  char text[IR_TYPE_TEXT];
  bool typed = left.kind == KILN_VALUE_CONST || left.kind == KILN_VALUE_RUNTIME;
  ir_type type = typed ? left.type : right.type;
  typed |= right.kind == KILN_VALUE_CONST || right.kind == KILN_VALUE_RUNTIME;
  unsigned class = typed ? ir_type_class(type) : 0;
  bool real = class & (KILN_CLASS_FLOAT | KILN_CLASS_FP8) || left.kind == KILN_VALUE_REAL;
  if (flags & IR_UNSIGNED && real) {
    kiln_elab_error(
        e, place, "%s is for integers: expected an integer type, found %s", name,
        kiln_value_text(typed ? (kiln_value){.kind = KILN_VALUE_RUNTIME, .type = type} : left, text));
    return false;
  }
  bool zero =
      (right.kind == KILN_VALUE_INT && !right.integer) || (right.kind == KILN_VALUE_CONST && !right.bits);
  if ((code == IR_DIV || code == IR_REM) && zero && class == KILN_CLASS_INT) {
    kiln_elab_error(e, place, "%s: a division by zero, which has no value", name);
    return false;
  }
  return true;
}

static ir_value *reshape_to(kiln_elab *e, ir_place place, ir_value *v, ir_type shape) {
  if (!v || ir_same_shape(v->type, shape)) return v;
  ir_type want = ir_with_element(shape, ir_element(v->type));
  v = v->type.rank ? ir_broadcast(&e->b, v, want) : ir_splat(&e->b, v, want);
  return kiln_elab_result(e, place, v).ir;
}

// Extends `shape` to hold `type`; false when they do not fit.
static bool join_shapes(ir_type *shape, ir_type type) {
  if (!type.rank) return true;
  if (!shape->rank) {
    *shape = type;
    return true;
  }
  if (shape->rank != type.rank) return false;
  for (unsigned i = 0; i < type.rank; i++) {
    if (type.log2[i] && shape->log2[i] && type.log2[i] != shape->log2[i]) return false;
    if (type.log2[i] > shape->log2[i]) shape->log2[i] = type.log2[i];
  }
  return true;
}

bool kiln_elab_unify_shapes(kiln_elab *e, ir_place place, ir_value **values, uint32_t count,
                            const char *what) {
  ir_type shape = {0};
  for (uint32_t i = 0; i < count; i++) {
    char a[IR_TYPE_TEXT], b[IR_TYPE_TEXT];
    ir_type before = shape;
    if (values[i]->type.is_view) {
      kiln_elab_error(e, place, "%s: expected a scalar or tile, found %s; use load", what,
                      ir_type_text(values[i]->type, a));
      return false;
    }
    if (join_shapes(&shape, values[i]->type)) continue;
    kiln_elab_error(e, place, "%s: shapes of %s and %s do not fit%s", what, ir_type_text(before, a),
                    ir_type_text(values[i]->type, b),
                    before.rank != values[i]->type.rank ? "; insert dimensions as in x[:, _]" : "");
    return false;
  }
  if (ir_log2_elements(shape) > IR_MAX_LOG2_ELEMENTS) {
    kiln_elab_error(e, place, "a tile of 2^%u elements, the limit is 2^%d", ir_log2_elements(shape),
                    IR_MAX_LOG2_ELEMENTS);
    return false;
  }
  for (uint32_t i = 0; i < count; i++)
    if (!(values[i] = reshape_to(e, place, values[i], shape))) return false;
  return true;
}

static bool common_element(kiln_elab *e, ir_place place, kiln_value *const *values, uint32_t count,
                           ir_type *out) {
  bool real = false;
  for (uint32_t i = 0; i < count; i++) {
    kiln_value v = *values[i];
    if (v.kind == KILN_VALUE_ERROR) return false;
    if (v.kind == KILN_VALUE_CONST || v.kind == KILN_VALUE_RUNTIME) {
      char text[IR_TYPE_TEXT];
      if (v.type.is_view)
        return kiln_elab_error(e, place, "expected a scalar or tile, found %s; use load",
                               ir_type_text(v.type, text)),
               false;
      return *out = ir_element(v.type), true;
    }
    real |= v.kind == KILN_VALUE_REAL;
  }
  *out = ir_scalar_type(real ? KILN_F32 : KILN_I32);
  return true;
}

bool kiln_elab_unify(kiln_elab *e, ir_place place, kiln_value *const *values, uint32_t count,
                     const char *what) {
  enum { MOST = 3 };
  ir_type element;
  ir_value *ir[MOST] = {0};
  for (uint32_t i = 0; i < count; i++)
    if (values[i]->kind == KILN_VALUE_ERROR) return false;
  if (!common_element(e, place, values, count, &element)) return false;
  for (uint32_t i = 0; i < count; i++) {
    kiln_value v = kiln_elab_as_element(e, place, *values[i], element, what);
    if (!(ir[i] = kiln_elab_runtime(e, place, v))) return false;
  }
  if (!kiln_elab_unify_shapes(e, place, ir, count, what)) return false;
  for (uint32_t i = 0; i < count; i++) *values[i] = kiln_value_runtime(ir[i]);
  return true;
}

ir_value *kiln_elab_fit(kiln_elab *e, ir_place place, kiln_value v, ir_type want, const char *what) {
  if (v.kind == KILN_VALUE_ERROR) return NULL;
  if (want.is_view) {
    if (v.kind == KILN_VALUE_RUNTIME && ir_type_equal(v.type, want)) return v.ir;
    mismatch(e, place, what, want, v);
    return NULL;
  }
  v = kiln_elab_as_element(e, place, v, ir_element(want), what);
  if (v.kind == KILN_VALUE_ERROR) return NULL;
  ir_type shape = want;
  bool fits = join_shapes(&shape, v.type) && ir_same_shape(shape, want);
  if (!fits) return mismatch(e, place, what, want, v), NULL;
  return reshape_to(e, place, kiln_elab_runtime(e, place, v), want);
}

// -------------------------------------------------------------------------------- arithmetic at compile time

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
