// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs one recorded case on a device or in the reference interpreter, and reports the result.
#ifndef KILN_TOOLS_CASE_REPLAY_H
#define KILN_TOOLS_CASE_REPLAY_H

#include "base/status.h"
#include "compiler/codegen.h"
#include "runtime/kiln.h"
#include "tools/common/worker_client.h"
#include "tools/case/recording.h"
#include "tools/ptx-device/ptx_device.h"

typedef enum case_verdict { CASE_PASS, CASE_FAIL, CASE_UNSUPPORTED, CASE_SKIP } case_verdict;

typedef struct case_outcome {
  case_verdict verdict;
  bool spoiled; ///< the driver reported an error: later results of this process on the device mean nothing
  uint64_t front_ns, compile_ns, run_ns;
  char text[KILN_ERROR_TEXT]; ///< the reason; for SKIP what was done
} case_outcome;

/// What all cases of a run share.
typedef struct case_runner {
  const char *device; ///< "interpreter", "host", "cuda:0", "ptx:sm_90a", ...
  const char *target; ///< target name; NULL: the device's own
  uint64_t max_steps; ///< interpreter: 0 is no limit
  ptx_device ptx;     ///< loaded when that is the device
  bool exact;         ///< no guards around buffers: the driver's memory checker sees accesses outside
  kiln_codegen_options options;
  worker_client worker; ///< started by the first compile
  // An empty library with the device open: it gives the target, and keeps the driver's context alive between
  // cases.
  kiln_library *probe_library;
  kiln_device *probe;
} case_runner;

/// The target to compile for on a device of that target: some instructions of sm_90 may be used by sm_90a
/// code only.
const char *case_code_target(const char *device_target);

kiln_status case_runner_init(case_runner *runner, kiln_error *err);
void case_runner_deinit(case_runner *runner);
void case_run(case_runner *runner, const char *folder, case_outcome *out);

#endif
