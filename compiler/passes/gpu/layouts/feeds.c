// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads that products of a loop read, where loads complete in order (gpu_machine.hold_loads). Their layouts
// follow from the product. One whose value the loop carries to the product of the next iteration is not
// issued where it stands, but when that of this iteration has taken its operand from the registers: both
// then have the same ones.
#include "compiler/passes/gpu/layouts/layouts.h"

enum { MOST_BEHIND = 64 };

static void note_load(kiln_layouts *c, const ir_value *value, kiln_feed feed) {
  const ir_op *load = value->def;
  if (!load || load->code != IR_LOAD || !(load->attrs.flags & IR_FEEDS)) return;
  kiln_feed *known = &c->notes[load->results[0].id]->feed;
  if (!known->dot) *known = feed;
}

/// What goes on to the next iteration may be loaded late when nothing else reads it.
static bool is_only_carried(const ir_op *end, const ir_value *value) {
  uint32_t uses = 0;
  for (uint32_t i = 0; i < end->operand_count; i++) uses += end->operands[i] == value;
  return value->def && value->def->block == end->block && uses == value->uses;
}

static void note_carried(kiln_layouts *c, const ir_value *argument, kiln_feed feed) {
  const ir_op *loop = argument->block->parent;
  if (!loop || loop->code != IR_FOR || argument == ir_for_counter(loop)) return;
  uint32_t carried = argument->index - ir_loop_counters(loop);
  const ir_value *next = ir_loop_next(loop)->operands[carried];
  note_load(c, ir_loop_initials(loop)[carried], feed);
  feed.waits = is_only_carried(ir_loop_next(loop), next);
  note_load(c, next, feed);
}

/// What is read from a slot was stored there: note_stored looks for the loads.
static void note_slot(kiln_layouts *c, const ir_op *slot_load, const kiln_feed *feed) {
  kiln_feed *known = &c->notes[slot_load->operands[0]->id]->feed;
  if (known->dot) return;
  *known = *feed;
  known->is_stored = true;
}

/// Goes back from an operand to loads and carried values, as far as `budget` operations reach.
static void note_sources(kiln_layouts *c, const ir_value *value, const kiln_feed *feed, unsigned *budget) {
  const ir_op *op = value->def;
  if (!op && value->block == feed->dot->block) note_carried(c, value, *feed);
  if (!op || op->block != feed->dot->block || !*budget) return;
  --*budget;
  note_load(c, value, *feed);
  if (op->code == IR_SLOT_LOAD) note_slot(c, op, feed);
  if (ir_ops[op->code].effect != IR_PURE || op->region_count || op->code == IR_DOT) return;
  for (uint32_t i = 0; i < op->operand_count; i++) note_sources(c, op->operands[i], feed, budget);
}

static bool waits(const kiln_layouts *c, const ir_op *op) {
  return op->code == IR_LOAD && c->notes[op->results[0].id]->feed.waits;
}

/// Of a loop that takes all registers, to after the product, whose operands have to be gone from them, the
/// last one first; else to just before it: it issues them once its operands are in shared memory.
void kiln_layouts_place_feeds(kiln_layouts *c, ir_block *block) {
  uint32_t count = 0;
  for (const ir_op *op = block->first; op; op = op->next) count += waits(c, op);
  ir_op **loads = KILN_NEW_ARRAY(c->arena, ir_op *, count);
  count = 0;
  for (ir_op *op = block->first; op; op = op->next) {
    for (uint32_t i = 0; i < op->region_count; i++) kiln_layouts_place_feeds(c, op->regions[i]);
    if (waits(c, op)) loads[count++] = op;
  }
  for (uint32_t i = 0; i < count; i++) {
    ir_op *dot = (ir_op *)c->notes[loads[i]->results[0].id]->feed.dot;
    ir_move(loads[i], block, kiln_loop_is_full(c, block->parent) ? dot->next : dot);
  }
}

void kiln_layouts_note_feeds(kiln_layouts *c) {
  if (!c->machine.has_buffers) return;
  const ir_block *body = c->kernel->body;
  for (const ir_op *op = ir_next(body, NULL); op; op = ir_next(body, op)) {
    for (unsigned i = 0; op->code == IR_DOT && i < 2; i++) {
      const kiln_feed feed = {.dot = op, .operand = i};
      unsigned budget = MOST_BEHIND;
      note_sources(c, op->operands[i], &feed, &budget);
    }
  }
  for (const ir_op *op = ir_next(body, NULL); op; op = ir_next(body, op))
    if (op->code == IR_SLOT_STORE) note_load(c, op->operands[2], c->notes[op->operands[0]->id]->feed);
}
