// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the keys that `kiln key` prints for a kernel: each row of the option table, the target, the source
// and what must not matter are changed one at a time. Prints what was expected and found. (axes A1 to A19,
// B1 to B10; fault tests 25, 28, 29; behaviours 1 to 4, 10 to 12, 20)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/options.h"
#include "tests/harness.h"

enum { KEY = 64 };

static const char source[] =
    "kiln 1\n"
    "const TWO = 2.0\n"
    "fn twice(v) { return v * TWO }\n"
    "kernel add[BLOCK: tune = 1024](x: in *f32 @align(16), y: out *f32 @align(16), n: i32)\n"
    "  @grid(cdiv(n, BLOCK)) @config(BLOCK = 1024, warps = 4)\n"
    "{\n"
    "  let i = pid(0) * BLOCK + iota(BLOCK)\n"
    "  let live = i < n\n"
    "  store(y + i, load(x + i, live, 0.0) + 1.0, live)\n"
    "}\n";

/// The first key printed for the text under these arguments and this environment; false when there is none.
static bool key_of(const char *text, const char *env, const char *folder, const char *arguments,
                   char out[KEY + 1]) {
  char path[300], *printed, root[1000];
  CHECK(getcwd(root, sizeof root));
  snprintf(path, sizeof path, "%s/%s", kiln_test_folder(), folder);
  kiln_test_run(NULL, "mkdir -p %s", path);
  snprintf(path, sizeof path, "%s/%s/k.kiln", kiln_test_folder(), folder);
  kiln_test_write(path, text, strlen(text));
  *strrchr(path, '/') = 0;
  int code = kiln_test_run(&printed,
                           "cd %s && env %s KILN_CACHE_DIR=%s/cache %s/%s/bin/kiln key --no-cache %s k.kiln",
                           path, env, kiln_test_folder(), root, kiln_test_build(), arguments);
  bool found = !code && strspn(printed, "0123456789abcdef") == KEY;
  snprintf(out, KEY + 1, "%s", found ? printed : "");
  free(printed);
  return found;
}

#define NORMAL "-t sm_90 --ptx-assembler=none"

static char base[KEY + 1];

/// `kiln build` of the text in the cache that holds the base; what it prints is the caller's to free.
static int build(const char *text, const char *arguments, const char *more, char **out) {
  char path[300];
  snprintf(path, sizeof path, "%s/k.kiln", kiln_test_folder());
  kiln_test_write(path, text, strlen(text));
  return kiln_test_run(out, "KILN_CACHE_DIR=%s/cache %s/bin/kiln build -q %s %s -o %s/k.kb %s 2>&1",
                       kiln_test_folder(), kiln_test_build(), arguments, more, kiln_test_folder(), path);
}

/// `kiln compile` of the same: it knows by the bytes of a source what came of it.
static int compile(const char *text, const char *arguments, const char *more, char **out) {
  char path[300];
  snprintf(path, sizeof path, "%s/k.kiln", kiln_test_folder());
  kiln_test_write(path, text, strlen(text));
  return kiln_test_run(out, "KILN_CACHE_DIR=%s/cache %s/bin/kiln compile -q %s %s %s 2>&1",
                       kiln_test_folder(), kiln_test_build(), arguments, more, path);
}

static void take(const char *text, const char *arguments) {
  char *out;
  if (!key_of(text, "", "a", arguments, base)) FAIL("no key for the base");
  if (build(text, arguments, "", &out)) FAIL("the base does not build: %s", out);
  free(out);
  for (unsigned i = 0; i < 2; i++) {
    if (compile(text, arguments, i ? "--must-hit" : "", &out)) FAIL("the base does not compile: %s", out);
    free(out);
  }
}

static void take_base(void) { take(source, NORMAL); }

/// The cache holds the base alone: a build that must hit fails and names `field`, nothing else when `alone`.
static void expect_named(const char *what, const char *text, const char *arguments, const char *field,
                         bool alone) {
  char *out;
  int code = build(text, arguments, "--must-hit", &out);
  const char *at = strstr(out, "differ");
  if (code != 1 || !at || !strstr(at, field) || (alone && !strstr(out, ", 1 field differs")))
    FAIL("%s: expected '%s'%s to be named, found (%d):\n%s", what, field, alone ? " alone" : "", code, out);
  free(out);
  if (strstr(arguments, "--emit=ir")) return; // needs no object
  if (compile(text, arguments, "--must-hit", &out) != 1)
    FAIL("%s: kiln compile takes it for what it compiled before: %s", what, out);
  free(out);
}

static void expect(bool same, const char *what, const char *text, const char *env, const char *folder,
                   const char *arguments) {
  char key[KEY + 1];
  if (!key_of(text, env, folder, arguments, key)) FAIL("%s: no key", what);
  bool equal = !strcmp(key, base);
  printf("%-40s expected: %-11s seen: %s\n", what, same ? "the same," : "another,",
         equal ? "the same" : "another");
  if (equal != same) FAIL("%s: expected %s key", what, same ? "the same" : "another");
}

/// Another key, and the build says which field made it.
static void expect_other(const char *what, const char *text, const char *arguments, const char *field,
                         bool alone) {
  expect(false, what, text, "", "a", arguments);
  expect_named(what, text, arguments, field, alone);
}

/// What NORMAL says in other words: without an assembler, the form that `auto` chooses is PTX.
static bool says_nothing_new(const kiln_option_info *o, unsigned value) {
  return !o->in_key || value == o->fallback || (!strcmp(o->name, "emit") && value == KILN_FORMAT_PTX);
}

TEST(key_matrix, every_row_of_the_option_table) {
  take_base();
  for (size_t i = 0; i < kiln_option_count(); i++) {
    const kiln_option_info *o = kiln_option_at(i);
    for (unsigned value = o->least; value <= o->most; value++) {
      kiln_codegen_options options;
      kiln_buffer text = {0};
      char what[100], arguments[200], key[KEY + 1];
      if (o->kind == KILN_OPTION_TEXT) kiln_buffer_format(&text, "/some/where");
      else {
        kiln_codegen_options_init(&options);
        memcpy((char *)&options + o->offset, &(uint8_t){(uint8_t)value}, 1);
        kiln_option_value(&options, o, &text);
      }
      snprintf(what, sizeof what, "--%s=%.*s", o->name, (int)text.size, (const char *)text.bytes);
      snprintf(arguments, sizeof arguments, "%s %s", NORMAL, what);
      kiln_buffer_deinit(&text);
      if (!key_of(source, "", "a", arguments,
                  key)) { // a form or a tool that this target or machine does not have
        printf("%-40s not available here\n", what);
        continue;
      }
      if (says_nothing_new(o, value)) expect(true, what, source, "", "a", arguments);
      else {
        char field[100];
        bool form =
            !strcmp(o->name, "emit") ||
            !strcmp(o->name, "ptx-assembler"); // they come out as the form itself and the tool that makes it
        snprintf(field, sizeof field, form ? "  format: " : "  option %s: ", o->name);
        bool brings_lines = !strcmp(o->name, "debug"); // a field of their own
        expect_other(what, source, arguments, field, !form && !brings_lines);
      }
    }
  }
}

/// The source with one text replaced by another.
static const char *changed(const char *from, const char *to) {
  static char text[2000];
  const char *at = strstr(source, from);
  CHECK(at);
  snprintf(text, sizeof text, "%.*s%s%s", (int)(at - source), source, to, at + strlen(from));
  return text;
}

TEST(key_matrix, the_source) {
  static const struct {
    const char *what, *from, *to, *field;
  } rows[] = {{"a comment", "{\n  let i", "{ // here\n  let i", NULL},
              {"lines moved", "  let live", "\n\n\n  let live", NULL},
              {"spaces", "x: in", "x:   in", NULL},
              {"a local name", "let live = i < n\n  store(y + i, load(x + i, live, 0.0) + 1.0, live)",
               "let m = i < n\n  store(y + i, load(x + i, m, 0.0) + 1.0, m)", NULL},
              {"an unrelated function", "fn twice", "fn other(v) { return v }\nfn twice", NULL},
              {"a literal", "+ 1.0", "+ -1.0", "  ir: "},
              {"an operation", ", 0.0) + 1.0", ", 0.0) - 1.0", " - "},
              {"a helper that is called", "+ 1.0", "+ twice(1.0)", "  ir: "},
              {"an alignment", "x: in *f32 @align(16)", "x: in *f32 @align(8)",
               "there: kernel this(p0: in *f32 @align(16)"},
              {"a fact about a parameter", "n: i32", "n: i32 @range(1, 1000)", "@range(1, 1000)"},
              {"a parameter more", "n: i32", "n: i32, m: i32", "  parameters"},
              {"a tuned value", "@config(BLOCK = 1024", "@config(BLOCK = 512", "there: let v4 = 1024 as i32"},
              {"warps", "warps = 4", "warps = 8", "there: @warps(4)"},
              {"the name", "kernel add", "kernel plus", "  symbol"}};
  take_base();
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *text = changed(rows[i].from, rows[i].to);
    if (rows[i].field) expect_other(rows[i].what, text, NORMAL, rows[i].field, false);
    else expect(true, rows[i].what, text, "", "a", NORMAL);
  }
}

TEST(key_matrix, what_a_helper_reaches) {
  char text[2000];
  snprintf(text, sizeof text, "%s", changed("+ 1.0", "+ twice(1.0)"));
  take(text, NORMAL);
  char *constant = strstr(text, "TWO = 2.0");
  constant[6] = '3';
  expect_other("a constant that a helper uses", text, NORMAL, "  ir: ", true);
  take(changed("n: i32", "n: i32, m: i32"), NORMAL);
  expect_other("the width of a parameter nobody reads", changed("n: i32", "n: i32, m: i64"), NORMAL,
               "  parameters", false);
}

TEST(key_matrix, what_must_not_matter) {
  take_base();
  expect(true, "B1 no device visible", source, "CUDA_VISIBLE_DEVICES= ROCR_VISIBLE_DEVICES=", "a", NORMAL);
  expect(true, "B2 the target among others", source, "", "a", "--ptx-assembler=none --target=sm_90");
  expect(true, "B4 another process, an empty environment", source, "-i", "a", NORMAL);
  expect(true, "B4 locale and clock zone", source, "LC_ALL=de_DE.UTF-8 TZ=Asia/Tokyo", "a", NORMAL);
  expect(true, "B5 another folder", source, "", "somewhere/else", NORMAL);
  expect(true, "B6 a config for this processor alone",
         changed("warps = 4)", "warps = 4, targets = \"sm_90\")"), "", "a", NORMAL);
  expect(true, "B6 order of options", source, "", "a", "--ptx-assembler=none -t sm_90");
  expect(true, "B6 an option given twice, the default last", source, "", "a",
         NORMAL " --optimise=3 --optimise=2");
  expect(true, "B7 a default in words", source, "", "a", NORMAL " --optimise=2");
  expect(true, "settings of the cache", source,
         "KILN_CACHE_SIZE=1G KILN_CACHE_DOMAIN=pr-1 KILN_CACHE_LEVEL=3", "a", NORMAL);
  expect(true, "workers", source, "", "a", NORMAL " -j 1");
  expect(true, "B9 generated names",
         changed("let live = i < n\n  store(y + i, load(x + i, live, 0.0) + 1.0, live)",
                 "let v_17 = i < n\n  store(y + i, load(x + i, v_17, 0.0) + 1.0, v_17)"),
         "", "a", NORMAL);
}

/// The key of the file as it lies in the folder, after `command` ran there.
static void expect_same_after(const char *what, const char *command) {
  char *out, root[1000];
  CHECK(getcwd(root, sizeof root));
  int code = kiln_test_run(
      &out,
      "cd %s/b && (%s) >/dev/null 2>&1; env KILN_CACHE_DIR=%s/cache %s/%s/bin/kiln key --no-cache %s k.kiln",
      kiln_test_folder(), command, kiln_test_folder(), root, kiln_test_build(), NORMAL);
  bool equal = !code && !strncmp(out, base, KEY);
  printf("%-40s expected: the same,   seen: %s\n", what, equal ? "the same" : "another");
  if (!equal) FAIL("%s: expected the same key, found:\n%s", what, out);
  free(out);
}

TEST(key_matrix, surroundings_of_the_file_do_not_matter) {
  char *out;
  CHECK(key_of(source, "", "b", NORMAL, base));
  expect_same_after("B5 a file of long ago", "touch -d 1999-01-01 k.kiln");
  expect_same_after("B5 a file of the future", "touch -d 2037-01-01 k.kiln");
  expect_same_after("B8 a commit",
                    "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one");
  expect_same_after("B8 another commit",
                    "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m two");
  // Launches have arguments, keys have none: there is no way in for them.
  CHECK_INT(kiln_test_run(&out, "%s/bin/kiln key --no-cache %s -a x=ones:64 %s/b/k.kiln", kiln_test_build(),
                          NORMAL, kiln_test_folder()),
            2);
  printf("B3, B10 arguments and their contents     expected: refused,    seen: refused\n");
  free(out);
}

TEST(key_matrix, targets_never_alias) {
  static const char *const targets[] = {"sm_80",
                                        "sm_86",
                                        "sm_87",
                                        "sm_89",
                                        "sm_90",
                                        "sm_90a",
                                        "gfx90a",
                                        "gfx90a:xnack+",
                                        "gfx90a:xnack-",
                                        "gfx90a:sramecc+",
                                        "gfx90a:xnack+:sramecc+",
                                        "gfx942",
                                        "gfx1100",
                                        "gfx1101",
                                        "gfx1100:wave64",
                                        "gfx906",
                                        "gfx906:v4",
                                        "host"};
  enum { TARGETS = sizeof targets / sizeof *targets };
  char keys[TARGETS][KEY + 1], arguments[100];
  for (unsigned i = 0; i < TARGETS; i++) {
    snprintf(arguments, sizeof arguments, "--ptx-assembler=none -t %s", targets[i]);
    if (!key_of(source, "", "a", arguments, keys[i])) FAIL("no key for %s", targets[i]);
    for (unsigned k = 0; k < i; k++)
      if (!strcmp(keys[i], keys[k])) FAIL("%s and %s have one key", targets[i], targets[k]);
  }
  take(source, "--ptx-assembler=none -t sm_90a");
  for (unsigned i = 0; i < TARGETS; i++) {
    if (!strcmp(targets[i], "sm_90a")) continue;
    snprintf(arguments, sizeof arguments, "--ptx-assembler=none -t %s", targets[i]);
    expect_other(targets[i], source, arguments, "  processor: ", false);
  }
  take(source, "--ptx-assembler=none -t gfx90a");
  expect_other("gfx90a:xnack+", source, "--ptx-assembler=none -t gfx90a:xnack+", "  feature xnack: \"on\"",
               false);
  expect_other("gfx90a:sramecc+", source, "--ptx-assembler=none -t gfx90a:sramecc+",
               "  feature sramecc: \"on\"", false);
  take(source, "--ptx-assembler=none -t gfx906");
  expect_other("gfx906:v4", source, "--ptx-assembler=none -t gfx906:v4", "  format version", true);
  CHECK(key_of(source, "", "a", "--ptx-assembler=none -t host", base));
  expect(true, "host is x86-64-v3", source, "", "a", "--ptx-assembler=none -t x86-64-v3");
}
