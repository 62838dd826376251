// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that `kiln verify --key` covers every byte: each bit of a signed bundle is flipped, in the headers
// of ZIP, the central directory and the padding too. Many are verified at a time: each variant is a file of
// its own.
#include "base/bundle_format.h"
#include "base/digest.h"
#include "tests/runtime/fixture.h"

enum { BATCH = 500 };

static size_t verify_batch(size_t count, size_t first) {
  char *out;
  kiln_test_run(&out,
                "cd %s/v && %s/bin/kiln-tool verify --json --key=../secret.pub $(seq -f %%g.kb 0 %zu) "
                ">out.json; grep -o '\"good\": true' out.json | wc -l; grep -c '\"good\": ' out.json; "
                "grep -B9 '\"good\": true' out.json | head -20",
                kiln_test_folder(), kiln_test_build_path(), count - 1);
  size_t good, all;
  if (sscanf(out, "%zu %zu", &good, &all) != 2 || all != count)
    FAIL("%zu bundles were verified, %zu given: %s", all, count, out);
  if (good) FAIL("%zu of %zu variants from number %zu pass: %s", good, count, first, out);
  free(out);
  return count;
}

// Returns how many variants were refused.
static size_t flip_every_byte(const char *options) {
  size_t size, pending = 0, refused = 0, number = 0;
  char sign[700], path[600], *out;
  fixture_keys("secret", NULL);
  snprintf(sign, sizeof sign, "%s --sign %s", options, kiln_test_path("secret"));
  fixture_add_one(kiln_test_path("a.kbundle"), sign);
  if (kiln_test_run(
          &out,
          "cd %s && mkdir -p v && %s/bin/kiln-tool sign --key=secret --name=app --version=3 a.kbundle "
          "&& %s/bin/kiln-tool verify --key=secret.pub --name=app --min-version=3 a.kbundle",
          kiln_test_folder(), kiln_test_build_path(), kiln_test_build_path()))
    FAIL("%s", out);
  free(out);
  uint8_t *bytes = (uint8_t *)kiln_test_read(kiln_test_path("a.kbundle"), &size);
  for (size_t at = 0; at < size; at++)
    for (unsigned bit = kiln_test_full() ? 0 : at % 5; bit < 8; bit += kiln_test_full() ? 1 : 5) {
      bytes[at] ^= (uint8_t)(1u << bit);
      snprintf(path, sizeof path, "%s/v/%zu.kb", kiln_test_folder(), pending++);
      kiln_test_write(path, bytes, size);
      bytes[at] ^= (uint8_t)(1u << bit);
      if (pending < BATCH) continue;
      refused += verify_batch(pending, number);
      number += pending, pending = 0;
    }
  if (pending) refused += verify_batch(pending, number);
  fprintf(stderr, "%zu bytes, %zu flips, all refused\n", size, refused);
  free(bytes);
  return refused;
}

TEST(every_byte, of_a_signed_bundle) { CHECK(flip_every_byte("") > 3000); }
TEST(every_byte, of_a_signed_bundle_of_members) { CHECK(flip_every_byte("--member-per-kernel") > 3000); }
TEST(every_byte, of_a_signed_bundle_without_frames) {
  CHECK(flip_every_byte("--dictionary none --level 19") > 3000);
}

// A bundle of format 1.0 has no digest of the archive: it opens, but nobody can say that every byte is as
// written.
TEST(every_byte, the_older_format_is_named) {
  size_t size;
  char *out;
  fixture_add_one(kiln_test_path("a.kbundle"), "");
  uint8_t *bytes = (uint8_t *)kiln_test_read(kiln_test_path("a.kbundle"), &size);
  uint8_t *h = bytes + KILN_ZIP_LOCAL_SIZE + kiln_le16(bytes + KILN_ZIP_NAME_SIZE) +
               kiln_le16(bytes + KILN_ZIP_EXTRA_SIZE);
  kiln_put16(h + KILN_BH_MINOR, 0);
  kiln_put64(h + KILN_BH_STATEMENT, 0);
  memcpy(h + KILN_BH_CHECK, kiln_check_of(h, KILN_BH_CHECK).bytes, KILN_BUNDLE_CHECK);
  kiln_test_write(kiln_test_path("old.kbundle"), bytes, size);
  CHECK_INT(
      kiln_test_run(&out, "%s/bin/kiln-tool verify %s", kiln_test_build(), kiln_test_path("old.kbundle")), 1);
  CHECK(strstr(out, "format 1.0 does not cover the archive around the index"));
  free(out);
  kiln_library *l;
  kiln_error err;
  CHECK_OK(kiln_open_memory(bytes, size, &l, &err), err);
  kiln_close(l);
  if (kiln_test_run(&out,
                    "cd %s && %s/bin/kiln-tool merge -o new.kbundle old.kbundle && %s/bin/kiln-tool verify "
                    "new.kbundle && cmp new.kbundle a.kbundle",
                    kiln_test_folder(), kiln_test_build_path(), kiln_test_build_path()))
    FAIL("%s", out);
  free(out);
}

// The digest of the archive, computed from the page's words by another program.
TEST(every_byte, the_digest_is_what_the_page_says) {
  static const char program[] =
      "import hashlib, struct, sys, zlib\n"
      "b = open(sys.argv[1], 'rb').read()\n"
      "name, extra = struct.unpack_from('<HH', b, 26)\n"
      "begin = 30 + name + extra\n"
      "size, region = struct.unpack_from('<QQ', b, begin + 32)\n"
      "end = begin + size\n"
      "statement, = struct.unpack_from('<Q', b, begin + 240)\n"
      "directory, = struct.unpack_from('<I', b, len(b) - 6)\n"
      "at = begin + region + statement\n"
      "crc = struct.pack('<I', zlib.crc32(b[begin:end]))\n"
      "assert b[end:end + 4] == b'PK\\x07\\x08' and b[end + 4:end + 8] == crc == b[directory + 16:directory "
      "+ 20]\n"
      "rest = b[:begin] + b[end:end + 4] + b[end + 8:directory + 16] + b[directory + 20:]\n"
      "assert hashlib.blake2b(rest, digest_size=32).digest() == b[at + 72:at + 104]\n"
      "assert struct.unpack_from('<Q64s', b, at) == (7, b'app'.ljust(64, b'\\0'))\n";
  char *out;
  fixture_keys("secret", NULL);
  fixture_add_one(kiln_test_path("a.kbundle"), "");
  kiln_test_write(kiln_test_path("digest.py"), program, sizeof program - 1);
  if (kiln_test_run(NULL, "/usr/bin/python3 -c ''")) SKIP("python3 is not installed");
  if (kiln_test_run(&out,
                    "cd %s && %s/bin/kiln-tool sign --key=secret --name=app --version=7 a.kbundle && "
                    "/usr/bin/python3 digest.py a.kbundle",
                    kiln_test_folder(), kiln_test_build_path()))
    FAIL("%s", out);
  free(out);
}

// What is signed, and by which command.
TEST(every_byte, signing_states_name_and_version) {
  char *out;
  fixture_keys("secret", NULL);
  fixture_add_one(kiln_test_path("a.kbundle"), "");
  if (kiln_test_run(
          &out,
          "cd %s && t=%s/bin/kiln-tool && $t sign --key=secret --name=app --version=7 -o s.kb a.kbundle && "
          "$t verify --key=secret.pub s.kb | grep -q \"name 'app', version 7\" && "
          "$t inspect s.kb | grep -q \"stated: name 'app', version 7\" && "
          "$t inspect --json s.kb | grep -q '\"version\": 7, \"name\": \"app\"' && "
          "$t verify --key=secret.pub --min-version=7 --name=app s.kb && "
          "! $t verify --key=secret.pub --min-version=8 s.kb && "
          "! $t verify --key=secret.pub --name=ap s.kb && ! $t verify --min-version=1 a.kbundle && "
          // Signed again without the words: they stay. With others: they change.
          "$t sign --key=secret -o t.kb s.kb && cmp s.kb t.kb && "
          "$t sign --key=secret --version=0 --name= -o t.kb s.kb && ! $t verify --min-version=1 t.kb && "
          // A bundle made of it alone states the same, and is not signed.
          "$t merge -o m.kb s.kb && $t inspect m.kb | grep -q \"stated: name 'app', version 7\" && "
          "$t inspect m.kb | grep -q 'signature: none' && "
          "! $t sign --key=secret --version=-1 a.kbundle && "
          "! $t sign --key=secret --name=$(printf %%064d 0) a.kbundle && "
          "$t sign --key=secret --name=$(printf %%063d 0) -o l.kb a.kbundle",
          kiln_test_folder(), kiln_test_build_path()))
    FAIL("%s", out);
  free(out);
}
