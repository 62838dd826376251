// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests tiles, memory, control flow, calls and descriptors of Triton IR: each is read, and run in the
// interpreter.
#include <stdio.h>
#include <stdlib.h>

#include "tests/compiler/ttir_test.h"

// A kernel over two arrays: the body sees %a, %o (pointers to T), %n (i64), and %p, %q: pointer tiles of 8
// elements into them.
static const char prologue[] = "module {\n"
                               "  tt.func public @k(%%a: !tt.ptr<%s> {tt.divisibility = 16 : i32}, %%o: "
                               "!tt.ptr<%s>, %%n: i64) attributes {noinline = false} {\n"
                               "    %%i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>\n"
                               "    %%p0 = tt.splat %%a : !tt.ptr<%s> -> tensor<8x!tt.ptr<%s>>\n"
                               "    %%p = tt.addptr %%p0, %%i : tensor<8x!tt.ptr<%s>>, tensor<8xi32>\n"
                               "    %%q0 = tt.splat %%o : !tt.ptr<%s> -> tensor<8x!tt.ptr<%s>>\n"
                               "    %%q = tt.addptr %%q0, %%i : tensor<8x!tt.ptr<%s>>, tensor<8xi32>\n";

static char *kernel_text(const char *type, const char *body) {
  size_t capacity = strlen(body) + 2048;
  char *text = malloc(capacity);
  int head = snprintf(text, capacity, prologue, type, type, type, type, type, type, type, type);
  snprintf(text + head, capacity - (size_t)head, "%s    tt.return\n  }\n}\n", body);
  return text;
}

// Runs the body on i32 arrays of 64 elements; `a` holds 10, 11, 12, ... unless the caller filled it.
typedef struct arrays {
  int32_t a[64], o[64];
  int64_t n;
} arrays;

static arrays fresh(void) {
  arrays x = {.n = 5};
  for (int i = 0; i < 64; i++) x.a[i] = 10 + i;
  return x;
}

static void run_text(const char *text, arrays *x, uint32_t programs) {
  struct {
    void *a, *o;
    int64_t n;
  } args = {x->a, x->o, x->n};
  ttir_read t = ttir_read_good(text);
  ttir_run(&t, &args, programs);
  ttir_read_end(&t);
}

static void run_body(const char *type, const char *body, arrays *x, uint32_t programs) {
  char *text = kernel_text(type, body);
  run_text(text, x, programs);
  free(text);
}

static void expect(const int32_t *got, const int32_t *want, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (got[i] != want[i]) FAIL("element %zu is %d, expected %d", i, got[i], want[i]);
}
#define EXPECT(got, ...)                           \
  do {                                             \
    const int32_t want[] = {__VA_ARGS__};          \
    expect(got, want, sizeof want / sizeof *want); \
  } while (0)

// ------------------------------------------------------------------------------------------ memory

TEST(ttir_forms, masked_load_and_store) {
  arrays x = fresh();
  run_body("i32",
           "    %c5 = arith.constant dense<5> : tensor<8xi32>\n"
           "    %c7 = arith.constant dense<-7> : tensor<8xi32>\n"
           "    %c2 = arith.constant dense<2> : tensor<8xi32>\n"
           "    %m = arith.cmpi slt, %i, %c5 : tensor<8xi32>\n"
           "    %m2 = arith.cmpi sge, %i, %c2 : tensor<8xi32>\n"
           "    %v = tt.load %p, %m, %c7 cacheModifier = cg evictionPolicy = evict_last {isVolatile = true} "
           ": tensor<8x!tt.ptr<i32>>\n"
           "    tt.store %q, %v, %m2 evictionPolicy = evict_first : tensor<8x!tt.ptr<i32>>\n",
           &x, 1);
  EXPECT(x.o, 0, 0, 12, 13, 14, -7, -7, -7);
}

TEST(ttir_forms, load_without_other_reads_zero) {
  arrays x = fresh();
  run_body("i32",
           "    %c5 = arith.constant dense<5> : tensor<8xi32>\n"
           "    %m = arith.cmpi slt, %i, %c5 : tensor<8xi32>\n"
           "    %v = tt.load %p, %m {tt.divisibility = dense<16> : tensor<1xi32>} : tensor<8x!tt.ptr<i32>>\n"
           "    tt.store %q, %v : tensor<8x!tt.ptr<i32>>\n",
           &x, 1);
  EXPECT(x.o, 10, 11, 12, 13, 14, 0, 0, 0);
}

TEST(ttir_forms, programs_and_pointer_arithmetic) {
  arrays x = fresh();
  run_body("i32",
           "    %x = tt.get_program_id x : i32\n"
           "    %m = tt.get_num_programs x : i32\n"
           "    %y = tt.get_program_id y : i32\n"
           "    %v = arith.muli %x, %m : i32\n"
           "    %w = arith.addi %v, %y : i32\n"
           "    %xx = arith.extsi %x : i32 to i64\n"
           "    %s = tt.addptr %o, %xx : !tt.ptr<i32>, i64\n"
           "    tt.store %s, %w : !tt.ptr<i32>\n",
           &x, 4);
  EXPECT(x.o, 0, 4, 8, 12, 0);
}

TEST(ttir_forms, atomics) {
  arrays x = fresh();
  run_body("i32",
           "    %t = arith.constant true\n"
           "    %one = arith.constant 1 : i32\n"
           "    %zero = arith.constant 0 : i32\n"
           "    %c4 = arith.constant dense<4> : tensor<8xi32>\n"
           "    %m = arith.cmpi slt, %i, %c4 : tensor<8xi32>\n"
           "    %old = tt.atomic_rmw add, acq_rel, gpu, %o, %one, %t : (!tt.ptr<i32>, i32, i1) -> i32\n"
           "    %olds = tt.atomic_rmw max, relaxed, cta, %p, %i, %m : (tensor<8x!tt.ptr<i32>>, "
           "tensor<8xi32>, tensor<8xi1>) -> tensor<8xi32>\n"
           "    %was = tt.atomic_cas acquire, sys, %o, %zero, %one : (!tt.ptr<i32>, i32, i32) -> i32\n"
           "    %u = tt.atomic_rmw umin, release, gpu, %q, %olds : (tensor<8x!tt.ptr<i32>>, tensor<8xi32>) "
           "-> tensor<8xi32>\n"
           "    %a1 = tt.addptr %a, %one : !tt.ptr<i32>, i32\n"
           "    %e = tt.atomic_rmw exch, acq_rel, gpu, %a1, %was, %t : (!tt.ptr<i32>, i32, i1) -> i32\n",
           &x, 2);
  CHECK_INT(x.o[0], 2);
  CHECK_INT(x.a[1], 2);
  CHECK_INT(x.a[4], 14);
}

TEST(ttir_forms, pointers_as_integers) {
  arrays x = fresh();
  run_body("i32",
           "    %x = tt.ptr_to_int %a : !tt.ptr<i32> -> i64\n"
           "    %c4 = arith.constant 4 : i64\n"
           "    %y = arith.addi %x, %c4 : i64\n"
           "    %z = tt.int_to_ptr %y : i64 -> !tt.ptr<i32, 1>\n"
           "    %v = tt.load %z : !tt.ptr<i32>\n"
           "    %w = tt.bitcast %o : !tt.ptr<i32> -> !tt.ptr<f32>\n"
           "    %f = tt.bitcast %v : i32 -> f32\n"
           "    tt.store %w, %f : !tt.ptr<f32>\n",
           &x, 1);
  EXPECT(x.o, 11, 0);
}

// ------------------------------------------------------------------------------------------- tiles

TEST(ttir_forms, shapes) {
  arrays x = fresh();
  run_body("i32",
           "    %v = tt.load %p : tensor<8x!tt.ptr<i32>>\n"
           "    %m = tt.reshape %v allow_reorder : tensor<8xi32> -> tensor<2x4xi32>\n"
           "    %t = tt.trans %m {order = array<i32: 1, 0>} : tensor<2x4xi32> -> tensor<4x2xi32>\n"
           "    %l, %r = tt.split %t : tensor<4x2xi32> -> tensor<4xi32>\n"
           "    %j = tt.join %r, %l : tensor<4xi32> -> tensor<4x2xi32>\n"
           "    %f = tt.reshape %j : tensor<4x2xi32> -> tensor<8xi32>\n"
           "    tt.store %q, %f : tensor<8x!tt.ptr<i32>>\n",
           &x, 1);
  EXPECT(x.o, 14, 10, 15, 11, 16, 12, 17, 13);
}

TEST(ttir_forms, expand_broadcast_and_rank_0) {
  arrays x = fresh();
  run_body("i32",
           "    %j = tt.make_range {end = 4 : i32, start = 2 : i32} : tensor<2xi32>\n"
           "    %e = tt.expand_dims %j {axis = 1 : i32} : tensor<2xi32> -> tensor<2x1xi32>\n"
           "    %b = tt.broadcast %e : tensor<2x1xi32> -> tensor<2x4xi32>\n"
           "    %n0 = arith.trunci %n : i64 to i32\n"
           "    %s = tt.splat %n0 : i32 -> tensor<i32>\n"
           "    %s1 = tt.expand_dims %s {axis = 0 : i32} : tensor<i32> -> tensor<1xi32>\n"
           "    %s2 = tt.broadcast %s1 : tensor<1xi32> -> tensor<8xi32>\n"
           "    %u = tt.unsplat %s1 : tensor<1xi32>\n"
           "    %us = tt.splat %u : i32 -> tensor<8xi32>\n"
           "    %f = tt.reshape %b : tensor<2x4xi32> -> tensor<8xi32>\n"
           "    %g = arith.addi %f, %s2 : tensor<8xi32>\n"
           "    %h = arith.muli %g, %us : tensor<8xi32>\n"
           "    tt.store %q, %h : tensor<8x!tt.ptr<i32>>\n",
           &x, 1);
  EXPECT(x.o, 35, 35, 35, 35, 40, 40, 40, 40);
}

TEST(ttir_forms, cat_keeps_order) {
  arrays x = fresh();
  run_body("i32",
           "    %j = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>\n"
           "    %c = arith.constant dense<100> : tensor<4xi32>\n"
           "    %k = arith.addi %j, %c : tensor<4xi32>\n"
           "    %v = tt.cat %j, %k : tensor<4xi32> -> tensor<8xi32>\n"
           "    tt.store %q, %v : tensor<8x!tt.ptr<i32>>\n",
           &x, 1);
  EXPECT(x.o, 0, 1, 2, 3, 100, 101, 102, 103);
}

TEST(ttir_forms, gather_and_histogram) {
  arrays x = fresh();
  run_body("i32",
           "    %v = tt.load %p : tensor<8x!tt.ptr<i32>>\n"
           "    %c7 = arith.constant dense<7> : tensor<8xi32>\n"
           "    %c3 = arith.constant dense<3> : tensor<8xi32>\n"
           "    %back = arith.subi %c7, %i : tensor<8xi32>\n"
           "    %g = tt.gather %v[%back] {axis = 0 : i32} : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>\n"
           "    %low = arith.andi %v, %c3 : tensor<8xi32>\n"
           "    %m = arith.cmpi ne, %i, %c7 : tensor<8xi32>\n"
           "    %h = tt.histogram %low, %m : tensor<8xi32> -> tensor<4xi32>\n"
           "    tt.store %q, %g : tensor<8x!tt.ptr<i32>>\n"
           "    %j = tt.make_range {end = 12 : i32, start = 8 : i32} : tensor<4xi32>\n"
           "    %s0 = tt.splat %o : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>\n"
           "    %s = tt.addptr %s0, %j : tensor<4x!tt.ptr<i32>>, tensor<4xi32>\n"
           "    tt.store %s, %h : tensor<4x!tt.ptr<i32>>\n",
           &x, 1);
  EXPECT(x.o, 17, 16, 15, 14, 13, 12, 11, 10, 2, 1, 2, 2); // 10..16 & 3: 2 3 0 1 2 3 0
}

// Numbers of other widths: bytes count once, as unsigned ones, and no i64 is cut to 32 bits. 2^19 pairs.
TEST(ttir_forms, histograms_of_bytes_and_longs) {
  arrays x = fresh();
  run_body(
      "i32",
      "    %v = tt.load %p : tensor<8x!tt.ptr<i32>>\n"
      "    %c64 = arith.constant dense<64> : tensor<8xi32>\n"
      "    %c29 = arith.constant dense<29> : tensor<8xi64>\n"
      "    %m = arith.constant dense<255> : tensor<1024xi32>\n"
      "    %bytes = arith.muli %v, %c64 : tensor<8xi32>\n"
      "    %b = arith.trunci %bytes : tensor<8xi32> to tensor<8xi8>\n"
      "    %hb = tt.histogram %b : tensor<8xi8> -> tensor<512xi32>\n"
      "    %w = arith.extsi %v : tensor<8xi32> to tensor<8xi64>\n"
      "    %l = arith.shli %w, %c29 : tensor<8xi64>\n"
      "    %hl = tt.histogram %l : tensor<8xi64> -> tensor<4xi64>\n"
      "    %hn = tt.histogram %m : tensor<1024xi32> -> tensor<512xi32>\n"
      "    %j = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>\n"
      "    %c64s = arith.constant dense<64> : tensor<4xi32>\n"
      "    %at = arith.muli %j, %c64s : tensor<4xi32>\n"
      "    %low = tt.gather %hb[%at] {axis = 0 : i32} : (tensor<512xi32>, tensor<4xi32>) -> tensor<4xi32>\n"
      "    %c256 = arith.constant dense<256> : tensor<4xi32>\n"
      "    %above = arith.addi %at, %c256 : tensor<4xi32>\n"
      "    %high = tt.gather %hb[%above] {axis = 0 : i32} : (tensor<512xi32>, tensor<4xi32>) -> "
      "tensor<4xi32>\n"
      "    %g = arith.addi %low, %high : tensor<4xi32>\n"
      "    %c255 = arith.constant dense<255> : tensor<4xi32>\n"
      "    %gn = tt.gather %hn[%c255] {axis = 0 : i32} : (tensor<512xi32>, tensor<4xi32>) -> tensor<4xi32>\n"
      "    %t = arith.trunci %hl : tensor<4xi64> to tensor<4xi32>\n"
      "    %s0 = tt.splat %o : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>\n"
      "    %s1 = tt.addptr %s0, %j : tensor<4x!tt.ptr<i32>>, tensor<4xi32>\n"
      "    tt.store %s1, %g : tensor<4x!tt.ptr<i32>>\n"
      "    %c4 = arith.constant dense<4> : tensor<4xi32>\n"
      "    %s2 = tt.addptr %s1, %c4 : tensor<4x!tt.ptr<i32>>, tensor<4xi32>\n"
      "    tt.store %s2, %t : tensor<4x!tt.ptr<i32>>\n"
      "    %s3 = tt.addptr %s2, %c4 : tensor<4x!tt.ptr<i32>>, tensor<4xi32>\n"
      "    tt.store %s3, %gn : tensor<4x!tt.ptr<i32>>\n",
      &x, 1);
  // 10..17 times 64 as bytes: 128 192 0 64 128 192 0 64. Times 2^29 none is below 4; bits 0 to 31 of 16 * 2^29 are 0.
  EXPECT(x.o, 2, 2, 2, 2, 0, 0, 0, 0, 1024, 1024, 1024, 1024);
}

TEST(ttir_forms, reduce_and_scan) {
  arrays x = fresh();
  run_body(
      "i32",
      "    %v = tt.load %p : tensor<8x!tt.ptr<i32>>\n"
      "    %s = \"tt.reduce\"(%v) <{axis = 0 : i32}> ({\n"
      "    ^bb0(%l: i32 loc(unknown), %r: i32 loc(unknown)):\n"
      "      %t = arith.addi %l, %r : i32\n"
      "      tt.reduce.return %t : i32\n"
      "    }) : (tensor<8xi32>) -> i32\n"
      "    %c = \"tt.scan\"(%v) <{axis = 0 : i32, reverse = true}> ({\n"
      "    ^bb0(%l: i32, %r: i32):\n"
      "      %t = arith.maxsi %l, %r : i32\n"
      "      tt.scan.return %t : i32\n"
      "    }) : (tensor<8xi32>) -> tensor<8xi32>\n"
      "    %m:2 = \"tt.reduce\"(%v, %i) ({\n" // attributes after the region, as people write them by hand
      "    ^bb0(%v1: i32, %i1: i32, %v2: i32, %i2: i32):\n"
      "      %gt = arith.cmpi sgt, %v1, %v2 : i32\n"
      "      %vr = arith.select %gt, %v1, %v2 : i32\n"
      "      %ir = arith.select %gt, %i1, %i2 : i32\n"
      "      tt.reduce.return %vr, %ir : i32, i32\n"
      "    }) {axis = 0 : i32} : (tensor<8xi32>, tensor<8xi32>) -> (i32, i32)\n"
      "    tt.store %q, %c : tensor<8x!tt.ptr<i32>>\n"
      "    %c1 = arith.constant 1 : i32\n"
      "    %o1 = tt.addptr %o, %c1 : !tt.ptr<i32>, i32\n"
      "    tt.store %o, %s : !tt.ptr<i32>\n"
      "    tt.store %o1, %m#1 : !tt.ptr<i32>\n",
      &x, 1);
  EXPECT(x.o, 108, 7, 17, 17, 17, 17, 17, 17);
}

TEST(ttir_forms, dot) {
  static const char text[] = "module {\n"
                             "  tt.func public @k(%a: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i64) {\n"
                             "    %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>\n"
                             "    %f = arith.sitofp %r : tensor<16xi32> to tensor<16xf32>\n"
                             "    %m = tt.reshape %f : tensor<16xf32> -> tensor<4x4xf32>\n"
                             "    %h = arith.truncf %m : tensor<4x4xf32> to tensor<4x4xf16>\n"
                             "    %z = arith.constant dense<1.000000e+00> : tensor<4x4xf32>\n"
                             "    %z16 = arith.constant dense<0.000000e+00> : tensor<4x4xf16>\n"
                             "    %d = tt.dot %m, %m, %z, inputPrecision = tf32 : tensor<4x4xf32> * "
                             "tensor<4x4xf32> -> tensor<4x4xf32>\n"
                             "    %e = tt.dot %h, %h, %z16 {maxNumImpreciseAcc = 0 : i32} : tensor<4x4xf16> "
                             "* tensor<4x4xf16> -> tensor<4x4xf16>\n"
                             "    %x = arith.extf %e : tensor<4x4xf16> to tensor<4x4xf32>\n"
                             "    %s = arith.subf %d, %x : tensor<4x4xf32>\n"
                             "    %s1 = tt.reshape %s : tensor<4x4xf32> -> tensor<16xf32>\n"
                             "    %p = tt.splat %o : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>\n"
                             "    %q = tt.addptr %p, %r : tensor<16x!tt.ptr<f32>>, tensor<16xi32>\n"
                             "    tt.store %q, %s1 : tensor<16x!tt.ptr<f32>>\n"
                             "    tt.return\n"
                             "  }\n"
                             "}\n";
  arrays x = fresh();
  run_text(text, &x, 1);
  for (int i = 0; i < 16; i++) CHECK_INT(x.o[i], 0x3f800000);
}

// ----------------------------------------------------------------------------------------- control

TEST(ttir_forms, loops) {
  arrays x = fresh();
  run_body(
      "i32",
      "    %c0 = arith.constant 0 : i32\n"
      "    %c1 = arith.constant 1 : i32\n"
      "    %c2 = arith.constant 2 : i32\n"
      "    %c10 = arith.constant 10 : i32\n"
      "    %s:2 = scf.for %k = %c0 to %c10 step %c2 iter_args(%u = %c0, %w = %c1) -> (i32, i32)  : i32 {\n"
      "      %u2 = arith.addi %u, %k : i32\n"
      "      %w2 = arith.muli %w, %c2 : i32\n"
      "      scf.yield %u2, %w2 : i32, i32 loc(#loc)\n"
      "    } {tt.num_stages = 3 : i32, tt.flatten} loc(#loc)\n"
      "    scf.for %k = %c0 to %c2 step %c1  : i32 {\n"
      "      %d = tt.addptr %o, %k : !tt.ptr<i32>, i32\n"
      "      tt.store %d, %k : !tt.ptr<i32>\n"
      "    }\n"
      "    %z = scf.while (%y = %c1) : (i32) -> i32 {\n"
      "      %t = arith.cmpi slt, %y, %c10 : i32\n"
      "      scf.condition(%t) %y : i32\n"
      "    } do {\n"
      "    ^bb0(%y: i32):\n"
      "      %y2 = arith.muli %y, %c2 : i32\n"
      "      scf.yield %y2 : i32\n"
      "    }\n"
      "    %o2 = tt.addptr %o, %c2 : !tt.ptr<i32>, i32\n"
      "    tt.store %o2, %s#0 : !tt.ptr<i32>\n"
      "    %o3 = tt.addptr %o2, %c1 : !tt.ptr<i32>, i32\n"
      "    tt.store %o3, %s#1 : !tt.ptr<i32>\n"
      "    %o4 = tt.addptr %o3, %c1 : !tt.ptr<i32>, i32\n"
      "    tt.store %o4, %z : !tt.ptr<i32>\n",
      &x, 1);
  EXPECT(x.o, 0, 1, 20, 32, 16, 0);
}

// The empty forms: nothing is carried, the test loads memory.
static void count_hints(ir_op *op, void *context) {
  int64_t *sums = context;
  if (op->code == IR_HINT)
    sums[0]++, sums[1] += op->attrs.hint.divisible, sums[2] += op->attrs.hint.contiguous;
}

// What loops carry has its facts on the loop, by the number of the argument; a counter whose bounds say as much needs
// none, and axes that differ have what they share.
TEST(ttir_forms, hints_on_loops_and_tiles) {
  char *text = kernel_text(
      "i32",
      "    %0 = arith.constant 0 : i32\n"
      "    %1 = arith.constant 1 : i32\n"
      "    %16 = arith.constant 16 : i32\n"
      "    %64 = arith.constant 64 : i32\n"
      "    %t = arith.constant dense<16> : tensor<8x8xi32>\n"
      "    %u = arith.addi %t, %t {tt.contiguity = dense<[1, 2]> : tensor<2xi32>, tt.divisibility = "
      "dense<[64, "
      "32]> : tensor<2xi32>} : tensor<8x8xi32>\n"
      "    %v = arith.addi %u, %t {tt.divisibility = dense<[1, 16]> : tensor<2xi32>} : tensor<8x8xi32>\n"
      "    %s:2 = scf.for %j = %0 to %64 step %16 iter_args(%x = %0, %y = %v) -> (i32, tensor<8x8xi32>)  : "
      "i32 {\n"
      "      %x1 = arith.addi %x, %16 : i32\n"
      "      %y1 = arith.addi %y, %t : tensor<8x8xi32>\n"
      "      scf.yield %x1, %y1 : i32, tensor<8x8xi32>\n"
      "    } {tt.divisibility_arg0 = dense<16> : tensor<1xi32>, tt.divisibility_arg1 = dense<4> : "
      "tensor<1xi32>, "
      "tt.divisibility_arg2 = dense<8> : tensor<2xi32>}\n"
      "    %w = scf.while (%x = %s#0) : (i32) -> i32 {\n"
      "      %c = arith.cmpi slt, %x, %64 : i32\n"
      "      scf.condition(%c) %x : i32\n"
      "    } do {\n"
      "    ^bb0(%x: i32):\n"
      "      %x1 = arith.addi %x, %16 : i32\n"
      "      scf.yield %x1 : i32\n"
      "    } attributes {tt.divisibility_arg0 = dense<2> : tensor<1xi32>}\n");
  int64_t sums[3] = {0};
  ttir_read t = ttir_read_good(text);
  ir_walk(t.kernel->body, count_hints, sums);
  CHECK_INT(sums[0], 5);
  CHECK_INT(sums[1], 32 + 1 + 4 + 8 + 2);
  CHECK_INT(sums[2], 2);
  ttir_read_end(&t);
  free(text);
}

TEST(ttir_forms, while_without_values) {
  arrays x = fresh();
  run_body("i32",
           "    %c1 = arith.constant 1 : i32\n"
           "    %c4 = arith.constant 4 : i32\n"
           "    scf.while : () -> () {\n"
           "      %v = tt.load %o : !tt.ptr<i32>\n"
           "      %t = arith.cmpi slt, %v, %c4 : i32\n"
           "      scf.condition(%t)\n"
           "    } do {\n"
           "      %v = tt.load %o : !tt.ptr<i32>\n"
           "      %w = arith.addi %v, %c1 : i32\n"
           "      tt.store %o, %w : !tt.ptr<i32>\n"
           "      scf.yield\n"
           "    }\n",
           &x, 1);
  EXPECT(x.o, 4, 0);
}

TEST(ttir_forms, branches) {
  arrays x = fresh();
  run_body("i32",
           "    %c3 = arith.constant 3 : i64\n"
           "    %c1 = arith.constant 1 : i32\n"
           "    %c2 = arith.constant 2 : i32\n"
           "    %t = arith.cmpi sgt, %n, %c3 : i64\n"
           "    %v = scf.if %t -> (i32) {\n"
           "      scf.yield %c1 : i32\n"
           "    } else {\n"
           "      scf.yield %c2 : i32\n"
           "    }\n"
           "    scf.if %t {\n"
           "      tt.store %o, %v : !tt.ptr<i32>\n"
           "    }\n",
           &x, 1);
  EXPECT(x.o, 1, 0);
}

// bb1 and bb2 share bb3, which is not where bb0's sides meet: the function ends in bb3 and in bb4.
static const char blocks_text[] = "module {\n"
                                  "  tt.func public @k(%a: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i64) {\n"
                                  "    %c0 = arith.constant 0 : i64\n"
                                  "    %c1 = arith.constant 1 : i32\n"
                                  "    %c2 = arith.constant 2 : i32\n"
                                  "    %c10 = arith.constant 10 : i64\n"
                                  "    %neg = arith.cmpi slt, %n, %c0 : i64\n"
                                  "    cf.cond_br %neg, ^bb1, ^bb2(%c1 : i32) loc(#loc)\n"
                                  "  ^bb1:  // pred: ^bb0\n"
                                  "    tt.store %o, %c2 : !tt.ptr<i32>\n"
                                  "    cf.br ^bb4 loc(#loc)\n"
                                  "  ^bb2(%x: i32 loc(#loc)):  // pred: ^bb0\n"
                                  "    %big = arith.cmpi sgt, %n, %c10 : i64\n"
                                  "    cf.cond_br %big, ^bb3(%x : i32), ^bb4\n"
                                  "  ^bb3(%y: i32):  // pred: ^bb2\n"
                                  "    %z = arith.addi %y, %c2 : i32\n"
                                  "    tt.store %o, %z : !tt.ptr<i32>\n"
                                  "    tt.return\n"
                                  "  ^bb4:  // 2 preds: ^bb1, ^bb2\n"
                                  "    %p = tt.addptr %o, %c1 : !tt.ptr<i32>, i32\n"
                                  "    tt.store %p, %c1 : !tt.ptr<i32>\n"
                                  "    tt.return loc(#loc)\n"
                                  "  } loc(#loc)\n"
                                  "} loc(#loc)\n"
                                  "#loc = loc(unknown)\n";

TEST(ttir_forms, blocks_become_branches) {
  static const struct {
    int64_t n;
    int32_t first, second;
  } rows[] = {{-1, 2, 1}, {5, 0, 1}, {11, 3, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    arrays x = fresh();
    x.n = rows[i].n;
    run_text(blocks_text, &x, 1);
    EXPECT(x.o, rows[i].first, rows[i].second);
  }
}

TEST(ttir_forms, calls_are_inlined) {
  static const char text[] =
      "module {\n"
      "  tt.func public @k(%a: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i64) attributes {noinline = false} {\n"
      "    %c7 = arith.constant 7 : i32\n"
      "    %r:2 = tt.call @\"m.two__i32__(1,)cconstexpr_64_\"(%c7) : (i32) -> (i32, i32)\n"
      "    tt.store %o, %r#1 : !tt.ptr<i32>\n"
      "    tt.call @m.save__Pi32_i32(%o, %r#0) : (!tt.ptr<i32>, i32) -> ()\n"
      "    tt.return\n"
      "  }\n"
      "  tt.func private @\"m.two__i32__(1,)cconstexpr_64_\"(%c7: i32) -> (i32, i32) attributes {noinline = "
      "false} {\n"
      "    %c1 = arith.constant 1 : i32\n"
      "    %o = arith.addi %c7, %c1 : i32\n"
      "    %t = arith.cmpi sgt, %o, %c1 : i32\n"
      "    cf.cond_br %t, ^bb1, ^bb2\n"
      "  ^bb1:\n"
      "    tt.return %o, %c7 : i32, i32\n"
      "  ^bb2:\n"
      "    tt.return %c1, %c1 : i32, i32\n"
      "  }\n"
      "  tt.func private @m.save__Pi32_i32(%p: !tt.ptr<i32>, %v: i32) attributes {noinline = true} {\n"
      "    %c1 = arith.constant 1 : i32\n"
      "    %q = tt.addptr %p, %c1 : !tt.ptr<i32>, i32\n"
      "    tt.store %q, %v : !tt.ptr<i32>\n"
      "    tt.return\n"
      "  }\n"
      "}\n";
  arrays x = fresh();
  run_text(text, &x, 1);
  EXPECT(x.o, 7, 8, 0);
}

// Ones times ones over 32 steps, rows scaled by 1 and 2, columns by 1/2 and 1.
static const char scaled_text[] =
    "module {\n"
    "  tt.func public @k(%a: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i64) {\n"
    "    %x = arith.constant dense<1.000000e+00> : tensor<2x32xbf16>\n"
    "    %y = arith.constant dense<1.000000e+00> : tensor<32x2xbf16>\n"
    "    %x8 = tt.fp_to_fp %x, rounding = rtne : tensor<2x32xbf16> -> tensor<2x32xf8E4M3FN>\n"
    "    %y8 = tt.fp_to_fp %y, rounding = rtne : tensor<32x2xbf16> -> tensor<32x2xf8E5M2>\n"
    "    %z = arith.constant dense<1.000000e+00> : tensor<2x2xf32>\n"
    "    %c127 = arith.constant dense<127> : tensor<2xi32>\n"
    "    %c126 = arith.constant dense<126> : tensor<2xi32>\n"
    "    %c2 = arith.constant dense<2> : tensor<2x1xi32>\n"
    "    %r = tt.make_range {end = 2 : i32, start = 0 : i32} : tensor<2xi32>\n"
    "    %s0 = arith.addi %r, %c127 : tensor<2xi32>\n"
    "    %t0 = arith.addi %r, %c126 : tensor<2xi32>\n"
    "    %s1 = arith.trunci %s0 : tensor<2xi32> to tensor<2xi8>\n"
    "    %t1 = arith.trunci %t0 : tensor<2xi32> to tensor<2xi8>\n"
    "    %s = tt.expand_dims %s1 {axis = 1 : i32} : tensor<2xi8> -> tensor<2x1xi8>\n"
    "    %t = tt.expand_dims %t1 {axis = 1 : i32} : tensor<2xi8> -> tensor<2x1xi8>\n"
    "    %d = tt.dot_scaled %x8 scale %s, %y8 scale %t, %z lhs = e4m3 rhs = e5m2 {fastMath = false} : "
    "tensor<2x32xf8E4M3FN>, tensor<2x1xi8> * tensor<32x2xf8E5M2>, tensor<2x1xi8> -> tensor<2x2xf32>\n"
    "    %e = tt.dot_scaled %x8 scale %s, %y, %d lhs = e4m3 rhs = bf16 {fastMath = true} : "
    "tensor<2x32xf8E4M3FN>, tensor<2x1xi8> * tensor<32x2xbf16> -> tensor<2x2xf32>\n"
    "    %i = arith.fptosi %e : tensor<2x2xf32> to tensor<2x2xi32>\n"
    "    %i0 = tt.expand_dims %r {axis = 1 : i32} : tensor<2xi32> -> tensor<2x1xi32>\n"
    "    %i1 = arith.muli %i0, %c2 : tensor<2x1xi32>\n"
    "    %i2 = tt.broadcast %i1 : tensor<2x1xi32> -> tensor<2x2xi32>\n"
    "    %j0 = tt.expand_dims %r {axis = 0 : i32} : tensor<2xi32> -> tensor<1x2xi32>\n"
    "    %j1 = tt.broadcast %j0 : tensor<1x2xi32> -> tensor<2x2xi32>\n"
    "    %at = arith.addi %i2, %j1 : tensor<2x2xi32>\n"
    "    %p = tt.splat %o : !tt.ptr<i32> -> tensor<2x2x!tt.ptr<i32>>\n"
    "    %q = tt.addptr %p, %at : tensor<2x2x!tt.ptr<i32>>, tensor<2x2xi32>\n"
    "    tt.store %q, %i : tensor<2x2x!tt.ptr<i32>>\n"
    "    tt.return\n"
    "  }\n"
    "}\n";

TEST(ttir_forms, scaled_dots) {
  arrays x = fresh();
  run_text(scaled_text, &x, 1);
  EXPECT(x.o, 1 + 16 + 32, 1 + 32 + 32, 1 + 32 + 64, 1 + 64 + 64);
}

// ------------------------------------------------------------------------------------- descriptors

TEST(ttir_forms, descriptors) {
  static const char text[] =
      "module {\n"
      "  tt.func public @k(%a: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i64) {\n"
      "    %c3 = arith.constant 3 : i32\n"
      "    %c8 = arith.constant 8 : i32\n"
      "    %c1_i64 = arith.constant 1 : i64\n"
      "    %c8_i64 = arith.constant 8 : i64\n"
      "    %c2 = arith.constant 2 : i32\n"
      "    %c0 = arith.constant 0 : i32\n"
      "    %d = tt.make_tensor_descriptor %a, [%c3, %c8], [%c8_i64, %c1_i64] : <i32>, <tensor<2x4xsi32>> "
      "loc(#loc)\n"
      "    %e = tt.make_tensor_descriptor %o, [%c3, %c8], [%c8_i64, %c1_i64] : !tt.ptr<i32>, "
      "!tt.tensordesc<2x4xui32>\n"
      "    %v = tt.descriptor_load %d[%c2, %c0] : !tt.tensordesc<tensor<2x4xsi32>> -> tensor<2x4xi32>\n"
      "    tt.descriptor_store %e[%c2, %c0], %v : !tt.tensordesc<2x4xui32>, tensor<2x4xi32>\n"
      "    tt.descriptor_reduce add, %e[%c2, %c0], %v : !tt.tensordesc<2x4xui32>, tensor<2x4xi32>\n"
      "    tt.return\n"
      "  }\n"
      "}\n"
      "#loc = loc(unknown)\n";
  arrays x = fresh();
  run_text(text, &x, 1);
  for (int i = 0; i < 16; i++) CHECK_INT(x.o[i], 0);
  EXPECT(x.o + 16, 52, 54, 56, 58, 0, 0); // row 2 of a twice; row 3 is out of range
  for (int i = 20; i < 64; i++) CHECK_INT(x.o[i], 0);
}

// Rows 2, 1, 0, -1 of a 3 x 8 matrix from column 5 on: what lies outside reads as zero and is not stored.
TEST(ttir_forms, rows_of_descriptors_by_number) {
  static const char text[] = "module {\n"
                             "  tt.func public @k(%a: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i64) {\n"
                             "    %c3 = arith.constant 3 : i32\n"
                             "    %c8 = arith.constant 8 : i32\n"
                             "    %c1_i64 = arith.constant 1 : i64\n"
                             "    %c8_i64 = arith.constant 8 : i64\n"
                             "    %c0 = arith.constant 0 : i32\n"
                             "    %c5 = arith.constant 5 : i32\n"
                             "    %c6 = arith.constant 6 : i32\n"
                             "    %two = arith.constant dense<2> : tensor<4xi32>\n"
                             "    %one = arith.constant dense<1> : tensor<4x4xi32>\n"
                             "    %r = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>\n"
                             "    %rows = arith.subi %two, %r : tensor<4xi32>\n"
                             "    %d = tt.make_tensor_descriptor %a, [%c3, %c8], [%c8_i64, %c1_i64] : <i32>, "
                             "<tensor<1x4xsi32>> loc(#loc)\n"
                             "    %e = tt.make_tensor_descriptor %o, [%c3, %c8], [%c8_i64, %c1_i64] : <i32>, "
                             "<tensor<1x4xsi32>> loc(#loc)\n"
                             "    %g = tt.descriptor_gather %d[%rows, %c5] : "
                             "(!tt.tensordesc<tensor<1x4xsi32>>, tensor<4xi32>, i32) -> tensor<4x4xi32>\n"
                             "    %v = arith.addi %g, %one : tensor<4x4xi32>\n"
                             "    tt.descriptor_scatter %e[%rows, %c0], %v : "
                             "!tt.tensordesc<tensor<1x4xsi32>>, tensor<4xi32>, i32, tensor<4x4xi32>\n"
                             "    tt.descriptor_scatter %e[%rows, %c6], %v : "
                             "!tt.tensordesc<tensor<1x4xsi32>>, tensor<4xi32>, i32, tensor<4x4xi32>\n"
                             "    tt.return\n"
                             "  }\n"
                             "}\n"
                             "#loc = loc(unknown)\n";
  arrays x = fresh();
  run_text(text, &x, 1);
  EXPECT(x.o, 16, 17, 18, 1, 0, 0, 16, 17);
  EXPECT(x.o + 8, 24, 25, 26, 1, 0, 0, 24, 25);
  EXPECT(x.o + 16, 32, 33, 34, 1, 0, 0, 32, 33);
  for (int i = 24; i < 64; i++) CHECK_INT(x.o[i], 0);
}

TEST(ttir_forms, host_descriptor_is_a_view_parameter) {
  ttir_read t = ttir_read_good(
      "module {\n"
      "  tt.func public @k(%d: !tt.tensordesc<tensor<16x32xf16>>, %m: i32, %n: i32, %s: i64, %one: i64, %o: "
      "!tt.ptr<f16>) {\n"
      "    %c0 = arith.constant 0 : i32\n"
      "    %v = tt.descriptor_load %d[%c0, %c0] : !tt.tensordesc<tensor<16x32xf16>> -> tensor<16x32xf16>\n"
      "    tt.return\n"
      "  }\n"
      "}\n");
  CHECK(t.kernel->params[0].type.is_view);
  CHECK_INT(t.kernel->params[0].type.rank, 2);
  CHECK_INT(t.kernel->params[0].access, IR_ACCESS_IN);
  CHECK_INT(t.kernel->params[0].align, 16);
  CHECK_INT(t.kernel->params[0].rows, 16);
  CHECK_INT(t.kernel->params[5].align, 0);
  ttir_read_end(&t);
}

// ------------------------------------------------------------------------------------------- facts

TEST(ttir_forms, access_modes_follow_use) {
  ttir_read t = ttir_read_good(
      "module {\n"
      "  tt.func public @k(%in: !tt.ptr<f32>, %out: !tt.ptr<f32>, %both: !tt.ptr<f32>, %sum: !tt.ptr<f32>, "
      "%no: !tt.ptr<f32>,\n"
      "      %x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %lock: !tt.ptr<i32>, %n: i32 {tt.divisibility = 16 : i32}, "
      "%c: i1, %asm: !tt.ptr<f32>) {\n"
      "    %t = arith.constant true\n"
      "    %c0 = arith.constant 0 : i32\n"
      "    %c1 = arith.constant 1 : i32\n"
      "    %v = tt.load %in : !tt.ptr<f32>\n"
      "    tt.store %out, %v : !tt.ptr<f32>\n"
      "    %w = tt.load %both : !tt.ptr<f32>\n"
      "    tt.store %both, %w : !tt.ptr<f32>\n"
      "    %r = tt.atomic_rmw fadd, relaxed, gpu, %sum, %v, %t : (!tt.ptr<f32>, f32, i1) -> f32\n"
      "    %l = tt.atomic_cas acq_rel, gpu, %lock, %c0, %c1 : (!tt.ptr<i32>, i32, i32) -> i32\n"
      "    %z = arith.select %c, %x, %y : !tt.ptr<f32>\n"
      "    %e = scf.for %i = %c0 to %n step %c1 iter_args(%q = %z) -> (!tt.ptr<f32>)  : i32 {\n"
      "      %g = tt.addptr %q, %c1 : !tt.ptr<f32>, i32\n"
      "      scf.yield %g : !tt.ptr<f32>\n"
      "    }\n"
      "    tt.store %e, %w : !tt.ptr<f32>\n"
      "    %s = tt.elementwise_inline_asm \"ld.global.b32 $0, [$1];\" {constraints = \"=r,l\", "
      "packed_element = 1 : i32, "
      "pure = false} %asm : !tt.ptr<f32> -> i32\n"
      "    tt.return\n"
      "  }\n"
      "}\n");
  static const uint8_t want[] = {IR_ACCESS_IN,   IR_ACCESS_OUT,  IR_ACCESS_INOUT, IR_ACCESS_ACCUM,
                                 IR_ACCESS_IN,   IR_ACCESS_OUT,  IR_ACCESS_OUT,   IR_ACCESS_INOUT,
                                 IR_ACCESS_NONE, IR_ACCESS_NONE, IR_ACCESS_INOUT};
  CHECK_INT(t.kernel->param_count, sizeof want);
  for (size_t i = 0; i < sizeof want; i++)
    if (t.kernel->params[i].access != want[i])
      FAIL("%s has access %d, expected %d", t.kernel->params[i].name, t.kernel->params[i].access, want[i]);
  CHECK_INT(t.kernel->params[8].div, 16);
  ttir_read_end(&t);
}

TEST(ttir_forms, metadata) {
  kiln_arena *arena = kiln_arena_create();
  kiln_error err = {0};
  ttir_facts facts = {0};
  static const char good[] = "{\"num_warps\": 8, \"num_stages\": 2, \"maxnreg\": null, \"enable_fp_fusion\": "
                             "false, \"num_ctas\": 1}";
  CHECK_OK(ttir_read_facts(arena, good, strlen(good), &facts, &err), err);
  CHECK_INT(facts.warps, 8);
  CHECK_INT(facts.stages, 2);
  CHECK_INT(facts.max_registers, 0);
  CHECK(facts.no_fusion);
  static const char *const bad[] = {"[]", "{\"num_warps\": 3}", "{\"num_ctas\": 2}", "{\"num_warps\": 4", ""};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (ttir_read_facts(arena, bad[i], strlen(bad[i]), &facts, &err) == KILN_OK) FAIL("%s was taken", bad[i]);
  kiln_arena_destroy(arena);
}
