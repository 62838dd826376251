// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Making kernels, blocks and operations.
#include "compiler/ir/ir.h"

#include <string.h>

ir_kernel *ir_kernel_create(kiln_arena *arena, const char *name) {
  ir_kernel *kernel = KILN_NEW(arena, ir_kernel);
  kernel->arena = arena;
  kernel->name = kiln_arena_text(arena, name, strlen(name));
  kernel->body = ir_block_create(arena);
  kernel->warps = 4;
  return kernel;
}

ir_value *ir_add_param(ir_kernel *kernel, const ir_param *param) {
  // Parameters are few, so the array is copied for each one instead of carrying a capacity in the kernel.
  ir_param *params = KILN_NEW_ARRAY(kernel->arena, ir_param, kernel->param_count + 1u);
  if (kernel->param_count) memcpy(params, kernel->params, kernel->param_count * sizeof *params);
  params[kernel->param_count++] = *param;
  kernel->params = params;
  return ir_block_arg(kernel->arena, kernel->body, param->type);
}

ir_block *ir_block_create(kiln_arena *arena) { return KILN_NEW(arena, ir_block); }

ir_value *ir_block_arg(kiln_arena *arena, ir_block *block, ir_type type) {
  ir_value *v = KILN_NEW(arena, ir_value);
  v->type = type;
  v->block = block;
  v->index = block->arg_count;
  KILN_GROW(arena, block->args, block->arg_count, block->arg_capacity);
  block->args[block->arg_count++] = v;
  return v;
}

static void insert(ir_op *op, ir_block *block, ir_op *before) {
  KILN_ASSERT(!before || before->block == block);
  op->block = block;
  op->next = before;
  op->prev = before ? before->prev : block->last;
  *(op->prev ? &op->prev->next : &block->first) = op;
  *(before ? &before->prev : &block->last) = op;
}

ir_op *ir_emit(ir_builder *b, ir_opcode code, const ir_attrs *attrs, ir_value *const *operands,
               size_t operand_count, const ir_type *given, ir_block *const *regions, size_t region_count) {
  ir_type types[IR_MAX_RESULTS];
  uint32_t result_count;
  if (b->error.status != KILN_OK) return NULL;
  if (code >= IR_TILE_COUNT && code < IR_OPCODE_COUNT && !b->machine) {
    kiln_fail(&b->error, KILN_STATUS_INTERNAL, "%s: expected an operation of tiles, found one of machines",
              ir_ops[code].text);
    return NULL;
  }
  ir_op *op = KILN_NEW(b->arena, ir_op);
  op->code = code;
  if (attrs) op->attrs = *attrs;
  op->operand_count = (uint32_t)operand_count;
  op->operands = kiln_arena_copy(b->arena, operands, operand_count * sizeof *operands);
  op->region_count = (uint32_t)region_count;
  op->regions = kiln_arena_copy(b->arena, regions, region_count * sizeof *regions);
  op->place = b->place;
  kiln_status status = ir_infer(op, given, types, &result_count, &b->error);
  if (status != KILN_OK) {
    b->error.status = status;
    return NULL;
  }
  op->result_count = result_count;
  op->results = KILN_NEW_ARRAY(b->arena, ir_value, result_count);
  for (uint32_t i = 0; i < result_count; i++) {
    op->results[i].type = types[i];
    op->results[i].def = op;
    op->results[i].index = i;
  }
  for (uint32_t i = 0; i < op->region_count; i++) op->regions[i]->parent = op;
  insert(op, b->block, b->before);
  return op;
}

static ir_value *one(ir_op *op) { return op ? &op->results[0] : NULL; }

static ir_value *flagged(ir_builder *b, ir_opcode code, uint32_t flags, ir_value *const *operands,
                         size_t count) {
  ir_attrs attrs = {.flags = flags};
  return one(ir_emit(b, code, &attrs, operands, count, NULL, NULL, 0));
}

static ir_value *given(ir_builder *b, ir_opcode code, ir_value *a, ir_type type) {
  return one(ir_emit(b, code, NULL, &a, 1, &type, NULL, 0));
}

ir_value *ir_const_bits(ir_builder *b, ir_type scalar_type, uint64_t bits) {
  unsigned width = ir_type_bits(scalar_type);
  ir_attrs attrs = {.bits = width < 64 ? bits & ((1ull << width) - 1) : bits};
  return one(ir_emit(b, IR_CONST, &attrs, NULL, 0, &scalar_type, NULL, 0));
}

ir_value *ir_const_int(ir_builder *b, kiln_scalar scalar, int64_t value) {
  return ir_const_bits(b, ir_scalar_type(scalar), (uint64_t)value);
}

ir_value *ir_const_float(ir_builder *b, kiln_scalar scalar, double value) {
  return ir_const_bits(b, ir_scalar_type(scalar), ir_float_to_bits(scalar, value, true));
}

ir_value *ir_const_like(ir_builder *b, ir_type like, double value) {
  bool is_float = ir_type_class(like) & (KILN_CLASS_FLOAT | KILN_CLASS_FP8);
  ir_value *v =
      is_float ? ir_const_float(b, like.scalar, value) : ir_const_int(b, like.scalar, (int64_t)value);
  return like.rank ? ir_splat(b, v, like) : v;
}

ir_value *ir_unary(ir_builder *b, ir_opcode code, uint32_t flags, ir_value *a) {
  return flagged(b, code, flags, &a, 1);
}

ir_value *ir_binary(ir_builder *b, ir_opcode code, uint32_t flags, ir_value *left, ir_value *right) {
  return flagged(b, code, flags, (ir_value *[]){left, right}, 2);
}

ir_value *ir_ternary(ir_builder *b, ir_opcode code, uint32_t flags, ir_value *x, ir_value *y, ir_value *z) {
  return flagged(b, code, flags, (ir_value *[]){x, y, z}, 3);
}

ir_value *ir_compare(ir_builder *b, ir_predicate predicate, uint32_t flags, ir_value *left, ir_value *right) {
  ir_attrs attrs = {.flags = flags, .kind = (uint8_t)predicate};
  return one(ir_emit(b, IR_CMP, &attrs, (ir_value *[]){left, right}, 2, NULL, NULL, 0));
}

ir_value *ir_cast(ir_builder *b, ir_value *a, kiln_scalar to, uint32_t flags, ir_round round) {
  if (!a || b->error.status != KILN_OK) return NULL;
  ir_attrs attrs = {.flags = flags, .round = (uint8_t)round};
  ir_type type = ir_with_element(a->type, ir_scalar_type(to));
  return one(ir_emit(b, IR_CAST, &attrs, &a, 1, &type, NULL, 0));
}

ir_value *ir_bitcast(ir_builder *b, ir_value *a, ir_type element) {
  return a && b->error.status == KILN_OK ? given(b, IR_BITCAST, a, ir_with_element(a->type, element)) : NULL;
}

ir_value *ir_splat(ir_builder *b, ir_value *scalar, ir_type tile_type) {
  return scalar && b->error.status == KILN_OK
             ? given(b, IR_SPLAT, scalar, ir_with_element(tile_type, scalar->type))
             : NULL;
}

ir_value *ir_expand(ir_builder *b, ir_value *a, unsigned axis) {
  ir_attrs attrs = {.axis = (uint8_t)axis};
  return one(ir_emit(b, IR_EXPAND, &attrs, &a, 1, NULL, NULL, 0));
}

ir_value *ir_broadcast(ir_builder *b, ir_value *a, ir_type type) {
  return a && b->error.status == KILN_OK ? given(b, IR_BROADCAST, a, ir_with_element(type, a->type)) : NULL;
}

ir_value *ir_reshape(ir_builder *b, ir_value *a, ir_type type) {
  return a && b->error.status == KILN_OK ? given(b, IR_RESHAPE, a, ir_with_element(type, a->type)) : NULL;
}

ir_value *ir_iota(ir_builder *b, unsigned log2) {
  ir_type type = {.scalar = KILN_I32, .rank = 1, .log2 = {(uint8_t)log2}};
  return one(ir_emit(b, IR_IOTA, NULL, NULL, 0, &type, NULL, 0));
}

void ir_yield(ir_builder *b, ir_value *const *values, size_t count) {
  ir_emit(b, IR_YIELD, NULL, values, count, NULL, NULL, 0);
}

uint32_t ir_view_part(const ir_op *op) {
  KILN_ASSERT(op->code == IR_VIEW_BASE || op->code == IR_DIM || op->code == IR_VIEW_STRIDE);
  if (op->code == IR_VIEW_BASE) return 0;
  return 1u + op->attrs.axis + (op->code == IR_VIEW_STRIDE ? op->operands[0]->type.rank : 0);
}

void ir_remove(ir_op *op) {
  KILN_ASSERT(op->block); // it is removed once
  *(op->prev ? &op->prev->next : &op->block->first) = op->next;
  *(op->next ? &op->next->prev : &op->block->last) = op->prev;
  op->prev = op->next = NULL;
  op->block = NULL;
}

void ir_move(ir_op *op, ir_block *block, ir_op *position) {
  if (op == position) return;
  ir_remove(op);
  insert(op, block, position);
}

static ir_block *clone_block(ir_builder *b, const ir_block *from) {
  ir_block *to = ir_block_create(b->arena);
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
  insert(copy, b->block, b->before);
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
