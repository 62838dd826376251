// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The conditions of a launch in a kernel's text: "condition param=3 15 and", postfix as base/expr.h has them.
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/expr.h"
#include "compiler/ir/text_read.h"

/// Operations by the names of their rows, in small letters.
static const char *const operations[KILN_EXPR_COUNT] = {
#define EXPR(name, number, arity, text) [number] = #name,
#include "base/expr.def"
#undef EXPR
};

enum { MOST_WORD = 8, MOST_CONDITIONS = KILN_EXPR_OPS };

static const char *operation_word(unsigned op, char out[MOST_WORD]) {
  unsigned i = 0;
  for (; operations[op][i] && i < MOST_WORD - 1; i++) out[i] = (char)tolower(operations[op][i]);
  out[i] = 0;
  return out;
}

static bool has_number(unsigned op) { return op == KILN_EXPR_PARAM || op == KILN_EXPR_KEPT; }

static void put_condition(const ir_condition *condition, kiln_buffer *out) {
  kiln_reader r = kiln_reader_of(condition->code, condition->size);
  char word[MOST_WORD];
  kiln_buffer_format(out, "  condition");
  while (r.left) {
    int64_t operand;
    const uint8_t op = kiln_expr_take(&r, &operand);
    if (op == KILN_EXPR_CONST) kiln_buffer_format(out, " %" PRId64, operand);
    else kiln_buffer_format(out, " %s", operation_word(op, word));
    if (has_number(op)) kiln_buffer_format(out, "=%" PRId64, operand);
  }
  kiln_buffer_u8(out, '\n');
}

void ir_put_conditions(const ir_kernel *kernel, kiln_buffer *out) {
  for (uint32_t i = 0; i < kernel->tests.condition_count; i++)
    put_condition(&kernel->tests.conditions[i], out);
}

static bool read_operation(ir_reading *r, kiln_buffer *code) {
  char word[MOST_WORD];
  int64_t operand;
  if (r->w.kind == IR_TOKEN_NUMBER) {
    if (!ir_words_number(&r->w, INT64_MIN, INT64_MAX, &operand)) return false;
    kiln_buffer_u8(code, KILN_EXPR_CONST);
    kiln_buffer_svarint(code, operand);
    return true;
  }
  unsigned op = 1;
  while (op < KILN_EXPR_COUNT && !(op != KILN_EXPR_CONST && ir_words_take(&r->w, operation_word(op, word))))
    op++;
  if (op == KILN_EXPR_COUNT) return ir_words_fail(&r->w, "an operation of launch expressions");
  kiln_buffer_u8(code, (uint8_t)op);
  if (!has_number(op)) return true;
  if (!ir_words_expect(&r->w, "=") || !ir_words_number(&r->w, 0, UINT32_MAX, &operand)) return false;
  kiln_buffer_varint(code, (uint64_t)operand);
  return true;
}

static bool keep_condition(ir_reading *r, ir_place place, const kiln_buffer *code) {
  ir_kernel *k = r->kernel;
  if (code->failed || !kiln_expr_verify(code->bytes, code->size, k->param_count))
    return ir_words_fail_at(&r->w, place, "expected a launch expression that leaves one value, found none");
  if (k->tests.condition_count == MOST_CONDITIONS)
    return ir_words_fail_at(&r->w, place, "expected at most %d conditions, found more", MOST_CONDITIONS);
  KILN_GROW(k->arena, k->tests.conditions, k->tests.condition_count, k->tests.condition_capacity);
  k->tests.conditions[k->tests.condition_count++] =
      (ir_condition){kiln_arena_copy(k->arena, code->bytes, code->size), code->size};
  return true;
}

bool ir_read_condition(ir_reading *r, uint32_t line) {
  kiln_buffer code = {0};
  const ir_place place = r->w.place;
  bool is_good = true;
  while (is_good && r->w.kind != IR_TOKEN_END && r->w.kind != IR_TOKEN_SIGN && r->w.place.line == line)
    is_good = read_operation(r, &code);
  is_good = is_good && keep_condition(r, place, &code);
  kiln_buffer_deinit(&code);
  return is_good;
}
