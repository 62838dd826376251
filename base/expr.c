// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/expr.h"

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"

typedef struct info {
  uint8_t arity;
  const char *text;
} info;

static const info infos[KILN_EXPR_COUNT] = {
#define EXPR(name, number, arity, text) [number] = {arity, text},
#include "base/expr.def"
#undef EXPR
};

static bool known(uint8_t op) { return op && op < KILN_EXPR_COUNT; }

bool kiln_expr_verify(const uint8_t *code, size_t size, uint32_t param_count) {
  kiln_reader r = kiln_reader_of(code, size);
  unsigned depth = 0, ops = 0;
  while (r.left) {
    uint8_t op = kiln_read_u8(&r);
    if (!known(op) || ++ops > KILN_EXPR_OPS || depth < infos[op].arity) return false;
    if (op == KILN_EXPR_PARAM && kiln_read_varint(&r) >= param_count) return false;
    if (op == KILN_EXPR_CONST) kiln_read_svarint(&r);
    depth = depth - infos[op].arity + 1;
    if (depth > KILN_EXPR_DEPTH || r.failed) return false;
  }
  return depth == 1;
}

bool kiln_expr_apply(kiln_expr_op op, int64_t a, int64_t b, int64_t *out) {
  switch (op) {
  case KILN_EXPR_ADD: return !__builtin_add_overflow(a, b, out);
  case KILN_EXPR_SUB: return !__builtin_sub_overflow(a, b, out);
  case KILN_EXPR_MUL: return !__builtin_mul_overflow(a, b, out);
  case KILN_EXPR_DIV:
  case KILN_EXPR_REM:
  case KILN_EXPR_CDIV:
    if (!b || (a == INT64_MIN && b == -1)) return false;
    *out = op == KILN_EXPR_REM ? a % b : a / b;
    if (op == KILN_EXPR_CDIV && a % b && (a < 0) == (b < 0)) ++*out;
    return true;
  case KILN_EXPR_MIN: return *out = a < b ? a : b, true;
  case KILN_EXPR_MAX: return *out = a > b ? a : b, true;
  case KILN_EXPR_EQ: return *out = a == b, true;
  case KILN_EXPR_NE: return *out = a != b, true;
  case KILN_EXPR_LT: return *out = a < b, true;
  case KILN_EXPR_LE: return *out = a <= b, true;
  case KILN_EXPR_GT: return *out = a > b, true;
  case KILN_EXPR_GE: return *out = a >= b, true;
  case KILN_EXPR_AND: return *out = a && b, true;
  case KILN_EXPR_OR: return *out = a || b, true;
  case KILN_EXPR_NOT: return *out = !a, true;
  case KILN_EXPR_PARAM:
  case KILN_EXPR_CONST:
  case KILN_EXPR_COUNT: break;
  }
  return false;
}

bool kiln_expr_eval(const uint8_t *code, size_t size, const int64_t *params, int64_t *out) {
  kiln_reader r = kiln_reader_of(code, size);
  int64_t stack[KILN_EXPR_DEPTH + 1] = {0};
  unsigned depth = 0;
  while (r.left) {
    uint8_t op = kiln_read_u8(&r);
    if (op == KILN_EXPR_PARAM) {
      stack[depth++] = params[kiln_read_varint(&r)];
    } else if (op == KILN_EXPR_CONST) {
      stack[depth++] = kiln_read_svarint(&r);
    } else {
      depth -= infos[op].arity;
      if (!kiln_expr_apply((kiln_expr_op)op, stack[depth], stack[depth + 1], &stack[depth])) return false;
      depth++;
    }
  }
  *out = stack[0];
  return true;
}

enum { PIECE = 512 };

static void leaf(kiln_reader *r, uint8_t op, const char *const *names, uint32_t name_count, char *out) {
  if (op == KILN_EXPR_CONST) {
    snprintf(out, PIECE, "%lld", (long long)kiln_read_svarint(r));
    return;
  }
  uint64_t i = kiln_read_varint(r);
  if (i < name_count && names[i]) snprintf(out, PIECE, "%s", names[i]);
  else snprintf(out, PIECE, "p%llu", (unsigned long long)i);
}

static void join(const info *op, const char *a, const char *b, char *out) {
  bool call = op->text[0] >= 'a' && op->text[0] <= 'z';
  if (op->arity == 1) snprintf(out, PIECE, "%s(%.200s)", op->text, a);
  else if (call) snprintf(out, PIECE, "%s(%.200s, %.200s)", op->text, a, b);
  else snprintf(out, PIECE, "(%.200s %s %.200s)", a, op->text, b);
}

const char *kiln_expr_text(const uint8_t *code, size_t size, const char *const *names, uint32_t name_count,
                           char *out, size_t capacity) {
  kiln_reader r = kiln_reader_of(code, size);
  char stack[KILN_EXPR_DEPTH + 1][PIECE] = {{0}}, piece[PIECE];
  unsigned depth = 0;
  while (r.left && depth < KILN_EXPR_DEPTH) {
    uint8_t op = kiln_read_u8(&r);
    if (!known(op) || depth < infos[op].arity) break;
    if (!infos[op].arity) {
      leaf(&r, op, names, name_count, stack[depth++]);
      continue;
    }
    depth -= infos[op].arity;
    join(&infos[op], stack[depth], stack[depth + 1], piece);
    memcpy(stack[depth++], piece, PIECE);
  }
  const char *text = stack[0];
  size_t length = strlen(text);
  if (text[0] == '(' && text[length - 1] == ')') { // the outermost pair says nothing
    stack[0][length - 1] = 0;
    text++;
  }
  snprintf(out, capacity, "%s", text);
  return out;
}
