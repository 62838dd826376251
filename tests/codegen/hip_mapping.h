// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code objects on the first HIP device, for tests: loads, launches one block's grid, brings memory back. The
// device may be an emulator (tests/emulation/emulated.sh).
#ifndef KILN_TESTS_CODEGEN_HIP_MAPPING_H
#define KILN_TESTS_CODEGEN_HIP_MAPPING_H

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "compiler/codegen.h"
#include "tests/harness.h"

typedef struct hip_table {
#define REQUIRED(field, symbol, parameters) int(*field) parameters;
#define OPTIONAL REQUIRED
#include "runtime/device/hip_symbols.def"
#undef REQUIRED
#undef OPTIONAL
} hip_table;

/// The driver, or NULL where there is none.
static inline const hip_table *hip_open(void) {
  static hip_table table;
  static const struct {
    const char *name;
    size_t offset;
  } symbols[] = {
#define REQUIRED(field, symbol, parameters) {#symbol, offsetof(hip_table, field)},
#define OPTIONAL(field, symbol, parameters)
#include "runtime/device/hip_symbols.def"
#undef REQUIRED
#undef OPTIONAL
  };
  void *handle = dlopen("libamdhip64.so", RTLD_NOW);
  if (!handle) return NULL;
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
    void *symbol = dlsym(handle, symbols[i].name);
    if (!symbol) return NULL;
    memcpy((char *)&table + symbols[i].offset, &symbol, sizeof symbol);
  }
  return table.init(0) ? NULL : &table;
}

/// Runs a kernel whose arguments lie in a block of `size` bytes, and waits. False: the driver failed.
static inline bool hip_launch(const hip_table *hip, const kiln_artifact *artifact, const uint32_t grid[3],
                              void *args, size_t size) {
  void *module = NULL, *function = NULL, *extra[] = {(void *)1, args, (void *)2, &size, (void *)3};
  int failed = hip->module_load(&module, artifact->code.bytes);
  if (!failed) failed = hip->module_function(&function, module, artifact->info.symbol);
  if (!failed)
    failed = hip->launch(function, grid[0], grid[1], grid[2], artifact->info.block_threads, 1, 1,
                         artifact->info.dynamic_shared, NULL, NULL, extra);
  if (!failed) failed = hip->stream_sync(NULL);
  if (module) hip->module_unload(module);
  return !failed;
}

/// Runs a kernel of one block whose parameters are pointers: `count` buffers of `size` bytes each go there
/// and come back. False: the driver failed.
static inline bool hip_run(const hip_table *hip, const kiln_artifact *artifact, uint8_t *const *buffers,
                           uint32_t count, size_t size) {
  void *memory[256] = {NULL};
  int failed = 0;
  CHECK(count <= sizeof memory / sizeof *memory);
  for (uint32_t i = 0; i < count && !failed; i++) {
    failed = hip->memory_alloc(&memory[i], size);
    if (!failed) failed = hip->copy(memory[i], buffers[i], size, 1);
  }
  if (!failed)
    failed = !hip_launch(hip, artifact, (uint32_t[]){1, 1, 1}, memory, (size_t)count * sizeof *memory);
  for (uint32_t i = 0; i < count; i++) {
    if (!failed) failed = hip->copy(buffers[i], memory[i], size, 2);
    if (memory[i]) hip->memory_free(memory[i]);
  }
  return !failed;
}

#endif
