// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops that take all registers of a thread, where their number is known before code is generated.
#include "compiler/passes/gpu/layouts/layouts.h"

enum { LOG2_SIMDS = 2 };

/// The waves of a block share the SIMDs, and a SIMD's registers are shared by its waves.
unsigned kiln_thread_registers(const kiln_layouts *c) {
  const unsigned waves = c->warps > LOG2_SIMDS ? 1u << (c->warps - LOG2_SIMDS) : 1,
                 share = c->machine.register_file / waves;
  return share < c->machine.most_registers ? share : c->machine.most_registers;
}

static uint64_t words_in(const ir_value *value, const kiln_layout *layout) {
  return ((uint64_t)ir_type_bits(value->type) << layout->registers) / 32;
}

static uint64_t words_at_home(const ir_value *value) {
  return value->type.rank && value->layout ? words_in(value, value->layout) : 0;
}

static bool is_by_matrix(const kiln_layouts *c, const ir_op *op) {
  return op->code == IR_DOT && kiln_dot_form(c, op);
}

/// The loop, or one around it, is in the block; nothing but loops is between.
static bool runs_in(const ir_op *loop, const ir_block *block) {
  while (loop && loop->code == IR_FOR && loop->block != block) loop = loop->block->parent;
  return loop && loop->code == IR_FOR;
}

/// The operand stays the same in the loop, is in registers, and would change threads.
static bool is_candidate(const ir_op *loop, const ir_op *dot) {
  const ir_value *left = dot->operands[0];
  return left->def && runs_in(loop, left->def->block) && left->layout && left->def->code != IR_SLOT_LOAD &&
         layout_convert(left->layout, dot->operand_layouts[0]).reach != LAYOUT_SAME_THREAD;
}

/// What the loop carries, what does not change in it, and the product with most sums and operands of its own.
static uint64_t words_of_loop(const kiln_layouts *c, const ir_op *loop) {
  uint64_t words = 0, most = 0;
  for (uint32_t i = 0; i < loop->result_count; i++) words += words_at_home(ir_loop_args(loop)[i]);
  for (const ir_op *op = ir_loop_body(loop)->first; op; op = op->next) {
    if (!is_by_matrix(c, op)) continue;
    uint64_t own = 0, operand = words_in(op->operands[0], op->operand_layouts[0]);
    if (op->operands[2]->def) own += words_at_home(&op->results[0]); // else its sums are carried
    if (is_candidate(loop, op)) words += operand;
    else own += operand;
    if (own > most) most = own;
  }
  return words + most;
}

bool kiln_dot_spares_registers(const kiln_layouts *c, const ir_op *dot) {
  const ir_op *loop = dot->block->parent;
  return loop && loop->code == IR_FOR && kiln_loop_is_full(c, loop) && is_by_matrix(c, dot) &&
         is_candidate(loop, dot);
}

void kiln_layouts_find_full_loops(kiln_layouts *c) {
  const ir_block *body = c->kernel->body;
  if (!c->machine.register_file) return;
  const uint64_t room = kiln_thread_registers(c);
  // A quarter is for the right operands of a product, addresses and what is on its way.
  for (const ir_op *loop = ir_next(body, NULL); loop; loop = ir_next(body, loop))
    if (loop->code == IR_FOR)
      c->notes[ir_for_counter(loop)->id]->is_full = words_of_loop(c, loop) >= room - room / 4;
}
