// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expressions that run at launch, as trees over the integer parameters of a kernel: built from syntax,
// folded, encoded as base/expr.h has it, and turned into facts.
#ifndef KILN_COMPILER_FRONT_LAUNCH_EXPR_H
#define KILN_COMPILER_FRONT_LAUNCH_EXPR_H

#include "base/expr.h"
#include "base/record.h"
#include "compiler/front/elaborate.h"

typedef struct kiln_launch_expr {
  uint8_t op; ///< kiln_expr_op
  bool is_bool;
  uint32_t param; ///< PARAM
  int64_t value;  ///< CONST
  const struct kiln_launch_expr *a, *b;
  uint32_t ops, depth; ///< size and stack depth of its code, saturated
} kiln_launch_expr;

/// A name that stands for a tree: a parameter of a function, a `let`.
typedef struct kiln_launch_local {
  const kiln_atom *atom;
  const kiln_launch_expr *value;
  const struct kiln_launch_local *below;
} kiln_launch_local;

/// Builds the tree of `n`. `e` has no builder and knows the compile-time values; `kernel` names the
/// parameters, `params` has their types. `locals`, which may be NULL, are names bound to trees, which go before
/// parameters. NULL after an error.
const kiln_launch_expr *kiln_launch_build(kiln_elab *e, const kiln_item *kernel, const ir_param *params,
                                          const kiln_launch_local *locals, const kiln_node *n,
                                          const char *what);
/// Parts of trees: parameter `param`, an operation on two trees (NULL after an error), and c ? x : y.
const kiln_launch_expr *kiln_launch_param(kiln_arena *arena, uint32_t param, bool is_bool);
const kiln_launch_expr *kiln_launch_node(kiln_elab *e, kiln_expr_op op, const kiln_launch_expr *left,
                                         const kiln_launch_expr *right, ir_place place, const char *what);
const kiln_launch_expr *kiln_launch_select(kiln_elab *e, const kiln_launch_expr *condition,
                                           const kiln_launch_expr *x, const kiln_launch_expr *y,
                                           ir_place place, const char *what);
/// Its code. Limits have been checked by build.
kiln_span kiln_launch_encode(kiln_arena *arena, const kiln_launch_expr *x);
/// Bounds of its value for parameters within their types and ranges; false when none are known.
bool kiln_launch_range(const kiln_launch_expr *x, const ir_param *params, int64_t *lo, int64_t *hi);
/// True when a parameter that is a pointer is part of it.
bool kiln_launch_has_pointer(const kiln_launch_expr *x, const ir_param *params);
/// True when no number that `p` may have is the multiple that it must be.
bool kiln_launch_is_empty(const ir_param *p);
/// False when no call can fulfil the conditions together, as far as can be seen.
bool kiln_launch_can_hold(kiln_arena *arena, const kiln_launch_expr *const *conditions, uint32_t count,
                          const ir_param *params, uint32_t param_count);
/// Adds what the condition `x` says to `params`; false when it is no plain fact on one parameter (nothing is
/// added then).
bool kiln_launch_fact(const kiln_launch_expr *x, ir_param *params);
/// True when `x` holding implies that `y` holds, as far as can be seen.
bool kiln_launch_implies(const kiln_launch_expr *x, const kiln_launch_expr *y);
/// Emits the condition in 64-bit arithmetic over the kernel's parameters.
ir_value *kiln_launch_emit(ir_builder *b, const ir_kernel *kernel, const kiln_launch_expr *x);

#endif
