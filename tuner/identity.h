// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a tuned choice is for, as a key of the cache's second kind: never equal to the key of a compile, and
// without the compiler, since a choice may outlive it.
#ifndef KILN_TUNER_IDENTITY_H
#define KILN_TUNER_IDENTITY_H

#include "base/tuned.h"

enum { KILN_TUNER_ID = 16 };

struct kiln_key; // cache/cache.h

/// The key of the entry's identity; the other fields of the entry are not in it.
KILN_MUST_USE kiln_status kiln_tuner_key(const kiln_tuned_entry *entry, struct kiln_key *out,
                                         kiln_error *err);
/// The first 16 hex digits of that key's digest and a NUL: what stands in the field `id`.
KILN_MUST_USE kiln_status kiln_tuner_id(const kiln_tuned_entry *entry, char out[KILN_TUNER_ID + 1],
                                        kiln_error *err);

/// A fingerprint of the tools that make code for a processor, by how they are noted in bundles; of code for
/// NVIDIA the assembler has a share. Either text may be NULL.
void kiln_tuner_toolchain(const char *processor, const char *compiler, const char *assembler,
                          char out[KILN_TUNER_ID + 1]);

#endif
