// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernel library against references in plain C with double arithmetic, on any device that libkiln opens.
//
// A case fills arrays with seeded values that its element type holds exactly, launches, and compares every
// output with what the reference computed from the same values. Outputs are poisoned before, so an element
// that no lane wrote is seen. Each array stands in a larger block (base/canary.h) at a drawn place, with
// drawn gaps between rows where the kernel takes a distance of rows; what is around it, and what a kernel
// only reads, is compared after the case.
#ifndef KILN_TESTS_KERNELS_CASES_H
#define KILN_TESTS_KERNELS_CASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/canary.h"
#include "base/types.h"
#include "runtime/kiln.h"

/// An array on host and device. `v` are the exact values, row after row without gaps.
typedef struct array {
  kiln_scalar scalar;
  size_t count;
  double *v;          ///< owned
  kiln_canary around; ///< how it lies in its block
  uint8_t *block;     ///< owned: as it was last copied to the device
  uint8_t *memory;    ///< of the device, with room to move the block
  size_t shift;       ///< bytes from there to the block
  const char *name;   ///< of the parameter that it was last given to
  bool is_poisoned, is_written;
  bool has_whole_rows; ///< `pitch` elements of the last one belong to it
  bool is_void;        ///< a launch that was left out should have written it
  bool is_unsure;      ///< it was given to a kernel that is not there
  struct array *next;
} array;

typedef struct run_options {
  const char *part; ///< all cases with it in their names, the one of the name after '='; NULL: all
  uint64_t seed;    ///< draws where arrays lie and how far apart rows are
  bool leaves_out;  ///< launches that no config allows, of kernels that are not there, and what follows
  kiln_library *library;
  bool *launched; ///< a flag for each kernel of the library, set by its launches
} run_options;

typedef struct run {
  kiln_device *device;
  const run_options *options;
  unsigned left_out; ///< launches
  char reason[300];  ///< of the last of these
  uint64_t seed;
  uint64_t places; ///< the state of what draws gaps and places
  size_t
      apart; ///< what a kernel promises of distances between rows: multiples of so many elements; 0: nothing
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
/// The same in rows that are exactly so far apart, the last one too: what is after its columns belongs to it.
array *output_pitched(run *r, kiln_scalar scalar, size_t rows, size_t columns, size_t pitch);
/// Zeros: for accumulated outputs.
array *zeros(run *r, kiln_scalar scalar, size_t count);
/// The same in rows, a drawn number of elements apart: LD(array).
array *input_rows(run *r, kiln_scalar scalar, size_t rows, size_t columns, double lo, double hi);
array *given_rows(run *r, kiln_scalar scalar, size_t rows, size_t columns, const double *values);
array *output_rows(run *r, kiln_scalar scalar, size_t rows, size_t columns);
array *zero_rows(run *r, kiln_scalar scalar, size_t rows, size_t columns);

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
/// From row to row of the array, in elements.
#define LD(array_) L((int64_t)(array_)->around.pitch)
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
/// From 0 to below; of the seed that draws places, too.
size_t drawn(run *r, size_t below);
/// Frees the arrays.
void run_clear(run *r);

/// "gelu[T=bf16]"; static storage, a few at a time.
const char *instance(const char *kernel, kiln_scalar scalar);
/// The same of any form.
const char *named(const char *format, ...) __attribute__((format(printf, 1, 2)));

typedef struct kernel_case {
  const char *name;
  void (*body)(run *r);
  const char
      *kernel; ///< of a source beside the library: without it in the bundle the case is skipped; NULL: no
} kernel_case;

extern const kernel_case elementwise_cases[], row_cases[], matrix_cases[], product_cases[], attention_cases[],
    attention_form_cases[], token_cases[], partial_cases[], length_cases[], product_part_cases[],
    row_part_cases[];
/// The lists above, each ended by a row without a name.
extern const kernel_case *const kernel_case_lists[];

typedef enum case_result { CASE_PASSED, CASE_FAILED, CASE_SKIPPED } case_result;
typedef void case_report(void *context, const char *name, case_result result, const char *text, double error);
/// `report` gets text "" for a pass in which all was launched.
void run_cases(kiln_device *device, const run_options *options, case_report *report, void *context);
/// What the kernels of the case should have left alone.
void expect_rest(run *r);

#endif
