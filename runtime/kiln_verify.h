// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// libkiln-verify: the signature check of libkiln over libsodium. A verifier is a list of trusted Ed25519
// public keys; give it to kiln_open:
//
//   options.policy |= KILN_NEED_SIGNATURE;
//   options.verify = kiln_verify_trusted;
//   options.verify_user = verifier;
//
// Keys are added before the first use; after that any thread may verify. The verifier must outlive the
// library that it was given to.
#ifndef KILN_RUNTIME_KILN_VERIFY_H
#define KILN_RUNTIME_KILN_VERIFY_H

#include "runtime/kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

/// NULL in place of an argument is INVALID_ARGUMENT; kiln_verify_trusted accepts nothing then.
typedef struct kiln_verifier kiln_verifier;

enum { KILN_PUBLIC_KEY_SIZE = 32 };

/// A verifier that trusts nobody.
KILN_API kiln_status kiln_verifier_create(kiln_verifier **out, kiln_error *err);
KILN_API void kiln_verifier_destroy(kiln_verifier *verifier);
KILN_API kiln_status kiln_verifier_add(kiln_verifier *verifier, const uint8_t key[KILN_PUBLIC_KEY_SIZE],
                                       kiln_error *err);
/// 64 hex digits.
KILN_API kiln_status kiln_verifier_add_hex(kiln_verifier *verifier, const char *digits, kiln_error *err);
/// A file of 32 bytes, of 64 hex digits, or the line "kiln-public-key NAME DIGITS" of `kiln cache keygen`.
KILN_API kiln_status kiln_verifier_add_file(kiln_verifier *verifier, const char *path, kiln_error *err);

/// The kiln_verify_callback; `user` is the kiln_verifier. Accepts an index whose header a trusted key has
/// signed, and codes with their signed digest.
KILN_API int kiln_verify_trusted(void *user, const kiln_verify_request *request);

/// Why the last request was refused, cut to `size`; "" when none was.
KILN_API void kiln_verifier_reason(kiln_verifier *verifier, char *out, size_t size);

#ifdef __cplusplus
}
#endif
#endif
