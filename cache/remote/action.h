// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The one record of the Remote Execution API that is needed: an ActionResult that names one output file by
// SHA-256 and size, as servers of Bazel's HTTP cache check it. Protocol buffer wire format:
//
//   ActionResult { repeated OutputFile output_files = 2; }
//   OutputFile   { string path = 1; Digest digest = 2; }
//   Digest       { string hash = 1; int64 size_bytes = 2; }
#ifndef KILN_CACHE_REMOTE_ACTION_H
#define KILN_CACHE_REMOTE_ACTION_H

#include "base/buffer.h"

enum { KILN_SHA256_HEX = 64 };

void kiln_action_encode(const char hash[KILN_SHA256_HEX + 1], uint64_t size, kiln_buffer *out);
/// False for anything that does not name exactly one file by 64 hexadecimal digits.
bool kiln_action_decode(const uint8_t *bytes, size_t size, char out_hash[KILN_SHA256_HEX + 1],
                        uint64_t *out_size);
void kiln_action_hash(const uint8_t *bytes, size_t size, char out[KILN_SHA256_HEX + 1]);

#endif
