// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests `kiln cache` on stores that no command makes quickly: records by the hundred thousand, and sums of
// 200,000 entries. These are written with the library of the cache; the other tests of its commands are
// tests/text/commands/cache_*.test.
#include "tests/cache/common.h"

#include "cache/admin.h"
#include "cache/usage.h"

enum { SIZE = 5000, COUNT = 6 };

static char root[300];

/// Runs `kiln ARGUMENTS` with the cache of this test and nothing else in the environment; its output,
/// malloc'ed.
static char *kiln(const char *arguments) {
  return kiln_test_run_to(0, "env -i PATH=/usr/bin:/bin KILN_CACHE_DIR=%s %s/bin/kiln %s", root,
                          kiln_test_build(), arguments);
}

static void expect(const char *arguments, const char *part) {
  char *out = kiln(arguments);
  CHECK_PART(out, part);
  free(out);
}

/// A cache with COUNT entries in a folder of its own.
static void fill(void) {
  snprintf(root, sizeof root, "%s/cache", kiln_test_folder());
  kiln_cache *cache = open_in(root);
  for (unsigned i = 0; i < COUNT; i++) {
    kiln_key key = key_number(i);
    get_size(cache, &key, SIZE);
    put_size(cache, &key, SIZE);
    kiln_key_deinit(&key);
  }
  kiln_cache_close(cache);
}

/// The date of the first record outlives the folding of records into sums.
TEST(cache_tool, stats_go_back_to_the_first_record) {
  fill();
  char *out = kiln("cache stats --json");
  const char *since = strstr(out, "\"since\": ");
  CHECK(since && atoll(since + 9) > 1700000000);
  char want[40];
  snprintf(want, sizeof want, "%.19s", since);
  free(out);
  kiln_test_run(NULL, "sleep 1.1");
  kiln_cache *cache = open_in(root);
  for (unsigned i = 0; i < 2; i++) {
    for (unsigned k = 0; k < 5 << 20 >> 6; k++) kiln_cache_count(cache, KILN_OUTCOME_WAITED, NULL, 0, 0);
    kiln_cache_step(cache);
  }
  kiln_cache_close(cache);
  expect("cache stats --json", want);
  out = kiln_test_run_to(0, "ls %s/v1/main.default", root);
  CHECK_PART(out, "stats.sum");
  free(out);
}

/// Writes sums of a large store: what goes by them tells.
static void claim_many(void) {
  kiln_usage usage;
  kiln_cache *cache = open_in(root);
  int fd = kiln_usage_lock(kiln_cache_store(cache), &usage);
  CHECK(fd >= 0);
  usage = (kiln_usage){.counted = true, .files = 200000, .bytes = (uint64_t)1 << 30};
  CHECK_INT(kiln_usage_save(fd, &usage), 0);
  kiln_usage_unlock(fd);
  kiln_cache_close(cache);
}

/// A store of many entries is not walked for its sums.
TEST(cache_tool, stats_of_many_entries_come_from_the_sums) {
  fill();
  claim_many();
  expect("cache stats", "200000 entries, 1024.0 MiB of 10240.0 MiB (10.0 %)");
  expect("cache gc --count", "of 6 entries"); // counts anew
  expect("cache stats", "6 entries");
}

/// gc walks such a store where a limit is passed, or something else is to go; the doctor reads a part of it.
TEST(cache_tool, many_entries_are_walked_where_that_is_needed) {
  fill();
  claim_many();
  expect("cache gc",
         "removed 0 of 200000 entries (0 of 1073741824 bytes), 0 leftovers, 0 failures; by the sums");
  expect("cache gc --json", "\"seen\": 200000, ");
  expect("cache gc --json", "\"counted\": false");
  expect("cache doctor", " of 200000 were read: ");
  expect("cache gc --dry-run --older-than=1d", "would remove 0 of 6");
  expect("cache gc --dry-run --max-files=5", "would remove 1 of 6");
  expect("cache gc --json --count", "\"counted\": true");
  expect("cache doctor", "6 good, 0 damaged");
}
