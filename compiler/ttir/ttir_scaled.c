// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tt.dot_scaled: operands in blocks of 32 along the reduced index share a power of two (e8m0). Both are widened to bf16 and scaled there, which is
// exact for 8-bit floats, and then multiplied as usual.
#include <string.h>

#include "compiler/ttir/ttir_forms.h"

enum { BLOCK_BITS = 5 };

typedef struct scaled {
  ir_value *value, *scale; ///< scale: i8, rows or columns x blocks; NULL: all one
} scaled;

static void read_operand(ttir_reader *r, scaled *s) {
  s->value = ttir_value(r);
  if (ttir_accept_word(r, "scale")) s->scale = ttir_value(r);
  ttir_expect(r, ',');
}

static void check_operand(ttir_reader *r, const scaled *s) {
  ttir_check_type(r, s->value, ttir_read_type(r, false).type);
  if (!s->scale) return;
  ttir_expect(r, ',');
  ttir_check_type(r, s->scale, ttir_read_type(r, false).type);
}

/// `lhs = e4m3`: the value must be of that type; packed 4-bit floats have none.
static void read_kind(ttir_reader *r, const char *side, const scaled *s) {
  static const struct { const char *word; kiln_scalar scalar; } kinds[] = {{"e4m3", KILN_E4M3}, {"e5m2", KILN_E5M2}, {"bf16", KILN_BF16}, {"fp16", KILN_F16}};
  ttir_expect_word(r, side);
  ttir_expect(r, '=');
  ttir_token word = ttir_take(r, TTIR_WORD, "the format of an operand");
  if (r->failed) return;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strlen(kinds[i].word) == word.length && !memcmp(kinds[i].word, word.at, word.length) && s->value->type.scalar == kinds[i].scalar) return;
  ttir_error(r, "%s: expected e4m3, e5m2, bf16 or fp16 of that element type, found %.*s", r->row->name, (int)word.length, word.at);
}

/// The scales as bf16, one an element of [outer, K]. 255 is NaN; 0 is the denormal 2^-127.
static ir_value *spread_scale(ttir_reader *r, ir_value *scale, unsigned outer, unsigned k) {
  ir_builder *b = &r->b;
  ir_type blocks = {.scalar = KILN_BF16, .rank = 3, .log2 = {(uint8_t)outer, (uint8_t)(k - BLOCK_BITS), BLOCK_BITS}};
  ir_type flat = {.scalar = KILN_BF16, .rank = 2, .log2 = {(uint8_t)outer, (uint8_t)k}};
  ir_value *bits = ir_cast(b, scale, KILN_I16, IR_UNSIGNED, IR_ROUND_NEAREST);
  if (!bits) return NULL;
  ir_value *shifted = ir_binary(b, IR_SHL, 0, bits, ir_const_like(b, bits->type, 7));
  ir_value *is_nan = ir_compare(b, IR_EQ, 0, bits, ir_const_like(b, bits->type, 255));
  ir_value *is_least = ir_compare(b, IR_EQ, 0, bits, ir_const_like(b, bits->type, 0));
  ir_value *finite = ir_ternary(b, IR_SELECT, 0, is_least, ir_const_like(b, bits->type, 0x40), shifted);
  ir_value *chosen = ir_ternary(b, IR_SELECT, 0, is_nan, ir_const_like(b, bits->type, 0x7fff), finite);
  ir_value *each = ir_expand(b, ir_bitcast(b, chosen, ir_scalar_type(KILN_BF16)), 2);
  return ir_reshape(b, ir_broadcast(b, each, blocks), flat);
}

/// The operand in bf16, scaled; `is_right`: the reduced index is the first axis.
static ir_value *widen(ttir_reader *r, const scaled *s, bool is_right) {
  ir_builder *b = &r->b;
  ir_type t = s->value->type;
  unsigned k = is_right ? t.log2[0] : t.log2[1], outer = is_right ? t.log2[1] : t.log2[0];
  if (!s->scale) return ir_cast(b, s->value, KILN_BF16, 0, IR_ROUND_NEAREST);
  ir_type have = s->scale->type;
  if (have.scalar != KILN_I8 || have.rank != 2 || k < BLOCK_BITS || have.log2[0] != outer || have.log2[1] != k - BLOCK_BITS) {
    ttir_error(r, "%s: expected a scale of i8 a row and 32 elements", r->row->name);
    return NULL;
  }
  ir_value *scale = spread_scale(r, s->scale, outer, k);
  ir_op *turned = is_right && scale ? ir_emit(b, IR_TRANS, &(ir_attrs){.perm = {1, 0}}, &scale, 1, NULL, NULL, 0) : NULL;
  if (is_right) scale = turned ? &turned->results[0] : NULL;
  ir_value *wide = t.scalar == KILN_BF16 ? s->value : ir_cast(b, s->value, KILN_BF16, 0, IR_ROUND_NEAREST);
  return wide && scale ? ir_binary(b, IR_MUL, 0, wide, scale) : NULL;
}

// tt.dot_scaled %a scale %s, %b scale %t, %c lhs = e4m3 rhs = e5m2 {fastMath = false} : A, S * B, T -> C
void ttir_form_dot_scaled(ttir_reader *r, const ttir_row *row) {
  scaled left = {.scale = NULL}, right = {.scale = NULL};
  read_operand(r, &left);
  read_operand(r, &right);
  ir_value *v[3] = {NULL, NULL, ttir_value(r)};
  if (!r->failed) read_kind(r, "lhs", &left);
  if (!r->failed) read_kind(r, "rhs", &right);
  ttir_read_dictionary(r, &r->dictionary);
  ttir_expect(r, ':');
  if (!r->failed) check_operand(r, &left);
  ttir_expect(r, '*');
  if (!r->failed) check_operand(r, &right);
  if (r->lex.token.kind == TTIR_ARROW) ttir_lex_next(&r->lex);
  ir_type to = ttir_read_type(r, false).type;
  if (r->failed) return;
  ttir_check_type(r, v[2], to);
  if (left.value->type.rank != 2 || right.value->type.rank != 2) ttir_error(r, "%s: expected operands of two axes", row->name);
  if (!r->failed) v[0] = widen(r, &left, false);
  if (!r->failed) v[1] = widen(r, &right, true);
  ttir_builder_error(r);
  if (r->failed) return;
  ir_op *op = ttir_emit(r, (ir_opcode)row->code, &(ir_attrs){.precision = IR_PREC_IEEE}, v, 3, NULL);
  if (op) ttir_give(r, &op->results[0]);
}
