// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Several products in a row: each goes on until its result is wanted, so that the matrix unit has the next
// one when it ends, and values are computed meanwhile.
//
//   s = mma ...; p = mma ...; (values of s) ...   becomes
//   s = mma async ...; p = mma async ...; s' = mma_wait out=1 s; (values of s') ...
//
// Products end in order, so waiting for one is waiting for all before it. Slots are released after the wait
// for the products that read them. Nothing is under way where a region begins or a block ends, except products
// whose sums a loop carries to its next iteration (is_carried): they are not waited for here.
//
// Needs the consumer of `roles`, or the products that `fetch` makes. A block where no two products would be under way at
// a time stays as it is.
#include "compiler/passes/gpu/gpu.h"

enum { MOST_OUT = 8 };

typedef struct waiting {
  ir_kernel *kernel;
  ir_block *block;
  ir_op *out[MOST_OUT]; ///< products under way, oldest first
  unsigned count, most; ///< of them; the most at a time
  unsigned issued, ended;
  ir_op *releases[MOST_OUT]; ///< to be moved, and how many products they follow
  unsigned follows[MOST_OUT], release_count;
  bool is_trial; ///< only counts
  ir_builder b;
} waiting;

/// Whether the operation, or one inside it, reads the value. It reads `instead` afterwards (NULL: still the value).
static bool reads(ir_op *op, const ir_value *value, ir_value *instead) {
  bool found = false;
  for (ir_op *user = op; user != op->next; user = ir_next(op->block, user)) {
    for (uint32_t i = 0; i < user->operand_count; i++) {
      if (user->operands[i] != value) continue;
      found = true;
      if (instead) user->operands[i] = instead;
    }
  }
  return found;
}

/// How many of the products under way have to end before `op`.
static unsigned needed_by(const waiting *w, ir_op *op) {
  // What `fetch` makes, and the waits that its slots want.
  bool is_of_slots = op->code == IR_FETCH || op->code == IR_FETCH_COMMIT || op->code == IR_FETCH_WAIT ||
                     op->code == IR_SLOT_STORE || op->code == IR_MMA_WAIT;
  bool is_known = op->code == IR_MMA || op->code == IR_BAR_WAIT || op->code == IR_BAR_ARRIVE ||
                  op->code == IR_PUT || op->code == IR_BARRIER || op->code == IR_STAGE || is_of_slots ||
                  ir_is_pure(op) || ir_ops[op->code].effect == IR_READ || ir_ops[op->code].effect == IR_FACT;
  if (!is_known || op->region_count || ir_is_terminator(op)) {
    unsigned last = w->count; // the last that no loop carries on
    while (last && w->out[last - 1]->attrs.mma.is_carried) last--;
    return last;
  }
  unsigned last = w->count; // the last whose sums it reads
  while (last && !reads(op, &w->out[last - 1]->results[0], NULL)) last--;
  return last;
}

/// Waits before `op` until the oldest `ends` have ended.
static void wait_for(waiting *w, ir_op *op, unsigned ends) {
  ir_value *sums[MOST_OUT];
  ir_op *wait = NULL;
  if (!ends) return;
  unsigned count = 0;
  for (unsigned i = 0; i < ends; i++)
    if (!w->out[i]->attrs.mma.is_carried) sums[count++] = &w->out[i]->results[0];
  if (!w->is_trial) {
    ir_build_before(&w->b, op);
    ir_attrs attrs = {.wait = {.out = w->count - ends}};
    wait = ir_emit(&w->b, IR_MMA_WAIT, &attrs, sums, count, NULL, NULL, 0);
    if (!wait) return;
    for (unsigned i = 0; i < count; i++)
      for (ir_op *after = wait->next; after; after = after->next) reads(after, sums[i], &wait->results[i]);
  }
  w->count -= ends;
  w->ended += ends;
  for (unsigned i = 0; i < w->count; i++) w->out[i] = w->out[i + ends];
  // Releases of slots that the ended products read follow the wait.
  unsigned left = 0;
  for (unsigned i = 0; i < w->release_count; i++) {
    if (w->follows[i] <= w->ended) {
      if (!w->is_trial) ir_move(w->releases[i], w->block, wait->next);
      continue;
    }
    w->releases[left] = w->releases[i];
    w->follows[left++] = w->follows[i];
  }
  w->release_count = left;
}

static void walk_block(waiting *w) {
  for (ir_op *op = w->block->first, *next; op; op = next) {
    next = op->next;
    wait_for(w, op, needed_by(w, op));
    if (op->code == IR_MMA) {
      if (w->count == MOST_OUT) wait_for(w, op, 1);
      if (!w->is_trial) op->attrs.mma.is_async = op->attrs.mma.is_queued = true;
      w->out[w->count++] = op;
      w->issued++;
      if (w->count > w->most) w->most = w->count;
    }
    if (op->code != IR_BAR_ARRIVE) continue;
    if (w->release_count == MOST_OUT) wait_for(w, op, w->count);
    if (!w->count) continue; // it releases what no product under way reads
    w->releases[w->release_count] = op;
    w->follows[w->release_count++] = w->issued;
  }
}

static void rewrite_block(ir_kernel *kernel, ir_block *block, kiln_error *err) {
  for (ir_op *op = block->first; op; op = op->next)
    for (uint32_t r = 0; r < op->region_count; r++) rewrite_block(kernel, op->regions[r], err);
  // Products that were given their waits already, and those that are summed in parts, keep them.
  for (const ir_op *op = block->first; op; op = op->next) {
    if (op->code == IR_MMA_WAIT && op->operand_count && op->operands[0]->def->code == IR_MMA) return;
    if (op->code != IR_MMA) continue;
    if (op->attrs.mma.is_partial || (op->attrs.mma.is_async && !op->attrs.mma.is_carried)) return;
  }
  const ir_builder b = {.arena = kernel->arena, .machine = true};
  waiting trial = {.kernel = kernel, .block = block, .is_trial = true, .b = b}, w = trial;
  walk_block(&trial);
  if (trial.most < 2) return;
  w.is_trial = false;
  walk_block(&w);
  if (w.b.error.status != KILN_OK) *err = w.b.error;
}

kiln_status kiln_pass_wait(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)context;
  kiln_error failed = {0};
  rewrite_block(kernel, kernel->body, &failed);
  if (failed.status == KILN_OK) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_INTERNAL, "wait: %s", failed.text);
}
