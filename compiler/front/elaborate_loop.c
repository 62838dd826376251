// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elaborates loops: variables of outer blocks that a body assigns become loop-carried values, in order of
// declaration. In a loop with a break, values bound before the break are passed over it when the part after
// it reads them.
#include <stdlib.h>
#include <string.h>

#include "compiler/front/elaborate.h"

typedef struct carried {
  kiln_binding *binding;
  ir_value *initial;
  ir_value *first, *second; ///< arguments of the regions
} carried;

typedef struct kiln_loop {
  ir_block *first, *second; ///< regions before and after the break
  ir_value *condition;      ///< goes on while it holds
  carried *items;           ///< outer variables, then heads
  uint32_t outer_count, count;
  ir_value **passed; ///< outer variables, then names of the break, then what is read later
  uint32_t passed_count, passed_capacity;
  kiln_list exports; ///< names of the break
  kiln_list faulty;  ///< the same after an error in their values
  kiln_binding *top; ///< of the stack when the loop began
} kiln_loop;

// ----------------------------------------------------------------------------------------- carried

static int by_order(const void *a, const void *b) {
  const kiln_binding *x = ((const carried *)a)->binding, *y = ((const carried *)b)->binding;
  return x->order < y->order ? -1 : x->order > y->order;
}

// The variables that `body` may assign, sorted by declaration; room for `extra` more.
static carried *find_carried(kiln_elab *e, const kiln_node *body, uint32_t extra, uint32_t *out_count) {
  kiln_list names = kiln_assigned_names(e->arena, e->module, body);
  carried *items = KILN_NEW_ARRAY(e->arena, carried, names.count + extra);
  uint32_t count = 0;
  for (uint32_t i = 0; i < names.count; i++) {
    kiln_binding *b = kiln_elab_find(e, names.items[i]->atom);
    if (!b || !b->is_var) continue;
    kiln_value v = kiln_elab_read(e, b);
    if (count == IR_MAX_RESULTS) {
      kiln_elab_error(e, names.items[i]->place, "a loop assigns more than %d outer variables",
                      IR_MAX_RESULTS);
      break;
    }
    if (v.kind == KILN_VALUE_RUNTIME) items[count++] = (carried){.binding = b, .initial = v.ir};
  }
  if (count) qsort(items, count, sizeof *items, by_order);
  *out_count = count;
  return items;
}

static bool was_touched(const kiln_control *c, const kiln_binding *b) {
  for (uint32_t i = 0; i < c->touched_count; i++)
    if (c->touched[i].binding == b) return true;
  return false;
}

static void drop_arg(ir_block *block, ir_value *arg, ir_value *instead) {
  for (ir_op *op = ir_next(block, NULL); op; op = ir_next(block, op))
    for (uint32_t i = 0; i < op->operand_count; i++)
      if (op->operands[i] == arg) op->operands[i] = instead;
  uint32_t at = arg->index;
  for (block->arg_count--; at < block->arg_count; at++) {
    block->args[at] = block->args[at + 1];
    block->args[at]->index = at;
  }
}

// -------------------------------------------------------------------------------------- attributes

/// Attributes that are a number.
typedef struct counted {
  const char *name;
  size_t field; ///< of ir_loop, a byte
  int64_t most;
  bool one_is_none; ///< for the number 1 the field stays 0
  bool is_flag;     ///< the field is a bool: set for 1, not for another number
} counted;

static const counted *find_counted(const char *name) {
  static const counted all[] = {{"stages", offsetof(ir_loop, stages), KILN_MOST_STAGES, false, false},
                                {"unroll", offsetof(ir_loop, unroll), 255, false, false},
                                {"split", offsetof(ir_loop, split), KILN_MOST_SPLIT, true, false},
                                {"overlap", offsetof(ir_loop, is_in_order), 2, false, true}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!strcmp(all[i].name, name)) return &all[i];
  return NULL;
}

void kiln_elab_loop_attributes(kiln_elab *e, kiln_list attributes, ir_type counter, ir_attrs *attrs) {
  for (uint32_t i = 0; i < attributes.count; i++) {
    const kiln_node *a = attributes.items[i];
    bool flatten = !strcmp(a->atom->text, "flatten"), div = !strcmp(a->atom->text, "div");
    const counted *known = find_counted(a->atom->text);
    int64_t v = 0;
    if (!known && !flatten && !div) {
      kiln_elab_unknown_attribute(e, a, "loop",
                                  "@stages(n) @unroll(n) @split(n) @overlap(n) @flatten @div(n)");
      continue;
    }
    if (a->list.count != !flatten) {
      kiln_elab_error(e, a->place, "'@%s' takes %d argument%s, found %u", a->atom->text, !flatten,
                      flatten ? "s" : "", a->list.count);
      continue;
    }
    if (flatten) attrs->loop.is_flattened = true;
    else if (div) kiln_elab_divisor(e, a->list.items[0], counter, "'@div'", &attrs->loop.divisible);
    else if (kiln_elab_integer(e, a->list.items[0], 1, known->most, known->name, &v)) {
      if (known->is_flag) v = v == 1;
      if (v > 1 || !known->one_is_none) ((uint8_t *)&attrs->loop)[known->field] = (uint8_t)v;
    }
  }
}

// --------------------------------------------------------------------------------------------- for

// A bound or the step is what counters can be; false after an error.
static bool may_bound(kiln_elab *e, const kiln_node *n, kiln_value v) {
  char text[IR_TYPE_TEXT];
  bool typed = v.kind == KILN_VALUE_CONST || v.kind == KILN_VALUE_RUNTIME;
  bool counts = typed && !v.type.rank && !v.type.pointer && !v.type.is_view &&
                (v.type.scalar == KILN_I32 || v.type.scalar == KILN_I64);
  if (v.kind == KILN_VALUE_INT || counts) return true;
  if (v.kind != KILN_VALUE_ERROR)
    kiln_elab_error(e, n->place, "bounds of a 'for': expected scalar i32 or i64, found %s",
                    kiln_value_text(v, text));
  return false;
}

static bool bounds(kiln_elab *e, const kiln_node *n, ir_value **out) {
  kiln_value lo = kiln_elab_eval(e, n->a), hi = kiln_elab_eval(e, n->b),
             step = n->c ? kiln_elab_eval(e, n->c) : kiln_value_int(1);
  kiln_value *all[] = {&lo, &hi, &step};
  bool fit = may_bound(e, n->a, lo);
  fit &= may_bound(e, n->b, hi);
  if (n->c) fit &= may_bound(e, n->c, step);
  if (!fit) return false;
  int64_t by = step.kind == KILN_VALUE_INT     ? step.integer
               : step.kind == KILN_VALUE_CONST ? kiln_value_const_int(step)
                                               : 1;
  if (by <= 0) // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a step that is not written is 1
    return kiln_elab_error(e, n->c->place, "step of a 'for': expected at least 1, found %lld", (long long)by),
           false;
  if (!kiln_elab_unify(e, n->place, all, 3, "bounds of a 'for'")) return false;
  for (unsigned i = 0; i < 3; i++) out[i] = all[i]->ir;
  return true;
}

// The counter is not what '@div' promises, as far as its bounds are known.
static void check_counter(kiln_elab *e, const kiln_node *n, ir_value *const *range, int64_t divisible) {
  int64_t from, by;
  if (ir_constant_int(range[0], &from) && from % divisible)
    kiln_elab_error(e, n->a->place, "'@div': the counter begins at %lld, expected a multiple of %lld",
                    (long long)from, (long long)divisible);
  else if (ir_constant_int(range[0], &from) && ir_constant_int(range[2], &by) && by % divisible)
    kiln_elab_error(e, n->c ? n->c->place : n->place,
                    "'@div': the counter grows by %lld, expected a multiple of %lld", (long long)by,
                    (long long)divisible);
}

void kiln_elab_for(kiln_elab *e, const kiln_node *n) {
  ir_value *range[3];
  ir_attrs attrs = {0};
  uint32_t count, kept = 0;
  kiln_control c;
  kiln_binding *top;
  bool known = bounds(e, n, range);
  for (unsigned i = 0; !known && i < 3; i++) // the body is elaborated for its messages
    range[i] = ir_const_int(&e->b, KILN_I32, 1);
  kiln_elab_loop_attributes(e, n->names, range[0]->type, &attrs);
  if (known && attrs.loop.divisible) check_counter(e, n, range, attrs.loop.divisible);
  carried *items = find_carried(e, n->body, 0, &count);
  ir_block *outer = e->b.block, *body = KILN_NEW(e->b.arena, ir_block);
  uint32_t scope = kiln_elab_open_scope(e, &top);
  kiln_elab_open_control(e, &c, true);
  kiln_elab_bind(e, n->atom, n->place, kiln_value_runtime(ir_block_arg(e->b.arena, body, range[0]->type)));
  for (uint32_t i = 0; i < count; i++) {
    items[i].first = ir_block_arg(e->b.arena, body, items[i].initial->type);
    items[i].binding->value = kiln_value_runtime(items[i].first);
  }
  e->b.block = body;
  kiln_elab_block(e, n->body);
  ir_value **yields = KILN_NEW_ARRAY(e->arena, ir_value *, count);
  for (uint32_t i = 0; i < count; i++) {
    kiln_value end = items[i].binding->value;
    items[i].binding->value = kiln_value_runtime(items[i].initial);
    if (was_touched(&c, items[i].binding)) yields[kept] = end.ir, items[kept++] = items[i];
    else drop_arg(body, items[i].first, items[i].initial);
  }
  ir_yield(&e->b, yields, kept);
  kiln_elab_close_control(e);
  kiln_elab_close_scope(e, top, scope);
  e->b.block = outer;
  ir_value **operands = KILN_NEW_ARRAY(e->arena, ir_value *, IR_FOR_BOUNDS + kept);
  for (unsigned i = 0; i < IR_FOR_BOUNDS; i++) operands[i] = range[i];
  for (uint32_t i = 0; i < kept; i++) operands[IR_FOR_BOUNDS + i] = items[i].initial;
  ir_op *op = ir_emit(&e->b, IR_FOR, &attrs, operands, IR_FOR_BOUNDS + kept, NULL, &body, 1);
  if (!op) kiln_elab_result(e, n->place, NULL);
  for (uint32_t i = 0; op && i < kept; i++)
    kiln_elab_assign(e, items[i].binding, n->place, kiln_value_runtime(&op->results[i]));
}

// ---------------------------------------------------------------------------------- while and loop

static void pass(kiln_elab *e, kiln_loop *l, ir_value *v) {
  KILN_GROW(e->arena, l->passed, l->passed_count, l->passed_capacity);
  l->passed[l->passed_count++] = v;
}

kiln_value kiln_elab_read(kiln_elab *e, kiln_binding *b) {
  if (!b->pending) return b->value;
  kiln_loop *l = b->pending->loop;
  b->pending = NULL;
  pass(e, l, b->value.ir);
  return b->value = kiln_value_runtime(ir_block_arg(e->b.arena, l->second, b->value.type));
}

// The values of a binding in the IR; NULL after an error.
static ir_value **bound_values(kiln_elab *e, const kiln_node *let) {
  kiln_values values = kiln_elab_values_for(e, let);
  ir_value **out = KILN_NEW_ARRAY(e->arena, ir_value *, values.count);
  for (uint32_t i = 0; i < values.count; i++) {
    kiln_value v = values.items[i];
    out[i] = v.kind == KILN_VALUE_ERROR ? NULL : kiln_elab_runtime(e, let->names.items[i]->place, v);
    if (!out[i]) return NULL;
  }
  return out;
}

// Names whose values are at fault are bound all the same: one error is enough.
static void bind_errors(kiln_elab *e, kiln_list names) {
  for (uint32_t i = 0; i < names.count; i++)
    kiln_elab_bind(e, names.items[i]->atom, names.items[i]->place, (kiln_value){0})->is_var = true;
}

// Ends the first region: `going_on` is its condition. Outer variables and the break's names are passed; what
// the names are bound to may assign outer variables, so it comes first.
static void cross_break(kiln_elab *e, kiln_control *c, ir_value *going_on, const kiln_node *let) {
  kiln_loop *l = c->loop;
  ir_value **exports = let ? bound_values(e, let) : NULL;
  c->has_break = true;
  l->condition = going_on;
  l->second = KILN_NEW(e->b.arena, ir_block);
  for (uint32_t i = 0; i < l->outer_count; i++) pass(e, l, l->items[i].binding->value.ir);
  if (exports) l->exports = let->names;
  else if (let) l->faulty = let->names;
  bind_errors(e, l->faulty);
  for (uint32_t i = 0; i < l->exports.count; i++) pass(e, l, exports[i]);
  // What was bound before the break is out of sight after it, until it is read.
  for (kiln_binding *b = e->top; b != l->top; b = b->below) {
    if (b->value.kind == KILN_VALUE_RUNTIME) b->pending = c;
    else if (b->value.kind == KILN_VALUE_CONST) b->value.ir = NULL;
  }
  e->b.block = l->second;
  for (uint32_t i = 0; i < l->outer_count; i++) {
    l->items[i].second = ir_block_arg(e->b.arena, l->second, l->items[i].binding->value.type);
    l->items[i].binding->value = kiln_value_runtime(l->items[i].second);
  }
  for (uint32_t i = 0; i < l->exports.count; i++) {
    const kiln_node *name = l->exports.items[i];
    ir_type type = exports[i]->type;
    kiln_elab_bind(e, name->atom, name->place, kiln_value_runtime(ir_block_arg(e->b.arena, l->second, type)));
  }
}

// The operand of `break if` negated; a written '~' is taken off instead, so that printed loops read back as
// they are.
static ir_value *negated(kiln_elab *e, const kiln_node *n) {
  bool complement = n->kind == KILN_NODE_UNARY && n->op == KILN_TOKEN_TILDE;
  kiln_value v = kiln_elab_condition(e, complement ? n->a : n, "break if");
  if (v.kind == KILN_VALUE_ERROR) return ir_const_bits(&e->b, ir_scalar_type(KILN_I1), 1);
  if (complement) return v.ir;
  ir_value *truth = ir_const_bits(&e->b, ir_scalar_type(KILN_I1), 1);
  return ir_binary(&e->b, IR_XOR, 0, v.ir, truth);
}

void kiln_elab_break(kiln_elab *e, const kiln_node *n) {
  kiln_control *c = e->control;
  bool in_loop = false;
  for (kiln_control *o = c; o && o != e->base; o = o->outer) in_loop |= o->is_loop;
  if (!in_loop) kiln_elab_error(e, n->place, "'break if' outside of a loop");
  else if (!c->loop)
    kiln_elab_error(e, n->place, "'break if' belongs directly into the block of a 'loop'%s",
                    c->is_loop ? ", not of a 'for' or 'while'" : "");
  else if (c->has_break) kiln_elab_error(e, n->place, "a second 'break if' in one loop; join the conditions");
  else cross_break(e, c, negated(e, n->a), n->b);
}

static void bind_heads(kiln_elab *e, kiln_loop *l, const kiln_node *let, ir_value *const *initial) {
  if (let && !initial) bind_errors(e, let->names);
  for (uint32_t i = 0; initial && i < let->names.count; i++) {
    const kiln_node *name = let->names.items[i];
    ir_value *arg = ir_block_arg(e->b.arena, l->first, initial[i]->type);
    kiln_binding *b = kiln_elab_bind(e, name->atom, name->place, kiln_value_runtime(arg));
    b->is_var = true;
    l->items[l->count++] = (carried){.binding = b, .initial = initial[i], .first = arg};
  }
}

// Outer variables that were never assigned are not carried after all.
static void drop_untouched(kiln_control *c, kiln_loop *l, ir_value **yields) {
  uint32_t kept = 0, outer = 0;
  for (uint32_t i = 0; i < l->count; i++) {
    if (i >= l->outer_count || was_touched(c, l->items[i].binding)) {
      outer += i < l->outer_count;
      yields[kept] = yields[i];
      l->items[kept++] = l->items[i];
      continue;
    }
    drop_arg(l->first, l->items[i].first, l->items[i].initial);
    drop_arg(l->second, l->items[i].second, l->items[i].initial);
    for (uint32_t j = 0; j < l->passed_count; j++)
      if (l->passed[j] == l->items[i].first) l->passed[j] = l->items[i].initial;
    for (uint32_t j = outer; j + 1 < l->passed_count; j++) l->passed[j] = l->passed[j + 1];
    l->passed_count--;
    for (uint32_t j = 0; j < l->count; j++)
      if (yields[j] == l->items[i].second) yields[j] = l->items[i].initial;
  }
  l->count = kept;
  l->outer_count = outer;
}

// Emits both terminators and the operation; NULL after an error.
static ir_op *emit_while(kiln_elab *e, const kiln_node *n, kiln_loop *l, ir_value **yields, ir_block *outer,
                         const ir_attrs *attrs) {
  ir_value **operands = KILN_NEW_ARRAY(e->arena, ir_value *, l->passed_count + 1 + l->count);
  ir_block *regions[] = {l->first, l->second};
  ir_yield(&e->b, yields, l->count);
  operands[0] = l->condition;
  for (uint32_t i = 0; i < l->passed_count; i++) operands[1 + i] = l->passed[i];
  e->b.block = l->first;
  ir_emit(&e->b, IR_COND, NULL, operands, l->passed_count + 1, NULL, NULL, 0);
  e->b.block = outer;
  for (uint32_t i = 0; i < l->count; i++) operands[i] = l->items[i].initial;
  ir_op *op = ir_emit(&e->b, IR_WHILE, attrs, operands, l->count, NULL, regions, 2);
  if (!op) kiln_elab_result(e, n->place, NULL);
  return op;
}

static void loop_body(kiln_elab *e, const kiln_node *n, kiln_control *c) {
  if (n->kind == KILN_NODE_LOOP) {
    kiln_elab_statements(e, &(kiln_rest){.list = n->body->list});
    if (c->has_break) return;
    kiln_elab_error(e, n->place, "this 'loop' never ends: expected a 'break if' directly in its block");
  }
  kiln_value v = n->kind == KILN_NODE_WHILE ? kiln_elab_condition(e, n->a, "while") : (kiln_value){0};
  cross_break(e, c, v.kind == KILN_VALUE_ERROR ? ir_const_bits(&e->b, ir_scalar_type(KILN_I1), 1) : v.ir,
              NULL);
  if (n->kind == KILN_NODE_WHILE) kiln_elab_block(e, n->body);
}

void kiln_elab_loop(kiln_elab *e, const kiln_node *n) {
  kiln_control c;
  ir_attrs attrs = {0};
  ir_block *outer = e->b.block;
  kiln_loop l = {.first = KILN_NEW(e->b.arena, ir_block)};
  const kiln_node *let = n->kind == KILN_NODE_LOOP ? n->a : NULL; // of a 'while' it is the condition
  ir_value **heads = let ? bound_values(e, let) : NULL;
  kiln_elab_loop_attributes(e, n->names, ir_scalar_type(KILN_I64), &attrs);
  l.items = find_carried(e, n->body, let ? let->names.count : 0, &l.count);
  l.outer_count = l.count;
  uint32_t scope = kiln_elab_open_scope(e, &l.top);
  kiln_elab_open_control(e, &c, true);
  c.loop = &l;
  for (uint32_t i = 0; i < l.count; i++) {
    l.items[i].first = ir_block_arg(e->b.arena, l.first, l.items[i].initial->type);
    l.items[i].binding->value = kiln_value_runtime(l.items[i].first);
  }
  bind_heads(e, &l, let, heads);
  e->b.block = l.first;
  loop_body(e, n, &c);
  ir_value **yields = KILN_NEW_ARRAY(e->arena, ir_value *, l.count);
  for (uint32_t i = 0; i < l.count; i++) yields[i] = kiln_elab_read(e, l.items[i].binding).ir;
  for (uint32_t i = 0; i < l.outer_count; i++)
    l.items[i].binding->value = kiln_value_runtime(l.items[i].initial);
  drop_untouched(&c, &l, yields);
  kiln_elab_close_control(e);
  kiln_elab_close_scope(e, l.top, scope);
  ir_op *op = emit_while(e, n, &l, yields, outer, &attrs);
  for (uint32_t i = 0; op && i < l.outer_count; i++)
    kiln_elab_assign(e, l.items[i].binding, n->place, kiln_value_runtime(&op->results[i]));
  for (uint32_t i = 0; i < l.exports.count; i++) {
    const kiln_node *name = l.exports.items[i];
    kiln_elab_bind(e, name->atom, name->place,
                   op ? kiln_value_runtime(&op->results[l.outer_count + i]) : (kiln_value){0});
  }
  bind_errors(e, l.faulty);
}
