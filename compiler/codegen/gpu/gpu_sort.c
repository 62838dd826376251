// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sort: a bitonic network over the bits of the place in the row, wherever these lie; gather: through shared
// memory.
//
// Bit i of a row's place is held by one machine bit: of the register number, the lane or the warp. Which
// holds which is free at the start, as the order that elements come in means nothing. A stage compares
// elements whose places differ in one bit. That bit is brought into the registers first: from the lanes by
// trading places with the register bit that is needed last, which takes one shuffle for two elements; from
// the warps by an exchange of the tile through shared memory, which brings in as many of the next stages'
// bits as there is room for. What results is a layout with the bits where the last stage left them.
//
// Runs that are to be in falling order are complemented while they are merged, where the bit that says so is
// one of the thread; in registers minimum and maximum trade places.
//
// When 2^k of 2^n elements are wanted, runs of 2^k are sorted, half of them falling. The lesser elements of a
// rising and a falling run are the least of both; they are merged to a run again, until one is left.
//
// What a thread's registers hold at the start is sorted by Batcher's odd-even merging, which compares less
// often than a bitonic network (16 elements: 63 times, not 80) but has no stages that threads could share.
#include <string.h>

#include "compiler/codegen/gpu/gpu_lower.h"

enum { NO_BIT = -1, FAR = 1 << 10 };

/// What a machine bit holds: a bit of the place in the row, or of the number of the row, or nothing.
typedef struct holder {
  int bit;      ///< of the row's place; NO_BIT
  uint32_t row; ///< basis within the number of the row
} holder;

/// An element of one word, or of 64 bits as two where machines choose words of 32.
typedef struct item {
  LLVMValueRef low, high; ///< `high` is NULL in elements of one word
} item;

typedef struct network {
  gpu *g;
  ir_type element;
  unsigned bits, kept; ///< log2 of the elements of a row that are left, and that are wanted
  unsigned rows;       ///< log2
  unsigned registers, lanes, warps;
  holder at[LAYOUT_MAX_PLACES];               ///< registers, lanes, warps
  unsigned run;                               ///< log2 of the runs that are being made
  bool is_turned;                             ///< runs that shall fall are complemented
  bool is_wide, is_split;                     ///< elements have 64 bits, and are two words
  item *regs;                                 ///< NULL: only the layout is asked for
  LLVMValueRef pending;                       ///< to be XORed to all words; NULL: nothing
  LLVMValueRef thread_bit[LAYOUT_MAX_PLACES]; ///< i1, made when first asked for
} network;

static unsigned places(const network *n) { return n->registers + n->lanes + n->warps; }

static unsigned place_of(const network *n, unsigned bit) {
  unsigned p = 0;
  while (n->at[p].bit != (int)bit) p++;
  return p;
}

// -------------------------------------------------------------------------------------------- layout

/// Every machine bit holds bits of the axis or of the rows, and none says what others say.
static bool is_plain(const kiln_layout *l, uint32_t axis) {
  uint32_t replicas = layout_replicas(l);
  for (unsigned i = 0; i < layout_places(l); i++) {
    if (l->basis[i] & axis && l->basis[i] & ~axis) return false;
    if (i >= l->registers && replicas >> (i - l->registers) & 1 && l->basis[i]) return false;
  }
  return true;
}

static kiln_layout start_layout(gpu *g, const ir_op *op) {
  ir_type type = op->operands[0]->type;
  kiln_layout layout;
  uint32_t axis = layout_axis_mask(type, type.rank - 1u);
  if (gpu_suggestion(g, op->operands[0], &layout) && is_plain(&layout, axis)) return layout;
  return gpu_default_layout(g, type);
}

static network open_network(gpu *g, const ir_op *op, const kiln_layout *l) {
  ir_type from = op->operands[0]->type, to = op->results[0].type;
  network n = {.g = g,
               .element = ir_element(from),
               .bits = from.log2[from.rank - 1],
               .kept = to.log2[to.rank - 1],
               .registers = l->registers,
               .lanes = l->lanes,
               .warps = l->warps};
  n.rows = l->bits - n.bits;
  uint32_t axis = (1u << n.bits) - 1;
  int next = 0;
  for (unsigned i = 0; i < places(&n); i++)
    n.at[i] = (holder){l->basis[i] & axis ? next++ : NO_BIT, l->basis[i] >> n.bits};
  return n;
}

static kiln_layout layout_now(const network *n) {
  kiln_layout l = {.bits = (uint8_t)(n->rows + n->bits),
                   .registers = (uint8_t)n->registers,
                   .lanes = (uint8_t)n->lanes,
                   .warps = (uint8_t)n->warps};
  for (unsigned i = 0; i < places(n); i++)
    l.basis[i] = n->at[i].bit >= 0 ? 1u << n->at[i].bit : n->at[i].row << n->bits;
  return l;
}

/// How many stages from now, while bit `now` is compared, bit `bit` is.
static unsigned distance(const network *n, unsigned now, int bit) {
  if (bit < 0) return 2 * FAR;
  unsigned b = (unsigned)bit;
  if (b <= now) return now - b;
  return b <= n->run ? now + 1 + n->run - b : FAR + b;
}

// ------------------------------------------------------------------------------------------ elements

static LLVMValueRef thread_bit(network *n, unsigned place) {
  unsigned i = place - n->registers;
  gpu *g = n->g;
  if (!n->thread_bit[i]) {
    LLVMValueRef bit = LLVMBuildAnd(g->builder, g->thread, gpu_i32(g, 1u << i), "");
    n->thread_bit[i] = LLVMBuildICmp(g->builder, LLVMIntNE, bit, gpu_i32(g, 0), "");
  }
  return n->thread_bit[i];
}

static LLVMTypeRef word_type(const network *n) { return n->is_wide && !n->is_split ? n->g->i64 : n->g->i32; }

static void flip(network *n, item *e, LLVMValueRef mask) {
  e->low = LLVMBuildXor(n->g->builder, e->low, mask, "");
  if (n->is_split) e->high = LLVMBuildXor(n->g->builder, e->high, mask, "");
}

static void apply_pending(network *n) {
  if (!n->pending) return;
  for (uint32_t r = 0; r < 1u << n->registers; r++) flip(n, &n->regs[r], n->pending);
  n->pending = NULL;
}

/// Complements the elements whose bit at `place` is set.
static void complement(network *n, unsigned place) {
  gpu *g = n->g;
  n->is_turned = !n->is_turned;
  if (!n->regs) return;
  if (place >= n->registers) {
    LLVMValueRef mask = LLVMBuildSExt(g->builder, thread_bit(n, place), word_type(n), "");
    n->pending = n->pending ? LLVMBuildXor(g->builder, n->pending, mask, "") : mask;
    return;
  }
  for (uint32_t r = 0; r < 1u << n->registers; r++)
    if (r >> place & 1) flip(n, &n->regs[r], LLVMConstAllOnes(word_type(n)));
}

/// Falling runs are complemented when threads hold the bit that says which fall.
static void settle_turn(network *n) {
  if (n->run >= n->bits) return;
  unsigned place = place_of(n, n->run);
  if ((place >= n->registers) != n->is_turned) complement(n, place);
}

static void end_turn(network *n) {
  if (n->is_turned) complement(n, place_of(n, n->run));
}

static item choose(const network *n, LLVMValueRef is_first, item a, item b) {
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

static LLVMValueRef value_of(const network *n, item e) { return n->is_split ? joined(n->g, e) : e.low; }

static item item_of(const network *n, LLVMValueRef v) {
  return n->is_split ? split(n->g, v) : (item){v, NULL};
}

/// The lesser and the greater of two. The compiler for NVIDIA makes two comparisons of a minimum and a
/// maximum of 64 bits, and of one comparison and two choices: the greater is what remains, one three-way XOR
/// a word.
static void order(const network *n, item *low, item *high) {
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

static item shuffled(const network *n, item e, unsigned lane) {
  gpu *g = n->g;
  unsigned mask = 1u << (lane - n->registers);
  if (!n->is_wide) return (item){gpu_shuffle_xor(g, e.low, mask), NULL};
  if (!n->is_split) e = split(g, e.low);
  e = (item){gpu_shuffle_xor(g, e.low, mask), gpu_shuffle_xor(g, e.high, mask)};
  return n->is_split ? e : (item){joined(g, e), NULL};
}

// ------------------------------------------------------------------------------ bits into registers

/// Through shared memory: the bits that are needed next into registers, then lanes.
static void exchange_warps(network *n, unsigned bit) {
  kiln_layout from = layout_now(n);
  holder held[LAYOUT_MAX_PLACES];
  unsigned count = 0;
  for (unsigned i = 0; i < places(n); i++) {
    holder x = n->at[i];
    if (x.bit < 0 && !x.row) continue;
    unsigned k = count++;
    for (; k && distance(n, bit, held[k - 1].bit) > distance(n, bit, x.bit); k--) held[k] = held[k - 1];
    held[k] = x;
  }
  for (unsigned i = 0; i < places(n); i++) n->at[i] = i < count ? held[i] : (holder){NO_BIT, 0};
  if (!n->regs) return;
  apply_pending(n);
  gpu *g = n->g;
  kiln_layout to = layout_now(n);
  gpu_tile tile = gpu_tile_new(g, &from);
  for (uint32_t r = 0; r < 1u << n->registers; r++) tile.regs[r] = value_of(n, n->regs[r]);
  tile = gpu_convert(g, &tile, ir_scalar_type(n->is_wide ? KILN_I64 : KILN_I32), &to);
  for (uint32_t r = 0; r < 1u << n->registers; r++) n->regs[r] = item_of(n, tile.regs[r]);
}

static unsigned victim(const network *n, unsigned bit) {
  unsigned best = 0;
  for (unsigned i = 1; i < n->registers; i++)
    if (distance(n, bit, n->at[i].bit) > distance(n, bit, n->at[best].bit)) best = i;
  return best;
}

/// Lane bit and register bit trade places. A thread keeps the elements whose register bit is its lane bit;
/// the order of the two that it then has does not matter, as they are compared at once.
static void trade_lane(network *n, unsigned lane, unsigned place) {
  holder x = n->at[lane];
  n->at[lane] = n->at[place];
  n->at[place] = x;
  if (!n->regs) return;
  apply_pending(n);
  LLVMValueRef is_upper = thread_bit(n, lane);
  for (uint32_t r = 0; r < 1u << n->registers; r++) {
    if (r >> place & 1) continue;
    item *a = &n->regs[r], *b = &n->regs[r | 1u << place], sent = choose(n, is_upper, *a, *b);
    *a = choose(n, is_upper, *b, *a);
    *b = shuffled(n, sent, lane);
  }
}

/// The place of the bit once it is in a register, or in a lane where there are no registers to choose from.
static unsigned bring(network *n, unsigned bit) {
  unsigned place = place_of(n, bit);
  if (place >= n->registers + n->lanes) exchange_warps(n, bit), place = place_of(n, bit);
  if (place < n->registers || !n->registers) return place;
  unsigned to = victim(n, bit);
  trade_lane(n, place, to);
  return to;
}

// -------------------------------------------------------------------------------------------- stages

static void compare_lanes(network *n, unsigned lane) {
  item own = n->regs[0], other = shuffled(n, own, lane);
  order(n, &own, &other);
  n->regs[0] = choose(n, thread_bit(n, lane), other, own);
}

static void compare(network *n, unsigned bit) {
  unsigned place = bring(n, bit);
  settle_turn(n);
  if (!n->regs) return;
  apply_pending(n);
  if (place >= n->registers) {
    compare_lanes(n, place);
    return;
  }
  unsigned turn = n->run < n->bits && !n->is_turned ? place_of(n, n->run) : n->registers;
  uint32_t falling = turn < n->registers ? 1u << turn : 0;
  for (uint32_t r = 0; r < 1u << n->registers; r++) {
    if (r >> place & 1) continue;
    bool falls = (r & falling) != 0;
    order(n, &n->regs[falls ? r | 1u << place : r], &n->regs[falls ? r : r | 1u << place]);
  }
}

static void cut_schedule(network *n) {
  if (n->regs && n->g->machine->cut_schedule) n->g->machine->cut_schedule(n->g);
}

static void merge(network *n) {
  settle_turn(n);
  for (unsigned bit = n->run; bit-- > 0;) {
    compare(n, bit);
    cut_schedule(n);
  }
  end_turn(n);
}

static item lesser(const network *n, item a, item b) {
  order(n, &a, &b);
  return a;
}

static void forget(network *n, unsigned place) {
  if (place < n->registers) {
    memmove(n->at + place, n->at + place + 1, (LAYOUT_MAX_PLACES - 1 - place) * sizeof *n->at);
    n->registers--;
  } else {
    n->at[place].bit = NO_BIT;
  }
  for (unsigned i = 0; i < places(n); i++)
    if (n->at[i].bit > (int)n->kept) n->at[i].bit--;
  n->bits--;
}

/// Runs that differ in bit `kept` alone, one rising, one falling: the lesser elements of both are left.
static void halve(network *n) {
  unsigned place = bring(n, n->kept);
  if (n->regs) {
    apply_pending(n);
    if (place >= n->registers) n->regs[0] = lesser(n, n->regs[0], shuffled(n, n->regs[0], place));
    uint32_t low = (1u << place) - 1;
    for (uint32_t r = 0; place < n->registers && r < 1u << (n->registers - 1); r++) {
      uint32_t from = (r & low) | (r & ~low) << 1; // r <= from: nothing still needed is overwritten
      n->regs[r] = lesser(n, n->regs[from], n->regs[from | 1u << place]);
    }
  }
  forget(n, place);
}

/// Register of element i of the run that begins in register `base`.
static uint32_t register_of(const network *n, uint32_t base, uint32_t i) {
  for (unsigned bit = 0; bit < n->run; bit++)
    if (i >> bit & 1) base |= 1u << place_of(n, bit);
  return base;
}

/// Compares what lies `gap` apart in two sorted halves of 2 `half`, in the run that begins in register
/// `base`.
static void compare_gap(network *n, uint32_t base, uint32_t half, uint32_t gap, bool falls) {
  uint32_t size = 1u << n->run;
  for (uint32_t i = gap % half; i + gap < size; i++) {
    bool is_lower = !((i - gap % half) & gap);
    if (!is_lower || i / (2 * half) != (i + gap) / (2 * half)) continue;
    item *a = &n->regs[register_of(n, base, i)], *b = &n->regs[register_of(n, base, i + gap)];
    order(n, falls ? b : a, falls ? a : b);
  }
}

/// Runs of 2^run that threads hold whole.
static void sort_registers(network *n) {
  settle_turn(n);
  if (n->regs) apply_pending(n);
  uint32_t own = register_of(n, 0, (1u << n->run) - 1);
  unsigned turn = n->run < n->bits && !n->is_turned ? place_of(n, n->run) : n->registers;
  uint32_t falling = turn < n->registers ? 1u << turn : 0;
  for (uint32_t half = 1; n->regs && half < 1u << n->run; half *= 2)
    for (uint32_t gap = half; gap; gap /= 2) {
      for (uint32_t base = 0; base < 1u << n->registers; base++)
        if (!(base & own)) compare_gap(n, base, half, gap, (base & falling) != 0);
      cut_schedule(n);
    }
  end_turn(n);
}

/// log2 of the runs that threads hold whole, once they have brought them from other lanes.
static unsigned hold_run(network *n) {
  unsigned bits = 0;
  while (bits < n->kept && bits < n->registers && place_of(n, bits) < n->registers + n->lanes) bits++;
  n->run = bits;
  for (unsigned bit = 0; bit < bits; bit++) bring(n, bit);
  return bits;
}

static void run_network(network *n) {
  n->run = hold_run(n);
  if (n->run) sort_registers(n);
  while (++n->run <= n->kept) merge(n);
  n->run = n->kept;
  while (n->bits > n->kept) {
    halve(n);
    merge(n);
  }
  if (n->regs) apply_pending(n);
}

kiln_layout gpu_sort_layout(gpu *g, const ir_op *op) {
  kiln_layout start = start_layout(g, op);
  network n = open_network(g, op, &start);
  run_network(&n);
  return layout_now(&n);
}

void gpu_lower_sort(gpu *g, ir_op *op) {
  kiln_layout start = start_layout(g, op);
  if (!gpu_words_fit(g, op, "sort of", op->operands[0]->type, start.registers, GPU_MAX_SORTED)) return;
  gpu_tile from = gpu_tile_in(g, op->operands[0], &start);
  if (g->status != KILN_OK) return;
  network n = open_network(g, op, &start);
  n.is_wide = gpu_type(g, n.element) == g->i64;
  n.is_split = n.is_wide && g->machine->has_split_choice;
  n.regs = KILN_NEW_ARRAY(g->arena, item, (size_t)1 << n.registers);
  for (uint32_t r = 0; r < 1u << n.registers; r++)
    n.regs[r] = item_of(&n, LLVMBuildSExt(g->builder, from.regs[r], n.is_wide ? g->i64 : g->i32, ""));
  run_network(&n);
  kiln_layout layout = layout_now(&n);
  gpu_tile out = gpu_tile_new(g, &layout);
  for (uint32_t r = 0; r < 1u << n.registers; r++)
    out.regs[r] = LLVMBuildTrunc(g->builder, value_of(&n, n.regs[r]), gpu_type(g, n.element), "");
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
  kiln_layout home = gpu_gather_layout(g, op),
              l = gpu_suggestion(g, source, &l) ? l : gpu_default_layout(g, source->type);
  gpu_tile from = gpu_tile_in(g, source, &l), index = gpu_tile_in(g, op->operands[1], &home),
           out = gpu_tile_new(g, &home);
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

kiln_layout gpu_gather_layout(gpu *g, const ir_op *op) {
  kiln_layout layout;
  return gpu_suggestion(g, op->operands[1], &layout) ? layout : gpu_default_layout(g, op->results[0].type);
}
