// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops that wait for what other program instances write: a turn reads memory, changes it the same way each
// time or not at all, and keeps nothing for the next turn but what it read. Until another thread writes, each
// turn is as the last one. An instance may wait so for one that no thread is left to start; therefore such
// loops tell who runs them that they wait, and end when it says that nobody will write (KILN_HOST_WAIT of
// base/record.h).
#include <stdio.h>

#include "compiler/codegen/host/host.h"

#define B h->builder

/// Turns before a wait is told, and between two calls: most waits are shorter.
enum { TURNS = 1024 };

typedef struct look {
  const ir_op *loop;
  uint32_t walk; ///< values with this mark are known not to change
  bool strict;   ///< what is read counts as changing too
} look;

// Whether a value may differ from turn to turn although memory does not.
static bool changes(const look *l, const ir_value *v) {
  const ir_op *op = v->def;
  if (!op) return ir_is_inside(v->block, l->loop);
  if (!ir_is_inside(op->block, l->loop) || host_info(v)->mark == l->walk) return false;
  if (l->strict && ir_ops[op->code].effect != IR_PURE) return true;
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (changes(l, op->operands[i])) return true;
  for (uint32_t r = 0; r < op->region_count; r++)
    for (uint32_t i = 0; i < op->regions[r]->last->operand_count; i++)
      if (changes(l, op->regions[r]->last->operands[i])) return true;
  host_info(v)->mark = l->walk;
  return false;
}

// The value that argument `v` of the second region stands for in the first one.
static const ir_value *passed(const ir_op *loop, const ir_value *v) {
  bool is_passed = !v->def && v->block == ir_loop_body(loop);
  return is_passed ? ir_cond_passed(ir_while_test(loop))[v->index] : v;
}

// Whether a turn leaves carried value `arg` as it was or makes it what it will be after each further turn.
static bool settles(const look *l, const ir_value *next, const ir_value *arg) {
  const ir_op *op = (next = passed(l->loop, next))->def;
  if (next == arg || !changes(l, next)) return true;
  if (op && op->code == IR_SELECT)
    return !changes(l, op->operands[0]) && settles(l, op->operands[1], arg) &&
           settles(l, op->operands[2], arg);
  return op && op->code == IR_IF && !changes(l, ir_if_condition(op)) &&
         settles(l, ir_if_end(op, 0)->operands[next->index], arg) &&
         settles(l, ir_if_end(op, 1)->operands[next->index], arg);
}

static bool keeps_nothing(host *h, const ir_op *loop) {
  look l = {.loop = loop, .walk = ++h->walk_count};
  for (uint32_t i = 0; i < ir_carried_count(loop); i++)
    if (!settles(&l, ir_loop_next(loop)->operands[i], ir_loop_args(loop)[i])) return false;
  return true;
}

// Done again with the same operands it changes nothing more.
static bool is_idempotent(host *h, const ir_op *loop, const ir_op *op) {
  look l = {.loop = loop, .walk = ++h->walk_count, .strict = true};
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (changes(&l, op->operands[i])) return false;
  bool adds = op->code == IR_ATOMIC && (op->attrs.kind == IR_COMBINE_ADD || op->attrs.kind == IR_COMBINE_XOR);
  return !adds || ir_is_zero(op->operands[1]);
}

typedef struct contents {
  host *h;
  const ir_op *loop;
  uint32_t signals, writes, others;
} contents;

static void note(ir_op *op, void *context) {
  contents *c = context;
  bool is_write = op->code == IR_ATOMIC || op->code == IR_CAS;
  bool is_plain = ir_ops[op->code].effect == IR_PURE || ir_ops[op->code].effect == IR_READ ||
                  ir_ops[op->code].effect == IR_FACT || op->code == IR_BARRIER || op->code == IR_IF ||
                  op->code == IR_FOR || ir_is_terminator(op);
  c->signals += is_write || (op->code == IR_LOAD && op->attrs.flags & IR_VOLATILE);
  c->writes += is_write;
  c->others += is_write ? !is_idempotent(c->h, c->loop, op) : !is_plain;
}

bool host_wait_is(host *h, const ir_op *loop) {
  contents c = {.h = h, .loop = loop};
  for (uint32_t r = 0; r < loop->region_count; r++) ir_walk(loop->regions[r], note, &c);
  // Two changes may undo each other.
  return c.signals && c.writes <= 1 && !c.others && keeps_nothing(h, loop);
}

/// Calls `pointer`, when there is one; the answer.
static LLVMValueRef tell(host *h, LLVMValueRef pointer, bool is_waiting) {
  LLVMTypeRef params[2] = {h->pointer, h->i32}, type = LLVMFunctionType(h->i32, params, 2, false);
  LLVMValueRef args[2] = {h->program_id, LLVMConstInt(h->i32, is_waiting, false)},
               none = LLVMConstInt(h->i32, 0, false);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(B), call = host_block(h, "tell"),
                    done = host_block(h, "told");
  LLVMBuildCondBr(B, LLVMBuildIsNotNull(B, pointer, ""), call, done);
  LLVMPositionBuilderAtEnd(B, call);
  LLVMValueRef answer = LLVMBuildCall2(B, type, pointer, args, 2, "");
  LLVMBuildBr(B, done);
  LLVMPositionBuilderAtEnd(B, done);
  LLVMValueRef result = LLVMBuildPhi(B, h->i32, "");
  LLVMAddIncoming(result, &none, &before, 1);
  LLVMAddIncoming(result, &answer, &call, 1);
  return result;
}

void host_wait_begin(host *h, host_wait *w) {
  w->turns = host_stack(h, h->i32);
  LLVMBuildStore(B, LLVMConstInt(h->i32, 0, false), w->turns);
}

void host_wait_turn(host *h, const host_wait *w) {
  LLVMBasicBlockRef wait = host_block(h, "wait"), next = host_block(h, "turn");
  LLVMValueRef turns =
      LLVMBuildAdd(B, LLVMBuildLoad2(B, h->i32, w->turns, ""), LLVMConstInt(h->i32, 1, false), "");
  LLVMBuildStore(B, turns, w->turns);
  LLVMValueRef rest = LLVMBuildURem(B, turns, LLVMConstInt(h->i32, TURNS, false), "");
  LLVMBuildCondBr(B, LLVMBuildIsNull(B, rest, ""), wait, next);
  LLVMPositionBuilderAtEnd(B, wait);
  LLVMValueRef answer = tell(h, host_set_by_loader(h, KILN_HOST_WAIT), true),
               gave_up = LLVMConstInt(h->i32, (uint32_t)KILN_HOST_GAVE_UP, false);
  // The next call is TURNS later also when the count comes round; it never looks as if nothing was told.
  LLVMBuildStore(B, LLVMConstInt(h->i32, TURNS, false), w->turns);
  LLVMBasicBlockRef from = LLVMGetInsertBlock(B);
  LLVMAddIncoming(LLVMGetFirstInstruction(h->fail), &gave_up, &from, 1);
  LLVMBuildCondBr(B, LLVMBuildIsNull(B, answer, ""), next, h->fail);
  LLVMPositionBuilderAtEnd(B, next);
}

void host_wait_end(host *h, const host_wait *w) {
  LLVMBasicBlockRef told = host_block(h, "waited"), done = host_block(h, "went_on");
  LLVMValueRef turns = LLVMBuildLoad2(B, h->i32, w->turns, "");
  LLVMBuildCondBr(B, LLVMBuildICmp(B, LLVMIntUGE, turns, LLVMConstInt(h->i32, TURNS, false), ""), told, done);
  LLVMPositionBuilderAtEnd(B, told);
  tell(h, host_set_by_loader(h, KILN_HOST_WAIT), false);
  LLVMBuildBr(B, done);
  LLVMPositionBuilderAtEnd(B, done);
}
