// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Error messages of launches that are refused, with the names and values that caused them. All functions
// return the status of the error.
#ifndef KILN_RUNTIME_REFUSAL_H
#define KILN_RUNTIME_REFUSAL_H

#include "runtime/device/device.h"
#include "runtime/launch.h"

/// `what` overflows or divides by zero.
KILN_COLD kiln_status kiln_refuse_expr(const kiln_kernel *k, kiln_span code, const uint8_t *block,
                                       const char *what, kiln_error *err);
/// One of the promised alignments is broken.
KILN_COLD kiln_status kiln_refuse_alignment(const kiln_kernel *k, const uint8_t *block, kiln_error *err);
KILN_COLD kiln_status kiln_refuse_fact(const kiln_kernel *k, const kiln_fact *fact, int64_t value,
                                       kiln_error *err);
/// A buffer of `have` elements is smaller than its parameter states.
KILN_COLD kiln_status kiln_refuse_elements(const kiln_kernel *k, const kiln_param_record *p, int64_t needed,
                                           size_t have, const uint8_t *block, kiln_error *err);
/// All parameters as integers by number; those that are none have some value.
void kiln_read_integers(const kiln_kernel *k, const uint8_t *block, int64_t *values);
/// No config with code allows these arguments; the message names the requirement that each one failed.
KILN_COLD kiln_status kiln_refuse_configs(const kiln_kernel *k, const uint8_t *block, kiln_error *err);
/// A grid beyond the device's limit. `code`: the expression that it comes from; empty: the caller's number.
KILN_COLD kiln_status kiln_refuse_extent(const kiln_kernel *k, const kiln_code *code, unsigned axis,
                                         int64_t extent, kiln_span expression, const uint8_t *block,
                                         kiln_error *err);
KILN_COLD kiln_status kiln_refuse_programs(const kiln_kernel *k, const uint32_t *grid, kiln_error *err);
/// The count of arguments, the size of a block or the number of a parameter does not fit the kernel.
KILN_COLD kiln_status kiln_refuse_count(const kiln_kernel *k, size_t count, kiln_error *err);
KILN_COLD kiln_status kiln_refuse_size(const kiln_kernel *k, size_t size, kiln_error *err);
KILN_COLD kiln_status kiln_refuse_index(const kiln_kernel *k, size_t index, kiln_error *err);
/// An empty grid is success, unless it is that of a kernel without one. `grid`: the caller's, or NULL.
KILN_COLD kiln_status kiln_end_empty(const kiln_kernel *k, const kiln_launch_call *call, const uint32_t *grid,
                                     kiln_error *err);

#endif
