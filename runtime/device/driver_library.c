// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens a vendor's driver library by name and resolves its required and optional entry points.
#include "runtime/device/driver_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *open_first(const char *const *names, char *tried, size_t capacity) {
  size_t used = 0;
  *tried = 0;
  for (; *names; names++) {
    void *handle = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    if (handle) return handle;
    const char *why = dlerror();
    int n = snprintf(tried + used, capacity - used, "%s%s", used ? "; " : "", why ? why : *names);
    if (n > 0 && (size_t)n < capacity - used) used += (size_t)n;
  }
  return NULL;
}

kiln_status kiln_driver_library_open(const char *const *names, const char *symbols, void *table,
                                     kiln_error *err) {
  char tried[700];
  void *handle = open_first(names, tried, sizeof tried);
  if (!handle) return kiln_fail(err, KILN_STATUS_NO_DEVICE, "no driver library: %s", tried);
  for (void **to = table; *symbols; symbols += strlen(symbols) + 1, to++) {
    void *symbol = dlsym(handle, symbols + 1);
    if (!symbol && *symbols == '!')
      return kiln_fail(err, KILN_STATUS_NO_DEVICE, "the driver library %s lacks %s", names[0], symbols + 1);
    memcpy(to, &symbol, sizeof symbol);
  }
  return KILN_OK;
}

const char *kiln_driver_symbol_at(const char *symbols, size_t offset) {
  for (; offset; offset -= sizeof(void *)) symbols += strlen(symbols) + 1;
  return symbols + 1;
}

kiln_status kiln_driver_open(const kiln_driver *driver, const char *device, const char *rest, void *table,
                             int *out_ordinal, kiln_error *err) {
  enum { MOST_ORDINAL = 1023 };
  char *end = NULL;
  long ordinal = *rest ? strtol(rest, &end, 10) : 0;
  *out_ordinal = 0;
  if (*rest && (*end || ordinal < 0 || ordinal > MOST_ORDINAL))
    return kiln_fail(err, KILN_STATUS_NO_DEVICE, "'%s': expected %s:N with a number from 0", device,
                     driver->kind);
  *out_ordinal = (int)ordinal;
  kiln_status status = kiln_driver_library_open(driver->names, driver->symbols, table, err);
  return status ? kiln_context(err, status, "no %s device '%s'", driver->title, device) : KILN_OK;
}
