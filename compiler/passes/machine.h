// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What passes know of a processor: its matrix unit and how operands get there. No LLVM here.
#ifndef KILN_COMPILER_PASSES_MACHINE_H
#define KILN_COMPILER_PASSES_MACHINE_H

#include <stdbool.h>

#include "targets/targets.h"

/// What a processor has for products from shared memory.
typedef struct kiln_matrix_machine {
  kiln_matrix matrix;
  uint8_t group_warps;     ///< warps that issue one product together
  uint8_t log2_rows;       ///< rows of one product of a group
  uint8_t least_n, most_n; ///< logarithms of its columns
  uint8_t part_columns;    ///< where only a part of a tile's columns counts, the part is a multiple of this
  uint8_t step_bytes;      ///< of the reduced index in one product
  uint8_t row_bytes; ///< widest row that shared memory is interleaved by: the copy engine's and the products'
  uint16_t most_partial;       ///< products of fp8 that the unit may sum before they are added in f32
  uint32_t threads;            ///< most a block may have
  uint32_t registers;          ///< of a processor
  uint32_t block_reserve;      ///< bytes of shared memory that each block takes besides its own
  uint16_t producer_registers; ///< of a thread that copies
  uint16_t most_thread_registers;
} kiln_matrix_machine;

/// What a processor has for operands on their way to products from registers.
typedef struct kiln_fetch_machine {
  unsigned lanes;        ///< of a warp, logarithm
  uint32_t threads;      ///< most a block may have
  uint32_t shared_bytes; ///< most a block may have
  kiln_matrix matrix;
  bool has_fetch;   ///< threads copy from global to shared memory and go on
  bool has_buffers; ///< loads add a scalar and an offset of each thread, need no branch where they are masked
                    ///< off, and complete in order
  uint32_t slot_scalars;    ///< set of 1 << kiln_scalar: what products take from slots that threads store to
  uint32_t resident_shared; ///< bytes that the blocks which share SIMDs have together
  bool turns;               ///< matrices turn on their way from shared memory
  unsigned dies;            ///< that take turns in getting blocks, each with a cache of its own
  unsigned simds;           ///< that a block's warps are spread over
  bool small_file;          ///< a thread has 256 registers for all, not as many again for sums
  unsigned register_file;   ///< registers of a lane that the waves of a SIMD share; 0: not asked for
  unsigned most_registers;  ///< of them, a thread may have
} kiln_fetch_machine;

kiln_fetch_machine kiln_fetch_machine_of(const kiln_target *target);

/// NULL: the target has none.
const kiln_matrix_machine *kiln_matrix_machine_of(const kiln_target *target);

/// Registers of a thread that computes, with `groups` groups of them and one that copies, and `blocks` such
/// blocks in a processor; and what all threads start with.
unsigned kiln_consumer_registers(const kiln_matrix_machine *machine, unsigned groups, unsigned blocks);
unsigned kiln_start_registers(const kiln_matrix_machine *machine, unsigned groups, unsigned blocks);

/// Blocks of `bytes` of shared memory that a processor has room for.
unsigned kiln_blocks_within(const kiln_matrix_machine *machine, const kiln_target *target, uint32_t bytes);

#endif
