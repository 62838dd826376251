// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The choice of layouts: which tiles of a kernel have a place of their own in registers, and which layout
// they have there. A pass (`layouts`); no LLVM here.
//
// Loads, reductions, products, loop-carried values, and elementwise operations on them get a layout here
// (ir_value.layout). Indices, splats, shape operations, and elementwise operations on those get none: they
// follow their users.
//
// What operations take follows from what is chosen (ir_op.operand_layouts). The pass after it, `conversions`, makes
// operands agree with that, and gives the rest its layouts.
#ifndef KILN_COMPILER_PASSES_GPU_LAYOUTS_H
#define KILN_COMPILER_PASSES_GPU_LAYOUTS_H

#include "compiler/analysis/facts.h"
#include "compiler/layout/layout.h"
#include "compiler/passes/gpu/gpu.h"

enum {
  KILN_MOST_VECTOR_BYTES = 16,    ///< of one access; exchanges through shared memory begin at a multiple
  KILN_MOST_TILE_REGISTERS = 1024 ///< of 32 bits and 32 lanes that one tile may take in a thread
};

/// Tiles of one shape that are loaded or stored along one axis.
typedef struct kiln_shape {
  struct kiln_shape *next;
  ir_type type;
  unsigned axis, vector;
  unsigned reduced; ///< set of 1 << axis along which tiles of the shape are reduced
} kiln_shape;

/// A tile in registers.
static inline bool kiln_is_tile(const ir_value *value) {
  return value->type.rank && !value->type.is_view && !value->type.slots;
}

/// The product that a load's value goes to in a loop (IR_FEEDS).
typedef struct kiln_feed {
  const ir_op *dot; ///< as operand `operand`; NULL: none that is known
  unsigned operand;
  bool is_stored; ///< on its way it goes to a slot
  bool waits;     ///< not issued where it stands, but when what it follows has left its registers
} kiln_feed;

/// In what pieces a fetch copies its tile: what lies together in global memory and in the slot.
typedef struct kiln_fetch_pieces {
  struct kiln_fetch_pieces *next;
  const ir_op *fetch;
  unsigned vector; ///< elements of a piece, logarithm
  uint32_t inside; ///< register bits of the elements in a piece
} kiln_fetch_pieces;

/// How the tiles of an `alloc` lie in its slots.
typedef struct kiln_slot_layouts {
  kiln_layout writer, reader; ///< of the threads that fill a slot, and that a product wants
  bool has_reader;
  bool is_exchange;   ///< for one product, which stands right after the stores
  bool is_by_bytes;   ///< slots are named by their distance from the first
  bool is_for_unit;   ///< `mma` reads them: pieces of 16 bytes are exchanged within eight rows
  uint8_t log2_bytes; ///< of an element
  layout_memory memory;
  uint32_t start, bytes, end; ///< of the first slot; of one slot; of all, as places in shared memory
  kiln_fetch_pieces *fetches; ///< kiln_plan_fetch
} kiln_slot_layouts;

/// A load once more, in another layout that users want.
typedef struct kiln_direct_load {
  struct kiln_direct_load *next;
  kiln_layout layout;
  ir_value *value;
} kiln_direct_load;

/// What is known of a value besides its layout.
typedef struct kiln_layout_notes {
  kiln_layout home;   ///< ir_value.layout points to it
  kiln_layout wanted; ///< with is_wanted: the layout of an access that uses it as address
  bool is_wanted;
  bool is_met;                      ///< is_wanted by an elementwise operation, and by no access
  kiln_feed feed;                   ///< of what is loaded, or stored to a slot
  kiln_slot_layouts *slots;         ///< of an `alloc`
  struct kiln_dot_layouts *product; ///< of the result of a dot
  bool is_full;                     ///< of the counter of a `for`: kiln_loop_is_full
  kiln_direct_load *direct;         ///< of what is loaded: layouts in which it is loaded, too
  bool is_kept;                     ///< the same: somebody wants it in its layout
  bool is_shifted;  ///< loaded for a product in whole pieces of 16 bytes, in which its rows begin anywhere
  bool is_deferred; ///< made by the reduction that it goes to, a part of the registers at a time
} kiln_layout_notes;

/// The choice for one kernel, and what it rests on.
typedef struct kiln_layouts {
  kiln_arena *arena; ///< the kernel's
  ir_kernel *kernel;
  kiln_fetch_machine machine;
  kiln_facts *facts;
  unsigned lanes, warps; ///< logarithms
  bool has_products;     ///< by matrix instructions that take fragments
  unsigned dots;         ///< operations `dot`
  kiln_shape *shapes;
  kiln_layout_notes **notes; ///< by ir_value.id
} kiln_layouts;

/// Holds what the pass `layouts` leaves against the kernel: each layout reaches every element of its tile and
/// fits the block, no register holds what another one has, and what loops and branches carry has one layout.
kiln_status kiln_layouts_verify(const ir_kernel *kernel, kiln_error *err);
/// The same of what `conversions` leaves, and that every operand lies as it is taken.
kiln_status kiln_conversions_verify(const ir_kernel *kernel, bool is_exchanged, kiln_error *err);

// ------------------------------------------------------------------------------------ conversions.c

/// Notes go by numbers, and values get new ones: what is known before a pass makes values, for after it.
typedef struct kiln_kept_notes {
  kiln_layouts *c;
  ir_value **values;         ///< arena
  kiln_layout_notes **notes; ///< arena
  uint32_t count;
} kiln_kept_notes;

/// Numbers the kernel, which clears slots.
kiln_kept_notes kiln_layouts_keep_notes(kiln_layouts *c);
/// Numbers it again, gives each value what was kept, new ones notes that say nothing, and computes facts.
void kiln_layouts_number_again(const kiln_kept_notes *k);

/// A sum of a base and offsets is made anew of the offsets, which are smaller than what it comes to.
static inline bool kiln_is_sum_of_base(const ir_op *op) {
  return op && op->code == IR_PTRADD && op->operands[0]->def && op->operands[0]->def->code == IR_SPLAT;
}

// ----------------------------------------------------------------------------- access.c, what is offered

/// The layout in which the value comes cheapest; false when it does not matter.
bool kiln_layout_offered(const ir_value *value, kiln_layout *out);
kiln_layout kiln_layout_default(const kiln_layouts *c, ir_type type);
/// What an operand is offered in, else the default of its type.
kiln_layout kiln_layout_of_operand(const kiln_layouts *c, const ir_value *value);

/// What an elementwise or shape operation takes its tiles in, so that its results come in `layout`.
kiln_layout kiln_layout_before(const ir_op *op, const kiln_layout *layout);

// ------------------------------------------------------------------------------------ product_loops.c

/// Registers of 32 bits that a thread may have when the kernel's block is to fit; 0: the assembler finds out.
unsigned kiln_thread_registers(const kiln_layouts *c);
/// Finds the loops that leave little of a thread's registers.
void kiln_layouts_find_full_loops(kiln_layouts *c);
/// The loop around the product is full, and does not change its left operand: that stays as it lies and is
/// stored to shared memory (store_operands.c) or, without room there, exchanged in every iteration.
bool kiln_dot_spares_registers(const kiln_layouts *c, const ir_op *dot);
static inline bool kiln_loop_is_full(const kiln_layouts *c, const ir_op *loop) {
  return c->notes[ir_for_counter(loop)->id]->is_full;
}

// ------------------------------------------------------------------------------------------ defer.c

/// A load, and what is computed of it element by element, on the way to a reduction that alone needs it.
enum { KILN_MOST_CHAINED = 16 };
typedef struct kiln_chain {
  ir_op *load;
  ir_op *ops[KILN_MOST_CHAINED]; ///< the first takes what was loaded
  unsigned count;
  unsigned registers; ///< logarithm of those of a part
} kiln_chain;
/// The chain that is deferred until this reduction; false: none.
bool kiln_chain_of(const kiln_layouts *c, ir_op *reduce, kiln_chain *out);

// ----------------------------------------------------------------------------------------- access.c

/// Looks at all accesses of the kernel; before homes are chosen.
void kiln_layouts_collect(kiln_layouts *c);
/// The axis along which an access is a vector.
/// The value of a load is a matrix that lies across the index its product sums over, and turns as it is read from shared
/// memory.
bool kiln_turns_later(const kiln_layouts *c, const ir_op *load, const kiln_feed *feed);
unsigned kiln_access_axis(const kiln_layouts *c, const ir_op *op);
/// The layout of a memory operation's tiles.
kiln_layout kiln_layout_of_access(const kiln_layouts *c, const ir_op *op);
/// What a warp takes to access a tile in a layout.
typedef struct kiln_access_cost {
  unsigned instructions;
  unsigned accesses; ///< of 128 bytes at most, or as many as there are separate rows
  unsigned segment;  ///< bytes in a row that one instruction touches
} kiln_access_cost;
kiln_access_cost kiln_access_cost_of(const kiln_layouts *c, const ir_op *op, const kiln_layout *layout);
/// Bytes of what a pointer, or each pointer of a tile, leads to.
unsigned kiln_pointee_bytes(ir_type pointer);
/// A tile access cut into pieces of consecutive elements.
typedef struct kiln_pieces {
  unsigned vector; ///< elements of a piece, logarithm
  uint8_t bits[8]; ///< of the register's number, those of the elements in a piece, in order
  uint32_t mask;   ///< of those register bits
  bool is_shifted; ///< they begin anywhere: each lies in two pieces of 16 bytes, or in one
  unsigned known;  ///< of these: elements of whose multiples each begins at one, logarithm
} kiln_pieces;
/// With `whole`, as if all lanes were live.
kiln_pieces kiln_pieces_of(const kiln_layouts *c, const ir_op *op, const kiln_layout *layout, bool whole);
/// The register of element `i` of the piece that begins at register `r`.
uint32_t kiln_piece_register(const kiln_pieces *p, uint32_t r, unsigned i);

// --------------------------------------------------------------------------------------- products.c

/// Logarithms of one dot, and how its tiles lie.
typedef struct kiln_dot_shape {
  unsigned batch, m, n, k;
  ir_type left, right, accumulator;
} kiln_dot_shape;

/// How many bits of each direction go to warps and, above one instruction, to registers.
typedef struct kiln_dot_split {
  unsigned warp_batch, warp_m, warp_n;
  unsigned reg_batch, reg_m, reg_n, reg_k;
  /// The bit of the reduced index that stands for bit i of the instruction's, and after those for the steps.
  uint8_t order[LAYOUT_MAX_BITS];
} kiln_dot_split;

/// ldmatrix: 8 rows of 16 bytes a matrix. Each lane names a row; a thread gets a word of a row (plain), so
/// that elements may have any size up to that, or two neighbours of 16 bits of a column (transposed).
/// `address` is the layout of those rows: registers are the row's elements, then what is left of the
/// reader's; lanes are the row number, then up to two matrix bits.
typedef struct kiln_matrix_load {
  bool is_transposed;
  unsigned word;     ///< elements of a word, logarithm
  unsigned matrices; ///< logarithm
  unsigned wanted; ///< elements of a row that shall lie together, logarithm: as many as are read, or written
  unsigned row_bits; ///< elements of a row, logarithm
  uint32_t row[4];   ///< of its elements, row_bits of them
  kiln_layout address;
} kiln_matrix_load;

/// How a tile is read from its slot: by matrix loads, or in pieces.
typedef struct kiln_slot_read {
  kiln_layout to; ///< in which it is wanted
  bool is_matrix;
  kiln_matrix_load plan; ///< with is_matrix
} kiln_slot_read;

/// An operand of a product by matrix instructions that is read a step at a time. `load` NULL: it is in registers.
typedef struct kiln_dot_source {
  ir_value *load; ///< of a `slot_load`
  kiln_slot_read read;
} kiln_dot_source;

typedef struct kiln_dot_layouts {
  const kiln_matrix_form *form; ///< the instruction that computes it; NULL: none does
  kiln_layout left, right, accumulator;
  bool turns[2];              ///< of operands that are loaded in a loop: kiln_turns_later
  kiln_dot_split split;       ///< of matrix instructions
  kiln_dot_source sources[2]; ///< kiln_plan_product
} kiln_dot_layouts;

kiln_dot_shape kiln_dot_shape_of(const ir_op *op);
/// The matrix instruction that computes it; NULL: none does.
const kiln_matrix_form *kiln_dot_form(const kiln_layouts *c, const ir_op *op);
/// The instruction takes rows and columns alike: exchanged operands give the exchanged product.
bool kiln_form_is_symmetric(const kiln_matrix_form *f);
/// Chooses how the tiles of a dot lie, by its form and by how its operands are offered now.
void kiln_dot_choose_layouts(const kiln_layouts *c, const ir_op *op, kiln_dot_layouts *l);

/// How an accumulator of `mma` is spread over groups of four warps. Logarithms.
typedef struct kiln_mma_split {
  unsigned groups_m, groups_n; ///< groups over rows and columns
  unsigned blocks;             ///< pieces of 64 rows that a group has, one below the other
  unsigned columns;            ///< of a group
} kiln_mma_split;
kiln_mma_split kiln_mma_split_of(const kiln_layouts *c, ir_type accumulator);
/// The layout of an accumulator: a group has 64 << blocks rows in a row; of each 64 a warp has 16.
kiln_layout kiln_layout_of_accumulator(const kiln_layouts *c, ir_type accumulator);
/// Of a left operand of 16-bit elements that comes in registers.
kiln_layout kiln_layout_of_mma_left(const kiln_layouts *c, ir_type left, const kiln_mma_split *split);

// ---------------------------------------------------------------- product_loops.c, shared_layouts.c, row_layouts.c

/// Finds the products of loads with IR_FEEDS, where loads complete in order.
void kiln_layouts_note_feeds(kiln_layouts *c);
/// Moves the block's loads that wait (kiln_feed.waits) to their products; after kiln_layouts_find_full_loops.
void kiln_layouts_place_feeds(kiln_layouts *c, ir_block *block);

/// A tile in another shape, which a product reads where the tile itself lies.
bool kiln_is_reshaped(const ir_op *op);
kiln_slot_layouts *kiln_slot_layouts_of(const kiln_layouts *c, const ir_value *memory);
/// What a fetch or a store writes into slots, what a product by matrix instructions reads from them.
void kiln_slots_are_fetched(kiln_layouts *c, const ir_op *fetch, const kiln_layout *layout);
void kiln_slots_are_stored(kiln_layouts *c, const ir_op *store);
void kiln_slots_are_read(kiln_layouts *c, const ir_op *dot, const kiln_dot_layouts *l);

/// The layout in which a reduction takes its operands; `axis`: mask of the axis.
kiln_layout kiln_layout_of_reduction(const kiln_layouts *c, const ir_op *op, uint32_t axis);
/// The layout that the results of a sort and of a gather have, and of the source that a gather reads.
kiln_layout kiln_layout_of_sort(const kiln_layouts *c, const ir_op *op);
kiln_layout kiln_layout_of_gather(const kiln_layouts *c, const ir_op *op);

#endif
