// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs operations on integers and bits, lane by lane. Sources are bits of the type's width; whoever writes
// a result cuts it to the width of the register. Opcodes that have float forms hand those to float.c.
#include "tools/ptx/float.h"

static bool is_float(const ptx_instruction *i) {
  ptx_class kind = ptx_types[i->types[0]].kind;
  return kind == PTX_CLASS_FLOAT || kind == PTX_CLASS_PAIR;
}

static uint32_t width(const ptx_instruction *i) { return ptx_bits(i->types[0]); }

static bool is_signed(const ptx_instruction *i) { return ptx_types[i->types[0]].kind == PTX_CLASS_SIGNED; }

static int64_t extend(uint64_t v, uint32_t bits) { return (int64_t)(v << (64 - bits)) >> (64 - bits); }

static uint64_t cut(const ptx_instruction *i, uint64_t v) { return v & ptx_mask_bits(width(i)); }

// A source as a number of 128 bits by the type's sign.
static __int128 number(const ptx_instruction *i, uint64_t v) {
  return is_signed(i) ? (__int128)extend(v, width(i)) : (__int128)cut(i, v);
}

// .sat is of s32 only.
static uint64_t saturate(const ptx_instruction *i, __int128 v) {
  if (!i->sat) return (uint64_t)v;
  return v > INT32_MAX ? (uint64_t)INT32_MAX : v < INT32_MIN ? (uint64_t)INT32_MIN : (uint64_t)v;
}

typedef uint64_t operation(const ptx_instruction *i, const uint64_t *s);

static bool is_integers(const ptx_instruction *i) {
  return ptx_types[i->types[0]].kind == PTX_CLASS_INTEGERS;
}

// Of two integers in one register, each by itself.
static uint64_t both(const ptx_instruction *i, const uint64_t *s, operation *one) {
  ptx_instruction half = *i;
  uint64_t result = 0;
  half.types[0] = i->types[0] == PTX_TYPE_s16x2 ? PTX_TYPE_s16 : PTX_TYPE_u16;
  for (uint32_t at = 0; at < 32; at += 16)
    result |= cut(&half, one(&half, (uint64_t[]){s[0] >> at & 0xffff, s[1] >> at & 0xffff})) << at;
  return result;
}

uint64_t ptx_add(const ptx_instruction *i, const uint64_t *s) {
  if (is_integers(i)) return both(i, s, ptx_add);
  return is_float(i) ? ptx_float_operation(i, FLOAT_ADD, s) : saturate(i, number(i, s[0]) + number(i, s[1]));
}

uint64_t ptx_sub(const ptx_instruction *i, const uint64_t *s) {
  return is_float(i) ? ptx_float_operation(i, FLOAT_SUB, s) : saturate(i, number(i, s[0]) - number(i, s[1]));
}

static unsigned __int128 product(const ptx_instruction *i, uint64_t a, uint64_t b) {
  return (unsigned __int128)number(i, a) * (unsigned __int128)number(i, b);
}

uint64_t ptx_mul(const ptx_instruction *i, const uint64_t *s) {
  if (is_float(i)) return ptx_float_operation(i, FLOAT_MUL, s);
  return (uint64_t)(product(i, s[0], s[1]) >> (i->half == HALF_HI ? width(i) : 0));
}

uint64_t ptx_mad(const ptx_instruction *i, const uint64_t *s) {
  if (is_float(i)) return ptx_float_operation(i, FLOAT_FMA, s);
  uint64_t part = (uint64_t)(product(i, s[0], s[1]) >> (i->half == HALF_HI ? width(i) : 0));
  if (i->sat) return saturate(i, (__int128)extend(part, width(i)) + extend(s[2], width(i)));
  return part + s[2];
}

uint64_t ptx_mul24(const ptx_instruction *i, const uint64_t *s) {
  int64_t a = is_signed(i) ? extend(s[0], 24) : (int64_t)(s[0] & 0xffffff),
          b = is_signed(i) ? extend(s[1], 24) : (int64_t)(s[1] & 0xffffff);
  return (uint64_t)(a * b) >> (i->half == HALF_HI ? 16 : 0);
}

// What a division by zero yields is not specified; all bits set is what machines give.
uint64_t ptx_div(const ptx_instruction *i, const uint64_t *s) {
  if (is_float(i)) return ptx_float_operation(i, FLOAT_DIV, s);
  __int128 a = number(i, s[0]), b = number(i, s[1]);
  return b ? (uint64_t)(a / b) : ~0ull;
}

uint64_t ptx_rem(const ptx_instruction *i, const uint64_t *s) {
  __int128 a = number(i, s[0]), b = number(i, s[1]);
  return b ? (uint64_t)(a % b) : s[0];
}

uint64_t ptx_abs(const ptx_instruction *i, const uint64_t *s) {
  if (is_float(i)) return ptx_float_operation(i, FLOAT_ABS, s);
  int64_t v = extend(s[0], width(i));
  return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

uint64_t ptx_neg(const ptx_instruction *i, const uint64_t *s) {
  return is_float(i) ? ptx_float_operation(i, FLOAT_NEG, s) : 0 - s[0];
}

static uint64_t relu(const ptx_instruction *i, uint64_t v) { return i->is_relu && number(i, v) < 0 ? 0 : v; }

uint64_t ptx_min(const ptx_instruction *i, const uint64_t *s) {
  if (is_integers(i)) return both(i, s, ptx_min);
  if (is_float(i)) return ptx_float_operation(i, FLOAT_MIN, s);
  return relu(i, number(i, s[0]) < number(i, s[1]) ? s[0] : s[1]);
}

uint64_t ptx_max(const ptx_instruction *i, const uint64_t *s) {
  if (is_integers(i)) return both(i, s, ptx_max);
  if (is_float(i)) return ptx_float_operation(i, FLOAT_MAX, s);
  return relu(i, number(i, s[0]) > number(i, s[1]) ? s[0] : s[1]);
}

uint64_t ptx_sad(const ptx_instruction *i, const uint64_t *s) {
  __int128 a = number(i, s[0]), b = number(i, s[1]);
  return s[2] + (uint64_t)(a < b ? b - a : a - b);
}

uint64_t ptx_and(const ptx_instruction *i, const uint64_t *s) { return (void)i, s[0] & s[1]; }
uint64_t ptx_or(const ptx_instruction *i, const uint64_t *s) { return (void)i, s[0] | s[1]; }
uint64_t ptx_xor(const ptx_instruction *i, const uint64_t *s) { return (void)i, s[0] ^ s[1]; }
uint64_t ptx_not(const ptx_instruction *i, const uint64_t *s) { return cut(i, ~s[0]); }
uint64_t ptx_cnot(const ptx_instruction *i, const uint64_t *s) { return cut(i, s[0]) == 0; }

uint64_t ptx_lop3(const ptx_instruction *i, const uint64_t *s) {
  uint64_t result = 0;
  for (uint32_t bit = 0; bit < width(i); bit++) {
    uint64_t row = (s[0] >> bit & 1) << 2 | (s[1] >> bit & 1) << 1 | (s[2] >> bit & 1);
    result |= (s[3] >> row & 1) << bit;
  }
  return result;
}

// Shifts by the width or more are as shifts by the width.
uint64_t ptx_shl(const ptx_instruction *i, const uint64_t *s) {
  return (s[1] & 0xffffffff) >= width(i) ? 0 : s[0] << s[1];
}

uint64_t ptx_shr(const ptx_instruction *i, const uint64_t *s) {
  uint64_t by = s[1] & 0xffffffff;
  if (is_signed(i)) return (uint64_t)(extend(s[0], width(i)) >> (by >= width(i) ? width(i) - 1 : by));
  return by >= width(i) ? 0 : cut(i, s[0]) >> by;
}

// shf.l: the upper word of {s1:s0} << n; shf.r: the lower word of {s1:s0} >> n.
uint64_t ptx_shf(const ptx_instruction *i, const uint64_t *s) {
  uint64_t both = s[1] << 32 | (s[0] & 0xffffffff), by = s[2] & 0xffffffff;
  if (i->words[1] == WORD_wrap) by &= 31;
  else if (by > 32) by = 32;
  return i->words[0] == WORD_l ? both << by >> 32 : both >> by & 0xffffffff;
}

uint64_t ptx_bfe(const ptx_instruction *i, const uint64_t *s) {
  uint32_t bits = width(i), at = s[1] & 0xff, length = s[2] & 0xff, last = at + length - 1;
  if (!length) return 0;
  bool sign = is_signed(i) && s[0] >> (last < bits ? last : bits - 1) & 1;
  uint64_t field = at >= bits ? 0 : cut(i, s[0]) >> at & ptx_mask_bits(length);
  uint32_t there = at >= bits ? 0 : length < bits - at ? length : bits - at;
  return sign ? field | ~ptx_mask_bits(there) : field;
}

uint64_t ptx_bfi(const ptx_instruction *i, const uint64_t *s) {
  uint32_t at = s[2] & 0xff, length = s[3] & 0xff;
  if (at >= width(i) || !length) return s[1];
  uint64_t field = ptx_mask_bits(length) << at;
  return (s[1] & ~field) | (s[0] << at & field);
}

uint64_t ptx_prmt(const ptx_instruction *i, const uint64_t *s) {
  static const uint16_t modes[7][4] = {{0},
                                       {0x3210, 0x4321, 0x5432, 0x6543},
                                       {0x5670, 0x6701, 0x7012, 0x0123},
                                       {0x0000, 0x1111, 0x2222, 0x3333},
                                       {0x3210, 0x3211, 0x3222, 0x3333},
                                       {0x0000, 0x1110, 0x2210, 0x3210},
                                       {0x1010, 0x3232, 0x1010, 0x3232}};
  uint64_t both = s[1] << 32 | (s[0] & 0xffffffff), result = 0;
  uint32_t choice = i->mode ? modes[i->mode][s[2] & 3] : (uint32_t)s[2];
  for (uint32_t k = 0; k < 4; k++) {
    uint32_t nibble = choice >> 4 * k & 0xf;
    uint64_t byte = both >> 8 * (nibble & 7) & 0xff;
    if (nibble & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << 8 * k;
  }
  return result;
}

uint64_t ptx_popc(const ptx_instruction *i, const uint64_t *s) {
  return (uint64_t)__builtin_popcountll(cut(i, s[0]));
}

uint64_t ptx_clz(const ptx_instruction *i, const uint64_t *s) {
  uint64_t v = cut(i, s[0]);
  return v ? (uint64_t)__builtin_clzll(v) - (64 - width(i)) : width(i);
}

uint64_t ptx_brev(const ptx_instruction *i, const uint64_t *s) {
  uint64_t result = 0;
  for (uint32_t bit = 0; bit < width(i); bit++) result |= (s[0] >> bit & 1) << (width(i) - 1 - bit);
  return result;
}

uint64_t ptx_bfind(const ptx_instruction *i, const uint64_t *s) {
  uint64_t v = cut(i, s[0]);
  if (is_signed(i) && v >> (width(i) - 1)) v = cut(i, ~v);
  if (!v) return 0xffffffff;
  uint64_t at = 63 - (uint64_t)__builtin_clzll(v);
  return i->words[0] == WORD_shiftamt ? width(i) - 1 - at : at;
}

uint64_t ptx_dp4a(const ptx_instruction *i, const uint64_t *s) {
  bool signs[2] = {is_signed(i), ptx_types[i->types[i->type_count > 1]].kind == PTX_CLASS_SIGNED};
  int64_t sum = (int64_t)s[2];
  for (uint32_t k = 0; k < 4; k++) {
    int64_t a = signs[0] ? extend(s[0] >> 8 * k, 8) : (int64_t)(s[0] >> 8 * k & 0xff);
    sum += a * (signs[1] ? extend(s[1] >> 8 * k, 8) : (int64_t)(s[1] >> 8 * k & 0xff));
  }
  return (uint64_t)sum;
}

uint64_t ptx_selp(const ptx_instruction *i, const uint64_t *s) { return (void)i, s[2] ? s[0] : s[1]; }

uint64_t ptx_slct(const ptx_instruction *i, const uint64_t *s) {
  bool is_number = ptx_types[i->types[1]].kind != PTX_CLASS_FLOAT;
  return (is_number ? extend(s[2], 32) >= 0 : ptx_float_unpack(i->types[1], s[2]) >= 0) ? s[0] : s[1];
}

/// Whether a comparison of two values of a type holds.
bool ptx_compare_values(ptx_type type, ptx_compare how, uint64_t a, uint64_t b, bool ftz) {
  if (ptx_types[type].kind == PTX_CLASS_FLOAT) return ptx_float_compare(type, how, a, b, ftz);
  ptx_instruction i = {.types = {type}};
  __int128 x = number(&i, a), y = number(&i, b);
  switch (how) {
  case COMPARE_EQ: return x == y;
  case COMPARE_NE: return x != y;
  case COMPARE_LT: return x < y;
  case COMPARE_LE: return x <= y;
  case COMPARE_GT: return x > y;
  case COMPARE_GE: return x >= y;
  default: return false;
  }
}

// Of f16x2 and bf16x2 each half has a result, of 16 bits.
static uint64_t set_halves(const ptx_instruction *i, const uint64_t *s, ptx_type half) {
  ptx_type to = ptx_half_type(i->types[0]);
  bool is_float = ptx_types[to].kind == PTX_CLASS_FLOAT;
  uint64_t one = is_float ? ptx_float_pack(to, 1, ROUND_N, false) : 0xffff, result = 0;
  for (unsigned at = 0; at < 32; at += 16)
    if (ptx_compare_values(half, i->compare, s[0] >> at, s[1] >> at, i->ftz)) result |= one << at;
  return result;
}

uint64_t ptx_set(const ptx_instruction *i, const uint64_t *s) {
  ptx_type half = ptx_half_type(i->types[1]);
  if (half != i->types[1]) return set_halves(i, s, half);
  bool holds = ptx_compare_values(i->types[1], i->compare, s[0], s[1], i->ftz);
  if (ptx_types[i->types[0]].kind == PTX_CLASS_FLOAT)
    return holds ? ptx_float_pack(i->types[0], 1, ROUND_N, false) : 0;
  return holds ? ~0ull : 0;
}

// The condition code's carry of each lane: add.cc, addc, sub.cc, subc, mad.cc, madc.
void ptx_do_carry(ptx_exec *x) {
  const ptx_instruction *i = x->i;
  uint64_t buffers[3][PTX_LANES] = {{0}};
  const uint64_t *s[3] = {buffers[0], buffers[1], buffers[2]};
  uint32_t defined = ~0u, count = i->operand_count - 1;
  char kind = i->op->name[0];
  bool takes = i->op->name[3] == 'c';
  for (uint32_t k = 0; k < count; k++) s[k] = ptx_source(x, &i->operands[k + 1], buffers[k], &defined);
  PTX_EACH_LANE(lane, x->mask) {
    uint64_t in = takes ? x->warp->carry >> lane & 1 : 0, a = s[0][lane], b = s[1][lane];
    unsigned __int128 sum;
    if (kind == 'm')
      sum = (unsigned __int128)cut(i, (uint64_t)(product(i, a, b) >> (i->half == HALF_HI ? width(i) : 0))) +
            cut(i, s[2][lane]) + in;
    else if (kind == 's') sum = (unsigned __int128)cut(i, a) - cut(i, b) - in;
    else sum = (unsigned __int128)cut(i, a) + cut(i, b) + in;
    if (i->carries)
      x->warp->carry = (x->warp->carry & ~(1u << lane)) | (uint32_t)(sum >> width(i) & 1) << lane;
    ptx_write(x, &i->operands[0], lane, (uint64_t)sum, defined >> lane & 1);
  }
}
