// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which operation a target has for which element type. Rows: legality.def. The middle rewrites what is
// EXPANDED before a back end sees the kernel, so a back end needs code for NATIVE rows only; a test prints
// the whole table.
#ifndef KILN_COMPILER_PASSES_LOWER_LEGALITY_H
#define KILN_COMPILER_PASSES_LOWER_LEGALITY_H

#include "compiler/ir/ir.h"
#include "targets/targets.h"

typedef enum kiln_legal {
  KILN_LEGAL_NATIVE,   ///< the back end lowers it
  KILN_LEGAL_EXPANDED, ///< the middle rewrites it to native operations
  KILN_LEGAL_REFUSED,  ///< an error that names `reason`
} kiln_legal;

/// What the pass `expand` makes of an operation.
typedef enum kiln_expansion {
  KILN_EXPAND_NONE,
  KILN_EXPAND_LIBRARY,      ///< a call of the mathematical library
  KILN_EXPAND_INVERSE_ROOT, ///< 1 / sqrt(x)
  KILN_EXPAND_REMAINDER,    ///< a loop over the mantissas
  KILN_EXPAND_FMA,          ///< an exact product and sum
  KILN_EXPAND_SIGN,         ///< the sign bit cleared
  KILN_EXPAND_THROUGH_F32,  ///< the same operation on f32
  KILN_EXPAND_DOT,          ///< a product of wider elements
  KILN_EXPAND_CAST,         ///< a sequence of integer operations
  KILN_EXPAND_ASM,          ///< the operations that PTX stands for
  KILN_EXPAND_NOTHING,      ///< it is left out
} kiln_expansion;

typedef struct kiln_legality {
  kiln_legal legal;
  const char *reason;       ///< how it is expanded, or why it is refused; "" when native. Static.
  kiln_expansion expansion; ///< EXPANDED: by what; else KILN_EXPAND_NONE
} kiln_legality;

/// `scalar` is the element of operand 0 (CAST: see kiln_cast_legality; memory operations: what is pointed to;
/// CONST, IOTA, ...: of the result). `flags`: ir_attrs.flags, of which IR_PRECISE matters. `pointer`: the
/// element is a pointer.
kiln_legality kiln_op_legality(ir_opcode code, kiln_scalar scalar, bool pointer, uint32_t flags,
                               const kiln_target *target);
kiln_legality kiln_cast_legality(kiln_scalar from, kiln_scalar to, const kiln_target *target);
/// Inline assembly is native on NVIDIA's machines; elsewhere it is expanded or refused by its text
/// (expand_asm.c).
kiln_legality kiln_asm_legality(const ir_op *op, const kiln_target *target);
/// Of assembly that is refused: the first of its words that is not known, in its text; "" where that is none.
const char *kiln_asm_fault(const ir_op *op, unsigned *out_length);
/// The same for an operation that stands in a kernel.
kiln_legality kiln_legality_of(const ir_op *op, const kiln_target *target);

#endif
