// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A program that links kernels as a library: math_kernels_open and the typed functions are made by kiln_library.
#include <stdio.h>

#include "math_kernels.h"
#include "math_kernels_open.h"

static kiln_status run(float *x, float *y, int32_t n, kiln_error *err) {
  kiln_library *library = NULL;
  kiln_device *device = NULL;
  kiln_kernel *saxpy = NULL;
  kiln_status status = math_kernels_open(&library, err);
  if (status == KILN_OK) status = kiln_device_open(library, "host", &device, err);
  if (status == KILN_OK) status = math_kernels_saxpy_get(device, &saxpy, err);
  if (status == KILN_OK) status = math_kernels_saxpy(saxpy, NULL, 0.5f, x, y, n, err);
  if (device) kiln_device_close(device);
  if (library) kiln_close(library);
  return status;
}

int main(void) {
  float x[100], y[100];
  kiln_error err;
  for (int i = 0; i < 100; i++) x[i] = (float)i, y[i] = 1.0f;
  if (run(x, y, 100, &err) != KILN_OK) return fprintf(stderr, "%s\n", err.text), 1;
  int wrong = 0;
  for (int i = 0; i < 100; i++) wrong += y[i] != 0.5f * (float)i + 1.0f;
  printf("100 values, %d wrong, by bundle in the program\n", wrong);
  return wrong != 0;
}
