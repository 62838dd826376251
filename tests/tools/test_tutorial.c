// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows docs/tutorial.md and docs/how-it-works.md as a reader does: files are written and commands run
// from top to bottom, in one folder, and they print what the page shows. A listing is
//
//   ```kiln NAME     a file
//   ```console       commands after `$ `, each followed by what it prints; `...` stands for any lines
//   ```console cuda  the same where there is a GPU
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness.h"

static const char *page_path; ///< of the page that is followed
static const char elided[] = "...";

typedef struct line {
  const char *text;
  size_t length;
} line;

static bool is_text(line l, const char *text) {
  return l.length == strlen(text) && !memcmp(l.text, text, l.length);
}

static bool begins_with(line l, const char *text) {
  return l.length >= strlen(text) && !memcmp(l.text, text, strlen(text));
}

/// The line at `*at`, which then is at the next one; false at the end.
static bool next_line(const char **at, line *out) {
  if (!**at) return false;
  *out = (line){*at, strcspn(*at, "\n")};
  *at += out->length;
  *at += **at == '\n';
  return true;
}

/// Lines that depend on NVIDIA's assembler, which is of some version, or not there: its numbers, and the note
/// that it was not found.
static bool is_of_the_assembler(line l) {
  static const char note[] = "no assembler (libnvJitLink, ptxas) was found";
  return begins_with(l, "  registers ") || begins_with(l, "  spills ") || begins_with(l, "  occupancy ") ||
         (begins_with(l, "kiln: note: ") && memmem(l.text, l.length, note, strlen(note)));
}

static bool next_that_counts(const char **at, const char *end, line *out) {
  while (*at < end && next_line(at, out))
    if (!is_of_the_assembler(*out)) return true;
  return false;
}

/// Whether `found` is what the page shows from `shown` to `end`. Short texts: elided lines are tried out.
static bool matches(const char *shown, const char *end, const char *found) {
  const char *stop = found + strlen(found);
  line want, have;
  while (next_that_counts(&shown, end, &want)) {
    if (is_text(want, elided)) {
      for (;;) {
        if (matches(shown, end, found)) return true;
        if (!next_that_counts(&found, stop, &have)) return false;
      }
    }
    if (!next_that_counts(&found, stop, &have)) return false;
    if (want.length != have.length || memcmp(want.text, have.text, want.length) != 0) return false;
  }
  return !next_that_counts(&found, stop, &have);
}

static void run_command(line command, const char *shown, const char *end) {
  char *out;
  int status = kiln_test_run(
      &out, "cd %s && PATH=%s/bin:$PATH KILN_CACHE_DIR=%s/cache && export PATH KILN_CACHE_DIR && %.*s",
      kiln_test_folder(), kiln_test_build_path(), kiln_test_folder(), (int)command.length, command.text);
  if (status) FAIL("%s: %.*s\n%s", page_path, (int)command.length, command.text, out);
  if (!matches(shown, end, out))
    FAIL("%s: %.*s prints\n%s\nand not\n%.*s", page_path, (int)command.length, command.text, out,
         (int)(end - shown), shown);
  free(out);
}

/// The commands of a listing, up to its end.
static unsigned run_listing(const char *text, const char *end) {
  unsigned count = 0;
  line l;
  const char *at = text;
  if (!next_line(&at, &l) || !begins_with(l, "$ "))
    FAIL("%s: no command is in front of what it prints", page_path);
  while (text < end) {
    next_line(&text, &l);
    const char *shown = text, *next = text;
    while (text < end && next_line(&next, &(line){0}) && strncmp(text, "$ ", 2) != 0) text = next;
    run_command((line){l.text + 2, l.length - 2}, shown, text);
    count++;
  }
  return count;
}

static void write_listing(line name, const char *text, const char *end) {
  char path[4200];
  for (size_t i = 0; i < name.length; i++)
    if (!isalnum((unsigned char)name.text[i]) && !strchr("._", name.text[i]))
      FAIL("%s: '%.*s' is no name of a file", page_path, (int)name.length, name.text);
  snprintf(path, sizeof path, "%s/%.*s", kiln_test_folder(), (int)name.length, name.text);
  kiln_test_write(path, text, (size_t)(end - text));
}

/// What a page was found to have.
typedef struct listings {
  unsigned files, commands, for_gpus;
} listings;

static listings follow(const char *path) {
  page_path = path;
  char *page = kiln_test_read(page_path, NULL);
  if (!page) FAIL("%s cannot be read", page_path);
  const char *at = page;
  listings n = {0};
  bool has_gpu = !access("/dev/nvidiactl", F_OK);
  for (line l; next_line(&at, &l);) {
    if (!begins_with(l, "```")) continue;
    const char *text = at, *end = text;
    line body;
    do {
      end = at;
      if (!next_line(&at, &body)) FAIL("%s: a listing does not end", page_path);
    } while (!is_text(body, "```"));
    const char *name = memchr(l.text, ' ', l.length);
    if (is_text(l, "```console")) n.commands += run_listing(text, end);
    else if (is_text(l, "```console cuda")) n.for_gpus += has_gpu ? run_listing(text, end) : 1;
    else if (name && !begins_with(l, "```console"))
      write_listing((line){name + 1, l.length - (size_t)(name + 1 - l.text)}, text, end), n.files++;
    else FAIL("%s: '%.*s' begins a listing that nothing runs", page_path, (int)l.length, l.text);
  }
  free(page);
  return n;
}

TEST(tutorial, files_and_commands) {
  listings n = follow("docs/tutorial.md");
  if (n.files < 8 || n.commands < 16 || !n.for_gpus)
    FAIL("%u files, %u commands, %u for a GPU", n.files, n.commands, n.for_gpus);
}

TEST(tutorial, how_it_works) {
  listings n = follow("docs/how-it-works.md");
  if (n.files < 1 || n.commands < 7) FAIL("%u files, %u commands", n.files, n.commands);
}

/// The comparison itself: what must be equal, and what may differ.
TEST(tutorial, what_is_equal) {
  static const struct {
    const char *shown, *found;
    bool is_equal;
  } cases[] = {
      {"a\nb\n", "a\nb\n", true},
      {"a\n", "a\nb\n", false},
      {"a\nb\n", "a\n", false},
      {"", "a\n", false},
      {"...\nb\n", "a\nb\n", true},
      {"...\nb\n", "a\nb\nc\n", false},
      {"a\n...\nc\n...\n", "a\nb\nc\n", true},
      {"...\nc\n...\nb\n...\n", "a\nb\nc\n", false},
      {"...\nb\nc\n...\n", "b\na\nb\nc\n", true},
      {"  registers 28\nload\n", "  registers known\nload\n", true},
      {"  registers 28\n  spills 0\nload\n", "load\n", true},
      {"load\n", "kiln: note: it is PTX: no assembler (libnvJitLink, ptxas) was found\nload\n", true},
      {"  registers 28\nload\n", "  registers 28\nstore\n", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (matches(cases[i].shown, cases[i].shown + strlen(cases[i].shown), cases[i].found) != cases[i].is_equal)
      FAIL("case %zu", i);
}
