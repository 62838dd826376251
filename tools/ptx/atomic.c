// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs atomic operations and fences: atom, red and fence.
#include <string.h>

#include "tools/ptx/handlers.h"

static uint64_t combine_integer(ptx_type type, ptx_word word, uint64_t old, uint64_t b, uint64_t c) {
  uint32_t bits = ptx_bits(type);
  bool is_signed = ptx_types[type].kind == PTX_CLASS_SIGNED;
  int64_t so = (int64_t)(old << (64 - bits)) >> (64 - bits), sb = (int64_t)(b << (64 - bits)) >> (64 - bits);
  bool is_less = is_signed ? sb < so : b < old;
  switch (word) {
  case WORD_add: return old + b;
  case WORD_and: return old & b;
  case WORD_or: return old | b;
  case WORD_xor: return old ^ b;
  case WORD_min: return is_less ? b : old;
  case WORD_max: return is_less ? old : b;
  case WORD_inc: return old >= b ? 0 : old + 1;
  case WORD_dec: return old == 0 || old > b ? b : old - 1;
  case WORD_exch: return b;
  case WORD_cas: return old == b ? c : old;
  default: return old;
  }
}

static uint64_t combine_float(ptx_type type, ptx_word word, uint64_t old, uint64_t b) {
  ptx_type part = ptx_half_type(type);
  if (part != type)
    return combine_float(part, word, old & 0xffff, b & 0xffff) | combine_float(part, word, old >> 16, b >> 16)
                                                                     << 16;
  return word == WORD_add ? ptx_float_add(type, old, b, ROUND_N)
                          : ptx_float_extreme(type, old, b, word == WORD_max, false);
}

static bool is_known(const ptx_instruction *i, ptx_word word) {
  ptx_class kind = ptx_types[i->types[0]].kind;
  if (kind == PTX_CLASS_FLOAT || kind == PTX_CLASS_PAIR)
    return word == WORD_add || word == WORD_min || word == WORD_max;
  return word >= WORD_add && word <= WORD_xor;
}

// Element k of a vector, or the operand itself.
static const ptx_operand *element_of(const ptx_operand *o, uint32_t k) {
  return o && o->kind == OPERAND_VECTOR ? &o->items[k] : o;
}

// Element k, one lane after another in a random order: atomics of different threads have none, nor have those
// of a vector.
static bool run_element(ptx_exec *x, const uint64_t *addresses, uint32_t k, const ptx_operand *to,
                        const ptx_operand *address, const ptx_operand *b, const ptx_operand *c) {
  const ptx_instruction *i = x->i;
  ptx_word word = i->words[0];
  uint32_t size = ptx_bits(i->types[0]) / 8, turn = (uint32_t)ptx_random(x->run) % PTX_LANES;
  ptx_class kind = ptx_types[i->types[0]].kind;
  uint64_t bb[PTX_LANES], cb[PTX_LANES];
  const uint64_t *vb = ptx_decider(x, b, bb, "what an atomic operation writes"),
                 *vc = c ? ptx_decider(x, c, cb, "what an atomic operation writes") : vb;
  ptx_order order = i->order ? i->order : ORDER_RELAXED;
  for (uint32_t n = 0; n < PTX_LANES; n++) {
    uint32_t lane = (n + turn) % PTX_LANES, thread = ptx_thread_of(x, lane);
    if (!(x->mask >> lane & 1)) continue;
    uint32_t whole = size * (i->vector ? i->vector : 1);
    ptx_place at =
        ptx_locate(x, lane, address->space ? address->space : i->space, addresses[lane], whole, whole);
    if (!at.region) return false;
    at.offset += (uint64_t)k * size;
    uint64_t old = 0;
    ptx_race_write(x->run, x->block, thread, at.region, at.offset, size, true, NULL);
    ptx_race_atomic(x->run, x->block, thread, ptx_location_of(at), order, i->scope, true, true);
    memcpy(&old, at.region->bytes + at.offset, size);
    uint8_t lacks = 0;
    for (uint32_t j = 0; at.region->defined && j < size; j++) lacks |= !at.region->defined[at.offset + j];
    if (lacks && word != WORD_exch)
      ptx_find(x->run, PTX_UNDEFINED, "%s combines with memory that is undefined", ptx_who(x->block, thread));
    uint64_t value = kind == PTX_CLASS_FLOAT || kind == PTX_CLASS_PAIR
                         ? combine_float(i->types[0], word, old, vb[lane])
                         : combine_integer(i->types[0], word, old, vb[lane], vc[lane]);
    memcpy(at.region->bytes + at.offset, &value, size);
    if (at.region->defined) memset(at.region->defined + at.offset, 1, size);
    if (to) ptx_write(x, to, lane, old, !lacks);
  }
  return true;
}

static void run_atomic(ptx_exec *x, const ptx_operand *to, const ptx_operand *address, const ptx_operand *b,
                       const ptx_operand *c) {
  const ptx_instruction *i = x->i;
  uint64_t addresses[PTX_LANES];
  bool is_float = ptx_types[i->types[0]].kind == PTX_CLASS_FLOAT;
  if (!is_known(i, i->words[0]) || (i->vector && !(is_float && i->words[0] == WORD_add)))
    ptx_find(x->run, PTX_UNKNOWN, "the operation is not modelled");
  ptx_addresses(x, address, addresses);
  for (uint32_t k = 0; k < (i->vector ? i->vector : 1u); k++)
    if (!run_element(x, addresses, k, element_of(to, k), address, element_of(b, k), c)) return;
}

void ptx_do_atom(ptx_exec *x) {
  const ptx_operand *o = x->i->operands;
  run_atomic(x, &o[0], &o[1], &o[2], x->i->words[0] == WORD_cas ? &o[3] : NULL);
}

void ptx_do_red(ptx_exec *x) { run_atomic(x, NULL, &x->i->operands[0], &x->i->operands[1], NULL); }

void ptx_do_fence(ptx_exec *x) {
  bool is_proxy = ptx_has_word(x->i, WORD_proxy);
  if (is_proxy && !ptx_has_word(x->i, WORD_async))
    ptx_find(x->run, PTX_UNKNOWN, "this fence between proxies is not modelled");
  bool is_init = ptx_has_word(x->i, WORD_mbarrier_init);
  PTX_EACH_LANE(lane, x->mask)
  (is_proxy  ? ptx_race_proxy_fence
   : is_init ? ptx_race_init_fence
             : ptx_race_fence)(x->run, x->block, ptx_thread_of(x, lane));
}
