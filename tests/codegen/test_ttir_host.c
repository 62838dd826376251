// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares kernels of Triton IR, as host code and in the reference interpreter, with plain C: block
// pointers, rows of descriptors, products of two types, constants of different elements, PTX of other
// machines.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/codegen/ttir_run.h"

// ---------------------------------------------------------------------------------- block pointers

enum { ROWS = 13, COLUMNS = 21, PITCH = 24, BLOCK_ROWS = 8, BLOCK_COLUMNS = 16, TRIPS = 4 };

/// Walks blocks of 8 x 16 along the columns from (row, column), in steps of (down, across), and adds them up;
/// the block pointer is carried by the loop, and chosen between two tensors by a selection.
static const char walk[] =
    "module {\n"
    "  tt.func public @walk(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %o: !tt.ptr<f32>, %m: i64, %n: i64, %pitch: "
    "i64, %row: i64, %column: i64, %down: i64, %across: i64, %which: i64) {\n"
    "    %c0 = arith.constant 0 : i32\n"
    "    %c1 = arith.constant 1 : i32\n"
    "    %c4 = arith.constant 4 : i32\n"
    "    %l0 = arith.constant 0 : i64\n"
    "    %l1 = arith.constant 1 : i64\n"
    "    %l8 = arith.constant 8 : i64\n"
    "    %l16 = arith.constant 16 : i64\n"
    "    %r = arith.trunci %row : i64 to i32\n"
    "    %c = arith.trunci %column : i64 to i32\n"
    "    %d = arith.trunci %down : i64 to i32\n"
    "    %a = arith.trunci %across : i64 to i32\n"
    "    %zero = arith.constant dense<0.000000e+00> : tensor<8x16xf32>\n"
    "    %first = tt.make_tensor_ptr %x, [%m, %n], [%pitch, %l1], [%r, %c] {order = array<i32: 1, 0>} : "
    "<tensor<8x16xf32>>\n"
    "    %second = tt.make_tensor_ptr %y, [%m, %n], [%pitch, %l1], [%r, %c] {order = array<i32: 1, 0>} : "
    "<tensor<8x16xf32>>\n"
    "    %is = arith.cmpi ne, %which, %l0 : i64\n"
    "    %p = arith.select %is, %second, %first : !tt.ptr<tensor<8x16xf32>>\n"
    "    %end:2 = scf.for %i = %c0 to %c4 step %c1 iter_args(%s = %zero, %q = %p) -> (tensor<8x16xf32>, "
    "!tt.ptr<tensor<8x16xf32>>)  : i32 {\n"
    "      %v = tt.load %q {boundaryCheck = array<i32: 0, 1>, padding = @PAD : i32} : "
    "!tt.ptr<tensor<8x16xf32>>\n"
    "      %t = arith.addf %s, %v : tensor<8x16xf32>\n"
    "      %w = tt.advance %q, [%d, %a] : <tensor<8x16xf32>>\n"
    "      scf.yield %t, %w : tensor<8x16xf32>, !tt.ptr<tensor<8x16xf32>>\n"
    "    }\n"
    "    %to = tt.make_tensor_ptr %o, [%l8, %l16], [%l16, %l1], [%c0, %c0] {order = array<i32: 1, 0>} : "
    "<tensor<8x16xf32>>\n"
    "    tt.store %to, %end#0 : !tt.ptr<tensor<8x16xf32>>\n"
    "    tt.return\n"
    "  }\n"
    "}\n";

static float element(const float *x, int row, int column, float outside) {
  bool exists = row >= 0 && row < ROWS && column >= 0 && column < COLUMNS;
  return exists ? x[row * PITCH + column] : outside;
}

static void check_walk(int row, int column, int down, int across, int which, int pad, int way) {
  static float x[ROWS * PITCH], y[ROWS * PITCH], got[BLOCK_ROWS * BLOCK_COLUMNS];
  char text[sizeof walk];
  memcpy(text, walk, sizeof walk);
  char *mark = strstr(text, "@PAD");
  memcpy(mark, pad == 2 ? "   2" : "   1", 4);
  for (int i = 0; i < ROWS * PITCH; i++) x[i] = (float)(i % 97), y[i] = (float)(i % 89) - 1000;
  memset(got, 0x5a, sizeof got);
  struct {
    void *x, *y, *o;
    int64_t m, n, pitch, row, column, down, across, which;
  } args = {x, y, got, ROWS, COLUMNS, PITCH, row, column, down, across, which};
  run(text, &args, 1, way);
  for (int i = 0; i < BLOCK_ROWS; i++)
    for (int j = 0; j < BLOCK_COLUMNS; j++) {
      float want = 0, found = got[i * BLOCK_COLUMNS + j];
      for (int k = 0; k < TRIPS; k++)
        want += element(which ? y : x, row + i + k * down, column + j + k * across, pad == 2 ? NAN : 0);
      if (want != found && !(isnan(want) && isnan(found)))
        FAIL("from %d, %d by %d, %d: element %d, %d: expected %g, found %g", row, column, down, across, i, j,
             (double)want, (double)found);
    }
}

TEST(ttir_host, block_pointers_walk) {
  char nan_padded[sizeof walk];
  memcpy(nan_padded, walk, sizeof walk);
  memcpy(strstr(nan_padded, "@PAD"), "   2", 4);
  compile_for_gpus(nan_padded);
  static const int walks[][4] = {{0, 0, 0, 4},     {0, 0, 4, 4},   {-3, -5, 1, 3}, {8, 16, 2, 2},
                                 {12, 20, -4, -6}, {-20, 0, 8, 0}, {3, 5, 0, 0},   {5, -16, 0, 16}};
  for (size_t i = 0; i < sizeof walks / sizeof *walks; i++)
    for (int way = 0; way < WAYS; way++)
      for (int pad = 1; pad <= 2; pad++)
        check_walk(walks[i][0], walks[i][1], walks[i][2], walks[i][3], (int)i % 2, pad, way);
}

/// Axes that an access does not check are read as they are: here the column may run into the next row.
TEST(ttir_host, block_pointers_check_the_axes_they_name) {
  static const char text[] =
      "module {\n"
      "  tt.func public @k(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %m: i64, %n: i64, %pitch: i64, %row: i64, "
      "%column: i64) {\n"
      "    %c0 = arith.constant 0 : i32\n"
      "    %l1 = arith.constant 1 : i64\n"
      "    %l8 = arith.constant 8 : i64\n"
      "    %l16 = arith.constant 16 : i64\n"
      "    %r = arith.trunci %row : i64 to i32\n"
      "    %c = arith.trunci %column : i64 to i32\n"
      "    %p = tt.make_tensor_ptr %x, [%m, %n], [%pitch, %l1], [%r, %c] {order = array<i32: 1, 0>} : "
      "<tensor<8x16xf32>, 1>\n"
      "    %v = tt.load %p {boundaryCheck = array<i32: 0>} : !tt.ptr<tensor<8x16xf32>, 1>\n"
      "    %q = tt.make_tensor_ptr %o, [%l8, %l16], [%l16, %l1], [%c0, %c0] {order = array<i32: 1, 0>} : "
      "<tensor<8x16xf32>>\n"
      "    tt.store %q, %v {boundaryCheck = array<i32: 0, 1>} : !tt.ptr<tensor<8x16xf32>>\n"
      "    tt.return\n"
      "  }\n"
      "}\n";
  enum { BEFORE = 8 };
  static float memory[(ROWS + 2) * PITCH], got[BLOCK_ROWS * BLOCK_COLUMNS];
  for (int i = 0; i < (ROWS + 2) * PITCH; i++) memory[i] = (float)(i + 1);
  compile_for_gpus(text);
  for (int way = 0; way < WAYS; way++) {
    float *x = memory + BEFORE;
    struct {
      void *x, *o;
      int64_t m, n, pitch, row, column;
    } args = {x, got, ROWS, COLUMNS, PITCH, 7, -4};
    memset(got, 0x5a, sizeof got);
    run(text, &args, 1, way);
    for (int i = 0; i < BLOCK_ROWS; i++)
      for (int j = 0; j < BLOCK_COLUMNS; j++) {
        float want = 7 + i < ROWS ? x[(7 + i) * PITCH - 4 + j] : 0;
        if (got[i * BLOCK_COLUMNS + j] != want)
          FAIL("element %d, %d: expected %g, found %g", i, j, (double)want,
               (double)got[i * BLOCK_COLUMNS + j]);
      }
  }
}

/// A store writes what lies inside and nothing else; a branch and a call pass the pointer on.
TEST(ttir_host, block_pointers_store_inside) {
  static const char text[] =
      "module {\n"
      "  tt.func private @back(%p: !tt.ptr<tensor<4xi32>>, %by: i32) -> !tt.ptr<tensor<4xi32>> {\n"
      "    %q = tt.advance %p, [%by] : <tensor<4xi32>>\n"
      "    tt.return %q : !tt.ptr<tensor<4xi32>>\n"
      "  }\n"
      "  tt.func public @k(%o: !tt.ptr<i32>, %n: i64, %at: i64) {\n"
      "    %l1 = arith.constant 1 : i64\n"
      "    %c0 = arith.constant 0 : i32\n"
      "    %c1 = arith.constant 1 : i32\n"
      "    %v = arith.constant dense<[5, 6, 7, 8]> : tensor<4xi32>\n"
      "    %i = arith.trunci %at : i64 to i32\n"
      "    %p = tt.make_tensor_ptr %o, [%n], [%l1], [%c0] {order = array<i32: 0>} : <tensor<4xi32>>\n"
      "    %moves = arith.cmpi ne, %i, %c1 : i32\n"
      "    %q = scf.if %moves -> (!tt.ptr<tensor<4xi32>>) {\n"
      "      %w = tt.call @back(%p, %i) : (!tt.ptr<tensor<4xi32>>, i32) -> !tt.ptr<tensor<4xi32>>\n"
      "      scf.yield %w : !tt.ptr<tensor<4xi32>>\n"
      "    } else {\n"
      "      scf.yield %p : !tt.ptr<tensor<4xi32>>\n"
      "    }\n"
      "    tt.store %q, %v {boundaryCheck = array<i32: 0>} : !tt.ptr<tensor<4xi32>>\n"
      "    tt.return\n"
      "  }\n"
      "}\n";
  enum { LENGTH = 10, GUARD = 8 };
  compile_for_gpus(text);
  for (int way = 0; way < WAYS; way++)
    for (int64_t at = -6; at < 14; at++) {
      int32_t memory[LENGTH + 2 * GUARD], *o = memory + GUARD;
      for (int i = 0; i < LENGTH + 2 * GUARD; i++) memory[i] = -1;
      struct {
        void *o;
        int64_t n, at;
      } args = {o, LENGTH, at};
      run(text, &args, 1, way);
      int64_t from = at == 1 ? 0 : at;
      for (int i = -GUARD; i < LENGTH + GUARD; i++) {
        bool written = i >= 0 && i < LENGTH && i >= from && i < from + 4;
        CHECK_INT(o[i], written ? 5 + (i - from) : -1);
      }
    }
}

// ------------------------------------------------------------------------------ rows of descriptors

/// Rows by number through a descriptor that the host passes (way of the first) or that a loop carries.
static const char rows_text[] =
    "module {\n"
    "  tt.func public @k(%d: !tt.tensordesc<tensor<1x8xf32>>, %e: !tt.tensordesc<tensor<1x8xf32>>, %list: "
    "!tt.ptr<i32>, %o: !tt.ptr<f32>, %column: i64, %trips: i64) {\n"
    "    %l0 = arith.constant 0 : i64\n"
    "    %l1 = arith.constant 1 : i64\n"
    "    %i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>\n"
    "    %lp = tt.splat %list : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>\n"
    "    %lq = tt.addptr %lp, %i : tensor<8x!tt.ptr<i32>>, tensor<8xi32>\n"
    "    %rows = tt.load %lq : tensor<8x!tt.ptr<i32>>\n"
    "    %c = arith.trunci %column : i64 to i32\n"
    "    %last = scf.for %t = %l0 to %trips step %l1 iter_args(%q = %d) -> "
    "(!tt.tensordesc<tensor<1x8xf32>>)  : i64 {\n"
    "      %first = tt.descriptor_gather %q[%rows, %c] : (!tt.tensordesc<tensor<1x8xf32>>, tensor<8xi32>, "
    "i32) -> tensor<8x8xf32>\n"
    "      tt.descriptor_scatter %e[%rows, %c], %first : !tt.tensordesc<tensor<1x8xf32>>, tensor<8xi32>, "
    "i32, tensor<8x8xf32>\n"
    "      scf.yield %e : !tt.tensordesc<tensor<1x8xf32>>\n"
    "    }\n"
    "    %v = tt.descriptor_gather %last[%rows, %c] : (!tt.tensordesc<tensor<1x8xf32>>, tensor<8xi32>, i32) "
    "-> tensor<8x8xf32>\n"
    "    %w = tt.reshape %v : tensor<8x8xf32> -> tensor<64xf32>\n"
    "    %k = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>\n"
    "    %op = tt.splat %o : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>\n"
    "    %oq = tt.addptr %op, %k : tensor<64x!tt.ptr<f32>>, tensor<64xi32>\n"
    "    tt.store %oq, %w : tensor<64x!tt.ptr<f32>>\n"
    "    tt.return\n"
    "  }\n"
    "}\n";

TEST(ttir_host, rows_of_a_descriptor_of_the_host) {
  enum { WIDTH = 20 };
  static const int32_t list[8] = {3, 0, 12, -1, 13, 7, 5, 9};
  compile_for_gpus(rows_text);
  for (int way = 0; way < WAYS; way++)
    for (int trips = 0; trips < 2; trips++)
      for (int column = -4; column < 24; column += 7) {
        float x[ROWS * PITCH], y[ROWS * PITCH], expected[ROWS * PITCH], got[64];
        for (int i = 0; i < ROWS * PITCH; i++) x[i] = (float)i, y[i] = expected[i] = (float)-i;
        struct {
          struct {
            void *base;
            int64_t extents[2], strides[2];
          } d, e;
          const void *list;
          void *o;
          int64_t column, trips;
        } args = {{x, {ROWS, WIDTH}, {PITCH, 1}}, {y, {ROWS, WIDTH}, {PITCH, 1}}, list, got, column, trips};
        run(rows_text, &args, 1, way);
        for (int i = 0; i < 8 && trips; i++)
          for (int j = 0; j < 8; j++)
            if (list[i] >= 0 && list[i] < ROWS && column + j >= 0 && column + j < WIDTH)
              expected[list[i] * PITCH + column + j] = x[list[i] * PITCH + column + j];
        CHECK(!memcmp(y, expected, sizeof y));
        for (int i = 0; i < 8; i++)
          for (int j = 0; j < 8; j++) {
            bool exists = list[i] >= 0 && list[i] < ROWS && column + j >= 0 && column + j < WIDTH;
            float want = exists ? x[list[i] * PITCH + column + j] : 0;
            if (exists && !trips) want = x[list[i] * PITCH + column + j];
            if (got[i * 8 + j] != want)
              FAIL("row %d, column %d: expected %g, found %g", i, j, (double)want, (double)got[i * 8 + j]);
          }
      }
}

/// The memory of a descriptor and its rows begin at multiples of 16 bytes, which is Triton's contract: also
/// where the address and the stride are numbers from memory, as in its tutorial of grouped products.
TEST(ttir_host, descriptors_are_aligned) {
  static const char text[] =
      "module {\n"
      "  tt.func public @k(%p: !tt.ptr<i64>, %l: !tt.ptr<i64>, %o: !tt.ptr<f16> {tt.divisibility = 16 : "
      "i32}) {\n"
      "    %c0 = arith.constant 0 : i32\n"
      "    %c64 = arith.constant 64 : i32\n"
      "    %s1 = arith.constant 1 : i64\n"
      "    %s64 = arith.constant 64 : i64\n"
      "    %a = tt.load %p : !tt.ptr<i64>\n"
      "    %x = tt.int_to_ptr %a : i64 -> !tt.ptr<f16>\n"
      "    %s = tt.load %l : !tt.ptr<i64>\n"
      "    %d = tt.make_tensor_descriptor %x, [%c64, %c64], [%s, %s1] : <f16>, <tensor<64x64xf16>>\n"
      "    %e = tt.make_tensor_descriptor %o, [%c64, %c64], [%s64, %s1] : <f16>, <tensor<64x64xf16>>\n"
      "    %v = tt.descriptor_load %d[%c0, %c0] : !tt.tensordesc<tensor<64x64xf16>> -> tensor<64x64xf16>\n"
      "    tt.descriptor_store %e[%c0, %c0], %v : !tt.tensordesc<tensor<64x64xf16>>, tensor<64x64xf16>\n"
      "    tt.return\n"
      "  }\n"
      "}\n";
  unit u = open_unit(text);
  kiln_error err = {0};
  kiln_codegen_options options;
  kiln_artifact artifact = {0};
  CHECK_OK(kiln_target_parse("sm_80", &u.target, &err), err);
  kiln_codegen_options_init(&options);
  options.assembler = KILN_ASSEMBLER_NONE;
  CHECK_OK(kiln_codegen(lower(&u), &u.target, &options, &artifact, &err), err);
  char *ptx = strndup((const char *)artifact.code.bytes, artifact.code.size);
  CHECK(strstr(ptx, "ld.global.v4.b32") != NULL);
  CHECK(strstr(ptx, "ld.global.b16") == NULL);
  free(ptx);
  kiln_artifact_deinit(&artifact);
  kiln_arena_destroy(u.arena);
}

/// Descriptors of the host promise that, too, and that elements of a row follow each other: so the copy
/// engine reads the operands of products, and the unit multiplies from shared memory.
TEST(ttir_host, descriptors_of_the_host_go_through_the_engine) {
  static const char *const files[] = {"tests/ttir/descriptors_f16.ttir", "tests/ttir/descriptors_f32.ttir"};
  for (size_t i = 0; i < 2; i++) {
    size_t size;
    char *text = kiln_test_read(files[i], &size);
    unit u = open_unit(text);
    kiln_error err = {0};
    kiln_codegen_options options;
    kiln_artifact artifact = {0};
    CHECK_OK(kiln_target_parse("sm_90a", &u.target, &err), err);
    kiln_codegen_options_init(&options);
    options.assembler = KILN_ASSEMBLER_NONE;
    CHECK_OK(kiln_codegen(lower(&u), &u.target, &options, &artifact, &err), err);
    char *ptx = strndup((const char *)artifact.code.bytes, artifact.code.size);
    CHECK(strstr(ptx, "cp.async.bulk.tensor.2d.shared::cluster.global") != NULL);
    CHECK(strstr(ptx, "wgmma.mma_async") != NULL);
    CHECK(strstr(ptx, "ld.global") == NULL);
    CHECK(strstr(ptx, "cp.async.bulk.tensor.2d.global.shared::cta") != NULL);
    free(ptx);
    kiln_artifact_deinit(&artifact);
    kiln_arena_destroy(u.arena);
    free(text);
  }
}

/// A selection between descriptors: made by the kernel, and passed by the host.
TEST(ttir_host, descriptors_are_selected) {
  static const char text[] =
      "module {\n"
      "  tt.func public @k(%d: !tt.tensordesc<tensor<8xf32>>, %x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i64, "
      "%which: i64) {\n"
      "    %l0 = arith.constant 0 : i64\n"
      "    %l1 = arith.constant 1 : i64\n"
      "    %l2 = arith.constant 2 : i64\n"
      "    %c0 = arith.constant 0 : i32\n"
      "    %m = arith.trunci %n : i64 to i32\n"
      "    %e = tt.make_tensor_descriptor %x, [%m], [%l1] : <f32>, <tensor<8xf32>>\n"
      "    %f = tt.make_tensor_descriptor %o, [%m], [%l1] : <f32>, <tensor<8xf32>>\n"
      "    %is = arith.cmpi eq, %which, %l1 : i64\n"
      "    %q = arith.select %is, %e, %d : !tt.tensordesc<tensor<8xf32>>\n"
      "    %more = arith.cmpi eq, %which, %l2 : i64\n"
      "    %s = arith.select %more, %f, %q : !tt.tensordesc<tensor<8xf32>>\n"
      "    %v = tt.descriptor_load %s[%c0] : !tt.tensordesc<tensor<8xf32>> -> tensor<8xf32>\n"
      "    %two = arith.constant dense<2.0> : tensor<8xf32>\n"
      "    %w = arith.mulf %v, %two : tensor<8xf32>\n"
      "    tt.descriptor_store %f[%c0], %w : !tt.tensordesc<tensor<8xf32>>, tensor<8xf32>\n"
      "    tt.return\n"
      "  }\n"
      "}\n";
  compile_for_gpus(text);
  for (int way = 0; way < WAYS; way++)
    for (int which = 0; which < 3; which++) {
      float d[8], x[8], o[8];
      for (int i = 0; i < 8; i++) d[i] = (float)i, x[i] = (float)(100 + i), o[i] = (float)(1000 + i);
      struct {
        void *base;
        int64_t extent, stride;
        void *x, *o;
        int64_t n, which;
      } args = {d, 4, 1, x, o, 6, which};
      run(text, &args, 1, way);
      for (int i = 0; i < 8; i++) {
        float chosen = which == 0   ? (i < 4 ? (float)i : 0)
                       : which == 1 ? (float)(100 + i)
                                    : (float)(1000 + i);
        CHECK(o[i] == (i < 6 ? 2 * chosen : (float)(1000 + i)));
      }
    }
}

// --------------------------------------------------------------------------- constants and products

TEST(ttir_host, constants_of_different_elements) {
  static const char text[] =
      "module {\n"
      "  tt.func public @k(%o: !tt.ptr<i32>, %f: !tt.ptr<f32>) {\n"
      "    %a = arith.constant dense<[[1, -2, 3, 4], [0x7fffffff, -2147483648, 1, 1]]> : tensor<2x4xi32>\n"
      "    %b = arith.constant dense<\"0x05000000060000000700000008000000F6FFFFFF0000000000000000FF000000\"> "
      ": "
      "tensor<8xi32>\n"
      "    %c = arith.constant dense<[1.5, -2.0, 0x7F800000, 4.000000e+00, 0.0, -0.0, 7.0, 8.0]> : "
      "tensor<8xf32>\n"
      "    %m = arith.constant dense<[true, false, true, true, false, false, true, false]> : tensor<8xi1>\n"
      "    %i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>\n"
      "    %c8 = arith.constant dense<8> : tensor<8xi32>\n"
      "    %flat = tt.reshape %a : tensor<2x4xi32> -> tensor<8xi32>\n"
      "    %p0 = tt.splat %o : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>\n"
      "    %p = tt.addptr %p0, %i : tensor<8x!tt.ptr<i32>>, tensor<8xi32>\n"
      "    tt.store %p, %flat : tensor<8x!tt.ptr<i32>>\n"
      "    %q = tt.addptr %p, %c8 : tensor<8x!tt.ptr<i32>>, tensor<8xi32>\n"
      "    tt.store %q, %b : tensor<8x!tt.ptr<i32>>\n"
      "    %g0 = tt.splat %f : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>\n"
      "    %g = tt.addptr %g0, %i : tensor<8x!tt.ptr<f32>>, tensor<8xi32>\n"
      "    tt.store %g, %c, %m : tensor<8x!tt.ptr<f32>>\n"
      "    tt.return\n"
      "  }\n"
      "}\n";
  static const int32_t want[16] = {1, -2, 3, 4, INT32_MAX, INT32_MIN, 1, 1, 5, 6, 7, 8, -10, 0, 0, 255};
  static const float wanted[8] = {1.5f, 9, INFINITY, 4, 9, 9, 7, 9};
  compile_for_gpus(text);
  for (int way = 0; way < WAYS; way++) {
    int32_t o[16] = {0};
    float f[8] = {9, 9, 9, 9, 9, 9, 9, 9};
    void *args[2] = {o, f};
    run(text, args, 1, way);
    CHECK(!memcmp(o, want, sizeof o));
    CHECK(!memcmp(f, wanted, sizeof f));
  }
}

static uint16_t bf16_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return (uint16_t)(bits >> 16);
}

/// f16 x bf16: values are such that every product and sum is exact in f32, and some exceed the range of f16.
TEST(ttir_host, products_of_two_types) {
  enum { N = 16 };
  static const char text[] =
      "module {\n"
      "  tt.func public @k(%a: !tt.ptr<f16>, %b: !tt.ptr<bf16>, %o: !tt.ptr<f32>) {\n"
      "    %c0 = arith.constant 0 : i32\n"
      "    %l1 = arith.constant 1 : i64\n"
      "    %l16 = arith.constant 16 : i64\n"
      "    %z = arith.constant dense<0.0> : tensor<16x16xf32>\n"
      "    %pa = tt.make_tensor_ptr %a, [%l16, %l16], [%l16, %l1], [%c0, %c0] {order = array<i32: 1, 0>} : "
      "<tensor<16x16xf16>>\n"
      "    %pb = tt.make_tensor_ptr %b, [%l16, %l16], [%l16, %l1], [%c0, %c0] {order = array<i32: 1, 0>} : "
      "<tensor<16x16xbf16>>\n"
      "    %po = tt.make_tensor_ptr %o, [%l16, %l16], [%l16, %l1], [%c0, %c0] {order = array<i32: 1, 0>} : "
      "<tensor<16x16xf32>>\n"
      "    %x = tt.load %pa : !tt.ptr<tensor<16x16xf16>>\n"
      "    %y = tt.load %pb : !tt.ptr<tensor<16x16xbf16>>\n"
      "    %d = tt.dot %x, %y, %z, inputPrecision = tf32 : tensor<16x16xf16> * tensor<16x16xbf16> -> "
      "tensor<16x16xf32>\n"
      "    tt.store %po, %d : !tt.ptr<tensor<16x16xf32>>\n"
      "    tt.return\n"
      "  }\n"
      "}\n";
  compile_for_gpus(text);
  for (int way = 0; way < WAYS; way++) {
    uint16_t a[N * N], b[N * N];
    float x[N * N], y[N * N], o[N * N];
    for (int i = 0; i < N * N; i++) {
      x[i] = (float)(i % 11 - 5) / 4;
      y[i] = (float)(i % 7 - 3) * 131072;
      a[i] = (uint16_t)ir_float_to_bits(KILN_F16, (double)x[i], false);
      b[i] = bf16_of(y[i]);
    }
    void *args[3] = {a, b, o};
    run(text, args, 1, way);
    for (int i = 0; i < N; i++)
      for (int j = 0; j < N; j++) {
        float want = 0;
        for (int k = 0; k < N; k++) want += x[i * N + k] * y[k * N + j];
        CHECK(o[i * N + j] == want);
      }
  }
}

// -------------------------------------------------------------------------------------- index types

TEST(ttir_host, loops_of_index_type) {
  static const char text[] = "module {\n"
                             "  tt.func public @k(%o: !tt.ptr<i64>, %n: i64, %by: i64) {\n"
                             "    %c0 = arith.constant 0 : index\n"
                             "    %c3 = arith.constant 3 : index\n"
                             "    %e = arith.index_cast %n : i64 to index\n"
                             "    %z = arith.constant 0 : i64\n"
                             "    %s = scf.for %i = %c0 to %e step %c3 iter_args(%a = %z) -> (i64) {\n"
                             "      %t = arith.index_castui %i : index to i32\n"
                             "      %u = arith.extsi %t : i32 to i64\n"
                             "      %v = arith.addi %a, %u : i64\n"
                             "      scf.yield %v : i64\n"
                             "    }\n"
                             "    tt.store %o, %s : !tt.ptr<i64>\n"
                             "    tt.return\n"
                             "  }\n"
                             "}\n";
  compile_for_gpus(text);
  for (int way = 0; way < WAYS; way++) {
    int64_t got = -1;
    struct {
      void *o;
      int64_t n, by;
    } args = {&got, 100, 0};
    run(text, &args, 1, way);
    int64_t want = 0;
    for (int64_t i = 0; i < 100; i += 3) want += i;
    CHECK_INT(got, want);
  }
}
