// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads tables of tuned choices from files, and reports errors with file and line.
#include "tools/common/tuned_file.h"

#include <stdio.h>
#include <string.h>

#include "tools/common/cli.h"

enum { MOST_BYTES = 256 << 20, WIDTH = 100 };

void tuned_file_point(const char *text, size_t size, kiln_tuned_place place) {
  const char *end = text + size, *line = text;
  for (uint32_t n = 1; n < place.line && line < end; n++) {
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    if (!newline) return;
    line = newline + 1;
  }
  const char *newline = line < end ? memchr(line, '\n', (size_t)(end - line)) : NULL;
  size_t length = (size_t)((newline ? newline : end) - line), at = place.column ? place.column - 1 : 0;
  size_t from = at > WIDTH / 2 ? at - WIDTH / 2 : 0; // lines of tables are long
  size_t shown = length > from ? length - from : 0;
  if (shown > WIDTH) shown = WIDTH;
  for (size_t i = 0; i < shown; i++) {
    unsigned char c = (unsigned char)line[from + i];
    fputc(c < 0x20 || c == 0x7f ? '?' : c, stderr);
  }
  fprintf(stderr, "\n%*s^\n", (int)(at - from), "");
}

kiln_status tuned_file_read(const char *path, kiln_tuner_table *table, kiln_error *err) {
  kiln_buffer text = {0};
  kiln_tuned_place place = {0};
  kiln_status status = cli_read_file(path, "", MOST_BYTES, &text, err);
  if (status == KILN_OK)
    status = kiln_tuner_table_read(table, path, (const char *)text.bytes, text.size, &place, err);
  if (status != KILN_OK && place.line) tuned_file_point((const char *)text.bytes, text.size, place);
  kiln_buffer_deinit(&text);
  return status;
}
