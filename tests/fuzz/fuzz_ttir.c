// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzzes the Triton IR front end: text that begins with '{' is read as JSON, all other text as TTIR. What is accepted must verify, survive
// encoding and decoding, and read back from its printed form to the same bytes. With KILN_FUZZ_REPLAY it is a program that runs the files
// named on its command line.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "compiler/front.h"
#include "compiler/ttir/ttir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "fuzz_ttir: %s\n", what);
  abort();
}

static void run_json(kiln_arena *arena, const char *text, size_t size) {
  const kiln_json *value;
  ttir_facts facts = {0};
  kiln_error err = {0};
  kiln_status status = kiln_json_parse(arena, text, size, &value, &err);
  check(status == KILN_OK || err.text[0], "JSON refused without a message");
  if (ttir_read_facts(arena, text, size, &facts, &err) == KILN_OK) check(!(facts.warps & (facts.warps - 1)), "warps are no power of two");
}

static void check_kernel(kiln_arena *arena, ir_kernel *kernel, const kiln_target *target) {
  kiln_buffer bytes = {0}, again = {0}, text = {0};
  kiln_diagnostics d = {.arena = arena};
  kiln_error err;
  ir_kernel *back;
  kiln_canonical_encode(kernel, &bytes);
  check(kiln_canonical_decode(arena, bytes.bytes, bytes.size, "fuzz", &back, &err) == KILN_OK, err.text);
  kiln_canonical_encode(back, &again);
  check(bytes.size == again.size && !memcmp(bytes.bytes, again.bytes, bytes.size), "decoding changed the bytes");
  kiln_print_ir(back, &text);
  kiln_unit *unit = kiln_unit_open(arena, "printed.kiln", (const char *)text.bytes, text.size, NULL, &d);
  back = unit ? kiln_unit_lower(unit, arena, 0, 0, 0, target, &d) : NULL;
  check(back, d.count ? d.items[0].text : "printed text is refused");
  kiln_buffer_clear(&again);
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
  kiln_unit *unit = kiln_unit_open(arena, "fuzz.ttir", text, size, NULL, &d);
  check(unit || d.errors, "refused without a message");
  for (size_t i = 0; unit && i < kiln_unit_instance_count(unit) && i < 4; i++) {
    ir_kernel *kernel = kiln_unit_lower(unit, arena, i, 0, 0, &target, &d);
    check(kernel || d.errors, "no kernel and no message");
    if (kernel) check_kernel(arena, kernel, &target);
  }
  kiln_diagnostics_print(&d, text, size, &out);
  kiln_buffer_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  kiln_arena *arena = kiln_arena_create();
  // an exact copy, so that a byte read past the end is seen
  char *text = malloc(size + !size);
  memcpy(text, data, size);
  if (size && *text == '{') run_json(arena, text, size);
  else run_text(arena, text, size);
  free(text);
  kiln_arena_destroy(arena);
  return 0;
}

#ifdef KILN_FUZZ_REPLAY
int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    FILE *file = fopen(argv[i], "rb");
    if (!file) return 1;
    static uint8_t bytes[1 << 20];
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    LLVMFuzzerTestOneInput(bytes, size);
  }
  printf("%d passed, 0 failed, 0 skipped\n", argc - 1);
  return 0;
}
#endif
