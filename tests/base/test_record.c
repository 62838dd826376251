// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests records and launch expressions: what is written reads back, damage is detected, and arithmetic is
// exact.
#include "tests/harness.h"

#include <stdlib.h>
#include <string.h>

#include "base/expr.h"
#include "base/record.h"

static void put(kiln_buffer *b, kiln_expr_op op) { kiln_buffer_u8(b, (uint8_t)op); }

static void put_const(kiln_buffer *b, int64_t v) {
  put(b, KILN_EXPR_CONST);
  kiln_buffer_svarint(b, v);
}

static void put_param(kiln_buffer *b, unsigned i) {
  put(b, KILN_EXPR_PARAM);
  kiln_buffer_varint(b, i);
}

static kiln_buffer binary(int64_t left, int64_t right, kiln_expr_op op) {
  kiln_buffer b = {0};
  put_const(&b, left);
  put_const(&b, right);
  put(&b, op);
  return b;
}

TEST(expr, arithmetic) {
  static const struct {
    int64_t a, b;
    kiln_expr_op op;
    bool ok;
    int64_t want;
  } rows[] = {
      {7, 2, KILN_EXPR_CDIV, true, 4},
      {-7, 2, KILN_EXPR_CDIV, true, -3},
      {8, 2, KILN_EXPR_CDIV, true, 4},
      {-7, 2, KILN_EXPR_DIV, true, -3},
      {-7, 2, KILN_EXPR_REM, true, -1},
      {5, 0, KILN_EXPR_DIV, false, 0},
      {INT64_MIN, -1, KILN_EXPR_DIV, false, 0},
      {INT64_MAX, 1, KILN_EXPR_ADD, false, 0},
      {INT64_MAX, 2, KILN_EXPR_MUL, false, 0},
      {3, 4, KILN_EXPR_MIN, true, 3},
      {3, 4, KILN_EXPR_MAX, true, 4},
      {3, 4, KILN_EXPR_LT, true, 1},
      {3, 0, KILN_EXPR_AND, true, 0},
      {3, 0, KILN_EXPR_OR, true, 1},
      {3, 3, KILN_EXPR_NE, true, 0},
  };
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
    int64_t got = 0;
    kiln_buffer b = binary(rows[i].a, rows[i].b, rows[i].op);
    CHECK(kiln_expr_verify(b.bytes, b.size, 0));
    CHECK_INT(kiln_expr_eval(b.bytes, b.size, NULL, &got), rows[i].ok);
    if (rows[i].ok) CHECK_INT(got, rows[i].want);
    kiln_buffer_deinit(&b);
  }
}

TEST(expr, refuses_bad_code) {
  kiln_buffer b = binary(1, 2, KILN_EXPR_ADD);
  // The first two bytes, a constant, are an expression of their own.
  for (size_t cut = 0; cut < b.size; cut++) CHECK_INT(kiln_expr_verify(b.bytes, cut, 0), cut == 2);
  kiln_buffer_clear(&b);
  put_param(&b, 3);
  CHECK(!kiln_expr_verify(b.bytes, b.size, 3));
  CHECK(kiln_expr_verify(b.bytes, b.size, 4));
  kiln_buffer_clear(&b);
  for (int i = 0; i < KILN_EXPR_DEPTH + 1; i++) put_const(&b, i);
  for (int i = 0; i < KILN_EXPR_DEPTH; i++) put(&b, KILN_EXPR_ADD);
  CHECK(!kiln_expr_verify(b.bytes, b.size, 0));
  kiln_buffer_deinit(&b);
}

static void put_kept(kiln_buffer *b, uint64_t i) {
  put(b, KILN_EXPR_KEPT);
  kiln_buffer_varint(b, i);
}

// What is kept is there for all that follows, however often; code that asks for more is refused.
TEST(expr, keeps_values) {
  static const int64_t params[] = {6, 9};
  const char *names[] = {"n", "m"};
  char text[200];
  int64_t got = 0;
  kiln_buffer b = {0};
  put_param(&b, 0);
  put_param(&b, 1);
  put(&b, KILN_EXPR_ADD);
  put(&b, KILN_EXPR_KEEP);
  put_kept(&b, 0);
  put(&b, KILN_EXPR_MUL);
  CHECK(!kiln_expr_keeps(b.bytes, 5));
  put(&b, KILN_EXPR_KEEP);
  put_kept(&b, 1);
  put_kept(&b, 0);
  put(&b, KILN_EXPR_REM);
  put(&b, KILN_EXPR_SUB);
  CHECK(kiln_expr_verify(b.bytes, b.size, 2));
  CHECK(kiln_expr_keeps(b.bytes, b.size));
  CHECK(kiln_expr_eval(b.bytes, b.size, params, &got));
  CHECK_INT(got, 225);
  CHECK_TEXT(kiln_expr_text(b.bytes, b.size, names, 2, text, sizeof text),
             "((n + m) * (n + m)) - (((n + m) * (n + m)) % (n + m))");
  for (size_t cut = 0; cut < b.size; cut++)
    if (kiln_expr_verify(b.bytes, cut, 2)) CHECK(kiln_expr_eval(b.bytes, cut, params, &got));
  kiln_buffer_clear(&b);
  put_const(&b, 1);
  put_kept(&b, 0); // nothing has been kept
  put(&b, KILN_EXPR_ADD);
  CHECK(!kiln_expr_verify(b.bytes, b.size, 0));
  kiln_expr_text(b.bytes, b.size, names, 2, text, sizeof text);
  kiln_buffer_clear(&b);
  put(&b, KILN_EXPR_KEEP); // nothing to keep
  put_const(&b, 1);
  CHECK(!kiln_expr_verify(b.bytes, b.size, 0));
  for (unsigned more = 0; more < 2; more++) {
    kiln_buffer_clear(&b);
    put_const(&b, 1);
    for (unsigned i = 0; i < KILN_EXPR_KEEPS + more; i++) put(&b, KILN_EXPR_KEEP);
    CHECK_INT(kiln_expr_verify(b.bytes, b.size, 0), !more);
    kiln_expr_text(b.bytes, b.size, names, 2, text, sizeof text);
  }
  kiln_buffer_deinit(&b);
}

TEST(expr, prints) {
  char text[200];
  const char *names[] = {"n"};
  kiln_buffer b = {0};
  put_param(&b, 0);
  put_const(&b, 1024);
  put(&b, KILN_EXPR_CDIV);
  put_const(&b, 2);
  put(&b, KILN_EXPR_MUL);
  CHECK_TEXT(kiln_expr_text(b.bytes, b.size, names, 1, text, sizeof text), "cdiv(n, 1024) * 2");
  kiln_buffer_deinit(&b);
}

static void sample(kiln_interface *out, kiln_param_record params[3], kiln_config_record *config,
                   kiln_variant_record *variant) {
  static const uint8_t one[] = {KILN_EXPR_CONST, 2};
  memset(params, 0, 3 * sizeof *params);
  params[0] = (kiln_param_record){
      .name = "x", .scalar = KILN_BF16, .pointer = 1, .access = 1, .align = 16, .noalias = true};
  params[1] = (kiln_param_record){.name = "flag", .scalar = KILN_I1};
  params[2] = (kiln_param_record){
      .name = "n", .scalar = KILN_I32, .has_range = true, .lo = -5, .hi = 1 << 20, .div = 8};
  *config = (kiln_config_record){.text = "BLOCK=1024,warps=4", .warps = 4, .grid = {{one, sizeof one}}};
  *variant = (kiln_variant_record){.text = ""};
  *out = (kiln_interface){.name = "add",
                          .symbol = "kiln_add",
                          .params = params,
                          .param_count = 3,
                          .configs = config,
                          .config_count = 1,
                          .variants = variant,
                          .variant_count = 1};
  kiln_layout_params(out);
}

TEST(record, interface_round_trip) {
  kiln_param_record params[3];
  kiln_config_record config;
  kiln_variant_record variant;
  kiln_interface in, out;
  kiln_buffer b = {0};
  kiln_arena *arena = kiln_arena_create();
  sample(&in, params, &config, &variant);
  CHECK_INT(in.params[1].offset, 8);
  CHECK_INT(in.params[2].offset, 12);
  CHECK_INT(in.block_bytes, 16);
  kiln_interface_encode(&in, &b);
  CHECK(kiln_interface_decode(arena, b.bytes, b.size, &out));
  CHECK_TEXT(out.name, "add");
  CHECK_INT(out.params[2].lo, -5);
  CHECK_INT(out.params[0].align, 16);
  CHECK(out.params[0].noalias);
  CHECK_INT(out.configs[0].grid[0].size, 2);
  CHECK(kiln_interface_abi(&in) == kiln_interface_abi(&out));
  for (size_t cut = 0; cut < b.size; cut++) CHECK(!kiln_interface_decode(arena, b.bytes, cut, &out));
  for (size_t at = 0; at < b.size; at++) { // no flip crashes
    uint8_t *copy = malloc(b.size);
    memcpy(copy, b.bytes, b.size);
    copy[at] ^= 0xff;
    (void)kiln_interface_decode(arena, copy, b.size, &out);
    free(copy);
  }
  params[1].scalar = KILN_I8;
  CHECK(kiln_interface_abi(&in) != kiln_interface_abi(&out));
  // A cost makes another version of the record, and takes no part in what callers agree on.
  static const uint8_t cost[] = {KILN_EXPR_PARAM, 2};
  size_t size = b.size;
  config.cost = (kiln_span){cost, sizeof cost};
  kiln_buffer_clear(&b);
  kiln_interface_encode(&in, &b);
  CHECK_INT(b.bytes[0], 2);
  CHECK_INT(b.size, size + 1 + sizeof cost + 4); // two empty texts: neither @returns nor @backward
  CHECK(kiln_interface_decode(arena, b.bytes, b.size, &out));
  CHECK_INT(out.configs[0].cost.size, sizeof cost);
  CHECK(!memcmp(out.configs[0].cost.bytes, cost, sizeof cost));
  CHECK(kiln_interface_abi(&in) == kiln_interface_abi(&out));
  for (size_t cut = 0; cut < b.size; cut++) CHECK(!kiln_interface_decode(arena, b.bytes, cut, &out));
  kiln_buffer_deinit(&b);
  kiln_arena_destroy(arena);
}

/// What a view promises of its rows makes a version that runtimes from before it refuse, since they would not
/// test it.
TEST(record, rows_of_views_are_a_version) {
  kiln_param_record params[3];
  kiln_config_record config;
  kiln_variant_record variant;
  kiln_interface in, out;
  kiln_buffer b = {0};
  kiln_arena *arena = kiln_arena_create();
  sample(&in, params, &config, &variant);
  params[0].pointer = 0, params[0].view_rank = 2;
  kiln_interface_encode(&in, &b);
  CHECK_INT(b.bytes[0], 1);
  params[0].rows = 16;
  kiln_buffer_clear(&b);
  kiln_interface_encode(&in, &b);
  CHECK_INT(b.bytes[0], 3);
  CHECK(kiln_interface_decode(arena, b.bytes, b.size, &out));
  CHECK_INT(out.params[0].rows, 16);
  CHECK_INT(out.params[0].align, 16);
  CHECK_INT(out.params[2].rows, 0);
  CHECK_INT(out.params[2].div, 8);
  for (size_t cut = 0; cut < b.size; cut++) CHECK(!kiln_interface_decode(arena, b.bytes, cut, &out));
  for (unsigned bad = 0; bad < 2; bad++) { // rows of half an element, and of what is no view
    params[0].rows = bad ? 16 : 1;
    params[0].view_rank = bad ? 0 : 2;
    kiln_buffer_clear(&b);
    kiln_interface_encode(&in, &b);
    CHECK(!kiln_interface_decode(arena, b.bytes, b.size, &out));
  }
  kiln_buffer_deinit(&b);
  kiln_arena_destroy(arena);
}

/// Expressions that keep values make a version that programs from before them name as newer.
TEST(record, kept_values_are_a_version) {
  static const uint8_t keeps[] = {KILN_EXPR_PARAM, 2, KILN_EXPR_KEEP, KILN_EXPR_KEPT, 0, KILN_EXPR_ADD};
  kiln_param_record params[3];
  kiln_config_record config;
  kiln_variant_record variant;
  kiln_interface in, out;
  kiln_buffer b = {0};
  kiln_arena *arena = kiln_arena_create();
  kiln_span span = {keeps, sizeof keeps};
  for (unsigned where = 0; where < 4; where++) {
    sample(&in, params, &config, &variant);
    if (where == 0) config.grid[1] = span;
    if (where == 1) config.require = &span, config.require_count = 1;
    if (where == 2) config.cost = span;
    if (where == 3) variant.conditions = &span, variant.condition_count = 1;
    kiln_buffer_clear(&b);
    kiln_interface_encode(&in, &b);
    CHECK_INT(b.bytes[0], 4);
    CHECK(kiln_interface_decode(arena, b.bytes, b.size, &out));
    CHECK_INT(out.param_count, 3);
    CHECK_INT(out.params[2].div, 8);
    for (size_t cut = 0; cut < b.size; cut++) CHECK(!kiln_interface_decode(arena, b.bytes, cut, &out));
  }
  kiln_buffer_deinit(&b);
  kiln_arena_destroy(arena);
}

TEST(record, code_info_round_trip) {
  kiln_code_info in = {.format = KILN_FORMAT_HSACO,
                       .target = "gfx942",
                       .symbol = "kiln_add",
                       .block_threads = 256,
                       .shared_bytes = 65536,
                       .registers = 40,
                       .spill_bytes = 0,
                       .wave = 64,
                       .producer = "kiln"},
                 out;
  kiln_buffer b = {0};
  kiln_code_info_encode(&in, &b);
  CHECK(kiln_code_info_decode(b.bytes, b.size, &out));
  CHECK_TEXT(out.target, "gfx942");
  CHECK_INT(out.shared_bytes, 65536);
  CHECK_INT(out.wave, 64);
  for (size_t cut = 0; cut < b.size; cut++) CHECK(!kiln_code_info_decode(b.bytes, cut, &out));
  kiln_buffer_deinit(&b);
}

/// A reason is a version of its own: without one the bytes are those of the first release.
TEST(record, code_info_of_clusters) {
  static const uint8_t map[] = {0};
  kiln_code_info in = {.format = KILN_FORMAT_CUBIN,
                       .target = "sm_90a",
                       .symbol = "k",
                       .producer = "kiln",
                       .blocks = 1,
                       .maps = {map, sizeof map}},
                 out;
  for (uint32_t cluster = 0; cluster <= 17; cluster += 1 + cluster) {
    kiln_buffer b = {0};
    in.cluster = cluster;
    kiln_code_info_encode(&in, &b);
    CHECK_INT(b.bytes[0], cluster ? 68 : 67);
    CHECK(kiln_code_info_decode(b.bytes, b.size, &out));
    CHECK_INT(out.cluster, cluster);
    CHECK_INT(out.maps.size, sizeof map);
    for (size_t cut = 0; cut < b.size; cut++) CHECK(!kiln_code_info_decode(b.bytes, cut, &out));
    kiln_buffer_deinit(&b);
  }
  kiln_buffer b = {0};
  in.cluster = 17; // more than any GPU has
  kiln_code_info_encode(&in, &b);
  CHECK(!kiln_code_info_decode(b.bytes, b.size, &out));
  kiln_buffer_deinit(&b);
}
/// So is a limit of the programs, with whatever comes before it in the record.
TEST(record, code_info_of_few_programs) {
  for (unsigned more = 0; more < 8; more++) {
    static const uint8_t map[] = {0};
    kiln_code_info in = {.format = KILN_FORMAT_PTX,
                         .target = "sm_90a",
                         .symbol = "k",
                         .producer = "kiln",
                         .why_ptx = more & 1 ? "no assembler" : NULL,
                         .cluster = more & 2 ? 2 : 0,
                         .most_programs = {1 << 20, 0, UINT32_MAX}},
                   out;
    if (more & 4) in.maps = (kiln_span){map, sizeof map}, in.blocks = 1;
    kiln_buffer b = {0};
    kiln_code_info_encode(&in, &b);
    CHECK_INT(b.bytes[0], 69);
    CHECK(kiln_code_info_decode(b.bytes, b.size, &out));
    CHECK(!in.why_ptx == !out.why_ptx);
    CHECK_INT(out.cluster, in.cluster);
    CHECK_INT(out.maps.size, in.maps.size);
    for (unsigned axis = 0; axis < 3; axis++) CHECK_INT(out.most_programs[axis], in.most_programs[axis]);
    for (size_t cut = 0; cut < b.size; cut++) CHECK(!kiln_code_info_decode(b.bytes, cut, &out));
    kiln_buffer_deinit(&b);
  }
}

TEST(record, code_info_says_why_it_is_ptx) {
  kiln_code_info in = {.format = KILN_FORMAT_PTX, .target = "sm_90a", .symbol = "k", .producer = "kiln"}, out;
  kiln_buffer plain = {0}, with = {0};
  kiln_code_info_encode(&in, &plain);
  CHECK(kiln_code_info_decode(plain.bytes, plain.size, &out));
  CHECK(!out.why_ptx);
  CHECK_INT(plain.bytes[0], 65);
  in.why_ptx = "ptxas does not know sm_90a";
  kiln_code_info_encode(&in, &with);
  CHECK_INT(with.bytes[0], 66);
  CHECK(kiln_code_info_decode(with.bytes, with.size, &out));
  CHECK_TEXT(out.why_ptx, "ptxas does not know sm_90a");
  for (size_t cut = 0; cut < with.size; cut++) CHECK(!kiln_code_info_decode(with.bytes, cut, &out));
  kiln_buffer_deinit(&plain);
  kiln_buffer_deinit(&with);
}
