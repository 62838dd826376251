// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that messages name an operation by its number in the canonical form, whatever lowering has made of
// the kernel, and that the number leads back to the source.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/front.h"
#include "compiler/interpreter/interpreter.h"
#include "tests/codegen/host_mapping.h"

// Views, bf16 arithmetic and a sine before the asserts, so that the middle has much to insert. The second
// argument says which assert fails.
static const char source[] = "kiln 1\n"
                             "kernel k(x: inout *bf16, which: i32) @grid(1) @config(warps = 1) {\n"
                             "  let V = view(x, [64, 8], [8, 1], [16, 8])\n"
                             "  let t = load(V, [0, 0])\n"
                             "  let s = sin(t) * 0.5 + t\n"
                             "  assert(which != 1, \"first\")\n"
                             "  store(V, [16, 0], s)\n"
                             "  for i in 0 .. 4 {\n"
                             "    let u = load(V, [i * 16, 0])\n"
                             "    assert((u < u) | ((which != 2) | (i != 3)), \"second\")\n"
                             "    store(V, [i * 16, 0], u + u)\n"
                             "  }\n"
                             "  if which == 3 {\n"
                             "    assert(which < 0, \"third\")\n"
                             "  }\n"
                             "}\n";
enum { ASSERTS = 3 };
static const uint32_t lines[ASSERTS + 1] = {0, 6, 10, 14};

static ir_kernel *lower(kiln_arena *arena, const kiln_target *target) {
  kiln_diagnostics d = {.arena = arena};
  kiln_unit *unit = kiln_unit_open(arena, "asserts.kiln", source, sizeof source - 1, NULL, &d);
  ir_kernel *kernel = unit ? kiln_unit_lower(unit, arena, 0, 0, 0, target, &d) : NULL;
  if (!kernel) FAIL("%u:%u: %s", d.items[0].line, d.items[0].column, d.items[0].text);
  return kernel;
}

static kiln_target target_of(const char *name) {
  kiln_target target;
  kiln_error err = {0};
  CHECK_OK(kiln_target_parse(name, &target, &err), err);
  return target;
}

typedef struct arguments {
  void *x;
  int32_t which;
} arguments;

/// The number that the interpreter reports; -1: none fails.
static long interpreted(int32_t which) {
  static uint16_t x[1024];
  kiln_arena *arena = kiln_arena_create();
  kiln_error err = {0};
  kiln_target target = target_of("x86-64-v3");
  arguments args = {x, which};
  memset(x, 0, sizeof x);
  kiln_status status = kiln_interpret(lower(arena, &target), &args, (uint32_t[]){1, 1, 1}, NULL, &err);
  kiln_arena_destroy(arena);
  if (status == KILN_OK) return -1;
  CHECK_INT(status, KILN_STATUS_ASSERT);
  return (long)err.operation - 1;
}

static long on_host(int32_t which, const char *name, unsigned optimise) {
  static uint16_t x[1024];
  kiln_arena *arena = kiln_arena_create();
  kiln_error err = {0};
  kiln_target target = target_of(name);
  kiln_codegen_options options;
  kiln_artifact artifact = {0};
  kiln_buffer bytes = {0};
  ir_kernel *decoded;
  arguments args = {x, which};
  memset(x, 0, sizeof x);
  // As a worker does it: from the bytes, without places.
  kiln_canonical_encode(lower(arena, &target), &bytes);
  CHECK_OK(kiln_canonical_decode(arena, bytes.bytes, bytes.size, "kiln_k", &decoded, &err), err);
  kiln_codegen_options_init(&options);
  options.optimise = (uint8_t)optimise;
  CHECK_OK(kiln_codegen(decoded, &target, &options, &artifact, &err), err);
  int32_t failed = mapping_run(mapping_open(&artifact.code, "kiln_k"), &args, (uint32_t[]){1, 1, 1},
                               artifact.info.scratch_bytes);
  kiln_artifact_deinit(&artifact);
  kiln_buffer_deinit(&bytes);
  kiln_arena_destroy(arena);
  return failed - 1;
}

TEST(operation_numbers, of_asserts) {
  static const char *const hosts[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
  kiln_arena *arena = kiln_arena_create();
  kiln_target target = target_of("x86-64-v3");
  for (int32_t which = 0; which <= ASSERTS; which++) {
    long number = interpreted(which);
    for (unsigned t = 0; t < 3; t++)
      for (unsigned level = 0; level < 4 && mapping_can_run(hosts[t]); level += 3)
        CHECK_INT(on_host(which, hosts[t], level), number);
    ir_place place =
        number < 0 ? (ir_place){0} : kiln_operation_place(lower(arena, &target), (uint32_t)number);
    CHECK_INT(place.line, lines[which]);
  }
  CHECK_INT(kiln_operation_place(lower(arena, &target), 100000).line, 0);
  kiln_arena_destroy(arena);
}

/// The text does not compile for the target; the message says `part`, and its operation stands on `line`.
static void check_refusal(const char *text, const char *target_name, kiln_status status, const char *part,
                          uint32_t line) {
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  kiln_error err = {0};
  kiln_target target = target_of(target_name);
  kiln_codegen_options options;
  kiln_artifact artifact = {0};
  kiln_codegen_options_init(&options);
  options.assembler = KILN_ASSEMBLER_NONE;
  kiln_unit *unit = kiln_unit_open(arena, "refused.kiln", text, strlen(text), NULL, &d);
  ir_kernel *kernel = unit ? kiln_unit_lower(unit, arena, 0, 0, 0, &target, &d) : NULL;
  if (!kernel) FAIL("%s", d.items[0].text);
  kiln_status got = kiln_codegen(kernel, &target, &options, &artifact, &err);
  if (got != status || !strstr(err.text, part))
    FAIL("%s: status %d, expected %d with '%s': %s", target_name, got, status, part, err.text);
  if (!err.operation) FAIL("no operation: '%s'", err.text);
  ir_place place =
      kiln_operation_place(kiln_unit_lower(unit, arena, 0, 0, 0, &target, &d), err.operation - 1);
  if (place.line != line) FAIL("%s: line %u, expected %u: %s", target_name, place.line, line, err.text);
  kiln_artifact_deinit(&artifact);
  kiln_arena_destroy(arena);
}

// A refusal of the code generator, after views were lowered.
TEST(operation_numbers, of_refusals) {
  check_refusal("kiln 1\n"
                "kernel k(x: inout *f32) @grid(1) @config(warps = 1) {\n"
                "  let V = view(x, [64, 8], [8, 1], [16, 8])\n"
                "  store(V, [16, 0], load(V, [0, 0]) * 2.0)\n"
                "  let v = load(x + iota(32))\n"
                "  store(x + iota(32), asm(\"fancy.f32 $0, $1;\", \"=f,f\", [v], f32))\n"
                "}\n",
                "x86-64-v3", KILN_STATUS_UNSUPPORTED, "of another machine", 6);
}

// What a thread may hold, and assembly that LLVM gives up on, each after views and
// arithmetic that the middle makes more operations of.
TEST(operation_numbers, of_limits_on_gpus) {
  static const char registers[] = "kiln 1\n"
                                  "kernel k(x: inout *bf16, y: inout *f64) @grid(1) @config(warps = 1) {\n"
                                  "  let V = view(x, [64, 8], [8, 1], [16, 8])\n"
                                  "  let t = load(V, [0, 0])\n"
                                  "  store(V, [16, 0], sin(t) * 0.5 + t)\n"
                                  "  let p = y + iota(1048576)\n"
                                  "  let v =\n"
                                  "    load(p)\n"
                                  "  store(p, v + reduce.add(v, 0))\n"
                                  "}\n";
  static const char assembly[] =
      "kiln 1\n"
      "kernel k(x: inout *bf16, y: inout *f32) @grid(1) @config(warps = 1) {\n"
      "  let V = view(x, [64, 8], [8, 1], [16, 8])\n"
      "  let t = load(V, [0, 0])\n"
      "  store(V, [16, 0], sin(t) * 0.5 + t)\n"
      "  let v = load(y + iota(32))\n"
      "  store(y + iota(32), asm(\"v_mov_b32 $0, $1\", \"={v1000},v\", [v], f32))\n"
      "}\n";
  check_refusal(registers, "sm_90a", KILN_STATUS_LIMIT, "registers a thread", 9);
  check_refusal(registers, "gfx942", KILN_STATUS_LIMIT, "registers a thread", 6);
  check_refusal(assembly, "gfx942", KILN_STATUS_SOURCE, "LLVM", 7);
}
