// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the IR itself: typing rules, edits, the verifier, float bit patterns.
#include "tests/harness.h"

#include <math.h>
#include <string.h>

#include "compiler/ir/canonical.h"
#include "compiler/ir/scalar.h"

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
  ir_block *region = KILN_NEW(f.arena, ir_block);
  CHECK(!ir_emit(&f.b, IR_ADD, NULL, (ir_value *[]){f.n, f.n}, 2, NULL, &region, 1));
  CHECK_TEXT(f.b.error.text, "add: expected 0 regions, found 1");
  kiln_arena_destroy(f.arena);
}

// ------------------------------------------------------------------------- the columns of ops.def

TEST(ops, numbers_of_the_stages_are_apart_and_come_back) {
  ir_opcode back;
  for (unsigned code = 0; code < IR_OPCODE_COUNT; code++) {
    uint32_t number = ir_number_of_code((ir_opcode)code);
    CHECK_INT(number >= 4096, ir_ops[code].stage == IR_STAGE_MACHINE);
    CHECK(ir_code_of_number(number, &back));
    CHECK_INT(back, code);
  }
  uint64_t first_free = 4096 + IR_OPCODE_COUNT - IR_TILE_COUNT;
  const uint64_t free_numbers[] = {IR_TILE_COUNT, 4095, first_free, UINT64_MAX};
  for (size_t i = 0; i < sizeof free_numbers / sizeof *free_numbers; i++)
    CHECK(!ir_code_of_number(free_numbers[i], &back));
}

/// Numbers that keys of existing caches hash.
TEST(ops, numbers_of_tile_operations_never_change) {
  static const struct {
    ir_opcode code;
    uint32_t number;
  } pinned[] = {{IR_PID, 0},   {IR_ADD, 5},     {IR_CMP, 19},  {IR_ABS, 21},  {IR_ERF, 32},
                {IR_CAST, 33}, {IR_REDUCE, 41}, {IR_LOAD, 44}, {IR_VIEW, 48}, {IR_BARRIER, 52},
                {IR_DOT, 53},  {IR_ASM, 56},    {IR_FOR, 58},  {IR_IF, 60},   {IR_DIM, 63}};
  for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++)
    CHECK_INT(ir_number_of_code(pinned[i].code), pinned[i].number);
}

/// A kernel of one `barrier`, whose number in the bytes is then replaced.
TEST(ops, the_canonical_form_refuses_machine_operations) {
  kiln_arena *arena = kiln_arena_create();
  ir_kernel *kernel = ir_kernel_create(arena, "k"), *back;
  ir_builder b = {.arena = arena, .block = kernel->body};
  kiln_buffer bytes = {0}, changed = {0};
  kiln_error err = {0};
  ir_emit(&b, IR_BARRIER, NULL, NULL, 0, NULL, NULL, 0);
  CHECK(kiln_canonical_encode(kernel, &bytes));
  CHECK_OK(kiln_canonical_decode(arena, bytes.bytes, bytes.size, "k", &back, &err), err);
  enum { AFTER = 3 }; // mask, operands, regions: one byte each, all 0
  size_t at = bytes.size - AFTER - 1;
  CHECK_INT(bytes.bytes[at], IR_BARRIER);
  kiln_buffer_bytes(&changed, bytes.bytes, at);
  kiln_buffer_varint(&changed, IR_MACHINE_NUMBER);
  kiln_buffer_bytes(&changed, bytes.bytes + at + 1, AFTER);
  CHECK_INT(kiln_canonical_decode(arena, changed.bytes, changed.size, "k", &back, &err), KILN_STATUS_CORRUPT);
  CHECK(strstr(err.text, "found 4096 (operations of machines are not canonical)"));
  kiln_buffer_deinit(&bytes);
  kiln_buffer_deinit(&changed);
  kiln_arena_destroy(arena);
}

/// The byte of a parameter's promises: @within is a bit that was always 0 before it came, so that keys of
/// kernels without it are what they were; of a number it is refused.
TEST(ops, within_is_a_bit_of_the_canonical_form) {
  enum { TYPE = 10, FLAGS = 12 }; // after version, warps, stages, registers, fp, 3 limits, count
  for (unsigned flags = 0; flags < 9; flags++) {
    kiln_arena *arena = kiln_arena_create();
    ir_kernel *kernel = ir_kernel_create(arena, "k"), *back = NULL;
    ir_param param = {
        .name = "p", .type = ir_pointer_type(KILN_F32), .noalias = flags & 1, .within = flags & 4};
    kiln_buffer bytes = {0};
    kiln_error err = {0};
    ir_add_param(kernel, &param);
    CHECK(kiln_canonical_encode(kernel, &bytes));
    CHECK_INT(bytes.bytes[FLAGS], flags & 5);
    bytes.bytes[FLAGS] = (uint8_t)flags;
    bool known = kiln_canonical_decode(arena, bytes.bytes, bytes.size, "k", &back, &err) == KILN_OK;
    CHECK_INT(known, flags < 8);
    if (known) CHECK_INT(back->params[0].within, flags >> 2);
    bytes.bytes[TYPE] = 0; // a number
    CHECK_INT(kiln_canonical_decode(arena, bytes.bytes, bytes.size, "k", &back, &err) == KILN_OK, flags < 4);
    kiln_buffer_deinit(&bytes);
    kiln_arena_destroy(arena);
  }
}

/// @rows is a bit of the same byte and a number after the alignment, of views alone.
TEST(ops, rows_are_in_the_canonical_form_of_views) {
  kiln_arena *arena = kiln_arena_create();
  ir_kernel *kernel = ir_kernel_create(arena, "k"), *back = NULL;
  ir_type type = {.scalar = KILN_F32, .is_view = true, .rank = 2, .log2 = {4, 4}};
  kiln_buffer bytes = {0};
  kiln_error err = {0};
  ir_add_param(kernel, &(ir_param){.name = "p", .type = type, .align = 16, .rows = 32});
  CHECK(kiln_canonical_encode(kernel, &bytes));
  CHECK_OK(kiln_canonical_decode(arena, bytes.bytes, bytes.size, "k", &back, &err), err);
  CHECK_INT(back->params[0].rows, 32);
  CHECK_INT(back->params[0].align, 16);
  uint8_t *flags = memchr(bytes.bytes, 8, bytes.size);
  CHECK(flags && flags[1] == 16 && flags[2] == 32);
  for (unsigned rows = 0; rows < 64; rows++) {
    flags[2] = (uint8_t)rows;
    bool known = kiln_canonical_decode(arena, bytes.bytes, bytes.size, "k", &back, &err) == KILN_OK;
    CHECK_INT(known, rows >= 4 && !(rows & (rows - 1)));
  }
  kiln_buffer_deinit(&bytes);
  kiln_arena_destroy(arena);
}

TEST(ops, only_passes_for_gpus_emit_machine_operations) {
  for (unsigned code = IR_TILE_COUNT; code < IR_OPCODE_COUNT; code++) {
    fixture f = make();
    CHECK(!ir_emit(&f.b, (ir_opcode)code, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(strstr(f.b.error.text, "expected an operation of tiles, found one of machines"));
    kiln_arena_destroy(f.arena);
  }
}

static uint64_t random_bits(uint64_t *state) {
  *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
  return *state;
}

/// Whether `code` of two random elements of `scalar` is ever another value for traded operands.
static bool trades_differ(ir_opcode code, kiln_scalar scalar) {
  uint64_t state = 88172645463325252u;
  ir_value values[3] = {0}, result = {0};
  ir_value *operands[3] = {&values[0], &values[1], &values[2]};
  for (unsigned i = 0; i < 3; i++) values[i].type = ir_scalar_type(scalar);
  result.type = values[0].type;
  ir_op op = {
      .code = code, .operand_count = (uint32_t)ir_ops[code].least, .operands = operands, .results = &result};
  op.attrs.kind = IR_LT;
  for (unsigned n = 0; n < 200; n++) {
    double x = (double)(random_bits(&state) % 2001) - 1000, y = (double)(random_bits(&state) % 2001) - 1000;
    bool is_float = kiln_scalars[scalar].type_class == KILN_CLASS_FLOAT;
    uint64_t a = is_float ? ir_float_to_bits(scalar, x, false) : kiln_scalar_mask((uint64_t)(int64_t)x, 32);
    uint64_t b = is_float ? ir_float_to_bits(scalar, y, false) : kiln_scalar_mask((uint64_t)(int64_t)y, 32);
    if (kiln_scalar_eval(&op, (uint64_t[]){a, b, a}) != kiln_scalar_eval(&op, (uint64_t[]){b, a, a}))
      return true;
  }
  return false;
}

/// The interpreter's arithmetic is the judge of the columns.
TEST(ops, elementwise_and_commuting_are_what_the_arithmetic_does) {
  for (unsigned code = 0; code < IR_TILE_COUNT; code++) {
    const ir_op_info *info = &ir_ops[code];
    bool is_each = ir_has((ir_opcode)code, IR_EACH);
    const bool is_known = kiln_scalar_knows((ir_opcode)code) || code == IR_PTRADD;
    if (is_each && !is_known)
      FAIL("%s is EACH in ops.def: expected a case of arithmetic_of (scalar.c), found none", info->text);
    if (!is_each && is_known)
      FAIL("%s has a case of arithmetic_of (scalar.c): expected EACH in ops.def", info->text);
    if (!is_each || info->least < 2 || code == IR_PTRADD || code == IR_SELECT) {
      CHECK(!ir_has((ir_opcode)code, IR_COMMUTES));
      continue;
    }
    kiln_scalar scalar = info->classes & KILN_CLASS_INT ? KILN_I32 : KILN_F32;
    if (trades_differ((ir_opcode)code, scalar) == ir_has((ir_opcode)code, IR_COMMUTES))
      FAIL("%s: traded operands %s", info->text,
           ir_has((ir_opcode)code, IR_COMMUTES) ? "differ" : "never differ");
  }
}

static uint64_t binary_of(ir_opcode code, kiln_scalar scalar, uint32_t flags, uint64_t a, uint64_t b) {
  ir_value values[2] = {{.type = ir_scalar_type(scalar)}, {.type = ir_scalar_type(scalar)}},
           result = values[0];
  ir_value *operands[2] = {&values[0], &values[1]};
  ir_op op = {.code = code, .operand_count = 2, .operands = operands, .results = &result};
  op.attrs.flags = flags;
  return kiln_scalar_eval(&op, (uint64_t[]){a, b});
}

/// What the row claims of three elements; `of`: 0, 1 and all bits set, of which floats have the first two.
static void claims_hold(ir_opcode code, kiln_scalar scalar, uint32_t flags, const uint64_t x[3],
                        const uint64_t of[3]) {
  static const struct {
    ir_property property;
    unsigned number;
    bool is_end, of_integers;
  } numbers[] = {{IR_UNIT_0, 0, false, false},
                 {IR_UNIT_1, 1, false, false},
                 {IR_UNIT_ONES, 2, false, true},
                 {IR_ENDS_0, 0, true, true},
                 {IR_ENDS_ONES, 2, true, true}};
  const bool is_float = kiln_scalars[scalar].type_class == KILN_CLASS_FLOAT;
  const char *name = ir_ops[code].text;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    const uint64_t n = of[numbers[i].number];
    if (!ir_has(code, numbers[i].property) || (is_float && numbers[i].of_integers)) continue;
    if (binary_of(code, scalar, flags, x[0], n) != (numbers[i].is_end ? n : x[0]))
      FAIL("%s of %llx and %llx", name, (unsigned long long)x[0], (unsigned long long)n);
  }
  if (ir_has(code, IR_REPEATS) && binary_of(code, scalar, flags, x[0], x[0]) != x[0])
    FAIL("%s of %llx twice", name, (unsigned long long)x[0]);
  if (is_float) return;
  if (ir_has(code, IR_CANCELS) && binary_of(code, scalar, flags, x[0], x[0]))
    FAIL("%s of %llx twice", name, (unsigned long long)x[0]);
  if (!ir_has(code, IR_ASSOCIATES)) return;
  if (binary_of(code, scalar, flags, binary_of(code, scalar, flags, x[0], x[1]), x[2]) !=
      binary_of(code, scalar, flags, x[0], binary_of(code, scalar, flags, x[1], x[2])))
    FAIL("%s does not associate", name);
}

TEST(ops, what_rows_claim_of_operands_holds) {
  uint64_t state = 88172645463325252u;
  for (unsigned code = 0; code < IR_TILE_COUNT; code++) {
    const ir_property claims = IR_ASSOCIATES | IR_REPEATS | IR_CANCELS | IR_UNIT_0 | IR_UNIT_1 |
                               IR_UNIT_ONES | IR_ENDS_0 | IR_ENDS_ONES;
    if (!ir_has((ir_opcode)code, claims)) continue;
    CHECK(ir_has((ir_opcode)code, IR_EACH) && ir_ops[code].least == 2 && ir_ops[code].rule == IR_RULE_SAME);
    if (!kiln_scalar_knows((ir_opcode)code)) continue; // the test above says so
    for (unsigned n = 0; n < 200; n++) {
      const uint64_t x[3] = {random_bits(&state), random_bits(&state), random_bits(&state)};
      const uint64_t words[3] = {(uint32_t)x[0], (uint32_t)x[1], (uint32_t)x[2]},
                     bits[3] = {x[0] & 1, x[1] & 1, x[2] & 1};
      const uint64_t floats[3] = {n == 0 ? 0 : n == 1 ? 0x80000000 : (uint32_t)x[0] & 0xbfffffff};
      if (ir_ops[code].classes & KILN_CLASS_INT)
        for (unsigned flags = 0; flags < 2; flags++)
          claims_hold((ir_opcode)code, KILN_I32, flags ? IR_UNSIGNED : 0, words,
                      (uint64_t[]){0, 1, UINT32_MAX});
      if (ir_ops[code].classes & KILN_CLASS_BOOL)
        claims_hold((ir_opcode)code, KILN_I1, 0, bits, (uint64_t[]){0, 1, 1});
      const uint64_t zero = code == IR_ADD ? 0x80000000 : 0;
      if (ir_ops[code].classes & KILN_CLASS_FLOAT)
        claims_hold((ir_opcode)code, KILN_F32, 0, floats, (uint64_t[]){zero, 0x3f800000, 0});
    }
  }
}

// ---------------------------------------------------------------------------------------- verifier

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
  ir_block *body = KILN_NEW(f.arena, ir_block);
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

typedef struct visits {
  const ir_block *block;
  const ir_op *next; ///< what ir_next has after those that were visited
  unsigned count, wrong;
} visits;

static void compare_next(ir_op *op, void *context) {
  visits *v = context;
  v->wrong += v->next != op;
  v->count++;
  v->next = ir_next(v->block, op);
}

TEST(ir, next_follows_the_order_of_walk) {
  fixture f = make();
  ir_value *zero = ir_const_int(&f.b, KILN_I32, 0), *one = ir_const_int(&f.b, KILN_I32, 1);
  ir_value *yes = ir_compare(&f.b, IR_LT, 0, zero, f.n);
  ir_block *body = KILN_NEW(f.arena, ir_block),
           *sides[2] = {KILN_NEW(f.arena, ir_block), KILN_NEW(f.arena, ir_block)};
  ir_block_arg(f.arena, body, ir_scalar_type(KILN_I32));
  for (unsigned i = 0; i < 2; i++) ir_yield(&(ir_builder){.arena = f.arena, .block = sides[i]}, NULL, 0);
  ir_builder in = {.arena = f.arena, .block = body};
  ir_op *branch = ir_emit(&in, IR_IF, NULL, &yes, 1, NULL, sides, 2);
  ir_yield(&in, NULL, 0);
  ir_op *loop = ir_emit(&f.b, IR_FOR, NULL, (ir_value *[]){zero, f.n, one}, 3, NULL, &body, 1);
  ir_binary(&f.b, IR_ADD, 0, f.n, one);
  CHECK(branch && loop);
  const ir_block *blocks[] = {f.kernel->body, body, sides[0], sides[1]};
  static const unsigned counts[] = {9, 4, 1, 1};
  for (unsigned i = 0; i < 4; i++) {
    visits v = {.block = blocks[i], .next = ir_next(blocks[i], NULL)};
    ir_walk((ir_block *)blocks[i], compare_next, &v);
    CHECK_INT(v.count, counts[i]);
    CHECK_INT(v.wrong, 0);
    CHECK(!v.next); // and no operation outside of the block
  }
  CHECK(ir_find(f.kernel->body, IR_YIELD) == sides[0]->last);
  CHECK(ir_find(body, IR_IF) == branch && !ir_find(body, IR_ADD) && !ir_find(body, IR_FOR));
  ir_remove(sides[0]->last); // a region without operations is passed over
  CHECK(ir_next(body, branch) == sides[1]->last && ir_next(body, sides[1]->last) == body->last);
  CHECK(!ir_next(KILN_NEW(f.arena, ir_block), NULL));
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
