// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What operations carry besides operands. attrs.def says which operation has which of these, and how they are
// spelled.
#ifndef KILN_COMPILER_IR_ATTRIBUTES_H
#define KILN_COMPILER_IR_ATTRIBUTES_H

#include <stdbool.h>
#include <stdint.h>

enum { IR_MAX_RANK = 12 }; ///< axes of a tile

/// Bits of ir_attrs.flags.
enum {
  IR_UNSIGNED = 1 << 0,
  IR_PRECISE = 1 << 1,
  IR_NAN = 1 << 2,     ///< min, max: a NaN operand gives NaN
  IR_REVERSE = 1 << 3, ///< scan from the end
  IR_VOLATILE = 1 << 4,
  IR_SATURATE_OFF = 1 << 5, ///< cast to fp8 gives NaN (e4m3) or infinity (e5m2) instead of the largest value
  IR_FTZ = 1 << 9,          ///< exp2 of f32: a denormal result is zero
  IR_FEEDS = 1 << 17, ///< load: of what products of a loop read, in this or the next iteration (prefetch.c)
};

typedef enum ir_round { IR_ROUND_NEAREST, IR_ROUND_ZERO } ir_round;
typedef enum ir_cache {
  IR_CACHE_DEFAULT,
  IR_CACHE_CA,
  IR_CACHE_CG,
  IR_CACHE_CV,
  IR_CACHE_WB,
  IR_CACHE_CS,
  IR_CACHE_WT
} ir_cache;
typedef enum ir_evict { IR_EVICT_NORMAL, IR_EVICT_FIRST, IR_EVICT_LAST } ir_evict;
typedef enum ir_order { IR_ORDER_RELAXED, IR_ORDER_ACQUIRE, IR_ORDER_RELEASE, IR_ORDER_ACQ_REL } ir_order;
typedef enum ir_scope { IR_SCOPE_GPU, IR_SCOPE_CTA, IR_SCOPE_SYSTEM } ir_scope;
/// FAST: products of fp8 may be summed by the matrix unit with fewer bits than f32 has, however many there
/// are.
typedef enum ir_precision { IR_PREC_IEEE, IR_PREC_TF32, IR_PREC_TF32X3, IR_PREC_FAST } ir_precision;
/// The language's words for the values of these five, in order; NULL after the last.
extern const char *const ir_cache_words[],
    *const ir_evict_words[], *const ir_order_words[], *const ir_scope_words[], *const ir_precision_words[];

// What only some operations carry. 0, unless a comment says otherwise: not said, or none.

typedef struct ir_asm {
  const char *text, *constraints;
  uint8_t pack; ///< elements an instance
  bool is_pure;
} ir_asm;

typedef struct ir_assertion {
  const char *text; ///< NULL: none
  uint64_t line;    ///< of the source
} ir_assertion;

typedef struct ir_print_line {
  const char *text; ///< before the value
  uint8_t digits;   ///< hexadecimal digits, at least; 0: in decimal
} ir_print_line;

typedef struct ir_hint {
  int64_t divisible, contiguous;
} ir_hint;

/// for, while.
typedef struct ir_loop {
  int64_t divisible; ///< for: its counter
  uint8_t stages, unroll;
  uint8_t split;     ///< for: blocks that may share the iterations
  bool is_flattened; ///< for
  bool is_in_order;  ///< for: of two chained products none runs while the other's operands are computed
} ir_loop;

/// Accesses of views, and stage. What is mapped goes through a tensor map by the copy engine (passes/gpu/promote.c).
typedef struct ir_view_access {
  int64_t
      first; ///< elements of the tile along `axis`, those after them read as masked off and are not written;
             ///< 0: all
  int64_t across; ///< with `first` along an axis before the last: the same along the last; 0: all
  uint8_t axis;
  uint8_t split;  ///< stores, stage: blocks that share the iterations whose sum it is
  uint8_t spread; ///< stores, stage: groups side by side
  bool has_other; ///< view_load: the last operand is the value for what is out of range
  bool is_mapped; ///< not of stage, which always is
  bool is_turned; ///< what is staged has the tile's columns as its rows
  bool is_ragged; ///< rows may end within the engine's 16 bytes
  bool adds;      ///< stage: is added to what is there, in any order
  uint8_t site;   ///< view_load: while the pass `roles` runs, 1 + the number of its ring's place
  uint8_t map;    ///< stage: number of its tensor map, set by code generation
} ir_view_access;

/// Shared memory, or barriers (a result without axes).
typedef struct ir_alloc {
  uint32_t at;      ///< first byte in the block's shared memory
  uint32_t stride;  ///< bytes from a slot to the next, by which slots are named then; 0: by numbers
  uint32_t rows;    ///< that a tile in it has; 0: all
  uint32_t columns; ///< that a tile in it has; 0: all
  uint8_t arrivals; ///< barriers: that end a phase
  uint8_t pad;      ///< bytes left free after each row along pad_axis
  uint8_t pad_axis;
  uint8_t parts; ///< blocks that have a part of the tile each, or barriers of
} ir_alloc;

typedef struct ir_copy {
  uint32_t rows;     ///< of the tile that are copied; 0: all
  uint32_t columns;  ///< of the tile that are copied; 0: all
  uint8_t operand;   ///< of the product: 0 left, 1 right
  bool is_mn;        ///< the tile's columns are rows or columns of the product, not the reduced index
  uint8_t parts;     ///< blocks that share the program
  bool is_multicast; ///< to all blocks of a row or column of those that share the program
  uint8_t map;       ///< number of its tensor map, set by code generation
} ir_copy;

typedef struct ir_expect {
  uint32_t bytes; ///< of the slot
  uint32_t part;  ///< of them, that come to this block
} ir_expect;

/// Of arrivals at barriers, and of waits for them.
typedef struct ir_arrive {
  uint8_t blocks;  ///< arrivals: whose barriers are meant; 0: this block's alone
  bool by_warps;   ///< arrivals: one of each warp, once its threads have met, not of each warp group
  bool is_cluster; ///< what is written before the arrival is seen after the wait by all blocks of the cluster
  bool is_own;     ///< waits: each warp group waits in the slot of its number after the one that is named
} ir_arrive;

typedef struct ir_mma {
  uint8_t precision; ///< ir_precision
  bool is_first;     ///< the first of its loop that reads the accumulator, which needs no start
  bool a_mn, b_mn;   ///< the operand lies in shared memory with rows (a), columns (b) contiguous, not the
                     ///< reduced index
  bool is_async;     ///< goes on while what follows runs; only mma_wait may take its result
  bool is_partial;   ///< the unit sums this product alone; that is added to the accumulator in its type
  bool is_queued;    ///< one of several that are under way at a time (late_waits.c)
  bool is_carried; ///< with is_async: the same product of the loop's next iteration takes the result as well
} ir_mma;

/// mma_wait: products; fetch_wait: groups of the thread's fetches.
typedef struct ir_wait {
  uint32_t out; ///< that may still be under way afterwards
} ir_wait;

typedef struct ir_cluster {
  uint8_t blocks;   ///< of the cluster
  uint8_t beside;   ///< scatter: groups side by side, each with a part of its own columns
  uint32_t columns; ///< scatter: of a block's part; 0: the tile's divided by blocks
  uint32_t rows;    ///< scatter: that count; 0: all
  bool is_overlaid; ///< scatter: in memory of slots, which all groups have read that came to it
} ir_cluster;

typedef struct ir_roles {
  uint32_t producer_registers, consumer_registers; ///< of a thread
  uint8_t resident;                                ///< blocks that an SM has at a time
  uint8_t cluster;                                 ///< blocks that share the iterations of a loop
  uint8_t spread;                                  ///< blocks that share a program
  bool is_beside; ///< of those, two stand side by side, each with half of the program's columns
} ir_roles;

typedef struct ir_barrier {
  bool is_shared;       ///< orders shared memory alone
  bool is_engine;       ///< also orders what the copy engine writes with accesses of threads
  bool is_for_products; ///< what threads wrote to shared memory before it is seen by `mma` after it
} ir_barrier;

/// What an operation carries besides operands. Unused fields are zero. attrs.def says which operation has
/// which.
typedef struct ir_attrs {
  uint64_t bits; ///< const: bit pattern, zero-extended
  uint32_t flags;
  uint8_t kind; ///< ir_predicate, ir_combine
  uint8_t axis; ///< pid, npid, block, expand, reduce, scan, dim, view_stride, gather
  uint8_t round, cache, evict, order, scope, precision;
  uint8_t perm[IR_MAX_RANK];
  union {
    ir_asm assembly;
    ir_assertion assertion;
    ir_print_line print;
    ir_hint hint;
    ir_loop loop;
    ir_view_access access;
    ir_alloc alloc;
    ir_copy copy;
    ir_expect expect;
    ir_arrive arrive;
    ir_mma mma;
    ir_wait wait;
    ir_cluster cluster;
    ir_roles roles;
    ir_barrier barrier;
  };
} ir_attrs;

#endif
