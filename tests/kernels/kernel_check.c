// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A program of its own: kernel-check [--leave-out] BUNDLE DEVICE [NAME-PART [SEED]]. Runs every case on the device,
// or those with NAME-PART in their names, or the one of the name after '=', and prints a line each. The seed (1)
// draws where arrays lie and how far apart their rows are. After every case, kernels of the bundle that none
// launched are a failure. With --leave-out a bundle may have some kernels and configs of the library only: what
// it cannot launch is left out, with what follows from it.
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

static unsigned print_not_launched(const kiln_library *library, const bool *launched) {
  unsigned count = 0;
  for (size_t i = 0; i < kiln_kernel_count(library); i++) {
    const char *name = kiln_kernel_name(library, i);
    if (!launched[i]) count++, printf("no case launches %s\n", name ? name : "a kernel without a name");
  }
  return count;
}

/// The exit status.
static int check(kiln_library *library, const char *device_name, run_options *options) {
  unsigned counts[3] = {0}, not_launched = 0;
  kiln_error err = {0};
  kiln_device *device;
  if (kiln_device_open(library, device_name, &device, &err) != KILN_OK)
    return fprintf(stderr, "%s\n", err.text), 1;
  printf("%s (%s), seed %llu\n", kiln_device_description(device), kiln_device_target_name(device),
         (unsigned long long)options->seed);
  options->library = library;
  options->launched = calloc(kiln_kernel_count(library) + 1, sizeof *options->launched);
  run_cases(device, options, print, counts);
  if (!options->part && !options->leaves_out) not_launched = print_not_launched(library, options->launched);
  free(options->launched);
  kiln_device_close(device);
  printf("%u passed, %u failed, %u skipped\n", counts[CASE_PASSED], counts[CASE_FAILED],
         counts[CASE_SKIPPED]);
  return counts[CASE_FAILED] || not_launched;
}

int main(int argc, char **argv) {
  kiln_error err = {0};
  kiln_library *library;
  run_options options = {0};
  options.leaves_out = argc > 1 && !strcmp(argv[1], "--leave-out");
  argc -= options.leaves_out, argv += options.leaves_out;
  if (argc < 3)
    return fprintf(stderr, "usage: kernel-check [--leave-out] BUNDLE DEVICE [NAME-PART [SEED]]\n"), 2;
  options.part = argc > 3 && argv[3][0] ? argv[3] : NULL;
  options.seed = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
  if (kiln_open_file(argv[1], &library, &err) != KILN_OK) return fprintf(stderr, "%s\n", err.text), 1;
  const int status = check(library, argv[2], &options);
  kiln_close(library);
  return status;
}
