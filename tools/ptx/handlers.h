// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions that rows of opcodes.def name, and the arithmetic that several of them share.
#ifndef KILN_TOOLS_PTX_HANDLERS_H
#define KILN_TOOLS_PTX_HANDLERS_H

#include "tools/ptx/machine.h"

#define ELEMENT(name, shape, groups, joins, function) \
  uint64_t function(const ptx_instruction *i, const uint64_t *s);
#define HANDLER(name, shape, groups, joins, function) void function(ptx_exec *x);
#include "tools/ptx/opcodes.def"
#undef ELEMENT
#undef HANDLER

/// Bulk copies of cp.async.bulk.
void ptx_do_bulk(ptx_exec *x);
/// Marks the gaps between the variables of shared memory.
void ptx_shared_gaps(const ptx_module *module, ptx_block *block, uint32_t dynamic_offset);

/// Whether types, parts and operands of a video instruction fit each other.
bool ptx_video_is_right(const ptx_instruction *i);
/// The element of a pair type; other types are their own.
ptx_type ptx_half_type(ptx_type type);
/// Floats of any type as doubles, which hold all of them, and back with one rounding. ptx_float_pack returns
/// bits; `saturates` gives the largest number instead of an infinity.
double ptx_float_unpack(ptx_type type, uint64_t bits);
uint64_t ptx_float_pack(ptx_type type, double value, ptx_rounding rounding, bool saturates);
/// An integer of 64 bits as a double that rounds to any narrower type as the integer itself would.
double ptx_odd_double(uint64_t magnitude, bool is_negative);
uint64_t ptx_float_add(ptx_type type, uint64_t a, uint64_t b, ptx_rounding rounding);
uint64_t ptx_float_extreme(ptx_type type, uint64_t a, uint64_t b, bool is_max, bool keeps_nan);
/// A double to an integral double.
double ptx_integral(double value, ptx_rounding rounding);

#endif
