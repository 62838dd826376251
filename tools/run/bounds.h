// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The launch of `kiln run`, and the launches before it that find every read or write outside of the buffers:
//
//   - On the host each buffer begins at memory that cannot be touched in one launch and ends there in
//     another. It is moved to the end by the least alignment with which the same code is chosen; where less
//     alignment has another code chosen, that one runs, too.
//   - The interpreter of PTX knows where each buffer begins and ends: the launch itself finds all.
//   - Where a gap is left (the promised alignment of a buffer whose size is no multiple of it) and around the
//     buffers of GPUs lie bytes of a known content: writes change them. Reads of them are found by
//     what the kernel stores: it does not depend on that content.
#ifndef KILN_TOOLS_RUN_BOUNDS_H
#define KILN_TOOLS_RUN_BOUNDS_H

#include "tools/ptx-device/ptx_device.h"
#include "tools/run/arguments.h"

typedef struct run_call {
  kiln_device *device; ///< borrowed, as all of it
  kiln_kernel *kernel;
  const char *name; ///< of the kernel
  run_value *values;
  size_t count;
  run_guard guard;
  const ptx_device *interpreter; ///< with RUN_GUARD_DEVICE
  const uint32_t *grid;          ///< the caller's; NULL: the kernel's own
  uint8_t *block;                ///< packed arguments
  size_t size;
  uint8_t *scratch; ///< scratch memory of the device, and bytes after it that stay as they are; NULL: none
  size_t scratch_bytes; ///< of what the kernel may use
  bool prints_once;     ///< run_call_silence follows the next launch, which makes it false
  bool has_printed;     ///< a launch before the one that counts
  int kept_output;      ///< a descriptor while it is silent; 0: it is not
} run_call;

/// What kernels print is dropped until run_call_unsilence, where the descriptors for it can be had. Standard output is
/// that of the process: nothing else may use it meanwhile.
void run_call_silence(run_call *call);
void run_call_unsilence(run_call *call);

/// Gives the kernel the scratch memory that it wants for the arguments in the block, to be freed with
/// run_call_end.
kiln_status run_call_take_scratch(run_call *call, kiln_error *err);
void run_call_end(run_call *call);

/// Places all buffers with their initial contents, on the host each at the beginning of its memory, and
/// reports which code runs.
kiln_status run_call_begin(run_call *call, kiln_choice *out, kiln_error *err);
/// Launches and waits. A fault of the host ends the process with the argument's name.
kiln_status run_call_launch(run_call *call, kiln_error *err);
/// Checks that nothing around the buffers was written.
kiln_status run_call_check(const run_call *call, kiln_error *err);
/// Launches the kernel to find accesses outside of the buffers; afterwards the buffers may be anywhere.
/// `usual` is the code of run_call_begin. INVALID_ARGUMENT names the argument.
kiln_status run_call_find_outside(run_call *call, const kiln_choice *usual, kiln_error *err);

#endif
