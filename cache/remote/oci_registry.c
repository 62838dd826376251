// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Uploads and fetches blobs and manifests by the OCI distribution API (version 1.1), and checks the digest of all that comes.
#include "cache/remote/oci_registry.h"

#include <stdio.h>
#include <string.h>

#include "cache/remote/action.h"
#include "cache/wire.h"

enum { MANIFEST_LIMIT = 1 << 20, HASH = 7 };

static const char hash[HASH + 1] = "sha256:";
static const char right[] = "KILN_REGISTRY_LOGIN or KILN_REGISTRY_TOKEN";

void oci_digest_of(const void *bytes, size_t size, char out[KILN_OCI_DIGEST + 1]) {
  memcpy(out, hash, HASH);
  kiln_action_hash(bytes, size, out + HASH);
}

bool oci_is_digest(const char *text) {
  return strlen(text) == KILN_OCI_DIGEST && !memcmp(text, hash, HASH) &&
         strspn(text + HASH, "0123456789abcdef") == KILN_OCI_DIGEST - HASH;
}

kiln_status oci_registry_open(oci_registry *out, const kiln_oci_place *place, const kiln_oci_access *access,
                              kiln_error *err) {
  const kiln_http_config config = {.is_tls = !strncmp(place->host, "https:", 6),
                                   .ca_file = access->ca_file,
                                   .token = access->login ? NULL : access->token,
                                   .login = access->login};
  *out = (oci_registry){place, access, kiln_http_create(&config)};
  return out->http ? KILN_OK : kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for a registry");
}

void oci_registry_close(oci_registry *r) { kiln_http_destroy(r->http); }

static kiln_http_answer ask(oci_registry *r, const kiln_http_request *request) {
  return kiln_http_ask(r->http, request, kiln_wire_now() + r->access->request_ms);
}

/// What is wrong with an answer to a request for `what`.
static kiln_status refuse(const oci_registry *r, const kiln_http_answer *a, const char *what,
                          kiln_error *err) {
  char why[200];
  kiln_http_explain(a, right, why, sizeof why);
  kiln_status status = a->over                                ? KILN_STATUS_CORRUPT
                       : a->status == 401 || a->status == 403 ? KILN_STATUS_DENIED
                       : a->status == 404                     ? KILN_STATUS_NOT_FOUND
                                                              : KILN_STATUS_IO;
  return kiln_fail(err, status, "%s/%s: %s: %s", r->place->host, r->place->name, what,
                   a->over ? "the registry sends more than that, or something else" : why);
}

kiln_status oci_get_blob(oci_registry *r, const char *digest, uint64_t size, kiln_buffer *out,
                         kiln_error *err) {
  char url[KILN_OCI_URL], found[KILN_OCI_DIGEST + 1];
  if (size > r->access->max_bytes)
    return kiln_fail(err, KILN_STATUS_LIMIT, "%s: expected at most %llu bytes, the registry names %llu",
                     digest, (unsigned long long)r->access->max_bytes, (unsigned long long)size);
  snprintf(url, sizeof url, "%s/v2/%s/blobs/%s", r->place->host, r->place->name, digest);
  const kiln_http_request request = {.url = url, .out = out, .limit = size, .follows = true};
  kiln_http_answer answer = ask(r, &request);
  if (answer.over || answer.status != 200) return refuse(r, &answer, digest, err);
  oci_digest_of(out->size ? out->bytes : (const uint8_t *)"", out->size, found);
  if (out->size != size || strcmp(found, digest))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "%s/%s: expected %llu bytes with %s, found %zu with %s",
                     r->place->host, r->place->name, (unsigned long long)size, digest, out->size, found);
  return KILN_OK;
}

/// The address that an upload goes to, of the header Location: absolute, or from the root. It must be of the same host: rights
/// are sent with it.
static kiln_status find_upload(const oci_registry *r, const char *location, const char *digest,
                               char out[2 * KILN_OCI_URL], kiln_error *err) {
  size_t host = strlen(r->place->host);
  bool is_path = location[0] == '/' && location[1] != '/';
  bool is_here = !strncmp(location, r->place->host, host) && location[host] == '/';
  if (!is_path && !is_here)
    return kiln_fail(err, KILN_STATUS_UNTRUSTED, "%s: expected a place for an upload there, found \"%.200s\"",
                     r->place->host, location);
  snprintf(out, 2 * KILN_OCI_URL, "%s%s%cdigest=%s", is_path ? r->place->host : "", location,
           strchr(location, '?') ? '&' : '?', digest);
  return KILN_OK;
}

kiln_status oci_put_blob(oci_registry *r, const void *bytes, size_t size,
                         char out_digest[KILN_OCI_DIGEST + 1], kiln_error *err) {
  char url[KILN_OCI_URL], location[KILN_OCI_URL], to[2 * KILN_OCI_URL];
  oci_digest_of(bytes, size, out_digest);
  snprintf(url, sizeof url, "%s/v2/%s/blobs/%s", r->place->host, r->place->name, out_digest);
  const kiln_http_request head = {.url = url, .method = "HEAD", .follows = true};
  kiln_http_answer answer = ask(r, &head);
  if (answer.status == 200) return KILN_OK;
  snprintf(url, sizeof url, "%s/v2/%s/blobs/uploads/", r->place->host, r->place->name);
  const kiln_http_request post = {
      .url = url, .method = "POST", .wants = "location", .value = location, .capacity = sizeof location};
  answer = ask(r, &post);
  if (answer.status != 202) return refuse(r, &answer, "beginning an upload", err);
  KILN_TRY(find_upload(r, location, out_digest, to, err));
  const kiln_http_request put = {
      .url = to, .headers = {"Content-Type: application/octet-stream"}, .send = bytes, .size = size};
  answer = ask(r, &put);
  return answer.status == 201 ? KILN_OK : refuse(r, &answer, "an upload", err);
}

/// One member of "layers".
static kiln_status read_part(const kiln_json *at, oci_part *out, kiln_error *err) {
  int64_t size;
  *out = (oci_part){.type = kiln_json_text(at, "mediaType", ""), .digest = kiln_json_text(at, "digest", "")};
  out->signature =
      kiln_json_text(kiln_json_find(at, "annotations"), "dev.cosignproject.cosign/signature", NULL);
  if (!oci_is_digest(out->digest) || !kiln_json_integer(kiln_json_find(at, "size"), &size) || size < 0)
    return kiln_fail(err, KILN_STATUS_CORRUPT, "a layer: expected a digest of SHA-256 and a size");
  out->size = (uint64_t)size;
  return KILN_OK;
}

static kiln_status read_manifest(kiln_arena *arena, const kiln_buffer *text, oci_manifest *out,
                                 kiln_error *err) {
  const kiln_json *root;
  *out = (oci_manifest){.artifact_type = ""};
  KILN_TRY(kiln_json_parse(arena, (const char *)text->bytes, text->size, &root, err));
  const kiln_json *layers = kiln_json_find(root, "layers");
  const char *type = kiln_json_text(root, "mediaType", KILN_OCI_MANIFEST);
  if (strcmp(type, KILN_OCI_MANIFEST) || !layers || layers->kind != KILN_JSON_ARRAY)
    return kiln_fail(err, KILN_STATUS_CORRUPT, "expected an OCI manifest with layers, found '%.100s'", type);
  if (layers->count > OCI_MOST_PARTS)
    return kiln_fail(err, KILN_STATUS_LIMIT, "expected at most %d layers, found %u", OCI_MOST_PARTS,
                     layers->count);
  out->artifact_type = kiln_json_text(root, "artifactType", "");
  for (const kiln_json *at = layers->first; at; at = at->next)
    KILN_TRY(read_part(at, &out->parts[out->count++], err));
  return KILN_OK;
}

/// The bytes of a manifest. Redirects are not followed: only blobs have them.
static kiln_status get_text(oci_registry *r, const char *reference, kiln_buffer *out, kiln_error *err) {
  char url[KILN_OCI_URL];
  snprintf(url, sizeof url, "%s/v2/%s/manifests/%s", r->place->host, r->place->name, reference);
  const kiln_http_request get = {
      .url = url, .headers = {"Accept: " KILN_OCI_MANIFEST}, .out = out, .limit = MANIFEST_LIMIT};
  kiln_http_answer answer = ask(r, &get);
  return answer.status == 200 && !answer.over ? KILN_OK : refuse(r, &answer, reference, err);
}

kiln_status oci_get_manifest(oci_registry *r, const char *reference, kiln_arena *arena, oci_manifest *out,
                             char out_digest[KILN_OCI_DIGEST + 1], kiln_error *err) {
  kiln_buffer text = {0};
  kiln_status status = get_text(r, reference, &text, err);
  if (!status) {
    oci_digest_of(text.size ? text.bytes : (const uint8_t *)"", text.size, out_digest);
    if (oci_is_digest(reference) && strcmp(reference, out_digest))
      status = kiln_fail(err, KILN_STATUS_CORRUPT, "%s/%s: expected the manifest %s, found %s",
                         r->place->host, r->place->name, reference, out_digest);
  }
  if (!status && (status = read_manifest(arena, &text, out, err)) != KILN_OK)
    kiln_context(err, status, "%s/%s: %s", r->place->host, r->place->name, reference);
  kiln_buffer_deinit(&text);
  return status;
}

kiln_status oci_put_manifest(oci_registry *r, const char *tag, const kiln_buffer *text, kiln_error *err) {
  char url[KILN_OCI_URL];
  kiln_buffer back = {0};
  if (text->failed) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for a manifest");
  snprintf(url, sizeof url, "%s/v2/%s/manifests/%s", r->place->host, r->place->name, tag);
  const kiln_http_request put = {
      .url = url, .headers = {"Content-Type: " KILN_OCI_MANIFEST}, .send = text->bytes, .size = text->size};
  kiln_http_answer answer = ask(r, &put);
  if (answer.status != 201) return refuse(r, &answer, "the upload of a manifest", err);
  kiln_status status = get_text(r, tag, &back, err);
  if (!status && (back.size != text->size || memcmp(back.bytes, text->bytes, text->size)))
    status = kiln_fail(err, KILN_STATUS_CORRUPT, "%s/%s: %s: the registry gives another manifest back",
                       r->place->host, r->place->name, tag);
  kiln_buffer_deinit(&back);
  return status;
}
