// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where accesses of memory lie compared with each other: whether two of them surely touch the same bytes,
// element by element, or surely have none in common. Both are proofs; "not known" is always an answer.
//
// An address is a linear form in bytes:
//
//   root + constant + sum of coefficient * symbol + spread
//
// The root is where the pointer comes from, symbols are scalars, and the spread is the interval in which the
// part lies that differs from element to element. A pointer or index that a loop advances by the same amount
// everywhere is what it was before the loop and a symbol for how far it has come (its drift).
//
// Two accesses are compared as they run one after the other. Where a turn of a loop may have ended between
// them, what is computed in that loop is another value than it was.
#ifndef KILN_COMPILER_ANALYSIS_ADDRESS_H
#define KILN_COMPILER_ANALYSIS_ADDRESS_H

#include "compiler/analysis/facts.h"

typedef struct kiln_addresses kiln_addresses; ///< lives in its arena

/// Answers about one kernel, until that changes. `facts` is borrowed; values must have their numbers
/// (ir_number).
kiln_addresses *kiln_addresses_create(kiln_arena *arena, const ir_kernel *kernel, const kiln_facts *facts);

/// Two accesses, `first` before `second`. `turned` is the outermost loop of which a turn may have ended
/// between them; NULL: none.
typedef struct kiln_access_pair {
  const ir_op *first, *second;
  const ir_op *turned;
} kiln_access_pair;

/// Whether the two values, operands of the first and of the second access, are the same, element by element:
/// made alike of the same values. Conversions between layouts are looked through.
bool kiln_same_value(const kiln_access_pair *pair, const ir_value *first, const ir_value *second);

/// How far an argument of a `for` comes in a turn, where that is the same number for all elements and turns;
/// pointers: in bytes.
bool kiln_address_increment(kiln_addresses *a, const ir_value *argument, int64_t *out);

/// Whether no byte is touched by both. Accesses are loads, stores and atomics through pointers, or of the
/// copy engine through views. A view that is stored to does not overlap itself (docs/ir.md), so that tiles
/// of one view at indices that differ by the tile's extent are apart.
bool kiln_are_disjoint(kiln_addresses *a, const kiln_access_pair *pair);

#endif
