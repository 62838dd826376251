// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln verify: checks that every byte of a bundle is as it was written, and shows who signed it.
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "tools/bundle/check.h"
#include "tools/kiln-tool/commands.h"
#include "tools/bundle/json.h"

typedef struct verify_settings {
  const char *key_path, *name;
  uint8_t key[KEY_FILE_PUBLIC];
  const char *least; // of --min-version
  uint64_t min_version;
  bool json;
  cli_list words;
} verify_settings;

static kiln_status check_statement(const verify_settings *s, const bundle_view *v, kiln_error *err) {
  if (s->name && strcmp(v->statement.name, s->name))
    return kiln_fail(err, KILN_STATUS_UNTRUSTED, "%s: the bundle's name is '%s', '%s' is wanted",
                     v->bundle->name, v->statement.name, s->name);
  if (v->statement.version < s->min_version)
    return kiln_fail(err, KILN_STATUS_UNTRUSTED, "%s: the bundle's version is %llu, at least %llu is wanted",
                     v->bundle->name, (unsigned long long)v->statement.version,
                     (unsigned long long)s->min_version);
  return KILN_OK;
}

static kiln_status check(const verify_settings *s, const bundle_view *v, const kiln_buffer *file,
                         kiln_error *err) {
  KILN_TRY(bundle_check(v, file, &s->key, s->key_path != NULL, err));
  return check_statement(s, v, err);
}

static void print_good(const bundle_view *v, bool trusted) {
  const kiln_bundle *b = v->bundle;
  const uint8_t *slot = b->header + KILN_BH_SIZE;
  if (kiln_le32(slot + KILN_BG_KIND) == 1) {
    printf("%s: signed by ", b->name);
    for (unsigned i = 0; i < KEY_FILE_PUBLIC; i++) printf("%02x", slot[KILN_BG_KEY + i]);
    printf("%s\n", trusted ? "" : " (give --key to say whom you trust)");
  }
  if (v->statement.version || *v->statement.name)
    printf("%s: name '%s', version %llu\n", b->name, cli_name(v->statement.name),
           (unsigned long long)v->statement.version);
  const unsigned long long blobs = b->section_count[KILN_BUNDLE_BLOBS];
  printf("%s: %u page%s, %llu blob%s: all as written\n", b->name, b->page_count, kiln_plural(b->page_count),
         blobs, kiln_plural(blobs));
}

// One bundle; its JSON object goes to `out`.
static kiln_status verify_one(const verify_settings *s, const char *path, kiln_buffer *out, kiln_error *err) {
  bundle_view v;
  kiln_buffer file = {0};
  kiln_status status = bundle_view_read(path, &file, err);
  if (status == KILN_OK) status = bundle_view_open_bytes(path, file.bytes, file.size, &v, err);
  bool is_open = status == KILN_OK;
  if (is_open) status = check(s, &v, &file, err);
  kiln_buffer_format(out, "%s\n {", out->size > 1 ? "," : "");
  if (status == KILN_OK) status = json_bundle(out, &v, err);
  if (status == KILN_OK && !s->json) print_good(&v, s->key_path);
  if (status != KILN_OK) {
    json_member(out, true, "bundle", path);
    json_member(out, false, "error", err->text);
    kiln_buffer_format(out, ", \"code\": \"KILN-E%04d\"", (int)status);
  }
  kiln_buffer_format(out, ", \"good\": %s}", status == KILN_OK ? "true" : "false");
  if (is_open) bundle_view_close(&v);
  kiln_buffer_deinit(&file);
  return status;
}

// Every bundle is checked, also after a damaged one.
static int verify_all(const verify_settings *s) {
  kiln_buffer out = {0};
  int code = CLI_OK;
  kiln_buffer_format(&out, "[");
  for (size_t i = 0; i < s->words.count; i++) {
    kiln_error err = {0};
    kiln_status status = verify_one(s, s->words.items[i], &out, &err);
    if (status == KILN_OK) continue;
    int failed = s->json ? CLI_FAILED : cli_report(status, &err);
    code = failed > code ? failed : code;
  }
  kiln_buffer_format(&out, "\n]");
  if (!s->json) return kiln_buffer_deinit(&out), code;
  int printed = json_print(&out);
  return printed > code ? printed : code;
}

int kiln_command_verify(int argc, char **argv) {
  verify_settings s = {0};
  const cli_option options[] = {
      {"key", 'k', CLI_INPUT, &s.key_path, "FILE",
       "public key (of `kiln cache keygen`) that must have signed the bundles"},
      {"min-version", 0, CLI_TEXT, &s.least, "N", "the lowest version that the bundles must state"},
      {"name", 0, CLI_TEXT, &s.name, "NAME", "the name that the bundles must state"},
      {"json", 0, CLI_FLAG, &s.json, NULL, "print JSON"}};
  const cli_page page =
      CLI_PAGE("kiln verify [--key=FILE] [--min-version=N] [--name=NAME] BUNDLE...",
               "Checks every byte of bundles: index, codes, the archive around them and the "
               "signature. Exit code 1 when one is not as\nwritten.",
               options);
  kiln_error err = {0};
  int code = cli_parse(&page, argc, argv, &s.words);
  if (code == -1 && !s.words.count) code = cli_usage(&page, "expected a bundle");
  if (code == -1 && s.least) code = cli_u64(&page, "min-version", s.least, &s.min_version);
  if (code == -1 && s.key_path && key_file_public(s.key_path, s.key, &err) != KILN_OK)
    code = cli_report(err.status, &err);
  if (code == -1) code = verify_all(&s);
  cli_list_deinit(&s.words);
  return code;
}
