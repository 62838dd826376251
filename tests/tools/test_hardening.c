// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks what distributions expect of each installed file: position-independent programs, relocations that
// are read-only and bound at once, no memory that is both writable and executable, stack protector,
// fortified calls, marks of CET or BTI, and modes that do not depend on who installs.
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *shell(const char *format, const char *argument) {
  char *out, command[2000];
  snprintf(command, sizeof command, format, argument);
  if (kiln_test_run(&out, "%s", command)) FAIL("%s:\n%s", command, out);
  return out;
}

static bool has(const char *format, const char *argument) {
  char command[2000];
  snprintf(command, sizeof command, format, argument);
  return kiln_test_run(NULL, "%s", command) == 0;
}

static void install_with(const char *mask, const char *stage) {
  char *out;
  if (kiln_test_run(&out, "umask %s && " KILN_TEST_MAKE "DESTDIR=%s/%s PREFIX=/usr install", mask,
                    kiln_test_folder(), stage))
    FAIL("umask %s, make install:\n%s", mask, out);
  free(out);
}

static void need_release(void) {
  if (!has("case %s in *asan*|*tsan*|*debug*) exit 1;; esac", kiln_test_build()))
    SKIP("what is installed is a release build");
}

TEST(hardening, modes_do_not_depend_on_the_mask) {
  char *out;
  need_release();
  install_with("022", "a");
  install_with("077", "b");
  install_with("000", "c");
  free(shell("cd %s/b && find . -type f -exec chmod 600 {} +", kiln_test_folder()));
  install_with("077", "b"); // over files of somebody who was careful
  for (const char *other = "bc"; *other; other++) {
    int code = kiln_test_run(
        &out,
        "cd %s && list() { find $1 -mindepth 1 -printf '%%P %%y %%m\\n' | LC_ALL=C sort; } && "
        "list a > a.list && list %c > o.list && test $(wc -l < a.list) -gt 100 && diff a.list o.list",
        kiln_test_folder(), *other);
    if (code) FAIL("%s", out);
    free(out);
  }
  out = shell("cd %s/a && find . -type f ! -perm 644 ! -perm 755; find . -type d ! -perm 755",
              kiln_test_folder());
  CHECK_TEXT(out, "");
  free(out);
}

// "needed", or what the file lacks.
static void look_at(const char *file, bool is_program) {
  static const struct {
    const char *command, *what;
  } checks[] = {
      {"readelf -hW %s | grep -q 'Type:.*DYN'", "it is not position-independent"},
      {"readelf -lW %s | grep -q GNU_RELRO", "its relocations are not made read-only"},
      {"readelf -dW %s | grep -qE 'BIND_NOW|Flags:.*NOW'", "its symbols are bound at their first use"},
      {"readelf -lW %s | grep GNU_STACK | grep -q 'RW '", "its stack can be run"},
      {"! readelf -lW %s | grep LOAD | grep -qE 'RWE|WE '", "memory is written and run"},
      {"! readelf -dW %s | grep -qE 'TEXTREL|RPATH|RUNPATH'", "text relocations or a path of libraries"},
      {"{ nm -D %1$s; nm %1$s; } 2>/dev/null | grep -q '__stack_chk_fail'",
       "no function has a stack protector"},
      {"{ nm -D %1$s; nm %1$s; } 2>/dev/null | grep -qE '__[a-z]+_chk'", "no call is fortified"},
  };
  for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
    if (!has(checks[i].command, file)) FAIL("%s: %s", file, checks[i].what);
  if (is_program && !has("readelf -dW %s | grep -q 'Flags:.*PIE'", file)) FAIL("%s: not a PIE", file);
}

TEST(hardening, every_installed_file) {
  char *files, *rest = NULL;
  unsigned programs = 0, libraries = 0;
  need_release();
  install_with("022", "a");
  files = shell("cd %s && for f in $(find $PWD/a -type f); do if [ \"$(head -c 4 $f | od -An -tx1)\" = ' 7f "
                "45 4c 46' ]; "
                "then echo $f; fi; done",
                kiln_test_folder());
  for (char *file = strtok_r(files, "\n", &rest); file; file = strtok_r(NULL, "\n", &rest)) {
    bool is_library = strstr(file, ".so") != NULL;
    look_at(file, !is_library);
    *(is_library ? &libraries : &programs) += 1;
  }
  CHECK_INT(programs, 4);
  CHECK(libraries >= 2); // and the Python extension where Python's headers are
  free(files);
}

// A linked file has the mark only where all that is linked has it: the distribution's startup files and
// static libraries too. What is ours has it.
TEST(hardening, objects_are_marked_for_branches) {
  char *out;
  need_release();
  static const char *const archives[] = {"libkiln.a", "libkiln-observe.a", "libkiln-verify.a", "libbase.a",
                                         "libcache.a"};
  const char *mark = has("test $(uname -m) = %s", "x86_64") ? "IBT, SHSTK" : "BTI";
  if (!has("echo | gcc -fcf-protection -E -%s || echo | gcc -mbranch-protection=standard -E -", ""))
    SKIP("the compiler knows neither CET nor BTI");
  for (size_t i = 0; i < sizeof archives / sizeof *archives; i++) {
    char path[300];
    snprintf(path, sizeof path, "%s/lib/%s", kiln_test_build(), archives[i]);
    int code = kiln_test_run(
        &out, "test $(ar t %s | wc -l) -gt 0 && test $(ar t %s | wc -l) = $(readelf -nW %s | grep -c '%s')",
        path, path, path, mark);
    if (code) FAIL("%s: not every object has the mark %s", path, mark);
    free(out);
  }
  if (has("readelf -nW $(gcc -print-file-name=crti.o) | grep -q '%s'", mark) &&
      !has("readelf -nW %s/lib/libkiln-verify.so.0 | grep -qE 'IBT|BTI'", kiln_test_build()))
    FAIL("libkiln-verify.so.0 lost the mark %s", mark);
}

// What no tool sees in a file: by the words that the objects were compiled with.
TEST(hardening, flags_of_the_build) {
  need_release();
  static const char *const flags[] = {"-fstack-protector-strong", "-fstack-clash-protection",
                                      "-D_FORTIFY_SOURCE=[23]"};
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    char *out;
    if (kiln_test_run(&out, "grep -q -e '%s' %s/flags", flags[i], kiln_test_build()))
      FAIL("%s is not among the flags of the build", flags[i]);
    free(out);
  }
}
