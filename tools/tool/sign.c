// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln sign: fills the signature slot of a bundle. Nothing else changes but the archive's sums of the member
// that holds the slot: the CRC-32 in its data descriptor and in the central directory
// (APPNOTE.TXT 4.3.9, 4.3.12, 4.3.14 to 4.3.16).
#include <sodium/crypto_sign_ed25519.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/bundle_format.h"
#include "tools/common/key_file.h"
#include "tools/tool/bundle_view.h"
#include "tools/tool/tool.h"

enum {
  LOCAL_FLAGS = 6,
  LOCAL_CRC = 14,
  HAS_DESCRIPTOR = 1 << 3,
  DESCRIPTOR = 0x08074b50,
  DESCRIPTOR_CRC = 4,
  ENTRY = 0x02014b50,
  ENTRY_CRC = 16,
  ENTRY_SIZE = 46,
  END = 0x06054b50,
  END_DIRECTORY = 16,
  END_SIZE = 22,
  LOCATOR = 0x07064b50,
  LOCATOR_AT = 8,
  LOCATOR_SIZE = 20,
  END64_DIRECTORY = 48,
  END64_SIZE = 56,
};

static kiln_status misfit(kiln_error *err, const char *path, const char *what) {
  return kiln_fail(
      err, KILN_STATUS_CORRUPT,
      "%s: expected %s as Kiln writes it; repacked archives become bundles again by `kiln fix-index`", path,
      what);
}

/// Where the central directory begins; 0 when the end of the archive does not say so.
static uint64_t directory_of(const kiln_buffer *file) {
  if (file->size < END_SIZE + LOCATOR_SIZE) return 0;
  const uint8_t *end = file->bytes + file->size - END_SIZE, *locator = end - LOCATOR_SIZE;
  if (kiln_le32(end) != END) return 0;
  if (kiln_le32(end + END_DIRECTORY) != UINT32_MAX) return kiln_le32(end + END_DIRECTORY);
  uint64_t at = kiln_le32(locator) == LOCATOR ? kiln_le64(locator + LOCATOR_AT) : UINT64_MAX;
  return at <= file->size - END64_SIZE ? kiln_le64(file->bytes + at + END64_DIRECTORY) : 0;
}

/// The two places that hold the CRC of the first member, whose content is given.
static kiln_status find_sums(const char *path, const kiln_buffer *file, uint64_t content_end, uint8_t *out[2],
                             kiln_error *err) {
  bool described = kiln_le16(file->bytes + LOCAL_FLAGS) & HAS_DESCRIPTOR;
  uint64_t directory = directory_of(file);
  out[0] = file->bytes + (described ? content_end + DESCRIPTOR_CRC : LOCAL_CRC);
  if (described && (content_end > file->size - 16 || kiln_le32(file->bytes + content_end) != DESCRIPTOR))
    return misfit(err, path, "a data descriptor");
  if (!directory || directory > file->size - ENTRY_SIZE || kiln_le32(file->bytes + directory) != ENTRY)
    return misfit(err, path, "a central directory");
  out[1] = file->bytes + directory + ENTRY_CRC;
  return KILN_OK;
}

static void fill_slot(uint8_t *header, const uint8_t *secret) {
  uint8_t *slot = header + KILN_BH_SIZE;
  memset(slot, 0, KILN_BG_SIZE);
  kiln_put32(slot + KILN_BG_KIND, 1);
  memcpy(slot + KILN_BG_KEY, secret + KEY_FILE_SECRET - KEY_FILE_PUBLIC,
         KEY_FILE_PUBLIC); // libsodium keeps it in the second half
  crypto_sign_ed25519_detached(slot + KILN_BG_SIGNATURE, NULL, header, KILN_BH_SIZE, secret);
}

/// What is signed is checked whole first: a signature on damage would call it good.
static kiln_status check(const kiln_buffer *file, kiln_error *err) {
  bundle_view v;
  KILN_TRY(bundle_view_open_bytes(file->bytes, file->size, &v, err));
  kiln_status status = kiln_bundle_check_all(v.bundle, err);
  bundle_view_close(&v);
  return status;
}

static kiln_status sign(const char *path, kiln_buffer *file, const uint8_t *secret, kiln_error *err) {
  uint8_t *sums[2];
  KILN_TRY(check(file, err));
  uint64_t begin = KILN_ZIP_LOCAL_SIZE + kiln_le16(file->bytes + KILN_ZIP_NAME_SIZE) +
                   kiln_le16(file->bytes + KILN_ZIP_EXTRA_SIZE);
  uint8_t *header = file->bytes + begin;
  size_t size = (size_t)kiln_le64(header + KILN_BH_CONTENT_SIZE);
  KILN_TRY(find_sums(path, file, begin + size, sums, err));
  uint32_t before = (uint32_t)crc32_z(0, header, size);
  for (unsigned i = 0; i < 2; i++)
    if (kiln_le32(sums[i]) != before)
      return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: the CRC-32 of %s is %08x, the archive says %08x", path,
                       KILN_BUNDLE_INDEX_NAME, before, kiln_le32(sums[i]));
  fill_slot(header, secret);
  uint32_t after = (uint32_t)crc32_z(0, header, size);
  for (unsigned i = 0; i < 2; i++) kiln_put32(sums[i], after);
  return check(file, err);
}

static int sign_file(const char *path, const char *out, const uint8_t *secret) {
  kiln_buffer file = {0};
  kiln_error err = {0};
  kiln_status status = cli_read_file(path, (size_t)1 << 40, &file, &err);
  if (status == KILN_OK) status = sign(path, &file, secret, &err);
  if (status == KILN_OK) status = cli_write_file(out ? out : path, file.bytes, file.size, &err);
  kiln_buffer_deinit(&file);
  return status == KILN_OK ? CLI_OK : cli_report(status, &err);
}

int kiln_command_sign(int argc, char **argv) {
  const char *key = NULL, *out = NULL;
  const cli_option options[] = {
      {"key", 'k', CLI_TEXT, &key, "FILE", "secret key of `kiln cache keygen`"},
      {"out", 'o', CLI_TEXT, &out, "FILE", "the signed bundle (in place of the other)"}};
  const cli_page page = {.usage = "kiln sign --key=FILE [-o FILE] BUNDLE",
                         .summary = "Checks a bundle whole and signs it with Ed25519, in place of a "
                                    "signature that it has. `kiln verify --key=FILE.pub` checks it,\n"
                                    "and libkiln-verify does when an application opens it.",
                         .options = options,
                         .option_count = sizeof options / sizeof *options};
  uint8_t secret[KEY_FILE_SECRET];
  cli_list words = {0};
  kiln_error err = {0};
  int code = cli_parse(&page, argc, argv, &words);
  if (code == -1 && words.count != 1)
    code = cli_usage(&page, "expected one bundle, found %zu words", words.count);
  if (code == -1 && !key) code = cli_usage(&page, "--key is missing");
  if (code == -1 && key_file_secret(key, secret, &err) != KILN_OK) code = cli_report(err.status, &err);
  if (code == -1) code = sign_file(words.items[0], out, secret);
  cli_list_deinit(&words);
  return code;
}
