// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sort: what is done to the elements at the steps of the network (compiler/gpu/layouts/sort_network.c);
// gather: through shared memory.
#include "compiler/codegen/gpu/gpu_lower.h"
#include "compiler/gpu/layouts/sort_network.h"

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

static void compare_lanes(sorter *s, unsigned lane) {
  item own = s->regs[0], other = shuffled(s, own, lane);
  order(s, &own, &other);
  s->regs[0] = choose(s, thread_bit(s, lane), other, own);
}

static void compare(void *context, const kiln_network *n, unsigned place, uint32_t falling) {
  sorter *s = context;
  apply_pending(s, n->registers);
  if (place >= n->registers) {
    compare_lanes(s, place - n->registers);
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

void gpu_lower_sort(gpu *g, ir_op *op) {
  static const kiln_network_actions actions = {complement, exchange, trade,     compare,
                                               sort_runs,  halve,    end_stage, end};
  const LLVMTypeRef element = gpu_type(g, ir_element(op->operands[0]->type));
  const kiln_layout start = *op->takes[0];
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
  const kiln_layout home = *op->takes[1], l = *op->takes[0];
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
    LLVMValueRef pointer = gpu_shared_at(g, LLVMBuildAdd(g->builder, at, gpu_i32(g, g->scratch_base), ""));
    LLVMValueRef load = LLVMBuildLoad2(g->builder, gpu_packed_type(g, 1u << log2_bytes), pointer, "");
    LLVMSetAlignment(load, 1u << log2_bytes);
    gpu_unpack(g, load, type, &out.regs[r], 1);
  }
  g->shared_dirty = true;
  gpu_set_home(g, &op->results[0], out);
}
