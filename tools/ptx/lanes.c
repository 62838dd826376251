// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs instructions through which lanes see each other's registers. The scheduler has brought their members
// together: x->mask has all of them. They order no memory; only bar.warp.sync does.
#include "tools/ptx/handlers.h"

// Where a shuffle's lane reads; false: outside of its segment, the lane keeps its own.
static bool shuffle_source(ptx_word mode, uint32_t lane, uint32_t b, uint32_t c, uint32_t *out) {
  uint32_t bound = c & 31, segment = c >> 8 & 31;
  uint32_t most = (lane & segment) | (bound & ~segment), least = lane & segment;
  uint32_t by = b & 31;
  switch (mode) {
  case WORD_up: return *out = lane - by, (int32_t)(lane - by) >= (int32_t)most;
  case WORD_down: return *out = lane + by, lane + by <= most;
  case WORD_bfly: return *out = lane ^ by, (lane ^ by) <= most;
  default: return *out = least | (by & ~segment), *out <= most;
  }
}

void ptx_do_shfl(ptx_exec *x) {
  const ptx_operand *o = x->i->operands;
  uint64_t ab[PTX_LANES], bb[PTX_LANES], cb[PTX_LANES], copy[PTX_LANES];
  uint8_t defined[PTX_LANES];
  uint32_t ignored = ~0u;
  ptx_operand predicate = {.kind = o[0].second >= 0 ? OPERAND_REGISTER : OPERAND_SINK, .index = o[0].second};
  const uint64_t *a = ptx_source(x, &o[1], ab, &ignored), *b = ptx_decider(x, &o[2], bb, "the lane to read"),
                 *c = ptx_decider(x, &o[3], cb, "the bounds");
  for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
    copy[lane] = a[lane];
    defined[lane] = ptx_defined_bytes(x, &o[1], lane);
  }
  PTX_EACH_LANE(lane, x->mask) {
    uint32_t from = lane;
    bool is_inside = shuffle_source(x->i->words[0], lane, (uint32_t)b[lane], (uint32_t)c[lane], &from);
    if (!is_inside) from = lane;
    // A lane that does not take part, or has ended, gives no defined value.
    ptx_write_parts(x, &o[0], lane, copy[from], x->mask >> from & 1 ? defined[from] : 0);
    ptx_write(x, &predicate, lane, is_inside, true);
  }
}

void ptx_do_vote(ptx_exec *x) {
  const ptx_operand *o = x->i->operands;
  uint64_t buffer[PTX_LANES];
  const uint64_t *v = ptx_decider(x, &o[1], buffer, "the predicate");
  uint32_t ballot = 0;
  PTX_EACH_LANE(lane, x->mask) ballot |= (uint32_t)(v[lane] & 1) << lane;
  ptx_word mode = x->i->words[0];
  uint64_t result = mode == WORD_ballot ? ballot
                    : mode == WORD_all  ? ballot == x->mask
                    : mode == WORD_any  ? ballot != 0
                                        : ballot == 0 || ballot == x->mask;
  PTX_EACH_LANE(lane, x->mask) ptx_write(x, &o[0], lane, result, true);
}

void ptx_do_match(ptx_exec *x) {
  const ptx_operand *o = x->i->operands;
  uint64_t buffer[PTX_LANES], copy[PTX_LANES];
  const uint64_t *v = ptx_decider(x, &o[1], buffer, "the value");
  ptx_operand predicate = {.kind = o[0].second >= 0 ? OPERAND_REGISTER : OPERAND_SINK, .index = o[0].second};
  for (uint32_t lane = 0; lane < PTX_LANES; lane++) copy[lane] = v[lane];
  PTX_EACH_LANE(lane, x->mask) {
    uint32_t same = 0;
    PTX_EACH_LANE(other, x->mask) same |= (uint32_t)(copy[other] == copy[lane]) << other;
    bool is_all = same == x->mask;
    ptx_write(x, &o[0], lane, x->i->words[0] == WORD_all ? (is_all ? x->mask : 0) : same, true);
    ptx_write(x, &predicate, lane, is_all, true);
  }
}

void ptx_do_redux(ptx_exec *x) {
  const ptx_operand *o = x->i->operands;
  uint64_t buffer[PTX_LANES], result = 0;
  const uint64_t *v = ptx_decider(x, &o[1], buffer, "the value");
  bool is_first = true, is_signed = ptx_types[x->i->types[0]].kind == PTX_CLASS_SIGNED;
  PTX_EACH_LANE(lane, x->mask) {
    uint64_t b = is_signed ? (uint64_t)(int64_t)(int32_t)v[lane] : v[lane] & 0xffffffff;
    bool is_less = is_signed ? (int64_t)b < (int64_t)result : b < result;
    switch (is_first ? WORD_exch : x->i->words[0]) {
    case WORD_exch: result = b; break;
    case WORD_add: result += b; break;
    case WORD_and: result &= b; break;
    case WORD_or: result |= b; break;
    case WORD_xor: result ^= b; break;
    case WORD_min: result = is_less ? b : result; break;
    case WORD_max: result = is_less ? result : b; break;
    default: ptx_find(x->run, PTX_UNKNOWN, "the operation is not modelled");
    }
    is_first = false;
  }
  PTX_EACH_LANE(lane, x->mask) ptx_write(x, &o[0], lane, result, true);
}

void ptx_do_activemask(ptx_exec *x) {
  PTX_EACH_LANE(lane, x->mask) ptx_write(x, &x->i->operands[0], lane, x->mask, true);
}

// elect.sync d|p, mask: one of the members is the leader; here the first.
void ptx_do_elect(ptx_exec *x) {
  const ptx_operand *o = x->i->operands;
  ptx_operand predicate = {.kind = o[0].second >= 0 ? OPERAND_REGISTER : OPERAND_SINK, .index = o[0].second};
  uint32_t leader = (uint32_t)__builtin_ctz(x->mask);
  PTX_EACH_LANE(lane, x->mask) {
    ptx_write(x, &o[0], lane, leader, true);
    ptx_write(x, &predicate, lane, lane == leader, true);
  }
}
