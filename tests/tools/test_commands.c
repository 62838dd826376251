// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests command lines as a user sees them: tests/text/commands/NAME.test holds commands, what each prints and
// its exit status; CONTRIBUTING.md describes the format. KILN_TEST_BLESS=1 rewrites what is printed. The tests
// at the end are about this runner itself.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/harness.h"

static const char commands[] = "tests/text/commands";

// ------------------------------------------------------------------------------------------- lines

typedef struct {
  char **line;
  size_t count;
} line_list;

/// Takes `text` apart; the lines are parts of it.
static line_list split(char *text) {
  line_list list = {.line = malloc((strlen(text) + 1) * sizeof(char *))};
  if (!list.line) FAIL("no memory for %zu bytes of text", strlen(text));
  while (*text) {
    list.line[list.count++] = text;
    text += strcspn(text, "\n");
    if (*text) *text++ = 0;
  }
  return list;
}

static line_list slice(line_list list, size_t from, size_t to) {
  return (line_list){list.line + from, to - from};
}

/// Lines of output that would read as something else are written after a backslash.
static bool is_special(const char *line) {
  return *line == '\\' || *line == '#' || (*line && strchr("$<>?@", *line) && (!line[1] || line[1] == ' ')) ||
         !strcmp(line, "...");
}

static bool is_rest(const char *pattern) { return !strcmp(pattern, "..."); }

/// Whether the line is as expected; "[..]" stands for any text.
static bool is_like(const char *pattern, const char *line) {
  if (*pattern == '\\') pattern++;
  const char *any = strstr(pattern, "[..]");
  if (!any) return !strcmp(pattern, line);
  const size_t head = (size_t)(any - pattern);
  if (strncmp(pattern, line, head) != 0) return false;
  for (line += head;; line++) {
    if (is_like(any + 4, line)) return true;
    if (!*line) return false;
  }
}

/// Whether the output is as expected; a line "..." stands for any lines. `*deepest` becomes the number of the
/// first line of output that nothing explained.
static bool is_output(line_list want, line_list got, size_t at, size_t *deepest) {
  if (at > *deepest) *deepest = at;
  if (!want.count) return at == got.count;
  const line_list rest = slice(want, 1, want.count);
  if (!is_rest(want.line[0]))
    return at < got.count && is_like(want.line[0], got.line[at]) && is_output(rest, got, at + 1, deepest);
  for (; at <= got.count; at++)
    if (is_output(rest, got, at, deepest)) return true;
  return false;
}

// --------------------------------------------------------------------------------------- blessing

/// The first of `want` from `at` that is like the line, or the end.
static size_t find_like(line_list want, size_t at, const char *line) {
  while (at < want.count && (is_rest(want.line[at]) || !is_like(want.line[at], line))) at++;
  return at;
}

/// Writes the output, and in place of lines that a pattern still describes the pattern.
static void bless(line_list want, line_list got, FILE *out) {
  size_t w = 0, g = 0;
  while (g < got.count) {
    if (w < want.count && is_rest(want.line[w])) {
      size_t to = g;
      if (++w == want.count) to = got.count;
      else
        while (to < got.count && !is_like(want.line[w], got.line[to])) to++;
      if (to == got.count && w < want.count) continue;
      fputs("...\n", out);
      g = to;
      continue;
    }
    const size_t found = find_like(want, w, got.line[g]);
    if (found < want.count) fprintf(out, "%s\n", want.line[w = found]);
    else fprintf(out, "%s%s\n", is_special(got.line[g]) ? "\\" : "", got.line[g]);
    if (found < want.count || (w + 1 < want.count && is_rest(want.line[w + 1]))) w++;
    g++;
  }
}

// ---------------------------------------------------------------------------------------- running

typedef struct {
  const char *name; // of the file, for reports
  char folder[200]; // the commands' current folder, new
  line_list lines;
  size_t at;
  FILE *report, *blessed;
  unsigned commands, wrong;
  char *skipped; // why the rest is skipped, owned
} session;

/// The next line, which goes to the blessed text as it is.
static const char *keep(session *s) {
  const char *line = s->lines.line[s->at++];
  fprintf(s->blessed, "%s\n", line);
  return line;
}

static bool at_output(const session *s) {
  if (s->at == s->lines.count) return false;
  const char *line = s->lines.line[s->at];
  return is_rest(line) || *line == '\\' || !is_special(line);
}

/// A file between "< NAME" and "<".
static void write_file(session *s) {
  char path[512];
  const size_t first = s->at;
  snprintf(path, sizeof path, "%s/%s", s->folder, keep(s) + 2);
  FILE *f = fopen(path, "w");
  if (!f) FAIL("%s:%zu: cannot write %s", s->name, first + 1, path);
  while (s->at < s->lines.count && strcmp(s->lines.line[s->at], "<") != 0) fprintf(f, "%s\n", keep(s));
  if (fclose(f)) FAIL("%s:%zu: cannot write %s", s->name, first + 1, path);
  if (s->at < s->lines.count) {
    keep(s);
    return;
  }
  fprintf(s->report, "%s:%zu: expected a line \"<\" after the file\n", s->name, first + 1);
  s->wrong++;
}

/// Runs what stands after "$ " or "@ " and in the lines "> ". In a sanitized build memory that a program still
/// has when it ends is no fault.
static int run_command(session *s, char **out) {
  char path[300], root[4096];
  if (!realpath(".", root)) FAIL("the current folder has no path");
  snprintf(path, sizeof path, "%s.sh", s->folder);
  FILE *f = fopen(path, "w");
  if (!f) FAIL("cannot write %s", path);
  fprintf(f, "%s\n", keep(s) + 2);
  while (s->at < s->lines.count && !strncmp(s->lines.line[s->at], "> ", 2)) fprintf(f, "%s\n", keep(s) + 2);
  if (fclose(f)) FAIL("cannot write %s", path);
  return kiln_test_run(
      out,
      "cd %s && exec env -i HOME=%s KILN_CACHE_DIR=%s/cache LC_ALL=C KILN_VERIFY_PASSES=1 ROOT=%s BUILD=%s "
      "PATH=%s/bin:/usr/local/bin:/usr/bin:/bin ASAN_OPTIONS=detect_leaks=0 sh %s </dev/null",
      s->folder, s->folder, s->folder, root, kiln_test_build_path(), kiln_test_build_path(), path);
}

/// The number of a line "? N"; 0 without such a line.
static int read_status(session *s) {
  if (s->at == s->lines.count || strncmp(s->lines.line[s->at], "? ", 2) != 0) return 0;
  char *end;
  const char *digits = s->lines.line[s->at++] + 2;
  const unsigned long status = strtoul(digits, &end, 10);
  if (*digits >= '1' && *digits <= '9' && !*end && status < 256) return (int)status;
  s->wrong++;
  fprintf(s->report, "%s:%zu: expected an exit status from 1 to 255, found \"%s\"\n", s->name, s->at, digits);
  return 0;
}

/// The command of "@ " finds what the test needs; if it fails, the rest is skipped, and what it prints is why.
static void check_need(session *s) {
  char *text;
  const size_t first = s->at;
  if (run_command(s, &text)) {
    text[strcspn(text, "\n")] = 0;
    if (asprintf(&s->skipped, "%s:%zu: %s", s->name, first + 1, *text ? text : s->lines.line[first]) < 0)
      FAIL("no memory for a reason");
    while (s->at < s->lines.count) keep(s);
  }
  free(text);
}

static void check_command(session *s) {
  char *text;
  const size_t first = s->at;
  size_t deepest = 0, blanks = 0;
  const int status = run_command(s, &text);
  const size_t from = s->at;
  while (at_output(s)) s->at++;
  line_list want = slice(s->lines, from, s->at), got = split(text);
  for (; want.count && !*want.line[want.count - 1]; want.count--) blanks++;
  while (got.count && !*got.line[got.count - 1]) got.count--;
  s->commands++;
  if (is_output(want, got, 0, &deepest)) {
    for (size_t i = 0; i < want.count; i++) fprintf(s->blessed, "%s\n", want.line[i]);
  } else {
    s->wrong++;
    fprintf(s->report, "%s:%zu: %s\nexpected:\n", s->name, first + 1, s->lines.line[first]);
    for (size_t i = 0; i < want.count; i++) fprintf(s->report, "  %s\n", want.line[i]);
    fputs("found (> is the first line that was not expected):\n", s->report);
    for (size_t i = 0; i < got.count; i++)
      fprintf(s->report, "%c %s\n", i == deepest ? '>' : ' ', got.line[i]);
    bless(want, got, s->blessed);
  }
  const int wanted = read_status(s);
  if (status != wanted) {
    s->wrong++;
    fprintf(s->report, "%s:%zu: %s\nexpected exit status %d, found %d\n", s->name, first + 1,
            s->lines.line[first], wanted, status);
  }
  if (status) fprintf(s->blessed, "? %d\n", status);
  for (; blanks; blanks--) fputc('\n', s->blessed);
  free(got.line);
  free(text);
}

/// How many expectations of the text fail; `*report` says which, `*blessed` is the text as it should be, and
/// `*skipped`, if it is not NULL, why only the commands up to there were run. The three are malloc'ed.
static unsigned run_text(const char *name, const char *text, char **report, char **blessed, char **skipped) {
  static unsigned number;
  size_t report_size, blessed_size;
  char *copy = strdup(text);
  session s = {.name = name, .lines = split(copy)};
  snprintf(s.folder, sizeof s.folder, "%s/%u", kiln_test_folder(), number++);
  if (mkdir(s.folder, 0777)) FAIL("cannot make %s", s.folder);
  s.report = open_memstream(report, &report_size);
  s.blessed = open_memstream(blessed, &blessed_size);
  while (s.at < s.lines.count) {
    const char *line = s.lines.line[s.at];
    if (!strncmp(line, "$ ", 2)) check_command(&s);
    else if (!strncmp(line, "@ ", 2)) check_need(&s);
    else if (!strncmp(line, "< ", 2)) write_file(&s);
    else if (!*line || *line == '#') keep(&s);
    else {
      fprintf(s.report,
              "%s:%zu: expected \"$ command\", \"@ command\", \"< file\" or \"# comment\", found \"%s\"\n",
              name, s.at + 1, line);
      s.wrong++;
      keep(&s);
    }
  }
  if (!s.commands && !s.skipped) {
    fprintf(s.report, "%s: expected a command\n", name);
    s.wrong++;
  }
  fclose(s.report);
  fclose(s.blessed);
  free(s.lines.line);
  free(copy);
  *skipped = s.skipped;
  return s.wrong;
}

/// Why not all of the file was run, malloc'ed; NULL if all was.
static char *check_file(const char *name) {
  char path[400], *report, *blessed, *skipped;
  snprintf(path, sizeof path, "%s/%s", commands, name);
  char *text = kiln_test_read(path, NULL);
  if (!text) FAIL("%s cannot be read", path);
  const unsigned wrong = run_text(path, text, &report, &blessed, &skipped);
  if (getenv("KILN_TEST_BLESS")) kiln_test_write(path, blessed, strlen(blessed));
  else if (wrong) FAIL("%s", report);
  free(blessed);
  free(report);
  free(text);
  return skipped;
}

static int is_test(const struct dirent *entry) {
  const char *dot = strrchr(entry->d_name, '.');
  return dot && !strcmp(dot, ".test");
}

/// What scandir allocated.
static void free_entries(struct dirent **entries, int count) {
  for (int i = 0; i < count; i++) free(entries[i]);
  if (count >= 0) free(entries);
}

// ------------------------------------------------------------------------------------------ files

#ifdef KILN_PLAIN_TESTS
TEST(commands, files) {
  struct dirent **entries;
  const int count = scandir(commands, &entries, is_test, alphasort);
  unsigned skips = 0;
  CHECK(count > 0);
  for (int i = 0; i < count; i++) {
    char *skipped = check_file(entries[i]->d_name);
    if (!skipped) continue;
    fprintf(stderr, "skipped: %s\n", skipped);
    free(skipped);
    skips++;
  }
  free_entries(entries, count);
  if (skips) SKIP("%u of %d files, for the reasons above; the others pass", skips, count);
}
#else
#include <criterion/parameterized.h>

typedef struct {
  char name[256];
} test_file;

ParameterizedTestParameters(commands, files) {
  struct dirent **entries;
  const int count = scandir(commands, &entries, is_test, alphasort);
  test_file *files = cr_calloc((size_t)(count > 0 ? count : 1), sizeof *files);
  for (int i = 0; i < count; i++) snprintf(files[i].name, sizeof files[i].name, "%s", entries[i]->d_name);
  free_entries(entries, count);
  return cr_make_param_array(test_file, files, (size_t)(count > 0 ? count : 1));
}
ParameterizedTest(test_file *file, commands, files) {
  const char *skipped = check_file(file->name);
  if (skipped) SKIP("%s", skipped);
}
#endif

// ------------------------------------------------------------------------------------- the runner

/// A program all of whose tests are skipped here. Criterion takes it for a worker of this one where BXFI_MAP is set.
TEST(commands, what_is_skipped_says_why) {
  char *out = kiln_test_run_to(0, "env -u BXFI_MAP -u KILN_AMD_EMULATOR %s/tests/codegen/test_emulation",
                               kiln_test_build());
  CHECK_PART(out, "skipped: KILN_AMD_EMULATOR and KILN_AMDRUN do not name");
  CHECK_PART(out, "0 passed, 0 failed, ");
  free(out);
}

static void expect(unsigned wrong, const char *text, const char *in_report, const char *blessed_text) {
  char *report, *blessed, *skipped;
  const unsigned got = run_text("t", text, &report, &blessed, &skipped);
  if (got != wrong || !strstr(report, in_report))
    FAIL("%s\nexpected %u mistakes and \"%s\", found %u:\n%s", text, wrong, in_report, got, report);
  CHECK_TEXT(blessed, blessed_text ? blessed_text : text);
  CHECK(!skipped);
  free(report);
  free(blessed);
}

TEST(commands_runner, what_is_right_passes) {
  expect(0, "# c\n$ echo a; echo b >&2\na\nb\n\n$ exit 3\n? 3\n", "", NULL);
  expect(0, "< f\n$ x\n\n  y\n<\n$ cat f\n\\$ x\n\n  y\n", "", NULL);
  expect(0, "$ echo one &&\n> echo two\none\ntwo\n", "", NULL);
  expect(0, "$ seq 5\n1\n...\n4\n...\n", "", NULL);
  expect(0, "$ echo took 12 ms of 7\ntook [..] ms of [..]\n", "", NULL);
  expect(0, "$ pwd | grep -cx \"$HOME\"; ls -A\n1\n", "", NULL);
}

TEST(commands_runner, what_is_wrong_fails) {
  expect(1, "$ echo a\nb\n",
         "t:1: $ echo a\nexpected:\n  b\nfound (> is the first line that was not expected):\n> a\n",
         "$ echo a\na\n");
  expect(1, "$ echo a\n", "> a", "$ echo a\na\n");
  expect(1, "$ true\na\n", "  a", "$ true\n");
  expect(1, "$ false\n", "expected exit status 0, found 1", "$ false\n? 1\n");
  expect(1, "$ true\n? 1\n", "expected exit status 1, found 0", "$ true\n");
  expect(1, "$ echo took 12 s\ntook [..] ms\n", "> took 12 s", "$ echo took 12 s\ntook 12 s\n");
  expect(1, "$ seq 3\n...\n2\n", "  3", "$ seq 3\n...\n2\n3\n");
  expect(1, "$ seq 3\n...\n4\n", "  3", "$ seq 3\n1\n2\n3\n");
  expect(1, "$ echo a\na\n\nloose\n", "  loose", "$ echo a\na\n");
  expect(2, "text\n", "t:1: expected \"$ command\"", NULL);
  expect(2, "$ false\n? one\n", "t:2: expected an exit status from 1 to 255, found \"one\"",
         "$ false\n? 1\n");
  expect(1, "$ true\n? 0\n", "found \"0\"", "$ true\n");
  expect(2, "$ false\n? 1 \n", "found \"1 \"", "$ false\n? 1\n");
  expect(2, "$ false\n? 257\n", "found \"257\"", "$ false\n? 1\n");
  expect(1, "# nothing\n", "expected a command", NULL);
  expect(2, "< f\n$ true\n", "expected a line \"<\"", NULL);
}

TEST(commands_runner, blessing_keeps_patterns) {
  expect(1, "$ seq 5; echo $$ x\n1\n...\n[..] x\nold\n", "[..] x", "$ seq 5; echo $$ x\n1\n...\n[..] x\n");
  expect(1, "$ seq 5\nold\n...\n", "old", "$ seq 5\n1\n...\n");
}

/// What comes before a need that is not met is checked, what comes after it is not run and stays as it is.
TEST(commands_runner, needs_that_are_not_met_skip) {
  static const struct {
    const char *text, *skipped;
    unsigned wrong;
  } rows[] = {
      {"@ true\n$ echo a\na\n", NULL, 0},
      {"@ echo met\n$ false\n? 2\n", NULL, 1},
      {"@ echo no disk; false\n$ echo a\nb\n? 7\n", "t:1: no disk", 0},
      {"@ test -e\n> test ! -e /\n\n$ echo a\nb\n", "t:1: @ test -e", 0},
      {"$ echo a\nb\n@ false\n$ echo a\nb\n", "t:3: @ false", 1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char *report, *blessed, *skipped;
    CHECK_INT(run_text("t", rows[i].text, &report, &blessed, &skipped), rows[i].wrong);
    CHECK_TEXT(skipped, rows[i].skipped);
    if (!rows[i].wrong) CHECK_TEXT(blessed, rows[i].text);
    free(report);
    free(blessed);
    free(skipped);
  }
}
