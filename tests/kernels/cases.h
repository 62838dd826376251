// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernel library against references in plain C with double arithmetic, on any device that libkiln opens.
//
// A case fills arrays with seeded values that its element type holds exactly, launches, and compares every
// output with what the reference computed from the same values. Outputs are poisoned before, so an element
// that no lane wrote is seen.
#ifndef KILN_TESTS_KERNELS_CASES_H
#define KILN_TESTS_KERNELS_CASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/types.h"
#include "runtime/kiln.h"

/// An array on host and device. `v` are the exact values.
typedef struct array {
  kiln_scalar scalar;
  size_t count;
  double *v; ///< owned
  void *device;
  struct array *next;
} array;

typedef struct run {
  kiln_device *device;
  uint64_t seed;
  array *arrays;
  char text[600]; ///< why it failed; "" while all is well
  double error;   ///< the largest error seen, in units of the tolerance
} run;

/// `count` values: uniform in [lo, hi], rounded to the type.
array *input(run *r, kiln_scalar scalar, size_t count, double lo, double hi);
/// `count` values of your own.
array *given(run *r, kiln_scalar scalar, size_t count, const double *values);
/// Poisoned memory of the device.
array *output(run *r, kiln_scalar scalar, size_t count);
/// Zeros: for accumulated outputs.
array *zeros(run *r, kiln_scalar scalar, size_t count);

typedef struct arg {
  enum { ARG_ARRAY, ARG_I32, ARG_I64, ARG_F32 } kind;
  const array *a;
  int64_t i;
  double f;
} arg;
#define A(array_) \
  { ARG_ARRAY, array_, 0, 0 }
/// From element `first` on.
#define AT(array_, first) \
  { ARG_ARRAY, array_, first, 0 }
#define I(value) \
  { ARG_I32, NULL, value, 0 }
#define L(value) \
  { ARG_I64, NULL, value, 0 }
#define R(value) \
  { ARG_F32, NULL, 0, value }

/// Launches `name` (printf-like would hide the names: give it whole) and waits. A failure is kept in r->text.
void call(run *r, const char *name, const arg *args, size_t count);
#define CALL(r, name, ...) \
  call(r, name, (const arg[]){__VA_ARGS__}, sizeof((const arg[]){__VA_ARGS__}) / sizeof(arg))

/// Reads `a` back and compares: |got - want| <= absolute + relative * |want|. Values are compared after
/// `want` is NOT rounded: tolerances include the rounding to the element type, see `tolerance`.
void expect(run *r, array *a, const double *want, double absolute, double relative);
/// Half a unit in the last place of the type, relative, doubled.
double tolerance(kiln_scalar scalar);
/// Frees the arrays.
void run_clear(run *r);

/// "gelu[T=bf16]"; static storage, a few at a time.
const char *instance(const char *kernel, kiln_scalar scalar);

typedef struct kernel_case {
  const char *name;
  void (*body)(run *r);
} kernel_case;

extern const kernel_case elementwise_cases[], row_cases[], matrix_cases[], product_cases[], attention_cases[],
    attention_form_cases[], token_cases[];
/// The lists above, each ended by a row without a name.
extern const kernel_case *const kernel_case_lists[];

typedef void case_report(void *context, const char *name, const char *text, double error);
/// Runs all cases whose name contains `part` (NULL: all). `report` gets text "" for a pass.
void run_cases(kiln_device *device, const char *part, case_report *report, void *context);

#endif
