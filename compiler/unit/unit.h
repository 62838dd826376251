// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a source file of either language is to compiler/front.h: a unit with a table of functions. A front
// end embeds kiln_unit as the first member of its own struct and sets `methods`; unit.c chooses the front end
// by the suffix of the file and does what both share.
#ifndef KILN_COMPILER_UNIT_UNIT_H
#define KILN_COMPILER_UNIT_UNIT_H

#include "compiler/front.h"

typedef struct kiln_unit_methods {
  size_t (*instance_count)(const kiln_unit *unit);
  /// Interface of instance `index` (below instance_count); lives as long as the unit.
  const kiln_interface *(*interface)(kiln_unit *unit, size_t index);
  /// The launch rule of `target` can reach config `config` of instance `index` (both in range). NULL: it
  /// reaches all.
  bool (*has_config)(const kiln_unit *unit, size_t index, uint32_t config, const kiln_target *target);
  /// Launches of config `config` of instance `index` can come to variant `variant` (all in range). NULL: they
  /// can.
  bool (*has_variant)(const kiln_unit *unit, size_t index, uint32_t config, uint32_t variant);
  /// Builds the kernel of instance x config x variant (all in range, unit.c checks them) in `arena`: typed
  /// and complete, but not yet canonical. unit.c then canonicalises and verifies it. NULL with diagnostics in
  /// `d` when there were errors.
  ir_kernel *(*build)(kiln_unit *unit, kiln_arena *arena, size_t index, uint32_t config, uint32_t variant,
                      const kiln_target *target, kiln_diagnostics *d);
  /// Errors of a canonical kernel, which shows more of where pointers come from. NULL: none are possible.
  void (*check)(ir_kernel *kernel, const char *file, kiln_diagnostics *d);
  /// Config `config` is from a range that the source states for tuning. NULL: none is.
  bool (*is_generated)(const kiln_unit *unit, size_t index, uint32_t config);
  /// The integer parameters that tuning depends on ("M,N"); "" where the source does not say. NULL: it never
  /// does.
  const char *(*tuning_key)(const kiln_unit *unit, size_t index);
  /// Where a line of the source was made from ("k.py:12:8"), or "". NULL: sources are written by hand.
  const char *(*origin)(const kiln_unit *unit, uint32_t line, char out[KILN_PLACE_TEXT]);
} kiln_unit_methods;

struct kiln_unit {
  const kiln_unit_methods *methods; ///< static
  kiln_arena *arena;                ///< borrowed; the unit and all it makes itself live in it
  const char *file;                 ///< arena
};

/// Opens a source of the native language. Contract of kiln_unit_open.
kiln_unit *kiln_native_unit_open(kiln_arena *arena, const char *file, const char *text, size_t size,
                                 const kiln_front_options *options, kiln_diagnostics *d);
/// Opens a source in Triton IR (compiler/ttir). Contract of kiln_unit_open.
kiln_unit *kiln_ttir_unit_open(kiln_arena *arena, const char *file, const char *text, size_t size,
                               const kiln_front_options *options, kiln_diagnostics *d);

#define KILN_SYMBOL_PREFIX "kiln_"

/// The prefix and `name` with every byte that C does not allow in a name replaced by '_'. In `arena`.
const char *kiln_unit_symbol(kiln_arena *arena, const char *name);

#endif
