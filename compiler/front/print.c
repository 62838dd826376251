// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel as text in its own language, one operation a statement. Reading the text back gives the same
// canonical bytes, so every operation is spelled in the form that emits exactly it: constants with their
// type, no implied broadcast, loops with named carried values.
#include <inttypes.h>
#include <string.h>

#include "compiler/front/elaborate.h"
#include "compiler/front/print.h"

// -------------------------------------------------------------------------------------- statements

static void new_line(kiln_printer *p) { kiln_buffer_format(p->out, "%*s", (int)(2 * p->indent), ""); }

static void put_statements(kiln_printer *p, ir_block *block);

static void number(kiln_printer *p, ir_value *v) { v->id = p->next++; }

static void put_names(kiln_printer *p, const ir_value *values, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) kiln_buffer_format(p->out, "%sv%u", i ? ", " : "", values[i].id);
}

static void put_args(kiln_printer *p, ir_value *const *args, uint32_t count) {
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
static void put_next(kiln_printer *p, ir_value *const *args, const ir_op *yield) {
  if (!yield->operand_count) return;
  new_line(p);
  put_args(p, args, yield->operand_count);
  kiln_buffer_format(p->out, " = ");
  kiln_put_values(p, yield->operands, yield->operand_count);
  kiln_buffer_u8(p->out, '\n');
}

static void close_block(kiln_printer *p) {
  p->indent--;
  new_line(p);
  kiln_buffer_format(p->out, "}\n");
}

// Carried values are variables: outside they are the results.
static void put_for(kiln_printer *p, ir_op *op) {
  ir_block *body = ir_loop_body(op);
  ir_value **args = ir_loop_args(op);
  for (uint32_t i = 0; i < body->arg_count; i++) number(p, body->args[i]);
  for (uint32_t i = 0; i < ir_carried_count(op); i++) {
    new_line(p);
    kiln_buffer_format(p->out, "var v%u = ", args[i]->id);
    kiln_put_value(p, ir_loop_initials(op)[i]);
    kiln_buffer_u8(p->out, '\n');
  }
  new_line(p);
  kiln_buffer_format(p->out, "for v%u in ", ir_for_counter(op)->id);
  kiln_put_value(p, ir_for_lower(op));
  kiln_buffer_format(p->out, " .. ");
  kiln_put_value(p, ir_for_upper(op));
  kiln_buffer_format(p->out, " step ");
  kiln_put_value(p, ir_for_step(op));
  put_loop_attributes(p->out, &op->attrs.loop);
  kiln_buffer_format(p->out, " {\n");
  p->indent++;
  put_statements(p, body);
  put_next(p, args, ir_loop_next(op));
  close_block(p);
  for (uint32_t i = 0; i < op->result_count; i++) op->results[i].id = args[i]->id;
}

static void put_while(kiln_printer *p, ir_op *op) {
  ir_block *first = op->regions[0], *second = ir_loop_body(op);
  const ir_op *test = ir_while_test(op);
  for (uint32_t i = 0; i < first->arg_count; i++) number(p, first->args[i]);
  new_line(p);
  kiln_buffer_format(p->out, "loop%s", first->arg_count ? " " : "");
  put_args(p, first->args, first->arg_count);
  if (first->arg_count) kiln_buffer_format(p->out, " = ");
  kiln_put_values(p, op->operands, op->operand_count);
  put_loop_attributes(p->out, &op->attrs.loop);
  kiln_buffer_format(p->out, " {\n");
  p->indent++;
  put_statements(p, first);
  for (uint32_t i = 0; i < second->arg_count; i++) number(p, second->args[i]);
  new_line(p);
  kiln_buffer_format(p->out, "break ");
  put_args(p, second->args, second->arg_count);
  if (second->arg_count) kiln_buffer_format(p->out, " = ");
  kiln_put_values(p, ir_cond_passed(test), ir_cond_passed_count(test));
  kiln_buffer_format(p->out, "%sif ~", second->arg_count ? " " : "");
  kiln_put_value(p, ir_cond_condition(test));
  kiln_buffer_u8(p->out, '\n');
  put_statements(p, second);
  put_next(p, first->args, ir_loop_next(op));
  close_block(p);
  for (uint32_t i = 0; i < op->result_count; i++) op->results[i].id = second->args[i]->id;
}

static void put_yield(kiln_printer *p, const ir_op *yield) {
  if (!yield->operand_count) return;
  new_line(p);
  kiln_buffer_format(p->out, "yield ");
  kiln_put_values(p, yield->operands, yield->operand_count);
  kiln_buffer_u8(p->out, '\n');
}

static void put_if(kiln_printer *p, ir_op *op) {
  for (uint32_t i = 0; i < op->result_count; i++) number(p, &op->results[i]);
  new_line(p);
  if (op->result_count) {
    kiln_buffer_format(p->out, "let ");
    put_names(p, op->results, op->result_count);
    kiln_buffer_format(p->out, " = ");
  }
  kiln_buffer_format(p->out, "if ");
  kiln_put_value(p, op->operands[0]);
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
    put_yield(p, yield);
  }
  close_block(p);
}

static void put_statement(kiln_printer *p, ir_op *op) {
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
    kiln_put_expression(p, op);
    kiln_buffer_u8(p->out, '\n');
  }
}

static void put_statements(kiln_printer *p, ir_block *block) {
  for (ir_op *op = block->first; op; op = op->next) put_statement(p, op);
}

uint32_t kiln_put_combiner(kiln_printer *p, ir_block *block) {
  kiln_buffer inner = {0};
  kiln_printer q = *p;
  q.out = &inner;
  q.combiner = block;
  q.indent = 1;
  for (uint32_t i = 0; i < block->arg_count; i++) number(&q, block->args[i]);
  put_statements(&q, block);
  const ir_op *yield = ir_terminator(block);
  kiln_buffer_format(&inner, "  return ");
  kiln_put_values(&q, yield->operands, yield->operand_count);
  uint32_t which = q.function_count++;
  kiln_buffer_format(p->functions, "\nfn combine%u(", which);
  for (uint32_t i = 0; i < block->arg_count; i++) {
    kiln_buffer_format(p->functions, "%sv%u: ", i ? ", " : "", block->args[i]->id);
    kiln_put_type(p->functions, block->args[i]->type);
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

static void put_param(kiln_printer *p, const ir_param *param, uint32_t index) {
  static const char *const modes[] = {"", "in ", "out ", "inout ", "accum "};
  kiln_buffer_format(p->out, "%sp%u: %s", index ? ",\n    " : "", index, modes[param->access]);
  kiln_put_type(p->out, param->type);
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

static void put_head(kiln_printer *p) {
  const ir_kernel *k = p->kernel;
  kiln_buffer_format(p->out, "kiln 1\n\nkernel %s", is_name(k->name) ? "" : "kernel_");
  for (const char *c = k->name; *c; c++) {
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
  kiln_printer p = {.out = out, .functions = &functions, .kernel = kernel, .indent = 1};
  for (uint32_t i = 0; i < kernel->param_count; i++) number(&p, kernel->body->args[i]);
  put_head(&p);
  put_statements(&p, kernel->body);
  kiln_buffer_format(out, "}\n");
  kiln_buffer_bytes(out, functions.bytes, functions.size);
  kiln_buffer_deinit(&functions);
}
