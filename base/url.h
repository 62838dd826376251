// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Addresses of servers in a form that may be shown.
#ifndef KILN_BASE_URL_H
#define KILN_BASE_URL_H

#include <stddef.h>

enum { KILN_URL_SHOWN = 320 };

/// The address without what may be secret in it, for messages and for everything that is kept: user and
/// password (all up to the last '@', since a password may hold any character) and what follows a '?' are
/// "***". `url` may be several with spaces between. Cut where it is longer than `capacity`, and what cannot
/// be printed is '?'.
const char *kiln_url_shown(const char *url, char *out, size_t capacity);

#endif
