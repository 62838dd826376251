// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stores entries over HTTP in the form of Bazel's cache, which bazel-remote, nginx with WebDAV and plain
// object stores serve:
//
//   URL/DOMAIN/cas/SHA256   the entry, written first
//   URL/DOMAIN/ac/KEY       an ActionResult that names one file, written second: it makes the entry visible
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/remote/action.h"
#include "cache/remote/http_client.h"
#include "cache/remote/level.h"

enum { ACTION_LIMIT = 4096, URL_SIZE = KILN_LEVEL_URL + 256 };

typedef struct http {
  char url[KILN_LEVEL_URL];
  const char *begins; ///< as kiln_level_options says
  uint64_t max_bytes;
  kiln_http *client; ///< owned
} http;

static const char right[] = "KILN_CACHE_REMOTE_TOKEN";

static void *create(const char *url, const kiln_level_options *options, kiln_error *err) {
  const kiln_http_config config = {
      .is_tls = !strncmp(url, "https:", 6), .ca_file = options->ca_file, .token = options->token};
  http *h = calloc(1, sizeof *h);
  if (!h) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for a server"), NULL;
  snprintf(h->url, sizeof h->url, "%s", url);
  size_t length = strlen(h->url);
  while (length && h->url[length - 1] == '/') h->url[--length] = 0;
  h->max_bytes = options->max_bytes;
  h->begins = options->begins;
  h->client = kiln_http_create(&config);
  if (h->client) return h;
  kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for a server");
  free(h);
  return NULL;
}

static void destroy(void *state) {
  http *h = state;
  kiln_http_destroy(h->client);
  free(h);
}

static kiln_remote_state fetch(http *h, const char *url, uint64_t limit, const char *begins, int64_t deadline,
                               kiln_buffer *out) {
  const kiln_http_request ask = {.url = url, .out = out, .limit = limit, .begins = begins, .follows = true};
  kiln_http_answer answer = kiln_http_ask(h->client, &ask, deadline);
  return answer.over ? KILN_REMOTE_REFUSED : kiln_http_found(answer.status);
}

static kiln_remote_state get(void *state, const char *domain, const char *key_hex, int64_t deadline,
                             kiln_buffer *out) {
  http *h = state;
  char url[URL_SIZE], hash[KILN_SHA256_HEX + 1], found[KILN_SHA256_HEX + 1];
  uint64_t size;
  snprintf(url, sizeof url, "%s/%s/ac/%s", h->url, domain, key_hex);
  kiln_remote_state result = fetch(h, url, ACTION_LIMIT, NULL, deadline, out);
  if (result != KILN_REMOTE_FOUND) return result;
  if (!kiln_action_decode(out->bytes, out->size, hash, &size) || size > h->max_bytes)
    return KILN_REMOTE_REFUSED;
  snprintf(url, sizeof url, "%s/%s/cas/%s", h->url, domain, hash);
  result = fetch(h, url, size, h->begins, deadline, out);
  if (result != KILN_REMOTE_FOUND) return result;
  kiln_action_hash(out->bytes, out->size, found);
  return out->size == size && !strcmp(hash, found) ? KILN_REMOTE_FOUND : KILN_REMOTE_REFUSED;
}

static kiln_remote_state store(http *h, const char *url, const uint8_t *bytes, size_t size,
                               int64_t deadline) {
  const kiln_http_request upload = {.url = url, .send = bytes, .size = size};
  return kiln_http_stored(kiln_http_ask(h->client, &upload, deadline).status);
}

static kiln_remote_state put(void *state, const char *domain, const char *key_hex, const uint8_t *bytes,
                             size_t size, int64_t deadline) {
  http *h = state;
  char url[URL_SIZE], hash[KILN_SHA256_HEX + 1];
  kiln_buffer action = {0};
  kiln_action_hash(bytes, size, hash);
  kiln_action_encode(hash, size, &action);
  snprintf(url, sizeof url, "%s/%s/cas/%s", h->url, domain, hash);
  kiln_remote_state result = action.failed ? KILN_REMOTE_FAILED : store(h, url, bytes, size, deadline);
  snprintf(url, sizeof url, "%s/%s/ac/%s", h->url, domain, key_hex);
  if (result == KILN_REMOTE_FOUND) result = store(h, url, action.bytes, action.size, deadline);
  kiln_buffer_deinit(&action);
  return result;
}

static bool check(void *context, const char *domain, int64_t deadline, char *out, size_t capacity) {
  http *h = context;
  char url[URL_SIZE];
  snprintf(url, sizeof url, "%s/%s/ac/%064d", h->url, domain, 0);
  const kiln_http_request ask = {.url = url, .follows = true};
  kiln_http_answer answer = kiln_http_ask(h->client, &ask, deadline);
  kiln_remote_state state = kiln_http_found(answer.status);
  kiln_http_explain(&answer, right, out, capacity);
  return state == KILN_REMOTE_FOUND || state == KILN_REMOTE_ABSENT;
}

/// Uploads the bytes and asks for them.
static bool try_put(http *h, const char *url, const void *bytes, size_t size, int64_t deadline, char *out,
                    size_t capacity) {
  const kiln_http_request upload = {.url = url, .send = bytes, .size = size},
                          lookup = {.url = url, .follows = true};
  return kiln_http_try(h->client, &upload, &lookup, right, deadline, out, capacity);
}

static bool check_put(void *context, const char *domain, int64_t deadline, char *out, size_t capacity) {
  http *h = context;
  static const char trial[] = KILN_LEVEL_TRIAL;
  enum { SIZE = sizeof trial - 1 };
  char url[URL_SIZE], hash[KILN_SHA256_HEX + 1];
  kiln_buffer action = {0};
  kiln_action_hash((const uint8_t *)trial, SIZE, hash);
  kiln_action_encode(hash, SIZE, &action);
  snprintf(url, sizeof url, "%s/%s/cas/%s", h->url, domain, hash);
  bool good = !action.failed && try_put(h, url, trial, SIZE, deadline, out, capacity);
  snprintf(url, sizeof url, "%s/%s/ac/%s", h->url, domain, hash); // no kernel's key
  good = good && try_put(h, url, action.bytes, action.size, deadline, out, capacity);
  if (good) snprintf(out, capacity, "answers, takes an upload and gives it back");
  kiln_buffer_deinit(&action);
  return good;
}

const kiln_level_kind kiln_level_http = {"http://", create, destroy, get,  put, check,
                                         check_put, NULL,   NULL,    NULL, NULL};
const kiln_level_kind kiln_level_https = {"https://", create, destroy, get,  put, check,
                                          check_put,  NULL,   NULL,    NULL, NULL};
