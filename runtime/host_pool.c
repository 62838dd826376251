// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/host_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/// A launch, on the stack of the thread that launched.
typedef struct job {
  struct job *next; // list of the pool
  kiln_host_kernel *kernel;
  const void *args;
  uint32_t grid[3];
  uint64_t total;
  size_t scratch_bytes;
  _Atomic(uint64_t) taken; // instances given out
  _Atomic(int32_t) failed;
  uint64_t failed_instance; // written by who set `failed`
  atomic_bool exhausted;    // no memory for scratch
  unsigned active;          // workers on it; guarded by the pool's lock
} job;

typedef struct scratch {
  struct scratch *next; // owned: free list
  size_t size;
  void *bytes; // owned, aligned to 64
} scratch;

struct kiln_host_pool {
  pthread_mutex_t lock;
  pthread_cond_t work, done;
  job *jobs;             // first has priority
  scratch *free_scratch; // owned
  pthread_t *threads;    // owned
  unsigned thread_count, started;
  bool is_closing;
};

static unsigned usable_processors(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) < 0) return 1;
  int count = CPU_COUNT(&set);
  return count > 0 ? (unsigned)count : 1;
}

kiln_host_pool *kiln_host_pool_create(unsigned threads) {
  kiln_host_pool *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->thread_count = threads ? threads : usable_processors();
  p->threads = calloc(p->thread_count, sizeof *p->threads);
  if (!p->threads) {
    free(p);
    return NULL;
  }
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->work, NULL);
  pthread_cond_init(&p->done, NULL);
  return p;
}

// Scratch on the list may be half linked; it is left alone.
void kiln_host_pool_in_child(kiln_host_pool *p) {
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->work, NULL);
  pthread_cond_init(&p->done, NULL);
  p->jobs = NULL;
  p->free_scratch = NULL;
  p->started = 0;
}

unsigned kiln_host_pool_threads(const kiln_host_pool *p) { return p->thread_count; }

void kiln_host_pool_destroy(kiln_host_pool *p) {
  if (!p) return;
  pthread_mutex_lock(&p->lock);
  p->is_closing = true;
  pthread_cond_broadcast(&p->work);
  pthread_mutex_unlock(&p->lock);
  for (unsigned i = 0; i < p->started; i++) pthread_join(p->threads[i], NULL);
  for (scratch *s = p->free_scratch, *next; s; s = next) {
    next = s->next;
    free(s->bytes);
    free(s);
  }
  pthread_cond_destroy(&p->work);
  pthread_cond_destroy(&p->done);
  pthread_mutex_destroy(&p->lock);
  free(p->threads);
  free(p);
}

// ----------------------------------------------------------------------------------------- scratch

// Called with the lock held.
static scratch *pop_scratch(kiln_host_pool *p) {
  scratch *s = p->free_scratch;
  if (s) p->free_scratch = s->next;
  return s;
}

static bool grow_scratch(scratch *s, size_t size) {
  if (s->size >= size) return true;
  size_t rounded = (size + 63) & ~(size_t)63;
  void *bytes = aligned_alloc(64, rounded);
  if (!bytes) return false;
  free(s->bytes);
  s->bytes = bytes;
  s->size = rounded;
  return true;
}

// -------------------------------------------------------------------------------------------- runs

static void run_instances(job *j, void *scratch_bytes) {
  for (uint64_t i; (i = atomic_fetch_add_explicit(&j->taken, 1, memory_order_relaxed)) < j->total;) {
    uint64_t row = i / j->grid[0];
    uint32_t id[3] = {(uint32_t)(i % j->grid[0]), (uint32_t)(row % j->grid[1]), (uint32_t)(row / j->grid[1])};
    int32_t result = j->kernel(j->args, id, j->grid, scratch_bytes);
    if (!result) continue;
    int32_t none = 0;
    if (atomic_compare_exchange_strong(&j->failed, &none, result)) j->failed_instance = i;
    atomic_store(&j->taken, j->total);
  }
}

// Takes part in a job; called with the lock held, returns with it held.
static void take_part(kiln_host_pool *p, job *j) {
  scratch *s = pop_scratch(p);
  pthread_mutex_unlock(&p->lock);
  if (!s) s = calloc(1, sizeof *s);
  if (s && grow_scratch(s, j->scratch_bytes)) run_instances(j, s->bytes);
  else atomic_store(&j->exhausted, true);
  pthread_mutex_lock(&p->lock);
  if (!s) return;
  s->next = p->free_scratch;
  p->free_scratch = s;
}

static void unlist(kiln_host_pool *p, job *j) {
  for (job **at = &p->jobs; *at; at = &(*at)->next) {
    if (*at != j) continue;
    *at = j->next;
    return;
  }
}

static void *worker(void *context) {
  kiln_host_pool *p = context;
  pthread_mutex_lock(&p->lock);
  while (!p->is_closing) {
    job *j = p->jobs;
    if (!j) {
      pthread_cond_wait(&p->work, &p->lock);
      continue;
    }
    j->active++;
    take_part(p, j);
    unlist(p, j);
    if (!--j->active) pthread_cond_broadcast(&p->done);
  }
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

// Signals go to the application's threads, apart from those that a kernel raises by what it does: an
// application's handler of faults sees them. A thread that cannot be started is done without.
static void start_threads(kiln_host_pool *p) {
  static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
  sigset_t all, old;
  if (p->started + 1 >= p->thread_count) return;
  sigfillset(&all);
  for (unsigned i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&all, own[i]);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  while (p->started + 1 < p->thread_count && !pthread_create(&p->threads[p->started], NULL, worker, p))
    p->started++;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}

kiln_status kiln_host_pool_run(kiln_host_pool *p, kiln_host_kernel *kernel, const void *args,
                               const uint32_t grid[3], size_t scratch_bytes, int32_t *out_failed,
                               uint64_t *out_instance, kiln_error *err) {
  job j = {
      .kernel = kernel, .args = args, .grid = {grid[0], grid[1], grid[2]}, .scratch_bytes = scratch_bytes};
  *out_failed = 0;
  // Half of the range is left free: threads still count up after the last instance.
  if (__builtin_mul_overflow((uint64_t)grid[0] * grid[1], (uint64_t)grid[2], &j.total) ||
      j.total > UINT64_MAX / 2)
    return kiln_fail(err, KILN_STATUS_LIMIT, "a grid of %u x %u x %u program instances is too large", grid[0],
                     grid[1], grid[2]);
  pthread_mutex_lock(&p->lock);
  if (j.total > 1) {
    start_threads(p);
    j.next = p->jobs;
    p->jobs = &j;
    if (j.total > 2) pthread_cond_broadcast(&p->work);
    else pthread_cond_signal(&p->work);
  }
  take_part(p, &j);
  unlist(p, &j);
  while (j.active) pthread_cond_wait(&p->done, &p->lock);
  pthread_mutex_unlock(&p->lock);
  // A worker without scratch only leaves the work to the others; the launching thread cannot.
  if (atomic_load(&j.exhausted) && atomic_load(&j.taken) < j.total)
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "%zu bytes of scratch for a host kernel", scratch_bytes);
  *out_failed = atomic_load(&j.failed);
  *out_instance = j.failed_instance;
  return KILN_OK;
}
