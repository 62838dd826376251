// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the order of programs on processors with several dies (compiler/passes/gpu/chiplets.c): each program is
// computed once, whatever the grid is, and blocks on the same die compute neighbours. The interpreter runs
// the kernels.
#include "compiler/front.h"
#include "compiler/interpreter/interpreter.h"
#include "compiler/passes/gpu/gpu.h"
#include "compiler/passes/stages.h"
#include "tests/harness.h"

#include <string.h>

enum { DIES = 8, WINDOW = 256, MOST = 4096 };

/// What stands in for `%s` is the block's ticket: blocks take them in turn, so that it is known which program
/// the n-th one computes; a loop of no iterations has the product.
static const char text[] =
    "kiln 1\n"
    "kernel k(a: in *f16 @align(16), ticket: inout *i32, order: out *i32, c: out *f32, n: i32)\n"
    "  @grid(n, n, n) @warps(1) @stages(1)\n"
    "{\n"
    "  let program = (pid(2) * npid(1) + pid(1)) * npid(0) + pid(0)\n"
    "  let tile = (iota(16) * 16)[:, _] + iota(16)[_, :]\n"
    "  var acc = zeros(f32[16, 16])\n"
    "  for i in 0 .. n { acc = dot(load(a + i + tile), load(a + i + tile), acc) }\n"
    "  let t = %s\n"
    "  store(order + t, program)\n"
    "  store(c + tile, acc)\n"
    "}\n";

typedef struct made {
  kiln_arena *arena;
  ir_kernel *kernel;
} made;

static made lower(const char *take, const char *name) {
  made m = {.arena = kiln_arena_create()};
  kiln_diagnostics d = {.arena = m.arena};
  kiln_error err = {0};
  kiln_target target;
  kiln_buffer source = {0};
  kiln_buffer_format(&source, text, take);
  CHECK_OK(kiln_target_parse(name, &target, &err), err);
  kiln_unit *unit = kiln_unit_open(m.arena, "k.kiln", (const char *)source.bytes, source.size, NULL, &d);
  m.kernel = unit ? kiln_unit_lower(unit, m.arena, 0, 0, 0, &target, &d) : NULL;
  if (!m.kernel) FAIL("%u:%u: %s", d.items[0].line, d.items[0].column, d.items[0].text);
  kiln_stage stage = {.target = target, .refusals = {.arena = m.arena}};
  const kiln_stage_run run = {.stage = &stage, .verify = true};
  CHECK_OK(kiln_stage_finish(&run, m.kernel, &err), err);
  kiln_buffer_deinit(&source);
  return m;
}

static const char by_ticket[] = "atomic.add(ticket, 1)";

/// Programs in the order of the blocks.
static void run(const made *m, const uint32_t grid[3], int32_t *order) {
  static uint16_t a[512];
  static float c[256];
  int32_t ticket = 0;
  struct {
    void *a, *ticket, *order, *c;
    int32_t n;
  } args = {a, &ticket, order, c, 0};
  kiln_error err = {0};
  CHECK_OK(kiln_interpret(m->kernel, &args, grid, NULL, &err), err);
}

static void check_grid(const made *m, uint32_t x, uint32_t y, uint32_t z) {
  static int32_t order[MOST];
  static bool seen[MOST];
  const uint32_t count = x * y * z;
  CHECK(count <= MOST);
  memset(order, -1, sizeof order);
  memset(seen, 0, sizeof seen);
  run(m, (uint32_t[3]){x, y, z}, order);
  for (uint32_t t = 0; t < count; t++) {
    if (order[t] < 0 || (uint32_t)order[t] >= count || seen[order[t]])
      FAIL("grid %u x %u x %u: block %u computes program %d", x, y, z, t, order[t]);
    seen[order[t]] = true;
    bool has_next = t + DIES < count && t / WINDOW == (t + DIES) / WINDOW;
    if (has_next && order[t + DIES] != order[t] + 1)
      FAIL("grid %u x %u x %u: blocks %u and %u compute programs %d and %d", x, y, z, t, t + DIES, order[t],
           order[t + DIES]);
    if (order[t] / WINDOW != (int32_t)(t / WINDOW))
      FAIL("grid %u x %u x %u: block %u computes program %d, of another window", x, y, z, t, order[t]);
  }
}

TEST(gpu_chiplets, every_program_is_computed_once) {
  made m = lower(by_ticket, "gfx942");
  for (uint32_t n = 1; n <= 40; n++) check_grid(&m, n, 1, 1);
  for (uint32_t n = 250; n <= 266; n++) check_grid(&m, n, 1, 1);
  check_grid(&m, 1021, 1, 1);
  check_grid(&m, 1, 300, 1);
  check_grid(&m, 7, 41, 1);
  check_grid(&m, 3, 5, 7);
  check_grid(&m, 16, 16, 2);
  check_grid(&m, 2, 1, 261);
  kiln_arena_destroy(m.arena);
}

/// Blocks keep their own programs.
static void check_kept(const char *take, const char *target) {
  int32_t order[300];
  made m = lower(take, target);
  run(&m, (uint32_t[3]){300, 1, 1}, order);
  for (int32_t t = 0; t < 300; t++)
    if (order[t] != t) FAIL("%s on %s: block %d computes program %d", take, target, t, order[t]);
  kiln_arena_destroy(m.arena);
}

/// Of one die; programs that may wait for one another; that find their die themselves.
TEST(gpu_chiplets, what_keeps_its_order) {
  check_kept(by_ticket, "gfx90a");
  check_kept(by_ticket, "gfx1100");
  check_kept("atomic.add(ticket, 1, order = acq_rel)", "gfx942");
  check_kept("min(atomic.add(ticket, 1), 1000 + pid(0) % 8)", "gfx942");
}
