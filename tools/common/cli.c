// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements what all command line programs share: options from a table, error messages, reading of files,
// and finding the other programs.
#include "tools/common/cli.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/nearest.h"
#include "base/output.h"
#include "base/plural.h"
#include "base/program.h"
#include "base/control_characters.h"
#include "base/stream.h"

static bool reports_json;     // cli_json_on_failure
static cli_place said_place;  // cli_json_place
static char stdout_taker[64]; // cli_take_output: whose bytes standard output gets

void cli_list_add(cli_list *list, const char *text) {
  if (list->count == list->capacity) {
    list->capacity = list->capacity ? list->capacity * 2 : 16;
    list->items = realloc(list->items, list->capacity * sizeof *list->items);
    if (!list->items) abort();
  }
  list->items[list->count++] = text;
}

void cli_list_deinit(cli_list *list) {
  free(list->items);
  memset(list, 0, sizeof *list);
}

bool cli_color(const char *setting, const char *no_color, const char *term) {
  static const char *const words[] = {
      [KILN_COLORS_AUTO] = "auto", [KILN_COLORS_ON] = "always", [KILN_COLORS_OFF] = "never"};
  unsigned when = KILN_COLORS_AUTO;
  while (setting && when < sizeof words / sizeof *words && strcmp(setting, words[when])) when++;
  if (when == sizeof words / sizeof *words) return false;
  bool is_off = when == KILN_COLORS_AUTO && ((no_color && *no_color) || (term && !strcmp(term, "dumb")));
  kiln_program_color(is_off ? KILN_COLORS_OFF : (kiln_program_colors)when);
  return true;
}

static bool takes_value(const cli_option *o) { return o->kind != CLI_FLAG && o->kind != CLI_TIMES; }

static void print_help(const cli_page *page) {
  printf("usage: %s\n\n%s\n", page->usage, page->summary);
  if (page->option_count) printf("\noptions:\n");
  for (size_t i = 0; i < page->option_count; i++) {
    const cli_option *o = &page->options[i];
    char left[80];
    bool is_maybe = o->kind == CLI_MAYBE;
    snprintf(left, sizeof left, "%s%c%s--%s%s%s%s", o->letter ? "-" : " ", o->letter ? o->letter : ' ',
             o->letter ? ", " : "  ", o->name,
             !takes_value(o) ? ""
             : is_maybe      ? "[="
                             : "=",
             !takes_value(o) ? ""
             : o->value      ? o->value
                             : "VALUE",
             is_maybe ? "]" : "");
    printf("  %-30s %s\n", left, o->help);
  }
  if (page->more) printf("\n%s\n", page->more);
  if (page->other_help) printf("\n%s\n", page->other_help());
}

/// The table for programs (cli.h). Choices are parted by | there.
static void list_options(const cli_page *page) {
  const char *name;
  bool needs_value;
  for (size_t i = 0; i < page->option_count; i++) {
    const cli_option *o = &page->options[i];
    printf("option\t%s\t%c\t%s%s%s\t%s\t%s\n", o->name, o->letter ? o->letter : '-',
           takes_value(o) ? "v" : "", o->kind == CLI_MAYBE ? "?" : "",
           o->kind == CLI_LIST || o->kind == CLI_INPUTS || o->kind == CLI_TIMES ? "*" : "",
           !takes_value(o) ? ""
           : o->value      ? o->value
                           : "VALUE",
           o->help);
  }
  for (size_t i = 0; page->other_name && (name = page->other_name(i, &needs_value)); i++) {
    const char *choices = "", *help = page->other_row ? page->other_row(i, &choices) : "";
    printf("option\t%s\t-\t%s\t", name, needs_value ? "v" : "");
    if (needs_value && !*choices) fputs("VALUE", stdout);
    for (; *choices; choices++) putchar(*choices == ',' ? '|' : *choices);
    printf("\t%s\n", help);
  }
}

/// {"error": {...}}, once: one document.
static void print_json_error(kiln_status status, const char *text) {
  kiln_buffer out = {0};
  kiln_error shown = {.status = status};
  snprintf(shown.text, sizeof shown.text, "%s", text);
  cli_json_error(&out, &shown, NULL);
  printf("{%.*s}\n", out.size < 2 ? 0 : (int)out.size - 2, out.size < 2 ? "" : (const char *)out.bytes + 2);
  kiln_buffer_deinit(&out);
  reports_json = false;
}

int cli_usage(const cli_page *page, const char *format, ...) {
  char text[KILN_ERROR_TEXT];
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  fputs("kiln: error: ", stderr);
  vfprintf(stderr, format, args);
  fprintf(stderr, "\nusage: %s\n", page->usage);
  vsnprintf(text, sizeof text, format, again);
  va_end(again);
  va_end(args);
  if (reports_json) print_json_error(KILN_STATUS_INVALID_ARGUMENT, text);
  return CLI_USAGE;
}

static const cli_option *find_option(const cli_page *page, const char *name, size_t length) {
  for (size_t i = 0; i < page->option_count; i++)
    if (strlen(page->options[i].name) == length && !memcmp(page->options[i].name, name, length))
      return &page->options[i];
  return NULL;
}

static int set_number(const cli_page *page, const cli_option *o, const char *value) {
  char *end;
  int least = o->kind == CLI_COUNT;
  errno = 0;
  long long number = strtoll(value, &end, 10);
  *(int64_t *)o->to = number;
  if (!errno && !*end && end != value && number >= least && (!o->most || number <= o->most)) return -1;
  bool is_beyond = errno == ERANGE && number > 0;
  if (o->most || is_beyond)
    return cli_usage(page, "--%s: expected a number from %d to %lld, found '%s'", o->name, least,
                     o->most ? (long long)o->most : (long long)INT64_MAX, value);
  return cli_usage(page, "--%s: expected a number of at least %d, found '%s'", o->name, least, value);
}

int cli_u64(const cli_page *page, const char *name, const char *value, uint64_t *out) {
  char *end;
  errno = 0;
  unsigned long long number = strtoull(value, &end, 10);
  *out = number;
  if (isdigit((unsigned char)*value) && !*end && !errno) return -1;
  return cli_usage(page, "--%s: expected a number from 0 to %llu, found '%s'", name,
                   (unsigned long long)UINT64_MAX, value);
}

static int set(const cli_page *page, const cli_option *o, const char *value) {
  switch (o->kind) {
  case CLI_FLAG: *(bool *)o->to = true; break;
  case CLI_TIMES: ++*(unsigned *)o->to; break;
  case CLI_OUTPUT:
    if (!*value) return cli_usage(page, "--%s needs the name of a file; it is empty", o->name);
    *(const char **)o->to = value;
    break;
  case CLI_INPUT:
  case CLI_TEXT:
  case CLI_MAYBE: *(const char **)o->to = value; break;
  case CLI_INPUTS:
  case CLI_LIST: cli_list_add(o->to, value); break;
  case CLI_NUMBER:
  case CLI_COUNT: return set_number(page, o, value);
  }
  return -1;
}

typedef struct cursor {
  int argc;
  char **argv;
  int at;
} cursor;

static int set_with_value(const cli_page *page, const cli_option *o, const char *attached, cursor *c) {
  if (!takes_value(o)) return attached ? cli_usage(page, "--%s takes no value", o->name) : set(page, o, NULL);
  if (o->kind == CLI_MAYBE) return set(page, o, attached ? attached : "");
  if (!attached && c->at + 1 >= c->argc) return cli_usage(page, "--%s needs a value", o->name);
  return set(page, o, attached ? attached : c->argv[++c->at]);
}

/// "unknown option --X", with the name that was probably meant.
static int unknown_option(const cli_page *page, const char *text, size_t length) {
  char name[64];
  bool needs_value;
  snprintf(name, sizeof name, "%.*s", (int)length, text);
  kiln_nearest n = kiln_nearest_to(name);
  for (size_t i = 0; i < page->option_count; i++) kiln_nearest_consider(&n, page->options[i].name);
  for (size_t i = 0; page->other_name && page->other_name(i, &needs_value); i++)
    kiln_nearest_consider(&n, page->other_name(i, &needs_value));
  if (n.best) return cli_usage(page, "unknown option --%s; did you mean --%s?", name, n.best);
  return cli_usage(page, "unknown option --%s (--help lists them)", name);
}

/// Whether `other` takes an option of that name that requires a value.
static bool other_needs_value(const cli_page *page, const char *text, size_t length) {
  bool needs_value = false;
  const char *name;
  for (size_t i = 0; page->other_name && (name = page->other_name(i, &needs_value)); i++)
    if (strlen(name) == length && !memcmp(name, text, length)) return needs_value;
  return false;
}

/// An option that the page's table lacks.
static int other_option(const cli_page *page, const char *text, size_t length, cursor *c) {
  char joined[PATH_MAX + 64];
  kiln_error err = {0};
  if (!text[length] && other_needs_value(page, text, length)) {
    if (c->at + 1 >= c->argc) return cli_usage(page, "--%s needs a value", text);
    if (snprintf(joined, sizeof joined, "%s=%s", text, c->argv[++c->at]) >= (int)sizeof joined)
      return cli_usage(page, "--%.*s: expected a value of at most %d characters", (int)length, text,
                       PATH_MAX);
    text = joined;
  }
  if (page->other && page->other(page->context, text, &err)) return -1;
  if (err.status != KILN_OK) return cli_usage(page, "%s", err.text);
  return unknown_option(page, text, length);
}

static int long_option(const cli_page *page, const char *text, cursor *c) {
  const char *equals = strchr(text, '='), *value = equals ? equals + 1 : NULL;
  size_t length = equals ? (size_t)(equals - text) : strlen(text);
  if (length == strlen("color") && !memcmp(text, "color", length)) { // every page has it
    if (!value && c->at + 1 < c->argc) value = c->argv[++c->at];
    if (value && cli_color(value, NULL, NULL)) return -1;
    return cli_usage(page, "--color: expected auto, always or never%s%s%s", value ? ", found '" : "",
                     value ? value : "", value ? "'" : "");
  }
  const cli_option *o = find_option(page, text, length);
  return o ? set_with_value(page, o, value, c) : other_option(page, text, length, c);
}

static int short_options(const cli_page *page, const char *text, cursor *c) {
  for (; *text; text++) {
    const cli_option *o = page->options, *end = o + page->option_count;
    while (o < end && o->letter != *text) o++;
    if (o == end) return cli_usage(page, "unknown option -%c (--help lists them)", *text);
    if (takes_value(o)) return set_with_value(page, o, text[1] ? text + 1 : NULL, c);
    set(page, o, NULL);
  }
  return -1;
}

/// The words of a response file, separated by white space, except inside "..." and '...'. Words live as long
/// as the process.
static int response_words(const cli_page *page, const char *path, cli_list *out) {
  kiln_buffer text = {0};
  kiln_error err = {0};
  if (cli_read_file(path, "", 64 << 20, &text, &err) != KILN_OK)
    return cli_usage(page, "@%s: %s", path, err.text);
  for (char *p = (char *)text.bytes; p;) {
    while (*p && isspace((unsigned char)*p)) p++;
    if (!*p) return -1;
    char quote = *p == '"' || *p == '\'' ? *p++ : 0, *start = p;
    while (*p && (quote ? *p != quote : !isspace((unsigned char)*p))) p++;
    bool more = *p;
    *p = 0;
    cli_list_add(out, start);
    if (!more) return -1;
    p++;
  }
  return -1;
}

static int parse_words(const cli_page *page, int argc, char **argv, cli_list *words) {
  cursor c = {argc, argv, 0};
  bool only_words = false;
  for (; c.at < argc; c.at++) {
    const char *text = argv[c.at];
    int how = -1;
    if (only_words || text[0] != '-' || !text[1]) cli_list_add(words, text);
    else if (!strcmp(text, "--")) only_words = true;
    else if (!strcmp(text, "--help") || !strcmp(text, "-h")) return print_help(page), CLI_OK;
    else if (!strcmp(text, "--list-options")) return list_options(page), CLI_OK;
    else how = text[1] == '-' ? long_option(page, text + 2, &c) : short_options(page, text + 1, &c);
    if (how != -1) return how;
  }
  return -1;
}

int cli_take_output(const cli_page *page, const char *name, const char *path) {
  if (!path || !kiln_output_is_stdout(path)) return -1;
  const char *other = *stdout_taker ? stdout_taker : reports_json ? "--json" : NULL;
  if (other) return cli_usage(page, "%s: standard output is taken by %s", name, other);
  snprintf(stdout_taker, sizeof stdout_taker, "%s", name);
  kiln_program_give_output();
  return -1;
}

static int take_outputs(const cli_page *page) {
  int how = -1;
  for (size_t i = 0; how == -1 && i < page->option_count; i++) {
    char name[64];
    if (page->options[i].kind != CLI_OUTPUT) continue;
    snprintf(name, sizeof name, "--%s", page->options[i].name);
    how = cli_take_output(page, name, *(const char **)page->options[i].to);
  }
  return how;
}

/// No output is a file that an option names to be read: a key that is lost is lost for good.
static kiln_status keep_inputs(const cli_page *page, const char *output, kiln_error *err) {
  for (size_t i = 0; i < page->option_count; i++) {
    const cli_option *o = &page->options[i];
    if (o->kind == CLI_INPUT) KILN_TRY(kiln_output_apart(output, *(const char **)o->to, err));
    const cli_list *list = o->kind == CLI_INPUTS ? o->to : NULL;
    for (size_t k = 0; list && k < list->count; k++) KILN_TRY(kiln_output_apart(output, list->items[k], err));
  }
  return KILN_OK;
}

static int check_outputs(const cli_page *page) {
  kiln_error err = {0};
  for (size_t i = 0; i < page->option_count; i++) {
    const cli_option *o = &page->options[i];
    const char *output = o->kind == CLI_OUTPUT ? *(const char **)o->to : NULL;
    if (output && keep_inputs(page, output, &err) != KILN_OK) return cli_report(err.status, &err);
  }
  return -1;
}

int cli_parse(const cli_page *page, int argc, char **argv, cli_list *words) {
  cli_list all = {0};
  int how = -1;
  for (int i = 1; i < argc && how == -1; i++)
    if (argv[i][0] == '@' && argv[i][1]) how = response_words(page, argv[i] + 1, &all);
    else cli_list_add(&all, argv[i]);
  const cli_option *json = find_option(page, "json", strlen("json"));
  bool has_json = json && json->kind == CLI_FLAG;
  for (size_t i = 0; has_json && i < all.count; i++) // of errors before it, too
    reports_json |= !strcmp(all.items[i], "--json");
  if (how == -1) how = parse_words(page, (int)all.count, (char **)all.items, words);
  if (has_json) reports_json = *(bool *)json->to;
  if (how == -1) how = take_outputs(page);
  if (how == -1) how = check_outputs(page);
  cli_list_deinit(&all);
  return how;
}

int cli_parse_one(const cli_page *page, int argc, char **argv, const char *what, cli_list *words) {
  int how = cli_parse(page, argc, argv, words);
  if (how != -1 || words->count == 1) return how;
  return cli_usage(page, "expected one %s, found %zu word%s", what, words->count, kiln_plural(words->count));
}

void cli_json_on_failure(bool on) { reports_json = on; }

void cli_json_place(const cli_place *place) {
  if (!said_place.line) said_place = *place;
}

/// Of "FILE:3:7: MESSAGE" the place; false for other texts. `file` has room for the text.
static bool place_of_text(const char *text, char *file, cli_place *out) {
  for (const char *at = strchr(text, ':'); at && at > text; at = strchr(at + 1, ':')) {
    int length = 0;
    if (sscanf(at, ":%9u:%9u: %n", &out->line, &out->column, &length) != 2 || !length) continue;
    snprintf(file, KILN_ERROR_TEXT, "%.*s", (int)(at - text), text);
    out->file = file;
    snprintf(out->message, sizeof out->message, "%s", at + length);
    return out->line > 0;
  }
  return false;
}

void cli_json_error(kiln_buffer *out, const kiln_error *err, const cli_place *place) {
  char file[KILN_ERROR_TEXT];
  cli_place found = {0};
  const cli_place *shown = place && place->line                                             ? place
                           : place_of_text(err->text, file, &found)                         ? &found
                           : !place && err->status == KILN_STATUS_SOURCE && said_place.line ? &said_place
                                                                                            : NULL;
  kiln_buffer_format(out, ", \"error\": {\"code\": \"KILN-E%04d\", \"message\": ", (int)err->status);
  cli_json_text(out, shown ? shown->message : err->text);
  if (shown) {
    kiln_buffer_format(out, ", \"file\": ");
    cli_json_text(out, shown->file);
    kiln_buffer_format(out, ", \"line\": %u, \"column\": %u", shown->line, shown->column);
  }
  kiln_buffer_u8(out, '}');
}

int cli_report(kiln_status status, const kiln_error *err) {
  const char *advice = kiln_status_advice(status);
  const char *text = err && err->text[0] ? err->text : kiln_status_text(status);
  // In one piece: processes that fail at the same time do not write into each other's lines.
  kiln_buffer said = {0};
  kiln_buffer_format(&said, "kiln: error: ");
  // Lines after the first are indented, so that quoted text cannot look like a message of its own.
  for (size_t length; text[length = strcspn(text, "\n")]; text += length + 1)
    kiln_buffer_format(&said, "%.*s\n    ", (int)length, text);
  kiln_buffer_format(&said, "%s [KILN-E%04d]\n", text, (int)status);
  if (*advice) kiln_buffer_format(&said, "kiln: note: %s\n", advice);
  if (said.failed) fprintf(stderr, "kiln: error: %s [KILN-E%04d]\n", text, (int)status);
  else fwrite(said.bytes, 1, said.size, stderr);
  kiln_buffer_deinit(&said);
  if (reports_json) print_json_error(status, err && err->text[0] ? err->text : kiln_status_text(status));
  return status == KILN_STATUS_INTERNAL ? CLI_INTERNAL : CLI_FAILED;
}

int cli_misuse(kiln_status status, const kiln_error *err) {
  cli_report(status, err);
  return CLI_USAGE;
}

static const char *kept_files[4]; ///< what cli_keep was given
static unsigned kept_file_count;

void cli_keep(const char *path) {
  if (kept_file_count < sizeof kept_files / sizeof *kept_files) kept_files[kept_file_count++] = path;
}

static kiln_status check_kept(const char *path, kiln_error *err) {
  for (unsigned i = 0; i < kept_file_count; i++) KILN_TRY(kiln_output_apart(path, kept_files[i], err));
  return KILN_OK;
}

kiln_status cli_write_file(const char *path, const void *bytes, size_t size, kiln_error *err) {
  KILN_TRY(check_kept(path, err));
  if (strcmp(path, "-")) return kiln_output_write(path, bytes, size, err);
  if (kiln_stream_write(1, bytes, size)) return KILN_OK;
  return kiln_fail(err, kiln_status_of_errno(errno), "cannot write standard output: %s", strerror(errno));
}

kiln_status cli_open_output(const char *path, kiln_output *out, kiln_error *err) {
  KILN_TRY(check_kept(path, err));
  if (strcmp(path, "-")) return kiln_output_open(out, path, err);
  *out = (kiln_output){.path = path, .fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3), .is_through = true};
  if (out->fd >= 0) return KILN_OK;
  return kiln_fail(err, kiln_status_of_errno(errno), "cannot write standard output: %s", strerror(errno));
}

kiln_status cli_write_made(const char *path, const char *input, const void *bytes, size_t size,
                           kiln_error *err) {
  KILN_TRY(kiln_output_apart(path, input, err));
  return cli_write_file(path, bytes, size, err);
}

/// How this program finds its own folder, in this order: by the name that it was started by; by its file, after
/// links are followed; by that name after links are followed, where there is no /proc.
enum { BY_NAME, BY_FILE, BY_RESOLVED_NAME, WAYS };

/// Where another program is, seen from there, in this order.
static const char *const subfolders[] = {"", "../libexec/kiln/"};
enum { PLACES = WAYS * (sizeof subfolders / sizeof *subfolders) };

/// A path where another program may be, one for each way and subfolder. False: there is none.
static bool place_of(const char *name, unsigned number, char *out, size_t capacity) {
  const unsigned subfolder_count = PLACES / WAYS, way = number / subfolder_count;
  char folder[PATH_MAX] = "";
  // The kernel passes the name on. It is not trusted by programs with more rights than their caller.
  const char *started = getauxval(AT_SECURE) ? NULL : (const char *)getauxval(AT_EXECFN);
  if (way == BY_FILE) {
    if (readlink("/proc/self/exe", folder, sizeof folder - 1) <= 0) return false;
  } else if (!started || (way == BY_RESOLVED_NAME && !realpath(started, folder)) ||
             (way == BY_NAME && snprintf(folder, sizeof folder, "%s", started) >= (int)sizeof folder)) {
    return false;
  }
  char *slash = strrchr(folder, '/');
  if (!slash) return false;
  *slash = 0;
  const char *subfolder = subfolders[number % subfolder_count];
  return snprintf(out, capacity, "%s/%s%s", folder, subfolder, name) < (int)capacity;
}

bool cli_find_program(const char *name, char *out, size_t capacity, int *out_fd) {
  if (out_fd) *out_fd = -1;
  for (unsigned i = 0; i < PLACES; i++) {
    if (!place_of(name, i, out, capacity)) continue;
    if (!out_fd && !access(out, X_OK)) return true;
    if (out_fd && (*out_fd = open(out, O_RDONLY | O_CLOEXEC)) >= 0) return true;
  }
  return false;
}

kiln_status cli_need_program(const char *name, char *out, size_t capacity, kiln_error *err) {
  if (cli_find_program(name, out, capacity, NULL)) return KILN_OK;
  for (unsigned i = 0; i < PLACES; i++)
    if (place_of(name, i, out, capacity) && !access(out, F_OK))
      return kiln_fail(err, KILN_STATUS_DENIED, "%s cannot be executed", out);
  return kiln_fail(err, KILN_STATUS_NOT_FOUND, "%s is not next to this program nor in ../libexec/kiln", name);
}

const char *cli_name(const char *name) {
  static char *kept[8]; // owned
  static unsigned next;
  if (kiln_is_plain(name)) return name;
  size_t room = 4 * strlen(name) + 1;
  char **shown = &kept[next++ % 8], *bigger = realloc(*shown, room);
  if (!bigger) return "?";
  *shown = bigger;
  kiln_show_controls(name, true, bigger, room);
  return bigger;
}

unsigned cli_utf8(const char *s, uint32_t *out_code) {
  static const struct {
    uint8_t mask, lead, size;
    uint32_t least;
  } forms[] = {{0x80, 0, 1, 0}, {0xe0, 0xc0, 2, 0x80}, {0xf0, 0xe0, 3, 0x800}, {0xf8, 0xf0, 4, 0x10000}};
  *out_code = 0;
  for (unsigned f = 0; f < sizeof forms / sizeof *forms; f++) {
    if (((uint8_t)*s & forms[f].mask) != forms[f].lead) continue;
    uint32_t code = (uint8_t)*s & (uint8_t)~forms[f].mask;
    for (unsigned i = 1; i < forms[f].size; i++) {
      if (((uint8_t)s[i] & 0xc0) != 0x80) return 0; // the NUL at the end too
      code = code << 6 | ((uint8_t)s[i] & 0x3f);
    }
    *out_code = code;
    return code >= forms[f].least && (code < 0xd800 || code > 0xdfff) && code <= 0x10ffff ? forms[f].size : 0;
  }
  return 0;
}

void cli_json_text(kiln_buffer *out, const char *text) {
  kiln_buffer_u8(out, '"');
  while (*text) {
    uint32_t code;
    unsigned size = cli_utf8(text, &code);
    if (!size) kiln_buffer_format(out, "\\ufffd");
    else if (code == '"' || code == '\\') kiln_buffer_format(out, "\\%c", *text);
    else if (kiln_control_size(text, size)) kiln_buffer_format(out, "\\u%04x", code);
    else kiln_buffer_bytes(out, text, size);
    text += size ? size : 1;
  }
  kiln_buffer_u8(out, '"');
}

unsigned cli_processors(void) {
  cpu_set_t set;
  long n = sched_getaffinity(0, sizeof set, &set) ? sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set);
  return n < 1 ? 1 : n > 256 ? 256 : (unsigned)n;
}

uint64_t cli_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

const char *cli_keep_address(const char *argument) {
  static char kept[4096];
  if (!argument || snprintf(kept, sizeof kept, "%s", argument) >= (int)sizeof kept) return argument;
  char *text = (char *)(uintptr_t)argument, *start = strstr(text, "://"), *end = strrchr(text, '@');
  for (char *at = start ? start + 3 : text; at < end; at++) *at = '*';
  return kept;
}
