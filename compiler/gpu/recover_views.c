// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tiles of pointers become accesses of views where that is the same: operands of products, and stores.
//
// The address of a tile is brought into a sum of products of scalars and lanes (iota along an axis):
//
//   base + (lane0 + row) * stride0 + (lane1 + column) * stride1 + index * stride ...
//
// What multiplies a lane is the axis' stride; it and the base must be known at launch. Row and column are
// read from what bounds the axis: a mask `lane + row < extent`, or an offset taken modulo an extent. An axis
// without a bound has all lanes. Other terms are axes outside the tile. Pointers, and numbers, that a loop
// carries and advances by a constant amount are sums over the loop's counter.
//
// A view has no places before its beginning, so row, column and index must not be negative. Elements that the
// mask takes away must be zero or undefined.
//
// Views whose base is such a sum (descriptors made for a head or a batch) get the other terms as axes, too.
//
// An offset modulo an extent loads other rows where the view has zeros. This is the same only when nothing
// that depends on such rows is stored: their way is followed to stores whose masks hold the same bound.
//
// Integers are exact in these sums, as in kiln_launch_expression: an i32 offset that would wrap around does
// not.
#include <string.h>

#include "compiler/analysis/facts.h"
#include "compiler/gpu/gpu.h"

enum { MOST_ATOMS = 6, MOST_TERMS = 12, MOST_DEPTH = 64, RANK = 2, MOST_AXES = 5 };
enum { LANE = 1, MODULO = 1 << 4 }; // codes of lanes: LANE + axis, with MODULO where taken modulo

/// An extent that indices never reach: they are i32 in the instruction. Drivers encode 2^32, too, but an H200
/// then stops with an illegal instruction.
static const int64_t UNBOUNDED = (int64_t)1 << 31;

/// factor * atoms * lane.
typedef struct term {
  int64_t factor;
  unsigned lane; ///< 0: none
  bool is_wide;  ///< computed in 64 bits: may be 2^31 or more
  unsigned count;
  const ir_value *atoms[MOST_ATOMS]; ///< scalars, by id; a base pointer is one
} term;

typedef struct sum {
  unsigned count;
  term terms[MOST_TERMS];
  const ir_op *modulo[RANK]; ///< the `rem` that an axis went through
} sum;

typedef struct made_view {
  const ir_value *base;
  ir_type type;
  sum parts[2 * MOST_AXES];
  ir_value *view;
} made_view;

typedef struct recovering {
  ir_kernel *kernel;
  kiln_facts *facts;
  ir_builder b;
  const ir_value *opaque; ///< a carried value while its step is found
  unsigned depth, count;
  made_view *views; ///< in `scratch`
  uint32_t view_count, view_capacity;
  kiln_arena *scratch;
} recovering;

// -------------------------------------------------------------------------------------------- sums

static bool same_product(const term *a, const term *b) {
  return a->lane == b->lane && a->count == b->count &&
         !memcmp(a->atoms, b->atoms, a->count * sizeof *a->atoms);
}

static bool add_term(sum *s, const term *t) {
  if (!t->factor) return true;
  for (unsigned i = 0; i < s->count; i++) {
    if (!same_product(&s->terms[i], t)) continue;
    if (__builtin_add_overflow(s->terms[i].factor, t->factor, &s->terms[i].factor)) return false;
    s->terms[i].is_wide |= t->is_wide;
    if (!s->terms[i].factor) s->terms[i] = s->terms[--s->count];
    return true;
  }
  if (s->count == MOST_TERMS) return false;
  s->terms[s->count++] = *t;
  return true;
}

static bool multiply_terms(const term *a, const term *b, term *out) {
  if ((a->lane && b->lane) || a->count + b->count > MOST_ATOMS) return false;
  *out = (term){.lane = a->lane | b->lane, .is_wide = a->is_wide || b->is_wide};
  if (__builtin_mul_overflow(a->factor, b->factor, &out->factor)) return false;
  for (unsigned i = 0, k = 0; i < a->count || k < b->count;) {
    bool left = k == b->count || (i < a->count && a->atoms[i]->id <= b->atoms[k]->id);
    out->atoms[out->count++] = left ? a->atoms[i++] : b->atoms[k++];
  }
  return true;
}

/// `out` += `scale` * `s`.
static bool add_sum(sum *out, const sum *s, int64_t scale) {
  for (unsigned i = 0; i < s->count; i++) {
    term t = s->terms[i];
    if (__builtin_mul_overflow(t.factor, scale, &t.factor) || !add_term(out, &t)) return false;
  }
  for (unsigned a = 0; a < RANK; a++) {
    if (s->modulo[a] && out->modulo[a] && s->modulo[a] != out->modulo[a]) return false;
    if (s->modulo[a]) out->modulo[a] = s->modulo[a];
  }
  return true;
}

static bool multiply(const sum *a, const sum *b, sum *out) {
  sum result = {0};
  for (unsigned i = 0; i < a->count; i++)
    for (unsigned k = 0; k < b->count; k++) {
      term t;
      if (!multiply_terms(&a->terms[i], &b->terms[k], &t) || !add_term(&result, &t)) return false;
    }
  for (unsigned i = 0; i < RANK; i++) {
    if (a->modulo[i] && b->modulo[i]) return false;
    result.modulo[i] = a->modulo[i] ? a->modulo[i] : b->modulo[i];
  }
  *out = result;
  return true;
}

static sum constant(int64_t value) {
  return value ? (sum){.count = 1, .terms = {{.factor = value}}} : (sum){0};
}

static sum atom(const ir_value *v) {
  return (sum){.count = 1, .terms = {{.factor = 1, .count = 1, .atoms = {v}}}};
}

static bool difference(const sum *a, const sum *b, sum *out) {
  sum result = *a;
  if (!add_sum(&result, b, -1)) return false;
  *out = result;
  return true;
}

static bool is_equal(const sum *a, const sum *b) {
  sum rest;
  return difference(a, b, &rest) && !rest.count;
}

/// The quotient of the terms, when what divides is part of the other.
static bool divide(const term *t, const term *by, term *out) {
  if (by->lane || !by->factor || t->factor % by->factor) return false;
  *out = (term){.lane = t->lane, .is_wide = t->is_wide, .factor = t->factor / by->factor};
  unsigned k = 0;
  for (unsigned i = 0; i < t->count; i++) {
    if (k < by->count && t->atoms[i] == by->atoms[k]) k++;
    else out->atoms[out->count++] = t->atoms[i];
  }
  return k == by->count;
}

// ------------------------------------------------------------------------------- bounds of sums

static __int128 clamp(__int128 x) {
  const __int128 most = (__int128)1 << 62;
  return x > most ? most : x < -most ? -most : x;
}

/// Bounds of a sum without lanes, as exact integers; 2^62 stands for anything beyond.
static void bounds_of(const recovering *r, const sum *s, __int128 *out_lo, __int128 *out_hi) {
  *out_lo = *out_hi = 0;
  for (unsigned i = 0; i < s->count; i++) {
    const term *t = &s->terms[i];
    __int128 lo = t->factor, hi = t->factor;
    for (unsigned k = 0; k < t->count; k++) {
      const kiln_fact *f = kiln_fact_of(r->facts, t->atoms[k]);
      __int128 a = clamp(lo * f->lo), b = clamp(lo * f->hi), c = clamp(hi * f->lo), d = clamp(hi * f->hi);
      __int128 least = a < b ? a : b, most = a < b ? b : a;
      least = c < least ? c : least, least = d < least ? d : least;
      most = c > most ? c : most, most = d > most ? d : most;
      lo = least, hi = most;
    }
    *out_lo = clamp(*out_lo + lo), *out_hi = clamp(*out_hi + hi);
  }
}

static bool is_never_negative(const recovering *r, const sum *s) {
  __int128 lo, hi;
  bounds_of(r, s, &lo, &hi);
  return lo >= 0;
}

// --------------------------------------------------------------------------------- values as sums

static bool sum_of(recovering *r, const ir_value *v, sum *out);

/// Lanes and moduli of axis `i` go to axis `to[i]`; RANK: there must be none.
static bool move_axes(sum *s, const unsigned to[RANK]) {
  const ir_op *modulo[RANK] = {NULL};
  for (unsigned i = 0; i < RANK; i++) {
    if (!s->modulo[i]) continue;
    if (to[i] >= RANK) return false;
    modulo[to[i]] = s->modulo[i];
  }
  memcpy(s->modulo, modulo, sizeof modulo);
  for (unsigned i = 0; i < s->count; i++) {
    unsigned lane = s->terms[i].lane, axis = (lane & ~(unsigned)MODULO) - LANE;
    if (!lane) continue;
    if (to[axis] >= RANK) return false;
    s->terms[i].lane = (LANE + to[axis]) | (lane & MODULO);
  }
  return true;
}

static bool sum_of_expand(recovering *r, const ir_op *op, sum *out) {
  unsigned to[RANK];
  for (unsigned i = 0; i < RANK; i++) to[i] = i < op->attrs.axis ? i : i + 1;
  return sum_of(r, op->operands[0], out) && move_axes(out, to);
}

static bool sum_of_broadcast(recovering *r, const ir_op *op, sum *out) {
  ir_type from = op->operands[0]->type, type = op->results[0].type;
  unsigned to[RANK];
  if (type.rank > RANK) return false;
  for (unsigned i = 0; i < RANK; i++) to[i] = i < type.rank && from.log2[i] == type.log2[i] ? i : RANK;
  return sum_of(r, op->operands[0], out) && move_axes(out, to);
}

static bool sum_of_trans(recovering *r, const ir_op *op, sum *out) {
  unsigned to[RANK];
  if (op->results[0].type.rank != RANK) return false;
  for (unsigned i = 0; i < RANK; i++) to[op->attrs.perm[i]] = i;
  return sum_of(r, op->operands[0], out) && move_axes(out, to);
}

/// Products of 64 bits may be large; what is of 32 bits is not.
static bool widen(ir_type type, sum *s) {
  for (unsigned i = 0; i < s->count && type.scalar == KILN_I64; i++) s->terms[i].is_wide = true;
  return true;
}

static bool sum_of_binary(recovering *r, const ir_op *op, sum *out) {
  sum right;
  if (!sum_of(r, op->operands[0], out) || !sum_of(r, op->operands[1], &right)) return false;
  if (op->code == IR_MUL) return multiply(out, &right, out) && widen(op->results[0].type, out);
  return add_sum(out, &right, op->code == IR_SUB ? -1 : 1);
}

static bool sum_of_shift(recovering *r, const ir_op *op, sum *out) {
  int64_t by;
  if (!ir_constant_int(op->operands[1], &by) || by < 0 || by > 30) return false;
  sum factor = constant((int64_t)1 << by);
  return sum_of(r, op->operands[0], out) && multiply(out, &factor, out);
}

/// (lane + row) % extent of one axis: the lanes are marked.
static bool sum_of_modulo(recovering *r, const ir_op *op, sum *out) {
  if (op->results[0].type.rank != 1 || op->attrs.flags & IR_UNSIGNED) return false;
  if (!sum_of(r, op->operands[0], out) || out->modulo[0]) return false;
  unsigned lanes = 0;
  for (unsigned i = 0; i < out->count; i++) {
    term *t = &out->terms[i];
    if (!t->lane) continue;
    if (t->factor != 1 || t->count) return false;
    t->lane |= MODULO;
    lanes++;
  }
  out->modulo[0] = op;
  return lanes == 1;
}

static bool is_defined_in(const ir_value *v, const ir_op *loop) {
  const ir_op *at = v->def ? v->def : v->block->parent;
  for (; at; at = at->block->parent)
    if (at == loop) return true;
  return false;
}

/// What a loop carries and advances by the same amount each turn: initial + (counter - lower) / step *
/// amount.
static bool sum_of_carried(recovering *r, const ir_value *v, sum *out) {
  const ir_op *loop = v->block->parent;
  int64_t step;
  if (!loop || loop->code != IR_FOR || v->index == 0 || r->opaque) return false;
  if (!ir_constant_int(ir_for_step(loop), &step) || step < 1) return false;
  sum next, amount, self = atom(v), lower, turns;
  r->opaque = v;
  bool is_sum = sum_of(r, ir_loop_next(loop)->operands[v->index - 1], &next);
  r->opaque = NULL;
  if (!is_sum || !difference(&next, &self, &amount)) return false;
  for (unsigned i = 0; i < amount.count; i++) {
    const term *t = &amount.terms[i];
    if (t->lane || t->factor % step) return false;
    amount.terms[i].factor /= step;
    for (unsigned k = 0; k < t->count; k++)
      if (is_defined_in(t->atoms[k], loop)) return false;
  }
  turns = atom(ir_for_counter(loop));
  return sum_of(r, ir_for_lower(loop), &lower) && add_sum(&turns, &lower, -1) &&
         multiply(&turns, &amount, &turns) &&
         widen(v->type.pointer ? ir_scalar_type(KILN_I64) : v->type, &turns) &&
         sum_of(r, ir_loop_initials(loop)[v->index - 1], out) && add_sum(out, &turns, 1);
}

/// Numbers that are surely not negative stay whole: what says so is known of them, not of their parts.
static bool stays_whole(const recovering *r, const ir_value *v) {
  return !v->type.rank && !v->type.pointer && kiln_fact_of(r->facts, v)->lo >= 0;
}

static bool sum_of_result(recovering *r, const ir_value *v, sum *out) {
  const ir_op *op = v->def;
  switch (op->code) {
  case IR_IOTA: *out = (sum){.count = 1, .terms = {{.factor = 1, .lane = LANE}}}; return true;
  case IR_HINT:
  case IR_SPLAT: return sum_of(r, op->operands[0], out);
  case IR_CAST:
    return !(op->attrs.flags & IR_UNSIGNED) && op->operands[0]->type.scalar == KILN_I32 &&
           v->type.scalar == KILN_I64 && sum_of(r, op->operands[0], out);
  case IR_EXPAND: return sum_of_expand(r, op, out);
  case IR_BROADCAST: return sum_of_broadcast(r, op, out);
  case IR_TRANS: return sum_of_trans(r, op, out);
  case IR_ADD:
  case IR_SUB: return !stays_whole(r, v) && sum_of_binary(r, op, out);
  case IR_MUL:
  case IR_PTRADD: return sum_of_binary(r, op, out);
  case IR_SHL: return sum_of_shift(r, op, out);
  case IR_REM: return sum_of_modulo(r, op, out);
  default: return false;
  }
}

/// An i32, an i64 or a pointer, scalar or tile, as a sum. A scalar that is none is an atom.
static bool sum_of(recovering *r, const ir_value *v, sum *out) {
  int64_t value;
  bool is_number = !v->type.pointer && (v->type.scalar == KILN_I32 || v->type.scalar == KILN_I64);
  if ((!is_number && v->type.pointer != 1) || v->type.is_view || v->type.rank > RANK) return false;
  if (is_number && ir_constant_int(v, &value)) {
    *out = constant(value);
    return true;
  }
  if (v == r->opaque) {
    *out = atom(v);
    return true;
  }
  if (r->depth == MOST_DEPTH) return false;
  r->depth++;
  *out = (sum){0};
  bool is_sum = v->def ? sum_of_result(r, v, out) : sum_of_carried(r, v, out);
  r->depth--;
  if (is_sum || v->type.rank) return is_sum;
  *out = atom(v);
  return true;
}

// ------------------------------------------------------------------------------------------ limits

/// lane + index < extent.
typedef struct limit {
  bool is_set, is_modulo;
  sum index, extent;
} limit;

/// Terms that are known at launch, and the others.
static bool split_at_launch(const recovering *r, const sum *s, sum *launch, sum *rest) {
  *launch = *rest = (sum){0};
  for (unsigned i = 0; i < s->count; i++) {
    const term *t = &s->terms[i];
    bool is_launch = true;
    for (unsigned k = 0; k < t->count; k++) {
      kiln_buffer ignored = {0};
      is_launch &= kiln_launch_expression(r->kernel, t->atoms[k], 1, &ignored);
      kiln_buffer_deinit(&ignored);
    }
    if (!add_term(is_launch ? launch : rest, t)) return false;
  }
  return true;
}

/// `larger` - `smaller` > 0 bounds an axis: one lane with factor -1. True also when it always holds.
static bool limit_of(const recovering *r, const sum *larger, const sum *smaller, int64_t slack,
                     limit limits[RANK]) {
  sum rest = *larger, one = constant(slack);
  const term *lane = NULL;
  if (!add_sum(&rest, smaller, -1) || !add_sum(&rest, &one, 1)) return false;
  for (unsigned a = 0; a < RANK; a++)
    if (rest.modulo[a]) return false;
  for (unsigned i = 0; i < rest.count; i++) {
    if (!rest.terms[i].lane) continue;
    if (lane) return false;
    lane = &rest.terms[i];
  }
  if (!lane || lane->count) return false;
  unsigned axis = lane->lane - LANE;
  term taken = *lane;
  taken.factor = -taken.factor;
  if (!add_term(&rest, &taken)) return false;
  if (taken.factor == -1) { // lane + rest > 0
    sum at_first = rest, minus = constant(-1);
    return add_sum(&at_first, &minus, 1) && is_never_negative(r, &at_first);
  }
  limit found = {.is_set = true};
  if (taken.factor != 1 || !split_at_launch(r, &rest, &found.extent, &found.index)) return false;
  for (unsigned i = 0; i < found.index.count; i++) found.index.terms[i].factor *= -1;
  if (limits[axis].is_set)
    return is_equal(&limits[axis].extent, &found.extent) && is_equal(&limits[axis].index, &found.index);
  limits[axis] = found;
  return true;
}

static bool limits_of_compare(recovering *r, const ir_op *op, limit limits[RANK]) {
  sum left, right;
  if (op->attrs.flags & IR_UNSIGNED || op->operands[0]->type.pointer) return false;
  if (!sum_of(r, op->operands[0], &left) || !sum_of(r, op->operands[1], &right)) return false;
  switch (op->attrs.kind) {
  case IR_LT: return limit_of(r, &right, &left, 0, limits);
  case IR_LE: return limit_of(r, &right, &left, 1, limits);
  case IR_GT: return limit_of(r, &left, &right, 0, limits);
  case IR_GE: return limit_of(r, &left, &right, 1, limits);
  default: return false;
  }
}

static bool limits_of(recovering *r, const ir_value *mask, limit limits[RANK]);

static bool limits_of_moved(recovering *r, const ir_op *op, const unsigned to[RANK], limit limits[RANK]) {
  limit inner[RANK] = {{.is_set = false}};
  if (!limits_of(r, op->operands[0], inner)) return false;
  for (unsigned i = 0; i < RANK; i++) {
    if (!inner[i].is_set) continue;
    if (to[i] >= RANK) return false;
    limit *at = &limits[to[i]];
    if (at->is_set && !(is_equal(&at->extent, &inner[i].extent) && is_equal(&at->index, &inner[i].index)))
      return false;
    *at = inner[i];
  }
  return true;
}

/// What the mask says of each axis; false when it says more, or something else.
static bool limits_of(recovering *r, const ir_value *mask, limit limits[RANK]) {
  const ir_op *op = mask->def;
  unsigned to[RANK] = {0, 1};
  uint64_t bits;
  if (ir_constant_bits(mask, &bits)) return bits == 1;
  if (!op || mask->type.rank > RANK || !mask->type.rank) return false;
  switch (op->code) {
  case IR_AND: return limits_of(r, op->operands[0], limits) && limits_of(r, op->operands[1], limits);
  case IR_CMP: return limits_of_compare(r, op, limits);
  case IR_EXPAND:
    for (unsigned i = 0; i < RANK; i++) to[i] = i < op->attrs.axis ? i : i + 1;
    return limits_of_moved(r, op, to, limits);
  case IR_BROADCAST:
    for (unsigned i = 0; i < RANK; i++)
      if (op->operands[0]->type.log2[i] != mask->type.log2[i]) to[i] = RANK;
    return limits_of_moved(r, op, to, limits);
  case IR_TRANS:
    for (unsigned i = 0; i < RANK && mask->type.rank == RANK; i++) to[op->attrs.perm[i]] = i;
    return limits_of_moved(r, op, to, limits);
  default: return false;
  }
}

// --------------------------------------------------------------------------- elements nobody wants

/// Where elements that a modulo changes go: values, and the axis along which they lie.
typedef struct spreading {
  recovering *r;
  const limit *bound;
  bool grows, fails;
} spreading;

static unsigned axis_of(const ir_value *v) { return (unsigned)(uintptr_t)v->slot; } // 1 + axis; 0: untouched

static void touch(spreading *s, ir_value *v, unsigned axis) {
  if (!v->type.rank || (axis_of(v) && axis_of(v) != axis)) s->fails = true;
  if (axis_of(v)) return;
  v->slot = (void *)(uintptr_t)axis; // NOLINT(performance-no-int-to-ptr): a number in the slot
  s->grows = true;
}

static void touch_store(spreading *s, const ir_op *op, unsigned axis) {
  limit limits[RANK] = {{.is_set = false}};
  bool is_masked = op->code == IR_STORE && op->operand_count == 3 && !axis_of(op->operands[0]) &&
                   !axis_of(op->operands[2]) && op->operands[1]->type.rank <= RANK;
  const limit *at = &limits[axis - 1];
  if (!is_masked || !limits_of(s->r, op->operands[2], limits) || !at->is_set ||
      !is_equal(&at->extent, &s->bound->extent) || !is_equal(&at->index, &s->bound->index))
    s->fails = true;
}

static void touch_renamed(spreading *s, ir_op *op, unsigned axis) {
  ir_type type = op->results[0].type;
  unsigned to = 0;
  switch (op->code) {
  case IR_EXPAND: to = axis - 1 < op->attrs.axis ? axis : axis + 1; break;
  case IR_BROADCAST: to = op->operands[0]->type.log2[axis - 1] == type.log2[axis - 1] ? axis : 0; break;
  case IR_TRANS:
    for (unsigned i = 0; i < type.rank; i++)
      if (op->attrs.perm[i] == axis - 1) to = 1 + i;
    break;
  default: break;
  }
  if (to) touch(s, &op->results[0], to);
  else s->fails = true;
}

static void touch_user(spreading *s, ir_op *op, unsigned which, unsigned axis) {
  const ir_op *parent = op->block->parent;
  if (ir_has(op->code, IR_EACH) && ir_ops[op->code].effect == IR_PURE) {
    touch(s, &op->results[0], axis);
  } else if (op->code == IR_DOT && op->results[0].type.rank == 2 && (which == 2 || axis == 1 + which)) {
    touch(s, &op->results[0], axis);
  } else if (op->code == IR_REDUCE && op->attrs.axis != axis - 1) {
    for (uint32_t i = 0; i < op->result_count; i++)
      touch(s, &op->results[i], op->attrs.axis < axis - 1 ? axis - 1 : axis);
  } else if (op->code == IR_FOR && which >= IR_FOR_BOUNDS) {
    touch(s, ir_loop_args(op)[which - IR_FOR_BOUNDS], axis);
    touch(s, &op->results[which - IR_FOR_BOUNDS], axis);
  } else if (op->code == IR_YIELD && parent && parent->code == IR_FOR) {
    touch(s, ir_loop_args(parent)[which], axis);
    touch(s, (ir_value *)&parent->results[which], axis);
  } else if (op->code == IR_YIELD && parent && parent->code == IR_IF) {
    touch(s, (ir_value *)&parent->results[which], axis);
  } else if (op->code == IR_STORE) {
    touch_store(s, op, axis);
  } else if (ir_is_renaming(op)) {
    touch_renamed(s, op, axis);
  } else {
    s->fails = true;
  }
}

static void touch_users(ir_op *op, void *context) {
  spreading *s = context;
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (axis_of(op->operands[i])) touch_user(s, op, i, axis_of(op->operands[i]));
}

static void forget_slot(ir_op *op, void *context) {
  (void)context;
  for (uint32_t i = 0; i < op->result_count; i++) op->results[i].slot = NULL;
  for (uint32_t i = 0; i < op->region_count; i++)
    for (uint32_t k = 0; k < op->regions[i]->arg_count; k++) op->regions[i]->args[k]->slot = NULL;
}

/// Nothing that depends on elements of `load` beyond the bound of `axis` reaches memory.
static bool is_unwanted_beyond(recovering *r, ir_op *load, unsigned axis, const limit *bound) {
  spreading s = {.r = r, .bound = bound};
  touch(&s, &load->results[0], 1 + axis);
  while (s.grows && !s.fails) {
    s.grows = false;
    ir_walk(r->kernel->body, touch_users, &s);
  }
  ir_walk(r->kernel->body, forget_slot, NULL);
  return !s.fails;
}

// --------------------------------------------------------------------------------------- addresses

/// An access as one of a view. Axes in order of the view: those outside the tile, then the tile's.
typedef struct address {
  const ir_value *base;
  unsigned rank;
  sum extents[MOST_AXES], strides[MOST_AXES], indices[MOST_AXES];
  bool is_turned; ///< the tile's first axis is contiguous
} address;

/// Takes the terms with lanes out of `rest`: their other factors are the strides of the axes.
static bool take_lanes(sum *rest, term strides[RANK]) {
  unsigned seen = 0;
  for (unsigned i = rest->count; i-- > 0;) {
    term t = rest->terms[i];
    if (!t.lane) continue;
    unsigned axis = (t.lane & ~(unsigned)MODULO) - LANE;
    if (seen & 1u << axis || !(t.lane & MODULO) != !rest->modulo[axis]) return false;
    seen |= 1u << axis;
    rest->terms[i] = rest->terms[--rest->count];
    t.lane = 0;
    strides[axis] = t;
  }
  return seen == 3;
}

static bool take_base(const recovering *r, sum *rest, const ir_value **out_base) {
  *out_base = NULL;
  for (unsigned i = rest->count; i-- > 0;) {
    const term *t = &rest->terms[i];
    bool is_base = t->count == 1 && t->atoms[0]->type.pointer;
    if (!is_base) continue;
    if (*out_base || t->factor != 1 || t->atoms[0]->def || t->atoms[0]->block != r->kernel->body)
      return false;
    *out_base = t->atoms[0];
    rest->terms[i] = rest->terms[--rest->count];
  }
  return *out_base != NULL;
}

static bool is_one(const term *t) { return t->factor == 1 && !t->count; }

static sum sum_of_term(const term *t) { return (sum){.count = 1, .terms = {*t}}; }

static bool is_known_at_launch(const recovering *r, const sum *s) {
  sum launch, rest;
  return split_at_launch(r, s, &launch, &rest) && !rest.count;
}

/// What is left goes to axes of the tile without bounds, else to axes of its own: one number of 32 bits times
/// what is known at launch.
static bool place_rest(const recovering *r, const sum *rest, const term strides[RANK],
                       const limit limits[RANK], sum indices[RANK], address *out) {
  for (unsigned i = 0; i < rest->count; i++) {
    const term *t = &rest->terms[i];
    term index, best = {0};
    unsigned axis = RANK;
    for (unsigned a = 0; a < RANK; a++)
      if (!limits[a].is_set && divide(t, &strides[a], &index) &&
          (axis == RANK || strides[a].count > strides[axis].count ||
           (strides[a].count == strides[axis].count && strides[a].factor > strides[axis].factor)))
        axis = a, best = index;
    sum index_sum = sum_of_term(&best);
    // A whole stride that is left over is an axis outside, not many columns of the contiguous axis.
    if (axis < RANK && !(is_one(&strides[axis]) && t->count > 1) && is_never_negative(r, &index_sum)) {
      if (!add_term(&indices[axis], &best)) return false;
      continue;
    }
    sum launch, inner;
    term by = {.factor = t->factor}, number = {.factor = 1};
    for (unsigned k = 0; k < t->count; k++) {
      sum one = atom(t->atoms[k]);
      bool is_launch = split_at_launch(r, &one, &launch, &inner) && !inner.count;
      term *to = is_launch ? &by : &number;
      to->atoms[to->count++] = t->atoms[k];
    }
    sum number_sum = sum_of_term(&number);
    if (number.count != 1 || number.atoms[0]->type.scalar != KILN_I32 || !is_never_negative(r, &number_sum))
      return false;
    if (out->rank == MOST_AXES - RANK) return false;
    out->indices[out->rank] = number_sum;
    out->strides[out->rank] = sum_of_term(&by);
    out->extents[out->rank++] = constant(UNBOUNDED);
  }
  return true;
}

/// Whether the sum is at most `most`: as a number of 32 bits, to which the source adds lanes in 32 bits, or
/// by what is known of its parts.
static bool is_at_most(const recovering *r, const sum *s, __int128 most) {
  enum { MOST_LANES = 1 << 16 };
  __int128 lo, hi;
  bool is_wide = false;
  for (unsigned i = 0; i < s->count; i++) {
    is_wide |= s->terms[i].is_wide;
    for (unsigned k = 0; k < s->terms[i].count; k++) is_wide |= s->terms[i].atoms[k]->type.scalar == KILN_I64;
  }
  bounds_of(r, s, &lo, &hi);
  return (!is_wide && most >= INT32_MAX - MOST_LANES) || hi <= most;
}

static bool limit_of_modulo(recovering *r, const ir_op *op, limit *out) {
  sum index, lane = {.count = 1, .terms = {{.factor = 1, .lane = LANE}}};
  *out = (limit){.is_set = true, .is_modulo = true};
  return sum_of(r, op->operands[0], &index) && difference(&index, &lane, &out->index) &&
         sum_of(r, op->operands[1], &out->extent) && is_known_at_launch(r, &out->extent);
}

/// The address of a tile of pointers with what bounds it.
static bool address_of(recovering *r, const ir_value *pointer, limit limits[RANK], address *out) {
  sum rest, indices[RANK] = {{0}};
  term strides[RANK];
  *out = (address){0};
  if (!sum_of(r, pointer, &rest) || !take_lanes(&rest, strides) || !take_base(r, &rest, &out->base))
    return false;
  for (unsigned a = 0; a < RANK; a++) {
    sum stride = sum_of_term(&strides[a]), covered;
    if (!is_known_at_launch(r, &stride)) return false;
    if (rest.modulo[a] && (limits[a].is_set || !limit_of_modulo(r, rest.modulo[a], &limits[a]))) return false;
    if (!limits[a].is_set) continue;
    if (!multiply(&limits[a].index, &stride, &covered) || !difference(&rest, &covered, &rest)) return false;
    indices[a] = limits[a].index;
  }
  if (!place_rest(r, &rest, strides, limits, indices, out)) return false;
  out->is_turned = is_one(&strides[0]) && !is_one(&strides[1]);
  for (unsigned i = 0; i < RANK; i++) {
    unsigned a = out->is_turned ? 1 - i : i, to = out->rank++;
    if (!is_never_negative(r, &indices[a])) return false;
    if (!limits[a].is_set && !is_at_most(r, &indices[a], UNBOUNDED - (1 << pointer->type.log2[a])))
      return false;
    out->indices[to] = indices[a];
    out->strides[to] = sum_of_term(&strides[a]);
    out->extents[to] = limits[a].is_set ? limits[a].extent : constant(UNBOUNDED);
  }
  return true;
}

// ---------------------------------------------------------------------------------------- emission

static ir_value *widened(recovering *r, const ir_value *v, kiln_scalar to) {
  return v->type.scalar == to ? (ir_value *)v : ir_cast(&r->b, (ir_value *)v, to, 0, 0);
}

/// The sum as an i64; an index that is small enough is computed in i32, which is what instructions take.
static ir_value *emit_sum(recovering *r, const sum *s, bool is_index) {
  bool is_narrow = is_index && is_at_most(r, s, INT32_MAX);
  for (unsigned i = 0; i < s->count; i++) {
    is_narrow &= s->terms[i].factor == (int32_t)s->terms[i].factor;
    for (unsigned k = 0; k < s->terms[i].count; k++)
      is_narrow &= s->terms[i].atoms[k]->type.scalar == KILN_I32;
  }
  kiln_scalar width = is_narrow ? KILN_I32 : KILN_I64;
  ir_value *total = NULL;
  for (unsigned i = 0; i < s->count; i++) {
    const term *t = &s->terms[i];
    ir_value *product = NULL;
    for (unsigned k = 0; k < t->count; k++) {
      ir_value *factor = widened(r, t->atoms[k], width);
      product = product ? ir_binary(&r->b, IR_MUL, 0, product, factor) : factor;
    }
    if (!product || t->factor != 1) {
      ir_value *factor = ir_const_int(&r->b, width, t->factor);
      product = product ? ir_binary(&r->b, IR_MUL, 0, product, factor) : factor;
    }
    total = total ? ir_binary(&r->b, IR_ADD, 0, total, product) : product;
  }
  if (!total) total = ir_const_int(&r->b, width, 0);
  return total ? widened(r, total, KILN_I64) : NULL;
}

static bool is_view_of(const made_view *m, const address *a, ir_type type) {
  bool is_same = m->base == a->base && ir_type_equal(m->type, type);
  for (unsigned i = 0; i < a->rank && is_same; i++)
    is_same = is_equal(&m->parts[i], &a->extents[i]) && is_equal(&m->parts[a->rank + i], &a->strides[i]);
  return is_same;
}

/// The view, made before the operation of the kernel's body that the access stands in; accesses of the same
/// view share one.
static ir_value *view_of(recovering *r, const ir_op *access, const address *a, ir_type type) {
  for (unsigned i = 0; i < r->view_count; i++)
    if (is_view_of(&r->views[i], a, type)) return r->views[i].view;
  const ir_op *outermost = access;
  while (outermost->block->parent) outermost = outermost->block->parent;
  ir_value *operands[1 + 2 * MOST_AXES] = {(ir_value *)a->base};
  r->b.block = r->kernel->body, r->b.before = (ir_op *)outermost;
  for (unsigned i = 0; i < a->rank; i++) {
    operands[1 + i] = emit_sum(r, &a->extents[i], false);
    operands[1 + a->rank + i] = emit_sum(r, &a->strides[i], false);
  }
  ir_op *op = ir_emit(&r->b, IR_VIEW, NULL, operands, 1 + 2 * a->rank, &type, NULL, 0);
  if (!op) return NULL;
  KILN_GROW(r->scratch, r->views, r->view_count, r->view_capacity);
  made_view *m = &r->views[r->view_count++];
  *m = (made_view){.base = a->base, .type = type, .view = &op->results[0]};
  memcpy(m->parts, a->extents, a->rank * sizeof *m->parts);
  memcpy(m->parts + a->rank, a->strides, a->rank * sizeof *m->parts);
  return m->view;
}

static ir_type view_type(const address *a, ir_type pointer) {
  ir_type type = {.scalar = pointer.scalar, .is_view = 1, .rank = (uint8_t)a->rank};
  for (unsigned i = 0; i < a->rank; i++) {
    unsigned at = i - (a->rank - RANK);
    type.log2[i] = i + RANK < a->rank ? IR_DROPPED : pointer.log2[a->is_turned ? 1 - at : at];
  }
  return type;
}

/// The view and the indices of an access, in `operands`; returns how many.
static uint32_t emit_access(recovering *r, ir_op *op, const address *a, ir_value **operands) {
  uint32_t count = 0;
  r->b.place = op->place;
  operands[count++] = view_of(r, op, a, view_type(a, op->operands[0]->type));
  r->b.block = op->block, r->b.before = op;
  for (unsigned i = 0; i < a->rank; i++) operands[count++] = emit_sum(r, &a->indices[i], true);
  return count;
}

// ---------------------------------------------------------------------------------------- accesses

static bool is_candidate(const ir_op *op) {
  ir_type type = op->operands[0]->type;
  return type.rank == RANK && type.pointer == 1 && type.scalar != KILN_I1 && !(op->attrs.flags & IR_VOLATILE);
}

static void recover_load(recovering *r, ir_op *load) {
  limit limits[RANK] = {{.is_set = false}};
  address a;
  uint64_t other;
  if (!is_candidate(load)) return;
  if (load->operand_count > 2 && (!ir_constant_bits(load->operands[2], &other) || other)) return;
  if (load->operand_count > 1 && !limits_of(r, load->operands[1], limits)) return;
  if (!address_of(r, load->operands[0], limits, &a)) return;
  for (unsigned i = 0; i < RANK; i++)
    if (limits[i].is_modulo && !is_unwanted_beyond(r, load, i, &limits[i])) return;
  ir_value *operands[1 + MOST_AXES];
  uint32_t count = emit_access(r, load, &a, operands);
  ir_op *made = ir_emit(&r->b, IR_VIEW_LOAD, &load->attrs, operands, count, NULL, NULL, 0);
  if (made && a.is_turned)
    made = ir_emit(&r->b, IR_TRANS, &(ir_attrs){.perm = {1, 0}}, (ir_value *[]){&made->results[0]}, 1, NULL,
                   NULL, 0);
  if (!made) return;
  ir_forward(&load->results[0], &made->results[0]);
  ir_remove(load);
  r->count++;
}

static void recover_store(recovering *r, ir_op *store) {
  limit limits[RANK] = {{.is_set = false}};
  address a;
  if (!is_candidate(store)) return;
  if (store->operand_count > 2 && !limits_of(r, store->operands[2], limits)) return;
  if (!address_of(r, store->operands[0], limits, &a) || a.is_turned) return;
  if (limits[0].is_modulo || limits[1].is_modulo) return;
  ir_value *operands[2 + MOST_AXES];
  uint32_t count = emit_access(r, store, &a, operands);
  operands[count++] = store->operands[1];
  if (ir_emit(&r->b, IR_VIEW_STORE, &store->attrs, operands, count, NULL, NULL, 0)) ir_remove(store);
  r->count++;
}

// ------------------------------------------------------------------------------------ bases of views

typedef struct moving {
  ir_kernel *kernel;
  const ir_value *from;
  ir_value *to, *const *indices;
  unsigned more; ///< axes in front
} moving;

static void move_access(ir_op *op, void *context) {
  const moving *m = context;
  if ((op->code != IR_VIEW_LOAD && op->code != IR_VIEW_STORE) || op->operands[0] != m->from) return;
  ir_value **operands = KILN_NEW_ARRAY(m->kernel->arena, ir_value *, op->operand_count + m->more);
  if (!operands) return;
  operands[0] = m->to;
  memcpy(operands + 1, m->indices, m->more * sizeof *operands);
  memcpy(operands + 1 + m->more, op->operands + 1, (op->operand_count - 1) * sizeof *operands);
  op->operands = operands;
  op->operand_count += m->more;
}

/// A view whose base is a parameter and index * stride ...: they become axes in front. The offsets are those
/// of heads, batches, layers; what a program leaves out of the view's extents stays out.
static void recover_base(recovering *r, ir_op *view) {
  const limit set[RANK] = {{.is_set = true}, {.is_set = true}};
  const term none[RANK] = {{0}};
  ir_type type = view->results[0].type;
  sum rest, unused[RANK] = {{0}};
  address a = {0};
  if (!view->operands[0]->def || type.rank < RANK || type.rank > MOST_AXES - 1) return;
  if (!sum_of(r, view->operands[0], &rest) || !take_base(r, &rest, &a.base) || !rest.count) return;
  if (!place_rest(r, &rest, none, set, unused, &a) || a.rank + type.rank > MOST_AXES) return;
  unsigned rank = a.rank + type.rank;
  ir_value *operands[1 + 2 * MOST_AXES] = {(ir_value *)a.base}, *indices[MOST_AXES];
  r->b.block = view->block, r->b.before = view, r->b.place = view->place;
  for (unsigned i = 0; i < rank; i++) {
    bool is_new = i < a.rank;
    operands[1 + i] = is_new ? emit_sum(r, &a.extents[i], false) : view->operands[1 + i - a.rank];
    operands[1 + rank + i] =
        is_new ? emit_sum(r, &a.strides[i], false) : view->operands[1 + type.rank + i - a.rank];
    if (is_new) indices[i] = emit_sum(r, &a.indices[i], true);
  }
  ir_type larger = type;
  larger.rank = (uint8_t)rank;
  for (unsigned i = 0; i < rank; i++) larger.log2[i] = i < a.rank ? IR_DROPPED : type.log2[i - a.rank];
  ir_op *op = ir_emit(&r->b, IR_VIEW, NULL, operands, 1 + 2 * rank, &larger, NULL, 0);
  if (!op) return;
  moving m = {r->kernel, &view->results[0], &op->results[0], indices, a.rank};
  ir_walk(r->kernel->body, move_access, &m);
  r->count++;
}

typedef struct accesses {
  kiln_arena *arena;
  ir_op **list;
  uint32_t count, capacity;
} accesses;

static void add_access(accesses *all, ir_op *op) {
  for (uint32_t i = 0; i < all->count; i++)
    if (all->list[i] == op) return;
  KILN_GROW(all->arena, all->list, all->count, all->capacity);
  all->list[all->count++] = op;
}

/// Loads behind products first: stores still have the masks that a modulo needs.
static void note_loads(ir_op *op, void *context) {
  for (unsigned i = 0; op->code == IR_DOT && i < 2; i++) {
    ir_op *from = op->operands[i]->def;
    while (from && from->code == IR_TRANS) from = from->operands[0]->def;
    if (from && from->code == IR_LOAD) add_access(context, from);
  }
}

static void note_views(ir_op *op, void *context) {
  if (op->code == IR_VIEW && op->operands[0]->def) add_access(context, op);
}

static void note_dots(ir_op *op, void *context) { *(bool *)context |= op->code == IR_DOT; }

static void note_stores(ir_op *op, void *context) {
  if (op->code == IR_STORE) add_access(context, op);
}

unsigned kiln_gpu_recover_views(ir_kernel *kernel) {
  kiln_arena *scratch = kiln_arena_create();
  if (!scratch) return 0;
  accesses all = {.arena = scratch}, views = {.arena = scratch};
  bool has_products = false;
  recovering r = {.kernel = kernel, .scratch = scratch, .b = {.arena = kernel->arena}};
  ir_walk(kernel->body, note_loads, &all);
  uint32_t loads = all.count;
  if (loads) ir_walk(kernel->body, note_stores, &all);
  ir_walk(kernel->body, note_dots, &has_products);
  if (has_products) ir_walk(kernel->body, note_views, &views);
  if (loads || views.count) r.facts = kiln_facts_compute(scratch, kernel);
  for (uint32_t i = 0; i < views.count; i++) recover_base(&r, views.list[i]);
  for (uint32_t i = 0; i < all.count; i++) (i < loads ? recover_load : recover_store)(&r, all.list[i]);
  kiln_arena_destroy(scratch);
  if (r.count) ir_apply_forwards(kernel);
  return r.count;
}
