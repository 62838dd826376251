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
  bool is_direct;   ///< loaded once more, in another layout (kiln_direct_load)
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

// ------------------------------------------------------------------------------------------ direct loads

// Loads whose users want another layout than that of the access: each layout in which a load is cheaper than the way
// there through shared memory or shuffles is loaded directly.
//
//   x @l0 = load p @l0; f(convert x @l1); g(convert x @l2)    becomes    x @l1 = load p @l1; y @l2 = load p @l2; f(x); g(y)
//
// A row that all rows of a tile are multiplied by is an example: its elements are replicated in the layout of the tile,
// and replicas that several lanes or warps load come from the L1 cache.

enum {
  MOST_STEPS = 20000, ///< from users back to loads, in a kernel
  BARRIER = 8,        ///< accesses of a warp that take as long
  SHUFFLE = 2,        ///< the same of a word that lanes exchange
  MOST_WORDS = 8,     ///< in a thread, of a tile that is replicated
  SECTOR = 32         ///< bytes
};

typedef struct choosing {
  kiln_layouts *c;
  unsigned steps;
  ir_builder b;
} choosing;

/// In any layout without a `convert`: it is computed for each user.
static bool is_open(const ir_value *value) {
  return value->def && (!value->layout || kiln_is_sum_of_base(value->def));
}

// ----------------------------------------------------------------------------------------- what is wanted

static void note_wanted(choosing *x, const ir_value *loaded, const kiln_layout *layout) {
  kiln_layout_notes *notes = x->c->notes[loaded->id];
  if (!layout || layout_convert(loaded->layout, layout).reach == LAYOUT_SAME_THREAD) {
    notes->is_kept = true;
    return;
  }
  for (const kiln_direct_load *d = notes->direct; d; d = d->next)
    if (layout_equal(&d->layout, layout)) return;
  kiln_direct_load *d = KILN_NEW(x->c->arena, kiln_direct_load);
  *d = (kiln_direct_load){.next = notes->direct, .layout = *layout};
  notes->direct = d;
}

/// Looks for the loads that the value comes from, as far as what is between has no layout. `layout` NULL: as they lie.
static void want(choosing *x, const ir_value *value, const kiln_layout *layout) {
  if (!kiln_is_tile(value) || x->steps++ >= MOST_STEPS) return;
  if (value->layout && value->def && value->def->code == IR_LOAD) note_wanted(x, value, layout);
  if (!is_open(value)) return;
  const ir_op *op = value->def;
  kiln_layout before;
  if (layout) before = kiln_layout_before(op, layout);
  for (uint32_t i = 0; i < op->operand_count; i++) want(x, op->operands[i], layout ? &before : NULL);
}

// ------------------------------------------------------------------------------------------------- costs

static unsigned words_of(ir_type type, const kiln_layout *layout) {
  const uint64_t bits = (uint64_t)ir_type_bits(type) << layout->registers;
  return bits < 32 ? 1 : (unsigned)(bits / 32);
}

/// The way through shared memory takes pieces of 16 bytes, at best.
static kiln_access_cost cost_of_way(ir_type type, const kiln_layout *from, const kiln_layout *to) {
  const unsigned first = words_of(type, from), then = words_of(type, to);
  if (layout_convert(from, to).reach == LAYOUT_SAME_WARP) return (kiln_access_cost){then, SHUFFLE * then, 0};
  return (kiln_access_cost){(first + 3) / 4 + (then + 3) / 4, first + then + 2 * BARRIER, 0};
}

/// A loop around it leaves few registers.
static bool is_in_full_loop(const kiln_layouts *c, const ir_op *op) {
  for (const ir_op *outer = op->block->parent; outer; outer = outer->block->parent)
    if (outer->code == IR_FOR && kiln_loop_is_full(c, outer)) return true;
  return false;
}

static bool is_cheaper(const kiln_layouts *c, const ir_op *load, const kiln_layout *to) {
  const kiln_layout *from = load->results[0].layout;
  const ir_type type = load->results[0].type;
  const kiln_access_cost own = kiln_access_cost_of(c, load, from), direct = kiln_access_cost_of(c, load, to),
                         way = cost_of_way(type, from, to);
  const unsigned words = words_of(type, from),
                 most = words > MOST_WORDS || is_in_full_loop(c, load) ? words : MOST_WORDS;
  return words_of(type, to) <= most && (direct.segment >= SECTOR || direct.segment >= own.segment) &&
         direct.accesses < way.accesses && direct.instructions <= own.instructions + way.instructions;
}

/// Its address can be computed in any layout, and its lines stay in the L1 cache.
static bool can_be_direct(const kiln_layouts *c, const ir_op *load) {
  const bool is_cached = load->attrs.cache == IR_CACHE_DEFAULT || load->attrs.cache == IR_CACHE_CA;
  return is_cached && !(load->attrs.flags & IR_VOLATILE) && !c->notes[load->results[0].id]->feed.dot;
}

/// Whether it is made of what is computed for each user alone.
static bool is_free(choosing *x, const ir_value *value) {
  if (!kiln_is_tile(value)) return true;
  if (!is_open(value) || x->steps++ >= MOST_STEPS) return false;
  for (uint32_t i = 0; i < value->def->operand_count; i++)
    if (!is_free(x, value->def->operands[i])) return false;
  return true;
}

// ------------------------------------------------------------------------------------------------- loads

static void take_in(kiln_layouts *c, ir_op *load, const kiln_layout *layout) {
  const kiln_layout *kept = kiln_arena_copy(c->arena, layout, sizeof *layout);
  load->results[0].layout = kept;
  load->operand_layouts = KILN_NEW_ARRAY(c->arena, const kiln_layout *, load->operand_count);
  for (uint32_t i = 0; i < load->operand_count; i++)
    load->operand_layouts[i] = kiln_is_tile(load->operands[i]) ? kept : NULL;
}

/// Makes what is loaded directly, and keeps it in the notes.
static void load_directly(choosing *x, ir_op *op) {
  kiln_layout_notes *notes = x->c->notes[op->results[0].id];
  bool is_direct = notes->direct && can_be_direct(x->c, op);
  for (uint32_t i = 0; i < op->operand_count && is_direct; i++) is_direct = is_free(x, op->operands[i]);
  kiln_direct_load **link = &notes->direct;
  for (kiln_direct_load *d; (d = *link);) {
    if (is_direct && is_cheaper(x->c, op, &d->layout)) {
      link = &d->next;
      continue;
    }
    notes->is_kept = true;
    *link = d->next;
  }
  if (!notes->direct) return;
  kiln_direct_load *first = notes->is_kept ? notes->direct : notes->direct->next;
  if (!notes->is_kept) take_in(x->c, op, &notes->direct->layout);
  notes->direct = first;
  x->b.block = op->block, x->b.before = op->next, x->b.place = op->place;
  for (kiln_direct_load *d = first; d; d = d->next) {
    ir_op *made =
        ir_emit(&x->b, IR_LOAD, &op->attrs, op->operands, op->operand_count, &op->results[0].type, NULL, 0);
    if (!made) return;
    take_in(x->c, made, &d->layout);
    d->value = &made->results[0];
  }
}

/// Loads directly in the layouts that users want, where that is cheaper than to convert: before values are made, whose
/// numbers the notes go by.
static kiln_status choose_loads(kiln_layouts *c, kiln_error *err) {
  choosing x = {.c = c, .b = {.arena = c->arena, .machine = true}};
  ir_block *body = c->kernel->body;
  for (const ir_op *op = ir_next(body, NULL); op; op = ir_next(body, op)) {
    // what a product by matrix instructions takes may stay as it lies (exchange.c)
    const bool is_product = op->code == IR_DOT;
    for (uint32_t i = 0; op->operand_layouts && i < op->operand_count; i++)
      if (op->operand_layouts[i]) want(&x, op->operands[i], is_product ? NULL : op->operand_layouts[i]);
  }
  if (x.steps >= MOST_STEPS) { // not all users are known
    for (const ir_op *op = ir_next(body, NULL); op; op = ir_next(body, op))
      if (op->code == IR_LOAD && op->results[0].layout) c->notes[op->results[0].id]->direct = NULL;
    return KILN_OK;
  }
  for (ir_op *op = ir_next(body, NULL), *next; op; op = next) {
    next = ir_next(body, op);
    if (op->code == IR_LOAD && op->results[0].layout) load_directly(&x, op);
  }
  if (x.b.error.status == KILN_OK) return KILN_OK;
  return *err = x.b.error, err->status;
}

// ---------------------------------------------------------------------------------------------- the pass

/// Sets operands of operations to what they take.
kiln_status kiln_pass_conversions(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)context;
  kiln_layouts *c = kernel->layouts;
  const kiln_kept_notes k = kiln_layouts_keep_notes(c);
  conversions x = {.c = c, .builder = {.arena = c->arena, .machine = true}};
  kiln_layouts_find_full_loops(c);
  if (c->machine.has_buffers) kiln_layouts_place_feeds(c, kernel->body);
  if (choose_loads(c, err) != KILN_OK) return err->status;
  convert_block(&x, kernel->body);
  if (x.builder.error.status != KILN_OK) return *err = x.builder.error, err->status;
  ir_count_uses(kernel);
  drop_unused(kernel->body);
  kiln_layouts_number_again(&k);
  return KILN_OK;
}
