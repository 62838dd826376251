// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/kiln/cache_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "tools/common/cli.h"

enum { MOST_BYTES = 1 << 20, NAME_SIZE = 64 };

static bool hex(const char *text, uint8_t *out, size_t size) {
  size_t got;
  const char *end;
  return strlen(text) == 2 * size && !sodium_hex2bin(out, size, text, 2 * size, NULL, &got, &end) && got == size;
}

static kiln_status parse_line(char *line, kiln_trust_key *out, bool *found) {
  char *save, *words[5];
  unsigned count = 0;
  *found = false;
  line[strcspn(line, "#")] = 0;
  for (char *w = strtok_r(line, " \t\r", &save); w && count < 5; w = strtok_r(NULL, " \t\r", &save)) words[count++] = w;
  if (!count) return KILN_OK;
  bool trust = count == 4 && !strcmp(words[0], "trust"), revoke = count == 3 && !strcmp(words[0], "revoke");
  memset(out, 0, sizeof *out);
  if ((!trust && !revoke) || strlen(words[1]) >= sizeof out->name || !hex(words[2], out->public_key, CACHE_PUBLIC_KEY) ||
      (trust && strlen(words[3]) >= sizeof out->domains))
    return KILN_STATUS_INVALID_ARGUMENT;
  strcpy(out->name, words[1]);
  if (trust) strcpy(out->domains, words[3]);
  out->revoked = revoke;
  *found = true;
  return KILN_OK;
}

kiln_status cache_trust_read(const char *path, cache_trust_list *out, kiln_error *err) {
  kiln_buffer text = {0};
  out->count = 0;
  if (access(path, F_OK) && errno == ENOENT) return KILN_OK;
  kiln_status status = cli_read_file(path, MOST_BYTES, &text, err);
  unsigned number = 0;
  char *save;
  // strtok_r merges empty lines; numbers count the others.
  for (char *line = status ? NULL : strtok_r((char *)text.bytes, "\n", &save); line && !status; line = strtok_r(NULL, "\n", &save)) {
    kiln_trust_key key;
    bool found;
    number++;
    status = parse_line(line, &key, &found);
    if (status) kiln_fail(err, status, "%s: line %u that is not empty: expected \"trust NAME KEY DOMAINS\" or \"revoke NAME KEY\"", path, number);
    else if (found && out->count == CACHE_TRUST_KEYS) status = kiln_fail(err, KILN_STATUS_LIMIT, "%s: more than %d keys", path, CACHE_TRUST_KEYS);
    else if (found) out->keys[out->count++] = key;
  }
  kiln_buffer_deinit(&text);
  return status;
}

kiln_status cache_trust_write(const char *path, const cache_trust_list *list, kiln_error *err) {
  kiln_buffer text = {0};
  char digits[2 * CACHE_PUBLIC_KEY + 1], folder[4096];
  for (uint32_t i = 0; i < list->count; i++) {
    const kiln_trust_key *k = &list->keys[i];
    sodium_bin2hex(digits, sizeof digits, k->public_key, CACHE_PUBLIC_KEY);
    kiln_buffer_format(&text, "%s %s %s%s%s\n", k->revoked ? "revoke" : "trust", k->name, digits, k->revoked ? "" : " ", k->revoked ? "" : k->domains);
  }
  snprintf(folder, sizeof folder, "%s", path);
  char *slash = strrchr(folder, '/');
  if (slash && slash != folder) {
    *slash = 0;
    kiln_fs_mkdir_all(folder, 0700); // the write says it when this failed
  }
  kiln_status status = text.failed ? kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory") : cli_write_file(path, text.bytes, text.size, err);
  kiln_buffer_deinit(&text);
  return status;
}

static kiln_status read_key(const char *path, const char *kind, uint8_t *out, size_t size, kiln_error *err) {
  kiln_buffer text = {0};
  kiln_status status = cli_read_file(path, MOST_BYTES, &text, err);
  if (!status) {
    char *save, *line = (char *)text.bytes;
    char *word = strtok_r(line, " \n", &save), *name = strtok_r(NULL, " \n", &save), *digits = strtok_r(NULL, " \n", &save);
    if (!word || strcmp(word, kind) || !name || !digits || !hex(digits, out, size))
      status = kiln_fail(err, KILN_STATUS_CORRUPT, "%s: expected \"%s NAME %zu hex digits\"", path, kind, 2 * size);
  }
  if (text.bytes) sodium_memzero(text.bytes, text.size);
  kiln_buffer_deinit(&text);
  return status;
}

kiln_status cache_secret_read(const char *path, uint8_t out[CACHE_SECRET_KEY], kiln_error *err) {
  struct stat st;
  if (stat(path, &st)) return kiln_fail(err, kiln_status_of_errno(errno), "%s: %s", path, strerror(errno));
  if (st.st_mode & 077) return kiln_fail(err, KILN_STATUS_DENIED, "%s: expected mode 0600, found %03o", path, (unsigned)st.st_mode & 0777);
  return read_key(path, "kiln-secret-key", out, CACHE_SECRET_KEY, err);
}

kiln_status cache_public_read(const char *path, uint8_t out[CACHE_PUBLIC_KEY], kiln_error *err) {
  return read_key(path, "kiln-public-key", out, CACHE_PUBLIC_KEY, err);
}

static kiln_status write_new(const char *path, mode_t mode, const char *text, kiln_error *err) {
  int fd = kiln_fs_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL, mode);
  int e = fd < 0 ? fd : kiln_fs_write(fd, text, strlen(text));
  if (fd >= 0 && !e) e = kiln_fs_sync(fd);
  int closed = fd < 0 ? 0 : kiln_fs_close(fd);
  e = e ? e : closed;
  return e ? kiln_fail(err, kiln_status_of_errno(-e), "%s: %s", path, strerror(-e)) : KILN_OK;
}

kiln_status cache_keys_make(const char *path, const char *name, kiln_error *err) {
  uint8_t public_key[CACHE_PUBLIC_KEY], secret_key[CACHE_SECRET_KEY];
  char digits[2 * CACHE_SECRET_KEY + 1], text[sizeof digits + NAME_SIZE + 32], public_path[4096];
  size_t length = strlen(name);
  if (!length || length >= NAME_SIZE || strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.@-") != length)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "key name: expected 1 to %d of [A-Za-z0-9_.@-], found \"%.80s\"", NAME_SIZE - 1, name);
  if (sodium_init() < 0) return kiln_fail(err, KILN_STATUS_TOOL, "libsodium cannot start: no source of randomness");
  crypto_sign_ed25519_keypair(public_key, secret_key);
  snprintf(text, sizeof text, "kiln-secret-key %s %s\n", name, sodium_bin2hex(digits, sizeof digits, secret_key, sizeof secret_key));
  kiln_status status = write_new(path, 0600, text, err);
  snprintf(text, sizeof text, "kiln-public-key %s %s\n", name, sodium_bin2hex(digits, sizeof digits, public_key, sizeof public_key));
  snprintf(public_path, sizeof public_path, "%s.pub", path);
  if (!status) status = write_new(public_path, 0644, text, err);
  sodium_memzero(secret_key, sizeof secret_key);
  return status;
}
