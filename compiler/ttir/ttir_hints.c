// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `tt.divisibility` and `tt.contiguity`: facts about the result of an operation or, with `_argN`, about the
// argument N of a loop's body. They become the operation `hint`.
//
// Triton says them axis by axis. A hint has one divisor, which holds along every axis, and the runs of the last
// one; what axes have in common is what is kept.
#include <stdio.h>

#include "compiler/ttir/ttir_reader.h"

/// What every number of the entry is a multiple of, as far as powers of two go; 0: nothing is said.
static int64_t common_divisor(const ttir_dictionary *facts, const char *name) {
  int64_t list[IR_MAX_RANK], least = 0;
  const uint32_t count = ttir_entry_list(facts, name, list, IR_MAX_RANK);
  for (uint32_t i = 0; i < count; i++) {
    if (list[i] <= 0) return 0;
    if (!least || __builtin_ctzll((uint64_t)list[i]) < __builtin_ctzll((uint64_t)least)) least = list[i];
  }
  return least;
}

/// Runs along the last axis.
static int64_t last_run(const ttir_dictionary *facts, const char *name) {
  int64_t list[IR_MAX_RANK];
  const uint32_t count = ttir_entry_list(facts, name, list, IR_MAX_RANK);
  return count && list[count - 1] > 0 ? list[count - 1] : 0;
}

/// False: nothing is said.
static bool find_hint(const ttir_dictionary *facts, ir_type type, const char *suffix, ir_hint *out) {
  enum { NAME = 48 };
  char divisibility[NAME], contiguity[NAME];
  *out = (ir_hint){0};
  if (type.is_view || !(ir_type_class(type) & (KILN_CLASS_INT | KILN_CLASS_POINTER))) return false;
  snprintf(divisibility, NAME, "tt.divisibility%s", suffix);
  snprintf(contiguity, NAME, "tt.contiguity%s", suffix);
  out->divisible = common_divisor(facts, divisibility);
  if (type.rank) out->contiguous = last_run(facts, contiguity);
  return out->divisible > 0 || out->contiguous > 0;
}

void ttir_hint_result(ttir_reader *r) {
  ir_hint how;
  if (r->failed || r->dictionary.count == 0 || r->result_count != 1) return;
  if (!find_hint(&r->dictionary, r->results[0]->type, "", &how)) return;
  ir_op *op = ttir_emit(r, IR_HINT, &(ir_attrs){.hint = how}, r->results, 1, NULL);
  if (op) r->results[0] = &op->results[0];
}

// --------------------------------------------------------------------------------------- of a loop

/// The operands tell without a hint.
static bool is_multiple(const ir_value *v, int64_t by, unsigned depth) {
  const ir_op *op = v->def;
  int64_t n;
  if (ir_constant_int(v, &n)) return n % by == 0;
  if (!op || !depth || op->operand_count < 1) return false;
  const bool first = is_multiple(op->operands[0], by, depth - 1);
  switch (op->code) {
  case IR_HINT: return first || op->attrs.hint.divisible % by == 0;
  case IR_CAST: return first;
  case IR_MUL: return first || is_multiple(op->operands[1], by, depth - 1);
  case IR_ADD:
  case IR_SUB:
  case IR_MIN:
  case IR_MAX: return first && is_multiple(op->operands[1], by, depth - 1);
  default: return false;
  }
}

typedef struct renaming {
  const ir_value *from;
  const ir_op *hint;
  ir_value *to;
} renaming;

static void rename_operands(ir_op *op, void *context) {
  const renaming *n = context;
  for (uint32_t i = 0; op != n->hint && i < op->operand_count; i++)
    if (op->operands[i] == n->from) op->operands[i] = n->to;
}

static void hint_argument(ttir_reader *r, ir_block *body, uint32_t i, const ir_hint *how) {
  ir_builder b = {.arena = r->arena, .block = body, .before = body->first, .place = r->b.place};
  ir_value *argument = body->args[i];
  ir_op *op = ir_emit(&b, IR_HINT, &(ir_attrs){.hint = *how}, &argument, 1, NULL, NULL, 0);
  if (!op) return;
  renaming n = {argument, op, &op->results[0]};
  ir_walk(body, rename_operands, &n);
}

void ttir_hint_arguments(ttir_reader *r, ir_block *body, const ir_value *first, const ir_value *step) {
  enum { SUFFIX = 24, DEPTH = 8 };
  for (uint32_t i = body->arg_count; !r->failed && r->dictionary.count && i-- > 0;) {
    char suffix[SUFFIX];
    ir_hint how;
    snprintf(suffix, SUFFIX, "_arg%u", i);
    if (!find_hint(&r->dictionary, body->args[i]->type, suffix, &how)) continue;
    const bool is_counter = i == 0 && first;
    if (is_counter && is_multiple(first, how.divisible, DEPTH) && is_multiple(step, how.divisible, DEPTH))
      continue;
    hint_argument(r, body, i, &how);
  }
}
