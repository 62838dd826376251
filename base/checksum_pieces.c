// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes XXH3-128 checksums of bytes that come piece by piece. Apart from checksum.c, which libkiln has.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/digest.h"

#include <string.h>

_Static_assert(sizeof(XXH3_state_t) <= sizeof(kiln_check_pieces), "");
_Static_assert(_Alignof(XXH3_state_t) <= _Alignof(kiln_check_pieces), "");

static XXH3_state_t *state_of(kiln_check_pieces *pieces) { return (XXH3_state_t *)(void *)pieces; }

void kiln_check_begin(kiln_check_pieces *pieces) {
  XXH3_INITSTATE(state_of(pieces));
  (void)XXH3_128bits_reset(state_of(pieces));
}

void kiln_check_add(kiln_check_pieces *pieces, const void *bytes, size_t size) {
  (void)XXH3_128bits_update(state_of(pieces), bytes, size);
}

kiln_check kiln_check_end(kiln_check_pieces *pieces) {
  kiln_check check;
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_of(pieces)));
  memcpy(check.bytes, canonical.digest, sizeof check.bytes);
  return check;
}
