// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `kiln --help`: every command of both programs, in groups, from their tables.
#include "tools/kiln/help.h"

#include <stdio.h>

enum { MAKE, LOOK, USE, CACHE, TRITON, TABLES, GROUPS };

static const char *const groups[GROUPS] = {
    [MAKE] = "making bundles",      [LOOK] = "looking into bundles", [USE] = "using bundles",
    [CACHE] = "keys and the cache", [TRITON] = "Triton IR",          [TABLES] = "tables and help"};

static const struct {
  char name[16];
  int group;
  char text[84];
} all[] = {
#define COMMAND(name, function, group, text) {name, group, text},
#include "tools/kiln/commands.def"
#include "tools/kiln-tool/commands.def"
#undef COMMAND
};
#define COMMAND(n, function, group, says) \
  _Static_assert(sizeof n <= sizeof all->name && sizeof says <= sizeof all->text, "both have room: " n);
#include "tools/kiln/commands.def"
#include "tools/kiln-tool/commands.def"
#undef COMMAND

const char *help_command_at(size_t index, const char **out_text) {
  if (index >= sizeof all / sizeof *all) return NULL;
  *out_text = all[index].text;
  return all[index].name;
}

void help_print(void) {
  printf("usage: kiln COMMAND [options] ...\n\nCompiles GPU kernels ahead of time, caches the results, and "
         "packs them into bundles.\n");
  for (int g = 0; g < GROUPS; g++) {
    printf("\n%s:\n", groups[g]);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
      if (all[i].group == g) printf("  %-15s %s\n", all[i].name, all[i].text);
  }
  printf("\n`kiln help COMMAND` or `kiln COMMAND --help` describes one command. All take "
         "--color=auto|always|never, "
         "for messages; `kiln --version` prints the version.\nExit codes: 0 done, 1 failed, 2 wrong command "
         "line, 3 internal error.\n");
}
