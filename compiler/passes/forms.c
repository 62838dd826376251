// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The forms that passes leave (pass.h), as checks.
#include "compiler/passes/gpu/layouts/layouts.h"
#include "compiler/passes/lower/legality.h"
#include "compiler/passes/pass.h"

typedef struct checking {
  kiln_form form;
  kiln_error *err;
  kiln_status status;
} checking;

static void fail(checking *k, const ir_op *op, const char *fault) {
  if (k->status != KILN_OK) return;
  k->status = kiln_fail_at(k->err, KILN_STATUS_INTERNAL, ir_operation(op), "operation %u (%s): %s",
                           ir_operation(op), ir_ops[op->code].text, fault);
}

/// Machine operations are what accesses through tensor maps become.
static bool takes_views(const ir_op *op) { return op->code >= IR_TILE_COUNT || ir_is_mapped(op); }

static void check_views(checking *k, const ir_op *op) {
  for (uint32_t i = 0; i < op->operand_count; i++) {
    const ir_value *v = op->operands[i];
    if (!v->type.is_view) continue;
    if (!v->def || v->def->code != IR_VIEW)
      fail(k, op, "an operand is a view that no `view` operation makes");
    else if (k->form >= KILN_FORM_POINTERS && !takes_views(op))
      fail(k, op, "an access of a view that goes through no tensor map");
  }
}

kiln_status kiln_form_verify(const ir_kernel *kernel, const kiln_target *target, kiln_form form,
                             kiln_error *err) {
  checking k = {.form = form, .err = err};
  for (const ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op)) {
    if (form >= KILN_FORM_OPEN_VIEWS) check_views(&k, op);
    if (form >= KILN_FORM_LEGAL && op->code < IR_TILE_COUNT &&
        kiln_legality_of(op, target).legal == KILN_LEGAL_EXPANDED)
      fail(&k, op, "the target has no such operation, and it is not expanded");
  }
  if (k.status != KILN_OK) return k.status;
  if (form == KILN_FORM_LAYOUTS) return kiln_layouts_verify(kernel, err);
  if (form < KILN_FORM_CONVERTED) return KILN_OK;
  return kiln_conversions_verify(kernel, form == KILN_FORM_EXCHANGED, err);
}
