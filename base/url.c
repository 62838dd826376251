// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Formats addresses of servers for messages, with passwords and queries hidden.
#include "base/url.h"

#include <string.h>

static const char hidden[] = "***";

typedef struct text {
  char *at;
  size_t left; // with room for the end
} text;

static void append_shown(text *t, const char *bytes, size_t size) {
  for (size_t i = 0; i < size && t->left > 1; i++, t->left--)
    *t->at++ = bytes[i] >= ' ' && bytes[i] != 0x7f ? bytes[i] : '?';
}

/// One address of `length` bytes.
static void append_url(text *t, const char *url, size_t length) {
  size_t start = 0, query = length, last = 0;
  for (size_t i = 0; i + 3 <= length && !start; i++)
    if (!memcmp(url + i, "://", 3)) start = i + 3;
  for (size_t i = start; i < length; i++)
    if (url[i] == '@') last = i;
  for (size_t i = length; i-- > (last ? last : start);)
    if (url[i] == '?' || url[i] == '#') query = i;
  append_shown(t, url, start);
  if (last) append_shown(t, hidden, sizeof hidden - 1);
  append_shown(t, url + (last ? last : start), query - (last ? last : start));
  if (query == length) return;
  append_shown(t, url + query, 1);
  append_shown(t, hidden, sizeof hidden - 1);
}

const char *kiln_url_shown(const char *url, char *out, size_t capacity) {
  text t = {out, capacity};
  while (*url) {
    size_t blanks = strspn(url, " "), length = strcspn(url + blanks, " ");
    append_shown(&t, url, blanks);
    append_url(&t, url + blanks, length);
    url += blanks + length;
  }
  if (capacity) *t.at = 0;
  return out;
}
