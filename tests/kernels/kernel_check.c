// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A program of its own: kernel-check BUNDLE DEVICE [NAME-PART [SEED]]. Runs every case on the device, or
// those with NAME-PART in their names, or the one of the name after '=', and prints a line each. The seed (1)
// draws where arrays lie and how far apart their rows are.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/cases.h"

static void print(void *context, const char *name, case_result result, const char *text, double error) {
  static const char *const words[] = {
      [CASE_PASSED] = "pass", [CASE_FAILED] = "fail", [CASE_SKIPPED] = "skip"};
  unsigned *counts = context;
  printf("%-22s %s  %.3f of the tolerance%s%s\n", name, words[result], error, *text ? "; " : "", text);
  fflush(stdout);
  counts[result]++;
}

int main(int argc, char **argv) {
  unsigned counts[3] = {0};
  kiln_error err = {0};
  kiln_library *library;
  kiln_device *device;
  const uint64_t seed = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
  if (argc < 3) return fprintf(stderr, "usage: kernel-check BUNDLE DEVICE [NAME-PART [SEED]]\n"), 2;
  if (kiln_open_file(argv[1], &library, &err) != KILN_OK) return fprintf(stderr, "%s\n", err.text), 1;
  if (kiln_device_open(library, argv[2], &device, &err) != KILN_OK) {
    fprintf(stderr, "%s\n", err.text);
    kiln_close(library);
    return 1;
  }
  printf("%s (%s), seed %llu\n", kiln_device_description(device), kiln_device_target_name(device),
         (unsigned long long)seed);
  run_cases(device, argc > 3 ? argv[3] : NULL, seed, print, counts);
  kiln_device_close(device);
  kiln_close(library);
  printf("%u passed, %u failed, %u skipped\n", counts[CASE_PASSED], counts[CASE_FAILED],
         counts[CASE_SKIPPED]);
  return counts[CASE_FAILED] != 0;
}
