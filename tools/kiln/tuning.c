// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/kiln/tuning.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bundle_format.h"
#include "base/nearest.h"
#include "cache/bundle/manifest.h"
#include "tools/common/tuned_file.h"

static int is_table(const struct dirent *file) {
  size_t length = strlen(file->d_name);
  return length > 6 && *file->d_name != '.' && !strcmp(file->d_name + length - 6, ".table");
}

// The tables of a folder in order of name.
static kiln_status read_folder(plan *p, const char *folder, kiln_error *err) {
  struct dirent **files;
  int count = scandir(folder, &files, is_table, alphasort);
  kiln_status status =
      count < 0 ? kiln_fail(err, kiln_status_of_errno(errno), "%s: %s", folder, strerror(errno)) : KILN_OK;
  for (int i = 0; i < count; i++) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", folder, files[i]->d_name);
    if (status == KILN_OK && length >= (int)sizeof path)
      status = kiln_fail(err, KILN_STATUS_LIMIT, "%s: the path is too long", folder);
    if (status == KILN_OK) status = tuned_file_read(path, p->tuned, err);
    free(files[i]);
  }
  if (count >= 0) free(files);
  return status;
}

kiln_status tuning_read_table(plan *p, const char *path, kiln_error *err) {
  struct stat st;
  p->tuned = calloc(1, sizeof *p->tuned);
  if (!p->tuned) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  kiln_tuner_table_init(p->tuned);
  bool is_folder = !stat(path, &st) && S_ISDIR(st.st_mode);
  return is_folder ? read_folder(p, path, err) : tuned_file_read(path, p->tuned, err);
}

// -------------------------------------------------------------------------------------------- checks

// The interface of the kernel that a row is about; NULL when the plan has none.
static const kiln_interface *interface_of(const plan *p, const kiln_tuned_entry *e) {
  for (size_t i = 0; i < p->job_count; i++) {
    const kiln_interface *interface = plan_interface(p, &p->jobs[i]);
    if (!strcmp(interface->name, e->texts[KILN_TUNED_KERNEL])) return interface;
  }
  return NULL;
}

static bool has_types(const kiln_interface *interface, const kiln_tuned_entry *e) {
  kiln_buffer types = {0};
  kiln_interface_types(interface, &types);
  kiln_buffer_u8(&types, 0);
  bool same = !types.failed && !strcmp((const char *)types.bytes, e->texts[KILN_TUNED_TYPES]);
  kiln_buffer_deinit(&types);
  return same;
}

static kiln_status check_config(const char *path, const kiln_interface *interface, const kiln_tuned_entry *e,
                                kiln_error *err) {
  const char *config = e->texts[KILN_TUNED_CONFIG];
  kiln_nearest n = kiln_nearest_to(config);
  for (uint32_t c = 0; c < interface->config_count; c++) {
    if (!strcmp(interface->configs[c].text, config)) return KILN_OK;
    kiln_nearest_consider(&n, interface->configs[c].text);
  }
  return kiln_fail(err, KILN_STATUS_NOT_FOUND, "%s:%u: kernel %s has no config '%s'%s%s%s", path, e->line,
                   interface->name, config, n.best ? "; did you mean '" : "", n.best ? n.best : "",
                   n.best ? "'?" : "");
}

static kiln_status check_axes(const char *path, const kiln_interface *interface, const kiln_tuned_entry *e,
                              kiln_error *err) {
  for (uint32_t i = 0; i < e->axis_count; i++) {
    size_t length = strcspn(e->axes[i].name, ".");
    bool found = false;
    for (uint32_t k = 0; k < interface->param_count && !found; k++)
      found = strlen(interface->params[k].name) == length &&
              !memcmp(interface->params[k].name, e->axes[i].name, length);
    if (!found)
      return kiln_fail(err, KILN_STATUS_NOT_FOUND, "%s:%u: kernel %s has no parameter '%.*s'", path, e->line,
                       interface->name, (int)length, e->axes[i].name);
  }
  return KILN_OK;
}

static bool is_by_others(const plan *p, const kiln_tuned_entry *e) {
  char ours[KILN_TUNER_ID + 1];
  const char *theirs = e->texts[KILN_TUNED_TOOLCHAIN];
  const char *assembler = p->who.assembler.text[0] ? p->who.assembler.text : NULL;
  kiln_tuner_toolchain(e->texts[KILN_TUNED_PROCESSOR], p->who.compiler.text, assembler, ours);
  return theirs && strcmp(theirs, ours);
}

kiln_status tuning_check_table(const plan *p, const char *path, bool strict, bool quiet, kiln_error *err) {
  uint32_t old = 0, foreign = 0, used = 0;
  for (uint32_t i = 0; i < p->tuned->count; i++) {
    const kiln_tuned_entry *e = p->tuned->rows[i].entry;
    const kiln_interface *interface = interface_of(p, e);
    if (!interface) continue;
    if (!has_types(interface, e)) {
      foreign++;
      continue;
    }
    KILN_TRY(check_config(path, interface, e, err));
    KILN_TRY(check_axes(path, interface, e, err));
    used++;
    old += is_by_others(p, e);
  }
  if (old && strict)
    return kiln_fail(
        err, KILN_STATUS_MISMATCH,
        "%s: %u of %u choices were measured with code of other tools; `kiln tune --check` measures again",
        path, old, used);
  if (quiet) return KILN_OK;
  if (old)
    fprintf(stderr, "kiln: note: %s: %u of %u choices were measured with code of other tools\n", path, old,
            used);
  if (foreign)
    fprintf(stderr, "kiln: note: %s: %u choices are for other parameters than their kernels have; left out\n",
            path, foreign);
  if (!used && !foreign && p->tuned->count)
    fprintf(stderr, "kiln: note: %s has no choice for these kernels\n", path);
  return KILN_OK;
}

// -------------------------------------------------------------------------------------------- notes

static void add_choices(const plan *p, const kiln_interface *interface, kiln_buffer *manifest) {
  kiln_buffer text = {0};
  char key[KILN_TUNED_NOTE];
  uint32_t count = 0;
  kiln_tuned_write_head(&text);
  for (uint32_t i = 0; i < p->tuned->count; i++) {
    const kiln_tuned_entry *e = p->tuned->rows[i].entry;
    if (strcmp(e->texts[KILN_TUNED_KERNEL], interface->name) || !has_types(interface, e)) continue;
    kiln_tuned_write(e, KILN_TUNED_WITHOUT_HISTORY, &text);
    kiln_buffer_u8(&text, '\n');
    count++;
  }
  kiln_buffer_u8(&text, 0);
  if (count && kiln_tuned_note_key(interface->name, key))
    kiln_manifest_note(manifest, key, (const char *)text.bytes);
  kiln_buffer_deinit(&text);
}

// The canonical kernels by config, one a line: what the reference interpreter runs.
static void add_reference(const plan *p, size_t first, const kiln_interface *interface,
                          kiln_buffer *manifest) {
  kiln_buffer text = {0}, key = {0};
  const plan_job *begin = &p->jobs[first];
  for (size_t i = first;
       i < p->job_count && p->jobs[i].source == begin->source && p->jobs[i].instance == begin->instance;
       i++) {
    const plan_job *job = &p->jobs[i];
    bool is_again = false;
    if (job->variant + 1 != interface->variant_count || job->state == JOB_FAILED) continue; // the generic one
    for (size_t k = first; k < i; k++)
      is_again |= p->jobs[k].config == job->config && p->jobs[k].variant == job->variant;
    if (is_again || text.size + 2 * job->canonical.size + 16 > KILN_BUNDLE_MAX_RECORD) continue;
    kiln_buffer_format(&text, "%u ", job->config);
    for (size_t k = 0; k < job->canonical.size; k++)
      kiln_buffer_format(&text, "%02x", job->canonical.bytes[k]);
    kiln_buffer_u8(&text, '\n');
  }
  kiln_buffer_u8(&text, 0);
  kiln_buffer_format(&key, "reference %s", interface->name);
  kiln_buffer_u8(&key, 0);
  kiln_manifest_note(manifest, (const char *)key.bytes, (const char *)text.bytes);
  kiln_buffer_deinit(&text);
  kiln_buffer_deinit(&key);
}

static void add_tuning_key(const plan *p, const plan_job *job, const kiln_interface *interface,
                           kiln_buffer *manifest) {
  const char *names = kiln_unit_tuning_key(p->sources[job->source].unit, job->instance);
  kiln_buffer key = {0};
  if (!*names) return;
  kiln_buffer_format(&key, "tuning key %s", interface->name);
  kiln_buffer_u8(&key, 0);
  kiln_manifest_note(manifest, (const char *)key.bytes, names);
  kiln_buffer_deinit(&key);
}

void tuning_notes(const plan *p, kiln_buffer *manifest) {
  for (size_t i = 0; i < p->job_count; i++) {
    const plan_job *job = &p->jobs[i];
    if (i && job[-1].source == job->source && job[-1].instance == job->instance) continue;
    const kiln_interface *interface = plan_interface(p, job);
    if (p->tuned) add_choices(p, interface, manifest);
    if (!p->for_tuning) continue;
    add_tuning_key(p, job, interface, manifest);
    add_reference(p, i, interface, manifest);
  }
}
