// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tt.map_elementwise: a function of scalars on every element. The region is read as scalars and then lifted:
// each operation is emitted once more on tiles. Where the elements part ways, both sides of a branch are
// computed and chosen from, and a loop runs until the last element has left it while those that left keep
// their values.
//
// Needs: a region of arithmetic, loads, `if` and loops. A load is masked by the elements that reach it.
#include <string.h>

#include "compiler/ttir/ttir_forms.h"

enum { MAX_PACK = 16 };

typedef struct lifting {
  ttir_reader *r;
  ir_type shape; ///< of the tiles; the element is of no meaning
} lifting;

static void lift_block(lifting *l, const ir_block *block, ir_value *active, ir_value **out_values,
                       uint32_t *out_count);

// A value's slot holds what stands for it on tiles; values from outside stand for themselves.
static ir_value *mapped(ir_value *v) { return v->slot ? v->slot : v; }

static ir_value *spread(lifting *l, ir_value *v) { return ttir_spread(l->r, v, l->shape); }

static ir_value *both(lifting *l, ir_value *active, ir_value *condition) {
  condition = spread(l, condition);
  if (!active || l->r->failed) return condition;
  return ir_binary(&l->r->b, IR_AND, 0, active, condition);
}

static ir_value *opposite(lifting *l, ir_value *condition) {
  return l->r->failed ? NULL
                      : ir_binary(&l->r->b, IR_XOR, 0, condition, ttir_splat_bits(l->r, condition->type, 1));
}

static ir_value *choose(lifting *l, ir_value *condition, ir_value *yes, ir_value *no) {
  ttir_builder_error(l->r);
  return l->r->failed || yes == no
             ? yes
             : ir_ternary(&l->r->b, IR_SELECT, 0, spread(l, condition), spread(l, yes), spread(l, no));
}

// True when any element is: all axes in one, then a reduction.
static ir_value *any(lifting *l, ir_value *v) {
  ttir_builder_error(l->r);
  if (l->r->failed) return NULL;
  ir_type line = {.scalar = KILN_I1, .rank = 1, .log2 = {(uint8_t)ir_log2_elements(v->type)}};
  ir_attrs attrs = {.kind = IR_COMBINE_OR};
  ir_value *flat = v->type.rank == 1 ? v : ir_reshape(&l->r->b, v, line);
  ir_op *op = flat ? ttir_emit(l->r, IR_REDUCE, &attrs, &flat, 1, NULL) : NULL;
  return op ? &op->results[0] : NULL;
}

// -------------------------------------------------------------------------------------- operations

static bool is_given(ir_opcode code) {
  ir_rule rule = (ir_rule)ir_ops[code].rule;
  return rule == IR_RULE_GIVEN || rule == IR_RULE_CAST || rule == IR_RULE_BITCAST;
}

static void lift_plain(lifting *l, ir_op *op, ir_value *active) {
  ir_value *operands[4];
  bool has_tile = false, is_load = op->code == IR_LOAD;
  bool known = (ir_ops[op->code].effect == IR_PURE || is_load) && op->operand_count < 4 &&
               op->result_count == 1 && !op->results[0].type.rank;
  if (!known) {
    ttir_error(l->r, "tt.map_elementwise: expected arithmetic on scalars and control flow, found %s",
               ir_ops[op->code].text);
    return;
  }
  for (uint32_t i = 0; i < op->operand_count; i++) {
    operands[i] = mapped(op->operands[i]);
    has_tile |= operands[i]->type.rank != 0;
  }
  uint32_t count = op->operand_count;
  if (is_load && active) {
    has_tile = true;
    operands[1] = count > 1 ? both(l, active, operands[1]) : active;
    if (count < 2) count = 2;
  }
  ir_type type = op->results[0].type;
  if (has_tile) {
    type = ir_with_element(l->shape, type);
    for (uint32_t i = 0; i < count; i++) operands[i] = spread(l, operands[i]);
  }
  ir_op *copy = ttir_emit(l->r, op->code, &op->attrs, operands, count, is_given(op->code) ? &type : NULL);
  if (copy) op->results[0].slot = &copy->results[0];
}

static void lift_if(lifting *l, ir_op *op, ir_value *active) {
  ir_value *condition = mapped(op->operands[0]), *values[2][TTIR_MAX_VALUES] = {{NULL}};
  uint32_t count[2];
  ir_value *masks[2] = {both(l, active, condition), both(l, active, opposite(l, condition))};
  for (int side = 0; side < 2 && !l->r->failed; side++)
    lift_block(l, op->regions[side], masks[side], values[side], &count[side]);
  for (uint32_t i = 0; i < op->result_count && !l->r->failed; i++)
    op->results[i].slot = choose(l, condition, values[0][i], values[1][i]);
}

// A loop whose bounds are the same for all elements stays one; what it carries are tiles.
static void lift_uniform_for(lifting *l, ir_op *op, ir_value *active) {
  ttir_reader *r = l->r;
  ir_value *operands[TTIR_MAX_VALUES + IR_FOR_BOUNDS], **initials = operands + IR_FOR_BOUNDS,
                                                       *values[TTIR_MAX_VALUES];
  ir_block *body = op->regions[0];
  uint32_t count, carried = ir_carried_count(op);
  for (uint32_t i = 0; i < IR_FOR_BOUNDS; i++) operands[i] = mapped(op->operands[i]);
  for (uint32_t i = 0; i < carried; i++) initials[i] = spread(l, mapped(ir_loop_initials(op)[i]));
  ttir_region region = ttir_open_region(r);
  ir_for_counter(op)->slot = ir_block_arg(r->arena, region.block, operands[0]->type);
  for (uint32_t i = 0; i < carried && !r->failed; i++)
    ir_loop_args(op)[i]->slot = ir_block_arg(r->arena, region.block, initials[i]->type);
  lift_block(l, body, active, values, &count);
  for (uint32_t i = 0; i < count && !r->failed; i++) values[i] = spread(l, values[i]);
  ttir_emit(r, IR_YIELD, NULL, values, count, NULL);
  ttir_close_region(r, &region);
  ir_op *loop = ttir_emit_regions(r, IR_FOR, &op->attrs, operands, op->operand_count, &region.block, 1);
  for (uint32_t i = 0; loop && i < op->result_count; i++) op->results[i].slot = &loop->results[i];
}

// The skeleton of a loop that elements leave one by one. Carried are which elements are in it, and `count`
// tiles. `before` leaves the condition and the values passed on; `after` makes the next tiles of the passed
// ones.
typedef struct parting {
  lifting *l;
  ir_op *op;
  ir_value *carried[TTIR_MAX_VALUES], *passed[TTIR_MAX_VALUES];
  uint32_t count, passed_count;
} parting;
typedef ir_value *parting_test(parting *p);
typedef void parting_step(parting *p, ir_value *active, ir_value **next);

// The region that asks who stays: passes on who does, the passed values and the carried ones. Returns how
// many are passed in all.
static uint32_t parting_before(parting *p, ir_value *const *initial, parting_test *test, ir_value **values,
                               ir_block **out_block) {
  ttir_reader *r = p->l->r;
  ttir_region before = ttir_open_region(r);
  *out_block = before.block;
  ir_value *inside = ir_block_arg(r->arena, before.block, initial[0]->type);
  for (uint32_t i = 0; i < p->count; i++)
    p->carried[i] = ir_block_arg(r->arena, before.block, initial[1 + i]->type);
  values[1] = both(p->l, inside, test(p));
  if (r->failed) return 0;
  values[0] = any(p->l, values[1]);
  for (uint32_t i = 0; i < p->passed_count; i++) values[2 + i] = p->passed[i] = spread(p->l, p->passed[i]);
  for (uint32_t i = 0; i < p->count; i++) values[2 + p->passed_count + i] = p->carried[i];
  uint32_t all = 1 + p->passed_count + p->count;
  ttir_emit(r, IR_COND, NULL, values, 1 + all, NULL);
  ttir_close_region(r, &before);
  return all;
}

// The region that steps on; who has left keeps the carried values. `values` are as the other region passed
// them.
static void parting_after(parting *p, parting_step *step, ir_value **values, uint32_t all,
                          ir_block **out_block) {
  ttir_reader *r = p->l->r;
  ir_value *next[TTIR_MAX_VALUES];
  ttir_region after = ttir_open_region(r);
  *out_block = after.block;
  for (uint32_t i = 0; i < all && !r->failed; i++)
    values[i] = ir_block_arg(r->arena, after.block, values[1 + i]->type);
  for (uint32_t i = 0; i < p->passed_count; i++) p->passed[i] = values[1 + i];
  for (uint32_t i = 0; i < p->count; i++) p->carried[i] = values[1 + p->passed_count + i];
  if (!r->failed) step(p, values[0], next);
  for (uint32_t i = 0; i < p->count && !r->failed; i++)
    values[1 + i] = choose(p->l, values[0], next[i], p->carried[i]);
  ttir_emit(r, IR_YIELD, NULL, values, 1 + p->count, NULL);
  ttir_close_region(r, &after);
}

static void run_parting(parting *p, ir_value *active, parting_test *test, parting_step *step,
                        ir_value **out_passed) {
  ttir_reader *r = p->l->r;
  ir_value *initial[TTIR_MAX_VALUES + 1], *values[2 * TTIR_MAX_VALUES + 2];
  ir_block *blocks[2];
  initial[0] = active ? active : ttir_splat_bits(r, ir_with_element(p->l->shape, ir_scalar_type(KILN_I1)), 1);
  for (uint32_t i = 0; i < p->count; i++) initial[1 + i] = spread(p->l, p->carried[i]);
  ttir_builder_error(r);
  uint32_t all = r->failed ? 0 : parting_before(p, initial, test, values, &blocks[0]);
  if (r->failed) return;
  parting_after(p, step, values, all, &blocks[1]);
  ir_op *loop = ttir_emit_regions(r, IR_WHILE, NULL, initial, 1 + p->count, blocks, 2);
  for (uint32_t i = 0; loop && i < p->passed_count; i++) out_passed[i] = &loop->results[1 + i];
}

static ir_value *test_while(parting *p) {
  const ir_block *block = p->op->regions[0];
  for (uint32_t i = 0; i < p->count; i++) block->args[i]->slot = p->carried[i];
  ir_value *values[TTIR_MAX_VALUES];
  uint32_t count;
  lift_block(p->l, block, NULL, values, &count); // ends in the condition and what is passed on
  if (p->l->r->failed) return NULL;
  p->passed_count = count - 1;
  memcpy(p->passed, values + 1, p->passed_count * sizeof *values);
  return values[0];
}

static void step_while(parting *p, ir_value *active, ir_value **next) {
  const ir_block *block = p->op->regions[1];
  uint32_t count;
  for (uint32_t i = 0; i < p->passed_count; i++) block->args[i]->slot = p->passed[i];
  lift_block(p->l, block, active, next, &count);
}

static void lift_while(lifting *l, ir_op *op, ir_value *active) {
  parting *p = KILN_NEW(l->r->arena, parting);
  ir_value *results[TTIR_MAX_VALUES] = {NULL};
  *p = (parting){.l = l, .op = op, .count = op->operand_count};
  for (uint32_t i = 0; i < op->operand_count; i++) p->carried[i] = mapped(op->operands[i]);
  run_parting(p, active, test_while, step_while, results);
  for (uint32_t i = 0; i < op->result_count && !l->r->failed; i++) op->results[i].slot = results[i];
}

// Carried: the loop's variable, then its values.
static ir_value *test_for(parting *p) {
  ttir_reader *r = p->l->r;
  p->passed_count = p->count;
  memcpy(p->passed, p->carried, p->count * sizeof *p->carried);
  ir_value *high = spread(p->l, mapped(p->op->operands[1]));
  return r->failed ? NULL : ir_compare(&r->b, IR_LT, 0, p->carried[0], high);
}

static void step_for(parting *p, ir_value *active, ir_value **next) {
  ttir_reader *r = p->l->r;
  const ir_block *block = p->op->regions[0];
  uint32_t count;
  for (uint32_t i = 0; i < p->passed_count; i++) block->args[i]->slot = p->passed[i];
  lift_block(p->l, block, active, next + 1, &count);
  ir_value *width = spread(p->l, mapped(p->op->operands[2]));
  if (!r->failed) next[0] = ir_binary(&r->b, IR_ADD, 0, p->passed[0], width);
}

static void lift_for(lifting *l, ir_op *op, ir_value *active) {
  bool uniform = true;
  for (uint32_t i = 0; i < 3; i++) uniform = uniform && !mapped(op->operands[i])->type.rank;
  if (uniform) {
    lift_uniform_for(l, op, active);
    return;
  }
  parting *p = KILN_NEW(l->r->arena, parting);
  ir_value *results[TTIR_MAX_VALUES] = {NULL};
  *p = (parting){.l = l, .op = op, .count = op->operand_count - 2};
  p->carried[0] = mapped(op->operands[0]);
  for (uint32_t i = 3; i < op->operand_count; i++) p->carried[i - 2] = mapped(op->operands[i]);
  run_parting(p, active, test_for, step_for, results);
  for (uint32_t i = 0; i < op->result_count && !l->r->failed; i++) op->results[i].slot = results[1 + i];
}

// Emits the block on tiles; its terminator's operands, lifted, are the values.
static void lift_block(lifting *l, const ir_block *block, ir_value *active, ir_value **out_values,
                       uint32_t *out_count) {
  *out_count = 0;
  for (ir_op *op = block->first; op && !l->r->failed; op = op->next) {
    if (op->code == IR_IF) lift_if(l, op, active);
    else if (op->code == IR_FOR) lift_for(l, op, active);
    else if (op->code == IR_WHILE) lift_while(l, op, active);
    else if (op->code == IR_YIELD || op->code == IR_COND)
      for (uint32_t i = 0; i < op->operand_count; i++) out_values[(*out_count)++] = mapped(op->operands[i]);
    else lift_plain(l, op, active);
    ttir_builder_error(l->r);
  }
}

// ------------------------------------------------------------------------------------------- packs

// The elements of each group of 2^log2 neighbours on the last axis, as so many tiles: split in even and odd
// ones, and those again.
static void unpack(ttir_reader *r, ir_value *v, unsigned log2, ir_value **out, unsigned stride) {
  if (r->failed || log2 == 0) {
    *out = v;
    return;
  }
  ir_type pairs = v->type;
  pairs.log2[pairs.rank - 1]--;
  pairs.log2[pairs.rank++] = 1;
  ir_value *reshaped = ir_reshape(&r->b, v, pairs);
  ir_op *op = reshaped ? ttir_emit(r, IR_SPLIT, NULL, &reshaped, 1, NULL) : NULL;
  for (unsigned i = 0; op && i < 2; i++) unpack(r, &op->results[i], log2 - 1, out + i * stride, stride * 2);
  ttir_builder_error(r);
}

static ir_value *repack(ttir_reader *r, ir_value *const *v, unsigned log2, unsigned stride) {
  if (log2 == 0) return *v;
  ir_value *halves[2] = {repack(r, v, log2 - 1, stride * 2), repack(r, v + stride, log2 - 1, stride * 2)};
  ir_op *op = halves[0] && halves[1] ? ttir_emit(r, IR_JOIN, NULL, halves, 2, NULL) : NULL;
  if (!op) return NULL;
  ir_type flat = halves[0]->type;
  flat.log2[flat.rank - 1]++;
  return ir_reshape(&r->b, &op->results[0], flat);
}

// ({ ^bb0(%a: f32, ..): .. tt.map_elementwise.return %r : f32 }): the region as scalars; what it returns in
// `out_values`.
static ir_block *read_region(ttir_reader *r, ir_value **out_values, uint32_t *out_count) {
  ttir_lexer back = r->lex;
  ttir_expect(r, '(');
  ttir_expect(r, '{');
  ttir_region region = ttir_open_region(r);
  ttir_block_label(r, region.block);
  *out_count = r->failed ? 0 : ttir_body(r, out_values);
  ttir_close_region(r, &region);
  if (r->failed) return NULL;
  r->lex = back; // blocks are not read in order of the text
  if (!ttir_lex_skip_group(&r->lex)) ttir_error(r, "expected ')' after the region");
  return region.block;
}

typedef struct mapping {
  ir_value *operands[TTIR_MAX_VALUES], *values[TTIR_MAX_VALUES]; ///< tiles, and what the region returns
  uint32_t count, returned;
  ir_block *block;
  int64_t pack;
  unsigned log2; ///< of the pack
} mapping;

static bool fits(ttir_reader *r, mapping *m) {
  ir_type shape = m->operands[0]->type;
  bool ok = shape.rank > 0 && m->pack > 0 && m->pack <= MAX_PACK && (m->pack & (m->pack - 1)) == 0;
  m->log2 = ok ? (unsigned)__builtin_ctzll((uint64_t)m->pack) : 0;
  ok = ok && shape.log2[shape.rank - 1] >= m->log2 && shape.rank + (m->log2 > 0) <= IR_MAX_RANK;
  ok = ok && m->block->arg_count == m->count * m->pack && m->returned % m->pack == 0;
  for (uint32_t i = 0; ok && i < m->count; i++)
    ok = ir_same_shape(m->operands[i]->type, shape) && !m->operands[i]->type.is_view;
  if (!ok)
    ttir_error(r,
               "%s: expected tiles of one shape, a pack of 1 to %d that divides it, and as many scalars; "
               "found a pack of %lld, %u tiles and %u scalars",
               r->row->name, MAX_PACK, (long long)m->pack, m->count, m->block->arg_count);
  return ok;
}

// The region's arguments stand for the pieces of the tiles.
static void bind(ttir_reader *r, const mapping *m) {
  ir_value *pieces[MAX_PACK];
  for (uint32_t i = 0; i < m->count && !r->failed; i++) {
    unpack(r, m->operands[i], m->log2, pieces, 1);
    for (int64_t j = 0; j < m->pack && !r->failed; j++) {
      ir_value *argument = m->block->args[i * m->pack + j];
      if (!ir_type_equal(ir_element(pieces[j]->type), argument->type))
        ttir_error(r, "%s: the region's argument %u is not of its tile's type", r->row->name, i);
      argument->slot = pieces[j];
    }
  }
}

static void emit_mapping(ttir_reader *r, mapping *m) {
  uint32_t none;
  ir_value *unused[1];
  lifting l = {.r = r, .shape = m->operands[0]->type};
  uint8_t *last = &l.shape.log2[l.shape.rank - 1];
  *last = (uint8_t)(*last - m->log2);
  bind(r, m);
  if (!r->failed) lift_block(&l, m->block, NULL, unused, &none);
  for (uint32_t i = 0; i < m->returned && !r->failed; i++) m->values[i] = spread(&l, mapped(m->values[i]));
  for (uint32_t i = 0; i < m->returned / m->pack && !r->failed; i++)
    ttir_give(r, repack(r, m->values + i * m->pack, m->log2, 1));
}

// "tt.map_elementwise"(%a, %b) <{pack = 1 : i32}> ({ .. }) : (T, U) -> (V, W)
void ttir_form_map(ttir_reader *r, const ttir_row *row) {
  mapping *m = KILN_NEW(r->arena, mapping);
  ttir_dictionary *attributes = KILN_NEW(r->arena, ttir_dictionary);
  uint32_t line = r->line;
  ttir_expect(r, '(');
  m->count = ttir_values(r, m->operands, TTIR_MAX_VALUES);
  ttir_expect(r, ')');
  ttir_read_dictionary(r, attributes);
  if (r->failed) return;
  m->block = read_region(r, m->values, &m->returned);
  ttir_read_dictionary(r, attributes);
  r->row = row;
  r->line = line;
  ttir_read_signature(r, m->operands, m->count);
  m->pack = ttir_entry_int(attributes, "pack", 1);
  if (!r->failed && fits(r, m)) emit_mapping(r, m);
}
