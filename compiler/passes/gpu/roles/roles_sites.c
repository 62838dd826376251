// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the consumers' products read: sites and their rings.
#include "compiler/passes/gpu/roles/roles_inner.h"

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

static void add_ring(splitting *s, site *from, const kiln_product *p) {
  for (unsigned i = 0; i < s->ring_count; i++)
    if (can_share(s, &s->rings[i], i, from)) {
      from->ring = i;
      return;
    }
  roles_ring *r = new_ring(s, &from->ring);
  if (!r) return;
  r->is_in_loop = is_in_loop(from->loads[0]);
  for (unsigned i = 0; i < from->count; i++) {
    bool is_left = from->loads[i] == from->left;
    add_load(s, r, from->loads[i], is_left, is_left ? p->left_mn : p->right_mn);
  }
}

/// A computed operand.
static void add_put(splitting *s, unsigned *out_ring, const ir_op *put) {
  roles_ring *r = new_ring(s, out_ring);
  if (!r) return;
  *r = (roles_ring){.is_put = true, .parts = {1}};
  kiln_ring_add(&r->ring, put->operands[0]->type);
  r->part = KILN_PUT_SLOTS * kiln_memory_bytes(r->ring.tiles[0], 0, 0);
}

static bool comes_first(const ir_op *a, const ir_op *b) { return a->number < b->number; }

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
    if (other->results[0].uses < 2 || load->results[0].uses < 2 || !comes_first(other, load)) continue;
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
  if (x && y && comes_first(y, x)) {
    ir_op *swap = x;
    x = y, y = swap;
  }
  if (x) made->loads[made->count++] = x;
  if (y) made->loads[made->count++] = y;
  add_ring(s, made, p);
  s->site_count++;
  for (unsigned i = 0; i < made->count; i++) made->loads[i]->attrs.access.site = (uint8_t)s->site_count;
}

static ir_op *if_mapped(ir_op *load) { return load && ir_is_mapped(load) ? load : NULL; }

static void add_sites(splitting *s, ir_op *op) {
  kiln_product p;
  if (!kiln_product_of(s->machine, s->kernel, op, &p)) return;
  ir_op *left = if_mapped(p.left), *right = if_mapped(p.right);
  if (!right || s->product_count == MAX_SITES) return;
  if (p.put) add_put(s, &s->products[s->product_count].ring, p.put);
  s->products[s->product_count].dot = op;
  s->products[s->product_count++].how = p;
  if (left && left->block != right->block) {
    add_site(s, op, left, NULL, &p);
    left = NULL;
  }
  add_site(s, op, left, right, &p);
}

void roles_find_sites(splitting *s) {
  for (ir_op *op = ir_next(s->kernel->body, NULL); op; op = ir_next(s->kernel->body, op)) add_sites(s, op);
  roles_ring *r = s->meets ? new_ring(s, &s->order) : NULL;
  if (r) *r = (roles_ring){.is_order = true};
}
