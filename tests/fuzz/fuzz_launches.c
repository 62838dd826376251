// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzzes the reader of the launches that stand in place of a kernel's: a note is refused, or its writing reads
// back as the same.
#include "base/launches.h"
#include "tests/fuzz/fuzz.h"

static void fuzz_launches(kiln_arena *arena, const uint8_t *bytes, size_t size) {
  kiln_param_record params[] = {{.name = "x", .scalar = KILN_F32, .pointer = 1},
                                {.name = "v", .scalar = KILN_F16, .view_rank = 2},
                                {.name = "n", .scalar = KILN_I32},
                                {.name = "a", .scalar = KILN_F32}};
  kiln_interface first = {.params = params, .param_count = 4}, second = first;
  kiln_buffer text = {0}, again = {0};
  const char *note = kiln_arena_text(arena, (const char *)bytes, size);
  if (!note || !kiln_launches_decode(arena, note, &first)) return;
  kiln_launches_encode(&first, &text);
  kiln_buffer_u8(&text, 0);
  check(kiln_launches_decode(arena, (const char *)text.bytes, &second), "what was written is refused");
  kiln_launches_encode(&second, &again);
  kiln_buffer_u8(&again, 0);
  check(same_bytes(&text, &again), "writing and reading changed the text");
  kiln_buffer_deinit(&text);
  kiln_buffer_deinit(&again);
}

FUZZ_TARGET(fuzz_launches)
