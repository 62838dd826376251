// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Slots of shared memory that threads fill while they go on (fetch, slot_load and what waits for them; made
// by compiler/passes/gpu/fetch.c). How a tile lies in its slot is known (layouts/shared_layouts.c).
#include "compiler/codegen/gpu/gpu_lower.h"
#include "compiler/passes/gpu/layouts/shared_layouts.h"

static void call(gpu *g, kl_function function) { kl_call(&g->prelude, function, NULL, 0); }

static const kiln_slot_layouts *slots_of(gpu *g, const ir_value *memory) {
  return kiln_slot_layouts_of(g->layouts, memory);
}

/// From the first fetch or store on, the bytes of the slots are taken.
static void claim(gpu *g, const ir_value *memory, bool is_fetched) {
  const kiln_slot_layouts *s = slots_of(g, memory);
  for (const gpu_claim *c = g->claims; c; c = c->next)
    if (c->slots == s) return;
  // Slots of several tiles take turns; no other bytes are taken twice.
  for (const gpu_claim *c = g->claims; c; c = c->next)
    KILN_ASSERT(s->start >= c->slots->end || c->slots->start >= s->end ||
                (s->is_by_bytes && c->slots->is_by_bytes));
  gpu_claim *made = KILN_NEW(g->arena, gpu_claim);
  *made = (gpu_claim){g->claims, s, is_fetched};
  g->claims = made;
  gpu_scratch_begin(g, s->end - (s->end < g->scratch_base ? s->end : g->scratch_base));
  if (s->end > g->scratch_base) g->scratch_base = s->end;
}

static bool is_fetched(const gpu *g, const kiln_slot_layouts *s) {
  const gpu_claim *c = g->claims;
  while (c && c->slots != s) c = c->next;
  return c && c->is_fetched;
}

static void release(gpu *g, const kiln_slot_layouts *s) {
  g->scratch_base = g->scratch_floor;
  for (gpu_claim **c = &g->claims; *c;) {
    if ((*c)->slots->end > g->scratch_base && (*c)->slots != s) g->scratch_base = (*c)->slots->end;
    if ((*c)->slots == s) *c = (*c)->next;
    else c = &(*c)->next;
  }
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
  claim(g, op->operands[2], true);
  unsigned vector = kiln_fetch_pieces(g->layouts, op, at.slots, bits),
           bytes = 1u << (at.slots->log2_bytes + vector);
  gpu_tile pointer = gpu_operand(g, op, 0), mask = gpu_operand(g, op, 1);
  gpu_tile left = {.regs = NULL};
  if (op->operand_count > 4) left = gpu_operand(g, op, 4);
  for (unsigned i = 0; i < vector; i++) inside |= 1u << bits[i];
  if (bytes < LEAST)
    gpu_fail_at(g, op, KILN_STATUS_INTERNAL,
                "operation %u: a fetch has pieces of %u bytes, expected at least %u", ir_operation(op), bytes,
                LEAST);
  gpu_note_copy(g, op, KILN_ENGINE_COPY, bytes);
  LLVMValueRef owner = gpu_is_owner(g, layout);
  LLVMBasicBlockRef after = NULL;
  if (owner) { // of a tile of few pieces: two copies of one would race
    LLVMBasicBlockRef body = gpu_block(g, "own");
    after = gpu_block(g, "fetched");
    LLVMBuildCondBr(g->builder, owner, body, after);
    LLVMPositionBuilderAtEnd(g->builder, body);
  }
  for (uint32_t r = 0; g->status == KILN_OK && r < 1u << layout->registers; r++) {
    if (r & inside) continue;
    LLVMValueRef size = size_of(g, mask.regs[r], left.regs ? left.regs[r] : NULL, bytes, bytes >> vector);
    LLVMValueRef arguments[3] = {gpu_slot_pointer(g, &at, r), pointer.regs[r], size};
    kl_call(&g->prelude, copies[__builtin_ctz(bytes / LEAST)], arguments, 3);
  }
  if (!owner) return;
  LLVMBuildBr(g->builder, after);
  LLVMPositionBuilderAtEnd(g->builder, after);
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
  claim(g, op->operands[0], false);
  if (g->status == KILN_OK) gpu_write_slot(g, &at, &tile);
}

void gpu_lower_fetch_end(gpu *g, ir_op *op) {
  bool waits = false;
  for (uint32_t i = 0; i < op->operand_count; i++) waits |= is_fetched(g, slots_of(g, op->operands[i]));
  if (waits) call(g, KL_kl_copy_wait_0);
  for (uint32_t i = 0; i < op->operand_count; i++) release(g, slots_of(g, op->operands[i]));
  g->shared_dirty = true;
}
