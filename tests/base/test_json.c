// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the JSON reader: what it accepts, what it refuses, and the places that it names.
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "tests/harness.h"

static kiln_arena *arena;

static const kiln_json *good(const char *text) {
  const kiln_json *value;
  kiln_error err = {0};
  if (!arena) arena = kiln_arena_create();
  if (kiln_json_parse(arena, text, strlen(text), &value, &err) != KILN_OK) FAIL("%s: %s", text, err.text);
  return value;
}

TEST(json, values) {
  int64_t n;
  CHECK_INT(good(" null ")->kind, KILN_JSON_NULL);
  CHECK_INT(good("true")->kind, KILN_JSON_TRUE);
  CHECK_INT(good("[]")->count, 0);
  CHECK_INT(good("{}")->kind, KILN_JSON_OBJECT);
  CHECK_INT(good("[[], {}, [[1]]]")->count, 3);
  CHECK_TEXT(good("-1.5e+3")->text, "-1.5e+3");
  CHECK(kiln_json_integer(good("-9223372036854775808"), &n) && n == INT64_MIN);
  CHECK(!kiln_json_integer(good("9223372036854775808"), &n));
  CHECK(!kiln_json_integer(good("1.0"), &n));
  CHECK(!kiln_json_integer(good("\"1\""), &n));
}

TEST(json, members) {
  const kiln_json *object = good("{\"a\": 1, \"b\": {\"a\": \"x\"}, \"c\": [1, 2, \"three\"]}\n");
  int64_t n;
  CHECK(kiln_json_integer(kiln_json_find(object, "a"), &n) && n == 1);
  CHECK_TEXT(kiln_json_text(kiln_json_find(object, "b"), "a", ""), "x");
  CHECK_TEXT(kiln_json_text(object, "a", "none"), "none");
  CHECK(!kiln_json_find(object, "d"));
  CHECK(!kiln_json_find(kiln_json_find(object, "c"), "a"));
  CHECK_TEXT(kiln_json_find(object, "c")->first->next->next->text, "three");
}

TEST(json, texts) {
  CHECK_TEXT(good("\"a\\n\\t\\\"\\\\\\/\"")->text, "a\n\t\"\\/");
  CHECK_TEXT(good("\"\\u0041\\u00e4\\u20ac\\ud83d\\ude00\"")->text, "A\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
  CHECK_TEXT(good("\"\\ud83dx\"")->text, "\xef\xbf\xbdx"); // half a pair
}

TEST(json, refused) {
  static const struct {
    const char *text, *want;
  } rows[] = {
      {"", "line 1: expected a value, found the end"},
      {"[1, 2", "expected ',' or the end of an array or object, found the end"},
      {"[1,]", "expected a value, found ']'"},
      {"{\"a\" 1}", "expected ':', found '1'"},
      {"{a: 1}", "expected a text, found 'a'"},
      {"[1}", "found '}'"},
      {"{\"a\": 1,}", "expected a text, found '}'"},
      {"1 2", "expected nothing more, found '2'"},
      {"\n\n[01]", "line 3"},
      {"-", "expected a value"},
      {"1.", "expected a digit"},
      {"1e", "expected a digit"},
      {"\"abc", "expected '\"', found the end"},
      {"\"\\x\"", "expected an escape"},
      {"\"\\u12g4\"", "expected an escape"},
      {"\"\t\"", "no control character"},
      {"tru", "expected a value"},
      {"]", "expected a value"},
  };
  if (!arena) arena = kiln_arena_create();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const kiln_json *value;
    kiln_error err = {0};
    if (kiln_json_parse(arena, rows[i].text, strlen(rows[i].text), &value, &err) != KILN_STATUS_SOURCE)
      FAIL("%s was taken", rows[i].text);
    if (!strstr(err.text, rows[i].want))
      FAIL("%s: the message is \"%s\", expected in it \"%s\"", rows[i].text, err.text, rows[i].want);
  }
}

TEST(json, depth_is_bounded) {
  enum { LEVELS = 100000 };
  char *text = malloc(LEVELS + 1);
  const kiln_json *value;
  kiln_error err = {0};
  memset(text, '[', LEVELS);
  text[LEVELS] = 0;
  if (!arena) arena = kiln_arena_create();
  CHECK_INT(kiln_json_parse(arena, text, LEVELS, &value, &err), KILN_STATUS_LIMIT);
  text[KILN_JSON_MAX_DEPTH] = 0;
  for (int i = 0; i < KILN_JSON_MAX_DEPTH; i++) text[KILN_JSON_MAX_DEPTH + i] = ']';
  text[2 * KILN_JSON_MAX_DEPTH] = 0;
  good(text);
  free(text);
}
