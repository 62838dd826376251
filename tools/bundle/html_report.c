// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln report: one HTML page about a bundle. It contains its style and charts, loads nothing and runs no
// script. The same bundle gives the same bytes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bundle/view.h"
#include "tools/kiln-tool/html_page.h"
#include "tools/kiln-tool/html_text.h"
#include "tools/kiln-tool/commands.h"

typedef unsigned long long ull;

enum { MOST_BARS = 40 };

/// Codes of one kernel for one target, of one kernel, or of one target. Bytes are sums, other fields are
/// maxima.
typedef struct report_row {
  const char *kernel, *target; // borrowed
  uint64_t codes, raw, stored;
  uint32_t registers, spilled, shared, threads;
} report_row;

typedef struct bar {
  const char *name; // borrowed
  uint64_t values[2];
} bar;

// -------------------------------------------------------------------------------------------- text

// 1,234,567
static void put_number(kiln_buffer *out, uint64_t n) {
  char digits[24];
  int length = snprintf(digits, sizeof digits, "%llu", (ull)n);
  for (int i = 0; i < length; i++)
    kiln_buffer_format(out, "%s%c", i && (length - i) % 3 == 0 ? "," : "", digits[i]);
}

static void put_ratio(kiln_buffer *out, uint64_t raw, uint64_t stored) {
  if (stored) kiln_buffer_format(out, "%.1fx", (double)raw / (double)stored);
  else kiln_buffer_format(out, "\xe2\x80\x93");
}

// -------------------------------------------------------------------------------------------- rows

static void take_row(report_row *sum, const report_row *r) {
  sum->codes += r->codes, sum->raw += r->raw, sum->stored += r->stored;
  if (r->registers > sum->registers) sum->registers = r->registers;
  if (r->spilled > sum->spilled) sum->spilled = r->spilled;
  if (r->shared > sum->shared) sum->shared = r->shared;
  if (r->threads > sum->threads) sum->threads = r->threads;
}

static int by_kernel_and_target(const void *a, const void *b) {
  const report_row *x = a, *y = b;
  int kernels = strcmp(x->kernel, y->kernel);
  return kernels ? kernels : strcmp(x->target, y->target);
}
static int by_target(const void *a, const void *b) {
  return strcmp(((const report_row *)a)->target, ((const report_row *)b)->target);
}
static int by_kernel(const void *a, const void *b) {
  return strcmp(((const report_row *)a)->kernel, ((const report_row *)b)->kernel);
}

/// Sorts the rows and sums those that `compare` finds equal; returns how many are left, at the front.
static size_t sum_rows(report_row *rows, size_t count, int (*compare)(const void *, const void *)) {
  size_t kept = 0;
  qsort(rows, count, sizeof *rows, compare);
  for (size_t i = 0; i < count; i++) {
    if (kept && !compare(&rows[kept - 1], &rows[i])) take_row(&rows[kept - 1], &rows[i]);
    else rows[kept++] = rows[i];
  }
  return kept;
}

/// One row per kernel and target, in that order. A code that several entries share counts in each of them
/// with its share.
static report_row *read_rows(const bundle_view *v, size_t *out_count) {
  size_t count = 0, capacity = 0;
  for (uint32_t i = 0; i < v->kernel_count; i++) capacity += v->kernels[i].code_count;
  report_row *rows = KILN_NEW_ARRAY(v->arena, report_row, capacity + 1);
  for (uint32_t i = 0; i < v->kernel_count; i++)
    for (uint32_t c = 0; c < v->kernels[i].code_count; c++) {
      const view_code *code = &v->kernels[i].codes[c];
      uint32_t shares = code->blob.references ? code->blob.references : 1;
      rows[count++] = (report_row){v->kernels[i].name,
                                   code->target,
                                   1,
                                   code->blob.raw / shares,
                                   code->blob.stored / shares,
                                   code->info.registers,
                                   code->info.spill_bytes,
                                   code->info.shared_bytes,
                                   code->info.block_threads};
    }
  *out_count = sum_rows(rows, count, by_kernel_and_target);
  return rows;
}

// ------------------------------------------------------------------------------------------ charts

static int by_greatest(const void *a, const void *b) {
  const bar *x = a, *y = b;
  if (x->values[0] != y->values[0]) return x->values[0] < y->values[0] ? 1 : -1;
  return strcmp(x->name, y->name);
}

static void put_bar(kiln_buffer *out, const bar *b, unsigned series, uint64_t greatest) {
  kiln_buffer_format(out, "<span class=\"t\">");
  html_bar(out, series, 0.8 * (double)b->values[series] / (double)greatest);
  kiln_buffer_format(out, "<span class=\"v\">");
  put_number(out, b->values[series]);
  kiln_buffer_format(out, "</span></span>");
}

/// Horizontal bars, the greatest first. `legends` names the series; `empty` is the text if there is no bar.
static void put_chart(kiln_buffer *out, const char *title, const char *const *legends, unsigned series,
                      bar *bars, size_t count, const char *empty) {
  uint64_t greatest = 1;
  kiln_buffer_format(out, "<section>\n<h2>%s</h2>\n", title);
  if (!count) {
    kiln_buffer_format(out, "<p>%s</p>\n</section>\n", empty);
    return;
  }
  qsort(bars, count, sizeof *bars, by_greatest);
  size_t shown = count < MOST_BARS ? count : MOST_BARS;
  for (size_t i = 0; i < shown; i++)
    for (unsigned s = 0; s < series; s++)
      if (bars[i].values[s] > greatest) greatest = bars[i].values[s];
  kiln_buffer_format(out, "<p>");
  for (unsigned s = 0; s < series; s++)
    kiln_buffer_format(out, "<span class=\"key s%u\"></span>%s ", s, legends[s]);
  if (shown < count) kiln_buffer_format(out, "(the %zu greatest of %zu; the table has all)", shown, count);
  kiln_buffer_format(out, "</p>\n<div class=\"bars\" role=\"img\" aria-label=\"%s\">\n", title);
  for (size_t i = 0; i < shown; i++) {
    kiln_buffer_format(out, "<span class=\"l\">");
    html_text(out, bars[i].name, SIZE_MAX);
    kiln_buffer_format(out, "</span><span>");
    for (unsigned s = 0; s < series; s++) put_bar(out, &bars[i], s, greatest);
    kiln_buffer_format(out, "</span>\n");
  }
  kiln_buffer_format(out, "</div>\n</section>\n");
}

static void put_charts(kiln_buffer *out, const bundle_view *v, const report_row *rows, size_t count) {
  static const char *const bytes[] = {"raw bytes", "stored bytes"},
                           *const registers[] = {"registers a thread, greatest of a kernel's codes"},
                           *const spills[] = {"spilled bytes a thread, greatest of a kernel's codes"};
  report_row *sums = KILN_NEW_ARRAY(v->arena, report_row, count + 1);
  bar *bars = KILN_NEW_ARRAY(v->arena, bar, count + 1);
  memcpy(sums, rows, count * sizeof *rows);
  size_t targets = sum_rows(sums, count, by_target), n = 0;
  for (size_t i = 0; i < targets; i++) bars[i] = (bar){sums[i].target, {sums[i].raw, sums[i].stored}};
  put_chart(out, "Bytes by target", bytes, 2, bars, targets, "The bundle has no code.");
  memcpy(sums, rows, count * sizeof *rows);
  size_t kernels = sum_rows(sums, count, by_kernel);
  for (size_t i = 0; i < kernels; i++)
    if (sums[i].registers) bars[n++] = (bar){sums[i].kernel, {sums[i].registers}};
  put_chart(out, "Registers by kernel", registers, 1, bars, n, "No code states its registers.");
  n = 0;
  for (size_t i = 0; i < kernels; i++)
    if (sums[i].spilled) bars[n++] = (bar){sums[i].kernel, {sums[i].spilled}};
  put_chart(out, "Spills by kernel", spills, 1, bars, n, "No code states a spill.");
}

// ------------------------------------------------------------------------------------------ tables

static void put_cell(kiln_buffer *out, uint64_t n, bool zero_is_unknown) {
  kiln_buffer_format(out, "<td>");
  if (!n && zero_is_unknown) kiln_buffer_format(out, "\xe2\x80\x93");
  else put_number(out, n);
  kiln_buffer_format(out, "</td>");
}

static void put_row(kiln_buffer *out, const report_row *r) {
  put_cell(out, r->codes, false);
  put_cell(out, r->raw, false);
  put_cell(out, r->stored, false);
  kiln_buffer_format(out, "<td>");
  put_ratio(out, r->raw, r->stored);
  kiln_buffer_format(out, "</td>");
  put_cell(out, r->registers, true);
  put_cell(out, r->spilled, false);
  put_cell(out, r->shared, false);
  put_cell(out, r->threads, false);
  kiln_buffer_format(out, "</tr>\n");
}

static void put_table(kiln_buffer *out, const report_row *rows, size_t count) {
  report_row sum = {0};
  kiln_buffer_format(
      out, "<section>\n<h2>Kernels and targets</h2>\n<div "
           "class=\"wide\"><table>\n<thead><tr><th>Kernel</th><th>Target</th><th>Codes</th><th>Raw</th>"
           "<th>Stored</th><th>Ratio</th><th>Registers</th><th>Spilled</th><th>Shared</th><th>Threads</th></"
           "tr></thead>\n<tbody>\n");
  for (size_t i = 0, end = 0; i < count; i++) {
    kiln_buffer_format(out, "<tr>");
    if (i == end) {
      while (end < count && !strcmp(rows[end].kernel, rows[i].kernel)) end++;
      kiln_buffer_format(out, "<th rowspan=\"%zu\">", end - i);
      html_text(out, rows[i].kernel, SIZE_MAX);
      kiln_buffer_format(out, "</th>");
    }
    kiln_buffer_format(out, "<th>");
    html_text(out, rows[i].target, SIZE_MAX);
    kiln_buffer_format(out, "</th>");
    put_row(out, &rows[i]);
    take_row(&sum, &rows[i]);
  }
  kiln_buffer_format(out, "</tbody>\n<tfoot><tr><th colspan=\"2\">Sum; greatest</th>");
  put_row(out, &sum);
  kiln_buffer_format(out,
                     "</tfoot>\n</table></div>\n<p>Bytes are sums over a kernel's configs and variants, and "
                     "a code that several entries share is counted in each by its "
                     "part, rounded down; dictionaries are apart. Registers a thread (VGPRs on AMD; "
                     "\xe2\x80\x93 where the code does not say), spilled bytes a thread, bytes of shared "
                     "memory and threads a block are the greatest.</p>\n</section>\n");
}

static void put_notes(kiln_buffer *out, const bundle_view *v) {
  kiln_buffer_format(out, "<section>\n<h2>Provenance</h2>\n");
  if (!v->note_count) kiln_buffer_format(out, "<p>The bundle has no notes.</p>\n");
  if (v->note_count) kiln_buffer_format(out, "<div class=\"wide\"><table class=\"notes\">\n");
  for (uint32_t i = 0; i < v->note_count; i++) {
    kiln_buffer_format(out, "<tr><th>");
    html_text(out, v->notes[i].key, SIZE_MAX);
    kiln_buffer_format(out, "</th><td>");
    html_text(out, bundle_view_note(v, &v->notes[i]), SIZE_MAX);
    kiln_buffer_format(out, "</td></tr>\n");
  }
  kiln_buffer_format(out, "%s</section>\n", v->note_count ? "</table></div>\n" : "");
}

// -------------------------------------------------------------------------------------------- page

static void put_total(kiln_buffer *out, const char *name, uint64_t n) {
  kiln_buffer_format(out, "<div><dt>%s</dt><dd>", name);
  put_number(out, n);
  kiln_buffer_format(out, "</dd></div>\n");
}

static kiln_status put_totals(kiln_buffer *out, const bundle_view *v, kiln_error *err) {
  uint64_t raw = 0, stored = 0, dictionaries = 0;
  for (uint32_t i = 0; i < v->bundle->section_count[KILN_BUNDLE_BLOBS]; i++) {
    kiln_blob_entry e;
    KILN_TRY(kiln_bundle_blob_at(v->bundle, i, &e, err));
    const uint8_t *m =
        kiln_bundle_in(v->bundle, KILN_BUNDLE_MEMBERS, (uint64_t)e.member * KILN_BM_SIZE, KILN_BM_SIZE, err);
    const char *member = m ? kiln_bundle_text(v->bundle, kiln_le32(m + KILN_BM_NAME), err) : NULL;
    if (!member) return KILN_STATUS_CORRUPT;
    if (!strncmp(member, "dictionary/", 11)) dictionaries += e.stored;
    else raw += e.raw, stored += e.stored;
  }
  kiln_buffer_format(out, "<dl>\n");
  put_total(out, "Kernels", v->kernel_count);
  put_total(out, "Codes", v->bundle->section_count[KILN_BUNDLE_CODES]);
  put_total(out, "Targets", v->bundle->section_count[KILN_BUNDLE_TARGETS]);
  put_total(out, "Bytes of the file", v->bundle->size);
  put_total(out, "Codes, raw bytes", raw);
  put_total(out, "Codes, stored bytes", stored);
  put_total(out, "Dictionaries, bytes", dictionaries);
  kiln_buffer_format(out, "<div><dt>Raw to stored</dt><dd>");
  put_ratio(out, raw, stored + dictionaries);
  kiln_buffer_format(out, "</dd></div>\n<div><dt>Signature</dt><dd>%s</dd></div>\n</dl>\n",
                     kiln_le32(v->bundle->header + KILN_BH_SIZE + KILN_BG_KIND) ? "Ed25519 (not checked here)"
                                                                                : "none");
  return KILN_OK;
}

static kiln_status put_page(kiln_buffer *out, const bundle_view *v, kiln_error *err) {
  size_t count;
  const char *slash = strrchr(v->bundle->name, '/'), *name = slash ? slash + 1 : v->bundle->name;
  report_row *rows = read_rows(v, &count);
  html_page_begin(out, name);
  KILN_TRY(put_totals(out, v, err));
  put_charts(out, v, rows, count);
  put_table(out, rows, count);
  put_notes(out, v);
  html_page_end(out);
  return out->failed ? kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted") : KILN_OK;
}

int kiln_command_report(int argc, char **argv) {
  const char *path = "-";
  const cli_option options[] = {{"out", 'o', CLI_OUTPUT, &path, "FILE", "the page (standard output)"}};
  const cli_page page = CLI_PAGE("kiln report [-o FILE.html] BUNDLE",
                                 "Writes one HTML page about a bundle: sizes, registers, spills, "
                                 "provenance. It needs no other file.",
                                 options);
  cli_list words = {0};
  bundle_view v;
  kiln_error err;
  kiln_buffer out = {0};
  int exit_code = cli_parse_one(&page, argc, argv, "bundle", &words);
  if (exit_code == -1) {
    kiln_status status = bundle_view_open(words.items[0], &v, &err);
    if (status == KILN_OK) {
      status = put_page(&out, &v, &err);
      if (status == KILN_OK) status = cli_write_made(path, words.items[0], out.bytes, out.size, &err);
      bundle_view_close(&v);
    }
    exit_code = status == KILN_OK ? CLI_OK : cli_report(status, &err);
  }
  kiln_buffer_deinit(&out);
  cli_list_deinit(&words);
  return exit_code;
}
