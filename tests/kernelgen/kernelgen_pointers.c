// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Generates statements about pointers and views as values: made, moved, chosen and turned into other shapes,
// and read through. All of them stay within their inputs.
#include "tests/kernelgen/kernelgen_parts.h"

void kernelgen_keep_place(kernelgen_generator *g, ir_value *pointers, uint32_t most) {
  if (!pointers) keep(g, NULL);
  if (g->place_count < PLACES) g->places[g->place_count++] = (kernelgen_place){pointers, most};
}

const kernelgen_place *kernelgen_pick_place(kernelgen_generator *g, uint32_t room) {
  const kernelgen_place *found = NULL;
  uint32_t seen = 0;
  for (uint32_t i = g->place_count; i-- > 0;)
    if (g->places[i].most + room < INPUT_ELEMENTS && below(g, ++seen) == 0) found = &g->places[i];
  return found;
}

// ------------------------------------------------------------------------------------------- views

void kernelgen_keep_view(kernelgen_generator *g, ir_value *view) {
  if (!view) keep(g, NULL);
  if (g->view_count < VIEWS) g->views[g->view_count++] = view;
}

static ir_value *view_part(kernelgen_generator *g, ir_opcode part, unsigned axis, ir_value *view) {
  return one(g, part, &(ir_attrs){.axis = (uint8_t)axis}, &view, 1, NULL);
}

ir_value *kernelgen_view_base(kernelgen_generator *g, kiln_scalar scalar) {
  for (uint32_t i = g->view_count; i-- > 0;)
    if (g->views[i]->type.scalar == scalar) return view_part(g, IR_VIEW_BASE, 0, g->views[i]);
  return NULL;
}

static ir_value *make_view(kernelgen_generator *g) {
  static const uint8_t most_extents[] = {40, 40, 12, 6, 4, 3}, strides[] = {45, 45, 12, 6, 4, 3};
  ir_value *base = g->inputs[below(g, g->input_count)], *operands[1 + 2 * IR_MAX_RANK] = {base};
  const unsigned rank = chance(g, 25) ? 3 + below(g, 4) : 1 + below(g, 2);
  ir_type type = {.scalar = base->type.scalar, .is_view = 1, .rank = (uint8_t)rank};
  for (unsigned i = 0; i < rank; i++)
    type.log2[i] =
        chance(g, i + 1 < rank ? 20 : 4) ? IR_DROPPED : (uint8_t)(rank > 2 ? below(g, 3) : 2 + below(g, 3));
  for (unsigned i = 0; i < rank; i++)
    operands[1 + i] = ir_const_int(&g->b, KILN_I64, 1 + below(g, most_extents[rank - 1]));
  for (unsigned i = rank, stride = 1; i-- > 0; stride *= strides[rank - 1])
    operands[1 + rank + i] = ir_const_int(&g->b, KILN_I64, stride);
  return one(g, IR_VIEW, NULL, operands, 1 + 2 * rank, &type);
}

ir_value *kernelgen_pick_view(kernelgen_generator *g) {
  if (g->view_count && chance(g, 60)) return g->views[below(g, g->view_count)];
  const bool is_parameter = g->view_inputs < MOST_VIEW_INPUTS && has_room(g) && chance(g, 30);
  kernelgen_keep_view(g, is_parameter ? kernelgen_view_input(g) : make_view(g));
  g->view_inputs += is_parameter;
  return g->views[g->view_count - 1];
}

ir_value *kernelgen_other_view(kernelgen_generator *g, ir_value *view) {
  const unsigned rank = view->type.rank;
  ir_value *parts[1 + 2 * IR_MAX_RANK] = {view_part(g, IR_VIEW_BASE, 0, view)};
  for (unsigned i = 0; i < 2 * rank; i++)
    parts[1 + i] = view_part(g, i < rank ? IR_DIM : IR_VIEW_STRIDE, i % rank, view);
  parts[rank] = binary(g, IR_SUB, parts[rank], ir_const_int(&g->b, KILN_I64, 1));
  ir_value *made = one(g, IR_VIEW, NULL, parts, 1 + 2 * rank, &view->type);
  ir_value *test = compared(g, g->small, 5);
  return chance(g, 30) ? made : ir_ternary(&g->b, IR_SELECT, 0, test, view, made);
}

/// Of the axes in turn, indices that may lie outside.
static uint32_t draw_indices(kernelgen_generator *g, unsigned rank, ir_value **out) {
  for (unsigned i = 0; i < rank; i++) {
    out[i] = ir_const_int(&g->b, KILN_I64, (int64_t)below(g, 40) - 8);
    if (chance(g, 20)) out[i] = cast(g, with_number(g, IR_AND, kernelgen_digest(g), 31), KILN_I64);
  }
  return rank;
}

static void load_from_view(kernelgen_generator *g, ir_value *view) {
  ir_value *operands[2 + IR_MAX_RANK] = {view};
  uint32_t count = 1 + draw_indices(g, view->type.rank, operands + 1);
  ir_attrs attrs = {.access = {.has_other = chance(g, 50)}};
  if (attrs.access.has_other) operands[count++] = whole_numbers(g, ir_scalar_type(view->type.scalar), 1);
  draw_first(g, view->type, &attrs);
  draw_caching(g, &attrs);
  keep(g, one(g, IR_VIEW_LOAD, &attrs, operands, count, NULL));
}

void kernelgen_state_view_load(kernelgen_generator *g) {
  ir_value *view = kernelgen_pick_view(g);
  if (chance(g, 40)) kernelgen_keep_view(g, view = kernelgen_other_view(g, view));
  load_from_view(g, view);
}

void kernelgen_state_view_part(kernelgen_generator *g) {
  ir_value *view = kernelgen_pick_view(g);
  if (chance(g, 60)) view = kernelgen_other_view(g, view);
  const unsigned axis = below(g, view->type.rank);
  switch (below(g, 5)) {
  case 0:
  case 4: kernelgen_keep_place(g, view_part(g, IR_VIEW_BASE, 0, view), 0); return;
  case 1: keep(g, view_part(g, IR_VIEW_STRIDE, axis, view)); return;
  case 2: kernelgen_keep_view(g, view); return;
  default: keep(g, view_part(g, IR_DIM, axis, view)); return;
  }
}

// ---------------------------------------------------------------------------------------- pointers

static kernelgen_place new_place(kernelgen_generator *g) {
  ir_type shape = random_shape(g);
  const uint32_t times = ir_log2_elements(shape) < 8 ? 1 + below(g, 3) : 1, from = below(g, 64);
  ir_value *index = with_number(g, IR_MUL, lanes(g, shape), times);
  index = with_number(g, IR_ADD, index, from);
  if (chance(g, 30)) index = cast(g, index, KILN_I64);
  return (kernelgen_place){pointers(g, g->inputs[below(g, g->input_count)], index),
                           (times << ir_log2_elements(shape)) + from};
}

/// The same elements in another shape.
static ir_value *in_other_shape(kernelgen_generator *g, ir_value *p) {
  const unsigned rank = p->type.rank, total = ir_log2_elements(p->type);
  ir_type type = p->type;
  ir_attrs attrs = {0};
  switch (below(g, 4)) {
  case 0: return rank < IR_MAX_RANK ? ir_expand(&g->b, p, below(g, rank + 1)) : p;
  case 1: {
    if (rank >= IR_MAX_RANK || total > 6) return p;
    const unsigned axis = below(g, rank + 1);
    p = ir_expand(&g->b, p, axis);
    type = p->type;
    type.log2[axis] = 1;
    return ir_broadcast(&g->b, p, type);
  }
  case 2: {
    const unsigned first = below(g, total + 1);
    ir_type two = {.scalar = type.scalar,
                   .pointer = type.pointer,
                   .rank = 2,
                   .log2 = {(uint8_t)first, (uint8_t)(total - first)}};
    return ir_reshape(&g->b, p, two);
  }
  default:
    for (unsigned i = 0; i < rank; i++) attrs.perm[i] = (uint8_t)(rank - 1 - i);
    return rank > 1 ? one(g, IR_TRANS, &attrs, &p, 1, NULL) : p;
  }
}

/// Pointers of `p` in pairs with others, one of the two, or at other places.
static ir_value *rearranged(kernelgen_generator *g, ir_value *p, ir_value *other) {
  const unsigned total = ir_log2_elements(p->type);
  ir_type shape = ir_with_element(p->type, ir_scalar_type(KILN_I32));
  switch (below(g, 4)) {
  case 0:
    if (p->type.rank >= IR_MAX_RANK || total >= MAX_LOG2) return p;
    return one(g, IR_JOIN, NULL, (ir_value *[]){p, other}, 2, NULL);
  case 1: {
    if (!total) return p;
    ir_type pairs = {.scalar = p->type.scalar, .pointer = 1, .rank = 2, .log2 = {(uint8_t)(total - 1), 1}};
    ir_op *op = ir_emit(&g->b, IR_SPLIT, NULL, (ir_value *[]){ir_reshape(&g->b, p, pairs)}, 1, NULL, NULL, 0);
    return op ? &op->results[below(g, 2)] : NULL;
  }
  case 2: {
    ir_type condition = ir_scalar_type(KILN_I1);
    if (chance(g, 60)) condition = ir_with_element(shape, condition);
    return ir_ternary(&g->b, IR_SELECT, 0, pick_like(g, condition), p, other);
  }
  default: {
    if (!p->type.rank) return p;
    ir_attrs attrs = {.axis = (uint8_t)below(g, p->type.rank)};
    return one(g, IR_GATHER, &attrs, (ir_value *[]){p, pick_like(g, shape)}, 2, NULL);
  }
  }
}

/// The same addresses as pointers to another type of as many bits, or by way of integers.
static ir_value *of_other_type(kernelgen_generator *g, ir_value *p) {
  ir_type element = ir_element(p->type);
  if (chance(g, 40)) {
    ir_value *address = ir_bitcast(&g->b, p, ir_scalar_type(KILN_I64));
    return ir_bitcast(&g->b, address, element);
  }
  const kiln_scalar scalar = random_scalar(g);
  if (kiln_scalars[scalar].bits != kiln_scalars[element.scalar].bits || makes_denormals(g, scalar)) return p;
  element.scalar = (uint8_t)scalar;
  return ir_bitcast(&g->b, p, element);
}

static void load_from_pointers(kernelgen_generator *g, ir_value *p) {
  ir_value *operands[3] = {p};
  uint32_t count = 1;
  if (chance(g, 40)) operands[count++] = pick_like(g, ir_with_element(p->type, ir_scalar_type(KILN_I1)));
  ir_attrs attrs = {0};
  draw_caching(g, &attrs);
  keep(g, one(g, IR_LOAD, &attrs, operands, count, NULL));
}

void kernelgen_load_through(kernelgen_generator *g, ir_value *from) {
  if (from->type.is_view) load_from_view(g, from);
  else load_from_pointers(g, from);
}

void kernelgen_state_place(kernelgen_generator *g) {
  const kernelgen_place *found = chance(g, 75) ? kernelgen_pick_place(g, 0) : NULL;
  const kernelgen_place at = found ? *found : new_place(g);
  if (!found) kernelgen_keep_place(g, at.pointers, at.most);
  ir_value *p = at.pointers, *other = p;
  uint32_t most = at.most, moved = below(g, 100);
  for (uint32_t i = 0; i < g->place_count; i++)
    if (ir_type_equal(g->places[i].pointers->type, p->type) && chance(g, 50)) {
      other = g->places[i].pointers;
      most = at.most > g->places[i].most ? at.most : g->places[i].most;
    }
  ir_type shape = ir_with_element(p->type, ir_scalar_type(KILN_I32));
  switch (below(g, 7)) {
  case 0: p = in_other_shape(g, p); break;
  case 1: p = rearranged(g, p, other); break;
  case 2: p = of_other_type(g, p); break;
  case 3: p = p->type.rank ? p : ir_splat(&g->b, p, ir_with_element(g->favourite, p->type)); break;
  case 4:
    if (most + moved < INPUT_ELEMENTS) {
      p = binary(g, IR_PTRADD, p, constant(g, shape, moved));
      most += moved;
    }
    break;
  case 5: {
    ir_value *away = with_number(g, IR_AND, pick_like(g, shape), 63);
    away = binary(g, IR_PTRADD, p, away); // compared, never read
    const ir_predicate predicate = (ir_predicate)below(g, 6);
    keep(g, ir_compare(&g->b, predicate, chance(g, 50) ? IR_UNSIGNED : 0, p, away));
    break;
  }
  default:
    p = one(g, IR_HINT, &(ir_attrs){.hint = {.divisible = kiln_scalars[p->type.scalar].bytes}}, &p, 1, NULL);
  }
  if (p != at.pointers) kernelgen_keep_place(g, p, most);
  if (chance(g, 60)) load_from_pointers(g, p);
}
