// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the arguments of `kiln run`: scalars, buffers and views, from text, files or generators.
#include "tools/run/arguments.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/bundle_format.h"
#include "compiler/ir/ir.h"
#include "tools/common/cli.h"
#include "tools/common/parallel.h"

enum { MOST_BYTES_LOG2 = 36 };

static bool is_float(kiln_scalar scalar) {
  return kiln_scalars[scalar].type_class & (KILN_CLASS_FLOAT | KILN_CLASS_FP8);
}

// ---------------------------------------------------------------------------------------- elements

static uint64_t load_bits(const uint8_t *at, unsigned bytes) {
  uint64_t bits = 0;
  for (unsigned i = 0; i < bytes; i++) bits |= (uint64_t)at[i] << 8 * i;
  return bits;
}

// Generators of elements: values that an integer type cannot hold wrap around.
static uint64_t bits_of(kiln_scalar scalar, double value) {
  if (scalar == KILN_I1) return value != 0;
  return is_float(scalar) ? ir_float_to_bits(scalar, value, true) : (uint64_t)(int64_t)value;
}

// A long double holds every f64 and every i64.
static long double value_at(const run_value *v, size_t index) {
  unsigned bytes = kiln_scalars[v->scalar].bytes;
  KILN_ASSERT(bytes > 0);
  uint64_t bits = load_bits(v->bytes + index * bytes, bytes);
  if (is_float(v->scalar)) return ir_bits_to_float(v->scalar, bits);
  unsigned shift = 64 - 8 * bytes;
  return v->scalar == KILN_I1 ? (long double)bits : (long double)((int64_t)(bits << shift) >> shift);
}

const char *run_value_text(const run_value *v, size_t index, char text[RUN_VALUE_TEXT]) {
  snprintf(text, RUN_VALUE_TEXT, is_float(v->scalar) ? "%.9Lg" : "%.0Lf", value_at(v, index));
  return text;
}

size_t run_value_count(const run_value *v) { return v->size / kiln_scalars[v->scalar].bytes; }

// -------------------------------------------------------------------------------------- generators

// Number `index` of splitmix64.
static uint64_t random_word(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/// A generator gets the element's number and the value after the count, and returns the element's bits.
typedef uint64_t generate(size_t index, uint64_t word, kiln_scalar scalar);
static uint64_t zeros(size_t i, uint64_t w, kiln_scalar t) { return (void)i, (void)w, (void)t, 0; }
static uint64_t ones(size_t i, uint64_t w, kiln_scalar t) { return (void)i, (void)w, bits_of(t, 1); }
static uint64_t iota(size_t i, uint64_t w, kiln_scalar t) { return (void)w, bits_of(t, (double)i); }
static uint64_t same(size_t i, uint64_t w, kiln_scalar t) { return (void)i, (void)t, w; }
// Floats in [-1, 1), integers in 0..99.
static uint64_t random_element(size_t i, uint64_t w, kiln_scalar t) {
  double unit = (double)(random_word(w, i) >> 11) / 9007199254740992.0;
  return bits_of(t, is_float(t) ? 2 * unit - 1 : floor(100 * unit));
}

static const struct {
  const char *name;
  generate *make;
  enum { TAKES_NOTHING, TAKES_VALUE, MAY_TAKE_SEED } takes; // after the count
} generators[] = {{"zeros", zeros, TAKES_NOTHING},
                  {"ones", ones, TAKES_NOTHING},
                  {"iota", iota, TAKES_NOTHING},
                  {"fill", same, TAKES_VALUE},
                  {"random", random_element, MAY_TAKE_SEED}};

typedef struct generating {
  run_value *value;
  generate *make;
  uint64_t word;
} generating;

static void generate_part(void *context, uint64_t from, uint64_t to) {
  const generating *g = context;
  unsigned bytes = kiln_scalars[g->value->scalar].bytes;
  for (uint64_t i = from; i < to; i++) {
    uint64_t bits = g->make(i, g->word, g->value->scalar);
    for (unsigned b = 0; b < bytes; b++) g->value->bytes[i * bytes + b] = (uint8_t)(bits >> 8 * b);
  }
}

// ----------------------------------------------------------------------------------------- numbers

// A number without a sign in C's notation; false also if it has more than 64 bits.
static bool read_word(const char *text, uint64_t *out) {
  char *end = NULL;
  if (!isdigit((unsigned char)*text)) return false;
  errno = 0;
  *out = strtoull(text, &end, 0);
  return !*end && !errno;
}

// "-5", "0x10", and "u32:3000000000" for the bits of an i32.
static bool read_integer(unsigned bits, const char *text, uint64_t *out) {
  char prefix[8];
  size_t length = (size_t)snprintf(prefix, sizeof prefix, "u%u:", bits);
  bool is_unsigned = bits > 1 && !strncmp(text, prefix, length), is_negative = *text == '-';
  uint64_t half = bits == 1 ? 2 : (uint64_t)1 << (bits - 1), word; // least that is too large
  if (is_unsigned) return read_word(text + length, out) && !(bits < 64 && *out >> bits);
  if (!read_word(text + is_negative, &word)) return false;
  *out = is_negative ? 0 - word : word;
  return is_negative ? word <= (bits == 1 ? 0 : half) : word < half;
}

static bool read_float(kiln_scalar scalar, const char *text, uint64_t *out) {
  char *end = NULL;
  errno = 0;
  double value = strtod(text, &end);
  if (end == text || *end) return false;
  *out = ir_float_to_bits(scalar, value, false);
  const double held = (double)ir_bits_to_float(scalar, *out);
  if (isnan(value)) return isnan(held);
  if (isinf(value)) return strpbrk(text, "nN") && isinf(held); // named, not a number of too many digits
  return isfinite(held);
}

/// The bits of a scalar that the type can hold.
static bool read_scalar(kiln_scalar scalar, const char *text, uint64_t *out) {
  return is_float(scalar) ? read_float(scalar, text, out)
                          : read_integer(kiln_scalars[scalar].bits, text, out);
}

// ---------------------------------------------------------------------------------------- buffers

static kiln_status bad(const run_value *v, const char *text, kiln_error *err) {
  return kiln_fail(
      err, KILN_STATUS_INVALID_ARGUMENT,
      "argument '%s' (%s): '%s' is not zeros:N, ones:N, iota:N, fill:N:VALUE, random:N[:SEED], @FILE or null",
      v->param.name, v->param.type, text);
}

static kiln_status generate_buffer(run_value *v, const char *text, kiln_error *err) {
  size_t length = strcspn(text, ":"), known = sizeof generators / sizeof *generators, g = 0;
  while (g < known && (strlen(generators[g].name) != length || memcmp(generators[g].name, text, length))) g++;
  if (g == known || text[length] != ':' || !isdigit((unsigned char)text[length + 1]))
    return bad(v, text, err);
  char *more;
  errno = 0;
  uint64_t count = strtoull(text + length + 1, &more, 0), word = 0;
  bool has_more = *more == ':', is_fine = !*more || has_more;
  if (generators[g].takes == TAKES_NOTHING) is_fine = !*more;
  if (generators[g].takes == MAY_TAKE_SEED && has_more) is_fine = read_word(more + 1, &word);
  if (generators[g].takes == TAKES_VALUE) is_fine = has_more;
  if (!is_fine) return bad(v, text, err);
  if (generators[g].takes == TAKES_VALUE && !read_scalar(v->scalar, more + 1, &word))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "argument '%s': '%s' is not a value of type %s",
                     v->param.name, more + 1, kiln_scalars[v->scalar].spelling);
  unsigned bytes = kiln_scalars[v->scalar].bytes;
  if (errno || count > ((uint64_t)1 << MOST_BYTES_LOG2) / bytes)
    return kiln_fail(err, KILN_STATUS_LIMIT, "argument '%s': %llu elements; the limit is 2^%d bytes",
                     v->param.name, (unsigned long long)count, MOST_BYTES_LOG2);
  v->size = (size_t)count * bytes;
  v->bytes = calloc(v->size + 1, 1);
  if (!v->bytes)
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "argument '%s': %zu bytes", v->param.name, v->size);
  generating all = {v, generators[g].make, word};
  if (all.make != zeros) cli_parallel_for(count, generate_part, &all); // they are zeros already
  return KILN_OK;
}

static kiln_status read_buffer(run_value *v, const char *path, kiln_error *err) {
  kiln_buffer file = {0};
  kiln_status status = cli_read_file(path, "", (size_t)1 << MOST_BYTES_LOG2, &file, err);
  if (status != KILN_OK) {
    kiln_buffer_deinit(&file);
    return status;
  }
  v->bytes = file.bytes;
  v->size = file.size;
  return KILN_OK;
}

// ------------------------------------------------------------------------------------------- views

static bool read_list(const char **at, int64_t *out, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    char *end;
    errno = 0;
    out[i] = strtoll(*at, &end, 0);
    if (errno || end == *at || (i + 1 < count && *end != ',')) return false;
    *at = end + (i + 1 < count);
  }
  return true;
}

// "[4,8]" or "[4,8;8,1]" after the buffer.
static kiln_status read_shape(run_value *v, const char *text, kiln_error *err) {
  int64_t extents[12], strides[12];
  unsigned rank = v->param.rank;
  const char *at = text + 1;
  bool ok = *text == '[' && read_list(&at, extents, rank);
  if (ok && *at == ';') {
    at++;
    ok = read_list(&at, strides, rank);
  } else if (ok) {
    strides[rank - 1] = 1;
    for (unsigned i = rank - 1; i > 0; i--)
      ok &= !__builtin_mul_overflow(strides[i], extents[i], &strides[i - 1]);
  }
  if (!ok || strcmp(at, "]"))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "argument '%s': '%s' is not a shape of %u extents, such as [4,8] or [4,8;8,1]",
                     v->param.name, text, rank);
  for (unsigned i = 0; i < rank; i++) {
    kiln_put64(v->packed + 8 + 8 * i, (uint64_t)extents[i]);
    kiln_put64(v->packed + 8 + 8 * (rank + i), (uint64_t)strides[i]);
  }
  return KILN_OK;
}

static kiln_status set_buffer(run_value *v, const char *text, kiln_error *err) {
  char *source = strndup(text, v->param.rank ? strcspn(text, "[") : strlen(text));
  if (!source) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  kiln_status status = KILN_OK;
  bool is_null = !strcmp(source, "null");
  if (!is_null) status = *source == '@' ? read_buffer(v, source + 1, err) : generate_buffer(v, source, err);
  if (status == KILN_OK && v->param.rank) status = read_shape(v, text + strlen(source), err);
  free(source);
  return status;
}

static kiln_status set_scalar(run_value *v, const char *text, kiln_error *err) {
  uint64_t bits;
  if (!read_scalar(v->scalar, text, &bits))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "argument '%s': '%s' is not a value of type %s",
                     v->param.name, text, v->param.type);
  kiln_put64(v->packed, bits);
  return KILN_OK;
}

// ------------------------------------------------------------------------------------------ public

kiln_status run_value_begin(run_value *v, const kiln_param *param, kiln_error *err) {
  memset(v, 0, sizeof *v);
  v->param = *param;
  if (param->pointer > 1)
    return kiln_fail(err, KILN_STATUS_UNSUPPORTED,
                     "argument '%s' is an array of pointers, which the command line cannot make",
                     param->name);
  const char *name = param->rank ? param->type + strlen("view ") : param->type + param->pointer;
  for (unsigned i = 0; i < KILN_SCALAR_COUNT; i++)
    if (!strcmp(kiln_scalars[i].spelling, name)) return v->scalar = (kiln_scalar)i, KILN_OK;
  return kiln_fail(err, KILN_STATUS_INTERNAL, "argument '%s' has the unknown type %s", param->name,
                   param->type);
}

kiln_status run_value_set(run_value *v, const char *text, kiln_error *err) {
  if (v->is_set)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "argument '%s' is given twice", v->param.name);
  v->is_set = true;
  return v->param.pointer || v->param.rank ? set_buffer(v, text, err) : set_scalar(v, text, err);
}

kiln_status run_value_place(run_value *v, kiln_device *device, run_guard guard, run_place place,
                            kiln_error *err) {
  if (!v->bytes) return KILN_OK;
  run_memory_destroy(&v->memory);
  KILN_TRY(run_memory_create(&v->memory, device, guard, &v->param, v->bytes, v->size,
                             kiln_scalars[v->scalar].bytes, place, err));
  kiln_put64(v->packed, (uint64_t)(uintptr_t)v->memory.at);
  return KILN_OK;
}

kiln_status run_value_fetch(run_value *v, kiln_device *device, kiln_error *err) {
  return v->bytes ? kiln_copy_out(device, v->bytes, v->memory.at, v->size, err) : KILN_OK;
}

void run_value_deinit(run_value *v) {
  run_memory_destroy(&v->memory);
  free(v->bytes);
  memset(v, 0, sizeof *v);
}

kiln_status run_value_compare(const run_value *v, const uint8_t *bytes, size_t size, double tolerance,
                              kiln_error *err) {
  if (size != v->size)
    return kiln_fail(err, KILN_STATUS_MISMATCH, "'%s' has %zu bytes, expected %zu", v->param.name, v->size,
                     size);
  run_value expected = {.scalar = v->scalar, .bytes = (uint8_t *)bytes, .size = size};
  size_t count = run_value_count(v), wrong = 0, first = 0;
  long double worst = 0;
  char found_text[RUN_VALUE_TEXT], expected_text[RUN_VALUE_TEXT];
  for (size_t i = 0; i < count; i++) {
    long double got = value_at(v, i), want = value_at(&expected, i), away = fabsl(got - want);
    if (got == want || (isnan(got) && isnan(want)) || away <= tolerance * (1 + fabsl(want))) continue;
    if (!wrong++) first = i;
    if (away > worst) worst = away;
  }
  if (!wrong) return KILN_OK;
  return kiln_fail(
      err, KILN_STATUS_MISMATCH,
      "'%s': %zu of %zu elements differ; element %zu is %s, expected %s; the largest difference is %Lg",
      v->param.name, wrong, count, first, run_value_text(v, first, found_text),
      run_value_text(&expected, first, expected_text), worst);
}
