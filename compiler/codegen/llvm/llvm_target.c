// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cache of LLVM target machines. Making one costs 0.1 to 0.5 ms, as much as emitting a small kernel; it
// is not safe to share one between threads, so each thread has its own.
#include "compiler/codegen/llvm/llvm_target.h"

#include <llvm-c/Core.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/codegen.h"

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
  // LLVM 22 it compares all pairs of values of a base, and took up to nine tenths of the time to assembly.
  // Early tail duplication: it copies the head of a loop to where the loop is entered, which then has several entries. Where
  // lanes of a warp take different ones, ptxas does not bring them together again, and a barrier in the loop never opens.
  static const char *const options[] = {"kiln", "-opt-disable=slsr", "-disable-early-taildup"};
  LLVMParseCommandLineOptions(3, options, "");
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

static machine_cache *thread_cache(void) {
  machine_cache *cache = cache_key_made ? pthread_getspecific(cache_key) : NULL;
  if (cache || !cache_key_made) return cache;
  cache = calloc(1, sizeof *cache);
  if (cache && pthread_setspecific(cache_key, cache) != 0) free(cache), cache = NULL;
  return cache;
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
  machine_cache *cache = thread_cache();
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
