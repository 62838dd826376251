// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln tune: measures the configs of kernels for shapes and keeps the best ones in a table.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/plural.h"
#include "tools/common/code_metrics.h"
#include "tools/common/tuned_file.h"
#include "tools/case/replay.h"
#include "tools/kiln-tool/commands.h"
#include "tools/tune/html_report.h"

enum { LATER_MS = 300, MOST_DEVICES = 64, HELLO_MS = 60000 };

// ------------------------------------------------------------------------------------------ report

// The number of candidates without an error.
static unsigned count_valid(const tune_contest *c) {
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
  kiln_buffer_format(&out, " (%zu config%s, ", c->count, kiln_plural(c->count));
  if (c->tried < count_valid(c)) kiln_buffer_format(&out, "%u tried, ", c->tried);
  kiln_buffer_format(&out, "%u round%s, judged by %s)\n", c->rounds, kiln_plural(c->rounds), c->judge.by);
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

// --check: the table's choice wins ties, and holds when it wins.
static void print_check(tuner *t, const char *title, const tune_subject *s, const tune_contest *c,
                        const kiln_tuner_row *row) {
  const char *config = s->interface->configs[c->candidates[c->winner].config].text;
  bool holds = !strcmp(config, row->entry->texts[KILN_TUNED_CONFIG]);
  printf("%s %s: %s%s%s\n", holds ? "holds  " : "differs", title, row->entry->texts[KILN_TUNED_CONFIG],
         holds ? "" : "; now ", holds ? "" : config);
  fflush(stdout);
  atomic_fetch_add(&t->shared->checked, 1);
  if (!holds) atomic_fetch_add(&t->shared->broken, 1);
}

// Prints how the code changed: another config, the same bytes, or its numbers.
static void print_code_change(const kiln_tuned_entry *then, const kiln_tuned_entry *now) {
  char text[CODE_METRICS_TEXT];
  const code_metrics a = code_metrics_read(then), b = code_metrics_read(now);
  code_similarity likeness = code_metrics_compare(&a, &b);
  if (strcmp(then->texts[KILN_TUNED_CONFIG], now->texts[KILN_TUNED_CONFIG]))
    printf("; %s -> %s", then->texts[KILN_TUNED_CONFIG], now->texts[KILN_TUNED_CONFIG]);
  if (likeness == CODE_SAME) printf("; the same code\n");
  else if (likeness == CODE_ALIKE) printf("; other code of the same size\n");
  else if (likeness == CODE_CHANGED) printf("; %s\n", code_metrics_difference(&a, &b, text));
  else printf("\n");
}

// Whether `slow` is slower than `fast` beyond the uncertainty of both measurements.
static bool is_apart(const kiln_tuned_entry *fast, const kiln_tuned_entry *slow) {
  double low = (double)slow->numbers[KILN_TUNED_NS] * (1 - (double)slow->numbers[KILN_TUNED_SPREAD] / 1000),
         high = (double)fast->numbers[KILN_TUNED_NS] * (1 + (double)fast->numbers[KILN_TUNED_SPREAD] / 1000);
  return low > high;
}

// --gate: compares the best now with the best then.
static void print_gate(tuner *t, const char *title, const kiln_tuned_entry *now, const kiln_tuner_row *row) {
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
  atomic_fetch_add(&t->shared->compared, 1);
  atomic_fetch_add(&t->shared->log_sum, (int64_t)(log(ratio) * 1e6));
  if (loss) atomic_fetch_add(&t->shared->broken, 1);
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

// A bit more than a step can take: without a renewal for that time the lease expires, even if this program's
// network helper lives on.
static uint32_t lease_ms(const tune_rules *rules) {
  uint64_t longest = rules->limit_ms > rules->judge_ms ? rules->limit_ms : rules->judge_ms;
  return (uint32_t)(longest + 10000 < UINT32_MAX ? longest + 10000 : UINT32_MAX);
}

// Renews the lease, at most once per second, while the work goes on.
static void renew_lease(void *context) {
  tuner *t = context;
  kiln_error unseen;
  if (!*t->turn_id || cli_now_ns() - t->beaten_ns < 1000000000) return;
  t->beaten_ns = cli_now_ns();
  (void)board_ask(&t->board, KILN_BOARD_BEAT, t->s->job->room, t->turn_id, NULL, 0, NULL, NULL, &unseen);
}

// Decides whether this machine measures an entry: the lease comes first, since its last holder may just have
// stored the result.
static kiln_status take_turn(tuner *t, const char *id, turn *out, kiln_error *err) {
  bool is_ours, is_there;
  *out = TURN_OURS;
  if (!t->s->job) return KILN_OK;
  uint8_t ms[4];
  for (unsigned i = 0; i < 4; i++) ms[i] = (uint8_t)(lease_ms(&t->s->rules) >> 8 * i);
  KILN_TRY(board_ask(&t->board, KILN_BOARD_LEASE, t->s->job->room, id, ms, sizeof ms, &is_ours, NULL, err));
  KILN_TRY(board_ask(&t->board, KILN_BOARD_GET, t->s->job->room, id, NULL, 0, &is_there, NULL, err));
  *out = is_there ? TURN_DONE : is_ours ? TURN_OURS : TURN_BUSY;
  snprintf(t->turn_id, sizeof t->turn_id, "%s", *out == TURN_OURS ? id : "");
  if (is_there && is_ours)
    return board_ask(&t->board, KILN_BOARD_DROP, t->s->job->room, id, NULL, 0, NULL, NULL, err);
  return KILN_OK;
}

// `e` NULL: there is no result. The lease ends in every case.
static kiln_status end_turn(tuner *t, const char *id, const kiln_tuned_entry *e, kiln_error *err) {
  kiln_buffer line = {0};
  kiln_status status = KILN_OK;
  kiln_error more = {0};
  const char *in = t->s->job ? t->s->job->room : NULL;
  if (!in) return KILN_OK;
  *t->turn_id = 0;
  if (e) {
    kiln_tuned_write(e, KILN_TUNED_WHOLE, &line);
    status = tune_result_put(&t->board, t->s->job->name, id, &line, t->s->result_key, err);
    kiln_buffer_deinit(&line);
  }
  kiln_status dropped = board_ask(&t->board, KILN_BOARD_DROP, in, id, NULL, 0, NULL, NULL, &more);
  return status == KILN_OK ? dropped : status;
}

// ------------------------------------------------------------------------------------- one contest

static void count_time(tune_shared *shared, const tune_contest *c) {
  atomic_fetch_add(&shared->contests, 1);
  atomic_fetch_add(&shared->judge_ns, c->judge_ns);
  for (unsigned i = 0; i < TUNE_TASKS; i++) atomic_fetch_add(&shared->spent_ns[i], c->spent_ns[i]);
}

static void print_time(const tune_shared *shared) {
  const double s = 1e-9;
  printf(
      "%u shapes, in seconds of devices: arguments %.1f, loading %.1f, a launch of each %.1f, judging %.1f, "
      "measuring %.1f; %u processes\n",
      atomic_load(&shared->contests), s * (double)atomic_load(&shared->values_ns),
      s * (double)atomic_load(&shared->spent_ns[TUNE_LOAD]),
      s * (double)atomic_load(&shared->spent_ns[TUNE_RUN]), s * (double)atomic_load(&shared->judge_ns),
      s * (double)atomic_load(&shared->spent_ns[TUNE_TIME]), atomic_load(&shared->processes));
}

static kiln_status measure(tuner *t, const char *title, tune_subject *s, kiln_tuned_entry *e,
                           const kiln_tuner_row *row, const kiln_tuner_row *old, kiln_error *err) {
  tune_contest contest;
  uint32_t usual =
      t->s->check ? tune_config_called(s->interface, row->entry->texts[KILN_TUNED_CONFIG]) : UINT32_MAX;
  tune_hints hints;
  tune_entry_hints(t, e, s, &hints);
  unsigned begun = atomic_load(&t->shared->next);
  tune_progress progress = {.title = t->s->progress || isatty(2) ? title : NULL,
                            .shape = begun < t->pair_count ? begun : t->pair_count,
                            .of = t->pair_count,
                            .is_line = !t->s->progress,
                            .step = t->s->job ? renew_lease : NULL,
                            .context = t};
  kiln_status status =
      tune_contest_run(&contest, s, &t->view, &t->worker, &t->s->rules, &hints, usual, &progress, err);
  tune_progress_end(&progress);
  // On a host, a kernel can damage the process without a trace, and a new process costs nothing.
  if (s->is_host) tune_worker_end(&t->worker);
  count_time(t->shared, &contest);
  if (status == KILN_OK) {
    tune_entry_fill(t, e, s, &contest);
    print_contest(t, title, s, &contest);
    if (t->html_fd >= 0) tune_html_add(t->html_fd, title, t->device, s, &contest);
    if (t->s->check) print_check(t, title, s, &contest, row);
    if (t->s->gate) print_gate(t, title, e, old);
    if (t->s->output && !t->s->check) status = keep_choice(t, e, err);
  }
  if (status != KILN_OK) status = kiln_context(err, status, "%s", title);
  tune_contest_deinit(&contest);
  return status;
}

// Whether the table makes the contest unnecessary, or lacks what was requested. Reports it.
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

// A failure costs only its own shape. False: another machine measures it.
static bool do_pair(tuner *t, uint32_t number) {
  kiln_error err = {0};
  turn how = TURN_DONE;
  tune_subject s = {0};
  uint64_t begin = cli_now_ns();
  kiln_status status = tune_worker_subject(&t->worker, number, &s, &err);
  atomic_fetch_add(&t->shared->values_ns, cli_now_ns() - begin);
  if (status == KILN_OK) status = run_contest(t, &t->pairs[number], &s, &how, &err);
  if (status != KILN_OK) {
    cli_report(status, &err);
    atomic_fetch_add(&t->shared->failed, 1);
  }
  tune_subject_deinit(&s);
  return how != TURN_BUSY;
}

// Runs contests until none are left; at the end those that another machine has begun, until it finishes or
// drops them.
static void run_contests(tuner *t) {
  uint32_t at, later_count = 0, *later = calloc((size_t)t->pair_count + 1, sizeof *later);
  if (!later) abort();
  while ((at = atomic_fetch_add(&t->shared->next, 1)) < t->pair_count)
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
    run_contests(t);
  } else {
    cli_report(status, &err);
    atomic_fetch_add(&t->shared->failed, 1);
  }
  board_close(&t->board);
  atomic_fetch_add(&t->shared->processes, t->worker.starts);
  tune_worker_close(&t->worker);
}

// One process per device; they take shapes from one queue.
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
    if (pids[i] < 0 || !WIFEXITED(status)) atomic_fetch_add(&t->shared->failed, 1);
  }
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
  t.shared = mmap(NULL, sizeof *t.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (status == KILN_OK && t.shared == MAP_FAILED)
    status = kiln_fail(&err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  int code = CLI_FAILED;
  if (status == KILN_OK) {
    use_devices(&t);
    unsigned failed = atomic_load(&t.shared->failed), broken = atomic_load(&t.shared->broken),
             compared = atomic_load(&t.shared->compared), checked = atomic_load(&t.shared->checked);
    if (s->verbose) print_time(t.shared);
    if (checked) printf("%u of %u choices hold\n", checked - broken, checked);
    if (s->gate && compared)
      printf("%u compared, %u lost, geomean %.3f x\n", compared, broken,
             exp((double)atomic_load(&t.shared->log_sum) / 1e6 / compared));
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
