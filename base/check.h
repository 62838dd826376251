// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Invariants of the programs. Not for libkiln, which never ends a process: it links nothing of this.
#ifndef KILN_BASE_CHECK_H
#define KILN_BASE_CHECK_H

/// Says where and what, and ends the process.
_Noreturn void kiln_check_failed(const char *file, int line, const char *condition);

/// What holds whatever the input is, in every build: keep it cheap.
#define KILN_ASSERT(condition) ((condition) ? (void)0 : kiln_check_failed(__FILE__, __LINE__, #condition))

/// The same where looking costs more than a few loads: builds with KILN_CHECKED (debug and sanitizers).
#ifdef KILN_CHECKED
#define KILN_ASSERT_DEEP(condition) KILN_ASSERT(condition)
#else
#define KILN_ASSERT_DEEP(condition) ((void)sizeof(condition))
#endif

#endif
