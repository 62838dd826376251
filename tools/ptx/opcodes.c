// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Holds the table of opcodes, generated from opcodes.def.
#include "tools/ptx/handlers.h"

const ptx_opcode ptx_opcodes[] = {
#define ELEMENT(name, shape, groups, joins, function) {#name, shape, groups, joins, function, NULL},
#define HANDLER(name, shape, groups, joins, function) {#name, shape, groups, joins, NULL, function},
#include "tools/ptx/opcodes.def"
#undef ELEMENT
#undef HANDLER
};
const uint32_t ptx_opcode_count = sizeof ptx_opcodes / sizeof *ptx_opcodes;
