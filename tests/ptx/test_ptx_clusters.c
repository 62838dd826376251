// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Clusters, registers that move between warpgroups, named barriers of warpgroups, dependent launches: good
// texts written by hand, and faults planted into them.
#include "tests/ptx/planted.h"

enum { RING = 4, RING_BLOCKS = 8, RING_THREADS = 128, CREW_BLOCKS = 3, CREW_TURNS = 3, DEPENDENT = 64 };

// ------------------------------------------------------------------------------------------------ the good
// ones

static bool run_ring(const char *text, uint64_t seed, ptx_report *report, kiln_error *err) {
  static uint32_t out[RING_BLOCKS * RING_THREADS], in[RING_THREADS];
  for (uint32_t i = 0; i < RING_THREADS; i++) in[i] = i * i + 1;
  memset(out, 0, sizeof out);
  ptx_case c = {.name = "ring.ptx",
                .text = text,
                .grid = RING_BLOCKS,
                .block = RING_THREADS,
                .buffers = {{out, sizeof out}, {in, sizeof in}},
                .buffer_count = 2};
  if (!case_run(&c, seed, report, err)) return false;
  for (uint32_t i = 0; i < RING_BLOCKS * RING_THREADS && !report->count; i++) {
    uint32_t block = i / RING_THREADS, t = i % RING_THREADS, first = block / RING * RING,
             before = first + (block - first + RING - 1) % RING;
    uint32_t inbox = before * 1000 + t, next_inbox = block * 1000 + t, mail = before * 1000 + t + 7;
    if (out[i] != inbox + in[t % 64] + in[64 + t % 64] + mail + before + next_inbox) return false;
  }
  return true;
}

static bool run_crew(const char *text, uint64_t seed, ptx_report *report, kiln_error *err) {
  static uint32_t out[CREW_BLOCKS * 128];
  memset(out, 0, sizeof out);
  ptx_case c = {.name = "crew.ptx",
                .text = text,
                .grid = CREW_BLOCKS,
                .block = 256,
                .buffers = {{out, sizeof out}},
                .buffer_count = 1};
  if (!case_run(&c, seed, report, err)) return false;
  for (uint32_t i = 0; i < CREW_BLOCKS * 128 && !report->count; i++) {
    uint32_t want = 0;
    for (uint32_t turn = 0; turn < CREW_TURNS; turn++) want += turn * 1000 + ((i % 128) ^ 16) + i / 128;
    if (out[i] != want) return false;
  }
  return true;
}

// `before` reads x and writes y; `after` depends on it, reads y and w, and writes x.
static bool run_pair(const char *text, uint64_t seed, bool is_dependent, ptx_report *report,
                     kiln_error *err) {
  uint32_t x[DEPENDENT], w[DEPENDENT];
  uint64_t arguments[3];
  ptx_memory *memory = ptx_memory_create();
  ptx_module *module = NULL;
  if (ptx_module_create(memory, "dependent.ptx", text, strlen(text), &module, err) != KILN_OK)
    return ptx_memory_destroy(memory), false;
  for (uint32_t i = 0; i < DEPENDENT; i++) x[i] = 3 * i, w[i] = i + 2;
  for (uint32_t k = 0; k < 3; k++) arguments[k] = ptx_memory_alloc(memory, sizeof x, k != 1);
  memcpy(ptx_memory_bytes(memory, arguments[0], sizeof x, true), x, sizeof x);
  memcpy(ptx_memory_bytes(memory, arguments[2], sizeof w, true), w, sizeof w);
  bool is_right = true;
  for (uint32_t kernel = 0; kernel < 2 && is_right; kernel++) {
    ptx_launch launch = {.grid = {1, 1, 1},
                         .block = {DEPENDENT, 1, 1},
                         .parameters = arguments,
                         .parameter_size = sizeof arguments,
                         .seed = seed + kernel,
                         .max_steps = CASE_STEPS,
                         .is_dependent = kernel && is_dependent};
    kiln_status status = ptx_module_run(module, kernel, &launch, report, err);
    CHECK(status == KILN_OK || status == KILN_STATUS_ASSERT);
    is_right = status == KILN_OK;
  }
  const uint8_t *got = ptx_memory_bytes(memory, arguments[0], sizeof x, false);
  for (uint32_t i = 0; i < DEPENDENT && is_right; i++) {
    uint32_t want = (3 * i + 5) * (i + 2);
    is_right = !memcmp(got + 4 * (size_t)i, &want, 4);
  }
  ptx_module_destroy(module);
  ptx_memory_destroy(memory);
  return is_right || report->count;
}

static bool run_dependent(const char *text, uint64_t seed, ptx_report *report, kiln_error *err) {
  return run_pair(text, seed, true, report, err);
}

TEST(ptx_clusters, good_ring) { run_good("ring", run_ring, GOOD_SEEDS); }
TEST(ptx_clusters, good_crew) { run_good("crew", run_crew, GOOD_SEEDS); }
TEST(ptx_clusters, good_dependent) { run_good("dependent", run_dependent, GOOD_SEEDS); }

// ---------------------------------------------------------------------------------------------- planted
// faults

#define IN_RING "ring", run_ring
#define IN_CREW "crew", run_crew
#define IN_DEPENDENT "dependent", run_dependent
#define MEET "barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;"
#define START "barrier.cluster.arrive.relaxed.aligned;\n\tbarrier.cluster.wait.acquire.aligned;"
static const fault faults[] = {
    // the barrier of the cluster
    {IN_RING, START, 1, "", AS(RACE)},
    {IN_RING, MEET, 1, "", AS(RACE) | AS(UNDEFINED)},
    {IN_RING, MEET, 2, "", AS(OUTSIDE)},
    {IN_RING, MEET, 1, "bar.sync 0;", AS(RACE) | AS(UNDEFINED)},
    {IN_RING, MEET, 2, "bar.sync 0;", AS(OUTSIDE)},
    {IN_RING, "barrier.cluster.arrive.aligned;", 1, "barrier.cluster.arrive.relaxed.aligned;",
     AS(RACE) | AS(UNDEFINED)},
    {IN_RING, "barrier.cluster.wait.aligned;", 1, "", AS(BARRIER) | AS(RACE) | AS(UNDEFINED)},
    {IN_RING, "barrier.cluster.arrive.aligned;", 0, "", AS(BARRIER)},
    {IN_RING, "barrier.cluster.wait.acquire.aligned;", 1, "", AS(RACE) | AS(BARRIER)},
    {IN_RING, "barrier.cluster.arrive.aligned;", 1, "@%p3 bra $opened;", AS(DEADLOCK) | AS(BARRIER)},
    {IN_RING, "barrier.cluster.arrive.aligned;", 1, "@!%p1 barrier.cluster.arrive;", AS(BARRIER)},
    {IN_RING, "fence.mbarrier_init.release.cluster;", 1, "", AS(RACE)},
    {IN_RING, "fence.mbarrier_init.release.cluster;", 1, "fence.proxy.async;", AS(RACE)},
    // addresses of other blocks
    {IN_RING, "and.b32 %r9, %r9, 3;", 1, "", AS(OUTSIDE)},
    {IN_RING, "and.b32 %r9, %r9, 3;", 1, "and.b32 %r9, %r9, 1;", AS(RACE) | AS(BARRIER)},
    {IN_RING, "st.shared::cluster.b32 [%r13]", 1, "st.shared.b32 [%r13]", AS(OUTSIDE)},
    {IN_RING, "st.shared::cluster.b32 [%r13]", 1, "st.shared::cluster.b32 [%r12]", WRONG},
    {IN_RING, "st.shared::cluster.b32 [%r13]", 1, "st.shared::cluster.b32 [%r13+4]", AS(OUTSIDE)},
    {IN_RING, "mapa.u64 %rd4, %rd3", 1, "mapa.u64 %rd4, %rd5", AS(OUTSIDE) | AS(UNDEFINED)},
    {IN_RING, "ld.b32 %r32, [%rd4];", 1, "ld.b32 %r32, [%rd4+2];", AS(MISALIGNED)},
    // arrivals at barriers of other blocks
    {IN_RING, "[%r4+8], 4;", 1, "[%r4+8], 5;", AS(DEADLOCK)},
    {IN_RING, "[%r4+8], 4;", 1, "[%r4+8], 3;", AS(RACE) | AS(BARRIER)},
    {IN_RING, "_, [%r20];", 1, "_, [%r20], 2;", AS(RACE) | AS(BARRIER) | AS(DEADLOCK)},
    {IN_RING, "mbarrier.arrive.shared::cluster.b64 _, [%r20];", 1, "", AS(DEADLOCK)},
    {IN_RING, "mbarrier.arrive.shared::cluster.b64 _, [%r20];", 1,
     "mbarrier.arrive.shared::cta.b64 _, [%r20];", AS(OUTSIDE)},
    {IN_RING, "mbarrier.arrive.shared::cluster.b64 _, [%r20];", 1,
     "mbarrier.arrive.shared::cluster.b64 _, [%r19];", AS(DEADLOCK)},
    {IN_RING, "ld.shared.b32 %r17, [%r16];\n\tbar.sync 0;", 1, "ld.shared.b32 %r17, [%r16];",
     AS(RACE) | AS(BARRIER)},
    {IN_RING, "mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r4+8], 0;", 1, "setp.eq.s32 %p5, %r2, %r2;",
     AS(RACE)},
    {IN_RING, "mbarrier.arrive.release.cluster", 1, "mbarrier.arrive.release.cta", AS(RACE)},
    {IN_RING, "mbarrier.arrive.release.cluster", 1, "mbarrier.arrive", AS(RACE)},
    {IN_RING, "parity.acquire.cluster.shared::cta.b64 %p5, [%r4+24]", 1,
     "parity.shared::cta.b64 %p5, [%r4+24]", AS(RACE)},
    {IN_RING, "shared::cta.b64 %p5, [%r4+24]", 1, "shared::cluster.b64 %p5, [%r29]",
     AS(OUTSIDE) | AS(UNDEFINED)},
    // copies to several blocks
    {IN_RING, "mov.u16 %h1, 15;", 1, "mov.u16 %h1, 7;", AS(DEADLOCK)},
    {IN_RING, "mov.u16 %h1, 15;", 1, "mov.u16 %h1, 31;", AS(OUTSIDE)},
    {IN_RING, "// here a block may leave", 1, "@%p3 ret;", AS(OUTSIDE)},
    {IN_RING, "[%r4], 256;", 0, "[%r4], 240;", AS(DEADLOCK) | AS(BARRIER)},
    {IN_RING, "[%rd2], 256, [%r4]", 1, "[%rd2], 248, [%r4]", AS(MISALIGNED)},
    {IN_RING, "[%rd2], 256, [%r4]", 1, "[%rd2+8], 256, [%r4]", AS(MISALIGNED)},
    {IN_RING, "[%rd2+256], 256, [%r4]", 1, "[%rd2+272], 256, [%r4]", AS(OUTSIDE)},
    {IN_RING, "[%rd2+256], 256, [%r4]", 1, "[%rd2+256], 256, [%r4+4]", AS(MISALIGNED)},
    {IN_RING, "@!%p5 bra $wait1;", 1, "", AS(RACE) | AS(UNDEFINED)},
    {IN_RING, "@!%p5 bra $wait3;", 1, "", AS(RACE) | AS(UNDEFINED)},
    // st.async
    {IN_RING, "@!%p5 bra $wait4;", 1, "", AS(RACE) | AS(UNDEFINED)},
    {IN_RING, "[%r23], %r26, [%r25];", 1, "[%r23], %r26, [%r24];", AS(OUTSIDE)},
    {IN_RING, "[%r23], %r26, [%r25];", 1, "[%r22], %r26, [%r24];", WRONG},
    {IN_RING, "[%r4+16], 512;", 1, "[%r4+16], 508;", AS(DEADLOCK) | AS(BARRIER) | AS(RACE)},
    {IN_RING, "add.s32 %r26, %r11, 7;", 1, "", AS(UNDEFINED)},
    // registers
    {IN_CREW, "u32 40;", 1, "u32 44;", AS(BARRIER)},
    {IN_CREW, "u32 40;", 1, "u32 16;", AS(BARRIER)},
    {IN_CREW, "u32 40;", 1, "u32 136;", AS(BARRIER)},
    {IN_CREW, "u32 40;", 1, "u32 48;", AS(DEADLOCK)},
    {IN_CREW, "u32 216;", 1, "u32 224;", AS(DEADLOCK)},
    {IN_CREW, "u32 216;", 1, "u32 264;", AS(BARRIER)},
    {IN_CREW, "u32 216;", 1, "u32 120;", AS(BARRIER)},
    {IN_CREW, "setmaxnreg.dec.sync.aligned.u32 40;", 1, "", AS(DEADLOCK)},
    {IN_CREW, "setmaxnreg.dec", 1, "setmaxnreg.inc", AS(BARRIER)},
    {IN_CREW, "setmaxnreg.dec", 1, "@!%p2 setmaxnreg.dec", AS(DEADLOCK) | AS(BARRIER)},
    {IN_CREW, "setmaxnreg.inc", 1, "@%p2 setmaxnreg.inc", AS(BARRIER)},
    {IN_CREW, "setmaxnreg.dec.sync.aligned.u32 40;", 1,
     "setmaxnreg.dec.sync.aligned.u32 40; setmaxnreg.dec.sync.aligned.u32 32;", AS(BARRIER)},
    {IN_CREW, ".maxnreg 128", 1, ".maxnreg 120", AS(DEADLOCK)},
    {IN_CREW, ".reqntid 256\n.maxnreg 128", 1, "", AS(BARRIER)},
    // named barriers of warpgroups
    {IN_CREW, "bar.arrive 1, 256;", 1, "", AS(DEADLOCK)},
    {IN_CREW, "bar.arrive 2, 256;", 1, "", AS(DEADLOCK)},
    {IN_CREW, "bar.arrive 1, 256;", 1, "bar.arrive 3, 256;", AS(DEADLOCK) | AS(BARRIER)},
    {IN_CREW, "bar.sync 2, 256;", 1, "bar.arrive 2, 256;", AS(RACE) | AS(BARRIER) | AS(DEADLOCK)},
    {IN_CREW, "bar.sync 1, 256;", 1, "bar.sync 1, 128;", AS(BARRIER) | AS(RACE) | AS(UNDEFINED)},
    {IN_CREW, "bar.arrive 2, 256;", 1, "@%p2 bar.arrive 2, 256;", AS(DEADLOCK)},
    {IN_CREW, "bar.sync 2, 256;", 1, "", AS(RACE) | AS(BARRIER) | AS(DEADLOCK)},
    // dependent launches
    {IN_DEPENDENT, "@%p1 griddepcontrol.wait;", 1, "", AS(RACE)},
    {IN_DEPENDENT, "@%p1 griddepcontrol.wait;", 1, "@%p1 griddepcontrol.launch_dependents;", AS(RACE)},
    {IN_DEPENDENT, "bar.sync 0;", 1, "", AS(RACE)},
    {IN_DEPENDENT, "@%p1 griddepcontrol.wait;\n\tbar.sync 0;\n\tld.global.b32 %r2, [%rd5];", 1,
     "ld.global.b32 %r2, [%rd5]; griddepcontrol.wait;", AS(RACE)},
    {IN_DEPENDENT, "@%p1 griddepcontrol.wait;\n\tbar.sync 0;\n\tld.global.b32 %r2, [%rd5];", 1,
     "mov.u32 %r2, %r1;", AS(RACE)},
};

TEST(ptx_clusters, planted_faults_are_found) { CHECK(plant(faults, sizeof faults / sizeof *faults) >= 70); }
