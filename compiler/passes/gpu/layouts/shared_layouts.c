// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Slots of shared memory that threads fill: how a tile lies in one follows from who writes it, the layout of
// the fetch or the store, and who reads it, the first product that takes it from a slot_load.
#include "compiler/passes/gpu/layouts/shared_layouts.h"

kiln_slot_layouts *kiln_slot_layouts_of(const kiln_layouts *c, const ir_value *memory) {
  kiln_layout_notes *notes = c->notes[memory->id];
  if (!notes->slots) notes->slots = KILN_NEW(c->arena, kiln_slot_layouts);
  return notes->slots;
}

void kiln_slots_are_fetched(kiln_layouts *c, const ir_op *op, const kiln_layout *layout) {
  kiln_slot_layouts *s = kiln_slot_layouts_of(c, op->operands[2]);
  s->writer = *layout;
  if (!s->has_reader) s->reader = *layout;
}

void kiln_slots_are_stored(kiln_layouts *c, const ir_op *op) {
  kiln_slot_layouts *s = kiln_slot_layouts_of(c, op->operands[0]);
  if (!kiln_layout_offered(op->operands[2], &s->writer))
    s->writer = kiln_layout_default(c, op->operands[2]->type);
  if (!s->has_reader) s->reader = s->writer;
}

bool kiln_is_reshaped(const ir_op *op) {
  return op && (op->code == IR_TRANS || op->code == IR_RESHAPE || op->code == IR_EXPAND) &&
         op->operands[0]->type.rank;
}

void kiln_slots_are_read(kiln_layouts *c, const ir_op *dot, const kiln_dot_layouts *l) {
  for (unsigned i = 0; i < 2; i++) {
    const ir_value *v = dot->operands[i];
    while (kiln_is_reshaped(v->def)) v = v->def->operands[0];
    if (!v->def || v->def->code != IR_SLOT_LOAD) continue;
    kiln_slot_layouts *s = kiln_slot_layouts_of(c, v->def->operands[0]);
    if (s->has_reader) continue;
    s->has_reader = true;
    s->reader = i ? l->right : l->left;
    for (v = dot->operands[i]; v->def->code != IR_SLOT_LOAD; v = v->def->operands[0]) {
      kiln_layout there = layout_backward(v->def, &s->reader);
      s->reader = there;
    }
  }
}

// ------------------------------------------------------------------------------------------- places

/// One bit, as opposed to none or several.
static bool is_one(uint32_t basis) { return basis && !(basis & (basis - 1)); }

/// A writer may have less of a piece than the reader: what both hold in registers comes first, then what the
/// reader alone does, so that at least it moves whole pieces. How many vectors of elements those are.
static unsigned reader_pieces(const kiln_layout *from, const kiln_layout *to, unsigned log2_bytes,
                              uint32_t row[4]) {
  unsigned count = 0, most = 4 - log2_bytes;
  for (unsigned pass = 0; pass < 2; pass++)
    for (unsigned i = 0; i < to->registers && count < most; i++) {
      bool is_shared = false, is_simple = !(to->basis[i] & (to->basis[i] - 1));
      for (unsigned k = 0; k < from->registers; k++) is_shared |= from->basis[k] == to->basis[i];
      if (is_simple && is_shared == !pass) row[count++] = to->basis[i];
    }
  return count;
}

bool kiln_operand_memory(const kiln_fetch_machine *machine, const kiln_layout *from, const kiln_layout *to,
                         unsigned log2_bytes, kiln_matrix_load *out_plan, layout_memory *out_memory) {
  uint32_t row[4];
  bool is_matrix = kiln_plan_matrix_load(machine, from, to, log2_bytes, KILN_PARTS_OF_ROWS, out_plan);
  unsigned count = !is_matrix && machine->has_buffers ? reader_pieces(from, to, log2_bytes, row) : 0;
  // Words that no matrix load gives to lanes are operands of multiply-adds: the reader's pieces stay together.
  if (!is_matrix && !machine->has_buffers && log2_bytes == 2)
    for (; count < 2 && count < to->registers && is_one(to->basis[count]); count++)
      row[count] = to->basis[count];
  *out_memory = is_matrix ? kiln_matrix_memory(out_plan, from, log2_bytes)
                          : layout_swizzle(from, to, log2_bytes, row, count);
  return is_matrix;
}

/// Rows along the axis that `alloc` names, with free bytes after each. Where reads transpose
/// (kiln_fetch_machine.turns), rows along the other axis, with kiln_turned_pad free. No row has any
/// (layout_memory.pad) where the places of a thread would not add up.
static layout_memory padded_memory(const kiln_fetch_machine *machine, const ir_op *alloc,
                                   const kiln_slot_layouts *s) {
  const unsigned axis = alloc->attrs.alloc.pad_axis, log2_bytes = s->log2_bytes,
                 pad = (unsigned)alloc->attrs.alloc.pad >> log2_bytes;
  const ir_type tile = alloc->results[0].type;
  kiln_matrix_load plan;
  layout_memory rows;
  uint32_t row[4];
  if (kiln_plan_matrix_load(machine, &s->writer, &s->reader, log2_bytes, KILN_PARTS_OF_ROWS, &plan)) {
    rows = layout_padded_rows(tile, 1 - axis, log2_bytes,
                              kiln_turned_pad(pad, 1u << log2_bytes) >> log2_bytes, plan.row, plan.wanted);
  } else {
    unsigned count = reader_pieces(&s->writer, &s->reader, log2_bytes, row);
    rows = layout_padded_rows(tile, axis, log2_bytes, pad, row, count);
  }
  if (!layout_adds_up(&rows, &s->writer) || !layout_adds_up(&rows, &s->reader)) rows.pad = 0;
  return rows;
}

/// As products from shared memory want it, and the copy engine would write it: columns of at most `row_bytes` one after
/// another, each with all rows; the pieces of 16 bytes of eight rows are exchanged (PTX ISA, "Swizzling Modes").
static layout_memory unit_memory(const kiln_matrix_machine *m, ir_type tile, unsigned log2_bytes) {
  const unsigned row = (unsigned)__builtin_ctz(kiln_memory_row(tile, m->row_bytes)) - log2_bytes,
                 columns = tile.log2[1], rows = tile.log2[0], pieces = row + log2_bytes - 4,
                 first = 3 - pieces; // of the row's bits that exchange pieces
  layout_memory out = {.bits = (uint8_t)(columns + rows), .vector = (uint8_t)(4 - log2_bytes)};
  for (unsigned i = 0; i < columns; i++) out.offset[i] = 1u << (i < row ? i : i + rows);
  for (unsigned i = 0; i < rows; i++) {
    out.offset[columns + i] = 1u << (row + i);
    if (i >= first && i < 3) out.offset[columns + i] |= 1u << (4 - log2_bytes + i - first);
  }
  return out;
}

/// Register bits that a fetch keeps together in global memory and in its slot, in order; their number.
static unsigned fetch_pieces(const kiln_layouts *c, const ir_op *fetch, const kiln_slot_layouts *s,
                             uint8_t bits[8]) {
  uint8_t inside[8];
  kiln_pieces p = kiln_pieces_of(c, fetch, &s->writer, false);
  unsigned there = layout_memory_vector(&s->memory, &s->writer, 4 - s->log2_bytes, inside), same = 0;
  for (; same < p.vector && same < there && p.bits[same] == inside[same]; same++) bits[same] = p.bits[same];
  return same;
}

/// A fetch moves words. Where what suits the reader would cut them (bytes whose neighbours in global memory
/// are not neighbours in the dot), what the fetch has in a row stays in a row, and the reader takes single
/// elements.
static void keep_words(const kiln_layouts *c, const ir_op *fetch, kiln_slot_layouts *s) {
  const unsigned log2_bytes = s->log2_bytes;
  uint8_t bits[8];
  uint32_t row[8];
  if (log2_bytes + fetch_pieces(c, fetch, s, bits) >= 2) return;
  kiln_pieces p = kiln_pieces_of(c, fetch, &s->writer, false);
  unsigned count = p.vector < 4 - log2_bytes ? p.vector : 4 - log2_bytes;
  for (unsigned i = 0; i < count; i++) row[i] = s->writer.basis[p.bits[i]];
  if (count) s->memory = layout_swizzle(&s->writer, &s->reader, log2_bytes, row, count);
}

void kiln_slots_measure(const ir_op *alloc, kiln_slot_layouts *s) {
  const uint32_t slots = alloc->results[0].type.slots, stride = alloc->attrs.alloc.stride;
  s->is_by_bytes = stride != 0;
  s->log2_bytes = (uint8_t)__builtin_ctz(kiln_scalars[alloc->results[0].type.scalar].bytes);
  s->bytes = layout_padded(&s->memory, 1u << s->memory.bits) << s->log2_bytes;
  s->start = alloc->attrs.alloc.at;
  s->end = s->start + (stride ? stride * (slots - 1) + s->bytes : s->bytes * slots);
}

void kiln_slots_place(ir_op *op, void *context) {
  kiln_layouts *c = context;
  if (op->code != IR_FETCH && op->code != IR_SLOT_STORE) return;
  const ir_op *alloc = op->operands[op->code == IR_FETCH ? 2 : 0]->def;
  kiln_slot_layouts *s = kiln_slot_layouts_of(c, &alloc->results[0]);
  kiln_matrix_load plan;
  if (s->memory.bits) return;
  if (s->is_for_unit) {
    const kiln_matrix_machine *unit = c->machine.unit;
    s->memory = unit_memory(unit, alloc->results[0].type,
                            (unsigned)__builtin_ctz(kiln_scalars[alloc->results[0].type.scalar].bytes));
    kiln_slots_measure(alloc, s);
    return;
  }
  kiln_slots_measure(alloc, s);
  if (op->code == IR_SLOT_STORE) s->memory = padded_memory(&c->machine, alloc, s);
  if (!s->memory.pad)
    kiln_operand_memory(&c->machine, &s->writer, &s->reader, s->log2_bytes, &plan, &s->memory);
  if (op->code == IR_FETCH) keep_words(c, op, s);
  kiln_slots_measure(alloc, s);
}

ir_value *kiln_slots_alloc(const kiln_layouts *c, ir_builder *b, const ir_value *tile, uint32_t at,
                           kiln_slot_layouts *slots) {
  const ir_type type = ir_memory_type(tile->type, 1);
  kiln_matrix_load plan;
  ir_op *alloc = ir_emit(b, IR_ALLOC, &(ir_attrs){.alloc = {.at = at}}, NULL, 0, &type, NULL, 0);
  if (!alloc) return NULL;
  kiln_operand_memory(&c->machine, &slots->writer, &slots->reader,
                      (unsigned)__builtin_ctz(kiln_scalars[type.scalar].bytes), &plan, &slots->memory);
  kiln_slots_measure(alloc, slots);
  return &alloc->results[0];
}

void kiln_slots_store(const kiln_layouts *c, ir_builder *b, ir_value *memory, ir_value *slot,
                      ir_value *tile) {
  ir_op *store = ir_emit(b, IR_SLOT_STORE, NULL, (ir_value *[3]){memory, slot, tile}, 3, NULL, NULL, 0);
  if (!store) return;
  store->operand_layouts = KILN_NEW_ARRAY(c->arena, const kiln_layout *, store->operand_count);
  store->operand_layouts[2] = tile->layout;
}

// ---------------------------------------------------------------------------------- before code is made

const kiln_fetch_pieces *kiln_plan_fetch(kiln_layouts *c, const ir_op *fetch) {
  kiln_slot_layouts *s = kiln_slot_layouts_of(c, fetch->operands[2]);
  kiln_fetch_pieces *p = KILN_NEW(c->arena, kiln_fetch_pieces);
  uint8_t bits[8];
  *p = (kiln_fetch_pieces){.next = s->fetches, .fetch = fetch, .vector = fetch_pieces(c, fetch, s, bits)};
  for (unsigned i = 0; i < p->vector; i++) p->inside |= 1u << bits[i];
  return s->fetches = p;
}

/// A matrix load needs its rows in one piece; the slots were laid out for the first reader.
kiln_slot_read kiln_plan_slot_read(const kiln_layouts *c, const kiln_slot_layouts *s, const kiln_layout *to) {
  kiln_slot_read read = {.to = *to};
  read.is_matrix =
      kiln_plan_matrix_load(&c->machine, &s->writer, to, s->log2_bytes, KILN_PARTS_OF_ROWS, &read.plan);
  for (unsigned i = 0; read.is_matrix && i < read.plan.row_bits; i++)
    read.is_matrix = layout_offset(&s->memory, read.plan.row[i]) == 1u << i;
  return read;
}

/// In a slot, or in another shape than it has there, or in registers (the pass `exchange`).
void kiln_plan_product(kiln_layouts *c, const ir_op *dot) {
  kiln_dot_layouts *l = c->notes[dot->results[0].id]->product;
  for (uint32_t i = 0; i < 2; i++) {
    ir_value *value = dot->operands[i];
    kiln_layout wanted = *dot->operand_layouts[i];
    while (!value->layout) {
      const kiln_layout before = kiln_layout_before(value->def, &wanted);
      wanted = before;
      value = value->def->operands[0];
    }
    l->sources[i] = (kiln_dot_source){.load = NULL};
    if (!value->def || value->def->code != IR_SLOT_LOAD) continue;
    l->sources[i] = (kiln_dot_source){
        value, kiln_plan_slot_read(c, kiln_slot_layouts_of(c, value->def->operands[0]), &wanted)};
  }
}

// ------------------------------------------------------------------------------------------ in use

typedef struct kiln_open_slots {
  struct kiln_open_slots *next;
  const kiln_slot_layouts *slots;
} kiln_open_slots;

static bool is_open(const kiln_shared_use *u, const kiln_slot_layouts *s) {
  const kiln_open_slots *o = u->open;
  while (o && o->slots != s) o = o->next;
  return o != NULL;
}

void kiln_shared_use_step(kiln_shared_use *u, const kiln_layouts *c, const ir_op *op) {
  if (op->code == IR_FETCH || op->code == IR_SLOT_STORE) {
    const kiln_slot_layouts *s = kiln_slot_layouts_of(c, op->operands[op->code == IR_FETCH ? 2 : 0]);
    if (is_open(u, s)) return;
    kiln_open_slots *made = KILN_NEW(c->arena, kiln_open_slots);
    *made = (kiln_open_slots){u->open, s};
    u->open = made;
    if (s->end > u->end) u->end = s->end;
  }
  for (uint32_t i = 0; op->code == IR_FETCH_END && i < op->operand_count; i++) {
    const kiln_slot_layouts *s = kiln_slot_layouts_of(c, op->operands[i]);
    u->end = u->floor;
    for (kiln_open_slots **o = &u->open; *o;) {
      if ((*o)->slots == s) {
        *o = (*o)->next;
        continue;
      }
      if ((*o)->slots->end > u->end) u->end = (*o)->slots->end;
      o = &(*o)->next;
    }
  }
}

uint32_t kiln_roles_end(const kiln_layouts *c) {
  const ir_block *body = c->kernel->body;
  uint32_t most = 0;
  for (const ir_op *op = ir_next(body, NULL); op; op = ir_next(body, op)) {
    // Slots that threads store to are in use at times.
    if (op->code != IR_ALLOC || c->notes[op->results[0].id]->slots) continue;
    const ir_alloc *alloc = &op->attrs.alloc;
    const ir_type type = op->results[0].type;
    const uint32_t bytes = type.rank ? kiln_slot_bytes(op) : KILN_BARRIER_BYTES,
                   end = alloc->at + type.slots * bytes;
    if (end > most) most = end;
  }
  return (most + KILN_MOST_VECTOR_BYTES - 1) / KILN_MOST_VECTOR_BYTES * KILN_MOST_VECTOR_BYTES;
}
