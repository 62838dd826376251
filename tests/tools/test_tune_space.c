// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests what `kiln tune` tries: configs, spaces, knobs, the search in a large space.
#include "tests/tools/tuning.h"

#define RANGES                                                                                               \
  "kiln 1\n\nkernel k[BLOCK: tune = 64](x: in *f32, y: out *f32, n: i32)\n  @grid(cdiv(n, BLOCK)) @key(n)\n" \
  "  @space(BLOCK = [64, 4096], stages = [0, 2])\n  @config(BLOCK = 32)\n  @config(BLOCK = 64)\n"            \
  "{\n  let i = pid(0) * BLOCK + iota(BLOCK)\n  let live = i < n\n  " COPY "\n}\n"

TEST(tune, ranges_of_the_source_are_tried_and_only_what_won_is_shipped) {
  char *out = tune(0, "-v", RANGES, "k n=100000 x=random:n y=zeros:n\n");
  CHECK_PART(out, "(5 configs, "); // 32; 64 and 4096, with 2 stages too; 64 is written and a range
  CHECK_PART(out, "dropped BLOCK=64,warps=4,stages=2: it is the same code as BLOCK=64,warps=4");
  CHECK_PART(out, "  BLOCK=4096,warps=4 ");
  free(out);
  kiln_test_put("t.table", HEAD ENTRY("k", "1024", "BLOCK=4096,warps=4") "\n");
  char words[1000];
  snprintf(words, sizeof words, "build -t host --tuned %s -o %s %s", kiln_test_path("t.table"),
           kiln_test_path("k.kbundle"), kiln_test_path("k.kiln"));
  out = kiln(0, words);
  CHECK_PART(out, ": 2 objects, "); // 32, which is the default, and 4096
  free(out);
  out = explain_run("1024");
  CHECK_PART(out, "config BLOCK=4096,warps=4, ");
  free(out);
  snprintf(words, sizeof words, "build -t host --configs-all -o %s %s", kiln_test_path("k.kbundle"),
           kiln_test_path("k.kiln"));
  out = kiln(0, words);
  CHECK_PART(out, ": 2 objects, "); // without a table ranges are nothing
  free(out);
}

// Each @space is one of its own on top of what the source writes: no combinations between them.
TEST(tune, several_spaces_stand_beside_each_other) {
  char *out = tune(0, "-v",
                   "kiln 1\n\nkernel k[BLOCK: tune = 64](x: in *f32, y: out *f32, n: i32)\n"
                   "  @grid(cdiv(n, BLOCK)) @key(n) @space(BLOCK = [128, 4096]) @space(warps = [1, 2])\n"
                   "  @config(BLOCK = 64)\n"
                   "{\n  let i = pid(0) * BLOCK + iota(BLOCK)\n  let live = i < n\n  " COPY "\n}\n",
                   "k n=100000 x=random:n y=zeros:n\n");
  CHECK_PART(out, "(5 configs, ");
  CHECK_PART(out, "  BLOCK=4096,warps=4 ");
  CHECK_PART(out, "BLOCK=64,warps=2: it is the same code as BLOCK=64,warps=4"); // a host has no warps
  CHECK_NO_PART(out, "BLOCK=4096,warps=1");
  free(out);
}

// Whether chained products run beside each other is a knob: without it the products before the loop and
// after it are not there.
TEST(tune, the_overlap_of_products_is_a_knob) {
  static const char source[] =
      "kiln 1\n\nkernel k[OVERLAP: tune = 2](q: in *bf16 @align(16), k: in *bf16 @align(16), v: in *bf16 "
      "@align(16), "
      "y: out *bf16 @align(16), n: i32 @div(64))\n  @grid(1) @warps(4) @stages(2) @space(OVERLAP = [1, "
      "2])\n{\n"
      "  let Q = load(view(q, [n, 64], [64, 1], [64, 64]), [0, 0])\n"
      "  let K = view(k, [n, 64], [64, 1], [64, 64])\n  let V = view(v, [n, 64], [64, 1], [64, 64])\n"
      "  var sum = zeros(f32[64, 64])\n  var most = full(f32[64], -1.0e30)\n"
      "  for i in 0 .. n step 64 @overlap(OVERLAP) {\n"
      "    let s = dot(Q, trans(load(K, [i, 0])), zeros(f32[64, 64]))\n"
      "    let next = max(most, reduce.max(s, 1))\n    let scale = exp2(most - next)\n"
      "    sum = dot(exp2(s - next[:, _]) as bf16, load(V, [i, 0]), sum * scale[:, _])\n    most = next\n  "
      "}\n"
      "  store(view(y, [n, 64], [64, 1], [64, 64]), [0, 0], sum as bf16)\n}\n";
  char words[900];
  unsigned products[2] = {0};
  kiln_test_put("k.kiln", source);
  snprintf(words, sizeof words, "build --tuning -t sm_90a --ptx-assembler=none -o %s %s",
           kiln_test_path("k.kbundle"), kiln_test_path("k.kiln"));
  char *out = kiln(0, words);
  CHECK_PART(out, ": 2 objects, ");
  free(out);
  snprintf(words, sizeof words, "disasm %s k", kiln_test_path("k.kbundle"));
  out = kiln(0, words);
  char *second = strstr(out, ".visible .entry");
  second = second ? strstr(second + 1, ".visible .entry") : NULL;
  CHECK(second != NULL);
  for (const char *at = out; (at = strstr(at, "wgmma.commit_group")) != NULL; at++) products[at > second]++;
  CHECK(products[0] > products[1]);
  CHECK_INT(products[1], 2);
  free(out);
}

// How many registers a thread may have is a knob of the code generator: the assembler is told.
TEST(tune, limits_of_registers_are_a_knob) {
  static const char source[] =
      "kiln 1\n\nkernel k[BLOCK: tune = 64](x: in *f32, y: out *f32, n: i32)\n"
      "  @grid(cdiv(n, BLOCK)) @key(n) @regs(168) @space(regs = [32, 168])\n  @config(BLOCK = 64)\n"
      "{\n  let i = pid(0) * BLOCK + iota(BLOCK)\n  let live = i < n\n  " COPY "\n}\n";
  char words[900];
  kiln_test_put("k.kiln", source);
  snprintf(words, sizeof words, "build --tuning -t sm_90a --ptx-assembler=none -o %s %s",
           kiln_test_path("k.kbundle"), kiln_test_path("k.kiln"));
  char *out = kiln(0, words);
  CHECK_PART(out, ": 2 objects, "); // 168 is what the source says
  free(out);
  snprintf(words, sizeof words, "disasm %s k", kiln_test_path("k.kbundle"));
  out = kiln(0, words);
  CHECK_PART(out, ".maxnreg 32");
  CHECK_PART(out, ".maxnreg 168");
  free(out);
  snprintf(words, sizeof words, "inspect -c %s", kiln_test_path("k.kbundle"));
  out = kiln(0, words);
  CHECK_PART(out, "BLOCK=64,warps=4,regs=32");
  free(out);
}

// With two warps a thread keeps 256 numbers, with 16 of them 32: the first cannot but spill. What the
// source writes is compiled whatever it costs.
TEST(tune, ranges_that_cannot_but_spill_are_not_compiled) {
  static const char text[] =
      "kiln 1\n\nkernel k[BLOCK: tune = 64](x: in *f32, y: out *f32, n: i32)\n  @grid(n) @key(n)\n"
      "  @space(warps = [1, 2, 16])\n  @config(BLOCK = 16384, warps = 1)\n"
      "{\n  let i = iota(BLOCK)\n  let live = i < n\n  let v = load(x + i, live)\n"
      "  %s\n}\n";
  static const struct {
    const char *body, *says;
  } cases[] = {
      {"store(y + i, v - reduce.max(v, 0), live)", ": 2 objects, "},
      {"var s = v\n  for j in 0 .. n { s = s * 0.5 + 1.0 }\n  store(y + i, s, live)", ": 2 objects, "},
      {"store(y + i, v * 2.0, live)", ": 3 objects, "}, // one after another
      {"store(y + i, full(f32[BLOCK], reduce.max(v, 0)), live)", ": 3 objects, "}};
  char source[1000], words[600];
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    snprintf(source, sizeof source, text, cases[i].body);
    kiln_test_put("k.kiln", source);
    snprintf(words, sizeof words, "build --tuning -t sm_90a --ptx-assembler=none -o %s %s",
             kiln_test_path("k.kbundle"), kiln_test_path("k.kiln"));
    char *out = kiln(0, words);
    CHECK_PART(out, cases[i].says);
    if (i < 2)
      CHECK_PART(out, "1 objects of @space are left out, the first: k BLOCK=16384,warps=2 keeps 256 values a "
                      "thread, which has 255 registers");
    else CHECK_NO_PART(out, "left out");
    free(out);
    snprintf(words, sizeof words, "build --tuning -t host -o %s %s", kiln_test_path("k.kbundle"),
             kiln_test_path("k.kiln"));
    out = kiln(0, words);
    CHECK_NO_PART(out, "left out"); // its registers are no such limit
    free(out);
  }
}

// 64 configs, of which the fastest is six and five steps away from the default: the search finds it, or what
// takes no longer, without trying all; with another's winner in the table it begins there.
TEST(tune, a_large_space_is_searched) {
  static const char kernel[] =
      "kiln 1\n\nkernel k[P: tune = 0, Q: tune = 0](x: in *f32, y: out *f32, n: i32)\n  @grid(n) @key(n)\n"
      "  @space(P = [0, 1, 2, 3, 4, 5, 6, 7], Q = [0, 1, 2, 3, 4, 5, 6, 7])\n  @config(P = 0)\n"
      "{\n  var s = load(x + pid(0))\n"
      "  for k in 0 .. 2000 * (1 + (P - 6) * (P - 6) + (Q - 5) * (Q - 5)) { s = s * 0.5 + 1.0 }\n"
      "  store(y + pid(0), s)\n}\n";
  char *out = tune(0, "-v --device host:1", kernel, "k n=8 x=random:n y=zeros:n\n"), *text;
  unsigned tried = 0;
  char *at = strstr(out, "(64 configs, ");
  if (!at || sscanf(at, "(64 configs, %u tried", &tried) != 1 || tried < 16 || tried > 50)
    FAIL("%u of 64 were tried:\n%s", tried, out);
  CHECK_PART(out, "n=8: P=6,Q=5,warps=4 ");
  free(out);
  text = table();
  out = tune(0, "-v --device host:1", kernel, "k n=10 x=random:n y=zeros:n\n");
  CHECK_PART(out, "n=10: P=6,Q=5,warps=4 ");
  free(out);
  out = tune(0, "-v --again --all-below 64 --device host:1 --judge-limit 0", kernel,
             "k n=8 x=random:n y=zeros:n\n");
  CHECK_PART(out, "(64 configs, ");
  CHECK_NO_PART(out, " tried");
  CHECK_PART(out, "n=8: P=6,Q=5,warps=4 ");
  free(out), free(text);
}

// The fastest config is two knobs from the default, and what lies between is slower than both: the search
// comes to it only from what won elsewhere, here on another product, for other bins.
TEST(tune, a_search_begins_with_what_won_on_another_device) {
  static const char kernel[] =
      "kiln 1\n\nkernel k[P: tune = 0, Q: tune = 0](x: in *f32, y: out *f32, n: i32)\n  @grid(n) @key(n)\n"
      "  @space(P = [0, 1, 2, 3, 4, 5, 6, 7], Q = [0, 1, 2, 3, 4, 5, 6, 7])\n  @config(P = 0)\n"
      "{\n  var s = load(x + pid(0))\n"
      "  for k in 0 .. 4000 * min(1 + (64 + 8 * P + Q) * ((P - 6) * (P - 6) + (Q - 5) * (Q - 5)), 8 + 8 * (8 "
      "* P + Q)) {\n"
      "    s = s * 0.5 + 1.0\n  }\n"
      "  store(y + pid(0), s)\n}\n";
  static const char shape[] = "k n=8 x=random:n y=zeros:n\n";
  unlink(kiln_test_path("t.table"));
  char *out = tune(0, "-v --device host:1 --judge-limit 0", kernel, shape);
  CHECK_PART(out, "n=8: P=0,Q=0,warps=4 ");
  CHECK_NO_PART(out, "  P=6,Q=5,warps=4 ");
  free(out);
  kiln_test_put("t.table",
                HEAD "kernel=k types=\"*f32, *f32, i32\" product=Other processor=sm_90 units=132 bin.n=1024 "
                     "config=P=6,Q=5,warps=4\n");
  out = tune(0, "-v --device host:1 --judge-limit 0", kernel, shape);
  CHECK_PART(out, "n=8: P=6,Q=5,warps=4 ");
  free(out);
}

// Of what the search tries first nothing is right: it goes on until something is.
TEST(tune, a_search_goes_on_until_something_is_right) {
  static const char kernel[] =
      "kiln 1\n\nkernel k[P: tune = 0](x: in *f32, y: out *f32, n: i32)\n  @grid(n) @key(n)\n"
      "  @space(P = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19])\n  @config(P = "
      "0)\n"
      "{\n  assert((n < 0) | (P >= 15), \"too low\")\n  store(y + pid(0), load(x + pid(0)) + 0.001 * (P as "
      "f32 - "
      "15.0))\n}\n";
  char *out = tune(0, "-v --judge-limit 0", kernel, "k n=8 x=random:n y=zeros:n\n");
  CHECK_PART(out, "dropped P=14,warps=4: ");
  CHECK_PART(out, "n=8: P=1");
  free(out);
}

TEST(tune, ranges_are_checked) {
  static const struct {
    const char *range, *says;
  } wrong[] = {{"BLOK = [1]", "'@config': 'BLOK' is no compile-time parameter"},
               {"BLOCK = 4", "'@space': expected a list of values such as [512, 1024]"},
               {"BLOCK = []", "'@space': expected a list of values"},
               {"BLOCK = [4], BLOCK = [8]", "'@space': 'BLOCK' is there already"},
               {"BLOCK = [4]) @space(BLOK = [8]", "'@config': 'BLOK' is no compile-time parameter"},
               {"targets = [\"host\"]", "'@space': what a config is for stands in @config"},
               {"4", "'@config': expected name = value"}};
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    char text[1000], words[600];
    snprintf(text, sizeof text,
             "kiln 1\n\nkernel k[BLOCK: tune = 64](y: out *f32)\n  @space(%s)\n{\n  store(y + iota(BLOCK), "
             "zeros(f32[BLOCK]))\n}\n",
             wrong[i].range);
    kiln_test_put("k.kiln", text);
    snprintf(words, sizeof words, "build -t host -o %s %s", kiln_test_path("k.kbundle"),
             kiln_test_path("k.kiln"));
    char *out = kiln(1, words);
    CHECK_PART(out, "k.kiln:4:");
    CHECK_PART(out, wrong[i].says);
    free(out);
  }
}
