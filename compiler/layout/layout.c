// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layouts: applying, making, and what shape operations do to them; the way from one to another, how a tile lies in shared
// memory in between, and conflicts there: 32 banks of 4 bytes, at most 128 bytes a cycle.
#include "compiler/layout/layout.h"

#include <string.h>

// --------------------------------------------------------------------------------------------------- layouts

unsigned layout_thread_bits(const kiln_layout *layout) { return (unsigned)layout->lanes + layout->warps; }

unsigned layout_places(const kiln_layout *layout) { return layout->registers + layout_thread_bits(layout); }

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

// ----------------------------------------------------------------- from one to another, and in shared memory

/// Tries registers alone, then with lanes, then all. Registers come first in the basis, lanes next, so a
/// prefix is the right set.
static uint32_t find(const kiln_layout *from, uint32_t target) {
  const unsigned prefix[3] = {from->registers, from->registers + from->lanes, layout_places(from)};
  uint32_t set = 0;
  for (unsigned i = 0; i < 3; i++)
    if (layout_solve(from->basis, prefix[i], target, &set)) return set;
  return set;
}

/// Machine bit `i` of `to` in machine bits of `from`. A thread bit stays itself when registers make up the
/// difference.
static uint32_t source_of(const kiln_layout *from, const kiln_layout *to, unsigned i) {
  if (i >= to->registers) {
    unsigned same = i - to->registers + from->registers;
    uint32_t set;
    unsigned lanes_too = i - to->registers >= to->lanes ? from->registers + from->lanes : from->registers;
    if (layout_solve(from->basis, from->registers, to->basis[i] ^ from->basis[same], &set))
      return set | 1u << same;
    if (layout_solve(from->basis, lanes_too, to->basis[i] ^ from->basis[same], &set)) return set | 1u << same;
  }
  return find(from, to->basis[i]);
}

layout_moves layout_convert(const kiln_layout *from, const kiln_layout *to) {
  layout_moves moves = {.reach = LAYOUT_SAME_THREAD};
  KILN_ASSERT(from->bits == to->bits && from->lanes == to->lanes && from->warps == to->warps);
  KILN_ASSERT(layout_is_complete(from));
  const uint32_t lane_mask = ((1u << from->lanes) - 1) << from->registers;
  const uint32_t warp_mask = ((1u << from->warps) - 1) << (from->registers + from->lanes);
  for (unsigned i = 0; i < layout_places(to); i++) {
    uint32_t set = moves.from[i] = source_of(from, to, i);
    uint32_t same = i < to->registers ? 0 : 1u << (i - to->registers + from->registers);
    if ((set & warp_mask) != (same & warp_mask)) moves.reach = LAYOUT_ANYWHERE;
    else if ((set & lane_mask) != (same & lane_mask) && moves.reach == LAYOUT_SAME_THREAD)
      moves.reach = LAYOUT_SAME_WARP;
  }
  return moves;
}

// ----------------------------------------------------------------------------------- shared memory

/// A basis of the element space in the making: vector i is what offset bit i stands for.
typedef struct span {
  uint32_t vectors[LAYOUT_MAX_PLACES];
  unsigned count, limit;
} span;

static bool contains(const span *s, uint32_t vector) {
  uint32_t set;
  return layout_solve(s->vectors, s->count, vector, &set);
}

static bool add(span *s, uint32_t vector) {
  if (s->count >= s->limit || contains(s, vector)) return false;
  s->vectors[s->count++] = vector;
  return true;
}

/// The first bases of the lanes that are not within `low`: lanes that one transaction serves together.
static span lane_span(const kiln_layout *layout, const span *low, unsigned limit) {
  span out = {.limit = 0}, seen = *low;
  out.limit = limit;
  seen.limit = LAYOUT_MAX_PLACES;
  for (unsigned i = 0; i < layout->lanes && out.count < limit; i++)
    if (add(&seen, layout->basis[layout->registers + i]))
      out.vectors[out.count++] = layout->basis[layout->registers + i];
  return out;
}

static bool has(const span *s, uint32_t vector) {
  for (unsigned i = 0; i < s->count; i++)
    if (s->vectors[i] == vector) return true;
  return false;
}

/// Elements that stay together: what both sides hold in registers; at least a word of the writer's.
static void choose_vector(span *memory, const kiln_layout *writer, const kiln_layout *reader,
                          unsigned log2_bytes) {
  span there = {.limit = LAYOUT_MAX_PLACES};
  for (unsigned i = 0; i < reader->registers; i++) add(&there, reader->basis[i]);
  const unsigned most = log2_bytes < 4 ? 4 - log2_bytes : 0, word = log2_bytes < 2 ? 2 - log2_bytes : 0;
  for (unsigned i = 0; i < writer->registers && memory->count < most; i++)
    if (contains(&there, writer->basis[i])) add(memory, writer->basis[i]);
  for (unsigned i = 0; i < writer->registers && memory->count < word; i++) add(memory, writer->basis[i]);
}

/// Rows of banks: bits that lanes of both sides share keep their place, the others are paired, a writer's
/// with a reader's, and the pair's bank bit is the XOR of the two. The second vector of each pair goes to
/// `high`. Banks are in the order of the writer's lanes: an H200 takes 3.6 times as long for a tile of rows
/// of 64 bytes when what cp.async fetches of a sector of 32 bytes does not stay together.
static void choose_banks(span *memory, span *high, const span *writer, const span *reader) {
  uint32_t left[LAYOUT_MAX_PLACES], right[LAYOUT_MAX_PLACES];
  unsigned left_count = 0, right_count = 0;
  for (unsigned i = 0; i < writer->count; i++) {
    add(memory, writer->vectors[i]);
    if (!has(reader, writer->vectors[i])) left[left_count++] = writer->vectors[i];
  }
  for (unsigned i = 0; i < reader->count; i++)
    if (!has(writer, reader->vectors[i])) right[right_count++] = reader->vectors[i];
  for (unsigned i = 0; i < right_count; i++)
    if (i < left_count) add(high, left[i] ^ right[i]);
    else add(memory, right[i]);
}

/// Whatever is not in yet, in the writer's order.
static void fill(span *memory, const span *reserved, const kiln_layout *writer, unsigned until) {
  span all = *memory;
  all.limit = LAYOUT_MAX_PLACES;
  for (unsigned i = 0; i < reserved->count; i++) add(&all, reserved->vectors[i]);
  for (unsigned i = 0; i < layout_places(writer) && memory->count < until; i++)
    if (add(&all, writer->basis[i])) memory->vectors[memory->count++] = writer->basis[i];
}

layout_memory layout_swizzle(const kiln_layout *writer, const kiln_layout *reader, unsigned log2_bytes,
                             const uint32_t *row, unsigned row_count) {
  layout_memory out = {.bits = writer->bits};
  span memory = {.limit = writer->bits}, high = {.limit = LAYOUT_MAX_PLACES};
  for (unsigned i = 0; i < row_count; i++) add(&memory, row[i]);
  if (row_count == 0) choose_vector(&memory, writer, reader, log2_bytes);
  out.vector = (uint8_t)memory.count;
  const unsigned piece = log2_bytes + memory.count, bank_bits = piece < 7 ? 7 - piece : 0;
  span writer_lanes = lane_span(writer, &memory, bank_bits),
       reader_lanes = lane_span(reader, &memory, bank_bits);
  choose_banks(&memory, &high, &writer_lanes, &reader_lanes);
  fill(&memory, &high, writer, out.vector + bank_bits < writer->bits ? out.vector + bank_bits : writer->bits);
  for (unsigned i = 0; i < high.count; i++) add(&memory, high.vectors[i]);
  for (unsigned i = 0; i < layout_places(writer); i++) add(&memory, writer->basis[i]);
  for (unsigned i = 0; i < writer->bits; i++) add(&memory, 1u << i);
  for (unsigned i = 0; i < writer->bits; i++)
    layout_solve(memory.vectors, memory.count, 1u << i, &out.offset[i]);
  return out;
}

uint32_t layout_offset(const layout_memory *memory, uint32_t element) {
  uint32_t offset = 0;
  for (unsigned i = 0; i < memory->bits; i++)
    if (element >> i & 1) offset ^= memory->offset[i];
  return offset;
}

uint32_t layout_padded(const layout_memory *memory, uint32_t offset) {
  return offset + (memory->pad ? (offset >> memory->row) * memory->pad : 0);
}

uint32_t layout_register_offset(const layout_memory *memory, const kiln_layout *layout, uint32_t r,
                                uint32_t *out_padded) {
  const uint32_t offset = layout_offset(memory, layout_element(layout, r));
  *out_padded = layout_padded(memory, offset);
  return offset;
}

layout_memory layout_padded_rows(ir_type tile, unsigned axis, unsigned log2_bytes, unsigned pad,
                                 const uint32_t *piece, unsigned piece_count) {
  const unsigned bits = ir_log2_elements(tile), row = tile.log2[axis];
  const uint32_t in_row = layout_axis_mask(tile, axis);
  layout_memory out = {.bits = (uint8_t)bits, .row = (uint8_t)row, .pad = (uint8_t)pad};
  unsigned low = 0, above = row;
  out.vector = (uint8_t)(row < 4 - log2_bytes ? row : 4 - log2_bytes);
  for (unsigned k = 0; k < piece_count; k++)
    for (unsigned i = 0; i < bits; i++)
      if (piece[k] == 1u << i && in_row >> i & 1) out.offset[i] = 1u << low++;
  for (unsigned i = 0; i < bits; i++)
    if (!out.offset[i]) out.offset[i] = 1u << (in_row >> i & 1 ? low++ : above++);
  return out;
}

bool layout_adds_up(const layout_memory *memory, const kiln_layout *layout) {
  uint32_t seen = 0;
  for (unsigned i = 0; i < layout_places(layout); i++) {
    uint32_t offset = layout_offset(memory, layout->basis[i]);
    if (offset & seen) return false;
    seen |= offset;
  }
  return true;
}

unsigned layout_memory_vector(const layout_memory *memory, const kiln_layout *layout, unsigned limit,
                              uint8_t out_registers[8]) {
  unsigned count = 0;
  uint32_t used = 0;
  for (bool found = true; found && count < limit;) {
    found = false;
    for (unsigned r = 0; r < layout->registers && !found; r++)
      if (layout_offset(memory, layout->basis[r]) == 1u << count) {
        out_registers[count++] = (uint8_t)r;
        used |= 1u << r;
        found = true;
      }
  }
  // Everything else must leave the low offset bits alone, or a piece would not be aligned.
  for (unsigned i = 0; i < layout_places(layout); i++) {
    uint32_t low = layout_offset(memory, layout->basis[i]);
    while (!(used >> i & 1 && i < layout->registers) && count && low & ((1u << count) - 1))
      used &= ~(1u << out_registers[--count]);
  }
  return count;
}

// -------------------------------------------------------------------------------- conflicts in shared memory

enum { BANKS = 32, BANK_BYTES = 4, CYCLE_BYTES = BANKS * BANK_BYTES };

/// Words of one bank, distinct ones, that `count` lanes from `first` on touch: most of any bank.
static unsigned ways_of(const layout_memory *memory, const kiln_layout *layout, unsigned log2_bytes,
                        uint32_t bytes, uint32_t first, uint32_t count) {
  uint32_t words[BANKS][CYCLE_BYTES], used[BANKS] = {0}, most = 0;
  for (uint32_t lane = first; lane < first + count; lane++) {
    uint32_t offset = layout_offset(memory, layout_element(layout, lane << layout->registers)),
             start = layout_padded(memory, offset) << log2_bytes;
    for (uint32_t at = start / BANK_BYTES; at <= (start + bytes - 1) / BANK_BYTES; at++) {
      uint32_t bank = at % BANKS, seen = 0;
      while (seen < used[bank] && words[bank][seen] != at) seen++;
      if (seen == used[bank] && used[bank] < CYCLE_BYTES) words[bank][used[bank]++] = at;
    }
  }
  for (unsigned i = 0; i < BANKS; i++)
    if (used[i] > most) most = used[i];
  return most;
}

unsigned layout_bank_ways(const layout_memory *memory, const kiln_layout *layout, unsigned log2_bytes) {
  uint8_t registers[8];
  unsigned vector = layout_memory_vector(memory, layout, 4 - log2_bytes, registers), most = 1;
  uint32_t bytes = 1u << (vector + log2_bytes), lanes = 1u << layout->lanes;
  uint32_t together = bytes > BANK_BYTES ? CYCLE_BYTES / bytes : BANKS;
  for (uint32_t first = 0; first < lanes; first += together) {
    unsigned ways = ways_of(memory, layout, log2_bytes, bytes, first, together < lanes ? together : lanes);
    if (ways > most) most = ways;
  }
  return most;
}
