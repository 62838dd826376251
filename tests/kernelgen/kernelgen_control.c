// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Generates loops and branches: what they carry and yield, statements in them, and conditions that are known,
// come from the program's number or from data.
#include "tests/kernelgen/kernelgen_parts.h"

enum { MOST_CARRIED = 14, CHEAP_USES = 60 };

/// Where the generator stood before it entered a region, and what it had.
typedef struct scope {
  ir_builder b;
  uint32_t pool_count, place_count, view_count;
  ir_value *sum;
} scope;

static scope enter(kernelgen_generator *g, ir_block *block) {
  const scope outer = {g->b, g->pool_count, g->place_count, g->view_count, g->sum};
  g->grown = NULL;
  g->b = (ir_builder){.arena = g->arena, .block = block};
  return outer;
}

static void leave(kernelgen_generator *g, const scope *outer) {
  if (g->b.error.status != KILN_OK) keep(g, NULL);
  g->b = outer->b;
  g->pool_count = outer->pool_count, g->place_count = outer->place_count, g->view_count = outer->view_count;
  g->sum = outer->sum;
  g->grown = NULL;
}

/// A value of a region, pointers in an input and views too.
static void keep_given(kernelgen_generator *g, ir_value *v, uint32_t most) {
  if (v->type.is_view) kernelgen_keep_view(g, v);
  else if (v->type.pointer) kernelgen_keep_place(g, v, most);
  else keep(g, v);
  if ((v->type.pointer || v->type.is_view) && chance(g, 60)) kernelgen_load_through(g, v);
}

/// Something of both.
static ir_value *mixed(kernelgen_generator *g, ir_value *a, ir_value *b) {
  switch (ir_type_class(a->type)) {
  case KILN_CLASS_INT: return binary(g, chance(g, 50) ? IR_ADD : IR_XOR, a, b);
  case KILN_CLASS_BOOL: return binary(g, IR_XOR, a, b);
  case KILN_CLASS_FLOAT:
    if ((is_half(a->type) && g->options->no_half_steps) || !may_flush(g, a->type)) break;
    return binary(g, chance(g, 50) ? IR_MIN : IR_MAX, a, b);
  default: break;
  }
  ir_value *test = ir_compare(&g->b, IR_LT, 0, g->program, g->small);
  return ir_ternary(&g->b, IR_SELECT, 0, test, a, b);
}

/// Values from outside that a region uses and what follows it uses again.
typedef struct surroundings {
  ir_value *pointers, *values[2];
} surroundings;

static surroundings draw_around(kernelgen_generator *g) {
  surroundings made = {0};
  for (int i = 0; i < 2; i++) made.values[i] = pick_any(g, ANY_CLASS);
  if (chance(g, 60)) made.values[0] = any_since(g, 0);
  if (g->place_count && chance(g, 30)) made.pointers = g->places[below(g, g->place_count)].pointers;
  return made;
}

static void use_around(kernelgen_generator *g, const surroundings *around) {
  if (around->pointers) kernelgen_load_through(g, around->pointers);
  for (int i = 0; i < 2; i++) {
    ir_value *v = around->values[i];
    if (chance(g, 80)) keep(g, mixed(g, v, pick_like(g, v->type)));
  }
}

// ------------------------------------------------------------------------------ what loops carry on

/// What a loop carries: as it begins, in a turn, and in the next one.
typedef struct carried {
  ir_block *block;
  ir_value *first[MOST_CARRIED], *arg[MOST_CARRIED], *next[MOST_CARRIED];
  uint32_t most[MOST_CARRIED], step[MOST_CARRIED]; // of pointers
  uint32_t count, sum, wanted, grown;              // sum to grown: their numbers, or MOST_CARRIED
} carried;

static uint32_t carry(kernelgen_generator *g, carried *c, ir_value *first) {
  if (!first) keep(g, NULL);
  c->first[c->count] = first;
  c->arg[c->count] = ir_block_arg(g->arena, c->block, first->type);
  return c->count++;
}

static void carry_pointers(kernelgen_generator *g, carried *c) {
  const uint32_t step = 1 + below(g, 30);
  if (chance(g, 50)) kernelgen_state_place(g);
  const kernelgen_place *place = kernelgen_pick_place(g, MOST_TURNS * step);
  if (!place) return;
  const kernelgen_place at = *place;
  const uint32_t i = carry(g, c, at.pointers);
  c->step[i] = step, c->most[i] = at.most + MOST_TURNS * step;
}

/// What a sum of products begins as.
static ir_value *first_sum(kernelgen_generator *g) {
  ir_type type = tile(chance(g, 50) ? KILN_I32 : KILN_F32, 2, (uint8_t[]){4, 4});
  if (chance(g, 30)) type.log2[0] = (uint8_t)(2 + below(g, 4)), type.log2[1] = (uint8_t)(2 + below(g, 4));
  if (chance(g, 10)) type.scalar = KILN_F64;
  return type.scalar == KILN_I32 ? pick_like(g, type) : whole_numbers(g, type, 7);
}

static void begin(kernelgen_generator *g, carried *c, ir_value *wanted) {
  c->sum = c->wanted = c->grown = MOST_CARRIED;
  if (g->sum && chance(g, 60)) c->grown = carry(g, c, g->sum);
  const uint32_t any = carry(g, c, pick_any(g, ANY_CLASS));
  if (chance(g, 60)) carry(g, c, chance(g, 50) ? pick_like(g, c->first[any]->type) : pick_any(g, ANY_CLASS));
  if (chance(g, 30)) c->sum = carry(g, c, first_sum(g));
  if (chance(g, 25)) carry_pointers(g, c);
  if (chance(g, 20)) carry(g, c, kernelgen_pick_view(g));
  if (wanted) c->wanted = carry(g, c, wanted);
}

static ir_value *next_of(kernelgen_generator *g, const carried *c, uint32_t i, uint32_t from) {
  ir_value *arg = c->arg[i], *made;
  ir_type type = arg->type;
  if (type.is_view) {
    ir_value *view = chance(g, 40) ? g->views[below(g, g->view_count)] : arg;
    return ir_type_equal(view->type, type) && view != arg ? view : kernelgen_other_view(g, arg);
  }
  if (type.pointer && !type.rank && chance(g, 50)) {
    ir_value *base = kernelgen_view_base(g, type.scalar);
    if (base) return base;
  }
  if (type.pointer) {
    const kernelgen_place *other =
        g->place_count ? &g->places[g->place_count - 1 - below(g, g->place_count) / 2] : NULL;
    if (other && ir_type_equal(other->pointers->type, type) && other->most <= c->most[i])
      return other->pointers;
    return binary(g, IR_PTRADD, arg,
                  constant(g, ir_with_element(type, ir_scalar_type(KILN_I32)), c->step[i]));
  }
  if (type.scalar == KILN_I32 && type.rank == 1 && i != c->grown && chance(g, 15))
    return ir_iota(&g->b, type.log2[0]);
  if (ir_type_class(type) == KILN_CLASS_INT && (i == c->grown || chance(g, 35))) {
    ir_value *more =
        chance(g, 50) ? constant(g, type, 1 + below(g, 9)) : spread(g, cast(g, g->small, type.scalar), type);
    return binary(g, IR_ADD, arg, more);
  }
  made = made_since(g, from, type);
  if (made && made != arg && chance(g, 75)) return made;
  return mixed(g, arg, made && made != arg ? made : pick_like(g, type));
}

/// Values of any type that were made in the region are carried too: as they are, and mixed with those of the
/// turn before.
static void carry_made(kernelgen_generator *g, carried *c, uint32_t from) {
  for (uint32_t i = 1 + below(g, 4); i-- > 0 && g->pool_count > from && c->count + 2 <= MOST_CARRIED;) {
    ir_value *v = any_since(g, from);
    const uint32_t plain = c->count++, both = c->count++;
    c->first[plain] = c->first[both] = NULL; // are made where the loop stands
    c->arg[plain] = ir_block_arg(g->arena, c->block, v->type);
    c->arg[both] = ir_block_arg(g->arena, c->block, v->type);
    c->next[plain] = v;
    c->next[both] = mixed(g, c->arg[both], c->arg[plain]);
  }
}

/// The elements of a value at other places, in its type.
static ir_value *turned(kernelgen_generator *g, ir_value *v) {
  const unsigned total = ir_log2_elements(v->type), first = total / 2;
  if (!total) return v;
  ir_value *square =
      shaped(g, v, tile(v->type.scalar, 2, (uint8_t[]){(uint8_t)first, (uint8_t)(total - first)}));
  return shaped(g, one(g, IR_TRANS, &(ir_attrs){.perm = {1, 0}}, &square, 1, NULL), v->type);
}

/// The middle of a loop: statements, a product that adds to a carried sum, and what goes into the next turn.
/// Values of the loop are those that the pool has from `from` on.
static void fill_body(kernelgen_generator *g, carried *c, uint32_t from, bool may_grow) {
  const bool shallow = g->depth < 2;
  ir_value *wanted = NULL;
  if (c->wanted < MOST_CARRIED) {
    ir_value *first = c->first[c->wanted], *arg = c->arg[c->wanted];
    wanted = chance(g, 70) ? kernelgen_want(g, first, arg) : kernelgen_want(g, arg, first);
  }
  if (c->sum < MOST_CARRIED && c->arg[c->sum]->type.scalar == KILN_I32) g->sum = c->arg[c->sum];
  kernelgen_statements(g, 1 + below(g, shallow ? 6 : 3));
  if (g->sum && shallow && chance(g, 50)) {
    g->depth++;
    kernelgen_state_for(g);
    g->depth--;
  }
  ir_value *sum = c->sum < MOST_CARRIED ? keep(g, kernelgen_product(g, c->arg[c->sum])) : NULL;
  if (g->grown && sum) kernelgen_store(g, g->grown); // what the sum was before, and more
  g->sum = g->grown = NULL;
  kernelgen_statements(g, below(g, shallow ? 3 : 2));
  for (uint32_t i = 0; i < c->count; i++) c->next[i] = next_of(g, c, i, from);
  for (uint32_t i = 1; i < c->count; i++)
    if (ir_type_equal(c->arg[i]->type, c->arg[i - 1]->type) && !c->arg[i]->type.pointer && chance(g, 40)) {
      if (c->arg[i]->type.is_view || chance(g, 40)) {
        c->next[i] = c->arg[i - 1], c->next[i - 1] = c->arg[i];
      } else { // one of them, or each, with the other's elements at other places
        c->next[i] = turned(g, c->arg[i - 1]);
        if (chance(g, 50)) c->next[i - 1] = chance(g, 50) ? c->arg[i] : turned(g, c->arg[i]);
      }
      break;
    }
  if (wanted) c->next[c->wanted] = wanted;
  if (sum) c->next[c->sum] = sum;
  if (may_grow) carry_made(g, c, from);
}

static void complete(kernelgen_generator *g, carried *c) {
  for (uint32_t i = 0; i < c->count; i++)
    if (!c->first[i]) c->first[i] = pick_like(g, c->arg[i]->type);
}

static ir_value *draw_wanted(kernelgen_generator *g) {
  return chance(g, CHEAP_USES) ? kernelgen_cheap(g) : NULL;
}

/// After the region: the value itself, and now and then in memory too.
static void use_wanted(kernelgen_generator *g, ir_value *wanted) {
  if (!wanted) return;
  ir_value *mask = pick_like(g, ir_with_element(wanted->type, ir_scalar_type(KILN_I1)));
  ir_value *other = chance(g, 30) ? kernelgen_want(g, wanted, wanted) : pick_like(g, wanted->type);
  keep(g, ir_ternary(&g->b, IR_SELECT, 0, mask, wanted, other));
}

// ------------------------------------------------------------------------------------------- loops

static void draw_loop_hints(kernelgen_generator *g, ir_attrs *attrs, bool is_for) {
  if (!chance(g, 30)) return;
  ir_loop *loop = &attrs->loop;
  loop->stages = (uint8_t)below(g, 5), loop->unroll = (uint8_t)below(g, 5);
  if (!is_for) return;
  loop->split = chance(g, 30) ? (uint8_t)(1 + below(g, 4)) : 0;
  loop->is_flattened = chance(g, 30), loop->is_in_order = chance(g, 30);
}

/// The value itself, or by a way that nobody sees through.
static ir_value *unknown(kernelgen_generator *g, ir_value *v) {
  if (chance(g, 50)) return v;
  ir_value *zero = binary(g, IR_MUL, g->wide, g->wide);
  zero = with_number(g, IR_AND, zero, 2); // of a square
  return binary(g, IR_ADD, v, cast(g, zero, v->type.scalar));
}

void kernelgen_state_for(kernelgen_generator *g) {
  carried c = {.block = KILN_NEW(g->arena, ir_block)};
  const kiln_scalar index = chance(g, 70) ? KILN_I32 : KILN_I64;
  ir_value *counter = ir_block_arg(g->arena, c.block, ir_scalar_type(index)), *operands[3 + MOST_CARRIED];
  const int64_t step = 1 + below(g, 3);
  const bool is_at_end = chance(g, 10); // of the type
  const int64_t most = index == KILN_I32 ? INT32_MAX : INT64_MAX;
  const int64_t least =
      is_at_end ? (chance(g, 60) ? most - below(g, 8) : -most - 1 + below(g, 2)) : (int64_t)below(g, 5) - 2;
  ir_attrs attrs = {0};
  draw_loop_hints(g, &attrs, true);
  if (least % step == 0 && chance(g, 50)) attrs.loop.divisible = step;
  operands[0] = ir_const_int(&g->b, index, least);
  operands[1] =
      ir_const_int(&g->b, index, is_at_end ? (least < 0 ? least + below(g, 7) : most) : below(g, 7));
  if (is_at_end) operands[1] = unknown(g, operands[1]);
  else if (chance(g, 50)) operands[1] = cast(g, g->small, index);
  else if (chance(g, 50)) operands[1] = cast(g, with_number(g, IR_AND, kernelgen_digest(g), 3), index);
  operands[2] = ir_const_int(&g->b, index, step);
  ir_value *wanted = draw_wanted(g);
  const surroundings around = draw_around(g);
  begin(g, &c, wanted);
  const scope outer = enter(g, c.block);
  keep(g, counter);
  for (uint32_t i = 0; i < c.count; i++) keep_given(g, c.arg[i], c.most[i]);
  use_around(g, &around);
  fill_body(g, &c, outer.pool_count + 1, true);
  ir_yield(&g->b, c.next, c.count);
  leave(g, &outer);
  complete(g, &c);
  memcpy(operands + 3, c.first, c.count * sizeof *operands);
  ir_op *op = ir_emit(&g->b, IR_FOR, &attrs, operands, 3 + c.count, NULL, &c.block, 1);
  if (!op) keep(g, NULL);
  for (uint32_t i = 0; i < c.count; i++) keep_given(g, &op->results[i], c.most[i]);
  if (c.grown < MOST_CARRIED) g->grown = &op->results[c.grown];
  use_around(g, &around);
  use_wanted(g, wanted);
}

/// The test of a while, of which carried value 0 counts turns: that it goes on at most some turns, by chance
/// fewer; what it passes on besides what is carried goes to `extra`.
static uint32_t fill_test(kernelgen_generator *g, const carried *c, ir_value **extra) {
  ir_value *passed[1 + MOST_CARRIED];
  uint32_t count = 0;
  const scope outer = enter(g, c->block);
  for (uint32_t i = 0; i < c->count; i++) keep_given(g, c->arg[i], c->most[i]);
  const uint32_t from = g->pool_count;
  if (chance(g, 60)) kernelgen_statements(g, 1 + below(g, 2));
  passed[0] = ir_compare(&g->b, IR_LT, 0, c->arg[0], ir_const_int(&g->b, KILN_I32, 1 + below(g, 4)));
  if (chance(g, 60)) {
    ir_value *digit = with_number(g, IR_AND, kernelgen_digest(g), 7);
    ir_value *goes_on = ir_compare(&g->b, IR_NE, 0, digit, ir_const_int(&g->b, KILN_I32, below(g, 8)));
    passed[0] = binary(g, IR_AND, passed[0], goes_on);
  }
  memcpy(passed + 1, c->arg, c->count * sizeof *passed);
  while (count < 2 && c->count + count < MOST_CARRIED && g->pool_count > from && chance(g, 70))
    passed[1 + c->count + count++] = any_since(g, from);
  memcpy(extra, passed + 1 + c->count, count * sizeof *passed);
  ir_emit(&g->b, IR_COND, NULL, passed, 1 + c->count + count, NULL, NULL, 0);
  leave(g, &outer);
  return count;
}

void kernelgen_state_while(kernelgen_generator *g) {
  carried c = {.block = KILN_NEW(g->arena, ir_block)};
  ir_block *body = KILN_NEW(g->arena, ir_block), *test = c.block;
  ir_value *wanted = draw_wanted(g), *extra[MOST_CARRIED];
  ir_attrs attrs = {0};
  draw_loop_hints(g, &attrs, false);
  const surroundings around = draw_around(g);
  carry(g, &c, ir_const_int(&g->b, KILN_I32, 0));
  begin(g, &c, wanted);
  const uint32_t extras = fill_test(g, &c, extra);
  carried in = c; // as the body has them
  in.block = body;
  for (uint32_t i = 0; i < c.count; i++) in.arg[i] = ir_block_arg(g->arena, body, c.arg[i]->type);
  const scope outer = enter(g, body);
  for (uint32_t i = 0; i < c.count; i++) keep_given(g, in.arg[i], c.most[i]);
  for (uint32_t i = 0; i < extras; i++) keep(g, ir_block_arg(g->arena, body, extra[i]->type));
  use_around(g, &around);
  fill_body(g, &in, outer.pool_count, false);
  in.next[0] = binary(g, IR_ADD, in.arg[0], ir_const_int(&g->b, KILN_I32, 1));
  ir_yield(&g->b, in.next, in.count);
  leave(g, &outer);
  ir_op *op = ir_emit(&g->b, IR_WHILE, &attrs, c.first, c.count, NULL, (ir_block *[]){test, body}, 2);
  if (!op) keep(g, NULL);
  for (uint32_t i = 0; i < op->result_count; i++) keep_given(g, &op->results[i], i < c.count ? c.most[i] : 0);
  use_wanted(g, wanted);
}

// ---------------------------------------------------------------------------------------- branches

enum { MOST_YIELDED = 5 };

static ir_value *condition_of(kernelgen_generator *g) {
  ir_value *number = chance(g, 50) ? g->program : with_number(g, IR_AND, kernelgen_digest(g), 3);
  return compared(g, number, 3);
}

/// A place of the region, of a type that one of the `outside` places before it has; NULL: there is none.
static const kernelgen_place *place_like_one_of(const kernelgen_generator *g, uint32_t outside) {
  for (uint32_t i = g->place_count; i-- > outside;)
    for (uint32_t k = 0; k < outside; k++)
      if (ir_type_equal(g->places[i].pointers->type, g->places[k].pointers->type)) return &g->places[i];
  return NULL;
}

/// The side whose values are drawn; the other one yields values of the same types. `most`: of pointers.
static uint32_t fill_first_side(kernelgen_generator *g, ir_block *block, ir_value *wanted, ir_value **out,
                                uint32_t *most) {
  uint32_t count = 0;
  const kernelgen_place *found =
      chance(g, 20) ? kernelgen_pick_place(g, 40) : NULL; // the other side has them too
  const kernelgen_place place = found ? *found : (kernelgen_place){0};
  ir_value *view = chance(g, 20) ? kernelgen_pick_view(g) : NULL;
  const scope outer = enter(g, block);
  if (wanted) out[count++] = kernelgen_want(g, wanted, wanted);
  kernelgen_statements(g, 1 + below(g, g->depth < 2 ? 6 : 3));
  if (!wanted && chance(g, 20)) kernelgen_state_store(g); // for its effects alone, or nearly
  else
    for (uint32_t i = 1 + below(g, 3); i-- > 0 && g->pool_count > outer.pool_count;)
      out[count++] = any_since(g, outer.pool_count);
  const kernelgen_place *made = place_like_one_of(g, outer.place_count);
  if (made && count < MOST_YIELDED && chance(g, 60)) {
    most[count] = made->most;
    out[count++] = made->pointers;
  }
  if (found && count < MOST_YIELDED) {
    most[count] = place.most + 40;
    ir_type index = ir_with_element(place.pointers->type, ir_scalar_type(KILN_I32));
    out[count++] = binary(g, IR_PTRADD, place.pointers, constant(g, index, below(g, 40)));
  }
  if (view && count < MOST_YIELDED) out[count++] = kernelgen_other_view(g, view);
  ir_yield(&g->b, out, count);
  leave(g, &outer);
  return count;
}

/// A value of the type, for the other side of a branch.
static ir_value *other_value(kernelgen_generator *g, ir_type type, uint32_t from, uint32_t *most) {
  for (uint32_t i = 0; i < g->view_count && type.is_view; i++)
    if (ir_type_equal(g->views[i]->type, type)) return g->views[i];
  for (uint32_t i = 0; i < g->place_count && type.pointer && !type.is_view; i++)
    if (ir_type_equal(g->places[i].pointers->type, type)) {
      if (*most < g->places[i].most) *most = g->places[i].most;
      return g->places[i].pointers;
    }
  if (type.pointer || type.is_view) return NULL;
  ir_value *made = made_since(g, from, type);
  return made && chance(g, 70) ? made : pick_like(g, type);
}

void kernelgen_state_if(kernelgen_generator *g) {
  ir_block *regions[2] = {KILN_NEW(g->arena, ir_block), KILN_NEW(g->arena, ir_block)};
  ir_value *wanted = draw_wanted(g), *condition = condition_of(g), *values[MOST_YIELDED];
  uint32_t most[MOST_YIELDED] = {0};
  const bool is_either = chance(g, 30);
  const unsigned side = below(g, 2);
  const surroundings around = draw_around(g);
  const uint32_t count = fill_first_side(g, regions[side], wanted, values, most);
  const scope outer = enter(g, regions[!side]);
  ir_value *made = wanted && is_either ? kernelgen_want(g, wanted, wanted) : NULL;
  if (count) use_around(g, &around);
  if (count || chance(g, 50)) kernelgen_statements(g, below(g, g->depth < 2 ? 4 : 2));
  for (uint32_t i = 0; i < count; i++)
    values[i] = other_value(g, values[i]->type, outer.pool_count, &most[i]);
  if (wanted) values[0] = made ? made : wanted;
  ir_yield(&g->b, values, count);
  leave(g, &outer);
  ir_op *op = ir_emit(&g->b, IR_IF, NULL, &condition, 1, NULL, regions, 2);
  if (!op) keep(g, NULL);
  for (uint32_t i = 0; i < count; i++) keep_given(g, &op->results[i], most[i]);
  use_around(g, &around);
  use_wanted(g, wanted);
}
