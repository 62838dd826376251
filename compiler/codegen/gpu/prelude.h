// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The prelude of GPU targets: calls to kl_* functions, and the text of those that were called, linked in at
// the end.
//
// A target gives rows {function, least processor, body}. The body is the inside of an LLVM function in
// textual IR, with ' for " so that it reads well in C; other kl_* functions may be called by name when `uses`
// lists them.
//
// A body that is one instruction of assembly, `asm 'text', 'constraints'`, is put where it is called: LLVM
// has nothing to inline. Where it has several results they are a struct, not a vector.
#ifndef KILN_COMPILER_CODEGEN_PRELUDE_H
#define KILN_COMPILER_CODEGEN_PRELUDE_H

#include <stdbool.h>

#include <llvm-c/Core.h>

#include "base/arena.h"
#include "base/status.h"

typedef enum kl_function {
#define PRELUDE(name, signature, pure) KL_##name,
#include "compiler/codegen/gpu/prelude.def"
#undef PRELUDE
  KL_COUNT
} kl_function;

/// One body. Of the rows of a function, the last with least <= processor number counts. `uses`: up to four
/// other functions, ended by KL_COUNT.
typedef struct kl_body {
  kl_function function;
  unsigned least;
  const char *body;
  kl_function uses[5];
  bool with_denormals; ///< only of kernels that keep them
} kl_body;

/// Collects what a module calls. Lives as long as the lowering.
typedef struct kl_prelude {
  LLVMContextRef context;
  LLVMModuleRef module;
  LLVMBuilderRef builder; ///< where calls go
  const kl_body *bodies;  ///< static
  size_t body_count;
  unsigned processor;
  bool flush; ///< '^' in bodies stands for ".ftz", else for nothing
  LLVMValueRef declared[KL_COUNT];
  LLVMTypeRef types[KL_COUNT];
  bool used[KL_COUNT], is_instruction[KL_COUNT];
  LLVMAttributeRef convergent, no_memory; ///< kl_prelude_open
} kl_prelude;

/// Sets what calls are marked with. The context, module, builder, bodies, processor and flush are given.
void kl_prelude_open(kl_prelude *prelude);

/// True when the target has a body for the function.
bool kl_has(const kl_prelude *prelude, kl_function function);
/// A call at the builder's place.
LLVMValueRef kl_call(kl_prelude *prelude, kl_function function, const LLVMValueRef *arguments,
                     unsigned count);
/// Reads and links the bodies of all functions called so far and makes them internal. INTERNAL when one has
/// no body or does not parse.
kiln_status kl_link(kl_prelude *prelude, kiln_error *err);

#endif
