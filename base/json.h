// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reading JSON (RFC 8259) that others wrote: whole text into an arena, bounded in depth and size, no
// recursion. Numbers keep their text.
#ifndef KILN_BASE_JSON_H
#define KILN_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

enum { KILN_JSON_MAX_DEPTH = 64 };

typedef enum kiln_json_kind {
  KILN_JSON_NULL,
  KILN_JSON_FALSE,
  KILN_JSON_TRUE,
  KILN_JSON_NUMBER,
  KILN_JSON_TEXT,
  KILN_JSON_ARRAY,
  KILN_JSON_OBJECT,
} kiln_json_kind;

/// One value. Members of arrays and objects are a list in order of the text.
typedef struct kiln_json {
  kiln_json_kind kind;
  uint32_t count;          ///< members of an array or object
  uint32_t length;         ///< bytes of `text`
  const char *name;        ///< arena; of a member of an object, else NULL
  const char *text;        ///< arena, NUL-terminated UTF-8: of a text, or the spelling of a number; else NULL
  struct kiln_json *first; ///< arena; first member
  struct kiln_json *next;  ///< arena; next member of the same array or object
} kiln_json;

/// Parses one value with nothing after it. Error: SOURCE, with the line and what was expected.
kiln_status kiln_json_parse(kiln_arena *arena, const char *text, size_t size, const kiln_json **out,
                            kiln_error *err);
/// The member `name` of an object (the first of that name); NULL when absent or `object` is none.
const kiln_json *kiln_json_find(const kiln_json *object, const char *name);
/// A number written without point and exponent that fits i64. False for everything else.
bool kiln_json_integer(const kiln_json *value, int64_t *out);
/// The text of member `name`, or `absent`.
const char *kiln_json_text(const kiln_json *object, const char *name, const char *absent);

#endif
