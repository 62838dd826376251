// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Left operands of products that are parked in shared memory while a full loop runs (layouts/full_loops.c).
// Where there is no room for one, its product exchanges it in every iteration.
#include "compiler/codegen/gpu/gpu_lower.h"
#include "compiler/passes/gpu/layouts/shared_layouts.h"

static void count_uses(ir_op *op, void *context) {
  gpu_parked *p = context;
  for (uint32_t i = 0; i < op->operand_count; i++) p->uses += op->operands[i] == p->value;
}

/// The last operation of the block that reads the value, itself or inside.
static const ir_op *last_reader(gpu_parked *p, const ir_op *from) {
  const ir_op *last = from;
  for (ir_op *op = from->next; op; op = op->next) {
    p->uses = 0;
    count_uses(op, p);
    for (uint32_t i = 0; i < op->region_count; i++) ir_walk(op->regions[i], count_uses, p);
    if (p->uses) last = op;
  }
  return last;
}

static void park(gpu *g, const ir_op *loop, const ir_op *dot) {
  ir_value *value = dot->operands[0];
  gpu_value *v = gpu_value_of(g, value);
  unsigned log2_bytes = (unsigned)__builtin_ctz(kiln_scalars[value->type.scalar].bytes);
  uint32_t bytes = 1u << (value->layout->bits + log2_bytes);
  if (g->scratch_base + 2 * (uint64_t)bytes > g->machine->max_shared) return; // the rest is for exchanges
  kiln_slot_layouts *s = KILN_NEW(g->arena, kiln_slot_layouts);
  kiln_matrix_load plan;
  *s = (kiln_slot_layouts){.writer = *value->layout, .reader = *dot->operand_layouts[0], .has_reader = true};
  kiln_operand_memory(&g->layouts->machine, &s->writer, &s->reader, log2_bytes, &plan, &s->memory);
  s->start = g->scratch_base;
  s->bytes = bytes;
  s->log2_bytes = (uint8_t)log2_bytes;
  gpu_scratch_begin(g, bytes);
  gpu_write_tile(g, &v->home_tile, &s->memory, log2_bytes, s->start);
  gpu_barrier(g);
  v->place = (gpu_place){s, gpu_i32(g, 0)};
  v->is_parked = true;
  g->scratch_base += bytes;
  gpu_parked *p = KILN_NEW(g->arena, gpu_parked);
  *p = (gpu_parked){.below = g->parked, .value = value, .start = s->start};
  p->until = last_reader(p, loop);
  g->parked = p;
}

/// What comes from outside of several loops is parked before the outermost one, once.
static void park_in(gpu *g, const ir_op *loop, const ir_block *block) {
  for (const ir_op *op = block->first; op && g->status == KILN_OK; op = op->next) {
    for (uint32_t i = 0; i < op->region_count; i++) park_in(g, loop, op->regions[i]);
    const kiln_dot_layouts *l =
        op->code == IR_DOT ? kiln_notes_of(g->layouts, &op->results[0])->product : NULL;
    if (!l || !l->is_parked || op->operands[0]->def->block != loop->block) continue;
    if (!gpu_value_of(g, op->operands[0])->place.slots) park(g, loop, op);
  }
}

void gpu_park(gpu *g, const ir_op *loop) { park_in(g, loop, ir_loop_body(loop)); }

void gpu_unpark(gpu *g, const ir_op *loop) {
  for (; g->parked && g->parked->until == loop; g->parked = g->parked->below)
    g->scratch_base = g->parked->start;
}
