// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that the tables of docs/behaviours.md name existing tests for each fault.
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
static unsigned check_row(char *row) {
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
    if (!is_there(suite, name)) FAIL("docs/behaviours.md: no test is called %s.%s", suite, name);
    count++;
  }
  return count;
}

TEST(faults, tests_that_the_tables_name_are_there) {
  char *page = kiln_test_read("docs/behaviours.md", NULL);
  char *row = page ? strstr(page, "\n## Faults that were found") : NULL, *saved;
  unsigned rows = 0, names = 0;
  CHECK(row);
  read_tests();
  for (row = strtok_r(row, "\n", &saved); row; row = strtok_r(NULL, "\n", &saved)) {
    if (strncmp(row, "| ", 2) || !strchr(row, '`')) continue;
    char start[60];
    snprintf(start, sizeof start, "%s", row);
    unsigned count = check_row(row);
    if (!count) FAIL("docs/behaviours.md: no test in the row '%s'", start);
    rows++, names += count;
  }
  if (rows < 60 || names < 120) FAIL("%u rows with %u tests", rows, names);
  CHECK(!is_there("faults", "no_such_test") && !is_there("test_kiln", "test_nothing"));
  free(page);
  free(c_tests);
}
