// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The program of the examples of build systems: saxpy BUNDLE adds on the host and compares with plain C.
#include <stdio.h>

#include <kiln/kiln.h>

enum { COUNT = 1000 };

static kiln_status run(const char *bundle, float a, const float *x, float *y, kiln_error *err) {
  kiln_library *library = NULL;
  kiln_device *device = NULL;
  kiln_kernel *saxpy = NULL;
  int32_t n = COUNT;
  kiln_status status = kiln_open_file(bundle, &library, err);
  if (status == KILN_OK) status = kiln_device_open(library, "host", &device, err);
  if (status == KILN_OK) status = kiln_kernel_get(device, "saxpy", NULL, &saxpy, err);
  if (status == KILN_OK) status = kiln_launch(saxpy, NULL, (const void *const[]){&a, &x, &y, &n}, 4, err);
  if (device) kiln_device_close(device);
  if (library) kiln_close(library);
  return status;
}

int main(int argc, char **argv) {
  static float x[COUNT], y[COUNT];
  kiln_error err;
  if (argc != 2) return fprintf(stderr, "usage: saxpy BUNDLE\n"), 2;
  for (int i = 0; i < COUNT; i++) x[i] = (float)i, y[i] = (float)(COUNT - i);
  if (run(argv[1], 0.5f, x, y, &err) != KILN_OK) return fprintf(stderr, "%s\n", err.text), 1;
  int wrong = 0;
  for (int i = 0; i < COUNT; i++) wrong += y[i] != 0.5f * (float)i + (float)(COUNT - i);
  printf("%d values, %d wrong\n", COUNT, wrong);
  return wrong != 0;
}
