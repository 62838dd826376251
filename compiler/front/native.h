// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Units of the native language: kernels of a module, their instances, configs and variants.
#ifndef KILN_COMPILER_FRONT_NATIVE_H
#define KILN_COMPILER_FRONT_NATIVE_H

#include "compiler/front/launch_expr.h"
#include "compiler/unit/unit.h"

typedef struct kiln_native_config {
  kiln_value *values;                ///< one a compile-time parameter
  const char *targets;               ///< canonical list of the processors it is for; NULL: all
  uint16_t warps, stages, registers; ///< registers: the most of a thread; 0: no limit
  bool is_generated;                 ///< from the ranges of @space
  const kiln_launch_expr *grid[3];
  const kiln_launch_expr **require;
  uint32_t require_count;
  const kiln_launch_expr *cost; ///< NULL: none is stated
  ir_place place;               ///< of its @config; line 0: it is that of the defaults
} kiln_native_config;

typedef struct kiln_native_variant {
  const kiln_launch_expr **conditions;
  uint32_t count;
  ir_place place;
} kiln_native_variant;

typedef struct kiln_native_instance {
  const kiln_item *kernel;
  kiln_value *values; ///< one a compile-time parameter; those that configs set hold their defaults
  ir_param *params;   ///< with the facts that callers promise
  kiln_native_config *configs;
  bool *never_holds; ///< one an attribute of the kernel: a @config whose @require holds in no launch
  kiln_native_variant *variants; ///< the last has no condition
  uint16_t max_registers;
  bool fp_strict, fp_flush;
  bool is_untyped;     ///< a parameter's type is wrong: what its body does with it tells nothing
  bool has_grid_limit; ///< of @grid_limit; else from the grid's expressions
  int64_t grid_limit[3];
  const char *tuning_key; ///< names of `@key`, with commas
  kiln_interface interface;
} kiln_native_instance;

typedef struct kiln_native_unit {
  kiln_unit unit;
  kiln_module *module;
  kiln_module *library;
  bool all_configs, all_variants, with_ranges;
  kiln_native_instance *instances;
  uint32_t count, capacity;
} kiln_native_unit;

/// Finds all instances of the module's kernels and completes their interfaces. Errors go to `d`.
void kiln_native_instances(kiln_native_unit *unit, const kiln_front_options *options, kiln_diagnostics *d);
/// Methods of a unit. Some call comes to the variant: those before it do not fit all that it fits. Of any variant if all
/// are asked for.
bool kiln_native_has_variant(const kiln_unit *unit, size_t index, uint32_t config, uint32_t variant);
/// Config `config` is one of the target's processor, and (unless all are asked for) none of those before it
/// always holds.
bool kiln_native_has_config(const kiln_unit *unit, size_t index, uint32_t config, const kiln_target *target);
/// Binds the compile-time parameters of kinds up to `last` to `values`: what callers choose
/// (KILN_CPARAM_TYPE), or also what configs do of the code (KILN_CPARAM_TUNE).
void kiln_native_bind(kiln_elab *e, const kiln_item *kernel, const kiln_value *values, uint8_t last);

/// Errors for unknown names in functions that no kernel calls.
void kiln_native_check_unused(kiln_native_unit *unit, kiln_diagnostics *d);

/// Warns about configs that no launch can come to.
void kiln_native_warn_of_configs(const kiln_native_unit *unit, kiln_diagnostics *d);
/// Warns about a kernel that asks which program it is and states no grid.
void kiln_native_warn_of_grid(const ir_kernel *kernel, const kiln_item *item, const char *file,
                              kiln_diagnostics *d);
/// Warns about stages (of a loop, or of the kernel at `place`) and about shared iterations that have no
/// effect.
void kiln_native_warn_of_loops(const ir_kernel *kernel, const char *file, ir_place place,
                               kiln_diagnostics *d);

#endif
