// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements the launch of kernels. A warm launch packs the arguments, decides, and calls the driver.
#include "runtime/launch.h"

#include <string.h>

#include "runtime/decision.h"
#include "runtime/launch_extras.h"

// The first launch of a code.
static KILN_COLD kiln_status first_load(kiln_kernel *k, const kiln_launch_call *call, kiln_error *err) {
  const kiln_device *d = k->device;
  if (d->kind->is_capturing && d->kind->is_capturing(k->device, call->stream))
    return kiln_fail(err, KILN_STATUS_LAUNCH,
                     "'%s' is not loaded, and nothing can be loaded while the stream is captured; call "
                     "kiln_preload before",
                     k->interface.name);
  return kiln_code_load(k, (kiln_code *)call->code, err);
}

// kiln_decide for what most kernels are: the first config that may be used, and expressions in short forms.
static inline kiln_status decide(const kiln_kernel *k, const uint8_t *block, const uint32_t *grid,
                                 kiln_launch_call *out, kiln_error *err) {
  const kiln_code *code = k->certain;
  uint32_t c = k->certain_config;
  if (KILN_UNLIKELY(!k->is_plain)) return kiln_decide(k, block, grid, out, err);
  KILN_TRY(kiln_check_promises(k, block, err));
  while (!code && c < k->interface.config_count)
    if (!(code = kiln_code_of(k, c, block, NULL))) c++;
  if (KILN_UNLIKELY(!code)) return kiln_refuse_configs(k, block, err);
  out->code = code;
  return grid ? kiln_take_grid(k, code, grid, out->grid, err)
              : kiln_evaluate_grid(k, c, code, block, NULL, out->grid, err);
}

static __attribute__((noinline)) kiln_status launch_block(kiln_kernel *k, kiln_stream stream,
                                                          const uint32_t *grid, const uint8_t *block,
                                                          kiln_error *err) {
  kiln_launch_call call;
  KILN_TRY(decide(k, block, grid, &call, err));
  call.stream = stream;
  call.block = block;
  call.size = k->used_bytes;
  if (KILN_UNLIKELY(kiln_is_empty(call.grid))) return kiln_end_empty(k, &call, grid, err);
  call.function = atomic_load_explicit(&call.code->function, memory_order_acquire);
  if (KILN_UNLIKELY(!call.function)) {
    KILN_TRY(first_load(k, &call, err));
    call.function = atomic_load_explicit(&call.code->function, memory_order_acquire);
  }
  if (KILN_UNLIKELY(call.code->has_extras)) return kiln_launch_with_extras(k, &call, err);
  return kiln_device_table(k->device)->launch(k->device, &call, err);
}

kiln_status kiln_launch(kiln_kernel *k, kiln_stream stream, const void *const *args, size_t arg_count,
                        kiln_error *err) {
  _Alignas(16) uint8_t block[KILN_MOST_BLOCK];
  if (KILN_UNLIKELY(!k || arg_count != k->interface.param_count || (!args && arg_count) ||
                    !kiln_pack(k, args, block)))
    return kiln_refuse_count(k, arg_count, err);
  return launch_block(k, stream, NULL, block, err);
}

static kiln_status launch_packed(kiln_kernel *k, kiln_stream stream, const uint32_t *grid, const void *block,
                                 size_t size, kiln_error *err) {
  if (KILN_UNLIKELY(!k || size != k->interface.block_bytes || (!block && size)))
    return kiln_refuse_size(k, size, err);
  return launch_block(k, stream, grid, block, err);
}

kiln_status kiln_launch_packed(kiln_kernel *k, kiln_stream stream, const void *block, size_t size,
                               kiln_error *err) {
  return launch_packed(k, stream, NULL, block, size, err);
}

kiln_status kiln_launch_grid(kiln_kernel *k, kiln_stream stream, const uint32_t grid[3], const void *block,
                             size_t size, kiln_error *err) {
  return launch_packed(k, stream, grid, block, size, err);
}
