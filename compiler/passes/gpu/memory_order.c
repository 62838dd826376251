// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `memory-order`: within a program, accesses of the same memory happen in the order of the text
// (docs/ir.md). Threads of a program do not run in step, lanes of a warp included, so where one thread
// touches what another one has touched before, a barrier stands between: in a straight line, and from one
// turn of a loop to the next.
//
// No barrier is needed where both accesses
//   - read, or add by atomics that nobody takes the old value of;
//   - are of different parameters, unless a load follows a store and the buffers overlap. The program
//     tests that before its first write (gpu/overlap.h) and runs the barrier only where they overlap. Where
//     addresses are loaded it cannot test, and always runs it;
//   - surely have no byte in common (analysis/address.h);
//   - touch each element by the same thread: the same pointers in the same layout, which has each element
//     once. A scalar is stored by the first thread and loaded by all.
//
// Runs after `layouts` and `conversions`, which decide which thread has what. It adds barriers, branches
// around them, and the scalars that they test. Programs are not ordered among each other: the loop over a
// block's programs is no loop here.
//
// What the copy engine writes is waited for in full, and a proxy fence orders it with accesses of threads
// (is_engine). Its loads never follow a write of the same memory without a wait (roles_order.c), and what `fetch` copies has
// arrived for all threads before its loop ends. Blocks of a cluster do not meet here: a kernel in which they
// would have to is compiled without them.
#include "compiler/analysis/address.h"
#include "compiler/analysis/provenance.h"
#include "compiler/passes/gpu/layouts/layouts.h"
#include "compiler/passes/gpu/loops.h"
#include "compiler/passes/gpu/overlap.h"

#include <string.h>

enum {
  MOST_PENDING = 256, ///< accesses since a barrier; with more there is one, whatever they are
  MOST_NESTED = 6 ///< loops within one another that are walked twice each; deeper ones begin with a barrier
};

/// An access since the last barrier.
typedef struct pending {
  ir_op *op;
  const ir_op *turned; ///< the outermost loop of which a turn has ended since; NULL: none
  bool is_guarded;     ///< where parameters overlap, a barrier has been met since
} pending;

/// A barrier that is met where parameters overlap.
typedef struct guard {
  ir_op *before;
  bool is_engine;
} guard;

/// Whose memory an access may touch.
typedef struct owners {
  uint64_t *params; ///< set of parameters
  bool is_unknown;  ///< what comes from memory or a number
} owners;

typedef struct ordering {
  ir_kernel *kernel;
  kiln_arena *scratch;
  kiln_addresses *addresses;
  kiln_sources sources;
  owners *owners; ///< by ir_op.number
  owners *found;  ///< of the search that runs
  pending *pending;
  uint32_t count, capacity;
  unsigned depth;
  bool meets;            ///< a barrier was needed
  kiln_kept_notes notes; ///< of the layouts, as they were before
  ir_op *
      first_write; ///< of a program, or what has it inside; NULL: nothing is written that could be read again
  kiln_overlaps *overlaps; ///< of what is asked before that; NULL: nothing yet
  guard *guards;
  uint32_t guard_count, guard_capacity;
  ir_builder builder;
} ordering;

// ----------------------------------------------------------------------------------------- accesses

static bool is_text(const ir_op *op) { return op->code == IR_ASM && !op->attrs.assembly.is_pure; }

/// Text may do anything to what its pointers lead to.
static bool has_pointer(const ir_op *op) {
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (op->operands[i]->type.pointer) return true;
  return false;
}

static bool is_atomic(const ir_op *op) { return op->code == IR_ATOMIC || op->code == IR_CAS; }

static bool reads(const ir_op *op) {
  return op->code == IR_LOAD || op->code == IR_FETCH || is_atomic(op) || (is_text(op) && has_pointer(op));
}

static bool writes(const ir_op *op) {
  return op->code == IR_STORE || op->code == IR_STAGE || is_atomic(op) || (is_text(op) && has_pointer(op));
}

/// Additions and the like of which nobody takes the old value may trade places with their kind.
static bool commutes(const ir_op *first, const ir_op *second) {
  const bool add = first->code == IR_STAGE && first->attrs.access.adds && second->code == IR_STAGE &&
                   second->attrs.access.adds;
  const bool combine =
      first->code == IR_ATOMIC && second->code == IR_ATOMIC && first->attrs.kind == second->attrs.kind &&
      !first->results[0].uses && !second->results[0].uses && first->attrs.order == IR_ORDER_RELAXED &&
      second->attrs.order == IR_ORDER_RELAXED && ir_combines[first->attrs.kind].operation != IR_OPCODE_COUNT;
  return add || combine;
}

static void note_owner(const ir_value *source, void *context) {
  ordering *o = context;
  if (source->def) o->found->is_unknown = true;
  else o->found->params[source->index / 64] |= (uint64_t)1 << source->index % 64;
}

/// They are of different parameters, neither of which promises to be alone: a load after a store.
static bool may_overlap(const ordering *o, const ir_op *first, const ir_op *second) {
  const owners *x = &o->owners[first->number], *y = &o->owners[second->number];
  bool may[2] = {false, false};
  for (uint32_t i = 0; i < o->kernel->param_count; i++) {
    may[0] |= (x->params[i / 64] >> i % 64 & 1) && !o->kernel->params[i].noalias;
    may[1] |= (y->params[i / 64] >> i % 64 & 1) && !o->kernel->params[i].noalias;
  }
  const bool sees = reads(second) && (!is_atomic(second) || second->results[0].uses);
  return writes(first) && sees && may[0] && may[1];
}

static bool may_share_memory(const ordering *o, const ir_op *first, const ir_op *second) {
  const owners *x = &o->owners[first->number], *y = &o->owners[second->number];
  if (x->is_unknown || y->is_unknown) return true;
  for (uint32_t i = 0; i <= o->kernel->param_count / 64; i++)
    if (x->params[i] & y->params[i]) return true;
  return false;
}

// ------------------------------------------------------------------------------------------ threads

static bool is_tile(const ir_op *op) { return op->operands[0]->type.rank != 0; }

/// Of a scalar, by the first thread; of a tile, by one of the threads that hold an element.
static bool is_done_once(const ir_op *op) {
  bool is_shared =
      (op->attrs.flags & IR_VOLATILE) || op->attrs.cache == IR_CACHE_CV; // codegen/gpu/gpu_memory.c
  return op->code == IR_STORE || is_atomic(op) || (op->code == IR_LOAD && !is_tile(op) && is_shared);
}

static bool is_plain(const ir_op *op) { return op->code == IR_LOAD || op->code == IR_STORE || is_atomic(op); }

static bool is_by_same_thread(const kiln_access_pair *pair) {
  const ir_op *first = pair->first, *second = pair->second;
  if (!is_plain(first) || !is_plain(second) || is_tile(first) != is_tile(second)) return false;
  if (!is_tile(first)) return is_done_once(first) && is_done_once(second);
  const kiln_layout *layout = first->operand_layouts[0];
  return layout_equal(layout, second->operand_layouts[0]) &&
         (!layout_replicas(layout) || (is_done_once(first) && is_done_once(second))) &&
         kiln_same_value(pair, first->operands[0], second->operands[0]);
}

/// What must stand between two accesses.
typedef enum need { NEEDS_NOTHING, NEEDS_GUARD, NEEDS_BARRIER } need;

static need need_between(ordering *o, const pending *before, const ir_op *op) {
  const kiln_access_pair pair = {before->op, op, before->turned};
  if (!writes(before->op) && !writes(op)) return NEEDS_NOTHING;
  if (before->op->code == IR_FETCH || commutes(before->op, op)) return NEEDS_NOTHING;
  if (may_share_memory(o, before->op, op)) {
    const bool is_apart =
        is_plain(op) == is_plain(before->op) && !is_text(op) && kiln_are_disjoint(o->addresses, &pair);
    return is_by_same_thread(&pair) || is_apart ? NEEDS_NOTHING : NEEDS_BARRIER;
  }
  if (!may_overlap(o, before->op, op)) return NEEDS_NOTHING;
  if (!o->overlaps)
    o->overlaps =
        kiln_overlaps_create(o->kernel, o->scratch, o->addresses, o->kernel->layouts->facts, o->first_write);
  if (!kiln_extent_of(o->overlaps, before->op)->is_known || !kiln_extent_of(o->overlaps, op)->is_known)
    return NEEDS_BARRIER;
  kiln_overlaps_ask(o->overlaps, before->op, op);
  return before->is_guarded ? NEEDS_NOTHING : NEEDS_GUARD;
}

// ----------------------------------------------------------------------------------------- the walk

static void meet_before(ordering *o, ir_op *op, bool is_engine) {
  const ir_attrs attrs = {.barrier = {.is_engine = is_engine}};
  o->builder.block = op->block, o->builder.before = op, o->builder.place = op->place;
  ir_emit(&o->builder, IR_BARRIER, &attrs, NULL, 0, NULL, NULL, 0);
  o->meets = true;
  o->count = 0;
}

static void guard_before(ordering *o, ir_op *op, bool is_engine) {
  for (uint32_t i = 0; i < o->count; i++) o->pending[i].is_guarded = true;
  for (uint32_t i = 0; i < o->guard_count; i++)
    if (o->guards[i].before == op) {
      o->guards[i].is_engine |= is_engine;
      return;
    }
  KILN_GROW(o->scratch, o->guards, o->guard_count, o->guard_capacity);
  o->guards[o->guard_count++] = (guard){op, is_engine};
}

static void add_pending(ordering *o, const pending *p) {
  for (uint32_t i = 0; i < o->count; i++)
    if (o->pending[i].op == p->op && o->pending[i].turned == p->turned) {
      o->pending[i].is_guarded &= p->is_guarded;
      return;
    }
  KILN_GROW(o->scratch, o->pending, o->count, o->capacity);
  o->pending[o->count++] = *p;
}

/// What is pending on one of several ways.
typedef struct way {
  const pending *pending;
  uint32_t count;
} way;

static way keep_way(const ordering *o) {
  return (way){kiln_arena_copy(o->scratch, o->pending, o->count * sizeof *o->pending), o->count};
}

static void join_way(ordering *o, way w) {
  for (uint32_t i = 0; i < w.count; i++) add_pending(o, &w.pending[i]);
}

/// What the accesses that are pending and `op` need, all together.
typedef struct needs {
  need most;
  bool is_engine;
} needs;

static void note_needs(ordering *o, needs *n, const ir_op *op) {
  if (!reads(op) && !writes(op)) return;
  for (uint32_t i = 0; i < o->count; i++) {
    const need one = need_between(o, &o->pending[i], op);
    if (one > n->most) n->most = one;
    n->is_engine |= one && (op->code == IR_STAGE || o->pending[i].op->code == IR_STAGE);
  }
}

static void meet(ordering *o, ir_op *before, const needs *n) {
  if (n->most == NEEDS_BARRIER) meet_before(o, before, n->is_engine);
  else if (n->most == NEEDS_GUARD) guard_before(o, before, n->is_engine);
}

static void visit_block(ordering *o, ir_block *block);

static void visit_if(ordering *o, const ir_op *op) {
  const way before = keep_way(o);
  visit_block(o, op->regions[0]);
  const way left = keep_way(o);
  o->count = 0;
  join_way(o, before);
  visit_block(o, op->regions[1]);
  join_way(o, left);
}

/// One barrier before the loop instead of one in each turn. The second time finds what the turn before has left.
/// The loop may also have no turn.
static void visit_loop(ordering *o, ir_op *op) {
  needs n = {0};
  if (o->count)
    for (const ir_op *in = ir_next(op->block, op); in != op->next; in = ir_next(op->block, in))
      note_needs(o, &n, in);
  meet(o, op, &n);
  const way before = keep_way(o);
  o->depth++;
  for (unsigned turn = 0; turn < (o->depth > MOST_NESTED ? 1u : 2u); turn++) {
    for (unsigned i = 0; turn && i < o->count; i++)
      if (ir_is_inside(o->pending[i].op->block, op)) o->pending[i].turned = op;
    if (o->depth > MOST_NESTED) meet_before(o, op->regions[0]->first, true);
    for (uint32_t i = 0; i < op->region_count; i++) visit_block(o, op->regions[i]);
  }
  join_way(o, before);
  o->depth--;
}

static void visit_block(ordering *o, ir_block *block) {
  for (ir_op *op = block->first; op; op = op->next) {
    if (op->code == IR_BARRIER && !op->attrs.barrier.is_shared) o->count = 0;
    else if (reads(op) || writes(op)) {
      needs n = {0};
      note_needs(o, &n, op);
      if (o->count >= MOST_PENDING) n.most = NEEDS_BARRIER, n.is_engine = true;
      meet(o, op, &n);
      add_pending(o, &(pending){.op = op});
    } else if (op->code == IR_IF) visit_if(o, op);
    else if (ir_is_loop(op)) visit_loop(o, op);
  }
}

/// `if overlap { barrier }`.
static void emit_guard(ordering *o, const guard *g, ir_value *overlap) {
  ir_builder *b = &o->builder;
  ir_block *sides[2] = {KILN_NEW(b->arena, ir_block), KILN_NEW(b->arena, ir_block)};
  b->place = g->before->place;
  for (unsigned i = 0; i < 2; i++) {
    b->block = sides[i], b->before = NULL;
    const ir_attrs attrs = {.barrier = {.is_engine = g->is_engine}};
    if (!i) ir_emit(b, IR_BARRIER, &attrs, NULL, 0, NULL, NULL, 0);
    ir_yield(b, NULL, 0);
  }
  b->block = g->before->block, b->before = g->before;
  ir_emit(b, IR_IF, NULL, &overlap, 1, NULL, sides, 2);
}

static kiln_status emit_guards(ordering *o, kiln_error *err) {
  kiln_error failed = {0};
  ir_value *overlap = kiln_overlaps_answer(o->overlaps, &failed);
  for (uint32_t i = 0; i < o->guard_count && overlap; i++) emit_guard(o, &o->guards[i], overlap);
  if (failed.status != KILN_OK) return kiln_fail(err, KILN_STATUS_INTERNAL, "memory-order: %s", failed.text);
  kiln_layouts_number_again(&o->notes);
  return KILN_OK;
}

kiln_status kiln_pass_memory_order(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)context;
  kiln_arena *scratch = kiln_arena_create();
  kiln_layouts *c = kernel->layouts;
  ordering *o = KILN_NEW(scratch, ordering);
  const kiln_kept_notes notes = kiln_layouts_keep_notes(c); // numbers the kernel
  *o = (ordering){.kernel = kernel,
                  .scratch = scratch,
                  .notes = notes,
                  .sources = kiln_sources_of(scratch, kernel),
                  .addresses = kiln_addresses_create(scratch, kernel, c->facts),
                  .builder = {.arena = kernel->arena, .machine = true}};
  // Whose memory each access may touch.
  unsigned operations = 0;
  for (const ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op))
    if (op->number >= operations) operations = op->number + 1;
  o->owners = KILN_NEW_ARRAY(scratch, owners, operations);
  ir_count_uses(kernel);
  for (const ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op)) {
    if (!reads(op) && !writes(op)) continue;
    o->found = &o->owners[op->number];
    o->found->params = KILN_NEW_ARRAY(scratch, uint64_t, kernel->param_count / 64 + 1);
    for (uint32_t i = 0; i < op->operand_count; i++)
      if ((op->operands[i]->type.pointer || op->operands[i]->type.is_view) && (!i || op->code == IR_ASM))
        kiln_visit_sources(&o->sources, op->operands[i], note_owner, o);
  }
  // The block that a program starts with. Consumers alone write, and each program of a block by itself.
  const ir_op *roles = kernel->body->last && kernel->body->last->code == IR_ROLES ? kernel->body->last : NULL,
              *programs = roles ? kiln_program_loop(kernel, KILN_CONSUMER) : NULL;
  ir_block *start = programs ? ir_loop_body(programs) : roles ? roles->regions[KILN_CONSUMER] : kernel->body;
  // Whether parameters overlap is asked before the operation that is, or has inside, a program's first write.
  ir_op *first = ir_next(start, NULL);
  while (first && !writes(first)) first = ir_next(start, first);
  while (first && first->block != start) first = first->block->parent;
  o->first_write = first;
  kiln_status status = KILN_OK;
  if (first) visit_block(o, start);
  const bool meets = o->meets || o->guard_count;
  if (o->guard_count) status = emit_guards(o, err);
  if (status == KILN_OK && o->builder.error.status != KILN_OK)
    status = kiln_fail(err, KILN_STATUS_INTERNAL, "memory-order: %s", o->builder.error.text);
  ir_count_uses(kernel); // extents that nothing asks for have used values, too
  kiln_arena_destroy(scratch);
  const bool is_in_cluster = roles && (roles->attrs.roles.spread > 1 || roles->attrs.roles.cluster > 1);
  if (status == KILN_OK && meets && is_in_cluster)
    return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "%s: blocks of a cluster read what others of them write",
                     kernel->name);
  return status;
}
