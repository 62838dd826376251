// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Printing kernels in the language, for print.c (statements, the kernel) and print_expression.c.
#ifndef KILN_COMPILER_FRONT_PRINT_H
#define KILN_COMPILER_FRONT_PRINT_H

#include "compiler/ir/ir.h"

typedef struct kiln_printer {
  kiln_buffer *out, *functions; ///< combiners go to the second
  const ir_kernel *kernel;
  const ir_block *combiner; ///< being printed, else NULL
  uint32_t next, function_count;
  unsigned indent;
} kiln_printer;

void kiln_put_type(kiln_buffer *out, ir_type t);
/// A combiner is a function of its own, so a constant from outside of it is repeated in it.
void kiln_put_value(kiln_printer *p, ir_value *v);
void kiln_put_values(kiln_printer *p, ir_value **values, uint32_t count);
/// The right side of a statement; nothing for what is a statement itself.
void kiln_put_expression(kiln_printer *p, const ir_op *op);

/// A combiner as a function of its own; returns its number (print.c).
uint32_t kiln_put_combiner(kiln_printer *p, ir_block *block);

#endif
