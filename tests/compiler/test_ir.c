// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The IR itself: typing rules, edits, the verifier, float bit patterns.
#include "tests/harness.h"

#include <math.h>
#include <string.h>

#include "compiler/ir/ir.h"

typedef struct fixture {
  kiln_arena *arena;
  ir_kernel *kernel;
  ir_builder b;
  ir_value *x, *n;
} fixture;

static fixture make(void) {
  fixture f = {.arena = kiln_arena_create()};
  f.kernel = ir_kernel_create(f.arena, "k");
  f.x = ir_add_param(f.kernel,
                     &(ir_param){.name = "x", .type = ir_pointer_type(KILN_F32), .access = IR_ACCESS_INOUT});
  f.n = ir_add_param(f.kernel, &(ir_param){.name = "n", .type = ir_scalar_type(KILN_I32)});
  f.b = (ir_builder){.arena = f.arena, .block = f.kernel->body};
  return f;
}

static ir_type tile(kiln_scalar scalar, unsigned log2) {
  return (ir_type){.scalar = (uint8_t)scalar, .rank = 1, .log2 = {(uint8_t)log2}};
}

/// x[i] = x[i] + 1 for i < n
static void fill(fixture *f) {
  ir_value *i = ir_iota(&f->b, 7), *limit = ir_splat(&f->b, f->n, i->type);
  ir_value *live = ir_compare(&f->b, IR_LT, 0, i, limit);
  ir_value *p = ir_binary(&f->b, IR_PTRADD, 0, ir_splat(&f->b, f->x, i->type), i);
  ir_op *load = ir_emit(&f->b, IR_LOAD, NULL, (ir_value *[]){p, live}, 2, NULL, NULL, 0);
  ir_value *sum = ir_binary(&f->b, IR_ADD, 0, &load->results[0], ir_const_like(&f->b, tile(KILN_F32, 7), 1));
  ir_emit(&f->b, IR_STORE, NULL, (ir_value *[]){p, sum, live}, 3, NULL, NULL, 0);
  CHECK_INT(f->b.error.status, KILN_OK);
}

TEST(ir, builds_and_verifies) {
  fixture f = make();
  kiln_error err = {0};
  fill(&f);
  CHECK_OK(ir_verify(f.kernel, "build", &err), err);
  kiln_arena_destroy(f.arena);
}

TEST(ir, refuses_wrong_types) {
  fixture f = make();
  ir_value *i = ir_iota(&f.b, 7);
  CHECK(!ir_binary(&f.b, IR_ADD, 0, i, f.n));
  CHECK_INT(f.b.error.status, KILN_STATUS_SOURCE);
  CHECK_TEXT(f.b.error.text, "add: operands differ: expected i32[128], found i32");
  CHECK(!ir_iota(&f.b, 3)); // the first failure stays
  kiln_arena_destroy(f.arena);
}

TEST(ir, only_control_and_combiners_have_regions) {
  fixture f = make();
  ir_block *region = ir_block_create(f.arena);
  CHECK(!ir_emit(&f.b, IR_ADD, NULL, (ir_value *[]){f.n, f.n}, 2, NULL, &region, 1));
  CHECK_TEXT(f.b.error.text, "add: expected 0 regions, found 1");
  kiln_arena_destroy(f.arena);
}

TEST(ir, verifier_sees_use_before_definition) {
  fixture f = make();
  kiln_error err = {0};
  fill(&f);
  ir_move(f.kernel->body->first, f.kernel->body, NULL);
  CHECK_INT(ir_verify(f.kernel, "move", &err), KILN_STATUS_INTERNAL);
  kiln_arena_destroy(f.arena);
}

TEST(ir, verifier_sees_a_forward_that_was_not_applied) {
  fixture f = make();
  kiln_error err = {0};
  fill(&f);
  ir_op *last = f.kernel->body->last;
  last->operands[1]->forward = last->prev->operands[0];
  CHECK_INT(ir_verify(f.kernel, "forward", &err), KILN_STATUS_INTERNAL);
  ir_apply_forwards(f.kernel);
  CHECK_OK(ir_verify(f.kernel, "forward", &err), err);
  kiln_arena_destroy(f.arena);
}

TEST(ir, loops_carry_values_and_clone) {
  fixture f = make();
  kiln_error err = {0};
  ir_block *body = ir_block_create(f.arena);
  ir_block_arg(f.arena, body, ir_scalar_type(KILN_I32));
  ir_value *sum = ir_block_arg(f.arena, body, ir_scalar_type(KILN_I32));
  ir_builder in = {.arena = f.arena, .block = body};
  ir_value *next = ir_binary(&in, IR_ADD, 0, sum, body->args[0]);
  ir_yield(&in, &next, 1);
  ir_value *zero = ir_const_int(&f.b, KILN_I32, 0), *one = ir_const_int(&f.b, KILN_I32, 1);
  ir_op *loop = ir_emit(&f.b, IR_FOR, NULL, (ir_value *[]){zero, f.n, one, zero}, 4, NULL, &body, 1);
  CHECK(loop && loop->result_count == 1 && ir_is_pure(loop));
  ir_number(f.kernel);
  ir_op *copy = ir_clone(&f.b, loop);
  CHECK(copy->regions[0] != body && copy->regions[0]->parent == copy);
  CHECK_OK(ir_verify(f.kernel, "clone", &err), err);
  kiln_arena_destroy(f.arena);
}

TEST(ir, float_bits) {
  static const struct {
    kiln_scalar scalar;
    double value;
    uint64_t bits;
    bool saturate;
  } rows[] = {
      {KILN_F16, 1.0, 0x3c00, 0},
      {KILN_F16, 65504, 0x7bff, 0},
      {KILN_F16, 65520, 0x7c00, 0},
      {KILN_F16, 5.9604644775390625e-8, 1, 0},
      {KILN_F16, 2.98e-8, 0, 0},
      {KILN_F16, -2.0, 0xc000, 0},
      {KILN_BF16, 1.0, 0x3f80, 0},
      {KILN_BF16, 3.3895313892515355e38, 0x7f7f, 0},
      {KILN_E4M3, 448, 0x7e, 1},
      {KILN_E4M3, 1000, 0x7e, 1},
      {KILN_E4M3, 1000, 0x7f, 0},
      {KILN_E4M3, 0.001953125, 0x01, 1},
      {KILN_E5M2, 57344, 0x7b, 1},
      {KILN_E5M2, 1e9, 0x7b, 1},
      {KILN_E5M2, 1e9, 0x7c, 0},
      {KILN_E5M2, 1.5, 0x3e, 1},
      {KILN_F16, 1.0009765625, 0x3c01, 0},
      {KILN_F16, 1.00048828125, 0x3c00, 0},
      {KILN_F16, 1.00146484375, 0x3c02, 0},
  };
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
    if (ir_float_to_bits(rows[i].scalar, rows[i].value, rows[i].saturate) != rows[i].bits)
      FAIL("row %u: %g gives 0x%llx", i, rows[i].value,
           (unsigned long long)ir_float_to_bits(rows[i].scalar, rows[i].value, rows[i].saturate));
}

TEST(ir, float_bits_round_trip) {
  static const kiln_scalar scalars[] = {KILN_F16, KILN_BF16, KILN_E4M3, KILN_E5M2};
  for (unsigned s = 0; s < 4; s++)
    for (uint64_t bits = 0; bits < 1ull << kiln_scalars[scalars[s]].bits; bits++) {
      double v = ir_bits_to_float(scalars[s], bits);
      if (isnan(v)) continue;
      if (ir_float_to_bits(scalars[s], v, false) != bits)
        FAIL("type %u, 0x%llx is %g", s, (unsigned long long)bits, v);
    }
}
