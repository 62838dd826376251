// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rewrites what legality.def calls expanded into what the target has.
//
// Needs no views. What an expansion emits may itself need expanding (f16 sine: f32 sine: polynomial), so the
// pass runs until nothing is left.
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "compiler/ir/scalar.h"
#include "compiler/passes/lower/expand_inner.h"
#include "compiler/passes/lower/legality.h"
#include "compiler/passes/pass.h"

#include "compiler/unit/mathlib.h"

/// Deepest chain of expansions: half to single, function to arithmetic, conversion to integers.
enum { MAX_ROUNDS = 6 };

static bool is_half(ir_type type) {
  return !type.pointer && (type.scalar == KILN_F16 || type.scalar == KILN_BF16);
}

static bool is_fp8(ir_type type) {
  return !type.pointer && kiln_scalars[type.scalar].type_class == KILN_CLASS_FP8;
}

static ir_value *resulting(ir_op *op) { return op ? &op->results[0] : NULL; }

/// A half in f32. What fp8 holds a half holds as well: such a value is not rounded to one on its way.
static ir_value *widened(expanding *x, ir_value *v) {
  v = ir_resolve(v);
  if (!is_half(v->type)) return v;
  const ir_op *op = v->def && v->def->code == IR_CAST ? v->def : NULL;
  ir_value *from = op ? ir_resolve(op->operands[0]) : NULL;
  if (from && is_fp8(from->type)) return x_cast(x, from, KILN_F32);
  const ir_op *before =
      from && from->type.scalar == KILN_F32 && from->def && from->def->code == IR_CAST ? from->def : NULL;
  return before && is_fp8(before->operands[0]->type) ? from : x_cast(x, v, KILN_F32);
}

/// A product that contraction has made of a negated one: nothing is added, not even to the sign of a zero.
static bool adds_nothing(const ir_op *op) {
  double d;
  return op->code == IR_FMA && ir_constant_float(op->operands[2], &d) && d == 0 && signbit(d);
}

/// The same operation on f32, its result rounded to the type.
static ir_value *through_f32(expanding *x, const ir_op *op) {
  if (adds_nothing(op)) return ir_binary(&x->b, IR_MUL, 0, op->operands[0], op->operands[1]);
  ir_value *operands[3];
  ir_attrs attrs = op->attrs;
  attrs.flags &= ~(uint32_t)IR_FTZ;
  for (uint32_t i = 0; i < op->operand_count; i++) operands[i] = widened(x, op->operands[i]);
  ir_value *v = resulting(ir_emit(&x->b, op->code, &attrs, operands, op->operand_count, NULL, NULL, 0));
  return v && is_half(op->results[0].type) ? x_cast(x, v, op->results[0].type.scalar) : v;
}

static ir_value *clear_sign(expanding *x, const ir_op *op) {
  ir_value *bits = x_bits(x, op->operands[0], KILN_I16);
  return x_bits(x, x_opi(x, IR_AND, bits, 0x7fff), op->operands[0]->type.scalar);
}

/// Without PRECISE the last bits of tanh and erf are the machine's.
static ir_value *through_library(expanding *x, const ir_op *op) {
  const char *name = ir_ops[op->code].text;
  if (op->attrs.flags & IR_PRECISE && op->code == IR_TANH) name = "precise_tanh";
  if (op->attrs.flags & IR_PRECISE && op->code == IR_ERF) name = "precise_erf";
  ir_value *v = kiln_mathlib_call(&x->b, name, op->operands, op->operand_count);
  if (!v || !(op->attrs.flags & IR_FTZ) || v->type.scalar != KILN_F32) return v;
  return x_select(x, x_cmp(x, IR_LT, v, x_real(x, v, FLT_MIN)), x_real(x, v, 0), v);
}

static ir_value *inverse_root(expanding *x, const ir_op *op) {
  ir_value *root = ir_unary(&x->b, IR_SQRT, IR_PRECISE, op->operands[0]);
  return ir_binary(&x->b, IR_DIV, IR_PRECISE, x_real(x, root, 1), root);
}

/// The type that holds all values of both operands of a dot and that the target multiplies.
static kiln_scalar dot_element(const expanding *x, const ir_op *op) {
  kiln_scalar to = op->operands[0]->type.scalar == KILN_E5M2 || op->operands[1]->type.scalar == KILN_E5M2
                       ? KILN_BF16
                       : KILN_F16;
  if (!(kiln_scalars[op->operands[0]->type.scalar].type_class & KILN_CLASS_FP8)) return KILN_F32;
  kiln_scalar other = to == KILN_F16 ? KILN_BF16 : KILN_F16; // both hold either fp8 type
  if (kiln_op_legality(IR_DOT, to, false, 0, x->target).legal == KILN_LEGAL_NATIVE) return to;
  return kiln_op_legality(IR_DOT, other, false, 0, x->target).legal == KILN_LEGAL_NATIVE ? other : KILN_F32;
}

static ir_value *widened_dot(expanding *x, const ir_op *op) {
  kiln_scalar to = dot_element(x, op);
  ir_value *operands[3] = {x_cast(x, op->operands[0], to), x_cast(x, op->operands[1], to), op->operands[2]};
  return resulting(ir_emit(&x->b, IR_DOT, &op->attrs, operands, 3, NULL, NULL, 0));
}

typedef ir_value *expansion(expanding *x, const ir_op *op);

static expansion *expansion_of(kiln_expansion kind) {
  switch (kind) {
  case KILN_EXPAND_NONE:
  case KILN_EXPAND_NOTHING: break;
  case KILN_EXPAND_LIBRARY: return through_library;
  case KILN_EXPAND_INVERSE_ROOT: return inverse_root;
  case KILN_EXPAND_REMAINDER: return expand_remainder;
  case KILN_EXPAND_FMA: return expand_fma;
  case KILN_EXPAND_SIGN: return clear_sign;
  case KILN_EXPAND_THROUGH_F32: return through_f32;
  case KILN_EXPAND_DOT: return widened_dot;
  case KILN_EXPAND_CAST: return expand_cast;
  case KILN_EXPAND_ASM: return expand_asm;
  }
  return NULL;
}

static kiln_status refuse(const ir_op *op, const kiln_target *target, const char *reason, kiln_error *err) {
  char type[IR_TYPE_TEXT], name[KILN_TARGET_NAME], fault[64] = "";
  const ir_value *typed = op->operand_count ? op->operands[0] : op->result_count ? &op->results[0] : NULL;
  bool is_asm = op->code == IR_ASM && op->attrs.assembly.text;
  unsigned length = 0;
  const char *at = is_asm ? kiln_asm_fault(op, &length) : "";
  if (length) snprintf(fault, sizeof fault, "; '%.*s' is not", (int)(length < 40 ? length : 40), at);
  return kiln_fail_at(err, KILN_STATUS_UNSUPPORTED, ir_operation(op),
                      "operation %u (%s%s%.60s%s) on %s for %s: %s%s", ir_operation(op),
                      ir_ops[op->code].text, is_asm ? " \"" : "", is_asm ? op->attrs.assembly.text : "",
                      is_asm ? "\"" : "", typed ? ir_type_text(typed->type, type) : "nothing",
                      kiln_target_name(target, name), reason, fault);
}

kiln_status kiln_pass_expand(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  const kiln_target *target = context->target;
  for (unsigned round = 0; round < MAX_ROUNDS; round++) {
    expanding x = {.b = {.arena = kernel->arena}, .target = target};
    ir_number(kernel);
    for (ir_op *op = ir_next(kernel->body, NULL), *next; op; op = next) {
      next = ir_next(kernel->body, op);
      kiln_legality legality = kiln_legality_of(op, target);
      if (legality.legal == KILN_LEGAL_NATIVE && kernel->fp_flush && op->result_count &&
          is_half(op->results[0].type) && kiln_scalar_flushes(op)) // the mode of a kernel is about f32
        legality = (kiln_legality){KILN_LEGAL_EXPANDED, "", KILN_EXPAND_THROUGH_F32};
      if (legality.legal == KILN_LEGAL_NATIVE) continue;
      if (legality.expansion == KILN_EXPAND_NOTHING) {
        ir_remove(op);
        x.changed = true;
        continue;
      }
      const bool has_parts = (op->operand_count || op->code == IR_ASM) && op->result_count == 1;
      if (legality.legal == KILN_LEGAL_REFUSED || !has_parts) return refuse(op, target, legality.reason, err);
      ir_build_before(&x.b, op);
      ir_value *v = expansion_of(legality.expansion)(&x, op);
      if (x.b.error.status != KILN_OK) return kiln_fail(err, x.b.error.status, "expand: %s", x.b.error.text);
      if (!v) continue;
      ir_forward(&op->results[0], v);
      ir_remove(op);
      x.changed = true;
    }
    ir_apply_forwards(kernel);
    if (!x.changed) return KILN_OK;
    KILN_TRY(kiln_pass_simplify(kernel, context, err));
  }
  return kiln_fail(err, KILN_STATUS_INTERNAL, "expand: expected at most %d rounds", MAX_ROUNDS);
}
