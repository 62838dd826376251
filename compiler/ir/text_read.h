// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parts of reading a kernel's text, for the files text_read*.c.
#ifndef KILN_COMPILER_IR_TEXT_READ_H
#define KILN_COMPILER_IR_TEXT_READ_H

#include "compiler/ir/text.h"

/// As the text has it: "%12".
typedef struct ir_name {
  const char *start;
  size_t length;
  ir_place place;
} ir_name;

enum { IR_READ_REGIONS = 2 };

/// An operation while it is read.
typedef struct ir_read_op {
  ir_opcode code;
  ir_place place; ///< of its name in the text
  ir_type result; ///< the first one that is stated
  ir_attrs attrs;
  ir_value **operands;
  const kiln_layout **operand_layouts; ///< one an operand
  uint32_t operand_count, operand_capacity, layout_capacity;
  bool has_operand_layouts;
  ir_place source;
  ir_block *regions[IR_READ_REGIONS];
  uint32_t region_count, end_line;
} ir_read_op;

// ------------------------------------------------------------------------------- text_read_names.c

bool ir_read_name(ir_reading *r, ir_name *out);
/// Fails where the name has a value already.
bool ir_define_name(ir_reading *r, const ir_name *name, ir_value *value);
/// The value, which is defined and visible; else fails.
bool ir_find_name(ir_reading *r, const ir_name *name, ir_value **out);
/// What is defined between the two is not visible after them.
uint32_t ir_names_begin(ir_reading *r);
void ir_names_end(ir_reading *r, uint32_t begin);
/// Sets what ir_read_value_later promised.
bool ir_resolve_later(ir_reading *r);

// ------------------------------------------------------------------------------- text_conditions.c

/// Appends a line for each condition of the launch.
void ir_put_conditions(const ir_kernel *kernel, kiln_buffer *out);
/// Reads one, after "condition", up to the end of the line.
bool ir_read_condition(ir_reading *r, uint32_t line);

// -------------------------------------------------------------------------------- text_read_head.c

/// From "kernel" to the last line before "{".
bool ir_read_head(ir_reading *r);

// ------------------------------------------------------------------------------- text_read_attrs.c

/// What stands after the dot of an operation's name; NULL: nothing. Goes on after the name.
bool ir_read_kind(ir_reading *r, const char *kind, ir_read_op *op);
/// The value of a constant.
bool ir_read_constant(ir_reading *r, ir_read_op *op);
/// All that are on the line.
bool ir_read_attributes(ir_reading *r, uint32_t line, ir_read_op *op);

#endif
