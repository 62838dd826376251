// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The option table of code generation and its three forms: fields, command line, wire.
#include "compiler/options.h"

#include <stdio.h>
#include <string.h>

#include "base/nearest.h"

enum { NEUTRAL, KEY };

static const kiln_option_info options_table[] = {
#define OPTION(field, name, kind, key, least, most, fallback, choices, help) \
  {name,                                                                     \
   KILN_OPTION_##kind,                                                       \
   key == KEY,                                                               \
   least,                                                                    \
   most,                                                                     \
   fallback,                                                                 \
   choices,                                                                  \
   help,                                                                     \
   offsetof(kiln_codegen_options, field)},
#include "compiler/options.def"
#undef OPTION
};

size_t kiln_option_count(void) { return sizeof options_table / sizeof options_table[0]; }

const kiln_option_info *kiln_option_at(size_t index) {
  return index < kiln_option_count() ? &options_table[index] : NULL;
}

const kiln_option_info *kiln_option_find(const char *name, size_t length) {
  for (size_t i = 0; i < kiln_option_count(); i++)
    if (strlen(options_table[i].name) == length && memcmp(options_table[i].name, name, length) == 0)
      return &options_table[i];
  return NULL;
}

// All fields but texts are one byte wide (bool included).
static uint8_t *byte_of(kiln_codegen_options *options, const kiln_option_info *o) {
  return (uint8_t *)options + o->offset;
}
static const char **text_of(kiln_codegen_options *options, const kiln_option_info *o) {
  return (const char **)(void *)((char *)options + o->offset);
}
static uint8_t get_byte(const kiln_codegen_options *options, const kiln_option_info *o) {
  return ((const uint8_t *)options)[o->offset];
}
static const char *get_text(const kiln_codegen_options *options, const kiln_option_info *o) {
  return *(const char *const *)(const void *)((const char *)options + o->offset);
}

void kiln_codegen_options_init(kiln_codegen_options *options) {
  memset(options, 0, sizeof *options);
  for (size_t i = 0; i < kiln_option_count(); i++)
    if (options_table[i].kind != KILN_OPTION_TEXT)
      *byte_of(options, &options_table[i]) = options_table[i].fallback;
}

// ------------------------------------------------------------------------------------ command line

// Position of a word in a comma-separated list, or -1.
static int word_index(const char *list, const char *word) {
  size_t length = strlen(word);
  int index = 0;
  for (const char *at = list;; index++) {
    size_t span = strcspn(at, ",");
    if (span == length && memcmp(at, word, length) == 0) return index;
    if (at[span] == 0) return -1;
    at += span + 1;
  }
}

static int parse_value(const kiln_option_info *o, const char *value) {
  switch (o->kind) {
  case KILN_OPTION_NUMBER:
    return value[0] >= '0' && value[0] <= '9' && value[1] == 0 && value[0] - '0' >= o->least &&
                   value[0] - '0' <= o->most
               ? value[0] - '0'
               : -1;
  case KILN_OPTION_CHOICE: return word_index(o->choices, value);
  case KILN_OPTION_FLAG: {
    int word = word_index("0,off,false,no,1,on,true,yes", value);
    return word < 0 ? -1 : word >= 4;
  }
  case KILN_OPTION_TEXT: return -1;
  }
  return -1;
}

static kiln_status refuse_value(const kiln_option_info *o, const char *value, kiln_error *err) {
  if (o->kind == KILN_OPTION_NUMBER)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "--%s: expected a number from %u to %u, found '%.40s'", o->name, o->least, o->most,
                     value);
  enum { CHOICE_TEXT = 24 };
  char best[CHOICE_TEXT] = "";
  kiln_nearest near = kiln_nearest_to(value);
  for (const char *at = o->kind == KILN_OPTION_CHOICE ? o->choices : ""; *at;) {
    char word[CHOICE_TEXT];
    size_t length = strcspn(at, ",");
    snprintf(word, sizeof word, "%.*s", (int)length, at);
    kiln_nearest_consider(&near, word);
    if (near.best) memcpy(best, word, sizeof best), near.best = NULL;
    at += length + (at[length] != 0);
  }
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "--%s: expected %s, found '%.40s'%s%s%s", o->name,
                   o->kind == KILN_OPTION_FLAG ? "on or off" : o->choices, value,
                   *best ? "; did you mean '" : "", best, *best ? "'?" : "");
}

static kiln_status refuse_name(const char *text, size_t length, kiln_error *err) {
  kiln_buffer names = {0};
  for (size_t i = 0; i < kiln_option_count(); i++)
    kiln_buffer_format(&names, "%s%s", i ? ", " : "", options_table[i].name);
  kiln_buffer_u8(&names, 0);
  kiln_status status =
      kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "no option is called '%.*s'; expected one of %s",
                (int)(length > 40 ? 40 : length), text, names.failed ? "" : (const char *)names.bytes);
  kiln_buffer_deinit(&names);
  return status;
}

kiln_status kiln_codegen_options_set(kiln_codegen_options *options, const char *text, kiln_error *err) {
  size_t length = strcspn(text, "=");
  const kiln_option_info *o = kiln_option_find(text, length);
  if (!o) return refuse_name(text, length, err);
  const char *value = text[length] == '=' ? text + length + 1 : o->kind == KILN_OPTION_FLAG ? "on" : "";
  if (o->kind == KILN_OPTION_TEXT) {
    *text_of(options, o) = value[0] ? value : NULL;
    return KILN_OK;
  }
  int number = parse_value(o, value);
  if (number < 0) return refuse_value(o, value, err);
  *byte_of(options, o) = (uint8_t)number;
  return KILN_OK;
}

void kiln_option_value(const kiln_codegen_options *options, const kiln_option_info *o, kiln_buffer *out) {
  if (o->kind == KILN_OPTION_TEXT) {
    const char *text = get_text(options, o);
    if (text) kiln_buffer_bytes(out, text, strlen(text));
    return;
  }
  uint8_t number = get_byte(options, o);
  if (o->kind != KILN_OPTION_CHOICE) {
    kiln_buffer_format(out, "%u", number);
    return;
  }
  const char *at = o->choices;
  for (; number; number--) at += strcspn(at, ",") + 1;
  kiln_buffer_bytes(out, at, strcspn(at, ","));
}

// -------------------------------------------------------------------------------------------- wire

void kiln_codegen_options_encode(const kiln_codegen_options *options, kiln_buffer *out) {
  for (size_t i = 0; i < kiln_option_count(); i++) {
    const kiln_option_info *o = &options_table[i];
    const char *text = o->kind == KILN_OPTION_TEXT ? get_text(options, o) : NULL;
    if (o->kind == KILN_OPTION_TEXT) kiln_buffer_block(out, text, text ? strlen(text) + 1 : 0);
    else kiln_buffer_u8(out, get_byte(options, o));
  }
}

static bool read_option(kiln_reader *r, const kiln_option_info *o, kiln_codegen_options *out) {
  if (o->kind != KILN_OPTION_TEXT) {
    uint8_t number = kiln_read_u8(r);
    *byte_of(out, o) = number;
    return !r->failed && number >= o->least && number <= o->most;
  }
  size_t size = 0;
  const uint8_t *bytes = kiln_read_block(r, &size);
  if (r->failed || (size && memchr(bytes, 0, size) != bytes + size - 1)) return false;
  *text_of(out, o) = size ? (const char *)bytes : NULL;
  return true;
}

kiln_status kiln_codegen_options_decode(const uint8_t *bytes, size_t size, kiln_codegen_options *out,
                                        kiln_error *err) {
  kiln_codegen_options_init(out);
  kiln_reader r = kiln_reader_of(bytes, size);
  for (size_t i = 0; i < kiln_option_count(); i++)
    if (!read_option(&r, &options_table[i], out)) {
      kiln_codegen_options_init(out);
      return kiln_fail(err, KILN_STATUS_CORRUPT, "options: '%s' is damaged in %zu bytes",
                       options_table[i].name, size);
    }
  if (!kiln_read_done(&r))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "options: %zu bytes left over of %zu", r.left, size);
  return KILN_OK;
}
