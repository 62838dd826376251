// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A program that carries its kernels inside itself: no file is opened, unless the user names one in
// EMBEDDED_KERNELS, whose codes then go first. It is this program that allows it; the library reads no
// environment.
//
//   kiln build PREFIX/share/kiln/kernels/elementwise.kiln -k 'add[T=f32]' -t host -o app.kbundle
//   kiln embed app.kbundle -o bundle.S
//   cc main.c bundle.S $(pkg-config --cflags --libs kiln) -o embedded
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include <kiln/kiln.h>

extern const unsigned char kiln_bundle[], kiln_bundle_end[];

static void must(kiln_status status, const kiln_error *err) {
  if (status == KILN_OK) return;
  fprintf(stderr, "embedded: %s\n", err->text);
  exit(1);
}

/// What is inside, and before it what the user names.
static kiln_library *open_kernels(void) {
  const char *overlay =
      secure_getenv("EMBEDDED_KERNELS"); // NULL in programs with more rights than their caller
  const kiln_source sources[] = {{.path = overlay},
                                 {.bytes = kiln_bundle, .size = (size_t)(kiln_bundle_end - kiln_bundle)}};
  const kiln_open_options options = {
      .size = sizeof options, .sources = overlay ? sources : sources + 1, .source_count = overlay ? 2 : 1};
  kiln_library *library;
  kiln_error err;
  must(kiln_open(&options, &library, &err), &err);
  return library;
}

int main(void) {
  enum { COUNT = 3000 };
  _Alignas(64) static float x[COUNT], y[COUNT], z[COUNT];
  float *const px = x, *const py = y, *const pz = z;
  int32_t n = COUNT;
  kiln_library *library = open_kernels();
  kiln_device *device;
  kiln_kernel *add;
  kiln_error err = {0};
  for (int i = 0; i < COUNT; i++) x[i] = (float)i, y[i] = 0.5f;
  must(kiln_device_open(library, "host", &device, &err), &err);
  must(kiln_kernel_get(device, "add[T=f32]", NULL, &add, &err), &err);
  must(kiln_launch(add, NULL, (const void *const[]){&px, &py, &pz, &n}, 4, &err), &err);
  const struct {
    const float *x, *y;
    float *z;
    int32_t n;
  } block = {px, py, pz, n};
  kiln_choice choice;
  must(kiln_choose(add, &block, sizeof block, &choice, &err), &err);
  int wrong = 0;
  for (int i = 0; i < COUNT; i++) wrong += z[i] != (float)i + 0.5f;
  printf("%d sums, %d wrong, by %s\n", COUNT, wrong, choice.bundle);
  kiln_device_close(device);
  kiln_close(library);
  return wrong != 0;
}
