// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A bitonic network over the bits of the place in the row, wherever these lie.
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
// Where every bit of a row lies at the place of its number (one row a tile, or rows in the upper lanes and
// warps), nothing is brought anywhere: threads compare what they have with a partner's, and runs of all
// lengths are merged by one loop. Straight code for 4,096 keys of 64 bits would be four times as long.
//
// What a thread's registers hold at the start is sorted by Batcher's odd-even merging, which compares less
// often than a bitonic network (16 elements: 63 times, not 80) but has no stages that threads could share.
#include "compiler/passes/gpu/layouts/sort_network.h"

#include <string.h>

enum { NO_BIT = KILN_NO_BIT_OF_ROW, FAR = 1 << 10 };

typedef kiln_network network;
typedef kiln_holder holder;

static unsigned places(const network *n) { return n->registers + n->lanes + n->warps; }

static unsigned place_of(const network *n, unsigned bit) {
  unsigned p = 0;
  while (n->at[p].bit != (int)bit) p++;
  return p;
}

/// Every machine bit holds bits of the axis or of the rows, and none says what others say.
static bool is_plain(const kiln_layout *l, uint32_t axis) {
  uint32_t replicas = layout_replicas(l);
  for (unsigned i = 0; i < layout_places(l); i++) {
    if (l->basis[i] & axis && l->basis[i] & ~axis) return false;
    if (i >= l->registers && replicas >> (i - l->registers) & 1 && l->basis[i]) return false;
  }
  return true;
}

kiln_layout kiln_layout_of_sorted(const kiln_layouts *c, const ir_op *op) {
  ir_type type = op->operands[0]->type;
  kiln_layout layout;
  uint32_t axis = layout_axis_mask(type, type.rank - 1u);
  if (kiln_layout_offered(op->operands[0], &layout) && is_plain(&layout, axis)) return layout;
  return kiln_layout_default(c, type);
}

static network open_network(const ir_op *op, const kiln_layout *l) {
  ir_type from = op->operands[0]->type, to = op->results[0].type;
  network n = {.bits = from.log2[from.rank - 1],
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

static bool acts(const network *n) { return n->actions != NULL; }

/// Complements the elements whose bit at `place` is set.
static void complement(network *n, unsigned place) {
  n->is_turned = !n->is_turned;
  if (acts(n)) n->actions->complement(n->context, n, place);
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

/// Registers whose runs are to fall, where registers hold the bit that says so.
static uint32_t falling_registers(const network *n) {
  unsigned turn = n->run < n->bits && !n->is_turned ? place_of(n, n->run) : n->registers;
  return turn < n->registers ? 1u << turn : 0;
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
  if (!acts(n)) return;
  kiln_layout to = layout_now(n);
  n->actions->exchange(n->context, n, &from, &to);
}

static unsigned victim(const network *n, unsigned bit) {
  unsigned best = 0;
  for (unsigned i = 1; i < n->registers; i++)
    if (distance(n, bit, n->at[i].bit) > distance(n, bit, n->at[best].bit)) best = i;
  return best;
}

static void trade_lane(network *n, unsigned lane, unsigned place) {
  holder x = n->at[lane];
  n->at[lane] = n->at[place];
  n->at[place] = x;
  if (acts(n)) n->actions->trade(n->context, n, lane, place);
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

static void compare(network *n, unsigned bit) {
  unsigned place = bring(n, bit);
  settle_turn(n);
  if (acts(n)) n->actions->compare(n->context, n, place, falling_registers(n));
}

static void end_stage(const network *n) {
  if (acts(n)) n->actions->end_stage(n->context);
}

static void merge(network *n) {
  settle_turn(n);
  for (unsigned bit = n->run; bit-- > 0;) {
    compare(n, bit);
    end_stage(n);
  }
  end_turn(n);
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
  if (acts(n)) n->actions->halve(n->context, n, place);
  forget(n, place);
}

uint32_t kiln_network_register(const network *n, uint32_t base, uint32_t i) {
  for (unsigned bit = 0; bit < n->run; bit++)
    if (i >> bit & 1) base |= 1u << place_of(n, bit);
  return base;
}

/// Runs of 2^run that threads hold whole.
static void sort_registers(network *n) {
  settle_turn(n);
  if (acts(n)) n->actions->sort_runs(n->context, n, falling_registers(n));
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

/// Whole rows are sorted, and every bit of a row lies at the place of its number, the low ones in registers:
/// merging runs of any length is the same code then, entered later or earlier.
static bool merges_in_loop(const network *n) {
  bool is_ordered = n->kept == n->bits && n->run == n->registers && n->bits > n->registers;
  for (unsigned i = 0; is_ordered && i < n->bits; i++) is_ordered = n->at[i].bit == (int)i;
  return is_ordered;
}

kiln_layout kiln_network_run(const ir_op *op, const kiln_layout *from, const kiln_network_actions *actions,
                             void *context) {
  network n = open_network(op, from);
  n.actions = actions;
  n.context = context;
  n.run = hold_run(&n);
  if (n.run) sort_registers(&n);
  if (merges_in_loop(&n)) {
    if (actions) actions->merge_rows(context, &n);
  } else {
    while (++n.run <= n.kept) merge(&n);
  }
  n.run = n.kept;
  while (n.bits > n.kept) {
    halve(&n);
    merge(&n);
  }
  if (actions) actions->end(context, &n);
  return layout_now(&n);
}

kiln_layout kiln_layout_of_sort(const kiln_layouts *c, const ir_op *op) {
  kiln_layout from = kiln_layout_of_sorted(c, op);
  return kiln_network_run(op, &from, NULL, NULL);
}
