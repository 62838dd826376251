// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// dot: by the target's matrix instructions or multiply-adds of fragments when a form fits, else by
// multiply-adds of operands in shared memory.
#include <string.h>

#include "compiler/codegen/gpu/gpu_tile.h"

// --------------------------------------------------------------------------------------- by matrix instructions

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

// ------------------------------------------------------------------------------------------ by multiply-adds

/// The element of an operand widened to the accumulator's type.
static LLVMValueRef widen(gpu *g, kiln_scalar from, kiln_scalar to, LLVMValueRef value) {
  return kiln_element_cast(&g->elements, from, to, &(ir_attrs){0}, value);
}

static LLVMValueRef multiply_add(gpu *g, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
  LLVMTypeRef type = LLVMTypeOf(c);
  if (type == g->i32) return LLVMBuildAdd(g->builder, LLVMBuildMul(g->builder, a, b, ""), c, "");
  return gpu_intrinsic(g, "llvm.fma", &type, 1, (LLVMValueRef[3]){a, b, c}, 3);
}

/// An operand in shared memory with the reduced index as the slow axis: byte address = base + (k << pitch) +
/// place.
typedef struct stored {
  kiln_scalar scalar;
  uint32_t base;
  unsigned pitch, log2_bytes;
  LLVMValueRef thread; ///< the thread's part of the place, in bytes
  uint32_t varies;     ///< bits that the thread's part may have
  uint32_t seen[KILN_MOST_TILE_REGISTERS];
  LLVMValueRef loaded[KILN_MOST_TILE_REGISTERS];
  unsigned count;
} stored;

/// An operand in registers, `parts` cut off the reduced index: registers hold one part after another, each in
/// `part`, so that shared memory may take them in turn.
typedef struct cut_operand {
  gpu_tile tile;
  kiln_layout part;
} cut_operand;

static cut_operand cut(gpu *g, const ir_op *op, uint32_t operand, unsigned k_axis, unsigned parts) {
  cut_operand c = {.tile = gpu_operand(g, op, operand), .part = *op->operand_layouts[operand]};
  if (parts) {
    ir_type type = op->operands[operand]->type;
    unsigned at = layout_axis_shift(type, k_axis) + type.log2[k_axis] - parts;
    type.log2[k_axis] = (uint8_t)(type.log2[k_axis] - parts);
    kiln_layout all = c.part = kiln_layout_default(g->layouts, type);
    all.bits = (uint8_t)(all.bits + parts);
    all.registers = (uint8_t)(all.registers + parts);
    memset(all.basis, 0, sizeof all.basis);
    for (unsigned i = 0; i < parts; i++) all.basis[c.part.registers + i] = 1u << (at + i);
    for (unsigned i = 0; i < layout_places(&c.part); i++)
      all.basis[i < c.part.registers ? i : i + parts] =
          layout_spread(c.part.basis[i], ((1u << parts) - 1) << at);
    c.tile = gpu_convert(g, &c.tile, ir_element(type), &all);
  }
  return c;
}

/// Writes a part of the operand; `k_at`, `free_at`: where the reduced index and the rows or columns begin in
/// its element number.
static void store_operand(gpu *g, const cut_operand *c, uint32_t part, stored *s, const kiln_dot_shape *d,
                          unsigned k_at, unsigned free_at, unsigned free) {
  gpu_tile tile = {.layout = c->part, .regs = c->tile.regs + ((size_t)part << c->part.registers)};
  layout_memory memory = {.bits = (uint8_t)(d->batch + d->k + free)};
  for (unsigned i = 0; i < free; i++) memory.offset[free_at + i] = 1u << i;
  for (unsigned i = 0; i < d->batch; i++) memory.offset[d->k + free + i] = 1u << (free + i);
  for (unsigned i = 0; i < d->k; i++) memory.offset[k_at + i] = 1u << (free + d->batch + i);
  s->pitch = free + d->batch + s->log2_bytes;
  gpu_write_tile(g, &tile, &memory, s->log2_bytes, s->base);
}

/// The operand's element at row or column (and batch) `place`, `ahead` steps after step `k` (an i32), read
/// once a place and step. The alignment is what is known, so that neighbours can be read together.
static LLVMValueRef fetch(gpu *g, stored *s, kiln_scalar to, uint32_t place, LLVMValueRef k, unsigned ahead) {
  for (unsigned i = 0; i < s->count; i++)
    if (s->seen[i] == place) return s->loaded[i];
  LLVMValueRef offset =
      LLVMBuildAdd(g->builder, LLVMBuildShl(g->builder, k, gpu_i32(g, s->pitch), ""), s->thread, "");
  uint32_t constant = s->base + (place << s->log2_bytes) + (ahead << s->pitch);
  LLVMValueRef more = gpu_i32(g, constant), value;
  LLVMValueRef pointer = LLVMBuildGEP2(g->builder, g->i8, g->shared, &offset, 1, "");
  pointer = LLVMBuildGEP2(g->builder, g->i8, pointer, &more, 1, "");
  LLVMValueRef load = LLVMBuildLoad2(g->builder, gpu_packed_type(g, 1u << s->log2_bytes), pointer, "");
  LLVMSetAlignment(load, 1u << __builtin_ctz(constant | s->varies | 1u << s->pitch | KILN_MOST_VECTOR_BYTES));
  gpu_unpack(g, load, g->elements.types[s->scalar], &value, 1);
  s->seen[s->count] = place;
  return s->loaded[s->count++] = widen(g, s->scalar, to, value);
}

/// Rows and batch of an accumulator element as a place in the left operand; columns and batch for the right
/// one.
static uint32_t row_place(const kiln_dot_shape *s, uint32_t element) { return element >> s->n; }
static uint32_t column_place(const kiln_dot_shape *s, uint32_t element) {
  return (element & ((1u << s->n) - 1)) | element >> (s->n + s->m) << s->n;
}

static void place_thread(gpu *g, const kiln_dot_shape *s, const kiln_layout *l, stored *x,
                         uint32_t (*place)(const kiln_dot_shape *, uint32_t)) {
  uint32_t basis[LAYOUT_MAX_PLACES] = {0};
  for (unsigned i = 0; i < layout_thread_bits(l); i++) {
    basis[i] = place(s, l->basis[l->registers + i]) << x->log2_bytes;
    x->varies |= basis[i];
  }
  x->thread = gpu_thread_bits(g, basis, layout_thread_bits(l));
}

/// log2 of the steps that one round of the loop takes: up to 256 products.
static unsigned steps_of(const kiln_dot_shape *s, uint32_t count) {
  unsigned steps = 0;
  while (steps < s->k && steps < 5 && count << (steps + 1) <= 256) steps++;
  return steps;
}

/// One step: sums += row * column.
static void plain_step(gpu *g, const kiln_dot_shape *s, const kiln_layout *layout, stored *const operands[2],
                       kiln_scalar to, LLVMValueRef k, unsigned ahead, LLVMValueRef *sums) {
  operands[0]->count = operands[1]->count = 0;
  for (uint32_t r = 0; r < 1u << layout->registers; r++) {
    uint32_t element = layout_element(layout, r);
    LLVMValueRef x = fetch(g, operands[0], to, row_place(s, element), k, ahead),
                 y = fetch(g, operands[1], to, column_place(s, element), k, ahead);
    sums[r] = multiply_add(g, x, y, sums[r]);
  }
}

/// All steps: straight when one round takes them, else a loop of rounds.
static void plain_rounds(gpu *g, const kiln_dot_shape *s, const kiln_layout *layout,
                         stored *const operands[2], kiln_scalar to, const gpu_tile *initial, gpu_tile *out) {
  LLVMBuilderRef build = g->builder;
  uint32_t count = 1u << layout->registers;
  unsigned steps = 1u << steps_of(s, count);
  LLVMValueRef *sums = KILN_NEW_ARRAY(g->arena, LLVMValueRef, count);
  if (steps == 1u << s->k) {
    memcpy(sums, initial->regs, count * sizeof *sums);
    for (unsigned i = 0; i < steps; i++) plain_step(g, s, layout, operands, to, gpu_i32(g, 0), i, sums);
    memcpy(out->regs, sums, count * sizeof *sums);
    return;
  }
  LLVMBasicBlockRef from = LLVMGetInsertBlock(build), loop = gpu_block(g, "dot"),
                    after = gpu_block(g, "summed");
  LLVMBuildBr(build, loop);
  LLVMPositionBuilderAtEnd(build, loop);
  LLVMValueRef k = LLVMBuildPhi(build, g->i32, "");
  for (uint32_t r = 0; r < count; r++) {
    out->regs[r] = LLVMBuildPhi(build, LLVMTypeOf(initial->regs[r]), "");
    LLVMAddIncoming(out->regs[r], &initial->regs[r], &from, 1);
  }
  memcpy(sums, out->regs, count * sizeof *sums);
  for (unsigned i = 0; i < steps; i++) plain_step(g, s, layout, operands, to, k, i, sums);
  LLVMValueRef next = LLVMBuildAdd(build, k, gpu_i32(g, steps), "");
  LLVMBuildCondBr(build, LLVMBuildICmp(build, LLVMIntULT, next, gpu_i32(g, 1u << s->k), ""), loop, after);
  LLVMBasicBlockRef end = LLVMGetInsertBlock(build);
  LLVMAddIncoming(k, (LLVMValueRef[2]){gpu_i32(g, 0), next}, (LLVMBasicBlockRef[2]){from, end}, 2);
  for (uint32_t r = 0; r < count; r++) LLVMAddIncoming(out->regs[r], &sums[r], &end, 1);
  LLVMPositionBuilderAtEnd(build, after);
  memcpy(out->regs, sums, count * sizeof *sums);
}

static uint64_t bytes_of(const kiln_dot_shape *s) {
  return ((uint64_t)kiln_scalars[s->left.scalar].bytes << (s->batch + s->m + s->k)) +
         ((uint64_t)kiln_scalars[s->right.scalar].bytes << (s->batch + s->k + s->n));
}

static stored *stored_of(gpu *g, kiln_scalar scalar, uint32_t base) {
  stored *s = KILN_NEW(g->arena, stored);
  s->scalar = scalar;
  s->log2_bytes = (unsigned)__builtin_ctz(kiln_scalars[scalar].bytes);
  s->base = base;
  return s;
}

/// The reduced index goes through shared memory in as many parts as it takes.
static gpu_tile by_adds(gpu *g, ir_op *op) {
  const kiln_layout layout = *op->operand_layouts[2];
  gpu_tile sums = gpu_operand(g, op, 2);
  kiln_scalar to = op->operands[2]->type.scalar;
  kiln_dot_shape s = kiln_dot_shape_of(op);
  unsigned parts = 0, rank = s.left.rank;
  while (s.k && bytes_of(&s) + g->scratch_base > g->machine->max_shared) s.k--, parts++;
  // Conversions of the operands use scratch too, so both are brought into their layouts before anything is
  // written here.
  cut_operand left = cut(g, op, 0, rank - 1u, parts), right = cut(g, op, 1, rank - 2u, parts);
  uint32_t left_bytes = (uint32_t)kiln_scalars[s.left.scalar].bytes << (s.batch + s.m + s.k);
  for (uint32_t part = 0; part < 1u << parts; part++) {
    stored *a = stored_of(g, (kiln_scalar)s.left.scalar, g->scratch_base),
           *b = stored_of(g, (kiln_scalar)s.right.scalar, g->scratch_base + left_bytes);
    gpu_tile out = gpu_tile_new(g, &layout);
    gpu_scratch_begin(g, bytes_of(&s));
    if (g->status != KILN_OK) return sums;
    store_operand(g, &left, part, a, &s, 0, s.k, s.m);
    store_operand(g, &right, part, b, &s, s.n, 0, s.n);
    gpu_barrier(g);
    place_thread(g, &s, &layout, a, row_place);
    place_thread(g, &s, &layout, b, column_place);
    plain_rounds(g, &s, &layout, (stored *[2]){a, b}, to, &sums, &out);
    g->shared_dirty = true;
    sums = out;
  }
  return sums;
}

void gpu_lower_dot(gpu *g, ir_op *op) {
  const kiln_dot_layouts *l = g->layouts->notes[op->results[0].id]->product;
  if (l->form) by_matrix(g, op, l);
  else gpu_set_home(g, &op->results[0], by_adds(g, op));
}
