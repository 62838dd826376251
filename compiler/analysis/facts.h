// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is known of each value without running the kernel: along each axis how elements follow one another,
// and bounds of integers.
//
// Back ends choose vector widths and index widths by it; passes drop masks that always hold. Runs of an axis
// are aligned: a run of length n starts at a coordinate that is a multiple of n. All three facts are
// logarithms (a fact of 3 says 8):
//
//   contiguity    elements of each run grow by one (pointers: by one element)
//   constancy     elements of each run are equal
//   divisibility  what the first element of each contiguity run is a multiple of (pointers: address in
//   bytes); with contiguity 0 that is
//                 every element
//
// A scalar keeps its facts at index 0 (contiguity and constancy 0).
#ifndef KILN_COMPILER_PASSES_LOWER_FACTS_H
#define KILN_COMPILER_PASSES_LOWER_FACTS_H

#include "compiler/ir/ir.h"

enum { KILN_FACT_MAX_DIVISIBILITY = 62 }; ///< what zero gets

typedef struct kiln_fact {
  uint8_t divisibility[IR_MAX_RANK];
  uint8_t contiguity[IR_MAX_RANK];
  uint8_t constancy[IR_MAX_RANK];
  int64_t lo, hi; ///< inclusive bounds of an integer as a signed number (i1: 0..1); floats and pointers: the
                  ///< whole of i64
} kiln_fact;

typedef struct kiln_facts kiln_facts; ///< lives in its arena

/// Facts of every value, to a fixed point over loops. Seeds: parameters (@align @div @range), assume, hint,
/// iota, pid, npid. Numbers the kernel (ir_number, which clears slots) and does not change it otherwise.
/// Facts hold until the kernel is changed; values made later have none.
kiln_facts *kiln_facts_compute(kiln_arena *arena, ir_kernel *kernel);

/// Never NULL: a value that was not there at kiln_facts_compute has the fact that says nothing.
const kiln_fact *kiln_fact_of(const kiln_facts *facts, const ir_value *value);

/// True when the value lies in [lo, hi] always.
bool kiln_fact_within(const kiln_fact *fact, int64_t lo, int64_t hi);

/// True where ranges show that the result of a sum, difference, product or shift to the left of integers is
/// the number that it is without limits of its type: it does not wrap around.
bool kiln_fact_does_not_wrap(const kiln_facts *facts, const ir_op *op);

/// log2 of the elements that one access along `axis` of a pointer tile may take: contiguity, byte alignment
/// and (`mask` may be NULL) constancy of the mask permit it, and it is at most `log2_bytes` in bytes. 0:
/// element by element.
unsigned kiln_fact_vector(const kiln_facts *facts, const ir_value *pointer, const ir_value *mask,
                          unsigned axis, unsigned log2_bytes);

#endif
