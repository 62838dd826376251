// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Dead code: marks what effects need, then removes the rest, down to single results of branches and single
// carried values of loops.
//
// Needs nothing. Keeps the order of what stays. A loop whose values nobody needs and that has no effect goes
// whole.
#include "compiler/passes/pass.h"

typedef struct sweeping {
  kiln_arena *arena; // the kernel's
  kiln_arena *scratch;
  uint8_t *live;    // by value id
  uint8_t *live_op; // by operation number
  ir_value **work;  // live values whose origin is still to be looked at
  uint32_t count, capacity;
  bool changed;
} sweeping;

static void need(sweeping *s, ir_value *v) {
  if (s->live[v->id]) return;
  s->live[v->id] = 1;
  KILN_GROW(s->scratch, s->work, s->count, s->capacity);
  s->work[s->count++] = v;
}

static void need_op(sweeping *s, ir_op *op) {
  for (; op && !s->live_op[op->number]; op = op->block->parent) {
    s->live_op[op->number] = 1;
    // Whatever of its results is needed.
    uint32_t fixed = ir_is_loop(op) ? ir_loop_bounds(op) : op->code == IR_IF ? 1 : op->operand_count;
    for (uint32_t i = 0; i < fixed; i++) need(s, op->operands[i]);
    if (op->code == IR_WHILE) need(s, ir_cond_condition(ir_while_test(op)));
    bool combiner = op->code == IR_REDUCE || op->code == IR_SCAN;
    ir_op *end = combiner ? ir_combiner_end(op) : NULL;
    for (uint32_t i = 0; end && i < end->operand_count; i++) need(s, end->operands[i]);
  }
}

/// Needs what the value comes from: a result, or an argument of a region.
static void need_origin(sweeping *s, const ir_value *v) {
  ir_op *op = v->def ? v->def : v->block->parent;
  if (!op) return;
  const uint32_t i = v->index;
  const bool is_result = v->def != NULL;
  need_op(s, op);
  if (op->code == IR_FOR && is_result) {
    need(s, ir_loop_initials(op)[i]);
    need(s, ir_loop_args(op)[i]);
    need(s, ir_loop_next(op)->operands[i]);
  } else if (op->code == IR_FOR && i >= ir_loop_counters(op)) {
    need(s, &op->results[i - ir_loop_counters(op)]);
  } else if (op->code == IR_WHILE && is_result) {
    need(s, ir_cond_passed(ir_while_test(op))[i]);
    need(s, ir_loop_body(op)->args[i]);
  } else if (op->code == IR_WHILE && v->block == op->regions[0]) {
    need(s, ir_loop_initials(op)[i]);
    need(s, ir_loop_next(op)->operands[i]);
  } else if (op->code == IR_WHILE && v->block == ir_loop_body(op)) {
    need(s, &op->results[i]);
  } else if (op->code == IR_IF && is_result) {
    for (uint32_t r = 0; r < 2; r++) need(s, ir_if_end(op, r)->operands[i]);
  }
}

// ---------------------------------------------------------------------------------------- removing

/// Keeps operand `from + i` where keep[i], for i < count.
static void keep_operands(ir_op *op, uint32_t from, const uint8_t *keep, uint32_t count) {
  uint32_t to = from;
  for (uint32_t i = 0; i < count; i++)
    if (keep[i]) op->operands[to++] = op->operands[from + i];
  op->operand_count = to;
}

static void keep_args(ir_block *block, uint32_t from, const uint8_t *keep, uint32_t count) {
  uint32_t to = from;
  for (uint32_t i = 0; i < count; i++) {
    if (!keep[i]) continue;
    block->args[to] = block->args[from + i];
    block->args[to]->index = to;
    to++;
  }
  block->arg_count = to;
}

static uint32_t kept(const uint8_t *keep, uint32_t count) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < count; i++) sum += keep[i];
  return sum;
}

static void trim_results(sweeping *s, ir_op *op) {
  uint8_t keep[IR_MAX_RESULTS];
  uint32_t n = op->result_count;
  KILN_ASSERT(n <= IR_MAX_RESULTS);
  for (uint32_t i = 0; i < n; i++) keep[i] = s->live[op->results[i].id];
  if (kept(keep, n) == n) return;
  s->changed = true;
  if (op->code == IR_FOR) {
    keep_operands(op, ir_loop_bounds(op), keep, n);
    keep_args(ir_loop_body(op), ir_loop_counters(op), keep, n);
    keep_operands(ir_loop_next(op), 0, keep, n);
  } else if (op->code == IR_WHILE) {
    keep_operands(ir_while_test(op), 1, keep, n);
    keep_args(ir_loop_body(op), 0, keep, n);
  } else {
    for (uint32_t r = 0; r < 2; r++) keep_operands(ir_if_end(op, r), 0, keep, n);
  }
  // Results lie in an array inside the operation. Those that stay move to a new one, to which the old ones forward.
  ir_value *results = KILN_NEW_ARRAY(s->arena, ir_value, n);
  uint32_t to = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (!keep[i]) continue;
    results[to] = op->results[i];
    results[to].index = to;
    ir_forward(&op->results[i], &results[to]);
    to++;
  }
  op->results = results;
  op->result_count = to;
}

/// Values that a while loop carries into its test and that nothing reads.
static void trim_carried(sweeping *s, ir_op *op) {
  uint8_t keep[IR_MAX_RESULTS];
  uint32_t n = ir_carried_count(op);
  KILN_ASSERT(n <= IR_MAX_RESULTS);
  for (uint32_t i = 0; i < n; i++) keep[i] = s->live[ir_loop_args(op)[i]->id];
  if (kept(keep, n) == n) return;
  s->changed = true;
  keep_operands(op, ir_loop_bounds(op), keep, n);
  keep_args(op->regions[0], ir_loop_counters(op), keep, n);
  keep_operands(ir_loop_next(op), 0, keep, n);
}

kiln_status kiln_pass_dce(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)err;
  sweeping s = {.arena = kernel->arena, .scratch = kiln_arena_create()};
  s.live = KILN_NEW_ARRAY(s.scratch, uint8_t, ir_number(kernel) + 1u);
  uint32_t operations = 0;
  for (const ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op)) operations++;
  s.live_op = KILN_NEW_ARRAY(s.scratch, uint8_t, operations + 1u);
  // What has an effect is needed from the start, and so is a while, which might not end.
  for (ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op)) {
    if (ir_is_terminator(op) || op->code == IR_FOR || op->code == IR_IF) continue; // by what is in them
    const bool only_reads = ir_ops[op->code].effect == IR_READ && !(op->attrs.flags & IR_VOLATILE);
    if (op->code == IR_WHILE || (!only_reads && !ir_is_pure(op))) need_op(&s, op);
  }
  while (s.count) need_origin(&s, s.work[--s.count]);
  for (ir_op *op = ir_next(kernel->body, NULL), *next; op; op = next) {
    if (!ir_is_terminator(op) && !s.live_op[op->number]) {
      next = ir_after(kernel->body, op);
      ir_remove(op);
      s.changed = true;
      continue;
    }
    next = ir_next(kernel->body, op);
    if (ir_is_loop(op) || op->code == IR_IF) trim_results(&s, op);
    if (op->code == IR_WHILE) trim_carried(&s, op);
  }
  ir_apply_forwards(kernel);
  kiln_arena_destroy(s.scratch);
  context->changed |= s.changed;
  return KILN_OK;
}
