// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expands a command line to compile jobs: sources, instances, configs, variants and targets, each lowered
// and with its key.
#include "tools/build/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/nearest.h"
#include "base/plural.h"
#include "compiler/analysis/live.h"
#include "compiler/options.h"
#include "compiler/positions.h"
#include "tools/build/compile_kir.h"
#include "tools/build/source_digest.h"
#include "tools/build/tuning.h"

enum { MOST_SOURCE = 64 << 20, DEFAULT_MAX_JOBS = 20000 };

const char *const plan_stage_names[PLAN_STAGES] = {"middle", "lower", "optimise", "emit", "assemble", "link"};

void plan_init(plan *p) {
  kiln_codegen_options_init(&p->options);
  p->max_jobs = DEFAULT_MAX_JOBS;
}

void plan_deinit(plan *p) {
  for (size_t i = 0; i < p->job_count; i++) {
    kiln_buffer_deinit(&p->jobs[i].canonical);
    kiln_buffer_deinit(&p->jobs[i].positions);
    kiln_buffer_deinit(&p->jobs[i].report);
    kiln_buffer_deinit(&p->jobs[i].info);
    kiln_buffer_deinit(&p->jobs[i].code);
    kiln_buffer_deinit(&p->jobs[i].printed);
    free(p->jobs[i].place);
    kiln_key_deinit(&p->jobs[i].key);
  }
  for (size_t i = 0; i < p->source_count; i++) {
    kiln_buffer_deinit(&p->sources[i].text);
    kiln_buffer_deinit(&p->sources[i].metadata);
    kiln_arena_destroy(p->sources[i].arena);
  }
  free(p->jobs);
  free(p->sources);
  free(p->targets);
  if (p->tuned) kiln_tuner_table_deinit(p->tuned);
  free(p->tuned);
  free(p->tuned_path);
  kiln_buffer_deinit(&p->said);
  for (size_t i = 0; i < p->tuned_files.count; i++) free((char *)(uintptr_t)p->tuned_files.items[i]);
  cli_list_deinit(&p->tuned_files);
}

static kiln_status add_target(plan *p, const char *text, size_t length, kiln_error *err) {
  char name[KILN_TARGET_NAME + 8], other[KILN_TARGET_NAME];
  kiln_target target;
  if (length >= sizeof name)
    return kiln_fail(err, KILN_STATUS_TARGET, "the target name '%.60s...' is too long", text);
  memcpy(name, text, length);
  name[length] = 0;
  KILN_TRY(kiln_target_parse(name, &target, err));
  kiln_target_name(&target, name);
  for (size_t i = 0; i < p->target_count; i++)
    if (!strcmp(kiln_target_name(&p->targets[i], other), name)) return KILN_OK; // named twice, made once
  p->targets = realloc(p->targets, (p->target_count + 1) * sizeof *p->targets);
  if (!p->targets) abort();
  p->targets[p->target_count++] = target;
  return KILN_OK;
}

kiln_status plan_targets(plan *p, const cli_list *texts, kiln_error *err) {
  for (size_t i = 0; i < texts->count; i++)
    for (const char *at = texts->items[i]; *at;) {
      size_t length = strcspn(at, ",");
      if (length) KILN_TRY(add_target(p, at, length, err));
      at += length + (at[length] == ',');
    }
  return p->target_count ? KILN_OK
                         : kiln_fail(err, KILN_STATUS_TARGET, "no target was named; --target=host is one");
}

void plan_add_said(kiln_buffer *out, plan_said unless, const void *text, size_t size) {
  kiln_buffer_u8(out, unless);
  kiln_buffer_block(out, text, size);
}

void plan_say(const uint8_t *said, size_t size, unsigned quiet) {
  for (kiln_reader r = kiln_reader_of(said, size); r.left;) {
    unsigned unless = kiln_read_u8(&r);
    size_t length = 0;
    const uint8_t *text = kiln_read_block(&r, &length);
    if (text && quiet < unless) fwrite(text, 1, length, stderr);
  }
}

/// False when there was no message. One is printed once, with its notes: every instance of a kernel may have it.
static bool print_diagnostics(plan *p, const kiln_diagnostics *d, const plan_source *source) {
  bool is_known = false;
  for (uint32_t i = 0; i < d->count; i++) {
    kiln_buffer out = {0};
    kiln_diagnostics one = {.items = &d->items[i], .count = 1};
    kiln_diagnostics_print(&one, (const char *)source->text.bytes, source->text.size, &out);
    bool is_warning = d->items[i].severity == KILN_WARNING;
    if (d->items[i].severity != KILN_NOTE)
      is_known = out.size && p->said.size && memmem(p->said.bytes, p->said.size, out.bytes, out.size);
    size_t before = p->said.size;
    if (out.size && !is_known)
      plan_add_said(&p->said, is_warning ? PLAN_SAID_TWICE_QUIET : PLAN_SAID_ALWAYS, out.bytes, out.size);
    plan_say(p->said.bytes + before, p->said.size - before, p->quiet);
    kiln_buffer_deinit(&out);
  }
  return d->count;
}

/// The first error that has a place; false without one.
static bool find_place(const kiln_diagnostics *d, const plan_source *source, cli_place *out) {
  uint32_t i = 0;
  while (i < d->count && (d->items[i].severity != KILN_ERROR || !d->items[i].line)) i++;
  if (i == d->count) return false;
  *out = (cli_place){.file = source->path, .line = d->items[i].line, .column = d->items[i].column};
  snprintf(out->message, sizeof out->message, "%s", d->items[i].text);
  cli_json_place(out);
  return true;
}

/// Triton writes launch facts to NAME.json next to NAME.ttir; the file may be missing.
static void read_metadata(plan_source *source) {
  char path[4096];
  size_t length = strlen(source->path);
  if (length < 5 || strcmp(source->path + length - 5, ".ttir") || length + 1 > sizeof path) return;
  snprintf(path, sizeof path, "%.*s.json", (int)length - 5, source->path);
  if (!access(path, R_OK) && cli_read_file(path, "", MOST_SOURCE, &source->metadata, NULL) != KILN_OK)
    kiln_buffer_clear(&source->metadata);
}

bool plan_is_kir_path(const char *path) {
  size_t length = strlen(path);
  return length > 4 && !strcmp(path + length - 4, ".kir");
}

static kiln_status add_path(plan *p, const char *path, plan_source **out, kiln_error *err) {
  if (plan_is_kir_path(path))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "%s is a kernel between passes: only `kiln compile` takes it, past cache and bundles",
                     path);
  p->sources = realloc(p->sources, (p->source_count + 1) * sizeof *p->sources);
  if (!p->sources) abort();
  *out = &p->sources[p->source_count++];
  memset(*out, 0, sizeof **out);
  (*out)->path = path;
  return KILN_OK;
}

kiln_status plan_finish_source(plan_source *source, kiln_error *err) {
  if (source->is_read) return KILN_OK;
  KILN_TRY(cli_read_file(source->path, "", MOST_SOURCE, &source->text, err));
  source->is_read = true;
  kiln_buffer_clear(&source->metadata);
  read_metadata(source);
  return KILN_OK;
}

kiln_status plan_read_source(plan *p, const char *path, kiln_error *err) {
  plan_source *source;
  KILN_TRY(add_path(p, path, &source, err));
  return plan_finish_source(source, err);
}

kiln_status plan_look_at_source(plan *p, const char *path, kiln_error *err) {
  plan_source *source;
  KILN_TRY(add_path(p, path, &source, err));
  if (!source_digest_of_file(path, MOST_SOURCE, &source->digest)) return plan_finish_source(source, err);
  read_metadata(source);
  return KILN_OK;
}

kiln_digest plan_source_digest(const plan_source *source) {
  return source->is_read ? source_digest_of(source->text.bytes, source->text.size) : source->digest;
}

kiln_status plan_open_source(plan *p, plan_source *source, const kiln_front_options *options,
                             kiln_error *err) {
  uint64_t start = cli_now_ns();
  kiln_front_options o = *options;
  source->arena = kiln_arena_create();
  if (source->metadata.size) {
    o.metadata = (const char *)source->metadata.bytes;
    o.metadata_size = source->metadata.size;
  }
  kiln_diagnostics d = {.arena = source->arena};
  source->unit = kiln_unit_open(source->arena, source->path, (const char *)source->text.bytes,
                                source->text.size, &o, &d);
  p->has_spoken |= print_diagnostics(p, &d, source);
  (void)find_place(&d, source, &source->place);
  p->front_ns += cli_now_ns() - start;
  return source->unit ? KILN_OK
                      : kiln_fail(err, KILN_STATUS_SOURCE, "%s: %u error%s", source->path, d.errors,
                                  d.errors == 1 ? "" : "s");
}

kiln_status plan_add_source(plan *p, const char *path, const kiln_front_options *options, kiln_error *err) {
  KILN_TRY(plan_read_source(p, path, err));
  return plan_open_source(p, &p->sources[p->source_count - 1], options, err);
}

const kiln_interface *plan_interface(const plan *p, const plan_job *job) {
  return kiln_unit_interface(p->sources[job->source].unit, job->instance);
}

const char *plan_job_name(const plan *p, const plan_job *job, char *out, size_t capacity) {
  const kiln_interface *i = plan_interface(p, job);
  const char *config = job->config < i->config_count ? i->configs[job->config].text : "";
  const char *variant = job->variant < i->variant_count ? i->variants[job->variant].text : "";
  snprintf(out, capacity, "%s%s%s%s%s%s", i->name, *config ? " " : "", config, *variant ? " (" : "", variant,
           *variant ? ")" : "");
  return out;
}

const char *plan_job_title(const plan *p, const plan_job *job, char *out, size_t capacity) {
  char target[KILN_TARGET_NAME];
  plan_job_name(p, job, out, capacity);
  size_t at = strlen(out);
  snprintf(out + at, capacity - at, " for %s", kiln_target_name(&p->targets[job->target], target));
  return out;
}

/// Whether the tiles that a config of a range keeps need more registers than its threads have, so that its
/// code is certain to spill. Such a config is no candidate and is not compiled.
static bool must_spill(plan *p, const plan_job *job, ir_kernel *kernel, kiln_arena *arena) {
  char name[300];
  const kiln_target *target = &p->targets[job->target];
  unsigned most = kiln_family_of(target->processor->family)->registers;
  if (!most || !p->for_tuning ||
      !kiln_unit_is_generated(p->sources[job->source].unit, job->instance, job->config))
    return false;
  if (kernel->max_registers && kernel->max_registers < most) most = kernel->max_registers;
  uint64_t least = kiln_live_bytes(arena, kernel) / 4 / ((uint64_t)kernel->warps * target->wave);
  if (least <= most) return false;
  if (!p->left_out++)
    snprintf(p->first_left_out, sizeof p->first_left_out,
             "%s keeps %llu values a thread, which has %u registers",
             plan_job_name(p, job, name, sizeof name), (unsigned long long)least, most);
  return true;
}

ir_kernel *plan_kernel(const plan *p, const plan_job *job, kiln_arena *arena) {
  kiln_diagnostics unseen = {.arena = arena};
  return kiln_unit_lower(p->sources[job->source].unit, arena, job->instance, job->config, job->variant,
                         &p->targets[job->target], &unseen);
}

void plan_print_place(const plan *p, const plan_job *job, uint32_t number, const char *text) {
  const plan_source *source = &p->sources[job->source];
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  ir_kernel *kernel = plan_kernel(p, job, arena);
  ir_place place = kernel ? kiln_operation_place(kernel, number) : (ir_place){0};
  char origin[KILN_PLACE_TEXT];
  bool made = place.line && *kiln_unit_origin(source->unit, place.line, origin);
  if (place.line)
    kiln_diagnose(&d, KILN_NOTE, source->path, place, made ? "%s (from %s)" : "%s", text, origin);
  kiln_buffer out = {0};
  kiln_diagnostics_print(&d, (const char *)source->text.bytes, source->text.size, &out);
  if (out.size) fwrite(out.bytes, 1, out.size, stderr);
  kiln_buffer_deinit(&out);
  kiln_arena_destroy(arena);
}

/// True when `name` ("softmax[T=bf16]") is wanted: by its whole name or by the part before '['.
static bool wanted(const cli_list *only, const char *name) {
  size_t plain = strcspn(name, "[");
  for (size_t i = 0; i < only->count; i++)
    if (!strcmp(only->items[i], name) ||
        (strlen(only->items[i]) == plain && !memcmp(only->items[i], name, plain)))
      return true;
  return !only->count;
}

static kiln_status refuse_target(const plan *p, uint32_t source, uint32_t instance, uint32_t target,
                                 kiln_error *err) {
  char name[KILN_TARGET_NAME], text[400] = "";
  const kiln_interface *interface = kiln_unit_interface(p->sources[source].unit, instance);
  size_t used = 0;
  for (uint32_t c = 0; c < interface->config_count && used < sizeof text; c++)
    used +=
        (size_t)snprintf(text + used, sizeof text - used, "%s%s", c ? "; " : "", interface->configs[c].text);
  return kiln_fail(err, KILN_STATUS_TARGET, "%s: %s has no config for %s; there are %s",
                   p->sources[source].path, interface->name, kiln_target_name(&p->targets[target], name),
                   text);
}

/// Lowers one job; an error in the source makes it FAILED.
static kiln_status lower_one(plan *p, const plan_job *wanted, kiln_error *err) {
  if (p->job_count >= p->max_jobs)
    return kiln_fail(err, KILN_STATUS_LIMIT,
                     "more than %zu objects would be built; --max-objects raises the limit", p->max_jobs);
  if (p->job_count == p->job_capacity) {
    p->job_capacity = p->job_capacity ? p->job_capacity * 2 : 64;
    p->jobs = realloc(p->jobs, p->job_capacity * sizeof *p->jobs);
    if (!p->jobs) abort();
  }
  plan_job *job = &p->jobs[p->job_count++];
  *job = *wanted;
  plan_source *source = &p->sources[job->source];
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  const kiln_interface *interface = plan_interface(p, job);
  kiln_status status = KILN_OK;
  ir_kernel *kernel = kiln_unit_lower(source->unit, arena, job->instance, job->config, job->variant,
                                      &p->targets[job->target], &d);
  p->has_spoken |= print_diagnostics(p, &d, source);
  if (kernel && must_spill(p, job, kernel, arena)) {
    p->job_count--; // no candidate for tuning
  } else if (kernel && !kiln_canonical_encode(kernel, &job->canonical)) {
    status = kiln_fail(err, KILN_STATUS_INTERNAL, "%s: the front end made an operation of machines",
                       interface->name);
  } else if (kernel) {
    if (p->options.debug) kiln_positions_encode(source->unit, source->path, kernel, &job->positions);
    compile_inputs in = {.canonical = &job->canonical,
                         .positions = &job->positions,
                         .symbol = interface->symbol,
                         .interface = interface,
                         .target = &p->targets[job->target],
                         .options = &p->options,
                         .who = &p->who};
    status = compile_key(&in, &job->key, err);
  } else {
    status = kiln_fail(err, KILN_STATUS_SOURCE, "%s: %s does not compile: %u error%s", source->path,
                       interface->name, d.errors, kiln_plural(d.errors));
    cli_place place;
    if (find_place(&d, source, &place) && (job->place = malloc(sizeof place))) *job->place = place;
  }
  kiln_arena_destroy(arena);
  if (status != KILN_STATUS_SOURCE) return status;
  job->state = JOB_FAILED;
  job->error = *err;
  return status;
}

bool plan_is_choice_for(const kiln_tuned_entry *e, const kiln_target *target) {
  kiln_device_target device;
  kiln_error unseen;
  char rule[KILN_RULE_TEXT];
  const char *processor = e->texts[KILN_TUNED_PROCESSOR];
  if (!strcmp(processor, "*")) return true;
  if (!strncmp(processor, "native", 6))
    return kiln_family_of(target->processor->family)->plain == KILN_FORMAT_HOST;
  return kiln_device_target_parse(processor, &device, &unseen) == KILN_OK &&
         kiln_target_rank(target, false, &device, rule) != KILN_RANK_REFUSED;
}

/// Whether some choice of the table is this config, for a device that runs code for the target.
static bool is_tuned(const plan *p, const kiln_interface *interface, uint32_t config,
                     const kiln_target *target) {
  for (uint32_t i = 0; p->tuned && i < p->tuned->count; i++) {
    const kiln_tuned_entry *e = p->tuned->rows[i].entry;
    if (!strcmp(e->texts[KILN_TUNED_KERNEL], interface->name) &&
        !strcmp(e->texts[KILN_TUNED_CONFIG], interface->configs[config].text) &&
        plan_is_choice_for(e, target))
      return true;
  }
  return false;
}

/// Stops at the first error: the source would fail for the other targets, too. For tuning, a config that
/// fails cannot win.
static kiln_status lower_instance(plan *p, uint32_t source, uint32_t instance, kiln_error *err) {
  kiln_unit *unit = p->sources[source].unit;
  const kiln_interface *interface = kiln_unit_interface(unit, instance);
  plan_job job = {.source = source, .instance = instance};
  for (job.target = 0; job.target < p->target_count; job.target++) {
    const kiln_target *target = &p->targets[job.target];
    job.config = kiln_unit_first_config(unit, instance, target);
    if (job.config == interface->config_count) return refuse_target(p, source, instance, job.target, err);
    bool is_ended = false; // by a config that always holds: the launch rule goes no farther, choices do
    for (; job.config < interface->config_count; job.config++) {
      if (!kiln_unit_has_config(unit, instance, job.config, target)) continue;
      bool is_only_tuned = is_ended || kiln_unit_is_generated(unit, instance, job.config);
      if (is_only_tuned && p->tuned && !is_tuned(p, interface, job.config, target)) continue;
      is_ended |= !interface->configs[job.config].require_count && !interface->configs[job.config].cost.size;
      for (job.variant = 0; job.variant < interface->variant_count; job.variant++) {
        if (!kiln_unit_has_variant(unit, instance, job.config, job.variant)) continue;
        kiln_status status = lower_one(p, &job, err);
        if (status != KILN_OK && !(p->for_tuning && status == KILN_STATUS_SOURCE)) return status;
      }
    }
  }
  return KILN_OK;
}

typedef struct named {
  const char *name, *path;
  uint32_t source;
} named;

static int by_name(const void *a, const void *b) {
  const named *x = a, *y = b;
  int order = strcmp(x->name, y->name);
  return order ? order : (x->source > y->source) - (x->source < y->source);
}

/// "no kernel is called 'typo'", with the one that was probably meant, and all of them.
static kiln_status refuse_selection(const plan *p, const char *text, kiln_error *err) {
  kiln_nearest n = kiln_nearest_to(text);
  kiln_buffer all = {0};
  char plain[128], best[128] = "";
  for (uint32_t s = 0; s < p->source_count; s++)
    for (size_t k = 0; p->sources[s].unit && k < kiln_unit_instance_count(p->sources[s].unit); k++) {
      const char *name = kiln_unit_interface(p->sources[s].unit, k)->name;
      snprintf(plain, sizeof plain, "%.*s", (int)(strchr(text, '[') ? strlen(name) : strcspn(name, "[")),
               name);
      kiln_nearest_consider(&n, plain);
      if (n.best) snprintf(best, sizeof best, "%s", n.best), n.best = NULL;
      if (all.size < 400) kiln_buffer_format(&all, "%s%s", all.size ? ", " : "", name);
    }
  kiln_status status =
      kiln_fail(err, KILN_STATUS_NOT_FOUND, "no kernel is called '%s'%s%s%s; there are %.*s%s", text,
                *best ? "; did you mean '" : "", best, *best ? "'?" : "", (int)all.size,
                all.bytes ? (const char *)all.bytes : "", all.size < 400 ? "" : " and more");
  kiln_buffer_deinit(&all);
  return status;
}

/// Checks that every name of --kernel selected a kernel.
static kiln_status check_selection(const plan *p, const cli_list *only, kiln_error *err) {
  for (size_t i = 0; i < only->count; i++) {
    const cli_list one = {.items = only->items + i, .count = 1};
    bool found = false;
    for (size_t k = 0; k < p->job_count && !found; k++)
      found = wanted(&one, plan_interface(p, &p->jobs[k])->name);
    if (!found) return refuse_selection(p, only->items[i], err);
  }
  return p->job_count ? KILN_OK : kiln_fail(err, KILN_STATUS_NOT_FOUND, "the sources have no kernel");
}

size_t plan_failures(const plan *p) {
  size_t count = 0;
  for (size_t i = 0; i < p->source_count; i++) count += p->sources[i].error.status != KILN_OK;
  for (size_t i = 0; i < p->job_count; i++) count += p->jobs[i].state == JOB_FAILED;
  return count;
}

/// Marks the instances of the unit that the instance may launch in its place, and what these may launch.
static void want_launched(kiln_unit *unit, size_t instance, bool *is_wanted) {
  const kiln_interface *in = kiln_unit_interface(unit, instance);
  size_t count = kiln_unit_instance_count(unit);
  for (uint32_t i = 0; i < in->launch_count; i++)
    for (size_t k = 0; k < count; k++) {
      if (is_wanted[k] || strcmp(kiln_unit_interface(unit, k)->name, in->launches[i].kernel)) continue;
      is_wanted[k] = true;
      want_launched(unit, k, is_wanted);
    }
}

kiln_status plan_lower(plan *p, const cli_list *only, kiln_error *err) {
  uint64_t start = cli_now_ns();
  kiln_status worst = KILN_OK;
  for (uint32_t source = 0; source < p->source_count; source++) {
    kiln_unit *unit = p->sources[source].unit;
    size_t count = unit ? kiln_unit_instance_count(unit) : 0;
    kiln_status status = KILN_OK;
    bool *is_wanted = calloc(count + 1, sizeof *is_wanted);
    if (!is_wanted) abort();
    for (size_t i = 0; i < count; i++) is_wanted[i] = wanted(only, kiln_unit_interface(unit, i)->name);
    for (size_t i = 0; i < count && p->with_launched; i++)
      if (is_wanted[i]) want_launched(unit, i, is_wanted);
    for (uint32_t instance = 0; instance < count; instance++) {
      if (!is_wanted[instance]) continue;
      status = lower_instance(p, source, instance, err);
      if (status == KILN_STATUS_SOURCE && !p->keep_going) worst = status;
      if (status == KILN_STATUS_SOURCE) status = KILN_OK;
      if (status != KILN_OK) break;
    }
    free(is_wanted);
    KILN_TRY(status);
  }
  p->front_ns += cli_now_ns() - start;
  if (worst != KILN_OK) return worst;
  KILN_TRY(check_selection(p, only, err));
  // One name stands for one kernel.
  kiln_status status = KILN_OK;
  named *names = calloc(p->job_count, sizeof *names);
  if (!names) abort();
  for (size_t i = 0; i < p->job_count; i++)
    names[i] =
        (named){plan_interface(p, &p->jobs[i])->name, p->sources[p->jobs[i].source].path, p->jobs[i].source};
  qsort(names, p->job_count, sizeof *names, by_name);
  for (size_t i = 1; i < p->job_count && status == KILN_OK; i++)
    if (!strcmp(names[i].name, names[i - 1].name) && names[i].source != names[i - 1].source)
      status = kiln_fail(err, KILN_STATUS_EXISTS, "kernel %s is in %s and in %s", names[i].name,
                         names[i - 1].path, names[i].path);
  free(names);
  return status;
}
