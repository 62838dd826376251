// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inside of the host lowering: what its files share.
//
// A tile is never one vector. Tile operations are *lazy*: nothing is emitted where they stand. What must
// happen (stores, reductions, kept tiles,
// ...) are *roots*; roots of one iteration space are gathered in a *group*, and a group becomes one loop nest
// over chunks of a few vectors. Inside the loop each root *pulls* the elements of its operands at the current
// *point*, and that pulls theirs.
//
// All extents are powers of two, so an element of a tile is named by the bits of its row-major index, and
// every shape operation is a *map* of bits: where each bit of the operand's index comes from. Bits
// 0..lanes_log2-1 of a root's index are lanes of the vectors, the others are digits that loops count.
//
// Elements are held as: i1 to i64, f32, f64 and pointers as themselves; f16, bf16, e4m3, e5m2 as their bit
// patterns in integers. In memory an i1 is a byte.
#ifndef KILN_COMPILER_CODEGEN_HOST_H
#define KILN_COMPILER_CODEGEN_HOST_H

#include <llvm-c/Core.h>

#include "compiler/codegen/backend.h"
#include "compiler/codegen/llvm/llvm_build.h"
#include "compiler/codegen/llvm/llvm_element.h"
#include "compiler/ir/ir.h"
#include "compiler/analysis/facts.h"

/// Scratch memory that one program instance may ask for.
enum { HOST_SCRATCH_LIMIT = 1 << 28, HOST_MAX_DIGITS = 24, HOST_MAX_ROOTS = 64 };
/// What may be computed again instead of kept, in units of an integer operation.
enum { HOST_COST_CHEAP = 12 };

// ---------------------------------------------------------------------------------------- elements

typedef enum host_form {
  HOST_UNIFORM, ///< one scalar for all lanes
  HOST_AFFINE,  ///< lane l is value + l * stride; integers wrap, strides of pointers are bytes
  HOST_VECTOR,
} host_form;

/// The elements of a value at a point.
typedef struct host_lanes {
  LLVMValueRef value;
  int64_t stride;
  host_form form;
} host_lanes;

/// Where each bit of a tile's index comes from: a bit of the root's index, or a constant.
enum { HOST_BIT_ZERO = 0xfe, HOST_BIT_ONE = 0xff };
typedef struct host_map {
  uint8_t count;
  uint8_t from[IR_MAX_LOG2_ELEMENTS + 1];
} host_map;

/// A counter that yields bits [first, first + count) of the root's index.
typedef struct host_digit {
  LLVMValueRef counter; ///< i64
  uint8_t first, count;
} host_digit;

typedef struct host_point {
  uint32_t id; ///< distinguishes what was pulled at one point from other points
  uint8_t lanes_log2;
  uint8_t digit_count;
  bool live; ///< all masks of the group are known to hold here
  host_digit digits[HOST_MAX_DIGITS];
} host_point;

typedef struct host_memo {
  struct host_memo *next;
  uint32_t point;
  bool wide;
  host_map map;
  host_lanes lanes;
} host_memo;

/// A tile kept in scratch memory, row-major.
typedef struct host_buffer {
  LLVMValueRef pointer; ///< constant offset from the scratch argument, in the entry block
  kiln_scalar scalar;
  bool is_pointer;
} host_buffer;

/// A factor of a matrix product as the product reads it, in the type that is computed in. Strides are log2 of
/// elements. Side 0, A: `step` from one reduced index to the next, `row` from row to row. Side 1, B: panels
/// of so many columns as a register block has, each with its rows next to next; `row` from panel to panel.
typedef struct host_factor {
  LLVMValueRef pointer;
  uint8_t row, step;
  bool pairs;        ///< of 16 bits each are an element
  const ir_op *loop; ///< before which it was packed; NULL: for one product
} host_factor;

// ------------------------------------------------------------------------------------------ values

/// A carried tile that grows by the same amount each turn: init + turns * step, in elements for pointers.
typedef struct host_induction {
  ir_value *init;
  LLVMValueRef turns, step; ///< i64
} host_induction;

/// What is known of an IR value; in its slot.
typedef struct host_value {
  host_lanes lanes; ///< of a scalar, and of values inside a combiner: what it is
  bool has_lanes;
  bool keep;                 ///< lazy, but kept in a buffer where it is defined
  bool has_load;             ///< pulling it reads user memory
  bool swapped;              ///< its columns are contiguous in memory, not its rows
  bool mark_moved;           ///< with `mark`: the walk came under another index
  uint32_t mark;             ///< last walk that saw it
  bool last_in_place;        ///< every path to the last root keeps the index
  host_buffer *buffer;       ///< non-NULL: kept
  host_induction *induction; ///< non-NULL: an argument or result of a loop that is computed, not carried
  uint32_t cost;             ///< of pulling one element
  uint32_t last;             ///< number of the last root that pulls it
  uint32_t first_group, last_group; ///< of the groups that pull it, in the plan
  bool moved;                       ///< some user pulls it under a map that repeats elements
  uint32_t ready;                   ///< group that must be over before it can be pulled
  uint32_t ready_moved;             ///< the same for pulling under a map that is not the identity
  host_factor *packed[2];           ///< by side: packed before the loop that is emitted
  host_memo *memo;
  struct ir_op **users; ///< arena
  uint32_t user_count, user_capacity;
} host_value;

/// That a value was kept where the walk stood. Of a value from outside the region it holds only until the
/// region ends: the other side of a branch and a loop of no turns do not fill the buffer, and what follows the
/// region takes its memory.
typedef struct host_binding {
  const struct host_binding *next; ///< made before this one
  host_value *value;
  host_buffer *before;
} host_binding;

// ------------------------------------------------------------------------------------------- roots

typedef enum host_root_kind {
  HOST_ROOT_STORE,
  HOST_ROOT_KEEP,
  HOST_ROOT_REDUCE,
  HOST_ROOT_ASSERT,
  HOST_ROOT_PACK
} host_root_kind;

/// One thing that a group's loop does for every element of its space.
typedef struct host_root {
  host_root_kind kind;
  ir_op *op;           ///< store, reduce, assert
  ir_value *value;     ///< keep, pack: what is kept
  host_buffer *buffer; ///< keep, pack: where
  bool binds;          ///< keep: afterwards the buffer stands for the value
  bool carries;        ///< keep: overwrites a buffer that others of the group may read at the same index
  LLVMValueRef *state; ///< reduce: accumulators (stack slots), one an operand
  LLVMValueRef
      begun; ///< reduce: stack slot of i1, whether an accumulator holds something; NULL with an identity
  const struct host_packing *packing;
} host_root;

/// In which order a value is packed.
typedef struct host_packing {
  host_map order;      ///< where the value's index bits come from
  host_map place;      ///< where those of the buffer come from, with `turned`
  uint32_t splits;     ///< bits of the root's index where a loop ends
  uint8_t lanes_log2;  ///< of a chunk: at most, with `turned` exactly; 0: no limit
  bool pairs;          ///< neighbours along K are one element
  uint8_t side;        ///< log2 of the elements of a square
  host_buffer *turned; ///< non-NULL: squares are transposed, and stand here before
} host_packing;

typedef struct host_group {
  uint32_t id;
  uint8_t bits;       ///< log2 of the elements of the space
  uint32_t reduced;   ///< bits of the index that reductions run over; 0: no reduction inside
  uint8_t row_bits;   ///< log2 of the innermost extent
  uint8_t lanes_log2; ///< of a chunk, at most; 0: no limit
  bool lanes_exact;   ///< just as many
  uint32_t splits;    ///< further bits where a loop ends
  uint32_t root_count;
  host_root roots[HOST_MAX_ROOTS];
} host_group;

typedef struct host {
  kiln_arena *arena;
  ir_kernel *kernel;
  const kiln_target *target;
  kiln_error *err;
  kiln_status status; ///< first failure; after it code is still built but thrown away
  LLVMContextRef context;
  LLVMModuleRef module;
  kiln_llvm_lines *lines;
  LLVMBuilderRef builder;
  LLVMBuilderRef entry; ///< before the end of the entry block: stack slots, buffer addresses
  LLVMValueRef function, args, program_id, grid, scratch;
  LLVMBasicBlockRef fail; ///< returns the number in fail_number
  kiln_buffer asserts;    ///< owned: what stands in KILN_HOST_ASSERTS of the object
  kiln_elements elements;
  LLVMTypeRef i1, i8, i16, i32, i64, f16, f32, f64, pointer;
  unsigned vector_bytes, vector_registers;
  bool has_half, has_fma; ///< the processor converts f16, multiplies and adds in one
  bool has_pairs;         ///< multiplies pairs of 16 bits and adds the two products
  uint64_t scratch_at, scratch_bytes;
  uint32_t point_count, group_count, walk_count;
  host_point *point;            ///< where pulls happen
  host_group *open;             ///< group that gathers roots
  const host_binding *bindings; ///< newest first
  const kiln_facts *facts;
} host;

/// The whole lowering. No undefined symbols may be left, of memset and memcpy neither.
kiln_status host_lower(const kiln_lowering *l, kiln_error *err);
/// Writes otherwise, in an optimised module, what LLVM would compile wrongly (host_workarounds.c).
void host_work_around(LLVMModuleRef module);

host_value *host_info(const ir_value *v);
/// Makes `x` the value of a scalar.
void host_set_scalar(ir_value *v, LLVMValueRef x);
/// Keeps the first failure.
void host_fail(host *h, kiln_status status, const char *format, ...) KILN_PRINTF(3, 4);
/// The same about one operation, whose place the message then has.
void host_fail_at(host *h, const ir_op *op, kiln_status status, const char *format, ...) KILN_PRINTF(4, 5);

// ---------------------------------------------------------------------- host_build.c: LLVM helpers

unsigned host_log2(unsigned n); ///< rounded down
LLVMTypeRef host_element_type(const host *h, ir_type type);
LLVMTypeRef host_memory_type(const host *h, ir_type type);
unsigned host_memory_bytes(ir_type type);
LLVMValueRef host_splat(host *h, LLVMValueRef scalar, unsigned lanes);
/// Calls an overloaded intrinsic.
LLVMValueRef host_intrinsic(host *h, const char *name, LLVMTypeRef *types, unsigned type_count,
                            LLVMValueRef *args, unsigned arg_count);
LLVMValueRef host_shuffle(host *h, LLVMValueRef a, LLVMValueRef b, const uint32_t *lanes, unsigned count);
LLVMValueRef host_i64(const host *h, int64_t value);
LLVMValueRef host_stack(host *h, LLVMTypeRef type);
/// A pointer of the object, with this at the end of its symbol, that the loader sets: no constant for the compiler, though
/// nothing here writes it.
LLVMValueRef host_set_by_loader(host *h, const char *suffix);
host_buffer *host_buffer_create(host *h, ir_type type);
LLVMBasicBlockRef host_block(host *h, const char *name);
/// A constant of an IR type.
LLVMValueRef host_constant(host *h, ir_type type, uint64_t bits);

/// `for counter in 0 .. count step`; the body is built between the two calls. With count == step nothing
/// loops.
typedef struct host_loop {
  LLVMBasicBlockRef head, body, done;
  LLVMValueRef counter;
  uint64_t count, step;
} host_loop;
void host_loop_begin(host *h, host_loop *loop, uint64_t count, uint64_t step);
void host_loop_end(host *h, host_loop *loop);

// ------------------------------------------------------------ host_float.c: narrow and wide floats

/// f16 or bf16 bits to f32; f32 as it is.
LLVMValueRef host_widen(host *h, kiln_scalar scalar, LLVMValueRef bits);
/// f32 to the bits of f16 or bf16, nearest even; f32 as it is.
LLVMValueRef host_narrow(host *h, kiln_scalar scalar, LLVMValueRef value);
/// Conversions among f16, f32 and f64, but for f64 to f16.
LLVMValueRef host_float_cast(host *h, kiln_scalar from, kiln_scalar to, ir_round round, LLVMValueRef x);

// ------------------------------------------- host_element.c: one operation, as the host does it

extern const kiln_element_machine host_element_machine;

// ----------------------------------------------------------------- host_pull.c: elements on demand

host_map host_identity(unsigned bits);
void host_point_init(host *h, host_point *point, unsigned lanes_log2);
void host_point_digit(host_point *point, LLVMValueRef counter, unsigned first, unsigned count);
/// Elements of `v` at the current point under `map`.
host_lanes host_pull(host *h, ir_value *v, const host_map *map);
/// The same of an i32 or i64 offset as exact i64.
host_lanes host_pull_wide(host *h, ir_value *v, const host_map *map);
/// The lanes as one vector (a scalar at a point of one lane).
LLVMValueRef host_vector(host *h, host_lanes x);
LLVMValueRef host_pull_vector(host *h, ir_value *v, const host_map *map);
/// The one element of a tile with one element, or a scalar.
LLVMValueRef host_pull_scalar(host *h, ir_value *v);
/// Index of the element under `map`, as i64.
host_lanes host_index(host *h, const host_map *map);
/// Operation on lanes; keeps uniform and affine forms where it can.
host_lanes host_lanes_of(host *h, const ir_op *op, const host_lanes *operands);
/// Where the operand's index bits come from when those of result `index` come from `map`.
host_map host_operand_map(const ir_op *op, uint32_t operand, uint32_t result, const host_map *map);
/// i1: all lanes of mask `v` hold at the current point.
LLVMValueRef host_all_true(host *h, ir_value *v, const host_map *map);

// --------------------------------------------------------- host_wait.c: waiting for other instances

typedef struct host_wait {
  LLVMValueRef turns; ///< stack slot, i32
} host_wait;
/// Whether a `while` only waits.
bool host_wait_is(host *h, const ir_op *loop);
/// Before the loop, at the begin of each further turn, and after the loop.
void host_wait_begin(host *h, host_wait *w);
void host_wait_turn(host *h, const host_wait *w);
void host_wait_end(host *h, const host_wait *w);

// ------------------------------------------------------------- host_memory.c: user memory, buffers

host_lanes host_load(host *h, const ir_op *op, const host_map *map);
void host_store(host *h, const ir_op *op, const host_map *map);
host_lanes host_buffer_load(host *h, const host_buffer *buffer, const host_map *map);
/// Writes lanes at a buffer's elements named by `map`.
void host_buffer_store(host *h, const host_buffer *buffer, const host_map *map, host_lanes x);
/// Scalar forms, also of whole tiles element by element: atomic, cas.
void host_atomic(host *h, ir_op *op);
void host_barrier(host *h);

// ----------------------------------------------------------------- host_group.c: loops over chunks

/// Adds a root to the open group, or to a new one when it does not fit.
void host_add_root(host *h, const host_root *root, ir_type space, uint32_t reduced);
/// Emits the open group.
void host_flush(host *h);
/// Forgets where values were kept since `until` was the newest binding.
void host_unbind(host *h, const host_binding *until);
/// Keeps `v` in a new buffer (at once), until the region ends in which the walk stands.
host_buffer *host_keep_now(host *h, ir_value *v);
/// The same for whoever writes there.
host_buffer *host_copied(host *h, ir_value *v);
/// True when pulling `op`'s operands needs results of the open group.
bool host_waits(const host *h, const ir_op *op);

// ----------------------------------------------------------------- host_pack.c: factors of products

/// Whether the factors of a product of bytes are packed as pairs.
bool host_pack_pairs(const host *h, const ir_op *dot);
/// The factor of a product on `side`, packed now unless that was done before the loop. `panel`: log2 of the
/// columns of a panel.
host_factor host_pack(host *h, ir_value *v, kiln_scalar to, bool pairs, unsigned side, unsigned panel);
void host_pack_chunk(host *h, const host_root *root);
void host_pack_end(host *h, const host_root *root);

// ---------------------------------------------------------------------------- the other operations

void host_reduce_begin(host *h, host_root *root);
void host_reduce_chunk(host *h, host_root *root, const host_map *map);
void host_reduce_end(host *h, host_root *root, const host_group *group);
uint32_t host_axis_bits(ir_type type, unsigned axis, unsigned *out_first);
void host_combine_lanes(host *h, const ir_op *op, const LLVMValueRef *a, const LLVMValueRef *b,
                        LLVMValueRef *out);
void host_scan(host *h, ir_op *op);
void host_sort(host *h, ir_op *op);
void host_gather(host *h, ir_op *op);
void host_scatter(host *h, ir_op *op); ///< host_scatter.c
void host_dot(host *h, ir_op *op);
/// Packs what products inside `loop` multiply by in each turn, and forgets it after the loop.
void host_dot_before(host *h, const ir_op *loop);
void host_dot_after(host *h, const ir_op *loop);
void host_for(host *h, ir_op *op);
/// The constant or spread scalar by which argument `arg` of a loop grows each turn; NULL: it does not.
const ir_value *host_growth(const ir_value *arg, const ir_value *yielded);
void host_while(host *h, ir_op *op);
void host_if(host *h, ir_op *op);
void host_block_emit(host *h, ir_block *block);

// ----------------------------------------------------------------------- host_plan.c: what is kept

/// Numbers the kernel, gives every value its host_value, and decides which lazy values are kept.
void host_plan(host *h);
/// What an operation does where it stands (host_ops.def).
typedef enum host_role { HOST_NOW, HOST_LAZY, HOST_ROOT, HOST_ALONE } host_role;
host_role host_role_of(const ir_op *op);
/// True when a tile operation emits nothing where it stands.
bool host_is_lazy(const ir_op *op);
/// True when the elements of a lazy operation are those of its operands at the same index.
bool host_keeps_index(const ir_op *op);
/// Whether pulling an element of a value reads a buffer, and whether at another index.
typedef struct host_reads {
  bool any, moved;
} host_reads;
host_reads host_reads_of(host *h, ir_value *v, const host_buffer *buffer);
/// Sets when the results of a lazy operation can be pulled.
void host_set_ready(const ir_op *op);
/// True when load and write may touch the same memory in an order that matters. `in_place`: both happen for
/// one element in one chunk, so that only accesses through one parameter at different addresses matter.
bool host_conflict(const host *h, const ir_op *load, const ir_op *write, bool in_place);

#endif
