// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs mov, setp and control flow.
#include "tools/ptx/float.h"

static uint32_t operand_bits(const ptx_exec *x, const ptx_operand *o) {
  return o->kind == OPERAND_REGISTER ? x->run->kernel->register_bits[o->index] : 0;
}

// mov.b64 d, {a, b}: the first is the lowest.
static void pack(ptx_exec *x, const ptx_operand *to, const ptx_operand *from) {
  uint32_t bits = ptx_bits(x->i->types[0]) / from->count;
  PTX_EACH_LANE(lane, x->mask) {
    uint64_t value = 0, buffer[PTX_LANES];
    uint8_t defined = 0;
    for (uint32_t k = 0; k < from->count; k++) {
      uint32_t ignored = ~0u;
      uint64_t part = ptx_source(x, &from->items[k], buffer, &ignored)[lane] & ptx_mask_bits(bits);
      value |= part << bits * k;
      defined |=
          (uint8_t)((ptx_defined_bytes(x, &from->items[k], lane) & ptx_mask_bits(bits / 8)) << bits / 8 * k);
    }
    ptx_write_parts(x, to, lane, value, defined);
  }
}

static void unpack(ptx_exec *x, const ptx_operand *to, const ptx_operand *from) {
  uint32_t bits = ptx_bits(x->i->types[0]) / to->count, ignored = ~0u;
  uint64_t buffer[PTX_LANES];
  const uint64_t *v = ptx_source(x, from, buffer, &ignored);
  PTX_EACH_LANE(lane, x->mask) {
    uint64_t value = v[lane];
    uint8_t defined = ptx_defined_bytes(x, from, lane);
    for (uint32_t k = 0; k < to->count; k++)
      ptx_write_parts(x, &to->items[k], lane, value >> bits * k & ptx_mask_bits(bits),
                      (uint8_t)(defined >> bits / 8 * k));
  }
}

void ptx_do_mov(ptx_exec *x) {
  const ptx_operand *to = &x->i->operands[0], *from = &x->i->operands[1];
  uint32_t bits = ptx_bits(x->i->types[0]), defined = ~0u;
  uint64_t buffer[PTX_LANES];
  uint32_t narrower = operand_bits(x, to);
  if (to->kind == OPERAND_VECTOR && from->kind != OPERAND_VECTOR) unpack(x, to, from);
  else if (from->kind == OPERAND_VECTOR) pack(x, to, from);
  else if ((narrower && narrower != bits) || (operand_bits(x, from) && operand_bits(x, from) != bits))
    ptx_find(x->run, PTX_UNKNOWN, "registers of another width");
  else {
    const uint64_t *v = ptx_source(x, from, buffer, &defined);
    PTX_EACH_LANE(lane, x->mask) ptx_write_parts(x, to, lane, v[lane], ptx_defined_bytes(x, from, lane));
  }
}

// setp.cmp.bool p|q, a, b, c: p = cmp op c, q = !cmp op c. Of f16x2 and bf16x2 p is of the lower half, q of the upper.
void ptx_do_setp(ptx_exec *x) {
  const ptx_instruction *i = x->i;
  const ptx_operand *to = &i->operands[0];
  const ptx_type type = ptx_half_type(i->types[0]);
  ptx_operand second = {.kind = to->second >= 0 ? OPERAND_REGISTER : OPERAND_SINK, .index = to->second};
  uint64_t ab[PTX_LANES], bb[PTX_LANES], cb[PTX_LANES];
  uint32_t defined = ~0u;
  const uint64_t *a = ptx_source(x, &i->operands[1], ab, &defined),
                 *b = ptx_source(x, &i->operands[2], bb, &defined);
  const uint64_t *c = i->operand_count > 3 ? ptx_source(x, &i->operands[3], cb, &defined) : NULL;
  PTX_EACH_LANE(lane, x->mask) {
    bool p = ptx_compare_values(type, i->compare, a[lane], b[lane], i->ftz),
         q = type == i->types[0] ? !p
                                 : ptx_compare_values(type, i->compare, a[lane] >> 16, b[lane] >> 16, i->ftz);
    bool with = c && c[lane];
    if (i->boolean == WORD_and) p &= with, q &= with;
    if (i->boolean == WORD_or) p |= with, q |= with;
    if (i->boolean == WORD_xor) p ^= with, q ^= with;
    ptx_write(x, to, lane, p, defined >> lane & 1);
    ptx_write(x, &second, lane, q, defined >> lane & 1);
  }
}

/// Lanes of a warp part here, some of them to `target`.
static void part(ptx_exec *x, uint32_t target) {
  const uint32_t loop = target < x->run->kernel->code_count ? x->run->kernel->code[target].loop : 0;
  if (loop) x->warp->apart = loop, x->warp->apart_line = x->i->line;
}

// The strand is at the next instruction already; lanes that do not branch stay there.
void ptx_do_bra(ptx_exec *x) {
  uint32_t target = (uint32_t)x->i->operands[0].index, stays = x->strand->mask & ~x->mask;
  if (stays) {
    part(x, target);
    ptx_strand_add(x->warp, x->strand->pc, stays);
  }
  x->strand->mask = x->mask;
  x->strand->pc = target;
}

// brx.idx: each lane to the target of its number.
void ptx_do_brx(ptx_exec *x) {
  const ptx_operand *list = &x->i->operands[1];
  uint64_t buffer[PTX_LANES];
  const uint64_t *index = ptx_decider(x, &x->i->operands[0], buffer, "the index of a branch");
  uint32_t left = x->mask, stays = x->strand->mask & ~x->mask;
  if (stays) ptx_strand_add(x->warp, x->strand->pc, stays);
  x->strand->mask = 0;
  while (left) {
    const uint64_t number = index[__builtin_ctz(left)];
    uint32_t same = 0;
    PTX_EACH_LANE(lane, left) same |= (uint32_t)(index[lane] == number) << lane;
    left &= ~same;
    if (number >= list->count)
      ptx_find(x->run, PTX_UNKNOWN, "brx.idx with %llu of %u targets", (unsigned long long)number,
               list->count);
    else if (left)
      part(x, (uint32_t)list->items[number].index),
          ptx_strand_add(x->warp, (uint32_t)list->items[number].index, same);
    else x->strand->mask = same, x->strand->pc = (uint32_t)list->items[number].index;
  }
}

void ptx_do_exit(ptx_exec *x) { ptx_exit_lanes(x, x->mask); }

// A launch that runs on its own has nothing to wait for; one that is dependent does (ptx_race_succeed).
void ptx_do_griddepcontrol(ptx_exec *x) {
  if (!ptx_has_word(x->i, WORD_wait)) return;
  PTX_EACH_LANE(lane, x->mask) ptx_race_after_predecessor(x->block, ptx_thread_of(x, lane));
}

void ptx_do_trap(ptx_exec *x) {
  ptx_find(x->run, PTX_UNKNOWN, "%s traps",
           ptx_who(x->block, ptx_thread_of(x, (uint32_t)__builtin_ctz(x->mask))));
}
