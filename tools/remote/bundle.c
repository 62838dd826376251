// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln-remote push-bundle and pull-bundle: a bundle to and from a registry of containers, for `kiln cache push`
// and `kiln cache pull`, which have checked the command line.
//
//   kiln-remote push-bundle SECONDS json|text KEYFILE|- FILE ADDRESS
//   kiln-remote pull-bundle SECONDS json|text FILE ADDRESS KEYFILE...
#include "tools/remote/bundle.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/output.h"
#include "base/program.h"
#include "cache/remote/oci.h"
#include "tools/common/cli.h"
#include "tools/common/key_file.h"

enum { MOST_KEYS = 16, PULL_WORDS = 6 };

static const uint64_t most_bytes = (uint64_t)2 << 30;

static kiln_oci_access access_of(const char *seconds) {
  const char *login = secure_getenv("KILN_REGISTRY_LOGIN"), *token = secure_getenv("KILN_REGISTRY_TOKEN");
  return (kiln_oci_access){.ca_file = secure_getenv("KILN_CACHE_REMOTE_CA"),
                           .login = login && *login ? login : NULL,
                           .token = token && *token ? token : NULL,
                           .request_ms = (uint32_t)strtoul(seconds, NULL, 10) * 1000,
                           .max_bytes = most_bytes};
}

/// "pushed app.kbundle: oci://HOST/NAME@sha256:..., 1234 bytes, signed by KEY" or its JSON. Without a key nothing was asked
/// about signatures, which may be there.
static void print_done(bool is_json, bool is_push, const char *file, const char *address, const char *digest,
                       size_t size, const char *key) {
  const char *without =
      is_push ? "no signature added" : "signature not checked (give --trust to say whom you trust)";
  kiln_buffer out = {0};
  size_t scheme = (size_t)(strstr(address, "://") + 3 - address);
  const char *slash = strchr(address + scheme, '/');
  int length = (int)(slash - address) + (int)strcspn(slash, ":@");
  if (is_json) {
    kiln_buffer_format(&out, "{\"file\": ");
    cli_json_text(&out, file);
    kiln_buffer_format(&out, ", \"address\": \"%.*s\", \"digest\": \"%s\", \"bytes\": %zu, \"key\": ", length,
                       address, digest, size);
    if (key) cli_json_text(&out, key);
    else kiln_buffer_format(&out, "null");
    kiln_buffer_format(&out, "}\n");
  } else {
    kiln_buffer_format(&out, "%s %s: %.*s@%s, %zu bytes, %s%s\n", is_push ? "pushed" : "pulled",
                       cli_name(file), length, address, digest, size, key ? "signed by " : without,
                       key ? cli_name(key) : "");
  }
  fwrite(out.bytes, 1, out.size, stdout);
  kiln_buffer_deinit(&out);
}

static kiln_status push(char **words, kiln_error *err) {
  const char *key = words[2], *file = words[3], *address = words[4], *slash = strrchr(file, '/');
  const kiln_oci_access access = access_of(words[0]);
  kiln_oci_place place;
  kiln_buffer bytes = {0};
  uint8_t secret[KEY_FILE_SECRET];
  char digest[KILN_OCI_DIGEST + 1];
  bool is_signed = strcmp(key, "-") != 0;
  kiln_status status = kiln_oci_parse(address, &place, err);
  if (!status && is_signed) status = key_file_secret(key, secret, err);
  if (!status) status = cli_read_file(file, "", most_bytes, &bytes, err);
  if (!status)
    status = kiln_oci_push(&place, &access, slash ? slash + 1 : file, bytes.bytes, bytes.size,
                           is_signed ? secret : NULL, digest, err);
  if (!status)
    print_done(!strcmp(words[1], "json"), true, file, address, digest, bytes.size, is_signed ? key : NULL);
  sodium_memzero(secret, sizeof secret);
  kiln_buffer_deinit(&bytes);
  return status;
}

static kiln_status pull(char **words, unsigned key_count, kiln_error *err) {
  const char *file = words[2], *address = words[3];
  const kiln_oci_access access = access_of(words[0]);
  uint8_t keys[MOST_KEYS][KILN_OCI_PUBLIC];
  kiln_oci_place place;
  kiln_buffer bytes = {0};
  char digest[KILN_OCI_DIGEST + 1];
  uint32_t key = 0;
  kiln_status status = kiln_oci_parse(address, &place, err);
  if (!status && key_count > MOST_KEYS)
    status = kiln_fail(err, KILN_STATUS_LIMIT, "--trust: expected at most %d keys, found %u", MOST_KEYS,
                       key_count);
  for (unsigned i = 0; !status && i < key_count; i++) status = key_file_public(words[4 + i], keys[i], err);
  if (!status && kiln_output_is_stdout(file)) kiln_program_give_output();
  if (!status) status = kiln_output_try(file, err);
  if (!status)
    status = kiln_oci_pull(&place, &access, (const uint8_t(*)[KILN_OCI_PUBLIC])keys, key_count, &bytes,
                           digest, &key, err);
  if (!status) status = cli_write_file(file, bytes.bytes, bytes.size, err);
  if (!status)
    print_done(!strcmp(words[1], "json"), false, file, address, digest, bytes.size,
               key_count ? words[4 + key] : NULL);
  kiln_buffer_deinit(&bytes);
  return status;
}

int remote_bundle(int argc, char **argv) {
  kiln_error err = {0};
  bool is_push = !strcmp(argv[1], "push-bundle");
  if (is_push ? argc != PULL_WORDS + 1 : argc < PULL_WORDS) return CLI_USAGE;
  cli_json_on_failure(!strcmp(argv[3], "json"));
  kiln_status status = is_push ? push(argv + 2, &err) : pull(argv + 2, (unsigned)(argc - PULL_WORDS), &err);
  return status ? cli_report(status, &err) : CLI_OK;
}
