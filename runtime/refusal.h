// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Error messages of launches that are refused, with the names and values that caused them. All functions
// return the status of the error.
#ifndef KILN_RUNTIME_REFUSAL_H
#define KILN_RUNTIME_REFUSAL_H

#include "runtime/launch.h"

/// No bundle has the kernel, or none has code of it for the device.
KILN_COLD kiln_status kiln_refuse_kernel(kiln_device *d, const char *name, kiln_status status,
                                         kiln_error *err);
/// The caller was built for other parameters.
KILN_COLD kiln_status kiln_refuse_signature(const kiln_kernel *k, const kiln_signature *want,
                                            kiln_error *err);
/// `what` overflows or divides by zero.
KILN_COLD kiln_status kiln_refuse_expr(const kiln_kernel *k, kiln_span code, const uint8_t *block,
                                       const char *what, kiln_error *err);
/// One of the promised alignments is broken.
KILN_COLD kiln_status kiln_refuse_alignment(const kiln_kernel *k, const uint8_t *block, kiln_error *err);
KILN_COLD kiln_status kiln_refuse_fact(const kiln_kernel *k, const kiln_fact *fact, int64_t value,
                                       kiln_error *err);
/// No config with code allows these arguments; the message names the requirement that each one failed.
KILN_COLD kiln_status kiln_refuse_configs(const kiln_kernel *k, const uint8_t *block, kiln_error *err);
/// A grid beyond the device's limit. `code`: the expression that it comes from; empty: the caller's number.
KILN_COLD kiln_status kiln_refuse_extent(const kiln_kernel *k, const kiln_code *code, unsigned axis,
                                         int64_t extent, kiln_span expression, const uint8_t *block,
                                         kiln_error *err);
/// An assertion of a kernel on the host failed: operation `failed` - 1 of the program `instance`.
KILN_COLD kiln_status kiln_refuse_assertion(kiln_device *d, const kiln_launch_call *call, int32_t failed,
                                            uint64_t instance, kiln_error *err);
KILN_COLD kiln_status kiln_refuse_programs(const kiln_kernel *k, const uint32_t *grid, kiln_error *err);
/// The count of arguments, the size of a block or the number of a parameter does not fit the kernel.
KILN_COLD kiln_status kiln_refuse_count(const kiln_kernel *k, size_t count, kiln_error *err);
KILN_COLD kiln_status kiln_refuse_size(const kiln_kernel *k, size_t size, kiln_error *err);
KILN_COLD kiln_status kiln_refuse_index(const kiln_kernel *k, size_t index, kiln_error *err);
/// An empty grid is success, unless it is that of a kernel without one. `grid`: the caller's, or NULL.
KILN_COLD kiln_status kiln_end_empty(const kiln_kernel *k, const kiln_launch_call *call, const uint32_t *grid,
                                     kiln_error *err);

#endif
