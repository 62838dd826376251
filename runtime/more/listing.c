// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lists kernels of a library.
#include <string.h>

#include "runtime/more/core.h"

kiln_status kiln_more_kernel_at(const kiln_library *l, size_t index, const char **out, kiln_error *err) {
  KILN_NEED(out, "result");
  *out = NULL;
  KILN_NEED(l, "library");
  size_t count = kiln_kernel_count(l), at = index;
  for (size_t i = 0; index < count; i++) {
    kiln_bundle *b = l->bundles[i];
    if (at >= b->section_count[KILN_BUNDLE_NAMES]) {
      at -= b->section_count[KILN_BUNDLE_NAMES];
      continue;
    }
    kiln_kernel_entry kernel;
    KILN_TRY(kiln_bundle_named_at(b, (uint32_t)at, &kernel, err));
    return (*out = kiln_bundle_text(b, kernel.name, err)) ? KILN_OK : KILN_STATUS_CORRUPT;
  }
  return kiln_fail(err, KILN_STATUS_NOT_FOUND, "kernel %zu of %zu", index, count);
}
