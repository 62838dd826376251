// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/tool/tune_job.h"

#include <sodium/crypto_sign_ed25519.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"

enum { SIGNED = KEY_FILE_PUBLIC + crypto_sign_ed25519_BYTES };

static const char room[] = "tune", jobs[] = "jobs", mark[] = "kiln tune job 1";

void tune_job_deinit(tune_job *job) {
  kiln_buffer_deinit(&job->bundle);
  kiln_buffer_deinit(&job->shapes);
  kiln_buffer_deinit(&job->options);
}

static void name_of(const uint8_t *content, size_t size, char out[TUNE_JOB_NAME + 1]) {
  char hex[KILN_DIGEST_HEX + 1];
  kiln_digest digest = kiln_digest_of(content, size);
  kiln_digest_hex(&digest, hex);
  snprintf(out, TUNE_JOB_NAME + 1, "%.*s", TUNE_JOB_NAME, hex);
}

kiln_status tune_job_post(board_client *b, const tune_job *job, const uint8_t secret[KEY_FILE_SECRET],
                          char out_name[TUNE_JOB_NAME + 1], kiln_error *err) {
  kiln_buffer content = {0}, whole = {0};
  uint8_t signature[crypto_sign_ed25519_BYTES];
  kiln_buffer_text(&content, mark);
  kiln_buffer_block(&content, job->bundle.bytes, job->bundle.size);
  kiln_buffer_block(&content, job->shapes.bytes, job->shapes.size);
  kiln_buffer_block(&content, job->options.bytes, job->options.size);
  name_of(content.bytes, content.size, out_name);
  crypto_sign_ed25519_detached(signature, NULL, content.bytes, content.size, secret);
  kiln_buffer_bytes(&whole, secret + KEY_FILE_SECRET - KEY_FILE_PUBLIC, KEY_FILE_PUBLIC);
  kiln_buffer_bytes(&whole, signature, sizeof signature);
  kiln_buffer_bytes(&whole, content.bytes, content.size);
  kiln_status status =
      content.failed || whole.failed
          ? kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted")
          : board_ask(b, KILN_BOARD_PUT, room, out_name, whole.bytes, whole.size, NULL, NULL, err);
  if (status == KILN_OK) // once it is there, others may see its name
    status = board_ask(b, KILN_BOARD_ADD, room, jobs, out_name, TUNE_JOB_NAME, NULL, NULL, err);
  kiln_buffer_deinit(&content);
  kiln_buffer_deinit(&whole);
  return status;
}

static int by_name(const void *a, const void *b) { return memcmp(a, b, TUNE_JOB_NAME); }

kiln_status tune_jobs_list(board_client *b, kiln_buffer *out, kiln_error *err) {
  kiln_buffer found = {0};
  kiln_buffer_clear(out);
  kiln_status status = board_ask(b, KILN_BOARD_LIST, room, jobs, NULL, 0, NULL, &found, err);
  kiln_reader r = kiln_reader_of(found.bytes, found.size);
  while (status == KILN_OK && r.left) {
    size_t size;
    const uint8_t *name = kiln_read_block(&r, &size);
    if (!name || size != TUNE_JOB_NAME)
      status = kiln_fail(err, KILN_STATUS_CORRUPT, "%s: the list of jobs is damaged", b->url);
    else kiln_buffer_bytes(out, name, size);
  }
  if (out->size) qsort(out->bytes, out->size / TUNE_JOB_NAME, TUNE_JOB_NAME, by_name);
  kiln_buffer_deinit(&found);
  return status;
}

static kiln_status check_signature(const kiln_buffer *whole, const char *name,
                                   const uint8_t (*keys)[KEY_FILE_PUBLIC], size_t key_count,
                                   kiln_error *err) {
  char own[TUNE_JOB_NAME + 1];
  bool is_trusted = false;
  if (whole->size < SIGNED)
    return kiln_fail(err, KILN_STATUS_CORRUPT, "job %s: %zu bytes", name, whole->size);
  for (size_t i = 0; i < key_count; i++) is_trusted |= !memcmp(keys[i], whole->bytes, KEY_FILE_PUBLIC);
  if (!is_trusted)
    return kiln_fail(err, KILN_STATUS_UNTRUSTED, "job %s is not signed by a key of --trust: it is not run",
                     name);
  if (crypto_sign_ed25519_verify_detached(whole->bytes + KEY_FILE_PUBLIC, whole->bytes + SIGNED,
                                          whole->size - SIGNED, whole->bytes))
    return kiln_fail(err, KILN_STATUS_UNTRUSTED,
                     "job %s: the signature is not of this content: it is not run", name);
  name_of(whole->bytes + SIGNED, whole->size - SIGNED, own);
  return strcmp(own, name) ? kiln_fail(err, KILN_STATUS_CORRUPT, "job %s is another one, %s", name, own)
                           : KILN_OK;
}

static bool take_block(kiln_reader *r, kiln_buffer *out) {
  size_t size;
  const uint8_t *bytes = kiln_read_block(r, &size);
  if (bytes) kiln_buffer_bytes(out, bytes, size);
  return bytes && !out->failed;
}

static kiln_status read_content(const kiln_buffer *whole, tune_job *out, kiln_error *err) {
  size_t size;
  kiln_reader r = kiln_reader_of(whole->bytes + SIGNED, whole->size - SIGNED);
  const uint8_t *text = kiln_read_block(&r, &size);
  if (!text || size != strlen(mark) || memcmp(text, mark, size))
    return kiln_fail(err, KILN_STATUS_VERSION, "job %s is none that this program knows", out->name);
  bool good = take_block(&r, &out->bundle) && take_block(&r, &out->shapes) && take_block(&r, &out->options);
  return good && kiln_read_done(&r) ? KILN_OK
                                    : kiln_fail(err, KILN_STATUS_CORRUPT, "job %s is damaged", out->name);
}

kiln_status tune_job_get(board_client *b, const char *name, const uint8_t (*keys)[KEY_FILE_PUBLIC],
                         size_t key_count, tune_job *out, kiln_error *err) {
  kiln_buffer whole = {0};
  bool is_there;
  memset(out, 0, sizeof *out);
  snprintf(out->name, sizeof out->name, "%s", name);
  snprintf(out->room, sizeof out->room, "tune-%s", name);
  kiln_status status = board_ask(b, KILN_BOARD_GET, room, name, NULL, 0, &is_there, &whole, err);
  if (status == KILN_OK && !is_there) status = kiln_fail(err, KILN_STATUS_NOT_FOUND, "job %s is gone", name);
  if (status == KILN_OK) status = check_signature(&whole, name, keys, key_count, err);
  if (status == KILN_OK) status = read_content(&whole, out, err);
  kiln_buffer_deinit(&whole);
  return status;
}

// Lines one after another, as a table.
static kiln_status gather(board_client *b, const char *in, const kiln_buffer *ids, kiln_buffer *out,
                          kiln_error *err) {
  kiln_buffer line = {0};
  kiln_status status = KILN_OK;
  kiln_reader r = kiln_reader_of(ids->bytes, ids->size);
  kiln_tuned_write_head(KILN_TUNED_WHOLE, out);
  while (status == KILN_OK && r.left) {
    char id[64] = "";
    size_t size;
    bool is_there;
    const uint8_t *text = kiln_read_block(&r, &size);
    if (!text || size >= sizeof id) {
      status = kiln_fail(err, KILN_STATUS_CORRUPT, "%s: the list of results is damaged", b->url);
      break;
    }
    memcpy(id, text, size);
    status = board_ask(b, KILN_BOARD_GET, in, id, NULL, 0, &is_there, &line, err);
    if (status != KILN_OK || !is_there) continue;
    kiln_buffer_bytes(out, line.bytes, line.size);
    kiln_buffer_u8(out, '\n');
  }
  kiln_buffer_deinit(&line);
  return status;
}

kiln_status tune_job_collect(board_client *b, const char *name, kiln_tuner_table *table, kiln_error *err) {
  kiln_buffer ids = {0}, text = {0};
  kiln_tuned_place place;
  char in[TUNE_JOB_ROOM];
  snprintf(in, sizeof in, "tune-%s", name);
  kiln_status status = board_ask(b, KILN_BOARD_LIST, in, "results", NULL, 0, NULL, &ids, err);
  if (status == KILN_OK) status = gather(b, in, &ids, &text, err);
  if (status == KILN_OK)
    status = kiln_tuner_table_read(table, name, (const char *)text.bytes, text.size, &place, err);
  kiln_buffer_deinit(&ids);
  kiln_buffer_deinit(&text);
  return status;
}
