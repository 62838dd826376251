// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hooks: functions of an application that are told of launches, loads and messages. A launch pays nothing for
// them while there are none: a device has its functions from one table, and from another one while there are
// hooks.
#ifndef KILN_RUNTIME_HOOK_H
#define KILN_RUNTIME_HOOK_H

#include "runtime/device/device.h"

/// The places of hooks that are taken, a bit each.
extern _Atomic uint32_t kiln_hook_places;
static inline bool kiln_hook_is_any(void) { return atomic_load(&kiln_hook_places); }
/// Calls the hooks that want events of the kind. All pointers may be NULL.
void kiln_hook_tell(const kiln_device *device, const char *kernel, uint32_t kind, int level, const char *text,
                    const void *function);
/// Makes `device->hooked`, which is `device->own` with hooks.
void kiln_hook_wrap(kiln_device *device);
/// In the child of a fork: hooks that other threads were in have ended.
void kiln_hook_in_child(void);
/// Every open device that has not gone gets the table that counts now. device.c
void kiln_devices_choose_table(void);

#endif
