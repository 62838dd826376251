// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Settings from files: kiln.conf of the user and of the system, under the names of environment variables.
#ifndef KILN_TOOLS_KILN_CONFIG_H
#define KILN_TOOLS_KILN_CONFIG_H

#include "base/status.h"
#include "tools/kiln/environment.h"

/// Reads the files and puts what they set into the environment of this process, where the programs that it starts
/// find it too. What the environment has already, even empty, stays; the user's file comes before the system's.
/// A program with more rights than its caller reads none. An error in a file is SOURCE, and is also printed with
/// its line and a caret. To be called once, before any setting is read.
kiln_status config_load(kiln_error *err);
/// The file and line that set it; NULL where the environment did, or nothing.
const char *config_origin(environment_name name, unsigned *out_line);

#endif
