// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Suggests the name in a bundle that was probably meant, for messages about a name that does not exist.
#ifndef KILN_TOOLS_BUNDLE_SUGGEST_H
#define KILN_TOOLS_BUNDLE_SUGGEST_H

#include "base/nearest.h"
#include "runtime/kiln.h"
#include "tools/bundle/view.h"

/// "; did you mean 'x'?", or "".
typedef struct name_suggestion {
  char text[300];
} name_suggestion;

/// Suggests a kernel. If `name` is a kernel's name without the brackets of an instance, an instance is
/// suggested.
name_suggestion suggest_kernel(const bundle_view *view, const char *name);
name_suggestion suggest_target(const bundle_view *view, const char *name);
/// An error if the library has no kernel `name`; KILN_OK if it has one.
kiln_status require_kernel(const kiln_library *library, const char *bundle, const char *name,
                           kiln_error *err);

#endif
