// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Posts work for other machines, and collects the results.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/stream.h"
#include "tools/tune/session.h"

// How a job is to be measured: numbers in this order.
static void write_rules(const tune_settings *s, kiln_buffer *out) {
  kiln_buffer_format(out, "%lld %lld %u %u %u %u %d", (long long)(s->rules.budget_s * 1e6),
                     (long long)(s->rules.keep * 1e6), s->rules.limit_ms, s->rules.judge_ms,
                     s->rules.most_spill, s->rules.all_below, s->hot);
}

static bool read_rules(const kiln_buffer *text, tune_settings *s) {
  char copy[200] = "";
  long long budget, keep;
  int hot;
  if (text->size >= sizeof copy) return false;
  memcpy(copy, text->bytes, text->size);
  bool good = sscanf(copy, "%lld %lld %u %u %u %u %d", &budget, &keep, &s->rules.limit_ms, &s->rules.judge_ms,
                     &s->rules.most_spill, &s->rules.all_below, &hot) == 7;
  if (!good) return false;
  s->rules.budget_s = (double)budget / 1e6;
  s->rules.keep = (double)keep / 1e6;
  s->hot = hot;
  return true;
}

int tune_post(const tune_settings *s, const char *path) {
  kiln_error err = {0};
  tune_job job = {0};
  board_client board = {0};
  uint8_t secret[KEY_FILE_SECRET];
  char name[TUNE_JOB_NAME + 1];
  write_rules(s, &job.options);
  kiln_status status = key_file_secret(s->sign_key, secret, &err);
  if (status == KILN_OK) status = cli_read_file(path, "", (size_t)KILN_BOARD_MOST, &job.bundle, &err);
  if (status == KILN_OK) status = tune_shapes_text(s, &job.shapes, &err);
  if (status == KILN_OK) status = board_open(&board, s->post, &err);
  if (status == KILN_OK) status = tune_job_post(&board, &job, secret, name, &err);
  memset(secret, 0, sizeof secret);
  board_close(&board);
  tune_job_deinit(&job);
  if (status != KILN_OK) return cli_report(status, &err);
  printf("job %s is posted\n", name);
  return CLI_OK;
}

// Writes the job's bundle to a file.
static int run_job(const tune_settings *s, const tune_job *job) {
  char path[] = "/tmp/kiln-tune-XXXXXX.kbundle";
  tune_settings own = *s;
  kiln_error err = {0};
  own.job = job;
  if (!read_rules(&job->options, &own)) {
    kiln_status status = kiln_fail(&err, KILN_STATUS_CORRUPT, "job %s is damaged", job->name);
    return cli_report(status, &err);
  }
  int fd = mkstemps(path, (int)strlen(".kbundle"));
  bool written = fd >= 0 && kiln_stream_write(fd, job->bundle.bytes, job->bundle.size);
  int number = errno, code = CLI_FAILED;
  if (fd >= 0) close(fd);
  if (written) code = tune_bundle(&own, path);
  else cli_report(kiln_fail(&err, kiln_status_of_errno(number), "%s: %s", path, strerror(number)), &err);
  if (fd >= 0) unlink(path);
  return code;
}

static kiln_status read_keys(const tune_settings *s, uint8_t keys[][KEY_FILE_PUBLIC], kiln_error *err) {
  for (size_t i = 0; i < s->trust.count; i++) KILN_TRY(key_file_public(s->trust.items[i], keys[i], err));
  return KILN_OK;
}

// Does every posted job, in order of names.
int tune_work_for_others(const tune_settings *settings) {
  uint8_t keys[TUNE_MOST_KEYS][KEY_FILE_PUBLIC], secret[KEY_FILE_SECRET];
  tune_settings own = *settings;
  const tune_settings *s = &own;
  kiln_error err = {0};
  board_client board = {0};
  kiln_buffer names = {0};
  int code = CLI_OK;
  kiln_status status = read_keys(s, keys, &err);
  if (status == KILN_OK && s->sign_key) status = key_file_secret(s->sign_key, secret, &err);
  if (s->sign_key) own.result_key = secret;
  if (status == KILN_OK) status = board_open(&board, s->worker, &err);
  if (status == KILN_OK) status = tune_jobs_list(&board, &names, &err);
  if (status != KILN_OK) code = cli_report(status, &err);
  for (size_t at = 0; status == KILN_OK && at < names.size; at += TUNE_JOB_NAME) {
    char name[TUNE_JOB_NAME + 1] = "";
    tune_job job;
    memcpy(name, names.bytes + at, TUNE_JOB_NAME);
    kiln_status got =
        tune_job_get(&board, name, (const uint8_t(*)[KEY_FILE_PUBLIC])keys, s->trust.count, &job, &err);
    int this = got == KILN_OK ? run_job(s, &job) : cli_report(got, &err);
    tune_job_deinit(&job);
    if (this != CLI_OK) code = this;
  }
  memset(secret, 0, sizeof secret);
  board_close(&board);
  kiln_buffer_deinit(&names);
  return code;
}

int tune_collect(const tune_settings *s) {
  uint8_t keys[TUNE_MOST_KEYS][KEY_FILE_PUBLIC];
  kiln_error err = {0};
  board_client board = {0};
  kiln_buffer names = {0};
  kiln_tuner_table table;
  kiln_tuner_table_init(&table);
  kiln_status status = read_keys(s, keys, &err);
  if (status == KILN_OK) status = board_open(&board, s->collect, &err);
  if (status == KILN_OK) status = tune_jobs_list(&board, &names, &err);
  for (size_t at = 0; status == KILN_OK && at < names.size; at += TUNE_JOB_NAME) {
    char name[TUNE_JOB_NAME + 1] = "";
    memcpy(name, names.bytes + at, TUNE_JOB_NAME);
    status =
        tune_job_collect(&board, name, (const uint8_t(*)[KEY_FILE_PUBLIC])keys, s->trust.count, &table, &err);
  }
  uint32_t found = table.count;
  if (status == KILN_OK) status = kiln_tuner_table_update(s->output, &table, &err);
  if (status == KILN_OK) printf("%u choices of %zu jobs\n", found, names.size / TUNE_JOB_NAME);
  board_close(&board);
  kiln_buffer_deinit(&names);
  kiln_tuner_table_deinit(&table);
  return status == KILN_OK ? CLI_OK : cli_report(status, &err);
}
