// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What may be launched in place of a kernel, once it has scratch memory:
//
//   kernel total(x: in *f32, y: out *f32, n: i32)
//     @grid(1)
//     launches {
//       let parts = cdiv(n, 4096)
//       if parts > 8 {
//         scratch(4 * parts)
//         partial_totals(x, scratch, n)
//         total(scratch, y, parts)
//       }
//     }
//   { ... }
//
// Each launch becomes a record: the kernel's name, the condition under which it runs (that of every `if`
// around it), and its arguments, as launch expressions over the parameters, the scratch memory's address, and
// the values of `let` and `if`, which are computed once. When the condition of none holds, or there is no
// scratch memory, the kernel itself runs.
#include <string.h>

#include "base/launches.h"
#include "compiler/front/instance.h"

enum { MOST_INSTANCES = 4096 };

typedef const kiln_launch_expr tree;

typedef struct walk {
  kiln_maker *m;
  const kiln_item *kernel;     ///< in whose place they stand
  ir_param *params;            ///< its parameters, the scratch memory, the values
  uint32_t param_count;        ///< its own
  kiln_launch_value *computed; ///< the values
  uint32_t computed_count;
  tree *bytes; ///< of scratch memory
  kiln_launch_record *records;
  uint32_t count;
  const kiln_value *values; ///< of its compile-time parameters
  kiln_binding *top;        ///< before these were bound
  uint32_t open;
} walk;

/// Where the walk is.
typedef struct scope {
  const kiln_launch_local *locals;
  tree *condition; ///< NULL: none yet
} scope;

static const char what[] = "launches";

static tree *constant(kiln_elab *e, int64_t value) {
  kiln_launch_expr *x = KILN_NEW(e->arena, kiln_launch_expr);
  *x = (kiln_launch_expr){.op = KILN_EXPR_CONST, .ops = 1, .depth = 1, .value = value};
  return x;
}

// The tree as one of the values that are computed first, once, and only where the walk comes to it.
static tree *keep(walk *w, const scope *s, tree *x, ir_place place) {
  if (!x->a) return x;
  if (w->computed_count == KILN_MOST_VALUES) {
    kiln_elab_error(&w->m->e, place, "launches: the limit is %d values of 'let' and 'if'", KILN_MOST_VALUES);
    return NULL;
  }
  uint32_t at = w->param_count + 1 + w->computed_count;
  ir_param *p = &w->params[at];
  *p = (ir_param){.name = "value", .type = ir_scalar_type(x->is_bool ? KILN_I1 : KILN_I64)};
  p->has_range = !x->is_bool && kiln_launch_range(x, w->params, &p->lo, &p->hi);
  if (s->condition && p->lo > 0) p->lo = 0;
  if (s->condition && p->hi < 0) p->hi = 0;
  kiln_arena *arena = w->m->e.arena;
  kiln_launch_value *v = &w->computed[w->computed_count++];
  v->value = kiln_launch_encode(arena, x);
  if (s->condition) v->condition = kiln_launch_encode(arena, s->condition);
  return kiln_launch_param(arena, at, x->is_bool);
}

static void bind_values(walk *w) {
  w->open = kiln_elab_open_scope(&w->m->e, &w->top);
  kiln_native_bind(&w->m->e, w->kernel, w->values, KILN_CPARAM_TYPE);
}

// ---------------------------------------------------------------------------------- compile-time values

// A value as the literal that has it, so that it can be bound where other names count.
static kiln_node *literal_of(kiln_maker *m, const kiln_node *from, kiln_value v) {
  kiln_node *n = KILN_NEW(kiln_maker_arena(m), kiln_node);
  unsigned class = v.kind == KILN_VALUE_CONST ? ir_type_class(v.type) : 0;
  n->place = from->place;
  if (v.kind == KILN_VALUE_TYPE) n->kind = KILN_NODE_SCALAR, n->op = v.type.scalar;
  else if (v.kind == KILN_VALUE_INT) n->kind = KILN_NODE_INTEGER, n->integer = v.integer;
  else if (v.kind == KILN_VALUE_REAL) n->kind = KILN_NODE_REAL, n->real = v.real;
  else if (class == KILN_CLASS_BOOL) n->kind = KILN_NODE_BOOL, n->flag = v.bits != 0;
  else if (class == KILN_CLASS_INT) n->kind = KILN_NODE_INTEGER, n->integer = kiln_value_const_int(v);
  else n->kind = KILN_NODE_REAL, n->real = kiln_value_const_real(v);
  return n;
}

// [T = T, N = 4] with the values of the launching instance in place of its names.
static bool evaluate_args(walk *w, const kiln_node *n, kiln_list *out) {
  kiln_arena *arena = kiln_maker_arena(w->m);
  *out = (kiln_list){KILN_NEW_ARRAY(arena, kiln_node *, n->names.count), n->names.count};
  for (uint32_t i = 0; i < n->names.count; i++) {
    kiln_value v = kiln_elab_eval(&w->m->e, n->names.items[i]->a);
    if (v.kind == KILN_VALUE_ERROR) return false;
    if (!kiln_value_is_known(v) && v.kind != KILN_VALUE_TYPE)
      return kiln_elab_error(&w->m->e, n->names.items[i]->place,
                             "launches: expected a value that is known at compile time"),
             false;
    kiln_node *named = KILN_NEW(arena, kiln_node);
    *named = *n->names.items[i];
    named->a = literal_of(w->m, n->names.items[i], v);
    out->items[i] = named;
  }
  return true;
}

// ------------------------------------------------------------------------------------------ arguments

static int param_named(const walk *w, const scope *s, const kiln_node *n) {
  if (n->kind != KILN_NODE_NAME) return -1;
  for (const kiln_launch_local *l = s->locals; l; l = l->below)
    if (l->atom == n->atom) return -1;
  for (uint32_t i = 0; i < w->param_count; i++)
    if (w->kernel->params.items[i]->atom == n->atom) return (int)i;
  return -1;
}

static tree *number(walk *w, const scope *s, const kiln_node *n) {
  tree *x = kiln_launch_build(&w->m->e, w->kernel, w->params, s->locals, n, what);
  if (!x || !kiln_launch_has_pointer(x, w->params)) return x;
  kiln_elab_error(&w->m->e, n->place, "launches: expected a number, found a pointer");
  return NULL;
}

/// Where a launch passes a parameter or an address to.
typedef struct receiver {
  const char *kernel;
  const ir_param *param;
} receiver;

/// An address, and the bytes of what a number counts that is added to it.
typedef struct sized_address {
  tree *value;   ///< NULL: an error was reported
  int64_t scale; ///< 0: in one case elements, in another bytes
} sized_address;

// What a launched kernel does through its parameter, the launching kernel's has to allow; what is added to is both
// read and written.
static bool allows(kiln_elab *e, ir_place at, const ir_param *from, const receiver *to) {
  static const char *const modes[] = {[IR_ACCESS_IN] = "in",
                                      [IR_ACCESS_OUT] = "out",
                                      [IR_ACCESS_INOUT] = "inout",
                                      [IR_ACCESS_ACCUM] = "accum"};
  const uint8_t wanted = to->param->access;
  if (from->access == wanted || from->access == IR_ACCESS_INOUT || from->access == IR_ACCESS_ACCUM)
    return true;
  return kiln_elab_error(e, at, "launches: '%s' is '%s', but '%s' takes it as '%s'", from->name,
                         modes[from->access], to->kernel, modes[wanted]),
         false;
}

static bool is_of_type(kiln_elab *e, ir_place at, const ir_param *from, const receiver *to) {
  char wanted[IR_TYPE_TEXT], found[IR_TYPE_TEXT];
  if (ir_type_equal(from->type, to->param->type)) return true;
  return kiln_elab_error(e, at, "launches: '%s' is %s, found '%s' of type %s", to->param->name,
                         ir_type_text(to->param->type, wanted), from->name, ir_type_text(from->type, found)),
         false;
}

// A pointer or `scratch`, either with elements (of `scratch`, bytes) added, or a choice of two.
static sized_address address(walk *w, const scope *s, const kiln_node *n, const receiver *to) {
  static const sized_address none = {NULL, 0};
  kiln_elab *e = &w->m->e;
  int param = param_named(w, s, n);
  if (param >= 0 && w->params[param].type.pointer) {
    const ir_param *from = &w->params[param];
    if (!is_of_type(e, n->place, from, to) || !allows(e, n->place, from, to)) return none;
    return (sized_address){kiln_launch_param(e->arena, (uint32_t)param, false),
                           from->type.pointer == 1 ? kiln_scalars[from->type.scalar].bytes : 8};
  }
  if (n->kind == KILN_NODE_NAME && !strcmp(n->atom->text, "scratch"))
    return (sized_address){kiln_launch_param(e->arena, w->param_count, false), 1};
  if (n->kind == KILN_NODE_BINARY && n->op == KILN_TOKEN_PLUS) {
    sized_address x = address(w, s, n->a, to);
    tree *offset = x.value ? number(w, s, n->b) : NULL;
    if (!offset) return none;
    if (!x.scale)
      return kiln_elab_error(e, n->place,
                             "launches: of scratch this counts bytes, and of the pointer elements; add the "
                             "numbers within select(..)"),
             none;
    offset = kiln_launch_node(e, KILN_EXPR_MUL, offset, constant(e, x.scale), n->place, what);
    x.value = kiln_launch_node(e, KILN_EXPR_ADD, x.value, offset, n->place, what);
    return x;
  }
  if (n->kind == KILN_NODE_CALL && !strcmp(n->atom->text, "select") && n->list.count == 3) {
    tree *condition = number(w, s, n->list.items[0]);
    sized_address x = address(w, s, n->list.items[1], to), y = address(w, s, n->list.items[2], to);
    if (!condition || !x.value || !y.value) return none;
    return (sized_address){kiln_launch_select(e, condition, x.value, y.value, n->place, what),
                           x.scale == y.scale ? x.scale : 0};
  }
  kiln_elab_error(e, n->place,
                  "launches: expected an address: a pointer or scratch, with a number added or not, or "
                  "select(condition, address, address)");
  return none;
}

// Whether some value that the expression can have is one of the parameter's type; a launch checks the one
// that it has.
static bool can_fit(const walk *w, tree *x, ir_type type) {
  int64_t lo, hi;
  unsigned width = ir_type_bits(type);
  if (x->is_bool || width >= 64 || !kiln_launch_range(x, w->params, &lo, &hi)) return true;
  return hi >= -(INT64_C(1) << (width - 1)) && lo < INT64_C(1) << (width - 1);
}

static bool make_argument(walk *w, const scope *s, const kiln_node *n, const receiver *by,
                          kiln_launch_argument *out) {
  char wanted[IR_TYPE_TEXT];
  kiln_elab *e = &w->m->e;
  const ir_param *to = by->param;
  int param = param_named(w, s, n);
  bool is_same = param >= 0 && ir_type_equal(w->params[param].type, to->type);
  if (is_same) {
    *out = (kiln_launch_argument){.param = (uint32_t)param};
    return allows(e, n->place, &w->params[param], by);
  }
  unsigned class = to->type.pointer || to->type.is_view ? 0 : ir_type_class(to->type);
  if (!to->type.pointer && !(class & (KILN_CLASS_INT | KILN_CLASS_BOOL)))
    return kiln_elab_error(e, n->place, "launches: '%s' is %s; only a parameter of this type can be passed",
                           to->name, ir_type_text(to->type, wanted)),
           false;
  if (param >= 0 && w->params[param].type.pointer) return is_of_type(e, n->place, &w->params[param], by);
  tree *x = to->type.pointer ? address(w, s, n, by).value : number(w, s, n);
  if (!x) return false;
  if (class && x->is_bool != (class == KILN_CLASS_BOOL))
    return kiln_elab_error(e, n->place, "launches: '%s' is %s, found %s", to->name,
                           ir_type_text(to->type, wanted), x->is_bool ? "a condition" : "a number"),
           false;
  if (class && !can_fit(w, x, to->type))
    return kiln_elab_error(e, n->place, "launches: '%s' is %s, which cannot hold this", to->name,
                           ir_type_text(to->type, wanted)),
           false;
  out->value = kiln_launch_encode(e->arena, x);
  return true;
}

// ------------------------------------------------------------------------------------------ statements

static const kiln_item *launched_kernel(walk *w, const kiln_node *n) {
  const kiln_item *item = n->atom->item;
  if (item && kiln_is_kernel(item)) return item;
  kiln_nearest near = kiln_nearest_to(n->atom->text);
  const kiln_module *module = w->m->unit->module;
  for (uint32_t i = 0; i < module->item_count; i++)
    if (kiln_is_kernel(module->items[i])) kiln_nearest_consider(&near, module->items[i]->atom->text);
  if (!item || !item->broken)
    kiln_elab_error(&w->m->e, n->place,
                    near.best ? "launches: there is no kernel '%s'; did you mean '%s'?"
                              : "launches: there is no kernel '%s'",
                    n->atom->text, near.best);
  return NULL;
}

static bool add_launch(walk *w, const scope *s, const kiln_node *n) {
  kiln_elab *e = &w->m->e;
  kiln_list values;
  const kiln_item *item = launched_kernel(w, n);
  if (!item || !evaluate_args(w, n, &values)) return false;
  if (!s->condition)
    return kiln_elab_error(e, n->place,
                           "launches: this would always run in place of '%s'; put it into an 'if'",
                           w->kernel->atom->text),
           false;
  if (w->count == KILN_MOST_LAUNCHES || w->m->unit->count >= MOST_INSTANCES)
    return kiln_elab_error(e, n->place, "launches: the limit is %d launches, and %d kernels of a file",
                           KILN_MOST_LAUNCHES, MOST_INSTANCES),
           false;
  kiln_elab_close_scope(&w->m->e, w->top, w->open); // the launched kernel has values of its own
  int64_t at = kiln_instance_of(w->m, item, values, n->place);
  bind_values(w);
  if (at < 0) return false;
  const kiln_native_instance *to = &w->m->unit->instances[at];
  if (n->list.count != to->interface.param_count)
    return kiln_elab_error(e, n->place, "launches: '%s' takes %u arguments, found %u", item->atom->text,
                           to->interface.param_count, n->list.count),
           false;
  kiln_launch_record *r = &w->records[w->count];
  *r = (kiln_launch_record){.kernel = to->interface.name,
                            .condition = kiln_launch_encode(e->arena, s->condition),
                            .args = KILN_NEW_ARRAY(e->arena, kiln_launch_argument, n->list.count),
                            .arg_count = n->list.count};
  for (uint32_t i = 0; i < n->list.count; i++)
    if (!make_argument(w, s, n->list.items[i], &(receiver){item->atom->text, &to->params[i]}, &r->args[i]))
      return false;
  w->count++;
  return true;
}

// scratch(bytes): the memory that the launches of a block want.
static bool add_scratch(walk *w, const scope *s, const kiln_node *n) {
  kiln_elab *e = &w->m->e;
  if (n->list.count != 1 || n->names.count)
    return kiln_elab_error(e, n->place, "launches: 'scratch' takes a number of bytes"), false;
  tree *x = number(w, s, n->list.items[0]);
  if (!x) return false;
  if (x->is_bool)
    return kiln_elab_error(e, n->list.items[0]->place,
                           "launches: 'scratch' takes a number, found a condition"),
           false;
  if (s->condition) x = kiln_launch_node(e, KILN_EXPR_MUL, s->condition, x, n->place, what);
  w->bytes = kiln_launch_node(e, KILN_EXPR_ADD, w->bytes, x, n->place, what);
  return w->bytes != NULL;
}

static bool walk_block(walk *w, scope s, const kiln_node *block);

static bool bind_let(walk *w, scope *s, const kiln_node *n) {
  if (n->names.count != 1 || n->list.count != 1)
    return kiln_elab_error(&w->m->e, n->place, "launches: expected 'let' of one name"), false;
  kiln_launch_local *l = KILN_NEW(w->m->e.arena, kiln_launch_local);
  tree *x = number(w, s, n->list.items[0]);
  *l = (kiln_launch_local){n->names.items[0]->atom, x ? keep(w, s, x, n->place) : NULL, s->locals};
  s->locals = l;
  return l->value != NULL;
}

static bool walk_if(walk *w, const scope *s, const kiln_node *n) {
  kiln_elab *e = &w->m->e;
  tree *x = number(w, s, n->a);
  if (!x) return false;
  if (!x->is_bool) return kiln_elab_error(e, n->a->place, "launches: expected a condition"), false;
  x = keep(w, s, x, n->a->place);
  if (!x) return false;
  tree *otherwise = kiln_launch_node(e, KILN_EXPR_NOT, x, x, n->place, what), *around = s->condition;
  scope then = {s->locals, around ? kiln_launch_node(e, KILN_EXPR_AND, around, x, n->place, what) : x};
  bool is_known = x->op == KILN_EXPR_CONST;
  if (!(is_known && !x->value) && !walk_block(w, then, n->body)) return false;
  if (!n->c || (is_known && x->value)) return true;
  scope other = {s->locals,
                 around ? kiln_launch_node(e, KILN_EXPR_AND, around, otherwise, n->place, what) : otherwise};
  return walk_block(w, other, n->c);
}

static bool walk_block(walk *w, scope s, const kiln_node *block) {
  bool ok = true;
  for (uint32_t i = 0; i < block->list.count && ok; i++) {
    const kiln_node *n = block->list.items[i];
    ok = n->kind == KILN_NODE_LET            ? bind_let(w, &s, n)
         : n->kind == KILN_NODE_IF           ? walk_if(w, &s, n)
         : !strcmp(n->atom->text, "scratch") ? add_scratch(w, &s, n)
                                             : add_launch(w, &s, n);
  }
  return ok;
}

void kiln_make_launches(kiln_maker *m, uint32_t index) {
  kiln_native_instance *in = &m->unit->instances[index];
  const uint32_t count = in->interface.param_count;
  kiln_arena *arena = kiln_maker_arena(m);
  if (!in->kernel->launches || in->is_untyped) return;
  m->kernel = in->kernel, m->instance = in;
  walk w = {.m = m,
            .kernel = in->kernel,
            .params = KILN_NEW_ARRAY(arena, ir_param, count + 1 + KILN_MOST_VALUES),
            .param_count = count,
            .computed = KILN_NEW_ARRAY(arena, kiln_launch_value, KILN_MOST_VALUES),
            .bytes = constant(&m->e, 0),
            .values = in->values,
            .records = KILN_NEW_ARRAY(arena, kiln_launch_record, KILN_MOST_LAUNCHES)};
  if (count) memcpy(w.params, in->params, count * sizeof *w.params);
  w.params[count] = (ir_param){.name = "scratch", .type = ir_pointer_type(KILN_I8)};
  bind_values(&w);
  bool is_fine = walk_block(&w, (scope){0}, in->kernel->launches);
  kiln_elab_close_scope(&m->e, w.top, w.open);
  if (!is_fine || !w.count) return;
  if (w.bytes->op == KILN_EXPR_CONST && !w.bytes->value) {
    kiln_elab_error(&m->e, in->kernel->launches->place,
                    "launches: nothing asks for memory, so none of these would run; add scratch(bytes)");
    return;
  }
  in = &m->unit->instances[index]; // launched kernels may have been made
  in->interface.launches = w.records, in->interface.launch_count = w.count;
  in->interface.values = w.computed, in->interface.value_count = w.computed_count;
  in->interface.scratch = kiln_launch_encode(arena, w.bytes);
}
