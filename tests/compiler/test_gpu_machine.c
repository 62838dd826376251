// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs matrix kernels with many shapes and schedules on a simulator of the GPU form (machine_sim.h).
// Planted faults show that the simulator notices them; where a fault does no harm depends on the text, so
// the kernels are fixed copies.
#include "tests/compiler/machine_case.inc"

// ----------------------------------------------------------------------------------------- library

/// The text with every `from` as `to`.
static char *replaced(const char *text, const char *from, const char *to) {
  kiln_buffer out = {0};
  const char *at = text, *found;
  for (; (found = strstr(at, from)); at = found + strlen(from))
    kiln_buffer_format(&out, "%.*s%s", (int)(found - at), at, to);
  if (at == text) FAIL("the text has no '%s'", from);
  kiln_buffer_format(&out, "%s", at);
  kiln_buffer_u8(&out, 0);
  return (char *)out.bytes;
}

static char *library(const char *path, const char *from, const char *to) {
  char *text = kiln_test_read(path, NULL);
  if (!text) FAIL("%s cannot be read", path);
  char *out = replaced(text, from, to);
  free(text);
  return out;
}

static size_t instance_of(const char *text, const char *name) {
  kiln_diagnostics d;
  kiln_arena *arena = kiln_arena_create();
  kiln_unit *unit = open_unit(arena, text, &d);
  size_t i = 0, count = kiln_unit_instance_count(unit);
  while (i < count && strcmp(kiln_unit_interface(unit, i)->name, name)) i++;
  if (i == count) FAIL("no instance %s; the first is %s", name, kiln_unit_interface(unit, 0)->name);
  kiln_arena_destroy(arena);
  return i;
}

static uint32_t blocks_of(unsigned extent, unsigned tile) { return (extent + tile - 1) / tile; }

typedef struct matrix_config {
  const char *text;
  unsigned m, n;
  bool has_no_bias; ///< its elements would have to go to all blocks that share a program
  const char *loop; ///< what stands for `step BK {`; NULL: the same
} matrix_config;

static const matrix_config small = {"BM = 64, BN = 64, BK = 32, warps = 4, stages = 3", 64, 64};
static const matrix_config two_groups = {"BM = 128, BN = 64, BK = 64, warps = 8, stages = 4", 128, 64};
static const matrix_config side_by_side = {"BM = 64, BN = 64, BK = 16, warps = 8, stages = 2", 64, 64};
static const matrix_config full = {"BM = 128, BN = 256, BK = 64, warps = 8, stages = 4", 128, 256};

static const char bias[] = " + (load(bias + n, n < N) as f32)[_, :]";

/// kernels/gemm.kiln: gemm, or gemm_split_k where callers promise strides of 16 bytes.
static void check_matrix(const char *kernel, const char *type, const matrix_config *config, unsigned m,
                         unsigned n, unsigned k, unsigned schedules) {
  bool is_split = !strcmp(kernel, "gemm_split_k");
  char name[NAME], *text = library("tests/golden/gpu_form/gemm.kiln", small.text, config->text);
  char *promised = replaced(text, "N: i32, K: i32, parts", "N: i32, K: i32 @div(8), parts");
  if (config->has_no_bias) {
    free(text);
    text = promised, promised = replaced(text, bias, "");
  }
  if (config->loop) {
    free(text);
    text = promised, promised = replaced(text, "step BK {", config->loop);
  }
  double row = (k + 7) / 8 * 8, c_row = is_split ? n : (n + 7) / 8 * 8;
  uint32_t down = blocks_of(m, config->m), across = blocks_of(n, config->n);
  sim_case c = {.name = name, .text = promised, .schedules = schedules};
  snprintf(name, sizeof name, is_split ? "%s[T=%s]" : "%s[T=%s,ACT=0]", kernel, type);
  c.instance = instance_of(promised, name);
  if (is_split) {
    double arguments[] = {m * row, n * row, m * c_row, m, n, k, 3};
    memcpy(c.arguments, arguments, sizeof arguments);
    c.grid[0] = down, c.grid[1] = across, c.grid[2] = 3;
  } else {
    double arguments[] = {m * row, n * row, n, m * c_row, m, n, k, row, row, c_row};
    memcpy(c.arguments, arguments, sizeof arguments);
    c.grid[0] = down * across, c.grid[1] = c.grid[2] = 1;
  }
  snprintf(name + strlen(name), sizeof name - strlen(name), " %s, %u x %u x %u", config->text, m, n, k);
  if (!check_case(&c, m * 31 + n * 7 + k)) FAIL("%s does not take the GPU form", name);
  free(text);
  free(promised);
}

TEST(gpu_machine, gemm) {
  check_matrix("gemm", "bf16", &small, 128, 128, 256, 20);
  check_matrix("gemm", "f16", &small, 100, 72, 200, 10);
  check_matrix("gemm", "bf16", &small, 1, 8, 8, 5);
  check_matrix("gemm", "bf16", &small, 65, 63, 33, 5);
  check_matrix("gemm", "bf16", &two_groups, 200, 100, 500, 5);
  check_matrix("gemm", "bf16", &side_by_side, 65, 130, 96, 10);
  check_matrix("gemm", "bf16", &full, 130, 260, 192, 2);
}

/// Products of which each takes what the one before has stored, if `c` begins within `a`; %s: a promise.
static const char chain[] =
    "kiln 1\n"
    "kernel chain(a: in *bf16 @align(16), b: in *bf16 @align(16), c: out *bf16 @align(16)%s, n: i32)\n"
    "  @grid(2) @config(warps = 4, stages = 3) {\n"
    "  let A = view(a, [n * 64 + 64, 64], [128, 1], [64, 32])\n"
    "  let B = view(b, [64, 64], [64, 1], [64, 32])\n"
    "  let C = view(c, [n * 64, 64], [128, 1], [64, 64])\n"
    "  for t in 0 .. n {\n"
    "    var acc = zeros(f32[64, 64])\n"
    "    for k in 0 .. 64 step 32 { acc = dot(load(A, [t * 64, k]), trans(load(B, [0, k])), acc) }\n"
    "    store(C, [t * 64, 0], acc as bf16)\n"
    "  }\n"
    "}\n";

/// The same in one flat loop, without roles, with so many slots.
static const char flat_chain[] =
    "kiln 1\n"
    "kernel chain(a: in *bf16 @align(16), b: in *bf16 @align(16), c: out *bf16 @align(16)%s, n: i32)\n"
    "  @grid(1) @config(warps = 4, stages = %u) {\n"
    "  let A = view(a, [n * 64 + 64, 64], [128, 1], [64, 32])\n"
    "  let B = view(b, [64, 64], [64, 1], [64, 32])\n"
    "  let C = view(c, [n * 64, 64], [128, 1], [64, 64])\n"
    "  var acc = zeros(f32[64, 64])\n"
    "  var i = -1\n"
    "  var row = 0\n"
    "  for t in 0 .. 2 * n {\n"
    "    i = i + 1\n"
    "    if i == 2 {\n      i = 0\n      row = row + 64\n    }\n"
    "    acc = dot(load(A, [row, i * 32]), trans(load(B, [0, i * 32])), acc)\n"
    "    if i == 1 {\n      store(C, [row, 0], acc as bf16)\n      acc = zeros(f32[64, 64])\n    }\n"
    "  }\n"
    "}\n";

/// `flat`: slots of the flat loop; 0: the loops with roles.
static bool agrees_in_chain(unsigned flat, const char *promise, double begins, unsigned schedules) {
  kiln_buffer text = {0};
  kiln_buffer_format(&text, flat ? flat_chain : chain, promise, flat);
  kiln_buffer_u8(&text, 0);
  sim_case c = {
      .name = "chain", .text = (const char *)text.bytes, .grid = {1, 1, 1}, .sparse = 24, .blocks = 1};
  if (flat) c.target = "sm_90a";
  const double elements[] = {5 * 64 * 128, 64 * 64, 4 * 64 * 128, 4};
  memcpy(c.arguments, elements, sizeof elements);
  if (begins >= 0) c.alias = 2, c.begins = begins;
  kiln_arena *arena = kiln_arena_create();
  ir_kernel *kernel = form(arena, &c);
  if (!kernel) FAIL("chain does not take the GPU form");
  call want;
  reference(&c, arena, &want);
  bool agrees = true;
  for (unsigned i = 0; i < schedules && agrees; i++) {
    char wrong[400];
    run_schedule(&c, kernel, &want, i, wrong, sizeof wrong);
    agrees = !*wrong;
  }
  close_call(&want);
  kiln_arena_destroy(arena);
  kiln_buffer_deinit(&text);
  return agrees;
}

/// The producer waits for what the consumers write where two parameters overlap, and only there.
TEST(gpu_machine, copies_after_writes) {
  CHECK(agrees_in_chain(0, "", -1, 10));
  CHECK(agrees_in_chain(0, "", 64 * 128, 20));     // the rows after those that are read
  CHECK(agrees_in_chain(0, "", 64 * 128 + 64, 5)); // next to them
  CHECK(agrees_in_chain(0, "", 64, 5));
  CHECK(!agrees_in_chain(0, " @noalias", 64 * 128, 20)); // a promise that is broken
}

/// Slots are filled again where two parameters overlap.
TEST(gpu_machine, fetches_after_writes) {
  for (unsigned slots = 2; slots <= 4; slots++) {
    CHECK(agrees_in_chain(slots, "", -1, 10));
    CHECK(agrees_in_chain(slots, "", 64 * 128, 20));      // the rows after those that are read
    CHECK(agrees_in_chain(slots, "", 64 * 128 + 16, 20)); // some of their columns
    CHECK(agrees_in_chain(slots, "", 128, 20));           // and the first of them
    CHECK(agrees_in_chain(slots, "", 64 * 128 + 64, 5));
    CHECK(!agrees_in_chain(slots, " @noalias", 64 * 128, 20));
  }
}

static const matrix_config spread = {"BM = 256, BN = 64, BK = 64, warps = 16, stages = 2", 256, 64, true};

static const matrix_config spread_four = {"BM = 256, BN = 64, BK = 64, warps = 32, stages = 2", 256, 64,
                                          true};
static const matrix_config tall = {"BM = 512, BN = 64, BK = 64, warps = 16, stages = 2", 512, 64, true};

static const matrix_config beside = {"BM = 128, BN = 256, BK = 64, warps = 16, stages = 2", 128, 256, true};

/// Two or four blocks share a program: the simulator has them as one.
TEST(gpu_machine, shared_program) {
  check_matrix("gemm", "bf16", &spread, 300, 130, 200, 3);
  check_matrix("gemm", "bf16", &spread, 1, 8, 8, 3);
  check_matrix("gemm", "bf16", &spread_four, 300, 130, 200, 3);
  check_matrix("gemm", "bf16", &tall, 600, 70, 200, 2);
  check_matrix("gemm", "bf16", &beside, 200, 300, 200, 2);
}

static const matrix_config over_slots = {"BM = 128, BN = 64, BK = 128, warps = 8, stages = 4", 128, 64,
                                         .loop = "step BK @split(2) {"};
static const matrix_config spread_over_slots = {"BM = 256, BN = 64, BK = 128, warps = 16, stages = 4", 256,
                                                64, true, "step BK @split(4) {"};

/// Blocks exchange their sums in the memory of slots.
TEST(gpu_machine, exchange_over_slots) {
  check_matrix("gemm", "bf16", &over_slots, 130, 130, 1300, 2);
  check_matrix("gemm", "bf16", &over_slots, 1, 8, 0, 4);
  check_matrix("gemm", "bf16", &spread_over_slots, 200, 64, 1300, 1);
}

static const char thirds[] =
    "kiln 1\n"
    "kernel k(a: in *bf16 @align(16), b: in *bf16 @align(16), c: out *bf16 @align(16),\n"
    "    M: i32, N: i32 @div(8), K: i32 @div(8))\n"
    "  @grid(cdiv(M, 64), cdiv(N, 48)) @warps(4) @stages(4)\n"
    "{\n"
    "  let A = view(a, [M, K], [K, 1], [64, 64])\n"
    "  let B = view(b, [N, K], [K, 1], [64, 64])\n"
    "  var acc = zeros(f32[64, 64])\n"
    "  for k in 0 .. K step 64 @split(3) {\n"
    "    let y = load(B, [pid(1) * 48, k], first = 48, axis = 0)\n"
    "    acc = dot(load(A, [pid(0) * 64, k]), trans(y), acc)\n"
    "  }\n"
    "  let C = view(c, [M, N], [N, 1], [64, 64])\n"
    "  store(C, [pid(0) * 64, pid(1) * 48], acc as bf16, first = 48, axis = 1)\n"
    "}\n";

/// Numbers of blocks that are no powers of two: the first adds for all, or each has a part of the columns.
TEST(gpu_machine, three_blocks) {
  static const matrix_config sums = {"BM = 64, BN = 64, BK = 32, warps = 4, stages = 3", 64, 64,
                                     .loop = "step BK @split(3) {"};
  check_matrix("gemm", "bf16", &sums, 130, 130, 500, 5);
  check_matrix("gemm", "bf16", &sums, 65, 8, 40, 5);
  for (unsigned k = 0; k <= 1040; k += 520) {
    const double m = 70, n = 104;
    sim_case c = {.name = "thirds",
                  .text = thirds,
                  .arguments = {m * k, n * k, m * n, m, n, k},
                  .grid = {2, 3, 1},
                  .schedules = 5};
    if (!check_case(&c, k + 1)) FAIL("thirds do not take the GPU form");
  }
}

/// Programs in a row in which the last block has no iteration: its consumers have nothing to wait for.
TEST(gpu_machine, exchange_without_iterations) {
  check_matrix("gemm", "bf16", &over_slots, 260, 130, 100, 20);
  check_matrix("gemm", "bf16", &spread_over_slots, 260, 130, 100, 10);
}

/// Tiles of which shared memory has room for one slot, and a thread no registers; the loop has two
/// iterations, or none.
TEST(gpu_machine, one_slot) {
  char *text = library("tests/golden/gpu_form/gemm.kiln", small.text,
                       "BM = 64, BN = 64, BK = 256, warps = 2, stages = 3");
  for (unsigned k = 0; k <= 300; k += 300) {
    const double row = 304, m = 50, n = 64;
    sim_case c = {.name = "gemm",
                  .text = text,
                  .arguments = {m * row, n * row, n, m * n, m, n, k, row, row, n},
                  .grid = {1, 1, 1},
                  .schedules = 2,
                  .target = "sm_86"};
    c.instance = instance_of(text, "gemm[T=bf16,ACT=0]");
    if (!check_case(&c, k + 1)) FAIL("nothing is fetched");
  }
  free(text);
}

TEST(gpu_machine, short_loops) {
  for (unsigned k = 0; k <= 160; k += 32) check_matrix("gemm", "bf16", &small, 128, 64, k, 5);
}

TEST(gpu_machine, gemm_split_k) {
  check_matrix("gemm_split_k", "bf16", &small, 64, 64, 512, 10);
  check_matrix("gemm_split_k", "f16", &small, 72, 72, 40, 10);
  check_matrix("gemm_split_k", "bf16", &two_groups, 72, 136, 264, 4);
}

#define attention_config "BM = 64, BN = 32, warps = 4, stages = 2"

static void check_attention(const char *type, unsigned depth, bool causal, const char *config, unsigned rows,
                            unsigned length, unsigned schedules) {
  char name[NAME], *text = library("tests/golden/gpu_form/attention.kiln", attention_config, config);
  double total = 2.0 * length * depth;
  snprintf(name, sizeof name, "attention[T=%s,D=%u,CAUSAL=%s]", type, depth, causal ? "true" : "false");
  sim_case c = {.name = name,
                .text = text,
                .arguments = {total, total, total, total, 2.0 * length, 2, length, 0.125},
                .grid = {blocks_of(length, rows), 2, 1},
                .schedules = schedules,
                .sparse = 4};
  c.instance = instance_of(text, name);
  snprintf(name + strlen(name), sizeof name - strlen(name), " %s, length %u", config, length);
  if (!check_case(&c, length)) FAIL("%s does not take the GPU form", name);
  free(text);
}

/// tests/passes/uneven.kiln: every program of the grid runs, whichever blocks take them and in which order,
/// and where there are several for each block, all have about as much to do.
TEST(gpu_machine, programs_that_differ) {
  static const struct {
    unsigned rows, heads, groups, blocks;
    double busiest;
  } grids[] = {{1, 1, 1, 1, 0},     {5, 3, 2, 4, 0},     {3, 17, 1, 5, 1.2},
               {2, 1, 33, 7, 1.2},  {9, 2, 1, 64, 0},    {0, 2, 2, 3, 0},
               {2, 64, 1, 64, 1.1}, {16, 4, 1, 16, 1.1}, {6, 5, 4, 12, 1.2}};
  char *text = kiln_test_read("tests/passes/uneven.kiln", NULL), name[NAME];
  if (!text) FAIL("tests/passes/uneven.kiln cannot be read");
  for (unsigned i = 0; i < sizeof grids / sizeof *grids; i++) {
    const unsigned n = grids[i].rows * 64, all = grids[i].heads * grids[i].groups;
    const double total = (double)n * 64 * all;
    snprintf(name, sizeof name, "%u x %u x %u", grids[i].heads, grids[i].rows, grids[i].groups);
    sim_case c = {.name = name,
                  .text = text,
                  .arguments = {total, total, total, n, grids[i].heads, grids[i].groups},
                  .grid = {grids[i].heads, grids[i].rows, grids[i].groups},
                  .schedules = 2,
                  .blocks = grids[i].blocks,
                  .busiest = grids[i].busiest,
                  .sparse = 4};
    if (!check_case(&c, i)) FAIL("%s does not take the GPU form", name);
  }
  free(text);
}

/// Shared memory has room for one slot of products of warpgroups: none is under way as it is filled again.
TEST(gpu_machine, one_slot_of_products) {
  static const char text[] =
      "kiln 1\n"
      "kernel one(a: in *bf16 @align(16), b: in *bf16 @align(16), c: out *f32, K: i32 @div(512))\n"
      "  @grid(1) @config(warps = 4, stages = 3)\n{\n"
      "  let A = view(a, [64, K], [K, 1], [64, 512])\n"
      "  let B = view(b, [64, K], [K, 1], [64, 512])\n"
      "  var acc = zeros(f32[64, 64])\n"
      "  for k in 0 .. K step 512 { acc = dot(load(A, [0, k]), trans(load(B, [0, k])), acc) }\n"
      "  store(view(c, [64, 64], [64, 1], [64, 64]), [0, 0], acc)\n}\n";
  const double k = 1536;
  sim_case c = {.name = "one slot",
                .text = text,
                .arguments = {64 * k, 64 * k, 64 * 64, k},
                .grid = {1, 1, 1},
                .schedules = 3,
                .sparse = 4,
                .target = "sm_90a"};
  CHECK(check_case(&c, 1));
}

TEST(gpu_machine, attention) {
  static const char *const types[] = {"bf16", "f16"};
  for (unsigned i = 0; i < 8; i++) {
    const char *type = types[i & 1];
    unsigned depth = i & 2 ? 128 : 64;
    check_attention(type, depth, i & 4, attention_config, 64, 100 + 8 * i, 2);
    if (i % 3 == 0)
      check_attention(type, depth, i & 4, "BM = 128, BN = 64, warps = 8, stages = 2", 128, 200, 1);
  }
}

TEST(gpu_machine, attention_lengths) {
  static const unsigned lengths[] = {1, 31, 32, 33, 64, 65, 96, 128};
  for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    check_attention("bf16", 64, true, attention_config, 64, lengths[i], 2);
    check_attention("bf16", 64, false, attention_config, 64, lengths[i], 2);
  }
  check_attention("bf16", 128, false, "BM = 128, BN = 128, warps = 8, stages = 2", 128, 130, 1);
}

/// Tiles of keys and values of which shared memory has room for one slot each: they take turns.
TEST(gpu_machine, attention_in_turns) {
  check_attention("bf16", 128, false, "BM = 128, BN = 256, warps = 8, stages = 2", 128, 520, 2);
  check_attention("bf16", 128, true, "BM = 128, BN = 256, warps = 8, stages = 2", 128, 300, 2);
}

// ------------------------------------------------------------------------------------------ faults

/// A kernel's operations of some code, in order of the text.
typedef struct finding {
  ir_opcode code;
  bool (*without)(const ir_op *op); ///< which are not meant; NULL: all are
  unsigned wanted, count;
  ir_op *found;
} finding;

static bool is_async(const ir_op *op) { return op->attrs.mma.is_async; }
static bool is_shared(const ir_op *op) { return op->attrs.barrier.is_shared; }
static bool tells_nobody(const ir_op *op) { return !op->attrs.barrier.is_for_products; }

static void find_op(ir_op *op, void *context) {
  finding *f = context;
  if (op->code == f->code && !(f->without && f->without(op)) && f->count++ == f->wanted) f->found = op;
}

static void drop(ir_op *op) {
  for (uint32_t i = 0; i < op->result_count; i++) op->results[i].forward = op->operands[i];
  ir_remove(op);
}

static ir_builder builder_at(ir_kernel *kernel, ir_op *op) {
  return (ir_builder){.arena = kernel->arena, .block = op->block, .before = op};
}

static ir_value *plus_one(ir_kernel *kernel, ir_op *op, uint32_t operand, unsigned modulus) {
  ir_builder b = builder_at(kernel, op);
  ir_value *next = ir_binary(&b, IR_ADD, 0, op->operands[operand], ir_const_int(&b, KILN_I32, 1));
  next = ir_binary(&b, IR_REM, IR_UNSIGNED, next, ir_const_int(&b, KILN_I32, modulus));
  CHECK(next != NULL);
  return next;
}

static void flip_parity(ir_kernel *kernel, ir_op *op) { op->operands[2] = plus_one(kernel, op, 2, 2); }
static void flip_phase(ir_kernel *kernel, ir_op *op) { op->operands[1] = plus_one(kernel, op, 1, 2); }
static void drop_op(ir_kernel *kernel, ir_op *op) { (void)kernel, drop(op); }
static void drop_sum(ir_kernel *kernel, ir_op *op) {
  (void)kernel;
  op->results[0].forward = op->operands[0];
  ir_remove(op);
}
static void expect_more(ir_kernel *kernel, ir_op *op) { (void)kernel, op->attrs.expect.bytes += 16; }
static void expect_less(ir_kernel *kernel, ir_op *op) { (void)kernel, op->attrs.expect.bytes -= 16; }
static void wait_less(ir_kernel *kernel, ir_op *op) { (void)kernel, op->attrs.wait.out++; }
static void stay_async(ir_kernel *kernel, ir_op *op) { (void)kernel, op->attrs.mma.is_async = true; }
static void tell_nobody(ir_kernel *kernel, ir_op *op) {
  (void)kernel, op->attrs.barrier.is_for_products = false;
}

/// Always the first slot; of a ring of one slot, one that is not there. (The next slot would do no harm where
/// it only waits for longer.)
static void shift_slot(ir_kernel *kernel, ir_op *op) {
  uint32_t i = op->operand_count - 1;
  while (!op->operands[i]->type.slots) i--;
  if (op->code == IR_COPY) i -= 2;
  ir_builder b = builder_at(kernel, op);
  op->operands[i + 1] = ir_const_int(&b, KILN_I32, op->operands[i]->type.slots == 1);
}

/// The slot after it, of a ring.
static void next_slot(ir_kernel *kernel, ir_op *op) {
  uint32_t i = 0;
  while (!op->operands[i]->type.slots) i++;
  const uint32_t stride = op->operands[i]->def->attrs.alloc.stride;
  if (stride) { // of two
    ir_builder b = builder_at(kernel, op);
    ir_value *both = ir_const_int(&b, KILN_I32, stride);
    op->operands[i + 1] = ir_binary(&b, IR_SUB, 0, both, op->operands[i + 1]);
    return;
  }
  op->operands[i + 1] = plus_one(kernel, op, i + 1, op->operands[i]->type.slots);
}

/// The barrier before the wait, or the write: others have not waited or written yet.
static void meet_early(ir_kernel *kernel, ir_op *op) {
  (void)kernel;
  ir_op *to = op->prev;
  while (to && to->code != IR_FETCH_WAIT && to->code != IR_PUT) to = to->prev;
  CHECK(to != NULL);
  ir_move(op, op->block, to);
}

/// A wait after the product or the copy that it is for; nowhere, where that is of the next program.
static void wait_late(ir_kernel *kernel, ir_op *op) {
  (void)kernel;
  ir_op *to = op->next;
  while (to && to->code != IR_MMA && to->code != IR_COPY && to->code != IR_FOR && to->code != IR_IF)
    to = to->next;
  if (to) ir_move(op, op->block, to->next);
  else drop(op);
}

/// A release before the product, or what waits for it, that reads the slot.
static void arrive_early(ir_kernel *kernel, ir_op *op) {
  (void)kernel;
  ir_op *to = op->prev;
  while (to && to->code != IR_MMA && to->code != IR_MMA_WAIT && to->code != IR_FOR && to->code != IR_IF)
    to = to->prev;
  CHECK(to != NULL);
  ir_move(op, op->block, to);
}

static const struct {
  const char *name;
  ir_opcode code;
  void (*apply)(ir_kernel *kernel, ir_op *op);
  bool (*without)(const ir_op *op); ///< of operations that this does not hold for; NULL: of all
} faults[] = {
    {"dropped wait", IR_BAR_WAIT, drop_op},
    {"dropped arrival", IR_BAR_ARRIVE, drop_op},
    {"dropped expectation", IR_BAR_EXPECT, drop_op},
    {"dropped copy", IR_COPY, drop_op},
    {"dropped wait for a product", IR_MMA_WAIT, drop_op},
    {"dropped wait for a store", IR_STAGE_WAIT, drop_op},
    {"wrong parity", IR_BAR_WAIT, flip_parity},
    {"too many bytes", IR_BAR_EXPECT, expect_more},
    {"too few bytes", IR_BAR_EXPECT, expect_less},
    {"wait in the wrong slot", IR_BAR_WAIT, shift_slot},
    {"arrival in the wrong slot", IR_BAR_ARRIVE, shift_slot},
    {"expectation in the wrong slot", IR_BAR_EXPECT, shift_slot},
    {"copy into the wrong slot", IR_COPY, shift_slot},
    {"product of the wrong slot", IR_MMA, shift_slot},
    {"one product too many in flight", IR_MMA_WAIT, wait_less},
    {"product in flight where it should end", IR_MMA, stay_async, is_async},
    {"wait behind what it is for", IR_BAR_WAIT, wait_late},
    {"release before the product has read", IR_BAR_ARRIVE, arrive_early},
    {"dropped sum of a cluster", IR_CLUSTER_SUM, drop_sum},
    {"wrong phase of a sum", IR_CLUSTER_SUM, flip_phase},
    {"wrong phase of a scattered sum", IR_CLUSTER_SCATTER, flip_phase},
    // Of computed operands:
    {"dropped put", IR_PUT, drop_op},
    {"put into the wrong slot", IR_PUT, next_slot},
    {"put into one slot", IR_PUT, shift_slot},
    // Of fetches:
    {"dropped fetch", IR_FETCH, drop_op},
    {"fetch into the wrong slot", IR_FETCH, next_slot},
    {"dropped commit", IR_FETCH_COMMIT, drop_op},
    {"dropped wait for fetches", IR_FETCH_WAIT, drop_op},
    {"one group too many under way", IR_FETCH_WAIT, wait_less},
    {"dropped barrier", IR_BARRIER, drop_op},
    {"barrier before what it is for", IR_BARRIER, meet_early, is_shared},
    {"barrier that products are not told of", IR_BARRIER, tell_nobody, tells_nobody},
    {"read of the wrong slot", IR_SLOT_LOAD, next_slot},
    {"dropped end of fetches", IR_FETCH_END, drop_op},
    // Of stores to slots:
    {"dropped store to a slot", IR_SLOT_STORE, drop_op},
    {"store to the wrong slot", IR_SLOT_STORE, next_slot},
};
enum {
  FETCH_FAULTS = 9,
  TOLD_FAULTS = 1,
  STORE_FAULTS = 2,
  PUT_FAULTS = 3,
  SUM_FAULTS = 3,
  BARRIER_FAULTS = 2
};

/// True when the fault number `f` at operation `which` is seen; false with `*out_exists` false when there is
/// no such operation.
static bool is_seen(const sim_case *c, const call *want, unsigned f, unsigned which, bool *out_exists) {
  char wrong[400] = "";
  kiln_arena *arena = kiln_arena_create();
  ir_kernel *kernel = form(arena, c);
  finding at = {.code = faults[f].code, .without = faults[f].without, .wanted = which};
  CHECK(kernel != NULL);
  ir_walk(kernel->body, find_op, &at);
  *out_exists = at.found != NULL;
  if (at.found) {
    faults[f].apply(kernel, at.found);
    ir_apply_forwards(kernel);
    for (unsigned i = 0; i < c->schedules && !*wrong; i++)
      run_schedule(c, kernel, want, 1 + i, wrong, sizeof wrong);
    if (kiln_test_full() && !which) printf("%s: %s: %s\n", c->name, faults[f].name, wrong);
  }
  kiln_arena_destroy(arena);
  return *wrong;
}

typedef struct planting {
  const sim_case *cases; ///< the same operations, with other numbers
  unsigned count;
  const char *unseen; ///< faults that do no harm in any of them, as text
} planting;

/// Every fault at every operation; returns how many kinds the kernel can have.
static unsigned plant_faults(const planting *p) {
  kiln_arena *arena = kiln_arena_create();
  kiln_buffer not_seen = {0};
  unsigned count = 0;
  call want[2];
  for (unsigned i = 0; i < p->count; i++) {
    reference(&p->cases[i], arena, &want[i]);
    CHECK(check_case(&p->cases[i], 1));
  }
  for (unsigned f = 0; f < sizeof faults / sizeof *faults; f++)
    for (unsigned which = 0;; which++) {
      bool exists = true, seen = false;
      for (unsigned i = 0; i < p->count && exists && !seen; i++)
        seen = is_seen(&p->cases[i], &want[i], f, which, &exists);
      if (!exists) break;
      if (!seen) kiln_buffer_format(&not_seen, "%s: %u\n", faults[f].name, which);
      count += !which;
    }
  kiln_buffer_u8(&not_seen, 0);
  CHECK_TEXT((const char *)not_seen.bytes, p->unseen);
  kiln_buffer_deinit(&not_seen);
  for (unsigned i = 0; i < p->count; i++) close_call(&want[i]);
  kiln_arena_destroy(arena);
  return count;
}

/// A product of `rows` x 64 with `k` to reduce, two programs one after another; `other`: one with as much,
/// too, in more schedules (0: none). `unseen`: faults that do no harm. Returns how many kinds of faults it
/// had.
static unsigned plant_in_text(char *text, double rows, double k, double other, const char *unseen) {
  sim_case cases[2];
  for (unsigned i = 0; i < 2; i++) {
    double depth = i ? other : k;
    cases[i] =
        (sim_case){.name = "gemm",
                   .text = text,
                   .arguments = {rows * depth, 64 * depth, 64, rows * 64, rows, 64, depth, depth, depth, 64},
                   .grid = {2, 1, 1},
                   .blocks = 1,
                   .schedules = i ? 40 : 6};
    cases[i].instance = instance_of(text, "gemm[T=bf16,ACT=0]");
  }
  unsigned count = plant_faults(&(planting){cases, other ? 2 : 1, unseen});
  free(text);
  return count;
}

static unsigned plant_in_gemm(const char *from, const char *to, double k) {
  return plant_in_text(library("tests/golden/gpu_form/gemm.kiln", from, to), 128, k, 0, "");
}

/// Rings that go round several times. Without faults of mma_wait and of sums.
TEST(gpu_faults, product) { CHECK_INT(plant_in_gemm(small.text, small.text, 256), 16); }

/// A loop that four blocks of a cluster share, each with its columns of the sums; and one that eight share,
/// where these would be too few and the first has all. Without faults of mma_wait.
TEST(gpu_faults, shared_loop) {
  CHECK_INT(plant_in_gemm("step BK {", "step BK @split(4) {", 1024), 17);
  CHECK_INT(plant_in_gemm("step BK {", "step BK @split(8) {", 1024), 18);
}

/// Sums that two blocks exchange over the slots: with memory of their own there would be three, not four. And
/// where one of them has no iteration.
TEST(gpu_faults, exchange_over_slots) {
  char *split = library("tests/golden/gpu_form/gemm.kiln", "step BK {", over_slots.loop);
  char *text = replaced(split, small.text, over_slots.text);
  free(split);
  CHECK_INT(plant_in_text(text, 256, 1536, 120, ""), 17);
}

/// Two blocks share a program: each is there until the other has released all slots, or the simulator sees an
/// arrival after its end. Of two slots the second is released last: the first wait at the end does nothing.
TEST(gpu_faults, shared_program) {
  static const char unseen[] = "dropped wait: 1\nwait in the wrong slot: 1\nwait behind what it is for: 1\n";
  char *shared = library("tests/golden/gpu_form/gemm.kiln", small.text,
                         "BM = 256, BN = 64, BK = 16, warps = 16, stages = 2");
  char *text = replaced(shared, bias, "");
  free(shared);
  CHECK_INT(plant_in_text(text, 512, 48, 16, unseen), 16);
}

/// Three slots, where loops begin in different ones; and two, with more masked blocks than slots. An early
/// release that does no harm: of K in the first loop, whose slot is filled after one of V that is released
/// later.
TEST(gpu_faults, chained_products) {
  static const char *const configs[] = {"BM = 64, BN = 32, warps = 4, stages = 3",
                                        "BM = 128, BN = 32, warps = 8, stages = 2"};
  static const char unseen[] = "release before the product has read: 1\n";
  sim_case cases[2];
  for (unsigned i = 0; i < 2; i++) {
    double rows = 384, total = rows * 64;
    cases[i] =
        (sim_case){.name = "attention",
                   .text = library("tests/golden/gpu_form/attention.kiln", attention_config, configs[i]),
                   .arguments = {total, total, total, total, rows, 1, rows, 0.125},
                   .grid = {i ? 3 : 6, 1, 1},
                   .blocks = 1,
                   .schedules = 3,
                   .sparse = 4};
    cases[i].instance = instance_of(cases[i].text, "attention[T=bf16,D=64,CAUSAL=true]");
  }
  CHECK_INT(plant_faults(&(planting){cases, 2, unseen}), sizeof faults / sizeof *faults - SUM_FAULTS -
                                                             PUT_FAULTS - FETCH_FAULTS - TOLD_FAULTS -
                                                             STORE_FAULTS);
}

/// Of the small product through slots without roles: rows end in the middle of a piece, and the last tile is
/// without some of its rows. Slots go round twice.
static unsigned plant_in_slots(const char *target) {
  const double k = 205, row = 208, m = 70, n = 64;
  char *text = library("tests/golden/gpu_form/gemm.kiln", small.text, small.text);
  sim_case c = {.name = "gemm",
                .text = text,
                .arguments = {m * row, n * row, n, m * n, m, n, k, row, row, n},
                .grid = {2, 1, 1},
                .schedules = 3,
                .target = target};
  c.instance = instance_of(text, "gemm[T=bf16,ACT=0]");
  unsigned found = plant_faults(&(planting){&c, 1, ""});
  free(text);
  return found;
}

/// Three slots that threads fill. (A mask that is lost does no harm to what is stored: the other operand is
/// zero there.)
TEST(gpu_faults, fetches) { CHECK_INT(plant_in_slots("sm_80"), FETCH_FAULTS); }

/// The same slots, multiplied by warpgroups: besides the faults of fetches, without reads to registers, those of products
/// and of their waits.
TEST(gpu_faults, products_of_fetches) { CHECK_INT(plant_in_slots("sm_90a"), FETCH_FAULTS + TOLD_FAULTS + 2); }

/// Products one after another in one loop, of three iterations each: where one begins a branch chooses its rows, where one
/// ends another branch stores and clears the sum, and writes rows of the next one. It waits for the product, which is in
/// flight elsewhere as an iteration begins: also after the last one, where the loop ends within a product. Unseen: the right
/// operand is fetched again although nothing has written it, after a barrier that is for what other threads have stored
/// (each thread of the simulator stores all).
static unsigned plant_in_flat(unsigned depth, unsigned tiles, unsigned slots, unsigned schedules,
                              const char *unseen) {
  static const char flat[] = "kiln 1\n"
                             "kernel flat(a: inout *bf16 @align(16), b: in *bf16 @align(16), c: out *f32 "
                             "@align(16), n: i32, steps: i32)\n"
                             "  @grid(1) @config(warps = 4, stages = %u) {\n"
                             "  let A = view(a, [n * 64, %u], [%u, 1], [64, %u])\n"
                             "  let W = view(a, [n * 64, %u], [%u, 1], [64, 64])\n"
                             "  let B = view(b, [64, %u], [%u, 1], [64, %u])\n"
                             "  let C = view(c, [n * 64, 64], [64, 1], [64, 64])\n"
                             "  var acc = zeros(f32[64, 64])\n"
                             "  var i = -1\n"
                             "  var row = 0\n"
                             "  for t in 0 .. steps {\n"
                             "    i = i + 1\n"
                             "    if i == %u {\n      i = 0\n      row = row + 64\n    }\n"
                             "    acc = dot(load(A, [row, i * %u]), trans(load(B, [0, i * %u])), acc)\n"
                             "    if i == %u {\n"
                             "      store(C, [row, 0], acc)\n"
                             "      store(W, [row + 64, 0], max(min(acc, 2.0), -2.0) as bf16)\n"
                             "      acc = zeros(f32[64, 64])\n"
                             "    }\n"
                             "  }\n}\n";
  const unsigned k = tiles * depth;
  kiln_buffer text = {0};
  kiln_buffer_format(&text, flat, slots, k, k, depth, k, k, k, k, depth, tiles, depth, depth, tiles - 1);
  kiln_buffer_u8(&text, 0);
  sim_case cases[2];
  for (unsigned i = 0; i < 2; i++)
    cases[i] =
        (sim_case){.name = "flat",
                   .text = (const char *)text.bytes,
                   .arguments = {3 * 64.0 * k, 64.0 * k, 3 * 64 * 64, 3, i ? 3 * tiles - 2 : 3 * tiles},
                   .grid = {1, 1, 1},
                   .schedules = schedules,
                   .target = "sm_90a"};
  const unsigned found = plant_faults(&(planting){cases, 2, unseen});
  kiln_buffer_deinit(&text);
  return found;
}

TEST(gpu_faults, cleared_product) {
  CHECK_INT(plant_in_flat(32, 3, 3, 6,
                          "dropped fetch: 7\ndropped fetch: 9\ndropped barrier: 2\n"
                          "barrier before what it is for: 2\nbarrier that products are not told of: 1\n"),
            FETCH_FAULTS + TOLD_FAULTS + 2);
}

/// The same, of four iterations each, with tiles so large that threads meet once in an iteration. What is stored has no
/// columns of the second and third tile that are fetched again.
TEST(gpu_faults, cleared_product_met_once) {
  CHECK_INT(plant_in_flat(128, 4, 4, 3,
                          "dropped fetch: 9\ndropped fetch: 10\ndropped fetch: 11\ndropped fetch: 12\n"
                          "dropped fetch: 13\ndropped barrier: 2\n"
                          "barrier before what it is for: 2\nbarrier that products are not told of: 2\n"),
            FETCH_FAULTS + TOLD_FAULTS + 2);
}

/// Two slots that threads store to, where loads go through registers.
TEST(gpu_faults, stores_to_slots) { CHECK_INT(plant_in_slots("gfx942"), 5); }

/// Products in a row, one of them of a computed operand, and sums added in memory. Four iterations, so that
/// the slots of all go round twice. Faults of barriers are counted among those of fetches; all products are
/// in flight.
TEST(gpu_faults, computed_operand) {
  const double n = 250;
  char *text = kiln_test_read("tests/passes/put.kiln", NULL);
  CHECK(text != NULL);
  sim_case c = {.name = "put",
                .text = text,
                .arguments = {128 * 64, n * 64, n * 64, 128 * 64, n},
                .grid = {2, 1, 1},
                .blocks = 1,
                .schedules = 6,
                .sparse = 4};
  CHECK_INT(plant_faults(&(planting){&c, 1, ""}), sizeof faults / sizeof *faults - SUM_FAULTS - FETCH_FAULTS -
                                                      TOLD_FAULTS - STORE_FAULTS + BARRIER_FAULTS - 1);
  free(text);
}
