// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels in the language on the host, for each row of x86-64, against the reference interpreter.
#ifndef KILN_TESTS_HOST_CHECK_H
#define KILN_TESTS_HOST_CHECK_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "compiler/front.h"
#include "compiler/interpreter/interpreter.h"
#include "compiler/passes/stages.h"
#include "tests/codegen/host_mapping.h"

#define KERNEL(name) kiln_test_text("tests/codegen/host_kernels/" name ".kiln")

static const char *const targets[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
enum { BUFFER = 1 << 17, MAX_BUFFERS = 8, GUARD = 4096 };

/// Memory of one run: the argument block and what its pointers name.
typedef struct world {
  uint8_t *buffers[MAX_BUFFERS];
  uint8_t block[256];
  uint32_t count;
} world;

// Small multiples of 1/4: sums and products of a few thousand are exact.
static uint64_t value_of(kiln_scalar scalar, uint64_t *random) {
  uint64_t r = kiln_test_random(random);
  unsigned class = kiln_scalars[scalar].type_class;
  if (class == KILN_CLASS_BOOL) return r & 1;
  if (class == KILN_CLASS_INT) return r >> 17;
  return ir_float_to_bits(scalar, (double)((int)(r % 33) - 16) / 4, false);
}

static void fill(world *w, const kiln_interface *interface, int64_t n, uint64_t seed) {
  memset(w, 0, sizeof *w);
  for (uint32_t i = 0; i < interface->param_count; i++) {
    const kiln_param_record *p = &interface->params[i];
    uint64_t bits = (uint64_t)n;
    if (p->pointer) {
      unsigned size = p->pointer > 1 ? 8 : kiln_scalars[p->scalar].bytes;
      uint8_t *buffer = w->buffers[w->count++] = calloc(1, BUFFER);
      for (size_t at = 0; at < BUFFER; at += size) {
        uint64_t v = value_of((kiln_scalar)p->scalar, &seed);
        memcpy(buffer + at, &v, size);
      }
      uint8_t *middle = buffer + GUARD;
      memcpy(w->block + p->offset, &middle, 8);
      continue;
    }
    if (kiln_scalars[p->scalar].type_class == KILN_CLASS_FLOAT)
      bits = ir_float_to_bits((kiln_scalar)p->scalar, 1.5, false);
    memcpy(w->block + p->offset, &bits, kiln_scalars[p->scalar].bytes);
  }
}

static void drop(world *w) {
  for (uint32_t i = 0; i < w->count; i++) free(w->buffers[i]);
}

static bool same_bits(kiln_scalar scalar, const uint8_t *a, const uint8_t *b) {
  unsigned size = kiln_scalars[scalar].bytes;
  uint64_t x = 0, y = 0;
  memcpy(&x, a, size);
  memcpy(&y, b, size);
  if (x == y) return true;
  bool real = kiln_scalars[scalar].type_class & (KILN_CLASS_FLOAT | KILN_CLASS_FP8);
  return real && isnan(ir_bits_to_float(scalar, x)) && isnan(ir_bits_to_float(scalar, y));
}

static void compare(const char *what, const kiln_interface *interface, const world *want, const world *got) {
  for (uint32_t i = 0, b = 0; i < interface->param_count; i++) {
    const kiln_param_record *p = &interface->params[i];
    if (!p->pointer) continue;
    unsigned size = kiln_scalars[p->scalar].bytes;
    for (size_t at = 0; at < BUFFER; at += size)
      if (!same_bits((kiln_scalar)p->scalar, want->buffers[b] + at, got->buffers[b] + at)) {
        uint64_t x = 0, y = 0;
        memcpy(&x, want->buffers[b] + at, size);
        memcpy(&y, got->buffers[b] + at, size);
        FAIL("%s: %s[%ld] is %#llx (%g), the interpreter says %#llx (%g)", what, p->name,
             ((long)at - GUARD) / (long)size, (unsigned long long)y,
             ir_bits_to_float((kiln_scalar)p->scalar, y), (unsigned long long)x,
             ir_bits_to_float((kiln_scalar)p->scalar, x));
      }
    b++;
  }
}

static ir_kernel *lower(kiln_unit *unit, kiln_arena *arena, size_t index, const kiln_target *target,
                        kiln_diagnostics *d, const char *text) {
  ir_kernel *kernel =
      kiln_unit_lower(unit, arena, index, kiln_unit_first_config(unit, index, target), 0, target, d);
  if (kernel) return kernel;
  kiln_buffer out = {0};
  kiln_diagnostics_print(d, text, strlen(text), &out);
  FAIL("%.*s", (int)out.size, (const char *)out.bytes);
}

static void check_on(kiln_unit *unit, kiln_arena *arena, size_t index, const char *target_name,
                     unsigned level, int64_t n, const uint32_t grid[3], kiln_diagnostics *d,
                     const char *text) {
  kiln_target target;
  kiln_error err = {0};
  kiln_codegen_options options;
  kiln_artifact artifact = {0};
  world want, got;
  char what[200];
  const kiln_interface *interface = kiln_unit_interface(unit, index);
  CHECK_OK(kiln_target_parse(target_name, &target, &err), err);
  ir_kernel *reference = lower(unit, arena, index, &target, d, text),
            *kernel = lower(unit, arena, index, &target, d, text);
  snprintf(what, sizeof what, "%s on %s -O%u", interface->name, target_name, level);
  if (kiln_lower(reference, &target, &err) != KILN_OK) FAIL("%s: %s", what, err.text);
  fill(&want, interface, n, 7);
  fill(&got, interface, n, 7);
  for (uint32_t i = 0; i < want.count; i++) CHECK(want.buffers[i] && got.buffers[i]);
  if (kiln_interpret(reference, want.block, grid, NULL, &err) != KILN_OK)
    FAIL("%s: interpreter: %s", what, err.text);
  kiln_codegen_options_init(&options);
  options.optimise = (uint8_t)level;
  if (kiln_codegen(kernel, &target, &options, &artifact, &err) != KILN_OK) FAIL("%s: %s", what, err.text);
  kiln_host_kernel *run = mapping_open(&artifact.code, artifact.info.symbol);
  CHECK_INT(mapping_run(run, got.block, grid, artifact.info.scratch_bytes), 0);
  compare(what, interface, &want, &got);
  kiln_artifact_deinit(&artifact);
  drop(&want);
  drop(&got);
}

static void check(const char *text, int64_t n, uint32_t programs) {
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  kiln_unit *unit = kiln_unit_open(arena, "test.kiln", text, strlen(text), NULL, &d);
  if (!unit) {
    kiln_buffer out = {0};
    kiln_diagnostics_print(&d, text, strlen(text), &out);
    FAIL("%.*s", (int)out.size, (const char *)out.bytes);
  }
  const uint32_t grid[3] = {programs, 1, 1};
  for (size_t i = 0; i < kiln_unit_instance_count(unit); i++)
    for (unsigned t = 0; t < sizeof targets / sizeof *targets; t++)
      for (unsigned level = 0; level < 4; level += 3)
        if (mapping_can_run(targets[t])) check_on(unit, arena, i, targets[t], level, n, grid, &d, text);
  kiln_arena_destroy(arena);
}

#endif
