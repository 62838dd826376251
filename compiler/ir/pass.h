// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lists of passes: how they run, are checked and are looked at. The middle and the passes for GPUs are such
// lists.
#ifndef KILN_COMPILER_IR_PASS_H
#define KILN_COMPILER_IR_PASS_H

#include "base/buffer.h"
#include "compiler/ir/ir.h"

/// Rewrites `kernel` in place. A pass gets a verified kernel with all forwards applied and leaves one.
/// `context` is the list's: what its passes need to know besides the kernel.
typedef kiln_status ir_pass_run(ir_kernel *kernel, const void *context, kiln_error *err);

/// A row of a list.
typedef struct ir_pass {
  const char *name; ///< as --print-after spells it; unique in all lists that run on one kernel
  ir_pass_run *run;
  /// Holds what the pass adds to the IR against the kernel, where the verifier runs; NULL: it adds nothing.
  kiln_status (*verify)(const ir_kernel *kernel, kiln_error *err);
} ir_pass;

typedef struct ir_pass_options {
  const char *start_after; ///< name of the last pass that has run already; NULL: none has
  const char *print_after; ///< name of a pass, or "all"; NULL: nothing is printed
  const char *stop_after;  ///< name of the last pass to run; NULL: all
  /// Prints a kernel behind a pass; NULL: ir_print. `shown` is its context.
  void (*show)(const void *shown, const char *pass, ir_kernel *kernel, kiln_buffer *out);
  const void *shown;
  bool verify;          ///< run the verifier after every pass; see also ir_check_passes
  kiln_buffer *printed; ///< text is appended here: what print_after asks for, and a kernel that does not
                        ///< verify; NULL: nothing is printed
} ir_pass_options;

/// Runs the list in order. The verifier runs at the end in any case. Errors: those of the passes; INTERNAL
/// when the verifier finds a fault: the message names the pass, and the kernel is printed with the fault
/// beside its operation.
kiln_status ir_run_passes(const ir_pass *passes, size_t count, ir_kernel *kernel, const void *context,
                          const ir_pass_options *options, kiln_error *err);

/// NULL when the list has no such pass.
const ir_pass *ir_find_pass(const ir_pass *passes, size_t count, const char *name);

/// Whether every pass of this process is verified, whatever its options say. Tests turn it on; builds with
/// KILN_CHECKED (debug and sanitizers) begin with it. Set it before the first compile.
void ir_check_passes(bool on);

#endif
