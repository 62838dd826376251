// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tests/kernels/cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static array *make(run *r, kiln_scalar scalar, size_t count) {
  kiln_error err = {0};
  array *a = calloc(1, sizeof *a);
  a->scalar = scalar;
  a->count = count;
  a->v = calloc(count + 1, sizeof *a->v);
  a->next = r->arrays;
  r->arrays = a;
  if (kiln_alloc(r->device, count * kiln_scalars[scalar].bytes, &a->device, &err) != KILN_OK)
    fail(r, "alloc", err.text);
  return a;
}

static void upload(run *r, array *a) {
  kiln_error err = {0};
  size_t size = kiln_scalars[a->scalar].bytes;
  uint8_t *bytes = calloc(a->count + 1, size);
  for (size_t i = 0; i < a->count; i++) {
    uint64_t bits = to_bits(a->scalar, a->v[i]);
    memcpy(bytes + i * size, &bits, size);
    a->v[i] = from_bits(a->scalar, bits);
  }
  if (a->device && kiln_copy_in(r->device, a->device, bytes, a->count * size, &err) != KILN_OK)
    fail(r, "copy in", err.text);
  free(bytes);
}

array *input(run *r, kiln_scalar scalar, size_t count, double lo, double hi) {
  array *a = make(r, scalar, count);
  for (size_t i = 0; i < count; i++)
    a->v[i] =
        is_integer(scalar) ? floor(lo + (hi - lo + 1) * next_random(r)) : lo + (hi - lo) * next_random(r);
  upload(r, a);
  return a;
}

array *given(run *r, kiln_scalar scalar, size_t count, const double *values) {
  array *a = make(r, scalar, count);
  memcpy(a->v, values, count * sizeof *values);
  upload(r, a);
  return a;
}

array *output(run *r, kiln_scalar scalar, size_t count) {
  kiln_error err = {0};
  array *a = make(r, scalar, count);
  if (a->device && kiln_fill(r->device, a->device, 0xfb, count * kiln_scalars[scalar].bytes, &err) != KILN_OK)
    fail(r, "fill", err.text);
  return a;
}

array *zeros(run *r, kiln_scalar scalar, size_t count) {
  array *a = make(r, scalar, count);
  upload(r, a);
  return a;
}

void call(run *r, const char *name, const arg *args, size_t count) {
  kiln_error err = {0};
  kiln_kernel *kernel;
  union {
    void *p;
    int32_t i32;
    int64_t i64;
    float f32;
  } values[64];
  const void *pointers[64];
  if (r->text[0]) return;
  for (size_t i = 0; i < count && i < 64; i++) {
    pointers[i] = &values[i];
    switch (args[i].kind) {
    case ARG_ARRAY:
      values[i].p = (char *)args[i].a->device + (size_t)args[i].i * kiln_scalars[args[i].a->scalar].bytes;
      break;
    case ARG_I32: values[i].i32 = (int32_t)args[i].i; break;
    case ARG_I64: values[i].i64 = args[i].i; break;
    case ARG_F32: values[i].f32 = (float)args[i].f; break;
    }
  }
  if (kiln_kernel_get(r->device, name, NULL, &kernel, &err) != KILN_OK) fail(r, name, err.text);
  else if (kiln_launch(kernel, NULL, pointers, count, &err) != KILN_OK) fail(r, name, err.text);
  else if (kiln_sync(r->device, NULL, &err) != KILN_OK) fail(r, name, err.text);
}

static void download(run *r, array *a, double *out) {
  kiln_error err = {0};
  size_t size = kiln_scalars[a->scalar].bytes;
  uint8_t *bytes = calloc(a->count + 1, size);
  if (kiln_copy_out(r->device, bytes, a->device, a->count * size, &err) != KILN_OK)
    fail(r, "copy out", err.text);
  for (size_t i = 0; i < a->count; i++) {
    uint64_t bits = 0;
    memcpy(&bits, bytes + i * size, size);
    out[i] = from_bits(a->scalar, bits);
  }
  free(bytes);
}

static bool close_enough(run *r, double got, double want, double absolute, double relative) {
  if (isnan(want) || isinf(want)) return isnan(want) ? isnan(got) : got == want;
  double allowed = absolute + relative * fabs(want), d = fabs(got - want);
  if (allowed > 0 && d / allowed > r->error) r->error = d / allowed;
  return d <= allowed; // false for NaN too
}

void expect(run *r, array *a, const double *want, double absolute, double relative) {
  if (r->text[0]) return;
  double *got = calloc(a->count + 1, sizeof *got);
  size_t bad = 0, first = 0;
  download(r, a, got);
  for (size_t i = 0; i < a->count; i++)
    if (!close_enough(r, got[i], want[i], absolute, relative) && !bad++) first = i;
  if (bad && !r->text[0])
    snprintf(r->text, sizeof r->text, "%zu of %zu elements differ, first at %zu: got %.9g, expected %.9g",
             bad, a->count, first, got[first], want[first]);
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

void run_clear(run *r) {
  for (array *a = r->arrays, *next; a; a = next) {
    next = a->next;
    kiln_free(r->device, a->device);
    free(a->v);
    free(a);
  }
  r->arrays = NULL;
}

const char *instance(const char *kernel, kiln_scalar scalar) {
  static char texts[8][96];
  static unsigned next;
  char *text = texts[next++ % 8];
  snprintf(text, 96, "%s[T=%s]", kernel, kiln_scalars[scalar].spelling);
  return text;
}

const kernel_case *const kernel_case_lists[] = {elementwise_cases,    row_cases,     token_cases,
                                                matrix_cases,         product_cases, attention_cases,
                                                attention_form_cases, NULL};

void run_cases(kiln_device *device, const char *part, case_report *report, void *context) {
  for (const kernel_case *const *list = kernel_case_lists; *list; list++)
    for (const kernel_case *c = *list; c->name; c++) {
      run r = {.device = device, .seed = 1};
      if (part && !strstr(c->name, part)) continue;
      c->body(&r);
      report(context, c->name, r.text, r.error);
      run_clear(&r);
    }
}
