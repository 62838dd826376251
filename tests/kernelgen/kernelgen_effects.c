// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Generates statements with effects: those that write, and those that hold others, loops and conditions.
#include "tests/kernelgen/kernelgen_parts.h"

static bool has_room(const kernelgen_generator *g) { return g->c->buffer_count < KERNELGEN_BUFFERS; }

/// Each lane its own element; the old values go on.
void kernelgen_state_atomic(kernelgen_generator *g) {
  static const ir_combine kinds[] = {IR_COMBINE_ADD, IR_COMBINE_MAX, IR_COMBINE_MIN, IR_COMBINE_AND,
                                     IR_COMBINE_OR,  IR_COMBINE_XOR, IR_COMBINE_XCHG};
  if (!has_room(g)) return;
  ir_type type = ir_with_element(random_shape(g), ir_scalar_type(chance(g, 60) ? KILN_I32 : KILN_I64));
  bool same_address = chance(g, 25);
  ir_value *base = add_buffer(g, type.scalar, (size_t)programs(g) << ir_log2_elements(type), true);
  ir_value *offsets =
      same_address ? constant(g, ir_with_element(type, ir_scalar_type(KILN_I32)), 0) : own_offsets(g, type);
  ir_value *operands[3] = {pointers(g, base, offsets), pick_like(g, type), NULL};
  uint32_t count = 2;
  if (chance(g, 40)) operands[count++] = pick_like(g, ir_with_element(type, ir_scalar_type(KILN_I1)));
  ir_attrs attrs = {.kind = same_address ? IR_COMBINE_ADD : kinds[below(g, 7)],
                    .flags = chance(g, 25) ? IR_UNSIGNED : 0};
  ir_op *op = ir_emit(&g->b, IR_ATOMIC, &attrs, operands, count, NULL, NULL, 0);
  if (!op) keep(g, NULL);
  if (!same_address) keep(g, &op->results[0]);
}

void kernelgen_state_cas(kernelgen_generator *g) {
  if (!has_room(g)) return;
  ir_type type = ir_with_element(random_shape(g), ir_scalar_type(chance(g, 60) ? KILN_I32 : KILN_I64));
  ir_value *base = add_buffer(g, type.scalar, (size_t)programs(g) << ir_log2_elements(type), true);
  ir_value *operands[3] = {pointers(g, base, own_offsets(g, type)), whole_numbers(g, type, 3),
                           pick_like(g, type)};
  ir_op *op = ir_emit(&g->b, IR_CAS, NULL, operands, 3, NULL, NULL, 0);
  keep(g, op ? &op->results[0] : NULL);
}

/// Through a view of this program's part that may be smaller than the tile or begin inside it.
static void store_through_view(kernelgen_generator *g, ir_value *v) {
  ir_type type = v->type, view = {.scalar = type.scalar, .is_view = 1, .rank = type.rank};
  bool adds = (type.scalar == KILN_I32 || type.scalar == KILN_I64) && chance(g, 40);
  unsigned total = ir_log2_elements(type), count = 0;
  ir_value *base = add_buffer(g, type.scalar, (size_t)programs(g) << total, true),
           *operands[2 * IR_MAX_RANK + 2];
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
  ir_attrs attrs = {.kind = adds ? IR_COMBINE_ADD : 0};
  draw_first(g, view, &attrs);
  if (!ir_emit(&g->b, adds ? IR_VIEW_ATOMIC : IR_VIEW_STORE, &attrs, operands, count, NULL, NULL, 0))
    keep(g, NULL);
}

static void store_value(kernelgen_generator *g, ir_value *v) {
  ir_value *operands[3];
  if (v->type.rank && chance(g, 25)) {
    store_through_view(g, v);
    return;
  }
  ir_value *base = add_buffer(g, v->type.scalar, (size_t)programs(g) << ir_log2_elements(v->type), true);
  uint32_t count = 2;
  operands[0] = pointers(g, base, own_offsets(g, v->type));
  operands[1] = v;
  if (chance(g, 40)) operands[count++] = pick_like(g, ir_with_element(v->type, ir_scalar_type(KILN_I1)));
  if (!ir_emit(&g->b, IR_STORE, NULL, operands, count, NULL, NULL, 0)) keep(g, NULL);
}

void kernelgen_state_store(kernelgen_generator *g) {
  if (has_room(g)) store_value(g, pick_any(g, ANY_CLASS));
}

/// At the end: what nothing has used yet, so that little of the kernel is dead.
void kernelgen_store_unused(kernelgen_generator *g) {
  ir_count_uses(g->kernel);
  for (uint32_t i = g->pool_count; i-- > 0 && has_room(g);)
    if (!g->pool[i]->uses && !g->pool[i]->type.pointer && g->pool[i]->def) store_value(g, g->pool[i]);
}

/// Fills a region: statements, then the yield of a value of each type. Restores the pool. `wanted`, not NULL,
/// comes from outside, is of the last type, and what something makes of it in memory is yielded.
static void fill_region(kernelgen_generator *g, ir_block *block, ir_value *wanted, ir_value *const *given,
                        uint32_t given_count, const ir_type *types, uint32_t count) {
  ir_builder outer = g->b;
  uint32_t pool = g->pool_count;
  ir_value *values[4];
  g->b = (ir_builder){.arena = g->arena, .block = block};
  for (uint32_t i = 0; i < given_count; i++) keep(g, given[i]);
  ir_value *made = wanted ? kernelgen_want(g, wanted, given_count ? given[given_count - 1] : wanted) : NULL;
  kernelgen_statements(g, 1 + below(g, 3));
  for (uint32_t i = 0; i < count; i++) values[i] = pick_like(g, types[i]);
  if (made) values[count - 1] = made;
  ir_yield(&g->b, values, count);
  if (g->b.error.status != KILN_OK) keep(g, NULL);
  g->b = outer;
  g->pool_count = pool;
}

static ir_value *draw_wanted(kernelgen_generator *g) { return chance(g, 60) ? kernelgen_cheap(g) : NULL; }

/// After the region: the value itself, and now and then in memory too.
static void use_wanted(kernelgen_generator *g, ir_value *wanted) {
  if (!wanted) return;
  ir_value *mask = pick_like(g, ir_with_element(wanted->type, ir_scalar_type(KILN_I1)));
  ir_value *other = chance(g, 30) ? kernelgen_want(g, wanted, wanted) : pick_like(g, wanted->type);
  keep(g, ir_ternary(&g->b, IR_SELECT, 0, mask, wanted, other));
}

void kernelgen_state_for(kernelgen_generator *g) {
  ir_block *body = ir_block_create(g->arena);
  kiln_scalar index = chance(g, 70) ? KILN_I32 : KILN_I64;
  ir_value *wanted = draw_wanted(g), *given[3], *operands[5];
  ir_value *first[4] = {pick_any(g, ANY_CLASS), wanted ? wanted : pick_any(g, ANY_CLASS)};
  ir_type types[2] = {first[0]->type, first[1]->type};
  given[0] = ir_block_arg(g->arena, body, ir_scalar_type(index));
  for (int i = 0; i < 2; i++) given[1 + i] = ir_block_arg(g->arena, body, types[i]);
  fill_region(g, body, wanted, given, 3, types, 2);
  operands[0] = ir_const_int(&g->b, index, (int64_t)below(g, 5) - 2);
  operands[1] = chance(g, 50) ? cast(g, g->small, index) : ir_const_int(&g->b, index, below(g, 7));
  operands[2] = ir_const_int(&g->b, index, 1 + below(g, 3));
  operands[3] = first[0];
  operands[4] = first[1];
  ir_op *op = ir_emit(&g->b, IR_FOR, NULL, operands, 5, NULL, &body, 1);
  keep(g, op ? &op->results[0] : NULL);
  keep(g, &op->results[1]);
  use_wanted(g, wanted);
}

void kernelgen_state_while(kernelgen_generator *g) {
  ir_block *test = ir_block_create(g->arena), *body = ir_block_create(g->arena);
  ir_value *wanted = draw_wanted(g), *first = wanted ? wanted : pick_any(g, ANY_CLASS);
  ir_type types[2] = {ir_scalar_type(KILN_I32), first->type};
  ir_builder t = {.arena = g->arena, .block = test};
  ir_value *args[2] = {ir_block_arg(g->arena, test, types[0]), ir_block_arg(g->arena, test, types[1])};
  ir_value *passed[3] = {ir_compare(&t, IR_LT, 0, args[0], ir_const_int(&t, KILN_I32, 1 + below(g, 4))),
                         args[0], args[1]};
  ir_emit(&t, IR_COND, NULL, passed, 3, NULL, NULL, 0);
  ir_value *given[2] = {ir_block_arg(g->arena, body, types[0]), ir_block_arg(g->arena, body, types[1])};
  fill_region(g, body, wanted, given, 2, types, 2);
  ir_op *end = ir_terminator(body);
  ir_builder w = {.arena = g->arena, .block = body, .before = end};
  end->operands[0] = ir_binary(&w, IR_ADD, 0, given[0], ir_const_int(&w, KILN_I32, 1));
  ir_value *initial[2] = {ir_const_int(&g->b, KILN_I32, 0), first};
  ir_op *op = ir_emit(&g->b, IR_WHILE, NULL, initial, 2, NULL, (ir_block *[]){test, body}, 2);
  keep(g, op ? &op->results[0] : NULL);
  keep(g, &op->results[1]);
  use_wanted(g, wanted);
}

void kernelgen_state_if(kernelgen_generator *g) {
  ir_block *regions[2] = {ir_block_create(g->arena), ir_block_create(g->arena)};
  ir_value *wanted = draw_wanted(g);
  ir_type type = wanted ? wanted->type : pick_any(g, ANY_CLASS)->type;
  const bool is_either = chance(g, 30);
  ir_value *condition =
      ir_compare(&g->b, (ir_predicate)below(g, 6), 0, g->program, ir_const_int(&g->b, KILN_I32, below(g, 3)));
  for (int i = 0; i < 2; i++) fill_region(g, regions[i], i && !is_either ? NULL : wanted, NULL, 0, &type, 1);
  ir_op *op = ir_emit(&g->b, IR_IF, NULL, &condition, 1, NULL, regions, 2);
  keep(g, op ? &op->results[0] : NULL);
  use_wanted(g, wanted);
}
