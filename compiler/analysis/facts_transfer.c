// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One transfer function an operation: facts of the result from facts of the operands.
#include "compiler/analysis/facts_inner.h"

#include <string.h>

typedef const kiln_fact *const facts3[3];
typedef void transfer(const ir_op *op, facts3 x, kiln_fact *f);

static uint8_t least(unsigned a, unsigned b) { return (uint8_t)(a < b ? a : b); }
static uint8_t most(unsigned a, unsigned b) { return (uint8_t)(a > b ? a : b); }

uint8_t fact_log2(int64_t n) {
  return n ? least((unsigned)__builtin_ctzll((uint64_t)n), KILN_FACT_MAX_DIVISIBILITY)
           : KILN_FACT_MAX_DIVISIBILITY;
}

void fact_type_bounds(ir_type type, kiln_fact *f) {
  unsigned class = ir_type_class(type), bits = ir_type_bits(type);
  f->lo = INT64_MIN;
  f->hi = INT64_MAX;
  if (type.is_view || !(class & (KILN_CLASS_INT | KILN_CLASS_BOOL)) || bits == 64) return;
  f->lo = bits == 1 ? 0 : -((int64_t)1 << (bits - 1));
  f->hi = bits == 1 ? 1 : ((int64_t)1 << (bits - 1)) - 1;
}

/// Axes to look at: a scalar has its facts at index 0.
static unsigned axes(ir_type type) { return type.rank ? type.rank : 1; }

unsigned fact_pointee_log2(ir_type type) {
  return type.pointer > 1 ? 3 : fact_log2(kiln_scalars[type.scalar].bytes);
}

/// log2 of the bytes by which a pointer grows per element; 0 for integers.
static unsigned scale(ir_type type) { return type.pointer ? fact_pointee_log2(type) : 0; }

/// Divisibility of the elements whose coordinate along `axis` is a multiple of 2^run.
static uint8_t at_start(const kiln_fact *f, ir_type type, unsigned axis, unsigned run) {
  return run >= f->contiguity[axis] ? f->divisibility[axis] : least(f->divisibility[axis], run + scale(type));
}

/// Divisibility of all elements.
static uint8_t of_all(const kiln_fact *f, ir_type type) {
  uint8_t best = 0;
  for (unsigned i = 0; i < axes(type); i++) best = most(best, at_start(f, type, i, 0));
  return best;
}

static void all_divisible(kiln_fact *f, unsigned divisibility) {
  memset(f->divisibility, (int)least(divisibility, KILN_FACT_MAX_DIVISIBILITY), IR_MAX_RANK);
}

void fact_join(kiln_fact *f, const kiln_fact *other) {
  for (unsigned i = 0; i < IR_MAX_RANK; i++) {
    unsigned run = least(f->contiguity[i], other->contiguity[i]);
    uint8_t a = run < f->contiguity[i] ? least(f->divisibility[i], run) : f->divisibility[i];
    uint8_t b = run < other->contiguity[i] ? least(other->divisibility[i], run) : other->divisibility[i];
    f->contiguity[i] = (uint8_t)run;
    f->divisibility[i] = least(a, b);
    f->constancy[i] = least(f->constancy[i], other->constancy[i]);
  }
  if (other->lo < f->lo) f->lo = other->lo;
  if (other->hi > f->hi) f->hi = other->hi;
}

void fact_clip(kiln_fact *f, ir_predicate predicate, int64_t n) {
  int64_t lo = INT64_MIN, hi = INT64_MAX;
  switch (predicate) {
  case IR_EQ: lo = hi = n; break;
  case IR_NE: break;
  case IR_LT: hi = n == INT64_MIN ? n : n - 1; break;
  case IR_LE: hi = n; break;
  case IR_GT: lo = n == INT64_MAX ? n : n + 1; break;
  case IR_GE: lo = n; break;
  }
  if (lo > f->lo) f->lo = lo;
  if (hi < f->hi) f->hi = hi;
}

/// Bounds that fit the type; a result that may wrap keeps what the type says.
static void bounds(const ir_op *op, kiln_fact *f, __int128 lo, __int128 hi) {
  kiln_fact type;
  fact_type_bounds(op->results[0].type, &type);
  if (lo < type.lo || hi > type.hi || lo > hi) return;
  f->lo = (int64_t)lo;
  f->hi = (int64_t)hi;
}

static __int128 low(__int128 a, __int128 b) { return a < b ? a : b; }
static __int128 high(__int128 a, __int128 b) { return a > b ? a : b; }

static ir_type type_of(const ir_op *op, unsigned i) { return op->operands[i]->type; }

static void constancy_of_operands(const ir_op *op, facts3 x, kiln_fact *f) {
  for (unsigned i = 0; i < op->results[0].type.rank; i++) {
    f->constancy[i] = op->results[0].type.log2[i];
    for (uint32_t k = 0; k < op->operand_count && k < 3; k++)
      if (type_of(op, k).rank) f->constancy[i] = least(f->constancy[i], x[k]->constancy[i]);
  }
}

// -------------------------------------------------------------------------------------- arithmetic

/// Of pointers, operand 1 counts elements.
static void sum_axes(const ir_op *op, facts3 x, kiln_fact *f, bool both_ways) {
  const unsigned offset_scale = scale(type_of(op, 0));
  for (unsigned i = 0; i < axes(op->results[0].type); i++) {
    unsigned run = least(x[0]->contiguity[i], x[1]->constancy[i]);
    if (both_ways) run = most(run, least(x[0]->constancy[i], x[1]->contiguity[i]));
    f->contiguity[i] = (uint8_t)run;
    f->constancy[i] = least(x[0]->constancy[i], x[1]->constancy[i]);
    f->divisibility[i] =
        least(at_start(x[0], type_of(op, 0), i, run), at_start(x[1], type_of(op, 1), i, run) + offset_scale);
    if (run) f->constancy[i] = 0;
  }
}

/// Also of a pointer and an offset: nothing is known of its bounds, so nothing of the sum's.
static void transfer_add(const ir_op *op, facts3 x, kiln_fact *f) {
  sum_axes(op, x, f, true);
  bounds(op, f, (__int128)x[0]->lo + x[1]->lo, (__int128)x[0]->hi + x[1]->hi);
}

/// The greater one of something and a constant that is not negative, also rounded down to a multiple.
static bool is_raised(const ir_value *v) {
  const ir_op *op = v->def, *part;
  int64_t n, by;
  if (!op || op->operand_count < 2 || op->attrs.flags & IR_UNSIGNED) return false;
  const bool has_right = ir_constant_int(op->operands[1], &n);
  if (op->code == IR_MUL) {
    part = op->operands[0]->def;
    return has_right && part && part->code == IR_DIV && !(part->attrs.flags & IR_UNSIGNED) &&
           ir_constant_int(part->operands[1], &by) && by == n && n > 0 && is_raised(part->operands[0]);
  }
  if (op->code != IR_MAX) return false;
  return (has_right && n >= 0) || (ir_constant_int(op->operands[0], &n) && n >= 0);
}

/// Whether `bound` is `v`, or the least of it and others, or, where `v` is not negative and so the difference
/// does not wrap, less by what is not negative.
static bool is_at_most(const ir_value *bound, const ir_value *v, bool is_positive, unsigned depth) {
  const ir_op *op = bound->def;
  if (bound == v) return true;
  if (!depth || !op || op->attrs.flags & IR_UNSIGNED) return false;
  if (op->code == IR_SUB) return is_positive && op->operands[0] == v && is_raised(op->operands[1]);
  return op->code == IR_MIN && (is_at_most(op->operands[0], v, is_positive, depth - 1) ||
                                is_at_most(op->operands[1], v, is_positive, depth - 1));
}

static void transfer_sub(const ir_op *op, facts3 x, kiln_fact *f) {
  sum_axes(op, x, f, false);
  // What a loop up to x[0], or to less, has not done yet: its counter is less there.
  enum { DEPTH = 4 };
  const ir_value *counter = op->operands[1];
  const ir_op *loop = counter->def ? NULL : counter->block->parent;
  if (x[1]->lo >= 0 && loop && loop->code == IR_FOR && counter->index == 0 &&
      is_at_most(ir_for_upper(loop), op->operands[0], x[0]->lo >= 0, DEPTH))
    bounds(op, f, 1, (__int128)x[0]->hi - x[1]->lo);
  else bounds(op, f, (__int128)x[0]->lo - x[1]->hi, (__int128)x[0]->hi - x[1]->lo);
}

static void transfer_mul(const ir_op *op, facts3 x, kiln_fact *f) {
  int64_t n;
  constancy_of_operands(op, x, f);
  all_divisible(f, (unsigned)of_all(x[0], type_of(op, 0)) + of_all(x[1], type_of(op, 1)));
  if (ir_constant_int(op->operands[1], &n) && n == 1) memcpy(f, x[0], sizeof *f);
  __int128 corner[4] = {(__int128)x[0]->lo * x[1]->lo, (__int128)x[0]->lo * x[1]->hi,
                        (__int128)x[0]->hi * x[1]->lo, (__int128)x[0]->hi * x[1]->hi};
  bounds(op, f, low(low(corner[0], corner[1]), low(corner[2], corner[3])),
         high(high(corner[0], corner[1]), high(corner[2], corner[3])));
}

/// Quotient by 2^s of values whose division floors.
static void floor_quotient(const ir_op *op, facts3 x, kiln_fact *f, unsigned s) {
  ir_type type = op->results[0].type;
  for (unsigned i = 0; i < axes(type); i++) {
    uint8_t runs = x[0]->contiguity[i] && x[0]->divisibility[i] >= least(s, x[0]->contiguity[i])
                       ? least(s, x[0]->contiguity[i])
                       : 0;
    f->constancy[i] = most(x[0]->constancy[i], runs);
    f->contiguity[i] = 0;
  }
  uint8_t all = of_all(x[0], type_of(op, 0));
  all_divisible(f, all > s ? (all == KILN_FACT_MAX_DIVISIBILITY ? all : all - s) : 0);
  bounds(op, f, x[0]->lo >> s, x[0]->hi >> s);
}

/// Rest by 2^s of values that are not negative.
static void low_bits(const ir_op *op, facts3 x, kiln_fact *f, unsigned s) {
  for (unsigned i = 0; i < axes(op->results[0].type); i++) {
    unsigned run = least(x[0]->contiguity[i], s);
    if (x[0]->divisibility[i] < run) run = x[0]->divisibility[i];
    f->contiguity[i] = (uint8_t)run;
    f->constancy[i] = run ? 0 : x[0]->constancy[i];
    f->divisibility[i] = at_start(x[0], type_of(op, 0), i, run);
  }
  int64_t top = (int64_t)(((uint64_t)1 << s) - 1);
  bounds(op, f, x[0]->lo >= 0 && x[0]->hi <= top ? x[0]->lo : 0, x[0]->lo >= 0 ? low(x[0]->hi, top) : top);
}

static int power_of_two(const ir_value *v) {
  int64_t n;
  return ir_constant_int(v, &n) && n > 0 && (n & (n - 1)) == 0 ? __builtin_ctzll((uint64_t)n) : -1;
}

/// The largest magnitude in a range; 0 says that it is not known to be below 2^63.
static int64_t magnitude(const kiln_fact *f) {
  if (f->lo == INT64_MIN) return 0;
  return f->hi > -f->lo ? f->hi : -f->lo;
}

/// log2 of the runs along an axis of numbers that are not negative within which a division by operand 1 has
/// one quotient, and remainders that grow by one: a run begins at a multiple of its length, and so does each
/// multiple of the divisor.
static uint8_t run_of_division(const ir_op *op, facts3 x, unsigned axis) {
  uint8_t run = least(least(x[0]->contiguity[axis], x[0]->divisibility[axis]), of_all(x[1], type_of(op, 1)));
  return x[0]->lo >= 0 && (!type_of(op, 1).rank || x[1]->constancy[axis] >= run) ? run : 0;
}

static void transfer_div(const ir_op *op, facts3 x, kiln_fact *f) {
  int s = power_of_two(op->operands[1]);
  constancy_of_operands(op, x, f);
  bool exact = s >= 0 && of_all(x[0], type_of(op, 0)) >= s;
  if (s >= 0 && (x[0]->lo >= 0 || (exact && !(op->attrs.flags & IR_UNSIGNED)))) {
    floor_quotient(op, x, f, (unsigned)s);
    return;
  }
  for (unsigned i = 0; i < op->results[0].type.rank; i++)
    f->constancy[i] = most(f->constancy[i], run_of_division(op, x, i));
  int64_t most_left = magnitude(x[0]);
  if (x[1]->lo > 0 && (x[0]->lo >= 0 || !(op->attrs.flags & IR_UNSIGNED)))
    bounds(op, f, x[0]->lo / (x[0]->lo >= 0 ? x[1]->hi : x[1]->lo),
           x[0]->hi / (x[0]->hi >= 0 ? x[1]->lo : x[1]->hi));
  else if (most_left && !(op->attrs.flags & IR_UNSIGNED)) bounds(op, f, -most_left, most_left);
}

static void transfer_rem(const ir_op *op, facts3 x, kiln_fact *f) {
  int s = power_of_two(op->operands[1]);
  constancy_of_operands(op, x, f);
  if (s >= 0 && s < 63 && x[0]->lo >= 0) {
    low_bits(op, x, f, (unsigned)s);
    return;
  }
  all_divisible(f, least(of_all(x[0], type_of(op, 0)), of_all(x[1], type_of(op, 1))));
  for (unsigned i = 0; i < op->results[0].type.rank; i++) {
    const uint8_t run = run_of_division(op, x, i);
    if (!run) continue;
    f->contiguity[i] = f->divisibility[i] = run;
    f->constancy[i] = 0;
  }
  int64_t most_right = magnitude(x[1]);
  if (x[0]->lo >= 0 && x[1]->lo > 0) bounds(op, f, 0, low(x[0]->hi, x[1]->hi - 1));
  else if (most_right && !(op->attrs.flags & IR_UNSIGNED)) // the sign is the dividend's, the size at most its
    bounds(op, f, x[0]->lo >= 0 ? 0 : high(x[0]->lo, 1 - most_right),
           x[0]->hi <= 0 ? 0 : low(x[0]->hi, most_right - 1));
}

static void transfer_and(const ir_op *op, facts3 x, kiln_fact *f) {
  int64_t n;
  constancy_of_operands(op, x, f);
  if (ir_constant_int(op->operands[1], &n) && n > 0 && (((uint64_t)n + 1) & (uint64_t)n) == 0 &&
      ir_type_bits(type_of(op, 0)) > 1) {
    low_bits(op, x, f, (unsigned)__builtin_popcountll((uint64_t)n));
    return;
  }
  all_divisible(f, most(of_all(x[0], type_of(op, 0)), of_all(x[1], type_of(op, 1))));
  if (x[0]->lo >= 0 && x[1]->lo >= 0) bounds(op, f, 0, low(x[0]->hi, x[1]->hi));
  else if (x[0]->lo >= 0 || x[1]->lo >= 0) bounds(op, f, 0, x[0]->lo >= 0 ? x[0]->hi : x[1]->hi);
}

/// or, xor: bits below the lower of both divisibilities stay zero; bits above the higher bound too.
static void transfer_or(const ir_op *op, facts3 x, kiln_fact *f) {
  constancy_of_operands(op, x, f);
  all_divisible(f, least(of_all(x[0], type_of(op, 0)), of_all(x[1], type_of(op, 1))));
  if (x[0]->lo < 0 || x[1]->lo < 0) return;
  uint64_t top = (uint64_t)x[0]->hi | (uint64_t)x[1]->hi;
  bounds(op, f, 0, top ? (__int128)(UINT64_MAX >> __builtin_clzll(top)) : 0);
}

static void transfer_shl(const ir_op *op, facts3 x, kiln_fact *f) {
  int64_t n;
  constancy_of_operands(op, x, f);
  if (!ir_constant_int(op->operands[1], &n)) return;
  unsigned s = (unsigned)n & (ir_type_bits(type_of(op, 0)) - 1);
  all_divisible(f, of_all(x[0], type_of(op, 0)) + s);
  if (s < 63) bounds(op, f, (__int128)x[0]->lo * ((int64_t)1 << s), (__int128)x[0]->hi * ((int64_t)1 << s));
}

static void transfer_shr(const ir_op *op, facts3 x, kiln_fact *f) {
  int64_t n;
  constancy_of_operands(op, x, f);
  if (!ir_constant_int(op->operands[1], &n) || ((op->attrs.flags & IR_UNSIGNED) && x[0]->lo < 0)) return;
  floor_quotient(op, x, f, (unsigned)n & (ir_type_bits(type_of(op, 0)) - 1));
}

static bool orders_as_signed(const ir_op *op, facts3 x) {
  return !(op->attrs.flags & IR_UNSIGNED) || (x[0]->lo >= 0 && x[1]->lo >= 0);
}

static void transfer_min(const ir_op *op, facts3 x, kiln_fact *f) {
  constancy_of_operands(op, x, f);
  all_divisible(f, least(of_all(x[0], type_of(op, 0)), of_all(x[1], type_of(op, 1))));
  if (orders_as_signed(op, x)) bounds(op, f, low(x[0]->lo, x[1]->lo), low(x[0]->hi, x[1]->hi));
}

static void transfer_max(const ir_op *op, facts3 x, kiln_fact *f) {
  constancy_of_operands(op, x, f);
  all_divisible(f, least(of_all(x[0], type_of(op, 0)), of_all(x[1], type_of(op, 1))));
  if (orders_as_signed(op, x)) bounds(op, f, high(x[0]->lo, x[1]->lo), high(x[0]->hi, x[1]->hi));
}

static void transfer_abs(const ir_op *op, facts3 x, kiln_fact *f) {
  constancy_of_operands(op, x, f);
  if (x[0]->lo >= 0) bounds(op, f, x[0]->lo, x[0]->hi);
  else bounds(op, f, 0, high(-(__int128)x[0]->lo, x[0]->hi));
  all_divisible(f, of_all(x[0], type_of(op, 0)));
}

/// Along an axis a comparison is uniform in runs where both sides are constant; and where one side runs from
/// a multiple of 2^m, the other is a constant multiple of 2^m, and the predicate is one that cannot turn
/// inside the run.
static void transfer_cmp(const ir_op *op, facts3 x, kiln_fact *f) {
  constancy_of_operands(op, x, f);
  for (unsigned side = 0; side < 2; side++) {
    bool steady = op->attrs.kind == (side ? IR_GT : IR_LT) || op->attrs.kind == (side ? IR_LE : IR_GE);
    if (!steady || ir_type_class(type_of(op, 0)) != KILN_CLASS_INT) continue;
    const kiln_fact *moving = x[side], *fixed = x[1 - side];
    for (unsigned i = 0; i < op->results[0].type.rank; i++) {
      unsigned run = least(least(moving->contiguity[i], fixed->constancy[i]),
                           least(moving->divisibility[i], fixed->divisibility[i]));
      f->constancy[i] = most(f->constancy[i], run);
    }
  }
}

static void transfer_select(const ir_op *op, facts3 x, kiln_fact *f) {
  kiln_fact both = *x[1];
  ir_type type = op->results[0].type;
  fact_join(&both, x[2]);
  for (unsigned i = 0; i < axes(type); i++) {
    unsigned limit = type_of(op, 0).rank ? x[0]->constancy[i] : IR_MAX_LOG2_ELEMENTS,
             run = least(both.contiguity[i], limit);
    both.divisibility[i] = least(at_start(x[1], type, i, run), at_start(x[2], type, i, run));
    both.contiguity[i] = (uint8_t)run;
    both.constancy[i] = least(both.constancy[i], limit);
  }
  *f = both;
}

// ------------------------------------------------------------------------------------- conversions

static void transfer_cast(const ir_op *op, facts3 x, kiln_fact *f) {
  enum { INTEGRAL = KILN_CLASS_INT | KILN_CLASS_BOOL };
  ir_type from = type_of(op, 0), to = op->results[0].type;
  constancy_of_operands(op, x, f);
  if (!(ir_type_class(from) & INTEGRAL) || ir_type_class(to) != KILN_CLASS_INT) return;
  for (unsigned i = 0; i < axes(to); i++) {
    f->contiguity[i] = x[0]->contiguity[i];
    f->divisibility[i] = x[0]->divisibility[i];
  }
  unsigned narrow = ir_type_bits(from);
  bool zero_extends = (op->attrs.flags & IR_UNSIGNED) && x[0]->lo < 0 && ir_type_bits(to) > narrow;
  if (zero_extends) bounds(op, f, 0, ((__int128)1 << narrow) - 1);
  else bounds(op, f, x[0]->lo, x[0]->hi);
}

/// Pointers to elements of another type of as many bytes grow as before.
static void transfer_bitcast(const ir_op *op, facts3 x, kiln_fact *f) {
  const ir_type from = type_of(op, 0), to = op->results[0].type;
  constancy_of_operands(op, x, f);
  unsigned kept = KILN_CLASS_INT | KILN_CLASS_POINTER;
  if ((ir_type_class(from) & kept) && (ir_type_class(to) & kept)) all_divisible(f, of_all(x[0], from));
  const bool grows_alike = from.pointer && to.pointer && scale(from) == scale(to);
  if (grows_alike || ir_type_equal(from, to)) *f = *x[0];
}

static bool has_runs(ir_type type, const kiln_fact *f) {
  for (unsigned i = 0; i < axes(type); i++)
    if (f->contiguity[i]) return true;
  return false;
}

/// The divisor is that of the first element of each run; of every element where there are none.
static void transfer_hint(const ir_op *op, facts3 x, kiln_fact *f) {
  ir_type type = op->results[0].type;
  *f = *x[0];
  unsigned last = axes(type) - 1,
           run = op->attrs.hint.contiguous > 1 ? fact_log2(op->attrs.hint.contiguous) : 0;
  if (type.rank && run > f->contiguity[last]) {
    f->contiguity[last] = least(run, type.log2[last]);
    f->constancy[last] = 0;
  }
  if (op->attrs.hint.divisible > 1)
    for (unsigned i = 0; i <= last; i++)
      if (f->contiguity[i] || !has_runs(type, f))
        f->divisibility[i] = most(f->divisibility[i], fact_log2(op->attrs.hint.divisible));
  const int64_t by = op->attrs.hint.divisible;
  if (!type.rank && by > 1 && f->lo < 0 && f->lo > INT64_MIN) f->lo = -(-f->lo / by * by); // up to a multiple
}

// ------------------------------------------------------------------------------------------ shapes

static void keep_bounds(facts3 x, kiln_fact *f) {
  f->lo = x[0]->lo;
  f->hi = x[0]->hi;
}

static void transfer_const(const ir_op *op, facts3 x, kiln_fact *f) {
  int64_t n;
  (void)x;
  if (ir_constant_int(&op->results[0], &n)) f->lo = f->hi = n;
}

static void transfer_iota(const ir_op *op, facts3 x, kiln_fact *f) {
  (void)x;
  f->lo = 0;
  f->hi = ((int64_t)1 << op->results[0].type.log2[0]) - 1;
  f->contiguity[0] = op->results[0].type.log2[0];
  f->divisibility[0] = KILN_FACT_MAX_DIVISIBILITY;
}

static void copy_axis(kiln_fact *f, unsigned to, const kiln_fact *from, unsigned axis) {
  f->divisibility[to] = from->divisibility[axis];
  f->contiguity[to] = from->contiguity[axis];
  f->constancy[to] = from->constancy[axis];
}

static void plain_axis(kiln_fact *f, unsigned axis, unsigned divisibility) {
  f->divisibility[axis] = (uint8_t)divisibility;
  f->contiguity[axis] = f->constancy[axis] = 0;
}

static void transfer_expand(const ir_op *op, facts3 x, kiln_fact *f) {
  unsigned rank = op->results[0].type.rank, axis = op->attrs.axis;
  keep_bounds(x, f);
  for (unsigned i = 0; i < rank; i++)
    if (i != axis) copy_axis(f, i, x[0], i - (i > axis));
  plain_axis(f, axis, of_all(x[0], type_of(op, 0)));
}

/// A scalar is the same along every axis.
static void transfer_broadcast(const ir_op *op, facts3 x, kiln_fact *f) {
  ir_type from = type_of(op, 0), to = op->results[0].type;
  keep_bounds(x, f);
  for (unsigned i = 0; i < to.rank; i++) {
    copy_axis(f, i, x[0], from.rank ? i : 0);
    if (!from.rank || from.log2[i] != to.log2[i]) f->constancy[i] = to.log2[i];
  }
}

/// Runs along the last axis survive as far as both last axes are long; nothing is said of the others.
static void transfer_reshape(const ir_op *op, facts3 x, kiln_fact *f) {
  ir_type from = type_of(op, 0), to = op->results[0].type;
  keep_bounds(x, f);
  all_divisible(f, of_all(x[0], from));
  if (!from.rank || !to.rank) return;
  unsigned old = from.rank - 1u, last = to.rank - 1u;
  f->contiguity[last] = least(x[0]->contiguity[old], to.log2[last]);
  f->constancy[last] = least(x[0]->constancy[old], to.log2[last]);
  f->divisibility[last] = at_start(x[0], from, old, f->contiguity[last]);
}

static void transfer_trans(const ir_op *op, facts3 x, kiln_fact *f) {
  keep_bounds(x, f);
  for (unsigned i = 0; i < op->results[0].type.rank; i++) copy_axis(f, i, x[0], op->attrs.perm[i]);
}

static void transfer_join(const ir_op *op, facts3 x, kiln_fact *f) {
  unsigned last = op->results[0].type.rank - 1u;
  *f = *x[0];
  fact_join(f, x[1]);
  plain_axis(f, last, least(of_all(x[0], type_of(op, 0)), of_all(x[1], type_of(op, 1))));
}

static void transfer_split(const ir_op *op, facts3 x, kiln_fact *f) {
  unsigned rank = op->results[0].type.rank;
  keep_bounds(x, f);
  for (unsigned i = 0; i < rank; i++) copy_axis(f, i, x[0], i);
  if (!rank) plain_axis(f, 0, of_all(x[0], type_of(op, 0)));
}

/// A least or greatest element is one of the elements.
static void transfer_lanes(const ir_op *op, facts3 x, kiln_fact *f) {
  bool chooses = op->attrs.kind == IR_COMBINE_MAX || op->attrs.kind == IR_COMBINE_MIN;
  if (!chooses) return;
  keep_bounds(x, f);
  all_divisible(f, of_all(x[0], type_of(op, 0)));
}

/// The elements are some of operand 0's.
static void transfer_chosen(const ir_op *op, facts3 x, kiln_fact *f) {
  keep_bounds(x, f);
  all_divisible(f, of_all(x[0], type_of(op, 0)));
}

/// What each operation says; of some only where operand 0 has integers or truth values.
static transfer *transfer_of(ir_opcode code, bool is_integral) {
  switch (code) {
  case IR_CONST: return transfer_const;
  case IR_IOTA: return transfer_iota;
  case IR_SPLAT: return transfer_broadcast;
  case IR_ADD: return is_integral ? transfer_add : NULL;
  case IR_SUB: return is_integral ? transfer_sub : NULL;
  case IR_MUL: return is_integral ? transfer_mul : NULL;
  case IR_DIV: return is_integral ? transfer_div : NULL;
  case IR_REM: return is_integral ? transfer_rem : NULL;
  case IR_MIN: return is_integral ? transfer_min : NULL;
  case IR_MAX: return is_integral ? transfer_max : NULL;
  case IR_AND: return transfer_and;
  case IR_OR:
  case IR_XOR: return transfer_or;
  case IR_SHL: return transfer_shl;
  case IR_SHR: return transfer_shr;
  case IR_CMP: return transfer_cmp;
  case IR_SELECT: return transfer_select;
  case IR_ABS: return transfer_abs;
  case IR_CAST: return transfer_cast;
  case IR_BITCAST: return transfer_bitcast;
  case IR_EXPAND: return transfer_expand;
  case IR_BROADCAST: return transfer_broadcast;
  case IR_RESHAPE: return transfer_reshape;
  case IR_TRANS: return transfer_trans;
  case IR_JOIN: return transfer_join;
  case IR_SPLIT: return transfer_split;
  case IR_REDUCE:
  case IR_SCAN: return transfer_lanes;
  case IR_PTRADD: return transfer_add;
  case IR_HINT:
  case IR_CONVERT: return transfer_hint;
  case IR_SORT:
  case IR_GATHER: return transfer_chosen;
  default: return NULL;
  }
}

void fact_transfer(const ir_op *op, uint32_t result, const kiln_fact *const operands[3], kiln_fact *f) {
  bool region = (op->code == IR_REDUCE || op->code == IR_SCAN) && op->region_count;
  unsigned class = op->operand_count ? ir_type_class(type_of(op, 0)) : 0;
  transfer *t = transfer_of(op->code, class & (KILN_CLASS_INT | KILN_CLASS_BOOL));
  if (t && !region && (result == 0 || op->code == IR_SPLIT)) t(op, operands, f);
  else if (ir_has(op->code, IR_EACH)) constancy_of_operands(op, operands, f);
}

void fact_settle(ir_type type, kiln_fact *f) {
  kiln_fact whole;
  if (type.is_view) return;
  fact_type_bounds(type, &whole);
  if (f->lo > f->hi || f->lo < whole.lo || f->hi > whole.hi) f->lo = whole.lo, f->hi = whole.hi;
  bool known = f->lo == f->hi && (ir_type_class(type) & (KILN_CLASS_INT | KILN_CLASS_BOOL));
  if (known) all_divisible(f, fact_log2(f->lo));
  for (unsigned i = 0; i < IR_MAX_RANK; i++) {
    unsigned extent = i < type.rank ? type.log2[i] : 0;
    if (known) f->contiguity[i] = 0;
    f->constancy[i] = known ? (uint8_t)extent : least(f->constancy[i], extent);
    f->contiguity[i] = least(f->contiguity[i], extent);
    if (i >= axes(type)) f->divisibility[i] = 0;
  }
}

void fact_round(ir_type type, kiln_fact *f) {
  if (type.is_view || type.pointer || ir_type_class(type) != KILN_CLASS_INT) return;
  const unsigned n = of_all(f, type), bits = ir_type_bits(type);
  if (!n || n >= bits - 1) return;
  const int64_t low = ((int64_t)1 << n) - 1;
  const __int128 lo = ((__int128)f->lo + low) & ~(__int128)low, hi = f->hi & ~low;
  if (lo > hi) return; // no value at all: what is never run
  f->lo = (int64_t)lo;
  f->hi = (int64_t)hi;
}
