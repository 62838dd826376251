// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the recovery of views from tiles of pointers: how many accesses become views, and that the
// interpreter leaves the same memory with the kernel as written and as recovered. Memory is as large as the
// masks say, and nothing else may be touched.
#include <stdio.h>
#include <string.h>

#include "base/expr.h"
#include "compiler/front.h"
#include "compiler/interpreter/interpreter.h"
#include "compiler/passes/gpu/gpu.h"
#include "tests/passes.h"

enum {
  M = 27,
  N = 29,
  K = 37,
  LDA = 40,
  LDB = 48,
  LDC = 32,
  PLACES = 64 * 48,
  GUARD = 0x5a,
  BEFORE = 8 * LDA
};

/// What differs from the plain product; NULL: as there.
typedef struct form {
  const char *name;
  const char *before, *x, *y, *step, *store;
  unsigned accesses; ///< that become views
} form;

#define ROWS "(pid(0) * 16 + iota(16))"
#define X(row, mask) "load(a + (" row ")[:, _] * lda + (k + q)[_, :], " mask ", 0.0)"
#define Y(column, mask) "load(b + (k + q)[:, _] * ldb + (" column ")[_, :], " mask ", 0.0)"

static const form forms[] = {
    {.name = "plain", .accesses = 3},
    {.name = "carried pointers, masks of what is left",
     .before = "var pa = a + i[:, _] * lda + q[_, :]\n var pb = b + q[:, _] * ldb + j[_, :]",
     .x = "load(pa, (i < M)[:, _] & (q < K - k)[_, :], 0.0)",
     .y = "load(pb, (q < K - k)[:, _] & (j < N)[_, :], 0.0)",
     .step = "pa = pa + 16\n pb = pb + 16 * ldb",
     .accesses = 3},
    {.name = "carried offsets",
     .before = "var o = q",
     .x = "load(a + i[:, _] * lda + o[_, :], (i < M)[:, _] & (o < K)[_, :], 0.0)",
     .step = "o = o + 16",
     .accesses = 3},
    {.name = "modulo",
     .x = X("i % M", "((k + q) < K)[_, :]"),
     .y = Y("j % N", "(q < K - k)[:, _]"),
     .accesses = 3},
    {.name = "another row from the extent on",
     .x = X("select(i < M, i, 0)", "((k + q) < K)[_, :]"),
     .y = Y("select(N > j, j, 3)", "(q < K - k)[:, _]"),
     .accesses = 3},
    {.name = "the last row from the extent on",
     .x = X("min(i, M - 1)", "((k + q) < K)[_, :]"),
     .y = Y("select(j > N - 1, 0, j)", "(q < K - k)[:, _]"), // the other way round: not taken
     .accesses = 2},
    {.name = "another row above the last one",
     .x = X("select(M - 1 >= i, i, 2)", "((k + q) < K)[_, :]"),
     .y = Y("min(N - 1, j)", "(q < K - k)[:, _]"),
     .accesses = 3},
    {.name = "another row, of what is not compared",
     .x = X("select(i < M, i + 1, 0)", "((k + q) < K)[_, :]"),
     .accesses = 2},
    {.name = "another row where it is not the extent",
     .x = X("select(i <= M, i, 0)", "((k + q) < K)[_, :]"),
     .accesses = 2},
    {.name = "another row, and rows beyond are stored",
     .x = X("select(i < M, i, 0)", "((k + q) < K)[_, :]"),
     .store = "store(c + i[:, _] * ldc + j[_, :], acc, (j < N)[_, :])",
     .accesses = 2},
    {.name = "the second operand lies transposed",
     .y = "load(b + (k + q)[:, _] + j[_, :] * ldb, (K > k + q)[:, _] & (j <= N - 1)[_, :], 0.0)",
     .accesses = 3},
    {.name = "an operand through trans",
     .y = "trans(load(b + j[:, _] * ldb + (k + q)[_, :], (j < N)[:, _] & ((k + q) < K)[_, :], 0.0))",
     .accesses = 3},
    {.name = "rows inside for sure",
     .x =
         "load(a + i[:, _] * lda + (k + q)[_, :], ((k + q) < K)[_, :] & (i >= 0)[:, _] & (i < M)[:, _], 0.0)",
     .accesses = 3},
    {.name = "no mask along the rows", .y = Y("q", "((k + q) < K)[:, _]"), .accesses = 3},
    {.name = "a matrix of several",
     .x = "load(a + pid(1) * 8 * lda + i[:, _] * lda + (k + q)[_, :], (i < M - 16)[:, _] & ((k + q) < K)[_, "
          ":], 0.0)",
     .accesses = 3},
    {.name = "other values outside",
     .x = "load(a + i[:, _] * lda + (k + q)[_, :], (i < M)[:, _] & ((k + q) < K)[_, :], 1.0)",
     .accesses = 2},
    {.name = "negative rows", // which are there: `a` points into its memory
     .x = "load(a + (i - pid(1) * 5)[:, _] * lda + (k + q)[_, :], (i - pid(1) * 5 < M)[:, _] & ((k + q) < "
          "K)[_, "
          ":], 0.0)",
     .accesses = 2},
    {.name = "modulo, and rows beyond are stored",
     .x = X("i % M", "((k + q) < K)[_, :]"),
     .store = "store(c + i[:, _] * ldc + j[_, :], acc, (j < N)[_, :])",
     .accesses = 2},
    {.name = "modulo, and the store holds another bound",
     .x = X("i % M", "((k + q) < K)[_, :]"),
     .store = "store(c + i[:, _] * ldc + j[_, :], acc, (i < M + 1)[:, _] & (j < N)[_, :])",
     .accesses = 2},
    {.name = "modulo, and rows are summed",
     .x = X("i % M", "((k + q) < K)[_, :]"),
     .store = "store(c + i[:, _] * ldc + j[_, :], acc + reduce.add(acc, axis = 0)[_, :], (i < M)[:, _] & (j "
              "< N)[_, :])",
     .accesses = 2},
    {.name = "modulo, of the reduced index",
     .x = "load(a + i[:, _] * lda + ((k + q) % K)[_, :], (i < M)[:, _], 0.0)",
     .accesses = 2},
    {.name = "modulo, twice",
     .x = "load(a + (i % M)[:, _] * lda + i[:, _] + (k + q)[_, :], (k + q < K - 27)[_, :], 0.0)",
     .accesses = 2},
    {.name = "a bound along both axes",
     .x = "load(a + i[:, _] * lda + (k + q)[_, :], (i[:, _] + (k + q)[_, :]) < M, 0.0)",
     .accesses = 2},
    {.name = "either of two bounds",
     .x = "load(a + i[:, _] * lda + (k + q)[_, :], (i < M)[:, _] & (((k + q) < K)[_, :] | (i < 3)[:, _]), "
          "0.0)",
     .accesses = 2},
    {.name = "steps that grow",
     .before = "var pa = a + i[:, _] * lda + q[_, :]",
     .x = "load(pa, (i < M)[:, _] & (q < K - k)[_, :], 0.0)",
     .step = "pa = pa + k / 2 + 8",
     .accesses = 2},
    {.name = "a diagonal",
     .x = "load(a + i[:, _] * lda + (k + q)[_, :] * 0, (i < M)[:, _] & ((k + q) < K)[_, :], 0.0)",
     .accesses = 2},
};

static const char *text_of(const char *given, const char *usual) { return given ? given : usual; }

static ir_kernel *kernel_of(kiln_arena *arena, const form *f, const kiln_target *target) {
  static char text[2000];
  kiln_diagnostics d = {.arena = arena};
  int size = snprintf(
      text, sizeof text,
      "kiln 1\nkernel product(a: in *f16, b: in *f16, c: out *f32, M: i32, N: i32, K: i32, lda: i32, ldb: "
      "i32,\n"
      " ldc: i32) @grid(2, 2) @config(warps = 4) {\n"
      " let i = " ROWS "\n let j = pid(1) * 16 + iota(16)\n let q = iota(16)\n var acc = zeros(f32[16, 16])\n"
      " %s\n for k in 0 .. K step 16 {\n  let x = %s\n  let y = %s\n  acc = dot(x, y, acc)\n  %s\n }\n "
      "%s\n}\n",
      text_of(f->before, ""), text_of(f->x, X("i", "(i < M)[:, _] & ((k + q) < K)[_, :]")),
      text_of(f->y, Y("j", "((k + q) < K)[:, _] & (j < N)[_, :]")), text_of(f->step, ""),
      text_of(f->store, "store(c + i[:, _] * ldc + j[_, :], acc, (i < M)[:, _] & (j < N)[_, :])"));
  kiln_unit *unit = kiln_unit_open(arena, "t.kiln", text, (size_t)size, NULL, &d);
  ir_kernel *kernel = unit ? kiln_unit_lower(unit, arena, 0, 0, 0, target, &d) : NULL;
  if (!kernel) FAIL("%s: %u:%u: %s\n%s", f->name, d.items[0].line, d.items[0].column, d.items[0].text, text);
  return kernel;
}

typedef struct memory {
  uint16_t a[PLACES], b[PLACES];
  float c[PLACES];
} memory;

static void run(const form *f, ir_kernel *kernel, memory *m) {
  struct {
    void *a, *b, *c;
    int32_t m, n, k, lda, ldb, ldc;
  } args = {m->a + BEFORE, m->b, m->c, M, N, K, LDA, LDB, LDC};
  kiln_memory_range ranges[] = {{m->a, sizeof m->a}, {m->b, sizeof m->b}, {m->c, sizeof m->c}};
  kiln_interpret_options options = {.ranges = ranges, .range_count = 3};
  kiln_error err = {0};
  for (int i = 0; i < PLACES; i++) {
    m->a[i] = (uint16_t)(0x3c00 + i * 7 % 1024); // 1 to 2
    m->b[i] = (uint16_t)(0xbc00 + i * 5 % 2048);
  }
  memset(m->c, GUARD, sizeof m->c);
  if (kiln_interpret(kernel, &args, (uint32_t[3]){2, 2, 1}, &options, &err) != KILN_OK)
    FAIL("%s: %s", f->name, err.text);
}

static void check_form(const form *f) {
  static memory plain, recovered;
  kiln_arena *arena = kiln_arena_create();
  kiln_target target;
  kiln_error err = {0};
  CHECK_OK(kiln_target_parse("sm_90a", &target, &err), err);
  run(f, kernel_of(arena, f, &target), &plain);
  ir_kernel *kernel = kernel_of(arena, f, &target);
  kiln_test_pass(kiln_pass_open_views, kernel);
  unsigned found = kiln_gpu_recover_views(kernel, NULL);
  if (found != f->accesses) FAIL("%s: expected %u accesses as views, found %u", f->name, f->accesses, found);
  CHECK_OK(ir_verify(kernel, f->name, &err), err);
  run(f, kernel, &recovered);
  if (memcmp(plain.c, recovered.c, sizeof plain.c)) FAIL("%s: the results differ", f->name);
  kiln_arena_destroy(arena);
}

TEST(recover, views_do_what_the_pointers_did) {
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) check_form(&forms[i]);
}

TEST(recover, nothing_is_made_without_products) {
  static const char text[] =
      "kiln 1\nkernel copy(a: in *f16, c: out *f16, n: i32) @grid(1) @config(warps = 1) {\n"
      " let i = iota(16)[:, _] * n + iota(16)[_, :]\n store(c + i, load(a + i))\n}\n";
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  kiln_unit *unit = kiln_unit_open(arena, "t.kiln", text, sizeof text - 1, NULL, &d);
  CHECK(unit);
  ir_kernel *kernel = kiln_unit_lower(unit, arena, 0, 0, 0, NULL, &d);
  CHECK(kernel);
  CHECK_INT(kiln_gpu_recover_views(kernel, NULL), 0);
  kiln_arena_destroy(arena);
}

static bool launch_holds(const ir_kernel *kernel, const int64_t *values) {
  kiln_buffer code = {0};
  int64_t zero;
  kiln_write_conditions(kernel, &code);
  CHECK(kiln_expr_verify(code.bytes, code.size, kernel->param_count));
  const bool holds = kiln_expr_eval(code.bytes, code.size, values, &zero);
  CHECK(!holds || !zero);
  kiln_buffer_deinit(&code);
  return holds;
}

/// Sizes around those at which offsets of 32 bits wrap: the launch is refused where one does that a mask
/// leaves, and taken where none does, even of lanes that masks take away.
TEST(recover, the_launch_tests_what_would_wrap) {
  enum { DRAWS = 4000, BEYOND = 64 };
  kiln_arena *arena = kiln_arena_create();
  kiln_target target;
  kiln_error err = {0};
  unsigned taken = 0, refused = 0;
  CHECK_OK(kiln_target_parse("sm_90a", &target, &err), err);
  ir_kernel *kernel = kernel_of(arena, &forms[0], &target);
  kiln_test_pass(kiln_pass_open_views, kernel);
  CHECK_INT(kiln_gpu_recover_views(kernel, NULL), (int)forms[0].accesses);
  for (uint64_t seed = 1; seed <= DRAWS; seed++) {
    uint64_t random = seed;
    int64_t v[9] = {0}; // a, b, c, M, N, K, lda, ldb, ldc
    for (unsigned i = 3; i < 9; i++)
      v[i] = 1 + (int64_t)(kiln_test_random(&random) >> 40 >> kiln_test_random(&random) % 20);
    const int64_t m = v[3], k = v[5], lda = v[6], ldb = v[7], ldc = v[8];
    const bool wraps = (m - 1) * lda > INT32_MAX || (k - 1) * ldb > INT32_MAX || (m - 1) * ldc > INT32_MAX;
    const bool never =
        (m + BEYOND) * lda <= INT32_MAX && (k + BEYOND) * ldb <= INT32_MAX && (m + BEYOND) * ldc <= INT32_MAX;
    const bool holds = launch_holds(kernel, v);
    if (holds ? wraps : never)
      FAIL("seed %llu: M %lld, K %lld, strides %lld, %lld, %lld: %s", (unsigned long long)seed, (long long)m,
           (long long)k, (long long)lda, (long long)ldb, (long long)ldc, holds ? "taken" : "refused");
    taken += holds, refused += !holds;
  }
  CHECK(taken > DRAWS / 10 && refused > DRAWS / 10);
  kiln_arena_destroy(arena);
}

// ---------------------------------------------------------------------------- a kernel that takes several tiles

#define TILE(t, i, j)                                        \
  " let g" t " = " t " / (row * 4) * 4\n"                    \
  " let h" t " = min(rows - g" t ", 4)\n"                    \
  " let " i " = (g" t " + " t " % h" t ") * 64 + iota(64)\n" \
  " let " j " = " t " % (row * 4) / h" t " * 64 + iota(64)\n"

static const char tiles[] =
    "kiln 1\nkernel tiles(a: in *f16 @align(16), b: in *f16 @align(16), c: out *f16 @align(16), M: i32, N: "
    "i32, K: i32,\n"
    "  lda: i32 @div(8), ldb: i32 @div(8), ldc: i32 @div(8)) @grid(3) @config(warps = 4) {\n"
    " let rows = (M + 63) / 64\n let row = (N + 63) / 64\n let q = iota(32)\n var s = pid(0) - 3\n"
    " for t in pid(0) .. rows * row step 3 {\n" TILE("t", "i", "j") //
    " let x = select(i < M, i, 0)\n let y = select(j < N, j, 0)\n var acc = zeros(f32[64, 64])\n"
    " for k in 0 .. K step 32 {\n"
    "  acc = dot(load(a + x[:, _] * lda + (k + q)[_, :], (q < K - k)[_, :], 0.0),\n"
    "            load(b + (k + q)[:, _] + y[_, :] * ldb, (q < K - k)[:, _], 0.0), acc)\n }\n"
    " s = s + 3\n" TILE("s", "m", "n") //
    " store(c + m[:, _] * ldc + n[_, :], acc as f16, (m < M)[:, _] & (n < N)[_, :])\n }\n}\n";

static ir_kernel *kernel_of_tiles(kiln_arena *arena, const char *text, const kiln_target *target) {
  kiln_diagnostics d = {.arena = arena};
  kiln_unit *unit = kiln_unit_open(arena, "t.kiln", text, strlen(text), NULL, &d);
  ir_kernel *kernel = unit ? kiln_unit_lower(unit, arena, 0, 0, 0, target, &d) : NULL;
  if (!kernel) FAIL("%u:%u: %s in\n%s", d.items[0].line, d.items[0].column, d.items[0].text, text);
  return kernel;
}

static void count_views(ir_op *op, void *context) {
  *(unsigned *)context += op->code == IR_VIEW_LOAD || op->code == IR_VIEW_STORE;
}

static void run_tiles(ir_kernel *kernel, int32_t m, int32_t n, memory *at) {
  struct {
    void *a, *b, *c;
    int32_t m, n, k, lda, ldb, ldc;
  } args = {at->a, at->b, at->c, m, n, 20, 8, 8, (n + 7) / 8 * 8}; // rows overlap
  kiln_memory_range ranges[] = {
      {at->a, (size_t)m * 16 + 24}, {at->b, (size_t)n * 16 + 24}, {at->c, sizeof at->c}};
  kiln_interpret_options options = {.ranges = ranges, .range_count = 3};
  kiln_error err = {0};
  for (int i = 0; i < PLACES; i++) {
    at->a[i] = (uint16_t)(0x3c00 + i * 7 % 1024); // 1 to 2
    at->b[i] = (uint16_t)(0xbc00 + i * 5 % 2048);
  }
  memset(at->c, GUARD, sizeof at->c);
  CHECK_OK(kiln_interpret(kernel, &args, (uint32_t[3]){3, 1, 1}, &options, &err), err);
}

/// One row of tiles after another; the launch says how many programs take part.
static const char rows_of_tiles[] =
    "kiln 1\nkernel tiles(a: in *f16 @align(16), b: in *f16 @align(16), c: out *f16 @align(16), M: i32, N: "
    "i32, K: i32,\n"
    "  lda: i32 @div(8), ldb: i32 @div(8), ldc: i32 @div(8)) @grid(3) @config(warps = 4) {\n"
    " let rows = (M + 63) / 64\n let row = (N + 63) / 64\n let q = iota(32)\n var s = pid(0) - npid(0)\n"
    " for t in pid(0) .. rows * row step npid(0) {\n"
    " let i = t / row * 64 + iota(64)\n let j = t % row * 64 + iota(64)\n"
    " let x = min(i, M - 1)\n let y = select(j <= N - 1, j, 0)\n var acc = zeros(f32[64, 64])\n"
    " for k in 0 .. K step 32 {\n"
    "  acc = dot(load(a + x[:, _] * lda + (k + q)[_, :], (q < K - k)[_, :], 0.0),\n"
    "            load(b + (k + q)[:, _] + y[_, :] * ldb, (q < K - k)[:, _], 0.0), acc)\n }\n"
    " s = s + npid(0)\n let m = s / row * 64 + iota(64)\n let n = s % row * 64 + iota(64)\n"
    " store(c + m[:, _] * ldc + n[_, :], acc as f16, (m < M)[:, _] & (n < N)[_, :])\n }\n}\n";

static ir_kernel *recovered_tiles(kiln_arena *arena, const char *text, const kiln_target *target) {
  kiln_error err = {0};
  unsigned views = 0;
  ir_kernel *kernel = kernel_of_tiles(arena, text, target);
  kiln_test_pass(kiln_pass_open_views, kernel);
  kiln_pass_context context = kiln_pass_context_of(target);
  context.mapping = KILN_MAP_RECOVER | KILN_MAP_PROMOTE;
  CHECK_OK(kiln_pass_recover(kernel, &context, &err), err);
  CHECK_OK(ir_verify(kernel, "recover", &err), err);
  ir_walk(kernel->body, count_views, &views);
  CHECK_INT(views, 3);
  return kernel;
}

/// The position of a tile follows from its number by divisions that ranges do not bound, and the store counts tiles by
/// a number of its own. The launch tests that extents are not negative, nor too large.
TEST(recover, tiles_by_their_number) {
  static memory plain, recovered;
  static const int32_t sizes[][2] = {{300, 8}, {5, 300}, {70, 40}, {290, 3}, {1, 1}, {64, 7}};
  const char *const texts[2] = {tiles, rows_of_tiles};
  kiln_arena *arena = kiln_arena_create();
  kiln_target target;
  kiln_error err = {0};
  ir_kernel *kernel = NULL;
  CHECK_OK(kiln_target_parse("sm_90a", &target, &err), err);
  for (unsigned which = 2; which-- > 0;) {
    kernel = recovered_tiles(arena, texts[which], &target);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      run_tiles(kernel_of_tiles(arena, texts[which], &target), sizes[i][0], sizes[i][1], &plain);
      run_tiles(kernel, sizes[i][0], sizes[i][1], &recovered);
      if (memcmp(plain.c, recovered.c, sizeof plain.c))
        FAIL("%d x %d: the results differ", sizes[i][0], sizes[i][1]);
    }
  }
  static const int64_t launches[][7] = {// M, N, K, lda, ldb, ldc, whether it is taken
                                        {4096, 4096, 4096, 4096, 4096, 4096, 1},
                                        {0, 5, 0, 8, 8, 8, 1},
                                        {-1, 5, 8, 8, 8, 8, 0},
                                        {5, -64, 8, 8, 8, 8, 0},
                                        {INT32_MAX, 5, 8, 1, 8, 8, 0},
                                        {65536, 64, 40000, 40000, 40000, 64, 0}};
  for (size_t i = 0; i < sizeof launches / sizeof *launches; i++) {
    int64_t v[9] = {0};
    memcpy(v + 3, launches[i], 6 * sizeof *v);
    if (launch_holds(kernel, v) != (bool)launches[i][6])
      FAIL("launch %zu is %s", i, launches[i][6] ? "refused" : "taken");
  }
  kiln_arena_destroy(arena);
}
