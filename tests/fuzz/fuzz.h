// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the fuzz targets share: each file has one function that takes bytes in an arena, FUZZ_TARGET makes it
// libFuzzer's. A test that replays inputs without a fuzzer defines FUZZ_NO_ENTRY and calls the function.
#ifndef KILN_TESTS_FUZZ_H
#define KILN_TESTS_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/front.h"

enum { FUZZ_LARGEST = 1 << 16 };

__attribute__((unused)) static void check(bool ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "fuzz: %s\n", what);
  abort();
}

__attribute__((unused)) static kiln_target fuzz_machine(void) {
  kiln_target target;
  kiln_error err;
  check(kiln_target_parse("sm_90a", &target, &err) == KILN_OK, "no target");
  return target;
}

static bool same_bytes(const kiln_buffer *a, const kiln_buffer *b) {
  return a->size == b->size && (!a->size || !memcmp(a->bytes, b->bytes, a->size));
}

/// Encoded, decoded and encoded again a kernel has the same bytes; what it decodes to is returned.
__attribute__((unused)) static ir_kernel *check_decoding(kiln_arena *arena, ir_kernel *kernel) {
  kiln_error err;
  kiln_buffer bytes = {0}, again = {0};
  ir_kernel *back;
  kiln_canonical_encode(kernel, &bytes);
  check(kiln_canonical_decode(arena, bytes.bytes, bytes.size, "fuzz", &back, &err) == KILN_OK, err.text);
  kiln_canonical_encode(back, &again);
  check(same_bytes(&bytes, &again), "decoding changed the bytes");
  kiln_buffer_deinit(&bytes);
  kiln_buffer_deinit(&again);
  return back;
}

/// What a canonical kernel prints reads back to its bytes.
__attribute__((unused)) static void check_printing(kiln_arena *arena, ir_kernel *kernel,
                                                   const kiln_target *target) {
  kiln_buffer bytes = {0}, again = {0}, text = {0};
  kiln_diagnostics d = {.arena = arena};
  kiln_canonical_encode(kernel, &bytes);
  kiln_print_ir(kernel, &text);
  kiln_unit *unit = kiln_unit_open(arena, "printed.kiln", (const char *)text.bytes, text.size, NULL, &d);
  ir_kernel *back = unit ? kiln_unit_lower(unit, arena, 0, 0, 0, target, &d) : NULL;
  check(back, d.count ? d.items[0].text : "printed text is refused");
  kiln_canonical_encode(back, &again);
  check(same_bytes(&bytes, &again), "printing and reading changed the bytes");
  kiln_buffer_deinit(&bytes);
  kiln_buffer_deinit(&again);
  kiln_buffer_deinit(&text);
}

__attribute__((unused)) static void check_messages(const kiln_diagnostics *d, const char *text, size_t size) {
  kiln_buffer out = {0};
  kiln_diagnostics_print(d, text, size, &out);
  kiln_buffer_deinit(&out);
}

/// Lowers the first kernels of a text under a file's name, which says the language: each is refused with a
/// message, or verifies, encodes and prints.
__attribute__((unused)) static void check_source(kiln_arena *arena, const char *file, const char *text,
                                                 size_t size) {
  kiln_diagnostics d = {.arena = arena};
  kiln_target target = fuzz_machine();
  kiln_unit *unit = kiln_unit_open(arena, file, text, size, NULL, &d);
  check(unit || d.errors, "refused without a message");
  for (size_t i = 0; unit && i < kiln_unit_instance_count(unit) && i < 4; i++) {
    uint32_t errors = d.errors + d.suppressed;
    ir_kernel *kernel = kiln_unit_lower(unit, arena, i, 0, 0, &target, &d);
    check(kernel || d.errors + d.suppressed != errors, "no kernel and no message");
    if (!kernel) continue;
    check_decoding(arena, kernel);
    check_printing(arena, kernel, &target);
  }
  check_messages(&d, text, size);
}

#ifdef FUZZ_NO_ENTRY
#define FUZZ_TARGET(function)
#else
/// The bytes are copied to memory of just their size, so that a read past the end is seen.
#define FUZZ_TARGET(function)                                    \
  int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);  \
  int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { \
    if (size > FUZZ_LARGEST) return 0;                           \
    kiln_arena *arena = kiln_arena_create();                     \
    uint8_t *copy = malloc(size + !size);                        \
    memcpy(copy, data, size);                                    \
    function(arena, copy, size);                                 \
    free(copy);                                                  \
    kiln_arena_destroy(arena);                                   \
    return 0;                                                    \
  }
#endif

#endif
