// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernel IR: typed SSA values over tiles, structured control flow, one kernel at a time.
//
// Both front ends build it, the canonical form encodes it, every pass and back end reads it. Nothing in it
// names a source, a position is a remark only. All of a kernel lives in one arena; nothing is freed singly.
//
// Shape of a kernel: `body` is a block whose arguments are the parameters in order. A block is a list of
// operations. An operation with regions holds one block a region; values of outer blocks are visible in inner
// ones. There is no return: the body just ends.
//
// clang-format off
//   for           operands lo, hi, step, initial...  region 0 (iv, carried...) ends in yield(carried...)      results: carried
//   while         operands initial...                region 0 (carried...) ends in cond(c, passed...)         results: passed
//                                                    region 1 (passed...) ends in yield(carried...)
//   if            operand c                          regions 0 then, 1 else, both end in yield(values...)     results: values
//   reduce, scan  KILN_COMBINE_REGION                region 0 (a0..an-1, b0..bn-1, scalars) ends in yield(n)  a: earlier, b: later
// clang-format on
#ifndef KILN_COMPILER_IR_H
#define KILN_COMPILER_IR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/check.h"
#include "base/status.h"
#include "base/types.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/ir_layout.h"
#include "compiler/ir/launch_tests.h"

// ------------------------------------------------------------------------------------------- types

enum {
  IR_MAX_LOG2_ELEMENTS = 20,
  IR_DROPPED =
      0xff, ///< log2 of an axis of a view's tile that is written `_`: extent 1 and absent from loaded tiles
};

/// A type is a value; unused bytes are zero, so memcmp compares. Extents are powers of two and are kept as
/// logarithms.
typedef struct ir_type {
  uint8_t scalar;  ///< kiln_scalar
  uint8_t pointer; ///< 0: the scalar itself, 1: *T, 2: **T
  uint8_t is_view; ///< a view: rank and log2 describe the tile that one load takes
  uint8_t rank;    ///< 0: not a tile
  uint8_t log2[IR_MAX_RANK];
  uint8_t slots; ///< shared memory of that many tiles (or of barriers, whose scalar is i64); 0: a value or
                 ///< view. Only machine operations make and take such types
} ir_type;

/// The integer of 1, 8, 16, 32 or 64 bits.
kiln_scalar ir_integer_of(unsigned bits);
ir_type ir_scalar_type(kiln_scalar scalar);
ir_type ir_pointer_type(kiln_scalar scalar);
/// `shape_of` with another element (scalar and pointer depth taken from `element`).
ir_type ir_with_element(ir_type shape_of, ir_type element);
/// The element of a tile, with rank 0.
ir_type ir_element(ir_type type);
/// What a pointer (or each pointer of a tile) points to.
ir_type ir_pointee(ir_type type);
/// The tile that a load through a view yields: dropped axes left out.
ir_type ir_view_tile(ir_type view);
bool ir_type_equal(ir_type a, ir_type b);
bool ir_same_shape(ir_type a, ir_type b);
/// Shared memory of `slots` tiles like `tile`, and of `slots` barriers.
ir_type ir_memory_type(ir_type tile, unsigned slots);
ir_type ir_barrier_type(unsigned slots);
/// log2 of the number of elements.
unsigned ir_log2_elements(ir_type type);
/// KILN_CLASS_ bit of the element; POINTER for pointers.
unsigned ir_type_class(ir_type type);
/// Bits of one element; 64 for pointers.
unsigned ir_type_bits(ir_type type);
/// "f32[128, 64]", "*f16", "view bf16[64, _]". Returns `out`.
enum { IR_TYPE_TEXT = 160 };
const char *ir_type_text(ir_type type, char out[IR_TYPE_TEXT]);

// -------------------------------------------------------------------------------------- operations

typedef enum ir_stage { IR_STAGE_TILE, IR_STAGE_MACHINE } ir_stage;

typedef enum ir_opcode {
#define OP(code, text, sign, least, most, results, effect, classes, rule, stage, properties) IR_##code,
#include "compiler/ir/ops.def"
#undef OP
  IR_OPCODE_COUNT,
  /// Rows of the tile stage come first in ops.def and are as many as this.
  IR_TILE_COUNT = 0
#define OP(code, text, sign, least, most, results, effect, classes, rule, stage, properties) \
  +(IR_STAGE_##stage == IR_STAGE_TILE)
#include "compiler/ir/ops.def"
#undef OP
} ir_opcode;

typedef enum ir_effect { IR_PURE, IR_READ, IR_WRITE, IR_SYNC, IR_FACT, IR_CONTROL } ir_effect;

typedef enum ir_rule {
  IR_RULE_NONE,
  IR_RULE_I32SCALAR,
  IR_RULE_I64SCALAR,
  IR_RULE_GIVEN,
  IR_RULE_IOTA,
  IR_RULE_SPLAT,
  IR_RULE_SAME,
  IR_RULE_BOOL,
  IR_RULE_SELECT,
  IR_RULE_CAST,
  IR_RULE_BITCAST,
  IR_RULE_EXPAND,
  IR_RULE_BROADCAST,
  IR_RULE_RESHAPE,
  IR_RULE_TRANS,
  IR_RULE_JOIN,
  IR_RULE_SPLIT,
  IR_RULE_REDUCE,
  IR_RULE_SCAN,
  IR_RULE_PTRADD,
  IR_RULE_LOAD,
  IR_RULE_STORE,
  IR_RULE_ATOMIC,
  IR_RULE_CAS,
  IR_RULE_VIEW,
  IR_RULE_BASE,
  IR_RULE_VIEWLOAD,
  IR_RULE_VIEWSTORE,
  IR_RULE_DOT,
  IR_RULE_FOR,
  IR_RULE_WHILE,
  IR_RULE_IF,
  IR_RULE_COPY,
  IR_RULE_BARRIER,
  IR_RULE_MMA,
  IR_RULE_WAIT,
  IR_RULE_CLUSTER,
  IR_RULE_ROLES,
  IR_RULE_FETCH,
  IR_RULE_SLOT,
  IR_RULE_MEMORY,
  IR_RULE_PUT,
  IR_RULE_SORT,
  IR_RULE_GATHER,
  IR_RULE_SCATTER,
  IR_RULE_PRINT,
} ir_rule;

/// Bits of the last column of ops.def, where each is explained.
typedef enum ir_property {
  IR_EACH = 1 << 0,
  IR_COMMUTES = 1 << 1,
  IR_DEAR = 1 << 2,
  IR_INEXACT = 1 << 3,
  IR_RENAMES = 1 << 4,
  IR_PASSES = 1 << 5,
  IR_ASSOCIATES = 1 << 6,
  IR_REPEATS = 1 << 7,
  IR_CANCELS = 1 << 8,
  IR_UNIT_0 = 1 << 9,
  IR_UNIT_1 = 1 << 10,
  IR_UNIT_ONES = 1 << 11,
  IR_ENDS_0 = 1 << 12,
  IR_ENDS_ONES = 1 << 13,
} ir_property;

typedef struct ir_op_info {
  char text[16], sign[4];
  int8_t least, most, results;
  uint8_t effect, classes, rule, stage;
  uint16_t properties; ///< ir_property
} ir_op_info;

/// One row per operation, indexed by ir_opcode.
extern const ir_op_info ir_ops[IR_OPCODE_COUNT];

/// Numbers of machine operations, in whatever is written to be read back; numbers of the tile stage stay
/// below.
enum { IR_MACHINE_NUMBER = 4096 };

static inline bool ir_has(ir_opcode code, ir_property property) {
  return (ir_ops[code].properties & property) != 0;
}

static inline uint32_t ir_number_of_code(ir_opcode code) {
  return code < IR_TILE_COUNT ? code : IR_MACHINE_NUMBER + code - IR_TILE_COUNT;
}

/// False when no operation has that number.
static inline bool ir_code_of_number(uint64_t number, ir_opcode *out_code) {
  uint64_t code = number < IR_MACHINE_NUMBER ? number : number - IR_MACHINE_NUMBER + IR_TILE_COUNT;
  if (number < IR_MACHINE_NUMBER ? code >= IR_TILE_COUNT : code >= IR_OPCODE_COUNT) return false;
  *out_code = (ir_opcode)code;
  return true;
}

typedef enum ir_predicate {
  IR_EQ,
  IR_NE,
  IR_LT,
  IR_LE,
  IR_GT,
  IR_GE
} ir_predicate; // floats: ordered, NE is unordered

/// Their spellings between two operands, indexed by ir_predicate.
extern const char ir_predicate_signs[][3];

/// Kinds of reduce, scan and atomic, and what is known of them.
typedef enum ir_combine {
#define COMBINE(code, ...) IR_COMBINE_##code,
#include "compiler/ir/combines.def"
#undef COMBINE
} ir_combine;
enum {
#define COMBINE(...) +1
  IR_COMBINE_COUNT = 0
#include "compiler/ir/combines.def"
#undef COMBINE
};

typedef struct ir_combine_info {
  const char *text;
  ir_opcode operation; ///< IR_OPCODE_COUNT: none
  uint8_t classes, least_int, least_float;
  bool is_idempotent;
} ir_combine_info;

extern const ir_combine_info ir_combines[IR_COMBINE_COUNT];
/// Whether an atomic may combine in this way what has the type.
bool ir_atomic_takes(ir_combine kind, kiln_scalar scalar);

typedef struct ir_value ir_value;
typedef struct ir_op ir_op;
typedef struct ir_block ir_block;

/// Where an operation comes from, for messages only. Line 0: unknown. `operation`: 1 + its number in the
/// canonical form, which is how messages of every stage name it; 0: the operation is of the canonical form
/// itself.
typedef struct ir_place {
  uint32_t line, column, operation;
} ir_place;

struct ir_value {
  ir_type type;
  ir_op *def;                ///< NULL for a block argument
  ir_block *block;           ///< of a block argument, else NULL
  uint32_t index;            ///< which result or argument
  uint32_t id;               ///< set by ir_number: dense, in order of the text
  uint32_t uses;             ///< set by ir_count_uses
  ir_value *forward;         ///< non-NULL: replaced by that value; see ir_apply_forwards
  void *slot;                ///< free for the stage that runs; ir_number clears it
  const kiln_layout *layout; ///< of a tile with a home, set by the pass `layouts` for GPUs; NULL: none
};

struct ir_op {
  ir_opcode code;
  uint32_t operand_count, result_count, region_count;
  ir_value **operands; ///< arena
  ir_value *results;   ///< arena, array
  ir_block **regions;  ///< arena
  ir_op *prev, *next;
  ir_block *block;
  /// One an operand, or NULL: the layouts in which it takes its tiles, set by the pass `layouts` for GPUs.
  /// NULL for what is no tile. Operations whose result has no layout take what their user wants.
  const kiln_layout **operand_layouts;
  ir_place place;
  uint32_t number; ///< set by ir_number: position in the text
  ir_attrs attrs;
};

/// Whether an access of a view, which goes through a tensor map.
static inline bool ir_is_mapped(const ir_op *op) {
  return (op->code == IR_VIEW_LOAD || op->code == IR_VIEW_STORE || op->code == IR_VIEW_ATOMIC) &&
         op->attrs.access.is_mapped;
}

/// What messages call an operation: its number in the canonical form. Where that is not known, the number
/// that ir_number gave it.
static inline uint32_t ir_operation(const ir_op *op) {
  return op->place.operation ? op->place.operation - 1 : op->number;
}

struct ir_block {
  ir_op *first, *last;
  ir_value **args; ///< arena
  uint32_t arg_count, arg_capacity;
  ir_op *parent; ///< NULL for a kernel's body
};

/// The block where the value is made.
static inline const ir_block *ir_home(const ir_value *v) { return v->def ? v->def->block : v->block; }

/// Whether `block` is `outer`, or stands in one of its operations, at any depth.
bool ir_encloses(const ir_block *outer, const ir_block *block);
/// Whether `block` is a region of `op`, or stands in one, at any depth.
bool ir_is_inside(const ir_block *block, const ir_op *op);

/// The operation that makes `v`, where it is a `code`; else NULL.
static inline ir_op *ir_producer(const ir_value *v, ir_opcode code) {
  return v->def && v->def->code == code ? v->def : NULL;
}
/// What `v` is a splat of; NULL: it is none.
static inline ir_value *ir_splat_source(const ir_value *v) {
  const ir_op *op = ir_producer(v, IR_SPLAT);
  return op ? op->operands[0] : NULL;
}

/// Expand, broadcast, reshape, trans, splat: operand 0 with its elements at other places.
static inline bool ir_is_renaming(const ir_op *op) {
  return ir_has(op->code, IR_RENAMES) && op->operand_count == 1 && op->result_count == 1;
}

// -------------------------------------------------------------------- parts of control operations

// What stands where in loops and branches, so that no one else counts operands. A loop carries `i` below
// ir_carried_count: it begins as ir_loop_initials()[i], is ir_loop_args()[i] inside, and
// ir_loop_next(op)->operands[i] goes into the next turn.

enum { IR_FOR_BOUNDS = 3 }; ///< operands of a `for` before the carried values

static inline bool ir_is_loop(const ir_op *op) { return op->code == IR_FOR || op->code == IR_WHILE; }
static inline bool ir_is_terminator(const ir_op *op) { return op->code == IR_YIELD || op->code == IR_COND; }

static inline ir_value *ir_for_lower(const ir_op *op) {
  KILN_ASSERT_DEEP(op->code == IR_FOR);
  return op->operands[0];
}
static inline ir_value *ir_for_upper(const ir_op *op) {
  KILN_ASSERT_DEEP(op->code == IR_FOR);
  return op->operands[1];
}
static inline ir_value *ir_for_step(const ir_op *op) {
  KILN_ASSERT_DEEP(op->code == IR_FOR);
  return op->operands[2];
}
static inline ir_value *ir_for_counter(const ir_op *op) {
  KILN_ASSERT_DEEP(op->code == IR_FOR);
  return op->regions[0]->args[0];
}

/// Operands of a loop, and arguments of its first region, before the carried values.
static inline uint32_t ir_loop_bounds(const ir_op *op) {
  KILN_ASSERT_DEEP(ir_is_loop(op));
  return op->code == IR_FOR ? IR_FOR_BOUNDS : 0;
}
static inline uint32_t ir_loop_counters(const ir_op *op) { return op->code == IR_FOR; }
static inline uint32_t ir_carried_count(const ir_op *op) { return op->operand_count - ir_loop_bounds(op); }
static inline ir_value **ir_loop_initials(const ir_op *op) { return op->operands + ir_loop_bounds(op); }
/// Carried values as a turn begins: of a `while`, as its test begins.
static inline ir_value **ir_loop_args(const ir_op *op) { return op->regions[0]->args + ir_loop_counters(op); }
/// The region whose end goes into the next turn.
static inline ir_block *ir_loop_body(const ir_op *op) {
  KILN_ASSERT_DEEP(ir_is_loop(op));
  return op->regions[op->code == IR_WHILE];
}
/// The terminator that hands carried values on to the next turn.
static inline ir_op *ir_loop_next(const ir_op *op) { return ir_loop_body(op)->last; }

/// The test of a `while`: its terminator, the condition and what goes to the second region and the results.
static inline ir_op *ir_while_test(const ir_op *op) {
  KILN_ASSERT_DEEP(op->code == IR_WHILE && op->regions[0]->last->code == IR_COND);
  return op->regions[0]->last;
}
static inline ir_value *ir_cond_condition(const ir_op *test) { return test->operands[0]; }
static inline uint32_t ir_cond_passed_count(const ir_op *test) { return test->operand_count - 1; }
static inline ir_value **ir_cond_passed(const ir_op *test) { return test->operands + 1; }

static inline ir_value *ir_if_condition(const ir_op *op) { return op->operands[0]; }
/// The terminator of a branch: which 0 `then`, 1 `else`. Its operands are the results.
static inline ir_op *ir_if_end(const ir_op *op, unsigned which) {
  KILN_ASSERT_DEEP(op->code == IR_IF && which < 2);
  return op->regions[which]->last;
}

/// The terminator of a combiner (reduce, scan), or NULL where the combination is named.
static inline ir_op *ir_combiner_end(const ir_op *op) {
  return op->region_count ? op->regions[0]->last : NULL;
}

/// Of a `view`, one an axis: extents and strides.
static inline ir_value **ir_view_extents(const ir_op *view) {
  KILN_ASSERT_DEEP(view->code == IR_VIEW);
  return view->operands + 1;
}
static inline ir_value **ir_view_strides(const ir_op *view) {
  return ir_view_extents(view) + view->results[0].type.rank;
}
/// What a `stage`, or the access that becomes one, stages of the tile of its view, of rank 2: its rows are
/// columns of that tile where it is turned.
ir_type ir_staged_type(const ir_op *stage);
/// Elements of an access along axis `axis` of its view; IR_DROPPED axes have one.
int64_t ir_view_count(const ir_op *access, unsigned axis);
/// Of an access through a view, one an axis.
static inline ir_value **ir_view_indices(const ir_op *access) {
  KILN_ASSERT_DEEP(access->operands[0]->type.is_view);
  return access->operands + 1;
}

// ------------------------------------------------------------------------------------------ kernel

typedef enum ir_access {
  IR_ACCESS_NONE,
  IR_ACCESS_IN,
  IR_ACCESS_OUT,
  IR_ACCESS_INOUT,
  IR_ACCESS_ACCUM
} ir_access;

/// A parameter with the facts that callers promise or a variant has tested. They are part of the canonical
/// form.
typedef struct ir_param {
  const char *name; ///< not part of the canonical form
  ir_type type;
  uint8_t access; ///< ir_access; NONE for scalars
  bool noalias, has_range;
  bool within;    ///< a pointer: offsets from it to what is accessed, in bytes, are below 2^31
  uint32_t align; ///< pointer alignment in bytes, a power of two; 0: that of the element
  uint32_t rows;  ///< a view: all strides but the last are multiples of so many bytes, a power of two, and
                  ///< the last is 1; 0: unknown
  int64_t div;    ///< integer is a multiple of this; 0 or 1: unknown
  int64_t lo, hi; ///< with has_range: inclusive bounds; lo == hi is a known value
} ir_param;

enum { IR_GRID_UNKNOWN = 0 };

/// What contradicts itself in a parameter ("is a tile"), or NULL.
const char *ir_param_fault(const ir_param *param);

typedef struct ir_kernel {
  kiln_arena *arena; ///< borrowed; everything below lives in it
  const char *name;  ///< symbol in the object; not part of the canonical bytes, a field of its own in the key
  ir_param *params;
  uint32_t param_count;
  ir_block *body;           ///< its arguments are the parameters
  uint16_t warps;           ///< warps (or waves) a program instance; at least 1, a power of two
  uint16_t stages;          ///< pipeline depth asked for; 0: the target's default
  uint16_t max_registers;   ///< 0: no limit
  bool fp_strict, fp_flush; ///< no contraction; denormals are flushed
  bool groups_beside;       ///< set by promotion: warpgroups share columns, each has all rows
  int64_t grid_limit[3]; ///< largest grid extent an axis can have, if launch expressions show it; 0: unknown
  ir_launch_tests tests;
  struct kiln_layouts *layouts; ///< set by the pass `layouts`, kept by `conversions` (gpu/layouts/layouts.h)
} ir_kernel;

// ---------------------------------------------------------------------------------------- building

/// Appends operations to `block`, or before `before` when that is set. The first failure is kept in `error`;
/// after it every builder call returns NULL and does nothing, so callers may test once a statement.
typedef struct ir_builder {
  kiln_arena *arena; ///< borrowed
  ir_block *block;
  ir_op *before;    ///< NULL: at the end
  ir_place place;   ///< given to new operations
  bool machine;     ///< may emit operations of the machine stage: passes for GPUs alone say so
  kiln_error error; ///< status KILN_OK until something failed
} ir_builder;

/// New operations stand before `op` and get its place.
void ir_build_before(ir_builder *b, ir_op *op);

ir_kernel *ir_kernel_create(kiln_arena *arena, const char *name);
/// Adds a parameter and its block argument; returns the argument.
ir_value *ir_add_param(ir_kernel *kernel, const ir_param *param);

ir_value *ir_block_arg(kiln_arena *arena, ir_block *block, ir_type type);

/// The one way to make an operation: checks operands and attributes, infers result types (ir_infer), appends.
/// `given` is the result type for rules that need one, else NULL. Regions (created by the caller, complete
/// with terminators) may be NULL when region_count is 0. Returns NULL with b->error set when the types do not
/// fit; the message says expected and found.
ir_op *ir_emit(ir_builder *b, ir_opcode code, const ir_attrs *attrs, ir_value *const *operands,
               size_t operand_count, const ir_type *given, ir_block *const *regions, size_t region_count);

// Short forms; each returns the single result.
ir_value *ir_const_bits(ir_builder *b, ir_type scalar_type, uint64_t bits);
ir_value *ir_const_int(ir_builder *b, kiln_scalar scalar, int64_t value);
ir_value *ir_const_float(ir_builder *b, kiln_scalar scalar, double value);
/// A constant in the type of `like`, splatted when that is a tile. `value` is converted (floats: nearest
/// even).
ir_value *ir_const_like(ir_builder *b, ir_type like, double value);
ir_value *ir_unary(ir_builder *b, ir_opcode code, uint32_t flags, ir_value *a);
ir_value *ir_binary(ir_builder *b, ir_opcode code, uint32_t flags, ir_value *left, ir_value *right);
/// `right` is a constant of the type of `left`, a scalar of integers.
ir_value *ir_binary_int(ir_builder *b, ir_opcode code, uint32_t flags, ir_value *left, int64_t right);
ir_value *ir_ternary(ir_builder *b, ir_opcode code, uint32_t flags, ir_value *x, ir_value *y, ir_value *z);
ir_value *ir_compare(ir_builder *b, ir_predicate predicate, uint32_t flags, ir_value *left, ir_value *right);
ir_value *ir_cast(ir_builder *b, ir_value *a, kiln_scalar to, uint32_t flags, ir_round round);
ir_value *ir_bitcast(ir_builder *b, ir_value *a, ir_type element);
ir_value *ir_splat(ir_builder *b, ir_value *scalar, ir_type tile_type);
/// Prints `text`, and after it the value, unless that is NULL. Narrow types are widened; with hexadecimal `digits` floats are
/// printed as their bits, and integers as unsigned ones.
void ir_print_value(ir_builder *b, const char *text, ir_value *v, bool is_unsigned, unsigned digits);
/// What `print` prints after its text; NULL: nothing. The numbers of the program follow it.
static inline ir_value *ir_printed(const ir_op *print) {
  return print->operand_count == 4 ? print->operands[0] : NULL;
}
ir_value *ir_expand(ir_builder *b, ir_value *a, unsigned axis);
ir_value *ir_broadcast(ir_builder *b, ir_value *a, ir_type type);
ir_value *ir_reshape(ir_builder *b, ir_value *a, ir_type type);
ir_value *ir_iota(ir_builder *b, unsigned log2);
/// Ends the builder's block: it stands last there, wherever the builder was.
void ir_yield(ir_builder *b, ir_value *const *values, size_t count);

/// Computes and checks the result types of `op` from its operands, attributes and regions. `out_types` has
/// room for result_count types (at most IR_MAX_RESULTS); `out_count` is set. One place for the typing rules:
/// builder and verifier both call it.
enum { IR_MAX_RESULTS = 256 };
kiln_status ir_infer(const ir_op *op, const ir_type *given, ir_type *out_types, uint32_t *out_count,
                     kiln_error *err);

// -------------------------------------------------------------------------------- walking, editing

/// Calls `visit` for every operation in order of the text, outer before inner. `visit` may remove or replace
/// the operation it is given.
void ir_walk(ir_block *block, void (*visit)(ir_op *op, void *context), void *context);
/// The same as a loop: the operation of the block or of a region in it that follows `op`, with NULL the first.
/// NULL after the last. Operations without regions may be removed once the next is known. What `op` holds ends
/// at `op->next`: for (o = op; o != op->next; o = ir_next(op->block, o)).
ir_op *ir_next(const ir_block *block, const ir_op *op);
/// The operation that follows `op` and all that is inside it; NULL: the block ends there.
ir_op *ir_after(const ir_block *block, const ir_op *op);
/// The first operation with this code in a block and the regions inside it; NULL: there is none.
ir_op *ir_find(const ir_block *block, ir_opcode code);
/// Numbers operations and values densely in order of the text (parameters first), clears slots; returns the
/// number of values.
uint32_t ir_number(ir_kernel *kernel);
/// Sets `uses` of every value.
void ir_count_uses(ir_kernel *kernel);
/// Follows forward links: the value that now stands for `v`.
ir_value *ir_resolve(ir_value *v);
/// Makes `to` stand for `from`, which has the same type.
void ir_forward(ir_value *from, ir_value *to);
/// Rewrites every operand through its forward link.
void ir_apply_forwards(ir_kernel *kernel);
/// Puts `op`, which is in no block, before `before`, or at the end of `block` when that is NULL.
void ir_insert(ir_op *op, ir_block *block, ir_op *before);
/// Takes `op` out of its block. Its results must be unused or forwarded.
void ir_remove(ir_op *op);
/// Takes `op` out of its block and inserts it before `position` (of any block), or at the end of `block` when
/// position is NULL.
void ir_move(ir_op *op, ir_block *block, ir_op *position);
/// A deep copy of `op` at the builder's place, with operands mapped: any value whose slot is non-NULL is
/// replaced by (ir_value *)slot. Sets the slots of copied results and block arguments to their copies.
ir_op *ir_clone(ir_builder *b, const ir_op *op);

/// A deep copy in the same arena; names and places are shared. Numbers the kernel, which clears slots.
ir_kernel *ir_kernel_copy(ir_kernel *kernel);
/// Which operand of the `view` that made its operand a `view_base`, `dim` or `view_stride` is.
uint32_t ir_view_part(const ir_op *op);
/// The terminator of a block, or NULL.
ir_op *ir_terminator(const ir_block *block);
/// True when operation and everything inside is free of effects.
bool ir_is_pure(const ir_op *op);
bool ir_attrs_equal(ir_opcode code, const ir_attrs *a, const ir_attrs *b);

/// True when `v` is a constant or a splat of one (also through expand, broadcast, reshape); its bits in
/// `out_bits`.
bool ir_constant_bits(const ir_value *v, uint64_t *out_bits);
/// The same as a sign-extended integer; false for other classes.
bool ir_constant_int(const ir_value *v, int64_t *out_value);
/// The same as a double; false for integers.
bool ir_constant_float(const ir_value *v, double *out_value);
/// Whether `v`, or the value that stands for it now, is such a constant and all its bits are zero.
bool ir_is_zero(const ir_value *v);

/// Conversions between a double and a bit pattern of a float type (nearest even; fp8: OCP e4m3fn and e5m2,
/// saturating when asked).
uint64_t ir_float_to_bits(kiln_scalar scalar, double value, bool saturate);
double ir_bits_to_float(kiln_scalar scalar, uint64_t bits);

/// Checks the whole kernel: types by ir_infer, dominance, terminators, region shapes, parameters. The message names
/// operation number and stage.
kiln_status ir_verify(ir_kernel *kernel, const char *stage, kiln_error *err);

/// What a kernel is at fault in.
typedef struct ir_fault {
  const ir_op *op; ///< NULL: the kernel as a whole
  char text[KILN_ERROR_TEXT];
} ir_fault;

/// The same, and which operation it is. `out_fault` is set where the kernel does not verify.
kiln_status ir_verify_fault(ir_kernel *kernel, const char *stage, ir_fault *out_fault, kiln_error *err);

/// Appends the kernel as text, one form for every operation, with `fault` (NULL: none) next to its operation
/// (ir/text.h). kiln_print_ir prints what the front end reads again. Numbers the kernel.
void ir_print(ir_kernel *kernel, const ir_fault *fault, kiln_buffer *out);

#endif
