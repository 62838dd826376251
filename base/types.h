// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element types of the kernel language, as compiler, bundle and runtime name them.
#ifndef KILN_BASE_TYPES_H
#define KILN_BASE_TYPES_H

/// Classes are bits, so that a table row can name a set of them.
enum {
  KILN_CLASS_BOOL = 1,
  KILN_CLASS_INT = 2,
  KILN_CLASS_FLOAT = 4,
  KILN_CLASS_FP8 = 8,
  KILN_CLASS_POINTER = 16,
};

typedef enum kiln_scalar {
#define TYPE(name, spelling, number, bits, type_class) KILN_##name = number,
#include "base/types.def"
#undef TYPE
  KILN_SCALAR_COUNT
} kiln_scalar;

typedef struct kiln_scalar_info {
  char spelling[8];
  unsigned char bits;       ///< of the value; i1 has 1
  unsigned char bytes;      ///< in memory; i1 has 1
  unsigned char type_class; ///< one KILN_CLASS_ bit
} kiln_scalar_info;

/// One row a type, indexed by kiln_scalar.
extern const kiln_scalar_info kiln_scalars[KILN_SCALAR_COUNT];

#endif
