// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzzes the Triton IR front end: text that begins with '{' is read as JSON, all other text as TTIR. What is
// accepted must verify, survive encoding and decoding, and read back from its printed form to the same bytes.
#include "base/json.h"
#include "compiler/ttir/ttir.h"
#include "tests/fuzz/fuzz.h"

static void run_json(kiln_arena *arena, const char *text, size_t size) {
  const kiln_json *value;
  ttir_facts facts = {0};
  kiln_error err = {0};
  kiln_status status = kiln_json_parse(arena, text, size, &value, &err);
  check(status == KILN_OK || err.text[0], "JSON refused without a message");
  if (ttir_read_facts(arena, text, size, &facts, &err) == KILN_OK)
    check(!(facts.warps & (facts.warps - 1)), "warps are no power of two");
}

static void fuzz_ttir(kiln_arena *arena, const uint8_t *bytes, size_t size) {
  const char *text = (const char *)bytes;
  if (size && *text == '{') run_json(arena, text, size);
  else check_source(arena, "fuzz.ttir", text, size);
}

FUZZ_TARGET(fuzz_ttir)
