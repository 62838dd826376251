// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts events by device and kernel, without a lock: an entry is made once and stays. Writes them to a file.
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/output.h"
#include "runtime/observe/observe.h"

typedef enum counted { LAUNCHES, FAILURES, LOADS, LOAD_FAILURES, FALLBACKS, MISSES, COUNTED } counted;
typedef struct entry {
  const char *device, *kernel; // in the same allocation
  atomic_ullong counts[COUNTED];
} entry;

enum { MOST = 4000, SLOTS = 8192 };
static _Atomic(entry *) slots[SLOTS]; // by the hash of both names
static _Atomic(entry *) in_order[MOST];
static atomic_uint entry_count;
static entry others = {.device = "", .kernel = "others"};

static uint32_t hash_of(const char *device, const char *kernel) {
  uint32_t h = 2166136261u;
  for (; *device; device++) h = (h ^ (uint8_t)*device) * 16777619u;
  h = (h ^ 0xff) * 16777619u;
  for (; *kernel; kernel++) h = (h ^ (uint8_t)*kernel) * 16777619u;
  return h;
}

static entry *create(const char *device, const char *kernel) {
  size_t first = strlen(device) + 1, second = strlen(kernel) + 1;
  entry *e = calloc(1, sizeof *e + first + second);
  if (!e) return NULL;
  char *text = (char *)(e + 1);
  e->device = memcpy(text, device, first);
  e->kernel = memcpy(text + first, kernel, second);
  return e;
}

// Finds the entry, or the free slot for it.
static _Atomic(entry *) *look(const char *device, const char *kernel, entry **out) {
  for (uint32_t at = hash_of(device, kernel);; at++) {
    _Atomic(entry *) *slot = &slots[at % SLOTS];
    *out = atomic_load_explicit(slot, memory_order_acquire);
    if (!*out || (!strcmp((*out)->kernel, kernel) && !strcmp((*out)->device, device))) return slot;
  }
}

static entry *make(const char *device, const char *kernel) {
  entry *e;
  observe_lock();
  _Atomic(entry *) *slot = look(device, kernel, &e);
  unsigned number = atomic_load(&entry_count);
  if (!e && number < MOST && (e = create(device, kernel))) {
    atomic_store(&in_order[number], e);
    atomic_store(&entry_count, number + 1);
    atomic_store_explicit(slot, e, memory_order_release);
  }
  observe_unlock();
  return e ? e : &others;
}

void observe_count(const kiln_event *event) {
  entry *e;
  if (!event->device_name || !event->kernel_name) return;
  look(event->device_name, event->kernel_name, &e);
  if (!e) e = make(event->device_name, event->kernel_name);
  bool is_ok = event->status == KILN_OK;
  counted what = event->kind == KILN_EVENT_MISS       ? MISSES
                 : event->kind == KILN_EVENT_LAUNCHED ? is_ok ? LAUNCHES : FAILURES
                 : event->kind == KILN_EVENT_LOADED   ? is_ok ? LOADS : LOAD_FAILURES
                                                      : COUNTED;
  if (what == COUNTED) return;
  atomic_fetch_add_explicit(&e->counts[what], 1, memory_order_relaxed);
  if (what == LOADS && event->choice->rank > 1)
    atomic_fetch_add_explicit(&e->counts[FALLBACKS], 1, memory_order_relaxed);
}

// -------------------------------------------------------------------------------------------- reading

static const entry *entry_at(size_t index) {
  size_t count = atomic_load(&entry_count);
  if (index < count) return atomic_load(&in_order[index]);
  return index == MOST && count == MOST ? &others : NULL;
}

static uint64_t count_of(const entry *e, counted what) {
  return atomic_load_explicit((atomic_ullong *)&e->counts[what], memory_order_relaxed);
}

kiln_status kiln_observe_counter_at(size_t index, kiln_counter *out) {
  if (!out) return KILN_STATUS_INVALID_ARGUMENT;
  memset(out, 0, sizeof *out);
  const entry *e = entry_at(index);
  if (!e) return KILN_STATUS_NOT_FOUND;
  *out = (kiln_counter){.device = e->device,
                        .kernel = e->kernel,
                        .launches = count_of(e, LAUNCHES),
                        .failures = count_of(e, FAILURES),
                        .loads = count_of(e, LOADS),
                        .load_failures = count_of(e, LOAD_FAILURES),
                        .fallbacks = count_of(e, FALLBACKS),
                        .misses = count_of(e, MISSES)};
  return KILN_OK;
}

typedef struct page {
  char *out; // NULL: only its size is wanted
  size_t room, size;
} page;

static void put(page *p, const char *text, size_t size) {
  size_t left = p->room > p->size ? p->room - p->size : 0;
  if (left) memcpy(p->out + p->size, text, size < left ? size : left);
  p->size += size;
}
static void put_text(page *p, const char *text) { put(p, text, strlen(text)); }

// As the format wants it.
static void put_label(page *p, const char *text) {
  for (; *text; text++)
    if (*text == '\n') put_text(p, "\\n");
    else if (*text == '"' || *text == '\\') put(p, (const char[]){'\\', *text}, 2);
    else put(p, text, 1);
}

size_t kiln_observe_prometheus(char *out, size_t size) {
  static const char names[COUNTED][24] = {"launches",      "launch_failures", "loads",
                                          "load_failures", "load_fallbacks",  "misses"};
  page p = {.out = out, .room = out && size ? size - 1 : 0};
  for (unsigned what = 0; what < COUNTED; what++) {
    const entry *e;
    put_text(&p, "# TYPE kiln_"), put_text(&p, names[what]), put_text(&p, "_total counter\n");
    for (size_t i = 0; (e = entry_at(i)); i++) {
      char number[32];
      snprintf(number, sizeof number, "\"} %llu\n", (unsigned long long)count_of(e, (counted)what));
      put_text(&p, "kiln_"), put_text(&p, names[what]), put_text(&p, "_total{device=\"");
      put_label(&p, e->device), put_text(&p, "\",kernel=\""), put_label(&p, e->kernel), put_text(&p, number);
    }
  }
  if (out && size) out[p.size < size ? p.size : size - 1] = 0;
  return p.size;
}

// ------------------------------------------------------------------------------------------- the file

// Processes that one of them starts have the same environment: programs that only start others, and forks. A file must
// not be lost to those.
static struct {
  char name[PATH_MAX]; // absolute; "": none
  bool is_forked;
} file;

void observe_counters_in_child(void) {
  const entry *e;
  file.is_forked = true;
  for (size_t i = 0; (e = entry_at(i)); i++)
    for (unsigned what = 0; what < COUNTED; what++) atomic_store((atomic_ullong *)&e->counts[what], 0);
}

void observe_counters_name(const char *path) {
  char folder[PATH_MAX];
  bool is_relative = *path != '/' && getcwd(folder, sizeof folder);
  if (snprintf(file.name, sizeof file.name, "%s%s%s", is_relative ? folder : "", is_relative ? "/" : "",
               path) < (int)sizeof file.name)
    return;
  file.name[0] = 0;
  observe_complain("KILN_COUNTERS_FILE: the path is too long");
}

/// The name for this process: with its number where "%p" is, and at the end of the name of a parent.
static bool name_file(char out[PATH_MAX]) {
  const char *mark = strstr(file.name, "%p");
  int pid = (int)getpid(), size;
  if (mark) size = snprintf(out, PATH_MAX, "%.*s%d%s", (int)(mark - file.name), file.name, pid, mark + 2);
  else size = snprintf(out, PATH_MAX, file.is_forked ? "%s.%d" : "%s", file.name, pid);
  return size < PATH_MAX;
}

static bool has_counts(void) {
  const entry *e;
  for (size_t i = 0; (e = entry_at(i)); i++)
    for (unsigned what = 0; what < COUNTED; what++)
      if (count_of(e, (counted)what)) return true;
  return false;
}

void observe_counters_write(void) {
  char path[PATH_MAX];
  kiln_error err;
  if (!*file.name || !has_counts() || !name_file(path)) return;
  size_t size = kiln_observe_prometheus(NULL, 0);
  char *text = malloc(size + 1);
  if (!text) return;
  size_t now = kiln_observe_prometheus(text, size + 1); // others may still count
  if (kiln_output_write(path, text, now < size ? now : size, &err) != KILN_OK) observe_complain(err.text);
  free(text);
}
