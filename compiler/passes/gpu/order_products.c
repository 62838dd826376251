// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two products of a loop, the second of what is computed from the first (attention): while the second of one
// iteration runs, the values between them are computed for the next.
//
//   early   wait, first product, release, and all that the second product's left operand needs
//   late    wait, second product, release, and what the accumulator goes through before it (`ready`)
//
//   early 0; ready 0
//   for the others { issue first; issue second of the iteration before; wait for the first; rest of early;
//                    wait for the second; release; ready }
//   second of the last iteration
//
// Needs the consumer of `roles`. A loop of another form, and one with `@overlap(1)`, stays as it is.
#include <string.h>

#include "compiler/analysis/facts.h"
#include "compiler/passes/gpu/gpu.h"

enum { MOST_OPS = 512, MOST_CARRIED = 64 };

typedef enum stage { EARLY, READY, LATE, LEFT } stage; // LEFT: only when written out, see `rewrite`

typedef struct ordering {
  ir_kernel *kernel;
  ir_op *loop;
  ir_block *body;
  ir_op *wait[2], *product[2], *release[2];
  uint32_t count;             ///< carried
  uint32_t sum;               ///< which carried value is the second product's accumulator
  bool is_late[MOST_CARRIED]; ///< carried values that only the late part moves on
  ir_builder b;
} ordering;

// ----------------------------------------------------------------------------------------- matching

static ir_op *next_of(ir_op *from, ir_opcode code, const ir_op *end) {
  for (ir_op *op = from; op && op != end; op = op->next)
    if (op->code == code) return op;
  return NULL;
}

static ir_op *before(ir_op *from, ir_opcode code, const ir_op *end) {
  for (ir_op *op = from->prev; op && op != end; op = op->prev)
    if (op->code == code) return op;
  return NULL;
}

static bool is_plain(const ordering *o) {
  uint32_t count = 0, products = 0;
  for (const ir_op *op = o->body->first; op; op = op->next) {
    bool is_known = op->code == IR_MMA || op->code == IR_BAR_WAIT || op->code == IR_BAR_ARRIVE ||
                    ir_is_pure(op) || ir_is_terminator(op);
    if (!is_known || op->region_count || ++count > MOST_OPS) return false;
    products += op->code == IR_MMA;
  }
  return products == 2 && o->count <= MOST_CARRIED;
}

static bool find_parts(ordering *o) {
  uint64_t keep;
  o->product[0] = next_of(o->body->first, IR_MMA, NULL);
  o->product[1] = next_of(o->product[0]->next, IR_MMA, NULL);
  for (unsigned i = 0; i < 2; i++) {
    o->wait[i] = before(o->product[i], IR_BAR_WAIT, i ? o->product[0] : NULL);
    o->release[i] = next_of(o->product[i]->next, IR_BAR_ARRIVE, i ? NULL : o->wait[1]);
    if (!o->wait[i] || !o->release[i]) return false;
  }
  const ir_op *first = o->product[0], *second = o->product[1];
  return first->operands[2]->type.slots && !second->operands[2]->type.slots &&
         ir_constant_bits(first->operands[1], &keep) && !keep;
}

/// In ir_value.slot: what a value of the body belongs to, as stage + 1; NULL: outside.
static void set_stage(ir_value *v, stage s) { v->slot = (void *)(uintptr_t)(s + 1); }

static stage stage_of(const ir_value *v) { return v->slot ? (stage)((uintptr_t)v->slot - 1) : EARLY; }

static bool is_late_effect(const ordering *o, const ir_op *op) {
  return op == o->wait[1] || op == o->product[1] || op == o->release[1];
}

static stage judge(const ordering *o, const ir_op *op) {
  if (is_late_effect(o, op)) return LATE;
  stage s = EARLY;
  for (uint32_t i = 0; i < op->operand_count; i++) {
    stage from = stage_of(op->operands[i]);
    if (from > s) s = from;
  }
  return s;
}

/// Gives every value its stage; true when nothing changed.
static bool settle(ordering *o) {
  bool is_settled = true;
  for (uint32_t i = 0; i < o->count; i++)
    set_stage(ir_loop_args(o->loop)[i], !o->is_late[i] ? EARLY : i == o->sum ? READY : LATE);
  for (ir_op *op = o->body->first; op; op = op->next)
    for (uint32_t i = 0; i < op->result_count; i++) set_stage(&op->results[i], judge(o, op));
  for (uint32_t i = 0; i < o->count; i++) {
    if (o->is_late[i] || stage_of(ir_loop_next(o->loop)->operands[i]) == EARLY) continue;
    o->is_late[i] = true;
    is_settled = false;
  }
  return is_settled;
}

/// Carried values that the late part's barriers use are its own.
static void take_position(ordering *o, const ir_value *v) {
  if (!v->def && v->block == o->body && v->index) o->is_late[v->index - 1] = true;
}

/// What the late part reads of its iteration besides the accumulator and the left operand is lost when the
/// next one has begun.
static bool reads_early(const ordering *o, const ir_op *op) {
  uint64_t bits;
  for (uint32_t i = 0; i < op->operand_count; i++) {
    const ir_value *v = op->operands[i];
    bool is_inside = v->def ? v->def->block == o->body : v->block == o->body;
    bool is_left = op == o->product[1] && i == 2;
    if (is_inside && stage_of(v) == EARLY && !is_left && !ir_constant_bits(v, &bits)) return true;
  }
  return false;
}

static bool find_stages(ordering *o) {
  o->sum = 0;
  while (o->sum < o->count && ir_loop_next(o->loop)->operands[o->sum] != &o->product[1]->results[0]) o->sum++;
  if (o->sum == o->count || o->product[1]->results[0].uses != 1) return false;
  o->is_late[o->sum] = true;
  for (uint32_t i = 1; i < o->wait[1]->operand_count; i++) take_position(o, o->wait[1]->operands[i]);
  while (!settle(o)) {
  }
  for (ir_op *op = o->body->first; op; op = op->next) {
    stage s = judge(o, op);
    bool is_effect = !ir_is_pure(op) && !ir_is_terminator(op);
    if (is_effect && !is_late_effect(o, op) && s != EARLY) return false;
    if (s == LATE && !ir_is_terminator(op) && reads_early(o, op)) return false;
  }
  const ir_op *second = o->product[1];
  return stage_of(second->operands[0]) <= READY && stage_of(second->operands[1]) == EARLY &&
         stage_of(second->operands[2]) == EARLY;
}

static bool starts_at_zero_or_more(const ordering *o) {
  kiln_arena *scratch = kiln_arena_create();
  kiln_facts *facts = kiln_facts_compute(scratch, o->kernel);
  bool is = kiln_fact_of(facts, ir_for_lower(o->loop))->lo >= 0;
  kiln_arena_destroy(scratch);
  return is;
}

// ----------------------------------------------------------------------------------------- building

/// Values of the body as they are in one copy, by id of the original.
typedef struct copies {
  ir_value **of;
} copies;

static ir_value *in(const ordering *o, const copies *c, ir_value *v) {
  bool is_inside = v->def ? v->def->block == o->body : v->block == o->body;
  return is_inside && c->of[v->id] ? c->of[v->id] : v;
}

static ir_op *copy_with(ordering *o, copies *c, const ir_op *op, const ir_attrs *attrs) {
  ir_value **operands = KILN_NEW_ARRAY(o->kernel->arena, ir_value *, op->operand_count);
  for (uint32_t i = 0; i < op->operand_count; i++) operands[i] = in(o, c, op->operands[i]);
  o->b.place = op->place;
  const ir_type *given = op->result_count ? &op->results[0].type : NULL;
  ir_op *made = ir_emit(&o->b, op->code, attrs, operands, op->operand_count, given, NULL, 0);
  for (uint32_t i = 0; made && i < op->result_count; i++) c->of[op->results[i].id] = &made->results[i];
  return made;
}

static ir_op *copy_async(ordering *o, copies *c, const ir_op *mma) {
  ir_attrs attrs = mma->attrs;
  attrs.mma.is_async = true;
  return copy_with(o, c, mma, &attrs);
}

/// Copies the operations of a stage from `from` up to `to`, without terminators.
static void copy_stage(ordering *o, copies *c, stage s, ir_op *from, const ir_op *to, const uint8_t *stages) {
  for (ir_op *op = from; op && op != to; op = op->next)
    if (!ir_is_terminator(op) && stages[op->number] == s) copy_with(o, c, op, &op->attrs);
}

static ir_value *finished(ordering *o, ir_value *sum, unsigned out) {
  ir_op *op = ir_emit(&o->b, IR_MMA_WAIT, &(ir_attrs){.wait = {.out = out}}, &sum, 1, NULL, NULL, 0);
  return op ? &op->results[0] : sum;
}

static void clear(copies *c, uint32_t values) { memset(c->of, 0, values * sizeof *c->of); }

/// The carried values of the new loop: the old ones, with the accumulator as it is before the second product,
/// then the left operand of that.
static void collect(const ordering *o, const copies *c, ir_value **out, bool is_next) {
  ir_op *end = ir_loop_next(o->loop);
  for (uint32_t i = 0; i < o->count; i++) {
    ir_value *v = is_next ? end->operands[i] : ir_loop_args(o->loop)[i];
    out[i] = i == o->sum ? in(o, c, o->product[1]->operands[0]) : in(o, c, v);
  }
  out[o->count] = in(o, c, o->product[1]->operands[2]);
}

typedef struct turn {
  ir_block *block;
  ir_value **args;
} turn;

/// The body of the new loop; its iteration is `step` before the counter.
static turn write_turn(ordering *o, copies *c, ir_value *const *like, uint32_t values,
                       const uint8_t *stages) {
  kiln_arena *arena = o->kernel->arena;
  turn t = {.block = KILN_NEW(arena, ir_block), .args = KILN_NEW_ARRAY(arena, ir_value *, o->count + 1u)};
  ir_builder outer = o->b;
  ir_value *counter = ir_block_arg(arena, t.block, ir_for_lower(o->loop)->type);
  for (uint32_t i = 0; i <= o->count; i++) t.args[i] = ir_block_arg(arena, t.block, like[i]->type);
  o->b.block = t.block, o->b.before = NULL;
  clear(c, values);
  c->of[ir_for_counter(o->loop)->id] = ir_binary(&o->b, IR_ADD, 0, counter, ir_for_step(o->loop));
  for (uint32_t i = 0; i < o->count; i++)
    if (i != o->sum) c->of[ir_loop_args(o->loop)[i]->id] = t.args[i];
  // The first product of this iteration, then the second of the one before.
  copy_stage(o, c, EARLY, o->body->first, o->product[0], stages);
  ir_op *first = copy_async(o, c, o->product[0]);
  copies old = {.of = KILN_NEW_ARRAY(arena, ir_value *, values)};
  memcpy(old.of, c->of, values * sizeof *old.of);
  old.of[o->product[1]->operands[0]->id] = t.args[o->sum];
  old.of[o->product[1]->operands[2]->id] = t.args[o->count];
  copy_stage(o, &old, LATE, o->body->first, o->product[1], stages);
  ir_op *second = copy_async(o, &old, o->product[1]);
  if (!first || !second) return t;
  c->of[o->product[0]->results[0].id] = finished(o, &first->results[0], 1);
  copy_stage(o, c, EARLY, o->product[0]->next, NULL, stages);
  ir_value *sum = finished(o, &second->results[0], 0);
  // Registers of the left operand are free when the product that reads them has ended.
  copy_stage(o, c, LEFT, o->product[0]->next, NULL, stages);
  copy_stage(o, &old, LATE, o->product[1]->next, NULL, stages);
  c->of[ir_loop_args(o->loop)[o->sum]->id] = sum;
  copy_stage(o, c, READY, o->body->first, NULL, stages);
  ir_value **next = KILN_NEW_ARRAY(arena, ir_value *, o->count + 1u);
  collect(o, c, next, true);
  for (uint32_t i = 0; i < o->count; i++)
    if (i != o->sum && o->is_late[i]) next[i] = in(o, &old, ir_loop_next(o->loop)->operands[i]);
  ir_yield(&o->b, next, o->count + 1u);
  o->b = (ir_builder){
      .arena = arena, .block = outer.block, .before = outer.before, .machine = true, .error = o->b.error};
  return t;
}

/// Peeled first iteration, the loop, and the last second product; yields what the old loop gave.
static ir_block *write_then(ordering *o, uint32_t values, const uint8_t *stages) {
  kiln_arena *arena = o->kernel->arena;
  ir_block *block = KILN_NEW(arena, ir_block);
  copies c = {.of = KILN_NEW_ARRAY(arena, ir_value *, values)};
  o->b.block = block, o->b.before = NULL;
  c.of[ir_for_counter(o->loop)->id] = ir_for_lower(o->loop);
  for (uint32_t i = 0; i < o->count; i++) c.of[ir_loop_args(o->loop)[i]->id] = ir_loop_initials(o->loop)[i];
  copy_stage(o, &c, EARLY, o->body->first, NULL, stages);
  copy_stage(o, &c, LEFT, o->body->first, NULL, stages);
  copy_stage(o, &c, READY, o->body->first, NULL, stages);
  ir_value **operands = KILN_NEW_ARRAY(arena, ir_value *, o->count + 4u);
  operands[0] = ir_for_lower(o->loop);
  operands[1] = ir_binary(&o->b, IR_SUB, 0, ir_for_upper(o->loop), ir_for_step(o->loop));
  operands[2] = ir_for_step(o->loop);
  collect(o, &c, operands + 3, true);
  for (uint32_t i = 0; i < o->count; i++)
    if (i != o->sum && o->is_late[i]) operands[3 + i] = ir_loop_initials(o->loop)[i];
  turn t = write_turn(o, &c, operands + 3, values, stages);
  if (o->b.error.status != KILN_OK) return block;
  ir_op *made = ir_emit(&o->b, IR_FOR, &o->loop->attrs, operands, o->count + 4u, NULL, &t.block, 1);
  if (!made) return block;
  clear(&c, values);
  for (uint32_t i = 0; i < o->count; i++) c.of[ir_loop_args(o->loop)[i]->id] = &made->results[i];
  c.of[o->product[1]->operands[0]->id] = &made->results[o->sum];
  c.of[o->product[1]->operands[2]->id] = &made->results[o->count];
  copy_stage(o, &c, LATE, o->body->first, NULL, stages);
  ir_value **out = KILN_NEW_ARRAY(arena, ir_value *, o->count);
  for (uint32_t i = 0; i < o->count; i++)
    out[i] = o->is_late[i] ? in(o, &c, ir_loop_next(o->loop)->operands[i]) : &made->results[i];
  ir_yield(&o->b, out, o->count);
  return block;
}

static void rewrite(ordering *o) {
  kiln_arena *arena = o->kernel->arena;
  uint32_t ops = 0;
  for (ir_op *op = o->body->first; op; op = op->next) op->number = ops++;
  uint8_t *stages = KILN_NEW_ARRAY(arena, uint8_t, ops);
  for (const ir_op *op = o->body->first; op; op = op->next) stages[op->number] = (uint8_t)judge(o, op);
  const ir_value *left = o->product[1]->operands[2];
  if (left->def && left->def->block == o->body && left->uses == 1) stages[left->def->number] = LEFT;
  uint32_t values = 0;
  for (uint32_t i = 0; i < o->body->arg_count; i++) o->body->args[i]->id = values++;
  for (ir_op *op = o->body->first; op; op = op->next)
    for (uint32_t i = 0; i < op->result_count; i++) op->results[i].id = values++;
  o->b = (ir_builder){.arena = arena, .block = o->loop->block, .before = o->loop, .machine = true};
  ir_value *runs = ir_compare(&o->b, IR_LT, 0, ir_for_lower(o->loop), ir_for_upper(o->loop));
  ir_block *regions[2] = {write_then(o, values, stages), KILN_NEW(arena, ir_block)};
  o->b.block = regions[1], o->b.before = NULL;
  ir_yield(&o->b, ir_loop_initials(o->loop), o->count);
  o->b.block = o->loop->block, o->b.before = o->loop;
  ir_op *made = ir_emit(&o->b, IR_IF, NULL, &runs, 1, NULL, regions, 2);
  if (!made) return;
  for (uint32_t i = 0; i < o->count; i++) o->loop->results[i].forward = &made->results[i];
  ir_remove(o->loop);
}

/// Both parts of a turn use them, whichever comes first.
static void hoist_constants(const ordering *o) {
  for (ir_op *op = o->body->first, *next; op; op = next) {
    uint64_t bits;
    next = op->next;
    if (op->result_count == 1 && ir_constant_bits(&op->results[0], &bits))
      ir_move(op, o->loop->block, o->loop);
  }
}

kiln_status kiln_pass_order(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)context;
  ir_count_uses(kernel);
  for (ir_op *op = ir_next(kernel->body, NULL), *next; op; op = next) {
    next = ir_next(kernel->body, op);
    if (op->code != IR_FOR || op->attrs.loop.is_in_order) continue;
    ordering *o = KILN_NEW(kernel->arena, ordering);
    *o = (ordering){.kernel = kernel, .loop = op, .body = op->regions[0], .count = ir_carried_count(op)};
    if (!is_plain(o) || !find_parts(o) || !starts_at_zero_or_more(o)) continue;
    hoist_constants(o);
    ir_number(kernel); // clears slots
    next = ir_after(kernel->body, op);
    if (find_stages(o)) rewrite(o);
    if (o->b.error.status != KILN_OK)
      return kiln_fail(err, KILN_STATUS_INTERNAL, "order of products: %s", o->b.error.text);
  }
  ir_apply_forwards(kernel);
  return KILN_OK;
}
