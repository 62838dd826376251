// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes and compares the data of generated kernels, and reduces kernels while they fail.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/ir/scalar.h"
#include "tests/harness.h"
#include "tests/kernelgen.h"

/// A denormal, a zero or one of the smallest normal numbers.
static uint64_t small_element(kiln_scalar scalar, uint64_t r) {
  const uint64_t normal = ir_float_to_bits(scalar, 1, true),
                 sign = ir_float_to_bits(scalar, -1, true) ^ normal;
  const uint64_t fraction = normal & -normal; // one in the last place of the exponent
  return (r & sign) | (r >> 1 & (4 * fraction - 1));
}

static uint64_t random_bits(kiln_scalar scalar, uint64_t r) {
  unsigned class = kiln_scalars[scalar].type_class;
  if (class == KILN_CLASS_BOOL) return r & 1;
  if (class == KILN_CLASS_INT) return r % 4 ? (uint64_t)((int64_t)(r >> 8 & 0xff) - 128) : r >> 3;
  if (r % 16 == 0) return r >> 8; // any pattern, so also infinities and NaN
  if (r % 16 == 1) return small_element(scalar, r >> 8);
  double value = (double)((int64_t)(r >> 8 & 0x3ff) - 512);
  return ir_float_to_bits(scalar, r % 3 ? value : value / 64, true);
}

static uint64_t random_element(const kernelgen_case *c, kiln_scalar scalar, uint64_t *random) {
  const uint64_t drawn = kiln_test_random(random);
  const bool is_float = kiln_scalars[scalar].type_class == KILN_CLASS_FLOAT;
  if (c->is_tiny && is_float && drawn % 8 < 4)
    return drawn % 8 ? small_element(scalar, drawn >> 8)
                     : ir_float_to_bits(scalar, (double)(int8_t)(drawn >> 8) * 0x1p112, true);
  const uint64_t bits = random_bits(scalar, drawn);
  return c->is_normal ? kiln_scalar_flush(scalar, bits) : bits;
}

static uint64_t whole_element(kiln_scalar scalar, int64_t n) {
  const bool is_float = kiln_scalars[scalar].type_class & (KILN_CLASS_FLOAT | KILN_CLASS_FP8);
  return is_float ? ir_float_to_bits(scalar, (double)n, true) : (uint64_t)n;
}

static bool is_address(const ir_param *p) { return p->type.pointer || p->type.is_view; }

/// The parameter of buffer `number`.
static const ir_param *param_of(const kernelgen_case *c, uint32_t number) {
  const ir_param *p = c->params;
  while (!is_address(p) || number--) p++;
  return p;
}

/// How buffer `i` lies in its block.
static kiln_canary around_buffer(const kernelgen_case *c, uint32_t i, uint64_t *places) {
  enum { AROUND = 256, PLACES = 256 };
  const size_t bytes = kernelgen_element(&c->buffers[i]), count = c->buffers[i].count;
  size_t step = param_of(c, i)->align;
  if (step < bytes) step = bytes;
  if (step > PLACES) step = PLACES;
  const size_t place = (size_t)(kiln_test_random(places) >> 20) % (PLACES / step) * step;
  return (kiln_canary){.element = bytes,
                       .rows = 1,
                       .columns = count,
                       .pitch = count,
                       .before = AROUND + place,
                       .after = AROUND,
                       .is_read = !c->buffers[i].written};
}

static void init_buffer(const kernelgen_case *c, uint32_t i, uint64_t *random, uint64_t *places,
                        kernelgen_memory *out) {
  enum { ALIGNMENT = 256 };
  const size_t bytes = kiln_scalars[c->buffers[i].scalar].bytes, count = c->buffers[i].count;
  kiln_canary *around = &out->around[i];
  *around = around_buffer(c, i, places);
  out->blocks[i] =
      aligned_alloc(ALIGNMENT, (kiln_canary_bytes(around) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
  out->bytes[i] = out->blocks[i] + around->before;
  out->addresses[i] = (uintptr_t)out->bytes[i];
  kiln_canary_write(around, NULL, out->blocks[i]);
  if (c->buffers[i].is_table) return;
  for (size_t k = 0; k < count; k++) {
    uint64_t bits = random_element(c, c->buffers[i].scalar, random);
    if (c->buffers[i].is_whole) bits = whole_element(c->buffers[i].scalar, (int64_t)(bits & 7));
    if (c->buffers[i].is_small) {
      static const int8_t numbers[] = {0, 0, 0, 0, 1, -1, 2, -2};
      bits = whole_element(c->buffers[i].scalar, numbers[kiln_test_random(random) >> 61]);
    }
    memcpy(out->bytes[i] + k * bytes, &bits, bytes);
  }
}

/// The argument for a buffer at `address`; returns its size.
static size_t put_address(const kernelgen_buffer *b, uint64_t address, uint8_t *out) {
  const size_t size = b->view.rank * sizeof *b->view.extents;
  address += b->view.first * kernelgen_element(b);
  memcpy(out, &address, sizeof address);
  memcpy(out + sizeof address, b->view.extents, size);
  memcpy(out + sizeof address + size, b->view.strides, size);
  return sizeof address + 2 * size;
}

/// A number that keeps the promises of an integer parameter.
static uint64_t as_promised(const ir_param *p, uint64_t bits) {
  const int64_t div = p->div > 1 ? p->div : 1;
  const unsigned above = 64 - kiln_scalars[p->type.scalar].bits;
  if (p->has_range)
    return (uint64_t)p->lo + bits % ((uint64_t)(p->hi - p->lo) / (uint64_t)div + 1) * (uint64_t)div;
  if (div == 1) return bits;
  const int64_t value = (int64_t)(bits << above) >> above;
  return (uint64_t)(value - value % div);
}

static void fill_table(const kernelgen_case *c, uint32_t i, kernelgen_memory *m) {
  enum { MOST_AWAY = 128 };
  const kernelgen_buffer *b = &c->buffers[i], *target = &c->buffers[b->target];
  uint64_t random = c->seed ^ 0x7461626c ^ i;
  for (size_t k = 0; k < b->count; k++) {
    const uint64_t away = b->part ? k ^ (b->part - 1) : kiln_test_random(&random) % MOST_AWAY;
    const uint64_t address = m->addresses[b->target] + away * kernelgen_element(target);
    memcpy(m->bytes[i] + k * sizeof address, &address, sizeof address);
  }
}

void kernelgen_memory_place(const kernelgen_case *c, kernelgen_memory *m) {
  uint64_t random = c->seed ^ 0x61726773;
  size_t at = 0;
  uint32_t buffer = 0, number = 0;
  for (uint32_t i = 0; i < c->buffer_count; i++)
    if (c->buffers[i].is_table) fill_table(c, i, m);
  for (uint32_t i = 0; i < c->param_count; i++) {
    const ir_param *p = &c->params[i];
    const size_t bytes = is_address(p) ? 8 : kiln_scalars[p->type.scalar].bytes;
    at = (at + bytes - 1) & ~(bytes - 1);
    if (is_address(p)) {
      at += put_address(&c->buffers[buffer], m->addresses[buffer], m->args + at);
      buffer++;
      continue;
    }
    const uint64_t value = c->numbers ? (uint64_t)c->numbers[number++]
                                      : as_promised(p, random_element(c, p->type.scalar, &random));
    memcpy(m->args + at, &value, bytes);
    at += bytes;
  }
}

void kernelgen_memory_init(const kernelgen_case *c, kernelgen_memory *out) {
  uint64_t random = c->seed ^ 0x6b65726e, places = c->seed ^ 0x706c6163;
  memset(out, 0, sizeof *out);
  for (uint32_t i = 0; i < c->buffer_count; i++) init_buffer(c, i, &random, &places, out);
  kernelgen_memory_place(c, out);
}

void kernelgen_memory_deinit(kernelgen_memory *m) {
  for (int i = 0; i < KERNELGEN_BUFFERS; i++) free(m->blocks[i]);
}

static bool equal_elements(kiln_scalar scalar, uint64_t a, uint64_t b) {
  if (a == b) return true;
  if (!(kiln_scalars[scalar].type_class & (KILN_CLASS_FLOAT | KILN_CLASS_FP8))) return false;
  double x = ir_bits_to_float(scalar, a), y = ir_bits_to_float(scalar, b);
  return x != x && y != y;
}

/// In which buffer an address is, in the low bits, and how far from its beginning; all ones: in none.
static uint64_t place_of(const kernelgen_case *c, const kernelgen_memory *m, uint64_t address) {
  for (uint32_t i = 0; i < c->buffer_count; i++) {
    const uint64_t away = address - m->addresses[i];
    if (away < kernelgen_bytes(&c->buffers[i])) return away * KERNELGEN_BUFFERS + i;
  }
  return UINT64_MAX;
}

bool kernelgen_memory_equal(const kernelgen_case *c, const kernelgen_memory *a, const kernelgen_memory *b,
                            char *out, size_t size) {
  for (uint32_t i = 0; i < c->buffer_count; i++) {
    kiln_scalar scalar = c->buffers[i].scalar;
    size_t bytes = kernelgen_element(&c->buffers[i]);
    char name[80];
    snprintf(name, sizeof name, "seed %llu: %s", (unsigned long long)c->seed, param_of(c, i)->name);
    if (!kiln_canary_holds(&a->around[i], name, a->blocks[i], out, size) ||
        !kiln_canary_holds(&b->around[i], name, b->blocks[i], out, size))
      return false;
    for (size_t k = 0; k < c->buffers[i].count; k++) {
      uint64_t x = 0, y = 0;
      memcpy(&x, a->bytes[i] + k * bytes, bytes);
      memcpy(&y, b->bytes[i] + k * bytes, bytes);
      if (c->buffers[i].is_table) x = place_of(c, a, x), y = place_of(c, b, y);
      else if (equal_elements(scalar, x, y)) continue;
      if (x == y) continue;
      snprintf(out, size, "seed %llu: buffer %u (%s), element %zu of %zu: expected 0x%llx, found 0x%llx",
               (unsigned long long)c->seed, i, kiln_scalars[scalar].spelling, k, c->buffers[i].count,
               (unsigned long long)x, (unsigned long long)y);
      return false;
    }
  }
  return true;
}

uint64_t kernelgen_reduce(uint64_t seed, const kernelgen_options *options,
                          bool (*fails)(uint64_t seed, const kernelgen_options *options, void *context),
                          void *context) {
  kernelgen_options smaller = *options;
  for (bool progress = true; progress;) {
    progress = false;
    for (uint32_t i = KERNELGEN_STATEMENTS; i-- > 0;) {
      uint64_t before = smaller.dropped;
      if (before >> i & 1) continue;
      smaller.dropped |= (uint64_t)1 << i;
      if (fails(seed, &smaller, context)) progress = true;
      else smaller.dropped = before;
    }
  }
  return smaller.dropped;
}
