// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where in the Python source a line of the text came from. Looked up only when a message needs it, so reading
// costs nothing for it.
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "compiler/ttir/ttir_reader.h"

enum { MAX_HOPS = 32 };

typedef struct span {
  const char *at, *end;
} span;

static span line_of(const ttir_module *module, uint32_t line) {
  span s = {module->text, module->text + module->size};
  for (uint32_t i = 1; i < line; i++) {
    const char *next = memchr(s.at, '\n', (size_t)(s.end - s.at));
    if (!next) return (span){s.end, s.end};
    s.at = next + 1;
  }
  const char *stop = memchr(s.at, '\n', (size_t)(s.end - s.at));
  if (stop) s.end = stop;
  return s;
}

static bool starts(span s, const char *text) {
  size_t length = strlen(text);
  return (size_t)(s.end - s.at) >= length && memcmp(s.at, text, length) == 0;
}

// The last `loc(` of the line: that of the operation, after those of its arguments.
static span last_loc(span s) {
  for (const char *at = s.end; at > s.at; at--) {
    span rest = {at, s.end};
    if (starts(rest, "loc(")) return (span){at + 4, s.end};
  }
  return (span){s.end, s.end};
}

// The definition of alias `name` ("#loc7"): after `#loc7 = loc(` at the start of a line.
static span alias_body(const ttir_module *module, span name) {
  span s = {module->text, module->text + module->size};
  size_t length = (size_t)(name.end - name.at);
  while (s.at < s.end) {
    if ((size_t)(s.end - s.at) > length && memcmp(s.at, name.at, length) == 0) {
      span rest = {s.at + length, s.end};
      if (starts(rest, " = loc(")) {
        rest.at += 7;
        const char *stop = memchr(rest.at, '\n', (size_t)(rest.end - rest.at));
        if (stop) rest.end = stop;
        return rest;
      }
    }
    const char *next = memchr(s.at, '\n', (size_t)(s.end - s.at));
    if (!next) break;
    s.at = next + 1;
  }
  return (span){s.end, s.end};
}

// "file":12:3 at the start of `s`.
static bool file_place(span s, char out[TTIR_PLACE_TEXT]) {
  if (!starts(s, "\"")) return false;
  const char *quote = memchr(s.at + 1, '"', (size_t)(s.end - s.at - 1));
  if (!quote || s.end - quote < 3 || quote[1] != ':' || !isdigit((unsigned char)quote[2])) return false;
  const char *stop = quote + 1;
  while (stop < s.end && (*stop == ':' || isdigit((unsigned char)*stop))) stop++;
  snprintf(out, TTIR_PLACE_TEXT, "%.*s%.*s", (int)(quote - s.at - 1), s.at + 1, (int)(stop - quote - 1),
           quote + 1);
  return true;
}

const char *ttir_source_place(const ttir_module *module, uint32_t line, char out[TTIR_PLACE_TEXT]) {
  out[0] = 0;
  if (line == 0) return out;
  span s = last_loc(line_of(module, line));
  // Follow names, callsites (the callee is the more exact place) and aliases down to the first file.
  for (int hop = 0; hop < MAX_HOPS && s.at < s.end; hop++) {
    if (file_place(s, out)) break;
    if (starts(s, "callsite(")) s.at += 9;
    else if (starts(s, "fused[")) s.at += 6;
    else if (starts(s, "\"")) { // "name"(where)
      const char *paren = memchr(s.at, '(', (size_t)(s.end - s.at));
      if (!paren) break;
      s.at = paren + 1;
    } else if (starts(s, "#")) {
      span name = {s.at, s.at + 1};
      while (name.end < s.end && (isalnum((unsigned char)*name.end) || *name.end == '_')) name.end++;
      s = alias_body(module, name);
    } else break;
  }
  return out;
}
