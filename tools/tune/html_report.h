// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln tune --html: one page with the space of each kernel, the time of every config compared with the
// model's ranking, and the winners by shape. It contains its style and runs no script.
#ifndef KILN_TOOLS_TUNE_HTML_REPORT_H
#define KILN_TOOLS_TUNE_HTML_REPORT_H

#include "tools/tune/session.h"

/// A nameless file to which the processes of all devices append contests; -1: it cannot be made.
int tune_html_begin(void);
void tune_html_add(int fd, const char *title, const char *device, const tune_subject *s,
                   const tune_contest *c);
/// Writes the page, contests in order of their titles.
kiln_status tune_html_end(int fd, const char *path, kiln_error *err);

#endif
