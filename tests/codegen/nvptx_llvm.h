// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels as LLVM IR for sm_90a, for tests that follow the instructions of its copy engine and its products.
#ifndef KILN_TESTS_NVPTX_LLVM_H
#define KILN_TESTS_NVPTX_LLVM_H

#include <string.h>

#include "compiler/codegen.h"
#include "compiler/front.h"
#include "tests/harness.h"

/// To LLVM IR, as it is before LLVM's passes.
static void compile(const char *text, kiln_artifact *out) {
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  kiln_target target;
  kiln_error err = {0};
  kiln_codegen_options options;
  kiln_unit *unit = kiln_unit_open(arena, "p.kiln", text, strlen(text), NULL, &d);
  CHECK_OK(kiln_target_parse("sm_90a", &target, &err), err);
  ir_kernel *kernel = unit ? kiln_unit_lower(unit, arena, 0, 0, 0, &target, &d) : NULL;
  if (!kernel) FAIL("%s in\n%s", d.items[0].text, text);
  kiln_codegen_options_init(&options);
  options.output = KILN_FORMAT_LLVM;
  options.optimise = 0;
  CHECK_OK(kiln_codegen(kernel, &target, &options, out, &err), err);
  kiln_arena_destroy(arena);
}

/// Where the hardware finds a byte of shared memory whose rows are swizzled.
static uint32_t swizzled(uint32_t address, unsigned mode) {
  uint32_t mask = (1u << mode) - 1;
  return address ^ (address >> 7 & mask) << 4;
}

#endif
