// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Control characters in text from outside: in messages and on a terminal they are shown as \x1b. They are
// those of C0, DEL, and those of C1 in UTF-8.
#ifndef KILN_BASE_CONTROL_CHARACTERS_H
#define KILN_BASE_CONTROL_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>

/// The size in bytes (1 or 2) of the control character at the begin of `text`, which has `size` bytes; 0 if
/// there is none.
size_t kiln_control_size(const char *text, size_t size);
/// Whether `text` has no control characters.
bool kiln_is_plain(const char *text);
/// Writes `text` with each control character as \x1b; in a name (`is_name`) line ends and tabs, too. Cut at
/// the capacity of `out`, with a NUL.
void kiln_show_controls(const char *text, bool is_name, char *out, size_t capacity);

#endif
