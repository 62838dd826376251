// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the consumers' products read, and where it is: sites and their rings, then shared memory for staged stores,
// exchanged sums, slots and barriers.
#include <string.h>

#include "base/check.h"
#include "compiler/passes/gpu/roles/roles_inner.h"

// ----------------------------------------------------------------------------------------------------- sites

static bool is_in_loop(const ir_op *op) {
  const ir_op *loop = op->block->parent;
  while (loop && loop->code != IR_FOR) loop = loop->block->parent;
  return loop && loop->block->parent; // the outermost loop is that of the pass persist
}

/// A ring is shared by sites of different blocks only, and not of those within each other: else the order of
/// products could differ from that of loads.
static bool can_share(const splitting *s, const roles_ring *r, unsigned number, const site *from) {
  if (r->is_put || r->is_order || r->ring.count != from->count || !r->is_in_loop ||
      !is_in_loop(from->loads[0]))
    return false;
  for (unsigned i = 0; i < r->ring.count; i++)
    if (!ir_type_equal(r->ring.tiles[i], from->loads[i]->results[0].type) ||
        r->rows[i] != kiln_copied(from->loads[i], 0) || r->columns[i] != kiln_copied(from->loads[i], 1) ||
        (s->spread > 1 && r->is_left[i] != (from->loads[i] == from->left)))
      return false;
  for (unsigned i = 0; i < s->site_count; i++)
    if (s->sites[i].ring == number && kiln_gpu_are_nested(s->sites[i].loads[0], from->loads[0])) return false;
  return true;
}

static void add_load(const splitting *s, roles_ring *r, const ir_op *load, bool is_left, bool is_mn) {
  unsigned i = kiln_ring_add(&r->ring, load->results[0].type);
  r->is_left[i] = is_left;
  r->is_mn[i] = is_mn;
  // Blocks side by side have the same rows of the left operand, those below each other the same columns of the
  // right one.
  r->parts[i] = s->spread < 2 ? 1 : is_left ? s->spread / s->columns : s->columns;
  r->rows[i] = kiln_copied(load, 0), r->columns[i] = kiln_copied(load, 1);
  uint32_t bytes = kiln_memory_bytes(r->ring.tiles[i], r->rows[i], r->columns[i]);
  r->bytes += bytes;
  r->part += bytes / r->parts[i];
}

static roles_ring *new_ring(splitting *s, unsigned *out_number) {
  if (s->ring_count == MAX_RINGS) {
    s->reason = KILN_REASON_MANY;
    return NULL;
  }
  return &s->rings[*out_number = s->ring_count++];
}

/// A computed operand.
static void add_put(splitting *s, unsigned *out_ring, const ir_op *put) {
  roles_ring *r = new_ring(s, out_ring);
  if (!r) return;
  *r = (roles_ring){.is_put = true, .parts = {1}};
  kiln_ring_add(&r->ring, put->operands[0]->type);
  r->part = KILN_PUT_SLOTS * kiln_memory_bytes(r->ring.tiles[0], 0, 0);
}

/// What another product reads already is no site of its own.
static ir_op *if_new(splitting *s, ir_op *dot, ir_op *load) {
  if (!load || !load->attrs.access.site) return load;
  s->sites[load->attrs.access.site - 1].dot = dot;
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
    if (other->results[0].uses < 2 || load->results[0].uses < 2 || other->number >= load->number) continue;
    if (x->dot->block != other->block || dot->block != load->block) continue;
    x->loads[x->count++] = load;
    x->dot = dot;
    load->attrs.access.site = (uint8_t)(i + 1);
    add_load(s, &s->rings[x->ring], load, false, false);
    return true;
  }
  return false;
}

static void add_site(splitting *s, ir_op *dot, ir_op *x, ir_op *y, const kiln_product *p) {
  x = if_new(s, dot, x), y = if_new(s, dot, y);
  if (!x && !y) return;
  if ((!x || !y) && joins(s, dot, x ? x : y)) return;
  if (s->site_count == MAX_SITES) {
    s->reason = KILN_REASON_MANY;
    return;
  }
  site *made = &s->sites[s->site_count];
  *made = (site){.dot = dot, .left = x};
  if (x && y && y->number < x->number) {
    ir_op *swap = x;
    x = y, y = swap;
  }
  if (x) made->loads[made->count++] = x;
  if (y) made->loads[made->count++] = y;
  // Its ring is one that it can share, or a new one.
  unsigned shared = 0;
  while (shared < s->ring_count && !can_share(s, &s->rings[shared], shared, made)) shared++;
  if (shared < s->ring_count) made->ring = shared;
  roles_ring *r = shared < s->ring_count ? NULL : new_ring(s, &made->ring);
  if (r) r->is_in_loop = is_in_loop(made->loads[0]);
  for (unsigned i = 0; r && i < made->count; i++) {
    bool is_left = made->loads[i] == made->left;
    add_load(s, r, made->loads[i], is_left, is_left ? p->left_mn : p->right_mn);
  }
  s->site_count++;
  for (unsigned i = 0; i < made->count; i++) made->loads[i]->attrs.access.site = (uint8_t)s->site_count;
}

void roles_find_sites(splitting *s) {
  for (ir_op *op = ir_next(s->kernel->body, NULL); op; op = ir_next(s->kernel->body, op)) {
    kiln_product p;
    if (!kiln_product_of(s->machine, s->kernel, op, &p)) continue;
    if (!p.right || !ir_is_mapped(p.right) || s->product_count == MAX_SITES) continue;
    ir_op *left = p.left && ir_is_mapped(p.left) ? p.left : NULL;
    if (p.put) add_put(s, &s->products[s->product_count].ring, p.put);
    const ir_value *sums = ir_resolve(op->operands[2]);
    const ir_op *loop = sums->def ? NULL : sums->block->parent;
    const bool is_carried =
        loop && loop->code == IR_FOR && sums->block == op->block && sums->index && sums->uses == 1;
    s->products[s->product_count].is_zero = !is_carried && ir_is_zero(sums);
    s->products[s->product_count].from_zero =
        is_carried && ir_is_zero(ir_loop_initials(loop)[sums->index - 1]);
    s->products[s->product_count].dot = op;
    s->products[s->product_count++].how = p;
    if (left && left->block != p.right->block) {
      add_site(s, op, left, NULL, &p);
      left = NULL;
    }
    add_site(s, op, left, p.right, &p);
  }
  roles_ring *r = s->meets ? new_ring(s, &s->order) : NULL;
  if (r) *r = (roles_ring){.is_order = true};
}

// --------------------------------------------------------------------------------------------- shared memory

enum { DEFAULT_SLOTS = 4, MAX_SLOTS = 8, ALIGN = 1024 };
enum { STAGE_ROWS = 6 }; // logarithm, of what a group stages at a time

static uint32_t bytes_of(ir_type tile) {
  return (uint32_t)kiln_scalars[tile.scalar].bytes << ir_log2_elements(tile);
}

static uint32_t claim(splitting *s, uint32_t bytes, uint32_t align) {
  uint32_t at = (s->top + align - 1) & ~(align - 1);
  s->top = at + bytes;
  return at;
}

static ir_value *alloc(splitting *s, ir_type type, uint32_t bytes, uint32_t align, unsigned arrivals) {
  ir_attrs attrs = {.alloc = {.at = claim(s, bytes, align), .arrivals = (uint8_t)arrivals}};
  ir_op *op = ir_emit(&s->b, IR_ALLOC, &attrs, NULL, 0, &type, NULL, 0);
  return op ? &op->results[0] : NULL;
}

/// Staged stores share one piece of memory: `groups` times 64 rows of as many bytes as the widest has.
bool roles_is_staged(const ir_op *op) { return op->code != IR_VIEW_LOAD && ir_is_mapped(op); }

static uint32_t exchanged_bytes(const splitting *s, const ir_op *op) {
  unsigned tiles = op->code == IR_CLUSTER_SCATTER ? 1 : op->attrs.cluster.blocks - 1u;
  ir_type tile = op->operands[0]->type;
  uint32_t bytes = tiles * bytes_of(tile) / s->spread;
  if (op->attrs.cluster.rows) bytes = (bytes >> tile.log2[0]) * op->attrs.cluster.rows;
  const ir_cluster *c = &op->attrs.cluster;
  return c->columns ? (bytes >> tile.log2[1]) * c->columns * c->blocks : bytes;
}

static void alloc_exchanged(splitting *s, ir_op *op) {
  unsigned tiles = op->code == IR_CLUSTER_SCATTER ? 1 : op->attrs.cluster.blocks - 1u;
  ir_value **operands = KILN_NEW_ARRAY(s->kernel->arena, ir_value *, 5);
  memcpy(operands, op->operands, 2 * sizeof *operands);
  operands[2] = alloc(s, ir_memory_type(op->operands[0]->type, tiles), exchanged_bytes(s, op), ALIGN, 0);
  if (operands[2] && s->spread > 1) operands[2]->def->attrs.alloc.parts = (uint8_t)s->spread;
  op->operands = operands;
}

/// Each group is told by the others when they have taken what it sent; over slots, by all groups of the
/// blocks when they have read these.
static void alloc_exchange_barriers(splitting *s, ir_op *op) {
  unsigned groups = s->groups / s->spread,
           told = op->code == IR_CLUSTER_SCATTER ? op->attrs.cluster.blocks : 1u;
  ir_type barriers = ir_barrier_type(groups);
  if (op->attrs.cluster.is_overlaid) told *= groups;
  op->operands[3] = alloc(s, barriers, groups * KILN_BARRIER_BYTES, KILN_BARRIER_BYTES, 1);
  op->operands[4] = alloc(s, barriers, groups * KILN_BARRIER_BYTES, KILN_BARRIER_BYTES, told);
  op->operand_count = 5;
}

static unsigned slots_beside(const kiln_target *target, uint64_t fixed, uint64_t slot, unsigned wanted) {
  while (wanted && fixed + wanted * slot > target->processor->shared_bytes) wanted--;
  return wanted;
}

static bool is_read_once(const site *x) {
  for (unsigned i = 0; i < x->count; i++)
    if (x->loads[i]->results[0].uses != 1) return false;
  return true;
}

static bool has_neighbour(const splitting *s, const site *x) {
  for (unsigned i = 0; i < s->site_count; i++)
    if (&s->sites[i] != x && s->sites[i].loads[0]->block == x->loads[0]->block) return true;
  return false;
}

/// Every loop has several products in turn, each with operands of its own: while one is multiplied the
/// others' are copied, so that one slot will do.
static bool take_turns(const splitting *s) {
  for (unsigned i = 0; i < s->site_count; i++) {
    const site *x = &s->sites[i];
    if (s->rings[x->ring].is_in_loop && !(is_read_once(x) && has_neighbour(s, x))) return false;
  }
  return true;
}

/// As many slots as are wanted and fit, the same for all rings of loops; two where products do not take
/// turns. What is scattered has memory of its own where that leaves as many; else it lies over the slots.
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
  if (over > slots && over * loop >= exchanged - ALIGN)
    s->scatter->attrs.cluster.is_overlaid = true, slots = over;
  for (unsigned i = 0; i < s->ring_count; i++) {
    roles_ring *r = &s->rings[i];
    r->ring.slots = r->is_put ? KILN_PUT_SLOTS : r->is_in_loop ? slots : 1;
  }
  return slots > 1 || (slots == 1 && take_turns(s));
}

/// Slots, barriers, and what is scattered: before the slots, or over them.
static void alloc_rings(splitting *s) {
  ir_op *scatter = s->scatter;
  bool is_overlaid = scatter && scatter->attrs.cluster.is_overlaid;
  uint32_t top = s->top;
  if (scatter) alloc_exchanged(s, scatter);
  if (is_overlaid) s->top = top;
  else if (scatter) alloc_exchange_barriers(s, scatter);
  for (unsigned i = 0; i < s->ring_count; i++) {
    roles_ring *r = &s->rings[i];
    for (unsigned k = 0; k < r->ring.count; k++) {
      uint32_t parts = r->parts[k],
               bytes = kiln_memory_bytes(r->ring.tiles[k], r->rows[k], r->columns[k]) / parts;
      ir_alloc where = {.at = claim(s, r->ring.slots * bytes, ALIGN),
                        .rows = r->rows[k],
                        .columns = r->columns[k],
                        .parts = parts > 1 ? (uint8_t)parts : 0};
      kiln_ring_alloc(&r->ring, k, where, &s->b);
    }
  }
  for (unsigned i = 0; i < s->ring_count; i++) {
    roles_ring *r = &s->rings[i];
    uint32_t bytes = r->ring.slots * KILN_BARRIER_BYTES;
    if (r->is_put) continue;
    r->full =
        alloc(s, ir_barrier_type(r->ring.slots), bytes, KILN_BARRIER_BYTES, r->is_order ? s->groups : 1u);
    if (r->is_order) continue;
    // Slots whose product stands deeper than their loads may have none.
    for (unsigned k = 0; k < s->site_count; k++)
      r->by_warps |= s->sites[k].ring == i && s->sites[k].loads[0]->block != s->sites[k].dot->block;
    unsigned arrivals = s->groups * (r->by_warps ? s->machine->group_warps : 1u);
    r->empty = alloc(s, ir_barrier_type(r->ring.slots), bytes, KILN_BARRIER_BYTES, arrivals);
  }
  if (!is_overlaid) return;
  alloc_exchange_barriers(s, scatter);
  s->taken = alloc(s, ir_barrier_type(1), KILN_BARRIER_BYTES, KILN_BARRIER_BYTES, s->groups);
  s->passed =
      alloc(s, ir_barrier_type(1), KILN_BARRIER_BYTES, KILN_BARRIER_BYTES, s->spread > 1 ? s->spread : 1);
}

bool roles_alloc(splitting *s, const kiln_target *target, ir_block *consumer) {
  for (const ir_op *op = ir_next(consumer, NULL); op; op = ir_next(consumer, op)) {
    if (!roles_is_staged(op)) continue;
    unsigned row =
        kiln_stage_at_a_time(s->machine, s->kernel, op) * kiln_scalars[op->operands[0]->type.scalar].bytes;
    while (1u << s->staged < row) s->staged++;
  }
  for (const ir_op *op = ir_next(consumer, NULL); op; op = ir_next(consumer, op)) {
    unsigned bytes = roles_is_staged(op) ? kiln_scalars[op->operands[0]->type.scalar].bytes : 0;
    if (!bytes || s->staging[bytes == 4]) continue;
    ir_type type = kiln_staged_value(op)->type;
    type.log2[0] = (uint8_t)(STAGE_ROWS + __builtin_ctz(s->groups / s->spread));
    type.log2[1] = (uint8_t)(s->staged - (unsigned)__builtin_ctz(bytes));
    const ir_value *other = s->staging[bytes != 4];
    if (other) s->top = other->def->attrs.alloc.at;
    s->staging[bytes == 4] = alloc(s, ir_memory_type(type, 1), bytes_of(type), ALIGN, 0);
  }
  // The others' accumulators go to the memory of the first block of a cluster; or parts of everybody's to
  // everybody, where that is decided with the slots.
  for (ir_op *op = ir_next(consumer, NULL); op; op = ir_next(consumer, op)) {
    if (op->code != IR_CLUSTER_SUM && op->code != IR_CLUSTER_SCATTER) continue;
    s->split = op->attrs.cluster.blocks;
    KILN_ASSERT(s->exchange_count < MAX_SITES);
    s->exchanges[s->exchange_count++] = op;
    if (op->code == IR_CLUSTER_SCATTER) {
      s->scatter = op;
      continue;
    }
    alloc_exchanged(s, op);
    alloc_exchange_barriers(s, op);
  }
  if (!choose_slots(s, target)) return false;
  alloc_rings(s);
  return true;
}
