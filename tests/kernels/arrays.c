// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes the arrays of kernel-check's cases, launches a kernel on them and compares the results with
// expected values.
#include "tests/kernels/cases.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "compiler/ir/ir.h"

static void fail(run *r, const char *what, const char *text) {
  if (!r->text[0]) snprintf(r->text, sizeof r->text, "%s: %.500s", what, text);
}

static double next_random(run *r) {
  uint64_t z = (r->seed += 0x9e3779b97f4a7c15u);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (double)((z ^ z >> 31) >> 11) / 9007199254740992.0;
}

static bool is_integer(kiln_scalar s) { return kiln_scalars[s].type_class == KILN_CLASS_INT; }

static uint64_t to_bits(kiln_scalar s, double v) {
  return is_integer(s) ? (uint64_t)(int64_t)v : ir_float_to_bits(s, v, true);
}

static double from_bits(kiln_scalar s, uint64_t bits) {
  unsigned width = kiln_scalars[s].bits;
  return is_integer(s) ? (double)((int64_t)(bits << (64 - width)) >> (64 - width))
                       : ir_bits_to_float(s, bits);
}

// ----------------------------------------------------------------------------------------- places

/// Bytes around an array; places that it may begin at.
enum { AROUND = 512, PLACES = 256 };

size_t drawn(run *r, size_t below) {
  uint64_t z = (r->places += 0x9e3779b97f4a7c15u);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  return (size_t)((z ^ z >> 27) >> 20) % below;
}

/// Half of the rows are multiples of 16 bytes apart, which some kernels have a variant for.
static size_t drawn_pitch(run *r, size_t columns, size_t bytes) {
  const size_t piece = bytes < 16 ? 16 / bytes : 1, pitch = columns + drawn(r, 65),
               step = r->apart      ? r->apart
                      : drawn(r, 2) ? piece
                                    : 1;
  return (pitch + step - 1) / step * step;
}

static array *make(run *r, kiln_scalar scalar, size_t rows, size_t columns, size_t pitch) {
  kiln_error err = {0};
  array *a = calloc(1, sizeof *a);
  a->scalar = scalar;
  a->count = rows * columns;
  a->v = calloc(a->count + 1, sizeof *a->v);
  a->around = (kiln_canary){.element = kiln_scalars[scalar].bytes,
                            .rows = rows,
                            .columns = columns,
                            .pitch = pitch,
                            .before = AROUND,
                            .after = AROUND};
  a->block = malloc(kiln_canary_bytes(&a->around));
  a->name = "an array";
  a->next = r->arrays;
  r->arrays = a;
  void *memory = NULL;
  if (kiln_alloc(r->device, kiln_canary_bytes(&a->around) + PLACES, &memory, &err) != KILN_OK)
    fail(r, "alloc", err.text);
  a->memory = memory;
  return a;
}

/// To any place that is a multiple of so many bytes.
static void put(run *r, array *a, size_t step) {
  kiln_error err = {0};
  a->shift = drawn(r, PLACES / step) * step;
  if (a->memory &&
      kiln_copy_in(r->device, a->memory + a->shift, a->block, kiln_canary_bytes(&a->around), &err) != KILN_OK)
    fail(r, "copy in", err.text);
}

static void fetch(run *r, array *a) {
  kiln_error err = {0};
  if (a->memory && kiln_copy_out(r->device, a->block, a->memory + a->shift, kiln_canary_bytes(&a->around),
                                 &err) != KILN_OK)
    fail(r, "copy out", err.text);
}

static void upload(run *r, array *a) {
  const size_t size = a->around.element;
  uint8_t *bytes = calloc(a->count + 1, size);
  for (size_t i = 0; i < a->count; i++) {
    uint64_t bits = to_bits(a->scalar, a->v[i]);
    memcpy(bytes + i * size, &bits, size);
    a->v[i] = from_bits(a->scalar, bits);
  }
  a->around.is_read = true;
  kiln_canary_write(&a->around, bytes, a->block);
  put(r, a, a->around.element);
  free(bytes);
}

// ----------------------------------------------------------------------------------------- arrays

static array *filled(run *r, array *a, double lo, double hi) {
  for (size_t i = 0; i < a->count; i++)
    a->v[i] =
        is_integer(a->scalar) ? floor(lo + (hi - lo + 1) * next_random(r)) : lo + (hi - lo) * next_random(r);
  upload(r, a);
  return a;
}

array *input(run *r, kiln_scalar scalar, size_t count, double lo, double hi) {
  return filled(r, make(r, scalar, 1, count, count), lo, hi);
}

array *input_rows(run *r, kiln_scalar scalar, size_t rows, size_t columns, double lo, double hi) {
  size_t pitch = drawn_pitch(r, columns, kiln_scalars[scalar].bytes);
  return filled(r, make(r, scalar, rows, columns, pitch), lo, hi);
}

static array *with_values(run *r, array *a, const double *values) {
  memcpy(a->v, values, a->count * sizeof *values);
  upload(r, a);
  return a;
}

array *given(run *r, kiln_scalar scalar, size_t count, const double *values) {
  return with_values(r, make(r, scalar, 1, count, count), values);
}

array *given_rows(run *r, kiln_scalar scalar, size_t rows, size_t columns, const double *values) {
  size_t pitch = drawn_pitch(r, columns, kiln_scalars[scalar].bytes);
  return with_values(r, make(r, scalar, rows, columns, pitch), values);
}

static array *poisoned(run *r, array *a) {
  a->is_poisoned = true;
  kiln_canary_write(&a->around, NULL, a->block);
  put(r, a, a->around.element);
  return a;
}

array *output(run *r, kiln_scalar scalar, size_t count) {
  return poisoned(r, make(r, scalar, 1, count, count));
}

array *output_rows(run *r, kiln_scalar scalar, size_t rows, size_t columns) {
  size_t pitch = drawn_pitch(r, columns, kiln_scalars[scalar].bytes);
  return poisoned(r, make(r, scalar, rows, columns, pitch));
}

array *output_pitched(run *r, kiln_scalar scalar, size_t rows, size_t columns, size_t pitch) {
  array *a = make(r, scalar, rows, columns, pitch);
  a->has_whole_rows = true;
  return poisoned(r, a);
}

array *zeros(run *r, kiln_scalar scalar, size_t count) {
  array *a = make(r, scalar, 1, count, count);
  upload(r, a);
  return a;
}

array *zero_rows(run *r, kiln_scalar scalar, size_t rows, size_t columns) {
  array *a = make(r, scalar, rows, columns, drawn_pitch(r, columns, kiln_scalars[scalar].bytes));
  upload(r, a);
  return a;
}

// ----------------------------------------------------------------------------------------- launches

enum { MOST_ARGUMENTS = 64, ACCESS_IN = 1, ACCESS_OUT = 2 };

/// The arrays of a call are another kernel's parameters from now on.
static void note(const kiln_kernel *kernel, const arg *args, size_t count) {
  kiln_param param;
  for (size_t i = 0; i < count; i++) {
    if (args[i].kind != ARG_ARRAY || kiln_param_at(kernel, i, &param) != KILN_OK) continue;
    array *a = (array *)args[i].a;
    a->name = param.name;
    a->is_written |= param.access != ACCESS_IN;
  }
}

/// From element `first` to the end of the last one.
static size_t bytes_from(const array *a, size_t first) {
  const kiln_canary *c = &a->around;
  size_t last = a->has_whole_rows ? c->pitch : c->columns;
  size_t elements = c->rows && c->columns ? (c->rows - 1) * c->pitch + last : 0;
  return (elements > first ? elements - first : 0) * c->element;
}

enum { MOST_BLOCK = 4096, NANS = 0xff, AFTER_SCRATCH = 256 };

static void pack(const kiln_kernel *kernel, const void *const *values, size_t count, uint8_t *block) {
  kiln_param param;
  memset(block, 0, MOST_BLOCK);
  for (size_t i = 0; i < count; i++)
    if (kiln_param_at(kernel, i, &param) == KILN_OK) memcpy(block + param.offset, values[i], param.size);
}

/// With exactly the scratch memory that it wants, full of NaNs, which end up unchanged after it.
static kiln_status launch_with(run *r, kiln_kernel *kernel, const uint8_t *block, size_t bytes,
                               kiln_error *err) {
  size_t size = kiln_block_size(kernel);
  void *memory;
  uint8_t after[AFTER_SCRATCH];
  KILN_TRY(kiln_alloc(r->device, bytes + AFTER_SCRATCH, &memory, err));
  kiln_status status = kiln_fill(r->device, memory, NANS, bytes + AFTER_SCRATCH, err);
  if (status == KILN_OK) status = kiln_launch_scratch(kernel, NULL, block, size, memory, bytes, err);
  if (status == KILN_OK) status = kiln_sync(r->device, NULL, err);
  if (status == KILN_OK)
    status = kiln_copy_out(r->device, after, (uint8_t *)memory + bytes, AFTER_SCRATCH, err);
  for (size_t i = 0; i < AFTER_SCRATCH && status == KILN_OK; i++)
    if (after[i] != NANS) {
      status = KILN_STATUS_INTERNAL;
      snprintf(err->text, sizeof err->text, "wrote byte %zu of %zu of its scratch memory", bytes + i, bytes);
    }
  kiln_free(r->device, memory);
  return status;
}

static kiln_status launch(run *r, kiln_kernel *kernel, const arg *args, size_t count, kiln_error *err) {
  union {
    void *p;
    int32_t i32;
    int64_t i64;
    float f32;
  } values[MOST_ARGUMENTS];
  const void *pointers[MOST_ARGUMENTS];
  size_t bytes[MOST_ARGUMENTS] = {0};
  for (size_t i = 0; i < count && i < MOST_ARGUMENTS; i++) {
    const array *a = args[i].a;
    pointers[i] = &values[i];
    if (args[i].kind == ARG_ARRAY) bytes[i] = bytes_from(a, (size_t)args[i].i);
    switch (args[i].kind) {
    case ARG_ARRAY:
      values[i].p = a->memory + a->shift + a->around.before + (size_t)args[i].i * a->around.element;
      break;
    case ARG_I32: values[i].i32 = (int32_t)args[i].i; break;
    case ARG_I64: values[i].i64 = args[i].i; break;
    case ARG_F32: values[i].f32 = (float)args[i].f; break;
    }
  }
  uint8_t block[MOST_BLOCK];
  size_t wanted;
  pack(kernel, pointers, count, block);
  KILN_TRY(kiln_check_sizes(kernel, block, kiln_block_size(kernel), bytes, count, err));
  KILN_TRY(kiln_scratch_size(kernel, block, kiln_block_size(kernel), &wanted, err));
  if (wanted && r->seed % 2 && !r->options->leaves_out) return launch_with(r, kernel, block, wanted, err);
  KILN_TRY(kiln_launch(kernel, NULL, pointers, count, err));
  return kiln_sync(r->device, NULL, err);
}

static void count_launch(const run *r, const char *name) {
  const run_options *o = r->options;
  for (size_t i = 0; i < kiln_kernel_count(o->library); i++) {
    const char *at = kiln_kernel_name(o->library, i);
    if (at && !strcmp(at, name)) o->launched[i] = true;
  }
}

/// `kernel` NULL: it is not there, and nobody knows which of the arrays it writes.
static void leave_out(run *r, const kiln_kernel *kernel, const arg *args, size_t count, const char *reason) {
  kiln_param param;
  r->left_out++;
  snprintf(r->reason, sizeof r->reason, "%s", reason);
  for (size_t i = 0; i < count; i++) {
    array *a = (array *)args[i].a;
    if (args[i].kind != ARG_ARRAY) continue;
    if (!kernel) a->is_void |= a->is_poisoned, a->is_unsure = true;
    else if (kiln_param_at(kernel, i, &param) == KILN_OK) a->is_void |= param.access != ACCESS_IN;
  }
}

/// Whether it would read what a launch that was left out should have written. What it writes whole is
/// there again.
static bool lacks_input(const kiln_kernel *kernel, const arg *args, size_t count) {
  kiln_param param;
  bool lacks = false;
  for (size_t i = 0; i < count; i++)
    if (args[i].kind == ARG_ARRAY && args[i].a->is_void && kiln_param_at(kernel, i, &param) == KILN_OK)
      lacks |= param.access != ACCESS_OUT;
  for (size_t i = 0; i < count && !lacks; i++)
    if (args[i].kind == ARG_ARRAY) ((array *)args[i].a)->is_void = false;
  return lacks;
}

/// Where the kernel promises aligned addresses the launch is refused: then the arrays move.
void call(run *r, const char *name, const arg *args, size_t count) {
  static const size_t alignments[] = {16, 128};
  kiln_error err = {0};
  kiln_kernel *kernel;
  if (r->text[0]) return;
  kiln_status status = kiln_kernel_get(r->device, name, NULL, &kernel, &err);
  if (status == KILN_STATUS_NOT_FOUND && r->options->leaves_out) {
    leave_out(r, NULL, args, count, err.text);
    return;
  }
  if (status != KILN_OK) {
    fail(r, name, err.text);
    return;
  }
  if (lacks_input(kernel, args, count)) {
    leave_out(r, kernel, args, count, r->reason);
    return;
  }
  note(kernel, args, count);
  status = launch(r, kernel, args, count, &err);
  for (size_t k = 0; k < 2 && status == KILN_STATUS_LAUNCH; k++) {
    for (size_t i = 0; i < count; i++)
      if (args[i].kind == ARG_ARRAY) fetch(r, (array *)args[i].a), put(r, (array *)args[i].a, alignments[k]);
    status = launch(r, kernel, args, count, &err);
  }
  if (status == KILN_STATUS_NO_VARIANT && r->options->leaves_out) leave_out(r, kernel, args, count, err.text);
  else if (status != KILN_OK) fail(r, name, err.text);
  else count_launch(r, name);
}

static void read_values(const array *a, double *out) {
  const size_t size = a->around.element;
  uint8_t *bytes = calloc(a->count + 1, size);
  kiln_canary_read(&a->around, a->block, bytes);
  for (size_t i = 0; i < a->count; i++) {
    uint64_t bits = 0;
    memcpy(&bits, bytes + i * size, size);
    out[i] = from_bits(a->scalar, bits);
  }
  free(bytes);
}

static void download(run *r, array *a, double *out) {
  fetch(r, a);
  read_values(a, out);
}

static bool close_enough(run *r, double got, double want, double absolute, double relative) {
  if (isnan(want) || isinf(want)) return isnan(want) ? isnan(got) : got == want;
  double allowed = absolute + relative * fabs(want), d = fabs(got - want);
  if (allowed > 0 && d / allowed > r->error) r->error = d / allowed;
  return d <= allowed; // false for NaN too
}

void expect(run *r, array *a, const double *want, double absolute, double relative) {
  if (r->text[0] || a->is_void || a->is_unsure) return;
  double *got = calloc(a->count + 1, sizeof *got);
  size_t bad = 0, first = 0;
  download(r, a, got);
  for (size_t i = 0; i < a->count; i++)
    if (!close_enough(r, got[i], want[i], absolute, relative) && !bad++) first = i;
  if (bad && !r->text[0])
    snprintf(r->text, sizeof r->text,
             "%s: %zu of %zu elements differ, first in row %zu, column %zu: got %.9g, expected %.9g", a->name,
             bad, a->count, first / a->around.columns, first % a->around.columns, got[first], want[first]);
  free(got);
}

double tolerance(kiln_scalar scalar) {
  switch (scalar) {
  case KILN_F64: return 1e-12;
  case KILN_F32: return 2e-6;
  case KILN_F16: return 1.0 / 1024;
  case KILN_BF16: return 1.0 / 128;
  case KILN_E4M3: return 1.0 / 8;
  case KILN_E5M2: return 1.0 / 4;
  default: return 0;
  }
}

static bool is_same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

void expect_rest(run *r) {
  char text[400];
  for (array *a = r->arrays; a && !r->text[0]; a = a->next) {
    double *got = calloc(a->count + 1, sizeof *got);
    download(r, a, got);
    if (!kiln_canary_holds(&a->around, a->name, a->block, text, sizeof text)) fail(r, "outside", text);
    for (size_t i = 0; i < a->count && !a->is_written && !a->is_poisoned && !r->text[0]; i++)
      if (!is_same(got[i], a->v[i]))
        snprintf(r->text, sizeof r->text, "%s: element %zu is written, which the kernel only reads", a->name,
                 i);
    free(got);
  }
}

void run_clear(run *r) {
  for (array *a = r->arrays, *next; a; a = next) {
    next = a->next;
    kiln_free(r->device, a->memory);
    free(a->block);
    free(a->v);
    free(a);
  }
  r->arrays = NULL;
}

const char *instance(const char *kernel, kiln_scalar scalar) {
  return named("%s[T=%s]", kernel, kiln_scalars[scalar].spelling);
}

const char *named(const char *format, ...) {
  static char texts[8][96];
  static unsigned next;
  char *text = texts[next++ % 8];
  va_list args;
  va_start(args, format);
  vsnprintf(text, 96, format, args);
  va_end(args);
  return text;
}

const kernel_case *const kernel_case_lists[] = {
    elementwise_cases,    row_cases,     token_cases,  matrix_cases,       product_cases,  attention_cases,
    attention_form_cases, partial_cases, length_cases, product_part_cases, row_part_cases, NULL};

static bool is_there(kiln_device *device, const char *kernel) {
  kiln_kernel *found;
  kiln_error err = {0};
  return !kernel || kiln_kernel_get(device, kernel, NULL, &found, &err) != KILN_STATUS_NOT_FOUND;
}

static bool is_wanted(const kernel_case *c, const char *part) {
  if (!part) return true;
  return *part == '=' ? !strcmp(c->name, part + 1) : strstr(c->name, part) != NULL;
}

void run_cases(kiln_device *device, const run_options *options, case_report *report, void *context) {
  for (const kernel_case *const *list = kernel_case_lists; *list; list++)
    for (const kernel_case *c = *list; c->name; c++) {
      run r = {.device = device, .options = options, .seed = 1, .places = options->seed};
      if (!is_wanted(c, options->part)) continue;
      if (!is_there(device, c->kernel)) {
        snprintf(r.text, sizeof r.text, "the bundle has no kernel '%s'", c->kernel);
        report(context, c->name, CASE_SKIPPED, r.text, 0);
        continue;
      }
      c->body(&r);
      expect_rest(&r);
      const case_result result = r.text[0] ? CASE_FAILED : CASE_PASSED;
      if (r.left_out && !r.text[0])
        snprintf(r.text, sizeof r.text, "%u launches left out: %s", r.left_out, r.reason);
      report(context, c->name, result, r.text, r.error);
      run_clear(&r);
    }
}
