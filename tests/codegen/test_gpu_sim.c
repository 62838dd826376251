// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares the GPU lowering with the reference interpreter: arithmetic, shapes, memory, control flow,
// sorting.
#include "tests/codegen/gpu_sim_case.h"

CASE(add, .grid = {3, 1, 1}, .arguments = {1000, 1000, 1000, 1000}, .text = KERNEL("add"))

CASE(small_tile, .grid = {1, 1, 1}, .arguments = {8, 8}, .text = KERNEL("small_tile"))

CASE(row_sums, .grid = {2, 1, 1}, .arguments = {8192, 64, 64}, .tolerance = 1e-5, .text = KERNEL("row_sums"))

CASE(column_sums, .grid = {1, 1, 1}, .arguments = {4096, 128, 1}, .tolerance = 1e-5,
     .text = KERNEL("column_sums"))

CASE(softmax, .grid = {4, 1, 1}, .arguments = {4096, 4096, 1000}, .tolerance = 1e-5,
     .text = KERNEL("softmax"))

CASE(scans, .grid = {1, 1, 1}, .arguments = {1024, 1024, 1024, 1024}, .text = KERNEL("scans"))

CASE(argmax, .grid = {1, 1, 1}, .arguments = {2048, 16, 16}, .text = KERNEL("argmax"))

CASE(transpose, .grid = {1, 1, 1}, .arguments = {2048, 2048, 2048}, .text = KERNEL("transpose"))

CASE(loop, .grid = {2, 1, 1}, .arguments = {4096, 512, 5}, .tolerance = 1e-5, .text = KERNEL("loop"))

// Branches for the loop's first iteration, in loops of which several iterations become one.
CASE(variances, .grid = {2, 1, 1}, .arguments = {5120, 512, 512, 10}, .tolerance = 1e-5,
     .text = KERNEL("variances"))
CASE(variances_first, .grid = {2, 1, 1}, .arguments = {2048, 512, 512, 4}, .tolerance = 1e-5,
     .text = KERNEL("variances"))
CASE(variances_none, .grid = {2, 1, 1}, .arguments = {2048, 512, 512, 3}, .tolerance = 1e-5,
     .text = KERNEL("variances"))

CASE(carried_views, .grid = {2, 1, 1}, .arguments = {1024, 1024, 512, 2}, .tolerance = 1e-5,
     .text = KERNEL("carried_views"))
CASE(carried_views_first, .grid = {2, 1, 1}, .arguments = {1024, 1024, 512, 0}, .tolerance = 1e-5,
     .text = KERNEL("carried_views"))

CASE(atomics, .grid = {2, 1, 1}, .arguments = {256, 16, 4, 256, 4}, .bound = 16, .text = KERNEL("atomics"))

CASE(exchange_of_halves, .grid = {1, 1, 1}, .arguments = {64, 64, 64, 64},
     .text = KERNEL("exchange_of_halves"))

CASE(swaps_of_halves, .grid = {1, 1, 1}, .arguments = {64, 64, 64, 64, 64, 64},
     .text = KERNEL("swaps_of_halves"))

CASE(nested_control, .grid = {2, 1, 1}, .arguments = {1024, 1024, 7}, .tolerance = 1e-5,
     .text = KERNEL("nested_control"))

CASE(many_axes, .grid = {1, 1, 1}, .arguments = {4096, 4096, 512}, .tolerance = 1e-5,
     .text = KERNEL("many_axes"))

CASE(integers, .grid = {1, 1, 1}, .arguments = {256, 256, 256, 256, 256}, .text = KERNEL("integers"))

CASE(conversions, .grid = {1, 1, 1}, .arguments = {512, 512, 512, 512, 512, 512},
     .text = KERNEL("conversions"))

CASE(region_scan, .grid = {1, 1, 1}, .arguments = {512, 512, 512, 512}, .tolerance = 1e-4,
     .text = KERNEL("region_scan"))

CASE(pointer_tiles, .grid = {1, 1, 1}, .arguments = {1024, 256, 256}, .bound = 1024,
     .text = KERNEL("pointer_tiles"))

// Bits of the row in registers, lanes and warps, several rows, fewer elements than threads, all widths.
CASE(sorts, .grid = {2, 1, 1}, .arguments = {2048, 2048, 2048, 2048, 2048, 2048, 2048},
     .text = KERNEL("sorts"))

CASE(tops, .grid = {2, 1, 1}, .arguments = {8192, 8192, 8192, 8192, 8192, 8192}, .bound = 100,
     .text = KERNEL("tops"))

CASE(gathers, .grid = {2, 1, 1}, .arguments = {8192, 8192, 8192, 8192, 8192}, .text = KERNEL("gathers"))

// Copies and none, fewer indices than threads, i64; indices below and above, equal ones in a warp; in loops.
CASE(scatters, .grid = {2, 1, 1}, .arguments = {4096, 4096, 4096, 4096, 1024, 1500},
     .text = KERNEL("scatters"))
CASE(scatters_of_few_bins, .grid = {2, 1, 1}, .arguments = {4096, 4096, 4096, 4096, 1024, 2048}, .bound = 3,
     .text = KERNEL("scatters"))

TEST(gpu_sim, large_conversions_go_in_parts) {
  const sim_case c = {
      .grid = {1, 1, 1}, .arguments = {8192, 8192}, .text = KERNEL("large_conversions_go_in_parts")};
  run_config(&c, 0, &(sim_options){.max_shared = 16384});
  run_config(&c, 0, &(sim_options){.max_shared = 8192, .reverse = true});
}

CASE(tiny_tiles, .grid = {2, 1, 1}, .arguments = {64, 64, 64}, .tolerance = 1e-5,
     .text = KERNEL("tiny_tiles"))

CASE(scalars, .grid = {3, 2, 1}, .arguments = {64, 64, 5}, .text = KERNEL("scalars"))
