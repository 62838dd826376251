// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads whose users want another layout than that of the access: each layout in which a load is cheaper than the way
// there through shared memory or shuffles is loaded directly.
//
//   x @l0 = load p @l0; f(convert x @l1); g(convert x @l2)    becomes    x @l1 = load p @l1; y @l2 = load p @l2; f(x); g(y)
//
// A row that all rows of a tile are multiplied by is an example: its elements are replicated in the layout of the tile,
// and replicas that several lanes or warps load come from the L1 cache.
#include "compiler/passes/gpu/layouts/layouts.h"

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

kiln_status kiln_layouts_load_directly(kiln_layouts *c, kiln_error *err) {
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
