// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values of arguments on the command line of `kiln run`: scalars, and buffers from files or generators.
//
//   scalar    12, -1.5, 0x10; what the type cannot hold is refused. u32:3000000000 is the bits of an i32
//   buffer    zeros:COUNT  ones:COUNT  iota:COUNT  fill:COUNT:VALUE  random:COUNT[:SEED]  @FILE  null
//   view      a buffer followed by [extent,...] or [extent,...;stride,...]; strides are row-major when left
//             out
#ifndef KILN_TOOLS_RUN_ARGUMENTS_H
#define KILN_TOOLS_RUN_ARGUMENTS_H

#include <stdbool.h>

#include "base/types.h"
#include "runtime/kiln.h"
#include "tools/run/guarded_memory.h"

typedef struct run_value {
  kiln_param param;
  kiln_scalar scalar; ///< element
  bool is_set;
  uint8_t *bytes; ///< owned: contents of a buffer before the launch, and what was copied back after it
  size_t size;
  run_memory memory;           ///< owned: the buffer on the device
  uint8_t packed[8 + 16 * 12]; ///< what goes into the block
} run_value;

/// Reads the type of the parameter. UNSUPPORTED for pointers to pointers.
kiln_status run_value_begin(run_value *value, const kiln_param *param, kiln_error *err);
/// Reads `text`: the value, or the contents of a buffer.
kiln_status run_value_set(run_value *value, const char *text, kiln_error *err);
/// Makes the buffer on the device, in place of an earlier one. Does nothing for scalars.
kiln_status run_value_place(run_value *value, kiln_device *device, run_guard guard, run_place place,
                            kiln_error *err);
/// Copies the buffer back.
kiln_status run_value_fetch(run_value *value, kiln_device *device, kiln_error *err);
void run_value_deinit(run_value *value);

enum { RUN_VALUE_TEXT = 32 };
/// Writes element `index` of the buffer: integers in full, floats with nine digits. Returns `text`.
const char *run_value_text(const run_value *value, size_t index, char text[RUN_VALUE_TEXT]);
size_t run_value_count(const run_value *value);
/// Compares with the bytes of another buffer: every element within tolerance x (1 + |expected|); NaN equals
/// NaN. MISMATCH names the first difference.
kiln_status run_value_compare(const run_value *value, const uint8_t *bytes, size_t size, double tolerance,
                              kiln_error *err);

#endif
