// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVPTX as a back end: PTX, and cubins where there is an assembler.
#include <string.h>

#include "compiler/codegen/backend.h"
#include "compiler/codegen/finish/finish.h"
#include "compiler/codegen/gpu/gpu_lower.h"
#include "compiler/codegen/llvm/llvm_module.h"
#include "compiler/passes/gpu/gpu.h"

// ---------------------------------------------------------------------------------- tests of loops' counters
//
// ptxas (13.0) may test the next value of a loop's counter in place of this one: `i < C` becomes `i + step < C + step`,
// also where i + step wraps. Such a loop does not end: for i of 2^63 - 6 .. 2^63 - 1 by steps of 2 the test is
// `i < 2^63 - 3`, and the counter after the last one is negative. (Where a test has no sign and the counter begins
// below zero, gpu_lower.c writes another one.) A test of the counter with its highest bit inverted means the same
// and is left alone, if ptxas does not see where that bit comes from. This is done after all passes of LLVM.

/// The step of a counter of a loop, else 0.
static int64_t step_of(LLVMValueRef counter) {
  if (!LLVMIsAPHINode(counter)) return 0;
  for (unsigned i = 0; i < LLVMCountIncoming(counter); i++) {
    LLVMValueRef next = LLVMGetIncomingValue(counter, i);
    if (!LLVMIsAInstruction(next) || LLVMGetInstructionOpcode(next) != LLVMAdd ||
        LLVMGetOperand(next, 0) != counter)
      continue;
    LLVMValueRef step = LLVMGetOperand(next, 1);
    if (LLVMIsAConstantInt(step)) return LLVMConstIntGetSExtValue(step);
  }
  return 0;
}

/// Whether a counter that stops at `bound` may have stepped over it so far that one more step wraps.
static bool may_wrap(LLVMValueRef bound, int64_t step, unsigned bits, bool is_signed) {
  const int64_t most = INT64_MAX >> (64 - bits), least = -most - 1;
  if (is_signed) {
    const int64_t c = LLVMConstIntGetSExtValue(bound);
    return step > 0 ? c > most - step || c + step > most - step : c < least - step || c + step < least - step;
  }
  const uint64_t u = LLVMConstIntGetZExtValue(bound), top = UINT64_MAX >> (64 - bits);
  const uint64_t by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
  if (by > top / 2) return true;
  return step > 0 ? u > top - 2 * by : u < 2 * by;
}

static LLVMIntPredicate with_other_sign(LLVMIntPredicate p) {
  return p >= LLVMIntSGT ? p - LLVMIntSGT + LLVMIntUGT : p - LLVMIntUGT + LLVMIntSGT;
}

static void keep_test(LLVMBuilderRef b, LLVMValueRef test) {
  const LLVMIntPredicate predicate = LLVMGetICmpPredicate(test);
  LLVMValueRef counter = LLVMGetOperand(test, 0), bound = LLVMGetOperand(test, 1);
  LLVMTypeRef type = LLVMTypeOf(counter);
  if (predicate == LLVMIntEQ || predicate == LLVMIntNE || !LLVMIsAConstantInt(bound)) return;
  const unsigned bits = LLVMGetIntTypeWidth(type);
  const int64_t step = step_of(counter);
  if (!step || (bits != 32 && bits != 64) || !may_wrap(bound, step, bits, predicate >= LLVMIntSGT)) return;
  const char *text = bits == 64 ? "mov.b64 $0, $1;" : "mov.b32 $0, $1;",
             *registers = bits == 64 ? "=l,l" : "=r,r";
  LLVMValueRef highest = LLVMConstInt(type, 1ull << (bits - 1), false);
  LLVMPositionBuilderBefore(b, test);
  LLVMValueRef hidden = kiln_llvm_asm(b, KILN_ASM_PURE, text, registers, type, &highest, 1);
  LLVMValueRef inverted = LLVMBuildXor(b, counter, hidden, "");
  LLVMValueRef same =
      LLVMBuildICmp(b, with_other_sign(predicate), inverted, LLVMConstXor(bound, highest), "");
  LLVMReplaceAllUsesWith(test, same);
  LLVMInstructionEraseFromParent(test);
}

static void work_around(LLVMModuleRef module) {
  LLVMBuilderRef b = LLVMCreateBuilderInContext(LLVMGetModuleContext(module));
  for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(f); block; block = LLVMGetNextBasicBlock(block))
      for (LLVMValueRef i = LLVMGetFirstInstruction(block), next; i; i = next) {
        next = LLVMGetNextInstruction(i);
        if (LLVMGetInstructionOpcode(i) == LLVMICmp &&
            LLVMGetTypeKind(LLVMTypeOf(LLVMGetOperand(i, 0))) == LLVMIntegerTypeKind)
          keep_test(b, i);
      }
  LLVMDisposeBuilder(b);
  kiln_llvm_order(module);
}

// ------------------------------------------------------------------------------------------------ the text

/// LLVM numbers calls through all that a process compiles, in comments: `{ // callseq 3, 0`. They go: the text
/// does not depend on what was compiled before.
static void drop_call_numbers(kiln_buffer *ptx) {
  static const char mark[] = " // callseq ";
  char *text = (char *)ptx->bytes, *end = text, *at = text;
  for (char *next; (next = strstr(at, mark)); at = next + strcspn(next, "\n")) {
    memmove(end, at, (size_t)(next - at));
    end += next - at;
  }
  memmove(end, at, strlen(at) + 1);
  ptx->size = (size_t)(end - text) + strlen(end);
}

static bool begins(const char *line, const char *word) { return !strncmp(line, word, strlen(word)); }

/// The ".ftz" of a line that takes denormals away which stay (docs/ir.md), else NULL. LLVM writes it wherever f32
/// is flushed: in negations and absolute values, which move bits (abs(x), bitcast(x, i32) ^ sign), and in f16, also
/// where it computes in f16 what was computed in f32 and rounded.
static char *wrong_flush(char *line) {
  static const char cut[] = ".ftz";
  char *opcode = line + strspn(line, "\t");
  if (*opcode == '@') opcode += strcspn(opcode, " \n") + 1;
  const char *end = opcode + strcspn(opcode, " \n");
  char *flush = strstr(opcode, cut);
  if (!flush || flush > end || begins(opcode, "cvt")) return NULL;
  const bool is_f16 = begins(end - strlen(".f16"), ".f16") || begins(end - strlen(".f16x2"), ".f16x2");
  return is_f16 || begins(opcode, "neg") || begins(opcode, "abs") ? flush : NULL;
}

/// Not in inline PTX.
static void keep_denormals(kiln_buffer *ptx) {
  char *text = (char *)ptx->bytes, *end = text;
  bool is_inline = false;
  for (char *at = text, *next; *at; at = next) {
    next = at + strcspn(at, "\n");
    next += *next == '\n';
    if (begins(at, "\t// begin inline asm")) is_inline = true;
    if (begins(at, "\t// end inline asm")) is_inline = false;
    char *flush = is_inline ? NULL : wrong_flush(at);
    if (flush) {
      memmove(end, at, (size_t)(flush - at));
      end += flush - at, at = flush + strlen(".ftz");
    }
    memmove(end, at, (size_t)(next - at));
    end += next - at;
  }
  *end = 0;
  ptx->size = (size_t)(end - text);
}

/// The object is PTX. It is corrected, and then is the code, or the assembler makes the code of it.
static kiln_status finish(kiln_finishing *f, kiln_error *err) {
  kiln_buffer_u8(f->object, 0); // a NUL that does not count
  if (f->object->failed)
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for the PTX of %s", f->symbol);
  drop_call_numbers(f->object);
  keep_denormals(f->object);
  if (f->info->format == KILN_FORMAT_CUBIN) {
    kiln_status status = kiln_finish_cubin(f->target, f->options, (const char *)f->object->bytes, f->code,
                                           f->info, f->producer, err);
    if (status != KILN_STATUS_UNSUPPORTED || f->options->output) return status;
    // The assembler does not know the processor: who asked for no form gets the PTX, and why.
    f->info->why_ptx = kiln_arena_text(f->texts, err->text, strlen(err->text));
    err->status = KILN_OK;
    f->info->format = KILN_FORMAT_PTX;
  }
  kiln_buffer_deinit(f->code);
  *f->code = *f->object;
  *f->object = (kiln_buffer){0};
  return KILN_OK;
}

static const kiln_backend_form forms[] = {
    {KILN_FORMAT_PTX, LLVMAssemblyFile, finish}, {KILN_FORMAT_CUBIN, LLVMAssemblyFile, finish}, {0}};

const kiln_backend kiln_backend_nvptx = {
    .family = KILN_FAMILY_NVPTX,
    .lower = gpu_lower,
    .machine = gpu_machine_nvptx,
    .finishes_text = true,
    .passes = kiln_llvm_passes,
    .work_around = work_around,
    .forms = forms,
    .finish_time = offsetof(kiln_codegen_times, assemble),
};
