// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements the verify callback over a list of trusted keys. It uses nothing of libkiln, so that either
// form of one links with either form of the other.
#include "runtime/kiln_verify.h"

#include <errno.h>
#include <pthread.h>
#include <sodium/crypto_generichash_blake2b.h>
#include <sodium/crypto_sign_ed25519.h>
#include <sodium/utils.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY = KILN_PUBLIC_KEY_SIZE, DIGEST = 32, MOST_FILE = 1024 };

struct kiln_verifier {
  uint8_t (*keys)[KEY]; // owned
  size_t count;
  pthread_mutex_t lock; // of `reason`
  char reason[400];
};

static kiln_status fail(kiln_error *err, kiln_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static kiln_status fail(kiln_error *err, kiln_status status, const char *format, ...) {
  if (!err) return status;
  va_list args;
  va_start(args, format);
  err->status = status;
  vsnprintf(err->text, sizeof err->text, format, args);
  va_end(args);
  return status;
}

static kiln_status refuse_null(const char *function, kiln_error *err) {
  return fail(err, KILN_STATUS_INVALID_ARGUMENT, "%s: an argument is NULL", function);
}

// -------------------------------------------------------------------------------------------- keys

kiln_status kiln_verifier_create(kiln_verifier **out, kiln_error *err) {
  if (!out) return refuse_null(__func__, err);
  kiln_verifier *v = *out = calloc(1, sizeof *v);
  if (!v) return fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  pthread_mutex_init(&v->lock, NULL);
  return KILN_OK;
}

void kiln_verifier_destroy(kiln_verifier *v) {
  if (!v) return;
  pthread_mutex_destroy(&v->lock);
  free(v->keys);
  free(v);
}

kiln_status kiln_verifier_add(kiln_verifier *v, const uint8_t key[KEY], kiln_error *err) {
  if (!v || !key) return refuse_null(__func__, err);
  void *bigger = realloc(v->keys, (v->count + 1) * KEY);
  if (!bigger) return fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  v->keys = bigger;
  memcpy(v->keys[v->count++], key, KEY);
  return KILN_OK;
}

static bool parse_hex(const char *digits, uint8_t *out) {
  size_t got;
  return strlen(digits) == 2 * KEY && !sodium_hex2bin(out, KEY, digits, 2 * KEY, NULL, &got, NULL) &&
         got == KEY;
}

kiln_status kiln_verifier_add_hex(kiln_verifier *v, const char *digits, kiln_error *err) {
  uint8_t key[KEY];
  if (!v || !digits) return refuse_null(__func__, err);
  if (!parse_hex(digits, key))
    return fail(err, KILN_STATUS_INVALID_ARGUMENT, "a public key has %d hex digits, found '%.80s'", 2 * KEY,
                digits);
  return kiln_verifier_add(v, key, err);
}

// The digits are the only word, or the third after the kind and a name.
static bool parse_text(char *text, uint8_t *out) {
  char *save, *word = strtok_r(text, " \t\r\n", &save);
  if (word && !strcmp(word, "kiln-public-key")) {
    strtok_r(NULL, " \t\r\n", &save);
    word = strtok_r(NULL, " \t\r\n", &save);
  }
  return word && parse_hex(word, out) && !strtok_r(NULL, " \t\r\n", &save);
}

kiln_status kiln_verifier_add_file(kiln_verifier *v, const char *path, kiln_error *err) {
  char text[MOST_FILE + 1];
  uint8_t key[KEY];
  if (!v || !path) return refuse_null(__func__, err);
  FILE *f = fopen(path, "rbe");
  if (!f)
    return fail(err, errno == ENOENT ? KILN_STATUS_NOT_FOUND : KILN_STATUS_IO, "%s: %s", path,
                strerror(errno));
  size_t size = fread(text, 1, MOST_FILE, f);
  bool has_failed = ferror(f);
  fclose(f);
  if (has_failed) return fail(err, KILN_STATUS_IO, "%s: reading failed", path);
  if (size == KEY) return kiln_verifier_add(v, (const uint8_t *)text, err);
  text[size] = 0;
  if (parse_text(text, key)) return kiln_verifier_add(v, key, err);
  return fail(err, KILN_STATUS_INVALID_ARGUMENT,
              "%s: expected %d bytes, %d hex digits or \"kiln-public-key NAME DIGITS\", found %zu bytes",
              path, KEY, 2 * KEY, size);
}

// --------------------------------------------------------------------------------------- verifying

static int refuse(kiln_verifier *v, const kiln_verify_request *r, const char *what, const uint8_t *key) {
  char digits[2 * KEY + 1] = "";
  if (key) sodium_bin2hex(digits, sizeof digits, key, KEY);
  pthread_mutex_lock(&v->lock);
  snprintf(v->reason, sizeof v->reason, "%.200s: %s%s", r->bundle, what, digits);
  pthread_mutex_unlock(&v->lock);
  return 0;
}

static bool is_trusted(const kiln_verifier *v, const uint8_t *key) {
  for (size_t i = 0; i < v->count; i++)
    if (!memcmp(v->keys[i], key, KEY)) return true;
  return false;
}

// The digest last: it reads everything.
int kiln_verify_trusted(void *user, const kiln_verify_request *r) {
  kiln_verifier *v = user;
  uint8_t digest[DIGEST];
  if (!v || !r || !r->index || !r->digest) return 0;
  if (r->signed_bytes) {
    if (!r->signature || !r->public_key) return refuse(v, r, "the bundle is not signed", NULL);
    if (!is_trusted(v, r->public_key))
      return refuse(v, r, "the bundle is signed by a key that is not trusted: ", r->public_key);
    if (crypto_sign_ed25519_verify_detached(r->signature, r->signed_bytes, r->signed_size, r->public_key))
      return refuse(v, r, "the signature does not fit the header", NULL);
  }
  crypto_generichash_blake2b(digest, sizeof digest, r->index, r->index_size, NULL, 0);
  if (!memcmp(digest, r->digest, sizeof digest)) return 1;
  return refuse(v, r,
                r->signed_bytes ? "the index does not have the digest that was signed"
                                : "a code does not have the digest that was signed",
                NULL);
}

void kiln_verifier_reason(kiln_verifier *v, char *out, size_t size) {
  if (!out || !size) return;
  *out = 0;
  if (!v) return;
  pthread_mutex_lock(&v->lock);
  snprintf(out, size, "%s", v->reason);
  pthread_mutex_unlock(&v->lock);
}
