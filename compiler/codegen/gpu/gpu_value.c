// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values during the GPU lowering: types, numbers of threads, scalars, and tiles in their layouts.
#include <stdio.h>

#include "compiler/codegen/gpu/gpu_lower.h"

void gpu_fail(gpu *g, kiln_status status, const char *format, ...) {
  if (g->status != KILN_OK) return;
  char text[KILN_ERROR_TEXT];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (!g->current) g->status = kiln_fail(g->error, status, "%s", text);
  else
    g->status = kiln_fail_at(g->error, status, ir_operation(g->current), "operation %u: %s",
                             ir_operation(g->current), text);
}

void gpu_fail_at(gpu *g, const ir_op *op, kiln_status status, const char *format, ...) {
  if (g->status != KILN_OK) return;
  char text[KILN_ERROR_TEXT];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  g->status = kiln_fail_at(g->error, status, ir_operation(op), "%s", text);
}

LLVMValueRef gpu_intrinsic(gpu *g, const char *name, LLVMTypeRef *types, unsigned type_count,
                           const LLVMValueRef *arguments, unsigned count) {
  LLVMValueRef made = kiln_llvm_intrinsic(g->builder, g->module, name, types, type_count, arguments, count);
  if (made) return made;
  gpu_fail(g, KILN_STATUS_UNSUPPORTED, "this LLVM has no %s", name);
  return LLVMGetUndef(type_count ? types[0] : g->i32);
}

// ------------------------------------------------------------------------------------------- types

LLVMTypeRef gpu_type(gpu *g, ir_type element) {
  return element.pointer ? g->global_pointer : g->elements.types[element.scalar];
}
LLVMValueRef gpu_i32(gpu *g, uint32_t value) { return LLVMConstInt(g->i32, value, false); }
LLVMValueRef gpu_i1(gpu *g, bool value) { return LLVMConstInt(g->i1, value, false); }

LLVMBasicBlockRef gpu_block(gpu *g, const char *name) {
  return LLVMAppendBasicBlockInContext(g->context, g->function, name);
}

// ---------------------------------------------------------------------------------- thread numbers

/// Bits [from, from + count) of the thread number moved to bit `to`.
static LLVMValueRef thread_run(gpu *g, unsigned from, unsigned count, unsigned to) {
  LLVMValueRef v = LLVMBuildAnd(g->builder, g->thread, gpu_i32(g, ((1u << count) - 1) << from), "");
  if (to > from) return LLVMBuildShl(g->builder, v, gpu_i32(g, to - from), "");
  return to < from ? LLVMBuildLShr(g->builder, v, gpu_i32(g, from - to), "") : v;
}

/// A basis of several bits: all of them or none.
static LLVMValueRef thread_spread(gpu *g, unsigned bit, uint32_t basis) {
  LLVMValueRef v = LLVMBuildLShr(g->builder, g->thread, gpu_i32(g, bit), "");
  v = LLVMBuildAnd(g->builder, v, gpu_i32(g, 1), "");
  return LLVMBuildAnd(g->builder, LLVMBuildNeg(g->builder, v, ""), gpu_i32(g, basis), "");
}

LLVMValueRef gpu_thread_bits(gpu *g, const uint32_t *basis, unsigned count) {
  LLVMValueRef sum = NULL;
  for (unsigned i = 0; i < count;) {
    unsigned run = 1;
    if (!basis[i]) {
      i++;
      continue;
    }
    bool is_single = (basis[i] & (basis[i] - 1)) == 0;
    while (is_single && i + run < count && basis[i + run] == basis[i] << run) run++;
    LLVMValueRef part =
        is_single ? thread_run(g, i, run, (unsigned)__builtin_ctz(basis[i])) : thread_spread(g, i, basis[i]);
    sum = sum ? LLVMBuildXor(g->builder, sum, part, "") : part;
    i += run;
  }
  return sum ? sum : gpu_i32(g, 0);
}

LLVMValueRef gpu_is_owner(gpu *g, const kiln_layout *layout) {
  uint32_t replicas = layout_replicas(layout);
  if (!replicas) return NULL;
  LLVMValueRef bits = LLVMBuildAnd(g->builder, g->thread, gpu_i32(g, replicas), "");
  return LLVMBuildICmp(g->builder, LLVMIntEQ, bits, gpu_i32(g, 0), "");
}

// ------------------------------------------------------------------------------------------ values

gpu_value *gpu_value_of(gpu *g, ir_value *value) {
  if (!value->slot) value->slot = KILN_NEW(g->arena, gpu_value);
  return value->slot;
}

gpu_tile gpu_tile_new(gpu *g, const kiln_layout *layout) {
  gpu_tile tile = {.layout = *layout};
  tile.regs = KILN_NEW_ARRAY(g->arena, LLVMValueRef, (size_t)1 << layout->registers);
  return tile;
}

/// Stands for what cannot be made after a failure.
static gpu_tile poison_tile(gpu *g, ir_type type, const kiln_layout *layout) {
  gpu_tile tile = gpu_tile_new(g, layout);
  for (uint32_t i = 0; i < 1u << layout->registers; i++)
    tile.regs[i] = LLVMGetPoison(gpu_type(g, ir_element(type)));
  return tile;
}

LLVMValueRef gpu_scalar(gpu *g, ir_value *value) {
  gpu_value *v = gpu_value_of(g, value);
  if (v->scalar) return v->scalar;
  if (g->status == KILN_OK)
    gpu_fail(g, KILN_STATUS_INTERNAL, "value %u is used before it is computed", value->id);
  return LLVMGetPoison(gpu_type(g, ir_element(value->type)));
}

void gpu_set_scalar(gpu *g, ir_value *value, LLVMValueRef scalar) {
  gpu_value *v = gpu_value_of(g, value);
  v->scalar = scalar;
  v->is_ready = true;
}

void gpu_set_home(gpu *g, ir_value *value, gpu_tile tile) {
  gpu_value *v = gpu_value_of(g, value);
  KILN_ASSERT(value->layout && layout_equal(value->layout, &tile.layout)); // as the pass chose
  v->is_ready = true;
  v->home_tile = tile;
}

gpu_tile gpu_result(gpu *g, ir_value *value) {
  gpu_value *v = gpu_value_of(g, value);
  v->is_ready = true;
  return v->home_tile = gpu_tile_new(g, value->layout);
}

bool gpu_words_fit(gpu *g, const ir_op *op, const char *what, ir_type type, unsigned registers,
                   uint64_t most) {
  uint64_t bits = type.pointer ? 32 : ir_type_bits(type), words = (bits << registers) / 32,
           warps = 1u << g->warps, enough = warps;
  most >>= g->machine->lanes - 5;
  if (words <= most) return true;
  char text[IR_TYPE_TEXT];
  while (words * warps > most * enough) enough *= 2;
  gpu_fail_at(
      g, op, KILN_STATUS_LIMIT,
      "operation %u: a %s %s needs %llu registers a thread at %llu warps, expected at most %llu%s%.0llu%s",
      ir_operation(op), what, ir_type_text(type, text), (unsigned long long)words, (unsigned long long)warps,
      (unsigned long long)most, enough <= g->machine->max_warps ? "; " : "",
      enough <= g->machine->max_warps ? (unsigned long long)enough : 0,
      enough <= g->machine->max_warps ? " warps have room" : "");
  return false;
}

bool gpu_has_room(gpu *g, const ir_value *value) {
  const ir_op *op = value->def ? value->def : g->current ? g->current : value->block->parent;
  return gpu_words_fit(g, op, "value", value->type, value->layout->registers, KILN_MOST_TILE_REGISTERS);
}

gpu_tile gpu_tile_of(gpu *g, ir_value *value) {
  const gpu_value *v = gpu_value_of(g, value);
  if (v->is_ready) return v->home_tile;
  if (g->status == KILN_OK)
    gpu_fail(g, KILN_STATUS_INTERNAL, "tile value %u is used before it is computed", value->id);
  return poison_tile(g, value->type, value->layout);
}

gpu_tile gpu_operand(gpu *g, const ir_op *op, uint32_t i) {
  // kiln_conversions_verify has seen to it, after the last pass
  KILN_ASSERT_DEEP(layout_equal(op->operands[i]->layout, op->operand_layouts[i]));
  return gpu_tile_of(g, op->operands[i]);
}
