// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a thread has of scalars and tiles while code is made: values in registers, each tile in its layout; the same tiles
// in shared memory, where threads write and read them in pieces or as fragments of matrix instructions
// (layouts/matrix_load.c); and slots that threads fill while they go on (made by compiler/passes/gpu/fetch.c). How a tile
// lies in its slot is known (layouts/shared_layouts.c).
//
// Scratch is at offset 0 and lives within one operation. Writing it needs a barrier when threads may still
// read what was there (g->shared_dirty); reading needs one after the writes; afterwards it is dirty.
#include <stdio.h>

#include "compiler/codegen/gpu/gpu_tile.h"

// ----------------------------------------------------------------------------------- failures and intrinsics

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

LLVMTypeRef gpu_type(gpu *g, ir_type type) {
  return type.pointer ? g->global_pointer : g->elements.types[type.scalar];
}

LLVMBasicBlockRef gpu_block(gpu *g, const char *name) {
  LLVMValueRef function = LLVMGetBasicBlockParent(LLVMGetInsertBlock(g->builder));
  return LLVMAppendBasicBlockInContext(g->context, function, name);
}

// ---------------------------------------------------------------------------------- thread numbers

LLVMValueRef gpu_thread_bits(gpu *g, const uint32_t *basis, unsigned count) {
  LLVMBuilderRef b = g->builder;
  LLVMValueRef sum = NULL;
  for (unsigned i = 0; i < count;) {
    unsigned run = 1;
    if (!basis[i]) {
      i++;
      continue;
    }
    bool is_single = (basis[i] & (basis[i] - 1)) == 0;
    while (is_single && i + run < count && basis[i + run] == basis[i] << run) run++;
    LLVMValueRef part;
    if (is_single) { // a run of the thread's bits, moved to where the basis has them
      const unsigned to = (unsigned)__builtin_ctz(basis[i]);
      part = LLVMBuildAnd(b, g->thread, gpu_i32(g, ((1u << run) - 1) << i), "");
      if (to > i) part = LLVMBuildShl(b, part, gpu_i32(g, to - i), "");
      else if (to < i) part = LLVMBuildLShr(b, part, gpu_i32(g, i - to), "");
    } else { // all bits of the basis or none
      part = LLVMBuildAnd(b, LLVMBuildLShr(b, g->thread, gpu_i32(g, i), ""), gpu_i32(g, 1), "");
      part = LLVMBuildAnd(b, LLVMBuildNeg(b, part, ""), gpu_i32(g, basis[i]), "");
    }
    sum = sum ? LLVMBuildXor(b, sum, part, "") : part;
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

LLVMValueRef gpu_i32(gpu *g, int64_t value) {
  KILN_ASSERT(value >= INT32_MIN && value <= UINT32_MAX);
  return LLVMConstInt(g->i32, (uint32_t)value, false);
}

LLVMValueRef gpu_i1(gpu *g, bool value) { return LLVMConstInt(g->i1, value, false); }

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
  gpu_tile tile = gpu_tile_new(g, value->layout); // after a failure
  for (uint32_t i = 0; i < 1u << tile.layout.registers; i++)
    tile.regs[i] = LLVMGetPoison(gpu_type(g, ir_element(value->type)));
  return tile;
}

gpu_tile gpu_operand(gpu *g, const ir_op *op, uint32_t i) {
  // kiln_conversions_verify has seen to it, after the last pass
  KILN_ASSERT_DEEP(layout_equal(op->operands[i]->layout, op->operand_layouts[i]));
  return gpu_tile_of(g, op->operands[i]);
}

// ---------------------------------------------------------------------------------- barriers, scratch, tiles

void gpu_barrier(gpu *g) {
  static const kl_function functions[2] = {KL_kl_barrier, KL_kl_barrier_shared};
  LLVMValueRef arguments[2];
  if (g->barrier_threads)
    arguments[0] = gpu_i32(g, g->barrier), arguments[1] = gpu_i32(g, g->barrier_threads);
  if (g->barrier_threads) kl_call(&g->prelude, KL_kl_named_barrier, arguments, 2);
  else kl_call(&g->prelude, functions[kl_has(&g->prelude, KL_kl_barrier_shared)], NULL, 0);
  g->shared_dirty = false;
}

void gpu_scratch_begin(gpu *g, uint64_t bytes) {
  if (g->spread) gpu_fail(g, KILN_STATUS_INTERNAL, "an exchange between blocks that share a program");
  KILN_ASSERT(g->scratch_base % KILN_MOST_VECTOR_BYTES == 0);
  bytes += g->scratch_base;
  if (bytes > g->machine->max_shared)
    gpu_fail(g, KILN_STATUS_LIMIT,
             "an exchange between threads needs %llu bytes of shared memory, expected at most %u on %s",
             (unsigned long long)bytes, g->machine->max_shared, g->machine->name);
  else if (bytes > g->shared_bytes) g->shared_bytes = (uint32_t)bytes;
  if (g->shared_dirty) gpu_barrier(g);
}

/// layout_padded of a place that differs between threads, in bytes.
static LLVMValueRef padded(gpu *g, const layout_memory *memory, unsigned log2_bytes, LLVMValueRef place) {
  LLVMValueRef row = LLVMBuildLShr(g->builder, place, gpu_i32(g, memory->row + log2_bytes), "");
  LLVMValueRef free = LLVMBuildMul(g->builder, row, gpu_i32(g, (uint32_t)memory->pad << log2_bytes), "");
  return LLVMBuildAdd(g->builder, place, free, "");
}

gpu_shared_tile gpu_shared_tile_open(gpu *g, const layout_memory *memory, const kiln_layout *layout,
                                     unsigned log2_bytes, uint32_t start) {
  gpu_shared_tile p = {.start = start, .memory = memory, .layout = layout, .log2_bytes = log2_bytes};
  uint32_t basis[LAYOUT_MAX_PLACES] = {0};
  p.pieces.vector = layout_memory_vector(memory, layout, 4 - log2_bytes, p.pieces.bits);
  for (unsigned i = 0; i < p.pieces.vector; i++) p.pieces.mask |= 1u << p.pieces.bits[i];
  for (unsigned i = 0; i < layout_thread_bits(layout); i++) {
    basis[i] = layout_offset(memory, layout->basis[layout->registers + i]) << log2_bytes;
    p.base_bits |= basis[i];
  }
  p.base = p.plain = gpu_thread_bits(g, basis, layout_thread_bits(layout));
  if (memory->pad) p.base = padded(g, memory, log2_bytes, p.plain);
  return p;
}

LLVMValueRef gpu_shared_tile_pointer(gpu *g, const gpu_shared_tile *p, uint32_t r) {
  uint32_t padded_own, more = p->start;
  const uint32_t own = layout_register_offset(p->memory, p->layout, r, &padded_own),
                 bytes = own << p->log2_bytes, both = bytes & p->base_bits;
  LLVMValueRef base = p->base;
  if (!both) {
    more += padded_own << p->log2_bytes;
  } else if (p->shares_base && !p->memory->pad) {
    base = LLVMBuildXor(g->builder, p->plain, gpu_i32(g, both), "");
    more += bytes & ~both;
  } else {
    base = LLVMBuildXor(g->builder, p->plain, gpu_i32(g, bytes), "");
    if (p->memory->pad) base = padded(g, p->memory, p->log2_bytes, base);
  }
  LLVMValueRef at = LLVMBuildGEP2(g->builder, g->i8, g->shared, &base, 1, ""), last = gpu_i32(g, more);
  if (p->slot) at = LLVMBuildGEP2(g->builder, g->i8, at, (LLVMValueRef[1]){p->slot}, 1, "");
  return LLVMBuildGEP2(g->builder, g->i8, at, &last, 1, "");
}

void gpu_write_tile_in_slot(gpu *g, const gpu_tile *tile, const layout_memory *memory, unsigned log2_bytes,
                            uint32_t start, LLVMValueRef slot) {
  gpu_shared_tile p = gpu_shared_tile_open(g, memory, &tile->layout, log2_bytes, start);
  p.slot = slot;
  LLVMValueRef owner = gpu_is_owner(g, &tile->layout), elements[16];
  LLVMBasicBlockRef after = NULL;
  if (owner) {
    LLVMBasicBlockRef body = gpu_block(g, "own");
    after = gpu_block(g, "written");
    LLVMBuildCondBr(g->builder, owner, body, after);
    LLVMPositionBuilderAtEnd(g->builder, body);
  }
  // Where loads complete in order, what was loaded last is written first: then there is one wait.
  const uint32_t count = 1u << tile->layout.registers;
  for (uint32_t n = 0; n < count; n++) {
    const uint32_t r = g->machine->hold_loads ? count - 1 - n : n;
    if (r & p.pieces.mask) continue;
    for (unsigned i = 0; i < 1u << p.pieces.vector; i++)
      elements[i] = tile->regs[kiln_piece_register(&p.pieces, r, i)];
    LLVMValueRef store = LLVMBuildStore(g->builder, gpu_pack(g, elements, 1u << p.pieces.vector),
                                        gpu_shared_tile_pointer(g, &p, r));
    LLVMSetAlignment(store, 1u << (p.pieces.vector + log2_bytes));
  }
  if (!owner) return;
  LLVMBuildBr(g->builder, after);
  LLVMPositionBuilderAtEnd(g->builder, after);
}

void gpu_write_tile(gpu *g, const gpu_tile *tile, const layout_memory *memory, unsigned log2_bytes,
                    uint32_t start) {
  gpu_write_tile_in_slot(g, tile, memory, log2_bytes, start, NULL);
}

void gpu_shared_tile_read(gpu *g, const gpu_shared_tile *p, LLVMTypeRef type, uint32_t r,
                          LLVMValueRef *regs) {
  LLVMValueRef elements[16];
  unsigned bytes = 1u << (p->pieces.vector + p->log2_bytes);
  LLVMValueRef load =
      LLVMBuildLoad2(g->builder, gpu_packed_type(g, bytes), gpu_shared_tile_pointer(g, p, r), "");
  LLVMSetAlignment(load, bytes);
  // Else LLVM reads four integers of 16 bits by one load of these. Where all threads read the same, ptxas 13.0 takes
  // the second of a word from a register that nothing has written.
  if (g->machine->reads_words && bytes == 8 && p->log2_bytes == 1 &&
      LLVMGetTypeKind(type) == LLVMIntegerTypeKind)
    LLVMSetVolatile(load, true);
  gpu_unpack(g, load, type, elements, 1u << p->pieces.vector);
  for (unsigned i = 0; i < 1u << p->pieces.vector; i++)
    regs[kiln_piece_register(&p->pieces, r, i)] = elements[i];
}

gpu_tile gpu_read_tile(gpu *g, const layout_memory *memory, LLVMTypeRef type, const kiln_layout *layout,
                       unsigned log2_bytes) {
  gpu_tile out = gpu_tile_new(g, layout);
  gpu_shared_tile p = gpu_shared_tile_open(g, memory, layout, log2_bytes, g->scratch_base);
  for (uint32_t r = 0; r < 1u << layout->registers; r++)
    if (!(r & p.pieces.mask)) gpu_shared_tile_read(g, &p, type, r, out.regs);
  return out;
}

unsigned gpu_log2_bytes_of(gpu *g, LLVMTypeRef type) {
  return (unsigned)__builtin_ctz(gpu_bytes_of(g, type));
}

// ------------------------------------------------------------------------------------------------- fragments

enum { WORD_BYTES = 2 }; // logarithm

void gpu_read_matrix_piece(gpu *g, const kiln_matrix_load *plan, const gpu_shared_tile *p, LLVMTypeRef type,
                           uint32_t r, LLVMValueRef *regs) {
  static const kl_function functions[2][3] = {
      {KL_kl_ldmatrix_x1, KL_kl_ldmatrix_x2, KL_kl_ldmatrix_x4},
      {KL_kl_ldmatrix_x1_trans, KL_kl_ldmatrix_x2_trans, KL_kl_ldmatrix_x4_trans}};
  LLVMValueRef pointer = gpu_shared_tile_pointer(g, p, r << plan->row_bits);
  if (g->machine->read_turned) {
    gpu_unpack(g, g->machine->read_turned(g, pointer, type), type, regs + ((size_t)r << plan->matrices),
               1u << plan->matrices);
    return;
  }
  LLVMValueRef loaded = kl_call(&g->prelude, functions[plan->is_transposed][plan->matrices], &pointer, 1);
  for (uint32_t m = 0; m < 1u << plan->matrices; m++) {
    LLVMValueRef word =
        plan->matrices ? LLVMBuildExtractElement(g->builder, loaded, gpu_i32(g, m), "") : loaded;
    gpu_unpack(g, word, type, regs + (((size_t)r << plan->matrices | m) << plan->word), 1u << plan->word);
  }
}

gpu_tile gpu_read_matrices(gpu *g, const kiln_matrix_load *plan, const layout_memory *memory,
                           LLVMTypeRef type, const kiln_layout *to) {
  gpu_tile out = gpu_tile_new(g, to);
  gpu_shared_tile p =
      gpu_shared_tile_open(g, memory, &plan->address, WORD_BYTES - plan->word, g->scratch_base);
  for (uint32_t r = 0; r < 1u << (to->registers - plan->word - plan->matrices); r++)
    gpu_read_matrix_piece(g, plan, &p, type, r, out.regs);
  return out;
}

// ------------------------------------------------------------------------------------------ reading slots

/// NULL: the slot begins at the first.
static LLVMValueRef slot_offset(gpu *g, const gpu_place *place) {
  if (LLVMIsAConstantInt(place->slot) && !LLVMConstIntGetZExtValue(place->slot)) return NULL;
  if (place->slots->is_by_bytes) return place->slot;
  return LLVMBuildMul(g->builder, place->slot, gpu_i32(g, place->slots->bytes), "");
}

/// A thread's way into or out of a slot. Operands of multiply-adds are words, read by so many instructions that a
/// register for each address spills.
static gpu_shared_tile open_slot(gpu *g, const kiln_slot_layouts *s, const kiln_layout *layout,
                                 LLVMValueRef slot) {
  gpu_shared_tile p = gpu_shared_tile_open(g, &s->memory, layout, s->log2_bytes, s->start);
  p.slot = slot;
  p.shares_base = g->machine->shares_bases && s->log2_bytes == 2;
  return p;
}

gpu_staged gpu_stage_slot(gpu *g, const gpu_place *place, ir_type type, const kiln_slot_read *read) {
  return (gpu_staged){.to = gpu_tile_new(g, &read->to),
                      .type = gpu_type(g, type),
                      .slots = place->slots,
                      .slot = slot_offset(g, place),
                      .read = read};
}

const LLVMValueRef *gpu_staged_read(gpu *g, gpu_staged *s, uint32_t first, uint32_t count) {
  for (uint32_t r = first; r < first + count; r++) {
    if (s->to.regs[r]) continue;
    const kiln_matrix_load *plan = s->read->is_matrix ? &s->read->plan : NULL;
    if (!s->shared.base) s->shared = open_slot(g, s->slots, plan ? &plan->address : &s->to.layout, s->slot);
    if (plan)
      gpu_read_matrix_piece(g, plan, &s->shared, s->type, r >> (plan->word + plan->matrices), s->to.regs);
    else gpu_shared_tile_read(g, &s->shared, s->type, r & ~s->shared.pieces.mask, s->to.regs);
  }
  return s->to.regs + first;
}

// --------------------------------------------------------------------------------------------- filling slots

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
  const kiln_slot_layouts *slots = slots_of(g, op->operands[2]);
  const gpu_place at = {slots, gpu_scalar(g, op->operands[3])};
  claim(g, op->operands[2], true);
  const kiln_fetch_pieces *pieces = slots->fetches;
  while (pieces->fetch != op) pieces = pieces->next;
  const unsigned bytes = 1u << (slots->log2_bytes + pieces->vector);
  gpu_tile pointer = gpu_operand(g, op, 0), mask = gpu_operand(g, op, 1);
  gpu_tile left = {.regs = NULL};
  if (op->operand_count > 4) left = gpu_operand(g, op, 4);
  if (bytes < LEAST)
    gpu_fail_at(g, op, KILN_STATUS_INTERNAL,
                "operation %u: a fetch has pieces of %u bytes, expected at least %u", ir_operation(op), bytes,
                LEAST);
  LLVMValueRef owner = gpu_is_owner(g, &slots->writer);
  LLVMBasicBlockRef after = NULL;
  if (owner) { // of a tile of few pieces: two copies of one would race
    LLVMBasicBlockRef body = gpu_block(g, "own");
    after = gpu_block(g, "fetched");
    LLVMBuildCondBr(g->builder, owner, body, after);
    LLVMPositionBuilderAtEnd(g->builder, body);
  }
  for (uint32_t r = 0; g->status == KILN_OK && r < 1u << slots->writer.registers; r++) {
    if (r & pieces->inside) continue;
    LLVMValueRef size =
        size_of(g, mask.regs[r], left.regs ? left.regs[r] : NULL, bytes, bytes >> pieces->vector);
    gpu_shared_tile to = open_slot(g, slots, &slots->writer, NULL);
    to.slot = slot_offset(g, &at);
    LLVMValueRef arguments[3] = {gpu_shared_tile_pointer(g, &to, r), pointer.regs[r], size};
    kl_call(&g->prelude, copies[__builtin_ctz(bytes / LEAST)], arguments, 3);
  }
  if (!owner) return;
  LLVMBuildBr(g->builder, after);
  LLVMPositionBuilderAtEnd(g->builder, after);
}

void gpu_lower_fetch_commit(gpu *g, ir_op *op) {
  (void)op;
  kl_call(&g->prelude, KL_kl_copy_commit, NULL, 0);
}

void gpu_lower_fetch_wait(gpu *g, ir_op *op) {
  static const kl_function waits[] = {KL_kl_copy_wait_0, KL_kl_copy_wait_1, KL_kl_copy_wait_2};
  uint64_t most = sizeof waits / sizeof *waits - 1;
  kl_call(&g->prelude, waits[op->attrs.wait.out < most ? op->attrs.wait.out : most], NULL, 0);
}

void gpu_lower_slot_load(gpu *g, ir_op *op) {
  gpu_value_of(g, &op->results[0])->place =
      (gpu_place){slots_of(g, op->operands[0]), gpu_scalar(g, op->operands[1])};
}

void gpu_lower_slot_store(gpu *g, ir_op *op) {
  gpu_place at = {slots_of(g, op->operands[0]), gpu_scalar(g, op->operands[1])};
  gpu_tile tile = gpu_operand(g, op, 2);
  claim(g, op->operands[0], false);
  if (g->status == KILN_OK)
    gpu_write_tile_in_slot(g, &tile, &at.slots->memory, at.slots->log2_bytes, at.slots->start,
                           slot_offset(g, &at));
}

void gpu_lower_fetch_end(gpu *g, ir_op *op) {
  bool waits = false;
  for (uint32_t i = 0; i < op->operand_count; i++) waits |= is_fetched(g, slots_of(g, op->operands[i]));
  if (waits) kl_call(&g->prelude, KL_kl_copy_wait_0, NULL, 0);
  for (uint32_t i = 0; i < op->operand_count; i++) {
    const kiln_slot_layouts *s = slots_of(g, op->operands[i]);
    g->scratch_base = g->scratch_floor;
    for (gpu_claim **c = &g->claims; *c;) {
      if ((*c)->slots->end > g->scratch_base && (*c)->slots != s) g->scratch_base = (*c)->slots->end;
      if ((*c)->slots == s) *c = (*c)->next;
      else c = &(*c)->next;
    }
  }
  g->shared_dirty = true;
}
