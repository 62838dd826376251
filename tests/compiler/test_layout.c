// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests layouts on a software model of registers, lanes, warps and shared memory: random maps, every
// element followed.
#include "compiler/layout/layout.h"

#include <string.h>

#include "tests/harness.h"

static unsigned places(const kiln_layout *l) { return l->registers + l->lanes + l->warps; }
static unsigned pick(uint64_t *seed, unsigned below) {
  return (unsigned)(kiln_test_random(seed) >> 33) % below;
}

/// Random independent vectors over `bits` bits, by random row operations on the unit vectors.
static void random_basis(uint64_t *seed, unsigned bits, bool is_unit, uint32_t out[LAYOUT_MAX_PLACES]) {
  for (unsigned i = 0; i < bits; i++) out[i] = 1u << i;
  for (unsigned i = bits; i > 1; i--) {
    unsigned j = pick(seed, i);
    uint32_t t = out[i - 1];
    out[i - 1] = out[j];
    out[j] = t;
  }
  for (unsigned n = 0; !is_unit && bits > 1 && n < 4 * bits; n++) {
    unsigned i = pick(seed, bits), j = pick(seed, bits);
    if (i != j) out[i] ^= out[j];
  }
}

/// A complete layout with `lanes` and `warps` thread bits, some of them replicas.
static kiln_layout random_layout(uint64_t *seed, unsigned bits, unsigned lanes, unsigned warps,
                                 bool is_unit) {
  uint32_t basis[LAYOUT_MAX_PLACES];
  kiln_layout l = {.bits = (uint8_t)bits, .lanes = (uint8_t)lanes, .warps = (uint8_t)warps};
  random_basis(seed, bits, is_unit, basis);
  unsigned in_threads = 0, threads = lanes + warps, used[LAYOUT_MAX_PLACES] = {0};
  for (unsigned i = 0; i < threads; i++) {
    used[i] = in_threads < bits && pick(seed, 4) != 0;
    in_threads += used[i];
  }
  l.registers = (uint8_t)(bits - in_threads);
  memcpy(l.basis, basis, l.registers * sizeof *basis);
  for (unsigned i = 0, at = l.registers; i < threads; i++)
    if (used[i]) l.basis[l.registers + i] = basis[at++];
  return l;
}

static ir_type tile(unsigned rank, const uint8_t *log2) {
  ir_type t = ir_scalar_type(KILN_F32);
  t.rank = (uint8_t)rank;
  memcpy(t.log2, log2, rank);
  return t;
}

TEST(layout, random_maps_are_complete_and_solvable) {
  uint64_t seed = 1;
  for (unsigned n = 0; n < 500; n++) {
    kiln_layout l = random_layout(&seed, pick(&seed, 12), 5, pick(&seed, 4), n & 1);
    CHECK(layout_is_complete(&l));
    uint32_t element = pick(&seed, 1u << l.bits), set;
    CHECK(layout_solve(l.basis, places(&l), element, &set));
    CHECK_INT(layout_element(&l, set), element);
  }
}

TEST(layout, composition_is_associative) {
  uint64_t seed = 2;
  for (unsigned n = 0; n < 200; n++) {
    unsigned bits = 1 + pick(&seed, 10);
    kiln_layout a = random_layout(&seed, bits, 0, 0, false), b = random_layout(&seed, bits, 0, 0, false),
                c = random_layout(&seed, bits, 0, 0, false), ab = a, bc = b;
    for (unsigned i = 0; i < bits; i++)
      ab.basis[i] = layout_element(&a, b.basis[i]), bc.basis[i] = layout_element(&b, c.basis[i]);
    uint32_t x = pick(&seed, 1u << bits);
    CHECK_INT(layout_element(&ab, layout_element(&c, x)), layout_element(&a, layout_element(&bc, x)));
  }
}

/// Every place of `to` finds its element where `layout_convert` says, and the reach is what it says.
static void follow(const kiln_layout *from, const kiln_layout *to) {
  layout_moves m = layout_convert(from, to);
  for (uint32_t place = 0; place < 1u << places(to); place++) {
    uint32_t source = 0, thread = place >> to->registers;
    for (unsigned i = 0; i < places(to); i++)
      if (place >> i & 1) source ^= m.from[i];
    CHECK_INT(layout_element(from, source), layout_element(to, place));
    uint32_t there = source >> from->registers, lane_mask = (1u << to->lanes) - 1;
    if (m.reach != LAYOUT_ANYWHERE) CHECK_INT(there & ~lane_mask, thread & ~lane_mask);
    if (m.reach == LAYOUT_SAME_THREAD) CHECK_INT(there, thread);
  }
}

TEST(layout, conversions_find_every_element) {
  uint64_t seed = 3;
  for (unsigned n = 0; n < 300; n++) {
    unsigned bits = pick(&seed, 10), warps = pick(&seed, 3);
    kiln_layout a = random_layout(&seed, bits, 5, warps, n & 1),
                b = random_layout(&seed, bits, 5, warps, n & 1);
    follow(&a, &b);
    follow(&a, &a);
    layout_moves same = layout_convert(&a, &a);
    CHECK_INT(same.reach, LAYOUT_SAME_THREAD);
  }
}

/// Transactions that one piece access by a whole warp costs more than it must: 0 when free of conflicts.
static unsigned conflicts(const layout_memory *memory, const kiln_layout *l, unsigned log2_bytes) {
  uint8_t piece[8];
  unsigned vector = layout_memory_vector(memory, l, 4 - log2_bytes, piece), worst = 0;
  unsigned bytes = 1u << (vector + log2_bytes), together = bytes > 4 ? 128 / bytes : 32;
  for (unsigned first = 0; first < 32; first += together) {
    uint32_t words[32][32];
    unsigned in_bank[32] = {0};
    for (unsigned lane = first; lane < first + together; lane++)
      for (unsigned w = 0; w < (bytes + 3) / 4; w++) {
        uint32_t word =
            (layout_offset(memory, layout_element(l, lane << l->registers)) << log2_bytes) / 4 + w;
        unsigned bank = word % 32, known = 0;
        for (unsigned i = 0; i < in_bank[bank]; i++) known |= words[bank][i] == word;
        if (!known) words[bank][in_bank[bank]++] = word;
      }
    for (unsigned bank = 0; bank < 32; bank++)
      if (in_bank[bank] > 1 && in_bank[bank] - 1 > worst) worst = in_bank[bank] - 1;
  }
  return worst;
}

TEST(layout, shared_memory_is_a_bijection) {
  uint64_t seed = 4;
  for (unsigned n = 0; n < 200; n++) {
    unsigned bits = 1 + pick(&seed, 11), warps = pick(&seed, 3), log2_bytes = pick(&seed, 4);
    kiln_layout a = random_layout(&seed, bits, 5, warps, n & 1),
                b = random_layout(&seed, bits, 5, warps, n & 1);
    layout_memory m = layout_swizzle(&a, &b, log2_bytes, NULL, 0);
    static uint8_t seen[1 << 12];
    memset(seen, 0, sizeof seen);
    for (uint32_t e = 0; e < 1u << bits; e++) {
      uint32_t offset = layout_offset(&m, e);
      CHECK(offset < 1u << bits);
      CHECK(!seen[offset]);
      seen[offset] = 1;
    }
  }
}

TEST(layout, transposing_is_free_of_bank_conflicts) {
  const ir_type t = tile(2, (uint8_t[]){6, 6});
  for (unsigned log2_bytes = 1; log2_bytes < 4; log2_bytes++)
    for (unsigned vector = 0; vector + log2_bytes <= 4; vector++) {
      kiln_layout rows = layout_blocked(t, 1, vector, 5, 2), columns = layout_blocked(t, 0, 0, 5, 2);
      layout_memory m = layout_swizzle(&rows, &columns, log2_bytes, NULL, 0);
      CHECK_INT(conflicts(&m, &rows, log2_bytes), 0);
      if (log2_bytes >= 2) CHECK_INT(conflicts(&m, &columns, log2_bytes), 0);
    }
}

// Threads fetch rows of 32 to 256 bytes of 16-bit elements in pieces of 16 bytes; matrix loads read one piece
// of each of eight rows. What two neighbouring lanes fetch, 32 bytes in a row in memory, is 32 bytes in a row
// there.
TEST(layout, neighbouring_pieces_stay_together) {
  enum { PIECE = 3, LANES = 5, SHARED = 1 };
  const uint32_t row[PIECE] = {1, 2, 4};
  for (unsigned columns = 4; columns <= 7; columns++) { // log2 of a row's elements
    ir_type type = tile(2, (uint8_t[]){6, (uint8_t)columns});
    kiln_layout writer = layout_blocked(type, 1, PIECE, LANES, 2), reader = writer;
    unsigned registers = 0, at = 0;
    for (; registers < PIECE; registers++) reader.basis[at++] = row[registers];
    for (unsigned i = PIECE + 2; i < columns; i++, registers++) reader.basis[at++] = 1u << i;
    for (unsigned i = 3; i < 4; i++, registers++) reader.basis[at++] = 1u << (columns + i);
    reader.registers = (uint8_t)registers;
    for (unsigned i = 0; i < 3; i++) reader.basis[at++] = 1u << (columns + i); // eight rows
    for (unsigned i = PIECE; i < PIECE + 2; i++) reader.basis[at++] = i < columns ? 1u << i : 0;
    for (unsigned i = 4; i < 6; i++) reader.basis[at++] = 1u << (columns + i);
    layout_memory m = layout_swizzle(&writer, &reader, SHARED, row, PIECE);
    CHECK_INT(layout_bank_ways(&m, &writer, SHARED), 1);
    CHECK_INT(layout_bank_ways(&m, &reader, SHARED), 1);
    for (uint32_t e = 0; e < 1u << (columns + 6); e += 2 << PIECE)
      CHECK_INT(layout_offset(&m, e) ^ layout_offset(&m, e | 1 << PIECE), 1 << PIECE);
  }
}

TEST(layout, pieces_are_aligned) {
  uint64_t seed = 5;
  for (unsigned n = 0; n < 300; n++) {
    unsigned bits = 1 + pick(&seed, 10);
    kiln_layout a = random_layout(&seed, bits, 5, 1, n & 1), b = random_layout(&seed, bits, 5, 1, n & 1);
    layout_memory m = layout_swizzle(&a, &b, 1, NULL, 0);
    uint8_t piece[8];
    unsigned vector = layout_memory_vector(&m, &a, 3, piece);
    uint32_t inside = 0;
    for (unsigned i = 0; i < vector; i++) inside |= 1u << piece[i];
    for (uint32_t place = 0; place < 1u << places(&a); place++) {
      if (place & inside) continue;
      uint32_t first = layout_offset(&m, layout_element(&a, place));
      CHECK_INT(first & ((1u << vector) - 1), 0);
      for (unsigned i = 0; i < vector; i++)
        CHECK_INT(layout_offset(&m, layout_element(&a, place | 1u << piece[i])), first | 1u << i);
    }
  }
}

/// An axis that will be reduced gives its bits to registers, after the one that addresses follow.
TEST(layout, late_axes_lie_in_registers) {
  ir_type t = {.scalar = KILN_F32, .rank = 3, .log2 = {4, 4, 3}};
  kiln_layout plain = layout_blocked(t, 2, 0, 5, 2), late = layout_blocked_late(t, 2, 1u << 1, 0, 5, 2);
  uint32_t axis = layout_axis_mask(t, 1), in_plain = 0, in_late = 0;
  for (unsigned i = 0; i < plain.registers; i++) in_plain |= plain.basis[i] & axis;
  for (unsigned i = 0; i < late.registers; i++) in_late |= late.basis[i] & axis;
  CHECK_INT(in_plain, 0);
  CHECK_INT(in_late, axis);
  CHECK(layout_is_complete(&late));
}

TEST(layout, blocked_covers_every_shape) {
  uint64_t seed = 6;
  for (unsigned n = 0; n < 300; n++) {
    uint8_t log2[IR_MAX_RANK];
    unsigned rank = 1 + pick(&seed, IR_MAX_RANK), warps = pick(&seed, 6);
    for (unsigned i = 0, left = LAYOUT_MAX_BITS; i < rank; i++)
      left -= log2[i] = (uint8_t)pick(&seed, left < 4 ? left + 1 : 4);
    ir_type t = tile(rank, log2);
    for (unsigned axis = 0; axis < rank; axis++) {
      kiln_layout b = layout_blocked(t, axis, pick(&seed, 4), 5, warps),
                  s = layout_sequential(t, axis, 6, warps);
      CHECK(layout_is_complete(&b));
      CHECK(layout_is_complete(&s));
      CHECK_INT(b.bits, ir_log2_elements(t));
      kiln_layout slice = layout_without(&b, layout_axis_mask(t, axis));
      CHECK(layout_is_complete(&slice));
      CHECK_INT(slice.bits, b.bits - t.log2[axis]);
    }
  }
}

TEST(layout, owners_hold_each_element_once) {
  uint64_t seed = 7;
  for (unsigned n = 0; n < 200; n++) {
    kiln_layout l = random_layout(&seed, pick(&seed, 9), 5, 2, n & 1);
    uint32_t replicas = layout_replicas(&l);
    static uint8_t seen[1 << 9];
    memset(seen, 0, sizeof seen);
    for (uint32_t place = 0; place < 1u << places(&l); place++)
      if (!(place >> l.registers & replicas)) seen[layout_element(&l, place)]++;
    for (uint32_t e = 0; e < 1u << l.bits; e++) CHECK_INT(seen[e], 1);
  }
}

TEST(layout, squeeze_and_spread_are_inverse) {
  uint64_t seed = 8;
  for (unsigned n = 0; n < 200; n++) {
    uint32_t mask = pick(&seed, 1 << 10), e = pick(&seed, 1 << 12) & ~mask;
    CHECK_INT(layout_spread(layout_squeeze(e, mask), mask), e);
  }
}
