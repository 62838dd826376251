// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the program instances of host kernels on a pool of threads.
#include "runtime/device/host_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/float_state.h"

/// A wait is looked at this often, and is for nothing when nobody has gone on for that long.
enum { LOOK_NS = 20 * 1000 * 1000, QUIET_NS = 1000 * 1000 * 1000 };

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
  _Atomic(uint64_t) stuck;  // not 0: instances that had started when it was given up
  unsigned active;          // workers on it; guarded by the pool's lock
} job;

/// What a thread does for a job, on its stack.
typedef struct part {
  struct part *next; // list of the pool
  kiln_host_pool *pool;
  job *job;
  atomic_bool is_waiting;
  _Atomic(uint32_t) waits, seen; // waits that have begun; number of the pool's stillness at the last call
  uint64_t next_look;            // of this thread only
} part;

/// What a kernel gets as its program_id and gives back when it waits.
typedef struct instance {
  uint32_t id[3];
  part *part;
} instance;

typedef struct scratch {
  struct scratch *next; // owned: free list
  size_t size;
  void *bytes; // owned, aligned to 64
} scratch;

struct kiln_host_pool { // what code reads often lies first, as in kiln_device
  pthread_mutex_t lock;
  job *jobs;        // first has priority
  part *parts;      // of all threads that run instances
  unsigned busy;    // workers among them
  uint64_t comings; // parts that have come or gone
  // Stillness: all threads wait, and none has begun another wait since.
  _Atomic(uint32_t) still_number;
  uint64_t still_since, still_sign; // since 0: there is none
  scratch *free_scratch;            // owned
  pthread_t *threads;               // owned
  unsigned thread_count, started;
  bool is_closing;
  pthread_cond_t work, done;
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
  p->parts = NULL;
  p->busy = 0;
  p->still_since = 0;
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

// ------------------------------------------------------------------------------------------- waits

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// Whether every thread of the pool waits; `out_sign` changes when one has gone on, `out_seen` says that each
// has looked at what it waits for since this stillness began. Called with the lock held.
static bool all_threads_wait(kiln_host_pool *p, uint64_t *out_sign, bool *out_seen) {
  uint32_t number = atomic_load(&p->still_number);
  *out_sign = p->comings;
  *out_seen = true;
  if (p->busy < p->started) return false;
  for (part *m = p->parts; m; m = m->next) {
    if (!atomic_load(&m->is_waiting)) return false;
    *out_sign += atomic_load(&m->waits);
    *out_seen &= atomic_load(&m->seen) == number;
  }
  return true;
}

// An instance that waits in vain for one that no thread is left to start would do so for ever. Nobody writes
// what is waited for while all wait, but threads that are no part of a launch, which have QUIET_NS for it.
static void check_deadlock(kiln_host_pool *p) {
  uint64_t sign, now = now_ns();
  bool seen;
  if (pthread_mutex_trylock(&p->lock)) return;
  if (!all_threads_wait(p, &sign, &seen)) {
    p->still_since = 0;
  } else if (!p->still_since || sign != p->still_sign) {
    atomic_fetch_add(&p->still_number, 1);
    p->still_since = now;
    p->still_sign = sign;
  } else if (seen && now - p->still_since >= QUIET_NS) {
    for (job *j = p->jobs; j; j = j->next) {
      uint64_t taken = atomic_load(&j->taken);
      if (taken < j->total) atomic_store(&j->stuck, taken);
    }
  }
  pthread_mutex_unlock(&p->lock);
}

int32_t kiln_host_pool_wait(const uint32_t program_id[3], int32_t is_waiting) {
  part *m = ((const instance *)(const void *)program_id)->part;
  if (!is_waiting) {
    atomic_store(&m->is_waiting, false);
    return 0;
  }
  uint64_t now = now_ns();
  atomic_store(&m->seen, atomic_load(&m->pool->still_number));
  if (!atomic_load(&m->is_waiting)) {
    atomic_fetch_add(&m->waits, 1);
    atomic_store(&m->is_waiting, true);
    m->next_look = now + LOOK_NS;
  }
  if (now >= m->next_look) {
    check_deadlock(m->pool);
    m->next_look = now + LOOK_NS;
  }
  // After one failed no further one starts, so others may wait for it in vain.
  if (atomic_load(&m->job->stuck) || atomic_load(&m->job->failed)) return 1;
  sched_yield();
  return 0;
}

// -------------------------------------------------------------------------------------------- runs

static void run_instances(part *m, void *scratch_bytes) {
  job *j = m->job;
  for (uint64_t i; (i = atomic_fetch_add_explicit(&j->taken, 1, memory_order_relaxed)) < j->total;) {
    uint64_t row = i / j->grid[0];
    instance in = {{(uint32_t)(i % j->grid[0]), (uint32_t)(row % j->grid[1]), (uint32_t)(row / j->grid[1])},
                   m};
    int32_t result = j->kernel(j->args, in.id, j->grid, scratch_bytes);
    if (!result) continue;
    int32_t none = 0;
    if (result != KILN_HOST_GAVE_UP && atomic_compare_exchange_strong(&j->failed, &none, result))
      j->failed_instance = i;
    atomic_store(&j->taken, j->total);
  }
}

// Takes part in a job; called with the lock held, returns with it held.
static void take_part(kiln_host_pool *p, job *j) {
  part mine = {.next = p->parts, .pool = p, .job = j}, **at;
  scratch *s = pop_scratch(p);
  p->parts = &mine;
  p->comings++;
  pthread_mutex_unlock(&p->lock);
  if (!s) s = calloc(1, sizeof *s);
  if (s && grow_scratch(s, j->scratch_bytes)) {
    // Whatever the launching thread has, or had when it started the others.
    kiln_float_state was = kiln_float_enter();
    run_instances(&mine, s->bytes);
    kiln_float_leave(was);
  } else atomic_store(&j->exhausted, true);
  pthread_mutex_lock(&p->lock);
  for (at = &p->parts; *at != &mine;) at = &(*at)->next;
  *at = mine.next;
  p->comings++;
  if (!s) return;
  s->next = p->free_scratch;
  p->free_scratch = s;
}

static void remove_job(kiln_host_pool *p, job *j) {
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
    p->busy++;
    take_part(p, j);
    p->busy--;
    remove_job(p, j);
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
                               const uint32_t grid[3], size_t scratch_bytes, kiln_host_outcome *out,
                               kiln_error *err) {
  job j = {
      .kernel = kernel, .args = args, .grid = {grid[0], grid[1], grid[2]}, .scratch_bytes = scratch_bytes};
  *out = (kiln_host_outcome){0};
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
  remove_job(p, &j);
  while (j.active) pthread_cond_wait(&p->done, &p->lock);
  pthread_mutex_unlock(&p->lock);
  // A worker without scratch only leaves the work to the others; the launching thread cannot.
  if (atomic_load(&j.exhausted) && atomic_load(&j.taken) < j.total)
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "%zu bytes of scratch for a host kernel", scratch_bytes);
  *out = (kiln_host_outcome){atomic_load(&j.failed), j.failed_instance, atomic_load(&j.stuck), j.total};
  return KILN_OK;
}
