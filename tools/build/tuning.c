// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Puts tuning data into a bundle: a table of tuned choices, or what `kiln tune` has to know about the
// kernels.
#include "tools/build/tuning.h"

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
#include "tools/common/code_metrics.h"
#include "tools/common/tuned_file.h"

static int is_table(const struct dirent *file) {
  size_t length = strlen(file->d_name);
  return length > 6 && *file->d_name != '.' && !strcmp(file->d_name + length - 6, ".table");
}

static kiln_status read_file(plan *p, const char *path, kiln_error *err) {
  char *copy = strdup(path);
  if (!copy) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  cli_list_add(&p->tuned_files, copy);
  return tuned_file_read(path, p->tuned, err); // NOLINT(clang-analyzer-unix.Malloc): the list has the copy
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
    if (status == KILN_OK) status = read_file(p, path, err);
    free(files[i]);
  }
  if (count >= 0) free(files);
  return status;
}

static bool is_folder(const char *path) {
  struct stat st;
  return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static kiln_status begin_table(plan *p, const char *path, kiln_error *err) {
  p->tuned = calloc(1, sizeof *p->tuned);
  p->tuned_path = strdup(path);
  if (!p->tuned || !p->tuned_path) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  kiln_tuner_table_init(p->tuned);
  return KILN_OK;
}

kiln_status tuning_read_table(plan *p, const char *path, kiln_error *err) {
  KILN_TRY(begin_table(p, path, err));
  return is_folder(path) ? read_folder(p, path, err) : read_file(p, path, err);
}

static bool is_for_targets(const plan *p, const kiln_tuned_entry *e) {
  for (size_t t = 0; t < p->target_count; t++)
    if (plan_is_choice_for(e, &p->targets[t])) return true;
  return false;
}

static bool has_file(const plan *p, const char *folder) {
  size_t length = strlen(folder);
  for (size_t i = 0; i < p->tuned_files.count; i++)
    if (!strncmp(p->tuned_files.items[i], folder, length) && p->tuned_files.items[i][length] == '/' &&
        !strchr(p->tuned_files.items[i] + length + 1, '/'))
      return true;
  return false;
}

kiln_status tuning_read_beside(plan *p, const cli_list *sources, kiln_error *err) {
  bool is_used = false;
  for (size_t i = 0; i < sources->count; i++) {
    char folder[PATH_MAX];
    const char *path = sources->items[i], *slash = strrchr(path, '/');
    int length = snprintf(folder, sizeof folder, "%.*stuned", slash ? (int)(slash + 1 - path) : 0, path);
    if (length >= (int)sizeof folder || !is_folder(folder) || has_file(p, folder)) continue;
    if (!p->tuned) KILN_TRY(begin_table(p, folder, err));
    KILN_TRY(read_folder(p, folder, err));
  }
  for (uint32_t i = 0; p->tuned && i < p->tuned->count && !is_used; i++)
    is_used = is_for_targets(p, p->tuned->rows[i].entry);
  p->tuned_beside = is_used;
  if (is_used) return KILN_OK;
  if (p->tuned) kiln_tuner_table_deinit(p->tuned);
  free(p->tuned);
  p->tuned = NULL;
  return KILN_OK;
}

// -------------------------------------------------------------------------------------------- checks

// The interface of the kernel that a row is about; NULL when the plan has none.
static const kiln_interface *interface_of(const plan *p, const kiln_tuned_entry *e) {
  const kiln_interface *last = NULL; // neighbours share theirs
  for (size_t i = 0; i < p->job_count; i++) {
    const kiln_interface *interface = plan_interface(p, &p->jobs[i]);
    if (interface != last && !strcmp(interface->name, e->texts[KILN_TUNED_KERNEL])) return interface;
    last = interface;
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
  for (uint32_t c = 0; c < interface->config_count; c++)
    if (!strcmp(interface->configs[c].text, config)) return KILN_OK;
  kiln_nearest n = kiln_nearest_to(config);
  for (uint32_t c = 0; c < interface->config_count; c++)
    kiln_nearest_consider(&n, interface->configs[c].text);
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

// A choice of the plan's table, and what it is about.
typedef struct choice {
  const kiln_tuned_entry *entry;
  const kiln_interface *interface;
} choice;

// Whether a choice adds nothing to @cost: where it was measured, the config with the least cost won. For the
// rest of the bin the costs are more precise.
static bool is_left_to_costs(const kiln_interface *interface, const kiln_tuned_entry *e) {
  const char *config = e->texts[KILN_TUNED_CONFIG], *usual = e->texts[KILN_TUNED_DEFAULT];
  bool has_costs = false;
  for (uint32_t c = 0; c < interface->config_count; c++) has_costs |= interface->configs[c].cost.size != 0;
  return has_costs && usual && !strcmp(config, usual);
}

// Whether row `index` goes into the bundle: the plan has its kernel, with these parameters, for one of the
// targets. tuning_check_table reports everything else that does not exist.
static bool is_taken(const plan *p, uint32_t index, choice *out) {
  kiln_error unseen;
  *out = (choice){p->tuned->rows[index].entry, NULL};
  out->interface = interface_of(p, out->entry);
  return out->interface && has_types(out->interface, out->entry) && is_for_targets(p, out->entry) &&
         check_config("", out->interface, out->entry, &unseen) == KILN_OK &&
         check_axes("", out->interface, out->entry, &unseen) == KILN_OK &&
         !is_left_to_costs(out->interface, out->entry);
}

kiln_status tuning_check_table(plan *p, bool quiet, kiln_error *err) {
  uint32_t foreign = 0, used = 0, lost = 0;
  kiln_error why = {0};
  for (uint32_t i = 0; i < p->tuned->count; i++) {
    const kiln_tuned_entry *e = p->tuned->rows[i].entry;
    const kiln_interface *interface = interface_of(p, e);
    if (!interface) continue;
    if (!has_types(interface, e)) {
      foreign++;
      continue;
    }
    kiln_error here = {0};
    kiln_status status = check_config(p->tuned_path, interface, e, &here);
    if (status == KILN_OK) status = check_axes(p->tuned_path, interface, e, &here);
    if (status != KILN_OK && !p->tuned_beside) return kiln_fail(err, status, "%s", here.text);
    if (status != KILN_OK && !lost++) why = here;
    used += status == KILN_OK;
  }
  bool is_vain = !used && !foreign && !lost && p->tuned->count && !p->tuned_beside;
  p->has_spoken |= lost || foreign || is_vain;
  if (quiet) return KILN_OK;
  if (lost) fprintf(stderr, "kiln: note: %u choices name what is not there; left out: %s\n", lost, why.text);
  if (foreign)
    fprintf(stderr, "kiln: note: %s: %u choices are for other parameters than their kernels have; left out\n",
            p->tuned_path, foreign);
  if (is_vain) fprintf(stderr, "kiln: note: %s has no choice for these kernels\n", p->tuned_path);
  return KILN_OK;
}

// -------------------------------------------------------------------------------------------- codes

// How the code of a job compares with the code that was measured.
static code_similarity like_job(const plan *p, const plan_job *job, const choice *c, const code_metrics *then,
                                code_metrics *out) {
  kiln_code_info info;
  if (job->state == JOB_FAILED || !job->code.size || plan_interface(p, job) != c->interface ||
      strcmp(c->interface->configs[job->config].text, c->entry->texts[KILN_TUNED_CONFIG]) ||
      !plan_is_choice_for(c->entry, &p->targets[job->target]) ||
      !kiln_code_info_decode(job->info.bytes, job->info.size, &info))
    return CODE_UNKNOWN;
  *out = code_metrics_of(&info, job->code.bytes, job->code.size);
  return code_metrics_compare(then, out);
}

// The most similar code among the variants and targets of the config: the table does not say which of them
// was launched.
static code_similarity like_code(const plan *p, const choice *c, const code_metrics *then,
                                 code_metrics *out) {
  code_similarity best = CODE_UNKNOWN;
  for (size_t i = 0; i < p->job_count; i++) {
    code_metrics now;
    code_similarity likeness = like_job(p, &p->jobs[i], c, then, &now);
    if (likeness >= best) continue;
    best = likeness;
    *out = now;
  }
  return best;
}

static bool is_by_others(const plan *p, const kiln_tuned_entry *e) {
  char ours[KILN_TUNER_ID + 1];
  const char *theirs = e->texts[KILN_TUNED_TOOLCHAIN];
  const char *assembler = p->who.assembler.text[0] ? p->who.assembler.text : NULL;
  kiln_tuner_toolchain(e->texts[KILN_TUNED_PROCESSOR], p->who.compiler.text, assembler, ours);
  return theirs && strcmp(theirs, ours);
}

// Counts choices whose code has changed, with the differences of the first; those whose code was made by
// other tools, with nothing else known; and those whose codes cannot be compared.
typedef struct changes {
  uint32_t used, changed, by_others, unknown;
  char first[CODE_METRICS_TEXT + 400];
} changes;

static changes find_changes(const plan *p) {
  changes found = {0};
  for (uint32_t i = 0; p->tuned && i < p->tuned->count; i++) {
    choice c;
    code_metrics now;
    char text[CODE_METRICS_TEXT];
    if (!is_taken(p, i, &c)) continue;
    found.used++;
    const code_metrics then = code_metrics_read(c.entry);
    code_similarity likeness = like_code(p, &c, &then, &now);
    if (likeness == CODE_CHANGED && !found.changed++)
      snprintf(found.first, sizeof found.first, "%.150s %.150s: %s", c.interface->name,
               c.entry->texts[KILN_TUNED_CONFIG], code_metrics_difference(&then, &now, text));
    if (likeness != CODE_UNKNOWN || !is_by_others(p, c.entry)) continue;
    if (*then.id) found.unknown++;
    else found.by_others++;
  }
  return found;
}

void tuning_code_notes(const plan *p, kiln_buffer *out) {
  const changes found = find_changes(p);
  if (found.changed)
    kiln_buffer_format(out, "kiln: note: %s: %u of %u choices were measured with other code, the first %s\n",
                       p->tuned_path, found.changed, found.used, found.first);
  if (found.by_others)
    kiln_buffer_format(out, "kiln: note: %s: %u of %u choices were measured with code of other tools\n",
                       p->tuned_path, found.by_others, found.used);
}

kiln_status tuning_check_codes(const plan *p, kiln_error *err) {
  const changes found = find_changes(p);
  if (found.changed)
    return kiln_fail(err, KILN_STATUS_MISMATCH,
                     "%s: %u of %u choices were measured with other code, the first %s; `kiln tune --check` "
                     "measures again",
                     p->tuned_path, found.changed, found.used, found.first);
  if (found.by_others || found.unknown)
    return kiln_fail(
        err, KILN_STATUS_MISMATCH,
        "%s: %u of %u choices were measured with code of other tools; `kiln tune --check` measures again",
        p->tuned_path, found.by_others + found.unknown, found.used);
  return KILN_OK;
}

// -------------------------------------------------------------------------------------------- notes

static void add_choices(const plan *p, const kiln_interface *interface, kiln_buffer *manifest) {
  kiln_buffer text = {0};
  char key[KILN_TUNED_NOTE];
  uint32_t count = 0;
  kiln_tuned_write_head(KILN_TUNED_WITHOUT_HISTORY, &text);
  for (uint32_t i = 0; i < p->tuned->count; i++) {
    choice c;
    if (!is_taken(p, i, &c) || c.interface != interface) continue;
    kiln_tuned_write(c.entry, KILN_TUNED_WITHOUT_HISTORY, &text);
    kiln_buffer_u8(&text, '\n');
    count++;
  }
  kiln_buffer_u8(&text, 0);
  if (count && kiln_tuned_note_key(interface->name, key))
    kiln_manifest_note(manifest, key, (const char *)text.bytes);
  kiln_buffer_deinit(&text);
}

// The canonical kernels by config, one per line, for the reference interpreter.
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
