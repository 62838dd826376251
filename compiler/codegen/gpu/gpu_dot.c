// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// dot: by the target's matrix instructions when a form fits, else by multiplies and adds over operands in
// shared memory.
#include <string.h>

#include "compiler/codegen/gpu/gpu_lower.h"

/// Logarithms of one dot, and how its tiles lie.
typedef struct shape {
  unsigned batch, m, n, k;
  ir_type left, right, accumulator;
} shape;

/// How many bits of each direction go to warps and, above one instruction, to registers.
typedef struct split {
  unsigned warp_batch, warp_m, warp_n;
  unsigned reg_batch, reg_m, reg_n, reg_k;
  /// The bit of the reduced index that stands for bit i of the instruction's, and behind those for the steps.
  uint8_t order[LAYOUT_MAX_BITS];
} split;

static shape shape_of(const ir_op *op) {
  ir_type a = op->operands[0]->type, b = op->operands[1]->type, c = op->operands[2]->type;
  unsigned r = a.rank;
  return (shape){.batch = r == 3 ? a.log2[0] : 0,
                 .m = a.log2[r - 2],
                 .n = b.log2[r - 1],
                 .k = a.log2[r - 1],
                 .left = a,
                 .right = b,
                 .accumulator = c};
}

static const gpu_matrix_form *find_form(gpu *g, const ir_op *op) {
  shape s = shape_of(op);
  for (size_t i = 0; i < g->machine->form_count; i++) {
    const gpu_matrix_form *f = &g->machine->forms[i];
    bool fits = f->units >> g->machine->matrix & 1 && f->lanes == 1u << g->lanes &&
                f->from_left == s.left.scalar && f->from_right == s.right.scalar && f->m <= s.m &&
                f->n <= s.n && f->k <= s.k;
    if (fits && (s.left.scalar != KILN_F32 || f->precision == op->attrs.precision)) return f;
  }
  return NULL;
}

// ----------------------------------------------------------------------------------------- layouts

static unsigned smaller(unsigned a, unsigned b) { return a < b ? a : b; }

static void count_dots(ir_op *op, void *context) { *(unsigned *)context += op->code == IR_DOT; }

/// Warps go to the batch, then where the warp's tile is longer; to rows first when dots are chained, so that
/// rows stay within a warp.
static split split_warps(gpu *g, const shape *s, unsigned m, unsigned n, unsigned k) {
  unsigned left = g->warps, dots = 0;
  split p = {.reg_m = s->m - m, .reg_n = s->n - n, .reg_k = s->k - k};
  ir_walk(g->kernel->body, count_dots, &dots);
  p.warp_batch = smaller(left, s->batch);
  p.reg_batch = s->batch - p.warp_batch;
  for (left -= p.warp_batch; left && (p.reg_m || p.reg_n); left--) {
    bool to_rows = p.reg_m && (dots > 1 || !p.reg_n || p.reg_m + m >= p.reg_n + n);
    if (to_rows) p.reg_m--, p.warp_m++;
    else p.reg_n--, p.warp_n++;
  }
  return p;
}

/// Where the bits of rows, columns, reduced index and batch lie in an operand; -1: not there.
typedef struct places {
  int m, n, k, batch;
  const uint8_t *order; ///< of the reduced index
} places;

static uint32_t bit_of(const places *at, uint8_t code) {
  if (code == GPU_NO_BIT) return 0;
  bool is_reduced = code >= GPU_K(0);
  int base = is_reduced ? at->k : code >= GPU_N(0) ? at->n : at->m;
  return base < 0 ? 0 : 1u << ((unsigned)base + (is_reduced ? at->order[code % 32] : code % 32u));
}

typedef struct maker {
  kiln_layout layout;
  unsigned at;
} maker;

static void add(maker *x, uint32_t basis) { x->layout.basis[x->at++] = basis; }

static void add_run(maker *x, int base, unsigned from, unsigned count) {
  for (unsigned i = 0; i < count; i++) add(x, base < 0 ? 0 : 1u << ((unsigned)base + from + i));
}

/// Steps of the reduced index beyond one instruction.
static void add_steps(maker *x, const places *at, unsigned from, unsigned count) {
  for (unsigned i = 0; i < count; i++) add(x, 1u << ((unsigned)at->k + at->order[from + i]));
}

static unsigned add_list(maker *x, const places *at, const uint8_t *codes) {
  unsigned count = 0;
  while (codes[count] != GPU_END) add(x, bit_of(at, codes[count++]));
  return count;
}

/// Registers: those of the instruction, then `inner` (reduced index or columns), rows or columns, batch.
/// Lanes: the instruction's. Warps: columns, rows, batch, from the high bits.
static kiln_layout make_layout(gpu *g, const gpu_matrix_form *f, const gpu_fragment *fragment,
                               const places *at, const split *p, unsigned bits) {
  maker x = {.layout = {.bits = (uint8_t)bits, .lanes = (uint8_t)g->lanes, .warps = (uint8_t)g->warps}};
  add_list(&x, at, fragment->registers);
  if (at->k >= 0) add_steps(&x, at, f->k, p->reg_k);
  if (at->n >= 0) add_run(&x, at->n, f->n, p->reg_n);
  if (at->m >= 0) add_run(&x, at->m, f->m, p->reg_m);
  add_run(&x, at->batch, 0, p->reg_batch);
  x.layout.registers = (uint8_t)x.at;
  add_list(&x, at, fragment->lanes);
  add_run(&x, at->n, f->n + p->reg_n, p->warp_n);
  add_run(&x, at->m, f->m + p->reg_m, p->warp_m);
  add_run(&x, at->batch, p->reg_batch, p->warp_batch);
  return x.layout;
}

typedef struct layouts {
  kiln_layout left, right, accumulator;
  split split;
} layouts;

static bool is_reduced(uint8_t code) { return code >= GPU_K(0) && code < GPU_END; }

static bool has_code(const uint8_t *codes, uint8_t code) {
  while (*codes != GPU_END && *codes != code) codes++;
  return *codes == code;
}

/// Both operands may take the reduced index in any order, the same one. What a thread holds comes first, of
/// as many steps as make GPU_MAX_VECTOR_BYTES, so that it reads pieces of that size.
static void order_for_memory(const shape *s, const gpu_matrix_form *f, split *p) {
  unsigned next = 0, bytes = kiln_scalars[s->left.scalar].bytes, extra = 0;
  for (unsigned i = 0; i < f->k; i++)
    if (has_code(f->left_fragment.registers, (uint8_t)GPU_K(i))) p->order[i] = (uint8_t)next++;
  while (extra < p->reg_k && bytes << (next + 1) <= GPU_MAX_VECTOR_BYTES)
    p->order[f->k + extra++] = (uint8_t)next++;
  for (unsigned i = 0; i < f->k; i++)
    if (!has_code(f->left_fragment.registers, (uint8_t)GPU_K(i))) p->order[i] = (uint8_t)next++;
  for (; extra < p->reg_k; extra++) p->order[f->k + extra] = (uint8_t)next++;
}

/// The order in which a left operand that lies in `from` needs not leave its thread; false when there is
/// none.
static bool order_for_registers(const shape *s, const gpu_matrix_form *f, const kiln_layout *from, split *p) {
  const uint8_t *lanes = f->left_fragment.lanes;
  const uint32_t reduced = (1u << s->k) - 1;
  uint32_t taken = 0;
  for (unsigned i = 0; lanes[i] != GPU_END; i++) {
    uint32_t basis = from->basis[from->registers + i];
    if (lanes[i] == GPU_NO_BIT) return false;
    if (!is_reduced(lanes[i]) && basis != 1u << (s->k + lanes[i])) return false;
    if (!is_reduced(lanes[i])) continue;
    if (!basis || basis & (basis - 1) || basis > reduced) return false;
    p->order[lanes[i] - GPU_K(0)] = (uint8_t)__builtin_ctz(basis);
    taken |= basis;
  }
  for (unsigned i = 0, next = 0; i < s->k; i++) {
    if (i < f->k && has_code(lanes, (uint8_t)GPU_K(i))) continue;
    while (taken >> next & 1) next++;
    p->order[i] = (uint8_t)next++;
  }
  return true;
}

/// The instruction takes rows and columns alike: exchanged operands give the exchanged product.
static bool is_symmetric(const gpu_matrix_form *f) {
  bool same = f->m == f->n && f->left == f->right;
  for (unsigned side = 0; side < 2 && same; side++) {
    const uint8_t *a = side ? f->left_fragment.lanes : f->left_fragment.registers,
                  *b = side ? f->right_fragment.lanes : f->right_fragment.registers;
    for (unsigned i = 0; same; i++) {
      bool is_row = a[i] < GPU_N(0);
      same = is_row ? b[i] == a[i] + GPU_N(0) : b[i] == a[i];
      if (a[i] == GPU_END) break;
    }
  }
  return same;
}

/// Accumulators of the exchanged product: a thread has neighbours of a row, which memory has in a row too,
/// and which are the left operand of a product with it.
static gpu_fragment exchanged(const gpu_fragment *f) {
  gpu_fragment out = *f;
  uint8_t *const lists[2] = {out.registers, out.lanes};
  for (unsigned side = 0; side < 2; side++)
    for (uint8_t *code = lists[side]; *code != GPU_END; code++)
      *code = *code < GPU_N(0)   ? (uint8_t)(*code + GPU_N(0))
              : *code < GPU_K(0) ? (uint8_t)(*code - GPU_N(0))
                                 : *code;
  return out;
}

static layouts form_layouts(gpu *g, const ir_op *op, const shape *s, const gpu_matrix_form *f) {
  layouts l = {.split = split_warps(g, s, f->m, f->n, f->k)};
  uint8_t *order = l.split.order;
  places a = {.k = 0, .m = (int)s->k, .n = -1, .batch = (int)(s->k + s->m), .order = order},
         b = {.n = 0, .k = (int)s->n, .m = -1, .batch = (int)(s->n + s->k), .order = order};
  places c = {.n = 0, .m = (int)s->n, .k = -1, .batch = (int)(s->n + s->m), .order = order};
  unsigned left_bits = s->batch + s->m + s->k;
  kiln_layout from;
  for (unsigned i = 0; i < LAYOUT_MAX_BITS; i++) order[i] = (uint8_t)i;
  bool is_in_place = is_symmetric(f) && gpu_suggestion(g, op->operands[0], &from) &&
                     order_for_registers(s, f, &from, &l.split);
  if (is_in_place) {
    l.left = make_layout(g, f, &f->left_fragment, &a, &l.split, left_bits);
    is_in_place = layout_convert(&from, &l.left).reach == LAYOUT_SAME_THREAD;
  }
  if (!is_in_place && is_symmetric(f)) order_for_memory(s, f, &l.split);
  gpu_fragment sums = is_symmetric(f) ? exchanged(&f->accumulator_fragment) : f->accumulator_fragment;
  l.left = make_layout(g, f, &f->left_fragment, &a, &l.split, left_bits);
  l.right = make_layout(g, f, &f->right_fragment, &b, &l.split, s->batch + s->k + s->n);
  l.accumulator = make_layout(g, f, &sums, &c, &l.split, s->batch + s->m + s->n);
  return l;
}

/// Without matrix instructions: four columns and four rows a thread where there are enough, lanes over
/// columns, then rows.
static kiln_layout plain_layout(gpu *g, const shape *s) {
  unsigned bits = s->batch + s->m + s->n, threads = g->lanes + g->warps,
           spare = bits > threads ? bits - threads : 0;
  unsigned columns = smaller(smaller(2, s->n), spare), rows = smaller(smaller(2, s->m), spare - columns),
           at = 0;
  kiln_layout l = {.bits = (uint8_t)bits, .lanes = (uint8_t)g->lanes, .warps = (uint8_t)g->warps};
  uint32_t order[LAYOUT_MAX_BITS];
  unsigned count = 0;
  for (unsigned i = columns; i < s->n; i++) order[count++] = 1u << i;
  for (unsigned i = s->n + rows; i < bits; i++) order[count++] = 1u << i;
  for (unsigned i = 0; i < columns; i++) l.basis[at++] = 1u << i;
  for (unsigned i = 0; i < rows; i++) l.basis[at++] = 1u << (s->n + i);
  for (unsigned i = threads; i < count; i++) l.basis[at++] = order[i];
  l.registers = (uint8_t)at;
  for (unsigned i = 0; i < threads && i < count; i++) l.basis[at + i] = order[i];
  return l;
}

kiln_layout gpu_dot_layout(gpu *g, const ir_op *op) {
  shape s = shape_of(op);
  const gpu_matrix_form *f = find_form(g, op);
  return f ? form_layouts(g, op, &s, f).accumulator : plain_layout(g, &s);
}

bool gpu_dot_uses_matrix(gpu *g, const ir_op *op) { return find_form(g, op) != NULL; }

kiln_layout gpu_dot_operand(gpu *g, const ir_op *op, unsigned operand) {
  shape s = shape_of(op);
  layouts l = form_layouts(g, op, &s, find_form(g, op));
  return operand ? l.right : l.left;
}

// ----------------------------------------------------------------------------- matrix instructions

static unsigned length_of(const uint8_t *codes) {
  unsigned n = 0;
  while (codes[n] != GPU_END) n++;
  return n;
}

/// An operand of matrix instructions: whole in registers, or read from shared memory step by step.
typedef struct source {
  gpu_tile tile;
  gpu_staged *staged;
  bool is_written; ///< staged, and in shared memory already
  ir_value *value;
  const kiln_layout *layout;
} source;

static source open_source(gpu *g, ir_value *value, const kiln_layout *layout) {
  source s = {.value = value, .layout = layout};
  gpu_tile home;
  kiln_layout there;
  gpu_place place;
  if (g->status == KILN_OK && gpu_home_here(g, value, layout, &home, &place, &there)) {
    s.is_written = place.slots != NULL;
    s.staged = s.is_written ? gpu_stage_slot(g, &place, ir_element(value->type), &there)
                            : gpu_stage(g, &home, ir_element(value->type), &there);
  }
  if (!s.staged) s.tile = gpu_tile_in(g, value, layout);
  return s;
}

static uint32_t bytes_to_write(const source *s) {
  return s->staged && !s->is_written ? gpu_staged_bytes(s->staged) : 0;
}

/// Operands that shared memory does not hold together are read whole into registers before, the larger first:
/// such an exchange goes in parts where it must.
static uint32_t bytes_that_fit(gpu *g, source *sources, unsigned count) {
  for (;;) {
    uint64_t bytes = 0;
    source *largest = sources;
    for (unsigned i = 0; i < count; i++) {
      bytes += bytes_to_write(&sources[i]);
      if (bytes_to_write(&sources[i]) > bytes_to_write(largest)) largest = &sources[i];
    }
    if (!bytes || bytes + g->scratch_base <= g->machine->max_shared) return (uint32_t)bytes;
    largest->staged = NULL;
    largest->tile = gpu_tile_in(g, largest->value, largest->layout);
  }
}

/// Both operands share one exchange: two barriers a dot.
static void exchange(gpu *g, source *sources, unsigned count) {
  uint32_t bytes = bytes_that_fit(g, sources, count);
  if (!bytes) return;
  gpu_scratch_begin(g, bytes);
  bytes = 0;
  for (unsigned i = 0; i < count; i++) {
    if (!bytes_to_write(&sources[i])) continue;
    gpu_staged_write(g, sources[i].staged, bytes);
    bytes += gpu_staged_bytes(sources[i].staged);
  }
  gpu_barrier(g);
  g->shared_dirty = true;
}

static const LLVMValueRef *fragment_of(gpu *g, const source *s, uint32_t index, unsigned bits) {
  if (s->staged) return gpu_staged_read(g, s->staged, index << bits, 1u << bits);
  return s->tile.regs + ((size_t)index << bits);
}

static gpu_tile matrix_dot(gpu *g, ir_op *op, const gpu_matrix_form *f, const shape *s) {
  layouts l = form_layouts(g, op, s, f);
  gpu_tile initial = gpu_tile_in(g, op->operands[2], &l.accumulator), out = gpu_tile_new(g, &l.accumulator);
  source sources[2] = {open_source(g, op->operands[0], &l.left), open_source(g, op->operands[1], &l.right)};
  exchange(g, sources, 2);
  if (g->status != KILN_OK) return initial;
  gpu_issue_feeds(g, op->block, op);
  const split *p = &l.split;
  bool is_exchanged = is_symmetric(f);
  unsigned a_bits = length_of(f->left_fragment.registers), b_bits = length_of(f->right_fragment.registers),
           c_bits = length_of(f->accumulator_fragment.registers);
  for (uint32_t r = 0; r < 1u << l.accumulator.registers; r++) out.regs[r] = initial.regs[r];
  // One step of the reduced index at a time, so that accumulators do not wait for one another.
  for (uint32_t k = 0; k < 1u << p->reg_k; k++)
    for (uint32_t batch = 0; batch < 1u << p->reg_batch; batch++)
      for (uint32_t m = 0; m < 1u << p->reg_m; m++)
        for (uint32_t n = 0; n < 1u << p->reg_n; n++) {
          uint32_t a = k | m << p->reg_k | batch << (p->reg_k + p->reg_m),
                   b = k | n << p->reg_k | batch << (p->reg_k + p->reg_n);
          uint32_t c = n | m << p->reg_n | batch << (p->reg_n + p->reg_m);
          const LLVMValueRef *right = fragment_of(g, &sources[1], b, b_bits),
                             *left = fragment_of(g, &sources[0], a, a_bits);
          f->emit(g, f, is_exchanged ? right : left, is_exchanged ? left : right,
                  out.regs + ((size_t)c << c_bits));
        }
  for (uint32_t r = 0; f->finish && r < 1u << l.accumulator.registers; r += 1u << c_bits)
    f->finish(g, f, out.regs + r);
  return out;
}

// ---------------------------------------------------------------------------------------- multiply
// and add

/// The element of an operand widened to the accumulator's type.
static LLVMValueRef widen(gpu *g, kiln_scalar from, kiln_scalar to, LLVMValueRef value) {
  return gpu_cast(g, from, to, 0, IR_ROUND_NEAREST, value);
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
  uint32_t seen[GPU_MAX_REGISTERS];
  LLVMValueRef loaded[GPU_MAX_REGISTERS];
  unsigned count;
} stored;

/// An operand in registers, `parts` cut off the reduced index: registers hold one part after another, each in
/// `part`, so that shared memory may take them in turn.
typedef struct cut_operand {
  gpu_tile tile;
  kiln_layout part;
} cut_operand;

static cut_operand cut(gpu *g, ir_value *value, unsigned k_axis, unsigned parts) {
  cut_operand c = {.part = gpu_operand_layout(g, value)};
  kiln_layout all = c.part;
  if (parts) {
    ir_type type = value->type;
    unsigned at = layout_axis_shift(type, k_axis) + type.log2[k_axis] - parts;
    type.log2[k_axis] = (uint8_t)(type.log2[k_axis] - parts);
    all = c.part = gpu_default_layout(g, type);
    all.bits = (uint8_t)(all.bits + parts);
    all.registers = (uint8_t)(all.registers + parts);
    memset(all.basis, 0, sizeof all.basis);
    for (unsigned i = 0; i < parts; i++) all.basis[c.part.registers + i] = 1u << (at + i);
    for (unsigned i = 0; i < (unsigned)c.part.registers + c.part.lanes + c.part.warps; i++)
      all.basis[i < c.part.registers ? i : i + parts] =
          layout_spread(c.part.basis[i], ((1u << parts) - 1) << at);
  }
  c.tile = gpu_tile_in(g, value, &all);
  return c;
}

/// Writes a part of the operand; `k_at`, `free_at`: where the reduced index and the rows or columns begin in
/// its element number.
static void store_operand(gpu *g, const cut_operand *c, uint32_t part, stored *s, const shape *d,
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
  LLVMValueRef pointer = LLVMBuildGEP2(g->builder, g->i8, gpu_shared_at(g, offset), &more, 1, "");
  LLVMValueRef load = LLVMBuildLoad2(g->builder, gpu_packed_type(g, 1u << s->log2_bytes), pointer, "");
  LLVMSetAlignment(load, 1u << __builtin_ctz(constant | s->varies | 1u << s->pitch | GPU_MAX_VECTOR_BYTES));
  gpu_unpack(g, load, gpu_scalar_type(g, s->scalar), &value, 1);
  s->seen[s->count] = place;
  return s->loaded[s->count++] = widen(g, s->scalar, to, value);
}

/// Rows and batch of an accumulator element as a place in the left operand; columns and batch for the right
/// one.
static uint32_t row_place(const shape *s, uint32_t element) { return element >> s->n; }
static uint32_t column_place(const shape *s, uint32_t element) {
  return (element & ((1u << s->n) - 1)) | element >> (s->n + s->m) << s->n;
}

static void place_thread(gpu *g, const shape *s, const kiln_layout *l, stored *x,
                         uint32_t (*place)(const shape *, uint32_t)) {
  uint32_t basis[LAYOUT_MAX_PLACES] = {0};
  for (unsigned i = 0; i < (unsigned)l->lanes + l->warps; i++) {
    basis[i] = place(s, l->basis[l->registers + i]) << x->log2_bytes;
    x->varies |= basis[i];
  }
  x->thread = gpu_thread_bits(g, basis, l->lanes + l->warps);
}

/// log2 of the steps that one round of the loop takes: up to 256 products.
static unsigned steps_of(const shape *s, uint32_t count) {
  unsigned steps = 0;
  while (steps < s->k && steps < 5 && count << (steps + 1) <= 256) steps++;
  return steps;
}

/// One step: sums += row * column.
static void plain_step(gpu *g, const shape *s, const kiln_layout *layout, stored *const operands[2],
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
static void plain_rounds(gpu *g, const shape *s, const kiln_layout *layout, stored *const operands[2],
                         kiln_scalar to, const gpu_tile *initial, gpu_tile *out) {
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

static uint64_t bytes_of(const shape *s) {
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
static gpu_tile plain_dot(gpu *g, ir_op *op, const shape *whole) {
  kiln_layout layout = plain_layout(g, whole);
  gpu_tile sums = gpu_tile_in(g, op->operands[2], &layout);
  kiln_scalar to = op->operands[2]->type.scalar;
  unsigned parts = 0, rank = whole->left.rank;
  shape s = *whole;
  while (s.k && bytes_of(&s) + g->scratch_base > g->machine->max_shared) s.k--, parts++;
  // Conversions of the operands use scratch too, so both are brought into their layouts before anything is
  // written here.
  cut_operand left = cut(g, op->operands[0], rank - 1u, parts),
              right = cut(g, op->operands[1], rank - 2u, parts);
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
  shape s = shape_of(op);
  const gpu_matrix_form *f = find_form(g, op);
  gpu_note_product(g, op, f ? KILN_ENGINE_MATRIX : KILN_ENGINE_FMA, f ? f->name : "");
  gpu_set_home(g, &op->results[0], f ? matrix_dot(g, op, f, &s) : plain_dot(g, op, &s));
}
