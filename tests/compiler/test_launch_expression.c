// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests launch expressions for values that the IR computes in 32 bits: sizes of tensor maps wrap as the
// kernel's numbers do, and where passes assumed that a number does not wrap, the launch tests it.
#include "base/expr.h"
#include "compiler/passes/gpu/gpu.h"
#include "tests/harness.h"

enum { PARAMS = 4, KERNELS = 400, CALLS = 20 };

/// A number of the parameters by C's arithmetic, and the same as IR.
typedef struct drawn {
  ir_value *ir;
  int64_t values[CALLS];
} drawn;

static int64_t wrapped(int64_t v) { return (int32_t)(uint32_t)(uint64_t)v; }

static drawn draw(ir_builder *b, const drawn *params, uint64_t *random, unsigned depth) {
  const uint64_t r = kiln_test_random(random) >> 20;
  drawn out = {NULL};
  if (!depth || r % 4 == 0) {
    if (r % 8 < 6) return params[r / 8 % PARAMS];
    const int64_t constant = (int32_t)(r / 8 % 2 ? kiln_test_random(random) : r / 16 % 200);
    out.ir = ir_const_int(b, KILN_I32, constant);
    for (unsigned i = 0; i < CALLS; i++) out.values[i] = constant;
    return out;
  }
  static const ir_opcode codes[] = {IR_ADD, IR_SUB, IR_MUL, IR_MIN, IR_MAX, IR_SHL};
  const ir_opcode code = codes[r / 4 % 6];
  const drawn x = draw(b, params, random, depth - 1);
  drawn y = draw(b, params, random, depth - 1);
  if (code == IR_SHL) {
    const int64_t by = (int64_t)(r / 64 % 32);
    y.ir = ir_const_int(b, KILN_I32, by);
    for (unsigned i = 0; i < CALLS; i++) y.values[i] = by;
  }
  out.ir = ir_binary(b, code, 0, x.ir, y.ir);
  for (unsigned i = 0; i < CALLS; i++) {
    const int64_t a = x.values[i], c = y.values[i];
    out.values[i] = code == IR_ADD   ? wrapped(a + c)
                    : code == IR_SUB ? wrapped(a - c)
                    : code == IR_MUL ? wrapped(a * c)
                    : code == IR_MIN ? (a < c ? a : c)
                    : code == IR_MAX ? (a > c ? a : c)
                                     : wrapped((int64_t)((uint64_t)a << c));
  }
  return out;
}

static int64_t argument(uint64_t *random) {
  static const int32_t ends[] = {INT32_MAX, INT32_MIN, -1, 0, 1, 65536, 46341, 1 << 30};
  const uint64_t r = kiln_test_random(random) >> 20;
  return r % 3 == 0   ? ends[r / 3 % 8]
         : r % 3 == 1 ? (int64_t)(r / 3 % 5000)
                      : (int32_t)kiln_test_random(random);
}

TEST(launch_expression, wraps_as_the_kernel_does) {
  unsigned written = 0;
  for (uint64_t seed = 1; seed <= KERNELS; seed++) {
    kiln_arena *arena = kiln_arena_create();
    ir_kernel *kernel = ir_kernel_create(arena, "k");
    uint64_t random = seed;
    drawn params[PARAMS];
    for (unsigned p = 0; p < PARAMS; p++) {
      ir_param param = {.type = ir_scalar_type(KILN_I32), .has_range = p & 1, .lo = 0, .hi = INT32_MAX};
      params[p].ir = ir_add_param(kernel, &param);
      for (unsigned i = 0; i < CALLS; i++) {
        const int64_t v = argument(&random);
        params[p].values[i] = p & 1 && v < 0 ? -(v + 1) : v;
      }
    }
    ir_builder b = {.arena = arena, .block = kernel->body};
    const drawn x = draw(&b, params, &random, 1 + seed % 3);
    kiln_buffer code = {0};
    const bool is_written = kiln_launch_expression(kernel, ir_cast(&b, x.ir, KILN_I64, 0, 0), 1, &code);
    if (is_written) CHECK(kiln_expr_verify(code.bytes, code.size, PARAMS));
    written += is_written;
    for (unsigned i = 0; i < CALLS && is_written; i++) {
      int64_t values[PARAMS], got;
      for (unsigned p = 0; p < PARAMS; p++) values[p] = params[p].values[i];
      CHECK(kiln_expr_eval(code.bytes, code.size, values, &got));
      if (got != x.values[i])
        FAIL("seed %llu, call %u: %lld, expected %lld", (unsigned long long)seed, i, (long long)got,
             (long long)x.values[i]);
    }
    kiln_buffer_deinit(&code);
    kiln_arena_destroy(arena);
  }
  CHECK(written > KERNELS / 2);
}
