// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Signatures of artifacts in a registry, as cosign lays them out: the artifact sha256:DIGEST has its signatures
// under the tag sha256-DIGEST.sig, a layer each. A layer is a text that names the artifact ("simple signing"), its
// annotation the signature of that text, by Ed25519.
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "cache/remote/oci_registry.h"

#define PAYLOAD_TYPE "application/vnd.dev.cosign.simplesigning.v1+json"
#define CONFIG_TYPE "application/vnd.oci.image.config.v1+json"
#define KIND "cosign container image signature"

enum {
  SIGNATURE = crypto_sign_ed25519_BYTES,
  SIGNATURE_TEXT = sodium_base64_ENCODED_LEN(SIGNATURE, sodium_base64_VARIANT_ORIGINAL),
  PAYLOAD_MOST = 4096,
  TAG = KILN_OCI_DIGEST + 8,
};

static void tag_of(const char *digest, char out[TAG]) { snprintf(out, TAG, "sha256-%s.sig", digest + 7); }

static void put_layer(kiln_buffer *layers, kiln_buffer *hashes, const char *digest, uint64_t size,
                      const char *signature) {
  kiln_buffer_format(layers,
                     "%s{\"mediaType\":\"" PAYLOAD_TYPE "\",\"digest\":\"%s\",\"size\":%llu,"
                     "\"annotations\":{\"dev.cosignproject.cosign/signature\":\"%s\"}}",
                     layers->size ? "," : "", digest, (unsigned long long)size, signature);
  kiln_buffer_format(hashes, "%s\"%s\"", hashes->size ? "," : "", digest);
}

static bool is_base64(const char *text) {
  return strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") == strlen(text);
}

/// The layers that are there, but for that with `signature`.
static kiln_status keep_layers(oci_registry *r, const char *tag, const char *signature, kiln_arena *arena,
                               kiln_buffer *layers, kiln_buffer *hashes, kiln_error *err) {
  oci_manifest there;
  char digest[KILN_OCI_DIGEST + 1];
  kiln_status status = oci_get_manifest(r, tag, arena, &there, digest, err);
  if (status == KILN_STATUS_NOT_FOUND) return KILN_OK;
  if (status) return status;
  for (unsigned i = 0; i < there.count; i++) {
    const oci_part *p = &there.parts[i];
    if (p->signature && is_base64(p->signature) && strcmp(p->signature, signature))
      put_layer(layers, hashes, p->digest, p->size, p->signature);
  }
  return KILN_OK;
}

static kiln_status put_signatures(oci_registry *r, const char *tag, const kiln_buffer *layers,
                                  const kiln_buffer *hashes, kiln_error *err) {
  char digest[KILN_OCI_DIGEST + 1];
  kiln_buffer config = {0}, text = {0};
  kiln_buffer_format(&config,
                     "{\"architecture\":\"\",\"config\":{},\"os\":\"\",\"rootfs\":{\"type\":\"layers\","
                     "\"diff_ids\":[%.*s]}}",
                     (int)hashes->size, (const char *)hashes->bytes);
  kiln_status status = config.failed || layers->failed
                           ? kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for a signature")
                           : oci_put_blob(r, config.bytes, config.size, digest, err);
  if (!status) {
    kiln_buffer_format(&text,
                       "{\"schemaVersion\":2,\"mediaType\":\"" KILN_OCI_MANIFEST
                       "\",\"config\":{\"mediaType\":\"" CONFIG_TYPE
                       "\",\"digest\":\"%s\",\"size\":%zu},\"layers\":[%.*s]}",
                       digest, config.size, (int)layers->size, (const char *)layers->bytes);
    status = oci_put_manifest(r, tag, &text, err);
  }
  kiln_buffer_deinit(&config);
  kiln_buffer_deinit(&text);
  return status;
}

kiln_status oci_sign(oci_registry *r, const char *digest, const uint8_t secret[KILN_OCI_SECRET],
                     kiln_error *err) {
  const char *host = strstr(r->place->host, "://") + 3;
  uint8_t signature[SIGNATURE];
  char text[SIGNATURE_TEXT], tag[TAG], blob[KILN_OCI_DIGEST + 1];
  kiln_buffer payload = {0}, layers = {0}, hashes = {0};
  kiln_arena *arena = kiln_arena_create();
  kiln_buffer_format(&payload,
                     "{\"critical\":{\"identity\":{\"docker-reference\":\"%s/%s\"},\"image\":{"
                     "\"docker-manifest-digest\":\"%s\"},\"type\":\"" KIND "\"},\"optional\":null}",
                     host, r->place->name, digest);
  kiln_status status =
      payload.failed ? kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for a signature") : KILN_OK;
  if (!status) {
    crypto_sign_ed25519_detached(signature, NULL, payload.bytes, payload.size, secret);
    sodium_bin2base64(text, sizeof text, signature, sizeof signature, sodium_base64_VARIANT_ORIGINAL);
    tag_of(digest, tag);
    status = oci_put_blob(r, payload.bytes, payload.size, blob, err);
  }
  if (!status) status = keep_layers(r, tag, text, arena, &layers, &hashes, err);
  if (!status) {
    put_layer(&layers, &hashes, blob, payload.size, text);
    status = put_signatures(r, tag, &layers, &hashes, err);
  }
  kiln_buffer_deinit(&payload);
  kiln_buffer_deinit(&layers);
  kiln_buffer_deinit(&hashes);
  kiln_arena_destroy(arena);
  return status;
}

/// Whether the signed text is about this artifact.
static bool is_about(const kiln_buffer *payload, const char *digest, kiln_arena *arena) {
  const kiln_json *root;
  kiln_error err;
  if (kiln_json_parse(arena, (const char *)payload->bytes, payload->size, &root, &err) != KILN_OK)
    return false;
  const kiln_json *critical = kiln_json_find(root, "critical");
  const kiln_json *image = kiln_json_find(critical, "image");
  return !strcmp(kiln_json_text(critical, "type", ""), KIND) &&
         !strcmp(kiln_json_text(image, "docker-manifest-digest", ""), digest);
}

static bool is_signed_by(const oci_part *p, const kiln_buffer *payload, const uint8_t key[KILN_OCI_PUBLIC]) {
  uint8_t signature[SIGNATURE];
  size_t size;
  return !sodium_base642bin(signature, sizeof signature, p->signature, strlen(p->signature), NULL, &size,
                            NULL, sodium_base64_VARIANT_ORIGINAL) &&
         size == SIGNATURE &&
         !crypto_sign_ed25519_verify_detached(signature, payload->bytes, payload->size, key);
}

kiln_status oci_check_signatures(oci_registry *r, const char *digest, const uint8_t (*keys)[KILN_OCI_PUBLIC],
                                 uint32_t key_count, uint32_t *out_key, kiln_error *err) {
  char tag[TAG], found[KILN_OCI_DIGEST + 1];
  oci_manifest there;
  kiln_buffer payload = {0};
  kiln_arena *arena = kiln_arena_create();
  bool is_trusted = false;
  tag_of(digest, tag);
  kiln_status status = oci_get_manifest(r, tag, arena, &there, found, err);
  if (status == KILN_STATUS_NOT_FOUND) there.count = 0, status = KILN_OK;
  for (unsigned i = 0; !status && !is_trusted && i < there.count; i++) {
    const oci_part *p = &there.parts[i];
    if (!p->signature || strcmp(p->type, PAYLOAD_TYPE) || p->size > PAYLOAD_MOST) continue;
    status = oci_get_blob(r, p->digest, p->size, &payload, err);
    for (uint32_t k = 0; !status && !is_trusted && k < key_count; k++) {
      is_trusted = is_signed_by(p, &payload, keys[k]) && is_about(&payload, digest, arena);
      *out_key = k;
    }
  }
  if (!status && !is_trusted)
    status = kiln_fail(err, KILN_STATUS_UNTRUSTED,
                       "%s/%s: none of the trusted keys signed %s; it has %u signature%s", r->place->host,
                       r->place->name, digest, there.count, there.count == 1 ? "" : "s");
  kiln_buffer_deinit(&payload);
  kiln_arena_destroy(arena);
  return status;
}
