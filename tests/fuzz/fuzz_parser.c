// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzzes lexer and parser of the language: messages print, and text without syntax errors, written from its
// tree, reads back to the same tree. Instances as on a command line are read too.
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tree_text.h"

static void check_tree(kiln_arena *arena, const kiln_module *module) {
  kiln_buffer text = {0}, again = {0};
  kiln_diagnostics d = {.arena = arena};
  tree_text(module, &text);
  const kiln_module *back = kiln_parse(arena, "printed.kiln", (const char *)text.bytes, text.size, &d);
  check(!d.count, d.count ? d.items[0].text : "");
  tree_text(back, &again);
  check(same_bytes(&text, &again), "writing and reading changed the tree");
  kiln_buffer_deinit(&text);
  kiln_buffer_deinit(&again);
}

static void fuzz_parser(kiln_arena *arena, const uint8_t *bytes, size_t size) {
  kiln_diagnostics d = {.arena = arena};
  kiln_module *module = kiln_parse(arena, "fuzz.kiln", (const char *)bytes, size, &d);
  if (!d.count) check_tree(arena, module);
  check_messages(&d, (const char *)bytes, size);
  uint32_t errors = d.errors + d.suppressed;
  bool is_instance = kiln_parse_instance(module, (const char *)bytes, size, &d) != NULL;
  check(is_instance || d.errors + d.suppressed != errors, "an instance is refused without a message");
}

FUZZ_TARGET(fuzz_parser)
