// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sets up what all compiling commands share: options, the open cache and the number of workers.
#include "tools/build/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/url.h"
#include "cache/admin.h"
#include "compiler/options.h"
#include "compiler/passes/stages.h"
#include "tools/kiln/environment.h"
#include "tools/cache/open.h"
#include "tools/build/tuning.h"

void session_init(session *s) {
  memset(s, 0, sizeof *s);
  plan_init(&s->plan);
  s->plan.options.verify_passes = environment_flag(ENV_KILN_VERIFY_PASSES, false);
}

void session_deinit(session *s) {
  kiln_cache_close(s->cache);
  kiln_cache_close(s->memory);
  plan_deinit(&s->plan);
  cli_list_deinit(&s->words);
  cli_list_deinit(&s->targets);
  cli_list_deinit(&s->instances);
  cli_list_deinit(&s->only);
}

bool session_codegen_option(void *context, const char *text, kiln_error *err) {
  session *s = context;
  size_t length = strcspn(text, "=");
  if (!kiln_option_find(text, length)) return false;
  if (kiln_codegen_options_set(&s->plan.options, text, err) != KILN_OK) return false;
  if (kiln_check_pass_name(s->plan.options.print_after, err) != KILN_OK) return false;
  if (length == strlen("ptx-assembler") && !memcmp(text, "ptx-assembler", length)) s->assembler_given = true;
  return true;
}

const char *session_codegen_name(size_t index, bool *out_needs_value) {
  if (index >= kiln_option_count()) return NULL;
  *out_needs_value = kiln_option_at(index)->kind != KILN_OPTION_FLAG;
  return kiln_option_at(index)->name;
}

const char *session_codegen_row(size_t index, const char **out_choices) {
  *out_choices = kiln_option_at(index)->choices;
  return kiln_option_at(index)->help;
}

const char *session_codegen_help(void) {
  static char text[4096];
  int at = snprintf(text, sizeof text, "options of code generation:");
  for (size_t i = 0; i < kiln_option_count() && at < (int)sizeof text - 200; i++) {
    const kiln_option_info *o = kiln_option_at(i);
    at += snprintf(text + at, sizeof text - (size_t)at, "\n    --%-26s %s%s%s", o->name, o->help,
                   *o->choices ? ": " : "", o->choices);
  }
  return text;
}

int session_check_cache(const cli_page *page, const session *s) {
  const struct {
    const char *name;
    bool is_given;
  } asking[] = {{"must-hit", s->must_hit}, {"verify-cache", s->verify != 0}, {"fleet", s->fleet != NULL}},
    without[] = {
        {"no-cache", s->no_cache}, {"force", s->force}, {"print-after", s->plan.options.print_after}};
  for (size_t a = 0; a < sizeof asking / sizeof *asking; a++)
    for (size_t w = 0; asking[a].is_given && w < sizeof without / sizeof *without; w++)
      if (without[w].is_given)
        return cli_usage(page, "--%s needs the cache, and with --%s nothing is looked up there",
                         asking[a].name, without[w].name);
  return -1;
}

static kiln_status open_cache(session *s, kiln_error *err) {
  bool without = s->no_cache || s->plan.options.print_after; // a hit would have nothing to print
  cache_open_options options = {.folder = s->cache_folder,
                                .fleet = s->fleet,
                                .sign = s->sign,
                                .force = s->force,
                                .local = without,
                                .read_only = without};
  if (without) {
    if (cache_open(&options, &s->memory, err) != KILN_OK) err->status = KILN_OK;
    return KILN_OK;
  }
  kiln_status status = cache_open(&options, &s->cache, err);
  char why[4096 + 200];
  if (status == KILN_OK && !s->quiet && kiln_cache_unopened(s->cache, why, sizeof why))
    fprintf(stderr, "kiln: note: the cache: nothing can be found in %s\n", why);
  const char *trust = environment_get(ENV_KILN_TRUST);
  // A request for signatures does not mean "or without".
  if (status == KILN_OK || s->must_hit || s->fleet || s->sign || (trust && !strcmp(trust, "require")))
    return status;
  fprintf(stderr, "kiln: note: going on without a cache: %s\n", err->text);
  err->status = KILN_OK;
  return KILN_OK;
}

int session_report(const session *s, kiln_status status, const kiln_error *err) {
  return s->is_misused ? cli_misuse(status, err) : cli_report(status, err);
}

kiln_status session_open(session *s, const char *fallback_target, kiln_error *err) {
  plan *p = &s->plan;
  if (!s->targets.count && fallback_target) cli_list_add(&s->targets, fallback_target);
  if (s->max_objects > 0) p->max_jobs = (size_t)s->max_objects;
  kiln_status status = plan_targets(p, &s->targets, err);
  if (status == KILN_OK && s->fleet) status = cache_open_check_fleet(s->fleet, err);
  s->is_misused = status != KILN_OK;
  if (status != KILN_OK) return status;
  p->quiet = s->quiet;
  char slip[200];
  for (size_t at = 0; !s->quiet && environment_next_misspelt(&at, slip, sizeof slip);)
    fprintf(stderr, "kiln: note: %s\n", slip);
  KILN_TRY(open_cache(s, err));
  bool wants_assembler = false; // some target would get better code with one
  for (size_t i = 0; i < p->target_count; i++)
    wants_assembler |= kiln_family_of(p->targets[i].processor->family)->assembled != 0;
  return toolchain_find(&p->who, &p->options, wants_assembler, !s->assembler_given,
                        s->cache ? s->cache : s->memory, err);
}

/// --keep-going: goes on without a source. What is said of it is not stored with a bundle.
static void leave_out(plan *p, plan_source *source, kiln_error *err) {
  source->error = *err;
  p->has_spoken = true;
  *err = (kiln_error){0};
}

kiln_status session_read(session *s, const char *fallback_target, kiln_error *err) {
  KILN_TRY(session_open(s, fallback_target, err));
  plan *p = &s->plan;
  p->for_tuning = s->for_tuning;
  if (s->tuned) KILN_TRY(tuning_read_table(p, s->tuned, err));
  else if (s->beside && !s->for_tuning) KILN_TRY(tuning_read_beside(p, &s->words, err));
  for (size_t i = 0; i < s->words.count; i++) {
    kiln_status status = plan_read_source(p, s->words.items[i], err);
    if (status == KILN_OK) continue;
    if (!p->keep_going || p->source_count <= i) return status;
    leave_out(p, &p->sources[i], err);
    cli_report(status, &p->sources[i].error);
  }
  return KILN_OK;
}

kiln_status session_lower(session *s, kiln_error *err) {
  plan *p = &s->plan;
  kiln_front_options front = {.instances = s->instances.items,
                              .instance_count = s->instances.count,
                              .all_configs = s->all_configs || s->for_tuning || p->tuned,
                              .all_variants = s->all_configs,
                              .with_ranges = s->for_tuning || p->tuned,
                              .warps = (uint32_t)s->warps,
                              .stages = (uint32_t)s->stages,
                              .tuning_key = s->key};
  kiln_status worst = KILN_OK;
  for (size_t i = 0; i < p->source_count; i++) {
    if (p->sources[i].error.status) continue;
    kiln_status status = plan_open_source(p, &p->sources[i], &front, err);
    if (status != KILN_OK && status != KILN_STATUS_SOURCE) return status;
    if (status != KILN_OK && p->keep_going) leave_out(p, &p->sources[i], err);
    else if (status != KILN_OK) worst = status;
  }
  if (worst == KILN_OK) worst = plan_lower(p, &s->only, err);
  p->has_spoken |= p->left_out != 0;
  if (p->left_out && !s->quiet)
    fprintf(stderr, "kiln: note: %u objects of @space are left out, the first: %s\n", p->left_out,
            p->first_left_out);
  return worst == KILN_OK && p->tuned ? tuning_check_table(p, s->quiet > 0, err) : worst;
}

kiln_status session_prepare(session *s, const char *fallback_target, kiln_error *err) {
  KILN_TRY(session_read(s, fallback_target, err));
  return session_lower(s, err);
}

// Errors of the code generator carry the number of an operation: the source shows which that is, or at least
// which kernel.
static void print_place(const plan *p, const plan_job *job) {
  char text[80];
  uint32_t number = job->error.operation ? job->error.operation - 1 : 0;
  if (job->error.operation) snprintf(text, sizeof text, "operation %u is here", number);
  plan_print_place(p, job, number, job->error.operation ? text : "the first operation of the kernel is here");
}

/// Why a code stayed PTX where a cubin would be better; NULL when it did not. `text` holds the answer.
static const char *reason_for_ptx(const session *s, const plan_job *job, char *text, size_t capacity) {
  const plan *p = &s->plan;
  kiln_code_info info;
  const kiln_family_info *family = kiln_family_of(p->targets[job->target].processor->family);
  if (!family->assembled || p->options.output) return NULL;
  if (job->state == JOB_FAILED || !kiln_code_info_decode(job->info.bytes, job->info.size, &info) ||
      info.format != family->plain)
    return NULL;
  if (p->options.assembler == KILN_ASSEMBLER_NONE)
    return s->assembler_given ? NULL : "no assembler (libnvJitLink, ptxas) was found";
  snprintf(text, capacity, "%s", info.why_ptx ? info.why_ptx : "the assembler does not know it");
  return text;
}

/// Programs whose tiles had no room in the registers of as many warps as were asked for.
static void note_more_warps(const plan *p, kiln_buffer *out) {
  const plan_job *first = NULL;
  uint32_t count = 0, made = 0;
  char title[300];
  for (size_t i = 0; i < p->job_count; i++) {
    const plan_job *job = &p->jobs[i];
    kiln_code_info info;
    if (job->state == JOB_FAILED || !kiln_code_info_decode(job->info.bytes, job->info.size, &info) ||
        !info.wave)
      continue;
    const kiln_interface *interface = plan_interface(p, job);
    const uint32_t asked = job->config < interface->config_count ? interface->configs[job->config].warps : 0;
    // Warp specialization adds four warps that copy.
    if (!asked || info.block_threads <= (asked + 4) * info.wave) continue;
    if (!count++) first = job, made = info.block_threads / info.wave;
  }
  if (!count) return;
  kiln_buffer_format(out,
                     "kiln: note: %u object%s more warps than asked for, whose registers do not hold a tile; "
                     "the first: %s has %u\n",
                     count, count == 1 ? " has" : "s have", plan_job_title(p, first, title, sizeof title),
                     made);
}

void session_notes(const session *s, kiln_buffer *out) {
  char text[200], name[KILN_TARGET_NAME];
  const plan *p = &s->plan;
  for (size_t t = 0; t < p->target_count; t++) {
    size_t count = 0;
    const char *why = NULL;
    for (size_t i = 0; i < p->job_count; i++) {
      const char *found = p->jobs[i].target == t ? reason_for_ptx(s, &p->jobs[i], text, sizeof text) : NULL;
      if (found) why = found, count++;
    }
    if (count)
      kiln_buffer_format(
          out, "kiln: note: %zu object%s for %s %s PTX, which the driver compiles when it loads: %s\n", count,
          count == 1 ? "" : "s", kiln_target_name(&p->targets[t], name), count == 1 ? "is" : "are", why);
  }
  note_more_warps(p, out);
  tuning_code_notes(p, out);
}

static void print_reserve_note(kiln_cache *cache) {
  uint64_t is_free, reserve;
  kiln_limits limits = kiln_cache_limits(cache);
  kiln_store *store = kiln_cache_store(cache);
  if (!kiln_cache_counted(cache, KILN_OUTCOME_STORED) || !store) return;
  if (kiln_store_short(store, &limits, &is_free, &reserve))
    fprintf(
        stderr,
        "kiln: note: the cache: %llu MiB are free and %llu MiB are to stay free (KILN_CACHE_MIN_FREE): what "
        "was stored goes again\n",
        (unsigned long long)is_free >> 20, (unsigned long long)reserve >> 20);
}

/// One line for all consequences of a fleet's server that does not answer, or stopped answering.
static void print_fleet_note(const session *s, const execute_counts *sums) {
  char shown[KILN_URL_SHOWN];
  kiln_url_shown(s->fleet, shown, sizeof shown);
  bool was_there = sums->alone < sums->compiled || kiln_cache_counted(s->cache, KILN_OUTCOME_HIT_REMOTE);
  const char *what = kiln_cache_counted(s->cache, KILN_OUTCOME_REMOTE_DENIED)
                         ? "the server refuses the password (KILN_CACHE_REMOTE_TOKEN)"
                     : was_there ? "server lost"
                                 : "the server does not answer";
  fprintf(stderr, "kiln: note: --fleet %s: %s, %zu compiled here\n", shown, what, sums->alone);
}

/// True where something else stands in the place of the store's folder, or of one that it is in: the user has to act,
/// so a --quiet does not hide it.
static bool warn_of_obstacle(const session *s) {
  char place[4096 + 200];
  const kiln_store *store =
      s->cache && kiln_cache_counted(s->cache, KILN_OUTCOME_STORE_IO) ? kiln_cache_store(s->cache) : NULL;
  if (!store || !kiln_store_obstacle(store, place, sizeof place)) return false;
  if (s->quiet < 2)
    fprintf(stderr,
            "kiln: warning: the cache: nothing is stored: %s is no folder; remove it, or name another folder "
            "with "
            "KILN_CACHE_DIR\n",
            place);
  return true;
}

void session_print_cache_notes(const session *s, bool but_remote) {
  static const kiln_outcome troubles[] = {KILN_OUTCOME_MISS_UNREADABLE, KILN_OUTCOME_STORE_NO_SPACE,
                                          KILN_OUTCOME_STORE_READ_ONLY, KILN_OUTCOME_STORE_DENIED,
                                          KILN_OUTCOME_STORE_IO,        KILN_OUTCOME_REMOTE_REFUSED,
                                          KILN_OUTCOME_REMOTE_DENIED,   KILN_OUTCOME_REMOTE_FAILED};
  enum { ALL = sizeof troubles / sizeof *troubles, BUT_REMOTE = ALL - 2 };
  for (size_t i = 0; s->cache && i < (but_remote ? BUT_REMOTE : ALL); i++) {
    uint64_t count = kiln_cache_counted(s->cache, troubles[i]);
    if (count)
      fprintf(stderr, "kiln: note: the cache: %llu x %s; `kiln cache doctor` looks closer\n",
              (unsigned long long)count, kiln_outcome_text(troubles[i]));
  }
  if (s->cache) print_reserve_note(s->cache);
}

int session_make(session *s, execute_counts *sums) {
  memset(sums, 0, sizeof *sums);
  bool all = plan_look_up(&s->plan, s->cache, sums);
  if (!all || s->verify) {
    execute_options options = {.threads = s->jobs > 0 ? (unsigned)s->jobs : cli_processors(),
                               .progress = !s->quiet && isatty(2),
                               .must_hit = s->must_hit,
                               .fleet = s->fleet != NULL,
                               .verify = (unsigned)s->verify,
                               .cache = s->cache};
    plan_execute(&s->plan, &options, sums);
  }
  // The output of --print-after, in the order of the jobs, independent of the order in which they were
  // compiled.
  for (size_t i = 0; i < s->plan.job_count; i++)
    if (s->plan.jobs[i].printed.size)
      fwrite(s->plan.jobs[i].printed.bytes, 1, s->plan.jobs[i].printed.size, stderr);
  char title[300];
  for (size_t i = 0; i < s->plan.job_count; i++) {
    if (s->plan.jobs[i].state != JOB_FAILED) continue;
    fprintf(stderr, "kiln: error: %s: %s [KILN-E%04d]\n",
            plan_job_title(&s->plan, &s->plan.jobs[i], title, sizeof title), s->plan.jobs[i].error.text,
            (int)s->plan.jobs[i].error.status);
    print_place(&s->plan, &s->plan.jobs[i]);
  }
  kiln_buffer notes = {0};
  if (!s->quiet) session_notes(s, &notes);
  if (notes.size) fwrite(notes.bytes, 1, notes.size, stderr);
  kiln_buffer_deinit(&notes);
  if (s->fleet && sums->alone && !s->quiet) print_fleet_note(s, sums);
  if (!warn_of_obstacle(s) && !s->quiet) session_print_cache_notes(s, s->fleet && sums->alone);
  for (size_t i = 0; i < s->plan.job_count; i++)
    if (s->plan.jobs[i].state == JOB_FAILED && s->plan.jobs[i].error.status == KILN_STATUS_INTERNAL)
      return CLI_INTERNAL;
  return sums->failed || plan_failures(&s->plan) ? CLI_FAILED : CLI_OK;
}
