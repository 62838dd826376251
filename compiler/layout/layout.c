// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layouts: applying, making, and what shape operations do to them. Conversion and memory placement:
// layout_convert.c.
#include "compiler/layout/layout.h"

#include <string.h>

uint32_t layout_element(const kiln_layout *layout, uint32_t place) {
  uint32_t element = 0;
  for (unsigned i = 0, n = layout_places(layout); i < n; i++)
    if (place >> i & 1) element ^= layout->basis[i];
  return element;
}

bool layout_equal(const kiln_layout *a, const kiln_layout *b) {
  return a->bits == b->bits && a->registers == b->registers && a->lanes == b->lanes && a->warps == b->warps &&
         !memcmp(a->basis, b->basis, sizeof a->basis);
}

// A set of independent vectors in echelon form: row[b] has highest bit b, set[b] says of which pushed vectors
// it is made.
typedef struct echelon {
  uint32_t row[32], set[32];
} echelon;

/// Reduces `vector`; `set` collects what was used.
static uint32_t reduce(const echelon *e, uint32_t vector, uint32_t *set) {
  for (int b = 31; b >= 0; b--)
    if (vector >> b & 1 && e->row[b]) {
      vector ^= e->row[b];
      *set ^= e->set[b];
    }
  return vector;
}

/// False when the vector depends on those before.
static bool push(echelon *e, uint32_t vector, unsigned index) {
  KILN_ASSERT(index < 32); // a set has 32 bits
  uint32_t set = 1u << index, rest = reduce(e, vector, &set);
  if (!rest) return false;
  unsigned top = 31 - (unsigned)__builtin_clz(rest);
  e->row[top] = rest;
  e->set[top] = set;
  return true;
}

bool layout_solve(const uint32_t *vectors, unsigned count, uint32_t target, uint32_t *out_set) {
  echelon e = {0};
  for (unsigned i = 0; i < count; i++) push(&e, vectors[i], i);
  *out_set = 0;
  return reduce(&e, target, out_set) == 0;
}

bool layout_is_complete(const kiln_layout *layout) {
  echelon e = {0};
  unsigned rank = 0;
  for (unsigned i = 0; i < layout_places(layout); i++) rank += push(&e, layout->basis[i], i);
  return rank == layout->bits;
}

uint32_t layout_replicas(const kiln_layout *layout) {
  echelon e = {0};
  uint32_t mask = 0;
  for (unsigned i = 0; i < layout_places(layout); i++)
    if (!push(&e, layout->basis[i], i) && i >= layout->registers) mask |= 1u << (i - layout->registers);
  return mask;
}

void layout_normalise(kiln_layout *layout) {
  echelon e = {0};
  unsigned kept = 0, threads = layout_thread_bits(layout);
  for (unsigned i = 0; i < layout->registers; i++)
    if (push(&e, layout->basis[i], i)) layout->basis[kept++] = layout->basis[i];
  memmove(layout->basis + kept, layout->basis + layout->registers, threads * sizeof *layout->basis);
  memset(layout->basis + kept + threads, 0, (LAYOUT_MAX_PLACES - kept - threads) * sizeof *layout->basis);
  layout->registers = (uint8_t)kept;
}

int layout_register_of(const kiln_layout *layout, uint32_t element) {
  uint32_t set;
  return layout_solve(layout->basis, layout->registers, element, &set) ? (int)set : -1;
}

// ------------------------------------------------------------------------------------------ making

kiln_layout layout_whole(unsigned bits, unsigned lanes, unsigned warps) {
  kiln_layout l = {
      .bits = (uint8_t)bits, .registers = (uint8_t)bits, .lanes = (uint8_t)lanes, .warps = (uint8_t)warps};
  for (unsigned i = 0; i < bits; i++) l.basis[i] = 1u << i;
  return l;
}

unsigned layout_axis_shift(ir_type type, unsigned axis) {
  unsigned shift = 0;
  for (unsigned i = axis + 1; i < type.rank; i++) shift += type.log2[i];
  return shift;
}

uint32_t layout_axis_mask(ir_type type, unsigned axis) {
  KILN_ASSERT(axis < type.rank);
  return ((1u << type.log2[axis]) - 1) << layout_axis_shift(type, axis);
}

/// Element bits in the order in which threads take them: `axis` first, then the others from the last to the
/// first, those of the set `late` at the end.
static unsigned bit_order(ir_type type, unsigned axis, unsigned late, uint8_t out[LAYOUT_MAX_BITS]) {
  unsigned count = 0;
  for (unsigned step = 0; step <= 2u * type.rank; step++) {
    unsigned a = step ? type.rank - 1u - (step - 1u) % type.rank : axis;
    bool is_turn = step == 0 || (a != axis && (late >> a & 1) == (step > type.rank));
    if (type.rank == 0 || !is_turn) continue;
    unsigned shift = layout_axis_shift(type, a);
    for (unsigned j = 0; j < type.log2[a]; j++) out[count++] = (uint8_t)(shift + j);
  }
  return count;
}

/// Registers are `first` and `rest` bits, lanes and warps the bits given; missing ones are replicas.
static kiln_layout assemble(unsigned bits, const uint8_t *registers, unsigned register_count,
                            const uint8_t *lane_bits, unsigned lane_count, const uint8_t *warp_bits,
                            unsigned warp_count, unsigned lanes, unsigned warps) {
  kiln_layout l = {.bits = (uint8_t)bits,
                   .registers = (uint8_t)register_count,
                   .lanes = (uint8_t)lanes,
                   .warps = (uint8_t)warps};
  for (unsigned i = 0; i < register_count; i++) l.basis[i] = 1u << registers[i];
  for (unsigned i = 0; i < lane_count; i++) l.basis[register_count + i] = 1u << lane_bits[i];
  for (unsigned i = 0; i < warp_count; i++) l.basis[register_count + lanes + i] = 1u << warp_bits[i];
  return l;
}

static unsigned smaller(unsigned a, unsigned b) { return a < b ? a : b; }

kiln_layout layout_blocked(ir_type type, unsigned axis, unsigned vector, unsigned lanes, unsigned warps) {
  return layout_blocked_late(type, axis, 0, vector, lanes, warps);
}

kiln_layout layout_blocked_late(ir_type type, unsigned axis, unsigned late, unsigned vector, unsigned lanes,
                                unsigned warps) {
  uint8_t order[LAYOUT_MAX_BITS], registers[LAYOUT_MAX_BITS];
  unsigned bits = bit_order(type, axis, late, order), at = smaller(vector, bits), count = 0;
  for (unsigned i = 0; i < at; i++) registers[count++] = order[i];
  unsigned in_lanes = smaller(lanes, bits - at), in_warps = smaller(warps, bits - at - in_lanes),
           first = at + in_lanes;
  // Warps take other axes first, so that a reduction along `axis` stays within a warp where it can.
  unsigned length = type.rank ? type.log2[axis] : 0, others = length > first ? length : first;
  if (bits - others < in_warps) others = bits - in_warps;
  for (unsigned i = first; i < bits; i++)
    if (i < others || i >= others + in_warps) registers[count++] = order[i];
  return assemble(bits, registers, count, order + at, in_lanes, order + others, in_warps, lanes, warps);
}

kiln_layout layout_sequential(ir_type type, unsigned axis, unsigned lanes, unsigned warps) {
  uint8_t order[LAYOUT_MAX_BITS] = {0}, registers[LAYOUT_MAX_BITS], lane_bits[8], warp_bits[8];
  unsigned bits = bit_order(type, axis, 0, order), length = type.rank ? type.log2[axis] : 0,
           others = bits - length;
  // The axis gets lanes first and warps last; the other axes take what lanes are over, then warps.
  unsigned axis_lanes = smaller(length, lanes), other_lanes = smaller(others, lanes - axis_lanes);
  unsigned other_warps = smaller(others - other_lanes, warps),
           axis_warps = smaller(length - axis_lanes, warps - other_warps);
  unsigned axis_registers = length - axis_lanes - axis_warps, count = 0, lane_count = 0, warp_count = 0,
           at = 0;
  while (count < axis_registers) registers[count++] = order[at++];
  while (lane_count < axis_lanes) lane_bits[lane_count++] = order[at++];
  while (warp_count < axis_warps) warp_bits[warp_count++] = order[at++];
  while (lane_count < axis_lanes + other_lanes) lane_bits[lane_count++] = order[at++];
  while (warp_count < axis_warps + other_warps) warp_bits[warp_count++] = order[at++];
  while (at < bits) registers[count++] = order[at++];
  return assemble(bits, registers, count, lane_bits, lane_count, warp_bits, warp_count, lanes, warps);
}

// -------------------------------------------------------------------------------- shape operations

uint32_t layout_squeeze(uint32_t element, uint32_t mask) {
  uint32_t out = 0;
  for (unsigned i = 0, at = 0; i < 32; i++)
    if (!(mask >> i & 1)) out |= (element >> i & 1) << at++;
  return out;
}

uint32_t layout_spread(uint32_t element, uint32_t mask) {
  uint32_t out = 0;
  for (unsigned i = 0, at = 0; i < 32; i++)
    if (!(mask >> i & 1)) out |= (element >> at++ & 1) << i;
  return out;
}

kiln_layout layout_without(const kiln_layout *layout, uint32_t mask) {
  kiln_layout out = *layout;
  out.bits = (uint8_t)(layout->bits - (unsigned)__builtin_popcount(mask));
  for (unsigned i = 0; i < layout_places(layout); i++) out.basis[i] = layout_squeeze(layout->basis[i], mask);
  layout_normalise(&out);
  return out;
}

/// Moves bit i of every basis to map[i].
static kiln_layout permuted(const kiln_layout *layout, const uint8_t *map) {
  kiln_layout out = *layout;
  for (unsigned i = 0; i < layout_places(layout); i++) {
    out.basis[i] = 0;
    for (unsigned b = 0; b < layout->bits; b++) out.basis[i] |= (layout->basis[i] >> b & 1) << map[b];
  }
  return out;
}

/// Where the bits of the result of a transposition are in the operand.
static void trans_map(const ir_op *op, uint8_t result_to_operand[LAYOUT_MAX_BITS]) {
  ir_type from = op->operands[0]->type, to = op->results[0].type;
  for (unsigned i = 0; i < to.rank; i++) {
    unsigned there = layout_axis_shift(to, i), here = layout_axis_shift(from, op->attrs.perm[i]);
    for (unsigned j = 0; j < to.log2[i]; j++) result_to_operand[there + j] = (uint8_t)(here + j);
  }
}

static uint32_t broadcast_mask(const ir_op *op) {
  ir_type from = op->operands[0]->type, to = op->results[0].type;
  uint32_t mask = 0;
  for (unsigned i = 0; i < to.rank; i++)
    if (from.log2[i] != to.log2[i]) mask |= layout_axis_mask(to, i);
  return mask;
}

kiln_layout layout_backward(const ir_op *op, const kiln_layout *result) {
  uint8_t map[LAYOUT_MAX_BITS] = {0};
  if (op->code == IR_BROADCAST) return layout_without(result, broadcast_mask(op));
  if (op->code != IR_TRANS) return *result;
  trans_map(op, map);
  return permuted(result, map);
}

uint32_t layout_backward_element(const ir_op *op, uint32_t element) {
  return op->code == IR_BROADCAST ? layout_squeeze(element, broadcast_mask(op)) : element;
}

bool layout_forward(const ir_op *op, const kiln_layout *operand, kiln_layout *out) {
  uint8_t map[LAYOUT_MAX_BITS] = {0}, inverse[LAYOUT_MAX_BITS] = {0};
  *out = *operand;
  if (op->code == IR_BROADCAST) return broadcast_mask(op) == 0;
  if (op->code != IR_TRANS) return true;
  trans_map(op, map);
  for (unsigned i = 0; i < operand->bits; i++) inverse[map[i]] = (uint8_t)i;
  *out = permuted(operand, inverse);
  return true;
}
