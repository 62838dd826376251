// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which program a block computes, on GPUs of several dies (chiplets), each with a cache of its own.
// Blocks go to the dies in turn, block n to die n modulo DIES, so neighbours, which share operands of
// products, would never meet in a cache. Of each WINDOW blocks in a row, die d computes the d-th share of the
// programs:
//
//   t = number of the block           size = blocks of its window (the last may have fewer)
//   program = window + d * (size / DIES) + min(d, size % DIES) + place,    d = t % DIES, place = t % WINDOW /
//   DIES
//
// A permutation for every number of blocks. A window is about what runs at a time: programs of one die at one
// time are neighbours, and all dies go through the programs in step, so that work which grows with the number
// is spread evenly, and the memory below the caches sees one stretch of the operands.
//
// Left alone are kernels without products in loops, those whose programs may wait for one another, and those
// that order their programs for dies themselves.
#include "compiler/analysis/provenance.h"
#include "compiler/passes/gpu/gpu.h"

enum { WINDOW_OF_DIE = 32 }; // programs: as many as a die has compute units, about

typedef struct ordering {
  ir_kernel *kernel;
  unsigned dies;
  bool has_products, is_refused;
  bool needs[3];    ///< axes
  ir_value *pid[3]; ///< in the new order
} ordering;

/// A program's number modulo the number of dies.
static bool finds_die(const ordering *o, const ir_op *op) {
  int64_t by;
  if (op->code != IR_REM && op->code != IR_AND) return false;
  const ir_value *number = kiln_behind(op->operands[0]);
  return number->def && number->def->code == IR_PID && ir_constant_int(op->operands[1], &by) &&
         by == (op->code == IR_REM ? o->dies : o->dies - 1);
}

static ir_value *of_axis(ir_builder *b, ir_opcode code, unsigned axis) {
  ir_op *op = ir_emit(b, code, &(ir_attrs){.axis = (uint8_t)axis}, NULL, 0, NULL, NULL, 0);
  return op ? &op->results[0] : NULL;
}

static ir_value *with(ir_builder *b, ir_opcode code, ir_value *x, int64_t y) {
  return ir_binary_int(b, code, code == IR_DIV ? IR_UNSIGNED : 0, x, y);
}

/// The program that block `t` of `count` computes.
static ir_value *program_of(const ordering *o, ir_builder *b, ir_value *t, ir_value *count) {
  const int64_t dies = o->dies, most = dies * WINDOW_OF_DIE;
  ir_value *in_window = with(b, IR_AND, t, most - 1), *window = ir_binary(b, IR_SUB, 0, t, in_window);
  ir_value *left = ir_binary(b, IR_SUB, 0, count, window);
  ir_value *size = ir_binary_int(b, IR_MIN, IR_UNSIGNED, left, most);
  ir_value *die = with(b, IR_AND, t, dies - 1), *place = with(b, IR_DIV, in_window, dies);
  ir_value *share = ir_binary(b, IR_MUL, 0, die, with(b, IR_DIV, size, dies));
  ir_value *longer = ir_binary(b, IR_MIN, IR_UNSIGNED, die, with(b, IR_AND, size, dies - 1));
  ir_value *first = ir_binary(b, IR_ADD, 0, ir_binary(b, IR_ADD, 0, window, share), longer);
  return ir_binary(b, IR_ADD, 0, first, place);
}

static ir_value *as_i64(ir_builder *b, ir_value *v) {
  return ir_cast(b, v, KILN_I64, IR_UNSIGNED, IR_ROUND_NEAREST);
}

/// Says of a program's number what its arithmetic does not show: it is one of the grid's.
static void claim_below(ir_builder *b, ir_value *number, int64_t limit) {
  ir_value *least = ir_compare(b, IR_GE, 0, number, ir_const_int(b, KILN_I32, 0)),
           *most = ir_compare(b, IR_LT, 0, number, ir_const_int(b, KILN_I32, limit)),
           *both = ir_binary(b, IR_AND, 0, least, most);
  ir_emit(b, IR_ASSUME, NULL, &both, 1, NULL, NULL, 0);
}

/// Axes up to the last that the kernel asks for make up the number. What differs along others is the same to
/// it. A grid whose blocks 31 bits do not number stays as it is.
static void order(ordering *o, ir_builder *b) {
  const unsigned last = o->needs[2] ? 2 : o->needs[1] ? 1 : 0;
  ir_value *own[3], *extent[3], *t = NULL, *count = NULL, *all = NULL;
  for (unsigned axis = last + 1; axis-- > 0;) {
    own[axis] = of_axis(b, IR_PID, axis), extent[axis] = of_axis(b, IR_NPID, axis);
    t = t ? ir_binary(b, IR_ADD, 0, ir_binary(b, IR_MUL, 0, t, extent[axis]), own[axis]) : own[axis];
    count = count ? ir_binary(b, IR_MUL, 0, count, extent[axis]) : extent[axis];
    all = all ? ir_binary(b, IR_MUL, 0, all, as_i64(b, extent[axis])) : as_i64(b, extent[axis]);
  }
  ir_value *fits = ir_compare(b, IR_LT, IR_UNSIGNED, all, ir_const_int(b, KILN_I64, (int64_t)1 << 31));
  t = program_of(o, b, t, count);
  for (unsigned axis = 0; axis <= last; axis++) {
    ir_value *place = axis < last ? ir_binary(b, IR_REM, IR_UNSIGNED, t, extent[axis]) : t;
    o->pid[axis] = last ? ir_ternary(b, IR_SELECT, 0, fits, place, own[axis]) : place;
    if (axis < last) t = ir_binary(b, IR_DIV, IR_UNSIGNED, t, extent[axis]);
    if (o->kernel->tests.programs[axis]) claim_below(b, o->pid[axis], o->kernel->tests.programs[axis]);
  }
}

kiln_status kiln_pass_chiplets(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  const kiln_fetch_machine *machine = &context->machine;
  ordering o = {.kernel = kernel, .dies = machine->dies};
  if (machine->dies < 2) return KILN_OK;
  for (const ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op)) {
    const bool is_ordered =
                   (op->code == IR_ATOMIC && op->attrs.order != IR_ORDER_RELAXED) || op->code == IR_CAS,
               is_volatile = (op->code == IR_LOAD || op->code == IR_STORE) && op->attrs.flags & IR_VOLATILE,
               is_foreign = op->code == IR_ASM && !op->attrs.assembly.is_pure;
    o.is_refused |= op->code == IR_WHILE || is_ordered || is_volatile || is_foreign || finds_die(&o, op);
    if (op->code == IR_PID) o.needs[op->attrs.axis] = true;
    if (op->code == IR_FOR) o.has_products |= ir_find(ir_loop_body(op), IR_DOT) != NULL;
  }
  if (o.is_refused || !o.has_products || !(o.needs[0] || o.needs[1] || o.needs[2])) return KILN_OK;
  ir_block *inner = KILN_NEW(kernel->arena, ir_block);
  ir_builder b = {.arena = kernel->arena, .block = inner, .machine = true};
  order(&o, &b);
  if (b.error.status != KILN_OK) return kiln_fail(err, KILN_STATUS_INTERNAL, "dies: %s", b.error.text);
  for (ir_op *op = ir_next(kernel->body, NULL), *next; op; op = next) {
    next = ir_next(kernel->body, op);
    if (op->code != IR_PID) continue;
    op->results[0].forward = o.pid[op->attrs.axis];
    ir_remove(op);
  }
  ir_op *first = kernel->body->first;
  for (ir_op *op = inner->first, *next; op; op = next) {
    next = op->next;
    ir_move(op, kernel->body, first);
  }
  ir_apply_forwards(kernel);
  return KILN_OK;
}
