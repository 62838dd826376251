// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reference interpreter: programs, control flow, elementwise operations.
#include "compiler/interpreter/interpreter_inner.h"

#include <string.h>

#include "base/float_state.h"
#include "compiler/ir/scalar.h"

uint64_t *machine_place(machine *m, const ir_value *v) {
  uint64_t **place = &m->places[v->id];
  if (!*place) *place = KILN_NEW_ARRAY(m->arena, uint64_t, element_count(v->type));
  return *place;
}

void machine_copy(machine *m, ir_value *const *from, ir_value *const *to, uint32_t count) {
  uint64_t *copies[IR_MAX_RESULTS];
  kiln_arena *scratch = kiln_arena_create();
  if (!scratch) return;
  for (uint32_t i = 0; i < count; i++)
    copies[i] =
        kiln_arena_copy(scratch, machine_place(m, from[i]), element_count(from[i]->type) * sizeof(uint64_t));
  for (uint32_t i = 0; i < count; i++)
    memcpy(machine_place(m, to[i]), copies[i], element_count(to[i]->type) * sizeof(uint64_t));
  kiln_arena_destroy(scratch);
}

// ------------------------------------------------------------------------------------ control flow

/// Pointers to the results, as machine_copy wants them.
static void result_list(const ir_op *op, ir_value **out) {
  for (uint32_t i = 0; i < op->result_count; i++) out[i] = &op->results[i];
}

static int64_t integer(machine *m, const ir_value *v) {
  return kiln_scalar_signed(machine_place(m, v)[0], ir_type_bits(v->type));
}

static kiln_status run_for(machine *m, const ir_op *op) {
  ir_value *counter = ir_for_counter(op), **args = ir_loop_args(op), **next = ir_loop_next(op)->operands;
  int64_t lo = integer(m, ir_for_lower(op)), hi = integer(m, ir_for_upper(op)),
          step = integer(m, ir_for_step(op));
  ir_value *results[IR_MAX_RESULTS];
  result_list(op, results);
  if (step <= 0)
    return kiln_fail_at(m->err, KILN_STATUS_LAUNCH, ir_operation(op),
                        "operation %u (for): expected a step above 0, found %lld", ir_operation(op),
                        (long long)step);
  machine_copy(m, ir_loop_initials(op), args, op->result_count);
  bool more = lo < hi;
  for (int64_t i = lo; more;) {
    machine_place(m, counter)[0] = kiln_scalar_mask((uint64_t)i, ir_type_bits(counter->type));
    KILN_TRY(machine_run(m, ir_loop_body(op)));
    machine_copy(m, next, args, op->result_count);
    more = !__builtin_add_overflow(i, step, &i) && i < hi;
  }
  machine_copy(m, args, results, op->result_count);
  return KILN_OK;
}

static kiln_status run_while(machine *m, const ir_op *op) {
  const ir_block *test = op->regions[0], *body = ir_loop_body(op);
  const ir_op *cond = ir_while_test(op);
  ir_value *results[IR_MAX_RESULTS];
  result_list(op, results);
  machine_copy(m, ir_loop_initials(op), ir_loop_args(op), ir_carried_count(op));
  for (;;) {
    KILN_TRY(machine_run(m, test));
    if (!(machine_place(m, ir_cond_condition(cond))[0] & 1)) break;
    machine_copy(m, ir_cond_passed(cond), body->args, op->result_count);
    KILN_TRY(machine_run(m, body));
    machine_copy(m, ir_loop_next(op)->operands, ir_loop_args(op), ir_carried_count(op));
  }
  machine_copy(m, ir_cond_passed(cond), results, op->result_count);
  return KILN_OK;
}

static kiln_status run_if(machine *m, const ir_op *op) {
  const ir_block *block = op->regions[machine_place(m, ir_if_condition(op))[0] & 1 ? 0 : 1];
  ir_value *results[IR_MAX_RESULTS];
  result_list(op, results);
  KILN_TRY(machine_run(m, block));
  machine_copy(m, ir_terminator(block)->operands, results, op->result_count);
  return KILN_OK;
}

// -------------------------------------------------------------------------------- small operations

static kiln_status run_pid(machine *m, const ir_op *op) {
  result_place(m, op, 0)[0] = m->program[op->attrs.axis];
  return KILN_OK;
}

static kiln_status run_npid(machine *m, const ir_op *op) {
  result_place(m, op, 0)[0] = m->grid[op->attrs.axis];
  return KILN_OK;
}

static kiln_status run_const(machine *m, const ir_op *op) {
  result_place(m, op, 0)[0] = op->attrs.bits;
  return KILN_OK;
}

static kiln_status run_iota(machine *m, const ir_op *op) {
  uint64_t *out = result_place(m, op, 0);
  for (size_t i = 0; i < element_count(op->results[0].type); i++) out[i] = i;
  return KILN_OK;
}

static kiln_status run_nothing(machine *m, const ir_op *op) {
  (void)m;
  (void)op;
  return KILN_OK;
}

/// assume and assert: every element has to be true.
static kiln_status run_claim(machine *m, const ir_op *op) {
  const uint64_t *claim = operand_place(m, op, 0);
  for (size_t i = 0; i < element_count(op->operands[0]->type); i++)
    if (!(claim[i] & 1))
      return kiln_fail_at(
          m->err, KILN_STATUS_ASSERT, ir_operation(op),
          "operation %u (%s): expected true, found false at element %zu in program (%u, %u, %u)%s%s",
          ir_operation(op), ir_ops[op->code].text, i, m->program[0], m->program[1], m->program[2],
          op->attrs.assertion.text ? ": " : "", op->attrs.assertion.text ? op->attrs.assertion.text : "");
  return KILN_OK;
}

static kiln_status run_asm(machine *m, const ir_op *op) {
  return kiln_fail_at(m->err, KILN_STATUS_UNSUPPORTED, ir_operation(op),
                      "operation %u (asm): the interpreter has no assembler", ir_operation(op));
}

static kiln_status run_elementwise(machine *m, const ir_op *op) {
  const uint64_t *operands[3];
  bool spread[3];
  size_t count = element_count(op->results[0].type);
  for (uint32_t i = 0; i < op->operand_count; i++) {
    operands[i] = operand_place(m, op, i);
    spread[i] = element_count(op->operands[i]->type) == 1;
  }
  uint64_t *out = result_place(m, op, 0),
           (*eval)(const ir_op *, const uint64_t *) =
               m->kernel->fp_flush ? kiln_scalar_eval_flushed : kiln_scalar_eval;
  for (size_t k = 0; k < count; k++) {
    uint64_t bits[3] = {0, 0, 0};
    for (uint32_t i = 0; i < op->operand_count; i++) bits[i] = operands[i][spread[i] ? 0 : k];
    out[k] = eval(op, bits);
  }
  return KILN_OK;
}

static execute *const core[IR_OPCODE_COUNT] = {
    [IR_PID] = run_pid,      [IR_NPID] = run_npid,       [IR_CONST] = run_const, [IR_IOTA] = run_iota,
    [IR_FOR] = run_for,      [IR_WHILE] = run_while,     [IR_IF] = run_if,       [IR_ASSERT] = run_claim,
    [IR_ASSUME] = run_claim, [IR_BARRIER] = run_nothing, [IR_ASM] = run_asm,     [IR_YIELD] = run_nothing,
    [IR_COND] = run_nothing,
};

static execute *executor(ir_opcode code) {
  if (core[code]) return core[code];
  if (kiln_scalar_knows(code)) return run_elementwise;
  execute *e = interpreter_tile_operation(code);
  return e ? e : interpreter_memory_operation(code);
}

kiln_status machine_run(machine *m, const ir_block *block) {
  for (const ir_op *op = block->first; op; op = op->next) {
    if (m->options->max_steps && ++m->steps > m->options->max_steps)
      return kiln_fail(m->err, KILN_STATUS_TIMEOUT, "expected at most %llu operations, found more",
                       (unsigned long long)m->options->max_steps);
    KILN_TRY(executor(op->code)(m, op));
    for (uint32_t i = 0; m->options->observe && i < op->result_count; i++)
      m->options->observe(m->options->context, &op->results[i], result_place(m, op, i));
  }
  return KILN_OK;
}

// ------------------------------------------------------------------------------------------- whole

static size_t aligned(size_t offset, size_t alignment) { return (offset + alignment - 1) & ~(alignment - 1); }

/// Parameters out of the packed block of base/record.h.
static void read_arguments(machine *m, const uint8_t *args) {
  size_t offset = 0;
  for (uint32_t i = 0; i < m->kernel->param_count; i++) {
    ir_type type = m->kernel->params[i].type;
    uint64_t *place = machine_place(m, m->kernel->body->args[i]);
    size_t size = type.pointer || type.is_view ? 8 : kiln_scalars[type.scalar].bytes,
           count = element_count(type);
    offset = aligned(offset, size);
    for (size_t k = 0; k < count; k++, offset += size) memcpy(&place[k], args + offset, size);
    if (!type.pointer && !type.is_view && type.scalar == KILN_I1) place[0] = place[0] != 0;
  }
}

static kiln_status interpret(ir_kernel *kernel, const void *args, const uint32_t grid[3],
                             const kiln_interpret_options *options, kiln_error *err) {
  static const kiln_interpret_options defaults;
  machine m = {
      .kernel = kernel, .arena = kiln_arena_create(), .options = options ? options : &defaults, .err = err};
  kiln_status status = KILN_OK;
  if (!m.arena) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory to interpret");
  m.places = KILN_NEW_ARRAY(m.arena, uint64_t *, ir_number(kernel) + 1u);
  memcpy(m.grid, grid, sizeof m.grid);
  read_arguments(&m, args);
  for (m.program[2] = 0; status == KILN_OK && m.program[2] < grid[2]; m.program[2]++)
    for (m.program[1] = 0; status == KILN_OK && m.program[1] < grid[1]; m.program[1]++)
      for (m.program[0] = 0; status == KILN_OK && m.program[0] < grid[0]; m.program[0]++)
        status = machine_run(&m, kernel->body);
  kiln_arena_destroy(m.arena);
  return status;
}

kiln_status kiln_interpret(ir_kernel *kernel, const void *args, const uint32_t grid[3],
                           const kiln_interpret_options *options, kiln_error *err) {
  kiln_float_all was = kiln_float_enter_all();
  kiln_status status = interpret(kernel, args, grid, options, err);
  kiln_float_leave_all(&was);
  return status;
}
