// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens connections to servers with libcurl, plain or with TLS, and sends and receives bytes before a
// deadline.
#include "cache/remote/connection.h"

#include <curl/curl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "cache/wire.h"

struct kiln_connection {
  CURL *curl; ///< owned
  curl_socket_t fd;
};

static void start_curl(void) { curl_global_init(CURL_GLOBAL_DEFAULT); }

void kiln_connection_start(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, start_curl);
}

kiln_connection *kiln_connection_open(const char *host, int port, bool tls, const char *ca_file,
                                      int64_t deadline, char *why, size_t capacity) {
  char url[400];
  int64_t left = deadline - kiln_wire_now();
  kiln_connection_start();
  kiln_connection *c = left > 0 ? calloc(1, sizeof *c) : NULL;
  if (why) snprintf(why, capacity, "%s", left > 0 ? "no memory" : "no answer in time");
  if (!c) return NULL;
  c->curl = curl_easy_init();
  snprintf(url, sizeof url, "%s://%s:%d", tls ? "https" : "http", host, port);
  CURLcode e = c->curl ? CURLE_OK : CURLE_OUT_OF_MEMORY;
  if (!e) {
    curl_easy_setopt(c->curl, CURLOPT_URL, url);
    curl_easy_setopt(c->curl, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(c->curl, CURLOPT_SSL_ENABLE_ALPN, 0L); // it is no HTTP
    curl_easy_setopt(c->curl, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(c->curl, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)left);
    curl_easy_setopt(c->curl, CURLOPT_TIMEOUT_MS, (long)left);
    curl_easy_setopt(c->curl, CURLOPT_PROXY, ""); // the environment is not asked
    curl_easy_setopt(c->curl, CURLOPT_PROTOCOLS_STR, tls ? "https" : "http");
    if (ca_file && *ca_file) curl_easy_setopt(c->curl, CURLOPT_CAINFO, ca_file);
    e = curl_easy_perform(c->curl);
  }
  if (!e) e = curl_easy_getinfo(c->curl, CURLINFO_ACTIVESOCKET, &c->fd);
  if (!e && c->fd != CURL_SOCKET_BAD) return c;
  if (why) snprintf(why, capacity, "%s", curl_easy_strerror(e));
  kiln_connection_close(c);
  return NULL;
}

void kiln_connection_close(kiln_connection *c) {
  if (!c) return;
  if (c->curl) curl_easy_cleanup(c->curl);
  free(c);
}

static bool ready(const kiln_connection *c, short events, int64_t deadline) {
  int64_t left = deadline - kiln_wire_now();
  struct pollfd p = {c->fd, events, 0};
  return left > 0 && poll(&p, 1, (int)left) > 0;
}

bool kiln_connection_send(kiln_connection *c, const uint8_t *bytes, size_t size, int64_t deadline) {
  while (size) {
    size_t sent = 0;
    CURLcode e = curl_easy_send(c->curl, bytes, size, &sent);
    if (e == CURLE_AGAIN && !ready(c, POLLOUT, deadline)) return false;
    if (e && e != CURLE_AGAIN) return false;
    bytes += sent;
    size -= sent;
  }
  return true;
}

size_t kiln_connection_receive(kiln_connection *c, uint8_t *out, size_t size, int64_t deadline) {
  for (;;) {
    size_t got = 0;
    CURLcode e = curl_easy_recv(c->curl, out, size, &got); // TLS may hold bytes that the socket no longer has
    if (!e) return got;
    if (e != CURLE_AGAIN || !ready(c, POLLIN, deadline)) return 0;
  }
}
