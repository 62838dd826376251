// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Facts to a fixed point. Each operation has a transfer function; loops start from their initial values and
// are joined with what a trip yields until nothing changes, bounds being widened after a few rounds.
#include "compiler/analysis/facts.h"

#include <string.h>

#include "compiler/analysis/facts_inner.h"

struct kiln_facts {
  kiln_fact *items;        // arena, by value id
  const ir_value **values; // arena, by value id: whose fact it is
  uint32_t count;
};

static const kiln_fact says_nothing = {.lo = INT64_MIN, .hi = INT64_MAX};

typedef struct analysis {
  ir_kernel *kernel;
  kiln_facts *facts;
  kiln_fact *assumed; // what top-level assumes promise of a value
  uint8_t *has_assumed;
} analysis;

static kiln_fact *at(analysis *a, const ir_value *v) { return &a->facts->items[v->id]; }

const kiln_fact *kiln_fact_of(const kiln_facts *facts, const ir_value *value) {
  return value->id < facts->count && facts->values[value->id] == value ? &facts->items[value->id]
                                                                       : &says_nothing;
}

bool kiln_fact_within(const kiln_fact *fact, int64_t lo, int64_t hi) {
  return fact->lo >= lo && fact->hi <= hi;
}

// ----------------------------------------------------------------------------------------- assumes

/// assume(x < c), assume(x % c == 0) and conjunctions of them, for x anywhere before; only where every
/// program passes.
static void note_assume(analysis *a, const ir_value *claim) {
  const ir_op *op = claim->def;
  int64_t n;
  if (op && op->code == IR_AND) {
    note_assume(a, op->operands[0]);
    note_assume(a, op->operands[1]);
    return;
  }
  if (!op || op->code != IR_CMP || (op->attrs.flags & IR_UNSIGNED) || !ir_constant_int(op->operands[1], &n))
    return;
  const ir_value *x = op->operands[0];
  int64_t divisor;
  bool is_rest = x->def && x->def->code == IR_REM && ir_constant_int(x->def->operands[1], &divisor) &&
                 op->attrs.kind == IR_EQ && n == 0;
  if (!is_rest && x->def && x->def->code == IR_AND && op->attrs.kind == IR_EQ && n == 0 &&
      ir_constant_int(x->def->operands[1], &divisor))
    is_rest = divisor > 0 && divisor < INT64_MAX && ((divisor + 1) & divisor) == 0 && ++divisor > 0;
  if (is_rest) x = x->def->operands[0];
  kiln_fact *f = &a->assumed[x->id];
  if (!a->has_assumed[x->id]) *f = says_nothing;
  a->has_assumed[x->id] = 1;
  if (is_rest) {
    uint8_t log2 = fact_log2(divisor);
    for (unsigned i = 0; i < IR_MAX_RANK; i++)
      if (f->divisibility[i] < log2) f->divisibility[i] = log2;
    return;
  }
  fact_clip(f, op->attrs.kind, n);
}

static void apply_assume(analysis *a, const ir_value *v) {
  if (!a->has_assumed[v->id]) return;
  const kiln_fact *promise = &a->assumed[v->id];
  kiln_fact *f = at(a, v);
  if (f->lo < promise->lo) f->lo = promise->lo;
  if (f->hi > promise->hi) f->hi = promise->hi;
  for (unsigned i = 0; i < IR_MAX_RANK; i++)
    if (f->contiguity[i] == 0 && f->divisibility[i] < promise->divisibility[i])
      f->divisibility[i] = promise->divisibility[i];
}

// ------------------------------------------------------------------------------------ rows of tiles

/// What a counter is divided by where a loop counts the tiles of `rows` rows, each `row` tiles long, and takes
/// `group` rows at a time: for t in .. rows * row { t / (row * group) .. }.
typedef struct row_groups {
  const ir_value *rows;
  int64_t group;
} row_groups;

/// What is multiplied by a constant above 0, or `v` itself, times 1.
static const ir_value *times_constant(const ir_value *v, int64_t *out_by) {
  const ir_op *op = v->def;
  if (op && op->code == IR_MUL && ir_constant_int(op->operands[1], out_by) && *out_by > 0)
    return op->operands[0];
  *out_by = 1;
  return v;
}

/// None of the numbers is negative and row * group does not wrap. rows * row may: what remains of it is less.
static bool divides_tiles(analysis *a, const ir_op *op, row_groups *out) {
  if (op->code != IR_DIV || op->attrs.flags & IR_UNSIGNED || op->results[0].type.scalar != KILN_I32)
    return false;
  const ir_value *tile = op->operands[0], *row = times_constant(op->operands[1], &out->group);
  const ir_op *loop = tile->def ? NULL : tile->block->parent;
  if (!loop || loop->code != IR_FOR || tile != ir_for_counter(loop)) return false;
  const ir_op *all = ir_for_upper(loop)->def;
  if (!all || all->code != IR_MUL || (all->operands[0] != row && all->operands[1] != row)) return false;
  out->rows = all->operands[all->operands[0] == row];
  return at(a, tile)->lo >= 0 && at(a, out->rows)->lo >= 0 && at(a, row)->lo >= 0 &&
         at(a, row)->hi <= INT32_MAX / out->group;
}

/// The first row of a group is one of the rows: t < rows * row, so t / (row * group) * group < rows.
static void clip_rows(analysis *a, const ir_op *op, kiln_fact *f) {
  row_groups how;
  int64_t by;
  if (divides_tiles(a, op, &how)) {
    const int64_t last = at(a, how.rows)->hi - 1;
    f->lo = 0, f->hi = last > 0 ? last / how.group : 0;
  }
  if (op->code != IR_SUB || op->results[0].type.rank) return;
  const ir_value *group = times_constant(op->operands[1], &by);
  if (group->def && divides_tiles(a, group->def, &how) && how.rows == op->operands[0] && how.group == by &&
      f->lo < 1)
    f->lo = 1;
}

// ----------------------------------------------------------------------------------------- regions

static void run_block(analysis *a, const ir_block *block);

/// Joins `next` into `slot`; true when that changed it. After a few rounds a bound that still moves goes to
/// the end of its type.
static bool join_into(kiln_fact *slot, const kiln_fact *next, ir_type type, unsigned round) {
  kiln_fact joined = *slot;
  fact_join(&joined, next);
  if (round > 3) {
    kiln_fact widest = says_nothing;
    fact_type_bounds(type, &widest);
    if (joined.lo < slot->lo) joined.lo = widest.lo;
    if (joined.hi > slot->hi) joined.hi = widest.hi;
    for (unsigned i = 0; i < IR_MAX_RANK; i++)
      if (joined.divisibility[i] != slot->divisibility[i]) joined.divisibility[i] = 0;
  }
  if (joined.lo == slot->lo && joined.hi == slot->hi &&
      !memcmp(joined.divisibility, slot->divisibility, sizeof joined.divisibility) &&
      !memcmp(joined.contiguity, slot->contiguity, sizeof joined.contiguity) &&
      !memcmp(joined.constancy, slot->constancy, sizeof joined.constancy))
    return false;
  *slot = joined;
  return true;
}

static void run_for(analysis *a, const ir_op *op) {
  ir_value **args = ir_loop_args(op), **initials = ir_loop_initials(op), **next = ir_loop_next(op)->operands;
  const kiln_fact *lo = at(a, ir_for_lower(op)), *hi = at(a, ir_for_upper(op)),
                  *step = at(a, ir_for_step(op));
  kiln_fact *iv = at(a, ir_for_counter(op));
  *iv = says_nothing;
  iv->lo = lo->lo;
  iv->hi = hi->hi > INT64_MIN ? hi->hi - 1 : hi->hi;
  if (iv->hi < iv->lo) iv->hi = iv->lo;
  iv->divisibility[0] =
      lo->divisibility[0] < step->divisibility[0] ? lo->divisibility[0] : step->divisibility[0];
  fact_round(ir_for_counter(op)->type, iv);
  for (uint32_t i = 0; i < op->result_count; i++) *at(a, args[i]) = *at(a, initials[i]);
  bool changed = true;
  for (unsigned round = 0; changed; round++) {
    changed = false;
    run_block(a, ir_loop_body(op));
    for (uint32_t i = 0; i < op->result_count; i++)
      changed |= join_into(at(a, args[i]), at(a, next[i]), op->results[i].type, round);
  }
  for (uint32_t i = 0; i < op->result_count; i++) *at(a, &op->results[i]) = *at(a, args[i]);
}

static void run_while(analysis *a, const ir_op *op) {
  const ir_block *test = op->regions[0], *body = ir_loop_body(op);
  ir_value **passed = ir_cond_passed(ir_while_test(op)), **next = ir_loop_next(op)->operands;
  for (uint32_t i = 0; i < op->operand_count; i++) *at(a, test->args[i]) = *at(a, op->operands[i]);
  bool changed = true;
  for (unsigned round = 0; changed; round++) {
    changed = false;
    run_block(a, test);
    for (uint32_t i = 0; i < op->result_count; i++) *at(a, body->args[i]) = *at(a, passed[i]);
    run_block(a, body);
    for (uint32_t i = 0; i < op->operand_count; i++)
      changed |= join_into(at(a, test->args[i]), at(a, next[i]), op->operands[i]->type, round);
  }
  for (uint32_t i = 0; i < op->result_count; i++) *at(a, &op->results[i]) = *at(a, passed[i]);
}

static void run_if(analysis *a, const ir_op *op) {
  for (uint32_t r = 0; r < 2; r++) run_block(a, op->regions[r]);
  for (uint32_t i = 0; i < op->result_count; i++) {
    *at(a, &op->results[i]) = *at(a, ir_if_end(op, 0)->operands[i]);
    fact_join(at(a, &op->results[i]), at(a, ir_if_end(op, 1)->operands[i]));
  }
}

static void run_combiner(analysis *a, const ir_op *op) {
  for (uint32_t i = 0; op->region_count && i < op->regions[0]->arg_count; i++) {
    kiln_fact *f = at(a, op->regions[0]->args[i]);
    *f = says_nothing;
    fact_type_bounds(op->regions[0]->args[i]->type, f);
  }
  if (op->region_count) run_block(a, op->regions[0]);
}

static void run_op(analysis *a, const ir_op *op) {
  const kiln_fact *operands[3] = {&says_nothing, &says_nothing, &says_nothing};
  for (uint32_t i = 0; i < op->operand_count && i < 3; i++) operands[i] = at(a, op->operands[i]);
  if (op->code == IR_REDUCE || op->code == IR_SCAN) run_combiner(a, op);
  for (uint32_t i = 0; i < op->result_count; i++) {
    kiln_fact f = says_nothing;
    fact_type_bounds(op->results[i].type, &f);
    if (op->code == IR_PID || op->code == IR_NPID) {
      const int64_t limit = a->kernel->grid_limit[op->attrs.axis], most = limit > 0 ? limit : INT32_MAX;
      f.lo = op->code == IR_NPID;
      f.hi = op->code == IR_NPID ? most : most - 1;
    } else {
      fact_transfer(op, i, operands, &f);
      clip_rows(a, op, &f);
    }
    fact_settle(op->results[i].type, &f);
    *at(a, &op->results[i]) = f;
    apply_assume(a, &op->results[i]);
    fact_round(op->results[i].type, at(a, &op->results[i]));
  }
}

static void run_block(analysis *a, const ir_block *block) {
  for (const ir_op *op = block->first; op; op = op->next) {
    if (op->code == IR_FOR) run_for(a, op);
    else if (op->code == IR_WHILE) run_while(a, op);
    else if (op->code == IR_IF) run_if(a, op);
    else if (op->code != IR_ROLES) run_op(a, op);
    else
      for (uint32_t r = 0; r < op->region_count; r++) run_block(a, op->regions[r]);
  }
}

// ------------------------------------------------------------------------------------------- whole

static void note_block(kiln_facts *facts, const ir_block *block) {
  for (uint32_t i = 0; i < block->arg_count; i++) facts->values[block->args[i]->id] = block->args[i];
  for (const ir_op *op = block->first; op; op = op->next) {
    for (uint32_t i = 0; i < op->result_count; i++) facts->values[op->results[i].id] = &op->results[i];
    for (uint32_t i = 0; i < op->region_count; i++) note_block(facts, op->regions[i]);
  }
}

kiln_facts *kiln_facts_compute(kiln_arena *arena, ir_kernel *kernel) {
  kiln_facts *facts = KILN_NEW(arena, kiln_facts);
  facts->count = ir_number(kernel);
  facts->items = KILN_NEW_ARRAY(arena, kiln_fact, facts->count + 1u);
  facts->values = KILN_NEW_ARRAY(arena, const ir_value *, facts->count + 1u);
  analysis a = {kernel, facts, KILN_NEW_ARRAY(arena, kiln_fact, facts->count + 1u),
                KILN_NEW_ARRAY(arena, uint8_t, facts->count + 1u)};
  note_block(facts, kernel->body);
  for (const ir_op *op = kernel->body->first; op; op = op->next)
    if (op->code == IR_ASSUME) note_assume(&a, op->operands[0]);
  for (uint32_t i = 0; i < kernel->param_count; i++) {
    const ir_param *p = &kernel->params[i];
    kiln_fact *f = at(&a, kernel->body->args[i]);
    *f = says_nothing;
    if (p->type.pointer) {
      f->divisibility[0] = (uint8_t)(p->align ? fact_log2(p->align) : fact_pointee_log2(p->type));
    } else if (ir_type_class(p->type) == KILN_CLASS_INT || ir_type_class(p->type) == KILN_CLASS_BOOL) {
      fact_type_bounds(p->type, f);
      if (p->has_range && p->lo > f->lo) f->lo = p->lo;
      if (p->has_range && p->hi < f->hi) f->hi = p->hi;
      if (p->div > 1) f->divisibility[0] = fact_log2(p->div);
      if (p->has_range && p->lo == p->hi) f->divisibility[0] = fact_log2(p->lo);
      fact_round(p->type, f);
    }
    apply_assume(&a, kernel->body->args[i]);
  }
  run_block(&a, kernel->body);
  return facts;
}

bool kiln_fact_does_not_wrap(const kiln_facts *facts, const ir_op *op) {
  kiln_fact type;
  int64_t count;
  if (op->operand_count != 2 || ir_type_class(op->results[0].type) != KILN_CLASS_INT) return false;
  const kiln_fact *a = kiln_fact_of(facts, op->operands[0]), *b = kiln_fact_of(facts, op->operands[1]);
  __int128 ends[4] = {0};
  for (unsigned i = 0; i < 4; i++) {
    const __int128 x = i & 1 ? a->hi : a->lo, y = i & 2 ? b->hi : b->lo;
    if (op->code == IR_ADD) ends[i] = x + y;
    else if (op->code == IR_SUB) ends[i] = x - y;
    else if (op->code == IR_MUL) ends[i] = x * y;
    else if (op->code != IR_SHL || !ir_constant_int(op->operands[1], &count) || count < 0 || count > 62)
      return false;
    else ends[i] = x * ((__int128)1 << count);
  }
  fact_type_bounds(op->results[0].type, &type);
  for (unsigned i = 0; i < 4; i++)
    if (ends[i] < type.lo || ends[i] > type.hi) return false;
  return true;
}

unsigned kiln_fact_vector(const kiln_facts *facts, const ir_value *pointer, const ir_value *mask,
                          unsigned axis, unsigned log2_bytes) {
  const kiln_fact *p = kiln_fact_of(facts, pointer);
  unsigned element = fact_pointee_log2(pointer->type), most = p->contiguity[axis];
  unsigned aligned = p->divisibility[axis] > element ? p->divisibility[axis] - element : 0;
  if (most > aligned) most = aligned;
  if (mask && most > kiln_fact_of(facts, mask)->constancy[axis])
    most = kiln_fact_of(facts, mask)->constancy[axis];
  unsigned room = log2_bytes > element ? log2_bytes - element : 0;
  return most < room ? most : room;
}
