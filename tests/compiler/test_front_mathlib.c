// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares the mathematical library with libm in long double: units in the last place over sweeps of bit
// patterns, and the edge cases.
#include "tests/compiler/mathlib_sweep.h"

static long double rsqrt_of(long double x) { return 1 / sqrtl(x); }
static long double sigmoid_of(long double x) { return 1 / (1 + expl(-x)); }
static long double erfinv_of(long double x) {
  long double lo = x * 0.88L, hi = x * 8;
  if (x < 0) hi = x * 0.88L, lo = x * 8;
  for (int i = 0; i < 80; i++) {
    long double mid = (lo + hi) / 2;
    erfl(mid) < x ? (lo = mid) : (hi = mid);
  }
  return (lo + hi) / 2;
}

static const function singles[] = {
    {"soft_exp2(x)", exp2l, 0, INFINITY, 1.5, false},
    {"soft_exp(x)", expl, 0, INFINITY, 1.5, false},
    {"expm1(x)", expm1l, 0, INFINITY, 2, false},
    {"soft_log2(x)", log2l, 0, INFINITY, 2, false},
    {"log(x)", logl, 0, INFINITY, 3, false},
    {"log1p(x)", log1pl, 0, INFINITY, 3, false},
    {"soft_sin(x)", sinl, 0, INFINITY, 2, false},
    {"soft_cos(x)", cosl, 0, INFINITY, 2, false},
    {"tan(x)", tanl, 0, INFINITY, 4, false},
    {"soft_tanh(x)", tanhl, 0, INFINITY, 3, false},
    {"precise_tanh(x)", tanhl, 0, INFINITY, 2.5, false},
    {"soft_erf(x)", erfl, 0, INFINITY, 2, false},
    {"precise_erf(x)", erfl, 0, INFINITY, 2, false},
    {"erfc(x)", erfcl, 0, INFINITY, 8, false},
    {"sinh(x)", sinhl, 0, INFINITY, 4, false},
    {"cosh(x)", coshl, 0, INFINITY, 4, false},
    {"asinh(x)", asinhl, 0, INFINITY, 5, false},
    {"acosh(x)", acoshl, 1, INFINITY, 5, true},
    {"atanh(x)", atanhl, 0, 1, 5, false},
    {"atan(x)", atanl, 0, INFINITY, 3, false},
    {"asin(x)", asinl, 0, 1, 3, false},
    {"acos(x)", acosl, 0, 1, 3, false},
    {"cbrt(x)", cbrtl, 0, INFINITY, 4, false},
    {"soft_rsqrt(x)", rsqrt_of, 0, INFINITY, 2, true},
    {"sigmoid(x)", sigmoid_of, 0, 40, 40, false},
    {"exp(x)", expl, 0, 80, 64, false},
    {"tgamma(x)", tgammal, 0, 34, 4, false},
    {"erfinv(x)", erfinv_of, 0, 0.999999, 8, false},
};

static const function doubles[] = {
    {"soft_exp2(x)", exp2l, 0, INFINITY, 2, false},
    {"soft_exp(x)", expl, 0, INFINITY, 2, false},
    {"expm1(x)", expm1l, 0, INFINITY, 3, false},
    {"soft_log2(x)", log2l, 0, INFINITY, 4, false},
    {"log(x)", logl, 0, INFINITY, 3, false},
    {"log1p(x)", log1pl, 0, INFINITY, 4, false},
    {"soft_sin(x)", sinl, 0, INFINITY, 2, false},
    {"soft_cos(x)", cosl, 0, INFINITY, 2, false},
    {"tan(x)", tanl, 0, INFINITY, 4, false},
    {"soft_tanh(x)", tanhl, 0, INFINITY, 3, false},
    {"soft_erf(x)", erfl, 0, INFINITY, 3, false},
    {"erfc(x)", erfcl, 0, 26, 24, false},
    {"atan(x)", atanl, 0, INFINITY, 4, false},
    {"asin(x)", asinl, 0, 1, 4, false},
    {"acos(x)", acosl, 0, 1, 4, false},
    {"cbrt(x)", cbrtl, 0, INFINITY, 6, false},
};

// The f64 from 2^50 on that lie nearest to multiples of pi/2, from continued fractions of 2^e * 2/pi for each e: of
// their sine or cosine the fewest bits are left.
TEST(mathlib, f64_next_to_multiples_of_a_quarter_turn) {
  static const struct {
    double m;
    int e;
  } hard[] = {{6381956970095103, 797}, {6381956970095103, 798}, {5916243447979695, 79},
              {6381956970095103, 799}, {8444920710073313, 939}, {5850965514341686, 525},
              {8160885118204141, 808}, {8360820580228475, 628}, {8583082635084172, 145},
              {7958046405119485, 243}, {5916243447979695, 80},  {6808218460873451, 562}};
  static const function functions[] = {{"soft_sin(x)", sinl, 0, 0, 2, false},
                                       {"soft_cos(x)", cosl, 0, 0, 2, false}};
  enum { HARD = sizeof hard / sizeof *hard };
  static double x[TILE], y[TILE];
  for (int i = 0; i < 2 * HARD; i++) x[i] = (i % 2 ? -1 : 1) * ldexp(hard[i / 2].m, hard[i / 2].e);
  for (unsigned f = 0; f < 2; f++) {
    run("f64", functions[f].text, x, x, y, TILE, sizeof *x);
    for (int i = 0; i < 2 * HARD; i++) {
      double u = ulps(y[i], functions[f].exact(x[i]), 53, -1021, 1);
      if (!(u <= functions[f].ulps)) FAIL("%s of %a: %a, %.2f ulp", functions[f].text, x[i], y[i], u);
    }
  }
}

TEST(mathlib, f32) {
  size_t count = kiln_test_full() ? 1 << 19 : 64 << 10;
  for (size_t i = 0; i < sizeof singles / sizeof *singles; i++) sweep_single(&singles[i], count);
}

TEST(mathlib, f64) {
  size_t count = kiln_test_full() ? 1 << 18 : 32 << 10;
  for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) sweep_double(&doubles[i], count);
}

typedef double pair_reference(double x, double y);

// Two arguments over the grid of special values: exact agreement in kind, sign and value within 4 ulp of f32.
TEST(mathlib, pairs) {
  static const float special[] = {0.0f,  -0.0f,  1,        -1,        0.5f,   -0.5f,  2,
                                  -2,    3,      -3,       2.5f,      -7.25f, 1e-40f, -1e-40f,
                                  1e30f, -1e30f, INFINITY, -INFINITY, NAN,    33,     1e-3f};
  static const struct {
    const char *text;
    pair_reference *exact;
  } pairs[] = {{"pow(x, y)", pow}, {"atan2(x, y)", atan2}, {"hypot(x, y)", hypot}};
  enum { N = sizeof special / sizeof *special };
  static float x[TILE], y[TILE], out[TILE];
  for (unsigned i = 0; i < N * N; i++) x[i] = special[i / N], y[i] = special[i % N];
  for (unsigned p = 0; p < 3; p++) {
    run("f32", pairs[p].text, x, y, out, TILE, sizeof *x);
    for (unsigned i = 0; i < N * N; i++) {
      double want = pairs[p].exact(x[i], y[i]);
      double u = ulps(out[i], want, 24, -125, 0x1.fffffep127L);
      bool sign = isnan(want) || !signbit(want) == !signbit(out[i]);
      if (!(u <= 4) || !sign)
        FAIL("%s of %g and %g is %.9g, expected %.9g", pairs[p].text, x[i], y[i], out[i], want);
    }
  }
}

TEST(mathlib, edges) {
  static const struct {
    const char *text;
    float x, want;
  } edges[] = {
      {"soft_exp2(x)", INFINITY, INFINITY},
      {"soft_exp2(x)", -INFINITY, 0},
      {"soft_exp2(x)", -149, 0x1p-149f},
      {"soft_exp2(x)", 0, 1},
      {"soft_exp2(x)", 127, 0x1p127f},
      {"soft_exp2(x)", 128, INFINITY},
      {"soft_log2(x)", 0, -INFINITY},
      {"soft_log2(x)", -0.0f, -INFINITY},
      {"soft_log2(x)", 1, 0},
      {"soft_log2(x)", 8, 3},
      {"soft_log2(x)", -1, NAN},
      {"soft_log2(x)", INFINITY, INFINITY},
      {"soft_log2(x)", 0x1p-149f, -149},
      {"soft_sin(x)", -0.0f, -0.0f},
      {"soft_sin(x)", INFINITY, NAN},
      {"soft_cos(x)", 0, 1},
      {"soft_cos(x)", -INFINITY, NAN},
      {"tan(x)", -0.0f, -0.0f},
      {"soft_tanh(x)", -0.0f, -0.0f},
      {"soft_tanh(x)", INFINITY, 1},
      {"soft_tanh(x)", -INFINITY, -1},
      {"soft_erf(x)", -0.0f, -0.0f},
      {"soft_erf(x)", -INFINITY, -1},
      {"soft_erf(x)", 0x1p-149f, 0x1p-149f},
      {"lgamma(x)", 1, 0},
      {"lgamma(x)", INFINITY, INFINITY},
      {"tgamma(x)", 5, 24},
      {"soft_exp2(x)", NAN, NAN},
      {"soft_log2(x)", NAN, NAN},
      {"soft_sin(x)", NAN, NAN},
      {"soft_tanh(x)", NAN, NAN},
      {"soft_erf(x)", NAN, NAN},
      {"soft_erf(x)", 1e30f, 1},
      {"precise_erf(x)", -INFINITY, -1},
      {"precise_erf(x)", NAN, NAN},
      {"cdiv(x, 4.0) * 0.0 + sigmoid(x)", 0, 0.5f},
      {"relu(x)", -3, 0},
      {"clamp(x, -1.0, 1.0)", 7, 1},
      {"silu(x)", 0, 0},
  };
  static float x[TILE], out[TILE];
  for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
    x[0] = edges[i].x;
    run("f32", edges[i].text, x, x, out, TILE, sizeof *x);
    bool same = isnan(edges[i].want) ? isnan(out[0])
                                     : out[0] == edges[i].want && !signbit(out[0]) == !signbit(edges[i].want);
    if (!same) FAIL("%s of %g is %.9g, expected %g", edges[i].text, edges[i].x, out[0], edges[i].want);
  }
}

// The published test vectors of Philox 4x32-10: counter and key zero, and all ones.
TEST(mathlib, philox) {
  const char *source = "kiln 1\nkernel k(seed: i64, offset: i64, o: out *i32) @grid(1) {\n  let a, b, c, d = "
                       "philox(seed, offset)\n"
                       "  store(o, a)\n  store(o + 1, b)\n  store(o + 2, c)\n  store(o + 3, d)\n}\n";
  static const uint32_t want[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  kiln_unit *unit = kiln_unit_open(arena, "philox.kiln", source, strlen(source), NULL, &d);
  ir_kernel *kernel = unit ? kiln_unit_lower(unit, arena, 0, 0, 0, NULL, &d) : NULL;
  if (!kernel) FAIL("%s", d.items[0].text);
  uint32_t out[4], grid[] = {1, 1, 1};
  struct {
    int64_t seed, offset;
    uint32_t *out;
  } args = {0, 0, out};
  kiln_error err;
  CHECK_OK(kiln_interpret(kernel, &args, grid, NULL, &err), err);
  for (int i = 0; i < 4; i++) CHECK_INT(out[i], want[i]);
  kiln_arena_destroy(arena);
}
