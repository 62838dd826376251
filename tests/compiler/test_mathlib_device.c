// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the second part of the mathematical library: bounds by sweeps, and exact functions bit by bit
// against the processor or plain loops.
#include <fenv.h>

#include "tests/compiler/mathlib_sweep.h"

static long double sinpi_of(long double x) {
  long double r = x - 2 * roundl(x / 2);
  return fabsl(r) == 1 || r == 0 ? 0 : sinl(3.14159265358979323846264338328L * r);
}
static long double cospi_of(long double x) {
  long double r = fabsl(x - 2 * roundl(x / 2));
  return r == 0.5L   ? 0
         : r < 0.25L ? cosl(3.14159265358979323846264338328L * r)
                     : sinl(3.14159265358979323846264338328L * (0.5L - r));
}
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
static long double erfcinv_of(long double x) {
  return x < 0 || x > 2 ? NAN : x == 0 ? INFINITY : x == 2 ? -INFINITY : inverse_of(erfcl, x, true);
}
static long double normcdfinv_of(long double x) { return inverse_of(normcdf_of, x, false); }
static long double series_of(long double x, int order) {
  long double term = order ? x / 2 : 1, sum = term;
  for (int k = 1; k < 900 && term > sum * 1e-22L; k++)
    sum += term *= x * x / 4 / ((long double)k * (k + order));
  return sum;
}
static long double i0_of(long double x) { return series_of(fabsl(x), 0); }
static long double i1_of(long double x) { return x < 0 ? -series_of(-x, 1) : series_of(x, 1); }

static const function singles[] = {
    {"exp10(x)", exp10l, 0, INFINITY, 2, false},
    {"sinpi(x)", sinpi_of, 0, INFINITY, 3, false},
    {"cospi(x)", cospi_of, 0, INFINITY, 3, false},
    {"rcbrt(x)", rcbrt_of, 0, INFINITY, 5, false},
    {"erfcx(x)", erfcx_of, 0, INFINITY, 1, false},
    {"normcdf(x)", normcdf_of, 0, INFINITY, 1, false},
    {"erfcinv(x)", erfcinv_of, 1e-37, 2, 1, true},
    {"normcdfinv(x)", normcdfinv_of, 1e-37, 1, 1, true},
    {"j0(x)", j0l, 0, INFINITY, 4, false},
    {"j1(x)", j1l, 0, INFINITY, 4, false},
    {"y0(x)", y0l, 0, INFINITY, 4, true},
    {"y1(x)", y1l, 0, INFINITY, 4, true},
    {"cyl_bessel_i0(x)", i0_of, 0, INFINITY, 1, false},
    {"cyl_bessel_i1(x)", i1_of, 0, INFINITY, 1, false},
};

static const function doubles[] = {
    {"exp10(x)", exp10l, 0, INFINITY, 2, false},        {"sinpi(x)", sinpi_of, 0, INFINITY, 3, false},
    {"cospi(x)", cospi_of, 0, INFINITY, 3, false},      {"rcbrt(x)", rcbrt_of, 0, INFINITY, 7, false},
    {"erfcx(x)", erfcx_of, 0, INFINITY, 40, false},     {"normcdf(x)", normcdf_of, 0, INFINITY, 40, false},
    {"erfcinv(x)", erfcinv_of, 1e-300, 0.75, 40, true}, {"cyl_bessel_i0(x)", i0_of, 0, 700, 8, false},
    {"cyl_bessel_i1(x)", i1_of, 0, 700, 8, false},
};

TEST(mathlib_device, f32) {
  size_t count = kiln_test_full() ? 1 << 18 : 16 << 10;
  for (size_t i = 0; i < sizeof singles / sizeof *singles; i++) sweep_single(&singles[i], count);
}

TEST(mathlib_device, f64) {
  size_t count = kiln_test_full() ? 1 << 17 : 8 << 10;
  for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) sweep_double(&doubles[i], count);
}

// Bessel functions of f64: the error against the size of the wave, which is sqrt(2 / (pi x)) and at most 1.
TEST(mathlib_device, bessel) {
  static const struct {
    const char *text;
    double (*exact)(double);
    bool positive;
  } rows[] = {{"j0(x)", j0, false}, {"j1(x)", j1, false}, {"y0(x)", y0, true}, {"y1(x)", y1, true}};
  enum { N = 4 * TILE };
  static double x[N], out[N];
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    for (int i = 0; i < N; i++) x[i] = (i < N / 2 ? i * 0.0093 : exp(i * 0.0033)) + 0.0011;
    run("f64", rows[r].text, x, x, out, N, sizeof *x);
    double worst = 0;
    for (int i = 0; i < N; i++) {
      double want = rows[r].exact(x[i]), size = fmax(fabs(want), fmin(1, sqrt(0.64 / x[i]))),
             error = fabs(out[i] - want) / size;
      if (error > worst) worst = error;
    }
    printf("f64  %-14s %.2g of the wave\n", rows[r].text, worst);
    if (!(worst < 4e-15)) FAIL("%s: error %g of the wave, the bound is 4e-15", rows[r].text, worst);
  }
}

TEST(mathlib_device, bessel_orders) {
  static double x[TILE], n[TILE], out[TILE];
  for (int i = 0; i < TILE; i++) x[i] = 0.13 + i * 0.09, n[i] = i * 5 % 40 - 7;
  run("f64", "jn(y as i32, x, 32)", x, n, out, TILE, sizeof *x);
  for (int i = 0; i < TILE; i++) {
    double want = jn((int)n[i], x[i]), size = fmax(fabs(want), n[i] > x[i] ? 0 : sqrt(0.64 / x[i]));
    if (!(fabs(out[i] - want) <= 2e-13 * size))
      FAIL("jn(%g, %g) is %.17g, expected %.17g", n[i], x[i], out[i], want);
  }
  run("f64", "yn(y as i32, x, 32)", x, n, out, TILE, sizeof *x);
  for (int i = 0; i < TILE; i++) {
    double want = yn((int)n[i], x[i]), size = fmax(fabs(want), sqrt(0.64 / x[i]));
    if (!(fabs(out[i] - want) <= 2e-13 * size))
      FAIL("yn(%g, %g) is %.17g, expected %.17g", n[i], x[i], out[i], want);
  }
}

// ------------------------------------------------------------------------------- directed rounding

#define ROUNDED(T, name, expression)  \
  static T name(int mode, T x, T y) { \
    volatile T a = x, b = y, r;       \
    (void)b;                          \
    fesetround(mode);                 \
    r = expression;                   \
    fesetround(FE_TONEAREST);         \
    return r;                         \
  }
ROUNDED(float, add_f, a + b)
ROUNDED(float, sub_f, a - b)
ROUNDED(float, mul_f, a *b)
ROUNDED(float, div_f, a / b)
ROUNDED(float, sqrt_f, sqrtf(a))
ROUNDED(float, rcp_f, 1 / a)
ROUNDED(float, fma_f, fmaf(a, b, a))
ROUNDED(double, add_d, a + b)
ROUNDED(double, sub_d, a - b)
ROUNDED(double, mul_d, a *b)
ROUNDED(double, div_d, a / b)
ROUNDED(double, sqrt_d, sqrt(a))
ROUNDED(double, rcp_d, 1 / a)
ROUNDED(double, fma_d, fma(a, b, a))

static const struct {
  const char *name, *operands;
  float (*f)(int, float, float);
  double (*d)(int, double, double);
} rounded[] = {{"add", "x, y", add_f, add_d},   {"sub", "x, y", sub_f, sub_d}, {"mul", "x, y", mul_f, mul_d},
               {"div", "x, y", div_f, div_d},   {"sqrt", "x", sqrt_f, sqrt_d}, {"rcp", "x", rcp_f, rcp_d},
               {"fma", "x, y, x", fma_f, fma_d}};
static const struct {
  const char *name;
  int mode;
} modes[] = {{"rd", FE_DOWNWARD}, {"ru", FE_UPWARD}, {"rz", FE_TOWARDZERO}};

static uint64_t bits_of(const void *p, size_t size) {
  uint64_t bits = 0;
  memcpy(&bits, p, size);
  return bits;
}

static void fill_pairs(void *x, void *y, size_t size, bool everyday) {
  static const double special[] = {0.0,    -0.0, 1,     -1,       1.5,       3,   -0.1,  1e-40,
                                   -1e-45, 3e38, -3e38, INFINITY, -INFINITY, NAN, 1e-20, 7};
  uint64_t state = 11;
  for (int i = 0; i < TILE; i++) {
    double a = special[i / 16 % 16], b = special[i % 16];
    if (i >= 256) {
      uint64_t r = kiln_test_random(&state), s = kiln_test_random(&state);
      a = ldexp((double)(int64_t)r, (int)(s % 40) - 80), b = ldexp((double)(int64_t)s, (int)(r % 40) - 80);
      if (!everyday && i % 3 == 0) a = ldexp(a, -110), b = ldexp(b, -20); // results that are denormals of f32
      if (!everyday && i % 3 == 1) a = ldexp(a, 110);
    }
    if (size == 4) ((float *)x)[i] = (float)a, ((float *)y)[i] = (float)b;
    else ((double *)x)[i] = a, ((double *)y)[i] = b;
  }
}

// Bit by bit what the processor gives in that mode; NaN is NaN.
static void check_rounded(size_t row, size_t mode, size_t size) {
  static double x[TILE], y[TILE], out[TILE];
  char text[64];
  fill_pairs(x, y, size, size == 8);
  snprintf(text, sizeof text, "%s_%s(%s)", rounded[row].name, modes[mode].name, rounded[row].operands);
  run(size == 4 ? "f32" : "f64", text, x, y, out, TILE, size);
  for (int i = 0; i < TILE; i++) {
    double a, b, want, got;
    float f;
    if (size == 4) {
      a = ((float *)x)[i], b = ((float *)y)[i], got = ((float *)out)[i];
      f = rounded[row].f(modes[mode].mode, (float)a, (float)b), want = f;
    } else a = x[i], b = y[i], got = out[i], want = rounded[row].d(modes[mode].mode, a, b);
    bool same = isnan(want) ? isnan(got) : bits_of(&want, 8) == bits_of(&got, 8);
    if (!same)
      FAIL("%s of %a and %a in %s is %a, expected %a", text, a, b, size == 4 ? "f32" : "f64", got, want);
  }
}

TEST(mathlib_device, directed_rounding) {
  for (size_t row = 0; row < sizeof rounded / sizeof *rounded; row++)
    for (size_t mode = 0; mode < 3; mode++) check_rounded(row, mode, 4), check_rounded(row, mode, 8);
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

TEST(mathlib_device, exact_pairs) {
  static const struct {
    const char *text;
    float (*f)(float, float);
  } rows[] = {{"nextafter(x, y)", nextafterf}, {"remainder(x, y)", remainderf}};
  static double x[TILE], y[TILE], out[TILE];
  fill_pairs(x, y, 4, false);
  for (size_t r = 0; r < 2; r++) {
    run("f32", rows[r].text, x, y, out, TILE, 4);
    for (int i = 0; i < TILE; i++) {
      float a = ((float *)x)[i], b = ((float *)y)[i], want = rows[r].f(a, b), got = ((float *)out)[i];
      if (isnan(want) ? !isnan(got) : bits_of(&want, 4) != bits_of(&got, 4))
        FAIL("%s of %a and %a is %a, expected %a", rows[r].text, (double)a, (double)b, (double)got,
             (double)want);
    }
  }
}

TEST(mathlib_device, exponents) {
  static double x[TILE], n[TILE], out[TILE];
  uint64_t state = 3;
  for (int i = 0; i < TILE; i++) {
    uint64_t bits = kiln_test_random(&state);
    memcpy(&x[i], &bits, 8);
    if (i < 6) x[i] = (double[]){0, -0.0, INFINITY, NAN, 5e-324, 1}[i];
    n[i] = i % 3 ? (double)(i * 7 % 4400 - 2200) : (double)(i % 100 - 50);
  }
  run("f64", "ldexp(x, y as i32)", x, n, out, TILE, 8);
  for (int i = 0; i < TILE; i++) {
    double want = ldexp(x[i], (int)n[i]);
    if (isnan(want) ? !isnan(out[i]) : want != out[i])
      FAIL("ldexp(%a, %g) is %a, expected %a", x[i], n[i], out[i], want);
  }
  run("f64", "logb(x)", x, n, out, TILE, 8);
  for (int i = 0; i < TILE; i++)
    if (isnan(x[i]) ? !isnan(out[i]) : logb(x[i]) != out[i])
      FAIL("logb(%a) is %g, expected %g", x[i], out[i], logb(x[i]));
  run("f64", "ilogb(x) as f64", x, n, out, TILE, 8);
  for (int i = 0; i < TILE; i++) {
    double want = isnan(x[i]) ? -2147483648.0 : ilogb(x[i]);
    if (want != out[i]) FAIL("ilogb(%a) is %g, expected %g", x[i], out[i], want);
  }
  static float f[TILE], m[TILE], g[TILE];
  for (int i = 0; i < TILE; i++)
    f[i] = ldexpf(1.0f + (float)i / TILE, i % 280 - 149), m[i] = (float)(i * 3 % 500 - 250);
  run("f32", "ldexp(x, y as i32)", f, m, g, TILE, 4);
  for (int i = 0; i < TILE; i++)
    if (ldexpf(f[i], (int)m[i]) != g[i])
      FAIL("ldexp(%a, %g) is %a, expected %a", (double)f[i], (double)m[i], (double)g[i],
           (double)ldexpf(f[i], (int)m[i]));
}

TEST(mathlib_device, lengths) {
  static float x[TILE], y[TILE], out[TILE];
  static double a[TILE], b[TILE], d[TILE];
  for (int i = 0; i < TILE; i++)
    x[i] = ldexpf(1.3f + (float)i / 700, i % 240 - 120), y[i] = ldexpf(-1.7f, i * 7 % 240 - 120);
  run("f32", "norm3d(x, y, x)", x, y, out, TILE, 4);
  for (int i = 0; i < TILE; i++) {
    long double want = sqrtl(2 * (long double)x[i] * x[i] + (long double)y[i] * y[i]);
    if (!(ulps(out[i], want, 24, -125, 0x1.fffffep127L) <= 1))
      FAIL("norm3d of %a, %a is %a, expected %La", (double)x[i], (double)y[i], (double)out[i], want);
  }
  for (int i = 0; i < TILE; i++)
    a[i] = ldexp(1.3 + i / 700.0, i * 2 % 2000 - 1000), b[i] = ldexp(-1.7, i * 14 % 2000 - 1000);
  run("f64", "rnorm4d(x, y, y, x)", a, b, d, TILE, 8);
  for (int i = 0; i < TILE; i++) {
    long double want = 1 / sqrtl(2 * (long double)a[i] * a[i] + 2 * (long double)b[i] * b[i]);
    if (!(ulps(d[i], want, 53, -1021, 0x1.fffffffffffffp1023L) <= 4))
      FAIL("rnorm4d of %a, %a is %a, expected %La", a[i], b[i], d[i], want);
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
