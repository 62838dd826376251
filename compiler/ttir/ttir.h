// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The Triton IR front end: TTIR text in, ordinary kernel IR out. Nothing after it knows where a kernel came
// from.
#ifndef KILN_COMPILER_TTIR_H
#define KILN_COMPILER_TTIR_H

#include "compiler/front.h"

/// What TTIR does not say and Triton's metadata does. Zero: not known.
typedef struct ttir_facts {
  uint32_t warps, stages, max_registers;
  bool no_fusion; ///< multiplication and addition are not contracted
  bool is_cuda;   ///< the text was written for CUDA
} ttir_facts;

enum { TTIR_DEFAULT_WARPS = 4, TTIR_DEFAULT_STAGES = 3 };

/// Reads Triton's metadata JSON (num_warps, num_stages, maxnreg, enable_fp_fusion, warp sizes apart). Fields
/// that are absent stay as they are.
kiln_status ttir_read_facts(kiln_arena *arena, const char *text, size_t size, ttir_facts *facts,
                            kiln_error *err);

typedef struct ttir_module ttir_module; ///< lives in its arena

/// Finds the functions of a module. NULL when there were errors; they are in `d`. The module borrows `text`
/// and `file`.
ttir_module *ttir_open(kiln_arena *arena, const char *file, const char *text, size_t size,
                       kiln_diagnostics *d);
/// Public functions, in order of the text: the kernels.
size_t ttir_kernel_count(const ttir_module *module);
/// Builds and verifies kernel `index` in `arena`. NULL when there were errors; they are in `d`.
ir_kernel *ttir_build(const ttir_module *module, size_t index, const ttir_facts *facts, kiln_arena *arena,
                      kiln_diagnostics *d);
/// The Python place of what stands on a line of the text ("softmax.py:12:8"), out of its loc; "" when none is
/// known. Returns `out`.
enum { TTIR_PLACE_TEXT = 256 };
const char *ttir_source_place(const ttir_module *module, uint32_t line, char out[TTIR_PLACE_TEXT]);

#endif
