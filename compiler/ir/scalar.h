// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The meaning of every elementwise operation on one element, as bit patterns: what the folder and the
// interpreter both call.
//
// Values are bits zero-extended to 64; i1 is 0 or 1. Integers wrap, shift counts are taken modulo the width,
// division by zero gives 0 here (the language leaves the value open), INT_MIN / -1 wraps. f16 and bf16
// compute in f32 and round after each operation. -0 is less than +0 for min and max. Mathematical operations
// are libm's in double, rounded once.
#ifndef KILN_COMPILER_PASSES_LOWER_SCALAR_H
#define KILN_COMPILER_PASSES_LOWER_SCALAR_H

#include "compiler/ir/ir.h"

/// True when kiln_scalar_eval knows the operation: each result element depends on the operands' elements at
/// the same place only.
bool kiln_scalar_knows(ir_opcode code);
/// One element of `op`; `bits[i]` is the element of operand i. Element types are those of the operation.
uint64_t kiln_scalar_eval(const ir_op *op, const uint64_t *bits);
/// Whether `@fp(ftz)` is about the operation: f32 and bf16 arithmetic, min, max, comparisons, floor to erf,
/// conversions between f64 and f32 or bf16 and to i1, reductions and scans by a named combiner. Not moves, signs, bits, memory
/// and dot.
bool kiln_scalar_flushes(const ir_op *op);
/// Whether a conversion does.
bool kiln_scalar_flushes_cast(kiln_scalar from, kiln_scalar to);
/// kiln_scalar_cast where it does: f64 becomes bf16 by way of f32.
uint64_t kiln_scalar_cast_flushed(kiln_scalar from, kiln_scalar to, uint32_t flags, ir_round round,
                                  uint64_t bits);
/// A denormal f32 or bf16 as zero of its sign; all else as it is.
uint64_t kiln_scalar_flush(kiln_scalar scalar, uint64_t bits);
/// kiln_scalar_eval under `@fp(ftz)`: denormal operands count as zero and a denormal result becomes zero,
/// where kiln_scalar_flushes.
uint64_t kiln_scalar_eval_flushed(const ir_op *op, const uint64_t *bits);
/// The element conversion of a cast.
uint64_t kiln_scalar_cast(kiln_scalar from, kiln_scalar to, uint32_t flags, ir_round round, uint64_t bits);
/// Two elements by a named combiner; XCHG yields `right`.
uint64_t kiln_scalar_combine(ir_combine kind, kiln_scalar scalar, uint32_t flags, uint64_t left,
                             uint64_t right);
/// Sign-extends the low `width` bits.
int64_t kiln_scalar_signed(uint64_t bits, unsigned width);
/// Keeps the low `width` bits.
uint64_t kiln_scalar_mask(uint64_t bits, unsigned width);

#endif
