// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The algebra of facts, apart from the walk over the kernel (facts.c): one transfer function an operation, in
// facts_transfer.c.
#ifndef KILN_COMPILER_PASSES_LOWER_FACTS_INNER_H
#define KILN_COMPILER_PASSES_LOWER_FACTS_INNER_H

#include "compiler/analysis/facts.h"

/// log2 of the largest power of two that divides `n`; KILN_FACT_MAX_DIVISIBILITY for 0.
uint8_t fact_log2(int64_t n);
/// log2 of the bytes that one element takes where a pointer points.
unsigned fact_pointee_log2(ir_type pointer);
/// Sets lo and hi to the bounds of the type when it is an integer.
void fact_type_bounds(ir_type type, kiln_fact *f);
/// What holds of both.
void fact_join(kiln_fact *f, const kiln_fact *other);
/// x predicate n holds: tightens lo and hi.
void fact_clip(kiln_fact *f, ir_predicate predicate, int64_t n);
/// The fact of result `result`; `f` says what the type alone says. `operands` has the facts of the first
/// three operands.
void fact_transfer(const ir_op *op, uint32_t result, const kiln_fact *const operands[3], kiln_fact *f);
/// What bounds say of the rest: one possible value has its divisibility; tiles of one value are constant;
/// bounds that left the type wrap.
void fact_settle(ir_type type, kiln_fact *f);
/// Bounds of what is a multiple of a power of two go to the next multiples inside: a number of 32 bits that
/// is a multiple of 128 is at most 2^31 - 128, so that lanes added to it do not wrap.
void fact_round(ir_type type, kiln_fact *f);

#endif
