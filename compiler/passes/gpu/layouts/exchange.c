// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `exchange`: operands of products by matrix instructions that other threads have in their registers
// go through shared memory, both at a time, and the product reads them there a step at a time:
//
//   x = dot a, trans(b), c
//
// becomes
//
//   m, n = alloc                                 above all slots in use
//   slot_store m, 0, a; slot_store n, 0, b
//   barrier shared
//   x = dot (slot_load m, 0), trans(slot_load n, 0), c
//   fetch_end m, n
//
// Where shared memory does not hold both, the larger one is converted before, whole: such an exchange goes in
// parts where it must. Loads that wait for their product's operands to have left the registers (kiln_feed.waits)
// stand between the barrier and the product.
#include "compiler/passes/gpu/layouts/shared_layouts.h"

/// An `alloc` whose notes are set once the kernel is numbered again.
typedef struct made {
  struct made *next;
  ir_value *memory;
  kiln_slot_layouts slots;
} made;

typedef struct exchange {
  kiln_layouts *c;
  ir_builder b;
  kiln_shared_use in_use;
  made *all;
  bool has_changed;
} exchange;

/// What an operand of a product is made of by shape operations that have no layout, or itself.
typedef struct source {
  ir_value *value;
  kiln_layout wanted; ///< in which the product takes it
  uint64_t bytes;     ///< to be exchanged; 0: it lies as it is taken, or in a slot
} source;

static source source_of(const ir_op *dot, uint32_t i) {
  source s = {.value = dot->operands[i], .wanted = *dot->operand_layouts[i]};
  while (!s.value->layout && kiln_is_reshaped(s.value->def)) {
    const kiln_layout before = kiln_layout_before(s.value->def, &s.wanted);
    s.wanted = before;
    s.value = s.value->def->operands[0];
  }
  const ir_op *def = s.value->def;
  KILN_ASSERT(s.value->layout);
  if ((def && def->code == IR_SLOT_LOAD) ||
      layout_convert(s.value->layout, &s.wanted).reach == LAYOUT_SAME_THREAD)
    return s;
  s.bytes = ((uint64_t)ir_type_bits(s.value->type) / 8) << ir_log2_elements(s.value->type);
  return s;
}

/// `value` in the shape of `like`, which is made of `from`; in `layout`, or without one where it is in a slot.
static ir_value *reshape(exchange *x, const ir_value *like, const ir_value *from, ir_value *value,
                         const kiln_layout *layout) {
  if (like == from || !value) return value;
  const ir_op *op = like->def;
  const kiln_layout *before = NULL;
  if (layout) {
    const kiln_layout there = kiln_layout_before(op, layout);
    before = kiln_arena_copy(x->c->arena, &there, sizeof there);
  }
  ir_value *operand = reshape(x, op->operands[0], from, value, before);
  ir_op *copy = ir_emit(&x->b, op->code, &op->attrs, &operand, 1, &like->type, NULL, 0);
  if (!copy) return NULL;
  if (!layout) return &copy->results[0];
  copy->results[0].layout = layout;
  copy->operand_layouts = KILN_NEW_ARRAY(x->c->arena, const kiln_layout *, 1);
  copy->operand_layouts[0] = before;
  return &copy->results[0];
}

static void set_operand(exchange *x, ir_op *dot, uint32_t i, const source *s, ir_value *value,
                        const kiln_layout *layout) {
  value = reshape(x, dot->operands[i], s->value, value, layout);
  if (value) dot->operands[i] = value;
}

static void convert(exchange *x, ir_op *dot, uint32_t i, source *s) {
  ir_op *op = ir_emit(&x->b, IR_CONVERT, NULL, &s->value, 1, NULL, NULL, 0);
  x->has_changed = true;
  s->bytes = 0;
  if (!op) return;
  op->results[0].layout = kiln_arena_copy(x->c->arena, &s->wanted, sizeof s->wanted);
  set_operand(x, dot, i, s, &op->results[0], dot->operand_layouts[i]);
}

static void convert_what_does_not_fit(exchange *x, ir_op *dot, source sources[2]) {
  for (;;) {
    const uint64_t bytes = sources[0].bytes + sources[1].bytes;
    if (!bytes || bytes + x->in_use.end <= x->c->machine.shared_bytes) return;
    const uint32_t larger = sources[1].bytes > sources[0].bytes;
    convert(x, dot, larger, &sources[larger]);
  }
}

static made *make_slots(exchange *x, const source *s, uint32_t at) {
  made *m = KILN_NEW(x->c->arena, made);
  *m = (made){
      .next = x->all,
      .slots = {.writer = *s->value->layout, .reader = s->wanted, .has_reader = true, .is_exchange = true}};
  m->memory = kiln_slots_alloc(x->c, &x->b, s->value, at, &m->slots);
  x->has_changed = true;
  return m->memory ? x->all = m : NULL;
}

/// Moves loads that wait for a product to have read its operands to just before `before`, the last one first.
/// Operands of products without matrix instructions are in registers all the time: `dot` NULL.
static void move_loads(exchange *x, const ir_op *dot, ir_op *before) {
  ir_block *block = before->block;
  if (!block->parent || block->parent->code != IR_FOR || kiln_loop_is_full(x->c, block->parent)) return;
  for (ir_op *op = before->prev, *prev; op; op = prev) {
    prev = op->prev;
    const kiln_feed *feed = op->code == IR_LOAD ? &x->c->notes[op->results[0].id]->feed : NULL;
    if (!feed || !feed->waits) continue;
    if (dot ? feed->dot != dot : kiln_dot_form(x->c, feed->dot) != NULL) continue;
    ir_move(op, block, before);
    x->has_changed = true;
  }
}

static void exchange_operands(exchange *x, ir_op *dot) {
  source sources[2] = {source_of(dot, 0), source_of(dot, 1)};
  ir_value *memory[2], *zero = NULL;
  uint32_t count = 0, at = x->in_use.end;
  x->b.block = dot->block, x->b.before = dot, x->b.place = dot->place;
  convert_what_does_not_fit(x, dot, sources);
  if (sources[0].bytes || sources[1].bytes) zero = ir_const_int(&x->b, KILN_I32, 0);
  for (uint32_t i = 0; i < 2; i++) {
    const made *m = sources[i].bytes ? make_slots(x, &sources[i], at) : NULL;
    if (m) memory[count++] = m->memory, at = m->slots.end;
  }
  if (x->b.error.status != KILN_OK) return;
  for (uint32_t i = 0, n = 0; i < 2; i++)
    if (sources[i].bytes) kiln_slots_store(x->c, &x->b, memory[n++], zero, sources[i].value);
  if (count) ir_emit(&x->b, IR_BARRIER, &(ir_attrs){.barrier = {.is_shared = true}}, NULL, 0, NULL, NULL, 0);
  move_loads(x, dot, dot);
  for (uint32_t i = 0, n = 0; i < 2; i++) {
    if (!sources[i].bytes) continue;
    ir_op *load = ir_emit(&x->b, IR_SLOT_LOAD, NULL, (ir_value *[2]){memory[n++], zero}, 2, NULL, NULL, 0);
    if (!load) return;
    load->results[0].layout = sources[i].value->layout;
    set_operand(x, dot, i, &sources[i], &load->results[0], NULL);
  }
  x->b.before = dot->next;
  if (count) ir_emit(&x->b, IR_FETCH_END, NULL, memory, count, NULL, NULL, 0);
}

static void exchange_block(exchange *x, ir_block *block) {
  for (ir_op *op = block->first, *next; op; op = next) {
    next = op->next;
    kiln_shared_use_step(&x->in_use, x->c, op);
    for (uint32_t i = 0; i < op->region_count; i++) exchange_block(x, op->regions[i]);
    if (op->code == IR_DOT && kiln_dot_form(x->c, op)) exchange_operands(x, op);
  }
  if (block->last) move_loads(x, NULL, block->last);
}

/// Shape operations that nobody takes any more; users come before what they use.
static void drop_unused(ir_block *block) {
  for (ir_op *op = block->last, *prev; op; op = prev) {
    prev = op->prev;
    for (uint32_t i = op->region_count; i-- > 0;) drop_unused(op->regions[i]);
    if (!kiln_is_reshaped(op) || op->results[0].layout || op->results[0].uses) continue;
    op->operands[0]->uses--;
    ir_remove(op);
  }
}

kiln_status kiln_pass_exchange(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  kiln_layouts *c = kernel->layouts;
  (void)context;
  const kiln_kept_notes kept = kiln_layouts_keep_notes(c);
  exchange x = {.c = c, .b = {.arena = c->arena, .machine = true}};
  x.in_use.end = x.in_use.floor = kiln_roles_end(c);
  exchange_block(&x, kernel->body);
  if (x.b.error.status != KILN_OK) return *err = x.b.error, err->status;
  if (!x.has_changed) return KILN_OK;
  ir_count_uses(kernel);
  drop_unused(kernel->body);
  kiln_layouts_number_again(&kept);
  for (const made *m = x.all; m; m = m->next) *kiln_slot_layouts_of(c, m->memory) = m->slots;
  return KILN_OK;
}
