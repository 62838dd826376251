// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Generates tables of pointers in memory (`**T`): pointers are loaded, stored and exchanged, and what they
// point to is read through them.
#include "tests/kernelgen/kernelgen_parts.h"

enum { TABLE_LOG2 = 6, MOST_TABLES = 3, REACH = 127 };

/// A parameter of 2^log2 pointers, for each program if it is written. They begin as pointers to elements of
/// buffer `target`.
static ir_value *add_table(kernelgen_generator *g, kiln_scalar scalar, size_t count, bool is_written,
                           uint32_t target) {
  ir_value *table = add_buffer(g, scalar, count, is_written);
  const uint32_t i = g->c->buffer_count - 1;
  g->c->buffers[i].is_table = true, g->c->buffers[i].target = target;
  ir_param *p = &g->kernel->params[g->kernel->param_count - 1];
  p->type.pointer = table->type.pointer = 2;
  if (chance(g, 40)) p->align = 0;
  return table;
}

/// A read buffer of the type; false: there is none.
static bool find_target(kernelgen_generator *g, kiln_scalar scalar, uint32_t *out) {
  for (uint32_t i = 0; i < g->input_count; i++)
    if (g->c->buffers[i].scalar == scalar) {
      *out = i;
      return true;
    }
  return false;
}

static ir_value *at_table(kernelgen_generator *g, ir_value *table, ir_value *index) {
  ir_type type = ir_with_element(index->type, table->type);
  ir_value *base = index->type.rank ? ir_splat(&g->b, table, type) : table;
  return binary(g, IR_PTRADD, base, index);
}

/// Pointers from a table, of any lanes; some of them may be masked off and are others.
void kernelgen_state_table(kernelgen_generator *g) {
  if (g->table_count < MOST_TABLES && has_room(g) && (!g->table_count || chance(g, 40))) {
    const uint32_t target = below(g, g->input_count);
    g->tables[g->table_count] =
        add_table(g, (kiln_scalar)g->c->buffers[target].scalar, 1u << TABLE_LOG2, false, target);
    g->table_count++;
  }
  if (!g->table_count) return;
  ir_value *table = g->tables[below(g, g->table_count)], *operands[3];
  ir_type shape = random_shape(g);
  ir_value *index = chance(g, 30) ? pick_like(g, shape) : lanes(g, shape);
  index = with_number(g, IR_MUL, index, 1 + 2 * below(g, 8));
  index = with_number(g, IR_AND, index, (1 << TABLE_LOG2) - 1);
  uint32_t count = 1;
  operands[0] = at_table(g, table, index);
  if (chance(g, 30)) {
    ir_value *base = g->inputs[g->c->buffers[kernelgen_number_of(g, table)].target];
    operands[1] = pick_like(g, ir_with_element(shape, ir_scalar_type(KILN_I1)));
    operands[2] = shape.rank ? ir_splat(&g->b, base, ir_with_element(shape, base->type)) : base;
    count = 3;
  }
  ir_attrs attrs = {0};
  draw_caching(g, &attrs);
  ir_value *p = one(g, IR_LOAD, &attrs, operands, count, NULL);
  kernelgen_keep_place(g, p, REACH);
  if (chance(g, 60)) kernelgen_load_through(g, p);
}

/// Pointers to inputs go into a table of this program, are read again by other lanes, and may be exchanged.
void kernelgen_state_store_pointers(kernelgen_generator *g) {
  const kernelgen_place *found = kernelgen_pick_place(g, 0);
  uint32_t target;
  if (!found || !has_room(g)) return;
  const kernelgen_place place = *found;
  ir_type type = place.pointers->type, index = ir_with_element(type, ir_scalar_type(KILN_I32));
  if (!find_target(g, (kiln_scalar)type.scalar, &target)) return;
  const unsigned log2 = ir_log2_elements(type);
  ir_value *table = add_table(g, (kiln_scalar)type.scalar, (size_t)programs(g) << log2, true, target),
           *operands[3];
  operands[0] = at_table(g, table, own_offsets(g, index));
  operands[1] = place.pointers;
  uint32_t count = 2;
  ir_opcode code = IR_STORE;
  if (chance(g, 25)) {
    operands[2] = place.pointers;
    operands[1] = one(g, IR_LOAD, NULL, operands, 1, NULL);
    code = IR_CAS, count = 3;
  } else if (chance(g, 40)) operands[count++] = pick_like(g, ir_with_element(type, ir_scalar_type(KILN_I1)));
  ir_op *op = ir_emit(&g->b, code, NULL, operands, count, NULL, NULL, 0);
  if (!op) keep(g, NULL);
  const uint32_t most = place.most > REACH ? place.most : REACH;
  if (code == IR_CAS) kernelgen_keep_place(g, &op->results[0], most);
  ir_value *again = permuted_lanes(g, index);
  ir_value *from = with_number(g, IR_MUL, g->program, 1 << log2);
  again = binary(g, IR_ADD, spread(g, from, index), again);
  operands[0] = at_table(g, table, again);
  ir_value *p = one(g, IR_LOAD, NULL, operands, 1, NULL);
  kernelgen_keep_place(g, p, most);
  kernelgen_load_through(g, p);
}

/// What this program has written is read through pointers from a table. A later store may overtake a load of
/// another parameter, so a barrier follows.
void kernelgen_state_reread_by_table(kernelgen_generator *g) {
  if (!g->owned_count || !has_room(g)) return;
  const kernelgen_own at = g->owned[below(g, g->owned_count)];
  if (g->kernel->params[at.base->index].noalias) return;
  ir_type shape = tile(KILN_I32, at.log2 ? 1 : 0, (uint8_t[]){(uint8_t)at.log2});
  ir_value *table = add_table(g, (kiln_scalar)at.base->type.scalar, (size_t)programs(g) << at.log2, false,
                              kernelgen_number_of(g, at.base));
  g->c->buffers[g->c->buffer_count - 1].part = 1u << at.log2;
  ir_value *p = at_table(g, table, own_offsets(g, shape));
  p = one(g, IR_LOAD, NULL, &p, 1, NULL);
  keep(g, one(g, IR_LOAD, NULL, &p, 1, NULL));
  ir_emit(&g->b, IR_BARRIER, NULL, NULL, 0, NULL, NULL, 0);
}
