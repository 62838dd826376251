// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `store-operands`: left operands of products that a loop does not change (the queries of attention),
// where the loop takes all registers (full_loops.c). As long as there is room, in
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
// Without room the product exchanges them in every iteration.
#include "compiler/passes/gpu/layouts/shared_layouts.h"

/// A left operand that is stored before the loop `first` and read up to the end of the loop `last`, both in the
/// block that it comes from; `reader`: the layout in which the first product takes it.
typedef struct stored {
  ir_value *value;
  const kiln_layout *reader;
  ir_op *first, *last;
  ir_value *memory, *slot; ///< NULL: there is no room
  kiln_slot_layouts slots;
} stored;

/// Slots in use from one operation to another, as numbers in the order of the text. Of a stored operand too.
typedef struct span {
  struct span *next;
  const ir_value *memory;
  const stored *operand;
  uint32_t from, to, end;
} span;

enum { MOST_STORED = 8 };
typedef struct storing {
  kiln_layouts *c;
  ir_builder b;
  stored all[MOST_STORED];
  unsigned count;
  span *spans;
  uint32_t at; ///< the number of the next operation
} storing;

/// The loop around the product that stands in the block where its left operand comes from.
static ir_op *outermost(const ir_op *dot) {
  ir_op *loop = dot->block->parent;
  while (loop->block != dot->operands[0]->def->block) loop = loop->block->parent;
  return loop;
}

static stored *stored_of(storing *x, const ir_value *value) {
  for (unsigned i = 0; i < x->count; i++)
    if (x->all[i].value == value) return &x->all[i];
  return NULL;
}

static void find_operand(ir_op *op, void *context) {
  storing *x = context;
  if (op->code != IR_DOT || !kiln_dot_spares_registers(x->c, op)) return;
  stored *s = stored_of(x, op->operands[0]);
  if (!s && x->count == MOST_STORED) return;
  if (!s) {
    s = &x->all[x->count++];
    *s = (stored){.value = op->operands[0], .reader = op->operand_layouts[0], .first = outermost(op)};
  }
  s->last = outermost(op);
}

static span *span_of(storing *x, const ir_value *memory, const stored *operand, uint32_t end) {
  for (span *p = x->spans; p; p = p->next)
    if (p->memory == memory && p->operand == operand) return p;
  span *made = KILN_NEW(x->c->arena, span);
  *made = (span){x->spans, memory, operand, x->at, UINT32_MAX, end};
  return x->spans = made;
}

static void note_spans(ir_op *op, void *context) {
  storing *x = context;
  for (unsigned i = 0; i < x->count; i++) {
    if (op == x->all[i].first) span_of(x, NULL, &x->all[i], 0);
    if (op == x->all[i].last->next) span_of(x, NULL, &x->all[i], 0)->to = x->at;
  }
  const ir_value *memory = op->code == IR_FETCH        ? op->operands[2]
                           : op->code == IR_SLOT_STORE ? op->operands[0]
                                                       : NULL;
  if (memory) span_of(x, memory, NULL, kiln_slot_layouts_of(x->c, memory)->end);
  for (uint32_t i = 0; op->code == IR_FETCH_END && i < op->operand_count; i++)
    span_of(x, op->operands[i], NULL, 0)->to = x->at;
  x->at++;
}

/// Where it is stored: above all that is in use at the same time; false where shared memory has not as much
/// room again, for exchanges.
static bool find_room(storing *x, stored *s, ir_type type, uint32_t *out_at) {
  const span *own = span_of(x, NULL, s, 0);
  const uint64_t bytes = ((uint64_t)kiln_scalars[type.scalar].bytes) << s->slots.memory.bits;
  *out_at = 0;
  for (const span *p = x->spans; p; p = p->next)
    if (p != own && p->from <= own->to && own->from <= p->to && p->end > *out_at) *out_at = p->end;
  return *out_at + 2 * bytes <= x->c->machine.shared_bytes;
}

static void store_operand(storing *x, stored *s) {
  const ir_type type = ir_memory_type(s->value->type, 1);
  const unsigned log2_bytes = (unsigned)__builtin_ctz(kiln_scalars[type.scalar].bytes);
  ir_attrs where = {0};
  kiln_matrix_load plan;
  s->slots = (kiln_slot_layouts){.writer = *s->value->layout, .reader = *s->reader, .has_reader = true};
  kiln_operand_memory(&x->c->machine, &s->slots.writer, &s->slots.reader, log2_bytes, &plan,
                      &s->slots.memory);
  if (!find_room(x, s, type, &where.alloc.at)) return;
  x->b.block = s->first->block, x->b.before = s->first, x->b.place = s->first->place;
  ir_op *alloc = ir_emit(&x->b, IR_ALLOC, &where, NULL, 0, &type, NULL, 0);
  if (!alloc) return;
  kiln_slots_measure(alloc, &s->slots);
  span_of(x, NULL, s, 0)->end = s->slots.end;
  s->memory = &alloc->results[0];
  s->slot = ir_const_int(&x->b, KILN_I32, 0);
  ir_op *store =
      ir_emit(&x->b, IR_SLOT_STORE, NULL, (ir_value *[3]){s->memory, s->slot, s->value}, 3, NULL, NULL, 0);
  if (!store) return;
  store->operand_layouts = KILN_NEW_ARRAY(x->c->arena, const kiln_layout *, store->operand_count);
  store->operand_layouts[2] = s->value->layout;
  ir_emit(&x->b, IR_BARRIER, &(ir_attrs){.barrier = {.is_shared = true}}, NULL, 0, NULL, NULL, 0);
  x->b.before = s->last->next;
  ir_emit(&x->b, IR_FETCH_END, NULL, &s->memory, 1, NULL, NULL, 0);
}

static void read_operand(ir_op *op, void *context) {
  storing *x = context;
  if (op->code != IR_DOT || !kiln_dot_spares_registers(x->c, op)) return;
  const stored *s = stored_of(x, op->operands[0]);
  if (!s || !s->memory) return;
  x->b.block = op->block, x->b.before = op, x->b.place = op->place;
  ir_op *load = ir_emit(&x->b, IR_SLOT_LOAD, NULL, (ir_value *[2]){s->memory, s->slot}, 2, NULL, NULL, 0);
  if (!load) return;
  load->results[0].layout = s->value->layout;
  op->operands[0] = &load->results[0];
}

kiln_status kiln_pass_store_operands(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  kiln_layouts *c = kernel->layouts;
  (void)context;
  storing x = {.c = c, .b = {.arena = c->arena, .machine = true}};
  ir_walk(kernel->body, find_operand, &x);
  if (!x.count) return KILN_OK;
  const kiln_kept_notes k = kiln_layouts_keep_notes(c);
  ir_walk(kernel->body, note_spans, &x);
  for (unsigned i = 0; i < x.count; i++) store_operand(&x, &x.all[i]);
  ir_walk(kernel->body, read_operand, &x);
  if (x.b.error.status != KILN_OK) return *err = x.b.error, err->status;
  ir_count_uses(kernel);
  kiln_layouts_number_again(&k);
  for (unsigned i = 0; i < x.count; i++)
    if (x.all[i].memory) *kiln_slot_layouts_of(c, x.all[i].memory) = x.all[i].slots;
  return KILN_OK;
}
