// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The language from text to canonical bytes: kernels of the documents and of the library, every operation
// printed and read back, mistakes and their messages.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/expr.h"
#include "compiler/front.h"
#include "tests/harness.h"

typedef struct opened {
  kiln_arena *arena;
  kiln_diagnostics d;
  kiln_unit *unit;
} opened;

static opened open_text(const char *file, const char *text, size_t size, const kiln_front_options *options) {
  opened o = {.arena = kiln_arena_create()};
  o.d = (kiln_diagnostics){.arena = o.arena, .limit = 100};
  o.unit = kiln_unit_open(o.arena, file, text, size, options, &o.d);
  return o;
}

static void fail_with(const opened *o, const char *text, size_t size) {
  kiln_buffer b = {0};
  kiln_diagnostics_print(&o->d, text, size, &b);
  FAIL("%.*s", (int)b.size, (const char *)b.bytes);
}

static kiln_target target_of(const char *name) {
  kiln_target t;
  kiln_error err;
  CHECK_OK(kiln_target_parse(name, &t, &err), err);
  return t;
}

static bool same_bytes(const kiln_buffer *a, const kiln_buffer *b) {
  return a->size == b->size && !memcmp(a->bytes, b->bytes, a->size);
}

// Encodes, decodes, encodes again; prints, reads, encodes again: all the same bytes.
static void check_round_trips(const opened *o, ir_kernel *kernel, const char *what) {
  kiln_target target = target_of("sm_90a");
  kiln_error err;
  kiln_buffer bytes = {0}, again = {0}, text = {0}, back = {0};
  ir_kernel *decoded;
  kiln_canonical_encode(kernel, &bytes);
  if (kiln_canonical_decode(o->arena, bytes.bytes, bytes.size, "again", &decoded, &err) != KILN_OK)
    FAIL("%s: %s", what, err.text);
  kiln_canonical_encode(decoded, &again);
  if (!same_bytes(&bytes, &again)) FAIL("%s: decoding changed the bytes", what);
  kiln_print_ir(decoded, &text);
  opened p = open_text("printed.kiln", (const char *)text.bytes, text.size, NULL);
  ir_kernel *read = p.unit ? kiln_unit_lower(p.unit, p.arena, 0, 0, 0, &target, &p.d) : NULL;
  if (!read) fail_with(&p, (const char *)text.bytes, text.size);
  kiln_canonical_encode(read, &back);
  if (!same_bytes(&bytes, &back))
    FAIL("%s: printing and reading changed the bytes\n%.*s", what, (int)text.size, (const char *)text.bytes);
  kiln_arena_destroy(p.arena);
  kiln_buffer_deinit(&bytes);
  kiln_buffer_deinit(&again);
  kiln_buffer_deinit(&text);
  kiln_buffer_deinit(&back);
}

static void check_text(const char *path, const char *text, size_t size) {
  kiln_front_options options = {.all_configs = true};
  opened o = open_text(path, text, size, &options);
  kiln_target target = target_of("sm_90a");
  if (!o.unit) fail_with(&o, text, size);
  for (size_t i = 0; i < kiln_unit_instance_count(o.unit); i++) {
    const kiln_interface *f = kiln_unit_interface(o.unit, i);
    for (uint32_t c = 0; c < f->config_count; c++) {
      for (uint32_t v = 0; v < f->variant_count; v++) {
        // A config of other processors is lowered without one: none of these sources asks for its target.
        bool has = kiln_unit_has_config(o.unit, i, c, &target);
        ir_kernel *kernel = kiln_unit_lower(o.unit, o.arena, i, c, v, has ? &target : NULL, &o.d);
        if (!kernel) fail_with(&o, text, size);
        check_round_trips(&o, kernel, f->name);
      }
    }
  }
  kiln_arena_destroy(o.arena);
}

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

TEST(language, mistakes) { golden_messages("mistakes"); }

TEST(language, at_most_twenty_errors) {
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

TEST(language, warns_of_missing_barrier) {
  CHECK_INT(warnings_of("store(x + i, 1.0) store(y + i, load(x + 64 - i))"), 1);
  CHECK_INT(warnings_of("store(x + i, 1.0) barrier() store(y + i, load(x + 64 - i))"), 0);
  CHECK_INT(warnings_of("let p = x + i store(p, 1.0) store(y + i, load(p))"), 0);
  CHECK_INT(warnings_of("store(y + i, load(x + i)) store(x + i, 1.0)"), 0);
  CHECK_INT(warnings_of("for k in 0 .. n { store(y + i, load(x + i + k)) store(x + i, 1.0) }"), 1);
  CHECK_INT(warnings_of("if n > 0 { store(x + i, 1.0) } else { } store(y + i, load(x + i + 1))"), 1);
  CHECK_INT(warnings_of("if n > 0 { store(x + i, 1.0) } else { store(y + i, load(x + i)) }"), 0);
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

TEST(language, access_modes_are_kept) {
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

// ------------------------------------------------------------------------------------------- bytes

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

// --------------------------------------------------------------------------------------- interface

TEST(language, a_kernel_without_grid_states_one_program) {
  static const char text[] = "kiln 1\nkernel put(y: *f32) {\n  store(y, 2.0)\n}\n";
  opened o = open_text("k.kiln", text, sizeof text - 1, NULL);
  if (!o.unit) fail_with(&o, text, sizeof text - 1);
  const kiln_config_record *config = kiln_unit_interface(o.unit, 0)->configs;
  int64_t params[] = {0}, v = 0;
  CHECK(config->grid[0].size > 0);
  CHECK(kiln_expr_eval(config->grid[0].bytes, config->grid[0].size, params, &v));
  CHECK_INT(v, 1);
  CHECK_INT(config->grid[1].size, 0);
}

TEST(language, interface_of_softmax) {
  size_t size;
  char *text = kiln_test_read("tests/golden/front/five.kiln", &size);
  const char *extra[] = {"softmax[T=f16]", "softmax[T=bf16]"};
  kiln_front_options options = {.instances = extra, .instance_count = 2};
  opened o = open_text("five.kiln", text, size, &options);
  if (!o.unit) fail_with(&o, text, size);
  CHECK_INT(kiln_unit_instance_count(o.unit), 7);
  const kiln_interface *f = kiln_unit_interface(o.unit, 1);
  CHECK_TEXT(f->name, "softmax[T=bf16]");
  CHECK_TEXT(f->symbol, "kiln_softmax_bf16");
  CHECK_TEXT(kiln_unit_interface(o.unit, 6)->name, "softmax[T=f16]");
  CHECK_INT(f->param_count, 6);
  CHECK_INT(f->config_count, 3);
  CHECK_TEXT(f->configs[1].text, "BLOCK=4096,warps=8");
  CHECK_INT(f->variant_count, 2);
  CHECK_TEXT(f->variants[1].text, "");
  CHECK_INT(f->variants[0].condition_count, 3);
  int64_t params[] = {0, 0, 77, 4096, 4096, 8}, v;
  CHECK(kiln_expr_eval(f->configs[1].grid[0].bytes, f->configs[1].grid[0].size, params, &v));
  CHECK_INT(v, 77);
  CHECK(kiln_expr_eval(f->configs[0].require[0].bytes, f->configs[0].require[0].size, params, &v));
  CHECK_INT(v, 0);
  CHECK(kiln_expr_eval(f->variants[0].conditions[2].bytes, f->variants[0].conditions[2].size, params, &v));
  CHECK_INT(v, 0);
  kiln_target target = target_of("sm_90a");
  ir_kernel *kernel = kiln_unit_lower(o.unit, o.arena, 1, 1, 0, &target, &o.d);
  if (!kernel) fail_with(&o, text, size);
  CHECK_INT(kernel->params[3].div, 16);
  CHECK_INT(kernel->params[3].hi, 4096);
  CHECK_INT(kernel->warps, 8);
  kiln_arena_destroy(o.arena);
  free(text);
}

// Deep nesting, endless operators, huge programs and rubbish end in messages.
TEST(language, limits_are_errors) {
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

static uint32_t count_ops(const ir_block *block, ir_opcode code) {
  uint32_t count = 0;
  for (const ir_op *op = block->first; op; op = op->next) {
    count += op->code == code;
    for (uint32_t i = 0; i < op->region_count; i++) count += count_ops(op->regions[i], code);
  }
  return count;
}

TEST(language, facts_of_variants) {
  const char *text =
      "kiln 1\nkernel k(x: inout *f32, n: i32 @div(4), m: i64, s: i32 @range(0, 100)) @grid(cdiv(s, 8))\n"
      "  @variant(x % 32 == 0, n % 6 == 0, m == 5, s < 10) @variant(n < m, m >= 7)\n{ store(x + n, (m as "
      "f32) + (s as f32)) }\n";
  opened o = open_text("k.kiln", text, strlen(text), NULL);
  kiln_target target = target_of("gfx942");
  if (!o.unit) fail_with(&o, text, strlen(text));
  CHECK_INT(kiln_unit_interface(o.unit, 0)->variant_count, 3);
  ir_kernel *first = kiln_unit_lower(o.unit, o.arena, 0, 0, 0, &target, &o.d);
  ir_kernel *second = kiln_unit_lower(o.unit, o.arena, 0, 0, 1, &target, &o.d);
  ir_kernel *generic = kiln_unit_lower(o.unit, o.arena, 0, 0, 2, &target, &o.d);
  if (!first || !second || !generic) fail_with(&o, text, strlen(text));
  CHECK_INT(first->params[0].align, 32);
  CHECK_INT(first->params[1].div, 12);
  CHECK(first->params[2].has_range && first->params[2].lo == 5 && first->params[2].hi == 5);
  CHECK(first->params[3].lo == 0 && first->params[3].hi == 9);
  CHECK_INT(first->grid_limit[0], 2);
  CHECK_INT(count_ops(first->body, IR_ASSUME), 0);
  CHECK_INT(count_ops(second->body, IR_ASSUME), 1);
  CHECK_INT(second->params[2].lo, 7);
  CHECK_INT(generic->params[1].div, 4);
  CHECK_INT(generic->params[0].align, 0);
  CHECK_INT(generic->grid_limit[0], 13);
  kiln_arena_destroy(o.arena);
}

// The first error of a source, or "".
static void check_error(const char *text, const char *want) {
  opened o = open_text("k.kiln", text, strlen(text), NULL);
  const char *got = o.d.count ? o.d.items[0].text : "";
  if (!strstr(got, want)) FAIL("expected '%s', found '%s'", want, got);
  kiln_arena_destroy(o.arena);
}

TEST(language, names_and_configs_that_clash) {
  check_error("kiln 1\nkernel k[A = 1](n: i32) @instance(A = 1) @instance(A = 1) {}\n",
              "instance k[A=1] is there already");
  check_error("kiln 1\nkernel k[A = 1](n: i32) {}\nkernel k_1(n: i32) {}\n", "have one C name, kiln_k_1");
  check_error("kiln 1\nkernel k[B: tune = 1](n: i32) @require(n > 0) @config(B = 2) @config(B = 2) {}\n",
              "'@config' is there already: B=2,warps=4");
  check_error("kiln 1\nkernel k[B: tune = 1](n: i32) @require(B > 4) {}\n",
              "no config whose @require can hold");
  check_error("kiln 1\nkernel k[B: tune = 1](n: i32) @variant(n % B == 0) {}\n", "unknown name 'B'");
  check_error("kiln 1\nkernel k(n: i32) @grid(TARGET == \"host\") {}\n", "depends on the target");
  check_error("kiln 1\nfn load(x) { return x }\n", "'load' is the name of an operation");
  check_error("kiln 2\nkernel k() {}\n", "expected language version 1, found 2");
  check_error("kernel k() {}\n", "expected 'kiln' and a version");
}

// A build compiles what the launch rule can reach: after a config that always holds, nothing is.
TEST(language, configs_that_are_reached) {
  const char *text = "kiln 1\nkernel k[B: tune = 1](n: i32) @require(n <= B * 1024 | B == 8) @config(B = 2) "
                     "@config(B = 8) @config(B = 4) {}\n";
  for (unsigned all = 0; all < 2; all++) {
    kiln_front_options options = {.all_configs = all};
    opened o = open_text("k.kiln", text, strlen(text), &options);
    if (!o.unit) fail_with(&o, text, strlen(text));
    CHECK_INT(kiln_unit_interface(o.unit, 0)->config_count, all ? 3 : 2);
    kiln_arena_destroy(o.arena);
  }
}

static void check_reached(const char *target, uint32_t first, unsigned reached, const opened *o) {
  kiln_target t = target_of(target);
  unsigned found = 0;
  for (uint32_t c = 0; c < 32; c++) found |= (unsigned)kiln_unit_has_config(o->unit, 0, c, &t) << c;
  if (found != reached) FAIL("%s: expected configs %#x, found %#x", target, reached, found);
  CHECK_INT(kiln_unit_first_config(o->unit, 0, &t), first);
}

// Configs may be for some processors; which are reached is decided for each.
TEST(language, configs_for_some_processors) {
  static const char text[] =
      "kiln 1\nkernel k[B: tune = 1](x: out *i32, n: i32) @require(n <= B * 1024 | B >= 8)\n"
      "  @config(B = 4, targets = \"sm_90a\") @config(B = 8, targets = \" sm_90a , gfx94*\")\n"
      "  @config(B = 16, targets = \"host\") @config(B = 32, targets = \"x86-64-v3\") @config(B = 64)\n"
      "  @config(B = 64, warps = 8) { store(x, B) }\n";
  static const char *const texts[] = {"B=4,warps=4,targets=sm_90a", "B=8,warps=4,targets=sm_90a|gfx94*",
                                      "B=16,warps=4,targets=host", "B=64,warps=4"};
  opened o = open_text("k.kiln", text, sizeof text - 1, NULL);
  if (!o.unit) fail_with(&o, text, sizeof text - 1);
  CHECK_INT(kiln_unit_interface(o.unit, 0)->config_count, 4);
  for (unsigned i = 0; i < 4; i++) CHECK_TEXT(kiln_unit_interface(o.unit, 0)->configs[i].text, texts[i]);
  check_reached("sm_90a", 0, 3, &o);
  check_reached("sm_90", 3, 8, &o);
  check_reached("gfx942:xnack-", 1, 2, &o);
  check_reached("gfx950", 3, 8, &o);
  check_reached("x86-64-v4", 2, 4, &o);
  check_reached("native", 2, 4, &o);
  kiln_target target = target_of("sm_80");
  CHECK(!kiln_unit_lower(o.unit, o.arena, 0, 1, 0, &target, &o.d));
  CHECK_TEXT(o.d.items[o.d.count - 1].text, "k has no config B=8,warps=4,targets=sm_90a|gfx94* for sm_80");
  kiln_front_options options = {.all_configs = true};
  kiln_arena_destroy(o.arena);
  o = open_text("k.kiln", text, sizeof text - 1, &options);
  CHECK(o.unit && kiln_unit_interface(o.unit, 0)->config_count == 6);
  check_reached("sm_90a", 0, 0x33, &o);
  check_reached("x86-64-v3", 2, 0x3c, &o);
  check_reached("native", 2, 0x34, &o);
  kiln_arena_destroy(o.arena);
}

// A clause changes neither the kernel nor what it is called.
TEST(language, bytes_with_and_without_targets) {
  static const char *const clauses[] = {"", ", targets = \"sm_90a\"", ", targets = \"sm_*, host\""};
  kiln_target target = target_of("sm_90a");
  kiln_buffer bytes[3] = {{0}};
  for (unsigned i = 0; i < 3; i++) {
    char text[300];
    snprintf(text, sizeof text,
             "kiln 1\nkernel k[B: tune = 1](x: out *i32) @config(B = 2%s) { store(x, B) }\n", clauses[i]);
    opened o = open_text("k.kiln", text, strlen(text), NULL);
    ir_kernel *kernel = o.unit ? kiln_unit_lower(o.unit, o.arena, 0, 0, 0, &target, &o.d) : NULL;
    if (!kernel) fail_with(&o, text, strlen(text));
    CHECK(kiln_canonical_encode(kernel, &bytes[i]));
    CHECK(same_bytes(&bytes[0], &bytes[i]));
    kiln_arena_destroy(o.arena);
  }
  for (unsigned i = 0; i < 3; i++) kiln_buffer_deinit(&bytes[i]);
}

TEST(language, targets_that_are_none) {
  static const struct {
    const char *value, *message;
  } rows[] = {
      {"\"sm90a\"", "'targets': no target is called 'sm90a'; did you mean 'sm_90a'?"},
      {"\"sm_90a, hots\"", "no target is called 'hots'; did you mean 'host'?"},
      {"\"gfx49*\"", "no target has a name like 'gfx49*'"},
      {"\"*\"", "no target has a name like '*'"},
      {"\"sm_*a*\"", "no target has a name like 'sm_*a*'"},
      {"\"\"", "expected the name of a processor, found none"},
      {"\"sm_90a,\"", "expected the name of a processor, found none"},
      {"\"gfx942:xnack-\"", "expected a processor without settings, found 'gfx942:xnack-'"},
      {"\"native\"", "'native' is another processor on each machine"},
      {"\"sm_80, host, sm_80\"", "'sm_80' is there already"},
      {"sm_90a", "'targets': expected a text such as \"sm_90a, gfx94*\""},
      {"\"host\", targets = \"sm_80\"", "'@config': 'targets' is there already"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[300];
    snprintf(text, sizeof text,
             "kiln 1\nkernel k(x: out *i32)\n  @config(warps = 1, targets = %s) { store(x, 1) }\n",
             rows[i].value);
    check_error(text, rows[i].message);
    opened o = open_text("k.kiln", text, strlen(text), NULL);
    CHECK_INT(o.d.errors, 1);
    CHECK_INT(o.d.items[0].line, 3);
    CHECK(o.d.items[0].column > 20);
    kiln_arena_destroy(o.arena);
  }
}

// A type decides which instances have a config.
TEST(language, requirements_on_types) {
  static const char text[] =
      "kiln 1\nkernel k[T: type = f32, B: tune = 1](x: out *T, n: i32)\n"
      "  @require(B == 1 | T != f32 & n > B)\n  @instance(T = f32) @instance(T = f16)\n"
      "  @config(B = 2) @config(B = 1) { store(x, 1.0 as T) }\n";
  opened o = open_text("k.kiln", text, sizeof text - 1, NULL);
  if (!o.unit) fail_with(&o, text, sizeof text - 1);
  const kiln_interface *f32 = kiln_unit_interface(o.unit, 0), *f16 = kiln_unit_interface(o.unit, 1);
  CHECK_INT(f32->config_count, 1);
  CHECK_TEXT(f32->configs[0].text, "B=1,warps=4");
  CHECK_INT(f16->config_count, 2);
  CHECK_INT(f16->configs[0].require_count, 1);
  CHECK_INT(f16->configs[1].require_count, 0);
  kiln_arena_destroy(o.arena);
  check_error("kiln 1\nkernel k[T: type = f32](x: out *T, n: i32) @require(T < f16) {}\n", "cannot compare");
  check_error("kiln 1\nkernel k[T: type = f32](x: out *T, n: i32) @require(n == f16) {}\n",
              "@require: cannot compare parameter 'n' with a type");
}

// An error inside a combiner of several results is one message where it stands; it was read past its single
// value once.
TEST(language, an_error_inside_a_combiner) {
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

// Longer rows than 64 would be sorted whole by every thread, and compile for minutes.
TEST(front_language, long_rows_are_not_sorted) {
  static const struct {
    const char *call, *found;
  } rows[] = {{"sort(i)", "128"},
              {"topk(i, 4)", "128"},
              {"reshape(sort(reshape(i, [1, 128])), [128])", "128"},
              {"reshape(sort(reshape(i, [2, 64])), [128])", NULL}};
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    char text[300];
    kiln_arena *arena = kiln_arena_create();
    kiln_diagnostics d = {.arena = arena};
    kiln_target target;
    kiln_error err;
    CHECK_OK(kiln_target_parse("host", &target, &err), err);
    snprintf(text, sizeof text,
             "kiln 1\nkernel k(o: out *i32) @grid(1) {\n  let i = iota(128)\n  let s = %s\n  store(o, "
             "reduce.add(s, 0))\n}\n",
             rows[r].call);
    kiln_unit *unit = kiln_unit_open(arena, "k.kiln", text, strlen(text), NULL, &d);
    bool taken = unit && kiln_unit_lower(unit, arena, 0, 0, 0, &target, &d);
    CHECK_INT(taken, !rows[r].found);
    if (!taken && (!strstr(d.items[0].text, "at most 64 elements along the last axis, found 128") ||
                   d.items[0].line != 4))
      FAIL("line %u: %s", d.items[0].line, d.items[0].text);
    kiln_arena_destroy(arena);
  }
}

// The first error of a source in which '`' stands before the place at fault, as "" or a text; FAILs when the
// place is another.
static void check_refused(const char *items, const char *want) {
  char text[1000], got[1000] = "";
  size_t size = (size_t)snprintf(text, sizeof text, "kiln 1\n%s\n", items);
  char *mark = strchr(text, '`');
  uint32_t line = 1, column = 1;
  CHECK(mark && size < sizeof text);
  for (const char *c = text; c < mark; c++) *c == '\n' ? line++, column = 1 : column++;
  memmove(mark, mark + 1, strlen(mark));
  opened o = open_text("k.kiln", text, size - 1, NULL);
  kiln_target target = target_of("x86-64-v3");
  if (o.unit) kiln_unit_lower(o.unit, o.arena, 0, 0, 0, &target, &o.d);
  const kiln_diagnostic *first = NULL;
  for (uint32_t i = 0; i < o.d.count && !first; i++)
    if (o.d.items[i].severity == KILN_ERROR) first = &o.d.items[i];
  if (first) snprintf(got, sizeof got, "%u:%u: %s", first->line, first->column, first->text);
  char place[50];
  snprintf(place, sizeof place, "%u:%u: ", line, column);
  if (strncmp(got, place, strlen(place)) || !strstr(got, want))
    FAIL("%s\ngives  '%s'\nwanted '%s%s'", text, got, place, want);
  if (o.d.errors != 1) FAIL("%s\ngives %u errors", text, o.d.errors);
  kiln_arena_destroy(o.arena);
}

static void check_body_refused(const char *body, const char *want) {
  char text[800];
  snprintf(text, sizeof text,
           "kernel k(p: inout *i32, q: inout *f32, h: inout *e4m3, n: i32) @grid(1) {\n %s\n}", body);
  check_refused(text, want);
}

TEST(language, yield_and_return_have_their_places) {
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

TEST(language, nonsense_in_bodies_is_refused) {
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
      {"let t = `lod(p)", "unknown function 'lod'; did you mean 'load'?"},
      {"let t = n as `f23", "unknown name 'f23'; did you mean 'f32'?"},
      {"let t = `sigmiod(load(q))", "unknown function 'sigmiod'; did you mean 'sigmoid'?"},
      {"`whlie n > 3 { }", "expected a statement, found 'whlie'; did you mean 'while'?"},
      {"for i in 0 .. n `setp 2 { }",
       "expected '{' at the start of a block, found 'setp'; did you mean 'step'?"},
      {"for i in 0 .. n { } if n > 3 { } `esle { }", "found 'esle'; did you mean 'else'?"},
      {"when `TARGTE == \"sm_90a\" { }", "unknown name 'TARGTE'; did you mean 'TARGET'?"},
      {"`assume(1 > 2)", "this 'assume' never holds"},
      {"store(q, load(q) `& load(q))", "and: expected i1 or integers, found f32"},
      {"store(q, `sqrt(n))", "sqrt: expected floats, found i32"},
      {"let t = hint(n, div = `2147483648)", "div: no i32 but 0 is a multiple of 2147483648"},
      {"for i in 0 .. n @div(`2147483648) { }", "'@div': no i32 but 0 is a multiple of 2147483648"},
      {"for i in 0 .. n step `3 @div(2) { }", "'@div': the counter grows by 3, expected a multiple of 2"},
      {"for i in `3 .. n step 2 @div(2) { }", "'@div': the counter begins at 3, expected a multiple of 2"},
      {"let t = `dot(zeros(f32[16, 32]), zeros(f32[16, 32]))",
       "second operand (M x K times K x N): expected f32[32, 32], found f32[16, 32]"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_body_refused(cases[i][0], cases[i][1]);
}

TEST(language, nonsense_in_heads_is_refused) {
  static const char *const cases[][2] = {
      {"kernel k(p: in *f32) @grid(`p) {}", "@grid: expected integers, found a pointer"},
      {"kernel k(n: i32) @grid(`-1) {}", "@grid: expected at least 1, found at most -1"},
      {"kernel k(n: i32 @range(-9, 0)) @grid(2, `n) {}", "@grid: expected at least 1, found at most 0"},
      {"kernel k(n: i32) @stages(`255) {}", "stages: expected a number from 0 to 8, found 255"},
      {"kernel k(n: i32) @`variant(n < 5, n > 7) {}", "no call fulfils its conditions"},
      {"kernel k(n: i32, m: i32) @`variant(n < m, n >= m) {}", "no call fulfils its conditions"},
      {"kernel k(n: i32) @`variant(n == 5, n % 4 == 0) {}", "no call fulfils its conditions"},
      {"kernel k(n: i32 @div(16)) @`variant(n > 0, n < 16) {}", "no call fulfils its conditions"},
      {"kernel k(n: i32 @range(0, 9)) @`variant(n == 10) {}", "no call fulfils its conditions"},
      {"kernel k(n: i8) @`variant(n > 200) {}", "no call fulfils its conditions"},
      {"kernel k(n: i8 @range(0, `128)) {}", "'@range': expected numbers of i8, from -128 to 127, found 128"},
      {"kernel k(n: i32 @range(`-3000000000, 5)) {}", "'@range': expected numbers of i32"},
      {"kernel k(n: i32 @div(`1099511627776)) {}", "'@div': no i32 but 0 is a multiple of 1099511627776"},
      {"kernel k(n: i32) {}\nfn f(x) { let y = x return y + `z }", "unknown name 'z'"},
      {"kernel k(n: i32) {}\nfn f(x) { return `g(x) }", "unknown name 'g'"},
      {"kernel k(n: i32, m: i32) @`variant(n < m, m < n) {}", "no call fulfils its conditions"},
      {"kernel k(n: i32, m: i32) @`variant(n <= m, m != n, m <= n) {}", "no call fulfils its conditions"},
      {"kernel k(n: i32, m: i32) @`variant(n + 1 == m, n + 1 > m) {}", "no call fulfils its conditions"},
      {"kernel k(n: i32) @`variant(n != n) {}", "no call fulfils its conditions"},
      {"kernel k(n: i32) @`variant(n % 16 == 3, n % 8 == 0) {}", "no call fulfils its conditions"},
      {"kernel k(n: i32) @`variant(n % 6 == 5, n % 4 == 0) {}", "no call fulfils its conditions"},
      {"kernel k(n: i32) @`variant(n % 4 == 1, n % 4 == -3) {}", "no call fulfils its conditions"},
      {"kernel k(n: i32) @`variant(n % 4 == 4) {}", "no call fulfils its conditions"},
      {"kernel k(`n: i32 @range(1, 10) @div(16)) {}", "no number from 1 to 10 is a multiple of 16"},
      {"kernel k(n: i32) @grid(1, `3000000000) {}",
       "@grid: expected at most 2147483647, found at least 3000000000"},
      {"kernel k(n: i32) @warps(`3) {}", "warps must be a power of two, found 3"},
      {"kernel k(n: i32) @warps(`255) {}", "warps: expected a number from 1 to 32, found 255"},
      {"kernel k(n: i32) @config(warps = `6) {}", "warps must be a power of two, found 6"},
      {"kernel k(n: i32) @regs(`1000) {}", "regs: expected a number from 1 to 512, found 1000"},
      {"kernel k(n: i32) @config(`wraps = 4) {}", "did you mean 'warps'?"},
      {"kernel k[BLOCK: tune = 4](n: i32) @config(`BLOKC = 4) {}", "did you mean 'BLOCK'?"},
      {"kernel k[TYPE: type = f32](n: i32) @instance(`TPYE = f32) {}", "did you mean 'TYPE'?"},
      {"kernel k(p: `inn *f32) {}", "'accum' before it, found 'inn'; did you mean 'in'?"},
      {"kernel k(n: i32) {}\nfn f(x) { return `reduce.ad(x, 0) }", "unknown 'reduce.ad'; known are"},
      {"kernel k(n: i32) {}\nfn f(x) { return `load.add(x, 0) }", "'load' has no form '.add'"},
      {"kernel k(n: i32) {}\n`kernl j(n: i32) {}", "found 'kernl'; did you mean 'kernel'?"},
      {"kernel k(x: `f23) {}", "unknown name 'f23'; did you mean 'f32'?"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_refused(cases[i][0], cases[i][1]);
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

TEST(language, one_error_for_deep_nesting) {
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

// A message never hands bytes on that a terminal acts upon, and the caret stands under its character.
TEST(language, messages_are_printable) {
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

// What an option asks for has no place in the source.
TEST(language, instances_of_options_have_no_place) {
  static const char text[] = "kiln 1\nkernel kern[Q = 1](n: i32) {}\n";
  static const char *const cases[][2] = {{"kern[R=64]", "no compile-time parameter 'R'"},
                                         {"kren", "there is no kernel 'kren'; did you mean 'kern'?"},
                                         {"kern[Q=]", "expected an expression"},
                                         {"kern[Q=1.0.0]", "expected"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *instance = cases[i][0];
    kiln_front_options options = {.instances = &instance, .instance_count = 1};
    opened o = open_text("k.kiln", text, sizeof text - 1, &options);
    CHECK(!o.unit && o.d.count >= 2);
    CHECK(strstr(o.d.items[0].text, cases[i][1]));
    for (uint32_t j = 0; j < o.d.count; j++) CHECK_INT(o.d.items[j].line, 0);
    CHECK(strstr(o.d.items[o.d.count - 1].text, instance));
    kiln_arena_destroy(o.arena);
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

static uint32_t stage_warnings(const char *text) {
  opened o = open_text("k.kiln", text, strlen(text), NULL);
  kiln_target target = target_of("sm_90a");
  if (!o.unit || !kiln_unit_lower(o.unit, o.arena, 0, 0, 0, &target, &o.d)) fail_with(&o, text, strlen(text));
  uint32_t count = o.d.count;
  kiln_arena_destroy(o.arena);
  return count;
}

TEST(language, warns_of_stages_without_effect) {
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
