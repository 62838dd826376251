// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests which configs the model ranks first: more threads at a time, fuller waves, fewer instructions;
// knobs are counted by name.
#include "tests/harness.h"
#include "tuner/model.h"

static double score(uint32_t threads, uint32_t registers, uint32_t shared, uint32_t spills, uint64_t blocks) {
  return kiln_model_score(&(kiln_model_needs){threads, registers, shared, spills, blocks, 0}, 132);
}

TEST(tuner_model, what_fills_the_device_promises_more) {
  CHECK(score(128, 32, 0, 0, 132 * 16) > score(128, 32, 0, 0, 132 * 16 + 1)); // one block more is a wave more
  CHECK(score(128, 64, 0, 0, 1 << 20) > score(128, 255, 0, 0, 1 << 20));      // 8 blocks at a time, and 2
  CHECK(score(128, 64, 16 << 10, 0, 1 << 20) > score(128, 64, 100 << 10, 0, 1 << 20));
  CHECK(score(128, 64, 0, 0, 1 << 20) > score(128, 64, 0, 64, 1 << 20));
  CHECK(score(1024, 128, 0, 0, 1000) == 0); // it does not fit
  CHECK(score(128, 0, 0, 0, 1000) == 1);    // nothing is known
}

// Eight rows of 256 in a block of four warps, and each in a block for 4096 columns.
TEST(tuner_model, work_is_what_all_threads_execute) {
  const kiln_model_needs narrow = {128, 32, 0, 0, 1024 / 8, 304}, wide = {128, 46, 16, 0, 1024, 512},
                         loop = {128, 46, 16, 0, 1024, 0};
  CHECK(kiln_model_work(&narrow) == 304.0 * 128 * 128);
  CHECK(kiln_model_work(&wide) > 10 * kiln_model_work(&narrow));
  CHECK(kiln_model_work(&loop) == 0);
}

TEST(tuner_model, knobs) {
  CHECK_INT(kiln_model_knobs_apart("A=1,B=2,warps=4", "A=1,B=2,warps=4"), 0);
  CHECK_INT(kiln_model_knobs_apart("A=1,B=2,warps=4", "A=1,B=3,warps=4"), 1);
  CHECK_INT(kiln_model_knobs_apart("A=1,B=2,warps=4", "A=2,B=3,warps=8"), 3);
  CHECK_INT(kiln_model_knobs_apart("A=1,warps=4", "A=1,warps=4,stages=2"), 1);
  CHECK_INT(kiln_model_knobs_apart("A=1,warps=4,stages=2", "A=1,warps=4"), 1);
  CHECK_INT(kiln_model_knobs_apart("A=1", "A=11"), 1);
}
