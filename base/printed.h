// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The lines that a kernel prints (docs/ir.md, `print`): on the host and in the interpreter. GPU code makes the same
// lines by the driver's printf.
#ifndef KILN_BASE_PRINTED_H
#define KILN_BASE_PRINTED_H

#include <stdint.h>

#include "base/types.h"

enum { KILN_PRINTED_AXES = 12 };

/// What one `print` prints. Host objects have it as it is here, before the text, which ends in a NUL.
typedef struct kiln_printed {
  uint8_t has_value;               ///< else the text alone
  uint8_t scalar;                  ///< KILN_I32, KILN_I64, KILN_F32 or KILN_F64; of pointers KILN_I64
  uint8_t is_pointer;              ///< printed as an address
  uint8_t is_unsigned;             ///< of integers
  uint8_t digits;                  ///< of integers: hexadecimal, at least so many; 0: decimal
  uint8_t rank;                    ///< 0: a scalar
  uint8_t log2[KILN_PRINTED_AXES]; ///< of each extent
} kiln_printed;

/// Digits of the largest index of an axis, which all of its indices are padded to.
int kiln_printed_width(unsigned log2);

/// Prints on standard output, in order of the elements: `pid (X, Y, Z) idx (I, ..)TEXT VALUE`. `elements` are
/// row-major; NULL where there is no value. Lines of calls in several threads are not mixed. What cannot be written is
/// lost.
void kiln_print_lines(const kiln_printed *what, const char *text, const uint32_t program_id[3],
                      const void *elements);

#endif
