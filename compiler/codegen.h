// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The back half of the compiler: a canonical kernel in, an artifact out. Loads LLVM. Thread safe: one call a
// thread at a time, any number of threads (linking takes one lock inside).
#ifndef KILN_COMPILER_CODEGEN_H
#define KILN_COMPILER_CODEGEN_H

#include "base/buffer.h"
#include "base/record.h"
#include "compiler/ir/ir.h"
#include "targets/targets.h"

typedef enum kiln_assembler {
  KILN_ASSEMBLER_NONE,
  KILN_ASSEMBLER_NVJITLINK,
  KILN_ASSEMBLER_PTXAS
} kiln_assembler;

struct kiln_positions;

/// Everything besides kernel and target that decides the bytes. options.def has a row for each field but the
/// last two: how it is spelled, its default, whether it is in the key.
typedef struct kiln_codegen_options {
  uint8_t optimise;  ///< 0..3
  uint8_t assembler; ///< kiln_assembler
  uint8_t output;    ///< kiln_format wanted; 0: the best finished form (cubin when an assembler is set, else
                     ///< PTX; HSACO; host object)
  bool debug;        ///< line information
  const char *assembler_path;             ///< of ptxas or libnvJitLink
  bool verify_passes;                     ///< check the kernel after every pass
  const char *print_after;                ///< name of a pass, or "all": see kiln_artifact.printed; NULL: none
  const struct kiln_positions *positions; ///< with debug: where operations stand; NULL: not known
  int assembler_fd; ///< that file, opened: it is run, whatever is at the path now; 0: by its path
} kiln_codegen_options;

void kiln_codegen_options_init(kiln_codegen_options *options);

/// Nanoseconds by stage, for --time and the benchmarks.
typedef struct kiln_codegen_times {
  uint64_t middle, lower, optimise, emit, assemble, link;
} kiln_codegen_times;

/// What a compile yields. Owned buffers; deinit frees.
typedef struct kiln_artifact {
  kiln_code_info info; ///< texts live in `texts`
  kiln_buffer code;    ///< the object, or text
  kiln_buffer printed; ///< what options.print_after asked for; a kernel that does not verify. Also on errors
  kiln_buffer report;  ///< compiler/report.h
  kiln_arena *texts;   ///< owned
  kiln_codegen_times times;
} kiln_artifact;

void kiln_artifact_deinit(kiln_artifact *artifact);

/// Compiles `kernel` (consumed: passes change it in place) for `target`. Errors: LIMIT (registers, shared
/// memory, tile size; with the numbers), UNSUPPORTED (operation and type on this target), TOOL (assembler's
/// output), INTERNAL (verifier), INVALID_ARGUMENT (no pass is called print_after).
kiln_status kiln_codegen(ir_kernel *kernel, const kiln_target *target, const kiln_codegen_options *options,
                         kiln_artifact *out, kiln_error *err);

struct kiln_stage;

/// The same of a kernel at a stage (compiler/passes/stages.h), whose target it names. With `until` it
/// goes no farther than that pass, and the artifact's code is the kernel after it, as text. INVALID_ARGUMENT
/// where that pass does not run on the kernel. A kernel that turns out not to fit in the GPU form is an error
/// where the stage comes after the passes that began it.
kiln_status kiln_codegen_stage(ir_kernel *kernel, const struct kiln_stage *stage, const char *until,
                               const kiln_codegen_options *options, kiln_artifact *out, kiln_error *err);

/// What this code generator is: "llvm=22.1.8 build-id=<hex>", static text. Two that differ may yield
/// different bytes.
const char *kiln_codegen_fingerprint(void);
/// LLVM gives up on some mistakes by ending the process. `handler` is called before that with LLVM's words
/// and should not return; NULL: LLVM prints and exits. Process-wide; set it before the first compile.
void kiln_codegen_on_fatal(void (*handler)(const char *reason));

#endif
