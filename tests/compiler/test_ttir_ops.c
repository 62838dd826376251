// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests elementwise operations of Triton IR: each is read into a kernel with one scalar and one tile, and
// run in the interpreter.
#include <math.h>
#include <stdio.h>

#include "tests/compiler/ttir_test.h"

typedef struct row {
  const char *op; ///< with %x, %y, %z for its operands and @T, @U for types
  const char *from, *to;
  uint64_t x, y, z, want;
} row;

static unsigned bytes_of(const char *type) {
  if (!strcmp(type, "i1") || !strcmp(type, "i8") || !strncmp(type, "f8", 2)) return 1;
  if (!strcmp(type, "f16") || !strcmp(type, "bf16") || !strcmp(type, "i16")) return 2;
  return strstr(type, "64") || !strcmp(type, "index") ? 8 : 4;
}

// Writes `text` with @T and @U replaced.
static void expand(char *out, size_t capacity, const char *text, const char *from, const char *to) {
  size_t size = 0;
  for (; *text && size + 48 < capacity; text++) {
    if (text[0] == '@' && (text[1] == 'T' || text[1] == 'U'))
      size += (size_t)snprintf(out + size, capacity - size, "%s", *++text == 'T' ? from : to);
    else out[size++] = *text;
  }
  out[size] = 0;
}

static const char scalar_kernel[] = "module {\n"
                                    "  tt.func public @k(%a: !tt.ptr<@T>, %b: !tt.ptr<@T>, %c: !tt.ptr<@T>, "
                                    "%o: !tt.ptr<@U>) attributes {noinline = false} {\n"
                                    "    %x = tt.load %a : !tt.ptr<@T> loc(#loc)\n"
                                    "    %y = tt.load %b : !tt.ptr<@T> loc(#loc)\n"
                                    "    %z = tt.load %c : !tt.ptr<@T> loc(#loc)\n"
                                    "    %n = arith.constant 2 : i32 loc(#loc)\n"
                                    "    %r = ";
static const char scalar_end[] = "\n"
                                 "    tt.store %o, %r : !tt.ptr<@U> loc(#loc)\n"
                                 "    tt.return loc(#loc)\n"
                                 "  } loc(#loc)\n"
                                 "} loc(#loc)\n"
                                 "#loc = loc(\"k.py\":1:2)\n";

static void check_row(const row *r) {
  char whole[4096], text[4096];
  uint64_t x = r->x, y = r->y, z = r->z, got = 0;
  void *args[4] = {&x, &y, &z, &got};
  snprintf(whole, sizeof whole, "%s%s%s", scalar_kernel, r->op, scalar_end);
  expand(text, sizeof text, whole, r->from, r->to);
  ttir_read t = ttir_read_good(text);
  ttir_run(&t, args, 1);
  ttir_read_end(&t);
  uint64_t want = r->want;
  if (bytes_of(r->to) < 8) want &= (1ull << 8 * bytes_of(r->to)) - 1;
  if (got != want)
    FAIL("%s on %s: expected 0x%llx, found 0x%llx", r->op, r->from, (unsigned long long)want,
         (unsigned long long)got);
}

static void check_rows(const row *rows, size_t count) {
  for (size_t i = 0; i < count; i++) check_row(&rows[i]);
}
#define CHECK_ROWS(rows) check_rows(rows, sizeof rows / sizeof *rows)

// A float's bits, written as its value.
static uint32_t f(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
static const uint32_t nan_bits = 0x7fc00000;

TEST(ttir_ops, integers) {
  const row rows[] = {
      {"arith.addi %x, %y : @T", "i32", "i32", 5, (uint64_t)-7, 0, (uint64_t)-2},
      {"arith.addi %x, %y overflow<nsw> : @T", "i64", "i64", 5, 7, 0, 12},
      {"arith.subi %x, %y : @T", "i32", "i32", 5, 7, 0, (uint64_t)-2},
      {"arith.muli %x, %y : @T", "i32", "i32", 6, 7, 0, 42},
      {"arith.divsi %x, %y : @T", "i32", "i32", (uint64_t)-7, 2, 0, (uint64_t)-3},
      {"arith.divui %x, %y : @T", "i32", "i32", 0xfffffff9, 2, 0, 0x7ffffffc},
      {"arith.remsi %x, %y : @T", "i32", "i32", (uint64_t)-7, 2, 0, (uint64_t)-1},
      {"arith.remui %x, %y : @T", "i32", "i32", 0xfffffff9, 4, 0, 1},
      {"arith.ceildivsi %x, %y : @T", "i32", "i32", 7, 2, 0, 4},
      {"arith.ceildivsi %x, %y : @T", "i32", "i32", 6, 2, 0, 3},
      {"arith.ceildivsi %x, %y : @T", "i32", "i32", (uint64_t)-7, 2, 0, (uint64_t)-3},
      {"arith.ceildivsi %x, %y : @T", "i32", "i32", 7, (uint64_t)-2, 0, (uint64_t)-3},
      {"arith.ceildivsi %x, %y : @T", "i64", "i64", (uint64_t)-7, (uint64_t)-2, 0, 4},
      {"arith.ceildivsi %x, %y : @T", "i32", "i32", 0x7fffffff, 2, 0, 0x40000000},
      {"arith.ceildivsi %x, %y : @T", "i32", "i32", 0, 5, 0, 0},
      {"arith.ceildivui %x, %y : @T", "i32", "i32", 0xffffffff, 2, 0, 0x80000000},
      {"arith.ceildivui %x, %y : @T", "i32", "i32", 8, 4, 0, 2},
      {"arith.ceildivui %x, %y : @T", "i8", "i8", 1, 255, 0, 1},
      {"arith.floordivsi %x, %y : @T", "i32", "i32", (uint64_t)-7, 2, 0, (uint64_t)-4},
      {"arith.floordivsi %x, %y : @T", "i32", "i32", 7, (uint64_t)-2, 0, (uint64_t)-4},
      {"arith.floordivsi %x, %y : @T", "i32", "i32", (uint64_t)-7, (uint64_t)-2, 0, 3},
      {"arith.floordivsi %x, %y : @T", "i32", "i32", (uint64_t)-8, 2, 0, (uint64_t)-4},
      {"arith.addi %x, %y : @T", "index", "index", 1ull << 40, 7, 0, (1ull << 40) + 7},
      {"arith.index_cast %x : @T to @U", "i32", "index", (uint64_t)-7 & 0xffffffff, 0, 0, (uint64_t)-7},
      {"arith.index_castui %x : @T to @U", "i32", "index", 0xfffffff9, 0, 0, 0xfffffff9},
      {"arith.index_cast %x : @T to @U", "index", "i16", 0x12345, 0, 0, 0x2345},
      {"arith.minsi %x, %y : @T", "i32", "i32", (uint64_t)-7, 2, 0, (uint64_t)-7},
      {"arith.maxsi %x, %y : @T", "i32", "i32", (uint64_t)-7, 2, 0, 2},
      {"arith.minui %x, %y : @T", "i32", "i32", (uint64_t)-7, 2, 0, 2},
      {"arith.maxui %x, %y : @T", "i32", "i32", (uint64_t)-7, 2, 0, (uint64_t)-7},
      {"arith.andi %x, %y : @T", "i32", "i32", 12, 10, 0, 8},
      {"arith.ori %x, %y : @T", "i32", "i32", 12, 10, 0, 14},
      {"arith.xori %x, %y : @T", "i32", "i32", 12, 10, 0, 6},
      {"arith.shli %x, %y : @T", "i32", "i32", 3, 4, 0, 48},
      {"arith.shrsi %x, %y : @T", "i32", "i32", (uint64_t)-16, 2, 0, (uint64_t)-4},
      {"arith.shrui %x, %y : @T", "i32", "i32", 0xfffffff0, 28, 0, 15},
      {"tt.mulhiui %x, %y : @T", "i32", "i32", 0xffffffff, 0xffffffff, 0, 0xfffffffe},
      {"math.absi %x : @T", "i32", "i32", (uint64_t)-9, 0, 0, 9},
  };
  CHECK_ROWS(rows);
}

// Arithmetic on i1 is logic; as a signed number true is -1.
TEST(ttir_ops, booleans) {
  const row rows[] = {
      {"arith.addi %x, %y : @T", "i1", "i1", 1, 1, 0, 0},
      {"arith.subi %x, %y : @T", "i1", "i1", 0, 1, 0, 1},
      {"arith.muli %x, %y : @T", "i1", "i1", 1, 1, 0, 1},
      {"arith.maxsi %x, %y : @T", "i1", "i1", 1, 0, 0, 0},
      {"arith.minsi %x, %y : @T", "i1", "i1", 1, 0, 0, 1},
      {"arith.maxui %x, %y : @T", "i1", "i1", 1, 0, 0, 1},
      {"arith.minui %x, %y : @T", "i1", "i1", 1, 0, 0, 0},
      {"arith.cmpi slt, %x, %y : @T", "i1", "i1", 1, 0, 0, 1},
      {"arith.cmpi ult, %x, %y : @T", "i1", "i1", 1, 0, 0, 0},
      {"arith.cmpi eq, %x, %y : @T", "i1", "i1", 1, 1, 0, 1},
      {"arith.extsi %x : @T to @U", "i1", "i32", 1, 0, 0, (uint64_t)-1},
      {"arith.extui %x : @T to @U", "i1", "i32", 1, 0, 0, 1},
      {"arith.sitofp %x : @T to @U", "i1", "f32", 1, 0, 0, 0xbf800000},
      {"arith.uitofp %x : @T to @U", "i1", "f32", 1, 0, 0, 0x3f800000},
      {"arith.trunci %x : @T to @U", "i32", "i1", 6, 0, 0, 0},
      {"arith.trunci %x : @T to @U", "i32", "i1", 7, 0, 0, 1},
  };
  CHECK_ROWS(rows);
}

TEST(ttir_ops, floats) {
  const row rows[] = {
      {"arith.addf %x, %y : @T", "f32", "f32", f(1.5f), f(2.25f), 0, f(3.75f)},
      {"arith.subf %x, %y fastmath<contract> : @T", "f32", "f32", f(1.5f), f(2.25f), 0, f(-0.75f)},
      {"arith.mulf %x, %y : @T", "f32", "f32", f(1.5f), f(2.5f), 0, f(3.75f)},
      {"arith.divf %x, %y : @T", "f32", "f32", f(3), f(2), 0, f(1.5f)},
      {"tt.precise_divf %x, %y : @T", "f32", "f32", f(1), f(3), 0, f(1.0f / 3.0f)},
      {"arith.remf %x, %y : @T", "f32", "f32", f(-7.5f), f(2), 0, f(-1.5f)},
      {"arith.negf %x : @T", "f32", "f32", f(0), 0, 0, 0x80000000},
      {"arith.maxnumf %x, %y : @T", "f32", "f32", nan_bits, f(2), 0, f(2)},
      {"arith.minnumf %x, %y : @T", "f32", "f32", f(2), nan_bits, 0, f(2)},
      {"arith.maximumf %x, %y : @T", "f32", "f32", f(3), f(2), 0, f(3)},
      {"arith.minimumf %x, %y : @T", "f32", "f32", f(3), f(2), 0, f(2)},
      {"tt.clampf %x, %y, %z, propagateNan = none : @T", "f32", "f32", f(9), f(-1), f(1), f(1)},
      {"tt.clampf %x, %y, %z, propagateNan = none : @T", "f32", "f32", nan_bits, f(-1), f(1), f(-1)},
      {"math.fma %x, %y, %z : @T", "f32", "f32", f(2), f(3), f(4), f(10)},
      {"math.absf %x : @T", "f32", "f32", f(-2.5f), 0, 0, f(2.5f)},
      {"math.floor %x : @T", "f32", "f32", f(-2.5f), 0, 0, f(-3)},
      {"math.ceil %x : @T", "f32", "f32", f(-2.5f), 0, 0, f(-2)},
      {"math.roundeven %x : @T", "f32", "f32", f(2.5f), 0, 0, f(2)},
      {"math.trunc %x : @T", "f32", "f32", f(-0.5f), 0, 0, 0x80000000},
      {"math.round %x : @T", "f32", "f32", f(-2.5f), 0, 0, f(-3)},
      {"math.round %x : @T", "f32", "f32", f(0.49999997f), 0, 0, f(0)},
      {"math.copysign %x, %y : @T", "f32", "f32", f(3), f(-0.0f), 0, f(-3)},
      {"math.sqrt %x : @T", "f32", "f32", f(6.25f), 0, 0, f(2.5f)},
      {"tt.precise_sqrt %x : @T", "f32", "f32", f(6.25f), 0, 0, f(2.5f)},
      {"math.rsqrt %x : @T", "f32", "f32", f(4), 0, 0, f(0.5f)},
      {"math.exp2 %x : @T", "f32", "f32", f(3), 0, 0, f(8)},
      {"math.log2 %x : @T", "f32", "f32", f(8), 0, 0, f(3)},
      {"math.exp %x : @T", "f32", "f32", f(0), 0, 0, f(1)},
      {"math.log %x : @T", "f32", "f32", f(1), 0, 0, f(0)},
      {"math.sin %x : @T", "f32", "f32", f(0), 0, 0, f(0)},
      {"math.cos %x : @T", "f32", "f32", f(0), 0, 0, f(1)},
      {"math.tanh %x : @T", "f32", "f32", f(0), 0, 0, f(0)},
      {"math.erf %x : @T", "f32", "f32", f(0), 0, 0, f(0)},
      {"math.exp %x : @T", "f16", "f16", 0, 0, 0, 0x3c00},
  };
  CHECK_ROWS(rows);
}

TEST(ttir_ops, comparisons) {
  static const struct {
    const char *name;
    int less, equal, greater, unordered;
  } predicates[] = {
      {"oeq", 0, 1, 0, 0}, {"ogt", 0, 0, 1, 0}, {"oge", 0, 1, 1, 0},  {"olt", 1, 0, 0, 0},
      {"ole", 1, 1, 0, 0}, {"one", 1, 0, 1, 0}, {"ord", 1, 1, 1, 0},  {"ueq", 0, 1, 0, 1},
      {"ugt", 0, 0, 1, 1}, {"uge", 0, 1, 1, 1}, {"ult", 1, 0, 0, 1},  {"ule", 1, 1, 0, 1},
      {"une", 1, 0, 1, 1}, {"uno", 0, 0, 0, 1}, {"true", 1, 1, 1, 1}, {"false", 0, 0, 0, 0},
  };
  for (size_t i = 0; i < sizeof predicates / sizeof *predicates; i++) {
    char op[64];
    snprintf(op, sizeof op, "arith.cmpf %s, %%x, %%y : @T", predicates[i].name);
    const row rows[] = {
        {op, "f32", "i1", f(1), f(2), 0, (uint64_t)predicates[i].less},
        {op, "f32", "i1", f(2), f(2), 0, (uint64_t)predicates[i].equal},
        {op, "f32", "i1", f(3), f(2), 0, (uint64_t)predicates[i].greater},
        {op, "f32", "i1", nan_bits, f(2), 0, (uint64_t)predicates[i].unordered},
        {op, "f32", "i1", f(2), nan_bits, 0, (uint64_t)predicates[i].unordered},
    };
    CHECK_ROWS(rows);
  }
  const row integers[] = {
      {"arith.cmpi slt, %x, %y : @T", "i32", "i1", (uint64_t)-1, 1, 0, 1},
      {"arith.cmpi ult, %x, %y : @T", "i32", "i1", (uint64_t)-1, 1, 0, 0},
      {"arith.cmpi sge, %x, %y : @T", "i32", "i1", 1, 1, 0, 1},
      {"arith.cmpi ugt, %x, %y : @T", "i32", "i1", (uint64_t)-1, 1, 0, 1},
      {"arith.cmpi ne, %x, %y : @T", "i64", "i1", 1, 2, 0, 1},
      {"arith.cmpi sle, %x, %y : @T", "i64", "i1", 2, 1, 0, 0},
  };
  CHECK_ROWS(integers);
}

TEST(ttir_ops, casts) {
  const row rows[] = {
      {"arith.extf %x : @T to @U", "f16", "f32", 0x3e00, 0, 0, f(1.5f)},
      {"arith.truncf %x : @T to @U", "f32", "bf16", f(1.5f), 0, 0, 0x3fc0},
      {"arith.extsi %x : @T to @U", "i32", "i64", 0xfffffffe, 0, 0, (uint64_t)-2},
      {"arith.extui %x : @T to @U", "i32", "i64", 0xfffffffe, 0, 0, 0xfffffffe},
      {"arith.trunci %x : @T to @U", "i64", "i32", 0x1fffffffeull, 0, 0, 0xfffffffe},
      {"arith.sitofp %x : @T to @U", "i32", "f32", (uint64_t)-3, 0, 0, f(-3)},
      {"arith.uitofp %x : @T to @U", "i32", "f32", 0x80000000, 0, 0, f(2147483648.0f)},
      {"arith.fptosi %x : @T to @U", "f32", "i32", f(-3.7f), 0, 0, (uint64_t)-3},
      {"arith.fptoui %x : @T to @U", "f32", "i32", f(3e9f), 0, 0, 3000000000u},
      {"tt.fp_to_fp %x, rounding = rtne : @T -> @U", "f32", "f8E5M2", f(1.5f), 0, 0, 0x3e},
      {"tt.fp_to_fp %x, rounding = rtz : @T -> @U", "f32", "f16", f(1.9999999f), 0, 0, 0x3fff},
      {"tt.fp_to_fp %x {rounding = 0 : i32} : @T -> @U", "f32", "f16", f(1.9999999f), 0, 0, 0x3fff},
      {"tt.fp_to_fp %x {rounding = 1 : i32} : @T -> @U", "f32", "f16", f(1.9999999f), 0, 0, 0x4000},
      {"tt.fp_to_fp %x : @T -> @U", "f8E4M3FN", "f16", 0x3c, 0, 0, 0x3e00},
      {"arith.bitcast %x : @T to @U", "f32", "i32", f(1), 0, 0, 0x3f800000},
      {"tt.bitcast %x : @T -> @U", "i32", "f32", 0x3f800000, 0, 0, f(1)},
  };
  CHECK_ROWS(rows);
}

// Names of the vendors' libraries mean ours.
TEST(ttir_ops, library_names) {
#define EXTERN(symbol, args, from)                                                                  \
  "tt.extern_elementwise " args " {libname = \"\", libpath = \"\", pure = true, symbol = \"" symbol \
  "\"} : (" from ") -> @U"
  const row rows[] = {
      {EXTERN("__nv_expf", "%x", "@T"), "f32", "f32", f(0), 0, 0, f(1)},
      // By exp2 of a product it was 49 units off.
      {EXTERN("__nv_expf", "%x", "@T"), "f32", "f32", f(79.625f), 0, 0, f(3.808010362622932e+34f)},
      {EXTERN("__ocml_exp2_f32", "%x", "@T"), "f32", "f32", f(4), 0, 0, f(16)},
      {EXTERN("__nv_rsqrtf", "%x", "@T"), "f32", "f32", f(16), 0, 0, f(0.25f)},
      {EXTERN("__nv_fabs", "%x", "@T"), "f64", "f64", 0xbff0000000000000, 0, 0, 0x3ff0000000000000},
      {EXTERN("__nv_isnanf", "%x", "@T"), "f32", "i32", nan_bits, 0, 0, 1},
      {EXTERN("__ocml_isnan_f32", "%x", "@T"), "f32", "i1", f(1), 0, 0, 0},
      {EXTERN("__nv_finitef", "%x", "@T"), "f32", "i32", f(INFINITY), 0, 0, 0},
      {EXTERN("__nv_isinff", "%x", "@T"), "f32", "i32", f(-INFINITY), 0, 0, 1},
      {EXTERN("__nv_signbitf", "%x", "@T"), "f32", "i32", f(-0.0f), 0, 0, 1},
      {EXTERN("__nv_fmodf", "%x, %y", "@T, @T"), "f32", "f32", f(7.5f), f(2), 0, f(1.5f)},
      {EXTERN("__nv_fmaf", "%x, %y, %z", "@T, @T, @T"), "f32", "f32", f(2), f(3), f(4), f(10)},
      {EXTERN("__nv_umulhi", "%x, %y", "@T, @T"), "i32", "i32", 0xffffffff, 2, 0, 1},
      {EXTERN("__nv_float_as_int", "%x", "@T"), "f32", "i32", f(1), 0, 0, 0x3f800000},
      {EXTERN("__nv_float2int_rn", "%x", "@T"), "f32", "i32", f(2.5f), 0, 0, 2},
      {EXTERN("__nv_truncf", "%x", "@T"), "f32", "f32", f(-2.75f), 0, 0, f(-2)},
      {EXTERN("__nv_roundf", "%x", "@T"), "f32", "f32", f(2.5f), 0, 0, f(3)},
      {EXTERN("__nv_fdimf", "%x, %y", "@T, @T"), "f32", "f32", f(3), f(1), 0, f(2)},
      {EXTERN("__nv_saturatef", "%x", "@T"), "f32", "f32", f(3), 0, 0, f(1)},
      {EXTERN("__nv_frcp_rn", "%x", "@T"), "f32", "f32", f(4), 0, 0, f(0.25f)},
      {EXTERN("__nv_ffsll", "%x", "@T"), "i64", "i32", 0x4000000000, 0, 0, 39},
      {EXTERN("__nv_clz", "%x", "@T"), "i32", "i32", 0x00f00000, 0, 0, 8},
      {EXTERN("__ockl_popcount_u64", "%x", "@T"), "i64", "i32", 0xff00000000000001, 0, 0, 9},
      {EXTERN("__nv_j0f", "%x", "@T"), "f32", "f32", f(0), 0, 0, f(1)},
      {EXTERN("__nv_fadd_ru", "%x, %y", "@T, @T"), "f32", "f32", f(1), f(1e-20f), 0, f(1) + 1},
      {EXTERN("__nv_fmaf_rz", "%x, %y, %z", "@T, @T, @T"), "f32", "f32", f(1), f(-1), f(-1e-20f), f(-1)},
      {EXTERN("__nv_double2float_rd", "%x", "@T"), "f64", "f32", 0x3ff0000000000001, 0, 0, f(1)},
      {EXTERN("__nv_float2int_rd", "%x", "@T"), "f32", "i32", f(-2.5f), 0, 0, (uint64_t)-3},
      {EXTERN("__nv_float2uint_ru", "%x", "@T"), "f32", "i32", f(4294967040.0f), 0, 0, 0xffffff00},
      {EXTERN("__nv_llroundf", "%x", "@T"), "f32", "i64", f(-2.5f), 0, 0, (uint64_t)-3},
      {EXTERN("__nv_scalbnf", "%x, %n", "@T, i32"), "f32", "f32", f(3), 0, 0, f(12)},
      {EXTERN("__nv_hiloint2double", "%x, %y", "@T, @T"), "i32", "f64", 0x3ff00000, 1, 0, 0x3ff0000000000001},
      {EXTERN("__triton_hip_iabs", "%x", "@T"), "i32", "i32", (uint64_t)-7, 0, 0, 7},
      {EXTERN("__ocml_erfcx_f32", "%x", "@T"), "f32", "f32", f(0), 0, 0, f(1)},
      {"math.ctpop %x : @T", "i32", "i32", 0xff, 0, 0, 8},
      {"math.ctlz %x : @T", "i64", "i64", 1, 0, 0, 63},
      {EXTERN("__nv_powf", "%x, %y", "@T, @T"), "f32", "f32", f(1), f(5), 0, f(1)},
  };
  CHECK_ROWS(rows);
}

static uint64_t constant_of(const char *literal, const char *type) {
  char text[512];
  uint64_t got = 0;
  void *args[1] = {&got};
  snprintf(text, sizeof text,
           "module {\n  tt.func public @k(%%o: !tt.ptr<%s>) {\n    %%c-5_x = arith.constant %s\n    tt.store "
           "%%o, %%c-5_x : !tt.ptr<%s>\n    "
           "tt.return\n  }\n}\n",
           type, literal, type);
  ttir_read t = ttir_read_good(text);
  ttir_run(&t, args, 1);
  ttir_read_end(&t);
  return got;
}

TEST(ttir_ops, constants) {
  CHECK_INT(constant_of("1024 : i32", "i32"), 1024);
  CHECK_INT(constant_of("-5 : i64", "i64"), -5);
  CHECK_INT(constant_of("true", "i1"), 1);
  CHECK_INT(constant_of("false", "i1"), 0);
  CHECK_INT(constant_of("1.44269502 : f32", "f32"), 0x3fb8aa3b);
  CHECK_INT(constant_of("9.99999997E-7 : f32", "f32"), 0x358637bd);
  CHECK_INT(constant_of("0xFF800000 : f32", "f32"), 0xff800000);
  CHECK_INT(constant_of("0xFC00 : f16", "f16"), 0xfc00);
  CHECK_INT(constant_of("0x7FC0 : bf16", "bf16"), 0x7fc0);
  CHECK_INT(constant_of("dense<2> : tensor<i32>", "i32"), 2); // rank 0
  CHECK_INT(constant_of("dense<-2.500000e+00> : tensor<f64>", "f64"), (long long)0xc004000000000000);
}

static void note_log2(ir_op *op, void *context) {
  if (op->code == IR_LOG2) *(unsigned *)context |= op->attrs.flags & IR_PRECISE ? 1u : 2u;
}

/// The error of a machine's own log2 is absolute: near 1, where losses are small differences, nothing would
/// be left of a logarithm. Triton takes that form under the names that say fast, and nowhere else.
TEST(ttir_ops, logarithms_are_precise) {
  static const struct {
    const char *op;
    unsigned want;
  } cases[] = {
      {"math.log %x : @T", 1},
      {"math.log2 %x : @T", 1},
      {"math.log10 %x : @T", 1},
      {"tt.extern_elementwise %x {libname = \"\", libpath = \"\", pure = true, symbol = \"__nv_logf\"} : "
       "(@T) -> @U",
       1},
      {"tt.extern_elementwise %x {libname = \"\", libpath = \"\", pure = true, symbol = \"__nv_fast_logf\"} "
       ": (@T) -> @U",
       2},
      {"tt.extern_elementwise %x {libname = \"\", libpath = \"\", pure = true, symbol = \"__nv_fast_log2f\"} "
       ": (@T) -> @U",
       2},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char whole[4096], text[4096];
    unsigned found = 0;
    snprintf(whole, sizeof whole, "%s%s%s", scalar_kernel, cases[i].op, scalar_end);
    expand(text, sizeof text, whole, "f32", "f32");
    ttir_read t = ttir_read_good(text);
    ir_walk(t.kernel->body, note_log2, &found);
    if (found != cases[i].want) FAIL("%s: expected %u, found %u", cases[i].op, cases[i].want, found);
    ttir_read_end(&t);
  }
}
