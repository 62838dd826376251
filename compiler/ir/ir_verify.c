// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks our own work: every operation types as ir_infer says, every operand is visible where it is used,
// every region ends well.
#include "compiler/ir/ir.h"

#include <string.h>

typedef struct verifying {
  const char *stage;
  kiln_error *err;
  const ir_value **visible; // by id: the value itself while it is defined and in scope
  uint32_t count;
} verifying;

static kiln_status fault(const verifying *v, const ir_op *op, const char *text) {
  return kiln_fail(v->err, KILN_STATUS_INTERNAL, "after %s: operation %u (%s): %s", v->stage, op->number,
                   ir_ops[op->code].text, text);
}

static kiln_status check_types(const verifying *v, const ir_op *op) {
  ir_type types[IR_MAX_RESULTS];
  uint32_t count;
  kiln_error inner = {0};
  if (ir_infer(op, op->result_count ? &op->results[0].type : NULL, types, &count, &inner) != KILN_OK)
    return fault(v, op, inner.text);
  if (count != op->result_count)
    return fault(v, op, "the number of results does not follow from the operands");
  for (uint32_t i = 0; i < count; i++) {
    if (!ir_type_equal(types[i], op->results[i].type))
      return fault(v, op, "a result type does not follow from the operands");
    if (op->results[i].def != op || op->results[i].index != i)
      return fault(v, op, "a result does not know its operation");
  }
  return KILN_OK;
}

static void show(verifying *v, const ir_value *value, bool on) { v->visible[value->id] = on ? value : NULL; }

// A value that was dropped keeps an old id, so the id alone proves nothing.
static bool visible(const verifying *v, const ir_value *value) {
  return value->id < v->count && v->visible[value->id] == value;
}

static kiln_status check_block(verifying *v, const ir_block *block, bool needs_end);

static kiln_status check_op(verifying *v, const ir_op *op) {
  for (uint32_t i = 0; i < op->operand_count; i++) {
    if (op->operands[i]->forward) return fault(v, op, "an operand was replaced and not rewritten");
    if (!visible(v, op->operands[i])) return fault(v, op, "an operand is not defined where it is used");
  }
  for (uint32_t i = 0; i < op->region_count; i++) {
    if (op->regions[i]->parent != op) return fault(v, op, "a region does not know its operation");
    KILN_TRY(check_block(v, op->regions[i], true));
  }
  return check_types(v, op);
}

static kiln_status check_block(verifying *v, const ir_block *block, bool needs_end) {
  const ir_op *previous = NULL;
  for (uint32_t i = 0; i < block->arg_count; i++) show(v, block->args[i], true);
  for (const ir_op *op = block->first; op; previous = op, op = op->next) {
    bool ends = ir_is_terminator(op);
    if (op->block != block || op->prev != previous) return fault(v, op, "its links are broken");
    if (ends != (needs_end && !op->next))
      return fault(v, op, ends ? "a terminator stands in the middle" : "the region has no terminator");
    KILN_TRY(check_op(v, op));
    for (uint32_t i = 0; i < op->result_count; i++) show(v, &op->results[i], true);
  }
  if (previous != block->last)
    return kiln_fail(v->err, KILN_STATUS_INTERNAL, "after %s: a block does not know its last operation",
                     v->stage);
  for (uint32_t i = 0; i < block->arg_count; i++) show(v, block->args[i], false);
  for (const ir_op *op = block->first; op; op = op->next)
    for (uint32_t i = 0; i < op->result_count; i++) show(v, &op->results[i], false);
  return KILN_OK;
}

static kiln_status check_params(const verifying *v, const ir_kernel *kernel) {
  if (kernel->body->arg_count != kernel->param_count)
    return kiln_fail(v->err, KILN_STATUS_INTERNAL, "after %s: %u parameters but %u arguments", v->stage,
                     kernel->param_count, kernel->body->arg_count);
  for (uint32_t i = 0; i < kernel->param_count; i++)
    if (!ir_type_equal(kernel->params[i].type, kernel->body->args[i]->type))
      return kiln_fail(v->err, KILN_STATUS_INTERNAL,
                       "after %s: parameter %u has another type than its argument", v->stage, i);
  return KILN_OK;
}

kiln_status ir_verify(ir_kernel *kernel, const char *stage, kiln_error *err) {
  kiln_arena *scratch = kiln_arena_create();
  if (!scratch) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory to verify");
  verifying v = {stage, err, NULL, ir_number(kernel)};
  v.visible = KILN_NEW_ARRAY(scratch, const ir_value *, v.count + 1u);
  kiln_status status = check_params(&v, kernel);
  if (status == KILN_OK) status = check_block(&v, kernel->body, false);
  kiln_arena_destroy(scratch);
  return status;
}
