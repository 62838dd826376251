// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads and writes the text form of tuned choices.
#include "base/tuned.h"

#include <stdio.h>
#include <string.h>

#include "base/nearest.h"

enum { TEXT, NUMBER };
enum { MAY, MUST };
enum { IDENTITY, CHOICE, HISTORY };

static const struct {
  char spelling[13];
  uint8_t value, use, part;
} rows[KILN_TUNED_FIELDS] = {
#define TUNED(name, spelling, value, use, part, text) {spelling, value, use, part},
#include "base/tuned.def"
#undef TUNED
};

#define TUNED(name, text, ...) _Static_assert(sizeof text <= sizeof rows->spelling, "its spelling has room");
#include "base/tuned.def"
#undef TUNED

static const char axis_prefixes[KILN_TUNED_AXIS_KINDS][12] = {
    [KILN_TUNED_BIN] = "bin.", [KILN_TUNED_ALIGNED] = "aligned.", [KILN_TUNED_STRIDE] = "stride."};

static const char head[] = "kiln tuned ";

// -------------------------------------------------------------------------------------------- bins

int64_t kiln_tuned_bin_least(uint8_t bin) {
  if (bin < 8) return bin;
  unsigned below = bin / 4u - 1;
  return (int64_t)(bin - 4 * below) << below;
}

// ------------------------------------------------------------------------------------------- names

bool kiln_tuned_note_key(const char *kernel, char out[KILN_TUNED_NOTE]) {
  int length = snprintf(out, KILN_TUNED_NOTE, "tuned %s", kernel);
  return length > 0 && length < KILN_TUNED_NOTE;
}

static int order_axes(const kiln_tuned_axis *a, const kiln_tuned_axis *b) {
  return a->kind != b->kind ? (a->kind < b->kind ? -1 : 1) : strcmp(a->name, b->name);
}

bool kiln_tuned_add_axis(kiln_tuned_entry *entry, kiln_tuned_axis axis) {
  uint32_t at = entry->axis_count;
  if (at == KILN_TUNED_MOST_AXES) return false;
  while (at && order_axes(&axis, &entry->axes[at - 1]) < 0) at--;
  if (at && !order_axes(&axis, &entry->axes[at - 1])) return false;
  memmove(&entry->axes[at + 1], &entry->axes[at], (entry->axis_count - at) * sizeof axis);
  entry->axes[at] = axis;
  entry->axis_count++;
  return true;
}

// ----------------------------------------------------------------------------------------- reading

typedef struct source {
  kiln_arena *arena;
  const char *file, *begin, *end; // of the whole text
  const char *line_begin, *at, *line_end;
  uint32_t line;
  kiln_tuned_place place;
  kiln_error *err;
} source;

// `at`: where in the line; then a message.
static KILN_PRINTF(3, 4) kiln_status fault(source *s, const char *at, const char *format, ...) {
  char text[600];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  s->place = (kiln_tuned_place){s->line, (uint32_t)(at - s->line_begin) + 1};
  return kiln_fail(s->err, KILN_STATUS_SOURCE, "%s:%u:%u: %s", s->file, s->place.line, s->place.column, text);
}

static kiln_status no_memory(source *s) {
  return kiln_fail(s->err, KILN_STATUS_OUT_OF_MEMORY, "%s: memory is exhausted", s->file);
}

static bool next_line(source *s) {
  s->at = s->line ? s->line_end + 1 : s->begin;
  if (s->at >= s->end) return false;
  const char *newline = memchr(s->at, '\n', (size_t)(s->end - s->at));
  s->line_begin = s->at;
  s->line_end = newline ? newline : s->end;
  s->line++;
  return true;
}

static void skip_spaces(source *s) {
  while (s->at < s->line_end && *s->at == ' ') s->at++;
}

// A word of the text: a name, or a value out of its quotes.
typedef struct word {
  const char *at;   // in the text
  const char *text; // arena; "" while there is none
} word;

static bool is_printable(char c) { return (unsigned char)c >= 0x20 && c != 0x7f; }

static kiln_status read_name(source *s, word *out) {
  const char *begin = s->at;
  while (s->at < s->line_end && *s->at != '=' && *s->at != ' ' && *s->at != '"') s->at++;
  if (s->at == begin || s->at == s->line_end || *s->at != '=')
    return fault(s, begin, "expected NAME=VALUE, found '%.*s'",
                 (int)(s->at - begin > 60 ? 60 : s->at - begin), begin);
  *out = (word){begin, kiln_arena_text(s->arena, begin, (size_t)(s->at - begin))};
  s->at++;
  return out->text ? KILN_OK : no_memory(s);
}

static kiln_status read_quoted(source *s, word *out) {
  const char *begin = s->at++;
  size_t length = 0;
  char *text = kiln_arena_alloc(s->arena, (size_t)(s->line_end - begin) + 1);
  if (!text) return no_memory(s);
  for (; s->at < s->line_end && *s->at != '"'; s->at++) {
    if (*s->at == '\\') s->at++;
    if (s->at == s->line_end) break;
    if (s->at[-1] == '\\' && *s->at != '"' && *s->at != '\\')
      return fault(s, s->at - 1, "expected \\\" or \\\\, found '\\%c'", is_printable(*s->at) ? *s->at : '?');
    if (!is_printable(*s->at))
      return fault(s, s->at, "a character that cannot be printed (0x%02x)", (uint8_t)*s->at);
    text[length++] = *s->at;
  }
  if (s->at == s->line_end) return fault(s, begin, "the quote is not closed in this line");
  s->at++;
  if (s->at < s->line_end && *s->at != ' ') return fault(s, s->at, "expected a space after the quote");
  out->text = text;
  return KILN_OK;
}

static kiln_status read_value(source *s, word *out) {
  *out = (word){.at = s->at, .text = ""};
  if (s->at < s->line_end && *s->at == '"') return read_quoted(s, out);
  while (s->at < s->line_end && *s->at != ' ') {
    if (*s->at == '"' || !is_printable(*s->at))
      return fault(s, s->at,
                   *s->at == '"' ? "a quote inside a word that began without one"
                                 : "a character that cannot be printed");
    s->at++;
  }
  if (s->at == out->at) return fault(s, out->at, "expected a value");
  out->text = kiln_arena_text(s->arena, out->at, (size_t)(s->at - out->at));
  return out->text ? KILN_OK : no_memory(s);
}

static bool read_number(const char *text, uint64_t *out) {
  *out = 0;
  if (!*text || (*text == '0' && text[1])) return false;
  for (; *text; text++) {
    if (*text < '0' || *text > '9' || *out > (UINT64_MAX - 9) / 10) return false;
    *out = *out * 10 + (uint64_t)(*text - '0');
  }
  return true;
}

static kiln_status read_bin(source *s, const word *value, uint8_t *out) {
  uint64_t number;
  if (!read_number(value->text, &number) || number > INT64_MAX)
    return fault(s, value->at, "expected the least number of a bin, found '%.60s'", value->text);
  *out = kiln_tuned_bin((int64_t)number);
  int64_t least = kiln_tuned_bin_least(*out);
  return least == (int64_t)number
             ? KILN_OK
             : fault(s, value->at, "%llu is not the least number of its bin, which is written %lld",
                     (unsigned long long)number, (long long)least);
}

// What an axis says; "": there is no third word.
typedef char choices[3][8];
static const choices aligned_words = {"no", "yes", ""}, stride_words = {"0", "1", "other"};

static kiln_status read_choice(source *s, const word *value, const choices words, uint8_t *out) {
  for (*out = 0; *out < 3 && *words[*out]; ++*out)
    if (!strcmp(value->text, words[*out])) return KILN_OK;
  return fault(s, value->at, "expected %s, %s%s%s, found '%.60s'", words[0], words[1],
               *words[2] ? " or " : "", words[2], value->text);
}

static kiln_status read_axis(source *s, kiln_tuned_entry *entry, unsigned kind, const word *name,
                             const word *value) {
  kiln_tuned_axis axis = {.kind = (kiln_tuned_axis_kind)kind,
                          .name = name->text + strlen(axis_prefixes[kind])};
  if (!*axis.name)
    return fault(s, name->at, "expected the name of a parameter after '%s'", axis_prefixes[kind]);
  KILN_TRY(
      kind == KILN_TUNED_BIN
          ? read_bin(s, value, &axis.value)
          : read_choice(s, value, kind == KILN_TUNED_ALIGNED ? aligned_words : stride_words, &axis.value));
  if (kiln_tuned_add_axis(entry, axis)) return KILN_OK;
  return entry->axis_count == KILN_TUNED_MOST_AXES
             ? fault(s, name->at, "more than %d axes", KILN_TUNED_MOST_AXES)
             : fault(s, name->at, "'%s' is there already", name->text);
}

static kiln_status unknown_name(source *s, const word *name) {
  kiln_nearest n = kiln_nearest_to(name->text);
  for (unsigned f = 0; f < KILN_TUNED_FIELDS; f++) kiln_nearest_consider(&n, rows[f].spelling);
  return n.best ? fault(s, name->at, "unknown field '%.60s'; did you mean '%s'?", name->text, n.best)
                : fault(s, name->at, "unknown field '%.60s'; docs/tuning.md has the list", name->text);
}

static kiln_status read_word(source *s, kiln_tuned_entry *entry) {
  word name = {.text = ""}, value = {.text = ""};
  KILN_TRY(read_name(s, &name));
  KILN_TRY(read_value(s, &value));
  for (unsigned kind = 0; kind < KILN_TUNED_AXIS_KINDS; kind++)
    if (!strncmp(name.text, axis_prefixes[kind], strlen(axis_prefixes[kind])))
      return read_axis(s, entry, kind, &name, &value);
  unsigned f = 0;
  while (f < KILN_TUNED_FIELDS && strcmp(rows[f].spelling, name.text)) f++;
  if (f == KILN_TUNED_FIELDS) return unknown_name(s, &name);
  if (entry->texts[f]) return fault(s, name.at, "'%s' is there already", name.text);
  entry->texts[f] = value.text;
  if (rows[f].value == NUMBER && !read_number(value.text, &entry->numbers[f]))
    return fault(s, value.at, "'%s': expected a number, found '%.60s'", name.text, value.text);
  return KILN_OK;
}

static kiln_status read_entry(source *s, kiln_tuned_entry *entry) {
  entry->line = s->line;
  for (skip_spaces(s); s->at < s->line_end; skip_spaces(s)) KILN_TRY(read_word(s, entry));
  for (unsigned f = 0; f < KILN_TUNED_FIELDS; f++)
    if (rows[f].use == MUST && !entry->texts[f])
      return fault(s, s->line_begin, "the field '%s' is missing", rows[f].spelling);
  return KILN_OK;
}

static kiln_status read_head(source *s) {
  uint64_t version;
  char number[24] = "";
  size_t length = sizeof head - 1;
  if (!next_line(s)) {
    s->line = 1, s->line_begin = s->begin;
    return fault(s, s->begin, "expected '%s%d', found nothing", head, KILN_TUNED_VERSION);
  }
  size_t size = (size_t)(s->line_end - s->at);
  if (size < length || memcmp(s->at, head, length) || size - length >= sizeof number)
    return fault(s, s->at, "expected '%s%d'", head, KILN_TUNED_VERSION);
  memcpy(number, s->at + length, size - length);
  if (!read_number(number, &version))
    return fault(s, s->at + length, "expected the version of the format, found '%s'", number);
  if (version && version <= KILN_TUNED_VERSION) return KILN_OK;
  s->place = (kiln_tuned_place){s->line, (uint32_t)length + 1};
  return kiln_fail(s->err, KILN_STATUS_VERSION,
                   "%s:1:%zu: the table has version %s, this program reads up to %d", s->file, length + 1,
                   number, KILN_TUNED_VERSION);
}

kiln_status kiln_tuned_read(kiln_arena *arena, const char *file, const char *text, size_t size,
                            kiln_tuned_entry **out, uint32_t *out_count, kiln_tuned_place *out_place,
                            kiln_error *err) {
  source s = {.arena = arena, .file = file, .begin = text, .end = text + size, .err = err};
  uint32_t capacity = 0;
  *out = NULL, *out_count = 0;
  kiln_status status = read_head(&s);
  while (status == KILN_OK && next_line(&s)) {
    skip_spaces(&s);
    if (s.at == s.line_end || *s.at == '#') continue;
    if (*out_count == KILN_TUNED_MOST_ENTRIES) {
      status = fault(&s, s.at, "more than %d choices", KILN_TUNED_MOST_ENTRIES);
      break;
    }
    KILN_GROW(arena, *out, *out_count, capacity);
    if (kiln_arena_failed(arena)) {
      status = no_memory(&s);
      break;
    }
    memset(&(*out)[*out_count], 0, sizeof **out);
    status = read_entry(&s, &(*out)[*out_count]);
    ++*out_count;
  }
  if (out_place) *out_place = s.place;
  if (status != KILN_OK) *out = NULL, *out_count = 0;
  return status;
}

// ----------------------------------------------------------------------------------------- writing

void kiln_tuned_write_head(kiln_tuned_extent extent, kiln_buffer *out) {
  kiln_buffer_format(out, "%s%d\n", head,
                     extent == KILN_TUNED_WHOLE ? KILN_TUNED_VERSION : KILN_TUNED_NOTE_VERSION);
}

static void write_value(const char *text, kiln_buffer *out) {
  if (*text && !strpbrk(text, " \"")) {
    kiln_buffer_bytes(out, text, strlen(text));
    return;
  }
  kiln_buffer_u8(out, '"');
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') kiln_buffer_u8(out, '\\');
    kiln_buffer_u8(out, (uint8_t)*text);
  }
  kiln_buffer_u8(out, '"');
}

void kiln_tuned_write_axis(const kiln_tuned_axis *axis, kiln_buffer *out) {
  kiln_buffer_format(out, "%s%s=", axis_prefixes[axis->kind], axis->name);
  if (axis->kind == KILN_TUNED_BIN)
    kiln_buffer_format(out, "%lld", (long long)kiln_tuned_bin_least(axis->value));
  else
    kiln_buffer_format(out, "%s",
                       (axis->kind == KILN_TUNED_ALIGNED ? aligned_words : stride_words)[axis->value]);
}

void kiln_tuned_write(const kiln_tuned_entry *entry, kiln_tuned_extent extent, kiln_buffer *out) {
  static const uint8_t most[] = {[KILN_TUNED_WHOLE] = HISTORY,
                                 [KILN_TUNED_WITHOUT_HISTORY] = CHOICE,
                                 [KILN_TUNED_IDENTITY_ONLY] = IDENTITY};
  for (unsigned f = 0; f < KILN_TUNED_FIELDS; f++) {
    if (entry->texts[f] && rows[f].part <= most[extent]) {
      kiln_buffer_format(out, "%s%s=", f ? " " : "", rows[f].spelling);
      write_value(entry->texts[f], out);
    }
    for (uint32_t i = 0; f == KILN_TUNED_UNITS && i < entry->axis_count; i++) {
      kiln_buffer_u8(out, ' ');
      kiln_tuned_write_axis(&entry->axes[i], out);
    }
  }
}
