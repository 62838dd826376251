// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln tune: reads the command line and starts the work that it asks for.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/output.h"
#include "tools/common/tuned_file.h"
#include "tools/kiln-tool/commands.h"
#include "tools/tune/session.h"

enum { DAY_S = 86400 }; // the most that a limit of time may be

static bool is_bundle(const char *path) {
  size_t length = strlen(path);
  return length > 8 && !strcmp(path + length - 8, ".kbundle");
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
  if (s->collect && s->trust.count > TUNE_MOST_KEYS)
    return cli_usage(page, "--collect: expected up to %d keys of --trust, found %zu", TUNE_MOST_KEYS,
                     s->trust.count);
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
  if (s->output && kiln_output_is_stdout(s->output))
    return cli_usage(page, "--output: a table is read and added to, which standard output cannot be");
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
  s->rules.limit_ms = (unsigned)s->timeout_s * 1000;
  s->rules.judge_ms = (unsigned)s->judge_s * 1000;
  s->rules.all_below = (uint32_t)s->all_below;
  s->rules.most_spill = (uint32_t)s->most_spill;
  if (s->words.count && is_bundle(s->words.items[0]) && s->words.count > 1)
    return cli_usage(page, "expected one bundle, found %zu words", s->words.count);
  return -1;
}

/// Filled by `options`; the program runs one command.
static tune_settings settings = {.devices = "host",
                                 .budget = "2",
                                 .keep = "100",
                                 .band = "5",
                                 .timeout_s = 10,
                                 .judge_s = 20,
                                 .most_spill = 1024,
                                 .all_below = 16};

static const cli_option options[] = {
    {"output", 'o', CLI_OUTPUT, &settings.output, "TABLE", "the table to add to"},
    {"shapes", 's', CLI_INPUT, &settings.shapes, "FILE", "kernels and arguments to measure; see below"},
    {"record", 0, CLI_INPUT, &settings.record, "FILE",
     "shapes that an application recorded; --shapes says what buffers hold"},
    {"case", 0, CLI_LIST, &settings.cases, "DIR",
     "a recorded launch of a Triton kernel (`kiln check-case`): source, shape and reference"},
    {"device", 'd', CLI_TEXT, &settings.devices, "NAME,...",
     "host, cuda:N, hip:N; several share the shapes (host)"},
    {"budget", 0, CLI_TEXT, &settings.budget, "SECONDS",
     "for measuring a shape (2); less if the result is clear sooner"},
    {"hot", 0, CLI_FLAG, &settings.hot, NULL, "leave the L2 of a GPU as the launch before left it"},
    {"keep", 0, CLI_TEXT, &settings.keep, "PERCENT",
     "how many of the configs to keep after their first times, at least one (100)"},
    {"all-below", 0, CLI_NUMBER, &settings.all_below, "N",
     "try all configs up to this number; search among more (16)", UINT32_MAX},
    {"timeout", 0, CLI_COUNT, &settings.timeout_s, "SECONDS",
     "a config that takes longer for a step is dropped (10)", DAY_S},
    {"judge-limit", 0, CLI_NUMBER, &settings.judge_s, "SECONDS",
     "for the reference interpreter; beyond that, results are compared with the first config's (20)", DAY_S},
    {"max-spill", 0, CLI_NUMBER, &settings.most_spill, "BYTES", "configs that spill more are dropped (1024)",
     UINT32_MAX},
    {"again", 0, CLI_FLAG, &settings.again, NULL, "also measure what the table has already"},
    {"check", 0, CLI_FLAG, &settings.check, NULL,
     "measure whether the choices of the table hold; write nothing"},
    {"gate", 0, CLI_TEXT, &settings.gate, "TABLE",
     "compare with the times of another table; exit code 1 if a kernel got slower"},
    {"band", 0, CLI_TEXT, &settings.band, "PERCENT", "with --gate: differences up to this count as none (5)"},
    {"among", 0, CLI_LIST, &settings.among, "TABLE",
     "measure only what this table, or one of several, chose for a shape"},
    {"html", 0, CLI_OUTPUT, &settings.html, "FILE",
     "write a page with every config's time and the winners by shape"},
    {"merge", 0, CLI_FLAG, &settings.merge, NULL, "merge tables; nothing is measured"},
    {"post", 0, CLI_TEXT, &settings.post, "redis://...", "post the work as a job for other machines"},
    {"sign", 0, CLI_INPUT, &settings.sign_key, "KEY",
     "secret key of `kiln cache keygen`: --post signs the job with it, --worker its results"},
    {"worker", 0, CLI_TEXT, &settings.worker, "redis://...", "run the jobs posted there, on --device"},
    {"trust", 0, CLI_INPUTS, &settings.trust, "FILE",
     "a public key: --worker runs jobs and --collect accepts results signed by it"},
    {"collect", 0, CLI_TEXT, &settings.collect, "redis://...", "write the workers' results to --output"},
    {"kernel", 'k', CLI_LIST, &settings.kernels, "NAME", "for sources: only this kernel"},
    {"instance", 'i', CLI_LIST, &settings.instances, "K[P=V]", "for sources: one more instance"},
    {"key", 0, CLI_TEXT, &settings.key, "NAMES",
     "for Triton IR: the integer parameters that a choice depends on, separated by commas (all)"},
    {"jobs", 'j', CLI_COUNT, &settings.jobs, "N", "for sources: compile this many at the same time",
     CLI_MOST_JOBS},
    {"cache-dir", 0, CLI_TEXT, &settings.cache_folder, "DIR", "for sources: folder of the cache"},
    {"verbose", 'v', CLI_FLAG, &settings.verbose, NULL, "print the times of every config"},
    {"progress", 0, CLI_FLAG, &settings.progress, NULL,
     "print each step with the best so far (otherwise one line on a terminal)"},
};

static const cli_page page = {
    .usage = "kiln tune [options] -o TABLE --shapes FILE BUNDLE|SOURCE...",
    .summary =
        "Launches every config of kernels with the shapes of a file, drops those whose results are "
        "wrong, and keeps the\n"
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
            "Exit codes: 0 done, 1 a shape failed, a choice does not hold or a kernel got slower, 2 wrong "
            "command line.",
};

/// Reads a table and forgets it. What can be read only once is left to who uses it.
static kiln_status check_table(const char *path, bool must_be_there, kiln_error *err) {
  struct stat found;
  kiln_tuner_table table;
  if (!path || (stat(path, &found) ? !must_be_there : !S_ISREG(found.st_mode))) return KILN_OK;
  kiln_tuner_table_init(&table);
  kiln_status status = tuned_file_read(path, &table, err);
  kiln_tuner_table_deinit(&table);
  return status;
}

/// All files of the command line, before anything is compiled or measured.
static kiln_status check_files(const tune_settings *s, kiln_error *err) {
  const char *const written[] = {s->check ? NULL : s->output, s->html};
  struct stat found;
  for (size_t i = 0; i < sizeof written / sizeof *written; i++)
    if (written[i]) KILN_TRY(kiln_output_try(written[i], err));
  KILN_TRY(check_table(s->output, s->check, err));
  KILN_TRY(check_table(s->gate, true, err));
  for (size_t i = 0; i < s->among.count; i++) KILN_TRY(check_table(s->among.items[i], true, err));
  for (size_t i = 0; i < s->words.count; i++)
    if (access(s->words.items[i], R_OK))
      return kiln_fail(err, kiln_status_of_errno(errno), "cannot open %s: %s", s->words.items[i],
                       strerror(errno));
  const char *const shapes[] = {s->shapes, s->record};
  bool is_again = s->shapes || s->record;
  for (size_t i = 0; i < 2; i++) is_again &= !shapes[i] || stat(shapes[i], &found) || S_ISREG(found.st_mode);
  return is_again ? tune_shapes_check(s, err) : KILN_OK;
}

static int do_work(const tune_settings *s) {
  if (s->merge) return merge_tables(s);
  if (s->worker) return tune_work_for_others(s);
  if (s->collect) return tune_collect(s);
  kiln_error err = {0};
  kiln_status status = check_files(s, &err);
  if (status != KILN_OK) return cli_report(status, &err);
  if (s->cases.count) return tune_cases(s);
  const char *first = s->words.items[0];
  if (!is_bundle(first)) return tune_sources(s);
  return s->post ? tune_post(s, first) : tune_bundle(s, first);
}

int kiln_command_tune(int argc, char **argv) {
  cli_list *const lists[] = {&settings.words, &settings.kernels, &settings.instances,
                             &settings.trust, &settings.among,   &settings.cases};
  int code = cli_parse(&page, argc, argv, &settings.words);
  const char **addresses[] = {&settings.post, &settings.worker, &settings.collect};
  for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++)
    if (*addresses[i]) *addresses[i] = cli_keep_address(*addresses[i]);
  if (code == -1) code = check_settings(&page, &settings);
  if (code == -1) code = do_work(&settings);
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) cli_list_deinit(lists[i]);
  return code;
}
