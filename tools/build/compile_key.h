// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The one place where compiler and cache meet: the key of a compile, made of everything that it depends on.
#ifndef KILN_TOOLS_BUILD_COMPILE_KEY_H
#define KILN_TOOLS_BUILD_COMPILE_KEY_H

#include "base/buffer.h"
#include "base/record.h"
#include "cache/cache.h"
#include "compiler/codegen.h"
#include "tools/kiln/toolchain.h"

/// Everything that decides the bytes of one artifact. All borrowed.
typedef struct compile_inputs {
  const kiln_buffer *canonical;
  const kiln_buffer *positions; ///< empty: no line information is wanted
  const char *symbol;
  const kiln_interface *interface;
  const kiln_target *target;
  const kiln_codegen_options *options;
  const toolchain *who;
} compile_inputs;

kiln_status compile_key(const compile_inputs *in, kiln_key *out, kiln_error *err);

#endif
