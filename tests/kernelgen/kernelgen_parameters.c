// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Generates parameters: what is promised of them, and views whose extents and strides only the launch knows.
// What a view reaches lies in its buffer, whatever its strides are; indices may lie outside of its extents.
#include "tests/kernelgen/kernelgen_parts.h"

enum { MOST_REACH = 1500, MOST_STORED = 1 << 14 };

/// A range and what all its numbers are multiples of: at the ends of the type, around 0, one number alone.
static void draw_facts(kernelgen_generator *g, ir_param *p) {
  const unsigned bits = kiln_scalars[p->type.scalar].bits;
  const int64_t most = (int64_t)(UINT64_MAX >> (65 - bits)), least = -most - 1;
  static const uint8_t divisors[] = {1, 1, 2, 3, 8, 12, 16};
  if (chance(g, 30)) return;
  p->div = divisors[below(g, sizeof divisors)];
  if (chance(g, 30)) return;
  p->has_range = true;
  const unsigned where = below(g, 3);
  p->lo = (where == 0 ? most - 39 : where == 1 ? least : -20) + below(g, 20);
  p->lo -= p->lo % p->div; // towards 0
  p->hi = where == 0 ? most : p->lo + below(g, 60);
  if (chance(g, 20)) p->hi = p->lo;
}

void kernelgen_scalar_inputs(kernelgen_generator *g) {
  for (uint32_t i = 1 + below(g, 4); i-- > 0;) {
    ir_param p = {.name = kiln_arena_format(g->arena, "s%u", i), .type = ir_scalar_type(random_scalar(g))};
    if (ir_type_class(p.type) == KILN_CLASS_INT) draw_facts(g, &p);
    keep(g, ir_add_param(g->kernel, &p));
  }
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/// Where its elements are, from the lowest to the highest, if element 0 is at 0.
static void reach(const kernelgen_view *v, int64_t *lowest, int64_t *highest) {
  bool is_empty = false;
  *lowest = *highest = 0;
  for (unsigned i = 0; i < v->rank; i++) {
    const int64_t far = (v->extents[i] - 1) * v->strides[i];
    is_empty |= v->extents[i] < 1;
    *(far < 0 ? lowest : highest) += far;
  }
  if (is_empty) *lowest = *highest = 0;
}

/// Strides of anything, which may let elements overlap.
static void draw_any_strides(kernelgen_generator *g, kernelgen_view *v) {
  static const int8_t strides[] = {0, 0, 1, 1, 2, 3, 5, 7, 16, 40, -1, -1, -3, -16, -40};
  for (unsigned i = 0; i < v->rank; i++) v->strides[i] = strides[below(g, sizeof strides)];
}

/// Strides by which no two elements are at one place: axes in a drawn order, the last of them closest, with
/// gaps; with `unit` above 1 the last axis is contiguous and the others are multiples of it.
static void draw_own_strides(kernelgen_generator *g, kernelgen_view *v, int64_t unit) {
  unsigned order[IR_MAX_RANK];
  for (unsigned i = 0; i < v->rank; i++) order[i] = v->rank - 1 - i;
  for (unsigned i = 1; i < v->rank && unit == 1 && chance(g, 40); i++) {
    const unsigned other = below(g, i + 1), kept = order[i];
    order[i] = order[other], order[other] = kept;
  }
  int64_t stride = unit == 1 && chance(g, 20) ? 1 + below(g, 3) : 1;
  for (unsigned i = 0; i < v->rank; i++) {
    const unsigned axis = order[i];
    if (i && chance(g, 40)) stride += below(g, 5);
    if (i) stride = (stride + unit - 1) / unit * unit;
    v->strides[axis] = unit == 1 && chance(g, 15) ? -stride : stride;
    stride *= v->extents[axis] < 1 ? 1 : v->extents[axis];
  }
}

/// Promises of a view: alignment and contiguous rows.
static void draw_promises(kernelgen_generator *g, ir_param *p) {
  static const uint8_t alignments[] = {0, 0, 16, 32, 64};
  p->align = alignments[below(g, sizeof alignments)];
  if (chance(g, 35)) p->rows = chance(g, 80) ? 16 : 32;
  p->noalias = chance(g, 20);
}

static int64_t unit_of(const ir_param *p) {
  const unsigned bytes = kiln_scalars[p->type.scalar].bytes;
  return p->rows > bytes ? p->rows / bytes : 1;
}

/// A parameter through which everything that `v` reaches lies in a buffer of at least `least` elements after
/// its first; the first is as aligned as it promises.
static ir_value *add_view(kernelgen_generator *g, ir_param *p, const kernelgen_view *v, size_t least) {
  int64_t lowest, highest;
  reach(v, &lowest, &highest);
  const size_t bytes = kiln_scalars[p->type.scalar].bytes, step = p->align > bytes ? p->align / bytes : 1;
  const size_t first = ((size_t)-lowest + step - 1) / step * step;
  const size_t count = (size_t)highest + 1 > least ? (size_t)highest + 1 : least;
  const uint32_t i = g->c->buffer_count++;
  g->c->buffers[i] = (kernelgen_buffer){
      .scalar = p->type.scalar, .count = first + count, .written = p->access != IR_ACCESS_IN, .view = *v};
  g->c->buffers[i].view.first = first;
  p->name = kiln_arena_format(g->arena, "b%u", i);
  return ir_add_param(g->kernel, p);
}

ir_value *kernelgen_view_input(kernelgen_generator *g) {
  static const uint8_t most_extents[IR_MAX_RANK] = {90, 40, 12, 6, 4, 4, 3, 3, 3, 3, 3, 3};
  kernelgen_view v = {
      .rank = (uint8_t)(chance(g, 70) ? 1 + below(g, 2) : 3 + below(g, chance(g, 40) ? IR_MAX_RANK - 2 : 3))};
  ir_param p = {.access = IR_ACCESS_IN};
  p.type = (ir_type){.scalar = (uint8_t)random_scalar(g), .is_view = 1, .rank = v.rank};
  for (unsigned i = 0; i < v.rank; i++)
    p.type.log2[i] = chance(g, i + 1 < v.rank ? 15 : 4) ? IR_DROPPED
                                                        : (uint8_t)(v.rank > 4   ? below(g, 2)
                                                                    : v.rank > 2 ? below(g, 3)
                                                                                 : 1 + below(g, 5));
  draw_promises(g, &p);
  for (unsigned i = 0; i < v.rank; i++) {
    v.extents[i] = 1 + below(g, most_extents[v.rank - 1]);
    if (chance(g, 5)) v.extents[i] = -(int64_t)below(g, 3);
  }
  if (p.rows || chance(g, 50)) draw_own_strides(g, &v, p.rows ? unit_of(&p) : 1);
  else draw_any_strides(g, &v);
  for (int64_t lowest = -MOST_REACH, highest = 0; highest - lowest >= MOST_REACH;) {
    reach(&v, &lowest, &highest);
    for (unsigned i = 0; i < v.rank && highest - lowest >= MOST_REACH; i++)
      v.extents[i] = smaller(v.extents[i], (v.extents[i] + 1) / 2);
  }
  return add_view(g, &p, &v, INPUT_ELEMENTS);
}

ir_value *kernelgen_view_output(kernelgen_generator *g, ir_type type, bool is_whole) {
  const uint32_t all = g->c->grid[0] * g->c->grid[1] * g->c->grid[2];
  kernelgen_view v = {.rank = type.rank};
  ir_param p = {.access = IR_ACCESS_INOUT};
  p.type = type, p.type.is_view = 1;
  draw_promises(g, &p);
  for (unsigned i = 0; i < v.rank; i++) {
    const int64_t whole = ((int64_t)1 << type.log2[i]) * (i ? 1 : all);
    v.extents[i] = chance(g, 60) ? whole + below(g, 3) : below(g, (uint32_t)whole + 1);
  }
  draw_own_strides(g, &v, p.rows ? unit_of(&p) : 1);
  int64_t lowest, highest;
  reach(&v, &lowest, &highest);
  if (highest - lowest >= MOST_STORED) return NULL;
  ir_value *view = add_view(g, &p, &v, 1);
  g->c->buffers[g->c->buffer_count - 1].is_whole = is_whole;
  return view;
}
