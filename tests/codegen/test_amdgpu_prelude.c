// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks every body of the AMDGPU prelude on every processor: it parses, verifies, becomes machine code and
// links.
#include <llvm-c/Core.h>
#include <stdio.h>
#include <string.h>

#include "compiler/codegen/backend.h"
#include "compiler/codegen/finish/finish.h"
#include "compiler/codegen/gpu/gpu_lower.h"
#include "compiler/codegen/llvm/llvm_module.h"
#include "tests/harness.h"
#include "tests/codegen/llvm_rows.h"

enum { KERNEL_CONVENTION = 91, MAX_ARGUMENTS = 8 };

typedef struct bench {
  kiln_target target;
  gpu_machine machine;
  LLVMTargetMachineRef llvm;
  LLVMContextRef context;
  LLVMModuleRef module;
  kl_prelude prelude;
  kiln_error caught;
} bench;

static const struct {
  const char *name, *signature;
} functions[KL_COUNT] = {
#define PRELUDE(name, signature, pure) {#name, signature},
#include "compiler/codegen/gpu/prelude.def"
#undef PRELUDE
};

static void open_bench(bench *b, const char *target) {
  kiln_error err = {0};
  const char *layout;
  memset(b, 0, sizeof *b);
  CHECK_OK(kiln_target_parse(target, &b->target, &err), err);
  gpu_machine_amdgpu(&b->target, &b->machine);
  CHECK_OK(kiln_llvm_machine(&b->target, 2, &b->llvm, &layout, &err), err);
  b->context = kiln_llvm_context(&b->caught);
  b->module = kiln_llvm_module(b->context, &b->target, layout);
  b->prelude = (kl_prelude){.context = b->context,
                            .module = b->module,
                            .bodies = b->machine.bodies,
                            .body_count = b->machine.body_count,
                            .processor = b->machine.processor};
  kl_prelude_open(&b->prelude);
}

static void close_bench(bench *b) {
  LLVMDisposeModule(b->module);
  LLVMContextDispose(b->context);
}

static LLVMTypeRef letter_type(LLVMContextRef c, char letter) {
  switch (letter) {
  case 'b': return LLVMInt1TypeInContext(c);
  case 'c': return LLVMInt8TypeInContext(c);
  case 's': return LLVMInt16TypeInContext(c);
  case 'i': return LLVMInt32TypeInContext(c);
  case 'l': return LLVMInt64TypeInContext(c);
  case 'h': return LLVMHalfTypeInContext(c);
  case 'f': return LLVMFloatTypeInContext(c);
  case 'd': return LLVMDoubleTypeInContext(c);
  default: FAIL("letter %c", letter);
  }
}

// kernel(out, arguments...) { *out = function(arguments) }
static void add_kernel(bench *b, unsigned function) {
  const char *at = functions[function].signature;
  LLVMTypeRef types[MAX_ARGUMENTS + 1] = {LLVMPointerTypeInContext(b->context, 1)};
  LLVMValueRef arguments[MAX_ARGUMENTS];
  unsigned count = 0;
  char name[80];
  bool is_void = at[0] == 'v';
  for (at += 2; *at != ')'; at++) types[++count] = letter_type(b->context, *at);
  snprintf(name, sizeof name, "use_%s", functions[function].name);
  LLVMValueRef kernel = LLVMAddFunction(
      b->module, name, LLVMFunctionType(LLVMVoidTypeInContext(b->context), types, count + 1, false));
  LLVMSetFunctionCallConv(kernel, KERNEL_CONVENTION);
  LLVMBuilderRef builder = LLVMCreateBuilderInContext(b->context);
  LLVMPositionBuilderAtEnd(builder, LLVMAppendBasicBlockInContext(b->context, kernel, "entry"));
  for (unsigned i = 0; i < count; i++) arguments[i] = LLVMGetParam(kernel, i + 1);
  b->prelude.builder = builder;
  LLVMValueRef result = kl_call(&b->prelude, function, arguments, count);
  if (!is_void) LLVMBuildStore(builder, result, LLVMGetParam(kernel, 0));
  LLVMBuildRetVoid(builder);
  LLVMDisposeBuilder(builder);
}

static unsigned use_all(bench *b) {
  unsigned used = 0;
  for (unsigned f = 0; f < KL_COUNT; f++)
    if (kl_has(&b->prelude, f)) add_kernel(b, f), used++;
  return used;
}

static void check_target(const char *target) {
  bench b;
  kiln_error err = {0};
  open_bench(&b, target);
  unsigned used = use_all(&b);
  CHECK(used >= 30);
  CHECK_OK(kl_link(&b.prelude, &err), err);
  CHECK_OK(kiln_llvm_verify(b.module, target, &err), err);
  CHECK_OK(kiln_llvm_optimise(b.module, b.llvm, kiln_llvm_passes[2], &err), err);
  kiln_buffer object = {0}, linked = {0};
  CHECK_OK(kiln_llvm_emit(b.module, b.llvm, LLVMObjectFile, &object, &err), err);
  CHECK_INT(b.caught.status, KILN_OK);
  CHECK_OK(kiln_finish_link(kiln_backend_of(&b.target), false, object.bytes, object.size, &linked, &err),
           err);
  kiln_amdgpu_facts facts;
  CHECK_OK(kiln_amdgpu_read_facts(linked.bytes, linked.size, "use_kl_f32_to_bf16", &facts, &err), err);
  CHECK_INT(facts.wave, b.target.wave);
  CHECK_INT(facts.vgpr_spills, 0);
  CHECK(facts.vgprs > 0 && facts.kernarg_bytes >= 12);
  CHECK_INT(kiln_amdgpu_read_facts(linked.bytes, linked.size, "no_such", &facts, &err),
            KILN_STATUS_NOT_FOUND);
  kiln_buffer_deinit(&object);
  kiln_buffer_deinit(&linked);
  close_bench(&b);
}

TEST(amdgpu_prelude, every_body_on_every_processor) {
  for (size_t i = 0; i < kiln_processor_count(); i++)
    if (kiln_processor_at(i)->family == KILN_FAMILY_AMDGPU && llvm_has(kiln_processor_at(i)->name))
      check_target(kiln_processor_at(i)->name);
  check_target("gfx1100:wave64");
  check_target("gfx1200:wave64");
}

// What the lowering calls on any target and AMDGPU must therefore have.
TEST(amdgpu_prelude, nothing_common_is_missing) {
  bench b;
  open_bench(&b, "gfx942");
  for (unsigned f = 0; f < KL_COUNT; f++) {
    const char *name = functions[f].name;
    bool nvidia_only = strncmp(name, "kl_mma_", 7) == 0 || strncmp(name, "kl_ldmatrix", 11) == 0 ||
                       strstr(name, "tf32") || !strcmp(name, "kl_shfl_xor_i32") ||
                       !strcmp(name, "kl_f32_to_f16x2") || strstr(name, "e4m3") || strstr(name, "e5m2") ||
                       (f >= KL_kl_add_bf16x2 && f <= KL_kl_mul_bf16x2);
    if (!nvidia_only && f <= KL_kl_f32_to_e5m2x2 && !kl_has(&b.prelude, f)) FAIL("AMDGPU has no %s", name);
  }
  close_bench(&b);
}
