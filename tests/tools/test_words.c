// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests what the tools say about a typing error: the name that was probably meant, what was expected and
// found, and an exit code that distinguishes a fault of Kiln from one of the kernel.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/harness.h"

static void check(int want, const char *arguments, const char *part) {
  char *out;
  int code = kiln_test_run(&out, "%s/bin/kiln %s", kiln_test_build(), arguments);
  if (code != want) FAIL("kiln %s: exit status %d, expected %d:\n%s", arguments, code, want, out);
  if (!strstr(out, part)) FAIL("kiln %s: expected '%s' in\n%s", arguments, part, out);
  free(out);
}

TEST(words, names_that_were_probably_meant) {
  check(2, "biuld kernels", "'biuld' is not a command; did you mean 'build'?");
  check(2, "buildd", "did you mean 'build'?");
  check(2, "inspcet x", "did you mean 'inspect'?");
  check(2, "qqqqqqqq", "commands: build compile");
  check(2, "build --traget=host x.kiln", "unknown option --traget; did you mean --target?");
  check(2, "build --optimize=2 x.kiln", "did you mean --optimise?");
  check(2, "inspect --jsno x", "did you mean --json?");
  check(2, "cache statss", "'cache statss' is no command; did you mean 'stats'?");
  check(2, "compile --emit=asmm x.kiln", "found 'asmm'; did you mean 'asm'?");
  check(2, "compile --emit=zzzzz x.kiln",
        "--emit: expected auto,ptx,cubin,hsaco,host,ir,llvm,asm, found 'zzzzz'\n");
  check(0, "explain-error E0012 e13 KILN-E0003 10", "KILN-E0012");
  check(2, "explain-error E9999", "'E9999' is not an error code");
  check(2, "build --qqqqqqqq x.kiln", "unknown option --qqqqqqqq (--help lists them)");
  check(1, "compile tests/ttir/add.ttir --no-cache -t sm90a",
        "no target is called 'sm90a'; did you mean 'sm_90a'?");
  check(1, "compile tests/ttir/add.ttir --no-cache -t hots", "did you mean 'host'?");
  check(1, "compile tests/ttir/add.ttir --no-cache -t qqqqqqqqq", "there are host, ");
  check(1, "compile tests/ttir/add.ttir --no-cache -k add_kernl",
        "no kernel is called 'add_kernl'; did you mean 'add_kernel'?");
  check(1, "build tests/ttir/add.ttir --no-cache -k add_kernel -k zzz -o /dev/null",
        "no kernel is called 'zzz'; there are add_kernel");
}

TEST(words, numbers) {
  check(2, "compile tests/ttir/add.ttir --no-cache --optimise 9",
        "--optimise: expected a number from 0 to 3, found '9'");
  check(2, "compile tests/ttir/add.ttir --no-cache --optimise=",
        "--optimise: expected a number from 0 to 3, found ''");
  check(2, "compile tests/ttir/add.ttir --no-cache --optimise", "--optimise needs a value");
  check(0, "compile tests/ttir/add.ttir --no-cache --optimise 1", "");
  check(2, "build tests/ttir/add.ttir -j -1", "--jobs: expected a number of at least 1, found '-1'");
  check(2, "build tests/ttir/add.ttir -j 0", "--jobs: expected a number of at least 1, found '0'");
  check(2, "build tests/ttir/add.ttir --warps=-4", "--warps: expected a number from 1 to 64, found '-4'");
  check(2, "compile tests/ttir/add.ttir --config=-1",
        "--config: expected a number of at least 0, found '-1'");
  check(2, "build tests/ttir/add.ttir -j 99999999999999999999", "found '99999999999999999999'");
  check(2, "build tests/ttir/add.ttir --warps=4294967297", "--warps: expected a number from 1 to 64");
  check(2, "build tests/ttir/add.ttir --stages=99", "--stages: expected a number from 1 to 8, found '99'");
  check(2, "translate tests/ttir/add.ttir --stages=9", "--stages: expected a number from 1 to 8");
  check(2, "build tests/ttir/add.ttir --level 20", "--level: expected a number from 1 to 19, found '20'");
  check(2, "build tests/ttir/add.ttir --max-size=1M", "--max-size: expected a number of at least 1");
  check(2, "build tests/ttir/add.ttir --verify-cache=some",
        "--verify-cache: expected a number from 0 to 100");
}

// A code generator that dies is a fault of Kiln; killed from outside it is not.
TEST(words, faults_of_kiln_have_their_own_exit_code) {
  const char *folder = kiln_test_folder(), *build = kiln_test_build();
  char path[4096], *out, *where = realpath(build, NULL);
  CHECK(where != NULL);
  if (kiln_test_run(&out, "cp %s/bin/kiln %s/kiln", where, folder)) FAIL("%s", out);
  free(out);
  static const struct {
    const char *worker;
    int code;
    const char *text;
  } rows[] = {{"#!/bin/sh\nkill -SEGV $$\n", 3, "died of signal 11"},
              {"#!/bin/sh\nkill -ABRT $$\n", 3, "died of signal 6"},
              {"#!/bin/sh\nkill -KILL $$\n", 1, "died of signal 9"}};
  snprintf(path, sizeof path, "%s/kiln-codegen", folder);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    kiln_test_write(path, rows[i].worker, strlen(rows[i].worker));
    CHECK_INT(chmod(path, 0755), 0);
    int code = kiln_test_run(&out, "%s/kiln compile tests/ttir/add.ttir -t host --no-cache", folder);
    if (code != rows[i].code || !strstr(out, rows[i].text))
      FAIL("exit status %d, expected %d with '%s':\n%s", code, rows[i].code, rows[i].text, out);
    free(out);
  }
  free(where);
}

// On a terminal a long compile is shown while it runs, with its age; elsewhere nothing is drawn.
TEST(words, progress_on_a_terminal) {
  const char *folder = kiln_test_folder();
  char path[4096], *out, *where = realpath(kiln_test_build(), NULL);
  static const char worker[] = "#!/bin/sh\nsleep 1.3\nkill -KILL $$\n";
  CHECK(where != NULL);
  if (kiln_test_run(&out, "command -v script")) SKIP("script, which makes a terminal, is not installed");
  free(out);
  if (kiln_test_run(&out, "cp %s/bin/kiln %s/kiln", where, folder)) FAIL("%s", out);
  free(out);
  snprintf(path, sizeof path, "%s/kiln-codegen", folder);
  kiln_test_write(path, worker, strlen(worker));
  CHECK_INT(chmod(path, 0755), 0);
  kiln_test_run(&out, "script -qec '%s/kiln compile tests/ttir/add.ttir -t host --no-cache' /dev/null",
                folder);
  if (!strstr(out, "[0/1] add_kernel") || !strstr(out, "(1 s)")) FAIL("no progress in\n%s", out);
  free(out);
  kiln_test_run(&out, "%s/kiln compile tests/ttir/add.ttir -t host --no-cache", folder);
  CHECK(!strstr(out, "[0/1]"));
  free(out);
  free(where);
}

// Advice says what to do; the message is above it anyway.
TEST(words, advice_advises) {
  char *out;
  if (kiln_test_run(&out, "%s/bin/kiln explain-error", kiln_test_build())) FAIL("%s", out);
  static const char *const empty[] = {"\nthe message ", "\nsee ", "\nthe report ", "\ncheck the "};
  for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
    if (strstr(out, empty[i])) FAIL("found%s in\n%s", empty[i], out);
  CHECK(strstr(out, "`kiln targets` lists") != NULL);
  free(out);
}

// A reader that has seen enough is no failure of the disassembler.
TEST(words, disassembly_into_head) {
  const char *build = kiln_test_build(), *folder = kiln_test_folder();
  char *out;
  if (kiln_test_run(
          &out,
          "%s/bin/kiln build tests/ttir/matmul.ttir -t x86-64-v2,x86-64-v3 --no-cache -q -o %s/d.kbundle",
          build, folder))
    FAIL("%s", out);
  free(out);
  kiln_test_run(&out,
                "bash -c 'set -o pipefail; %s/bin/kiln disasm %s/d.kbundle matmul 2>&1 | head -n 1; "
                "echo ${PIPESTATUS[0]}'",
                build, folder);
  if (strstr(out, "error") || (!strstr(out, "\n0\n") && !strstr(out, "\n141\n"))) FAIL("%s", out);
  free(out);
}

// What `--exact` advises is taken when it is done.
TEST(words, advice_of_exact_holds) {
  const char *build = kiln_test_build(), *folder = kiln_test_folder();
  char *out, target[64];
  static const char run[] = "%s/bin/kiln run --exact %s/e.kbundle add_kernel -a x=zeros:16 -a y=zeros:16 -a "
                            "out=zeros:16 -a n=16 --grid 1";
  if (kiln_test_run(&out, "%s/bin/kiln build tests/ttir/add.ttir -t x86-64-v2 --no-cache -q -o %s/e.kbundle",
                    build, folder))
    FAIL("%s", out);
  free(out);
  if (!kiln_test_run(&out, run, build, folder)) SKIP("this processor is of the first level");
  const char *at = strstr(out, "--target ");
  if (!at || sscanf(at, "--target %63[^` ]", target) != 1) FAIL("no advice in\n%s", out);
  free(out);
  if (kiln_test_run(&out, "%s/bin/kiln build tests/ttir/add.ttir -t %s --no-cache -q -o %s/e.kbundle", build,
                    target, folder))
    FAIL("%s", out);
  free(out);
  if (kiln_test_run(&out, run, build, folder)) FAIL("built with --target %s:\n%s", target, out);
  free(out);
}
