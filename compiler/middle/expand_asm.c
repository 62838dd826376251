// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inline assembly where it is not the machine's own. Single PTX instructions that have an operation of ours
// become it; all else is refused.
#include <ctype.h>
#include <string.h>

#include "compiler/middle/expand_inner.h"
#include "compiler/middle/legality.h"

/// Instruction of one f32 operand and result, without ".ftz", and the operation that is at least as exact.
typedef struct known {
  const char *text;
  ir_opcode code; ///< DIV: one divided by the operand
  uint32_t flags;
} known;

static const known table[] = {
    {"sin.approx.f32", IR_SIN, 0},      {"cos.approx.f32", IR_COS, 0},        {"tanh.approx.f32", IR_TANH, 0},
    {"ex2.approx.f32", IR_EXP2, 0},     {"lg2.approx.f32", IR_LOG2, 0},       {"sqrt.approx.f32", IR_SQRT, 0},
    {"rcp.approx.f32", IR_DIV, 0},      {"rsqrt.approx.f32", IR_RSQRT, 0},    {"abs.f32", IR_ABS, 0},
    {"rcp.rn.f32", IR_DIV, IR_PRECISE}, {"sqrt.rn.f32", IR_SQRT, IR_PRECISE},
};

/// `text` is NAME $0, $1 with spaces anywhere between words and one optional semicolon.
static bool is_instruction(const char *text, const char *name) {
  static const char operands[] = "$0,$1";
  while (isspace((unsigned char)*text)) text++;
  for (; *name; name++, text++) {
    if (!strncmp(name, ".f32", 4) && !strncmp(text, ".ftz", 4)) text += 4;
    if (*text != *name) return false;
  }
  if (!isspace((unsigned char)*text)) return false;
  for (const char *want = operands; *want; text++) {
    if (isspace((unsigned char)*text)) continue;
    if (*text != *want++) return false;
  }
  while (isspace((unsigned char)*text) || *text == ';') text++;
  return !*text;
}

static const known *find(const ir_op *op) {
  bool is_unary = op->operand_count == 1 && op->result_count == 1 && op->attrs.pack <= 1 &&
                  !op->operands[0]->type.pointer && op->operands[0]->type.scalar == KILN_F32 &&
                  op->results[0].type.scalar == KILN_F32 && !op->results[0].type.pointer;
  for (size_t i = 0; is_unary && op->attrs.text && i < sizeof table / sizeof *table; i++)
    if (is_instruction(op->attrs.text, table[i].text)) return &table[i];
  return NULL;
}

/// AMD's text names vector and scalar registers, PTX names them by width.
static bool is_amd(const ir_op *op) { return op->attrs.constraints && strpbrk(op->attrs.constraints, "vsa"); }

kiln_legality kiln_asm_legality(const ir_op *op, const kiln_target *target) {
  kiln_family family = target->processor->family;
  if (family == KILN_FAMILY_NVPTX || (family == KILN_FAMILY_AMDGPU && is_amd(op)))
    return (kiln_legality){KILN_LEGAL_NATIVE, ""};
  if (find(op)) return (kiln_legality){KILN_LEGAL_EXPANDED, "the operation that the instruction stands for"};
  return (kiln_legality){
      KILN_LEGAL_REFUSED,
      "inline assembly of another machine, of which only single well-known PTX instructions are translated"};
}

ir_value *expand_asm(expanding *x, const ir_op *op) {
  const known *k = find(op);
  ir_value *v = op->operands[0];
  if (k->code == IR_DIV) return ir_binary(&x->b, IR_DIV, k->flags, x_real(x, v, 1), v);
  return ir_unary(&x->b, k->code, k->flags, v);
}
