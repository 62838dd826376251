// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches, judges and measures the configs of one kernel in turn, until the fastest is certain.
#include "tools/tune/contest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/cli.h"
#include "tools/common/code_metrics.h"
#include "tuner/model.h"

enum { LOAD_MS = 120000, TIMES = 3, LEAST_FIRST = 8, LEADERS = 3, ENOUGH = 4, MOST_ROUNDS = 100 };

typedef struct running {
  tune_contest *contest;
  tune_subject *subject;
  const bundle_view *view;
  tune_worker *worker;
  const tune_rules *rules;
  const tune_hints *hints;
  tune_progress *progress;
  bool is_judge_known, is_search;
} running;

static kiln_status run_task(running *r, tune_task task, size_t candidate, uint32_t count, tune_reply *out,
                            kiln_error *err) {
  const tune_request request = {
      .task = task, .config = r->contest->candidates[candidate].config, .count = count};
  uint64_t begin = cli_now_ns();
  kiln_status status = tune_worker_ask(r->worker, r->subject, request,
                                       r->rules->limit_ms + (task == TUNE_LOAD ? LOAD_MS : 0), out, err);
  r->contest->spent_ns[task] += cli_now_ns() - begin;
  return status;
}

static KILN_PRINTF(3, 4) void drop(running *r, size_t candidate, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(r->contest->candidates[candidate].why_out, sizeof r->contest->candidates[candidate].why_out,
            format, list);
  va_end(list);
  r->contest->contenders[candidate].is_out = true;
}

// The candidate with the lowest median of those that were timed and are not in `passed` (may be NULL); the
// count of candidates if there is none.
static size_t best_so_far(const tune_contest *c, const bool *passed) {
  size_t best = c->count;
  double least = 0;
  for (size_t i = 0; i < c->count; i++) {
    if (c->contenders[i].is_out || !c->contenders[i].samples.count || (passed && passed[i])) continue;
    double median = kiln_samples_estimate(&c->contenders[i].samples).median;
    if (best == c->count || median < least) best = i, least = median;
  }
  return best;
}

static void show_progress(const running *r, const char *what, unsigned done, size_t of) {
  const tune_contest *c = r->contest;
  size_t best = best_so_far(c, NULL);
  char of_text[32] = "";
  if (of) snprintf(of_text, sizeof of_text, " of %zu", of);
  if (best == c->count) tune_progress_show(r->progress, "%s %u%s", what, done, of_text);
  else
    tune_progress_show(r->progress, "%s %u%s, the best so far %.2f us %s", what, done, of_text,
                       kiln_samples_estimate(&c->contenders[best].samples).median / 1e3,
                       r->subject->interface->configs[c->candidates[best].config].text);
}

// ------------------------------------------------------------------------------------- arguments

// Refuses arguments that do not fit the kernel, before anything is measured with them. What else fails is a config's
// fault, which costs only that config. A recorded launch brings the memory that it had.
static kiln_status check_arguments(const running *r, kiln_error *err) {
  static tune_reply reply;
  kiln_error why = {0};
  if (r->subject->after) return KILN_OK;
  kiln_status status = tune_worker_ask(r->worker, r->subject, (tune_request){.task = TUNE_CHECK},
                                       r->rules->limit_ms + LOAD_MS, &reply, &why);
  bool fits = status != KILN_STATUS_INVALID_ARGUMENT && status != KILN_STATUS_LAUNCH;
  return fits ? KILN_OK : kiln_fail(err, status, "%s", why.text);
}

// -------------------------------------------------------------------------------------- candidates

// Whether two configs have the same code for every target and variant.
static bool is_same_code(const view_kernel *k, uint32_t a, uint32_t b) {
  uint32_t matched = 0;
  for (uint32_t i = 0; i < k->code_count; i++) {
    if (k->codes[i].entry.config != a) continue;
    bool found = false;
    for (uint32_t j = 0; j < k->code_count && !found; j++)
      found = k->codes[j].entry.config == b && k->codes[j].entry.variant == k->codes[i].entry.variant &&
              k->codes[j].entry.target == k->codes[i].entry.target &&
              k->codes[j].entry.blob == k->codes[i].entry.blob;
    if (!found) return false;
    matched++;
  }
  return matched;
}

static const view_kernel *kernel_of(const running *r) {
  uint32_t i = 0;
  while (strcmp(r->view->kernels[i].name, r->subject->interface->name)) i++;
  return &r->view->kernels[i];
}

static const view_code *code_of(const view_kernel *k, uint32_t config, const tune_reply *reply) {
  for (uint32_t i = 0; i < k->code_count; i++)
    if (k->codes[i].entry.config == config && k->codes[i].entry.variant == reply->variant &&
        !strcmp(k->codes[i].target, reply->target))
      return &k->codes[i];
  return NULL;
}

// Drops a candidate with the code and grid of another one: their difference has no effect.
static void drop_doubles(running *r) {
  const view_kernel *k = kernel_of(r);
  tune_contest *c = r->contest;
  for (size_t i = 0; i < c->count; i++)
    for (size_t j = 0; j < i && !*c->candidates[i].why_out; j++)
      if (!*c->candidates[j].why_out &&
          !memcmp(c->candidates[i].grid, c->candidates[j].grid, sizeof c->candidates[i].grid) &&
          is_same_code(k, c->candidates[i].config, c->candidates[j].config))
        drop(r, i, "it is the same code as %s", r->subject->interface->configs[c->candidates[j].config].text);
}

static uint64_t instructions_of(const running *r, const view_code *code) {
  kiln_bytes bytes = {0};
  kiln_error unseen;
  if (!code || kiln_bundle_load(r->view->bundle, code->entry.blob, &bytes, &unseen) != KILN_OK) return 0;
  code_metrics figures = code_metrics_of(&code->info, bytes.bytes, bytes.size);
  kiln_bytes_deinit(&bytes);
  return figures.is_machine ? figures.instructions : 0;
}

// Scores candidates by their resources and, if the kernel has no loop, by their work relative to the least.
static void score_all(running *r) {
  tune_contest *c = r->contest;
  bool is_straight = tune_judge_is_straight(r->subject, r->view);
  double least = INFINITY;
  for (size_t i = 0; i < c->count; i++) {
    tune_candidate *t = &c->candidates[i];
    const kiln_model_needs needs = {
        t->block_threads,
        t->registers,
        t->shared_bytes,
        t->spill_bytes,
        (uint64_t)t->grid[0] * t->grid[1] * t->grid[2],
        is_straight && t->registers ? instructions_of(r, t->code) : 0,
    };
    t->score = kiln_model_score(&needs, r->hints->units);
    t->work = kiln_model_work(&needs);
    if (t->work > 0) least = fmin(least, t->work);
  }
  for (size_t i = 0; i < c->count; i++)
    if (c->candidates[i].work > 0) c->candidates[i].score *= least / c->candidates[i].work;
}

static bool is_hinted(const running *r, uint32_t config) {
  for (uint32_t i = 0; i < r->hints->count; i++)
    if (r->hints->configs[i] == config) return true;
  return false;
}

// Loads every config; those that may run become candidates.
static kiln_status find_candidates(running *r, kiln_error *err) {
  tune_contest *c = r->contest;
  uint32_t configs = r->subject->interface->config_count;
  static tune_reply reply;
  c->candidates = calloc(configs, sizeof *c->candidates);
  c->contenders = calloc(configs, sizeof *c->contenders);
  if (!c->candidates || !c->contenders)
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  for (uint32_t config = 0; config < configs; config++) {
    if (r->hints->is_all && c->count && !is_hinted(r, config)) continue; // the default is always one
    kiln_error why = {0};
    tune_candidate *t = &c->candidates[c->count];
    memset(t, 0, sizeof *t);
    t->config = config;
    c->count++;
    kiln_status status = run_task(r, TUNE_LOAD, c->count - 1, 0, &reply, &why);
    if (status == KILN_STATUS_NO_VARIANT) {
      c->count--;
      continue;
    }
    // An error of the device or the arguments concerns all configs.
    if (status == KILN_STATUS_NO_DEVICE || status == KILN_STATUS_LAUNCH)
      return kiln_fail(err, status, "%s", why.text);
    if (status != KILN_OK) drop(r, c->count - 1, "%s", why.text);
    t->registers = reply.registers;
    t->spill_bytes = reply.spill_bytes;
    t->shared_bytes = reply.shared_bytes;
    t->block_threads = reply.block_threads;
    memcpy(t->grid, reply.grid, sizeof t->grid);
    t->code = status == KILN_OK ? code_of(kernel_of(r), config, &reply) : NULL;
    if (status == KILN_OK && reply.spill_bytes > r->rules->most_spill)
      drop(r, c->count - 1, "it spills %u bytes; the limit is %u", reply.spill_bytes, r->rules->most_spill);
  }
  drop_doubles(r);
  score_all(r);
  return c->count ? KILN_OK
                  : kiln_fail(err, KILN_STATUS_NO_VARIANT,
                              "no config has code for this device and may run with these arguments");
}

// ---------------------------------------------------------------------------------------- judging

static kiln_status run_one(running *r, size_t candidate) {
  static tune_reply reply;
  kiln_error why = {0};
  kiln_status status = run_task(r, TUNE_RUN, candidate, 0, &reply, &why);
  if (status != KILN_OK) drop(r, candidate, "%s", why.text);
  return status;
}

// Launches a candidate once and drops it if its results are wrong.
static void judge_one(running *r, size_t candidate) {
  tune_contest *c = r->contest;
  kiln_error why = {0};
  if (c->contenders[candidate].is_out || c->candidates[candidate].is_tried) return;
  c->candidates[candidate].is_tried = true;
  c->tried++;
  show_progress(r, "config", c->tried, c->count);
  if (run_one(r, candidate) != KILN_OK) return;
  uint64_t begin = cli_now_ns();
  if (!r->is_judge_known) tune_judge_accept(&c->judge, r->subject);
  r->is_judge_known = true;
  if (tune_judge_compare(&c->judge, r->subject, &why) != KILN_OK)
    drop(r, candidate, "its results are wrong (judged by %s): %s", c->judge.by, why.text);
  c->judge_ns += cli_now_ns() - begin;
}

// --------------------------------------------------------------------------------------- measuring

static void time_one(running *r, size_t candidate, uint32_t count) {
  static tune_reply reply;
  kiln_error why = {0};
  if (run_task(r, TUNE_TIME, candidate, count, &reply, &why) != KILN_OK) {
    drop(r, candidate, "%s", why.text);
    return;
  }
  for (uint32_t i = 0; i < count; i++)
    kiln_samples_add(&r->contest->contenders[candidate].samples, reply.ns[i]);
}

static void try_one(running *r, size_t candidate) {
  tune_contest *c = r->contest;
  if (c->candidates[candidate].is_tried) return;
  judge_one(r, candidate);
  if (!c->contenders[candidate].is_out) time_one(r, candidate, TIMES);
}

// The untried candidate with the best score; ties go to the first.
static size_t most_promising(const tune_contest *c) {
  size_t best = c->count;
  for (size_t i = 0; i < c->count; i++)
    if (!c->contenders[i].is_out && !c->candidates[i].is_tried &&
        (best == c->count || c->candidates[i].score > c->candidates[best].score))
      best = i;
  return best;
}

// The first of the LEADERS lowest medians whose neighbours were not tried; the count of candidates if there
// is none.
static size_t next_leader(const tune_contest *c) {
  bool *passed = calloc(c->count + 1, sizeof *passed);
  size_t found = c->count;
  if (!passed) abort();
  for (unsigned place = 0; place < LEADERS && found == c->count; place++) {
    size_t best = best_so_far(c, passed);
    if (best == c->count) break;
    passed[best] = true;
    if (!c->candidates[best].is_left) found = best;
  }
  free(passed);
  return found;
}

// Tries all configs that differ in one knob from one of the leaders, as long as there are new leaders. It
// takes several, since which of them is the first is often noise.
static void try_neighbours(running *r) {
  tune_contest *c = r->contest;
  const kiln_config_record *configs = r->subject->interface->configs;
  size_t from;
  while ((from = next_leader(c)) < c->count) {
    c->candidates[from].is_left = true;
    for (size_t i = 0; i < c->count; i++)
      if (!c->contenders[i].is_out && kiln_model_knobs_apart(configs[c->candidates[i].config].text,
                                                             configs[c->candidates[from].config].text) == 1)
        try_one(r, i);
  }
}

// Tries the default, the hints and the candidates with the best scores, a quarter in all, then neighbours of
// the leaders. Untried ones are out. If no tried one is right, the others are tried one by one.
static void search(running *r) {
  tune_contest *c = r->contest;
  size_t next, first = c->count / 4 > LEAST_FIRST ? c->count / 4 : LEAST_FIRST;
  try_one(r, c->usual);
  for (size_t i = 0; i < c->count; i++)
    for (uint32_t h = 0; h < r->hints->count; h++)
      if (c->candidates[i].config == r->hints->configs[h] && !c->contenders[i].is_out) try_one(r, i);
  while (c->tried < first && (next = most_promising(c)) < c->count) try_one(r, next);
  while (best_so_far(c, NULL) == c->count && (next = most_promising(c)) < c->count) try_one(r, next);
  try_neighbours(r);
  for (size_t i = 0; i < c->count; i++) {
    c->contenders[i].is_out |= !c->candidates[i].is_tried;
    kiln_samples_clear(&c->contenders[i].samples); // they were not taken in turn
  }
}

static void judge_all(running *r) {
  for (size_t i = 0; i < r->contest->count; i++) judge_one(r, i);
}

// Measures all of them in turn, so that changes over time affect all.
static void measure(running *r) {
  tune_contest *c = r->contest;
  uint64_t end = cli_now_ns() + (uint64_t)(r->rules->budget_s * 1e9);
  for (c->rounds = 0; c->rounds < MOST_ROUNDS;) {
    if (c->rounds >= KILN_CONTEST_SURE && cli_now_ns() >= end) break;
    for (size_t i = 0; i < c->count; i++)
      if (!c->contenders[i].is_out) time_one(r, i, TIMES);
    c->rounds++;
    show_progress(r, "round", c->rounds, 0);
    if (r->is_search) kiln_contest_halve(c->contenders, c->count, c->usual, ENOUGH);
    if (c->rounds == 1 && r->rules->keep < 1) kiln_contest_keep(c->contenders, c->count, r->rules->keep);
    size_t in = kiln_contest_narrow(c->contenders, c->count, c->rounds);
    if (c->rounds >= KILN_CONTEST_SURE && (in < 2 || kiln_contest_is_tie(c->contenders, c->count))) break;
  }
}

// "c1: why; c2: why"
static kiln_status all_failed(const running *r, kiln_error *err) {
  char text[800] = "";
  size_t used = 0;
  const tune_contest *c = r->contest;
  for (size_t i = 0; i < c->count && used + 1 < sizeof text; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s: %s", i ? "; " : "",
                             r->subject->interface->configs[c->candidates[i].config].text,
                             c->candidates[i].why_out);
  return kiln_fail(err, KILN_STATUS_NO_VARIANT, "no config is left: %s", text);
}

/// The choice of a launch without tuning: the candidate with the least cost; ties go to the first.
static size_t default_of(const tune_contest *c, const tune_subject *subject) {
  size_t best = 0;
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < c->count; i++) {
    int64_t cost = tune_cost_of(subject, c->candidates[i].config);
    if (cost < least) best = i, least = cost;
  }
  return best;
}

kiln_status tune_contest_run(tune_contest *contest, tune_subject *subject, const bundle_view *view,
                             tune_worker *worker, const tune_rules *rules, const tune_hints *hints,
                             uint32_t usual_config, tune_progress *progress, kiln_error *err) {
  running r = {.contest = contest,
               .subject = subject,
               .view = view,
               .worker = worker,
               .rules = rules,
               .hints = hints,
               .progress = progress};
  kiln_error why = {0};
  memset(contest, 0, sizeof *contest);
  KILN_TRY(check_arguments(&r, err));
  KILN_TRY(find_candidates(&r, err));
  for (size_t i = 0; i < contest->count; i++)
    if (contest->candidates[i].config == usual_config) contest->usual = i;
  if (usual_config == UINT32_MAX) contest->usual = default_of(contest, subject);
  size_t in = 0;
  for (size_t i = 0; i < contest->count; i++) in += !contest->contenders[i].is_out;
  uint64_t begin = cli_now_ns();
  r.is_judge_known = subject->after ||
                     tune_judge_interpret(&contest->judge, subject, view, rules->judge_ms, &why) == KILN_OK;
  if (subject->after) tune_judge_recorded(&contest->judge, subject, view);
  contest->judge_ns += cli_now_ns() - begin;
  r.is_search = in > rules->all_below;
  if (r.is_search) search(&r);
  else judge_all(&r);
  measure(&r);
  contest->winner = kiln_contest_winner(contest->contenders, contest->count, contest->usual);
  return contest->winner < contest->count ? KILN_OK : all_failed(&r, err);
}

void tune_contest_deinit(tune_contest *contest) {
  for (size_t i = 0; contest->contenders && i < contest->count; i++)
    kiln_samples_deinit(&contest->contenders[i].samples);
  free(contest->candidates);
  free(contest->contenders);
  memset(contest, 0, sizeof *contest);
}
