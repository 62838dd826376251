// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests what programs of the language compute, with the reference interpreter: control flow, carried
// variables, early returns, inlining, literals.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/front.h"
#include "compiler/interpreter/interpreter.h"
#include "tests/harness.h"

enum { OUT = 64 };

// Runs `body` in a kernel with o: out *i32 and n: i32; `o` starts as all -1.
static void run(const char *items, const char *body, int32_t n, int32_t *o) {
  kiln_buffer text = {0};
  kiln_buffer_format(&text, "kiln 1\n%s\nkernel k(o: inout *i32, n: i32) @grid(1) {\n%s\n}\n", items, body);
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  kiln_target target;
  kiln_error err;
  CHECK_OK(kiln_target_parse("x86-64-v3", &target, &err), err);
  kiln_unit *unit = kiln_unit_open(arena, "k.kiln", (const char *)text.bytes, text.size, NULL, &d);
  ir_kernel *kernel = unit ? kiln_unit_lower(unit, arena, 0, 0, 0, &target, &d) : NULL;
  if (!kernel) {
    kiln_buffer b = {0};
    kiln_diagnostics_print(&d, (const char *)text.bytes, text.size, &b);
    FAIL("%.*s", (int)b.size, (const char *)b.bytes);
  }
  struct {
    int32_t *o;
    int32_t n, pad;
  } args = {o, n, 0};
  memset(o, 0xff, OUT * sizeof *o);
  kiln_memory_range range = {o, OUT * sizeof *o};
  kiln_interpret_options options = {.ranges = &range, .range_count = 1, .max_steps = 1000000};
  CHECK_OK(kiln_interpret(kernel, &args, (uint32_t[]){1, 1, 1}, &options, &err), err);
  kiln_arena_destroy(arena);
  kiln_buffer_deinit(&text);
}

static int32_t first(const char *items, const char *body, int32_t n) {
  int32_t o[OUT];
  run(items, body, n, o);
  return o[0];
}

TEST(meaning, loops) {
  CHECK_INT(first("", "var s = 0 for i in 0 .. n { s = s + i } store(o, s)", 10), 45);
  CHECK_INT(first("", "var s = 0 for i in 3 .. n step 4 { s = s * 10 + i } store(o, s)", 12),
            4 * 0 + 3 * 100 + 7 * 10 + 11);
  CHECK_INT(first("", "var s = 7 for i in 5 .. n { s = 0 } store(o, s)", 5), 7);
  CHECK_INT(first("", "var a = 0 var b = 1 for i in 0 .. n { a, b = b, a + b } store(o, a)", 10), 55);
  CHECK_INT(first("",
                  "var k = n var c = 0 while k > 1 { if k % 2 == 0 { k = k / 2 } else { k = 3 * k + 1 } c = "
                  "c + 1 } store(o, c)",
                  27),
            111);
  CHECK_INT(first("", "var s = 0 for i in 0 .. n { for j in 0 .. i { s = s + j } } store(o, s)", 5), 10);
}

TEST(meaning, loops_with_break) {
  const char *search =
      "var lo = 0 var hi = 100 loop { let mid = (lo + hi) / 2 let sq = mid * mid break if hi - lo <= 1"
      " if sq <= n { lo = mid } else { hi = mid } } store(o, lo)";
  CHECK_INT(first("", search, 50), 7);
  CHECK_INT(first("", search, 9801), 99);
  CHECK_INT(first("",
                  "loop a, c = 1, 0 { let d = a * 3 break r, k = d, c if d > n a, c = d, c + 1 } store(o, r "
                  "* 100 + k)",
                  50),
            8103);
  CHECK_INT(first("",
                  "var s = 0 loop c = 0 { let even = c % 2 == 0 break if c == n if even { s = s + c } c = c "
                  "+ 1 } store(o, s)",
                  7),
            12);
}

TEST(meaning, early_returns) {
  const char *body = "store(o, 0) if n == 1 { store(o, 1) return } if n > 5 { if n > 10 { return } store(o, "
                     "2) } else { if n == 2 { return } store(o, 3) }"
                     " if n == 8 { store(o, 4) return } store(o, n * 10)";
  CHECK_INT(first("", body, 1), 1);
  CHECK_INT(first("", body, 2), 0);
  CHECK_INT(first("", body, 3), 30);
  CHECK_INT(first("", body, 6), 60);
  CHECK_INT(first("", body, 8), 4);
  CHECK_INT(first("", body, 11), 0);
  const char *values = "var v = 1 if n < 0 { v = 5 if n < -5 { store(o, v) return } v = 6 } store(o, v + n)";
  CHECK_INT(first("", values, 3), 4);
  CHECK_INT(first("", values, -2), 4);
  CHECK_INT(first("", values, -9), 5);
}

TEST(meaning, branches) {
  CHECK_INT(first("", "let a, b = if n > 0 { yield n, 2 } else { yield -n, 3 } store(o, a * b)", -7), 21);
  CHECK_INT(first("",
                  "var a = 0 var b = 0 if n > 3 { a = 1 } else if n > 1 { b = 2 } else { a, b = 3, 4 } "
                  "store(o, a * 10 + b)",
                  2),
            2);
  CHECK_INT(first("",
                  "var a = 0 var b = 0 if n > 3 { a = 1 } else if n > 1 { b = 2 } else { a, b = 3, 4 } "
                  "store(o, a * 10 + b)",
                  1),
            34);
  CHECK_INT(first("", "let x = 1 if n > 0 { let x = 2 store(o + 1, x) } store(o, x)", 1), 1);
  // The type of a select that is known now depended on which value was taken.
  CHECK_INT(first("", "store(o, (select(false, 7 as i8, 25) * 13) as i32)", 0), 69);
  CHECK_INT(first("", "store(o, ((select(true, 3, 4.5) * 0.5) * 2.0) as i32)", 0), 3);
  // Two equal constants became the condition, or its opposite.
  CHECK_INT(first("", "store(o, select(n > 5, true, true) as i32)", 1), 1);
  CHECK_INT(first("", "store(o, select(n > 5, false, false) as i32)", 9), 0);
}

// A chain took the last block for every condition but the first; a variable assigned in an `if` with values
// was lost at each trip of a loop.
TEST(meaning, branches_with_values) {
  const char *chain =
      "let t = if n > 3 { yield 10 } else if n > 1 { yield 20 } else { yield 30 } store(o, t)";
  CHECK_INT(first("", chain, 4), 10);
  CHECK_INT(first("", chain, 2), 20);
  CHECK_INT(first("", chain, 0), 30);
  const char *nested =
      "let a, b = if n > 3 { var c = n if n > 5 { c = c * 2 } if n > 7 { yield c, 1 } else { "
      "yield c, 2 } } else { when true { yield 0, 3 } } store(o, a * 10 + b)";
  CHECK_INT(first("", nested, 8), 161);
  CHECK_INT(first("", nested, 6), 122);
  CHECK_INT(first("", nested, 4), 42);
  CHECK_INT(first("", nested, 3), 3);
  const char *wide =
      "let x = n as i64 let t = if n > 3 { yield x } else if n > 1 { yield 20 } else { yield 30 } "
      "store(o, t as i32)";
  CHECK_INT(first("", wide, 9), 9);
  CHECK_INT(first("", wide, 2), 20);
  int32_t o[OUT];
  run("",
      "var v = 7 for i in 0 .. n { let t = if i >= 0 { store(o + i, v) v = v + 1 yield i } else { yield 0 } "
      "store(o + 16 + i, t) } store(o + 32, v) var w = 0 loop { var u = if w > 2 { w = w + 5 yield 1 } else "
      "{ w "
      "= w + 1 yield 2 } break if w > 6 w = w + u } store(o + 33, w)",
      4, o);
  for (int i = 0; i < 4; i++) CHECK_INT(o[i], 7 + i);
  for (int i = 0; i < 4; i++) CHECK_INT(o[16 + i], i);
  CHECK_INT(o[32], 11);
  CHECK_INT(o[33], 8);
}

// What stands in a `when` is as if it stood around it: a return in it was ignored.
TEST(meaning, returns_in_when) {
  const char *body = "store(o, 1) when true { if n == 1 { return } store(o, 2) } store(o, 3)";
  CHECK_INT(first("", body, 1), 1);
  CHECK_INT(first("", body, 0), 3);
  const char *inner =
      "store(o, 1) when true { when false { } else { if n > 5 { if n > 7 { return } store(o, n) } "
      "else { when true { if n == 2 { return } } } } } if n == 3 { return } store(o, 3)";
  CHECK_INT(first("", inner, 8), 1);
  CHECK_INT(first("", inner, 6), 3);
  CHECK_INT(first("", inner, 2), 1);
  CHECK_INT(first("", inner, 3), 1);
  CHECK_INT(first("", inner, 4), 3);
  CHECK_INT(first("", "store(o, 1) when true { return } store(o, 2)", 0), 1);
  CHECK_INT(first("", "store(o, 1) if n > 0 { when true { return } store(o, 4) } store(o, 2)", 1), 1);
  CHECK_INT(first("", "store(o, 1) if n > 0 { when true { return } store(o, 4) } store(o, 2)", 0), 2);
}

TEST(meaning, functions_and_constants) {
  const char *items =
      "const A = 6\nconst B: i32 = A * 7\nfn swap(a, b) { return b, a }\nfn sum(a, b) { let c = a + b return "
      "c }\n"
      "fn kind(x) { when typeof(x) == f32 { return 1 } when typeof(x) == i32 { return 2 } return 3 }\n"
      "fn size(N) { let t = iota(N) return reduce.add(t * 0 + 1, 0) }";
  CHECK_INT(first(items, "let p, q = swap(n, 5) store(o, sum(p * 10, q))", 3), 53);
  CHECK_INT(first(items, "store(o, B + kind(n) * 100 + kind(n as f32) * 1000 + kind(n as i64) * 10000)", 3),
            42 + 200 + 1000 + 30000);
  CHECK_INT(first(items, "store(o, size(16) + size(A + 2))", 0), 24);
  CHECK_INT(first("", "let x = 7 / 2 * 2.0 store(o, x as i32)", 0), 6);
  CHECK_INT(first("", "store(o, 0xffffffff)", 0), -1);
  CHECK_INT(first("", "store(o, (-7 / 2) * 100 + -7 % 3)", 0), -301);
  CHECK_INT(first("", "store(o, 1 + 2 << 3 & 0xff | 1 ^ 1)", 0), 24);
  CHECK_INT(first("", "when TARGET == \"host\" { store(o, WARP) } else { store(o, 9) }", 0), 1);
}

TEST(meaning, tiles) {
  int32_t o[OUT];
  run("",
      "let i = iota(8) let t = i[:, _] * 10 + i[_, :] store(o + i, reduce.max(t, 1)) store(o + 8 + i, "
      "reduce.max(t, 0)) store(o + 16 + i, i * 2, i < n)",
      3, o);
  for (int i = 0; i < 8; i++) {
    CHECK_INT(o[i], i * 10 + 7);
    CHECK_INT(o[8 + i], 70 + i);
    CHECK_INT(o[16 + i], i < 3 ? i * 2 : -1);
  }
  run("fn later(a, b) { return b }\nfn pick(v, i, w, j) { let c = v > w return select(c, v, w), select(c, i, "
      "j) }",
      "let i = iota(16) let v = (i * 7) % 16 let top, at = reduce(pick, 0, v, i) store(o, top) store(o + 1, "
      "at) store(o + 2, reduce(later, 0, v)) store(o + 16 + i, scan.add(i, 0)) store(o + 32 + i, sort(v)) "
      "store(o + 48 + iota(4), topk(v, 4))",
      0, o);
  CHECK_INT(o[0], 15);
  CHECK_INT(o[1], 9);
  CHECK_INT(o[2], 15 * 7 % 16);
  for (int i = 0; i < 16; i++) CHECK_INT(o[16 + i], i * (i + 1) / 2);
  for (int i = 0; i < 16; i++) CHECK_INT(o[32 + i], i);
  for (int i = 0; i < 4; i++) CHECK_INT(o[48 + i], 15 - i);
  run("",
      "let i = iota(4) let r = sort(((i[:, _] * 5 + iota(8)[_, :] * 3) % 11), descending = true) store(o + "
      "i[:, _] * 8 + iota(8)[_, :], r)",
      0, o);
  for (int row = 0; row < 4; row++)
    for (int i = 1; i < 8; i++) CHECK(o[row * 8 + i - 1] >= o[row * 8 + i]);
}

// The order of floats: -inf below all, -0 below 0, NaN of either sign above inf, bits unchanged. Equal
// elements keep their order, falling too.
TEST(meaning, orders) {
  int32_t o[OUT];
  static const uint32_t want[8] = {0xff800000, 0xbf800000, 0x80000000, 0x00000000,
                                   0x3f800000, 0x7f800000, 0x7fc00001, 0xffc00000};
  run("",
      "let i = iota(8) let odd = select(i % 2 == 0, bits(f32, 0x80000000), 1.0) "
      "let v = select(i == 0, bits(f32, 0xffc00000), select(i == 1, bits(f32, 0x7fc00001), select(i == 2, "
      "inf, "
      "select(i == 3, -inf, select(i == 4, 0.0, select(i == 5, -1.0, odd)))))) "
      "store(o + i, bitcast(sort(v), i32)) store(o + 8 + i, bitcast(sort(v, descending = true), i32)) "
      "let k, at = sort(i & 1, indices = true) store(o + 16 + i, at) "
      "let l, place = topk(i & 1, 4, indices = true) store(o + 24 + iota(4), place) store(o + 28 + iota(4), "
      "l) "
      "store(o + 32 + iota(2), sort((i * 3) % 8, first = 2)) "
      "let h, there = sort((i % 3) as bf16, descending = true, indices = true) store(o + 40 + i, there)",
      0, o);
  for (int i = 0; i < 8; i++) {
    CHECK_INT((uint32_t)o[i], want[i]);
    CHECK_INT((uint32_t)o[8 + i], want[7 - i]);
    CHECK_INT(o[16 + i], i < 4 ? 2 * i : 2 * i - 7);
  }
  for (int i = 0; i < 4; i++) {
    CHECK_INT(o[24 + i], 2 * i + 1);
    CHECK_INT(o[28 + i], 1);
  }
  CHECK_INT(o[32], 0);
  CHECK_INT(o[33], 1);
  static const int falling[8] = {2, 5, 1, 4, 7, 0, 3, 6};
  for (int i = 0; i < 8; i++) CHECK_INT(o[40 + i], falling[i]);
}

// Indices count modulo the extent.
TEST(meaning, gathers) {
  int32_t o[OUT];
  run("",
      "let i = iota(4) let j = iota(8) let t = i[:, _] * 8 + j[_, :] "
      "store(o + iota(16), reshape(gather(t, (i[:, _] + iota(4)[_, :]) - 1, 1), [16])) "
      "store(o + 16 + iota(16), reshape(gather(t, (j[_, :] + iota(2)[:, _]) % 4, 0), [16]))",
      0, o);
  for (int r = 0; r < 4; r++)
    for (int c = 0; c < 4; c++) CHECK_INT(o[r * 4 + c], r * 8 + ((r + c - 1) & 7));
  for (int r = 0; r < 2; r++)
    for (int c = 0; c < 8; c++) CHECK_INT(o[16 + r * 8 + c], (c + r) % 4 * 8 + c);
}

// Equal indices add up, negative ones and those above the extent name no element; sums wrap.
TEST(meaning, scatters) {
  int32_t o[OUT];
  run("",
      "let i = iota(4) let j = iota(8) "
      "store(o + j, scatter(j * 100, i[:, _] * 3 + j[_, :] - 4, 1)) "
      "store(o + 8 + i, scatter(full(i32[4], 2147483647), j - 2, j)) "
      "store(o + 12 + iota(2), (scatter(zeros(i64[2]), j & 1, full(i64[8], 1 << 61)) >> 61) as i32)",
      0, o);
  for (int n = 0; n < 8; n++) {
    int hits = 0;
    for (int r = 0; r < 4; r++) hits += n + 4 - 3 * r >= 0 && n + 4 - 3 * r < 8;
    CHECK_INT(o[n], 100 * n + hits);
  }
  for (int n = 0; n < 4; n++) CHECK_INT(o[8 + n], INT32_MIN + n + 1);
  for (int n = 0; n < 2; n++) CHECK_INT(o[12 + n], -4);
}

TEST(meaning, views_and_atomics) {
  int32_t o[OUT];
  run("",
      "let V = view(o, [4, n], [8, 1], [4, 8]) store(V, [0, 0], full(i32[4, 8], 5)) atomic.add(V, [1, 2], "
      "full(i32[4, 8], 2))"
      " let t = load(V, [2, 0], other = 9) store(o + 32 + iota(4)[:, _] * 8 + iota(8)[_, :], t)",
      6, o);
  for (int r = 0; r < 4; r++)
    for (int c = 0; c < 8; c++) {
      int inside = c < 6, added = r >= 1 && c >= 2 && c < 6;
      CHECK_INT(o[r * 8 + c], inside ? 5 + 2 * added : -1);
      int want = r + 2 < 4 && inside ? 5 + 2 * (c >= 2) : 9;
      CHECK_INT(o[32 + r * 8 + c], want);
    }
}

TEST(meaning, the_first_elements_of_an_access) {
  int32_t o[OUT];
  run("",
      "let V = view(o, [4, 8], [8, 1], [4, 8]) store(V, [0, 0], full(i32[4, 8], 5), first = 5, axis = 1)"
      " atomic.add(V, [1, 0], full(i32[4, 8], 2), axis = 0, first = 2)"
      " let W = view(o, [4, 8], [8, 1], [_, 8]) let t = load(W, [1, 2], 9, first = 3, axis = 0)"
      " store(o + 32 + iota(8), t) store(o + 40 + iota(8), load(W, [1, 2], first = 8, axis = 0))",
      8, o);
  for (int r = 0; r < 4; r++)
    for (int c = 0; c < 8; c++) {
      int stored = c < 5 ? 5 : -1, added = r == 1 || r == 2 ? 2 : 0;
      CHECK_INT(o[r * 8 + c], stored + added);
    }
  for (int c = 0; c < 8; c++) {
    CHECK_INT(o[32 + c], c < 3 ? o[8 + 2 + c] : 9);
    CHECK_INT(o[40 + c], c < 6 ? o[8 + 2 + c] : 0);
  }
}

// ---------------------------------------------------------------------------------------- literals

/// Where a literal `%L` of type `%T` may stand: what comes before the kernel, and its body. n is 0.
static const char *const literal_places[][2] = {
    {"", "store(z, %L)"},
    {"", "store(z, (%L))"},
    {"const A = %L", "store(z, A)"},
    {"const A = %L const B = A", "store(z, B)"},
    {"fn f(a) { return a }", "store(z, f(%L))"},
    {"fn put(p, a) { store(p, a) }", "put(z, %L)"},
    {"", "let v = %L store(z, v + (n as %T))"},
    {"", "var v = n as %T v = %L store(z, v)"},
    {"", "store(z, (n as %T) + %L)"},
    {"", "store(z, %L | (n as %T))"},
    {"", "store(z, select(n == 0, %L, n as %T))"},
    {"", "store(z, select(n == 1, n as %T, %L))"},
    {"", "store(z, select((n as %T) == %L, %L, %L ^ (n as %T)))"},
    {"", "if n == 0 { store(z, %L) } else { store(z, 1) }"},
    {"", "for i in 0 .. 1 { store(z, %L) }"},
    {"", "store(z, min(%L, n as %T) | max(n as %T, %L))"},
    {"", "store(z + iota(4), zeros(%T[4]) + %L)"},
};

static char *filled(const char *format, const char *type, const char *literal) {
  kiln_buffer b = {0};
  for (const char *p = format; *p; p++)
    if (*p != '%') kiln_buffer_u8(&b, (uint8_t)*p);
    else kiln_buffer_format(&b, "%s", *++p == 'T' ? type : literal);
  kiln_buffer_u8(&b, 0);
  return (char *)b.bytes;
}

/// The element that the kernel writes; false when it is refused, with the message in `d`.
static bool literal_stored(const char *const place[2], const char *type, const char *literal, int64_t *out,
                           kiln_diagnostics *d) {
  char *items = filled(place[0], type, literal), *body = filled(place[1], type, literal);
  kiln_buffer text = {0};
  kiln_buffer_format(
      &text, "kiln 1\n%s\nkernel k(z: inout *%s, n: i32, m: i64) @grid(1) @require(m != %s) {\n%s\n}\n",
      items, type, literal, body);
  kiln_target target;
  kiln_error err;
  CHECK_OK(kiln_target_parse("x86-64-v3", &target, &err), err);
  kiln_unit *unit = kiln_unit_open(d->arena, "k.kiln", (const char *)text.bytes, text.size, NULL, d);
  ir_kernel *kernel = unit ? kiln_unit_lower(unit, d->arena, 0, 0, 0, &target, d) : NULL;
  struct {
    int64_t *z;
    int32_t n, pad;
    int64_t m;
  } args = {out, 0, 0, 0};
  if (kernel) CHECK_OK(kiln_interpret(kernel, &args, (uint32_t[]){1, 1, 1}, NULL, &err), err);
  kiln_buffer_deinit(&text);
  free(items), free(body);
  return kernel != NULL;
}

static void check_literal(const char *const place[2], const char *type, unsigned bits, const char *literal,
                          const int64_t *want) {
  int64_t memory[4] = {0};
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  const bool is_stored = literal_stored(place, type, literal, memory, &d);
  const int64_t got = (int64_t)((uint64_t)memory[0] << (64 - bits)) >> (64 - bits);
  if (is_stored != (want != NULL))
    FAIL("%s as %s in '%s' '%s': %s", literal, type, place[0], place[1],
         is_stored ? "no error" : d.items[0].text);
  if (is_stored && got != *want)
    FAIL("%s as %s in '%s' '%s' is %lld", literal, type, place[0], place[1], (long long)got);
  if (!is_stored) CHECK_PART(d.items[0].text, "does not fit");
  kiln_arena_destroy(arena);
}

/// Decimal and hexadecimal literals at the ends of each type, in each place where one may stand.
TEST(meaning, literals_at_the_ends_of_types) {
  static const char *const types[] = {"i8", "i16", "i32", "i64"};
  for (unsigned t = 0; t < 4; t++) {
    const unsigned bits = 8u << t;
    const uint64_t half = (uint64_t)1 << (bits - 1); // -half to half - 1
    for (size_t p = 0; p < sizeof literal_places / sizeof *literal_places; p++)
      for (int off = -2; off < 2; off++) {
        const int64_t most = (int64_t)(half - 1 + (uint64_t)off), least = (int64_t)(0 - half - (uint64_t)off);
        const int64_t pattern = (int64_t)((half + (uint64_t)off) << (64 - bits)) >> (64 - bits);
        char text[4][40];
        snprintf(text[0], sizeof *text, "%llu", (unsigned long long)(half - 1 + (uint64_t)off));
        snprintf(text[1], sizeof *text, "-%llu", (unsigned long long)(half + (uint64_t)off));
        snprintf(text[2], sizeof *text, "- %llu", (unsigned long long)(half + (uint64_t)off));
        snprintf(text[3], sizeof *text, "0x%llx", (unsigned long long)(half + (uint64_t)off));
        check_literal(literal_places[p], types[t], bits, text[0], off < 1 ? &most : NULL);
        check_literal(literal_places[p], types[t], bits, text[1], off < 1 ? &least : NULL);
        check_literal(literal_places[p], types[t], bits, text[2], off < 1 ? &least : NULL);
        check_literal(literal_places[p], types[t], bits, text[3], &pattern);
      }
  }
}
