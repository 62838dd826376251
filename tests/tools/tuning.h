// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the tests of `kiln tune` share: files of a test's folder, runs of the program, small kernels.
#ifndef KILN_TESTS_TOOLS_TUNING_H
#define KILN_TESTS_TOOLS_TUNING_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "tests/harness.h"

#define HEAD "kiln tuned 1\n"
#define ENTRY(kernel, n, config) \
  "kernel=" kernel " types=\"*f32, *f32, i32\" product=* processor=* units=0 bin.n=" n " config=" config

// Runs `kiln WORDS` with a cache of the test's own; malloc'ed output.
// Not inline: gcc 12 takes what it returns for the address of its variable.
__attribute__((noinline, unused)) static char *kiln(int want, const char *words) {
  char *out;
  int code = kiln_test_run(&out, "KILN_CACHE_DIR=%s/cache %s/bin/kiln %s", kiln_test_folder(),
                           kiln_test_build(), words);
  if (code != want) FAIL("kiln %s: exit status is %d, expected %d:\n%s", words, code, want, out);
  return out;
}

static inline char *tune(int want, const char *options, const char *kernel, const char *shapes) {
  char words[1500];
  kiln_test_put("k.kiln", kernel);
  kiln_test_put("shapes", shapes);
  snprintf(words, sizeof words, "tune --budget 0.2 -o %s --shapes %s %s %s", kiln_test_path("t.table"),
           kiln_test_path("shapes"), options, kiln_test_path("k.kiln"));
  return kiln(want, words);
}

static inline char *table(void) {
  char *text = kiln_test_read(kiln_test_path("t.table"), NULL);
  CHECK(text);
  return text;
}

// The configs' code is `body` with the names n, x, y, i, live.
#define KERNEL(parameters, configs, body)                                                             \
  "kiln 1\n\nkernel k[BLOCK: tune = 64](" parameters ", n: i32)\n  @grid(cdiv(n, BLOCK)) @key(n)\n"   \
  "  @config(BLOCK = 64)\n" configs "{\n  let i = pid(0) * BLOCK + iota(BLOCK)\n  let live = i < n\n" \
  "  " body "\n}\n"
#define CONFIG(block) "  @config(BLOCK = " block ")\n"
#define IN_OUT "x: in *f32, y: out *f32"
#define SHAPE "k n=1000 x=random:n y=zeros:n\n"
#define COPY "store(y + i, load(x + i, live) + 1.0, live)"

static inline char *build_tuned(int want, const char *options, const char *text) {
  char words[1500];
  kiln_test_put("k.kiln", KERNEL(IN_OUT, CONFIG("128") CONFIG("256"), COPY));
  kiln_test_put("t.table", text);
  snprintf(words, sizeof words, "build -t host --tuned %s %s -o %s %s", kiln_test_path("t.table"), options,
           kiln_test_path("k.kbundle"), kiln_test_path("k.kiln"));
  return kiln(want, words);
}

static inline char *explain_run(const char *n) {
  char words[600];
  snprintf(words, sizeof words, "run %s k --explain -a n=%s -a x=ones:5000 -a y=zeros:5000",
           kiln_test_path("k.kbundle"), n);
  return kiln(0, words);
}

#endif
