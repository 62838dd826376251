// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzzes the text of kernels at a stage (stages.h): any bytes are refused with a message and a place, or
// give a kernel that verifies, prints, and reads back to the same text.
#include "compiler/passes/stages.h"
#include "tests/fuzz/fuzz.h"

static void print_kir(kiln_arena *arena, const char *text, size_t size, kiln_buffer *out) {
  kiln_stage stage;
  ir_kernel *kernel;
  ir_place place;
  kiln_error err = {0};
  kiln_status status = kiln_stage_read(arena, text, size, &stage, &kernel, &place, &err);
  check(status == KILN_OK || (status == KILN_STATUS_SOURCE && *err.text && place.line),
        "refused without a message or a place");
  if (status == KILN_OK) {
    check(ir_verify(kernel, "fuzz", &err) == KILN_OK, err.text);
    kiln_stage_print(&stage, kernel, out);
    return;
  }
  kiln_diagnostics d = {.arena = arena};
  kiln_diagnose(&d, KILN_ERROR, "fuzz.kir", place, "%s", err.text);
  check_messages(&d, text, size);
}

static void fuzz_one_kir(kiln_arena *arena, const char *text, size_t size) {
  kiln_buffer once = {0}, twice = {0};
  print_kir(arena, text, size, &once);
  if (once.size) {
    print_kir(arena, (const char *)once.bytes, once.size, &twice);
    check(same_bytes(&once, &twice), "reading changed the text");
  }
  kiln_buffer_deinit(&once);
  kiln_buffer_deinit(&twice);
}

static void fuzz_kir(kiln_arena *arena, const uint8_t *bytes, size_t size) {
  static const char line[] = "\n// becomes\n";
  const char *text = (const char *)bytes, *end = memmem(bytes, size, line, strlen(line));
  const size_t before = end ? (size_t)(end - text) + strlen(line) : size;
  fuzz_one_kir(arena, text, before);
  if (end) fuzz_one_kir(arena, end + strlen(line), size - before);
}
FUZZ_TARGET(fuzz_kir)
