// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What `kiln compile --report` prints about an artifact: its resources, and the rows that the code generator
// reported (compiler/report.h) with the lines of the source.
#ifndef KILN_TOOLS_BUILD_REPORT_H
#define KILN_TOOLS_BUILD_REPORT_H

#include "tools/build/plan.h"

/// Appends the report of a job that hit or was compiled, as text or as one JSON object. CORRUPT when the
/// stored report is damaged.
kiln_status report_print(const plan *p, const plan_job *job, bool json, kiln_buffer *out, kiln_error *err);

#endif
