// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From one layout to another: by which way, and how a tile lies in shared memory in between.
#include <string.h>

#include "compiler/layout/layout.h"

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
