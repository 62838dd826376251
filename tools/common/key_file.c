// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Creates, reads and writes files with Ed25519 keys.
#include "tools/common/key_file.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/output.h"
#include "tools/common/cli.h"

enum { MOST_BYTES = 4096 };

bool key_file_hex(const char *text, uint8_t *out, size_t size) {
  size_t got;
  const char *end;
  return strlen(text) == 2 * size && !sodium_hex2bin(out, size, text, 2 * size, NULL, &got, &end) &&
         got == size;
}

static kiln_status read_key(const char *path, const char *kind, uint8_t *out, size_t size, kiln_error *err) {
  kiln_buffer text = {0};
  kiln_status status = cli_read_file(path, "", MOST_BYTES, &text, err);
  if (!status) {
    char *save, *line = (char *)text.bytes;
    char *word = strtok_r(line, " \n", &save), *name = strtok_r(NULL, " \n", &save),
         *digits = strtok_r(NULL, " \n", &save);
    if (!word || strcmp(word, kind) || !name || !digits || !key_file_hex(digits, out, size))
      status = kiln_fail(err, KILN_STATUS_CORRUPT, "%s: expected \"%s NAME %zu hex digits\"", path, kind,
                         2 * size);
  }
  if (text.bytes) sodium_memzero(text.bytes, text.size);
  kiln_buffer_deinit(&text);
  return status;
}

kiln_status key_file_secret(const char *path, uint8_t out[KEY_FILE_SECRET], kiln_error *err) {
  struct stat st;
  if (stat(path, &st)) return kiln_fail(err, kiln_status_of_errno(errno), "%s: %s", path, strerror(errno));
  if (st.st_mode & 077)
    return kiln_fail(err, KILN_STATUS_DENIED, "%s: expected mode 0600, found %03o", path,
                     (unsigned)st.st_mode & 0777);
  return read_key(path, "kiln-secret-key", out, KEY_FILE_SECRET, err);
}

kiln_status key_file_public(const char *path, uint8_t out[KEY_FILE_PUBLIC], kiln_error *err) {
  return read_key(path, "kiln-public-key", out, KEY_FILE_PUBLIC, err);
}

kiln_status key_file_make(const char *path, const char *name, kiln_error *err) {
  uint8_t public_key[KEY_FILE_PUBLIC], secret_key[KEY_FILE_SECRET];
  char digits[2 * KEY_FILE_SECRET + 1], text[sizeof digits + KEY_FILE_NAME + 32], public_path[4096];
  size_t length = strlen(name);
  if (!length || length >= KEY_FILE_NAME ||
      strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.@-") != length)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "key name: expected 1 to %d of [A-Za-z0-9_.@-], found \"%.80s\"", KEY_FILE_NAME - 1,
                     name);
  if (sodium_init() < 0)
    return kiln_fail(err, KILN_STATUS_TOOL, "libsodium cannot start: no source of randomness");
  crypto_sign_ed25519_keypair(public_key, secret_key);
  snprintf(text, sizeof text, "kiln-secret-key %s %s\n", name,
           sodium_bin2hex(digits, sizeof digits, secret_key, sizeof secret_key));
  kiln_status status = kiln_output_create(path, 0600, text, strlen(text), err);
  snprintf(text, sizeof text, "kiln-public-key %s %s\n", name,
           sodium_bin2hex(digits, sizeof digits, public_key, sizeof public_key));
  snprintf(public_path, sizeof public_path, "%s.pub", path);
  if (!status) status = kiln_output_create(public_path, 0644, text, strlen(text), err);
  sodium_memzero(secret_key, sizeof secret_key);
  return status;
}
