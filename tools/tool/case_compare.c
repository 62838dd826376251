// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Comparing memory with a recording. Integers and unknown elements must be equal; floats may differ by a
// share of their own size, because sums are made in another order. Where a value is near zero the share is of
// the buffer's usual size, as far as other elements differ as much: an error that stands alone is one. NaN
// meets NaN only, infinity itself only.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compiler/ir/ir.h"
#include "tools/tool/case_file.h"

typedef struct tolerance {
  const char *name;
  uint8_t bytes, scalar;
  double share;
} tolerance;

static const tolerance tolerances[CASE_ELEMENTS] = {
    [CASE_BYTES] = {"byte", 1, KILN_I8, 0},     [CASE_F64] = {"f64", 8, KILN_F64, 1e-9},
    [CASE_F32] = {"f32", 4, KILN_F32, 1e-3},    [CASE_F16] = {"f16", 2, KILN_F16, 5e-3},
    [CASE_BF16] = {"bf16", 2, KILN_BF16, 3e-2}, [CASE_E4M3] = {"e4m3", 1, KILN_E4M3, 0.13},
    [CASE_E5M2] = {"e5m2", 1, KILN_E5M2, 0.26},
};

// f32 results of products in tf32, f16 or bf16: the operands were rounded to 8 to 11 bits before.
static const double coarse_share = 1e-2;

// f64 results that all are numbers of f32: that is how they were computed.
static const double widened_share = 1e-5;

const char *case_tolerances(void) {
  return "floats may differ by a share of the value, and near zero of the mean size of the buffer's values, "
         "as far "
         "as others differ\n"
         "as much: f64 1e-9 (1e-5 when all that was recorded are numbers of f32), f32 1e-3 (1e-2 when the "
         "kernel "
         "multiplies\n"
         "matrices in less than f32), f16 5e-3, bf16 3e-2, e4m3 0.13, e5m2 0.26. All else must be equal.\n";
}

static double element_at(const tolerance *t, const uint8_t *bytes, uint64_t index) {
  uint64_t bits = 0;
  for (unsigned i = 0; i < t->bytes; i++) bits |= (uint64_t)bytes[index * t->bytes + i] << 8 * i;
  return t->share > 0 ? ir_bits_to_float((kiln_scalar)t->scalar, bits) : (double)bits;
}

// The mean size of the finite values: what an error is held against where a value itself is near zero.
static double usual_size(const tolerance *t, const uint8_t *bytes, uint64_t count) {
  double sum = 0;
  uint64_t finite = 0;
  for (uint64_t i = 0; i < count; i++) {
    double value = fabs(element_at(t, bytes, i));
    if (!isfinite(value)) continue;
    sum += value;
    finite++;
  }
  return finite ? sum / (double)finite : 0;
}

// True when every element is a number of f32 and some are no integers, which f64 would hold too.
static bool is_widened(const tolerance *t, const uint8_t *bytes, uint64_t count) {
  bool fractions = false;
  for (uint64_t i = 0; i < count; i++) {
    double value = element_at(t, bytes, i);
    if (isnan(value)) continue;
    if ((double)(float)value != value) return false;
    fractions |= isfinite(value) && value != floor(value);
  }
  return fractions;
}

// The next element that is not in a run of equal bytes; most of what is compared is the same.
static uint64_t skip_equal(const tolerance *t, const uint8_t *got, const uint8_t *want, uint64_t i,
                           uint64_t count) {
  enum { RUN = 64 };
  while (i % RUN == 0 && i + RUN <= count &&
         !memcmp(got + i * t->bytes, want + i * t->bytes, (size_t)RUN * t->bytes))
    i += RUN;
  return i;
}

// What all but a hundredth of the elements, and at least one, stay within, rounded up to a power of two.
static double common_error(const tolerance *t, const uint8_t *got, const uint8_t *want, uint64_t count) {
  enum { LEAST = -1100, BUCKETS = 2200 };
  uint64_t buckets[BUCKETS] = {0}, left = count / 100 ? count / 100 : 1;
  for (uint64_t i = skip_equal(t, got, want, 0, count); i < count;
       i = skip_equal(t, got, want, i + 1, count)) {
    double away = fabs(element_at(t, got, i) - element_at(t, want, i));
    int exponent = 0;
    if (!(away > 0) || !isfinite(away)) continue;
    frexp(away, &exponent);
    buckets[exponent - LEAST]++;
  }
  for (int i = BUCKETS; i-- > 0; left -= buckets[i])
    if (buckets[i] > left) return ldexp(1, i + LEAST);
  return 0;
}

// Near zero an element may be away by as much as the common error allows, but by no more than the share of
// the usual size and no less than a thirty-second of that.
static double least_allowed(double share, double usual, double common) {
  return fmin(share * usual, fmax(share * usual / 32, 16 * common));
}

static bool close_enough(double share, double got, double want, double least) {
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
  if (!isfinite(want) || !isfinite(got)) return got == want;
  return fabs(got - want) <= fmax(share * fabs(want), least);
}

kiln_status case_compare(const char *label, case_element element, bool coarse, const uint8_t *want,
                         const uint8_t *got, uint64_t size, kiln_error *err) {
  if (size == 0 || memcmp(got, want, size) == 0) return KILN_OK;
  const tolerance *t = &tolerances[size % tolerances[element].bytes == 0 ? element : CASE_BYTES];
  double share = coarse && element == CASE_F32 ? coarse_share : t->share;
  uint64_t count = size / t->bytes, first = count, wrong = 0;
  if (element == CASE_F64 && is_widened(t, want, count)) share = widened_share;
  double least = 0, largest = 0;
  if (t->share > 0)
    least = least_allowed(share, usual_size(t, want, count), common_error(t, got, want, count));
  for (uint64_t i = skip_equal(t, got, want, 0, count); i < count;
       i = skip_equal(t, got, want, i + 1, count)) {
    double x = element_at(t, got, i), y = element_at(t, want, i);
    if (fabs(x - y) > largest) largest = fabs(x - y);
    if (close_enough(share, x, y, least)) continue;
    if (first == count) first = i;
    wrong++;
  }
  if (wrong == 0) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_MISMATCH,
                   "%s %s %llu of %llu: expected %.9g, found %.9g; %llu differ, largest error %.3g", label,
                   t->name, (unsigned long long)first, (unsigned long long)count, element_at(t, want, first),
                   element_at(t, got, first), (unsigned long long)wrong, largest);
}

kiln_status case_file_compare(const case_file *c, uint32_t index, bool coarse, const uint8_t *got,
                              kiln_error *err) {
  const case_buffer *b = &c->buffers[index];
  char label[300];
  // floats that a kernel computed again may differ a little even where the recording saw no change
  snprintf(label, sizeof label, "buffer %u (%.200s)%s", index, b->name,
           b->changed ? "" : " was not to change:");
  return case_compare(label, b->element, coarse, b->changed ? b->after.bytes : b->before.bytes, got, b->size,
                      err);
}
