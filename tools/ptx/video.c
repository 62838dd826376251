// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the video instructions: integers of parts of registers, one (vadd), two (vadd2) or four (vadd4) at a time.
#include <string.h>

#include "tools/ptx/handlers.h"

typedef enum video {
  VIDEO_ADD,
  VIDEO_SUB,
  VIDEO_AVRG,
  VIDEO_ABSDIFF,
  VIDEO_MIN,
  VIDEO_MAX,
  VIDEO_SET,
  VIDEO_SHL,
  VIDEO_SHR
} video;

static bool is_signed(ptx_type type) { return ptx_types[type].kind == PTX_CLASS_SIGNED; }

static int64_t extended(uint64_t v, uint32_t bits, bool with_sign) {
  v &= ptx_mask_bits(bits);
  return with_sign ? (int64_t)(v << (64 - bits)) >> (64 - bits) : (int64_t)v;
}

static int64_t clamped(int64_t v, uint32_t bits, bool with_sign) {
  const int64_t most = (int64_t)ptx_mask_bits(with_sign ? bits - 1 : bits), least = with_sign ? -most - 1 : 0;
  return v < least ? least : v > most ? most : v;
}

/// Of vset there is no type of the result, which is u32.
static ptx_type type_of(const ptx_instruction *i, uint32_t operand) {
  if (i->type_count == 3) return i->types[operand];
  return operand ? i->types[operand - 1] : PTX_TYPE_u32;
}

static int64_t compute(video what, const ptx_instruction *i, int64_t a, int64_t b) {
  switch (what) {
  case VIDEO_ADD: return a + b;
  case VIDEO_SUB: return a - b;
  case VIDEO_AVRG: return (a + b + (a + b >= 0)) >> 1;
  case VIDEO_ABSDIFF: return a < b ? b - a : a - b;
  case VIDEO_MIN: return a < b ? a : b;
  case VIDEO_MAX: return a > b ? a : b;
  case VIDEO_SHL:
  case VIDEO_SHR: {
    const int64_t by = ptx_has_word(i, WORD_wrap) ? b & 31 : b > 32 ? 32 : b;
    return what == VIDEO_SHL ? (int64_t)((uint64_t)a << by) : a >> by;
  }
  case VIDEO_SET: break;
  }
  switch (i->compare) {
  case COMPARE_EQ: return a == b;
  case COMPARE_NE: return a != b;
  case COMPARE_LT: return a < b;
  case COMPARE_LE: return a <= b;
  case COMPARE_GT: return a > b;
  default: return a >= b;
  }
}

/// Width of a part `b2` or `h1`, and its lowest bit; the whole register without one.
static uint32_t part_of(const ptx_operand *o, uint32_t *out_at) {
  const uint32_t bits = !*o->part ? 32 : *o->part == 'b' ? 8 : 16;
  *out_at = *o->part ? bits * (uint32_t)(o->part[1] - '0') : 0;
  return bits;
}

static int64_t selected(const ptx_instruction *i, uint32_t operand, uint64_t v) {
  uint32_t at, bits = part_of(&i->operands[operand], &at);
  return extended(v >> at, bits, is_signed(type_of(i, operand)));
}

static uint64_t scalar(video what, const ptx_instruction *i, const uint64_t *s) {
  const bool with_sign = is_signed(type_of(i, 0));
  uint32_t at, bits = part_of(&i->operands[0], &at);
  int64_t v = compute(what, i, selected(i, 1, s[0]), selected(i, 2, s[1]));
  if (i->sat) v = clamped(v, bits, with_sign);
  if (i->operand_count < 4) return (uint64_t)v & 0xffffffff;
  const int64_t c = extended(s[2], 32, with_sign), t = extended((uint64_t)v, 32, with_sign);
  if (ptx_has_word(i, WORD_add)) v += c;
  else if (ptx_has_word(i, WORD_min)) v = t < c ? t : c;
  else if (ptx_has_word(i, WORD_max)) v = t > c ? t : c;
  const uint64_t mask = ptx_mask_bits(bits) << at;
  return (((uint64_t)v << at & mask) | (s[2] & ~mask)) & 0xffffffff;
}

/// `h10` or `b3210` as bits, all of `count` where none is named.
static uint32_t mask_of(const ptx_operand *o, uint32_t count) {
  uint32_t mask = 0;
  if (!*o->part) return (1u << count) - 1;
  for (const char *p = o->part + 1; *p; p++) mask |= 1u << (*p - '0');
  return mask;
}

/// Element `k` of those that the operand selects from b:a; the first digit names the highest.
static int64_t lane_of(const ptx_instruction *i, uint32_t operand, uint32_t count, uint32_t k,
                       uint64_t both) {
  const char *part = i->operands[operand].part;
  const uint32_t bits = 32 / count,
                 from = *part ? (uint32_t)(part[count - k] - '0') : k + (operand == 2 ? count : 0);
  return extended(both >> from * bits, bits, is_signed(type_of(i, operand)));
}

static uint64_t parallel(video what, uint32_t count, const ptx_instruction *i, const uint64_t *s) {
  const uint64_t both = s[1] << 32 | (s[0] & 0xffffffff);
  const uint32_t bits = 32 / count, mask = mask_of(&i->operands[0], count);
  const bool adds = ptx_has_word(i, WORD_add);
  uint64_t result = adds ? s[2] : 0;
  for (uint32_t k = 0; k < count; k++) {
    const uint32_t at = k * bits;
    const uint64_t lane = ptx_mask_bits(bits) << at;
    int64_t v = compute(what, i, lane_of(i, 1, count, k, both), lane_of(i, 2, count, k, both));
    if (i->sat) v = clamped(v, bits, is_signed(type_of(i, 0)));
    if (!adds) result |= mask >> k & 1 ? (uint64_t)v << at & lane : s[2] & lane;
    else if (mask >> k & 1) result += (uint64_t)v;
  }
  return result & 0xffffffff;
}

#define SCALAR(name, what) \
  uint64_t ptx_##name(const ptx_instruction *i, const uint64_t *s) { return scalar(what, i, s); }
#define PARALLEL(name, what)                                                                              \
  uint64_t ptx_##name##2(const ptx_instruction *i, const uint64_t *s) { return parallel(what, 2, i, s); } \
  uint64_t ptx_##name##4(const ptx_instruction *i, const uint64_t *s) { return parallel(what, 4, i, s); }
SCALAR(vadd, VIDEO_ADD)
SCALAR(vsub, VIDEO_SUB)
SCALAR(vabsdiff, VIDEO_ABSDIFF)
SCALAR(vmin, VIDEO_MIN)
SCALAR(vmax, VIDEO_MAX)
SCALAR(vset, VIDEO_SET)
SCALAR(vshl, VIDEO_SHL)
SCALAR(vshr, VIDEO_SHR)
PARALLEL(vadd, VIDEO_ADD)
PARALLEL(vsub, VIDEO_SUB)
PARALLEL(vavrg, VIDEO_AVRG)
PARALLEL(vabsdiff, VIDEO_ABSDIFF)
PARALLEL(vmin, VIDEO_MIN)
PARALLEL(vmax, VIDEO_MAX)
PARALLEL(vset, VIDEO_SET)

/// Whether a part is one of a scalar instruction, a mask of `count`, or a selection of `count` out of twice as many.
static bool part_is_right(const char *part, uint32_t count, bool is_mask) {
  const size_t length = strlen(part);
  if (!length) return true;
  if (count == 1)
    return length == 2 && part[1] >= '0' &&
           ((*part == 'b' && part[1] <= '3') || (*part == 'h' && part[1] <= '1'));
  if (*part != (count == 2 ? 'h' : 'b') || length < 2 || (!is_mask && length != count + 1)) return false;
  const char limit = (char)('0' + (is_mask ? count : 2 * count));
  for (const char *p = part + 1; *p; p++)
    if (*p < '0' || *p >= limit || (is_mask && p > part + 1 && *p >= p[-1])) return false;
  return true;
}

bool ptx_video_is_right(const ptx_instruction *i) {
  const char last = i->op->name[strlen(i->op->name) - 1];
  const uint32_t count = last == '2' ? 2 : last == '4' ? 4 : 1;
  const bool is_set = i->op->groups & M_COMPARE,
             is_shift = i->op->element == ptx_vshl || i->op->element == ptx_vshr;
  bool is_fine = i->type_count == (is_set ? 2u : 3u) && i->word_count <= 1 + is_shift;
  for (uint32_t k = 0; k < i->type_count; k++)
    is_fine = is_fine && (i->types[k] == PTX_TYPE_u32 || i->types[k] == PTX_TYPE_s32);
  if (is_shift)
    is_fine =
        is_fine && i->types[2] == PTX_TYPE_u32 && (ptx_has_word(i, WORD_clamp) != ptx_has_word(i, WORD_wrap));
  is_fine = is_fine && (!is_set || (i->compare >= COMPARE_EQ && i->compare <= COMPARE_GE));
  for (uint32_t k = 0; k < i->operand_count; k++)
    is_fine = is_fine && (k == 3 ? !*i->operands[k].part : part_is_right(i->operands[k].part, count, k == 0));
  const bool has_second = ptx_has_word(i, WORD_add) || ptx_has_word(i, WORD_min) || ptx_has_word(i, WORD_max),
             merges = *i->operands[0].part != 0;
  if (count > 1) return is_fine && i->operand_count == 4 && (!i->word_count || ptx_has_word(i, WORD_add));
  return is_fine && !(has_second && merges) && (i->operand_count == 4) == (has_second || merges);
}
