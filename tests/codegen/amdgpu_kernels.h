// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of source files as AMDGPU code, for tests of what the code holds.
#ifndef KILN_TESTS_CODEGEN_AMDGPU_KERNELS_H
#define KILN_TESTS_CODEGEN_AMDGPU_KERNELS_H

#include <stdio.h>
#include <string.h>

#include "compiler/codegen.h"
#include "compiler/codegen/finish/finish.h"
#include "compiler/front.h"
#include "tests/codegen/llvm_rows.h"
#include "tests/harness.h"

typedef struct compiled {
  kiln_arena *arena;
  kiln_target target;
  bool is_best;                    // the variant with the most promises, not the generic one
  const char *config;              // its text; NULL: the first one that may be used
  const kiln_interface *interface; // arena
  kiln_artifact artifact;
  kiln_amdgpu_facts facts;
} compiled;

static inline void fail_with(const kiln_diagnostics *d, const char *source, size_t size) {
  kiln_buffer text = {0};
  kiln_diagnostics_print(d, source, size, &text);
  kiln_buffer_u8(&text, 0);
  FAIL("%s", (const char *)text.bytes);
}

static inline ir_kernel *lower(compiled *c, const char *file, const char *name, kiln_diagnostics *d) {
  char path[200];
  size_t size;
  snprintf(path, sizeof path, "kernels/%s.kiln", file);
  char *text = kiln_test_read(path, &size);
  CHECK(text);
  const char *source = kiln_arena_text(c->arena, text, size); // the unit borrows it
  free(text);
  kiln_front_options options = {.all_configs = c->config != NULL};
  kiln_unit *unit = kiln_unit_open(c->arena, path, source, size, &options, d);
  if (!unit) fail_with(d, source, size);
  for (size_t i = 0; i < kiln_unit_instance_count(unit); i++) {
    c->interface = kiln_unit_interface(unit, i);
    if (strcmp(c->interface->name, name) != 0) continue;
    uint32_t config = c->config ? 0 : kiln_unit_first_config(unit, i, &c->target);
    while (c->config && strcmp(c->interface->configs[config].text, c->config) != 0)
      CHECK(++config < c->interface->config_count);
    ir_kernel *kernel = kiln_unit_lower(unit, c->arena, i, config,
                                        c->is_best ? 0 : c->interface->variant_count - 1, &c->target, d);
    if (!kernel) fail_with(d, source, size);
    return kernel;
  }
  FAIL("%s has no %s", path, name);
}

static inline kiln_status try_compile(compiled *c, const char *file, const char *name, const char *target,
                                      kiln_format format, kiln_error *err) {
  c->arena = kiln_arena_create();
  CHECK(c->arena);
  CHECK_OK(kiln_target_parse(target, &c->target, err), *err);
  kiln_diagnostics d = {.arena = c->arena};
  ir_kernel *kernel = lower(c, file, name, &d);
  kiln_codegen_options options;
  kiln_codegen_options_init(&options);
  options.output = format;
  return kiln_codegen(kernel, &c->target, &options, &c->artifact, err);
}

static inline void compile_object(compiled *c, const char *file, const char *name, const char *target) {
  kiln_error err = {0};
  if (try_compile(c, file, name, target, KILN_FORMAT_HSACO, &err) != KILN_OK)
    FAIL("%s for %s: %s", name, target, err.text);
  if (kiln_amdgpu_read_facts(c->artifact.code.bytes, c->artifact.code.size, c->interface->symbol, &c->facts,
                             &err) != KILN_OK)
    FAIL("%s for %s: %s", name, target, err.text);
}

static inline compiled compile(const char *file, const char *name, const char *target) {
  compiled c = {.is_best = false};
  compile_object(&c, file, name, target);
  return c;
}

static inline void release(compiled *c) {
  kiln_artifact_deinit(&c->artifact);
  kiln_arena_destroy(c->arena);
}

#endif
