// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads and stores: vectors of up to 16 bytes as layout and facts allow, masked; stores once an element where
// a layout replicates it.
#include "compiler/analysis/provenance.h"
#include "compiler/codegen/gpu/gpu_lower.h"

// ---------------------------------------------------------------------------------------- accesses

static gpu_access access_of(const ir_op *op, unsigned bytes) {
  return (gpu_access){.bytes = bytes,
                      .cache = op->attrs.cache,
                      .evict = op->attrs.evict,
                      .is_volatile = (op->attrs.flags & IR_VOLATILE) != 0};
}

/// Nothing that the kernel writes can be read here: it writes nothing, or the parameter promises it.
static bool is_invariant(gpu *g, const ir_op *op) {
  int root = kiln_param_of(op->operands[0]);
  if (op->attrs.flags & IR_VOLATILE) return false;
  if (!g->has_writes) return true;
  if (root < 0) return false;
  const ir_param *param = &g->kernel->params[root];
  return param->noalias && param->access == IR_ACCESS_IN;
}

static LLVMValueRef plain_load(gpu *g, const gpu_access *a, LLVMValueRef pointer, LLVMTypeRef type) {
  LLVMValueRef load = LLVMBuildLoad2(g->builder, type, pointer, "");
  LLVMSetAlignment(load, a->bytes);
  LLVMSetVolatile(load, a->is_volatile);
  if (a->is_invariant) kiln_llvm_note(load, "invariant.load", NULL);
  return load;
}

static LLVMValueRef branched_load(gpu *g, const gpu_access *a, LLVMValueRef pointer, LLVMValueRef mask,
                                  LLVMValueRef other, LLVMTypeRef type) {
  LLVMBasicBlockRef from = LLVMGetInsertBlock(g->builder), body = gpu_block(g, "load"),
                    after = gpu_block(g, "loaded");
  LLVMBuildCondBr(g->builder, mask, body, after);
  LLVMPositionBuilderAtEnd(g->builder, body);
  LLVMValueRef values[2] = {other, plain_load(g, a, pointer, type)};
  LLVMBasicBlockRef blocks[2] = {from, body};
  LLVMBuildBr(g->builder, after);
  LLVMPositionBuilderAtEnd(g->builder, after);
  LLVMValueRef phi = LLVMBuildPhi(g->builder, type, "");
  LLVMAddIncoming(phi, values, blocks, 2);
  return phi;
}

static LLVMValueRef load_one(gpu *g, const gpu_access *a, LLVMValueRef pointer, LLVMValueRef mask,
                             LLVMValueRef other, LLVMTypeRef type) {
  bool is_plain = !mask && !a->cache && !a->evict;
  if (is_plain) return plain_load(g, a, pointer, type);
  if (g->machine->load) return g->machine->load(g, a, pointer, mask, other, type);
  return mask ? branched_load(g, a, pointer, mask, other, type) : plain_load(g, a, pointer, type);
}

static void plain_store(gpu *g, const gpu_access *a, LLVMValueRef pointer, LLVMValueRef value) {
  LLVMValueRef store = LLVMBuildStore(g->builder, value, pointer);
  LLVMSetAlignment(store, a->bytes);
  LLVMSetVolatile(store, a->is_volatile);
}

static void store_one(gpu *g, const gpu_access *a, LLVMValueRef pointer, LLVMValueRef mask,
                      LLVMValueRef value) {
  bool is_plain = !mask && !a->cache && !a->evict;
  if (!is_plain && g->machine->store) {
    g->machine->store(g, a, pointer, mask, value);
    return;
  }
  if (!mask) {
    plain_store(g, a, pointer, value);
    return;
  }
  LLVMBasicBlockRef body = gpu_block(g, "store"), after = gpu_block(g, "stored");
  LLVMBuildCondBr(g->builder, mask, body, after);
  LLVMPositionBuilderAtEnd(g->builder, body);
  plain_store(g, a, pointer, value);
  LLVMBuildBr(g->builder, after);
  LLVMPositionBuilderAtEnd(g->builder, after);
}

LLVMValueRef gpu_both(gpu *g, LLVMValueRef a, LLVMValueRef b) {
  return !a ? b : !b ? a : LLVMBuildAnd(g->builder, a, b, "");
}

LLVMValueRef gpu_first_thread(gpu *g) {
  return LLVMBuildICmp(g->builder, LLVMIntEQ, g->thread, gpu_i32(g, 0), "");
}

LLVMValueRef gpu_from_first(gpu *g, LLVMValueRef value, ir_type element) {
  gpu_tile tile = {.layout = layout_whole(0, g->lanes, g->warps), .regs = &value};
  gpu_share_owned(g, &tile, element);
  return tile.regs[0];
}

// -------------------------------------------------------------------------------------------- load

/// All threads read the same address. Memory that changes meanwhile (volatile) is read by one of them, since
/// a scalar must be the same in all.
static LLVMValueRef scalar_load(gpu *g, ir_op *op, LLVMTypeRef type, gpu_access *access) {
  LLVMValueRef mask = op->operand_count > 1 ? gpu_scalar(g, op->operands[1]) : NULL;
  LLVMValueRef other = op->operand_count > 2 ? gpu_scalar(g, op->operands[2]) : LLVMConstNull(type), out;
  bool is_shared = access->is_volatile || access->cache == IR_CACHE_CV;
  gpu_note_access(g, op, access->bytes, access->bytes, access->bytes);
  if (is_shared) mask = gpu_both(g, gpu_first_thread(g), mask);
  LLVMValueRef loaded = load_one(g, access, gpu_scalar(g, op->operands[0]), mask, gpu_pack(g, &other, 1),
                                 gpu_packed_type(g, access->bytes));
  gpu_unpack(g, loaded, type, &out, 1);
  return is_shared ? gpu_from_first(g, out, op->results[0].type) : out;
}

/// A masked tile access. Where the mask would cut vectors (`wide` covers more than `narrow`), threads whose
/// lanes are all live take whole vectors without a mask, the others go piece by piece.
typedef struct tile_access {
  const gpu_access *element; ///< bytes of one element
  LLVMTypeRef type;
  gpu_near near;
  gpu_tile pointer, mask,
      data; ///< mask, data: registers may be NULL; data: what masked-off lanes read, or what is stored
  LLVMValueRef owner; ///< of a store: NULL when every thread owns its elements
  kiln_pieces wide, narrow;
} tile_access;

/// A constant from 0 on of whole steps.
static bool is_steps(const ir_value *v, uint32_t element_bytes) {
  int64_t n;
  return ir_constant_int(v, &n) && n >= 0 && n % GPU_NEAR_STEP * element_bytes % GPU_NEAR_STEP == 0;
}

/// A loop's sum of such constants, or one of them further.
static bool grows_by_steps(const ir_value *v, uint32_t element_bytes) {
  while (v->def && v->def->code == IR_ADD && is_steps(v->def->operands[1], element_bytes))
    v = v->def->operands[0];
  const ir_op *loop = v->def ? NULL : v->block->parent;
  if (!loop || loop->code != IR_FOR || v == ir_for_counter(loop)) return false;
  uint32_t carried = v->index - ir_loop_counters(loop);
  const ir_value *next = ir_loop_next(loop)->operands[carried];
  if (!is_steps(ir_loop_initials(loop)[carried], element_bytes)) return false;
  while (next->def && next->def->code == IR_ADD && is_steps(next->def->operands[1], element_bytes))
    next = next->def->operands[0];
  return next == v;
}

/// Takes from the base what only grows.
static void take_ahead(gpu *g, const ir_value *base, uint32_t element_bytes, gpu_near *near) {
  const ir_op *sum = base->def;
  bool found = g->machine->takes_ahead && sum && sum->code == IR_PTRADD &&
               sum->operands[1]->type.scalar == KILN_I64 && grows_by_steps(sum->operands[1], element_bytes);
  near->base = gpu_scalar(g, found ? sum->operands[0] : (ir_value *)base);
  if (!found) return;
  LLVMValueRef elements = LLVMBuildTrunc(g->builder, gpu_scalar(g, sum->operands[1]), g->i32, "");
  near->ahead = LLVMBuildMul(g->builder, elements, gpu_i32(g, element_bytes), "");
}

/// A load in the form that compiler/passes/gpu/addresses.c gives it.
static gpu_near near_of(gpu *g, const ir_op *op, const gpu_access *element) {
  const kiln_layout *layout = op->operand_layouts[0];
  const ir_op *sum = op->operands[0]->def,
              *base = sum && sum->code == IR_PTRADD ? sum->operands[0]->def : NULL;
  gpu_near near = {.base = NULL};
  bool is_plain = op->code == IR_LOAD && !element->cache && !element->evict && !element->is_volatile;
  if (!g->machine->near_load || !is_plain || !base || base->code != IR_SPLAT) return near;
  int param = kiln_param_of(base->operands[0]);
  if (param < 0 || !g->kernel->params[param].within || sum->operands[1]->type.scalar != KILN_I32) return near;
  take_ahead(g, base->operands[0], element->bytes, &near);
  near.memory = g->machine->near_memory(g, near.base, (unsigned)param);
  const LLVMValueRef *offsets = gpu_operand(g, sum, 1).regs;
  near.bytes = KILN_NEW_ARRAY(g->arena, LLVMValueRef, (size_t)1 << layout->registers);
  for (uint32_t r = 0; r < 1u << layout->registers; r++)
    near.bytes[r] =
        LLVMBuildShl(g->builder, offsets[r], gpu_i32(g, (unsigned)__builtin_ctz(element->bytes)), "");
  return near;
}

static tile_access open_access(gpu *g, ir_op *op, const gpu_access *element, LLVMTypeRef type,
                               unsigned mask_at, unsigned data_at) {
  tile_access x = {.element = element, .type = type, .near = near_of(g, op, element)};
  const kiln_layout *layout = op->operand_layouts[0];
  if (!x.near.bytes) x.pointer = gpu_operand(g, op, 0);
  if (op->operand_count > mask_at) x.mask = gpu_operand(g, op, mask_at);
  if (op->operand_count > data_at) x.data = gpu_operand(g, op, data_at);
  x.wide = kiln_pieces_of(g->layouts, op, layout, true);
  x.narrow = x.mask.regs ? kiln_pieces_of(g->layouts, op, layout, false) : x.wide;
  return x;
}

static gpu_access access_to(const tile_access *x, const kiln_pieces *p) {
  gpu_access a = *x->element;
  a.bytes <<= p->vector;
  return a;
}

/// Conditions, each once, in order.
typedef struct conditions {
  LLVMValueRef *all;
  uint32_t count;
} conditions;

static void add_condition(conditions *c, LLVMValueRef condition) {
  for (uint32_t i = 0; i < c->count; i++)
    if (c->all[i] == condition) return;
  c->all[c->count++] = condition;
}

static bool is_and(LLVMValueRef v) { return LLVMIsAInstruction(v) && LLVMGetInstructionOpcode(v) == LLVMAnd; }

/// All lanes of the thread are live in registers [first, first + count). A tile's mask says the same of each
/// row in all its columns, and of each column in all its rows: that is asked once.
static LLVMValueRef all_live(gpu *g, const tile_access *x, uint32_t first, uint32_t count) {
  conditions c = {KILN_NEW_ARRAY(g->arena, LLVMValueRef, 2 * (size_t)count), 0};
  for (uint32_t r = first; r < first + count; r++) {
    LLVMValueRef mask = x->mask.regs[r];
    add_condition(&c, is_and(mask) ? LLVMGetOperand(mask, 0) : mask);
    if (is_and(mask)) add_condition(&c, LLVMGetOperand(mask, 1));
  }
  LLVMValueRef all = c.all[0];
  for (uint32_t i = 1; i < c.count; i++) all = LLVMBuildAnd(g->builder, all, c.all[i], "");
  return all;
}

/// One piece of `p` that starts at element `first` of the wide piece at register `r`.
static void load_piece(gpu *g, const tile_access *x, const kiln_pieces *p, uint32_t r, unsigned first,
                       LLVMValueRef mask, LLVMValueRef *elements) {
  gpu_access a = access_to(x, p);
  unsigned count = 1u << p->vector;
  for (unsigned i = 0; i < count; i++)
    elements[i] =
        x->data.regs ? x->data.regs[kiln_piece_register(&x->wide, r, first + i)] : LLVMConstNull(x->type);
  uint32_t at = kiln_piece_register(&x->wide, r, first);
  LLVMTypeRef packed = gpu_packed_type(g, a.bytes);
  LLVMValueRef other = mask ? gpu_pack(g, elements, count) : NULL, loaded;
  if (!x->near.bytes) loaded = load_one(g, &a, x->pointer.regs[at], mask, other, packed);
  else {
    loaded = g->machine->near_load(g, &a, &x->near, at, mask, packed);
    if (mask && !LLVMIsNull(other)) loaded = LLVMBuildSelect(g->builder, mask, loaded, other, "");
  }
  gpu_unpack(g, loaded, x->type, elements, count);
}

/// The wide piece at register `r`, packed, in pieces of `p`.
static LLVMValueRef load_wide(gpu *g, const tile_access *x, const kiln_pieces *p, uint32_t r, bool masked) {
  LLVMValueRef elements[16];
  for (unsigned first = 0; first < 1u << x->wide.vector; first += 1u << p->vector) {
    LLVMValueRef mask = masked ? x->mask.regs[kiln_piece_register(&x->wide, r, first)] : NULL;
    load_piece(g, x, p, r, first, mask, elements + first);
  }
  return gpu_pack(g, elements, 1u << x->wide.vector);
}

typedef LLVMValueRef load_way(gpu *g, const tile_access *x, uint32_t r);
static LLVMValueRef load_live(gpu *g, const tile_access *x, uint32_t r) {
  return load_wide(g, x, &x->wide, r, false);
}
static LLVMValueRef load_masked(gpu *g, const tile_access *x, uint32_t r) {
  return load_wide(g, x, &x->narrow, r, x->mask.regs != NULL);
}

/// How registers [first, first + count) are loaded into `out`, each piece by `way`; the block that it ends
/// in.
typedef LLVMBasicBlockRef load_range(gpu *g, const tile_access *x, uint32_t first, uint32_t count,
                                     load_way *way, void *context, LLVMValueRef *out);

/// All wide pieces, packed, by register.
static LLVMBasicBlockRef load_packed(gpu *g, const tile_access *x, uint32_t first, uint32_t count,
                                     load_way *way, void *context, LLVMValueRef *out) {
  (void)context;
  for (uint32_t r = 0; r < count; r++)
    if (!(r & x->wide.mask)) out[r] = way(g, x, first + r);
  return LLVMGetInsertBlock(g->builder);
}

/// The range in the way that the thread's mask allows; `values` come out of it, of which some may be NULL.
static void load_masked_range(gpu *g, const tile_access *x, uint32_t first, uint32_t count, load_range *load,
                              void *context, LLVMValueRef *out, uint32_t values) {
  if (x->wide.vector == x->narrow.vector) {
    load(g, x, first, count, load_masked, context, out);
    return;
  }
  LLVMBasicBlockRef blocks[2] = {gpu_block(g, "live"), gpu_block(g, "masked")},
                    after = gpu_block(g, "loaded");
  LLVMValueRef *sides[2] = {KILN_NEW_ARRAY(g->arena, LLVMValueRef, values),
                            KILN_NEW_ARRAY(g->arena, LLVMValueRef, values)};
  LLVMBuildCondBr(g->builder, all_live(g, x, first, count), blocks[0], blocks[1]);
  for (unsigned side = 0; side < 2; side++) {
    LLVMPositionBuilderAtEnd(g->builder, blocks[side]);
    blocks[side] = load(g, x, first, count, side ? load_masked : load_live, context, sides[side]);
    LLVMBuildBr(g->builder, after);
  }
  LLVMPositionBuilderAtEnd(g->builder, after);
  for (uint32_t r = 0; r < values; r++) {
    LLVMValueRef from[2] = {sides[0][r], sides[1][r]};
    if (!from[0]) continue;
    out[r] = LLVMBuildPhi(g->builder, LLVMTypeOf(from[0]), "");
    LLVMAddIncoming(out[r], from, blocks, 2);
  }
}

// ----------------------------------------------------------------------------------- shifted loads

// A piece of 16 bytes that begins anywhere lies in two aligned ones, or in one. Both are loaded where the load stands, and
// shifted where something else than loads and addresses follows: so all loads before that are under way at once.
enum { SHIFTED_WORDS = 4, SHIFTED_MOST = 16 };

/// What is loaded and not shifted yet.
struct gpu_shift {
  gpu_shift *next;
  ir_value *value;
  kiln_pieces pieces;
  LLVMTypeRef type;
  unsigned known;      ///< bytes of whose multiples each piece begins at one
  LLVMValueRef *low;   ///< i32 a register where a piece begins: its bytes beyond a multiple of 16
  LLVMValueRef *words; ///< 2 * SHIFTED_WORDS a register: of the register where the piece begins
};

/// The words of elements that nobody wants become zero, and those of 16 bytes without any other are not read.
static void load_masked_words(gpu *g, const tile_access *x, uint32_t r, LLVMValueRef low,
                              LLVMValueRef *const ends, LLVMValueRef *out) {
  const unsigned bytes = x->element->bytes, count = 1u << x->wide.vector, each = 4 / bytes;
  LLVMTypeRef packed = gpu_packed_type(g, 16);
  LLVMValueRef set = gpu_i32(g, 0), none = gpu_i32(g, 0);
  for (unsigned i = 0; i < count; i++) {
    LLVMValueRef mask = x->mask.regs[kiln_piece_register(&x->wide, r, i)];
    set = LLVMBuildOr(g->builder, set, LLVMBuildSelect(g->builder, mask, gpu_i32(g, 1u << i), none, ""), "");
  }
  // Bit i: element i of the 32 bytes from the first piece on.
  LLVMValueRef first = LLVMBuildLShr(g->builder, low, gpu_i32(g, (unsigned)__builtin_ctz(bytes)), "");
  set = LLVMBuildShl(g->builder, set, first, "");
  gpu_access a = *x->element;
  a.bytes = 16;
  for (unsigned half = 0; half < 2; half++) {
    LLVMValueRef here = half ? LLVMBuildLShr(g->builder, set, gpu_i32(g, count), "")
                             : LLVMBuildAnd(g->builder, set, gpu_i32(g, (1u << count) - 1), "");
    LLVMValueRef any = LLVMBuildICmp(g->builder, LLVMIntNE, here, none, "");
    LLVMValueRef piece = load_one(g, &a, ends[half], any, LLVMConstNull(packed), packed);
    LLVMValueRef *words = out + (size_t)half * SHIFTED_WORDS;
    gpu_unpack(g, piece, g->i32, words, SHIFTED_WORDS);
    for (unsigned w = 0; w < SHIFTED_WORDS; w++) {
      LLVMValueRef keep = none;
      for (unsigned e = 0; e < each; e++) {
        LLVMValueRef bit = LLVMBuildAnd(g->builder, here, gpu_i32(g, 1u << (w * each + e)), "");
        LLVMValueRef is_set = LLVMBuildICmp(g->builder, LLVMIntNE, bit, none, "");
        LLVMValueRef ones = gpu_i32(g, (uint32_t)(((uint64_t)1 << (8 * bytes)) - 1) << (8 * bytes * e));
        keep = LLVMBuildOr(g->builder, keep, LLVMBuildSelect(g->builder, is_set, ones, none, ""), "");
      }
      words[w] = LLVMBuildAnd(g->builder, words[w], keep, "");
    }
  }
}

/// The pieces' words, 2 * SHIFTED_WORDS a register where one begins; `context`: their places, by register.
static LLVMBasicBlockRef load_words(gpu *g, const tile_access *x, uint32_t first, uint32_t count,
                                    load_way *way, void *context, LLVMValueRef *out) {
  const struct gpu_shift *s = context;
  for (uint32_t r = first; r < first + count; r++) {
    if (r & x->wide.mask) continue;
    LLVMValueRef back = LLVMBuildNeg(g->builder, LLVMBuildZExt(g->builder, s->low[r], g->i64, ""), "");
    LLVMValueRef start = LLVMBuildGEP2(g->builder, g->i8, x->pointer.regs[r], &back, 1, "");
    // That of the last byte: after a piece that begins at a multiple of 16 there may be no memory.
    LLVMValueRef last = LLVMBuildAdd(g->builder, s->low[r], gpu_i32(g, 15), ""), next;
    next = LLVMBuildZExt(g->builder, LLVMBuildAnd(g->builder, last, gpu_i32(g, 16), ""), g->i64, "");
    LLVMValueRef ends[2] = {start, LLVMBuildGEP2(g->builder, g->i8, start, &next, 1, "")};
    LLVMValueRef *words = out + (size_t)(r - first) * 2 * SHIFTED_WORDS;
    if (way == load_masked && x->mask.regs) {
      load_masked_words(g, x, r, s->low[r], ends, words);
      continue;
    }
    gpu_access a = *x->element;
    a.bytes = 16;
    for (unsigned half = 0; half < 2; half++)
      gpu_unpack(g, load_one(g, &a, ends[half], NULL, NULL, gpu_packed_type(g, 16)), g->i32,
                 words + (size_t)half * SHIFTED_WORDS, SHIFTED_WORDS);
  }
  return LLVMGetInsertBlock(g->builder);
}

static void load_to_shift(gpu *g, ir_op *op, const tile_access *x) {
  const uint32_t count = 1u << op->results[0].layout->registers, words = count * 2 * SHIFTED_WORDS;
  gpu_shift *s = KILN_NEW(g->arena, gpu_shift);
  *s = (gpu_shift){.value = &op->results[0],
                   .pieces = x->wide,
                   .type = x->type,
                   .known = x->element->bytes << x->wide.known,
                   .low = KILN_NEW_ARRAY(g->arena, LLVMValueRef, count),
                   .words = KILN_NEW_ARRAY(g->arena, LLVMValueRef, words)};
  for (uint32_t r = 0; r < count; r++) {
    if (r & x->wide.mask) continue;
    LLVMValueRef at = LLVMBuildPtrToInt(g->builder, x->pointer.regs[r], g->i64, "");
    s->low[r] = LLVMBuildAnd(g->builder, LLVMBuildTrunc(g->builder, at, g->i32, ""), gpu_i32(g, 15), "");
  }
  load_masked_range(g, x, 0, count, load_words, s, s->words, words);
  gpu_shift **last = &g->shifts;
  while (*last) last = &(*last)->next;
  *last = s;
}

/// `count` words, each the one that stands `by` further where the address has `bit`.
static void shift_words(gpu *g, LLVMValueRef low, unsigned bit, unsigned by, LLVMValueRef *words,
                        unsigned count) {
  LLVMValueRef has = LLVMBuildAnd(g->builder, low, gpu_i32(g, bit), "");
  LLVMValueRef is_set = LLVMBuildICmp(g->builder, LLVMIntNE, has, gpu_i32(g, 0), "");
  for (unsigned i = 0; i < count; i++)
    words[i] = LLVMBuildSelect(g->builder, is_set, words[i + by], words[i], "");
}

bool gpu_reads_shifted(const gpu *g, const ir_op *op) {
  for (const gpu_shift *s = g->shifts; s; s = s->next)
    for (uint32_t i = 0; i < op->operand_count; i++)
      if (op->operands[i] == s->value) return true;
  return false;
}

void gpu_shift_loaded(gpu *g) {
  LLVMValueRef elements[SHIFTED_MOST];
  for (gpu_shift *s = g->shifts; s; s = s->next) {
    gpu_tile tile = gpu_tile_new(g, s->value->layout);
    for (uint32_t r = 0; r < 1u << tile.layout.registers; r++) {
      if (r & s->pieces.mask) continue;
      LLVMValueRef low = s->low[r], *words = s->words + (size_t)r * 2 * SHIFTED_WORDS;
      if (s->known < 16) shift_words(g, low, 8, 2, words, s->known < 8 ? 6 : SHIFTED_WORDS);
      if (s->known < 8) shift_words(g, low, 4, 1, words, s->known < 4 ? 5 : SHIFTED_WORDS);
      for (unsigned i = 0; s->known < 4 && i < SHIFTED_WORDS; i++) {
        LLVMValueRef bits = LLVMBuildShl(g->builder, low, gpu_i32(g, 3), "");
        LLVMValueRef arguments[3] = {words[i + 1], words[i], bits}; // the shift is taken modulo 32
        words[i] = gpu_intrinsic(g, "llvm.fshr", &g->i32, 1, arguments, 3);
      }
      gpu_unpack(g, gpu_pack(g, words, SHIFTED_WORDS), s->type, elements, 1u << s->pieces.vector);
      for (unsigned i = 0; i < 1u << s->pieces.vector; i++)
        tile.regs[kiln_piece_register(&s->pieces, r, i)] = elements[i];
    }
    gpu_set_home(g, s->value, tile);
  }
  g->shifts = NULL;
}

static void tile_load(gpu *g, ir_op *op, LLVMTypeRef type, gpu_access *access, const kiln_layout *layout) {
  gpu_tile out = gpu_tile_new(g, layout);
  tile_access x = open_access(g, op, access, type, 1, 2);
  uint32_t count = 1u << layout->registers;
  if (x.wide.is_shifted) {
    gpu_note_shifted(g, op, access->bytes << x.wide.known);
    load_to_shift(g, op, &x);
    return;
  }
  gpu_note_access(g, op, access->bytes << x.wide.vector, access->bytes << x.narrow.vector, access->bytes);
  LLVMValueRef *packed = KILN_NEW_ARRAY(g->arena, LLVMValueRef, count), elements[16];
  load_masked_range(g, &x, 0, count, load_packed, NULL, packed, count);
  for (uint32_t r = 0; r < count; r++) {
    if (r & x.wide.mask) continue;
    gpu_unpack(g, packed[r], type, elements, 1u << x.wide.vector);
    for (unsigned i = 0; i < 1u << x.wide.vector; i++)
      out.regs[kiln_piece_register(&x.wide, r, i)] = elements[i];
  }
  gpu_set_home(g, &op->results[0], out);
}

static LLVMBasicBlockRef load_part(gpu *g, const tile_access *x, uint32_t first, uint32_t count,
                                   load_way *way, void *context, LLVMValueRef *out) {
  const gpu_parts *p = context;
  LLVMValueRef *part = KILN_NEW_ARRAY(g->arena, LLVMValueRef, count), elements[16];
  for (uint32_t r = 0; r < count; r++) {
    if (r & x->wide.mask) continue;
    gpu_unpack(g, way(g, x, first + r), x->type, elements, 1u << x->wide.vector);
    for (unsigned i = 0; i < 1u << x->wide.vector; i++)
      part[kiln_piece_register(&x->wide, r, i)] = elements[i];
  }
  p->take(g, p->context, first, part, out);
  return LLVMGetInsertBlock(g->builder);
}

static gpu_access access_of_load(gpu *g, const ir_op *op) {
  gpu_access access = access_of(op, kiln_pointee_bytes(op->operands[0]->type));
  access.is_invariant = is_invariant(g, op);
  return access;
}

LLVMValueRef *gpu_load_parts(gpu *g, ir_op *op, const kiln_layout *layout, gpu_parts *p) {
  gpu_access access = access_of_load(g, op);
  LLVMTypeRef type = gpu_type(g, ir_pointee(ir_element(op->operands[0]->type)));
  tile_access x = open_access(g, op, &access, type, 1, 2);
  uint32_t count = 1u << layout->registers, part = 1u << p->registers;
  LLVMValueRef *out = KILN_NEW_ARRAY(g->arena, LLVMValueRef, (size_t)(count / part) * p->left);
  gpu_note_access(g, op, access.bytes << x.wide.vector, access.bytes << x.narrow.vector, access.bytes);
  for (uint32_t i = 0; i < count / part; i++)
    load_masked_range(g, &x, i * part, part, load_part, p, out + (size_t)i * p->left, p->left);
  return out;
}

/// No load after it waits for the same product.
static bool is_last_feed(gpu *g, const ir_op *load) {
  const ir_op *dot = g->layouts->notes[load->results[0].id]->feed.dot;
  for (const ir_op *op = load->next; op; op = op->next) {
    const kiln_feed *feed = op->code == IR_LOAD ? &g->layouts->notes[op->results[0].id]->feed : NULL;
    if (feed && feed->waits && feed->dot == dot) return false;
  }
  return true;
}

void gpu_lower_load(gpu *g, ir_op *op) {
  const kiln_layout_notes *notes = g->layouts->notes[op->results[0].id];
  if (notes->is_deferred) return;
  LLVMTypeRef type = gpu_type(g, ir_pointee(ir_element(op->operands[0]->type)));
  gpu_access access = access_of_load(g, op);
  if (!op->operands[0]->type.rank) gpu_set_scalar(g, &op->results[0], scalar_load(g, op, type, &access));
  else tile_load(g, op, type, &access, op->results[0].layout);
  if (notes->feed.waits && g->machine->hold_loads && is_last_feed(g, op)) g->machine->hold_loads(g);
}

// ------------------------------------------------------------------------------------------- store

/// What the piece of `p` at register `r` stores, packed.
static LLVMValueRef packed_piece(gpu *g, const tile_access *x, const kiln_pieces *p, uint32_t r) {
  LLVMValueRef elements[16];
  // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a store has been given what it stores
  for (unsigned i = 0; i < 1u << p->vector; i++) elements[i] = x->data.regs[kiln_piece_register(p, r, i)];
  return gpu_pack(g, elements, 1u << p->vector);
}

static void store_pieces(gpu *g, const tile_access *x, const kiln_pieces *p, uint32_t r, bool masked) {
  const gpu_access a = access_to(x, p);
  for (unsigned first = 0; first < 1u << x->wide.vector; first += 1u << p->vector) {
    uint32_t at = kiln_piece_register(&x->wide, r, first);
    LLVMValueRef mask = masked ? x->mask.regs[at] : NULL;
    store_one(g, &a, x->pointer.regs[at], gpu_both(g, x->owner, mask), packed_piece(g, x, p, at));
  }
}

/// The wide piece at register `r` in pieces of `p`, each with its mask.
static bool store_parts(gpu *g, const tile_access *x, const kiln_pieces *p, uint32_t r) {
  const gpu_access a = access_to(x, &x->wide);
  unsigned parts = 1u << (x->wide.vector - p->vector);
  LLVMValueRef masks[16];
  if (parts < 2 || !g->machine->store_parts) return false;
  for (unsigned i = 0; i < parts; i++) {
    uint32_t at = kiln_piece_register(&x->wide, r, i << p->vector);
    masks[i] = gpu_both(g, x->owner, x->mask.regs[at]);
  }
  return g->machine->store_parts(g, &a, x->pointer.regs[r], masks, parts, packed_piece(g, x, &x->wide, r));
}

static void store_all(gpu *g, const tile_access *x, const kiln_pieces *p, uint32_t count, bool masked) {
  for (uint32_t r = 0; r < count; r++)
    if (!(r & x->wide.mask) && !store_parts(g, x, p, r)) store_pieces(g, x, p, r, masked);
}

/// Some wide piece has live lanes and others. Where the masks of a piece have a condition in common, as those
/// of a row have the row's, the rest is compared, which is the same in all rows, and is asked once.
static LLVMValueRef some_piece_is_cut(gpu *g, const tile_access *x, uint32_t count) {
  typedef struct pair {
    LLVMValueRef first, other;
  } pair;
  pair *seen = KILN_NEW_ARRAY(g->arena, pair, count);
  uint32_t known = 0;
  LLVMValueRef is_cut = LLVMConstInt(g->i1, 0, false);
  for (uint32_t r = 0; r < count; r++) {
    if (r & x->narrow.mask) continue;
    pair p = {x->mask.regs[r & ~x->wide.mask], x->mask.regs[r]};
    if (is_and(p.first) && is_and(p.other)) {
      unsigned common = LLVMGetOperand(p.first, 0) == LLVMGetOperand(p.other, 0) ? 0 : 1;
      if (LLVMGetOperand(p.first, common) == LLVMGetOperand(p.other, common))
        p = (pair){LLVMGetOperand(p.first, !common), LLVMGetOperand(p.other, !common)};
    }
    uint32_t at = 0;
    while (at < known && (seen[at].first != p.first || seen[at].other != p.other)) at++;
    if (p.first == p.other || at < known) continue;
    seen[known++] = p;
    is_cut = LLVMBuildOr(g->builder, is_cut, LLVMBuildXor(g->builder, p.first, p.other, ""), "");
  }
  return is_cut;
}

void gpu_lower_store(gpu *g, ir_op *op) {
  gpu_access access = access_of(op, kiln_pointee_bytes(op->operands[0]->type));
  if (!op->operands[0]->type.rank) {
    LLVMValueRef mask = op->operand_count > 2 ? gpu_scalar(g, op->operands[2]) : NULL,
                 value = gpu_scalar(g, op->operands[1]);
    gpu_note_access(g, op, access.bytes, access.bytes, access.bytes);
    store_one(g, &access, gpu_scalar(g, op->operands[0]), gpu_both(g, gpu_first_thread(g), mask),
              gpu_pack(g, &value, 1));
    return;
  }
  uint32_t count = 1u << op->operand_layouts[0]->registers;
  tile_access x = open_access(g, op, &access, NULL, 2, 1);
  x.owner = gpu_is_owner(g, op->operand_layouts[0]);
  gpu_note_access(g, op, access.bytes << x.wide.vector, access.bytes << x.narrow.vector, access.bytes);
  if (x.wide.vector <= x.narrow.vector) {
    x.wide = x.narrow;
    store_all(g, &x, &x.narrow, count, x.mask.regs != NULL);
    return;
  }
  LLVMBasicBlockRef live = gpu_block(g, "live"), masked = gpu_block(g, "masked"),
                    whole = gpu_block(g, "whole"), cut = gpu_block(g, "cut"), after = gpu_block(g, "stored");
  LLVMBuildCondBr(g->builder, all_live(g, &x, 0, count), live, masked);
  LLVMPositionBuilderAtEnd(g->builder, live);
  store_all(g, &x, &x.wide, count, false);
  LLVMBuildBr(g->builder, after);
  LLVMPositionBuilderAtEnd(g->builder, masked);
  LLVMBuildCondBr(g->builder, some_piece_is_cut(g, &x, count), cut, whole);
  LLVMPositionBuilderAtEnd(g->builder, whole);
  store_all(g, &x, &x.wide, count, true);
  LLVMBuildBr(g->builder, after);
  LLVMPositionBuilderAtEnd(g->builder, cut);
  store_all(g, &x, &x.narrow, count, true);
  LLVMBuildBr(g->builder, after);
  LLVMPositionBuilderAtEnd(g->builder, after);
}
