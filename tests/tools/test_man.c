// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the manual pages: each command has one, its first half is what --help prints (KILN_TEST_BLESS
// writes it), the second half is written by hand, and a manual reader has no complaints.
#include "tests/harness.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"

typedef struct command {
  const char *name, *text;
} command;

static const command commands[] = {
#define COMMAND(name, function, group, text) {name, text},
#include "tools/kiln/commands.def"
#include "tools/kiln-tool/commands.def"
#undef COMMAND
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static const char *const cache_commands[] = {
#define CACHE_COMMAND(name, function, text) name,
#include "tools/cache/commands.def"
#undef CACHE_COMMAND
};

static const char marker[] =
    ".\\\" Up to here the page is what --help prints: a test compares it, `make bless` writes it.\n";

/// Text as roff: dashes are ASCII, nothing begins a request.
static void put_text(kiln_buffer *out, const char *text, size_t size) {
  if (size && (*text == '.' || *text == '\'')) kiln_buffer_format(out, "\\&");
  for (size_t i = 0; i < size; i++) {
    if (text[i] == '-') kiln_buffer_format(out, "\\-");
    else if (text[i] == '\\') kiln_buffer_format(out, "\\e");
    else kiln_buffer_u8(out, (uint8_t)text[i]);
  }
}

static void put_line(kiln_buffer *out, const char *text, size_t size) {
  put_text(out, text, size);
  kiln_buffer_format(out, "\n");
}

/// "  -o, --out=FILE          help": one tagged paragraph.
static void put_option(kiln_buffer *out, const char *line, size_t size) {
  size_t begin = strspn(line, " "), end = begin;
  while (end + 1 < size && !(line[end] == ' ' && line[end + 1] == ' ') &&
         !(line[end] == ' ' && line[end + 1] != '-'))
    end++;
  size_t help = end + strspn(line + end, " ");
  kiln_buffer_format(out, ".TP\n.B ");
  put_line(out, line + begin, end - begin);
  put_line(out, line + help, size - help);
}

static bool is_option(const char *line) {
  const char *p = line + strspn(line, " ");
  return p > line && *p == '-';
}

/// A line "options:" or "options of code generation:" before options; `first` is the heading of the first
/// one, NULL where the text is in a section already.
static void put_heading(kiln_buffer *out, const char *line, size_t size, const char *first) {
  if (!first) return;
  kiln_buffer_format(out, "%s", first);
  if (!*first) {
    kiln_buffer_format(out, ".SS %c", toupper((unsigned char)*line));
    put_line(out, line + 1, size - 2);
  }
}

/// All after the usage line of a help text.
static void put_body(kiln_buffer *out, const char *text, const char *heading) {
  for (const char *line = text; *line;) {
    size_t size = strcspn(line, "\n");
    const char *next = line + size + (line[size] == '\n');
    if (is_option(line)) put_option(out, line, size);
    else if (size && line[size - 1] == ':' && is_option(next)) {
      put_heading(out, line, size, heading);
      heading = heading ? "" : NULL;
    } else if (size) put_line(out, line, size);
    else if (*next && !is_option(next)) {
      const char *after = next + strcspn(next, "\n");
      if (!(after > next && after[-1] == ':' && *after && is_option(after + 1)))
        kiln_buffer_format(out, ".PP\n");
    }
    line = next;
  }
}

/// What `kiln WORDS --help` prints, in two parts: the usage line, ended, and what follows the empty line
/// after it. malloc'ed.
static char *read_help(const char *words, char **out_body) {
  char *text;
  int code = kiln_test_run(&text, "%s/bin/kiln %s --help", kiln_test_build(), words);
  if (code || strncmp(text, "usage: ", 7)) FAIL("kiln %s --help: exit code %d:\n%s", words, code, text);
  char *end = strchr(text, '\n');
  *end = 0;
  *out_body = end + 1 + strspn(end + 1, "\n");
  return text;
}

static void put_synopsis(kiln_buffer *out, const char *usage) {
  kiln_buffer_format(out, ".nf\n.B ");
  put_line(out, usage + 7, strlen(usage + 7));
  kiln_buffer_format(out, ".fi\n");
}

static void put_head(kiln_buffer *out, const command *c) {
  char upper[64], *body;
  size_t length = strlen(c->name);
  for (size_t i = 0; i <= length; i++) upper[i] = (char)toupper((unsigned char)c->name[i]);
  kiln_buffer_format(out, ".TH KILN-%s 1 \"\" \"kiln " KILN_VERSION "\" \"Kiln\"\n.SH NAME\nkiln\\-", upper);
  put_text(out, c->name, length);
  kiln_buffer_format(out, " \\- ");
  put_line(out, c->text, strlen(c->text));
  kiln_buffer_format(out, ".SH SYNOPSIS\n");
  bool is_cache = !strcmp(c->name, "cache");
  char *help = is_cache ? NULL : read_help(c->name, &body);
  if (is_cache) kiln_buffer_format(out, ".B kiln cache\n.I command\n.RI [ options ]\n");
  else put_synopsis(out, help);
  kiln_buffer_format(out, ".SH DESCRIPTION\n");
  if (!is_cache) put_body(out, body, ".SH OPTIONS\n");
  free(help);
  for (size_t i = 0; is_cache && i < sizeof cache_commands / sizeof *cache_commands; i++) {
    char words[64];
    snprintf(words, sizeof words, "cache %s", cache_commands[i]);
    help = read_help(words, &body);
    kiln_buffer_format(out, ".SS ");
    put_line(out, words, strlen(words));
    put_synopsis(out, help);
    kiln_buffer_format(out, ".PP\n");
    put_body(out, body, NULL);
    free(help);
  }
  kiln_buffer_u8(out, 0);
}

static void same_lines(const char *path, const char *text, const char *want) {
  for (unsigned number = 1;; number++) {
    size_t a = strcspn(text, "\n"), b = strcspn(want, "\n");
    if (a != b || memcmp(text, want, a))
      FAIL("%s:%u: \"%.*s\"; --help says \"%.*s\" (make bless writes the page anew)", path, number, (int)a,
           text, (int)b, want);
    if (!text[a] && !want[b]) return;
    if (!text[a] || !want[b])
      FAIL("%s:%u: %s lines than --help (make bless writes the page anew)", path, number,
           text[a] ? "more" : "fewer");
    text += a + 1, want += b + 1;
  }
}

static void check_page(const command *c, bool bless) {
  char path[200];
  kiln_buffer head = {0}, page = {0};
  put_head(&head, c);
  snprintf(path, sizeof path, "docs/man/kiln-%s.1", c->name);
  char *text = kiln_test_read(path, NULL), *rest = text ? strstr(text, marker) : NULL;
  if (bless) {
    kiln_buffer_format(&page, "%s%s", (const char *)head.bytes, rest ? rest : marker);
    kiln_test_write(path, page.bytes, page.size);
  } else {
    if (!rest) FAIL("%s is not there or is without the line\n%s", path, marker);
    *rest = 0;
    same_lines(path, text, (const char *)head.bytes);
    rest += strlen(marker);
    static const char *const sections[] = {".SH EXAMPLES\n", ".SH SEE ALSO\n", ".SH EXIT STATUS\n"};
    for (unsigned i = 0; i < 3; i++)
      if (!strstr(rest, sections[i])) FAIL("%s has no section%s", path, sections[i] + 3);
  }
  free(text);
  kiln_buffer_deinit(&head);
  kiln_buffer_deinit(&page);
}

TEST(man, pages_say_what_help_says) {
  for (unsigned i = 0; i < COMMANDS; i++) check_page(&commands[i], getenv("KILN_TEST_BLESS"));
}

TEST(man, every_command_is_in_the_first_page_and_every_page_is_a_command) {
  char *first = kiln_test_read("docs/man/kiln.1", NULL), *names, line[100];
  for (unsigned i = 0; i < COMMANDS; i++) {
    kiln_buffer want = {0};
    kiln_buffer_format(&want, ".BR kiln\\-");
    put_text(&want, commands[i].name, strlen(commands[i].name));
    kiln_buffer_format(&want, " (1)\n");
    kiln_buffer_u8(&want, 0);
    if (!strstr(first, (const char *)want.bytes))
      FAIL("docs/man/kiln.1 is without\n%s", (const char *)want.bytes);
    kiln_buffer_deinit(&want);
  }
  CHECK_INT(kiln_test_run(&names, "cd docs/man && ls kiln-*.1"), 0);
  for (char *save, *name = strtok_r(names, "\n", &save); name; name = strtok_r(NULL, "\n", &save)) {
    unsigned i = 0;
    for (; i < COMMANDS; i++) {
      snprintf(line, sizeof line, "kiln-%s.1", commands[i].name);
      if (!strcmp(line, name)) break;
    }
    if (i == COMMANDS) FAIL("docs/man/%s is the page of no command", name);
  }
  free(first);
  free(names);
}

TEST(man, a_reader_has_no_complaint) {
  char *out;
  kiln_test_need("man");
  kiln_test_need("groff");
  // Small images come without groff's macros.
  if (kiln_test_run(NULL,
                    "cd %s && printf '.TH A 1\\n.SH NAME\\na\\n' >a.1 && said=$(man --warnings -E UTF-8 -l "
                    "a.1 2>&1 >/dev/null) && test -z \"$said\"",
                    kiln_test_folder()))
    SKIP("the manual reader of this machine reads no page");
  CHECK_INT(kiln_test_run(&out, "for page in docs/man/*; do MANWIDTH=100 man --warnings -E UTF-8 -l $page "
                                "2>&1 >/dev/null | sed \"s|^|$page: |\"; done"),
            0);
  CHECK_TEXT(out, "");
  free(out);
}

// Each function that the page of the library names is in the header, and the other way round.
TEST(man, the_library_page_has_every_function) {
  char *out;
  CHECK_INT(
      kiln_test_run(
          &out,
          "for f in $(sed -n 's/^KILN_API .*[ *]\\(kiln_[a-z_]*\\)(.*/\\1/p' runtime/kiln.h "
          "runtime/kiln_observe.h runtime/kiln_verify.h); do grep -qw $f docs/man/libkiln.3 || echo $f; "
          "done; "
          "for f in $(sed 's|kiln_[a-z]*[.]h||' docs/man/libkiln.3 | grep -ow 'kiln_[a-z_]*' | sort "
          "-u); do grep -qw $f runtime/kiln.h runtime/kiln_observe.h runtime/kiln_verify.h || echo $f; done"),
      0);
  CHECK_TEXT(out, "");
  free(out);
}
