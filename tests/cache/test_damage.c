// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests damaged entries: every flipped byte, every truncation, trailing bytes, decompression bombs, other
// versions. They are never served, always counted, and replaced. (fault test 11, behaviour 23)
#include "tests/cache/common.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "cache/entry.h"

struct scene {
  kiln_cache *cache;
  kiln_key key;
  char path[256];
  uint8_t *bytes;
  size_t size, payload;
  uint64_t misses;
};

static void begin(struct scene *s, size_t payload) {
  const char *folder = kiln_test_folder();
  s->cache = open_in(folder);
  s->key = key_number((unsigned)payload);
  s->payload = payload;
  s->misses = 0;
  CHECK_INT(put_size(s->cache, &s->key, payload), KILN_OK);
  entry_path(folder, &s->key, s->path, sizeof s->path);
  s->bytes = (uint8_t *)kiln_test_read(s->path, &s->size);
  CHECK(s->bytes && s->size > KILN_ENTRY_HEADER);
}

static void end(struct scene *s) {
  printf("%u damaged files were misses\n", (unsigned)s->misses);
  unlink(s->path);
  kiln_test_write(s->path, s->bytes, s->size);
  CHECK_INT(get_size(s->cache, &s->key, s->payload), 1); // the undamaged bytes still are an entry
  uint64_t hits = kiln_cache_counted(s->cache, KILN_OUTCOME_HIT_LOCAL);
  CHECK(kiln_cache_holds(s->cache, &s->key.digest));
  CHECK_INT(kiln_cache_counted(s->cache, KILN_OUTCOME_HIT_LOCAL), hits + 1);
  kiln_cache_close(s->cache);
  kiln_key_deinit(&s->key);
  free(s->bytes);
}

/// The file gets these bytes; a get must miss with that outcome. For a damaged one, a put heals.
static void expect(struct scene *s, const uint8_t *bytes, size_t size, kiln_outcome outcome, const char *what,
                   size_t where) {
  kiln_cache_entry entry;
  unlink(s->path);
  kiln_test_write(s->path, bytes, size);
  if (kiln_cache_holds(s->cache, &s->key.digest)) FAIL("%s %zu is taken for an entry", what, where);
  if (kiln_cache_get(s->cache, &s->key, &entry)) FAIL("%s %zu was served", what, where);
  if (entry.outcome != outcome)
    FAIL("%s %zu: %s, expected %s", what, where, kiln_outcome_name(entry.outcome),
         kiln_outcome_name(outcome));
  if (outcome != KILN_OUTCOME_MISS_CORRUPT) return;
  CHECK_INT(kiln_cache_counted(s->cache, outcome), ++s->misses);
  CHECK_INT(kiln_cache_counted(s->cache, KILN_OUTCOME_QUARANTINED), s->misses);
  if (where % 97 == 0) {
    CHECK_INT(put_size(s->cache, &s->key, s->payload), KILN_OK);
    CHECK_INT(get_size(s->cache, &s->key, s->payload), 1);
  }
}

static void flip(struct scene *s, size_t from, size_t to, size_t step) {
  uint8_t *copy = malloc(s->size);
  for (size_t i = from; i < to; i += step)
    for (unsigned k = 0; k < 2; k++) {
      memcpy(copy, s->bytes, s->size);
      copy[i] ^= (uint8_t)(k ? 0xff : 1 << i % 8);
      expect(s, copy, s->size, KILN_OUTCOME_MISS_CORRUPT, "flip at", i);
    }
  free(copy);
}

TEST(damage, every_flip_of_a_small_entry) {
  struct scene s;
  begin(&s, 60);
  flip(&s, 0, s.size, 1);
  end(&s);
}

TEST(damage, every_header_flip_of_a_packed_entry) {
  struct scene s;
  begin(&s, 200000);
  CHECK(s.size < 200000);
  flip(&s, 0, KILN_ENTRY_HEADER + 64, 1);
  flip(&s, KILN_ENTRY_HEADER + 64, s.size, 211);
  end(&s);
}

TEST(damage, every_truncation) {
  struct scene s;
  begin(&s, 60);
  for (size_t size = 0; size < s.size; size++)
    expect(&s, s.bytes, size, KILN_OUTCOME_MISS_CORRUPT, "truncation to", size);
  end(&s);
}

TEST(damage, trailing_bytes_and_zeros) {
  struct scene s;
  begin(&s, 60);
  uint8_t *copy = calloc(1, s.size + 100);
  memcpy(copy, s.bytes, s.size);
  for (size_t more = 1; more <= 100; more++)
    expect(&s, copy, s.size + more, KILN_OUTCOME_MISS_CORRUPT, "trailing", more);
  // What a file system leaves after losing power: zeros from some point on.
  for (size_t keep = 0; keep < s.size; keep += 7) {
    memset(copy, 0, s.size);
    memcpy(copy, s.bytes, keep);
    expect(&s, copy, s.size, KILN_OUTCOME_MISS_CORRUPT, "zeros from", keep);
  }
  free(copy);
  end(&s);
}

static void put_u64(uint8_t *at, uint64_t v) {
  for (unsigned i = 0; i < 8; i++) at[i] = (uint8_t)(v >> 8 * i);
}

/// Sizes that lie, under checks that fit: the work of a hostile writer rather than of a bad disk.
TEST(damage, sealed_lies) {
  static const uint64_t lies[] = {
      0, 1, 59, 61, 4096, 1 << 20, (uint64_t)1 << 40, UINT64_MAX, UINT64_MAX - 63};
  for (unsigned big = 0; big < 2; big++) {
    struct scene s;
    begin(&s, big ? 200000 : 60);
    uint8_t *copy = malloc(s.size);
    for (unsigned field = 80; field <= 112; field += 8)
      for (unsigned i = 0; i < sizeof lies / sizeof *lies; i++) {
        memcpy(copy, s.bytes, s.size);
        put_u64(copy + field, lies[i]);
        if (!memcmp(copy, s.bytes, s.size)) continue;
        kiln_entry_seal(copy, s.size);
        bool bomb = field < 112 && lies[i] > ((uint64_t)256 << 20);
        expect(&s, copy, s.size, bomb ? KILN_OUTCOME_MISS_UNREADABLE : KILN_OUTCOME_MISS_CORRUPT, "size lie",
               field * 100 + i + 1);
        if (bomb) s.misses = kiln_cache_counted(s.cache, KILN_OUTCOME_MISS_CORRUPT);
      }
    for (unsigned at = 12; at < 16; at++) { // codec and zeros
      memcpy(copy, s.bytes, s.size);
      copy[at] ^= at == 12 ? 2 : 1;
      kiln_entry_seal(copy, s.size);
      expect(&s, copy, s.size, KILN_OUTCOME_MISS_CORRUPT, "sealed byte", at * 100);
    }
    free(copy);
    end(&s);
  }
}

TEST(damage, other_versions_are_left_alone) {
  struct scene s;
  begin(&s, 60);
  uint8_t *copy = malloc(s.size);
  for (unsigned at = 8; at < 12; at += 2) { // format version, key schema
    memcpy(copy, s.bytes, s.size);
    copy[at]++;
    kiln_entry_seal(copy, s.size);
    expect(&s, copy, s.size, KILN_OUTCOME_MISS_VERSION, "version", at);
    CHECK_INT(access(s.path, F_OK), 0);
  }
  free(copy);
  end(&s);
}

/// A reader of rubbish: random bytes, random mutations under fitting checks. Nothing may crash; run under the
/// sanitizers too.
TEST(damage, random_bytes) {
  uint64_t seed = 20;
  kiln_buffer good = {0};
  kiln_key key = key_of("a");
  kiln_cache_content content = {{(const uint8_t *)"m", 1}, {NULL, 0}, {(const uint8_t *)"payload", 7}, 5, 0};
  CHECK_INT(kiln_entry_encode(&key, &content, "main", 1, NULL, &good, NULL), KILN_OK);
  uint8_t *copy = malloc(good.size), raw[4096];
  for (unsigned n = 0; n < (kiln_test_full() ? 2000000u : 50000u); n++) {
    kiln_entry_view view;
    memcpy(copy, good.bytes, good.size);
    for (unsigned k = 0; k < 1 + n % 4; k++)
      copy[kiln_test_random(&seed) % good.size] = (uint8_t)kiln_test_random(&seed);
    size_t size = n % 3 ? good.size : kiln_test_random(&seed) % good.size;
    if (size >= KILN_ENTRY_HEADER) kiln_entry_seal(copy, size);
    if (kiln_entry_parse(copy, size, sizeof raw, &view, NULL) || kiln_entry_unpack(&view, raw, NULL))
      continue;
    kiln_cache_entry entry = {.held = NULL};
    kiln_entry_point(&view, raw, &entry);
    kiln_key_compare(entry.fields.bytes, entry.fields.size, key.fields, key.fields_size, NULL, NULL);
    bool same = view.raw_size == key.fields_size + 8 && !memcmp(raw, key.fields, key.fields_size) &&
                view.flags == 0 && !memcmp(raw + key.fields_size, "mpayload", 8) &&
                view.sizes[0] == key.fields_size && view.sizes[1] == 1;
    // The digests catch what the checks, which the liar could compute, do not.
    bool digests = !memcmp(view.content_digest.bytes, good.bytes + 48, 32) &&
                   !memcmp(view.key.bytes, good.bytes + 16, 32);
    if (kiln_entry_verify(&view, raw, NULL) == KILN_OK) CHECK(same && digests);
  }
  free(copy);
  kiln_buffer_deinit(&good);
  kiln_key_deinit(&key);
}

/// Another machine replaces the entry between the look that finds damage and the next one: `context` is its file, and the
/// name that it gets.
static int replace_it(void *context, kiln_fs_call call, const char *path, size_t *size) {
  char(*names)[300] = context;
  (void)path, (void)size;
  if (call == KILN_FS_TIMES && !access(names[0], F_OK)) CHECK(!rename(names[0], names[1]));
  return 0;
}

/// On NFS a client may see the file that had the name before. What has it now is not put aside.
TEST(damage, only_what_has_the_name_now_is_put_aside) {
  char names[2][300], aside[300];
  const char *folder = kiln_test_folder();
  kiln_key key = key_of("a");
  kiln_cache *cache = open_in(folder);
  CHECK_INT(put_size(cache, &key, 5000), KILN_OK);
  kiln_cache_close(cache);
  entry_path(folder, &key, names[1], sizeof names[1]);
  snprintf(names[0], sizeof names[0], "%s/new", folder);
  CHECK(!kiln_test_run(NULL, "cp %s %s && chmod u+w %s && truncate -s 300 %s", names[1], names[0], names[1],
                       names[1]));
  cache = open_in(folder);
  kiln_fs_install(replace_it, names);
  CHECK_INT(get_size(cache, &key, 5000), 1);
  kiln_fs_install(NULL, NULL);
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_QUARANTINED), 0);
  kiln_cache_close(cache);
  snprintf(aside, sizeof aside, "%s/v1/main.default/quarantine", folder);
  CHECK(!kiln_test_run(NULL, "test -z \"$(ls %s)\"", aside));
  kiln_key_deinit(&key);
}
