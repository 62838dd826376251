// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Remembers what `kiln compile` made of a source: a small entry of the cache, like the one for builds
// (bundle_memo.h), records which object a command made and the messages about the source. An unchanged kernel
// is not parsed again.
#ifndef KILN_TOOLS_BUILD_OBJECT_MEMO_H
#define KILN_TOOLS_BUILD_OBJECT_MEMO_H

#include "tools/build/session.h"

/// Which object of the source. -1 stands for the first config and the last variant.
typedef struct object_choice {
  int64_t config, variant;
} object_choice;

/// After the source was looked at. True: the messages of the compile were printed, and `out` is the entry of the object,
/// for the caller to deinit; or `*out_is_there`: the file `output` (may be NULL) has the object already, by its digest,
/// and `out` is empty. False: nothing was printed, and the source must be compiled.
bool object_memo_reuse(session *s, const object_choice *which, const char *output, kiln_cache_entry *out,
                       bool *out_is_there);

/// Records what the command made, after all messages were printed. `job` is a hit or was just compiled.
void object_memo_keep(session *s, const object_choice *which, const plan_job *job);

#endif
