// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns expressions of a kernel's attributes into launch expressions, which the runtime evaluates.
#include "compiler/front/launch_expr.h"

#include <string.h>

typedef kiln_launch_local local;

typedef struct builder {
  kiln_elab *e;
  const kiln_item *kernel;
  const ir_param *params;
  const char *what;
  const local *locals; ///< of the function being inlined, else those that the caller gave
  bool in_function;
  uint32_t depth, calls;
} builder;

typedef const kiln_launch_expr tree;

/// Operations of a tree with each value written out wherever it is used, as facts and ranges walk it.
enum { MOST_WRITTEN_OUT = 4096 };

static tree *build(builder *b, const kiln_node *n);

static tree *leaf(builder *b, kiln_expr_op op, uint32_t param, int64_t value, bool is_bool) {
  kiln_launch_expr *x = KILN_NEW(b->e->arena, kiln_launch_expr);
  *x = (kiln_launch_expr){
      .op = (uint8_t)op, .param = param, .value = value, .ops = 1, .depth = 1, .is_bool = is_bool};
  return x;
}

static bool yields_bool(kiln_expr_op op) { return op >= KILN_EXPR_EQ && op <= KILN_EXPR_NOT; }

static bool is_number(tree *x, int64_t value) {
  return x->op == KILN_EXPR_CONST && !x->is_bool && x->value == value;
}

static tree *node(builder *b, kiln_expr_op op, tree *left, tree *right, ir_place place) {
  int64_t v = 0;
  if (!left || !right) return NULL;
  bool logic = op == KILN_EXPR_AND || op == KILN_EXPR_OR || op == KILN_EXPR_NOT;
  if (logic && (!left->is_bool || !right->is_bool)) {
    kiln_elab_error(b->e, place, "%s: '&', '|' and '~' take conditions in an expression that runs at launch",
                    b->what);
    return NULL;
  }
  if (left->op == KILN_EXPR_CONST && right->op == KILN_EXPR_CONST &&
      kiln_expr_apply(op, left->value, right->value, &v))
    return leaf(b, KILN_EXPR_CONST, 0, v, yields_bool(op));
  bool divides = op == KILN_EXPR_DIV || op == KILN_EXPR_REM || op == KILN_EXPR_CDIV;
  if (divides && right->op == KILN_EXPR_CONST && !right->value) {
    kiln_elab_error(b->e, place, "%s: a division by zero, which has no value", b->what);
    return NULL;
  }
  // x + 0, x * 1 are x; so are 0 + x, 1 * x.
  bool adds = op == KILN_EXPR_ADD || op == KILN_EXPR_SUB, scales = op == KILN_EXPR_MUL || op == KILN_EXPR_DIV,
       turns = op == KILN_EXPR_ADD || op == KILN_EXPR_MUL;
  if ((adds || scales) && is_number(right, scales) && !left->is_bool) return left;
  if (turns && is_number(left, scales) && !right->is_bool) return right;
  if (op == KILN_EXPR_AND || op == KILN_EXPR_OR) { // one side known: it decides, or is left out
    tree *known = left->op == KILN_EXPR_CONST ? left : right->op == KILN_EXPR_CONST ? right : NULL;
    if (known) return (known->value != 0) == (op == KILN_EXPR_OR) ? known : known == left ? right : left;
  }
  kiln_launch_expr *x = KILN_NEW(b->e->arena, kiln_launch_expr);
  bool unary = op == KILN_EXPR_NOT;
  uint32_t ops = left->ops + (unary ? 0 : right->ops) + 1,
           depth = unary || left->depth > right->depth + 1 ? left->depth : right->depth + 1;
  *x = (kiln_launch_expr){.op = (uint8_t)op,
                          .is_bool = yields_bool(op),
                          .a = left,
                          .b = unary ? NULL : right,
                          .ops = ops > MOST_WRITTEN_OUT ? MOST_WRITTEN_OUT + 1 : ops,
                          .depth = depth > 1000 ? 1000 : depth};
  return x;
}

// ------------------------------------------------------------------------------------------- build

static tree *from_value(builder *b, const kiln_node *n, kiln_value v) {
  char text[IR_TYPE_TEXT];
  if (v.kind == KILN_VALUE_INT) return leaf(b, KILN_EXPR_CONST, 0, v.integer, false);
  unsigned class = v.kind == KILN_VALUE_CONST ? ir_type_class(v.type) : 0;
  if (class & (KILN_CLASS_INT | KILN_CLASS_BOOL))
    return leaf(b, KILN_EXPR_CONST, 0, kiln_value_const_int(v), class == KILN_CLASS_BOOL);
  if (v.kind != KILN_VALUE_ERROR)
    kiln_elab_error(b->e, n->place, "%s: expected an integer of the parameters, found %s", b->what,
                    kiln_value_text(v, text));
  return NULL;
}

static tree *name(builder *b, const kiln_node *n) {
  char text[IR_TYPE_TEXT];
  for (const local *l = b->locals; l; l = l->below)
    if (l->atom == n->atom) return l->value;
  for (uint32_t i = 0; !b->in_function && i < b->kernel->params.count; i++) {
    if (b->kernel->params.items[i]->atom != n->atom) continue;
    ir_type type = b->params[i].type;
    if (!type.is_view && (type.pointer || (ir_type_class(type) & (KILN_CLASS_INT | KILN_CLASS_BOOL))))
      return leaf(b, KILN_EXPR_PARAM, i, 0, ir_type_class(type) == KILN_CLASS_BOOL);
    kiln_elab_error(b->e, n->place, "%s: expected an integer or pointer parameter, found '%s' of type %s",
                    b->what, n->atom->text, ir_type_text(type, text));
    return NULL;
  }
  for (uint32_t i = 0; !b->in_function && !kiln_elab_find(b->e, n->atom) && i < b->kernel->cparams.count;
       i++) {
    const kiln_node *p = b->kernel->cparams.items[i];
    if (p->atom != n->atom || p->op != KILN_CPARAM_TUNE) continue;
    kiln_elab_error(b->e, n->place, "%s: '%s' is set by @config, and this holds for all configs", b->what,
                    n->atom->text);
    return NULL;
  }
  return from_value(b, n, kiln_elab_eval(b->e, n));
}

static tree *inlined(builder *b, const kiln_item *fn, const kiln_node *n) {
  if (fn->broken) return NULL;
  const kiln_list body = fn->body->list;
  if (n->list.count != fn->params.count || !body.count || b->calls >= KILN_ELAB_CALLS) {
    kiln_elab_error(b->e, n->place, "%s: '%s' takes %u arguments, found %u", b->what, fn->atom->text,
                    fn->params.count, n->list.count);
    return NULL;
  }
  builder inner = *b;
  inner.locals = NULL;
  inner.in_function = true;
  inner.calls++;
  for (uint32_t i = 0; i < n->list.count; i++) {
    local *l = KILN_NEW(b->e->arena, local);
    *l = (local){fn->params.items[i]->atom, build(b, n->list.items[i]), inner.locals};
    if (!l->value) return NULL;
    inner.locals = l;
  }
  for (uint32_t i = 0; i < body.count; i++) {
    const kiln_node *s = body.items[i];
    bool plain = (s->kind == KILN_NODE_LET || s->kind == KILN_NODE_RETURN) && s->list.count == 1 &&
                 s->names.count == (s->kind == KILN_NODE_LET);
    if (!plain) {
      kiln_elab_error(b->e, n->place,
                      "%s: function '%s' is too complex; it may hold 'let' of one name and one 'return'",
                      b->what, fn->atom->text);
      return NULL;
    }
    tree *v = build(&inner, s->list.items[0]);
    if (s->kind == KILN_NODE_RETURN || !v) return v;
    local *l = KILN_NEW(b->e->arena, local);
    *l = (local){s->names.items[0]->atom, v, inner.locals};
    inner.locals = l;
  }
  return NULL;
}

// c ? x : y, as c * x + ~c * y: both are evaluated, so neither may overflow.
static tree *choose(builder *b, tree *condition, tree *x, tree *y, ir_place place) {
  if (!condition || !x || !y) return NULL;
  if (!condition->is_bool || x->is_bool != y->is_bool) {
    kiln_elab_error(b->e, place, "%s: 'select' takes a condition and two values of one kind", b->what);
    return NULL;
  }
  if (condition->op == KILN_EXPR_CONST) return condition->value ? x : y;
  kiln_expr_op take = x->is_bool ? KILN_EXPR_AND : KILN_EXPR_MUL;
  tree *otherwise = node(b, take, node(b, KILN_EXPR_NOT, condition, condition, place), y, place);
  return node(b, x->is_bool ? KILN_EXPR_OR : KILN_EXPR_ADD, node(b, take, condition, x, place), otherwise,
              place);
}

static tree *selected(builder *b, const kiln_node *n) {
  if (n->list.count != 3) {
    kiln_elab_error(b->e, n->place, "'select' takes 3 arguments, found %u", n->list.count);
    return NULL;
  }
  tree *condition = build(b, n->list.items[0]), *x = build(b, n->list.items[1]);
  return choose(b, condition, x, build(b, n->list.items[2]), n->place);
}

static tree *call(builder *b, const kiln_node *n) {
  static const struct {
    const char *name;
    kiln_expr_op op;
  } calls[] = {{"cdiv", KILN_EXPR_CDIV}, {"min", KILN_EXPR_MIN}, {"max", KILN_EXPR_MAX}};
  const kiln_item *item = n->atom->item;
  if (item && item->kind == KILN_ITEM_FN) return inlined(b, item, n);
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    if (strcmp(n->atom->text, calls[i].name)) continue;
    if (n->list.count != 2) {
      kiln_elab_error(b->e, n->place, "'%s' takes 2 arguments, found %u", n->atom->text, n->list.count);
      return NULL;
    }
    tree *left = build(b, n->list.items[0]);
    return node(b, calls[i].op, left, build(b, n->list.items[1]), n->place);
  }
  if (!strcmp(n->atom->text, "select")) return selected(b, n);
  kiln_elab_error(b->e, n->place,
                  "%s: '%s' does not run at launch; there are + - * / %% cdiv min max select, comparisons, "
                  "& | ~ and functions of these",
                  b->what, n->atom->text);
  return NULL;
}

/// T == f32: known before the launch.
static tree *compared_types(builder *b, const kiln_node *n) {
  const kiln_node *sides[] = {n->a, n->b};
  for (unsigned side = 0; side < 2; side++)
    for (uint32_t i = 0; i < b->kernel->params.count; i++)
      if (sides[side]->kind == KILN_NODE_NAME && sides[side]->atom == b->kernel->params.items[i]->atom) {
        kiln_elab_error(b->e, n->place, "%s: cannot compare parameter '%s' with a type", b->what,
                        sides[side]->atom->text);
        return NULL;
      }
  return from_value(b, n, kiln_elab_eval(b->e, n));
}

static tree *binary(builder *b, const kiln_node *n) {
  static const uint8_t ops[KILN_TOKEN_COUNT] = {
      [KILN_TOKEN_PLUS] = KILN_EXPR_ADD,     [KILN_TOKEN_MINUS] = KILN_EXPR_SUB,
      [KILN_TOKEN_STAR] = KILN_EXPR_MUL,     [KILN_TOKEN_SLASH] = KILN_EXPR_DIV,
      [KILN_TOKEN_PERCENT] = KILN_EXPR_REM,  [KILN_TOKEN_EQUAL] = KILN_EXPR_EQ,
      [KILN_TOKEN_UNEQUAL] = KILN_EXPR_NE,   [KILN_TOKEN_LESS] = KILN_EXPR_LT,
      [KILN_TOKEN_LESSEQ] = KILN_EXPR_LE,    [KILN_TOKEN_GREATER] = KILN_EXPR_GT,
      [KILN_TOKEN_GREATEREQ] = KILN_EXPR_GE, [KILN_TOKEN_AMPERSAND] = KILN_EXPR_AND,
      [KILN_TOKEN_PIPE] = KILN_EXPR_OR,
  };
  if (!ops[n->op]) {
    kiln_elab_error(b->e, n->place, "%s: %s does not run at launch", b->what,
                    kiln_token_text((kiln_token_kind)n->op));
    return NULL;
  }
  if (n->a->kind == KILN_NODE_SCALAR || n->b->kind == KILN_NODE_SCALAR) return compared_types(b, n);
  tree *left = build(b, n->a);
  return node(b, (kiln_expr_op)ops[n->op], left, build(b, n->b), n->place);
}

static tree *unary(builder *b, const kiln_node *n) {
  tree *v = build(b, n->a);
  if (n->op == KILN_TOKEN_TILDE) return node(b, KILN_EXPR_NOT, v, v, n->place);
  return node(b, KILN_EXPR_SUB, leaf(b, KILN_EXPR_CONST, 0, 0, false), v, n->place);
}

// Integers are exact here: a type that holds the number changes nothing, and no other is one.
static tree *converted(builder *b, const kiln_node *n) {
  char text[IR_TYPE_TEXT];
  ir_type type;
  int64_t lo, hi;
  tree *x = build(b, n->a);
  if (!kiln_elab_type(b->e, n->b, &type) || !x) return NULL;
  unsigned class = type.rank || type.is_view ? 0 : ir_type_class(type), width = ir_type_bits(type);
  if (class == KILN_CLASS_BOOL && !x->is_bool)
    return node(b, KILN_EXPR_NE, x, leaf(b, KILN_EXPR_CONST, 0, 0, false), n->place);
  if (class == KILN_CLASS_BOOL || (class == KILN_CLASS_INT && width == 64)) return x;
  if (class != KILN_CLASS_INT) {
    kiln_elab_error(b->e, n->place,
                    "%s: expected an integer type in an expression that runs at launch, found %s", b->what,
                    ir_type_text(type, text));
    return NULL;
  }
  bool known = kiln_launch_range(x, b->params, &lo, &hi);
  if (known && lo >= -(INT64_C(1) << (width - 1)) && hi < INT64_C(1) << (width - 1)) return x;
  kiln_elab_error(b->e, n->place,
                  "%s: %s may not hold this; integers of an expression that runs at launch have 64 bits and "
                  "need no 'as'",
                  b->what, ir_type_text(type, text));
  return NULL;
}

static tree *build(builder *b, const kiln_node *n) {
  enum { DEEPEST = 400 };
  tree *x = NULL;
  if (b->depth >= DEEPEST || !b->e->steps || !--b->e->steps) {
    kiln_elab_error(b->e, n->place, "%s: the expression is too large", b->what);
    return NULL;
  }
  b->depth++;
  switch ((kiln_node_kind)n->kind) {
  case KILN_NODE_NAME: x = name(b, n); break;
  case KILN_NODE_BINARY: x = binary(b, n); break;
  case KILN_NODE_UNARY: x = unary(b, n); break;
  case KILN_NODE_CALL: x = call(b, n); break;
  case KILN_NODE_AS: x = converted(b, n); break;
  default: x = from_value(b, n, kiln_elab_eval(b->e, n)); break;
  }
  b->depth--;
  return x;
}

// -------------------------------------------------------------------------------------------- code

/// An operation of the tree, how often it stands there, and its number when it has been kept.
typedef struct shared {
  tree *x;
  uint32_t uses, number;
  bool is_kept;
} shared;

typedef struct writer {
  kiln_buffer out;
  shared nodes[KILN_EXPR_OPS];
  uint32_t count, kept, ops, depth;
  bool is_too_large;
} writer;

static shared *find_shared(writer *w, tree *x) {
  for (uint32_t i = 0; i < w->count; i++)
    if (w->nodes[i].x == x) return &w->nodes[i];
  return NULL;
}

static void count_uses(writer *w, tree *x) {
  if (!x->a) return; // nothing is shorter than a leaf
  shared *found = find_shared(w, x);
  if (found) {
    found->uses++;
  } else if (w->count == KILN_EXPR_OPS) {
    w->is_too_large = true;
  } else {
    w->nodes[w->count++] = (shared){.x = x, .uses = 1};
    count_uses(w, x->a);
    if (x->b) count_uses(w, x->b);
  }
}

static void put_op(writer *w, kiln_expr_op op) {
  w->ops++;
  kiln_buffer_u8(&w->out, (uint8_t)op);
}

// `depth`: of the stack, with this value. What stands more than once is kept where it stands first.
static void encode(writer *w, tree *x, uint32_t depth) {
  shared *s = find_shared(w, x);
  if (depth > w->depth) w->depth = depth;
  if (s && s->is_kept) {
    put_op(w, KILN_EXPR_KEPT);
    kiln_buffer_varint(&w->out, s->number);
    return;
  }
  if (x->a) encode(w, x->a, depth);
  if (x->b) encode(w, x->b, depth + 1);
  put_op(w, (kiln_expr_op)x->op);
  if (x->op == KILN_EXPR_PARAM) kiln_buffer_varint(&w->out, x->param);
  if (x->op == KILN_EXPR_CONST) kiln_buffer_svarint(&w->out, x->value);
  if (!s || s->uses == 1 || w->kept == KILN_EXPR_KEEPS) return;
  put_op(w, KILN_EXPR_KEEP);
  s->number = w->kept++;
  s->is_kept = true;
}

static void write_code(writer *w, tree *x) {
  count_uses(w, x);
  if (!w->is_too_large) encode(w, x, 1);
}

kiln_span kiln_launch_encode(kiln_arena *arena, tree *x) {
  writer w = {0};
  write_code(&w, x);
  kiln_span span = {kiln_arena_copy(arena, w.out.bytes, w.out.size), w.out.size};
  kiln_buffer_deinit(&w.out);
  return span;
}

tree *kiln_launch_param(kiln_arena *arena, uint32_t param, bool is_bool) {
  kiln_elab e = {.arena = arena};
  return leaf(&(builder){.e = &e}, KILN_EXPR_PARAM, param, 0, is_bool);
}

tree *kiln_launch_node(kiln_elab *e, kiln_expr_op op, tree *left, tree *right, ir_place place,
                       const char *what) {
  builder b = {.e = e, .what = what};
  return node(&b, op, left, right, place);
}

tree *kiln_launch_select(kiln_elab *e, tree *condition, tree *x, tree *y, ir_place place, const char *what) {
  builder b = {.e = e, .what = what};
  return choose(&b, condition, x, y, place);
}

tree *kiln_launch_build(kiln_elab *e, const kiln_item *kernel, const ir_param *params, const local *locals,
                        const kiln_node *n, const char *what) {
  builder b = {.e = e, .kernel = kernel, .params = params, .locals = locals, .what = what};
  tree *x = build(&b, n);
  if (!x) return NULL;
  writer w = {0};
  if (x->ops <= MOST_WRITTEN_OUT) write_code(&w, x);
  kiln_buffer_deinit(&w.out);
  uint32_t ops = w.ops ? w.ops : x->ops, depth = w.ops ? w.depth : x->depth;
  if (ops <= KILN_EXPR_OPS && depth <= KILN_EXPR_DEPTH) return x;
  kiln_elab_error(e, n->place,
                  "%s: an expression that runs at launch has at most %d operations %d deep, found %u and %u",
                  what, KILN_EXPR_OPS, KILN_EXPR_DEPTH, ops, depth);
  return NULL;
}

// ------------------------------------------------------------------------------------------- facts

static bool param_range(const ir_param *p, int64_t *lo, int64_t *hi) {
  if (p->type.pointer) return *lo = 0, *hi = INT64_MAX, true;
  unsigned width = ir_type_bits(p->type);
  *lo = width == 1 ? 0 : width < 64 ? -(INT64_C(1) << (width - 1)) : INT64_MIN;
  *hi = width == 1 ? 1 : width < 64 ? (INT64_C(1) << (width - 1)) - 1 : INT64_MAX;
  if (p->has_range && p->lo > *lo) *lo = p->lo;
  if (p->has_range && p->hi < *hi) *hi = p->hi;
  return true;
}

// The hull of an operation that is monotonic in each operand.
static bool corners(kiln_expr_op op, const int64_t *a, const int64_t *b, int64_t *lo, int64_t *hi) {
  *lo = INT64_MAX, *hi = INT64_MIN;
  for (unsigned i = 0; i < 4; i++) {
    int64_t v;
    if (!kiln_expr_apply(op, a[i & 1], b[i >> 1], &v)) return false;
    if (v < *lo) *lo = v;
    if (v > *hi) *hi = v;
  }
  return true;
}

bool kiln_launch_range(tree *x, const ir_param *params, int64_t *lo, int64_t *hi) {
  int64_t a[2], b[2];
  if (x->op == KILN_EXPR_CONST) return *lo = *hi = x->value, true;
  if (x->op == KILN_EXPR_PARAM) return param_range(&params[x->param], lo, hi);
  if (x->is_bool) return *lo = 0, *hi = 1, true;
  if (!kiln_launch_range(x->a, params, &a[0], &a[1]) || !kiln_launch_range(x->b, params, &b[0], &b[1]))
    return false;
  switch ((kiln_expr_op)x->op) {
  case KILN_EXPR_DIV:
  case KILN_EXPR_CDIV: return b[0] > 0 && corners((kiln_expr_op)x->op, a, b, lo, hi);
  case KILN_EXPR_REM:
    if (b[0] <= 0) return false;
    *lo = a[0] < 0 ? 1 - b[1] : 0, *hi = b[1] - 1;
    return true;
  default: return corners((kiln_expr_op)x->op, a, b, lo, hi);
  }
}

static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}

// x: param % modulus == rest, with a modulus above 0. A rest has the sign of its parameter.
static bool is_rest(tree *x, uint32_t *param, int64_t *modulus, int64_t *rest) {
  if (x->op != KILN_EXPR_EQ || x->b->op != KILN_EXPR_CONST || x->a->op != KILN_EXPR_REM) return false;
  if (x->a->a->op != KILN_EXPR_PARAM || x->a->b->op != KILN_EXPR_CONST || x->a->b->value <= 0) return false;
  *param = x->a->a->param, *modulus = x->a->b->value, *rest = x->b->value;
  return true;
}

static bool is_multiple(tree *x, uint32_t *param, int64_t *c) {
  int64_t rest;
  return is_rest(x, param, c, &rest) && !rest;
}

// x: param within [lo, hi], from a comparison with a constant.
static bool is_bound(tree *x, uint32_t *param, int64_t *lo, int64_t *hi) {
  static const uint8_t turned[KILN_EXPR_COUNT] = {[KILN_EXPR_EQ] = KILN_EXPR_EQ,
                                                  [KILN_EXPR_LT] = KILN_EXPR_GT,
                                                  [KILN_EXPR_LE] = KILN_EXPR_GE,
                                                  [KILN_EXPR_GT] = KILN_EXPR_LT,
                                                  [KILN_EXPR_GE] = KILN_EXPR_LE};
  if (!turned[x->op]) return false;
  bool straight = x->a->op == KILN_EXPR_PARAM && x->b->op == KILN_EXPR_CONST;
  if (!straight && !(x->b->op == KILN_EXPR_PARAM && x->a->op == KILN_EXPR_CONST)) return false;
  uint8_t op = straight ? x->op : turned[x->op];
  int64_t c = straight ? x->b->value : x->a->value;
  *param = straight ? x->a->param : x->b->param;
  *lo = INT64_MIN, *hi = INT64_MAX;
  if ((op == KILN_EXPR_LT && c == INT64_MIN) || (op == KILN_EXPR_GT && c == INT64_MAX)) return false;
  if (op == KILN_EXPR_EQ || op == KILN_EXPR_GE) *lo = c;
  if (op == KILN_EXPR_EQ || op == KILN_EXPR_LE) *hi = c;
  if (op == KILN_EXPR_GT) *lo = c + 1;
  if (op == KILN_EXPR_LT) *hi = c - 1;
  return true;
}

static bool add_multiple(ir_param *p, int64_t c) {
  if (p->type.pointer) {
    if (c & (c - 1) || c > (1 << 20)) return false;
    if (p->align < c) p->align = (uint32_t)c;
    return true;
  }
  int64_t lcm;
  if (p->div <= 1) return p->div = c, true;
  if (__builtin_mul_overflow(p->div / gcd(p->div, c), c, &lcm)) return false;
  return p->div = lcm, true;
}

static bool add_bound(ir_param *p, int64_t lo, int64_t hi) {
  int64_t least, most;
  if (p->type.pointer) return false;
  param_range(p, &least, &most);
  if (lo < least) lo = least;
  if (hi > most) hi = most;
  if (lo > hi) return false;
  p->has_range = true;
  p->lo = lo, p->hi = hi;
  return true;
}

bool kiln_launch_fact(tree *x, ir_param *params) {
  uint32_t param;
  int64_t c, lo, hi;
  if (is_multiple(x, &param, &c)) return add_multiple(&params[param], c);
  return is_bound(x, &param, &lo, &hi) && add_bound(&params[param], lo, hi);
}

static bool same(tree *x, tree *y) {
  if (x == y || !x || !y) return x == y;
  return x->op == y->op && x->param == y->param && x->value == y->value && same(x->a, y->a) &&
         same(x->b, y->b);
}

bool kiln_launch_has_pointer(tree *x, const ir_param *params) {
  if (!x) return false;
  if (x->op == KILN_EXPR_PARAM) return params[x->param].type.pointer != 0;
  return kiln_launch_has_pointer(x->a, params) || kiln_launch_has_pointer(x->b, params);
}

bool kiln_launch_is_empty(const ir_param *p) {
  int64_t lo, hi;
  if (p->type.pointer || p->type.is_view || ir_type_class(p->type) != KILN_CLASS_INT || p->div <= 1)
    return false;
  param_range(p, &lo, &hi);
  int64_t rest = hi % p->div; // the largest multiple is hi - rest, or one step below
  if (rest < 0) rest += p->div;
  return hi < INT64_MIN + rest || hi - rest < lo;
}

enum { BELOW = 1, EQUAL = 2, ABOVE = 4 };

// How the operands `a` and `b` may lie to each other where the comparison `x` of the two holds, in whatever
// order it has them; all ways where it says nothing of them.
static unsigned order_of(tree *x, tree *a, tree *b) {
  static const uint8_t orders[KILN_EXPR_COUNT] = {
      [KILN_EXPR_EQ] = EQUAL,         [KILN_EXPR_NE] = BELOW | ABOVE, [KILN_EXPR_LT] = BELOW,
      [KILN_EXPR_LE] = BELOW | EQUAL, [KILN_EXPR_GT] = ABOVE,         [KILN_EXPR_GE] = ABOVE | EQUAL};
  unsigned order = orders[x->op], all = BELOW | EQUAL | ABOVE;
  if (!order) return all;
  if (same(x->a, a) && same(x->b, b)) return order;
  if (!same(x->a, b) || !same(x->b, a)) return all;
  return (order & EQUAL) | (order & BELOW ? ABOVE : 0) | (order & ABOVE ? BELOW : 0);
}

// No two numbers lie as all conditions say of the operands of `x`.
static bool is_disordered(tree *x, tree *const *conditions, uint32_t count) {
  unsigned order = BELOW | EQUAL | ABOVE;
  if (!x->a || !x->b) return false;
  if (same(x->a, x->b)) order = EQUAL;
  for (uint32_t i = 0; i < count; i++) order &= order_of(conditions[i], x->a, x->b);
  return !order;
}

// Two rests of one parameter that no number has together; `x` may be `y`.
static bool are_apart(tree *x, tree *y) {
  uint32_t px, py;
  int64_t mx, my, rx, ry;
  if (!is_rest(x, &px, &mx, &rx) || !is_rest(y, &py, &my, &ry) || px != py) return false;
  if (rx <= -mx || rx >= mx || ry <= -my || ry >= my || (rx < 0 && ry > 0) || (rx > 0 && ry < 0)) return true;
  return (rx - ry) % gcd(mx, my) != 0;
}

/// Where all of `known` hold, `x` does not: parts of it say "!=" of what they say is equal.
static bool is_refuted(tree *x, tree *const *known, uint32_t count) {
  if (x->op == KILN_EXPR_OR) return is_refuted(x->a, known, count) && is_refuted(x->b, known, count);
  if (x->op == KILN_EXPR_AND) return is_refuted(x->a, known, count) || is_refuted(x->b, known, count);
  if (x->op != KILN_EXPR_NE) return false;
  kiln_launch_expr equal = *x;
  equal.op = KILN_EXPR_EQ;
  for (uint32_t i = 0; i < count; i++)
    if (kiln_launch_implies(known[i], &equal)) return true;
  return false;
}

bool kiln_launch_can_hold(kiln_arena *arena, tree *const *conditions, uint32_t count, const ir_param *params,
                          uint32_t param_count) {
  ir_param *known = kiln_arena_copy(arena, params, param_count * sizeof *params);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t param;
    int64_t lo, hi, least, most;
    if (is_disordered(conditions[i], conditions, count) || is_refuted(conditions[i], conditions, count))
      return false;
    for (uint32_t j = 0; j <= i; j++)
      if (are_apart(conditions[i], conditions[j])) return false;
    if (is_bound(conditions[i], &param, &lo, &hi) && !known[param].type.pointer) {
      param_range(&known[param], &least, &most);
      if (lo > most || hi < least) return false;
    }
    kiln_launch_fact(conditions[i], known);
  }
  for (uint32_t i = 0; i < param_count; i++)
    if (kiln_launch_is_empty(&known[i])) return false;
  return true;
}

bool kiln_launch_implies(tree *x, tree *y) {
  uint32_t px, py;
  int64_t cx, cy, lox, hix, loy, hiy;
  if (same(x, y)) return true;
  if (is_multiple(y, &py, &cy)) {
    if (is_multiple(x, &px, &cx)) return px == py && cx % cy == 0;
    return is_bound(x, &px, &lox, &hix) && px == py && lox == hix && lox % cy == 0;
  }
  return is_bound(y, &py, &loy, &hiy) && is_bound(x, &px, &lox, &hix) && px == py && lox >= loy && hix <= hiy;
}

// -------------------------------------------------------------------------------------------- emit

static ir_value *emit_number(ir_builder *b, const ir_kernel *kernel, tree *x);

static ir_value *as_i64(ir_builder *b, ir_value *v) {
  if (v->type.pointer) return ir_bitcast(b, v, ir_scalar_type(KILN_I64));
  return v->type.scalar == KILN_I64 ? v : ir_cast(b, v, KILN_I64, 0, IR_ROUND_NEAREST);
}

ir_value *kiln_launch_emit(ir_builder *b, const ir_kernel *kernel, tree *x) {
  static const uint8_t predicates[KILN_EXPR_COUNT] = {
      [KILN_EXPR_EQ] = IR_EQ, [KILN_EXPR_NE] = IR_NE, [KILN_EXPR_LT] = IR_LT,
      [KILN_EXPR_LE] = IR_LE, [KILN_EXPR_GT] = IR_GT, [KILN_EXPR_GE] = IR_GE};
  ir_type i1 = ir_scalar_type(KILN_I1);
  if (x->op == KILN_EXPR_CONST) return ir_const_bits(b, i1, x->value != 0);
  if (x->op == KILN_EXPR_PARAM && x->is_bool) return kernel->body->args[x->param];
  if (x->op == KILN_EXPR_NOT)
    return ir_binary(b, IR_XOR, 0, kiln_launch_emit(b, kernel, x->a), ir_const_bits(b, i1, 1));
  if (x->op == KILN_EXPR_AND || x->op == KILN_EXPR_OR) {
    ir_value *left = kiln_launch_emit(b, kernel, x->a);
    return ir_binary(b, x->op == KILN_EXPR_AND ? IR_AND : IR_OR, 0, left, kiln_launch_emit(b, kernel, x->b));
  }
  ir_value *left = emit_number(b, kernel, x->a), *right = x->b ? emit_number(b, kernel, x->b) : NULL;
  if (!yields_bool((kiln_expr_op)x->op)) return NULL;
  return ir_compare(b, (ir_predicate)predicates[x->op], 0, left, right);
}

static ir_value *emit_number(ir_builder *b, const ir_kernel *kernel, tree *x) {
  static const uint8_t codes[KILN_EXPR_COUNT] = {
      [KILN_EXPR_ADD] = IR_ADD, [KILN_EXPR_SUB] = IR_SUB, [KILN_EXPR_MUL] = IR_MUL, [KILN_EXPR_DIV] = IR_DIV,
      [KILN_EXPR_REM] = IR_REM, [KILN_EXPR_MIN] = IR_MIN, [KILN_EXPR_MAX] = IR_MAX};
  if (x->op == KILN_EXPR_CONST) return ir_const_int(b, KILN_I64, x->value);
  if (x->op == KILN_EXPR_PARAM) return as_i64(b, kernel->body->args[x->param]);
  if (x->is_bool) return as_i64(b, kiln_launch_emit(b, kernel, x));
  ir_value *left = emit_number(b, kernel, x->a), *right = emit_number(b, kernel, x->b);
  if (x->op != KILN_EXPR_CDIV) return ir_binary(b, (ir_opcode)codes[x->op], 0, left, right);
  // Rounded up, whatever the signs: one more when there is a rest and the signs are equal.
  ir_value *quotient = ir_binary(b, IR_DIV, 0, left, right), *rest = ir_binary(b, IR_REM, 0, left, right),
           *zero = ir_const_int(b, KILN_I64, 0);
  ir_value *signs = ir_compare(b, IR_GE, 0, ir_binary(b, IR_XOR, 0, left, right), zero);
  ir_value *more = ir_binary(b, IR_AND, 0, ir_compare(b, IR_NE, 0, rest, zero), signs);
  return ir_binary(b, IR_ADD, 0, quotient, ir_cast(b, more, KILN_I64, 0, IR_ROUND_NEAREST));
}
