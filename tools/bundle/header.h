// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What `kiln header` and `kiln export-c` write in C: a kernel's parameters, their block, names of functions.
#ifndef KILN_TOOLS_BUNDLE_HEADER_H
#define KILN_TOOLS_BUNDLE_HEADER_H

#include "tools/bundle/view.h"

/// The macros that header_put_block's check uses.
#define HEADER_CHECK                                                                                        \
  "// The block has the size and the places that the bundle was built with; the struct is rounded up "      \
  "to 8 bytes.\n#ifdef __cplusplus\n#define KILN_HEADER_ASSERT static_assert\n#else\n#define "              \
  "KILN_HEADER_ASSERT _Static_assert\n#endif\n#define KILN_HEADER_CHECK(type, last, offset, size) \\\n"     \
  "  KILN_HEADER_ASSERT(offsetof(type, last) == offset && (sizeof(type) + 7) / 8 * 8 == size, \"layout of " \
  "\" #type);\n"

/// Any bytes, inside a string literal, or inside a comment of one line.
void header_put_literal(kiln_buffer *out, const char *text);
void header_put_comment(kiln_buffer *out, const char *text);
/// "x: *f32, n: i32", as signatures have it.
void header_put_params(kiln_buffer *out, const kiln_interface *in);
/// ", const void *x_, int32_t n_".
void header_put_arguments(kiln_buffer *out, const kiln_interface *in);
/// The struct NAME_args of the packed block, with a check of its layout.
void header_put_block(kiln_buffer *out, const kiln_interface *in, const char *name);
/// Statements that return `refuse(err, TEXT)` where extents or strides of a view are NULL.
void header_put_view_checks(kiln_buffer *out, const kiln_interface *in);
/// Statements that declare `packed` and fill it from the arguments.
void header_put_packing(kiln_buffer *out, const kiln_interface *in, const char *name);

/// The prefix and the kernel's own part of its symbol, with a number if NAME, NAME_get or NAME_args is taken.
/// `taken` is a tree of tsearch, NULL at first, which header_reserve fills too; tdestroy(taken,
/// header_keep_text) ends it. Names are the arena's.
const char *header_function_name(void **taken, const view_kernel *k, const char *prefix, kiln_arena *arena);
void header_reserve(void **taken, const char *name, kiln_arena *arena);
void header_keep_text(void *text);

/// Letters, digits and '_', a letter first, not kiln_.
bool header_is_prefix(const char *text);
/// "app_" for path/to/app.kbundle.
const char *header_default_prefix(const char *path, kiln_arena *arena);

#endif
