// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interpreter in place of NVIDIA's driver: a shared library with the calls of the driver API that libkiln
// makes, and one device. What the driver API has no words for is in the table that the library exports as
// `ptx_driver_table`: a program that loads the library finds it by that name. Not thread safe, unlike the calls.
#ifndef KILN_TOOLS_PTX_DRIVER_H
#define KILN_TOOLS_PTX_DRIVER_H

#include "tools/ptx/ptx.h"

typedef struct ptx_driver_settings {
  uint32_t number;       ///< the compute capability that the device reports, x 10: 90
  uint32_t shared_bytes; ///< shared memory that a block may use
  uint64_t seed;         ///< of the order in which warps run; each launch takes the next
  uint64_t max_steps;    ///< instructions of warps before a launch has failed; 0: no limit
  void (*take_module)(const char *name, const char *text); ///< is given each module; NULL: nobody
  void (*take_launch)(const char *kernel, bool is_clean);  ///< the same of launches
} ptx_driver_settings;

typedef struct ptx_driver {
  /// May be called again, at any time.
  void (*set)(const ptx_driver_settings *settings);
  /// What findings call an allocation of cuMemAlloc.
  void (*name)(uint64_t address, const char *name);
  /// What the last launch found.
  const ptx_report *(*report)(void);
  /// Why the last module was not taken, or the last launch failed; "" when it was well.
  const char *(*error)(void);
} ptx_driver;

/// In the library.
extern const ptx_driver ptx_driver_table;
#define PTX_DRIVER_TABLE "ptx_driver_table"

#endif
