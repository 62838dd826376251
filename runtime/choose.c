// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is known of a launch.
#include "runtime/launch.h"

void kiln_choice_of(const kiln_code *code, const uint32_t *grid, kiln_choice *out) {
  const kiln_kernel *k = code->kernel;
  const kiln_code_info *info = &code->info;
  *out = (kiln_choice){
      .config = k->interface.configs[code->config].text,
      .variant = k->interface.variants[code->variant].text,
      .target = info->target,
      .bundle = k->bundle->name,
      .grid = {grid[0], grid[1], grid[2]},
      .block_threads = info->block_threads,
      .shared_bytes = info->shared_bytes,
      .registers = info->registers,
      .spill_bytes = info->spill_bytes,
      .rank = code->rank,
  };
}
