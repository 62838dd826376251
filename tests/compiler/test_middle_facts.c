// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests facts: what the analysis says about the address arithmetic that kernels do, and that it never
// claims too much.
#include "compiler/analysis/facts.h"
#include "tests/passes.h"

#include <string.h>

typedef struct sample {
  kiln_arena *arena;
  ir_kernel *kernel;
  ir_builder b;
  ir_value *p, *n, *ld; // *f32 @align(16), i32, i64 @div(8)
} sample;

static sample begin(void) {
  sample s = {.arena = kiln_arena_create()};
  s.kernel = ir_kernel_create(s.arena, "sample");
  s.p = ir_add_param(s.kernel, &(ir_param){.name = "p", .type = ir_pointer_type(KILN_F32), .align = 16});
  s.n = ir_add_param(
      s.kernel,
      &(ir_param){
          .name = "n", .type = ir_scalar_type(KILN_I32), .div = 16, .has_range = true, .lo = 0, .hi = 4096});
  s.ld = ir_add_param(s.kernel, &(ir_param){.name = "ld", .type = ir_scalar_type(KILN_I64), .div = 8});
  s.b = (ir_builder){.arena = s.arena, .block = s.kernel->body};
  return s;
}

static const kiln_fact *fact(sample *s, const ir_value *v) {
  kiln_error err = {0};
  if (s->b.error.status != KILN_OK) FAIL("%s", s->b.error.text);
  if (ir_verify(s->kernel, "building", &err) != KILN_OK) FAIL("%s", err.text);
  return kiln_fact_of(kiln_facts_compute(s->arena, s->kernel), v);
}

static ir_value *pid(sample *s) { return &ir_emit(&s->b, IR_PID, NULL, NULL, 0, NULL, NULL, 0)->results[0]; }
static ir_value *i32(sample *s, int64_t n) { return ir_const_int(&s->b, KILN_I32, n); }
static ir_value *add(sample *s, ir_value *a, ir_value *b) { return ir_binary(&s->b, IR_ADD, 0, a, b); }
static ir_value *mul(sample *s, ir_value *a, ir_value *b) { return ir_binary(&s->b, IR_MUL, 0, a, b); }
static void end(sample *s) { kiln_arena_destroy(s->arena); }

TEST(facts, a_block_of_a_vector) {
  sample s = begin();
  ir_value *lanes = ir_iota(&s.b, 7), *base = mul(&s, pid(&s), i32(&s, 128));
  ir_value *i = add(&s, ir_splat(&s.b, base, lanes->type), lanes);
  ir_value *pointers = ir_binary(&s.b, IR_PTRADD, 0, ir_splat(&s.b, s.p, lanes->type), i);
  ir_value *mask = ir_compare(&s.b, IR_LT, 0, i, ir_splat(&s.b, s.n, lanes->type));
  const kiln_fact *f = fact(&s, i);
  CHECK_INT(f->contiguity[0], 7);
  CHECK_INT(f->divisibility[0], 7);
  CHECK_INT(fact(&s, pointers)->contiguity[0], 7);
  CHECK_INT(fact(&s, pointers)->divisibility[0], 4);
  CHECK_INT(fact(&s, mask)->constancy[0], 4); // n % 16 == 0
  kiln_facts *facts = kiln_facts_compute(s.arena, s.kernel);
  CHECK_INT(kiln_fact_vector(facts, pointers, mask, 0, 4), 2); // 16 bytes of f32
  CHECK_INT(kiln_fact_vector(facts, pointers, NULL, 0, 3), 1);
  end(&s);
}

TEST(facts, runs_modulo_a_multiple_of_their_length) {
  sample s = begin();
  ir_value *lanes = ir_iota(&s.b, 5), *base = ir_splat(&s.b, mul(&s, pid(&s), i32(&s, 32)), lanes->type);
  ir_value *n = ir_splat(&s.b, s.n, lanes->type);
  ir_value *low = ir_binary(&s.b, IR_REM, 0, lanes, n), *below = ir_binary(&s.b, IR_SUB, 0, lanes, n);
  CHECK_INT(fact(&s, low)->contiguity[0], 4); // n % 16 == 0, lanes are not negative
  CHECK_INT(fact(&s, ir_binary(&s.b, IR_REM, 0, base, n))->contiguity[0], 0);
  CHECK_INT(fact(&s, ir_binary(&s.b, IR_REM, 0, below, n))->contiguity[0], 0); // -1, then 0 again: no run
  CHECK_INT(fact(&s, ir_binary(&s.b, IR_REM, 0, lanes, ir_splat(&s.b, add(&s, s.n, i32(&s, 1)), lanes->type)))
                ->contiguity[0],
            0);
  end(&s);
}

TEST(facts, rows_with_a_leading_dimension) {
  sample s = begin();
  ir_value *rows = ir_expand(&s.b, ir_iota(&s.b, 4), 1), *columns = ir_expand(&s.b, ir_iota(&s.b, 5), 0);
  ir_type tile = {.scalar = KILN_I64, .rank = 2, .log2 = {4, 5}};
  ir_value *row = ir_cast(&s.b, rows, KILN_I64, 0, 0), *column = ir_cast(&s.b, columns, KILN_I64, 0, 0);
  ir_value *offset = add(&s, ir_broadcast(&s.b, mul(&s, row, ir_splat(&s.b, s.ld, row->type)), tile),
                         ir_broadcast(&s.b, column, tile));
  const kiln_fact *f = fact(&s, offset);
  CHECK_INT(f->contiguity[1], 5);
  CHECK_INT(f->divisibility[1], 3);
  CHECK_INT(f->contiguity[0], 0);
  ir_value *turned =
      &ir_emit(&s.b, IR_TRANS, &(ir_attrs){.perm = {1, 0}}, &offset, 1, NULL, NULL, 0)->results[0];
  CHECK_INT(fact(&s, turned)->contiguity[0], 5);
  end(&s);
}

TEST(facts, division_and_rest_of_lanes) {
  sample s = begin();
  ir_value *lanes = ir_iota(&s.b, 7), *eight = ir_splat(&s.b, i32(&s, 8), lanes->type);
  const kiln_fact *f = fact(&s, ir_binary(&s.b, IR_DIV, 0, lanes, eight));
  CHECK_INT(f->constancy[0], 3);
  CHECK_INT(f->hi, 15);
  f = fact(&s, ir_binary(&s.b, IR_REM, 0, lanes, eight));
  CHECK_INT(f->contiguity[0], 3);
  CHECK_INT(f->lo, 0);
  CHECK_INT(f->hi, 7);
  end(&s);
}

/// Lanes of a program that are not negative, by a multiple of a power of two: 768 = 3 * 256.
TEST(facts, division_by_a_multiple_of_the_run) {
  sample s = begin();
  ir_value *lanes = ir_iota(&s.b, 7), *by = ir_splat(&s.b, i32(&s, 768), lanes->type);
  ir_value *base = ir_splat(&s.b, mul(&s, s.n, i32(&s, 8)), lanes->type), *at = add(&s, base, lanes);
  CHECK_INT(fact(&s, ir_binary(&s.b, IR_DIV, 0, at, by))->constancy[0], 7);
  CHECK_INT(fact(&s, ir_binary(&s.b, IR_REM, 0, at, by))->contiguity[0], 7);
  ir_value *odd = ir_splat(&s.b, i32(&s, 3 * 16), lanes->type); // runs of 16 stay together
  CHECK_INT(fact(&s, ir_binary(&s.b, IR_DIV, 0, at, odd))->constancy[0], 4);
  ir_value *below = ir_binary(&s.b, IR_SUB, 0, lanes, base); // -1 / 768 and 0 / 768 are both 0
  CHECK_INT(fact(&s, ir_binary(&s.b, IR_DIV, 0, below, by))->constancy[0], 0);
  end(&s);
}

/// Pointers to i1 that become pointers to i8 grow by a byte as before; of other sizes nothing is known.
TEST(facts, pointers_of_another_type_grow_alike) {
  sample s = begin();
  ir_value *lanes = ir_iota(&s.b, 7);
  ir_value *p = ir_binary(&s.b, IR_PTRADD, 0, ir_splat(&s.b, s.p, lanes->type), lanes);
  CHECK_INT(fact(&s, ir_bitcast(&s.b, p, ir_pointer_type(KILN_I32)))->contiguity[0], 7);
  CHECK_INT(fact(&s, ir_bitcast(&s.b, p, ir_pointer_type(KILN_I16)))->contiguity[0], 0);
  end(&s);
}

TEST(facts, a_comparison_may_turn_inside_a_run) {
  sample s = begin();
  ir_value *lanes = ir_iota(&s.b, 7), *bound = ir_splat(&s.b, s.n, lanes->type);
  CHECK_INT(fact(&s, ir_compare(&s.b, IR_LE, 0, lanes, bound))->constancy[0], 0);
  CHECK_INT(fact(&s, ir_compare(&s.b, IR_GE, 0, lanes, bound))->constancy[0], 4);
  CHECK_INT(fact(&s, ir_compare(&s.b, IR_GT, 0, bound, lanes))->constancy[0], 4);
  CHECK_INT(fact(&s, ir_compare(&s.b, IR_EQ, 0, lanes, bound))->constancy[0], 0);
  end(&s);
}

TEST(facts, an_access_says_nothing_of_its_offset) {
  sample s = begin();
  ir_value *base = mul(&s, pid(&s), i32(&s, 128));
  ir_binary(&s.b, IR_PTRADD, 0, s.p, base);
  CHECK_INT(fact(&s, base)->lo, INT32_MIN); // it may wrap, and then be negative
  CHECK_INT(fact(&s, base)->hi, INT32_MAX - 127);
  end(&s);
}

TEST(facts, multiples_leave_room_for_lanes) {
  sample s = begin();
  ir_value *lanes = ir_iota(&s.b, 7), *more = ir_iota(&s.b, 8);
  ir_value *base = mul(&s, pid(&s), i32(&s, 128)),
           *within = add(&s, ir_splat(&s.b, base, lanes->type), lanes),
           *beyond = add(&s, ir_splat(&s.b, base, more->type), more),
           *doubled = ir_binary(&s.b, IR_SHL, 0, base, i32(&s, 1)),
           *below = ir_binary(&s.b, IR_SUB, 0, i32(&s, 0), base);
  fact(&s, base);
  kiln_facts *facts = kiln_facts_compute(s.arena, s.kernel);
  CHECK(!kiln_fact_does_not_wrap(facts, base->def));
  CHECK(kiln_fact_does_not_wrap(facts, within->def));
  CHECK(!kiln_fact_does_not_wrap(facts, beyond->def));
  CHECK(!kiln_fact_does_not_wrap(facts, doubled->def));
  CHECK(!kiln_fact_does_not_wrap(facts, below->def)); // 0 - -2^31
  s.kernel->grid_limit[0] = (INT64_C(1) << 31) / 128;
  facts = kiln_facts_compute(s.arena, s.kernel);
  CHECK(kiln_fact_does_not_wrap(facts, base->def));
  CHECK(!kiln_fact_does_not_wrap(facts, beyond->def)); // the last program's last lanes
  CHECK(!kiln_fact_does_not_wrap(facts, doubled->def));
  CHECK(kiln_fact_does_not_wrap(facts, below->def));
  s.kernel->grid_limit[0]--;
  facts = kiln_facts_compute(s.arena, s.kernel);
  CHECK(kiln_fact_does_not_wrap(facts, beyond->def));
  end(&s);
}

TEST(facts, ranges_know_when_they_wrap) {
  sample s = begin();
  CHECK_INT(fact(&s, add(&s, s.n, i32(&s, 5)))->hi, 4101);
  ir_value *wraps = mul(&s, mul(&s, s.n, s.n), i32(&s, 4096));
  CHECK_INT(fact(&s, wraps)->lo, INT32_MIN);
  CHECK_INT(fact(&s, wraps)->hi, INT32_MAX - ((1 << 20) - 1)); // 16 * 16 * 4096 divides it
  s.kernel->grid_limit[0] = 100;
  ir_value *p = pid(&s);
  CHECK_INT(fact(&s, p)->hi, 99);
  end(&s);
}

static ir_op *counting_loop(sample *s, ir_value *step, ir_value **carried) {
  ir_block *body = KILN_NEW(s->arena, ir_block);
  ir_builder in = {.arena = s->arena, .block = body};
  ir_value *iv = ir_block_arg(s->arena, body, ir_scalar_type(KILN_I32));
  *carried = ir_block_arg(s->arena, body, ir_scalar_type(KILN_I32));
  ir_value *next = ir_binary(&in, IR_ADD, 0, *carried, ir_const_int(&in, KILN_I32, 12));
  ir_yield(&in, &next, 1);
  (void)iv;
  return ir_emit(&s->b, IR_FOR, NULL, (ir_value *[]){i32(s, 0), s->n, step, i32(s, 8)}, 4, NULL, &body, 1);
}

TEST(facts, loops_reach_a_fixed_point) {
  sample s = begin();
  ir_value *carried;
  ir_op *loop = counting_loop(&s, i32(&s, 32), &carried);
  const kiln_fact *f = fact(&s, loop->regions[0]->args[0]);
  CHECK_INT(f->divisibility[0], 5);
  CHECK_INT(f->lo, 0);
  CHECK_INT(f->hi, 4064); // 0, 32, ...
  f = fact(&s, carried);
  CHECK_INT(f->divisibility[0], 2); // 8, 20, 32, ...
  CHECK_INT(f->hi, INT32_MAX);
  CHECK_INT(fact(&s, &loop->results[0])->divisibility[0], 2);
  end(&s);
}

/// What a loop up to `bound` leaves of n.
static int64_t least_left(sample *s, ir_value *n, ir_value *bound) {
  ir_block *body = KILN_NEW(s->arena, ir_block);
  ir_builder in = {.arena = s->arena, .block = body};
  ir_value *counter = ir_block_arg(s->arena, body, ir_scalar_type(KILN_I32));
  ir_value *left = ir_binary(&in, IR_SUB, 0, n, counter);
  ir_yield(&in, NULL, 0);
  ir_emit(&s->b, IR_FOR, NULL, (ir_value *[]){i32(s, 0), bound, i32(s, 16)}, 3, NULL, &body, 1);
  return fact(s, left)->lo;
}

TEST(facts, a_loop_has_not_done_what_is_left) {
  sample s = begin();
  ir_value *n = add(&s, mul(&s, s.n, s.n), i32(&s, 3)), *other = mul(&s, pid(&s), s.n), *five = i32(&s, 5);
  ir_value *any = ir_cast(&s.b, s.ld, KILN_I32, 0, 0);
  ir_value *least = ir_binary(&s.b, IR_MIN, 0, five, n);
  ir_value *raised = ir_binary(&s.b, IR_MAX, 0, other, i32(&s, 0));
  CHECK_INT(least_left(&s, n, n), 1);
  CHECK_INT(least_left(&s, n, least), 1);
  CHECK_INT(least_left(&s, n, ir_binary(&s.b, IR_MIN, 0, ir_binary(&s.b, IR_SUB, 0, n, raised), five)), 1);
  ir_value *down = mul(&s, ir_binary(&s.b, IR_DIV, 0, raised, i32(&s, 16)), i32(&s, 16)),
           *up = mul(&s, ir_binary(&s.b, IR_DIV, 0, raised, i32(&s, 16)), i32(&s, 32));
  CHECK_INT(least_left(&s, n, ir_binary(&s.b, IR_SUB, 0, n, down)), 1);
  CHECK(least_left(&s, n, ir_binary(&s.b, IR_SUB, 0, n, up)) < 1);
  // a negative number less a large one wraps to a large bound
  CHECK_INT(least_left(&s, any, any), 8);
  CHECK(least_left(&s, any, ir_binary(&s.b, IR_SUB, 0, any, raised)) < 1);
  // up to something else, to more
  CHECK(least_left(&s, n, other) < 1);
  CHECK(least_left(&s, n, ir_binary(&s.b, IR_MAX, 0, n, five)) < 1);
  CHECK(least_left(&s, n, ir_binary(&s.b, IR_MIN, IR_UNSIGNED, n, other)) < 1);
  CHECK(least_left(&s, n, ir_binary(&s.b, IR_SUB, 0, n, other)) < 1);
  end(&s);
}

TEST(facts, a_hint_rounds_the_least_value_up) {
  sample s = begin();
  ir_value *below = ir_binary(&s.b, IR_SUB, 0, ir_binary(&s.b, IR_MAX, 0, pid(&s), i32(&s, 1)), i32(&s, 128));
  CHECK_INT(fact(&s, below)->lo, -127);
  for (int64_t by = 64; by <= 256; by *= 2) {
    ir_op *hint = ir_emit(&s.b, IR_HINT, &(ir_attrs){.hint = {.divisible = by}}, &below, 1, NULL, NULL, 0);
    CHECK_INT(fact(&s, &hint->results[0])->lo, by == 64 ? -64 : 0);
  }
  end(&s);
}

TEST(facts, assumes_and_hints_count) {
  sample s = begin();
  ir_value *k = ir_binary(&s.b, IR_SHR, 0, s.n, ir_cast(&s.b, s.ld, KILN_I32, 0, 0));
  ir_value *rest = ir_compare(&s.b, IR_EQ, 0, ir_binary(&s.b, IR_REM, 0, k, i32(&s, 64)), i32(&s, 0));
  ir_value *positive = ir_compare(&s.b, IR_GT, 0, k, i32(&s, 0)),
           *claim = ir_binary(&s.b, IR_AND, 0, rest, positive);
  ir_emit(&s.b, IR_ASSUME, NULL, &claim, 1, NULL, NULL, 0);
  CHECK_INT(fact(&s, k)->divisibility[0], 6);
  CHECK_INT(fact(&s, k)->lo, 64); // above 0, and a multiple
  ir_op *hint = ir_emit(&s.b, IR_HINT, &(ir_attrs){.hint = {.divisible = 256}}, &s.p, 1, NULL, NULL, 0);
  CHECK_INT(fact(&s, &hint->results[0])->divisibility[0], 8);
  end(&s);
}

// Columns next to each other in memory: only the first of each run is a multiple.
TEST(facts, a_hint_is_of_the_runs_of_any_axis) {
  sample s = begin();
  const ir_type tile = {.scalar = KILN_F32, .pointer = 1, .rank = 2, .log2 = {6, 3}};
  ir_value *rows = ir_broadcast(&s.b, ir_expand(&s.b, ir_iota(&s.b, 6), 1),
                                ir_with_element(tile, ir_scalar_type(KILN_I32)));
  ir_value *next = ir_binary(&s.b, IR_PTRADD, 0, ir_splat(&s.b, s.p, tile), rows);
  ir_value *both[2] = {next, ir_binary(&s.b, IR_PTRADD, 0, next, ir_splat(&s.b, s.n, rows->type))};
  for (unsigned i = 0; i < 2; i++) {
    ir_op *hint =
        ir_emit(&s.b, IR_HINT, &(ir_attrs){.hint = {.divisible = 1024}}, &both[i], 1, NULL, NULL, 0);
    const kiln_fact *f = fact(&s, &hint->results[0]);
    CHECK_INT(f->divisibility[0], 10);
    CHECK_INT(f->contiguity[0], 6);
    CHECK(f->divisibility[1] < 10);
  }
  end(&s);
}

TEST(facts, unknown_values_have_the_empty_fact) {
  sample s = begin();
  kiln_facts *facts = kiln_facts_compute(s.arena, s.kernel);
  ir_value *later = i32(&s, 4);
  CHECK_INT(kiln_fact_of(facts, later)->divisibility[0], 0);
  CHECK(!kiln_fact_within(kiln_fact_of(facts, later), 0, 100));
  end(&s);
}

TEST(narrow, offsets_and_comparisons_fit_32_bits) {
  sample s = begin();
  ir_value *wide = ir_cast(&s.b, s.n, KILN_I64, 0, 0);
  ir_value *offset =
      add(&s, mul(&s, wide, ir_const_int(&s.b, KILN_I64, 1000)), ir_const_int(&s.b, KILN_I64, 7));
  ir_value *p = ir_binary(&s.b, IR_PTRADD, 0, s.p, offset);
  ir_value *c = ir_compare(&s.b, IR_LT, 0, offset, ir_const_int(&s.b, KILN_I64, 10000));
  ir_emit(&s.b, IR_STORE, NULL, (ir_value *[]){p, ir_const_float(&s.b, KILN_F32, 1), c}, 3, NULL, NULL, 0);
  CHECK(kiln_test_pass(kiln_pass_narrow, s.kernel));
  kiln_test_pass(kiln_pass_simplify, s.kernel);
  fact(&s, s.p);
  CHECK_INT(p->def->operands[1]->type.scalar, KILN_I32);
  CHECK_INT(c->def->operands[0]->type.scalar, KILN_I32);
  CHECK(!kiln_test_pass(kiln_pass_narrow, s.kernel));
  end(&s);
}

/// A rest by what came from 32 bits fits 32 bits, so the next division of it is a narrow one; a first
/// division of a wide number stays wide.
TEST(narrow, divisions_of_rests_take_32_bits) {
  sample s = begin();
  ir_value *ld = ir_cast(&s.b, s.n, KILN_I64, 0, 0);
  ir_value *wide = ir_binary(&s.b, IR_REM, 0, s.ld, ld),
           *rest = ir_binary(&s.b, IR_REM, 0, wide, ir_const_int(&s.b, KILN_I64, 100));
  ir_value *quotient = ir_binary(&s.b, IR_DIV, 0, wide, ld);
  ir_emit(&s.b, IR_STORE, NULL, (ir_value *[]){s.p, ir_cast(&s.b, add(&s, rest, quotient), KILN_F32, 0, 0)},
          2, NULL, NULL, 0);
  CHECK(kiln_fact_within(fact(&s, wide), -INT32_MAX, INT32_MAX));
  CHECK(kiln_fact_within(fact(&s, rest), -99, 99));
  CHECK(kiln_test_pass(kiln_pass_narrow, s.kernel));
  kiln_test_pass(kiln_pass_simplify, s.kernel);
  fact(&s, s.p);
  CHECK(wide->def->block != NULL);
  CHECK(rest->def->block == NULL);
  CHECK(quotient->def->block == NULL);
  unsigned narrow = 0;
  for (const ir_op *op = s.kernel->body->first; op; op = op->next)
    if ((op->code == IR_DIV || op->code == IR_REM) && op->operands[0]->type.scalar == KILN_I32) narrow++;
  CHECK_INT(narrow, 2);
  end(&s);
}

TEST(narrow, comparisons_that_always_hold_go) {
  sample s = begin();
  ir_value *c = ir_compare(&s.b, IR_LE, 0, s.n, i32(&s, 4096));
  ir_emit(&s.b, IR_STORE, NULL, (ir_value *[]){s.p, ir_const_float(&s.b, KILN_F32, 1), c}, 3, NULL, NULL, 0);
  CHECK(kiln_test_pass(kiln_pass_narrow, s.kernel));
  kiln_test_pass(kiln_pass_simplify, s.kernel);
  fact(&s, s.p);
  CHECK_INT(s.kernel->body->last->operand_count, 2);
  end(&s);
}

TEST(guard, only_divisors_that_may_be_zero) {
  sample s = begin();
  ir_value *ld = ir_cast(&s.b, s.ld, KILN_I32, 0, 0);
  ir_value *fine = ir_binary(&s.b, IR_DIV, 0, ld, add(&s, s.n, i32(&s, 1))),
           *risky = ir_binary(&s.b, IR_DIV, 0, s.n, ld);
  ir_emit(&s.b, IR_STORE, NULL, (ir_value *[]){s.p, ir_cast(&s.b, add(&s, fine, risky), KILN_F32, 0, 0)}, 2,
          NULL, NULL, 0);
  CHECK(kiln_test_pass(kiln_pass_guard, s.kernel));
  kiln_test_pass(kiln_pass_dce, s.kernel);
  fact(&s, s.p);
  CHECK(fine->def->block != NULL);
  CHECK(risky->def->block == NULL);
  end(&s);
}
