// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the files of typing rules share, for them alone: short names, since every rule is made of these.
#ifndef KILN_COMPILER_IR_INFER_H
#define KILN_COMPILER_IR_INFER_H

#include "compiler/ir/ir.h"

/// One operation being typed. Rules write results to `types` and return a status.
typedef struct ir_typing {
  const ir_op *op;
  const ir_type *given; // borrowed; NULL when the caller named none
  ir_type *types;       // room for IR_MAX_RESULTS
  uint32_t count;
  kiln_error *err;
} ir_typing;

static inline ir_type operand(const ir_typing *t, uint32_t i) { return t->op->operands[i]->type; }
static inline const char *name(const ir_typing *t) { return ir_ops[t->op->code].text; }

static inline kiln_status wrong(const ir_typing *t, const char *what, ir_type want, ir_type got) {
  char a[IR_TYPE_TEXT], b[IR_TYPE_TEXT];
  return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: %s: expected %s, found %s", name(t), what,
                   ir_type_text(want, a), ir_type_text(got, b));
}

static inline kiln_status refuse(const ir_typing *t, const char *expected, ir_type got) {
  char b[IR_TYPE_TEXT];
  return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected %s, found %s", name(t), expected,
                   ir_type_text(got, b));
}

static inline kiln_status yield_type(ir_typing *t, ir_type type) {
  if (t->count >= IR_MAX_RESULTS)
    return kiln_fail(t->err, KILN_STATUS_LIMIT, "%s: expected at most %d results, found more", name(t),
                     IR_MAX_RESULTS);
  t->types[t->count++] = type;
  return KILN_OK;
}

static inline kiln_status expect_type(const ir_typing *t, const char *what, ir_type want, ir_type got) {
  return ir_type_equal(want, got) ? KILN_OK : wrong(t, what, want, got);
}

static inline kiln_status expect_shape(const ir_typing *t, ir_type a, ir_type b) {
  return ir_same_shape(a, b) ? KILN_OK : wrong(t, "shapes differ", a, b);
}

static inline kiln_status need_given(const ir_typing *t) {
  return t->given ? KILN_OK
                  : kiln_fail(t->err, KILN_STATUS_INTERNAL, "%s: the result type must be named", name(t));
}

static inline bool is_scalar(ir_type type, kiln_scalar scalar) {
  return !type.rank && !type.pointer && !type.is_view && !type.slots && type.scalar == scalar;
}

static inline bool is_index(ir_type type) {
  return !type.pointer && !type.is_view && (type.scalar == KILN_I32 || type.scalar == KILN_I64);
}

/// Fails unless the operation has that many regions.
kiln_status ir_check_regions(const ir_typing *t, uint32_t want);

// The rules that are not in ir_infer.c.
kiln_status ir_rule_reduce(ir_typing *t);
kiln_status ir_rule_scan(ir_typing *t);
kiln_status ir_rule_ptradd(ir_typing *t);
kiln_status ir_rule_load(ir_typing *t);
kiln_status ir_rule_store(ir_typing *t);
kiln_status ir_rule_atomic(ir_typing *t);
kiln_status ir_rule_cas(ir_typing *t);
kiln_status ir_rule_view(ir_typing *t);
kiln_status ir_rule_viewload(ir_typing *t);
kiln_status ir_rule_viewstore(ir_typing *t);
kiln_status ir_rule_for(ir_typing *t);
kiln_status ir_rule_while(ir_typing *t);
kiln_status ir_rule_if(ir_typing *t);
kiln_status ir_rule_copy(ir_typing *t);
kiln_status ir_rule_barrier(ir_typing *t);
kiln_status ir_rule_mma(ir_typing *t);
kiln_status ir_rule_wait(ir_typing *t);
kiln_status ir_rule_cluster(ir_typing *t);
kiln_status ir_rule_fetch(ir_typing *t);
kiln_status ir_rule_slot(ir_typing *t);
kiln_status ir_rule_put(ir_typing *t);
kiln_status ir_rule_memory(ir_typing *t);
kiln_status ir_rule_roles(ir_typing *t);
kiln_status ir_rule_base(ir_typing *t);

#endif
