// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ed25519 key files: what `kiln cache keygen` writes, and everything that signs or checks reads. A secret key
// file is one line, "kiln-secret-key NAME 128 hex digits", a public one "kiln-public-key NAME 64 hex digits".
// The bytes are libsodium's.
#ifndef KILN_TOOLS_COMMON_KEY_FILE_H
#define KILN_TOOLS_COMMON_KEY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { KEY_FILE_SECRET = 64, KEY_FILE_PUBLIC = 32, KEY_FILE_NAME = 64 };

/// Refuses a file that others may read or write.
kiln_status key_file_secret(const char *path, uint8_t out[KEY_FILE_SECRET], kiln_error *err);
kiln_status key_file_public(const char *path, uint8_t out[KEY_FILE_PUBLIC], kiln_error *err);
/// Writes PATH (mode 0600) and PATH.pub; neither may exist.
kiln_status key_file_make(const char *path, const char *name, kiln_error *err);
/// Exactly 2 * size hexadecimal digits.
bool key_file_hex(const char *text, uint8_t *out, size_t size);

#endif
