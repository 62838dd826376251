// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ending of a counted word in a message: "1 object", "2 objects".
#ifndef KILN_BASE_PLURAL_H
#define KILN_BASE_PLURAL_H

#include <stdint.h>

static inline const char *kiln_plural(uint64_t count) { return count == 1 ? "" : "s"; }

#endif
