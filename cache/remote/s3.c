// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stores entries in a bucket of S3, or of a server that speaks as S3 does (MinIO, Ceph, Garage and others): the entry
// is the object PREFIX/DOMAIN/KEY. Requests are signed by AWS's fourth version, which libcurl does.
//
//   s3://BUCKET[/PREFIX]   ENDPOINT/BUCKET/PREFIX/DOMAIN/KEY with an endpoint of its own, otherwise
//                          https://BUCKET.s3.REGION.amazonaws.com/PREFIX/DOMAIN/KEY
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/remote/action.h"
#include "cache/remote/http_client.h"
#include "cache/remote/level.h"

enum { URL_SIZE = KILN_LEVEL_URL + 256, TEXT_MOST = 2000 };

typedef struct s3 {
  char url[KILN_LEVEL_URL]; ///< of the bucket with the prefix
  char session[TEXT_MOST + 32];
  const char *begins; ///< as kiln_level_options says
  uint64_t max_bytes;
  kiln_http *client; ///< owned
} s3;

static const char right[] = "KILN_CACHE_S3_KEY or _SECRET (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)";

static const char *given(const char *text) { return text && *text ? text : NULL; }

static void *create(const char *address, const kiln_level_options *options, kiln_error *err) {
  const kiln_s3_access *access = &options->s3;
  const char *region = given(access->region) ? access->region : "us-east-1";
  const char *key = given(access->key), *secret = given(access->secret), *session = given(access->session);
  char login[2 * TEXT_MOST + 2], signature[128];
  s3 *s = calloc(1, sizeof *s);
  kiln_status status = s ? kiln_s3_address(address, access, s->url, err)
                         : kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for a server");
  if (!status && ((key && (strchr(key, ':') || strlen(key) + strlen(secret) >= TEXT_MOST)) ||
                  (session && strlen(session) >= TEXT_MOST)))
    status = kiln_fail(
        err, KILN_STATUS_INVALID_ARGUMENT,
        "expected an access key without ':', and less than %d bytes of key, secret and session", TEXT_MOST);
  if (!status) {
    snprintf(login, sizeof login, "%s:%s", key ? key : "", secret ? secret : "");
    snprintf(signature, sizeof signature, "aws:amz:%s:s3", region);
    if (session) snprintf(s->session, sizeof s->session, "x-amz-security-token: %s", session);
    s->max_bytes = options->max_bytes;
    s->begins = options->begins;
    const kiln_http_config config = {.is_tls = !strncmp(s->url, "https:", 6),
                                     .ca_file = options->ca_file,
                                     .login = key ? login : NULL,
                                     .signature = key ? signature : NULL};
    s->client = kiln_http_create(&config);
    if (s->client) return s;
    kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for a server");
  }
  free(s);
  return NULL;
}

static void destroy(void *state) {
  s3 *s = state;
  kiln_http_destroy(s->client);
  free(s);
}

/// A request for one object: with `bytes` an upload of these. `hash` has room for the line with their hash,
/// which the server checks.
static kiln_http_request request_of(const s3 *s, const char *url, const uint8_t *bytes, size_t size,
                                    char hash[KILN_SHA256_HEX + 32]) {
  char digest[KILN_SHA256_HEX + 1];
  kiln_action_hash(bytes ? bytes : (const uint8_t *)"", bytes ? size : 0, digest);
  snprintf(hash, KILN_SHA256_HEX + 32, "x-amz-content-sha256: %s", digest);
  return (kiln_http_request){
      .url = url, .headers = {hash, *s->session ? s->session : NULL}, .send = bytes, .size = size};
}

static kiln_remote_state get(void *state, const char *domain, const char *key_hex, int64_t deadline,
                             kiln_buffer *out) {
  s3 *s = state;
  char url[URL_SIZE], hash[KILN_SHA256_HEX + 32];
  snprintf(url, sizeof url, "%s/%s/%s", s->url, domain, key_hex);
  kiln_http_request ask = request_of(s, url, NULL, 0, hash);
  ask.out = out, ask.limit = s->max_bytes, ask.begins = s->begins;
  kiln_http_answer answer = kiln_http_ask(s->client, &ask, deadline);
  return answer.over ? KILN_REMOTE_REFUSED : kiln_http_found(answer.status);
}

static kiln_remote_state put(void *state, const char *domain, const char *key_hex, const uint8_t *bytes,
                             size_t size, int64_t deadline) {
  s3 *s = state;
  char url[URL_SIZE], hash[KILN_SHA256_HEX + 32];
  snprintf(url, sizeof url, "%s/%s/%s", s->url, domain, key_hex);
  const kiln_http_request upload = request_of(s, url, bytes, size, hash);
  return kiln_http_stored(kiln_http_ask(s->client, &upload, deadline).status);
}

/// The code of an error of S3, <Code>...</Code>; "" without one.
static void read_code(const kiln_buffer *body, char *out, size_t capacity) {
  static const char begin[] = "<Code>";
  const char *at = body->size ? memmem(body->bytes, body->size, begin, sizeof begin - 1) : NULL;
  size_t size = 0, left = at ? body->size - (size_t)(at - (const char *)body->bytes) - (sizeof begin - 1) : 0;
  if (at) at += sizeof begin - 1;
  while (size < left && size + 1 < capacity && isalnum((unsigned char)at[size])) size++;
  if (at) memcpy(out, at, size);
  out[size] = 0;
}

static void explain(const kiln_http_answer *answer, const char *code, char *out, size_t capacity) {
  static const struct {
    const char *code, *text;
  } rows[] = {{"NoSuchBucket", "there is no such bucket"},
              {"InvalidAccessKeyId", "the server does not know KILN_CACHE_S3_KEY (AWS_ACCESS_KEY_ID)"},
              {"SignatureDoesNotMatch", "KILN_CACHE_S3_SECRET (AWS_SECRET_ACCESS_KEY) is not the key's"},
              {"ExpiredToken", "the credentials have expired"},
              {"InvalidToken", "AWS_SESSION_TOKEN is not accepted"},
              {"RequestTimeTooSkewed", "the clocks of server and client differ too much"},
              {"AuthorizationHeaderMalformed", "the bucket is in another region (KILN_CACHE_S3_REGION)"},
              {"PermanentRedirect", "the bucket is in another region (KILN_CACHE_S3_REGION)"},
              {"AccessDenied",
               "the key gives no such right; a look-up also wants the right to list the bucket "
               "(s3:ListBucket), without which what is absent looks forbidden"},
              {"SlowDown", "it is asked too often"}};
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!strcmp(code, rows[i].code)) {
      snprintf(out, capacity, "status %ld %s: %s", answer->status, code, rows[i].text);
      return;
    }
  kiln_http_explain(answer, right, out, capacity);
}

static bool check(void *state, const char *domain, int64_t deadline, char *out, size_t capacity) {
  s3 *s = state;
  char url[URL_SIZE], hash[KILN_SHA256_HEX + 32], code[64];
  kiln_buffer body = {0};
  snprintf(url, sizeof url, "%s/%s/%064d", s->url, domain, 0);
  kiln_http_request ask = request_of(s, url, NULL, 0, hash);
  ask.errors = &body;
  kiln_http_answer answer = kiln_http_ask(s->client, &ask, deadline);
  kiln_remote_state found = kiln_http_found(answer.status);
  read_code(&body, code, sizeof code);
  explain(&answer, code, out, capacity);
  kiln_buffer_deinit(&body);
  return found == KILN_REMOTE_FOUND || (found == KILN_REMOTE_ABSENT && strcmp(code, "NoSuchBucket"));
}

static bool check_put(void *state, const char *domain, int64_t deadline, char *out, size_t capacity) {
  s3 *s = state;
  static const char trial[] = KILN_LEVEL_TRIAL;
  char url[URL_SIZE], hash[KILN_SHA256_HEX + 32], none[KILN_SHA256_HEX + 32];
  snprintf(url, sizeof url, "%s/%s/doctor", s->url, domain); // no kernel's key
  const kiln_http_request upload = request_of(s, url, (const uint8_t *)trial, sizeof trial - 1, hash),
                          lookup = request_of(s, url, NULL, 0, none);
  bool good = kiln_http_try(s->client, &upload, &lookup, right, deadline, out, capacity);
  if (good) snprintf(out, capacity, "answers, takes an upload and gives it back");
  return good;
}

const kiln_level_kind kiln_level_s3 = {"s3://",   create, destroy, get,  put, check,
                                       check_put, NULL,   NULL,    NULL, NULL};
