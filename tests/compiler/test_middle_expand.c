// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares expansions with the meaning of the operation: every pattern of 8 and 16 bits, and many of 32 and
// 64, in the interpreter before and after. It also tests the table of legality: every operation that
// lowering leaves is native.
#include "compiler/interpreter/interpreter.h"
#include "compiler/passes/lower/legality.h"
#include "compiler/passes/stages.h"
#include "tests/kernelgen.h"
#include "tests/passes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG2_TILE = 10, TILE = 1 << LOG2_TILE, PROGRAMS = 64, COUNT = TILE * PROGRAMS };

static const char *const target_names[] = {"x86-64-v2", "x86-64-v3", "sm_75", "sm_90a", "gfx942", "gfx1100"};

static kiln_target target_of(const char *name) {
  kiln_target target;
  kiln_error err = {0};
  if (kiln_target_parse(name, &target, &err) != KILN_OK) FAIL("%s", err.text);
  return target;
}

/// What is applied to each element: an operation on one to three operands of one type.
typedef struct probe {
  ir_opcode code;
  kiln_scalar from, to;
  uint32_t operands, flags;
  ir_round round;
  bool moderate; ///< exponents near 0 only
} probe;

static ir_kernel *kernel_of(kiln_arena *arena, const probe *p) {
  ir_kernel *k = ir_kernel_create(arena, "probe");
  ir_builder b = {.arena = arena, .block = k->body};
  ir_value *values[3], *out = NULL;
  for (uint32_t i = 0; i < p->operands; i++)
    values[i] = ir_add_param(k, &(ir_param){.name = "in", .type = ir_pointer_type(p->from)});
  out = ir_add_param(k, &(ir_param){.name = "out", .type = ir_pointer_type(p->to)});
  ir_value *lanes = ir_iota(&b, LOG2_TILE),
           *pid = &ir_emit(&b, IR_PID, NULL, NULL, 0, NULL, NULL, 0)->results[0];
  ir_value *base = ir_binary(&b, IR_MUL, 0, pid, ir_const_int(&b, KILN_I32, TILE));
  ir_value *index = ir_binary(&b, IR_ADD, 0, lanes, ir_splat(&b, base, lanes->type));
  for (uint32_t i = 0; i < p->operands; i++) {
    ir_value *pointers = ir_binary(&b, IR_PTRADD, 0, ir_splat(&b, values[i], lanes->type), index);
    values[i] = &ir_emit(&b, IR_LOAD, NULL, &pointers, 1, NULL, NULL, 0)->results[0];
  }
  ir_attrs attrs = {.flags = p->flags, .round = (uint8_t)p->round};
  ir_type type = ir_with_element(lanes->type, ir_scalar_type(p->to));
  ir_op *op = ir_emit(&b, p->code, &attrs, values, p->operands, &type, NULL, 0);
  if (!op) FAIL("%s", b.error.text);
  ir_value *pointers = ir_binary(&b, IR_PTRADD, 0, ir_splat(&b, out, lanes->type), index);
  ir_emit(&b, IR_STORE, NULL, (ir_value *[]){pointers, &op->results[0]}, 2, NULL, NULL, 0);
  if (b.error.status != KILN_OK) FAIL("%s", b.error.text);
  return k;
}

/// Patterns of `bits` bits: all in turn, or for wide types random ones with many zeros, ones and near values
/// among them.
static uint64_t pattern(unsigned bits, uint64_t i, uint64_t *random) {
  if (bits <= 16) return i & ((1u << bits) - 1);
  uint64_t r = kiln_test_random(random);
  if (i % 5 == 0) r |= (uint64_t)0x7ff << 52 | 0xffu << 23;                // top exponents
  if (i % 7 == 0) r &= ~((uint64_t)0x7ff << 52) & ~((uint64_t)0xff << 23); // denormals
  if (i % 3 == 0) r &= ~(uint64_t)0 << (kiln_test_random(random) % bits);  // short mantissas: ties
  if (i % 11 == 0)
    r = (uint64_t)ir_float_to_bits(bits == 32 ? KILN_F32 : KILN_F64,
                                   (double)((int64_t)(r % 2000) - 1000) / 16, false);
  return bits == 32 ? r & 0xffffffff : r;
}

/// A double of full mantissa between 2^-32 and 2^32, so that sums cancel often.
static uint64_t moderate_pattern(uint64_t *random) {
  uint64_t r = kiln_test_random(random), exponent = 1023 - 32 + kiln_test_random(random) % 64;
  if (r % 3 == 0) r &= ~(uint64_t)0 << (kiln_test_random(random) % 52);
  return (r & 0x800fffffffffffff) | exponent << 52;
}

static void interpret(ir_kernel *k, uint8_t *const *buffers, uint32_t count) {
  kiln_error err = {0};
  if (kiln_interpret(k, buffers, (uint32_t[3]){PROGRAMS, 1, 1}, NULL, &err) != KILN_OK) FAIL("%s", err.text);
  (void)count;
}

static bool same(kiln_scalar scalar, uint64_t a, uint64_t b) {
  if (a == b) return true;
  if (!(kiln_scalars[scalar].type_class & (KILN_CLASS_FLOAT | KILN_CLASS_FP8))) return false;
  return isnan(ir_bits_to_float(scalar, a)) && isnan(ir_bits_to_float(scalar, b));
}

static void check_native(ir_op *op, void *context) {
  kiln_legality legality = kiln_legality_of(op, context);
  if (legality.legal != KILN_LEGAL_NATIVE) FAIL("%s is left: %s", ir_ops[op->code].text, legality.reason);
}

/// Runs the probe as written and expanded for `target`; every element must agree.
static void check_probe(const probe *p, const kiln_target *target) {
  kiln_arena *arena = kiln_arena_create();
  kiln_error err = {0};
  char name[KILN_TARGET_NAME];
  uint8_t *buffers[4], *expanded[4];
  size_t from = kiln_scalars[p->from].bytes, to = kiln_scalars[p->to].bytes;
  uint64_t random = p->code * 1000 + p->from * 50 + p->to;
  for (uint32_t i = 0; i <= p->operands; i++) buffers[i] = kiln_arena_alloc(arena, COUNT * 8);
  for (uint32_t i = 0; i < p->operands; i++)
    for (size_t k = 0; k < COUNT; k++) {
      uint64_t bits = p->moderate
                          ? moderate_pattern(&random)
                          : pattern(kiln_scalars[p->from].bits, i ? kiln_test_random(&random) : k, &random);
      memcpy(buffers[i] + k * from, &bits, from);
    }
  memcpy(expanded, buffers, sizeof expanded);
  expanded[p->operands] = kiln_arena_alloc(arena, COUNT * 8);
  ir_kernel *plain = kernel_of(arena, p), *lowered = kernel_of(arena, p);
  kiln_pass_context context = kiln_pass_context_of(target);
  if (kiln_pass_expand(lowered, &context, &err) != KILN_OK) FAIL("%s", err.text);
  if (ir_verify(lowered, "expand", &err) != KILN_OK) FAIL("%s", err.text);
  ir_walk(lowered->body, check_native, (void *)target);
  interpret(plain, buffers, p->operands + 1);
  interpret(lowered, expanded, p->operands + 1);
  for (size_t k = 0; k < COUNT; k++) {
    uint64_t want = 0, got = 0, in[3] = {0};
    memcpy(&want, buffers[p->operands] + k * to, to);
    memcpy(&got, expanded[p->operands] + k * to, to);
    for (uint32_t i = 0; i < p->operands; i++) memcpy(&in[i], buffers[i] + k * from, from);
    if (!same(p->to, want, got))
      FAIL("%s: %s %s -> %s (flags %u, round %u) of 0x%llx, 0x%llx, 0x%llx: expected 0x%llx, found 0x%llx",
           kiln_target_name(target, name), ir_ops[p->code].text, kiln_scalars[p->from].spelling,
           kiln_scalars[p->to].spelling, p->flags, p->round, (unsigned long long)in[0],
           (unsigned long long)in[1], (unsigned long long)in[2], (unsigned long long)want,
           (unsigned long long)got);
  }
  kiln_arena_destroy(arena);
}

static void check_casts(const char *name, ir_round round, uint32_t flags) {
  kiln_target target = target_of(name);
  for (unsigned from = 0; from < KILN_SCALAR_COUNT; from++)
    for (unsigned to = 0; to < KILN_SCALAR_COUNT; to++) {
      bool to_float = kiln_scalars[to].type_class & (KILN_CLASS_FLOAT | KILN_CLASS_FP8);
      bool to_fp8 = kiln_scalars[to].type_class & KILN_CLASS_FP8;
      if (from == to || from == KILN_I1 || (round == IR_ROUND_ZERO && !to_float) ||
          ((flags & IR_SATURATE_OFF) && !to_fp8))
        continue;
      probe p = {.code = IR_CAST,
                 .from = (kiln_scalar)from,
                 .to = (kiln_scalar)to,
                 .operands = 1,
                 .flags = flags,
                 .round = round};
      check_probe(&p, &target);
    }
}

TEST(expand, casts_without_half_instructions) { check_casts("x86-64-v2", IR_ROUND_NEAREST, 0); }
TEST(expand, casts_on_the_host) { check_casts("x86-64-v3", IR_ROUND_NEAREST, 0); }
TEST(expand, casts_toward_zero) { check_casts("x86-64-v2", IR_ROUND_ZERO, 0); }
TEST(expand, unsigned_casts) { check_casts("sm_90a", IR_ROUND_NEAREST, IR_UNSIGNED); }
TEST(expand, casts_that_do_not_saturate) { check_casts("gfx942", IR_ROUND_NEAREST, IR_SATURATE_OFF); }

/// A kernel of one asm (with `text`) or of the operation `code` (text NULL), after the middle.
static ir_kernel *unary_kernel(kiln_arena *arena, const char *text, ir_opcode code, const char *target_name,
                               kiln_status *status, kiln_error *err) {
  kiln_target target = target_of(target_name);
  ir_kernel *k = ir_kernel_create(arena, "unary");
  ir_builder b = {.arena = arena, .block = k->body};
  ir_value *in = ir_add_param(k, &(ir_param){.name = "in", .type = ir_pointer_type(KILN_F32)});
  ir_value *x = &ir_emit(&b, IR_LOAD, NULL, &in, 1, NULL, NULL, 0)->results[0],
           *one = ir_const_float(&b, KILN_F32, 1);
  ir_attrs attrs = {.assembly = {text, "=f,f", .pack = 1, .is_pure = true}};
  ir_type type = ir_scalar_type(KILN_F32);
  ir_value *y = text             ? &ir_emit(&b, IR_ASM, &attrs, &x, 1, &type, NULL, 0)->results[0]
                : code == IR_DIV ? ir_binary(&b, IR_DIV, 0, one, x)
                                 : ir_unary(&b, code, 0, x);
  ir_emit(&b, IR_STORE, NULL, (ir_value *[]){in, y}, 2, NULL, NULL, 0);
  *status = kiln_lower(k, &target, err);
  return k;
}

/// Well-known PTX becomes the operation that it stands for, and then whatever that becomes.
TEST(expand, single_instructions_of_ptx_are_operations) {
  static const struct {
    const char *text;
    ir_opcode code;
  } rows[] = {{"sin.approx.f32 $0, $1;", IR_SIN},
              {"cos.approx.ftz.f32 $0,$1;", IR_COS},
              {" tanh.approx.f32  $0, $1 ; ", IR_TANH},
              {"ex2.approx.ftz.f32 $0, $1;", IR_EXP2},
              {"lg2.approx.f32 $0, $1;", IR_LOG2},
              {"sqrt.approx.f32 $0, $1;", IR_SQRT},
              {"rsqrt.approx.f32 $0, $1", IR_RSQRT},
              {"rcp.approx.f32 $0, $1;", IR_DIV},
              {"abs.f32 $0, $1;", IR_ABS}};
  static const char *const foreign[] = {"x86-64-v3", "gfx942", "gfx1100"};
  for (size_t t = 0; t < sizeof foreign / sizeof *foreign; t++)
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
      kiln_arena *arena = kiln_arena_create();
      kiln_error err = {0};
      kiln_status status, reference;
      const ir_op *got = unary_kernel(arena, rows[i].text, 0, foreign[t], &status, &err)->body->first;
      const ir_op *want = unary_kernel(arena, NULL, rows[i].code, foreign[t], &reference, &err)->body->first;
      if (status != KILN_OK || reference != KILN_OK) FAIL("%s: %s", rows[i].text, err.text);
      for (; got && want; got = got->next, want = want->next)
        if (got->code != want->code)
          FAIL("%s for %s: expected %s, found %s", rows[i].text, foreign[t], ir_ops[want->code].text,
               ir_ops[got->code].text);
      CHECK(!got && !want);
      kiln_arena_destroy(arena);
    }
}

TEST(expand, other_assembly_is_refused_by_its_text) {
  static const char *const texts[] = {"sin.approx.f32 $0, $2;", "sin.approx.f32x $0, $1;",
                                      "ex2.approx.f32 $0, $1; trap;", "nop 0", ""};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    kiln_arena *arena = kiln_arena_create();
    kiln_error err = {0};
    kiln_status status;
    unary_kernel(arena, texts[i], 0, "gfx942", &status, &err);
    CHECK_INT(status, KILN_STATUS_UNSUPPORTED);
    CHECK(strstr(err.text, texts[i]) && strstr(err.text, "gfx942"));
    unary_kernel(arena, texts[i], 0, "sm_90a", &status, &err);
    CHECK_INT(status, KILN_OK);
    kiln_arena_destroy(arena);
  }
}

TEST(expand, remainders_are_exact) {
  kiln_target target = target_of("x86-64-v3");
  for (kiln_scalar s = KILN_F16; s <= KILN_F64; s++)
    check_probe(&(probe){.code = IR_REM, .from = s, .to = s, .operands = 2}, &target);
}

TEST(expand, fma_without_an_instruction_rounds_once) {
  kiln_target target = target_of("x86-64-v2");
  check_probe(&(probe){.code = IR_FMA, .from = KILN_F32, .to = KILN_F32, .operands = 3}, &target);
  check_probe(&(probe){.code = IR_FMA, .from = KILN_F64, .to = KILN_F64, .operands = 3, .moderate = true},
              &target);
}

TEST(expand, half_arithmetic_is_single_and_rounded) {
  static const ir_opcode codes[] = {IR_ADD, IR_SUB, IR_MUL,   IR_DIV,   IR_MIN, IR_MAX,
                                    IR_FMA, IR_ABS, IR_FLOOR, IR_ROUND, IR_SQRT};
  kiln_target target = target_of("sm_90a");
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    for (kiln_scalar s = KILN_F16; s <= KILN_BF16; s++)
      check_probe(&(probe){.code = codes[i],
                           .from = s,
                           .to = s,
                           .operands = (unsigned)ir_ops[codes[i]].least,
                           .flags = IR_PRECISE},
                  &target);
}

// ------------------------------------------------------------------------------------ the pipeline

TEST(middle, generated_kernels_become_native_everywhere) {
  for (size_t t = 0; t < sizeof target_names / sizeof *target_names; t++) {
    kiln_target target = target_of(target_names[t]);
    const kiln_test_range range = kiln_test_seeds(1, 60);
    for (uint64_t seed = range.first; seed <= range.last; seed++) {
      kiln_arena *arena = kiln_arena_create();
      kernelgen_case c;
      kiln_error err = {0};
      kernelgen_make(arena, seed, &(kernelgen_options){0}, &c);
      if (kiln_lower(c.kernel, &target, &err) != KILN_OK)
        FAIL("seed %llu for %s: %s", (unsigned long long)seed, target_names[t], err.text);
      ir_walk(c.kernel->body, check_native, &target);
      kiln_arena_destroy(arena);
    }
  }
}

static void run(const kernelgen_case *c, kernelgen_memory *memory) {
  kiln_error err = {0};
  kernelgen_memory_init(c, memory);
  if (kiln_interpret(c->kernel, memory->args, c->grid, &(kiln_interpret_options){.max_steps = 4000000},
                     &err) != KILN_OK)
    FAIL("seed %llu: %s", (unsigned long long)c->seed, err.text);
}

TEST(middle, generated_kernels_without_maths_mean_the_same) {
  kernelgen_options options = {.no_maths = true};
  for (size_t t = 0; t < sizeof target_names / sizeof *target_names; t++) {
    kiln_target target = target_of(target_names[t]);
    const kiln_test_range range = kiln_test_seeds(1, 40);
    for (uint64_t seed = range.first; seed <= range.last; seed++) {
      kiln_arena *arena = kiln_arena_create();
      kernelgen_case plain, lowered;
      kernelgen_memory a, b;
      kiln_error err = {0};
      char text[300];
      kernelgen_make(arena, seed, &options, &plain);
      kernelgen_make(arena, seed, &options, &lowered);
      if (kiln_lower(lowered.kernel, &target, &err) != KILN_OK) FAIL("%s", err.text);
      run(&plain, &a);
      run(&lowered, &b);
      if (!kernelgen_memory_equal(&plain, &a, &b, text, sizeof text)) FAIL("%s: %s", target_names[t], text);
      kernelgen_memory_deinit(&a);
      kernelgen_memory_deinit(&b);
      kiln_arena_destroy(arena);
    }
  }
}
