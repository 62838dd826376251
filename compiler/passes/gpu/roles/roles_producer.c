// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The producer: copies, and what their indices need.
#include <string.h>

#include "compiler/passes/gpu/roles/roles_inner.h"

/// All loads of a site are filled where the last of them stands. `loads` are those of the producer's copy.
static void fill(splitting *s, const site *x, ir_op *const *loads, ir_op *where) {
  roles_ring *r = &s->rings[x->ring];
  position *p = &s->at[x->ring];
  roles_after(s, where);
  roles_emit_barrier(s, IR_BAR_WAIT, r->empty, p->slot, p->phase);
  const ir_attrs bytes = {.expect = {.bytes = r->bytes, .part = r->part}};
  ir_emit(&s->b, IR_BAR_EXPECT, &bytes, (ir_value *[]){r->full, p->slot}, 2, NULL, NULL, 0);
  for (unsigned i = 0; i < x->count; i++) {
    ir_value *operands[IR_MAX_RANK + 4];
    uint32_t count = loads[i]->operand_count;
    memcpy(operands, loads[i]->operands, count * sizeof *operands);
    operands[count++] = r->ring.memory[i];
    operands[count++] = p->slot;
    operands[count++] = r->full;
    ir_copy how = {.rows = r->rows[i], .columns = r->columns[i], .is_multicast = s->spread > r->parts[i]};
    if (s->spread > 1)
      how.parts = (uint8_t)s->spread, how.operand = r->is_left[i] ? 0 : 1, how.is_mn = r->is_mn[i];
    ir_emit(&s->b, IR_COPY, &(ir_attrs){.copy = how}, operands, count, NULL, NULL, 0);
  }
  roles_advance(s, x->ring);
}

void roles_produce(splitting *s, ir_op *op, ir_op **seen) {
  site *x = &s->sites[op->attrs.access.site - 1];
  unsigned have = 0;
  while (have < x->count && seen[(op->attrs.access.site - 1) * MAX_LOADS + have]) have++;
  seen[(op->attrs.access.site - 1) * MAX_LOADS + have] = op;
  if (have + 1 == x->count) fill(s, x, &seen[(op->attrs.access.site - 1) * MAX_LOADS], op);
}
