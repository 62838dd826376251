// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes the driver of the interpreter of PTX (tools/ptx/driver.c) a libcuda.so.1 that is set by variables, for programs that
// know nothing of it. With it first in LD_LIBRARY_PATH every program that opens `cuda:0` runs its PTX there
// (interpreted.sh).
//
//   KILN_PTX_TARGET  the processor that the device says it is: 80 (default), 90, ...
//   KILN_PTX_SEED    of the order in which warps run; each launch takes the next (1)
//   KILN_PTX_STEPS   instructions of warps before a launch has failed (no limit)
//   KILN_PTX_DUMP    a folder that gets the text of each module
//   KILN_PTX_LOG     a file that gets a line for each launch: the kernel, then `clean` or `found`
#include <stdio.h>
#include <stdlib.h>

#include "tools/ptx/driver.h"

static uint64_t setting(const char *name, uint64_t otherwise) {
  const char *text = getenv(name);
  return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void dump(const char *name, const char *text) {
  static unsigned count;
  char path[4096];
  if (snprintf(path, sizeof path, "%s/%u.%s", getenv("KILN_PTX_DUMP"), count++, name) >= (int)sizeof path)
    return;
  FILE *file = fopen(path, "w");
  if (!file) return;
  fputs(text, file);
  fclose(file);
}

static void log_launch(const char *kernel, bool is_clean) {
  FILE *file = fopen(getenv("KILN_PTX_LOG"), "a");
  if (!file) return;
  fprintf(file, "%s %s\n", kernel, is_clean ? "clean" : "found");
  fclose(file);
}

__attribute__((constructor)) static void set_by_variables(void) {
  uint32_t number = (uint32_t)setting("KILN_PTX_TARGET", 80);
  ptx_driver_table.set(&(ptx_driver_settings){.number = number,
                                              .shared_bytes = number >= 90 && number < 120 ? 232448
                                                              : number == 80               ? 166912
                                                                                           : 101376,
                                              .seed = setting("KILN_PTX_SEED", 1),
                                              .max_steps = setting("KILN_PTX_STEPS", 0),
                                              .take_module = getenv("KILN_PTX_DUMP") ? dump : NULL,
                                              .take_launch = getenv("KILN_PTX_LOG") ? log_launch : NULL});
}
