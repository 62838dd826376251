// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Signs entries with Ed25519 and checks their signatures, with libsodium.
#include "cache/entry.h"

#include <sodium/crypto_sign_ed25519.h>
#include <string.h>

/// What is signed: everything that a reader relies on, and nothing that may differ between copies.
static void signed_text(const kiln_entry_view *view, kiln_buffer *out) {
  kiln_buffer_text(out, "kiln entry signature 1");
  kiln_buffer_u16(out, KILN_CACHE_FORMAT);
  kiln_buffer_u16(out, KILN_KEY_SCHEMA);
  kiln_buffer_bytes(out, view->key.bytes, KILN_DIGEST_SIZE);
  kiln_buffer_bytes(out, view->content_digest.bytes, KILN_DIGEST_SIZE);
  for (unsigned i = 0; i < 4; i++) kiln_buffer_u64(out, view->sizes[i]);
  kiln_buffer_block(out, view->labels[KILN_LABEL_PRODUCER].bytes, view->labels[KILN_LABEL_PRODUCER].size);
  kiln_buffer_block(out, view->labels[KILN_LABEL_DOMAIN].bytes, view->labels[KILN_LABEL_DOMAIN].size);
}

static uint32_t signature_of(const kiln_entry_view *view, const uint8_t *public_key) {
  uint32_t i = 0;
  while (i < view->signature_count && memcmp(view->signatures + i * KILN_ENTRY_SIGNATURE, public_key, 32))
    i++;
  return i;
}

kiln_status kiln_entry_sign(kiln_buffer *entry, const uint8_t sign_key[64], kiln_error *err) {
  kiln_entry_view view;
  kiln_status status = kiln_entry_parse(entry->bytes, entry->size, UINT64_MAX - 1, &view, err);
  if (status) return status;
  const uint8_t *public_key = sign_key + 32; // libsodium keeps it in the secret key's second half
  if (signature_of(&view, public_key) < view.signature_count) return KILN_OK;
  if (view.signature_count == KILN_ENTRY_SIGNATURES)
    return kiln_fail(err, KILN_STATUS_LIMIT, "an entry has at most %d signatures", KILN_ENTRY_SIGNATURES);
  kiln_buffer text = {0};
  uint8_t signature[crypto_sign_ed25519_BYTES];
  signed_text(&view, &text);
  bool failed = text.failed || crypto_sign_ed25519_detached(signature, NULL, text.bytes, text.size, sign_key);
  kiln_buffer_deinit(&text);
  if (failed) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory to sign an entry");
  uint32_t count = view.signature_count + 1;
  kiln_buffer_bytes(entry, public_key, 32);
  kiln_buffer_bytes(entry, signature, sizeof signature);
  if (entry->failed) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory to sign an entry");
  for (unsigned i = 0; i < 4; i++) entry->bytes[124 + i] = (uint8_t)(count >> 8 * i);
  kiln_entry_seal(entry->bytes, entry->size);
  return KILN_OK;
}

/// True when the comma-separated list names the domain, or is "*".
static bool may_sign(const char *domains, const char *domain) {
  size_t length = strlen(domain);
  if (!strcmp(domains, "*")) return true;
  for (const char *at = domains; *at;) {
    size_t word = strcspn(at, ",");
    if (word == length && !memcmp(at, domain, length)) return true;
    at += word + (at[word] == ',');
  }
  return false;
}

static bool verifies(const kiln_entry_view *view, const uint8_t *public_key) {
  uint32_t at = signature_of(view, public_key);
  if (at == view->signature_count) return false;
  kiln_buffer text = {0};
  signed_text(view, &text);
  const uint8_t *signature = view->signatures + (size_t)at * KILN_ENTRY_SIGNATURE + 32;
  bool good =
      !text.failed && !crypto_sign_ed25519_verify_detached(signature, text.bytes, text.size, public_key);
  kiln_buffer_deinit(&text);
  return good;
}

kiln_status kiln_entry_trusted(const kiln_entry_view *view, const char *domain, const kiln_trust_key *keys,
                               uint32_t count, kiln_error *err) {
  const kiln_trust_key *revoked = NULL, *elsewhere = NULL;
  for (uint32_t i = 0; i < count; i++) {
    if (!verifies(view, keys[i].public_key)) continue;
    if (keys[i].revoked) revoked = &keys[i];
    else if (!may_sign(keys[i].domains, domain)) elsewhere = &keys[i];
    else return KILN_OK;
  }
  if (revoked) return kiln_fail(err, KILN_STATUS_UNTRUSTED, "signed by %s, which is revoked", revoked->name);
  if (elsewhere)
    return kiln_fail(err, KILN_STATUS_UNTRUSTED, "signed by %s, which may not sign for domain %s",
                     elsewhere->name, domain);
  return kiln_fail(err, KILN_STATUS_UNTRUSTED, "%u signatures, none by one of the %u trusted keys",
                   view->signature_count, count);
}
