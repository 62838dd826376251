// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Explains why codes fit a device or do not, as a structure and as one paragraph.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "base/plural.h"
#include "runtime/more/core.h"

static const char rank_texts[][12] = {"exact", "exact", "generic", "same major", "family", "PTX"};

static kiln_status add_candidate(kiln_device *d, size_t index, const kiln_interface *in,
                                 const kiln_code_entry *code, kiln_report *r, kiln_error *err) {
  char rule[KILN_RULE_TEXT] = "";
  kiln_bundle *b = d->library->bundles[index];
  unsigned rank = kiln_device_rank(d, index, code->target, code->flags & KILN_BUNDLE_CODE_PTX, rule);
  const char *target = kiln_bundle_target_at(b, code->target, err);
  if (!target) return KILN_STATUS_CORRUPT;
  KILN_GROW(r->arena, r->items, r->count, r->capacity);
  if (kiln_arena_failed(r->arena)) return KILN_OK; // told by the caller
  r->items[r->count++] = (kiln_candidate){
      .bundle = b->name,
      .target = target,
      .config = code->config < in->config_count ? in->configs[code->config].text : "",
      .variant = code->variant < in->variant_count ? in->variants[code->variant].text : "",
      .rank = rank,
      .rule = rank == KILN_RANK_REFUSED ? kiln_arena_text(r->arena, rule, strlen(rule)) : "",
  };
  return KILN_OK;
}

static kiln_status add_bundle(kiln_device *d, size_t index, const char *name, kiln_report *r,
                              bool *out_exists, kiln_error *err) {
  kiln_bundle *b = d->library->bundles[index];
  kiln_kernel_entry kernel;
  kiln_interface in;
  size_t size;
  kiln_check hash = kiln_check_of(name, strlen(name));
  kiln_status status = kiln_bundle_kernel_find(b, name, &hash, &kernel, err);
  if (status == KILN_STATUS_NOT_FOUND) return KILN_OK;
  if (status != KILN_OK) return status;
  *out_exists = true;
  const uint8_t *record = kiln_bundle_record(b, kernel.interface, &size, err);
  if (!record) return KILN_STATUS_CORRUPT;
  if (!kiln_interface_decode(r->arena, record, size, &in) && !kiln_arena_failed(r->arena))
    return kiln_record_refuse(err, KILN_RECORD_INTERFACE, record, size, "%s: the interface of '%.200s'",
                              b->name, name);
  for (uint32_t i = 0; i < kernel.code_count && !kiln_arena_failed(r->arena); i++) {
    kiln_code_entry code;
    KILN_TRY(kiln_bundle_code_at(b, &kernel, i, &code, err));
    KILN_TRY(add_candidate(d, index, &in, &code, r, err));
  }
  return KILN_OK;
}

// -------------------------------------------------------------------------------------------- text

// An arena that failed gives NULL: the text is thrown away then.
static const char *text_or_empty(const char *text) { return text ? text : ""; }

static const char *bundle_names(const kiln_device *d, kiln_arena *arena) {
  const char *text = "";
  size_t count = d->library->bundle_count;
  for (size_t i = 0; i < count && i < 4; i++)
    text =
        kiln_arena_format(arena, "%s%s%s", text_or_empty(text), i ? ", " : "", d->library->bundles[i]->name);
  return count > 4 ? kiln_arena_format(arena, "%s and %zu more", text_or_empty(text), count - 4) : text;
}

// The same target has the same verdict for each config and variant: name it once.
static bool is_repeated(const kiln_report *r, uint32_t i) {
  for (uint32_t j = 0; j < i; j++)
    if (!strcmp(r->items[j].target, r->items[i].target) && !strcmp(r->items[j].rule, r->items[i].rule))
      return true;
  return false;
}

static const char *verdicts(const kiln_report *r, bool *out_fits) {
  const char *text = "";
  *out_fits = false;
  for (uint32_t i = 0; i < r->count && !kiln_arena_failed(r->arena); i++) {
    const kiln_candidate *c = &r->items[i];
    *out_fits |= c->rank != KILN_RANK_REFUSED;
    if (is_repeated(r, i)) continue;
    text =
        kiln_arena_format(r->arena, "%s%s%s: %s", text, *text ? "; " : "", c->target,
                          c->rank == KILN_RANK_REFUSED
                              ? c->rule
                              : text_or_empty(kiln_arena_format(r->arena, "fits (%s)", rank_texts[c->rank])));
  }
  return text;
}

// Names the kernel that was probably meant: the first instance of that name, else the nearest name, with or without
// what says which instance it is.
static const char *absence(const kiln_device *d, const char *name, const char *bundles, kiln_arena *arena) {
  if (!d->library->bundle_count)
    return kiln_arena_format(arena, "no kernel '%s': the library has no bundles", name);
  kiln_nearest near = kiln_nearest_to(name);
  size_t length = strlen(name), count = kiln_kernel_count(d->library);
  for (size_t i = 0; i < count; i++) {
    const char *other;
    if (kiln_more_kernel_at(d->library, i, &other, NULL) != KILN_OK) continue; // damaged: no name to suggest
    char base[64];
    kiln_nearest_consider(&near, other);
    if (!strchr(name, '[') && snprintf(base, sizeof base, "%.*s", (int)strcspn(other, "["), other) > 0) {
      kiln_nearest_consider(&near, base);
      if (near.best == base) near.best = other;
    }
    if (strncmp(other, name, length) || other[length] != '[') continue;
    near.best = other;
    break;
  }
  return near.best
             ? kiln_arena_format(arena, "no kernel '%s' in %s; did you mean '%s'?", name, bundles, near.best)
             : kiln_arena_format(arena, "no kernel '%s' in %s; `kiln inspect` lists %zu kernel%s", name,
                                 bundles, count, kiln_plural(count));
}

static void write_text(kiln_device *d, const char *name, bool exists, kiln_report *r) {
  bool fits;
  const char *list = text_or_empty(verdicts(r, &fits)), *bundles = text_or_empty(bundle_names(d, r->arena));
  const char *device =
      *d->description ? kiln_arena_format(r->arena, "%s (%s, %s)", d->name, d->target.name, d->description)
                      : kiln_arena_format(r->arena, "%s (%s)", d->name, d->target.name);
  device = text_or_empty(device);
  if (!exists) r->text = absence(d, name, bundles, r->arena);
  else if (!r->count)
    r->text =
        kiln_arena_format(r->arena, "kernel '%s' is in %s, but with no code for any device", name, bundles);
  else if (fits) r->text = kiln_arena_format(r->arena, "kernel '%s' on %s: %s", name, device, list);
  else {
    const kiln_family_info *family = kiln_family_of(d->target.family);
    bool is_any = family->is_listed && !(d->library->policy & KILN_EXACT_ONLY);
    r->text =
        kiln_arena_format(r->arena, "kernel '%s' has no code for %s in %s: %s; build it with `--target %s`",
                          name, device, bundles, list, is_any ? family->name : d->target.name);
  }
}

static void free_report(kiln_report *r) {
  kiln_arena_destroy(r->arena);
  free(r);
}

static kiln_status make_report(kiln_device *d, const char *name, kiln_report **out, kiln_error *err) {
  *out = NULL;
  kiln_report *r = calloc(1, sizeof *r);
  if (r) r->arena = kiln_arena_create_with(NULL);
  if (!r || !r->arena) {
    free(r);
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  }
  bool exists = false;
  kiln_status status = KILN_OK;
  for (size_t i = 0; i < d->library->bundle_count && status == KILN_OK; i++)
    status = add_bundle(d, i, name, r, &exists, err);
  if (status == KILN_OK) write_text(d, name, exists, r);
  if (status == KILN_OK && kiln_arena_failed(r->arena))
    status = kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "'%s': memory is exhausted", name);
  if (status == KILN_OK) *out = r;
  else free_report(r);
  return status;
}

kiln_status kiln_more_explain(kiln_device *d, const char *name, kiln_report **out, kiln_error *err) {
  KILN_NEED(out, "result");
  *out = NULL;
  KILN_NEED(d, "device");
  KILN_NEED(name, "name");
  KILN_TRY(kiln_device_check(d, err));
  return make_report(d, name, out, err);
}

// The report becomes the message, and goes whole to the log.
kiln_status kiln_more_refuse_kernel(kiln_device *d, const char *name, kiln_status status, kiln_error *err) {
  kiln_report *report;
  KILN_TRY(make_report(d, name, &report, err));
  kiln_fail(err, status, "%s", report->text);
  kiln_log(d, name, KILN_LOG_ERROR, report->text);
  free_report(report);
  return status;
}

// What a device got of a kernel, at its first look-up. Code that a driver has to compile is a warning: the
// first launch waits for it.
kiln_status kiln_more_log_found(const kiln_kernel *k, kiln_error *err) {
  (void)err;
  char text[600];
  uint32_t count = 0, ptx = 0;
  for (uint32_t i = 0; i < k->interface.config_count * k->interface.variant_count; i++) {
    count += k->codes[i].is_present;
    ptx += k->codes[i].is_present && k->codes[i].is_ptx;
  }
  snprintf(text, sizeof text, "kernel '%.200s' on %s (%s): %u codes of %.200s, %u of them PTX",
           k->interface.name, k->device->name, k->device->target.name, count, k->bundle->name, ptx);
  kiln_log(k->device, k->interface.name, ptx ? KILN_LOG_WARNING : KILN_LOG_INFO, text);
  return KILN_OK;
}

// --------------------------------------------------------------------------------------- preflight

// The rank of the best code that bundle `index` has of a kernel.
static kiln_status best_rank(kiln_device *d, size_t index, const kiln_kernel_entry *kernel, unsigned *out,
                             kiln_error *err) {
  *out = KILN_RANK_REFUSED;
  for (uint32_t i = 0; i < kernel->code_count; i++) {
    kiln_code_entry code;
    KILN_TRY(kiln_bundle_code_at(d->library->bundles[index], kernel, i, &code, err));
    unsigned rank = kiln_device_rank(d, index, code.target, code.flags & KILN_BUNDLE_CODE_PTX, NULL);
    if (rank < *out) *out = rank;
  }
  return KILN_OK;
}

// Several bundles may have a kernel, and a look-up takes the best code of all: it is counted once, by the first bundle
// that has it.
static kiln_status count_kernel(kiln_device *d, size_t index, const kiln_kernel_entry *kernel,
                                kiln_preflight *out, kiln_error *err) {
  const kiln_library *l = d->library;
  unsigned best = KILN_RANK_REFUSED;
  const char *name = kiln_bundle_text(l->bundles[index], kernel->name, err);
  if (!name) return KILN_STATUS_CORRUPT;
  kiln_check hash = kiln_check_of(name, strlen(name));
  for (size_t i = 0; i < l->bundle_count; i++) {
    kiln_kernel_entry other = *kernel;
    unsigned rank;
    kiln_status status =
        i == index ? KILN_OK : kiln_bundle_kernel_find(l->bundles[i], name, &hash, &other, err);
    if (status == KILN_STATUS_NOT_FOUND) continue;
    if (status == KILN_OK && i < index) return KILN_OK;
    if (status == KILN_OK) status = best_rank(d, i, &other, &rank, err);
    if (status != KILN_OK) return status;
    if (rank < best) best = rank;
  }
  size_t *sums[] = {&out->exact, &out->exact, &out->generic, &out->generic, &out->generic, &out->jit};
  ++*(best == KILN_RANK_REFUSED ? &out->missing : sums[best]);
  out->kernels++;
  if (best == KILN_RANK_REFUSED && !out->first_missing) out->first_missing = name;
  return KILN_OK;
}

kiln_status kiln_more_device_preflight(kiln_device *d, kiln_preflight *out, kiln_error *err) {
  KILN_NEED(out, "result");
  memset(out, 0, sizeof *out);
  KILN_NEED(d, "device");
  KILN_TRY(kiln_device_check(d, err));
  for (size_t i = 0; i < d->library->bundle_count; i++) {
    kiln_bundle *b = d->library->bundles[i];
    for (uint32_t n = 0; n < b->section_count[KILN_BUNDLE_KERNELS]; n++) {
      kiln_kernel_entry kernel;
      KILN_TRY(kiln_bundle_kernel_at(b, n, &kernel, err));
      KILN_TRY(count_kernel(d, i, &kernel, out, err));
    }
  }
  return KILN_OK;
}

kiln_status kiln_more_check_policy(kiln_device *d, kiln_error *err) {
  kiln_preflight found;
  bool exact = d->library->policy & KILN_EXACT_ONLY, no_jit = d->library->policy & KILN_NO_JIT;
  KILN_TRY(kiln_more_device_preflight(d, &found, err));
  if (!found.missing) return KILN_OK;
  kiln_report *report;
  KILN_TRY(make_report(d, found.first_missing, &report, err));
  kiln_log(d, found.first_missing, KILN_LOG_ERROR, report->text);
  kiln_fail(err, KILN_STATUS_NO_VARIANT,
            "%s: the policy (%s%s%s) leaves %zu of %zu kernels without code; the first: %.700s", d->name,
            exact ? "exact only" : "", exact && no_jit ? ", " : "", no_jit ? "no JIT" : "", found.missing,
            found.kernels, report->text);
  free_report(report);
  return KILN_STATUS_NO_VARIANT;
}
