// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs AMDGPU code objects on an emulator, if the environment names one (tests/emulation/emulate.py says
// how). It also tests the emulator and its corrections: single instructions, orders of waves, canaries.
#include <stdio.h>
#include <stdlib.h>

#include "tests/harness.h"

static void need_emulator(void) {
  if (!getenv("KILN_AMD_EMULATOR") || !getenv("KILN_AMDRUN"))
    SKIP("KILN_AMD_EMULATOR and KILN_AMDRUN do not name an emulator and its driver");
}

/// Runs a command of the shell in the project's folder, with KILN_BUILD; fails unless it ends with 0.
static void emulated(const char *command) {
  char *out = NULL;
  int status = kiln_test_run(&out, "export KILN_BUILD=%s && %s", kiln_test_build(), command);
  fputs(out, stdout);
  if (status != 0) FAIL("%s ends with %d:\n%s", command, status, out);
  free(out);
}

TEST(emulation, kernels_compute_what_they_should) {
  need_emulator();
  emulated("python3 tests/emulation/emulate.py");
}

/// Forms are drawn with a seed that is printed; `instructions.py --seed=` draws them again.
TEST(emulation, instructions_compute_what_the_manuals_say) {
  need_emulator();
  emulated(kiln_test_full() ? "python3 tests/emulation/instructions.py --forms=12"
                            : "python3 tests/emulation/instructions.py --seed=1 --forms=1 --seconds=30");
}

TEST(emulation, orders_barriers_and_canaries) {
  need_emulator();
  emulated("python3 tests/emulation/bed.py");
}

/// The first `count` generated kernels of a kind, with waves in drawn orders.
static void generated(unsigned count, const char *kind) {
  need_emulator();
  char command[400];
  const kiln_test_range seeds = kiln_test_seeds(1, count);
  snprintf(
      command, sizeof command,
      "export KILN_EMULATED_ORDER=drawn KILN_EMULATED_ALIGN=64 KILN_EMULATED_AROUND=512 && "
      "for t in gfx942 gfx1100 gfx1201; do tests/emulation/emulated.sh $t $KILN_BUILD/bin/generated-check "
      "hip:0 %llu %llu %s 2>&1 || exit 1; done",
      (unsigned long long)seeds.first, (unsigned long long)(seeds.last - seeds.first + 1), kind);
  emulated(command);
}

/// Kernels that load again what other threads stored.
TEST(emulation, kernels_that_read_again) { generated(kiln_test_full() ? 300 : 12, "--rereads"); }

/// Products through views and pointers, by the matrix core where the target has one.
TEST(emulation, products) { generated(kiln_test_full() ? 300 : 6, "--products"); }

/// Offsets that wrap, masks that hide everything: nothing else of the address space is touched. The variable is
/// Criterion's, which takes the program for a worker of this one where it is set.
TEST(emulation, offsets_that_wrap) {
  need_emulator();
  char command[400];
  const kiln_test_range seeds = kiln_test_seeds(1, kiln_test_full() ? 500 : 10);
  snprintf(
      command, sizeof command,
      "for t in gfx942 gfx1100 gfx1201; do env -u BXFI_MAP KILN_OFFSETS_HIP=$t KILN_SEEDS=%llu..%llu "
      "tests/emulation/emulated.sh $t $KILN_BUILD/tests/codegen/test_offsets --filter 'offsets/amd*' 2>&1 "
      "|| exit 1; done",
      (unsigned long long)seeds.first, (unsigned long long)seeds.last);
  emulated(command);
}
