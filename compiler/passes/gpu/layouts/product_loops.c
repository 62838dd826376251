// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops with products, where registers are what they lack: those that take all registers of a thread, whose number is
// known before code is generated, and loads for products where loads complete in order (gpu_machine.hold_loads).
// The layouts of these follow from the product. One whose value the loop carries to the product of the next iteration
// is not issued where it stands, but when that of this iteration has taken its operand from the registers: both then
// have the same ones.
#include "compiler/passes/gpu/layouts/layouts.h"

// ----------------------------------------------------------------------------- loops that take all registers

enum { LOG2_SIMDS = 2 };

/// The waves of a block share the SIMDs, and a SIMD's registers are shared by its waves.
unsigned kiln_thread_registers(const kiln_layouts *c) {
  const unsigned waves = c->warps > LOG2_SIMDS ? 1u << (c->warps - LOG2_SIMDS) : 1,
                 share = c->machine.register_file / waves;
  return share < c->machine.most_registers ? share : c->machine.most_registers;
}

static uint64_t words_in(const ir_value *value, const kiln_layout *layout) {
  return ((uint64_t)ir_type_bits(value->type) << layout->registers) / 32;
}

static uint64_t words_at_home(const ir_value *value) {
  return value->type.rank && value->layout ? words_in(value, value->layout) : 0;
}

static bool is_by_matrix(const kiln_layouts *c, const ir_op *op) {
  return op->code == IR_DOT && kiln_dot_form(c, op);
}

/// The loop, or one around it, is in the block; nothing but loops is between.
static bool runs_in(const ir_op *loop, const ir_block *block) {
  while (loop && loop->code == IR_FOR && loop->block != block) loop = loop->block->parent;
  return loop && loop->code == IR_FOR;
}

/// The operand stays the same in the loop, is in registers, and would change threads.
static bool is_candidate(const ir_op *loop, const ir_op *dot) {
  const ir_value *left = dot->operands[0];
  return left->def && runs_in(loop, left->def->block) && left->layout && left->def->code != IR_SLOT_LOAD &&
         layout_convert(left->layout, dot->operand_layouts[0]).reach != LAYOUT_SAME_THREAD;
}

/// What the loop carries, what does not change in it, and the product with most sums and operands of its own.
static uint64_t words_of_loop(const kiln_layouts *c, const ir_op *loop) {
  uint64_t words = 0, most = 0;
  for (uint32_t i = 0; i < loop->result_count; i++) words += words_at_home(ir_loop_args(loop)[i]);
  for (const ir_op *op = ir_loop_body(loop)->first; op; op = op->next) {
    if (!is_by_matrix(c, op)) continue;
    uint64_t own = 0, operand = words_in(op->operands[0], op->operand_layouts[0]);
    if (op->operands[2]->def) own += words_at_home(&op->results[0]); // else its sums are carried
    if (is_candidate(loop, op)) words += operand;
    else own += operand;
    if (own > most) most = own;
  }
  return words + most;
}

bool kiln_dot_spares_registers(const kiln_layouts *c, const ir_op *dot) {
  const ir_op *loop = dot->block->parent;
  return loop && loop->code == IR_FOR && kiln_loop_is_full(c, loop) && is_by_matrix(c, dot) &&
         is_candidate(loop, dot);
}

void kiln_layouts_find_full_loops(kiln_layouts *c) {
  const ir_block *body = c->kernel->body;
  if (!c->machine.register_file) return;
  const uint64_t room = kiln_thread_registers(c);
  // A quarter is for the right operands of a product, addresses and what is on its way.
  for (const ir_op *loop = ir_next(body, NULL); loop; loop = ir_next(body, loop))
    if (loop->code == IR_FOR)
      c->notes[ir_for_counter(loop)->id]->is_full = words_of_loop(c, loop) >= room - room / 4;
}

// ---------------------------------------------------------------------------------------- loads for products

enum { MOST_BEHIND = 64 };

static void note_load(kiln_layouts *c, const ir_value *value, kiln_feed feed) {
  const ir_op *load = value->def;
  if (!load || load->code != IR_LOAD || !(load->attrs.flags & IR_FEEDS)) return;
  kiln_feed *known = &c->notes[load->results[0].id]->feed;
  if (known->dot || !feed.dot) return;
  *known = feed;
  c->notes[feed.dot->results[0].id]->product->turns[feed.operand] = kiln_turns_later(c, load, known);
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
