// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The name in a bundle that was probably meant, for messages about one that is not there.
#ifndef KILN_TOOLS_BUNDLE_SUGGEST_H
#define KILN_TOOLS_BUNDLE_SUGGEST_H

#include "base/nearest.h"
#include "runtime/kiln.h"
#include "tools/bundle/view.h"

/// "; did you mean 'x'?", or "".
typedef struct name_suggestion {
  char text[300];
} name_suggestion;

/// A kernel; instances too, when the name of their kernel stands without what is in brackets.
name_suggestion suggest_kernel(const bundle_view *view, const char *name);
name_suggestion suggest_target(const bundle_view *view, const char *name);
/// No kernel of the library is called `name`: an error that says so. KILN_OK where there is one.
kiln_status require_kernel(const kiln_library *library, const char *bundle, const char *name,
                           kiln_error *err);

#endif
