// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How long launches take on a device: on NVIDIA GPUs by events of the device, elsewhere by the clock of this
// process around launch and wait.
#ifndef KILN_TOOLS_TUNE_TIMER_H
#define KILN_TOOLS_TUNE_TIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/kiln.h"

typedef struct tune_timer tune_timer;

/// Memory of the device that a launch changes and that is set again before each one: `size` bytes from
/// `from`, which is memory of a GPU of NVIDIA, else of this process.
typedef struct tune_restore {
  void *to;
  const void *from;
  size_t size;
} tune_restore;

/// `name` is the device's name ("cuda:0"). `is_hot`: caches stay as the launch before left them; else the L2
/// of a GPU is emptied before each.
kiln_status tune_timer_open(kiln_device *device, const char *name, bool is_hot, tune_timer **out,
                            kiln_error *err);
void tune_timer_close(tune_timer *timer);
/// What is to be restored from now on; borrowed.
void tune_timer_restore(tune_timer *timer, const tune_restore *restores, size_t count);

/// Whether the device copies within its own memory.
bool tune_timer_copies(const tune_timer *timer);
/// Does so, before what is launched next on the device's own stream.
kiln_status tune_timer_copy(tune_timer *timer, void *to, const void *from, size_t size, kiln_error *err);

/// `count` times of one launch each, in nanoseconds; of short ones each is the mean of several launches in a
/// row, where nothing is to be restored or emptied before each.
kiln_status tune_timer_time(tune_timer *timer, kiln_prepared *prepared, double *out_ns, size_t count,
                            kiln_error *err);

#endif
