// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks our own work: every operation types as ir_infer says, every operand is visible where it is used,
// every region ends well.
#include "compiler/ir/ir.h"

#include <stdio.h>
#include <string.h>

typedef struct verifying {
  const char *stage;
  kiln_error *err;
  ir_fault *fault;
  const ir_value **visible; // by id: the value itself while it is defined and in scope
  uint32_t count;
} verifying;

static kiln_status fault(const verifying *v, const ir_op *op, const char *text) {
  v->fault->op = op;
  snprintf(v->fault->text, sizeof v->fault->text, "%s", text);
  if (!op) return kiln_fail(v->err, KILN_STATUS_INTERNAL, "after %s: %s", v->stage, text);
  return kiln_fail_at(v->err, KILN_STATUS_INTERNAL, ir_operation(op), "after %s: operation %u (%s): %s",
                      v->stage, ir_operation(op), ir_ops[op->code].text, text);
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
  if (previous != block->last) return fault(v, block->parent, "a block does not know its last operation");
  for (uint32_t i = 0; i < block->arg_count; i++) show(v, block->args[i], false);
  for (const ir_op *op = block->first; op; op = op->next)
    for (uint32_t i = 0; i < op->result_count; i++) show(v, &op->results[i], false);
  return KILN_OK;
}

static kiln_status check_params(const verifying *v, const ir_kernel *kernel) {
  char text[80];
  if (kernel->body->arg_count != kernel->param_count) {
    snprintf(text, sizeof text, "%u parameters but %u arguments", kernel->param_count,
             kernel->body->arg_count);
    return fault(v, NULL, text);
  }
  for (uint32_t i = 0; i < kernel->param_count; i++) {
    if (ir_type_equal(kernel->params[i].type, kernel->body->args[i]->type)) continue;
    snprintf(text, sizeof text, "parameter %u has another type than its argument", i);
    return fault(v, NULL, text);
  }
  return KILN_OK;
}

kiln_status ir_verify_fault(ir_kernel *kernel, const char *stage, ir_fault *out_fault, kiln_error *err) {
  kiln_arena *scratch = kiln_arena_create();
  if (!scratch) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory to verify");
  verifying v = {stage, err, out_fault, NULL, ir_number(kernel)};
  v.visible = KILN_NEW_ARRAY(scratch, const ir_value *, v.count + 1u);
  kiln_status status = check_params(&v, kernel);
  if (status == KILN_OK) status = check_block(&v, kernel->body, false);
  kiln_arena_destroy(scratch);
  return status;
}

kiln_status ir_verify(ir_kernel *kernel, const char *stage, kiln_error *err) {
  ir_fault ignored;
  return ir_verify_fault(kernel, stage, &ignored, err);
}
