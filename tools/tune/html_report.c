// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes the HTML page of `kiln tune --html`: configs, their times and the winners by shape.
#include "tools/tune/html_report.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/stream.h"
#include "tools/kiln-tool/html_page.h"
#include "tools/kiln-tool/html_text.h"
#include "tuner/time_scale.h"

enum { MOST_TEXT = 400 };

int tune_html_begin(void) { return open("/tmp", O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, 0600); }

// ------------------------------------------------------------------------------------- one contest

static double median_of(const tune_contest *c, size_t i) {
  return kiln_samples_estimate(&c->contenders[i].samples).median;
}

static bool is_measured(const tune_contest *c, size_t i) { return c->contenders[i].samples.count != 0; }

// Rank among the measured ones, from 1, by time or by the model.
static size_t rank_of(const tune_contest *c, size_t at, bool by_model) {
  size_t place = 1;
  for (size_t i = 0; i < c->count; i++)
    place += is_measured(c, i) && (by_model ? c->candidates[i].score > c->candidates[at].score
                                            : median_of(c, i) < median_of(c, at));
  return place;
}

/// By time; then what was not measured, by the model; then what was dropped.
static bool is_before(const tune_contest *c, size_t a, size_t b) {
  bool measured_a = is_measured(c, a), measured_b = is_measured(c, b);
  const tune_candidate *x = &c->candidates[a], *y = &c->candidates[b];
  if (measured_a != measured_b) return measured_a;
  if (measured_a) return median_of(c, a) < median_of(c, b);
  if (!*x->why_out != !*y->why_out) return !*x->why_out;
  return x->score > y->score;
}

/// The candidates, the fastest first; malloc'ed.
static size_t *order_of(const tune_contest *c) {
  size_t *order = malloc((c->count + 1) * sizeof *order);
  if (!order) abort();
  for (size_t i = 0; i < c->count; i++) {
    size_t at = i;
    while (at && is_before(c, i, order[at - 1])) order[at] = order[at - 1], at--;
    order[at] = i;
  }
  return order;
}

static kiln_time_scale scale_of(const tune_contest *c) {
  double least = 0, most = 0;
  for (size_t i = 0; i < c->count; i++) {
    if (!is_measured(c, i)) continue;
    double ns = median_of(c, i);
    least = least > 0 ? fmin(least, ns) : ns;
    most = fmax(most, ns);
  }
  return kiln_time_scale_of(least, most);
}

static void put_config(kiln_buffer *out, const tune_contest *c, size_t i, const char *config,
                       const kiln_time_scale *s, double best_score) {
  const tune_candidate *k = &c->candidates[i];
  const char *mark = i == c->winner ? " class=\"win\"" : *k->why_out ? " class=\"out\"" : "";
  kiln_buffer_format(out, "<tr%s><th class=\"text\">", mark);
  html_list(out, config, MOST_TEXT);
  if (is_measured(c, i)) {
    double median = median_of(c, i);
    kiln_buffer_format(out, "</th><td class=\"scale\">");
    html_bar(out, 1, kiln_time_scale_place(s, median));
    html_bar(out, 0, best_score > 0 ? k->score / best_score : 0);
    kiln_buffer_format(out, "</td><td>%.2f</td><td>%zu</td><td>%zu</td>", median / 1e3, rank_of(c, i, false),
                       rank_of(c, i, true));
  } else kiln_buffer_format(out, "</th><td></td><td></td><td></td><td></td>");
  kiln_buffer_format(out, "<td>%.3f</td><td>%u</td><td>%u</td><td>%u</td><td>%u</td><td class=\"text\">",
                     k->score, k->block_threads, k->registers, k->shared_bytes, k->spill_bytes);
  kiln_buffer_format(out, "%s%s", i == c->usual ? "the default " : "",
                     !k->is_tried && !*k->why_out ? "not tried" : "");
  html_list(out, k->why_out, MOST_TEXT);
  kiln_buffer_format(out, "</td></tr>\n");
}

// The row of the summary.
static void put_winner(kiln_buffer *out, const char *title, const char *device, const tune_subject *s,
                       const tune_contest *c) {
  const kiln_config_record *configs = s->interface->configs;
  kiln_buffer_format(out, "<tr><th class=\"text\">");
  html_text(out, title, MOST_TEXT);
  kiln_buffer_format(out, "</th><th>");
  html_text(out, device, MOST_TEXT);
  kiln_buffer_format(out, "</th><td class=\"text\">");
  html_list(out, configs[c->candidates[c->winner].config].text, MOST_TEXT);
  kiln_buffer_format(out, "</td><td>%.2f</td><td class=\"text\">", median_of(c, c->winner) / 1e3);
  html_list(out, configs[c->candidates[c->usual].config].text, MOST_TEXT);
  kiln_buffer_format(out, "</td><td>");
  if (is_measured(c, c->usual))
    kiln_buffer_format(out, "%.3f", median_of(c, c->usual) / median_of(c, c->winner));
  kiln_buffer_format(out, "</td><td>%u of %zu</td><td>%s</td></tr>\n", c->tried, c->count, c->judge.by);
}

static void put_space(kiln_buffer *out, const char *title, const tune_subject *s, const tune_contest *c) {
  const kiln_time_scale times = scale_of(c);
  size_t *order = order_of(c);
  double best = 0;
  for (size_t i = 0; i < c->count; i++) best = fmax(best, c->candidates[i].score);
  kiln_buffer_format(out, "<section>\n<h2>");
  html_text(out, title, MOST_TEXT);
  kiln_buffer_format(
      out,
      "</h2>\n<p><span class=\"key s1\"></span>time, %g to %g us on a logarithmic scale <span class=\"key "
      "s0\"></span>what the model promised, of its best</p>\n<div class=\"wide\"><table>\n<thead><tr><th>"
      "config</th><th>time; model</th><th>us</th><th>place by time</th><th>by model</th><th>model</th>"
      "<th>threads</th><th>registers</th><th>shared</th><th>spilled</th><th></th></tr></thead>\n<tbody>\n",
      times.from / 1e3, times.to / 1e3);
  for (size_t n = 0; n < c->count; n++) {
    size_t i = order[n];
    put_config(out, c, i, s->interface->configs[c->candidates[i].config].text, &times, best);
  }
  kiln_buffer_format(out, "</tbody>\n</table></div>\n</section>\n");
  free(order);
}

void tune_html_add(int fd, const char *title, const char *device, const tune_subject *s,
                   const tune_contest *c) {
  kiln_buffer row = {0}, space = {0}, body = {0}, whole = {0};
  put_winner(&row, title, device, s, c);
  put_space(&space, title, s, c);
  kiln_buffer_text(&body, title);
  kiln_buffer_block(&body, row.bytes, row.size);
  kiln_buffer_block(&body, space.bytes, space.size);
  kiln_buffer_block(&whole, body.bytes, body.size);
  // One write at the end of the file, so that output of processes does not mix.
  if (!whole.failed && write(fd, whole.bytes, whole.size) < 0) perror("kiln: --html");
  kiln_buffer_deinit(&row);
  kiln_buffer_deinit(&space);
  kiln_buffer_deinit(&body);
  kiln_buffer_deinit(&whole);
}

// ---------------------------------------------------------------------------------------- the page

typedef struct part {
  const uint8_t *title, *row, *space; // in the file's bytes
  size_t title_size, row_size, space_size;
} part;

static int by_title(const void *a, const void *b) {
  const part *x = a, *y = b;
  size_t size = x->title_size < y->title_size ? x->title_size : y->title_size;
  int order = memcmp(x->title, y->title, size);
  return order ? order : (x->title_size > y->title_size) - (x->title_size < y->title_size);
}

static part *read_parts(const kiln_buffer *bytes, size_t *out_count) {
  part *all = NULL;
  size_t size;
  kiln_reader r = kiln_reader_of(bytes->bytes, bytes->size);
  *out_count = 0;
  while (r.left) {
    const uint8_t *body = kiln_read_block(&r, &size);
    if (!body) break;
    kiln_reader b = kiln_reader_of(body, size);
    all = realloc(all, (*out_count + 1) * sizeof *all);
    if (!all) abort();
    part *p = &all[*out_count];
    p->title = kiln_read_block(&b, &p->title_size);
    p->row = kiln_read_block(&b, &p->row_size);
    p->space = kiln_read_block(&b, &p->space_size);
    *out_count += kiln_read_done(&b);
  }
  if (*out_count) qsort(all, *out_count, sizeof *all, by_title);
  return all;
}

static void put_page(kiln_buffer *out, const part *parts, size_t count) {
  html_page_begin(out, "Winners by shape");
  kiln_buffer_format(out, "<section>\n<div "
                          "class=\"wide\"><table>\n<thead><tr><th>shape</th><th>device</th><th "
                          "class=\"text\">winner</th><th>us</th>"
                          "<th class=\"text\">default</th><th>x the default</th><th>tried</th><th>judged "
                          "by</th></tr></thead>\n<tbody>\n");
  for (size_t i = 0; i < count; i++) kiln_buffer_bytes(out, parts[i].row, parts[i].row_size);
  kiln_buffer_format(out, "</tbody>\n</table></div>\n</section>\n");
  for (size_t i = 0; i < count; i++) kiln_buffer_bytes(out, parts[i].space, parts[i].space_size);
  html_page_end(out);
}

kiln_status tune_html_end(int fd, const char *path, kiln_error *err) {
  struct stat st;
  kiln_buffer bytes = {0}, page = {0};
  size_t count;
  uint8_t *all = fd >= 0 && !fstat(fd, &st) ? malloc((size_t)st.st_size + 1) : NULL;
  if (!all || lseek(fd, 0, SEEK_SET) || kiln_stream_read(fd, all, (size_t)st.st_size) != (size_t)st.st_size) {
    free(all);
    return kiln_fail(err, KILN_STATUS_IO, "%s: what was found cannot be read again", path);
  }
  kiln_buffer_bytes(&bytes, all, (size_t)st.st_size);
  free(all);
  part *parts = read_parts(&bytes, &count);
  put_page(&page, parts, count);
  kiln_status status = cli_write_file(path, page.bytes, page.size, err);
  free(parts);
  kiln_buffer_deinit(&bytes);
  kiln_buffer_deinit(&page);
  return status;
}
