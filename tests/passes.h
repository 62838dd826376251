// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Single passes, called by tests.
#ifndef KILN_TESTS_PASSES_H
#define KILN_TESTS_PASSES_H

#include "compiler/passes/pass.h"
#include "tests/harness.h"

/// Runs a pass that asks nothing of a target. Returns whether it changed anything, for passes that say so.
static inline bool kiln_test_pass(kiln_pass_run *pass, ir_kernel *kernel) {
  kiln_pass_context context = {0};
  kiln_error err = {0};
  CHECK_OK(pass(kernel, &context, &err), err);
  return context.changed;
}

/// Views become pointers and masks, by the passes open-views, unit-axes and views.
static inline void kiln_test_views(ir_kernel *kernel, bool drops_axes) {
  kiln_test_pass(kiln_pass_open_views, kernel);
  if (drops_axes) kiln_test_pass(kiln_pass_unit_axes, kernel);
  kiln_test_pass(kiln_pass_views, kernel);
}

#endif
