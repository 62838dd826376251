// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens and closes libraries, and lists the names in them.
#include <stdlib.h>
#include <string.h>

#include "runtime/device/device.h"
#include "runtime/hook.h"
#include "runtime/more/more.h"

const char *kiln_version(void) { return KILN_VERSION; }

void kiln_log(const kiln_device *d, const char *kernel, int level, const char *text) {
  const kiln_library *l = d->library;
  if (l->log) l->log(l->log_user, level, text);
  kiln_hook_tell(d, kernel, level == KILN_LOG_ERROR ? KILN_EVENT_MISS : KILN_EVENT_MESSAGE, level, text,
                 NULL);
}

// In the child of a fork: a lock may be held by a thread that is not there.
static void after_fork(kiln_fork_node *node) {
  kiln_library *l = (kiln_library *)((char *)node - offsetof(kiln_library, fork));
  for (size_t i = 0; i < l->bundle_count; i++) {
    pthread_mutex_init(&l->bundles[i]->pages, NULL);
    pthread_mutex_init(&l->bundles[i]->lock, NULL);
  }
}

static void free_closed(kiln_closed_node *node) { free((char *)node - offsetof(kiln_library, closed)); }

void kiln_library_drop(kiln_library *l) {
  if (atomic_fetch_sub(&l->references, 1) > 1) return;
  kiln_fork_forget(&l->fork);
  for (size_t i = 0; i < l->bundle_count; i++) kiln_bundle_close(l->bundles[i]);
  free(l->bundles);
  if (atomic_load(&l->recorders)) (void)kiln_recorders_free(l, NULL);
  free(l->record_path);
  l->bundles = NULL;
  l->bundle_count = 0;
  if (atomic_load(&l->is_closed)) kiln_closed_keep(&l->closed, sizeof *l, free_closed);
  else free(l);
}

// An application compiled with an older header has a shorter struct: the fields that it lacks are zero. One
// compiled with a newer header may have set what this library does not know.
static kiln_status take_options(const kiln_open_options *given, kiln_open_options *out, kiln_error *err) {
  enum { OLDEST = offsetof(kiln_open_options, min_version) };
  memset(out, 0, sizeof *out);
  if (!given || given->size < OLDEST)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "kiln_open needs options with their size set: %zu bytes, found %zu", sizeof *out,
                     given ? given->size : 0);
  for (size_t i = sizeof *out; i < given->size; i++)
    if (((const uint8_t *)given)[i])
      return kiln_fail(err, KILN_STATUS_UNSUPPORTED,
                       "byte %zu of the options of kiln_open is set; this library knows %zu bytes", i,
                       sizeof *out);
  memcpy(out, given, given->size < sizeof *out ? given->size : sizeof *out);
  if (out->policy & ~(uint32_t)KILN_POLICIES)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "policy 0x%x has bits that this library does not know (it knows 0x%x)", out->policy,
                     KILN_POLICIES);
  if (out->source_count && !out->sources)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "source_count is %zu, and sources is NULL",
                     out->source_count);
  return KILN_OK;
}

// Zero is no descriptor here: it is what a field has that nobody set.
static kiln_status check_source(const kiln_source *s, size_t number, kiln_error *err) {
  if (s->path || s->bytes || s->fd > 0) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                   "source %zu has no path, no bytes and no descriptor above 0 (%zu bytes, descriptor %d)",
                   number, s->size, s->fd);
}

kiln_status kiln_open(const kiln_open_options *given, kiln_library **out, kiln_error *err) {
  kiln_open_options taken, *options = &taken;
  KILN_NEED(out, "result");
  *out = NULL;
  KILN_TRY(take_options(given, options, err));
  for (size_t i = 0; i < options->source_count; i++) KILN_TRY(check_source(&options->sources[i], i, err));
  kiln_library *l = calloc(1, sizeof *l);
  if (l) l->bundles = calloc(options->source_count + 1, sizeof *l->bundles);
  if (!l || !l->bundles) {
    free(l);
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  }
  l->references = 1;
  l->policy = options->policy;
  l->log = options->log;
  l->log_user = options->log_user;
  kiln_status status = KILN_OK;
  for (size_t i = 0; i < options->source_count; i++) {
    status = kiln_bundle_open(&options->sources[i], options, &l->bundles[i], err);
    if (status != KILN_OK) break;
    kiln_hook_tell(NULL, NULL, KILN_EVENT_OPENED, KILN_LOG_INFO, l->bundles[l->bundle_count++]->name, NULL);
  }
  if (status != KILN_OK) {
    kiln_library_drop(l);
    return status;
  }
  kiln_fork_watch(&l->fork, after_fork);
  *out = l;
  return KILN_OK;
}

static __attribute__((noinline)) kiln_status open_one(const kiln_source *source, kiln_library **out,
                                                      kiln_error *err) {
  const kiln_open_options options = {.size = sizeof options, .sources = source, .source_count = 1};
  return kiln_open(&options, out, err);
}

kiln_status kiln_open_file(const char *path, kiln_library **out, kiln_error *err) {
  KILN_NEED(out, "result");
  *out = NULL;
  KILN_NEED(path, "path");
  return open_one(&(kiln_source){.path = path}, out, err);
}

kiln_status kiln_open_memory(const void *bytes, size_t size, kiln_library **out, kiln_error *err) {
  KILN_NEED(out, "result");
  *out = NULL;
  KILN_NEED(bytes, "memory");
  return open_one(&(kiln_source){.bytes = bytes, .size = size}, out, err);
}

void kiln_close(kiln_library *l) {
  if (l && !atomic_exchange(&l->is_closed, true)) kiln_library_drop(l);
}

size_t kiln_kernel_count(const kiln_library *l) {
  size_t count = 0;
  if (!l || atomic_load(&l->is_closed)) return 0;
  for (size_t i = 0; i < l->bundle_count; i++) count += l->bundles[i]->section_count[KILN_BUNDLE_KERNELS];
  return count;
}
