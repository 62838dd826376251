// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Uploads a bundle to a registry of containers as an OCI artifact, and fetches it.
#include "cache/remote/oci.h"

#include <stdio.h>
#include <string.h>

#include "base/bundle_format.h"
#include "cache/remote/oci_registry.h"

#define BUNDLE_TYPE "application/vnd.kiln.bundle"
#define EMPTY_TYPE "application/vnd.oci.empty.v1+json"
#define LOWER "abcdefghijklmnopqrstuvwxyz0123456789"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

enum { TAG_MOST = 128, ZIP_NAME = 30, SHOWN = 200 };

/// Parts with '/' between; each of lower case, digits, '.', '_' and '-', with a letter or digit at both ends.
static bool is_name(const char *name) {
  while (*name) {
    size_t length = strcspn(name, "/");
    if (!length || strspn(name, LOWER "._-") < length || !strchr(LOWER, name[0]) ||
        !strchr(LOWER, name[length - 1]))
      return false;
    name += length;
    if (*name && !*++name) return false;
  }
  return true;
}

static bool is_tag(const char *tag) {
  size_t length = strlen(tag);
  return length && length <= TAG_MOST && strspn(tag, LOWER UPPER "_.-") == length && *tag != '.' &&
         *tag != '-';
}

static bool is_host(const char *host) {
  size_t length = strlen(host);
  return length && strspn(host, LOWER UPPER ".-:[]") == length;
}

kiln_status kiln_oci_parse(const char *address, kiln_oci_place *out, kiln_error *err) {
  bool is_plain = !strncmp(address, "oci+http://", 11), is_known = is_plain || !strncmp(address, "oci://", 6);
  const char *host = address + (is_plain ? 11 : 6), *slash = is_known ? strchr(host, '/') : NULL;
  char authority[sizeof out->host - 16], rest[sizeof out->name + sizeof out->reference];
  memset(out, 0, sizeof *out);
  bool good = slash && (size_t)(slash - host) < sizeof authority && strlen(slash) < sizeof rest;
  if (good) {
    snprintf(authority, sizeof authority, "%.*s", (int)(slash - host), host);
    snprintf(out->host, sizeof out->host, "%s://%s", is_plain ? "http" : "https", authority);
    snprintf(rest, sizeof rest, "%s", slash + 1);
    char *at = strchr(rest, '@'), *colon = at ? NULL : strchr(rest, ':');
    out->is_digest = at != NULL;
    const char *reference = at ? at + 1 : colon ? colon + 1 : "latest";
    if (at) *at = 0;
    if (colon) *colon = 0;
    good = is_host(authority) && *rest && is_name(rest) && strlen(rest) < sizeof out->name &&
           (at ? oci_is_digest(reference) : is_tag(reference));
    snprintf(out->name, sizeof out->name, "%.255s", rest);
    snprintf(out->reference, sizeof out->reference, "%.*s", (int)sizeof out->reference - 1, reference);
  }
  if (good) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                   "expected oci://HOST[:PORT]/NAME[:TAG] or ...@sha256:DIGEST, oci+http:// for plain http, "
                   "found '%.*s'; names are in lower case",
                   SHOWN, address);
}

/// The first member of a bundle is its index.
static bool is_bundle(const uint8_t *bytes, size_t size) {
  static const char name[] = KILN_BUNDLE_INDEX_NAME;
  return size > ZIP_NAME + sizeof name && !memcmp(bytes, "PK\3\4", 4) &&
         !memcmp(bytes + ZIP_NAME, name, sizeof name - 1);
}

/// A file's name for a manifest, in which it is a text of JSON.
static void put_title(kiln_buffer *out, const char *title) {
  for (; *title; title++) {
    bool is_plain = *title >= ' ' && *title < 0x7f && *title != '"' && *title != '\\';
    kiln_buffer_u8(out, (uint8_t)(is_plain ? *title : '_'));
  }
}

kiln_status kiln_oci_push(const kiln_oci_place *place, const kiln_oci_access *access, const char *title,
                          const uint8_t *bytes, size_t size, const uint8_t *secret,
                          char out_digest[KILN_OCI_DIGEST + 1], kiln_error *err) {
  char bundle[KILN_OCI_DIGEST + 1], empty[KILN_OCI_DIGEST + 1];
  oci_registry r;
  kiln_buffer text = {0};
  if (place->is_digest)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "an upload goes under a tag, not under a digest");
  if (!is_bundle(bytes, size)) return kiln_fail(err, KILN_STATUS_CORRUPT, "%s is no bundle", title);
  KILN_TRY(oci_registry_open(&r, place, access, err));
  kiln_status status = oci_put_blob(&r, bytes, size, bundle, err);
  if (!status) status = oci_put_blob(&r, "{}", 2, empty, err);
  if (!status) {
    kiln_buffer_format(&text,
                       "{\"schemaVersion\":2,\"mediaType\":\"" KILN_OCI_MANIFEST
                       "\",\"artifactType\":\"" BUNDLE_TYPE "\",\"config\":{\"mediaType\":\"" EMPTY_TYPE
                       "\",\"digest\":\"%s\",\"size\":2},\"layers\":[{\"mediaType\":\"" BUNDLE_TYPE
                       "\",\"digest\":\"%s\",\"size\":%zu,\"annotations\":{"
                       "\"org.opencontainers.image.title\":\"",
                       empty, bundle, size);
    put_title(&text, title);
    kiln_buffer_format(&text, "\"}}]}");
    oci_digest_of(text.bytes, text.size, out_digest);
  }
  // The signature first: who looks in between finds the former artifact, or this one signed.
  if (!status && secret) status = oci_sign(&r, out_digest, secret, err);
  if (!status) status = oci_put_manifest(&r, place->reference, &text, err);
  kiln_buffer_deinit(&text);
  oci_registry_close(&r);
  return status;
}

static kiln_status pull(oci_registry *r, const uint8_t (*keys)[KILN_OCI_PUBLIC], uint32_t key_count,
                        kiln_arena *arena, kiln_buffer *out, char *out_digest, uint32_t *out_key,
                        kiln_error *err) {
  oci_manifest manifest;
  KILN_TRY(oci_get_manifest(r, r->place->reference, arena, &manifest, out_digest, err));
  if (strcmp(manifest.artifact_type, BUNDLE_TYPE) || manifest.count != 1 ||
      strcmp(manifest.parts[0].type, BUNDLE_TYPE))
    return kiln_fail(err, KILN_STATUS_CORRUPT,
                     "%s/%s: expected an artifact of type " BUNDLE_TYPE
                     " with one layer, found '%.100s' with %u",
                     r->place->host, r->place->name, manifest.artifact_type, manifest.count);
  if (key_count) KILN_TRY(oci_check_signatures(r, out_digest, keys, key_count, out_key, err));
  KILN_TRY(oci_get_blob(r, manifest.parts[0].digest, manifest.parts[0].size, out, err));
  if (!is_bundle(out->bytes, out->size))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "%s/%s: the layer is no bundle", r->place->host,
                     r->place->name);
  return KILN_OK;
}

kiln_status kiln_oci_pull(const kiln_oci_place *place, const kiln_oci_access *access,
                          const uint8_t (*keys)[KILN_OCI_PUBLIC], uint32_t key_count, kiln_buffer *out,
                          char out_digest[KILN_OCI_DIGEST + 1], uint32_t *out_key, kiln_error *err) {
  oci_registry r;
  kiln_arena *arena = kiln_arena_create();
  kiln_status status = oci_registry_open(&r, place, access, err);
  if (!status) {
    status = pull(&r, keys, key_count, arena, out, out_digest, out_key, err);
    oci_registry_close(&r);
  }
  kiln_arena_destroy(arena);
  return status;
}
