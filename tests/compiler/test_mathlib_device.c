// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the second part of the mathematical library: bounds by sweeps, and exact functions bit by bit
// against the processor or plain loops.
#include <fenv.h>

#include "tests/compiler/mathlib_sweep.h"

static long double sinpi_of(long double x) {
  long double r = x - 2 * roundl(x / 2);
  if (r == 0 || fabsl(r) == 1) return copysignl(0, x);
  if (fabsl(r) > 0.5L) r = copysignl(1, r) - r; // exact
  return sinl(3.14159265358979323846264338328L * r);
}
static long double cospi_of(long double x) {
  long double r = fabsl(x - 2 * roundl(x / 2));
  return r == 0.5L   ? 0
         : r < 0.25L ? cosl(3.14159265358979323846264338328L * r)
                     : sinl(3.14159265358979323846264338328L * (0.5L - r));
}
// In long double no square of an f64 is too large or too small.
static long double length_of(int n, long double x, int m, long double y) {
  return isinf(x) || isinf(y) ? INFINITY : sqrtl(n * x * x + m * y * y);
}
static long double rhypot_of(long double x, long double y) { return 1 / length_of(1, x, 1, y); }
static long double norm3d_of(long double x, long double y) { return length_of(2, x, 1, y); }
static long double norm4d_of(long double x, long double y) { return length_of(2, x, 2, y); }
static long double rnorm3d_of(long double x, long double y) { return 1 / length_of(2, x, 1, y); }
static long double rnorm4d_of(long double x, long double y) { return 1 / length_of(3, x, 1, y); }
static long double rcbrt_of(long double x) { return 1 / cbrtl(x); }
// e^(x^2) erfc(x): a continued fraction where the factors overflow.
static long double erfcx_of(long double x) {
  if (x < 12) return expl(x * x) * erfcl(x);
  long double t = x;
  for (int k = 60; k > 0; k--) t = x + k / (2 * t);
  return 0.564189583547756286948079451560772586L / t;
}
static long double normcdf_of(long double x) {
  return erfcl(-x * 0.707106781186547524400844362104849039L) / 2;
}
// By halving: both are monotonous.
static long double inverse_of(long double (*f)(long double), long double want, bool falls) {
  long double lo = -45, hi = 45;
  for (int i = 0; i < 120; i++) {
    long double mid = (lo + hi) / 2;
    if ((f(mid) < want) == falls) hi = mid;
    else lo = mid;
  }
  return (lo + hi) / 2;
}
// Above the middle by the complement, which is exact.
static long double erfcinv_of(long double x) {
  if (!(x >= 0 && x <= 2)) return NAN;
  if (x > 1) return -erfcinv_of(2 - x);
  return x == 0 ? INFINITY : x == 1 ? 0 : inverse_of(erfcl, x, true);
}
static long double normcdfinv_of(long double x) {
  if (!(x >= 0 && x <= 1)) return NAN;
  if (x > 0.5L) return -normcdfinv_of(1 - x);
  return x == 0 ? -INFINITY : x == 0.5L ? 0 : inverse_of(normcdf_of, x, false);
}
static long double series_of(long double x, int order) {
  long double term = order ? x / 2 : 1, sum = term;
  for (int k = 1; k < 900 && term > sum * 1e-22L; k++)
    sum += term *= x * x / 4 / ((long double)k * (k + order));
  return sum;
}
static long double i0_of(long double x) { return series_of(fabsl(x), 0); }
static long double i1_of(long double x) { return x < 0 ? -series_of(-x, 1) : series_of(x, 1); }

// Each is drawn over all of its type. Bessel functions of f64 are tested below.
static const struct {
  function f;
  double ulps_64; // bound of f64
  double absolute_64;
} functions[] = {
    {{"exp10(x)", exp10l, 2, 0}, 2, 0},
    {{"sinpi(x)", sinpi_of, 3, 0}, 3, 0},
    {{"cospi(x)", cospi_of, 3, 0}, 3, 0},
    {{"rcbrt(x)", rcbrt_of, 5, 0}, 7, 0},
    {{"erfcx(x)", erfcx_of, 1, 0}, 40, 0},
    {{"normcdf(x)", normcdf_of, 1, 0}, 40, 0},
    {{"erfcinv(x)", erfcinv_of, 1, 0}, 40, 1e-15},
    {{"normcdfinv(x)", normcdfinv_of, 1, 0}, 40, 1e-15},
    {{"cyl_bessel_i0(x)", i0_of, 1, 0}, 8, 0},
    {{"cyl_bessel_i1(x)", i1_of, 1, 0}, 8, 0},
    {{"j0(x)", j0l, 1, 0}, 0, 0},
    {{"j1(x)", j1l, 1, 0}, 0, 0},
    {{"y0(x)", y0l, 1, 0}, 0, 0},
    {{"y1(x)", y1l, 1, 0}, 0, 0},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

TEST(mathlib_device, f32) {
  for (size_t i = 0; i < FUNCTIONS; i++)
    sweep(&single_format, &functions[i].f, kiln_test_full() ? 1 << 18 : 16 << 10);
}

TEST(mathlib_device, f64) {
  for (size_t i = 0; i < FUNCTIONS; i++) {
    function f = functions[i].f;
    f.ulps = functions[i].ulps_64, f.absolute = functions[i].absolute_64;
    if (f.ulps > 0) sweep(&double_format, &f, kiln_test_full() ? 1 << 17 : 8 << 10);
  }
}

// All of them, 1 ulp.
TEST(mathlib_device, halves) {
  for (size_t i = 0; i < FUNCTIONS; i++) {
    sweep(&half_format, &functions[i].f, 0);
    sweep(&brain_format, &functions[i].f, 0);
  }
}

// Bessel functions of f64: the error against the size of the wave, which is sqrt(2 / (pi x)) and at most 1.
TEST(mathlib_device, bessel) {
  size_t count = kiln_test_full() ? 1 << 16 : 8 << 10;
  for (size_t r = 0; r < FUNCTIONS; r++) {
    const function *f = &functions[r].f;
    if (functions[r].ulps_64 > 0) continue;
    double *x = draw_all(&double_format, count, 5), *out = calloc(count, sizeof *out), worst = 0;
    for (size_t i = 0; i < count / 4; i++) x[i] = (i % 2 ? i * 0.0093 : exp((double)i * 0.0033)) + 0.0011;
    run("f64", f->text, x, x, out, count, sizeof *x);
    for (size_t i = 0; i < count; i++) {
      long double want = f->exact(x[i]);
      double size = fmax((double)fabsl(want), fmin(1, sqrt(0.64 / fabs(x[i]))));
      double error = (double)fabsl(out[i] - want) / size;
      if (isnan(want) || isinf((double)want) || isinf(x[i])) error = ulps(out[i], want, &double_format);
      if (error > worst) worst = error;
      if (!(error < 4e-15))
        FAIL("%s of %a is %a, expected %La: error %g of the wave", f->text, x[i], out[i], want, error);
    }
    printf("f64  %-14s %.2g of the wave\n", f->text, worst);
    free(x), free(out);
  }
}

// Orders from -33 to 33, of which those above 31 are NaN. Below the wave an order is as small as its series begins, and
// where x is tiny 0 may stand for it.
TEST(mathlib_device, bessel_orders) {
  static const char *const text[] = {"jn(y as i32, x, 31)", "yn(y as i32, x, 31)"};
  size_t count = kiln_test_full() ? 1 << 15 : 4 * TILE;
  double *x = draw_all(&double_format, count, 6), *n = calloc(count, sizeof *n),
         *out = calloc(count, sizeof *out);
  for (size_t i = 0; i < count; i++) n[i] = (double)(i * 5 % 67) - 33;
  for (size_t i = 0; i < count / 2; i++) x[i] = 0.13 + (double)i * 0.023;
  for (int second = 0; second < 2; second++) {
    run("f64", text[second], x, n, out, count, sizeof *x);
    for (size_t i = 0; i < count; i++) {
      int order = (int)n[i];
      double want = second ? yn(order, x[i]) : jn(order, x[i]), a = fabs(x[i]);
      double size = fmax(fabs(want), !second && abs(order) > a ? 0 : fmin(1, sqrt(0.64 / a)));
      if (abs(order) > 31) want = NAN;
      if (!second && abs(order) > 1 && a < 1e-30) size = INFINITY;
      bool right = isnan(want)   ? isnan(out[i])
                   : isinf(want) ? out[i] == want
                   : isinf(a)    ? out[i] == 0
                                 : fabs(out[i] - want) <= 4e-13 * size;
      if (!right) FAIL("%s of %g and %a is %.17g, expected %.17g", text[second], n[i], x[i], out[i], want);
    }
  }
  free(x), free(n), free(out);
}

// ------------------------------------------------------------------------------- directed rounding

#define ROUNDED(T, name, expression)       \
  static T name(int mode, T x, T y, T z) { \
    volatile T a = x, b = y, c = z, r;     \
    (void)b, (void)c;                      \
    fesetround(mode);                      \
    r = expression;                        \
    fesetround(FE_TONEAREST);              \
    return r;                              \
  }
#define ROUNDED_EACH(name, single, wide) ROUNDED(float, name##_f, single) ROUNDED(double, name##_d, wide)
ROUNDED_EACH(add, a + b, a + b)
ROUNDED_EACH(sub, a - b, a - b)
ROUNDED_EACH(mul, a *b, a *b)
ROUNDED_EACH(div, a / b, a / b)
ROUNDED_EACH(sqrt, sqrtf(a), sqrt(a))
ROUNDED_EACH(rcp, 1 / a, 1 / a)
ROUNDED_EACH(fma, fmaf(a, b, c), fma(a, b, c))

static const struct {
  const char *name, *operands;
  float (*f)(int, float, float, float);
  double (*d)(int, double, double, double);
} rounded[] = {{"add", "x, y", add_f, add_d},
               {"sub", "x, y", sub_f, sub_d},
               {"mul", "x, y", mul_f, mul_d},
               {"div", "x, y", div_f, div_d},
               {"sqrt", "x", sqrt_f, sqrt_d},
               {"rcp", "x", rcp_f, rcp_d},
               {"fma", "x, y, load(b + (i ^ 1))", fma_f, fma_d}};
static const struct {
  const char *name;
  int mode;
} modes[] = {{"rd", FE_DOWNWARD}, {"ru", FE_UPWARD}, {"rz", FE_TOWARDZERO}};

static uint64_t bits_of(const void *p, size_t size) {
  uint64_t bits = 0;
  memcpy(&bits, p, size);
  return bits;
}

// In y numbers next to what the operation makes of x: a sum that nearly cancels, a product at the edge of the type, an
// addend next to the product before it.
static void draw_related(const format *t, void *x, void *y, size_t count) {
  uint64_t state = 13;
  for (size_t i = 0; i < count; i++) {
    uint64_t r = kiln_test_random(&state), kind = r % 8, bits;
    long double a = element(t, x, i), before = i ? element(t, y, i - 1) : 1,
                product = element(t, x, i ? i - 1 : 0) * before;
    long double v = kind == 0                ? -a
                    : kind == 1              ? ldexpl(1, t->least - 1 - (int)(r >> 8) % t->digits) / a
                    : kind == 2              ? t->largest / a
                    : kind <= 5 && i % 2 > 0 ? -product
                                             : NAN;
    if (isnan(v)) continue;
    float single = (float)v;
    double wide = (double)v;
    bits = t->size == 4 ? bits_of(&single, 4) : bits_of(&wide, 8);
    bits += (r >> 16) % 5 - 2;
    memcpy((char *)y + i * t->size, &bits, t->size);
  }
}

// Bit by bit what the processor gives in that mode; NaN is NaN.
static void check_rounded(size_t row, size_t mode, const format *t) {
  size_t count = kiln_test_full() ? 1 << 17 : 1 << 13;
  void *x = draw_all(t, count, 21), *y = draw_all(t, count, 22);
  double *out = calloc(count, sizeof *out);
  char text[64];
  draw_related(t, x, y, count);
  snprintf(text, sizeof text, "%s_%s(%s)", rounded[row].name, modes[mode].name, rounded[row].operands);
  run(t->name, text, x, y, out, count, t->size);
  for (size_t i = 0; i < count; i++) {
    double a = (double)element(t, x, i), b = (double)element(t, y, i), c = (double)element(t, y, i ^ 1);
    double got = (double)element(t, out, i), want;
    if (t->size == 4) want = rounded[row].f(modes[mode].mode, (float)a, (float)b, (float)c);
    else want = rounded[row].d(modes[mode].mode, a, b, c);
    bool same = isnan(want) ? isnan(got) : bits_of(&want, 8) == bits_of(&got, 8);
    if (!same) FAIL("%s of %a, %a and %a in %s is %a, expected %a", text, a, b, c, t->name, got, want);
  }
  free(x), free(y), free(out);
}

TEST(mathlib_device, directed_rounding) {
  for (size_t row = 0; row < sizeof rounded / sizeof *rounded; row++)
    for (size_t mode = 0; mode < 3; mode++)
      check_rounded(row, mode, &single_format), check_rounded(row, mode, &double_format);
}

// Integers and f64 to narrower floats.
TEST(mathlib_device, rounded_conversions) {
  static int64_t n[TILE];
  static double x[TILE], out[TILE];
  static float single[TILE];
  uint64_t state = 5;
  for (int i = 0; i < TILE; i++) {
    n[i] = (int64_t)(kiln_test_random(&state) >> (i % 60));
    if (i % 2) n[i] = -n[i];
    if (i < 4) n[i] = (int64_t[]){INT64_MIN, INT64_MAX, 0, -1}[i];
    x[i] = ldexp((double)n[i], i % 5 ? -30 : -200);
  }
  for (size_t mode = 0; mode < 3; mode++) {
    char text[64];
    snprintf(text, sizeof text, "bitcast(double_%s(x), i64)", modes[mode].name);
    run("i64", text, n, n, out, TILE, 8);
    for (int i = 0; i < TILE; i++) {
      fesetround(modes[mode].mode);
      volatile double want = (double)(volatile int64_t){n[i]};
      fesetround(FE_TONEAREST);
      if (want != out[i]) FAIL("%s of %lld is %a, expected %a", text, (long long)n[i], out[i], want);
    }
    for (int is_float = 0; is_float < 2; is_float++) {
      snprintf(text, sizeof text,
               is_float ? "bitcast(bitcast(single_%s(x), i32) as i64, f64)"
                        : "bitcast(single_%s(x), i32) as i64",
               modes[mode].name);
      run(is_float ? "f64" : "i64", text, is_float ? (void *)x : n, n, out, TILE, 8);
      for (int i = 0; i < TILE; i++) {
        int64_t bits = (int64_t)bits_of(&out[i], 8);
        uint32_t low = (uint32_t)bits;
        memcpy(&single[i], &low, 4);
        volatile double wide = x[i];
        volatile int64_t whole = n[i];
        fesetround(modes[mode].mode);
        volatile float want = is_float ? (float)wide : (float)whole;
        fesetround(FE_TONEAREST);
        if (want != single[i])
          FAIL("%s of %lld or %a is %a, expected %a", text, (long long)n[i], x[i], (double)single[i],
               (double)want);
      }
    }
  }
}

// -------------------------------------------------------------------------------------- exact ones

static long double next_single(long double x, long double y) { return nextafterf((float)x, (float)y); }
static long double next_double(long double x, long double y) { return nextafter((double)x, (double)y); }

TEST(mathlib_device, pairs) {
  static const pair_function rows[] = {
      {"remainder(x, y)", remainderl, 0, 0},  {"rhypot(x, y)", rhypot_of, 1, 4},
      {"norm3d(x, y, x)", norm3d_of, 1, 3},   {"norm4d(x, y, y, x)", norm4d_of, 1, 3},
      {"rnorm3d(y, x, x)", rnorm3d_of, 1, 4}, {"rnorm4d(x, x, y, x)", rnorm4d_of, 1, 4}};
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
    sweep_pairs(&single_format, &rows[r]), sweep_pairs(&double_format, &rows[r]);
  for (size_t r = 1; r < sizeof rows / sizeof *rows; r++)
    sweep_pairs(&half_format, &rows[r]), sweep_pairs(&brain_format, &rows[r]);
  sweep_pairs(&single_format, &(pair_function){"nextafter(x, y)", next_single, 0, 0});
  sweep_pairs(&double_format, &(pair_function){"nextafter(x, y)", next_double, 0, 0});
}

static long double ilogb_of(long double x) {
  return isnan(x) || x == 0 ? -2147483648.0L : isinf(x) ? 2147483647 : ilogbl(x);
}

TEST(mathlib_device, exponents) {
  static const function whole[] = {{"logb(x)", logbl, 0, 0}, {"ilogb(x) as f64 as f32", ilogb_of, 0, 128}};
  static const function wide[] = {{"logb(x)", logbl, 0, 0}, {"ilogb(x) as f64", ilogb_of, 0, 0}};
  for (int i = 0; i < 2; i++)
    sweep(&single_format, &whole[i], TILE * 16), sweep(&double_format, &wide[i], TILE * 16);
  static const int32_t far[] = {INT32_MIN, INT32_MAX, -5000, 5000, -2098, 2098,
                                -1075,     1024,      -150,  128,  -400,  400};
  static const format *const formats[] = {&single_format, &double_format, &half_format, &brain_format};
  static int32_t n[16 * TILE];
  for (int f = 0; f < 4; f++) {
    const format *t = formats[f];
    void *x = draw_all(t, 16 * TILE, 8), *out = calloc(16 * TILE, t->size);
    uint64_t state = 4;
    for (int i = 0; i < 16 * TILE; i++) {
      uint64_t r = kiln_test_random(&state);
      n[i] = r & 1 ? far[(r >> 8) % (sizeof far / sizeof *far)] : (int32_t)((r >> 8) % 4400) - 2200;
      if (r & 2) n[i] /= 30;
    }
    run_second(t->name, "ldexp(x, y)", "i32", x, n, out, 16 * TILE, t->size, 4);
    for (int i = 0; i < 16 * TILE; i++) {
      long double v = element(t, x, (size_t)i), got = element(t, out, (size_t)i);
      long double want = n[i] > 5000 ? v * INFINITY : ldexpl(v, n[i] < -5000 ? -5000 : n[i]);
      if (v == 0) want = v;
      if (!(ulps(got, want, t) <= 0.5))
        FAIL("ldexp(%La, %d) in %s is %La, expected %La", v, n[i], t->name, got, want);
    }
    free(x), free(out);
  }
}

static uint64_t reversed(uint64_t x, int width) {
  uint64_t r = 0;
  for (int i = 0; i < width; i++) r |= (x >> i & 1) << (width - 1 - i);
  return r;
}

// Integers: each against a plain loop or a builtin.
TEST(mathlib_device, integers) {
  static int32_t x[TILE], y[TILE], out[TILE];
  static int64_t l[TILE], m[TILE];
  uint64_t state = 9;
  for (int i = 0; i < TILE; i++) {
    uint64_t r = kiln_test_random(&state);
    l[i] = i == 0 ? 0 : (int64_t)(r >> i % 64);
    x[i] = i == 0 ? 0 : i == 1 ? INT32_MIN : (int32_t)((uint32_t)r >> i % 32), y[i] = (int32_t)(r >> 32);
  }
#define CHECK_EACH(type, text, in, into, want)                                                \
  do {                                                                                        \
    run(type, text, in, sizeof *(in) == 4 ? (void *)y : (void *)l, into, TILE, sizeof *(in)); \
    for (int i = 0; i < TILE; i++)                                                            \
      if ((into)[i] != (want))                                                                \
        FAIL("%s of %lld and %d is %lld, expected %lld", text, (long long)(in)[i], y[i],      \
             (long long)(into)[i], (long long)(want));                                        \
  } while (0)
  CHECK_EACH("i32", "popc(x)", x, out, __builtin_popcount((uint32_t)x[i]));
  CHECK_EACH("i32", "clz(x)", x, out, x[i] ? __builtin_clz((uint32_t)x[i]) : 32);
  CHECK_EACH("i32", "ffs(x)", x, out, __builtin_ffs(x[i]));
  CHECK_EACH("i32", "brev(x)", x, out, (int32_t)reversed((uint32_t)x[i], 32));
  CHECK_EACH("i64", "popc(x) as i64", l, m, __builtin_popcountll((uint64_t)l[i]));
  CHECK_EACH("i64", "clz(x) as i64", l, m, l[i] ? __builtin_clzll((uint64_t)l[i]) : 64);
  CHECK_EACH("i64", "ffs(x) as i64", l, m, __builtin_ffsll(l[i]));
  CHECK_EACH("i64", "brev(x)", l, m, (int64_t)reversed((uint64_t)l[i], 64));
  CHECK_EACH("i32", "hadd(x, y)", x, out, (int32_t)(((int64_t)x[i] + y[i]) >> 1));
  CHECK_EACH("i32", "rhadd(x, y)", x, out, (int32_t)(((int64_t)x[i] + y[i] + 1) >> 1));
  CHECK_EACH("i32", "uhadd(x, y)", x, out, (int32_t)(((uint64_t)(uint32_t)x[i] + (uint32_t)y[i]) >> 1));
  CHECK_EACH("i32", "urhadd(x, y)", x, out, (int32_t)(((uint64_t)(uint32_t)x[i] + (uint32_t)y[i] + 1) >> 1));
  CHECK_EACH(
      "i32", "mul24(x, y)", x, out,
      (int32_t)(((int64_t)((int32_t)((uint32_t)x[i] << 8) >> 8)) * ((int32_t)((uint32_t)y[i] << 8) >> 8)));
  CHECK_EACH("i32", "umul24(x, y)", x, out,
             (int32_t)((uint64_t)(x[i] & 0xffffff) * (uint64_t)(y[i] & 0xffffff)));
  CHECK_EACH("i32", "sad(x, y, 5)", x, out, (int32_t)(uint32_t)(llabs((long long)x[i] - y[i]) + 5));
  CHECK_EACH("i32", "usad(x, y, 5)", x, out,
             (int32_t)(uint32_t)(llabs((long long)(uint32_t)x[i] - (uint32_t)y[i]) + 5));
  CHECK_EACH("i32", "byte_perm(x, y, 0x7150)", x, out,
             (int32_t)(((uint32_t)x[i] & 255) | ((uint32_t)y[i] >> 8 & 255) << 8 |
                       ((uint32_t)x[i] >> 8 & 255) << 16 | ((uint32_t)y[i] >> 24) << 24));
}
