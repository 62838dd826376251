// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel of Triton IR (or the kernel language) in the reference interpreter and as host code, and compiled
// for other machines.
#ifndef KILN_TESTS_CODEGEN_TTIR_RUN_H
#define KILN_TESTS_CODEGEN_TTIR_RUN_H

#include "compiler/front.h"
#include "compiler/interpreter/interpreter.h"
#include "tests/codegen/host_mapping.h"

typedef struct unit {
  kiln_arena *arena;
  kiln_unit *unit;
  kiln_diagnostics d;
  kiln_target target;
} unit;

/// Text of the kernel language begins with its version.
static inline unit open_unit(const char *text) {
  unit u = {.arena = kiln_arena_create()};
  kiln_error err = {0};
  u.d.arena = u.arena;
  CHECK_OK(kiln_target_parse("host", &u.target, &err), err);
  const char *name = strncmp(text, "kiln ", 5) ? "test.ttir" : "test.kiln";
  u.unit = kiln_unit_open(u.arena, name, text, strlen(text), NULL, &u.d);
  if (!u.unit) FAIL("line %u: %s", u.d.items[0].line, u.d.items[0].text);
  return u;
}

static inline ir_kernel *lower(unit *u) {
  ir_kernel *kernel = kiln_unit_lower(u->unit, u->arena, 0, 0, 0, &u->target, &u->d);
  if (!kernel) FAIL("line %u: %s", u->d.items[0].line, u->d.items[0].text);
  return kernel;
}

/// Runs the first kernel of `text` on the packed arguments: 0 in the interpreter, 1 and 2 as host code
/// without and with optimisation.
enum { INTERPRETED, PLAIN, OPTIMISED, WAYS };
static inline void run(const char *text, const void *args, uint32_t programs, int way) {
  unit u = open_unit(text);
  kiln_error err = {0};
  kiln_codegen_options options;
  kiln_artifact artifact = {0};
  const uint32_t grid[3] = {programs, 1, 1};
  if (way == INTERPRETED) {
    CHECK_OK(kiln_interpret(lower(&u), args, grid, NULL, &err), err);
  } else {
    kiln_codegen_options_init(&options);
    options.optimise = way == OPTIMISED ? 3 : 0;
    if (kiln_codegen(lower(&u), &u.target, &options, &artifact, &err) != KILN_OK)
      FAIL("%s\n%s", err.text, text);
    kiln_host_kernel *kernel = mapping_open(&artifact.code, artifact.info.symbol);
    CHECK_INT(mapping_run(kernel, (void *)(uintptr_t)args, grid, artifact.info.scratch_bytes), 0);
    kiln_artifact_deinit(&artifact);
  }
  kiln_arena_destroy(u.arena);
}

/// Compiles for a target, on NVIDIA's to PTX (`ptxas` NULL) or a cubin; what became of it, with the message.
static inline kiln_status compile_with(const char *text, const char *target, const char *ptxas,
                                       kiln_error *err) {
  unit u = open_unit(text);
  kiln_codegen_options options;
  kiln_artifact artifact = {0};
  CHECK_OK(kiln_target_parse(target, &u.target, err), *err);
  kiln_codegen_options_init(&options);
  options.assembler = (uint8_t)(ptxas ? KILN_ASSEMBLER_PTXAS : KILN_ASSEMBLER_NONE);
  options.assembler_path = ptxas;
  kiln_status status = kiln_codegen(lower(&u), &u.target, &options, &artifact, err);
  if (status == KILN_OK) CHECK(artifact.code.size > 0);
  kiln_artifact_deinit(&artifact);
  kiln_arena_destroy(u.arena);
  return status;
}

static inline kiln_status compile_for(const char *text, const char *target, kiln_error *err) {
  return compile_with(text, target, NULL, err);
}

/// What runs on the host compiles for GPUs as well.
static inline void compile_for_gpus(const char *text) {
  static const char *const targets[] = {"sm_80", "sm_90a", "gfx942", "gfx1100"};
  kiln_error err = {0};
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
    if (compile_for(text, targets[i], &err) != KILN_OK) FAIL("%s: %s\n%s", targets[i], err.text, text);
}

#endif
