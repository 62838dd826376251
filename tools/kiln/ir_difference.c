// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shows the first lines in which two canonical kernels differ.
#include "tools/kiln/ir_difference.h"

#include <string.h>

#include "base/plural.h"
#include "compiler/front.h"

typedef struct listing {
  const char *text; // ends with a NUL
  const char **lines;
  size_t count;
} listing;

static size_t line_length(const char *line) { return strcspn(line, "\n"); }

static bool list_lines(kiln_arena *arena, const kiln_key_part *part, listing *out) {
  ir_kernel *kernel;
  kiln_error err;
  kiln_buffer text = {0};
  if (kiln_canonical_decode(arena, part->value, part->value_size, "this", &kernel, &err) != KILN_OK)
    return false;
  kiln_print_ir(kernel, &text);
  out->text = kiln_arena_text(arena, text.bytes ? (const char *)text.bytes : "", text.size);
  kiln_buffer_deinit(&text);
  for (const char *at = out->text; *at; at += line_length(at) + (at[line_length(at)] == '\n')) out->count++;
  out->lines = KILN_NEW_ARRAY(arena, const char *, out->count + 1);
  size_t i = 0;
  for (const char *at = out->text; *at; at += line_length(at) + (at[line_length(at)] == '\n'))
    out->lines[i++] = at;
  return true;
}

static bool same_line(const char *a, const char *b) {
  return line_length(a) == line_length(b) && !memcmp(a, b, line_length(a));
}

enum { MOST_LINES = 3 };

/// Appends one side's line of a pair; past `end` there is none.
static void append_line(kiln_buffer *out, const char *side, const listing *l, size_t i, size_t end) {
  const char *line = i < end ? l->lines[i] + strspn(l->lines[i], " ") : "no such line";
  kiln_buffer_format(out, "    %s %.*s\n", side, (int)(line_length(line) > 160 ? 160 : line_length(line)),
                     line);
}

static void compare(const listing *a, const listing *b, kiln_buffer *out) {
  size_t first = 0, a_end = a->count, b_end = b->count;
  while (first < a_end && first < b_end && same_line(a->lines[first], b->lines[first])) first++;
  while (a_end > first && b_end > first && same_line(a->lines[a_end - 1], b->lines[b_end - 1]))
    a_end--, b_end--;
  if (first == a_end && first == b_end) return; // what differs is not printed
  size_t end = a_end > b_end ? a_end : b_end, more = 0;
  for (size_t i = first, said = 0; i < end; i++) {
    if (i < a_end && i < b_end && same_line(a->lines[i], b->lines[i])) continue;
    if (said == MOST_LINES) {
      more++;
      continue;
    }
    said++;
    kiln_buffer_format(out, "    line %zu of the canonical kernel\n", i + 1);
    append_line(out, "here: ", a, i, a_end);
    append_line(out, "there:", b, i, b_end);
  }
  if (more) kiln_buffer_format(out, "    and %zu more line%s\n", more, kiln_plural(more));
}

void ir_difference(const kiln_key_part *here, const kiln_key_part *there, kiln_buffer *out) {
  if (here->field != KILN_FIELD_IR) return;
  kiln_arena *arena = kiln_arena_create();
  listing a = {0}, b = {0};
  if (list_lines(arena, here, &a) && list_lines(arena, there, &b)) compare(&a, &b, out);
  kiln_arena_destroy(arena);
}
