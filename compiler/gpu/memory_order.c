// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `memory-order`: within a program, accesses of the same memory happen in the order of the text
// (docs/ir.md). Threads of a program do not run in step, lanes of a warp included, so where one thread touches
// what another one has touched before, a barrier stands between: in a straight line, and from one turn of a
// loop to the next.
//
// No barrier is needed where both accesses
//   - read, or add by atomics that nobody takes the old value of;
//   - are of different parameters;
//   - surely have no byte in common (analysis/address.h);
//   - touch each element by the same thread: the same pointers in the same layout, which has each element
//     once. A scalar is stored by the first thread and loaded by all.
//
// Runs behind `layouts` and `conversions`, whose choice decides which thread has what, and adds barriers
// only. Programs are not ordered among each other: the loop over a block's programs is no loop here.
//
// What the copy engine writes is waited for in full, and a proxy fence orders it with accesses of threads
// (IR_ENGINE). Its loads never follow a write of the same memory (promote.c), and what `fetch` copies has
// arrived for all threads before its loop ends. Blocks of a cluster do not meet here: a kernel in which they
// would have to is compiled without them.
#include "compiler/analysis/address.h"
#include "compiler/analysis/provenance.h"
#include "compiler/gpu/layouts/layouts.h"
#include "compiler/gpu/loops.h"

#include <string.h>

enum {
  MOST_PENDING = 256, ///< accesses since a barrier; with more there is one, whatever they are
  MOST_NESTED = 6     ///< loops within one another that are walked twice each; deeper ones begin with a barrier
};

static bool is_inside(const ir_block *block, const ir_op *op) {
  for (; block; block = block->parent ? block->parent->block : NULL)
    if (block->parent == op) return true;
  return false;
}

/// An access since the last barrier.
typedef struct pending {
  ir_op *op;
  const ir_op *turned; ///< the outermost loop of which a turn has ended since; NULL: none
} pending;

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
  bool meets; ///< a barrier was needed
  ir_builder builder;
} ordering;

// ----------------------------------------------------------------------------------------- accesses

static bool is_text(const ir_op *op) { return op->code == IR_ASM && !(op->attrs.flags & IR_ASM_PURE); }

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
  const bool add = first->code == IR_STAGE && (first->attrs.flags & IR_ADDS) && second->code == IR_STAGE &&
                   (second->attrs.flags & IR_ADDS);
  const bool combine = first->code == IR_ATOMIC && second->code == IR_ATOMIC &&
                       first->attrs.kind == second->attrs.kind && !first->results[0].uses &&
                       !second->results[0].uses && first->attrs.order == IR_ORDER_RELAXED &&
                       second->attrs.order == IR_ORDER_RELAXED &&
                       ir_combines[first->attrs.kind].operation != IR_OPCODE_COUNT;
  return add || combine;
}

static void note_owner(const ir_value *source, void *context) {
  ordering *o = context;
  if (!kiln_is_first_source(source)) return;
  if (source->def) o->found->is_unknown = true;
  else o->found->params[source->index / 64] |= (uint64_t)1 << source->index % 64;
}

static void find_owners(ir_op *op, void *context) {
  ordering *o = context;
  if (!reads(op) && !writes(op)) return;
  o->found = &o->owners[op->number];
  o->found->params = KILN_NEW_ARRAY(o->scratch, uint64_t, o->kernel->param_count / 64 + 1);
  for (uint32_t i = 0; i < op->operand_count; i++)
    if ((op->operands[i]->type.pointer || op->operands[i]->type.is_view) && (!i || op->code == IR_ASM))
      kiln_visit_sources(&o->sources, op->operands[i], note_owner, o);
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
  bool is_shared = (op->attrs.flags & IR_VOLATILE) || op->attrs.cache == IR_CACHE_CV; // codegen/gpu/gpu_memory.c
  return op->code == IR_STORE || is_atomic(op) || (op->code == IR_LOAD && !is_tile(op) && is_shared);
}

static bool is_plain(const ir_op *op) { return op->code == IR_LOAD || op->code == IR_STORE || is_atomic(op); }

static bool is_by_same_thread(const kiln_access_pair *pair) {
  const ir_op *first = pair->first, *second = pair->second;
  if (!is_plain(first) || !is_plain(second) || is_tile(first) != is_tile(second)) return false;
  if (!is_tile(first)) return is_done_once(first) && is_done_once(second);
  const kiln_layout *layout = first->takes[0];
  return layout_equal(layout, second->takes[0]) &&
         (!layout_replicas(layout) || (is_done_once(first) && is_done_once(second))) &&
         kiln_same_value(pair, first->operands[0], second->operands[0]);
}

static bool must_wait(const ordering *o, const pending *before, const ir_op *op) {
  const kiln_access_pair pair = {before->op, op, before->turned};
  if (!writes(before->op) && !writes(op)) return false;
  if (before->op->code == IR_FETCH || commutes(before->op, op)) return false;
  return may_share_memory(o, before->op, op) && !is_by_same_thread(&pair) &&
         !(is_plain(op) == is_plain(before->op) && !is_text(op) && kiln_are_disjoint(o->addresses, &pair));
}

// ----------------------------------------------------------------------------------------- the walk

static void meet_before(ordering *o, ir_op *op, bool is_engine) {
  const ir_attrs attrs = {.flags = is_engine ? IR_ENGINE : 0};
  o->builder.block = op->block, o->builder.before = op, o->builder.place = op->place;
  ir_emit(&o->builder, IR_BARRIER, &attrs, NULL, 0, NULL, NULL, 0);
  o->meets = true;
  o->count = 0;
}

static void add_pending(ordering *o, ir_op *op, const ir_op *turned) {
  for (uint32_t i = 0; i < o->count; i++)
    if (o->pending[i].op == op && o->pending[i].turned == turned) return;
  KILN_GROW(o->scratch, o->pending, o->count, o->capacity);
  o->pending[o->count++] = (pending){op, turned};
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
  for (uint32_t i = 0; i < w.count; i++) add_pending(o, w.pending[i].op, w.pending[i].turned);
}

static void visit_access(ordering *o, ir_op *op) {
  bool waits = false, is_engine = op->code == IR_STAGE;
  for (unsigned i = 0; i < o->count; i++) {
    if (!must_wait(o, &o->pending[i], op)) continue;
    waits = true;
    is_engine |= o->pending[i].op->code == IR_STAGE;
  }
  if (waits || o->count >= MOST_PENDING) meet_before(o, op, is_engine);
  add_pending(o, op, NULL);
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

typedef struct ahead {
  ordering *o;
  bool waits, is_engine;
} ahead;

static void look_ahead(ir_op *op, void *context) {
  ahead *a = context;
  if (!reads(op) && !writes(op)) return;
  for (unsigned i = 0; i < a->o->count; i++) {
    if (!must_wait(a->o, &a->o->pending[i], op)) continue;
    a->waits = true;
    a->is_engine |= op->code == IR_STAGE || a->o->pending[i].op->code == IR_STAGE;
  }
}

/// One barrier before the loop instead of one in each turn.
static void meet_before_loop(ordering *o, ir_op *loop) {
  ahead a = {.o = o};
  for (uint32_t i = 0; i < loop->region_count && o->count; i++) ir_walk(loop->regions[i], look_ahead, &a);
  if (a.waits) meet_before(o, loop, a.is_engine);
}

/// The second time finds what the turn before has left. The loop may also have no turn.
static void visit_loop(ordering *o, ir_op *op) {
  meet_before_loop(o, op);
  const way before = keep_way(o);
  o->depth++;
  for (unsigned turn = 0; turn < (o->depth > MOST_NESTED ? 1u : 2u); turn++) {
    for (unsigned i = 0; turn && i < o->count; i++)
      if (is_inside(o->pending[i].op->block, op)) o->pending[i].turned = op;
    if (o->depth > MOST_NESTED) meet_before(o, op->regions[0]->first, true);
    for (uint32_t i = 0; i < op->region_count; i++) visit_block(o, op->regions[i]);
  }
  join_way(o, before);
  o->depth--;
}

static void visit_block(ordering *o, ir_block *block) {
  for (ir_op *op = block->first; op; op = op->next) {
    if (op->code == IR_BARRIER && !(op->attrs.flags & IR_SHARED)) o->count = 0;
    else if (reads(op) || writes(op)) visit_access(o, op);
    else if (op->code == IR_IF) visit_if(o, op);
    else if (ir_is_loop(op)) visit_loop(o, op);
  }
}

/// Consumers alone write, and each program of a block by itself.
static void visit_roles(ordering *o, ir_op *roles) {
  ir_op *programs = kiln_program_loop(o->kernel, KILN_CONSUMER);
  for (ir_op *op = roles->regions[KILN_CONSUMER]->first; op; op = op->next)
    if (op != programs && ir_is_loop(op)) visit_loop(o, op);
  o->count = 0;
  if (programs) visit_block(o, ir_loop_body(programs));
}

static void count_write(ir_op *op, void *context) { *(unsigned *)context += writes(op); }

/// Operations have their numbers.
static void count_operation(ir_op *op, void *context) {
  unsigned *count = context;
  if (op->number >= *count) *count = op->number + 1;
}

static ordering *open_ordering(ir_kernel *kernel, kiln_arena *scratch) {
  const kiln_layouts *c = kernel->layouts;
  ordering *o = KILN_NEW(scratch, ordering);
  *o = (ordering){.kernel = kernel,
                  .scratch = scratch,
                  .sources = kiln_sources_of(scratch, kernel),
                  .addresses = kiln_addresses_create(scratch, kernel, c->facts),
                  .builder = {.arena = kernel->arena, .machine = true}};
  unsigned operations = 0;
  ir_walk(kernel->body, count_operation, &operations);
  o->owners = KILN_NEW_ARRAY(scratch, owners, operations);
  ir_count_uses(kernel);
  ir_walk(kernel->body, find_owners, o);
  return o;
}

kiln_status kiln_gpu_order_memory(ir_kernel *kernel, kiln_error *err) {
  unsigned count = 0;
  ir_walk(kernel->body, count_write, &count);
  if (!count) return KILN_OK;
  kiln_arena *scratch = kiln_arena_create();
  if (!scratch) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for the order of accesses");
  ordering *o = open_ordering(kernel, scratch);
  ir_op *roles = kernel->body->last && kernel->body->last->code == IR_ROLES ? kernel->body->last : NULL;
  const bool is_cluster = roles && (roles->attrs.spread > 1 || roles->attrs.split > 1);
  if (roles) visit_roles(o, roles);
  else visit_block(o, kernel->body);
  const bool meets = o->meets;
  kiln_error failed = o->builder.error;
  kiln_arena_destroy(scratch);
  if (failed.status != KILN_OK) return kiln_fail(err, KILN_STATUS_INTERNAL, "memory-order: %s", failed.text);
  if (meets && is_cluster)
    return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "%s: blocks of a cluster read what others of them write",
                     kernel->name);
  return KILN_OK;
}
