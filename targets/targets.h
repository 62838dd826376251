// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Machines that code is made for: names, facts, and which code runs where. Uses no LLVM and no driver; thread
// safe; allocates nothing.
#ifndef KILN_TARGETS_TARGETS_H
#define KILN_TARGETS_TARGETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kiln_family { KILN_FAMILY_HOST = 1, KILN_FAMILY_NVPTX = 2, KILN_FAMILY_AMDGPU = 3 } kiln_family;
enum { KILN_FAMILY_COUNT = 4 }; ///< sizes tables that a family indexes; 0 is none

/// Inline assembly that a family takes.
typedef enum kiln_assembly { KILN_ASSEMBLY_NONE, KILN_ASSEMBLY_PTX, KILN_ASSEMBLY_AMD } kiln_assembly;

/// A row of families.def, which explains the columns.
typedef struct kiln_family_info {
  char name[8], maker[20];
  uint8_t plain, assembled; ///< kiln_format; 0: none
  bool flushes;
  uint8_t assembly; ///< kiln_assembly
  bool is_listed, has_units, has_buffers, prints;
  uint16_t registers;
} kiln_family_info;

/// Matrix units; back ends choose instruction forms by it.
typedef enum kiln_matrix {
  KILN_MATRIX_NONE,
  KILN_MATRIX_MMA_75,
  KILN_MATRIX_MMA_80,
  KILN_MATRIX_MMA_89,
  KILN_MATRIX_WGMMA,
  KILN_MATRIX_MFMA_908,
  KILN_MATRIX_MFMA_90A,
  KILN_MATRIX_MFMA_942,
  KILN_MATRIX_WMMA_11,
  KILN_MATRIX_WMMA_12,
  KILN_MATRIX_MFMA_950,
  KILN_MATRIX_MFMA_9_4, ///< what 942 and 950 have alike
  KILN_MATRIX_WMMA_1250,
} kiln_matrix;

/// NVPTX: where code of a capability runs besides on itself.
typedef enum kiln_reach {
  KILN_REACH_ONWARD, ///< later capabilities: machine code in the major version, PTX in all
  KILN_REACH_FAMILY, ///< later capabilities of the family, which is the major version
  KILN_REACH_ALONE,  ///< nowhere
} kiln_reach;

/// A feature that code may need on, need off, or not care about (AMDGPU target ids).
typedef enum kiln_mode { KILN_MODE_ANY, KILN_MODE_ON, KILN_MODE_OFF } kiln_mode;

enum { KILN_PROCESSOR_NAME = 16 };

/// Rows of the table of hosts (kiln_host_processor).
typedef enum kiln_host {
  KILN_HOST_NONE,
  KILN_HOST_X86_64,
  KILN_HOST_X86_64_V2,
  KILN_HOST_X86_64_V3,
  KILN_HOST_X86_64_V4,
  KILN_HOST_AARCH64,
} kiln_host;

/// Generic targets of AMDGPU, whose code runs on several processors.
typedef enum kiln_generic {
  KILN_GENERIC_NONE,
  KILN_GENERIC_9,
  KILN_GENERIC_9_4,
  KILN_GENERIC_10_1,
  KILN_GENERIC_10_3,
  KILN_GENERIC_11,
  KILN_GENERIC_12,
} kiln_generic;

/// A row of processors.def. Fields that a family lacks are zero or "".
/// Texts that every row has are inside: the loader relocates each pointer, which costs libkiln 24 bytes more.
typedef struct kiln_processor {
  char name[KILN_PROCESSOR_NAME];
  uint32_t shared_bytes;      ///< shared memory (LDS) a block may use
  uint16_t number;            ///< NVPTX: 90; AMDGPU: 0x90a as major << 8 | minor << 4 | step
  uint16_t vector_bytes;      ///< host
  uint8_t family;             ///< kiln_family
  uint8_t matrix;             ///< kiln_matrix
  uint8_t generic;            ///< AMDGPU: kiln_generic, the target whose code runs here
  uint8_t reach;              ///< NVPTX: kiln_reach
  uint8_t ptx;                ///< NVPTX: PTX ISA version x 10
  uint8_t major, minor, step; ///< AMDGPU
  uint8_t wave, waves;        ///< AMDGPU
  uint8_t llvm;               ///< first version of LLVM that makes code for it; 0: any
  uint8_t generic_version;    ///< AMDGPU: non-zero for a generic target
  uint8_t code_object; ///< AMDGPU: version unless the target says another; 0: the family has no settings
  bool has_xnack, has_sramecc;
  uint8_t level; ///< host
  uint8_t host;  ///< kiln_host
} kiln_processor;

/// LLVM's names of a processor of the host family.
typedef struct kiln_host_processor {
  char arch[8], cpu[12], features[20];
} kiln_host_processor;

/// A processor with its modes: everything that decides which machine code is made. A value; text is inside.
enum { KILN_TARGET_FEATURES = 1024 };
typedef struct kiln_target {
  const kiln_processor *processor; ///< static
  kiln_mode xnack, sramecc;
  uint8_t wave;                               ///< AMDGPU: 32 or 64; else 32 on NVPTX and 1 on the host
  uint8_t code_object;                        ///< AMDGPU: 4, 5 or 6
  char native_cpu[32];                        ///< host `native`: resolved name, else ""
  char native_features[KILN_TARGET_FEATURES]; ///< host `native`: resolved "+a,-b" list in sorted order, else
                                              ///< ""
} kiln_target;

size_t kiln_processor_count(void);
const kiln_processor *kiln_processor_at(size_t index);
const kiln_processor *kiln_processor_find(const char *name, size_t length);
/// All are "" for another family, and for `native` before it is resolved.
const kiln_host_processor *kiln_host_processor_of(const kiln_processor *processor);

/// The name of the generic target whose code runs there, or "".
const char *kiln_generic_of(const kiln_processor *processor);

const kiln_family_info *kiln_family_of(kiln_family family);
/// Of the family with that name; 0: there is none.
kiln_family kiln_family_find(const char *name);
/// The form that "the best finished one" means.
kiln_format kiln_family_format(kiln_family family, bool has_assembler);

/// Reads "sm_90a", "gfx942", "gfx942:xnack-:sramecc+", "gfx1100:wave64", "gfx906:v4", "host" (alias of
/// x86-64-v3), "x86-64-v4", "native". `native` is resolved with the processor this program runs on. Error:
/// TARGET, with the names that exist.
kiln_status kiln_target_parse(const char *text, kiln_target *out, kiln_error *err);

/// The canonical name: what kiln_target_parse reads back, defaults left out. Part of keys and bundle records.
enum { KILN_TARGET_NAME = 96 };
const char *kiln_target_name(const kiln_target *target, char out[KILN_TARGET_NAME]);
/// LLVM's triple, processor and feature list.
const char *kiln_target_triple(const kiln_target *target);
const char *kiln_target_cpu(const kiln_target *target);
const char *kiln_target_features(const kiln_target *target, char out[KILN_TARGET_FEATURES + 64]);

/// A list of processors: names, prefixes that end in '*', and "host", which is every processor of the host,
/// native too. Reads "sm_90a, gfx94*" and writes the canonical "sm_90a|gfx94*". Error: TARGET.
enum { KILN_TARGET_LIST = 256 };
kiln_status kiln_target_list_parse(const char *text, char out[KILN_TARGET_LIST], kiln_error *err);
/// `list` is canonical.
bool kiln_target_list_has(const char *list, const kiln_processor *processor);

// --------------------------------------------------------------------------- which code runs where

/// A device as a driver describes it: "sm_90" (capability), "gfx942:sramecc+:xnack-" (HIP's gcnArchName), or
/// host features.
typedef struct kiln_device_target {
  kiln_family family;
  uint16_t number;          ///< NVPTX capability x 10; AMDGPU major << 8 | minor << 4 | step
  kiln_mode xnack, sramecc; ///< AMDGPU: what the device runs with
  uint8_t level;            ///< host x86-64 level this processor has; 0 on aarch64
  uint16_t driver_ptx;      ///< NVPTX: newest PTX ISA x 10 that the driver takes; 0 unknown
  char name[64];            ///< for messages
} kiln_device_target;

kiln_status kiln_device_target_parse(const char *text, kiln_device_target *out, kiln_error *err);
/// The machine this program runs on.
void kiln_device_target_host(kiln_device_target *out);

/// How good code is for a device: smaller is better; KILN_RANK_REFUSED: does not run, `out_rule` names the
/// rule ("xnack differs: ...").
enum {
  KILN_RANK_EXACT_MODES = 0,
  KILN_RANK_EXACT = 1,
  KILN_RANK_GENERIC = 2,
  KILN_RANK_SAME_MAJOR = 3,
  KILN_RANK_FAMILY = 4,
  KILN_RANK_PTX = 5,
  KILN_RANK_REFUSED = 255,
};
enum { KILN_RULE_TEXT = 160 };
/// `is_ptx`: the artifact is PTX text that a driver compiles.
unsigned kiln_target_rank(const kiln_target *code, bool is_ptx, const kiln_device_target *device,
                          char out_rule[KILN_RULE_TEXT]);

#ifdef __cplusplus
}
#endif
#endif
