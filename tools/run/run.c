// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln run: launches one kernel of a bundle with arguments from the command line, and prints, saves or
// compares what it wrote.
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/output.h"
#include "base/plural.h"
#include "tools/bundle/view.h"
#include "tools/bundle/suggest.h"
#include "tools/run/bounds.h"
#include "tools/run/arguments.h"
#include "tools/kiln-tool/commands.h"

typedef struct run_settings {
  const char *device, *tolerance_text, *grid_text;
  double tolerance;
  uint32_t grid[3]; // when grid_text is not NULL
  cli_list args, print, save, compare, words;
  int64_t repeat, seed, schedules;
  bool explain, exact, no_jit, check, scratch;
} run_settings;

typedef struct run_state {
  kiln_library *library;
  kiln_device *device;
  kiln_kernel *kernel;
  run_value *values; // owned
  size_t count;
  run_guard guard;
  ptx_device interpreter; // with RUN_GUARD_DEVICE
  kiln_buffer ptx;        // owned: with RUN_GUARD_DEVICE the library's bytes
  const uint32_t *grid;   // the caller's; NULL: the kernel's own
} run_state;

static run_value *find_value(run_state *r, const char *text, size_t length) {
  for (size_t i = 0; i < r->count; i++) {
    const char *name = r->values[i].param.name;
    KILN_ASSERT(name);
    if (strlen(name) == length && !memcmp(name, text, length)) return &r->values[i];
  }
  return NULL;
}

/// The value that the first `length` characters of `text` name; `form` is the expected form of `text`:
/// without its "=" it names no value.
static kiln_status need_value(run_state *r, const char *text, size_t length, const char *form,
                              run_value **out, kiln_error *err) {
  kiln_buffer names = {0};
  if ((*out = text[length] || !strchr(form, '=') ? find_value(r, text, length) : NULL)) return KILN_OK;
  for (size_t i = 0; i < r->count; i++)
    kiln_buffer_format(&names, "%s%s: %s", i ? ", " : "", r->values[i].param.name, r->values[i].param.type);
  kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "'%s': expected %s with one of (%.*s)", text, form,
            (int)names.size, (const char *)names.bytes);
  kiln_buffer_deinit(&names);
  return KILN_STATUS_INVALID_ARGUMENT;
}

static kiln_status need_buffer(run_state *r, const char *text, size_t length, const char *form,
                               run_value **out, kiln_error *err) {
  KILN_TRY(need_value(r, text, length, form, out, err));
  if ((*out)->bytes) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "'%s': argument '%s' (%s) is no buffer", text,
                   (*out)->param.name, (*out)->param.type);
}

/// `argument` is NAME=VALUE; a shape may follow the name of a file.
static kiln_status check_not_read(const char *to, const char *argument, kiln_error *err) {
  char file[PATH_MAX];
  const char *from = strstr(argument, "=@"), *shape = from ? strrchr(from, '[') : NULL;
  if (!from) return KILN_OK;
  KILN_TRY(kiln_output_apart(to, from + 2, err));
  if (!shape || snprintf(file, sizeof file, "%.*s", (int)(shape - from - 2), from + 2) >= (int)sizeof file)
    return KILN_OK;
  return kiln_output_apart(to, file, err);
}

/// No buffer is saved over what is read, or over another. Before anything is launched.
static kiln_status check_saves(const run_settings *s, kiln_error *err) {
  for (size_t i = 0; i < s->save.count; i++) {
    const char *to = strchr(s->save.items[i], '=');
    if (!to++) continue; // refused with the names of the buffers, once they are known
    KILN_TRY(kiln_output_apart(to, s->words.items[0], err));
    for (size_t k = 0; k < s->args.count; k++) KILN_TRY(check_not_read(to, s->args.items[k], err));
    for (size_t k = 0; k < s->compare.count; k++) {
      const char *from = strchr(s->compare.items[k], '=');
      KILN_TRY(kiln_output_apart(to, from ? from + 1 : NULL, err));
    }
    for (size_t k = 0; k < i; k++) {
      const char *other = strchr(s->save.items[k], '=');
      KILN_TRY(kiln_output_apart(to, other ? other + 1 : NULL, err));
    }
  }
  return KILN_OK;
}

/// The interpreter of PTX runs what there is of PTX in the bundle.
static kiln_status begin_interpreter(run_state *r, const run_settings *s, const kiln_open_options *options,
                                     kiln_error *err) {
  KILN_TRY(ptx_device_load(s->device, &r->interpreter, err));
  if (s->check) KILN_TRY(kiln_open(options, &r->library, err));
  kiln_close(r->library);
  r->library = NULL;
  return ptx_device_read(&r->interpreter, s->words.items[0], s->words.items[1], &r->ptx, err);
}

static kiln_status open_all(run_state *r, const run_settings *s, kiln_error *err) {
  const bool is_interpreted = r->guard == RUN_GUARD_DEVICE;
  kiln_source source = {.path = s->words.items[0]};
  kiln_open_options options = {.size = sizeof options, .sources = &source, .source_count = 1};
  options.policy =
      (s->exact ? KILN_EXACT_ONLY : 0) | (s->no_jit ? KILN_NO_JIT : 0) | (s->check ? KILN_CHECK_ALL : 0);
  if (is_interpreted) {
    KILN_TRY(begin_interpreter(r, s, &options, err));
    source = (kiln_source){.bytes = r->ptx.bytes, .size = r->ptx.size};
  }
  KILN_TRY(kiln_open(&options, &r->library, err));
  KILN_TRY(require_kernel(r->library, s->words.items[0], s->words.items[1], err));
  KILN_TRY(kiln_device_open(r->library, is_interpreted ? PTX_DEVICE_OPENED : s->device, &r->device, err));
  kiln_status status = kiln_kernel_get(r->device, s->words.items[1], NULL, &r->kernel, err);
  return is_interpreted ? ptx_device_explain(&r->interpreter, s->words.items[1], 1, status, err) : status;
}

static kiln_status set_values(run_state *r, const run_settings *s, kiln_error *err) {
  r->values = calloc(kiln_param_count(r->kernel) + 1, sizeof *r->values);
  if (!r->values) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  for (; r->count < kiln_param_count(r->kernel); r->count++) {
    kiln_param param;
    KILN_TRY(kiln_param_at(r->kernel, r->count, &param));
    KILN_TRY(run_value_begin(&r->values[r->count], &param, err));
  }
  for (size_t i = 0; i < s->args.count; i++) {
    const char *text = s->args.items[i];
    size_t length = strcspn(text, "=");
    run_value *v;
    KILN_TRY(need_value(r, text, length, "NAME=VALUE", &v, err));
    KILN_TRY(run_value_set(v, text + length + 1, err));
  }
  for (size_t i = 0; i < r->count; i++)
    if (!r->values[i].is_set)
      return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "argument '%s' (%s) is missing",
                       r->values[i].param.name, r->values[i].param.type);
  return KILN_OK;
}

static void print_choice(const kiln_choice *c) {
  printf("config %s, variant '%s', target %s (rank %u), grid %u x %u x %u, %u threads, %u bytes shared, %u "
         "registers, %u bytes spilled\n",
         cli_name(c->config), cli_name(c->variant), cli_name(c->target), c->rank, c->grid[0], c->grid[1],
         c->grid[2], c->block_threads, c->shared_bytes, c->registers, c->spill_bytes);
}

static void print_reason(const kiln_reason *r) {
  if (!*r->bundle) return; // nothing was tuned
  printf("%s (%s)%s%.*s\n", r->text, r->bundle, r->entry_size ? ": " : "", (int)r->entry_size, r->entry);
}

static int by_time(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

// The first launch is the one whose results count; repetitions come before the buffers are set again, so that
// in-place kernels stay right.
static kiln_status time_launches(run_call *c, int64_t repeat, kiln_error *err) {
  uint64_t *times = malloc((size_t)repeat * sizeof *times);
  if (!times) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  kiln_status status = run_call_launch(c, err);
  for (int64_t i = 0; i < repeat && status == KILN_OK; i++) {
    uint64_t start = cli_now_ns();
    status = run_call_launch(c, err);
    times[i] = cli_now_ns() - start;
  }
  if (status == KILN_OK) {
    size_t middle = (size_t)repeat / 2;
    qsort(times, (size_t)repeat, sizeof *times, by_time);
    printf("launch and wait, %lld times: least %.1f us, median %.1f us\n", (long long)repeat,
           (double)times[0] / 1e3, (double)times[middle] / 1e3);
  }
  free(times);
  for (size_t i = 0; i < c->count && status == KILN_OK; i++)
    if (c->values[i].bytes)
      status = kiln_copy_in(c->device, c->values[i].memory.at, c->values[i].bytes, c->values[i].size, err);
  return status;
}

/// Without @grid the source means one program, which is seldom intended.
static void warn_of_no_grid(const run_settings *s) {
  bundle_view view;
  kiln_error ignored = {0};
  if (s->grid_text || bundle_view_open(s->words.items[0], &view, &ignored) != KILN_OK) return;
  for (uint32_t i = 0; i < view.kernel_count; i++) {
    const kiln_interface *in = &view.kernels[i].interface;
    const kiln_span *grid = in->config_count ? in->configs[0].grid : NULL;
    if (grid && !strcmp(view.kernels[i].name, s->words.items[1]) && !grid[0].size && !grid[1].size &&
        grid[2].size)
      fprintf(stderr, "kiln: warning: kernel '%s' states no @grid: one program runs (--grid=X,Y,Z)\n",
              view.kernels[i].name);
  }
  bundle_view_close(&view);
}

/// What runs in place of the kernel.
static kiln_status print_launches(const run_call *c, kiln_error *err) {
  const char *name;
  if (!c->scratch || c->grid) return KILN_OK;
  for (size_t i = 0;; i++) {
    kiln_status status =
        kiln_scratch_launch_at(c->kernel, c->block, c->size, c->scratch, c->scratch_bytes, i, &name, err);
    if (status == KILN_STATUS_NOT_FOUND && i) printf("\n");
    if (status != KILN_OK) return status == KILN_STATUS_NOT_FOUND ? KILN_OK : status;
    if (!i) printf("with %zu bytes of scratch memory, in its place:", c->scratch_bytes);
    printf("%s %s", i ? "," : "", cli_name(name));
  }
}

/// Launches whose results are dropped: the last one counts.
static kiln_status launch_before(run_call *c, run_state *r, const run_settings *s, kiln_error *err) {
  kiln_choice again;
  if (r->guard != RUN_GUARD_DEVICE) return s->repeat > 0 ? time_launches(c, s->repeat, err) : KILN_OK;
  for (int64_t i = 0; i + 1 < s->schedules; i++) {
    ptx_device_seed(&r->interpreter, (uint64_t)(s->seed + i));
    KILN_TRY(run_call_launch(c, err));
    KILN_TRY(run_call_begin(c, &again, err));
  }
  ptx_device_seed(&r->interpreter, (uint64_t)(s->seed + s->schedules - 1));
  return KILN_OK;
}

/// The launches before the one that counts: they find accesses outside of buffers, and are repeated. What the kernel prints
/// is seen once, of the first launch, which may be the last.
static kiln_status prepare_launch(run_call *c, run_state *r, const run_settings *s, const kiln_choice *choice,
                                  kiln_error *err) {
  kiln_choice again;
  c->prints_once = true;
  kiln_status status = run_call_find_outside(c, choice, err);
  run_call_unsilence(c);
  c->has_printed = !c->prints_once, c->prints_once = false;
  if (status == KILN_OK) status = run_call_begin(c, &again, err);
  return status == KILN_OK ? launch_before(c, r, s, err) : status;
}

static kiln_status launch_all(run_call *c, run_state *r, const run_settings *s, kiln_error *err) {
  kiln_choice choice;
  KILN_TRY(run_call_begin(c, &choice, err));
  if (s->scratch) KILN_TRY(run_call_take_scratch(c, err));
  if (r->grid) memcpy(choice.grid, r->grid, sizeof choice.grid);
  if (s->explain) {
    kiln_reason reason = {.size = sizeof reason};
    print_choice(&choice);
    KILN_TRY(kiln_choose_reason(c->kernel, c->block, c->size, &reason, err));
    print_reason(&reason);
    KILN_TRY(print_launches(c, err));
  }
  fflush(stdout); // a fault ends the process
  warn_of_no_grid(s);
  KILN_TRY(prepare_launch(c, r, s, &choice, err));
  if (c->has_printed) run_call_silence(c);
  kiln_status status = run_call_launch(c, err);
  run_call_unsilence(c);
  KILN_TRY(status);
  KILN_TRY(run_call_check(c, err));
  for (size_t i = 0; i < r->count; i++) KILN_TRY(run_value_fetch(&r->values[i], r->device, err));
  return KILN_OK;
}

static kiln_status run_kernel(run_state *r, const run_settings *s, kiln_error *err) {
  run_call call = {.device = r->device,
                   .kernel = r->kernel,
                   .values = r->values,
                   .count = r->count,
                   .guard = r->guard,
                   .name = s->words.items[1],
                   .interpreter = r->guard == RUN_GUARD_DEVICE ? &r->interpreter : NULL,
                   .grid = r->grid,
                   .size = kiln_block_size(r->kernel)};
  call.block = calloc(1, call.size + 1);
  if (!call.block) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  kiln_status status = launch_all(&call, r, s, err);
  run_call_end(&call);
  free(call.block);
  return status;
}

// ----------------------------------------------------------------------------------------- results

static bool parse_count(const char *text, size_t *out) {
  char *end;
  errno = 0;
  *out = strtoull(text, &end, 0);
  return *text >= '0' && *text <= '9' && !*end && !errno;
}

static kiln_status print_value(run_state *r, const char *text, kiln_error *err) {
  size_t length = strcspn(text, ":"), wanted = 16;
  run_value *v;
  KILN_TRY(need_buffer(r, text, length, "NAME[:COUNT]", &v, err));
  if (text[length] && !parse_count(text + length + 1, &wanted))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "'%s': expected NAME[:COUNT], found '%s'", text,
                     text + length + 1);
  size_t count = run_value_count(v);
  printf("%s =", cli_name(v->param.name));
  char element[RUN_VALUE_TEXT];
  for (size_t i = 0; i < count && i < wanted; i++) printf(" %s", run_value_text(v, i, element));
  printf(count > wanted ? " ... (%zu elements)\n" : "\n", count);
  return KILN_OK;
}

/// At most one buffer goes to standard output, and nothing else does then.
static int take_saved(const cli_page *page, const run_settings *s) {
  int how = -1;
  for (size_t i = 0; how == -1 && i < s->save.count; i++) {
    const char *equals = strchr(s->save.items[i], '=');
    how = cli_take_output(page, "--save", equals ? equals + 1 : NULL);
  }
  return how;
}

static kiln_status save_value(run_state *r, const char *text, kiln_error *err) {
  size_t length = strcspn(text, "=");
  run_value *v;
  KILN_TRY(need_buffer(r, text, length, "NAME=FILE", &v, err));
  return cli_write_file(text + length + 1, v->bytes, v->size, err);
}

enum {
  MOST_MORE = 1 << 20
}; // what another file may have beyond the buffer, to be told by how much they differ

static kiln_status compare_value(run_state *r, const char *text, double tolerance, kiln_error *err) {
  kiln_buffer expected = {0};
  size_t length = strcspn(text, "=");
  run_value *v;
  KILN_TRY(need_buffer(r, text, length, "NAME=FILE", &v, err));
  kiln_status status = cli_read_file(text + length + 1, "", v->size + MOST_MORE, &expected, err);
  if (status == KILN_OK) status = run_value_compare(v, expected.bytes, expected.size, tolerance, err);
  kiln_buffer_deinit(&expected);
  return status;
}

static kiln_status show_results(run_state *r, const run_settings *s, kiln_error *err) {
  for (size_t i = 0; i < s->print.count; i++) KILN_TRY(print_value(r, s->print.items[i], err));
  for (size_t i = 0; i < s->save.count; i++) KILN_TRY(save_value(r, s->save.items[i], err));
  for (size_t i = 0; i < s->compare.count; i++)
    KILN_TRY(compare_value(r, s->compare.items[i], s->tolerance, err));
  return KILN_OK;
}

static kiln_status run_all(const run_settings *s, kiln_error *err) {
  const bool is_host = strcspn(s->device, ":") == 4 && !strncmp(s->device, "host", 4);
  run_state r = {.grid = s->grid_text ? s->grid : NULL,
                 .guard = is_host                    ? RUN_GUARD_PAGES
                          : ptx_device_is(s->device) ? RUN_GUARD_DEVICE
                                                     : RUN_GUARD_ZONES};
  kiln_status status = check_saves(s, err);
  if (status == KILN_OK) status = open_all(&r, s, err);
  if (status == KILN_OK) status = set_values(&r, s, err);
  if (status == KILN_OK) status = run_kernel(&r, s, err);
  if (status == KILN_OK) status = show_results(&r, s, err);
  for (size_t i = 0; i < r.count; i++) run_value_deinit(&r.values[i]);
  free(r.values);
  kiln_device_close(r.device);
  kiln_close(r.library);
  kiln_buffer_deinit(&r.ptx);
  return status;
}

// "X", "X,Y" or "X,Y,Z" of decimal numbers; an axis that is left out is 1.
static bool parse_grid(const char *text, uint32_t out[3]) {
  out[0] = out[1] = out[2] = 1;
  for (unsigned axis = 0; axis < 3; axis++) {
    uint64_t extent = 0;
    if (*text < '0' || *text > '9') return false;
    for (; *text >= '0' && *text <= '9'; text++)
      if ((extent = 10 * extent + (uint64_t)(*text - '0')) > UINT32_MAX) return false;
    out[axis] = (uint32_t)extent;
    if (!*text) return true;
    if (*text++ != ',') return false;
  }
  return false;
}

static bool parse_tolerance(const char *text, double *out) {
  char *end;
  *out = strtod(text, &end);
  return end != text && !*end && *out >= 0 && isfinite(*out);
}

int kiln_command_run(int argc, char **argv) {
  run_settings s = {.device = "host", .tolerance_text = "0", .seed = 1, .schedules = 1};
  const cli_option options[] = {
      {"device", 'd', CLI_TEXT, &s.device, "NAME",
       "host, host:THREADS, cuda:N, hip:N, or ptx:PROCESSOR: the interpreter of PTX (host)"},
      {"arg", 'a', CLI_LIST, &s.args, "NAME=VALUE", "an argument; see below"},
      {"grid", 'g', CLI_TEXT, &s.grid_text, "X[,Y[,Z]]",
       "program instances; for kernels that state no grid (Triton IR)"},
      {"print", 'p', CLI_LIST, &s.print, "NAME[:COUNT]", "print the first elements of a buffer (16)"},
      {"save", 0, CLI_LIST, &s.save, "NAME=FILE", "write a buffer to a file"},
      {"compare", 0, CLI_LIST, &s.compare, "NAME=FILE", "compare a buffer with a file"},
      {"tolerance", 0, CLI_TEXT, &s.tolerance_text, "T",
       "differences up to T x (1 + |expected|) are equal (0)"},
      {"time", 0, CLI_COUNT, &s.repeat, "N", "time N launches"},
      {"explain", 0, CLI_FLAG, &s.explain, NULL, "say which code was chosen"},
      {"scratch", 0, CLI_FLAG, &s.scratch, NULL, "give the kernel the scratch memory that it wants"},
      {"exact", 0, CLI_FLAG, &s.exact, NULL,
       "refuse code that is not for exactly this GPU architecture or CPU"},
      {"no-jit", 0, CLI_FLAG, &s.no_jit, NULL, "refuse PTX"},
      {"check", 0, CLI_FLAG, &s.check, NULL, "check the whole bundle first"},
      {"seed", 0, CLI_NUMBER, &s.seed, "N", "ptx: of the order in which warps run (1)", INT64_MAX / 2},
      {"schedules", 0, CLI_COUNT, &s.schedules, "N",
       "ptx: launch in that many orders, with seeds from --seed on (1)"},
  };
  const cli_page page = {
      .usage = "kiln run [options] BUNDLE KERNEL",
      .summary = "Launches a kernel once.",
      .options = options,
      .option_count = sizeof options / sizeof *options,
      .more =
          "Scalars are numbers that the type can hold; u8:, u16:, u32: or u64: before one gives the bits of "
          "an "
          "integer of that size. Buffers: zeros:COUNT, ones:COUNT, iota:COUNT, fill:COUNT:VALUE, "
          "random:COUNT[:SEED], @FILE, null.\n"
          "A view is a buffer and its shape: random:4096[64,64], or with strides random:4096[64,32;64,1].",
  };
  kiln_error err = {0};
  int exit_code = cli_parse(&page, argc, argv, &s.words);
  if (exit_code == -1 && s.words.count != 2)
    exit_code = cli_usage(&page, "expected BUNDLE and KERNEL, found %zu word%s", s.words.count,
                          kiln_plural(s.words.count));
  if (exit_code == -1 && s.grid_text && !parse_grid(s.grid_text, s.grid))
    exit_code = cli_usage(&page, "--grid: expected X, X,Y or X,Y,Z of 32 bits each, found '%s'", s.grid_text);
  if (exit_code == -1 && s.repeat > 0 && ptx_device_is(s.device))
    exit_code = cli_usage(&page, "--time: the interpreter of PTX says nothing about time");
  if (exit_code == -1 && (s.exact || s.no_jit) && ptx_device_is(s.device))
    exit_code = cli_usage(&page, "--exact, --no-jit: the interpreter of PTX runs PTX only");
  if (exit_code == -1 && !ptx_device_is(s.device) && (s.seed != 1 || s.schedules != 1))
    exit_code = cli_usage(&page, "--seed, --schedules: expected --device=ptx:PROCESSOR, found %s", s.device);
  if (exit_code == -1 && !parse_tolerance(s.tolerance_text, &s.tolerance))
    exit_code =
        cli_usage(&page, "--tolerance: expected a number of at least 0, found '%s'", s.tolerance_text);
  if (exit_code == -1) exit_code = take_saved(&page, &s);
  if (exit_code == -1) {
    kiln_status status = run_all(&s, &err);
    exit_code = status == KILN_OK ? CLI_OK : cli_report(status, &err);
  }
  cli_list *lists[] = {&s.args, &s.print, &s.save, &s.compare, &s.words};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) cli_list_deinit(lists[i]);
  return exit_code;
}
