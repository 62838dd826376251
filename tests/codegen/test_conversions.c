// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests all conversions of tests/conversions.h in the arithmetic of the folder, constants that the front
// end folds, the interpreter, what lowering leaves of them for each kind of machine, and host code.
#include <stdlib.h>

#include "compiler/codegen.h"
#include "compiler/front.h"
#include "compiler/interpreter/interpreter.h"
#include "compiler/ir/scalar.h"
#include "compiler/passes/stages.h"
#include "tests/codegen/host_mapping.h"
#include "tests/conversions.h"
#include "tests/harness.h"

static void disagree(const char *who, conversion c, uint64_t bits, uint64_t want, uint64_t got) {
  char text[128];
  FAIL("%s: %s of %s 0x%llx is 0x%llx, expected 0x%llx", who, conversion_text(c, "x", text),
       kiln_scalars[c.from].spelling, (unsigned long long)bits, (unsigned long long)got,
       (unsigned long long)want);
}

static uint32_t cast_flags(conversion c) {
  return (c.is_unsigned ? IR_UNSIGNED : 0u) | (c.no_saturation ? IR_SATURATE_OFF : 0u);
}

// i32 and i64 became bf16 by way of f32, here and everywhere else.
TEST(conversions, of_the_folder) {
  uint64_t random = 20261130, count = kiln_test_full() ? 1000000 : 70000;
  printf("conversions: %llu values of each type, seed %llu\n", (unsigned long long)count,
         (unsigned long long)random);
  for (unsigned from = 0; from < KILN_SCALAR_COUNT; from++) {
    conversion all[MOST_CONVERSIONS];
    unsigned many = conversions_from((kiln_scalar)from, all);
    for (uint64_t k = 0; k < count; k++) {
      uint64_t bits = conversion_input((kiln_scalar)from, k, count, &random);
      for (unsigned i = 0; i < many; i++) {
        uint64_t want = conversion_result(all[i], bits),
                 got = kiln_scalar_cast(all[i].from, all[i].to, cast_flags(all[i]),
                                        all[i].to_zero ? IR_ROUND_ZERO : IR_ROUND_NEAREST, bits);
        if (!conversion_agrees(all[i], want, got)) disagree("folder", all[i], bits, want, got);
      }
    }
  }
}

/// Inputs and one output each, as a kernel takes them.
typedef struct arrays {
  unsigned many;
  conversion all[MOST_CONVERSIONS];
  uint8_t *outputs[MOST_CONVERSIONS], *input;
  uint64_t *bits;
  size_t count;
  uint8_t block[(MOST_CONVERSIONS + 2) * 8];
} arrays;

static arrays make_arrays(kiln_scalar from, size_t count, uint64_t *random) {
  arrays a = {.count = count, .input = calloc(count, 8), .bits = calloc(count, sizeof *a.bits)};
  a.many = conversions_from(from, a.all);
  for (size_t k = 0; k < count; k++) {
    a.bits[k] = conversion_input(from, k, count, random);
    memcpy(a.input + k * kiln_scalars[from].bytes, &a.bits[k], kiln_scalars[from].bytes);
  }
  for (unsigned i = 0; i < a.many; i++) {
    a.outputs[i] = malloc(count * 8);
    memset(a.outputs[i], 0x5a, count * 8);
    memcpy(a.block + (size_t)i * 8, &a.outputs[i], 8);
  }
  int32_t n = (int32_t)count;
  memcpy(a.block + (size_t)a.many * 8, &a.input, 8);
  memcpy(a.block + (size_t)a.many * 8 + 8, &n, 4);
  return a;
}

static void check_arrays(arrays *a, const char *who) {
  for (unsigned i = 0; i < a->many; i++) {
    unsigned size = kiln_scalars[a->all[i].to].bytes;
    for (size_t k = 0; k < a->count; k++) {
      uint64_t got = 0, want = conversion_result(a->all[i], a->bits[k]);
      memcpy(&got, a->outputs[i] + k * size, size);
      if (!conversion_agrees(a->all[i], want, got)) disagree(who, a->all[i], a->bits[k], want, got);
    }
    free(a->outputs[i]);
  }
  free(a->input);
  free(a->bits);
}

static ir_kernel *lower(kiln_arena *arena, kiln_scalar from, const kiln_target *target) {
  char *text = kiln_arena_alloc(arena, 20000);
  kiln_diagnostics d = {.arena = arena};
  size_t head = (size_t)snprintf(text, 20000, "kiln 1\n");
  conversion_kernel(from, text + head, 20000 - head);
  kiln_unit *unit = kiln_unit_open(arena, "c.kiln", text, strlen(text), NULL, &d);
  ir_kernel *kernel = unit ? kiln_unit_lower(unit, arena, 0, 0, 0, target, &d) : NULL;
  if (!kernel) FAIL("%s\n%s", d.count ? d.items[0].text : "", text);
  return kernel;
}

// The interpreter on the canonical form, then on what is left for each kind of machine: back ends see nothing
// else.
TEST(conversions, of_the_middle) {
  static const char *const names[] = {NULL,      "x86-64-v2", "x86-64-v3", "sm_75",   "sm_80",  "sm_90a",
                                      "sm_100a", "gfx90a",    "gfx942",    "gfx1100", "gfx1201"};
  uint64_t random = 20261201;
  size_t count = kiln_test_full() ? 65536 : 2048;
  for (size_t t = 0; t < sizeof names / sizeof *names; t++)
    for (unsigned from = 0; from < KILN_SCALAR_COUNT; from++) {
      kiln_arena *arena = kiln_arena_create();
      kiln_target target;
      kiln_error err;
      CHECK_OK(kiln_target_parse(names[t] ? names[t] : "x86-64-v3", &target, &err), err);
      ir_kernel *kernel = lower(arena, (kiln_scalar)from, &target);
      if (names[t]) CHECK_OK(kiln_lower(kernel, &target, &err), err);
      arrays a = make_arrays((kiln_scalar)from, count, &random);
      uint32_t grid[] = {(uint32_t)(count / CONVERSION_TILE), 1, 1};
      CHECK_OK(kiln_interpret(kernel, a.block, grid, NULL, &err), err);
      check_arrays(&a, names[t] ? names[t] : "interpreter");
      kiln_arena_destroy(arena);
    }
}

TEST(conversions, of_the_host) {
  static const char *const names[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
  uint64_t random = 20261202;
  size_t count = kiln_test_full() ? 1 << 20 : 1 << 16;
  for (size_t t = 0; t < sizeof names / sizeof *names; t++)
    for (unsigned from = 0; from < KILN_SCALAR_COUNT && mapping_can_run(names[t]); from++) {
      kiln_arena *arena = kiln_arena_create();
      kiln_target target;
      kiln_error err;
      kiln_codegen_options options;
      kiln_artifact artifact = {0};
      CHECK_OK(kiln_target_parse(names[t], &target, &err), err);
      kiln_codegen_options_init(&options);
      ir_kernel *kernel = lower(arena, (kiln_scalar)from, &target);
      CHECK_OK(kiln_codegen(kernel, &target, &options, &artifact, &err), err);
      arrays a = make_arrays((kiln_scalar)from, count, &random);
      uint32_t grid[] = {(uint32_t)(count / CONVERSION_TILE), 1, 1};
      CHECK_INT(
          mapping_run(mapping_open(&artifact.code, kernel->name), a.block, grid, artifact.info.scratch_bytes),
          0);
      check_arrays(&a, names[t]);
      kiln_artifact_deinit(&artifact);
      kiln_arena_destroy(arena);
    }
}

/// `bits` as a constant of the language.
static const char *constant_text(kiln_arena *arena, kiln_scalar s, uint64_t bits) {
  if (s == KILN_I1) return bits ? "true" : "false";
  return kiln_arena_format(arena, "bits(%s, 0x%llx)", kiln_scalars[s].spelling, (unsigned long long)bits);
}

// Constants, and integer literals, which become a float in one rounding however large they are.
TEST(conversions, of_constants) {
  enum { CONSTANTS = 24 };
  uint64_t random = 20261203;
  for (unsigned round = 0; round < (kiln_test_full() ? 100u : 6u); round++)
    for (unsigned from = 0; from < KILN_SCALAR_COUNT; from++) {
      kiln_arena *arena = kiln_arena_create();
      kiln_diagnostics d = {.arena = arena};
      kiln_buffer text = {0};
      kiln_target target;
      kiln_error err;
      conversion all[MOST_CONVERSIONS];
      unsigned many = conversions_from((kiln_scalar)from, all);
      uint64_t bits[CONSTANTS];
      static uint8_t memory[MOST_CONVERSIONS * CONSTANTS * 8];
      void *pointers[KILN_SCALAR_COUNT];
      kiln_buffer_format(&text, "kiln 1\nkernel k(");
      for (unsigned to = 0; to < KILN_SCALAR_COUNT; to++) {
        kiln_buffer_format(&text, "%so_%s: out *%s", to ? ", " : "", kiln_scalars[to].spelling,
                           kiln_scalars[to].spelling);
        pointers[to] = memory;
      }
      kiln_buffer_format(&text, ") @grid(1) {\n");
      for (unsigned k = 0; k < CONSTANTS; k++) {
        bits[k] = conversion_input((kiln_scalar)from, 0, 1, &random);
        bool literal = from == KILN_I64 && k % 2;
        for (unsigned i = 0; i < many; i++) {
          char cast[128];
          const char *operand = constant_text(arena, (kiln_scalar)from, bits[k]);
          if (literal && !all[i].is_unsigned && bits[k] != (uint64_t)INT64_MIN)
            operand = kiln_arena_format(arena, "%lld", (long long)bits[k]);
          kiln_buffer_format(&text, "  store(o_%s + %u, %s)\n", kiln_scalars[all[i].to].spelling,
                             (i * CONSTANTS + k) * 8 / kiln_scalars[all[i].to].bytes,
                             conversion_text(all[i], operand, cast));
        }
      }
      kiln_buffer_format(&text, "}\n");
      CHECK_OK(kiln_target_parse("x86-64-v3", &target, &err), err);
      kiln_unit *unit = kiln_unit_open(arena, "c.kiln", (const char *)text.bytes, text.size, NULL, &d);
      ir_kernel *kernel = unit ? kiln_unit_lower(unit, arena, 0, 0, 0, &target, &d) : NULL;
      if (!kernel) FAIL("%s", d.count ? d.items[0].text : "");
      for (const ir_op *op = kernel->body->first; op; op = op->next)
        if (op->code == IR_CAST) FAIL("a conversion of a constant is left");
      CHECK_OK(kiln_interpret(kernel, pointers, (uint32_t[]){1, 1, 1}, NULL, &err), err);
      for (unsigned k = 0; k < CONSTANTS; k++)
        for (unsigned i = 0; i < many; i++) {
          uint64_t got = 0, want = conversion_result(all[i], bits[k]);
          memcpy(&got, memory + (size_t)(i * CONSTANTS + k) * 8, kiln_scalars[all[i].to].bytes);
          if (!conversion_agrees(all[i], want, got)) disagree("constant", all[i], bits[k], want, got);
        }
      kiln_buffer_deinit(&text);
      kiln_arena_destroy(arena);
    }
}
