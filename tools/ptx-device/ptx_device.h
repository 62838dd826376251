// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interpreter of PTX as a device of commands: "ptx:sm_90a". It stands in NVIDIA's place for the rest of the
// process, so libkiln opens it as PTX_DEVICE_OPENED.
#ifndef KILN_TOOLS_PTX_DEVICE_PTX_DEVICE_H
#define KILN_TOOLS_PTX_DEVICE_PTX_DEVICE_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/status.h"
#include "targets/targets.h"
#include "tools/ptx/driver.h"

#define PTX_DEVICE_OPENED "cuda:0"

typedef struct ptx_device {
  const char *name;                ///< borrowed: what the user calls it
  const kiln_processor *processor; ///< static
  const ptx_driver *driver;        ///< of the library; NULL: not loaded
  uint64_t seed;                   ///< of the last order in which warps ran
} ptx_device;

/// Whether that is the name of such a device.
bool ptx_device_is(const char *name);
/// Loads the interpreter as the processor that `name` says. NO_DEVICE lists the processors; NOT_FOUND when the
/// interpreter is not installed.
kiln_status ptx_device_load(const char *name, ptx_device *out, kiln_error *err);
/// Of the order in which warps run in the next launch; those after it take the next seeds.
void ptx_device_seed(ptx_device *device, uint64_t seed);
/// What findings call an allocation: "argument 'x'".
void ptx_device_name(const ptx_device *device, const void *memory, const char *name);

/// The PTX of a bundle as a bundle, since the interpreter takes nothing else. NO_VARIANT when `kernel` has none
/// that runs on this processor.
kiln_status ptx_device_read(const ptx_device *device, const char *path, const char *kernel, kiln_buffer *out,
                            kiln_error *err);
/// The status of a launch of `kernel`, or of loading its code; of a failed one `err` gets what the interpreter says in
/// place of what libkiln says of a driver: up to `most` findings, a line each. A finding is ASSERT.
kiln_status ptx_device_explain(const ptx_device *device, const char *kernel, uint32_t most,
                               kiln_status status, kiln_error *err);

#endif
