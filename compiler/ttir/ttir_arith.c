// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementwise operations, constants and casts.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/ttir/ttir_forms.h"

enum { MAX_LISTED = 1024 }; // elements of a constant: a tile is made of one select each

static bool is_bool(const ir_value *v) { return ir_type_class(v->type) == KILN_CLASS_BOOL; }

// `overflow<nsw>`, `fastmath<contract>`, rounding words and attributes between the operands and the colon.
// The fast-math flags are hints that the kernel language has no place for; contraction is said once for a
// kernel.
static void skip_modifiers(ttir_reader *r) {
  static const char *const known[] = {"overflow", "fastmath",        "exact",          "nneg",
                                      "disjoint", "to_nearest_even", "to_nearest_away"};
  for (size_t i = 0; i < sizeof known / sizeof *known;) {
    if (!ttir_accept_word(r, known[i])) {
      i++;
      continue;
    }
    i = 0; // several may stand here, in any order
    if (!ttir_peek(r, '<')) continue;
    while (!r->failed && !ttir_peek(r, '>') && r->lex.token.kind != TTIR_END) ttir_lex_next(&r->lex);
    ttir_expect(r, '>');
  }
  ttir_read_dictionary(r, &r->dictionary);
}

// --------------------------------------------------------------------------------------- constants

typedef struct literal {
  ttir_token token;
  bool is_word, is_true;
} literal;

static literal read_literal(ttir_reader *r) {
  literal l = {.token = r->lex.token};
  if (ttir_accept_word(r, "true")) l.is_word = l.is_true = true;
  else if (ttir_accept_word(r, "false")) l.is_word = true;
  else ttir_take(r, TTIR_NUMBER, "a number, true or false");
  return l;
}

// An integer of `bits` bits, signed or not; anything else is refused.
static uint64_t integer_bits(ttir_reader *r, const char *text, unsigned bits) {
  char *end;
  bool is_negative = *text == '-';
  errno = 0;
  uint64_t magnitude = strtoull(text + is_negative, &end, 0);
  uint64_t most = is_negative ? 1ull << (bits - 1) : UINT64_MAX >> (64 - bits);
  if (*end) ttir_error(r, "expected an integer, found '%s'", text);
  else if (errno || magnitude > most) ttir_error(r, "expected a number of %u bits, found '%s'", bits, text);
  return is_negative ? 0 - magnitude : magnitude;
}

// A decimal number is one in the type: none becomes infinity or NaN in silence.
static uint64_t float_bits(ttir_reader *r, const char *text, kiln_scalar scalar) {
  uint64_t bits = ir_float_to_bits(scalar, strtod(text, NULL), false);
  if (!isfinite(ir_bits_to_float(scalar, bits)))
    ttir_error(r, "expected a number of %s, found '%s', which is beyond its largest",
               kiln_scalars[scalar].spelling, text);
  return bits;
}

// Hexadecimal digits are the bits themselves; decimal ones a value in the type.
static uint64_t literal_bits(ttir_reader *r, const literal *l, ir_type type) {
  char text[512];
  if (r->failed) return 0;
  unsigned bits = ir_type_bits(type);
  if (l->is_word) {
    if (ir_type_class(type) != KILN_CLASS_BOOL) ttir_error(r, "expected a number, found true or false");
    return l->is_true;
  }
  if (l->token.length >= sizeof text) {
    ttir_error(r, "expected a number of at most %zu digits, found %u", sizeof text - 1, l->token.length);
    return 0;
  }
  memcpy(text, l->token.at, l->token.length);
  text[l->token.length] = 0;
  bool is_hex = text[0] == '0' && text[1] == 'x';
  bool is_float = ir_type_class(type) & (KILN_CLASS_FLOAT | KILN_CLASS_FP8);
  if (is_float && !is_hex) return float_bits(r, text, (kiln_scalar)type.scalar);
  return integer_bits(r, text, bits);
}

// `dense<[[1, 2], [3, 4]]>`: the elements in order of the text. Brackets are counted; how deep they lie
// follows from the type, which stands after.
static uint32_t read_list(ttir_reader *r, literal *out) {
  uint32_t count = 0, depth = 0;
  do {
    while (ttir_accept(r, '[')) depth++;
    if (count == MAX_LISTED)
      ttir_error(r, "expected a constant of at most %d different elements, found more", MAX_LISTED);
    else out[count++] = read_literal(r);
    while (depth && ttir_accept(r, ']')) depth--;
  } while (!r->failed && ttir_accept(r, ','));
  if (depth) ttir_expect(r, ']');
  return count;
}

// `dense<"0x0100000002000000">`: the bytes of all elements, least significant first.
static uint32_t listed_bytes(ttir_reader *r, ttir_token text, ir_type type, uint64_t *out) {
  uint32_t bytes = kiln_scalars[type.scalar].bytes, digits = text.length - 2, count = digits / 2 / bytes;
  if (text.length < 2 || memcmp(text.at, "0x", 2) || digits % (2 * bytes) || count > MAX_LISTED) {
    ttir_error(r, "expected 0x and the bytes of at most %d elements, found %u digits", MAX_LISTED, digits);
    return 0;
  }
  for (uint32_t i = 0; i < count; i++) {
    out[i] = 0;
    for (uint32_t k = 0; k < bytes; k++) {
      char pair[3] = {text.at[2 + 2 * (i * bytes + k)], text.at[3 + 2 * (i * bytes + k)], 0}, *end;
      out[i] |= (uint64_t)strtoul(pair, &end, 16) << 8 * k;
      if (*end) ttir_error(r, "expected hexadecimal digits, found '%s'", pair);
    }
  }
  return count;
}

// A tile of listed elements: the first everywhere, each other one where its index is.
static ir_value *listed_tile(ttir_reader *r, const uint64_t *bits, uint32_t count, ir_type type) {
  unsigned log2 = ir_log2_elements(type);
  if (count == 1) return ttir_splat_bits(r, type, bits[0]);
  if (!type.rank || count != 1u << log2) {
    ttir_error(r, "expected %u elements, found %u", 1u << log2, count);
    return NULL;
  }
  ir_value *index = ir_iota(&r->b, log2);
  ir_type flat = ir_with_element(index->type, ir_element(type));
  ir_value *tile = ttir_splat_bits(r, flat, bits[0]);
  for (uint32_t i = 1; i < count && !r->failed; i++) {
    if (bits[i] == bits[0]) continue;
    ir_value *here = ir_compare(&r->b, IR_EQ, 0, index, ttir_splat_bits(r, index->type, i));
    tile = ir_ternary(&r->b, IR_SELECT, 0, here, ttir_splat_bits(r, flat, bits[i]), tile);
    ttir_builder_error(r);
  }
  return r->failed || type.rank == 1 ? tile : ir_reshape(&r->b, tile, type);
}

// dense<...> : T
static void give_dense(ttir_reader *r) {
  literal *listed = KILN_NEW_ARRAY(r->arena, literal, MAX_LISTED);
  uint64_t *bits = KILN_NEW_ARRAY(r->arena, uint64_t, MAX_LISTED);
  ttir_token bytes = r->lex.token;
  ttir_expect(r, '<');
  bool is_bytes = r->lex.token.kind == TTIR_STRING;
  if (is_bytes) bytes = ttir_take(r, TTIR_STRING, "");
  uint32_t count = is_bytes ? 0 : read_list(r, listed);
  ttir_expect(r, '>');
  ir_type type = ttir_colon_type(r).type;
  if (!r->failed && (type.pointer || type.is_view))
    ttir_error(r, "a constant is a number, found one of a pointer type");
  if (r->failed) return;
  if (is_bytes) count = listed_bytes(r, bytes, type, bits);
  else
    for (uint32_t i = 0; i < count; i++) bits[i] = literal_bits(r, &listed[i], ir_element(type));
  if (!r->failed) ttir_give(r, listed_tile(r, bits, count, type));
}

void ttir_form_constant(ttir_reader *r, const ttir_row *row) {
  (void)row;
  ttir_read_dictionary(r, &r->dictionary);
  if (ttir_accept_word(r, "dense")) {
    give_dense(r);
    return;
  }
  literal l = read_literal(r);
  bool typed = !l.is_word || ttir_peek(r, ':');
  ir_type type = typed ? ttir_colon_type(r).type : ir_scalar_type(KILN_I1);
  if (type.pointer || type.is_view) ttir_error(r, "a constant is a number, found one of a pointer type");
  ttir_give(r, ttir_splat_bits(r, type, literal_bits(r, &l, type)));
}

// ub.poison : T. Any value will do; zero is one.
void ttir_form_poison(ttir_reader *r, const ttir_row *row) {
  (void)row;
  ir_type type = ttir_colon_type(r).type;
  if (type.is_view) ttir_error(r, "a descriptor without a value is not supported");
  if (!type.pointer) {
    ttir_give(r, ttir_splat_bits(r, type, 0));
    return;
  }
  ir_value *zero = ttir_splat_bits(r, ir_with_element(type, ir_scalar_type(KILN_I64)), 0);
  if (!r->failed) ttir_give(r, ir_bitcast(&r->b, zero, ir_element(type)));
}

// ------------------------------------------------------------------------------------- elementwise

static void elementwise(ttir_reader *r, const ttir_row *row, uint32_t count) {
  ir_value *operands[3];
  if (!ttir_operands(r, operands, count)) return;
  skip_modifiers(r);
  ir_type type = ttir_colon_type(r).type;
  ttir_check_type(r, operands[0], type);
  ir_attrs attrs = {.flags = row->flags & ~(uint32_t)TTIR_OWN};
  ir_opcode code = (ir_opcode)row->code;
  unsigned want = row->flags & TTIR_FLOAT ? KILN_CLASS_FLOAT : KILN_CLASS_INT | KILN_CLASS_BOOL;
  if (!r->failed && !(ir_type_class(type) & want)) {
    ttir_error(r, "%s: expected %s", row->name, row->flags & TTIR_FLOAT ? "floats" : "integers");
    return;
  }
  if (!r->failed && is_bool(operands[0]) && row->bool_code) {
    code = (ir_opcode)row->bool_code;
    attrs.flags = 0;
  }
  ir_op *op = ttir_emit(r, code, &attrs, operands, count, NULL);
  if (op) ttir_give(r, &op->results[0]);
}

void ttir_form_unary(ttir_reader *r, const ttir_row *row) { elementwise(r, row, 1); }
void ttir_form_binary(ttir_reader *r, const ttir_row *row) { elementwise(r, row, 2); }
void ttir_form_ternary(ttir_reader *r, const ttir_row *row) { elementwise(r, row, 3); }

// arith.ceildivsi, ceildivui, floordivsi: the truncated quotient, and one more or less where a rest is left
// on that side. The rest has the sign of the dividend, so the exact quotient is above the truncated one where
// the signs of rest and divisor agree.
void ttir_form_quotient(ttir_reader *r, const ttir_row *row) {
  ir_value *v[2];
  bool is_ceil = row->code == IR_XOR;
  uint32_t is_unsigned = row->flags & IR_UNSIGNED;
  if (!ttir_operands(r, v, 2)) return;
  skip_modifiers(r);
  ir_type type = ttir_colon_type(r).type;
  ttir_check_type(r, v[0], type);
  ttir_check_type(r, v[1], type);
  if (!r->failed && ir_type_class(type) != KILN_CLASS_INT) ttir_error(r, "%s: expected integers", row->name);
  if (r->failed) return;
  ir_builder *b = &r->b;
  ir_value *zero = ttir_splat_bits(r, type, 0), *one = ttir_splat_bits(r, type, 1);
  ir_value *quotient = ir_binary(b, IR_DIV, is_unsigned, v[0], v[1]);
  ir_value *rest = ir_binary(b, IR_REM, is_unsigned, v[0], v[1]);
  ir_value *moves = ir_compare(b, IR_NE, 0, rest, zero);
  if (!is_unsigned) {
    ir_value *signs = ir_binary(b, IR_XOR, 0, rest, v[1]);
    ir_value *side = ir_compare(b, is_ceil ? IR_GE : IR_LT, 0, signs, zero);
    moves = ir_binary(b, IR_AND, 0, moves, side);
  }
  ir_value *moved = ir_binary(b, is_ceil ? IR_ADD : IR_SUB, 0, quotient, one);
  ttir_give(r, ir_ternary(b, IR_SELECT, 0, moves, moved, quotient));
}

// -0.0 - x keeps the sign of zeros right.
void ttir_form_negate(ttir_reader *r, const ttir_row *row) {
  (void)row;
  ir_value *x = ttir_value(r);
  skip_modifiers(r);
  if (!r->failed) ttir_check_type(r, x, ttir_colon_type(r).type);
  if (!r->failed) ttir_give(r, ir_binary(&r->b, IR_SUB, 0, ttir_splat_float(r, x->type, -0.0), x));
}

// tt.clampf %x, %lo, %hi, propagateNan = none : T
void ttir_form_clamp(ttir_reader *r, const ttir_row *row) {
  (void)row;
  ir_value *v[3];
  if (!ttir_operands(r, v, 3)) return;
  uint32_t flags = 0;
  if (ttir_accept(r, ',')) {
    ttir_expect_word(r, "propagateNan");
    ttir_expect(r, '=');
    if (ttir_accept_word(r, "all")) flags = IR_NAN;
    else ttir_expect_word(r, "none");
  }
  skip_modifiers(r);
  ttir_check_type(r, v[0], ttir_colon_type(r).type);
  if (r->failed) return;
  ir_value *raised = ir_binary(&r->b, IR_MAX, flags, v[0], v[1]);
  ttir_builder_error(r);
  if (!r->failed) ttir_give(r, ir_binary(&r->b, IR_MIN, flags, raised, v[2]));
}

// ------------------------------------------------------------------------------------- comparisons

// How a comparison is made of ours.
typedef enum shape { PLAIN, NOT, EITHER, NEITHER, ORDERED, UNORDERED, ALWAYS, NEVER } shape;

typedef struct comparison {
  const char *name;
  uint8_t predicate, how;
  bool is_unsigned;
} comparison;

static const comparison integer_comparisons[] = {
    {"eq", IR_EQ, PLAIN, false},  {"ne", IR_NE, PLAIN, false},  {"slt", IR_LT, PLAIN, false},
    {"sle", IR_LE, PLAIN, false}, {"sgt", IR_GT, PLAIN, false}, {"sge", IR_GE, PLAIN, false},
    {"ult", IR_LT, PLAIN, true},  {"ule", IR_LE, PLAIN, true},  {"ugt", IR_GT, PLAIN, true},
    {"uge", IR_GE, PLAIN, true},
};

// Ours are ordered but for NE. Unordered ones are the opposite inverted.
static const comparison float_comparisons[] = {
    {"oeq", IR_EQ, PLAIN, false}, {"ogt", IR_GT, PLAIN, false}, {"oge", IR_GE, PLAIN, false},
    {"olt", IR_LT, PLAIN, false}, {"ole", IR_LE, PLAIN, false}, {"une", IR_NE, PLAIN, false},
    {"ugt", IR_LE, NOT, false},   {"uge", IR_LT, NOT, false},   {"ult", IR_GE, NOT, false},
    {"ule", IR_GT, NOT, false},   {"one", 0, EITHER, false},    {"ueq", 0, NEITHER, false},
    {"ord", 0, ORDERED, false},   {"uno", 0, UNORDERED, false}, {"true", 0, ALWAYS, false},
    {"false", 0, NEVER, false},
};

static const comparison *find_comparison(ttir_reader *r, const comparison *table, size_t count) {
  ttir_token name = ttir_take(r, TTIR_WORD, "a predicate");
  for (size_t i = 0; i < count; i++)
    if (strlen(table[i].name) == name.length && memcmp(table[i].name, name.at, name.length) == 0)
      return &table[i];
  if (!r->failed) ttir_error(r, "unknown predicate '%.*s'", (int)name.length, name.at);
  return NULL;
}

static const comparison *read_comparison(ttir_reader *r, const comparison *table, size_t count,
                                         ir_value **operands) {
  const comparison *c = find_comparison(r, table, count);
  ttir_expect(r, ',');
  if (!ttir_operands(r, operands, 2)) return NULL;
  skip_modifiers(r);
  ttir_check_type(r, operands[0], ttir_colon_type(r).type);
  if (!r->failed && !ir_type_equal(operands[0]->type, operands[1]->type))
    ttir_error(r, "%s: operands have different types", r->row->name);
  return r->failed ? NULL : c;
}

void ttir_form_cmpi(ttir_reader *r, const ttir_row *row) {
  (void)row;
  ir_value *v[2];
  const comparison *c =
      read_comparison(r, integer_comparisons, sizeof integer_comparisons / sizeof *integer_comparisons, v);
  if (!c) return;
  bool ordered = c->predicate != IR_EQ && c->predicate != IR_NE, swap = false;
  if (is_bool(v[0]) &&
      ordered) { // as a signed number true is -1, so the order is that of the swapped operands as 0 and 1
    for (int i = 0; i < 2; i++) v[i] = ir_cast(&r->b, v[i], KILN_I8, 0, IR_ROUND_NEAREST);
    swap = !c->is_unsigned;
  }
  ttir_give(
      r, ir_compare(&r->b, (ir_predicate)c->predicate, c->is_unsigned ? IR_UNSIGNED : 0, v[swap], v[!swap]));
}

static ir_value *inverted(ttir_reader *r, ir_value *v) {
  ttir_builder_error(r);
  return r->failed ? NULL : ir_binary(&r->b, IR_XOR, 0, v, ttir_splat_bits(r, v->type, 1));
}

static ir_value *two(ttir_reader *r, ir_opcode join, ir_predicate first, ir_predicate second, ir_value *a,
                     ir_value *b, ir_value *c, ir_value *d) {
  ir_value *x = ir_compare(&r->b, first, 0, a, b), *y = ir_compare(&r->b, second, 0, c, d);
  ttir_builder_error(r);
  return r->failed ? NULL : ir_binary(&r->b, join, 0, x, y);
}

void ttir_form_cmpf(ttir_reader *r, const ttir_row *row) {
  (void)row;
  ir_value *v[2], *result = NULL;
  const comparison *c =
      read_comparison(r, float_comparisons, sizeof float_comparisons / sizeof *float_comparisons, v);
  if (!c) return;
  switch ((shape)c->how) {
  case PLAIN: result = ir_compare(&r->b, (ir_predicate)c->predicate, 0, v[0], v[1]); break;
  case NOT: result = inverted(r, ir_compare(&r->b, (ir_predicate)c->predicate, 0, v[0], v[1])); break;
  case EITHER: result = two(r, IR_OR, IR_LT, IR_GT, v[0], v[1], v[0], v[1]); break;
  case NEITHER: result = inverted(r, two(r, IR_OR, IR_LT, IR_GT, v[0], v[1], v[0], v[1])); break;
  case ORDERED: result = two(r, IR_AND, IR_EQ, IR_EQ, v[0], v[0], v[1], v[1]); break;
  case UNORDERED: result = two(r, IR_OR, IR_NE, IR_NE, v[0], v[0], v[1], v[1]); break;
  case ALWAYS:
  case NEVER:
    result = ttir_splat_bits(r, ir_with_element(v[0]->type, ir_scalar_type(KILN_I1)), c->how == ALWAYS);
    break;
  }
  ttir_give(r, result);
}

// %c, %a, %b : tensor<..xi1>, T   or   : T
void ttir_form_select(ttir_reader *r, const ttir_row *row) {
  (void)row;
  ir_value *v[3];
  if (!ttir_operands(r, v, 3)) return;
  skip_modifiers(r);
  ir_type type = ttir_colon_type(r).type;
  if (ttir_accept(r, ',')) type = ttir_read_type(r, false).type;
  ttir_check_type(r, v[1], type);
  ir_op *op = ttir_emit(r, IR_SELECT, NULL, v, 3, NULL);
  if (op) ttir_give(r, &op->results[0]);
}

// ------------------------------------------------------------------------------------------- casts

// After the operand: rounding, attributes, `: T to U` or `: T -> U`. Returns U.
static ir_type cast_types(ttir_reader *r, const ir_value *operand, ir_round *out_round) {
  *out_round = IR_ROUND_NEAREST;
  if (ttir_accept(r, ',')) { // tt.fp_to_fp %x, rounding = rtne
    ttir_expect_word(r, "rounding");
    ttir_expect(r, '=');
    if (ttir_accept_word(r, "rtz")) *out_round = IR_ROUND_ZERO;
    else ttir_expect_word(r, "rtne");
  }
  if (ttir_accept_word(r, "toward_zero")) *out_round = IR_ROUND_ZERO;
  if (ttir_peek_word(r, "upward") || ttir_peek_word(r, "downward"))
    ttir_error(r, "%s: only rounding to nearest and to zero is supported", r->row->name);
  skip_modifiers(r);
  if (ttir_entry_int(&r->dictionary, "rounding", 1) == 0)
    *out_round = IR_ROUND_ZERO; // as an attribute: 0 is rtz
  ttir_check_type(r, operand, ttir_colon_type(r).type);
  if (r->lex.token.kind == TTIR_ARROW) ttir_lex_next(&r->lex);
  else ttir_expect_word(r, "to");
  return ttir_read_type(r, false).type;
}

// Signed numbers of i1: true is -1.
static ir_value *from_signed_bool(ttir_reader *r, ir_value *v, ir_type to) {
  bool is_float = ir_type_class(to) == KILN_CLASS_FLOAT;
  ir_value *minus = is_float ? ttir_splat_float(r, to, -1.0) : ttir_splat_bits(r, to, UINT64_MAX);
  ir_value *zero = ttir_splat_bits(r, to, 0);
  return r->failed ? NULL : ir_ternary(&r->b, IR_SELECT, 0, v, minus, zero);
}

// The lowest bit of an integer.
static ir_value *to_bool(ttir_reader *r, ir_value *v) {
  if (ir_type_class(v->type) & (KILN_CLASS_FLOAT | KILN_CLASS_FP8))
    v = ir_cast(&r->b, v, KILN_I32, 0, IR_ROUND_ZERO);
  ttir_builder_error(r);
  if (r->failed) return NULL;
  ir_value *bit = ir_binary(&r->b, IR_AND, 0, v, ttir_splat_bits(r, v->type, 1));
  ttir_builder_error(r);
  return r->failed ? NULL : ir_compare(&r->b, IR_NE, 0, bit, ttir_splat_bits(r, v->type, 0));
}

// Operand and result are of the classes that the row names.
static void check_classes(ttir_reader *r, const ttir_row *row, ir_type from, ir_type to) {
  static const struct {
    uint32_t operand, result;
    unsigned classes;
    const char *text;
  } all[] = {{TTIR_INT, TTIR_TO_INT, KILN_CLASS_INT | KILN_CLASS_BOOL, "integers"},
             {TTIR_FLOAT, TTIR_TO_FLOAT, KILN_CLASS_FLOAT | KILN_CLASS_FP8, "floats"},
             {TTIR_POINTER, TTIR_TO_POINTER, KILN_CLASS_POINTER, "pointers"}};
  char text[IR_TYPE_TEXT];
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (row->flags & all[i].operand && (from.is_view || !(ir_type_class(from) & all[i].classes)))
      ttir_error(r, "%s: expected %s, found %s", row->name, all[i].text, ir_type_text(from, text));
    if (row->flags & all[i].result && (to.is_view || !(ir_type_class(to) & all[i].classes)))
      ttir_error(r, "%s: expected %s as result, found %s", row->name, all[i].text, ir_type_text(to, text));
  }
}

// An extension gives more bits, a truncation fewer.
static void check_widths(ttir_reader *r, const ttir_row *row, ir_type from, ir_type to) {
  unsigned before = ir_type_bits(from), after = ir_type_bits(to);
  if (row->flags & TTIR_WIDENS && after <= before)
    ttir_error(r, "%s: expected more than %u bits as result, found %u", row->name, before, after);
  if (row->flags & TTIR_NARROWS && after >= before)
    ttir_error(r, "%s: expected fewer than %u bits as result, found %u", row->name, before, after);
}

/// The operand; what it becomes, and how, in `to` and `round`. NULL after an error.
static ir_value *read_cast(ttir_reader *r, const ttir_row *row, ir_type *to, ir_round *round) {
  ir_value *v = ttir_value(r);
  if (r->failed) return NULL;
  *to = cast_types(r, v, round);
  if (r->failed) return NULL;
  check_classes(r, row, v->type, *to);
  check_widths(r, row, v->type, *to);
  if (!r->failed && !ir_same_shape(v->type, *to))
    ttir_error(r, "%s: operand and result have different shapes", row->name);
  return r->failed ? NULL : v;
}

void ttir_form_cast(ttir_reader *r, const ttir_row *row) {
  ir_round round;
  ir_type to;
  ir_value *v = read_cast(r, row, &to, &round);
  if (!v) return;
  if (ir_type_equal(v->type, to)) ttir_give(r, v);
  else if (is_bool(v) && row->flags & TTIR_SIGNED) ttir_give(r, from_signed_bool(r, v, to));
  else if (ir_type_class(to) == KILN_CLASS_BOOL) ttir_give(r, to_bool(r, v));
  else
    ttir_give(r, ir_cast(&r->b, v, (kiln_scalar)to.scalar, is_bool(v) ? 0 : row->flags & IR_UNSIGNED, round));
}

void ttir_form_bitcast(ttir_reader *r, const ttir_row *row) {
  ir_round round;
  ir_type to;
  ir_value *v = read_cast(r, row, &to, &round);
  if (!v) return;
  if (ir_type_equal(v->type, to)) {
    ttir_give(r, v);
    return;
  }
  // tt.int_to_ptr and tt.ptr_to_int go through 64 bits
  if (to.pointer && !v->type.pointer && ir_type_bits(v->type) < 64)
    v = ir_cast(&r->b, v, KILN_I64, IR_UNSIGNED, IR_ROUND_NEAREST);
  bool narrow = v && v->type.pointer && !to.pointer && ir_type_bits(to) < 64;
  if (narrow) v = ir_bitcast(&r->b, v, ir_scalar_type(KILN_I64));
  ttir_give(r, narrow ? ir_cast(&r->b, v, (kiln_scalar)to.scalar, 0, IR_ROUND_NEAREST)
                      : ir_bitcast(&r->b, v, ir_element(to)));
}
