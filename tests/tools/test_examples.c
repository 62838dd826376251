// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the commands that pages show, each page's in a folder of its own with the files that they name, and compares
// what they print with tests/golden/examples.txt. README's are run after an installation (tests/first_example.sh).
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness.h"

/// What stays out: a part of the command, and why.
static struct {
  const char *part, *reason;
  bool is_used;
} exceptions[] = {
    {"cuda:", "needs a GPU", false},
    {"-t sm_90a app.kbundle add", "needs NVIDIA's disassembler", false},
    {"h200.table", "a table is measured on a GPU", false},
    {"kiln tuned 2", "the first line of a table", false},
    {"cases/", "cases are recorded from Triton", false},
    {"app.manifest", "a manifest is what kiln build hands to kiln-tool", false},
    {"kiln why 3f9a", "keys are made up", false},
    {"redis://", "there is no server; tools/test_tune_worker and test_fleet_build have one", false},
    {"oci://", "there is no registry; python/test_registry has one", false},
    {"app.kbundle last", "a kernel with a race, whose error the page shows; commands.run_ptx has it", false},
    {"...", "a form, no command", false},
};

/// What the commands read. `$R` is the tree.
static const char setup[] =
    "mkdir -p kernels release .triton/cache/abc && ln -s $R/tests tests && "
    "awk '$0 == \"```\" {on = 0} on; $0 == \"```kiln\" {on = 1}' $R/README.md > kernels/add.kiln && "
    "cp kernels/add.kiln app.kiln && cp $R/kernels/softmax.kiln $R/kernels/gemm.kiln . && cp softmax.kiln "
    "kernels && cp $R/tests/ttir/add.ttir . && cp add.ttir .triton/cache/abc && "
    "kiln build -q kernels/*.kiln -t host,sm_90a,gfx942 -o app.kbundle && kiln build -q add.ttir -t host -o "
    "add.kbundle && kiln build -q app.kiln -t gfx90a,gfx942 -o amd.kbundle && kiln build -q app.kiln -t "
    "sm_90a "
    "-o nvidia.kbundle && kiln merge amd.kbundle nvidia.kbundle -o all.kbundle && "
    "for f in old.kbundle new.kbundle extra.kbundle repacked.zip; do cp app.kbundle $f; done && "
    "python3 -c 'import struct; [open(n, \"wb\").write(struct.pack(\"512f\", *v)) for n, v in "
    "((\"x.bin\", range(512)), (\"y.bin\", [1] * 512), (\"want.bin\", range(1, 513)))]'";

/// A script in `folder`, where `kiln` is the one of the build and home and cache are.
static int shell(char **out, const char *folder, const char *command) {
  char text[6000], script[4200], *build = realpath(kiln_test_build(), NULL), *tree = realpath(".", NULL);
  CHECK(build && tree);
  snprintf(script, sizeof script, "%s/script", kiln_test_folder());
  int size = snprintf(text, sizeof text,
                      "set -e\nR=%s\nexport PATH=%s/bin:$PATH HOME=%s KILN_CACHE_DIR=%s/cache\n"
                      "unset XDG_CACHE_HOME XDG_CONFIG_HOME\ncd %s\n%s\n",
                      tree, build, folder, kiln_test_folder(), folder, command);
  CHECK(size > 0 && (size_t)size < sizeof text);
  kiln_test_write(script, text, (size_t)size);
  free(build);
  free(tree);
  return kiln_test_run(out, "bash %s", script);
}

static bool is_exception(const char *command) {
  for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++)
    if (strstr(command, exceptions[i].part)) return exceptions[i].is_used = true;
  return false;
}

/// The text of a line of a page in roff or Markdown, without what makes it shown.
static void plain(const char *line, size_t length, char *out, size_t size) {
  size_t n = 0;
  for (size_t i = 0; i < length && n + 1 < size; i++) {
    if (line[i] == '\\' && i + 1 < length && line[i + 1] == '-') continue;
    out[n++] = line[i];
  }
  out[n] = 0;
  char *end = strstr(out, " | "); // what reads the output is not ours
  if (end) *end = 0;
}

/// The beginning of what every command printed. Numbers are N: they are of a machine, of a time, or of the compiler.
static char printed[100000];
static size_t printed_size;

static void put(const char *text, size_t size) {
  CHECK(printed_size + size < sizeof printed);
  memcpy(printed + printed_size, text, size);
  printed_size += size;
}

/// How many characters at `at` are one number: digits with points between them, or a digest.
static size_t number_length(const char *at) {
  size_t hex = strspn(at, "0123456789abcdef"), n = 0;
  if (hex >= 8) return hex;
  while (isdigit((unsigned char)at[n]) || (n && at[n] == '.' && isdigit((unsigned char)at[n + 1]))) n++;
  return n;
}

/// Lines that are of NVIDIA's assembler, which may be absent.
static bool is_of_the_assembler(const char *line, size_t length) {
  static const char *const parts[] = {"no assembler (", "note assembler: ", "\"notes\": {",
                                      "  registers ",   "  spills ",        "  occupancy "};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (memmem(line, length, parts[i], strlen(parts[i]))) return true;
  return false;
}

static void note(const char *page, const char *command, const char *out, const char *folder) {
  enum { LINES = 5, COLUMNS = 100 };
  put(page, strlen(page));
  put(" $ ", 3);
  put(command, strlen(command));
  put("\n", 1);
  for (unsigned count = 0; *out && count < LINES;) {
    size_t length = strcspn(out, "\n"), here = strlen(folder), above = strlen(kiln_test_folder());
    const char *end = out + length, *at = out;
    out = end + (*end == '\n');
    if (is_of_the_assembler(at, length)) continue;
    put("  ", 2);
    for (size_t begin = printed_size; at < end && printed_size - begin < COLUMNS;) {
      size_t n = number_length(at);
      if (!strncmp(at, folder, here)) put(".", 1), at += here;
      else if (!strncmp(at, kiln_test_folder(), above)) put("..", 2), at += above;
      else if (at[0] == ' ' && at[1] == ' ') at++; // columns are as wide as numbers
      else if (n) put("N", 1), at += n;
      else put(at++, 1);
    }
    put("\n", 1);
    count++;
  }
}

/// The commands of a page, of which `prefix` is what they stand after; returns how many were run.
static unsigned run_page(const char *path, const char *prefix) {
  char *page = kiln_test_read(path, NULL), command[1000], folder[4000], *out;
  unsigned count = 0;
  if (!page) FAIL("%s cannot be read", path);
  const char *name = strrchr(path, '/') + 1;
  snprintf(folder, sizeof folder, "%s/%s", kiln_test_folder(), name);
  const char *examples = strstr(page, "\n.SH EXAMPLES\n"); // a page in roff shows forms before them
  for (const char *line = examples ? examples + 1 : page; *line; line += *line == '\n') {
    size_t length = strcspn(line, "\n"), skip = strlen(prefix);
    if (!strncmp(line, prefix, skip) && !strncmp(line + skip, "kiln ", 5) && length > skip + 5) {
      plain(line + skip, length - skip, command, sizeof command);
      if (!is_exception(command)) {
        if (!count++ && kiln_test_run(&out, "cp -r %s/files %s", kiln_test_folder(), folder)) FAIL("%s", out);
        if (shell(&out, folder, command)) FAIL("%s: %s\n%s", path, command, out);
        note(name, command, out, folder);
        free(out);
      }
    }
    line += length;
  }
  free(page);
  return count;
}

/// Its keys are used by others.
static const char first_page[] = "kiln-sign.1";

/// A page shows a command as a line of its own: in roff at its beginning, in Markdown after four spaces.
static unsigned run_folder(const char *folder, const char *ending, const char *prefix) {
  struct dirent **entries;
  char path[512];
  unsigned count = 0;
  int found = scandir(folder, &entries, NULL, alphasort);
  CHECK(found > 0);
  for (int i = 0; i < found; i++) {
    const char *name = entries[i]->d_name, *dot = strrchr(name, '.');
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (dot && !strcmp(dot, ending) && strcmp(name, first_page)) count += run_page(path, prefix);
    free(entries[i]);
  }
  free(entries);
  return count;
}

TEST(examples, commands_of_the_pages) {
  char files[4000], *out;
  snprintf(files, sizeof files, "%s/files", kiln_test_folder());
  if (kiln_test_run(&out, "mkdir %s", files)) FAIL("%s", out);
  if (shell(&out, files, setup)) FAIL("%s", out);
  free(out);
  char first[100];
  snprintf(first, sizeof first, "docs/man/%s", first_page);
  unsigned count = run_page(first, "");
  if (kiln_test_run(&out, "cd %s && cp %s/release.key* files && cp %s/app.kbundle files/release",
                    kiln_test_folder(), first_page, first_page))
    FAIL("%s", out);
  count += run_folder("docs/man", ".1", "");
  count += run_folder("docs", ".md", "    ");
  if (count < 50) FAIL("%u commands were run", count);
  kiln_test_golden("examples.txt", printed, printed_size);
  for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++)
    if (!exceptions[i].is_used) FAIL("no page has '%s'", exceptions[i].part);
}
