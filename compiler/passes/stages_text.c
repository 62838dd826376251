// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel at a stage, as text (stages.h).
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/expr.h"
#include "compiler/passes/gpu/gpu.h"
#include "compiler/passes/gpu/layouts/layouts_text.h"
#include "compiler/passes/stages.h"

/// Reasons by the names of their rows, in small letters.
static const char *const reasons[] = {
#define KIND(code, text)
#define ENGINE(code, text)
#define REASON(code, text) #code,
#include "compiler/report.def"
#undef KIND
#undef ENGINE
#undef REASON
};

enum { MOST_REASON = 32, MOST_REFUSALS = 1 << 16 };

static const char *reason_word(unsigned reason, char out[MOST_REASON]) {
  unsigned i = 0;
  for (; reasons[reason][i] && i < MOST_REASON - 1; i++) out[i] = (char)tolower(reasons[reason][i]);
  out[i] = 0;
  return out;
}

static void put_refusals(const kiln_refusals *r, kiln_buffer *out) {
  char word[MOST_REASON];
  for (uint32_t i = 0; i < r->count; i++) {
    kiln_buffer_format(out, "refused %u %s", r->items[i].operation, reason_word(r->items[i].reason, word));
    if (r->items[i].parameter) kiln_buffer_format(out, " parameter=%u", r->items[i].parameter - 1);
    kiln_buffer_u8(out, '\n');
  }
  if (r->others) kiln_buffer_format(out, "refused others %s\n", reason_word(r->others, word));
}

void kiln_stage_print(const kiln_stage *stage, ir_kernel *kernel, kiln_buffer *out) {
  char name[KILN_TARGET_NAME];
  kiln_buffer_format(out, "kir %d\ntarget %s\nafter ", KILN_TEXT_VERSION,
                     kiln_target_name(&stage->target, name));
  kiln_buffer_format(out, "%s%s%s\n", stage->pass ? stage->pass->name : "front",
                     stage->is_plain ? " plain" : "", stage->is_wide ? " wide" : "");
  put_refusals(&stage->refusals, out);
  ir_text_print(kernel, NULL, &kiln_layouts_text, out);
  if (!stage->module) return;
  kiln_buffer_format(out, "module\n");
  kiln_buffer_bytes(out, stage->module, stage->module_size);
}

// ----------------------------------------------------------------------------------------- reading

/// "guard", "front".
static bool read_pass(ir_words *w, kiln_stage *out) {
  if (ir_words_take(w, "front")) return true;
  for (size_t i = 0; i < kiln_pass_count; i++)
    if (ir_words_take(w, kiln_passes[i].name)) return out->pass = &kiln_passes[i], true;
  return ir_words_fail(w, "the name of a pass, such as guard, or 'front'");
}

static bool read_reason(ir_words *w, kiln_report_reason *out) {
  char word[MOST_REASON];
  for (unsigned i = 1; i < KILN_REASONS; i++)
    if (ir_words_take(w, reason_word(i, word))) return *out = (kiln_report_reason)i, true;
  return ir_words_fail(w, "the name of a reason");
}

/// "others groups", "12 map_align parameter=3".
static bool read_refusal(ir_words *w, kiln_refusals *out) {
  kiln_refusal refusal = {0};
  int64_t number;
  if (ir_words_take(w, "others")) return read_reason(w, &out->others);
  if (!ir_words_number(w, 0, UINT32_MAX - 1, &number)) return false;
  refusal.operation = (uint32_t)number;
  if (!read_reason(w, &refusal.reason)) return false;
  if (ir_words_take(w, "parameter")) {
    if (!ir_words_expect(w, "=") || !ir_words_number(w, 0, UINT32_MAX - 1, &number)) return false;
    refusal.parameter = (uint32_t)number + 1;
  }
  if (out->count == MOST_REFUSALS) return ir_words_fail(w, "at most 65536 refusals");
  kiln_refuse(out, &refusal);
  return true;
}

static bool read_head(ir_words *w, kiln_stage *out) {
  const char *name;
  kiln_error err = {0};
  int64_t version;
  if (!ir_words_expect(w, "kir") || !ir_words_number(w, KILN_TEXT_VERSION, KILN_TEXT_VERSION, &version) ||
      !ir_words_expect(w, "target"))
    return false;
  const ir_place place = w->place;
  if (!ir_words_line(w, &name)) return false;
  if (kiln_target_parse(name, &out->target, &err) != KILN_OK)
    return ir_words_fail_at(w, place, "%s", err.text);
  if (!ir_words_expect(w, "after") || !read_pass(w, out)) return false;
  out->is_plain = ir_words_take(w, "plain");
  out->is_wide = ir_words_take(w, "wide");
  while (ir_words_take(w, "refused"))
    if (!read_refusal(w, &out->refusals)) return false;
  return w->error.status == KILN_OK;
}

/// Layouts are there where the pass has made some, and fit the kernel.
static bool check_layouts(ir_words *w, const kiln_stage *stage, ir_kernel *kernel, ir_place place) {
  kiln_error err = {0};
  const kiln_form form = stage->pass ? stage->pass->leaves : KILN_FORM_CANONICAL;
  const bool has_run = form >= KILN_FORM_LAYOUTS;
  if (has_run != (kernel->layouts != NULL))
    return ir_words_fail_at(w, place,
                            has_run ? "expected the line 'layouts' in a kernel after that pass, found none"
                                    : "expected no line 'layouts' before that pass, found one");
  if (!has_run) return true;
  const kiln_fetch_machine machine = kiln_fetch_machine_of(&stage->target);
  if (!kiln_layouts_text_open(kernel, &machine))
    return ir_words_fail_at(w, place, "expected at most %u warps, found %u", machine.threads >> machine.lanes,
                            kernel->warps);
  const kiln_status status = kiln_form_verify(kernel, &stage->target, form, &err);
  return status == KILN_OK || ir_words_fail_at(w, place, "the layouts do not fit: %s", err.text);
}

/// All together are one expression.
static bool check_conditions(ir_words *w, const ir_kernel *kernel, ir_place place) {
  kiln_buffer all = {0};
  kiln_write_conditions(kernel, &all);
  const bool do_fit = !all.failed && kiln_expr_verify(all.bytes, all.size, kernel->param_count);
  kiln_buffer_deinit(&all);
  return do_fit || ir_words_fail_at(w, place, "expected conditions of at most %d operations, found more",
                                    KILN_EXPR_OPS);
}

/// All that is left of the text, after the line "module". LLVM reads it when the kernel is lowered; whether it is text is
/// looked at here, since LLVM would take its binary form as well.
static bool read_module(ir_words *w, kiln_stage *out) {
  const ir_place place = w->place;
  if (w->at == w->end || *w->at != '\n')
    return ir_words_fail_at(w, place, "expected nothing after 'module' on its line");
  out->module = w->at + 1;
  out->module_size = (size_t)(w->end - out->module);
  out->module_line = place.line + 1;
  for (size_t i = 0; i < out->module_size; i++) {
    const unsigned char c = (unsigned char)out->module[i];
    if ((c < ' ' && !strchr("\t\r\n", c)) || !c)
      return ir_words_fail_at(w, place, "expected LLVM IR as text, found byte %u at byte %zu of it", c, i);
  }
  w->at = w->end;
  ir_words_next(w);
  return true;
}

kiln_status kiln_stage_read(kiln_arena *arena, const char *text, size_t size, kiln_stage *out_stage,
                            ir_kernel **out_kernel, ir_place *out_place, kiln_error *err) {
  ir_reading *r = KILN_NEW(arena, ir_reading);
  *out_stage = (kiln_stage){.refusals = {.arena = arena}};
  *out_kernel = NULL;
  ir_words_open(&r->w, arena, text, size);
  bool is_good = read_head(&r->w, out_stage);
  const ir_place place = r->w.place;
  is_good = is_good && ir_text_read(r, &kiln_layouts_text) && check_conditions(&r->w, r->kernel, place) &&
            check_layouts(&r->w, out_stage, r->kernel, place);
  if (is_good && ir_words_at(&r->w, "module")) is_good = read_module(&r->w, out_stage);
  if (is_good && r->w.kind != IR_TOKEN_END)
    is_good = ir_words_fail(&r->w, "the end of the text: it holds one kernel");
  *out_place = is_good ? (ir_place){0} : r->w.place;
  if (!is_good) return kiln_fail(err, KILN_STATUS_SOURCE, "%s", r->w.error.text);
  *out_kernel = r->kernel;
  return KILN_OK;
}
