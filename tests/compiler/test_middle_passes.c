// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the arithmetic of the folder, row by row, and that the canonical form is a fixed point. What each
// pass does to a kernel is tested in tests/passes.
#include "compiler/front.h"
#include "compiler/ir/scalar.h"
#include "compiler/passes/canonical/canonical.h"
#include "tests/passes.h"

#include <math.h>
#include <string.h>

/// A kernel under construction with one pointer to store to, so that what is computed is needed.
typedef struct sample {
  kiln_arena *arena;
  ir_kernel *kernel;
  ir_builder b;
  ir_value *out, *n, *x; // *i32, i32, f32
} sample;

static sample begin(void) {
  sample s = {.arena = kiln_arena_create()};
  s.kernel = ir_kernel_create(s.arena, "sample");
  s.out = ir_add_param(s.kernel, &(ir_param){.name = "out", .type = ir_pointer_type(KILN_I32)});
  s.n = ir_add_param(s.kernel, &(ir_param){.name = "n", .type = ir_scalar_type(KILN_I32)});
  s.x = ir_add_param(s.kernel, &(ir_param){.name = "x", .type = ir_scalar_type(KILN_F32)});
  s.b = (ir_builder){.arena = s.arena, .block = s.kernel->body};
  return s;
}

static void end(sample *s) { kiln_arena_destroy(s->arena); }

static ir_value *i32(sample *s, int64_t n) { return ir_const_int(&s->b, KILN_I32, n); }
static void store(sample *s, ir_value *v) {
  ir_emit(&s->b, IR_STORE, NULL, (ir_value *[]){s->out, v}, 2, NULL, NULL, 0);
}
static void store_float(sample *s, ir_value *v) { store(s, ir_bitcast(&s->b, v, ir_scalar_type(KILN_I32))); }

static void check_ok(sample *s, const char *stage) {
  kiln_error err = {0};
  if (s->b.error.status != KILN_OK) FAIL("%s", s->b.error.text);
  if (ir_verify(s->kernel, stage, &err) != KILN_OK) FAIL("%s", err.text);
}

/// What the last store of the body stores.
static ir_value *stored(sample *s) { return s->kernel->body->last->operands[1]; }

static void canonicalise(sample *s) {
  check_ok(s, "building");
  kiln_canonicalise(s->kernel);
  check_ok(s, "canonicalise");
}

TEST(fold, constants_meet_the_language) {
  struct {
    ir_opcode code;
    uint32_t flags;
    int64_t a, b, want;
  } rows[] = {
      {IR_ADD, 0, INT32_MAX, 1, INT32_MIN},
      {IR_SHL, 0, 1, 33, 2},
      {IR_SHR, 0, -8, 1, -4},
      {IR_SHR, IR_UNSIGNED, -8, 28, 15},
      {IR_DIV, 0, -7, 2, -3},
      {IR_REM, 0, -7, 2, -1},
      {IR_DIV, 0, INT32_MIN, -1, INT32_MIN},
      {IR_REM, 0, INT32_MIN, -1, 0},
      {IR_DIV, 0, 5, 0, 0},
      {IR_MIN, IR_UNSIGNED, -1, 1, 1},
      {IR_MULHI, 0, -1, 1, -1},
      {IR_MULHI, IR_UNSIGNED, -1, -1, -2},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    sample s = begin();
    store(&s, ir_binary(&s.b, rows[i].code, rows[i].flags, i32(&s, rows[i].a), i32(&s, rows[i].b)));
    canonicalise(&s);
    int64_t got;
    if (!ir_constant_int(stored(&s), &got)) FAIL("row %zu is not folded", i);
    if (got != rows[i].want)
      FAIL("row %zu: expected %lld, found %lld", i, (long long)rows[i].want, (long long)got);
    end(&s);
  }
}

TEST(fold, casts_saturate_and_round) {
  struct {
    kiln_scalar from, to;
    uint32_t flags;
    ir_round round;
    uint64_t bits, want;
  } rows[] = {
      {KILN_F32, KILN_I8, 0, 0, 0x43960000, 0x7f},                 // 300
      {KILN_F32, KILN_I32, 0, 0, 0x7fc00000, 0},                   // NaN
      {KILN_F32, KILN_I32, IR_UNSIGNED, 0, 0xc0000000, 0},         // -2
      {KILN_F32, KILN_I64, 0, 0, 0xff800000, 0x8000000000000000u}, // -inf
      {KILN_F32, KILN_E4M3, 0, 0, 0x44000000, 0x7e},               // 512 saturates to 448
      {KILN_F32, KILN_E4M3, IR_SATURATE_OFF, 0, 0x44000000, 0x7f},
      {KILN_F32, KILN_E5M2, IR_SATURATE_OFF, 0, 0x7f800000, 0x7c},
      {KILN_F32, KILN_BF16, 0, 0, 0x3f808000, 0x3f80}, // a tie goes to even
      {KILN_F32, KILN_BF16, 0, 0, 0x3f818000, 0x3f82},
      {KILN_F32, KILN_BF16, 0, IR_ROUND_ZERO, 0x3f81ffff, 0x3f81},
      {KILN_F32, KILN_F16, 0, IR_ROUND_ZERO, 0x477fffff, 0x7bff}, // just below 65536
      {KILN_F64, KILN_F16, 0, 0, 0x3ff0020000000001u, 0x3c01},    // one rounding, not two
      {KILN_I64, KILN_F32, 0, 0, 0x7fffffffffffffffu, 0x5f000000},
      {KILN_I64, KILN_F32, 0, IR_ROUND_ZERO, 0x7fffffffffffffffu, 0x5effffff},
      {KILN_I8, KILN_I32, 0, 0, 0x80, 0xffffff80},
      {KILN_I8, KILN_I32, IR_UNSIGNED, 0, 0x80, 0x80},
      {KILN_I1, KILN_F32, 0, 0, 1, 0x3f800000},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    uint64_t got = kiln_scalar_cast(rows[i].from, rows[i].to, rows[i].flags, rows[i].round, rows[i].bits);
    if (got != rows[i].want)
      FAIL("row %zu: expected 0x%llx, found 0x%llx", i, (unsigned long long)rows[i].want,
           (unsigned long long)got);
  }
}

TEST(fold, minimum_takes_the_number_and_orders_zeros) {
  uint64_t nan = 0x7fc00000, one = 0x3f800000, minus_zero = 0x80000000;
  CHECK_INT(kiln_scalar_combine(IR_COMBINE_MIN, KILN_F32, 0, nan, one), one);
  CHECK_INT(kiln_scalar_combine(IR_COMBINE_MAX, KILN_F32, 0, one, nan), one);
  CHECK_INT(kiln_scalar_combine(IR_COMBINE_MAX, KILN_F32, IR_NAN, one, nan), nan);
  CHECK_INT(kiln_scalar_combine(IR_COMBINE_MIN, KILN_F32, 0, 0, minus_zero), minus_zero);
  CHECK_INT(kiln_scalar_combine(IR_COMBINE_MAX, KILN_F32, 0, minus_zero, 0), 0);
}

TEST(fold, half_arithmetic_rounds_after_each_operation) {
  uint64_t big = ir_float_to_bits(KILN_F16, 2048, false), one = ir_float_to_bits(KILN_F16, 1, false);
  CHECK_INT(kiln_scalar_combine(IR_COMBINE_ADD, KILN_F16, 0, big, one), big);
}

/// for i in 0 .. n: carries (sum, unused, unchanged).
static ir_op *loop_of_three(sample *s, ir_value *hi) {
  ir_block *body = KILN_NEW(s->arena, ir_block);
  ir_builder in = {.arena = s->arena, .block = body};
  ir_value *args[4], *first[6] = {i32(s, 0), hi, i32(s, 1), i32(s, 5), i32(s, 6), s->n};
  for (int i = 0; i < 4; i++) args[i] = ir_block_arg(s->arena, body, ir_scalar_type(KILN_I32));
  ir_value *next[3] = {ir_binary(&in, IR_ADD, 0, args[1], args[0]),
                       ir_binary(&in, IR_XOR, 0, args[2], args[0]), args[3]};
  ir_yield(&in, next, 3);
  return ir_emit(&s->b, IR_FOR, NULL, first, 6, NULL, &body, 1);
}

TEST(canonicalise, is_idempotent) {
  sample s = begin();
  ir_op *loop = loop_of_three(&s, s.n);
  ir_value *product = ir_binary(&s.b, IR_MUL, 0, s.x, s.x);
  store_float(&s, ir_binary(&s.b, IR_SUB, 0, product, s.x));
  store(&s, ir_binary(&s.b, IR_ADD, 0, &loop->results[0], &loop->results[1]));
  canonicalise(&s);
  CHECK(!kiln_test_pass(kiln_pass_fold, s.kernel));
  CHECK(!kiln_test_pass(kiln_pass_control, s.kernel));
  CHECK(!kiln_test_pass(kiln_pass_cse, s.kernel));
  CHECK(!kiln_test_pass(kiln_pass_dce, s.kernel));
  CHECK(!kiln_test_pass(kiln_pass_contract, s.kernel));
  end(&s);
}
