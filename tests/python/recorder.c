// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stands between the Python package and libkiln in tests: records the calls, and lets the null device stand
// for GPUs.
#include <dlfcn.h>
#include <string.h>

#include "runtime/kiln.h"

#define NEXT(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

KILN_API struct recorded {
  uint64_t launches, syncs, frees, stream, synced, block_size, is_prepared;
  uint32_t grid[4]; // 4: whether one was given
  uint8_t block[4096];
} recorded;

static void note(kiln_stream stream, const uint32_t *grid, const void *block, size_t size, int is_prepared) {
  recorded.launches++;
  recorded.stream = (uintptr_t)stream;
  recorded.grid[3] = grid != NULL;
  if (grid) memcpy(recorded.grid, grid, 3 * sizeof *grid);
  if (block) memcpy(recorded.block, block, size);
  recorded.block_size = size;
  recorded.is_prepared = (uint64_t)is_prepared;
}

KILN_API kiln_status kiln_device_open(kiln_library *library, const char *name, kiln_device **out,
                                      kiln_error *err) {
  int is_gpu = !strncmp(name, "cuda", 4) || !strncmp(name, "hip", 3);
  return NEXT(kiln_device_open)(library, is_gpu ? "null" : name, out, err);
}

KILN_API kiln_status kiln_launch_packed(kiln_kernel *kernel, kiln_stream stream, const void *block,
                                        size_t size, kiln_error *err) {
  note(stream, NULL, block, size, 0);
  return NEXT(kiln_launch_packed)(kernel, stream, block, size, err);
}

KILN_API kiln_status kiln_launch_grid(kiln_kernel *kernel, kiln_stream stream, const uint32_t grid[3],
                                      const void *block, size_t size, kiln_error *err) {
  note(stream, grid, block, size, 0);
  return NEXT(kiln_launch_grid)(kernel, stream, grid, block, size, err);
}

KILN_API kiln_status kiln_prepared_launch(kiln_prepared *prepared, kiln_stream stream, kiln_error *err) {
  size_t size;
  const void *block = NEXT(kiln_prepared_block)(prepared, &size);
  note(stream, NULL, block, size, 1);
  return NEXT(kiln_prepared_launch)(prepared, stream, err);
}

KILN_API kiln_status kiln_sync(kiln_device *device, kiln_stream stream, kiln_error *err) {
  recorded.syncs++;
  recorded.synced = (uintptr_t)stream;
  return NEXT(kiln_sync)(device, stream, err);
}

KILN_API void kiln_free(kiln_device *device, void *memory) {
  recorded.frees++;
  NEXT(kiln_free)(device, memory);
}
