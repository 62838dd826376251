// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Left operands of products that a loop does not change (the queries of attention). Before the loop they are
// brought into the form that the product takes, and a thread holds all of that while the loop runs: where the
// file has no room for it beside what the loop carries and computes, the operand is parked in shared memory
// instead, and every iteration reads it a step at a time.
#include "compiler/codegen/gpu/gpu_lower.h"

static uint64_t words_in(const ir_value *value, const kiln_layout *layout) {
  return ((uint64_t)ir_type_bits(value->type) << layout->registers) / 32;
}

static uint64_t words_at_home(const ir_value *value) {
  return value->type.rank && value->layout ? words_in(value, value->layout) : 0;
}

/// The operand stays the same in the loop, is in registers, and would change threads.
static bool is_candidate(gpu *g, const ir_op *loop, const ir_op *dot) {
  if (dot->code != IR_DOT || !kiln_dot_form(g->layouts, dot)) return false;
  const gpu_value *v = gpu_value_of(g, dot->operands[0]);
  const ir_op *def = dot->operands[0]->def;
  if (!def || def->block != loop->block || !dot->operands[0]->layout || !v->is_ready || v->place.slots)
    return false;
  kiln_layout wanted = kiln_layout_of_dot_operand(g->layouts, dot, 0);
  return layout_convert(dot->operands[0]->layout, &wanted).reach != LAYOUT_SAME_THREAD;
}

/// What the loop carries, what does not change in it, and the product with most sums and operands of its own.
static uint64_t words_of_loop(gpu *g, const ir_op *loop) {
  uint64_t words = 0, most = 0;
  for (uint32_t i = 0; i < loop->result_count; i++) words += words_at_home(ir_loop_args(loop)[i]);
  for (const ir_op *op = ir_loop_body(loop)->first; op; op = op->next) {
    if (op->code != IR_DOT || !kiln_dot_form(g->layouts, op)) continue;
    kiln_layout left = kiln_layout_of_dot_operand(g->layouts, op, 0);
    uint64_t own = 0, operand = words_in(op->operands[0], &left);
    if (op->operands[2]->def) own += words_at_home(&op->results[0]); // else its sums are carried
    if (is_candidate(g, loop, op)) words += operand;
    else own += operand;
    if (own > most) most = own;
  }
  return words + most;
}

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
  gpu_slots *s = KILN_NEW(g->arena, gpu_slots);
  *s = (gpu_slots){.writer = *value->layout,
                   .reader = kiln_layout_of_dot_operand(g->layouts, dot, 0),
                   .has_reader = true,
                   .is_open = true};
  s->memory = gpu_staged_memory(g, &s->writer, &s->reader, log2_bytes);
  s->start = g->scratch_base;
  s->bytes = bytes;
  s->log2_bytes = log2_bytes;
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

bool gpu_fills_registers(gpu *g, const ir_op *loop) {
  if (!g->machine->thread_registers) return false;
  uint64_t room = g->machine->thread_registers(g);
  // A quarter is for the right operands of a product, addresses and what is on its way.
  return words_of_loop(g, loop) >= room - room / 4;
}

void gpu_park(gpu *g, const ir_op *loop) {
  for (const ir_op *op = ir_loop_body(loop)->first; op && g->status == KILN_OK; op = op->next)
    if (is_candidate(g, loop, op)) park(g, loop, op);
}

void gpu_unpark(gpu *g, const ir_op *loop) {
  for (; g->parked && g->parked->until == loop; g->parked = g->parked->below)
    g->scratch_base = g->parked->start;
}
