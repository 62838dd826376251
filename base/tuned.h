// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tuned choices: which configuration of a kernel is the best for a shape on a device. One text for everyone:
// tables that people keep and merge, and the notes of a bundle that the runtime reads (docs/tuning.md).
//
//   kiln tuned 2
//   kernel=softmax[T=f32] types="*f32 *f32 i32 i32" product="NVIDIA H200" processor=sm_90 units=132
//     bin.cols=1024 bin.rows=4096 aligned.cols=yes config="BLOCK=1024,warps=4" ns=12345 ...
//
// (the last two are one line). A line is one choice: NAME=VALUE words in any order; a value with spaces or
// quotes stands in double quotes, where \" and \\ are known. Empty lines and what follows a # at a line's
// begin are passed over. Fields are the rows of base/tuned.def and axes.
//
// An axis is one thing that the choice depends on. Values of integers fall into bins of which an octave has
// four (1, 2, .. 8, 10, 12, 14, 16, 20, ..); a bin is written as its least number.
//
//   bin.N        N, or V.extent0 of a view: an integer by its bin; below 0 as 0
//   aligned.N    yes: an integer is a multiple of 16, an address one of 16 bytes; no: it is not
//   stride.V.0   the stride of a view's axis: 0, 1 or other
#ifndef KILN_BASE_TUNED_H
#define KILN_BASE_TUNED_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/status.h"

enum {
  KILN_TUNED_VERSION = 2,      ///< of tables; 1, which had no figures of codes, is read as well
  KILN_TUNED_NOTE_VERSION = 1, ///< of what bundles hold, which has no history: runtimes of before read it
  KILN_TUNED_IDENTITY = 1,     ///< of identities
  KILN_TUNED_MOST_AXES = 32,
  KILN_TUNED_MOST_ENTRIES = 1 << 16,
  KILN_TUNED_MOST_BINS = 248,
  KILN_TUNED_ALIGNMENT = 16,
};

typedef enum kiln_tuned_field {
#define TUNED(name, spelling, value, use, part, text) KILN_TUNED_##name,
#include "base/tuned.def"
#undef TUNED
  KILN_TUNED_FIELDS
} kiln_tuned_field;

typedef enum kiln_tuned_axis_kind {
  KILN_TUNED_BIN,
  KILN_TUNED_ALIGNED,
  KILN_TUNED_STRIDE,
  KILN_TUNED_AXIS_KINDS
} kiln_tuned_axis_kind;

typedef struct kiln_tuned_axis {
  kiln_tuned_axis_kind kind;
  const char *name; ///< "cols", "a.extent0"; of a stride "a.0"
  uint8_t value;    ///< number of the bin; 1 aligned; stride 0, 1, or 2 for any other
} kiln_tuned_axis;

typedef struct kiln_tuned_entry {
  const char *texts[KILN_TUNED_FIELDS];       ///< arena; NULL where absent. Of numbers their spelling
  uint64_t numbers[KILN_TUNED_FIELDS];        ///< 0 where absent
  kiln_tuned_axis axes[KILN_TUNED_MOST_AXES]; ///< in order of kind and name
  uint32_t axis_count;
  uint32_t line; ///< from 1; 0: not read
} kiln_tuned_entry;

/// Which bin a value falls into: the value itself below 8, then its three highest bits and how many follow.
static inline uint8_t kiln_tuned_bin(int64_t value) {
  uint64_t v = value < 0 ? 0 : (uint64_t)value;
  unsigned below = 61u - (unsigned)__builtin_clzll(v | 4);
  return (uint8_t)(4 * below + (unsigned)(v >> below));
}
/// The least value of a bin.
int64_t kiln_tuned_bin_least(uint8_t bin);

/// The place of an error in a text; both from 1.
typedef struct kiln_tuned_place {
  uint32_t line, column;
} kiln_tuned_place;

/// Reads a text. Entries and their texts live in `arena`, which may be one that returns NULL: then
/// OUT_OF_MEMORY. SOURCE, with "FILE:LINE:COLUMN: " and what was expected and found; VERSION of a text of
/// another version. `out_place` (may be NULL) is set then.
KILN_MUST_USE kiln_status kiln_tuned_read(kiln_arena *arena, const char *file, const char *text, size_t size,
                                          kiln_tuned_entry **out, uint32_t *out_count,
                                          kiln_tuned_place *out_place, kiln_error *err);

/// Adds an axis in order. False when it exists, or there is no room.
bool kiln_tuned_add_axis(kiln_tuned_entry *entry, kiln_tuned_axis axis);

/// Which fields a writer leaves out.
typedef enum kiln_tuned_extent {
  KILN_TUNED_WHOLE,
  KILN_TUNED_WITHOUT_HISTORY,
  KILN_TUNED_IDENTITY_ONLY
} kiln_tuned_extent;
/// The first line of a text whose lines are written so: "kiln tuned 2" and a line's end.
void kiln_tuned_write_head(kiln_tuned_extent extent, kiln_buffer *out);
/// The entry as the one line that stands for it, without the line's end.
void kiln_tuned_write(const kiln_tuned_entry *entry, kiln_tuned_extent extent, kiln_buffer *out);
/// "bin.cols=1024": the axis as it is written.
void kiln_tuned_write_axis(const kiln_tuned_axis *axis, kiln_buffer *out);

/// The key of the note that holds the choices of a kernel, in `out`; false when the name is too long.
enum { KILN_TUNED_NOTE = 4200 };
bool kiln_tuned_note_key(const char *kernel, char out[KILN_TUNED_NOTE]);

#endif
