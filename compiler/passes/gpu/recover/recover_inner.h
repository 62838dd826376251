// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Between the parts of the pass `recover` (recover_views.c says what it does): sums, limits, addresses.
#ifndef KILN_COMPILER_PASSES_GPU_RECOVER_INNER_H
#define KILN_COMPILER_PASSES_GPU_RECOVER_INNER_H

#include "compiler/analysis/facts.h"
#include "compiler/ir/ir.h"

enum { MOST_ATOMS = 6, MOST_TERMS = 12, MOST_DEPTH = 64, RANK = 2, MOST_AXES = 5, MOST_CLAIMS = 24 };
enum { LANE = 1, MODULO = 1 << 4 }; // codes of lanes: LANE + axis, with MODULO where taken modulo

/// An extent that indices never reach: they are i32 in the instruction. Drivers encode 2^32, too, but an H200
/// then stops with an illegal instruction.
static const int64_t UNBOUNDED = (int64_t)1 << 31;

/// factor * atoms * lane.
typedef struct term {
  int64_t factor;
  unsigned lane; ///< 0: none
  bool is_wide;  ///< computed in 64 bits: may be 2^31 or more
  unsigned count;
  const ir_value *atoms[MOST_ATOMS]; ///< scalars, by id; a base pointer is one
} term;

typedef struct sum {
  unsigned count;
  term terms[MOST_TERMS];
  const ir_op *modulo[RANK]; ///< what keeps an axis below an extent by other numbers (modulo_parts)
} sum;

/// lane + index < extent.
typedef struct limit {
  bool is_set, is_modulo;
  sum index, extent;
} limit;

/// An access as one of a view. Axes in order of the view: those outside the tile, then the tile's.
typedef struct address {
  const ir_value *base;
  unsigned rank;
  sum extents[MOST_AXES], strides[MOST_AXES], indices[MOST_AXES];
  bool is_turned; ///< the tile's first axis is contiguous
} address;

typedef struct made_view {
  const ir_value *base;
  ir_type type;
  sum parts[2 * MOST_AXES];
  ir_value *view;
} made_view;

typedef struct recovering {
  ir_kernel *kernel;
  kiln_facts *facts;
  ir_builder b;
  const ir_value *opaque; ///< a carried value while its step is found
  bool has_failed;        ///< a claim could not be tested
  bool is_mask;           ///< what is read is compared, no offset
  unsigned depth, count, claim_count;
  sum claims[MOST_CLAIMS]; ///< of the access: each must fit 32 bits
  made_view *views;        ///< in `scratch`
  uint32_t view_count, view_capacity;
  kiln_arena *scratch;
} recovering;

// recover_sums.c. Results are false where a sum would be too long or a factor too large.
sum sum_constant(int64_t value);
sum sum_atom(const ir_value *v);
sum sum_of_term(const term *t);
bool sum_add_term(sum *s, const term *t);
/// `out` += `scale` * `s`.
bool sum_add(sum *out, const sum *s, int64_t scale);
bool sum_multiply(const sum *a, const sum *b, sum *out);
bool sum_difference(const sum *a, const sum *b, sum *out);
bool sum_is_equal(const sum *a, const sum *b);
bool term_is_one(const term *t);
/// The quotient, when what divides is part of the other.
bool term_divide(const term *t, const term *by, term *out);

// recover_bounds.c
bool recover_is_never_negative(const recovering *r, const sum *s);
/// Whether the sum is at most `most`: as a number of 32 bits, to which the source adds lanes in 32 bits, or
/// by what is known of its parts.
bool recover_is_at_most(const recovering *r, const sum *s, __int128 most);
/// Terms that are known at launch, and the others.
bool recover_split(const recovering *r, const sum *s, sum *launch, sum *rest);
bool recover_is_known_at_launch(const recovering *r, const sum *s);

/// Bounds of a sum without lanes, as exact integers; 2^62 stands for anything beyond.
void recover_bounds(const recovering *r, const sum *s, __int128 *out_lo, __int128 *out_hi);

// recover_claims.c
/// The sum is what `op` computes, in 32 bits: that these suffice is known, or becomes a claim of the access.
bool recover_claim(recovering *r, const ir_op *op, const sum *s);
/// The same of a value that a loop carries.
bool recover_claim_carried(recovering *r, const ir_value *v, const sum *s);
/// Makes the claims conditions of the launch, and forgets them; false where one cannot be tested.
bool recover_test_claims(recovering *r, const ir_op *access, const limit limits[RANK], ir_type tile);

// recover_values.c
/// An i32, an i64 or a pointer, scalar or tile, as a sum. A scalar that is none is an atom.
bool recover_sum(recovering *r, const ir_value *v, sum *out);
/// An offset that stays below an extent: x % extent, where(x < extent, x, ..), min(x, extent - 1). The extent is
/// `bound` + `more`.
typedef struct modulo_parts {
  const ir_value *of, *bound;
  int64_t more;
} modulo_parts;
bool recover_modulo_parts(const ir_op *op, modulo_parts *out);

// recover_limits.c
/// What the mask says of each axis; false when it says more, or something else.
bool recover_limits(recovering *r, const ir_value *mask, limit limits[RANK]);
/// The limit that offsets get from `modulo`, which they went through.
bool recover_limit_of_modulo(recovering *r, const ir_op *modulo, limit *out);

// recover_masked.c
/// Nothing that depends on elements of `load` beyond the bound of `axis` reaches memory.
bool recover_is_unwanted_beyond(recovering *r, ir_op *load, unsigned axis, const limit *bound);

// recover_address.c
/// The address of a tile of pointers with what bounds it; a modulo adds limits.
bool recover_address(recovering *r, const ir_value *pointer, limit limits[RANK], address *out);
/// Takes the one parameter out of `rest`.
bool recover_take_base(const recovering *r, sum *rest, const ir_value **out_base);
/// What is left goes to axes of the tile without bounds, else to axes of its own: one number of 32 bits times
/// what is known at launch.
bool recover_place_rest(const recovering *r, const sum *rest, const term strides[RANK],
                        const limit limits[RANK], sum indices[RANK], address *out);

// recover_emit.c
/// The sum as an i64; an index that is small enough is computed in i32, which is what instructions take.
ir_value *recover_emit_sum(recovering *r, const sum *s, bool is_index);
/// The view and the indices of an access, in `operands`; returns how many.
uint32_t recover_emit_access(recovering *r, ir_op *op, const address *a, ir_value **operands);

// recover_bases.c
/// A view whose base is a parameter and index * stride ...: they become axes in front. The offsets are those
/// of heads, batches, layers; what a program leaves out of the view's extents stays out.
void recover_base(recovering *r, ir_op *view);

#endif
