// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One warp group copies, the others compute.
//
// Loads that arrive together and feed one product are a site. A site has a ring: slots in shared memory and
// two arrays of barriers, `full` and `empty`. The body is there twice. The producer keeps copies and what
// their indices need:
//
//   bar_wait empty[slot], phase;  bar_expect full[slot], bytes;  copy ... full[slot];  advance
//
// The consumers keep everything else, their products read the slot:
//
//   bar_wait full[slot], phase;  mma ...;  bar_arrive empty[slot];  advance
//
// The position in a ring is a pair (slot, phase), carried through loops and branches like any value. Both
// sides run the same loops with the same bounds, so short and empty loops need nothing special, and a ring is
// never drained: sites that read the same view with the same tile share one, also in different loops.
//
// A load that several products of its block read is held in its slot from the first to the last of them. A
// computed operand that a product wants the other way round has two slots and no barriers: all consumers put
// their parts there and meet, and who has met them again no longer reads the slot of the time before.
//
// Where a program's accumulators are too many for one block, the blocks of a cluster share it: each has some
// of the rows and columns of the results. What several blocks need of an operand, each of them copies a part
// of to all of them, and a slot is empty when the consumers of all blocks have released it.
//
// Parts of sums that blocks exchange behind a loop may leave room for fewer slots than are wanted. They then
// lie over the slots: consumers of all blocks say that they have read these before anything is sent, and the
// producer waits behind the loop until what was sent has been read.
//
// Needs mapped loads (kiln_gpu_promote). Afterwards the kernel's body is `alloc`s and one `roles`.
#include <string.h>

#include "compiler/gpu/gpu.h"
#include "compiler/simplify/simplify.h"

enum { MAX_RINGS = 8, MAX_LOADS = 2, MAX_SITES = 32, DEFAULT_SLOTS = 4, MAX_SLOTS = 8, ALIGN = 1024 };
enum { STAGE_ROWS = 6 };                          // logarithm, of what a group stages at a time
enum { BARRIER_BYTES = 8, EXCHANGE_BYTES = 512 }; // of a barrier; of exchanges within a group of consumers

typedef struct ring {
  const ir_value *views[MAX_LOADS];
  ir_type tiles[MAX_LOADS];
  int64_t first[MAX_LOADS]; ///< rows of the tile that are copied; 0: all
  ir_value *memory[MAX_LOADS], *full, *empty;
  unsigned count, slots;
  bool is_left[MAX_LOADS];
  unsigned parts[MAX_LOADS]; ///< different ones that the blocks which share the program have
  uint32_t bytes;            ///< of a slot, in all blocks of the cluster together
  uint32_t part;             ///< of a slot, in one of them
  bool is_in_loop;
  bool is_put; ///< for a computed operand: `tiles[0]`
} ring;

typedef struct site {
  unsigned ring, count;
  const ir_op *left;
  ir_op *loads[MAX_LOADS]; ///< in order of the text
  ir_op *dot;              ///< the last that reads them, where several do
  ir_value *slot;          ///< consumer: held
  bool is_held; ///< consumer: between the first and the last of several products in the block of the loads
} site;

typedef struct position {
  ir_value *slot, *phase;
} position;

typedef struct splitting {
  ir_kernel *kernel;
  const kiln_matrix_machine *machine;
  ring rings[MAX_RINGS];
  site sites[MAX_SITES];
  struct {
    ir_op *dot;
    kiln_product how;
    unsigned ring; ///< of what it puts
  } products[MAX_SITES];
  unsigned ring_count, site_count, product_count, groups, blocks;
  uint32_t top;         ///< shared memory claimed
  unsigned staged;      ///< logarithm of the bytes of a row that groups stage at a time
  ir_value *staging[2]; ///< for stores of 16 bits, for sums of 32: the same bytes
  ir_op *scatter;       ///< the consumers' exchange of parts of their sums; NULL: none
  ir_value *taken; ///< barrier: what was exchanged over the slots has been read; NULL: it has its own memory
  unsigned split;  ///< blocks of a cluster that share a loop; 0: none
  unsigned spread, columns; ///< blocks that share a program; of these, side by side
  position at[MAX_RINGS];
  ir_builder b;
  bool is_producer;
  const char *reason; ///< why it does not fit
} splitting;

// -------------------------------------------------------------------------------------------- sites

static uint32_t bytes_of(ir_type tile) {
  return (uint32_t)kiln_scalars[tile.scalar].bytes << ir_log2_elements(tile);
}

static bool is_in_loop(const ir_op *op) {
  const ir_op *loop = op->block->parent;
  while (loop && loop->code != IR_FOR) loop = loop->block->parent;
  return loop && loop->block->parent; // the outermost loop is that of kiln_gpu_persist
}

/// Blocks side by side have the same rows of the left operand, those below each other the same columns of
/// the right one.
static unsigned parts_of_operand(const splitting *s, bool is_left) {
  if (s->spread < 2) return 1;
  return is_left ? s->spread / s->columns : s->columns;
}

/// A ring is shared by sites of different blocks only: within one the order of products could differ from
/// that of loads.
static bool can_share(const splitting *s, const ring *r, unsigned number, const site *from) {
  if (r->is_put || r->count != from->count || !r->is_in_loop || !is_in_loop(from->loads[0])) return false;
  for (unsigned i = 0; i < r->count; i++)
    if (r->views[i] != from->loads[i]->operands[0] ||
        !ir_type_equal(r->tiles[i], from->loads[i]->results[0].type) ||
        r->first[i] != from->loads[i]->attrs.first ||
        (s->spread > 1 && r->is_left[i] != (from->loads[i] == from->left)))
      return false;
  for (unsigned i = 0; i < s->site_count; i++)
    if (s->sites[i].ring == number && s->sites[i].loads[0]->block == from->loads[0]->block) return false;
  return true;
}

static void add_load(const splitting *s, ring *r, const ir_op *load, bool is_left) {
  unsigned i = r->count++;
  r->views[i] = load->operands[0];
  r->tiles[i] = load->results[0].type;
  r->is_left[i] = is_left;
  r->parts[i] = parts_of_operand(s, is_left);
  r->first[i] = load->attrs.first;
  uint32_t bytes = kiln_memory_bytes(r->tiles[i], r->first[i]);
  r->bytes += bytes;
  r->part += bytes / r->parts[i];
}

static ring *new_ring(splitting *s, unsigned *out_number) {
  if (s->ring_count == MAX_RINGS) {
    s->reason = "it has too many products";
    return NULL;
  }
  return &s->rings[*out_number = s->ring_count++];
}

static void add_ring(splitting *s, site *from) {
  for (unsigned i = 0; i < s->ring_count; i++)
    if (can_share(s, &s->rings[i], i, from)) {
      from->ring = i;
      return;
    }
  ring *r = new_ring(s, &from->ring);
  if (!r) return;
  r->is_in_loop = is_in_loop(from->loads[0]);
  for (unsigned i = 0; i < from->count; i++) add_load(s, r, from->loads[i], from->loads[i] == from->left);
}

/// A computed operand.
static void add_put(splitting *s, unsigned *out_ring, const ir_op *put) {
  ring *r = new_ring(s, out_ring);
  if (!r) return;
  *r = (ring){.count = 1, .is_put = true, .tiles = {put->operands[0]->type}, .parts = {1}};
  r->part = KILN_PUT_SLOTS * kiln_memory_bytes(r->tiles[0], 0);
}

static bool comes_first(const ir_op *a, const ir_op *b) { return a->number < b->number; }

/// What another product reads already is no site of its own.
static ir_op *if_new(splitting *s, ir_op *dot, ir_op *load) {
  if (!load || !load->attrs.pack) return load;
  s->sites[load->attrs.pack - 1].dot = dot;
  return NULL;
}

/// Two loads of a loop that several products each read take turns together: one position, one pair of
/// barriers.
static bool joins(splitting *s, ir_op *dot, ir_op *load) {
  for (unsigned i = 0; i < s->site_count; i++) {
    site *x = &s->sites[i];
    const ir_op *other = x->loads[0];
    unsigned users = 0;
    for (unsigned k = 0; k < s->site_count; k++) users += s->sites[k].ring == x->ring;
    if (x->count > 1 || users > 1 || s->spread > 1 || other->block != load->block || !is_in_loop(load))
      continue;
    if (other->results[0].uses < 2 || load->results[0].uses < 2 || !comes_first(other, load)) continue;
    if (x->dot->block != other->block || dot->block != load->block) continue;
    x->loads[x->count++] = load;
    x->dot = dot;
    load->attrs.pack = (uint8_t)(i + 1);
    add_load(s, &s->rings[x->ring], load, false);
    return true;
  }
  return false;
}

static void add_site(splitting *s, ir_op *dot, ir_op *x, ir_op *y) {
  x = if_new(s, dot, x), y = if_new(s, dot, y);
  if (!x && !y) return;
  if ((!x || !y) && joins(s, dot, x ? x : y)) return;
  if (s->site_count == MAX_SITES) {
    s->reason = "it has too many products";
    return;
  }
  site *made = &s->sites[s->site_count];
  *made = (site){.dot = dot, .left = x};
  if (x && y && comes_first(y, x)) {
    ir_op *swap = x;
    x = y, y = swap;
  }
  if (x) made->loads[made->count++] = x;
  if (y) made->loads[made->count++] = y;
  add_ring(s, made);
  s->site_count++;
  for (unsigned i = 0; i < made->count; i++) made->loads[i]->attrs.pack = (uint8_t)s->site_count;
}

static ir_op *if_mapped(ir_op *load) { return load && load->attrs.flags & IR_MAPPED ? load : NULL; }

static void find_sites(ir_op *op, void *context) {
  splitting *s = context;
  kiln_product p;
  if (!kiln_product_of(s->machine, s->kernel, op, &p)) return;
  ir_op *left = if_mapped(p.left), *right = if_mapped(p.right);
  if (!right || s->product_count == MAX_SITES) return;
  if (p.put) add_put(s, &s->products[s->product_count].ring, p.put);
  s->products[s->product_count].dot = op;
  s->products[s->product_count++].how = p;
  if (left && left->block != right->block) {
    add_site(s, op, left, NULL);
    left = NULL;
  }
  add_site(s, op, left, right);
}

// ----------------------------------------------------------------------------------- shared memory

static ir_value *alloc(splitting *s, ir_type type, uint32_t bytes, uint32_t align, unsigned arrivals) {
  s->top = (s->top + align - 1) & ~(align - 1);
  ir_attrs attrs = {.bits = s->top, .pack = (uint8_t)arrivals};
  s->top += bytes;
  ir_op *op = ir_emit(&s->b, IR_ALLOC, &attrs, NULL, 0, &type, NULL, 0);
  return op ? &op->results[0] : NULL;
}

/// Staged stores share one piece of memory: `groups` times 64 rows of as many bytes as the widest has.
static bool is_staged(const ir_op *op) {
  return (op->code == IR_VIEW_STORE || op->code == IR_VIEW_ATOMIC) && op->attrs.flags & IR_MAPPED;
}

static unsigned staged_bytes(const ir_op *op) { return kiln_scalars[op->operands[0]->type.scalar].bytes; }

static void note_staged(ir_op *op, void *context) {
  splitting *s = context;
  if (!is_staged(op)) return;
  unsigned row = kiln_stage_at_a_time(s->machine, s->kernel, op) * staged_bytes(op);
  while (1u << s->staged < row) s->staged++;
}

static void alloc_staged(ir_op *op, void *context) {
  splitting *s = context;
  if (!is_staged(op)) return;
  ir_value **staging = &s->staging[staged_bytes(op) == 4];
  if (*staging) return;
  ir_type type = kiln_staged_value(op)->type;
  type.log2[0] = (uint8_t)(STAGE_ROWS + __builtin_ctz(s->groups / s->spread));
  type.log2[1] = (uint8_t)(s->staged - (unsigned)__builtin_ctz(staged_bytes(op)));
  ir_value *other = s->staging[staged_bytes(op) != 4];
  if (other) s->top = (uint32_t)other->def->attrs.bits;
  *staging = alloc(s, ir_memory_type(type, 1), bytes_of(type), ALIGN, 0);
}

static void alloc_staging(splitting *s, ir_block *body) {
  ir_walk(body, note_staged, s);
  ir_walk(body, alloc_staged, s);
}

static uint32_t exchanged_bytes(const splitting *s, const ir_op *op) {
  unsigned tiles = op->code == IR_CLUSTER_SCATTER ? 1 : op->attrs.split - 1u;
  uint32_t bytes = tiles * bytes_of(op->operands[0]->type) / s->spread;
  return op->attrs.first ? (bytes >> op->results[0].type.log2[1]) * (uint32_t)op->attrs.first : bytes;
}

static void alloc_exchanged(splitting *s, ir_op *op) {
  unsigned tiles = op->code == IR_CLUSTER_SCATTER ? 1 : op->attrs.split - 1u;
  ir_value **operands = KILN_NEW_ARRAY(s->kernel->arena, ir_value *, 5);
  memcpy(operands, op->operands, 2 * sizeof *operands);
  operands[2] = alloc(s, ir_memory_type(op->operands[0]->type, tiles), exchanged_bytes(s, op), ALIGN, 0);
  if (operands[2] && s->spread > 1) operands[2]->def->attrs.spread = (uint8_t)s->spread;
  op->operands = operands;
}

/// Each group is told by the others when they have taken what it sent; over slots, by all groups of the
/// blocks when they have read these.
static void alloc_exchange_barriers(splitting *s, ir_op *op) {
  unsigned groups = s->groups / s->spread, told = op->code == IR_CLUSTER_SCATTER ? op->attrs.split : 1u;
  ir_type barriers = ir_barrier_type(groups);
  if (op->attrs.flags & IR_OVERLAID) told *= groups;
  op->operands[3] = alloc(s, barriers, groups * BARRIER_BYTES, BARRIER_BYTES, 1);
  op->operands[4] = alloc(s, barriers, groups * BARRIER_BYTES, BARRIER_BYTES, told);
  op->operand_count = 5;
}

/// The others' accumulators go to the memory of the first block of a cluster; or parts of everybody's to
/// everybody, where that is decided with the slots.
static void find_exchange(ir_op *op, void *context) {
  splitting *s = context;
  if (op->code != IR_CLUSTER_SUM && op->code != IR_CLUSTER_SCATTER) return;
  s->split = op->attrs.split;
  if (op->code == IR_CLUSTER_SCATTER) {
    s->scatter = op;
    return;
  }
  alloc_exchanged(s, op);
  alloc_exchange_barriers(s, op);
}

static unsigned slots_beside(const kiln_target *target, uint64_t fixed, uint64_t slot, unsigned wanted) {
  while (wanted && fixed + wanted * slot > target->processor->shared_bytes) wanted--;
  return wanted;
}

/// As many slots as are wanted and fit, the same for all rings of loops. What is scattered has memory of its
/// own where that leaves as many; else it lies over the slots.
static bool choose_slots(splitting *s, const kiln_target *target) {
  uint64_t fixed = s->top + s->groups * EXCHANGE_BYTES, loop = 0, exchanged = 0;
  unsigned wanted = s->kernel->stages ? s->kernel->stages : DEFAULT_SLOTS;
  bool is_all_loop = true;
  for (unsigned i = 0; i < s->ring_count; i++) {
    *(s->rings[i].is_in_loop ? &loop : &fixed) += s->rings[i].part;
    is_all_loop &= s->rings[i].is_in_loop;
  }
  if (wanted > MAX_SLOTS) wanted = MAX_SLOTS;
  if (wanted < 2) wanted = 2;
  if (s->scatter) exchanged = exchanged_bytes(s, s->scatter) + ALIGN;
  unsigned slots = slots_beside(target, fixed + exchanged, loop, wanted),
           over = s->scatter && is_all_loop ? slots_beside(target, fixed + ALIGN, loop, wanted) : 0;
  if (over > slots && over * loop >= exchanged - ALIGN) s->scatter->attrs.flags |= IR_OVERLAID, slots = over;
  for (unsigned i = 0; i < s->ring_count; i++) {
    ring *r = &s->rings[i];
    r->slots = r->is_put ? KILN_PUT_SLOTS : r->is_in_loop ? slots : 1;
  }
  return slots > 1;
}

static void alloc_slots(splitting *s) {
  for (unsigned i = 0; i < s->ring_count; i++) {
    ring *r = &s->rings[i];
    for (unsigned k = 0; k < r->count; k++) {
      uint32_t parts = r->parts[k], bytes = kiln_memory_bytes(r->tiles[k], r->first[k]) / parts;
      r->memory[k] = alloc(s, ir_memory_type(r->tiles[k], r->slots), r->slots * bytes, ALIGN, 0);
      if (!r->memory[k]) return;
      r->memory[k]->def->attrs.first = r->first[k];
      if (parts > 1) r->memory[k]->def->attrs.spread = (uint8_t)parts;
    }
  }
}

static void alloc_barriers(splitting *s) {
  for (unsigned i = 0; i < s->ring_count; i++) {
    ring *r = &s->rings[i];
    uint32_t bytes = r->slots * BARRIER_BYTES;
    if (r->is_put) continue;
    r->full = alloc(s, ir_barrier_type(r->slots), bytes, BARRIER_BYTES, 1);
    r->empty = alloc(s, ir_barrier_type(r->slots), bytes, BARRIER_BYTES, s->groups);
  }
}

static void alloc_rings(splitting *s) {
  ir_op *scatter = s->scatter;
  bool is_overlaid = scatter && scatter->attrs.flags & IR_OVERLAID;
  uint32_t top = s->top;
  if (scatter) alloc_exchanged(s, scatter);
  if (is_overlaid) s->top = top;
  else if (scatter) alloc_exchange_barriers(s, scatter);
  alloc_slots(s);
  alloc_barriers(s);
  if (!is_overlaid) return;
  alloc_exchange_barriers(s, scatter);
  s->taken = alloc(s, ir_barrier_type(1), BARRIER_BYTES, BARRIER_BYTES, s->groups);
}

// ---------------------------------------------------------------------------------------- positions

static ir_value *i32(splitting *s, int64_t value) { return ir_const_int(&s->b, KILN_I32, value); }

static void start_positions(splitting *s) {
  for (unsigned i = 0; i < s->ring_count; i++)
    s->at[i] = (position){.slot = i32(s, 0), .phase = i32(s, s->is_producer ? 1 : 0)};
}

static void advance(splitting *s, unsigned number) {
  position *p = &s->at[number];
  unsigned slots = s->rings[number].slots;
  ir_value *flipped = ir_binary(&s->b, IR_XOR, 0, p->phase, i32(s, 1));
  if (slots == 1) {
    p->phase = flipped;
    return;
  }
  ir_value *next = ir_binary(&s->b, IR_ADD, 0, p->slot, i32(s, 1));
  ir_value *wraps = ir_compare(&s->b, IR_EQ, 0, next, i32(s, slots));
  p->slot = ir_ternary(&s->b, IR_SELECT, 0, wraps, i32(s, 0), next);
  p->phase = ir_ternary(&s->b, IR_SELECT, 0, wraps, flipped, p->phase);
}

static void note_ring(ir_op *op, void *context) {
  splitting *s = context;
  unsigned marks = 0; // a set of rings
  if (op->code == IR_VIEW_LOAD && op->attrs.flags & IR_MAPPED)
    marks = 1u << s->sites[op->attrs.pack - 1].ring;
  for (unsigned i = 0; op->code == IR_DOT && i < s->product_count; i++)
    if (s->products[i].dot == op && s->products[i].how.put) marks = 1u << s->products[i].ring;
  for (unsigned i = 0; i < s->ring_count; i++)
    if (marks >> i & 1) s->rings[i].count |= 0x80; // a mark, taken off at once
}

/// The rings that a block's text moves on, as a set.
static unsigned rings_within(splitting *s, ir_block *block) {
  unsigned set = 0;
  ir_walk(block, note_ring, s);
  for (unsigned i = 0; i < s->ring_count; i++) {
    set |= (s->rings[i].count >> 7 & 1) << i;
    s->rings[i].count &= 0x7f;
  }
  return set;
}

/// The parts of the positions of a set of rings, in order; those of single slots have no slot number.
static unsigned parts_of(splitting *s, unsigned set, ir_value **out[2 * MAX_RINGS]) {
  unsigned count = 0;
  for (unsigned i = 0; i < s->ring_count; i++) {
    if (!(set >> i & 1)) continue;
    if (s->rings[i].slots > 1) out[count++] = &s->at[i].slot;
    out[count++] = &s->at[i].phase;
  }
  return count;
}

static ir_value **joined(splitting *s, ir_value **from, uint32_t count, ir_value **const *more, unsigned n) {
  ir_value **out = KILN_NEW_ARRAY(s->kernel->arena, ir_value *, count + n);
  if (count) memcpy(out, from, count * sizeof *out);
  for (unsigned i = 0; i < n; i++) out[count + i] = *more[i];
  return out;
}

static void extend_end(splitting *s, ir_block *block, ir_value **const *parts, unsigned n) {
  ir_op *end = ir_terminator(block);
  end->operands = joined(s, end->operands, end->operand_count, parts, n);
  end->operand_count += n;
}

/// `op` made anew with `operands` and more results; the regions move over.
static void remake(splitting *s, ir_op *op, ir_value **operands, uint32_t count, ir_value **const *parts,
                   unsigned n) {
  s->b.block = op->block, s->b.before = op, s->b.place = op->place;
  uint32_t regions = op->region_count;
  ir_op *made = ir_emit(&s->b, op->code, &op->attrs, operands, count, NULL, op->regions, regions);
  if (!made) return;
  for (uint32_t i = 0; i < op->result_count; i++) op->results[i].forward = &made->results[i];
  for (unsigned i = 0; i < n; i++) *parts[i] = &made->results[op->result_count + i];
  op->region_count = 0;
  ir_remove(op);
}

static void rewrite_block(splitting *s, ir_block *block);

static void rewrite_for(splitting *s, ir_op *op) {
  ir_value **parts[2 * MAX_RINGS];
  unsigned n = parts_of(s, rings_within(s, op->regions[0]), parts);
  ir_value **operands = joined(s, op->operands, op->operand_count, parts, n);
  for (unsigned i = 0; i < n; i++)
    *parts[i] = ir_block_arg(s->kernel->arena, op->regions[0], ir_scalar_type(KILN_I32));
  rewrite_block(s, op->regions[0]);
  if (!n) return;
  extend_end(s, op->regions[0], parts, n);
  remake(s, op, operands, op->operand_count + n, parts, n);
}

static void rewrite_if(splitting *s, ir_op *op) {
  ir_value **parts[2 * MAX_RINGS];
  position before[MAX_RINGS];
  unsigned n = parts_of(s, rings_within(s, op->regions[0]) | rings_within(s, op->regions[1]), parts);
  memcpy(before, s->at, sizeof before);
  for (unsigned r = 0; r < 2; r++) {
    memcpy(s->at, before, sizeof before);
    rewrite_block(s, op->regions[r]);
    extend_end(s, op->regions[r], parts, n);
  }
  if (n) remake(s, op, op->operands, op->operand_count, parts, n);
}

// ----------------------------------------------------------------------------------------- producer

static void before(splitting *s, ir_op *op) {
  s->b.block = op->block, s->b.before = op, s->b.place = op->place;
}

static void behind(splitting *s, ir_op *op) {
  s->b.block = op->block, s->b.before = op->next, s->b.place = op->place;
}

static void emit_barrier(splitting *s, ir_opcode code, ir_value *barriers, ir_value *slot, ir_value *phase,
                         uint64_t bytes) {
  ir_value *operands[3] = {barriers, slot, phase};
  ir_attrs attrs = {.bits = bytes};
  if (code == IR_BAR_ARRIVE && s->spread > 1) attrs.spread = (uint8_t)s->spread;
  ir_emit(&s->b, code, &attrs, operands, phase ? 3 : 2, NULL, NULL, 0);
}

/// All loads of a site are filled where the last of them stands. `loads` are those of the producer's copy.
static void fill(splitting *s, const site *x, ir_op *const *loads, ir_op *where) {
  ring *r = &s->rings[x->ring];
  position *p = &s->at[x->ring];
  behind(s, where);
  emit_barrier(s, IR_BAR_WAIT, r->empty, p->slot, p->phase, 0);
  emit_barrier(s, IR_BAR_EXPECT, r->full, p->slot, NULL, r->bytes | (uint64_t)r->part << 32);
  for (unsigned i = 0; i < x->count; i++) {
    ir_value *operands[IR_MAX_RANK + 4];
    uint32_t count = loads[i]->operand_count;
    memcpy(operands, loads[i]->operands, count * sizeof *operands);
    operands[count++] = r->memory[i];
    operands[count++] = p->slot;
    operands[count++] = r->full;
    ir_attrs attrs = {.first = r->first[i]};
    if (s->spread > 1) attrs.spread = (uint8_t)s->spread, attrs.axis = r->is_left[i] ? 0 : 1;
    if (s->spread > r->parts[i]) attrs.flags = IR_MULTICAST;
    ir_emit(&s->b, IR_COPY, &attrs, operands, count, NULL, NULL, 0);
  }
  advance(s, x->ring);
}

static void produce(splitting *s, ir_op *op, ir_op **seen) {
  site *x = &s->sites[op->attrs.pack - 1];
  unsigned have = 0;
  while (have < x->count && seen[(op->attrs.pack - 1) * MAX_LOADS + have]) have++;
  seen[(op->attrs.pack - 1) * MAX_LOADS + have] = op;
  if (have + 1 == x->count) fill(s, x, &seen[(op->attrs.pack - 1) * MAX_LOADS], op);
}

// ----------------------------------------------------------------------------------------- consumer

static ir_value *wait_for(splitting *s, const site *x) {
  position *p = &s->at[x->ring];
  ir_value *slot = p->slot;
  emit_barrier(s, IR_BAR_WAIT, s->rings[x->ring].full, p->slot, p->phase, 0);
  advance(s, x->ring);
  return slot;
}

static void release(splitting *s, const site *x, ir_value *slot) {
  emit_barrier(s, IR_BAR_ARRIVE, s->rings[x->ring].empty, slot, NULL, 0);
}

/// False in the first iteration of the loop that carries the accumulator, when it starts from zero there;
/// constant where the accumulator is zero each time.
static ir_value *keep_of(splitting *s, const ir_op *dot, bool *out_starts) {
  const ir_value *acc = ir_resolve(dot->operands[2]);
  uint64_t bits;
  *out_starts = false;
  if (ir_constant_bits(acc, &bits) && !bits) return ir_const_bits(&s->b, ir_scalar_type(KILN_I1), 0);
  const ir_op *loop = acc->def ? NULL : acc->block->parent;
  if (!loop || loop->code != IR_FOR || acc->block != dot->block || acc->index == 0 || acc->uses != 1 ||
      !ir_constant_bits(ir_loop_initials(loop)[acc->index - 1], &bits) || bits)
    return ir_const_bits(&s->b, ir_scalar_type(KILN_I1), 1);
  *out_starts = true;
  return ir_compare(&s->b, IR_NE, 0, loop->regions[0]->args[0], loop->operands[0]);
}

static site *site_of(splitting *s, const ir_op *load) {
  return load && load->attrs.flags & IR_MAPPED ? &s->sites[load->attrs.pack - 1] : NULL;
}

static ir_value *memory_of(splitting *s, const site *x, const ir_op *load) {
  return s->rings[x->ring].memory[x->loads[0] == load ? 0 : 1];
}

/// The slot that a product reads; waits for it when the loads stand in the product's block.
static ir_value *slot_for(splitting *s, site *x, const ir_op *dot) {
  if (x->loads[0]->block != dot->block || x->is_held) return x->slot;
  x->is_held = true;
  return x->slot = wait_for(s, x);
}

/// Behind the last product that reads it.
static void release_behind(splitting *s, site *x, const ir_op *dot) {
  if (x->loads[0]->block != dot->block || x->dot != dot) return;
  x->is_held = false;
  release(s, x, x->slot);
}

/// Writes a computed left operand where it is computed; all meet before the product. Gives its memory and
/// slot.
static void put(splitting *s, unsigned number, ir_op *turn, const ir_op *dot, ir_value *out[2]) {
  ring *r = &s->rings[number];
  out[0] = r->memory[0], out[1] = s->at[number].slot;
  ir_value *operands[3] = {out[0], out[1], turn->operands[0]};
  before(s, turn);
  ir_emit(&s->b, IR_PUT, NULL, operands, 3, NULL, NULL, 0);
  before(s, (ir_op *)dot);
  ir_emit(&s->b, IR_BARRIER, NULL, NULL, 0, NULL, NULL, 0);
  advance(s, number);
}

static void consume(splitting *s, ir_op *dot) {
  unsigned number = 0;
  while (number < s->product_count && s->products[number].dot != dot) number++;
  if (number == s->product_count) return;
  kiln_product p = s->products[number].how;
  site *left = site_of(s, p.left), *right = site_of(s, p.right);
  ir_value *operands[6];
  uint32_t count = 0;
  ir_attrs attrs = {.precision = dot->attrs.precision};
  bool starts = false;
  before(s, dot);
  ir_value *right_slot = slot_for(s, right, dot);
  ir_value *left_slot = !left ? NULL : left == right ? right_slot : slot_for(s, left, dot);
  operands[count++] = dot->operands[2];
  operands[count++] =
      p.is_partial ? ir_const_bits(&s->b, ir_scalar_type(KILN_I1), 1) : keep_of(s, dot, &starts);
  operands[count++] = left ? memory_of(s, left, p.left) : dot->operands[0];
  if (left) operands[count++] = left_slot;
  if (p.put) put(s, s->products[number].ring, p.put, dot, operands + 2), count = 4;
  operands[count++] = memory_of(s, right, p.right);
  operands[count++] = right_slot;
  if ((left || p.put) && p.left_mn) attrs.flags |= IR_A_MN;
  if (p.right_mn) attrs.flags |= IR_B_MN;
  if (p.is_partial) attrs.flags |= IR_PARTIAL;
  attrs.pack = starts;
  ir_op *made = ir_emit(&s->b, IR_MMA, &attrs, operands, count, NULL, NULL, 0);
  if (!made) return;
  release_behind(s, right, dot);
  if (left && left != right) release_behind(s, left, dot);
  dot->results[0].forward = &made->results[0];
  ir_remove(dot);
}

/// Loads whose product stands deeper are waited for where they stand ...
static void hold(splitting *s, ir_op *load) {
  site *x = &s->sites[load->attrs.pack - 1];
  if (x->dot->block == load->block || x->loads[x->count - 1] != load) return;
  behind(s, load);
  x->slot = wait_for(s, x);
}

static bool is_within(const ir_op *op, const ir_op *outer) {
  for (; op; op = op->block->parent)
    if (op == outer) return true;
  return false;
}

static void stage(splitting *s, ir_op *op) {
  ir_value *operands[IR_MAX_RANK + 4];
  uint32_t count = op->operand_count - 1;
  memcpy(operands, op->operands, count * sizeof *operands);
  operands[count++] = s->staging[staged_bytes(op) == 4];
  operands[count++] = kiln_staged_value(op);
  before(s, op);
  ir_attrs attrs = {.first = op->attrs.first, .flags = op->attrs.flags & IR_TURNED};
  if (op->code == IR_VIEW_ATOMIC) attrs.flags |= IR_ADDS;
  ir_emit(&s->b, IR_STAGE, &attrs, operands, count, NULL, NULL, 0);
  ir_remove(op);
}

// --------------------------------------------------------------------------------------------- walk

static void pass_on(ir_op *op) {
  op->results[0].forward = op->operands[0];
  ir_remove(op);
}

/// Over the slots: the next program's copies wait for it.
static void exchange(splitting *s, ir_op *op) {
  if (s->is_producer) {
    before(s, op);
    emit_barrier(s, IR_BAR_WAIT, s->taken, i32(s, 0), op->operands[1], 0);
    pass_on(op);
    return;
  }
  behind(s, op);
  emit_barrier(s, IR_BAR_ARRIVE, s->taken, i32(s, 0), NULL, 0);
}

static void rewrite_op(splitting *s, ir_op *op, ir_op **seen) {
  bool is_mapped = op->attrs.flags & IR_MAPPED;
  if (op->code == IR_FOR) rewrite_for(s, op);
  else if (op->code == IR_IF) rewrite_if(s, op);
  else if (op->code == IR_VIEW_LOAD && is_mapped && s->is_producer) produce(s, op, seen);
  else if (op->code == IR_VIEW_LOAD && is_mapped) hold(s, op);
  else if (op->code == IR_DOT && !s->is_producer) consume(s, op);
  else if (op->code == IR_CLUSTER_SCATTER && s->taken) exchange(s, op);
  else if ((op->code == IR_CLUSTER_SUM || op->code == IR_CLUSTER_SCATTER) && s->is_producer) pass_on(op);
  else if (is_staged(op) && !s->is_producer) stage(s, op);
}

static void rewrite_block(splitting *s, ir_block *block) {
  ir_op *seen[MAX_SITES * MAX_LOADS] = {NULL};
  for (ir_op *op = block->first, *next; op; op = next) {
    next = op->next;
    bool ends[MAX_SITES] = {false};
    for (unsigned i = 0; !s->is_producer && i < s->site_count; i++) {
      const site *x = &s->sites[i];
      ends[i] = op->region_count && x->loads[0]->block == block && x->dot->block && x->dot->block != block &&
                is_within(x->dot, op);
    }
    rewrite_op(s, op, seen);
    // ... and released behind the loop that has the product.
    for (unsigned i = 0; i < s->site_count; i++) {
      if (!ends[i]) continue;
      s->b.block = block, s->b.before = next;
      release(s, &s->sites[i], s->sites[i].slot);
    }
  }
}

// -------------------------------------------------------------------------------------------- split

static void strip_effect(ir_op *op, void *context) {
  (void)context;
  bool is_copying = op->code == IR_COPY || op->code == IR_BAR_WAIT || op->code == IR_BAR_EXPECT;
  bool has_effect = ir_ops[op->code].effect == IR_WRITE || ir_ops[op->code].effect == IR_FACT;
  if (has_effect && !is_copying && op->code != IR_ASM) ir_remove(op);
}

static void refuse_tile(ir_op *op, void *context) {
  splitting *s = context;
  bool is_kept = op->code == IR_COPY || op->code == IR_ALLOC || op->code == IR_VIEW;
  for (uint32_t i = 0; !is_kept && i < op->result_count; i++)
    if (op->results[i].type.rank) s->reason = "an index of its loads is computed from tiles";
}

static ir_block *copy_body(splitting *s) {
  ir_block *to = ir_block_create(s->kernel->arena);
  ir_builder b = {.arena = s->kernel->arena, .block = to};
  for (const ir_op *op = s->kernel->body->first; op; op = op->next) ir_clone(&b, op);
  return to;
}

static void end_role(splitting *s, ir_block *block) {
  s->b.block = block, s->b.before = NULL;
  if (!s->is_producer && s->staged) ir_emit(&s->b, IR_STAGE_WAIT, NULL, NULL, 0, NULL, NULL, 0);
  ir_yield(&s->b, NULL, 0);
}

static void write_role(splitting *s, ir_block *block, bool is_producer) {
  s->is_producer = is_producer;
  s->b.block = block, s->b.before = block->first;
  start_positions(s);
  rewrite_block(s, block);
  end_role(s, block);
}

/// Accumulators of a thread, of the block of text that has most.
static unsigned accumulators_of(const splitting *s) {
  unsigned most = 0;
  for (unsigned i = 0; i < s->product_count; i++) {
    kiln_sums sums = {0};
    for (unsigned j = 0; j < s->product_count; j++)
      if (s->products[j].dot->block == s->products[i].dot->block)
        kiln_count_sums(&sums, s->kernel, s->products[j].dot, &s->products[j].how);
    if (kiln_most_sums(&sums) > most) most = kiln_most_sums(&sums);
  }
  return most;
}

/// Accumulators of the largest single instruction: 64 rows, all columns of a group.
static unsigned widest_of(const splitting *s) {
  unsigned most = 0;
  for (unsigned i = 0; i < s->product_count; i++) {
    unsigned sums = s->products[i].how.columns / 2;
    if (sums > most) most = sums;
  }
  return most;
}

/// Blocks that share a processor: one group of consumers leaves its units idle while it waits or ends a
/// program, so as many as have room. More groups fill them alone. The assembler (ptxas 13, C7602) wants that
/// the registers that threads start with hold a whole instruction.
static unsigned choose_blocks(const splitting *s, const kiln_target *target) {
  enum { MOST_BLOCKS = 4, INSTRUCTION = 26 };
  if (s->groups > 1) return 1;
  unsigned needed = accumulators_of(s) + KILN_SPARE_REGISTERS, widest = widest_of(s) + INSTRUCTION;
  unsigned blocks = kiln_blocks_within(s->machine, target, s->top + EXCHANGE_BYTES);
  if (blocks > MOST_BLOCKS) blocks = MOST_BLOCKS;
  while (blocks > 1 && (kiln_consumer_registers(s->machine, 1, blocks) < needed ||
                        kiln_start_registers(s->machine, 1, blocks) < widest))
    blocks--;
  return blocks;
}

/// What the producer gives up goes to the consumers, in steps of 8. One group of consumers that has a
/// processor for itself has enough as it is: 0.
static ir_attrs sharing(const splitting *s) {
  ir_attrs attrs = {.pack = (uint8_t)s->blocks, .split = (uint8_t)s->split};
  if (s->spread > 1) attrs.spread = (uint8_t)s->spread;
  if (s->spread == 2 && s->columns == 2) attrs.flags = IR_BESIDE;
  uint64_t consumers = kiln_consumer_registers(s->machine, s->groups / s->spread, s->blocks);
  if (s->groups > 1 || s->blocks > 1) attrs.bits = s->machine->producer_registers | consumers << 32;
  return attrs;
}

static kiln_status split(splitting *s, const kiln_target *target, kiln_error *err) {
  ir_kernel *kernel = s->kernel;
  ir_number(kernel);
  ir_count_uses(kernel);
  kiln_spread spread = kiln_gpu_blocks_of_program(s->machine, kernel);
  s->spread = spread.blocks, s->columns = spread.columns;
  ir_walk(kernel->body, find_sites, s);
  if (s->reason || !s->site_count) return KILN_STATUS_UNSUPPORTED;
  ir_number(kernel); // clears the slots that ir_clone maps by
  ir_block *producer = copy_body(s), *consumer = ir_block_create(kernel->arena);
  for (ir_op *op = kernel->body->first, *next; op; op = next) {
    next = op->next;
    ir_move(op, consumer, NULL);
  }
  s->b = (ir_builder){.arena = kernel->arena, .block = kernel->body, .machine = true};
  alloc_staging(s, consumer);
  ir_walk(consumer, find_exchange, s);
  if (!choose_slots(s, target)) {
    s->reason = "shared memory has no room for two slots";
    return KILN_STATUS_UNSUPPORTED;
  }
  alloc_rings(s);
  s->blocks = choose_blocks(s, target);
  write_role(s, producer, true);
  write_role(s, consumer, false);
  s->b.block = kernel->body, s->b.before = NULL;
  ir_block *regions[2] = {producer, consumer};
  ir_attrs attrs = sharing(s);
  ir_emit(&s->b, IR_ROLES, &attrs, NULL, 0, NULL, regions, 2);
  if (s->b.error.status != KILN_OK) return kiln_fail(err, KILN_STATUS_INTERNAL, "roles: %s", s->b.error.text);
  ir_apply_forwards(kernel);
  ir_walk(producer, strip_effect, NULL);
  kiln_simplify(kernel);
  ir_walk(kernel->body->last->regions[0], refuse_tile, s);
  return s->reason ? KILN_STATUS_UNSUPPORTED : KILN_OK;
}

kiln_status kiln_gpu_roles(ir_kernel *kernel, const kiln_target *target, kiln_error *err) {
  splitting *s = KILN_NEW(kernel->arena, splitting);
  *s = (splitting){.kernel = kernel, .machine = kiln_matrix_machine_of(target)};
  s->groups = kernel->warps / s->machine->group_warps;
  kiln_status status = split(s, target, err);
  if (!s->reason) return status;
  return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "%s: %s", kernel->name, s->reason);
}
