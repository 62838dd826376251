// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an operation means for one element, over LLVM values: scalars, or vectors of equal width. Host and GPUs
// share it. The meaning is that of compiler/ir/scalar.c, which is independent of it: f16 and bf16 compute in
// f32 and round after each operation; LLVM is never given permission to contract.
#ifndef KILN_COMPILER_CODEGEN_LLVM_ELEMENT_H
#define KILN_COMPILER_CODEGEN_LLVM_ELEMENT_H

#include <llvm-c/Core.h>
#include <stdbool.h>

#include "compiler/ir/ir.h"

typedef struct kiln_elements kiln_elements;

/// What machines do in ways of their own. Of floats, hooks get f32 or f64 unless they say otherwise.
typedef struct kiln_element_machine {
  /// f16 or bf16 to f32, exact; f32 to them, nearest even.
  LLVMValueRef (*widen)(const kiln_elements *e, kiln_scalar from, LLVMValueRef x);
  LLVMValueRef (*narrow)(const kiln_elements *e, kiln_scalar to, LLVMValueRef x);
  /// Among different float types, fp8 too.
  LLVMValueRef (*float_cast)(const kiln_elements *e, kiln_scalar from, kiln_scalar to, const ir_attrs *how,
                             LLVMValueRef x);
  /// Saturating, NaN becomes 0.
  LLVMValueRef (*float_to_int)(const kiln_elements *e, kiln_scalar to, bool is_unsigned, LLVMValueRef x);
  /// The bits of a float whose high ones are about to be dropped; NULL: a bitcast will do.
  LLVMValueRef (*bits_of_float)(const kiln_elements *e, LLVMValueRef x);
  /// Never traps.
  LLVMValueRef (*divide_integers)(const kiln_elements *e, kiln_scalar scalar, bool is_unsigned, bool is_rem,
                                  LLVMValueRef a, LLVMValueRef b);
  LLVMValueRef (*divide)(const kiln_elements *e, const ir_attrs *how, LLVMValueRef a, LLVMValueRef b);
  /// min, max. `op` may have no operands.
  LLVMValueRef (*extreme)(const kiln_elements *e, const ir_op *op, bool is_max, LLVMValueRef a,
                          LLVMValueRef b);
  /// sqrt, rsqrt, exp2, log2; NULL: the machine has none for the type.
  LLVMValueRef (*function)(const kiln_elements *e, ir_opcode code, const ir_attrs *how, LLVMValueRef x);
  /// A call of an intrinsic, overloaded over `type`.
  LLVMValueRef (*intrinsic)(const kiln_elements *e, const char *name, LLVMTypeRef type,
                            const LLVMValueRef *arguments, unsigned count);
} kiln_element_machine;

struct kiln_elements {
  const kiln_element_machine *machine;
  void *owner; ///< the lowering, for hooks
  LLVMContextRef context;
  LLVMBuilderRef builder;
  LLVMTypeRef types[KILN_SCALAR_COUNT]; ///< an element as it is held
  LLVMTypeRef pointer;
};

/// Sets `types`: f16 is held as `half`; bf16 and fp8 as their bits.
void kiln_elements_set_types(kiln_elements *e, LLVMTypeRef half);

/// Whether the operation works on each element alone.
bool kiln_element_has(ir_opcode code);
/// The operation of `op` on operands `x`. NULL: the machine has none for the type.
LLVMValueRef kiln_element(const kiln_elements *e, const ir_op *op, const LLVMValueRef *x);
/// Two values by the combiner that `op` names.
LLVMValueRef kiln_element_combine(const kiln_elements *e, const ir_op *op, kiln_scalar scalar, LLVMValueRef a,
                                  LLVMValueRef b);
/// `how`: round, UNSIGNED, SATURATE_OFF.
LLVMValueRef kiln_element_cast(const kiln_elements *e, kiln_scalar from, kiln_scalar to, const ir_attrs *how,
                               LLVMValueRef x);

// Constants and types in the lanes of `like`.
unsigned kiln_lanes_of(LLVMValueRef v); ///< 0: a scalar
LLVMTypeRef kiln_type_like(LLVMTypeRef element, LLVMValueRef like);
LLVMValueRef kiln_int_like(LLVMTypeRef element, LLVMValueRef like, uint64_t value);
LLVMValueRef kiln_real_like(LLVMTypeRef element, LLVMValueRef like, double value);

#endif
