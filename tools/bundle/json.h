// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bundles as JSON, for programs: what `kiln inspect --json` and other commands with --json print. Keys are
// stable; new ones may be added.
#ifndef KILN_TOOLS_BUNDLE_JSON_H
#define KILN_TOOLS_BUNDLE_JSON_H

#include "tools/bundle/view.h"

/// `"key": "text"`, after a comma unless it is the first.
void json_member(kiln_buffer *out, bool first, const char *key, const char *text);
/// Target, config, variant, sizes, resources and producer of a code, as an object.
void json_code(kiln_buffer *out, const view_code *code);
/// Parameters, configs and variants of a kernel, and those of its codes that are for `target` (NULL: all), as
/// an object.
void json_kernel(kiln_buffer *out, const view_kernel *kernel, const char *target);
/// Everything about a bundle except its kernels: name, size, format, key of the signature, notes, targets; as
/// members of an object.
kiln_status json_bundle(kiln_buffer *out, const bundle_view *view, kiln_error *err);
/// Prints the buffer and a newline; CLI_FAILED when memory was exhausted.
int json_print(kiln_buffer *out);

#endif
