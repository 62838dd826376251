// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests what `kiln build` does besides compiling: what it prints, the timeline of --trace, limits and
// signatures of the bundle.
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/json.h"
#include "cache/entry.h"
#include "tests/harness.h"

static const char source[] =
    "kiln 1\nkernel twice(x: inout *f32, n: i32) @grid(cdiv(n, 64)) @config(warps = 1) {\n"
    "  let i = pid(0) * 64 + iota(64)\n  store(x + i, load(x + i, i < n) * 2.0, i < n)\n}\n";

/// Runs `kiln build WORDS` over the source in the test's folder with its own cache; what it prints,
/// malloc'ed.
static char *build(int want, const char *words) {
  const char *folder = kiln_test_folder();
  char path[512], *out;
  snprintf(path, sizeof path, "%s/twice.kiln", folder);
  kiln_test_write(path, source, sizeof source - 1);
  int code = kiln_test_run(
      &out, "root=$PWD; cd %s && KILN_CACHE_DIR=%s/cache $root/%s/bin/kiln build twice.kiln -o k.kb %s",
      folder, folder, kiln_test_build(), words);
  if (code != want) FAIL("kiln build %s: exit code %d, expected %d:\n%s", words, code, want, out);
  return out;
}

static void expect(int want, const char *words, const char *text) {
  char *out = build(want, words);
  if (text[0] ? !strstr(out, text) : out[0])
    FAIL("kiln build %s: expected \"%s\", found:\n%s", words, text, out);
  free(out);
}

TEST(build_command, quiet_prints_nothing) {
  expect(0, "-q -t host,sm_80", "");
  expect(0, "-t host,sm_80", "2 objects, 2 from the cache, 0 compiled, 0 failed");
}

// A config is made for the targets that it names. Where none is for a target, that is said.
TEST(build_command, configs_of_some_targets) {
  static const char text[] =
      "kiln 1\nkernel twice[B: tune = 1](x: inout *f32, n: i32) @grid(cdiv(n, B)) @require(n > 64 | B < "
      "128)\n"
      "  @config(B = 128, warps = 4, targets = \"sm_80\") @config(B = 64, warps = 1%s) {\n"
      "  let i = pid(0) * B + iota(B)\n  store(x + i, load(x + i, i < n) * 2.0, i < n)\n}\n";
  static const struct {
    const char *clause, *command, *found;
    int code;
  } rows[] = {
      {"", "build some.kiln -o s.kb -t host,sm_80", "3 objects", 0},
      {"", "inspect -c s.kb", "config 0: B=128,warps=4,targets=sm_80", 0},
      {"", "explain --all -d null:sm_80 s.kb twice", "B=128,warps=4,targets=sm_80", 0},
      {"", "run s.kb twice --explain -d host --arg x=zeros:256 --arg n=256", "config B=64,warps=1", 0},
      {"", "compile some.kiln -t gfx942 --emit=ir -o -", "@warps(1)", 0},
      {"", "compile some.kiln -t sm_80 --emit=ir -o -", "@warps(4)", 0},
      {"", "compile some.kiln -t sm_80 --config 1 --emit=ir -o -", "@warps(1)", 0},
      {"", "compile some.kiln -t host --config 0",
       "twice has no config 0 (B=128,warps=4,targets=sm_80) for x86-64-v3", 1},
      {"", "compile some.kiln -t host --config 2",
       "has 2 configs and 1 variants; config 2, variant 0 does not exist", 1},
      {", targets = \"gfx*\"", "build some.kiln -o t.kb -t host,sm_80",
       "some.kiln: twice has no config for x86-64-v3; there are B=128,warps=4,targets=sm_80; "
       "B=64,warps=1,targets=gfx*",
       1},
  };
  const char *folder = kiln_test_folder();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char path[512], source_text[600], *out;
    snprintf(path, sizeof path, "%s/some.kiln", folder);
    snprintf(source_text, sizeof source_text, text, rows[i].clause);
    kiln_test_write(path, source_text, strlen(source_text));
    int code = kiln_test_run(&out, "root=$PWD; cd %s && KILN_CACHE_DIR=%s/cache $root/%s/bin/kiln %s", folder,
                             folder, kiln_test_build(), rows[i].command);
    if (code != rows[i].code || !strstr(out, rows[i].found))
      FAIL("kiln %s: exit code %d, expected %d and \"%s\", found:\n%s", rows[i].command, code, rows[i].code,
           rows[i].found, out);
    free(out);
  }
}

TEST(build_command, a_bundle_above_its_budget_is_not_written) {
  char path[512];
  snprintf(path, sizeof path, "%s/k.kb", kiln_test_folder());
  expect(1, "-t host --max-size 100", "--max-size allows 100");
  CHECK(access(path, F_OK));
  expect(0, "-q -t host --max-size 1000000", "");
  CHECK(!access(path, F_OK));
}

TEST(build_command, a_signature_is_checked) {
  char *out;
  if (kiln_test_run(&out, "%s/bin/kiln cache keygen %s/key", kiln_test_build(), kiln_test_folder()))
    FAIL("%s", out);
  free(out);
  expect(0, "-q -t host --sign key", "");
  if (kiln_test_run(&out, "%s/bin/kiln verify --key=%s/key.pub %s/k.kb", kiln_test_build(),
                    kiln_test_folder(), kiln_test_folder()))
    FAIL("%s", out);
  CHECK(strstr(out, "signed by"));
  free(out);
}

/// Two keys, one code: the host has no use for the number of warps.
TEST(build_command, duplicates_are_counted) {
  static const char twins[] = "kiln 1\nkernel copy[W: tune = 1](x: in *f32, y: out *f32) @grid(1) @config(W "
                              "= 1, warps = 1) @config(W = 1, warps = 2) {\n"
                              "  let i = iota(64)\n  store(y + i, load(x + i))\n}\n";
  char *out;
  const char *folder = kiln_test_folder();
  char path[512];
  snprintf(path, sizeof path, "%s/twins.kiln", folder);
  kiln_test_write(path, twins, sizeof twins - 1);
  const char *command = "root=$PWD; cd %s && export KILN_CACHE_DIR=%s/c; $root/%s/bin/kiln build -q "
                        "twins.kiln --configs-all -t host -o t.kb &&"
                        " $root/%s/bin/kiln cache stats";
  for (unsigned i = 0; i < 2; i++) { // the second build compiles nothing and counts nothing
    if (kiln_test_run(&out, command, folder, folder, kiln_test_build(), kiln_test_build())) FAIL("%s", out);
    const char *line = strstr(out, "different key, same output");
    if (!line) FAIL("no line of duplicates:\n%s", out);
    while (line > out && line[-1] != '\n') line--;
    if (!strstr(line, " 1 ")) FAIL("expected one duplicate:\n%s", out);
    free(out);
  }
}

// ---------------------------------------------------------------------- the cache, asked otherwise

TEST(build_command, force_compiles_and_stores) {
  expect(0, "-t host", "1 compiled");
  expect(0, "-t host", "1 from the cache");
  expect(0, "-t host --force", "0 from the cache, 1 compiled");
  expect(0, "-t host --must-hit", "1 from the cache");
  expect(0, "-t host --no-cache", "0 from the cache, 1 compiled");
}

TEST(build_command, must_hit_names_what_differs) {
  char path[512];
  snprintf(path, sizeof path, "%s/k.kb", kiln_test_folder());
  expect(0, "-q -t host", "");
  unlink(path);
  expect(1, "-t host --must-hit --optimise=1", "optimise");
  CHECK(access(path, F_OK));
}

/// Writes the entry of the one object in the test's cache (there is its bundle's as well) anew with its
/// payload changed, under its key and with fitting checks: what a wrong key would have served.
static void change_entry(void) {
  char *list, path[600];
  size_t size;
  kiln_entry_view view;
  kiln_cache_entry entry;
  kiln_buffer again = {0};
  kiln_error err = {0};
  CHECK_INT(kiln_test_run(&list, "grep -rL kbundle %s/cache/v1/main.default/entries", kiln_test_folder()), 0);
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

/// Entries are listed with what people asked for: kernel, instance, config, target.
TEST(build_command, ls_names_instance_config_and_target) {
  static const char text[] =
      "kiln 1\nkernel scale[T: type = f32](x: inout *T, n: i32) @grid(cdiv(n, 64)) @config(warps = 1)\n"
      "  @config(warps = 2) {\n"
      "  let i = pid(0) * 64 + iota(64)\n  store(x + i, load(x + i, i < n) * 2.0, i < n)\n}\n";
  static const char *const wanted[] = {"  scale[T=f32] warps=1  nvptx64-nvidia-cuda sm_80 ",
                                       "  scale[T=f32] warps=2  nvptx64-nvidia-cuda sm_80 ",
                                       "  scale[T=f16] warps=1  nvptx64-nvidia-cuda sm_80 ",
                                       "  scale[T=f16] warps=2  amdgcn-amd-amdhsa gfx942 "};
  char path[512], *out;
  snprintf(path, sizeof path, "%s/scale.kiln", kiln_test_folder());
  kiln_test_write(path, text, sizeof text - 1);
  int code = kiln_test_run(
      &out,
      "root=$PWD; cd %s && export KILN_CACHE_DIR=$PWD/cache PATH=$root/%s/bin:$PATH && "
      "kiln build -q --configs-all -i 'scale[T=f16]' -i 'scale[T=f32]' -t sm_80,gfx942 scale.kiln && "
      "kiln cache ls && kiln cache ls --json | grep -c '\"name\": \"scale.T=f16. warps=2\"'",
      kiln_test_folder(), kiln_test_build());
  CHECK_INT(code, 0);
  for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; i++)
    if (!strstr(out, wanted[i])) FAIL("without \"%s\":\n%s", wanted[i], out);
  CHECK(strstr(out, "\n2\n"));
  free(out);
}

// -------------------------------------------------------------------------- the bundle as an artifact

/// What the writer prints when it packs: a build that found the finished bundle does not have it.
static const char packed[] = " blobs, ";

static void expect_packed(bool want, const char *words) {
  char *out = build(0, words);
  if (!strstr(out, packed) == want)
    FAIL("kiln build %s: the bundle was %s:\n%s", words, want ? "not packed" : "packed", out);
  free(out);
}

static char *read_bundle(size_t *size) {
  char path[512];
  snprintf(path, sizeof path, "%s/k.kb", kiln_test_folder());
  return kiln_test_read(path, size);
}

TEST(build_command, a_finished_bundle_is_an_artifact_of_its_own) {
  static const char *const others[] = {"-t host,sm_80 --level=9",
                                       "-t host,sm_80 --dictionary=none",
                                       "-t host,sm_80 --max-size=1000000",
                                       "-t host,sm_80 --sign=key",
                                       "-t host,sm_80 --sign=other",
                                       "-t host,sm_80 --optimise=1",
                                       "-t sm_80,host,sm_90",
                                       "-t host"};
  size_t size, again;
  kiln_test_run(NULL, "cd %s && for k in key other; do $OLDPWD/%s/bin/kiln cache keygen $k; done",
                kiln_test_folder(), kiln_test_build());
  expect_packed(true, "-t host,sm_80");
  char *first = read_bundle(&size);
  expect_packed(false, "-t host,sm_80");
  expect_packed(true, "-t host,sm_80 --force");
  for (unsigned i = 0; i < sizeof others / sizeof *others; i++) { // whatever shapes the bundle is in its key
    expect_packed(true, others[i]);
    char *fresh = read_bundle(&size), *kept;
    kiln_test_run(NULL, "rm %s/k.kb", kiln_test_folder());
    expect_packed(false, others[i]);
    kept = read_bundle(&again);
    if (size != again || memcmp(fresh, kept, size)) FAIL("%s: the bundle from the cache differs", others[i]);
    free(fresh), free(kept);
  }
  expect_packed(false, "-t host,sm_80");
  expect(1, "-t host,sm_80 --max-size=100", "--max-size allows 100");
  expect(0, "-t host,sm_80", "2 objects, 2 from the cache, 0 compiled, 0 failed");
  char *last = read_bundle(&again);
  CHECK(!memcmp(first, last, again));
  free(first), free(last);
}

/// A damaged bundle in the cache is a miss, a damaged entry that leads to it too, and each object is in use
/// as long as its bundle is.
TEST(build_command, a_damaged_bundle_is_packed_again) {
  expect_packed(true, "-t host");
  CHECK_INT(
      kiln_test_run(NULL,
                    "cd %s && f=$(grep -rl kbundle cache/v1/main.default/entries | xargs ls -S | head -1) && "
                    "chmod 600 $f && printf X | dd of=$f bs=1 seek=400 conv=notrunc && "
                    "find cache/v1/main.default/entries -type f | xargs touch -d 2020-01-01",
                    kiln_test_folder()),
      0);
  expect_packed(true, "-t host");
  CHECK_INT(kiln_test_run(NULL,
                          "cd %s && find cache/v1/main.default/entries -type f | xargs touch -d 2020-01-01",
                          kiln_test_folder()),
            0);
  expect_packed(false, "-t host");
  CHECK_INT(kiln_test_run(NULL,
                          "cd %s && f=$(grep -rl bundle-name cache/v1/main.default/entries) && "
                          "chmod 600 $f && printf X | dd of=$f bs=1 seek=400 conv=notrunc",
                          kiln_test_folder()),
            0);
  expect_packed(false, "-t host");
  char *old;
  kiln_test_run(&old, "find %s/cache/v1/main.default/entries -type f -mtime +100", kiln_test_folder());
  CHECK_TEXT(old, "");
  free(old);
}

// ------------------------------------------------------------------------------ a build without changes

/// Runs a line of the shell in the test's folder, where `kiln` is the program and `ttir` a text of Triton IR.
static char *in_folder(int want, const char *line) {
  char *out;
  int code = kiln_test_run(&out,
                           "root=$PWD; cd %s; export KILN_CACHE_DIR=$PWD/cache PATH=$root/%s/bin:$PATH "
                           "ttir=$root/tests/ttir/add.ttir; %s",
                           kiln_test_folder(), kiln_test_build(), line);
  if (code != want) FAIL("%s: exit code %d, expected %d:\n%s", line, code, want, out);
  return out;
}

static void step(const char *line) { free(in_folder(0, line)); }

static const char warned[] =
    "kiln 1\nkernel twice(x: inout *f32, n: i32) @grid(cdiv(n, 64)) @config(warps = 1) {\n"
    "  let i = pid(0) * 64 + iota(64)\n"
    "  for k in 0 .. 2 @stages(3) { store(x + i, load(x + i, i < n) * 2.0, i < n) }\n}\n";

static void write_source(const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s/twice.kiln", kiln_test_folder());
  kiln_test_write(path, text, strlen(text));
}

/// Its objects, its bundle and what says which bundle it is are hits, and nothing is stored: no source was
/// lowered. What a source has to say is said at each build, so such a one is lowered.
TEST(build_command, a_build_without_changes_lowers_nothing) {
  write_source(source);
  step("cp $ttir add.ttir; kiln build -q twice.kiln add.ttir -t host,sm_80 -o k.kb; cp k.kb first.kb");
  step("kiln cache stats --zero");
  char *out = in_folder(0, "kiln build twice.kiln add.ttir -t host,sm_80 -o k.kb; cmp k.kb first.kb; "
                           "kiln cache stats --json");
  if (!strstr(out, "4 objects, 4 from the cache, 0 compiled, 0 failed")) FAIL("%s", out);
  if (!strstr(out, "\"HIT_LOCAL\": 6,") || !strstr(out, "\"misses\": 0,") || !strstr(out, "\"STORED\": 0,"))
    FAIL("%s", out);
  free(out);
  write_source(warned);
  for (unsigned i = 0; i < 3; i++) {
    out = in_folder(0, "kiln build -q twice.kiln -t host -o k.kb");
    if (!strstr(out, "warning:")) FAIL("build %u of a source with a warning says nothing of it: %s", i, out);
    free(out);
  }
}

#define TABLE_OF(config)                                                                      \
  "mkdir -p tuned; printf 'kiln tuned 2\\nkernel=twice types=\"*f32, i32\" product=\"A100\" " \
  "processor=sm_80 units=108 bin.n=64 config=" config "\\n' >tuned/t.table"

/// The same beside a table of choices; what is said of one is said at each build.
TEST(build_command, nor_where_a_table_of_choices_is_taken) {
  write_source(source);
  step(TABLE_OF("warps=1"));
  step("kiln build -q twice.kiln -t host,sm_80 --ptx-assembler=none -o k.kb; cp k.kb first.kb");
  step("kiln cache stats --zero");
  char *out =
      in_folder(0, "kiln build twice.kiln -t host,sm_80 --ptx-assembler=none -o k.kb; cmp k.kb first.kb; "
                   "kiln inspect --json k.kb | grep -c A100; kiln cache stats --json");
  if (!strstr(out, "2 objects, 2 from the cache, 0 compiled, 0 failed") || strstr(out, "\n0\n"))
    FAIL("%s", out);
  if (!strstr(out, "\"HIT_LOCAL\": 4,") || !strstr(out, "\"misses\": 0,") || !strstr(out, "\"STORED\": 0,"))
    FAIL("%s", out);
  free(out);
  step(TABLE_OF("warps=3"));
  step("kiln build -q twice.kiln -t host,sm_80 --ptx-assembler=none -o k.kb");
  for (unsigned i = 0; i < 3; i++) {
    out = in_folder(0, "kiln build twice.kiln -t host,sm_80 --ptx-assembler=none -o k.kb");
    if (!strstr(out, "1 choices name what is not there"))
      FAIL("build %u says nothing of the table: %s", i, out);
    free(out);
  }
}

/// Whatever the front end sees: after each change, and again without one, the build with a cache makes the
/// bundle that a build without any makes.
TEST(build_command, a_build_with_changes_is_never_an_older_one) {
  static const struct {
    const char *change, *words;
  } rows[] = {
      {":", "twice.kiln add.ttir"},
      {"echo '// a comment' >>twice.kiln", "twice.kiln add.ttir"},
      {"sed -i 's/2\\.0/3.0/' twice.kiln", "twice.kiln add.ttir"},
      {"sed -i 's/3\\.0/2.0/' twice.kiln; touch -d 2001-01-01 twice.kiln", "twice.kiln add.ttir"},
      {"sed -i 's/2\\.0/4.0/' twice.kiln; touch -d 2001-01-01 twice.kiln", "twice.kiln add.ttir"},
      {"sed 's/kernel twice/kernel thrice/' twice.kiln >thrice.kiln", "twice.kiln thrice.kiln"},
      {":", "thrice.kiln twice.kiln"},
      {":", "thrice.kiln twice.kiln -k twice"},
      {":", "thrice.kiln twice.kiln -k thrice"},
      {"echo '{\"num_warps\": 8}' >add.json", "twice.kiln add.ttir"},
      {"echo '{\"num_warps\": 2}' >add.json", "twice.kiln add.ttir"},
      {"rm add.json", "twice.kiln add.ttir"},
      {":", "twice.kiln add.ttir --warps 8"},
      {":", "twice.kiln add.ttir --stages 2"},
      {":", "twice.kiln add.ttir --optimise=1"},
      {":", "twice.kiln add.ttir --debug"},
      {"mkdir there; cp twice.kiln there", "there/twice.kiln add.ttir --debug"},
      {":", "twice.kiln -t sm_90"},
      {":", "twice.kiln --level 9"},
      {"sed 's/twice(x: inout \\*f32/twice[T: type = f32](x: inout *T/' twice.kiln >any.kiln", "any.kiln"},
      {":", "any.kiln -i 'twice[T=f32]'"},
      {":", "any.kiln -i 'twice[T=f16]'"},
      {"sed -i 's/@config(warps = 1)/@config(warps = 1) @config(warps = 2)/' any.kiln", "any.kiln"},
      {":", "any.kiln --configs-all"},
      {"mv any.kiln twice.kiln", "twice.kiln"},
      {TABLE_OF("warps=1"), "twice.kiln"},
      {TABLE_OF("warps=2"), "twice.kiln"},
      {":", "twice.kiln --no-tuned"},
      {":", "twice.kiln --tuned tuned"},
      {"sed -i s/bin.n=64/bin.n=128/ tuned/t.table", "twice.kiln"},
      {"rm -r tuned", "twice.kiln"},
  };
  char line[600];
  write_source(source);
  step("cp $ttir add.ttir");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    step(rows[i].change);
    snprintf(line, sizeof line,
             "w=\"-q -t host,sm_80 --ptx-assembler=none %s\"; eval kiln build $w -o k.kb && "
             "eval kiln build $w -o again.kb && eval kiln build $w --no-cache -o fresh.kb && "
             "cmp k.kb fresh.kb && cmp again.kb fresh.kb",
             rows[i].words);
    step(line);
  }
}

/// The front end is the program itself: another one believes nothing of what this one found out. One that is
/// only packed otherwise is the same.
TEST(build_command, another_front_end_lowers_again) {
  static const struct {
    const char *change, *stored;
  } rows[] = {{"LC_ALL=C sed -i 's/did you mean/did yuo mean/' p/kiln", "\"STORED\": 1,"},
              {"echo >>p/kiln", "\"STORED\": 0,"},
              {"strip p/kiln", "\"STORED\": 0,"}};
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
    char line[600];
    write_source(source);
    step("rm -rf p; mkdir p; cp $(dirname $(which kiln))/kiln* p; PATH=$PWD/p:$PATH; for i in 1 2; do "
         "kiln build -q twice.kiln -t host -o k.kb; done; kiln cache stats --zero");
    snprintf(line, sizeof line,
             "PATH=$PWD/p:$PATH; cp -p p/kiln old; %s; ! cmp -s old p/kiln && touch -r old p/kiln; "
             "kiln build -q twice.kiln -t host -o k.kb; kiln cache stats --json",
             rows[i].change);
    char *out = in_folder(0, line);
    if (!strstr(out, rows[i].stored) || !strstr(out, "\"COMPILED\": 0,")) FAIL("%s: %s", rows[i].change, out);
    free(out);
  }
}

// ---------------------------------------------------------------------------------------- timeline

typedef struct timeline {
  unsigned phases, stages, hits, compiled;
  double end;    ///< of the last phase
  double worker; ///< the last that compiled
} timeline;

static double number(const kiln_json *event, const char *key) {
  const kiln_json *value = kiln_json_find(event, key);
  if (!value || value->kind != KILN_JSON_NUMBER) FAIL("an event has no number '%s'", key);
  return strtod(value->text, NULL);
}

static const char *text(const kiln_json *event, const char *key) {
  const char *value = kiln_json_text(event, key, NULL);
  if (!value) FAIL("an event has no text '%s'", key);
  return value;
}

static void take(timeline *t, const kiln_json *event) {
  if (strcmp(text(event, "ph"), "X")) {
    CHECK_TEXT(text(event, "ph"), "M");
    return;
  }
  double start = number(event, "ts"), length = number(event, "dur");
  const char *category = text(event, "cat");
  CHECK(start >= 0 && length >= 0 && *text(event, "name"));
  t->phases += !strcmp(category, "phase");
  t->stages += !strcmp(category, "stage");
  t->hits += !strcmp(category, "hit");
  t->compiled += !strcmp(category, "compiled");
  if (!strcmp(category, "phase") && start + length > t->end) t->end = start + length;
  else if (!strcmp(category, "compiled") && number(event, "tid") < 1) FAIL("a compile has no worker");
  if (!strcmp(category, "compiled") && number(event, "tid") > t->worker) t->worker = number(event, "tid");
}

static timeline read_trace(void) {
  timeline t = {0};
  char path[512];
  size_t size;
  kiln_error err = {0};
  const kiln_json *root;
  kiln_arena *arena = kiln_arena_create();
  snprintf(path, sizeof path, "%s/t.json", kiln_test_folder());
  char *bytes = kiln_test_read(path, &size);
  CHECK(bytes);
  CHECK_OK(kiln_json_parse(arena, bytes, size, &root, &err), err);
  const kiln_json *events = kiln_json_find(root, "traceEvents");
  CHECK(events);
  for (const kiln_json *e = events->first; e; e = e->next) take(&t, e);
  kiln_arena_destroy(arena);
  free(bytes);
  return t;
}

TEST(build_command, the_trace_has_each_object) {
  expect(0, "-q -t host,sm_80,gfx942 --trace t.json", "");
  timeline cold = read_trace();
  CHECK_INT(cold.phases, 3);
  CHECK_INT(cold.compiled, 3);
  CHECK_INT(cold.hits, 0);
  if (cold.stages < 9) FAIL("%u stages of 3 compiles", cold.stages);
  CHECK(cold.end > 0);
  expect(0, "-q -t host,sm_80,gfx942 --trace t.json", "");
  timeline warm = read_trace();
  CHECK_INT(warm.compiled, 0);
  CHECK_INT(warm.hits, 3);
  CHECK_INT(warm.stages, 0);
}

// A part of a machine is all that taskset or a container gives: so many compile at once, not one for each
// processor of the machine.
TEST(build_command, there_is_a_worker_for_each_usable_processor) {
  cpu_set_t usable, one;
  int first = 0;
  if (sched_getaffinity(0, sizeof usable, &usable) || CPU_COUNT(&usable) < 2) SKIP("there is one processor");
  while (!CPU_ISSET(first, &usable)) first++;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  CHECK_INT(sched_setaffinity(0, sizeof one, &one), 0);
  expect(0, "-q -t host,sm_80,gfx942,gfx1100 --trace t.json", "");
  CHECK_INT(read_trace().worker, 1);
  CHECK_INT(sched_setaffinity(0, sizeof usable, &usable), 0);
  expect(0, "-q -t sm_90,gfx90a,gfx1200,sm_86 --trace t.json", "");
  CHECK(read_trace().worker > 1);
}

// --------------------------------------------------------- assemblers that do not know a processor

/// A library with NVIDIA's entry points that refuses every processor as its next version refuses old ones.
static void make_library(void) {
  static const char text[] = "#include <stddef.h>\n#include <stdint.h>\n"
                             "#define REST(name) int name(void *handle) { return handle == NULL; }\n"
                             "int nvJitLinkCreate(void **handle, uint32_t count, const char **options) { "
                             "return (void)handle, (void)count, (void)options, 17; }\n"
                             "REST(nvJitLinkDestroy) REST(nvJitLinkAddData) REST(nvJitLinkComplete) "
                             "REST(nvJitLinkGetLinkedCubinSize)\n"
                             "REST(nvJitLinkGetLinkedCubin) REST(nvJitLinkGetErrorLogSize) "
                             "REST(nvJitLinkGetErrorLog) REST(nvJitLinkGetInfoLogSize)\n"
                             "REST(nvJitLinkGetInfoLog)\n";
  char path[512], *out;
  snprintf(path, sizeof path, "%s/link.c", kiln_test_folder());
  kiln_test_write(path, text, sizeof text - 1);
  if (kiln_test_run(&out, "gcc -shared -fPIC -o %s/liblink.so %s", kiln_test_folder(), path)) FAIL("%s", out);
  free(out);
}

static void make_program(void) {
  static const char text[] = "#!/bin/sh\necho \"ptxas fatal   : Value 'sm_70' is not defined for option "
                             "'gpu-name'\" >&2\nexit 255\n";
  char path[512];
  snprintf(path, sizeof path, "%s/ptxas", kiln_test_folder());
  kiln_test_write(path, text, sizeof text - 1);
  chmod(path, 0755);
}

TEST(build_command, an_old_processor_gets_ptx_and_a_note) {
  static const char *const tools[][2] = {
      {"nvjitlink --assembler-path=$PWD/liblink.so", "libnvJitLink does not know sm_70"},
      {"ptxas --assembler-path=$PWD/ptxas", "ptxas does not know sm_70"}};
  char words[300], want[300], *out;
  make_library();
  make_program();
  for (unsigned i = 0; i < 2; i++) {
    snprintf(words, sizeof words, "-t sm_70 --ptx-assembler=%s", tools[i][0]);
    snprintf(want, sizeof want, "1 object for sm_70 is PTX, which the driver compiles when it loads: %s",
             tools[i][1]);
    expect(0, words, "1 compiled");
    expect(0, words, want); // a hit says so too
    if (kiln_test_run(&out, "%s/bin/kiln inspect --json %s/k.kb", kiln_test_build(), kiln_test_folder()))
      FAIL("%s", out);
    CHECK(strstr(out, "\"ptx\""));
    free(out);
    strcat(words, " --emit=cubin"); // who asks for a cubin gets one or an error, and not the other's entry
    expect(1, words, tools[i][1]);
  }
}

TEST(build_command, without_an_assembler_a_note_says_so) {
  expect(0, "-t sm_80 --ptx-assembler=none", "1 objects, 0 from the cache, 1 compiled");
  char *out = build(0, "-t sm_80 --ptx-assembler=none");
  CHECK(!strstr(out, "note:")); // it was asked for
  free(out);
}
