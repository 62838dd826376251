// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How each operation is written: a table of functions over the pieces that they share.
#include <inttypes.h>
#include <math.h>

#include "compiler/front/print.h"

// ------------------------------------------------------------------------------------------ pieces

void kiln_put_type(kiln_buffer *out, ir_type t) {
  char text[IR_TYPE_TEXT];
  kiln_buffer_format(out, "%s", ir_type_text(t, text));
}

// Decimal when that reads back exactly, else the bit pattern.
static void put_constant(kiln_buffer *out, ir_type t, uint64_t bits) {
  const char *name = kiln_scalars[t.scalar].spelling;
  unsigned class = ir_type_class(t), width = ir_type_bits(t);
  double real = class == KILN_CLASS_FLOAT ? ir_bits_to_float((kiln_scalar)t.scalar, bits) : 0;
  bool plain = class == KILN_CLASS_FLOAT && isfinite(real) && (real != 0 || !bits);
  int64_t v = width < 64 ? (int64_t)(bits << (64 - width)) >> (64 - width) : (int64_t)bits;
  if (isinf(real)) kiln_buffer_format(out, real < 0 ? "(-inf) as %s" : "inf as %s", name);
  else if (plain) kiln_buffer_format(out, real < 0 ? "(%.17g) as %s" : "%.17g as %s", real, name);
  else if (class == KILN_CLASS_INT && v != INT64_MIN)
    kiln_buffer_format(out, v < 0 ? "(%" PRId64 ") as %s" : "%" PRId64 " as %s", v, name);
  else kiln_buffer_format(out, "bits(%s, 0x%" PRIx64 ")", name, bits);
}

static void put_string(kiln_buffer *out, const char *text) {
  kiln_buffer_u8(out, '"');
  for (; text && *text; text++) {
    if (*text == '\n') kiln_buffer_bytes(out, "\\n", 2);
    else if (*text == '\t') kiln_buffer_bytes(out, "\\t", 2);
    else {
      if (*text == '"' || *text == '\\') kiln_buffer_u8(out, '\\');
      kiln_buffer_u8(out, (uint8_t)*text);
    }
  }
  kiln_buffer_u8(out, '"');
}

static bool is_inside(const ir_value *v, const ir_block *block) {
  const ir_block *b = v->def ? v->def->block : v->block;
  for (; b; b = b->parent ? b->parent->block : NULL)
    if (b == block) return true;
  return false;
}

void kiln_put_value(kiln_printer *p, ir_value *v) {
  v = ir_resolve(v);
  uint64_t bits;
  if (p->combiner && !is_inside(v, p->combiner) && !v->type.rank && ir_constant_bits(v, &bits)) {
    kiln_buffer_u8(p->out, '(');
    put_constant(p->out, v->type, bits);
    kiln_buffer_u8(p->out, ')');
  } else {
    kiln_buffer_format(p->out, "%c%u", v->block == p->kernel->body ? 'p' : 'v', v->id);
  }
}

void kiln_put_values(kiln_printer *p, ir_value **values, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (i) kiln_buffer_format(p->out, ", ");
    kiln_put_value(p, values[i]);
  }
}

static void put_list(kiln_printer *p, ir_value **values, uint32_t count) {
  kiln_buffer_u8(p->out, '[');
  kiln_put_values(p, values, count);
  kiln_buffer_u8(p->out, ']');
}

static void put_shape(kiln_buffer *out, ir_type t) {
  kiln_buffer_u8(out, '[');
  for (unsigned i = 0; i < t.rank; i++) {
    if (i) kiln_buffer_format(out, ", ");
    if (t.log2[i] == IR_DROPPED) kiln_buffer_u8(out, '_');
    else kiln_buffer_format(out, "%u", 1u << t.log2[i]);
  }
  kiln_buffer_u8(out, ']');
}

// -------------------------------------------------------------------------------------- attributes

static void put_word(kiln_buffer *out, const char *name, const char *const *words, unsigned index) {
  if (index) kiln_buffer_format(out, ", %s = %s", name, words[index]);
}

static void put_flag(kiln_buffer *out, const char *name, bool set) {
  if (set) kiln_buffer_format(out, ", %s = true", name);
}

static void put_access(kiln_buffer *out, const ir_attrs *a) {
  put_word(out, "cache", ir_cache_words, a->cache);
  put_word(out, "evict", ir_evict_words, a->evict);
  put_flag(out, "volatile", a->flags & IR_VOLATILE);
}

static void put_order(kiln_buffer *out, const ir_attrs *a) {
  put_word(out, "order", ir_order_words, a->order);
  put_word(out, "scope", ir_scope_words, a->scope);
}

static const char *combine_name(const ir_attrs *a) {
  if (a->flags & IR_UNSIGNED) return a->kind == IR_COMBINE_MAX ? "umax" : "umin";
  return ir_combines[a->kind].text;
}

// -------------------------------------------------------------------------------------- operations

static const char *const infix[IR_OPCODE_COUNT] = {
    [IR_ADD] = "+", [IR_SUB] = "-", [IR_MUL] = "*",  [IR_DIV] = "/",  [IR_REM] = "%",    [IR_AND] = "&",
    [IR_OR] = "|",  [IR_XOR] = "^", [IR_SHL] = "<<", [IR_SHR] = ">>", [IR_PTRADD] = "+",
};

static void put_infix(kiln_printer *p, const ir_op *op, const char *sign) {
  kiln_put_value(p, op->operands[0]);
  kiln_buffer_format(p->out, " %s ", sign);
  kiln_put_value(p, op->operands[1]);
}

// name(operands, flags)
static void put_call(kiln_printer *p, const ir_op *op, const char *name) {
  bool is_unsigned = op->attrs.flags & IR_UNSIGNED;
  kiln_buffer_format(p->out, "%s%s(", is_unsigned ? "u" : "", name);
  kiln_put_values(p, op->operands, op->operand_count);
  put_flag(p->out, "precise", op->attrs.flags & IR_PRECISE);
  put_flag(p->out, "nan", op->attrs.flags & IR_NAN);
  put_flag(p->out, "ftz", op->attrs.flags & IR_FTZ);
  kiln_buffer_u8(p->out, ')');
}

static void put_compare(kiln_printer *p, const ir_op *op) {
  static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">="}, *const names[] = {"eq",  "ne",
                                                                                           "ult", "ule",
                                                                                           "ugt", "uge"};
  bool is_unsigned = (op->attrs.flags & IR_UNSIGNED) && op->attrs.kind >= IR_LT;
  if (!is_unsigned) {
    put_infix(p, op, signs[op->attrs.kind]);
    return;
  }
  kiln_buffer_format(p->out, "%s(", names[op->attrs.kind]);
  kiln_put_values(p, op->operands, 2);
  kiln_buffer_u8(p->out, ')');
}

static void put_cast(kiln_printer *p, const ir_op *op) {
  const char *to = kiln_scalars[op->results[0].type.scalar].spelling;
  const ir_attrs *a = &op->attrs;
  bool plain = !(a->flags & (IR_UNSIGNED | IR_SATURATE_OFF)) && !a->round;
  if (plain) {
    kiln_put_value(p, op->operands[0]);
    kiln_buffer_format(p->out, " as %s", to);
    return;
  }
  kiln_buffer_format(p->out, a->flags & IR_UNSIGNED ? "ucast(" : "cast(");
  kiln_put_value(p, op->operands[0]);
  kiln_buffer_format(p->out, ", %s%s%s)", to, a->round ? ", round = rtz" : "",
                     a->flags & IR_SATURATE_OFF ? ", sat = false" : "");
}

static void put_expand(kiln_printer *p, const ir_op *op) {
  unsigned rank = op->operands[0]->type.rank;
  if (!rank) {
    kiln_buffer_format(p->out, "reshape(");
    kiln_put_value(p, op->operands[0]);
    kiln_buffer_format(p->out, ", [1])");
    return;
  }
  kiln_put_value(p, op->operands[0]);
  kiln_buffer_u8(p->out, '[');
  for (unsigned i = 0; i <= rank; i++)
    kiln_buffer_format(p->out, "%s%c", i ? ", " : "", i == op->attrs.axis ? '_' : ':');
  kiln_buffer_u8(p->out, ']');
}

static void put_shaped(kiln_printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "%s(", ir_ops[op->code].text);
  kiln_put_value(p, op->operands[0]);
  kiln_buffer_format(p->out, ", ");
  put_shape(p->out, op->results[0].type);
  kiln_buffer_u8(p->out, ')');
}

static void put_trans(kiln_printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "trans(");
  kiln_put_value(p, op->operands[0]);
  for (unsigned i = 0; i < op->operands[0]->type.rank; i++)
    kiln_buffer_format(p->out, "%s%u", i ? ", " : ", [", op->attrs.perm[i]);
  kiln_buffer_format(p->out, op->operands[0]->type.rank ? "])" : ", [])");
}

static void put_across(kiln_printer *p, const ir_op *op) {
  const char *name = ir_ops[op->code].text;
  if (op->attrs.kind == IR_COMBINE_REGION) {
    uint32_t which = kiln_put_combiner(p, op->regions[0]);
    kiln_buffer_format(p->out, "%s(combine%u, %u, ", name, which, op->attrs.axis);
    kiln_put_values(p, op->operands, op->operand_count);
  } else {
    kiln_buffer_format(p->out, "%s.%s(", name, combine_name(&op->attrs));
    kiln_put_value(p, op->operands[0]);
    kiln_buffer_format(p->out, ", %u", op->attrs.axis);
  }
  put_flag(p->out, "reverse", op->attrs.flags & IR_REVERSE);
  put_flag(p->out, "nan", op->attrs.flags & IR_NAN);
  kiln_buffer_u8(p->out, ')');
}

static void put_memory(kiln_printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "%s%s%s(", ir_ops[op->code].text, op->code == IR_ATOMIC ? "." : "",
                     op->code == IR_ATOMIC ? combine_name(&op->attrs) : "");
  kiln_put_values(p, op->operands, op->operand_count);
  op->code == IR_ATOMIC || op->code == IR_CAS ? put_order(p->out, &op->attrs)
                                              : put_access(p->out, &op->attrs);
  kiln_buffer_u8(p->out, ')');
}

static void put_view(kiln_printer *p, const ir_op *op) {
  uint32_t rank = op->results[0].type.rank;
  kiln_buffer_format(p->out, "view(");
  kiln_put_value(p, op->operands[0]);
  kiln_buffer_format(p->out, ", ");
  put_list(p, ir_view_extents(op), rank);
  kiln_buffer_format(p->out, ", ");
  put_list(p, ir_view_strides(op), rank);
  kiln_buffer_format(p->out, ", ");
  put_shape(p->out, op->results[0].type);
  kiln_buffer_u8(p->out, ')');
}

/// Of an access to a part of the tile along two axes: one count for each.
static void put_counts(kiln_printer *p, const ir_op *op) {
  ir_type view = op->operands[0]->type;
  const char *before = "[";
  kiln_buffer_format(p->out, ", first = ");
  for (unsigned i = 0; i < view.rank; i++) {
    if (view.log2[i] == IR_DROPPED) continue;
    kiln_buffer_format(p->out, "%s%" PRId64, before, ir_view_count(op, i));
    before = ", ";
  }
  kiln_buffer_format(p->out, "]");
}

static void put_view_access(kiln_printer *p, const ir_op *op) {
  uint32_t rank = op->operands[0]->type.rank;
  if (op->code == IR_VIEW_ATOMIC) kiln_buffer_format(p->out, "atomic.%s(", combine_name(&op->attrs));
  else kiln_buffer_format(p->out, op->code == IR_VIEW_LOAD ? "load(" : "store(");
  kiln_put_value(p, op->operands[0]);
  kiln_buffer_format(p->out, ", ");
  put_list(p, ir_view_indices(op), rank);
  if (op->operand_count > 1 + rank) {
    kiln_buffer_format(p->out, ", ");
    kiln_put_value(p, ir_view_indices(op)[rank]);
  }
  if (op->attrs.access.across) put_counts(p, op);
  else if (op->attrs.access.first)
    kiln_buffer_format(p->out, ", first = %" PRId64 ", axis = %u", op->attrs.access.first,
                       op->attrs.access.axis);
  op->code == IR_VIEW_ATOMIC ? put_order(p->out, &op->attrs) : put_access(p->out, &op->attrs);
  kiln_buffer_u8(p->out, ')');
}

static void put_dot(kiln_printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "dot(");
  kiln_put_values(p, op->operands, 3);
  put_word(p->out, "prec", ir_precision_words, op->attrs.precision);
  kiln_buffer_u8(p->out, ')');
}

static void put_hint(kiln_printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "hint(");
  kiln_put_value(p, op->operands[0]);
  if (op->attrs.hint.divisible) kiln_buffer_format(p->out, ", div = %" PRId64, op->attrs.hint.divisible);
  if (op->attrs.hint.contiguous) kiln_buffer_format(p->out, ", contig = %" PRId64, op->attrs.hint.contiguous);
  kiln_buffer_u8(p->out, ')');
}

static void put_sort(kiln_printer *p, const ir_op *op) {
  ir_type from = op->operands[0]->type, to = op->results[0].type;
  kiln_buffer_format(p->out, "sort(");
  kiln_put_value(p, op->operands[0]);
  if (!ir_same_shape(from, to)) kiln_buffer_format(p->out, ", first = %u", 1u << to.log2[to.rank - 1]);
  kiln_buffer_u8(p->out, ')');
}

static void put_gather(kiln_printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "gather(");
  kiln_put_values(p, op->operands, op->operand_count);
  kiln_buffer_format(p->out, ", %u)", op->attrs.axis);
}

static void put_asm(kiln_printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "asm(");
  put_string(p->out, op->attrs.assembly.text);
  kiln_buffer_format(p->out, ", ");
  put_string(p->out, op->attrs.assembly.constraints);
  kiln_buffer_format(p->out, ", ");
  put_list(p, op->operands, op->operand_count);
  kiln_buffer_format(p->out, ", ");
  kiln_put_type(p->out, ir_element(op->results[0].type));
  kiln_buffer_format(p->out, ", pack = %u", op->attrs.assembly.pack);
  put_flag(p->out, "pure", op->attrs.assembly.is_pure);
  kiln_buffer_u8(p->out, ')');
}

static void put_on_axis(kiln_printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "%s(%u)", ir_ops[op->code].text, op->attrs.axis);
}

static void put_const(kiln_printer *p, const ir_op *op) {
  put_constant(p->out, op->results[0].type, op->attrs.bits);
}

static void put_iota(kiln_printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "iota(%u)", 1u << op->results[0].type.log2[0]);
}

static void put_full(kiln_printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "full(");
  kiln_put_type(p->out, op->results[0].type);
  kiln_buffer_format(p->out, ", ");
  kiln_put_value(p, op->operands[0]);
  kiln_buffer_u8(p->out, ')');
}

static void put_named(kiln_printer *p, const ir_op *op) { put_call(p, op, ir_ops[op->code].text); }

static void put_binary(kiln_printer *p, const ir_op *op) {
  if (!op->attrs.flags && infix[op->code]) put_infix(p, op, infix[op->code]);
  else put_named(p, op);
}

static void put_bitcast(kiln_printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "bitcast(");
  kiln_put_value(p, op->operands[0]);
  kiln_buffer_format(p->out, ", ");
  kiln_put_type(p->out, ir_element(op->results[0].type));
  kiln_buffer_u8(p->out, ')');
}

static void put_assert(kiln_printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "assert(");
  kiln_put_value(p, op->operands[0]);
  kiln_buffer_format(p->out, ", ");
  put_string(p->out, op->attrs.assertion.text);
  kiln_buffer_format(p->out, ", %llu)", (unsigned long long)op->attrs.assertion.line);
}

static void put_of_view(kiln_printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "%s(", ir_ops[op->code].text);
  kiln_put_value(p, op->operands[0]);
  if (op->code != IR_VIEW_BASE) kiln_buffer_format(p->out, ", %u", op->attrs.axis);
  kiln_buffer_u8(p->out, ')');
}

/// How an operation is written; NULL: it is a statement, or not of the language.
static void (*const expressions[IR_OPCODE_COUNT])(kiln_printer *p, const ir_op *op) = {
    [IR_PID] = put_on_axis,
    [IR_NPID] = put_on_axis,
    [IR_CONST] = put_const,
    [IR_IOTA] = put_iota,
    [IR_SPLAT] = put_full,
    [IR_CMP] = put_compare,
    [IR_ADD] = put_binary,
    [IR_SUB] = put_binary,
    [IR_MUL] = put_binary,
    [IR_DIV] = put_binary,
    [IR_REM] = put_binary,
    [IR_AND] = put_binary,
    [IR_OR] = put_binary,
    [IR_XOR] = put_binary,
    [IR_SHL] = put_binary,
    [IR_SHR] = put_binary,
    [IR_PTRADD] = put_binary,
    [IR_MIN] = put_binary,
    [IR_MAX] = put_binary,
    [IR_MULHI] = put_binary,
    [IR_FMA] = put_named,
    [IR_SELECT] = put_named,
    [IR_ABS] = put_named,
    [IR_FLOOR] = put_named,
    [IR_CEIL] = put_named,
    [IR_ROUND] = put_named,
    [IR_SQRT] = put_named,
    [IR_RSQRT] = put_named,
    [IR_EXP2] = put_named,
    [IR_LOG2] = put_named,
    [IR_SIN] = put_named,
    [IR_COS] = put_named,
    [IR_TANH] = put_named,
    [IR_ERF] = put_named,
    [IR_JOIN] = put_named,
    [IR_SPLIT] = put_named,
    [IR_BARRIER] = put_named,
    [IR_ASSUME] = put_named,
    [IR_CAST] = put_cast,
    [IR_BITCAST] = put_bitcast,
    [IR_EXPAND] = put_expand,
    [IR_BROADCAST] = put_shaped,
    [IR_RESHAPE] = put_shaped,
    [IR_TRANS] = put_trans,
    [IR_REDUCE] = put_across,
    [IR_SCAN] = put_across,
    [IR_SORT] = put_sort,
    [IR_GATHER] = put_gather,
    [IR_LOAD] = put_memory,
    [IR_STORE] = put_memory,
    [IR_ATOMIC] = put_memory,
    [IR_CAS] = put_memory,
    [IR_VIEW] = put_view,
    [IR_VIEW_LOAD] = put_view_access,
    [IR_VIEW_STORE] = put_view_access,
    [IR_VIEW_ATOMIC] = put_view_access,
    [IR_DIM] = put_of_view,
    [IR_VIEW_STRIDE] = put_of_view,
    [IR_VIEW_BASE] = put_of_view,
    [IR_DOT] = put_dot,
    [IR_HINT] = put_hint,
    [IR_ASM] = put_asm,
    [IR_ASSERT] = put_assert,
};

void kiln_put_expression(kiln_printer *p, const ir_op *op) {
  if (expressions[op->code]) expressions[op->code](p, op);
}
