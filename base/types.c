// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Holds the table of element types, generated from its .def file.
#include "base/types.h"

const kiln_scalar_info kiln_scalars[KILN_SCALAR_COUNT] = {
#define TYPE(name, spelling, number, bits, type_class) \
  [number] = {spelling, bits, (bits + 7) / 8, type_class},
#include "base/types.def"
#undef TYPE
};
