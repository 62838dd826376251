// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Formats addresses of servers for messages, with passwords and queries hidden.
#include "base/url.h"

#include <string.h>

static const char hidden[] = "***";

typedef struct text {
  char *at;
  size_t left; // with room for the end
} text;

static void add(text *t, const char *bytes, size_t size) {
  for (size_t i = 0; i < size && t->left > 1; i++, t->left--)
    *t->at++ = bytes[i] >= ' ' && bytes[i] != 0x7f ? bytes[i] : '?';
}

/// One address of `length` bytes.
static void add_one(text *t, const char *url, size_t length) {
  size_t start = 0, query = length, last = 0;
  for (size_t i = 0; i + 3 <= length && !start; i++)
    if (!memcmp(url + i, "://", 3)) start = i + 3;
  for (size_t i = start; i < length; i++)
    if (url[i] == '@') last = i;
  for (size_t i = length; i-- > (last ? last : start);)
    if (url[i] == '?' || url[i] == '#') query = i;
  add(t, url, start);
  if (last) add(t, hidden, sizeof hidden - 1);
  add(t, url + (last ? last : start), query - (last ? last : start));
  if (query == length) return;
  add(t, url + query, 1);
  add(t, hidden, sizeof hidden - 1);
}

const char *kiln_url_shown(const char *url, char *out, size_t capacity) {
  text t = {out, capacity};
  while (*url) {
    size_t blanks = strspn(url, " "), length = strcspn(url + blanks, " ");
    add(&t, url, blanks);
    add_one(&t, url + blanks, length);
    url += blanks + length;
  }
  if (capacity) *t.at = 0;
  return out;
}
