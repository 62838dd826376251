// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Splits work on a large memory block among one thread per processor.
#include "tools/common/parallel.h"

#include <pthread.h>
#include <stdatomic.h>

#include "tools/common/cli.h"

enum { MOST_THREADS = 16 };

typedef struct work {
  uint64_t count;
  void (*look)(void *context, uint64_t from, uint64_t to);
  void *context;
  atomic_ullong next; // element
} work;

static void *look_at_parts(void *context) {
  work *w = context;
  uint64_t from;
  while ((from = atomic_fetch_add(&w->next, CLI_CHUNK)) < w->count)
    w->look(w->context, from, w->count - from < CLI_CHUNK ? w->count : from + CLI_CHUNK);
  return NULL;
}

void cli_parallel_for(uint64_t count, void (*look)(void *context, uint64_t from, uint64_t to),
                      void *context) {
  work w = {.count = count, .look = look, .context = context};
  pthread_t threads[MOST_THREADS];
  uint64_t parts = count / CLI_CHUNK + (count % CLI_CHUNK != 0);
  unsigned processors = cli_processors();
  unsigned started = 0;
  for (; started + 1 < MOST_THREADS && started + 1 < parts && started + 1 < processors; started++)
    if (pthread_create(&threads[started], NULL, look_at_parts, &w)) break;
  look_at_parts(&w); // this thread is one of them, and all of them where no other can be had
  for (unsigned i = 0; i < started; i++) pthread_join(threads[i], NULL);
}
