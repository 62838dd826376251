// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statements without loops: bindings, assignment, if, when, return. A variable assigned in a branch becomes a
// result of the branch; an early return of a kernel becomes an else branch, or a flag that guards what
// follows.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/front/elaborate.h"

enum { STATEMENT_DEPTH = 4 }; ///< frames of a statement are larger than those of an expression

// ---------------------------------------------------------------------------------------- bindings

// Values of a list of expressions, calls flattened.
static kiln_values eval_list(kiln_elab *e, kiln_list list) {
  kiln_values out = {NULL, 0};
  uint32_t capacity = 0;
  for (uint32_t i = 0; i < list.count; i++) {
    kiln_value one = {0};
    kiln_values all = kiln_elab_eval_all(e, list.items[i], &one);
    for (uint32_t j = 0; j < all.count; j++) {
      KILN_GROW(e->arena, out.items, out.count, capacity);
      out.items[out.count++] = all.items[j];
    }
  }
  return out;
}

static bool any_error(kiln_values values) {
  for (uint32_t i = 0; i < values.count; i++)
    if (values.items[i].kind == KILN_VALUE_ERROR) return true;
  return false;
}

static kiln_values if_values(kiln_elab *e, const kiln_node *n, const kiln_values *like);

kiln_values kiln_elab_values_for(kiln_elab *e, const kiln_node *n) {
  kiln_values values = n->a ? if_values(e, n->a, NULL) : eval_list(e, n->list);
  if (values.count == n->names.count) return values;
  if (!any_error(values))
    kiln_elab_error(e, n->place, "expected %u value%s for %u name%s, found %u", n->names.count,
                    n->names.count == 1 ? "" : "s", n->names.count, n->names.count == 1 ? "" : "s",
                    values.count);
  values.items = KILN_NEW_ARRAY(e->arena, kiln_value, n->names.count);
  values.count = n->names.count;
  return values;
}

static void bind_statement(kiln_elab *e, const kiln_node *n, bool is_var) {
  kiln_values values = kiln_elab_values_for(e, n);
  for (uint32_t i = 0; i < n->names.count; i++) {
    const kiln_node *name = n->names.items[i];
    kiln_value v = values.items[i];
    if (is_var && v.kind != KILN_VALUE_ERROR) {
      ir_value *ir = kiln_elab_runtime(e, name->place, v);
      v = ir ? kiln_value_runtime(ir) : (kiln_value){0};
    }
    if (v.kind == KILN_VALUE_TEXT)
      v = kiln_elab_error(e, name->place,
                          "expected a value for '%s', found a string; strings are for 'const'",
                          name->atom->text);
    kiln_elab_bind(e, name->atom, name->place, v)->is_var |= is_var;
  }
}

// -------------------------------------------------------------------------------------- assignment

static void touch(kiln_elab *e, kiln_binding *binding) {
  kiln_control *c = e->control;
  if (!c || binding->control == c) return;
  for (uint32_t i = 0; i < c->touched_count; i++)
    if (c->touched[i].binding == binding) return;
  if (c->touched_count == IR_MAX_RESULTS) {
    kiln_elab_error(e, binding->place, "a branch or loop assigns more than %d outer variables",
                    IR_MAX_RESULTS);
    return;
  }
  KILN_GROW(e->arena, c->touched, c->touched_count, c->touched_capacity);
  c->touched[c->touched_count++] = (kiln_touch){binding, kiln_elab_read(e, binding)};
}

void kiln_elab_assign(kiln_elab *e, kiln_binding *binding, ir_place place, kiln_value v) {
  if (binding->value.kind == KILN_VALUE_ERROR) return;
  char what[120];
  snprintf(what, sizeof what, "assignment to '%.80s'", binding->atom->text);
  ir_value *ir = kiln_elab_fit(e, place, v, binding->value.type, what);
  if (!ir) return;
  touch(e, binding);
  binding->pending = NULL;
  binding->value = kiln_value_runtime(ir);
}

// ---------------------------------------------------------------------------------------- branches

void kiln_elab_open_control(kiln_elab *e, kiln_control *c, bool is_loop) {
  *c = (kiln_control){.outer = e->control, .is_loop = is_loop};
  e->control = c;
}

void kiln_elab_close_control(kiln_elab *e) { e->control = e->control->outer; }

kiln_value kiln_elab_condition(kiln_elab *e, const kiln_node *n, const char *what) {
  char text[IR_TYPE_TEXT];
  kiln_value v = kiln_elab_eval(e, n);
  ir_value *ir = v.kind == KILN_VALUE_ERROR ? NULL : kiln_elab_runtime(e, n->place, v);
  if (!ir) return (kiln_value){0};
  if (ir_type_equal(ir->type, ir_scalar_type(KILN_I1))) return kiln_value_runtime(ir);
  return kiln_elab_error(e, n->place, "%s: expected a scalar i1, found %s%s", what,
                         ir_type_text(ir->type, text), ir->type.rank ? "; tiles use select and masks" : "");
}

// One side of an if: its block, and the variables it assigned with their values at its end. Outer values are
// put back.
typedef struct side {
  ir_block *block;
  kiln_touch *touched; ///< `before` holds the value at the end
  uint32_t count;
  kiln_values yields; ///< in the IR
} side;

static bool is_last(const kiln_rest *after) {
  for (; after; after = after->outer)
    if (after->from < after->list.count) return false;
  return true;
}

// The values of `yield` in the IR, in the types of those before them.
static void settle_yields(kiln_elab *e, kiln_yields *y) {
  for (uint32_t i = 0; i < y->values.count; i++) {
    kiln_value *v = &y->values.items[i];
    bool fit = y->like && i < y->like->count && y->like->items[i].kind != KILN_VALUE_ERROR;
    ir_value *ir = v->kind == KILN_VALUE_ERROR ? NULL
                   : fit ? kiln_elab_fit(e, y->place, *v, y->like->items[i].type, "value of 'yield'")
                         : kiln_elab_runtime(e, y->place, *v);
    *v = ir ? kiln_value_runtime(ir) : (kiln_value){0};
  }
}

// `then`: what follows the if, for a side that goes on with it. `yields`: NULL, or where the side's values
// go.
static side elaborate_side(kiln_elab *e, const kiln_node *body, const kiln_rest *then, kiln_yields *yields) {
  kiln_control c;
  kiln_binding *top;
  ir_block *block = e->b.block;
  side s = {.block = KILN_NEW(e->b.arena, ir_block)};
  kiln_elab_open_control(e, &c, false);
  c.yields = yields;
  e->b.block = s.block;
  if (body) kiln_elab_block(e, body);
  top = e->top;
  for (bool all = false; then && !all && !e->ended; then = then->outer) all = kiln_elab_statements(e, then);
  kiln_elab_close_scope(e, top, e->scope); // the rest is in the scope of the block that holds the if
  e->ended = false;
  if (yields) {
    settle_yields(e, yields);
    s.yields = yields->values;
  }
  kiln_elab_close_control(e);
  e->b.block = block;
  s.touched = c.touched;
  s.count = c.touched_count;
  for (uint32_t i = 0; i < s.count; i++) {
    kiln_value end = s.touched[i].binding->value;
    s.touched[i].binding->value = s.touched[i].before;
    s.touched[i].before = end;
  }
  return s;
}

static ir_value *value_at_end(const side *s, const kiln_binding *b) {
  for (uint32_t i = 0; i < s->count; i++)
    if (s->touched[i].binding == b) return s->touched[i].before.ir;
  return b->value.ir;
}

static int by_order(const void *a, const void *b) {
  const kiln_binding *x = *(kiln_binding *const *)a, *y = *(kiln_binding *const *)b;
  return x->order < y->order ? -1 : x->order > y->order;
}

// The variables that either side assigned, in order of declaration.
static uint32_t merged(kiln_elab *e, const side *a, const side *b, kiln_binding ***out) {
  kiln_binding **items = *out = KILN_NEW_ARRAY(e->arena, kiln_binding *, a->count + b->count);
  uint32_t count = 0, kept = 0;
  for (uint32_t i = 0; i < a->count; i++) items[count++] = a->touched[i].binding;
  for (uint32_t i = 0; i < b->count; i++) items[count++] = b->touched[i].binding;
  if (count) qsort(items, count, sizeof *items, by_order);
  for (uint32_t i = 0; i < count; i++)
    if (!kept || items[kept - 1] != items[i]) items[kept++] = items[i];
  return kept;
}

static void yield_side(kiln_elab *e, const side *s, kiln_binding **bindings, uint32_t count) {
  ir_block *block = e->b.block;
  ir_value **values = KILN_NEW_ARRAY(e->arena, ir_value *, count + s->yields.count);
  for (uint32_t i = 0; i < count; i++) values[i] = value_at_end(s, bindings[i]);
  for (uint32_t i = 0; i < s->yields.count; i++) values[count + i] = s->yields.items[i].ir;
  e->b.block = s->block;
  ir_yield(&e->b, values, count + s->yields.count);
  e->b.block = block;
}

// Results: the variables, then what was yielded, which is returned.
static ir_value *emit_if(kiln_elab *e, ir_place place, ir_value *condition, const side *yes, const side *no) {
  kiln_binding **bindings;
  uint32_t count = merged(e, yes, no, &bindings);
  yield_side(e, yes, bindings, count);
  yield_side(e, no, bindings, count);
  ir_block *regions[] = {yes->block, no->block};
  ir_op *op = ir_emit(&e->b, IR_IF, NULL, &condition, 1, NULL, regions, 2);
  if (!op) {
    kiln_elab_result(e, place, NULL);
    return NULL;
  }
  for (uint32_t i = 0; i < count; i++)
    kiln_elab_assign(e, bindings[i], place, kiln_value_runtime(&op->results[i]));
  return op->results + count;
}

// The values of an 'if'. `like`: those that it comes after in a chain, whose types it takes, or NULL.
static kiln_values if_values(kiln_elab *e, const kiln_node *n, const kiln_values *like) {
  uint32_t errors = e->d->errors + e->d->suppressed;
  kiln_value condition = kiln_elab_condition(e, n->a, "if");
  kiln_yields first = {.like = like}, second = {.like = like ? like : &first.values};
  side yes = elaborate_side(e, n->body, NULL, &first), no = elaborate_side(e, n->c, NULL, &second);
  kiln_values out = {KILN_NEW_ARRAY(e->arena, kiln_value, yes.yields.count), yes.yields.count};
  if (yes.yields.count != no.yields.count) {
    if (e->d->errors + e->d->suppressed == errors)
      kiln_elab_error(e, n->place, "both blocks of an 'if' with values must yield as many: found %u and %u",
                      yes.yields.count, no.yields.count);
    return out.count ? out : (kiln_values){KILN_NEW(e->arena, kiln_value), 1};
  }
  if (condition.kind == KILN_VALUE_ERROR || any_error(yes.yields) || any_error(no.yields)) return out;
  ir_value *results = emit_if(e, n->place, condition.ir, &yes, &no);
  for (uint32_t i = 0; results && i < out.count; i++) out.items[i] = kiln_value_runtime(&results[i]);
  return out;
}

// True inside a side of an `if` with values, also in loops and other branches in it.
static bool is_in_yielding(const kiln_elab *e) {
  for (const kiln_control *c = e->control; c != e->base; c = c->outer)
    if (c->yields) return true;
  return false;
}

static void yield_statement(kiln_elab *e, const kiln_node *n) {
  const kiln_control *c = e->control;
  if (!is_in_yielding(e)) kiln_elab_error(e, n->place, "'yield' outside of 'let ... = if ...'");
  else if (c->is_loop)
    kiln_elab_error(e, n->place,
                    "'yield' inside a loop: expected it directly in a block of the 'if' with values");
  else if (!c->yields)
    kiln_elab_error(
        e, n->place,
        "'yield' in an 'if' with statements after it: expected it last in a block of the 'if' with "
        "values, or in an 'if' that is last there");
  else {
    c->yields->values = eval_list(e, n->list);
    c->yields->place = n->list.count ? n->list.items[0]->place : n->place;
    e->ended = true;
  }
}

static bool may_yield(const kiln_node *block) {
  for (uint32_t i = 0; block && i < block->list.count; i++) {
    const kiln_node *n = block->list.items[i];
    if (n->kind == KILN_NODE_YIELD) return true;
    if ((n->kind == KILN_NODE_IF || n->kind == KILN_NODE_WHEN) && (may_yield(n->body) || may_yield(n->c)))
      return true;
  }
  return false;
}

// ----------------------------------------------------------------------------------- early returns

static bool may_return(const kiln_node *block);

static bool statement_may_return(const kiln_node *n) {
  if (n->kind == KILN_NODE_RETURN) return true;
  return (n->kind == KILN_NODE_IF || n->kind == KILN_NODE_WHEN) && (may_return(n->body) || may_return(n->c));
}

static bool may_return(const kiln_node *block) {
  for (uint32_t i = 0; block && i < block->list.count; i++)
    if (statement_may_return(block->list.items[i])) return true;
  return false;
}

static bool must_return(const kiln_node *block) {
  if (!block || !block->list.count) return false;
  const kiln_node *last = block->list.items[block->list.count - 1];
  if (last->kind == KILN_NODE_RETURN) return true;
  return last->kind == KILN_NODE_IF && must_return(last->body) && must_return(last->c);
}

// The hidden variable that tells whether the kernel has returned.
static kiln_binding *returned_flag(kiln_elab *e) {
  kiln_value no = kiln_elab_emit_const(e, kiln_value_bool(false));
  kiln_binding *flag = KILN_NEW(e->arena, kiln_binding);
  *flag = (kiln_binding){.atom = kiln_atoms_get(&e->module->atoms, "return ", 7),
                         .value = kiln_value_runtime(no.ir),
                         .frame = e->frame,
                         .scope = e->scope,
                         .order = e->order++,
                         .is_var = true,
                         .control = e->control};
  return flag;
}

static void guarded_rest(kiln_elab *e, const kiln_node *n, const kiln_rest *after) {
  ir_value *flag = kiln_elab_read(e, e->returned).ir;
  ir_value *truth = ir_const_bits(&e->b, ir_scalar_type(KILN_I1), 1);
  ir_value *live = kiln_elab_result(e, n->place, ir_binary(&e->b, IR_XOR, 0, flag, truth)).ir;
  if (!live) return;
  side yes = elaborate_side(e, NULL, after, NULL), no = elaborate_side(e, NULL, NULL, NULL);
  emit_if(e, n->place, live, &yes, &no);
}

// An if that may return, with the statements after it.
static void returning_if(kiln_elab *e, const kiln_node *n, ir_value *condition, const kiln_rest *after) {
  bool yes_returns = must_return(n->body), no_returns = must_return(n->c);
  bool plain = (yes_returns && !may_return(n->c)) || (no_returns && !may_return(n->body)) || is_last(after);
  kiln_binding *outer = e->returned;
  if (!plain) e->returned = returned_flag(e);
  side yes = elaborate_side(e, n->body, plain && !yes_returns ? after : NULL, NULL);
  side no = elaborate_side(e, n->c, plain && !no_returns ? after : NULL, NULL);
  emit_if(e, n->place, condition, &yes, &no);
  if (plain) return;
  kiln_binding *flag = e->returned;
  guarded_rest(e, n, after);
  e->returned = outer;
  if (outer) kiln_elab_assign(e, outer, n->place, kiln_elab_read(e, flag));
}

static bool inside_loop(const kiln_control *c) {
  for (; c; c = c->outer)
    if (c->is_loop) return true;
  return false;
}

// True when the rest of the block has been elaborated with it.
static bool if_statement(kiln_elab *e, const kiln_node *n, const kiln_rest *after) {
  kiln_yields *yields = e->control != e->base ? e->control->yields : NULL;
  if (yields && is_last(after) && (may_yield(n->body) || may_yield(n->c))) {
    yields->values = if_values(e, n, yields->like);
    yields->place = n->place;
    e->ended = true;
    return false;
  }
  kiln_value condition = kiln_elab_condition(e, n->a, "if");
  if (condition.kind == KILN_VALUE_ERROR)
    condition = kiln_value_runtime(ir_const_bits(&e->b, ir_scalar_type(KILN_I1), 1));
  if (e->in_kernel && !inside_loop(e->control) && !is_in_yielding(e) && statement_may_return(n))
    return returning_if(e, n, condition.ir, after), true;
  side yes = elaborate_side(e, n->body, NULL, NULL), no = elaborate_side(e, n->c, NULL, NULL);
  emit_if(e, n->place, condition.ir, &yes, &no);
  return false;
}

static void return_statement(kiln_elab *e, const kiln_node *n) {
  if (!e->in_kernel) {
    if (e->control != e->base)
      kiln_elab_error(e, n->place, "'return' inside 'if' or a loop is allowed in the body of a kernel only");
    *e->returns = eval_list(e, n->list);
  } else {
    if (n->list.count)
      kiln_elab_error(e, n->place, "a kernel returns nothing, found %u value%s", n->list.count,
                      n->list.count == 1 ? "" : "s");
    if (inside_loop(e->control) || is_in_yielding(e)) {
      kiln_elab_error(e, n->place,
                      inside_loop(e->control)
                          ? "'return' inside a loop; end the loop with 'break if'"
                          : "'return' inside an 'if' with values, whose blocks end with 'yield'");
      return;
    }
    if (e->returned) kiln_elab_assign(e, e->returned, n->place, kiln_value_bool(true));
  }
  e->ended = true;
}

// It opens no scope: what it holds is as if it stood in the block around it.
static bool when_statement(kiln_elab *e, const kiln_node *n, const kiln_rest *after) {
  bool taken;
  if (!kiln_elab_known_bool(e, n->a, "when", &taken)) return false;
  const kiln_node *block = taken ? n->body : n->c;
  return block && kiln_elab_statements(e, &(kiln_rest){.list = block->list, .outer = after});
}

// -------------------------------------------------------------------------------------- statements

static bool statement(kiln_elab *e, const kiln_node *n, const kiln_rest *after) {
  kiln_value one;
  if (!e->library_call) e->b.place = n->place;
  switch ((kiln_node_kind)n->kind) {
  case KILN_NODE_LET: bind_statement(e, n, false); break;
  case KILN_NODE_VAR: bind_statement(e, n, true); break;
  case KILN_NODE_ASSIGN: {
    kiln_values values = kiln_elab_values_for(e, n);
    for (uint32_t i = 0; i < n->names.count; i++) {
      const kiln_node *name = n->names.items[i];
      uint32_t first = 0;
      while (n->names.items[first]->atom != name->atom) first++;
      if (first < i) {
        kiln_elab_error(e, name->place, "'%s' is assigned twice in one statement", name->atom->text);
        continue;
      }
      kiln_binding *b = kiln_elab_find(e, name->atom);
      if (!b)
        kiln_elab_error(e, name->place, "assignment to '%s', which is not bound; write 'let' or 'var'",
                        name->atom->text);
      else if (!b->is_var)
        kiln_elab_error(e, name->place, "assignment to '%s', which is not a 'var' (bound at line %u)",
                        name->atom->text, b->place.line);
      else kiln_elab_assign(e, b, name->place, values.items[i]);
    }
  } break;
  case KILN_NODE_FOR: kiln_elab_for(e, n); break;
  case KILN_NODE_WHILE:
  case KILN_NODE_LOOP: kiln_elab_loop(e, n); break;
  case KILN_NODE_BREAK: kiln_elab_break(e, n); break;
  case KILN_NODE_IF: return if_statement(e, n, after);
  case KILN_NODE_WHEN: return when_statement(e, n, after);
  case KILN_NODE_RETURN: return_statement(e, n); break;
  case KILN_NODE_YIELD: yield_statement(e, n); break;
  case KILN_NODE_CALL_STATEMENT: kiln_elab_eval_all(e, n->a, &one); break;
  default: kiln_elab_error(e, n->place, "expected a statement"); break;
  }
  return false;
}

bool kiln_elab_statements(kiln_elab *e, const kiln_rest *rest) {
  kiln_list list = rest->list;
  bool all = false;
  if (rest->from < list.count && e->depth >= KILN_ELAB_DEPTH) {
    kiln_elab_error(e, list.items[rest->from]->place,
                    "statements are nested deeper than the limit of %d; each 'return' in an 'if' is a level",
                    KILN_ELAB_DEPTH / STATEMENT_DEPTH);
    return true;
  }
  ir_place around = e->b.place; // what holds the list is emitted after it, and stands where it began
  e->depth += STATEMENT_DEPTH;
  for (uint32_t i = rest->from; i < list.count && !e->ended && !all; i++)
    all = statement(e, list.items[i], &(kiln_rest){list, i + 1, rest->outer});
  e->depth -= STATEMENT_DEPTH;
  e->b.place = around;
  return all;
}

void kiln_elab_block(kiln_elab *e, const kiln_node *block) {
  kiln_binding *top;
  uint32_t scope = kiln_elab_open_scope(e, &top);
  kiln_elab_statements(e, &(kiln_rest){.list = block->list});
  kiln_elab_close_scope(e, top, scope);
}
