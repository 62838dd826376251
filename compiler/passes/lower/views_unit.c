// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Axes along which a view's tile has one element are dropped, as a batch's are that is taken by its index:
// what is loaded gets the axis after the load, what is stored loses it before. So a tile of a matrix is one
// to the passes that look for matrices, however many axes its tensor has.
//
//   load V[1, 64, 32]  =>  reshape (load V[_, 64, 32])
//
// Needs views as operations (pass open-views). A tile keeps its last axis.
#include "compiler/passes/pass.h"

typedef struct dropping {
  ir_builder b;
  bool changed;
} dropping;

/// The value in a shape of as many elements. Conversions of what had the shape are made in it.
static ir_value *in_shape(ir_builder *b, ir_value *v, ir_type shape) {
  const ir_op *op = (v = ir_resolve(v))->def;
  if (op && op->code == IR_RESHAPE && ir_same_shape(op->operands[0]->type, shape)) return op->operands[0];
  shape = ir_with_element(shape, ir_element(v->type));
  if (!op || op->code != IR_CAST) return ir_reshape(b, v, shape);
  ir_value *from = in_shape(b, op->operands[0], shape);
  ir_op *cast = ir_emit(b, IR_CAST, &op->attrs, &from, 1, &shape, NULL, 0);
  return cast ? &cast->results[0] : NULL;
}

/// The number of the tile's axis `axis` among those that stay.
static uint8_t axis_of_rest(ir_type tile, unsigned axis) {
  uint8_t number = 0;
  for (unsigned i = 0; i < axis; i++) number += tile.log2[i] != 0;
  return number;
}

static void drop_axes(dropping *d, ir_op *op, ir_type tile) {
  ir_builder *b = &d->b;
  ir_type rest = ir_view_tile(op->operands[0]->type);
  if (ir_same_shape(tile, rest)) return;
  ir_value **value = &op->operands[op->operand_count - 1];
  ir_attrs attrs = op->attrs;
  if (attrs.access.first) attrs.access.axis = axis_of_rest(tile, attrs.access.axis);
  ir_build_before(b, op);
  if (op->code != IR_VIEW_LOAD) *value = in_shape(b, *value, rest);
  ir_op *access = ir_emit(b, op->code, &attrs, op->operands, op->operand_count, NULL, NULL, 0);
  if (!access) return;
  if (op->result_count) ir_forward(&op->results[0], ir_reshape(b, &access->results[0], op->results[0].type));
  ir_remove(op);
  d->changed = true;
}

kiln_status kiln_pass_unit_axes(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  dropping d = {.b = {.arena = kernel->arena}};
  for (ir_op *op = ir_next(kernel->body, NULL), *next; op; op = next) {
    next = ir_next(kernel->body, op);
    ir_type *view = op->code == IR_VIEW ? &op->results[0].type : NULL;
    for (unsigned i = 0; view && i + 1u < view->rank; i++)
      if (!view->log2[i]) view->log2[i] = IR_DROPPED;
    if (op->code == IR_VIEW_LOAD) drop_axes(&d, op, op->results[0].type);
    if (op->code == IR_VIEW_STORE || op->code == IR_VIEW_ATOMIC)
      drop_axes(&d, op, op->operands[op->operand_count - 1]->type);
  }
  if (d.b.error.status != KILN_OK) return kiln_fail(err, KILN_STATUS_INTERNAL, "views: %s", d.b.error.text);
  if (!d.changed) return KILN_OK;
  ir_apply_forwards(kernel);
  return kiln_pass_simplify(kernel, context, err);
}
