// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `kiln cache`: dispatches to the subcommands, and holds what they share.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "base/plural.h"
#include "tools/cache/commands.h"
#include "tools/cache/open.h"
#include "tools/kiln/commands.h"

static const struct {
  const char *name;
  int (*function)(int argc, char **argv);
  const char *text;
} rows[] = {
#define CACHE_COMMAND(name, function, text) {name, function, text},
#include "tools/cache/commands.def"
#undef CACHE_COMMAND
};

int kiln_command_cache(int argc, char **argv) {
  for (size_t i = 0; argc > 1 && i < sizeof rows / sizeof *rows; i++)
    if (!strcmp(argv[1], rows[i].name)) return rows[i].function(argc - 1, argv + 1);
  if (argc > 1 && !strcmp(argv[1], "--list-options")) { // for `kiln completion`
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
      printf("word\t%s\t%s\n", rows[i].name, rows[i].text);
    return CLI_OK;
  }
  bool help = argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));
  FILE *to = help ? stdout : stderr;
  if (argc > 1 && !help) {
    kiln_nearest n = kiln_nearest_to(argv[1]);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) kiln_nearest_consider(&n, rows[i].name);
    fprintf(to, "kiln: error: 'cache %s' is no command%s%s%s\n", argv[1], n.best ? "; did you mean '" : "",
            n.best ? n.best : "", n.best ? "'?" : "");
  }
  fprintf(to, "usage: kiln cache COMMAND [options]\n");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    fprintf(to, "  %-8s %s\n", rows[i].name, rows[i].text);
  return help ? CLI_OK : CLI_USAGE;
}

int cache_tool_begin(cache_tool *tool, const cli_page *page, int argc, char **argv, size_t least,
                     size_t most) {
  kiln_error err = {0};
  int code = cli_parse(page, argc, argv, &tool->words);
  if (code != -1) return code;
  if (tool->words.count < least || tool->words.count > most)
    return least < most ? cli_usage(page, "expected %zu %s %zu words, found %zu", least,
                                    most - least == 1 ? "or" : "to", most, tool->words.count)
                        : cli_usage(page, "expected %zu word%s, found %zu", most, kiln_plural(most),
                                    tool->words.count);
  cache_open_options options = {.folder = tool->folder, .local = true};
  kiln_status status = cache_open(&options, &tool->cache, &err);
  if (status) return cli_report(status, &err);
  tool->store = kiln_cache_store(tool->cache);
  return -1;
}

int cache_tool_end(cache_tool *tool, int code) {
  kiln_cache_close(tool->cache);
  cli_list_deinit(&tool->words);
  return code;
}

int cache_saw_all(kiln_store *store, int code) {
  char why[160];
  unsigned folders = kiln_scan_unreadable(store, why, sizeof why);
  if (!folders) return code;
  fprintf(stderr, "kiln: error: %u folder%s of %s cannot be listed, the first: %s\n", folders,
          folders == 1 ? "" : "s", store->root, why);
  return code == CLI_OK ? CLI_FAILED : code;
}

int cache_clear_stats(kiln_store *store) {
  kiln_error err;
  int e = kiln_stats_clear(store);
  if (!e) return CLI_OK;
  kiln_fail(&err, kiln_status_of_errno(-e), "the statistics of %s/%s: %s", store->root, store->folder,
            strerror(-e));
  return cli_report(err.status, &err);
}

struct match {
  const char *text;
  size_t length, count;
  kiln_digest key;
};

static bool match_key(void *context, const kiln_scan_item *item) {
  struct match *m = context;
  char hex[KILN_DIGEST_HEX + 1];
  kiln_digest_hex(&item->key, hex);
  if (hex[0] != m->text[0] || hex[1] != m->text[1]) return false; // the next shard
  if (strncmp(hex, m->text, m->length)) return true;
  m->key = item->key;
  return ++m->count < 2;
}

kiln_status cache_find_key(kiln_store *store, const char *text, kiln_digest *out, kiln_error *err) {
  size_t length = strlen(text);
  if (length < 4 || length > KILN_DIGEST_HEX || strspn(text, "0123456789abcdef") != length)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "expected 4 to 64 hexadecimal digits of a key, found \"%.80s\"", text);
  if (length == KILN_DIGEST_HEX) {
    kiln_digest_parse(text, length, out);
    return KILN_OK;
  }
  struct match m = {.text = text, .length = length};
  kiln_scan_place place = {.shard = (uint32_t)strtoul((char[]){text[0], text[1], 0}, NULL, 16)};
  kiln_scan(store, &place, 0, match_key, &m);
  if (m.count == 0) return kiln_fail(err, KILN_STATUS_NOT_FOUND, "no entry's key begins with %s", text);
  if (m.count > 1)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "several keys begin with %s; give more digits", text);
  *out = m.key;
  return KILN_OK;
}

void cache_print(kiln_buffer *out) {
  if (out->size) fwrite(out->bytes, 1, out->size, stdout); // of an empty one bytes may be NULL
  kiln_buffer_deinit(out);
}
