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
      {"remainder(x, y)", remainderl, 0, 0, 0},  {"rhypot(x, y)", rhypot_of, 1, 4, 0},
      {"norm3d(x, y, x)", norm3d_of, 1, 3, 0},   {"norm4d(x, y, y, x)", norm4d_of, 1, 3, 0},
      {"rnorm3d(y, x, x)", rnorm3d_of, 1, 4, 0}, {"rnorm4d(x, x, y, x)", rnorm4d_of, 1, 4, 0}};
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
    sweep_pairs(&single_format, &rows[r]), sweep_pairs(&double_format, &rows[r]);
  for (size_t r = 1; r < sizeof rows / sizeof *rows; r++)
    sweep_pairs(&half_format, &rows[r]), sweep_pairs(&brain_format, &rows[r]);
  sweep_pairs(&single_format, &(pair_function){"nextafter(x, y)", next_single, 0, 0, 0});
  sweep_pairs(&double_format, &(pair_function){"nextafter(x, y)", next_double, 0, 0, 0});
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

// ----------------------------------------------------------------------------------------- integers

// The result modulo 2^width, of x and y as signed numbers and as unsigned ones.
typedef struct operands {
  int width;
  __int128 x, y, ux, uy;
} operands;

static __int128 popc_of(operands o) { return __builtin_popcountll((uint64_t)o.ux); }
static __int128 clz_of(operands o) {
  return o.ux ? __builtin_clzll((uint64_t)o.ux) - (64 - o.width) : o.width;
}
static __int128 ffs_of(operands o) { return __builtin_ffsll((long long)o.x); }
static __int128 brev_of(operands o) {
  uint64_t r = 0;
  for (int i = 0; i < o.width; i++) r |= ((uint64_t)o.ux >> i & 1) << (o.width - 1 - i);
  return r;
}
static __int128 hadd_of(operands o) { return (o.x + o.y) >> 1; }
static __int128 uhadd_of(operands o) { return (o.ux + o.uy) >> 1; }
static __int128 rhadd_of(operands o) { return (o.x + o.y + 1) >> 1; }
static __int128 urhadd_of(operands o) { return (o.ux + o.uy + 1) >> 1; }
static __int128 sad_of(operands o) { return (o.x > o.y ? o.x - o.y : o.y - o.x) + 5; }
static __int128 usad_of(operands o) { return (o.ux > o.uy ? o.ux - o.uy : o.uy - o.ux) + 5; }
static __int128 low24(__int128 v) { return ((v & 0xffffff) ^ 0x800000) - 0x800000; }
static __int128 mul24_of(operands o) { return low24(o.x) * low24(o.y); }
static __int128 umul24_of(operands o) { return (o.x & 0xffffff) * (o.y & 0xffffff); }
static __int128 byte_perm_of(operands o) {
  uint64_t pair = (uint64_t)o.uy << 32 | (uint64_t)o.ux, r = 0;
  for (int i = 0; i < 4; i++) r |= (pair >> 8 * ((uint64_t)(o.ux ^ o.uy) >> 4 * i & 7) & 255) << 8 * i;
  return r;
}
static __int128 cdiv_of(operands o) {
  __int128 y = o.y ? o.y : 3, q = o.x / y;
  return q + (o.x % y != 0 && (o.x > 0) == (y > 0));
}
static __int128 next_power_of(operands o) {
  __int128 p = 1;
  while (p < o.ux) p *= 2;
  return o.ux ? p : 0;
}

TEST(mathlib_device, integers) {
  enum { ALL = 8 | 16 | 32 | 64, WORDS = 32 | 64, N = 8 * TILE };
  static const struct {
    const char *text;
    __int128 (*exact)(operands o);
    int widths;
  } rows[] = {{"popc(x) as typeof(x)", popc_of, WORDS},
              {"clz(x) as typeof(x)", clz_of, WORDS},
              {"ffs(x) as typeof(x)", ffs_of, WORDS},
              {"brev(x)", brev_of, WORDS},
              {"hadd(x, y)", hadd_of, ALL},
              {"uhadd(x, y)", uhadd_of, ALL},
              {"rhadd(x, y)", rhadd_of, ALL},
              {"urhadd(x, y)", urhadd_of, ALL},
              {"sad(x, y, 5)", sad_of, ALL},
              {"usad(x, y, 5)", usad_of, ALL},
              {"mul24(x, y)", mul24_of, 32},
              {"umul24(x, y)", umul24_of, 32},
              {"byte_perm(x, y, x ^ y)", byte_perm_of, 32},
              {"cdiv(x, select(y == 0, 3, y))", cdiv_of, ALL},
              {"next_power_of_2(x)", next_power_of, ALL}};
  static int64_t x[N], y[N], out[N];
  for (int width = 8; width <= 64; width *= 2) {
    size_t size = (size_t)width / 8;
    uint64_t state = 9, mask = UINT64_MAX >> (64 - width);
    char type[16];
    snprintf(type, sizeof type, "i%d", width);
    for (int i = 0; i < 2 * N; i++) { // half of them next to powers of two and their opposites
      uint64_t r = kiln_test_random(&state), any = kiln_test_random(&state),
               bit = UINT64_C(1) << (r >> 8) % (unsigned)width;
      uint64_t v = r & 1 ? any : (r & 2 ? bit : 0 - bit) + (r >> 16) % 3 - 1;
      memcpy((char *)(i % 2 ? x : y) + (size_t)(i / 2) * size, &v, size);
    }
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
      if (!(rows[r].widths & width)) continue;
      run(type, rows[r].text, x, y, out, N, size);
      for (size_t i = 0; i < N; i++) {
        uint64_t a = bits_of((char *)x + i * size, size), b = bits_of((char *)y + i * size, size);
        __int128 all = (__int128)mask + 1;
        operands o = {width, a - (a > mask / 2 ? all : 0), b - (b > mask / 2 ? all : 0), a, b};
        uint64_t want = (uint64_t)rows[r].exact(o) & mask, got = bits_of((char *)out + i * size, size);
        if (want != got)
          FAIL("%s of %#llx and %#llx in %s is %#llx, expected %#llx", rows[r].text, (unsigned long long)a,
               (unsigned long long)b, type, (unsigned long long)got, (unsigned long long)want);
      }
    }
  }
}

// What each function takes; any other type is refused.
TEST(mathlib_device, types) {
  static const char *const types[] = {"i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"};
  enum { I32 = 1 << 3, WORDS = 3 << 3, INTEGERS = 15 << 1, FLOATS = 15 << 5, WIDE = 3 << 7, F64 = 1 << 8 };
  static const struct {
    int takes;
    const char *arguments, *names;
  } rows[] = {
      {FLOATS, "x",
       "exp log log10 log1p expm1 sigmoid silu gelu gelu_tanh softplus soft_exp2 soft_exp soft_log2 soft_sin "
       "soft_cos "
       "soft_tanh soft_erf soft_rsqrt tan sinh cosh asinh acosh atanh erfc erfinv atan asin acos cbrt lgamma "
       "tgamma "
       "exp10 sinpi cospi rcbrt erfcx erfcinv normcdf normcdfinv j0 j1 y0 y1 cyl_bessel_i0 cyl_bessel_i1"},
      {FLOATS, "x, x", "pow atan2 hypot rhypot"},
      {FLOATS, "x, x, x", "norm3d rnorm3d"},
      {FLOATS, "x, x, x, x", "norm4d rnorm4d"},
      {FLOATS, "2, x, 3", "jn yn"},
      {FLOATS, "x, 3", "ldexp"},
      {WIDE, "x", "precise_tanh precise_erf logb ilogb rcp_rd rcp_ru rcp_rz sqrt_rd sqrt_ru sqrt_rz"},
      {WIDE, "x, x",
       "nextafter remainder add_rd add_ru add_rz sub_rd sub_ru sub_rz mul_rd mul_ru mul_rz div_rd div_ru "
       "div_rz"},
      {WIDE, "x, x, x", "fma_rd fma_ru fma_rz"},
      {WORDS | F64, "x", "single_rd single_ru single_rz double_rd double_ru double_rz"},
      {WORDS, "x", "usingle_rd usingle_ru udouble_rd udouble_ru popc clz ffs brev"},
      {INTEGERS, "x, x", "hadd uhadd rhadd urhadd cdiv"},
      {INTEGERS, "x, x, x", "sad usad"},
      {INTEGERS, "x", "next_power_of_2"},
      {I32, "x, x", "mul24 umul24 hiloint2double"},
      {I32, "x, x, x", "byte_perm"},
      {F64, "x", "rcp64h"},
  };
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    for (const char *name = rows[r].names; *name; name += strspn(name, " ")) {
      int length = (int)strcspn(name, " ");
      for (int t = 0; t < 9; t++) {
        char source[200];
        kiln_arena *arena = kiln_arena_create();
        kiln_diagnostics d = {.arena = arena};
        snprintf(
            source, sizeof source,
            "kiln 1\nkernel k(a: in *%s) @grid(1) {\n  let x = load(a + iota(32))\n  let r = %.*s(%s)\n}\n",
            types[t], length, name, rows[r].arguments);
        kiln_unit *unit = kiln_unit_open(arena, "types.kiln", source, strlen(source), NULL, &d);
        bool taken = unit && kiln_unit_lower(unit, arena, 0, 0, 0, NULL, &d) && !d.count;
        if (taken != (rows[r].takes >> t & 1))
          FAIL("%.*s of %s is %s", length, name, types[t], taken ? "taken" : d.items[0].text);
        kiln_arena_destroy(arena);
      }
      name += length;
    }
  }
}
