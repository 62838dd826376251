// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzzes the checker of the language: kernels are refused with a message, or verify, encode, decode and print to what reads back to the same bytes.
#include "tests/fuzz/fuzz.h"

static void fuzz_checker(kiln_arena *arena, const uint8_t *bytes, size_t size) { check_source(arena, "fuzz.kiln", (const char *)bytes, size); }

FUZZ_TARGET(fuzz_checker)
