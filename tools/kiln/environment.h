// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Settings of `kiln`: the one place where it reads the environment, and only what base/env.def lists, and files that set the
// same names.
#ifndef KILN_TOOLS_KILN_ENVIRONMENT_H
#define KILN_TOOLS_KILN_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum environment_name {
#define ENV(name, role, reader, help) ENV_##name,
#include "base/env.def"
#undef ENV
  ENV_COUNT
} environment_name;

/// "KILN_CACHE_DIR".
const char *environment_variable(unsigned index);
/// What reads it: "kiln", "Python package".
const char *environment_reader(unsigned index);
/// Whether kiln.conf may set it: the settings of programs, not where folders of the user are.
bool environment_is_setting(unsigned index);
/// The value; NULL when unset, empty, or when the program runs with more rights than its caller.
const char *environment_get(environment_name name);
/// "1", "on", "yes", "true": true; unset: `absent`.
bool environment_flag(environment_name name, bool absent);
/// A word that is neither yes nor no is INVALID_ARGUMENT, not a no.
kiln_status environment_check_flag(environment_name name, kiln_error *err);
/// A number of at most `most` with an optional K, M, G or T. INVALID_ARGUMENT names variable and value.
kiln_status environment_size(environment_name name, uint64_t most, uint64_t *in_out, kiln_error *err);
/// LIMIT when it does not fit 64 bits.
kiln_status environment_parse_size(const char *text, uint64_t *out);
/// Searches the environment, from index `*at` on, for a variable that looks like a misspelt setting of Kiln,
/// and writes the warning to `out`. False when there are no more.
bool environment_next_misspelt(size_t *at, char *out, size_t capacity);

// ------------------------------------------------------------- kiln.conf of the user and of the system

/// Reads the files and puts what they set into the environment of this process, where the programs that it starts
/// find it too. What the environment has already, even empty, stays; the user's file comes before the system's.
/// A program with more rights than its caller reads none. An error in a file is SOURCE, and is also printed with
/// its line and a caret. To be called once, before any setting is read.
kiln_status config_load(kiln_error *err);
/// The file and line that set it; NULL where the environment did, or nothing.
const char *config_origin(environment_name name, unsigned *out_line);

#endif
