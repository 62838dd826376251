// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures the cache as a library.
//
//   bench_cache_level memory                ns per look-up in memory, at 1, 8 and 64 threads, distinct keys
//                                           and one key
//   bench_cache_level scale FOLDER COUNT... what opening, a hit, a miss, an insertion and one eviction step
//                                           cost in a store of that many entries
//   bench_cache_level fill FOLDER COUNT     fills a store with whole entries, for timing commands on it
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bench/timing.h"
#include "cache/admin.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static kiln_key make_key(unsigned long n) {
  static const uint8_t compiler[KILN_DIGEST_SIZE] = {1};
  uint8_t program[1500];
  kiln_key_builder b;
  kiln_key key;
  kiln_error err;
  memset(program, 7, sizeof program);
  memcpy(program, &n, sizeof n);
  kiln_key_begin(&b, KILN_KEY_COMPILE);
  kiln_key_add(&b, KILN_FIELD_IR, NULL, program, sizeof program);
  kiln_key_text(&b, KILN_FIELD_SYMBOL, "kiln_bench");
  kiln_key_add(&b, KILN_FIELD_PARAMETERS, NULL, "pppi", 4);
  kiln_key_text(&b, KILN_FIELD_TRIPLE, "nvptx64-nvidia-cuda");
  kiln_key_text(&b, KILN_FIELD_PROCESSOR, "sm_90");
  kiln_key_text(&b, KILN_FIELD_FORMAT, "ptx");
  kiln_key_add(&b, KILN_FIELD_COMPILER, NULL, compiler, sizeof compiler);
  if (kiln_key_finish(&b, &key, &err)) exit((fprintf(stderr, "%s\n", err.text), 1));
  return key;
}

static kiln_cache_content content(void) {
  static uint8_t payload[1800];
  for (size_t i = 0; i < sizeof payload; i++) payload[i] = (uint8_t)(i * i);
  return (kiln_cache_content){{(const uint8_t *)"meta", 4}, {NULL, 0}, {payload, sizeof payload}, 1000, 0};
}

static kiln_cache *open_cache(const char *folder, uint64_t memory) {
  kiln_cache_config config;
  kiln_cache *cache;
  kiln_error err;
  kiln_cache_config_init(&config);
  config.folder = folder;
  config.memory_bytes = memory;
  config.min_free_bytes = 0;
  config.no_stats = true;
  if (kiln_cache_open(&config, &cache, &err)) exit((fprintf(stderr, "%s\n", err.text), 1));
  return cache;
}

// ------------------------------------------------------------------------------------------ memory

enum { KEYS = 4096, ROUNDS = 200000 };

struct worker {
  kiln_cache *cache;
  const kiln_key *keys;
  unsigned seed, key_count;
  pthread_barrier_t *barrier;
  double ns;
};

static void *look_up(void *context) {
  struct worker *w = context;
  unsigned at = w->seed * 977;
  pthread_barrier_wait(w->barrier);
  double start = now();
  for (unsigned n = 0; n < ROUNDS; n++) {
    kiln_cache_entry entry;
    if (!kiln_cache_get(w->cache, &w->keys[at % w->key_count], &entry)) exit(1);
    kiln_cache_entry_deinit(&entry);
    at += 31;
  }
  w->ns = (now() - start) / ROUNDS;
  return NULL;
}

static void memory_at(kiln_cache *cache, const kiln_key *keys, unsigned key_count, unsigned threads) {
  struct worker workers[64];
  pthread_t ids[64];
  pthread_barrier_t barrier;
  double sum = 0, start;
  pthread_barrier_init(&barrier, NULL, threads + 1);
  for (unsigned i = 0; i < threads; i++) {
    workers[i] = (struct worker){cache, keys, i, key_count, &barrier, 0};
    if (pthread_create(&ids[i], NULL, look_up, &workers[i])) exit(1);
  }
  pthread_barrier_wait(&barrier);
  start = now();
  for (unsigned i = 0; i < threads; i++) {
    pthread_join(ids[i], NULL);
    sum += workers[i].ns;
  }
  printf("memory, %4u keys, %2u threads: %8.1f ns a look-up in a thread, %6.2f million look-ups a second in "
         "all\n",
         key_count, threads, sum / threads, (double)threads * ROUNDS / (now() - start) * 1e3);
  pthread_barrier_destroy(&barrier);
}

static int bench_memory(void) {
  kiln_cache *cache = open_cache(NULL, (uint64_t)64 << 20);
  kiln_key *keys = calloc(KEYS, sizeof *keys);
  kiln_cache_content c = content();
  for (unsigned i = 0; i < KEYS; i++) {
    keys[i] = make_key(i);
    if (kiln_cache_put(cache, &keys[i], &c, NULL)) return 1;
  }
  for (unsigned threads = 1; threads <= 64; threads *= 8) memory_at(cache, keys, KEYS, threads);
  for (unsigned threads = 1; threads <= 64; threads *= 8) memory_at(cache, keys, 1, threads);
  kiln_cache_close(cache);
  return 0;
}

// ------------------------------------------------------------------------------------------- scale

/// Entries that are names and sizes only: eviction and look-ups of other keys see no difference, and a
/// million is made in seconds.
static void add_names(const char *folder, unsigned long from, unsigned long to) {
  for (unsigned long n = from; n < to; n++) {
    kiln_digest d = kiln_digest_of(&n, sizeof n);
    char hex[KILN_DIGEST_HEX + 1], path[600];
    kiln_digest_hex(&d, hex);
    snprintf(path, sizeof path, "%s/v1/main.default/entries/%.2s/%s", folder, hex, hex + 2);
    FILE *f = fopen(path, "w");
    if (!f) exit((perror(path), 1));
    fputs("name only", f);
    fclose(f);
  }
}

static double median_us(double *v, unsigned count) { return bench_median(v, count) / 1e3; }

enum { SAMPLES = 201 };

static void scale_at(const char *folder, unsigned long count) {
  static unsigned long fresh = 1000000000;
  double opening[SAMPLES], hit[SAMPLES], miss[SAMPLES], insertion[SAMPLES], step[SAMPLES], t;
  kiln_cache_content c = content();
  kiln_key warm = make_key(999999999);
  for (unsigned i = 0; i < SAMPLES; i++) {
    kiln_cache_entry entry;
    t = now();
    kiln_cache *cache = open_cache(folder, 0);
    opening[i] = now() - t;
    kiln_cache_put(cache, &warm, &c, NULL);
    t = now();
    if (!kiln_cache_get(cache, &warm, &entry)) exit(1);
    kiln_cache_entry_deinit(&entry);
    hit[i] = now() - t;
    kiln_key key = make_key(fresh++);
    t = now();
    if (kiln_cache_get(cache, &key, &entry)) exit(1);
    miss[i] = now() - t;
    t = now();
    if (kiln_cache_put(cache, &key, &c, NULL)) exit(1);
    insertion[i] = now() - t;
    kiln_evict_report report;
    kiln_limits limits = {.files = count};
    t = now();
    kiln_evict_step(kiln_cache_store(cache), &limits, NULL, NULL, &report);
    step[i] = now() - t;
    kiln_cache_close(cache);
    kiln_key_deinit(&key);
  }
  printf("%8lu entries: open %6.1f  hit %6.1f  miss %6.1f  insertion %6.1f  eviction step %7.1f us (medians "
         "of %d)\n",
         count, median_us(opening, SAMPLES), median_us(hit, SAMPLES), median_us(miss, SAMPLES),
         median_us(insertion, SAMPLES), median_us(step, SAMPLES), SAMPLES);
  kiln_key_deinit(&warm);
}

static int bench_scale(const char *folder, int count, char **counts) {
  unsigned long made = 0;
  kiln_cache *cache = open_cache(folder, 0);
  kiln_key key = make_key(0);
  kiln_cache_content c = content();
  kiln_cache_put(cache, &key, &c, NULL);
  kiln_cache_close(cache);
  for (unsigned i = 0; i < 256; i++) {
    char path[600];
    snprintf(path, sizeof path, "%s/v1/main.default/entries/%02x", folder, i);
    mkdir(path, 0700);
  }
  for (int i = 0; i < count; i++) {
    unsigned long want = strtoul(counts[i], NULL, 10);
    add_names(folder, made, want);
    made = want > made ? want : made;
    scale_at(folder, want);
  }
  return 0;
}

static int fill(const char *folder, unsigned long count) {
  kiln_cache *cache = open_cache(folder, 0);
  kiln_cache_content c = content();
  for (unsigned long n = 0; n < count; n++) {
    kiln_key key = make_key(n);
    if (kiln_cache_put(cache, &key, &c, NULL)) return 1;
    kiln_key_deinit(&key);
  }
  kiln_cache_close(cache);
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "memory")) return bench_memory();
  if (argc > 3 && !strcmp(argv[1], "scale")) return bench_scale(argv[2], argc - 3, argv + 3);
  if (argc == 4 && !strcmp(argv[1], "fill")) return fill(argv[2], strtoul(argv[3], NULL, 10));
  fprintf(stderr, "usage: bench_cache_level memory | scale FOLDER COUNT... | fill FOLDER COUNT\n");
  return 2;
}
