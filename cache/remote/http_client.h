// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Requests to one HTTP server, each bounded by a deadline and by what the caller is willing to receive. May be
// used from several threads; connections are kept and used again.
#ifndef KILN_CACHE_REMOTE_HTTP_CLIENT_H
#define KILN_CACHE_REMOTE_HTTP_CLIENT_H

#include "base/buffer.h"
#include "cache/remote_client.h"

typedef struct kiln_http kiln_http;

/// Texts are copied.
typedef struct kiln_http_config {
  bool is_tls;         ///< only https is spoken, also after a redirect
  const char *ca_file; ///< certificates that the server's must come from; NULL: the system's
  const char *token;   ///< bearer token; NULL: none
  const char *login;   ///< "USER:PASSWORD", or "KEY:SECRET" of a signature; NULL: none
  const char
      *signature; ///< "aws:amz:REGION:s3": requests are signed by AWS's fourth version; NULL: they are not
} kiln_http_config;

/// NULL when memory is exhausted.
kiln_http *kiln_http_create(const kiln_http_config *config);
void kiln_http_destroy(kiln_http *http);

enum { KILN_HTTP_HEADERS = 4 };

typedef struct kiln_http_request {
  const char *url;
  const char *method;                     ///< NULL: GET, or PUT with `send`
  const char *headers[KILN_HTTP_HEADERS]; ///< lines to send; NULL: none
  const uint8_t *send;                    ///< body; NULL: none
  size_t size;
  kiln_buffer *out;    ///< gets the body of the answer; NULL: it is dropped
  kiln_buffer *errors; ///< gets what comes with an error, up to 64 KiB; NULL: it is dropped
  uint64_t limit;      ///< most bytes of it
  const char *begins;  ///< what it begins with; NULL: anything
  bool follows;        ///< redirects, a few
  const char *wants;   ///< name of a header, in lower case; its value goes to `value`, "" without it
  char *value;
  size_t capacity;
} kiln_http_request;

typedef struct kiln_http_answer {
  long status;     ///< 0: none came in time
  bool over;       ///< more came than was wanted, or something else
  bool is_other;   ///< it redirects to a protocol that is not spoken: `why` has those that are
  const char *why; ///< in words, where there is no status
} kiln_http_answer;

kiln_http_answer kiln_http_ask(kiln_http *http, const kiln_http_request *request, int64_t deadline);

/// What the status of a look-up means.
kiln_remote_state kiln_http_found(long status);
/// And that of an upload: what the server will not take in any try is refused; missing rights and its own
/// faults pass.
kiln_remote_state kiln_http_stored(long status);
/// What an answer means, in words; `secret`: the settings that give rights.
void kiln_http_explain(const kiln_http_answer *answer, const char *secret, char *out, size_t capacity);
/// Uploads `upload` and asks for it by `lookup`, the same address: whether the same bytes come back. Why not, in words.
bool kiln_http_try(kiln_http *http, const kiln_http_request *upload, const kiln_http_request *lookup,
                   const char *secret, int64_t deadline, char *out, size_t capacity);

#endif
