// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plants faults into good PTX: each is found within a few schedules, while the good texts run under many
// without a finding and give right results.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/ptx/planted.h"

enum { COLUMNS = 300, ROWS = 40, DEPTH = 80, HANDOFF_BLOCKS = 5 };

// --------------------------------------------------------------------------------------------- the good ones

static bool run_rows(const char *text, uint64_t seed, ptx_report *report, kiln_error *err) {
  static float x[4 * COLUMNS], y[4 * COLUMNS];
  uint64_t random = 77;
  for (int i = 0; i < 4 * COLUMNS; i++) {
    x[i] = (float)(kiln_test_random(&random) % 1000) / 100;
    y[i] = -1;
  }
  ptx_case c = {.name = "rows.ptx",
                .text = text,
                .grid = 4,
                .block = 128,
                .buffers = {{x, sizeof x}, {y, sizeof y}},
                .buffer_count = 2,
                .numbers = {COLUMNS},
                .number_count = 1};
  if (!case_run(&c, seed, report, err)) return false;
  for (int row = 0; row < 4 && !report->count; row++) {
    double most = -INFINITY, sum = 0;
    for (int i = 0; i < COLUMNS; i++) most = fmax(most, x[row * COLUMNS + i]);
    for (int i = 0; i < COLUMNS; i++) sum += exp(x[row * COLUMNS + i] - most);
    for (int i = 0; i < COLUMNS; i++) {
      double want = exp(x[row * COLUMNS + i] - most) / sum;
      if (!(fabs(y[row * COLUMNS + i] - want) <= 1e-5 * want)) return false;
    }
  }
  return true;
}

static bool run_product(const char *text, uint64_t seed, ptx_report *report, kiln_error *err) {
  static _Float16 a[ROWS * DEPTH], b[DEPTH * 32];
  static float c[ROWS * 32];
  uint64_t random = 78;
  for (int i = 0; i < ROWS * DEPTH; i++) a[i] = (_Float16)((int)(kiln_test_random(&random) % 17) - 8);
  for (int i = 0; i < DEPTH * 32; i++) b[i] = (_Float16)((int)(kiln_test_random(&random) % 17) - 8);
  for (int i = 0; i < ROWS * 32; i++) c[i] = 0.5f;
  ptx_case p = {.name = "product.ptx",
                .text = text,
                .grid = (ROWS + 31) / 32,
                .block = 64,
                .buffers = {{a, sizeof a}, {b, sizeof b}, {c, sizeof c}},
                .buffer_count = 3,
                .numbers = {ROWS, DEPTH},
                .number_count = 2};
  if (!case_run(&p, seed, report, err)) return false;
  for (int m = 0; m < ROWS && !report->count; m++)
    for (int n = 0; n < 32; n++) {
      float want = 0; // whole numbers: exact
      for (int k = 0; k < DEPTH; k++) want += (float)a[m * DEPTH + k] * (float)b[k * 32 + n];
      if (c[m * 32 + n] != want) return false;
    }
  return true;
}

static bool run_handoff(const char *text, uint64_t seed, ptx_report *report, kiln_error *err) {
  int32_t sums[2] = {-1, -1}, counter = 0;
  ptx_case c = {.name = "handoff.ptx",
                .text = text,
                .grid = HANDOFF_BLOCKS,
                .block = 128,
                .buffers = {{sums, sizeof sums}, {NULL, 8 * HANDOFF_BLOCKS}, {&counter, sizeof counter}},
                .buffer_count = 3};
  if (!case_run(&c, seed, report, err)) return false;
  for (int warp = 0; warp < 2 && !report->count; warp++) {
    int32_t want = 0;
    for (int block = 0; block < HANDOFF_BLOCKS; block++)
      for (int lane = 0; lane < 32; lane++)
        want += ((lane ^ 1) + 32 * warp) * 6 + (lane + 32 * warp) * 3 + 3 * block;
    if (sums[warp] != want) return false;
  }
  return true;
}

static bool run_phases(const char *text, uint64_t seed, ptx_report *report, kiln_error *err) {
  int32_t read[64] = {0};
  ptx_case c = {.name = "phases.ptx",
                .text = text,
                .grid = 1,
                .block = 96,
                .buffers = {{read, sizeof read}},
                .buffer_count = 1};
  if (!case_run(&c, seed, report, err)) return false;
  for (int thread = 0; thread < 64 && !report->count; thread++)
    if (read[thread] != thread % 32 / 4 * 10 + 3) return false;
  return true;
}

static bool run_carry(const char *text, uint64_t seed, ptx_report *report, kiln_error *err) {
  static _Float16 a[4096], b[4096];
  static float c[4096];
  for (int i = 0; i < 4096; i++) a[i] = (_Float16)(i % 7), b[i] = (_Float16)(i % 5), c[i] = 1;
  ptx_case p = {.name = "carry.ptx",
                .text = text,
                .grid = 1,
                .block = 128,
                .buffers = {{a, sizeof a}, {b, sizeof b}, {c, sizeof c}},
                .buffer_count = 3};
  return case_run(&p, seed, report, err);
}

static bool run_entries(const char *text, uint64_t seed, ptx_report *report, kiln_error *err) {
  uint32_t sum = 0;
  ptx_case c = {.name = "entries.ptx",
                .text = text,
                .grid = 2,
                .block = 64,
                .buffers = {{&sum, sizeof sum}},
                .buffer_count = 1};
  return case_run(&c, seed, report, err) && (report->count || sum == 2 * 32 * 3);
}

static bool run_tail(const char *text, uint64_t seed, ptx_report *report, kiln_error *err) {
  uint16_t x[7] = {0x1234, 0x5678, 0x9abc, 0xdef0, 0x0fed, 0xcba9, 0x8765};
  uint32_t y[9] = {0};
  const uint32_t low = 0x8765, first = 0x56781234, second = 0xdef09abc;
  const uint32_t want[9] = {first,       low,        0x12348765,   0x8765cba9, 0xffff8765,
                            low ^ first, 0x87650000, low ^ second, ~low};
  ptx_case c = {.name = "tail.ptx",
                .text = text,
                .grid = 1,
                .block = 1,
                .buffers = {{x, sizeof x}, {y, sizeof y}},
                .buffer_count = 2};
  return case_run(&c, seed, report, err) && (report->count || !memcmp(y, want, sizeof y));
}

// Products through tensor maps, on sm_90a: `columns` columns of C's rows of 128. One block takes both tiles,
// so that it uses its shared memory again.
static bool run_maps(const char *text, uint64_t seed, uint32_t columns, ptx_report *report, kiln_error *err) {
  enum { HEIGHT = 200, INNER = 136, PITCH = 128 };
  static uint16_t a[HEIGHT * INNER], b[PITCH * INNER], c[HEIGHT * PITCH];
  uint64_t random = 79, addresses[3];
  uint8_t parameters[512] = {0};
  for (int i = 0; i < HEIGHT * INNER; i++)
    a[i] = (uint16_t)(0x3f80 + 0x40 * (kiln_test_random(&random) % 3)); // 1, 1.5, 2
  for (int i = 0; i < PITCH * INNER; i++) b[i] = kiln_test_random(&random) % 2 ? 0x3f80 : 0xbf80;
  for (int i = 0; i < HEIGHT * PITCH; i++) c[i] = 0x40e0;
  const void *bytes[3] = {a, b, c};
  const size_t sizes[3] = {sizeof a, columns * INNER * sizeof *b, sizeof c};
  ptx_memory *memory = ptx_memory_create();
  ptx_module *module = NULL;
  if (ptx_module_create(memory, "rows_90.ptx", text, strlen(text), &module, err) != KILN_OK)
    return ptx_memory_destroy(memory), false;
  int32_t numbers[] = {
      HEIGHT, (int32_t)columns, INNER, INNER, INNER, PITCH, (int32_t)((HEIGHT + 127) / 128), 1, 1};
  static const uint32_t boxes[3][2] = {{64, 128}, {64, 128}, {64, 64}};
  for (uint32_t k = 0; k < 15; k++) {
    uint32_t offset, size;
    CHECK(ptx_module_parameter(module, 0, k, &offset, &size));
    if (k < 3) {
      addresses[k] = ptx_memory_alloc(memory, sizes[k], true);
      memcpy(ptx_memory_bytes(memory, addresses[k], sizes[k], true), bytes[k], sizes[k]);
      memcpy(parameters + offset, &addresses[k], 8);
    } else if (k < 12) {
      memcpy(parameters + offset, &numbers[k - 3], 4);
    } else {
      uint32_t m = k - 12;
      const uint64_t extents[2] = {m == 2 ? columns : INNER, m == 1 ? columns : HEIGHT},
                     pitch = m == 2 ? PITCH * 2 : INNER * 2;
      CHECK_INT(size, PTX_MAP_BYTES);
      CHECK(ptx_tensor_encode(parameters + offset, 2, PTX_ELEMENT_BF16, 2, addresses[m], extents, &pitch,
                              boxes[m], 128, false));
    }
  }
  ptx_launch launch = {.grid = {1, 1, 1},
                       .block = {384, 1, 1},
                       .dynamic_shared = 163840 + 64,
                       .parameters = parameters,
                       .parameter_size = sizeof parameters,
                       .seed = seed,
                       .max_steps = CASE_STEPS};
  kiln_status status = ptx_module_run(module, 0, &launch, report, err);
  CHECK(status == KILN_OK || status == KILN_STATUS_ASSERT);
  const uint8_t *got = ptx_memory_bytes(memory, addresses[2], sizeof c, false);
  bool is_right = true;
  for (int m = 0; m < HEIGHT && !report->count; m++)
    for (int n = 0; n < PITCH; n++) {
      float want = 0, had;
      uint32_t bits = 0;
      for (int k = 0; k < INNER; k++)
        want += (1 + (float)(a[m * INNER + k] - 0x3f80) / 128) * (b[n * INNER + k] & 0x8000 ? -1.0f : 1.0f);
      memcpy((uint8_t *)&bits + 2, got + 2 * (m * PITCH + n), 2);
      memcpy(&had, &bits, 4);
      if (n >= (int)columns ? had != 7 : !(fabsf(had - want) <= 0.005f * fabsf(want))) is_right = false;
    }
  ptx_module_destroy(module);
  ptx_memory_destroy(memory);
  return is_right;
}

static bool run_rows_90(const char *text, uint64_t seed, ptx_report *report, kiln_error *err) {
  return run_maps(text, seed, 104, report, err);
}
static bool run_partial_rows(const char *text, uint64_t seed, ptx_report *report, kiln_error *err) {
  return run_maps(text, seed, 100, report, err);
}

TEST(ptx_faults, good_rows) { run_good("rows", run_rows, GOOD_SEEDS); }
TEST(ptx_faults, good_product) { run_good("product", run_product, GOOD_SEEDS); }
TEST(ptx_faults, good_rows_90) { run_good("rows_90", run_rows_90, 3); }
TEST(ptx_faults, good_handoff) { run_good("handoff", run_handoff, GOOD_SEEDS); }

TEST(ptx_faults, good_entries) { run_good("entries", run_entries, GOOD_SEEDS); }
/// The last label stands before no instruction, and is branched to.
TEST(ptx_faults, a_kernel_that_ends_at_a_label) {
  char *text = read_fixture("entries"), *ret = strstr(text, "ret;");
  ptx_report report;
  kiln_error err = {0};
  CHECK(ret != NULL);
  memset(ret, ' ', 4);
  for (uint64_t seed = 1; seed <= FAULT_SEEDS; seed++)
    CHECK(run_entries(text, seed, &report, &err) && !report.count);
  free(text);
}

TEST(ptx_faults, good_tail) { run_good("tail", run_tail, GOOD_SEEDS); }

TEST(ptx_faults, good_phases) { run_good("phases", run_phases, GOOD_SEEDS); }

// ------------------------------------------------------------------------------------------- planted faults

#define IN_ROWS "rows", run_rows
#define IN_PRODUCT "product", run_product
#define IN_HANDOFF "handoff", run_handoff
#define IN_PHASES "phases", run_phases
#define IN_ENTRIES "entries", run_entries
#define IN_ROWS_90 "rows_90", run_rows_90
#define IN_TAIL "tail", run_tail
static const fault faults[] = {
    // lanes of a warp part where nothing brings them together again
    {IN_ENTRIES, "bra.uni $HEAD;", 0, "@%p1 bra $ADD;\n\tbra.uni $MEET;", AS(BARRIER)},
    {IN_ENTRIES, "bra.uni $HEAD;", 0,
     "shr.u32 %r6, %r2, 4;\n\tts: .branchtargets $ADD, $MEET;\n\tbrx.idx %r6, ts;", AS(BARRIER)},
    // of a vector that ends outside of its buffer
    {IN_TAIL, "mov.b32 %r14, 65535;", 1, "mov.b32 %r14, 131071;", AS(UNDEFINED)},
    {IN_TAIL, "0x5410", 1, "0x5420", AS(UNDEFINED)},
    {IN_TAIL, "%r3, %r4, 16;", 1, "%r3, %r4, 24;", AS(UNDEFINED)},
    {IN_TAIL, "0xffff0000", 1, "0xfffe0000", AS(UNDEFINED)},
    {IN_TAIL, "0x6a", 1, "0x96", AS(UNDEFINED)},
    {IN_TAIL, "shl.b32 %r10, %r4, 16;", 1, "shl.b32 %r10, %r4, 8;", AS(UNDEFINED)},
    {IN_TAIL, "xor.b32 %r11, %r5, %r2;", 1, "xor.b32 %r11, %r4, %r4;", AS(UNDEFINED)},
    {IN_TAIL, "not.b32 %r12, %r5;", 1, "not.b32 %r12, %r4;", AS(UNDEFINED)},
    {IN_TAIL, "%r4}, [%rd2];", 1, "%r4}, [%rd2+16];", AS(OUTSIDE)},
    {IN_TAIL, "mov.b32 %r15, 3;", 1, "ld.global.b32 %r15, [%rd2+12];", AS(OUTSIDE)},
    {IN_TAIL, "mov.b32 %r15, 3;", 1, "st.global.v4.b32 [%rd2], {%r1, %r2, %r3, %r1};", AS(OUTSIDE)},
    // barriers dropped, weakened, with wrong counts
    {IN_ROWS, "bar.sync \t0;", 0, "", AS(RACE) | AS(UNDEFINED)},
    {IN_ROWS, "bar.sync \t0;", 0, "bar.warp.sync 0xffffffff;", AS(RACE) | AS(UNDEFINED)},
    {IN_ROWS, "bar.sync \t0;", 0, "@%p5 bar.sync \t0;",
     AS(RACE) | AS(UNDEFINED) | AS(BARRIER) | AS(DEADLOCK)},
    {IN_ROWS, "bar.sync \t0;", 0, "bar.sync 0, 96;", AS(BARRIER) | AS(RACE) | AS(DEADLOCK) | AS(UNDEFINED)},
    {IN_ROWS, "bar.sync \t0;", 1, "bar.sync 0, 100;", AS(BARRIER)},
    {IN_PRODUCT, "bar.sync \t0;", 0, "", AS(RACE)},
    {IN_HANDOFF, "bar.sync 0;", 0, "", AS(RACE) | AS(UNDEFINED)},
    {IN_HANDOFF, "bar.arrive 1, 128;", 1, "", AS(DEADLOCK)},
    {IN_HANDOFF, "bar.arrive 1, 128;", 1, "bar.arrive 2, 128;", AS(DEADLOCK)},
    {IN_HANDOFF, "bar.arrive 1, 128;", 1, "bar.sync 1, 96;", AS(BARRIER) | AS(RACE)},
    {IN_HANDOFF, "bar.sync 1, 128;", 1, "bar.sync 1, 64;", AS(BARRIER) | AS(RACE)},
    {IN_HANDOFF, "bar.sync 1, 128;", 1, "bar.arrive 1, 128;", AS(RACE) | AS(UNDEFINED)},
    {IN_HANDOFF, "bar.warp.sync 0xffffffff;", 1, "", AS(RACE) | AS(UNDEFINED)},
    {IN_HANDOFF, "bar.warp.sync 0xffffffff;", 1, "bar.warp.sync 0x0000ffff;", AS(BARRIER)},
    // phase barriers, of which a thread sees one bit
    {IN_PHASES, "bar.warp.sync 0xffffffff;", 1, "", AS(RACE) | AS(BARRIER)},
    {IN_PHASES, "mov.b32 %r6, 2;", 1, "mov.b32 %r6, 1;", AS(RACE) | AS(BARRIER)},
    {IN_PHASES, "setp.eq.u32 %p6, %r12, 0;", 1, "setp.lt.u32 %p6, %r1, 34;", AS(RACE) | AS(BARRIER)},
    {IN_PHASES, "@%p5 ld.shared.b32 %r8, [%r4];", 1, "", WRONG},
    {IN_PHASES, "xor.b32 %r10, %r9, 1;", 1, "mov.b32 %r10, %r9;", AS(DEADLOCK) | AS(BARRIER)},
    // fences and atomics between blocks
    {IN_HANDOFF, "fence.acq_rel.gpu;", 0, "", AS(RACE)},
    {IN_HANDOFF, "atom.relaxed.gpu", 1, "atom.relaxed.cta", AS(RACE)},
    {IN_HANDOFF, "st.global.b32 [%rd4], %r17;", 1, "", AS(UNDEFINED)},
    // asynchronous copies
    {IN_PRODUCT, "cp.async.wait_group \t1;", 1, "", AS(RACE)},
    {IN_PRODUCT, "cp.async.wait_group \t1;", 1, "cp.async.wait_group 2;", AS(RACE)},
    {IN_PRODUCT, "cp.async.commit_group;", 0, "", AS(RACE)},
    {IN_PRODUCT, "16, %r26;", 1, "16, 16;", AS(OUTSIDE) | WRONG},
    {IN_PRODUCT, "cp.async.cg.shared.global [%rd45+6144]", 1, "cp.async.cg.shared.global [%rd45+4096]",
     AS(RACE) | WRONG},
    {IN_PRODUCT, "cp.async.cg.shared.global [%rd45+512]", 1, "cp.async.cg.shared.global [%rd45+504]",
     AS(MISALIGNED)},
    {IN_PRODUCT, "cp.async.cg.shared.global [%rd4+2560]", 1, "//", AS(UNDEFINED) | AS(RACE)},
    // addresses and predicates
    {IN_ROWS, "setp.lt.s32 \t%p2", 1, "setp.le.s32 \t%p2", AS(OUTSIDE) | AS(RACE)},
    {IN_ROWS, "@%p2 ld.global", 1, "ld.global", AS(OUTSIDE)},
    {IN_ROWS, "@%p4 st.global", 1, "@%p1 st.global", AS(OUTSIDE) | AS(RACE)},
    {IN_ROWS, "@%p2 st.global", 1, "@!%p2 st.global", AS(OUTSIDE) | AS(RACE) | WRONG},
    {IN_PRODUCT, "@%p20 st.global", 0, "st.global", AS(OUTSIDE) | AS(RACE)},
    {IN_ROWS, "shr.u32 \t%r34, %r19, 3;", 1, "shr.u32 \t%r34, %r19, 2;", AS(OUTSIDE) | AS(UNDEFINED)},
    {IN_ROWS, "shr.u32 \t%r34, %r19, 3;", 1, "shr.u32 \t%r34, %r19, 4;", AS(MISALIGNED)},
    {IN_ROWS, "[kiln_shared_static];", 1, "[kiln_shared_static+4];", AS(MISALIGNED)},
    {IN_ROWS, "[kiln_shared_static];", 0, "[kiln_shared_static+16];", AS(OUTSIDE)},
    {IN_HANDOFF, "xor.b32 %r13, %r9, 4;", 1, "add.s32 %r13, %r9, 4;", AS(RACE) | AS(OUTSIDE) | WRONG},
    {IN_HANDOFF, "ld.local.b32 %r16, [depot+4];", 1, "ld.local.b32 %r16, [depot+8];", AS(OUTSIDE)},
    {IN_PRODUCT, "[%rd51+6144]", 1, "[%rd51+6152]", AS(MISALIGNED)},
    {IN_PRODUCT, "[%rd53+6144]", 1, "[%rd53+8192]", AS(RACE) | AS(UNDEFINED) | AS(OUTSIDE) | WRONG},
    // values that nobody wrote
    {IN_ROWS, "st.shared.b32 \t[%rd3], %r5;", 1, "", AS(UNDEFINED)},
    {IN_ROWS, "mov.b32 \t%r14, %r15;", 1, "", AS(UNDEFINED)},
    {IN_ROWS, "mov.b32 \t%r15, -8388608;", 1, "", AS(UNDEFINED)},
    {IN_HANDOFF, "st.local.b32 [depot+4], %r11;", 1, "", AS(UNDEFINED)},
    {IN_HANDOFF, "st.shared.b32 [last], %r25;", 1, "", AS(UNDEFINED)},
    {IN_HANDOFF, "mov.u32 %r27, 0;", 1, "", AS(UNDEFINED)},
    // shuffles and other instructions of whole warps
    {IN_ROWS, ", 31, -1;", 0, ", 31, 65535;", AS(BARRIER)},
    {IN_ROWS, "shfl.sync.bfly.b32 \t%r29", 1, "@%p1 shfl.sync.bfly.b32 \t%r29", AS(DEADLOCK) | AS(UNDEFINED)},
    {IN_ROWS, "%r61, %r60, 16, 31", 1, "%r61, %r60, 8, 31", WRONG},
    {IN_HANDOFF, "31, 0xffffffff;", 0, "31, 0x7fffffff;", AS(BARRIER)},
    {IN_PRODUCT, "m8n8.x4.trans.shared", 1, "m8n8.x4.shared", WRONG},
    {IN_PRODUCT, "mma.sync", 1, "@%p1 mma.sync", AS(DEADLOCK) | AS(UNKNOWN) | AS(UNDEFINED)},
    // sm_90a: copies through tensor maps, phase barriers, proxies, products of warpgroups
    {IN_ROWS_90, "fence.proxy.async.shared::cta;", 0, "", AS(RACE)},
    {IN_ROWS_90, "wgmma.fence.sync.aligned;", 1, "", AS(BARRIER)},
    {IN_ROWS_90, "wgmma.wait_group.sync.aligned 0;", 1, "", AS(RACE)},
    {IN_ROWS_90, "wgmma.wait_group.sync.aligned 0;", 1, "wgmma.wait_group.sync.aligned 1;", AS(RACE)},
    {IN_ROWS_90, "barrier.sync \t2, 384;", 1, "", AS(RACE) | AS(DEADLOCK) | AS(BARRIER)},
    {IN_ROWS_90, "bar.sync \t%r11, 128;", 0, "", AS(RACE)},
    {IN_ROWS_90, "cp.async.bulk.wait_group.read \t0;", 1, "", AS(RACE)},
    {IN_ROWS_90, "mov.b32 \t%r156, 32768;", 1, "mov.b32 \t%r156, 32640;",
     AS(BARRIER) | AS(DEADLOCK) | AS(RACE)},
    {IN_ROWS_90, "mov.b32 \t%r156, 32768;", 1, "mov.b32 \t%r156, 49152;", AS(DEADLOCK)},
    {IN_ROWS_90, "mov.b32 \t%r63, 2;", 1, "mov.b32 \t%r63, 1;", AS(RACE) | AS(BARRIER)},
    {IN_ROWS_90, "mov.b32 \t%r63, 2;", 1, "mov.b32 \t%r63, 3;", AS(DEADLOCK)},
    {IN_ROWS_90, "mov.b32 \t%r180, 1;", 1, "mov.b32 \t%r180, 0;", AS(DEADLOCK)},
    {IN_ROWS_90, "add.s32 \t%r157, %r164, 32768;", 1, "add.s32 \t%r157, %r164, 32896;", AS(MISALIGNED)},
    {IN_ROWS_90, "4611686293305360386", 1, "4611686293305360388", WRONG},
    // arithmetic, so that the results are known to be looked at
    {IN_ROWS, "add.rn.f32 \t%r50", 1, "sub.rn.f32 \t%r50", WRONG},
    {IN_HANDOFF, "add.s32 %r28, %r28, 2;", 1, "add.s32 %r28, %r28, 1;", WRONG},
    {IN_HANDOFF, "setp.lt.u32 %p7", 1, "setp.le.u32 %p7", AS(OUTSIDE)},
};

TEST(ptx_faults, planted_faults_are_found) { CHECK(plant(faults, sizeof faults / sizeof *faults) >= 60); }

/// A slot that nobody reads, released by one warp of two: there is no race of accesses, but the other warp may come to
/// its wait two phases late, and waits for good. On a GPU it happens once in many thousand times.
TEST(ptx_faults, a_wait_that_a_phase_overtakes) {
  static const char *const edits[][2] = {{"mov.b32 %r6, 2;", "mov.b32 %r6, 1;"},
                                         {"setp.eq.u32 %p6, %r12, 0;", "setp.eq.u32 %p6, %r1, 32;"},
                                         {"@%p5 ld.shared.b32 %r8, [%r4];", ""}};
  char *text = read_fixture("phases");
  for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
    const fault f = {.from = edits[i][0], .to = edits[i][1]};
    char *next = mutated(text, place_of(text, f.from, 1), &f);
    free(text);
    text = next;
  }
  ptx_report report;
  kiln_error err = {0};
  run_phases(text, 1, &report, &err);
  CHECK(report.count > 0);
  CHECK_INT(report.items[0].kind, PTX_BARRIER);
  if (!strstr(report.items[0].text, "coming later, that thread would wait for good"))
    FAIL("%s", report.items[0].text);
  free(text);
}

/// A wait before any products were committed has nothing to learn from.
TEST(ptx_faults, a_wait_before_the_first_products) {
  const fault f = {.from = "wgmma.fence.sync.aligned;",
                   .to = "wgmma.wait_group.sync.aligned 0; wgmma.fence.sync.aligned;"};
  char *text = read_fixture("rows_90"), *early = mutated(text, place_of(text, f.from, 1), &f);
  ptx_report report;
  kiln_error err = {0};
  CHECK(run_rows_90(early, 1, &report, &err));
  CHECK_INT(report.count, 0);
  free(text);
  free(early);
}

/// Another one: rows of a tensor map that end inside a granule of 16 bytes.
TEST(ptx_faults, columns_after_the_last_one) {
  char *text = read_fixture("rows_90");
  ptx_report report;
  kiln_error err = {0};
  run_partial_rows(text, 1, &report, &err);
  CHECK(report.count > 0);
  CHECK_INT(report.items[0].kind, PTX_OUTSIDE);
  if (!strstr(report.items[0].text, "8 bytes after the tensor's last column are overwritten"))
    FAIL("%s", report.items[0].text);
  free(text);
}

/// A fault that the compiler had: the race is named with both lines and the source's place.
TEST(ptx_faults, the_race_that_the_compiler_had) {
  char *text = read_fixture("carry");
  for (uint64_t seed = 1; seed <= GOOD_SEEDS; seed++) {
    ptx_report report;
    kiln_error err = {0};
    CHECK(run_carry(text, seed, &report, &err));
    CHECK(report.count > 0);
    CHECK_INT(report.items[0].kind, PTX_RACE);
    if (!strstr(report.items[0].text, "(carry.kiln:"))
      FAIL("no place in the source: %s", report.items[0].text);
  }
  free(text);
}
