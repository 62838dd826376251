// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is set for `kiln` from outside: the environment variables that base/env.def lists, and kiln.conf, whose lines
// NAME = VALUE name such variables.
#include "tools/kiln/environment.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/env.h"
#include "base/nearest.h"
#include "base/texts.h"
#include "tools/common/cli.h"

// ----------------------------------------------------------------------------------------------- environment

static const char names[][28] = {
#define ENV(name, role, reader, help) #name,
#include "base/env.def"
#undef ENV
};
#define ENV(name, role, reader, help) _Static_assert(sizeof #name <= sizeof *names, "it has room: " #name);
#include "base/env.def"
#undef ENV

static const char readers[] =
#define ENV(name, role, reader, help) reader "\0"
#include "base/env.def"
#undef ENV
    ;

const char *environment_variable(unsigned index) { return names[index]; }

const char *environment_reader(unsigned index) { return kiln_text_at(readers, index); }

bool environment_is_setting(unsigned index) {
  return !strncmp(names[index], "KILN_", 5) && strncmp(environment_reader(index), "Python", 6) &&
         index != ENV_KILN_CONFIG;
}

const char *environment_get(environment_name name) {
  const char *value = secure_getenv(names[name]);
  return value && *value ? value : NULL;
}

bool environment_flag(environment_name name, bool absent) {
  const char *value = environment_get(name);
  return value ? kiln_env_is_yes(value) : absent;
}

kiln_status environment_check_flag(environment_name name, kiln_error *err) {
  static const char *const no[] = {"0", "off", "no", "false"};
  const char *value = environment_get(name);
  bool known = !value || kiln_env_is_yes(value);
  for (unsigned i = 0; i < sizeof no / sizeof *no && !known; i++) known = !strcmp(value, no[i]);
  return known ? KILN_OK
               : kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "%s: expected 0 or 1, found \"%.60s\"",
                           names[name], value);
}

kiln_status environment_parse_size(const char *text, uint64_t *out) {
  static const char units[] = "KMGT";
  char *end;
  if (*text < '0' || *text > '9') return KILN_STATUS_INVALID_ARGUMENT;
  errno = 0;
  unsigned long long number = strtoull(text, &end, 10);
  const bool is_more = errno == ERANGE; // than 64 bits hold
  const char *unit = *end ? strchr(units, *end) : NULL;
  unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
  if ((*end && !unit) || (unit && end[1])) return KILN_STATUS_INVALID_ARGUMENT;
  if (is_more || number > UINT64_MAX >> shift) return KILN_STATUS_LIMIT;
  *out = (uint64_t)number << shift;
  return KILN_OK;
}

kiln_status environment_size(environment_name name, uint64_t most, uint64_t *in_out, kiln_error *err) {
  const char *value = environment_get(name);
  if (!value) return KILN_OK;
  kiln_status status = environment_parse_size(value, in_out);
  if (status == KILN_STATUS_LIMIT || (status == KILN_OK && *in_out > most))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "%s: expected at most %" PRIu64 ", found \"%.60s\"",
                     names[name], most, value);
  if (status == KILN_OK) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                   "%s: expected a number with an optional K, M, G or T, found \"%.60s\"", names[name],
                   value);
}

static bool is_known(const char *name) {
  unsigned i = 0;
  while (i < ENV_COUNT && strcmp(names[i], name)) i++;
  return i < ENV_COUNT;
}

bool environment_next_misspelt(size_t *at, char *out, size_t capacity) {
  static const char ours[] = "KILN_";
  enum { OURS = sizeof ours - 1 };
  for (; environ && environ[*at]; ++*at) {
    char name[64];
    size_t length = strcspn(environ[*at], "=");
    if (strncmp(environ[*at], ours, OURS) || length >= sizeof name) continue;
    snprintf(name, sizeof name, "%.*s", (int)length, environ[*at]);
    if (is_known(name)) continue;
    kiln_nearest near = kiln_nearest_to(name + OURS);
    for (unsigned i = 0; i < ENV_COUNT; i++)
      if (!strncmp(names[i], ours, OURS)) kiln_nearest_consider(&near, names[i] + OURS);
    if (!near.best) continue;
    ++*at;
    snprintf(out, capacity, "%s is no setting; did you mean KILN_%s?", name, near.best);
    return true;
  }
  return false;
}

// ------------------------------------------------------------------------------------------------- kiln.conf

enum { MOST_FILE = 1 << 20, MOST_FILES = 2 };

static char files[MOST_FILES][PATH_MAX]; ///< what was read: the user's, the system's
static unsigned file_count;

static struct {
  const char *file; ///< one of `files`
  unsigned line;
} origins[ENV_COUNT];

typedef struct place {
  const char *file, *line_text;
  unsigned line;
  size_t line_size;
} place;

/// SOURCE at `at` in the line.
static kiln_status wrong(const place *p, const char *at, kiln_error *err, const char *format,
                         const char *text) {
  char what[300];
  unsigned column = (unsigned)(at - p->line_text);
  snprintf(what, sizeof what, format, text);
  fprintf(stderr, "%.*s\n", (int)p->line_size, p->line_text);
  for (unsigned i = 0; i < column; i++) fputc(p->line_text[i] == '\t' ? '\t' : ' ', stderr);
  fputs("^\n", stderr);
  return kiln_fail(err, KILN_STATUS_SOURCE, "%s:%u:%u: %s", p->file, p->line, column + 1, what);
}

static kiln_status find_setting(const place *p, const char *name, size_t size, environment_name *out,
                                kiln_error *err) {
  char text[80];
  snprintf(text, sizeof text, "%.*s", (int)(size < sizeof text ? size : sizeof text - 1), name);
  kiln_nearest near = kiln_nearest_to(text);
  for (unsigned i = 0; i < ENV_COUNT; i++) {
    if (!environment_is_setting(i)) continue;
    *out = (environment_name)i;
    if (!strcmp(environment_variable(i), text)) return KILN_OK;
    kiln_nearest_consider(&near, environment_variable(i));
  }
  if (near.best) return wrong(p, name, err, "no such setting; did you mean %s?", near.best);
  return wrong(p, name, err, "'%s' is no setting; `kiln env` lists them", text);
}

/// One line that is not empty: NAME = VALUE. A value may stand in double quotes, which keep blanks at its ends.
static kiln_status read_line(const place *p, const char *at, const char *end, kiln_error *err) {
  environment_name setting = ENV_COUNT;
  char value[PATH_MAX];
  const char *name = at;
  while (at < end && (*at == '_' || (*at >= 'A' && *at <= 'Z') || (*at >= 'a' && *at <= 'z') ||
                      (*at >= '0' && *at <= '9')))
    at++;
  size_t size = (size_t)(at - name);
  while (at < end && (*at == ' ' || *at == '\t')) at++;
  if (!size || at == end || *at != '=') return wrong(p, size ? at : name, err, "expected NAME = VALUE%s", "");
  KILN_TRY(find_setting(p, name, size, &setting, err));
  for (at++; at < end && (*at == ' ' || *at == '\t');) at++;
  const char *begin = at;
  if (end - at >= 2 && *at == '"' && end[-1] == '"') at++, end--;
  if ((size_t)(end - at) >= sizeof value) return wrong(p, begin, err, "the value is too long%s", "");
  memcpy(value, at, (size_t)(end - at));
  value[end - at] = 0;
  if (origins[setting].file == p->file) {
    snprintf(value, sizeof value, "%u", origins[setting].line);
    return wrong(p, name, err, "this was set in line %s already", value);
  }
  if (getenv(environment_variable(setting))) return KILN_OK; // by the environment, or by the user's file
  if (setenv(environment_variable(setting), value, 0))
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  origins[setting].file = p->file;
  origins[setting].line = p->line;
  return KILN_OK;
}

static kiln_status read_text(const char *file, const char *text, size_t size, kiln_error *err) {
  place p = {.file = file};
  for (const char *at = text, *last = text + size; at < last;) {
    const char *newline = memchr(at, '\n', (size_t)(last - at)), *end = newline ? newline : last;
    p.line++, p.line_text = at, p.line_size = (size_t)(end - at);
    const char *next = end + (newline != NULL);
    for (size_t i = 0; i < p.line_size; i++)
      if ((unsigned char)at[i] < ' ' && at[i] != '\t' && !(at[i] == '\r' && at + i + 1 == end))
        return kiln_fail(err, KILN_STATUS_SOURCE, "%s:%u:%zu: a control character", file, p.line, i + 1);
    while (at < end && (*at == ' ' || *at == '\t')) at++;
    while (end > at && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r')) end--;
    if (at < end && *at != '#') KILN_TRY(read_line(&p, at, end, err));
    at = next;
  }
  return KILN_OK;
}

/// A file that is not there is no error unless it was named.
static kiln_status read_file(const char *path, bool must_be_there, kiln_error *err) {
  kiln_buffer text = {0};
  if (!must_be_there && access(path, F_OK)) return KILN_OK;
  char *kept = files[file_count++];
  if (snprintf(kept, PATH_MAX, "%s", path) >= PATH_MAX)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "the path of kiln.conf: expected less than %d characters, found %zu", PATH_MAX,
                     strlen(path));
  kiln_status status = cli_read_file(path, "", MOST_FILE, &text, err);
  if (status == KILN_OK) status = read_text(kept, (const char *)text.bytes, text.size, err);
  kiln_buffer_deinit(&text);
  return status;
}

kiln_status config_load(kiln_error *err) {
  char path[PATH_MAX];
  if (getauxval(AT_SECURE)) return KILN_OK;
  const char *named = getenv(environment_variable(ENV_KILN_CONFIG));
  if (named) return *named ? read_file(named, true, err) : KILN_OK;
  const char *folder = environment_get(ENV_XDG_CONFIG_HOME), *home = environment_get(ENV_HOME);
  bool is_xdg = folder && *folder == '/';
  if ((is_xdg || (home && *home == '/')) &&
      snprintf(path, sizeof path, "%s%s/kiln/kiln.conf", is_xdg ? folder : home, is_xdg ? "" : "/.config") <
          PATH_MAX)
    KILN_TRY(read_file(path, false, err));
  return read_file(KILN_SYSCONFDIR "/kiln/kiln.conf", false, err);
}

const char *config_origin(environment_name name, unsigned *out_line) {
  *out_line = origins[name].line;
  return origins[name].file;
}
