// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What makes more indices sums, in kernels that need it: numbers that go with a loop's counter are written as
// that, and parameters that masks compare with get a range, which the launch tests.
//
//   for t in lo .. hi step s (x = lo + c) { .. x ..; yield x + s }   =>   for t in lo .. hi step s { .. t + c .. }
//   for t in lo .. hi step s (x = lo - s) { .. x ..; yield x + s }   =>   for t in lo .. hi step s { .. t - s .. }
//
// A persistent kernel of Triton takes the tile that it stores from a number of its own, so that its loop may be
// flattened. Written so, the position of what is stored is that of what was loaded.
#include "compiler/analysis/provenance.h"
#include "compiler/passes/gpu/gpu.h"
#include "compiler/passes/gpu/recover/recover_inner.h"

/// `v` = `of` + a constant.
static bool is_beyond(const ir_value *v, const ir_value *of, int64_t *out) {
  int64_t x, y;
  *out = 0;
  if (v == of) return true;
  if (ir_constant_int(v, &x) && ir_constant_int(of, &y)) return *out = x - y, true;
  return v->def && v->def->code == IR_ADD && v->def->operands[0] == of &&
         ir_constant_int(v->def->operands[1], out);
}

static ir_value *counter_and(ir_builder *b, const ir_op *loop, int64_t more) {
  ir_value *counter = ir_for_counter(loop);
  const int32_t by = (int32_t)(uint32_t)more; // what is computed wraps, too
  return by ? ir_binary_int(b, IR_ADD, 0, counter, by) : counter;
}

/// What is carried, and what it becomes, in terms of the counter; false: it does not go with it.
static bool terms_of(ir_builder *b, const ir_op *loop, uint32_t i, ir_value *out[2]) {
  const ir_value *carried = ir_loop_args(loop)[i], *first = ir_loop_initials(loop)[i],
                 *next = ir_loop_next(loop)->operands[i];
  int64_t step, before, by;
  if (ir_constant_int(ir_for_step(loop), &step)) {
    if (!is_beyond(first, ir_for_lower(loop), &before) || !is_beyond(next, carried, &by) || by != step)
      return false;
    out[0] = counter_and(b, loop, before), out[1] = counter_and(b, loop, before + step);
    return true;
  }
  if (next->def->code != IR_ADD || next->def->operands[0] != carried ||
      next->def->operands[1] != ir_for_step(loop) || !first->def || first->def->code != IR_SUB ||
      first->def->operands[0] != ir_for_lower(loop) || first->def->operands[1] != ir_for_step(loop))
    return false;
  out[0] = ir_binary(b, IR_SUB, 0, ir_for_counter(loop), ir_for_step(loop)), out[1] = ir_for_counter(loop);
  return true;
}

static void level(ir_op *op, void *context) {
  ir_kernel *kernel = context;
  ir_value *terms[2];
  if (op->code != IR_FOR || ir_for_counter(op)->type.scalar != KILN_I32) return;
  ir_builder b = {
      .arena = kernel->arena, .block = op->regions[0], .before = op->regions[0]->first, .place = op->place};
  for (uint32_t i = 0; i < op->result_count; i++) {
    ir_value *carried = ir_loop_args(op)[i], *next = ir_loop_next(op)->operands[i];
    const bool is_number = ir_type_equal(carried->type, ir_for_counter(op)->type);
    if (!is_number || !next->def || next->def->block != op->regions[0] || !terms_of(&b, op, i, terms))
      continue;
    ir_forward(next, terms[1]);
    ir_remove(next->def);
    ir_forward(carried, terms[0]);
  }
}

void kiln_gpu_level_counters(ir_kernel *kernel) {
  ir_walk(kernel->body, level, kernel);
  ir_apply_forwards(kernel);
}

// ------------------------------------------------------------------------------------------ extents

bool kiln_gpu_limit_extents(ir_kernel *kernel, int64_t most) {
  ir_builder b = {.arena = kernel->arena, .block = kernel->body, .before = kernel->body->first};
  ir_value *least = NULL, *largest = NULL; // of the parameters
  for (const ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op)) {
    for (unsigned i = 0; op->code == IR_CMP && i < 2; i++) {
      const ir_value *v = op->operands[i];
      while (v->def && ir_is_renaming(v->def)) v = v->def->operands[0];
      v = kiln_behind(v);
      if (v->def || v->block != kernel->body || v->type.pointer || v->type.scalar != KILN_I32) continue;
      ir_param *p = &kernel->params[v->index];
      if (p->has_range) continue;
      p->has_range = true, p->lo = 0, p->hi = most;
      ir_value *wide = ir_cast(&b, (ir_value *)v, KILN_I64, 0, IR_ROUND_NEAREST);
      least = least ? ir_binary(&b, IR_MIN, 0, least, wide) : wide;
      largest = largest ? ir_binary(&b, IR_MAX, 0, largest, wide) : wide;
    }
  }
  return least && kiln_add_condition(kernel, least, KILN_EXPR_GE, 0) &&
         kiln_add_condition(kernel, largest, KILN_EXPR_LE, most);
}
