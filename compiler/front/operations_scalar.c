// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementwise operations, constants, program numbers, facts and escapes.
#include <string.h>

#include "compiler/front/operations.h"

static kiln_value emit(kiln_elab *e, const kiln_call *c, ir_opcode code, const ir_attrs *attrs,
                       ir_value *const *operands, uint32_t count, const ir_type *given) {
  ir_op *op = ir_emit(&e->b, code, attrs, operands, count, given, NULL, 0);
  if (!op) return kiln_elab_result(e, c->place, NULL);
  return op->result_count ? kiln_elab_result(e, c->place, &op->results[0]) : (kiln_value){0};
}

// Unifies up to three operands and emits; folds what is known.
static kiln_value elementwise(kiln_elab *e, const kiln_call *c, uint32_t flags) {
  kiln_value values[3] = {0}, folded;
  kiln_value *each[] = {&values[0], &values[1], &values[2]};
  for (uint32_t i = 0; i < c->count; i++) values[i] = kiln_elab_eval(e, c->args[i]);
  for (uint32_t i = 0; i < c->count; i++)
    if (values[i].kind == KILN_VALUE_ERROR) return values[i];
  const char *name = kiln_arena_format(e->arena, "'%s'", c->operation->name);
  if (c->count == 2 &&
      !kiln_elab_is_sensible(e, c->place, (ir_opcode)c->operation->code, flags, name, values[0], values[1]))
    return (kiln_value){0};
  if (kiln_fold_operation(e, c->place, (ir_opcode)c->operation->code, flags, values, c->count, &folded))
    return folded;
  bool integral = values[0].kind == KILN_VALUE_INT && !(ir_ops[c->operation->code].classes & KILN_CLASS_INT);
  for (uint32_t i = 0; integral && i < c->count; i++)
    if (values[i].kind == KILN_VALUE_INT) values[i] = kiln_value_real((double)values[i].integer);
  if (!kiln_elab_unify(e, c->place, each, c->count,
                       kiln_arena_format(e->arena, "operands of '%s'", c->operation->name)))
    return (kiln_value){0};
  ir_value *operands[] = {values[0].ir, values[1].ir, values[2].ir};
  ir_attrs attrs = {.flags = flags};
  return emit(e, c, (ir_opcode)c->operation->code, &attrs, operands, c->count, NULL);
}

kiln_values kiln_operation_unary(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  uint32_t flags = c->operation->flags;
  bool ok =
      kiln_call_flag(e, c, "precise", IR_PRECISE, &flags) && kiln_call_flag(e, c, "ftz", IR_FTZ, &flags);
  if (!ok) return kiln_call_one((kiln_value){0}, one);
  return kiln_call_one(elementwise(e, c, flags), one);
}

kiln_values kiln_operation_binary(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  uint32_t flags = c->operation->flags;
  bool ok =
      kiln_call_flag(e, c, "precise", IR_PRECISE, &flags) && kiln_call_flag(e, c, "nan", IR_NAN, &flags);
  return kiln_call_one(ok ? elementwise(e, c, flags) : (kiln_value){0}, one);
}

kiln_values kiln_operation_fma(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  return kiln_call_one(elementwise(e, c, 0), one);
}

// c0 + x * (c1 + x * (...)), each step one fma.
kiln_values kiln_operation_poly(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  kiln_value x = kiln_elab_eval(e, c->args[0]), sum = kiln_elab_eval(e, c->args[c->count - 1]);
  for (uint32_t i = c->count - 1; i-- > 1;) {
    kiln_value v = kiln_elab_eval(e, c->args[i]), factor = x;
    kiln_value *each[] = {&sum, &factor, &v};
    if (!kiln_elab_unify(e, c->place, each, 3, "operands of 'poly'"))
      return kiln_call_one((kiln_value){0}, one);
    ir_value *operands[] = {sum.ir, factor.ir, v.ir};
    sum = emit(e, c, IR_FMA, NULL, operands, 3, NULL);
  }
  return kiln_call_one(sum, one);
}

kiln_values kiln_operation_compare(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  kiln_value left = kiln_elab_eval(e, c->args[0]), right = kiln_elab_eval(e, c->args[1]);
  const char *name = kiln_arena_format(e->arena, "'%s'", c->operation->name);
  if (!kiln_elab_is_sensible(e, c->place, IR_CMP, c->operation->flags, name, left, right))
    return kiln_call_one((kiln_value){0}, one);
  return kiln_call_one(
      kiln_elab_compare(e, c->place, (ir_predicate)c->operation->code, c->operation->flags, left, right),
      one);
}

static bool is_view(kiln_value v) { return v.kind == KILN_VALUE_RUNTIME && v.ir->type.is_view; }

// Of two values known now; the type of a select does not depend on which.
static kiln_value chosen(kiln_elab *e, const kiln_call *c, bool first, kiln_value a, kiln_value b) {
  kiln_value *pair[] = {&a, &b};
  for (unsigned i = 0; i < 2; i++) {
    kiln_value other = *pair[!i];
    if (other.kind == KILN_VALUE_CONST)
      *pair[i] = kiln_elab_as_element(e, c->place, *pair[i], other.type, "values of 'select'");
    else if (other.kind == KILN_VALUE_REAL && pair[i]->kind == KILN_VALUE_INT)
      *pair[i] = kiln_value_real((double)pair[i]->integer);
    if (pair[i]->kind == KILN_VALUE_ERROR) return *pair[i];
  }
  return first ? a : b;
}

static kiln_value select_value(kiln_elab *e, const kiln_call *c) {
  kiln_value condition = kiln_elab_eval(e, c->args[0]), a = kiln_elab_eval(e, c->args[1]),
             b = kiln_elab_eval(e, c->args[2]);
  kiln_value *pair[] = {&a, &b};
  char text[IR_TYPE_TEXT];
  if (condition.kind == KILN_VALUE_ERROR) return condition;
  if (condition.kind == KILN_VALUE_CONST && kiln_value_is_known(a) && kiln_value_is_known(b) &&
      ir_type_class(condition.type) == KILN_CLASS_BOOL)
    return chosen(e, c, condition.bits, a, b);
  bool views = is_view(a) || is_view(b);
  if (views && !(is_view(a) && is_view(b) && ir_type_equal(a.ir->type, b.ir->type)))
    return kiln_elab_error(e, c->place, "values of 'select': expected two views of one type");
  if (!views && !kiln_elab_unify(e, c->place, pair, 2, "values of 'select'")) return (kiln_value){0};
  ir_value *all[] = {kiln_elab_runtime(e, c->args[0]->place, condition), a.ir, b.ir};
  if (!all[0]) return (kiln_value){0};
  if (ir_type_class(all[0]->type) != KILN_CLASS_BOOL || all[0]->type.is_view)
    return kiln_elab_error(e, c->args[0]->place, "condition of 'select': expected i1, found %s",
                           ir_type_text(all[0]->type, text));
  if (views && all[0]->type.rank)
    return kiln_elab_error(e, c->args[0]->place,
                           "condition of 'select' between views: expected a scalar i1, found %s",
                           ir_type_text(all[0]->type, text));
  if (all[0]->type.rank && !kiln_elab_unify_shapes(e, c->place, all, 3, "condition and values of 'select'"))
    return (kiln_value){0};
  return emit(e, c, IR_SELECT, NULL, all, 3, NULL);
}

kiln_values kiln_operation_select(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  return kiln_call_one(select_value(e, c), one);
}

// ------------------------------------------------------------------------------------------- casts

static bool element_type(kiln_elab *e, const kiln_call *c, uint32_t i, ir_type *out) {
  if (!kiln_elab_type(e, c->args[i], out)) return false;
  if (!out->rank && !out->is_view) return true;
  kiln_elab_error(e, c->args[i]->place, "'%s': expected an element type without a shape", c->operation->name);
  return false;
}

kiln_values kiln_operation_cast(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  static const char *const rounds[] = {"rtne", "rtz", NULL};
  uint32_t flags = c->operation->flags;
  uint8_t round = IR_ROUND_NEAREST;
  ir_type element;
  kiln_value v = kiln_elab_eval(e, c->args[0]);
  bool saturate = true;
  const kiln_node *sat = kiln_call_named(c, "sat");
  bool ok = element_type(e, c, 1, &element) && kiln_call_word(e, c, "round", rounds, &round) &&
            kiln_call_flag(e, c, "unsigned", IR_UNSIGNED, &flags) &&
            (!sat || kiln_elab_known_bool(e, sat, "sat", &saturate));
  if (!saturate) flags |= IR_SATURATE_OFF;
  return kiln_call_one(ok ? kiln_elab_cast(e, c->place, v, element, flags, (ir_round)round) : (kiln_value){0},
                       one);
}

kiln_values kiln_operation_bitcast(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  ir_type element;
  ir_value *v = kiln_call_value(e, c, 0);
  if (!element_type(e, c, 1, &element) || !v) return kiln_call_one((kiln_value){0}, one);
  if (ir_type_equal(ir_element(v->type), element) && !v->type.is_view)
    return kiln_call_one(kiln_value_runtime(v), one);
  return kiln_call_one(kiln_elab_result(e, c->place, ir_bitcast(&e->b, v, element)), one);
}

kiln_values kiln_operation_bits(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  ir_type element;
  int64_t pattern;
  if (!element_type(e, c, 0, &element) ||
      !kiln_elab_integer(e, c->args[1], INT64_MIN, INT64_MAX, "bits", &pattern))
    return kiln_call_one((kiln_value){0}, one);
  unsigned width = ir_type_bits(element);
  if (element.pointer || (width < 64 && (uint64_t)pattern >> width))
    return kiln_call_one(kiln_elab_error(e, c->place, "'bits': 0x%llx does not fit the %u bits of the type",
                                         (unsigned long long)pattern, width),
                         one);
  return kiln_call_one(kiln_elab_emit_const(e, kiln_value_const(element, (uint64_t)pattern)), one);
}

// --------------------------------------------------------------------------------------- constants

kiln_values kiln_operation_program(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  int64_t axis;
  if (!kiln_elab_integer(e, c->args[0], 0, 2, c->operation->name, &axis))
    return kiln_call_one((kiln_value){0}, one);
  ir_attrs attrs = {.axis = (uint8_t)axis};
  return kiln_call_one(emit(e, c, (ir_opcode)c->operation->code, &attrs, NULL, 0, NULL), one);
}

kiln_values kiln_operation_iota(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  uint8_t log2;
  if (!kiln_elab_extent(e, c->args[0], &log2)) return kiln_call_one((kiln_value){0}, one);
  if (log2 > IR_MAX_LOG2_ELEMENTS)
    return kiln_call_one(kiln_elab_error(e, c->place, "a tile of 2^%u elements, the limit is 2^%d", log2,
                                         IR_MAX_LOG2_ELEMENTS),
                         one);
  return kiln_call_one(kiln_elab_result(e, c->place, ir_iota(&e->b, log2)), one);
}

static kiln_value filled(kiln_elab *e, const kiln_call *c, kiln_value v) {
  ir_type type;
  if (!kiln_elab_type(e, c->args[0], &type)) return (kiln_value){0};
  if (type.is_view) return kiln_elab_error(e, c->place, "'%s' makes tiles, not views", c->operation->name);
  ir_value *ir = kiln_elab_fit(e, c->place, v, type, "value of 'full'");
  return ir ? kiln_value_runtime(ir) : (kiln_value){0};
}

kiln_values kiln_operation_zeros(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  ir_type type;
  if (!kiln_elab_type(e, c->args[0], &type)) return kiln_call_one((kiln_value){0}, one);
  bool is_bool = !type.pointer && type.scalar == KILN_I1;
  return kiln_call_one(filled(e, c, is_bool ? kiln_value_bool(false) : kiln_value_int(0)), one);
}

kiln_values kiln_operation_full(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  return kiln_call_one(filled(e, c, kiln_elab_eval(e, c->args[1])), one);
}

// ---------------------------------------------------------------------------------- facts, escapes

static ir_value *bool_argument(kiln_elab *e, const kiln_call *c) {
  char text[IR_TYPE_TEXT];
  ir_value *v = kiln_call_value(e, c, 0);
  if (!v || (ir_type_class(v->type) == KILN_CLASS_BOOL && !v->type.is_view)) return v;
  kiln_elab_error(e, c->args[0]->place, "'%s': expected i1, found %s", c->operation->name,
                  ir_type_text(v->type, text));
  return NULL;
}

// What is false wherever every program comes; inside a branch it may say that none comes there.
static bool never_holds(const kiln_elab *e, const ir_value *v) { return !e->control && ir_is_zero(v); }

kiln_values kiln_operation_assume(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  ir_value *v = bool_argument(e, c);
  if (v && never_holds(e, v)) kiln_elab_error(e, c->place, "this 'assume' never holds");
  else if (v) emit(e, c, IR_ASSUME, NULL, &v, 1, NULL);
  return (kiln_values){one, 0};
}

// What the canonical form says of the source; a source of its own says nothing.
static uint64_t assert_line(kiln_elab *e, const kiln_node *node) {
  kiln_value line = kiln_elab_eval(e, node);
  if (line.kind == KILN_VALUE_INT && line.integer >= 0 && line.integer <= UINT32_MAX)
    return (uint64_t)line.integer;
  if (line.kind != KILN_VALUE_ERROR)
    kiln_elab_error(e, node->place, "line of 'assert': expected a number of a line");
  return 0;
}

kiln_values kiln_operation_assert(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  ir_value *v = bool_argument(e, c);
  kiln_value text = kiln_elab_eval(e, c->args[1]);
  ir_assertion how = {.text = text.kind == KILN_VALUE_TEXT ? text.text : "", .line = c->place.line};
  if (c->count == 3) how.line = assert_line(e, c->args[2]);
  if (text.kind != KILN_VALUE_TEXT && text.kind != KILN_VALUE_ERROR)
    kiln_elab_error(e, c->args[1]->place, "message of 'assert': expected a string");
  else if (v && never_holds(e, v))
    kiln_elab_error(e, c->place, "this 'assert' never holds: %.200s", how.text);
  else if (v) emit(e, c, IR_ASSERT, &(ir_attrs){.assertion = how}, &v, 1, NULL);
  return (kiln_values){one, 0};
}

kiln_values kiln_operation_barrier(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  emit(e, c, IR_BARRIER, NULL, NULL, 0, NULL);
  return (kiln_values){one, 0};
}

kiln_values kiln_operation_hint(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  ir_attrs attrs = {0};
  ir_value *v = kiln_call_value(e, c, 0);
  const kiln_node *div = kiln_call_named(c, "div"), *contig = kiln_call_named(c, "contig");
  bool ok = v && (!div || kiln_elab_divisor(e, div, v->type, "div", &attrs.hint.divisible)) &&
            (!contig || kiln_elab_integer(e, contig, 1, INT64_MAX, "contig", &attrs.hint.contiguous));
  return kiln_call_one(ok ? emit(e, c, IR_HINT, &attrs, &v, 1, NULL) : (kiln_value){0}, one);
}

static bool text_argument(kiln_elab *e, const kiln_call *c, uint32_t i, const char **out) {
  kiln_value v = kiln_elab_eval(e, c->args[i]);
  if (v.kind == KILN_VALUE_TEXT) return *out = v.text, true;
  if (v.kind != KILN_VALUE_ERROR)
    kiln_elab_error(e, c->args[i]->place, "'%s': expected a string", c->operation->name);
  return false;
}

kiln_values kiln_operation_print(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  const char *text;
  int64_t digits = 0;
  uint32_t flags = 0;
  const kiln_node *hex = kiln_call_named(c, "hex");
  bool ok = text_argument(e, c, 0, &text) && kiln_call_flag(e, c, "unsigned", IR_UNSIGNED, &flags) &&
            (!hex || kiln_elab_integer(e, hex, 1, 16, "hex", &digits));
  ir_value *v = ok && c->count == 2 ? kiln_call_value(e, c, 1) : NULL;
  if (ok && c->count == 1 && (hex || flags)) {
    kiln_elab_error(e, c->place, "'print': expected a value, which 'hex' or 'unsigned' is about");
  } else if (v && v->type.is_view) {
    kiln_elab_error(e, c->args[1]->place, "'print': expected a value, found a view");
  } else if (ok && (v || c->count == 1)) {
    ir_print_value(&e->b, text, v, flags, (unsigned)digits);
    if (e->b.error.status != KILN_OK) (void)kiln_elab_result(e, c->place, NULL);
  }
  return (kiln_values){one, 0};
}

static kiln_value asm_value(kiln_elab *e, const kiln_call *c) {
  ir_attrs attrs = {0};
  uint32_t is_pure = 0;
  ir_type element;
  kiln_list list;
  int64_t pack = 1;
  const kiln_node *pack_node = kiln_call_named(c, "pack");
  bool ok = text_argument(e, c, 0, &attrs.assembly.text) &&
            text_argument(e, c, 1, &attrs.assembly.constraints) &&
            kiln_call_list(e, c, 2, "operands", &list) && element_type(e, c, 3, &element) &&
            kiln_call_flag(e, c, "pure", 1, &is_pure) &&
            (!pack_node || kiln_elab_integer(e, pack_node, 1, 16, "pack", &pack));
  if (!ok) return (kiln_value){0};
  attrs.assembly.pack = (uint8_t)pack, attrs.assembly.is_pure = is_pure;
  ir_value **operands = KILN_NEW_ARRAY(e->arena, ir_value *, list.count + 1);
  for (uint32_t i = 0; i < list.count; i++) {
    kiln_value v = kiln_elab_eval(e, list.items[i]);
    operands[i] = v.kind == KILN_VALUE_ERROR ? NULL : kiln_elab_runtime(e, list.items[i]->place, v);
    if (!operands[i]) return (kiln_value){0};
  }
  if (!kiln_elab_unify_shapes(e, c->place, operands, list.count, "operands of 'asm'")) return (kiln_value){0};
  ir_type given = list.count ? ir_with_element(operands[0]->type, element) : element;
  return emit(e, c, IR_ASM, &attrs, operands, list.count, &given);
}

kiln_values kiln_operation_asm(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  return kiln_call_one(asm_value(e, c), one);
}
