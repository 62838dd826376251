// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests loops over products of 8-bit types whose loads are made in advance, with every order in memory:
// each operand may have the reduced index contiguous, or the other one, so that neighbouring elements of
// the matrix unit's operands are a row apart. Both front ends, plain pointers and views, every kind of
// matrix unit.
#include <stdio.h>

#include "tests/codegen/ttir_run.h"
#include "tests/codegen/llvm_rows.h"

enum { TEXT = 8192 };

typedef struct form {
  const char *type, *sum;  ///< elements of the operands and of the result, in the kernel language
  bool a_by_row, b_by_row; ///< A lies with M contiguous, B with N contiguous
  unsigned side, depth, stages, warps;
} form;

static void pointers(const form *f, char out[TEXT]) {
  snprintf(
      out, TEXT,
      "kiln 1\n"
      "kernel k(a: in *%s @align(16), b: in *%s @align(16), c: out *%s @align(16), K: i32 @div(16), lda: i32 "
      "@div(16), ldb: i32 @div(16)) @grid(1) @warps(%u) @stages(%u) {\n"
      "  let m = iota(%u)\n"
      "  let r = iota(%u)\n"
      "  var s = zeros(%s[%u, %u])\n"
      "  for k in 0 .. K step %u {\n"
      "    let x = load(a + (%s))\n"
      "    let y = load(b + (%s))\n"
      "    s = dot(x, y, s)\n"
      "  }\n"
      "  store(c + (m[:, _] * %u + m[_, :]), s)\n"
      "}\n",
      f->type, f->type, f->sum, f->warps, f->stages, f->side, f->depth, f->sum, f->side, f->side, f->depth,
      f->a_by_row ? "m[:, _] + (k + r)[_, :] * lda" : "m[:, _] * lda + (k + r)[_, :]",
      f->b_by_row ? "(k + r)[:, _] * ldb + m[_, :]" : "(k + r)[:, _] + m[_, :] * ldb", f->side);
}

static void views(const form *f, char out[TEXT]) {
  char a[200], b[200];
  snprintf(a, sizeof a, f->a_by_row ? "trans(load(A, [k, 0]))" : "load(A, [0, k])");
  snprintf(b, sizeof b, f->b_by_row ? "load(B, [k, 0])" : "trans(load(B, [0, k]))");
  snprintf(
      out, TEXT,
      "kiln 1\n"
      "kernel k(a: in *%s @align(16), b: in *%s @align(16), c: out *%s @align(16), N: i32 @div(16), K: i32 "
      "@div(16)) @grid(1) @warps(%u) @stages(%u) {\n"
      "  let A = view(a, [%s], [%s, 1], [%u, %u])\n"
      "  let B = view(b, [%s], [%s, 1], [%u, %u])\n"
      "  let C = view(c, [N, N], [N, 1], [%u, %u])\n"
      "  var s = zeros(%s[%u, %u])\n"
      "  for k in 0 .. K step %u { s = dot(%s, %s, s) }\n"
      "  store(C, [0, 0], s)\n"
      "}\n",
      f->type, f->type, f->sum, f->warps, f->stages, f->a_by_row ? "K, N" : "N, K", f->a_by_row ? "N" : "K",
      f->a_by_row ? f->depth : f->side, f->a_by_row ? f->side : f->depth, f->b_by_row ? "K, N" : "N, K",
      f->b_by_row ? "N" : "K", f->b_by_row ? f->depth : f->side, f->b_by_row ? f->side : f->depth, f->side,
      f->side, f->sum, f->side, f->side, f->depth, a, b);
}

/// One operand's pointers: `%r` runs along axis 0, `%c` along axis 1; the one of them that is not contiguous
/// is multiplied by `ld`.
static int operand(char *out, size_t room, char name, unsigned rows, unsigned columns, bool columns_next,
                   const char *type) {
  const char *far_axis = columns_next ? "r" : "c";
  unsigned far_rows = columns_next ? rows : 1, far_columns = columns_next ? 1 : columns;
  return snprintf(out, room,
                  "    %%%cr0 = tt.make_range {end = %u : i32, start = 0 : i32} : tensor<%uxi32>\n"
                  "    %%%cc0 = tt.make_range {end = %u : i32, start = 0 : i32} : tensor<%uxi32>\n"
                  "    %%%cr1 = tt.expand_dims %%%cr0 {axis = 1 : i32} : tensor<%uxi32> -> tensor<%ux1xi32>\n"
                  "    %%%cc1 = tt.expand_dims %%%cc0 {axis = 0 : i32} : tensor<%uxi32> -> tensor<1x%uxi32>\n"
                  "    %%%cl = tt.splat %%ld%c : i32 -> tensor<%ux%uxi32>\n"
                  "    %%%cf = arith.muli %%%c%s1, %%%cl : tensor<%ux%uxi32>\n"
                  "    %%%crb = tt.broadcast %%%c%s : tensor<%ux1xi32> -> tensor<%ux%uxi32>\n"
                  "    %%%ccb = tt.broadcast %%%c%s : tensor<1x%uxi32> -> tensor<%ux%uxi32>\n"
                  "    %%%co = arith.addi %%%crb, %%%ccb : tensor<%ux%uxi32>\n"
                  "    %%%cs = tt.splat %%%c : !tt.ptr<%s> -> tensor<%ux%ux!tt.ptr<%s>>\n"
                  "    %%%cp = tt.addptr %%%cs, %%%co : tensor<%ux%ux!tt.ptr<%s>>, tensor<%ux%uxi32>\n",
                  name, rows, rows, name, columns, columns, name, name, rows, rows, name, name, columns,
                  columns, name, name, far_rows, far_columns, name, name, far_axis, name, far_rows,
                  far_columns, name, name, columns_next ? "f" : "r1", rows, rows, columns, name, name,
                  columns_next ? "c1" : "f", columns, rows, columns, name, name, name, rows, columns, name,
                  name, type, rows, columns, type, name, name, name, rows, columns, type, rows, columns);
}

static void triton(const form *f, char out[TEXT]) {
  const char *type = !strcmp(f->type, "i8") ? "i8" : !strcmp(f->type, "e4m3") ? "f8E4M3FN" : "f8E5M2";
  const char *sum = !strcmp(f->sum, "i32") ? "i32" : "f32";
  unsigned s = f->side, d = f->depth;
  int at = snprintf(
      out, TEXT,
      "module {\n  tt.func public @k(%%a: !tt.ptr<%s> {tt.divisibility = 16 : i32}, %%b: !tt.ptr<%s> "
      "{tt.divisibility = 16 : i32}, %%o: !tt.ptr<%s> {tt.divisibility = 16 : i32}, %%n: i32 "
      "{tt.divisibility = 16 : i32}, %%lda: i32 {tt.divisibility = 16 : i32}, %%ldb: i32 "
      "{tt.divisibility = 16 : i32}, %%ldo: i32 {tt.divisibility = 16 : i32}) {\n"
      "    %%zero = arith.constant 0 : i32\n    %%step = arith.constant %u : i32\n",
      type, type, sum, d);
  at += operand(out + at, TEXT - (size_t)at, 'a', s, d, !f->a_by_row, type);
  at += operand(out + at, TEXT - (size_t)at, 'b', d, s, f->b_by_row, type);
  at += operand(out + at, TEXT - (size_t)at, 'o', s, s, true, sum);
  at += snprintf(
      out + at, TEXT - (size_t)at,
      "    %%none = arith.constant dense<%s> : tensor<%ux%ux%s>\n"
      "    %%ka = arith.muli %%lda, %%step : i32\n    %%kb = arith.muli %%ldb, %%step : i32\n"
      "    %%da = tt.splat %s : i32 -> tensor<%ux%uxi32>\n"
      "    %%db = tt.splat %s : i32 -> tensor<%ux%uxi32>\n"
      "    %%e:3 = scf.for %%i = %%zero to %%n step %%step iter_args(%%acc = %%none, %%x = %%ap, %%y = "
      "%%bp) -> (tensor<%ux%ux%s>, tensor<%ux%ux!tt.ptr<%s>>, tensor<%ux%ux!tt.ptr<%s>>)  : i32 {\n",
      !strcmp(sum, "i32") ? "0" : "0.000000e+00", s, s, sum, f->a_by_row ? "%ka" : "%step", s, d,
      f->b_by_row ? "%kb" : "%step", d, s, s, s, sum, s, d, type, d, s, type);
  at += snprintf(
      out + at, TEXT - (size_t)at,
      "      %%u = tt.load %%x : tensor<%ux%ux!tt.ptr<%s>>\n"
      "      %%v = tt.load %%y : tensor<%ux%ux!tt.ptr<%s>>\n"
      "      %%w = tt.dot %%u, %%v, %%acc, inputPrecision = tf32 : tensor<%ux%ux%s> * tensor<%ux%ux%s> -> "
      "tensor<%ux%ux%s>\n"
      "      %%x2 = tt.addptr %%x, %%da : tensor<%ux%ux!tt.ptr<%s>>, tensor<%ux%uxi32>\n"
      "      %%y2 = tt.addptr %%y, %%db : tensor<%ux%ux!tt.ptr<%s>>, tensor<%ux%uxi32>\n"
      "      scf.yield %%w, %%x2, %%y2 : tensor<%ux%ux%s>, tensor<%ux%ux!tt.ptr<%s>>, "
      "tensor<%ux%ux!tt.ptr<%s>>\n"
      "    } {tt.num_stages = %u : i32}\n",
      s, d, type, d, s, type, s, d, type, d, s, type, s, s, sum, s, d, type, s, d, d, s, type, d, s, s, s,
      sum, s, d, type, d, s, type, f->stages);
  at += snprintf(out + at, TEXT - (size_t)at,
                 "    tt.store %%op, %%e#0 : tensor<%ux%ux!tt.ptr<%s>>\n    tt.return\n  }\n}\n", s, s, sum);
  CHECK(at < TEXT);
}

// Machines without a matrix unit for the type widen it; that form is compiled as well.
static const char *const targets[] = {"sm_80",  "sm_89",  "sm_90",  "sm_90a",  "sm_100a", "sm_120a",
                                      "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"};

static void compile_form(const form *f, size_t target) {
  static char text[TEXT];
  static void (*const ways[])(const form *, char *) = {pointers, views, triton};
  kiln_error err = {0};
  if (!llvm_has(targets[target])) return;
  for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
    ways[way](f, text);
    if (compile_for(text, targets[target], &err) != KILN_OK)
      FAIL("%s: %s\n%s", targets[target], err.text, text);
  }
}

// `make check` takes each form on some machines, check-full on all.
TEST(byte_products, every_order_of_memory) {
  static const char *const types[][2] = {{"e4m3", "f32"}, {"e5m2", "f32"}, {"i8", "i32"}};
  static const unsigned sizes[][4] = {{64, 64, 2, 4}, {64, 128, 3, 4}, {128, 64, 4, 8}, {128, 128, 2, 8}};
  enum { TARGETS = sizeof targets / sizeof *targets };
  unsigned number = 0;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
      for (unsigned order = 0; order < 4; order++, number++) {
        const unsigned *s = sizes[j];
        if (!kiln_test_wants_piece(number)) continue;
        form f = {types[i][0], types[i][1], order & 1, order & 2, s[0], s[1], s[2], s[3]};
        for (size_t t = 0; t < TARGETS; t++)
          if (kiln_test_full() || (t + number) % TARGETS == 0 ||
              (s[0] == 64 && s[1] == 64 && t == 1 && i != 1))
            compile_form(&f, t);
      }
}

/// Tiles around the smallest instruction of each machine: what is smaller than that has wider types.
TEST(byte_products, small_tiles_of_fp8) {
  static const char *const types[] = {"e4m3", "e5m2"};
  static const unsigned sizes[] = {4, 8, 16, 32, 64, 128};
  enum { TARGETS = sizeof targets / sizeof *targets, SIZES = sizeof sizes / sizeof *sizes };
  char text[1000];
  kiln_error err = {0};
  for (unsigned number = 0; number < SIZES * SIZES * SIZES * 4 * TARGETS; number++) {
    const char *target = targets[number % TARGETS];
    const unsigned kind = number / TARGETS, m = sizes[kind / 4 % SIZES], n = sizes[kind / 4 / SIZES % SIZES],
                   k = sizes[kind / 4 / SIZES / SIZES];
    if (!llvm_has(target) || (!kiln_test_full() && (m > 16 || n > 16 || number % 5 != 0))) continue;
    if (!kiln_test_wants_piece(number)) continue;
    snprintf(text, sizeof text,
             "kiln 1\nkernel small(a: in *%s, b: in *%s, c: out *f32) @grid(1) @config(warps = 4) {\n"
             "  let m = iota(%u)\n  let n = iota(%u)\n  let k = iota(%u)\n"
             "  let x = load(a + (m[:, _] * %u + k[_, :]))\n  let y = load(b + (k[:, _] * %u + n[_, :]))\n"
             "  store(c + (m[:, _] * %u + n[_, :]), dot(x, y, zeros(f32[%u, %u])))\n}\n",
             types[kind & 1], types[kind >> 1 & 1], m, n, k, k, n, n, m, n);
    if (compile_for(text, target, &err) != KILN_OK) FAIL("%s: %s\n%s", target, err.text, text);
  }
}
