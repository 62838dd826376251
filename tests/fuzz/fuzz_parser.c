// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzzes lexer and parser of the language: text is read as a unit or refused with messages that print; its interfaces are there.
#include "tests/fuzz/fuzz.h"

static void fuzz_parser(kiln_arena *arena, const uint8_t *bytes, size_t size) {
  kiln_diagnostics d = {.arena = arena};
  kiln_unit *unit = kiln_unit_open(arena, "fuzz.kiln", (const char *)bytes, size, NULL, &d);
  check(unit || d.errors, "refused without a message");
  for (size_t i = 0; unit && i < kiln_unit_instance_count(unit); i++) check(kiln_unit_interface(unit, i) != NULL, "an instance without an interface");
  check_messages(&d, (const char *)bytes, size);
}

FUZZ_TARGET(fuzz_parser)
