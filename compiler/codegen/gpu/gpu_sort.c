// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sort: what is done to the elements at the steps of the network
// (compiler/passes/gpu/layouts/sort_network.c); gather: through shared memory.
#include "compiler/codegen/gpu/gpu_lower.h"
#include "compiler/passes/gpu/layouts/sort_network.h"

#include <string.h>

/// An element of one word, or of 64 bits as two where machines choose words of 32.
typedef struct item {
  LLVMValueRef low, high; ///< `high` is NULL in elements of one word
} item;

typedef struct sorter {
  gpu *g;
  bool is_wide, is_split; ///< elements have 64 bits, and are two words
  item *regs;
  LLVMValueRef pending;                       ///< to be XORed to all words; NULL: nothing
  LLVMValueRef thread_bit[LAYOUT_MAX_PLACES]; ///< i1, made when first asked for
} sorter;

// ------------------------------------------------------------------------------------------ elements

static LLVMValueRef thread_bit(sorter *n, unsigned i) {
  gpu *g = n->g;
  if (!n->thread_bit[i]) {
    LLVMValueRef bit = LLVMBuildAnd(g->builder, g->thread, gpu_i32(g, 1u << i), "");
    n->thread_bit[i] = LLVMBuildICmp(g->builder, LLVMIntNE, bit, gpu_i32(g, 0), "");
  }
  return n->thread_bit[i];
}

static LLVMTypeRef word_type(const sorter *n) { return n->is_wide && !n->is_split ? n->g->i64 : n->g->i32; }

static void flip(sorter *n, item *e, LLVMValueRef mask) {
  e->low = LLVMBuildXor(n->g->builder, e->low, mask, "");
  if (n->is_split) e->high = LLVMBuildXor(n->g->builder, e->high, mask, "");
}

static void apply_pending(sorter *n, unsigned registers) {
  if (!n->pending) return;
  for (uint32_t r = 0; r < 1u << registers; r++) flip(n, &n->regs[r], n->pending);
  n->pending = NULL;
}

static item choose(const sorter *n, LLVMValueRef is_first, item a, item b) {
  item e = {LLVMBuildSelect(n->g->builder, is_first, a.low, b.low, ""), NULL};
  if (n->is_split) e.high = LLVMBuildSelect(n->g->builder, is_first, a.high, b.high, "");
  return e;
}

static item split(gpu *g, LLVMValueRef v) {
  LLVMValueRef pair = LLVMBuildBitCast(g->builder, v, LLVMVectorType(g->i32, 2), "");
  return (item){LLVMBuildExtractElement(g->builder, pair, gpu_i32(g, 0), ""),
                LLVMBuildExtractElement(g->builder, pair, gpu_i32(g, 1), "")};
}

static LLVMValueRef joined(gpu *g, item e) {
  LLVMValueRef pair = LLVMGetUndef(LLVMVectorType(g->i32, 2));
  pair = LLVMBuildInsertElement(g->builder, pair, e.low, gpu_i32(g, 0), "");
  pair = LLVMBuildInsertElement(g->builder, pair, e.high, gpu_i32(g, 1), "");
  return LLVMBuildBitCast(g->builder, pair, g->i64, "");
}

static LLVMValueRef value_of(const sorter *n, item e) { return n->is_split ? joined(n->g, e) : e.low; }

static item item_of(const sorter *n, LLVMValueRef v) {
  return n->is_split ? split(n->g, v) : (item){v, NULL};
}

/// The lesser and the greater of two. The compiler for NVIDIA makes two comparisons of a minimum and a
/// maximum of 64 bits, and of one comparison and two choices: the greater is what remains, one three-way XOR
/// a word.
static void order(const sorter *n, item *low, item *high) {
  gpu *g = n->g;
  item a = *low, b = *high;
  if (n->is_split) {
    LLVMValueRef less = LLVMBuildICmp(g->builder, LLVMIntSLT, joined(g, a), joined(g, b), "");
    *low = choose(n, less, a, b);
    *high = choose(n, less, b, a);
    return;
  }
  LLVMTypeRef type = word_type(n);
  LLVMValueRef pair[2] = {a.low, b.low};
  low->low = gpu_intrinsic(g, "llvm.smin", &type, 1, pair, 2);
  high->low = n->is_wide ? LLVMBuildXor(g->builder, LLVMBuildXor(g->builder, a.low, b.low, ""), low->low, "")
                         : gpu_intrinsic(g, "llvm.smax", &type, 1, pair, 2);
}

/// That of the lane whose number differs in bit `lane`.
static item shuffled(const sorter *n, item e, unsigned lane) {
  gpu *g = n->g;
  unsigned mask = 1u << lane;
  if (!n->is_wide) return (item){gpu_shuffle_xor(g, e.low, mask), NULL};
  if (!n->is_split) e = split(g, e.low);
  e = (item){gpu_shuffle_xor(g, e.low, mask), gpu_shuffle_xor(g, e.high, mask)};
  return n->is_split ? e : (item){joined(g, e), NULL};
}

static item lesser(const sorter *n, item a, item b) {
  order(n, &a, &b);
  return a;
}

// --------------------------------------------------------------------------------------------- steps

static void complement(void *context, const kiln_network *n, unsigned place) {
  sorter *s = context;
  LLVMBuilderRef build = s->g->builder;
  if (place >= n->registers) {
    LLVMValueRef mask = LLVMBuildSExt(build, thread_bit(s, place - n->registers), word_type(s), "");
    s->pending = s->pending ? LLVMBuildXor(build, s->pending, mask, "") : mask;
    return;
  }
  for (uint32_t r = 0; r < 1u << n->registers; r++)
    if (r >> place & 1) flip(s, &s->regs[r], LLVMConstAllOnes(word_type(s)));
}

static void exchange(void *context, const kiln_network *n, const kiln_layout *from, const kiln_layout *to) {
  sorter *s = context;
  gpu *g = s->g;
  apply_pending(s, n->registers);
  gpu_tile tile = gpu_tile_new(g, from);
  for (uint32_t r = 0; r < 1u << n->registers; r++) tile.regs[r] = value_of(s, s->regs[r]);
  tile = gpu_convert(g, &tile, ir_scalar_type(s->is_wide ? KILN_I64 : KILN_I32), to);
  for (uint32_t r = 0; r < 1u << n->registers; r++) s->regs[r] = item_of(s, tile.regs[r]);
}

static void trade(void *context, const kiln_network *n, unsigned lane, unsigned place) {
  sorter *s = context;
  apply_pending(s, n->registers);
  LLVMValueRef is_upper = thread_bit(s, lane - n->registers);
  for (uint32_t r = 0; r < 1u << n->registers; r++) {
    if (r >> place & 1) continue;
    item *a = &s->regs[r], *b = &s->regs[r | 1u << place], sent = choose(s, is_upper, *a, *b);
    *a = choose(s, is_upper, *b, *a);
    *b = shuffled(s, sent, lane - n->registers);
  }
}

/// Of a thread's element and its partner's: the greater where `is_upper`, else the lesser.
static item own_of(const sorter *s, LLVMValueRef is_upper, item own, item other) {
  LLVMBuilderRef b = s->g->builder;
  LLVMValueRef is_less = LLVMBuildICmp(b, LLVMIntSLT, value_of(s, other), value_of(s, own), "");
  return choose(s, LLVMBuildXor(b, is_less, is_upper, ""), other, own);
}

static void compare_lanes(sorter *s, const kiln_network *n, unsigned lane) {
  for (uint32_t r = 0; r < 1u << n->registers; r++)
    s->regs[r] = own_of(s, thread_bit(s, lane), s->regs[r], shuffled(s, s->regs[r], lane));
}

static void compare(void *context, const kiln_network *n, unsigned place, uint32_t falling) {
  sorter *s = context;
  apply_pending(s, n->registers);
  if (place >= n->registers) {
    compare_lanes(s, n, place - n->registers);
    return;
  }
  for (uint32_t r = 0; r < 1u << n->registers; r++) {
    if (r >> place & 1) continue;
    bool falls = (r & falling) != 0;
    order(s, &s->regs[falls ? r | 1u << place : r], &s->regs[falls ? r : r | 1u << place]);
  }
}

static void end_stage(void *context) {
  const sorter *s = context;
  if (s->g->machine->cut_schedule) s->g->machine->cut_schedule(s->g);
}

/// Compares what lies `gap` apart in two sorted halves of 2 `half`, in the run that begins in register
/// `base`.
static void compare_gap(sorter *s, const kiln_network *n, uint32_t base, uint32_t half, uint32_t gap,
                        bool falls) {
  uint32_t size = 1u << n->run;
  for (uint32_t i = gap % half; i + gap < size; i++) {
    bool is_lower = !((i - gap % half) & gap);
    if (!is_lower || i / (2 * half) != (i + gap) / (2 * half)) continue;
    item *a = &s->regs[kiln_network_register(n, base, i)],
         *b = &s->regs[kiln_network_register(n, base, i + gap)];
    order(s, falls ? b : a, falls ? a : b);
  }
}

static void sort_runs(void *context, const kiln_network *n, uint32_t falling) {
  sorter *s = context;
  apply_pending(s, n->registers);
  uint32_t own = kiln_network_register(n, 0, (1u << n->run) - 1);
  for (uint32_t half = 1; half < 1u << n->run; half *= 2)
    for (uint32_t gap = half; gap; gap /= 2) {
      for (uint32_t base = 0; base < 1u << n->registers; base++)
        if (!(base & own)) compare_gap(s, n, base, half, gap, (base & falling) != 0);
      end_stage(s);
    }
}

static void halve(void *context, const kiln_network *n, unsigned place) {
  sorter *s = context;
  apply_pending(s, n->registers);
  if (place >= n->registers)
    s->regs[0] = lesser(s, s->regs[0], shuffled(s, s->regs[0], place - n->registers));
  uint32_t low = (1u << place) - 1;
  for (uint32_t r = 0; place < n->registers && r < 1u << (n->registers - 1); r++) {
    uint32_t from = (r & low) | (r & ~low) << 1; // r <= from: nothing still needed is overwritten
    s->regs[r] = lesser(s, s->regs[from], s->regs[from | 1u << place]);
  }
}

static void end(void *context, const kiln_network *n) { apply_pending(context, n->registers); }

// ------------------------------------------------------------------------------------- runs in a loop

/// All words as they are now, which are to be those of a phi each.
typedef struct words {
  item *items;
  LLVMBasicBlockRef block; ///< they are these at its end
} words;

static words words_now(sorter *s, const kiln_network *n) {
  words w = {KILN_NEW_ARRAY(s->g->arena, item, (size_t)1 << n->registers), LLVMGetInsertBlock(s->g->builder)};
  memcpy(w.items, s->regs, sizeof *w.items << n->registers);
  return w;
}

/// Phis in the block that has just been begun; the words are these now.
static words begin_phis(sorter *s, const kiln_network *n) {
  for (uint32_t r = 0; r < 1u << n->registers; r++) {
    s->regs[r].low = LLVMBuildPhi(s->g->builder, word_type(s), "");
    if (s->is_split) s->regs[r].high = LLVMBuildPhi(s->g->builder, word_type(s), "");
  }
  return words_now(s, n);
}

static void come_from(const sorter *s, const kiln_network *n, const words *phis, words from) {
  for (uint32_t r = 0; r < 1u << n->registers; r++) {
    LLVMAddIncoming(phis->items[r].low, &from.items[r].low, &from.block, 1);
    if (s->is_split) LLVMAddIncoming(phis->items[r].high, &from.items[r].high, &from.block, 1);
  }
}

/// Shared memory in which a thread gives its words to another one: by pieces of 16 bytes, or all in one.
typedef struct mailbox {
  unsigned log2_count; ///< words of a piece
  unsigned log2_bytes; ///< of a piece
  LLVMTypeRef type;
} mailbox;

static mailbox open_mailbox(const sorter *s, const kiln_network *n) {
  unsigned most = s->is_wide ? 1 : 2, count = most < n->registers ? most : n->registers;
  return (mailbox){.log2_count = count,
                   .log2_bytes = count + (s->is_wide ? 3 : 2),
                   .type = LLVMVectorType(s->is_wide ? s->g->i64 : s->g->i32, 1u << count)};
}

/// The piece of that thread which begins at register `r`.
static LLVMValueRef piece_of(sorter *s, const kiln_network *n, const mailbox *m, LLVMValueRef thread,
                             uint32_t r) {
  gpu *g = s->g;
  uint32_t first = (r >> m->log2_count << (n->lanes + n->warps + m->log2_bytes)) + g->scratch_base;
  LLVMValueRef at = LLVMBuildShl(g->builder, thread, gpu_i32(g, m->log2_bytes), "");
  at = LLVMBuildAdd(g->builder, at, gpu_i32(g, first), "");
  return LLVMBuildGEP2(g->builder, g->i8, g->shared, &at, 1, "");
}

static void put_words(sorter *s, const kiln_network *n, const mailbox *m) {
  LLVMBuilderRef b = s->g->builder;
  for (uint32_t r = 0; r < 1u << n->registers; r += 1u << m->log2_count) {
    LLVMValueRef piece = LLVMGetPoison(m->type);
    for (uint32_t i = 0; i < 1u << m->log2_count; i++)
      piece = LLVMBuildInsertElement(b, piece, value_of(s, s->regs[r + i]), gpu_i32(s->g, i), "");
    LLVMValueRef store = LLVMBuildStore(b, piece, piece_of(s, n, m, s->g->thread, r));
    LLVMSetAlignment(store, 1u << m->log2_bytes);
  }
}

/// Compares all words with those of the thread whose number differs by `mask`.
static void compare_far(sorter *s, const kiln_network *n, LLVMValueRef mask) {
  gpu *g = s->g;
  LLVMBuilderRef b = g->builder;
  mailbox m = open_mailbox(s, n);
  LLVMValueRef partner = LLVMBuildXor(b, g->thread, mask, ""),
               is_upper = LLVMBuildICmp(b, LLVMIntUGT, g->thread, partner, "");
  gpu_barrier(g);
  put_words(s, n, &m);
  gpu_barrier(g);
  for (uint32_t r = 0; r < 1u << n->registers; r += 1u << m.log2_count) {
    LLVMValueRef piece = LLVMBuildLoad2(b, m.type, piece_of(s, n, &m, partner, r), "");
    LLVMSetAlignment(piece, 1u << m.log2_bytes);
    for (uint32_t i = 0; i < 1u << m.log2_count; i++) {
      item other = item_of(s, LLVMBuildExtractElement(b, piece, gpu_i32(g, i), ""));
      s->regs[r + i] = own_of(s, is_upper, s->regs[r + i], other);
    }
  }
}

/// Compares what lies in different warps, from the farthest: 2^`bit` threads.
static void merge_warps(sorter *s, const kiln_network *n, LLVMValueRef bit) {
  gpu *g = s->g;
  LLVMBuilderRef b = g->builder;
  LLVMBasicBlockRef header = gpu_block(g, "far"), body = gpu_block(g, "warps"), near = gpu_block(g, "near");
  words before = words_now(s, n);
  LLVMValueRef first = LLVMBuildShl(b, gpu_i32(g, 1), bit, "");
  LLVMBuildBr(b, header);
  LLVMPositionBuilderAtEnd(b, header);
  LLVMValueRef mask = LLVMBuildPhi(b, g->i32, "");
  words phis = begin_phis(s, n);
  LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntUGE, mask, gpu_i32(g, 1u << n->lanes), ""), body, near);
  LLVMPositionBuilderAtEnd(b, body);
  compare_far(s, n, mask);
  LLVMValueRef masks[2] = {first, LLVMBuildLShr(b, mask, gpu_i32(g, 1), "")};
  words compared = words_now(s, n);
  LLVMBuildBr(b, header);
  LLVMAddIncoming(mask, masks, (LLVMBasicBlockRef[2]){before.block, compared.block}, 2);
  come_from(s, n, &phis, before);
  come_from(s, n, &phis, compared);
  LLVMPositionBuilderAtEnd(b, near);
  memcpy(s->regs, phis.items, sizeof *s->regs << n->registers);
}

/// Compares lanes that differ in bit `lane`, unless runs are shorter: their halves differ in bit `bit`.
static void merge_lane(sorter *s, const kiln_network *n, LLVMValueRef bit, unsigned lane) {
  gpu *g = s->g;
  LLVMBuilderRef b = g->builder;
  LLVMBasicBlockRef inside = gpu_block(g, "lanes"), after = gpu_block(g, "compared");
  words before = words_now(s, n);
  LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntUGE, bit, gpu_i32(g, lane), ""), inside, after);
  LLVMPositionBuilderAtEnd(b, inside);
  compare_lanes(s, n, lane);
  end_stage(s);
  words compared = words_now(s, n);
  LLVMBuildBr(b, after);
  LLVMPositionBuilderAtEnd(b, after);
  words phis = begin_phis(s, n);
  come_from(s, n, &phis, before);
  come_from(s, n, &phis, compared);
}

/// The body of the loop: runs whose halves are in threads that differ in bit `bit`. `turns`: bit i says that
/// runs of one length are to fall where those of the next rise, or the other way round.
static void merge_runs(sorter *s, const kiln_network *n, LLVMValueRef bit, LLVMValueRef turns) {
  LLVMBuilderRef b = s->g->builder;
  const unsigned bits = n->bits - n->registers;
  LLVMValueRef turn = LLVMBuildTrunc(b, LLVMBuildLShr(b, turns, bit, ""), s->g->i1, "");
  turn = LLVMBuildSExt(b, turn, word_type(s), "");
  for (uint32_t r = 0; r < 1u << n->registers; r++) flip(s, &s->regs[r], turn);
  if (bits > n->lanes) merge_warps(s, n, bit);
  for (unsigned lane = bits < n->lanes ? bits : n->lanes; lane-- > 0;) merge_lane(s, n, bit, lane);
  for (unsigned place = n->registers; place-- > 0;) {
    compare(s, n, place, 0);
    end_stage(s);
  }
}

/// Runs that are to fall are complemented while they are merged.
static void merge_rows(void *context, const kiln_network *n) {
  sorter *s = context;
  gpu *g = s->g;
  LLVMBuilderRef b = g->builder;
  const unsigned bits = n->bits - n->registers;
  const bool is_far = bits > n->lanes;
  complement(s, n, n->registers);
  apply_pending(s, n->registers);
  LLVMValueRef own = LLVMBuildAnd(b, g->thread, gpu_i32(g, (1u << bits) - 1), ""),
               turns = LLVMBuildXor(b, own, LLVMBuildLShr(b, own, gpu_i32(g, 1), ""), "");
  for (unsigned i = 0; i < n->lanes && i < bits; i++) thread_bit(s, i); // before the loop
  if (is_far) gpu_scratch_begin(g, (uint64_t)(s->is_wide ? 8 : 4) << (n->registers + n->lanes + n->warps));
  words start = words_now(s, n);
  LLVMBasicBlockRef header = gpu_block(g, "runs"), after = gpu_block(g, "sorted");
  LLVMBuildBr(b, header);
  LLVMPositionBuilderAtEnd(b, header);
  LLVMValueRef bit = LLVMBuildPhi(b, g->i32, "");
  words phis = begin_phis(s, n);
  merge_runs(s, n, bit, turns);
  LLVMValueRef counts[2] = {gpu_i32(g, 0), LLVMBuildAdd(b, bit, gpu_i32(g, 1), "")};
  words end = words_now(s, n);
  LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntULT, counts[1], gpu_i32(g, bits), ""), header, after);
  LLVMAddIncoming(bit, counts, (LLVMBasicBlockRef[2]){start.block, end.block}, 2);
  come_from(s, n, &phis, start);
  come_from(s, n, &phis, end);
  LLVMPositionBuilderAtEnd(b, after);
  g->shared_dirty |= is_far;
}

void gpu_lower_sort(gpu *g, ir_op *op) {
  static const kiln_network_actions actions = {complement, exchange, trade,     compare, sort_runs,
                                               merge_rows, halve,    end_stage, end};
  const LLVMTypeRef element = gpu_type(g, ir_element(op->operands[0]->type));
  const kiln_layout start = *op->operand_layouts[0];
  if (!gpu_words_fit(g, op, "sort of", op->operands[0]->type, start.registers, GPU_MAX_SORTED)) return;
  gpu_tile from = gpu_operand(g, op, 0);
  if (g->status != KILN_OK) return;
  sorter s = {.g = g, .is_wide = element == g->i64};
  s.is_split = s.is_wide && g->machine->has_split_choice;
  s.regs = KILN_NEW_ARRAY(g->arena, item, (size_t)1 << start.registers);
  for (uint32_t r = 0; r < 1u << start.registers; r++)
    s.regs[r] = item_of(&s, LLVMBuildSExt(g->builder, from.regs[r], s.is_wide ? g->i64 : g->i32, ""));
  kiln_layout layout = kiln_network_run(op, &start, &actions, &s);
  gpu_tile out = gpu_tile_new(g, &layout);
  for (uint32_t r = 0; r < 1u << layout.registers; r++)
    out.regs[r] = LLVMBuildTrunc(g->builder, value_of(&s, s.regs[r]), element, "");
  gpu_set_home(g, &op->results[0], out);
}

// -------------------------------------------------------------------------------------------- gather

/// Number in the source of an element of the result, but for the axis.
static uint32_t source_element(const ir_op *op, uint32_t element) {
  unsigned axis = op->attrs.axis, inner = layout_axis_shift(op->results[0].type, axis);
  uint32_t low = element & ((1u << inner) - 1), high = element >> inner >> op->results[0].type.log2[axis];
  return low | high << inner << op->operands[0]->type.log2[axis];
}

/// Every thread writes what it has of the source, row-major, and reads the elements that its indices name.
void gpu_lower_gather(gpu *g, ir_op *op) {
  ir_value *source = op->operands[0];
  ir_type element = ir_element(source->type);
  LLVMTypeRef type = gpu_type(g, element);
  const kiln_layout home = *op->operand_layouts[1], l = *op->operand_layouts[0];
  gpu_tile from = gpu_operand(g, op, 0), index = gpu_operand(g, op, 1), out = gpu_tile_new(g, &home);
  if (g->status != KILN_OK) return;
  unsigned log2_bytes = (unsigned)__builtin_ctz(gpu_bytes_of(g, type)), axis = op->attrs.axis,
           inner = layout_axis_shift(source->type, axis);
  layout_memory memory = {.bits = l.bits};
  for (unsigned i = 0; i < l.bits; i++) memory.offset[i] = 1u << i;
  gpu_scratch_begin(g, (uint64_t)1 << (l.bits + log2_bytes));
  gpu_write_tile(g, &from, &memory, log2_bytes, g->scratch_base);
  gpu_barrier(g);
  uint32_t basis[LAYOUT_MAX_PLACES] = {0}, mask = (1u << source->type.log2[axis]) - 1;
  for (unsigned i = 0; i < layout_thread_bits(&home); i++)
    basis[i] = source_element(op, home.basis[home.registers + i]);
  LLVMValueRef base = gpu_thread_bits(g, basis, layout_thread_bits(&home));
  for (uint32_t r = 0; r < 1u << home.registers; r++) {
    uint32_t own = source_element(op, layout_element(&home, r));
    LLVMValueRef at = LLVMBuildAnd(g->builder, index.regs[r], gpu_i32(g, mask), "");
    at = LLVMBuildShl(g->builder, at, gpu_i32(g, inner), "");
    at = LLVMBuildOr(g->builder, at, LLVMBuildXor(g->builder, base, gpu_i32(g, own), ""), "");
    at = LLVMBuildShl(g->builder, at, gpu_i32(g, log2_bytes), "");
    at = LLVMBuildAdd(g->builder, at, gpu_i32(g, g->scratch_base), "");
    LLVMValueRef pointer = LLVMBuildGEP2(g->builder, g->i8, g->shared, &at, 1, "");
    LLVMValueRef load = LLVMBuildLoad2(g->builder, gpu_packed_type(g, 1u << log2_bytes), pointer, "");
    LLVMSetAlignment(load, 1u << log2_bytes);
    gpu_unpack(g, load, type, &out.regs[r], 1);
  }
  g->shared_dirty = true;
  gpu_set_home(g, &op->results[0], out);
}
