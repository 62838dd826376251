// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests heads of kernels: interfaces, configs, variants, instances, and what is refused in them.
#include "base/expr.h"
#include "tests/compiler/front_test.h"

TEST(heads, a_kernel_without_grid_states_one_program) {
  static const char text[] = "kiln 1\nkernel put(y: *f32) {\n  store(y, 2.0)\n}\n";
  opened o = open_text("k.kiln", text, sizeof text - 1, NULL);
  if (!o.unit) fail_with(&o, text, sizeof text - 1);
  const kiln_config_record *config = kiln_unit_interface(o.unit, 0)->configs;
  int64_t params[] = {0}, v = 0;
  CHECK(config->grid[2].size > 0); // where no @grid has its only extent
  CHECK(kiln_expr_eval(config->grid[2].bytes, config->grid[2].size, params, &v));
  CHECK_INT(v, 1);
  CHECK_INT(config->grid[0].size + config->grid[1].size, 0);
}

TEST(heads, interface_of_softmax) {
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

TEST(heads, facts_of_variants) {
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

TEST(heads, names_and_configs_that_clash) {
  check_error("kiln 1\nkernel k[A = 1](n: i32) @instance(A = 1) @instance(A = 1) {}\n",
              "instance k[A=1] is there already");
  check_error("kiln 1\nkernel k[A = 1](n: i32) {}\nkernel k_1(n: i32) {}\n", "have one C name, kiln_k_1");
  check_error("kiln 1\nkernel k[B: tune = 1](n: i32) @require(n > 0) @config(B = 2) @config(B = 2) {}\n",
              "'@config' is there already: B=2,warps=4");
  check_error("kiln 1\nkernel k[B: tune = 1](n: i32) @require(B > 4) {}\n",
              "no config whose @require can hold");
  check_error("kiln 1\nkernel k[B: tune = 1](n: i32) @variant(n % B == 0) {}\n",
              "@variant: 'B' is set by @config, and this holds for all configs");
  check_error("kiln 1\nkernel k(n: i32) @grid(TARGET == \"host\") {}\n", "depends on the target");
  check_error("kiln 1\nfn load(x) { return x }\n", "'load' is the name of an operation");
  check_error("kiln 2\nkernel k() {}\n", "expected language version 1, found 2");
  check_error("kernel k() {}\n", "expected 'kiln' and a version");
}

// A build compiles what the launch rule can reach: after a config that always holds, nothing is.
TEST(heads, configs_that_are_reached) {
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

// Where configs have costs each may be the cheapest; which, a cost says that is a number of the arguments.
TEST(heads, configs_with_costs) {
  static const char text[] =
      "kiln 1\nkernel k[B: tune = 1](x: out *i32, n: i32) @cost(cdiv(n, B) * (B + 5))\n"
      "  @config(B = 2) @config(B = 8) @config(B = 4) { store(x, B) }\n";
  opened o = open_text("k.kiln", text, sizeof text - 1, NULL);
  if (!o.unit) fail_with(&o, text, sizeof text - 1);
  const kiln_interface *in = kiln_unit_interface(o.unit, 0);
  static const int64_t want[] = {50 * 7, 13 * 13, 25 * 9}; // of n = 100
  CHECK_INT(in->config_count, 3);
  for (unsigned i = 0; i < 3; i++) {
    int64_t values[] = {0, 100}, cost = 0;
    CHECK(kiln_expr_verify(in->configs[i].cost.bytes, in->configs[i].cost.size, in->param_count));
    CHECK(kiln_expr_eval(in->configs[i].cost.bytes, in->configs[i].cost.size, values, &cost));
    CHECK_INT(cost, want[i]);
  }
  kiln_arena_destroy(o.arena);
  check_error("kiln 1\nkernel k(n: i32) @cost(n < 4) {}\n", "@cost: expected an integer, found a condition");
  check_error("kiln 1\nkernel k(p: in *f32) @cost(p) {}\n", "@cost: expected an integer, found a pointer");
  check_error("kiln 1\nkernel k(n: i32) @cost(n) @cost(n + 1) {}\n", "'@cost' is there already");
  check_error("kiln 1\nkernel k(n: i32) @cost(n, n) {}\n", "'@cost' takes 1 to 1 arguments, found 2");
}

// What `let` or a parameter of a helper names is computed once, so that a cost may be large written out.
TEST(heads, named_values_of_costs) {
  static const char text[] =
      "kiln 1\nfn square(x) { return x * x }\n"
      "fn many(n) { let a = square(n + 1)\n let b = square(a - n)\n let c = square(b % 1000 + a)\n return c "
      "+ b * a }\n"
      "kernel k[B: tune = 1](x: out *i32, n: i32) @cost(many(many(n * B + 0) % 100 * 1)) @config(B = 2) "
      "{ store(x, B) }\n";
  opened o = open_text("k.kiln", text, sizeof text - 1, NULL);
  if (!o.unit) fail_with(&o, text, sizeof text - 1);
  kiln_span code = kiln_unit_interface(o.unit, 0)->configs[0].cost;
  int64_t values[] = {0, 3}, cost = 0, want = 6;
  CHECK(kiln_expr_keeps(code.bytes, code.size));
  CHECK(code.size < 90); // 46 operations; 267 written out
  CHECK(kiln_expr_eval(code.bytes, code.size, values, &cost));
  for (unsigned i = 0; i < 2; i++) {
    int64_t a = (want + 1) * (want + 1), b = (a - want) * (a - want), c = b % 1000 + a;
    want = i ? c * c + b * a : (c * c + b * a) % 100;
  }
  CHECK_INT(cost, want);
  kiln_arena_destroy(o.arena);
  // Ranges and facts walk it written out, which is bounded, too.
#define DOUBLED                                                              \
  "kiln 1\nfn d(x) { return x + x * 3 }\nfn e(x) { return d(d(d(d(x)))) }\n" \
  "fn f(x) { return e(e(e(e(x)))) }\nkernel k(n: i32) "
  static const char too_large[] = "has at most 128 operations 16 deep, found 4097";
  check_error(DOUBLED "@cost(e(e(e(n)))) {}\n", too_large);
  check_error(DOUBLED "@grid(f(f(f(n)))) {}\n", too_large);
#undef DOUBLED
}

// Numbers that @cost alone reads are no part of what a config is: name, grid and code are the same with
// others.
TEST(heads, numbers_of_costs) {
  static const char *const texts[] = {
      "kiln 1\nkernel k[B: tune = 1, STEP: cost = 3, END: cost = 0](x: out *i32, n: i32)\n"
      "  @grid(cdiv(n, B)) @cost(cdiv(n, B) * STEP + END) @config(B = 2, STEP = 7, END = 5) @config(B = 4)\n"
      "  { store(x, B) }\n",
      "kiln 1\nkernel k[B: tune = 1](x: out *i32, n: i32)\n"
      "  @grid(cdiv(n, B)) @cost(n) @config(B = 2) @config(B = 4) { store(x, B) }\n"};
  static const int64_t want[] = {50 * 7 + 5, 25 * 3}; // of n = 100
  kiln_target target = target_of("sm_90a");
  kiln_buffer bytes[2] = {0};
  opened o[2];
  for (unsigned i = 0; i < 2; i++) {
    o[i] = open_text("k.kiln", texts[i], strlen(texts[i]), NULL);
    if (!o[i].unit) fail_with(&o[i], texts[i], strlen(texts[i]));
    ir_kernel *kernel = kiln_unit_lower(o[i].unit, o[i].arena, 0, 0, 0, &target, &o[i].d);
    CHECK(kernel && kiln_canonical_encode(kernel, &bytes[i]));
  }
  const kiln_interface *with = kiln_unit_interface(o[0].unit, 0);
  CHECK_TEXT(with->name, "k");
  CHECK_TEXT(with->configs[0].text, "B=2,warps=4");
  for (unsigned i = 0; i < 2; i++) {
    int64_t values[] = {0, 100}, cost = 0;
    CHECK(kiln_expr_eval(with->configs[i].cost.bytes, with->configs[i].cost.size, values, &cost));
    CHECK_INT(cost, want[i]);
  }
  CHECK(same_bytes(&bytes[0], &bytes[1]));
  for (unsigned i = 0; i < 2; i++) kiln_buffer_deinit(&bytes[i]), kiln_arena_destroy(o[i].arena);
#define HEAD "kiln 1\nkernel k[B: tune = 1, S: cost = 1](x: out *i32, n: i32) @cost(n * S) "
  check_refused("kernel k[S: cost = 1](x: out *i32, n: i32) @cost(n * S) { store(x, `S) }",
                "unknown name 'S'");
  check_error(HEAD "@grid(S) { store(x, B) }\n", "unknown name 'S'");
  check_error(HEAD "@require(n > S) { store(x, B) }\n", "unknown name 'S'");
  check_error(HEAD "@config(B = S) { store(x, B) }\n", "unknown name 'S'");
  check_error(HEAD "@instance(S = 2) { store(x, B) }\n", "'S' is a number of @cost and is set by @config");
  check_error(HEAD "@config(S = true) { store(x, B) }\n", "parameter 'S' of @cost: expected an integer");
  check_error(HEAD "@config(B = 2) @config(B = 2, S = 3) { store(x, B) }\n", "'@config' is there already");
  check_error(HEAD "@space(S = [1, 2]) { store(x, B) }\n", "'S' is a number of @cost, which changes no code");
#undef HEAD
}

// A kernel may have the configs of another one, before or after it in the file, less those that it rules
// out.
TEST(heads, configs_of_another_kernel) {
  static const char text[] =
      "kiln 1\nkernel late[B: tune = 1, S: cost = 0](x: out *i32, n: i32) @require(B < 8) @cost(n + S)\n"
      "  @config(B = 16) @configs(first) @config(B = 1) { store(x, B) }\n"
      "kernel first[B: tune = 1, S: cost = 0](x: out *i32, n: i32) @cost(n * S)\n"
      "  @config(B = 2, S = 7) @config(B = 8, S = 9) @config(B = 4, warps = 8) { store(x, B) }\n"
      "kernel same[B: tune = 1, S: cost = 0](x: out *i32, n: i32) @cost(n - S) @configs(first) { store(x, B) "
      "}\n";
  static const char *const want[][4] = {{"B=2,warps=4", "B=4,warps=8", "B=1,warps=4", NULL},
                                        {"B=2,warps=4", "B=8,warps=4", "B=4,warps=8", NULL},
                                        {"B=2,warps=4", "B=8,warps=4", "B=4,warps=8", NULL}};
  opened o = open_text("k.kiln", text, sizeof text - 1, NULL);
  if (!o.unit) fail_with(&o, text, sizeof text - 1);
  for (unsigned i = 0; i < 3; i++) {
    const kiln_interface *in = kiln_unit_interface(o.unit, i);
    CHECK_INT(in->config_count, 3);
    for (unsigned c = 0; c < 3; c++) CHECK_TEXT(in->configs[c].text, want[i][c]);
    int64_t values[] = {0, 100}, cost = 0;
    CHECK(kiln_expr_eval(in->configs[0].cost.bytes, in->configs[0].cost.size, values, &cost));
    CHECK_INT(cost, i == 0 ? 107 : i == 1 ? 700 : 93);
  }
  kiln_arena_destroy(o.arena);
  static const char message[] = "'@configs': expected a kernel that states its own configs";
  check_error("kiln 1\nkernel k(n: i32) @configs(k) {}\n", message);
  check_error("kiln 1\nkernel k(n: i32) @configs(other) {}\n", message);
  check_error("kiln 1\nfn f(n) { return n }\nkernel k(n: i32) @configs(f) {}\n", message);
  check_error("kiln 1\nkernel a(n: i32) @configs(b) {}\nkernel b(n: i32) @configs(c) @config(warps = 2) {}\n"
              "kernel c(n: i32) @config(warps = 8) {}\n",
              message);
  check_error("kiln 1\nkernel a(n: i32) @configs(b) {}\nkernel b[B: tune = 1](n: i32) @config(B = 2) {}\n",
              "'@config': 'B' is no compile-time parameter");
}

// Nor is one whose conditions contradict what the config requires: no number is one and a multiple of eight,
// and rows that are multiples of eight are not the ones that begin anywhere.
TEST(heads, variants_that_contradict_their_config) {
  static const char text[] =
      "kiln 1\nkernel k[B: tune = 1](x: out *i32, n: i32 @range(1, 99), m: i32) @variant(n % 8 == 0)\n"
      "  @variant(m % 8 == 0) @require(B != 1 | n <= 1, B != 2 | n % 8 != 0 | m % 4 != 0 & n > m)\n"
      "  @config(B = 1) @config(B = 2) @config(B = 3) { store(x, B) }\n"
      "kernel both[B: tune = 1](x: out *i32, n: i32, m: i32) @variant(n % 8 == 0, m % 8 == 0)\n"
      "  @variant(n % 8 == 0) @require(n % 8 != 0 | m % 4 != 0) @config(B = 1) { store(x, B) }\n";
  static const bool wanted[3][3] = {{false, true, true}, {true, true, true}, {true, true, true}};
  kiln_front_options options = {.all_configs = true};
  opened o = open_text("k.kiln", text, sizeof text - 1, &options);
  if (!o.unit) fail_with(&o, text, sizeof text - 1);
  for (uint32_t config = 0; config < 3; config++)
    for (uint32_t variant = 0; variant < 3; variant++)
      CHECK_INT(kiln_unit_has_variant(o.unit, 0, config, variant), wanted[config][variant]);
  CHECK(!kiln_unit_has_variant(o.unit, 1, 0, 0));
  CHECK(kiln_unit_has_variant(o.unit, 1, 0, 1) && kiln_unit_has_variant(o.unit, 1, 0, 2));
  kiln_arena_destroy(o.arena);
}

// A variant after one whose conditions the config requires is not compiled: no launch comes to it.
TEST(heads, variants_that_are_reached) {
  static const char text[] =
      "kiln 1\nkernel k[B: tune = 1](x: out *i32, n: i32, m: i32) @variant(n % 8 == 0, m % 4 == 0)\n"
      "  @variant(m % 4 == 0) @require(B == 2 | n % 16 == 0, B == 1 | m % 8 == 0)\n"
      "  @config(B = 1) @config(B = 2) { store(x, B) }\n";
  static const bool wanted[2][2][3] = {{{true, false, true}, {true, true, false}},
                                       {{true, true, true}, {true, true, true}}};
  for (unsigned all = 0; all < 2; all++) {
    kiln_front_options options = {.all_configs = true, .all_variants = all};
    opened o = open_text("k.kiln", text, sizeof text - 1, &options);
    if (!o.unit) fail_with(&o, text, sizeof text - 1);
    for (uint32_t config = 0; config < 2; config++)
      for (uint32_t variant = 0; variant < 3; variant++)
        CHECK_INT(kiln_unit_has_variant(o.unit, 0, config, variant), wanted[all][config][variant]);
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
TEST(heads, configs_for_some_processors) {
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
TEST(heads, bytes_with_and_without_targets) {
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

TEST(heads, targets_that_are_none) {
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
TEST(heads, requirements_on_types) {
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

TEST(heads, nonsense_in_heads_is_refused) {
  static const char *const cases[][2] = {
      {"kernel k(p: in *f32) @grid(`p) {}", "@grid: expected integers, found a pointer"},
      {"kernel k(n: i32) @grid(n `% 0) {}", "@grid: a division by zero, which has no value"},
      {"kernel k(n: i32) @grid(`cdiv(n, 0)) {}", "@grid: a division by zero"},
      {"kernel k(n: i32) @grid(1) @variant(n `/ (2 - 2) == 1) {}", "@variant: a division by zero"},
      {"fn part(a, b) { return a `/ b }\nkernel k(n: i32) @grid(part(n, 0)) {}", "@grid: a division by zero"},
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
      {"kernel k(n: i32) @config(regs = `0) {}", "regs: expected a number from 1 to 512, found 0"},
      {"kernel k(n: i32) @config(`wraps = 4) {}", "did you mean 'warps'?"},
      {"kernel k[BLOCK: tune = 4](n: i32) @config(`BLOKC = 4) {}", "did you mean 'BLOCK'?"},
      {"kernel k[TYPE: type = f32](n: i32) @instance(`TPYE = f32) {}", "did you mean 'TYPE'?"},
      {"kernel k(p: `inn *f32) {}", "'accum' before it, found 'inn'; did you mean 'in'?"},
      {"kernel k(n: i32) {}\nfn f(x) { return `reduce.ad(x, 0) }",
       "unknown 'reduce.ad'; did you mean 'add'?"},
      {"kernel k(n: i32) {}\nfn f(x) { return `atomic.plus(x, 0) }",
       "known are add mul max min umax umin and"},
      {"kernel k(n: i32) {}\nfn f(x) { return `load.add(x, 0) }", "'load' has no form '.add'"},
      {"kernel k(n: i32) {}\n`kernl j(n: i32) {}", "found 'kernl'; did you mean 'kernel'?"},
      {"kernel k(x: `f23) {}", "unknown name 'f23'; did you mean 'f32'?"},
      {"kernel k(p: out *i32, n: `i23) @grid(1) { store(p, n) }", "unknown name 'i23'; did you mean 'i32'?"},
      {"kernel k(p: in *f32 @`algin(16)) {}",
       "unknown attribute '@algin' of a parameter; did you mean '@align'?"},
      {"kernel k(n: i32 @`rnage(1, 2)) {}", "did you mean '@range'?"},
      {"kernel k(n: i32 @`even) {}",
       "known are @align(n) @rows(n) @div(n) @range(lo, hi) @noalias @within @size(n)"},
      {"kernel k(n: i32 @`rows(16)) {}", "'@rows' is for view parameters, 'n' is none"},
      {"kernel k(p: in *f32 @`rows(16)) {}", "'@rows' is for view parameters, 'p' is none"},
      {"kernel k(p: in view f32[4] @`rows(12)) {}", "'@rows' takes a power of two, found 12"},
      {"kernel k(p: in view f32[4] @`rows(2)) {}",
       "expected the bytes of an element of f32 or more, found 2"},
      {"kernel k(n: i32 @`size(16)) {}", "'@size' is for pointer parameters, 'n' is none"},
      {"kernel k(v: in view f32[4] @`size(16)) {}", "'@size' is for pointer parameters, 'v' is none; what a "
                                                    "view needs follows from its extents and strides"},
      {"kernel k(p: in *f32 @`size(1, 2)) {}", "'@size' takes 1 argument, found 2"},
      {"kernel k(p: in *f32 @size(2) @`size(3)) {}", "'@size' is there already"},
      {"kernel k(p: in *f32 @size(n `< 2), n: i32) {}",
       "@size: expected a number of elements, found a condition"},
      {"kernel k(p: in *f32 @size(`q), q: in *f32) {}",
       "@size: expected a number of elements, found a pointer"},
      {"kernel k(p: in *f32 @size(`n), n: f32) {}",
       "@size: expected an integer or pointer parameter, found 'n' of type f32"},
      {"kernel k(p: in *f32 @size(1 `- 8)) {}", "@size: expected a number of elements, found -7 at most"},
      {"kernel k(p: in *f32 @size(n `/ 0), n: i32) {}", "@size: a division by zero, which has no value"},
      {"kernel k(p: in *f32 @size(`rows), n: i32) {}", "unknown name 'rows'"},
      {"kernel k[B: tune = 4](p: in *f32 @size(n * `B), n: i32) {}",
       "@size: 'B' is set by @config, and this holds for all configs"},
      {"kernel k(n: i32) @`gird(1) {}", "unknown attribute '@gird' of a kernel; did you mean '@grid'?"},
      {"kernel k(n: i32) @`launch(1) {}", "known are @grid @config @instance"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_refused(cases[i][0], cases[i][1]);
}

// `as` was passed over in what runs at launch, where integers are exact: another value than the kernel's.
TEST(heads, casts_at_launch_keep_the_value) {
  static const char *const cases[][2] = {
      {"kernel k(n: i64) @grid(n `as i32) {}",
       "@grid: i32 may not hold this; integers of an expression that"},
      {"kernel k(n: i32) @grid((n + n) `as i32) {}", "@grid: i32 may not hold this"},
      {"kernel k(n: i32) @grid(n `as i8) {}", "@grid: i8 may not hold this"},
      {"fn f(n) { return n `as i16 }\nkernel k(n: i32) @grid(f(n)) {}", "@grid: i16 may not hold this"},
      {"kernel k(n: i32) @grid(n `as f32) {}",
       "@grid: expected an integer type in an expression that runs at launch"},
      {"kernel k(n: i32) @grid(1) @require(n `as i8 < 5) {}", "@require: i8 may not hold this"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_refused(cases[i][0], cases[i][1]);
  static const char right[] =
      "kiln 1\nkernel k(n: i32, s: i8, m: i64 @range(0, 1000)) @grid(n as i64 * 5, s as i16, m as i32)\n"
      "  @require((n < 5) as i32 + 1 > 1) @variant(n as i1) {}\n";
  check_text("k.kiln", right, sizeof right - 1);
}

// What an option asks for has no place in the source.
TEST(heads, instances_of_options_have_no_place) {
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
