// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The front half of the compiler: text in, canonical kernels out. Never loads LLVM.
//
//   text -> unit (parsed, all kernels known) -> instances -> for each instance x config x variant x target: a
//   canonical kernel and its bytes
//
// One unit a source file, native (.kiln) or Triton IR (.ttir); after this header nobody knows which.
#ifndef KILN_COMPILER_FRONT_H
#define KILN_COMPILER_FRONT_H

#include "base/buffer.h"
#include "base/record.h"
#include "compiler/ir/canonical.h"
#include "compiler/ir/ir.h"
#include "compiler/passes/canonical/canonical.h"
#include "targets/targets.h"

typedef enum kiln_severity { KILN_NOTE, KILN_WARNING, KILN_ERROR } kiln_severity;

/// One message about the source, with the place; the sink decides what to do with it.
typedef struct kiln_diagnostic {
  kiln_severity severity;
  const char *file;
  uint32_t line, column; ///< from 1; 0: no place
  const char *text;      ///< one line: what was expected and found
} kiln_diagnostic;

/// Collects diagnostics in an arena, at most KILN_MAX_DIAGNOSTICS errors; then one note says that more were
/// left out.
enum { KILN_MAX_DIAGNOSTICS = 20 };
typedef struct kiln_diagnostics {
  kiln_arena *arena; ///< borrowed
  kiln_diagnostic *items;
  uint32_t count, capacity, errors, suppressed;
  uint32_t limit; ///< errors kept; 0: KILN_MAX_DIAGNOSTICS
} kiln_diagnostics;

void kiln_diagnose(kiln_diagnostics *d, kiln_severity severity, const char *file, ir_place place,
                   const char *format, ...) __attribute__((format(printf, 5, 6)));
/// Appends "file:line:column: error: text", the source line and a caret, for each item. `source` may be NULL.
void kiln_diagnostics_print(const kiln_diagnostics *d, const char *source, size_t size, kiln_buffer *out);

typedef struct kiln_unit kiln_unit; ///< lives in its arena

/// Most warps of a program of Triton IR (@warps has fewer), and stages of a pipeline.
enum { KILN_MOST_WARPS = 64, KILN_MOST_STAGES = 8 };

/// What a caller may set for a unit besides its text.
typedef struct kiln_front_options {
  const char *const *instances; ///< extra "softmax[T=f16]"; may be NULL
  size_t instance_count;
  bool all_configs;  ///< every config, not only those that launch rules can reach
  bool all_variants; ///< every variant of a config, not only those that some call takes
  bool with_ranges;  ///< the configs of @space too, after those of the source
  // Launch facts of a .ttir file (Triton's metadata); 0: from the JSON text next to it, or the default (4
  // warps, 3 stages).
  uint32_t warps, stages;
  const char *metadata; ///< JSON text next to a .ttir file, or NULL
  size_t metadata_size;
  const char
      *name_suffix;       ///< of a .ttir file: put after the look-up names of its kernels ("[4f2a]"), or NULL
  const char *tuning_key; ///< of a .ttir file: integer parameters, as @key names them ("M,N"); NULL: all
} kiln_front_options;

/// Reads a source. `file` is for messages and decides the language by its suffix. Returns NULL when there
/// were errors; they are in `d`. The unit borrows `text`.
kiln_unit *kiln_unit_open(kiln_arena *arena, const char *file, const char *text, size_t size,
                          const kiln_front_options *options, kiln_diagnostics *d);

size_t kiln_unit_instance_count(const kiln_unit *unit);
/// How to call instance `index` and how its codes are chosen. Borrowed from the unit.
const kiln_interface *kiln_unit_interface(kiln_unit *unit, size_t index);

/// True when instance `index` has config `config` for `target` (NULL: any): it is for the processor and the
/// launch rule can reach it, or all configs were asked for. Other configs are neither compiled nor launched
/// there.
bool kiln_unit_has_config(kiln_unit *unit, size_t index, uint32_t config, const kiln_target *target);
/// True when a launch of config `config` can come to variant `variant` (both in range), or all configs were
/// asked for: where its requirements hold, so may the conditions of a variant that is tried before.
bool kiln_unit_has_variant(const kiln_unit *unit, size_t index, uint32_t config, uint32_t variant);
/// The first such config; the count of configs when there is none.
uint32_t kiln_unit_first_config(kiln_unit *unit, size_t index, const kiln_target *target);

/// Config `config` (in range) is no @config of the source but from the ranges of @space.
bool kiln_unit_is_generated(const kiln_unit *unit, size_t index, uint32_t config);
/// What tuning of instance `index` depends on, by `@key`: "M,N,K"; "" where the source does not say. Borrowed
/// from the unit.
const char *kiln_unit_tuning_key(const kiln_unit *unit, size_t index);

/// The canonical kernel of instance x config x variant for a target: bound, inlined, checked, canonicalised.
/// Depends on the target only when the source asks for TARGET, WARP or SMEM. The kernel lives in `arena`.
/// NULL when there were errors, such as a config that the target does not have; they are in `d`.
ir_kernel *kiln_unit_lower(kiln_unit *unit, kiln_arena *arena, size_t index, uint32_t config,
                           uint32_t variant, const kiln_target *target, kiln_diagnostics *d);

/// Where a line of the source was made from: for Triton IR the place in Python ("k.py:12:8") when its loc
/// says one; else "". Returns `out`.
enum { KILN_PLACE_TEXT = 256 };
const char *kiln_unit_origin(const kiln_unit *unit, uint32_t line, char out[KILN_PLACE_TEXT]);

/// Where operation `number` of a canonical kernel that kiln_unit_lower made stands in the source; line 0: it
/// has no place.
ir_place kiln_operation_place(ir_kernel *kernel, uint32_t number);

/// The kernel as text in the kernel language, one operation a `let`; reading it back gives the same canonical
/// bytes.
void kiln_print_ir(ir_kernel *kernel, kiln_buffer *out);

#endif
