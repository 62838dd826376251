// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Addresses as linear forms, and what follows from comparing two of them.
#include "compiler/analysis/address.h"

#include <stdlib.h>

#include "compiler/analysis/provenance.h"

enum { MOST_TERMS = 8, MOST_DEPTH = 500, MOST_STEPS = 400 };

/// Integers beyond this are taken for unbounded, so that sums of a few of them do not overflow.
#define FAR ((int64_t)1 << 56)

typedef struct term {
  const ir_value *symbol;
  int64_t coefficient;
} term;

/// root + constant + terms + [lo, hi]. A form whose arithmetic may wrap is exact modulo `modulus`; 0: it is
/// exact.
typedef struct form {
  bool is_known;
  const ir_value *root; ///< of a pointer
  term terms[MOST_TERMS];
  unsigned count;
  int64_t constant, lo, hi, modulus;
} form;

struct kiln_addresses {
  kiln_arena *arena;
  const ir_kernel *kernel;
  const kiln_facts *facts;
  const form **forms; ///< by ir_value.id; NULL: not asked for yet
  uint32_t count;
  unsigned depth;
};

static const form unknown_form;

kiln_addresses *kiln_addresses_create(kiln_arena *arena, const ir_kernel *kernel, const kiln_facts *facts) {
  kiln_addresses *a = KILN_NEW(arena, kiln_addresses);
  uint32_t count = 0;
  for (const ir_op *op = kernel->body->first; op; op = op->next)
    for (uint32_t i = 0; i < op->result_count; i++)
      if (op->results[i].id >= count) count = op->results[i].id + 1;
  *a = (kiln_addresses){.arena = arena, .kernel = kernel, .facts = facts, .count = count};
  return a;
}

// ------------------------------------------------------------------------------------- making forms

static bool is_small(int64_t x) { return x > -FAR && x < FAR; }

static form of_symbol(const ir_value *v) {
  form f = {.is_known = true};
  if (v->type.pointer) f.root = v;
  else f.terms[f.count++] = (term){v, 1};
  return f;
}

/// The form of what is only known to lie between bounds.
static form of_facts(const kiln_addresses *a, const ir_value *v) {
  const kiln_fact *fact = kiln_fact_of(a->facts, v);
  if (v->type.pointer || !is_small(fact->lo) || !is_small(fact->hi)) return unknown_form;
  return (form){.is_known = true, .lo = fact->lo, .hi = fact->hi};
}

static bool add_term(form *f, const ir_value *symbol, int64_t coefficient) {
  for (unsigned i = 0; i < f->count; i++) {
    if (f->terms[i].symbol != symbol) continue;
    f->terms[i].coefficient += coefficient;
    if (!f->terms[i].coefficient) f->terms[i] = f->terms[--f->count];
    return true;
  }
  if (f->count == MOST_TERMS) return false;
  f->terms[f->count++] = (term){symbol, coefficient};
  return true;
}

static int64_t least_modulus(int64_t x, int64_t y) { return !x ? y : !y || x < y ? x : y; }

static form scaled(form f, int64_t by) {
  int64_t lo = 0, hi = 0;
  if (!f.is_known || f.root || !by) return unknown_form;
  bool overflows = __builtin_mul_overflow(f.constant, by, &f.constant) ||
                   __builtin_mul_overflow(by > 0 ? f.lo : f.hi, by, &lo) ||
                   __builtin_mul_overflow(by > 0 ? f.hi : f.lo, by, &hi) || !is_small(f.constant) ||
                   !is_small(lo) || !is_small(hi);
  for (unsigned i = 0; i < f.count; i++)
    overflows |= __builtin_mul_overflow(f.terms[i].coefficient, by, &f.terms[i].coefficient) ||
                 !is_small(f.terms[i].coefficient);
  if (overflows) return unknown_form;
  f.lo = lo, f.hi = hi;
  if (f.modulus && __builtin_mul_overflow(f.modulus, llabs(by), &f.modulus)) f.modulus = INT64_MAX;
  return f;
}

static form sum(form x, const form *y) {
  if (!x.is_known || !y->is_known || (x.root && y->root)) return unknown_form;
  if (y->root) x.root = y->root;
  x.constant += y->constant, x.lo += y->lo, x.hi += y->hi;
  x.modulus = least_modulus(x.modulus, y->modulus);
  bool fits = is_small(x.constant) && is_small(x.lo) && is_small(x.hi);
  for (unsigned i = 0; i < y->count && fits; i++)
    fits = add_term(&x, y->terms[i].symbol, y->terms[i].coefficient);
  return fits ? x : unknown_form;
}

static const form *form_of(kiln_addresses *a, const ir_value *v);

static unsigned bytes_pointed_to(const ir_value *pointer) {
  ir_type pointee = ir_pointee(ir_element(pointer->type));
  return pointee.pointer ? 8 : kiln_scalars[pointee.scalar].bytes;
}

static form product(kiln_addresses *a, const ir_op *op) {
  for (unsigned i = 0; i < 2; i++) {
    int64_t n;
    if (ir_constant_int(op->operands[i], &n) && is_small(n))
      return scaled(*form_of(a, op->operands[1 - i]), n);
  }
  return unknown_form;
}

static form shifted(kiln_addresses *a, const ir_op *op) {
  int64_t n;
  if (!ir_constant_int(op->operands[1], &n) || n < 0 || n > 40) return unknown_form;
  return scaled(*form_of(a, op->operands[0]), (int64_t)1 << n);
}

/// Integers of 32 and 64 bits that are extended as signed numbers, or cut off.
static form converted(kiln_addresses *a, const ir_op *op) {
  const ir_value *from = op->operands[0];
  kiln_scalar to = op->results[0].type.scalar;
  bool is_wide = from->type.scalar == KILN_I32 || from->type.scalar == KILN_I64;
  if (!is_wide || (to != KILN_I32 && to != KILN_I64)) return unknown_form;
  if ((op->attrs.flags & IR_UNSIGNED) && kiln_fact_of(a->facts, from)->lo < 0) return unknown_form;
  return *form_of(a, from);
}

static form moved(kiln_addresses *a, const ir_op *op) {
  const form by = scaled(*form_of(a, op->operands[1]), bytes_pointed_to(op->operands[0]));
  return sum(*form_of(a, op->operands[0]), &by);
}

static form of_operation(kiln_addresses *a, const ir_op *op) {
  int64_t n;
  switch (op->code) {
  case IR_CONST:
    if (op->results[0].type.pointer || !ir_constant_int(&op->results[0], &n) || !is_small(n))
      return unknown_form;
    return (form){.is_known = true, .constant = n};
  case IR_IOTA: return (form){.is_known = true, .hi = ((int64_t)1 << op->results[0].type.log2[0]) - 1};
  case IR_ADD: return sum(*form_of(a, op->operands[0]), form_of(a, op->operands[1]));
  case IR_SUB: {
    const form minus = scaled(*form_of(a, op->operands[1]), -1);
    return sum(*form_of(a, op->operands[0]), &minus);
  }
  case IR_MUL: return product(a, op);
  case IR_SHL: return shifted(a, op);
  case IR_CAST: return converted(a, op);
  case IR_PTRADD: return moved(a, op);
  case IR_SPLAT:
  case IR_EXPAND:
  case IR_BROADCAST:
  case IR_RESHAPE:
  case IR_TRANS:
  case IR_HINT:
  case IR_CONVERT: return *form_of(a, op->operands[0]);
  default: return unknown_form;
  }
}

/// What `op` adds to its first operand, if that is one number for all elements; pointers: in bytes.
static bool added_by(kiln_addresses *a, const ir_op *op, int64_t *out) {
  *out = 0;
  if (op->code != IR_PTRADD && op->code != IR_ADD) return false;
  const form *by = form_of(a, op->operands[1]);
  if (!by->is_known || by->root || by->count || by->lo != by->hi) return false;
  *out = (by->constant + by->lo) * (op->code == IR_PTRADD ? bytes_pointed_to(op->operands[0]) : 1);
  return true;
}

bool kiln_address_increment(kiln_addresses *a, const ir_value *argument, int64_t *out) {
  const ir_op *loop = argument->block->parent;
  if (!loop || loop->code != IR_FOR || argument->block != loop->regions[0]) return false;
  if (argument == ir_for_counter(loop)) return ir_constant_int(ir_for_step(loop), out) && is_small(*out);
  const ir_value *v = ir_loop_next(loop)->operands[argument->index - ir_loop_counters(loop)];
  *out = 0;
  for (unsigned steps = 0; (v = kiln_behind(v)) != argument; steps++, v = v->def->operands[0]) {
    int64_t step;
    if (!v->def || steps == MOST_STEPS || !added_by(a, v->def, &step)) return false;
    *out += step;
    if (!is_small(*out)) return false;
  }
  return true;
}

/// What a loop carries on: what it was before, and how far it has come since.
static form of_argument(kiln_addresses *a, const ir_value *v) {
  const ir_op *loop = v->block->parent;
  int64_t ignored;
  if (!loop || (!v->type.pointer && !v->type.rank)) return of_symbol(v);
  if (!kiln_address_increment(a, v, &ignored)) return v->type.rank ? unknown_form : of_symbol(v);
  form f = *form_of(a, ir_loop_initials(loop)[v->index - ir_loop_counters(loop)]);
  return f.is_known && add_term(&f, v, 1) ? f : v->type.rank ? unknown_form : of_symbol(v);
}

/// Sums of 32 bits wrap, unless their bounds say that these do not.
static void note_wrapping(const kiln_addresses *a, const ir_value *v, form *f) {
  bool adds = v->def && (v->def->code == IR_ADD || v->def->code == IR_SUB || v->def->code == IR_MUL ||
                         v->def->code == IR_SHL || v->def->code == IR_CAST);
  if (!f->is_known || v->type.pointer || v->type.scalar != KILN_I32) return;
  if (!adds && v->def) return;
  const kiln_fact *fact = kiln_fact_of(a->facts, v);
  bool is_whole = fact->lo <= INT32_MIN || fact->hi >= INT32_MAX;
  if ((adds && is_whole) || (!v->def && v->type.rank))
    f->modulus = least_modulus(f->modulus, (int64_t)1 << 32);
}

static form make(kiln_addresses *a, const ir_value *v) {
  form f = v->def ? of_operation(a, v->def) : of_argument(a, v);
  if (!f.is_known) f = v->type.rank ? of_facts(a, v) : of_symbol(v);
  note_wrapping(a, v, &f);
  return f;
}

static const form **slot_of(kiln_addresses *a, uint32_t id) {
  if (!a->forms || id >= a->count) {
    uint32_t count = id + 1 > a->count ? id + 1 + id / 2 : a->count;
    const form **more = KILN_NEW_ARRAY(a->arena, const form *, count);
    for (uint32_t i = 0; a->forms && i < a->count; i++) more[i] = a->forms[i];
    a->forms = more, a->count = count;
  }
  return &a->forms[id];
}

static const form *form_of(kiln_addresses *a, const ir_value *v) {
  const form *known = *slot_of(a, v->id);
  if (known) return known;
  if (a->depth == MOST_DEPTH || v->type.is_view || v->type.slots) return &unknown_form;
  a->depth++;
  const form f = make(a, v);
  a->depth--;
  known = kiln_arena_copy(a->arena, &f, sizeof f);
  *slot_of(a, v->id) = known;
  return known;
}

// ---------------------------------------------------------------------------------------- comparing

/// Whether the value is the same when the second access runs as it was for the first.
static bool is_fixed(const kiln_access_pair *pair, const ir_value *v) {
  const ir_block *home = ir_home(v);
  return ir_encloses(home, pair->first->block) && ir_encloses(home, pair->second->block) &&
         !(pair->turned && ir_is_inside(home, pair->turned));
}

static bool same(const kiln_access_pair *pair, const ir_value *x, const ir_value *y, unsigned *budget) {
  while (x->def && x->def->code == IR_CONVERT) x = x->def->operands[0];
  while (y->def && y->def->code == IR_CONVERT) y = y->def->operands[0];
  if (x == y && is_fixed(pair, x)) return true;
  if (!*budget || !x->def || !y->def) return false;
  --*budget;
  const ir_op *p = x->def, *q = y->def;
  if (p->code != q->code || ir_ops[p->code].effect != IR_PURE || p->region_count || q->region_count ||
      p->operand_count != q->operand_count || x->index != y->index || !ir_type_equal(x->type, y->type) ||
      !ir_attrs_equal(p->code, &p->attrs, &q->attrs) || p->code == IR_ALLOC)
    return false;
  for (uint32_t i = 0; i < p->operand_count; i++)
    if (!same(pair, p->operands[i], q->operands[i], budget)) return false;
  return true;
}

bool kiln_same_value(const kiln_access_pair *pair, const ir_value *first, const ir_value *second) {
  unsigned budget = MOST_STEPS;
  return same(pair, first, second, &budget);
}

/// What is known of the second form less the first: base + [lo, hi] + step for each turn that has ended.
typedef struct distance {
  int64_t lo, hi, step;
  int64_t reach; ///< the most that the steps come to; INT64_MAX: not known
} distance;

static int64_t coefficient_of(const form *f, const ir_value *symbol) {
  for (unsigned i = 0; i < f->count; i++)
    if (f->terms[i].symbol == symbol) return f->terms[i].coefficient;
  return 0;
}

/// A symbol that has another value, within its bounds.
static bool spread(const kiln_addresses *a, const ir_value *symbol, int64_t coefficient, distance *d) {
  const kiln_fact *fact = kiln_fact_of(a->facts, symbol);
  int64_t x, y;
  if (!coefficient) return true;
  if (symbol->type.rank || symbol->type.pointer || !is_small(fact->lo) || !is_small(fact->hi) ||
      __builtin_mul_overflow(fact->lo, coefficient, &x) || __builtin_mul_overflow(fact->hi, coefficient, &y))
    return false;
  d->lo += x < y ? x : y;
  d->hi += x < y ? y : x;
  return is_small(d->lo) && is_small(d->hi);
}

static void note_reach(const kiln_addresses *a, const ir_value *symbol, int64_t coefficient, distance *d) {
  const kiln_fact *fact = kiln_fact_of(a->facts, symbol);
  bool is_number = !symbol->type.rank && !symbol->type.pointer;
  int64_t lo = fact->lo, hi = fact->hi, width, far;
  if (is_number && symbol->type.scalar == KILN_I32)
    lo = lo < INT32_MIN ? INT32_MIN : lo, hi = hi > INT32_MAX ? INT32_MAX : hi;
  if (!is_number || __builtin_sub_overflow(hi, lo, &width) ||
      __builtin_mul_overflow(width, llabs(coefficient), &far) ||
      __builtin_add_overflow(d->reach, far, &d->reach))
    d->reach = INT64_MAX;
}

/// What the symbol adds to the distance. False: that is not known.
static bool compare_symbol(kiln_addresses *a, const kiln_access_pair *pair, const ir_value *symbol, int64_t x,
                           int64_t y, distance *d) {
  int64_t by, step;
  if (is_fixed(pair, symbol)) return x == y;
  bool advances = pair->turned && !symbol->def && symbol->block->parent == pair->turned && x == y;
  if (!advances) return spread(a, symbol, y, d) && spread(a, symbol, -x, d);
  if (!kiln_address_increment(a, symbol, &by) || __builtin_mul_overflow(by, y, &step) || !is_small(step))
    return false;
  note_reach(a, symbol, y, d);
  d->step += step;
  return is_small(d->step);
}

static bool measure(kiln_addresses *a, const kiln_access_pair *pair, const form *x, const form *y,
                    distance *d) {
  if (!x->is_known || !y->is_known || x->root != y->root) return false;
  if (x->root && !is_fixed(pair, x->root)) return false;
  *d = (distance){.lo = y->constant + y->lo - x->constant - x->hi,
                  .hi = y->constant + y->hi - x->constant - x->lo};
  for (unsigned i = 0; i < x->count; i++)
    if (!compare_symbol(a, pair, x->terms[i].symbol, x->terms[i].coefficient,
                        coefficient_of(y, x->terms[i].symbol), d))
      return false;
  for (unsigned i = 0; i < y->count; i++)
    if (!coefficient_of(x, y->terms[i].symbol) &&
        !compare_symbol(a, pair, y->terms[i].symbol, 0, y->terms[i].coefficient, d))
      return false;
  return true;
}

/// Whether [x, x + x_size) and [y, y + y_size) have nothing in common.
static bool are_apart(kiln_addresses *a, const kiln_access_pair *pair, const form *x, int64_t x_size,
                      const form *y, int64_t y_size) {
  distance d;
  if (!measure(a, pair, x, y, &d)) return false;
  const int64_t modulus = least_modulus(x->modulus, y->modulus);
  const int64_t most = llabs(d.lo) + llabs(d.hi) + x_size + y_size;
  if (modulus && (d.reach > FAR || most + d.reach >= modulus)) return false;
  return (d.step >= 0 && d.lo + d.step >= x_size) || (d.step <= 0 && d.hi + d.step + y_size <= 0);
}

static bool is_of_view(const ir_op *op) { return op->operands[0]->type.is_view; }

static unsigned bytes_of(const ir_op *access) {
  ir_type pointee = ir_pointee(ir_element(access->operands[0]->type));
  return pointee.pointer ? 8 : kiln_scalars[pointee.scalar].bytes;
}

static bool are_apart_in_view(kiln_addresses *a, const kiln_access_pair *pair) {
  const ir_value *view = pair->first->operands[0];
  if (!kiln_same_value(pair, view, pair->second->operands[0])) return false;
  for (unsigned i = 0; i < view->type.rank; i++)
    if (are_apart(a, pair, form_of(a, ir_view_indices(pair->first)[i]), ir_view_count(pair->first, i),
                  form_of(a, ir_view_indices(pair->second)[i]), ir_view_count(pair->second, i)))
      return true;
  return false;
}

bool kiln_are_disjoint(kiln_addresses *a, const kiln_access_pair *pair) {
  if (is_of_view(pair->first) != is_of_view(pair->second)) return false;
  if (is_of_view(pair->first)) return are_apart_in_view(a, pair);
  return are_apart(a, pair, form_of(a, pair->first->operands[0]), bytes_of(pair->first),
                   form_of(a, pair->second->operands[0]), bytes_of(pair->second));
}
