// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel in the language, lowered for a simulated GPU, run there thread by thread, and every byte of its
// memory compared with what the reference interpreter leaves. Both thread orders are run.
#ifndef KILN_TESTS_GPU_SIM_CASE_H
#define KILN_TESTS_GPU_SIM_CASE_H

#include "base/canary.h"
#include "compiler/front.h"
#include "compiler/interpreter/interpreter.h"
#include "compiler/passes/stages.h"
#include "tests/codegen/gpu_sim.inc"

enum { MAX_ARGUMENTS = 12 };

/// One kernel and how it is called. `arguments[i]`: elements of a buffer, or the value of a scalar. Integers
/// in buffers are below `bound`.
typedef struct sim_case {
  const char *text;
  long long arguments[MAX_ARGUMENTS];
  uint32_t grid[3];
  double tolerance; ///< relative to 1 + |value|; 0: bit for bit
  uint32_t bound;
  const char *target; ///< NULL: sm_80
} sim_case;

static ir_kernel *lower(const char *text, kiln_arena *arena, const kiln_target *target, uint32_t config) {
  kiln_diagnostics d = {.arena = arena};
  kiln_front_options options = {.all_configs = true};
  kiln_buffer message = {0};
  kiln_unit *unit = kiln_unit_open(arena, "case.kiln", text, strlen(text), &options, &d);
  ir_kernel *kernel = unit ? kiln_unit_lower(unit, arena, 0, config, 0, target, &d) : NULL;
  if (kernel) return kernel;
  kiln_diagnostics_print(&d, text, strlen(text), &message);
  kiln_buffer_u8(&message, 0);
  FAIL("%s", (char *)message.bytes);
}

static uint32_t config_count(const char *text, kiln_arena *arena) {
  kiln_diagnostics d = {.arena = arena};
  kiln_front_options options = {.all_configs = true};
  kiln_unit *unit = kiln_unit_open(arena, "case.kiln", text, strlen(text), &options, &d);
  return unit ? kiln_unit_interface(unit, 0)->config_count : 1;
}

static void fill(uint8_t *bytes, kiln_scalar scalar, size_t count, uint32_t bound, uint64_t *seed) {
  unsigned size = kiln_scalars[scalar].bytes;
  bool is_float = kiln_scalars[scalar].type_class & (KILN_CLASS_FLOAT | KILN_CLASS_FP8);
  for (size_t i = 0; i < count; i++) {
    uint64_t r = kiln_test_random(seed) >> 11, bits;
    if (is_float) bits = ir_float_to_bits(scalar, ((double)(r % 65) - 32) / 16, true);
    else bits = scalar == KILN_I1 ? r & 1 : bound ? r % bound : r % 201 - 100;
    memcpy(bytes + i * size, &bits, size);
  }
}

static void compare(const sim_case *c, const uint8_t *got, const uint8_t *want, kiln_scalar scalar,
                    size_t count, uint32_t param) {
  unsigned size = kiln_scalars[scalar].bytes;
  for (size_t i = 0; i < count; i++) {
    uint64_t a = 0, b = 0;
    memcpy(&a, got + i * size, size);
    memcpy(&b, want + i * size, size);
    if (a == b) continue;
    bool is_float = kiln_scalars[scalar].type_class == KILN_CLASS_FLOAT;
    double x = is_float ? ir_bits_to_float(scalar, a) : (double)a,
           y = is_float ? ir_bits_to_float(scalar, b) : (double)b;
    if (is_float && isnan(x) && isnan(y)) continue;
    if (is_float && fabs(x - y) <= c->tolerance * (1 + fabs(y))) continue;
    FAIL("parameter %u, element %zu: %.9g, expected %.9g", param, i, x, y);
  }
}

/// The packed arguments of a run with buffers of its own, each at a place of its own in a larger block.
typedef struct call {
  uint8_t args[MAX_ARGUMENTS * 8];
  uint8_t *buffers[MAX_ARGUMENTS], *blocks[MAX_ARGUMENTS]; ///< owned are the blocks
  kiln_canary around[MAX_ARGUMENTS];
} call;

/// No more aligned than the parameter promises.
static uint8_t *open_buffer(const ir_param *param, uint32_t i, size_t count, call *out) {
  enum { AROUND = 256, ALIGNMENT = 256 };
  const size_t bytes = kiln_scalars[param->type.scalar].bytes,
               step = param->align > bytes ? param->align : bytes;
  out->around[i] = (kiln_canary){.element = bytes,
                                 .rows = 1,
                                 .columns = count,
                                 .pitch = count,
                                 .before = AROUND + (5 * i + 3) * step % ALIGNMENT,
                                 .after = AROUND,
                                 .is_read = param->access == IR_ACCESS_IN};
  const size_t whole = kiln_canary_bytes(&out->around[i]);
  out->blocks[i] = aligned_alloc(ALIGNMENT, (whole + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
  CHECK(out->blocks[i] != NULL);
  kiln_canary_write(&out->around[i], NULL, out->blocks[i]);
  return out->buffers[i] = out->blocks[i] + out->around[i].before;
}

static void look_around(const call *c, const char *who, const ir_param *param, uint32_t i) {
  char text[200];
  if (!kiln_canary_holds(&c->around[i], param->name, c->blocks[i], text, sizeof text))
    FAIL("%s: %s", who, text);
}

static void open_call(const sim_case *c, const ir_kernel *kernel, call *out) {
  uint32_t offset = 0;
  uint64_t seed = 42;
  memset(out, 0, sizeof *out);
  for (uint32_t i = 0; i < kernel->param_count; i++) {
    ir_type t = kernel->params[i].type;
    uint32_t size = t.pointer ? 8 : kiln_scalars[t.scalar].bytes;
    offset = (offset + size - 1) / size * size;
    uint64_t value = (uint64_t)c->arguments[i];
    if (t.pointer) {
      fill(open_buffer(&kernel->params[i], i, (size_t)c->arguments[i], out), t.scalar,
           (size_t)c->arguments[i], c->bound, &seed);
      value = (uint64_t)(uintptr_t)out->buffers[i];
    } else if (t.scalar == KILN_F32) {
      value = ir_float_to_bits(KILN_F32, (double)c->arguments[i], false);
    }
    memcpy(out->args + offset, &value, size);
    offset += size;
  }
}

static void run_config(const sim_case *c, uint32_t config, const sim_options *options) {
  kiln_arena *arena = kiln_arena_create();
  kiln_error err = {KILN_OK, ""};
  kiln_target target;
  call reference, simulated;
  CHECK_OK(kiln_target_parse(c->target ? c->target : "sm_80", &target, &err), err);
  ir_kernel *kernel = lower(c->text, arena, &target, config), *plain = lower(c->text, arena, &target, config);
  open_call(c, kernel, &reference);
  open_call(c, kernel, &simulated);
  CHECK_OK(kiln_interpret(plain, reference.args, c->grid, NULL, &err), err);
  CHECK_OK(kiln_lower(kernel, &target, &err), err);
  sim_run(kernel, &target, simulated.args, c->grid, options);
  for (uint32_t i = 0; i < plain->param_count; i++) {
    if (!plain->params[i].type.pointer) continue;
    compare(c, simulated.buffers[i], reference.buffers[i], plain->params[i].type.scalar,
            (size_t)c->arguments[i], i);
    look_around(&simulated, "simulated", &plain->params[i], i);
    look_around(&reference, "interpreted", &plain->params[i], i);
    free(simulated.blocks[i]);
    free(reference.blocks[i]);
  }
  kiln_arena_destroy(arena);
}

static void run_case(const sim_case *c) {
  kiln_arena *arena = kiln_arena_create();
  uint32_t count = config_count(c->text, arena);
  for (uint32_t config = 0; config < (count ? count : 1); config++)
    for (unsigned way = 0; way < 3; way++)
      run_config(c, config, &(sim_options){.reverse = way == 1, .wide = way == 2});
  kiln_arena_destroy(arena);
}

#define CASE(name, ...)               \
  TEST(gpu_sim, name) {               \
    const sim_case c = {__VA_ARGS__}; \
    run_case(&c);                     \
  }

#define KERNEL(name) kiln_test_text("tests/codegen/gpu_sim_kernels/" name ".kiln")

#endif
