// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sends HTTP requests with libcurl and receives their answers within limits of time and size.
#include "cache/remote/http_client.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cache/remote/connection.h"
#include "cache/wire.h"

enum { IDLE = 64, HEADERS_LIMIT = 1 << 16, ERROR_LIMIT = 1 << 16, REDIRECTS = 3 };

struct kiln_http {
  char *ca_file, *login, *signature; ///< owned; NULL: none
  const char *protocols;             ///< that may be spoken, also after a redirect: https stays https
  struct curl_slist *headers;        ///< owned; of every request
  pthread_mutex_t mutex;             ///< guards idle
  CURL *idle[IDLE];                  ///< owned; each keeps its connection
  unsigned idle_count;
};

static bool copy(const char *text, char **out) {
  *out = text && *text ? strdup(text) : NULL;
  return *out || !text || !*text;
}

kiln_http *kiln_http_create(const kiln_http_config *config) {
  kiln_connection_start();
  kiln_http *h = calloc(1, sizeof *h);
  if (!h) return NULL;
  pthread_mutex_init(&h->mutex, NULL);
  h->protocols = config->is_tls ? "https" : "http,https";
  // No waiting for "100 Continue"; libcurl would sign the line, which is not sent.
  if (!config->signature) h->headers = curl_slist_append(NULL, "Expect:");
  if (config->token) {
    char header[2048];
    snprintf(header, sizeof header, "Authorization: Bearer %.2000s", config->token);
    h->headers = curl_slist_append(h->headers, header);
  }
  if (copy(config->ca_file, &h->ca_file) && copy(config->login, &h->login) &&
      copy(config->signature, &h->signature))
    return h;
  kiln_http_destroy(h);
  return NULL;
}

void kiln_http_destroy(kiln_http *h) {
  if (!h) return;
  while (h->idle_count) curl_easy_cleanup(h->idle[--h->idle_count]);
  curl_slist_free_all(h->headers);
  pthread_mutex_destroy(&h->mutex);
  free(h->ca_file);
  free(h->login);
  free(h->signature);
  free(h);
}

static CURL *take(kiln_http *h) {
  pthread_mutex_lock(&h->mutex);
  CURL *c = h->idle_count ? h->idle[--h->idle_count] : NULL;
  pthread_mutex_unlock(&h->mutex);
  return c ? c : curl_easy_init();
}

static void give(kiln_http *h, CURL *c) {
  curl_easy_reset(c); // keeps live connections
  pthread_mutex_lock(&h->mutex);
  bool kept = h->idle_count < IDLE;
  if (kept) h->idle[h->idle_count++] = c;
  pthread_mutex_unlock(&h->mutex);
  if (!kept) curl_easy_cleanup(c);
}

typedef struct exchange {
  const kiln_http_request *request;
  CURL *curl;
  size_t sent;    ///< of the body
  size_t headers; ///< bytes of them so far
  size_t errors;  ///< bytes of the body of an answer that is an error
  bool over, is_cut;
} exchange;

/// What comes with an error is for people at most; more of it than that ends the transfer, and the status counts.
static size_t receive_error(exchange *e, const char *bytes, size_t size) {
  kiln_buffer *out = e->request->errors;
  size_t left = ERROR_LIMIT - e->errors, taken = size < left ? size : left;
  if (out) kiln_buffer_bytes(out, bytes, taken);
  e->errors += taken;
  e->is_cut = taken < size;
  return taken;
}

static size_t receive(char *bytes, size_t one, size_t count, void *context) {
  exchange *e = context;
  const kiln_http_request *r = e->request;
  size_t size = one * count;
  long status = 0;
  curl_easy_getinfo(e->curl, CURLINFO_RESPONSE_CODE, &status);
  if (status >= 300) return receive_error(e, bytes, size);
  if (!r->out) return size;
  e->over = size > r->limit - r->out->size;
  if (e->over) return 0; // ends the transfer
  kiln_buffer_bytes(r->out, bytes, size);
  if (r->out->failed) return 0;
  size_t there = r->begins ? strlen(r->begins) : 0;
  if (there > r->out->size) there = r->out->size;
  e->over = there && memcmp(r->out->bytes, r->begins, there) != 0;
  return e->over ? 0 : size;
}

/// "name: value" of the header that is wanted. A new status line is a new answer, after a redirect.
static void keep_header(const kiln_http_request *r, const char *line, size_t size) {
  size_t length = strlen(r->wants);
  if (size >= 5 && !memcmp(line, "HTTP/", 5)) *r->value = 0;
  if (size <= length || strncasecmp(line, r->wants, length) || line[length] != ':') return;
  line += length + 1, size -= length + 1;
  while (size && (*line == ' ' || *line == '\t')) line++, size--;
  while (size && (line[size - 1] == '\n' || line[size - 1] == '\r' || line[size - 1] == ' ')) size--;
  if (size >= r->capacity) return; // no value that we could use
  memcpy(r->value, line, size);
  r->value[size] = 0;
}

/// libcurl keeps what it is sent of headers: a server that sends no end of them is left.
static size_t take_header(char *bytes, size_t one, size_t count, void *context) {
  exchange *e = context;
  e->headers += one * count;
  if (e->request->wants) keep_header(e->request, bytes, one * count);
  return e->headers <= HEADERS_LIMIT ? one * count : 0;
}

static size_t send_more(char *bytes, size_t one, size_t count, void *context) {
  exchange *e = context;
  size_t left = e->request->size - e->sent, size = one * count < left ? one * count : left;
  if (size) memcpy(bytes, e->request->send + e->sent, size);
  e->sent += size;
  return size;
}

/// Over a connection that the server closed in the meantime the beginning was sent in vain.
static int send_again(void *context, curl_off_t offset, int origin) {
  exchange *e = context;
  if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > e->request->size) return CURL_SEEKFUNC_CANTSEEK;
  e->sent = (size_t)offset;
  return CURL_SEEKFUNC_OK;
}

static void set_body(CURL *c, const kiln_http_request *r, exchange *e) {
  if (r->send) {
    curl_easy_setopt(c, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(c, CURLOPT_READFUNCTION, send_more);
    curl_easy_setopt(c, CURLOPT_READDATA, e);
    curl_easy_setopt(c, CURLOPT_SEEKFUNCTION, send_again);
    curl_easy_setopt(c, CURLOPT_SEEKDATA, e);
    curl_easy_setopt(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)r->size);
  } else if (r->method && !strcmp(r->method, "HEAD")) {
    curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
  } else if (r->method && !strcmp(r->method, "POST")) {
    curl_easy_setopt(c, CURLOPT_POSTFIELDS, "");
  }
  if (r->method && strcmp(r->method, "HEAD")) curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, r->method);
}

static void set_rights(CURL *c, const kiln_http *h) {
  if (h->ca_file) curl_easy_setopt(c, CURLOPT_CAINFO, h->ca_file);
  if (h->login) curl_easy_setopt(c, CURLOPT_USERPWD, h->login);
  if (h->signature) curl_easy_setopt(c, CURLOPT_AWS_SIGV4, h->signature);
  if (h->signature) curl_easy_setopt(c, CURLOPT_EXPECT_100_TIMEOUT_MS, 1L);
}

/// Lines of the request, after those of every request. False when memory is exhausted.
static bool gather_headers(const kiln_http *h, const kiln_http_request *r, struct curl_slist **out) {
  *out = NULL;
  for (struct curl_slist *l = h->headers; l; l = l->next) {
    struct curl_slist *longer = curl_slist_append(*out, l->data);
    if (!longer) return false;
    *out = longer;
  }
  for (unsigned i = 0; i < KILN_HTTP_HEADERS && r->headers[i]; i++) {
    struct curl_slist *longer = curl_slist_append(*out, r->headers[i]);
    if (!longer) return false;
    *out = longer;
  }
  return true;
}

kiln_http_answer kiln_http_ask(kiln_http *h, const kiln_http_request *r, int64_t deadline) {
  kiln_http_answer answer = {.why = "it did not answer in time"};
  exchange e = {.request = r};
  struct curl_slist *headers = NULL;
  int64_t left = deadline - kiln_wire_now();
  CURL *c = left > 0 ? take(h) : NULL;
  e.curl = c;
  if (r->out) kiln_buffer_clear(r->out);
  if (r->errors) kiln_buffer_clear(r->errors);
  if (r->wants) *r->value = 0;
  if (!c || !gather_headers(h, r, &headers)) {
    if (c) give(h, c);
    curl_slist_free_all(headers);
    return answer;
  }
  curl_easy_setopt(c, CURLOPT_URL, r->url);
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)left);
  curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)left);
  curl_easy_setopt(c, CURLOPT_PROXY, ""); // the environment is not asked
  curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, h->protocols);
  curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, h->protocols);
  curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, r->follows ? 1L : 0L);
  curl_easy_setopt(c, CURLOPT_MAXREDIRS, (long)REDIRECTS);
  curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(c, CURLOPT_USERAGENT, "kiln/" KILN_VERSION);
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, receive);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, &e);
  curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(c, CURLOPT_HEADERDATA, &e);
  set_rights(c, h);
  set_body(c, r, &e);
  CURLcode error = curl_easy_perform(c);
  if (error == CURLE_OK || e.is_cut) curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &answer.status);
  answer.is_other = error == CURLE_UNSUPPORTED_PROTOCOL;
  answer.why = answer.is_other ? h->protocols : curl_easy_strerror(error);
  answer.over = e.over;
  give(h, c);
  curl_slist_free_all(headers);
  return answer;
}

kiln_remote_state kiln_http_found(long status) {
  if (status == 200) return KILN_REMOTE_FOUND;
  if (status == 401 || status == 403) return KILN_REMOTE_DENIED;
  return status == 404 || status == 410 ? KILN_REMOTE_ABSENT : KILN_REMOTE_FAILED;
}

kiln_remote_state kiln_http_stored(long status) {
  static const long never[] = {400, 411, 413, 414, 415, 422};
  if (status >= 200 && status < 300) return KILN_REMOTE_FOUND;
  if (status == 401 || status == 403) return KILN_REMOTE_DENIED;
  for (unsigned i = 0; i < sizeof never / sizeof *never; i++)
    if (status == never[i]) return KILN_REMOTE_REFUSED;
  return KILN_REMOTE_FAILED;
}

void kiln_http_explain(const kiln_http_answer *answer, const char *secret, char *out, size_t capacity) {
  static const struct {
    long least, most;
    const char *text;
  } rows[] = {{401, 401, "%s is missing or is not accepted"},
              {403, 403, "%s is missing or gives no such right"},
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
  size_t i = 0, end = sizeof rows / sizeof *rows;
  while (i < end && (answer->status < rows[i].least || answer->status > rows[i].most)) i++;
  if (!answer->status && answer->is_other)
    snprintf(out, capacity, "it redirects to a protocol other than %s", answer->why);
  else if (!answer->status) snprintf(out, capacity, "%s", answer->why);
  else {
    int length = snprintf(out, capacity, "status %ld%s", answer->status, i < end ? ": " : "");
    if (i < 2) snprintf(out + length, capacity - (size_t)length, rows[i].text, secret);
    else if (i < end) snprintf(out + length, capacity - (size_t)length, "%s", rows[i].text);
  }
}

bool kiln_http_try(kiln_http *h, const kiln_http_request *upload, const kiln_http_request *lookup,
                   const char *secret, int64_t deadline, char *out, size_t capacity) {
  char why[160];
  kiln_buffer got = {0};
  kiln_http_request ask = *lookup;
  ask.out = &got;
  ask.limit = upload->size;
  kiln_http_answer answer = kiln_http_ask(h, upload, deadline);
  bool stored = kiln_http_stored(answer.status) == KILN_REMOTE_FOUND, same = false;
  if (!stored) {
    kiln_http_explain(&answer, secret, why, sizeof why);
    snprintf(out, capacity, "answers, but an upload fails: %s", why);
  } else {
    answer = kiln_http_ask(h, &ask, deadline);
    same = answer.status == 200 && !answer.over && got.size == upload->size &&
           !memcmp(got.bytes, upload->send, upload->size);
    kiln_http_explain(&answer, secret, why, sizeof why);
    snprintf(out, capacity, "takes an upload, but does not give it back: %s",
             answer.status == 200 || answer.over ? "it gives other bytes" : why);
  }
  kiln_buffer_deinit(&got);
  return same;
}
