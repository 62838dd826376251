// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln tune: measures the configs of kernels for shapes and keeps the best ones in a table.
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/common/tuned_file.h"
#include "tools/tool/case_run.h"
#include "tools/tool/tool.h"
#include "tools/tool/tune_contest.h"
#include "tools/tool/tune_recorded.h"
#include "tools/tool/tune_shapes.h"

enum { MOST_SHAPES_FILE = 16 << 20, MOST_DEVICES = 64, ALIGNED = KILN_TUNED_ALIGNMENT, HELLO_MS = 60000 };

typedef struct settings {
  const char *output, *shapes, *record, *devices, *budget, *keep, *gate, *band, *cache_folder;
  cli_list words, kernels, instances;
  int64_t timeout_s, judge_s, most_spill, jobs;
  bool hot, again, check, merge, verbose;
  tune_rules rules;
  double gate_band;
} settings;

// One contest: a kernel of the bundle with a shape.
typedef struct job {
  const view_kernel *kernel;
  const tune_shape *shape;
} job;

// What the processes of several devices share.
typedef struct progress {
  atomic_uint next, failed, broken, compared;
  _Atomic(int64_t) log_sum; // of gates: logarithms of ratios, in millionths
} progress;

typedef struct tuner {
  const settings *s;
  const char *bundle_path, *device, *shapes_path;
  bundle_view view;
  kiln_library *library; // of the same bundle, for parameters
  kiln_device *null_device;
  kiln_arena *arena;
  tune_shape *shapes;
  uint32_t shape_count;
  job *jobs; // owned
  uint32_t job_count;
  kiln_tuner_table known, old; // what is at --output; what --gate compares with
  progress *progress;
  tune_reply where; // product, processor and units of the device
  char toolchain[KILN_TUNER_ID + 1];
} tuner;

static const char *note_of(const bundle_view *v, const char *prefix, const char *name) {
  char key[5000];
  snprintf(key, sizeof key, "%s%.4096s", prefix, name);
  for (uint32_t i = 0; i < v->note_count; i++)
    if (!strcmp(v->notes[i].key, key)) return v->notes[i].value;
  return NULL;
}

// -------------------------------------------------------------------------------------------- jobs

static bool is_called(const char *kernel, const char *wanted) {
  size_t plain = strcspn(kernel, "[");
  return !strcmp(kernel, wanted) || (strlen(wanted) == plain && !memcmp(kernel, wanted, plain));
}

static kiln_status add_jobs(tuner *t, const tune_shape *shape, kiln_error *err) {
  uint32_t before = t->job_count;
  for (uint32_t k = 0; k < t->view.kernel_count; k++) {
    if (!is_called(t->view.kernels[k].name, shape->kernel)) continue;
    t->jobs = realloc(t->jobs, (t->job_count + 1) * sizeof *t->jobs);
    if (!t->jobs) abort();
    t->jobs[t->job_count++] = (job){&t->view.kernels[k], shape};
  }
  if (t->job_count > before) return KILN_OK;
  if (t->s->record) { // an application launches kernels of other bundles, too
    fprintf(stderr, "kiln: note: %s:%u: %s has no kernel '%s': left out\n", t->shapes_path, shape->line,
            t->bundle_path, shape->kernel);
    return KILN_OK;
  }
  return kiln_fail(err, KILN_STATUS_NOT_FOUND, "%s:%u: %s has no kernel '%s'; `kiln inspect` lists them",
                   t->shapes_path, shape->line, t->bundle_path, shape->kernel);
}

// The text of the shapes: that of --shapes, or what --record has with it.
static kiln_status read_text(tuner *t, kiln_buffer *out, kiln_error *err) {
  kiln_buffer given = {0}, record = {0};
  t->shapes_path = t->s->record ? t->s->record : t->s->shapes;
  kiln_status status = t->s->shapes ? cli_read_file(t->s->shapes, MOST_SHAPES_FILE, &given, err) : KILN_OK;
  if (status == KILN_OK && t->s->record) {
    status = cli_read_file(t->s->record, MOST_SHAPES_FILE, &record, err);
    tune_recorded_join((const char *)record.bytes, record.size, (const char *)given.bytes, given.size, out);
  } else if (status == KILN_OK) {
    kiln_buffer_bytes(out, given.bytes, given.size);
  }
  kiln_buffer_deinit(&given);
  kiln_buffer_deinit(&record);
  return status;
}

static kiln_status read_shapes(tuner *t, kiln_error *err) {
  kiln_buffer text = {0};
  kiln_tuned_place place = {0};
  kiln_status status = read_text(t, &text, err);
  if (status == KILN_OK)
    status = tune_shapes_read(t->arena, t->shapes_path, (const char *)text.bytes, text.size, &t->shapes,
                              &t->shape_count, &place, err);
  if (status != KILN_OK && place.line) tuned_file_point((const char *)text.bytes, text.size, place);
  kiln_buffer_deinit(&text);
  for (uint32_t i = 0; i < t->shape_count && status == KILN_OK; i++) status = add_jobs(t, &t->shapes[i], err);
  if (status == KILN_OK && !t->job_count)
    status = kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "%s has no shape", t->shapes_path);
  return status;
}

// --------------------------------------------------------------------------------------- arguments

static kiln_status no_argument(const tuner *t, const job *j, const char *text, kiln_error *err) {
  kiln_buffer names = {0};
  for (uint32_t i = 0; i < j->kernel->interface.param_count; i++)
    kiln_buffer_format(&names, "%s%s", i ? ", " : "", j->kernel->interface.params[i].name);
  kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "%s:%u: '%s': kernel %s has the parameters %.*s",
            t->shapes_path, j->shape->line, text, j->kernel->name, (int)names.size,
            (const char *)names.bytes);
  kiln_buffer_deinit(&names);
  return KILN_STATUS_INVALID_ARGUMENT;
}

static kiln_status set_values(const tuner *t, const job *j, tune_subject *s, kiln_error *err) {
  kiln_kernel *kernel;
  KILN_TRY(kiln_kernel_get(t->null_device, j->kernel->name, NULL, &kernel, err));
  s->values = calloc(kiln_param_count(kernel) + 1, sizeof *s->values);
  if (!s->values) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  for (; s->count < kiln_param_count(kernel); s->count++) {
    kiln_param param;
    KILN_TRY(kiln_param_at(kernel, s->count, &param));
    KILN_TRY(run_value_begin(&s->values[s->count], &param, err));
  }
  for (uint32_t i = 0; i < j->shape->argument_count; i++) {
    const char *text = j->shape->arguments[i], *equals = strchr(text, '=');
    run_value *v = NULL;
    for (size_t k = 0; k < s->count && !v; k++)
      if (strlen(s->values[k].param.name) == (size_t)(equals - text) &&
          !memcmp(s->values[k].param.name, text, (size_t)(equals - text)))
        v = &s->values[k];
    if (!v) return no_argument(t, j, text, err);
    kiln_status status = run_value_set(v, equals + 1, err);
    if (status != KILN_OK) return kiln_context(err, status, "%s:%u", t->shapes_path, j->shape->line);
  }
  for (size_t i = 0; i < s->count; i++)
    if (!s->values[i].is_set)
      return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "%s:%u: argument '%s' (%s) of %s is missing%s",
                       t->shapes_path, j->shape->line, s->values[i].param.name, s->values[i].param.type,
                       j->kernel->name,
                       t->s->record ? "; a line of --shapes says what buffers of a kernel hold" : "");
  return KILN_OK;
}

// ---------------------------------------------------------------------------------------- identity

static bool is_integer(const kiln_param_record *p) {
  return !p->pointer && !p->view_rank && kiln_scalars[p->scalar].type_class & KILN_CLASS_INT;
}

static bool is_listed(const char *names, const char *name) {
  size_t length = strlen(name);
  for (const char *at = names; *at; at += strcspn(at, ","), at += *at == ',')
    if (strcspn(at, ",") == length && !memcmp(at, name, length)) return true;
  return false;
}

static int64_t word_of(const run_value *v, unsigned word) {
  uint64_t bits = 0;
  for (unsigned i = 0; i < 8; i++) bits |= (uint64_t)v->packed[8 * word + i] << 8 * i;
  return (int64_t)bits;
}

static int64_t integer_of(const run_value *v) {
  unsigned shift = 64 - 8 * kiln_scalars[v->scalar].bytes;
  return (int64_t)((uint64_t)word_of(v, 0) << shift) >> shift;
}

static void add_axis(const tuner *t, kiln_tuned_entry *e, kiln_tuned_axis_kind kind, const char *name,
                     uint8_t value) {
  kiln_tuned_add_axis(e, (kiln_tuned_axis){kind, kiln_arena_text(t->arena, name, strlen(name)), value});
}

static void add_integer(const tuner *t, kiln_tuned_entry *e, const kiln_param_record *p, const run_value *v) {
  int64_t number = integer_of(v);
  add_axis(t, e, KILN_TUNED_BIN, p->name, kiln_tuned_bin(number));
  if (!p->div || p->div % ALIGNED) add_axis(t, e, KILN_TUNED_ALIGNED, p->name, number % ALIGNED == 0);
}

static void add_view(const tuner *t, kiln_tuned_entry *e, const kiln_param_record *p, const run_value *v) {
  char name[300];
  for (unsigned axis = 0; axis < p->view_rank; axis++) {
    int64_t stride = word_of(v, 1 + p->view_rank + axis);
    snprintf(name, sizeof name, "%.200s.extent%u", p->name, axis);
    add_axis(t, e, KILN_TUNED_BIN, name, kiln_tuned_bin(word_of(v, 1 + axis)));
    snprintf(name, sizeof name, "%.200s.%u", p->name, axis);
    add_axis(t, e, KILN_TUNED_STRIDE, name, (uint64_t)stride < 2 ? (uint8_t)stride : 2);
  }
}

// What the choice depends on: `@key`, else every integer; views; what is not promised of addresses. Buffers
// that are measured are aligned.
static void add_axes(const tuner *t, const tune_subject *s, kiln_tuned_entry *e) {
  const char *key = note_of(&t->view, "tuning key ", s->interface->name);
  for (size_t i = 0; i < s->count; i++) {
    const kiln_param_record *p = &s->interface->params[i];
    if (is_integer(p) && (!key || is_listed(key, p->name))) add_integer(t, e, p, &s->values[i]);
    if (p->view_rank) add_view(t, e, p, &s->values[i]);
    if ((p->pointer || p->view_rank) && p->align < ALIGNED) add_axis(t, e, KILN_TUNED_ALIGNED, p->name, 1);
  }
}

static const char *number_text(const tuner *t, uint64_t number) {
  return kiln_arena_format(t->arena, "%llu", (unsigned long long)number);
}

// A name of the driver on one line.
static const char *clean(const tuner *t, const char *text) {
  char *copy = kiln_arena_text(t->arena, text, strlen(text));
  for (char *c = copy; *c; c++)
    if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = ' ';
  return copy;
}

static kiln_tuned_entry *make_entry(const tuner *t, const tune_subject *s) {
  kiln_buffer types = {0};
  kiln_tuned_entry *e = KILN_NEW(t->arena, kiln_tuned_entry);
  kiln_interface_types(s->interface, &types);
  e->texts[KILN_TUNED_KERNEL] = s->interface->name;
  e->texts[KILN_TUNED_TYPES] = kiln_arena_text(t->arena, (const char *)types.bytes, types.size);
  e->texts[KILN_TUNED_PRODUCT] = clean(t, t->where.product);
  e->texts[KILN_TUNED_PROCESSOR] = clean(t, t->where.processor);
  e->texts[KILN_TUNED_UNITS] = number_text(t, t->where.units);
  e->numbers[KILN_TUNED_UNITS] = t->where.units;
  e->texts[KILN_TUNED_TOOLCHAIN] = t->toolchain;
  kiln_buffer_deinit(&types);
  add_axes(t, s, e);
  return e;
}

static const char *identity_of(const tuner *t, const kiln_tuned_entry *e) {
  kiln_buffer text = {0};
  kiln_tuned_write(e, KILN_TUNED_IDENTITY_ONLY, &text);
  const char *identity = kiln_arena_text(t->arena, (const char *)text.bytes, text.size);
  kiln_buffer_deinit(&text);
  return identity;
}

static void set_number(const tuner *t, kiln_tuned_entry *e, kiln_tuned_field field, double number) {
  e->numbers[field] = number > 0 ? (uint64_t)(number + 0.5) : 0;
  e->texts[field] = number_text(t, e->numbers[field]);
}

static void fill_entry(const tuner *t, kiln_tuned_entry *e, const tune_subject *s, const tune_contest *c) {
  char date[32];
  time_t now = time(NULL);
  struct tm utc;
  const kiln_config_record *configs = s->interface->configs;
  kiln_estimate best = kiln_samples_estimate(&c->contenders[c->winner].samples),
                usual = kiln_samples_estimate(&c->contenders[c->usual].samples);
  e->texts[KILN_TUNED_CONFIG] = configs[c->candidates[c->winner].config].text;
  set_number(t, e, KILN_TUNED_NS, best.median);
  e->texts[KILN_TUNED_DEFAULT] = configs[c->candidates[c->usual].config].text;
  if (c->contenders[c->usual].samples.count) set_number(t, e, KILN_TUNED_DEFAULT_NS, usual.median);
  if (isfinite(best.high))
    set_number(t, e, KILN_TUNED_SPREAD, (best.high - best.low) / 2 / best.median * 1000);
  set_number(t, e, KILN_TUNED_SAMPLES, (double)c->contenders[c->winner].samples.count);
  e->texts[KILN_TUNED_JUDGE] = c->judge.by;
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  e->texts[KILN_TUNED_DATE] = kiln_arena_text(t->arena, date, strlen(date));
}

// ------------------------------------------------------------------------------------------ report

static void title_of(const job *j, const tune_subject *s, char *out, size_t capacity) {
  size_t used = (size_t)snprintf(out, capacity, "%s", j->kernel->name);
  for (size_t i = 0; i < s->count && used < capacity; i++)
    if (is_integer(&s->interface->params[i]))
      used += (size_t)snprintf(out + used, capacity - used, " %s=%lld", s->values[i].param.name,
                               (long long)integer_of(&s->values[i]));
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
  kiln_buffer_format(&out, " (%zu configs, %u rounds, judged by %s)\n", c->count, c->rounds, c->judge.by);
  for (size_t i = 0; i < c->count; i++) {
    const tune_candidate *k = &c->candidates[i];
    kiln_estimate e = kiln_samples_estimate(&c->contenders[i].samples);
    if (*k->why_out) kiln_buffer_format(&out, "  dropped %s: %s\n", configs[k->config].text, k->why_out);
    else if (t->s->verbose)
      kiln_buffer_format(&out,
                         "  %-40s %10.2f us [%.2f, %.2f] of %zu, %u registers, %u bytes shared, %u spilled\n",
                         configs[k->config].text, e.median / 1e3, e.low / 1e3, e.high / 1e3,
                         c->contenders[i].samples.count, k->registers, k->shared_bytes, k->spill_bytes);
  }
  fwrite(out.bytes, 1, out.size, stdout);
  fflush(stdout);
  kiln_buffer_deinit(&out);
}

// ------------------------------------------------------------------------------------- one contest

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
  if (!holds) atomic_fetch_add(&t->progress->broken, 1);
}

// --gate: the best now against the best then.
static void tell_gate(tuner *t, const char *title, const kiln_tuned_entry *now, const kiln_tuner_row *row) {
  double before = (double)row->entry->numbers[KILN_TUNED_NS], after = (double)now->numbers[KILN_TUNED_NS];
  if (!(before > 0) || !(after > 0)) return;
  double ratio = before / after;
  bool loss = after > before * (1 + t->s->gate_band), win = before > after * (1 + t->s->gate_band);
  printf("%s %s: %.2f us, before %.2f us, %.3f x\n",
         loss  ? "loss"
         : win ? "win "
               : "same",
         title, after / 1e3, before / 1e3, ratio);
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

static kiln_status run_contest(tuner *t, const job *j, tune_subject *s, kiln_error *err) {
  char title[400];
  tune_contest contest;
  tune_worker worker = {0};
  kiln_tuned_entry *e = make_entry(t, s);
  KILN_TRY(read_known(t, err));
  const char *identity = identity_of(t, e);
  const kiln_tuner_row *row = kiln_tuner_table_find(&t->known, identity),
                       *old = kiln_tuner_table_find(&t->old, identity);
  title_of(j, s, title, sizeof title);
  if ((t->s->check || t->s->gate) && !(t->s->check ? row : old)) {
    printf("unknown %s: the table has no choice for it\n", title);
    return KILN_OK;
  }
  const char *stored = row ? row->entry->texts[KILN_TUNED_TOOLCHAIN] : NULL;
  if (row && !t->s->check && !t->s->gate && !t->s->again && stored && !strcmp(stored, t->toolchain)) {
    if (t->s->verbose) printf("%s: %s, as the table says\n", title, row->entry->texts[KILN_TUNED_CONFIG]);
    return KILN_OK;
  }
  KILN_TRY(tune_subject_share(s, err));
  uint32_t usual = t->s->check ? config_of(s->interface, row->entry->texts[KILN_TUNED_CONFIG]) : UINT32_MAX;
  kiln_status status = tune_contest_run(&contest, s, &t->view, &worker, &t->s->rules, usual, err);
  tune_worker_end(&worker);
  if (status == KILN_OK) {
    fill_entry(t, e, s, &contest);
    print_contest(t, title, s, &contest);
    if (t->s->check) tell_check(t, title, s, &contest, row);
    if (t->s->gate) tell_gate(t, title, e, old);
    if (t->s->output && !t->s->check) status = keep_choice(t, e, err);
  }
  if (status != KILN_OK) status = kiln_context(err, status, "%s", title);
  tune_contest_deinit(&contest);
  return status;
}

// Contests until there are none left; what fails costs its own shape.
static void work(tuner *t) {
  uint32_t at;
  while ((at = atomic_fetch_add(&t->progress->next, 1)) < t->job_count) {
    const job *j = &t->jobs[at];
    kiln_error err = {0};
    tune_subject s = {.bundle = t->bundle_path,
                      .device = t->device,
                      .interface = &j->kernel->interface,
                      .is_host = !strncmp(t->device, "host", 4),
                      .is_hot = t->s->hot};
    kiln_status status = set_values(t, j, &s, &err);
    if (status == KILN_OK) status = run_contest(t, j, &s, &err);
    if (status != KILN_OK) {
      cli_report(status, &err);
      atomic_fetch_add(&t->progress->failed, 1);
    }
    tune_subject_unshare(&s);
    for (size_t i = 0; i < s.count; i++) run_value_deinit(&s.values[i]);
    free(s.values);
  }
}

// ---------------------------------------------------------------------------------- devices, bundle

static kiln_status ask_device(const char *bundle, const char *device, tune_reply *out, kiln_error *err) {
  tune_subject nothing = {.bundle = bundle, .device = device};
  tune_worker worker = {0};
  kiln_status status =
      tune_worker_ask(&worker, &nothing, &(tune_request){.task = TUNE_HELLO}, HELLO_MS, out, err);
  tune_worker_end(&worker);
  return status;
}

static void use_device(tuner *t, const char *device) {
  kiln_error err = {0};
  t->device = device;
  kiln_status status = ask_device(t->bundle_path, device, &t->where, &err);
  kiln_tuner_toolchain(t->where.processor, note_of(&t->view, "compiler", ""),
                       note_of(&t->view, "assembler", ""), t->toolchain);
  if (status == KILN_OK) {
    work(t);
    return;
  }
  cli_report(status, &err);
  atomic_fetch_add(&t->progress->failed, 1);
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
  for (unsigned i = 0; i < count; i++)
    if (!fork()) {
      use_device(t, devices[i]);
      fflush(NULL);
      _exit(0);
    }
  while (wait(&status) > 0)
    if (!WIFEXITED(status)) atomic_fetch_add(&t->progress->failed, 1);
}

static bool is_bundle(const char *path) {
  size_t length = strlen(path);
  return length > 8 && !strcmp(path + length - 8, ".kbundle");
}

// Builds the sources with all configs for the first device.
static kiln_status build(const settings *s, const char *path, kiln_error *err) {
  char program[PATH_MAX], device[200], target[100], jobs[32];
  tune_reply where;
  int status = 0;
  if (!cli_find_program("kiln", program, sizeof program) &&
      !cli_find_program("../../bin/kiln", program, sizeof program))
    return kiln_fail(err, KILN_STATUS_TOOL,
                     "kiln is not beside this program, so that sources cannot be built; give a bundle");
  snprintf(device, sizeof device, "%.*s", (int)strcspn(s->devices, ","), s->devices);
  KILN_TRY(ask_device(NULL, device, &where, err));
  snprintf(target, sizeof target, "%s", case_code_target(where.processor));
  const char **words =
      calloc(s->words.count + 2 * s->kernels.count + 2 * s->instances.count + 16, sizeof *words);
  if (!words) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  const char *fixed[] = {
      program,        "build", "--tuning",
      "--keep-going", "-q",    "-o",
      path,           "-t",    s->devices[0] == 'h' && s->devices[1] == 'o' ? "host" : target};
  size_t n = sizeof fixed / sizeof *fixed;
  memcpy(words, fixed, sizeof fixed);
  snprintf(jobs, sizeof jobs, "%lld", (long long)s->jobs);
  if (s->jobs > 0) words[n++] = "-j", words[n++] = jobs;
  if (s->cache_folder) words[n++] = "--cache-dir", words[n++] = s->cache_folder;
  for (size_t i = 0; i < s->kernels.count; i++) words[n++] = "-k", words[n++] = s->kernels.items[i];
  for (size_t i = 0; i < s->instances.count; i++) words[n++] = "-i", words[n++] = s->instances.items[i];
  for (size_t i = 0; i < s->words.count; i++) words[n++] = s->words.items[i];
  fflush(NULL);
  pid_t pid = fork();
  if (!pid) {
    execv(program, (char **)(uintptr_t)words);
    _exit(127);
  }
  if (pid > 0)
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
  free(words);
  // A config that does not compile is no candidate; its message is above.
  return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) <= CLI_FAILED && !access(path, R_OK)
             ? KILN_OK
             : kiln_fail(err, KILN_STATUS_TOOL, "the sources were not built (the message is above)");
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
  return t->s->gate ? tuned_file_read(t->s->gate, &t->old, err) : KILN_OK;
}

static int tune_bundle(const settings *s, const char *path) {
  tuner t = {.s = s, .bundle_path = path, .arena = kiln_arena_create()};
  kiln_error err = {0};
  kiln_status status = open_bundle(&t, &err);
  if (status == KILN_OK) status = read_tables(&t, &err);
  if (status == KILN_OK) status = read_shapes(&t, &err);
  t.progress = mmap(NULL, sizeof *t.progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (status == KILN_OK && t.progress == MAP_FAILED)
    status = kiln_fail(&err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  int code = CLI_FAILED;
  if (status == KILN_OK) {
    use_devices(&t);
    unsigned failed = atomic_load(&t.progress->failed), broken = atomic_load(&t.progress->broken),
             compared = atomic_load(&t.progress->compared);
    if (s->gate && compared)
      printf("%u compared, %u lost, geomean %.3f x\n", compared, broken,
             exp((double)atomic_load(&t.progress->log_sum) / 1e6 / compared));
    if (failed) printf("%u of %u shapes failed\n", failed, t.job_count);
    code = failed || broken ? CLI_FAILED : CLI_OK;
  } else {
    code = cli_report(status, &err);
  }
  kiln_device_close(t.null_device);
  kiln_close(t.library);
  if (t.view.arena) bundle_view_close(&t.view);
  kiln_tuner_table_deinit(&t.known);
  kiln_tuner_table_deinit(&t.old);
  kiln_arena_destroy(t.arena);
  free(t.jobs);
  return code;
}

static int tune_sources(const settings *s) {
  char folder[] = "/tmp/kiln-tune-XXXXXX", path[sizeof folder + 20];
  kiln_error err = {0};
  if (!mkdtemp(folder)) {
    kiln_status status = kiln_fail(&err, kiln_status_of_errno(errno), "%s: %s", folder, strerror(errno));
    return cli_report(status, &err);
  }
  snprintf(path, sizeof path, "%s/all.kbundle", folder);
  kiln_status status = build(s, path, &err);
  int code = status == KILN_OK ? tune_bundle(s, path) : cli_report(status, &err);
  unlink(path);
  rmdir(folder);
  return code;
}

static int merge_tables(const settings *s) {
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
static int check_settings(const cli_page *page, settings *s) {
  double percent;
  if (!s->words.count) return cli_usage(page, "expected a bundle, sources, or tables after --merge");
  if (s->merge) return s->output ? -1 : cli_usage(page, "--merge: --output is missing");
  if (!s->shapes && !s->record) return cli_usage(page, "--shapes is missing");
  if (!s->output && !s->gate) return cli_usage(page, "--output is missing");
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
  s->rules.most_spill = (uint32_t)(s->most_spill > UINT32_MAX ? UINT32_MAX : s->most_spill);
  bool bundle = is_bundle(s->words.items[0]);
  if (bundle && s->words.count > 1)
    return cli_usage(page, "expected one bundle, found %zu words", s->words.count);
  return -1;
}

int kiln_command_tune(int argc, char **argv) {
  settings s = {.devices = "host",
                .budget = "2",
                .keep = "100",
                .band = "5",
                .timeout_s = 10,
                .judge_s = 20,
                .most_spill = 1024};
  const cli_option options[] = {
      {"output", 'o', CLI_TEXT, &s.output, "TABLE", "the table to add to"},
      {"shapes", 's', CLI_TEXT, &s.shapes, "FILE", "kernels and arguments to measure; see below"},
      {"record", 0, CLI_TEXT, &s.record, "FILE",
       "shapes that an application recorded; --shapes says what buffers hold"},
      {"device", 'd', CLI_TEXT, &s.devices, "NAME,...",
       "host, cuda:N, hip:N; several share the shapes (host)"},
      {"budget", 0, CLI_TEXT, &s.budget, "SECONDS",
       "for measuring a shape (2); less where it is clear sooner"},
      {"hot", 0, CLI_FLAG, &s.hot, NULL, "leave the L2 of a GPU as the launch before left it"},
      {"keep", 0, CLI_TEXT, &s.keep, "PERCENT", "of the configs after their first times, at least one (100)"},
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
      {"merge", 0, CLI_FLAG, &s.merge, NULL, "put tables together; nothing is measured"},
      {"kernel", 'k', CLI_LIST, &s.kernels, "NAME", "of sources: only this kernel"},
      {"instance", 'i', CLI_LIST, &s.instances, "K[P=V]", "of sources: one more instance"},
      {"jobs", 'j', CLI_COUNT, &s.jobs, "N", "of sources: compile so many at the same time"},
      {"cache-dir", 0, CLI_TEXT, &s.cache_folder, "DIR", "of sources: folder of the cache"},
      {"verbose", 'v', CLI_FLAG, &s.verbose, NULL, "print the times of every config"},
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
    code = s.merge                       ? merge_tables(&s)
           : is_bundle(s.words.items[0]) ? tune_bundle(&s, s.words.items[0])
                                         : tune_sources(&s);
  cli_list_deinit(&s.words);
  cli_list_deinit(&s.kernels);
  cli_list_deinit(&s.instances);
  return code;
}
