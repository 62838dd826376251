// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that a signature means: made here, of parts that were trusted here. Whatever way an object takes
// from a cache into something that is signed, it does not become trusted that way.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cache/servers.h"

static const char source[] =
    "kiln 1\nkernel twice(x: inout *f32, n: i32) @grid(cdiv(n, 64)) @config(warps = 1) {\n"
    "  let i = pid(0) * 64 + iota(64)\n  store(x + i, load(x + i, i < n) * 2.0, i < n)\n}\n";

/// Runs a line of shell in the test's folder, with keys ci (trusted), other (trusted for another domain),
/// gone (revoked) and stranger; the output, malloc'ed.
static char *run(int want, const char *line) {
  char *out;
  int code = kiln_test_run(&out,
                           "PATH=$PWD/%s/bin:$PATH && cd %s && export HOME=$PWD XDG_CONFIG_HOME=$PWD "
                           "KILN_CACHE_DIR=$PWD/cache && { %s\n}",
                           kiln_test_build(), kiln_test_folder(), line);
  if (code != want) FAIL("%s: exit code %d, expected %d:\n%s", line, code, want, out);
  return out;
}

static void quiet(const char *line) { free(run(0, line)); }

static void expect(const char *line, const char *text) {
  char *out = run(0, line);
  if (!strstr(out, text)) FAIL("%s: expected \"%s\", found:\n%s", line, text, out);
  free(out);
}

static void prepare(void) {
  char path[400];
  snprintf(path, sizeof path, "%s/k.kiln", kiln_test_folder());
  kiln_test_write(path, source, sizeof source - 1);
  quiet("for k in ci other gone stranger; do kiln cache keygen --name=$k $k.key; done\n"
        "kiln cache trust add ci ci.key.pub --domains=main\n"
        "kiln cache trust add other other.key.pub --domains=pr-1\n"
        "kiln cache trust add gone gone.key.pub --domains=main\nkiln cache trust revoke gone");
}

#define BUILD "kiln build k.kiln -t host -o a.kb "
#define REQUIRE "KILN_TRUST=require KILN_CACHE_READ_ONLY=1 "

/// How the object came into the cache, and whether it may be believed.
static const struct maker {
  const char *command;
  bool good;
} makers[] = {{BUILD, false},
              {"KILN_SIGN_KEY=stranger.key " BUILD, false},
              {"KILN_SIGN_KEY=other.key " BUILD, false},
              {"KILN_SIGN_KEY=gone.key " BUILD, false},
              {"KILN_CACHE_DIR=$PWD/else " BUILD "&& kiln cache merge else", false},
              {"KILN_CACHE_DIR=$PWD/else " BUILD
               "&& KILN_CACHE_DIR=$PWD/else kiln cache export e && KILN_SIGN_KEY=ci.key kiln cache import e",
               false},
              {"KILN_SIGN_KEY=ci.key " BUILD, true},
              {BUILD "&& kiln cache sign --key=ci.key", true}};

/// What is made of it by somebody who signs: the options tell the finished bundle from the maker's.
static const char *const takers[] = {
    "KILN_SIGN_KEY=ci.key %s",
    "KILN_TRUST=warn KILN_SIGN_KEY=ci.key %s",
    "KILN_SIGN_KEY=ci.key %s && KILN_SIGN_KEY=ci.key %s",            // the finished one found again
    "%s && KILN_SIGN_KEY=ci.key %s && KILN_SIGN_KEY=ci.key %s",      // an unsigned one found
    "KILN_SIGN_KEY=ci.key %s --json >json; KILN_SIGN_KEY=ci.key %s", // by way of each object
    "KILN_CACHE_LAYERS=$PWD/cache KILN_CACHE_DIR=$PWD/mine KILN_SIGN_KEY=ci.key %s && "
    "KILN_CACHE_DIR=$PWD/mine KILN_CACHE_LAYERS=$PWD/cache KILN_SIGN_KEY=ci.key %s && kiln cache merge mine",
};

static void say(char *out, size_t capacity, const char *line, const char *options) {
  size_t at = 0;
  out[0] = 0;
  for (; *line && at + 200 < capacity; line++)
    if (line[0] == '%' && line[1] == 's') {
      at += (size_t)snprintf(out + at, capacity - at, BUILD "%s", options);
      line++;
    } else {
      out[at++] = *line;
      out[at] = 0;
    }
}

TEST(laundering, what_nobody_signed_is_not_signed_as_a_part) {
  static const char *const options[] = {"--level 5", "--dictionary none", "--max-size 1000000"};
  prepare();
  for (size_t m = 0; m < sizeof makers / sizeof *makers; m++)
    for (size_t t = 0; t < sizeof takers / sizeof *takers; t++) {
      char line[1500];
      const char *with = options[(m + t) % (sizeof options / sizeof *options)];
      quiet("rm -rf cache else mine e");
      quiet(makers[m].command);
      say(line, sizeof line, takers[t], with);
      quiet(line);
      snprintf(line, sizeof line, REQUIRE BUILD "%s # %s; %s", with, makers[m].command, takers[t]);
      expect(line, makers[m].good ? "1 from the cache" : "0 from the cache, 1 compiled");
    }
}

/// A bundle that is signed itself is of parts that were just compiled, or that somebody vouches for.
TEST(laundering, signed_bundles_are_of_trusted_parts) {
  prepare();
  for (size_t m = 0; m < sizeof makers / sizeof *makers; m++) {
    char line[700];
    quiet("rm -rf cache else mine e");
    quiet(makers[m].command);
    snprintf(line, sizeof line, BUILD "--sign ci.key # %s", makers[m].command);
    expect(line, makers[m].good ? "1 from the cache" : "0 from the cache, 1 compiled");
    expect(BUILD "--sign ci.key", "1 from the cache"); // its own work
    expect(BUILD "--sign ci.key --level 7", "1 from the cache");
    expect("kiln verify --key=ci.key.pub a.kb", "signed by");
    expect(REQUIRE BUILD, "1 from the cache"); // it was signed when it was made
  }
  expect("rm -rf cache && " BUILD " && KILN_CACHE_LAYERS=$PWD/cache KILN_CACHE_DIR=$PWD/mine " BUILD
         "--sign ci.key",
         "0 from the cache, 1 compiled");
}

/// Objects of a remote cache that anybody can write to.
TEST(laundering, remote_objects_are_parts_like_any) {
  char line[700];
  const char *folder = kiln_test_folder();
  prepare();
  int port = start_redis(folder);
  snprintf(line, sizeof line,
           "export KILN_CACHE_REMOTE=redis://127.0.0.1:%d KILN_CACHE_REMOTE_MS=20000; "
           "KILN_CACHE_REMOTE_WRITE=1 " BUILD "&& KILN_CACHE_REMOTE_WRITE=1 kiln cache push",
           port);
  quiet(line);
  snprintf(line, sizeof line,
           "export KILN_CACHE_REMOTE=redis://127.0.0.1:%d KILN_CACHE_REMOTE_MS=20000; rm -rf cache; "
           "KILN_SIGN_KEY=ci.key " BUILD,
           port);
  expect(line, "1 from the cache");
  expect(REQUIRE BUILD, "0 from the cache, 1 compiled");
  snprintf(line, sizeof line,
           "export KILN_CACHE_REMOTE=redis://127.0.0.1:%d KILN_CACHE_REMOTE_MS=20000; rm -rf cache; " BUILD
           "--sign ci.key",
           port);
  expect(line, "0 from the cache, 1 compiled");
}

/// An entry that is not believed does not keep out one that is; and a policy holds for who signs, too.
TEST(laundering, moved_entries_take_the_place_of_untrusted_ones) {
  prepare();
  quiet(BUILD "--level 9 && KILN_CACHE_DIR=$PWD/else KILN_SIGN_KEY=ci.key " BUILD "--level 9");
  expect("KILN_TRUST=require kiln cache merge else", "merged 3 entries; 0 were there, 0 refused");
  expect(REQUIRE BUILD "--level 9", "1 from the cache");
  expect("KILN_TRUST=require kiln cache merge else", "merged 0 entries; 3 were there");
  quiet("rm -rf cache && " BUILD);
  free(run(1, "KILN_TRUST=require kiln cache sign --key=ci.key"));
  expect(REQUIRE BUILD, "0 from the cache, 1 compiled");
}
