// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that the same sources give the same bundle, byte for byte, wherever and however they are built.
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct surroundings {
  const char *what, *folder, *environment, *options;
  bool reversed; ///< sources in the opposite order
} surroundings;

static const surroundings all[] = {
    {"one worker", "a", "LC_ALL=C TZ=UTC", "-j1", false},
    {"two workers", "a", "LC_ALL=C TZ=UTC", "-j2", false},
    {"another folder", "b/a much longer name", "LC_ALL=C TZ=UTC", "-j2", false},
    {"another order of sources", "a", "LC_ALL=C TZ=UTC", "-j2", true},
    {"another locale and time zone", "b/a much longer name",
     "LC_ALL=de_DE.UTF-8 LANG=tr_TR TZ=Asia/Tokyo HOME=/nonexistent", "-j1", true},
    {"a C library that is told of a lesser processor", "a",
     "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-FMA4,-AVX2_Usable,-FMA_Usable:glibc.malloc."
     "perturb=165",
     "-j2", false},
};

/// Two that share nothing.
static const surroundings two[] = {
    {"two workers", "a", "LC_ALL=C TZ=UTC", "-j2", false},
    {"another folder, order, locale and processor", "b/a much longer name",
     "LC_ALL=de_DE.UTF-8 LANG=tr_TR TZ=Asia/Tokyo HOME=/nonexistent "
     "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-FMA4,-AVX2_Usable,-FMA_Usable",
     "-j1", true}};

static const char *sources(bool reversed, bool few) {
  if (!few) return reversed ? "$(ls *.kiln | LC_ALL=C sort -r)" : "$(ls *.kiln | LC_ALL=C sort)";
  return reversed ? "transpose.kiln search.kiln" : "search.kiln transpose.kiln";
}

static const char *targets(void) {
  static const char *const rows[] = {"host",    "x86-64-v2", "aarch64",        "sm_80",
                                     "sm_90a",  "gfx90a",    "gfx942",         "gfx942:xnack+",
                                     "gfx1030", "gfx1100",   "gfx1100:wave64", "gfx1201"};
  static char text[200];
  if (!kiln_test_full()) return "host,sm_90a,gfx942,gfx1100";
  *text = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (kiln_test_wants_row(rows[i])) strcat(strcat(text, *text ? "," : ""), rows[i]);
  return text;
}

static void make_folders(void) {
  const char *folder = kiln_test_folder();
  char *out;
  if (kiln_test_run(&out,
                    "mkdir -p '%s/a' '%s/b/a much longer name' && cp kernels/*.kiln '%s/a' && cp "
                    "kernels/*.kiln '%s/b/a much longer name'",
                    folder, folder, folder, folder))
    FAIL("%s", out);
  free(out);
}

/// One bundle in each of `count` surroundings; all must be the first, byte for byte. A piece of the test has
/// the first and some of the others.
static void build_everywhere(const surroundings *list, size_t count, const char *targets_text, bool few) {
  const char *folder = kiln_test_folder();
  char *out;
  for (size_t i = 0; i < count; i++) {
    const surroundings *s = &list[i];
    if (i && !kiln_test_wants_piece(i)) continue;
    if (kiln_test_run(&out,
                      "kiln=$(realpath %s/bin/kiln) && cd '%s/%s' && env %s \"$kiln\" build %s -t %s %s "
                      "--no-cache --max-objects=1000000 --ptx-assembler=none -q -o '%s/%zu.kbundle'",
                      kiln_test_build(), folder, s->folder, s->environment, sources(s->reversed, few),
                      targets_text, s->options, folder, i))
      FAIL("%s: the build failed:\n%s", s->what, out);
    free(out);
    if (kiln_test_run(&out, "test -s %s/%zu.kbundle && cmp %s/0.kbundle %s/%zu.kbundle", folder, i, folder,
                      folder, i))
      FAIL("%s: the bundle differs from the first:\n%s", s->what, out);
    free(out);
  }
}

TEST(determinism, bundles_do_not_depend_on_surroundings) {
  make_folders();
  build_everywhere(all, sizeof all / sizeof *all, targets(), true);
}

TEST(determinism, the_library) {
  if (!kiln_test_full()) SKIP("`make check-full` has it");
  make_folders();
  build_everywhere(two, 2, targets(), false);
}

// Every row of the table, and the modes of some.
TEST(determinism, every_processor) {
  static const char modes[] = "gfx906:xnack+:sramecc-,gfx90a:xnack-:sramecc+,gfx942:sramecc-:xnack-,gfx1201:"
                              "wave64,gfx11-generic:wave64,gfx90a:v4,gfx942:v6";
  if (!kiln_test_full()) SKIP("`make check-full` has it");
  char *rows, list[2000];
  make_folders();
  if (kiln_test_run(&rows, "%s/bin/kiln targets | awk '$1 != \"native\" { printf \"%%s,\", $1 }'",
                    kiln_test_build()))
    FAIL("%s", rows);
  snprintf(list, sizeof list, "%s%s", rows, modes);
  printf("%s\n", list);
  build_everywhere(two, 2, list, true);
  free(rows);
}

// Results from the cache are the results of compiling.
TEST(determinism, a_bundle_from_the_cache_is_the_same) {
  const char *folder = kiln_test_folder(), *build = kiln_test_build();
  static const char *const options[] = {"--no-cache", "", "--must-hit"};
  char *out;
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    if (kiln_test_run(&out,
                      "KILN_CACHE_DIR=%s/cache %s/bin/kiln build kernels/search.kiln -t %s "
                      "--ptx-assembler=none -q %s -o %s/%zu.kbundle",
                      folder, build, targets(), options[i], folder, i))
      FAIL("with '%s' the build failed:\n%s", options[i], out);
    if (kiln_test_run(&out, "cmp %s/0.kbundle %s/%zu.kbundle", folder, folder, i))
      FAIL("with '%s':\n%s", options[i], out);
  }
}
