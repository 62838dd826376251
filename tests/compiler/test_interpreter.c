// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the interpreter itself: what it refuses and with which messages, the argument block, atomics,
// combiners, scans from the end.
#include "compiler/interpreter/interpreter.h"
#include "tests/harness.h"

#include <string.h>

typedef struct sample {
  kiln_arena *arena;
  ir_kernel *kernel;
  ir_builder b;
  ir_value *out; // *i32
} sample;

static sample begin(void) {
  sample s = {.arena = kiln_arena_create()};
  s.kernel = ir_kernel_create(s.arena, "sample");
  s.out = ir_add_param(s.kernel, &(ir_param){.name = "out", .type = ir_pointer_type(KILN_I32)});
  s.b = (ir_builder){.arena = s.arena, .block = s.kernel->body};
  return s;
}

static ir_value *emit(sample *s, ir_opcode code, ir_attrs attrs, ir_value *const *operands, size_t count) {
  ir_op *op = ir_emit(&s->b, code, &attrs, operands, count, NULL, NULL, 0);
  if (!op) FAIL("%s", s->b.error.text);
  return op->result_count ? &op->results[0] : NULL;
}

static ir_value *i32(sample *s, int64_t n) { return ir_const_int(&s->b, KILN_I32, n); }

static void store_lanes(sample *s, ir_value *v) {
  ir_value *lanes = ir_iota(&s->b, v->type.log2[0]);
  ir_value *p =
      emit(s, IR_PTRADD, (ir_attrs){0}, (ir_value *[]){ir_splat(&s->b, s->out, lanes->type), lanes}, 2);
  emit(s, IR_STORE, (ir_attrs){0}, (ir_value *[]){p, v}, 2);
}

static kiln_status run(sample *s, const void *args, uint32_t programs, const kiln_interpret_options *options,
                       kiln_error *err) {
  if (s->b.error.status != KILN_OK) FAIL("%s", s->b.error.text);
  kiln_status status = kiln_interpret(s->kernel, args, (uint32_t[3]){programs, 1, 1}, options, err);
  kiln_arena_destroy(s->arena);
  return status;
}

TEST(interpreter, an_access_outside_is_named) {
  int32_t buffer[4] = {0}, *p = buffer;
  kiln_memory_range range = {buffer, sizeof buffer};
  kiln_error err = {0};
  sample s = begin();
  store_lanes(&s, ir_iota(&s.b, 3));
  CHECK_INT(run(&s, &p, 1, &(kiln_interpret_options){.ranges = &range, .range_count = 1}, &err),
            KILN_STATUS_LAUNCH);
  CHECK(strstr(err.text, "(store)") && strstr(err.text, "4 bytes") && strstr(err.text, "(0, 0, 0)"));
  CHECK_INT(buffer[3], 3);
}

TEST(interpreter, a_failed_assert_names_operation_and_program) {
  int32_t buffer[1], *p = buffer;
  kiln_error err = {0};
  sample s = begin();
  ir_value *pid = emit(&s, IR_PID, (ir_attrs){0}, NULL, 0),
           *fine = ir_compare(&s.b, IR_LT, 0, pid, i32(&s, 2));
  emit(&s, IR_ASSERT, (ir_attrs){.assertion = {.text = "too many programs"}}, &fine, 1);
  CHECK_INT(run(&s, &p, 3, NULL, &err), KILN_STATUS_ASSERT);
  CHECK(strstr(err.text, "too many programs") && strstr(err.text, "(2, 0, 0)"));
}

TEST(interpreter, endless_loops_run_out_of_steps) {
  int32_t buffer[1], *p = buffer;
  kiln_error err = {0};
  sample s = begin();
  ir_block *test = KILN_NEW(s.arena, ir_block), *body = KILN_NEW(s.arena, ir_block);
  ir_builder t = {.arena = s.arena, .block = test}, w = {.arena = s.arena, .block = body};
  ir_value *on = ir_const_int(&t, KILN_I1, 1);
  ir_emit(&t, IR_COND, NULL, &on, 1, NULL, NULL, 0);
  ir_yield(&w, NULL, 0);
  ir_emit(&s.b, IR_WHILE, NULL, NULL, 0, NULL, (ir_block *[]){test, body}, 2);
  CHECK_INT(run(&s, &p, 1, &(kiln_interpret_options){.max_steps = 1000}, &err), KILN_STATUS_TIMEOUT);
}

TEST(interpreter, arguments_stand_at_natural_alignment) {
  int32_t buffer[4];
  struct {
    int32_t *out;
    uint8_t flag;
    int16_t small;
    double wide;
    uint16_t half;
  } args = {buffer, 1, -3, 2.5, 0x3e00};
  kiln_error err = {0};
  sample s = begin();
  static const kiln_scalar types[] = {KILN_I1, KILN_I16, KILN_F64, KILN_F16};
  for (int i = 0; i < 4; i++) {
    ir_value *v = ir_add_param(s.kernel, &(ir_param){.name = "v", .type = ir_scalar_type(types[i])});
    if (kiln_scalars[types[i]].type_class == KILN_CLASS_FLOAT)
      v = ir_binary(&s.b, IR_MUL, 0, v, ir_const_like(&s.b, v->type, 4));
    ir_value *at = emit(&s, IR_PTRADD, (ir_attrs){0}, (ir_value *[]){s.out, i32(&s, i)}, 2);
    emit(&s, IR_STORE, (ir_attrs){0}, (ir_value *[]){at, ir_cast(&s.b, v, KILN_I32, 0, 0)}, 2);
  }
  CHECK_INT(run(&s, &args, 1, NULL, &err), KILN_OK);
  CHECK_INT(buffer[0], 1);
  CHECK_INT(buffer[1], -3);
  CHECK_INT(buffer[2], 10);
  CHECK_INT(buffer[3], 6);
}

TEST(interpreter, scans_from_the_end) {
  int32_t buffer[8], *p = buffer;
  kiln_error err = {0};
  sample s = begin();
  ir_value *lanes = ir_iota(&s.b, 3);
  store_lanes(&s, emit(&s, IR_SCAN, (ir_attrs){.kind = IR_COMBINE_ADD, .flags = IR_REVERSE}, &lanes, 1));
  CHECK_INT(run(&s, &p, 1, NULL, &err), KILN_OK);
  CHECK_INT(buffer[0], 28);
  CHECK_INT(buffer[6], 13);
  CHECK_INT(buffer[7], 7);
}

TEST(interpreter, masked_atomics_do_nothing_and_return_zero) {
  int32_t buffer[8] = {5, 5, 5, 5, 5, 5, 5, 5}, *p = buffer;
  kiln_error err = {0};
  sample s = begin();
  ir_value *lanes = ir_iota(&s.b, 3), *at = ir_splat(&s.b, s.out, lanes->type);
  ir_value *on = ir_compare(&s.b, IR_LT, 0, lanes, ir_const_like(&s.b, lanes->type, 4));
  ir_value *old = emit(&s, IR_ATOMIC, (ir_attrs){.kind = IR_COMBINE_ADD},
                       (ir_value *[]){at, ir_const_like(&s.b, lanes->type, 2), on}, 3);
  ir_value *offset = emit(&s, IR_PTRADD, (ir_attrs){0}, (ir_value *[]){at, lanes}, 2);
  ir_value *later = ir_compare(&s.b, IR_GT, 0, lanes, ir_const_like(&s.b, lanes->type, 0));
  emit(&s, IR_STORE, (ir_attrs){0}, (ir_value *[]){offset, old, later}, 3);
  CHECK_INT(run(&s, &p, 1, NULL, &err), KILN_OK);
  static const int32_t want[8] = {13, 7, 9, 11, 0, 0, 0, 0};
  for (int i = 0; i < 8; i++) CHECK_INT(buffer[i], want[i]);
}

TEST(interpreter, loops_near_the_end_of_the_type_stop) {
  int32_t buffer[1] = {0}, *p = buffer;
  kiln_error err = {0};
  sample s = begin();
  ir_block *body = KILN_NEW(s.arena, ir_block);
  ir_builder in = {.arena = s.arena, .block = body};
  ir_block_arg(s.arena, body, ir_scalar_type(KILN_I64));
  ir_value *sum = ir_block_arg(s.arena, body, ir_scalar_type(KILN_I32));
  ir_value *next = ir_binary(&in, IR_ADD, 0, sum, ir_const_int(&in, KILN_I32, 1));
  ir_yield(&in, &next, 1);
  ir_value *first[] = {ir_const_int(&s.b, KILN_I64, INT64_MAX - 10), ir_const_int(&s.b, KILN_I64, INT64_MAX),
                       ir_const_int(&s.b, KILN_I64, 4), i32(&s, 0)};
  ir_op *loop = ir_emit(&s.b, IR_FOR, NULL, first, 4, NULL, &body, 1);
  emit(&s, IR_STORE, (ir_attrs){0}, (ir_value *[]){s.out, &loop->results[0]}, 2);
  CHECK_INT(run(&s, &p, 1, NULL, &err), KILN_OK);
  CHECK_INT(buffer[0], 3);
}

TEST(interpreter, assembly_is_refused) {
  int32_t buffer[1], *p = buffer;
  kiln_error err = {0};
  sample s = begin();
  ir_type type = ir_scalar_type(KILN_I32);
  ir_emit(&s.b, IR_ASM, &(ir_attrs){.assembly = {.text = "nop", .constraints = "=r"}}, NULL, 0, &type, NULL,
          0);
  CHECK_INT(run(&s, &p, 1, NULL, &err), KILN_STATUS_UNSUPPORTED);
}
