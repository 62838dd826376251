// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What processors have for operands that are on their way while others are multiplied.
#include "compiler/passes/gpu/ahead.h"

enum { WIDE_WAVE = 64, BLOCK_THREADS = 1024, SIMDS = 4 };

/// Elements that the matrix units of AMD have products of. A SIMD belongs to a unit of four, on gfx9 the
/// compute unit, from gfx10 on two of them, whose shared memory is twice what a block may have.
static const uint32_t slot_scalars = 1u << KILN_F16 | 1u << KILN_BF16 | 1u << KILN_I8;

/// Of a whole device; partitions of one, and an MI300A, have fewer.
static unsigned dies_of(kiln_matrix matrix) {
  const uint32_t units = 1u << KILN_MATRIX_MFMA_942 | 1u << KILN_MATRIX_MFMA_950 | 1u << KILN_MATRIX_MFMA_9_4;
  return units >> matrix & 1 ? 8 : 1;
}

/// A SIMD's registers: on gfx9 512 for each lane, half of them for sums, where it has a matrix unit, else
/// 256; on RDNA twice as many lanes of half a wave each. One thread may have 256 of RDNA's, all of gfx9's.
static void set_registers(kiln_fetch_machine *m, const kiln_processor *p) {
  enum { ADDRESSABLE = 256, RDNA = 512 };
  const uint32_t units = 1u << KILN_MATRIX_MFMA_90A | 1u << KILN_MATRIX_MFMA_942 |
                         1u << KILN_MATRIX_MFMA_950 | 1u << KILN_MATRIX_MFMA_9_4;
  m->most_registers = units >> p->matrix & 1 ? 2 * ADDRESSABLE : ADDRESSABLE;
  m->register_file = !m->small_file ? m->most_registers : m->lanes == 5 ? 2 * RDNA : RDNA;
}

kiln_fetch_machine kiln_fetch_machine_of(const kiln_target *target) {
  const kiln_processor *p = target->processor;
  unsigned units = 1u << KILN_MATRIX_MMA_80 | 1u << KILN_MATRIX_MMA_89 | 1u << KILN_MATRIX_WGMMA;
  const bool has_buffers = kiln_family_of(p->family)->has_buffers;
  kiln_fetch_machine m = {.lanes = target->wave == WIDE_WAVE ? 6 : 5,
                          .threads = BLOCK_THREADS,
                          .shared_bytes = p->shared_bytes,
                          .matrix = p->matrix,
                          .has_fetch = units >> p->matrix & 1,
                          .has_buffers = has_buffers,
                          .slot_scalars = has_buffers && p->matrix ? slot_scalars : 0,
                          .resident_shared = p->major < 10 ? p->shared_bytes : 2 * p->shared_bytes,
                          .turns = p->matrix == KILN_MATRIX_MFMA_950,
                          .dies = dies_of(p->matrix),
                          .simds = SIMDS,
                          .small_file = p->major >= 10};
  if (has_buffers) set_registers(&m, p);
  return m;
}
