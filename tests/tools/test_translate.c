// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests `kiln translate` and `kiln import-triton`: Triton IR in, the kernel language or a bundle out.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/harness.h"

static char *run(int want, const char *arguments) {
  char *out;
  int code = kiln_test_run(&out, "%s/bin/kiln %s", kiln_test_build(), arguments);
  if (code != want) FAIL("kiln %s: exit status is %d, expected %d:\n%s", arguments, code, want, out);
  return out;
}

static void expect_in(const char *text, const char *part) {
  if (!strstr(text, part)) FAIL("expected in the output:\n%s\nfound:\n%s", part, text);
}

// The translation compiles to the key of its source, for each text of tests/ttir.
TEST(translate, the_key_stays) {
  static const char *const names[] = {
      "add", "argmax", "blocks", "descriptors_f16", "descriptors_f32", "early_return",
      "map", "maths",  "matmul", "scaled",          "versions"};
  const char *folder = kiln_test_folder();
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char arguments[4096];
    snprintf(arguments, sizeof arguments, "translate tests/ttir/%s.ttir --warps=8 -o %s/%s.kiln", names[i],
             folder, names[i]);
    free(run(0, arguments));
    snprintf(arguments, sizeof arguments, "key --fields -t host,sm_90a tests/ttir/%s.ttir --warps=8",
             names[i]);
    char *from = run(0, arguments);
    snprintf(arguments, sizeof arguments, "key --fields -t host,sm_90a %s/%s.kiln", folder, names[i]);
    char *to = run(0, arguments);
    // A source says what may be a mistake (stages without effect), Triton IR does not: the keys stand behind
    // it.
    char *keys = to;
    while (keys && strncmp(keys, from, 16) != 0) keys = (keys = strchr(keys, '\n')) ? keys + 1 : NULL;
    CHECK_TEXT(keys ? keys : to, from);
    free(from);
    free(to);
  }
}

TEST(translate, reads_as_the_language) {
  char *out = run(0, "translate tests/ttir/add.ttir");
  expect_in(out,
            "// add_kernel: p0 x, p1 y, p2 out, p3 n\nkiln 1\n\nkernel add_kernel(p0: in *f32 @align(16)");
  expect_in(out, "p2: out *f32 @align(16),\n    p3: i32 @div(16))");
  free(out);
}

TEST(translate, errors) {
  char *out = run(1, "translate tests/ttir/none.ttir");
  expect_in(out, "none.ttir");
  free(out);
  out = run(1, "translate --kernel=other tests/ttir/add.ttir");
  expect_in(out, "no kernel of that name");
  free(out);
  free(run(2, "translate"));
}

// ------------------------------------------------------------------- import-triton

static void put(const char *folder, const char *inner, const char *name, const char *text, size_t size) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, inner);
  mkdir(path, 0777);
  snprintf(path, sizeof path, "%s/%s/%s", folder, inner, name);
  kiln_test_write(path, text, size);
}

// Assembly of another machine is refused where it is compiled; the message still says where it stands, and
// where that came from.
TEST(translate, refused_assembly_has_a_place) {
  static const char text[] =
      "module {\n  tt.func public @k(%a: !tt.ptr<i32>) attributes {noinline = false} {\n    %x = tt.load %a "
      ": !tt.ptr<i32> loc(#loc)\n"
      "    %y = tt.elementwise_inline_asm \"match.any.sync.b32 $0, $1, 0xffffffff;\" {constraints = "
      "\"=r,r\", packed_element = 1 : "
      "i32, pure = true} %x : i32 -> i32 "
      "loc(#loc1)\n    tt.store %a, %y : !tt.ptr<i32> loc(#loc)\n    tt.return loc(#loc)\n  } loc(#loc)\n} "
      "loc(#loc)\n"
      "#loc = loc(\"bits.py\":1:2)\n#loc1 = loc(\"y\"(#loc2))\n#loc2 = loc(\"bits.py\":7:9)\n";
  const char *folder = kiln_test_folder();
  char arguments[4096];
  put(folder, ".", "bits.ttir", text, strlen(text));
  static const char *const targets[] = {"host", "gfx942"};
  for (size_t i = 0; i < 2; i++) {
    snprintf(arguments, sizeof arguments, "compile --no-cache -t %s %s/bits.ttir -o %s/bits.o", targets[i],
             folder, folder);
    char *out = run(1, arguments);
    expect_in(out, "(asm \"match.any.sync.b32 $0, $1, 0xffffffff;\")");
    expect_in(out, "bits.ttir:4:10: note: operation 1 is here (from bits.py:7:9)");
    free(out);
  }
  snprintf(arguments, sizeof arguments, "compile --no-cache --emit=ptx -t sm_80 %s/bits.ttir -o %s/bits.ptx",
           folder, folder);
  free(run(0, arguments));
}

TEST(import_triton, takes_what_it_can_and_says_why_not) {
  const char *folder = kiln_test_folder();
  size_t size;
  char *add = kiln_test_read("tests/ttir/add.ttir", &size), arguments[4096], names[4096];
  static const char facts[] = "{\"num_warps\": 8, \"num_stages\": 2}", clusters[] = "{\"num_ctas\": 4}";
  put(folder, "QWERTYUIOPASDFG", "add_kernel.ttir", add, size);
  put(folder, "QWERTYUIOPASDFG", "add_kernel.json", facts, strlen(facts));
  put(folder, "QWERTYUIOPASDXX", "add_kernel.ttir", add, size);
  put(folder, "ZXCV", "add_kernel.ttir", add, size);
  put(folder, "BROKEN", "bad.ttir", "module {\n}\n", strlen("module {\n}\n"));
  put(folder, "WIDE", "add_kernel.ttir", add, size);
  put(folder, "WIDE", "add_kernel.json", clusters, strlen(clusters));
  free(add);
  snprintf(arguments, sizeof arguments, "import-triton --no-cache -t host -o %s/all.kbundle %s", folder,
           folder);
  char *out = run(1, arguments);
  expect_in(out, "taken     add_kernel[QWERTYUIOPASDFG] x86-64-v3");
  expect_in(out, "taken     add_kernel[QWERTYUIOPASDXX] x86-64-v3");
  expect_in(out, "taken     add_kernel[ZXCV] x86-64-v3");
  expect_in(out, "bad.ttir: line 1: expected a public tt.func");
  expect_in(out, "clusters are not supported");
  expect_in(out, "5 files: 3 objects taken, 2 not\n");
  free(out);
  snprintf(names, sizeof names, "%s/all.kbundle", folder);
  char *bytes = kiln_test_read(names, &size);
  CHECK(bytes && size > 1000);
  free(bytes);
}
