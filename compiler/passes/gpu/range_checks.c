// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A tile between two bounds is compared once.
//
//   x >= lo  &  x < hi    =>    x - lo < max(hi, lo) - lo, unsigned
//
// That is the same for all x, lo and hi, however wide, since differences wrap around: [lo, hi) has
// max(hi, lo) - lo elements, and of all numbers those have the least distances from lo. What is added are
// operations on scalars; each lane has a comparison less. More than that it saves work of code generators:
// they look for conditions that imply one another in every pair of a tile's masks.
//
// Comes after passes that take masks apart. Needs ir_count_uses.
#include "compiler/passes/gpu/gpu.h"

typedef struct between {
  ir_value *x, *lo, *hi;
} between;

/// The comparison as x >= lo or x < hi.
static void read_bound(const ir_op *op, between *b) {
  ir_value *left = op->operands[0], *right = op->operands[1];
  switch ((ir_predicate)op->attrs.kind) {
  case IR_GE: b->x = left, b->lo = ir_splat_source(right); break;
  case IR_LE: b->x = right, b->lo = ir_splat_source(left); break;
  case IR_LT: b->x = left, b->hi = ir_splat_source(right); break;
  case IR_GT: b->x = right, b->hi = ir_splat_source(left); break;
  case IR_EQ:
  case IR_NE: break;
  }
}

static bool is_signed_bound(const ir_value *v) {
  const ir_op *op = v->def;
  return op && op->code == IR_CMP && v->uses == 1 && v->type.rank && !(op->attrs.flags & IR_UNSIGNED) &&
         !op->operands[0]->type.pointer && ir_type_class(op->operands[0]->type) == KILN_CLASS_INT;
}

static bool find_bounds(const ir_op *both, between *out) {
  between a = {0}, b = {0};
  if (!is_signed_bound(both->operands[0]) || !is_signed_bound(both->operands[1])) return false;
  read_bound(both->operands[0]->def, &a);
  read_bound(both->operands[1]->def, &b);
  *out = (between){a.x, a.lo ? a.lo : b.lo, a.hi ? a.hi : b.hi};
  return a.x && a.x == b.x && out->lo && out->hi;
}

kiln_status kiln_pass_range_checks(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)context;
  ir_builder b = {.arena = kernel->arena};
  ir_count_uses(kernel);
  for (ir_op *op = ir_next(kernel->body, NULL), *next; op; op = next) {
    next = ir_next(kernel->body, op);
    between f;
    int64_t least;
    if (op->code != IR_AND || !find_bounds(op, &f)) continue;
    ir_build_before(&b, op);
    bool is_from_zero = ir_constant_int(f.lo, &least) && !least;
    ir_value *count = ir_binary(&b, IR_MAX, 0, f.hi, f.lo), *distance = f.x;
    if (!is_from_zero) {
      count = ir_binary(&b, IR_SUB, 0, count, f.lo);
      distance = ir_binary(&b, IR_SUB, 0, f.x, ir_splat(&b, f.lo, f.x->type));
    }
    ir_forward(&op->results[0], ir_compare(&b, IR_LT, IR_UNSIGNED, distance, ir_splat(&b, count, f.x->type)));
    ir_remove(op);
  }
  if (b.error.status != KILN_OK) return kiln_fail(err, KILN_STATUS_INTERNAL, "between: %s", b.error.text);
  ir_apply_forwards(kernel);
  return KILN_OK;
}
