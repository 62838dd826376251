// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From what LLVM emits to what is stored: linking for AMDGPU and the host, the vendor's assembler for NVPTX,
// and reading back what the code costs.
#ifndef KILN_COMPILER_CODEGEN_FINISH_H
#define KILN_COMPILER_CODEGEN_FINISH_H

#include "compiler/codegen.h"
#include "compiler/codegen/backend.h"

/// Links one relocatable object into a shared object with lld, in process and under one lock: no path, time
/// or build-id in it. TOOL with lld's words. `debug`: with the line information that the object has.
kiln_status kiln_finish_link(const kiln_backend *backend, bool debug, const uint8_t *object, size_t size,
                             kiln_buffer *out, kiln_error *err);

/// The same for what a back end finishes, with its flags.
kiln_status kiln_finish_object(kiln_finishing *f, kiln_error *err);

/// CORRUPT unless a host object keeps the promises that libkiln relies on: `symbol` is defined, nothing is
/// undefined, only relative relocations, nothing to initialise, no needed libraries.
kiln_status kiln_finish_check_host(const uint8_t *object, size_t size, const char *symbol, kiln_error *err);

/// CORRUPT unless a cubin is whole: every section and segment inside of it, code for each kernel that the PTX
/// (NUL-terminated, as LLVM prints it) declares, and parameters of the places and sizes declared there.
kiln_status kiln_finish_check_cubin(const uint8_t *cubin, size_t size, const char *ptx, kiln_error *err);

/// Makes a cubin of NUL-terminated PTX with the assembler that `options` names, appends it to `out`, and sets
/// registers and spill_bytes of `info` when the assembler says them. `producer` gets the tool's name and
/// version. Safe in threads. TOOL when the tool is not there (with the places looked at) or too old for the
/// text, LIMIT when the kernel asks for more than the processor has, INTERNAL when it refuses the text for
/// another reason (with its words); CORRUPT when what it wrote is not whole.
kiln_status kiln_finish_cubin(const kiln_target *target, const kiln_codegen_options *options, const char *ptx,
                              kiln_buffer *out, kiln_code_info *info, kiln_buffer *producer, kiln_error *err);

/// What a code object says about kernel `symbol`. Arguments beyond KILN_AMDGPU_ARGS are counted, not kept.
enum { KILN_AMDGPU_ARGS = 64 };
typedef struct kiln_amdgpu_facts {
  uint32_t lds_bytes, private_bytes, kernarg_bytes, kernarg_align;
  uint32_t vgprs, agprs, sgprs, vgpr_spills, sgpr_spills, wave, max_threads;
  uint32_t code_object; ///< 4, 5 or 6
  bool dynamic_stack;
  uint32_t arg_count;
  struct {
    uint32_t offset, size;
  } args[KILN_AMDGPU_ARGS];
  char target[96]; ///< "amdgcn-amd-amdhsa--gfx942:xnack-"
} kiln_amdgpu_facts;
/// Reads the metadata note of a code object. CORRUPT when it is not there or damaged, NOT_FOUND when the
/// kernel is not in it.
kiln_status kiln_amdgpu_read_facts(const uint8_t *object, size_t size, const char *symbol,
                                   kiln_amdgpu_facts *out, kiln_error *err);
/// CORRUPT unless a code object is whole and has the kernel's code and its descriptor, which asks for the
/// arguments that `facts` tells of.
kiln_status kiln_finish_check_amdgpu(const uint8_t *object, size_t size, const char *symbol,
                                     const kiln_amdgpu_facts *facts, kiln_error *err);

#endif
