// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `kiln`: the one program a user types. Static, no LLVM; it starts the others.
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "base/program.h"
#include "tools/common/cli.h"
#include "tools/kiln/commands.h"
#include "tools/kiln/help.h"

int main(int argc, char **argv) {
  kiln_program_begin();
  (void)kiln_set_colors();     // of messages about kiln.conf
  mallopt(M_TOP_PAD, 1 << 20); // one growth of the heap instead of many, and no shrinking: a hit is a handful
                               // of system calls
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  // `kiln help cache stats` is `kiln cache stats --help`; argv has room for as many words.
  if (argc > 2 && !strcmp(argv[1], "help")) {
    memmove(argv + 1, argv + 2, (size_t)(argc - 2) * sizeof *argv);
    static char help[] = "--help";
    argv[argc - 1] = help;
  }
  if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
    return help_print(), argc < 2 ? CLI_USAGE : CLI_OK;
  if (!strcmp(argv[1], "--version")) return puts("kiln " KILN_VERSION), CLI_OK;
  // Each command that it runs reads kiln.conf.
  if (!strcmp(argv[1], "build-server")) return kiln_command_build_server(argc - 1, argv + 1);
  return kiln_run_command(argc, argv);
}
