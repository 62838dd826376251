// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads the interpreter of PTX in place of NVIDIA's driver, gives it the PTX of bundles, and reports what it found.
#include "tools/ptx-device/ptx_device.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cache/bundle/writer.h"
#include "runtime/device/driver_library.h"
#include "tools/bundle/suggest.h"
#include "tools/bundle/view.h"
#include "tools/common/cli.h"

static const char prefix[] = "ptx:";
enum { FIRST = 80 }; // the capability from which on the interpreter has the instructions

bool ptx_device_is(const char *name) { return !strncmp(name, prefix, sizeof prefix - 1); }

// --------------------------------------------------------------------------------------------- loading

static bool is_known(const kiln_processor *p) {
  return kiln_family_of(p->family)->assembly == KILN_ASSEMBLY_PTX && p->number >= FIRST;
}

static kiln_status find_processor(const char *name, const kiln_processor **out, kiln_error *err) {
  const char *text = name + sizeof prefix - 1;
  *out = kiln_processor_find(text, strlen(text));
  if (*out && is_known(*out)) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_TARGET,
                   "'%.60s': expected ptx: and a processor of NVIDIA from sm_%d on, found '%.40s'", name,
                   FIRST, text);
}

kiln_status ptx_device_load(const char *name, ptx_device *out, kiln_error *err) {
  static char path[PATH_MAX];
  static const char file[] = "kiln-ptx-driver.so";
  *out = (ptx_device){.name = name};
  KILN_TRY(find_processor(name, &out->processor, err));
  if (!cli_find_program(file, path, sizeof path, NULL))
    return kiln_fail(err, KILN_STATUS_NOT_FOUND,
                     "'%.60s': %s is not next to this program nor in ../libexec/kiln", name, file);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  out->driver = library ? dlsym(library, PTX_DRIVER_TABLE) : NULL;
  if (!out->driver) return kiln_fail(err, KILN_STATUS_TOOL, "'%.60s': %s", name, dlerror());
  kiln_cuda_libraries[0] = path;
  ptx_device_seed(out, 1);
  return KILN_OK;
}

void ptx_device_seed(ptx_device *d, uint64_t seed) {
  d->seed = seed;
  d->driver->set(&(ptx_driver_settings){
      .number = d->processor->number, .shared_bytes = d->processor->shared_bytes, .seed = seed});
}

void ptx_device_name(const ptx_device *d, const void *memory, const char *name) {
  d->driver->name((uint64_t)(uintptr_t)memory, name);
}

// ------------------------------------------------------------------------------------------------ code

static bool is_ptx(void *context, const view_kernel *kernel, const view_code *code) {
  (void)context, (void)kernel;
  return code->info.format == KILN_FORMAT_PTX;
}

static const view_kernel *find_kernel(const bundle_view *view, const char *name) {
  for (uint32_t i = 0; i < view->kernel_count; i++)
    if (!strcmp(view->kernels[i].name, name)) return &view->kernels[i];
  return NULL;
}

// Whether PTX, or machine code, of the kernel would run on the processor.
static bool has_code(const ptx_device *d, const view_kernel *k, bool wants_ptx) {
  kiln_device_target device = {.family = d->processor->family, .number = d->processor->number};
  for (uint32_t i = 0; i < k->code_count; i++) {
    kiln_target target;
    char rule[KILN_RULE_TEXT];
    if (is_ptx(NULL, k, &k->codes[i]) == wants_ptx &&
        kiln_target_parse(k->codes[i].target, &target, NULL) == KILN_OK &&
        kiln_target_rank(&target, wants_ptx, &device, rule) != KILN_RANK_REFUSED)
      return true;
  }
  return false;
}

static kiln_status refuse(const ptx_device *d, const view_kernel *k, kiln_error *err) {
  if (has_code(d, k, false))
    return kiln_fail(err, KILN_STATUS_NO_VARIANT,
                     "'%.200s' has machine code for %s and no PTX, which the interpreter runs; build it with "
                     "--emit=ptx",
                     k->name, d->processor->name);
  kiln_buffer targets = {0};
  for (uint32_t i = 0; i < k->code_count && targets.size < 300; i++)
    if (!i || strcmp(k->codes[i].target, k->codes[i - 1].target))
      kiln_buffer_format(&targets, "%s%s", targets.size ? ", " : "", k->codes[i].target);
  kiln_fail(err, KILN_STATUS_NO_VARIANT,
            "'%.200s' has no PTX that runs on %s; it has code for %.*s. Build it with --target=%s --emit=ptx",
            k->name, d->processor->name, (int)targets.size, (const char *)targets.bytes, d->processor->name);
  kiln_buffer_deinit(&targets);
  return KILN_STATUS_NO_VARIANT;
}

static kiln_status copy_ptx(const bundle_view *view, kiln_buffer *out, kiln_error *err) {
  const kiln_bundle_options options = {.level = 1, .dictionary = KILN_BUNDLE_DICTIONARY_NONE};
  kiln_bundle_writer *writer = kiln_bundle_writer_create();
  if (!writer) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  kiln_status status = bundle_view_copy(view, writer, is_ptx, NULL, false, err);
  if (status == KILN_OK) status = kiln_bundle_writer_build(writer, &options, out, NULL, err);
  kiln_bundle_writer_destroy(writer);
  return status;
}

kiln_status ptx_device_read(const ptx_device *d, const char *path, const char *kernel, kiln_buffer *out,
                            kiln_error *err) {
  bundle_view view;
  KILN_TRY(bundle_view_open(path, &view, err));
  const view_kernel *k = find_kernel(&view, kernel);
  kiln_status status = !k ? kiln_fail(err, KILN_STATUS_NOT_FOUND, "%s has no kernel '%.200s'%s", path, kernel,
                                      suggest_kernel(&view, kernel).text)
                       : !has_code(d, k, true) ? refuse(d, k, err)
                                               : copy_ptx(&view, out, err);
  bundle_view_close(&view);
  return status;
}

// -------------------------------------------------------------------------------------------- findings

enum { MOST_TEXT = KILN_ERROR_TEXT - 200 };

kiln_status ptx_device_explain(const ptx_device *d, const char *kernel, uint32_t most, kiln_status status,
                               kiln_error *err) {
  const ptx_report *report = d->driver->report();
  uint32_t shown = 0;
  if (status != KILN_STATUS_DRIVER || !*d->driver->error()) return status;
  if (!report->count)
    return kiln_fail(err, status, "kernel '%.100s' on %s: %s", kernel, d->name, d->driver->error());
  kiln_buffer text = {0};
  for (; shown < report->count && shown < most; shown++) {
    const char *item = report->items[shown].text;
    if (shown && text.size + strlen(item) > MOST_TEXT) break;
    kiln_buffer_format(&text, "%s%s", shown ? "\n" : "", item);
  }
  if (shown < report->count) kiln_buffer_format(&text, ", and %u more", report->count - shown);
  kiln_fail(err, KILN_STATUS_ASSERT, "kernel '%.100s' on %s, seed %llu: %.*s", kernel, d->name,
            (unsigned long long)d->seed, (int)text.size, (const char *)text.bytes);
  kiln_buffer_deinit(&text);
  return KILN_STATUS_ASSERT;
}
