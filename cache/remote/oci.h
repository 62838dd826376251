// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bundles in registries of containers, by the OCI distribution API: a bundle is the one layer of an artifact,
// signatures are an artifact of their own next to it, laid out as cosign does.
//
//   oci://HOST[:PORT]/NAME[:TAG]          https; "latest" without a tag
//   oci+http://HOST[:PORT]/NAME[:TAG]     plain http
//   oci://HOST[:PORT]/NAME@sha256:DIGEST  exactly this artifact
//
// Whatever a registry sends counts only once its digest is the one that was asked for.
#ifndef KILN_CACHE_REMOTE_OCI_H
#define KILN_CACHE_REMOTE_OCI_H

#include "base/buffer.h"
#include "base/status.h"

enum {
  KILN_OCI_DIGEST = 7 + 64, ///< "sha256:" and 64 digits
  KILN_OCI_PUBLIC = 32,
  KILN_OCI_SECRET = 64,
  KILN_OCI_URL = 1024,
};

/// Where an artifact is.
typedef struct kiln_oci_place {
  char host[256];      ///< "http://HOST:PORT" or "https://HOST"
  char name[256];      ///< of the repository
  char reference[160]; ///< a tag or a digest
  bool is_digest;
} kiln_oci_place;

/// Texts are borrowed.
typedef struct kiln_oci_access {
  const char *ca_file; ///< NULL: the system's certificates
  const char *login;   ///< "USER:PASSWORD"; NULL: none
  const char *token;   ///< bearer token; NULL: none
  uint32_t request_ms; ///< deadline of each request
  uint64_t max_bytes;  ///< of a bundle
} kiln_oci_access;

/// INVALID_ARGUMENT with what was expected.
kiln_status kiln_oci_parse(const char *address, kiln_oci_place *out, kiln_error *err);

/// Uploads a bundle under the place's tag, with `secret` (Ed25519; NULL: none) also a signature next to those that are
/// there. `title`: the file's name. `out_digest` is the artifact's.
kiln_status kiln_oci_push(const kiln_oci_place *place, const kiln_oci_access *access, const char *title,
                          const uint8_t *bytes, size_t size, const uint8_t *secret,
                          char out_digest[KILN_OCI_DIGEST + 1], kiln_error *err);

/// Fetches a bundle. With keys one of them must have signed the artifact: UNTRUSTED. `out_key`: which one.
kiln_status kiln_oci_pull(const kiln_oci_place *place, const kiln_oci_access *access,
                          const uint8_t (*keys)[KILN_OCI_PUBLIC], uint32_t key_count, kiln_buffer *out,
                          char out_digest[KILN_OCI_DIGEST + 1], uint32_t *out_key, kiln_error *err);

#endif
