// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What libkiln adds: nanoseconds a launch on the null device against the bare call of its driver function,
// look-up, choice among variants, open at growing numbers of entries, one code decoded. Medians of many
// rounds; one line a measure.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/timing.h"
#include "base/expr.h"
#include "base/record.h"
#include "cache/bundle/writer.h"
#include "base/bundle_format.h"
#include "runtime/device/device.h"

enum { ROUNDS = 41, LAUNCHES = 5000, MOST_ARGS = 16 };

// Of this thread: more threads than processors share them.
static uint64_t cpu_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void must(kiln_status status, const kiln_error *err) {
  if (status == KILN_OK) return;
  fprintf(stderr, "bench_runtime: %s\n", err->text);
  exit(1);
}

// ----------------------------------------------------------------------------------------- bundles

// `args` parameters, pointers and integers in turn; grid cdiv(p1, 128); `variants` conjunctions over the
// divisibility of each integer.
// Three tensor maps of the arguments 0, 2 and 4, each of rank 2 with an extent and a stride of argument 1.
#define MAP(param)                                                                                         \
  KILN_F32, 2, 3, 0, 0, (param), 32, 0, 0, 0, 4, 0, 0, 0, 2, KILN_EXPR_PARAM, 1, 2, KILN_EXPR_PARAM, 1, 5, \
      KILN_EXPR_PARAM, 1, KILN_EXPR_CONST, 4, KILN_EXPR_MUL, 2, KILN_EXPR_CONST, 0
static const uint8_t maps[] = {3, MAP(0), MAP(2), MAP(4)};

static void add_kernel(kiln_bundle_writer *w, const char *name, uint32_t args, bool variants, bool has_maps) {
  const char *target = has_maps ? "sm_90a" : "gfx942";
  static const uint8_t grid[] = {KILN_EXPR_PARAM, 1, KILN_EXPR_CONST, 0x80, 0x02, KILN_EXPR_CDIV};
  static uint8_t tests[MOST_ARGS][8];
  kiln_param_record params[MOST_ARGS] = {0};
  kiln_span conditions[MOST_ARGS];
  uint32_t condition_count = 0, kernel;
  kiln_error err;
  for (uint32_t i = 0; i < args; i++) {
    params[i] = (kiln_param_record){.name = "p",
                                    .scalar = (uint8_t)(i & 1 ? KILN_I32 : KILN_F32),
                                    .pointer = !(i & 1),
                                    .align = i & 1 ? 0 : 16};
    const uint8_t code[] = {KILN_EXPR_PARAM, (uint8_t)i, KILN_EXPR_CONST, 32, KILN_EXPR_REM,
                            KILN_EXPR_CONST, 0,          KILN_EXPR_EQ};
    memcpy(tests[i], code, sizeof code);
    if (i & 1) conditions[condition_count++] = (kiln_span){tests[i], sizeof code};
  }
  kiln_config_record config = {.text = "BLOCK=128", .warps = 4, .grid = {{grid, sizeof grid}}};
  kiln_variant_record rows[] = {
      {.text = "all % 16 == 0", .conditions = conditions, .condition_count = condition_count}, {.text = ""}};
  kiln_interface in = {.name = name,
                       .symbol = name,
                       .params = params,
                       .param_count = args,
                       .configs = &config,
                       .config_count = 1,
                       .variants = variants ? rows : rows + 1,
                       .variant_count = variants ? 2 : 1};
  kiln_buffer record = {0}, info = {0};
  kiln_interface_encode(&in, &record);
  must(kiln_bundle_writer_kernel(w, name, record.bytes, record.size, &kernel, &err), &err);
  kiln_code_info_encode(&(kiln_code_info){.format = has_maps ? KILN_FORMAT_CUBIN : KILN_FORMAT_HSACO,
                                          .target = target,
                                          .symbol = name,
                                          .block_threads = 128,
                                          .wave = has_maps ? 32 : 64,
                                          .producer = "bench"},
                        &info);
  for (uint32_t v = 0; v < in.variant_count; v++) {
    char code[200];
    memset(code, (int)v, sizeof code);
    snprintf(code, sizeof code, "%s", name);
    kiln_bundle_code c = {.kernel = kernel,
                          .variant = v,
                          .target = target,
                          .family = has_maps ? "sm" : "gfx9",
                          .maps = has_maps ? maps : NULL,
                          .maps_size = has_maps ? sizeof maps : 0,
                          .info = info.bytes,
                          .info_size = info.size,
                          .code = code,
                          .code_size = sizeof code};
    must(kiln_bundle_writer_code(w, &c, &err), &err);
  }
  kiln_buffer_deinit(&record);
  kiln_buffer_deinit(&info);
}

static void build(kiln_bundle_writer *w, kiln_buffer *out, kiln_bundle_dictionary dictionary) {
  kiln_error err;
  must(kiln_bundle_writer_build(w, &(kiln_bundle_options){.level = 3, .dictionary = dictionary, .threads = 2},
                                out, NULL, &err),
       &err);
  kiln_bundle_writer_destroy(w);
}

// ------------------------------------------------------------------------------------------ launch

typedef enum launch_way { WAY_BARE, WAY_LAUNCH, WAY_PREPARED, WAY_SET, WAY_CHOOSE, WAY_CHANGED } launch_way;
typedef struct launch_run {
  kiln_kernel *kernel;
  uint32_t args;
  launch_way way;
  pthread_barrier_t *start;
  double ns;
} launch_run;

static void run_once(const launch_run *r, const kiln_launch_call *call, const void *const *pointers,
                     const void *block, kiln_prepared *p, int i) {
  int64_t address = 0x1000 + 0x100 * (i & 1);
  const void *changed[MOST_ARGS];
  kiln_error err;
  kiln_choice choice;
  kiln_device *d = r->kernel->device;
  switch (r->way) {
  case WAY_BARE: must(d->kind->launch(d, call, &err), &err); break;
  case WAY_LAUNCH: must(kiln_launch(r->kernel, NULL, pointers, r->args, &err), &err); break;
  case WAY_CHANGED:
    memcpy(changed, pointers, sizeof changed);
    changed[0] = &address;
    must(kiln_launch(r->kernel, NULL, changed, r->args, &err), &err);
    break;
  case WAY_SET: must(kiln_prepared_set(p, 0, pointers[0], &err), &err); // fall through
  case WAY_PREPARED: must(kiln_prepared_launch(p, NULL, &err), &err); break;
  case WAY_CHOOSE:
    must(kiln_choose(r->kernel, block, kiln_block_size(r->kernel), &choice, &err), &err);
    break;
  }
}

static void *measure_launch(void *context) {
  launch_run *r = context;
  kiln_error err;
  int64_t values[MOST_ARGS] = {0};
  const void *pointers[MOST_ARGS];
  double rounds[ROUNDS];
  for (uint32_t i = 0; i < MOST_ARGS; i++) {
    values[i] = i & 1 ? 4096 : 0x1000;
    pointers[i] = &values[i];
  }
  kiln_device *d = r->kernel->device;
  kiln_launch_call call = {.function = d->state,
                           .code = r->kernel->codes,
                           .grid = {1, 1, 1},
                           .block = values,
                           .size = sizeof values};
  kiln_prepared *p;
  size_t size;
  must(kiln_prepare(r->kernel, pointers, r->args, NULL, &p, &err), &err);
  const void *block = kiln_prepared_block(p, &size);
  pthread_barrier_wait(r->start);
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t begin = cpu_ns();
    for (int i = 0; i < LAUNCHES; i++) run_once(r, &call, pointers, block, p, i);
    rounds[round] = (double)(cpu_ns() - begin) / LAUNCHES;
  }
  r->ns = bench_median(rounds, ROUNDS);
  kiln_prepared_free(p);
  return NULL;
}

static double launch_ns(kiln_kernel *k, uint32_t args, launch_way way, unsigned threads) {
  enum { MOST = 64 };
  pthread_t ids[MOST];
  launch_run runs[MOST];
  pthread_barrier_t start;
  double all[MOST];
  pthread_barrier_init(&start, NULL, threads);
  for (unsigned i = 0; i < threads; i++) {
    runs[i] = (launch_run){k, args, way, &start, 0};
    if (pthread_create(&ids[i], NULL, measure_launch, &runs[i])) exit(1);
  }
  for (unsigned i = 0; i < threads; i++) {
    pthread_join(ids[i], NULL);
    all[i] = runs[i].ns;
  }
  pthread_barrier_destroy(&start);
  return bench_median(all, threads);
}

// What an application does more than a loop over one launch: other pointers each time, several kernels in turn.
enum { ORDER = 4096, TURNS = 6 };
typedef struct turn {
  kiln_kernel *kernel;
  uint32_t args;
} turn;

/// What runs between launches, as a driver's call of microseconds does: touches as much memory as the first
/// cache holds, and takes branches that nobody can foresee.
static uint32_t do_other_work(uint32_t random) {
  enum { BYTES = 48 << 10, LINE = 64 };
  static uint8_t memory[BYTES];
  for (uint32_t i = 0; i < BYTES; i += LINE) {
    random = random * 1664525 + 1013904223;
    if (random >> 31) memory[i]++;
    else memory[i] ^= (uint8_t)(random >> 8);
  }
  return random;
}

/// Nanoseconds a launch; `bare`: of the device's own function, with the same preparation of arguments.
static double turns_ns(const turn *turns, uint32_t count, bool bare, bool with_work) {
  static uint8_t order[ORDER];
  int64_t values[MOST_ARGS];
  const void *pointers[MOST_ARGS];
  double rounds[ROUNDS];
  uint32_t random = 1;
  kiln_error err;
  for (uint32_t i = 0; i < ORDER; i++) {
    random = random * 1664525 + 1013904223;
    order[i] = (uint8_t)((random >> 16) % count);
  }
  for (uint32_t i = 0; i < MOST_ARGS; i++) {
    values[i] = 4096;
    pointers[i] = &values[i];
  }
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t begin = cpu_ns();
    for (int i = 0; i < LAUNCHES; i++) {
      const turn *t = &turns[order[i % ORDER]];
      if (with_work) random = do_other_work(random);
      for (uint32_t p = 0; p < t->args; p += 2) values[p] = 0x1000 + 0x100 * (int64_t)(i % 64 + (int)p);
      if (bare) {
        kiln_launch_call call = {.function = t->kernel->device->state,
                                 .code = t->kernel->codes,
                                 .grid = {1, 1, 1},
                                 .block = values,
                                 .size = sizeof values};
        must(t->kernel->device->kind->launch(t->kernel->device, &call, &err), &err);
      } else {
        must(kiln_launch(t->kernel, NULL, pointers, t->args, &err), &err);
      }
    }
    rounds[round] = (double)(cpu_ns() - begin) / LAUNCHES;
  }
  return bench_median(rounds, ROUNDS);
}

static void bench_turns(const turn turns[TURNS]) {
  for (uint32_t i = 0; i < TURNS; i++)
    printf("launch %2u arguments, %s, other pointers each time: %5.1f ns added; after other work %5.1f\n",
           turns[i].args,
           turns[i].kernel->interface.variant_count > 1 ? "a fact an integer" : "one variant      ",
           turns_ns(&turns[i], 1, false, false) - turns_ns(&turns[i], 1, true, false),
           turns_ns(&turns[i], 1, false, true) - turns_ns(&turns[i], 1, true, true));
  printf("launch of %d kernels in turn, in no order, other pointers each time: %.1f ns added; after other "
         "work %.1f\n",
         TURNS, turns_ns(turns, TURNS, false, false) - turns_ns(turns, TURNS, true, false),
         turns_ns(turns, TURNS, false, true) - turns_ns(turns, TURNS, true, true));
}

static void ignore(void *user, const kiln_event *event) { (void)user, (void)event; }

/// What a hook costs that returns at once, by the events that it wants.
static void bench_hook(const turn *t) {
  static const uint32_t kinds[] = {KILN_EVENT_LAUNCHED, KILN_EVENT_LAUNCH | KILN_EVENT_LAUNCHED,
                                   KILN_EVENT_LAUNCH | KILN_EVENT_LAUNCHED | KILN_EVENT_TIMES};
  double without = launch_ns(t->kernel, t->args, WAY_LAUNCH, 1), with[3];
  kiln_error err;
  for (unsigned i = 0; i < 3; i++) {
    must(kiln_hook_add(ignore, NULL, kinds[i], &err), &err);
    with[i] = launch_ns(t->kernel, t->args, WAY_LAUNCH, 1) - without;
    kiln_hook_remove(ignore, NULL);
  }
  printf(
      "launch %2u arguments, a hook that does nothing: %.1f ns more, at begin and end %.1f, with times %.1f; "
      "after its removal %.1f\n",
      t->args, with[0], with[1], with[2], launch_ns(t->kernel, t->args, WAY_LAUNCH, 1) - without);
}

static void bench_launches(void) {
  static const uint32_t counts[] = {2, 8, 16};
  kiln_bundle_writer *w = kiln_bundle_writer_create();
  kiln_buffer bundle = {0};
  kiln_library *l;
  kiln_device *d;
  kiln_error err;
  char name[32];
  for (size_t i = 0; i < 3; i++)
    for (int variants = 0; variants < 2; variants++) {
      snprintf(name, sizeof name, "k%u_%d", counts[i], variants);
      add_kernel(w, name, counts[i], variants, false);
    }
  build(w, &bundle, KILN_BUNDLE_DICTIONARY_AUTO);
  must(kiln_open_memory(bundle.bytes, bundle.size, &l, &err), &err);
  must(kiln_device_open(l, "null", &d, &err), &err);
  turn turns[TURNS];
  for (size_t i = 0; i < 3; i++)
    for (int variants = 0; variants < 2; variants++) {
      kiln_kernel *k;
      snprintf(name, sizeof name, "k%u_%d", counts[i], variants);
      must(kiln_kernel_get(d, name, NULL, &k, &err), &err);
      must(kiln_preload(k, &err), &err);
      turns[2 * i + (unsigned)variants] = (turn){k, counts[i]};
      for (unsigned threads = 1; threads <= 64; threads *= 64) {
        double bare = launch_ns(k, counts[i], WAY_BARE, threads),
               whole = launch_ns(k, counts[i], WAY_LAUNCH, threads);
        double prepared = launch_ns(k, counts[i], WAY_PREPARED, threads),
               set = launch_ns(k, counts[i], WAY_SET, threads);
        double choose = launch_ns(k, counts[i], WAY_CHOOSE, threads);
        printf("launch %2u arguments, %s, %2u threads: %5.1f ns added (%.1f - %.1f); prepared %.1f, with a "
               "pointer set %.1f; variant look-up %.1f\n",
               counts[i], variants ? "a fact an integer" : "one variant      ", threads, whole - bare, whole,
               bare, prepared - bare, set - bare, choose);
      }
    }
  bench_turns(turns);
  bench_hook(&turns[2]);
  double rounds[ROUNDS];
  kiln_kernel *k;
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t begin = bench_now_ns();
    for (int i = 0; i < LAUNCHES; i++) must(kiln_kernel_get(d, "k8_1", NULL, &k, &err), &err);
    rounds[round] = (double)(bench_now_ns() - begin) / LAUNCHES;
  }
  printf("look-up of a known kernel by name: %.0f ns\n", bench_median(rounds, ROUNDS));
  kiln_device_close(d);
  kiln_close(l);
  kiln_buffer_deinit(&bundle);
}

/// A launch with maps beside the same without: same arguments again, and one pointer that changes.
static void bench_maps(void) {
  enum { ARGS = 8 };
  kiln_bundle_writer *w = kiln_bundle_writer_create();
  kiln_buffer bundle = {0};
  kiln_library *l;
  kiln_device *d;
  kiln_error err;
  add_kernel(w, "mapped", ARGS, false, true);
  build(w, &bundle, KILN_BUNDLE_DICTIONARY_AUTO);
  must(kiln_open_memory(bundle.bytes, bundle.size, &l, &err), &err);
  must(kiln_device_open(l, "null:sm_90a", &d, &err), &err);
  kiln_kernel *k;
  must(kiln_kernel_get(d, "mapped", NULL, &k, &err), &err);
  must(kiln_preload(k, &err), &err);
  double bare = launch_ns(k, ARGS, WAY_BARE, 1);
  printf("launch %2u arguments, three tensor maps: %.1f ns added; with a pointer changed %.1f\n", ARGS,
         launch_ns(k, ARGS, WAY_LAUNCH, 1) - bare, launch_ns(k, ARGS, WAY_CHANGED, 1) - bare);
  kiln_device_close(d);
  kiln_close(l);
  kiln_buffer_deinit(&bundle);
}

// -------------------------------------------------------------------------------------------- open

static void bench_open(uint32_t entries, const char *folder) {
  kiln_bundle_writer *w = kiln_bundle_writer_create();
  kiln_buffer bundle = {0};
  kiln_error err;
  char path[512], name[32];
  double opens[ROUNDS], first[ROUNDS], finds[ROUNDS];
  for (uint32_t i = 0; i < entries; i++) {
    snprintf(name, sizeof name, "kernel[N=%u]", i);
    add_kernel(w, name, 4, false, false);
  }
  build(w, &bundle, KILN_BUNDLE_DICTIONARY_NONE);
  snprintf(path, sizeof path, "%s/bench.kbundle", folder);
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(bundle.bytes, 1, bundle.size, f) != bundle.size || fclose(f)) exit(1);
  for (int round = 0; round < ROUNDS; round++) {
    kiln_library *l;
    kiln_kernel_entry entry;
    uint64_t begin = bench_now_ns();
    must(kiln_open_file(path, &l, &err), &err);
    opens[round] = (double)(bench_now_ns() - begin) / 1e3;
    snprintf(name, sizeof name, "kernel[N=%u]", (unsigned)(entries / 2 + (unsigned)round));
    kiln_check hash = kiln_check_of(name, strlen(name));
    begin = bench_now_ns();
    must(kiln_bundle_kernel_find(l->bundles[0], name, &hash, &entry, &err), &err);
    first[round] = (double)(bench_now_ns() - begin) / 1e3;
    begin = bench_now_ns();
    for (int i = 0; i < 1000; i++)
      must(kiln_bundle_kernel_find(l->bundles[0], name, &hash, &entry, &err), &err);
    finds[round] = (double)(bench_now_ns() - begin) / 1000;
    kiln_close(l);
  }
  printf("open %6u entries (%zu bytes): %.1f us; first look-up, with its pages checked: %.1f us; again: %.0f "
         "ns\n",
         entries, bundle.size, bench_median(opens, ROUNDS), bench_median(first, ROUNDS),
         bench_median(finds, ROUNDS));
  unlink(path);
  kiln_buffer_deinit(&bundle);
}

int main(int argc, char **argv) {
  const char *folder = argc > 1 ? argv[1] : "/tmp";
  bench_launches();
  bench_maps();
  bench_open(1000, folder);
  bench_open(10000, folder);
  bench_open(100000, folder);
  return 0;
}
