// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `store-operands`: left operands of products that a loop does not change (the queries of attention),
// where the loop takes all registers (product_loops.c). As long as there is room, in
//
//   for .. { dot(q, x, ...) }
//
// they are stored to shared memory before the loop, and every iteration reads them a step at a time:
//
//   m = alloc
//   slot_store m, 0, q
//   barrier shared
//   for .. { dot(slot_load m, 0, x, ...) }
//   fetch_end m
//
// Without room the product exchanges them in every iteration (exchange.c).
#include "compiler/passes/gpu/layouts/shared_layouts.h"

/// A left operand, read from the loop `first` to the loop `last`, both in the block that it comes from.
typedef struct operand {
  struct operand *next; ///< one that was looked at before
  ir_value *value;
  const kiln_layout *reader; ///< in which the first product takes it
  ir_op *first, *last;
} operand;

typedef struct storing {
  kiln_layouts *c;
  ir_builder b;
  operand *seen, *at;     ///< `at`: the one looked at
  kiln_shared_use in_use; ///< by slots, where the walk is
  uint32_t end;           ///< of what is in use from at->first to at->last
  bool is_between;        ///< the walk is there
  ir_value *memory, *slot;
} storing;

/// The loop around the product that stands in the block where its left operand comes from.
static ir_op *outermost(const ir_op *dot) {
  ir_op *loop = dot->block->parent;
  while (loop->block != dot->operands[0]->def->block) loop = loop->block->parent;
  return loop;
}

static bool is_seen(const storing *x, const ir_value *value) {
  const operand *o = x->seen;
  while (o && o->value != value) o = o->next;
  return o != NULL;
}

static void find_operand(ir_op *op, void *context) {
  storing *x = context;
  if (op->code != IR_DOT || !kiln_dot_spares_registers(x->c, op)) return;
  if (!x->at && !is_seen(x, op->operands[0])) {
    x->at = KILN_NEW(x->c->arena, operand);
    *x->at = (operand){x->seen, op->operands[0], op->operand_layouts[0], outermost(op), NULL};
  }
  if (x->at && op->operands[0] == x->at->value) x->at->last = outermost(op);
}

/// The highest end of slots that are in use from the first loop to the last.
static void note_use(ir_op *op, void *context) {
  storing *x = context;
  if (op == x->at->first) x->is_between = true;
  if (op == x->at->last->next) x->is_between = false;
  const uint32_t before = x->in_use.end;
  kiln_shared_use_step(&x->in_use, x->c, op);
  const uint32_t most = before > x->in_use.end ? before : x->in_use.end;
  if (x->is_between && most > x->end) x->end = most;
}

/// Above all that is in use at the same time, where shared memory has as much room again for exchanges.
static void store_operand(storing *x) {
  const operand *o = x->at;
  const ir_block *body = x->c->kernel->body;
  kiln_slot_layouts slots = {.writer = *o->value->layout, .reader = *o->reader, .has_reader = true};
  x->in_use = (kiln_shared_use){.end = 0};
  x->is_between = false;
  x->end = 0;
  ir_walk(x->c->kernel->body, note_use, x);
  const uint64_t bytes = ((uint64_t)ir_type_bits(o->value->type) / 8) << ir_log2_elements(o->value->type);
  if (x->end + 2 * bytes > x->c->machine.shared_bytes) return;
  const kiln_kept_notes kept = kiln_layouts_keep_notes(x->c);
  x->b.block = o->first->block, x->b.before = o->first, x->b.place = o->first->place;
  x->memory = kiln_slots_alloc(x->c, &x->b, o->value, x->end, &slots);
  x->slot = ir_const_int(&x->b, KILN_I32, 0);
  kiln_slots_store(x->c, &x->b, x->memory, x->slot, o->value);
  ir_emit(&x->b, IR_BARRIER, &(ir_attrs){.barrier = {.is_shared = true}}, NULL, 0, NULL, NULL, 0);
  x->b.before = o->last->next;
  ir_emit(&x->b, IR_FETCH_END, NULL, &x->memory, 1, NULL, NULL, 0);
  for (ir_op *op = ir_next(body, NULL); op; op = ir_next(body, op)) {
    if (op->code != IR_DOT || op->operands[0] != o->value || !kiln_dot_spares_registers(x->c, op)) continue;
    ir_build_before(&x->b, op);
    ir_op *load = ir_emit(&x->b, IR_SLOT_LOAD, NULL, (ir_value *[2]){x->memory, x->slot}, 2, NULL, NULL, 0);
    if (!load) break;
    load->results[0].layout = o->value->layout;
    op->operands[0] = &load->results[0];
  }
  if (x->b.error.status != KILN_OK) return;
  kiln_layouts_number_again(&kept);
  *kiln_slot_layouts_of(x->c, x->memory) = slots;
}

kiln_status kiln_pass_store_operands(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  kiln_layouts *c = kernel->layouts;
  (void)context;
  storing x = {.c = c, .b = {.arena = c->arena, .machine = true}};
  for (;;) {
    x.at = NULL;
    ir_walk(kernel->body, find_operand, &x);
    if (!x.at || x.b.error.status != KILN_OK) break;
    store_operand(&x);
    x.seen = x.at;
  }
  if (x.b.error.status != KILN_OK) return *err = x.b.error, err->status;
  if (x.seen) ir_count_uses(kernel);
  return KILN_OK;
}
