// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Slots of shared memory that threads fill while they go on (fetch, slot_load and what waits for them; made
// by compiler/passes/gpu/fetch.c).
//
// How a tile lies in its slot follows from who writes it, the layout of the fetch, and who reads it, the
// first product that takes it from a slot_load.
#include "compiler/codegen/gpu/gpu_lower.h"

static void call(gpu *g, kl_function function) { kl_call(&g->prelude, g->builder, function, NULL, 0); }

static gpu_slots *slots_of(gpu *g, ir_value *memory) {
  gpu_value *v = gpu_value_of(g, memory);
  if (v->place.slots) return v->place.slots;
  const kiln_slot_layouts *layouts = kiln_slot_layouts_of(g->layouts, memory);
  v->place.slots = KILN_NEW(g->arena, gpu_slots);
  v->place.slots->writer = layouts->writer;
  v->place.slots->reader = layouts->reader;
  v->place.slots->has_reader = layouts->has_reader;
  return v->place.slots;
}

/// Register bits that both the global access and the slot keep together, in order.
static unsigned piece_of(gpu *g, const ir_op *op, const gpu_slots *s, uint8_t bits[8]) {
  uint8_t inside[8];
  kiln_pieces p = kiln_pieces_of(g->layouts, op, &s->writer, false);
  unsigned there = layout_memory_vector(&s->memory, &s->writer, 4 - s->log2_bytes, inside), same = 0;
  for (; same < p.vector && same < there && p.bits[same] == inside[same]; same++) bits[same] = p.bits[same];
  return same;
}

/// A fetch moves words. Where what suits the reader would cut them (bytes whose neighbours in global memory
/// are not neighbours in the dot), what the fetch has in a row stays in a row, and the reader takes single
/// elements.
static void keep_words(gpu *g, const ir_op *op, gpu_slots *s) {
  const unsigned log2_bytes = s->log2_bytes;
  uint8_t bits[8];
  uint32_t row[8];
  if (log2_bytes + piece_of(g, op, s, bits) >= 2) return;
  kiln_pieces p = kiln_pieces_of(g->layouts, op, &s->writer, false);
  unsigned count = p.vector < 4 - log2_bytes ? p.vector : 4 - log2_bytes;
  for (unsigned i = 0; i < count; i++) row[i] = s->writer.basis[p.bits[i]];
  if (count) s->memory = layout_swizzle(&s->writer, &s->reader, log2_bytes, row, count);
}

/// Claims the bytes of the slots of `alloc`, how a tile lies in which is known.
static void claim(gpu *g, const ir_op *alloc, gpu_slots *s) {
  const layout_memory *m = &s->memory;
  s->bytes = layout_padded(m, 1u << m->bits) << s->log2_bytes;
  s->start = alloc->attrs.alloc.at;
  uint32_t count = alloc->results[0].type.slots, stride = alloc->attrs.alloc.stride;
  KILN_ASSERT(stride || s->start >= g->scratch_base); // slots of several tiles take turns
  s->is_by_bytes = stride != 0;
  uint32_t bytes = stride ? stride * (count - 1) + s->bytes : s->bytes * count, end = s->start + bytes;
  gpu_scratch_begin(g, end - (end < g->scratch_base ? end : g->scratch_base));
  if (end > g->scratch_base) g->scratch_base = end;
  s->is_open = true;
}

static unsigned log2_bytes_of(const ir_op *alloc) {
  return (unsigned)__builtin_ctz(kiln_scalars[alloc->results[0].type.scalar].bytes);
}

/// From the first fetch on.
static void open_slots(gpu *g, const ir_op *op, gpu_slots *s) {
  const ir_op *alloc = op->operands[2]->def;
  s->log2_bytes = log2_bytes_of(alloc);
  s->memory = gpu_staged_memory(g, &s->writer, &s->reader, s->log2_bytes);
  keep_words(g, op, s);
  claim(g, alloc, s);
}

/// From the first store on. Rows with free bytes between them where they were given.
static void open_stored(gpu *g, const ir_op *alloc, gpu_slots *s) {
  s->log2_bytes = log2_bytes_of(alloc);
  layout_memory rows = gpu_padded_memory(g, alloc->results[0].type, alloc->attrs.alloc.pad_axis,
                                         (unsigned)alloc->attrs.alloc.pad >> s->log2_bytes, s);
  bool is_padded = rows.pad && layout_adds_up(&rows, &s->writer) && layout_adds_up(&rows, &s->reader);
  s->memory = is_padded ? rows : gpu_staged_memory(g, &s->writer, &s->reader, s->log2_bytes);
  claim(g, alloc, s);
}

// ----------------------------------------------------------------------------------------- lowering

/// Bytes of a piece of `bytes` that are there, the rest is filled with zeros. `left`: elements of `each`
/// bytes; NULL: all.
static LLVMValueRef size_of(gpu *g, LLVMValueRef mask, LLVMValueRef left, unsigned bytes, unsigned each) {
  LLVMValueRef size = gpu_i32(g, bytes), zero = gpu_i32(g, 0);
  if (left) {
    LLVMValueRef most[] = {left, gpu_i32(g, bytes / each)};
    LLVMValueRef count[] = {gpu_intrinsic(g, "llvm.smin", &g->i32, 1, most, 2), zero};
    size =
        LLVMBuildMul(g->builder, gpu_intrinsic(g, "llvm.smax", &g->i32, 1, count, 2), gpu_i32(g, each), "");
  }
  return LLVMBuildSelect(g->builder, mask, size, zero, "");
}

void gpu_lower_fetch(gpu *g, ir_op *op) {
  static const kl_function copies[] = {KL_kl_copy_4, KL_kl_copy_8, KL_kl_copy_16};
  enum { LEAST = 4 };
  gpu_place at = {slots_of(g, op->operands[2]), gpu_scalar(g, op->operands[3])};
  const kiln_layout *layout = &at.slots->writer;
  uint8_t bits[8];
  uint32_t inside = 0;
  if (!at.slots->is_open) open_slots(g, op, at.slots);
  unsigned vector = piece_of(g, op, at.slots, bits), bytes = 1u << (at.slots->log2_bytes + vector);
  gpu_tile pointer = gpu_operand(g, op, 0), mask = gpu_operand(g, op, 1);
  gpu_tile left = {.regs = NULL};
  if (op->operand_count > 4) left = gpu_operand(g, op, 4);
  for (unsigned i = 0; i < vector; i++) inside |= 1u << bits[i];
  if (bytes < LEAST)
    gpu_fail_at(g, op, KILN_STATUS_INTERNAL,
                "operation %u: a fetch has pieces of %u bytes, expected at least %u", ir_operation(op), bytes,
                LEAST);
  gpu_note_copy(g, op, KILN_ENGINE_COPY, bytes);
  for (uint32_t r = 0; g->status == KILN_OK && r < 1u << layout->registers; r++) {
    if (r & inside) continue;
    LLVMValueRef size = size_of(g, mask.regs[r], left.regs ? left.regs[r] : NULL, bytes, bytes >> vector);
    LLVMValueRef arguments[3] = {gpu_slot_pointer(g, &at, r), pointer.regs[r], size};
    kl_call(&g->prelude, g->builder, copies[__builtin_ctz(bytes / LEAST)], arguments, 3);
  }
}

void gpu_lower_fetch_commit(gpu *g, ir_op *op) {
  (void)op;
  call(g, KL_kl_copy_commit);
}

void gpu_lower_fetch_wait(gpu *g, ir_op *op) {
  static const kl_function waits[] = {KL_kl_copy_wait_0, KL_kl_copy_wait_1, KL_kl_copy_wait_2};
  uint64_t most = sizeof waits / sizeof *waits - 1;
  call(g, waits[op->attrs.wait.out < most ? op->attrs.wait.out : most]);
}

void gpu_lower_slot_load(gpu *g, ir_op *op) {
  gpu_value_of(g, &op->results[0])->place =
      (gpu_place){slots_of(g, op->operands[0]), gpu_scalar(g, op->operands[1])};
}

void gpu_lower_slot_store(gpu *g, ir_op *op) {
  gpu_place at = {slots_of(g, op->operands[0]), gpu_scalar(g, op->operands[1])};
  gpu_tile tile = gpu_operand(g, op, 2);
  if (!at.slots->is_open) open_stored(g, op->operands[0]->def, at.slots);
  if (g->status == KILN_OK) gpu_write_slot(g, &at, &tile);
}

void gpu_lower_fetch_end(gpu *g, ir_op *op) {
  if (kl_has(&g->prelude, KL_kl_copy_wait_0)) call(g, KL_kl_copy_wait_0);
  for (uint32_t i = 0; i < op->operand_count; i++) {
    gpu_slots *s = slots_of(g, op->operands[i]);
    if (s->is_open && s->start < g->scratch_base) g->scratch_base = s->start;
    s->is_open = false;
  }
  g->shared_dirty = true;
}
