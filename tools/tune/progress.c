// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shows the progress of a contest and the best config so far on the terminal.
#include "tools/tune/progress.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/program.h"
#include "tools/common/cli.h"

enum { PAUSE_NS = 100000000, MOST_COLUMNS = 120 };

void tune_progress_show(tune_progress *w, const char *format, ...) {
  char text[1000];
  va_list list;
  if (w->step) w->step(w->context);
  if (!w->title || (w->is_line && cli_now_ns() - w->shown_at_ns < PAUSE_NS)) return;
  w->shown_at_ns = cli_now_ns();
  int used = snprintf(text, sizeof text, "[%u/%u] %.300s: ", w->shape, w->of, w->title);
  va_start(list, format);
  vsnprintf(text + used, sizeof text - (size_t)used, format, list);
  va_end(list);
  if (w->is_line) kiln_program_clear_line();
  if (w->is_line) fprintf(stderr, "%.*s", MOST_COLUMNS, text);
  else fprintf(stderr, "%s\n", text);
}

void tune_progress_end(tune_progress *w) {
  if (w->title && w->is_line && w->shown_at_ns) kiln_program_clear_line();
  w->title = NULL;
}
