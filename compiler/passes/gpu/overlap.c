// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Intervals of addresses, as operations of the kernel. An index is between the ends that its operands give;
// a loop's counter is between its bounds.
#include "compiler/passes/gpu/overlap.h"

enum { MOST_STEPS = 200, MOST_DEPTH = 100 };

typedef struct interval {
  ir_value *lo, *hi; ///< i64, inclusive
} interval;

typedef struct question {
  const ir_op *first, *second;
} question;

struct kiln_overlaps {
  ir_kernel *kernel;
  kiln_arena *scratch;
  kiln_addresses *addresses;
  const kiln_facts *facts;
  ir_op *place;
  const kiln_extent **reaches; ///< by ir_op.number
  uint32_t reach_count;
  question *questions;
  uint32_t count, capacity;
  ir_builder b;
  ir_value *is_wrong;
  unsigned steps, depth;
};

kiln_overlaps *kiln_overlaps_create(ir_kernel *kernel, kiln_arena *scratch, kiln_addresses *addresses,
                                    const kiln_facts *facts, ir_op *place) {
  kiln_overlaps *o = KILN_NEW(scratch, kiln_overlaps);
  *o = (kiln_overlaps){.kernel = kernel,
                       .scratch = scratch,
                       .addresses = addresses,
                       .facts = facts,
                       .place = place,
                       .b = {.arena = kernel->arena, .machine = true}};
  return o;
}

// ---------------------------------------------------------------------------------------- intervals

static ir_value *i64(kiln_overlaps *o, int64_t n) { return ir_const_int(&o->b, KILN_I64, n); }

/// What two numbers give is a number; zero and one are left out.
static bool folded(ir_opcode code, int64_t x, int64_t y, int64_t *out) {
  switch (code) {
  case IR_ADD: return !__builtin_add_overflow(x, y, out);
  case IR_SUB: return !__builtin_sub_overflow(x, y, out);
  case IR_MUL: return !__builtin_mul_overflow(x, y, out);
  case IR_MIN: return *out = x < y ? x : y, true;
  case IR_MAX: return *out = x > y ? x : y, true;
  case IR_DIV: return y > 0 && (*out = x / y, true);
  default: return false;
  }
}

static ir_value *binary(kiln_overlaps *o, ir_opcode code, ir_value *x, ir_value *y) {
  int64_t m, n, both;
  const bool left = ir_constant_int(x, &m), right = ir_constant_int(y, &n);
  if (left && right && folded(code, m, n, &both)) return i64(o, both);
  if (right && n == 0 && (code == IR_ADD || code == IR_SUB)) return x;
  if (left && m == 0 && code == IR_ADD) return y;
  if (right && n == 1 && (code == IR_MUL || code == IR_DIV)) return x;
  if (left && m == 1 && code == IR_MUL) return y;
  return ir_binary(&o->b, code, 0, x, y);
}

/// Whether the value is there when the question is asked.
static bool is_visible(const kiln_overlaps *o, const ir_value *v) {
  return ir_encloses(ir_home(v), o->place->block) && (!v->def || v->def->number < o->place->number);
}

static bool interval_of(kiln_overlaps *o, const ir_value *v, interval *out);

static bool of_scalar(kiln_overlaps *o, const ir_value *v, interval *out) {
  ir_value *value = (ir_value *)v;
  if (v->type.pointer) value = ir_bitcast(&o->b, value, ir_scalar_type(KILN_I64));
  else if (v->type.scalar == KILN_I32) value = ir_cast(&o->b, value, KILN_I64, 0, IR_ROUND_NEAREST);
  else if (v->type.scalar != KILN_I64) return false;
  *out = (interval){value, value};
  return true;
}

static bool of_numbers(kiln_overlaps *o, int64_t lo, int64_t hi, interval *out) {
  const int64_t far = (int64_t)1 << 56;
  if (lo < -far || hi > far) return false;
  out->lo = i64(o, lo);
  out->hi = lo == hi ? out->lo : i64(o, hi);
  return true;
}

static bool of_facts(kiln_overlaps *o, const ir_value *v, interval *out) {
  const kiln_fact *fact = kiln_fact_of(o->facts, v);
  return !v->type.pointer && of_numbers(o, fact->lo, fact->hi, out);
}

static bool both(kiln_overlaps *o, const ir_op *op, interval out[2]) {
  return interval_of(o, op->operands[0], &out[0]) && interval_of(o, op->operands[1], &out[1]);
}

static bool of_sum(kiln_overlaps *o, const ir_op *op, interval *out) {
  interval x[2];
  if (!both(o, op, x)) return false;
  const bool adds = op->code == IR_ADD;
  out->lo = binary(o, op->code, x[0].lo, adds ? x[1].lo : x[1].hi);
  out->hi = binary(o, op->code, x[0].hi, adds ? x[1].hi : x[1].lo);
  return true;
}

/// The ends of `x` times one number.
static void times(kiln_overlaps *o, const interval *x, ir_value *by, interval *out) {
  ir_value *p = binary(o, IR_MUL, x->lo, by), *q = x->lo == x->hi ? p : binary(o, IR_MUL, x->hi, by);
  int64_t n;
  if (p == q || (ir_constant_int(by, &n) && n >= 0)) *out = (interval){p, q};
  else *out = (interval){binary(o, IR_MIN, p, q), binary(o, IR_MAX, p, q)};
}

static bool of_product(kiln_overlaps *o, const ir_op *op, interval *out) {
  interval x[2];
  if (!both(o, op, x)) return false;
  for (unsigned i = 0; i < 2; i++)
    if (x[i].lo == x[i].hi) {
      times(o, &x[1 - i], x[i].lo, out);
      return true;
    }
  interval ends[2];
  times(o, &x[0], x[1].lo, &ends[0]);
  times(o, &x[0], x[1].hi, &ends[1]);
  *out = (interval){binary(o, IR_MIN, ends[0].lo, ends[1].lo), binary(o, IR_MAX, ends[0].hi, ends[1].hi)};
  return true;
}

static bool of_move(kiln_overlaps *o, const ir_op *op, interval *out) {
  interval x[2], bytes;
  ir_type pointee = ir_pointee(ir_element(op->operands[0]->type));
  if (!both(o, op, x)) return false;
  times(o, &x[1], i64(o, pointee.pointer ? 8 : kiln_scalars[pointee.scalar].bytes), &bytes);
  *out = (interval){binary(o, IR_ADD, x[0].lo, bytes.lo), binary(o, IR_ADD, x[0].hi, bytes.hi)};
  return true;
}

static bool of_extremum(kiln_overlaps *o, const ir_op *op, interval *out) {
  interval x[2];
  if ((op->attrs.flags & IR_UNSIGNED) || !both(o, op, x)) return false;
  *out = (interval){binary(o, op->code, x[0].lo, x[1].lo), binary(o, op->code, x[0].hi, x[1].hi)};
  return true;
}

static bool of_shift(kiln_overlaps *o, const ir_op *op, interval *out) {
  interval x;
  int64_t by;
  if (!ir_constant_int(op->operands[1], &by) || by < 0 || by > 31 || !interval_of(o, op->operands[0], &x))
    return false;
  times(o, &x, i64(o, (int64_t)1 << by), out);
  return true;
}

static bool of_conversion(kiln_overlaps *o, const ir_op *op, interval *out) {
  const ir_value *from = op->operands[0];
  const bool is_signed = !(op->attrs.flags & IR_UNSIGNED) || kiln_fact_of(o->facts, from)->lo >= 0;
  return is_signed && from->type.scalar == KILN_I32 && op->results[0].type.scalar == KILN_I64 &&
         interval_of(o, from, out);
}

static bool of_operation(kiln_overlaps *o, const ir_op *op, interval *out) {
  switch (op->code) {
  case IR_IOTA: return of_numbers(o, 0, ((int64_t)1 << op->results[0].type.log2[0]) - 1, out);
  case IR_ADD:
  case IR_SUB: return of_sum(o, op, out);
  case IR_MUL: return of_product(o, op, out);
  case IR_SHL: return of_shift(o, op, out);
  case IR_MIN:
  case IR_MAX: return of_extremum(o, op, out);
  case IR_CAST: return of_conversion(o, op, out);
  case IR_PTRADD: return of_move(o, op, out);
  case IR_SPLAT:
  case IR_EXPAND:
  case IR_BROADCAST:
  case IR_RESHAPE:
  case IR_TRANS:
  case IR_HINT:
  case IR_CONVERT: return interval_of(o, op->operands[0], out);
  default: return false;
  }
}

/// Of the counter of a `for`, and of what it carries and advances by the same amount in each turn. In a loop
/// that has no turn nothing is touched.
static bool of_argument(kiln_overlaps *o, const ir_value *v, interval *out) {
  const ir_op *loop = v->block->parent;
  interval from, to, initial;
  int64_t by, step;
  if (!loop || loop->code != IR_FOR || !interval_of(o, ir_for_lower(loop), &from) ||
      !interval_of(o, ir_for_upper(loop), &to))
    return false;
  ir_value *last = binary(o, IR_SUB, to.hi, i64(o, 1));
  if (v == ir_for_counter(loop)) {
    *out = (interval){from.lo, last};
    return true;
  }
  if (!ir_constant_int(ir_for_step(loop), &step) || step < 1 ||
      !kiln_address_increment(o->addresses, v, &by) ||
      !interval_of(o, ir_loop_initials(loop)[v->index - ir_loop_counters(loop)], &initial))
    return false;
  ir_value *turns = binary(o, IR_DIV, binary(o, IR_SUB, last, from.lo), i64(o, step));
  ir_value *way = binary(o, IR_MUL, binary(o, IR_MAX, turns, i64(o, 0)), i64(o, by));
  *out = initial;
  if (by > 0) out->hi = binary(o, IR_ADD, initial.hi, way);
  else out->lo = binary(o, IR_ADD, initial.lo, way);
  return true;
}

/// Sums of 32 bits wrap, unless what is known of them says that they do not.
static void note_wrapping(kiln_overlaps *o, const ir_value *v, const interval *x) {
  const kiln_fact *fact = kiln_fact_of(o->facts, v);
  const bool is_computed = !v->def || v->def->code == IR_ADD || v->def->code == IR_SUB ||
                           v->def->code == IR_MUL || v->def->code == IR_SHL;
  if (v->type.pointer || v->type.scalar != KILN_I32 || !is_computed) return;
  if (fact->lo > INT32_MIN && fact->hi < INT32_MAX) return;
  ir_value *low = ir_compare(&o->b, IR_LT, 0, x->lo, i64(o, INT32_MIN)),
           *high = ir_compare(&o->b, IR_GT, 0, x->hi, i64(o, INT32_MAX)),
           *either = binary(o, IR_OR, low, high);
  o->is_wrong = o->is_wrong ? binary(o, IR_OR, o->is_wrong, either) : either;
}

static bool interval_of(kiln_overlaps *o, const ir_value *v, interval *out) {
  int64_t n;
  if (o->steps >= MOST_STEPS || o->depth >= MOST_DEPTH || v->type.is_view || v->type.slots) return false;
  o->steps++;
  if (!v->type.pointer && ir_constant_int(v, &n)) return of_numbers(o, n, n, out);
  if (!v->type.rank && is_visible(o, v)) return of_scalar(o, v, out);
  o->depth++;
  const bool is_known = v->def ? of_operation(o, v->def, out) : of_argument(o, v, out);
  o->depth--;
  if (!is_known) return of_facts(o, v, out);
  note_wrapping(o, v, out);
  return true;
}

// ------------------------------------------------------------------------------------------ reaches

static bool extent_of_pointer(kiln_overlaps *o, const ir_op *access, kiln_extent *out) {
  ir_type pointee = ir_pointee(ir_element(access->operands[0]->type));
  interval x;
  if (!interval_of(o, access->operands[0], &x)) return false;
  out->first = x.lo;
  out->after = binary(o, IR_ADD, x.hi, i64(o, pointee.pointer ? 8 : kiln_scalars[pointee.scalar].bytes));
  return true;
}

const kiln_extent *kiln_extent_of(kiln_overlaps *o, const ir_op *access) {
  if (access->number >= o->reach_count) {
    const uint32_t count = 2 * access->number + 16;
    const kiln_extent **more = KILN_NEW_ARRAY(o->scratch, const kiln_extent *, count);
    for (uint32_t i = 0; i < o->reach_count; i++) more[i] = o->reaches[i];
    o->reaches = more, o->reach_count = count;
  }
  if (o->reaches[access->number]) return o->reaches[access->number];
  kiln_extent *made = KILN_NEW(o->scratch, kiln_extent);
  made->block = KILN_NEW(o->kernel->arena, ir_block);
  o->b.block = made->block, o->b.before = NULL, o->b.place = access->place;
  o->is_wrong = NULL, o->steps = 0;
  made->is_known = !access->operands[0]->type.is_view && extent_of_pointer(o, access, made) &&
                   o->b.error.status == KILN_OK;
  made->is_wrong = o->is_wrong;
  return o->reaches[access->number] = made;
}

// ---------------------------------------------------------------------------------------- questions

void kiln_overlaps_ask(kiln_overlaps *o, const ir_op *first, const ir_op *second) {
  KILN_ASSERT(kiln_extent_of(o, first)->is_known && kiln_extent_of(o, second)->is_known);
  for (uint32_t i = 0; i < o->count; i++)
    if (o->questions[i].first == first && o->questions[i].second == second) return;
  KILN_GROW(o->scratch, o->questions, o->count, o->capacity);
  o->questions[o->count++] = (question){first, second};
}

/// The operations of the reach go before the place, once.
static const kiln_extent *place_extent(kiln_overlaps *o, const ir_op *access) {
  const kiln_extent *reach = kiln_extent_of(o, access);
  for (ir_op *op = reach->block->first, *next; op; op = next) {
    next = op->next;
    ir_move(op, o->place->block, o->place);
  }
  return reach;
}

ir_value *kiln_overlaps_answer(kiln_overlaps *o, kiln_error *err) {
  ir_value *any = NULL;
  o->b.block = o->place->block, o->b.before = o->place, o->b.place = o->place->place;
  for (uint32_t i = 0; i < o->count; i++) {
    const kiln_extent *x = place_extent(o, o->questions[i].first),
                      *y = place_extent(o, o->questions[i].second);
    ir_value *is = binary(o, IR_AND, ir_compare(&o->b, IR_LT, 0, x->first, y->after),
                          ir_compare(&o->b, IR_LT, 0, y->first, x->after));
    if (x->is_wrong) is = binary(o, IR_OR, is, x->is_wrong);
    if (y->is_wrong) is = binary(o, IR_OR, is, y->is_wrong);
    any = any ? binary(o, IR_OR, any, is) : is;
  }
  if (o->b.error.status != KILN_OK) *err = o->b.error;
  return any;
}
