// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `kiln compile` of a kernel at a stage, a text (.kir). It goes past the cache, and into no bundle.
#ifndef KILN_TOOLS_BUILD_COMPILE_KIR_H
#define KILN_TOOLS_BUILD_COMPILE_KIR_H

#include "tools/build/session.h"

/// Whether the path names such a text.
bool is_kir_path(const char *path);

typedef struct compile_kir {
  session *s;
  const char *output; ///< NULL: nowhere
  const char *until;  ///< --until; NULL: all passes
  bool times;
} compile_kir;

/// Reads the file, whose target must be that of the command line where that names one, and compiles. Returns
/// the exit code.
int compile_kir_file(const compile_kir *c, const char *path);
/// The same of the plan's first job, which has no text yet: --until of another source.
int compile_kir_job(const compile_kir *c);

#endif
