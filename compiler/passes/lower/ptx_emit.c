// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Steps of inline PTX as operations. A register is a tile of integers of its bits; a step takes its lanes out
// as its type has them and puts the results together again.
#include "compiler/passes/lower/ptx.h"

#include <string.h>

#include "base/check.h"

typedef struct emitter {
  expanding *x;
  const ptx_program *p;
  ir_type shape; ///< of every register
  ptx_special_value *special;
  ir_value **values; ///< by register
} emitter;

enum { MAX_LANES = 2, MAX_SOURCES = PTX_MAX_OPERANDS - 1 };

// ------------------------------------------------------------------------------------------- lanes

static uint64_t ones(unsigned bits) { return bits < 64 ? (1ull << bits) - 1 : UINT64_MAX; }

static ir_value *constant(emitter *e, kiln_scalar scalar, uint64_t bits) {
  ir_type element = ir_scalar_type(scalar);
  ir_value *v = ir_const_bits(&e->x->b, element, bits & ones(kiln_scalars[scalar].bits));
  return v && e->shape.rank ? ir_splat(&e->x->b, v, ir_with_element(e->shape, element)) : v;
}

static ir_value *resized(emitter *e, ir_value *v, unsigned bits, bool is_signed) {
  if (!v || ir_type_bits(v->type) == bits) return v;
  return ir_cast(&e->x->b, v, ir_integer_of(bits), is_signed ? 0 : IR_UNSIGNED, IR_ROUND_NEAREST);
}

static ir_value *as(emitter *e, ir_value *v, kiln_scalar scalar) {
  return v && v->type.scalar != scalar ? x_bits(e->x, v, scalar) : v;
}

static ir_value *number(emitter *e, const ptx_operand *o, unsigned bits, const ptx_type *type) {
  kiln_scalar real = bits == 64 && type->lanes == 1 ? KILN_F64 : KILN_F32;
  return constant(e, ir_integer_of(bits), o->is_real ? ir_float_to_bits(real, o->real, false) : o->bits);
}

/// A source as an integer of `bits`.
static ir_value *source(emitter *e, const ptx_step *s, unsigned index, unsigned bits) {
  const ptx_operand *o = &s->operands[index];
  return o->kind == PTX_NUMBER ? number(e, o, bits, s->from)
                               : resized(e, e->values[o->registers[0]], bits, false);
}

static ir_value *lane(emitter *e, ir_value *v, const ptx_type *type, unsigned index) {
  unsigned width = type->bits / type->lanes;
  if (index) v = x_opi(e->x, IR_SHR, v, (uint64_t)index * width);
  return v ? as(e, resized(e, v, width, false), type->lane) : NULL;
}

static ir_value *joined(emitter *e, ir_value *const *lanes, unsigned count) {
  ir_value *all = NULL;
  for (unsigned i = 0; i < count; i++) {
    if (!lanes[i]) return NULL;
    unsigned width = ir_type_bits(lanes[i]->type);
    ir_value *v = resized(e, as(e, lanes[i], ir_integer_of(width)), width * count, false);
    if (i) v = x_opi(e->x, IR_SHL, v, (uint64_t)i * width);
    all = i ? x_op(e->x, IR_OR, all, v) : v;
  }
  return all;
}

static uint32_t unsigned_of(const ptx_type *type) { return type->kind & (UINT | BITS) ? IR_UNSIGNED : 0; }

static ir_value *is_nan(emitter *e, ir_value *v) { return x_cmp(e->x, IR_NE, v, v); }

static ir_value *real(emitter *e, const ir_value *like, double n) {
  return constant(e, like->type.scalar, ir_float_to_bits(like->type.scalar, n, false));
}

/// `.sat` makes NaN zero, `.relu` keeps it.
static ir_value *bounded(emitter *e, const ptx_step *s, ir_value *v) {
  if (!v || !(s->modifiers & (SAT | RELU))) return v;
  v = ir_binary(&e->x->b, IR_MAX, s->modifiers & RELU ? IR_NAN : 0, v, real(e, v, 0));
  return v && s->modifiers & SAT ? x_op(e->x, IR_MIN, v, real(e, v, 1)) : v;
}

// ------------------------------------------------------------------- meanings, a lane of each source

typedef ir_value *lane_meaning(emitter *e, const ptx_step *s, ir_value *const *v);

static ir_value *elements(emitter *e, const ptx_step *s, ir_value *const *v) {
  uint32_t flags = s->type->kind & UINT ? (uint32_t)IR_UNSIGNED : 0;
  ir_opcode code = s->row->code;
  if (code != IR_DIV && code != IR_REM && code != IR_MIN && code != IR_MAX && code != IR_MULHI) flags = 0;
  if (s->modifiers & NANS) flags |= IR_NAN;
  if (s->modifiers & RN && (code == IR_DIV || code == IR_SQRT)) flags |= IR_PRECISE;
  if (s->count == 2) return ir_unary(&e->x->b, code, flags, v[0]);
  if (code == IR_FMA) return bounded(e, s, ir_ternary(&e->x->b, code, flags, v[0], v[1], v[2]));
  ir_value *made = ir_binary(&e->x->b, code, flags, v[0], v[1]);
  if (s->count == 4) return x_op(e->x, IR_ADD, made, v[2]);
  return s->type->kind & (HALF | FLOAT) ? bounded(e, s, made) : made;
}

static ir_value *wide(emitter *e, const ptx_step *s, ir_value *const *v) {
  bool is_signed = s->type->kind & SINT;
  unsigned bits = 2u * s->type->bits;
  ir_value *made = x_op(e->x, IR_MUL, resized(e, v[0], bits, is_signed), resized(e, v[1], bits, is_signed));
  return s->count == 4 ? x_op(e->x, IR_ADD, made, v[2]) : made;
}

static ir_value *high(emitter *e, const ptx_step *s, ir_value *const *v) {
  if (s->type->bits > 16) return elements(e, s, v);
  bool is_signed = s->type->kind & SINT;
  ir_value *made = x_op(e->x, IR_MUL, resized(e, v[0], 32, is_signed), resized(e, v[1], 32, is_signed));
  made = resized(e, x_opi(e->x, IR_SHR, made, 16), 16, false);
  return s->count == 4 ? x_op(e->x, IR_ADD, made, v[2]) : made;
}

static ir_value *negate(emitter *e, const ptx_step *s, ir_value *const *v) {
  if (s->type->kind & SINT) return x_op(e->x, IR_SUB, x_int(e->x, v[0], 0), v[0]);
  unsigned bits = ir_type_bits(v[0]->type);
  ir_value *raw = as(e, v[0], ir_integer_of(bits));
  return as(e, x_opi(e->x, IR_XOR, raw, 1ull << (bits - 1)), s->type->lane);
}

static ir_value *invert(emitter *e, const ptx_step *s, ir_value *const *v) {
  return ir_binary(&e->x->b, IR_DIV, s->modifiers & RN ? IR_PRECISE : 0, real(e, v[0], 1), v[0]);
}

/// The first has the sign, the second the rest.
static ir_value *copy_sign(emitter *e, const ptx_step *s, ir_value *const *v) {
  unsigned bits = ir_type_bits(v[0]->type);
  kiln_scalar integer = ir_integer_of(bits);
  ir_value *sign = x_opi(e->x, IR_AND, as(e, v[0], integer), 1ull << (bits - 1));
  ir_value *rest = x_opi(e->x, IR_AND, as(e, v[1], integer), ones(bits - 1));
  return as(e, x_op(e->x, IR_OR, sign, rest), s->type->lane);
}

static ir_value *complement(emitter *e, ir_value *v) {
  return v ? x_opi(e->x, IR_XOR, v, ones(ir_type_bits(v->type))) : NULL;
}
static ir_value *inverse(emitter *e, const ptx_step *s, ir_value *const *v) {
  (void)s;
  return complement(e, v[0]);
}

/// A shift by any count: beyond the width nothing is left, or the sign. Counts have the bits of the value.
static ir_value *shifted(emitter *e, ir_opcode code, uint32_t flags, ir_value *v, ir_value *count) {
  if (!v || !count) return NULL;
  unsigned bits = ir_type_bits(v->type);
  if (code == IR_SHR && !(flags & IR_UNSIGNED))
    return ir_binary(&e->x->b, code, 0, v, x_unsigned(e->x, IR_MIN, count, x_int(e->x, count, bits - 1)));
  ir_value *is_in = ir_compare(&e->x->b, IR_LT, IR_UNSIGNED, count, x_int(e->x, count, bits));
  return x_select(e->x, is_in, ir_binary(&e->x->b, code, flags, v, count), x_int(e->x, v, 0));
}

static ir_value *shift(emitter *e, const ptx_step *s, ir_value *const *v) {
  unsigned bits = s->type->bits;
  ir_value *count = v[1];
  if (bits < 32) count = x_unsigned(e->x, IR_MIN, count, x_int(e->x, count, bits));
  return shifted(e, s->row->code, unsigned_of(s->type), v[0], resized(e, count, bits, false));
}

// ----------------------------------------------------------------------------------- bits of words

// Where bit i of a table of eight comes from, by operand: a is 1 in 0xf0, b in 0xcc, c in 0xaa.
static const uint8_t where[3] = {0xf0, 0xcc, 0xaa};

/// The table with operand `index` fixed.
static uint8_t cofactor(uint8_t table, unsigned index, bool is_set) {
  KILN_ASSERT(index < 3);
  unsigned distance = 4u >> index;
  uint8_t half = is_set ? table & where[index] : table & (uint8_t)~where[index];
  return (uint8_t)(is_set ? half | half >> distance : half | half << distance);
}

static bool is_simple(uint8_t set, uint8_t clear) {
  return !set || !clear || set == 0xff || clear == 0xff || (set ^ clear) == 0xff;
}

/// A function of three words by its table: one word decides between two functions of the others. One that
/// leaves little to do is taken first.
static ir_value *logic(emitter *e, uint8_t table, ir_value *const *v) {
  unsigned best = 3;
  if (!table || table == 0xff) return x_int(e->x, v[0], table ? ones(32) : 0);
  for (unsigned i = 0; i < 3; i++) {
    uint8_t set = cofactor(table, i, true), clear = cofactor(table, i, false);
    if (set != clear && (best == 3 || is_simple(set, clear))) best = i;
  }
  uint8_t set = cofactor(table, best, true), clear = cofactor(table, best, false);
  ir_value *word = v[best];
  if (set == 0xff && !clear) return word;
  if (!set && clear == 0xff) return complement(e, word);
  if (set == 0xff) return x_op(e->x, IR_OR, word, logic(e, clear, v));
  if (clear == 0xff) return x_op(e->x, IR_OR, complement(e, word), logic(e, set, v));
  if ((set ^ clear) == 0xff) return x_op(e->x, IR_XOR, word, logic(e, clear, v));
  ir_value *one = set ? x_op(e->x, IR_AND, word, logic(e, set, v)) : NULL;
  ir_value *other = clear ? x_op(e->x, IR_AND, complement(e, word), logic(e, clear, v)) : NULL;
  return one && other ? x_op(e->x, IR_OR, one, other) : one ? one : other;
}

static ir_value *lop3(emitter *e, const ptx_step *s, ir_value *const *v) {
  return logic(e, (uint8_t)s->operands[4].bits, v);
}

/// Byte `selector & 7` of the two words, or eight copies of its sign where bit 3 is set.
static ir_value *permuted_byte(emitter *e, ir_value *both, ir_value *selector) {
  ir_value *from = x_opi(e->x, IR_SHL, x_opi(e->x, IR_AND, selector, 7), 3);
  ir_value *byte = x_opi(e->x, IR_AND, x_unsigned(e->x, IR_SHR, both, from), 0xff);
  ir_value *sign = x_op(e->x, IR_SUB, x_int(e->x, both, 0), x_opi(e->x, IR_SHR, byte, 7));
  ir_value *copies = x_cmp(e->x, IR_NE, x_opi(e->x, IR_AND, selector, 8), x_int(e->x, selector, 0));
  return resized(e, x_select(e->x, copies, x_opi(e->x, IR_AND, sign, 0xff), byte), 32, false);
}

static ir_value *permute(emitter *e, const ptx_step *s, ir_value *const *v) {
  (void)s;
  ir_value *both = joined(e, v, 2), *selector = resized(e, v[2], 64, false), *all = NULL;
  for (unsigned i = 0; i < 4; i++) {
    ir_value *byte = permuted_byte(e, both, x_opi(e->x, IR_AND, x_opi(e->x, IR_SHR, selector, 4ull * i), 15));
    byte = x_opi(e->x, IR_SHL, byte, 8ull * i);
    all = i ? x_op(e->x, IR_OR, all, byte) : byte;
  }
  return all;
}

/// Positions and lengths of fields are bytes.
static ir_value *field_number(emitter *e, ir_value *v, unsigned bits) {
  return resized(e, x_opi(e->x, IR_AND, v, 0xff), bits, false);
}

/// `length` ones from bit 0 on.
static ir_value *mask_of(emitter *e, ir_value *length) {
  ir_value *one = x_int(e->x, length, 1);
  return x_op(e->x, IR_SUB, shifted(e, IR_SHL, 0, one, length), one);
}

static ir_value *extract(emitter *e, const ptx_step *s, ir_value *const *v) {
  unsigned bits = s->type->bits;
  ir_value *at = field_number(e, v[1], bits), *length = field_number(e, v[2], bits);
  ir_value *field = shifted(e, IR_SHR, unsigned_of(s->type), v[0], at);
  if (s->type->kind & UINT) return x_op(e->x, IR_AND, field, mask_of(e, length));
  ir_value *all = x_int(e->x, length, bits), *kept = x_unsigned(e->x, IR_MIN, length, all);
  ir_value *above = x_op(e->x, IR_SUB, all, kept);
  field = shifted(e, IR_SHR, 0, shifted(e, IR_SHL, 0, field, above), above);
  ir_value *is_empty = x_cmp(e->x, IR_EQ, length, x_int(e->x, length, 0));
  return x_select(e->x, is_empty, x_int(e->x, field, 0), field);
}

static ir_value *insert(emitter *e, const ptx_step *s, ir_value *const *v) {
  unsigned bits = s->type->bits;
  ir_value *at = field_number(e, v[2], bits), *length = field_number(e, v[3], bits);
  ir_value *mask = shifted(e, IR_SHL, 0, mask_of(e, length), at);
  ir_value *in = x_op(e->x, IR_AND, shifted(e, IR_SHL, 0, v[0], at), mask);
  return x_op(e->x, IR_OR, x_op(e->x, IR_AND, v[1], complement(e, mask)), in);
}

// Every second bit, every second pair, and so on.
static const uint64_t stripes[] = {0x5555555555555555, 0x3333333333333333, 0x0f0f0f0f0f0f0f0f,
                                   0x00ff00ff00ff00ff, 0x0000ffff0000ffff, 0x00000000ffffffff};

static ir_value *count(emitter *e, const ptx_step *s, ir_value *const *v) {
  ir_value *sum = v[0];
  for (unsigned i = 0; 1u << i < s->type->bits; i++) {
    uint64_t mask = stripes[i] & ones(s->type->bits);
    ir_value *upper = x_opi(e->x, IR_AND, x_opi(e->x, IR_SHR, sum, 1ull << i), mask);
    sum = x_op(e->x, IR_ADD, x_opi(e->x, IR_AND, sum, mask), upper);
  }
  return resized(e, sum, 32, false);
}

static ir_value *reverse(emitter *e, const ptx_step *s, ir_value *const *v) {
  ir_value *word = v[0];
  for (unsigned i = 0; 1u << i < s->type->bits; i++) {
    uint64_t mask = stripes[i] & ones(s->type->bits);
    ir_value *down = x_opi(e->x, IR_AND, x_opi(e->x, IR_SHR, word, 1ull << i), mask);
    word = x_op(e->x, IR_OR, x_opi(e->x, IR_SHL, x_opi(e->x, IR_AND, word, mask), 1ull << i), down);
  }
  return word;
}

static ir_value *funnel(emitter *e, const ptx_step *s, ir_value *const *v) {
  ir_value *by = s->modifiers & WRAP ? x_opi(e->x, IR_AND, v[2], 31) : x_opi(e->x, IR_MIN, v[2], 32);
  ir_value *both = x_unsigned(e->x, s->row->code, joined(e, v, 2), resized(e, by, 64, false));
  return resized(e, s->row->code == IR_SHL ? x_opi(e->x, IR_SHR, both, 32) : both, 32, false);
}

// -------------------------------------------------------------------------- comparison and choice

static ir_value *compare(emitter *e, const ptx_step *s, ir_value *const *v) {
  const ptx_compare *how = s->compare;
  bool is_real = s->type->kind & (HALF | FLOAT);
  uint32_t flags = how->is_unsigned ? (uint32_t)IR_UNSIGNED : is_real ? 0 : unsigned_of(s->type);
  ir_value *c = ir_compare(&e->x->b, how->predicate, flags, v[0], v[1]);
  bool takes_nan = how->predicate == IR_NE; // as the operation has it
  if (!is_real || takes_nan == how->unordered) return c;
  ir_value *any = x_op(e->x, IR_OR, is_nan(e, v[0]), is_nan(e, v[1]));
  return how->unordered ? x_op(e->x, IR_OR, c, any) : x_op(e->x, IR_AND, c, complement(e, any));
}

static ir_value *choose(emitter *e, const ptx_step *s, ir_value *const *v) {
  (void)s;
  return x_select(e->x, v[2], v[0], v[1]);
}

// --------------------------------------------------------------------------------------- conversion

static ir_value *saturated(emitter *e, const ptx_step *s, ir_value *v) {
  unsigned bits = s->type->bits;
  bool to_signed = s->type->kind & SINT, from_signed = s->from->kind & SINT;
  v = resized(e, v, 64, from_signed);
  uint64_t most = ones(to_signed ? bits - 1 : bits), least = to_signed ? ~most : 0;
  if (!from_signed) return x_opi(e->x, IR_MIN, v, most);
  v = v ? x_op(e->x, IR_MAX, v, x_int(e->x, v, least)) : NULL;
  return bits == 64 ? v : x_op(e->x, IR_MIN, v, x_int(e->x, v, most));
}

static ir_value *rounded(emitter *e, const ptx_step *s, ir_value *v) {
  if (s->modifiers & RNI) return ir_unary(&e->x->b, IR_ROUND, 0, v);
  if (s->modifiers & RMI) return ir_unary(&e->x->b, IR_FLOOR, 0, v);
  if (s->modifiers & RPI) return ir_unary(&e->x->b, IR_CEIL, 0, v);
  if (!(s->modifiers & RZI)) return v;
  ir_value *down = ir_unary(&e->x->b, IR_FLOOR, 0, v), *up = ir_unary(&e->x->b, IR_CEIL, 0, v);
  return x_select(e->x, x_cmp(e->x, IR_LT, v, real(e, v, 0)), up, down);
}

/// Ties away from zero at the 13 bits that tf32 does not have.
static ir_value *to_tf32(emitter *e, ir_value *v) {
  ir_value *bits = as(e, v, KILN_I32);
  ir_value *near = x_opi(e->x, IR_AND, x_opi(e->x, IR_ADD, bits, 0x1000), 0xffffe000);
  return x_select(e->x, is_nan(e, v), x_int(e->x, bits, 0x7fffffff), near);
}

static ir_value *converted(emitter *e, const ptx_step *s, ir_value *v) {
  const ptx_type *to = s->type, *from = s->from;
  bool to_int = to->kind & (UINT | SINT), from_int = from->kind & (UINT | SINT);
  if (!v) return NULL;
  if (to_int && from_int)
    return resized(e, s->modifiers & SAT ? saturated(e, s, v) : v, to->bits, from->kind & SINT);
  if (to->kind == TF32) return to_tf32(e, v);
  uint32_t flags = (to_int ? to : from)->kind & UINT ? IR_UNSIGNED : 0;
  if (to_int) return ir_cast(&e->x->b, rounded(e, s, v), to->lane, flags, IR_ROUND_NEAREST);
  if (from_int) return bounded(e, s, ir_cast(&e->x->b, v, to->lane, flags, IR_ROUND_NEAREST));
  v = bounded(e, s, rounded(e, s, v));
  if (!v || to->lane == from->lane) return v;
  if (to->kind == HALF && from->kind == HALF) v = x_cast(e->x, v, KILN_F32);
  return ir_cast(&e->x->b, v, to->lane, 0, s->modifiers & RZ ? IR_ROUND_ZERO : IR_ROUND_NEAREST);
}

static ir_value *convert(emitter *e, const ptx_step *s) {
  ir_value *lanes[MAX_LANES];
  bool packs = s->count == 3; // the first source becomes the upper lane
  for (unsigned i = 0; i < s->type->lanes; i++) {
    unsigned index = packs ? 2 - i : 1;
    lanes[i] = converted(e, s, lane(e, source(e, s, index, s->from->bits), s->from, packs ? 0 : i));
  }
  return joined(e, lanes, s->type->lanes);
}

// --------------------------------------------------------------------------------------------- steps

static lane_meaning *const meanings[PTX_MEANINGS] = {
    [PTX_ELEMENTS] = elements, [PTX_HIGH] = high,          [PTX_WIDE] = wide,       [PTX_NEGATE] = negate,
    [PTX_INVERT] = invert,     [PTX_COPYSIGN] = copy_sign, [PTX_NOT] = inverse,     [PTX_SHIFT] = shift,
    [PTX_LOP3] = lop3,         [PTX_PRMT] = permute,       [PTX_EXTRACT] = extract, [PTX_INSERT] = insert,
    [PTX_COUNT] = count,       [PTX_REVERSE] = reverse,    [PTX_FUNNEL] = funnel,   [PTX_COMPARE] = compare,
    [PTX_SELECT] = choose,
};

static void put(emitter *e, const ptx_step *s, int number, ir_value *v) {
  if (number < 0 || !v) return;
  ir_value *old = e->values[number];
  v = resized(e, v, e->p->registers[number].bits, s->type->kind & SINT);
  if (s->guard >= 0 && old)
    v = s->unless ? x_select(e->x, e->values[s->guard], old, v) : x_select(e->x, e->values[s->guard], v, old);
  e->values[number] = v;
}

/// All operands by lanes: words as a whole, predicates, and lanes of the type.
static void emit_lanes(emitter *e, const ptx_step *s) {
  ir_value *results[MAX_LANES], *v[MAX_SOURCES];
  KILN_ASSERT(s->type->lanes > 0);
  for (unsigned i = 0; i < s->type->lanes; i++) {
    for (unsigned j = 1; j < s->count; j++) {
      char letter = s->row->operands[j];
      if (letter == 's') v[j - 1] = lane(e, source(e, s, j, s->type->bits), s->type, i);
      else if (letter == 'S') v[j - 1] = source(e, s, j, 2u * s->type->bits);
      else if (letter == 'u') v[j - 1] = source(e, s, j, 32);
      else if (letter == 'p') v[j - 1] = e->values[s->operands[j].registers[0]];
      else v[j - 1] = NULL;
      if (!v[j - 1] && letter != 'n') return; // the builder has the error
    }
    results[i] = meanings[s->row->meaning](e, s, v);
    if (!results[i]) return;
  }
  const ptx_operand *to = &s->operands[0];
  if (s->row->meaning != PTX_COMPARE) put(e, s, to->registers[0], joined(e, results, s->type->lanes));
  else
    for (unsigned i = 0; i < to->count; i++)
      put(e, s, to->registers[i], i < s->type->lanes ? results[i] : complement(e, results[0]));
}

static void emit_move(emitter *e, const ptx_step *s) {
  const ptx_operand *to = &s->operands[0], *from = &s->operands[1];
  ir_value *parts[PTX_MAX_PARTS], *v;
  if (from->kind == PTX_SPECIAL) {
    v = e->special(e->x, (ptx_special)from->bits, s->type->bits);
    if (v && e->shape.rank) v = ir_splat(&e->x->b, v, ir_with_element(e->shape, v->type));
  } else if (from->kind == PTX_NUMBER) {
    v = number(e, from, s->type->bits, s->type);
  } else {
    for (unsigned i = 0; i < from->count; i++) parts[i] = e->values[from->registers[i]];
    v = from->count == 1 ? parts[0] : joined(e, parts, from->count);
  }
  for (unsigned i = 0; v && i < to->count; i++) {
    unsigned width = ir_type_bits(v->type) / to->count;
    put(e, s, to->registers[i],
        resized(e, i ? x_opi(e->x, IR_SHR, v, (uint64_t)i * width) : v, width, false));
  }
}

void kiln_ptx_emit(expanding *x, const ptx_program *p, ir_type shape, ptx_special_value *special,
                   ir_value **values) {
  emitter e = {x, p, shape, special, values};
  for (unsigned i = 0; i < p->step_count && x->b.error.status == KILN_OK; i++) {
    const ptx_step *s = &p->steps[i];
    if (s->row->meaning == PTX_MOVE) emit_move(&e, s);
    else if (s->row->meaning == PTX_CONVERT) put(&e, s, s->operands[0].registers[0], convert(&e, s));
    else emit_lanes(&e, s);
  }
}
