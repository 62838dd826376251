// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests libkiln-verify: who is trusted, and what is refused with which words.
#include <sodium/utils.h>

#include "base/bundle_format.h"
#include "base/buffer.h"
#include "tests/runtime/fixture.h"
#include "tests/runtime/trusting.h"

typedef struct signed_bundle {
  uint8_t public_key[32];
  uint8_t *bytes;
  size_t size, header; // where the header begins
} signed_bundle;

static signed_bundle make_bundle(bool is_signed) {
  signed_bundle s = {0};
  char sign[600] = "";
  fixture_keys("secret", s.public_key);
  if (is_signed) snprintf(sign, sizeof sign, "--sign %s", kiln_test_path("secret"));
  fixture_add_one(kiln_test_path("a.kbundle"), sign);
  s.bytes = (uint8_t *)kiln_test_read(kiln_test_path("a.kbundle"), &s.size);
  s.header = KILN_ZIP_LOCAL_SIZE + kiln_le16(s.bytes + KILN_ZIP_NAME_SIZE) +
             kiln_le16(s.bytes + KILN_ZIP_EXTRA_SIZE);
  return s;
}

static kiln_status open_with(const signed_bundle *s, kiln_verifier *v, kiln_library **l, kiln_error *err) {
  kiln_source source = {.bytes = s->bytes, .size = s->size};
  return kiln_open(&(kiln_open_options){.size = sizeof(kiln_open_options),
                                        .sources = &source,
                                        .source_count = 1,
                                        .policy = KILN_NEED_SIGNATURE,
                                        .verify = kiln_verify_trusted,
                                        .verify_user = v},
                   l, err);
}

static void expect_reason(kiln_verifier *v, const char *want) {
  char reason[400];
  kiln_verifier_reason(v, reason, sizeof reason);
  if (!strstr(reason, want)) FAIL("the reason is '%s', expected '%s'", reason, want);
}

static void expect_refused(const signed_bundle *s, kiln_verifier *v, const char *want) {
  kiln_library *l;
  kiln_error err;
  CHECK_INT(open_with(s, v, &l, &err), KILN_STATUS_UNTRUSTED);
  expect_reason(v, want);
}

TEST(verify, the_right_key_opens_and_loads) {
  signed_bundle s = make_bundle(true);
  uint8_t other[32] = {1};
  kiln_verifier *v = trusting(other);
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  CHECK_OK(kiln_verifier_add(v, s.public_key, &err), err);
  CHECK_OK(open_with(&s, v, &l, &err), err);
  CHECK_OK(kiln_device_open(l, "host", &d, &err), err);
  CHECK_OK(kiln_kernel_get(d, "add_one", NULL, &k, &err), err);
  CHECK_OK(kiln_preload(k, &err), err);
  kiln_device_close(d);
  kiln_close(l);
  kiln_verifier_destroy(v);
}

TEST(verify, keys_come_from_digits_and_files) {
  signed_bundle s = make_bundle(true);
  char digits[65];
  kiln_error err;
  sodium_bin2hex(digits, sizeof digits, s.public_key, 32);
  kiln_test_write(kiln_test_path("raw"), s.public_key, 32);
  kiln_test_write(kiln_test_path("hex"), digits, 64);
  const char *const files[] = {"raw", "hex", "secret.pub"};
  for (unsigned i = 0; i < 4; i++) {
    kiln_verifier *v;
    kiln_library *l;
    CHECK_OK(kiln_verifier_create(&v, &err), err);
    if (i == 3) CHECK_OK(kiln_verifier_add_hex(v, digits, &err), err);
    else CHECK_OK(kiln_verifier_add_file(v, kiln_test_path(files[i]), &err), err);
    CHECK_OK(open_with(&s, v, &l, &err), err);
    kiln_close(l);
    CHECK_INT(kiln_verifier_add_hex(v, digits + 1, &err), KILN_STATUS_INVALID_ARGUMENT);
    CHECK_INT(kiln_verifier_add_file(v, kiln_test_path("secret"), &err), KILN_STATUS_INVALID_ARGUMENT);
    CHECK(strstr(err.text, "kiln-public-key NAME DIGITS"));
    CHECK_INT(kiln_verifier_add_file(v, kiln_test_path("absent"), &err), KILN_STATUS_NOT_FOUND);
    kiln_verifier_destroy(v);
  }
}

TEST(verify, what_is_not_trusted_is_refused) {
  signed_bundle s = make_bundle(true), plain = make_bundle(false);
  uint8_t other[32] = {1};
  kiln_verifier *v = trusting(s.public_key), *stranger = trusting(other);
  expect_refused(&s, stranger, "signed by a key that is not trusted: ");
  expect_refused(&plain, v, "the bundle is not signed");
  s.bytes[s.header + KILN_BH_SIZE + KILN_BG_SIGNATURE] ^= 1;
  expect_refused(&s, v, "the signature does not fit the header");
  kiln_verifier_destroy(v);
  kiln_verifier_destroy(stranger);
}

TEST(verify, a_changed_index_is_refused) {
  signed_bundle s = make_bundle(true);
  kiln_verifier *v = trusting(s.public_key);
  s.bytes[s.header + kiln_le64(s.bytes + s.header + KILN_BH_REGION) + 3] ^= 1;
  expect_refused(&s, v, "the index does not have the digest that was signed");
  kiln_verifier_destroy(v);
}

// The callback alone: with a good check but not the signed digest.
TEST(verify, a_code_without_its_digest_is_refused) {
  static const uint8_t code[] = "machine code";
  uint8_t key[32] = {1}, digest[32] = {0};
  kiln_verifier *v = trusting(key);
  kiln_verify_request r = {.bundle = "b", .index = code, .index_size = sizeof code, .digest = digest};
  CHECK_INT(kiln_verify_trusted(v, &r), 0);
  expect_reason(v, "b: a code does not have the digest that was signed");
  kiln_verifier_destroy(v);
}

TEST(verify, a_changed_code_does_not_load) {
  signed_bundle s = make_bundle(true);
  kiln_verifier *v = trusting(s.public_key);
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  // After the index come its data descriptor (16 bytes) and the local header of the codes.
  size_t local = s.header + kiln_le64(s.bytes + s.header + KILN_BH_CONTENT_SIZE) + 16;
  CHECK_INT(kiln_le32(s.bytes + local), KILN_ZIP_LOCAL);
  s.bytes[local + KILN_ZIP_LOCAL_SIZE + kiln_le16(s.bytes + local + KILN_ZIP_NAME_SIZE) +
          kiln_le16(s.bytes + local + KILN_ZIP_EXTRA_SIZE) + 20] ^= 1;
  CHECK_OK(open_with(&s, v, &l, &err), err);
  CHECK_OK(kiln_device_open(l, "host", &d, &err), err);
  CHECK_OK(kiln_kernel_get(d, "add_one", NULL, &k, &err), err);
  CHECK_INT(kiln_preload(k, &err), KILN_STATUS_CORRUPT);
  CHECK(strstr(err.text, "blob 0"));
  kiln_device_close(d);
  kiln_close(l);
  kiln_verifier_destroy(v);
}
