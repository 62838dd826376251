// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Verifies, searches and prints the code of launch expressions.
#include <stdio.h>
#include <string.h>

#include "base/expr.h"

typedef struct info {
  uint8_t arity;
  char text[5];
} info;

static const info infos[KILN_EXPR_COUNT] = {
#define EXPR(name, number, arity, text) [number] = {arity, text},
#include "base/expr.def"
#undef EXPR
};

static bool is_known_op(uint8_t op) { return op && op < KILN_EXPR_COUNT; }

uint8_t kiln_expr_take(kiln_reader *r, int64_t *operand) {
  uint8_t op = kiln_read_u8(r);
  *operand = 0;
  if (op == KILN_EXPR_PARAM || op == KILN_EXPR_KEPT) *operand = (int64_t)kiln_read_varint(r);
  if (op == KILN_EXPR_CONST) *operand = kiln_read_svarint(r);
  return op;
}

bool kiln_expr_verify(const uint8_t *code, size_t size, uint32_t param_count) {
  kiln_reader r = kiln_reader_of(code, size);
  unsigned depth = 0, ops = 0;
  uint64_t kept = 0;
  while (r.left) {
    int64_t operand;
    uint8_t op = kiln_expr_take(&r, &operand);
    if (!is_known_op(op) || ++ops > KILN_EXPR_OPS || depth < infos[op].arity) return false;
    if (op == KILN_EXPR_PARAM && (uint64_t)operand >= param_count) return false;
    if (op == KILN_EXPR_KEPT && (uint64_t)operand >= kept) return false;
    if (op == KILN_EXPR_KEEP && ++kept > KILN_EXPR_KEEPS) return false;
    depth = depth - infos[op].arity + 1;
    if (depth > KILN_EXPR_DEPTH || r.failed) return false;
  }
  return depth == 1;
}

bool kiln_expr_keeps(const uint8_t *code, size_t size) {
  kiln_reader r = kiln_reader_of(code, size);
  int64_t operand;
  while (r.left)
    if (kiln_expr_take(&r, &operand) == KILN_EXPR_KEEP) return true;
  return false;
}

static unsigned value_of(char digit) { return (digit & 15u) + (digit >= 'a' ? 9 : 0); }

uint8_t *kiln_expr_from_hex(kiln_arena *arena, const char *hex, size_t digits) {
  uint8_t *code = KILN_NEW_ARRAY(arena, uint8_t, digits / 2 + 1);
  for (size_t i = 0; code && i < digits / 2; i++)
    code[i] = (uint8_t)(value_of(hex[2 * i]) << 4 | value_of(hex[2 * i + 1]));
  return code;
}

void kiln_expr_to_hex(const uint8_t *code, size_t size, kiln_buffer *out) {
  for (size_t i = 0; i < size; i++) kiln_buffer_format(out, "%02x", code[i]);
}

enum { PIECE = 512 };

static void format_leaf(uint8_t op, int64_t operand, const char *const *names, uint32_t name_count,
                        char *out) {
  if (op == KILN_EXPR_CONST) snprintf(out, PIECE, "%lld", (long long)operand);
  else if ((uint64_t)operand < name_count && names[operand]) snprintf(out, PIECE, "%s", names[operand]);
  else snprintf(out, PIECE, "p%llu", (unsigned long long)operand);
}

static void format_operation(const info *op, const char *a, const char *b, char *out) {
  bool call = op->text[0] >= 'a' && op->text[0] <= 'z';
  if (op->arity == 1) snprintf(out, PIECE, "%s(%.200s)", op->text, a);
  else if (call) snprintf(out, PIECE, "%s(%.200s, %.200s)", op->text, a, b);
  else snprintf(out, PIECE, "(%.200s %s %.200s)", a, op->text, b);
}

const char *kiln_expr_text(const uint8_t *code, size_t size, const char *const *names, uint32_t name_count,
                           char *out, size_t capacity) {
  kiln_reader r = kiln_reader_of(code, size);
  char stack[KILN_EXPR_DEPTH + 1][PIECE] = {{0}}, kept[KILN_EXPR_KEEPS][PIECE], piece[PIECE];
  unsigned depth = 0, kept_count = 0;
  while (r.left && depth < KILN_EXPR_DEPTH) {
    int64_t operand;
    uint8_t op = kiln_expr_take(&r, &operand);
    if (!is_known_op(op) || depth < infos[op].arity) break;
    if (op == KILN_EXPR_KEEP) { // what is kept is written out wherever it is used
      if (kept_count == KILN_EXPR_KEEPS) break;
      memcpy(kept[kept_count++], stack[depth - 1], PIECE);
      continue;
    }
    if (op == KILN_EXPR_KEPT) {
      if ((uint64_t)operand >= kept_count) break;
      memcpy(stack[depth++], kept[operand], PIECE);
      continue;
    }
    if (!infos[op].arity) {
      format_leaf(op, operand, names, name_count, stack[depth++]);
      continue;
    }
    depth -= infos[op].arity;
    format_operation(&infos[op], stack[depth], stack[depth + 1], piece);
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
