// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operands of products through slots of shared memory, where threads can copy from global memory to it and go
// on (`fetch`). A loop whose operands are loads
//
//   for iv in lo..hi { x = load p(iv); dot(x, ...) }
//
// becomes, with a ring of three slots,
//
//   ring = alloc
//   fetch p(lo) to 0; fetch_commit; fetch p(lo + step) to 1; fetch_commit
//   for iv in lo..hi (slot = 0) {
//     fetch_wait 1; barrier
//     fetch p(iv + 2 step) to slot - 1; fetch_commit
//     x = slot_load ring, slot; dot(x, ...)
//     yield slot + 1
//   }
//   fetch_end ring
//
// Every iteration commits one group, also an empty one, so that as iteration i begins all but the last
// slots - 2 groups are those of iterations up to i. The barrier after the wait makes what all threads have
// fetched seen by all, and says that slot i - 1 has been read by all, which is the one filled next. What
// slot_load gives is read where it is used, up to the next barrier.
//
// Where shared memory has room for one slot only, and a thread has no registers for the tiles on their way to
// it, the slot is filled as an iteration begins: nothing runs ahead, but nothing spills either.
#include "compiler/passes/gpu/fetch_mask.h"

enum {
  MOST_SLOTS = KILN_PIPELINE_STAGES,
  DEFAULT_SLOTS = 3,
  SPARE_SHARED = 32 * 1024,
  LEAST_PIECE = 32,
  WHOLE_PIECE = 128
};

typedef struct fetching {
  ir_kernel *kernel;
  const kiln_fetch_machine *machine;
  kiln_facts *facts; ///< of the kernel as it is; NULL until a loop asks
  kiln_error error;
} fetching;

// -------------------------------------------------------------------------------------------- choice

static uint32_t bytes_of(const ir_op *load) {
  ir_type type = load->results[0].type;
  return (uint32_t)(((uint64_t)ir_type_bits(type) << ir_log2_elements(type)) / 8);
}

/// Slots that shared memory has room for, at most as asked for by loop or kernel.
static unsigned slots_for(const fetching *f, const kiln_pipeline *a) {
  unsigned asked = a->loop->attrs.loop.stages ? a->loop->attrs.loop.stages
                   : f->kernel->stages        ? f->kernel->stages
                                              : DEFAULT_SLOTS;
  uint32_t shared = f->machine->shared_bytes;
  uint64_t bytes = 0, room = shared > SPARE_SHARED ? shared - SPARE_SHARED : 0;
  for (unsigned i = 0; i < a->count; i++) bytes += bytes_of(a->loads[i].load);
  if (asked > MOST_SLOTS) asked = MOST_SLOTS;
  while (asked && asked * bytes > room) asked--;
  return asked;
}

static const ir_value *mask_of(const ir_op *load) {
  return load->operand_count > 1 ? load->operands[1] : NULL;
}

/// Logarithm of the elements that are in a row along an axis; a mask that ends rows does not cut them.
static unsigned row_of(const fetching *f, const ir_op *load, unsigned axis, bool *out_splits) {
  const ir_value *mask = mask_of(load);
  unsigned whole = kiln_fact_vector(f->facts, load->operands[0], NULL, axis, 4),
           masked = mask ? kiln_fact_vector(f->facts, load->operands[0], mask, axis, 4) : whole;
  *out_splits = masked < whole && kiln_can_split_mask(f->facts, mask, axis);
  return *out_splits ? whole : masked;
}

/// Where the mask of a load is taken apart along an axis; -1: nowhere.
static int split_axis(const fetching *f, const ir_op *load, unsigned *out_row) {
  int axis = -1;
  *out_row = 0;
  for (unsigned i = 0; i < load->results[0].type.rank; i++) {
    bool splits;
    unsigned row = row_of(f, load, i, &splits);
    if (row <= *out_row) continue;
    *out_row = row;
    axis = splits ? (int)i : -1;
  }
  return axis;
}

/// Pieces of at least a word are in a row, each thread has one, what is masked off is zero, and the tile goes
/// straight to a matrix instruction.
static bool can_fetch(const fetching *f, const kiln_pipeline *a, const kiln_pipeline_load *x) {
  const ir_op *load = x->load;
  ir_type type = load->results[0].type;
  uint64_t other = 0;
  unsigned row, bits = ir_type_bits(type);
  if (load->operand_count > 2 && (!ir_constant_bits(load->operands[2], &other) || other)) return false;
  for (const ir_value *v = x->dot->operands[x->operand]; v->def != load; v = v->def->operands[0])
    if (v->def->code == IR_CAST) return false;
  split_axis(f, load, &row);
  return bits >= 8 && bits << row >= LEAST_PIECE && kiln_pipeline_words(a, type) &&
         kiln_matrix_form_of(f->machine->matrix, f->machine->lanes, x->dot, NULL);
}

/// Whether one slot is worth while: a thread has no registers for the tiles, and each copy moves 16 bytes of
/// 16-bit elements. Others are cut into words, and then take longer than the way through registers.
static bool can_fill_at_once(const fetching *f, const kiln_pipeline *a) {
  for (unsigned i = 0; i < a->count; i++) {
    unsigned row, bits = ir_type_bits(a->loads[i].load->results[0].type);
    split_axis(f, a->loads[i].load, &row);
    if (bits != 16 || bits << row < WHOLE_PIECE) return false;
  }
  return kiln_pipeline_overflows(a);
}

// ---------------------------------------------------------------------------------------------- ring

typedef struct ring {
  kiln_pipeline *a;
  kiln_facts *facts;
  ir_value *memory[KILN_PIPELINE_LOADS];
  int axis[KILN_PIPELINE_LOADS]; ///< along which masks are taken apart; -1: they are not
  unsigned slots;
} ring;

static void alloc_memory(ring *r) {
  uint32_t at = 0;
  for (unsigned i = 0; i < r->a->count; i++) {
    const ir_op *load = r->a->loads[i].load;
    ir_attrs attrs = {.alloc = {.at = at}};
    ir_type type = ir_memory_type(load->results[0].type, r->slots);
    ir_op *made = ir_emit(&r->a->b, IR_ALLOC, &attrs, NULL, 0, &type, NULL, 0);
    r->memory[i] = made ? &made->results[0] : NULL;
    at += bytes_of(load) * r->slots;
  }
}

static void emit_wait(ring *r, unsigned groups) {
  ir_emit(&r->a->b, IR_FETCH_WAIT, &(ir_attrs){.wait = {.out = groups}}, NULL, 0, NULL, NULL, 0);
}

static void fetch_one(ring *r, unsigned i, kiln_iteration when, ir_value *slot) {
  const ir_op *load = r->a->loads[i].load;
  kiln_pipeline_place at = {NULL};
  kiln_mask_parts parts = {NULL};
  if (r->axis[i] < 0) {
    at = kiln_pipeline_at(r->a, load, when);
  } else {
    at.pointer = kiln_pipeline_value(r->a, load->operands[0], when);
    parts = kiln_split_mask(r->a, r->facts, load->operands[1], (unsigned)r->axis[i], when);
    at.mask = parts.mask;
  }
  ir_value *operands[5] = {at.pointer, at.mask, r->memory[i], slot, parts.left};
  r->a->b.place = load->place;
  ir_emit(&r->a->b, IR_FETCH, &load->attrs, operands, parts.left ? 5 : 4, NULL, NULL, 0);
}

/// What iteration `when` reads.
static void fetch(ring *r, kiln_iteration when, ir_value *slot) {
  for (unsigned i = 0; i < r->a->count; i++) fetch_one(r, i, when, slot);
  r->a->b.place = r->a->loop->place;
  ir_emit(&r->a->b, IR_FETCH_COMMIT, NULL, NULL, 0, NULL, NULL, 0);
}

/// Loads of the iteration read its slot.
static void read_slot(ring *r, ir_value *slot) {
  for (unsigned i = 0; i < r->a->count; i++) {
    ir_op *load = r->a->loads[i].load;
    r->a->b.block = load->block, r->a->b.before = load, r->a->b.place = load->place;
    ir_value *operands[2] = {r->memory[i], slot};
    ir_op *made = ir_emit(&r->a->b, IR_SLOT_LOAD, NULL, operands, 2, NULL, NULL, 0);
    if (!made) return;
    ir_forward(&load->results[0], &made->results[0]);
    ir_remove(load);
  }
}

static void end_ring(ring *r, ir_op *loop) {
  ir_builder *b = &r->a->b;
  b->block = loop->block, b->before = loop->next, b->place = loop->place;
  ir_emit(b, IR_FETCH_END, NULL, r->memory, r->a->count, NULL, NULL, 0);
}

static void emit_barrier(ring *r) { ir_emit(&r->a->b, IR_BARRIER, NULL, NULL, 0, NULL, NULL, 0); }

/// Of one slot: filled once all threads have read what it had.
static ir_op *fill_at_once(ring *r) {
  kiln_pipeline *a = r->a;
  kiln_pipeline_open_inside(a, 0);
  a->exists[KILN_THIS] = ir_const_int(&a->b, KILN_I1, 1);
  ir_value *slot = ir_const_int(&a->b, KILN_I32, 0);
  emit_barrier(r);
  fetch(r, KILN_THIS, slot);
  emit_wait(r, 0);
  emit_barrier(r);
  read_slot(r, slot);
  return a->b.error.status == KILN_OK ? kiln_pipeline_remake(a, NULL, NULL, 0) : NULL;
}

static ir_op *fill_ahead(ring *r) {
  kiln_pipeline *a = r->a;
  const unsigned slots = r->slots, ahead = slots - 1;
  for (unsigned n = 0; n < ahead; n++) fetch(r, KILN_FIRST + n, ir_const_int(&a->b, KILN_I32, n));
  ir_value *start = ir_const_int(&a->b, KILN_I32, 0);
  kiln_pipeline_open_inside(a, ahead);
  emit_wait(r, slots - 2);
  emit_barrier(r);
  ir_value *slot = ir_block_arg(a->kernel->arena, a->body, ir_scalar_type(KILN_I32)),
           *zero = ir_const_int(&a->b, KILN_I32, 0), *one = ir_const_int(&a->b, KILN_I32, 1),
           *last = ir_const_int(&a->b, KILN_I32, (int64_t)ahead);
  ir_value *write = ir_ternary(&a->b, IR_SELECT, 0, ir_compare(&a->b, IR_EQ, 0, slot, zero), last,
                               ir_binary(&a->b, IR_SUB, 0, slot, one));
  ir_value *next = write; // of two slots the other is both
  if (slots > 2)
    next = ir_ternary(&a->b, IR_SELECT, 0, ir_compare(&a->b, IR_EQ, 0, slot, last), zero,
                      ir_binary(&a->b, IR_ADD, 0, slot, one));
  fetch(r, KILN_THIS + ahead, write);
  read_slot(r, slot);
  return a->b.error.status == KILN_OK ? kiln_pipeline_remake(a, &start, &next, 1) : NULL;
}

static void make_ring(const fetching *f, kiln_pipeline *a, unsigned slots) {
  ring r = {.a = a, .facts = f->facts, .slots = slots};
  unsigned row;
  for (unsigned i = 0; i < a->count; i++) r.axis[i] = split_axis(f, a->loads[i].load, &row);
  kiln_pipeline_open_before(a, slots - 1);
  alloc_memory(&r);
  ir_op *loop = slots > 1 ? fill_ahead(&r) : fill_at_once(&r);
  if (loop) end_ring(&r, loop);
}

static void visit(ir_op *op, void *context) {
  fetching *f = context;
  if (op->code != IR_FOR || f->error.status != KILN_OK) return;
  kiln_pipeline *a = kiln_pipeline_open(f->kernel, op, f->machine);
  if (!kiln_pipeline_find(a, false, MOST_SLOTS - 1)) return;
  if (!f->facts) f->facts = kiln_facts_compute(f->kernel->arena, f->kernel);
  for (unsigned i = 0; i < a->count; i++)
    if (!can_fetch(f, a, &a->loads[i])) return;
  unsigned slots = slots_for(f, a);
  if (!slots || (slots == 1 && !can_fill_at_once(f, a))) return;
  make_ring(f, a, slots);
  f->error = a->b.error;
  f->facts = NULL;
}

kiln_status kiln_pass_fetch(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  const kiln_fetch_machine *machine = &context->machine;
  fetching f = {.kernel = kernel, .machine = machine};
  if (machine->has_fetch) ir_walk(kernel->body, visit, &f);
  if (f.error.status == KILN_OK) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_INTERNAL, "fetch: %s", f.error.text);
}
