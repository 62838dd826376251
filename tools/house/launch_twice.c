// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches a matrix product twice on each device named, for `make count-house`, which follows the calls of
// kiln_launch: launch-twice BUNDLE KERNEL DEVICE... The kernel has the parameters of `gemm` in
// kernels/gemm.kiln; all sides are 128.
#include <stdio.h>

#include "runtime/kiln.h"

enum { SIDE = 128, BYTES = SIDE * SIDE * 2, ARRAYS = 4 };

static kiln_status launch_on(kiln_library *library, const char *kernel_name, const char *device_name,
                             kiln_error *err) {
  kiln_device *device = NULL;
  kiln_kernel *kernel = NULL;
  void *memory[ARRAYS] = {0};
  int32_t side = SIDE;
  int64_t stride = SIDE;
  const void *const args[] = {&memory[0], &memory[1], &memory[2], &memory[3], &side,
                              &side,      &side,      &stride,    &stride,    &stride};
  kiln_status status = kiln_device_open(library, device_name, &device, err);
  if (status == KILN_OK) status = kiln_kernel_get(device, kernel_name, NULL, &kernel, err);
  for (int i = 0; i < ARRAYS && status == KILN_OK; i++) {
    status = kiln_alloc(device, BYTES, &memory[i], err);
    if (status == KILN_OK) status = kiln_fill(device, memory[i], 0, BYTES, err);
  }
  for (int i = 0; i < 2 && status == KILN_OK; i++)
    status = kiln_launch(kernel, NULL, args, sizeof args / sizeof *args, err);
  if (status == KILN_OK) status = kiln_sync(device, NULL, err);
  for (int i = 0; i < ARRAYS && device; i++) kiln_free(device, memory[i]);
  if (device) kiln_device_close(device);
  return status;
}

int main(int argc, char **argv) {
  kiln_library *library = NULL;
  kiln_error err = {0};
  if (argc < 4) return fprintf(stderr, "usage: launch-twice BUNDLE KERNEL DEVICE...\n"), 2;
  kiln_status status = kiln_open_file(argv[1], &library, &err);
  for (int i = 3; i < argc && status == KILN_OK; i++) status = launch_on(library, argv[2], argv[i], &err);
  if (library) kiln_close(library);
  if (status != KILN_OK) return fprintf(stderr, "launch-twice: %s\n", err.text), 1;
  return 0;
}
