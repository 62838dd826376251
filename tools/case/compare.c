// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares memory with a recording. Integers and unknown elements must be equal; floats may differ by a share
// of their own size, because sums are made in another order. Near zero, the share is of the mean size in the
// buffer, as far as other elements differ as much: a single large difference is an error. NaN equals only
// NaN, and infinity only itself.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "compiler/ir/ir.h"
#include "tools/common/parallel.h"
#include "tools/case/recording.h"

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

// f64 results that are all representable in f32 were computed in f32.
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

// Elements of one or two bytes by their bits.
static double small_elements[CASE_ELEMENTS][1 << 16];

static void know_small_elements(const tolerance *t) {
  double *table = small_elements[t - tolerances];
  if (t->share > 0 && t->bytes <= 2 && !table[1])
    for (uint64_t bits = 1ull << 8 * t->bytes; bits-- > 0;)
      table[bits] = ir_bits_to_float((kiln_scalar)t->scalar, bits);
}

// Reads the bytes in memory order: every machine that this runs on is little-endian.
static uint64_t bits_at(const uint8_t *at, unsigned bytes) {
  uint32_t word;
  uint16_t half;
  uint64_t all = *at;
  if (bytes == 2) memcpy(&half, at, 2), all = half;
  if (bytes == 4) memcpy(&word, at, 4), all = word;
  if (bytes == 8) memcpy(&all, at, 8);
  return all;
}

static double element_at(const tolerance *t, const uint8_t *bytes, uint64_t index) {
  uint64_t bits = bits_at(bytes + index * t->bytes, t->bytes);
  if (t->share <= 0) return (double)bits;
  return t->bytes <= 2 ? small_elements[t - tolerances][bits]
                       : ir_bits_to_float((kiln_scalar)t->scalar, bits);
}

// True when every element is representable in f32 and some are not integers, which f64 results would be, too.
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

// The next element that is not in a run of equal bytes; most elements are equal.
static uint64_t skip_equal(const tolerance *t, const uint8_t *got, const uint8_t *want, uint64_t i,
                           uint64_t count) {
  enum { RUN = 64 };
  while (i % RUN == 0 && i + RUN <= count &&
         !memcmp(got + i * t->bytes, want + i * t->bytes, (size_t)RUN * t->bytes))
    i += RUN;
  return i;
}

// Near zero an element may differ by the common error, but by at most the share of the usual size and at
// least a thirty-second of that.
static double least_allowed(double share, double usual, double common) {
  return fmin(share * usual, fmax(share * usual / 32, 16 * common));
}

static bool close_enough(double share, double got, double want, double least) {
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
  if (!isfinite(want) || !isfinite(got)) return got == want;
  return fabs(got - want) <= fmax(share * fabs(want), least);
}

// ------------------------------------------------------------------------------- in parts, by threads

enum { LEAST = -1100, BUCKETS = 2200 };

// The result of one part. The parts are combined in order, however many threads computed them.
typedef struct part {
  double sum;               // of the sizes of finite values
  uint64_t finite, *errors; // errors: by exponent; owned
  uint64_t first, wrong;
  double largest;
} part;

typedef struct comparison {
  const tolerance *t;
  const uint8_t *want, *got;
  uint64_t count;
  double share, least;
  part *parts; // owned
  uint64_t part_count;
} comparison;

// The mean size of finite values, with which an error is compared if the value itself is near zero.
static void look_at_sizes(void *context, uint64_t from, uint64_t to) {
  const comparison *c = context;
  part *p = &c->parts[from / CLI_CHUNK];
  for (uint64_t i = from; i < to; i++) {
    double value = fabs(element_at(c->t, c->want, i));
    if (!isfinite(value)) continue;
    p->sum += value;
    p->finite++;
  }
  for (uint64_t i = skip_equal(c->t, c->got, c->want, from, to); i < to;
       i = skip_equal(c->t, c->got, c->want, i + 1, to)) {
    double away = fabs(element_at(c->t, c->got, i) - element_at(c->t, c->want, i));
    int exponent = 0;
    if (!(away > 0) || !isfinite(away)) continue;
    frexp(away, &exponent);
    p->errors[exponent - LEAST]++;
  }
}

static void look_for_errors(void *context, uint64_t from, uint64_t to) {
  const comparison *c = context;
  part *p = &c->parts[from / CLI_CHUNK];
  p->first = to;
  for (uint64_t i = skip_equal(c->t, c->got, c->want, from, to); i < to;
       i = skip_equal(c->t, c->got, c->want, i + 1, to)) {
    double x = element_at(c->t, c->got, i), y = element_at(c->t, c->want, i);
    if (fabs(x - y) > p->largest) p->largest = fabs(x - y);
    if (close_enough(c->share, x, y, c->least)) continue;
    if (p->first == to) p->first = i;
    p->wrong++;
  }
}

static double usual_size(const comparison *c) {
  double sum = 0;
  uint64_t finite = 0;
  for (uint64_t i = 0; i < c->part_count; i++) sum += c->parts[i].sum, finite += c->parts[i].finite;
  return finite ? sum / (double)finite : 0;
}

// The error that all but a hundredth of the elements (at least one) stay within, rounded up to a power of
// two.
static double common_error(const comparison *c) {
  uint64_t left = c->count / 100 ? c->count / 100 : 1;
  for (int b = BUCKETS; b-- > 0;) {
    uint64_t here = 0;
    for (uint64_t i = 0; i < c->part_count; i++) here += c->parts[i].errors[b];
    if (here > left) return ldexp(1, b + LEAST);
    left -= here;
  }
  return 0;
}

static kiln_status tell_errors(const comparison *c, const char *label, kiln_error *err) {
  uint64_t first = c->count, wrong = 0;
  double largest = 0;
  for (uint64_t i = c->part_count; i-- > 0;) {
    const part *p = &c->parts[i];
    if (p->wrong) first = p->first;
    wrong += p->wrong;
    largest = fmax(largest, p->largest);
  }
  if (wrong == 0) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_MISMATCH,
                   "%s %s %llu of %llu: expected %.9g, found %.9g; %llu differ, largest error %.3g", label,
                   c->t->name, (unsigned long long)first, (unsigned long long)c->count,
                   element_at(c->t, c->want, first), element_at(c->t, c->got, first),
                   (unsigned long long)wrong, largest);
}

kiln_status case_compare(const char *label, case_element element, bool coarse, const uint8_t *want,
                         const uint8_t *got, uint64_t size, kiln_error *err) {
  if (size == 0 || memcmp(got, want, size) == 0) return KILN_OK;
  const tolerance *t = &tolerances[size % tolerances[element].bytes == 0 ? element : CASE_BYTES];
  comparison c = {.t = t, .want = want, .got = got, .count = size / t->bytes};
  c.share = coarse && element == CASE_F32 ? coarse_share : t->share;
  if (element == CASE_F64 && is_widened(t, want, c.count)) c.share = widened_share;
  know_small_elements(t);
  c.part_count = (c.count + CLI_CHUNK - 1) / CLI_CHUNK;
  KILN_ASSERT(c.part_count > 0); // there are bytes, and as many as whole elements have
  c.parts = calloc(c.part_count, sizeof *c.parts);
  uint64_t *errors = calloc(c.part_count, BUCKETS * sizeof *errors);
  kiln_status status = KILN_OK;
  if (c.parts && errors) {
    for (uint64_t i = 0; i < c.part_count; i++) c.parts[i].errors = errors + i * BUCKETS;
    if (t->share > 0) {
      cli_parallel_for(c.count, look_at_sizes, &c);
      c.least = least_allowed(c.share, usual_size(&c), common_error(&c));
    }
    cli_parallel_for(c.count, look_for_errors, &c);
    status = tell_errors(&c, label, err);
  } else {
    status = kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  }
  free(c.parts);
  free(errors);
  return status;
}

kiln_status case_file_compare(const case_file *c, uint32_t index, bool coarse, const uint8_t *got,
                              kiln_error *err) {
  const case_buffer *b = &c->buffers[index];
  char label[300];
  // recomputed floats may differ slightly even where the recording saw no change
  snprintf(label, sizeof label, "buffer %u (%.200s)%s", index, b->name,
           b->changed ? "" : " was not to change:");
  return case_compare(label, b->element, coarse, b->changed ? b->after.bytes : b->before.bytes, got, b->size,
                      err);
}
