// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Limits of a launch.
#ifndef KILN_RUNTIME_LAUNCH_H
#define KILN_RUNTIME_LAUNCH_H

enum {
  KILN_MOST_PARAMS = 512,
  KILN_MOST_CODES = 1 << 16, ///< configs x variants of a kernel
  KILN_MOST_BLOCK = 4096, ///< bytes of arguments: what CUDA takes
};

#endif
