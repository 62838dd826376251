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
// What an iteration writes, copies of later ones may have to read: where a branch of the body stores what a load may
// see, the slots that have been filled ahead are filled again.
//
//   for iv in lo..hi { ..; if c { store }; if c { fetch_wait 0; barrier; fetch p(iv + step) to slot + 1; ... } }
//
// Addresses may rest on scalars that the loop loads, or that branches choose. What it carries of these is carried for the
// iterations ahead, too, and handed on: no fetch waits for what is loaded, and no branch is taken again.
//
//   for iv in lo..hi (o = first) { x = load p + o; ..; yield o + load q(iv) }                     is given
//   for iv in lo..hi (o = first, o1 = first + load q(lo), o2 = o1 + load q(lo + step)) {
//     ..; fetch p + o2 to slot - 1; ..; yield o1, o2, o2 + load q(iv + 2 step) if there is one }
//
// Every iteration commits one group, also an empty one, so that as iteration i begins all but the last
// slots - 2 groups are those of iterations up to i. The barrier after the wait makes what all threads have
// fetched seen by all, and says that slot i - 1 has been read by all, which is the one filled next. What
// slot_load gives is read where it is used, up to the next barrier. (Where products go on over the end of an iteration,
// wait and barrier stand after the first one. Where enough is under way, they are for the slot of iteration i + 1 too, and
// there is no other: meets_once.)
//
// Where shared memory has room for one slot only, and a thread has no registers for the tiles on their way to
// it, the slot is filled as an iteration begins: nothing runs ahead, but nothing spills either.
#include "compiler/passes/gpu/fetch_mask.h"
#include "compiler/passes/gpu/overlap.h"
#include "compiler/passes/gpu/ring_products.h"
#include "compiler/passes/gpu/written.h"

enum {
  MOST_SLOTS = KILN_PIPELINE_STAGES,
  DEFAULT_SLOTS = 3,
  SPARE_SHARED = 32 * 1024,
  LEAST_UNDER_WAY = 48 * 1024, ///< bytes; measured on an H200: with 32 KiB one barrier is slower than two
  LEAST_PIECE = 32,
  WHOLE_PIECE = 128,
  MOST_BRANCHES = 4, ///< of a body, that store
  MOST_STORES = 8,   ///< in them
  MOST_CARRIED = 1 + KILN_PIPELINE_LEADS * (MOST_SLOTS - 1) + KILN_RING_PRODUCTS
};

typedef struct fetching {
  kiln_pipeline *a;
  kiln_ring ring;
  kiln_facts *facts;
  int axis[KILN_PIPELINE_LOADS];     ///< along which masks are taken apart; -1: they are not
  uint8_t last[KILN_PIPELINE_LOADS]; ///< the axis along which elements are neighbours in memory
  ir_value *wrote;                   ///< i1: the iteration has written what a load may see; NULL: none does
  ir_op *test, *again; ///< branches: whether slots are filled again, and what fills them; NULL: none are
  ir_value *first[MOST_CARRIED],
      *next[MOST_CARRIED]; ///< that the loop carries more, in the order of its arguments
  uint32_t carried;
  kiln_ring_products products; ///< that warpgroups multiply from the slots; none: all read them to registers
  bool once;                   ///< threads meet once in an iteration: meets_once
} fetching;

// -------------------------------------------------------------------------------------------- choice

static uint32_t bytes_of(const ir_op *load) {
  ir_type type = load->results[0].type;
  return (uint32_t)(((uint64_t)ir_type_bits(type) << ir_log2_elements(type)) / 8);
}

/// Slots that loop or kernel ask for.
static unsigned slots_asked(const kiln_pipeline *a) {
  const unsigned asked = a->loop->attrs.loop.stages ? a->loop->attrs.loop.stages
                         : a->kernel->stages        ? a->kernel->stages
                                                    : DEFAULT_SLOTS;
  return asked < MOST_SLOTS ? asked : MOST_SLOTS;
}

/// Slots that shared memory has room for beside `others` bytes, at most as asked for.
static unsigned slots_for(const kiln_pipeline *a, uint32_t others) {
  unsigned asked = slots_asked(a);
  uint32_t shared = a->machine->shared_bytes;
  uint64_t bytes = 0, room = shared > SPARE_SHARED + others ? shared - SPARE_SHARED - others : 0;
  for (unsigned i = 0; i < a->count; i++) bytes += bytes_of(a->loads[i].load);
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

/// Where the mask of a load is taken apart along an axis; -1: nowhere. `out_row`: logarithm of the elements in a row,
/// `out_last`: along which axis.
static int split_axis(const fetching *f, const ir_op *load, unsigned *out_row, uint8_t *out_last) {
  int axis = -1;
  *out_row = 0, *out_last = 0;
  for (unsigned i = 0; i < load->results[0].type.rank; i++) {
    bool splits;
    unsigned row = row_of(f, load, i, &splits);
    if (row <= *out_row) continue;
    *out_row = row, *out_last = (uint8_t)i;
    axis = splits ? (int)i : -1;
  }
  return axis;
}

/// Pieces of at least a word are in a row, and what is masked off is zero.
static bool has_pieces(const fetching *f, const ir_op *load) {
  uint64_t other = 0;
  uint8_t last;
  unsigned row, bits = ir_type_bits(load->results[0].type);
  if (load->operand_count > 2 && (!ir_constant_bits(load->operands[2], &other) || other)) return false;
  split_axis(f, load, &row, &last);
  return bits >= 8 && bits << row >= LEAST_PIECE;
}

/// The value rests on a quotient or remainder that the body computes. What is in a row there depends on the sign
/// of the numerator.
static bool divides(const ir_block *body, const ir_value *value, unsigned *size) {
  const ir_op *op = value->def;
  if (!op || op->block != body) return false;
  if (++*size > KILN_PIPELINE_SLICE || op->code == IR_DIV || op->code == IR_REM) return true;
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (divides(body, op->operands[i], size)) return true;
  return false;
}

/// Pieces are in a row also where slots are filled ahead. There the counter may be beyond the last iteration's, where it
/// wraps around as far as anybody knows, so what is divided may be negative. The addresses are made, looked at, and removed.
static bool has_pieces_ahead(fetching *f, const ir_op *load) {
  kiln_pipeline *a = f->a;
  ir_op *first = a->body->first;
  unsigned size = 0, bits = ir_type_bits(load->results[0].type), row;
  uint8_t last;
  const unsigned ahead = slots_asked(a) - 1;
  if (!ahead || !divides(a->body, load->operands[0], &size)) return true;
  const bool is_split = split_axis(f, load, &row, &last) >= 0;
  kiln_pipeline_open_inside(a, ahead);
  const kiln_pipeline_place at = kiln_pipeline_at(a, load, KILN_THIS + ahead);
  f->facts = kiln_facts_compute(a->kernel->arena, a->kernel);
  row = kiln_fact_vector(f->facts, at.pointer, is_split ? NULL : at.mask, last, 4);
  while (a->body->first != first) ir_remove(first->prev);
  a->copy_count = 0;
  f->facts = kiln_facts_compute(a->kernel->arena, a->kernel);
  return bits << row >= LEAST_PIECE;
}

/// Each thread has a piece, and the tile goes straight to a matrix instruction.
static bool can_fetch(fetching *f, const kiln_pipeline_load *x) {
  const kiln_fetch_machine *machine = f->a->machine;
  for (const ir_value *v = x->dot->operands[x->operand]; v->def != x->load; v = v->def->operands[0])
    if (v->def->code == IR_CAST) return false;
  return has_pieces(f, x->load) && kiln_pipeline_words(f->a, x->load->results[0].type) &&
         kiln_matrix_form_of(machine->matrix, machine->lanes, x->dot, NULL) && has_pieces_ahead(f, x->load);
}

/// Whether one slot is worth while: a thread has no registers for the tiles, and each copy moves 16 bytes of
/// 16-bit elements. Others are cut into words, and then take longer than the way through registers.
static bool can_fill_at_once(const fetching *f) {
  const kiln_pipeline *a = f->a;
  for (unsigned i = 0; i < a->count; i++) {
    unsigned row, bits = ir_type_bits(a->loads[i].load->results[0].type);
    uint8_t last;
    split_axis(f, a->loads[i].load, &row, &last);
    if (bits != 16 || bits << row < WHOLE_PIECE) return false;
  }
  return kiln_pipeline_overflows(a);
}

// -------------------------------------------------------------------------------------------- stores

typedef struct writing {
  const kiln_pipeline *a;
  const ir_op *load;
  ir_op *branches[MOST_BRANCHES];
  const ir_op *stores[MOST_STORES];
  unsigned count, store_count;
  bool has_more_stores;
  bool is_refused;
} writing;

static bool comes_after(const ir_op *op, const ir_op *first) {
  for (const ir_op *at = first->next; at; at = at->next)
    if (at == op) return true;
  return false;
}

static void add_store(writing *w, const ir_op *store) {
  for (unsigned i = 0; i < w->store_count; i++)
    if (w->stores[i] == store) return;
  if (w->store_count == MOST_STORES) w->has_more_stores = true;
  else w->stores[w->store_count++] = store;
}

/// Slots are filled again where a branch writes, after what the iteration itself reads.
static void note_write(const kiln_earlier_write *write, void *context) {
  writing *w = context;
  if (!ir_encloses(w->a->body, write->op->block)) return;
  ir_op *branch = write->outermost;
  const bool is_branch = branch->code == IR_IF && write->op->code == IR_STORE &&
                         comes_after(branch, w->load) && ir_encloses(branch->regions[0], write->op->block);
  add_store(w, write->op);
  for (unsigned i = 0; i < w->count; i++)
    if (w->branches[i] == branch) return;
  if (!is_branch || w->count == MOST_BRANCHES) w->is_refused = true;
  else w->branches[w->count++] = branch;
}

/// What has been read ahead is not read again.
static void note_write_of_read(const kiln_earlier_write *write, void *context) {
  writing *w = context;
  w->is_refused |= ir_encloses(w->a->body, write->op->block);
}

/// The loop writes nothing of what addresses are looked up in.
static bool keeps_reads(const kiln_pipeline *a) {
  writing w = {.a = a};
  for (unsigned i = 0; i < a->read_count; i++)
    kiln_visit_earlier_writes(a->kernel, a->kernel->body, a->reads[i], note_write_of_read, &w);
  return !w.is_refused;
}

/// Whether slots can be filled ahead although the loop stores.
static bool find_writes(const fetching *f, writing *w) {
  const kiln_pipeline *a = f->a;
  *w = (writing){.a = a};
  for (unsigned i = 0; i < a->count; i++) {
    w->load = a->loads[i].load;
    kiln_visit_earlier_writes(a->kernel, a->kernel->body, w->load, note_write, w);
  }
  return !w->is_refused && keeps_reads(a);
}

/// Emits, at the end of the body, whether the iteration has written.
static void emit_condition(fetching *f, const writing *w) {
  ir_builder b = {.arena = f->a->kernel->arena,
                  .block = f->a->body,
                  .before = ir_loop_next(f->a->loop),
                  .place = f->a->loop->place,
                  .machine = true};
  for (unsigned i = 0; i < w->count; i++) {
    ir_value *condition = ir_if_condition(w->branches[i]);
    f->wrote = f->wrote ? ir_binary(&b, IR_OR, 0, f->wrote, condition) : condition;
  }
}

// -------------------------------------------------------------------------------------------- beside

/// Whether it may differ from iteration to iteration.
static bool changes(const kiln_pipeline *a, const ir_value *value, unsigned *budget) {
  if (!value->def) return value->block == a->body;
  if (value->def->block != a->body) return false;
  if (value->def->region_count || !*budget) return true;
  --*budget;
  for (uint32_t i = 0; i < value->def->operand_count; i++)
    if (changes(a, value->def->operands[i], budget)) return true;
  return false;
}

/// A vector that each iteration wants besides, such as a number for each row: of a memory that the loop does not write.
static bool is_beside(fetching *f, ir_op *op) {
  kiln_pipeline *a = f->a;
  writing w = {.a = a};
  if (a->count == KILN_PIPELINE_LOADS || op->code != IR_LOAD || op->results[0].type.rank != 1) return false;
  if (!changes(a, op->operands[0], &(unsigned){KILN_PIPELINE_SLICE})) return false;
  kiln_visit_earlier_writes(a->kernel, a->kernel->body, op, note_write_of_read, &w);
  return !w.is_refused && has_pieces(f, op) && has_pieces_ahead(f, op) &&
         kiln_pipeline_add(a, op, MOST_SLOTS - 1);
}

/// Adds those that take no slot from the products of warpgroups: nothing waits for memory between these then. (What others
/// compute their operands from is loaded to registers ahead: prefetch.c.)
static void add_beside(fetching *f, uint32_t others) {
  kiln_pipeline *a = f->a;
  for (ir_op *op = a->body->first; op; op = op->next)
    if (is_beside(f, op) && (slots_for(a, others) < f->ring.slots || !keeps_reads(a))) a->count--;
}

// ---------------------------------------------------------------------------------------------- ring

static void emit_wait(fetching *f, unsigned groups) {
  ir_emit(&f->a->b, IR_FETCH_WAIT, &(ir_attrs){.wait = {.out = groups}}, NULL, 0, NULL, NULL, 0);
}

/// All have come here; what they have fetched is seen by all, and by the unit where that reads it.
static void emit_barrier(fetching *f) {
  const ir_barrier how = {.is_for_products = f->products.count != 0};
  ir_emit(&f->a->b, IR_BARRIER, &(ir_attrs){.barrier = how}, NULL, 0, NULL, NULL, 0);
}

/// All but the last `groups` that threads have committed are in their slots, and seen by all.
static void emit_full(fetching *f, unsigned groups) {
  emit_wait(f, groups);
  emit_barrier(f);
}

/// Whether threads meet once in an iteration of late products, for both: what is filled next has been read, and the next
/// iteration's slot is full. With two slots these are the same; otherwise there is a slot less under way as threads wait, and
/// what is must be as much as memory delivers meanwhile. A loop without branches begins its products sooner with two barriers.
static bool meets_once(const fetching *f) {
  uint64_t bytes = 0;
  bool branches = false;
  for (const ir_op *op = f->a->body->first; op; op = op->next) branches |= op->code == IR_IF;
  for (unsigned i = 0; i < f->a->count; i++) bytes += bytes_of(f->a->loads[i].load);
  return f->products.late && branches && f->ring.slots > 2 && (f->ring.slots - 2) * bytes >= LEAST_UNDER_WAY;
}

/// The unit wants the axis along which elements are neighbours last.
static bool is_turned(const fetching *f, unsigned load) {
  return f->products.count && f->a->loads[load].dot && !f->last[load];
}

/// How load `i` lies in its slot.
static ir_type tile_of(const fetching *f, unsigned i) {
  ir_type tile = f->a->loads[i].load->results[0].type, turned = tile;
  if (!is_turned(f, i)) return tile;
  turned.log2[0] = tile.log2[1], turned.log2[1] = tile.log2[0];
  return turned;
}

static ir_value *turn(fetching *f, ir_value *tile) {
  const ir_attrs how = {.perm = {1, 0}};
  ir_op *made = tile ? ir_emit(&f->a->b, IR_TRANS, &how, &tile, 1, NULL, NULL, 0) : NULL;
  return made ? &made->results[0] : NULL;
}

/// A copy to a slot: the operands of `fetch`.
typedef struct copying {
  ir_value *operands[5];
  uint32_t count;
} copying;

static copying copy_of(fetching *f, unsigned i, kiln_iteration when, ir_value *slot) {
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
  if (is_turned(f, i)) {
    at.pointer = turn(f, at.pointer), at.mask = turn(f, at.mask), parts.left = turn(f, parts.left);
  }
  return (copying){{at.pointer, at.mask, f->ring.memory[i], slot, parts.left}, parts.left ? 5 : 4};
}

static void emit_copy(fetching *f, unsigned i, copying *c) {
  ir_builder *b = &f->a->b;
  const ir_op *load = f->a->loads[i].load;
  b->place = load->place;
  ir_emit(b, IR_FETCH, &load->attrs, c->operands, c->count, NULL, NULL, 0);
}

static void commit(fetching *f) {
  f->a->b.place = f->a->loop->place;
  ir_emit(&f->a->b, IR_FETCH_COMMIT, NULL, NULL, 0, NULL, NULL, 0);
}

/// What iteration `when` reads.
static void fetch(fetching *f, kiln_iteration when, ir_value *slot) {
  for (unsigned i = 0; i < f->a->count; i++) {
    copying c = copy_of(f, i, when, slot);
    emit_copy(f, i, &c);
  }
  commit(f);
}

/// Loads of the iteration read its slot, where they stand. Products of warpgroups read it directly.
static void read_slot(fetching *f, ir_value *slot) {
  ir_builder *b = &f->a->b;
  if (f->products.count) kiln_ring_products_emit(f->a, &f->ring, slot, &f->products);
  for (unsigned i = 0; i < f->a->count; i++) {
    ir_op *load = f->a->loads[i].load;
    b->block = load->block, b->before = load;
    kiln_ring_replace_load(&f->ring, i, load, slot, is_turned(f, i), b);
  }
}

/// What its products want is the last that the loop carries more.
static ir_op *remake(fetching *f) {
  for (unsigned i = 0; i < f->products.keep_count; i++) {
    f->first[f->carried] = f->products.first_keep;
    f->next[f->carried++] = f->products.next_keeps[i];
  }
  return kiln_pipeline_remake(f->a, f->first, f->next, f->carried);
}

/// Of one slot: filled once all threads have read what it had.
static ir_op *fill_at_once(fetching *f) {
  kiln_pipeline *a = f->a;
  kiln_pipeline_open_inside(a, 0);
  a->exists[KILN_THIS] = ir_const_int(&a->b, KILN_I1, 1);
  ir_value *slot = ir_const_int(&a->b, KILN_I32, 0);
  emit_barrier(f);
  fetch(f, KILN_THIS, slot);
  emit_full(f, 0);
  read_slot(f, slot);
  return a->b.error.status == KILN_OK ? remake(f) : NULL;
}

/// `if condition { first }` in the loop's body; it gives whether the condition holds, or nothing.
static ir_op *emit_branch(fetching *f, ir_value *condition, ir_block *first, bool has_result, ir_op *before) {
  ir_builder *b = &f->a->b;
  ir_block *sides[2] = {first, KILN_NEW(b->arena, ir_block)};
  for (unsigned i = 0; i < 2; i++) {
    b->block = sides[i], b->before = NULL;
    ir_value *result = has_result ? ir_const_int(b, KILN_I1, !i) : NULL;
    ir_yield(b, &result, has_result);
  }
  b->block = f->a->body, b->before = before;
  return ir_emit(b, IR_IF, NULL, &condition, 1, NULL, sides, 2);
}

/// At the end of an iteration that has written: the slots of those to come are filled again. Whether they are is known
/// before the branch that writes, if it is one: a product may go on for which that branch waits.
static void fetch_again(fetching *f, const writing *w, ir_value *slot) {
  ir_builder *b = &f->a->b;
  ir_op *end = ir_loop_next(f->a->loop);
  ir_block *block = KILN_NEW(b->arena, ir_block);
  b->place = f->a->loop->place;
  f->test =
      emit_branch(f, f->wrote, KILN_NEW(b->arena, ir_block), true, w->count == 1 ? w->branches[0] : end);
  b->block = block, b->before = NULL;
  emit_full(f, 0);
  for (unsigned n = 1; n < f->ring.slots; n++) {
    slot = kiln_ring_after(&f->ring, slot, b, NULL);
    fetch(f, KILN_THIS + n, slot);
  }
  if (f->once) emit_full(f, f->ring.slots - 2);
  if (f->test) f->again = emit_branch(f, &f->test->results[0], block, false, end);
}

/// Slots are filled again only where what they have may overlap what is stored, if that can be computed.
static void ask_for_overlap(const fetching *f, const writing *w) {
  ir_kernel *kernel = f->a->kernel;
  kiln_arena *arena = kernel->arena;
  const kiln_facts *facts = kiln_facts_compute(arena, kernel);
  ir_op *answer = ir_if_end(f->test, 0);
  kiln_overlaps *o =
      kiln_overlaps_create(kernel, arena, kiln_addresses_create(arena, kernel, facts), facts, answer);
  if (w->has_more_stores) return;
  for (const ir_op *op = f->again->regions[0]->first; op; op = op->next)
    for (unsigned i = 0; op->code == IR_FETCH && i < w->store_count; i++) {
      if (!kiln_extent_of(o, op)->is_known || !kiln_extent_of(o, w->stores[i])->is_known) return;
      kiln_overlaps_ask(o, w->stores[i], op);
    }
  kiln_error failed = {0};
  answer->operands[0] = kiln_overlaps_answer(o, &failed);
  if (failed.status != KILN_OK) f->a->b.error = failed;
}

/// Where products of the iteration before may be under way as this one begins: once its first product is issued, and
/// those before it have ended in all warps. With three slots or more, the next iteration finds its slot full then.
static void fetch_late(fetching *f, kiln_iteration when, ir_value *slot) {
  ir_builder *b = &f->a->b;
  const ir_op *first = f->products.first;
  copying copies[KILN_PIPELINE_LOADS];
  b->block = first->block, b->before = first->next;
  for (unsigned i = 0; i < f->a->count; i++) copies[i] = copy_of(f, i, when, slot);
  b->place = first->place;
  ir_emit(b, IR_MMA_WAIT, &(ir_attrs){.wait = {.out = 1}}, NULL, 0, NULL, NULL, 0);
  if (f->once) emit_full(f, f->ring.slots - 3);
  else ir_emit(b, IR_BARRIER, NULL, NULL, 0, NULL, NULL, 0);
  for (unsigned i = 0; i < f->a->count; i++) emit_copy(f, i, &copies[i]);
  commit(f);
  kiln_pipeline_lead_on(f->a, f->ring.slots - 1, f->first, f->next, &f->carried);
}

/// While the first product of the iteration is under way.
static void fetch_under(fetching *f, kiln_iteration when, ir_value *slot) {
  ir_builder *b = &f->a->b;
  const ir_op *first = f->products.first;
  b->block = first->block, b->before = first->next;
  fetch(f, when, slot);
  b->place = first->place;
  kiln_ring_products_wait(f->a, &f->products);
}

static ir_op *fill_ahead(fetching *f, const writing *w) {
  kiln_pipeline *a = f->a;
  const unsigned slots = f->ring.slots, ahead = slots - 1;
  for (unsigned n = 0; n < ahead; n++) fetch(f, KILN_FIRST + n, ir_const_int(&a->b, KILN_I32, n));
  ir_value *start = ir_const_int(&a->b, KILN_I32, 0);
  if (f->once) emit_full(f, slots - 2);
  kiln_pipeline_open_inside(a, ahead);
  if (!f->once) emit_full(f, slots - 2);
  ir_value *slot = ir_block_arg(a->kernel->arena, a->body, ir_scalar_type(KILN_I32)),
           *write = kiln_ring_before(&f->ring, slot, &a->b),
           *next = slots > 2 ? kiln_ring_after(&f->ring, slot, &a->b, NULL)
                             : write; // of two slots the other is both
  f->first[f->carried] = start, f->next[f->carried++] = next;
  const bool overlaps = kiln_ring_products_overlap(&f->products);
  kiln_pipeline_lead_inside(a, ahead);
  if (!f->products.late && !overlaps) fetch(f, KILN_THIS + ahead, write);
  if (!f->products.late) kiln_pipeline_lead_on(a, ahead, f->first, f->next, &f->carried);
  read_slot(f, slot);
  if (f->products.late) fetch_late(f, KILN_THIS + ahead, write);
  if (overlaps) fetch_under(f, KILN_THIS + ahead, write);
  if (f->wrote) fetch_again(f, w, slot);
  return a->b.error.status == KILN_OK ? remake(f) : NULL;
}

/// Leaves the loads that can be fetched. Whether those are all.
static bool keep_fetched(fetching *f) {
  kiln_pipeline *a = f->a;
  const unsigned all = a->count;
  a->count = 0;
  for (unsigned i = 0; i < all; i++)
    if (can_fetch(f, &a->loads[i])) a->loads[a->count++] = a->loads[i];
  return a->count == all;
}

/// Nothing is fetched, but warpgroups multiply what threads store to slots.
static void multiply_loop(fetching *f) {
  kiln_pipeline *a = f->a;
  a->count = 0;
  const uint32_t at = kiln_ring_floor(a->loop);
  if (!kiln_ring_products_find(a, f->facts, f->last, &f->products)) return;
  if (at + kiln_ring_products_bytes(&f->products) + SPARE_SHARED > a->machine->shared_bytes) return;
  kiln_pipeline_open_before(a, 0);
  kiln_ring_products_open(a, at, &f->products);
  kiln_pipeline_open_inside(a, 0);
  kiln_ring_products_emit(a, &f->ring, NULL, &f->products);
  if (remake(f)) kiln_ring_products_close(a, &f->products);
}

static void find_axes(fetching *f) {
  for (unsigned i = 0; i < f->a->count; i++) {
    unsigned row;
    f->axis[i] = split_axis(f, f->a->loads[i].load, &row, &f->last[i]);
  }
}

static void fetch_loop(kiln_pipeline *a) {
  fetching f = {.a = a, .facts = kiln_facts_compute(a->kernel->arena, a->kernel)};
  writing writes = {NULL};
  a->allows_stores = a->allows_reads = true;
  if (!kiln_pipeline_find(a, false, MOST_SLOTS - 1)) a->count = 0;
  const bool is_whole = keep_fetched(&f);
  if (!find_writes(&f, &writes)) a->count = 0;
  if (!a->count) {
    multiply_loop(&f);
    return;
  }
  find_axes(&f);
  const bool multiplies = kiln_ring_products_find(a, f.facts, f.last, &f.products);
  if (!multiplies && !is_whole) return; // what stays in registers would be loaded late
  if (!multiplies) f.products = (kiln_ring_products){.count = 0};
  uint32_t at = kiln_ring_floor(a->loop);
  f.ring.slots = slots_for(a, at + kiln_ring_products_bytes(&f.products));
  if (!f.ring.slots || (f.ring.slots == 1 && !can_fill_at_once(&f))) return;
  if (f.ring.slots == 1) kiln_ring_products_end(&f.products); // the one slot is filled as an iteration begins
  if (multiplies && f.ring.slots > 1) add_beside(&f, at + kiln_ring_products_bytes(&f.products));
  find_axes(&f);
  f.once = meets_once(&f);
  kiln_pipeline_open_before(a, f.ring.slots - 1);
  if (!kiln_pipeline_lead_before(a, f.ring.slots - 1)) return;
  for (unsigned i = 0; i < a->count; i++) {
    kiln_ring_alloc(&f.ring, kiln_ring_add(&f.ring, tile_of(&f, i)), (ir_alloc){.at = at}, &a->b);
    at += bytes_of(a->loads[i].load) * f.ring.slots;
    if (f.products.count) at = (at + KILN_RING_ALIGN - 1) / KILN_RING_ALIGN * KILN_RING_ALIGN;
  }
  f.products.fills_ahead = f.ring.slots > 1;
  kiln_ring_products_open(a, at, &f.products);
  emit_condition(&f, &writes);
  ir_op *loop = f.ring.slots > 1 ? fill_ahead(&f, &writes) : fill_at_once(&f);
  if (!loop) return;
  kiln_ring_end(&f.ring, loop, &a->b);
  kiln_ring_products_close(a, &f.products);
  if (f.again) ask_for_overlap(&f, &writes);
}

kiln_status kiln_pass_fetch(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  return context->machine.has_fetch ? kiln_pipeline_loops(kernel, context, fetch_loop, "fetch", err)
                                    : KILN_OK;
}
