// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of libkiln-more.so.0, and the one of the libkiln that has opened it.
#include <string.h>

#include "runtime/more/core.h"

const kiln_core *kiln_core_table;

static const kiln_more functions = {
#define MORE(status, name, parameters, arguments) .name = kiln_more_##name,
#include "runtime/more/more.def"
#undef MORE
};

__attribute__((visibility("default"))) const kiln_more *kiln_more_start(const kiln_core *core) {
  if (strcmp(core->same, KILN_SAME) != 0) return NULL;
  __atomic_store_n(&kiln_core_table, core,
                   __ATOMIC_RELEASE); // threads may come together, with the same table
  return &functions;
}
