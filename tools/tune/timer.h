// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures how long launches take on a device: on NVIDIA GPUs with events, on others with this process's
// clock around launch and wait.
#ifndef KILN_TOOLS_TUNE_TIMER_H
#define KILN_TOOLS_TUNE_TIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/kiln.h"

typedef struct tune_timer tune_timer;

/// Memory of the device that a launch changes and that is restored before each one: `size` bytes from `from`,
/// which is in the memory of an NVIDIA GPU, otherwise of this process.
typedef struct tune_restore {
  void *to;
  const void *from;
  size_t size;
} tune_restore;

/// `name` is the device's name ("cuda:0"). `is_hot`: caches stay as the previous launch left them; otherwise
/// the L2 cache of a GPU is flushed before each launch.
kiln_status tune_timer_open(kiln_device *device, const char *name, bool is_hot, tune_timer **out,
                            kiln_error *err);
void tune_timer_close(tune_timer *timer);
/// Sets what is restored before each launch from now on; borrowed.
void tune_timer_restore(tune_timer *timer, const tune_restore *restores, size_t count);

/// Whether the device can copy within its own memory.
bool tune_timer_copies(const tune_timer *timer);
/// Copies within the device's memory, before the next launch on the device's own stream.
kiln_status tune_timer_copy(tune_timer *timer, void *to, const void *from, size_t size, kiln_error *err);

/// Measures `count` launches, in nanoseconds. For short launches each time is the mean of several in a row,
/// if nothing has to be restored or flushed before each.
kiln_status tune_timer_time(tune_timer *timer, kiln_prepared *prepared, double *out_ns, size_t count,
                            kiln_error *err);

#endif
