// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What makes a bundle's bytes hold together: the digest of the archive around the index, the checks, the sums
// of the ZIP archive and the signature (base/bundle_format.h). The writer seals what it wrote; signing
// changes the statement and seals again; verifying computes the digest once more.
#ifndef KILN_CACHE_BUNDLE_SEAL_H
#define KILN_CACHE_BUNDLE_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/status.h"

/// The digest that the statement of `file` has to state. CORRUPT when the archive is not laid out as the
/// writer does it, or a CRC-32 of KILN-INDEX is not that of its content. `file` has been opened by the bundle
/// reader.
kiln_status kiln_bundle_container(const uint8_t *file, size_t size, kiln_digest *out, kiln_error *err);

/// Page checks, top checks, digest and check of an index whose header is at `header`, from what its region
/// holds now.
void kiln_bundle_seal_index(uint8_t *header);

/// Seals a whole bundle after a change of its index region: digest of the archive, checks, signature (an
/// empty slot when `secret_key`, 64 bytes of Ed25519, is NULL), sums. CORRUPT as kiln_bundle_container; the
/// CRC-32s need not fit. A bundle without a statement (minor number 0) is sealed without the first.
kiln_status kiln_bundle_seal(uint8_t *file, size_t size, const uint8_t *secret_key, kiln_error *err);

#endif
