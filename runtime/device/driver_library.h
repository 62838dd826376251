// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A vendor's driver library: found by name, its entry points taken into a table of pointers. Required ones
// missing is an error that names what was tried; optional ones stay NULL.
#ifndef KILN_RUNTIME_DEVICE_DRIVER_LIBRARY_H
#define KILN_RUNTIME_DEVICE_DRIVER_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct kiln_driver_symbol {
  const char *name;
  size_t offset; ///< of the pointer in the table
  bool is_required;
} kiln_driver_symbol;

/// Opens the first of `names` (NULL-terminated) that loads and fills `table`. NO_DEVICE otherwise. The handle
/// is kept until the process ends: drivers do not take well to being unloaded.
kiln_status kiln_driver_library_open(const char *const *names, const kiln_driver_symbol *symbols,
                                     size_t symbol_count, void *table, kiln_error *err);

/// A driver as devices open it.
typedef struct kiln_driver {
  const char *kind, *title; ///< "cuda", "CUDA"
  const char *const *names;
  const kiln_driver_symbol *symbols;
  size_t symbol_count;
} kiln_driver;

/// The same for the device of that name. `rest` is what stands after the colon in it: its number, or nothing
/// for 0.
kiln_status kiln_driver_open(const kiln_driver *driver, const char *device, const char *rest, void *table,
                             int *out_ordinal, kiln_error *err);

#endif
