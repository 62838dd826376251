// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel as text in its own language, one operation a statement. Reading the text back gives the same
// canonical bytes, so every operation is spelled in the form that emits exactly it: constants with their
// type, no implied broadcast, loops with named carried values.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "compiler/front/elaborate.h"
#include "compiler/ir/ir.h"
#include "compiler/unit/unit.h"

typedef struct printer {
  kiln_buffer *out, *functions; ///< combiners go to the second
  const ir_kernel *kernel;
  const ir_block *combiner; ///< being printed, else NULL
  uint32_t next, function_count;
  unsigned indent;
} printer;

static uint32_t put_combiner(printer *p, ir_block *block);

// ------------------------------------------------------------------------------------------ pieces

static void put_type(kiln_buffer *out, ir_type t) {
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

static void put_value(printer *p, ir_value *v) {
  v = ir_resolve(v);
  uint64_t bits;
  if (p->combiner && !ir_encloses(p->combiner, ir_home(v)) && !v->type.rank && ir_constant_bits(v, &bits)) {
    kiln_buffer_u8(p->out, '(');
    put_constant(p->out, v->type, bits);
    kiln_buffer_u8(p->out, ')');
  } else {
    kiln_buffer_format(p->out, "%c%u", v->block == p->kernel->body ? 'p' : 'v', v->id);
  }
}

static void put_values(printer *p, ir_value **values, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (i) kiln_buffer_format(p->out, ", ");
    put_value(p, values[i]);
  }
}

static void put_list(printer *p, ir_value **values, uint32_t count) {
  kiln_buffer_u8(p->out, '[');
  put_values(p, values, count);
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

static void put_infix(printer *p, const ir_op *op, const char *sign) {
  put_value(p, op->operands[0]);
  kiln_buffer_format(p->out, " %s ", sign);
  put_value(p, op->operands[1]);
}

// name(operands, flags)
static void put_call(printer *p, const ir_op *op, const char *name) {
  bool is_unsigned = op->attrs.flags & IR_UNSIGNED;
  kiln_buffer_format(p->out, "%s%s(", is_unsigned ? "u" : "", name);
  put_values(p, op->operands, op->operand_count);
  put_flag(p->out, "precise", op->attrs.flags & IR_PRECISE);
  put_flag(p->out, "nan", op->attrs.flags & IR_NAN);
  put_flag(p->out, "ftz", op->attrs.flags & IR_FTZ);
  kiln_buffer_u8(p->out, ')');
}

static void put_compare(printer *p, const ir_op *op) {
  static const char *const names[] = {"eq", "ne", "ult", "ule", "ugt", "uge"};
  bool is_unsigned = (op->attrs.flags & IR_UNSIGNED) && op->attrs.kind >= IR_LT;
  if (!is_unsigned) {
    put_infix(p, op, ir_predicate_signs[op->attrs.kind]);
    return;
  }
  kiln_buffer_format(p->out, "%s(", names[op->attrs.kind]);
  put_values(p, op->operands, 2);
  kiln_buffer_u8(p->out, ')');
}

static void put_cast(printer *p, const ir_op *op) {
  const char *to = kiln_scalars[op->results[0].type.scalar].spelling;
  const ir_attrs *a = &op->attrs;
  bool plain = !(a->flags & (IR_UNSIGNED | IR_SATURATE_OFF)) && !a->round;
  if (plain) {
    put_value(p, op->operands[0]);
    kiln_buffer_format(p->out, " as %s", to);
    return;
  }
  kiln_buffer_format(p->out, a->flags & IR_UNSIGNED ? "ucast(" : "cast(");
  put_value(p, op->operands[0]);
  kiln_buffer_format(p->out, ", %s%s%s)", to, a->round ? ", round = rtz" : "",
                     a->flags & IR_SATURATE_OFF ? ", sat = false" : "");
}

static void put_expand(printer *p, const ir_op *op) {
  unsigned rank = op->operands[0]->type.rank;
  if (!rank) {
    kiln_buffer_format(p->out, "reshape(");
    put_value(p, op->operands[0]);
    kiln_buffer_format(p->out, ", [1])");
    return;
  }
  put_value(p, op->operands[0]);
  kiln_buffer_u8(p->out, '[');
  for (unsigned i = 0; i <= rank; i++)
    kiln_buffer_format(p->out, "%s%c", i ? ", " : "", i == op->attrs.axis ? '_' : ':');
  kiln_buffer_u8(p->out, ']');
}

static void put_shaped(printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "%s(", ir_ops[op->code].text);
  put_value(p, op->operands[0]);
  kiln_buffer_format(p->out, ", ");
  put_shape(p->out, op->results[0].type);
  kiln_buffer_u8(p->out, ')');
}

static void put_trans(printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "trans(");
  put_value(p, op->operands[0]);
  for (unsigned i = 0; i < op->operands[0]->type.rank; i++)
    kiln_buffer_format(p->out, "%s%u", i ? ", " : ", [", op->attrs.perm[i]);
  kiln_buffer_format(p->out, op->operands[0]->type.rank ? "])" : ", [])");
}

static void put_across(printer *p, const ir_op *op) {
  const char *name = ir_ops[op->code].text;
  if (op->attrs.kind == IR_COMBINE_REGION) {
    uint32_t which = put_combiner(p, op->regions[0]);
    kiln_buffer_format(p->out, "%s(combine%u, %u, ", name, which, op->attrs.axis);
    put_values(p, op->operands, op->operand_count);
  } else {
    kiln_buffer_format(p->out, "%s.%s(", name, combine_name(&op->attrs));
    put_value(p, op->operands[0]);
    kiln_buffer_format(p->out, ", %u", op->attrs.axis);
  }
  put_flag(p->out, "reverse", op->attrs.flags & IR_REVERSE);
  put_flag(p->out, "nan", op->attrs.flags & IR_NAN);
  kiln_buffer_u8(p->out, ')');
}

static void put_memory(printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "%s%s%s(", ir_ops[op->code].text, op->code == IR_ATOMIC ? "." : "",
                     op->code == IR_ATOMIC ? combine_name(&op->attrs) : "");
  put_values(p, op->operands, op->operand_count);
  op->code == IR_ATOMIC || op->code == IR_CAS ? put_order(p->out, &op->attrs)
                                              : put_access(p->out, &op->attrs);
  kiln_buffer_u8(p->out, ')');
}

static void put_view(printer *p, const ir_op *op) {
  uint32_t rank = op->results[0].type.rank;
  kiln_buffer_format(p->out, "view(");
  put_value(p, op->operands[0]);
  kiln_buffer_format(p->out, ", ");
  put_list(p, ir_view_extents(op), rank);
  kiln_buffer_format(p->out, ", ");
  put_list(p, ir_view_strides(op), rank);
  kiln_buffer_format(p->out, ", ");
  put_shape(p->out, op->results[0].type);
  kiln_buffer_u8(p->out, ')');
}

/// Of an access to a part of the tile along two axes: one count for each.
static void put_counts(printer *p, const ir_op *op) {
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

static void put_view_access(printer *p, const ir_op *op) {
  uint32_t rank = op->operands[0]->type.rank;
  if (op->code == IR_VIEW_ATOMIC) kiln_buffer_format(p->out, "atomic.%s(", combine_name(&op->attrs));
  else kiln_buffer_format(p->out, op->code == IR_VIEW_LOAD ? "load(" : "store(");
  put_value(p, op->operands[0]);
  kiln_buffer_format(p->out, ", ");
  put_list(p, ir_view_indices(op), rank);
  if (op->operand_count > 1 + rank) {
    kiln_buffer_format(p->out, ", ");
    put_value(p, ir_view_indices(op)[rank]);
  }
  if (op->attrs.access.across) put_counts(p, op);
  else if (op->attrs.access.first)
    kiln_buffer_format(p->out, ", first = %" PRId64 ", axis = %u", op->attrs.access.first,
                       op->attrs.access.axis);
  op->code == IR_VIEW_ATOMIC ? put_order(p->out, &op->attrs) : put_access(p->out, &op->attrs);
  kiln_buffer_u8(p->out, ')');
}

static void put_dot(printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "dot(");
  put_values(p, op->operands, 3);
  put_word(p->out, "prec", ir_precision_words, op->attrs.precision);
  kiln_buffer_u8(p->out, ')');
}

static void put_hint(printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "hint(");
  put_value(p, op->operands[0]);
  if (op->attrs.hint.divisible) kiln_buffer_format(p->out, ", div = %" PRId64, op->attrs.hint.divisible);
  if (op->attrs.hint.contiguous) kiln_buffer_format(p->out, ", contig = %" PRId64, op->attrs.hint.contiguous);
  kiln_buffer_u8(p->out, ')');
}

static void put_sort(printer *p, const ir_op *op) {
  ir_type from = op->operands[0]->type, to = op->results[0].type;
  kiln_buffer_format(p->out, "sort(");
  put_value(p, op->operands[0]);
  if (!ir_same_shape(from, to)) kiln_buffer_format(p->out, ", first = %u", 1u << to.log2[to.rank - 1]);
  kiln_buffer_u8(p->out, ')');
}

static void put_gather(printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "gather(");
  put_values(p, op->operands, op->operand_count);
  kiln_buffer_format(p->out, ", %u)", op->attrs.axis);
}

static void put_asm(printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "asm(");
  put_string(p->out, op->attrs.assembly.text);
  kiln_buffer_format(p->out, ", ");
  put_string(p->out, op->attrs.assembly.constraints);
  kiln_buffer_format(p->out, ", ");
  put_list(p, op->operands, op->operand_count);
  kiln_buffer_format(p->out, ", ");
  put_type(p->out, ir_element(op->results[0].type));
  kiln_buffer_format(p->out, ", pack = %u", op->attrs.assembly.pack);
  put_flag(p->out, "pure", op->attrs.assembly.is_pure);
  kiln_buffer_u8(p->out, ')');
}

static void put_on_axis(printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "%s(%u)", ir_ops[op->code].text, op->attrs.axis);
}

static void put_const(printer *p, const ir_op *op) {
  put_constant(p->out, op->results[0].type, op->attrs.bits);
}

static void put_iota(printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "iota(%u)", 1u << op->results[0].type.log2[0]);
}

static void put_full(printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "full(");
  put_type(p->out, op->results[0].type);
  kiln_buffer_format(p->out, ", ");
  put_value(p, op->operands[0]);
  kiln_buffer_u8(p->out, ')');
}

static void put_plain(printer *p, const ir_op *op) {
  const char *sign = ir_ops[op->code].sign;
  if (!op->attrs.flags && sign[0]) put_infix(p, op, sign);
  else put_call(p, op, ir_ops[op->code].text);
}

static void put_bitcast(printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "bitcast(");
  put_value(p, op->operands[0]);
  kiln_buffer_format(p->out, ", ");
  put_type(p->out, ir_element(op->results[0].type));
  kiln_buffer_u8(p->out, ')');
}

static void put_assert(printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "assert(");
  put_value(p, op->operands[0]);
  kiln_buffer_format(p->out, ", ");
  put_string(p->out, op->attrs.assertion.text);
  kiln_buffer_format(p->out, ", %llu)", (unsigned long long)op->attrs.assertion.line);
}

static void put_print(printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "print(");
  put_string(p->out, op->attrs.print.text);
  if (ir_printed(op)) {
    kiln_buffer_format(p->out, ", ");
    put_value(p, ir_printed(op));
  }
  if (op->attrs.print.digits) kiln_buffer_format(p->out, ", hex = %u", op->attrs.print.digits);
  put_flag(p->out, "unsigned", op->attrs.flags & IR_UNSIGNED && !op->attrs.print.digits);
  kiln_buffer_u8(p->out, ')');
}

static void put_of_view(printer *p, const ir_op *op) {
  kiln_buffer_format(p->out, "%s(", ir_ops[op->code].text);
  put_value(p, op->operands[0]);
  if (op->code != IR_VIEW_BASE) kiln_buffer_format(p->out, ", %u", op->attrs.axis);
  kiln_buffer_u8(p->out, ')');
}

typedef void expression(printer *p, const ir_op *op);

/// How an operation is written. One without a case has no attributes but flags, so its sign or a call says all.
static expression *expression_of(ir_opcode code) {
  switch (code) {
  case IR_PID:
  case IR_NPID: return put_on_axis;
  case IR_CONST: return put_const;
  case IR_IOTA: return put_iota;
  case IR_SPLAT: return put_full;
  case IR_CMP: return put_compare;
  case IR_CAST: return put_cast;
  case IR_BITCAST: return put_bitcast;
  case IR_EXPAND: return put_expand;
  case IR_BROADCAST:
  case IR_RESHAPE: return put_shaped;
  case IR_TRANS: return put_trans;
  case IR_REDUCE:
  case IR_SCAN: return put_across;
  case IR_SORT: return put_sort;
  case IR_GATHER: return put_gather;
  case IR_LOAD:
  case IR_STORE:
  case IR_ATOMIC:
  case IR_CAS: return put_memory;
  case IR_VIEW: return put_view;
  case IR_VIEW_LOAD:
  case IR_VIEW_STORE:
  case IR_VIEW_ATOMIC: return put_view_access;
  case IR_DIM:
  case IR_VIEW_STRIDE:
  case IR_VIEW_BASE: return put_of_view;
  case IR_DOT: return put_dot;
  case IR_HINT: return put_hint;
  case IR_ASM: return put_asm;
  case IR_ASSERT: return put_assert;
  case IR_PRINT: return put_print;
  default: return put_plain;
  }
}

// -------------------------------------------------------------------------------------- statements

static void new_line(printer *p) { kiln_buffer_format(p->out, "%*s", (int)(2 * p->indent), ""); }

static void put_statements(printer *p, ir_block *block);

static void number(printer *p, ir_value *v) { v->id = p->next++; }

static void put_names(printer *p, const ir_value *values, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) kiln_buffer_format(p->out, "%sv%u", i ? ", " : "", values[i].id);
}

static void put_args(printer *p, ir_value *const *args, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) kiln_buffer_format(p->out, "%sv%u", i ? ", " : "", args[i]->id);
}

static void put_loop_attributes(kiln_buffer *out, const ir_loop *a) {
  if (a->stages) kiln_buffer_format(out, " @stages(%u)", a->stages);
  if (a->unroll) kiln_buffer_format(out, " @unroll(%u)", a->unroll);
  if (a->split) kiln_buffer_format(out, " @split(%u)", a->split);
  if (a->divisible) kiln_buffer_format(out, " @div(%" PRId64 ")", a->divisible);
  if (a->is_flattened) kiln_buffer_format(out, " @flatten");
  if (a->is_in_order) kiln_buffer_format(out, " @overlap(1)");
}

// The last line of a loop's body: carried values become what is yielded.
static void put_next(printer *p, ir_value *const *args, const ir_op *yield) {
  if (!yield->operand_count) return;
  new_line(p);
  put_args(p, args, yield->operand_count);
  kiln_buffer_format(p->out, " = ");
  put_values(p, yield->operands, yield->operand_count);
  kiln_buffer_u8(p->out, '\n');
}

static void close_block(printer *p) {
  p->indent--;
  new_line(p);
  kiln_buffer_format(p->out, "}\n");
}

// Carried values are variables: outside they are the results.
static void put_for(printer *p, ir_op *op) {
  ir_block *body = ir_loop_body(op);
  ir_value **args = ir_loop_args(op);
  for (uint32_t i = 0; i < body->arg_count; i++) number(p, body->args[i]);
  for (uint32_t i = 0; i < ir_carried_count(op); i++) {
    new_line(p);
    kiln_buffer_format(p->out, "var v%u = ", args[i]->id);
    put_value(p, ir_loop_initials(op)[i]);
    kiln_buffer_u8(p->out, '\n');
  }
  new_line(p);
  kiln_buffer_format(p->out, "for v%u in ", ir_for_counter(op)->id);
  put_value(p, ir_for_lower(op));
  kiln_buffer_format(p->out, " .. ");
  put_value(p, ir_for_upper(op));
  kiln_buffer_format(p->out, " step ");
  put_value(p, ir_for_step(op));
  put_loop_attributes(p->out, &op->attrs.loop);
  kiln_buffer_format(p->out, " {\n");
  p->indent++;
  put_statements(p, body);
  put_next(p, args, ir_loop_next(op));
  close_block(p);
  for (uint32_t i = 0; i < op->result_count; i++) op->results[i].id = args[i]->id;
}

static void put_while(printer *p, ir_op *op) {
  ir_block *first = op->regions[0], *second = ir_loop_body(op);
  const ir_op *test = ir_while_test(op);
  for (uint32_t i = 0; i < first->arg_count; i++) number(p, first->args[i]);
  new_line(p);
  kiln_buffer_format(p->out, "loop%s", first->arg_count ? " " : "");
  put_args(p, first->args, first->arg_count);
  if (first->arg_count) kiln_buffer_format(p->out, " = ");
  put_values(p, op->operands, op->operand_count);
  put_loop_attributes(p->out, &op->attrs.loop);
  kiln_buffer_format(p->out, " {\n");
  p->indent++;
  put_statements(p, first);
  for (uint32_t i = 0; i < second->arg_count; i++) number(p, second->args[i]);
  new_line(p);
  kiln_buffer_format(p->out, "break ");
  put_args(p, second->args, second->arg_count);
  if (second->arg_count) kiln_buffer_format(p->out, " = ");
  put_values(p, ir_cond_passed(test), ir_cond_passed_count(test));
  kiln_buffer_format(p->out, "%sif ~", second->arg_count ? " " : "");
  put_value(p, ir_cond_condition(test));
  kiln_buffer_u8(p->out, '\n');
  put_statements(p, second);
  put_next(p, first->args, ir_loop_next(op));
  close_block(p);
  for (uint32_t i = 0; i < op->result_count; i++) op->results[i].id = second->args[i]->id;
}

static void put_if(printer *p, ir_op *op) {
  for (uint32_t i = 0; i < op->result_count; i++) number(p, &op->results[i]);
  new_line(p);
  if (op->result_count) {
    kiln_buffer_format(p->out, "let ");
    put_names(p, op->results, op->result_count);
    kiln_buffer_format(p->out, " = ");
  }
  kiln_buffer_format(p->out, "if ");
  put_value(p, op->operands[0]);
  kiln_buffer_format(p->out, " {\n");
  for (unsigned side = 0; side < 2; side++) {
    const ir_op *yield = ir_if_end(op, side);
    if (side && op->regions[1]->first == yield && !yield->operand_count) break;
    if (side) {
      p->indent--;
      new_line(p);
      kiln_buffer_format(p->out, "} else {\n");
    }
    p->indent++;
    put_statements(p, op->regions[side]);
    if (yield->operand_count) {
      new_line(p);
      kiln_buffer_format(p->out, "yield ");
      put_values(p, yield->operands, yield->operand_count);
      kiln_buffer_u8(p->out, '\n');
    }
  }
  close_block(p);
}

static void put_statement(printer *p, ir_op *op) {
  if (op->code == IR_FOR) put_for(p, op);
  else if (op->code == IR_WHILE) put_while(p, op);
  else if (op->code == IR_IF) put_if(p, op);
  else if (!ir_is_terminator(op)) {
    for (uint32_t i = 0; i < op->result_count; i++) number(p, &op->results[i]);
    new_line(p);
    if (op->result_count) {
      kiln_buffer_format(p->out, "let ");
      put_names(p, op->results, op->result_count);
      kiln_buffer_format(p->out, " = ");
    }
    expression_of(op->code)(p, op);
    kiln_buffer_u8(p->out, '\n');
  }
}

static void put_statements(printer *p, ir_block *block) {
  for (ir_op *op = block->first; op; op = op->next) put_statement(p, op);
}

static uint32_t put_combiner(printer *p, ir_block *block) {
  kiln_buffer inner = {0};
  printer q = *p;
  q.out = &inner;
  q.combiner = block;
  q.indent = 1;
  for (uint32_t i = 0; i < block->arg_count; i++) number(&q, block->args[i]);
  put_statements(&q, block);
  const ir_op *yield = ir_terminator(block);
  kiln_buffer_format(&inner, "  return ");
  put_values(&q, yield->operands, yield->operand_count);
  uint32_t which = q.function_count++;
  kiln_buffer_format(p->functions, "\nfn combine%u(", which);
  for (uint32_t i = 0; i < block->arg_count; i++) {
    kiln_buffer_format(p->functions, "%sv%u: ", i ? ", " : "", block->args[i]->id);
    put_type(p->functions, block->args[i]->type);
  }
  kiln_buffer_format(p->functions, ") {\n%.*s\n}\n", (int)inner.size, (const char *)inner.bytes);
  kiln_buffer_deinit(&inner);
  p->next = q.next;
  p->function_count = q.function_count;
  return which;
}

// ------------------------------------------------------------------------------------------ kernel

static void put_integer(kiln_buffer *out, int64_t v) {
  if (v == INT64_MIN) kiln_buffer_format(out, "-%" PRId64 " - 1", INT64_MAX);
  else kiln_buffer_format(out, "%" PRId64, v);
}

static void put_param(printer *p, const ir_param *param, uint32_t index) {
  static const char *const modes[] = {"", "in ", "out ", "inout ", "accum "};
  kiln_buffer_format(p->out, "%sp%u: %s", index ? ",\n    " : "", index, modes[param->access]);
  put_type(p->out, param->type);
  if (param->align) kiln_buffer_format(p->out, " @align(%u)", param->align);
  if (param->rows) kiln_buffer_format(p->out, " @rows(%u)", param->rows);
  if (param->div) kiln_buffer_format(p->out, " @div(%" PRId64 ")", param->div);
  if (param->has_range) {
    kiln_buffer_format(p->out, " @range(");
    put_integer(p->out, param->lo);
    kiln_buffer_format(p->out, ", ");
    put_integer(p->out, param->hi);
    kiln_buffer_u8(p->out, ')');
  }
  if (param->noalias) kiln_buffer_format(p->out, " @noalias");
  if (param->within) kiln_buffer_format(p->out, " @within");
}

// True when the language takes the name as it is.
static bool is_name(const char *name) {
  static const char *const words[] = {
      "TARGET",
      "WARP",
      "SMEM",
#define TOKEN(kind, text)
#define KEYWORD(kind, text) text,
#include "compiler/front/token.def"
#undef TOKEN
#undef KEYWORD
  };
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  size_t length = strlen(name);
  if (!length || !strchr(letters, name[0]) || !strcmp(name, "_")) return false;
  for (size_t i = 1; i < length; i++)
    if (!strchr(letters, name[i]) && !strchr("0123456789", name[i])) return false;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strcmp(words[i], name)) return false;
  for (size_t i = 0; i < KILN_SCALAR_COUNT; i++)
    if (!strcmp(kiln_scalars[i].spelling, name)) return false;
  return !kiln_elab_is_operation(name) &&
         strncmp(name, "combine", strlen("combine")) != 0; // combiners are printed under that name
}

static void put_head(printer *p) {
  const ir_kernel *k = p->kernel;
  // Without the prefix of symbols, which the kernel gets again when the text is read.
  const char *name =
      k->name +
      (strncmp(k->name, KILN_SYMBOL_PREFIX, strlen(KILN_SYMBOL_PREFIX)) ? 0 : strlen(KILN_SYMBOL_PREFIX));
  kiln_buffer_format(p->out, "kiln 1\n\nkernel %s", is_name(name) ? "" : "kernel_");
  for (const char *c = name; *c; c++) {
    bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');
    kiln_buffer_u8(p->out, plain ? (uint8_t)*c : '_');
  }
  kiln_buffer_u8(p->out, '(');
  for (uint32_t i = 0; i < k->param_count; i++) put_param(p, &k->params[i], i);
  kiln_buffer_format(p->out, ")\n  @warps(%u) @stages(%u)", k->warps, k->stages);
  if (k->max_registers) kiln_buffer_format(p->out, " @regs(%u)", k->max_registers);
  if (k->fp_strict || k->fp_flush)
    kiln_buffer_format(p->out, " @fp(%s%s%s)", k->fp_strict ? "strict" : "",
                       k->fp_strict && k->fp_flush ? ", " : "", k->fp_flush ? "ftz" : "");
  kiln_buffer_format(p->out, " @grid_limit(%" PRId64 ", %" PRId64 ", %" PRId64 ")\n{\n", k->grid_limit[0],
                     k->grid_limit[1], k->grid_limit[2]);
}

void kiln_print_ir(ir_kernel *kernel, kiln_buffer *out) {
  kiln_buffer functions = {0};
  printer p = {.out = out, .functions = &functions, .kernel = kernel, .indent = 1};
  for (uint32_t i = 0; i < kernel->param_count; i++) number(&p, kernel->body->args[i]);
  put_head(&p);
  put_statements(&p, kernel->body);
  kiln_buffer_format(out, "}\n");
  kiln_buffer_bytes(out, functions.bytes, functions.size);
  kiln_buffer_deinit(&functions);
}
