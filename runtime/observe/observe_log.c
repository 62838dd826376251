// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes a line for each event of the categories that were asked for: a time, the process and thread, the
// event, and what is known of it as name=value. Values are numbers, words or quoted; no argument of a launch
// is written.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/control_characters.h"
#include "base/output.h"
#include "runtime/observe/observe.h"

enum { OPEN, LOAD, CHOOSE, MISS, LAUNCH, WARNING, ALL, CATEGORIES };
static const char *const names[] = {"open", "load", "choose", "miss", "launch", "warning", "all", NULL};
static const uint32_t kinds_of[CATEGORIES] = {
    [OPEN] = KILN_EVENT_OPENED,
    [LOAD] = KILN_EVENT_LOADED | KILN_EVENT_UNLOAD,
    [CHOOSE] = KILN_EVENT_MESSAGE,
    [MISS] = KILN_EVENT_MISS,
    [LAUNCH] = KILN_EVENT_LAUNCHED | KILN_EVENT_TIMES,
    [WARNING] = KILN_EVENT_MESSAGE | KILN_EVENT_MISS,
    [ALL] = KILN_EVENT_OPENED | KILN_EVENT_LOADED | KILN_EVENT_UNLOAD | KILN_EVENT_MESSAGE | KILN_EVENT_MISS |
            KILN_EVENT_LAUNCHED | KILN_EVENT_TIMES,
};

static struct {
  int fd; // standard error, or the file: owned
  bool has_infos;
} state = {.fd = STDERR_FILENO};

kiln_status observe_log_begin(const char *categories, const char *path, uint32_t *out_kinds,
                              kiln_error *err) {
  int category;
  state.has_infos = false;
  while ((category = observe_take_word(&categories, names)) >= 0) {
    *out_kinds |= kinds_of[category];
    state.has_infos |= category == CHOOSE || category == ALL;
  }
  if (category == -2)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "what to log: expected open, load, choose, miss, launch, warning or all, found '%.100s'",
                     categories);
  return path && *out_kinds ? kiln_output_append_open(path, &state.fd, err) : KILN_OK;
}

void observe_log_end(void) {
  if (state.fd > STDERR_FILENO) close(state.fd);
  state.fd = STDERR_FILENO;
}

// --------------------------------------------------------------------------------------------- a line

typedef struct line {
  char text[4096];
  size_t size;
} line;

static void add(line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(line *l, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(l->text + l->size, sizeof l->text - l->size, format, args);
  va_end(args);
  size_t room = sizeof l->text - l->size - 1;
  l->size += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room;
}

// Quotes, backslashes and control characters come from a bundle: they must not make a line of their own.
static void add_text(line *l, const char *name, const char *text) {
  char shown[2500];
  if (!text) return;
  kiln_show_controls(text, true, shown, sizeof shown);
  add(l, " %s=\"", name);
  for (const char *c = shown; *c; c++) add(l, *c == '"' ? "\\%c" : "%c", *c);
  add(l, "\"");
}

static void add_choice(line *l, const kiln_event *e) {
  const kiln_choice *c = e->choice;
  add_text(l, "config", c->config);
  if (*c->variant) add_text(l, "variant", c->variant);
  add(l, " target=%s rank=%u", c->target, c->rank);
  add_text(l, "bundle", c->bundle);
}

static void add_launch(line *l, const observed_library *library, const kiln_event *e) {
  static const char *const by[] = {"order", "table", "nearest", "default", "cost"};
  kiln_reason reason = {.size = sizeof reason};
  kiln_error err;
  add(l, " grid=%u,%u,%u stream=%p ns=%llu", e->choice->grid[0], e->choice->grid[1], e->choice->grid[2],
      e->stream, (unsigned long long)(e->end_ns - e->begin_ns));
  if (library->choose_reason(e->kernel, e->block, e->block_size, &reason, &err) != KILN_OK) return;
  if ((unsigned)reason.by < sizeof by / sizeof *by) add(l, " by=%s", by[reason.by]);
  add_text(l, "why", reason.text);
}

static const char *verb_of(const kiln_event *e) {
  switch (e->kind) {
  case KILN_EVENT_OPENED: return "open";
  case KILN_EVENT_LOADED: return "load";
  case KILN_EVENT_UNLOAD: return "unload";
  case KILN_EVENT_MISS: return "miss";
  case KILN_EVENT_LAUNCHED: return "launch";
  default: return e->level == KILN_LOG_WARNING ? "warning" : "choose";
  }
}

static void begin_line(line *l, const kiln_event *e) {
  struct timespec now;
  struct tm parts;
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &parts);
  l->size = strftime(l->text, sizeof l->text, "kiln %Y-%m-%dT%H:%M:%S", &parts);
  add(l, ".%06ldZ %d/%ld %s", now.tv_nsec / 1000, (int)getpid(), syscall(SYS_gettid), verb_of(e));
}

void observe_log(const observed_library *library, const kiln_event *e) {
  line l;
  if (e->kind == KILN_EVENT_MESSAGE && e->level == KILN_LOG_INFO && !state.has_infos) return;
  begin_line(&l, e);
  if (e->device_name) add(&l, " device=%s", e->device_name);
  add_text(&l, "kernel", e->kernel_name);
  if (e->choice) add_choice(&l, e);
  if (e->choice && e->kind == KILN_EVENT_LAUNCHED) add_launch(&l, library, e);
  if (e->kind == KILN_EVENT_LOADED) add(&l, " bytes=%zu", e->code_size);
  if (e->kind & (KILN_EVENT_LAUNCHED | KILN_EVENT_LOADED)) add(&l, " status=%s", kiln_status_name(e->status));
  add_text(&l, e->kind == KILN_EVENT_OPENED ? "bundle" : "text", e->text);
  l.text[l.size++] = '\n';
  kiln_output_append(state.fd, l.text, l.size);
}
