// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes the artifacts of a plan: looks them up in the cache and sends the others to worker processes.
#include "tools/build/execute.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/program.h"
#include "compiler/options.h"
#include "tools/common/worker_client.h"
#include "tools/kiln/ir_difference.h"

/// The work of one thread.
typedef struct lane {
  const worker_client *worker;
  const plan_job *job;     // NULL: nothing
  uint64_t work, moved_ns; // of the worker, when it was last looked at; since when that stands
} lane;

typedef struct crew {
  plan *p;
  const execute_options *options;
  kiln_buffer encoded; // options for the worker
  pthread_mutex_t lock;
  pthread_cond_t changed;     // all is done
  size_t next, done;          // under lock
  size_t first;               // job that is taken first, the others after it in turn
  size_t *later;              // owned, under lock: jobs that another machine makes
  size_t later_count;         // under lock
  bool is_sweeping, is_swept; // under lock: those jobs are looked up all at once; were
  pthread_cond_t swept;
  uint32_t lane_count; // under lock
  lane *lanes;         // owned, a place for each thread; under lock
  execute_counts sums; // under lock
  bool is_told;        // under lock: that a tool changed
} crew;

static void copy_bytes(kiln_buffer *to, const void *bytes, size_t size) {
  kiln_buffer_clear(to);
  kiln_buffer_bytes(to, bytes, size);
}

static void take_entry(plan_job *job, kiln_cache_entry *entry) {
  const kiln_cache_content *c = &entry->content;
  job->cost_ns = c->cost_ns;
  job->is_vouched = entry->vouched;
  copy_bytes(&job->info, c->metadata.bytes, c->metadata.size);
  copy_bytes(&job->code, c->payload.bytes, c->payload.size);
  copy_bytes(&job->report, c->diagnostics.bytes, c->diagnostics.size);
  kiln_cache_entry_deinit(entry);
  job->state = JOB_HIT;
}

typedef struct looked {
  plan_job **jobs; ///< owned
  size_t hits;
  uint64_t last_ns; ///< when the one before was there
} looked;

static void take_found(void *context, size_t index, kiln_cache_entry *entry) {
  looked *l = context;
  plan_job *job = l->jobs[index];
  take_entry(job, entry);
  job->start_ns = l->last_ns;
  l->last_ns = cli_now_ns();
  job->ns = l->last_ns - job->start_ns;
  l->hits++;
}

bool plan_look_up(plan *p, kiln_cache *cache, execute_counts *sums) {
  looked l = {.jobs = calloc(p->job_count + 1, sizeof *l.jobs), .last_ns = cli_now_ns()};
  const kiln_key **keys = calloc(p->job_count + 1, sizeof *keys);
  size_t count = 0;
  if (!l.jobs || !keys) abort();
  for (size_t i = 0; i < p->job_count; i++)
    if (p->jobs[i].state == JOB_PENDING) {
      l.jobs[count] = &p->jobs[i];
      keys[count++] = &p->jobs[i].key;
    }
  if (cache) kiln_cache_get_many(cache, keys, count, take_found, &l);
  sums->hits += l.hits;
  free(keys);
  free(l.jobs);
  return l.hits == count;
}

static kiln_status compile(crew *c, worker_client *worker, plan_job *job, worker_reply *reply,
                           kiln_error *err) {
  char target[KILN_TARGET_NAME];
  const kiln_interface *interface = plan_interface(c->p, job);
  kiln_target_name(&c->p->targets[job->target], target);
  return worker_compile(worker, target, interface->symbol, &c->encoded, &job->canonical, &job->positions,
                        reply, err);
}

/// Whether the tools that the key names made the reply. Reported once when they did not.
static bool is_by_named_tools(crew *c, const worker_client *worker, const worker_reply *reply) {
  static const kiln_file_mark unknown;
  toolchain *who = &c->p->who;
  bool ours = kiln_file_mark_same(&reply->maker, &who->compiler.mark) ||
              (worker->by_path && kiln_file_mark_same(&reply->maker, &unknown));
  if (ours && toolchain_is_unchanged(who, worker->by_path)) return true;
  pthread_mutex_lock(&c->lock);
  if (!c->is_told)
    fprintf(stderr,
            "kiln: note: the code generator or the assembler changed during the build; what they made "
            "since is not kept in the cache\n");
  c->is_told = true;
  pthread_mutex_unlock(&c->lock);
  return false;
}

static void store(crew *c, const worker_client *worker, const worker_reply *reply, plan_job *job) {
  job->is_foreign = c->options->cache && !is_by_named_tools(c, worker, reply);
  if (!c->options->cache || job->is_foreign) return;
  char name[300];
  plan_job_name(c->p, job, name, sizeof name);
  kiln_cache_content content = {.metadata = {job->info.bytes, job->info.size},
                                .payload = {job->code.bytes, job->code.size},
                                .diagnostics = {job->report.bytes, job->report.size},
                                .cost_ns = job->ns,
                                .name = {(const uint8_t *)name, strlen(name)}};
  (void)kiln_cache_put(c->options->cache, &job->key, &content,
                       NULL); // a cache never fails a build; its counters have the reason
  kiln_cache_count(c->options->cache, KILN_OUTCOME_COMPILED, &job->key.digest, job->code.size, job->ns);
}

static void compile_job(crew *c, worker_client *worker, plan_job *job) {
  worker_reply reply;
  job->start_ns = cli_now_ns();
  kiln_status status = compile(c, worker, job, &reply, &job->error);
  job->cost_ns = job->ns = cli_now_ns() - job->start_ns;
  kiln_buffer_bytes(&job->printed, reply.printed, reply.printed_size);
  if (status == KILN_OK) {
    copy_bytes(&job->info, reply.info, reply.info_size);
    copy_bytes(&job->code, reply.code, reply.code_size);
    copy_bytes(&job->report, reply.report, reply.report_size);
    memcpy(job->times, reply.times, sizeof job->times);
    job->state = JOB_COMPILED;
    store(c, worker, &reply, job);
  } else {
    job->error.status = status;
    job->state = JOB_FAILED;
  }
  kiln_buffer_deinit(&reply.bytes);
}

// False: another machine makes it, and `waits` is not set.
static bool compile_or_wait(crew *c, worker_client *worker, plan_job *job, bool waits) {
  kiln_cache *cache = c->options->cache;
  kiln_cache_claim claim;
  kiln_cache_entry entry;
  bool is_busy = false;
  if (!cache) {
    compile_job(c, worker, job);
    return true;
  }
  bool is_there = waits ? kiln_cache_claim_key(cache, &job->key, &claim, &entry)
                        : kiln_cache_try_key(cache, &job->key, &claim, &entry, &is_busy);
  if (is_there) take_entry(job, &entry);
  else if (!is_busy) compile_job(c, worker, job);
  job->is_alone = claim.alone && job->state == JOB_COMPILED;
  if (job->state == JOB_FAILED || job->is_foreign) kiln_cache_give_up(cache, &job->key);
  kiln_cache_release(&claim);
  return !is_busy;
}

static void compile_again(crew *c, worker_client *worker, plan_job *job) {
  worker_reply reply;
  kiln_status status = compile(c, worker, job, &reply, &job->error);
  if (status == KILN_OK &&
      (reply.code_size != job->code.size || memcmp(reply.code, job->code.bytes, job->code.size)))
    status = kiln_fail(&job->error, KILN_STATUS_MISMATCH,
                       "the cached artifact (%zu bytes) differs from a new compile (%zu bytes)",
                       job->code.size, reply.code_size);
  if (status != KILN_OK) {
    job->error.status = status;
    job->state = JOB_FAILED;
  }
  kiln_buffer_deinit(&reply.bytes);
}

static void refuse_miss(crew *c, plan_job *job) {
  kiln_buffer why = {0};
  kiln_cache_explain(c->options->cache, &job->key, 0, ir_difference, &why);
  kiln_fail(&job->error, KILN_STATUS_MUST_HIT, "%.*s", (int)(why.size > 900 ? 900 : why.size),
            why.bytes ? (char *)why.bytes : "");
  job->state = JOB_FAILED;
  kiln_buffer_deinit(&why);
}

// False: it has to be run again later.
static bool run_job(crew *c, worker_client *worker, plan_job *job, bool waits) {
  if (job->state == JOB_PENDING && c->options->must_hit && c->options->cache) refuse_miss(c, job);
  else if (job->state == JOB_PENDING && !compile_or_wait(c, worker, job, waits)) return false;
  // The key decides which hits are compiled again, so the sample is the same on every machine and another one
  // after any change.
  if (job->state == JOB_HIT && c->options->verify &&
      job->key.digest.bytes[0] * 100u / 256u < c->options->verify) {
    compile_again(c, worker, job);
    pthread_mutex_lock(&c->lock);
    c->sums.verified++;
    pthread_mutex_unlock(&c->lock);
  }
  return true;
}

enum { STALLED_S = 4 };

/// Whether work on the claim goes on, for machines that wait for it: a worker that is stopped, or waits in
/// vain, uses no processor time.
static bool is_making_progress(void *context, const kiln_digest *key) {
  crew *c = context;
  bool is_moving = true;
  pthread_mutex_lock(&c->lock);
  for (uint32_t i = 0; i < c->lane_count; i++) {
    lane *l = &c->lanes[i];
    if (!l->job || memcmp(l->job->key.digest.bytes, key->bytes, sizeof key->bytes)) continue;
    uint64_t now = cli_now_ns(), work = worker_client_work(l->worker);
    if (work != l->work) l->moved_ns = now;
    l->work = work;
    is_moving = now - l->moved_ns < (uint64_t)STALLED_S * 1000000000;
  }
  pthread_mutex_unlock(&c->lock);
  return is_moving;
}

/// Draws one line on the terminal: how much is done, and the job that has been compiling for the longest
/// time.
static void draw_progress(crew *c) {
  char title[200];
  const plan_job *oldest = NULL;
  uint64_t now = cli_now_ns();
  for (size_t i = 0; i < c->p->job_count; i++) {
    const plan_job *job = &c->p->jobs[i];
    if (job->since_ns && (!oldest || job->since_ns < oldest->since_ns)) oldest = job;
  }
  kiln_program_clear_line();
  fprintf(stderr, "[%zu/%zu]", c->done, c->p->job_count);
  if (oldest)
    fprintf(stderr, " %.60s (%.0f s)", plan_job_title(c->p, oldest, title, sizeof title),
            (double)(now - oldest->since_ns) / 1e9);
  fflush(stderr);
}

/// Draws the line twice a second until the crew is done.
static void *draw_until_done(void *context) {
  crew *c = context;
  pthread_mutex_lock(&c->lock);
  while (c->done < c->p->job_count) {
    struct timespec until;
    draw_progress(c);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 500000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&c->changed, &c->lock, &until);
  }
  pthread_mutex_unlock(&c->lock);
  kiln_program_clear_line();
  return NULL;
}

typedef struct sweep {
  crew *crew;
  size_t *jobs; // owned
} sweep;

static void take_swept(void *context, size_t index, kiln_cache_entry *entry) {
  const sweep *s = context;
  take_entry(&s->crew->p->jobs[s->jobs[index]], entry);
}

// Takes what other machines have made meanwhile, with one request for all jobs. Called with the lock held,
// and returns with it held.
static void sweep_later(crew *c) {
  size_t count = c->later_count;
  sweep s = {c, calloc(count + 1, sizeof *s.jobs)};
  const kiln_key **keys = calloc(count + 1, sizeof *keys);
  if (!s.jobs || !keys) abort();
  memcpy(s.jobs, c->later, count * sizeof *s.jobs);
  for (size_t i = 0; i < count; i++) keys[i] = &c->p->jobs[s.jobs[i]].key;
  c->is_sweeping = true, c->later_count = 0;
  pthread_mutex_unlock(&c->lock);
  kiln_cache_get_many(c->options->cache, keys, count, take_swept, &s);
  pthread_mutex_lock(&c->lock);
  for (size_t i = 0; i < count; i++) c->later[c->later_count++] = s.jobs[i]; // also those that are there now
  c->is_sweeping = false, c->is_swept = true;
  pthread_cond_broadcast(&c->swept);
  free(keys);
  free(s.jobs);
}

// The next job in order, then the postponed ones, for which it waits. False: none is left.
static bool take_job(crew *c, size_t *out, bool *out_waits) {
  size_t count = c->p->job_count;
  pthread_mutex_lock(&c->lock);
  while (c->next >= count && c->is_sweeping) pthread_cond_wait(&c->swept, &c->lock);
  if (c->next >= count && c->later_count && !c->is_swept) sweep_later(c);
  bool is_any = c->next < count || c->later_count;
  *out_waits = !c->options->fleet || c->next >= count;
  if (c->next < count) *out = (c->first + c->next++) % count;
  else if (is_any) *out = c->later[--c->later_count];
  pthread_mutex_unlock(&c->lock);
  return is_any;
}

static void *run_worker(void *context) {
  crew *c = context;
  worker_client worker;
  kiln_error err = {0};
  bool ready = worker_client_init(&worker, &err) == KILN_OK;
  worker.program_fd = c->p->who.compiler.fd;
  worker.assembler_fd = c->p->who.assembler.fd;
  pthread_mutex_lock(&c->lock);
  lane *own = &c->lanes[c->lane_count++];
  uint32_t number = c->lane_count;
  own->worker = &worker;
  pthread_mutex_unlock(&c->lock);
  size_t at;
  bool waits;
  while (take_job(c, &at, &waits)) {
    plan_job *job = &c->p->jobs[at];
    bool was_pending = job->state == JOB_PENDING || job->is_late;
    pthread_mutex_lock(&c->lock);
    job->since_ns = was_pending ? cli_now_ns() : 0;
    if (was_pending) job->lane = number;
    own->job = job;
    own->moved_ns = cli_now_ns();
    pthread_mutex_unlock(&c->lock);
    if (was_pending && !ready) {
      job->error = err;
      job->state = JOB_FAILED;
    } else if (!run_job(c, &worker, job, waits)) {
      pthread_mutex_lock(&c->lock);
      c->later[c->later_count++] = at;
      job->is_late = true;
      job->since_ns = 0;
      pthread_mutex_unlock(&c->lock);
      continue;
    }
    pthread_mutex_lock(&c->lock);
    c->done++;
    c->sums.hits += was_pending && job->state == JOB_HIT;
    c->sums.compiled += job->state == JOB_COMPILED;
    c->sums.failed += job->state == JOB_FAILED;
    c->sums.alone += was_pending && job->is_alone;
    job->since_ns = 0;
    if (c->done == c->p->job_count) pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
  }
  pthread_mutex_lock(&c->lock);
  own->job = NULL;
  pthread_mutex_unlock(&c->lock);
  worker_client_deinit(&worker);
  return NULL;
}

typedef struct output {
  kiln_digest digest;
  const plan_job *job;
} output;

/// Orders by content, jobs that were not compiled now first.
static int by_content(const void *a, const void *b) {
  const output *x = a, *y = b;
  int order = memcmp(x->digest.bytes, y->digest.bytes, sizeof x->digest.bytes);
  if (order) return order;
  order = (x->job->state == JOB_COMPILED) - (y->job->state == JOB_COMPILED);
  return order ? order : x->job < y->job ? -1 : x->job > y->job;
}

void plan_execute(plan *p, const execute_options *options, execute_counts *out) {
  crew c = {.p = p, .options = options, .sums = *out};
  unsigned count = options->threads ? options->threads : 1;
  pthread_t *threads = calloc(count, sizeof *threads);
  c.later = calloc(p->job_count + 1, sizeof *c.later);
  c.lanes = calloc(count, sizeof *c.lanes);
  if (!c.later || !c.lanes) abort();
  // Machines of a fleet begin at different jobs, so that they seldom ask for the same object.
  if (options->fleet)
    c.first = (size_t)(cli_now_ns() / 1000u ^ (uint64_t)getpid() * 2654435761u) % (p->job_count + 1);
  kiln_codegen_options_encode(&p->options, &c.encoded);
  pthread_mutex_init(&c.lock, NULL);
  pthread_cond_init(&c.changed, NULL);
  pthread_cond_init(&c.swept, NULL);
  if (options->cache) kiln_cache_watch(options->cache, is_making_progress, &c);
  pthread_t watcher;
  bool is_watched = options->progress && !pthread_create(&watcher, NULL, draw_until_done, &c);
  unsigned started = 0;
  for (; threads && started + 1 < count && started + 1 < p->job_count; started++)
    if (pthread_create(&threads[started], NULL, run_worker, &c)) break;
  run_worker(&c); // this thread is one of the crew, and all of it where no thread can be had
  for (unsigned i = 0; i < started; i++) pthread_join(threads[i], NULL);
  if (is_watched) pthread_join(watcher, NULL);
  if (options->cache) kiln_cache_watch(options->cache, NULL, NULL);
  pthread_cond_destroy(&c.changed);
  pthread_cond_destroy(&c.swept);
  pthread_mutex_destroy(&c.lock);
  kiln_buffer_deinit(&c.encoded);
  free(threads);
  free(c.later);
  free(c.lanes);
  *out = c.sums;
  if (c.sums.compiled) {
    // Counts compiles with the same code as another key. Many of them mean that keys contain something that
    // does not matter.
    output *all = options->cache ? calloc(p->job_count, sizeof *all) : NULL;
    size_t made = 0;
    for (size_t i = 0; all && i < p->job_count; i++)
      if (p->jobs[i].code.size)
        all[made++] = (output){kiln_digest_of(p->jobs[i].code.bytes, p->jobs[i].code.size), &p->jobs[i]};
    if (made) qsort(all, made, sizeof *all, by_content);
    for (size_t i = 1; i < made; i++) {
      const plan_job *job = all[i].job, *before = all[i - 1].job;
      if (job->state == JOB_COMPILED &&
          !memcmp(all[i].digest.bytes, all[i - 1].digest.bytes, sizeof all[i].digest.bytes) &&
          memcmp(job->key.digest.bytes, before->key.digest.bytes, sizeof job->key.digest.bytes))
        kiln_cache_count(options->cache, KILN_OUTCOME_DUPLICATE, &job->key.digest, job->code.size, job->ns);
    }
    free(all);
  }
}
