// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The one style of the pages that Kiln writes: they contain it, load nothing and run no script. They can be read at 360 to
// 2,000 pixels, in light and in dark.
//
//   .wide   what may be wider than the screen, and scrolls by itself: every table
//   .bars   a chart: rows of label (.l), bar (.b, its length is a part of .t) and value (.v)
#ifndef KILN_TOOLS_KILN_TOOL_HTML_PAGE_H
#define KILN_TOOLS_KILN_TOOL_HTML_PAGE_H

#include "base/buffer.h"

/// From the first byte to the heading.
void html_page_begin(kiln_buffer *out, const char *title);
void html_page_end(kiln_buffer *out);
/// A bar of `series` that takes `part` (0 to 1) of its place.
void html_bar(kiln_buffer *out, unsigned series, double part);

#endif
