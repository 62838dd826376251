// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the language from text to canonical bytes: kernels of the documents and of the library, and every
// operation printed and read back.
#include <ctype.h>
#include <dirent.h>
#include <time.h>

#include "tests/compiler/front_test.h"

static void check_all(const char *path) {
  size_t size;
  char *text = kiln_test_read(path, &size);
  if (!text) FAIL("%s is missing", path);
  check_text(path, text, size);
  free(text);
}

// Every block of the page that is a source.
TEST(language, page) {
  char *page = kiln_test_read("docs/ir.md", NULL);
  unsigned count = 0;
  CHECK(page);
  for (char *at = page; (at = strstr(at, "```\nkiln 1\n")); count++) {
    char *text = at + 4, *end = strstr(text, "\n```");
    CHECK(end);
    check_text("docs/ir.md", text, (size_t)(end + 1 - text));
    at = end + 4;
  }
  CHECK(count >= 2);
  free(page);
}

TEST(language, documented_kernels) { check_all("tests/golden/front/five.kiln"); }
TEST(language, every_operation) { check_all("tests/golden/front/operations.kiln"); }

/// Whether `name` is a word of the text; `calls`: one that is followed by arguments or a member.
static bool has_word(const char *text, const char *name, bool calls) {
  const size_t length = strlen(name);
  for (const char *at = text; (at = strstr(at, name)); at += length) {
    const bool begins = at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
    const char next = at[length];
    if (begins && (calls ? next == '(' || next == '.' : !(isalnum((unsigned char)next) || next == '_')))
      return true;
  }
  return false;
}

// Lists that people keep in step with operations.def.
TEST(language, operations_are_in_every_list) {
  static const char *const names[] = {
#define OPERATION(name, handler, least, most, code, flags, named, form) name,
#include "compiler/front/operations.def"
#undef OPERATION
  };
  static const struct {
    const char *path, *from, *to;
    bool calls;
  } lists[] = {{"tests/golden/front/operations.kiln", "kiln 1", NULL, true},
               {"docs/ir.md", "\nInfix: ", "\n[ops.md]", false},
               {"tests/python/kernel_language_text.py", "OPERATIONS = set(", "split()", false}};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    char *text = kiln_test_read(lists[i].path, NULL), *from = text ? strstr(text, lists[i].from) : NULL;
    if (!from) FAIL("%s: expected the list after \"%s\"", lists[i].path, lists[i].from);
    char *end = lists[i].to ? strstr(from + 1, lists[i].to) : NULL;
    if (end) *end = 0;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
      if (!has_word(from, names[n], lists[i].calls))
        FAIL("%s: expected %s, a row of operations.def", lists[i].path, names[n]);
    free(text);
  }
}

TEST(language, library_kernels) {
  DIR *folder = opendir("kernels");
  char path[512];
  unsigned count = 0;
  CHECK(folder);
  for (struct dirent *entry; (entry = readdir(folder));) {
    const char *dot = strrchr(entry->d_name, '.');
    if (!dot || strcmp(dot, ".kiln")) continue;
    snprintf(path, sizeof path, "kernels/%s", entry->d_name);
    check_all(path);
    count++;
  }
  closedir(folder);
  CHECK(count > 0);
}

static void bytes_of(const char *text, kiln_buffer *out) {
  opened o = open_text("k.kiln", text, strlen(text), NULL);
  kiln_target target = target_of("x86-64-v3");
  ir_kernel *kernel = o.unit ? kiln_unit_lower(o.unit, o.arena, 0, 0, 0, &target, &o.d) : NULL;
  if (!kernel) fail_with(&o, text, strlen(text));
  kiln_canonical_encode(kernel, out);
  kiln_arena_destroy(o.arena);
}

static bool same_kernels(const char *a, const char *b) {
  kiln_buffer x = {0}, y = {0};
  bytes_of(a, &x);
  bytes_of(b, &y);
  bool same = same_bytes(&x, &y);
  kiln_buffer_deinit(&x);
  kiln_buffer_deinit(&y);
  return same;
}

#define ADD(head, body) "kiln 1\n" head "kernel k(x: inout *f32, n: i32) {\n let i = iota(64)\n" body "}\n"

TEST(language, bytes_do_not_see_names) {
  const char *base = ADD("", " store(x + i, load(x + i) + 1.0, i < n)\n");
  CHECK(same_kernels(base, "kiln 1 // a comment\n\n\nkernel other(p: inout *f32, m: i32) { let lane = "
                           "iota(64) let v = load(p + lane)\n store(p + lane, v + 1.0, lane < m) }\n"));
  CHECK(same_kernels(base, ADD("const ONE = 1.0\nfn unused(x) { return x }\n",
                               " store(x + i, load(x + i) + ONE, i < n)\n")));
  CHECK(same_kernels(
      base, ADD("fn inc(x) { return x + 1.0 }\n", " when true { store(x + i, inc(load(x + i)), i < n) }\n")));
  CHECK(!same_kernels(base, ADD("", " store(x + i, load(x + i) + 2.0, i < n)\n")));
  CHECK(!same_kernels(base, ADD("", " store(x + i, load(x + i) - 1.0, i < n)\n")));
  CHECK(!same_kernels(base, ADD("", " store(x + i, load(x + i) + 1.0, i <= n)\n")));
  CHECK(!same_kernels(base, "kiln 1\nkernel k(x: inout *f32 @align(16), n: i32) {\n let i = iota(64)\n "
                            "store(x + i, load(x + i) + 1.0, i < n)\n}\n"));
  CHECK(!same_kernels(base, "kiln 1\nkernel k(x: inout *f32, n: i32) @warps(8) {\n let i = iota(64)\n "
                            "store(x + i, load(x + i) + 1.0, i < n)\n}\n"));
}

TEST(language, branches_and_returns) {
  const char *plain =
      ADD("", " var v = load(x + i)\n if n > 3 { v = v + 1.0 } else { v = v * 2.0 }\n store(x + i, v)\n");
  const char *valued = ADD(
      "",
      " let v = load(x + i)\n let w = if n > 3 { yield v + 1.0 } else { yield v * 2.0 }\n store(x + i, w)\n");
  CHECK(same_kernels(plain, valued));
  const char *early = ADD("", " if n > 3 { return }\n store(x + i, 1.0)\n"),
             *nested = ADD("", " if n > 3 { } else { store(x + i, 1.0) }\n");
  CHECK(same_kernels(early, nested));
}

TEST(language, decode_refuses_damage) {
  kiln_buffer bytes = {0};
  bytes_of("kiln 1\nkernel k(x: inout *f32, n: i32) {\n var s = zeros(f32[64])\n for j in 0 .. n { s = s + "
           "load(x + iota(64) + j) }\n store(x + iota(64), s)\n}\n",
           &bytes);
  kiln_error err;
  ir_kernel *kernel;
  for (size_t size = 0; size < bytes.size; size++) {
    kiln_arena *arena = kiln_arena_create();
    CHECK(kiln_canonical_decode(arena, bytes.bytes, size, "k", &kernel, &err) != KILN_OK);
    kiln_arena_destroy(arena);
  }
  for (size_t at = 0; at < bytes.size; at++) { // flips either are refused or yield a kernel that verifies
    for (unsigned bit = 0; bit < 8; bit++) {
      kiln_arena *arena = kiln_arena_create();
      bytes.bytes[at] ^= (uint8_t)(1u << bit);
      if (kiln_canonical_decode(arena, bytes.bytes, bytes.size, "k", &kernel, &err) == KILN_OK)
        CHECK_OK(ir_verify(kernel, "test", &err), err);
      bytes.bytes[at] ^= (uint8_t)(1u << bit);
      kiln_arena_destroy(arena);
    }
  }
  kiln_buffer_deinit(&bytes);
}

// What looks like the cases above and means something.
TEST(language, sense_is_taken) {
  static const char *const cases[] = {
      "kernel k(n: i32 @range(0, 127), m: i8 @range(-128, 127), o: i64 @div(1099511627776)) @grid(n, 2) "
      "@variant(n % 4 == 0, n > 4) @variant(n > 100, n < 104) {}",
      "kernel k(q: inout *f32, h: inout *e4m3, g: inout *e5m2) {\n store(h, 448.0) store(g, inf) store(q, "
      "1.0e38) "
      "store(q, -inf) store(q, 1.0 / 0.0) store(h, 1000.0 as e4m3) }",
      "kernel k(n: i32, p: inout *i32) {\n if n > 3 { assert(false, \"never\") } let s = if n > 1 { when "
      "WARP > 0 { "
      "yield 1 } else { yield 2 } } else { yield 3 } store(p, s) }",
      "fn spare(a, b) { when typeof(a) == f32 { let c = a } else { let c = b } loop i = 0 { break last = i "
      "if i > "
      "a i = i + 1 } for j in 0 .. b { let k = load(c, j < last, cache = cg) } let d, e = if a > b { yield "
      "1, 2 } else { "
      "yield 3, 4 } return reduce(other, 0, iota(8)) + d + e + gelu(c) }\nfn other(a, b) { return a + b "
      "}\nkernel k() {}",
      "kernel k(n: i32 @range(0, 9) @div(16), m: i32) @grid(2147483647) @regs(512) "
      "@variant(n % 16 == 3, n % 8 == 3) @variant(n <= m, m <= n) @variant(n != m, n < m) "
      "@variant(n % 6 == 5, n % 4 == 1) {\n"
      "for i in 4 .. m step 6 @div(2) { if m > 3 { assume(1 > 2) } } }",
      "\nconst ARCH = \"sm_90a\"\nkernel k(p: inout *i32) {\n when TARGET == ARCH { store(p, 1) } when "
      "TARGET == "
      "\"amdgpu\" { store(p, 2) } when TARGET == \"gfx942\" { store(p, 2) } }",
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[1000];
    size_t size = (size_t)snprintf(text, sizeof text, "\xef\xbb\xbfkiln 1\n%s\n", cases[i]);
    check_text("sense.kiln", text, size);
  }
}

// Statements beyond the limit were dropped without a word.
TEST(language, many_early_returns) {
  for (unsigned count = 200; count <= 400; count += 200) {
    kiln_buffer text = {0};
    kiln_buffer_format(&text, "kiln 1\nkernel k(p: inout *i32, n: i32) {\n");
    for (unsigned i = 0; i < count; i++) kiln_buffer_format(&text, "  if n == %u { return }\n", i);
    kiln_buffer_format(&text, "  store(p, 1)\n}\n");
    opened o = open_text("k.kiln", (const char *)text.bytes, text.size, NULL);
    kiln_target target = target_of("x86-64-v3");
    ir_kernel *kernel = o.unit ? kiln_unit_lower(o.unit, o.arena, 0, 0, 0, &target, &o.d) : NULL;
    if (kernel) CHECK_INT(count_ops(kernel->body, IR_STORE), 1);
    else CHECK(count > 200 && strstr(o.d.items[0].text, "nested deeper"));
    kiln_arena_destroy(o.arena);
    kiln_buffer_deinit(&text);
  }
}

TEST(language, steps_of_loops_are_asserted) {
  static const struct {
    const char *head, *step;
    unsigned asserts;
  } cases[] = {{"n: i32", "4", 0},
               {"n: i32", "npid(0)", 0},
               {"n: i32 @range(1, 9)", "n", 0},
               {"n: i32 @range(0, 9)", "n", 1},
               {"n: i32", "max(n, 1)", 0},
               {"n: i32", "n", 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[300];
    size_t size = (size_t)snprintf(
        text, sizeof text,
        "kiln 1\nkernel k(p: inout *i32, %s) @grid(n) {\n for i in 0 .. 100 step %s { store(p + i, i) }\n}\n",
        cases[i].head, cases[i].step);
    check_text("steps.kiln", text, size);
    opened o = open_text("k.kiln", text, size, NULL);
    kiln_target target = target_of("x86-64-v3");
    ir_kernel *kernel = kiln_unit_lower(o.unit, o.arena, 0, 0, 0, &target, &o.d);
    CHECK_INT(count_ops(kernel->body, IR_ASSERT), cases[i].asserts);
    kiln_arena_destroy(o.arena);
  }
}

// Sixteen times as many kernels take about sixteen times as long to read.
TEST(language, reading_takes_time_in_proportion) {
  enum { FEW = 500, MANY = 16 * FEW };
  double best[2] = {1e9, 1e9};
  for (unsigned round = 0; round < 6; round++) {
    kiln_buffer text = {0};
    kiln_buffer_format(&text, "kiln 1\n");
    for (unsigned i = 0; i < (round & 1 ? MANY : FEW); i++)
      kiln_buffer_format(&text, "kernel k%u(p: out *i32, n: i32) @grid(1) { store(p, n + %u) }\n", i, i);
    clock_t start = clock();
    opened o = open_text("k.kiln", (const char *)text.bytes, text.size, NULL);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    CHECK(o.unit && kiln_unit_instance_count(o.unit) == (round & 1 ? MANY : FEW));
    if (seconds < best[round & 1]) best[round & 1] = seconds;
    kiln_arena_destroy(o.arena);
    kiln_buffer_deinit(&text);
  }
  if (best[1] > best[0] * 64 + 0.05)
    FAIL("%d kernels take %.4f s, %d take %.4f s", FEW, best[0], MANY, best[1]);
}
