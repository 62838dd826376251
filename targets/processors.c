// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Holds the table of processors, generated from its .def file.
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
   .waves = 1},
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
   .code_object = (gen_version) ? 6 : 5,                                             \
   .llvm = version,                                                                  \
   .has_xnack = ((modes)&X) != 0,                                                    \
   .has_sramecc = ((modes)&S) != 0,                                                  \
   .generic = KILN_GENERIC_##gen},
#define HOST(n, row, vector, l) \
  {.name = n,                   \
   .family = KILN_FAMILY_HOST,  \
   .wave = 1,                   \
   .vector_bytes = vector,      \
   .level = l,                  \
   .host = KILN_HOST_##row},
#include "targets/processors.def"
#undef NVPTX
#undef AMDGPU
#undef HOST
};

#define NVPTX(n, ...) _Static_assert(sizeof n <= KILN_PROCESSOR_NAME, "its name has room");
#define AMDGPU NVPTX
#define HOST NVPTX
#include "targets/processors.def"
#undef NVPTX
#undef AMDGPU
#undef HOST

static const kiln_host_processor hosts[] = {
    [KILN_HOST_NONE] = {"", "", ""},
    [KILN_HOST_X86_64] = {"x86_64", "x86-64", ""},
    [KILN_HOST_X86_64_V2] = {"x86_64", "x86-64-v2", ""},
    [KILN_HOST_X86_64_V3] = {"x86_64", "x86-64-v3", ""},
    [KILN_HOST_X86_64_V4] = {"x86_64", "x86-64-v4", "-prefer-256-bit"},
    [KILN_HOST_AARCH64] = {"aarch64", "generic", "+neon"},
};

size_t kiln_processor_count(void) { return sizeof processors / sizeof *processors; }

const kiln_processor *kiln_processor_at(size_t index) {
  return index < kiln_processor_count() ? &processors[index] : NULL;
}

const kiln_host_processor *kiln_host_processor_of(const kiln_processor *processor) {
  return &hosts[processor->host];
}

static const char generics[][KILN_PROCESSOR_NAME] = {
    [KILN_GENERIC_NONE] = "",
    [KILN_GENERIC_9] = "gfx9-generic",
    [KILN_GENERIC_9_4] = "gfx9-4-generic",
    [KILN_GENERIC_10_1] = "gfx10-1-generic",
    [KILN_GENERIC_10_3] = "gfx10-3-generic",
    [KILN_GENERIC_11] = "gfx11-generic",
    [KILN_GENERIC_12] = "gfx12-generic",
};

const char *kiln_generic_of(const kiln_processor *processor) { return generics[processor->generic]; }

static const kiln_family_info families[KILN_FAMILY_COUNT] = {
    {.name = "none", .maker = "an unknown family"},
#define KILN_FORMAT_NONE 0
#define FAMILY(code, name, maker, plain, assembled, flushes, assembly, listed, units, buffers, prints, \
               registers)                                                                              \
  [KILN_FAMILY_##code] = {name,                                                                        \
                          maker,                                                                       \
                          KILN_FORMAT_##plain,                                                         \
                          KILN_FORMAT_##assembled,                                                     \
                          flushes,                                                                     \
                          KILN_ASSEMBLY_##assembly,                                                    \
                          listed,                                                                      \
                          units,                                                                       \
                          buffers,                                                                     \
                          prints,                                                                      \
                          registers},
#include "targets/families.def"
#undef FAMILY
#undef KILN_FORMAT_NONE
};

const kiln_family_info *kiln_family_of(kiln_family family) {
  return &families[(unsigned)family < KILN_FAMILY_COUNT ? family : 0];
}

kiln_family kiln_family_find(const char *name) {
  for (unsigned i = 1; i < KILN_FAMILY_COUNT; i++)
    if (!strcmp(families[i].name, name)) return (kiln_family)i;
  return (kiln_family)0;
}

kiln_format kiln_family_format(kiln_family family, bool has_assembler) {
  const kiln_family_info *f = kiln_family_of(family);
  return (kiln_format)(has_assembler && f->assembled ? f->assembled : f->plain);
}

const kiln_processor *kiln_processor_find(const char *name, size_t length) {
  for (size_t i = 0; i < kiln_processor_count(); i++)
    if (strlen(processors[i].name) == length && memcmp(processors[i].name, name, length) == 0)
      return &processors[i];
  return NULL;
}
