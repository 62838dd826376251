// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Evaluates launch expressions. It runs when a launch is decided, and a kernel's costs are some thousand
// operations, so it has to be fast.
#include "base/expr.h"

// Inlined in kiln_expr_eval, whose loop it is.
__attribute__((always_inline)) inline bool kiln_expr_apply(kiln_expr_op op, int64_t a, int64_t b,
                                                           int64_t *out);

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
  case KILN_EXPR_KEEP:
  case KILN_EXPR_KEPT:
  case KILN_EXPR_COUNT: break;
  }
  return false;
}

// Of verified code, which ends where a number does.
static inline uint64_t number_at(const uint8_t **at) {
  uint64_t v = **at & 0x7f;
  for (unsigned shift = 7; *(*at)++ & 0x80; shift += 7) v |= (uint64_t)(**at & 0x7f) << shift;
  return v;
}

bool kiln_expr_eval(const uint8_t *code, size_t size, const int64_t *params, int64_t *out) {
  const uint8_t *at = code, *end = code + size;
  int64_t stack[KILN_EXPR_DEPTH + 1] = {0}, kept[KILN_EXPR_KEEPS];
  unsigned depth = 0, kept_count = 0;
  while (at < end) {
    kiln_expr_op op = (kiln_expr_op)*at++;
    if (op == KILN_EXPR_PARAM) {
      stack[depth++] = params[number_at(&at)];
    } else if (op == KILN_EXPR_CONST) {
      uint64_t v = number_at(&at);
      stack[depth++] = (int64_t)((v >> 1) ^ (0 - (v & 1)));
    } else if (op == KILN_EXPR_KEPT) {
      stack[depth++] = kept[number_at(&at)];
    } else if (op == KILN_EXPR_KEEP) {
      kept[kept_count++] = stack[depth - 1];
    } else {
      depth -= op == KILN_EXPR_NOT ? 1 : 2;
      if (!kiln_expr_apply(op, stack[depth], stack[depth + 1], &stack[depth])) return false;
      depth++;
    }
  }
  *out = stack[0];
  return true;
}
