// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel of a text runs in the interpreter on a few buffers; what tests of it share.
#ifndef KILN_TESTS_PTX_CASE_H
#define KILN_TESTS_PTX_CASE_H

#include <string.h>

#include "tests/harness.h"
#include "tools/ptx/ptx.h"

enum { CASE_BUFFERS = 4, CASE_STEPS = 4000000 };

typedef struct case_buffer {
  void *bytes; ///< NULL: memory without content
  size_t size;
} case_buffer;

typedef struct ptx_case {
  const char *name, *text;
  uint32_t grid, block;
  case_buffer buffers[CASE_BUFFERS]; ///< parameters; those with bytes are read back
  uint32_t buffer_count;
  int32_t numbers[CASE_BUFFERS]; ///< parameters after the buffers
  uint32_t number_count;
} ptx_case;

/// Runs it; false with the error when the text is refused.
static bool case_run(const ptx_case *c, uint64_t seed, ptx_report *report, kiln_error *err) {
  ptx_memory *memory = ptx_memory_create();
  ptx_module *module = NULL;
  uint8_t parameters[128] = {0};
  uint64_t addresses[CASE_BUFFERS];
  CHECK(memory != NULL);
  *report = (ptx_report){0};
  if (ptx_module_create(memory, c->name, c->text, strlen(c->text), &module, err) != KILN_OK) {
    ptx_memory_destroy(memory);
    return false;
  }
  for (uint32_t k = 0; k < c->buffer_count; k++) {
    addresses[k] = ptx_memory_alloc(memory, c->buffers[k].size, c->buffers[k].bytes != NULL);
    if (c->buffers[k].bytes)
      memcpy(ptx_memory_bytes(memory, addresses[k], c->buffers[k].size, true), c->buffers[k].bytes,
             c->buffers[k].size);
  }
  for (uint32_t k = 0; k < c->buffer_count + c->number_count; k++) {
    uint32_t offset, size;
    CHECK(ptx_module_parameter(module, 0, k, &offset, &size));
    if (k < c->buffer_count) memcpy(parameters + offset, &addresses[k], 8);
    else memcpy(parameters + offset, &c->numbers[k - c->buffer_count], 4);
  }
  ptx_launch launch = {.grid = {c->grid, 1, 1},
                       .block = {c->block, 1, 1},
                       .parameters = parameters,
                       .parameter_size = sizeof parameters,
                       .seed = seed,
                       .max_steps = CASE_STEPS};
  kiln_status status = ptx_module_run(module, 0, &launch, report, err);
  CHECK(status == KILN_OK || status == KILN_STATUS_ASSERT);
  for (uint32_t k = 0; k < c->buffer_count; k++)
    if (c->buffers[k].bytes)
      memcpy(c->buffers[k].bytes, ptx_memory_bytes(memory, addresses[k], c->buffers[k].size, false),
             c->buffers[k].size);
  ptx_module_destroy(module);
  ptx_memory_destroy(memory);
  return true;
}

#endif
