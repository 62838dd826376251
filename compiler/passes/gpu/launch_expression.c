// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scalars of the IR as expressions that the runtime evaluates at launch.
//
// The runtime computes with 64 bits and refuses a launch where these are too few. What the IR computes in 32
// bits wraps, so the expression does the same where the ranges of the parameters allow numbers that large.
#include <string.h>

#include "base/expr.h"
#include "compiler/passes/gpu/gpu.h"

/// Room for what maps do with the value: a scale, or rounding it down (gpu_maps.c).
enum { MOST_OPS = KILN_EXPR_OPS - 4 };

/// Between which a value lies.
typedef struct range {
  __int128 lo, hi;
} range;

typedef struct writing {
  const ir_kernel *kernel;
  kiln_buffer *out;
  unsigned ops; ///< written, and those whose operands are being written
} writing;

static bool write_value(writing *w, const ir_value *v, unsigned depth, range *out);

static bool put_constant(writing *w, int64_t value) {
  kiln_buffer_u8(w->out, KILN_EXPR_CONST);
  kiln_buffer_svarint(w->out, value);
  return ++w->ops <= MOST_OPS;
}

static bool put_operation(writing *w, kiln_expr_op code) {
  kiln_buffer_u8(w->out, (uint8_t)code);
  return ++w->ops <= MOST_OPS;
}

static bool put_with_constant(writing *w, kiln_expr_op code, int64_t value) {
  return put_constant(w, value) && put_operation(w, code);
}

/// The value on top as 32 bits have it: (x + 2^31) modulo 2^32, not negative, less 2^31.
static bool put_wrapped(writing *w, unsigned depth, range *r) {
  const int64_t all = (int64_t)1 << 32, half = all / 2;
  const bool may_be_below = r->lo < INT32_MIN;
  if (!may_be_below && r->hi <= INT32_MAX) return true;
  if (depth + 1 >= KILN_EXPR_DEPTH || !put_with_constant(w, KILN_EXPR_ADD, half) ||
      !put_with_constant(w, KILN_EXPR_REM, all))
    return false;
  if (may_be_below && !(put_with_constant(w, KILN_EXPR_ADD, all) && put_with_constant(w, KILN_EXPR_REM, all)))
    return false;
  *r = (range){INT32_MIN, INT32_MAX};
  return put_with_constant(w, KILN_EXPR_SUB, half);
}

static range hull(kiln_expr_op code, range a, range b) {
  range out = {0, 0};
  for (unsigned i = 0; i < 4; i++) {
    const __int128 x = i & 1 ? a.hi : a.lo, y = i & 2 ? b.hi : b.lo;
    const __int128 end = code == KILN_EXPR_ADD   ? x + y
                         : code == KILN_EXPR_SUB ? x - y
                         : code == KILN_EXPR_MUL ? x * y
                         : code == KILN_EXPR_MIN ? (x < y ? x : y)
                                                 : (x > y ? x : y);
    if (!i || end < out.lo) out.lo = end;
    if (!i || end > out.hi) out.hi = end;
  }
  if (out.lo < INT64_MIN) out.lo = INT64_MIN; // beyond, evaluation fails
  if (out.hi > INT64_MAX) out.hi = INT64_MAX;
  return out;
}

static bool write_binary(writing *w, const ir_op *op, kiln_expr_op code, unsigned depth, range *out) {
  range a, b;
  if (!write_value(w, op->operands[0], depth, &a) || !write_value(w, op->operands[1], depth + 1, &b))
    return false;
  *out = hull(code, a, b);
  return put_operation(w, code);
}

static bool write_shift(writing *w, const ir_op *op, unsigned depth, range *out) {
  int64_t count;
  range a;
  if (!ir_constant_int(op->operands[1], &count) || count < 0 || count > 31) return false;
  if (!write_value(w, op->operands[0], depth, &a) || depth + 1 >= KILN_EXPR_DEPTH) return false;
  const int64_t by = (int64_t)1 << count;
  *out = hull(KILN_EXPR_MUL, a, (range){by, by});
  return put_with_constant(w, KILN_EXPR_MUL, by);
}

/// Writes the value where `depth` values lie below it.
static bool write_value(writing *w, const ir_value *v, unsigned depth, range *out) {
  int64_t constant;
  const ir_op *op = v->def;
  const bool is_wide = v->type.scalar == KILN_I64;
  bool is_written = false;
  if (depth >= KILN_EXPR_DEPTH || v->type.rank || v->type.pointer) return false;
  if (v->type.scalar != KILN_I32 && !is_wide) return false;
  if (ir_constant_int(v, &constant)) {
    *out = (range){constant, constant};
    return put_constant(w, constant);
  }
  if (!op && v->block == w->kernel->body) {
    const ir_param *p = &w->kernel->params[v->index];
    *out = (range){is_wide ? INT64_MIN : INT32_MIN, is_wide ? INT64_MAX : INT32_MAX};
    if (p->has_range && p->lo > out->lo) out->lo = p->lo;
    if (p->has_range && p->hi < out->hi) out->hi = p->hi;
    kiln_buffer_u8(w->out, KILN_EXPR_PARAM);
    kiln_buffer_varint(w->out, v->index);
    return ++w->ops <= MOST_OPS;
  }
  if (!op || op->attrs.flags & IR_UNSIGNED) return false;
  switch (op->code) {
  case IR_HINT: is_written = write_value(w, op->operands[0], depth, out); break;
  case IR_CAST: is_written = is_wide && write_value(w, op->operands[0], depth, out); break;
  case IR_ADD: is_written = write_binary(w, op, KILN_EXPR_ADD, depth, out); break;
  case IR_SUB: is_written = write_binary(w, op, KILN_EXPR_SUB, depth, out); break;
  case IR_MUL: is_written = write_binary(w, op, KILN_EXPR_MUL, depth, out); break;
  case IR_MIN: is_written = write_binary(w, op, KILN_EXPR_MIN, depth, out); break;
  case IR_MAX: is_written = write_binary(w, op, KILN_EXPR_MAX, depth, out); break;
  case IR_SHL: is_written = write_shift(w, op, depth, out); break;
  default: break;
  }
  return is_written && (is_wide || put_wrapped(w, depth, out));
}

bool kiln_launch_expression(const ir_kernel *kernel, const ir_value *value, int64_t scale, kiln_buffer *out) {
  writing w = {.kernel = kernel, .out = out};
  range unused;
  if (!write_value(&w, value, 0, &unused)) return false;
  return scale == 1 || put_with_constant(&w, KILN_EXPR_MUL, scale);
}

// ---------------------------------------------------------------------------------------- conditions

/// 0 / (condition and condition ...).
void kiln_write_conditions(const ir_kernel *kernel, kiln_buffer *out) {
  writing w = {.kernel = kernel, .out = out};
  put_constant(&w, 0);
  for (uint32_t i = 0; i < kernel->tests.condition_count; i++) {
    kiln_buffer_bytes(out, kernel->tests.conditions[i].code, kernel->tests.conditions[i].size);
    if (i) put_operation(&w, KILN_EXPR_AND);
  }
  if (kernel->tests.condition_count) put_operation(&w, KILN_EXPR_DIV);
}

static bool has_condition(const ir_kernel *kernel, const kiln_buffer *code) {
  for (uint32_t i = 0; i < kernel->tests.condition_count; i++)
    if (kernel->tests.conditions[i].size == code->size &&
        !memcmp(kernel->tests.conditions[i].code, code->bytes, code->size))
      return true;
  return false;
}

static bool fit(const ir_kernel *kernel) {
  kiln_buffer all = {0};
  kiln_write_conditions(kernel, &all);
  const bool do_fit = kiln_expr_verify(all.bytes, all.size, kernel->param_count);
  kiln_buffer_deinit(&all);
  return do_fit;
}

bool kiln_add_condition(ir_kernel *kernel, const ir_value *value, kiln_expr_op compare, int64_t end) {
  kiln_buffer code = {0};
  writing w = {.kernel = kernel, .out = &code};
  range unused;
  bool is_added = write_value(&w, value, 0, &unused) && put_with_constant(&w, compare, end);
  if (is_added && !has_condition(kernel, &code)) {
    KILN_GROW(kernel->arena, kernel->tests.conditions, kernel->tests.condition_count,
              kernel->tests.condition_capacity);
    kernel->tests.conditions[kernel->tests.condition_count++] =
        (ir_condition){kiln_arena_copy(kernel->arena, code.bytes, code.size), code.size};
    is_added = fit(kernel);
    kernel->tests.condition_count -= !is_added;
  }
  kiln_buffer_deinit(&code);
  return is_added;
}
