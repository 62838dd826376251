// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs random kernels with offsets that wrap around (offset_kernels.h): the interpreter, host code of each
// width and level, and the simulated GPU do what C says.
//
// KILN_SEEDS=first..last picks seeds; KILN_TEST_FULL takes 2,000. A failing seed is printed with its kernel.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compiler/front.h"
#include "compiler/interpreter/interpreter.h"
#include "compiler/passes/stages.h"
#include "tests/codegen/gpu_sim.inc"
#include "tests/codegen/host_mapping.h"
#include "tests/codegen/offset_kernels.inc"

/// Two offsets of 32 bits one after another stay inside, and a view's.
static const size_t REACH = (size_t)5 << 30;

typedef struct world {
  int8_t *x, *y; ///< of 2 * REACH bytes, without memory where nothing is written
  int32_t *o;
  uint8_t args[64];
} world;

static unsigned long long seed_now;
static const char *stage_now = "";

/// A fault of a kernel ends the program; the seed says which one it was.
static void on_fault(int number) {
  char text[200];
  int n = snprintf(text, sizeof text, "seed %llu, %s: signal %d\n", seed_now, stage_now, number);
  if (write(STDERR_FILENO, text, (size_t)n) < 0) _exit(2);
  _exit(1);
}

static int8_t *reserve(void) {
  void *p = mmap(NULL, 2 * REACH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

static void open_world(world *w) {
  w->x = reserve(), w->y = reserve();
  if (!w->x || !w->y) SKIP("no address space of %zu bytes", 4 * REACH);
}

/// Memory as it is before a launch.
static void fill_world(world *w, const offsets_case *c) {
  madvise(w->x, 2 * REACH, MADV_DONTNEED);
  madvise(w->y, 2 * REACH, MADV_DONTNEED);
  for (size_t i = 0; i < c->read_count; i++) w->x[(int64_t)REACH + c->reads[i]] = offsets_byte(c->reads[i]);
  w->o = calloc(c->results, sizeof *w->o);
  CHECK(w->o != NULL);
  const void *pointers[3] = {w->x + REACH, w->y + REACH, w->o};
  memcpy(w->args, pointers, sizeof pointers);
  memcpy(w->args + sizeof pointers, c->params, sizeof c->params);
}

static bool say(const offsets_case *c, const char *format, ...) {
  va_list args;
  fprintf(stderr, "seed %llu, %s: ", seed_now, stage_now);
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fprintf(stderr, "\n%s", c->text);
  for (unsigned i = 0; i < OFFSETS_PARAMS; i++) fprintf(stderr, " p%u = %d", i, c->params[i]);
  fprintf(stderr, "\n");
  return false;
}

static bool compare_world(world *w, const offsets_case *c) {
  bool is_good = true;
  for (size_t i = 0; i < c->results && is_good; i++)
    if (w->o[i] != c->expected[i]) is_good = say(c, "o[%zu] is %d, expected %d", i, w->o[i], c->expected[i]);
  for (size_t i = 0; i < c->write_count && is_good; i++) {
    const int8_t is = w->y[(int64_t)REACH + c->writes[i]], wanted = offsets_byte(c->writes[i]);
    if (is != wanted) is_good = say(c, "y[%lld] is %d, expected %d", (long long)c->writes[i], is, wanted);
  }
  free(w->o);
  return is_good;
}

static ir_kernel *lowered(const offsets_case *c, kiln_arena *arena, const kiln_target *target) {
  kiln_diagnostics d = {.arena = arena};
  kiln_unit *unit = kiln_unit_open(arena, "offsets.kiln", c->text, strlen(c->text), NULL, &d);
  ir_kernel *kernel = unit ? kiln_unit_lower(unit, arena, 0, 0, 0, target, &d) : NULL;
  if (!kernel) say(c, "%u:%u: %s", d.items[0].line, d.items[0].column, d.items[0].text);
  return kernel;
}

static kiln_target target_of(const char *name) {
  kiln_target target;
  kiln_error err = {0};
  if (kiln_target_parse(name, &target, &err) != KILN_OK) FAIL("%s", err.text);
  return target;
}

/// One way to run a kernel; false when it says something else.
typedef struct way {
  const char *name, *target;
  bool (*run)(const struct way *how, ir_kernel *kernel, const kiln_target *target, world *w,
              const offsets_case *c);
  unsigned level;
} way;

static bool interpret(const way *how, ir_kernel *kernel, const kiln_target *target, world *w,
                      const offsets_case *c) {
  kiln_error err = {0};
  if (how->level && kiln_lower(kernel, target, &err) != KILN_OK) return say(c, "%s", err.text);
  const kiln_memory_range ranges[] = {
      {w->x, 2 * REACH}, {w->y, 2 * REACH}, {w->o, c->results * sizeof *w->o}};
  const kiln_interpret_options options = {.ranges = ranges, .range_count = 3};
  return kiln_interpret(kernel, w->args, c->grid, &options, &err) == KILN_OK || say(c, "%s", err.text);
}

static bool run_host(const way *how, ir_kernel *kernel, const kiln_target *target, world *w,
                     const offsets_case *c) {
  kiln_codegen_options options;
  kiln_artifact artifact = {0};
  kiln_error err = {0};
  kiln_codegen_options_init(&options);
  options.optimise = (uint8_t)how->level;
  if (kiln_codegen(kernel, target, &options, &artifact, &err) != KILN_OK) return say(c, "%s", err.text);
  mapping_run(mapping_open(&artifact.code, artifact.info.symbol), w->args, c->grid,
              artifact.info.scratch_bytes);
  kiln_artifact_deinit(&artifact);
  return true;
}

static bool run_gpu(const way *how, ir_kernel *kernel, const kiln_target *target, world *w,
                    const offsets_case *c) {
  kiln_error err = {0};
  if (kiln_lower(kernel, target, &err) != KILN_OK) return say(c, "%s", err.text);
  sim_run(kernel, target, w->args, c->grid, &(sim_options){.wide = how->level == 1});
  return true;
}

static unsigned run_way(const way *how, world *w, unsigned quick) {
  unsigned long long first = 1, last = getenv("KILN_TEST_FULL") ? 2000 : quick;
  const char *text = getenv("KILN_SEEDS");
  unsigned wrong = 0;
  const kiln_target target = target_of(how->target);
  if (text && sscanf(text, "%llu..%llu", &first, &last) == 1) last = first;
  stage_now = how->name;
  for (seed_now = first; seed_now <= last && wrong < 5; seed_now++) {
    kiln_arena *arena = kiln_arena_create();
    offsets_case c;
    offsets_make(seed_now, &c);
    ir_kernel *kernel = lowered(&c, arena, &target);
    fill_world(w, &c);
    wrong += !kernel || !how->run(how, kernel, &target, w, &c) || !compare_world(w, &c);
    offsets_drop(&c);
    kiln_arena_destroy(arena);
  }
  return wrong;
}

static void agree(const way *how, unsigned quick) {
  world w;
  if (how->run == run_host && !mapping_can_run(how->target))
    SKIP("this machine does not run %s", how->target);
  open_world(&w);
  signal(SIGSEGV, on_fault), signal(SIGBUS, on_fault);
  const unsigned wrong = run_way(how, &w, quick);
  munmap(w.x, 2 * REACH), munmap(w.y, 2 * REACH);
  if (wrong) FAIL("%s: %u kernels or more do something else", how->name, wrong);
}

TEST(offsets, the_interpreter_wraps) { agree(&(way){"interpreter", "sm_80", interpret, 0}, 200); }
TEST(offsets, passes_keep_what_wraps) { agree(&(way){"passes", "sm_80", interpret, 1}, 200); }
TEST(offsets, host_code_wraps) { agree(&(way){"x86-64-v3 -O3", "x86-64-v3", run_host, 3}, 120); }
TEST(offsets, unoptimised_host_code_wraps) { agree(&(way){"x86-64-v2 -O0", "x86-64-v2", run_host, 0}, 60); }
TEST(offsets, wide_host_code_wraps) { agree(&(way){"x86-64-v4 -O2", "x86-64-v4", run_host, 2}, 60); }
TEST(offsets, gpu_code_wraps) { agree(&(way){"gpu", "sm_80", run_gpu, 0}, 60); }
TEST(offsets, gpu_code_of_wide_warps_wraps) { agree(&(way){"gpu, 64 lanes", "sm_80", run_gpu, 1}, 40); }
