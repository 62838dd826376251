// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inside of the GPU lowering, shared by NVPTX and AMDGPU. A target is a gpu_machine: prelude bodies, matrix
// forms and a few hooks.
//
// Code is made for one thread. A scalar of the kernel is one LLVM value, the same in all threads; a tile is a
// layout and one LLVM value a register place. Element types: i1 as i1, integers as themselves, f16 half, bf16
// as i16, f32, f64, fp8 as i8, pointers ptr addrspace(1).
//
// Every tile has a layout, and the pass `conversions` has brought operands into those that operations take
// (gpu_operand). Emission is one walk over the operations, in order.
#ifndef KILN_COMPILER_CODEGEN_GPU_LOWER_H
#define KILN_COMPILER_CODEGEN_GPU_LOWER_H

#include "compiler/codegen/backend.h"
#include "compiler/codegen/gpu/prelude.h"
#include "compiler/codegen/llvm/llvm_build.h"
#include "compiler/codegen/llvm/llvm_element.h"
#include "compiler/passes/gpu/layouts/layouts.h"

typedef struct gpu gpu;
typedef struct gpu_machine gpu_machine;
typedef struct gpu_shift gpu_shift; ///< gpu_memory.c

enum {
  GPU_MAX_SORTED = 128, ///< of a tile that is sorted: all of it stays in registers, in straight code
};

/// What a memory access is besides pointer and data.
typedef struct gpu_access {
  uint32_t bytes;       ///< of this access: 1, 2, 4, 8 or 16
  uint8_t cache, evict; ///< ir_cache, ir_evict
  bool is_volatile;
  bool is_invariant; ///< nothing in the kernel writes what this reads
} gpu_access;

/// An access of a tile whose elements lie within 2 GiB of each other, as a scalar and offsets of 32 bits.
typedef struct gpu_near {
  LLVMValueRef base;   ///< ptr, the same in all threads
  LLVMValueRef ahead;  ///< i32, bytes, the same in all threads, a multiple of GPU_NEAR_STEP; NULL: none
  LLVMValueRef *bytes; ///< i32 a register, from base + ahead; NULL: the access is none such
  LLVMValueRef memory; ///< what gpu_machine.near_memory makes of the base
} gpu_near;
enum { GPU_NEAR_STEP = 32 };

/// A tensor map that the kernel gets after its parameters.
typedef struct gpu_map {
  const uint8_t *bytes; ///< its part of the record (docs/bundle.md); arena
  size_t size;
  LLVMValueRef param; ///< ptr
} gpu_map;
enum { GPU_MOST_MAPS = 16 };

/// A GPU target. Static data; hooks may be NULL where said.
struct gpu_machine {
  const char *name;
  unsigned lanes;         ///< log2 of the warp
  unsigned processor;     ///< picks prelude bodies
  unsigned max_shared;    ///< bytes a block may have
  unsigned static_shared; ///< bytes that need no opt-in at launch; more is dynamic
  unsigned max_warps;     ///< a block
  bool shares_bases;      ///< keeps one register for addresses in shared memory that differ in an offset only
  bool reads_words;       ///< shared memory is read in words of 32 bits also where elements have fewer
  const kl_body *bodies;
  size_t body_count;
  kiln_matrix matrix;
  /// accumulator[] += left[] * right[], arrays of elements in register order of the form's fragments.
  void (*emit_product)(gpu *g, const kiln_matrix_form *form, const LLVMValueRef *left,
                       const LLVMValueRef *right, LLVMValueRef *accumulator);
  /// Called once for each accumulator of a dot, after its last instruction; may be NULL.
  void (*finish_product)(gpu *g, const kiln_matrix_form *form, LLVMValueRef *accumulator);
  /// Calling convention and attributes of the kernel.
  void (*finish_kernel)(gpu *g, LLVMValueRef function);
  /// A load of an integer or integer vector `type` (i8, i16, i32, <2 x i32>, <4 x i32>); where `mask` (NULL:
  /// always) is false the result is `other` (never NULL then). NULL: branches and plain loads.
  LLVMValueRef (*load)(gpu *g, const gpu_access *access, LLVMValueRef pointer, LLVMValueRef mask,
                       LLVMValueRef other, LLVMTypeRef type);
  void (*store)(gpu *g, const gpu_access *access, LLVMValueRef pointer, LLVMValueRef mask,
                LLVMValueRef value);
  /// Stores `value` in `parts` equal parts, each where its mask says so: much less work for LLVM than as many
  /// stores. False, or NULL: they have to be stored one by one.
  bool (*store_parts)(gpu *g, const gpu_access *access, LLVMValueRef pointer, const LLVMValueRef *masks,
                      unsigned parts, LLVMValueRef value);
  /// The same for memory near a base, of register `at`: what is masked off is zero, without branches. NULL:
  /// there is no such access.
  LLVMValueRef (*near_memory)(gpu *g, LLVMValueRef base, unsigned param);
  LLVMValueRef (*near_load)(gpu *g, const gpu_access *access, const gpu_near *near, uint32_t at,
                            LLVMValueRef mask, LLVMTypeRef type);
  bool takes_ahead; ///< such a load has a place for gpu_near.ahead
  /// One atomic of one element, not masked; the old value. `scalar` is the element type; integers are in
  /// their LLVM type, bf16 as i16.
  LLVMValueRef (*atomic)(gpu *g, const ir_op *op, kiln_scalar scalar, LLVMValueRef pointer,
                         LLVMValueRef value);
  LLVMValueRef (*cas)(gpu *g, const ir_op *op, kiln_scalar scalar, LLVMValueRef pointer,
                      LLVMValueRef expected, LLVMValueRef desired);
  /// Atomics of `count` neighbours whose old values nobody wants, under `mask` (NULL: always), in as few
  /// instructions as there are for it. False, or NULL: they have to be done one by one.
  bool (*atomic_piece)(gpu *g, const ir_op *op, kiln_scalar scalar, LLVMValueRef pointer,
                       const LLVMValueRef *values, unsigned count, LLVMValueRef mask);
  /// What a thread does whose assert fails, besides stopping; NULL: nothing.
  void (*report_assert)(gpu *g, const ir_op *op);
  /// This thread prints `values` (i32, i64, f64, generic pointers) as printf does with `format`; NULL: it cannot.
  void (*print)(gpu *g, const char *format, const LLVMValueRef *values, unsigned count);
  /// The same integer or float, computed here and not later; where kiln_thread_registers
  /// knows.
  LLVMValueRef (*pin)(gpu *g, LLVMValueRef value);
  /// The number of the warp, in a register that its lanes share, and that of the thread, made of it here: no
  /// register of its own holds it between the two. Where kiln_thread_registers knows.
  LLVMValueRef (*warp)(gpu *g);
  LLVMValueRef (*thread_of_warp)(gpu *g, LLVMValueRef warp);
  unsigned least_register; ///< bits; narrower operands of inline assembly are widened
  bool carries_words;      ///< loops carry elements of 8 and 16 bits by the word: registers have no parts
  bool has_split_choice;   ///< 64 bits are compared whole and chosen by halves of 32
  /// A word of four bytes, the first in the low bits: 0 to 3 are those of the first word, 4 to 7 of the second; NULL: by
  /// shifts.
  LLVMValueRef (*join_bytes)(gpu *g, const LLVMValueRef words[2], const uint8_t from[4]);
  /// Loads go through registers to shared memory, complete in order, and are to stay where they are put;
  /// NULL: none of this. Called after the loads.
  void (*hold_loads)(gpu *g);
  /// What precedes a loop has been lowered, the loop not yet. NULL: nothing is to be done.
  void (*enter_loop)(gpu *g, ir_op *loop);
  /// The body of a loop is one block, and ends here: in which order its products, and what they read and
  /// load, are to be issued. NULL: as the scheduler finds best.
  void (*order_body)(gpu *g, LLVMBasicBlockRef body);
  /// Value of the lane whose number differs by `mask` (constant); NULL: kl_shfl_xor_i32.
  LLVMValueRef (*shuffle_xor)(gpu *g, LLVMValueRef value, unsigned mask);
  /// Rows turned on their way from shared memory. Each of sixteen lanes names n elements, 8 bytes. Lane l gets of what
  /// lanes l / n + 16 / n * i name element l % n, for each i below n, packed as in memory. NULL: there is no such read.
  LLVMValueRef (*read_turned)(gpu *g, LLVMValueRef pointer, LLVMTypeRef type);
  /// Nothing is scheduled across this point: LLVM's time grows with the square of what is scheduled together.
  /// NULL: it does not.
  void (*cut_schedule)(gpu *g);
  /// Machine operations (ops.def); NULL: it has none.
  void (*lower_machine)(gpu *g, ir_op *op);
  /// Before a barrier with is_engine: what this thread has sent to global memory by the copy engine is there,
  /// and its own accesses are ordered with those of the engine. NULL: there is no engine.
  void (*meet_engine)(gpu *g);
  /// Marks the parameters from `first` (from 0) on as tensor maps that stay where the launch put them.
  void (*mark_maps)(gpu *g, LLVMValueRef function, unsigned first);
};

const gpu_machine *gpu_machine_nvptx(const kiln_target *target, gpu_machine *storage);
const gpu_machine *gpu_machine_amdgpu(const kiln_target *target, gpu_machine *storage); ///< amdgpu_machine.c

/// A tile in registers.
typedef struct gpu_tile {
  kiln_layout layout;
  LLVMValueRef *regs; ///< 1 << layout.registers, arena
} gpu_tile;

/// Where a tile lies in shared memory; slots NULL: it does not.
typedef struct gpu_place {
  const kiln_slot_layouts *slots;
  LLVMValueRef slot; ///< its name, i32
} gpu_place;

/// Slots that are in use.
typedef struct gpu_claim {
  struct gpu_claim *next;
  const kiln_slot_layouts *slots;
  bool is_fetched; ///< by copies that are waited for
} gpu_claim;

/// In ir_value.slot while the lowering runs.
typedef struct gpu_value {
  bool is_ready;                   ///< `home_tile` or `scalar` is set
  gpu_tile home_tile;              ///< in ir_value.layout
  LLVMValueRef scalar;             ///< rank 0
  gpu_place place;                 ///< of a tile that is in shared memory
  uint32_t last_use;               ///< gpu_pressure.c: number of an operation of the body
  bool has_index_answer, is_index; ///< gpu_pressure.c: made of indices and scalars alone
} gpu_value;

struct gpu {
  const gpu_machine *machine;
  const kiln_target *target;
  const kiln_codegen_options *options;
  kiln_arena *arena; ///< of the lowering
  ir_kernel *kernel;
  const kiln_layouts *layouts; ///< the kernel's
  kiln_error *error;
  kiln_status status;   ///< the first failure; emission goes on harmlessly
  const ir_op *current; ///< being lowered, for messages; NULL outside of the body
  LLVMContextRef context;
  LLVMModuleRef module;
  kiln_llvm_lines *lines;
  kiln_buffer *report;
  struct gpu_note *first_note, *last_note; ///< gpu_report.c
  const kiln_refusals *refusals;
  LLVMBuilderRef builder;
  kl_prelude prelude;
  kiln_elements elements;
  LLVMTypeRef i1, i8, i16, i32, i64, half, f32, f64, global_pointer, shared_pointer;
  unsigned lanes, warps;  ///< logarithms
  LLVMValueRef thread;    ///< number in the block
  LLVMValueRef shared;    ///< the block's shared memory, ptr addrspace(3)
  uint32_t shared_bytes;  ///< largest use so far
  bool shared_dirty;      ///< threads may still be reading shared memory since the last barrier
  bool has_writes;        ///< the kernel writes memory
  uint32_t scratch_base;  ///< slots that are in use lie below
  uint32_t scratch_floor; ///< what warp specialization uses all the time
  gpu_claim *claims;
  gpu_shift *shifts; ///< loads that are under way, in order
  // Kernels in the GPU form (compiler/passes/gpu/gpu.h).
  bool has_roles;
  gpu_map maps[GPU_MOST_MAPS];
  unsigned map_count;
  LLVMValueRef grid[3]; ///< the logical grid, i32
  LLVMValueRef group;   ///< number of this thread's group of four warps in its block, the same in its lanes
  LLVMValueRef program_group; ///< among all that work on the program
  // The block's place among those that share its program (compiler/passes/gpu/gpu.h), its number among those
  // that share its iterations.
  LLVMValueRef block_row, block_column, share;
  LLVMValueRef shared_address;       ///< of `shared` in its window, i32
  unsigned spread;                   ///< blocks of a cluster that share a program; 0: one block has it alone
  unsigned spread_columns;           ///< of these, side by side
  unsigned split;                    ///< blocks of a cluster that share iterations; 0: each has all
  unsigned barrier, barrier_threads; ///< of the consumers; 0: the block's
  bool is_alone;                     ///< one thread runs what is lowered: the producer
};

/// Keeps the first failure.
KILN_PRINTF(3, 4) void gpu_fail(gpu *g, kiln_status status, const char *format, ...);
/// The same about one operation, whose place the message then has.
KILN_PRINTF(4, 5)
void gpu_fail_at(gpu *g, const ir_op *op, kiln_status status, const char *format, ...);

/// A call of an intrinsic, overloaded over `types`; UNSUPPORTED where this LLVM lacks it.
LLVMValueRef gpu_intrinsic(gpu *g, const char *name, LLVMTypeRef *types, unsigned type_count,
                           const LLVMValueRef *arguments, unsigned count);

// gpu_tile.c
/// Whether a thread has room for 2^registers elements: words of 32 bits, of at most `most`, which is for 32
/// lanes: the same for a warp of any width, as above it the register allocator takes minutes. Pointers count
/// as one: they mostly are a base and offsets. Where not, `op` fails, with "a `what` TYPE" and the warps that
/// have room.
bool gpu_words_fit(gpu *g, const ir_op *op, const char *what, ir_type type, unsigned registers,
                   uint64_t most);
/// Of an element, also of a tile's.
LLVMTypeRef gpu_type(gpu *g, ir_type type);
/// The constant of that number, with or without sign: it has at most 32 bits.
LLVMValueRef gpu_i32(gpu *g, int64_t value);
LLVMValueRef gpu_i1(gpu *g, bool value);
/// XOR over the set bits of the thread number of basis[bit]; lanes and warps of a layout or derived from one.
LLVMValueRef gpu_thread_bits(gpu *g, const uint32_t *basis, unsigned count);
/// i1: this thread is the one that owns its elements among replicas; NULL when all do.
LLVMValueRef gpu_is_owner(gpu *g, const kiln_layout *layout);
gpu_value *gpu_value_of(gpu *g, ir_value *value);
LLVMValueRef gpu_scalar(gpu *g, ir_value *value);
/// Operand `i` of the operation, in the layout that it takes.
gpu_tile gpu_operand(gpu *g, const ir_op *op, uint32_t i);
/// The tile of a value that is in registers, in its layout.
gpu_tile gpu_tile_of(gpu *g, ir_value *value);
/// Whether a thread has room for the value in its layout; else its operation fails.
bool gpu_has_room(gpu *g, const ir_value *value);
void gpu_lower_convert(gpu *g, ir_op *op);
gpu_tile gpu_tile_new(gpu *g, const kiln_layout *layout);
void gpu_set_scalar(gpu *g, ir_value *value, LLVMValueRef scalar);
void gpu_set_home(gpu *g, ir_value *value, gpu_tile tile);
/// The tile of a result in its layout, ready but for its registers, which whoever asks for it fills.
gpu_tile gpu_result(gpu *g, ir_value *value);
/// A new block, at the end of the function that the builder is in.
LLVMBasicBlockRef gpu_block(gpu *g, const char *name);
/// A conditional branch that hardly ever goes to its second block, which then stands after everything else.
void gpu_expect_first(gpu *g, LLVMValueRef branch);

// gpu_maps.c
/// For ir_walk, with `gpu` as context: finds the tensor map of an operation.
void gpu_collect_map(ir_op *op, void *context);
/// The record of all, in `arena`; empty without maps.
kiln_span gpu_map_record(gpu *g, kiln_arena *arena);

// gpu_pressure.c
/// Registers of 32 bits that the tiles of the body which are alive together take in a thread, where they take
/// most; what is inside of loops and branches does not count.
uint64_t gpu_live_words(gpu *g);

// gpu_convert.c
gpu_tile gpu_convert(gpu *g, const gpu_tile *tile, ir_type element, const kiln_layout *to);
/// Every replica gets what the owner has: through shared memory.
void gpu_share_owned(gpu *g, gpu_tile *tile, ir_type element);

// gpu_tile.c
/// Stores a tile into shared memory from byte `start` on; only owners store. No barriers.
void gpu_write_tile(gpu *g, const gpu_tile *tile, const layout_memory *memory, unsigned log2_bytes,
                    uint32_t start);
/// Orders shared memory, no other.
void gpu_barrier(gpu *g);
/// Before writing scratch: a barrier when others may still read. `bytes` are claimed from offset 0.
void gpu_scratch_begin(gpu *g, uint64_t bytes);

// gpu_pack.c
/// Bytes of an element in memory.
unsigned gpu_bytes_of(gpu *g, LLVMTypeRef type);
/// Elements as one integer of i8..i64 or vector of i32, and back; `type` is the element's LLVM type.
LLVMValueRef gpu_pack(gpu *g, const LLVMValueRef *elements, unsigned count);
void gpu_unpack(gpu *g, LLVMValueRef packed, LLVMTypeRef type, LLVMValueRef *elements, unsigned count);
LLVMTypeRef gpu_packed_type(gpu *g, unsigned bytes);
LLVMValueRef gpu_shuffle_xor(gpu *g, LLVMValueRef value, unsigned mask);
LLVMValueRef gpu_shuffle_idx(gpu *g, LLVMValueRef value, LLVMValueRef lane);

// gpu_elements.c
/// One element of an elementwise operation.
LLVMValueRef gpu_element(gpu *g, const ir_op *op, const LLVMValueRef *operands);
/// Registers of the row-major numbers of a tile's elements, i32.
void gpu_number_elements(gpu *g, gpu_tile *tile);
extern const kiln_element_machine gpu_element_machine;
LLVMValueRef gpu_to_f32(gpu *g, kiln_scalar from, LLVMValueRef value);
LLVMValueRef gpu_from_f32(gpu *g, kiln_scalar to, LLVMValueRef value);

// gpu_memory.c, gpu_atomic.c
/// Makes the tiles of `shifts`: before what reads one of them, waits for other threads or is long.
void gpu_shift_loaded(gpu *g);
/// Whether an operand is a load of `shifts`.
bool gpu_reads_shifted(const gpu *g, const ir_op *op);
/// One mask of two, either of which may be NULL.
LLVMValueRef gpu_both(gpu *g, LLVMValueRef a, LLVMValueRef b);
/// True in one thread of the block.
LLVMValueRef gpu_first_thread(gpu *g);
/// What the first thread has, in all threads.
LLVMValueRef gpu_from_first(gpu *g, LLVMValueRef value, ir_type element);

// gpu_memory.c, gpu_atomic.c, gpu_reduce.c, gpu_sort.c, gpu_scatter.c, gpu_dot.c, gpu_lower.c: one function an operation
void gpu_lower_load(gpu *g, ir_op *op);
void gpu_lower_store(gpu *g, ir_op *op);
void gpu_lower_atomic(gpu *g, ir_op *op);
void gpu_lower_reduce(gpu *g, ir_op *op);
void gpu_lower_scan(gpu *g, ir_op *op);
void gpu_lower_elements(gpu *g, ir_op *op);
void gpu_lower_sort(gpu *g, ir_op *op);
void gpu_lower_gather(gpu *g, ir_op *op);
void gpu_lower_scatter(gpu *g, ir_op *op);
void gpu_lower_dot(gpu *g, ir_op *op);
void gpu_lower_asm(gpu *g, ir_op *op);
void gpu_lower_for(gpu *g, ir_op *op);
void gpu_lower_while(gpu *g, ir_op *op);
void gpu_lower_if(gpu *g, ir_op *op);
/// Lowers the operations of a block up to its terminator, in a region of its own (set up by the caller).
void gpu_lower_block(gpu *g, ir_block *block);
void gpu_lower_op(gpu *g, ir_op *op);
/// A tile that is loaded a part of its registers at a time: each part goes to `take`, which leaves `left`
/// values of it in `out`. `first` is the part's first register. Called once for each way that threads may go.
typedef struct gpu_parts {
  unsigned registers; ///< of a part, logarithm: the low bits of the layout's registers
  uint32_t left;
  void (*take)(gpu *g, void *context, uint32_t first, LLVMValueRef *part, LLVMValueRef *out);
  void *context;
} gpu_parts;
/// The values that are left of all parts, in order.
LLVMValueRef *gpu_load_parts(gpu *g, ir_op *op, const kiln_layout *layout, gpu_parts *p);

// gpu_tile.c: slots of shared memory that threads fill while they go on
void gpu_lower_fetch(gpu *g, ir_op *op);
void gpu_lower_fetch_commit(gpu *g, ir_op *op);
void gpu_lower_fetch_wait(gpu *g, ir_op *op);
void gpu_lower_fetch_end(gpu *g, ir_op *op);
void gpu_lower_slot_load(gpu *g, ir_op *op);
void gpu_lower_slot_store(gpu *g, ir_op *op);

// gpu_report.c
/// A load or store of tiles or scalars: bytes of one access where all lanes are live, where the mask may cut
/// it, of one element.
void gpu_note_access(gpu *g, const ir_op *op, uint32_t bytes, uint32_t narrow, uint32_t element);
/// A load in whole pieces that are shifted, since its own begin at multiples of `bytes` only.
void gpu_note_shifted(gpu *g, const ir_op *op, uint32_t bytes);
/// A copy that the target makes by itself.
void gpu_note_copy(gpu *g, const ir_op *op, kiln_engine engine, uint32_t bytes);
/// `why` no matrix unit does it, else NONE.
void gpu_note_product(gpu *g, const ir_op *op, kiln_engine engine, const char *name, kiln_report_reason why);
/// Conversions between layouts, of the current operation or on behalf of `op`; `writer` NULL: it is there already.
void gpu_note_shuffle(gpu *g, const kiln_layout *layout, unsigned bytes);
void gpu_note_exchange(gpu *g, const ir_op *op, const layout_memory *memory, const kiln_layout *writer,
                       const kiln_layout *reader, unsigned log2_bytes, bool is_matrix);
void gpu_note_slot_read(gpu *g, const ir_op *op, const kiln_slot_layouts *s, const kiln_slot_read *read);
/// Puts all rows into the report, with what passes have refused.
void gpu_write_report(gpu *g);

/// The lowering of the back ends for GPUs, on the machine that the target's back end has. Shared memory is
/// address space 3, global memory 1.
kiln_status gpu_lower(const kiln_lowering *l, kiln_error *err);
/// The same for a given machine.
kiln_status gpu_lower_kernel(const kiln_lowering *l, const gpu_machine *machine, kiln_error *err);
/// Threads of a block of the kernel.
uint32_t gpu_block_threads(const gpu *g);

#endif
