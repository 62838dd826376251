// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks our own work: every operation types as ir_infer says, every operand is visible where it is used,
// every region ends well, types and parameters are possible.
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

/// What makes a type impossible; NULL: nothing.
static const char *type_fault(ir_type type) {
  if (type.scalar >= KILN_SCALAR_COUNT || type.pointer > 2) return "a type has no such element";
  if (type.rank > IR_MAX_RANK) return "a type has too many axes";
  for (unsigned i = 0; i < IR_MAX_RANK; i++) {
    if (i >= type.rank && type.log2[i]) return "a type has an extent after its last axis";
    if (type.log2[i] == IR_DROPPED && !type.is_view) return "a type that is no view leaves out an axis";
  }
  return ir_log2_elements(type) > IR_MAX_LOG2_ELEMENTS ? "a type has too many elements" : NULL;
}

static void show(verifying *v, const ir_value *value, bool on) { v->visible[value->id] = on ? value : NULL; }

// A value that was dropped keeps an old id, so the id alone proves nothing.
static bool visible(const verifying *v, const ir_value *value) {
  return value->id < v->count && v->visible[value->id] == value;
}

static kiln_status check_arguments(const verifying *v, const ir_block *block) {
  for (uint32_t i = 0; i < block->arg_count; i++) {
    const ir_value *arg = block->args[i];
    const char *impossible = type_fault(arg->type);
    if (impossible) return fault(v, block->parent, impossible);
    if (arg->def || arg->block != block || arg->index != i)
      return fault(v, block->parent, "an argument does not know its block");
  }
  return KILN_OK;
}

static kiln_status check_block(verifying *v, const ir_block *block, bool needs_end) {
  const ir_op *previous = NULL;
  for (uint32_t i = 0; i < block->arg_count; i++) show(v, block->args[i], true);
  for (const ir_op *op = block->first; op; previous = op, op = op->next) {
    bool ends = ir_is_terminator(op);
    if (op->block != block || op->prev != previous) return fault(v, op, "its links are broken");
    if (ends != (needs_end && !op->next))
      return fault(v, op, ends ? "a terminator stands in the middle" : "the region has no terminator");
    for (uint32_t i = 0; i < op->operand_count; i++) {
      if (op->operands[i]->forward) return fault(v, op, "an operand was replaced and not rewritten");
      if (!visible(v, op->operands[i])) return fault(v, op, "an operand is not defined where it is used");
    }
    for (uint32_t i = 0; i < op->region_count; i++) {
      if (op->regions[i]->parent != op) return fault(v, op, "a region does not know its operation");
      KILN_TRY(check_arguments(v, op->regions[i]));
      KILN_TRY(check_block(v, op->regions[i], true));
    }
    ir_type types[IR_MAX_RESULTS];
    uint32_t count;
    kiln_error inner = {0};
    if (ir_infer(op, op->result_count ? &op->results[0].type : NULL, types, &count, &inner) != KILN_OK)
      return fault(v, op, inner.text);
    if (count != op->result_count)
      return fault(v, op, "the number of results does not follow from the operands");
    for (uint32_t i = 0; i < count; i++) {
      const char *impossible = type_fault(op->results[i].type);
      if (impossible) return fault(v, op, impossible);
      if (!ir_type_equal(types[i], op->results[i].type))
        return fault(v, op, "a result type does not follow from the operands");
      if (op->results[i].def != op || op->results[i].index != i)
        return fault(v, op, "a result does not know its operation");
    }
    for (uint32_t i = 0; i < op->result_count; i++) show(v, &op->results[i], true);
  }
  if (previous != block->last) return fault(v, block->parent, "a block does not know its last operation");
  for (uint32_t i = 0; i < block->arg_count; i++) show(v, block->args[i], false);
  for (const ir_op *op = block->first; op; op = op->next)
    for (uint32_t i = 0; i < op->result_count; i++) show(v, &op->results[i], false);
  return KILN_OK;
}

const char *ir_param_fault(const ir_param *p) {
  if (p->access > IR_ACCESS_ACCUM) return "has no such access";
  if (p->type.slots) return "is shared memory";
  if (p->type.rank && !p->type.is_view) return "is a tile";
  if (p->align & (p->align - 1)) return "has an alignment that is no power of two";
  if (p->within && !p->type.pointer) return "is no pointer, and its offsets are said to be small";
  if (p->rows && !p->type.is_view) return "is no view, and something is said of its rows";
  if (p->rows && p->rows < kiln_scalars[p->type.scalar].bytes) return "has rows closer than an element";
  if (p->rows & (p->rows - 1)) return "has rows that are no power of two apart";
  return p->div < 0 ? "is a multiple of a negative number" : NULL;
}

static kiln_status check_kernel(const verifying *v, const ir_kernel *kernel) {
  char text[120];
  if (kernel->body->parent) return fault(v, NULL, "the kernel's body belongs to an operation");
  if (!kernel->warps || kernel->warps & (kernel->warps - 1)) {
    snprintf(text, sizeof text, "expected a power of two of warps, found %u", kernel->warps);
    return fault(v, NULL, text);
  }
  if (kernel->body->arg_count != kernel->param_count) {
    snprintf(text, sizeof text, "%u parameters but %u arguments", kernel->param_count,
             kernel->body->arg_count);
    return fault(v, NULL, text);
  }
  KILN_TRY(check_arguments(v, kernel->body));
  for (uint32_t i = 0; i < kernel->param_count; i++) {
    const char *impossible = ir_type_equal(kernel->params[i].type, kernel->body->args[i]->type)
                                 ? ir_param_fault(&kernel->params[i])
                                 : "has another type than its argument";
    if (!impossible) continue;
    snprintf(text, sizeof text, "parameter %u %s", i, impossible);
    return fault(v, NULL, text);
  }
  return KILN_OK;
}

kiln_status ir_verify_fault(ir_kernel *kernel, const char *stage, ir_fault *out_fault, kiln_error *err) {
  kiln_arena *scratch = kiln_arena_create();
  verifying v = {stage, err, out_fault, NULL, ir_number(kernel)};
  v.visible = KILN_NEW_ARRAY(scratch, const ir_value *, v.count + 1u);
  kiln_status status = check_kernel(&v, kernel);
  if (status == KILN_OK) status = check_block(&v, kernel->body, false);
  kiln_arena_destroy(scratch);
  return status;
}

kiln_status ir_verify(ir_kernel *kernel, const char *stage, kiln_error *err) {
  ir_fault ignored;
  return ir_verify_fault(kernel, stage, &ignored, err);
}
