// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that the tables of docs/behaviours.md and docs/checked.md name existing tests for each fault.
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness.h"

static char *c_tests; ///< the text of all of them

static void read_tests(void) {
  glob_t found;
  size_t size = 0;
  CHECK_INT(glob("tests/*/test_*.c", 0, NULL, &found), 0);
  for (size_t i = 0; i < found.gl_pathc; i++) {
    size_t length;
    char *text = kiln_test_read(found.gl_pathv[i], &length);
    CHECK(text && (c_tests = realloc(c_tests, size + length + 1)));
    memcpy(c_tests + size, text, length + 1);
    size += length;
    free(text);
  }
  globfree(&found);
}

static bool is_there(const char *suite, const char *name) {
  char want[300];
  snprintf(want, sizeof want, "TEST(%s, %s)", suite, name);
  if (strstr(c_tests, want)) return true;
  snprintf(want, sizeof want, "tests/text/commands/%s.test", name);
  if (!strcmp(suite, "commands") && access(want, R_OK) == 0) return true;
  snprintf(want, sizeof want, "tests/python/%s.py", suite);
  char *text = kiln_test_read(want, NULL);
  snprintf(want, sizeof want, "def %s(", name);
  bool found = text && strstr(text, want);
  free(text);
  return found;
}

/// Checks what stands between backquotes as `suite.name` in the last cell of a row; how many there are.
static unsigned check_row(const char *page, char *row) {
  char suite[100], name[150];
  unsigned count = 0;
  char *bar = strrchr(row, '|');
  *bar = 0;
  CHECK(strrchr(row, '|'));
  for (char *at = strchr(strrchr(row, '|'), '`'), *end; at && (end = strchr(at + 1, '`'));
       at = strchr(end + 1, '`')) {
    int taken = 0;
    *end = 0;
    if (sscanf(at + 1, "%99[a-z0-9_].%149[a-z0-9_]%n", suite, name, &taken) != 2 || at[1 + taken]) continue;
    if (!is_there(suite, name)) FAIL("%s: no test is called %s.%s", page, suite, name);
    count++;
  }
  return count;
}

/// The tables of a page from a heading on, up to the next one of its level.
static void check_page(const char *page, const char *heading, unsigned least_rows, unsigned least_names) {
  char *text = kiln_test_read(page, NULL), *saved;
  char *row = text ? strstr(text, heading) : NULL;
  unsigned rows = 0, names = 0;
  if (!row) FAIL("%s has no heading '%s'", page, heading + 1);
  char *next = strstr(row + 1, "\n## ");
  if (next) *next = 0;
  for (row = strtok_r(row, "\n", &saved); row; row = strtok_r(NULL, "\n", &saved)) {
    if (strncmp(row, "| ", 2) || !strchr(row, '`')) continue;
    char start[60];
    snprintf(start, sizeof start, "%s", row);
    unsigned count = check_row(page, row);
    if (!count) FAIL("%s: no test in the row '%s'", page, start);
    rows++, names += count;
  }
  if (rows < least_rows || names < least_names) FAIL("%s: %u rows with %u tests", page, rows, names);
  free(text);
}

TEST(faults, tests_that_the_tables_name_are_there) {
  read_tests();
  check_page("docs/behaviours.md", "\n## Faults that were found", 60, 120);
  check_page("docs/checked.md", "\n## Faults of this round", 40, 80);
  CHECK(!is_there("faults", "no_such_test") && !is_there("test_kiln", "test_nothing"));
  free(c_tests);
}
