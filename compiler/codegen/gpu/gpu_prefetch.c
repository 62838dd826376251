// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads of matrix operands ahead of their use, on the IR before layouts are chosen. Where the target copies
// into shared memory by itself, a load in a loop whose value goes to a dot becomes copies into a ring of
// `stages` slots (gpu_async.c); elsewhere it becomes a loop-carried value that the iteration before has
// loaded. Latency hides behind the dots either way.
//
//   for iv in lo..hi { x = load p(iv); dot(x, ...) }   =>   x0 = load p(lo) if lo < hi
//                                                           for iv (x = x0) { x1 = load p(iv + step) if there
//                                                           is a next; dot(x, ...); yield x1 }
//
//   ring of 3: copy p(lo) to slot 0; copy p(lo + step) to slot 1; for iv (slot = 0) { copy p(iv + 2 step) to
//   slot - 1; x = slot; dot(x, ...) }
//
// Needs: the loop writes no memory and has no barrier; address and mask follow from the index, carried values
// and invariants by pure operations.
#include <string.h>

#include "compiler/codegen/gpu/gpu_lower.h"

enum {
  MAX_LOADS = 4,
  MAX_SLICE = 128,
  MAX_BEHIND = 64,
  MAX_WORDS = 32,
  MAX_ALL_WORDS = 176,
  MAX_STAGES = 4,
  DEFAULT_STAGES = 3,
  SPARE_SHARED = 32 * 1024
};

/// As which iteration a value is recomputed: THIS + n is n iterations on, FIRST + n the n-th of the loop.
typedef unsigned iteration;
enum { THIS = 0, NEXT = 1, FIRST = MAX_STAGES, ITERATIONS = 2 * MAX_STAGES };

typedef struct copy {
  const ir_value *from;
  iteration when;
  ir_value *to;
} copy;

typedef struct prefetch {
  ir_kernel *kernel;
  ir_op *loop;
  ir_block *body;
  unsigned threads; ///< logarithm
  gpu *g;
  ir_op *loads[MAX_LOADS], *dots[MAX_LOADS];
  unsigned operands[MAX_LOADS]; ///< of those dots
  unsigned count;
  copy copies[ITERATIONS * MAX_SLICE];
  unsigned copy_count;
  ir_builder b;
  unsigned stages; ///< slots of the ring; 0: registers
  ir_value *index[ITERATIONS], *exists[ITERATIONS];
} prefetch;

// --------------------------------------------------------------------------------------- what fits

static void note_effect(ir_op *op, void *context) {
  uint8_t effect = ir_ops[op->code].effect;
  if (effect == IR_WRITE || effect == IR_SYNC) *(bool *)context = true;
}

static bool is_renaming(const ir_op *op) {
  return op->code == IR_TRANS || op->code == IR_RESHAPE || op->code == IR_EXPAND || op->code == IR_CAST;
}

/// The load in this body that a dot operand comes from, or NULL.
static ir_op *load_behind(const prefetch *p, ir_value *value) {
  for (unsigned i = 0; i < 16 && value->def && value->def->block == p->body; i++) {
    if (value->def->code == IR_LOAD)
      return value->def->operands[0]->type.rank && !(value->def->attrs.flags & IR_VOLATILE) ? value->def
                                                                                            : NULL;
    if (!is_renaming(value->def)) return NULL;
    value = value->def->operands[0];
  }
  return NULL;
}

/// Counts the operations a value needs in this iteration or the next; false when one of them is not pure.
static bool measure(const prefetch *p, const ir_value *value, iteration when, unsigned *size) {
  if (++*size > MAX_SLICE) return false;
  if (!value->def) {
    if (value->block != p->body || value->index == 0 || when == THIS) return true;
    return measure(p, ir_terminator(p->body)->operands[value->index - 1], when - 1, size);
  }
  if (value->def->block != p->body) return true;
  if (ir_ops[value->def->code].effect != IR_PURE || value->def->region_count || value->def->code == IR_DOT)
    return false;
  for (uint32_t i = 0; i < value->def->operand_count; i++)
    if (!measure(p, value->def->operands[i], when, size)) return false;
  return true;
}

static uint64_t words_of(const prefetch *p, ir_type type) {
  unsigned elements = ir_log2_elements(type);
  return (((uint64_t)ir_type_bits(type) << elements) / 32) >> p->threads;
}

static bool add_load(prefetch *p, ir_op *load, ir_op *dot, unsigned operand) {
  unsigned size = 0;
  for (unsigned i = 0; i < p->count; i++)
    if (p->loads[i] == load) return true;
  if (p->count == MAX_LOADS) return false;
  for (uint32_t i = 0; i < load->operand_count; i++)
    if (!measure(p, load->operands[i], p->stages ? p->stages - 1 : NEXT, &size)) return false;
  p->dots[p->count] = dot;
  p->operands[p->count] = operand;
  p->loads[p->count++] = load;
  return true;
}

/// Takes all loads in this body that a dot operand is computed from, as far as `budget` operations reach.
static void add_behind(prefetch *p, const ir_value *value, ir_op *dot, unsigned operand, unsigned *budget) {
  ir_op *op = value->def;
  if (!op || op->block != p->body || !*budget) return;
  --*budget;
  if (op->code == IR_LOAD && op->operands[0]->type.rank && !(op->attrs.flags & IR_VOLATILE)) {
    add_load(p, op, dot, operand);
    return;
  }
  if (ir_ops[op->code].effect != IR_PURE || op->region_count || op->code == IR_DOT) return;
  for (uint32_t i = 0; i < op->operand_count; i++) add_behind(p, op->operands[i], dot, operand, budget);
}

/// Finds the loads; false when there are none or registers would not do. `deep`: also those whose values are
/// computed with before the dot, which only registers can carry.
static bool find_loads(prefetch *p, bool deep) {
  bool has_effect = false;
  uint64_t words = 0, all = 0;
  ir_walk(p->body, note_effect, &has_effect);
  if (has_effect) return false;
  for (ir_op *op = p->body->first; op; op = op->next)
    for (uint32_t i = 0; op->code == IR_DOT && i < 2; i++) {
      unsigned budget = deep ? MAX_BEHIND : 0;
      ir_op *load = deep ? NULL : load_behind(p, op->operands[i]);
      if (load) add_load(p, load, op, i);
      add_behind(p, op->operands[i], op, i, &budget);
    }
  for (unsigned i = 0; i < p->count; i++) words += words_of(p, p->loads[i]->results[0].type);
  for (uint32_t i = 0; i < p->loop->result_count; i++) all += words_of(p, p->loop->results[i].type);
  return p->count && (p->stages || (words <= MAX_WORDS && all + words <= MAX_ALL_WORDS));
}

// ------------------------------------------------------------------------------------------ copies

static ir_value *remembered(const prefetch *p, const ir_value *value, iteration when) {
  for (unsigned i = 0; i < p->copy_count; i++)
    if (p->copies[i].from == value && p->copies[i].when == when) return p->copies[i].to;
  return NULL;
}

static ir_value *remember(prefetch *p, const ir_value *value, iteration when, ir_value *to) {
  if (p->copy_count < sizeof p->copies / sizeof *p->copies)
    p->copies[p->copy_count++] = (copy){value, when, to};
  return to;
}

/// The value as it is in that iteration, computed at the builder's place.
static ir_value *value_in(prefetch *p, ir_value *value, iteration when) {
  bool is_argument = !value->def && value->block == p->body,
       is_inside = value->def && value->def->block == p->body;
  if (!is_argument && !is_inside) return value;
  ir_value *known = remembered(p, value, when);
  if (known) return known;
  if (is_argument) {
    if (when == THIS) return value;
    if (!value->index) return p->index[when];
    if (when == FIRST) return p->loop->operands[2 + value->index];
    return value_in(p, ir_terminator(p->body)->operands[value->index - 1], when - 1);
  }
  ir_op *op = value->def;
  ir_value **operands = KILN_NEW_ARRAY(p->kernel->arena, ir_value *, op->operand_count);
  for (uint32_t i = 0; i < op->operand_count; i++) operands[i] = value_in(p, op->operands[i], when);
  p->b.place = op->place;
  ir_op *made = ir_emit(&p->b, op->code, &op->attrs, operands, op->operand_count, &value->type, NULL, 0);
  return made ? remember(p, value, when, &made->results[value->index]) : value;
}

/// The load as it is in that iteration, under `condition` (i1 scalar).
static ir_value *load_in(prefetch *p, ir_op *load, iteration when, ir_value *condition) {
  ir_value *operands[3] = {NULL};
  for (uint32_t i = 0; i < load->operand_count; i++) operands[i] = value_in(p, load->operands[i], when);
  // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a load has an address
  ir_type mask_type = ir_with_element(operands[0]->type, ir_scalar_type(KILN_I1));
  ir_value *mask = ir_splat(&p->b, condition, mask_type);
  if (operands[1]) mask = ir_binary(&p->b, IR_AND, 0, operands[1], mask);
  operands[1] = mask;
  p->b.place = load->place;
  ir_op *made = ir_emit(&p->b, IR_LOAD, &load->attrs, operands, load->operand_count > 2 ? 3 : 2,
                        &load->results[0].type, NULL, 0);
  return made ? &made->results[0] : NULL;
}

// -------------------------------------------------------------------------------------------- loop

static ir_value **extended(prefetch *p, ir_value **from, uint32_t count, ir_value *const *more,
                           uint32_t more_count) {
  ir_value **out = KILN_NEW_ARRAY(p->kernel->arena, ir_value *, count + more_count);
  for (uint32_t i = 0; i < count; i++) out[i] = from[i];
  for (uint32_t i = 0; i < more_count; i++) out[count + i] = more[i];
  return out;
}

/// Index of iteration `when` and whether the loop comes to it, from those of the iteration before. Exact also
/// near the ends of the integers.
static void advance(prefetch *p, iteration when) {
  ir_value *left = ir_binary(&p->b, IR_SUB, 0, p->loop->operands[1], p->index[when - 1]);
  ir_value *fits = ir_compare(&p->b, IR_GT, IR_UNSIGNED, left, p->loop->operands[2]);
  p->exists[when] = p->exists[when - 1] ? ir_binary(&p->b, IR_AND, 0, p->exists[when - 1], fits) : fits;
  p->index[when] = ir_binary(&p->b, IR_ADD, 0, p->index[when - 1], p->loop->operands[2]);
}

static void at_loop(prefetch *p) {
  p->b = (ir_builder){.arena = p->kernel->arena,
                      .block = p->loop->block,
                      .before = p->loop,
                      .place = p->loop->place,
                      .error = p->b.error};
}

/// Before the loop: indices of its first iterations.
static void open_before(prefetch *p, unsigned count) {
  at_loop(p);
  p->index[FIRST] = p->loop->operands[0];
  p->exists[FIRST] = ir_compare(&p->b, IR_LT, 0, p->loop->operands[0], p->loop->operands[1]);
  for (unsigned n = 1; n < count; n++) advance(p, FIRST + n);
}

/// At the start of the body: indices of iterations to come.
static void open_inside(prefetch *p, unsigned count) {
  p->b = (ir_builder){.arena = p->kernel->arena,
                      .block = p->body,
                      .before = p->body->first,
                      .place = p->loop->place,
                      .error = p->b.error};
  p->index[THIS] = p->body->args[0];
  p->exists[THIS] = NULL;
  for (unsigned n = 1; n <= count; n++) advance(p, THIS + n);
}

/// The loop again with more carried values: `first` before it, `next` at the end of its body. The arguments
/// for them are there already.
static void remake(prefetch *p, ir_value *const *first, ir_value *const *next, uint32_t count) {
  ir_op *loop = p->loop, *end = ir_terminator(p->body);
  end->operands = extended(p, end->operands, end->operand_count, next, count);
  end->operand_count += count;
  ir_value **operands = extended(p, loop->operands, loop->operand_count, first, count);
  at_loop(p);
  ir_apply_forwards(p->kernel);
  ir_op *made =
      ir_emit(&p->b, IR_FOR, &loop->attrs, operands, loop->operand_count + count, NULL, &p->body, 1);
  if (!made) return;
  for (uint32_t i = 0; i < loop->result_count; i++) loop->results[i].forward = &made->results[i];
  loop->region_count = 0; // the body is the new loop's
  ir_remove(loop);
  ir_apply_forwards(p->kernel);
}

static void carry_registers(prefetch *p) {
  ir_value *first[MAX_LOADS], *next[MAX_LOADS];
  open_before(p, 1);
  for (unsigned i = 0; i < p->count; i++) first[i] = load_in(p, p->loads[i], FIRST, p->exists[FIRST]);
  open_inside(p, 1);
  for (unsigned i = 0; i < p->count; i++) next[i] = load_in(p, p->loads[i], NEXT, p->exists[NEXT]);
  if (p->b.error.status != KILN_OK) return; // what was added is unused and pure
  for (unsigned i = 0; i < p->count; i++) {
    p->loads[i]->results[0].forward = ir_block_arg(p->kernel->arena, p->body, p->loads[i]->results[0].type);
    ir_remove(p->loads[i]);
  }
  remake(p, first, next, p->count);
}

// -------------------------------------------------------------------------------------------- ring

static gpu_copy *add_copy(prefetch *p, gpu_ring *ring, ir_value *loaded, bool commits) {
  gpu_copy *made = KILN_NEW(p->kernel->arena, gpu_copy);
  *made =
      (gpu_copy){.next = p->g->copies, .load = loaded ? loaded->def : NULL, .ring = ring, .commits = commits};
  p->g->copies = made;
  return made;
}

static void make_ring(prefetch *p) {
  gpu_ring *rings[MAX_LOADS] = {NULL};
  const unsigned ahead = p->stages - 1;
  open_before(p, ahead);
  for (unsigned i = 0; i < p->count; i++) {
    rings[i] = KILN_NEW(p->kernel->arena, gpu_ring);
    *rings[i] = (gpu_ring){.next = p->g->rings,
                           .read = p->loads[i],
                           .dot = p->dots[i],
                           .operand = p->operands[i],
                           .body = p->body,
                           .stages = p->stages};
    p->g->rings = rings[i];
  }
  for (unsigned n = 0; n < ahead; n++)
    for (unsigned i = 0; i < p->count; i++)
      add_copy(p, rings[i], load_in(p, p->loads[i], FIRST + n, p->exists[FIRST + n]), i + 1 == p->count)
          ->slot = n;
  ir_value *zero = ir_const_int(&p->b, KILN_I32, 0);
  open_inside(p, ahead);
  ir_value *slot = ir_block_arg(p->kernel->arena, p->body, ir_scalar_type(KILN_I32)),
           *one = ir_const_int(&p->b, KILN_I32, 1);
  ir_value *none = ir_const_int(&p->b, KILN_I32, 0), *last = ir_const_int(&p->b, KILN_I32, (int64_t)ahead);
  ir_value *write = ir_ternary(&p->b, IR_SELECT, 0, ir_compare(&p->b, IR_EQ, 0, slot, none), last,
                               ir_binary(&p->b, IR_SUB, 0, slot, one));
  ir_value *next = ir_ternary(&p->b, IR_SELECT, 0, ir_compare(&p->b, IR_EQ, 0, slot, last), none,
                              ir_binary(&p->b, IR_ADD, 0, slot, one));
  for (unsigned i = 0; i < p->count; i++) {
    rings[i]->read_slot = slot; // NOLINT(clang-analyzer-core.NullDereference): the first loop makes them all
    add_copy(p, rings[i], load_in(p, p->loads[i], THIS + ahead, p->exists[THIS + ahead]), i + 1 == p->count)
        ->write_slot = write;
  }
  if (p->b.error.status == KILN_OK) remake(p, &zero, &next, 1);
}

// ------------------------------------------------------------------------------------------ choice

/// Slots that shared memory has room for, as asked for by loop or kernel; below 2: none.
static unsigned stages_for(const prefetch *p) {
  unsigned asked = p->loop->attrs.stages ? p->loop->attrs.stages
                   : p->kernel->stages   ? p->kernel->stages
                                         : DEFAULT_STAGES;
  uint64_t bytes = 0,
           room = p->g->machine->max_shared > SPARE_SHARED ? p->g->machine->max_shared - SPARE_SHARED : 0;
  for (unsigned i = 0; i < p->count; i++) {
    ir_type type = p->loads[i]->results[0].type;
    bytes += ((uint64_t)ir_type_bits(type) << ir_log2_elements(type)) / 8;
  }
  if (asked > MAX_STAGES) asked = MAX_STAGES;
  while (asked > 1 && asked * bytes > room) asked--;
  return asked;
}

/// A load can be copied when pieces of at least a word are in a row, each thread has one, what is masked off
/// is zero, and it goes straight to a matrix instruction.
static bool can_copy(const prefetch *p, unsigned i) {
  const ir_op *load = p->loads[i];
  const ir_value *mask = load->operand_count > 1 ? load->operands[1] : NULL;
  ir_type type = load->results[0].type;
  uint64_t other = 0;
  unsigned best = 0, bits = ir_type_bits(type);
  if (load->operand_count > 2 && (!ir_constant_bits(load->operands[2], &other) || other)) return false;
  for (const ir_value *v = p->dots[i]->operands[p->operands[i]]; v->def != load; v = v->def->operands[0])
    if (v->def->code == IR_CAST) return false;
  for (unsigned a = 0; a < type.rank; a++) {
    unsigned vector = kiln_fact_vector(p->g->facts, load->operands[0], mask, a, 4);
    if (vector > best) best = vector;
  }
  return bits >= 8 && bits << best >= 32 && words_of(p, type) && gpu_dot_uses_matrix(p->g, p->dots[i]);
}

static void visit(ir_op *op, void *context) {
  gpu *g = context;
  if (op->code != IR_FOR) return;
  prefetch *p = KILN_NEW(g->arena, prefetch);
  *p = (prefetch){.g = g,
                  .kernel = g->kernel,
                  .loop = op,
                  .body = op->regions[0],
                  .threads = g->lanes + g->warps,
                  .stages = MAX_STAGES};
  bool copies = kl_has(&g->prelude, KL_kl_copy_16) && find_loads(p, false);
  for (unsigned i = 0; copies && i < p->count; i++) copies = can_copy(p, i);
  p->stages = copies ? stages_for(p) : 0;
  if (p->stages >= 2) {
    make_ring(p);
    return;
  }
  p->stages = 0;
  for (int deep = 1; deep >= 0; deep--) {
    p->count = 0;
    if (find_loads(p, deep)) {
      carry_registers(p);
      return;
    }
  }
}

void gpu_prefetch(gpu *g) { ir_walk(g->kernel->body, visit, g); }
