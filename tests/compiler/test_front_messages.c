// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the messages about wrong sources: every kind of mistake, its place, what was probably meant, and
// the limits.
#include "tests/compiler/front_test.h"

static void golden_messages(const char *name) {
  char path[200];
  size_t size;
  snprintf(path, sizeof path, "tests/golden/front/%s.kiln", name);
  char *text = kiln_test_read(path, &size);
  CHECK(text);
  opened o = open_text(path, text, size, NULL);
  kiln_target target = target_of("sm_90a");
  for (size_t i = 0; o.unit && i < kiln_unit_instance_count(o.unit); i++)
    kiln_unit_lower(o.unit, o.arena, i, 0, 0, &target, &o.d);
  kiln_buffer b = {0};
  kiln_diagnostics_print(&o.d, text, size, &b);
  snprintf(path, sizeof path, "front/%s.txt", name);
  kiln_test_golden(path, (const char *)b.bytes, b.size);
  kiln_buffer_deinit(&b);
  kiln_arena_destroy(o.arena);
  free(text);
}

TEST(messages, mistakes) { golden_messages("mistakes"); }

TEST(messages, a_source_has_at_most_64_mib) {
  enum { MOST = 64 << 20 };
  char *text = malloc(MOST + 2);
  CHECK(text);
  memset(text, ' ', MOST + 1);
  text[MOST + 1] = 0;
  opened o = open_text("large.kiln", text, MOST + 1, NULL);
  CHECK(!o.unit);
  CHECK_INT(o.d.errors, 1);
  CHECK_TEXT(o.d.items[0].text, "the source has 67108865 bytes, the limit is 67108864");
  kiln_arena_destroy(o.arena);
  o = open_text("large.kiln", text, MOST, NULL);
  CHECK_PART(o.d.items[0].text, "kiln 1"); // read, and found to be no source
  kiln_arena_destroy(o.arena);
  free(text);
}

TEST(messages, at_most_twenty_errors) {
  kiln_buffer text = {0};
  kiln_buffer_format(&text, "kiln 1\nkernel k() {\n");
  for (int i = 0; i < 50; i++) kiln_buffer_format(&text, "  let a%d = b%d\n", i, i);
  kiln_buffer_format(&text, "}\n");
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  kiln_unit *unit = kiln_unit_open(arena, "k.kiln", (const char *)text.bytes, text.size, NULL, &d);
  CHECK(unit && !kiln_unit_lower(unit, arena, 0, 0, 0, NULL, &d));
  CHECK_INT(d.errors, KILN_MAX_DIAGNOSTICS);
  CHECK_INT(d.count, KILN_MAX_DIAGNOSTICS + 1);
  CHECK_INT(d.suppressed, 30);
  kiln_arena_destroy(arena);
  kiln_buffer_deinit(&text);
}

static uint32_t warnings_of(const char *body) {
  kiln_buffer text = {0};
  kiln_buffer_format(
      &text, "kiln 1\nkernel k(x: inout *f32, y: inout *f32, n: i32) {\n let i = iota(64)\n %s\n}\n", body);
  opened o = open_text("k.kiln", (const char *)text.bytes, text.size, NULL);
  kiln_target target = target_of("x86-64-v3");
  for (unsigned again = 0; again < 2; again++)
    if (!o.unit || !kiln_unit_lower(o.unit, o.arena, 0, 0, 0, &target, &o.d))
      fail_with(&o, (const char *)text.bytes, text.size);
  uint32_t count = o.d.count;
  kiln_arena_destroy(o.arena);
  kiln_buffer_deinit(&text);
  return count;
}

/// The compiler orders accesses of the same memory itself.
TEST(messages, rereads_are_no_warning) {
  CHECK_INT(warnings_of("store(x + i, 1.0) store(y + i, load(x + 64 - i))"), 0);
  CHECK_INT(warnings_of("for k in 0 .. n { store(y + i, load(x + i + k)) store(x + i, 1.0) }"), 0);
}

// The first message about a kernel, or "".
static const char *message_of(const char *body) {
  static char text[2000];
  kiln_buffer source = {0};
  kiln_buffer_format(
      &source, "kiln 1\nkernel k(x: in *f32, y: out *f32, z: accum *f32, n: i32) @grid(1) {\n %s\n}\n", body);
  opened o = open_text("k.kiln", (const char *)source.bytes, source.size, NULL);
  kiln_target target = target_of("x86-64-v3");
  ir_kernel *kernel = o.unit ? kiln_unit_lower(o.unit, o.arena, 0, 0, 0, &target, &o.d) : NULL;
  CHECK(!kernel == (o.d.errors > 0));
  snprintf(text, sizeof text, "%s", kernel ? "" : o.d.items[0].text);
  kiln_arena_destroy(o.arena);
  kiln_buffer_deinit(&source);
  return text;
}

TEST(messages, access_modes_are_kept) {
  static const char in[] =
      "'x' is 'in', through which nothing is written: expected 'out', 'inout' or 'accum', found ";
  static const char out[] =
      "'y' is 'out', through which nothing is read: expected 'in', 'inout' or 'accum', found ";
  static const struct {
    const char *body, *start, *found;
  } cases[] = {
      {"store(y, load(x)) let o = atomic.add(z, 1.0) let v = load(z)", "", ""},
      {"store(x, 1.0)", in, "'store'"},
      {"store(x + iota(64), zeros(f32[64]))", in, "'store'"},
      {"let o = atomic.add(x, 1.0)", in, "'atomic'"},
      {"let V = view(x, [n], [1], [16]) store(V, [0], zeros(f32[16]))", in, "'view_store'"},
      {"var p = x + 1 for i in 0 .. n { store(p, 1.0) p = p + 1 }", in, "'store'"},
      {"var p = x + 1 while n < load(p) as i32 { store(p, 1.0) p = p + 1 }", in, "'store'"},
      {"let p = if 1 < 2 { yield x } else { yield x + 1 } store(p, 1.0)", in, "'store'"},
      {"let q = select(n > 0, x, y) store(q, 1.0)", in, "'store'"},
      {"let q = if n > 0 { yield y } else { yield x } store(q, 1.0)", in, "'store'"},
      {"var q = y if n > 0 { q = x } store(q + 3, 1.0)", in, "'store'"},
      {"var q = y for i in 0 .. n { store(q, 1.0) q = x }", in, "'store'"},
      {"var q = y while n > 0 { q = x } store(q, 1.0)", in, "'store'"},
      {"let V = view(select(n > 0, y, x), [n], [1], [16]) store(V, [0], zeros(f32[16]))", in, "'view_store'"},
      {"var V = view(y, [n], [1], [16]) if n > 3 { V = view(x, [n], [1], [16]) } store(V, [0], "
       "zeros(f32[16]))",
       in, "'view_store'"},
      {"store(bitcast(bitcast(x, i64) + 4, *f32), 1.0)", in, "'store'"},
      {"let q = select(iota(64) < n, x, y) let o = atomic.add(q, 1.0)", in, "'atomic'"},
      {"let v = load(select(n > 0, x, y))", out, "'load'"},
      {"let v = load(y)", out, "'load'"},
      {"let V = view(y, [n], [1], [16]) let v = load(V, [0])", out, "'view_load'"},
      {"let o = atomic.max(y, 1.0)", out, "'atomic'"},
      {"let V = view(y, [n, 8], [8, 0], [16, 8]) store(V, [0, 0], zeros(f32[16, 8]))",
       "axis 1 of the view has stride 0, which repeats one place: expected a load, found ", "'view_store'"},
      {"let V = if n > 0 { yield view(y, [n, 8], [8, 0], [16, 8]) } else { yield view(y, [n, 8], [8, 1], "
       "[16, "
       "8]) } store(V, [0, 0], zeros(f32[16, 8]))",
       "axis 1 of the view has stride 0, which repeats one place: expected a load, found ", "'view_store'"},
      {"let V = view(x, [n, 8], [8, 0], [16, 8]) store(y + iota(128), reshape(load(V, [0, 0]), [128]))", "",
       ""},
      {"let V = view(y, [n, 8], [8, 0], [16, _]) store(V, [0, 0], zeros(f32[16]))", "", ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char want[300];
    snprintf(want, sizeof want, "%s%s", cases[i].start, cases[i].found);
    const char *got = message_of(cases[i].body);
    if (strcmp(got, want)) FAIL("%s\ngives  %s\nwanted %s", cases[i].body, got, want);
  }
}

static void check_body_refused(const char *body, const char *want) {
  char text[800];
  snprintf(text, sizeof text,
           "kernel k(p: inout *i32, q: inout *f32, h: inout *e4m3, n: i32) @grid(1) {\n %s\n}", body);
  check_refused(text, want);
}

TEST(messages, yield_and_return_have_their_places) {
  static const char *const cases[][2] = {
      {"let t = `if n > 3 { yield 10 }", "must yield as many: found 1 and 0"},
      {"let t = if n > 3 { yield 10 } else `if n > 1 { yield 20 }", "must yield as many: found 1 and 0"},
      {"let t = if n > 3 { yield 1 } else `if n > 1 { yield 1, 2 } else { yield 3 }", "found 2 and 1"},
      {"let t = if n > 3 { if n > 4 { `yield 1 } yield 2 } else { yield 3 }",
       "'yield' in an 'if' with statements after"},
      {"let t = if n > 3 { for i in 0 .. n { `yield 1 } yield 2 } else { yield 3 }", "'yield' inside a loop"},
      {"let t = if n > 3 { `return } else { yield 3 }", "'return' inside an 'if' with values"},
      {"let t = if n > 3 { if n > 5 { `return } yield 2 } else { yield 3 }",
       "'return' inside an 'if' with values"},
      {"let t = if n > 3 { yield 1.0 } else { yield `n }", "value of 'yield': expected f32, found i32"},
      {"let t = if n > 3 { yield n } else if n > 2 { yield `1.0 } else { yield 2 }",
       "expected i32, found a float"},
      {"`yield 1", "'yield' outside of"},
      {"when true { `yield 1 }", "'yield' outside of"},
      {"if n > 1 { `yield 1 }", "'yield' outside of"},
      {"when true { for i in 0 .. n { `return } }", "'return' inside a loop"},
      {"let a = 1 if n > 0 { return } let `a = 2", "'a' is bound already in this block"},
      {"let t = if n > 3 { yield picks(n) } else { yield 3 } }\nfn picks(n) { if n > 1 { `yield 1 } return 2",
       "'yield' outside of"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_body_refused(cases[i][0], cases[i][1]);
}

TEST(messages, nonsense_in_bodies_is_refused) {
  static const char *const cases[][2] = {
      {"let t = load(p + iota(8), iota(8) < n, `mask = iota(8) < 3)",
       "argument 'mask' is given twice, by position and by name"},
      {"store(p + iota(8), 1, iota(8) < n, `mask = iota(8) < 3)", "argument 'mask' is given twice"},
      {"let t = load(p + iota(8), iota(8) < n, 1, `other = 2)", "argument 'other' is given twice"},
      {"let t = reduce.add(iota(8), 0, `axis = 0)", "argument 'axis' is given twice"},
      {"let t = atomic.add(p, 1, n > 0, `mask = n > 1)", "argument 'mask' is given twice"},
      {"store(h, `1000.0)", "1000 does not fit e4m3, whose largest number is 448"},
      {"store(h, `inf)", "e4m3 has no infinity"},
      {"store(h, `500)", "500 does not fit e4m3"},
      {"store(q, `1.0e39)", "1e+39 does not fit f32"},
      {"store(q, `1.0e999)", "number 1.0e999 does not fit f64"},
      {"store(q, 1.0e300 `* 1.0e300)", "overflows f64: 1e+300 * 1e+300"},
      {"var x = 1 as f16 x = x `+ 70000", "70000 does not fit f16, whose largest number is 65504"},
      {"var a = 1 a, `a = 2, 3", "'a' is assigned twice"},
      {"let t = `umin(load(q), 2.0)", "'umin' is for integers: expected an integer type, found f32"},
      {"let t = `udiv(2.0, 3.0)", "'udiv' is for integers"},
      {"let t = `ult(load(q), 2.0)", "'ult' is for integers"},
      {"let t = `reduce.umax(load(q + iota(8)), 0)", "'reduce.umax' is for integers"},
      {"let t = `atomic.umin(q, 1.0)", "'atomic.umin' is for integers"},
      {"let t = n `% 0", "'%': a division by zero"},
      {"let t = iota(8) `/ 0", "'/': a division by zero"},
      {"let t = `urem(n, 0)", "'urem': a division by zero"},
      {"let `s = \"abc\"", "expected a value for 's', found a string"},
      {"when TARGET `== \"sm90\" { }", "'sm90' is neither a processor"},
      {"`assert(1 > 2, \"too small\")", "this 'assert' never holds: too small"},
      {"for i in 0 .. n @stages(`255) { }", "stages: expected a number from 1 to 8, found 255"},
      {"for i in 0 .. n @split(`16) { }", "split: expected a number from 1 to 8, found 16"},
      {"let t = `lod(p)", "unknown function 'lod'; did you mean 'load'?"},
      {"let t = n as `f23", "unknown name 'f23'; did you mean 'f32'?"},
      {"let t = `sigmiod(load(q))", "unknown function 'sigmiod'; did you mean 'sigmoid'?"},
      {"`whlie n > 3 { }", "expected a statement, found 'whlie'; did you mean 'while'?"},
      {"for i in 0 .. n `setp 2 { }",
       "expected '{' at the start of a block, found 'setp'; did you mean 'step'?"},
      {"for i in 0 .. n { } if n > 3 { } `esle { }", "found 'esle'; did you mean 'else'?"},
      {"when `TARGTE == \"sm_90a\" { }", "unknown name 'TARGTE'; did you mean 'TARGET'?"},
      {"`assume(1 > 2)", "this 'assume' never holds"},
      {"for i in 0 .. n @`stags(2) { }", "unknown attribute '@stags' of a loop; did you mean '@stages'?"},
      {"for i in 0 .. n @`fast { }",
       "known are @stages(n) @unroll(n) @split(n) @overlap(n) @flatten @div(n)"},
      {"store(p, 1, `when_ = n > 3)", "'store' has no argument 'when_'; it has: mask cache evict volatile"},
      {"let t = atomic.add(p, 1, order = `relaxd)",
       "'order' of 'atomic': unknown 'relaxd'; did you mean 'relaxed'?"},
      {"let t = atomic.add(p, 1, order = `none)",
       "unknown 'none'; known are relaxed acquire release acq_rel"},
      {"let t = atomic.add(p, 1, order = `\"relaxed\")", "as a word without quotes: relaxed acquire"},
      {"store(q, load(q) `& load(q))", "and: expected i1 or integers, found f32"},
      {"store(q, `sqrt(n))", "sqrt: expected floats, found i32"},
      {"store(p, select(n `< 3000000000, 1, 2))",
       "3000000000 does not fit i32; hexadecimal integers are bit patterns"},
      {"`for i in 0 .. 2147483648 { }", "2147483648 does not fit i32; hexadecimal"},
      {"store(p, n `+ 4294967296)", "4294967296 does not fit i32"},
      {"let t = (n as i8) `+ 128", "128 does not fit i8; hexadecimal"},
      {"let t = (n as i64) * 3000000000 + ((0xff << 32) `| n)", "does not fit i32"},
      {"let t = n + 0xb2d05e00 + (0xff << 24) + (255 | 0xffffff00) `+ (255 << 24)",
       "4278190080 does not fit i32"},
      {"let t = hint(n, div = `2147483648)", "div: no i32 but 0 is a multiple of 2147483648"},
      {"for i in 0 .. n @div(`2147483648) { }", "'@div': no i32 but 0 is a multiple of 2147483648"},
      {"for i in 0 .. n step `3 @div(2) { }", "'@div': the counter grows by 3, expected a multiple of 2"},
      {"for i in `3 .. n step 2 @div(2) { }", "'@div': the counter begins at 3, expected a multiple of 2"},
      {"let t = `dot(zeros(f32[16, 32]), zeros(f32[16, 32]))",
       "second operand (M x K times K x N): expected f32[32, 32], found f32[16, 32]"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_body_refused(cases[i][0], cases[i][1]);
}

// An error inside a combiner of several results is one message where it stands; it was read past its single
// value once.
TEST(messages, an_error_inside_a_combiner) {
  static const char text[] = "kiln 1\nfn worse(a, b, c, d, e, f) { return a + nothing, b, c }\n"
                             "kernel k(x: out *f32) @grid(1) {\n  let v = full(f32[8], 1.0)\n"
                             "  let p, q, r = reduce(worse, 0, v, v, v)\n  store(x, p + q + r)\n}\n";
  kiln_target target = target_of("host");
  opened o = open_text("combiner.kiln", text, sizeof text - 1, NULL);
  CHECK(o.unit);
  CHECK(!kiln_unit_lower(o.unit, o.arena, 0, 0, 0, &target, &o.d));
  CHECK_INT(o.d.errors, 1);
  CHECK_INT(o.d.items[0].line, 2);
  CHECK(strstr(o.d.items[0].text, "nothing"));
  kiln_arena_destroy(o.arena);
}

// What sort, topk, gather and scatter cannot take.
TEST(messages, orders_and_indices_that_do_not_fit) {
  static const struct {
    const char *call, *want;
  } rows[] = {
      {"sort(i)", NULL},
      {"topk(i, 256)", "'topk': expected at most 128 elements, found 256"},
      {"topk(i, 3)", "an extent must be a power of two, found 3"},
      {"sort(i, first = 512)", "'sort': expected at most 128 elements, found 512"},
      {"sort(i == 3)", "'sort': expected a tile of integers or floats, found i1[128]"},
      {"pick(topk(i as i64, 4, indices = true))",
       "'topk' with indices: expected elements of at most 32 bits, found i64[128]"},
      {"pick(sort(i as f64, indices = true))",
       "'sort' with indices: expected elements of at most 32 bits, found f64[128]"},
      {"gather(i, i, 0)", NULL},
      {"gather(i, i, 1)", "axis: expected a number from 0 to 0, found 1"},
      {"gather(i, 3, 0)", "'gather': expected a tile, found i32"},
      {"gather(i, i as i64, 0)", "gather: expected an index of i32, found i64[128]"},
      {"gather(reshape(i, [2, 64]), reshape(i, [4, 32]), 1)", "gather: extents differ apart from the axis"},
      {"scatter(i, i, 1)", NULL},
      {"scatter(i as i64, reshape(i, [2, 64]), 1) as i32", NULL},
      {"scatter(3, i, i)", "'scatter': expected a tile, found i32"},
      {"scatter(i, 3, i)", "'scatter': expected a tile, found i32"},
      {"scatter(i, i, reshape(i, [2, 64]))", "values of 'scatter': expected i32[128], found i32[2, 64]"},
      {"scatter(i, i as i64, 1)", "scatter: expected a tile of indices of i32, found i64[128]"},
      {"scatter(i as i16, i, 1)", "scatter: expected a tile of one axis, of i32 or i64, found i16[128]"},
      {"scatter(reshape(i, [2, 64]), i, 1)",
       "scatter: expected a tile of one axis, of i32 or i64, found i32[2, 64]"},
      {"scatter(i as f32, i, 1.0) as i32", "scatter: expected integers, found f32[128]"}};
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    char text[400];
    kiln_arena *arena = kiln_arena_create();
    kiln_diagnostics d = {.arena = arena};
    kiln_target target;
    kiln_error err;
    CHECK_OK(kiln_target_parse("host", &target, &err), err);
    snprintf(text, sizeof text,
             "kiln 1\nfn pick(v, at) { return at }\nkernel k(o: out *i32) @grid(1) {\n  let i = iota(128)\n  "
             "let s = %s\n  store(o, reduce.add(reshape(s, [128]), 0))\n}\n",
             rows[r].call);
    kiln_unit *unit = kiln_unit_open(arena, "k.kiln", text, strlen(text), NULL, &d);
    bool taken = unit && kiln_unit_lower(unit, arena, 0, 0, 0, &target, &d);
    if (taken != !rows[r].want) FAIL("%s: %s", rows[r].call, taken ? "taken" : d.items[0].text);
    if (!taken && (!strstr(d.items[0].text, rows[r].want) || d.items[0].line != 5))
      FAIL("%s: line %u: %s", rows[r].call, d.items[0].line, d.items[0].text);
    kiln_arena_destroy(arena);
  }
}

// Deep nesting, endless operators, huge programs and rubbish end in messages.
TEST(messages, limits_are_errors) {
  static const struct {
    const char *head, *part, *tail;
    int count;
  } cases[] = {
      {"kiln 1\nkernel k(n: i32) { let a = ", "(", "", 100000},
      {"kiln 1\nkernel k(n: i32) { let a = n", " + n", "\n}", 1000000},
      {"kiln 1\nkernel k(n: i32) { let a = ", "-", "n }", 100000},
      {"kiln 1\nkernel k(n: i32) { ", "if true { ", "", 50000},
      {"kiln 1\nkernel k(n: i32) { let a = n", " as i32", "\n}", 1000000},
      {"kiln 1\nkernel k(n: i32) { let a = n", "[_]", "\n}", 1000000},
      {"kiln 1\nkernel k(n: i32) { let a = n", " + (n + n) as i32", "\n}", 1000},
      {"kiln 1\nkernel k(n: i32) @grid(n", " + n", ") {}", 1000000},
      {"kiln 1\n", "fn f(x) { return f(f(x)) }\n", "", 3},
      {"", "}{)(", "", 10000},
      {"kiln 1 kernel k(n: i32) { let a = 1", "0", "}", 5000},
      {"kiln 1 kernel k(x: ", "*", "f32) {}", 5000},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kiln_buffer b = {0};
    kiln_buffer_format(&b, "%s", cases[i].head);
    for (int j = 0; j < cases[i].count; j++) kiln_buffer_bytes(&b, cases[i].part, strlen(cases[i].part));
    kiln_buffer_format(&b, "%s", cases[i].tail);
    kiln_arena *arena = kiln_arena_create();
    kiln_diagnostics d = {.arena = arena};
    kiln_unit *unit = kiln_unit_open(arena, "deep.kiln", (const char *)b.bytes, b.size, NULL, &d);
    if (unit) kiln_unit_lower(unit, arena, 0, 0, 0, NULL, &d);
    if (!d.errors) FAIL("case %zu: expected an error", i);
    kiln_arena_destroy(arena);
    kiln_buffer_deinit(&b);
  }
  // Helpers that double: 2^40 calls are stopped by the limit on steps.
  kiln_buffer b = {0};
  kiln_buffer_format(&b, "kiln 1\nfn g0(x) { return x + 1 }\n");
  for (int i = 1; i <= 40; i++) kiln_buffer_format(&b, "fn g%d(x) { return g%d(g%d(x)) }\n", i, i - 1, i - 1);
  kiln_buffer_format(&b, "kernel k(n: i32, o: out *i32) { store(o, g40(n)) }\n");
  opened o = open_text("many.kiln", (const char *)b.bytes, b.size, NULL);
  if (!o.unit) fail_with(&o, (const char *)b.bytes, b.size);
  CHECK(!kiln_unit_lower(o.unit, o.arena, 0, 0, 0, NULL, &o.d));
  CHECK(o.d.errors > 0);
  kiln_arena_destroy(o.arena);
  kiln_buffer_deinit(&b);
}

TEST(messages, one_error_for_deep_nesting) {
  kiln_buffer text = {0};
  kiln_buffer_format(&text, "kiln 1\nkernel k(n: i32) {\n  let a = ");
  for (int i = 0; i < 300; i++) kiln_buffer_u8(&text, '(');
  kiln_buffer_format(&text, "1\n}\nkernel j(n: i32) {}\n");
  opened o = open_text("k.kiln", (const char *)text.bytes, text.size, NULL);
  CHECK_INT(o.d.errors, 1);
  CHECK(strstr(o.d.items[0].text, "nesting is deeper than the limit"));
  kiln_arena_destroy(o.arena);
  kiln_buffer_deinit(&text);
}

// What stands in the place of a block is told once, and what follows is read.
TEST(messages, one_error_for_a_missing_block) {
  static const char *const heads[] = {"fn f(a: i32) -> i32 { return a }", "fn f(a: i32) return a",
                                      "kernel k(x: inout *f32) @grid(1) store(x, 1.0)",
                                      "kernel k(x: inout *f32) @grid(1) ) { store(x, 1.0) }"};
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
    char text[200];
    int size = snprintf(text, sizeof text, "kiln 1\n%s\nkernel j(x: inout *f32) @grid(1) { store(x, y) }\n",
                        heads[i]);
    opened o = open_text("k.kiln", text, (size_t)size, NULL);
    if (o.d.errors != 2) FAIL("%s: %u errors, expected 2", heads[i], o.d.errors);
    CHECK(strstr(o.d.items[0].text, "expected '{' at the start of a block"));
    CHECK(strstr(o.d.items[1].text, "unknown name 'y'"));
    kiln_arena_destroy(o.arena);
  }
}

// Two letters of a named argument are swapped, for each that an operation has: it is found again, or another
// name of the operation that is as near.
TEST(messages, named_arguments_that_were_probably_meant) {
  static const struct {
    const char *named, *form;
  } all[] = {
#define OPERATION(name, handler, least, most, code, flags, named, form) {named, form},
#include "compiler/front/operations.def"
#undef OPERATION
  };
  unsigned tried = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    char words[100], body[200], want[60];
    snprintf(words, sizeof words, "%s", all[i].named);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) {
      size_t at = strlen(word) / 2;
      if (at < 1 || word[at] == word[at - 1]) continue;
      snprintf(want, sizeof want, "did you mean '%s'?", word);
      char first = word[at - 1];
      word[at - 1] = word[at], word[at] = first;
      snprintf(body, sizeof body, "let t = %.*s(`%s = 1)", (int)strcspn(all[i].form, "("), all[i].form, word);
      check_body_refused(body, want);
      tried++;
    }
  }
  CHECK(tried > 20);
}

// One message for a file that is no text.
TEST(messages, what_is_no_text) {
  static const struct {
    const char *text;
    size_t size;
    unsigned line, column;
  } files[] = {{"\xff\xfek\0i\0l\0n\0 \0"
                "1\0\n\0",
                16, 1, 4}, // as some editors write UTF-16
               {"kiln 1\nkernel k(n: i32) { }\n\0", 30, 3, 1},
               {"\177ELF\002\001\001\0\0\0\0\0", 12, 1, 8}};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    opened o = open_text("k.kiln", files[i].text, files[i].size, NULL);
    CHECK_INT(o.d.errors, 1);
    CHECK(strstr(o.d.items[0].text, "expected text in UTF-8, found a zero byte"));
    CHECK_INT(o.d.items[0].line, files[i].line);
    CHECK_INT(o.d.items[0].column, files[i].column);
    kiln_arena_destroy(o.arena);
  }
}

// The place at fault is shown with its caret however far to the right it is.
TEST(messages, long_lines_have_a_caret) {
  for (unsigned far = 150; far < 700; far += 50) {
    kiln_buffer text = {0}, b = {0};
    kiln_buffer_format(&text, "kiln 1\nkernel k(n: i32) { let a = ");
    while (text.size < far) kiln_buffer_format(&text, "%s + ", text.size % 3 ? "1" : "\"\xc3\xa4\"");
    kiln_buffer_format(&text, "nothing + 1 }\n");
    opened o = open_text("k.kiln", (const char *)text.bytes, text.size, NULL);
    CHECK(o.d.errors || (o.unit && !kiln_unit_lower(o.unit, o.arena, 0, 0, 0, NULL, &o.d)));
    for (uint32_t i = 0; i < o.d.count; i++)
      if (strstr(o.d.items[i].text, "nothing")) o.d.items[0] = o.d.items[i], o.d.count = 1;
    kiln_diagnostics_print(&o.d, (const char *)text.bytes, text.size, &b);
    kiln_buffer_u8(&b, 0);
    const char *shown = strstr((const char *)b.bytes, "nothing +"),
               *caret = strrchr((const char *)b.bytes, '^');
    if (!shown || !caret) FAIL("%s", b.bytes);
    unsigned columns = 0, spaces = 0;
    for (const char *c = shown; c[-1] != '\n'; c--) columns += ((unsigned char)c[-1] & 0xc0) != 0x80;
    for (const char *c = caret; c[-1] != '\n'; c--) spaces++;
    if (columns != spaces) FAIL("the caret is in column %u, the name in %u:\n%s", spaces, columns, b.bytes);
    kiln_arena_destroy(o.arena);
    kiln_buffer_deinit(&text);
    kiln_buffer_deinit(&b);
  }
}

// A message never hands bytes on that a terminal acts upon, and the caret stands under its character.
TEST(messages, messages_are_printable) {
  static const char text[] = "\xef\xbb\xbfkiln 1 // \x1b[31m \xff \xc3\xa4\nkernel k(n: i32) {\n  "
                             "/*\xc3\xa4\x1b\xe2\x80\xae*/ let a = "
                             "\x01 b\n}\n";
  opened o = open_text("k.kiln", text, sizeof text - 1, NULL);
  kiln_buffer b = {0};
  CHECK(o.d.errors > 0);
  kiln_diagnostics_print(&o.d, text, sizeof text - 1, &b);
  for (size_t i = 0; i < b.size; i++) CHECK(b.bytes[i] == '\n' || (b.bytes[i] >= 0x20 && b.bytes[i] != 0x7f));
  kiln_buffer_u8(&b, 0);
  CHECK(!strstr((const char *)b.bytes, "\xe2\x80\xae"));
  CHECK(strstr((const char *)b.bytes, "  /*\xc3\xa4????*/ let"));
  kiln_arena_destroy(o.arena);
  kiln_buffer_deinit(&b);
}

/// How many warnings a source gets for sm_90a, each at line `line` (0: any) with `part`.
static uint32_t loop_warnings(const char *text, unsigned line, const char *part) {
  opened o = open_text("k.kiln", text, strlen(text), NULL);
  kiln_target target = target_of("sm_90a");
  if (!o.unit || !kiln_unit_lower(o.unit, o.arena, 0, 0, 0, &target, &o.d)) fail_with(&o, text, strlen(text));
  uint32_t count = o.d.count;
  for (uint32_t i = 0; i < count; i++)
    if (!strstr(o.d.items[i].text, part) || (line && o.d.items[i].line != line))
      FAIL("%s\nline %u, expected '%s' at line %u: %s", text, o.d.items[i].line, part, line,
           o.d.items[i].text);
  kiln_arena_destroy(o.arena);
  return count;
}

static uint32_t stage_warnings(const char *text) {
  return loop_warnings(text, 0, "stages = 3 has no effect");
}

TEST(messages, warns_of_stages_without_effect) {
  static const char head[] = "kiln 1\nkernel k(x: in *f16, y: inout *f32, n: i32)",
                    dot[] = "var c = zeros(f32[16, 16]) for i in 0 .. n { let t = load(x + iota(16)[:, _] * "
                            "16 + iota(16)[_, :] + i) c = dot(t, t, c) } "
                            "store(y + iota(16)[:, _] * 16 + iota(16)[_, :], c) }";
  char text[600];
  snprintf(text, sizeof text, "%s @config(stages = 3) {\n store(y, 1.0) }\n", head);
  CHECK_INT(stage_warnings(text), 1);
  snprintf(text, sizeof text, "%s {\n for i in 0 .. n @stages(3) { store(y, load(y)) } }\n", head);
  CHECK(stage_warnings(text) >= 1);
  snprintf(text, sizeof text, "%s @config(stages = 3) {\n%s\n", head, dot);
  CHECK_INT(stage_warnings(text), 0);
}

// At the loop, with what would have one.
TEST(messages, warns_of_split_without_effect) {
  static const char sums[] = "sums of products", top[] = "at the top of a kernel";
  static const struct {
    const char *body, *part;
  } rows[] = {
      {"var c = S\nfor i in 0 .. n @split(4) { c = dot(t, t, c) }\nstore(Y, c)", NULL},
      {"var c = S var d = S\nfor i in 0 .. n @split(2) { c = dot(t, t, dot(t, t, c)) d = dot(t, t, d) }\n"
       "store(Y, c + d)",
       NULL},
      {"var c = S\nfor i in 0 .. n @split(1) { c = c + 1.0 }\nstore(Y, c)", NULL},
      {"var c = S\nfor i in 0 .. n @split(4) { c = c + 1.0 }\nstore(Y, c)", sums},
      {"var c = S var d = 0\nfor i in 0 .. n @split(4) { c = dot(t, t, c) d = d + i }\nstore(Y, c + d as "
       "f32)",
       sums},
      {"var c = S\nfor i in 0 .. n @split(4) { if i > 3 { c = dot(t, t, c) } }\nstore(Y, c)", sums},
      {"let c = S\nfor i in 0 .. n @split(4) { store(Y, c) }", sums},
      {"var c = S if n > 3 {\nfor i in 0 .. n @split(4) { c = dot(t, t, c) } }\nstore(Y, c)", top},
      {"var c = S var i = 0\nwhile i < n @split(4) { c = dot(t, t, c) i = i + 1 }\nstore(Y, c)", top},
  };
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    char body[600] = "", text[1200];
    for (const char *c = rows[r].body; *c; c++) {
      const char *word = *c == 'S' ? "zeros(f32[16, 16])" : "y + iota(16)[:, _] * 16 + iota(16)[_, :]";
      size_t size = strlen(body);
      snprintf(body + size, sizeof body - size, *c == 'S' || *c == 'Y' ? "%s" : "%.1s",
               *c == 'S' || *c == 'Y' ? word : c);
    }
    snprintf(text, sizeof text,
             "kiln 1\nkernel k(y: inout *f32, n: i32) { let t = zeros(f16[16, 16])\n%s }\n", body);
    CHECK_INT(loop_warnings(text, 4, rows[r].part ? rows[r].part : ""), rows[r].part != NULL);
  }
}
