// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Starts and stops what libkiln-observe does, by calls or as the environment says, and hands events to its
// parts.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/observe/observe.h"

// Those of the program, where it links libkiln.
extern __typeof__(kiln_hook_add) kiln_hook_add __attribute__((weak));
extern __typeof__(kiln_hook_remove) kiln_hook_remove __attribute__((weak));
extern __typeof__(kiln_choose_reason) kiln_choose_reason __attribute__((weak));

enum { COUNTERS, NVTX, ROCTX, PERF, GDB, LOG, PARTS };
static const char *const part_names[] = {"counters", "nvtx", "roctx", "perf", "gdb", NULL};
// The events that a part wants; the log's depend on its categories.
static const uint32_t part_kinds[PARTS] = {
    [COUNTERS] = KILN_EVENT_LAUNCHED | KILN_EVENT_LOADED | KILN_EVENT_MISS,
    [NVTX] = KILN_EVENT_LAUNCH | KILN_EVENT_LAUNCHED,
    [ROCTX] = KILN_EVENT_LAUNCH | KILN_EVENT_LAUNCHED,
    [PERF] = KILN_EVENT_LOADED,
    [GDB] = KILN_EVENT_LOADED | KILN_EVENT_UNLOAD,
};

enum { MOST_LIBRARIES = 8 };
static struct {
  pthread_mutex_t lock; // of what follows, for those who start, stop and attach
  observed_library libraries[MOST_LIBRARIES];
  unsigned library_count;
  bool has_started;
  uint32_t kinds[PARTS]; // the events that each part gets, 0 if it is off; fixed while a hook is there
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

// ---------------------------------------------------------------------------------------------- forks

// Who stops waits for hooks, and one of these may fork: that lock is not waited for.
static void in_child(void) {
  observe_counters_in_child();
  observe_unlock();
  pthread_mutex_init(&state.lock, NULL);
}
static void watch_forks(void) { (void)pthread_atfork(observe_lock, observe_unlock, in_child); }

// --------------------------------------------------------------------------------------------- events

// The hook is called for what any part wants; each part is told of its own events only. A range is around the launch
// alone: it begins after the other parts, and ends before them.
static void see(void *user, const kiln_event *e) {
  int saved = errno;
  bool has_ranges = (state.kinds[NVTX] | state.kinds[ROCTX]) & e->kind;
  if (has_ranges && e->kind == KILN_EVENT_LAUNCHED) observe_ranges(e);
  if (state.kinds[COUNTERS] & e->kind) observe_count(e);
  if (state.kinds[LOG] & e->kind) observe_log(user, e);
  if (state.kinds[PERF] & e->kind) observe_perf(e);
  if (state.kinds[GDB] & e->kind) observe_gdb(e);
  if (has_ranges && e->kind == KILN_EVENT_LAUNCH) observe_ranges(e);
  errno = saved;
}

static uint32_t all_kinds(void) {
  uint32_t all = 0;
  for (unsigned i = 0; i < PARTS; i++) all |= state.kinds[i];
  return all;
}

// --------------------------------------------------------------------------------------------- parts

static kiln_status take_parts(const char *what, kiln_error *err) {
  int part;
  while ((part = observe_take_word(&what, part_names)) >= 0) state.kinds[part] = part_kinds[part];
  if (part == -1) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                   "what to observe: expected counters, nvtx, roctx, perf or gdb, found '%.100s'", what);
}

static void end_parts(void) {
  observe_ranges_end();
  observe_gdb_end();
  observe_perf_end();
  observe_log_end();
  memset(state.kinds, 0, sizeof state.kinds);
}

static kiln_status begin_parts(const char *what, const char *log, const char *log_file, kiln_error *err) {
  KILN_TRY(take_parts(what ? what : "", err));
  if (log) KILN_TRY(observe_log_begin(log, log_file, &state.kinds[LOG], err));
  if (state.kinds[NVTX]) KILN_TRY(observe_ranges_begin(RANGE_NVTX, err));
  return state.kinds[ROCTX] ? observe_ranges_begin(RANGE_ROCTX, err) : KILN_OK;
}

// ----------------------------------------------------------------------------------------- libraries

static kiln_status add_library(observed_library library, kiln_error *err) {
  for (unsigned i = 0; i < state.library_count; i++)
    if (state.libraries[i].hook_add == library.hook_add) return KILN_OK;
  if (state.library_count == MOST_LIBRARIES)
    return kiln_fail(err, KILN_STATUS_LIMIT, "%d libraries are observed, the most that can be",
                     MOST_LIBRARIES);
  observed_library *l = &state.libraries[state.library_count];
  *l = library;
  const uint32_t kinds = all_kinds();
  if (state.has_started && kinds) KILN_TRY(l->hook_add(see, l, kinds, err));
  state.library_count++;
  return KILN_OK;
}

static kiln_status add_own(kiln_error *err) {
  if (!kiln_hook_add || !kiln_hook_remove || !kiln_choose_reason) return KILN_OK;
  return add_library((observed_library){kiln_hook_add, kiln_hook_remove, kiln_choose_reason}, err);
}

kiln_status kiln_observe_attach(void *handle, kiln_error *err) {
  observed_library l = {0};
  if (!handle) return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "%s: the library is NULL", __func__);
  *(void **)&l.hook_add = dlsym(handle, "kiln_hook_add");
  *(void **)&l.hook_remove = dlsym(handle, "kiln_hook_remove");
  *(void **)&l.choose_reason = dlsym(handle, "kiln_choose_reason");
  if (!l.hook_add || !l.hook_remove || !l.choose_reason)
    return kiln_fail(err, KILN_STATUS_UNSUPPORTED,
                     "the library has no kiln_hook_add: it is no libkiln, or an older one");
  pthread_mutex_lock(&state.lock);
  kiln_status status = add_library(l, err);
  pthread_mutex_unlock(&state.lock);
  return status;
}

static void remove_hooks(unsigned count) {
  for (unsigned i = 0; i < count; i++) state.libraries[i].hook_remove(see, &state.libraries[i]);
}

static kiln_status add_hooks(kiln_error *err) {
  const uint32_t kinds = all_kinds();
  for (unsigned i = 0; i < state.library_count && kinds; i++) {
    kiln_status status = state.libraries[i].hook_add(see, &state.libraries[i], kinds, err);
    if (status == KILN_OK) continue;
    remove_hooks(i);
    return status;
  }
  return KILN_OK;
}

static kiln_status start(const char *what, const char *log, const char *log_file, kiln_error *err) {
  if (state.has_started)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "it has started already: stop it before");
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  KILN_TRY(add_own(err));
  kiln_status status = begin_parts(what, log, log_file, err);
  if (status == KILN_OK) status = add_hooks(err);
  if (status == KILN_OK) state.has_started = true;
  else end_parts();
  return status;
}

kiln_status kiln_observe_start(const char *what, const char *log, const char *log_file, kiln_error *err) {
  pthread_mutex_lock(&state.lock);
  kiln_status status = start(what, log, log_file, err);
  pthread_mutex_unlock(&state.lock);
  return status;
}

void kiln_observe_stop(void) {
  pthread_mutex_lock(&state.lock);
  if (state.has_started) {
    state.has_started = false;
    remove_hooks(state.library_count);
    end_parts();
  }
  pthread_mutex_unlock(&state.lock);
}

// --------------------------------------------------------------------------------------- environment

static __attribute__((constructor)) void begin_by_environment(void) {
  kiln_error err;
  const char *what = secure_getenv("KILN_OBSERVE"), *log = secure_getenv("KILN_LOG"),
             *log_file = secure_getenv("KILN_LOG_FILE"), *counters = secure_getenv("KILN_COUNTERS_FILE");
  if (!what && !log && !counters) return;
  char with_counters[200];
  if (counters) {
    observe_counters_name(counters);
    snprintf(with_counters, sizeof with_counters, "counters,%.150s", what ? what : "");
    what = with_counters;
  }
  if (kiln_observe_start(what, log, log_file, &err) != KILN_OK) observe_complain(err.text);
}

static __attribute__((destructor)) void write_counters(void) { observe_counters_write(); }
