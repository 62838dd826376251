// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Encodes entries as bytes, parses them with bounds checks, unpacks them, signs them with Ed25519 (libsodium) and
// checks their signatures.
#include "cache/entry.h"

#include <sodium/crypto_sign_ed25519.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "cache/blob.h"

static const char magic[] = KILN_ENTRY_MAGIC;
enum { MAGIC = sizeof magic - 1 };
enum { CODEC_RAW, CODEC_ZSTD };
enum { AT_BODY_CHECK = 144, AT_HEADER_CHECK = 160 };

/// "amdgcn-amd-amdhsa gfx90a xnack=on" and the symbol, from the fields. What is empty says nothing.
static void label_fields(const kiln_key *key, kiln_buffer *target, kiln_buffer *symbol) {
  kiln_key_walk walk;
  kiln_key_part part;
  if (kiln_key_walk_begin(&walk, key->fields, key->fields_size)) return;
  while (kiln_key_walk_next(&walk, &part) == KILN_OK) {
    if (part.field == KILN_FIELD_SYMBOL) kiln_buffer_bytes(symbol, part.value, part.value_size);
    bool of_target = part.field == KILN_FIELD_TRIPLE || part.field == KILN_FIELD_PROCESSOR ||
                     part.field == KILN_FIELD_FEATURE || part.field == KILN_FIELD_FORMAT;
    if (!of_target || !part.value_size) continue;
    if (target->size) kiln_buffer_u8(target, ' ');
    if (part.name_size) kiln_buffer_format(target, "%.*s=", (int)part.name_size, part.name);
    kiln_buffer_bytes(target, part.value, part.value_size);
  }
}

static void encode_labels(const kiln_key *key, const kiln_bytes *name, const char *domain, kiln_buffer *out) {
  kiln_buffer target = {0}, symbol = {0};
  label_fields(key, &target, &symbol);
  kiln_buffer_text(out, domain);
  kiln_buffer_text(out, "kiln " KILN_VERSION);
  kiln_buffer_block(out, target.bytes, target.size);
  if (name->size) kiln_buffer_block(out, name->bytes, name->size);
  else kiln_buffer_block(out, symbol.bytes, symbol.size);
  out->failed |= target.failed || symbol.failed;
  kiln_buffer_deinit(&target);
  kiln_buffer_deinit(&symbol);
}

/// The bytes that the content digest is of, and the raw body in them at `*out_body`.
static void encode_body(const kiln_key *key, const kiln_cache_content *c, kiln_buffer *out,
                        size_t *out_body) {
  kiln_buffer_u64(out, key->fields_size);
  kiln_buffer_u64(out, c->metadata.size);
  kiln_buffer_u64(out, c->diagnostics.size);
  kiln_buffer_u64(out, c->payload.size);
  kiln_buffer_u32(out, c->flags);
  *out_body = out->size;
  kiln_buffer_bytes(out, key->fields, key->fields_size);
  kiln_buffer_bytes(out, c->metadata.bytes, c->metadata.size);
  kiln_buffer_bytes(out, c->diagnostics.bytes, c->diagnostics.size);
  kiln_buffer_bytes(out, c->payload.bytes, c->payload.size);
}

/// Packs `raw` when that makes it smaller; 0 when it stays raw.
static size_t pack(const uint8_t *raw, size_t size, int level, kiln_buffer *out) {
  if (size <= KILN_ENTRY_RAW_LIMIT || !kiln_buffer_reserve(out, ZSTD_compressBound(size))) return 0;
  size_t packed = ZSTD_compress(out->bytes, out->capacity, raw, size, level);
  return ZSTD_isError(packed) || packed >= size ? 0 : packed;
}

static void put_check(uint8_t *at, const uint8_t *bytes, size_t size) {
  kiln_check check = kiln_check_of(bytes, size);
  memcpy(at, check.bytes, sizeof check.bytes);
}

void kiln_entry_seal(uint8_t *entry, size_t size) {
  put_check(entry + AT_BODY_CHECK, entry + KILN_ENTRY_HEADER, size - KILN_ENTRY_HEADER);
  put_check(entry + AT_HEADER_CHECK, entry, AT_HEADER_CHECK);
}

kiln_status kiln_entry_encode(const kiln_key *key, const kiln_cache_content *content, const char *domain,
                              int level, const uint8_t *sign_key, kiln_buffer *out, kiln_error *err) {
  kiln_buffer digested = {0}, labels = {0}, packed = {0};
  kiln_status status = KILN_STATUS_OUT_OF_MEMORY;
  size_t start = out->size, body_at;
  encode_body(key, content, &digested, &body_at);
  encode_labels(key, &content->name, domain, &labels);
  if (digested.failed || labels.failed) goto out;
  const uint8_t *body = digested.bytes + body_at;
  size_t raw_size = digested.size - body_at, packed_size = pack(body, raw_size, level, &packed);
  size_t stored_size = packed_size ? packed_size : raw_size;
  kiln_digest content_digest = kiln_digest_of(digested.bytes, digested.size);

  kiln_buffer_bytes(out, magic, MAGIC);
  kiln_buffer_u16(out, KILN_CACHE_FORMAT);
  kiln_buffer_u16(out, KILN_KEY_SCHEMA);
  kiln_buffer_u8(out, packed_size ? CODEC_ZSTD : CODEC_RAW);
  kiln_buffer_bytes(out, "\0\0", 3);
  kiln_buffer_bytes(out, key->digest.bytes, KILN_DIGEST_SIZE);
  kiln_buffer_bytes(out, content_digest.bytes, KILN_DIGEST_SIZE);
  kiln_buffer_bytes(out, digested.bytes, 4 * 8);
  kiln_buffer_u64(out, stored_size);
  kiln_buffer_u32(out, (uint32_t)labels.size);
  kiln_buffer_u32(out, 0);
  kiln_buffer_u64(out, content->cost_ns);
  kiln_buffer_u32(out, content->flags);
  kiln_buffer_u32(out, 0);
  kiln_buffer_bytes(out, (uint8_t[2 * KILN_CHECK_SIZE]){0}, 2 * KILN_CHECK_SIZE);
  kiln_buffer_bytes(out, labels.bytes, labels.size);
  kiln_buffer_bytes(out, packed_size ? packed.bytes : body, stored_size);
  if (out->failed) goto out;
  kiln_entry_seal(out->bytes + start, out->size - start);
  status = sign_key ? kiln_entry_sign(out, sign_key, err) : KILN_OK;
out:
  kiln_buffer_deinit(&digested);
  kiln_buffer_deinit(&labels);
  kiln_buffer_deinit(&packed);
  if (status == KILN_STATUS_OUT_OF_MEMORY) kiln_fail(err, status, "no memory for an entry");
  return status;
}

static bool has_check(const uint8_t *want, const uint8_t *bytes, size_t size) {
  kiln_check check = kiln_check_of(bytes, size);
  return !memcmp(want, check.bytes, sizeof check.bytes);
}

/// Fixed fields of the header into `out`; sizes are not believed yet.
static void parse_header(kiln_reader *r, kiln_entry_view *out, uint64_t *stored, uint32_t *labels,
                         bool *zeros) {
  out->codec = kiln_read_u8(r);
  *zeros = !kiln_read_u8(r) & !kiln_read_u16(r);
  memcpy(out->key.bytes, kiln_read_bytes(r, KILN_DIGEST_SIZE), KILN_DIGEST_SIZE);
  memcpy(out->content_digest.bytes, kiln_read_bytes(r, KILN_DIGEST_SIZE), KILN_DIGEST_SIZE);
  for (unsigned i = 0; i < 4; i++) out->sizes[i] = kiln_read_u64(r);
  *stored = kiln_read_u64(r);
  *labels = kiln_read_u32(r);
  out->signature_count = kiln_read_u32(r);
  out->cost_ns = kiln_read_u64(r);
  out->flags = kiln_read_u32(r);
  *zeros &= !kiln_read_u32(r);
}

static bool parse_labels(const uint8_t *bytes, size_t size, kiln_entry_view *out) {
  kiln_reader r = kiln_reader_of(bytes, size);
  for (unsigned i = 0; i < KILN_LABELS; i++) out->labels[i].bytes = kiln_read_block(&r, &out->labels[i].size);
  return kiln_read_done(&r);
}

/// The sum of the four sizes, or UINT64_MAX when it is above `max`.
static uint64_t sum(const uint64_t sizes[4], uint64_t max) {
  uint64_t total = 0;
  for (unsigned i = 0; i < 4; i++) {
    if (sizes[i] > max - total) return UINT64_MAX;
    total += sizes[i];
  }
  return total;
}

kiln_status kiln_entry_parse_head(const uint8_t *bytes, size_t have, uint64_t size, const kiln_check *body,
                                  uint64_t max_bytes, kiln_entry_view *out, kiln_error *err) {
  memset(out, 0, sizeof *out);
  kiln_reader r = kiln_reader_of(bytes, have);
  const uint8_t *head = kiln_read_bytes(&r, MAGIC);
  if (!head || memcmp(head, magic, MAGIC))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "no entry: the magic is missing");
  uint16_t format = kiln_read_u16(&r), schema = kiln_read_u16(&r);
  if (have < KILN_ENTRY_HEADER)
    return kiln_fail(err, KILN_STATUS_CORRUPT, "expected %d bytes of header, found %zu", KILN_ENTRY_HEADER,
                     have);
  if (!has_check(bytes + AT_HEADER_CHECK, bytes, AT_HEADER_CHECK))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "the header's check does not fit");
  if (format != KILN_CACHE_FORMAT || schema != KILN_KEY_SCHEMA)
    return kiln_fail(err, KILN_STATUS_VERSION, "expected format %d and key schema %d, found %u and %u",
                     KILN_CACHE_FORMAT, KILN_KEY_SCHEMA, format, schema);
  uint64_t stored;
  uint32_t labels;
  bool zeros;
  parse_header(&r, out, &stored, &labels, &zeros);
  if (!zeros || out->codec > CODEC_ZSTD || out->signature_count > KILN_ENTRY_SIGNATURES)
    return kiln_fail(err, KILN_STATUS_CORRUPT, "the header has values that no release wrote");
  uint64_t rest = size - KILN_ENTRY_HEADER, trailer = (uint64_t)out->signature_count * KILN_ENTRY_SIGNATURE;
  if (labels > rest || trailer > rest - labels || stored != rest - labels - trailer)
    return kiln_fail(err, KILN_STATUS_CORRUPT, "expected %llu bytes after the header, found %llu",
                     (unsigned long long)(stored + labels + trailer), (unsigned long long)rest);
  if (memcmp(bytes + AT_BODY_CHECK, body->bytes, sizeof body->bytes))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "the body's check does not fit");
  const uint8_t *at = bytes + KILN_ENTRY_HEADER;
  if (labels > have - KILN_ENTRY_HEADER || !parse_labels(at, labels, out))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "the labels are damaged");
  const size_t there = have - KILN_ENTRY_HEADER - labels; // of what is stored
  out->stored = (kiln_bytes){at + labels, (size_t)stored};
  out->signatures = at + labels + stored;
  out->raw_size = sum(out->sizes, max_bytes);
  if (out->raw_size == UINT64_MAX)
    return kiln_fail(err, KILN_STATUS_LIMIT, "the body is larger than %llu bytes",
                     (unsigned long long)max_bytes);
  if (out->codec == CODEC_RAW && stored != out->raw_size)
    return kiln_fail(err, KILN_STATUS_CORRUPT, "expected a body of %llu bytes, found %llu",
                     (unsigned long long)out->raw_size, (unsigned long long)stored);
  if (out->codec == CODEC_ZSTD &&
      ZSTD_getFrameContentSize(at + labels, there < stored ? there : (size_t)stored) != out->raw_size)
    return kiln_fail(err, KILN_STATUS_CORRUPT, "the packed body does not unpack to %llu bytes",
                     (unsigned long long)out->raw_size);
  return KILN_OK;
}

kiln_status kiln_entry_parse(const uint8_t *bytes, size_t size, uint64_t max_bytes, kiln_entry_view *out,
                             kiln_error *err) {
  kiln_check body = {0};
  if (size >= KILN_ENTRY_HEADER) body = kiln_check_of(bytes + KILN_ENTRY_HEADER, size - KILN_ENTRY_HEADER);
  return kiln_entry_parse_head(bytes, size, size, &body, max_bytes, out, err);
}

kiln_status kiln_entry_unpack(const kiln_entry_view *view, uint8_t *raw, kiln_error *err) {
  if (view->codec == CODEC_RAW) {
    memcpy(raw, view->stored.bytes, view->stored.size);
    return KILN_OK;
  }
  size_t got = ZSTD_decompress(raw, (size_t)view->raw_size, view->stored.bytes, view->stored.size);
  if (ZSTD_isError(got)) return kiln_fail(err, KILN_STATUS_CORRUPT, "unpacking: %s", ZSTD_getErrorName(got));
  if (got != view->raw_size)
    return kiln_fail(err, KILN_STATUS_CORRUPT, "expected %llu unpacked bytes, found %zu",
                     (unsigned long long)view->raw_size, got);
  return KILN_OK;
}

void kiln_entry_point(const kiln_entry_view *view, const uint8_t *raw, kiln_cache_entry *out) {
  kiln_bytes *parts[4] = {&out->fields, &out->content.metadata, &out->content.diagnostics,
                          &out->content.payload};
  for (unsigned i = 0; i < 4; i++) {
    *parts[i] = (kiln_bytes){raw, (size_t)view->sizes[i]};
    raw += view->sizes[i];
  }
  out->content.name = (kiln_bytes){NULL, 0}; // a label: not in the body
  out->content.cost_ns = view->cost_ns;
  out->content.flags = view->flags;
  out->content_digest = view->content_digest;
}

kiln_status kiln_entry_verify(const kiln_entry_view *view, const uint8_t *raw, kiln_error *err) {
  kiln_digest key = kiln_digest_of(raw, (size_t)view->sizes[0]);
  if (memcmp(key.bytes, view->key.bytes, sizeof key.bytes))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "the fields do not hash to the key");
  kiln_buffer digested = {0};
  for (unsigned i = 0; i < 4; i++) kiln_buffer_u64(&digested, view->sizes[i]);
  kiln_buffer_u32(&digested, view->flags);
  kiln_buffer_bytes(&digested, raw, (size_t)view->raw_size);
  bool failed = digested.failed;
  kiln_digest content = kiln_digest_of(digested.bytes, digested.size);
  kiln_buffer_deinit(&digested);
  if (failed) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory to verify an entry");
  if (memcmp(content.bytes, view->content_digest.bytes, sizeof content.bytes))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "the content does not hash to its digest");
  return KILN_OK;
}

void kiln_cache_entry_deinit(kiln_cache_entry *entry) {
  kiln_blob_release(entry->held);
  memset(entry, 0, sizeof *entry);
}

// ------------------------------------------------------------------------------------------ signatures

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
