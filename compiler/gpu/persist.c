// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A launch of as many blocks as the machine has room for: each computes one program after another, so that
// copies for the next program run while this one ends.
//
//   for t in block .. total step blocks { pid = t taken apart; body }
//
// pid and npid are those of the logical grid, which the runtime passes behind the parameters; programs are
// visited in the order of their number, axis 0 first. No program waits for another one (kiln_gpu_promote
// refuses what could).
#include "compiler/gpu/gpu.h"

typedef struct persisting {
  ir_kernel *kernel;
  ir_value *pid[3];
  bool needs[3];
} persisting;

static void note_pid(ir_op *op, void *context) {
  if (op->code == IR_PID) ((persisting *)context)->needs[op->attrs.axis] = true;
}

static void replace_pid(ir_op *op, void *context) {
  persisting *p = context;
  if (op->code != IR_PID || !p->pid[op->attrs.axis]) return;
  op->results[0].forward = p->pid[op->attrs.axis];
  ir_remove(op);
}

static ir_value *scalar_of(ir_builder *b, ir_opcode code, unsigned axis) {
  ir_attrs attrs = {.axis = (uint8_t)axis};
  ir_op *op = ir_emit(b, code, &attrs, NULL, 0, NULL, NULL, 0);
  return op ? &op->results[0] : NULL;
}

/// Program ids from the number `t`; the last axis that is needed takes what is left.
static void take_apart(persisting *p, ir_builder *b, ir_value *t, ir_value *const *extent) {
  for (unsigned axis = 0; axis < 3; axis++) {
    bool is_flat = axis == 2 ||
                   (axis == 0 && p->kernel->grid_limit[1] == 1 && p->kernel->grid_limit[2] == 1) ||
                   (axis == 1 && p->kernel->grid_limit[2] == 1);
    if (is_flat) {
      p->pid[axis] = t;
      for (unsigned rest = axis + 1; rest < 3; rest++) p->pid[rest] = ir_const_int(b, KILN_I32, 0);
      return;
    }
    p->pid[axis] = ir_binary(b, IR_REM, IR_UNSIGNED, t, extent[axis]);
    t = ir_binary(b, IR_DIV, IR_UNSIGNED, t, extent[axis]);
  }
}

kiln_status kiln_gpu_persist(ir_kernel *kernel, kiln_error *err) {
  persisting p = {.kernel = kernel};
  ir_walk(kernel->body, note_pid, &p);
  ir_block *inner = ir_block_create(kernel->arena);
  ir_value *t = ir_block_arg(kernel->arena, inner, ir_scalar_type(KILN_I32));
  for (ir_op *op = kernel->body->first, *next; op; op = next) {
    next = op->next;
    ir_move(op, inner, NULL);
  }
  ir_builder b = {.arena = kernel->arena, .block = kernel->body, .machine = true};
  ir_value *extent[3], *total = NULL;
  for (unsigned axis = 0; axis < 3; axis++) {
    extent[axis] = scalar_of(&b, IR_NPID, axis);
    total = total ? ir_binary(&b, IR_MUL, 0, total, extent[axis]) : extent[axis];
  }
  ir_value *bounds[3] = {scalar_of(&b, IR_BLOCK, 0), total, scalar_of(&b, IR_BLOCK, 1)};
  ir_builder first = {.arena = kernel->arena, .block = inner, .before = inner->first};
  take_apart(&p, &first, t, extent);
  ir_walk(inner, replace_pid, &p);
  first.before = NULL;
  ir_yield(&first, NULL, 0);
  ir_emit(&b, IR_FOR, NULL, bounds, 3, NULL, &inner, 1);
  kiln_error *failed = b.error.status != KILN_OK       ? &b.error
                       : first.error.status != KILN_OK ? &first.error
                                                       : NULL;
  if (failed) return kiln_fail(err, KILN_STATUS_INTERNAL, "persist: %s", failed->text);
  ir_apply_forwards(kernel);
  return KILN_OK;
}
