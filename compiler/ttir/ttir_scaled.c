// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tt.dot_scaled: operands in blocks along the reduced index share a scale: a power of two (e8m0) each 32 or
// 16 elements, or an e4m3 each 16. Both are widened to bf16 and scaled there, which is exact for 8-bit and
// 4-bit floats, and then multiplied as usual. Where one is fp16, that is the type of both.
#include <string.h>

#include "base/check.h"
#include "compiler/ttir/ttir_forms.h"

enum { LEAST_BLOCK = 4, LARGEST_BLOCK = 5 }; // log2 of the elements that share a scale

typedef struct scaled {
  ir_value *value, *scale; ///< scale: rows or columns x blocks; NULL: all one
  const struct format *format;
} scaled;

typedef struct format {
  const char *word;
  uint8_t scalar;
  bool packed; ///< two 4-bit floats a byte, the earlier in the low half
} format;

static const format formats[] = {
    {"e4m3", KILN_E4M3, false}, {"e5m2", KILN_E5M2, false}, {"bf16", KILN_BF16, false},
    {"fp16", KILN_F16, false},  {"e2m1", KILN_I8, true},
};

// `%a scale %s, %b scale %t, %c`; Triton 3.2 wrote `%a, %s, %b[, %t], %c`. Returns the accumulator.
static ir_value *read_operands(ttir_reader *r, scaled *left, scaled *right) {
  ir_value *v[5], *scales[5] = {NULL};
  uint32_t count = 0;
  bool named = false;
  do {
    if (count == 5) ttir_error(r, "%s: expected at most 5 operands", r->row->name);
    if (r->failed) return NULL;
    v[count] = ttir_value(r);
    if (ttir_accept_word(r, "scale")) {
      scales[count] = ttir_value(r);
      named = true;
    }
    count++;
  } while (ttir_accept(r, ','));
  if (!r->failed && (count < 3 || (named && count > 3)))
    ttir_error(r, "%s: expected two operands, their scales and an accumulator, found %u values", r->row->name,
               count);
  if (r->failed) return NULL;
  *left = (scaled){.value = v[0], .scale = count > 3 ? v[1] : scales[0]};
  *right = (scaled){.value = v[count > 3 ? 2 : 1],
                    .scale = count == 5   ? v[3]
                             : count == 4 ? NULL
                                          : scales[1]};
  return v[count - 1];
}

static void check_operand(ttir_reader *r, const scaled *s) {
  ttir_check_type(r, s->value, ttir_read_type(r, false).type);
  if (!s->scale) return;
  ttir_expect(r, ',');
  ttir_check_type(r, s->scale, ttir_read_type(r, false).type);
}

/// `lhs = e4m3`: the value is of that type, or bytes that hold it.
static void read_format(ttir_reader *r, const char *side, scaled *s) {
  ttir_expect_word(r, side);
  ttir_expect(r, '=');
  ttir_token word = ttir_take(r, TTIR_WORD, "the format of an operand");
  if (r->failed) return;
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (strlen(formats[i].word) == word.length && !memcmp(formats[i].word, word.at, word.length))
      s->format = &formats[i];
  uint8_t have = s->value->type.scalar;
  bool bytes = have == KILN_I8 && s->format && kiln_scalars[s->format->scalar].bytes == 1;
  if (!s->format || (have != s->format->scalar && !bytes))
    ttir_error(r, "%s: expected e4m3, e5m2, e2m1, bf16 or fp16 and elements of it, found %.*s", r->row->name,
               (int)word.length, word.at);
}

static ir_value *turned(ttir_reader *r, ir_value *v) {
  ir_op *op = v ? ttir_emit(r, IR_TRANS, &(ir_attrs){.perm = {1, 0}}, &v, 1, NULL) : NULL;
  return op ? &op->results[0] : NULL;
}

/// Four bits (sign, two of exponent, one of mantissa) in an i16 as bf16. The magnitudes are 0, 0.5, 1, 1.5,
/// 2, 3, 4, 6.
static ir_value *from_e2m1(ir_builder *b, ir_value *four) {
  ir_type t = four->type;
  ir_value *size = ir_binary(b, IR_AND, 0, four, ir_const_like(b, t, 7));
  ir_value *sign =
      ir_binary(b, IR_SHL, 0, ir_binary(b, IR_AND, 0, four, ir_const_like(b, t, 8)), ir_const_like(b, t, 12));
  ir_value *normal = ir_binary(b, IR_ADD, 0, ir_binary(b, IR_SHL, 0, size, ir_const_like(b, t, 6)),
                               ir_const_like(b, t, 0x3f00));
  ir_value *is_half = ir_compare(b, IR_EQ, 0, size, ir_const_like(b, t, 1)),
           *is_zero = ir_compare(b, IR_EQ, 0, size, ir_const_like(b, t, 0));
  ir_value *small = ir_ternary(b, IR_SELECT, 0, is_half, ir_const_like(b, t, 0x3f00), normal);
  ir_value *magnitude = ir_ternary(b, IR_SELECT, 0, is_zero, ir_const_like(b, t, 0), small);
  return ir_bitcast(b, ir_binary(b, IR_OR, 0, magnitude, sign), ir_scalar_type(KILN_BF16));
}

/// Bytes [outer, K / 2] as bf16 [outer, K].
static ir_value *unpacked(ttir_reader *r, ir_value *bytes) {
  ir_builder *b = &r->b;
  ir_value *wide = ir_cast(b, bytes, KILN_I16, IR_UNSIGNED, IR_ROUND_NEAREST);
  ttir_builder_error(r);
  if (r->failed) return NULL;
  ir_value *low = from_e2m1(b, wide),
           *high = from_e2m1(b, ir_binary(b, IR_SHR, IR_UNSIGNED, wide, ir_const_like(b, wide->type, 4)));
  ir_value *halves[2] = {low, high};
  ttir_builder_error(r);
  ir_op *op = r->failed ? NULL : ttir_emit(r, IR_JOIN, NULL, halves, 2, NULL);
  if (!op) return NULL;
  ir_type flat = low->type;
  flat.log2[1]++;
  return ir_reshape(b, &op->results[0], flat);
}

/// The scales as bf16. Of e8m0, 255 is NaN and 0 the denormal 2^-127.
static ir_value *scale_values(ttir_reader *r, ir_value *scale) {
  ir_builder *b = &r->b;
  if (scale->type.scalar == KILN_E4M3) return ir_cast(b, scale, KILN_BF16, 0, IR_ROUND_NEAREST);
  ir_value *bits = ir_cast(b, scale, KILN_I16, IR_UNSIGNED, IR_ROUND_NEAREST);
  if (!bits) return NULL;
  ir_value *shifted = ir_binary(b, IR_SHL, 0, bits, ir_const_like(b, bits->type, 7));
  ir_value *is_nan = ir_compare(b, IR_EQ, 0, bits, ir_const_like(b, bits->type, 255));
  ir_value *is_least = ir_compare(b, IR_EQ, 0, bits, ir_const_like(b, bits->type, 0));
  ir_value *finite = ir_ternary(b, IR_SELECT, 0, is_least, ir_const_like(b, bits->type, 0x40), shifted);
  ir_value *chosen = ir_ternary(b, IR_SELECT, 0, is_nan, ir_const_like(b, bits->type, 0x7fff), finite);
  return ir_bitcast(b, chosen, ir_scalar_type(KILN_BF16));
}

/// One scale an element of [outer, K].
static ir_value *spread_scale(ttir_reader *r, ir_value *scale, unsigned outer, unsigned k) {
  ir_builder *b = &r->b;
  unsigned block = k - scale->type.log2[1];
  ir_type blocks = {
      .scalar = KILN_BF16, .rank = 3, .log2 = {(uint8_t)outer, (uint8_t)(k - block), (uint8_t)block}};
  ir_type flat = {.scalar = KILN_BF16, .rank = 2, .log2 = {(uint8_t)outer, (uint8_t)k}};
  ir_value *each = ir_expand(b, scale_values(r, scale), 2);
  return ir_reshape(b, ir_broadcast(b, each, blocks), flat);
}

static bool scale_fits(const ir_value *scale, unsigned outer, unsigned k) {
  ir_type t = scale->type;
  if ((t.scalar != KILN_I8 && t.scalar != KILN_E4M3) || t.rank != 2 || t.log2[0] != outer || t.log2[1] > k)
    return false;
  unsigned block = k - t.log2[1];
  return block >= LEAST_BLOCK && block <= LARGEST_BLOCK;
}

static ir_value *cast_to(ttir_reader *r, ir_value *v, kiln_scalar to) {
  ttir_builder_error(r);
  if (r->failed || !v || v->type.scalar == to) return v;
  if (v->type.scalar == KILN_BF16) v = ir_cast(&r->b, v, KILN_F32, 0, IR_ROUND_NEAREST);
  return v ? ir_cast(&r->b, v, to, 0, IR_ROUND_NEAREST) : NULL;
}

/// The operand in type `to`, scaled; `is_right`: the reduced index is the first axis, otherwise the last.
static ir_value *widen(ttir_reader *r, const scaled *s, kiln_scalar to, bool is_right) {
  ir_builder *b = &r->b;
  ir_value *v = s->value;
  if (s->format->packed) {
    v = unpacked(r, is_right ? turned(r, v) : v);
    if (is_right) v = turned(r, v);
  } else {
    if (v->type.scalar != s->format->scalar)
      v = ir_bitcast(b, v, ir_scalar_type((kiln_scalar)s->format->scalar));
  }
  v = cast_to(r, v, to);
  ttir_builder_error(r);
  if (r->failed || !s->scale) return v;
  unsigned k = v->type.log2[!is_right], outer = v->type.log2[is_right];
  if (!scale_fits(s->scale, outer, k)) {
    ttir_error(r, "%s: expected scales of i8 or f8E4M3FN, one a row and 32 or 16 elements", r->row->name);
    return NULL;
  }
  ir_value *scale = spread_scale(r, s->scale, outer, k);
  if (is_right) scale = turned(r, scale);
  scale = cast_to(r, scale, to);
  return scale ? ir_binary(b, IR_MUL, 0, v, scale) : NULL;
}

// tt.dot_scaled %a scale %s, %b scale %t, %c lhs = e4m3 rhs = e5m2 {fastMath = false} : A, S * B, T -> C
void ttir_form_dot_scaled(ttir_reader *r, const ttir_row *row) {
  scaled left = {.scale = NULL}, right = {.scale = NULL};
  ir_value *v[3] = {NULL, NULL, read_operands(r, &left, &right)};
  if (!r->failed) read_format(r, "lhs", &left);
  if (!r->failed) read_format(r, "rhs", &right);
  ttir_read_dictionary(r, &r->dictionary);
  ttir_expect(r, ':');
  if (!r->failed) check_operand(r, &left);
  ttir_expect(r, '*');
  if (!r->failed) check_operand(r, &right);
  if (r->lex.token.kind == TTIR_ARROW) ttir_lex_next(&r->lex);
  ir_type to = ttir_read_type(r, false).type;
  if (r->failed) return;
  KILN_ASSERT(left.value && left.format && right.value && right.format);
  ttir_check_type(r, v[2], to);
  if (left.value->type.rank != 2 || right.value->type.rank != 2)
    ttir_error(r, "%s: expected operands of two axes", row->name);
  bool along =
      ttir_entry_int(&r->dictionary, "lhs_k_pack", 1) && ttir_entry_int(&r->dictionary, "rhs_k_pack", 1);
  if (!along && !r->failed)
    ttir_error(r, "%s: 4-bit floats packed across the reduced index are not supported", row->name);
  bool is_half = !r->failed && (left.format->scalar == KILN_F16 || right.format->scalar == KILN_F16);
  if (!r->failed) v[0] = widen(r, &left, is_half ? KILN_F16 : KILN_BF16, false);
  if (!r->failed) v[1] = widen(r, &right, is_half ? KILN_F16 : KILN_BF16, true);
  ttir_builder_error(r);
  if (r->failed) return;
  ir_op *op = ttir_emit(r, (ir_opcode)row->code, &(ir_attrs){.precision = IR_PREC_IEEE}, v, 3, NULL);
  if (op) ttir_give(r, &op->results[0]);
}
