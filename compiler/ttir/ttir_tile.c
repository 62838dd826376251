// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Program ids, operations on the shape of tiles, and the matrix product.
#include <string.h>

#include "compiler/ttir/ttir_forms.h"

// tt.get_program_id x : i32
void ttir_form_pid(ttir_reader *r, const ttir_row *row) {
  ttir_token axis = ttir_take(r, TTIR_WORD, "an axis x, y or z");
  ir_attrs attrs = {0};
  if (axis.length == 1 && *axis.at >= 'x' && *axis.at <= 'z') attrs.axis = (uint8_t)(*axis.at - 'x');
  else if (!r->failed) ttir_error(r, "expected an axis x, y or z, found '%.*s'", (int)axis.length, axis.at);
  ir_op *op = ttir_emit(r, (ir_opcode)row->code, &attrs, NULL, 0, NULL);
  ttir_colon_type(r);
  ttir_give_results(r, op);
}

// tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
void ttir_form_range(ttir_reader *r, const ttir_row *row) {
  ttir_read_dictionary(r, &r->dictionary);
  ir_type type = ttir_colon_type(r).type;
  int64_t start = ttir_entry_int(&r->dictionary, "start", 0), end = ttir_entry_int(&r->dictionary, "end", 0);
  if (r->failed) return;
  if (type.rank != 1 || type.scalar != KILN_I32 || end - start != (int64_t)1 << type.log2[0]) {
    ttir_error(r, "%s: expected a range as long as its i32 tile, found %lld to %lld", row->name,
               (long long)start, (long long)end);
    return;
  }
  ir_value *iota = ir_iota(&r->b, type.log2[0]);
  if (start && iota) iota = ir_binary(&r->b, IR_ADD, 0, iota, ttir_splat_bits(r, type, (uint64_t)start));
  ttir_give(r, iota);
}

// `%a {attributes} : T -> U`. Returns the operand, U in `out_to`.
static ir_value *reshaped(ttir_reader *r, ir_type *out_to) {
  ir_value *v = ttir_value(r);
  while (ttir_accept_word(r, "allow_reorder") || ttir_accept_word(r, "efficient_layout"))
    continue; // permissions we need not use
  ttir_read_dictionary(r, &r->dictionary);
  ttir_check_type(r, v, ttir_colon_type(r).type);
  if (r->lex.token.kind == TTIR_ARROW) ttir_lex_next(&r->lex);
  else if (!r->failed) ttir_error(r, "expected '->' and the result type");
  *out_to = ttir_read_type(r, false).type;
  return r->failed ? NULL : v;
}

// Rank 0 is a scalar here, so a step from or to it is none, or a reshape.
static void convert(ttir_reader *r, const ttir_row *row, ir_value *v, const ir_attrs *attrs, ir_type to,
                    bool named) {
  if (!v) return;
  bool rank_0 = !v->type.rank || !to.rank;
  if (rank_0 && row->code != IR_SPLAT && row->code != IR_RESHAPE && !ir_type_equal(v->type, to)) {
    ttir_give(r, ir_reshape(&r->b, v, to));
  } else if (ir_type_equal(v->type, to) && row->code != IR_TRANS) {
    ttir_give(r, v);
  } else {
    ir_op *op = ttir_emit(r, (ir_opcode)row->code, attrs, &v, 1, named ? &to : NULL);
    ttir_give_results(r, op);
    if (op) ttir_check_type(r, &op->results[0], to);
  }
}

void ttir_form_named_shape(ttir_reader *r, const ttir_row *row) {
  ir_type to;
  ir_value *v = reshaped(r, &to);
  convert(r, row, v, NULL, to, true);
}

// tt.unsplat %v : tensor<1xT>
void ttir_form_unsplat(ttir_reader *r, const ttir_row *row) {
  ir_value *v = ttir_value(r);
  ttir_read_dictionary(r, &r->dictionary);
  ir_type type = ttir_colon_type(r).type;
  ttir_check_type(r, v, type);
  if (!r->failed && ir_log2_elements(type) != 0)
    ttir_error(r, "%s: expected a tile of one element", row->name);
  if (!r->failed) ttir_give(r, v->type.rank ? ir_reshape(&r->b, v, ir_element(type)) : v);
}

void ttir_form_expand(ttir_reader *r, const ttir_row *row) {
  ir_type to;
  ir_value *v = reshaped(r, &to);
  int64_t axis = ttir_entry_int(&r->dictionary, "axis", 0);
  ir_attrs attrs = {.axis = (uint8_t)(axis < 0 || axis > IR_MAX_RANK ? IR_MAX_RANK : axis)};
  convert(r, row, v, &attrs, to, false);
}

void ttir_form_trans(ttir_reader *r, const ttir_row *row) {
  ir_type to;
  ir_value *v = reshaped(r, &to);
  ir_attrs attrs = {0};
  int64_t order[IR_MAX_RANK];
  if (!v) return;
  uint32_t count = ttir_entry_list(&r->dictionary, "order", order, IR_MAX_RANK);
  if (count == 0 && v->type.rank == 2) { // early versions wrote no order for matrices
    count = 2;
    order[0] = 1;
    order[1] = 0;
  }
  if (count != v->type.rank) {
    ttir_error(r, "%s: expected an order of %u axes, found %u", row->name, v->type.rank, count);
    return;
  }
  for (uint32_t i = 0; i < count; i++)
    attrs.perm[i] = (uint8_t)(order[i] < 0 || order[i] > IR_MAX_RANK ? IR_MAX_RANK : order[i]);
  convert(r, row, v, &attrs, to, false);
}

// `%a, %b : T -> U`
static bool joined(ttir_reader *r, ir_value **v, ir_type *out_to) {
  if (!ttir_operands(r, v, 2)) return false;
  ttir_read_dictionary(r, &r->dictionary);
  ttir_check_type(r, v[0], ttir_colon_type(r).type);
  if (r->lex.token.kind == TTIR_ARROW) ttir_lex_next(&r->lex);
  else if (!r->failed) ttir_error(r, "expected '->' and the result type");
  *out_to = ttir_read_type(r, false).type;
  return !r->failed;
}

// Two scalars: a tile of one axis.
void ttir_form_join(ttir_reader *r, const ttir_row *row) {
  ir_value *v[2];
  ir_type to;
  if (!joined(r, v, &to)) return;
  ir_op *op = ttir_emit(r, (ir_opcode)row->code, NULL, v, 2, NULL);
  ttir_give_results(r, op);
  if (op) ttir_check_type(r, &op->results[0], to);
}

// A new last axis, brought to the front and merged into the first: the elements of the second follow those of
// the first.
void ttir_form_cat(ttir_reader *r, const ttir_row *row) {
  ir_value *v[2];
  ir_type to;
  if (!joined(r, v, &to)) return;
  ir_op *join = ttir_emit(r, (ir_opcode)row->code, NULL, v, 2, NULL);
  if (!join) return;
  ir_attrs attrs = {.perm = {(uint8_t)v[0]->type.rank}};
  for (uint8_t i = 0; i < v[0]->type.rank && i + 1 < IR_MAX_RANK; i++) attrs.perm[i + 1] = i;
  ir_value *both = &join->results[0];
  ir_op *turned = ttir_emit(r, IR_TRANS, &attrs, &both, 1, NULL);
  if (turned) ttir_give(r, ir_reshape(&r->b, &turned->results[0], to));
}

// %lhs, %rhs = tt.split %x : T -> U
void ttir_form_split(ttir_reader *r, const ttir_row *row) {
  ir_type to;
  ir_value *v = reshaped(r, &to);
  if (!v) return;
  ir_op *op = ttir_emit(r, (ir_opcode)row->code, NULL, &v, 1, NULL);
  ttir_give_results(r, op);
  if (op) ttir_check_type(r, &op->results[0], to);
}

// --------------------------------------------------------------------------------------------- dot

static const struct {
  const char *word;
  uint8_t precision;
} precisions[] = {
    {"ieee", IR_PREC_IEEE},     {"tf32", IR_PREC_TF32},     {"tf32x3", IR_PREC_TF32X3},
    {"bf16x3", IR_PREC_TF32X3}, {"bf16x6", IR_PREC_TF32X3}, // nearest of ours that is at least as exact
};

// `, inputPrecision = tf32`; nothing means ieee.
static ir_precision read_precision(ttir_reader *r) {
  if (!ttir_accept(r, ',')) return IR_PREC_IEEE;
  ttir_expect_word(r, "inputPrecision");
  ttir_expect(r, '=');
  ttir_token word = ttir_take(r, TTIR_WORD, "a precision");
  for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++)
    if (strlen(precisions[i].word) == word.length && memcmp(precisions[i].word, word.at, word.length) == 0)
      return (ir_precision)precisions[i].precision;
  if (!r->failed)
    ttir_error(r, "expected a precision ieee, tf32, tf32x3, bf16x3 or bf16x6, found '%.*s'", (int)word.length,
               word.at);
  return IR_PREC_IEEE;
}

// Elements of two types meet in one that holds both, so that products stay exact: f32 for f16 and bf16, whose
// significands fit tf32 as well.
static void meet(ttir_reader *r, ir_value **v, ir_precision *precision) {
  unsigned classes = ir_type_class(v[0]->type) | ir_type_class(v[1]->type);
  bool is_float = !(classes & ~(unsigned)(KILN_CLASS_FLOAT | KILN_CLASS_FP8));
  if (v[0]->type.scalar == v[1]->type.scalar || !is_float || classes == KILN_CLASS_FP8) return;
  bool is_f64 = v[0]->type.scalar == KILN_F64 || v[1]->type.scalar == KILN_F64;
  bool is_f32 = v[0]->type.scalar == KILN_F32 || v[1]->type.scalar == KILN_F32;
  if (!is_f32) *precision = IR_PREC_TF32;
  for (int i = 0; i < 2; i++) {
    v[i] = ir_cast(&r->b, v[i], is_f64 ? KILN_F64 : KILN_F32, 0, IR_ROUND_NEAREST);
    ttir_builder_error(r);
  }
}

// %a, %b, %c, inputPrecision = tf32 {..} : A * B -> D. A half accumulator is widened around the product.
void ttir_form_dot(ttir_reader *r, const ttir_row *row) {
  ir_value *v[3];
  if (!ttir_operands(r, v, 3)) return;
  ir_precision precision = read_precision(r);
  ttir_read_dictionary(r, &r->dictionary);
  ttir_check_type(r, v[0], ttir_colon_type(r).type);
  ttir_expect(r, '*');
  ttir_check_type(r, v[1], ttir_read_type(r, false).type);
  if (r->lex.token.kind == TTIR_ARROW) ttir_lex_next(&r->lex);
  else if (!r->failed) ttir_error(r, "%s: expected '->' and the result type", row->name);
  ir_type to = ttir_read_type(r, false).type;
  ttir_check_type(r, v[2], to);
  if (!r->failed) meet(r, v, &precision);
  if (r->failed) return;
  // the precision speaks of f32 operands only; elsewhere Triton prints its default
  ir_attrs attrs = {.precision = v[0]->type.scalar == KILN_F32 ? (uint8_t)precision : IR_PREC_IEEE};
  bool half = to.scalar == KILN_F16 || to.scalar == KILN_BF16;
  if (half) v[2] = ir_cast(&r->b, v[2], KILN_F32, 0, IR_ROUND_NEAREST);
  ir_op *op = ttir_emit(r, IR_DOT, &attrs, v, 3, NULL);
  if (op)
    ttir_give(r, half ? ir_cast(&r->b, &op->results[0], (kiln_scalar)to.scalar, 0, IR_ROUND_NEAREST)
                      : &op->results[0]);
}
