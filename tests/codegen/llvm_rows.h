// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which rows of processors.def the LLVM of this build makes code for: tests leave the others out.
#ifndef KILN_TESTS_CODEGEN_LLVM_ROWS_H
#define KILN_TESTS_CODEGEN_LLVM_ROWS_H

#include <llvm/Config/llvm-config.h>
#include <string.h>

#include "targets/targets.h"
#include "tests/harness.h"

/// `target` may have modes after its processor.
static inline bool llvm_has(const char *target) {
  const kiln_processor *p = kiln_processor_find(target, strcspn(target, ":"));
  if (!p) FAIL("%s is no processor", target);
  return p->llvm <= LLVM_VERSION_MAJOR;
}

#endif
