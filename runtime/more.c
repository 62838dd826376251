// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What libkiln has of the functions that libkiln-more implements, and the table of those that it calls.
#include <stdlib.h>
#include <string.h>

#include "runtime/more/more.h"

#ifdef KILN_APART
const kiln_core kiln_core_of_libkiln = {
    .same = KILN_SAME,
#define CORE(name) .name = name,
#include "runtime/more/core.def"
#undef CORE
};

#define MORE(status, name, parameters, arguments)        \
  kiln_status kiln_##name parameters {                   \
    const kiln_more *more = kiln_more_open(status, err); \
    return more ? more->name arguments : status;         \
  }
#else
#define MORE(status, name, parameters, arguments) \
  kiln_status kiln_##name parameters { return kiln_more_##name arguments; }
#endif
#include "runtime/more/more.def"
#undef MORE

// ------------------------------------------------------------- what it made, and what needs no more than that

int kiln_kernel_uses_scratch(kiln_kernel *k) {
  return k && k->has_launches && kiln_launches_find(k, NULL) == KILN_OK;
}

int kiln_param_has_size(const kiln_kernel *k, size_t index) {
  return k && index < k->interface.param_count &&
         (k->interface.params[index].view_rank ||
          (kiln_sizes_attach((kiln_kernel *)k, NULL) == KILN_OK && k->interface.params[index].needs.size));
}

const char *kiln_kernel_name(const kiln_library *l, size_t index) {
  const char *name;
  return kiln_kernel_at(l, index, &name, NULL) == KILN_OK ? name : NULL;
}

const char *kiln_report_text(const kiln_report *r) { return r ? r->text : NULL; }
size_t kiln_report_count(const kiln_report *r) { return r ? r->count : 0; }

kiln_status kiln_report_at(const kiln_report *r, size_t index, kiln_candidate *out) {
  if (!out) return KILN_STATUS_INVALID_ARGUMENT;
  memset(out, 0, sizeof *out);
  if (!r) return KILN_STATUS_INVALID_ARGUMENT;
  if (index >= r->count) return KILN_STATUS_NOT_FOUND;
  *out = r->items[index];
  return KILN_OK;
}

void kiln_report_free(kiln_report *r) {
  if (!r) return;
  kiln_arena_destroy(r->arena);
  free(r);
}
