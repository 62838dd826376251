// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// dot: by the target's matrix instructions when a form fits, else by multiplies and adds.
#include "compiler/codegen/gpu/gpu_dot.h"

static unsigned length_of(const uint8_t *codes) {
  unsigned n = 0;
  while (codes[n] != KILN_FRAGMENT_END) n++;
  return n;
}

/// An operand of matrix instructions: whole in registers, or read from shared memory step by step.
typedef struct source {
  gpu_tile tile;
  gpu_staged *staged;
  bool is_written; ///< staged, and in shared memory already
  ir_type element;
  kiln_layout wanted; ///< of `tile`
} source;

static void to_registers(gpu *g, source *s) {
  s->staged = NULL;
  s->tile = gpu_convert(g, &s->tile, s->element, &s->wanted);
}

static source open_source(gpu *g, const ir_op *op, uint32_t i) {
  ir_value *value = op->operands[i];
  source s = {.element = ir_element(value->type)};
  gpu_place place;
  if (g->status != KILN_OK || !gpu_home_of(g, value, op->operand_layouts[i], &s.tile, &place, &s.wanted)) {
    s.tile = gpu_operand(g, op, i);
    return s;
  }
  s.is_written = place.slots != NULL;
  s.staged = s.is_written ? gpu_stage_slot(g, &place, s.element, &s.wanted)
                          : gpu_stage(g, &s.tile, s.element, &s.wanted);
  if (!s.staged) to_registers(g, &s);
  return s;
}

static uint32_t bytes_to_write(const source *s) {
  return s->staged && !s->is_written ? gpu_staged_bytes(s->staged) : 0;
}

/// Operands that shared memory does not hold together are read whole into registers before, the larger first:
/// such an exchange goes in parts where it must.
static uint32_t bytes_that_fit(gpu *g, source *sources, unsigned count) {
  for (;;) {
    uint64_t bytes = 0;
    source *largest = sources;
    for (unsigned i = 0; i < count; i++) {
      bytes += bytes_to_write(&sources[i]);
      if (bytes_to_write(&sources[i]) > bytes_to_write(largest)) largest = &sources[i];
    }
    if (!bytes || bytes + g->scratch_base <= g->machine->max_shared) return (uint32_t)bytes;
    to_registers(g, largest);
  }
}

/// Both operands share one exchange: two barriers a dot.
static void exchange(gpu *g, source *sources, unsigned count) {
  uint32_t bytes = bytes_that_fit(g, sources, count);
  if (!bytes) return;
  gpu_scratch_begin(g, bytes);
  bytes = 0;
  for (unsigned i = 0; i < count; i++) {
    if (!bytes_to_write(&sources[i])) continue;
    gpu_staged_write(g, sources[i].staged, bytes);
    bytes += gpu_staged_bytes(sources[i].staged);
  }
  gpu_barrier(g);
  g->shared_dirty = true;
}

static const LLVMValueRef *fragment_of(gpu *g, const source *s, uint32_t index, unsigned bits) {
  if (s->staged) return gpu_staged_read(g, s->staged, index << bits, 1u << bits);
  return s->tile.regs + ((size_t)index << bits);
}

static gpu_tile by_matrix(gpu *g, ir_op *op, const kiln_matrix_form *f) {
  const kiln_dot_layouts *l = kiln_notes_of(g->layouts, &op->results[0])->product;
  gpu_tile initial = gpu_operand(g, op, 2), out = gpu_tile_new(g, &l->accumulator);
  source sources[2] = {open_source(g, op, 0), open_source(g, op, 1)};
  exchange(g, sources, 2);
  if (g->status != KILN_OK) return initial;
  if (!g->nesting.is_full) gpu_issue_feeds(g, op->block, op);
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
  gpu_note_product(g, op, f ? KILN_ENGINE_MATRIX : KILN_ENGINE_FMA, f ? f->name : "", why);
  gpu_set_home(g, &op->results[0], f ? by_matrix(g, op, f) : gpu_dot_by_adds(g, op));
}
