// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln why: explains the look-up of one key and shows the nearest other entry; for two keys, names the
// fields that differ.
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "cache/explain.h"
#include "tools/cache/commands.h"
#include "tools/kiln/commands.h"
#include "tools/kiln/ir_difference.h"

static int why_pair(cache_tool *tool, kiln_digest keys[2], kiln_buffer *out) {
  kiln_cache_entry entries[2] = {{.held = NULL}, {.held = NULL}};
  kiln_error err = {0};
  int code = CLI_OK;
  for (unsigned i = 0; i < 2 && code == CLI_OK; i++) {
    kiln_outcome outcome = kiln_store_read(tool->store, &keys[i], NULL, 0, &entries[i], NULL, &err);
    if (outcome == KILN_OUTCOME_HIT_LOCAL) continue;
    kiln_buffer_format(out, "%s: ", tool->words.items[i]);
    if (kiln_explain_state(tool->cache, &keys[i], NULL, 0, out) == KILN_OUTCOME_MISS_ABSENT)
      kiln_explain_fate(tool->cache, &keys[i], out);
    code = CLI_FAILED;
  }
  if (code == CLI_OK) {
    int count = kiln_explain_difference(entries[0].fields.bytes, entries[0].fields.size,
                                        entries[1].fields.bytes, entries[1].fields.size, ir_difference, out);
    kiln_buffer_format(out, count ? "%d field%s differ%s\n" : "the two are the same entry\n", count,
                       kiln_plural(count), count == 1 ? "s" : "");
  }
  for (unsigned i = 0; i < 2; i++) kiln_cache_entry_deinit(&entries[i]);
  return code;
}

static int why_one(cache_tool *tool, const kiln_digest *key, int64_t limit, kiln_buffer *out) {
  kiln_cache_entry entry, nearest;
  kiln_digest nearest_key;
  int distance;
  kiln_outcome outcome = kiln_explain_state(tool->cache, key, NULL, 0, out);
  if (outcome != KILN_OUTCOME_HIT_LOCAL) {
    if (outcome == KILN_OUTCOME_MISS_ABSENT && !kiln_explain_fate(tool->cache, key, out))
      kiln_buffer_format(out, "and nothing is recorded about this key\n");
    return CLI_FAILED;
  }
  if (kiln_store_read(tool->store, key, NULL, 0, &entry, NULL, NULL) != KILN_OUTCOME_HIT_LOCAL)
    return CLI_FAILED;
  if (kiln_cache_nearest(tool->cache, key, entry.fields.bytes, entry.fields.size,
                         limit > 0 ? (uint64_t)limit : 0, &nearest, &nearest_key, &distance)) {
    char hex[KILN_DIGEST_HEX + 1];
    kiln_digest_hex(&nearest_key, hex);
    kiln_buffer_format(out, "nearest other entry %s, %d field%s differ%s:\n", hex, distance,
                       kiln_plural((uint64_t)distance), distance == 1 ? "s" : "");
    kiln_explain_difference(entry.fields.bytes, entry.fields.size, nearest.fields.bytes, nearest.fields.size,
                            ir_difference, out);
    kiln_cache_entry_deinit(&nearest);
  }
  kiln_cache_entry_deinit(&entry);
  return CLI_OK;
}

int kiln_command_why(int argc, char **argv) {
  cache_tool tool = {0};
  int64_t limit = 0;
  const cli_option options[] = {CACHE_TOOL_OPTIONS(&tool),
                                {"limit", 0, CLI_NUMBER, &limit, "N", "compare with at most N entries"}};
  const cli_page page =
      CLI_PAGE("kiln why [--json] KEY [KEY]",
               "For one key: whether it is served, and if not why: evicted, damaged, unreadable, "
               "untrusted; and the nearest other\n"
               "entry with every field that differs. For two keys: the fields that differ. `kiln "
               "build --must-hit` says the same for\n"
               "what a build would compile.",
               options);
  int code = cache_tool_begin(&tool, &page, argc, argv, 1, 2);
  if (code != -1) return cache_tool_end(&tool, code);
  kiln_digest keys[2];
  kiln_error err = {0};
  for (size_t i = 0; i < tool.words.count; i++) {
    kiln_status status = cache_find_key(tool.store, tool.words.items[i], &keys[i], &err);
    if (status) return cache_tool_end(&tool, cli_report(status, &err));
  }
  kiln_buffer text = {0}, out = {0};
  code = tool.words.count == 2 ? why_pair(&tool, keys, &text) : why_one(&tool, &keys[0], limit, &text);
  if (tool.json) {
    kiln_buffer_u8(&text, 0);
    kiln_buffer_format(&out, "{\"why\": ");
    cli_json_text(&out, text.failed ? "" : (const char *)text.bytes);
    kiln_buffer_format(&out, "}\n");
    kiln_buffer_deinit(&text);
  } else {
    out = text;
  }
  cache_print(&out);
  return cache_tool_end(&tool, code);
}
