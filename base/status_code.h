// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The outcome of an operation, the same in every module, every tool and the public library: the part that
// applications see. base/status.h has the functions, which are ours alone.
#ifndef KILN_BASE_STATUS_CODE_H
#define KILN_BASE_STATUS_CODE_H

#include <stdint.h>

/// Stable codes; `status.def` has a row for each. KILN_OK is zero.
typedef enum kiln_status {
#define STATUS(name, number, text, advice) KILN_STATUS_##name = number,
#include "base/status.def"
#undef STATUS
} kiln_status;
#define KILN_OK KILN_STATUS_OK

enum { KILN_ERROR_TEXT = 996 };

/// Detail of a failure, in storage of the caller's. `text` is one line: what was expected, what was there,
/// the numbers.
typedef struct kiln_error {
  kiln_status status;
  char text[KILN_ERROR_TEXT];
  uint32_t operation; ///< 1 + the number of the operation of a kernel that it is about; 0: of none. After
                      ///< the text, so that the size and the fields of the first release stay
} kiln_error;

#endif
