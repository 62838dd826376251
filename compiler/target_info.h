// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the compiler knows of processors beyond targets/processors.def, without LLVM: matrix units, the
// instructions they have, how operands get there, special registers. Each family has one file of it,
// compiler/codegen/FAMILY/FAMILY_info.c; passes and code generation ask here.
#ifndef KILN_COMPILER_TARGET_INFO_H
#define KILN_COMPILER_TARGET_INFO_H

#include "compiler/ir/ir.h"
#include "compiler/report.h"
#include "targets/targets.h"

// ----------------------------------------------------------------------- products from registers

/// Elements named in fragments: bit i of the row, column or reduced index.
#define KILN_M(i) (i)
#define KILN_N(i) (32 + (i))
#define KILN_K(i) (64 + (i))
enum { KILN_NO_BIT = 0xff, KILN_FRAGMENT_REGISTERS = 8, KILN_FRAGMENT_LANES = 6 };

/// Which element each (register, lane) of an instruction's operand holds, as a linear map: for each bit of the
/// register and lane number, the bit of row, column or reduced index that it is. Lists end with
/// KILN_FRAGMENT_END; KILN_NO_BIT: the element is replicated. Left and right operand permute the reduced index
/// alike, which is all that a product asks for.
enum { KILN_FRAGMENT_END = 0xfe };
typedef struct kiln_fragment {
  uint8_t registers[KILN_FRAGMENT_REGISTERS + 1], lanes[KILN_FRAGMENT_LANES + 1];
} kiln_fragment;

/// Kinds of instructions that are emitted alike.
typedef enum kiln_matrix_emission {
  KILN_EMIT_F16, ///< NVIDIA's, by the operands' types
  KILN_EMIT_BF16,
  KILN_EMIT_F16_K8,
  KILN_EMIT_TF32,
  KILN_EMIT_S8,
  KILN_EMIT_E4M3_E4M3,
  KILN_EMIT_E4M3_E5M2,
  KILN_EMIT_E5M2_E4M3,
  KILN_EMIT_E5M2_E5M2,
  KILN_EMIT_FMA,  ///< multiply-adds of each thread; no matrix instruction
  KILN_EMIT_MFMA, ///< AMD's, by the intrinsics' signatures
  KILN_EMIT_MFMA_XF32,
  KILN_EMIT_MFMA_950,
  KILN_EMIT_MFMA_FP8,
  KILN_EMIT_WMMA,
  KILN_EMIT_WMMA_INTEGER,
  KILN_EMIT_WMMA_11,
  KILN_EMIT_WMMA_11_INTEGER,
  KILN_EMIT_WMMA_1250,
  KILN_EMIT_WMMA_1250_FP8,
  KILN_EMIT_WMMA_1250_INTEGER,
  KILN_EMISSIONS
} kiln_matrix_emission;

/// One matrix instruction that multiplies fragments in registers. The first that fits is taken, so wide
/// instructions stand first. The family's back end emits it (gpu_machine.emit_product).
typedef struct kiln_matrix_form {
  char name[48];
  uint32_t units; ///< set of 1 << kiln_matrix that have it
  uint8_t lanes;  ///< wave size it is for
  uint8_t left, right,
      accumulator; ///< kiln_scalar that the instruction takes; operands are cast to it when that is exact
  uint8_t from_left, from_right; ///< kiln_scalar that the operation has
  uint8_t precision;             ///< ir_precision that it satisfies (for f32)
  uint8_t m, n, k;               ///< logarithms
  kiln_fragment left_fragment, right_fragment, accumulator_fragment;
  kiln_matrix_emission emission;
  uint8_t least; ///< logarithm of the elements of the smallest result it is for
} kiln_matrix_form;

/// The instruction by which processors with that unit and waves of 1 << `lanes` compute `dot`; NULL: there is
/// none, and `out_why` (may be NULL) says why.
const kiln_matrix_form *kiln_matrix_form_of(kiln_matrix matrix, unsigned lanes, const ir_op *dot,
                                            kiln_report_reason *out_why);

// -------------------------------------------------------------------- products from shared memory

/// What a processor has for products from shared memory.
typedef struct kiln_matrix_machine {
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

/// NULL: the target has none.
const kiln_matrix_machine *kiln_matrix_machine_of(const kiln_target *target);

/// Registers of a thread that computes, with `groups` groups of them and one that copies, and `blocks` such
/// blocks in a processor; and what all threads start with.
unsigned kiln_consumer_registers(const kiln_matrix_machine *machine, unsigned groups, unsigned blocks);
unsigned kiln_start_registers(const kiln_matrix_machine *machine, unsigned groups, unsigned blocks);

/// Blocks of `bytes` of shared memory that a processor has room for.
unsigned kiln_blocks_within(const kiln_matrix_machine *machine, const kiln_target *target, uint32_t bytes);

// ------------------------------------------------------------------- loads ahead of their products

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
  bool turns;               ///< matrices of one or two bytes an element turn on their way from shared memory
  bool has_matrix_loads;    ///< ldmatrix
  bool
      shifts_pieces; ///< what products take and begins anywhere is loaded in whole pieces of 16 bytes, and shifted
  const kiln_matrix_machine *unit; ///< products from shared memory; NULL: none
  unsigned dies;                   ///< that take turns in getting blocks, each with a cache of its own
  unsigned simds;                  ///< that a block's warps are spread over
  bool small_file;                 ///< a thread has 256 registers for all, not as many again for sums
  unsigned register_file;          ///< registers of a lane that the waves of a SIMD share; 0: not asked for
  unsigned most_registers;         ///< of them, a thread may have
} kiln_fetch_machine;

/// Reads that turn (kiln_fetch_machine.turns): the logarithms of the lanes that exchange what they read, and of the bytes
/// that each of them names. Fewer neighbours than KILN_TURNED_LEAST_BYTES in a thread are not written for them.
enum { KILN_TURNED_LANES = 4, KILN_TURNED_LOG2_BYTES = 3, KILN_TURNED_LEAST_BYTES = 4 };
/// Bytes left free after each row that such reads take elements of `bytes` from: what the lanes read of a row, so that
/// they meet no bank twice. `pad`: of rows that are not turned.
static inline uint32_t kiln_turned_pad(unsigned pad, unsigned bytes) {
  return pad ? bytes << KILN_TURNED_LANES : 0;
}

kiln_fetch_machine kiln_fetch_machine_of(const kiln_target *target);

// ------------------------------------------------------------------------------------- the tables

/// A matrix unit.
typedef struct kiln_matrix_unit {
  kiln_matrix matrix;
  bool has_bf16, has_fp8; ///< multiplies them
  bool has_fp8_casts;     ///< its processors convert fp8 to f32 and f16, and f32 to fp8 (nearest, saturating)
  bool has_fetch;         ///< its processors have kiln_fetch_machine.has_fetch
  bool turns;             ///< kiln_fetch_machine.turns
  bool has_matrix_loads;  ///< kiln_fetch_machine.has_matrix_loads
  bool shifts_pieces;     ///< kiln_fetch_machine.shifts_pieces
  bool has_sum_registers; ///< a thread has 256 more registers, which only products and moves reach
  uint8_t dies;           ///< kiln_fetch_machine.dies of a whole device; 0: 1
  const kiln_matrix_machine *shared; ///< its products from shared memory; NULL: none
} kiln_matrix_unit;

/// Special registers of PTX that other families have too.
typedef enum ptx_special { PTX_GLOBALTIMER, PTX_SMID, PTX_SPECIALS } ptx_special;

/// How a processor reads a special register of PTX that is not its own: assembly without operands, whose
/// result is multiplied.
typedef struct kiln_special_register {
  ptx_special special;
  const char *arch;     ///< host: kiln_processor.arch
  uint16_t first, last; ///< AMDGPU: kiln_processor.major
  kiln_matrix matrix;   ///< AMDGPU: that of the row; NONE: any
  uint8_t bits, scale;
  const char *constraints, *text;
} kiln_special_register;

/// A family: tables, with their lengths. The first row that fits counts.
typedef struct kiln_target_info {
  const kiln_matrix_unit *units;
  const kiln_matrix_form *forms;
  const kiln_special_register *registers;
  size_t unit_count, form_count, register_count;
  unsigned bf16_sums; ///< kiln_processor.number of the first that adds and multiplies bf16; 0: none does
  /// Sets what only this family has. NULL: nothing.
  void (*set_fetch)(kiln_fetch_machine *machine, const kiln_processor *processor);
} kiln_target_info;

extern const kiln_target_info kiln_host_info, kiln_nvptx_info, kiln_amdgpu_info;

const kiln_target_info *kiln_target_info_of(kiln_family family);
/// Logarithm of the lanes of a warp or wave.
unsigned kiln_target_lanes(const kiln_target *target);
/// The processor's matrix unit; a row of zeros where it has none.
const kiln_matrix_unit *kiln_matrix_unit_of(const kiln_target *target);
/// NULL: the target has none for `special`.
const kiln_special_register *kiln_special_register_of(const kiln_target *target, ptx_special special);
/// `row` is one of the target's family.
bool kiln_has_special_register(const kiln_target *target, const kiln_special_register *row);

#endif
