// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kernels on the host print.
#include "base/printed.h"
#include "runtime/more/core.h"

kiln_status kiln_more_host_print(const void *what, const uint32_t program_id[3], const void *elements,
                                 kiln_error *err) {
  const kiln_printed *printed = what;
  (void)err;
  kiln_print_lines(printed, (const char *)(printed + 1), program_id, elements);
  return KILN_OK;
}
