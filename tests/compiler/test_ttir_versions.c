// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests forms that versions of Triton write differently: each is read, and run in the interpreter.
#include <stdio.h>
#include <stdlib.h>

#include "tests/compiler/ttir_test.h"

// A kernel of three pointers. `types` are what they point to.
static char *kernel_of(const char *const types[3], const char *before, const char *body) {
  size_t capacity = strlen(body) + strlen(before) + 512;
  char *text = malloc(capacity);
  snprintf(text, capacity,
           "%smodule {\n  tt.func public @k(%%a: !tt.ptr<%s>, %%b: !tt.ptr<%s>, %%c: !tt.ptr<%s>) attributes "
           "{noinline = false} {\n%s    tt.return\n  }\n}\n",
           before, types[0], types[1], types[2], body);
  return text;
}

static void run_kernel(const char *const types[3], const char *body, void *a, void *b, void *c) {
  char *text = kernel_of(types, "", body);
  void *args[3] = {a, b, c};
  ttir_read t = ttir_read_good(text);
  ttir_run(&t, args, 1);
  ttir_read_end(&t);
  free(text);
}

static const char *const floats[3] = {"f32", "f32", "f32"}, *const integers[3] = {"i32", "i32", "i32"};

// Triton 3.1 put file, function and line after the message of an assertion.
TEST(ttir_versions, assertion) {
  int32_t x[1] = {0};
  run_kernel(integers,
             "    %t = arith.constant true\n"
             "    tt.assert %t, \"must hold\", \"k.py\", \"k\", 12 : i1\n"
             "    tt.assert %t, \"must hold\" : i1\n"
             "    %v = arith.constant 5 : i32\n"
             "    tt.store %c, %v : !tt.ptr<i32>\n",
             x, x, x);
  CHECK_INT(x[0], 5);
}

// Triton 3.1 wrote the 8-bit float of CUDA by the name that AMD's has since.
TEST(ttir_versions, names_of_8_bit_floats) {
  static const char *const types[3] = {"f8E4M3FNUZ", "f32", "f32"};
  char *text = kernel_of(types, "",
                         "    %x = tt.load %a : !tt.ptr<f8E4M3FNUZ>\n"
                         "    %y = tt.fp_to_fp %x : f8E4M3FNUZ -> f32\n"
                         "    tt.store %c, %y : !tt.ptr<f32>\n");
  for (int is_cuda = 0; is_cuda < 2; is_cuda++) {
    const char *json = is_cuda ? "{\"target\": {\"backend\": \"cuda\", \"arch\": 90, \"warp_size\": 32}}"
                               : "{\"target\": {\"backend\": \"hip\"}}";
    ttir_read t = {.arena = kiln_arena_create()};
    ttir_facts facts = {0};
    kiln_error err;
    CHECK_OK(ttir_read_facts(t.arena, json, strlen(json), &facts, &err), err);
    t.d.arena = t.arena;
    t.module = ttir_open(t.arena, "test.ttir", text, strlen(text), &t.d);
    t.kernel = t.module ? ttir_build(t.module, 0, &facts, t.arena, &t.d) : NULL;
    CHECK_INT(t.kernel != NULL, is_cuda);
    if (is_cuda) {
      uint8_t a = 0x7e; // 448 in e4m3fn
      float c = 0;
      void *args[3] = {&a, &c, &c};
      ttir_run(&t, args, 1);
      CHECK_INT((int)c, 448);
    } else if (!strstr(ttir_first_error(&t), "f8E4M3FNUZ means f8E4M3FN in Triton 3.1"))
      FAIL("%s", ttir_first_error(&t));
    ttir_read_end(&t);
  }
  free(text);
}

// Loops carry hints for LLVM in aliases since 3.5.
TEST(ttir_versions, aliases_of_hints) {
  char *text = kernel_of(
      integers,
      "#loc = loc(\"k.py\":1:0)\n#loop_licm = #llvm.loop_licm<disable = true, versioningDisable = true>\n"
      "#loop_annotation = #llvm.loop_annotation<licm = #loop_licm>\n",
      "    %0 = arith.constant 0 : i32\n"
      "    %1 = arith.constant 1 : i32\n"
      "    %4 = arith.constant 4 : i32\n"
      "    %s = scf.for %i = %0 to %4 step %1 iter_args(%x = %0) -> (i32)  : i32 {\n"
      "      %y = arith.addi %x, %i : i32\n"
      "      scf.yield %y : i32\n"
      "    } {llvm.loop_annotation = #loop_annotation} loc(#loc)\n"
      "    tt.store %c, %s : !tt.ptr<i32>\n");
  int32_t c = 0;
  void *args[3] = {&c, &c, &c};
  ttir_read t = ttir_read_good(text);
  ttir_run(&t, args, 1);
  ttir_read_end(&t);
  free(text);
  CHECK_INT(c, 6);
}

// Operations of 3.9: loads, stores and polls that are atomic, the fast division, the wait for the launch
// before.
TEST(ttir_versions, atomic_access) {
  float f[3] = {2.5f, 0, 5};
  int32_t i[3] = {7, 0, 0};
  static const char *const types[3] = {"f32", "i32", "i32"};
  run_kernel(types,
             "    tt.grid_dependency_wait\n"
             "    %t = arith.constant true\n"
             "    %no = arith.constant false\n"
             "    %1 = arith.constant 1 : i32\n"
             "    %2 = arith.constant 2 : i32\n"
             "    %7 = arith.constant 7 : i32\n"
             "    %long = arith.constant 1000 : i64\n"
             "    %x = tt.atomic_load acquire, gpu, %a, %t : (!tt.ptr<f32>, i1) -> f32\n"
             "    %y = tt.approx_divf %x, %x : f32\n"
             "    %z = arith.addf %x, %y : f32\n"
             "    %a1 = tt.addptr %a, %1 : !tt.ptr<f32>, i32\n"
             "    tt.atomic_store release, gpu, %a1, %z, %t : !tt.ptr<f32>\n"
             "    %v = tt.atomic_load relaxed, sys, %b : (!tt.ptr<i32>) -> i32\n"
             "    %b1 = tt.addptr %b, %1 : !tt.ptr<i32>, i32\n"
             "    tt.atomic_store relaxed, cta, %b1, %v : !tt.ptr<i32>\n"
             "    tt.atomic_store release, gpu, %b, %2, %no : !tt.ptr<i32>\n"
             "    %seen = tt.atomic_poll acquire, gpu, %b1, %7 timeout %long : !tt.ptr<i32>, i32 -> i1\n"
             "    %again = tt.atomic_poll relaxed, sys, %b1, %7 : !tt.ptr<i32>, i32 -> i1\n"
             "    %w = arith.extui %seen : i1 to i32\n"
             "    %never = tt.atomic_poll acquire, gpu, %b1, %2 timeout %long : !tt.ptr<i32>, i32 -> i1\n"
             "    %a2 = tt.addptr %a, %2 : !tt.ptr<f32>, i32\n"
             "    %far = arith.uitofp %never : i1 to f32\n"
             "    tt.store %a2, %far : !tt.ptr<f32>\n"
             "    %b2 = tt.addptr %b, %2 : !tt.ptr<i32>, i32\n"
             "    tt.store %b2, %w : !tt.ptr<i32>\n"
             "    tt.grid_dependency_launch_dependents\n",
             f, i, i);
  if (f[1] != 3.5f) FAIL("expected 3.5, found %g", (double)f[1]);
  if (f[2] != 0) FAIL("a poll of what does not come gave %g, expected 0", (double)f[2]);
  CHECK_INT(i[0], 7);
  CHECK_INT(i[1], 7);
  CHECK_INT(i[2], 1);
}

// --------------------------------------------------------------------------------- scaled products

// After the tiles %x (left) and %s (its scales): the product with the unit matrix of 32, so that the left
// operand itself comes out.
#define UNIT                                                                           \
  "    %one = arith.constant dense<1.0> : tensor<32x32xf32>\n"                         \
  "    %zero = arith.constant dense<0.0> : tensor<32x32xf32>\n"                        \
  "    %acc = arith.constant dense<0.0> : tensor<2x32xf32>\n"                          \
  "    %i = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>\n"        \
  "    %j = tt.expand_dims %i {axis = 1 : i32} : tensor<32xi32> -> tensor<32x1xi32>\n" \
  "    %l = tt.expand_dims %i {axis = 0 : i32} : tensor<32xi32> -> tensor<1x32xi32>\n" \
  "    %jj = tt.broadcast %j : tensor<32x1xi32> -> tensor<32x32xi32>\n"                \
  "    %ll = tt.broadcast %l : tensor<1x32xi32> -> tensor<32x32xi32>\n"                \
  "    %e = arith.cmpi eq, %jj, %ll : tensor<32x32xi32>\n"                             \
  "    %f = arith.select %e, %one, %zero : tensor<32x32xi1>, tensor<32x32xf32>\n"      \
  "    %unit = arith.truncf %f : tensor<32x32xf32> to tensor<32x32xbf16>\n"
#define LOAD(to, from, type, rows, columns)                                                                  \
  "    %" to "r = tt.make_range {end = " #rows " : i32, start = 0 : i32} : tensor<" #rows "xi32>\n"          \
  "    %" to "e = tt.expand_dims %" to "r {axis = 1 : i32} : tensor<" #rows "xi32> -> tensor<" #rows         \
  "x1xi32>\n"                                                                                                \
  "    %" to "n = arith.constant dense<" #columns "> : tensor<" #rows "x1xi32>\n"                            \
  "    %" to "m = arith.muli %" to "e, %" to "n : tensor<" #rows "x1xi32>\n"                                 \
  "    %" to "b = tt.broadcast %" to "m : tensor<" #rows "x1xi32> -> tensor<" #rows "x" #columns "xi32>\n"   \
  "    %" to "s = tt.make_range {end = " #columns " : i32, start = 0 : i32} : tensor<" #columns "xi32>\n"    \
  "    %" to "t = tt.expand_dims %" to "s {axis = 0 : i32} : tensor<" #columns "xi32> -> tensor<1x" #columns \
  "xi32>\n"                                                                                                  \
  "    %" to "u = tt.broadcast %" to "t : tensor<1x" #columns "xi32> -> tensor<" #rows "x" #columns          \
  "xi32>\n"                                                                                                  \
  "    %" to "o = arith.addi %" to "b, %" to "u : tensor<" #rows "x" #columns "xi32>\n"                      \
  "    %" to "p = tt.splat %" from " : !tt.ptr<" type "> -> tensor<" #rows "x" #columns "x!tt.ptr<" type     \
  ">>\n"                                                                                                     \
  "    %" to "q = tt.addptr %" to "p, %" to "o : tensor<" #rows "x" #columns "x!tt.ptr<" type                \
  ">>, tensor<" #rows "x" #columns "xi32>\n"
#define STORE LOAD("D", "c", "f32", 2, 32) "    tt.store %Dq, %d : tensor<2x32x!tt.ptr<f32>>\n"

static void check_product(const char *const types[3], const char *body, void *a, void *b, const float *want,
                          size_t count) {
  static float c[64];
  memset(c, 0, sizeof c);
  run_kernel(types, body, a, b, c);
  for (size_t i = 0; i < count; i++)
    if (c[i] != want[i]) FAIL("element %zu is %g, expected %g", i, (double)c[i], (double)want[i]);
}

// Two 4-bit floats a byte, the low half first; a scale of e8m0 each 32 and of e4m3 each 16.
TEST(ttir_versions, packed_products) {
  static const float numbers[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  static const char *const types[3] = {"i8", "i8", "f32"}, *const fine[3] = {"i8", "f8E4M3FN", "f32"};
  uint8_t a[32], powers[2] = {128, 126}, scales[4] = {0x38, 0x40, 0x3c, 0x48}; // 2, 1/2; 1, 2, 1.5, 4
  float want[64], want_fine[64];
  for (unsigned i = 0; i < 64; i++) {
    unsigned code = (i * 5 + i / 32) % 16;
    a[i / 2] = (uint8_t)(i % 2 ? a[i / 2] | code << 4 : code);
    want[i] = numbers[code] * (i < 32 ? 2.0f : 0.5f);
    want_fine[i] = numbers[code] * (i < 16 ? 1.0f : i < 32 ? 2.0f : i < 48 ? 1.5f : 4.0f);
  }
  check_product(types,
                LOAD("X", "a", "i8", 2, 16) "    %x = tt.load %Xq : tensor<2x16x!tt.ptr<i8>>\n" LOAD(
                    "S", "b", "i8", 2, 1) "    %s = tt.load %Sq : tensor<2x1x!tt.ptr<i8>>\n" UNIT
                                          "    %d = tt.dot_scaled %x scale %s, %unit, %acc lhs = e2m1 rhs = "
                                          "bf16 {fastMath = false} : tensor<2x16xi8>, tensor<2x1xi8> * "
                                          "tensor<32x32xbf16> -> tensor<2x32xf32>\n" STORE,
                a, powers, want, 64);
  check_product(
      fine,
      LOAD("X", "a", "i8", 2, 16) "    %x = tt.load %Xq : tensor<2x16x!tt.ptr<i8>>\n" LOAD(
          "S", "b", "f8E4M3FN", 2, 2) "    %s = tt.load %Sq : tensor<2x2x!tt.ptr<f8E4M3FN>>\n" UNIT
                                      "    %d = tt.dot_scaled %x scale %s, %unit, %acc lhs = e2m1 rhs = bf16 "
                                      "{fastMath = false} : tensor<2x16xi8>, tensor<2x2xf8E4M3FN> * "
                                      "tensor<32x32xbf16> -> tensor<2x32xf32>\n" STORE,
      a, scales, want_fine, 64);
}

// Beside fp16 nothing goes through bf16, which has three bits less.
TEST(ttir_versions, scaled_halves) {
  static const char *const types[3] = {"f16", "i8", "f32"};
  uint16_t a[64];
  uint8_t powers[2] = {128, 126};
  float want[64];
  for (unsigned i = 0; i < 64; i++)
    a[i] = (uint16_t)(0x3c01 + i), want[i] = (1 + (float)(i + 1) / 1024) * (i < 32 ? 2.0f : 0.5f);
  check_product(types,
                LOAD("X", "a", "f16", 2, 32) "    %x = tt.load %Xq : tensor<2x32x!tt.ptr<f16>>\n" LOAD(
                    "S", "b", "i8", 2, 1) "    %s = tt.load %Sq : tensor<2x1x!tt.ptr<i8>>\n" UNIT
                                          "    %d = tt.dot_scaled %x scale %s, %unit, %acc lhs = fp16 rhs = "
                                          "bf16 {fastMath = false} : tensor<2x32xf16>, tensor<2x1xi8> * "
                                          "tensor<32x32xbf16> -> tensor<2x32xf32>\n" STORE,
                a, powers, want, 64);
}

// The right operand is packed along its first axis.
TEST(ttir_versions, packed_right_operand) {
  static const char *const types[3] = {"i8", "i8", "f32"};
  uint8_t b[16 * 32];
  float want[64];
  for (unsigned k = 0; k < 32; k++)
    for (unsigned n = 0; n < 32; n++) {
      uint8_t code = k == 0 ? (uint8_t)(n % 4 + 2) : k == 1 ? 1 : 0;
      uint8_t *at = &b[k / 2 * 32 + n];
      *at = (uint8_t)(k % 2 ? *at | code << 4 : code);
    }
  for (unsigned n = 0; n < 32; n++) {
    static const float first[4] = {1, 1.5f, 2, 3};
    want[n] = want[32 + n] = first[n % 4] + 0.5f;
  }
  check_product(types,
                LOAD("Y", "b", "i8", 16, 32) "    %y = tt.load %Yq : tensor<16x32x!tt.ptr<i8>>\n"
                                             "    %acc = arith.constant dense<0.0> : tensor<2x32xf32>\n"
                                             "    %ones = arith.constant dense<1.0> : tensor<2x32xbf16>\n"
                                             "    %d = tt.dot_scaled %ones, %y, %acc lhs = bf16 rhs = e2m1 "
                                             "{fastMath = false} : tensor<2x32xbf16> * tensor<16x32xi8> -> "
                                             "tensor<2x32xf32>\n" STORE,
                b, b, want, 64);
}

// Triton 3.2 wrote scales among the operands and 8-bit floats as bytes.
TEST(ttir_versions, products_of_3_2) {
  static const char *const types[3] = {"i8", "i8", "f32"};
  uint8_t a[64], powers[2] = {128, 126};
  float want[64];
  for (unsigned i = 0; i < 64; i++)
    a[i] = i % 2 ? 0x38 : 0x44, want[i] = (i % 2 ? 1.0f : 3.0f) * (i < 32 ? 2.0f : 0.5f);
  check_product(types,
                LOAD("X", "a", "i8", 2, 32) "    %x = tt.load %Xq : tensor<2x32x!tt.ptr<i8>>\n" LOAD(
                    "S", "b", "i8", 2, 1) "    %s = tt.load %Sq : tensor<2x1x!tt.ptr<i8>>\n" UNIT
                                          "    %d = tt.dot_scaled %x, %s, %unit, %acc lhs = e4m3 rhs = bf16 "
                                          ": tensor<2x32xi8>, tensor<2x1xi8> * tensor<32x32xbf16> -> "
                                          "tensor<2x32xf32>\n" STORE,
                a, powers, want, 64);
}

// --------------------------------------------------------------------------------- map_elementwise

// Sixteen numbers %x of a and %y of b in, %r out to c.
static void run_map(const char *map, float a[16], float b[16], float c[16]) {
  char body[4096];
  snprintf(body, sizeof body,
           "    %%i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>\n"
           "    %%a0 = tt.splat %%a : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>\n"
           "    %%a1 = tt.addptr %%a0, %%i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>\n"
           "    %%x = tt.load %%a1 : tensor<16x!tt.ptr<f32>>\n"
           "    %%b0 = tt.splat %%b : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>\n"
           "    %%b1 = tt.addptr %%b0, %%i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>\n"
           "    %%y = tt.load %%b1 : tensor<16x!tt.ptr<f32>>\n"
           "    %%half = arith.constant 5.000000e-01 : f32\n"
           "    %%one = arith.constant 1.000000e+00 : f32\n"
           "    %%c0 = arith.constant 0 : i32\n"
           "    %%c1 = arith.constant 1 : i32\n"
           "%s"
           "    %%d0 = tt.splat %%c : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>\n"
           "    %%d1 = tt.addptr %%d0, %%i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>\n"
           "    tt.store %%d1, %%r : tensor<16x!tt.ptr<f32>>\n",
           map);
  run_kernel(floats, body, a, b, c);
}

typedef float of_element(const float *x, const float *y, unsigned i);

static void check_map(const char *map, of_element *want) {
  float a[16], b[16], c[16];
  for (unsigned i = 0; i < 16; i++) a[i] = (float)i - 3.0f, b[i] = (float)(i * 7 % 5);
  run_map(map, a, b, c);
  for (unsigned i = 0; i < 16; i++)
    if (c[i] != want(a, b, i)) FAIL("element %u is %g, expected %g", i, (double)c[i], (double)want(a, b, i));
}

static float of_branch(const float *x, const float *y, unsigned i) {
  return x[i] > y[i] ? x[i] * 0.5f : y[i] + 1;
}
static float of_count(const float *x, const float *y, unsigned i) {
  float s = x[i];
  for (int k = 0; k < (int)y[i]; k++) s = s * 0.5f + 1;
  return s;
}
static float of_while(const float *x, const float *y, unsigned i) {
  float s = x[i];
  int steps = 0;
  for (; s > y[i]; s -= 1) steps++;
  return s + (float)steps * 0.5f;
}
static float of_pairs(const float *x, const float *y, unsigned i) {
  return i % 2 ? x[i] - y[i - 1] : x[i] + y[i + 1];
}

TEST(ttir_versions, map_with_branches) {
  check_map("    %r = \"tt.map_elementwise\"(%x, %y) <{pack = 1 : i32}> ({\n"
            "    ^bb0(%p: f32 loc(\"k.py\":1:2), %q: f32 loc(unknown)):\n"
            "      %g = arith.cmpf ogt, %p, %q : f32\n"
            "      cf.cond_br %g, ^bb1, ^bb2\n"
            "    ^bb1:  // pred: ^bb0\n"
            "      %u = arith.mulf %p, %half : f32\n"
            "      cf.br ^bb3(%u : f32)\n"
            "    ^bb2:  // pred: ^bb0\n"
            "      %v = arith.addf %q, %one : f32\n"
            "      cf.br ^bb3(%v : f32)\n"
            "    ^bb3(%w: f32 loc(unknown)):  // 2 preds: ^bb1, ^bb2\n"
            "      tt.map_elementwise.return %w : f32\n"
            "    }) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>\n",
            of_branch);
}

// Each element has its own number of rounds.
TEST(ttir_versions, map_with_loops) {
  check_map("    %r = \"tt.map_elementwise\"(%x, %y) <{pack = 1 : i32}> ({\n"
            "    ^bb0(%p: f32, %q: f32):\n"
            "      %n = arith.fptosi %q : f32 to i32\n"
            "      %s = scf.for %k = %c0 to %n step %c1 iter_args(%t = %p) -> (f32)  : i32 {\n"
            "        %u = arith.mulf %t, %half : f32\n"
            "        %v = arith.addf %u, %one : f32\n"
            "        scf.yield %v : f32\n"
            "      }\n"
            "      tt.map_elementwise.return %s : f32\n"
            "    }) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>\n",
            of_count);
  check_map("    %r = \"tt.map_elementwise\"(%x, %y) <{pack = 1 : i32}> ({\n"
            "    ^bb0(%p: f32, %q: f32):\n"
            "      %s:2 = scf.while (%t = %p, %n = %c0) : (f32, i32) -> (f32, i32) {\n"
            "        %g = arith.cmpf ogt, %t, %q : f32\n"
            "        scf.condition(%g) %t, %n : f32, i32\n"
            "      } do {\n"
            "      ^bb0(%t1: f32, %n1: i32):\n"
            "        %u = arith.subf %t1, %one : f32\n"
            "        %m = arith.addi %n1, %c1 : i32\n"
            "        scf.yield %u, %m : f32, i32\n"
            "      }\n"
            "      %f = arith.sitofp %s#1 : i32 to f32\n"
            "      %h = arith.mulf %f, %half : f32\n"
            "      %z = arith.addf %s#0, %h : f32\n"
            "      tt.map_elementwise.return %z : f32\n"
            "    }) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>\n",
            of_while);
}

// Neighbours two by two; a loop whose bounds are the same for all.
TEST(ttir_versions, map_of_packs) {
  check_map("    %r = \"tt.map_elementwise\"(%x, %y) <{pack = 2 : i32}> ({\n"
            "    ^bb0(%p0: f32, %p1: f32, %q0: f32, %q1: f32):\n"
            "      %u = scf.for %k = %c0 to %c1 step %c1 iter_args(%t = %p0) -> (f32)  : i32 {\n"
            "        %s = arith.addf %t, %q1 : f32\n"
            "        scf.yield %s : f32\n"
            "      }\n"
            "      %v = arith.subf %p1, %q0 : f32\n"
            "      tt.map_elementwise.return %u, %v : f32, f32\n"
            "    }) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>\n",
            of_pairs);
}

// ---------------------------------------------------------------------------------------- assembly

static const ir_op *next_asm(const ir_op *op) {
  while (op && op->code != IR_ASM) op = op->next;
  return op;
}

// Two results are two operations, each with the registers of the other as its own; without operands there is
// no colon.
TEST(ttir_versions, assembly_of_several_results) {
  char *text = kernel_of(integers, "",
                         "    %v = tt.load %a : !tt.ptr<i32>\n"
                         "    %x:2 = tt.elementwise_inline_asm \"add.s32 $0, $2, $2; mul.lo.s32 $1, $0, 3;\" "
                         "{constraints = \"=r,=r,r\", packed_element = 1 : i32, "
                         "pure = true} %v : i32 -> i32, i32\n"
                         "    %w = tt.elementwise_inline_asm \"griddepcontrol.wait; // dummy $0\" "
                         "{constraints = \"=r\", packed_element = 1 : i32, pure = false} -> i32\n"
                         "    %s = tt.elementwise_inline_asm \"mov.u32 $0, %smid;\" {constraints = \"=r\", "
                         "packed_element = 1 : i32, pure = true} -> i32\n"
                         "    tt.store %b, %x#0 : !tt.ptr<i32>\n"
                         "    tt.store %c, %x#1 : !tt.ptr<i32>\n");
  ttir_read t = ttir_read_good(text);
  const ir_op *first = next_asm(t.kernel->body->first), *second = first ? next_asm(first->next) : NULL,
              *third = second ? next_asm(second->next) : NULL;
  if (!third || next_asm(third->next)) FAIL("expected three operations of assembly");
  CHECK_TEXT(first->attrs.assembly.text,
             "{ .reg .b32 kiln_out1; add.s32 $0, $1, $1; mul.lo.s32 kiln_out1, $0, 3; }");
  CHECK_TEXT(first->attrs.assembly.constraints, "=r,r");
  CHECK_TEXT(second->attrs.assembly.text,
             "{ .reg .b32 kiln_out0; add.s32 kiln_out0, $1, $1; mul.lo.s32 $0, kiln_out0, 3; }");
  CHECK_TEXT(third->attrs.assembly.text, "mov.u32 $0, %smid;");
  ttir_read_end(&t);
  free(text);
}
