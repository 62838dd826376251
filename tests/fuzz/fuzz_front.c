// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzzes the native front end: source text (first byte even) or canonical bytes (odd). What is accepted must verify, and must survive encoding,
// decoding and printing. With KILN_FUZZ_REPLAY it is a program that runs the files named on its command line.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/front.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "fuzz_front: %s\n", what);
  abort();
}

static void check_kernel(kiln_arena *arena, ir_kernel *kernel) {
  kiln_error err;
  kiln_buffer bytes = {0}, again = {0}, text = {0};
  ir_kernel *back;
  kiln_canonical_encode(kernel, &bytes);
  check(kiln_canonical_decode(arena, bytes.bytes, bytes.size, "fuzz", &back, &err) == KILN_OK, err.text);
  kiln_canonical_encode(back, &again);
  check(bytes.size == again.size && !memcmp(bytes.bytes, again.bytes, bytes.size), "decoding changed the bytes");
  kiln_print_ir(back, &text);
  kiln_buffer_deinit(&bytes);
  kiln_buffer_deinit(&again);
  kiln_buffer_deinit(&text);
}

// What a canonical kernel prints must read back to its bytes.
static void check_printed(kiln_arena *arena, ir_kernel *kernel, const kiln_target *target) {
  kiln_buffer bytes = {0}, again = {0}, text = {0};
  kiln_diagnostics d = {.arena = arena};
  kiln_canonical_encode(kernel, &bytes);
  kiln_print_ir(kernel, &text);
  kiln_unit *unit = kiln_unit_open(arena, "printed.kiln", (const char *)text.bytes, text.size, NULL, &d);
  ir_kernel *back = unit ? kiln_unit_lower(unit, arena, 0, 0, 0, target, &d) : NULL;
  check(back, d.count ? d.items[0].text : "printed text is refused");
  kiln_canonical_encode(back, &again);
  check(bytes.size == again.size && !memcmp(bytes.bytes, again.bytes, bytes.size), "printing and reading changed the bytes");
  kiln_buffer_deinit(&bytes);
  kiln_buffer_deinit(&again);
  kiln_buffer_deinit(&text);
}

static void run_text(kiln_arena *arena, const char *text, size_t size) {
  kiln_diagnostics d = {.arena = arena};
  kiln_target target;
  kiln_error err;
  kiln_buffer out = {0};
  check(kiln_target_parse("sm_90a", &target, &err) == KILN_OK, "no target");
  kiln_unit *unit = kiln_unit_open(arena, "fuzz.kiln", text, size, NULL, &d);
  check(unit || d.errors, "refused without a message");
  for (size_t i = 0; unit && i < kiln_unit_instance_count(unit) && i < 4; i++) {
    uint32_t errors = d.errors + d.suppressed;
    ir_kernel *kernel = kiln_unit_lower(unit, arena, i, 0, 0, &target, &d);
    check(kernel || d.errors + d.suppressed != errors, "no kernel and no message");
    if (kernel) check_kernel(arena, kernel);
    if (kernel) check_printed(arena, kernel, &target);
  }
  kiln_diagnostics_print(&d, text, size, &out);
  kiln_buffer_deinit(&out);
}

static void run_bytes(kiln_arena *arena, const uint8_t *bytes, size_t size) {
  kiln_error err;
  ir_kernel *kernel;
  if (kiln_canonical_decode(arena, bytes, size, "fuzz", &kernel, &err) == KILN_OK) check_kernel(arena, kernel);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  enum { LARGEST = 1 << 16 };
  if (!size || size > LARGEST) return 0;
  kiln_arena *arena = kiln_arena_create();
  if (data[0] & 1) run_bytes(arena, data + 1, size - 1);
  else run_text(arena, (const char *)data + 1, size - 1);
  kiln_arena_destroy(arena);
  return 0;
}

#ifdef KILN_FUZZ_REPLAY
static int replay(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) return perror(path), 1;
  static uint8_t bytes[1 << 20];
  size_t size = fread(bytes, 1, sizeof bytes, f);
  fclose(f);
  LLVMFuzzerTestOneInput(bytes, size);
  return 0;
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    if (replay(argv[i])) return 1;
  printf("%d files replayed\n", argc - 1);
  return 0;
}
#endif
