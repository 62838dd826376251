// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which accesses of views go through the copy engine: the operands of products in loops, and the stores of
// what such products gave.
//
// A tensor map describes a view to the engine: its base is a parameter aligned to 16 bytes, hints on it or not, its
// extents and strides are launch expressions, the innermost stride is 1, the others are multiples of 16 bytes. It fills
// with zeros outside, so a load with another value there stays as it is. Indices are i32 in the instruction.
//
// The engine runs ahead of the program: it may fetch what later iterations want. So what comes before the load, or in
// a loop around it, may write other memory only. Where two parameters may overlap the pass roles lets the producer wait
// (written.h).
//
// Needs views as operations (pass open-views) and ir_count_uses. Changes flags only.
#include "compiler/analysis/facts.h"
#include "compiler/analysis/provenance.h"
#include "compiler/passes/gpu/gpu.h"
#include "compiler/passes/gpu/written.h"

enum { MAP_RANK = 5, MAP_ALIGN = 16, LOG2_BOX = 8, MOST_LOADS = 32 };

typedef struct promoting {
  ir_kernel *kernel;
  const kiln_matrix_machine *machine;
  kiln_facts *facts;
  const kiln_target *target;
  unsigned loads;        ///< marked
  unsigned registers;    ///< accumulators a thread, most in one block
  const ir_block *block; ///< whose products `sums` counts
  kiln_sums sums;
  struct {
    const ir_op *load;
    const ir_op *dot; ///< the last that takes it
    uint32_t uses;    ///< by products that take it from shared memory
  } marked[MOST_LOADS];
  struct {
    const ir_op *load;
    unsigned ring;
  } seen[MOST_LOADS]; ///< loads whose memory is counted
  unsigned seen_count, rings;
  uint64_t loop_bytes;     ///< shared memory of one slot of each load in a loop
  uint64_t left_bytes;     ///< of these, left operands
  uint64_t fixed_bytes;    ///< of loads outside, and of computed operands
  ir_type accumulators[8]; ///< of the products, for stores
  unsigned accumulator_count;
  kiln_refusals *refusals;    ///< borrowed; NULL: nobody asks
  kiln_report_reason refused; ///< why no product is done so
  bool is_divided;            ///< columns of a product, of which not all count, go to two blocks
  bool is_tall[2];            ///< a left, right operand's tile has more rows than a box
  bool has_rows;              ///< every product has them for two warpgroups
  bool leaves_product;        ///< one whose operands have no maps could be multiplied by warpgroups as well
  bool has_split;             ///< blocks share a loop's iterations
} promoting;

// --------------------------------------------------------------------------------------- conditions

/// A write before the load that the producer can't wait for.
typedef struct obstacle {
  const promoting *p;
  bool is_found;
} obstacle;

static void note_write(const kiln_earlier_write *write, void *context) {
  obstacle *o = context;
  const bool may_be_cluster = o->p->has_split || o->p->kernel->warps > 2 * o->p->machine->group_warps;
  o->is_found |= may_be_cluster || !kiln_can_meet_after(write);
}

static bool is_multiple(const promoting *p, const ir_value *v, unsigned bytes) {
  unsigned have = kiln_fact_of(p->facts, v)->divisibility[0];
  return (uint64_t)bytes << (have > 16 ? 16 : have) >= MAP_ALIGN;
}

static bool is_expression(const promoting *p, const ir_value *v) {
  kiln_buffer ignored = {0};
  bool is = kiln_launch_expression(p->kernel, v, 16, &ignored);
  kiln_buffer_deinit(&ignored);
  return is;
}

static kiln_refusal because(kiln_report_reason reason) { return (kiln_refusal){.reason = reason}; }

/// A reason that names a parameter, or one for what is none.
static kiln_refusal because_of(const promoting *p, const ir_value *v, kiln_report_reason named,
                               kiln_report_reason other) {
  v = kiln_behind(v);
  if (v->def || v->block != p->kernel->body) return because(other);
  return (kiln_refusal){.reason = named, .parameter = v->index + 1};
}

/// What keeps a tensor map from describing the view and its tile.
static kiln_refusal judge_view(const promoting *p, const ir_op *view) {
  ir_type type = view->results[0].type;
  const ir_value *base = view->operands[0], *param = kiln_behind(base);
  unsigned rank = type.rank, bytes = kiln_scalars[type.scalar].bytes;
  if (type.pointer || rank < 2 || rank > MAP_RANK) return because(KILN_REASON_MAP_VIEW);
  if (param->def || param->block != p->kernel->body) return because(KILN_REASON_MAP_BASE);
  // The parameter promises it, which the launch tests, or a hint that every program passes.
  const bool is_hinted = base->def && base->def->block == p->kernel->body;
  if (p->kernel->params[param->index].align < MAP_ALIGN && !(is_hinted && is_multiple(p, base, 1)))
    return because_of(p, base, KILN_REASON_MAP_ALIGN, KILN_REASON_MAP_BASE);
  if (type.log2[rank - 1] == IR_DROPPED || bytes << type.log2[rank - 1] < MAP_ALIGN)
    return because(KILN_REASON_MAP_TILE);
  // Of a tile at most 256 places along an axis, twice as many rows where two blocks may share the program.
  for (unsigned i = 0; i < rank; i++) {
    const ir_value *stride = ir_view_strides(view)[i];
    bool is_last = i + 1u == rank;
    int64_t step;
    if (!is_last && type.log2[i] != IR_DROPPED && type.log2[i] > LOG2_BOX + 1)
      return because(KILN_REASON_MAP_TILE);
    if (!is_expression(p, ir_view_extents(view)[i])) return because(KILN_REASON_MAP_LAUNCH);
    if (is_last && (!ir_constant_int(stride, &step) || step != 1)) return because(KILN_REASON_MAP_ROW);
    if (!is_last && !is_expression(p, stride)) return because(KILN_REASON_MAP_LAUNCH);
    if (!is_last && !is_multiple(p, stride, bytes))
      return because_of(p, stride, KILN_REASON_MAP_PARAM, KILN_REASON_MAP_STRIDE);
  }
  return because(KILN_REASON_NONE);
}

/// What keeps the copy engine from an access through a view.
static kiln_refusal judge_access(const promoting *p, const ir_op *op) {
  const ir_op *view = op->operands[0]->def;
  unsigned rank = op->operands[0]->type.rank;
  if (!view || view->code != IR_VIEW || ir_view_tile(view->results[0].type).rank != 2)
    return because(KILN_REASON_MAP_VIEW);
  if (op->attrs.access.has_other || op->attrs.flags & IR_VOLATILE) return because(KILN_REASON_MAP_OTHER);
  for (unsigned i = 0; i < rank; i++)
    if (!kiln_fact_within(kiln_fact_of(p->facts, ir_view_indices(op)[i]), INT32_MIN, INT32_MAX))
      return because(KILN_REASON_MAP_INDEX);
  // A box that begins within 16 bytes stops an H100: "illegal instruction".
  if (!is_multiple(p, ir_view_indices(op)[rank - 1], kiln_scalars[op->operands[0]->type.scalar].bytes))
    return because(KILN_REASON_MAP_COLUMN);
  return judge_view(p, view);
}

static kiln_refusal judge_load(const promoting *p, const ir_op *load) {
  kiln_refusal refusal = judge_access(p, load);
  if (refusal.reason) return refusal;
  obstacle o = {.p = p};
  kiln_visit_earlier_writes(p->kernel, p->kernel->body, load, note_write, &o);
  return because(o.is_found ? KILN_REASON_WRITTEN : KILN_REASON_NONE);
}

static bool is_in_loop(const ir_op *op) {
  for (const ir_op *o = op->block->parent; o; o = o->block->parent)
    if (o->code == IR_FOR) return true;
  return false;
}

// ------------------------------------------------------------------------------------------ marking

bool kiln_gpu_are_nested(const ir_op *a, const ir_op *b) {
  for (const ir_op *o = a; o; o = o->block->parent)
    if (o->block == b->block) return true;
  for (const ir_op *o = b; o; o = o->block->parent)
    if (o->block == a->block) return true;
  return false;
}

static bool may_share(const promoting *p, unsigned ring, const ir_op *load) {
  bool is_new = true;
  for (unsigned i = 0; i < p->seen_count; i++) {
    const ir_op *other = p->seen[i].load;
    if (p->seen[i].ring != ring) continue;
    is_new = false;
    if (!ir_type_equal(other->results[0].type, load->results[0].type) ||
        other->attrs.access.first != load->attrs.access.first ||
        other->attrs.access.axis != load->attrs.access.axis || kiln_gpu_are_nested(other, load))
      return false;
  }
  return !is_new;
}

static void mark(promoting *p, ir_op *load, const ir_op *dot, bool is_left) {
  if (!load) return;
  unsigned place = 0;
  while (place < MOST_LOADS && p->marked[place].load && p->marked[place].load != load) place++;
  if (place == MOST_LOADS) {
    p->refused = KILN_REASON_MANY;
  } else {
    p->marked[place].load = load;
    p->marked[place].dot = dot;
    p->marked[place].uses++;
  }
  if (load->attrs.access.is_mapped) return;
  uint64_t bytes = kiln_memory_bytes(load->results[0].type, kiln_copied(load, 0), kiln_copied(load, 1));
  load->attrs.access.is_mapped = true;
  p->is_tall[!is_left] |= load->results[0].type.log2[0] > LOG2_BOX;
  p->loads++;
  if (!is_in_loop(load)) {
    p->fixed_bytes += bytes;
    return;
  }
  // Loads of tiles of one kind in different loops take turns in one ring (roles/).
  unsigned ring = 0;
  while (ring < p->rings && !may_share(p, ring, load)) ring++;
  if (p->seen_count < MOST_LOADS) p->seen[p->seen_count].load = load, p->seen[p->seen_count++].ring = ring;
  if (ring < p->rings) return;
  p->rings++;
  p->loop_bytes += bytes;
  if (is_left) p->left_bytes += bytes;
}

/// The pass `fetch` lets warpgroups multiply it, if all products of its loop stay with that pass.
static bool could_be_fetched(const promoting *p, const ir_op *dot) {
  const ir_op *loop = dot->block->parent;
  kiln_product ignored;
  return loop && loop->code == IR_FOR && kiln_scalars[dot->operands[0]->type.scalar].bytes <= 2 &&
         !kiln_judge_shape(p->machine, p->kernel, dot, &ignored);
}

static void judge_dot(promoting *p, const ir_op *op) {
  kiln_product product;
  kiln_refusal refusal = because(kiln_judge_product(p->machine, p->kernel, op, &product));
  if (!refusal.reason) refusal = judge_load(p, product.right);
  if (!refusal.reason && product.left) {
    refusal = judge_load(p, product.left);
    // A left operand of 16 bits that has no map is read to registers.
    if (refusal.reason && kiln_scalars[product.left->results[0].type.scalar].bytes == 2) {
      product.left = NULL;
      refusal = because(KILN_REASON_NONE);
    }
  }
  refusal.operation = ir_operation(op);
  if (refusal.reason) {
    kiln_refuse(p->refusals, &refusal);
    p->leaves_product |= could_be_fetched(p, op);
    return;
  }
  ir_type c = op->results[0].type;
  p->is_divided |= product.is_divided;
  if (p->loads && p->kernel->groups_beside != product.is_beside) p->refused = KILN_REASON_PARTS;
  p->kernel->groups_beside = product.is_beside;
  p->has_rows &= c.log2[0] > p->machine->log2_rows;
  mark(p, product.left, op, true);
  mark(p, product.right, op, false);
  if (product.put) p->fixed_bytes += KILN_PUT_SLOTS * kiln_memory_bytes(product.put->operands[0]->type, 0, 0);
  if (p->block != op->block) p->sums = (kiln_sums){0};
  p->block = op->block;
  kiln_count_sums(&p->sums, p->kernel, op, &product);
  if (kiln_most_sums(&p->sums) > p->registers) p->registers = kiln_most_sums(&p->sums);
  if (p->accumulator_count < 8) p->accumulators[p->accumulator_count++] = c;
}

ir_value *kiln_staged_value(const ir_op *store) {
  ir_value *value = ir_resolve(store->operands[store->operand_count - 1]);
  return store->attrs.access.is_turned ? ir_resolve(value->def->operands[0]) : value;
}

static bool has_shape_of_sums(const promoting *p, ir_type value) {
  for (unsigned i = 0; i < p->accumulator_count; i++)
    if (ir_same_shape(value, p->accumulators[i])) return true;
  return false;
}

/// The engine writes 16 bytes of a row at a time: where rows of the view may end within them the rest is
/// stored without it (nvptx_row_ends.c).
static void mark_written(promoting *p, ir_op *op, bool is_turned) {
  const ir_op *view = op->operands[0]->def;
  unsigned last = view->results[0].type.rank - 1u, bytes = kiln_scalars[view->results[0].type.scalar].bytes;
  ir_view_access *how = &op->attrs.access;
  how->is_ragged |= !is_multiple(p, ir_view_extents(view)[last], bytes);
  how->is_mapped = true, how->is_turned |= is_turned;
}

/// The engine adds f32 in memory, in any order, for the device.
static void judge_atomic(promoting *p, ir_op *op) {
  ir_type value = op->operands[op->operand_count - 1]->type;
  if (op->attrs.kind != IR_COMBINE_ADD || op->attrs.order != IR_ORDER_RELAXED || op->attrs.access.first ||
      op->attrs.scope == IR_SCOPE_SYSTEM)
    return;
  if (value.scalar == KILN_F32 && has_shape_of_sums(p, value) && !judge_access(p, op).reason)
    mark_written(p, op, false);
}

static void judge_store(promoting *p, ir_op *op) {
  if (op->code == IR_VIEW_ATOMIC) judge_atomic(p, op);
  if (op->code != IR_VIEW_STORE || judge_access(p, op).reason) return;
  const ir_op *def = op->operands[op->operand_count - 1]->def;
  bool is_turned = def && def->code == IR_TRANS && def->attrs.perm[0] == 1;
  ir_type value = (is_turned ? def->operands[0] : op->operands[op->operand_count - 1])->type;
  unsigned columns = is_turned ? 0 : 1; // their axis in the tile
  // Of f32 whole tiles, straight: `stmatrix`, which turns, moves elements of two bytes.
  const bool is_f32 = value.scalar == KILN_F32 && !is_turned && !op->attrs.access.first;
  if (!is_f32 && (kiln_scalars[value.scalar].bytes != 2 || ir_type_class(value) != KILN_CLASS_FLOAT)) return;
  unsigned across = kiln_part_of(op, columns), down = kiln_part_of(op, 1 - columns);
  if (across % p->machine->part_columns || down % (1u << p->machine->log2_rows)) return;
  if (down && !p->kernel->groups_beside) return;
  if (has_shape_of_sums(p, value)) mark_written(p, op, is_turned);
}

static void unmark(ir_kernel *kernel) {
  for (ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op))
    if (ir_is_mapped(op))
      op->attrs.access.is_mapped = op->attrs.access.is_turned = op->attrs.access.is_ragged = false;
}

/// Shared memory besides the slots: staging of stores, barriers, exchanges.
enum { SPARE = 34 * 1024 };

static kiln_report_reason judge_room(const promoting *p) {
  uint64_t room = p->target->processor->shared_bytes;
  kiln_spread spread = kiln_gpu_blocks_of_program(p->machine, p->kernel);
  unsigned groups = p->kernel->warps / p->machine->group_warps / spread.blocks,
           rows = spread.blocks / spread.columns;
  uint64_t slot = (p->loop_bytes - p->left_bytes) / spread.columns + p->left_bytes / rows;
  if (p->is_divided && spread.columns < 2) return KILN_REASON_PARTS;
  if ((p->is_tall[0] && rows < 2) || (p->is_tall[1] && spread.columns < 2)) return KILN_REASON_MAP_TILE;
  if (!p->loads || !p->loop_bytes) return KILN_REASON_NO_LOOP;
  if ((groups + 1) * p->machine->group_warps * 32u > p->machine->threads) return KILN_REASON_WARPS;
  if (p->registers + KILN_SPARE_REGISTERS > kiln_consumer_registers(p->machine, groups, 1))
    return spread.blocks == 1 && groups > 2 ? KILN_REASON_SHARED : KILN_REASON_REGISTERS;
  // A loop must have two slots, or one where products take turns (roles_rings.c): another product of the block takes
  // other loads.
  unsigned slots = 1;
  for (unsigned i = 0; i < MOST_LOADS && p->marked[i].load; i++) {
    bool has_neighbour = false;
    for (unsigned k = 0; k < MOST_LOADS && p->marked[k].load; k++)
      has_neighbour |=
          p->marked[k].dot != p->marked[i].dot && p->marked[k].load->block == p->marked[i].load->block;
    if (is_in_loop(p->marked[i].load) && (p->marked[i].uses > 1 || !has_neighbour)) slots = 2;
  }
  return p->fixed_bytes + slots * slot + SPARE > room ? KILN_REASON_SLOTS : KILN_REASON_NONE;
}

/// What the marked products of a kernel want.
typedef struct demand {
  unsigned registers; ///< accumulators of a thread
  bool is_alone;      ///< one warpgroup, of whose blocks an SM has room for one
  bool has_rows;      ///< for two groups, in every product
} demand;

static unsigned promote(ir_kernel *kernel, const kiln_target *target, kiln_refusals *refusals, demand *out) {
  const kiln_matrix_machine *machine = kiln_matrix_machine_of(target);
  if (!machine) return 0;
  if (kernel->warps < machine->group_warps || kernel->max_registers)
    return kiln_refuse_others(refusals, KILN_REASON_GROUPS), 0;
  kiln_arena *scratch = kiln_arena_create();
  promoting p = {
      .kernel = kernel, .machine = machine, .target = target, .refusals = refusals, .has_rows = true};
  p.facts = kiln_facts_compute(scratch, kernel);
  ir_count_uses(kernel);
  for (const ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op)) {
    bool is_memory = op->code == IR_STORE || op->code == IR_VIEW_STORE || op->code == IR_VIEW_ATOMIC;
    bool is_atomic = op->code == IR_ATOMIC && op->attrs.order == IR_ORDER_RELAXED;
    bool is_pure_text = op->code == IR_ASM && op->attrs.assembly.is_pure;
    bool waits = op->code == IR_BARRIER || op->code == IR_CAS || op->code == IR_ASSERT;
    p.has_split |= op->code == IR_FOR && op->attrs.loop.split > 1;
    if (op->code == IR_WHILE) p.refused = KILN_REASON_WHILE;
    if (waits || (ir_ops[op->code].effect == IR_WRITE && !is_memory && !is_atomic && !is_pure_text))
      p.refused = KILN_REASON_EFFECTS;
  }
  const bool is_open = !p.refused;
  for (ir_op *op = ir_next(kernel->body, NULL); op && is_open; op = ir_next(kernel->body, op))
    if (op->code == IR_DOT) judge_dot(&p, op);
  for (ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op)) judge_store(&p, op);
  kiln_report_reason why = p.refused ? p.refused : judge_room(&p);
  // A product that is left wants a marked load in registers.
  bool is_in_registers = p.leaves_product;
  for (unsigned i = 0; i < MOST_LOADS && p.marked[i].load; i++)
    is_in_registers |= p.marked[i].uses != p.marked[i].load->results[0].uses;
  if (!why && is_in_registers) why = KILN_REASON_USES;
  if (why) {
    kiln_refuse_others(refusals, why);
    unmark(kernel);
    kernel->groups_beside = false;
    p.loads = 0;
  }
  // With as many slots as the kernel wants; one group stages 64 rows of 256 bytes.
  enum { STAGED = 17 * 1024, DEFAULT_SLOTS = 4 };
  const uint64_t slots = kernel->stages ? kernel->stages : DEFAULT_SLOTS,
                 bytes = p.fixed_bytes + slots * p.loop_bytes + STAGED;
  *out = (demand){.registers = p.registers, .has_rows = p.has_rows};
  out->is_alone =
      kernel->warps == machine->group_warps &&
      (bytes > target->processor->shared_bytes || kiln_blocks_within(machine, target, (uint32_t)bytes) < 2);
  kiln_arena_destroy(scratch);
  return p.loads;
}

/// The number of warps shares work out and means nothing else: where one group's accumulators leave little
/// room for the rest, two groups share them. So they do where a block of one group would have a processor for
/// itself, and leave its unit idle whenever it waits.
static unsigned promote_shared(ir_kernel *kernel, const kiln_target *target, kiln_refusals *refusals) {
  enum { MOST_OF_ONE_GROUP = 128 };
  const kiln_matrix_machine *machine = kiln_matrix_machine_of(target);
  demand needs = {0};
  if (refusals && (refusals->count || refusals->others)) refusals = NULL;
  unsigned loads = promote(kernel, target, refusals, &needs);
  bool is_shared = needs.registers > MOST_OF_ONE_GROUP ||
                   (loads && needs.registers == MOST_OF_ONE_GROUP && needs.is_alone && needs.has_rows);
  if (!machine || !is_shared || kernel->warps != machine->group_warps) return loads;
  unmark(kernel);
  kernel->warps *= 2;
  unsigned more = promote(kernel, target, NULL, &needs);
  if (more && refusals) refusals->others = KILN_REASON_NONE;
  if (more) return more;
  kernel->warps /= 2;
  return promote(kernel, target, NULL, &needs);
}

/// Axes of whose extent the launch alone decides are made for `limit` programs (the pass grid).
static void limit_programs(ir_kernel *kernel, int64_t limit) {
  for (unsigned axis = 0; axis < 3; axis++) {
    if (!kernel->tests.programs[axis] && kernel->grid_limit[axis] != IR_GRID_UNKNOWN) continue;
    kernel->grid_limit[axis] = limit;
    kernel->tests.programs[axis] = (uint32_t)limit;
  }
}

/// What the launch shall test so that accesses become those of views; 0: nothing.
typedef struct assumed {
  int64_t programs; ///< the most along each axis of the grid
  int64_t extents;  ///< the largest that masks compare with, the least being 0
} assumed;

/// Recovers with what is assumed, in place. Returns how many accesses.
static unsigned recover_assuming(ir_kernel *kernel, kiln_pass_context *context, assumed what,
                                 kiln_unrecovered *out_left) {
  kiln_error ignored = {0};
  if (what.programs) limit_programs(kernel, what.programs);
  if (!what.extents) return kiln_gpu_recover_views(kernel, out_left);
  kiln_gpu_level_counters(kernel);
  if (kiln_pass_simplify(kernel, context, &ignored) != KILN_OK ||
      !kiln_gpu_limit_extents(kernel, what.extents))
    return 0;
  return kiln_gpu_recover_views(kernel, out_left);
}

/// How many accesses become those of views where that is worth it.
static unsigned count_recovered(const ir_kernel *kernel, kiln_pass_context *context, kiln_refusals *refusals,
                                assumed what, kiln_unrecovered *out_left) {
  kiln_arena *scratch = kiln_arena_create();
  *out_left = (kiln_unrecovered){0};
  ir_kernel in_scratch = *kernel;
  in_scratch.arena = scratch;
  ir_kernel *trial = ir_kernel_copy(&in_scratch);
  unsigned count = trial ? recover_assuming(trial, context, what, out_left) : 0;
  if (count && !promote_shared(trial, context->target, refusals)) count = 0;
  kiln_arena_destroy(scratch);
  return count;
}

/// What a program's number is multiplied by decides how many programs 32 bits are enough for. Where some
/// access stays for any number, extents that are not negative may help, and not too large.
kiln_status kiln_pass_recover(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  enum { LEAST_PROGRAMS = 16, MOST_PROGRAMS = 22, LEAST_EXTENT = 24, MOST_EXTENT = 30 }; // logarithms
  (void)err;
  if (context->mapping & KILN_MAP_ANYWAY) kiln_gpu_recover_views(kernel, NULL);
  if (context->mapping & KILN_MAP_ANYWAY || !(context->mapping & KILN_MAP_RECOVER) ||
      !kiln_matrix_machine_of(context->target))
    return KILN_OK;
  kiln_unrecovered left, ignored;
  assumed chosen = {0, 0};
  unsigned best = count_recovered(kernel, context, context->refusals, chosen, &left);
  for (unsigned log2 = MOST_PROGRAMS; left.fewer_programs && log2 >= LEAST_PROGRAMS; log2 -= 2) {
    const assumed what = {.programs = (int64_t)1 << log2};
    const unsigned count = count_recovered(kernel, context, NULL, what, &ignored);
    if (count > best) best = count, chosen = what;
  }
  for (unsigned log2 = MOST_EXTENT; !chosen.programs && left.count && log2 >= LEAST_EXTENT; log2 -= 2) {
    const assumed what = {.extents = (int64_t)1 << log2};
    const unsigned count = count_recovered(kernel, context, NULL, what, &ignored);
    if (count > best) best = count, chosen = what;
  }
  if (best) recover_assuming(kernel, context, chosen, NULL);
  return KILN_OK;
}

kiln_status kiln_pass_promote(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)err;
  if (context->mapping & KILN_MAP_PROMOTE) promote_shared(kernel, context->target, context->refusals);
  return KILN_OK;
}

bool kiln_gpu_has_mapped(ir_kernel *kernel) {
  for (const ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op))
    if (ir_is_mapped(op)) return true;
  return false;
}

bool kiln_gpu_has_form(ir_kernel *kernel) {
  for (const ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op))
    if (op->code >= IR_TILE_COUNT) return true;
  return kiln_gpu_has_mapped(kernel);
}
