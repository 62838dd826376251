// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares the mathematical library with libm in long double: units in the last place over sweeps of bit
// patterns, and the edge cases.
#include "tests/compiler/mathlib_sweep.h"

static long double rsqrt_of(long double x) { return 1 / sqrtl(x); }
static long double sigmoid_of(long double x) { return 1 / (1 + expl(-x)); }
static long double lgamma_of(long double x) { return lgammal(x); }
static long double silu_of(long double x) { return x == -INFINITY ? NAN : x / (1 + expl(-x)); }
static long double softplus_of(long double x) { return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x)); }
static long double gelu_of(long double x) {
  return x == -INFINITY ? NAN : x / 2 * erfcl(-x * 0.707106781186547524400844362104849039L);
}
static long double gelu_tanh_of(long double x) {
  return x == -INFINITY ? NAN
                        : x / (1 + expl(-1.5957691216057307117597842397375L * (x + 0.044715L * x * x * x)));
}
static long double relu_of(long double x) { return x > 0 ? x : 0; }
static long double clamp_of(long double x) { return x > -1 ? x > 1 ? 1 : x : -1; }
static long double gamma_of(long double x) { return x == -INFINITY ? NAN : tgammal(x); }
// Near 1 by the complement, which is exact.
static long double erfinv_of(long double x) {
  if (x < 0) return -erfinv_of(-x);
  if (!(x > 0 && x < 1)) return x == 0 ? x : x == 1 ? INFINITY : NAN;
  long double lo = x * 0.88L, hi = x * 8;
  for (int i = 0; i < 80; i++) {
    long double mid = (lo + hi) / 2;
    if (x < 0.5L ? erfl(mid) < x : erfcl(mid) > 1 - x) lo = mid;
    else hi = mid;
  }
  return (lo + hi) / 2;
}

// Each is drawn over all of its type.
static const struct {
  function f;
  double ulps_64; // bound of f64
  bool halves;
} functions[] = {
    {{"soft_exp2(x)", exp2l, 1.5, 0}, 2, true},
    {{"soft_exp(x)", expl, 1.5, 0}, 2, true},
    {{"expm1(x)", expm1l, 2, 0}, 2, true},
    {{"soft_log2(x)", log2l, 2, 0}, 3, true},
    {{"log(x)", logl, 3, 0}, 3, true},
    {{"log10(x)", log10l, 3, 0}, 4, true},
    {{"log1p(x)", log1pl, 3, 0}, 3, true},
    {{"soft_sin(x)", sinl, 2, 0}, 2, true},
    {{"soft_cos(x)", cosl, 2, 0}, 2, true},
    {{"tan(x)", tanl, 4, 0}, 4, true},
    {{"soft_tanh(x)", tanhl, 3, 0}, 3, true},
    {{"precise_tanh(x)", tanhl, 2.5, 0}, 3, false},
    {{"soft_erf(x)", erfl, 2, 0}, 2, true},
    {{"precise_erf(x)", erfl, 2, 0}, 3, false},
    {{"erfc(x)", erfcl, 8, 0}, 8, true},
    {{"sinh(x)", sinhl, 4, 0}, 4, true},
    {{"cosh(x)", coshl, 4, 0}, 4, true},
    {{"asinh(x)", asinhl, 5, 0}, 5, true},
    {{"acosh(x)", acoshl, 5, 0}, 5, true},
    {{"atanh(x)", atanhl, 5, 0}, 5, true},
    {{"atan(x)", atanl, 3, 0}, 3, true},
    {{"asin(x)", asinl, 3, 0}, 3, true},
    {{"acos(x)", acosl, 3, 0}, 3, true},
    {{"cbrt(x)", cbrtl, 4, 0}, 4, true},
    {{"soft_rsqrt(x)", rsqrt_of, 2, 0}, 2, true},
    {{"sigmoid(x)", sigmoid_of, 80, 0x1p-126}, 4, true},
    {{"silu(x)", silu_of, 80, 0x1p-119}, 4, true},
    {{"softplus(x)", softplus_of, 80, 0x1p-126}, 4, true},
    {{"gelu(x)", gelu_of, 4, 1e-6}, 4, true},
    {{"gelu_tanh(x)", gelu_tanh_of, 8, 2e-6}, 8, true},
    {{"relu(x)", relu_of, 0, 0}, 0, true},
    {{"clamp(x, -1.0, 1.0)", clamp_of, 0, 0}, 0, true},
    {{"exp(x)", expl, 76, 0}, 2, true},
    {{"lgamma(x)", lgamma_of, 2, 1e-13}, 8, true},
    {{"tgamma(x)", gamma_of, 1, 0}, 2000, true},
    {{"erfinv(x)", erfinv_of, 8, 0}, 8, true},
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
  static const function waves[] = {{"soft_sin(x)", sinl, 2, 0}, {"soft_cos(x)", cosl, 2, 0}};
  enum { HARD = sizeof hard / sizeof *hard };
  static double x[TILE], y[TILE];
  for (int i = 0; i < 2 * HARD; i++) x[i] = (i % 2 ? -1 : 1) * ldexp(hard[i / 2].m, hard[i / 2].e);
  for (unsigned f = 0; f < 2; f++) {
    run("f64", waves[f].text, x, x, y, TILE, sizeof *x);
    for (int i = 0; i < 2 * HARD; i++) {
      double u = ulps(y[i], waves[f].exact(x[i]), &double_format);
      if (!(u <= waves[f].ulps)) FAIL("%s of %a: %a, %.2f ulp", waves[f].text, x[i], y[i], u);
    }
  }
}

enum { FUNCTIONS = sizeof functions / sizeof *functions };

TEST(mathlib, f32) {
  for (size_t i = 0; i < FUNCTIONS; i++)
    sweep(&single_format, &functions[i].f, kiln_test_full() ? 1 << 19 : 64 << 10);
}

TEST(mathlib, f64) {
  for (size_t i = 0; i < FUNCTIONS; i++) {
    function f = functions[i].f;
    f.ulps = functions[i].ulps_64;
    sweep(&double_format, &f, kiln_test_full() ? 1 << 18 : 32 << 10);
  }
}

// All of them, 1 ulp.
TEST(mathlib, halves) {
  for (size_t i = 0; i < FUNCTIONS; i++) {
    if (!functions[i].halves) continue;
    sweep(&half_format, &functions[i].f, 0);
    sweep(&brain_format, &functions[i].f, 0);
  }
}

// Functions of two arguments, both drawn.
TEST(mathlib, pairs) {
  static const pair_function pairs[] = {{"pow(x, y)", powl, 1, 2, 1 / 64.0},
                                        {"atan2(x, y)", atan2l, 3, 3, 0},
                                        {"hypot(x, y)", hypotl, 3, 3, 0}};
  for (size_t i = 0; i < 3; i++) {
    sweep_pairs(&single_format, &pairs[i]), sweep_pairs(&double_format, &pairs[i]);
    sweep_pairs(&half_format, &pairs[i]), sweep_pairs(&brain_format, &pairs[i]);
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
      {"sigmoid(x)", 0, 0.5f},
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
