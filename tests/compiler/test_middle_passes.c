// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Folding, CSE, dead code, contraction, control flow, loop-invariant motion: small kernels, and what is left
// of them.
#include "compiler/front.h"
#include "compiler/middle/passes.h"
#include "compiler/ir/scalar.h"
#include "tests/harness.h"

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

static void count_one(ir_op *op, void *context) { ((unsigned *)context)[op->code]++; }
static unsigned count(sample *s, ir_opcode code) {
  unsigned counts[IR_OPCODE_COUNT] = {0};
  ir_walk(s->kernel->body, count_one, counts);
  return counts[code];
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

TEST(fold, identities_are_exact) {
  sample s = begin();
  ir_value *zero = ir_const_float(&s.b, KILN_F32, 0.0);
  store_float(&s, ir_binary(&s.b, IR_ADD, 0, s.x, zero)); // -0 + 0 is 0: not x
  canonicalise(&s);
  CHECK_INT(count(&s, IR_ADD), 1);
  end(&s);
  s = begin();
  store_float(&s,
              ir_binary(&s.b, IR_SUB, 0, ir_binary(&s.b, IR_MUL, 0, s.x, ir_const_float(&s.b, KILN_F32, 1)),
                        ir_const_float(&s.b, KILN_F32, 0)));
  canonicalise(&s);
  CHECK(stored(&s)->def->operands[0] == s.x);
  end(&s);
}

TEST(fold, uniform_work_becomes_scalar) {
  sample s = begin();
  ir_value *lanes = ir_iota(&s.b, 6), *p = ir_splat(&s.b, s.out, lanes->type);
  ir_value *base = ir_splat(&s.b, ir_binary(&s.b, IR_MUL, 0, s.n, i32(&s, 64)), lanes->type);
  p = ir_binary(&s.b, IR_PTRADD, 0, p, ir_binary(&s.b, IR_ADD, 0, base, lanes));
  ir_emit(&s.b, IR_STORE, NULL, (ir_value *[]){p, lanes}, 2, NULL, NULL, 0);
  canonicalise(&s);
  const ir_op *add = s.kernel->body->last->operands[0]->def;
  CHECK_INT(add->code, IR_PTRADD);
  CHECK_INT(add->operands[1]->def->code, IR_IOTA);
  CHECK_INT(add->operands[0]->def->code, IR_SPLAT);
  CHECK_INT(add->operands[0]->def->operands[0]->def->code, IR_PTRADD);
  CHECK_INT(count(&s, IR_ADD), 0);
  end(&s);
}

TEST(fold, two_scalars_join_by_lanes) {
  sample s = begin();
  ir_op *join = ir_emit(&s.b, IR_JOIN, NULL, (ir_value *[]){s.n, i32(&s, 7)}, 2, NULL, NULL, 0);
  ir_value *pair = &join->results[0], *p = ir_splat(&s.b, s.out, pair->type);
  ir_emit(&s.b, IR_STORE, NULL, (ir_value *[]){p, pair}, 2, NULL, NULL, 0);
  canonicalise(&s);
  CHECK_INT(count(&s, IR_JOIN), 0);
  CHECK_INT(stored(&s)->def->code, IR_SELECT);
  CHECK(stored(&s)->def->operands[1]->def->operands[0] == s.n);
  end(&s);
}

TEST(fold, constant_masks_disappear) {
  sample s = begin();
  ir_value *on = ir_const_int(&s.b, KILN_I1, 1), *off = ir_const_int(&s.b, KILN_I1, 0);
  ir_value *loaded =
      &ir_emit(&s.b, IR_LOAD, NULL, (ir_value *[]){s.out, off, s.n}, 3, NULL, NULL, 0)->results[0];
  ir_emit(&s.b, IR_STORE, NULL, (ir_value *[]){s.out, s.n, off}, 3, NULL, NULL, 0);
  ir_emit(&s.b, IR_STORE, NULL, (ir_value *[]){s.out, loaded, on}, 3, NULL, NULL, 0);
  canonicalise(&s);
  CHECK_INT(count(&s, IR_STORE), 1);
  CHECK_INT(count(&s, IR_LOAD), 0);
  CHECK_INT(s.kernel->body->last->operand_count, 2);
  CHECK(stored(&s) == s.n);
  end(&s);
}

TEST(fold, integer_conversions_chain) {
  sample s = begin();
  ir_value *wide = ir_cast(&s.b, ir_cast(&s.b, s.n, KILN_I64, 0, 0), KILN_I32, 0, 0);
  store(&s, wide);
  canonicalise(&s);
  CHECK(stored(&s) == s.n);
  end(&s);
  s = begin();
  ir_value *narrow = ir_cast(&s.b, ir_cast(&s.b, s.n, KILN_I8, 0, 0), KILN_I32, 0, 0); // loses bits: stays
  store(&s, narrow);
  canonicalise(&s);
  CHECK_INT(count(&s, IR_CAST), 2);
  end(&s);
}

TEST(cse, equal_operations_merge_but_not_into_combiners) {
  sample s = begin();
  ir_value *a = ir_binary(&s.b, IR_MUL, 0, s.n, s.n), *b = ir_binary(&s.b, IR_MUL, 0, s.n, s.n);
  store(&s, ir_binary(&s.b, IR_XOR, 0, ir_binary(&s.b, IR_ADD, 0, a, i32(&s, 3)),
                      ir_binary(&s.b, IR_MUL, 0, b, i32(&s, 3))));
  ir_block *region = ir_block_create(s.arena);
  ir_builder in = {.arena = s.arena, .block = region};
  ir_value *x = ir_block_arg(s.arena, region, ir_scalar_type(KILN_I32)),
           *y = ir_block_arg(s.arena, region, ir_scalar_type(KILN_I32));
  ir_value *sum = ir_binary(&in, IR_ADD, 0, ir_binary(&in, IR_MUL, 0, x, ir_const_int(&in, KILN_I32, 3)), y);
  ir_yield(&in, &sum, 1);
  ir_value *lanes = ir_iota(&s.b, 4);
  ir_op *reduce = ir_emit(&s.b, IR_REDUCE, NULL, &lanes, 1, NULL, &region, 1);
  store(&s, &reduce->results[0]);
  canonicalise(&s);
  CHECK_INT(count(&s, IR_MUL), 3);
  CHECK_INT(count(&s, IR_CONST), 2);
  CHECK(ir_terminator(region)->block == region && region->first->code == IR_CONST);
  end(&s);
}

/// for i in 0 .. n: carries (sum, unused, unchanged).
static ir_op *loop_of_three(sample *s, ir_value *hi) {
  ir_block *body = ir_block_create(s->arena);
  ir_builder in = {.arena = s->arena, .block = body};
  ir_value *args[4], *first[6] = {i32(s, 0), hi, i32(s, 1), i32(s, 5), i32(s, 6), s->n};
  for (int i = 0; i < 4; i++) args[i] = ir_block_arg(s->arena, body, ir_scalar_type(KILN_I32));
  ir_value *next[3] = {ir_binary(&in, IR_ADD, 0, args[1], args[0]),
                       ir_binary(&in, IR_XOR, 0, args[2], args[0]), args[3]};
  ir_yield(&in, next, 3);
  return ir_emit(&s->b, IR_FOR, NULL, first, 6, NULL, &body, 1);
}

TEST(dce, loops_lose_what_nobody_reads) {
  sample s = begin();
  ir_op *loop = loop_of_three(&s, s.n);
  store(&s, ir_binary(&s.b, IR_ADD, 0, &loop->results[0], &loop->results[2]));
  canonicalise(&s);
  CHECK_INT(loop->result_count, 1);
  CHECK_INT(loop->operand_count, 4);
  CHECK_INT(loop->regions[0]->arg_count, 2);
  CHECK_INT(count(&s, IR_XOR), 0);
  end(&s);
}

TEST(dce, a_loop_without_effect_goes_whole) {
  sample s = begin();
  loop_of_three(&s, s.n);
  store(&s, s.n);
  canonicalise(&s);
  CHECK_INT(count(&s, IR_FOR), 0);
  CHECK_INT(count(&s, IR_ADD), 0);
  end(&s);
}

TEST(dce, a_while_keeps_its_condition_only) {
  sample s = begin();
  ir_block *test = ir_block_create(s.arena), *body = ir_block_create(s.arena);
  ir_builder t = {.arena = s.arena, .block = test}, w = {.arena = s.arena, .block = body};
  ir_type i = ir_scalar_type(KILN_I32);
  ir_value *a = ir_block_arg(s.arena, test, i), *b = ir_block_arg(s.arena, test, i);
  ir_value *passed[] = {ir_compare(&t, IR_LT, 0, a, s.n), a, b};
  ir_emit(&t, IR_COND, NULL, passed, 3, NULL, NULL, 0);
  ir_value *c = ir_block_arg(s.arena, body, i), *d = ir_block_arg(s.arena, body, i);
  ir_value *next[] = {ir_binary(&w, IR_ADD, 0, c, ir_const_int(&w, KILN_I32, 1)),
                      ir_binary(&w, IR_MUL, 0, d, d)};
  ir_yield(&w, next, 2);
  ir_op *loop = ir_emit(&s.b, IR_WHILE, NULL, (ir_value *[]){i32(&s, 0), i32(&s, 2)}, 2, NULL,
                        (ir_block *[]){test, body}, 2);
  store(&s, &loop->results[0]);
  canonicalise(&s);
  CHECK_INT(loop->result_count, 1);
  CHECK_INT(loop->operand_count, 1);
  CHECK_INT(count(&s, IR_MUL), 0);
  end(&s);
}

TEST(control, known_branches_and_trips_are_inlined) {
  sample s = begin();
  ir_op *loop = loop_of_three(&s, i32(&s, 1));
  ir_block *yes = ir_block_create(s.arena), *no = ir_block_create(s.arena);
  ir_builder y = {.arena = s.arena, .block = yes}, n = {.arena = s.arena, .block = no};
  ir_value *square = ir_binary(&y, IR_MUL, 0, s.n, s.n), *other = ir_const_int(&n, KILN_I32, 9);
  ir_yield(&y, &square, 1);
  ir_yield(&n, &other, 1);
  ir_value *c = ir_compare(&s.b, IR_EQ, 0, &loop->results[0], i32(&s, 5));
  ir_op *branch = ir_emit(&s.b, IR_IF, NULL, &c, 1, NULL, (ir_block *[]){yes, no}, 2);
  store(&s, &branch->results[0]);
  canonicalise(&s);
  CHECK_INT(count(&s, IR_FOR), 0);
  CHECK_INT(count(&s, IR_IF), 0);
  CHECK_INT(stored(&s)->def->code, IR_MUL);
  end(&s);
}

TEST(contract, products_fuse_unless_strict) {
  for (int strict = 0; strict < 2; strict++) {
    sample s = begin();
    s.kernel->fp_strict = strict;
    ir_value *product = ir_binary(&s.b, IR_MUL, 0, s.x, ir_const_float(&s.b, KILN_F32, 3));
    store_float(&s, ir_binary(&s.b, IR_SUB, 0, ir_const_float(&s.b, KILN_F32, 7), product));
    canonicalise(&s);
    CHECK_INT(count(&s, IR_FMA), !strict);
    CHECK_INT(count(&s, IR_MUL), strict);
    end(&s);
  }
}

TEST(contract, a_product_of_two_uses_stays) {
  sample s = begin();
  ir_value *product = ir_binary(&s.b, IR_MUL, 0, s.x, s.x);
  store_float(&s, ir_binary(&s.b, IR_ADD, 0, product, s.x));
  store_float(&s, product);
  canonicalise(&s);
  CHECK_INT(count(&s, IR_FMA), 0);
  end(&s);
}

TEST(canonicalise, is_idempotent) {
  sample s = begin();
  ir_op *loop = loop_of_three(&s, s.n);
  ir_value *product = ir_binary(&s.b, IR_MUL, 0, s.x, s.x);
  store_float(&s, ir_binary(&s.b, IR_SUB, 0, product, s.x));
  store(&s, ir_binary(&s.b, IR_ADD, 0, &loop->results[0], &loop->results[1]));
  canonicalise(&s);
  CHECK(!kiln_fold(s.kernel));
  CHECK(!kiln_simplify_control(s.kernel));
  CHECK(!kiln_cse(s.kernel));
  CHECK(!kiln_dce(s.kernel));
  CHECK(!kiln_contract(s.kernel));
  end(&s);
}

TEST(licm, scalars_leave_the_loop) {
  sample s = begin();
  ir_block *body = ir_block_create(s.arena);
  ir_builder in = {.arena = s.arena, .block = body};
  ir_value *iv = ir_block_arg(s.arena, body, ir_scalar_type(KILN_I32));
  ir_value *square = ir_binary(&in, IR_MUL, 0, s.n, s.n);
  ir_emit(&in, IR_STORE, NULL, (ir_value *[]){s.out, ir_binary(&in, IR_ADD, 0, square, iv)}, 2, NULL, NULL,
          0);
  ir_yield(&in, NULL, 0);
  ir_emit(&s.b, IR_FOR, NULL, (ir_value *[]){i32(&s, 0), s.n, i32(&s, 1)}, 3, NULL, &body, 1);
  check_ok(&s, "building");
  CHECK(kiln_licm(s.kernel));
  check_ok(&s, "licm");
  CHECK(square->def->block == s.kernel->body);
  CHECK(!kiln_licm(s.kernel));
  end(&s);
}
