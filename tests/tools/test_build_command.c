// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that `kiln build --verify-cache` finds an entry whose key is wrong. It is written with the library of
// the cache, so that nothing else about it is wrong; what else `kiln build` does is in
// tests/text/commands/build_*.test.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cache/entry.h"
#include "tests/harness.h"

static const char source[] =
    "kiln 1\nkernel twice(x: inout *f32, n: i32) @grid(cdiv(n, 64)) @config(warps = 1) {\n"
    "  let i = pid(0) * 64 + iota(64)\n  store(x + i, load(x + i, i < n) * 2.0, i < n)\n}\n";

/// Runs `kiln build WORDS` over the source in the test's folder with its own cache.
static void expect(int want, const char *words, const char *text) {
  const char *folder = kiln_test_folder();
  char path[512];
  snprintf(path, sizeof path, "%s/twice.kiln", folder);
  kiln_test_write(path, source, sizeof source - 1);
  char *out = kiln_test_run_to(want, "cd %s && KILN_CACHE_DIR=cache %s/bin/kiln build twice.kiln -o k.kb %s",
                               folder, kiln_test_build_path(), words);
  CHECK_PART(out, text);
  free(out);
}

/// Writes the entry of the one object in the test's cache (there is its bundle's as well) anew with its
/// payload changed, under its key and with fitting checks: what a wrong key would have served.
static void change_entry(void) {
  char path[600];
  size_t size;
  kiln_entry_view view;
  kiln_cache_entry entry;
  kiln_buffer again = {0};
  kiln_error err = {0};
  char *list = kiln_test_run_to(0, "grep -rL kbundle %s/cache/v1/main.default/entries", kiln_test_folder());
  snprintf(path, sizeof path, "%.*s", (int)strcspn(list, "\n"), list);
  CHECK(strlen(list) == strlen(path) + 1);
  uint8_t *bytes = (uint8_t *)kiln_test_read(path, &size);
  CHECK_OK(kiln_entry_parse(bytes, size, 1 << 24, &view, &err), err);
  uint8_t *raw = malloc((size_t)view.raw_size);
  CHECK_OK(kiln_entry_unpack(&view, raw, &err), err);
  kiln_entry_point(&view, raw, &entry);
  ((uint8_t *)(uintptr_t)entry.content.payload.bytes)[entry.content.payload.size - 1] ^= 1;
  kiln_key key = {.digest = view.key,
                  .fields = (uint8_t *)(uintptr_t)entry.fields.bytes,
                  .fields_size = entry.fields.size};
  CHECK_OK(kiln_entry_encode(&key, &entry.content, "main", 1, NULL, &again, &err), err);
  chmod(path, 0600);
  kiln_test_write(path, again.bytes, again.size);
  kiln_buffer_deinit(&again);
  free(raw), free(bytes), free(list);
}

TEST(build_command, an_entry_of_a_wrong_key_is_caught) {
  expect(0, "-t host", "1 compiled");
  expect(0, "-t host --verify-cache=100", "1 from the cache");
  change_entry();
  expect(0, "-t host", "1 from the cache"); // nothing about the entry itself is wrong
  expect(1, "-t host --verify-cache=100", "differs from a new compile");
}
