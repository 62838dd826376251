// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln tune: measures the configs of kernels for shapes and keeps the best ones in a table.
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/common/code_figures.h"
#include "tools/common/tuned_file.h"
#include "tools/tool/case_run.h"
#include "tools/tool/tool.h"
#include "tools/tool/tune_html.h"

enum { LATER_MS = 300, MOST_DEVICES = 64, HELLO_MS = 60000 };

// ------------------------------------------------------------------------------------------ report

// Candidates that nothing was wrong with.
static unsigned in_the_end(const tune_contest *c) {
  unsigned count = 0;
  for (size_t i = 0; i < c->count; i++) count += !*c->candidates[i].why_out;
  return count;
}

static void print_contest(const tuner *t, const char *title, const tune_subject *s, const tune_contest *c) {
  const kiln_config_record *configs = s->interface->configs;
  kiln_buffer out = {0};
  double best = kiln_samples_estimate(&c->contenders[c->winner].samples).median,
         usual = kiln_samples_estimate(&c->contenders[c->usual].samples).median;
  kiln_buffer_format(&out, "%s: %s %.2f us", title, configs[c->candidates[c->winner].config].text,
                     best / 1e3);
  if (c->winner == c->usual) kiln_buffer_format(&out, ", the default");
  else if (c->contenders[c->usual].samples.count)
    kiln_buffer_format(&out, ", %.3f x the default %s", usual / best,
                       configs[c->candidates[c->usual].config].text);
  kiln_buffer_format(&out, " (%zu configs, ", c->count);
  if (c->tried < in_the_end(c)) kiln_buffer_format(&out, "%u tried, ", c->tried);
  kiln_buffer_format(&out, "%u rounds, judged by %s)\n", c->rounds, c->judge.by);
  for (size_t i = 0; i < c->count; i++) {
    const tune_candidate *k = &c->candidates[i];
    kiln_estimate e = kiln_samples_estimate(&c->contenders[i].samples);
    if (*k->why_out) kiln_buffer_format(&out, "  dropped %s: %s\n", configs[k->config].text, k->why_out);
    else if (t->s->verbose && k->is_tried)
      kiln_buffer_format(&out,
                         "  %-40s %10.2f us [%.2f, %.2f] of %zu, %u registers, %u bytes shared, %u spilled\n",
                         configs[k->config].text, e.median / 1e3, e.low / 1e3, e.high / 1e3,
                         c->contenders[i].samples.count, k->registers, k->shared_bytes, k->spill_bytes);
  }
  fwrite(out.bytes, 1, out.size, stdout);
  fflush(stdout);
  kiln_buffer_deinit(&out);
}

static uint32_t config_of(const kiln_interface *in, const char *text) {
  uint32_t c = 0;
  while (c < in->config_count && strcmp(in->configs[c].text, text)) c++;
  return c;
}

// --check: what the table says keeps a tie; it holds when it wins.
static void tell_check(tuner *t, const char *title, const tune_subject *s, const tune_contest *c,
                       const kiln_tuner_row *row) {
  const char *config = s->interface->configs[c->candidates[c->winner].config].text;
  bool holds = !strcmp(config, row->entry->texts[KILN_TUNED_CONFIG]);
  printf("%s %s: %s%s%s\n", holds ? "holds  " : "differs", title, row->entry->texts[KILN_TUNED_CONFIG],
         holds ? "" : "; now ", holds ? "" : config);
  fflush(stdout);
  atomic_fetch_add(&t->progress->checked, 1);
  if (!holds) atomic_fetch_add(&t->progress->broken, 1);
}

// What became of the code: another config, the same bytes, or its numbers.
static void print_code_change(const kiln_tuned_entry *then, const kiln_tuned_entry *now) {
  char text[CODE_FIGURES_TEXT];
  const code_figures a = code_figures_read(then), b = code_figures_read(now);
  code_likeness likeness = code_figures_compare(&a, &b);
  if (strcmp(then->texts[KILN_TUNED_CONFIG], now->texts[KILN_TUNED_CONFIG]))
    printf("; %s -> %s", then->texts[KILN_TUNED_CONFIG], now->texts[KILN_TUNED_CONFIG]);
  if (likeness == CODE_SAME) printf("; the same code\n");
  else if (likeness == CODE_ALIKE) printf("; other code of the same size\n");
  else if (likeness == CODE_CHANGED) printf("; %s\n", code_figures_difference(&a, &b, text));
  else printf("\n");
}

// Whether the time of `slow` lies above that of `fast` for all that is known of how well they were measured.
static bool is_apart(const kiln_tuned_entry *fast, const kiln_tuned_entry *slow) {
  double low = (double)slow->numbers[KILN_TUNED_NS] * (1 - (double)slow->numbers[KILN_TUNED_SPREAD] / 1000),
         high = (double)fast->numbers[KILN_TUNED_NS] * (1 + (double)fast->numbers[KILN_TUNED_SPREAD] / 1000);
  return low > high;
}

// --gate: the best now against the best then.
static void tell_gate(tuner *t, const char *title, const kiln_tuned_entry *now, const kiln_tuner_row *row) {
  double before = (double)row->entry->numbers[KILN_TUNED_NS], after = (double)now->numbers[KILN_TUNED_NS];
  if (!(before > 0) || !(after > 0)) return;
  double ratio = before / after, least = 1 + t->s->gate_band;
  bool loss = after > before * least && is_apart(row->entry, now),
       win = before > after * least && is_apart(now, row->entry);
  printf("%s %s: %.2f us, before %.2f us, %.3f x",
         loss  ? "loss"
         : win ? "win "
               : "same",
         title, after / 1e3, before / 1e3, ratio);
  print_code_change(row->entry, now);
  fflush(stdout);
  atomic_fetch_add(&t->progress->compared, 1);
  atomic_fetch_add(&t->progress->log_sum, (int64_t)(log(ratio) * 1e6));
  if (loss) atomic_fetch_add(&t->progress->broken, 1);
}

static kiln_status keep_choice(tuner *t, const kiln_tuned_entry *e, kiln_error *err) {
  kiln_tuner_table one;
  kiln_tuner_table_init(&one);
  kiln_status status = kiln_tuner_table_add(&one, e, err);
  if (status == KILN_OK) status = kiln_tuner_table_update(t->s->output, &one, err);
  kiln_tuner_table_deinit(&one);
  return status;
}

// The table as it is now: another shape of the same bins, or another process, may have added to it.
static kiln_status read_known(tuner *t, kiln_error *err) {
  if (!t->s->output || t->s->check || access(t->s->output, F_OK)) return KILN_OK;
  kiln_tuner_table_deinit(&t->known);
  kiln_tuner_table_init(&t->known);
  return tuned_file_read(t->s->output, &t->known, err);
}

// ---------------------------------------------------------------------------------- other machines

typedef enum turn { TURN_OURS, TURN_DONE, TURN_BUSY } turn;

// Who measures what an entry is for, on its product: the lease first, since its last holder may just have put
// the result.
static kiln_status take_turn(tuner *t, const char *id, turn *out, kiln_error *err) {
  bool is_ours, is_there;
  *out = TURN_OURS;
  if (!t->s->job) return KILN_OK;
  KILN_TRY(board_ask(&t->board, KILN_BOARD_LEASE, t->s->job->room, id, NULL, 0, &is_ours, NULL, err));
  KILN_TRY(board_ask(&t->board, KILN_BOARD_GET, t->s->job->room, id, NULL, 0, &is_there, NULL, err));
  *out = is_there ? TURN_DONE : is_ours ? TURN_OURS : TURN_BUSY;
  if (is_there && is_ours)
    return board_ask(&t->board, KILN_BOARD_DROP, t->s->job->room, id, NULL, 0, NULL, NULL, err);
  return KILN_OK;
}

// `e` NULL: there is no result. In every case the turn is over.
static kiln_status end_turn(tuner *t, const char *id, const kiln_tuned_entry *e, kiln_error *err) {
  kiln_buffer line = {0};
  kiln_status status = KILN_OK;
  kiln_error more = {0};
  const char *in = t->s->job ? t->s->job->room : NULL;
  if (!in) return KILN_OK;
  if (e) {
    kiln_tuned_write(e, KILN_TUNED_WHOLE, &line);
    status = board_ask(&t->board, KILN_BOARD_PUT, in, id, line.bytes, line.size, NULL, NULL, err);
    if (status == KILN_OK)
      status = board_ask(&t->board, KILN_BOARD_ADD, in, "results", id, strlen(id), NULL, NULL, err);
    kiln_buffer_deinit(&line);
  }
  kiln_status dropped = board_ask(&t->board, KILN_BOARD_DROP, in, id, NULL, 0, NULL, NULL, &more);
  return status == KILN_OK ? dropped : status;
}

// ------------------------------------------------------------------------------------- one contest

static void count_time(progress *p, const tune_contest *c) {
  atomic_fetch_add(&p->contests, 1);
  atomic_fetch_add(&p->judge_ns, c->judge_ns);
  for (unsigned i = 0; i < TUNE_TASKS; i++) atomic_fetch_add(&p->spent_ns[i], c->spent_ns[i]);
}

static void print_time(const progress *p) {
  const double s = 1e-9;
  printf(
      "%u shapes, in seconds of devices: arguments %.1f, loading %.1f, a launch of each %.1f, judging %.1f, "
      "measuring %.1f; %u processes\n",
      atomic_load(&p->contests), s * (double)atomic_load(&p->values_ns),
      s * (double)atomic_load(&p->spent_ns[TUNE_LOAD]), s * (double)atomic_load(&p->spent_ns[TUNE_RUN]),
      s * (double)atomic_load(&p->judge_ns), s * (double)atomic_load(&p->spent_ns[TUNE_TIME]),
      atomic_load(&p->processes));
}

static kiln_status measure(tuner *t, const char *title, tune_subject *s, kiln_tuned_entry *e,
                           const kiln_tuner_row *row, const kiln_tuner_row *old, kiln_error *err) {
  tune_contest contest;
  uint32_t usual = t->s->check ? config_of(s->interface, row->entry->texts[KILN_TUNED_CONFIG]) : UINT32_MAX;
  tune_hints hints;
  tune_entry_hints(t, e, s, &hints);
  unsigned begun = atomic_load(&t->progress->next);
  tune_watch watch = {.title = t->s->progress || isatty(2) ? title : NULL,
                      .shape = begun < t->pair_count ? begun : t->pair_count,
                      .of = t->pair_count,
                      .is_line = !t->s->progress};
  kiln_status status =
      tune_contest_run(&contest, s, &t->view, &t->worker, &t->s->rules, &hints, usual, &watch, err);
  tune_watch_end(&watch);
  // On a host a kernel can spoil the process in ways that nobody sees, and another one costs nothing.
  if (s->is_host) tune_worker_end(&t->worker);
  count_time(t->progress, &contest);
  if (status == KILN_OK) {
    tune_entry_fill(t, e, s, &contest);
    print_contest(t, title, s, &contest);
    if (t->html_fd >= 0) tune_html_add(t->html_fd, title, t->device, s, &contest);
    if (t->s->check) tell_check(t, title, s, &contest, row);
    if (t->s->gate) tell_gate(t, title, e, old);
    if (t->s->output && !t->s->check) status = keep_choice(t, e, err);
  }
  if (status != KILN_OK) status = kiln_context(err, status, "%s", title);
  tune_contest_deinit(&contest);
  return status;
}

// Whether the table makes the contest unnecessary, or lacks what is asked of it. Says so.
static bool is_known(const tuner *t, const char *title, const kiln_tuner_row *row,
                     const kiln_tuner_row *old) {
  const char *stored = row ? row->entry->texts[KILN_TUNED_TOOLCHAIN] : NULL;
  if ((t->s->check || t->s->gate) && !(t->s->check ? row : old)) {
    printf("unknown %s: the table has no choice for it\n", title);
    return true;
  }
  if (t->s->check || t->s->gate || t->s->again || !stored || strcmp(stored, t->toolchain)) return false;
  if (t->s->verbose) printf("%s: %s, as the table says\n", title, row->entry->texts[KILN_TUNED_CONFIG]);
  return true;
}

static kiln_status run_contest(tuner *t, const tune_pair *j, tune_subject *s, turn *out_turn,
                               kiln_error *err) {
  char title[400], id[KILN_TUNER_ID + 1];
  kiln_tuned_entry *e = tune_entry_make(t, s);
  *out_turn = TURN_DONE;
  KILN_TRY(read_known(t, err));
  const char *identity = tune_entry_identity(t, e);
  const kiln_tuner_row *row = kiln_tuner_table_find(&t->known, identity),
                       *old = kiln_tuner_table_find(&t->old, identity);
  tune_pair_title(j, s, title, sizeof title);
  if (is_known(t, title, row, old)) return KILN_OK;
  KILN_TRY(kiln_tuner_id(e, id, err));
  KILN_TRY(take_turn(t, id, out_turn, err));
  if (*out_turn != TURN_OURS) return KILN_OK;
  kiln_status status = measure(t, title, s, e, row, old, err);
  kiln_error more = {0};
  kiln_status ended = end_turn(t, id, status == KILN_OK ? e : NULL, status == KILN_OK ? err : &more);
  return status == KILN_OK ? ended : status;
}

static kiln_status make_subject(const void *context, uint32_t number, tune_subject *out, kiln_error *err) {
  const tuner *t = context;
  const tune_pair *j = &t->pairs[number];
  *out = (tune_subject){.number = number,
                        .interface = &j->kernel->interface,
                        .is_host = !strncmp(t->device, "host", 4),
                        .is_hot = t->s->hot};
  return tune_pair_values(t, j, out, err);
}

// What fails costs its own shape. False: another machine measures it.
static bool do_pair(tuner *t, uint32_t number) {
  kiln_error err = {0};
  turn how = TURN_DONE;
  tune_subject s = {0};
  uint64_t begin = cli_now_ns();
  kiln_status status = tune_worker_subject(&t->worker, number, &s, &err);
  atomic_fetch_add(&t->progress->values_ns, cli_now_ns() - begin);
  if (status == KILN_OK) status = run_contest(t, &t->pairs[number], &s, &how, &err);
  if (status != KILN_OK) {
    cli_report(status, &err);
    atomic_fetch_add(&t->progress->failed, 1);
  }
  tune_subject_deinit(&s);
  return how != TURN_BUSY;
}

// Contests until there are none left; at last those that another machine had begun, until it ends them or
// gives them back.
static void work(tuner *t) {
  uint32_t at, later_count = 0, *later = calloc((size_t)t->pair_count + 1, sizeof *later);
  if (!later) abort();
  while ((at = atomic_fetch_add(&t->progress->next, 1)) < t->pair_count)
    if (!do_pair(t, at)) later[later_count++] = at;
  while (later_count) {
    uint32_t left = 0;
    usleep(LATER_MS * 1000);
    for (uint32_t i = 0; i < later_count; i++)
      if (!do_pair(t, later[i])) later[left++] = later[i];
    later_count = left;
  }
  free(later);
}

// ---------------------------------------------------------------------------------- devices, bundle

static kiln_status ask_device(tune_worker *worker, tune_reply *out, kiln_error *err) {
  return tune_worker_ask(worker, NULL, (tune_request){.task = TUNE_HELLO}, HELLO_MS, out, err);
}

kiln_status tune_ask_device(const char *device, tune_reply *out, kiln_error *err) {
  tune_worker worker = {.device = device, .memory = -1};
  kiln_status status = ask_device(&worker, out, err);
  tune_worker_close(&worker);
  return status;
}

static void use_device(tuner *t, const char *device) {
  kiln_error err = {0};
  t->device = device;
  t->worker = (tune_worker){.bundle = t->bundle_path, .device = device, .make = make_subject, .context = t};
  kiln_status status = tune_worker_open(&t->worker, &err);
  if (status == KILN_OK) status = ask_device(&t->worker, &t->where, &err);
  kiln_tuner_toolchain(t->where.processor, tune_note_of(&t->view, "compiler", ""),
                       tune_note_of(&t->view, "assembler", ""), t->toolchain);
  if (status == KILN_OK && t->s->job) status = board_open(&t->board, t->s->worker, &err);
  if (status == KILN_OK) {
    work(t);
  } else {
    cli_report(status, &err);
    atomic_fetch_add(&t->progress->failed, 1);
  }
  board_close(&t->board);
  atomic_fetch_add(&t->progress->processes, t->worker.starts);
  tune_worker_close(&t->worker);
}

// A process a device; they take shapes from one queue.
static void use_devices(tuner *t) {
  char list[1000], *devices[MOST_DEVICES], *rest = list;
  unsigned count = 0;
  int status;
  snprintf(list, sizeof list, "%s", t->s->devices);
  for (char *word; count < MOST_DEVICES && (word = strsep(&rest, ","));)
    if (*word) devices[count++] = word;
  if (count == 1) {
    use_device(t, devices[0]);
    return;
  }
  fflush(NULL);
  pid_t pids[MOST_DEVICES];
  for (unsigned i = 0; i < count; i++) {
    pids[i] = fork();
    if (pids[i]) continue;
    use_device(t, devices[i]);
    fflush(NULL);
    _exit(0);
  }
  for (unsigned i = 0; i < count; i++) { // there are other children, too
    while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR) {
    }
    if (pids[i] < 0 || !WIFEXITED(status)) atomic_fetch_add(&t->progress->failed, 1);
  }
}

static bool is_bundle(const char *path) {
  size_t length = strlen(path);
  return length > 8 && !strcmp(path + length - 8, ".kbundle");
}

static kiln_status open_bundle(tuner *t, kiln_error *err) {
  KILN_TRY(bundle_view_open(t->bundle_path, &t->view, err));
  KILN_TRY(kiln_open_file(t->bundle_path, &t->library, err));
  return kiln_device_open(t->library, "null", &t->null_device, err);
}

static kiln_status read_tables(tuner *t, kiln_error *err) {
  kiln_tuner_table_init(&t->known);
  kiln_tuner_table_init(&t->old);
  if (t->s->output && (t->s->check || !access(t->s->output, F_OK)))
    KILN_TRY(tuned_file_read(t->s->output, &t->known, err));
  t->among = calloc(t->s->among.count + 1, sizeof *t->among);
  if (!t->among) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  for (size_t i = 0; i < t->s->among.count; i++) {
    kiln_tuner_table_init(&t->among[i]);
    KILN_TRY(tuned_file_read(t->s->among.items[i], &t->among[i], err));
  }
  return t->s->gate ? tuned_file_read(t->s->gate, &t->old, err) : KILN_OK;
}

int tune_bundle(const tune_settings *s, const char *path) {
  tuner t = {
      .s = s, .bundle_path = path, .html_fd = s->html ? tune_html_begin() : -1, .arena = kiln_arena_create()};
  kiln_error err = {0};
  kiln_status status = open_bundle(&t, &err);
  if (status == KILN_OK) status = read_tables(&t, &err);
  if (status == KILN_OK) status = s->case_folder ? tune_case_read(&t, &err) : tune_pairs_read(&t, &err);
  t.progress = mmap(NULL, sizeof *t.progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (status == KILN_OK && t.progress == MAP_FAILED)
    status = kiln_fail(&err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  int code = CLI_FAILED;
  if (status == KILN_OK) {
    use_devices(&t);
    unsigned failed = atomic_load(&t.progress->failed), broken = atomic_load(&t.progress->broken),
             compared = atomic_load(&t.progress->compared), checked = atomic_load(&t.progress->checked);
    if (s->verbose) print_time(t.progress);
    if (checked) printf("%u of %u choices hold\n", checked - broken, checked);
    if (s->gate && compared)
      printf("%u compared, %u lost, geomean %.3f x\n", compared, broken,
             exp((double)atomic_load(&t.progress->log_sum) / 1e6 / compared));
    if (failed) printf("%u of %u shapes failed\n", failed, t.pair_count);
    code = failed || broken ? CLI_FAILED : CLI_OK;
    if (s->html && (status = tune_html_end(t.html_fd, s->html, &err)) != KILN_OK)
      code = cli_report(status, &err);
  } else {
    code = cli_report(status, &err);
  }
  if (t.html_fd >= 0) close(t.html_fd);
  kiln_device_close(t.null_device);
  kiln_close(t.library);
  if (t.view.arena) bundle_view_close(&t.view);
  kiln_tuner_table_deinit(&t.known);
  kiln_tuner_table_deinit(&t.old);
  for (size_t i = 0; t.among && i < s->among.count; i++)
    if (t.among[i].arena) kiln_tuner_table_deinit(&t.among[i]);
  free(t.among);
  if (t.recorded) case_file_deinit(t.recorded);
  kiln_arena_destroy(t.arena);
  free(t.pairs);
  return code;
}

static int merge_tables(const tune_settings *s) {
  kiln_tuner_table table;
  kiln_error err = {0};
  kiln_buffer text = {0};
  kiln_status status = KILN_OK;
  kiln_tuner_table_init(&table);
  for (size_t i = 0; i < s->words.count && status == KILN_OK; i++)
    status = tuned_file_read(s->words.items[i], &table, &err);
  if (status == KILN_OK) {
    kiln_tuner_table_write(&table, &text);
    status = cli_write_file(s->output, text.bytes, text.size, &err);
  }
  kiln_buffer_deinit(&text);
  kiln_tuner_table_deinit(&table);
  return status == KILN_OK ? CLI_OK : cli_report(status, &err);
}

// ----------------------------------------------------------------------------------------- command

static bool read_real(const char *text, double least, double most, double *out) {
  char *end;
  *out = strtod(text, &end);
  if (*end == 's' && !end[1]) end++;
  return end != text && !*end && *out >= least && *out <= most;
}

// -1 to go on.
static int check_settings(const cli_page *page, tune_settings *s) {
  double percent;
  bool measures_here = !s->post && !s->worker && !s->collect;
  if (s->collect) return s->output ? -1 : cli_usage(page, "--collect: --output is missing");
  if (s->worker && (!s->trust.count || s->trust.count > TUNE_MOST_KEYS))
    return cli_usage(page, "--worker: expected 1 to %d keys of --trust, found %zu: a worker runs code",
                     TUNE_MOST_KEYS, s->trust.count);
  if (s->worker) return s->words.count ? cli_usage(page, "--worker takes its bundles from jobs") : -1;
  if (s->post && !s->sign_key)
    return cli_usage(page, "--post: --sign is missing: workers run signed jobs only");
  if (s->cases.count && (s->words.count || s->shapes || s->record || s->post))
    return cli_usage(page, "--case is source and shape: it goes with no words, --shapes, --record or --post");
  if (!s->words.count && !s->cases.count)
    return cli_usage(page, "expected a bundle, sources, or tables after --merge");
  if (s->among.count > TUNE_MOST_HINTS)
    return cli_usage(page, "--among: expected up to %d tables, found %zu", TUNE_MOST_HINTS, s->among.count);
  if (s->merge) return s->output ? -1 : cli_usage(page, "--merge: --output is missing");
  if (!s->shapes && !s->record && !s->cases.count) return cli_usage(page, "--shapes is missing");
  if (!s->output && !s->gate && measures_here) return cli_usage(page, "--output is missing");
  if (!read_real(s->budget, 0.001, 1e6, &s->rules.budget_s))
    return cli_usage(page, "--budget: expected seconds, found '%s'", s->budget);
  if (!read_real(s->keep, 0, 100, &percent))
    return cli_usage(page, "--keep: expected 0 to 100, found '%s'", s->keep);
  if (!read_real(s->band, 0, 1000, &s->gate_band))
    return cli_usage(page, "--band: expected percent, found '%s'", s->band);
  s->rules.keep = percent / 100;
  s->gate_band /= 100;
  s->rules.limit_ms = (unsigned)(s->timeout_s > 86400 ? 86400 : s->timeout_s) * 1000;
  s->rules.judge_ms = (unsigned)(s->judge_s > 86400 ? 86400 : s->judge_s) * 1000;
  s->rules.all_below = (uint32_t)(s->all_below > UINT32_MAX ? UINT32_MAX : s->all_below);
  s->rules.most_spill = (uint32_t)(s->most_spill > UINT32_MAX ? UINT32_MAX : s->most_spill);
  if (s->words.count && is_bundle(s->words.items[0]) && s->words.count > 1)
    return cli_usage(page, "expected one bundle, found %zu words", s->words.count);
  return -1;
}

int kiln_command_tune(int argc, char **argv) {
  tune_settings s = {.devices = "host",
                     .budget = "2",
                     .keep = "100",
                     .band = "5",
                     .timeout_s = 10,
                     .judge_s = 20,
                     .most_spill = 1024,
                     .all_below = 16};
  const cli_option options[] = {
      {"output", 'o', CLI_TEXT, &s.output, "TABLE", "the table to add to"},
      {"shapes", 's', CLI_TEXT, &s.shapes, "FILE", "kernels and arguments to measure; see below"},
      {"record", 0, CLI_TEXT, &s.record, "FILE",
       "shapes that an application recorded; --shapes says what buffers hold"},
      {"case", 0, CLI_LIST, &s.cases, "DIR",
       "a recorded launch of a Triton kernel (`kiln check-case`): source, shape and judge"},
      {"device", 'd', CLI_TEXT, &s.devices, "NAME,...",
       "host, cuda:N, hip:N; several share the shapes (host)"},
      {"budget", 0, CLI_TEXT, &s.budget, "SECONDS",
       "for measuring a shape (2); less where it is clear sooner"},
      {"hot", 0, CLI_FLAG, &s.hot, NULL, "leave the L2 of a GPU as the launch before left it"},
      {"keep", 0, CLI_TEXT, &s.keep, "PERCENT", "of the configs after their first times, at least one (100)"},
      {"all-below", 0, CLI_NUMBER, &s.all_below, "N",
       "try all of at most so many configs; of more, search (16)"},
      {"timeout", 0, CLI_COUNT, &s.timeout_s, "SECONDS",
       "a config that takes longer for a step is dropped (10)"},
      {"judge-limit", 0, CLI_NUMBER, &s.judge_s, "SECONDS",
       "for the reference interpreter; where it is over the first config judges (20)"},
      {"max-spill", 0, CLI_NUMBER, &s.most_spill, "BYTES", "configs that spill more are dropped (1024)"},
      {"again", 0, CLI_FLAG, &s.again, NULL, "measure what the table has already, too"},
      {"check", 0, CLI_FLAG, &s.check, NULL, "measure whether the choices of the table hold; write nothing"},
      {"gate", 0, CLI_TEXT, &s.gate, "TABLE",
       "compare with the times of another table; exit code 1 where one is lost"},
      {"band", 0, CLI_TEXT, &s.band, "PERCENT", "of --gate: what is no difference (5)"},
      {"among", 0, CLI_LIST, &s.among, "TABLE",
       "measure only what this table, or one of several, chose for a shape"},
      {"html", 0, CLI_TEXT, &s.html, "FILE",
       "write a page with every config's time and the winners by shape"},
      {"merge", 0, CLI_FLAG, &s.merge, NULL, "put tables together; nothing is measured"},
      {"post", 0, CLI_TEXT, &s.post, "redis://...", "post the work as a job for other machines"},
      {"sign", 0, CLI_TEXT, &s.sign_key, "KEY", "of --post: secret key of `kiln cache keygen`"},
      {"worker", 0, CLI_TEXT, &s.worker, "redis://...", "do what is posted there, on --device"},
      {"trust", 0, CLI_LIST, &s.trust, "FILE", "of --worker: a public key whose jobs are run"},
      {"collect", 0, CLI_TEXT, &s.collect, "redis://...", "put what workers found into --output"},
      {"kernel", 'k', CLI_LIST, &s.kernels, "NAME", "of sources: only this kernel"},
      {"instance", 'i', CLI_LIST, &s.instances, "K[P=V]", "of sources: one more instance"},
      {"key", 0, CLI_TEXT, &s.key, "NAMES",
       "of Triton IR: the integer parameters that a choice depends on, with commas (all)"},
      {"jobs", 'j', CLI_COUNT, &s.jobs, "N", "of sources: compile so many at the same time"},
      {"cache-dir", 0, CLI_TEXT, &s.cache_folder, "DIR", "of sources: folder of the cache"},
      {"verbose", 'v', CLI_FLAG, &s.verbose, NULL, "print the times of every config"},
      {"progress", 0, CLI_FLAG, &s.progress, NULL,
       "print each step with the best so far; without it one line of a terminal shows it"},
  };
  const cli_page page = {
      .usage = "kiln tune [options] -o TABLE --shapes FILE BUNDLE|SOURCE...",
      .summary =
          "Launches every config of kernels with the shapes of a file, drops those whose results are wrong, "
          "and "
          "keeps the\n"
          "fastest in a table for `kiln build --tuned`. Sources are built first; a bundle of `kiln build "
          "--tuning` needs no\n"
          "compiler. With --merge the words are tables, which are put together.",
      .options = options,
      .option_count = sizeof options / sizeof *options,
      .more = "A line of the shapes is a kernel and its arguments, as `kiln run` takes them. {1,2} stands "
              "for each; where a number\n"
              "stands, a sum of products of numbers and integer arguments may:\n"
              "    softmax[T=f32] rows={128,4096} cols={256,1024} ldx=cols ldy=cols x=random:rows*ldx "
              "y=zeros:rows*ldy\n"
              "Exit codes: 0 done, 1 a shape failed, a choice does not hold or a time was lost, 2 wrong "
              "command line.",
  };
  int code = cli_parse(&page, argc, argv, &s.words);
  if (code == -1) code = check_settings(&page, &s);
  if (code == -1)
    code = s.merge                                 ? merge_tables(&s)
           : s.worker                              ? tune_work_for_others(&s)
           : s.collect                             ? tune_collect(&s)
           : s.cases.count                         ? tune_cases(&s)
           : s.post && is_bundle(s.words.items[0]) ? tune_post(&s, s.words.items[0])
           : is_bundle(s.words.items[0])           ? tune_bundle(&s, s.words.items[0])
                                                   : tune_sources(&s);
  cli_list_deinit(&s.words);
  cli_list_deinit(&s.kernels);
  cli_list_deinit(&s.instances);
  cli_list_deinit(&s.trust);
  cli_list_deinit(&s.among);
  cli_list_deinit(&s.cases);
  return code;
}
