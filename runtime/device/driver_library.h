// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A vendor's driver library: found by name, its entry points taken into a table of pointers. Required ones
// missing is an error that names what was tried; optional ones stay NULL.
#ifndef KILN_RUNTIME_DEVICE_DRIVER_LIBRARY_H
#define KILN_RUNTIME_DEVICE_DRIVER_LIBRARY_H

#include <stddef.h>

#include "base/status.h"

/// The entry points of a table of pointers, in its order: one text, "!name" for one that is required and "?name" for
/// one that may lack, each ended by a NUL, the last by two. One text has no pointers for the loader to relocate.
#define KILN_DRIVER_REQUIRED(symbol) "!" #symbol "\0"
#define KILN_DRIVER_OPTIONAL(symbol) "?" #symbol "\0"

/// Opens the first of `names` (NULL-terminated) that loads and fills `table`. NO_DEVICE otherwise. The handle
/// is kept until the process ends: drivers do not take well to being unloaded.
kiln_status kiln_driver_library_open(const char *const *names, const char *symbols, void *table,
                                     kiln_error *err);

/// The name of the entry point whose pointer lies at that offset of the table.
const char *kiln_driver_symbol_at(const char *symbols, size_t offset);

/// A driver as devices open it.
typedef struct kiln_driver {
  char kind[8], title[8]; ///< "cuda", "CUDA"
  const char *const *names;
  const char *symbols;
} kiln_driver;

/// The same for the device of that name. `rest` is what stands after the colon in it: its number, or nothing
/// for 0.
kiln_status kiln_driver_open(const kiln_driver *driver, const char *device, const char *rest, void *table,
                             int *out_ordinal, kiln_error *err);

/// What `cuda:N` looks for, in this order; ends with NULL. A program with a driver of its own puts that first,
/// before it opens a device.
extern const char *kiln_cuda_libraries[];

#endif
