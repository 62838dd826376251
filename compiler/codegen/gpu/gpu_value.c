// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values during the GPU lowering: those with a layout where they are, others as their user wants them.
#include <stdio.h>

#include "compiler/codegen/gpu/gpu_lower.h"

enum { MAX_DEPTH = 2000 }; // of lazy values that rest on lazy values

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

static bool is_open(const gpu *g, const gpu_region *region) {
  for (const gpu_region *r = g->region; r; r = r->parent)
    if (r == region) return true;
  return false;
}

// ----------------------------------------------------------------------------------- recomputation

static uint32_t count_of(const gpu_tile *tile) { return 1u << tile->layout.registers; }

static void make_iota(gpu *g, gpu_tile *tile) {
  const kiln_layout *l = &tile->layout;
  LLVMValueRef base = gpu_thread_bits(g, l->basis + l->registers, layout_thread_bits(l));
  uint32_t thread_mask = 0;
  for (unsigned i = 0; i < layout_thread_bits(l); i++) thread_mask |= l->basis[l->registers + i];
  for (uint32_t r = 0; r < count_of(tile); r++) {
    uint32_t own = layout_element(l, r);
    if (own & thread_mask) {
      tile->regs[r] = LLVMBuildXor(g->builder, base, gpu_i32(g, own), "");
      continue;
    }
    tile->regs[r] = own ? LLVMBuildNUWAdd(g->builder, base, gpu_i32(g, own), "") : base;
    if (own && LLVMIsAInstruction(tile->regs[r])) LLVMSetNSW(tile->regs[r], true);
  }
}

static void make_same(gpu_tile *tile, LLVMValueRef scalar) {
  for (uint32_t r = 0; r < count_of(tile); r++) tile->regs[r] = scalar;
}

/// Expand, reshape, trans, broadcast: registers of the operand, renamed.
static void make_shape(gpu *g, const ir_op *op, gpu_tile *tile) {
  if (!op->operands[0]->type.rank) {
    make_same(tile, gpu_scalar(g, op->operands[0]));
    return;
  }
  kiln_layout there = kiln_layout_behind(op, &tile->layout);
  gpu_tile operand = gpu_tile_in(g, op->operands[0], &there);
  for (uint32_t r = 0; r < count_of(tile); r++) {
    int from = op->code == IR_BROADCAST
                   ? layout_register_of(&there, layout_backward_element(op, layout_element(&tile->layout, r)))
                   : (int)r;
    tile->regs[r] = operand.regs[from < 0 ? 0 : from];
  }
}

/// The last element bit says which operand: known from the register, or chosen by thread bits.
static void make_join(gpu *g, const ir_op *op, gpu_tile *tile) {
  const kiln_layout *l = &tile->layout;
  kiln_layout there = kiln_layout_behind(op, l);
  gpu_tile parts[2] = {gpu_tile_in(g, op->operands[0], &there), gpu_tile_in(g, op->operands[1], &there)};
  uint32_t bits[LAYOUT_MAX_PLACES] = {0};
  bool varies = false;
  for (unsigned i = 0; i < layout_thread_bits(l); i++)
    varies |= (bits[i] = l->basis[l->registers + i] & 1) != 0;
  LLVMValueRef odd =
      varies ? LLVMBuildTrunc(g->builder, gpu_thread_bits(g, bits, layout_thread_bits(l)), g->i1, "") : NULL;
  for (uint32_t r = 0; r < count_of(tile); r++) {
    uint32_t element = layout_element(l, r);
    int from = layout_register_of(&there, element >> 1);
    LLVMValueRef same = parts[element & 1].regs[from < 0 ? 0 : from],
                 other = parts[~element & 1].regs[from < 0 ? 0 : from];
    tile->regs[r] = odd ? LLVMBuildSelect(g->builder, odd, other, same, "") : same;
  }
}

/// The operand in this layout with one more register bit for its last axis.
static void make_split(gpu *g, const ir_op *op, unsigned index, gpu_tile *tile) {
  kiln_layout there = kiln_layout_behind(op, &tile->layout);
  gpu_tile operand = gpu_tile_in(g, op->operands[0], &there);
  for (uint32_t r = 0; r < count_of(tile); r++) tile->regs[r] = operand.regs[2 * r + index];
}

/// f32 to 16 bits two at a time, where the target can: one at a time f16 takes the slow unit of NVIDIA's
/// GPUs.
static bool make_pairs(gpu *g, const ir_op *op, gpu_tile *tile) {
  static const kl_function functions[KILN_SCALAR_COUNT] = {
      [KILN_BF16] = KL_kl_f32_to_bf16x2, [KILN_F16] = KL_kl_f32_to_f16x2};
  ir_type from = op->operands[0]->type;
  kiln_scalar to = op->results[0].type.scalar;
  bool fits = op->code == IR_CAST && !from.pointer && from.scalar == KILN_F32 && functions[to] &&
              op->attrs.round == IR_ROUND_NEAREST;
  if (!fits || count_of(tile) < 2 || !kl_has(&g->prelude, functions[to])) return false;
  gpu_tile operand = gpu_tile_in(g, op->operands[0], &tile->layout);
  for (uint32_t r = 0; r < count_of(tile); r += 2) {
    LLVMValueRef both = kl_call(&g->prelude, g->builder, functions[to], &operand.regs[r], 2);
    gpu_unpack(g, both, to == KILN_F16 ? g->half : g->i16, tile->regs + r, 2);
  }
  return true;
}

static void make_elements(gpu *g, const ir_op *op, gpu_tile *tile) {
  gpu_tile operands[3];
  LLVMValueRef values[3];
  for (uint32_t i = 0; i < op->operand_count; i++) {
    bool is_tile = op->operands[i]->type.rank != 0;
    if (is_tile) operands[i] = gpu_tile_in(g, op->operands[i], &tile->layout);
    else values[i] = gpu_scalar(g, op->operands[i]);
  }
  for (uint32_t r = 0; r < count_of(tile); r++) {
    for (uint32_t i = 0; i < op->operand_count; i++)
      if (op->operands[i]->type.rank) values[i] = operands[i].regs[r];
    tile->regs[r] = gpu_element(g, op, values);
  }
}

static gpu_tile read_slot(gpu *g, const gpu_place *place, const ir_value *value, const kiln_layout *layout) {
  gpu_tile tile = gpu_tile_new(g, layout);
  gpu_staged *staged = gpu_stage_slot(g, place, ir_element(value->type), layout);
  const LLVMValueRef *regs = gpu_staged_read(g, staged, 0, count_of(&tile));
  for (uint32_t r = 0; r < count_of(&tile); r++) tile.regs[r] = regs[r];
  return tile;
}

static gpu_tile make(gpu *g, ir_value *value, const kiln_layout *layout) {
  const gpu_value *v = gpu_value_of(g, value);
  const ir_op *op = value->def;
  if (v->place.slots) return read_slot(g, &v->place, value, layout);
  gpu_tile tile = gpu_tile_new(g, layout);
  if (!op || !(ir_has(op->code, IR_EACH) || ir_has(op->code, IR_RENAMES) || op->code == IR_IOTA)) {
    gpu_fail(g, KILN_STATUS_INTERNAL, "tile value %u is used before it is computed", value->id);
    return poison_tile(g, value->type, layout);
  }
  LLVMMetadataRef place = kiln_llvm_lines_at(g->lines, g->builder, op);
  switch (op->code) {
  case IR_IOTA: make_iota(g, &tile); break;
  case IR_SPLAT: make_same(&tile, gpu_scalar(g, op->operands[0])); break;
  case IR_EXPAND:
  case IR_RESHAPE:
  case IR_TRANS:
  case IR_BROADCAST: make_shape(g, op, &tile); break;
  case IR_JOIN: make_join(g, op, &tile); break;
  case IR_SPLIT: make_split(g, op, value->index, &tile); break;
  default:
    if (!make_pairs(g, op, &tile)) make_elements(g, op, &tile);
    break;
  }
  kiln_llvm_lines_back(g->lines, g->builder, place);
  return tile;
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

static bool fits(gpu *g, ir_value *value, const kiln_layout *layout) {
  const ir_op *op = value->def ? value->def : g->current ? g->current : value->block->parent;
  return gpu_words_fit(g, op, "value", value->type, layout->registers, GPU_MAX_REGISTERS);
}

/// The outermost loop that is open inside the block which defines the value; NULL: none.
static gpu_region *loop_within(gpu *g, const ir_value *value) {
  const ir_block *home = value->def ? value->def->block : value->block;
  gpu_region *outermost = NULL;
  for (gpu_region *r = g->region; r && r->block != home; r = r->parent)
    if (r->preheader) outermost = r;
  return outermost;
}

static gpu_tile make_before(gpu *g, gpu_region *loop, ir_value *value, const kiln_layout *layout) {
  LLVMBasicBlockRef back = LLVMGetInsertBlock(g->builder);
  gpu_region *region = g->region;
  bool dirty = g->shared_dirty;
  LLVMInstructionEraseFromParent(LLVMGetBasicBlockTerminator(loop->preheader));
  LLVMPositionBuilderAtEnd(g->builder, loop->preheader);
  g->region = loop->parent;
  g->shared_dirty = true; // the loop's body starts dirty too, so what follows is safe
  gpu_tile tile = make(g, value, layout);
  LLVMBuildBr(g->builder, loop->enter);
  loop->preheader = LLVMGetInsertBlock(g->builder);
  g->region = region;
  g->shared_dirty = dirty;
  LLVMPositionBuilderAtEnd(g->builder, back);
  return tile;
}

gpu_tile gpu_compute(gpu *g, ir_value *value, const kiln_layout *layout) {
  return fits(g, value, layout) ? make(g, value, layout) : poison_tile(g, value->type, layout);
}

gpu_tile gpu_tile_in(gpu *g, ir_value *value, const kiln_layout *layout) {
  gpu_value *v = gpu_value_of(g, value);
  if (value->layout && v->is_ready) {
    KILN_ASSERT(layout_equal(value->layout, layout)); // the pass `conversions` has seen to it
    return v->home_tile;
  }
  for (gpu_version *version = v->versions; version; version = version->next)
    if (layout_equal(&version->tile.layout, layout) && is_open(g, version->region) &&
        version->thread == g->thread)
      return version->tile;
  if (g->depth >= MAX_DEPTH)
    gpu_fail(g, KILN_STATUS_LIMIT,
             "expected at most %d elementwise operations in a row on constants, found more", MAX_DEPTH);
  if (g->status != KILN_OK || !fits(g, value, layout)) return poison_tile(g, value->type, layout);
  g->depth++;
  gpu_region *loop = loop_within(g, value);
  gpu_version *version = KILN_NEW(g->arena, gpu_version);
  version->region = loop ? loop->parent : g->region;
  version->thread = g->thread;
  version->tile = loop ? make_before(g, loop, value, layout) : make(g, value, layout);
  g->depth--;
  version->next = v->versions;
  v->versions = version;
  return version->tile;
}

gpu_tile gpu_operand(gpu *g, const ir_op *op, uint32_t i) {
  return gpu_tile_in(g, op->operands[i], op->takes[i]);
}

void gpu_lower_convert(gpu *g, ir_op *op) {
  ir_value *from = op->operands[0], *to = &op->results[0];
  if (fits(g, to, to->layout))
    gpu_set_home(g, to, gpu_convert(g, &gpu_value_of(g, from)->home_tile, ir_element(to->type), to->layout));
}

bool gpu_home_of(gpu *g, ir_value *value, const kiln_layout *layout, gpu_tile *out_tile, gpu_place *out_place,
                 kiln_layout *out_layout) {
  *out_layout = *layout;
  for (;;) {
    const gpu_value *v = gpu_value_of(g, value);
    const ir_op *op = value->def;
    *out_place = v->place;
    *out_tile = v->home_tile;
    if (v->place.slots || (value->layout && v->is_ready)) return true;
    if (!op || value->layout || !(op->code == IR_TRANS || op->code == IR_RESHAPE || op->code == IR_EXPAND) ||
        !op->operands[0]->type.rank)
      return false;
    const kiln_layout there = kiln_layout_behind(op, out_layout);
    *out_layout = there;
    value = op->operands[0];
  }
}
