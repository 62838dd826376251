// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes XXH3-128 checksums. xxhash's header is compiled into this file alone.
#define XXH_INLINE_ALL
#define XXH_NO_STREAM
#include <xxhash.h>

#include "base/digest.h"

#include <string.h>

kiln_check kiln_check_of(const void *bytes, size_t size) {
  kiln_check check;
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
  memcpy(check.bytes, canonical.digest, sizeof check.bytes);
  return check;
}

bool kiln_check_fits(const uint8_t *check, size_t check_size, const void *bytes, size_t size) {
  return !memcmp(kiln_check_of(bytes, size).bytes, check, check_size);
}
