// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that what an earlier Kiln made keeps working: a bundle, a table of choices, a cache folder, and an
// application that was linked against its libkiln (tests/golden/before/README.md).
#include <stdio.h>
#include <stdlib.h>

#include "tests/harness.h"

#define BEFORE "tests/golden/before"
#define DEVICES "host null:x86-64-v2 null:sm_90 null:gfx942 cuda:7"

/// The application prints and records with a bundle what it did then.
static void run_application(const char *bundle) {
  if (KILN_TEST_SANITIZED) SKIP("the application was linked without a sanitizer");
  if (kiln_test_run(NULL, "uname -m | grep -qx x86_64")) SKIP("the application is a program of x86-64");
  free(kiln_test_run_to(0,
                        "LD_LIBRARY_PATH=%s/lib " BEFORE "/app %s %s/shapes " DEVICES
                        " >%s/out && diff " BEFORE "/app.txt %s/out && diff " BEFORE "/app.shapes %s/shapes",
                        kiln_test_build(), bundle, kiln_test_folder(), kiln_test_folder(), kiln_test_folder(),
                        kiln_test_folder()));
}

static char *tool(int want, const char *words) {
  return kiln_test_run_to(want, "KILN_CACHE_DIR=%s/cache %s/bin/kiln %s", kiln_test_folder(),
                          kiln_test_build(), words);
}

static void expect(const char *words, const char *part) {
  char *out = tool(0, words);
  CHECK_PART(out, part);
  free(out);
}

TEST(older, an_application_runs_with_its_bundle) { run_application(BEFORE "/app.kbundle"); }

TEST(older, a_bundle_is_read_by_every_command) {
  char words[800];
  const char *const folder = kiln_test_folder();
  expect("verify " BEFORE "/app.kbundle", "");
  expect("inspect " BEFORE "/app.kbundle", "twice");
  expect("explain " BEFORE "/app.kbundle scale -d null:gfx942", "gfx942: fits (exact)");
  expect("run " BEFORE "/app.kbundle scale -d host -a x=iota:1024 -a y=zeros:1024 -a n=1024 -a a=3 -p y",
         "y = 0 3 6");
  snprintf(words, sizeof words, "prune " BEFORE "/app.kbundle --drop-target gfx942 -o %s/pruned.kbundle",
           folder);
  free(tool(0, words));
  snprintf(words, sizeof words,
           "run %s/pruned.kbundle scale -d host -a x=iota:64 -a y=zeros:64 -a n=64 -a a=2 -p y", folder);
  expect(words, "y = 0 2 4");
}

TEST(older, a_table_chooses_in_a_new_bundle) {
  char words[800];
  snprintf(words, sizeof words,
           "build -q " BEFORE "/app.kiln --tuned " BEFORE
           "/app.table -t x86-64-v2,sm_90a,gfx942 -o %s/app.kbundle",
           kiln_test_folder());
  free(tool(0, words));
  snprintf(words, sizeof words, "%s/app.kbundle", kiln_test_folder());
  run_application(words);
}

/// Its entries are read and stay; builds of today are beside them.
TEST(older, a_cache_folder_is_used_on) {
  char words[800];
  const char *const folder = kiln_test_folder();
  free(kiln_test_run_to(0, "mkdir %s/cache && tar -C %s/cache -xzf " BEFORE "/cache.tar.gz", folder, folder));
  expect("cache verify", "6 entries are good, 0 are not");
  expect("cache ls", "scale BLOCK=64,warps=2  x86_64-unknown-linux-gnu x86-64-v2 host");
  expect("cache show 608e2bf8ea0ba7a5", "scale");
  snprintf(words, sizeof words, "build " BEFORE "/app.kiln --no-tuned -t x86-64-v2 -o %s/app.kbundle",
           folder);
  expect(words, "4 objects, 0 from the cache, 4 compiled");
  expect(words, "4 objects, 4 from the cache, 0 compiled");
  expect("cache verify", "11 entries are good, 0 are not");
  free(kiln_test_run_to(
      0, "tar -C %s/cache --compare -zf " BEFORE "/cache.tar.gz --wildcards '*/entries/*/*'", folder));
}
