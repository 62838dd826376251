// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Along which axis of the grid programs have more to do. That of causal attention sees more keys with every
// block of rows: its loop ends at a multiple of pid. Followed is only what grows with pid; two bounds of
// which both move, those of windows and of shares of a sum, say nothing.
#include "compiler/analysis/provenance.h"
#include "compiler/passes/gpu/gpu.h"

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

kiln_uneven kiln_gpu_uneven(ir_kernel *kernel) {
  kiln_uneven found = {0};
  for (ir_op *op = kernel->body->first; op; op = op->next) {
    int64_t step;
    if (op->code != IR_FOR || !ir_find(ir_loop_body(op), IR_DOT)) continue;
    if (!ir_constant_int(ir_for_step(op), &step)) continue;
    const slope lower = slope_of(ir_for_lower(op), DEEPEST), upper = slope_of(ir_for_upper(op), DEEPEST);
    if (lower.is_unknown || upper.is_unknown || !lower.by == !upper.by) continue;
    const slope moves = lower.by ? lower : upper;
    if (moves.by < step * (WHOLE / 2)) continue; // not an iteration more with every other program
    const kiln_uneven here = {.is = true, .falls = lower.by != 0, .axis = moves.axis};
    if (found.is && (found.falls != here.falls || found.axis != here.axis)) return (kiln_uneven){0};
    found = here;
  }
  return found;
}
