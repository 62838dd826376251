// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bases of views (descriptors made for a head, a batch): what is added to the parameter becomes axes.
#include <string.h>

#include "compiler/passes/gpu/recover/recover_inner.h"

void recover_base(recovering *r, ir_op *view) {
  const limit set[RANK] = {{.is_set = true}, {.is_set = true}};
  const limit none_set[RANK] = {{.is_set = false}};
  const term none[RANK] = {{0}};
  ir_type type = view->results[0].type;
  sum rest, unused[RANK] = {{0}};
  address a = {0};
  r->claim_count = 0;
  if (!view->operands[0]->def || type.rank < RANK || type.rank > MOST_AXES - 1) return;
  if (!recover_sum(r, view->operands[0], &rest) || !recover_take_base(r, &rest, &a.base) || !rest.count)
    return;
  if (!recover_place_rest(r, &rest, none, set, unused, &a) || a.rank + type.rank > MOST_AXES) return;
  if (!recover_test_claims(r, view, none_set, type)) return;
  unsigned rank = a.rank + type.rank;
  ir_value *operands[1 + 2 * MOST_AXES] = {(ir_value *)a.base}, *indices[MOST_AXES];
  r->b.block = view->block, r->b.before = view, r->b.place = view->place;
  for (unsigned i = 0; i < rank; i++) {
    bool is_new = i < a.rank;
    operands[1 + i] = is_new ? recover_emit_sum(r, &a.extents[i], false) : ir_view_extents(view)[i - a.rank];
    operands[1 + rank + i] =
        is_new ? recover_emit_sum(r, &a.strides[i], false) : ir_view_strides(view)[i - a.rank];
    if (is_new) indices[i] = recover_emit_sum(r, &a.indices[i], true);
  }
  ir_type larger = type;
  larger.rank = (uint8_t)rank;
  for (unsigned i = 0; i < rank; i++) larger.log2[i] = i < a.rank ? IR_DROPPED : type.log2[i - a.rank];
  ir_op *op = ir_emit(&r->b, IR_VIEW, NULL, operands, 1 + 2 * rank, &larger, NULL, 0);
  if (!op) return;
  const ir_block *body = r->kernel->body;
  for (ir_op *access = ir_next(body, NULL); access; access = ir_next(body, access)) {
    const bool is_access = access->code == IR_VIEW_LOAD || access->code == IR_VIEW_STORE;
    if (!is_access || access->operands[0] != &view->results[0]) continue;
    ir_value **moved = KILN_NEW_ARRAY(r->kernel->arena, ir_value *, access->operand_count + a.rank);
    moved[0] = &op->results[0];
    memcpy(moved + 1, indices, a.rank * sizeof *moved);
    memcpy(moved + 1 + a.rank, access->operands + 1, (access->operand_count - 1) * sizeof *moved);
    access->operands = moved;
    access->operand_count += a.rank;
  }
  r->count++;
}
