// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tunes with a recorded launch: its arguments are the shape, and its memory afterwards is the expected
// result.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/tune/session.h"

// The address of buffer `i` in the block that shows which argument points where.
enum { SHIFT = 40 };

kiln_status tune_case_read(tuner *t, kiln_error *err) {
  t->recorded = KILN_NEW(t->arena, case_file);
  KILN_TRY(case_file_read(t->arena, t->s->case_folder, t->recorded, err));
  if (!t->recorded->golden)
    return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "%s: no memory was recorded; nothing can be launched",
                     t->s->case_folder);
  if (!t->view.kernel_count) return kiln_fail(err, KILN_STATUS_NOT_FOUND, "%s has no kernel", t->bundle_path);
  t->pairs = calloc(1, sizeof *t->pairs);
  if (!t->pairs) abort();
  t->pairs[t->pair_count++] = (tune_pair){.kernel = &t->view.kernels[0]};
  return KILN_OK;
}

// Takes the memory that a pointer leads to. Each argument gets its own: two pointers into one buffer that
// changes would become two buffers.
static kiln_status take_memory(const tuner *t, run_value *v, const uint8_t **out_after, bool *is_taken,
                               kiln_error *err) {
  uint64_t address = 0;
  for (unsigned i = 0; i < 8; i++) address |= (uint64_t)v->packed[i] << 8 * i;
  if (!address) return KILN_OK;
  uint32_t index = (uint32_t)(address >> SHIFT) - 1;
  uint64_t offset = address & ((1ull << SHIFT) - 1);
  const case_buffer *b = &t->recorded->buffers[index];
  if (offset > b->size || (b->changed && is_taken[index]))
    return kiln_fail(err, KILN_STATUS_UNSUPPORTED,
                     "%s: '%s' shares buffer %u, which the launch changes, with another argument",
                     t->s->case_folder, v->param.name, index);
  is_taken[index] = true;
  v->size = b->size - offset;
  v->bytes = malloc(v->size + 1);
  if (!v->bytes) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  memcpy(v->bytes, b->before.bytes + offset, v->size);
  *out_after = (b->changed ? b->after.bytes : b->before.bytes) + offset;
  return KILN_OK;
}

kiln_status tune_case_values(const tuner *t, const tune_pair *j, tune_subject *s, kiln_error *err) {
  uint64_t addresses[CASE_MAX_BUFFERS];
  bool is_taken[CASE_MAX_BUFFERS] = {false};
  kiln_buffer block = {0};
  for (uint32_t i = 0; i < CASE_MAX_BUFFERS; i++) addresses[i] = (uint64_t)(i + 1) << SHIFT;
  kiln_status status = case_file_pack(t->recorded, &j->kernel->interface, addresses, &block, err);
  s->grid = t->recorded->grid;
  s->after = KILN_NEW_ARRAY(t->arena, const uint8_t *, s->count + 1);
  for (size_t i = 0; i < s->count && status == KILN_OK; i++) {
    run_value *v = &s->values[i];
    v->is_set = true;
    memcpy(v->packed, block.bytes + v->param.offset, v->param.size);
    if (v->param.pointer || v->param.rank) status = take_memory(t, v, &s->after[i], is_taken, err);
  }
  kiln_buffer_deinit(&block);
  return status;
}

// ------------------------------------------------------------------------------------ as a source

static kiln_status copy_file(const char *folder, const char *from, const char *into, const char *to,
                             kiln_error *err) {
  char path[4200];
  kiln_buffer text = {0};
  snprintf(path, sizeof path, "%.4000s/%s", folder, from);
  KILN_TRY(cli_read_file(path, "", (size_t)64 << 20, &text, err));
  snprintf(path, sizeof path, "%.4000s/%s", into, to);
  kiln_status status = cli_write_file(path, text.bytes, text.size, err);
  kiln_buffer_deinit(&text);
  return status;
}

kiln_status tune_case_source(const char *folder, const char *into, kiln_error *err) {
  KILN_TRY(copy_file(folder, "kernel.ttir", into, "kernel.ttir", err));
  return copy_file(folder, "case.json", into, "kernel.json", err);
}
