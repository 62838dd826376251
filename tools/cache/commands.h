// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One function per subcommand of `kiln cache`; argv[0] is its name.
#ifndef KILN_TOOLS_CACHE_COMMANDS_H
#define KILN_TOOLS_CACHE_COMMANDS_H

#include "cache/admin.h"
#include "tools/common/cli.h"

#define CACHE_COMMAND(name, function, text) int function(int argc, char **argv);
#include "tools/cache/commands.def"
#undef CACHE_COMMAND

/// What most subcommands start with: common options, positional words, the open cache and its store.
typedef struct cache_tool {
  const char *folder;
  bool json;
  cli_list words;
  kiln_cache *cache; ///< owned
  kiln_store *store; ///< borrowed from the cache
} cache_tool;

#define CACHE_TOOL_OPTIONS(tool)                                                                         \
  {"cache-dir", 0, CLI_TEXT, &(tool)->folder, "DIR", "folder of the cache (default: KILN_CACHE_DIR)"}, { \
    "json", 0, CLI_FLAG, &(tool)->json, NULL, "print JSON"                                               \
  }

/// Parses the options and opens the cache; -1 to go on, else the exit code. `least` and `most` bound the
/// count of words.
int cache_tool_begin(cache_tool *tool, const cli_page *page, int argc, char **argv, size_t least,
                     size_t most);
int cache_tool_end(cache_tool *tool, int code);
/// `code` of a command that walked over all entries of `store`; CLI_FAILED, and an error that names the first of them,
/// where folders could not be listed.
int cache_saw_all(kiln_store *store, int code);
/// Removes the statistics; the exit code.
int cache_clear_stats(kiln_store *store);

/// The entry whose hexadecimal key begins with `text` (at least 4 digits). NOT_FOUND, or INVALID_ARGUMENT if
/// the text is not such a prefix or several keys begin with it.
kiln_status cache_find_key(kiln_store *store, const char *text, kiln_digest *out, kiln_error *err);
void cache_print(kiln_buffer *out);

#endif
