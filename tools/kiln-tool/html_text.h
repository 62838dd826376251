// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Escapes any text for an HTML page.
#ifndef KILN_TOOLS_KILN_TOOL_HTML_TEXT_H
#define KILN_TOOLS_KILN_TOOL_HTML_TEXT_H

#include "base/buffer.h"

/// Text for an element or an attribute, cut after `most` characters.
void html_text(kiln_buffer *out, const char *text, size_t most);

/// The same for an element, of a list like "BLOCK=128,warps=4": lines break after a comma first.
void html_list(kiln_buffer *out, const char *text, size_t most);

#endif
