// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that tools/same-code.py reports a difference planted at each stage, alone and with the line that
// differs, and otherwise that everything is the same. The compilers with a difference are scripts around
// the one of this build.
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char scale[] = "kiln 1\n\n"
                            "kernel scale[T: type = f32, BLOCK: tune = 256](x: in *T, z: out *T, n: i32)\n"
                            "  @instance(T = f32) @instance(T = f16)\n"
                            "  @grid(cdiv(n, BLOCK))\n"
                            "  @config(BLOCK = 256, warps = 4)\n"
                            "{\n"
                            "  let i = pid(0) * BLOCK + iota(BLOCK)\n"
                            "  store(z + i, load(x + i, i < n) * (3.0 as T), i < n)\n"
                            "}\n";

static const char *tree, *real;

/// A tree with one source of two kernels, a folder of recorded texts with one, and a compiler that is the
/// real one.
static void set_up(void) {
  char path[400], *out;
  tree = kiln_test_folder();
  real = realpath(kiln_test_build(), NULL);
  if (kiln_test_run(&out,
                    "cd %s && mkdir -p kernels bin cases/case-a && cp $OLDPWD/tests/ttir/add.ttir "
                    "cases/case-a/kernel.ttir && "
                    "echo '{\"num_warps\": 4, \"num_stages\": 3}' >cases/case-a/case.json && cd cases && "
                    "tar -cJf cases.tar.xz case-a && tar -cJf cases-2.tar.xz -T /dev/null && rm -r case-a",
                    tree))
    FAIL("%s", out);
  free(out);
  snprintf(path, sizeof path, "%s/kernels/scale.kiln", tree);
  kiln_test_write(path, scale, strlen(scale));
}

/// Makes the script that stands for the compiler: `change` is applied to the output of commands whose words
/// match `when`, a pattern of the shell.
static void set_compiler(const char *when, const char *change) {
  char path[400], text[1000];
  snprintf(path, sizeof path, "%s/bin/kiln", tree);
  snprintf(text, sizeof text,
           "#!/bin/sh\ncase \"$*\" in\n%s) %s/bin/kiln \"$@\" | %s;;\n*) exec %s/bin/kiln \"$@\";;\nesac\n",
           when, real, change, real);
  kiln_test_write(path, text, strlen(text));
  CHECK(!chmod(path, 0755));
}

/// Output of the tool, which must end with that exit code.
static char *run_tool(int code, const char *words) {
  char *out;
  int got = kiln_test_run(
      &out, "tools/same-code.py --tree=%s --build=%s --cases=%s/cases --targets=sm_90a,gfx942,aarch64 %s",
      tree, tree, tree, words);
  if (got != code) FAIL("%s: exit code %d, expected %d:\n%s", words, got, code, out);
  return out;
}

/// The last line says that all is compared, none missing, and that `differ` differ.
static void expect_sums(const char *out, unsigned long differ, unsigned long missing) {
  unsigned long compared = 0, found = 0, absent = 0;
  const char *line = out + strlen(out);
  while (line > out && (line[0] == 0 || line[-1] != '\n' || line[1] == 0)) line--;
  if (sscanf(line, "%lu compared, %lu differ, %lu missing", &compared, &found, &absent) != 3)
    FAIL("no line of sums:\n%s", out);
  if (found != differ || absent != missing || compared < 20)
    FAIL("expected %lu differ, %lu missing:\n%s", differ, missing, out);
}

// Two sources, three kernels, three processors: 2 texts, 9 keys, 9 canonical forms, 9 codes.
TEST(same_code, the_same_compiler_makes_the_same) {
  set_up();
  set_compiler("none", "cat");
  free(run_tool(0, "save"));
  char *out = run_tool(0, "compare");
  CHECK_PART(out, "29 compared, 0 differ, 0 missing");
  free(out);
}

TEST(same_code, a_difference_in_code_is_found) {
  set_up();
  set_compiler("none", "cat");
  free(run_tool(0, "save"));
  set_compiler("'compile '*sm_90a*'scale[T=f32]'*", "sed 's/^\\.version .*/.version planted/'");
  char *out = run_tool(1, "compare");
  CHECK_PART(out, "differs: kernels/scale.kiln scale[T=f32] BLOCK=256,warps=4 sm_90a: ptx");
  CHECK_PART(out, "+.version planted");
  expect_sums(out, 1, 0);
  free(out);
}

TEST(same_code, a_difference_in_an_object_is_found) {
  set_up();
  set_compiler("none", "cat");
  free(run_tool(0, "save"));
  set_compiler("'compile '*aarch64*'scale[T=f16]'*", "sed 's/kiln_scale/kiln_other/'");
  char *out = run_tool(1, "compare");
  CHECK_PART(out, "differs: kernels/scale.kiln scale[T=f16] BLOCK=256,warps=4 aarch64: object");
  CHECK_PART(out, "+");
  free(out);
}

TEST(same_code, a_difference_in_a_recorded_text_is_found) {
  set_up();
  set_compiler("none", "cat");
  free(run_tool(0, "save"));
  set_compiler("'cache extract'*", "sed 's/^\\.version .*/.version planted/'");
  char *out = run_tool(1, "compare");
  CHECK_PART(out, "case-a.ttir");
  CHECK_PART(out, "+.version planted");
  expect_sums(out, 1, 0);
  free(out);
}

TEST(same_code, every_field_of_a_key_counts_but_the_compiler) {
  set_up();
  set_compiler("none", "cat");
  free(run_tool(0, "save"));
  set_compiler("'key '*sm_90a*", "sed 's/\"option optimise\": \"\\\\\"2/\"option optimise\": \"\\\\\"7/'");
  char *out = run_tool(1, "compare");
  CHECK_PART(out, "scale[T=f16] BLOCK=256,warps=4 sm_90a: key");
  CHECK_PART(out, "+option optimise: \"7\"");
  expect_sums(out, 3, 0);
  free(out);
  set_compiler("'key '*sm_90a*", "sed 's/\"compiler\": \"[0-9a-f]*/\"compiler\": \"0/'");
  out = run_tool(0, "compare");
  expect_sums(out, 0, 0);
  free(out);
  set_compiler("'key '*sm_90a*", "sed 's/digest [0-9a-f]*/digest 0/'");
  out = run_tool(1, "compare");
  CHECK_PART(out, "scale[T=f16] BLOCK=256,warps=4 sm_90a: canonical");
  free(out);
}

TEST(same_code, a_changed_source_and_an_absent_kernel_are_told) {
  char command[600];
  set_up();
  set_compiler("none", "cat");
  free(run_tool(0, "save"));
  snprintf(command, sizeof command, "sed -i 's/3.0 as T/5.0 as T/' %s/kernels/scale.kiln", tree);
  CHECK(!kiln_test_run(NULL, "%s", command));
  char *out = run_tool(1, "compare");
  CHECK_PART(out, "differs: kernels/scale.kiln: source\n");
  CHECK_PART(out, "scale[T=f32] BLOCK=256,warps=4 gfx942: canonical (its source differs)");
  CHECK_PART(out, "scale[T=f32] BLOCK=256,warps=4 gfx942: hsaco (its source differs)");
  expect_sums(out, 13, 0); // the text; of two kernels for three processors canonical form and code
  free(out);
  snprintf(command, sizeof command,
           "sed -i 's/5.0 as T/3.0 as T/; s/ @instance(T = f16)//' %s/kernels/scale.kiln", tree);
  CHECK(!kiln_test_run(NULL, "%s", command));
  out = run_tool(1, "compare");
  CHECK_PART(out, "only before: kernels/scale.kiln scale[T=f16] BLOCK=256,warps=4 sm_90a: ptx");
  expect_sums(out, 1, 9);
  free(out);
  CHECK(!kiln_test_run(NULL, "rm %s/kernels/scale.kiln", tree));
  out = run_tool(1, "compare");
  CHECK_PART(out, "only before: kernels/scale.kiln (19 items)\n");
  CHECK_PART(out, "10 compared, 0 differ, 19 missing\n");
  free(out);
}

TEST(same_code, absent_texts_and_sets_are_told) {
  set_up();
  set_compiler("none", "cat");
  char *out = run_tool(2, "compare");
  CHECK_PART(out, "no set is saved");
  free(out);
  CHECK(!kiln_test_run(NULL, "rm %s/cases/cases.tar.xz", tree));
  out = run_tool(0, "save");
  CHECK_PART(out, "is not there: no recorded text is compared");
  free(out);
}

TEST(same_code, a_commit_is_built_once) {
  char *out;
  set_up();
  set_compiler("none", "cat");
  // Its Makefile makes the same script, and counts.
  if (kiln_test_run(
          &out,
          "cd %s && printf 'build/release/bin/%%%%:\\n\\techo built >>%s/log\\n\\tmkdir -p $(@D)\\n\\tcp "
          "%s/bin/kiln $@\\n' >Makefile && "
          "git init -q . && git add Makefile kernels && git -c user.name=a -c user.email=a@b commit -qm one",
          tree, tree, tree))
    FAIL("%s", out);
  free(out);
  out = run_tool(0, "compare --base=HEAD");
  expect_sums(out, 0, 0);
  free(out);
  set_compiler("'compile '*sm_90a*'scale[T=f32]'*", "sed 's/^\\.version .*/.version planted/'");
  out = run_tool(1, "compare --base=HEAD");
  CHECK_PART(out, "+.version planted");
  free(out);
  CHECK(!kiln_test_run(&out, "cd %s && git worktree list | wc -l && wc -l <log", tree));
  CHECK_TEXT(out, "1\n3\n"); // no work tree is left; three programs were built, once
  free(out);
  out = run_tool(2, "compare --base=nonesuch");
  CHECK_PART(out, "same-code: error: git rev-parse");
  free(out);
}
