// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `conversions`: every operation finds its operands in the layouts that it takes (ir_op.operand_layouts). What
// lies in another one, or in a slot, gets a `convert`; what has no layout is computed for its user, as a copy.
// Both stand before their first user, or before the outermost loop that does not change them, and serve all
// that follows inside of the same block. Every tile in registers has a layout then.
//
// Products by matrix instructions are an exception: what is in a slot, or is computed in their loop and has to
// change threads, stays as it lies, through shape operations that keep no layout (exchange.c).
#include "compiler/passes/gpu/layouts/layouts.h"

#include <string.h>

enum { MOST_DEPTH = 2000 }; // of operations that are computed for their users, each for the next one

/// A value in another layout, good in `block` and all that is nested in it.
typedef struct version {
  struct version *next;
  const ir_block *block;
  unsigned stretch;
  ir_value *value;
} version;

/// In ir_value.slot while the pass runs.
typedef struct state {
  version *versions;
  bool is_lazy;     ///< without a layout
  bool is_constant; ///< made of constants and indices alone
  bool is_direct;   ///< loaded once more, in another layout (direct_loads.c)
  bool is_in_slot;  ///< in shared memory, or such a tile in another shape that a product reads from there
} state;

typedef struct conversions {
  kiln_layouts *c;
  ir_builder builder;
  const ir_op *user;
  /// Counts the full loops of the kernel's body: what stands after one is computed anew, or it would be
  /// alive in the loop.
  unsigned stretch, depth;
} conversions;

static state *state_of(conversions *x, ir_value *value) {
  if (!value->slot) value->slot = KILN_NEW(x->c->arena, state);
  return value->slot;
}

// ------------------------------------------------------------------------------------------- places

/// The block around `block`: that of the test of a `while` is around its body.
static const ir_block *around(const ir_block *block) {
  const ir_op *parent = block->parent;
  if (!parent) return NULL;
  return parent->code == IR_WHILE && block == parent->regions[1] ? parent->regions[0] : parent->block;
}

/// Before `at`, or the outermost loop around it that the value comes from outside of.
static ir_op *place_for(const ir_value *value, ir_op *at) {
  const ir_block *home = value->def ? value->def->block : value->block;
  ir_op *place = at;
  for (const ir_block *b = at->block; b && b != home; b = around(b))
    if (b->parent && ir_is_loop(b->parent) && b == b->parent->regions[0]) place = b->parent;
  return place;
}

// ----------------------------------------------------------------------------------------- versions

static void note_version(conversions *x, ir_value *value, const ir_block *block, ir_value *made,
                         const kiln_layout *layout) {
  version *v = KILN_NEW(x->c->arena, version);
  made->layout = kiln_arena_copy(x->c->arena, layout, sizeof *layout);
  *v = (version){state_of(x, value)->versions, block, x->stretch, made};
  state_of(x, value)->versions = v;
}

/// The value in the layout, for `at`: a version that is there, a copy of what is computed for each user, whose operands
/// are taken as the result wants them, or a conversion.
static ir_value *in_layout(conversions *x, ir_value *value, const kiln_layout *layout, ir_op *at) {
  ir_op *op = value->def;
  bool is_slot_load = op && op->code == IR_SLOT_LOAD;
  if (value->layout && layout_equal(value->layout, layout) && !is_slot_load) return value;
  for (const version *v = state_of(x, value)->versions; v; v = v->next)
    if (layout_equal(v->value->layout, layout) && v->stretch == x->stretch &&
        ir_encloses(v->block, at->block))
      return v->value;
  if (x->depth >= MOST_DEPTH)
    x->builder.error.status = kiln_fail_at(
        &x->builder.error, KILN_STATUS_LIMIT, ir_operation(x->user),
        "expected at most %d elementwise operations in a row whose layout is open, found more", MOST_DEPTH);
  if (x->builder.error.status != KILN_OK) return value;
  ir_op *before = place_for(value, at);
  if (value->layout && !kiln_is_sum_of_base(op)) {
    x->builder.block = before->block, x->builder.before = before, x->builder.place = x->user->place;
    ir_op *made = ir_emit(&x->builder, IR_CONVERT, NULL, &value, 1, NULL, NULL, 0);
    if (!made) return value;
    note_version(x, value, before->block, &made->results[0], layout);
    return &made->results[0];
  }
  const kiln_layout before_it = kiln_layout_before(op, layout);
  const kiln_layout *takes = kiln_arena_copy(x->c->arena, &before_it, sizeof before_it);
  ir_value **operands = KILN_NEW_ARRAY(x->c->arena, ir_value *, op->operand_count);
  memcpy(operands, op->operands, op->operand_count * sizeof *operands);
  x->depth++;
  for (unsigned constants = 0; constants < 2; constants++)
    for (uint32_t i = 0; i < op->operand_count; i++)
      if (kiln_is_tile(op->operands[i]) && state_of(x, op->operands[i])->is_constant == constants)
        operands[i] = in_layout(x, op->operands[i], takes, before);
  x->depth--;
  x->builder.block = before->block, x->builder.before = before, x->builder.place = op->place;
  ir_op *copy =
      ir_emit(&x->builder, op->code, &op->attrs, operands, op->operand_count, &op->results[0].type, NULL, 0);
  if (!copy) return value;
  copy->operand_layouts = KILN_NEW_ARRAY(x->c->arena, const kiln_layout *, op->operand_count);
  for (uint32_t i = 0; i < op->operand_count; i++)
    copy->operand_layouts[i] = kiln_is_tile(operands[i]) ? takes : NULL;
  for (uint32_t i = 0; i < op->result_count; i++)
    note_version(x, &op->results[i], before->block, &copy->results[i], layout);
  return &copy->results[value->index];
}

// ------------------------------------------------------------------------------------------ the walk

/// A product by matrix instructions reads slots, and what is computed in its loop and has to change threads is
/// exchanged right before it (exchange.c).
static bool takes_as_it_lies(conversions *x, const ir_op *op, uint32_t i) {
  if (op->code != IR_DOT || i > 1 || !kiln_dot_form(x->c, op)) return false;
  if (!i && kiln_dot_spares_registers(x->c, op)) return true;
  const ir_value *v = op->operands[i];
  kiln_layout wanted = *op->operand_layouts[i];
  if (state_of(x, op->operands[i])->is_in_slot) return true;
  for (; place_for(v, (ir_op *)op) == op; v = v->def->operands[0]) {
    if (v->layout) return layout_convert(v->layout, &wanted).reach != LAYOUT_SAME_THREAD;
    if (!kiln_is_reshaped(v->def)) return false;
    const kiln_layout before_it = kiln_layout_before(v->def, &wanted);
    wanted = before_it;
  }
  return false;
}

/// Next to this load are those of the same in other layouts.
static void note_direct(conversions *x, ir_op *load) {
  ir_value *loaded = &load->results[0];
  if (state_of(x, loaded)->is_direct) return;
  for (const kiln_direct_load *d = x->c->notes[loaded->id]->direct; d; d = d->next) {
    note_version(x, loaded, load->block, d->value, &d->layout);
    state_of(x, d->value)->is_direct = true;
  }
}

static void convert_block(conversions *x, ir_block *block) {
  for (ir_op *op = block->first; op; op = op->next) {
    x->user = op;
    for (unsigned constants = 0; op->operand_layouts && constants < 2; constants++)
      for (uint32_t i = 0; i < op->operand_count; i++)
        if (op->operand_layouts[i] && state_of(x, op->operands[i])->is_constant == constants &&
            !takes_as_it_lies(x, op, i))
          op->operands[i] = in_layout(x, op->operands[i], op->operand_layouts[i], op);
    for (uint32_t i = 0; i < op->region_count; i++) convert_block(x, op->regions[i]);
    bool is_constant = true, is_in_slot = op->code == IR_SLOT_LOAD;
    for (uint32_t i = 0; i < op->operand_count; i++) {
      if (!kiln_is_tile(op->operands[i])) continue;
      const state *operand = state_of(x, op->operands[i]);
      is_constant &= operand->is_constant;
      is_in_slot |= operand->is_in_slot && kiln_is_reshaped(op) && !op->results[0].layout;
    }
    for (uint32_t i = 0; i < op->result_count; i++) {
      state *s = state_of(x, &op->results[i]);
      s->is_lazy = !op->results[i].layout;
      s->is_constant = s->is_lazy && is_constant && !is_in_slot;
      s->is_in_slot = is_in_slot;
    }
    if (op->code == IR_LOAD && op->results[0].layout) note_direct(x, op);
    x->stretch += !block->parent && op->code == IR_FOR && kiln_loop_is_full(x->c, op);
  }
}

/// What was computed for nobody but copies; users come before what they use.
static void drop_unused(ir_block *block) {
  for (ir_op *op = block->last, *prev; op; op = prev) {
    prev = op->prev;
    for (uint32_t i = op->region_count; i-- > 0;) drop_unused(op->regions[i]);
    bool is_used = !ir_has(op->code, IR_EACH) && !ir_has(op->code, IR_RENAMES);
    for (uint32_t i = 0; i < op->result_count && !is_used; i++) {
      const state *s = op->results[i].slot;
      is_used = op->results[i].uses || !s || !s->is_lazy || !op->results[i].type.rank;
    }
    if (is_used) continue;
    for (uint32_t i = 0; i < op->operand_count; i++) op->operands[i]->uses--;
    ir_remove(op);
  }
}

// ----------------------------------------------------------------------------------------- numbers

static void keep_value(kiln_kept_notes *k, ir_value *value) {
  k->values[k->count] = value;
  k->notes[k->count++] = k->c->notes[value->id];
}

kiln_kept_notes kiln_layouts_keep_notes(kiln_layouts *c) {
  const uint32_t count = ir_number(c->kernel);
  kiln_kept_notes k = {.c = c,
                       .values = KILN_NEW_ARRAY(c->arena, ir_value *, count),
                       .notes = KILN_NEW_ARRAY(c->arena, kiln_layout_notes *, count)};
  const ir_block *body = c->kernel->body;
  for (uint32_t i = 0; i < body->arg_count; i++) keep_value(&k, body->args[i]);
  for (ir_op *op = ir_next(body, NULL); op; op = ir_next(body, op)) {
    for (uint32_t i = 0; i < op->result_count; i++) keep_value(&k, &op->results[i]);
    for (uint32_t r = 0; r < op->region_count; r++)
      for (uint32_t i = 0; i < op->regions[r]->arg_count; i++) keep_value(&k, op->regions[r]->args[i]);
  }
  return k;
}

void kiln_layouts_number_again(const kiln_kept_notes *k) {
  kiln_layouts *c = k->c;
  const uint32_t count = ir_number(c->kernel);
  kiln_layout_notes *fresh = KILN_NEW_ARRAY(c->arena, kiln_layout_notes, count);
  c->notes = KILN_NEW_ARRAY(c->arena, kiln_layout_notes *, count);
  for (uint32_t i = 0; i < count; i++) c->notes[i] = &fresh[i];
  for (uint32_t i = 0; i < k->count; i++) {
    const ir_value *value = k->values[i];
    if (!value->def || value->def->block) c->notes[value->id] = k->notes[i];
  }
  c->facts = kiln_facts_compute(c->arena, c->kernel);
}

/// Sets operands of operations to what they take.
kiln_status kiln_pass_conversions(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)context;
  kiln_layouts *c = kernel->layouts;
  const kiln_kept_notes k = kiln_layouts_keep_notes(c);
  conversions x = {.c = c, .builder = {.arena = c->arena, .machine = true}};
  kiln_layouts_find_full_loops(c);
  if (c->machine.has_buffers) kiln_layouts_place_feeds(c, kernel->body);
  if (kiln_layouts_load_directly(c, err) != KILN_OK) return err->status;
  convert_block(&x, kernel->body);
  if (x.builder.error.status != KILN_OK) return *err = x.builder.error, err->status;
  ir_count_uses(kernel);
  drop_unused(kernel->body);
  kiln_layouts_number_again(&k);
  return KILN_OK;
}
