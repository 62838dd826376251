// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opening and closing of libraries, and the names in them.
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"

const char *kiln_version(void) { return KILN_VERSION; }

void kiln_log(const kiln_library *library, int level, const char *text) {
  if (library->log) library->log(library->log_user, level, text);
}

// In the child of a fork: a lock may be held by a thread that is not there.
static void after_fork(kiln_fork_node *node) {
  kiln_library *l = (kiln_library *)((char *)node - offsetof(kiln_library, fork));
  for (size_t i = 0; i < l->bundle_count; i++) pthread_mutex_init(&l->bundles[i]->lock, NULL);
}

void kiln_library_drop(kiln_library *l) {
  if (atomic_fetch_sub(&l->references, 1) > 1) return;
  kiln_fork_forget(&l->fork);
  for (size_t i = 0; i < l->bundle_count; i++) kiln_bundle_close(l->bundles[i]);
  free(l->bundles);
  l->bundles = NULL;
  l->bundle_count = 0;
  if (atomic_load(&l->is_closed)) kiln_closed_keep(l, sizeof *l, free);
  else free(l);
}

kiln_status kiln_open(const kiln_open_options *options, kiln_library **out, kiln_error *err) {
  *out = NULL;
  if (!options || options->size < sizeof *options || (options->source_count && !options->sources))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "kiln_open needs options with their size set, and as many sources as it counts");
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
  for (size_t i = 0; i < options->source_count && status == KILN_OK; i++) {
    status = kiln_bundle_open(&options->sources[i], options, &l->bundles[i], err);
    if (status == KILN_OK) l->bundle_count++;
  }
  if (status != KILN_OK) {
    kiln_library_drop(l);
    return status;
  }
  kiln_fork_watch(&l->fork, after_fork);
  *out = l;
  return KILN_OK;
}

static kiln_status open_one(kiln_source source, kiln_library **out, kiln_error *err) {
  return kiln_open(
      &(kiln_open_options){.size = sizeof(kiln_open_options), .sources = &source, .source_count = 1}, out,
      err);
}

kiln_status kiln_open_file(const char *path, kiln_library **out, kiln_error *err) {
  return open_one((kiln_source){.path = path}, out, err);
}

kiln_status kiln_open_memory(const void *bytes, size_t size, kiln_library **out, kiln_error *err) {
  return open_one((kiln_source){.bytes = bytes, .size = size}, out, err);
}

void kiln_close(kiln_library *l) {
  if (l && !atomic_exchange(&l->is_closed, true)) kiln_library_drop(l);
}

size_t kiln_kernel_count(const kiln_library *l) {
  size_t count = 0;
  if (atomic_load(&l->is_closed)) return 0;
  for (size_t i = 0; i < l->bundle_count; i++) count += l->bundles[i]->section_count[KILN_BUNDLE_KERNELS];
  return count;
}

const char *kiln_kernel_name(const kiln_library *l, size_t index) {
  if (atomic_load(&l->is_closed)) return NULL;
  for (size_t i = 0; i < l->bundle_count; i++) {
    kiln_bundle *b = l->bundles[i];
    if (index >= b->section_count[KILN_BUNDLE_NAMES]) {
      index -= b->section_count[KILN_BUNDLE_NAMES];
      continue;
    }
    kiln_kernel_entry kernel;
    const uint8_t *number = kiln_bundle_in(b, KILN_BUNDLE_NAMES, (uint64_t)index * 4, 4, NULL);
    if (!number || kiln_bundle_kernel_at(b, kiln_le32(number), &kernel, NULL) != KILN_OK) return NULL;
    return kiln_bundle_text(b, kernel.name, NULL);
  }
  return NULL;
}
