// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// conversion-check: runs all conversions of tests/conversions.h on any device.
//
//   conversion-check --source                       prints the kernels, for kiln build
//   conversion-check BUNDLE DEVICE [COUNT [SEED]]   COUNT values of each type (65536), one line per type
#include <stdlib.h>

#include "runtime/kiln.h"
#include "tests/conversions.h"

static void print_source(void) {
  static char text[20000];
  printf("kiln 1\n");
  for (unsigned from = 0; from < KILN_SCALAR_COUNT; from++) {
    conversion_kernel((kiln_scalar)from, text, sizeof text);
    printf("\n%s", text);
  }
}

static void must(kiln_status status, const kiln_error *err) {
  if (status == KILN_OK) return;
  fprintf(stderr, "conversion-check: %s\n", err->text);
  exit(1);
}

typedef struct run {
  kiln_device *device;
  kiln_scalar from;
  size_t count;
  conversion all[MOST_CONVERSIONS];
  void *outputs[MOST_CONVERSIONS], *input; ///< of the device
  uint64_t *bits;                          ///< owned
  unsigned many;
} run;

static void launch(run *r, uint64_t *random) {
  kiln_error err = {0};
  kiln_kernel *kernel;
  char name[64];
  unsigned size = kiln_scalars[r->from].bytes;
  uint8_t *bytes = calloc(r->count, size);
  const void *args[MOST_CONVERSIONS + 2];
  int32_t n = (int32_t)r->count;
  for (size_t k = 0; k < r->count; k++) {
    r->bits[k] = conversion_input(r->from, k, r->count, random);
    memcpy(bytes + k * size, &r->bits[k], size);
  }
  must(kiln_alloc(r->device, r->count * size, &r->input, &err), &err);
  must(kiln_copy_in(r->device, r->input, bytes, r->count * size, &err), &err);
  free(bytes);
  for (unsigned i = 0; i < r->many; i++) {
    must(kiln_alloc(r->device, r->count * 8, &r->outputs[i], &err), &err);
    args[i] = &r->outputs[i];
  }
  args[r->many] = &r->input;
  args[r->many + 1] = &n;
  snprintf(name, sizeof name, "from_%s", kiln_scalars[r->from].spelling);
  must(kiln_kernel_get(r->device, name, NULL, &kernel, &err), &err);
  must(kiln_launch(kernel, NULL, args, r->many + 2, &err), &err);
  must(kiln_sync(r->device, NULL, &err), &err);
}

/// How many are wrong; the first of each conversion is printed.
static size_t compare(run *r) {
  kiln_error err = {0};
  size_t wrong = 0;
  for (unsigned i = 0; i < r->many; i++) {
    unsigned size = kiln_scalars[r->all[i].to].bytes;
    uint8_t *bytes = malloc(r->count * size);
    size_t before = wrong;
    must(kiln_copy_out(r->device, bytes, r->outputs[i], r->count * size, &err), &err);
    for (size_t k = 0; k < r->count; k++) {
      uint64_t got = 0, want = conversion_result(r->all[i], r->bits[k]);
      char text[128];
      memcpy(&got, bytes + k * size, size);
      if (conversion_agrees(r->all[i], want, got) || wrong++ != before) continue;
      printf("  %s of %s 0x%llx is 0x%llx, expected 0x%llx\n", conversion_text(r->all[i], "x", text),
             kiln_scalars[r->from].spelling, (unsigned long long)r->bits[k], (unsigned long long)got,
             (unsigned long long)want);
    }
    free(bytes);
  }
  return wrong;
}

static size_t check_type(kiln_device *device, kiln_scalar from, size_t count, uint64_t *random) {
  run r = {.device = device, .from = from, .count = count, .bits = calloc(count, sizeof *r.bits)};
  r.many = conversions_from(from, r.all);
  launch(&r, random);
  size_t wrong = compare(&r);
  printf("%-5s %u conversions of %zu values: %zu wrong\n", kiln_scalars[from].spelling, r.many, count, wrong);
  fflush(stdout);
  for (unsigned i = 0; i < r.many; i++) kiln_free(device, r.outputs[i]);
  kiln_free(device, r.input);
  free(r.bits);
  return wrong;
}

int main(int argc, char **argv) {
  kiln_error err = {0};
  kiln_library *library;
  kiln_device *device;
  unsigned failed = 0;
  if (argc == 2 && !strcmp(argv[1], "--source")) return print_source(), 0;
  if (argc < 3)
    return fprintf(stderr, "usage: conversion-check --source | BUNDLE DEVICE [COUNT [SEED]]\n"), 2;
  size_t count = argc > 3 ? strtoull(argv[3], NULL, 10) : 65536;
  uint64_t random = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
  count = (count + CONVERSION_TILE - 1) / CONVERSION_TILE * CONVERSION_TILE; // kernels have no masks
  if (!count || count > 1u << 24) return fprintf(stderr, "expected a count from 1 to %u\n", 1u << 24), 2;
  must(kiln_open_file(argv[1], &library, &err), &err);
  must(kiln_device_open(library, argv[2], &device, &err), &err);
  printf("%s (%s), seed %llu\n", kiln_device_description(device), kiln_device_target_name(device),
         (unsigned long long)random);
  for (unsigned from = 0; from < KILN_SCALAR_COUNT; from++)
    failed += check_type(device, (kiln_scalar)from, count, &random) != 0;
  kiln_device_close(device);
  kiln_close(library);
  printf("%u passed, %u failed, 0 skipped\n", KILN_SCALAR_COUNT - failed, failed);
  return failed != 0;
}
