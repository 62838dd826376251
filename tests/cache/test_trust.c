// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests signatures and trust domains: whose entries are believed by whom. (fault test 23)
#include "tests/cache/common.h"

#include <fcntl.h>
#include <sodium/crypto_sign_ed25519.h>
#include <unistd.h>

#include "cache/admin.h"

enum { SIZE = 700 };

struct person {
  uint8_t secret[64];
  kiln_trust_key key;
};

static struct person person(unsigned char seed, const char *name, const char *domains) {
  struct person p = {.key = {.revoked = false}};
  unsigned char seeds[32] = {seed};
  crypto_sign_ed25519_seed_keypair(p.key.public_key, p.secret, seeds);
  snprintf(p.key.name, sizeof p.key.name, "%s", name);
  snprintf(p.key.domains, sizeof p.key.domains, "%s", domains);
  return p;
}

/// Stores the entry as `signer` (NULL: nobody) and reads it under a policy with the keys of `trusted`.
static kiln_outcome read_under(const char *name, const struct person *signer, kiln_trust_policy policy,
                               const kiln_trust_key *trusted, unsigned count, uint64_t *warnings) {
  char root[300];
  kiln_key key = key_of(name);
  snprintf(root, sizeof root, "%s/%s", kiln_test_folder(), name);
  kiln_cache_config config = config_in(root);
  config.sign_key = signer ? signer->secret : NULL;
  kiln_cache *cache = open_with(&config);
  if (!kiln_cache_contains(cache, &key.digest)) put_size(cache, &key, SIZE);
  kiln_cache_close(cache);
  config.sign_key = NULL;
  config.policy = policy;
  config.trusted = trusted;
  config.trusted_count = count;
  cache = open_with(&config);
  kiln_cache_entry entry;
  CHECK_INT(kiln_cache_holds(cache, &key.digest),
            policy == KILN_TRUST_OFF); // who vouches is about the content
  bool hit = kiln_cache_get(cache, &key, &entry);
  kiln_outcome outcome = entry.outcome;
  if (hit) CHECK(right_bytes(&key, &entry, SIZE));
  if (hit) kiln_cache_entry_deinit(&entry);
  *warnings = kiln_cache_counted(cache, KILN_OUTCOME_UNSIGNED_WARNING);
  kiln_cache_close(cache);
  kiln_key_deinit(&key);
  return outcome;
}

TEST(trust, policies) {
  struct person ci = person(1, "ci", "main,release"), other = person(2, "other", "*"),
                branch = person(3, "branch", "pr-1"), gone = person(4, "gone", "*");
  gone.key.revoked = true;
  kiln_trust_key trusted[] = {ci.key, branch.key, gone.key};
  const struct {
    const char *name;
    const struct person *signer;
    bool good;
  } rows[] = {{"signed", &ci, true},
              {"unsigned", NULL, false},
              {"stranger", &other, false},
              {"wrong-domain", &branch, false},
              {"revoked", &gone, false}};
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
    uint64_t warnings;
    CHECK_INT(read_under(rows[i].name, rows[i].signer, KILN_TRUST_OFF, trusted, 3, &warnings),
              KILN_OUTCOME_HIT_LOCAL);
    CHECK_INT(warnings, 0);
    CHECK_INT(read_under(rows[i].name, rows[i].signer, KILN_TRUST_WARN, trusted, 3, &warnings),
              KILN_OUTCOME_HIT_LOCAL);
    CHECK_INT(warnings, !rows[i].good);
    CHECK_INT(read_under(rows[i].name, rows[i].signer, KILN_TRUST_REQUIRE, trusted, 3, &warnings),
              rows[i].good ? KILN_OUTCOME_HIT_LOCAL : KILN_OUTCOME_MISS_UNTRUSTED);
  }
}

/// Whatever is changed of a signed entry, under checks that fit: it is not believed.
TEST(trust, no_signed_byte_can_change) {
  struct person ci = person(1, "ci", "*");
  kiln_key key = key_of("a");
  kiln_buffer entry = {0};
  kiln_cache_content content = {
      {(const uint8_t *)"m", 1}, {(const uint8_t *)"d", 1}, {(const uint8_t *)"payload", 7}, 5, 0};
  CHECK_INT(kiln_entry_encode(&key, &content, "main", 1, ci.secret, &entry, NULL), KILN_OK);
  CHECK_INT(kiln_entry_sign(&entry, ci.secret, NULL), KILN_OK); // twice by one key is once
  kiln_entry_view view;
  uint8_t *copy = malloc(entry.size), raw[4096];
  unsigned believed = 0;
  for (size_t i = 0; i < entry.size; i++) {
    memcpy(copy, entry.bytes, entry.size);
    copy[i] ^= 1;
    kiln_entry_seal(copy, entry.size);
    if (kiln_entry_parse(copy, entry.size, sizeof raw, &view, NULL) || kiln_entry_unpack(&view, raw, NULL))
      continue;
    if (kiln_entry_verify(&view, raw, NULL) || kiln_entry_trusted(&view, "main", &ci.key, 1, NULL)) continue;
    // The cost, the checks (which are written anew) and the labels for people may differ: nobody relies on
    // them.
    bool harmless = (i >= 128 && i < 136) || (i >= 144 && i < KILN_ENTRY_HEADER);
    size_t labels = entry.size - KILN_ENTRY_SIGNATURE - view.stored.size;
    harmless |= i >= KILN_ENTRY_HEADER && i < labels;
    if (!harmless) FAIL("byte %zu of a signed entry changed and it was believed", i);
    believed++;
  }
  CHECK(believed > 0 && believed < entry.size / 2);
  // The domain and the producer are labels that are signed.
  CHECK_INT(kiln_entry_parse(entry.bytes, entry.size, sizeof raw, &view, NULL), KILN_OK);
  for (unsigned label = KILN_LABEL_DOMAIN; label <= KILN_LABEL_PRODUCER; label++) {
    memcpy(copy, entry.bytes, entry.size);
    copy[view.labels[label].bytes - entry.bytes] ^= 1;
    kiln_entry_seal(copy, entry.size);
    kiln_entry_view changed;
    CHECK_INT(kiln_entry_parse(copy, entry.size, sizeof raw, &changed, NULL), KILN_OK);
    CHECK_INT(kiln_entry_trusted(&changed, "main", &ci.key, 1, NULL), KILN_STATUS_UNTRUSTED);
  }
  free(copy);
  kiln_buffer_deinit(&entry);
  kiln_key_deinit(&key);
}

TEST(trust, several_signatures_and_signing_later) {
  const char *folder = kiln_test_folder();
  struct person people[KILN_ENTRY_SIGNATURES + 1];
  kiln_cache *cache = open_in(folder);
  kiln_key key = key_of("a");
  put_size(cache, &key, SIZE);
  for (unsigned i = 0; i <= KILN_ENTRY_SIGNATURES; i++) {
    uint64_t done, failed;
    people[i] = person((unsigned char)(10 + i), "p", "*");
    failed = kiln_sign_all(kiln_cache_store(cache), NULL, people[i].secret, &done);
    CHECK_INT(done, i < KILN_ENTRY_SIGNATURES);
    CHECK_INT(failed, i == KILN_ENTRY_SIGNATURES);
  }
  kiln_cache_close(cache);
  for (unsigned i = 0; i < KILN_ENTRY_SIGNATURES; i += 5) {
    kiln_cache_config config = config_in(folder);
    config.policy = KILN_TRUST_REQUIRE;
    config.trusted = &people[i].key;
    config.trusted_count = 1;
    cache = open_with(&config);
    CHECK_INT(get_size(cache, &key, SIZE), 1);
    kiln_cache_close(cache);
  }
  kiln_key_deinit(&key);
}

/// The lower domain has write access to the folder and makes a whole entry that says it is of the higher one;
/// without that domain's key it is nothing.
TEST(trust, a_forged_entry_of_a_higher_domain) {
  const char *folder = kiln_test_folder();
  char path[300];
  struct person ci = person(1, "ci", "main"), branch = person(3, "branch", "pr-1");
  kiln_trust_key trusted[] = {ci.key, branch.key};
  kiln_key key = key_of("a"), warm = key_of("warm");
  kiln_cache_config config = config_in(folder);
  config.policy = KILN_TRUST_REQUIRE;
  config.trusted = trusted;
  config.trusted_count = 2;
  config.sign_key = ci.secret;
  kiln_cache *cache = open_with(&config);
  put_size(cache, &warm, SIZE);
  CHECK_INT(get_size(cache, &warm, SIZE), 1);
  kiln_buffer forged = {0};
  kiln_cache_content content = {{NULL, 0}, {NULL, 0}, {(const uint8_t *)"evil", 4}, 5, 0};
  CHECK_INT(kiln_entry_encode(&key, &content, "main", 1, branch.secret, &forged, NULL), KILN_OK);
  entry_path(folder, &key, path, sizeof path);
  *strrchr(path, '/') = 0;
  kiln_test_run(NULL, "mkdir -p %s", path);
  entry_path(folder, &key, path, sizeof path);
  kiln_test_write(path, forged.bytes, forged.size);
  CHECK_INT(get_size(cache, &key, SIZE), 0);
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_MISS_UNTRUSTED), 1);
  CHECK_INT(put_size(cache, &key, SIZE), KILN_OK); // an honest writer replaces it
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_HEALED), 1);
  CHECK_INT(get_size(cache, &key, SIZE), 1);
  kiln_cache_close(cache);
  kiln_buffer_deinit(&forged);
  kiln_key_deinit(&key);
  kiln_key_deinit(&warm);
}

TEST(trust, moving_entries_verifies_them) {
  const char *folder = kiln_test_folder();
  char from[300], to[300], archive[300], path[300];
  snprintf(from, sizeof from, "%s/from", folder);
  snprintf(to, sizeof to, "%s/to", folder);
  snprintf(archive, sizeof archive, "%s/archive", folder);
  kiln_cache *source = open_in(from), *target = open_in(to);
  kiln_key keys[5];
  for (unsigned i = 0; i < 5; i++) {
    keys[i] = key_number(i);
    put_size(source, &keys[i], SIZE);
  }
  entry_path(from, &keys[2], path, sizeof path);
  unlink(path);
  kiln_test_write(path, "damaged", 7);
  kiln_move_report report;
  kiln_merge(kiln_cache_store(target), kiln_cache_store(source), &report);
  CHECK_INT(report.moved, 4);
  CHECK_INT(report.refused, 1);
  for (unsigned i = 0; i < 5; i++) CHECK_INT(get_size(target, &keys[i], SIZE), i != 2);
  kiln_merge(kiln_cache_store(target), kiln_cache_store(source), &report);
  CHECK_INT(report.already, 4);

  // The same through an archive; a byte of it changes; it ends early.
  char third[300];
  kiln_error err;
  snprintf(third, sizeof third, "%s/third", folder);
  int fd = open(archive, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  CHECK_OK(kiln_export(kiln_cache_store(target), fd, &report, &err), err);
  CHECK_INT(report.moved, 4);
  close(fd);
  size_t size;
  uint8_t *bytes = (uint8_t *)kiln_test_read(archive, &size);
  bytes[300] ^= 1; // inside the first entry
  kiln_test_write(archive, bytes, size - 10);
  free(bytes);
  kiln_cache *last = open_in(third);
  fd = open(archive, O_RDONLY | O_CLOEXEC);
  CHECK_INT(kiln_import(kiln_cache_store(last), fd, &report, &err), KILN_STATUS_CORRUPT);
  CHECK_INT(report.refused, 1);
  CHECK_INT(report.moved, 2);
  unsigned there = 0;
  for (unsigned i = 0; i < 5; i++) there += (unsigned)get_size(last, &keys[i], SIZE);
  CHECK_INT(there, 2);
  close(fd);
  kiln_cache_close(last);
  kiln_cache_close(source);
  kiln_cache_close(target);
  for (unsigned i = 0; i < 5; i++) kiln_key_deinit(&keys[i]);
}
