// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzzes the checker of the language: kernels are refused with a message, or verify, encode, decode and
// print to text that reads back to the same bytes. Written differently (other names, another order of
// definitions, no comments) they have the same bytes.
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tree_text.h"

static kiln_buffer bytes_of(kiln_unit *unit, kiln_arena *arena, size_t index) {
  kiln_diagnostics d = {.arena = arena};
  kiln_target target = fuzz_machine();
  kiln_buffer bytes = {0};
  ir_kernel *kernel = kiln_unit_lower(unit, arena, index, 0, 0, &target, &d);
  if (kernel) kiln_canonical_encode(kernel, &bytes);
  return bytes;
}

static void check_told_differently(kiln_arena *arena, const char *text, size_t size) {
  kiln_diagnostics d = {.arena = arena};
  kiln_buffer other = {0};
  kiln_unit *unit = kiln_unit_open(arena, "fuzz.kiln", text, size, NULL, &d);
  if (!unit) return;
  tree_text_differently(kiln_parse(arena, "fuzz.kiln", text, size, &d), &other);
  kiln_unit *second = kiln_unit_open(arena, "other.kiln", (const char *)other.bytes, other.size, NULL, &d);
  check(second, d.count ? d.items[d.count - 1].text : "told differently, the source is refused");
  check(kiln_unit_instance_count(second) == kiln_unit_instance_count(unit),
        "told differently, there are other instances");
  for (size_t i = 0; i < kiln_unit_instance_count(unit) && i < 4; i++) {
    kiln_buffer a = bytes_of(unit, arena, i), b = bytes_of(second, arena, i);
    check(same_bytes(&a, &b), "names, order or comments changed the bytes");
    kiln_buffer_deinit(&a);
    kiln_buffer_deinit(&b);
  }
  kiln_buffer_deinit(&other);
}

static void fuzz_checker(kiln_arena *arena, const uint8_t *bytes, size_t size) {
  check_source(arena, "fuzz.kiln", (const char *)bytes, size);
  check_told_differently(arena, (const char *)bytes, size);
}

FUZZ_TARGET(fuzz_checker)
