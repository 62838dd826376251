// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Mathematical functions: those of MLIR's math dialect that are no operation of ours, and the `__nv_*` and
// `__ocml_*` names of the vendors' libraries. All become our own operations and library, on every target; no
// vendor code is linked.
//
// math.exp is made of exp2 in f32: that is the fast form that Triton itself takes; those of the libraries are
// exact to 2 units in the last place. log is made of a log2 that is
// precise, as in Triton: what the machines' own log2 has is absolute, and near 1 nothing of a result is left.
// f16 and bf16 go through f32.
#include <math.h>
#include <string.h>

#include "compiler/ttir/ttir_forms.h"
#include "compiler/unit/mathlib.h"

typedef struct maths_row maths_row;
/// Yields the result for operands `v` (all of one shape), or NULL when the reader failed.
typedef ir_value *maths_function(ttir_reader *r, const maths_row *row, ir_value **v);

/// How a row's value is made: a function make_NAME each.
enum {
  HOW_op,
  HOW_lib,
  HOW_rounded,
  HOW_exp,
  HOW_exp10,
  HOW_log,
  HOW_log10,
  HOW_powi,
  HOW_trunc,
  HOW_round,
  HOW_copysign,
  HOW_fdim,
  HOW_saturate,
  HOW_reciprocal,
  HOW_isnan,
  HOW_isinf,
  HOW_isfinite,
  HOW_signbit,
  HOW_bits,
  HOW_order
};

/// Without pointers: the table costs a program that does not read it no relocations.
struct maths_row {
  char name[20];
  uint8_t how, count, code;
  uint16_t flags;
  char text[18];
};

static bool failed(ttir_reader *r) {
  ttir_builder_error(r);
  return r->failed;
}

static ir_value *binary(ttir_reader *r, ir_opcode code, ir_value *a, ir_value *b) {
  return failed(r) || !a || !b ? NULL : ir_binary(&r->b, code, 0, a, b);
}

static ir_value *compare(ttir_reader *r, ir_predicate predicate, ir_value *a, ir_value *b) {
  return failed(r) || !a || !b ? NULL : ir_compare(&r->b, predicate, 0, a, b);
}

static ir_value *choose(ttir_reader *r, ir_value *c, ir_value *a, ir_value *b) {
  return failed(r) || !c || !a || !b ? NULL : ir_ternary(&r->b, IR_SELECT, 0, c, a, b);
}

static ir_value *unary(ttir_reader *r, ir_opcode code, ir_value *a) {
  return failed(r) || !a ? NULL : ir_unary(&r->b, code, 0, a);
}

static ir_value *number(ttir_reader *r, const ir_value *like, double value) {
  return failed(r) ? NULL : ttir_splat_float(r, like->type, value);
}

static bool is_half(const ir_value *v) { return v->type.scalar == KILN_F16 || v->type.scalar == KILN_BF16; }

static ir_value *widened(ttir_reader *r, ir_value *v) {
  return is_half(v) ? ir_cast(&r->b, v, KILN_F32, 0, IR_ROUND_NEAREST) : v;
}

static ir_value *narrowed(ttir_reader *r, ir_value *v, const ir_value *like) {
  return v && is_half(like) ? ir_cast(&r->b, v, (kiln_scalar)like->type.scalar, 0, IR_ROUND_NEAREST) : v;
}

// -------------------------------------------------------------------------- functions of the table

static ir_value *make_op(ttir_reader *r, const maths_row *row, ir_value **v) {
  ir_attrs attrs = {.flags = row->flags};
  ir_op *op = ttir_emit(r, (ir_opcode)row->code, &attrs, v, row->count, NULL);
  return op ? &op->results[0] : NULL;
}

static ir_value *make_lib(ttir_reader *r, const maths_row *row, ir_value **v) {
  return failed(r) ? NULL : kiln_mathlib_call(&r->b, row->text, v, row->count);
}

// code(x * factor), or the library's function where one rounding more would show.
static ir_value *scaled_before(ttir_reader *r, const maths_row *row, ir_value **v, double factor) {
  if (v[0]->type.scalar == KILN_F64) return make_lib(r, row, v);
  ir_value *x = widened(r, v[0]);
  if (failed(r)) return NULL;
  return narrowed(r, unary(r, (ir_opcode)row->code, binary(r, IR_MUL, x, number(r, x, factor))), v[0]);
}

static ir_value *scaled_after(ttir_reader *r, const maths_row *row, ir_value **v, double factor) {
  if (v[0]->type.scalar == KILN_F64) return make_lib(r, row, v);
  ir_value *x = widened(r, v[0]);
  if (failed(r)) return NULL;
  ir_value *raw = ir_unary(&r->b, (ir_opcode)row->code, row->flags, x);
  return narrowed(r, binary(r, IR_MUL, raw, number(r, x, factor)), v[0]);
}

static ir_value *make_exp(ttir_reader *r, const maths_row *row, ir_value **v) {
  return scaled_before(r, row, v, 1.4426950408889634);
}
static ir_value *make_exp10(ttir_reader *r, const maths_row *row, ir_value **v) {
  return scaled_before(r, row, v, 3.3219280948873623);
}
static ir_value *make_log(ttir_reader *r, const maths_row *row, ir_value **v) {
  return scaled_after(r, row, v, 0.6931471805599453);
}
static ir_value *make_log10(ttir_reader *r, const maths_row *row, ir_value **v) {
  return scaled_after(r, row, v, 0.3010299956639812);
}

// The power as a float of the same type.
static ir_value *make_powi(ttir_reader *r, const maths_row *row, ir_value **v) {
  ir_value *power[2] = {v[0], ir_cast(&r->b, v[1], (kiln_scalar)v[0]->type.scalar, 0, IR_ROUND_NEAREST)};
  return make_lib(r, row, power);
}

// Towards zero: floor of what is positive, ceil of the rest, which keeps -0.
static ir_value *make_trunc(ttir_reader *r, const maths_row *row, ir_value **v) {
  (void)row;
  ir_value *positive = compare(r, IR_GT, v[0], number(r, v[0], 0));
  return choose(r, positive, unary(r, IR_FLOOR, v[0]), unary(r, IR_CEIL, v[0]));
}

// The sign bit of `sign` on the other bits of `size`.
static ir_value *with_sign(ttir_reader *r, ir_value *size, ir_value *sign) {
  if (failed(r) || !size || !sign) return NULL;
  ir_type bits = ttir_bits_of(size->type);
  uint64_t top = 1ull << (ir_type_bits(size->type) - 1);
  ir_value *a = ir_bitcast(&r->b, size, bits), *b = ir_bitcast(&r->b, sign, bits);
  if (failed(r)) return NULL;
  ir_value *low = binary(r, IR_AND, a, ttir_splat_bits(r, a->type, ~top)),
           *high = binary(r, IR_AND, b, ttir_splat_bits(r, b->type, top));
  ir_value *both = binary(r, IR_OR, low, high);
  return both ? ir_bitcast(&r->b, both, ir_element(size->type)) : NULL;
}

// Halves away from zero: the floor of the size, one more when half or more is left; the sign put back.
static ir_value *make_round(ttir_reader *r, const maths_row *row, ir_value **v) {
  (void)row;
  ir_value *size = unary(r, IR_ABS, v[0]), *down = unary(r, IR_FLOOR, size),
           *left = binary(r, IR_SUB, size, down);
  ir_value *up = compare(r, IR_GE, left, number(r, v[0], 0.5));
  ir_value *more = binary(r, IR_ADD, down, number(r, v[0], 1));
  return with_sign(r, choose(r, up, more, down), v[0]);
}

static ir_value *make_copysign(ttir_reader *r, const maths_row *row, ir_value **v) {
  (void)row;
  return with_sign(r, v[0], v[1]);
}

static ir_value *make_fdim(ttir_reader *r, const maths_row *row, ir_value **v) {
  (void)row;
  // a <= b gives 0; a NaN goes through the subtraction
  return choose(r, compare(r, IR_LE, v[0], v[1]), number(r, v[0], 0), binary(r, IR_SUB, v[0], v[1]));
}

static ir_value *make_saturate(ttir_reader *r, const maths_row *row, ir_value **v) {
  (void)row;
  return binary(r, IR_MIN, binary(r, IR_MAX, v[0], number(r, v[0], 0)), number(r, v[0], 1));
}

static ir_value *make_reciprocal(ttir_reader *r, const maths_row *row, ir_value **v) {
  ir_value *one = number(r, v[0], 1);
  return failed(r) ? NULL : ir_binary(&r->b, IR_DIV, row->flags, one, v[0]);
}

static ir_value *make_isnan(ttir_reader *r, const maths_row *row, ir_value **v) {
  (void)row;
  return compare(r, IR_NE, v[0], v[0]);
}

static ir_value *make_isinf(ttir_reader *r, const maths_row *row, ir_value **v) {
  (void)row;
  return compare(r, IR_EQ, unary(r, IR_ABS, v[0]), number(r, v[0], INFINITY));
}

static ir_value *make_isfinite(ttir_reader *r, const maths_row *row, ir_value **v) {
  (void)row;
  return compare(r, IR_LT, unary(r, IR_ABS, v[0]), number(r, v[0], INFINITY));
}

static ir_value *make_signbit(ttir_reader *r, const maths_row *row, ir_value **v) {
  (void)row;
  ir_value *bits = ir_bitcast(&r->b, v[0], ttir_bits_of(v[0]->type));
  return failed(r) ? NULL : compare(r, IR_LT, bits, ttir_splat_bits(r, bits->type, 0));
}

static ir_value *make_bits(ttir_reader *r, const maths_row *row, ir_value **v) {
  (void)row;
  static const uint8_t other[KILN_SCALAR_COUNT] = {
      [KILN_I32] = KILN_F32, [KILN_I64] = KILN_F64, [KILN_F32] = KILN_I32, [KILN_F64] = KILN_I64};
  return ir_bitcast(&r->b, v[0], ir_scalar_type((kiln_scalar)other[v[0]->type.scalar]));
}

// The cast itself is made where the stated result type is known.
static ir_value *make_rounded(ttir_reader *r, const maths_row *row, ir_value **v) {
  return row->code == IR_CONST ? v[0] : unary(r, (ir_opcode)row->code, v[0]);
}

// Bessel functions of order n by recurrence, with as many steps as the largest order asks for.
static ir_value *make_order(ttir_reader *r, const maths_row *row, ir_value **v) {
  ir_value *most = failed(r) ? NULL : unary(r, IR_ABS, v[0]);
  if (most && most->type.rank > 1)
    most = ir_reshape(
        &r->b, most,
        (ir_type){.scalar = most->type.scalar, .rank = 1, .log2 = {(uint8_t)ir_log2_elements(most->type)}});
  if (most && most->type.rank) {
    ir_op *op = ttir_emit(r, IR_REDUCE, &(ir_attrs){.kind = IR_COMBINE_MAX}, &most, 1, NULL);
    most = op ? &op->results[0] : NULL;
  }
  ir_value *arguments[3] = {v[0], v[1], most};
  return failed(r) || !most ? NULL : kiln_mathlib_call(&r->b, row->text, arguments, 3);
}

static maths_function *const makes[] = {
    [HOW_op] = make_op,
    [HOW_lib] = make_lib,
    [HOW_rounded] = make_rounded,
    [HOW_exp] = make_exp,
    [HOW_exp10] = make_exp10,
    [HOW_log] = make_log,
    [HOW_log10] = make_log10,
    [HOW_powi] = make_powi,
    [HOW_trunc] = make_trunc,
    [HOW_round] = make_round,
    [HOW_copysign] = make_copysign,
    [HOW_fdim] = make_fdim,
    [HOW_saturate] = make_saturate,
    [HOW_reciprocal] = make_reciprocal,
    [HOW_isnan] = make_isnan,
    [HOW_isinf] = make_isinf,
    [HOW_isfinite] = make_isfinite,
    [HOW_signbit] = make_signbit,
    [HOW_bits] = make_bits,
    [HOW_order] = make_order,
};

static const maths_row maths_rows[] = {
#define MATHS(name, count, how, code, flags, text) {name, HOW_##how, count, IR_##code, flags, text},
#include "compiler/ttir/ttir_maths.def"
#undef MATHS
};

// --------------------------------------------------------------------------------- names and forms

static const maths_row *find_row(const char *name, size_t length) {
  for (size_t i = 0; i < sizeof maths_rows / sizeof *maths_rows; i++)
    if (strlen(maths_rows[i].name) == length && memcmp(maths_rows[i].name, name, length) == 0)
      return &maths_rows[i];
  return NULL;
}

static bool has_prefix(const char *name, const char *prefix) {
  return strncmp(name, prefix, strlen(prefix)) == 0;
}

// `__nv_NAME` and `__triton_hip_NAME`, with an f after when it works on f32; `__ocml_NAME_f32`;
// `__ockl_NAME`.
static const maths_row *find_symbol(const char *symbol) {
  static const char *const prefixes[] = {"__nv_", "__triton_hip_", "__ockl_"};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
    if (!has_prefix(symbol, prefixes[i])) continue;
    const char *name = symbol + strlen(prefixes[i]);
    size_t length = strlen(name);
    const maths_row *exact = find_row(name, length);
    return exact || length < 2 || name[length - 1] != 'f' ? exact : find_row(name, length - 1);
  }
  if (has_prefix(symbol, "__ocml_")) {
    const char *type = strrchr(symbol + 7, '_');
    bool typed = type && (!strcmp(type, "_f16") || !strcmp(type, "_f32") || !strcmp(type, "_f64"));
    return typed ? find_row(symbol + 7, (size_t)(type - symbol) - 7) : NULL;
  }
  return NULL;
}

// Emits the row for `count` operands and fits the result to the type the text states: predicates are i1 here
// and integers there.
static void make(ttir_reader *r, const maths_row *row, ir_value **v, uint32_t count, ir_type stated) {
  if (r->failed) return;
  if (count != row->count) {
    ttir_error(r, "%s: expected %u operands, found %u", row->name, row->count, count);
    return;
  }
  for (uint32_t i = 0; i < count; i++) {
    if (v[i]->type.pointer || v[i]->type.is_view || !ir_same_shape(v[i]->type, v[0]->type)) {
      ttir_error(r, "%s: expected numbers of one shape", row->name);
      return;
    }
  }
  bool number_first = row->how != HOW_order || (ir_type_class(v[0]->type) == KILN_CLASS_INT &&
                                                ir_type_class(v[1]->type) == KILN_CLASS_FLOAT);
  if (!number_first) ttir_error(r, "%s: expected an integer and a float", row->name);
  if (r->failed) return;
  ir_value *result = makes[row->how](r, row, v);
  if (failed(r)) return;
  if (result && result->type.scalar != stated.scalar && !stated.pointer &&
      ir_same_shape(result->type, stated))
    result = ir_cast(&r->b, result, (kiln_scalar)stated.scalar, row->flags & IR_UNSIGNED, IR_ROUND_NEAREST);
  ttir_give(r, result);
}

// math.exp %x fastmath<..> : T
void ttir_form_maths(ttir_reader *r, const ttir_row *row) {
  ir_value *v[3];
  uint32_t count = ttir_values(r, v, 3);
  while (!r->failed && !ttir_peek(r, ':') && r->lex.token.kind != TTIR_END) ttir_lex_next(&r->lex);
  ir_type type = ttir_colon_type(r).type;
  if (ttir_accept(r, ',')) ttir_read_type(r, false); // math.fpowi names both types
  ttir_check_type(r, v[0], type);
  const char *name = strchr(row->name, '.') + 1;
  size_t length = strlen(name) - !strcmp(name, "powf");
  const maths_row *own = find_row(row->name, strlen(row->name)), *maths = own ? own : find_row(name, length);
  bool test = maths && has_prefix(maths->name, "is");
  if (maths) make(r, maths, v, count, test ? ir_with_element(type, ir_scalar_type(KILN_I1)) : type);
}

// tt.extern_elementwise %x {libname = "", libpath = "", pure = true, symbol = "__nv_expf"} : (T) -> U
void ttir_form_extern(ttir_reader *r, const ttir_row *row) {
  ir_value *v[TTIR_MAX_VALUES];
  uint32_t count = r->lex.token.kind == TTIR_VALUE ? ttir_values(r, v, TTIR_MAX_VALUES) : 0;
  ir_type to = ttir_read_operand_types(r, v, count);
  const char *symbol = ttir_entry_text(r, &r->dictionary, "symbol");
  if (r->failed) return;
  const maths_row *maths = symbol ? find_symbol(symbol) : NULL;
  if (!maths) ttir_error(r, "%s: library function '%s' is not known", row->name, symbol ? symbol : "");
  else make(r, maths, v, count, to);
}
