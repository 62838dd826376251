// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// HTTP in the shape of Bazel's cache, which bazel-remote, nginx with WebDAV and plain object stores serve:
//
//   URL/DOMAIN/ac/KEY       an ActionResult that names one file         (written second: it makes the entry
//   visible) URL/DOMAIN/cas/SHA256   the entry                                   (written first)
#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/remote/action.h"
#include "cache/remote/level.h"

enum { IDLE = 64, ACTION_LIMIT = 4096, REDIRECTS = 3, URL_SIZE = KILN_LEVEL_URL + 256 };

typedef struct http {
  char url[KILN_LEVEL_URL], ca_file[KILN_LEVEL_URL];
  struct curl_slist *headers; ///< owned
  uint64_t max_bytes;
  pthread_mutex_t mutex; ///< guards idle
  CURL *idle[IDLE];      ///< owned; each keeps its connection
  unsigned idle_count;
} http;

static void start_curl(void) { curl_global_init(CURL_GLOBAL_DEFAULT); }

static void *create(const char *url, const kiln_level_options *options) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, start_curl);
  http *h = calloc(1, sizeof *h);
  if (!h) return NULL;
  snprintf(h->url, sizeof h->url, "%s", url);
  size_t length = strlen(h->url);
  while (length && h->url[length - 1] == '/') h->url[--length] = 0;
  h->max_bytes = options->max_bytes;
  snprintf(h->ca_file, sizeof h->ca_file, "%s", options->ca_file ? options->ca_file : "");
  pthread_mutex_init(&h->mutex, NULL);
  h->headers = curl_slist_append(NULL, "Expect:"); // no waiting for "100 Continue"
  if (options->token) {
    char header[2048];
    snprintf(header, sizeof header, "Authorization: Bearer %.2000s", options->token);
    h->headers = curl_slist_append(h->headers, header);
  }
  return h;
}

static void destroy(void *state) {
  http *h = state;
  while (h->idle_count) curl_easy_cleanup(h->idle[--h->idle_count]);
  curl_slist_free_all(h->headers);
  pthread_mutex_destroy(&h->mutex);
  free(h);
}

static CURL *take(http *h) {
  pthread_mutex_lock(&h->mutex);
  CURL *c = h->idle_count ? h->idle[--h->idle_count] : NULL;
  pthread_mutex_unlock(&h->mutex);
  return c ? c : curl_easy_init();
}

static void give(http *h, CURL *c) {
  curl_easy_reset(c); // keeps live connections
  pthread_mutex_lock(&h->mutex);
  bool kept = h->idle_count < IDLE;
  if (kept) h->idle[h->idle_count++] = c;
  pthread_mutex_unlock(&h->mutex);
  if (!kept) curl_easy_cleanup(c);
}

typedef struct body {
  kiln_buffer *out;
  uint64_t limit;
  bool over; ///< more came than was promised
  const uint8_t *send;
  size_t left;
  CURLcode error; ///< why there is no status
} body;

static size_t receive(char *bytes, size_t one, size_t count, void *context) {
  body *b = context;
  size_t size = one * count;
  if (!b->out) return size;
  b->over = size > b->limit - b->out->size;
  if (b->over) return 0; // ends the transfer
  kiln_buffer_bytes(b->out, bytes, size);
  return b->out->failed ? 0 : size;
}

static size_t send_more(char *bytes, size_t one, size_t count, void *context) {
  body *b = context;
  size_t size = one * count < b->left ? one * count : b->left;
  memcpy(bytes, b->send, size);
  b->send += size;
  b->left -= size;
  return size;
}

/// One request. The HTTP status, or 0 when none came in time.
static long exchange(http *h, const char *url, body *b, int64_t deadline) {
  int64_t left = deadline - kiln_wire_now();
  CURL *c = left > 0 ? take(h) : NULL;
  long status = 0;
  if (!c) return 0;
  curl_easy_setopt(c, CURLOPT_URL, url);
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)left);
  curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)left);
  if (*h->ca_file) curl_easy_setopt(c, CURLOPT_CAINFO, h->ca_file);
  curl_easy_setopt(c, CURLOPT_PROXY, ""); // the environment is not asked
  curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, b->send ? 0L : 1L);
  curl_easy_setopt(c, CURLOPT_MAXREDIRS, (long)REDIRECTS);
  curl_easy_setopt(c, CURLOPT_HTTPHEADER, h->headers);
  curl_easy_setopt(c, CURLOPT_USERAGENT, "kiln/" KILN_VERSION);
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, receive);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, b);
  if (b->send) {
    curl_easy_setopt(c, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(c, CURLOPT_READFUNCTION, send_more);
    curl_easy_setopt(c, CURLOPT_READDATA, b);
    curl_easy_setopt(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)b->left);
  }
  b->error = curl_easy_perform(c);
  if (b->error == CURLE_OK) curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
  give(h, c);
  return status;
}

static kiln_remote_state state_of(long status) {
  if (status == 200) return KILN_REMOTE_FOUND;
  return status == 404 || status == 410 ? KILN_REMOTE_ABSENT : KILN_REMOTE_FAILED;
}

static kiln_remote_state fetch(http *h, const char *url, uint64_t limit, int64_t deadline, kiln_buffer *out) {
  body b = {.out = out, .limit = limit};
  kiln_buffer_clear(out);
  long status = exchange(h, url, &b, deadline);
  return b.over ? KILN_REMOTE_REFUSED : state_of(status);
}

static kiln_remote_state get(void *state, const char *domain, const char *key_hex, int64_t deadline,
                             kiln_buffer *out) {
  http *h = state;
  char url[URL_SIZE], hash[KILN_SHA256_HEX + 1], found[KILN_SHA256_HEX + 1];
  uint64_t size;
  snprintf(url, sizeof url, "%s/%s/ac/%s", h->url, domain, key_hex);
  kiln_remote_state result = fetch(h, url, ACTION_LIMIT, deadline, out);
  if (result != KILN_REMOTE_FOUND) return result;
  if (!kiln_action_decode(out->bytes, out->size, hash, &size) || size > h->max_bytes)
    return KILN_REMOTE_REFUSED;
  snprintf(url, sizeof url, "%s/%s/cas/%s", h->url, domain, hash);
  result = fetch(h, url, size, deadline, out);
  if (result != KILN_REMOTE_FOUND) return result;
  kiln_action_hash(out->bytes, out->size, found);
  return out->size == size && !strcmp(hash, found) ? KILN_REMOTE_FOUND : KILN_REMOTE_REFUSED;
}

/// Of an upload: what the server will not take in any try is refused; missing rights and its own faults pass.
static kiln_remote_state stored_of(long status) {
  static const long never[] = {400, 411, 413, 414, 415, 422};
  if (status >= 200 && status < 300) return KILN_REMOTE_FOUND;
  for (unsigned i = 0; i < sizeof never / sizeof *never; i++)
    if (status == never[i]) return KILN_REMOTE_REFUSED;
  return KILN_REMOTE_FAILED;
}

static kiln_remote_state store(http *h, const char *url, const uint8_t *bytes, size_t size,
                               int64_t deadline) {
  body b = {.send = bytes, .left = size};
  return stored_of(exchange(h, url, &b, deadline));
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

static bool check(void *state, const char *domain, int64_t deadline, char *out, size_t capacity) {
  http *h = state;
  char url[URL_SIZE];
  body b = {.out = NULL};
  snprintf(url, sizeof url, "%s/%s/ac/%064d", h->url, domain, 0);
  long status = exchange(h, url, &b, deadline);
  if (!status) snprintf(out, capacity, "%s", curl_easy_strerror(b.error));
  else if (status == 401 || status == 403)
    snprintf(out, capacity, "status %ld: KILN_CACHE_REMOTE_TOKEN is missing or is not accepted", status);
  else snprintf(out, capacity, "status %ld", status);
  return state_of(status) != KILN_REMOTE_FAILED;
}

const kiln_level_kind kiln_level_http = {"http://", create, destroy, get, put, check, NULL, NULL, NULL, NULL};
const kiln_level_kind kiln_level_https = {"https://", create, destroy, get,  put,
                                          check,      NULL,   NULL,    NULL, NULL};
