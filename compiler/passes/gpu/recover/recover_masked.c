// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements nobody wants: where those that a modulo changes go, and whether they reach memory.
#include "compiler/passes/gpu/recover/recover_inner.h"

/// Where elements that a modulo changes go: values, and the axis along which they lie.
typedef struct spreading {
  recovering *r;
  const limit *bound;
  bool grows, fails;
} spreading;

static unsigned axis_of(const ir_value *v) { return (unsigned)(uintptr_t)v->slot; } // 1 + axis; 0: untouched

static void touch(spreading *s, ir_value *v, unsigned axis) {
  if (!v->type.rank || (axis_of(v) && axis_of(v) != axis)) s->fails = true;
  if (axis_of(v)) return;
  v->slot = (void *)(uintptr_t)axis; // NOLINT(performance-no-int-to-ptr): a number in the slot
  s->grows = true;
}

static void touch_store(spreading *s, const ir_op *op, unsigned axis) {
  limit limits[RANK] = {{.is_set = false}};
  bool is_masked = op->code == IR_STORE && op->operand_count == 3 && !axis_of(op->operands[0]) &&
                   !axis_of(op->operands[2]) && op->operands[1]->type.rank <= RANK;
  const limit *at = &limits[axis - 1];
  const unsigned claims =
      s->r->claim_count; // of the lanes of the store: those of its index are the load's, too
  if (!is_masked || !recover_limits(s->r, op->operands[2], limits) || !at->is_set ||
      !sum_is_equal(&at->extent, &s->bound->extent) || !sum_is_equal(&at->index, &s->bound->index))
    s->fails = true;
  s->r->claim_count = claims;
}

static void touch_renamed(spreading *s, ir_op *op, unsigned axis) {
  ir_type type = op->results[0].type;
  unsigned to = 0;
  switch (op->code) {
  case IR_EXPAND: to = axis - 1 < op->attrs.axis ? axis : axis + 1; break;
  case IR_BROADCAST: to = op->operands[0]->type.log2[axis - 1] == type.log2[axis - 1] ? axis : 0; break;
  case IR_TRANS:
    for (unsigned i = 0; i < type.rank; i++)
      if (op->attrs.perm[i] == axis - 1) to = 1 + i;
    break;
  default: break;
  }
  if (to) touch(s, &op->results[0], to);
  else s->fails = true;
}

static void touch_user(spreading *s, ir_op *op, unsigned which, unsigned axis) {
  const ir_op *parent = op->block->parent;
  if (ir_has(op->code, IR_EACH) && ir_ops[op->code].effect == IR_PURE) {
    touch(s, &op->results[0], axis);
  } else if (op->code == IR_DOT && op->results[0].type.rank == 2 && (which == 2 || axis == 1 + which)) {
    touch(s, &op->results[0], axis);
  } else if (op->code == IR_REDUCE && op->attrs.axis != axis - 1) {
    for (uint32_t i = 0; i < op->result_count; i++)
      touch(s, &op->results[i], op->attrs.axis < axis - 1 ? axis - 1 : axis);
  } else if (op->code == IR_FOR && which >= IR_FOR_BOUNDS) {
    touch(s, ir_loop_args(op)[which - IR_FOR_BOUNDS], axis);
    touch(s, &op->results[which - IR_FOR_BOUNDS], axis);
  } else if (op->code == IR_YIELD && parent && parent->code == IR_FOR) {
    touch(s, ir_loop_args(parent)[which], axis);
    touch(s, (ir_value *)&parent->results[which], axis);
  } else if (op->code == IR_YIELD && parent && parent->code == IR_IF) {
    touch(s, (ir_value *)&parent->results[which], axis);
  } else if (op->code == IR_STORE) {
    touch_store(s, op, axis);
  } else if (ir_is_renaming(op)) {
    touch_renamed(s, op, axis);
  } else {
    s->fails = true;
  }
}

bool recover_is_unwanted_beyond(recovering *r, ir_op *load, unsigned axis, const limit *bound) {
  spreading s = {.r = r, .bound = bound};
  const ir_block *body = r->kernel->body;
  touch(&s, &load->results[0], 1 + axis);
  while (s.grows && !s.fails) {
    s.grows = false;
    for (ir_op *op = ir_next(body, NULL); op; op = ir_next(body, op))
      for (uint32_t i = 0; i < op->operand_count; i++)
        if (axis_of(op->operands[i])) touch_user(&s, op, i, axis_of(op->operands[i]));
  }
  for (ir_op *op = ir_next(body, NULL); op; op = ir_next(body, op)) {
    for (uint32_t i = 0; i < op->result_count; i++) op->results[i].slot = NULL;
    for (uint32_t i = 0; i < op->region_count; i++)
      for (uint32_t k = 0; k < op->regions[i]->arg_count; k++) op->regions[i]->args[k]->slot = NULL;
  }
  return !s.fails;
}
