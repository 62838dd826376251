// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Orders the instructions of very long blocks so that few values are alive at a time.
#include "compiler/codegen/llvm/llvm_order.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct place {
  LLVMValueRef value;
  uint32_t at; ///< in the block
} place;

typedef struct block_order {
  LLVMBasicBlockRef block;
  LLVMValueRef *instructions; ///< as they stand
  place *places;              ///< the same, sorted by address
  uint8_t *states;
  uint32_t *order, *stack; ///< numbers of instructions
  uint32_t count, ordered;
} block_order;

enum { FIXED, MOVABLE, PLACED };
enum { LONG_BLOCK = 4096 }; // instructions; what is shorter the assembler orders itself

static int by_address(const void *a, const void *b) {
  uintptr_t left = (uintptr_t)((const place *)a)->value, right = (uintptr_t)((const place *)b)->value;
  return (left > right) - (left < right);
}

/// The number of a value of this block; `count` for any other.
static uint32_t number_of(const block_order *o, LLVMValueRef value) {
  const place key = {.value = value};
  const place *found = bsearch(&key, o->places, o->count, sizeof *found, by_address);
  return found ? found->at : o->count;
}

static bool is_address_or_integer(LLVMTypeRef type) {
  LLVMTypeKind kind = LLVMGetTypeKind(type);
  return kind == LLVMIntegerTypeKind || kind == LLVMPointerTypeKind;
}

/// Operations that only compute.
static const bool computes[] = {
    [LLVMAdd] = true,  [LLVMSub] = true,  [LLVMMul] = true,    [LLVMUDiv] = true,          [LLVMSDiv] = true,
    [LLVMURem] = true, [LLVMSRem] = true, [LLVMShl] = true,    [LLVMLShr] = true,          [LLVMAShr] = true,
    [LLVMAnd] = true,  [LLVMOr] = true,   [LLVMXor] = true,    [LLVMTrunc] = true,         [LLVMZExt] = true,
    [LLVMSExt] = true, [LLVMICmp] = true, [LLVMSelect] = true, [LLVMGetElementPtr] = true,
};

static bool is_pure(LLVMOpcode opcode) {
  return opcode < sizeof computes / sizeof *computes && computes[opcode];
}

static bool is_movable(const block_order *o, LLVMValueRef instruction) {
  if (!is_pure(LLVMGetInstructionOpcode(instruction)) || !is_address_or_integer(LLVMTypeOf(instruction)))
    return false;
  for (LLVMUseRef use = LLVMGetFirstUse(instruction); use; use = LLVMGetNextUse(use)) {
    LLVMValueRef user = LLVMGetUser(use);
    if (LLVMGetInstructionParent(user) != o->block || LLVMIsAPHINode(user)) return false;
  }
  return true;
}

/// Puts an instruction next, after the operands that wait for their first use.
static void put(block_order *o, uint32_t number) {
  uint32_t depth = 0;
  o->stack[depth++] = number;
  while (depth) {
    uint32_t at = o->stack[depth - 1], waiting = o->count;
    LLVMValueRef instruction = o->instructions[at];
    int operands = LLVMGetNumOperands(instruction);
    for (int i = 0; i < operands && waiting == o->count; i++) {
      uint32_t operand = number_of(o, LLVMGetOperand(instruction, (unsigned)i));
      if (operand != o->count && o->states[operand] == MOVABLE) waiting = operand;
    }
    if (waiting != o->count) {
      o->stack[depth++] = waiting;
      continue;
    }
    o->states[at] = PLACED;
    o->order[o->ordered++] = at;
    depth--;
  }
}

static void move_all(const block_order *o) {
  LLVMBuilderRef builder = LLVMCreateBuilderInContext(
      LLVMGetModuleContext(LLVMGetGlobalParent(LLVMGetBasicBlockParent(o->block))));
  LLVMPositionBuilderBefore(builder, o->instructions[o->count - 1]);
  for (uint32_t i = 0; i + 1 < o->count; i++) {
    LLVMValueRef instruction = o->instructions[o->order[i]];
    if (LLVMIsAPHINode(instruction)) continue;
    LLVMInstructionRemoveFromParent(instruction);
    LLVMInsertIntoBuilder(builder, instruction);
  }
  LLVMDisposeBuilder(builder);
}

static void order_block(block_order *o) {
  uint32_t at = 0;
  for (LLVMValueRef i = LLVMGetFirstInstruction(o->block); i; i = LLVMGetNextInstruction(i), at++) {
    o->instructions[at] = i;
    o->places[at] = (place){i, at};
    o->states[at] = is_movable(o, i) ? MOVABLE : FIXED;
  }
  qsort(o->places, o->count, sizeof *o->places, by_address);
  for (uint32_t i = 0; i < o->count; i++)
    if (o->states[i] == FIXED) put(o, i);
  if (o->ordered == o->count) move_all(o); // what nothing uses would be left
}

/// Without memory the block stays as it is.
static void order_long_block(LLVMBasicBlockRef block, uint32_t count) {
  block_order o = {.block = block, .count = count};
  char *memory = malloc(count * (sizeof *o.instructions + sizeof *o.places + 2 * sizeof *o.order + 1));
  if (!memory) return;
  o.places = (place *)memory;
  o.instructions = (LLVMValueRef *)(o.places + count);
  o.order = (uint32_t *)(o.instructions + count);
  o.stack = o.order + count;
  o.states = (uint8_t *)(o.stack + count);
  order_block(&o);
  free(memory);
}

void kiln_llvm_order(LLVMModuleRef module) {
  for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b)) {
      uint32_t count = 0;
      for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) count++;
      if (count > LONG_BLOCK) order_long_block(b, count);
    }
}
