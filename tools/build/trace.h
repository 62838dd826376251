// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A build as a timeline in the Trace Event Format (JSON object form), which chrome://tracing and Perfetto
// open.
#ifndef KILN_TOOLS_BUILD_TRACE_H
#define KILN_TOOLS_BUILD_TRACE_H

#include "tools/build/plan.h"

enum { TRACE_PHASES = 8 };

/// The phases of the command itself, one after another.
typedef struct trace {
  struct {
    const char *name; ///< static
    uint64_t start_ns, end_ns;
  } phases[TRACE_PHASES];
  unsigned count;
} trace;

/// Ends the running phase and begins `name`; NULL only ends. Phases above TRACE_PHASES are dropped.
void trace_phase(trace *t, const char *name);
/// Lane 0 has the phases, lane n the objects of worker n with the stages of each compile inside. Times are
/// from the first phase on.
kiln_status trace_write(const char *path, const trace *t, const plan *p, kiln_error *err);

#endif
