// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LLVM modules and the machines that they are for: read textual IR into a module, order the instructions of its very long
// blocks so that few values are alive at a time, verify, optimise and emit it. Making a target machine costs 0.1 to
// 0.5 ms, as much as emitting a small kernel, so machines are kept; it is not safe to share one between threads, so each
// thread has its own.
#include "compiler/codegen/llvm/llvm_module.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Linker.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "compiler/codegen.h"
#include "compiler/codegen/llvm/llvm_gate.h"

// -------------------------------------------------------------------------------------------------- machines

typedef struct machine_entry {
  char *key;                    // owned; triple, processor, features, level
  LLVMTargetMachineRef machine; // owned
  char *layout;                 // owned by LLVM's allocator
} machine_entry;

typedef struct machine_cache {
  machine_entry entries[KILN_LLVM_MACHINES];
  size_t count, oldest;
} machine_cache;

static pthread_key_t cache_key;
static bool cache_key_made;

void kiln_codegen_on_fatal(void (*handler)(const char *reason)) {
  LLVMResetFatalErrorHandler();
  if (handler) LLVMInstallFatalErrorHandler(handler);
}

static void entry_deinit(machine_entry *e) {
  free(e->key);
  if (e->machine) LLVMDisposeTargetMachine(e->machine);
  if (e->layout) LLVMDisposeMessage(e->layout);
  memset(e, 0, sizeof *e);
}

static void cache_destroy(void *p) {
  machine_cache *cache = p;
  for (size_t i = 0; i < cache->count; i++) entry_deinit(&cache->entries[i]);
  free(cache);
}

static void init_once(void) {
  // Straight-line strength reduction, which targets add to their pipelines and nothing else leaves out: since
  // LLVM 22 it compares all pairs of values of a base, and took up to nine tenths of the time to assembly. LLVM notes the name
  // when it parses it.
  static const char *const options[] = {"kiln", "-opt-disable=slsr"};
  LLVMParseCommandLineOptions(2, options, "");
  // Early tail duplication: it copies the head of a loop to where the loop is entered, which then has several entries. Where
  // lanes of a warp take different ones, ptxas does not bring them together again, and a barrier in the loop never opens.
  KILN_ASSERT(kiln_llvm_set_flag("disable-early-taildup"));
#define BACK_END(name)                                                                                  \
  LLVMInitialize##name##TargetInfo(), LLVMInitialize##name##Target(), LLVMInitialize##name##TargetMC(), \
      LLVMInitialize##name##AsmPrinter()
  BACK_END(NVPTX);
  BACK_END(AMDGPU);
  BACK_END(X86);
  BACK_END(AArch64);
#undef BACK_END
  LLVMInitializeAMDGPUAsmParser(); // inline assembly becomes machine code
  LLVMInitializeX86AsmParser();
  LLVMInitializeAArch64AsmParser();
  cache_key_made = pthread_key_create(&cache_key, cache_destroy) == 0;
}

void kiln_llvm_init(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, init_once);
}

static LLVMTargetMachineRef make_machine(const kiln_target *target, const char *features, unsigned optimise,
                                         kiln_error *err) {
  static const LLVMCodeGenOptLevel levels[] = {LLVMCodeGenLevelNone, LLVMCodeGenLevelLess,
                                               LLVMCodeGenLevelDefault, LLVMCodeGenLevelAggressive};
  const char *triple = kiln_target_triple(target);
  char *message = NULL;
  unsigned version;
  LLVMGetVersion(&version, NULL, NULL);
  if (version < target->processor->llvm) { // LLVM itself would take another processor and say so on stderr
    kiln_fail(err, KILN_STATUS_TARGET, "%s needs LLVM %u, this code generator has LLVM %u",
              target->processor->name, target->processor->llvm, version);
    return NULL;
  }
  LLVMTargetRef back_end = NULL;
  if (LLVMGetTargetFromTriple(triple, &back_end, &message)) {
    kiln_fail(err, KILN_STATUS_TARGET, "LLVM has no back end for %s: %s", triple, message ? message : "");
    LLVMDisposeMessage(message);
    return NULL;
  }
  LLVMTargetMachineOptionsRef options = LLVMCreateTargetMachineOptions();
  LLVMTargetMachineOptionsSetCPU(options, kiln_target_cpu(target));
  LLVMTargetMachineOptionsSetFeatures(options, features);
  LLVMTargetMachineOptionsSetCodeGenOptLevel(options, levels[optimise > 3 ? 3 : optimise]);
  LLVMTargetMachineOptionsSetRelocMode(options, LLVMRelocPIC);
  LLVMTargetMachineRef machine = LLVMCreateTargetMachineWithOptions(back_end, triple, options);
  LLVMDisposeTargetMachineOptions(options);
  if (!machine) kiln_fail(err, KILN_STATUS_TARGET, "LLVM cannot make code for %s", triple);
  return machine;
}

kiln_status kiln_llvm_machine(const kiln_target *target, unsigned optimise, LLVMTargetMachineRef *out_machine,
                              const char **out_layout, kiln_error *err) {
  *out_machine = NULL;
  *out_layout = "";
  kiln_llvm_init();
  machine_cache *cache = cache_key_made ? pthread_getspecific(cache_key) : NULL;
  if (!cache && cache_key_made) { // the thread's first
    cache = calloc(1, sizeof *cache);
    if (cache && pthread_setspecific(cache_key, cache) != 0) free(cache), cache = NULL;
  }
  if (!cache) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for the cache of target machines");
  char features[KILN_TARGET_FEATURES + 64];
  kiln_target_features(target, features);
  char *key = NULL;
  kiln_buffer text = {0};
  kiln_buffer_format(&text, "%s %s %s %u", kiln_target_triple(target), kiln_target_cpu(target), features,
                     optimise);
  kiln_buffer_u8(&text, 0);
  if (text.failed)
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for the cache of target machines");
  key = (char *)text.bytes;
  machine_entry *entry = NULL;
  for (size_t i = 0; !entry && i < cache->count; i++)
    if (strcmp(cache->entries[i].key, key) == 0) entry = &cache->entries[i];
  if (!entry) {
    LLVMTargetMachineRef machine = make_machine(target, features, optimise, err);
    if (!machine) {
      free(key);
      return KILN_STATUS_TARGET;
    }
    if (cache->count < KILN_LLVM_MACHINES) {
      entry = &cache->entries[cache->count++];
    } else { // takes the place of the one that was filled first
      entry = &cache->entries[cache->oldest];
      cache->oldest = (cache->oldest + 1) % KILN_LLVM_MACHINES;
      entry_deinit(entry);
    }
    LLVMTargetDataRef data = LLVMCreateTargetDataLayout(machine);
    *entry = (machine_entry){.key = key, .machine = machine, .layout = LLVMCopyStringRepOfTargetData(data)};
    LLVMDisposeTargetData(data);
  } else {
    free(key);
  }
  *out_machine = entry->machine;
  *out_layout = entry->layout;
  return KILN_OK;
}

// --------------------------------------------------------------------------------------------------- modules

// A message of LLVM's in one line.
static void one_line(char *text) {
  for (char *p = text; *p; p++)
    if (*p == '\n') *p = p[1] ? ';' : 0;
}

static kiln_status fail_with(kiln_error *err, kiln_status status, const char *what, char *message) {
  if (message) one_line(message);
  kiln_fail(err, status, "%s: %.700s", what, message && message[0] ? message : "no message");
  LLVMDisposeMessage(message);
  return status;
}

// Errors that mean the kernel asks for too much come with these words.
static kiln_status status_of_message(const char *message) {
  static const char *const limits[] = {"exceeds limit", "ran out of registers", "exceeds max", "too large",
                                       "limit of"};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
    if (strstr(message, limits[i])) return KILN_STATUS_LIMIT;
  return KILN_STATUS_INTERNAL;
}

// A message on assembly ends in " at line N", where N is 1 + the operation that the call's metadata names:
// cuts it off. 0: it does not.
static unsigned long cut_operation(char *message) {
  static const char mark[] = " at line ";
  char *at = strstr(message, mark), *end;
  for (char *next; at && (next = strstr(at + 1, mark));) at = next;
  unsigned long number = at ? strtoul(at + sizeof mark - 1, &end, 10) : 0;
  if (number) *at = 0;
  return number;
}

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *p) {
  kiln_error *err = p;
  char what[48] = "LLVM";
  if (LLVMGetDiagInfoSeverity(info) != LLVMDSError || err->status != KILN_OK) return;
  char *message = LLVMGetDiagInfoDescription(info);
  unsigned long number = cut_operation(message);
  if (number) snprintf(what, sizeof what, "operation %lu: LLVM", number - 1);
  kiln_status status = status_of_message(message);
  if (number && status == KILN_STATUS_INTERNAL) status = KILN_STATUS_SOURCE; // of the source's own assembly
  fail_with(err, status, what, message);
  err->operation = (uint32_t)number;
}

LLVMContextRef kiln_llvm_context(kiln_error *caught) {
  LLVMContextRef context = LLVMContextCreate();
  LLVMContextSetDiagnosticHandler(context, on_diagnostic, caught);
  return context;
}

LLVMModuleRef kiln_llvm_module(LLVMContextRef context, const kiln_target *target, const char *layout) {
  static const char flag[] = "amdhsa_code_object_version";
  LLVMModuleRef module = LLVMModuleCreateWithNameInContext("kiln", context);
  LLVMSetTarget(module, kiln_target_triple(target));
  LLVMSetDataLayout(module, layout);
  if (!target->code_object) return module;
  LLVMValueRef version = LLVMConstInt(LLVMInt32TypeInContext(context), target->code_object * 100u, 0);
  LLVMAddModuleFlag(module, LLVMModuleFlagBehaviorError, flag, sizeof flag - 1, LLVMValueAsMetadata(version));
  return module;
}

kiln_status kiln_llvm_verify(LLVMModuleRef module, const char *stage, kiln_error *err) {
  char *message = NULL;
  if (LLVMVerifyModule(module, LLVMReturnStatusAction, &message))
    return fail_with(err, KILN_STATUS_INTERNAL, stage, message);
  LLVMDisposeMessage(message);
  return KILN_OK;
}

// ---------------------------------------------------------------------------------------- optimise

// Kernels come in with everything inlined, tiles already in registers and loops in the shape that is wanted,
// so what pays is: inline the prelude, clean up, merge address arithmetic, move invariants out of loops.
// Whole -O2 costs several times that for nothing.
#define CLEAN "sroa<modify-cfg>,early-cse,instcombine<no-verify-fixpoint>,simplifycfg"
#define LOOPS "loop-mssa(licm)"
#define LAST "instcombine<no-verify-fixpoint>,div-rem-pairs,simplifycfg,adce"
const char *const kiln_llvm_passes[KILN_LLVM_LEVELS] = {
    "always-inline",
    "always-inline,function(" CLEAN ")",
    "always-inline,function(" CLEAN "," LOOPS ",early-cse<memssa>," LAST "),globaldce",
    "always-inline,function(" CLEAN "," LOOPS ",gvn," LAST "),globaldce",
};
#undef CLEAN
#undef LOOPS
#undef LAST

kiln_status kiln_llvm_optimise(LLVMModuleRef module, LLVMTargetMachineRef machine, const char *passes,
                               kiln_error *err) {
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef error = LLVMRunPasses(module, passes, machine, options);
  LLVMDisposePassBuilderOptions(options);
  if (!error) return KILN_OK;
  char *message = LLVMGetErrorMessage(error);
  one_line(message);
  kiln_fail(err, KILN_STATUS_INTERNAL, "LLVM refuses the pass list: %.600s", message);
  LLVMDisposeErrorMessage(message);
  return KILN_STATUS_INTERNAL;
}

// -------------------------------------------------------------------------------------------- emit

kiln_status kiln_llvm_emit(LLVMModuleRef module, LLVMTargetMachineRef machine, LLVMCodeGenFileType type,
                           kiln_buffer *out, kiln_error *err) {
  char *message = NULL;
  LLVMMemoryBufferRef memory = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, type, &message, &memory))
    return fail_with(err, KILN_STATUS_INTERNAL, "LLVM cannot emit code", message);
  kiln_buffer_bytes(out, LLVMGetBufferStart(memory), LLVMGetBufferSize(memory));
  LLVMDisposeMemoryBuffer(memory);
  return out->failed ? kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for the emitted code") : KILN_OK;
}

void kiln_llvm_print(LLVMModuleRef module, kiln_buffer *out) {
  char *text = LLVMPrintModuleToString(module);
  kiln_buffer_bytes(out, text, strlen(text));
  LLVMDisposeMessage(text);
}

kiln_status kiln_llvm_read(LLVMContextRef context, const char *text, size_t size, const char *name,
                           uint32_t line, LLVMModuleRef *out, kiln_error *err) {
  kiln_buffer whole = {0};
  for (uint32_t i = 1; i < line; i++) kiln_buffer_u8(&whole, '\n'); // by which LLVM counts lines
  kiln_buffer_bytes(&whole, text, size);
  if (whole.failed) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for the text of a module");
  // The reader takes the copy over, also when it fails.
  LLVMMemoryBufferRef memory =
      LLVMCreateMemoryBufferWithMemoryRangeCopy((const char *)whole.bytes, whole.size, name);
  kiln_buffer_deinit(&whole);
  char *message = NULL;
  if (!LLVMParseIRInContext(context, memory, out, &message)) return KILN_OK;
  *out = NULL;
  return fail_with(err, KILN_STATUS_SOURCE, "LLVM", message);
}

kiln_status kiln_llvm_link_text(LLVMContextRef context, LLVMModuleRef module, const char *text, size_t size,
                                const char *name, kiln_error *err) {
  LLVMModuleRef read;
  if (kiln_llvm_read(context, text, size, name, 1, &read, err) != KILN_OK)
    return err->status = KILN_STATUS_INTERNAL;
  LLVMSetTarget(read, LLVMGetTarget(module));
  LLVMSetDataLayout(read, LLVMGetDataLayoutStr(module));
  if (LLVMLinkModules2(module, read))
    return kiln_fail(err, KILN_STATUS_INTERNAL, "%s: LLVM cannot link the text into the module", name);
  return KILN_OK;
}

// -------------------------------------------------------------------------------------- order in long blocks

typedef struct place {
  LLVMValueRef value;
  uint32_t at; ///< in the block
} place;

typedef struct block_order {
  LLVMBasicBlockRef block;
  LLVMValueRef *instructions; ///< as they stand
  place *places;              ///< the same, sorted by address
  uint8_t *states;
  uint32_t *order, *stack; ///< numbers of instructions
  uint32_t count, ordered;
} block_order;

enum { FIXED, MOVABLE, PLACED };
enum { LONG_BLOCK = 4096 }; // instructions; what is shorter the assembler orders itself

static int by_address(const void *a, const void *b) {
  uintptr_t left = (uintptr_t)((const place *)a)->value, right = (uintptr_t)((const place *)b)->value;
  return (left > right) - (left < right);
}

/// The number of a value of this block; `count` for any other.
static uint32_t number_of(const block_order *o, LLVMValueRef value) {
  const place key = {.value = value};
  const place *found = bsearch(&key, o->places, o->count, sizeof *found, by_address);
  return found ? found->at : o->count;
}

/// Operations that only compute.
static const bool computes[] = {
    [LLVMAdd] = true,  [LLVMSub] = true,  [LLVMMul] = true,    [LLVMUDiv] = true,          [LLVMSDiv] = true,
    [LLVMURem] = true, [LLVMSRem] = true, [LLVMShl] = true,    [LLVMLShr] = true,          [LLVMAShr] = true,
    [LLVMAnd] = true,  [LLVMOr] = true,   [LLVMXor] = true,    [LLVMTrunc] = true,         [LLVMZExt] = true,
    [LLVMSExt] = true, [LLVMICmp] = true, [LLVMSelect] = true, [LLVMGetElementPtr] = true,
};

static bool is_movable(const block_order *o, LLVMValueRef instruction) {
  const LLVMOpcode opcode = LLVMGetInstructionOpcode(instruction);
  const LLVMTypeKind kind = LLVMGetTypeKind(LLVMTypeOf(instruction));
  const bool is_pure = opcode < sizeof computes / sizeof *computes && computes[opcode],
             is_address_or_integer = kind == LLVMIntegerTypeKind || kind == LLVMPointerTypeKind;
  if (!is_pure || !is_address_or_integer) return false;
  for (LLVMUseRef use = LLVMGetFirstUse(instruction); use; use = LLVMGetNextUse(use)) {
    LLVMValueRef user = LLVMGetUser(use);
    if (LLVMGetInstructionParent(user) != o->block || LLVMIsAPHINode(user)) return false;
  }
  return true;
}

/// Puts an instruction next, after the operands that wait for their first use.
static void put(block_order *o, uint32_t number) {
  uint32_t depth = 0;
  o->stack[depth++] = number;
  while (depth) {
    uint32_t at = o->stack[depth - 1], waiting = o->count;
    LLVMValueRef instruction = o->instructions[at];
    int operands = LLVMGetNumOperands(instruction);
    for (int i = 0; i < operands && waiting == o->count; i++) {
      uint32_t operand = number_of(o, LLVMGetOperand(instruction, (unsigned)i));
      if (operand != o->count && o->states[operand] == MOVABLE) waiting = operand;
    }
    if (waiting != o->count) {
      o->stack[depth++] = waiting;
      continue;
    }
    o->states[at] = PLACED;
    o->order[o->ordered++] = at;
    depth--;
  }
}

static void move_all(const block_order *o) {
  LLVMBuilderRef builder = LLVMCreateBuilderInContext(
      LLVMGetModuleContext(LLVMGetGlobalParent(LLVMGetBasicBlockParent(o->block))));
  LLVMPositionBuilderBefore(builder, o->instructions[o->count - 1]);
  for (uint32_t i = 0; i + 1 < o->count; i++) {
    LLVMValueRef instruction = o->instructions[o->order[i]];
    if (LLVMIsAPHINode(instruction)) continue;
    LLVMInstructionRemoveFromParent(instruction);
    LLVMInsertIntoBuilder(builder, instruction);
  }
  LLVMDisposeBuilder(builder);
}

static void order_block(block_order *o) {
  uint32_t at = 0;
  for (LLVMValueRef i = LLVMGetFirstInstruction(o->block); i; i = LLVMGetNextInstruction(i), at++) {
    o->instructions[at] = i;
    o->places[at] = (place){i, at};
    o->states[at] = is_movable(o, i) ? MOVABLE : FIXED;
  }
  qsort(o->places, o->count, sizeof *o->places, by_address);
  for (uint32_t i = 0; i < o->count; i++)
    if (o->states[i] == FIXED) put(o, i);
  if (o->ordered == o->count) move_all(o); // what nothing uses would be left
}

void kiln_llvm_order(LLVMModuleRef module) {
  for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b)) {
      block_order o = {.block = b};
      for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) o.count++;
      if (o.count <= LONG_BLOCK) continue;
      char *memory = malloc(o.count * (sizeof *o.instructions + sizeof *o.places + 2 * sizeof *o.order + 1));
      if (!memory) continue; // the block stays as it is
      o.places = (place *)memory;
      o.instructions = (LLVMValueRef *)(o.places + o.count);
      o.order = (uint32_t *)(o.instructions + o.count);
      o.stack = o.order + o.count;
      o.states = (uint8_t *)(o.stack + o.count);
      order_block(&o);
      free(memory);
    }
}
