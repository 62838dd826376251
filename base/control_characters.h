// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Control characters in texts from outside: in messages and on a terminal they are shown as \x1b. They are
// those of C0, DEL, and those of C1 as UTF-8 has them.
#ifndef KILN_BASE_CONTROL_CHARACTERS_H
#define KILN_BASE_CONTROL_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>

/// How many bytes of `text`, which has `size` of them, are the control character that it begins with: 1 or 2;
/// 0: it begins with none.
size_t kiln_control_size(const char *text, size_t size);
/// Whether `text` has none.
bool kiln_is_plain(const char *text);
/// Writes `text` with each control character as \x1b, of a name (`is_name`) line ends and tabs, too; cut
/// where `out` ends, with a NUL.
void kiln_show_controls(const char *text, bool is_name, char *out, size_t capacity);

#endif
