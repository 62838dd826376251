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
  kiln_pipeline *a;
  kiln_ring ring;
  kiln_facts *facts;
  int axis[KILN_PIPELINE_LOADS]; ///< along which masks are taken apart; -1: they are not
} fetching;

// -------------------------------------------------------------------------------------------- choice

static uint32_t bytes_of(const ir_op *load) {
  ir_type type = load->results[0].type;
  return (uint32_t)(((uint64_t)ir_type_bits(type) << ir_log2_elements(type)) / 8);
}

/// Slots that shared memory has room for, at most as asked for by loop or kernel.
static unsigned slots_for(const kiln_pipeline *a) {
  unsigned asked = a->loop->attrs.loop.stages ? a->loop->attrs.loop.stages
                   : a->kernel->stages        ? a->kernel->stages
                                              : DEFAULT_SLOTS;
  uint32_t shared = a->machine->shared_bytes;
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
static bool can_fetch(const fetching *f, const kiln_pipeline_load *x) {
  const kiln_fetch_machine *machine = f->a->machine;
  const ir_op *load = x->load;
  ir_type type = load->results[0].type;
  uint64_t other = 0;
  unsigned row, bits = ir_type_bits(type);
  if (load->operand_count > 2 && (!ir_constant_bits(load->operands[2], &other) || other)) return false;
  for (const ir_value *v = x->dot->operands[x->operand]; v->def != load; v = v->def->operands[0])
    if (v->def->code == IR_CAST) return false;
  split_axis(f, load, &row);
  return bits >= 8 && bits << row >= LEAST_PIECE && kiln_pipeline_words(f->a, type) &&
         kiln_matrix_form_of(machine->matrix, machine->lanes, x->dot, NULL);
}

/// Whether one slot is worth while: a thread has no registers for the tiles, and each copy moves 16 bytes of
/// 16-bit elements. Others are cut into words, and then take longer than the way through registers.
static bool can_fill_at_once(const fetching *f) {
  const kiln_pipeline *a = f->a;
  for (unsigned i = 0; i < a->count; i++) {
    unsigned row, bits = ir_type_bits(a->loads[i].load->results[0].type);
    split_axis(f, a->loads[i].load, &row);
    if (bits != 16 || bits << row < WHOLE_PIECE) return false;
  }
  return kiln_pipeline_overflows(a);
}

// ---------------------------------------------------------------------------------------------- ring

static void emit_wait(fetching *f, unsigned groups) {
  ir_emit(&f->a->b, IR_FETCH_WAIT, &(ir_attrs){.wait = {.out = groups}}, NULL, 0, NULL, NULL, 0);
}

static void emit_barrier(fetching *f) { ir_emit(&f->a->b, IR_BARRIER, NULL, NULL, 0, NULL, NULL, 0); }

/// What iteration `when` reads.
static void fetch(fetching *f, kiln_iteration when, ir_value *slot) {
  ir_builder *b = &f->a->b;
  for (unsigned i = 0; i < f->a->count; i++) {
    const ir_op *load = f->a->loads[i].load;
    kiln_pipeline_place at = {NULL};
    kiln_mask_parts parts = {NULL};
    if (f->axis[i] < 0) {
      at = kiln_pipeline_at(f->a, load, when);
    } else {
      at.pointer = kiln_pipeline_value(f->a, load->operands[0], when);
      parts = kiln_split_mask(f->a, f->facts, load->operands[1], (unsigned)f->axis[i], when);
      at.mask = parts.mask;
    }
    ir_value *operands[5] = {at.pointer, at.mask, f->ring.memory[i], slot, parts.left};
    b->place = load->place;
    ir_emit(b, IR_FETCH, &load->attrs, operands, parts.left ? 5 : 4, NULL, NULL, 0);
  }
  b->place = f->a->loop->place;
  ir_emit(b, IR_FETCH_COMMIT, NULL, NULL, 0, NULL, NULL, 0);
}

/// Loads of the iteration read its slot, where they stand.
static void read_slot(fetching *f, ir_value *slot) {
  for (unsigned i = 0; i < f->a->count; i++) {
    ir_op *load = f->a->loads[i].load;
    f->a->b.block = load->block, f->a->b.before = load;
    kiln_ring_replace_load(&f->ring, i, load, slot, &f->a->b);
  }
}

/// Of one slot: filled once all threads have read what it had.
static ir_op *fill_at_once(fetching *f) {
  kiln_pipeline *a = f->a;
  kiln_pipeline_open_inside(a, 0);
  a->exists[KILN_THIS] = ir_const_int(&a->b, KILN_I1, 1);
  ir_value *slot = ir_const_int(&a->b, KILN_I32, 0);
  emit_barrier(f);
  fetch(f, KILN_THIS, slot);
  emit_wait(f, 0);
  emit_barrier(f);
  read_slot(f, slot);
  return a->b.error.status == KILN_OK ? kiln_pipeline_remake(a, NULL, NULL, 0) : NULL;
}

static ir_op *fill_ahead(fetching *f) {
  kiln_pipeline *a = f->a;
  const unsigned slots = f->ring.slots, ahead = slots - 1;
  for (unsigned n = 0; n < ahead; n++) fetch(f, KILN_FIRST + n, ir_const_int(&a->b, KILN_I32, n));
  ir_value *start = ir_const_int(&a->b, KILN_I32, 0);
  kiln_pipeline_open_inside(a, ahead);
  emit_wait(f, slots - 2);
  emit_barrier(f);
  ir_value *slot = ir_block_arg(a->kernel->arena, a->body, ir_scalar_type(KILN_I32)),
           *write = kiln_ring_before(&f->ring, slot, &a->b),
           *next = slots > 2 ? kiln_ring_after(&f->ring, slot, &a->b, NULL)
                             : write; // of two slots the other is both
  fetch(f, KILN_THIS + ahead, write);
  read_slot(f, slot);
  return a->b.error.status == KILN_OK ? kiln_pipeline_remake(a, &start, &next, 1) : NULL;
}

static void fetch_loop(kiln_pipeline *a) {
  fetching f = {.a = a};
  if (!kiln_pipeline_find(a, false, MOST_SLOTS - 1)) return;
  f.facts = kiln_facts_compute(a->kernel->arena, a->kernel);
  for (unsigned i = 0; i < a->count; i++)
    if (!can_fetch(&f, &a->loads[i])) return;
  f.ring.slots = slots_for(a);
  if (!f.ring.slots || (f.ring.slots == 1 && !can_fill_at_once(&f))) return;
  kiln_pipeline_open_before(a, f.ring.slots - 1);
  uint32_t at = 0;
  for (unsigned i = 0; i < a->count; i++) {
    const ir_op *load = a->loads[i].load;
    unsigned row;
    f.axis[i] = split_axis(&f, load, &row);
    kiln_ring_alloc(&f.ring, kiln_ring_add(&f.ring, load->results[0].type), (ir_alloc){.at = at}, &a->b);
    at += bytes_of(load) * f.ring.slots;
  }
  ir_op *loop = f.ring.slots > 1 ? fill_ahead(&f) : fill_at_once(&f);
  if (loop) kiln_ring_end(&f.ring, loop, &a->b);
}

kiln_status kiln_pass_fetch(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  return context->machine.has_fetch ? kiln_pipeline_loops(kernel, context, fetch_loop, "fetch", err)
                                    : KILN_OK;
}
