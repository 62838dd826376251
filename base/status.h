// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions that make and describe an outcome (base/status_code.h).
#ifndef KILN_BASE_STATUS_H
#define KILN_BASE_STATUS_H

#include <stdarg.h>

#include "base/status_code.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KILN_MUST_USE __attribute__((warn_unused_result))
#define KILN_PRINTF(a, b) __attribute__((format(printf, a, b)))
#else
#define KILN_MUST_USE
#define KILN_PRINTF(a, b)
#endif

/// Writes status and text to `err` (which may be NULL) and returns `status`, so that `return kiln_fail(...)`
/// reads well.
kiln_status kiln_fail(kiln_error *err, kiln_status status, const char *format, ...) KILN_PRINTF(3, 4);

/// The same about the operation of a kernel that has this number in its canonical form.
kiln_status kiln_fail_at(kiln_error *err, kiln_status status, uint32_t number, const char *format, ...)
    KILN_PRINTF(4, 5);

/// Puts "context: " before the text in `err`. Returns `status` unchanged. `err` may be NULL.
kiln_status kiln_context(kiln_error *err, kiln_status status, const char *format, ...) KILN_PRINTF(3, 4);

/// The status that fits a value of errno (ENOSPC is NO_SPACE, EACCES is DENIED, ...).
kiln_status kiln_status_of_errno(int error_number);

/// "NO_SPACE"; never NULL, also for numbers that are not in the table.
const char *kiln_status_name(kiln_status status);
/// One sentence about the status in general; never NULL.
const char *kiln_status_text(kiln_status status);
/// What a user can do; may be empty, never NULL.
const char *kiln_status_advice(kiln_status status);

/// Returns early from a function that owns nothing.
#define KILN_TRY(expression)                                \
  do {                                                      \
    kiln_status kiln_try_status = (expression);             \
    if (kiln_try_status != KILN_OK) return kiln_try_status; \
  } while (0)

#ifdef __cplusplus
}
#endif
#endif
