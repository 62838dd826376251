// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests every function of the device libraries that Triton's language names, with its types: each is read
// and run, on numbers and on NaNs.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/compiler/ttir_test.h"

/// `types`: a letter an operand, '>' and the result: f f32, d f64, i i32, l i64. Names without "__", several
/// in a text.
typedef struct group {
  const char *types, *names;
} group;

static const group groups[] = {
    {"d>d", "nv_acos nv_acosh nv_asin nv_asinh nv_atan nv_atanh nv_cbrt nv_ceil nv_cos nv_cosh nv_cospi "
            "nv_cyl_bessel_i0 "
            "nv_cyl_bessel_i1 nv_drcp_rd nv_drcp_rn nv_drcp_ru nv_drcp_rz nv_dsqrt_rd nv_dsqrt_rn "
            "nv_dsqrt_ru nv_dsqrt_rz nv_erf "
            "nv_erfc nv_erfcinv nv_erfcx nv_erfinv nv_exp nv_exp10 nv_exp2 nv_expm1 nv_fabs nv_floor nv_j0 "
            "nv_j1 nv_lgamma nv_log "
            "nv_log10 nv_log1p nv_log2 nv_logb nv_nearbyint nv_normcdf nv_normcdfinv nv_rcbrt nv_rcp64h "
            "nv_rint nv_round nv_rsqrt "
            "nv_sin nv_sinh nv_sinpi nv_sqrt nv_tan nv_tanh nv_tgamma nv_trunc nv_y0 nv_y1 ocml_acos_f64 "
            "ocml_acosh_f64 ocml_asin_f64 "
            "ocml_asinh_f64 ocml_atan_f64 ocml_atanh_f64 ocml_ceil_f64 ocml_cos_f64 ocml_cosh_f64 "
            "ocml_erf_f64 ocml_erfc_f64 "
            "ocml_erfcx_f64 ocml_erfinv_f64 ocml_exp2_f64 ocml_exp_f64 ocml_expm1_f64 ocml_floor_f64 "
            "ocml_i0_f64 ocml_i1_f64 "
            "ocml_j0_f64 ocml_j1_f64 ocml_lgamma_f64 ocml_log10_f64 ocml_log1p_f64 ocml_log2_f64 "
            "ocml_log_f64 ocml_nearbyint_f64 "
            "ocml_round_f64 ocml_rsqrt_f64 ocml_sin_f64 ocml_sinh_f64 ocml_sqrt_f64 ocml_tan_f64 "
            "ocml_tanh_f64 ocml_trunc_f64 "
            "ocml_y0_f64 ocml_y1_f64 triton_hip_fabs triton_hip_rint"},
    {"d>f", "nv_double2float_rd nv_double2float_rn nv_double2float_ru nv_double2float_rz"},
    {"d>i", "nv_double2hiint nv_double2int_rd nv_double2int_rn nv_double2int_ru nv_double2int_rz "
            "nv_double2loint nv_double2uint_rd "
            "nv_double2uint_rn nv_double2uint_ru nv_double2uint_rz nv_ilogb nv_isfinited nv_isinfd nv_isnand "
            "nv_signbitd "
            "ocml_ilogb_f64 ocml_isfinite_f64 ocml_isinf_f64 ocml_isnan_f64 ocml_signbit_f64"},
    {"d>l", "nv_double2ll_rd nv_double2ll_rn nv_double2ll_ru nv_double2ll_rz nv_double2ull_rd "
            "nv_double2ull_rn nv_double2ull_ru "
            "nv_double2ull_rz nv_double_as_longlong nv_llrint nv_llround triton_hip_llrint"},
    {"dd>d", "nv_atan2 nv_copysign nv_dadd_rd nv_dadd_rn nv_dadd_ru nv_dadd_rz nv_ddiv_rd nv_ddiv_rn "
             "nv_ddiv_ru nv_ddiv_rz nv_dmul_rd "
             "nv_dmul_rn nv_dmul_ru nv_dmul_rz nv_dsub_rd nv_dsub_rn nv_dsub_ru nv_dsub_rz nv_fdim nv_fmod "
             "nv_hypot nv_nextafter "
             "nv_pow nv_remainder nv_rhypot ocml_atan2_f64 ocml_copysign_f64 ocml_fmod_f64 ocml_hypot_f64 "
             "ocml_nextafter_f64 "
             "ocml_pow_f64"},
    {"ddd>d", "nv_fma nv_fma_rd nv_fma_rn nv_fma_ru nv_fma_rz nv_norm3d nv_rnorm3d ocml_fma_f64"},
    {"dddd>d", "nv_norm4d nv_rnorm4d"},
    {"di>d", "nv_ldexp nv_powi nv_scalbn ocml_ldexp_f64 ocml_pown_f64"},
    {"f>f",
     "nv_acosf nv_acoshf nv_asinf nv_asinhf nv_atanf nv_atanhf nv_cbrtf nv_ceilf nv_cosf nv_coshf nv_cospif "
     "nv_cyl_bessel_i0f "
     "nv_cyl_bessel_i1f nv_erfcf nv_erfcinvf nv_erfcxf nv_erff nv_erfinvf nv_exp10f nv_exp2f nv_expf "
     "nv_expm1f nv_fabsf "
     "nv_fast_cosf nv_fast_exp10f nv_fast_expf nv_fast_log10f nv_fast_log2f nv_fast_logf nv_fast_sinf "
     "nv_fast_tanf nv_floorf "
     "nv_frcp_rd nv_frcp_rn nv_frcp_ru nv_frcp_rz nv_frsqrt_rn nv_fsqrt_rd nv_fsqrt_rn nv_fsqrt_ru "
     "nv_fsqrt_rz nv_j0f nv_j1f "
     "nv_lgammaf nv_log10f nv_log1pf nv_log2f nv_logbf nv_logf nv_nearbyintf nv_normcdff nv_normcdfinvf "
     "nv_rcbrtf nv_rintf "
     "nv_roundf nv_rsqrtf nv_saturatef nv_sinf nv_sinhf nv_sinpif nv_sqrtf nv_tanf nv_tanhf nv_tgammaf "
     "nv_truncf nv_y0f nv_y1f "
     "ocml_acos_f32 ocml_acosh_f32 ocml_asin_f32 ocml_asinh_f32 ocml_atan_f32 ocml_atanh_f32 ocml_ceil_f32 "
     "ocml_cos_f32 "
     "ocml_cosh_f32 ocml_erf_f32 ocml_erfc_f32 ocml_erfcx_f32 ocml_erfinv_f32 ocml_exp2_f32 ocml_exp_f32 "
     "ocml_expm1_f32 "
     "ocml_floor_f32 ocml_i0_f32 ocml_i1_f32 ocml_j0_f32 ocml_j1_f32 ocml_lgamma_f32 ocml_log10_f32 "
     "ocml_log1p_f32 "
     "ocml_log2_f32 ocml_log_f32 ocml_nearbyint_f32 ocml_round_f32 ocml_rsqrt_f32 ocml_sin_f32 ocml_sinh_f32 "
     "ocml_sqrt_f32 "
     "ocml_tan_f32 ocml_tanh_f32 ocml_trunc_f32 ocml_y0_f32 ocml_y1_f32 triton_hip_fabs triton_hip_fast_expf "
     "triton_hip_fast_tanhf triton_hip_rint"},
    {"f>i", "nv_finitef nv_float2int_rd nv_float2int_rn nv_float2int_ru nv_float2int_rz nv_float2uint_rd "
            "nv_float2uint_rn "
            "nv_float2uint_ru nv_float2uint_rz nv_float_as_int nv_float_as_uint nv_ilogbf nv_isinff "
            "nv_isnanf nv_signbitf "
            "ocml_ilogb_f32 ocml_isfinite_f32 ocml_isinf_f32 ocml_isnan_f32 ocml_signbit_f32"},
    {"f>l", "nv_float2ll_rd nv_float2ll_rn nv_float2ll_ru nv_float2ll_rz nv_float2ull_rd nv_float2ull_rn "
            "nv_float2ull_ru "
            "nv_float2ull_rz nv_llrintf nv_llroundf triton_hip_llrint"},
    {"ff>f", "nv_atan2f nv_copysignf nv_fadd_rd nv_fadd_rn nv_fadd_ru nv_fadd_rz nv_fast_fdividef "
             "nv_fast_powf nv_fdimf nv_fdiv_rd "
             "nv_fdiv_rn nv_fdiv_ru nv_fdiv_rz nv_fmodf nv_fmul_rd nv_fmul_rn nv_fmul_ru nv_fmul_rz "
             "nv_fsub_rd nv_fsub_rn nv_fsub_ru "
             "nv_fsub_rz nv_hypotf nv_nextafterf nv_powf nv_remainderf nv_rhypotf ocml_atan2_f32 "
             "ocml_copysign_f32 ocml_fmod_f32 "
             "ocml_hypot_f32 ocml_nextafter_f32 ocml_pow_f32 triton_hip_fast_fdividef"},
    {"fff>f", "nv_fmaf nv_fmaf_rd nv_fmaf_rn nv_fmaf_ru nv_fmaf_rz nv_norm3df nv_rnorm3df ocml_fma_f32"},
    {"ffff>f", "nv_norm4df nv_rnorm4df"},
    {"fi>f", "nv_ldexpf nv_powif nv_scalbnf ocml_ldexp_f32 ocml_pown_f32"},
    {"i>d", "nv_int2double_rn nv_uint2double_rn"},
    {"i>f", "nv_int2float_rd nv_int2float_rn nv_int2float_ru nv_int2float_rz nv_int_as_float "
            "nv_uint2float_rd nv_uint2float_rn "
            "nv_uint2float_ru nv_uint2float_rz nv_uint_as_float"},
    {"i>i", "nv_abs nv_brev nv_clz nv_ffs nv_popc ockl_clz_u32 ockl_popcount_u32 triton_hip_iabs"},
    {"id>d", "nv_jn nv_yn"},
    {"if>f", "nv_jnf nv_ynf"},
    {"ii>d", "nv_hiloint2double"},
    {"ii>i", "nv_hadd nv_mul24 nv_mulhi nv_rhadd nv_uhadd nv_umul24 nv_umulhi nv_urhadd"},
    {"iii>i", "nv_byte_perm nv_sad nv_usad"},
    {"l>d", "nv_ll2double_rd nv_ll2double_rn nv_ll2double_ru nv_ll2double_rz nv_longlong_as_double "
            "nv_ull2double_rd nv_ull2double_rn "
            "nv_ull2double_ru nv_ull2double_rz"},
    {"l>f", "nv_ll2float_rd nv_ll2float_rn nv_ll2float_ru nv_ll2float_rz nv_ull2float_rd nv_ull2float_rn "
            "nv_ull2float_ru "
            "nv_ull2float_rz"},
    {"l>i", "nv_clzll nv_ffsll nv_popcll ockl_popcount_u64"},
    {"l>l", "nv_brevll nv_llabs ockl_clz_u64 triton_hip_iabs"},
    {"ll>l", "nv_mul64hi nv_umul64hi"},
};

static const char *type_of(char letter) {
  switch (letter) {
  case 'f': return "f32";
  case 'd': return "f64";
  case 'l': return "i64";
  default: return "i32";
  }
}

// Four elements of each operand, of 8 bytes or 4.
typedef union column {
  float f[4];
  double d[4];
  int32_t i[4];
  int64_t l[4];
} column;

static column operand_of(char letter, unsigned at) {
  static const double numbers[4][4] = {
      {0.75, -2.5, 0, INFINITY}, {1.5, 0.25, -0.0, 3}, {-4, 8, 1, NAN}, {2, -1, 0.5, 6}};
  column c = {.l = {0}};
  for (int k = 0; k < 4; k++) {
    double v = numbers[at][k];
    int64_t whole = isfinite(v) ? (int64_t)(v * 2) : 3;
    if (letter == 'f') c.f[k] = (float)v;
    else if (letter == 'd') c.d[k] = v;
    else if (letter == 'l') c.l[k] = whole;
    else c.i[k] = (int32_t)whole;
  }
  return c;
}

static void put_operands(char *text, size_t capacity, size_t *size, unsigned count, const char *what,
                         const char *types) {
  for (unsigned i = 0; i < count; i++) {
    if (*what == '%') *size += (size_t)snprintf(text + *size, capacity - *size, "%s%%x%u", i ? ", " : "", i);
    else
      *size += (size_t)snprintf(text + *size, capacity - *size, "%stensor<4x%s>", i ? ", " : "",
                                type_of(types[i]));
  }
}

static void run_symbol(const char *symbol, const char *types) {
  char text[6000];
  unsigned count = (unsigned)(strchr(types, '>') - types);
  char to = types[count + 1];
  size_t size = (size_t)snprintf(text, sizeof text, "module {\n  tt.func public @k(");
  for (unsigned i = 0; i <= count; i++)
    size += (size_t)snprintf(text + size, sizeof text - size, "%s%%p%u: !tt.ptr<%s>", i ? ", " : "", i,
                             type_of(i < count ? types[i] : to));
  size += (size_t)snprintf(text + size, sizeof text - size,
                           ") {\n    %%i = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>\n");
  for (unsigned i = 0; i <= count; i++) {
    const char *t = type_of(i < count ? types[i] : to);
    size += (size_t)snprintf(text + size, sizeof text - size,
                             "    %%s%u = tt.splat %%p%u : !tt.ptr<%s> -> tensor<4x!tt.ptr<%s>>\n    %%q%u = "
                             "tt.addptr %%s%u, %%i : tensor<4x!tt.ptr<%s>>, tensor<4xi32>\n",
                             i, i, t, t, i, i, t);
    if (i < count)
      size += (size_t)snprintf(text + size, sizeof text - size,
                               "    %%x%u = tt.load %%q%u : tensor<4x!tt.ptr<%s>>\n", i, i, t);
  }
  size += (size_t)snprintf(text + size, sizeof text - size, "    %%r = tt.extern_elementwise ");
  put_operands(text, sizeof text, &size, count, "%", types);
  size += (size_t)snprintf(text + size, sizeof text - size,
                           " {libname = \"\", libpath = \"\", pure = true, symbol = \"%s\"} : (", symbol);
  put_operands(text, sizeof text, &size, count, "T", types);
  snprintf(text + size, sizeof text - size,
           ") -> tensor<4x%s>\n    tt.store %%q%u, %%r : tensor<4x!tt.ptr<%s>>\n    tt.return\n  }\n}\n",
           type_of(to), count, type_of(to));
  column columns[5];
  void *args[5];
  for (unsigned i = 0; i < count; i++) columns[i] = operand_of(types[i], i);
  memset(&columns[count], 0x5a, sizeof *columns);
  for (unsigned i = 0; i <= count; i++) args[i] = &columns[i];
  ttir_read t = ttir_read_good(text);
  ttir_run(&t, args, 1);
  ttir_read_end(&t);
  unsigned bytes = to == 'd' || to == 'l' ? 8 : 4;
  static const unsigned char untouched[8] = {0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a};
  for (unsigned k = 0; k < 4; k++)
    if (!memcmp((const char *)&columns[count] + k * bytes, untouched, bytes))
      FAIL("%s gave nothing for element %u", symbol, k);
}

TEST(ttir_library, every_function) {
  unsigned symbols = 0;
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
    char names[12000], symbol[64];
    snprintf(names, sizeof names, "%s", groups[i].names);
    for (char *rest = NULL, *name = strtok_r(names, " ", &rest); name;
         name = strtok_r(NULL, " ", &rest), symbols++) {
      snprintf(symbol, sizeof symbol, "__%s", name);
      run_symbol(symbol, groups[i].types);
    }
  }
  printf("%u functions\n", symbols);
}
