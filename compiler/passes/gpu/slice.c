// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What stands after a shared loop, for a part of the columns: each block of a cluster computes and stores
// its own.
//
// Values are made anew from the stores backwards, with tiles of fewer columns:
//
//   iota n                      iota n / parts + first column; not where groups stand side by side: each has
//                               a part of its own columns, which are no neighbours
//   sums of the loop            what the block has of them after the exchange
//   splat, broadcast, expand, elementwise operations, loads through pointers      the same, smaller
//   trans                       the same, of the other axis
//   stores                      at the first column
//
// Anything else, and what does not belong to one axis of columns, is refused.
#include "compiler/passes/gpu/gpu.h"

enum { MOST_VALUES = 64 };

typedef struct slicing {
  ir_builder *b;
  const kiln_slice *how;
  const ir_block *block; ///< whose loads may move to the stores
  struct {
    const ir_value *from;
    unsigned axis;
    ir_value *to;
  } made[MOST_VALUES];
  unsigned made_count;
} slicing;

static ir_type narrowed(const slicing *s, ir_type type, unsigned axis) {
  type.log2[axis] = (uint8_t)(type.log2[axis] - s->how->log2_parts);
  return type;
}

static ir_value *result_of(ir_op *op) { return op ? &op->results[0] : NULL; }

static ir_value *slice(slicing *s, ir_value *v, unsigned axis);

/// The operation again, operands of the same shape sliced. NULL: one of them can't be.
static ir_value *slice_operands(slicing *s, const ir_op *op, unsigned axis) {
  ir_value *operands[IR_MAX_RANK];
  ir_type type = narrowed(s, op->results[0].type, axis);
  if (op->operand_count > IR_MAX_RANK) return NULL;
  for (uint32_t i = 0; i < op->operand_count; i++) {
    operands[i] = op->operands[i];
    if (operands[i]->type.rank && !(operands[i] = slice(s, operands[i], axis))) return NULL;
  }
  return result_of(ir_emit(s->b, op->code, &op->attrs, operands, op->operand_count, &type, NULL, 0));
}

static ir_value *slice_renamed(slicing *s, const ir_op *op, unsigned axis) {
  ir_type type = narrowed(s, op->results[0].type, axis);
  unsigned inner = op->code == IR_EXPAND && axis > op->attrs.axis ? axis - 1 : axis;
  ir_value *operand = op->operands[0];
  if (operand->type.log2[inner] && !(operand = slice(s, operand, inner))) return NULL;
  return result_of(ir_emit(s->b, op->code, &op->attrs, &operand, 1, &type, NULL, 0));
}

static ir_value *slice_turned(slicing *s, const ir_op *op, unsigned axis) {
  ir_type type = narrowed(s, op->results[0].type, axis);
  ir_value *operand = slice(s, op->operands[0], op->attrs.perm[axis]);
  return operand ? result_of(ir_emit(s->b, IR_TRANS, &op->attrs, &operand, 1, &type, NULL, 0)) : NULL;
}

static ir_value *slice_iota(slicing *s, const ir_op *op) {
  ir_type type = narrowed(s, op->results[0].type, 0);
  ir_value *lanes = result_of(ir_emit(s->b, IR_IOTA, NULL, NULL, 0, &type, NULL, 0));
  ir_value *first =
      result_of(ir_emit(s->b, IR_SPLAT, NULL, (ir_value *[]){s->how->first}, 1, &type, NULL, 0));
  return ir_binary(s->b, IR_ADD, 0, lanes, first);
}

static ir_value *make(slicing *s, ir_value *v, unsigned axis) {
  const ir_op *op = v->def;
  if (!op || v->type.log2[axis] < s->how->log2_parts) return NULL;
  if (op == s->how->loop) return axis == 1 ? s->how->sums[v->index] : NULL;
  if (op->code == IR_IOTA) return s->how->beside > 1 ? NULL : slice_iota(s, op);
  if (op->code == IR_TRANS) return slice_turned(s, op, axis);
  if (op->code == IR_BROADCAST || op->code == IR_EXPAND) return slice_renamed(s, op, axis);
  bool is_load = op->code == IR_LOAD && op->block == s->block;
  if (is_load || op->code == IR_SPLAT || ir_has(op->code, IR_EACH)) return slice_operands(s, op, axis);
  return NULL;
}

static ir_value *slice(slicing *s, ir_value *v, unsigned axis) {
  v = ir_resolve(v);
  if (!v->type.log2[axis]) return v;
  for (unsigned i = 0; i < s->made_count; i++)
    if (s->made[i].from == v && s->made[i].axis == axis) return s->made[i].to;
  ir_value *made = make(s, v, axis);
  if (!made || s->made_count == MOST_VALUES) return NULL;
  s->made[s->made_count].from = v, s->made[s->made_count].axis = axis;
  s->made[s->made_count++].to = made;
  return made;
}

static bool is_turned(const ir_value *value) {
  return value->def && value->def->code == IR_TRANS && value->type.rank == 2 && value->def->attrs.perm[0];
}

/// Of the rows as many as before, of the columns those of the part.
static ir_attrs attrs_of_part(const slicing *s, const ir_op *op, unsigned columns_axis) {
  int64_t parts[2] = {kiln_part_of(op, 0), kiln_part_of(op, 1)};
  ir_attrs attrs = op->attrs;
  parts[columns_axis] = s->how->columns;
  ir_view_access *a = &attrs.access;
  a->axis = parts[0] ? 0 : 1;
  a->first = parts[a->axis];
  a->across = parts[0] ? parts[1] : 0;
  if (!a->first) a->axis = 0;
  if (s->how->beside > 1) a->split = (uint8_t)s->how->shares, a->spread = (uint8_t)s->how->beside;
  return attrs;
}

static bool slice_view_store(slicing *s, const ir_op *op) {
  const ir_op *view = op->operands[0]->def;
  ir_value *operands[IR_MAX_RANK + 2], *value = op->operands[op->operand_count - 1];
  ir_type type = view->results[0].type;
  unsigned rank = type.rank, turned = is_turned(value);
  unsigned axis = rank - 1 - turned; // that has the columns
  if (type.log2[axis] == IR_DROPPED || rank > IR_MAX_RANK) return false;
  ir_value *sliced = slice(s, value, value->type.rank - 1u - turned);
  if (!sliced) return false;
  type = narrowed(s, type, axis);
  ir_op *narrow = ir_emit(s->b, IR_VIEW, NULL, view->operands, view->operand_count, &type, NULL, 0);
  if (!narrow) return false;
  operands[0] = &narrow->results[0];
  for (unsigned i = 0; i < rank; i++) operands[1 + i] = ir_view_indices(op)[i];
  ir_value *first = ir_cast(s->b, s->how->first, KILN_I64, 0, IR_ROUND_NEAREST);
  operands[1 + axis] = ir_binary(s->b, IR_ADD, 0, operands[1 + axis], first);
  operands[1 + rank] = sliced;
  ir_attrs attrs = attrs_of_part(s, op, turned ? 0 : 1);
  return ir_emit(s->b, IR_VIEW_STORE, &attrs, operands, 2 + rank, NULL, NULL, 0) != NULL;
}

static bool slice_store(slicing *s, const ir_op *op) {
  ir_value *operands[3];
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (!(operands[i] = slice(s, op->operands[i], op->operands[i]->type.rank - 1u))) return false;
  return ir_emit(s->b, IR_STORE, &op->attrs, operands, op->operand_count, NULL, NULL, 0) != NULL;
}

kiln_stored kiln_gpu_stored(const ir_op *first, const ir_op *end) {
  kiln_stored all = {0};
  for (const ir_op *op = first; op != end; op = op->next) {
    if (op->code != IR_VIEW_STORE && op->code != IR_STORE) continue;
    const ir_value *value = op->operands[op->operand_count - 1];
    if (value->type.rank != 2) return (kiln_stored){0};
    unsigned axis = is_turned(value) ? 0 : 1, part = kiln_part_of(op, axis);
    kiln_stored one = {.rows = kiln_part_of(op, 1 - axis),
                       .columns = part ? part : (int64_t)1 << value->type.log2[axis]};
    if (all.columns && (all.columns != one.columns || all.rows != one.rows)) return (kiln_stored){0};
    all = one;
  }
  return all;
}

bool kiln_gpu_slice(ir_builder *b, const kiln_slice *how, ir_op *first, const ir_op *end) {
  slicing s = {.b = b, .how = how, .block = end->block};
  unsigned stores = 0, loads = 0;
  for (ir_op *op = first; op != end; op = op->next) {
    bool is_store = op->code == IR_VIEW_STORE || op->code == IR_STORE;
    bool is_whole = is_store && op->operands[op->operand_count - 1]->type.rank == 2;
    if (op->region_count || (ir_ops[op->code].effect == IR_WRITE && !is_whole)) return false;
    if (op->code == IR_VIEW_LOAD) return false;
    stores += is_store;
    loads += op->code == IR_LOAD;
    if (is_store && !(op->code == IR_STORE ? slice_store(&s, op) : slice_view_store(&s, op))) return false;
  }
  return stores == 1 || (stores && !loads);
}
