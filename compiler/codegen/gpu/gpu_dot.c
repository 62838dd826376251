// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// dot: by the target's matrix instructions or multiply-adds of fragments when a form fits, else by
// multiply-adds of operands in shared memory.
#include "compiler/codegen/gpu/gpu_dot.h"
#include "compiler/codegen/gpu/gpu_tile.h"

static unsigned length_of(const uint8_t *codes) {
  unsigned n = 0;
  while (codes[n] != KILN_FRAGMENT_END) n++;
  return n;
}

static void by_matrix(gpu *g, ir_op *op, const kiln_dot_layouts *l) {
  const kiln_matrix_form *f = l->form;
  gpu_tile initial = gpu_operand(g, op, 2), out = gpu_result(g, &op->results[0]);
  gpu_staged operands[2]; // in registers, or in slots and read step by step
  for (uint32_t i = 0; i < 2; i++) {
    const kiln_dot_source *from = &l->sources[i];
    operands[i] = from->load
                      ? gpu_stage_slot(g, &gpu_value_of(g, from->load)->place, from->load->type, &from->read)
                      : (gpu_staged){.to = gpu_operand(g, op, i)};
  }
  if (g->status != KILN_OK) return;
  const kiln_dot_split *p = &l->split;
  bool is_exchanged = kiln_form_is_symmetric(f);
  unsigned a_bits = length_of(f->left_fragment.registers), b_bits = length_of(f->right_fragment.registers),
           c_bits = length_of(f->accumulator_fragment.registers);
  for (uint32_t r = 0; r < 1u << l->accumulator.registers; r++) out.regs[r] = initial.regs[r];
  // One step of the reduced index at a time, so that accumulators do not wait for one another.
  for (uint32_t k = 0; k < 1u << p->reg_k; k++)
    for (uint32_t batch = 0; batch < 1u << p->reg_batch; batch++)
      for (uint32_t m = 0; m < 1u << p->reg_m; m++)
        for (uint32_t n = 0; n < 1u << p->reg_n; n++) {
          uint32_t a = k | m << p->reg_k | batch << (p->reg_k + p->reg_m),
                   b = k | n << p->reg_k | batch << (p->reg_k + p->reg_n);
          uint32_t c = n | m << p->reg_n | batch << (p->reg_n + p->reg_m);
          const LLVMValueRef *right = gpu_staged_read(g, &operands[1], b << b_bits, 1u << b_bits),
                             *left = gpu_staged_read(g, &operands[0], a << a_bits, 1u << a_bits);
          g->machine->emit_product(g, f, is_exchanged ? right : left, is_exchanged ? left : right,
                                   out.regs + ((size_t)c << c_bits));
        }
  for (uint32_t r = 0; g->machine->finish_product && r < 1u << l->accumulator.registers; r += 1u << c_bits)
    g->machine->finish_product(g, f, out.regs + r);
}

void gpu_lower_dot(gpu *g, ir_op *op) {
  const kiln_dot_layouts *l = g->layouts->notes[op->results[0].id]->product;
  if (l->form) by_matrix(g, op, l);
  else gpu_set_home(g, &op->results[0], gpu_dot_by_adds(g, op));
}
