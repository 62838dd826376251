// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzzes the reader of tuned tables: a text is refused with a place, or is written as lines that read back
// the same.
#include "base/tuned.h"
#include "tests/fuzz/fuzz.h"

static void write_all(const kiln_tuned_entry *entries, uint32_t count, kiln_buffer *out) {
  kiln_tuned_write_head(KILN_TUNED_WHOLE, out);
  for (uint32_t i = 0; i < count; i++) {
    kiln_tuned_write(&entries[i], KILN_TUNED_WHOLE, out);
    kiln_buffer_u8(out, '\n');
  }
}

static void fuzz_tuned(kiln_arena *arena, const uint8_t *bytes, size_t size) {
  kiln_tuned_entry *entries, *back;
  kiln_tuned_place place = {0};
  kiln_error err = {0};
  kiln_buffer text = {0}, again = {0};
  uint32_t count, back_count;
  kiln_status status =
      kiln_tuned_read(arena, "fuzz", (const char *)bytes, size, &entries, &count, &place, &err);
  check(status == KILN_OK || (place.line && place.column && *err.text), "refused without a place");
  if (status != KILN_OK) return;
  write_all(entries, count, &text);
  status =
      kiln_tuned_read(arena, "again", (const char *)text.bytes, text.size, &back, &back_count, NULL, &err);
  check(status == KILN_OK, err.text);
  check(count == back_count, "writing and reading changed the count");
  write_all(back, back_count, &again);
  check(same_bytes(&text, &again), "writing and reading changed the text");
  kiln_buffer_deinit(&text);
  kiln_buffer_deinit(&again);
}

FUZZ_TARGET(fuzz_tuned)
