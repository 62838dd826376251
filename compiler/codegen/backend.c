// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of back ends.
#include "compiler/codegen/backend.h"

static const kiln_backend *const backends[] = {&kiln_backend_host, &kiln_backend_nvptx, &kiln_backend_amdgpu};

const kiln_backend *kiln_backend_of(const kiln_target *target) {
  for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
    if (backends[i]->family == target->processor->family) return backends[i];
  return NULL;
}
