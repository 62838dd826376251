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
  ir_value *value;
  const kiln_layout *layout;
} source;

static source open_source(gpu *g, ir_value *value, const kiln_layout *layout) {
  source s = {.value = value, .layout = layout};
  gpu_tile home;
  kiln_layout there;
  gpu_place place;
  if (g->status == KILN_OK && gpu_home_here(g, value, layout, &home, &place, &there)) {
    s.is_written = place.slots != NULL;
    s.staged = s.is_written ? gpu_stage_slot(g, &place, ir_element(value->type), &there)
                            : gpu_stage(g, &home, ir_element(value->type), &there);
  }
  if (!s.staged) s.tile = gpu_tile_in(g, value, layout);
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
    largest->staged = NULL;
    largest->tile = gpu_tile_in(g, largest->value, largest->layout);
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

static gpu_tile by_matrix(gpu *g, ir_op *op, const kiln_matrix_form *f, const kiln_dot_shape *s) {
  kiln_dot_layouts l = kiln_dot_form_layouts(g->layouts, op, s, f);
  gpu_tile initial = gpu_tile_in(g, op->operands[2], &l.accumulator), out = gpu_tile_new(g, &l.accumulator);
  source sources[2] = {open_source(g, op->operands[0], &l.left), open_source(g, op->operands[1], &l.right)};
  exchange(g, sources, 2);
  if (g->status != KILN_OK) return initial;
  // What is loaded ahead waits for the product's operands to be gone where a loop needs all registers.
  const bool is_full = g->region->is_full;
  if (!is_full) gpu_issue_feeds(g, op->block, op);
  const kiln_dot_split *p = &l.split;
  bool is_exchanged = kiln_form_is_symmetric(f);
  unsigned a_bits = length_of(f->left_fragment.registers), b_bits = length_of(f->right_fragment.registers),
           c_bits = length_of(f->accumulator_fragment.registers);
  for (uint32_t r = 0; r < 1u << l.accumulator.registers; r++) out.regs[r] = initial.regs[r];
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
  for (uint32_t r = 0; g->machine->finish_product && r < 1u << l.accumulator.registers; r += 1u << c_bits)
    g->machine->finish_product(g, f, out.regs + r);
  if (is_full) gpu_issue_feeds(g, op->block, op);
  return out;
}

void gpu_lower_dot(gpu *g, ir_op *op) {
  kiln_dot_shape s = kiln_dot_shape_of(op);
  kiln_report_reason why;
  const kiln_matrix_form *f = kiln_matrix_form_of(g->machine->matrix, g->lanes, op, &why);
  gpu_note_product(g, op, f ? KILN_ENGINE_MATRIX : KILN_ENGINE_FMA, f ? f->name : "", why);
  gpu_set_home(g, &op->results[0], f ? by_matrix(g, op, f, &s) : gpu_dot_by_adds(g, op, &s));
}
