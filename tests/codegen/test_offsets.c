// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs random kernels with offsets that wrap around (offset_kernels.h): the interpreter, host code of each
// width and level, the simulated GPU, PTX in its interpreter and, where KILN_OFFSETS_HIP names the first HIP
// device's processor (emulated.sh), AMD code do what C says, and touch nothing else.
//
// KILN_SEEDS=first..last picks seeds; KILN_TEST_FULL takes 2,000. A failing seed is printed with its kernel.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/canary.h"
#include "compiler/front.h"
#include "compiler/interpreter/interpreter.h"
#include "compiler/passes/stages.h"
#include "tests/codegen/gpu_sim.inc"
#include "tests/codegen/hip_mapping.h"
#include "tests/codegen/host_mapping.h"
#include "tests/codegen/offset_kernels.inc"
#include "tools/ptx/ptx.h"

/// Two offsets of 32 bits one after another stay inside, and a view's.
static const size_t REACH = (size_t)5 << 30;
enum { PAGE = 4096, RESULTS_SIZE = 1 << 20, AROUND_RESULTS = 4096, WORLD_AT = 0x2000 };

/// Memory of a file, which has pages only where something was read or written.
typedef struct space {
  int8_t *bytes;
  size_t size;
  int file;
} space;

typedef struct world {
  space in, out, results;
  int8_t *x, *y; ///< middle of `in` and `out`
  int32_t *o;    ///< in `results`
  kiln_canary around;
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

/// At a place that the emulator's process has free, too.
static space reserve(size_t size, unsigned number) {
  void *wanted = (void *)(((uintptr_t)WORLD_AT << 32) + ((uintptr_t)number << 36));
  space s = {.size = size, .file = memfd_create("offsets", MFD_CLOEXEC)};
  if (s.file < 0 || ftruncate(s.file, (off_t)size)) SKIP("no file of %zu bytes in memory", size);
  s.bytes = mmap(wanted, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, s.file, 0);
  if ((void *)s.bytes == MAP_FAILED) SKIP("no address space of %zu bytes", size);
  madvise(s.bytes, size, MADV_NOHUGEPAGE); // a page is what was touched
  return s;
}

static void empty(const space *s) {
  if (ftruncate(s->file, 0) || ftruncate(s->file, (off_t)s->size)) FAIL("cannot empty a file");
}

static void close_space(space *s) {
  munmap(s->bytes, s->size);
  close(s->file);
}

static void open_world(world *w) {
  w->in = reserve(2 * REACH, 0), w->out = reserve(2 * REACH, 1), w->results = reserve(RESULTS_SIZE, 2);
  w->x = w->in.bytes + REACH, w->y = w->out.bytes + REACH;
  w->o = (int32_t *)(void *)(w->results.bytes + AROUND_RESULTS);
}

static void close_world(world *w) { close_space(&w->in), close_space(&w->out), close_space(&w->results); }

/// The pattern, in each page that has one of `offsets`.
static void surround(int8_t *middle, const int64_t *offsets, size_t count) {
  for (size_t i = 0; i < count; i++)
    memset((void *)((uintptr_t)(middle + offsets[i]) / PAGE * PAGE), OFFSETS_AROUND, PAGE);
}

/// Memory as it is before a launch.
static void fill_world(world *w, const offsets_case *c) {
  empty(&w->in), empty(&w->out);
  surround(w->x, c->reads, c->read_count);
  surround(w->y, c->writes, c->write_count);
  for (size_t i = 0; i < c->read_count; i++) w->x[c->reads[i]] = offsets_byte(c->reads[i]);
  w->around = (kiln_canary){.element = sizeof *w->o,
                            .rows = 1,
                            .columns = c->results,
                            .pitch = c->results,
                            .before = AROUND_RESULTS,
                            .after = AROUND_RESULTS};
  CHECK(kiln_canary_bytes(&w->around) <= RESULTS_SIZE);
  kiln_canary_write(&w->around, NULL, (uint8_t *)w->results.bytes);
  memset(w->o, 0, c->results * sizeof *w->o);
  const void *pointers[3] = {w->x, w->y, w->o};
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

/// Whether `offsets` have their bytes, and nothing else of the file was touched: where it has pages, the
/// pattern stands.
static bool holds(const offsets_case *c, const char *name, const space *s, const int64_t *offsets,
                  size_t count) {
  int8_t *middle = s->bytes + REACH;
  for (size_t i = 0; i < count; i++)
    if (middle[offsets[i]] != offsets_byte(offsets[i]))
      return say(c, "%s[%lld] is %d, expected %d", name, (long long)offsets[i], middle[offsets[i]],
                 offsets_byte(offsets[i]));
  for (size_t i = 0; i < count; i++) middle[offsets[i]] = OFFSETS_AROUND;
  for (off_t end = 0, at; (at = lseek(s->file, end, SEEK_DATA)) >= 0;) {
    end = lseek(s->file, at, SEEK_HOLE);
    for (; at < end; at++)
      if (s->bytes[at] != OFFSETS_AROUND)
        return say(c, "%s[%lld] was touched and is %d", name, (long long)at - (long long)REACH, s->bytes[at]);
  }
  return true;
}

static bool compare_world(world *w, const offsets_case *c) {
  char text[300];
  for (size_t i = 0; i < c->results; i++)
    if (w->o[i] != c->expected[i]) return say(c, "o[%zu] is %d, expected %d", i, w->o[i], c->expected[i]);
  if (!kiln_canary_holds(&w->around, "o", (uint8_t *)w->results.bytes, text, sizeof text))
    return say(c, "%s", text);
  return holds(c, "x", &w->in, c->reads, c->read_count) && holds(c, "y", &w->out, c->writes, c->write_count);
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
      {w->in.bytes, 2 * REACH}, {w->out.bytes, 2 * REACH}, {w->o, c->results * sizeof *w->o}};
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

static bool run_hip(const way *how, ir_kernel *kernel, const kiln_target *target, world *w,
                    const offsets_case *c) {
  kiln_codegen_options options;
  kiln_artifact artifact = {0};
  kiln_error err = {0};
  (void)how;
  kiln_codegen_options_init(&options);
  if (kiln_codegen(kernel, target, &options, &artifact, &err) != KILN_OK) return say(c, "%s", err.text);
  const size_t size = 3 * sizeof(void *) + sizeof c->params;
  const bool ran = hip_launch(hip_open(), &artifact, c->grid, w->args, size);
  kiln_artifact_deinit(&artifact);
  return ran || say(c, "the launch failed");
}

/// Where the interpreter of PTX has the middle of x and of y, and o.
typedef struct ptx_world {
  ptx_memory *memory;
  uint64_t x, y, o;
} ptx_world;

/// Only what a kernel should read is defined: what comes of anything else is a finding where it is stored.
static ptx_world ptx_world_of(const offsets_case *c) {
  ptx_world p = {.memory = ptx_memory_create()};
  CHECK(p.memory != NULL);
  p.x = ptx_memory_alloc(p.memory, 2 * REACH, false) + REACH;
  p.y = ptx_memory_alloc(p.memory, 2 * REACH, false) + REACH;
  p.o = ptx_memory_alloc(p.memory, c->results * sizeof(int32_t), false);
  if (p.x == REACH || p.y == REACH || !p.o) SKIP("no address space of %zu bytes", 4 * REACH);
  for (size_t i = 0; i < c->read_count; i++)
    *ptx_memory_bytes(p.memory, p.x + (uint64_t)c->reads[i], 1, true) = (uint8_t)offsets_byte(c->reads[i]);
  memset(ptx_memory_bytes(p.memory, p.o, c->results * sizeof(int32_t), true), 0,
         c->results * sizeof(int32_t));
  return p;
}

static void take_results(const ptx_world *p, world *w, const offsets_case *c) {
  memcpy(w->o, ptx_memory_bytes(p->memory, p->o, c->results * sizeof *w->o, false),
         c->results * sizeof *w->o);
  for (size_t i = 0; i < c->write_count; i++)
    w->y[c->writes[i]] = (int8_t)*ptx_memory_bytes(p->memory, p->y + (uint64_t)c->writes[i], 1, false);
}

static bool run_ptx(const way *how, ir_kernel *kernel, const kiln_target *target, world *w,
                    const offsets_case *c) {
  static ptx_report report;
  kiln_codegen_options options;
  kiln_artifact artifact = {0};
  kiln_error err = {0};
  ptx_module *module = NULL;
  kiln_codegen_options_init(&options);
  options.assembler = KILN_ASSEMBLER_NONE;
  if (kiln_codegen(kernel, target, &options, &artifact, &err) != KILN_OK) return say(c, "%s", err.text);
  ptx_world p = ptx_world_of(c);
  const uint64_t pointers[] = {p.x, p.y, p.o};
  uint8_t args[sizeof w->args];
  memcpy(args, w->args, sizeof args);
  memcpy(args, pointers, sizeof pointers);
  const ptx_launch launch = {.grid = {c->grid[0], 1, 1},
                             .block = {artifact.info.block_threads, 1, 1},
                             .dynamic_shared = artifact.info.dynamic_shared,
                             .parameters = args,
                             .parameter_size = sizeof pointers + sizeof c->params,
                             .seed = seed_now};
  kiln_status status =
      ptx_module_create(p.memory, how->name, (const char *)artifact.code.bytes,
                        strnlen((const char *)artifact.code.bytes, artifact.code.size), &module, &err);
  if (status == KILN_OK) status = ptx_module_run(module, 0, &launch, &report, &err);
  take_results(&p, w, c);
  ptx_module_destroy(module);
  ptx_memory_destroy(p.memory);
  kiln_artifact_deinit(&artifact);
  return status == KILN_OK || say(c, "%s", err.text);
}

/// Tells the emulator's process (hip_device.py) what memory this one shares with it.
static void share_world(const world *w) {
  const space *all[] = {&w->in, &w->out, &w->results};
  char text[300];
  int at = 0;
  for (unsigned i = 0; i < 3; i++)
    at += snprintf(text + at, sizeof text - (size_t)at, "%s/proc/%d/fd/%d@%p", i ? "," : "", (int)getpid(),
                   all[i]->file, (void *)all[i]->bytes);
  setenv("KILN_EMULATED_SHARED", text, 1);
}

static unsigned run_way(const way *how, world *w, unsigned quick) {
  const kiln_test_range seeds = kiln_test_seeds(1, kiln_test_full() ? 2000 : quick);
  unsigned wrong = 0;
  const kiln_target target = target_of(how->target);
  stage_now = how->name;
  for (seed_now = seeds.first; seed_now <= seeds.last && wrong < 5; seed_now++) {
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
  share_world(&w);
  if (how->run == run_hip && !hip_open()) FAIL("KILN_OFFSETS_HIP is set, but there is no HIP device");
  signal(SIGSEGV, on_fault), signal(SIGBUS, on_fault);
  const unsigned wrong = run_way(how, &w, quick);
  close_world(&w);
  if (wrong) FAIL("%s: %u kernels or more do something else", how->name, wrong);
}

TEST(offsets, the_interpreter_wraps) { agree(&(way){"interpreter", "sm_80", interpret, 0}, 200); }
TEST(offsets, passes_keep_what_wraps) { agree(&(way){"passes", "sm_80", interpret, 1}, 200); }
TEST(offsets, host_code_wraps) { agree(&(way){"x86-64-v3 -O3", "x86-64-v3", run_host, 3}, 120); }
TEST(offsets, unoptimised_host_code_wraps) { agree(&(way){"x86-64-v2 -O0", "x86-64-v2", run_host, 0}, 60); }
TEST(offsets, wide_host_code_wraps) { agree(&(way){"x86-64-v4 -O2", "x86-64-v4", run_host, 2}, 60); }
TEST(offsets, gpu_code_wraps) { agree(&(way){"gpu", "sm_80", run_gpu, 0}, 60); }
TEST(offsets, gpu_code_of_wide_warps_wraps) { agree(&(way){"gpu, 64 lanes", "sm_80", run_gpu, 1}, 40); }
TEST(offsets, ptx_wraps) { agree(&(way){"ptx", "sm_80", run_ptx, 0}, 8); }
TEST(offsets, ptx_of_sm_90a_wraps) { agree(&(way){"ptx of sm_90a", "sm_90a", run_ptx, 0}, 8); }

TEST(offsets, amd_code_wraps) {
  const char *target = getenv("KILN_OFFSETS_HIP");
  if (!target) SKIP("KILN_OFFSETS_HIP names no processor");
  agree(&(way){"AMD code", target, run_hip, 0}, 20);
}

/// What reads or writes a byte elsewhere, whatever it writes, is seen.
TEST(offsets, surroundings_are_compared) {
  enum { READ_X, WRITE_X, WRITE_Y, BESIDE_Y, BEFORE_O, AFTER_O, PLACES };
  const kiln_target target = target_of("sm_80");
  const way how = {"interpreter", "sm_80", interpret, 0};
  const int64_t far = -((int64_t)REACH - 3 * PAGE);
  kiln_arena *arena = kiln_arena_create();
  offsets_case c;
  world w;
  open_world(&w);
  stage_now = how.name;
  for (seed_now = 1; offsets_make(seed_now, &c), !c.write_count; seed_now++) offsets_drop(&c);
  for (int place = -1; place < PLACES; place++) {
    fill_world(&w, &c);
    CHECK(interpret(&how, lowered(&c, arena, &target), &target, &w, &c));
    volatile int8_t read = place == READ_X ? w.x[far] : 0;
    (void)read;
    if (place == WRITE_X) w.x[far] = 0;
    if (place == WRITE_Y) w.y[far] = 0;
    if (place == BESIDE_Y) w.y[(c.writes[0] & -PAGE) + (c.writes[0] % PAGE ? 0 : 1)] = 0;
    if (place == BEFORE_O) w.o[-1] = 0;
    if (place == AFTER_O) w.o[c.results] = 0;
    CHECK(compare_world(&w, &c) == (place < 0));
  }
  offsets_drop(&c);
  close_world(&w);
  kiln_arena_destroy(arena);
}
