// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs kernels of the kernel language in the reference interpreter and as host code of every level: all
// memory must agree bit for bit (a NaN is a NaN). The data are such that the order of a sum does not
// matter.
#include "tests/codegen/host_check.h"

// ------------------------------------------------------------------------------------- elementwise

TEST(host_kernels, float_arithmetic) { check(KERNEL("float_arithmetic"), 700, 3); }

TEST(host_kernels, integer_arithmetic) { check(KERNEL("integer_arithmetic"), 700, 3); }

TEST(host_kernels, casts) { check(KERNEL("casts"), 0, 1); }

TEST(host_kernels, booleans_in_memory) { check(KERNEL("booleans_in_memory"), 50, 1); }

// ---------------------------------------------------------------------------- reductions and scans

TEST(host_kernels, reduces_rows) { check(KERNEL("reduces_rows"), 900, 1); }

TEST(host_kernels, reduces_any_axis) { check(KERNEL("reduces_any_axis"), 0, 1); }

TEST(host_kernels, reduces_by_a_function) { check(KERNEL("reduces_by_a_function"), 0, 1); }

TEST(host_kernels, scans) { check(KERNEL("scans"), 0, 1); }

// ------------------------------------------------------------------------------------------ shapes

TEST(host_kernels, sorts) { check(KERNEL("sorts"), 0, 2); }

TEST(host_kernels, sorts_in_loops) { check(KERNEL("sorts_in_loops"), 0, 1); }

TEST(host_kernels, gathers) { check(KERNEL("gathers"), 0, 2); }

TEST(host_kernels, scatters) { check(KERNEL("scatters"), 0, 2); }

TEST(host_kernels, shapes) { check(KERNEL("shapes"), 0, 1); }

// ------------------------------------------------------------------------------------ control flow

TEST(host_kernels, loops) { check(KERNEL("loops"), 20, 1); }

TEST(host_kernels, branches) { check(KERNEL("branches"), 0, 5); }

// The place of a tile in memory holds where it was filled, until something else takes it.
TEST(host_kernels, kept_in_regions) {
  const char *text = KERNEL("kept_in_regions");
  for (int n = 0; n < 4; n++) check(text, n, 1);
}

// A view that is selected, of parts of another one.
TEST(host_kernels, selected_views) { check(KERNEL("selected_views"), 2, 4); }

// A view is what a loop carries (chosen in it, or with extents that change), and what a branch yields.
TEST(host_kernels, carried_views) {
  const char *text = KERNEL("carried_views");
  for (int n = 0; n < 5; n++) check(text, n, 2);
}

// --------------------------------------------------------------------------------- order of memory

TEST(host_kernels, loads_before_stores) { check(KERNEL("loads_before_stores"), 0, 1); }

// One lane of a store whose mask is known, narrowed on the way: LLVM 22 wrote the bytes after it as well
// with AVX-512. Also lanes that are known once a loop is unrolled.
TEST(host_kernels, stores_of_known_lanes) {
  static const char *const pairs[][2] = {{"i64", "i8"},   {"i64", "i32"}, {"i32", "i8"},  {"i32", "i16"},
                                         {"i16", "i8"},   {"f32", "f16"}, {"f64", "f32"}, {"f32", "bf16"},
                                         {"i64", "e5m2"}, {"f32", "e4m3"}};
  static char text[20000];
  size_t used = (size_t)snprintf(text, sizeof text, "kiln 1\n");
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    used += (size_t)snprintf(text + used, sizeof text - used,
                             "kernel k%zu(x: in *%s, y: inout *%s, n: i32) @grid(n) {\n", i, pairs[i][0],
                             pairs[i][1]);
    for (int width = 2; width <= 32; width *= 4)
      for (int lane = 0; lane < width; lane += width / 2 + 1)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "  store(y + pid(0) * 1024 + %d + iota(%d), load(x + iota(%d)) as %s, "
                                 "iota(%d) == %d)\n",
                                 width * 8 + lane * 32, width, width, pairs[i][1], width, lane);
    used += (size_t)snprintf(text + used, sizeof text - used,
                             "  for j in 0 .. 8 { let i = iota(8) store(y + pid(0) * 1024 + 768 + j * 8 + i, "
                             "load(x + i) as %s, i == j) }\n}\n",
                             pairs[i][1]);
  }
  check(text, 2, 2);
}

TEST(host_kernels, atomics) { check(KERNEL("atomics"), 40, 2); }

TEST(host_kernels, exchange_of_halves) { check(KERNEL("exchange_of_halves"), 20, 1); }

/// Every second element is as expected; their neighbours in a word of 32 bits stay.
TEST(host_kernels, swaps_of_halves) { check(KERNEL("swaps_of_halves"), 20, 1); }
