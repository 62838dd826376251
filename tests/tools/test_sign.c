// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that `kiln sign` vouches for nothing that it did not read: bundles whose sums and digests fit, but
// whose codes or index do not.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bundle_format.h"
#include "cache/bundle/seal.h"
#include "runtime/bundle/reader.h"
#include "tests/harness.h"

static void prepare(void) {
  static const char source[] = "kiln 1\n"
                               "kernel one(x: out *f32 @align(4)) @grid(1) { store(x, 1.0) }\n"
                               "kernel two(x: out *f32 @align(4)) @grid(1) { store(x, 2.0) }\n";
  char *out;
  kiln_test_write(kiln_test_path("k.kiln"), source, sizeof source - 1);
  if (kiln_test_run(&out,
                    "cd %s && k=%s/bin/kiln && $k cache keygen key && "
                    "$k build k.kiln -q -t host,gfx942 --no-cache -o plain.kb",
                    kiln_test_folder(), kiln_test_build_path()))
    FAIL("%s", out);
  free(out);
}

/// Seals the bytes, so that every sum and digest fits them, and signs them: the exit code, and what was said.
static int seal_and_sign(uint8_t *bytes, size_t size, char **out) {
  kiln_error err;
  CHECK_OK(kiln_bundle_seal(bytes, size, NULL, &err), err);
  kiln_test_write(kiln_test_path("forged.kb"), bytes, size);
  return kiln_test_run(out, "cd %s && rm -f signed.kb && %s/bin/kiln sign -k key -o signed.kb forged.kb",
                       kiln_test_folder(), kiln_test_build_path());
}

static void expect_refused(uint8_t *bytes, size_t size, const char *reason) {
  char *out;
  int code = seal_and_sign(bytes, size, &out);
  if (code != 1 || !strstr(out, reason)) FAIL("expected '%s', found exit code %d:\n%s", reason, code, out);
  free(out);
  CHECK(kiln_test_run(NULL, "test -e %s", kiln_test_path("signed.kb")) != 0);
}

TEST(sign, nothing_is_signed_that_does_not_fit_its_index) {
  size_t size, blobs;
  char *out;
  kiln_bundle *b;
  kiln_error err;
  prepare();
  char *good = kiln_test_read(kiln_test_path("plain.kb"), &size);
  uint8_t *bytes = malloc(size);
  memcpy(bytes, good, size);
  if (seal_and_sign(bytes, size, &out)) FAIL("as it was: %s", out);
  free(out);
  CHECK_OK(kiln_bundle_open_named(&(kiln_source){.bytes = good, .size = size}, "plain.kb",
                                  &(kiln_open_options){.size = sizeof(kiln_open_options)}, &b, &err),
           err);
  // A byte of each code and of each dictionary.
  blobs = (size_t)b->section_count[KILN_BUNDLE_BLOBS];
  CHECK(blobs >= 2);
  for (uint32_t i = 0; i < blobs; i++) {
    kiln_blob_entry e;
    CHECK_OK(kiln_bundle_blob_at(b, i, &e, &err), err);
    memcpy(bytes, good, size);
    bytes[e.offset + e.stored / 2] ^= 1;
    expect_refused(bytes, size, "[KILN-E0008]");
  }
  // A code that is no kernel's: no look-up comes to it.
  memcpy(bytes, good, size);
  uint8_t *kernel = bytes + b->header_at + kiln_le64(b->header + KILN_BH_REGION) +
                    kiln_le64(b->header + KILN_BH_SECTIONS + 16 * KILN_BUNDLE_KERNELS) +
                    (b->section_count[KILN_BUNDLE_KERNELS] - 1) * KILN_BK_SIZE;
  kiln_put32(kernel + KILN_BK_CODE_COUNT, kiln_le32(kernel + KILN_BK_CODE_COUNT) - 1);
  expect_refused(bytes, size, "3 of 4 codes belong to a kernel");
  kiln_bundle_close(b);
  free(bytes);
  free(good);
}
