// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plans of loads from shared memory that hand out fragments of matrix instructions: ldmatrix, and reads that
// transpose.
#include "compiler/passes/gpu/layouts/shared_layouts.h"

#include <string.h>

enum { WORD_BYTES = 2, LANES_IN_ROW = 2 }; // logarithms

/// How many of the vectors, from the first on, are registers.
static unsigned in_registers(const kiln_layout *l, const uint32_t *vectors, unsigned count) {
  unsigned found = 0;
  while (found < count && vectors[found] && layout_register_of(l, vectors[found]) >= 0) found++;
  return found;
}

/// Whether rows lie across (far) rather than along what a thread reads: where more of a row is written at
/// once, or lanes go on from it.
static bool is_across(const kiln_layout *from, const uint32_t near[4], unsigned near_count,
                      const uint32_t far[3]) {
  unsigned along = in_registers(from, near, near_count), across = in_registers(from, far, 3);
  if (across == 3 || along == near_count) return across == 3;
  if (across != along) return across > along;
  return from->lanes && far[across] && from->basis[from->registers] == far[across];
}

/// One bit, as opposed to none or several.
static bool is_one(uint32_t basis) { return basis && !(basis & (basis - 1)); }

/// A read that turns (kiln_fetch_machine.turns) elements of one or two bytes: the four lowest lanes of the reader are
/// neighbours of a row of memory, its lowest registers as many rows as there are elements in 8 bytes. Lane l of
/// sixteen names 8 bytes: of rows of two bytes those from element 4 (l % 4) on of row l / 4, of rows of bytes those
/// from element 8 (l % 2) on of row l / 2.
static bool plan_turned_read(const kiln_layout *from, const kiln_layout *to, unsigned log2_bytes,
                             kiln_matrix_load *out) {
  enum { LANES = 6 };
  const unsigned turned = KILN_TURNED_LOG2_BYTES - log2_bytes;
  const uint32_t *lanes = to->basis + to->registers;
  if (log2_bytes > 1 || to->lanes != LANES || to->registers < turned) return false;
  for (unsigned i = 0; i < KILN_TURNED_LANES; i++)
    if (!is_one(lanes[i])) return false;
  for (unsigned i = 0; i < turned; i++)
    if (!is_one(to->basis[i]) || layout_register_of(from, to->basis[i]) >= 0) return false;
  *out = (kiln_matrix_load){.is_transposed = true,
                            .matrices = turned,
                            .wanted = in_registers(from, lanes, 4 - log2_bytes),
                            .row_bits = turned};
  if (1u << (out->wanted + log2_bytes) < KILN_TURNED_LEAST_BYTES) return false;
  if (out->wanted < turned) out->wanted = turned;
  memcpy(out->row, lanes, out->wanted * sizeof *out->row);
  kiln_layout *a = &out->address;
  *a = *to;
  uint32_t *own = a->basis + a->registers;
  for (unsigned i = 0; i < turned; i++) a->basis[i] = lanes[i];
  for (unsigned i = 0; i < KILN_TURNED_LANES; i++)
    own[i] = i + turned < KILN_TURNED_LANES ? lanes[turned + i] : to->basis[i + turned - KILN_TURNED_LANES];
  return true;
}

/// Every lane has elements of its own, as in fragments of matrix instructions.
static bool has_own_lanes(const kiln_layout *to) {
  for (unsigned i = 0; i < to->lanes; i++)
    if (!to->basis[to->registers + i]) return false;
  return true;
}

bool kiln_plan_matrix_load(const kiln_fetch_machine *machine, const kiln_layout *from, const kiln_layout *to,
                           unsigned log2_bytes, kiln_rows_written written, kiln_matrix_load *out) {
  if (machine->turns) return written == KILN_PARTS_OF_ROWS && plan_turned_read(from, to, log2_bytes, out);
  unsigned word = WORD_BYTES - log2_bytes;
  if (log2_bytes > WORD_BYTES || to->lanes != 5 || to->registers < word ||
      word + 2 > sizeof out->row / sizeof *out->row || !machine->has_matrix_loads || !has_own_lanes(to))
    return false;
  const uint32_t *lanes = to->basis + to->registers, *far = lanes + LANES_IN_ROW;
  uint32_t near[4];
  for (unsigned i = 0; i < word; i++) near[i] = to->basis[i];
  for (unsigned i = 0; i < LANES_IN_ROW; i++) near[word + i] = lanes[i];
  bool is_transposed = word == 1 && is_across(from, near, word + LANES_IN_ROW, far);
  const uint32_t *row = is_transposed ? far : near;
  unsigned whole = word + LANES_IN_ROW; // of 16-bit elements 3, either way
  if (written == KILN_WHOLE_ROWS && in_registers(from, row, whole) < whole) return false;
  for (unsigned i = 0; i < whole; i++)
    if (!row[i]) return false;
  *out = (kiln_matrix_load){.is_transposed = is_transposed,
                            .word = word,
                            .matrices = to->registers - word < 2 ? to->registers - word : 2,
                            .wanted = whole,
                            .row_bits = whole};
  memcpy(out->row, row, whole * sizeof *out->row);
  kiln_layout *a = &out->address;
  *a = (kiln_layout){.bits = to->bits, .lanes = to->lanes, .warps = to->warps};
  unsigned at = 0;
  for (unsigned i = 0; i < whole; i++) a->basis[at++] = out->row[i];
  for (unsigned i = word + out->matrices; i < to->registers; i++) a->basis[at++] = to->basis[i];
  a->registers = (uint8_t)at;
  for (unsigned i = 0; i < 3; i++) a->basis[at++] = is_transposed ? near[i] : far[i];
  for (unsigned i = 0; i < 2; i++) a->basis[at++] = i < out->matrices ? to->basis[word + i] : 0;
  for (unsigned i = 0; i < to->warps; i++) a->basis[at++] = to->basis[to->registers + to->lanes + i];
  return true;
}

layout_memory kiln_matrix_memory(const kiln_matrix_load *plan, const kiln_layout *from, unsigned log2_bytes) {
  return layout_swizzle(from, &plan->address, log2_bytes, plan->row, plan->wanted);
}
