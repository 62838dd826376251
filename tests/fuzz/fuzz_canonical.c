// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzzes the canonical form: bytes are refused, or are a kernel that encodes to the same bytes again;
// canonicalising it twice changes nothing more, and the passes of the interpreter and the back ends accept
// it or say why not.
#include "compiler/passes/stages.h"
#include "tests/fuzz/fuzz.h"

static void check_idempotent(kiln_arena *arena, ir_kernel *kernel) {
  kiln_buffer once = {0}, twice = {0};
  kiln_canonicalise(kernel);
  kiln_canonical_encode(kernel, &once);
  ir_kernel *back = check_decoding(arena, kernel);
  kiln_canonicalise(back);
  kiln_canonical_encode(back, &twice);
  check(same_bytes(&once, &twice), "the canonical form of a canonical kernel is another one");
  kiln_buffer_deinit(&once);
  kiln_buffer_deinit(&twice);
}

static void fuzz_canonical(kiln_arena *arena, const uint8_t *bytes, size_t size) {
  ir_kernel *kernel;
  kiln_error err = {0};
  if (kiln_canonical_decode(arena, bytes, size, "fuzz", &kernel, &err) != KILN_OK) {
    check(err.text[0], "refused without a message");
    return;
  }
  check_idempotent(arena, check_decoding(arena, kernel));
  kiln_target target = fuzz_machine();
  check(kiln_lower(kernel, &target, &err) == KILN_OK || err.text[0], "the middle refused without a message");
}

FUZZ_TARGET(fuzz_canonical)

#ifndef FUZZ_NO_ENTRY
static void keep(const char *folder, const char *name, size_t number, ir_kernel *kernel) {
  char path[1000];
  kiln_buffer bytes = {0};
  kiln_canonical_encode(kernel, &bytes);
  snprintf(path, sizeof path, "%s/%s-%zu", folder, name, number);
  FILE *f = fopen(path, "wb");
  check(f && fwrite(bytes.bytes, 1, bytes.size, f) == bytes.size && !fclose(f), path);
  kiln_buffer_deinit(&bytes);
}

static void seeds_of(const char *folder, const char *path) {
  static char text[1 << 20];
  const char *name = strrchr(path, '/');
  FILE *f = fopen(path, "rb");
  check(f, path);
  size_t size = fread(text, 1, sizeof text, f);
  fclose(f);
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  kiln_target target = fuzz_machine();
  kiln_unit *unit = kiln_unit_open(arena, path, text, size, NULL, &d);
  for (size_t i = 0; unit && i < kiln_unit_instance_count(unit); i++) {
    ir_kernel *kernel = kiln_unit_lower(unit, arena, i, 0, 0, &target, &d);
    if (kernel) keep(folder, name ? name + 1 : path, i, kernel);
  }
  kiln_arena_destroy(arena);
}

/// KILN_FUZZ_SEEDS="FOLDER SOURCE...": writes the canonical bytes of the sources' kernels into the folder
/// first.
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  const char *value = getenv("KILN_FUZZ_SEEDS");
  if (!value) return 0;
  char *words = strdup(value), *rest = NULL;
  const char *folder = strtok_r(words, " ", &rest);
  for (const char *path; (path = strtok_r(NULL, " ", &rest));) seeds_of(folder, path);
  free(words);
  return 0;
}
#endif
