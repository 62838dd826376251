// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the tiles of a product lie: which matrix instruction fits, and which warp and register has which part.
#include "compiler/passes/gpu/layouts/layouts.h"

kiln_dot_shape kiln_dot_shape_of(const ir_op *op) {
  ir_type a = op->operands[0]->type, b = op->operands[1]->type, c = op->operands[2]->type;
  unsigned r = a.rank;
  return (kiln_dot_shape){.batch = r == 3 ? a.log2[0] : 0,
                          .m = a.log2[r - 2],
                          .n = b.log2[r - 1],
                          .k = a.log2[r - 1],
                          .left = a,
                          .right = b,
                          .accumulator = c};
}

static unsigned smaller(unsigned a, unsigned b) { return a < b ? a : b; }

/// Warps go to the batch, then where the warp's tile takes more reads: an operand that turns is read in pieces half as
/// long. They go to rows first when dots are chained, so that rows stay within a warp.
static kiln_dot_split split_warps(const kiln_layouts *c, const kiln_dot_shape *s, const bool turns[2],
                                  unsigned m, unsigned n, unsigned k) {
  unsigned left = c->warps;
  kiln_dot_split p = {.reg_m = s->m - m, .reg_n = s->n - n, .reg_k = s->k - k};
  p.warp_batch = smaller(left, s->batch);
  p.reg_batch = s->batch - p.warp_batch;
  for (left -= p.warp_batch; left && (p.reg_m || p.reg_n); left--) {
    bool to_rows = p.reg_m && (c->dots > 1 || !p.reg_n || p.reg_m + m + turns[0] >= p.reg_n + n + turns[1]);
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
  if (code == KILN_NO_BIT) return 0;
  bool is_reduced = code >= KILN_K(0);
  int base = is_reduced ? at->k : code >= KILN_N(0) ? at->n : at->m;
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
  while (codes[count] != KILN_FRAGMENT_END) add(x, bit_of(at, codes[count++]));
  return count;
}

/// Registers: those of the instruction, then `inner` (reduced index or columns), rows or columns, batch.
/// Lanes: the instruction's. Warps: columns, rows, batch, from the high bits.
static kiln_layout make_layout(const kiln_layouts *c, const kiln_matrix_form *f,
                               const kiln_fragment *fragment, const places *at, const kiln_dot_split *p,
                               unsigned bits) {
  maker x = {.layout = {.bits = (uint8_t)bits, .lanes = (uint8_t)c->lanes, .warps = (uint8_t)c->warps}};
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

static bool is_reduced(uint8_t code) { return code >= KILN_K(0) && code < KILN_FRAGMENT_END; }

static bool has_code(const uint8_t *codes, uint8_t code) {
  while (*codes != KILN_FRAGMENT_END && *codes != code) codes++;
  return *codes == code;
}

/// Both operands may take the reduced index in any order, the same one. What a thread holds comes first, of
/// as many steps as make KILN_MOST_VECTOR_BYTES, so that it reads pieces of that size.
static void order_for_memory(const kiln_dot_shape *s, const kiln_matrix_form *f, kiln_dot_split *p) {
  unsigned next = 0, bytes = kiln_scalars[s->left.scalar].bytes, extra = 0;
  for (unsigned i = 0; i < f->k; i++)
    if (has_code(f->left_fragment.registers, (uint8_t)KILN_K(i))) p->order[i] = (uint8_t)next++;
  while (extra < p->reg_k && bytes << (next + 1) <= KILN_MOST_VECTOR_BYTES)
    p->order[f->k + extra++] = (uint8_t)next++;
  for (unsigned i = 0; i < f->k; i++)
    if (!has_code(f->left_fragment.registers, (uint8_t)KILN_K(i))) p->order[i] = (uint8_t)next++;
  for (; extra < p->reg_k; extra++) p->order[f->k + extra] = (uint8_t)next++;
}

/// The order in which a left operand that lies in `from` needs not leave its thread; false when there is
/// none.
static bool order_for_registers(const kiln_dot_shape *s, const kiln_matrix_form *f, const kiln_layout *from,
                                kiln_dot_split *p) {
  const uint8_t *lanes = f->left_fragment.lanes;
  const uint32_t reduced = (1u << s->k) - 1;
  uint32_t taken = 0;
  for (unsigned i = 0; lanes[i] != KILN_FRAGMENT_END; i++) {
    uint32_t basis = from->basis[from->registers + i];
    if (lanes[i] == KILN_NO_BIT) return false;
    if (!is_reduced(lanes[i]) && basis != 1u << (s->k + lanes[i])) return false;
    if (!is_reduced(lanes[i])) continue;
    if (!basis || basis & (basis - 1) || basis > reduced) return false;
    p->order[lanes[i] - KILN_K(0)] = (uint8_t)__builtin_ctz(basis);
    taken |= basis;
  }
  for (unsigned i = 0, next = 0; i < s->k; i++) {
    if (i < f->k && has_code(lanes, (uint8_t)KILN_K(i))) continue;
    while (taken >> next & 1) next++;
    p->order[i] = (uint8_t)next++;
  }
  return true;
}

bool kiln_form_is_symmetric(const kiln_matrix_form *f) {
  bool same = f->m == f->n && f->left == f->right;
  for (unsigned side = 0; side < 2 && same; side++) {
    const uint8_t *a = side ? f->left_fragment.lanes : f->left_fragment.registers,
                  *b = side ? f->right_fragment.lanes : f->right_fragment.registers;
    for (unsigned i = 0; same; i++) {
      bool is_row = a[i] < KILN_N(0);
      same = is_row ? b[i] == a[i] + KILN_N(0) : b[i] == a[i];
      if (a[i] == KILN_FRAGMENT_END) break;
    }
  }
  return same;
}

/// Accumulators of the exchanged product: a thread has neighbours of a row, which memory has in a row too,
/// and which are the left operand of a product with it.
static kiln_fragment exchanged(const kiln_fragment *f) {
  kiln_fragment out = *f;
  uint8_t *const lists[2] = {out.registers, out.lanes};
  for (unsigned side = 0; side < 2; side++)
    for (uint8_t *code = lists[side]; *code != KILN_FRAGMENT_END; code++)
      *code = *code < KILN_N(0)   ? (uint8_t)(*code + KILN_N(0))
              : *code < KILN_K(0) ? (uint8_t)(*code - KILN_N(0))
                                  : *code;
  return out;
}

/// Without matrix instructions: four columns and four rows a thread where there are enough, lanes over columns,
/// then rows.
static kiln_layout plain_layout(const kiln_layouts *c, const kiln_dot_shape *s) {
  unsigned bits = s->batch + s->m + s->n, threads = c->lanes + c->warps,
           spare = bits > threads ? bits - threads : 0;
  unsigned columns = smaller(smaller(2, s->n), spare), rows = smaller(smaller(2, s->m), spare - columns),
           at = 0;
  kiln_layout l = {.bits = (uint8_t)bits, .lanes = (uint8_t)c->lanes, .warps = (uint8_t)c->warps};
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

void kiln_dot_choose_layouts(const kiln_layouts *c, const ir_op *op, kiln_dot_layouts *l) {
  const kiln_dot_shape s = kiln_dot_shape_of(op);
  const kiln_matrix_form *f = l->form;
  if (!f) { // operands go through shared memory from wherever they lie
    l->left = kiln_layout_of_operand(c, op->operands[0]);
    l->right = kiln_layout_of_operand(c, op->operands[1]);
    l->accumulator = plain_layout(c, &s);
    return;
  }
  l->split = split_warps(c, &s, l->turns, f->m, f->n, f->k);
  uint8_t *order = l->split.order;
  for (unsigned i = 0; i < LAYOUT_MAX_BITS; i++) order[i] = (uint8_t)i;
  const places a = {.k = 0, .m = (int)s.k, .n = -1, .batch = (int)(s.k + s.m), .order = order},
               b = {.n = 0, .k = (int)s.n, .m = -1, .batch = (int)(s.n + s.k), .order = order},
               sum = {.n = 0, .m = (int)s.n, .k = -1, .batch = (int)(s.n + s.m), .order = order};
  const bool is_symmetric = kiln_form_is_symmetric(f);
  const unsigned left_bits = s.batch + s.m + s.k;
  kiln_layout from;
  bool is_in_place = is_symmetric && kiln_layout_offered(op->operands[0], &from) &&
                     order_for_registers(&s, f, &from, &l->split);
  if (is_in_place) {
    l->left = make_layout(c, f, &f->left_fragment, &a, &l->split, left_bits);
    is_in_place = layout_convert(&from, &l->left).reach == LAYOUT_SAME_THREAD;
  }
  if (!is_in_place && is_symmetric) order_for_memory(&s, f, &l->split);
  const kiln_fragment sums = is_symmetric ? exchanged(&f->accumulator_fragment) : f->accumulator_fragment;
  l->left = make_layout(c, f, &f->left_fragment, &a, &l->split, left_bits);
  l->right = make_layout(c, f, &f->right_fragment, &b, &l->split, s.batch + s.k + s.n);
  l->accumulator = make_layout(c, f, &sums, &sum, &l->split, s.batch + s.m + s.n);
}

// ------------------------------------------------------------------------ products from shared memory

enum { ROWS = 6 }; // of a group, logarithm

kiln_mma_split kiln_mma_split_of(const kiln_layouts *c, ir_type accumulator) {
  unsigned groups = c->warps - 2, down = accumulator.log2[0] - ROWS;
  kiln_mma_split s = {.groups_m = c->kernel->groups_beside ? 0 : down < groups ? down : groups};
  s.groups_n = groups - s.groups_m;
  s.blocks = down - s.groups_m;
  s.columns = accumulator.log2[1] - s.groups_n;
  return s;
}

/// Bits of an accumulator: registers N0, M3, N3 and up, then the blocks; lanes N1, N2, M0 to M2; warps M4,
/// M5, the group's columns, the group's rows.
kiln_layout kiln_layout_of_accumulator(const kiln_layouts *c, ir_type accumulator) {
  kiln_mma_split s = kiln_mma_split_of(c, accumulator);
  unsigned n = accumulator.log2[1], at = 0;
  kiln_layout l = {.bits = (uint8_t)(n + accumulator.log2[0]), .lanes = 5, .warps = (uint8_t)c->warps};
#define N(i) (1u << (i))
#define M(i) (1u << (n + (i)))
  l.basis[at++] = N(0);
  l.basis[at++] = M(3);
  for (unsigned i = 3; i < s.columns; i++) l.basis[at++] = N(i);
  for (unsigned i = 0; i < s.blocks; i++) l.basis[at++] = M(ROWS + i);
  l.registers = (uint8_t)at;
  static const uint8_t columns[] = {1, 2}, rows[] = {0, 1, 2, 4, 5};
  for (unsigned i = 0; i < 2; i++) l.basis[at++] = N(columns[i]);
  for (unsigned i = 0; i < 5; i++) l.basis[at++] = M(rows[i]);
  for (unsigned i = 0; i < s.groups_n; i++) l.basis[at++] = N(s.columns + i);
  for (unsigned i = 0; i < s.groups_m; i++) l.basis[at++] = M(ROWS + s.blocks + i);
  return l;
}

/// A in registers, 16-bit elements: registers K0 (inside the word), M3, K3, then further steps, then the
/// blocks; lanes K1, K2, M0 to M2; warps as the accumulator has them, the same for all groups of columns.
kiln_layout kiln_layout_of_mma_left(const kiln_layouts *c, ir_type a, const kiln_mma_split *s) {
  unsigned n = a.log2[1], at = 0;
  kiln_layout l = {.bits = (uint8_t)(n + a.log2[0]), .lanes = 5, .warps = (uint8_t)c->warps};
  l.basis[at++] = N(0);
  l.basis[at++] = M(3);
  for (unsigned i = 3; i < n; i++) l.basis[at++] = N(i);
  for (unsigned i = 0; i < s->blocks; i++) l.basis[at++] = M(ROWS + i);
  l.registers = (uint8_t)at;
  static const uint8_t columns[] = {1, 2}, rows[] = {0, 1, 2, 4, 5};
  for (unsigned i = 0; i < 2; i++) l.basis[at++] = N(columns[i]);
  for (unsigned i = 0; i < 5; i++) l.basis[at++] = M(rows[i]);
  at += s->groups_n;
  for (unsigned i = 0; i < s->groups_m; i++) l.basis[at++] = M(ROWS + s->blocks + i);
  return l;
}
#undef N
#undef M
