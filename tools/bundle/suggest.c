// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds kernels and targets of a bundle by name, and suggests a similar name when there is none.
#include "tools/bundle/suggest.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"

static name_suggestion suggestion_of(const char *name) {
  name_suggestion g = {""};
  if (name) snprintf(g.text, sizeof g.text, "; did you mean '%.250s'?", name);
  return g;
}

static bool is_instance_of(const char *instance, const char *name) {
  size_t length = strlen(name);
  return !strncmp(instance, name, length) && instance[length] == '[';
}

name_suggestion suggest_kernel(const bundle_view *view, const char *name) {
  kiln_nearest n = kiln_nearest_to(name);
  for (uint32_t i = 0; i < view->kernel_count; i++) {
    if (is_instance_of(view->kernels[i].name, name)) return suggestion_of(view->kernels[i].name);
    kiln_nearest_consider(&n, view->kernels[i].name);
  }
  return suggestion_of(n.best);
}

name_suggestion suggest_target(const bundle_view *view, const char *name) {
  kiln_nearest n = kiln_nearest_to(name);
  for (uint32_t i = 0; i < view->kernel_count; i++)
    for (uint32_t c = 0; c < view->kernels[i].code_count; c++)
      if (kiln_same_digits(name, view->kernels[i].codes[c].target))
        kiln_nearest_consider(&n, view->kernels[i].codes[c].target);
  return suggestion_of(n.best);
}

kiln_status require_kernel(const kiln_library *library, const char *bundle, const char *name,
                           kiln_error *err) {
  kiln_nearest n = kiln_nearest_to(name);
  const char *instance = NULL;
  kiln_status damage = KILN_OK; // of a name: the kernel may be another
  for (size_t i = 0; i < kiln_kernel_count(library); i++) {
    const char *there;
    kiln_status status = kiln_kernel_at(library, i, &there, damage == KILN_OK ? err : NULL);
    if (damage == KILN_OK) damage = status;
    if (status != KILN_OK) continue;
    if (!strcmp(there, name)) return KILN_OK;
    if (!instance && is_instance_of(there, name)) instance = there;
    kiln_nearest_consider(&n, there);
  }
  if (damage != KILN_OK) return damage;
  return kiln_fail(err, KILN_STATUS_NOT_FOUND, "%s has no kernel '%.200s'%s", bundle, name,
                   instance || n.best ? suggestion_of(instance ? instance : n.best).text
                                      : " (`kiln inspect` lists its kernels)");
}
