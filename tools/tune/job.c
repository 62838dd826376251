// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Posts signed tuning jobs on a shared board, reads them, and collects their results.
#include "tools/tune/job.h"

#include <sodium/crypto_sign_ed25519.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/url.h"

enum { SIGNED = KEY_FILE_PUBLIC + crypto_sign_ed25519_BYTES };

static const char room[] = "tune", jobs[] = "jobs", results[] = "results", mark[] = "kiln tune job 1";

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

static bool is_name(const uint8_t *name, size_t size) {
  bool good = name && size == TUNE_JOB_NAME;
  for (size_t i = 0; i < size && good; i++) good = name[i] && strchr("0123456789abcdef", name[i]);
  return good;
}

/// Warns about `count` entries that were left out, with the reason.
static void report_left_out(const char *where, size_t count, const char *what, const char *why) {
  if (count)
    fprintf(stderr, "kiln: warning: %s: %zu %s%s left out: %s\n", where, count, what,
            count == 1 ? " is" : "s are", why);
}

kiln_status tune_jobs_list(board_client *b, kiln_buffer *out, kiln_error *err) {
  kiln_buffer found = {0};
  char shown[KILN_URL_SHOWN];
  size_t left_out = 0;
  kiln_buffer_clear(out);
  kiln_status status = board_ask(b, KILN_BOARD_LIST, room, jobs, NULL, 0, NULL, &found, err);
  kiln_reader r = kiln_reader_of(found.bytes, found.size);
  while (status == KILN_OK && r.left) {
    size_t size = 0;
    const uint8_t *name = kiln_read_block(&r, &size);
    if (is_name(name, size)) kiln_buffer_bytes(out, name, size);
    else left_out++;
  }
  report_left_out(kiln_url_shown(b->url, shown, sizeof shown), left_out, "name", "not that of a job");
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

// ------------------------------------------------------------------------------------------ results

static const char result_mark[] = "kiln tune result 1\n";
enum { MARK = sizeof result_mark - 1, MOST_LINE = 1 << 16 };

static void signed_text(const char *job, const char *id, const void *line, size_t size, kiln_buffer *out) {
  kiln_buffer_text(out, result_mark);
  kiln_buffer_text(out, job);
  kiln_buffer_text(out, id);
  kiln_buffer_block(out, line, size);
}

kiln_status tune_result_put(board_client *b, const char *job, const char *id, const kiln_buffer *line,
                            const uint8_t *secret, kiln_error *err) {
  char in[TUNE_JOB_ROOM];
  kiln_buffer value = {0}, text = {0};
  uint8_t signature[crypto_sign_ed25519_BYTES];
  snprintf(in, sizeof in, "tune-%s", job);
  if (secret) {
    signed_text(job, id, line->bytes, line->size, &text);
    if (!text.failed) crypto_sign_ed25519_detached(signature, NULL, text.bytes, text.size, secret);
    kiln_buffer_bytes(&value, result_mark, MARK);
    kiln_buffer_bytes(&value, secret + KEY_FILE_SECRET - KEY_FILE_PUBLIC, KEY_FILE_PUBLIC);
    kiln_buffer_bytes(&value, signature, sizeof signature);
  }
  kiln_buffer_bytes(&value, line->bytes, line->size);
  kiln_status status = text.failed || value.failed
                           ? kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted")
                           : board_ask(b, KILN_BOARD_ADD, in, results, id, strlen(id), NULL, NULL, err);
  if (status == KILN_OK) // what can be seen is listed: an id without a result is still to be measured
    status = board_ask(b, KILN_BOARD_PUT, in, id, value.bytes, value.size, NULL, NULL, err);
  kiln_buffer_deinit(&text);
  kiln_buffer_deinit(&value);
  return status;
}

/// The line in a value. UNTRUSTED if keys are required and none of them signed it.
static kiln_status open_result(const kiln_buffer *value, const char *job, const char *id,
                               const uint8_t (*keys)[KEY_FILE_PUBLIC], size_t key_count, kiln_buffer *out) {
  bool is_signed = value->size >= MARK + SIGNED && !memcmp(value->bytes, result_mark, MARK),
       is_trusted = !key_count;
  const uint8_t *line = value->bytes + (is_signed ? MARK + SIGNED : 0), *key = value->bytes + MARK;
  size_t size = value->size - (is_signed ? MARK + SIGNED : 0);
  kiln_buffer text = {0};
  if (size > MOST_LINE) return KILN_STATUS_LIMIT;
  for (size_t i = 0; i < key_count && is_signed; i++) is_trusted |= !memcmp(keys[i], key, KEY_FILE_PUBLIC);
  if (is_trusted && key_count) {
    signed_text(job, id, line, size, &text);
    is_trusted = !text.failed &&
                 !crypto_sign_ed25519_verify_detached(key + KEY_FILE_PUBLIC, text.bytes, text.size, key);
    kiln_buffer_deinit(&text);
  }
  if (!is_trusted) return KILN_STATUS_UNTRUSTED;
  kiln_buffer_clear(out);
  kiln_tuned_write_head(KILN_TUNED_WHOLE, out);
  kiln_buffer_bytes(out, line, size);
  kiln_buffer_u8(out, '\n');
  return out->failed ? KILN_STATUS_OUT_OF_MEMORY : KILN_OK;
}

/// Reads an id that may be requested: the field `id` of its line.
static bool read_id(kiln_reader *r, char out[KILN_TUNER_ID + 1]) {
  size_t size = 0;
  const uint8_t *text = kiln_read_block(r, &size);
  if (!text || size != KILN_TUNER_ID) return false;
  memcpy(out, text, size);
  out[size] = 0;
  return strspn(out, "0123456789abcdef") == KILN_TUNER_ID;
}

/// Adds the row by way of a table of its own, so that a damaged one spoils nothing else.
static kiln_status add_result(const char *id, const kiln_buffer *text, kiln_tuner_table *table,
                              kiln_error *err) {
  kiln_tuner_table one;
  kiln_tuned_place place;
  kiln_tuner_table_init(&one);
  kiln_status status = kiln_tuner_table_read(&one, id, (const char *)text->bytes, text->size, &place, err);
  if (status == KILN_OK && (one.count != 1 || strcmp(one.rows[0].entry->texts[KILN_TUNED_ID], id)))
    status = kiln_fail(err, KILN_STATUS_CORRUPT, "it is not what was found for %s", id);
  if (status == KILN_OK) status = kiln_tuner_table_add(table, one.rows[0].entry, err);
  kiln_tuner_table_deinit(&one);
  return status;
}

kiln_status tune_job_collect(board_client *b, const char *name, const uint8_t (*keys)[KEY_FILE_PUBLIC],
                             size_t key_count, kiln_tuner_table *table, kiln_error *err) {
  kiln_buffer ids = {0}, value = {0}, text = {0};
  kiln_error first = {0};
  char in[TUNE_JOB_ROOM], where[TUNE_JOB_NAME + 8];
  size_t damaged = 0, untrusted = 0;
  snprintf(in, sizeof in, "tune-%s", name);
  snprintf(where, sizeof where, "job %s", name);
  kiln_status status = board_ask(b, KILN_BOARD_LIST, in, results, NULL, 0, NULL, &ids, err);
  for (kiln_reader r = kiln_reader_of(ids.bytes, ids.size); status == KILN_OK && r.left;) {
    char id[KILN_TUNER_ID + 1];
    kiln_error why = {0};
    bool is_there = false, is_id = read_id(&r, id);
    if (is_id) status = board_ask(b, KILN_BOARD_GET, in, id, NULL, 0, &is_there, &value, err);
    if (status != KILN_OK || (is_id && !is_there)) continue; // never put, or gone with time
    kiln_status opened = is_id ? open_result(&value, name, id, keys, key_count, &text)
                               : kiln_fail(&why, KILN_STATUS_CORRUPT, "a name is none");
    if (opened == KILN_STATUS_LIMIT) kiln_fail(&why, opened, "a line has at most %d bytes", MOST_LINE);
    if (opened == KILN_OK) opened = add_result(id, &text, table, &why);
    untrusted += opened == KILN_STATUS_UNTRUSTED;
    if (opened != KILN_OK && opened != KILN_STATUS_UNTRUSTED && !damaged++) first = why;
  }
  report_left_out(where, untrusted, "result", "not signed by a key of --trust");
  report_left_out(where, damaged, "result", first.text);
  kiln_tuner_table_settle(table);
  kiln_buffer_deinit(&ids);
  kiln_buffer_deinit(&value);
  kiln_buffer_deinit(&text);
  return status;
}
