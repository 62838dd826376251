// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blobs and manifests of one repository of a registry, for oci.c and oci_signature.c.
#ifndef KILN_CACHE_REMOTE_OCI_REGISTRY_H
#define KILN_CACHE_REMOTE_OCI_REGISTRY_H

#include "base/arena.h"
#include "base/json.h"
#include "cache/remote/http_client.h"
#include "cache/remote/oci.h"

#define KILN_OCI_MANIFEST "application/vnd.oci.image.manifest.v1+json"

typedef struct oci_registry {
  const kiln_oci_place *place;
  const kiln_oci_access *access;
  kiln_http *http; ///< owned
} oci_registry;

/// A part of an artifact, as its manifest names it.
typedef struct oci_part {
  const char *type;   ///< arena; its media type
  const char *digest; ///< arena; "sha256:..."
  uint64_t size;
  const char *signature; ///< arena; cosign's annotation, NULL: none
} oci_part;

enum { OCI_MOST_PARTS = 16 };

typedef struct oci_manifest {
  const char *artifact_type; ///< arena; "": none
  oci_part parts[OCI_MOST_PARTS];
  unsigned count;
} oci_manifest;

void oci_digest_of(const void *bytes, size_t size, char out[KILN_OCI_DIGEST + 1]);
bool oci_is_digest(const char *text);

kiln_status oci_registry_open(oci_registry *out, const kiln_oci_place *place, const kiln_oci_access *access,
                              kiln_error *err);
void oci_registry_close(oci_registry *registry);

/// Exactly `size` bytes with this digest into `out`; CORRUPT when the registry sends something else.
kiln_status oci_get_blob(oci_registry *registry, const char *digest, uint64_t size, kiln_buffer *out,
                         kiln_error *err);
/// Nothing is sent that is there.
kiln_status oci_put_blob(oci_registry *registry, const void *bytes, size_t size,
                         char out_digest[KILN_OCI_DIGEST + 1], kiln_error *err);
/// The manifest of a tag or digest, and its digest. NOT_FOUND when there is none.
kiln_status oci_get_manifest(oci_registry *registry, const char *reference, kiln_arena *arena,
                             oci_manifest *out, char out_digest[KILN_OCI_DIGEST + 1], kiln_error *err);
/// Uploads it under a tag and asks for it.
kiln_status oci_put_manifest(oci_registry *registry, const char *tag, const kiln_buffer *text,
                             kiln_error *err);

/// Adds a signature of the artifact `digest` to those that are there.
kiln_status oci_sign(oci_registry *registry, const char *digest, const uint8_t secret[KILN_OCI_SECRET],
                     kiln_error *err);
/// UNTRUSTED unless one of the keys signed it.
kiln_status oci_check_signatures(oci_registry *registry, const char *digest,
                                 const uint8_t (*keys)[KILN_OCI_PUBLIC], uint32_t key_count,
                                 uint32_t *out_key, kiln_error *err);

#endif
