// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Progress of a contest on the terminal: how far it is, and the best config so far.
#ifndef KILN_TOOLS_TUNE_PROGRESS_H
#define KILN_TOOLS_TUNE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tune_progress {
  const char *title;           ///< of the shape; NULL: nothing is shown
  unsigned shape, of;          ///< number of the shape, from 1, and the count of shapes
  bool is_line;                ///< one line of a terminal that is overwritten; otherwise a new line each time
  uint64_t shown_at_ns;        ///< when it was written last
  void (*step)(void *context); ///< called at each step, shown or not; may be NULL
  void *context;
} tune_progress;

/// Shows the text after the shape, on a terminal at most a few times per second.
void tune_progress_show(tune_progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/// Clears the line.
void tune_progress_end(tune_progress *progress);

#endif
