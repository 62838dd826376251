// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the cache's tests share: making keys, contents and caches.
#ifndef KILN_TESTS_CACHE_COMMON_H
#define KILN_TESTS_CACHE_COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/cache.h"
#include "tests/harness.h"

/// A complete compile key whose program is `ir`.
__attribute__((unused)) static void fill_key(kiln_key_builder *b, const char *ir) {
  static const uint8_t compiler[KILN_DIGEST_SIZE] = {1, 2, 3};
  kiln_key_begin(b, KILN_KEY_COMPILE);
  kiln_key_add(b, KILN_FIELD_IR, NULL, ir, strlen(ir));
  kiln_key_text(b, KILN_FIELD_SYMBOL, "kiln_add_f32");
  kiln_key_add(b, KILN_FIELD_PARAMETERS, NULL, "ptr,ptr,ptr,i32", 15);
  kiln_key_text(b, KILN_FIELD_TRIPLE, "nvptx64-nvidia-cuda");
  kiln_key_text(b, KILN_FIELD_PROCESSOR, "sm_90");
  kiln_key_text(b, KILN_FIELD_FORMAT, "ptx");
  kiln_key_add(b, KILN_FIELD_COMPILER, NULL, compiler, sizeof compiler);
  kiln_key_named_text(b, KILN_FIELD_OPTION, "opt-level", "3");
}

__attribute__((unused)) static kiln_key key_of(const char *ir) {
  kiln_key_builder b;
  kiln_key key;
  kiln_error err;
  fill_key(&b, ir);
  if (kiln_key_finish(&b, &key, &err)) FAIL("key: %s", err.text);
  return key;
}

__attribute__((unused)) static kiln_key key_number(unsigned n) {
  char ir[32];
  snprintf(ir, sizeof ir, "program %u", n);
  return key_of(ir);
}

/// Bytes that depend on the key alone, so that every reader can tell right from wrong. `out` has room for
/// `size`.
__attribute__((unused)) static void payload_of(const kiln_digest *key, uint8_t *out, size_t size) {
  uint64_t state;
  memcpy(&state, key->bytes, sizeof state);
  for (size_t i = 0; i < size; i++) out[i] = i % 4 ? 'x' : (uint8_t)kiln_test_random(&state);
}

/// Puts the payload of the key; the status of kiln_cache_put.
__attribute__((unused)) static kiln_status put_saying(kiln_cache *cache, const kiln_key *key, size_t size,
                                                      kiln_error *err) {
  uint8_t *payload = malloc(size + 1);
  payload_of(&key->digest, payload, size);
  kiln_cache_content content = {
      {(const uint8_t *)"meta", 4}, {(const uint8_t *)"note", 4}, {payload, size}, 1000, 0};
  kiln_status status = kiln_cache_put(cache, key, &content, err);
  free(payload);
  return status;
}

__attribute__((unused)) static kiln_status put_size(kiln_cache *cache, const kiln_key *key, size_t size) {
  return put_saying(cache, key, size, NULL);
}

/// The same; why it could not be stored is printed.
__attribute__((unused)) static bool stored(kiln_cache *cache, const kiln_key *key, size_t size) {
  kiln_error err;
  kiln_status status = put_saying(cache, key, size, &err);
  if (status) fprintf(stderr, "%s\n", err.text);
  return !status;
}

/// True when the entry holds exactly what put_size put.
__attribute__((unused)) static bool right_bytes(const kiln_key *key, const kiln_cache_entry *entry,
                                                size_t size) {
  if (entry->content.payload.size != size || entry->content.metadata.size != 4 ||
      memcmp(entry->content.metadata.bytes, "meta", 4))
    return false;
  uint8_t *want = malloc(size + 1);
  payload_of(&key->digest, want, size);
  bool same = !memcmp(want, entry->content.payload.bytes, size);
  free(want);
  return same;
}

/// 1: hit with the right bytes; 0: miss. Wrong bytes fail the test.
__attribute__((unused)) static int get_size(kiln_cache *cache, const kiln_key *key, size_t size) {
  kiln_cache_entry entry;
  if (!kiln_cache_get(cache, key, &entry)) return 0;
  if (!right_bytes(key, &entry, size)) FAIL("wrong bytes were served");
  kiln_cache_entry_deinit(&entry);
  return 1;
}

__attribute__((unused)) static kiln_cache_config config_in(const char *folder) {
  kiln_cache_config config;
  kiln_cache_config_init(&config);
  config.folder = folder;
  config.min_free_bytes = 0;
  config.min_free_files = 0;
  config.wait_ms = 20000;
  return config;
}

__attribute__((unused)) static kiln_cache *open_with(const kiln_cache_config *config) {
  kiln_cache *cache;
  kiln_error err;
  if (kiln_cache_open(config, &cache, &err)) FAIL("open: %s", err.text);
  return cache;
}

__attribute__((unused)) static kiln_cache *open_in(const char *folder) {
  kiln_cache_config config = config_in(folder);
  return open_with(&config);
}

/// The file of an entry in the default store of `folder`.
__attribute__((unused)) static void entry_path(const char *folder, const kiln_key *key, char *out,
                                               size_t capacity) {
  char hex[KILN_DIGEST_HEX + 1];
  kiln_digest_hex(&key->digest, hex);
  if (snprintf(out, capacity, "%s/v1/main.default/entries/%.2s/%s", folder, hex, hex + 2) >= (int)capacity)
    FAIL("path too long");
}

/// A new folder in `out` on the mount that the variable names, or the test is skipped.
__attribute__((unused)) static void folder_on_nfs(const char *variable, char *out, size_t size) {
  char *type;
  const char *mounted = getenv(variable);
  if (!mounted) SKIP("%s names no folder on NFS", variable);
  kiln_test_run(&type, "stat -f -c %%T %s", mounted);
  if (strncmp(type, "nfs", 3)) FAIL("%s: expected a folder on NFS, found %s", variable, type);
  free(type);
  snprintf(out, size, "%s/kiln-%ld", mounted, (long)getpid());
}

#endif
