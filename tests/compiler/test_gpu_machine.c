// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels in the GPU form (compiler/gpu/) on a simulator (machine_sim.h), against the reference interpreter
// on the canonical kernel: the library's, and generated loop nests. Planted faults show that the simulator
// sees.
#include "compiler/front.h"
#include "compiler/gpu/gpu.h"
#include "compiler/interpreter/interpreter.h"
#include "compiler/middle/pipeline.h"
#include "tests/compiler/machine_sim.inc"

enum { MOST_ARGUMENTS = 12, NAME = 200 };

/// A kernel and how it is called. `arguments[i]`: elements of a buffer, or the value of a scalar.
typedef struct sim_case {
  const char *name;
  const char *text;
  size_t instance;
  double arguments[MOST_ARGUMENTS];
  uint32_t grid[3];
  unsigned schedules;
  uint32_t blocks; ///< of the persistent grid; 0: drawn
  unsigned sparse; ///< of so many elements one is not zero
} sim_case;

typedef struct call {
  uint8_t args[MOST_ARGUMENTS * 8];
  uint8_t *buffers[MOST_ARGUMENTS];
  size_t sizes[MOST_ARGUMENTS];
} call;

// ----------------------------------------------------------------------------------------- kernels

static kiln_target hopper(void) {
  kiln_target target;
  kiln_error err = {0};
  CHECK_OK(kiln_target_parse("sm_90a", &target, &err), err);
  return target;
}

static kiln_unit *open_unit(kiln_arena *arena, const char *text, kiln_diagnostics *d) {
  *d = (kiln_diagnostics){.arena = arena};
  kiln_front_options options = {.all_configs = true};
  kiln_unit *unit = kiln_unit_open(arena, "case.kiln", text, strlen(text), &options, d);
  if (!unit) FAIL("%u:%u: %s in\n%s", d->items[0].line, d->items[0].column, d->items[0].text, text);
  return unit;
}

static ir_kernel *lower(kiln_arena *arena, const char *text, size_t instance, const kiln_target *target) {
  kiln_diagnostics d;
  kiln_unit *unit = open_unit(arena, text, &d);
  ir_kernel *kernel = kiln_unit_lower(unit, arena, instance, 0, 0, target, &d);
  if (!kernel) FAIL("%u:%u: %s in\n%s", d.items[0].line, d.items[0].column, d.items[0].text, text);
  return kernel;
}

/// The GPU form; NULL: the kernel does not take it.
static ir_kernel *form(kiln_arena *arena, const char *text, size_t instance) {
  kiln_target target = hopper();
  kiln_error err = {0};
  const ir_pass_options options = {.verify = true};
  ir_kernel *kernel = lower(arena, text, instance, &target);
  CHECK_OK(kiln_middle_promoting(kernel, &target, (kiln_promotion){.mark = kiln_gpu_promote}, &options, &err),
           err);
  if (!kiln_gpu_has_mapped(kernel)) return NULL;
  kiln_status status = kiln_gpu_form(kernel, &target, &options, &err);
  if (status == KILN_STATUS_UNSUPPORTED) return NULL;
  if (status != KILN_OK) FAIL("%s in\n%s", err.text, text);
  return kernel;
}

// -------------------------------------------------------------------------------------------- data

/// Small integers: no order of sums changes them.
static void fill(uint8_t *bytes, kiln_scalar scalar, size_t count, unsigned sparse, uint64_t *seed) {
  unsigned size = kiln_scalars[scalar].bytes;
  bool is_float = kiln_scalars[scalar].type_class & (KILN_CLASS_FLOAT | KILN_CLASS_FP8);
  for (size_t i = 0; i < count; i++) {
    int64_t value = (int64_t)(kiln_test_random(seed) >> 20) % 3;
    if (sparse && (kiln_test_random(seed) >> 20) % sparse) value = 0;
    uint64_t bits = is_float ? ir_float_to_bits(scalar, (double)value, true) : (uint64_t)value;
    memcpy(bytes + i * size, &bits, size);
  }
}

static void open_call(const sim_case *c, const ir_kernel *kernel, uint64_t seed, call *out) {
  size_t offset = 0;
  *out = (call){0};
  for (uint32_t i = 0; i < kernel->param_count; i++) {
    ir_type t = kernel->params[i].type;
    size_t size = t.pointer ? 8 : kiln_scalars[t.scalar].bytes;
    offset = (offset + size - 1) / size * size;
    uint64_t value = t.scalar == KILN_F32 ? ir_float_to_bits(KILN_F32, c->arguments[i], false)
                                          : (uint64_t)(int64_t)c->arguments[i];
    if (t.pointer) {
      size_t count = (size_t)c->arguments[i], bytes = count * kiln_scalars[t.scalar].bytes;
      out->sizes[i] = bytes;
      out->buffers[i] = aligned_alloc(64, (bytes + 127) / 64 * 64);
      CHECK(out->buffers[i] != NULL);
      if (kernel->params[i].access == IR_ACCESS_IN) fill(out->buffers[i], t.scalar, count, c->sparse, &seed);
      else memset(out->buffers[i], 0, bytes);
      value = (uintptr_t)out->buffers[i];
    }
    memcpy(out->args + offset, &value, size);
    offset += size;
  }
}

static void close_call(call *c) {
  for (unsigned i = 0; i < MOST_ARGUMENTS; i++) free(c->buffers[i]);
}

/// The first difference as text; "" when there is none.
static void compare(const ir_kernel *kernel, const call *got, const call *want, char *out, size_t size) {
  *out = 0;
  for (uint32_t i = 0; i < kernel->param_count && !*out; i++) {
    kiln_scalar scalar = kernel->params[i].type.scalar;
    unsigned bytes = kiln_scalars[scalar].bytes;
    for (size_t k = 0; k < got->sizes[i] && !*out; k += bytes) {
      uint64_t a = 0, b = 0;
      memcpy(&a, got->buffers[i] + k, bytes);
      memcpy(&b, want->buffers[i] + k, bytes);
      if (a != b)
        snprintf(out, size, "%s[%zu] is %g, expected %g", kernel->params[i].name, k / bytes,
                 number_of(scalar, a), number_of(scalar, b));
    }
  }
}

/// One schedule; what is wrong as text.
static void run_schedule(const sim_case *c, ir_kernel *kernel, const call *want, uint64_t seed, char *out,
                         size_t size) {
  call got;
  machine_sim_result result;
  uint32_t programs = c->grid[0] * c->grid[1] * c->grid[2];
  uint64_t random = seed;
  machine_sim_run run = {.grid = {c->grid[0], c->grid[1], c->grid[2]}, .seed = seed};
  run.blocks = 1 + (uint32_t)((kiln_test_random(&random) >> 20) % (programs + 1));
  if (run.blocks > 4) run.blocks = 4;
  if (c->blocks) run.blocks = c->blocks;
  open_call(c, kernel, 42, &got);
  run.args = got.args;
  machine_sim(kernel, &run, &result);
  if (result.is_good) compare(kernel, &got, want, out, size);
  else snprintf(out, size, "%s", result.text);
  close_call(&got);
}

static void reference(const sim_case *c, kiln_arena *arena, call *out) {
  kiln_target target = hopper();
  kiln_error err = {0};
  ir_kernel *plain = lower(arena, c->text, c->instance, &target);
  open_call(c, plain, 42, out);
  CHECK_OK(kiln_interpret(plain, out->args, c->grid, NULL, &err), err);
}

/// False: the kernel does not take the GPU form.
static bool check_case(const sim_case *c, uint64_t seed) {
  char wrong[400];
  kiln_arena *arena = kiln_arena_create();
  ir_kernel *kernel = form(arena, c->text, c->instance);
  if (kernel) {
    call want;
    reference(c, arena, &want);
    for (unsigned i = 0; i < c->schedules; i++) {
      run_schedule(c, kernel, &want, seed + i, wrong, sizeof wrong);
      if (*wrong)
        FAIL("%s, schedule %llu: %s in\n%s", c->name, (unsigned long long)(seed + i), wrong, c->text);
    }
    close_call(&want);
  }
  kiln_arena_destroy(arena);
  return kernel != NULL;
}

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
} matrix_config;

static const matrix_config small = {"BM = 64, BN = 64, BK = 32, warps = 4, stages = 3", 64, 64};
static const matrix_config two_groups = {"BM = 128, BN = 64, BK = 64, warps = 8, stages = 4", 128, 64};
static const matrix_config side_by_side = {"BM = 64, BN = 64, BK = 16, warps = 8, stages = 2", 64, 64};
static const matrix_config full = {"BM = 128, BN = 256, BK = 64, warps = 8, stages = 4", 128, 256};

/// kernels/gemm.kiln: gemm, or gemm_split_k where callers promise strides of 16 bytes.
static void check_matrix(const char *kernel, const char *type, const matrix_config *config, unsigned m,
                         unsigned n, unsigned k, unsigned schedules) {
  bool is_split = !strcmp(kernel, "gemm_split_k");
  char name[NAME], *text = library("tests/golden/gpu_form/gemm.kiln", small.text, config->text);
  char *promised = replaced(text, "N: i32, K: i32, parts", "N: i32, K: i32 @div(8), parts");
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

// ------------------------------------------------------------------------------------------ faults

/// A kernel's operations of some code, in order of the text.
typedef struct finding {
  ir_opcode code;
  uint32_t without; ///< flags
  unsigned wanted, count;
  ir_op *found;
} finding;

static void find_op(ir_op *op, void *context) {
  finding *f = context;
  if (op->code == f->code && !(op->attrs.flags & f->without) && f->count++ == f->wanted) f->found = op;
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
static void drop_op(ir_kernel *kernel, ir_op *op) { (void)kernel, drop(op); }
static void expect_more(ir_kernel *kernel, ir_op *op) { (void)kernel, op->attrs.bits += 16; }
static void expect_less(ir_kernel *kernel, ir_op *op) { (void)kernel, op->attrs.bits -= 16; }
static void wait_less(ir_kernel *kernel, ir_op *op) { (void)kernel, op->attrs.bits++; }
static void stay_async(ir_kernel *kernel, ir_op *op) { (void)kernel, op->attrs.flags |= IR_ASYNC; }

/// Always the first slot; of a ring of one slot, one that is not there. (The next slot would do no harm where
/// it only waits for longer.)
static void shift_slot(ir_kernel *kernel, ir_op *op) {
  uint32_t i = op->operand_count - 1;
  while (!op->operands[i]->type.slots) i--;
  if (op->code == IR_COPY) i -= 2;
  ir_builder b = builder_at(kernel, op);
  op->operands[i + 1] = ir_const_int(&b, KILN_I32, op->operands[i]->type.slots == 1);
}

/// A wait behind the product that it is for.
static void wait_late(ir_kernel *kernel, ir_op *op) {
  (void)kernel;
  ir_op *to = op->next;
  while (to && to->code != IR_MMA && to->code != IR_COPY && to->code != IR_FOR && to->code != IR_IF)
    to = to->next;
  CHECK(to != NULL);
  ir_move(op, op->block, to->next);
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
  uint32_t without; ///< flags of operations that cannot have it
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
    {"product in flight where it should end", IR_MMA, stay_async, IR_ASYNC},
    {"wait behind what it is for", IR_BAR_WAIT, wait_late},
    {"release before the product has read", IR_BAR_ARRIVE, arrive_early},
};

/// True when the fault number `f` at operation `which` is seen; false with `*out_exists` false when there is
/// no such operation.
static bool is_seen(const sim_case *c, const call *want, unsigned f, unsigned which, bool *out_exists) {
  char wrong[400] = "";
  kiln_arena *arena = kiln_arena_create();
  ir_kernel *kernel = form(arena, c->text, c->instance);
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

/// Rings that go round several times, several programs a block.
TEST(gpu_faults, product) {
  char *text = library("tests/golden/gpu_form/gemm.kiln", small.text, small.text);
  sim_case c = {.name = "gemm",
                .text = text,
                .arguments = {128 * 256, 64 * 256, 64, 128 * 64, 128, 64, 256, 256, 256, 64},
                .grid = {2, 1, 1},
                .blocks = 1,
                .schedules = 6};
  c.instance = instance_of(text, "gemm[T=bf16,ACT=0]");
  CHECK_INT(plant_faults(&(planting){&c, 1, ""}), 16); // all but those of mma_wait
  free(text);
}

/// Three slots, where loops begin in different ones; and two, with more masked blocks than slots. Early
/// releases that do no harm: of K in both loops, whose slot is filled behind one of V that is released later;
/// of the last V of a program, whose slot is filled behind the next program's Q.
TEST(gpu_faults, chained_products) {
  static const char *const configs[] = {"BM = 64, BN = 32, warps = 4, stages = 3",
                                        "BM = 128, BN = 32, warps = 8, stages = 2"};
  static const char unseen[] = "release before the product has read: 1\n"
                               "release before the product has read: 5\n"
                               "release before the product has read: 7\n";
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
  CHECK_INT(plant_faults(&(planting){cases, 2, unseen}), sizeof faults / sizeof *faults);
}

// ------------------------------------------------------------------------------------- loop nests

/// A generated nest, as text and as numbers.
typedef struct nest {
  uint64_t random;
  kiln_buffer text;
  const char *type;
  unsigned bm, bn, bk, depth, warps, stages, shape;
  bool a_turned, b_turned, in_registers, is_batched, to_memory, is_atomic;
  unsigned m, n, k, times;
} nest;

static unsigned any(nest *x, unsigned below) {
  return (unsigned)((kiln_test_random(&x->random) >> 20) % below);
}
static unsigned rounded(unsigned value) { return (value + 7) / 8 * 8; }

static const struct {
  const char *text;
  bool is_chained;
} shapes[] = {
    {"  for k in 0 .. K step BK { STEP(k) }\n", false},
    {"  let half = K / 2 / BK * BK\n"
     "  for k in 0 .. half step BK { STEP(k) }\n  for k in half .. K step BK { STEP(k) }\n",
     false},
    {"  for j in 0 .. times { for k in 0 .. K step BK { STEP(k) } }\n", false},
    {"  for j in 0 .. times { for k in j * BK .. K step BK { STEP(k) } }\n  for k in 0 .. K step BK { "
     "STEP(k) }\n",
     false},
    {"  if (pid(0) + pid(1)) % 2 == 0 { for k in 0 .. K step BK { STEP(k) } }\n", false},
    {"  if pid(0) > 0 { for k in 0 .. K step BK { STEP(k) } }\n  else { for k in BK .. K step BK { STEP(k) } "
     "}\n",
     false},
    {"  for k in 0 .. K step 2 * BK { STEP(k)\n STEP(k + BK) }\n", false},
    {"  for j in 0 .. times { if j != 1 { for k in 0 .. K step BK { STEP(k) } } }\n", false},
    {"  for j in 0 .. times {\n    var part = zeros(f32[BM, BN])\n"
     "    for k in 0 .. K step BK { PART(k) }\n    acc = acc + part * 2.0\n  }\n",
     false},
    {"  for k in 0 .. K step BK { CHAIN(k) }\n", true},
    {"  let plain = min(K, (pid(0) + 1) * BK)\n"
     "  for k in 0 .. plain step BK { CHAIN(k) }\n  for k in plain .. K step BK { CHAIN(k) }\n",
     true},
    {"  for j in 0 .. times { for k in 0 .. K step BK { CHAIN(k) } }\n", true},
    {"  if pid(0) != 1 { for k in 0 .. K step BK { CHAIN(k) } }\n", true},
};

/// An operand of a product: rows x columns of `view`, which lies the other way round when `turned`.
static void put_load(nest *x, char view, bool turned, const char *row, const char *column) {
  const char *z = x->is_batched ? "pid(2), " : "";
  if (turned) kiln_buffer_format(&x->text, "trans(load(%c, [%s%s, %s]))", view, z, column, row);
  else kiln_buffer_format(&x->text, "load(%c, [%s%s, %s])", view, z, row, column);
}

static void put_product(nest *x, const char *k, const char *sum) {
  kiln_buffer_format(&x->text, x->in_registers ? "%s = dot(twice(" : "%s = dot(", sum);
  put_load(x, 'A', x->a_turned, "m0", k);
  kiln_buffer_format(&x->text, x->in_registers ? "), " : ", ");
  put_load(x, 'B', x->b_turned, k, "n0");
  kiln_buffer_format(&x->text, ", %s)", sum);
}

/// Keys of the first product are V's rows in the second.
static void put_chain(nest *x, const char *k) {
  kiln_buffer_format(&x->text, "\n    let s = dot(q, ");
  put_load(x, 'B', true, "0", k);
  kiln_buffer_format(&x->text,
                     ", zeros(f32[BM, BK]))\n    total = total + reduce.add(s, 1)\n"
                     "    acc = dot(max(s - 1.0, 0.0) as %s, ",
                     x->type);
  put_load(x, 'V', false, k, "n0");
  kiln_buffer_format(&x->text, ", acc * 2.0)\n  ");
}

static void put_shape(nest *x) {
  for (const char *at = shapes[x->shape].text; *at;) {
    bool is_step = !strncmp(at, "STEP(", 5), is_part = !strncmp(at, "PART(", 5),
         is_chain = !strncmp(at, "CHAIN(", 6);
    if (!is_step && !is_part && !is_chain) {
      kiln_buffer_format(&x->text, "%c", *at++);
      continue;
    }
    char k[20] = "";
    at = strchr(at, '(') + 1;
    snprintf(k, sizeof k, "%.*s", (int)(strchr(at, ')') - at), at);
    at = strchr(at, ')') + 1;
    if (is_chain) put_chain(x, k);
    else put_product(x, k, is_part ? "part" : "acc");
  }
}

static void put_view(nest *x, char name, bool turned, const char *rows, const char *columns,
                     const char *tile_rows, const char *tile_columns) {
  const char *down = turned ? columns : rows, *across = turned ? rows : columns;
  const char *tile_down = turned ? tile_columns : tile_rows, *tile_across = turned ? tile_rows : tile_columns;
  char lower = (char)(name + 'a' - 'A');
  kiln_buffer_format(&x->text, "  let %c = view(%c, [", name, lower);
  if (x->is_batched)
    kiln_buffer_format(&x->text, "2, %s, %s], [%s as i64 * ld%c, ld%c, 1], [_, %s, %s])\n", down, across,
                       down, lower, lower, tile_down, tile_across);
  else
    kiln_buffer_format(&x->text, "%s, %s], [ld%c, 1], [%s, %s])\n", down, across, lower, tile_down,
                       tile_across);
}

static void write_nest(nest *x) {
  bool is_chained = shapes[x->shape].is_chained;
  kiln_buffer_format(
      &x->text,
      "kiln 1\nconst BM = %u\nconst BN = %u\nconst BK = %u\nconst D = %u\nfn twice(x) { return x + x }\n"
      "kernel nest(a: in *%s @align(16), b: in *%s @align(16), v: in *%s @align(16),\n"
      "    c: %s *%s @align(16), M: i32, N: i32, K: i32 @range(0, 65536), times: i32,\n"
      "    lda: i64 @div(8), ldb: i64 @div(8), ldv: i64 @div(8), ldc: i64 @div(8))\n"
      "  @grid(cdiv(M, BM), cdiv(N, BN), %u) @config(warps = %u, stages = %u)\n{\n",
      x->bm, x->bn, x->bk, x->depth, x->type, x->type, x->type, x->is_atomic ? "accum" : "out",
      x->to_memory ? x->type : "f32", x->is_batched ? 2 : 1, x->warps, x->stages);
  if (is_chained) {
    put_view(x, 'A', false, "M", "D", "BM", "D");
    put_view(x, 'B', true, "D", "K", "D", "BK");
    put_view(x, 'V', false, "K", "N", "BK", "BN");
  } else {
    put_view(x, 'A', x->a_turned, "M", "K", "BM", "BK");
    put_view(x, 'B', x->b_turned, "K", "N", "BK", "BN");
  }
  put_view(x, 'C', false, "M", "N", "BM", "BN");
  kiln_buffer_format(&x->text,
                     "  let m0 = pid(0) * BM\n  let n0 = pid(1) * BN\n  var acc = zeros(f32[BM, BN])\n");
  if (is_chained) {
    kiln_buffer_format(&x->text, "  var total = zeros(f32[BM])\n  let q = ");
    put_load(x, 'A', false, "m0", "0");
    kiln_buffer_format(&x->text, "\n");
  }
  put_shape(x);
  const char *place = x->is_batched ? "pid(2), m0, n0" : "m0, n0";
  if (is_chained) kiln_buffer_format(&x->text, "  acc = acc + total[:, _]\n");
  if (x->is_atomic) kiln_buffer_format(&x->text, "  atomic.add(C, [%s], acc)\n}\n", place);
  else
    kiln_buffer_format(&x->text, "  store(C, [%s], acc as %s)\n}\n", place, x->to_memory ? x->type : "f32");
  kiln_buffer_u8(&x->text, 0);
}

static void draw_nest(nest *x, uint64_t seed) {
  *x = (nest){.random = seed * 977 + 5};
  x->shape = any(x, sizeof shapes / sizeof *shapes);
  bool is_chained = shapes[x->shape].is_chained;
  x->type = any(x, 2) ? "bf16" : "f16";
  x->warps = any(x, 3) ? 4 : 8;
  x->bm = any(x, 3) ? 64 : 128;
  x->bn = 32u << any(x, 2);
  x->bk = is_chained ? 32u << any(x, 2) : 16u << any(x, 3);
  x->depth = 16u << any(x, 3);
  x->stages = 2 + any(x, 4);
  x->a_turned = any(x, 2);
  x->b_turned = any(x, 2);
  x->in_registers = !is_chained && !any(x, 4);
  x->is_batched = !any(x, 3);
  x->is_atomic = !any(x, 5);
  x->to_memory = !x->is_atomic && any(x, 3);
  x->m = 1 + any(x, 2 * x->bm);
  x->n = 1 + any(x, 2 * x->bn);
  x->k = any(x, 8) ? 1 + any(x, x->bk * 6) : 0;
  x->times = any(x, 4);
  write_nest(x);
}

/// Whether it takes the GPU form.
static bool check_nest(uint64_t seed) {
  nest x;
  char name[NAME];
  draw_nest(&x, seed);
  bool is_chained = shapes[x.shape].is_chained;
  unsigned batches = x.is_batched ? 2 : 1, k = x.k ? x.k : 1,
           row[3] = {x.a_turned ? x.m : k, x.b_turned ? k : x.n, x.n},
           rows[3] = {x.a_turned ? k : x.m, x.b_turned ? x.n : k, k};
  if (is_chained) row[0] = row[1] = x.depth, rows[0] = x.m, rows[1] = k;
  sim_case c = {.name = name,
                .text = (const char *)x.text.bytes,
                .grid = {blocks_of(x.m, x.bm), blocks_of(x.n, x.bn), batches},
                .schedules = 3,
                .sparse = 2};
  double arguments[] = {(double)batches * rows[0] * rounded(row[0]),
                        (double)batches * rows[1] * rounded(row[1]),
                        (double)batches * rows[2] * rounded(row[2]),
                        (double)batches * x.m * rounded(x.n),
                        x.m,
                        x.n,
                        x.k,
                        x.times,
                        rounded(row[0]),
                        rounded(row[1]),
                        rounded(row[2]),
                        rounded(x.n)};
  memcpy(c.arguments, arguments, sizeof arguments);
  snprintf(name, sizeof name, "nest %llu, %u x %u x %u, %u times", (unsigned long long)seed, x.m, x.n, x.k,
           x.times);
  bool is_taken = check_case(&c, seed);
  kiln_buffer_deinit(&x.text);
  return is_taken;
}

/// Most have to take the GPU form: nothing is shown of what the passes refuse.
TEST(gpu_nests, random) {
  unsigned count = kiln_test_full() ? 1000 : 60, taken = 0;
  for (unsigned i = 0; i < count; i++) taken += check_nest(i);
  printf("%u of %u nests took the GPU form\n", taken, count);
  CHECK(taken * 4 >= count * 3);
}
