// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `kiln compile` of a kernel in the text form of a stage (.kir). It bypasses the cache, and the result goes
// into no bundle.
#ifndef KILN_TOOLS_BUILD_COMPILE_KIR_H
#define KILN_TOOLS_BUILD_COMPILE_KIR_H

#include "tools/build/session.h"

typedef struct compile_kir {
  session *s;
  const char *output; ///< NULL: nowhere
  const char *until;  ///< --until; NULL: all passes
  bool times;
} compile_kir;

/// Reads the file and compiles it. If the command line names a target, it must be the file's. Returns the
/// exit code.
int compile_kir_file(const compile_kir *c, const char *path);
/// The same for the plan's first job: --until of a source that is not in text form.
int compile_kir_job(const compile_kir *c);

#endif
