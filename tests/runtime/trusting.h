// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Verifiers for tests.
#ifndef KILN_TESTS_TRUSTING_H
#define KILN_TESTS_TRUSTING_H

#include "runtime/kiln_verify.h"
#include "tests/harness.h"

/// A verifier that trusts one key; the caller destroys it.
static kiln_verifier *trusting(const uint8_t key[32]) {
  kiln_verifier *v;
  kiln_error err;
  CHECK_OK(kiln_verifier_create(&v, &err), err);
  CHECK_OK(kiln_verifier_add(v, key, &err), err);
  return v;
}

#endif
