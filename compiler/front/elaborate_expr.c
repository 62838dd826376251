// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expressions, types, and what must be known at compile time.
#include <string.h>

#include "compiler/front/elaborate.h"

// --------------------------------------------------------------------------------------- operators

/// The operation of a sign between two operands, by the signs of ops.def; for IR_CMP, with the predicate. Where two
/// operations have the sign, it is the first: offsets of pointers are no case here.
static ir_opcode operation_of(kiln_token_kind op, ir_predicate *out_predicate) {
  const char *sign = kiln_token_text(op) + 1; // in quotes
  const size_t length = strlen(sign) - 1;
  unsigned code = 0;
  for (unsigned p = IR_EQ; p <= IR_GE; p++)
    if (strlen(ir_predicate_signs[p]) == length && !memcmp(ir_predicate_signs[p], sign, length))
      return *out_predicate = (ir_predicate)p, IR_CMP;
  while (strlen(ir_ops[code].sign) != length || memcmp(ir_ops[code].sign, sign, length)) code++;
  return (ir_opcode)code;
}

static bool is_pointer(kiln_value v) {
  return v.kind == KILN_VALUE_RUNTIME && v.type.pointer && !v.type.is_view;
}

// pointer + offset, offset + pointer, pointer - offset
static kiln_value pointer_add(kiln_elab *e, ir_place place, kiln_token_kind op, kiln_value left,
                              kiln_value right) {
  if (op == KILN_TOKEN_PLUS && !is_pointer(left)) {
    kiln_value swap = left;
    left = right, right = swap;
  }
  char text[IR_TYPE_TEXT];
  if ((op != KILN_TOKEN_PLUS && op != KILN_TOKEN_MINUS) || !is_pointer(left) || is_pointer(right))
    return kiln_elab_error(
        e, place, "%s does not take pointers; pointers add to integers, bitcast(p, i64) gives a number",
        kiln_token_text(op));
  if (op == KILN_TOKEN_MINUS) right = kiln_elab_binary(e, place, op, kiln_value_int(0), right);
  ir_value *pair[] = {left.ir, kiln_elab_runtime(e, place, right)};
  if (!pair[1]) return (kiln_value){0};
  ir_type offset = ir_element(pair[1]->type);
  if (offset.pointer || (offset.scalar != KILN_I32 && offset.scalar != KILN_I64))
    return kiln_elab_error(e, place, "pointer offset: expected i32 or i64, found %s",
                           ir_type_text(pair[1]->type, text));
  if (!kiln_elab_unify_shapes(e, place, pair, 2, "pointer and offset")) return (kiln_value){0};
  return kiln_elab_result(e, place, ir_binary(&e->b, IR_PTRADD, 0, pair[0], pair[1]));
}

static bool same_text(kiln_elab *e, ir_place place, kiln_value a, kiln_value b, bool *out) {
  if (a.kind == KILN_VALUE_TEXT && b.kind == KILN_VALUE_TARGET) return same_text(e, place, b, a, out);
  if (b.kind != KILN_VALUE_TEXT || (a.kind != KILN_VALUE_TEXT && a.kind != KILN_VALUE_TARGET)) return false;
  if (a.kind == KILN_VALUE_TEXT) return *out = !strcmp(a.text, b.text), true;
  const kiln_processor *p = e->target->processor;
  kiln_family family = kiln_family_find(b.text);
  if (!family && !kiln_processor_find(b.text, strlen(b.text)))
    return kiln_elab_error(e, place,
                           "'%.80s' is neither a processor (see `kiln targets`) nor host, nvptx or amdgpu",
                           b.text),
           false;
  *out =
      !strcmp(p->name, b.text) || p->family == family || (p->generic && !strcmp(kiln_generic_of(p), b.text));
  return true;
}

// Types, texts and TARGET: only equality, only at compile time.
static bool compare_meta(kiln_elab *e, ir_place place, ir_predicate predicate, kiln_value a, kiln_value b,
                         kiln_value *out) {
  bool types = a.kind == KILN_VALUE_TYPE || b.kind == KILN_VALUE_TYPE, equal = false;
  bool meta = types || a.kind == KILN_VALUE_TEXT || b.kind == KILN_VALUE_TEXT ||
              a.kind == KILN_VALUE_TARGET || b.kind == KILN_VALUE_TARGET;
  char x[IR_TYPE_TEXT], y[IR_TYPE_TEXT];
  if (!meta) return false;
  uint32_t errors = e->d->errors + e->d->suppressed;
  bool comparable = types ? a.kind == b.kind : same_text(e, place, a, b, &equal);
  if (e->d->errors + e->d->suppressed != errors) return *out = (kiln_value){0}, true;
  if (types && comparable) equal = ir_type_equal(a.type, b.type);
  if (!comparable || predicate > IR_NE)
    *out = kiln_elab_error(e, place, "cannot compare %s with %s this way", kiln_value_text(a, x),
                           kiln_value_text(b, y));
  else *out = kiln_value_bool(equal == (predicate == IR_EQ));
  return true;
}

kiln_value kiln_elab_compare(kiln_elab *e, ir_place place, ir_predicate predicate, uint32_t flags,
                             kiln_value left, kiln_value right) {
  kiln_value v;
  kiln_value *pair[] = {&left, &right};
  if (left.kind == KILN_VALUE_ERROR || right.kind == KILN_VALUE_ERROR) return (kiln_value){0};
  if (compare_meta(e, place, predicate, left, right, &v) ||
      kiln_fold_compare(e, place, predicate, flags & IR_UNSIGNED, left, right, &v))
    return v;
  if (!kiln_elab_unify(e, place, pair, 2, "operands of a comparison")) return (kiln_value){0};
  return kiln_elab_result(e, place, ir_compare(&e->b, predicate, flags, left.ir, right.ir));
}

kiln_value kiln_elab_binary(kiln_elab *e, ir_place place, kiln_token_kind op, kiln_value left,
                            kiln_value right) {
  kiln_value v, *pair[] = {&left, &right};
  ir_predicate predicate = IR_EQ;
  if (left.kind == KILN_VALUE_ERROR || right.kind == KILN_VALUE_ERROR) return (kiln_value){0};
  const ir_opcode code = operation_of(op, &predicate);
  if (code == IR_CMP) return kiln_elab_compare(e, place, predicate, 0, left, right);
  if (is_pointer(left) || is_pointer(right)) return pointer_add(e, place, op, left, right);
  if (!kiln_elab_is_sensible(e, place, code, 0, kiln_token_text(op), left, right)) return (kiln_value){0};
  if (kiln_fold_binary(e, place, code, left, right, &v)) return v;
  if (!kiln_elab_unify(e, place, pair, 2, kiln_arena_format(e->arena, "operands of %s", kiln_token_text(op))))
    return (kiln_value){0};
  return kiln_elab_result(e, place, ir_binary(&e->b, code, 0, left.ir, right.ir));
}

static kiln_value negate(kiln_elab *e, ir_place place, kiln_value v) {
  char text[IR_TYPE_TEXT];
  if (v.kind == KILN_VALUE_REAL) return kiln_value_real(-v.real);
  if (v.kind == KILN_VALUE_INT) return kiln_elab_binary(e, place, KILN_TOKEN_MINUS, kiln_value_int(0), v);
  bool typed = v.kind == KILN_VALUE_CONST || v.kind == KILN_VALUE_RUNTIME;
  bool real = typed && ir_type_class(v.type) == KILN_CLASS_FLOAT;
  if (typed && !v.type.is_view && ir_type_class(v.type) == KILN_CLASS_BOOL)
    return kiln_elab_error(e, place, "'-': expected a number, found %s; '~' negates conditions",
                           kiln_value_text(v, text));
  return kiln_elab_binary(e, place, KILN_TOKEN_MINUS, real ? kiln_value_real(-0.0) : kiln_value_int(0), v);
}

static kiln_value complement(kiln_elab *e, ir_place place, kiln_value v) {
  if (v.kind == KILN_VALUE_INT) return kiln_value_int(~v.integer);
  bool typed = v.kind == KILN_VALUE_CONST || v.kind == KILN_VALUE_RUNTIME;
  kiln_value ones =
      typed && ir_type_class(v.type) == KILN_CLASS_BOOL ? kiln_value_bool(true) : kiln_value_int(-1);
  return kiln_elab_binary(e, place, KILN_TOKEN_CARET, v, ones);
}

kiln_value kiln_elab_cast(kiln_elab *e, ir_place place, kiln_value v, ir_type element, uint32_t flags,
                          ir_round round) {
  char text[IR_TYPE_TEXT];
  if (v.kind == KILN_VALUE_ERROR) return v;
  if (element.pointer)
    return kiln_elab_error(e, place, "'as' does not make pointers; write bitcast(x, %s)",
                           ir_type_text(element, text));
  if (v.kind == KILN_VALUE_CONST && ir_type_equal(v.type, element)) return v;
  if (kiln_value_is_known(v) && !v.type.pointer)
    return kiln_elab_emit_const(e, kiln_fold_cast(e, v, element, flags, round));
  ir_value *ir = kiln_elab_runtime(e, place, v);
  if (!ir) return (kiln_value){0};
  if (ir->type.pointer || ir->type.is_view)
    return kiln_elab_error(e, place, "cannot cast %s; pointers take bitcast", ir_type_text(ir->type, text));
  if (ir->type.scalar == element.scalar) return v;
  return kiln_elab_result(e, place, ir_cast(&e->b, ir, (kiln_scalar)element.scalar, flags, round));
}

// ---------------------------------------------------------------------------------------- indexing

// x[:, _]: ':' keeps a dimension, '_' inserts one.
static kiln_value index_tile(kiln_elab *e, const kiln_node *n, kiln_value v) {
  char text[IR_TYPE_TEXT];
  ir_value *ir = kiln_elab_runtime(e, n->place, v);
  if (!ir) return (kiln_value){0};
  if (ir->type.is_view) return kiln_elab_error(e, n->place, "a view is not indexed; write load(V, [i, j])");
  unsigned kept = 0;
  for (uint32_t i = 0; i < n->list.count; i++) {
    const kiln_node *item = n->list.items[i];
    if (item->kind != KILN_NODE_COLON && item->kind != KILN_NODE_UNDERSCORE)
      return kiln_elab_error(
          e, item->place, "expected ':' or '_' in the index of a tile; elements are not picked one by one");
    kept += item->kind == KILN_NODE_COLON;
  }
  if (kept != ir->type.rank)
    return kiln_elab_error(e, n->place, "expected %u ':' for %s, found %u", ir->type.rank,
                           ir_type_text(ir->type, text), kept);
  if (n->list.count > IR_MAX_RANK)
    return kiln_elab_error(e, n->place, "rank %u, the limit is %d", n->list.count, IR_MAX_RANK);
  for (uint32_t i = 0; i < n->list.count && ir; i++) {
    if (n->list.items[i]->kind != KILN_NODE_UNDERSCORE) continue;
    ir_type one = ir->type;
    one.rank = 1;
    ir = kiln_elab_result(e, n->place, ir->type.rank ? ir_expand(&e->b, ir, i) : ir_reshape(&e->b, ir, one))
             .ir;
  }
  return ir ? kiln_value_runtime(ir) : (kiln_value){0};
}

bool kiln_elab_extent(kiln_elab *e, const kiln_node *n, uint8_t *out_log2) {
  int64_t v;
  *out_log2 = 0;
  if (!kiln_elab_integer(e, n, 1, INT64_C(1) << 40, "extent", &v)) return false;
  if (v & (v - 1))
    return kiln_elab_error(e, n->place, "an extent must be a power of two, found %lld", (long long)v), false;
  *out_log2 = (uint8_t)__builtin_ctzll((uint64_t)v);
  return true;
}

bool kiln_elab_shape(kiln_elab *e, ir_place place, kiln_list items, bool is_view, ir_type *type) {
  if (items.count > IR_MAX_RANK)
    return kiln_elab_error(e, place, "rank %u, the limit is %d", items.count, IR_MAX_RANK), false;
  unsigned sum = 0;
  type->rank = (uint8_t)items.count;
  for (uint32_t i = 0; i < items.count; i++) {
    const kiln_node *item = items.items[i];
    if (item->kind == KILN_NODE_UNDERSCORE && is_view) {
      type->log2[i] = IR_DROPPED;
      continue;
    }
    if (item->kind == KILN_NODE_UNDERSCORE || item->kind == KILN_NODE_COLON)
      return kiln_elab_error(e, item->place, "expected an extent in a shape, found '%c'",
                             item->kind == KILN_NODE_COLON ? ':' : '_'),
             false;
    if (!kiln_elab_extent(e, item, &type->log2[i])) return false;
    sum += type->log2[i];
  }
  if (sum > IR_MAX_LOG2_ELEMENTS)
    return kiln_elab_error(e, place, "a tile of 2^%u elements, the limit is 2^%d", sum, IR_MAX_LOG2_ELEMENTS),
           false;
  return true;
}

// ------------------------------------------------------------------------------------------- types

// The operand is elaborated for its type only: what it emits goes to a block that is dropped.
static kiln_value type_of(kiln_elab *e, const kiln_node *n) {
  ir_block *block = e->b.block;
  ir_op *before = e->b.before;
  e->b.block = KILN_NEW(e->b.arena, ir_block);
  e->b.before = NULL;
  kiln_value v = kiln_elab_eval(e, n->a);
  ir_type type;
  bool ok = v.kind == KILN_VALUE_TYPE || kiln_elab_type_of(e, n->place, v, &type);
  e->b.block = block;
  e->b.before = before;
  if (v.kind == KILN_VALUE_TYPE) return v;
  return ok ? kiln_value_type(ir_element(type)) : (kiln_value){0};
}

static kiln_value pointer_type(kiln_elab *e, const kiln_node *n) {
  enum { DEEPEST = 2 };
  kiln_value v = kiln_elab_eval(e, n->a);
  if (v.kind == KILN_VALUE_ERROR) return v;
  if (v.kind != KILN_VALUE_TYPE || v.type.rank || v.type.is_view)
    return kiln_elab_error(e, n->place, "expected an element type after '*'");
  if (v.type.pointer >= DEEPEST) return kiln_elab_error(e, n->place, "pointers are at most %d deep", DEEPEST);
  v.type.pointer++;
  return v;
}

static kiln_value view_type(kiln_elab *e, const kiln_node *n) {
  kiln_value v = kiln_elab_eval(e, n->a);
  if (v.kind == KILN_VALUE_ERROR) return v;
  if (v.kind != KILN_VALUE_TYPE || v.type.rank || v.type.is_view || v.type.pointer)
    return kiln_elab_error(e, n->place, "expected an element type after 'view'");
  if (!n->list.count) return kiln_elab_error(e, n->place, "a view needs at least one dimension");
  v.type.is_view = 1;
  return kiln_elab_shape(e, n->place, n->list, true, &v.type) ? v : (kiln_value){0};
}

bool kiln_elab_type(kiln_elab *e, const kiln_node *n, ir_type *out) {
  char text[IR_TYPE_TEXT];
  kiln_value v = kiln_elab_eval(e, n);
  *out = v.type;
  if (v.kind == KILN_VALUE_TYPE) return true;
  if (v.kind != KILN_VALUE_ERROR)
    kiln_elab_error(e, n->place, "expected a type, found %s", kiln_value_text(v, text));
  return false;
}

bool kiln_elab_integer(kiln_elab *e, const kiln_node *n, int64_t least, int64_t most, const char *what,
                       int64_t *out) {
  char text[IR_TYPE_TEXT];
  kiln_value v = kiln_elab_eval(e, n);
  *out = 0;
  if (v.kind == KILN_VALUE_ERROR) return false;
  bool typed = v.kind == KILN_VALUE_CONST && ir_type_class(v.type) == KILN_CLASS_INT;
  if (v.kind != KILN_VALUE_INT && !typed)
    return kiln_elab_error(e, n->place, "%s: expected an integer known at compile time, found %s%s", what,
                           v.kind == KILN_VALUE_RUNTIME ? "a run-time " : "", kiln_value_text(v, text)),
           false;
  *out = typed ? kiln_value_const_int(v) : v.integer;
  if (*out >= least && *out <= most) return true;
  if (most == INT64_MAX)
    kiln_elab_error(e, n->place, "%s: expected at least %lld, found %lld", what, (long long)least,
                    (long long)*out);
  else
    kiln_elab_error(e, n->place, "%s: expected a number from %lld to %lld, found %lld", what,
                    (long long)least, (long long)most, (long long)*out);
  return false;
}

bool kiln_elab_divisor(kiln_elab *e, const kiln_node *n, ir_type type, const char *what, int64_t *out) {
  char text[IR_TYPE_TEXT];
  if (!kiln_elab_integer(e, n, 1, INT64_MAX, what, out)) return false;
  unsigned width = ir_type_class(type) == KILN_CLASS_INT ? ir_type_bits(type) : 64;
  if (width == 64 || *out < INT64_C(1) << (width - 1)) return true;
  kiln_elab_error(e, n->place, "%s: no %s but 0 is a multiple of %lld", what,
                  ir_type_text(ir_scalar_type(type.scalar), text), (long long)*out);
  *out = 0;
  return false;
}

bool kiln_elab_known_bool(kiln_elab *e, const kiln_node *n, const char *what, bool *out) {
  char text[IR_TYPE_TEXT];
  kiln_value v = kiln_elab_eval(e, n);
  *out = v.kind == KILN_VALUE_CONST && v.bits;
  if (v.kind == KILN_VALUE_CONST && ir_type_class(v.type) == KILN_CLASS_BOOL) return true;
  if (v.kind != KILN_VALUE_ERROR)
    kiln_elab_error(e, n->place, "%s: expected true or false known at compile time, found %s%s", what,
                    v.kind == KILN_VALUE_RUNTIME ? "a run-time " : "", kiln_value_text(v, text));
  return false;
}

// -------------------------------------------------------------------------------------------- eval

static kiln_value eval(kiln_elab *e, const kiln_node *n) {
  kiln_value v, right;
  ir_type element;
  switch ((kiln_node_kind)n->kind) {
  case KILN_NODE_INTEGER:
    v = kiln_value_int(n->integer);
    v.is_pattern = n->flag;
    return v;
  case KILN_NODE_REAL: return kiln_value_real(n->real);
  case KILN_NODE_STRING: return (kiln_value){.kind = KILN_VALUE_TEXT, .text = n->text};
  case KILN_NODE_BOOL: return kiln_value_bool(n->flag);
  case KILN_NODE_NAME: return kiln_elab_name(e, n);
  case KILN_NODE_SCALAR: return kiln_value_type(ir_scalar_type((kiln_scalar)n->op));
  case KILN_NODE_POINTER: return pointer_type(e, n);
  case KILN_NODE_VIEW_TYPE: return view_type(e, n);
  case KILN_NODE_TYPEOF: return type_of(e, n);
  case KILN_NODE_UNARY:
    v = kiln_elab_eval(e, n->a);
    if (v.kind == KILN_VALUE_ERROR) return v;
    return n->op == KILN_TOKEN_MINUS ? negate(e, n->place, v) : complement(e, n->place, v);
  case KILN_NODE_BINARY:
    v = kiln_elab_eval(e, n->a);
    right = kiln_elab_eval(e, n->b);
    return kiln_elab_binary(e, n->place, (kiln_token_kind)n->op, v, right);
  case KILN_NODE_AS:
    v = kiln_elab_eval(e, n->a);
    if (!kiln_elab_type(e, n->b, &element)) return (kiln_value){0};
    if (element.rank || element.is_view)
      return kiln_elab_error(e, n->place, "'as' takes an element type without a shape");
    return kiln_elab_cast(e, n->place, v, element, 0, IR_ROUND_NEAREST);
  case KILN_NODE_INDEX:
    v = kiln_elab_eval(e, n->a);
    if (v.kind == KILN_VALUE_ERROR) return v;
    if (v.kind != KILN_VALUE_TYPE) return index_tile(e, n, v);
    if (v.type.rank || v.type.is_view)
      return kiln_elab_error(e, n->place, "a type with a shape takes no second one");
    return kiln_elab_shape(e, n->place, n->list, false, &v.type) ? v : (kiln_value){0};
  case KILN_NODE_CALL: {
    kiln_value one = {0};
    kiln_values all = kiln_elab_call(e, n, &one);
    if (all.count == 1) return all.items[0];
    return kiln_elab_error(e, n->place, "'%s' yields %u values here, expected one", n->atom->text, all.count);
  }
  case KILN_NODE_LIST:
    return kiln_elab_error(e, n->place, "a list stands only among the arguments of an operation");
  default: return kiln_elab_error(e, n->place, "expected an expression");
  }
}

kiln_value kiln_elab_eval(kiln_elab *e, const kiln_node *n) {
  if (!e->steps) return (kiln_value){0};
  if (!--e->steps)
    return kiln_elab_error(e, n->place, "the kernel is too large: more than %d steps of elaboration",
                           KILN_ELAB_STEPS);
  if (e->depth >= KILN_ELAB_DEPTH)
    return kiln_elab_error(e, n->place, "expressions are nested deeper than the limit of %d",
                           KILN_ELAB_DEPTH);
  e->depth++;
  kiln_value v = eval(e, n);
  e->depth--;
  return v;
}

kiln_values kiln_elab_eval_all(kiln_elab *e, const kiln_node *n, kiln_value *one) {
  if (n->kind == KILN_NODE_CALL && e->steps && e->depth < KILN_ELAB_DEPTH) {
    e->depth++;
    kiln_values all = kiln_elab_call(e, n, one);
    e->depth--;
    return all;
  }
  *one = kiln_elab_eval(e, n);
  return (kiln_values){one, 1};
}
