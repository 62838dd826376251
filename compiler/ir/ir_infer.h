// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Between ir_build.c and ir_infer_memory.c, for typing alone: what rules are made of.
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

ir_type ir_operand_type(const ir_typing *t, uint32_t i);
/// Of the operation, for messages.
const char *ir_name_of(const ir_typing *t);
/// One more result.
kiln_status ir_yield_type(ir_typing *t, ir_type type);
bool ir_is_scalar(ir_type type, kiln_scalar scalar);
bool ir_is_index(ir_type type);
/// Refusals: `what` differs; something `expected` was not found.
kiln_status ir_wrong(const ir_typing *t, const char *what, ir_type want, ir_type got);
kiln_status ir_refuse(const ir_typing *t, const char *expected, ir_type got);
/// Fail unless the types, or the shapes, are the same; unless the caller named the result type.
kiln_status ir_expect_type(const ir_typing *t, const char *what, ir_type want, ir_type got);
kiln_status ir_expect_shape(const ir_typing *t, ir_type a, ir_type b);
kiln_status ir_need_given(const ir_typing *t);
/// Fails unless the operation has that many regions.
kiln_status ir_check_regions(const ir_typing *t, uint32_t want);

// ir_infer_memory.c
kiln_status ir_rule_ptradd(ir_typing *t);
kiln_status ir_rule_load(ir_typing *t);
kiln_status ir_rule_store(ir_typing *t);
kiln_status ir_rule_atomic(ir_typing *t);
kiln_status ir_rule_cas(ir_typing *t);
kiln_status ir_rule_view(ir_typing *t);
kiln_status ir_rule_viewaccess(ir_typing *t);
kiln_status ir_rule_base(ir_typing *t);
kiln_status ir_rule_reduce(ir_typing *t);
kiln_status ir_rule_scan(ir_typing *t);
kiln_status ir_rule_for(ir_typing *t);
kiln_status ir_rule_while(ir_typing *t);
kiln_status ir_rule_if(ir_typing *t);
kiln_status ir_rule_roles(ir_typing *t);

#endif
