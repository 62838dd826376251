// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln-tool bundle-write: reads the manifest stream that a build makes (cache/bundle/manifest.h) and writes
// the bundle.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bundle_format.h"
#include "base/output.h"
#include "base/plural.h"
#include "base/record.h"
#include "cache/bundle/writer.h"
#include "cache/bundle/manifest.h"
#include "targets/targets.h"
#include "tools/common/dictionary.h"
#include "tools/common/key_file.h"
#include "tools/kiln-tool/commands.h"
#include "tools/bundle/dictionary_family.h"

typedef struct settings {
  const char *out, *name, *manifest, *sign, *dictionary; ///< name: of the bundle in messages
  int64_t level, threads, max_size;
  bool quiet, member_per_kernel;
  uint8_t secret_key[KEY_FILE_SECRET];
  kiln_bundle_options options;
} settings;

// A NUL-terminated copy of a block, malloc'ed; NULL when the block is damaged or has a NUL inside.
static char *take_text(kiln_reader *r) {
  size_t size;
  const uint8_t *bytes = kiln_read_block(r, &size);
  return bytes && !memchr(bytes, 0, size) ? strndup((const char *)bytes, size) : NULL;
}

static kiln_status damaged(kiln_error *err, const kiln_buffer *stream, const kiln_reader *r) {
  return kiln_fail(err, KILN_STATUS_CORRUPT, "manifest is damaged near byte %zu of %zu",
                   stream->size - r->left, stream->size);
}

static kiln_status take_kernel(kiln_bundle_writer *w, kiln_reader *r, kiln_error *err, bool *out_damaged) {
  size_t size;
  uint32_t number;
  char *name = take_text(r);
  const uint8_t *record = kiln_read_block(r, &size);
  *out_damaged = !name || !record;
  kiln_status status =
      *out_damaged ? KILN_STATUS_CORRUPT : kiln_bundle_writer_kernel(w, name, record, size, &number, err);
  free(name);
  return status;
}

static kiln_status take_fields(kiln_bundle_writer *w, kiln_reader *r, bool has_maps, kiln_error *err,
                               bool *out_damaged) {
  kiln_bundle_code code = {0};
  kiln_code_info info;
  char family[DICTIONARY_FAMILY];
  code.kernel = (uint32_t)kiln_read_count(r, UINT32_MAX);
  code.config = (uint32_t)kiln_read_count(r, UINT16_MAX);
  code.variant = (uint32_t)kiln_read_count(r, UINT16_MAX);
  char *target = take_text(r);
  code.target = target;
  code.info = kiln_read_block(r, &code.info_size);
  code.code = kiln_read_block(r, &code.code_size);
  if (has_maps) code.maps = kiln_read_block(r, &code.maps_size);
  *out_damaged = !target || !code.info || !code.code || (has_maps && !code.maps) ||
                 !kiln_code_info_decode(code.info, code.info_size, &info);
  kiln_status status =
      *out_damaged ? KILN_STATUS_CORRUPT : dictionary_family(target, info.format, family, &code.flags, err);
  code.family = family;
  if (status == KILN_OK) status = kiln_bundle_writer_code(w, &code, err);
  free(target);
  return status;
}

static kiln_status take_code(kiln_bundle_writer *w, kiln_reader *r, kiln_error *err, bool *out_damaged) {
  return take_fields(w, r, false, err, out_damaged);
}
static kiln_status take_mapped(kiln_bundle_writer *w, kiln_reader *r, kiln_error *err, bool *out_damaged) {
  return take_fields(w, r, true, err, out_damaged);
}

static kiln_status take_note(kiln_bundle_writer *w, kiln_reader *r, kiln_error *err, bool *out_damaged) {
  char *key = take_text(r), *value = take_text(r);
  *out_damaged = !key || !value;
  kiln_status status = *out_damaged ? KILN_STATUS_CORRUPT : kiln_bundle_writer_note(w, key, value, err);
  free(key);
  free(value);
  return status;
}

static kiln_status take_manifest(kiln_bundle_writer *w, const char *path, const kiln_buffer *stream,
                                 kiln_error *err) {
  static kiln_status (*const takers[])(kiln_bundle_writer *, kiln_reader *, kiln_error *,
                                       bool *) = {[KILN_MANIFEST_KERNEL] = take_kernel,
                                                  [KILN_MANIFEST_CODE] = take_code,
                                                  [KILN_MANIFEST_NOTE] = take_note,
                                                  [KILN_MANIFEST_MAPPED] = take_mapped};
  kiln_reader r = kiln_reader_of(stream->bytes, stream->size);
  const uint8_t *magic = kiln_read_bytes(&r, 8);
  if (!magic || memcmp(magic, KILN_MANIFEST_MAGIC, 8))
    return kiln_fail(err, KILN_STATUS_CORRUPT,
                     "%s: expected a manifest that begins with %s, found %zu bytes that do not",
                     strcmp(path, "-") ? path : "standard input", KILN_MANIFEST_MAGIC, stream->size);
  for (;;) {
    bool is_damaged = false;
    uint8_t tag = kiln_read_u8(&r);
    if (!r.failed && tag == KILN_MANIFEST_END) return kiln_read_done(&r) ? KILN_OK : damaged(err, stream, &r);
    if (r.failed || tag >= sizeof takers / sizeof *takers) return damaged(err, stream, &r);
    kiln_status status = takers[tag](w, &r, err, &is_damaged);
    if (is_damaged) return damaged(err, stream, &r);
    if (status != KILN_OK) return status;
  }
}

// -1 to go on, else the exit code.
static int check_settings(const cli_page *page, settings *s, const cli_list *words) {
  if (!s->out) return cli_usage(page, "--out is missing");
  if (!s->name) s->name = s->out;
  if (!dictionary_parse(s->dictionary, &s->options.dictionary))
    return cli_usage(page, "--dictionary: expected auto, none, small or large, found '%s'", s->dictionary);
  if (words->count > 1) return cli_usage(page, "expected at most one manifest, found %zu", words->count);
  s->manifest = words->count ? words->items[0] : "-";
  s->options.level = (int)s->level;
  s->options.threads = (unsigned)s->threads;
  s->options.member_per_kernel = s->member_per_kernel;
  return -1;
}

static kiln_status read_key(settings *s, kiln_error *err) {
  if (!s->sign) return KILN_OK;
  KILN_TRY(key_file_secret(s->sign, s->secret_key, err));
  s->options.secret_key = s->secret_key;
  return KILN_OK;
}

static kiln_status build(settings *s, kiln_bundle_sums *sums, kiln_error *err) {
  kiln_buffer stream = {0}, bundle = {0};
  kiln_bundle_writer *w = kiln_bundle_writer_create();
  kiln_status status = w ? KILN_OK : kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  if (status == KILN_OK) status = read_key(s, err);
  if (status == KILN_OK)
    status = cli_read_file(s->manifest, KILN_MANIFEST_MAGIC, (size_t)1 << 36, &stream, err);
  if (status == KILN_OK) status = take_manifest(w, s->manifest, &stream, err);
  if (status == KILN_OK) status = kiln_bundle_writer_build(w, &s->options, &bundle, sums, err);
  if (status == KILN_OK && sums->file > (uint64_t)s->max_size)
    status = kiln_fail(err, KILN_STATUS_LIMIT, "%s would have %llu bytes; --max-size allows %llu", s->name,
                       (unsigned long long)sums->file, (unsigned long long)s->max_size);
  if (status == KILN_OK) status = cli_write_file(s->out, bundle.bytes, bundle.size, err);
  if (status == KILN_OK && strcmp(s->out, "-")) kiln_output_clean(s->out);
  kiln_bundle_writer_destroy(w);
  kiln_buffer_deinit(&stream);
  kiln_buffer_deinit(&bundle);
  return status;
}

int kiln_command_bundle_write(int argc, char **argv) {
  settings s = {.dictionary = "auto", .level = 3, .threads = cli_processors(), .max_size = INT64_MAX};
  const cli_option options[] = {
      {"out", 'o', CLI_OUTPUT, &s.out, "FILE", "the bundle; - is standard output"},
      {"name", 0, CLI_TEXT, &s.name, "NAME", "what messages call it (FILE)"},
      {"level", 0, CLI_COUNT, &s.level, "N", "zstd level, 1 to 19 (3)", 19},
      {"dictionary", 0, CLI_TEXT, &s.dictionary, "WHICH", "auto, none, small or large (auto)"},
      {"member-per-kernel", 0, CLI_FLAG, &s.member_per_kernel, NULL, "each code is a member of the archive"},
      {"sign", 0, CLI_INPUT, &s.sign, "KEY", "secret key of `kiln cache keygen`; the bundle is signed"},
      {"max-size", 0, CLI_NUMBER, &s.max_size, "BYTES", "fail when the bundle would be larger"},
      {"jobs", 'j', CLI_COUNT, &s.threads, "N", "threads (one per CPU); the bytes do not depend on it",
       CLI_MOST_JOBS},
      {"quiet", 'q', CLI_FLAG, &s.quiet, NULL, "no line of sums"},
  };
  const cli_page page =
      CLI_PAGE("kiln bundle-write -o FILE [options] [MANIFEST]",
               "Writes a bundle from a manifest stream (standard input without MANIFEST).", options);
  cli_list words = {0};
  kiln_bundle_sums sums;
  kiln_error err = {0};
  int exit_code = cli_parse(&page, argc, argv, &words);
  if (exit_code == -1) exit_code = check_settings(&page, &s, &words);
  cli_list_deinit(&words);
  if (exit_code != -1) return exit_code;
  kiln_status status = build(&s, &sums, &err);
  if (status != KILN_OK) return cli_report(status, &err);
  if (!s.quiet)
    fprintf(stderr,
            "%s: %u kernel%s, %u code%s, %u blob%s, %llu bytes raw -> %llu (codes %llu, dictionaries %llu, "
            "index %llu, container %llu)\n",
            s.name, sums.kernels, kiln_plural(sums.kernels), sums.codes, kiln_plural(sums.codes), sums.blobs,
            kiln_plural(sums.blobs), (unsigned long long)sums.raw, (unsigned long long)sums.file,
            (unsigned long long)sums.payload, (unsigned long long)sums.dictionaries,
            (unsigned long long)sums.index, (unsigned long long)sums.container);
  return CLI_OK;
}
