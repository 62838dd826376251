// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A program that carries its kernels inside itself: no file is opened.
//
//   kiln build kernels/elementwise.kiln -k 'add[T=f32]' -t host -o app.kbundle
//   kiln embed app.kbundle -o bundle.S
//   cc main.c bundle.S -lkiln -o embedded
#include <stdio.h>
#include <stdlib.h>

#include "runtime/kiln.h"

extern const unsigned char kiln_bundle[], kiln_bundle_end[];

static void must(kiln_status status, const kiln_error *err) {
  if (status == KILN_OK) return;
  fprintf(stderr, "embedded: %s\n", err->text);
  exit(1);
}

int main(void) {
  enum { COUNT = 3000 };
  _Alignas(64) static float x[COUNT], y[COUNT], z[COUNT];
  float *const px = x, *const py = y, *const pz = z;
  int32_t n = COUNT;
  kiln_library *library;
  kiln_device *device;
  kiln_kernel *add;
  kiln_error err = {0};
  for (int i = 0; i < COUNT; i++) x[i] = (float)i, y[i] = 0.5f;
  must(kiln_open_memory(kiln_bundle, (size_t)(kiln_bundle_end - kiln_bundle), &library, &err), &err);
  must(kiln_device_open(library, "host", &device, &err), &err);
  must(kiln_kernel_get(device, "add[T=f32]", NULL, &add, &err), &err);
  must(kiln_launch(add, NULL, (const void *const[]){&px, &py, &pz, &n}, 4, &err), &err);
  int wrong = 0;
  for (int i = 0; i < COUNT; i++) wrong += z[i] != (float)i + 0.5f;
  printf("%d sums, %d wrong\n", COUNT, wrong);
  kiln_device_close(device);
  kiln_close(library);
  return wrong != 0;
}
