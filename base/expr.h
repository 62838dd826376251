// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expressions that run at launch: @grid, @require, @variant, view extents and strides. Postfix code over
// exact 64-bit integers.
//
// Bytes: one opcode a byte; PARAM is followed by a varint (parameter index), CONST by a zigzag varint. KEEP
// leaves the last value where it is and keeps it; KEPT, followed by a varint i, yields the i-th value that
// was kept. At most KILN_EXPR_OPS operations, KILN_EXPR_DEPTH values deep, KILN_EXPR_KEEPS kept. Code from
// outside is verified once with kiln_expr_verify; evaluation then needs no bounds checks. Comparisons and
// logic yield 0 or 1. `/` and `%` truncate. Overflow, division by zero: evaluation fails.
#ifndef KILN_BASE_EXPR_H
#define KILN_BASE_EXPR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buffer.h"

enum { KILN_EXPR_OPS = 128, KILN_EXPR_DEPTH = 16, KILN_EXPR_KEEPS = 32 };

typedef enum kiln_expr_op {
#define EXPR(name, number, arity, text) KILN_EXPR_##name = number,
#include "base/expr.def"
#undef EXPR
  KILN_EXPR_COUNT
} kiln_expr_op;

/// True when the code is well formed: known opcodes, params below param_count, limits held, exactly one value
/// left.
bool kiln_expr_verify(const uint8_t *code, size_t size, uint32_t param_count);
/// Evaluates verified code. `params[i]` holds parameter i as a sign-extended integer (pointers: the address).
/// False on overflow or division by zero.
bool kiln_expr_eval(const uint8_t *code, size_t size, const int64_t *params, int64_t *out);
/// The bytes that an even count of hexadecimal digits (lower case) stands for; NULL without memory.
uint8_t *kiln_expr_from_hex(kiln_arena *arena, const char *hex, size_t digits);
/// Appends code as such digits.
void kiln_expr_to_hex(const uint8_t *code, size_t size, kiln_buffer *out);
/// Takes one operation of the code: its number, and the number or the value that follows it, else 0.
uint8_t kiln_expr_take(kiln_reader *r, int64_t *operand);
/// True when code keeps values, of which the first versions of records know nothing.
bool kiln_expr_keeps(const uint8_t *code, size_t size);
/// One operation on values; `b` is not read when it takes one. False on overflow, division by zero, and for
/// those that are no arithmetic: PARAM, CONST, KEEP and KEPT.
bool kiln_expr_apply(kiln_expr_op op, int64_t a, int64_t b, int64_t *out);
/// The expression as text for messages ("cdiv(n, 1024)"); `names[i]` may be NULL. Truncates to `capacity`;
/// returns `out`.
const char *kiln_expr_text(const uint8_t *code, size_t size, const char *const *names, uint32_t name_count,
                           char *out, size_t capacity);

#endif
