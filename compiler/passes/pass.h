// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a pass is. passes.def lists all of them, one file each in canonical/, lower/ and gpu/.
#ifndef KILN_COMPILER_PASSES_PASS_H
#define KILN_COMPILER_PASSES_PASS_H

#include "base/buffer.h"
#include "compiler/ir/ir.h"
#include "compiler/target_info.h"
#include "compiler/report.h"
#include "targets/targets.h"

/// What `recover` and `promote` may do (kiln_pass_context.mapping).
enum {
  KILN_MAP_PROMOTE = 1, ///< accesses may be marked for tensor maps
  KILN_MAP_RECOVER = 2, ///< tiles of pointers may become accesses of views
  KILN_MAP_ANYWAY = 4,  ///< also where nothing is promoted then: tests ask for it
};

/// What a pass knows besides the kernel.
typedef struct kiln_pass_context {
  const kiln_target *target;  ///< borrowed; rounds of the canonical form have none
  kiln_fetch_machine machine; ///< of the target
  kiln_refusals *refusals;    ///< borrowed: what a report says of the kernel; NULL: nobody asks
  uint8_t mapping;            ///< KILN_MAP_*
  bool changed; ///< set by a pass of the canonical form, licm, narrow and guard, if it changed anything
} kiln_pass_context;

/// The context for kernels of `target`, which it borrows, with nothing mapped.
kiln_pass_context kiln_pass_context_of(const kiln_target *target);

/// Rewrites `kernel` in place. A pass gets a verified kernel with all forwards applied and leaves one; its
/// result depends on nothing else than kernel and context. Errors: UNSUPPORTED or LIMIT where the kernel does
/// not fit the target (in this form), INTERNAL, OUT_OF_MEMORY. Thread safe for different kernels.
typedef kiln_status kiln_pass_run(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err);

#define ROUND(name, function, when, text) kiln_pass_run kiln_pass_##function;
#define PASS(name, function, when, needs, leaves, text) kiln_pass_run kiln_pass_##function;
#include "compiler/passes/passes.def" // IWYU pragma: keep

/// How far lowering has come. Each form has what those before it have.
typedef enum kiln_form {
  KILN_FORM_CANONICAL,
  KILN_FORM_OPEN_VIEWS, ///< no parameter, carried value or result of a branch is a view
  KILN_FORM_POINTERS,   ///< no views but those of accesses through tensor maps
  KILN_FORM_LEGAL,      ///< no operation that legality.def calls expanded
  KILN_FORM_LAYOUTS,    ///< every tile has a layout (gpu/layouts/layouts.h)
  KILN_FORM_CONVERTED,  ///< and is used in it, but for operands of products
  KILN_FORM_EXCHANGED,  ///< these too, or they are in shared memory
  KILN_FORMS
} kiln_form;

/// INTERNAL: the kernel is not in the form, or without one that comes later; the message says where.
kiln_status kiln_form_verify(const ir_kernel *kernel, const kiln_target *target, kiln_form form,
                             kiln_error *err);

/// Which kernels a pass is for: see passes.def.
typedef enum kiln_pass_when {
  KILN_WHEN_ALL,
  KILN_WHEN_MAPPED,
  KILN_WHEN_PLAIN,
  KILN_WHEN_BUFFERS,
  KILN_WHEN_GPUS,
} kiln_pass_when;

/// A row of the table.
typedef struct kiln_pass {
  char name[16]; ///< as --print-after spells it; unique
  kiln_pass_when when;
  kiln_form needs, leaves;
  kiln_pass_run *run; ///< of a pass that is no row of the table; NULL: the row's
} kiln_pass;

/// The PASS rows, in order.
extern const kiln_pass kiln_passes[];
extern const size_t kiln_pass_count;

/// NULL when there is no such pass.
const kiln_pass *kiln_find_pass(const char *name);

typedef struct kiln_pass_options {
  bool verify;             ///< the verifier runs after the pass; see also kiln_check_passes
  const char *print_after; ///< name of a pass, or "all"; NULL: nothing is printed
  /// Appends a kernel after a pass; `shown` is its context. NULL: ir_print.
  void (*show)(const void *shown, const kiln_pass *pass, ir_kernel *kernel, kiln_buffer *out);
  const void *shown;
  kiln_buffer *printed; ///< what print_after asks for, and a kernel that does not verify; NULL: nothing
} kiln_pass_options;

/// Runs one pass. Errors: those of the pass; INTERNAL where the verifier finds a fault: the message names the
/// pass, and the kernel is printed with the fault next to its operation.
kiln_status kiln_run_pass(const kiln_pass *pass, ir_kernel *kernel, kiln_pass_context *context,
                          const kiln_pass_options *options, kiln_error *err);

/// Whether every pass of this process is verified, whatever its options say. Tests turn it on; builds with
/// KILN_CHECKED (debug and sanitizers) begin with it. Set it before the first compile.
void kiln_check_passes(bool on);

#endif
