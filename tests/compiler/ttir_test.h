// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the tests of the Triton IR reader share: reading a text, running it in the interpreter.
#ifndef KILN_TESTS_COMPILER_TTIR_TEST_H
#define KILN_TESTS_COMPILER_TTIR_TEST_H

#include <string.h>

#include "compiler/interpreter/interpreter.h"
#include "compiler/ttir/ttir.h"
#include "tests/harness.h"

typedef struct ttir_read {
  kiln_arena *arena;
  kiln_diagnostics d;
  ttir_module *module;
  ir_kernel *kernel; ///< NULL when there were errors
} ttir_read;

/// Reads the first kernel of a text. End with ttir_read_end.
static inline ttir_read ttir_read_text(const char *text) {
  ttir_read t = {.arena = kiln_arena_create()};
  ttir_facts facts = {0};
  t.d.arena = t.arena;
  t.module = ttir_open(t.arena, "test.ttir", text, strlen(text), &t.d);
  if (t.module) t.kernel = ttir_build(t.module, 0, &facts, t.arena, &t.d);
  return t;
}

static inline void ttir_read_end(ttir_read *t) { kiln_arena_destroy(t->arena); }

static inline const char *ttir_first_error(const ttir_read *t) {
  return t->d.count ? t->d.items[0].text : "no error";
}

static inline ttir_read ttir_read_good(const char *text) {
  ttir_read t = ttir_read_text(text);
  if (!t.kernel) FAIL("line %u: %s in\n%s", t.d.count ? t.d.items[0].line : 0, ttir_first_error(&t), text);
  return t;
}

/// Runs a kernel whose parameters are all pointers or 64-bit integers: `args` is the packed block.
static inline void ttir_run(ttir_read *t, const void *args, uint32_t programs) {
  kiln_error err = {0};
  uint32_t grid[3] = {programs, 1, 1};
  CHECK_OK(kiln_interpret(t->kernel, args, grid, NULL, &err), err);
}

#endif
