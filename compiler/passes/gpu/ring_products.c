// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of a loop by warpgroups, from slots of shared memory: those of a ring that all threads fill (fetch.c)
//
//   x = load p(iv); y = load q(iv); s' = dot(x, y, s)     becomes     s' = mma s, true, ringX, slot, ringY, slot
//
// and others that they store to. The unit takes a right operand from shared memory alone, a left one of 16-bit elements
// also from registers: what follows from another product lies there as the unit wants it.
//
//   for { z = f(..); s' = dot(x, z, s) }                  becomes     slot_store X, x
//                                                                     for { mma_wait out=0; barrier
//                                                                           slot_store Z, z; barrier products
//                                                                           s' = mma s, true, X, 0, Z, 0 }
//
// A sum that the loop only carries is taken by the next iteration's product, in the order of the unit. Such products are
// late: what follows, also of the next iteration, runs meanwhile, and the loop's end waits for them. So is one whose sum
// is read where it is cleared, and nowhere else:
//
//   for { d = dot(x, y, s)                                becomes     for { m = mma s, k, ringX, slot, ringY, slot
//         s' = c ? 0 : d                                                    s' = if c { d = mma_wait out=0 m; store d; yield d }
//         if c { store d } }                                                     else { yield m }; k' = not c }
#include "compiler/passes/gpu/ring_products.h"
#include "compiler/passes/gpu/loops.h"

enum {
  MOST_REGISTERS = 255, ///< of a thread
  SPARE_REGISTERS = 40, ///< of them, for addresses and what else is not multiplied
  MOST_LOOKED_AT = 256, ///< operations
  LOG2_MOST_BYTES = 4   ///< of one access
};

// -------------------------------------------------------------------------------------------- choice

typedef struct finding {
  const kiln_pipeline *a;
  const kiln_facts *facts;
  const uint8_t *axis;
  kiln_ring_products *out;
  bool stores_left; ///< what the loop does not change, instead of registers for it
} finding;

static bool is_turned(const ir_value *value) {
  return value->def && value->def->code == IR_TRANS && value->type.rank == 2;
}

static bool changes(const kiln_pipeline *a, const ir_value *value) { return ir_home(value) == a->body; }

/// Computed from the result of another product of the loop.
static bool follows_product(const kiln_pipeline *a, const ir_value *value, unsigned *budget) {
  const ir_op *op = value->def;
  if (!op || op->block != a->body || !*budget) return false;
  --*budget;
  if (op->code == IR_DOT) return true;
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (follows_product(a, op->operands[i], budget)) return true;
  return false;
}

/// Registers have a left operand that does not change, or lies in them as the unit wants it.
static bool suits_registers(const finding *f, const ir_value *value) {
  if (!changes(f->a, value)) return !f->stores_left;
  return follows_product(f->a, value, &(unsigned){MOST_LOOKED_AT});
}

/// Whether neighbours along rows (axis 0) are neighbours in the memory that the matrix is loaded from, in which case a
/// thread has several of them. Of several loads the first counts.
static bool has_rows_together(const finding *f, const ir_value *value, unsigned *budget) {
  const ir_op *op = value->def;
  if (!op || value->type.rank != 2 || !*budget) return false;
  --*budget;
  if (op->code == IR_LOAD)
    return kiln_fact_vector(f->facts, op->operands[0], NULL, 0, LOG2_MOST_BYTES) >
           kiln_fact_vector(f->facts, op->operands[0], NULL, 1, LOG2_MOST_BYTES);
  if (is_turned(value)) return !has_rows_together(f, op->operands[0], budget);
  return ir_has(op->code, IR_EACH) && has_rows_together(f, op->operands[0], budget);
}

/// Finds or adds the tile among what threads store.
static bool add_stored(finding *f, ir_value *value, unsigned *out_number) {
  kiln_ring_products *p = f->out;
  for (*out_number = 0; *out_number < p->stored_count; ++*out_number)
    if (p->stored[*out_number].value == value) return true;
  if (p->stored_count == KILN_RING_STORED) return false;
  p->stored[p->stored_count++] =
      (kiln_stored_tile){.value = value,
                         .is_kept = !changes(f->a, value),
                         .is_turned = has_rows_together(f, value, &(unsigned){MOST_LOOKED_AT})};
  return true;
}

/// `reduced`: the axis of the operand along which products are summed. False: the unit does not take it.
static bool find_operand(finding *f, ir_value *value, unsigned reduced, kiln_ring_operand *out) {
  const unsigned bytes = kiln_scalars[value->type.scalar].bytes;
  ir_value *from = is_turned(value) ? value->def->operands[0] : value;
  const unsigned axis = is_turned(value) ? 1 - reduced : reduced;
  for (unsigned i = 0; i < f->a->count; i++)
    if (f->a->loads[i].load == from->def) {
      *out = (kiln_ring_operand){KILN_FROM_RING, i, f->axis[i] != axis};
      return bytes == 2 || !out->is_mn;
    }
  const bool is_left = reduced == 1;
  if (is_left && bytes == 2 && suits_registers(f, from)) {
    *out = (kiln_ring_operand){.from = KILN_FROM_REGISTERS};
    return true;
  }
  *out = (kiln_ring_operand){.from = KILN_FROM_STORED};
  if (!add_stored(f, from, &out->number)) return false;
  out->is_mn = f->out->stored[out->number].is_turned ? axis != 0 : axis != 1;
  return bytes == 2 || !out->is_mn;
}

static bool is_used_once(const kiln_pipeline *a, const ir_value *value) {
  unsigned uses = 0;
  for (const ir_op *op = ir_next(a->kernel->body, NULL); op; op = ir_next(a->kernel->body, op))
    for (uint32_t i = 0; i < op->operand_count; i++) uses += op->operands[i] == value;
  return uses == 1;
}

/// Its sum is one that the loop carries for it alone.
static bool is_only_carried(const kiln_pipeline *a, const ir_op *dot) {
  const ir_value *sum = dot->operands[2];
  if (sum->def || sum->block != a->body || sum->index < ir_loop_counters(a->loop)) return false;
  const uint32_t carried = sum->index - ir_loop_counters(a->loop);
  return ir_loop_next(a->loop)->operands[carried] == &dot->results[0] && is_used_once(a, sum) &&
         is_used_once(a, &dot->results[0]);
}

/// Whether the value is zero where the condition is `when`, and the product elsewhere.
static bool is_cleared(const ir_value *zero, const ir_value *sum, const ir_op *dot, bool when,
                       kiln_clearing *out) {
  *out = (kiln_clearing){.condition = out->condition, .when = when};
  return ir_is_zero(zero) && sum == &dot->results[0];
}

/// What the loop carries on of a sum that only the product takes, where that is zero or the product, as a scalar says.
/// False: it is something else.
static bool find_clearing(const kiln_pipeline *a, const ir_op *dot, kiln_clearing *out) {
  const ir_value *sum = dot->operands[2];
  *out = (kiln_clearing){NULL};
  if (sum->def || sum->block != a->body || sum->index < ir_loop_counters(a->loop)) return false;
  const ir_value *next = ir_loop_next(a->loop)->operands[sum->index - ir_loop_counters(a->loop)];
  const ir_op *choice = next->def;
  if (!choice || choice->block != a->body || !is_used_once(a, sum) || !is_used_once(a, next)) return false;
  const ir_value *values[2];
  if (choice->code == IR_SELECT && !choice->operands[0]->type.rank)
    values[0] = choice->operands[1], values[1] = choice->operands[2];
  else if (choice->code == IR_IF)
    for (unsigned i = 0; i < 2; i++) values[i] = ir_if_end(choice, i)->operands[next->index];
  else return false;
  out->condition = choice->operands[0];
  return is_cleared(values[0], values[1], dot, true, out) ||
         is_cleared(values[1], values[0], dot, false, out);
}

static ir_op *choice_of(const kiln_pipeline *a, const kiln_ring_product *p) {
  return ir_loop_next(a->loop)->operands[p->dot->operands[2]->index - ir_loop_counters(a->loop)]->def;
}

/// The side of a branch of the same condition that runs where the sum is cleared.
static unsigned side_of(const kiln_ring_product *p) { return p->clearing.when ? 0 : 1; }

typedef struct reading {
  const kiln_pipeline *a;
  kiln_ring_product *p;
  const ir_op *carries; ///< what carries the sum on
  bool is_elsewhere;    ///< something else than one branch, where the sum is cleared, reads it
} reading;

static void note_reader(ir_op *op, void *context) {
  reading *r = context;
  unsigned uses = 0;
  for (uint32_t i = 0; i < op->operand_count; i++) uses += op->operands[i] == &r->p->dot->results[0];
  if (!uses || (op == r->carries && uses == 1)) return;
  ir_op *branch = op;
  while (branch->block != r->a->body) branch = branch->block->parent;
  const bool is_cleared = branch->code == IR_IF && ir_if_condition(branch) == r->p->clearing.condition &&
                          ir_encloses(branch->regions[side_of(r->p)], op->block);
  r->is_elsewhere |= !is_cleared || (r->p->reader && r->p->reader != branch) ||
                     branch->result_count + KILN_RING_PRODUCTS > IR_MAX_RESULTS;
  r->p->reader = branch;
}

/// Whether only a branch reads the sum that runs where it is cleared.
static bool is_read_to_clear(const kiln_pipeline *a, kiln_ring_product *p) {
  const ir_op *choice = choice_of(a, p);
  reading r = {a, p, choice->code == IR_IF ? ir_if_end(choice, 1 - side_of(p)) : choice, false};
  ir_walk(a->body, note_reader, &r);
  return !r.is_elsewhere;
}

static bool judge(finding *f, ir_op *dot, kiln_ring_product *out) {
  const kiln_matrix_machine *m = f->a->machine->unit;
  kiln_product how = {0};
  if (kiln_judge_shape(m, f->a->kernel, dot, &how)) return false;
  if (kiln_scalars[dot->operands[0]->type.scalar].bytes > 2)
    return false; // the unit truncates wider elements
  *out = (kiln_ring_product){.dot = dot, .is_partial = how.is_partial};
  for (unsigned i = 0; i < 2; i++)
    if (!find_operand(f, dot->operands[i], 1 - i, &out->operands[i])) return false;
  out->is_cleared = !out->is_partial && find_clearing(f->a, dot, &out->clearing);
  out->is_late =
      !out->is_partial && (out->is_cleared ? is_read_to_clear(f->a, out) : is_only_carried(f->a, dot));
  return true;
}

/// Of a tile in shared memory.
static uint32_t bytes_of(const ir_value *tile) {
  const uint32_t bytes = (uint32_t)kiln_scalars[tile->type.scalar].bytes << ir_log2_elements(tile->type);
  return (bytes + KILN_RING_ALIGN - 1) / KILN_RING_ALIGN * KILN_RING_ALIGN;
}

/// Registers of a thread that sums, left operands and what is stored take at a time: one left operand is there after
/// another.
static unsigned registers_of(const finding *f) {
  const ir_kernel *kernel = f->a->kernel;
  const kiln_matrix_machine *m = f->a->machine->unit;
  const unsigned groups = (unsigned)__builtin_ctz(kernel->warps / m->group_warps);
  unsigned registers = 0, most_left = 0;
  for (unsigned i = 0; i < f->out->count; i++) {
    const kiln_ring_product *p = &f->out->list[i];
    const ir_type left = p->dot->operands[0]->type;
    kiln_product how = {0};
    kiln_judge_shape(m, kernel, p->dot, &how);
    registers += kiln_product_registers(kernel, p->dot, &how);
    if (p->operands[0].from != KILN_FROM_REGISTERS) continue;
    const unsigned down = left.log2[0] - m->log2_rows,
                   words = 1u << (left.log2[1] - 2 + down - (down < groups ? down : groups));
    if (changes(f->a, p->dot->operands[0])) most_left = words > most_left ? words : most_left;
    else registers += 2 * words; // it is kept, and copied for each product (nvptx_wgmma.c)
  }
  for (unsigned i = 0; i < f->out->stored_count; i++)
    if (!f->out->stored[i].is_kept)
      registers += bytes_of(f->out->stored[i].value) / (4 * 32u * kernel->warps);
  return registers + most_left;
}

/// Every product but the first is computed from another one: it cannot begin before that has ended.
static bool is_chain(const finding *f) {
  for (unsigned i = 1; i < f->out->count; i++) {
    bool follows = false;
    for (unsigned k = 0; k < 3; k++)
      follows |= follows_product(f->a, f->out->list[i].dot->operands[k], &(unsigned){MOST_LOOKED_AT});
    if (!follows) return false;
  }
  return true;
}

/// All products of the loop, if a thread has registers for them.
static bool find(finding *f) {
  const kiln_pipeline *a = f->a;
  const kiln_matrix_machine *m = a->machine->unit;
  f->out->count = f->out->late = f->out->stored_count = 0;
  for (ir_op *op = a->body->first; op; op = op->next) {
    if (op->code != IR_DOT) continue;
    if (f->out->count == KILN_RING_PRODUCTS || !judge(f, op, &f->out->list[f->out->count])) return false;
    f->out->late += f->out->list[f->out->count++].is_late;
  }
  const unsigned room = m->registers / (32u * a->kernel->warps),
                 most = room < MOST_REGISTERS ? room : MOST_REGISTERS;
  f->out->is_chain = is_chain(f);
  return f->out->count && registers_of(f) + SPARE_REGISTERS <= most;
}

bool kiln_ring_products_find(const kiln_pipeline *a, const kiln_facts *facts, const uint8_t *axis,
                             kiln_ring_products *out) {
  const kiln_matrix_machine *m = a->machine->unit;
  ir_kernel *kernel = a->kernel;
  const uint16_t warps = kernel->warps;
  if (!m || warps < m->group_warps || kernel->max_registers) return false;
  for (unsigned i = 0; i < a->count; i++)
    if (a->loads[i].load->results[0].type.rank != 2) return false;
  for (unsigned more = 0; more < (warps == m->group_warps ? 2u : 1u); more++)
    for (unsigned stores = 0; stores < 2; stores++) {
      finding f = {.a = a, .facts = facts, .axis = axis, .out = out, .stores_left = stores != 0};
      kernel->warps = (uint16_t)(warps << more);
      if (find(&f)) return true;
    }
  kernel->warps = warps;
  return false;
}

void kiln_ring_products_end(kiln_ring_products *products) {
  for (unsigned i = 0; i < products->count; i++) products->list[i].is_late = false;
  products->late = 0;
}

// ------------------------------------------------------------------------------------------ emission

uint32_t kiln_ring_products_bytes(const kiln_ring_products *products) {
  uint32_t bytes = 0;
  for (unsigned i = 0; i < products->stored_count; i++) bytes += bytes_of(products->stored[i].value);
  return bytes;
}

static void store(kiln_pipeline *a, kiln_stored_tile *tile) {
  ir_value *value = tile->value;
  if (tile->is_turned) {
    ir_op *turned = ir_emit(&a->b, IR_TRANS, &(ir_attrs){.perm = {1, 0}}, &value, 1, NULL, NULL, 0);
    value = turned ? &turned->results[0] : value;
  }
  ir_value *operands[3] = {tile->memory, ir_const_int(&a->b, KILN_I32, 0), value};
  ir_emit(&a->b, IR_SLOT_STORE, NULL, operands, 3, NULL, NULL, 0);
  tile->is_there = true;
}

void kiln_ring_products_open(kiln_pipeline *a, uint32_t at, kiln_ring_products *products) {
  bool has_kept = false;
  for (unsigned i = 0; i < products->count && !products->first_keep; i++)
    if (products->list[i].is_cleared) products->first_keep = ir_const_int(&a->b, KILN_I1, 1);
  for (unsigned i = 0; i < products->stored_count; i++) {
    kiln_stored_tile *tile = &products->stored[i];
    ir_type matrix = tile->value->type;
    if (tile->is_turned)
      matrix.log2[0] = tile->value->type.log2[1], matrix.log2[1] = tile->value->type.log2[0];
    const ir_type type = ir_memory_type(matrix, 1);
    ir_op *made = ir_emit(&a->b, IR_ALLOC, &(ir_attrs){.alloc = {.at = at}}, NULL, 0, &type, NULL, 0);
    if (!made) return;
    tile->memory = &made->results[0];
    at += bytes_of(tile->value);
    if (!tile->is_kept) continue;
    store(a, tile);
    has_kept = true;
  }
  const ir_barrier how = {.is_for_products = true};
  if (has_kept && !a->count) ir_emit(&a->b, IR_BARRIER, &(ir_attrs){.barrier = how}, NULL, 0, NULL, NULL, 0);
}

static void emit_operand(const kiln_ring_operand *from, const kiln_ring *ring, ir_value *slot, ir_builder *b,
                         const kiln_ring_products *products, ir_value *tile, ir_value **operands,
                         uint32_t *count) {
  if (from->from == KILN_FROM_REGISTERS) {
    operands[(*count)++] = tile;
    return;
  }
  const bool is_stored = from->from == KILN_FROM_STORED;
  operands[(*count)++] = is_stored ? products->stored[from->number].memory : ring->memory[from->number];
  operands[(*count)++] = is_stored ? ir_const_int(b, KILN_I32, 0) : slot;
}

/// The product takes no sum where the iteration before has cleared it: the loop carries whether it has.
static ir_value *keep_of(kiln_pipeline *a, kiln_ring_products *products, const kiln_ring_product *p) {
  ir_value *sum = p->dot->operands[2];
  if (!p->is_cleared) return ir_const_bits(&a->b, ir_scalar_type(KILN_I1), !ir_is_zero(sum));
  ir_op *end = ir_loop_next(a->loop);
  ir_value *keep = ir_block_arg(a->kernel->arena, a->body, ir_scalar_type(KILN_I1)),
           *condition = p->clearing.condition;
  ir_builder last = {
      .arena = a->kernel->arena, .block = a->body, .before = end, .place = p->dot->place, .machine = true};
  if (p->clearing.when) condition = ir_binary(&last, IR_XOR, 0, condition, ir_const_int(&last, KILN_I1, 1));
  products->next_keeps[products->keep_count++] = condition;
  ir_op *choice = choice_of(a, p);
  end->operands[sum->index - ir_loop_counters(a->loop)] = &p->dot->results[0];
  if (choice->code == IR_SELECT) ir_remove(choice);
  return keep;
}

/// Stores what the product reads, and what is not there yet: all of it is, and is seen, once threads have met. The first to
/// do so in an iteration waits until the products of the one before have read what they had.
static void store_operands(kiln_pipeline *a, kiln_ring_products *products, const kiln_ring_product *p) {
  const ir_barrier how = {.is_for_products = true};
  bool is_any = false;
  for (unsigned i = 0; i < 2; i++) {
    if (p->operands[i].from != KILN_FROM_STORED) continue;
    kiln_stored_tile *tile = &products->stored[p->operands[i].number];
    if (tile->is_there) continue;
    if (!products->has_stored && products->late) ir_emit(&a->b, IR_MMA_WAIT, NULL, NULL, 0, NULL, NULL, 0);
    if (!products->has_stored) ir_emit(&a->b, IR_BARRIER, NULL, NULL, 0, NULL, NULL, 0);
    is_any = products->has_stored = true;
    store(a, tile);
  }
  if (is_any) ir_emit(&a->b, IR_BARRIER, &(ir_attrs){.barrier = how}, NULL, 0, NULL, NULL, 0);
}

/// In what stands after `op` in the block, and in its regions.
static void replace_after(ir_op *op, const ir_value *old, ir_value *instead) {
  const ir_block *block = op->block;
  while ((op = ir_next(block, op)))
    for (uint32_t i = 0; i < op->operand_count; i++)
      if (op->operands[i] == old) op->operands[i] = instead;
}

/// The branch that reads the late sum `made` waits for it, and gives what the loop carries on.
static void wait_in_reader(kiln_pipeline *a, const kiln_ring_product *p, ir_value *made) {
  const unsigned side = side_of(p);
  ir_block *region = p->reader->regions[side];
  ir_builder b = {.arena = a->kernel->arena,
                  .block = region,
                  .before = region->first,
                  .place = p->reader->place,
                  .machine = true};
  ir_op *wait = ir_emit(&b, IR_MMA_WAIT, NULL, &made, 1, NULL, NULL, 0);
  if (!wait) {
    a->b.error = b.error;
    return;
  }
  replace_after(wait, &p->dot->results[0], &wait->results[0]);
  ir_value *values[2] = {made, made};
  values[side] = &wait->results[0];
  const uint32_t carried = p->dot->operands[2]->index - ir_loop_counters(a->loop);
  ir_loop_next(a->loop)->operands[carried] = kiln_give_more(&b, p->reader, values);
}

/// Nothing in the loop's body is computed for it: it can follow the first product, and what is computed from that one runs
/// meanwhile.
static bool is_ready(const kiln_pipeline *a, const kiln_ring_products *products, const kiln_ring_product *p) {
  for (unsigned i = 0; i < 2; i++) {
    const kiln_ring_operand *from = &p->operands[i];
    if (from->from == KILN_FROM_STORED && !products->stored[from->number].is_kept) return false;
    if (from->from == KILN_FROM_REGISTERS && changes(a, p->dot->operands[i])) return false;
  }
  const ir_value *sum = p->dot->operands[2];
  return !sum->def || sum->def->block != a->body;
}

void kiln_ring_products_emit(kiln_pipeline *a, const kiln_ring *ring, ir_value *slot,
                             kiln_ring_products *products) {
  ir_builder *b = &a->b;
  ir_op *early = NULL;
  for (unsigned i = 0; i < products->count; i++) {
    const kiln_ring_product *p = &products->list[i];
    ir_value *operands[6] = {p->dot->operands[2]};
    uint32_t count = 1;
    b->block = p->dot->block, b->place = p->dot->place;
    const bool is_early = i && is_ready(a, products, p);
    b->before = is_early ? early->next : p->dot;
    store_operands(a, products, p);
    operands[count++] = keep_of(a, products, p);
    for (unsigned k = 0; k < 2; k++)
      emit_operand(&p->operands[k], ring, slot, b, products, p->dot->operands[k], operands, &count);
    const ir_mma how = {.precision = p->dot->attrs.precision,
                        .a_mn = p->operands[0].is_mn,
                        .b_mn = p->operands[1].is_mn,
                        .is_partial = p->is_partial,
                        .is_async = p->is_late || (!i && kiln_ring_products_overlap(products)),
                        .is_queued = p->is_late || (!i && kiln_ring_products_overlap(products)),
                        .is_carried = p->is_late};
    ir_op *made = ir_emit(b, IR_MMA, &(ir_attrs){.mma = how}, operands, count, NULL, NULL, 0);
    if (!made) return;
    if (!i) products->first = made;
    if (!i || is_early) early = made;
    if (p->is_late && p->reader) wait_in_reader(a, p, &made->results[0]);
    ir_forward(&p->dot->results[0], &made->results[0]);
    ir_remove(p->dot);
  }
}

bool kiln_ring_products_overlap(const kiln_ring_products *products) {
  return products->fills_ahead && products->count && products->is_chain && !products->late &&
         !products->list[0].is_partial;
}

void kiln_ring_products_wait(kiln_pipeline *a, kiln_ring_products *products) {
  ir_value *sum = &products->first->results[0];
  ir_op *wait = ir_emit(&a->b, IR_MMA_WAIT, NULL, &sum, 1, NULL, NULL, 0);
  if (wait) products->list[0].dot->results[0].forward = &wait->results[0];
}

/// A late product gives what the loop carries on, or a branch that does or does not wait for it.
static bool is_of_late(const ir_value *carried) {
  const ir_op *from = carried->def;
  if (!from) return false;
  if (from->code == IR_IF)
    return is_of_late(ir_if_end(from, 0)->operands[carried->index]) ||
           is_of_late(ir_if_end(from, 1)->operands[carried->index]);
  return from->code == IR_MMA && from->attrs.mma.is_carried;
}

static void wait_for_late(kiln_pipeline *a) {
  ir_value *sums[KILN_RING_PRODUCTS];
  uint32_t count = 0;
  for (uint32_t i = 0; i < a->loop->result_count; i++)
    if (is_of_late(ir_loop_next(a->loop)->operands[i])) sums[count++] = &a->loop->results[i];
  if (!count) return;
  ir_op *wait = ir_emit(&a->b, IR_MMA_WAIT, NULL, sums, count, NULL, NULL, 0);
  for (uint32_t i = 0; wait && i < count; i++) replace_after(wait, sums[i], &wait->results[i]);
}

void kiln_ring_products_close(kiln_pipeline *a, const kiln_ring_products *products) {
  ir_value *memory[KILN_RING_STORED];
  a->b.block = a->loop->block, a->b.before = a->loop->next, a->b.place = a->loop->place;
  if (products->late) wait_for_late(a);
  for (unsigned i = 0; i < products->stored_count; i++) memory[i] = products->stored[i].memory;
  if (products->stored_count)
    ir_emit(&a->b, IR_FETCH_END, NULL, memory, products->stored_count, NULL, NULL, 0);
}
