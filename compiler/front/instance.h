// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the makers of an instance's parts share: compile-time values (instances.c), parameters, attributes,
// configs, variants.
#ifndef KILN_COMPILER_FRONT_INSTANCE_H
#define KILN_COMPILER_FRONT_INSTANCE_H

#include "compiler/front/native.h"

/// Makes the instances of a unit, one after the other. Errors go to the diagnostics of `e`.
typedef struct kiln_maker {
  kiln_native_unit *unit;
  kiln_elab e;
  const kiln_item *kernel;
  kiln_native_instance *instance;
  kiln_atoms symbols; ///< of the instances so far; `mark`: 1 + which instance has it
} kiln_maker;

/// A thread of AMD's matrix processors has 512 vector registers, which is the most that any machine has.
enum { KILN_MOST_REGISTERS = 512 };

kiln_arena *kiln_maker_arena(kiln_maker *m);

/// Values of all compile-time parameters of the kernel: those that `over` names, else those of `base` (NULL:
/// none), else the defaults. False after an error.
bool kiln_compile_time_values(kiln_maker *m, kiln_list over, const kiln_value *base, kiln_value *out);
/// The compile-time parameter is set by configs, not by callers.
bool kiln_is_of_config(const kiln_node *cparam);
/// Place of the compile-time parameter `atom`, or -1.
int kiln_cparam_index(const kiln_item *kernel, const kiln_atom *atom);
/// "; did you mean 'x'?" of a name that is no compile-time parameter, or "".
const char *kiln_near_cparam(kiln_maker *m, kiln_nearest *near);
/// As it stands in names of instances and configs.
const char *kiln_value_spelling(kiln_arena *arena, kiln_value v);

/// Parameters with their promised facts.
void kiln_make_params(kiln_maker *m);

/// A kernel that was read whole.
bool kiln_is_kernel(const kiln_item *item);
bool kiln_is_attribute(const kiln_node *a, const char *name);
/// The one attribute `name` of the kernel, or NULL.
const kiln_node *kiln_find_attribute(const kiln_maker *m, const char *name);
/// Puts the configs that another kernel states where `kernel` has @configs.
void kiln_share_configs(kiln_maker *m, kiln_item *kernel);
/// Reports unknown and repeated attributes, and wrong counts of arguments.
void kiln_check_attributes(kiln_maker *m);
/// The attributes that are plain values: limits, @fp, @key.
void kiln_plain_attributes(kiln_maker *m);
/// @returns and @backward: what callers may allocate and differentiate.
void kiln_make_statements(kiln_maker *m);

/// What may be launched in place of instance `index` (`launches`). Makes the instances that it
/// launches, so pointers to instances change.
void kiln_make_launches(kiln_maker *m, uint32_t index);
/// The instance of kernel `item` with compile-time values `args` (NAMED nodes of literals), made when it does
/// not exist. Its number, or -1 after an error.
int64_t kiln_instance_of(kiln_maker *m, const kiln_item *item, kiln_list args, ir_place place);

void kiln_make_configs(kiln_maker *m);

/// The last variant is that without conditions.
void kiln_make_variants(kiln_maker *m);
kiln_span *kiln_encode_conditions(kiln_maker *m, const kiln_launch_expr *const *items, uint32_t count);
/// Names of the kernel's parameters, for texts of expressions.
const char **kiln_param_names(kiln_maker *m);

#endif
