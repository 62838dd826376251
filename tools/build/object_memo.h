// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What `kiln compile` made of these bytes, known without reading them: a small entry of the cache, as the one
// for builds (bundle_memo.h), says which object came of a command and what was said of the source. An unchanged
// kernel is not parsed again.
#ifndef KILN_TOOLS_BUILD_OBJECT_MEMO_H
#define KILN_TOOLS_BUILD_OBJECT_MEMO_H

#include "tools/build/session.h"

/// Which object of the source; -1: the first config, the last variant.
typedef struct object_choice {
  int64_t config, variant;
} object_choice;

/// After session_read. True: `out` is the entry of the object, for the caller to deinit, and what a compile
/// would have said was said. False: nothing was said, and the source must be read.
bool object_memo_reuse(session *s, const object_choice *which, kiln_cache_entry *out);

/// Keeps what came of the command, after everything was said: `job` is a hit or was just compiled.
void object_memo_keep(session *s, const object_choice *which, const plan_job *job);

#endif
