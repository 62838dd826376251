// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints the report of a compiled kernel for `kiln compile --report`, with lines of the source.
#include "tools/build/report.h"

#include <stdio.h>
#include <string.h>

#include "compiler/report.h"
#include "targets/occupancy.h"

/// The inputs of a report.
typedef struct facts {
  const plan *p;
  const plan_job *job;
  const kiln_interface *interface;
  const kiln_target *target;
  kiln_code_info info;
  kiln_occupancy occupancy;
  kiln_report_rows rows;
  ir_kernel *kernel; ///< NULL: no places
} facts;

enum { REASON_TEXT = 300 };

/// "stride 0 of B": a kernel has a view's base, extents and strides as parameters of their own.
static void name_parameter(const facts *f, uint32_t number, char *out, size_t capacity) {
  for (uint32_t i = 0; i < f->interface->param_count; i++) {
    const kiln_param_record *p = &f->interface->params[i];
    uint32_t parts = p->view_rank ? 1u + 2u * p->view_rank : 1;
    if (number >= parts) {
      number -= parts;
      continue;
    }
    if (!number) snprintf(out, capacity, "%s", p->name);
    else if (number <= p->view_rank) snprintf(out, capacity, "extent %u of %s", number - 1, p->name);
    else snprintf(out, capacity, "stride %u of %s", number - 1 - p->view_rank, p->name);
    return;
  }
  snprintf(out, capacity, "a parameter");
}

/// Of a product that has wgmma, from slots that threads fill, why no tensor maps fill them.
static const char *text_of(const kiln_report_row *row) {
  static const char lacks[] = "no wgmma: ";
  const char *text = kiln_reason_text(row->reason);
  const bool has_it = row->name && !strncmp(row->name, "wgmma", 5);
  return has_it && !strncmp(text, lacks, sizeof lacks - 1) ? text + sizeof lacks - 1 : text;
}

/// A text of report.def with the parameter in the place of its %s.
static void reason_of(const facts *f, const kiln_report_row *row, char out[REASON_TEXT]) {
  const char *text = text_of(row), *gap = strchr(text, '%');
  char name[200] = "";
  if (!gap) {
    snprintf(out, REASON_TEXT, "%s", text);
    return;
  }
  name_parameter(f, row->parameter - 1, name, sizeof name);
  snprintf(out, REASON_TEXT, "%.*s%s%s", (int)(gap - text), text, name, gap + 2);
}

static ir_place source_place(const facts *f, const kiln_report_row *row) {
  return f->kernel ? kiln_operation_place(f->kernel, row->operation) : (ir_place){0};
}

static kiln_status gather(facts *f, kiln_arena *arena, kiln_error *err) {
  if (!kiln_code_info_decode(f->job->info.bytes, f->job->info.size, &f->info) ||
      !kiln_report_read(arena, f->job->report.bytes, f->job->report.size, &f->rows))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "the report of %s is damaged", f->interface->name);
  kiln_cost cost = {f->info.block_threads, f->info.registers, f->info.shared_bytes};
  f->occupancy = kiln_target_occupancy(f->target, &cost);
  f->kernel = plan_kernel(f->p, f->job, arena);
  return KILN_OK;
}

// ----------------------------------------------------------------------------------------------- text

static void print_number(kiln_buffer *out, const char *name, uint32_t value, const char *unit) {
  kiln_buffer_format(out, "  %-18s %u%s\n", name, value, unit);
}

static void print_costs(const facts *f, kiln_buffer *out) {
  const kiln_code_info *i = &f->info;
  print_number(out, "threads a block", i->block_threads, "");
  if (i->registers) {
    print_number(out, "registers", i->registers, " a thread");
    if (i->scalar_registers) print_number(out, "scalar registers", i->scalar_registers, "");
    print_number(out, "spills", i->spill_bytes, " bytes a thread");
  } else if (kiln_family_of(f->target->processor->family)->assembled) {
    kiln_buffer_format(out, "  %-18s known when the assembler has made a cubin\n", "registers");
  }
  print_number(out, "shared memory", i->shared_bytes, " bytes a block");
  if (i->scratch_bytes) print_number(out, "scratch memory", i->scratch_bytes, " bytes a program");
  if (f->occupancy.is_known)
    kiln_buffer_format(out, "  %-18s %u of %u waves, %u block%s at a time%s\n", "occupancy",
                       f->occupancy.waves, f->occupancy.most, f->occupancy.blocks,
                       f->occupancy.blocks == 1 ? "" : "s", i->registers ? "" : ", registers not counted");
}

static void print_row(const facts *f, const kiln_report_row *row, kiln_buffer *out) {
  char reason[REASON_TEXT];
  ir_place place = source_place(f, row);
  if (place.line)
    kiln_buffer_format(out, "%s:%u:%u: ", f->p->sources[f->job->source].path, place.line, place.column);
  kiln_buffer_format(out, "%s: %s", kiln_report_kind_text(row->kind), kiln_engine_text(row->engine));
  if (row->kind == KILN_REPORT_PRODUCT) kiln_buffer_format(out, "%s%s", *row->name ? ", " : "", row->name);
  else kiln_buffer_format(out, ", %u bytes", row->bytes);
  if (row->write) kiln_buffer_format(out, ", %u-way banks written", row->write);
  if (row->read) kiln_buffer_format(out, ", %u-way read", row->read);
  reason_of(f, row, reason);
  kiln_buffer_format(out, "%s%s\n", *reason ? ": " : "", reason);
}

static void print_text(const facts *f, kiln_buffer *out) {
  char title[300];
  kiln_buffer_format(out, "%s\n", plan_job_title(f->p, f->job, title, sizeof title));
  print_costs(f, out);
  for (uint32_t i = 0; i < f->rows.count; i++) print_row(f, &f->rows.items[i], out);
}

// ----------------------------------------------------------------------------------------------- JSON

static void put_member(kiln_buffer *out, const char *name, const char *text) {
  kiln_buffer_format(out, "\"%s\": ", name);
  cli_json_text(out, text);
  kiln_buffer_format(out, ", ");
}

static void put_row(const facts *f, const kiln_report_row *row, kiln_buffer *out) {
  char reason[REASON_TEXT];
  ir_place place = source_place(f, row);
  reason_of(f, row, reason);
  kiln_buffer_format(out, "{");
  put_member(out, "kind", kiln_report_kind_text(row->kind));
  put_member(out, "engine", kiln_engine_text(row->engine));
  if (*row->name) put_member(out, "instruction", row->name);
  if (row->kind != KILN_REPORT_PRODUCT) kiln_buffer_format(out, "\"bytes\": %u, ", row->bytes);
  if (row->write) kiln_buffer_format(out, "\"write_conflicts\": %u, ", row->write);
  if (row->read) kiln_buffer_format(out, "\"read_conflicts\": %u, ", row->read);
  if (*reason) put_member(out, "why", reason);
  if (place.line) kiln_buffer_format(out, "\"line\": %u, \"column\": %u, ", place.line, place.column);
  kiln_buffer_format(out, "\"operation\": %u}", row->operation);
}

static void print_json(const facts *f, kiln_buffer *out) {
  const kiln_code_info *i = &f->info;
  const kiln_interface *n = f->interface;
  kiln_buffer_format(out, "{");
  put_member(out, "kernel", n->name);
  put_member(out, "config", f->job->config < n->config_count ? n->configs[f->job->config].text : "");
  put_member(out, "variant", f->job->variant < n->variant_count ? n->variants[f->job->variant].text : "");
  put_member(out, "target", i->target);
  put_member(out, "format", kiln_format_name(i->format));
  put_member(out, "source", f->p->sources[f->job->source].path);
  kiln_buffer_format(out, "\"block_threads\": %u, ", i->block_threads);
  if (i->registers)
    kiln_buffer_format(out, "\"registers\": %u, \"scalar_registers\": %u, \"spill_bytes\": %u, ",
                       i->registers, i->scalar_registers, i->spill_bytes);
  kiln_buffer_format(out, "\"shared_bytes\": %u, \"scratch_bytes\": %u, ", i->shared_bytes, i->scratch_bytes);
  if (f->occupancy.is_known)
    kiln_buffer_format(out, "\"occupancy\": {\"waves\": %u, \"most_waves\": %u, \"blocks\": %u}, ",
                       f->occupancy.waves, f->occupancy.most, f->occupancy.blocks);
  kiln_buffer_format(out, "\"rows\": [");
  for (uint32_t r = 0; r < f->rows.count; r++) {
    kiln_buffer_format(out, "%s\n  ", r ? "," : "");
    put_row(f, &f->rows.items[r], out);
  }
  kiln_buffer_format(out, "]}\n");
}

kiln_status report_print(const plan *p, const plan_job *job, bool json, kiln_buffer *out, kiln_error *err) {
  facts f = {.p = p, .job = job, .interface = plan_interface(p, job), .target = &p->targets[job->target]};
  kiln_arena *arena = kiln_arena_create();
  kiln_status status = gather(&f, arena, err);
  if (status == KILN_OK) (json ? print_json : print_text)(&f, out);
  kiln_arena_destroy(arena);
  return status;
}
