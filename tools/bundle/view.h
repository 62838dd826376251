// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A bundle for tools: every kernel with its interface and codes, read with the runtime's reader.
#ifndef KILN_TOOLS_BUNDLE_VIEW_H
#define KILN_TOOLS_BUNDLE_VIEW_H

#include "base/arena.h"
#include "base/record.h"
#include "cache/bundle/writer.h"
#include "runtime/bundle/reader.h"

typedef struct view_code {
  kiln_code_entry entry;
  kiln_blob_entry blob;
  const char *target;
  kiln_code_info info;
  const uint8_t *info_bytes; ///< borrowed from the bundle
  size_t info_size;
} view_code;

typedef struct view_kernel {
  const char *name;
  kiln_interface interface;
  const uint8_t *record; ///< borrowed from the bundle
  size_t record_size;
  view_code *codes;
  uint32_t code_count;
} view_kernel;

typedef struct view_note {
  const char *key, *value;
} view_note;

typedef struct bundle_view {
  kiln_arena *arena;    ///< owned: arrays
  kiln_bundle *bundle;  ///< owned
  view_kernel *kernels; ///< sorted by name
  uint32_t kernel_count;
  view_note *notes;
  uint32_t note_count;
  kiln_statement statement;
} bundle_view;

kiln_status bundle_view_open(const char *path, bundle_view *out, kiln_error *err);
/// The bytes must outlive the view; messages call the bundle `name`.
kiln_status bundle_view_open_bytes(const char *name, const void *bytes, size_t size, bundle_view *out,
                                   kiln_error *err);
/// The bytes of a whole bundle into `out`, ended as by cli_read_file, once libkiln has found that the file is
/// a regular one and has the size that its header states. "-": standard input, up to 1 GiB. The caller
/// deinits `out`, also after a failure.
kiln_status bundle_view_read(const char *path, kiln_buffer *out, kiln_error *err);
void bundle_view_close(bundle_view *view);
/// The text of a note as commands print it: of one that the Python package alone reads, its size. Lives as long
/// as the view.
const char *bundle_view_note(const bundle_view *view, const view_note *note);

/// Which codes of a view go into another bundle; NULL takes all.
typedef bool bundle_filter(void *context, const view_kernel *kernel, const view_code *code);
/// Adds kernels, the codes that pass the filter, and notes to a writer. Kernels without code are left out. A
/// conflict with what the writer has is EXISTS; `first_wins` skips it, unless two kernels of one name have
/// different interfaces, or sizes of buffers or launches in their place that differ.
kiln_status bundle_view_copy(const bundle_view *view, kiln_bundle_writer *writer, bundle_filter *filter,
                             void *context, bool first_wins, kiln_error *err);

#endif
