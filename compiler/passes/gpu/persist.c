// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A launch of as many blocks as the machine has room for: each computes one program after another, so that
// copies for the next program run while this one ends.
//
//   for t in block .. total step blocks { pid = t taken apart; body }
//
// pid and npid are those of the logical grid, which the runtime passes after the parameters; programs are
// visited in the order of their number, axis 0 first. No program waits for another one (the pass promote
// refuses what could).
//
// Where programs have more to do along one axis (uneven_programs) that order would give some blocks the
// longer ones every time (causal attention by 132 blocks, 32 programs a head: 12 % more than the mean).
// There neighbours along the other axes, which share what the cache holds, are a group: the longest come
// first in one group and the shortest in the next, and in the last group the longest, so that all end
// together. A round is what all blocks take at a time; in every other round, counted from the last, the last
// block takes what the first one would, so that within a group a block that has had a longer program gets a
// shorter one. A group fills ROUNDS of them, as nearly as whole neighbours allow: else the same blocks could
// get the longest of group after group. Of long ones, whose groups are many rounds, it has TOGETHER. Over 580
// grids the busiest of 132 blocks has 3 % more than the mean; handing out the longest first, each to the
// block that has least, leaves 2 %.
//
// What is computed before the loop is kept while all programs run: with a few values more ptxas has no
// uniform registers left for the slots of attention's loop, which then takes 6 % longer.
#include "compiler/analysis/provenance.h"
#include "compiler/passes/gpu/gpu.h"

// ----------------------------------------------------------------------------- programs that have more to do

// Along which axis of the grid programs have more to do. That of causal attention sees more keys with every block of rows:
// its loop ends at a multiple of pid. Followed is only what grows with pid; two bounds of which both move, those of
// windows and of shares of a sum, say nothing.

enum { DEEPEST = 24 }; // operations between a bound and pid
enum { WHOLE = 4096 }; // parts of one, in which slopes are counted

/// How a scalar moves with pid: by `by` parts for each program along `axis`, where no least or greatest value
/// cuts it. by 0: not at all.
typedef struct slope {
  int64_t by;
  uint8_t axis;
  bool is_unknown;
} slope;

static const slope UNKNOWN = {.is_unknown = true};

static slope slope_of(const ir_value *v, unsigned depth);

/// Of a sum, or of the lesser or greater one, of which only one operand moves.
static slope slope_of_one(const ir_op *op, unsigned depth) {
  const slope left = slope_of(op->operands[0], depth), right = slope_of(op->operands[1], depth);
  if (left.is_unknown || right.is_unknown || (left.by && right.by)) return UNKNOWN;
  if (left.by) return left;
  return right.by && op->code == IR_SUB ? UNKNOWN : right;
}

/// Of a multiple, or of a part, by a constant; shifts stand for those of powers of two.
static slope slope_of_scaled(const ir_op *op, unsigned depth) {
  int64_t constant;
  slope left = slope_of(op->operands[0], depth);
  const slope right = slope_of(op->operands[1], depth);
  if (left.is_unknown || right.is_unknown) return UNKNOWN;
  if (!left.by && !right.by) return left;
  if (right.by || !ir_constant_int(op->operands[1], &constant)) return UNKNOWN;
  const bool is_part = op->code == IR_DIV || op->code == IR_SHR;
  if (op->code == IR_SHL || op->code == IR_SHR)
    constant = constant >= 0 && constant < 31 ? INT64_C(1) << constant : 0;
  if (constant <= 0 || constant > INT32_MAX) return UNKNOWN;
  left.by = is_part ? left.by / constant : left.by <= INT32_MAX ? left.by * constant : left.by;
  return left.by ? left : UNKNOWN;
}

/// What a constant is added to or subtracted from, or the value itself.
static const ir_value *without_constant(const ir_value *v) {
  int64_t constant;
  const bool is_sum = v->def && (v->def->code == IR_ADD || v->def->code == IR_SUB);
  return is_sum && ir_constant_int(v->def->operands[1], &constant) ? v->def->operands[0] : v;
}

static slope slope_of(const ir_value *v, unsigned depth) {
  const ir_op *op = (v = kiln_behind(v))->def;
  if (!op) return (slope){0}; // a parameter: what loops carry does not reach their bounds here
  if (!depth || op->region_count) return UNKNOWN;
  switch (op->code) {
  case IR_PID: return (slope){.by = WHOLE, .axis = op->attrs.axis};
  case IR_CAST: return slope_of(op->operands[0], depth - 1);
  case IR_ADD:
  case IR_SUB:
  case IR_MIN:
  case IR_MAX: return slope_of_one(op, depth - 1);
  case IR_MUL:
  case IR_DIV:
  case IR_SHL:
  case IR_SHR: return slope_of_scaled(op, depth - 1);
  case IR_SELECT: // of a number and the next, as in cdiv
    if (without_constant(op->operands[1]) != without_constant(op->operands[2])) break;
    return slope_of(without_constant(op->operands[1]), depth - 1);
  default: break;
  }
  for (uint32_t i = 0; i < op->operand_count; i++) {
    const slope s = slope_of(op->operands[i], depth - 1);
    if (s.is_unknown || s.by) return UNKNOWN;
  }
  return (slope){0};
}

/// Whether programs along one axis of the grid have loops with products of more iterations each, or of fewer
/// (`falls`).
typedef struct unevenness {
  bool is, falls;
  uint8_t axis;
} unevenness;

static unevenness uneven_programs(const ir_kernel *kernel) {
  unevenness found = {0};
  for (const ir_op *op = kernel->body->first; op; op = op->next) {
    int64_t step;
    if (op->code != IR_FOR || !ir_find(ir_loop_body(op), IR_DOT)) continue;
    if (!ir_constant_int(ir_for_step(op), &step)) continue;
    const slope lower = slope_of(ir_for_lower(op), DEEPEST), upper = slope_of(ir_for_upper(op), DEEPEST);
    if (lower.is_unknown || upper.is_unknown || !lower.by == !upper.by) continue;
    const slope moves = lower.by ? lower : upper;
    if (moves.by < step * (WHOLE / 2)) continue; // not an iteration more with every other program
    const unevenness here = {.is = true, .falls = lower.by != 0, .axis = moves.axis};
    if (found.is && (found.falls != here.falls || found.axis != here.axis)) return (unevenness){0};
    found = here;
  }
  return found;
}

// ------------------------------------------------------------------------------------ the loop over programs

typedef struct persisting {
  ir_kernel *kernel;
  ir_value *pid[3];
} persisting;

enum {
  TOGETHER = 8, // fewer heads of 12,634 rows at a time are up to 9 % slower on an H200
  ROUNDS = 2    // with heads of 128, keys and values of 17 MB there
};

/// Of the loop over programs.
typedef struct bounds_of_programs {
  ir_value *block, *total, *blocks;
} bounds_of_programs;

static ir_value *scalar_of(ir_builder *b, ir_opcode code, unsigned axis) {
  ir_attrs attrs = {.axis = (uint8_t)axis};
  ir_op *op = ir_emit(b, code, &attrs, NULL, 0, NULL, NULL, 0);
  return op ? &op->results[0] : NULL;
}

/// Program ids of axes `axis` to 2, but for `without`, from the number `t`; the last axis that is needed
/// takes what is left.
static void take_apart(persisting *p, ir_builder *b, ir_value *t, ir_value *const *extent, unsigned without) {
  bool is_taken = false;
  for (unsigned axis = 0; axis < 3; axis++) {
    bool is_last = true;
    if (axis == without) continue;
    for (unsigned rest = axis + 1; rest < 3; rest++)
      is_last &= rest == without || p->kernel->grid_limit[rest] == 1;
    p->pid[axis] = is_taken  ? ir_const_int(b, KILN_I32, 0)
                   : is_last ? t
                             : ir_binary(b, IR_REM, IR_UNSIGNED, t, extent[axis]);
    if (!is_last) t = ir_binary(b, IR_DIV, IR_UNSIGNED, t, extent[axis]);
    is_taken |= is_last;
  }
}

static ir_value *parted(ir_builder *b, ir_opcode code, ir_value *x, ir_value *y) {
  return ir_binary(b, code, IR_UNSIGNED, x, y);
}

static ir_value *half_of(ir_builder *b, ir_value *x) {
  return parted(b, IR_DIV, x, ir_const_int(b, KILN_I32, 2));
}

/// How many of `others` programs of the same place are a group, where a place has `extent` values. It stands
/// before the loop, so a grid may be empty here.
static ir_value *group_height(ir_builder *b, ir_value *others, ir_value *extent, ir_value *blocks) {
  ir_value *one = ir_const_int(b, KILN_I32, 1), *least = ir_const_int(b, KILN_I32, TOGETHER);
  others = parted(b, IR_MAX, others, one), extent = parted(b, IR_MAX, extent, one);
  ir_value *wanted = ir_binary_int(b, IR_MUL, 0, blocks, ROUNDS);
  ir_value *near = parted(b, IR_DIV, ir_binary(b, IR_ADD, 0, wanted, half_of(b, extent)), extent);
  ir_value *height = parted(b, IR_MIN, others, parted(b, IR_MAX, least, near));
  ir_value *groups = parted(b, IR_DIV, ir_binary(b, IR_ADD, 0, others, half_of(b, height)), height);
  ir_value *above = ir_binary(b, IR_ADD, 0, others, ir_binary(b, IR_SUB, 0, groups, one));
  return parted(b, IR_DIV, above, groups); // the last is not much smaller
}

static ir_value *is_odd(ir_builder *b, ir_value *x) {
  ir_value *one = ir_const_int(b, KILN_I32, 1);
  return ir_compare(b, IR_EQ, IR_UNSIGNED, ir_binary(b, IR_AND, 0, x, one), one);
}

/// The number of the program that a block takes in place of `t`: in every other round the last block the
/// first. The last round, which may be short, is as it was.
static ir_value *turned_number(ir_builder *outer, ir_builder *b, ir_value *t, const bounds_of_programs *all) {
  ir_value *one = ir_const_int(outer, KILN_I32, 1), *end = ir_binary(outer, IR_SUB, 0, all->total, one);
  ir_value *rounds = parted(outer, IR_DIV, end, all->blocks), *round = parted(b, IR_DIV, t, all->blocks);
  ir_value *across =
      ir_binary(outer, IR_SUB, 0, all->blocks, one); // from a block's place to its mirrored one
  for (unsigned i = 0; i < 2; i++) across = ir_binary(outer, IR_SUB, 0, across, all->block);
  ir_value *turned = ir_binary(b, IR_ADD, 0, t, across);
  return ir_ternary(b, IR_SELECT, 0, is_odd(b, ir_binary(b, IR_SUB, 0, rounds, round)), turned, t);
}

/// Program ids where programs differ along an axis, from the number `t`; `outer` builds before the loop.
static void take_evenly(persisting *p, ir_builder *outer, ir_builder *b, ir_value *t, ir_value *const *extent,
                        unevenness uneven, const bounds_of_programs *all) {
  ir_value *others = NULL, *one = ir_const_int(outer, KILN_I32, 1);
  for (unsigned axis = 0; axis < 3; axis++)
    if (axis != uneven.axis)
      others = others ? ir_binary(outer, IR_MUL, 0, others, extent[axis]) : extent[axis];
  ir_value *together = group_height(outer, others, extent[uneven.axis], all->blocks);
  ir_value *size = ir_binary(outer, IR_MUL, 0, together, extent[uneven.axis]); // no more than all programs
  ir_value *before =
      parted(outer, IR_DIV, ir_binary(outer, IR_SUB, 0, others, one), together); // the last group
  t = turned_number(outer, b, t, all);
  ir_value *group = parted(b, IR_DIV, t, size), *first = ir_binary(b, IR_MUL, 0, group, together);
  ir_value *height = parted(b, IR_MIN, ir_binary(b, IR_SUB, 0, others, first), together);
  ir_value *in_group = parted(b, IR_REM, t, size);
  ir_value *place = parted(b, IR_DIV, in_group, height);
  ir_value *turned = ir_binary(b, IR_SUB, 0, ir_binary(b, IR_SUB, 0, extent[uneven.axis], one), place);
  p->pid[uneven.axis] = ir_ternary(b, IR_SELECT, 0, is_odd(b, ir_binary(b, IR_SUB, 0, before, group)),
                                   uneven.falls ? turned : place, uneven.falls ? place : turned);
  take_apart(p, b, ir_binary(b, IR_ADD, 0, first, parted(b, IR_REM, in_group, height)), extent, uneven.axis);
}

kiln_status kiln_pass_persist(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)context;
  persisting p = {.kernel = kernel};
  const unevenness uneven = uneven_programs(kernel);
  ir_block *inner = KILN_NEW(kernel->arena, ir_block);
  ir_value *t = ir_block_arg(kernel->arena, inner, ir_scalar_type(KILN_I32));
  for (ir_op *op = kernel->body->first, *next; op; op = next) {
    next = op->next;
    ir_move(op, inner, NULL);
  }
  ir_builder b = {.arena = kernel->arena, .block = kernel->body, .machine = true};
  ir_value *extent[3], *total = NULL;
  for (unsigned axis = 0; axis < 3; axis++) {
    extent[axis] = scalar_of(&b, IR_NPID, axis);
    total = total ? ir_binary(&b, IR_MUL, 0, total, extent[axis]) : extent[axis];
  }
  const bounds_of_programs all = {scalar_of(&b, IR_BLOCK, 0), total, scalar_of(&b, IR_BLOCK, 1)};
  ir_builder first = {.arena = kernel->arena, .block = inner, .before = inner->first};
  if (uneven.is) take_evenly(&p, &b, &first, t, extent, uneven, &all);
  else take_apart(&p, &first, t, extent, 3);
  for (ir_op *op = ir_next(inner, NULL), *next; op; op = next) {
    next = ir_next(inner, op);
    if (op->code != IR_PID || !p.pid[op->attrs.axis]) continue;
    op->results[0].forward = p.pid[op->attrs.axis];
    ir_remove(op);
  }
  ir_yield(&first, NULL, 0);
  ir_value *bounds[3] = {all.block, all.total, all.blocks};
  ir_emit(&b, IR_FOR, NULL, bounds, 3, NULL, &inner, 1);
  kiln_error *failed = b.error.status != KILN_OK       ? &b.error
                       : first.error.status != KILN_OK ? &first.error
                                                       : NULL;
  if (failed) return kiln_fail(err, KILN_STATUS_INTERNAL, "persist: %s", failed->text);
  ir_apply_forwards(kernel);
  return KILN_OK;
}
