// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A connection to a server, plain or by TLS with its certificate checked, every step against a deadline.
// libcurl makes it, for protocols that libcurl does not speak.
#ifndef KILN_CACHE_REMOTE_CONNECTION_H
#define KILN_CACHE_REMOTE_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kiln_connection kiln_connection;

/// Once a process, before any other use of libcurl; cheap afterwards.
void kiln_connection_start(void);

/// `ca_file`: certificates that the server's must come from; NULL or "": the system's. NULL with the reason,
/// in words, in `why` (may be NULL).
kiln_connection *kiln_connection_open(const char *host, int port, bool tls, const char *ca_file,
                                      int64_t deadline, char *why, size_t capacity);
void kiln_connection_close(kiln_connection *connection);
/// All of the bytes; false when that does not work in time.
bool kiln_connection_send(kiln_connection *connection, const uint8_t *bytes, size_t size, int64_t deadline);
/// What is there of up to `size` bytes, at least one; 0 at the end, after an error or the deadline.
size_t kiln_connection_receive(kiln_connection *connection, uint8_t *out, size_t size, int64_t deadline);

#endif
