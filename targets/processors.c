// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The processor table as data.
#include <string.h>

#include "targets/targets.h"

enum { S = 1, X = 2 }; // modes column

static const kiln_processor processors[] = {
#define NVPTX(n, capability, runs, isa, shared, unit, version) \
  {.name = n,                                                  \
   .family = KILN_FAMILY_NVPTX,                                \
   .matrix = KILN_MATRIX_##unit,                               \
   .shared_bytes = shared,                                     \
   .number = capability,                                       \
   .reach = KILN_REACH_##runs,                                 \
   .llvm = version,                                            \
   .ptx = isa,                                                 \
   .wave = 32,                                                 \
   .waves = 1,                                                 \
   .generic = "",                                              \
   .arch = "",                                                 \
   .cpu = "",                                                  \
   .features = ""},
#define AMDGPU(n, ma, mi, st, w, ws, gen, gen_version, modes, shared, unit, version) \
  {.name = n,                                                                        \
   .family = KILN_FAMILY_AMDGPU,                                                     \
   .matrix = KILN_MATRIX_##unit,                                                     \
   .shared_bytes = shared,                                                           \
   .number = (ma) << 8 | (mi) << 4 | (st),                                           \
   .major = ma,                                                                      \
   .minor = mi,                                                                      \
   .step = st,                                                                       \
   .wave = w,                                                                        \
   .waves = ws,                                                                      \
   .generic_version = gen_version,                                                   \
   .llvm = version,                                                                  \
   .has_xnack = ((modes)&X) != 0,                                                    \
   .has_sramecc = ((modes)&S) != 0,                                                  \
   .generic = gen,                                                                   \
   .arch = "",                                                                       \
   .cpu = "",                                                                        \
   .features = ""},
#define HOST(n, a, c, f, vector, l) \
  {.name = n,                       \
   .family = KILN_FAMILY_HOST,      \
   .wave = 1,                       \
   .generic = "",                   \
   .arch = a,                       \
   .cpu = c,                        \
   .features = f,                   \
   .vector_bytes = vector,          \
   .level = l},
#include "targets/processors.def"
#undef NVPTX
#undef AMDGPU
#undef HOST
};

size_t kiln_processor_count(void) { return sizeof processors / sizeof *processors; }

const kiln_processor *kiln_processor_at(size_t index) {
  return index < kiln_processor_count() ? &processors[index] : NULL;
}

const kiln_processor *kiln_processor_find(const char *name, size_t length) {
  for (size_t i = 0; i < kiln_processor_count(); i++)
    if (strlen(processors[i].name) == length && memcmp(processors[i].name, name, length) == 0)
      return &processors[i];
  return NULL;
}
