// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads code into the driver, once per device and under the device's lock, so that many threads with the
// same first launch load it once.
#include <stdlib.h>
#include <string.h>

#include "runtime/launch.h"
#include "runtime/launches.h"
#include "runtime/tensor_map.h"

static kiln_module *find_module(const kiln_device *d, const kiln_kernel *k, const kiln_code *code) {
  kiln_module *m = d->modules;
  while (m && (m->bundle != k->bundle || m->blob != code->blob || strcmp(m->symbol, code->info.symbol)))
    m = m->next;
  return m;
}

static kiln_status load_module(kiln_kernel *k, const kiln_code *code, kiln_module **out, kiln_error *err) {
  kiln_device *d = k->device;
  kiln_bytes bytes;
  kiln_module *m = calloc(1, sizeof *m);
  if (m) m->symbol = strdup(code->info.symbol);
  if (!m || !m->symbol) {
    free(m);
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "kernel '%s': memory is exhausted", k->interface.name);
  }
  m->bundle = k->bundle;
  m->blob = code->blob;
  kiln_status status = kiln_bundle_load(k->bundle, code->blob, &bytes, err);
  if (status == KILN_OK) status = d->kind->load(d, code, &bytes, m, err);
  kiln_bytes_deinit(&bytes);
  if (status != KILN_OK) {
    free(m->symbol);
    free(m);
    return kiln_context(err, status, "loading '%s' for %s", k->interface.name, code->info.target);
  }
  m->next = d->modules;
  *out = d->modules = m;
  return KILN_OK;
}

static kiln_status place_maps(const kiln_kernel *k, kiln_code *code, const kiln_module *m, kiln_error *err) {
  if (m->maps_at) code->maps_at = m->maps_at;
  uint64_t end = (uint64_t)code->maps_at + code->map_count * KILN_MAP_BYTES;
  if (code->maps_at >= code->params_end && code->maps_at - code->params_end < KILN_MAP_ALIGNMENT &&
      end <= KILN_MOST_BLOCK)
    return KILN_OK;
  return kiln_fail(err, KILN_STATUS_CORRUPT,
                   "'%s': the code takes %u tensor maps at byte %u, after %u bytes of parameters",
                   k->interface.name, code->map_count, code->maps_at, k->used_bytes);
}

kiln_status kiln_code_load(kiln_kernel *k, kiln_code *code, kiln_error *err) {
  kiln_device *d = k->device;
  kiln_status status = KILN_OK;
  pthread_mutex_lock(&d->lock);
  if (!atomic_load_explicit(&code->function, memory_order_relaxed)) {
    kiln_module *m = find_module(d, k, code);
    if (!m) status = load_module(k, code, &m, err);
    if (status == KILN_OK && code->map_count) status = place_maps(k, code, m, err);
    if (status == KILN_OK) code->clusters = m->clusters;
    if (status == KILN_OK) atomic_store_explicit(&code->function, m->function, memory_order_release);
  }
  pthread_mutex_unlock(&d->lock);
  return status;
}

kiln_status kiln_kernel_load(kiln_kernel *k, kiln_error *err) {
  for (uint32_t i = 0; i < k->interface.config_count * k->interface.variant_count; i++)
    if (k->codes[i].is_present) KILN_TRY(kiln_code_load(k, &k->codes[i], err));
  return KILN_OK;
}

kiln_status kiln_preload(kiln_kernel *k, kiln_error *err) {
  KILN_NEED(k, "kernel");
  KILN_TRY(kiln_device_check(k->device, err));
  KILN_TRY(kiln_kernel_load(k, err));
  return k->has_launches ? kiln_launches_load(k, err) : KILN_OK;
}
