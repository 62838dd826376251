// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is to be seen while a contest runs: how far it is, and the best so far.
#ifndef KILN_TOOLS_TUNE_PROGRESS_H
#define KILN_TOOLS_TUNE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tune_progress {
  const char *title;           ///< of the shape; NULL: nothing is shown
  unsigned shape, of;          ///< the how many-th of how many
  bool is_line;                ///< one line of a terminal that is written over; else a line each time
  uint64_t shown_at_ns;        ///< when it was written the last time
  void (*step)(void *context); ///< called with each step, whether or not it is shown; NULL: nobody
  void *context;
} tune_progress;

/// Shows `format` behind the shape: at most a few times a second on a terminal.
void tune_progress_show(tune_progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/// Takes the line away.
void tune_progress_end(tune_progress *progress);

#endif
