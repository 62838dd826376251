// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Generates statements with effects: stores, atomics, what reads again what they left, and claims.
#include "tests/kernelgen/kernelgen_parts.h"

/// `count` elements a program, of which each program has its own; small whole numbers are in it if `is_whole`.
static ir_value *own_buffer(kernelgen_generator *g, kiln_scalar scalar, unsigned log2, bool is_whole) {
  ir_value *base = add_buffer(g, scalar, (size_t)programs(g) << log2, true);
  g->c->buffers[g->c->buffer_count - 1].is_whole = is_whole;
  g->owned[g->owned_count++] = (kernelgen_own){base, log2, is_whole};
  return base;
}

/// `index` within the part of 2^log2 elements that this program has of a buffer.
static ir_value *own_part(kernelgen_generator *g, ir_value *index, unsigned log2) {
  ir_value *from = binary(g, IR_MUL, g->program, ir_const_int(&g->b, KILN_I32, (int64_t)1 << log2));
  return binary(g, IR_ADD, spread(g, from, index->type), index);
}

static void draw_order(kernelgen_generator *g, ir_attrs *attrs) {
  if (!chance(g, 30)) return;
  attrs->order = (uint8_t)below(g, IR_ORDER_ACQ_REL + 1);
  attrs->scope = (uint8_t)below(g, IR_SCOPE_SYSTEM + 1);
}

static ir_combine draw_kind(kernelgen_generator *g, kiln_scalar scalar, bool is_one_value) {
  ir_combine kind;
  do kind = (ir_combine)(1 + below(g, IR_COMBINE_COUNT - 1));
  while (!ir_atomic_takes(kind, scalar) || (kind == IR_COMBINE_XCHG && !is_one_value));
  return kind;
}

/// Of floats only small whole numbers are added: machines treat denormals and NaN in atomics as they like.
static ir_value *atomic_operand(kernelgen_generator *g, ir_type type) {
  return ir_type_class(type) == KILN_CLASS_FLOAT ? whole_numbers(g, type, 7) : pick_like(g, type);
}

/// Each lane at its own element; all lanes at one, with one value, or at places that some data give, where
/// what they leave does not depend on who is first.
void kernelgen_state_atomic(kernelgen_generator *g) {
  static const kiln_scalar scalars[] = {KILN_I32, KILN_I32, KILN_I64, KILN_F32,
                                        KILN_F64, KILN_F16, KILN_BF16};
  enum { OWN, ONE, SHARED, DATA } where = chance(g, 50) ? OWN : (1 + below(g, 3));
  if (!has_room(g)) return;
  ir_type type = random_shape(g);
  type.scalar = (uint8_t)scalars[below(g, where == OWN ? 7 : where == ONE ? 3 : 5)];
  ir_type index = ir_with_element(type, ir_scalar_type(KILN_I32));
  const bool is_float = ir_type_class(type) == KILN_CLASS_FLOAT;
  const unsigned log2 = where == ONE ? 0 : ir_log2_elements(type);
  ir_value *base, *at, *value, *operands[3];
  if (where == SHARED)
    base = add_buffer(g, type.scalar, 1, true), g->c->buffers[g->c->buffer_count - 1].is_whole = is_float;
  else base = own_buffer(g, type.scalar, log2, is_float);
  switch (where) {
  case OWN: at = own_part(g, permuted_lanes(g, type), log2); break;
  case ONE: at = spread(g, g->program, index); break;
  case SHARED: at = constant(g, index, 0); break;
  default: at = own_part(g, with_number(g, IR_AND, pick_like(g, index), (double)((1u << log2) - 1)), log2);
  }
  value = where == ONE ? spread(g, pick_like(g, ir_element(type)), type) : atomic_operand(g, type);
  operands[0] = pointers(g, base, at), operands[1] = value;
  uint32_t count = 2;
  if (chance(g, 40)) operands[count++] = mask_of(g, type);
  ir_attrs attrs = {.kind = (uint8_t)draw_kind(g, type.scalar, where == OWN || where == ONE)};
  if (chance(g, 25)) attrs.flags = IR_UNSIGNED;
  draw_order(g, &attrs);
  if (where == SHARED && attrs.scope == IR_SCOPE_CTA) attrs.scope = IR_SCOPE_GPU; // other programs are there
  ir_value *old = one(g, IR_ATOMIC, &attrs, operands, count, NULL);
  if (!old || where == OWN) keep(g, old);
  if (where != ONE) return;
  if (!type.rank) keep(g, old);
  else { // in one order or another, the same old values
    ir_type flat = tile(type.scalar, 1, (uint8_t[]){(uint8_t)ir_log2_elements(type)});
    old = shaped(g, old, flat);
    keep(g, one(g, IR_SORT, NULL, &old, 1, &flat));
  }
}

void kernelgen_state_cas(kernelgen_generator *g) {
  static const kiln_scalar scalars[] = {KILN_I32,  KILN_I64, KILN_I16, KILN_F16,
                                        KILN_BF16, KILN_F32, KILN_F64};
  if (!has_room(g)) return;
  ir_type type = random_shape(g);
  type.scalar = (uint8_t)scalars[chance(g, 50) ? below(g, 2) : below(g, 7)];
  const unsigned log2 = ir_log2_elements(type);
  ir_value *base = own_buffer(g, type.scalar, log2, chance(g, 70) || ir_type_class(type) == KILN_CLASS_FLOAT);
  ir_value *operands[3] = {pointers(g, base, own_part(g, permuted_lanes(g, type), log2))};
  operands[1] = whole_numbers(g, type, 3);
  operands[2] = atomic_operand(g, type);
  ir_attrs attrs = {0};
  draw_order(g, &attrs);
  keep(g, one(g, IR_CAS, &attrs, operands, 3, NULL));
}

/// Through a view of this program's part that may be smaller than the tile or begin inside it.
static void store_through_view(kernelgen_generator *g, ir_value *v) {
  ir_type type = v->type, view = {.scalar = type.scalar, .is_view = 1, .rank = type.rank};
  const bool is_float = ir_type_class(type) == KILN_CLASS_FLOAT;
  const bool adds = ir_atomic_takes(IR_COMBINE_ADD, type.scalar) && chance(g, 50);
  unsigned total = ir_log2_elements(type), count = 0;
  ir_value *base = own_buffer(g, type.scalar, total, adds && is_float), *operands[2 * IR_MAX_RANK + 2];
  if (adds) v = is_float ? whole_numbers(g, type, 7) : v;
  operands[count++] = binary(
      g, IR_PTRADD, base, binary(g, IR_MUL, g->program, ir_const_int(&g->b, KILN_I32, (int64_t)1 << total)));
  memcpy(view.log2, type.log2, sizeof view.log2);
  for (unsigned i = 0; i < type.rank; i++)
    operands[count++] =
        ir_const_int(&g->b, KILN_I64,
                     chance(g, 60) ? (int64_t)1 << type.log2[i] : 1 + (int64_t)below(g, 1u << type.log2[i]));
  for (unsigned i = 0; i < type.rank; i++)
    operands[count++] = ir_const_int(&g->b, KILN_I64, (int64_t)1 << (total -= type.log2[i]));
  ir_op *made = ir_emit(&g->b, IR_VIEW, NULL, operands, count, &view, NULL, 0);
  if (!made) keep(g, NULL);
  operands[0] = &made->results[0];
  count = 1;
  for (unsigned i = 0; i < type.rank; i++)
    operands[count++] = ir_const_int(&g->b, KILN_I64, (int64_t)below(g, 4) - 2);
  operands[count++] = v;
  ir_attrs attrs = {.kind = adds ? (uint8_t)draw_kind(g, type.scalar, true) : 0};
  if (adds) draw_order(g, &attrs), attrs.flags = chance(g, 25) ? IR_UNSIGNED : 0;
  else draw_caching(g, &attrs);
  draw_first(g, view, &attrs);
  if (!ir_emit(&g->b, adds ? IR_VIEW_ATOMIC : IR_VIEW_STORE, &attrs, operands, count, NULL, NULL, 0))
    keep(g, NULL);
}

/// Through a view that is a parameter, at this program's part of it; reads there what is left now and then.
static bool store_through_parameter(kernelgen_generator *g, ir_value *v) {
  const bool is_float = ir_type_class(v->type) == KILN_CLASS_FLOAT;
  const bool adds = ir_atomic_takes(IR_COMBINE_ADD, v->type.scalar) && chance(g, 40);
  ir_value *operands[IR_MAX_RANK + 2] = {kernelgen_view_output(g, v->type, adds && is_float)};
  uint32_t count = 1;
  if (!operands[0]) return false;
  if (adds && is_float) v = whole_numbers(g, v->type, 7);
  for (unsigned i = 0; i < v->type.rank; i++) {
    const int64_t from = chance(g, 50) ? (int64_t)below(g, 5) - 2 : 0;
    if (i) operands[count++] = ir_const_int(&g->b, KILN_I64, from);
    else {
      ir_value *part = with_number(g, IR_MUL, cast(g, g->program, KILN_I64), 1u << v->type.log2[0]);
      operands[count++] = with_number(g, IR_ADD, part, (double)from);
    }
  }
  operands[count++] = v;
  ir_attrs attrs = {.kind = adds ? (uint8_t)draw_kind(g, v->type.scalar, true) : 0};
  if (adds) draw_order(g, &attrs), attrs.flags = chance(g, 25) ? IR_UNSIGNED : 0;
  else draw_caching(g, &attrs);
  draw_first(g, operands[0]->type, &attrs);
  if (!ir_emit(&g->b, adds ? IR_VIEW_ATOMIC : IR_VIEW_STORE, &attrs, operands, count, NULL, NULL, 0))
    keep(g, NULL);
  if (chance(g, 30)) keep(g, one(g, IR_VIEW_LOAD, NULL, operands, count - 1, NULL));
  return true;
}

static void store_value(kernelgen_generator *g, ir_value *v) {
  ir_value *operands[3];
  if (v->type.rank && chance(g, 12) && store_through_parameter(g, v)) return;
  if (v->type.rank && chance(g, 25)) {
    store_through_view(g, v);
    return;
  }
  const unsigned log2 = ir_log2_elements(v->type);
  ir_value *base = own_buffer(g, v->type.scalar, log2, false);
  uint32_t count = 2;
  operands[0] = pointers(g, base, own_part(g, lanes(g, v->type), log2));
  operands[1] = v;
  if (chance(g, 40)) operands[count++] = mask_of(g, v->type);
  ir_attrs attrs = {0};
  draw_caching(g, &attrs);
  if (!ir_emit(&g->b, IR_STORE, &attrs, operands, count, NULL, NULL, 0)) keep(g, NULL);
}

/// Loads what is in memory that the program has written, by other lanes than those that wrote it, and now and
/// then writes there again. Through one parameter that is in order.
void kernelgen_state_reread(kernelgen_generator *g) {
  if (!g->owned_count) return;
  const kernelgen_own at = g->owned[g->owned_count - 1 - below(g, g->owned_count < 3 ? g->owned_count : 3)];
  ir_type shape = random_shape(g), flat = tile(KILN_I32, 1, (uint8_t[]){(uint8_t)at.log2});
  if (ir_log2_elements(shape) > at.log2) shape = at.log2 ? flat : ir_scalar_type(KILN_I32);
  ir_type value = ir_with_element(shape, ir_pointee(at.base->type));
  ir_value *index = permuted_lanes(g, shape);
  if (chance(g, 25)) index = with_number(g, IR_AND, pick_like(g, shape), (double)((1u << at.log2) - 1));
  ir_value *operands[3] = {pointers(g, at.base, own_part(g, index, at.log2))};
  uint32_t count = 1;
  if (chance(g, 30)) operands[count++] = mask_of(g, shape);
  keep(g, one(g, IR_LOAD, &(ir_attrs){0}, operands, count, NULL));
  if (at.is_whole || chance(g, 50)) return;
  operands[0] = pointers(g, at.base, own_part(g, permuted_lanes(g, shape), at.log2));
  operands[1] = g->pool[g->pool_count - 1];
  if (!ir_type_equal(operands[1]->type, value) || chance(g, 50)) operands[1] = pick_like(g, value);
  if (!ir_emit(&g->b, IR_STORE, NULL, operands, 2, NULL, NULL, 0)) keep(g, NULL);
}

/// Something that is true of a value, which the compiler may or may not see.
static ir_value *true_claim(kernelgen_generator *g) {
  if (chance(g, 30)) return ir_compare(&g->b, IR_GT, 0, g->small, ir_const_int(&g->b, KILN_I32, 0));
  ir_value *v = pick_any(g, KILN_CLASS_INT);
  const int64_t top = (1 << (1 + below(g, 6))) - 1;
  ir_value *part = binary(g, IR_AND, v, constant(g, v->type, (double)top));
  if (chance(g, 60)) keep(g, part);
  if (chance(g, 50)) return ir_compare(&g->b, IR_LE, 0, part, constant(g, v->type, (double)top));
  ir_value *twice = with_number(g, IR_SHL, part, 1);
  twice = ir_binary(&g->b, IR_SHR, IR_UNSIGNED, twice, constant(g, v->type, 1));
  return ir_compare(&g->b, IR_EQ, 0, twice, part);
}

void kernelgen_state_claim(kernelgen_generator *g) {
  ir_value *claim = true_claim(g), *hinted;
  ir_attrs attrs = {0};
  if (chance(g, 30)) ir_emit(&g->b, IR_BARRIER, NULL, NULL, 0, NULL, NULL, 0);
  if (chance(g, 40)) ir_emit(&g->b, IR_ASSUME, NULL, &claim, 1, NULL, NULL, 0);
  else {
    if (chance(g, 60)) attrs.assertion = (ir_assertion){.text = "as drawn", .line = 1 + below(g, 90)};
    ir_emit(&g->b, IR_ASSERT, &attrs, &claim, 1, NULL, NULL, 0);
  }
  ir_attrs hint = {0};
  if (chance(g, 50)) {
    ir_value *v = pick_any(g, KILN_CLASS_INT);
    const unsigned by = 1 + below(g, 3);
    hint.hint.divisible = (int64_t)1 << by;
    hinted = binary(g, IR_SHL, v, constant(g, v->type, by));
  } else {
    ir_type shape = random_shape(g);
    if (shape.rank) hint.hint.contiguous = (int64_t)1 << shape.log2[shape.rank - 1];
    hinted = lanes(g, shape);
    hinted = with_number(g, IR_ADD, hinted, below(g, 90));
  }
  keep(g, one(g, IR_HINT, &hint, &hinted, 1, NULL));
}

void kernelgen_store(kernelgen_generator *g, ir_value *v) {
  if (has_room(g)) store_value(g, v);
}

void kernelgen_state_store(kernelgen_generator *g) { kernelgen_store(g, pick_any(g, ANY_CLASS)); }

/// Integers and bits that nothing has used, of one type, become one value.
static void gather_unused(kernelgen_generator *g) {
  for (uint32_t i = g->pool_count; i-- > 0;) {
    ir_value *v = g->pool[i];
    if (v->uses || !v->def || !(ir_type_class(v->type) & (KILN_CLASS_INT | KILN_CLASS_BOOL))) continue;
    for (uint32_t k = 0; k < i; k++) {
      ir_value *other = g->pool[k];
      if (other == v || other->uses || !other->def || !ir_type_equal(other->type, v->type)) continue;
      ir_value *both = binary(g, IR_XOR, v, other);
      if (!both) keep(g, NULL);
      v->uses = other->uses = 1;
      g->pool[i] = v = both;
    }
  }
}

/// At the end: what nothing has used yet, so that little of the kernel is dead.
void kernelgen_store_unused(kernelgen_generator *g) {
  ir_count_uses(g->kernel);
  gather_unused(g);
  for (uint32_t i = g->pool_count; i-- > 0 && has_room(g);) {
    ir_value *v = g->pool[i];
    if (!v->uses && !v->type.pointer && v->def) store_value(g, v);
    v->uses = 1;
  }
}
