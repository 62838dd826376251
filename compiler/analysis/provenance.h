// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where pointers and views come from: the one answer to "whose memory is this?". Operations with the property
// PASSES (ops.def) hand pointers on, and so do loops and branches; what comes from memory or from integers
// comes from nowhere.
#ifndef KILN_COMPILER_ANALYSIS_PROVENANCE_H
#define KILN_COMPILER_ANALYSIS_PROVENANCE_H

#include "compiler/ir/ir.h"

/// The number of the parameter that `v` is made of by operations of one pointer each, so that it surely
/// points into what the parameter points to; -1 where loops, branches or selections come between, or another
/// source.
int kiln_param_of(const ir_value *v);

/// What `v` is behind hints, conversions of layouts, and casts of integers that keep the number: the same
/// number or address, of which less may be known.
const ir_value *kiln_behind(const ir_value *v);

/// Called for each source of a pointer: a parameter, as an argument of the kernel's body, or the result of an
/// operation that takes it from memory or from a number. In no order that means anything.
typedef void kiln_source_visit(const ir_value *source, void *context);

/// A search for all sources. Valid until the kernel changes; the arena is the caller's.
typedef struct kiln_sources {
  kiln_arena *arena;
  uint32_t *seen;         ///< by number of the value: the search that met it
  const ir_value **found; ///< arena
  uint32_t search, count, capacity;
} kiln_sources;

/// Numbers the kernel.
kiln_sources kiln_sources_of(kiln_arena *arena, ir_kernel *kernel);
/// Follows `v` through selections, branches and loops, and visits each of its sources once. A source is made of
/// no other pointer or view.
void kiln_visit_sources(kiln_sources *s, const ir_value *v, kiln_source_visit *visit, void *context);

#endif
