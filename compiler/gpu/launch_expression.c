// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scalars of the IR as expressions that the runtime evaluates at launch.
#include "base/expr.h"
#include "compiler/gpu/gpu.h"

/// Room for what maps do with the value: a scale, or rounding it down (gpu_maps.c).
enum { MOST_OPS = KILN_EXPR_OPS - 4 };

typedef struct writing {
  const ir_kernel *kernel;
  kiln_buffer *out;
  unsigned ops; ///< written, and those whose operands are being written
} writing;

static bool write_value(writing *w, const ir_value *v, unsigned depth);

static void put_constant(writing *w, int64_t value) {
  kiln_buffer_u8(w->out, KILN_EXPR_CONST);
  kiln_buffer_svarint(w->out, value);
}

static bool is_signed_integer(const ir_value *v) {
  return !v->type.rank && !v->type.pointer && (v->type.scalar == KILN_I32 || v->type.scalar == KILN_I64);
}

static bool write_binary(writing *w, const ir_op *op, kiln_expr_op code, unsigned depth) {
  if (!write_value(w, op->operands[0], depth + 1) || !write_value(w, op->operands[1], depth + 2))
    return false;
  kiln_buffer_u8(w->out, (uint8_t)code);
  return true;
}

static bool write_shift(writing *w, const ir_op *op, unsigned depth) {
  int64_t count;
  if (!ir_constant_int(op->operands[1], &count) || count < 0 || count > 31) return false;
  if (!write_value(w, op->operands[0], depth + 1)) return false;
  put_constant(w, (int64_t)1 << count);
  kiln_buffer_u8(w->out, KILN_EXPR_MUL);
  return ++w->ops <= MOST_OPS;
}

static bool write_value(writing *w, const ir_value *v, unsigned depth) {
  int64_t constant;
  if (++w->ops > MOST_OPS || depth >= KILN_EXPR_DEPTH || !is_signed_integer(v)) return false;
  if (ir_constant_int(v, &constant)) {
    put_constant(w, constant);
    return true;
  }
  if (!v->def) {
    if (v->block != w->kernel->body) return false;
    kiln_buffer_u8(w->out, KILN_EXPR_PARAM);
    kiln_buffer_varint(w->out, v->index);
    return true;
  }
  const ir_op *op = v->def;
  if (op->attrs.flags & IR_UNSIGNED) return false;
  switch (op->code) {
  case IR_HINT: return write_value(w, op->operands[0], depth);
  case IR_CAST: return v->type.scalar == KILN_I64 && write_value(w, op->operands[0], depth);
  case IR_ADD: return write_binary(w, op, KILN_EXPR_ADD, depth);
  case IR_SUB: return write_binary(w, op, KILN_EXPR_SUB, depth);
  case IR_MUL: return write_binary(w, op, KILN_EXPR_MUL, depth);
  case IR_MIN: return write_binary(w, op, KILN_EXPR_MIN, depth);
  case IR_MAX: return write_binary(w, op, KILN_EXPR_MAX, depth);
  case IR_SHL: return write_shift(w, op, depth);
  default: return false;
  }
}

bool kiln_launch_expression(const ir_kernel *kernel, const ir_value *value, int64_t scale, kiln_buffer *out) {
  writing w = {.kernel = kernel, .out = out};
  if (!write_value(&w, value, 1)) return false;
  if (scale == 1) return true;
  put_constant(&w, scale);
  kiln_buffer_u8(out, KILN_EXPR_MUL);
  return true;
}
