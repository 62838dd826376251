// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln sign: fills the statement and the signature slot of a bundle. Nothing else changes but the checks and
// sums over them.
#include <stdio.h>
#include <string.h>

#include "base/bundle_format.h"
#include "cache/bundle/seal.h"
#include "tools/common/key_file.h"
#include "tools/bundle/view.h"
#include "tools/kiln-tool/commands.h"

typedef struct sign_settings {
  const char *key, *out, *name;
  const char *version_text; // NULL: the version is as the bundle has it
  uint64_t version;
  uint8_t secret[KEY_FILE_SECRET];
  cli_list words;
} sign_settings;

/// Checks the whole bundle before it is signed: a signature must not vouch for damage. `out_statement` is the
/// offset of the statement in the file.
static kiln_status check(const char *path, const kiln_buffer *file, uint64_t *out_statement,
                         kiln_error *err) {
  bundle_view v;
  kiln_digest digest;
  KILN_TRY(bundle_view_open_bytes(path, file->bytes, file->size, &v, err));
  const uint8_t *h = v.bundle->header;
  *out_statement = v.bundle->header_at + kiln_le64(h + KILN_BH_REGION) + kiln_le64(h + KILN_BH_STATEMENT);
  kiln_status status = kiln_bundle_check_all(v.bundle, err);
  if (status == KILN_OK && !v.statement.container)
    status = kiln_fail(err, KILN_STATUS_VERSION,
                       "%s: format 1.%u has no place for what is signed; `kiln merge -o FILE` writes the "
                       "bundle in format 1.%d",
                       path, kiln_le16(h + KILN_BH_MINOR), KILN_BUNDLE_MINOR);
  if (status == KILN_OK && (status = kiln_bundle_container(file->bytes, file->size, &digest, err)) != KILN_OK)
    kiln_context(err, status, "%s", path);
  if (status == KILN_OK && memcmp(digest.bytes, v.statement.container, sizeof digest.bytes))
    status = kiln_fail(err, KILN_STATUS_CORRUPT,
                       "%s: the archive around the index does not have the digest of the index", path);
  bundle_view_close(&v);
  return status;
}

static kiln_status sign(const sign_settings *s, const char *path, kiln_buffer *file, kiln_error *err) {
  uint64_t statement;
  KILN_TRY(check(path, file, &statement, err));
  uint8_t *at = file->bytes + statement;
  if (s->version_text) kiln_put64(at + KILN_BS_VERSION, s->version);
  if (s->name) {
    memset(at + KILN_BS_NAME, 0, KILN_BS_NAME_SIZE);
    memcpy(at + KILN_BS_NAME, s->name, strlen(s->name));
  }
  KILN_TRY(kiln_bundle_seal(file->bytes, file->size, s->secret, err));
  return check(path, file, &statement, err);
}

static kiln_status sign_file(const sign_settings *s, const char *path, kiln_error *err) {
  kiln_buffer file = {0};
  kiln_status status = bundle_view_read(path, &file, err);
  if (status == KILN_OK) status = sign(s, path, &file, err);
  if (status == KILN_OK) status = cli_write_file(s->out ? s->out : path, file.bytes, file.size, err);
  kiln_buffer_deinit(&file);
  return status;
}

int kiln_command_sign(int argc, char **argv) {
  sign_settings s = {0};
  const cli_option options[] = {
      {"key", 'k', CLI_INPUT, &s.key, "FILE", "secret key of `kiln cache keygen`"},
      {"name", 0, CLI_TEXT, &s.name, "NAME", "state this name, so that no other bundle passes for this one"},
      {"version", 0, CLI_TEXT, &s.version_text, "N",
       "state this version, so that users who require a lowest version refuse older bundles"},
      {"out", 'o', CLI_OUTPUT, &s.out, "FILE", "the signed bundle (in place of the other)"}};
  const cli_page page =
      CLI_PAGE("kiln sign --key=FILE [--name=NAME] [--version=N] [-o FILE] BUNDLE",
               "Checks a bundle whole and signs it with Ed25519, in place of a signature that it has; name "
               "and version stay as they were unless they\nare given. `kiln verify --key=FILE.pub` checks "
               "it, and libkiln-verify does when an application opens it.",
               options);
  kiln_error err = {0};
  int code = cli_parse_one(&page, argc, argv, "bundle", &s.words);
  if (code == -1 && !s.key) code = cli_usage(&page, "--key is missing");
  if (code == -1 && s.version_text) code = cli_u64(&page, "version", s.version_text, &s.version);
  if (code == -1 && s.name && strlen(s.name) >= KILN_BS_NAME_SIZE)
    code = cli_usage(&page, "--name: expected at most %d bytes, found %zu", KILN_BS_NAME_SIZE - 1,
                     strlen(s.name));
  if (code == -1 &&
      (key_file_secret(s.key, s.secret, &err) != KILN_OK || sign_file(&s, s.words.items[0], &err) != KILN_OK))
    code = cli_report(err.status, &err);
  cli_list_deinit(&s.words);
  return code == -1 ? CLI_OK : code;
}
