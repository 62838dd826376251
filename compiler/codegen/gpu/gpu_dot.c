// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// dot: by the target's matrix instructions or multiply-adds of fragments when a form fits, else by
// multiply-adds of operands in shared memory.
#include "compiler/codegen/gpu/gpu_dot.h"

static unsigned length_of(const uint8_t *codes) {
  unsigned n = 0;
  while (codes[n] != KILN_FRAGMENT_END) n++;
  return n;
}

/// An operand of matrix instructions: in registers, or in a slot and read step by step.
typedef struct source {
  gpu_tile tile;
  gpu_staged *staged;
} source;

/// In a slot, or in another shape than it has there, or in registers (the pass `exchange`).
static source open_source(gpu *g, const ir_op *op, uint32_t i) {
  ir_value *value = op->operands[i];
  kiln_layout wanted = *op->operand_layouts[i];
  while (!value->layout) {
    const kiln_layout before = kiln_layout_before(value->def, &wanted);
    wanted = before;
    value = value->def->operands[0];
  }
  if (!value->def || value->def->code != IR_SLOT_LOAD) return (source){.tile = gpu_operand(g, op, i)};
  return (source){.staged =
                      gpu_stage_slot(g, &gpu_value_of(g, value)->place, ir_element(value->type), &wanted)};
}

static const LLVMValueRef *fragment_of(gpu *g, const source *s, uint32_t index, unsigned bits) {
  if (s->staged) return gpu_staged_read(g, s->staged, index << bits, 1u << bits);
  return s->tile.regs + ((size_t)index << bits);
}

static gpu_tile by_matrix(gpu *g, ir_op *op, const kiln_matrix_form *f) {
  const kiln_dot_layouts *l = g->layouts->notes[op->results[0].id]->product;
  gpu_tile initial = gpu_operand(g, op, 2), out = gpu_tile_new(g, &l->accumulator);
  source sources[2] = {open_source(g, op, 0), open_source(g, op, 1)};
  if (g->status != KILN_OK) return initial;
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
          const LLVMValueRef *right = fragment_of(g, &sources[1], b, b_bits),
                             *left = fragment_of(g, &sources[0], a, a_bits);
          g->machine->emit_product(g, f, is_exchanged ? right : left, is_exchanged ? left : right,
                                   out.regs + ((size_t)c << c_bits));
        }
  for (uint32_t r = 0; g->machine->finish_product && r < 1u << l->accumulator.registers; r += 1u << c_bits)
    g->machine->finish_product(g, f, out.regs + r);
  return out;
}

void gpu_lower_dot(gpu *g, ir_op *op) {
  kiln_report_reason why;
  const kiln_matrix_form *f = kiln_matrix_form_of(g->machine->matrix, g->lanes, op, &why);
  const bool is_fma = !f || f->emission == KILN_EMIT_FMA;
  gpu_note_product(g, op, is_fma ? KILN_ENGINE_FMA : KILN_ENGINE_MATRIX, is_fma ? "" : f->name, why);
  gpu_set_home(g, &op->results[0], f ? by_matrix(g, op, f) : gpu_dot_by_adds(g, op));
}
