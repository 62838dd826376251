// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that this build's compiler, with this build's flags, means what the sources say where a compiler is
// known to have been wrong (Makefile).
#include <stdio.h>
#include <stdlib.h>

#include "tests/harness.h"

typedef enum state { FOUND = 1, ABSENT = 2, FAILED = 3, DENIED = 8 } state;

__attribute__((noinline)) static state small(int number) {
  return number < FOUND || number > DENIED ? FAILED : (state)number;
}

// gcc 14.2: a bit test of 0x102, and the conditional move of the other sense.
__attribute__((noinline)) static state one_or_the_other(int number) {
  state s = small(number);
  return s == FOUND || s == DENIED ? s : FAILED;
}

TEST(compiler, a_choice_by_a_bit_test_takes_the_right_side) {
  for (int i = 0; i < 12; i++) CHECK_INT(one_or_the_other(i), i == FOUND || i == DENIED ? i : FAILED);
}
