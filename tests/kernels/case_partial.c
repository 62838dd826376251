// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests results that are parts of longer rows (partial_rows.kiln): each kernel with drawn sizes and
// distances of rows. Values are small integers: sums are exact, so that only the result's type rounds.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/cases.h"

enum { LAUNCHES = 12 };

typedef struct form {
  const char *kernel, *parameters; ///< of the instance
  kiln_scalar operands, result;
  int rows, columns; ///< of the tile
  size_t apart;      ///< elements of C's rows; 0: any
  bool is_turned, adds;
  int shift; ///< columns before the result
} form;

static array *integers(run *r, kiln_scalar scalar, int rows, int columns, int most) {
  double *values = calloc((size_t)rows * (size_t)columns + 1, sizeof *values);
  for (int i = 0; i < rows * columns; i++) values[i] = (double)drawn(r, 2 * (size_t)most + 1) - most;
  array *a = given_rows(r, scalar, (size_t)rows, (size_t)columns, values);
  free(values);
  return a;
}

/// Mostly within two tiles, and often at the end of one or near a multiple of 16 bytes.
static int drawn_size(run *r, int tile) {
  int size = 1 + (int)drawn(r, 2 * (size_t)tile + 20);
  return drawn(r, 4) ? size : (size + 7) / 8 * 8 + (int)drawn(r, 3) - 1;
}

static double at(const array *c, int row, int column) {
  return c->v[(size_t)row * c->around.columns + (size_t)column];
}

static void launch_form(run *r, const form *f) {
  int M = drawn_size(r, f->rows), N = drawn_size(r, f->columns), K = (int)drawn(r, 100);
  int rows = f->is_turned ? N : M, columns = (f->is_turned ? M : N) + f->shift;
  char name[96];
  r->apart = 16;
  array *a = integers(r, f->operands, M, K, 1), *b = integers(r, f->operands, N, K, 1);
  r->apart = f->apart;
  array *c = integers(r, f->result, rows, columns, 3);
  double *want = calloc((size_t)rows * (size_t)columns + 1, sizeof *want);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) {
      double sum = f->adds ? at(c, i, j) : 0;
      int m = f->is_turned ? j : i, n = (f->is_turned ? i : j) - f->shift;
      for (int k = 0; n >= 0 && k < K; k++) sum += a->v[m * K + k] * b->v[n * K + k];
      want[i * columns + j] = n < 0 ? at(c, i, j) : sum;
    }
  snprintf(name, sizeof name, "%s[%s]", f->kernel, f->parameters);
  CALL(r, name, A(a), A(b), A(c), I(M), I(N), I(K), LD(a), LD(b), LD(c));
  expect(r, c, want, 0, tolerance(f->result));
  if (!r->text[0]) expect_rest(r);
  size_t end = strlen(r->text);
  if (end)
    snprintf(r->text + end, sizeof r->text - end, " (%s, M %d, N %d, K %d, rows of C %zu apart)", name, M, N,
             K, c->around.pitch);
  free(want);
}

static void check_forms(run *r, const form *forms, size_t count) {
  for (size_t i = 0; i < count; i++)
    for (int k = 0; k < LAUNCHES && !r->text[0]; k++) {
      launch_form(r, &forms[i]);
      if (!r->text[0]) run_clear(r);
    }
}

#define CHECK_FORMS(r, forms) check_forms(r, forms, sizeof(forms) / sizeof *(forms))
/// With both types of 16 bits.
#define HALVES(kernel, rows, columns, ...)                                   \
  {kernel, "T=bf16", KILN_BF16, KILN_BF16, rows, columns, 8, __VA_ARGS__}, { \
    kernel, "T=f16", KILN_F16, KILN_F16, rows, columns, 8, __VA_ARGS__       \
  }

static void stored(run *r) {
  static const form forms[] = {
      HALVES("part", 64, 64, false),         HALVES("part_wide", 128, 256, false),
      HALVES("part_beside", 64, 128, false), HALVES("part_first", 128, 176, false),
      HALVES("part_batch", 64, 64, false),   HALVES("part_shifted", 64, 64, false, .shift = 3),
      HALVES("part_held", 128, 64, false)};
  CHECK_FORMS(r, forms);
}

static void turned(run *r) {
  static const form forms[] = {HALVES("part_turned", 128, 64, true),
                               HALVES("part_turned_first", 128, 176, true)};
  CHECK_FORMS(r, forms);
}

static void added(run *r) {
  static const form forms[] = {
      {"part_added", "T=bf16", KILN_BF16, KILN_F32, 128, 64, 4, .adds = true},
      {"part_added", "T=f16", KILN_F16, KILN_F32, 128, 64, 4, .adds = true},
      {"part_added_beside", "T=bf16", KILN_BF16, KILN_F32, 64, 128, 4, .adds = true},
      {"part_added_beside", "T=f16", KILN_F16, KILN_F32, 64, 128, 4, .adds = true},
  };
  CHECK_FORMS(r, forms);
}

static void shared(run *r) {
  static const form forms[] = {HALVES("part_shared", 256, 128, false), HALVES("part_corner", 192, 384, false),
                               HALVES("part_four", 256, 256, false), HALVES("part_split", 128, 128, false),
                               HALVES("part_split_shared", 256, 128, false)};
  CHECK_FORMS(r, forms);
}

static void other_types(run *r) {
  static const form forms[] = {
      {"part_fp8", "S=e4m3,T=bf16", KILN_E4M3, KILN_BF16, 64, 64, 16},
      {"part_fp8", "S=e5m2,T=f16", KILN_E5M2, KILN_F16, 64, 64, 16},
      {"part_fp8", "S=e4m3,T=e4m3", KILN_E4M3, KILN_E4M3, 64, 64, 16},
      {"part_fp8", "S=e4m3,T=f32", KILN_E4M3, KILN_F32, 64, 64, 16},
      {"part_i8", "T=i32", KILN_I8, KILN_I32, 64, 64, 16},
      {"part_i8", "T=f32", KILN_I8, KILN_F32, 64, 64, 16},
      {"part_i8", "T=i8", KILN_I8, KILN_I8, 64, 64, 16},
      {"part_tf32", "T=f32", KILN_F32, KILN_F32, 64, 64, 8},
      {"part_tf32", "T=bf16", KILN_F32, KILN_BF16, 64, 64, 8},
  };
  CHECK_FORMS(r, forms);
}

/// By the threads' own stores.
static void by_threads(run *r) {
  static const kiln_scalar types[] = {KILN_BF16, KILN_F16, KILN_F32, KILN_E4M3, KILN_I8, KILN_I32};
  for (size_t i = 0; i < 2 * sizeof types / sizeof *types; i++) {
    char parameters[16];
    kiln_scalar t = types[i / 2];
    snprintf(parameters, sizeof parameters, "T=%s", kiln_scalars[t].spelling);
    const form f = {i % 2 ? "part_pointers" : "part_loose", parameters, KILN_BF16, t, 64, 64, i % 2 ? 8 : 0};
    check_forms(r, &f, 1);
  }
}

/// Of operands that threads bring to slots.
static void from_slots(run *r) {
  static const form forms[] = {
      HALVES("slots", 128, 128, false),
      HALVES("slots_of_four_warps", 128, 256, false),
      HALVES("slots_computed", 64, 64, false),
      HALVES("slots_flat", 64, 64, false),
      HALVES("slots_kept", 128, 64, false),
      HALVES("slots_persistent", 128, 128, false),
      {"slots_loose", "T=bf16", KILN_BF16, KILN_BF16, 64, 64, 0},
      {"slots_loose", "T=f16", KILN_F16, KILN_F16, 64, 64, 0},
      {"slots_fp8", "S=e4m3,T=f32", KILN_E4M3, KILN_F32, 64, 128, 16},
      {"slots_fp8", "S=e5m2,T=f32", KILN_E5M2, KILN_F32, 64, 128, 16},
      {"slots_fp8", "S=i8,T=i32", KILN_I8, KILN_I32, 64, 128, 16},
  };
  CHECK_FORMS(r, forms);
}

static const char beside_library[] = "part[T=bf16]";

const kernel_case partial_cases[] = {
    {"partial_stored", stored, beside_library},         {"partial_turned", turned, beside_library},
    {"partial_added", added, beside_library},           {"partial_shared", shared, beside_library},
    {"partial_types", other_types, beside_library},     {"partial_by_threads", by_threads, beside_library},
    {"partial_from_slots", from_slots, beside_library}, {NULL, NULL, NULL},
};
