// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stores entries over HTTP in the form of Bazel's cache, which bazel-remote, nginx with WebDAV and plain
// object stores serve:
//
//   URL/DOMAIN/cas/SHA256   the entry, written first
//   URL/DOMAIN/ac/KEY       an ActionResult that names one file, written second: it makes the entry visible
#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/remote/action.h"
#include "cache/remote/connection.h"
#include "cache/remote/level.h"

enum {
  IDLE = 64,
  ACTION_LIMIT = 4096,
  HEADERS_LIMIT = 1 << 16,
  REDIRECTS = 3,
  URL_SIZE = KILN_LEVEL_URL + 256
};

typedef struct http {
  char url[KILN_LEVEL_URL], ca_file[KILN_LEVEL_URL];
  const char *protocols;      ///< that it may be spoken with, also after a redirect: https stays https
  const char *begins;         ///< as kiln_level_options says
  struct curl_slist *headers; ///< owned
  uint64_t max_bytes;
  pthread_mutex_t mutex; ///< guards idle
  CURL *idle[IDLE];      ///< owned; each keeps its connection
  unsigned idle_count;
} http;

static void *create(const char *url, const kiln_level_options *options) {
  kiln_connection_start();
  http *h = calloc(1, sizeof *h);
  if (!h) return NULL;
  snprintf(h->url, sizeof h->url, "%s", url);
  size_t length = strlen(h->url);
  while (length && h->url[length - 1] == '/') h->url[--length] = 0;
  h->max_bytes = options->max_bytes;
  h->begins = options->begins;
  h->protocols = strncmp(url, "https:", 6) ? "http,https" : "https";
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
  const char *begins;  ///< NULL: anything
  size_t headers;      ///< bytes of them so far
  bool over;           ///< more came than was promised, or something else
  const uint8_t *send; ///< what is still to be sent
  size_t left, size;   ///< of it, of all
  CURLcode error;      ///< why there is no status
} body;

static size_t receive(char *bytes, size_t one, size_t count, void *context) {
  body *b = context;
  size_t size = one * count;
  if (!b->out) return size;
  b->over = size > b->limit - b->out->size;
  if (b->over) return 0; // ends the transfer
  kiln_buffer_bytes(b->out, bytes, size);
  if (b->out->failed) return 0;
  size_t there = b->begins ? strlen(b->begins) : 0;
  if (there > b->out->size) there = b->out->size;
  b->over = there && memcmp(b->out->bytes, b->begins, there) != 0;
  return b->over ? 0 : size;
}

/// libcurl keeps what it is sent of headers: a server that sends no end of them is left.
static size_t count_header(char *bytes, size_t one, size_t count, void *context) {
  body *b = context;
  (void)bytes;
  b->headers += one * count;
  return b->headers <= HEADERS_LIMIT ? one * count : 0;
}

static size_t send_more(char *bytes, size_t one, size_t count, void *context) {
  body *b = context;
  size_t size = one * count < b->left ? one * count : b->left;
  memcpy(bytes, b->send, size);
  b->send += size;
  b->left -= size;
  return size;
}

/// Over a connection that the server closed in the meantime the beginning was sent in vain.
static int send_again(void *context, curl_off_t offset, int origin) {
  body *b = context;
  if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > b->size) return CURL_SEEKFUNC_CANTSEEK;
  b->send -= b->size - b->left;
  b->send += offset;
  b->left = b->size - (size_t)offset;
  return CURL_SEEKFUNC_OK;
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
  curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, h->protocols);
  curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, h->protocols);
  curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, b->send ? 0L : 1L);
  curl_easy_setopt(c, CURLOPT_MAXREDIRS, (long)REDIRECTS);
  curl_easy_setopt(c, CURLOPT_HTTPHEADER, h->headers);
  curl_easy_setopt(c, CURLOPT_USERAGENT, "kiln/" KILN_VERSION);
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, receive);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, b);
  curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, count_header);
  curl_easy_setopt(c, CURLOPT_HEADERDATA, b);
  if (b->send) {
    curl_easy_setopt(c, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(c, CURLOPT_READFUNCTION, send_more);
    curl_easy_setopt(c, CURLOPT_READDATA, b);
    curl_easy_setopt(c, CURLOPT_SEEKFUNCTION, send_again);
    curl_easy_setopt(c, CURLOPT_SEEKDATA, b);
    curl_easy_setopt(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)b->left);
  }
  b->error = curl_easy_perform(c);
  if (b->error == CURLE_OK) curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
  give(h, c);
  return status;
}

static kiln_remote_state state_of(long status) {
  if (status == 200) return KILN_REMOTE_FOUND;
  if (status == 401 || status == 403) return KILN_REMOTE_DENIED;
  return status == 404 || status == 410 ? KILN_REMOTE_ABSENT : KILN_REMOTE_FAILED;
}

static kiln_remote_state fetch(http *h, const char *url, uint64_t limit, const char *begins, int64_t deadline,
                               kiln_buffer *out) {
  body b = {.out = out, .limit = limit, .begins = begins};
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

/// Of an upload: what the server will not take in any try is refused; missing rights and its own faults pass.
static kiln_remote_state stored_of(long status) {
  static const long never[] = {400, 411, 413, 414, 415, 422};
  if (status >= 200 && status < 300) return KILN_REMOTE_FOUND;
  if (status == 401 || status == 403) return KILN_REMOTE_DENIED;
  for (unsigned i = 0; i < sizeof never / sizeof *never; i++)
    if (status == never[i]) return KILN_REMOTE_REFUSED;
  return KILN_REMOTE_FAILED;
}

static kiln_remote_state store(http *h, const char *url, const uint8_t *bytes, size_t size,
                               int64_t deadline) {
  body b = {.send = bytes, .left = size, .size = size};
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

/// What the status of a look-up or an upload means, or why there is none.
static void explain(const http *h, const body *b, long status, char *out, size_t capacity) {
  static const struct {
    long least, most;
    const char *text;
  } rows[] = {{401, 401, "KILN_CACHE_REMOTE_TOKEN is missing or is not accepted"},
              {403, 403, "KILN_CACHE_REMOTE_TOKEN is missing or gives no such right"},
              {404, 404, "it is not there"},
              {405, 405, "this address takes no PUT"},
              {409, 409, "the folder is not there, and the server makes none"},
              {413, 413, "it takes no bodies of that size"},
              {429, 429, "it is asked too often"},
              {500, 500, "the server is at fault"},
              {501, 501, "the server knows no PUT"},
              {502, 504, "the server behind it does not answer"},
              {507, 507, "the server has no room left"},
              {300, 399, "it redirects, which uploads do not follow"}};
  if (!status && b->error == CURLE_UNSUPPORTED_PROTOCOL)
    snprintf(out, capacity, "it redirects to a protocol other than %s", h->protocols);
  else if (!status) snprintf(out, capacity, "%s", curl_easy_strerror(b->error));
  else {
    size_t i = 0, end = sizeof rows / sizeof *rows;
    while (i < end && (status < rows[i].least || status > rows[i].most)) i++;
    snprintf(out, capacity, "status %ld%s%s", status, i < end ? ": " : "", i < end ? rows[i].text : "");
  }
}

static bool check(void *context, const char *domain, int64_t deadline, char *out, size_t capacity) {
  http *h = context;
  char url[URL_SIZE];
  body b = {.out = NULL};
  snprintf(url, sizeof url, "%s/%s/ac/%064d", h->url, domain, 0);
  long status = exchange(h, url, &b, deadline);
  kiln_remote_state state = state_of(status);
  explain(h, &b, status, out, capacity);
  return state == KILN_REMOTE_FOUND || state == KILN_REMOTE_ABSENT;
}

/// Uploads the bytes and asks for them.
static bool try_put(http *h, const char *url, const void *bytes, size_t size, int64_t deadline, char *out,
                    size_t capacity) {
  char why[160];
  kiln_buffer got = {0};
  body up = {.send = bytes, .left = size, .size = size}, down = {.out = &got, .limit = size};
  long status = exchange(h, url, &up, deadline);
  bool stored = stored_of(status) == KILN_REMOTE_FOUND, same = false;
  if (!stored) {
    explain(h, &up, status, why, sizeof why);
    snprintf(out, capacity, "answers, but an upload fails: %s", why);
  } else {
    status = exchange(h, url, &down, deadline);
    same = status == 200 && !down.over && got.size == size && !memcmp(got.bytes, bytes, size);
    explain(h, &down, status, why, sizeof why);
    snprintf(out, capacity, "takes an upload, but does not give it back: %s",
             status == 200 || down.over ? "it gives other bytes" : why);
  }
  kiln_buffer_deinit(&got);
  return same;
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
