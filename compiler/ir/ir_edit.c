// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Walking, numbering, copying and rewriting kernels.
#include "compiler/ir/attrs.h"

#include <string.h>

void ir_walk(ir_block *block, void (*visit)(ir_op *op, void *context), void *context) {
  for (ir_op *op = block->first, *next; op; op = next) {
    next = op->next;
    ir_block **regions = op->regions;
    uint32_t count = op->region_count;
    visit(op, context);
    if (!op->block) continue; // removed, and its regions with it
    for (uint32_t i = 0; i < count; i++) ir_walk(regions[i], visit, context);
  }
}

/// The first operation of the regions of `op` from `region` on.
static ir_op *first_inside(const ir_op *op, uint32_t region) {
  for (; region < op->region_count; region++)
    if (op->regions[region]->first) return op->regions[region]->first;
  return NULL;
}

ir_op *ir_next(const ir_block *block, const ir_op *op) {
  if (!op) return block->first;
  ir_op *inside = first_inside(op, 0);
  return inside ? inside : ir_after(block, op);
}

ir_op *ir_after(const ir_block *block, const ir_op *op) {
  ir_op *next = NULL;
  while (!next) {
    next = op->next;
    if (next || op->block == block) break;
    // After the last operation of a region come the regions after it, then what follows the operation that
    // has them.
    const ir_op *outer = op->block->parent;
    uint32_t region = 0;
    while (outer->regions[region] != op->block) region++;
    next = first_inside(outer, region + 1);
    op = outer;
  }
  return next;
}

ir_op *ir_find(const ir_block *block, ir_opcode code) {
  ir_op *op = ir_next(block, NULL);
  while (op && op->code != code) op = ir_next(block, op);
  return op;
}

static void number_value(ir_value *v, uint32_t *next) {
  v->id = (*next)++;
  v->slot = NULL;
}

static void number_block(ir_block *block, uint32_t *values, uint32_t *ops) {
  for (uint32_t i = 0; i < block->arg_count; i++) number_value(block->args[i], values);
  for (ir_op *op = block->first; op; op = op->next) {
    op->number = (*ops)++;
    for (uint32_t i = 0; i < op->region_count; i++) number_block(op->regions[i], values, ops);
    for (uint32_t i = 0; i < op->result_count; i++) number_value(&op->results[i], values);
  }
}

uint32_t ir_number(ir_kernel *kernel) {
  uint32_t values = 0, ops = 0;
  number_block(kernel->body, &values, &ops);
  return values;
}

static void clear_uses(ir_block *block) {
  for (uint32_t i = 0; i < block->arg_count; i++) block->args[i]->uses = 0;
  for (ir_op *op = block->first; op; op = op->next) {
    for (uint32_t i = 0; i < op->result_count; i++) op->results[i].uses = 0;
    for (uint32_t i = 0; i < op->region_count; i++) clear_uses(op->regions[i]);
  }
}

void ir_count_uses(ir_kernel *kernel) {
  clear_uses(kernel->body);
  for (ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op))
    for (uint32_t i = 0; i < op->operand_count; i++) op->operands[i]->uses++;
}

void ir_apply_forwards(ir_kernel *kernel) {
  for (ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op))
    for (uint32_t i = 0; i < op->operand_count; i++) op->operands[i] = ir_resolve(op->operands[i]);
}

static bool inner_pure(const ir_op *op) {
  if (ir_is_terminator(op)) return true;
  if (op->code == IR_ASM) return op->attrs.assembly.is_pure;
  if (op->code == IR_WHILE) return false; // might not end
  if (ir_ops[op->code].effect != IR_PURE && ir_ops[op->code].effect != IR_CONTROL) return false;
  for (uint32_t i = 0; i < op->region_count; i++)
    for (const ir_op *inner = op->regions[i]->first; inner; inner = inner->next)
      if (!inner_pure(inner)) return false;
  return true;
}

bool ir_is_pure(const ir_op *op) { return !ir_is_terminator(op) && inner_pure(op); }

static bool same_text(const char *a, const char *b) { return a && b ? !strcmp(a, b) : a == b; }

bool ir_attrs_equal(ir_opcode code, const ir_attrs *a, const ir_attrs *b) {
  // Fields of which no row of the operation speaks are zero, or left over from another operation.
  if (a->bits != b->bits || a->flags != b->flags || a->kind != b->kind || a->axis != b->axis ||
      a->round != b->round || a->cache != b->cache || a->evict != b->evict || a->order != b->order ||
      a->scope != b->scope || a->precision != b->precision || memcmp(a->perm, b->perm, sizeof a->perm))
    return false;
  for (const ir_attr_info *row = ir_next_attr(code, NULL); row; row = ir_next_attr(code, row)) {
    if (row->form == IR_ATTR_AXES) continue; // shared
    if (row->form == IR_ATTR_TEXT ? !same_text(ir_attr_text(a, row), ir_attr_text(b, row))
                                  : ir_attr_get(a, row) != ir_attr_get(b, row))
      return false;
  }
  return true;
}

bool ir_encloses(const ir_block *outer, const ir_block *block) {
  while (block && block != outer) block = block->parent ? block->parent->block : NULL;
  return block != NULL;
}

bool ir_is_inside(const ir_block *block, const ir_op *op) {
  for (; block; block = block->parent ? block->parent->block : NULL)
    if (block->parent == op) return true;
  return false;
}

static ir_block *clone_block(ir_builder *b, const ir_block *from) {
  ir_block *to = KILN_NEW(b->arena, ir_block);
  ir_builder inner = {.arena = b->arena, .block = to};
  for (uint32_t i = 0; i < from->arg_count; i++)
    from->args[i]->slot = ir_block_arg(b->arena, to, from->args[i]->type);
  for (const ir_op *op = from->first; op; op = op->next) ir_clone(&inner, op);
  return to;
}

// Copies without typing again: the original was typed already, and a copy in the middle of a rewrite may have
// operands that are not final.
ir_op *ir_clone(ir_builder *b, const ir_op *op) {
  ir_op *copy = kiln_arena_copy(b->arena, op, sizeof *op);
  copy->operands = KILN_NEW_ARRAY(b->arena, ir_value *, op->operand_count);
  for (uint32_t i = 0; i < op->operand_count; i++)
    copy->operands[i] = op->operands[i]->slot ? op->operands[i]->slot : op->operands[i];
  copy->regions = KILN_NEW_ARRAY(b->arena, ir_block *, op->region_count);
  for (uint32_t i = 0; i < op->region_count; i++) {
    copy->regions[i] = clone_block(b, op->regions[i]);
    copy->regions[i]->parent = copy;
  }
  copy->results = KILN_NEW_ARRAY(b->arena, ir_value, op->result_count);
  for (uint32_t i = 0; i < op->result_count; i++) {
    copy->results[i].type = op->results[i].type;
    copy->results[i].def = copy;
    copy->results[i].index = i;
    op->results[i].slot = &copy->results[i];
  }
  ir_insert(copy, b->block, b->before);
  return copy;
}

ir_kernel *ir_kernel_copy(ir_kernel *kernel) {
  ir_kernel *copy = kiln_arena_copy(kernel->arena, kernel, sizeof *kernel);
  copy->params = kiln_arena_copy(kernel->arena, kernel->params, kernel->param_count * sizeof *kernel->params);
  ir_number(kernel);
  ir_builder b = {.arena = kernel->arena};
  copy->body = clone_block(&b, kernel->body);
  return copy;
}
