// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes the error message of a call that no launch can come of. Those that quote expressions and values are in
// runtime/more/refusals.c.
#include "runtime/refusal.h"
#include "base/plural.h"

kiln_status kiln_refuse_programs(const kiln_kernel *k, const uint32_t *grid, kiln_error *err) {
  return kiln_fail(err, KILN_STATUS_LAUNCH, "'%s': a grid of %u x %u x %u programs; at most %d are allowed",
                   k->interface.name, grid[0], grid[1], grid[2], INT32_MAX);
}

kiln_status kiln_refuse_count(const kiln_kernel *k, size_t count, kiln_error *err) {
  if (!k) return kiln_refuse_null("launch", "kernel", err);
  KILN_TRY(kiln_device_check(k->device, err));
  if (count == k->interface.param_count)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "'%s': an argument, or all of them, is NULL",
                     k->interface.name);
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "'%s' takes %u argument%s, %zu %s given",
                   k->interface.name, k->interface.param_count, kiln_plural(k->interface.param_count), count,
                   count == 1 ? "was" : "were");
}

kiln_status kiln_refuse_size(const kiln_kernel *k, size_t size, kiln_error *err) {
  if (!k) return kiln_refuse_null("launch", "kernel", err);
  KILN_TRY(kiln_device_check(k->device, err));
  if (size == k->interface.block_bytes) return kiln_refuse_null(k->interface.name, "block", err);
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "'%s' takes a block of %u bytes, %zu were given",
                   k->interface.name, k->interface.block_bytes, size);
}

kiln_status kiln_refuse_index(const kiln_kernel *k, size_t index, kiln_error *err) {
  KILN_TRY(kiln_device_check(k->device, err));
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "'%s' has %u parameters, %zu is to be set",
                   k->interface.name, k->interface.param_count, index);
}

kiln_status kiln_end_empty(const kiln_kernel *k, const kiln_launch_call *call, const uint32_t *grid,
                           kiln_error *err) {
  if (grid || k->configs[call->code->config].has_grid) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_LAUNCH, "'%s' states no grid; launch it with kiln_launch_grid",
                   k->interface.name);
}
