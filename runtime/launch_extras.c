// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches codes that take more than their parameters: the logical grid of persistent kernels, and tensor
// maps.
#include "runtime/launch_extras.h"

#include <string.h>

#include "runtime/refusal.h"

void kiln_block_changes(const uint8_t *a, const uint8_t *b, size_t size, kiln_block_words *out) {
  const size_t whole = size / KILN_BLOCK_WORD, rest = size % KILN_BLOCK_WORD;
  *out = (kiln_block_words){{0}};
  for (size_t i = 0; i < whole; i++)
    out->in[i / 64] |=
        (uint64_t)(memcmp(a + i * KILN_BLOCK_WORD, b + i * KILN_BLOCK_WORD, KILN_BLOCK_WORD) != 0) << i % 64;
  if (rest && memcmp(a + size - rest, b + size - rest, rest) != 0)
    out->in[whole / 64] |= UINT64_C(1) << whole % 64;
}

kiln_status kiln_extras_encode(const kiln_kernel *k, kiln_launch_call *call, const kiln_block_words *changes,
                               kiln_map_sizes *known, uint8_t *block, kiln_error *err) {
  const kiln_code *code = call->code;
  call->block = block;
  call->size = code->map_count ? code->maps_at + code->map_count * KILN_MAP_BYTES : code->params_end;
  if (code->map_count) KILN_TRY(code->encode_maps(k, code, changes, known, block, err));
  if (!code->info.blocks) return KILN_OK;
  uint64_t programs = (uint64_t)call->grid[0] * call->grid[1], room = k->device->processors;
  programs = programs > INT32_MAX ? programs : programs * call->grid[2];
  if (programs > INT32_MAX) return kiln_refuse_programs(k, call->grid, err);
  memset(block + k->used_bytes, 0, code->grid_at - k->used_bytes);
  memcpy(block + code->grid_at, call->grid, KILN_GRID_BYTES);
  uint32_t cluster = code->info.cluster ? code->info.cluster : 1;
  // Clusters. Not every processor finds as many neighbours as one wants, so the device was asked.
  room = code->clusters ? code->clusters : room * code->info.blocks / cluster;
  if (!room || room > INT32_MAX / cluster) room = INT32_MAX / cluster;
  call->grid[0] = cluster * (uint32_t)(room < programs ? room : programs);
  call->grid[1] = call->grid[2] = 1;
  return KILN_OK;
}

// What the last launch of a code with extras passed. The launch that holds it may read it; others that come
// meanwhile encode for themselves.
enum { MEMO_BYTES = 1024 };
struct kiln_memo {
  uint8_t block[MEMO_BYTES]; // aligned to KILN_MAP_ALIGNMENT
  atomic_flag is_held;
  bool is_set;
  uint32_t asked[3], grid[3];
  size_t size;
  kiln_map_sizes known[]; // one a map
};

KILN_COLD struct kiln_memo *kiln_memo_create(const kiln_kernel *k, const kiln_code *code) {
  uint32_t end = code->params_end + KILN_MAP_ALIGNMENT + code->map_count * KILN_MAP_BYTES;
  size_t size = sizeof(struct kiln_memo) + code->map_count * sizeof(kiln_map_sizes);
  uint8_t *memory = end > MEMO_BYTES ? NULL : kiln_arena_alloc(k->arena, size + KILN_MAP_ALIGNMENT);
  if (!memory) return NULL;
  struct kiln_memo *m =
      (void *)(((uintptr_t)memory + KILN_MAP_ALIGNMENT - 1) & ~(uintptr_t)(KILN_MAP_ALIGNMENT - 1));
  memset(m, 0, size);
  atomic_flag_clear(&m->is_held);
  return m;
}

static kiln_status encode_and_launch(kiln_kernel *k, kiln_launch_call *call, kiln_error *err) {
  _Alignas(KILN_MAP_ALIGNMENT) uint8_t block[KILN_MOST_BLOCK];
  kiln_map_sizes sizes[KILN_MOST_MAPS];
  memcpy(block, call->block, k->used_bytes);
  // NOLINTBEGIN(clang-analyzer-core.StackAddressEscape): nobody reads the call any more
  KILN_TRY(kiln_extras_encode(k, call, NULL, sizes, block, err));
  return atomic_load_explicit(&k->device->kind, memory_order_relaxed)->launch(k->device, call, err);
  // NOLINTEND(clang-analyzer-core.StackAddressEscape)
}

static kiln_status encode_or_reuse(kiln_kernel *k, kiln_launch_call *call, struct kiln_memo *m,
                                   kiln_error *err) {
  if (m->is_set && !memcmp(m->asked, call->grid, sizeof m->asked) &&
      !memcmp(m->block, call->block, k->used_bytes)) {
    call->block = m->block;
    call->size = m->size;
    memcpy(call->grid, m->grid, sizeof m->grid);
    return KILN_OK;
  }
  kiln_block_words changes;
  bool was_set = m->is_set;
  if (was_set) kiln_block_changes(m->block, call->block, k->used_bytes, &changes);
  m->is_set = false;
  memcpy(m->block, call->block, k->used_bytes);
  memcpy(m->asked, call->grid, sizeof m->asked);
  KILN_TRY(kiln_extras_encode(k, call, was_set ? &changes : NULL, m->known, m->block, err));
  memcpy(m->grid, call->grid, sizeof m->grid);
  m->size = call->size;
  m->is_set = true;
  return KILN_OK;
}

kiln_status kiln_launch_with_extras(kiln_kernel *k, kiln_launch_call *call, kiln_error *err) {
  struct kiln_memo *m = call->code->memo;
  if (!m || atomic_flag_test_and_set_explicit(&m->is_held, memory_order_acquire))
    return encode_and_launch(k, call, err);
  kiln_status status = encode_or_reuse(k, call, m, err);
  if (status == KILN_OK)
    status = atomic_load_explicit(&k->device->kind, memory_order_relaxed)->launch(k->device, call, err);
  atomic_flag_clear_explicit(&m->is_held, memory_order_release);
  return status;
}
