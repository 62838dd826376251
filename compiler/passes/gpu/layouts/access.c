// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How loads, stores and atomics of tiles lie: the layout that each has, and the pieces of up to 16 bytes that
// layout and facts allow. What is stored comes in a layout: its own, or that of what it renames.
#include "compiler/passes/gpu/layouts/layouts.h"

/// Axis along which addresses grow, and log2 of the elements one access may take there.
typedef struct direction {
  unsigned axis, vector, whole, contiguity; ///< vector: with the mask; whole: where all lanes are live
} direction;

static const ir_value *mask_of(const ir_op *op) {
  if (op->code == IR_LOAD || op->code == IR_FETCH) return op->operand_count > 1 ? op->operands[1] : NULL;
  if (op->code == IR_STORE || op->code == IR_ATOMIC) return op->operand_count > 2 ? op->operands[2] : NULL;
  return NULL;
}

unsigned kiln_pointee_bytes(ir_type pointer) {
  ir_type pointee = ir_pointee(ir_element(pointer));
  return pointee.pointer ? 8 : kiln_scalars[pointee.scalar].bytes;
}

const kiln_matrix_form *kiln_dot_form(const kiln_layouts *c, const ir_op *op) {
  return kiln_matrix_form_of(c->machine.matrix, c->lanes, op, NULL);
}

static direction direction_of(const kiln_layouts *c, const ir_op *op) {
  ir_type type = op->operands[0]->type;
  const kiln_fact *fact = kiln_fact_of(c->facts, op->operands[0]);
  direction best = {.axis = type.rank - 1u, .contiguity = fact->contiguity[type.rank - 1]};
  for (unsigned a = 0; a < type.rank; a++)
    if (fact->contiguity[a] > best.contiguity)
      best = (direction){.axis = a, .contiguity = fact->contiguity[a]};
  best.vector = kiln_fact_vector(c->facts, op->operands[0], mask_of(op), best.axis, 4);
  best.whole = kiln_fact_vector(c->facts, op->operands[0], NULL, best.axis, 4);
  return best;
}

unsigned kiln_access_axis(const kiln_layouts *c, const ir_op *op) { return direction_of(c, op).axis; }

static bool is_renaming(const ir_value *value) {
  const ir_op *op = value->def;
  return op && (op->code == IR_EXPAND || op->code == IR_RESHAPE || op->code == IR_TRANS) &&
         op->operands[0]->type.rank && value->type.rank;
}

/// Elements of 16 bytes, logarithm, of a load that is shifted; 0: it is loaded as it lies.
static unsigned shifted_vector(const kiln_layouts *c, const ir_op *op) {
  const bool is_shifted =
      c->machine.shifts_pieces && op->code == IR_LOAD && c->notes[op->results[0].id]->is_shifted;
  return is_shifted ? 4 - (unsigned)__builtin_ctz(kiln_pointee_bytes(op->operands[0]->type)) : 0;
}

/// A load whose rows begin anywhere: element by element it would take as many instructions and registers.
static bool can_shift(const kiln_layouts *c, const ir_op *op) {
  const ir_type type = op->operands[0]->type;
  if ((op->attrs.flags & IR_VOLATILE) || op->attrs.cache || op->attrs.evict || !type.rank) return false;
  if (op->operand_count > 2 && !ir_is_zero(op->operands[2])) return false;
  const direction d = direction_of(c, op);
  const unsigned bytes = kiln_pointee_bytes(type), vector = 4 - (unsigned)__builtin_ctz(bytes);
  return bytes <= 2 && d.contiguity >= vector && d.whole < vector &&
         ir_log2_elements(type) >= c->lanes + c->warps + vector;
}

/// Goes back from what a product reads, or what is stored for it, to its loads.
static void note_shifted(kiln_layouts *c, const ir_value *value, unsigned depth) {
  enum { MOST = 16 };
  const ir_op *op = value->def, *loop = op ? NULL : value->block->parent;
  if (depth == MOST) return;
  if (op && op->code == IR_LOAD) c->notes[value->id]->is_shifted = can_shift(c, op);
  else if (op && (is_renaming(value) || op->code == IR_CAST)) note_shifted(c, op->operands[0], depth + 1);
  else if (loop && loop->code == IR_FOR && value != ir_for_counter(loop)) {
    const uint32_t carried = value->index - ir_loop_counters(loop);
    note_shifted(c, ir_loop_initials(loop)[carried], depth + 1);
    if (ir_loop_next(loop)->operands[carried] != value)
      note_shifted(c, ir_loop_next(loop)->operands[carried], depth + 1);
  }
}

/// A load whose address is the same all along another axis, such as a number for each row: of a line of memory, which any
/// layout reads well as long as a thread has few elements.
static bool is_line(const kiln_layouts *c, const ir_op *op, direction d) {
  enum { LOG2_MOST = 3 };
  const ir_type type = op->operands[0]->type;
  const kiln_fact *fact = kiln_fact_of(c->facts, op->operands[0]);
  bool is = false;
  if (ir_log2_elements(type) > c->lanes + c->warps + LOG2_MOST) return false;
  for (unsigned a = 0; a < type.rank; a++)
    is |= a != d.axis && type.log2[a] && fact->constancy[a] >= type.log2[a];
  return is && op->code == IR_LOAD;
}

static uint64_t per_thread(const kiln_layouts *c, const ir_value *v) {
  return ((uint64_t)1 << ir_log2_elements(v->type)) >> (c->lanes + c->warps);
}

/// Registers of a thread for the elements that one block of the kernel loads for products one by one, where they are most, and for
/// what products add up. Elements of 16 bits go in pairs where they are not stored to slots one by one.
static uint64_t single_registers(const kiln_layouts *c) {
  const ir_block *body = c->kernel->body;
  uint64_t most = 0, loaded = 0, added = 0;
  const ir_block *block = NULL;
  for (const ir_op *op = ir_next(body, NULL); op; op = ir_next(body, op)) {
    const bool adds = op->code == IR_DOT || op->code == IR_MMA;
    if (adds) added = per_thread(c, &op->results[0]) > added ? per_thread(c, &op->results[0]) : added;
    if (op->code != IR_LOAD || !c->notes[op->results[0].id]->is_shifted) continue;
    if (op->block != block) loaded = 0;
    block = op->block;
    const bool in_pairs = kiln_pointee_bytes(op->operands[0]->type) == 2 && c->has_products;
    loaded += per_thread(c, &op->results[0]) >> in_pairs;
    if (loaded > most) most = loaded;
  }
  return most ? most + added : 0;
}

/// Element by element loads need fewer instructions in front of the shared memory, and more registers: in pieces tiles of
/// more than 128 registers are 1.5 to 4 times as fast, those of 112 and 128 0.87 to 1.4 times, smaller ones 0.64 to 1.05
/// times (docs/performance.md).
static void find_shifted(kiln_layouts *c) {
  enum { FROM = 112 };
  const ir_block *body = c->kernel->body;
  for (const ir_op *op = ir_next(body, NULL); op; op = ir_next(body, op)) {
    for (unsigned i = 0; op->code == IR_DOT && i < 2; i++) note_shifted(c, op->operands[i], 0);
    if (op->code == IR_SLOT_STORE) note_shifted(c, op->operands[2], 0);
  }
  if (single_registers(c) >= FROM) return;
  for (const ir_op *op = ir_next(body, NULL); op; op = ir_next(body, op))
    if (op->code == IR_LOAD) c->notes[op->results[0].id]->is_shifted = false;
}

/// Accesses of one shape share a layout, or values would be converted on their way from load to store: the
/// widest vector that any of them can use, in elements.
void kiln_layouts_collect(kiln_layouts *c) {
  ir_block *body = c->kernel->body;
  for (const ir_op *op = ir_next(body, NULL); op; op = ir_next(body, op)) {
    bool is_plain = op->code == IR_LOAD || op->code == IR_STORE || op->code == IR_FETCH;
    if (!is_plain || !op->operands[0]->type.rank) continue;
    const ir_type type = op->operands[0]->type;
    direction d = direction_of(c, op);
    if (is_line(c, op, d)) continue;
    kiln_shape *s = c->shapes;
    while (s && !(ir_same_shape(s->type, type) && s->axis == d.axis)) s = s->next;
    if (s && d.whole > s->vector) s->vector = d.whole;
    if (s) continue;
    s = KILN_NEW(c->arena, kiln_shape);
    *s = (kiln_shape){.next = c->shapes, .type = type, .axis = d.axis, .vector = d.whole};
    c->shapes = s;
  }
  for (const ir_op *op = ir_next(body, NULL); op; op = ir_next(body, op)) {
    for (kiln_shape *s = c->shapes; s && op->code == IR_REDUCE; s = s->next)
      if (ir_same_shape(s->type, op->operands[0]->type)) s->reduced |= 1u << op->attrs.axis;
    if (op->code != IR_DOT) continue;
    kiln_dot_layouts *product = c->notes[op->results[0].id]->product = KILN_NEW(c->arena, kiln_dot_layouts);
    product->form = kiln_dot_form(c, op);
    c->has_products |= product->form != NULL;
    c->dots++;
  }
  if (c->machine.shifts_pieces) find_shifted(c);
}

static kiln_layout blocked(const kiln_layouts *c, ir_type type, direction d, unsigned least) {
  unsigned vector = d.whole, bits = ir_log2_elements(type), threads = c->lanes + c->warps, reduced = 0;
  for (kiln_shape *s = c->shapes; s; s = s->next)
    if (ir_same_shape(s->type, type) && s->axis == d.axis) {
      vector = s->vector;
      reduced = s->reduced;
    }
  if (vector < least) vector = least;
  if (vector + threads > bits) vector = bits > threads ? bits - threads : 0;
  if (vector > type.log2[d.axis]) vector = type.log2[d.axis];
  return layout_blocked_late(type, d.axis, reduced, vector, c->lanes, c->warps);
}

/// Register bits of the layout that are the low bits of an axis, in order: what one access can cover.
static unsigned run_of(const kiln_layout *l, unsigned shift, unsigned limit, uint8_t out[8]) {
  unsigned count = 0;
  for (bool found = true; found && count < limit && count < 8;) {
    found = false;
    for (unsigned r = 0; r < l->registers && !found; r++)
      if (l->basis[r] == 1u << (shift + count)) {
        out[count++] = (uint8_t)r;
        found = true;
      }
  }
  return count;
}

/// Bytes in a row that a warp touches with one access: the run of a thread and the lanes that go on from it.
static unsigned segment_of(const kiln_layout *l, unsigned shift, unsigned run, unsigned bytes) {
  unsigned count = run;
  for (bool found = true; found;) {
    found = false;
    for (unsigned i = 0; i < l->lanes && !found; i++)
      if (l->basis[l->registers + i] == 1u << (shift + count)) {
        count++;
        found = true;
      }
  }
  return bytes << count;
}

/// A value that comes in a layout of its own is stored from there when that touches memory in pieces of 32
/// bytes or as good as the best. Atomics are the dearer the fewer threads share them.
static bool good_enough(const ir_op *op, const kiln_layout *offered, const kiln_layout *best, direction d) {
  uint8_t registers[8];
  unsigned shift = layout_axis_shift(op->operands[0]->type, d.axis),
           bytes = kiln_pointee_bytes(op->operands[0]->type);
  if (op->code == IR_ATOMIC && offered->registers > best->registers)
    return false; // replicas: few lanes would issue all of them
  if (!d.contiguity) return true;
  unsigned run = run_of(offered, shift, d.whole, registers), segment = segment_of(offered, shift, run, bytes);
  unsigned ideal = segment_of(best, shift, run_of(best, shift, d.whole, registers), bytes);
  return segment >= 32 || segment >= ideal;
}

/// The axis of a loaded matrix that the product sums over; -1: not known.
static int reduced_axis(const ir_op *load, const kiln_feed *feed) {
  const ir_value *v = feed->dot->operands[feed->operand];
  int axis = feed->operand ? 0 : 1;
  if (v->type.rank != 2 || load->operands[0]->type.rank != 2) return -1;
  for (; v->def && v->def->code != IR_LOAD && v->def->code != IR_SLOT_LOAD; v = v->def->operands[0]) {
    if (v->def->code == IR_TRANS) axis = 1 - axis;
    else if (v->def->code != IR_CAST) return -1;
  }
  return axis;
}

bool kiln_turns_later(const kiln_layouts *c, const ir_op *load, const kiln_feed *feed) {
  const direction d = direction_of(c, load);
  const int reduced = reduced_axis(load, feed);
  const unsigned bytes = kiln_scalars[feed->dot->operands[feed->operand]->type.scalar].bytes;
  return c->machine.turns && reduced >= 0 && (unsigned)reduced != d.axis && bytes <= 2 &&
         bytes << d.whole >= KILN_TURNED_LEAST_BYTES && kiln_dot_form(c, feed->dot);
}

/// A matrix whose rows lie across the reduced index: a thread loads neighbours of as many rows as make a
/// piece that the product's reader takes, so that they turn in its registers on the way to shared memory.
static bool layout_across(const kiln_layouts *c, const ir_op *op, direction d, kiln_layout *out) {
  const kiln_feed *feed = &c->notes[op->results[0].id]->feed;
  ir_type type = op->operands[0]->type;
  int reduced = feed->dot ? reduced_axis(op, feed) : -1;
  unsigned bits = ir_log2_elements(type), threads = c->lanes + c->warps, rows = 0, at = 0;
  if (reduced < 0 || (unsigned)reduced == d.axis || !d.whole || bits <= threads + d.whole ||
      !kiln_dot_form(c, feed->dot) || kiln_turns_later(c, op, feed))
    return false;
  unsigned bytes = kiln_pointee_bytes(type), along = layout_axis_shift(type, d.axis),
           across = layout_axis_shift(type, (unsigned)reduced);
  while (bytes << (rows + 1) <= KILN_MOST_VECTOR_BYTES && rows < type.log2[reduced] &&
         rows < bits - threads - d.whole)
    rows++;
  kiln_layout l = {.bits = (uint8_t)bits, .lanes = (uint8_t)c->lanes, .warps = (uint8_t)c->warps};
  uint32_t order[LAYOUT_MAX_BITS];
  unsigned count = 0;
  for (unsigned i = d.whole; i < type.log2[d.axis]; i++) order[count++] = 1u << (along + i);
  for (unsigned i = rows; i < type.log2[reduced]; i++) order[count++] = 1u << (across + i);
  for (unsigned i = 0; i < d.whole; i++) l.basis[at++] = 1u << (along + i);
  for (unsigned i = 0; i < rows; i++) l.basis[at++] = 1u << (across + i);
  for (unsigned i = threads; i < count; i++) l.basis[at++] = order[i];
  l.registers = (uint8_t)at;
  for (unsigned i = 0; i < threads && i < count; i++) l.basis[at + i] = order[i];
  *out = l;
  return true;
}

/// Elements of 16 bits that are loaded one by one for products are held in pairs: they are written to shared
/// memory as words then.
static bool wants_pairs(const kiln_layouts *c, const ir_op *op, direction d) {
  ir_type type = op->operands[0]->type;
  return op->code == IR_LOAD && c->has_products && type.rank > 1 && d.contiguity && !d.whole &&
         kiln_pointee_bytes(type) == 2;
}

/// As other tiles of that shape are accessed, if none is along this axis: a line is computed with as they lie.
static direction direction_of_others(const kiln_layouts *c, ir_type type, direction d) {
  direction other = d;
  for (const kiln_shape *s = c->shapes; s; s = s->next) {
    if (!ir_same_shape(s->type, type)) continue;
    if (s->axis == d.axis) return d;
    other = (direction){.axis = s->axis, .contiguity = 1};
  }
  return other;
}

// ------------------------------------------------------------------------------------- what is offered

kiln_layout kiln_layout_default(const kiln_layouts *c, ir_type type) {
  unsigned vector = 0, threads = c->lanes + c->warps, bits = ir_log2_elements(type);
  if (bits > threads && type.rank) vector = bits - threads < 2 ? bits - threads : 2;
  if (type.rank && vector > type.log2[type.rank - 1]) vector = type.log2[type.rank - 1];
  return layout_blocked(type, type.rank ? type.rank - 1u : 0, vector, c->lanes, c->warps);
}

/// Goes down a chain of shape operations to what has a home, then back up.
bool kiln_layout_offered(const ir_value *value, kiln_layout *out) {
  enum { MOST = 32 };
  const ir_op *chain[MOST];
  unsigned count = 0;
  while (!value->layout) {
    if (!is_renaming(value) || count == MOST) return false;
    chain[count++] = value->def;
    value = value->def->operands[0];
  }
  *out = *value->layout;
  while (count) {
    kiln_layout inner = *out;
    layout_forward(chain[--count], &inner, out);
  }
  return true;
}

kiln_layout kiln_layout_of_operand(const kiln_layouts *c, const ir_value *value) {
  kiln_layout layout;
  return kiln_layout_offered(value, &layout) ? layout : kiln_layout_default(c, value->type);
}

kiln_layout kiln_layout_before(const ir_op *op, const kiln_layout *layout) {
  if (ir_has(op->code, IR_EACH)) return *layout;
  if (op->code == IR_JOIN) return layout_without(layout, 1);
  if (op->code != IR_SPLIT) return layout_backward(op, layout);
  kiln_layout out = *layout;
  out.bits++;
  out.registers++;
  for (unsigned i = LAYOUT_MAX_PLACES - 1; i; i--) out.basis[i] = layout->basis[i - 1] << 1;
  out.basis[0] = 1;
  return out;
}

// ------------------------------------------------------------------------------------------- accesses

kiln_layout kiln_layout_of_access(const kiln_layouts *c, const ir_op *op) {
  ir_type type = op->operands[0]->type;
  direction d = direction_of(c, op);
  kiln_layout turned;
  const unsigned shifted = shifted_vector(c, op);
  if (shifted) d.whole = shifted;
  if (op->code == IR_LOAD && layout_across(c, op, d, &turned)) return turned;
  if (is_line(c, op, d)) d = direction_of_others(c, type, d);
  kiln_layout best = blocked(c, type, d, shifted ? shifted : wants_pairs(c, op, d)), offered;
  bool has_value = op->code == IR_STORE || op->code == IR_ATOMIC;
  if (has_value && kiln_layout_offered(op->operands[1], &offered) && good_enough(op, &offered, &best, d))
    return offered;
  if (!d.contiguity && kiln_layout_offered(op->operands[0], &offered)) return offered;
  return best;
}

// ----------------------------------------------------------------------------------------- pieces

kiln_pieces kiln_pieces_of(const kiln_layouts *c, const ir_op *op, const kiln_layout *layout, bool whole) {
  kiln_pieces p = {0};
  direction d = direction_of(c, op);
  const unsigned at = layout_axis_shift(op->operands[0]->type, d.axis),
                 shifted = whole ? shifted_vector(c, op) : 0;
  p.known = d.whole;
  p.is_shifted = shifted && run_of(layout, at, shifted, p.bits) == shifted;
  p.vector = run_of(layout, at, p.is_shifted ? shifted : whole ? d.whole : d.vector, p.bits);
  for (unsigned i = 0; i < p.vector; i++) p.mask |= 1u << p.bits[i];
  return p;
}

uint32_t kiln_piece_register(const kiln_pieces *p, uint32_t r, unsigned i) {
  for (unsigned j = 0; j < p->vector; j++)
    if (i >> j & 1) r |= 1u << p->bits[j];
  return r;
}

kiln_access_cost kiln_access_cost_of(const kiln_layouts *c, const ir_op *op, const kiln_layout *layout) {
  enum { LINE = 128 };
  const kiln_pieces whole = kiln_pieces_of(c, op, layout, true),
                    p = whole.is_shifted ? whole : kiln_pieces_of(c, op, layout, false);
  const ir_type type = op->operands[0]->type;
  const unsigned shift = layout_axis_shift(type, direction_of(c, op).axis), bytes = kiln_pointee_bytes(type);
  const uint32_t replicas = layout_replicas(layout) & ((1u << layout->lanes) - 1);
  const unsigned lanes = layout->lanes - (unsigned)__builtin_popcount(replicas),
                 all = bytes << (p.vector + lanes), segment = segment_of(layout, shift, p.vector, bytes);
  const unsigned rows = all > segment ? all / segment : 1, lines = all > LINE ? all / LINE : 1;
  const unsigned instructions = 1u << (layout->registers - p.vector);
  return (kiln_access_cost){instructions, (rows > lines ? rows : lines) * instructions, segment};
}
