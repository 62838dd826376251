// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests `kiln cache ...`, `kiln why` and `kiln env` as a user types them. (fault tests 13, 21; behaviours
// 11, 36)
#include "tests/cache/common.h"

#include <unistd.h>

#include "base/arena.h"
#include "base/json.h"
#include "cache/admin.h"
#include "cache/usage.h"

enum { SIZE = 5000, COUNT = 6 };

static char root[300];
static kiln_key keys[COUNT];

/// Runs `kiln ARGUMENTS` with the cache of this test and nothing else in the environment; its output in `out`
/// (malloc'ed).
static int kiln(char **out, const char *more_env, const char *arguments) {
  return kiln_test_run(out, "env -i PATH=/usr/bin:/bin KILN_CACHE_DIR=%s %s %s/bin/kiln %s", root, more_env,
                       kiln_test_build(), arguments);
}

/// A cache with COUNT entries in a folder of its own.
static void fill(void) {
  snprintf(root, sizeof root, "%s/cache", kiln_test_folder());
  kiln_cache *cache = open_in(root);
  for (unsigned i = 0; i < COUNT; i++) {
    kiln_key_deinit(&keys[i]);
    keys[i] = key_number(i);
    get_size(cache, &keys[i], SIZE);
    put_size(cache, &keys[i], SIZE);
  }
  get_size(cache, &keys[0], SIZE);
  kiln_cache_close(cache);
}

static const char *hex_of(unsigned i) {
  static char hex[2][KILN_DIGEST_HEX + 1];
  kiln_digest_hex(&keys[i].digest, hex[i % 2]);
  return hex[i % 2];
}

/// Expects an exit code and a text in the output.
static void expect(const char *more_env, const char *arguments, int code, const char *text) {
  char *out;
  int got = kiln(&out, more_env, arguments);
  if (got != code || !strstr(out, text))
    FAIL("kiln %s: exit %d (expected %d), without \"%s\":\n%s", arguments, got, code, text, out);
  free(out);
}

static void expectf(int code, const char *text, const char *format, const char *argument) {
  char arguments[600];
  snprintf(arguments, sizeof arguments, format, argument);
  expect("", arguments, code, text);
}

static void damage(unsigned i) {
  char path[400];
  entry_path(root, &keys[i], path, sizeof path);
  unlink(path);
  kiln_test_write(path, "damaged", 7);
}

/// What people look for first: fill and limit, hit rate, since when, the remote part, uploads that wait.
TEST(cache_tool, stats_say_how_well_it_works) {
  fill(); // COUNT misses and one hit
  expect("", "cache stats", 0, " MiB of 10240.0 MiB (0.0 %)");
  expect("KILN_CACHE_FILES=12", "cache stats", 0, ", 50.0 % of 12 entries\n");
  expect("", "cache stats", 0, "UTC: 1 hits of 7 look-ups (14.3 %), 0 of them remote (0.0 %)\n");
  expect("", "cache stats --json", 0, "\"hits\": 1, \"misses\": 6, \"hit_percent\": 14.29");
  expect("", "cache stats --zero", 0, "");
  expect("", "cache stats", 0, "MiB (0.0 %)\n0 hits of 0 look-ups"); // no date
  kiln_test_run(
      NULL, "cd %s/v1/main.default && w=$(($(date +%%s) / 604800)) && mkdir -p spool/$w && touch spool/$w/a",
      root);
  expect("", "cache stats", 0, "1 uploads wait, 0 are done");
}

/// The date of the first record outlives the folding of records into sums.
TEST(cache_tool, stats_go_back_to_the_first_record) {
  char *out;
  fill();
  CHECK_INT(kiln(&out, "", "cache stats --json"), 0);
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
  expect("", "cache stats --json", 0, want);
  kiln_test_run(&out, "ls %s/v1/main.default", root);
  CHECK(strstr(out, "stats.sum"));
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
  expect("", "cache stats", 0, "200000 entries, 1024.0 MiB of 10240.0 MiB (10.0 %)");
  expect("", "cache gc --count", 0, "of 6 entries"); // counts anew
  expect("", "cache stats", 0, "6 entries");
}

/// gc walks such a store where a limit is passed, or something else is to go; the doctor reads a part of it.
TEST(cache_tool, many_entries_are_walked_where_that_is_needed) {
  fill();
  claim_many();
  expect("", "cache gc", 0,
         "removed 0 of 200000 entries (0 of 1073741824 bytes), 0 leftovers, 0 failures; by the sums");
  expect("", "cache gc --json", 0, "\"seen\": 200000, ");
  expect("", "cache gc --json", 0, "\"counted\": false");
  expect("", "cache doctor", 0, " of 200000 were read: ");
  expect("", "cache gc --dry-run --older-than=1d", 0, "would remove 0 of 6");
  expect("", "cache gc --dry-run --max-files=5", 0, "would remove 1 of 6");
  expect("", "cache gc --json --count", 0, "\"counted\": true");
  expect("", "cache doctor", 0, "6 good, 0 damaged");
}

/// What is shown of many is the newest, in order, whatever the folders' order is.
TEST(cache_tool, ls_shows_the_newest) {
  enum { MANY = 1500 };
  fill();
  char command[700], *out, *lines;
  snprintf(command, sizeof command,
           "cd %s/v1/main.default/entries && i=0; for s in 00 01 02 03; do mkdir -p $s; done; while [ $i -lt "
           "%d ]; do "
           "f=$(printf '%%02x/%%062x' $((i %% 4)) $i); : >$f; touch -d @$((1600000000 + i * 7 %% %d)) $f; "
           "i=$((i + 1)); done",
           root, MANY, MANY);
  CHECK_INT(kiln_test_run(NULL, "%s", command), 0);
  for (unsigned limit = 1; limit <= 2 * MANY; limit = limit * 7 + 3) {
    snprintf(command, sizeof command, "cache ls --limit=%u", limit);
    CHECK_INT(kiln(&lines, "", command), 0);
    snprintf(command, sizeof command, "cache ls | head -n %u", limit);
    CHECK_INT(kiln(&out, "", command), 0);
    CHECK_TEXT(lines, out);
    free(lines);
    free(out);
    CHECK_INT(kiln(&out, "", "cache ls"), 0);
    char last[32] = "9";
    for (const char *at = out; *at; at = strchr(at, '\n') + 1) { // no line is newer than the one before it
      char when[32];
      snprintf(when, sizeof when, "%.19s", at + 29);
      CHECK(strcmp(when, last) <= 0);
      strcpy(last, when);
    }
    free(out);
  }
}

TEST(cache_tool, stats_agree_with_what_was_done) {
  char *out;
  fill();
  CHECK_INT(kiln(&out, "", "cache stats --json"), 0);
  kiln_arena *arena = kiln_arena_create();
  const kiln_json *json, *counts;
  kiln_error err;
  int64_t n;
  CHECK_OK(kiln_json_parse(arena, out, strlen(out), &json, &err), err);
  counts = kiln_json_find(json, "counts");
  CHECK(kiln_json_integer(kiln_json_find(json, "entries"), &n) && n == COUNT);
  CHECK(kiln_json_integer(kiln_json_find(counts, "STORED"), &n) && n == COUNT);
  CHECK(kiln_json_integer(kiln_json_find(counts, "MISS_ABSENT"), &n) && n == COUNT);
  CHECK(kiln_json_integer(kiln_json_find(counts, "HIT_LOCAL"), &n) && n == 1);
  kiln_arena_destroy(arena);
  free(out);
  expect("", "cache stats", 0, "6 entries");
  expect("", "cache stats --zero", 0, "");
  expect("", "cache stats --json", 0, "\"STORED\": 0");
}

TEST(cache_tool, every_json_is_json) {
  fill();
  char show[200];
  snprintf(show, sizeof show, "cache show --json %s", hex_of(1));
  const char *commands[] = {"cache stats --json",
                            "cache ls --json",
                            show,
                            "cache verify --json",
                            "cache gc --dry-run --json",
                            "cache doctor --json",
                            "env --json",
                            "cache trust --json --file=/nonexistent"};
  kiln_arena *arena = kiln_arena_create();
  for (unsigned i = 0; i < sizeof commands / sizeof *commands; i++) {
    char *out;
    const kiln_json *json;
    kiln_error err;
    CHECK_INT(kiln(&out, "", commands[i]), 0);
    if (kiln_json_parse(arena, out, strlen(out), &json, &err))
      FAIL("kiln %s: %s\n%s", commands[i], err.text, out);
    free(out);
  }
  kiln_arena_destroy(arena);
}

TEST(cache_tool, ls_show_extract) {
  fill();
  char command[600], path[400], *out;
  CHECK_INT(kiln(&out, "", "cache ls"), 0);
  unsigned lines = 0;
  for (const char *at = out; (at = strchr(at, '\n')); at++) lines++;
  CHECK_INT(lines, COUNT);
  CHECK(strstr(out, "kiln_add_f32") && strstr(out, "sm_90"));
  free(out);
  expectf(0, "option opt-level         \"3\"", "cache show %s", hex_of(0));
  expectf(0, "verified", "cache show %.8s", hex_of(0));
  snprintf(path, sizeof path, "%s/out", kiln_test_folder());
  snprintf(command, sizeof command, "cache extract -o %s %s", path, hex_of(3));
  expect("", command, 0, "");
  size_t size;
  uint8_t *bytes = (uint8_t *)kiln_test_read(path, &size), want[SIZE];
  payload_of(&keys[3].digest, want, SIZE);
  CHECK(size == SIZE && !memcmp(bytes, want, SIZE));
  free(bytes);
  expectf(0, "note", "cache extract --part=diagnostics %s", hex_of(3));
  expect("", "cache show ../../etc", 1, "hexadecimal digits");
  expect("", "cache show ffffffffff", 1, "no entry");
  expect("", "cache nonsense", 2, "no command");
}

TEST(cache_tool, verify_finds_exactly_the_damage) {
  fill();
  expect("", "cache verify", 0, "6 entries are good, 0 are not");
  damage(1);
  damage(4);
  char *out;
  CHECK_INT(kiln(&out, "", "cache verify -j 4"), 1);
  CHECK(strstr(out, hex_of(1)) && strstr(out, hex_of(4)) && strstr(out, "4 entries are good, 2 are not"));
  free(out);
  expect("", "cache doctor", 1, "2 damaged");
  expect("", "cache verify --repair", 1, "2 removed");
  expect("", "cache verify", 0, "4 entries are good, 0 are not");
}

TEST(cache_tool, gc_and_clear) {
  char command[400];
  fill();
  snprintf(command, sizeof command, "touch %s/v1/main.default/staging/left-over", root);
  CHECK_INT(kiln_test_run(NULL, "%s", command), 0);
  expect("", "cache gc --max-files=4 --dry-run", 0, "would remove 2 of 6");
  expect("", "cache gc --max-files=4", 0, "1 leftovers");
  expect("", "cache stats", 0, "4 entries");
  expect("", "cache gc --older-than=1x", 1, "expected a number with s, m, h or d");
  expect("", "cache gc --target=sm_90 --verbose", 0, "removed 4 of 4");
  expect("", "cache clear", 0, "removed 0 of 0");
}

TEST(cache_tool, why) {
  char command[600];
  fill();
  snprintf(command, sizeof command, "why %s %s", hex_of(0), hex_of(1));
  expect("", command, 0, "  ir: \"program 0\", there \"program 1\"\n1 field differs");
  expectf(0, "nearest other entry", "why %s", hex_of(0));
  damage(2);
  expectf(1, "the entry was damaged", "why %s", hex_of(2));
  expect("", "cache gc --max-files=1", 0, "removed");
  char *out;
  unsigned evicted = 0;
  for (unsigned i = 0; i < COUNT; i++) {
    snprintf(command, sizeof command, "why %s", hex_of(i));
    kiln(&out, "", command);
    evicted += strstr(out, "evicted at") != NULL;
    free(out);
  }
  CHECK(evicted >= COUNT - 1);
  expect("", "why 0000000000000000000000000000000000000000000000000000000000000000", 1,
         "nothing is recorded");
}

TEST(cache_tool, keys_and_trust) {
  char command[900], env[900], key[400], list[400];
  fill();
  snprintf(key, sizeof key, "%s/key", kiln_test_folder());
  snprintf(list, sizeof list, "%s/conf/trust", kiln_test_folder());
  snprintf(env, sizeof env, "KILN_TRUST_FILE=%s KILN_TRUST=require", list);
  snprintf(command, sizeof command, "cache keygen --name=ci %s", key);
  expect("", command, 0, "key.pub");
  expect("", command, 1, "File exists");
  expect(env, "cache verify", 1, "there is no list of trusted keys");
  snprintf(command, sizeof command, "cache sign --key=%s", key);
  expect("", command, 0, "6 entries are signed");
  expect(env, "cache verify", 1, "there is no list of trusted keys");
  snprintf(command, sizeof command, "cache trust --domains=pr-1 add ci %s.pub", key);
  expect(env, command, 0, "");
  expect(env, "cache verify", 1, "may not sign for domain main");
  CHECK(!unlink(list));
  snprintf(command, sizeof command, "cache trust add ci %s.pub", key);
  expect(env, command, 0, "");
  expect(env, "cache trust", 0, "trusted  ci");
  expect(env, "cache verify", 0, "6 entries are good");
  expect(env, "cache trust revoke ci", 0, "");
  expect(env, "cache verify", 1, "ci, which is revoked");
  CHECK_INT(kiln_test_run(NULL, "chmod 644 %s", key), 0);
  snprintf(command, sizeof command, "cache sign --key=%s", key);
  expect("", command, 1, "expected mode 0600");
}

TEST(cache_tool, export_and_import) {
  char command[900], env[400];
  fill();
  snprintf(command, sizeof command, "cache export %s/a", kiln_test_folder());
  expect("", command, 0, "exported 6");
  snprintf(command, sizeof command, "cache export %s/b", kiln_test_folder());
  expect("", command, 0, "exported 6");
  CHECK_INT(kiln_test_run(NULL, "cmp %s/a %s/b", kiln_test_folder(), kiln_test_folder()), 0);
  snprintf(env, sizeof env, "KILN_CACHE_DIR=%s/second", kiln_test_folder());
  snprintf(command, sizeof command, "cache import %s/a", kiln_test_folder());
  expect(env, command, 0, "imported 6");
  expect(env, command, 0, "6 were there");
  snprintf(env, sizeof env, "KILN_CACHE_DIR=%s/third KILN_CACHE_DOMAIN=pr-1", kiln_test_folder());
  expect(env, command, 1, "6 refused"); // of another domain
  snprintf(env, sizeof env, "KILN_CACHE_DIR=%s/fourth", kiln_test_folder());
  snprintf(command, sizeof command, "cache merge %s", root);
  expect(env, command, 0, "merged 6");
  expect(env, "cache verify", 0, "6 entries are good");
}

TEST(cache_tool, places_from_the_environment) {
  static const struct {
    const char *env, *says;
    int code;
  } rows[] = {{"KILN_CACHE_DIR=", "no folder for the cache", 1},
              {"KILN_CACHE_DIR= HOME=relative", "no folder for the cache", 1},
              {"KILN_CACHE_DIR= HOME=/tmp/h", "/tmp/h/.cache/kiln/v1/main.default", 0},
              {"KILN_CACHE_DIR= HOME=/tmp/h XDG_CACHE_HOME=/tmp/x", "/tmp/x/kiln/v1/main.default", 0},
              {"KILN_CACHE_DIR='/tmp/a b/\xc3\xa9' HOME=/tmp/h", "/tmp/a b/\xc3\xa9/v1/main.default", 0},
              {"KILN_CACHE_DIR=relative", "relative/v1/main.default", 0},
              {"KILN_CACHE_DOMAIN=../x", "expected [a-z0-9_-]{1,40}", 1},
              {"KILN_CACHE_SIZE=10Q", "KILN_CACHE_SIZE: expected a number", 1},
              {"KILN_TRUST=maybe", "expected off, warn or require", 1},
              {"KILN_CACHE_DIR=$(printf 'x%.0s' $(seq 4090))", "cache folder: expected a path", 1}};
  fill();
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
    expect(rows[i].env, "cache stats", rows[i].code, rows[i].says);
}

/// Whatever a program reads of the environment is in base/env.def; tools/house measures this tree and ships
/// nothing.
TEST(cache_tool, every_variable_has_a_row) {
  char *out;
  kiln_test_run(&out,
                "grep -rhoE 'getenv\\(\"[A-Za-z_]+\"' base cache compiler runtime targets tools "
                "--include=*.c --include=*.cpp --exclude-dir=house | sed 's/.*\"\\(.*\\)\"/\\1/' | sort -u | "
                "while read v; do grep -q \"^ENV($v,\" base/env.def || echo $v; done");
  CHECK_TEXT(out, "");
  free(out);
}

/// A list of trusted keys that others can write is no list; where signatures are required, none is an error.
TEST(cache_tool, lists_of_keys_that_others_write_are_refused) {
  const char *folder = kiln_test_folder();
  char *out, source[300];
  static const char text[] =
      "kiln 1\nkernel k(x: out *f32) @grid(1) @warps(1)\n{\n  store(x + iota(32), 1.0)\n}\n";
  snprintf(source, sizeof source, "%s/k.kiln", folder);
  kiln_test_write(source, text, sizeof text - 1);
#define KILN "KILN_CACHE_DIR=%s/cache KILN_TRUST_FILE=%s/trust KILN_TRUST=require %s/bin/kiln "
  const char *b = kiln_test_build();
  CHECK_INT(kiln_test_run(&out, KILN "compile -t gfx942 -o %s/k.o %s", folder, folder, b, folder, source), 1);
  CHECK(strstr(out, "there is no list of trusted keys") && strstr(out, "/trust"));
  free(out);
  CHECK_INT(kiln_test_run(&out, KILN "cache doctor", folder, folder, b), 1);
  CHECK(strstr(out, "there is no list of trusted keys"));
  free(out);
  CHECK(!kiln_test_run(NULL, KILN "cache keygen --name=a %s/a.key", folder, folder, b, folder));
  CHECK(
      !kiln_test_run(NULL, KILN "cache trust add a %s/a.key.pub --domains=main", folder, folder, b, folder));
  CHECK_INT(kiln_test_run(NULL, "KILN_SIGN_KEY=%s/a.key " KILN "compile -t gfx942 -o %s/k.o %s", folder,
                          folder, folder, b, folder, source),
            0);
  CHECK_INT(kiln_test_run(NULL, KILN "cache doctor", folder, folder, b), 0);
  CHECK(!kiln_test_run(NULL, "chmod 666 %s/trust", folder));
  CHECK_INT(kiln_test_run(&out, KILN "compile -t gfx942 -o %s/k.o %s", folder, folder, b, folder, source), 1);
  CHECK(strstr(out, "mode 666"));
  free(out);
  CHECK_INT(kiln_test_run(NULL, KILN "cache doctor", folder, folder, b), 1);
#undef KILN
}

/// What is wrong with a cache or its remote side is one note, and the build goes on.
TEST(cache_tool, settings_that_make_no_sense_are_said) {
  const char *folder = kiln_test_folder(), *b = kiln_test_build();
  char *out, source[300];
  static const char text[] =
      "kiln 1\nkernel k(x: out *f32) @grid(1) @warps(1)\n{\n  store(x + iota(32), 1.0)\n}\n";
  static const struct {
    const char *environment, *note;
  } cases[] = {
      {"KILN_CACHE_REMOTE='not a url'", "found \"not\""},
      {"KILN_CACHE_REMOTE='ftp://x'", "found \"ftp://x\""},
      {"KILN_CACHE_REMOTE='http://127.0.0.1:1'", "the remote store failed"},
      {"KILN_CACHE_REMOTE='redis://:99999'", "the remote store failed"},
      {"KILN_CACHE_REMOTE='http://127.0.0.1:1' KILN_CACHE_REMOTE_EXPIRE_S=soon",
       "going on without remote caches: KILN_CACHE_REMOTE_EXPIRE_S: expected a number"},
      {"KILN_CACHE_REMOTE='http://127.0.0.1:1' KILN_CACHE_REMOTE_CA=/nonexistent/ca.pem",
       "KILN_CACHE_REMOTE_CA: /nonexistent/ca.pem: No such file"},
      {"KILN_CACHE_REMOTE_WRITE=maybe", "KILN_CACHE_REMOTE_WRITE: expected 0 or 1, found \"maybe\""},
      {"KILN_CACHE_READ_ONLY=y", "going on without a cache: KILN_CACHE_READ_ONLY: expected 0 or 1"},
      {"KILN_CACHE_SIZE=big", "going on without a cache: KILN_CACHE_SIZE: expected a number"},
      {"KILN_CACHE_LEVEL=20",
       "going on without a cache: KILN_CACHE_LEVEL: expected at most 19, found \"20\""},
      {"KILN_CACHE_LAYERS=/nonexistent/layer",
       "nothing can be found in /nonexistent/layer/v1/main.default: No such file"},
      {"KILN_CACHE_READ_DOMAINS=main KILN_CACHE_DOMAIN=pr-1", ""}, // nothing was built there: no mistake
      {"KILN_CACHE_MIN_FREE=4096T", "what was stored goes again"},
      {"KILN_CACHE_SZIE=3G", "KILN_CACHE_SZIE is no setting; did you mean KILN_CACHE_SIZE?"},
      {"KILN_TUST=require", "KILN_TUST is no setting; did you mean KILN_TRUST?"},
      {"KILN_WHATEVER=1 MY_CACHE_SZIE=1", ""}};
  snprintf(source, sizeof source, "%s/k.kiln", folder);
  kiln_test_write(source, text, sizeof text - 1);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int code = kiln_test_run(&out, "%s KILN_CACHE_DIR=%s/c%zu %s/bin/kiln compile -t gfx942 -o %s/k.o %s",
                             cases[i].environment, folder, i, b, folder, source);
    unsigned notes = 0;
    for (const char *at = out; (at = strstr(at, "kiln: note: ")); at++)
      notes += strncmp(at, "kiln: note: 1 object", 20) != 0; // that is about the assembler
    if (code || !strstr(out, cases[i].note) || notes != (*cases[i].note != 0))
      FAIL("%s: %d: %s", cases[i].environment, code, out);
    free(out);
  }
  CHECK_INT(kiln_test_run(&out, "KILN_CACHE_REMOET=http://x KILN_CACHE_DIR=%s/d %s/bin/kiln cache doctor",
                          folder, b),
            1);
  CHECK(strstr(out, "BAD  settings: KILN_CACHE_REMOET is no setting; did you mean KILN_CACHE_REMOTE?"));
  free(out);
}

// A word for yes is one to each program: what a build in a shared folder wants to upload waits there, and
// kiln-remote does not refuse the folder for its mode.
TEST(cache_tool, words_for_yes_are_those_of_all_programs) {
  static const char *const words[] = {"1", "on", "yes", "true"};
  const char *folder = kiln_test_folder(), *b = kiln_test_build();
  char *out;
  CHECK_INT(kiln_test_run(NULL, "chmod 2770 %s", folder), 0);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    int code = kiln_test_run(
        &out,
        "export KILN_CACHE_DIR=%s/%zu KILN_CACHE_SHARED=%s KILN_CACHE_REMOTE=http://127.0.0.1:1 "
        "KILN_CACHE_REMOTE_WRITE=1; umask 0; %s/bin/kiln compile tests/ttir/add.ttir -q -t gfx942 -o %s/k.o; "
        "%s/bin/kiln cache push",
        folder, i, words[i], b, folder, b);
    if (code != 1 || !strstr(out, "0 uploaded, 1 wait")) FAIL("%s: %d: %s", words[i], code, out);
    free(out);
  }
}

/// An entry that is there is in the cache, whatever happened to it before.
TEST(cache_tool, why_of_what_is_there_tells_of_nothing_else) {
  char command[200], *out;
  fill();
  snprintf(command, sizeof command, "why %s", hex_of(0));
  CHECK_INT(kiln(&out, "", command), 0);
  CHECK(strstr(out, "in the cache"));
  CHECK(!strstr(out, "removed since"));
  free(out);
}

// A finished bundle is an entry too: an object is not explained by it.
TEST(cache_tool, why_compares_entries_of_one_kind) {
  const char *folder = kiln_test_folder(), *b = kiln_test_build();
  char *out;
  CHECK_INT(kiln_test_run(
                &out,
                "export KILN_CACHE_DIR=%s/c; %s/bin/kiln build tests/ttir/add.ttir -q -t gfx942 -o "
                "%s/k.kb && %s/bin/kiln why $(%s/bin/kiln key tests/ttir/add.ttir -t gfx942 | cut -c1-64)",
                folder, b, folder, b, b),
            0);
  CHECK(strstr(out, "in the cache"));
  if (strstr(out, "nearest")) FAIL("%s", out);
  free(out);
}

/// Whatever state a key is in, and whatever it was in before: `why` says that state, and nothing that
/// contradicts it.
TEST(cache_tool, why_says_one_thing_of_each_state) {
  static const struct {
    const char *what;
    const char *command; ///< in the store's folder, with $f the entry's file and $k its key
    const char *environment, *says;
  } rows[] = {
      {"there", ":", "", "in the cache, in "},
      {"evicted", "kiln cache gc --older-than=1s", "", "not in the cache\nevicted at "},
      {"evicted and stored again", "cp -p $f s; kiln cache gc --older-than=1s; cp -p s $f", "",
       "in the cache, in "},
      {"put aside", "echo x >quarantine/$k; rm $f", "", "not in the cache\nit was stored at "},
      {"taken away", "rm $f", "", "not in the cache\nit was stored at "},
      {"cleared", "kiln cache clear", "", "not in the cache\nand nothing is recorded"},
      {"damaged", "truncate -s -1 $f", "", "the entry was damaged, in "},
      {"empty", "rm $f; : >$f", "", "the entry was damaged, in "},
      {"a folder", "rm $f; mkdir $f", "", "the entry was damaged, in "},
      {"a pipe", "rm $f; mkfifo $f", "", "the entry was damaged, in "},
      {"a link", "mv $f s; ln -s $PWD/s $f", "", "the entry could not be read, in "},
      {"not signed", ":", "KILN_TRUST=require KILN_TRUST_FILE=trust",
       "the entry is not signed as the policy wants it, in "},
      {"not signed, with a warning", ":", "KILN_TRUST=warn KILN_TRUST_FILE=trust", "in the cache, in "},
  };
  static const char *const claims[] = {"not in the cache", "in the cache, in ", "the entry was damaged",
                                       "could not be read", "is not signed as the policy wants it, in "};
  static const char *const histories[] = {"evicted", "removed since", "put aside at", "nothing is recorded"};
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
    char *out, hex[KILN_DIGEST_HEX + 1], path[400];
    fill();
    kiln_digest_hex(&keys[2].digest, hex);
    entry_path(root, &keys[2], path, sizeof path);
    int code = kiln_test_run(&out,
                             "export PATH=$PWD/%s/bin:$PATH KILN_CACHE_DIR=%s f=%s k=%s; cd "
                             "%s/v1/main.default && touch trust && chmod 600 trust && "
                             "touch -d '1 hour ago' $f && { %s; } >/dev/null 2>&1; %s kiln why %s; echo; "
                             "echo ==; %s kiln why %s $k",
                             kiln_test_build(), root, path, hex, root, rows[i].command, rows[i].environment,
                             hex, rows[i].environment, hex_of(3));
    (void)code;
    char *pair = strstr(out, "==\n");
    CHECK(pair);
    *pair = 0;
    if (!strstr(out, rows[i].says)) FAIL("%s: without \"%s\":\n%s", rows[i].what, rows[i].says, out);
    for (unsigned half = 0; half < 2; half++) {
      const char *text = half ? pair + 3 : out;
      unsigned count = 0, past = 0;
      for (unsigned c = 0; c < sizeof claims / sizeof *claims; c++) count += strstr(text, claims[c]) != NULL;
      for (unsigned h = 0; h < sizeof histories / sizeof *histories; h++)
        past += strstr(text, histories[h]) != NULL;
      bool absent = strstr(text, "not in the cache");
      if (count > 1 || past > (absent ? 1 : 0)) FAIL("%s: contradicts itself:\n%s", rows[i].what, text);
    }
    free(out);
    kiln_test_run(NULL, "rm -rf %s", root);
  }
}

TEST(cache_tool, nothing_to_merge_is_an_error) {
  fill();
  expect("", "cache merge /nonexistent/folder", 1, "/nonexistent/folder has no cache");
  expect("", "cache merge", 2, "expected 1 word, found 0");
  expect("", "cache stats more words", 2, "expected 0 words, found 2");
}

/// Of a writer that was killed between making it and filling it.
TEST(cache_tool, an_empty_tag_is_filled) {
  char path[400], *text;
  fill();
  snprintf(path, sizeof path, "%s/CACHEDIR.TAG", root);
  kiln_test_write(path, "", 0);
  fill();
  text = kiln_test_read(path, NULL);
  CHECK(text && strstr(text, "Signature: 8a477f597d28d172789f06886806bc55") == text);
  free(text);
}
