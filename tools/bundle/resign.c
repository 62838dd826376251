// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Handles signatures when a bundle is made from others: signs the new one if all of these were trusted, or
// says that it is unsigned.
#include "tools/bundle/resign.h"

#include <sodium/utils.h>
#include <stdio.h>
#include <string.h>

#include "cache/bundle/seal.h"

void resign_deinit(resign *r) {
  sodium_memzero(r->secret, sizeof r->secret);
  cli_list_deinit(&r->trust);
}

kiln_status resign_open(resign *r, kiln_error *err) {
  if (!r->key && r->trust.count)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "--trust is of --sign, which is missing");
  if (!r->key) return KILN_OK;
  if (r->trust.count >= RESIGN_MOST_KEYS)
    return kiln_fail(err, KILN_STATUS_LIMIT, "--trust: expected at most %d keys, found %zu",
                     RESIGN_MOST_KEYS - 1, r->trust.count);
  KILN_TRY(key_file_secret(r->key, r->secret, err));
  memcpy(r->keys[r->key_count++], r->secret + KEY_FILE_SECRET - KEY_FILE_PUBLIC, KEY_FILE_PUBLIC);
  for (size_t i = 0; i < r->trust.count; i++)
    KILN_TRY(key_file_public(r->trust.items[i], r->keys[r->key_count++], err));
  return KILN_OK;
}

void resign_begin(resign *r) { r->inputs = r->signed_inputs = 0; }

void resign_note_input(resign *r, const char *path, const uint8_t *header, const kiln_statement *statement) {
  r->inputs++;
  if (bundle_is_signed(header) && !r->signed_inputs++) snprintf(r->first, sizeof r->first, "%s", path);
  r->version = statement->version;
  snprintf(r->name, sizeof r->name, "%s", statement->name ? statement->name : "");
}

kiln_status resign_finish(const resign *r, const char *path, kiln_buffer *bundle, kiln_error *err) {
  bundle_view v;
  bool states = r->inputs == 1 && (r->version || *r->name);
  if (!states && !r->key) return KILN_OK;
  KILN_TRY(bundle_view_open_bytes(path, bundle->bytes, bundle->size, &v, err));
  const uint8_t *h = v.bundle->header;
  uint64_t at = v.bundle->header_at + kiln_le64(h + KILN_BH_REGION) + kiln_le64(h + KILN_BH_STATEMENT);
  bundle_view_close(&v);
  if (states) {
    kiln_put64(bundle->bytes + at + KILN_BS_VERSION, r->version);
    memcpy(bundle->bytes + at + KILN_BS_NAME, r->name, strlen(r->name));
  }
  return kiln_bundle_seal(bundle->bytes, bundle->size, r->key ? r->secret : NULL, err);
}

void resign_report(const resign *r, const char *path) {
  if (r->key || !r->signed_inputs) return;
  fprintf(stderr, "kiln: note: %s has no signature yet: the one of %s", path, r->first);
  if (r->signed_inputs > 1) fprintf(stderr, " and of %zu more", r->signed_inputs - 1);
  fputs(" is not of what was made of it (`kiln sign`, or --sign here, signs anew)\n", stderr);
}
