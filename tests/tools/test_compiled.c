// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that `kiln compile` does not parse a source that it compiled before, and that it nevertheless
// makes, prints and returns what a compile without a cache does. Changes of sources, options, targets,
// choices, tools and of the cache itself are drawn; each command is run twice with the cache and once
// without. Changes that do not matter are drawn too, and must hit.
//
// KILN_TEST_ROUNDS says how many rounds a search has.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/options.h"
#include "tests/harness.h"

// Has a warning (a config that no launch takes), a note of PTX for NVIDIA, several configs and variants.
static const char kiln_source[] =
    "kiln 1\nconst TWO = 2.0\nfn twice(v) { return v * TWO }\n"
    "kernel scale[T: type = f32, BLOCK: tune = 64](x: inout *T @align(64), n: i32 "
    "@range(1, 100000)) @grid(cdiv(n, BLOCK))\n"
    "  @instance(T = f32) @instance(T = f16) @variant(n % 16 == 0)\n"
    "  @config(BLOCK = 256, warps = 1) @config(BLOCK = 512, warps = 2)\n{\n"
    "  let i = pid(0) * BLOCK + iota(BLOCK)\n  let unused = i + 1\n"
    "  store(x + i, (twice(load(x + i, i < n) as f32)) as T, i < n)\n}\n";

static const char ttir_source[] =
    "module {\n  tt.func public @add_one(%arg0: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %arg1: i32) {\n"
    "    %c64 = arith.constant 64 : i32\n    %one = arith.constant dense<1.0> : tensor<64xf32>\n"
    "    %0 = tt.get_program_id x : i32\n    %1 = arith.muli %0, %c64 : i32\n"
    "    %2 = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>\n"
    "    %3 = tt.splat %1 : i32 -> tensor<64xi32>\n    %4 = arith.addi %3, %2 : tensor<64xi32>\n"
    "    %5 = tt.splat %arg1 : i32 -> tensor<64xi32>\n    %6 = arith.cmpi slt, %4, %5 : tensor<64xi32>\n"
    "    %7 = tt.splat %arg0 : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>\n"
    "    %8 = tt.addptr %7, %4 : tensor<64x!tt.ptr<f32>>, tensor<64xi32>\n"
    "    %9 = tt.load %8, %6 : tensor<64x!tt.ptr<f32>>\n    %10 = arith.addf %9, %one : tensor<64xf32>\n"
    "    tt.store %8, %10, %6 : tensor<64x!tt.ptr<f32>>\n    tt.return\n  }\n}\n";

static void write_in(const char *name, const char *text, size_t size) {
  kiln_test_write(kiln_test_path(name), text, size);
}

/// What a command leaves: exit code, standard output, standard error and the file, as one text.
static char *run(const char *words, const char *more) {
  char *out;
  kiln_test_run(&out,
                "cd %s && rm -f o; %s/bin/kiln compile %s %s -o o >said 2>told; echo \"exit code $?\"; cat "
                "said; echo ---; "
                "cat told; echo ---; [ ! -e o ] || md5sum <o",
                kiln_test_folder(), kiln_test_build_path(), words, more);
  return out;
}

/// `other`: commands whose result without a cache is not that of the command before.
typedef struct tally {
  unsigned commands, failed, warned, other;
  char *last;
} tally;

static unsigned rounds_of(unsigned quick, unsigned full) {
  const char *text = getenv("KILN_TEST_ROUNDS");
  return text ? (unsigned)strtoul(text, NULL, 10) : kiln_test_full() ? full : quick;
}

/// Twice with the cache and once without.
static void compare(const char *words, const char *what, tally *t) {
  char *fresh = run(words, "--no-cache");
  for (unsigned i = 0; i < 2; i++) {
    char *cached = run(words, "--cache-dir=cache");
    if (strcmp(cached, fresh))
      FAIL("%s: kiln compile %s, run %u with the cache:\n%s\nwithout:\n%s", what, words, i, cached, fresh);
    free(cached);
  }
  t->commands++;
  t->failed += strncmp(fresh, "exit code 0", 11) != 0;
  t->warned += strstr(fresh, "warning:") != NULL;
  t->other += t->last && strcmp(t->last, fresh) != 0;
  free(t->last);
  t->last = fresh;
}

/// Words that a command may have, in groups of which one is drawn at a time; "" is none. The first two are of
/// the kernel language alone, which has instances, configs and variants. Lines without an assembler: ptxas
/// writes the size of the source's file into a cubin's.
static const char *const groups[][12] = {
    {"-k 'scale[T=f32]'", "-k 'scale[T=f32]'", "-k 'scale[T=f32]'", "-k 'scale[T=f16]'", "-k scale", "",
     "-i 'scale[T=bf16]' -k 'scale[T=bf16]'"},
    {"", "", "", "--config 0", "--config 1", "--config 2", "--variant 0", "--variant 1",
     "--config 0 --variant 0", "--configs-all --config 1"},
    {"-t host", "-t sm_90", "-t sm_90a", "-t sm_80 --ptx-assembler=none", "-t gfx942", "-t gfx942:xnack+",
     "-t gfx1100", "-t gfx1100:wave64", "-t x86-64-v4", "-t host,gfx942"},
    {"", "", "", "-q", "-qq"},
    {"", "", "", "", "--emit=llvm", "--emit=asm", "--emit=ir", "--emit=ptx"},
    {"", "", "", "--optimise=0", "--optimise=1", "--optimise=3", "--debug --ptx-assembler=none",
     "--verify-passes"},
    {"", "", "", "", "--report", "--report=json", "--place 3", "--max-objects 1", "--warps 8", "--stages 2"}};
enum { GROUPS = sizeof groups / sizeof *groups, MOST = sizeof groups[0] / sizeof *groups[0], OF_KILN = 2 };

/// One word of each group; those of the kernel language are none for Triton IR.
typedef struct asked {
  const char *source, *words[GROUPS];
} asked;

static const char *draw_word(uint64_t *seed, unsigned group) {
  unsigned count = 0;
  while (count < MOST && groups[group][count]) count++;
  return groups[group][kiln_test_random(seed) % count];
}

static const char *text_of(const asked *c) {
  static char text[400];
  int at = snprintf(text, sizeof text, "%s", c->source);
  for (unsigned g = strstr(c->source, ".ttir") ? OF_KILN : 0; g < GROUPS; g++)
    at += snprintf(text + at, sizeof text - (size_t)at, " %s", c->words[g]);
  return text;
}

/// Another text at a drawn place: a byte changed, dropped, doubled, or a part written otherwise.
static void mutate(uint64_t *seed, char *text, size_t *size, size_t capacity) {
  static const char *const parts[][2] = {{"TWO = 2.0", "TWO = 3.0"},
                                         {"TWO = 3.0", "TWO = 2.0"},
                                         {"let unused = i + 1\n", "\n"},
                                         {"warps = 1)", "warps = 4)"},
                                         {"n % 16", "n % 8"},
                                         {"{\n", "{ // a comment\n"},
                                         {"kernel scale", "kernel other"},
                                         {"f16", "bf16"},
                                         {"dense<1.0>", "dense<2.0>"},
                                         {"@add_one", "@add_two"},
                                         {"100000", "100"},
                                         {"\n", "\n\n"}};
  size_t place = kiln_test_random(seed) % *size;
  unsigned how = (unsigned)(kiln_test_random(seed) % 6);
  if (how == 0) {
    text[place] = (char)(32 + kiln_test_random(seed) % 95);
  } else if (how == 1 && *size > 100) {
    memmove(text + place, text + place + 1, *size - place - 1), --*size;
  } else if (how == 2 && *size + 1 < capacity) {
    memmove(text + place + 1, text + place, *size - place), ++*size;
  } else {
    const char *const *part = parts[kiln_test_random(seed) % (sizeof parts / sizeof *parts)];
    size_t from = strlen(part[0]), to = strlen(part[1]);
    char *at = memmem(text, *size, part[0], from);
    if (!at || *size + to >= capacity) return;
    memmove(at + to, at + from, *size - (size_t)(at - text) - from);
    memcpy(at, part[1], to);
    *size += to - from;
  }
}

/// A round is a command, those that differ from it in one word, and it again after a change of the source.
static void search(uint64_t seed, const char *name, const char *source, unsigned rounds) {
  char text[4000];
  tally t = {0};
  printf("%s, seed %llu\n", name, (unsigned long long)seed);
  for (unsigned round = 0; round < rounds; round++) {
    size_t size = strlen(source);
    asked c = {.source = name};
    memcpy(text, source, size);
    write_in(name, text, size);
    for (unsigned g = 0; g < GROUPS; g++) c.words[g] = round % 2 ? draw_word(&seed, g) : groups[g][0];
    c.words[OF_KILN] = draw_word(&seed, OF_KILN);
    compare(text_of(&c), name, &t);
    for (unsigned g = 0; g < GROUPS; g++) {
      asked other = c;
      other.words[g] = draw_word(&seed, g);
      compare(text_of(&other), name, &t);
    }
    for (unsigned i = 0; i < 3; i++) {
      mutate(&seed, text, &size, sizeof text);
      write_in(name, text, size);
      compare(text_of(&c), name, &t);
    }
    if (strstr(name, ".ttir"))
      write_in("k.json", round % 2 ? "{\"num_warps\": 8}" : "{\"num_warps\": 2}", 16);
  }
  printf("%u commands, %u of them fail, %u warn, %u with another result than the one before\n", t.commands,
         t.failed, t.warned, t.other);
  free(t.last);
  CHECK(t.failed < t.commands * 3 / 4);
}

TEST(compiled, drawn_changes_of_a_kernel) { search(51, "k.kiln", kiln_source, rounds_of(12, 300)); }

TEST(compiled, drawn_changes_of_triton_ir) { search(52, "k.ttir", ttir_source, rounds_of(12, 300)); }

// ------------------------------------------------------------------------- what does not matter

/// Words of a command of which the last one counts, in any order; and what they say by default.
static const char *const spare[] = {"--optimise=2", "--verify-passes", "-q", "-qq", ""};
static const char *const around[] = {
    "LC_ALL=de_DE.UTF-8", "TZ=Asia/Tokyo",       "CUDA_VISIBLE_DEVICES=", "HOME=/nowhere",
    "TERM=dumb",          "KILN_CACHE_SIZE=1G",  "KILN_CACHE_LEVEL=3",    "MALLOC_PERTURB_=85",
    "COLUMNS=20",         "SOURCE_DATE_EPOCH=7", "ROCR_VISIBLE_DEVICES=", ""};
/// What is done to the source, $f: all of it keeps every operation.
static const char *const edits[] = {"touch -d 1999-01-01 $f",
                                    "touch -d 2037-01-01 $f",
                                    "sed -i '1s/^/\\/\\/ a comment\\n/' $f",
                                    "printf '\\n\\n' >>$f",
                                    "sed -i 's/  *$/ /' $f",
                                    "cp $f x && mv x $f",
                                    "chmod 400 $f",
                                    ":"};

#define DRAW(list) (list)[kiln_test_random(&seed) % (sizeof(list) / sizeof *(list))]

TEST(compiled, drawn_changes_that_do_not_matter) {
  static const char *const lines[][3] = {{"k.kiln", "-t host", "-k 'scale[T=f32]'"},
                                         {"k.kiln", "-t gfx942", "-k 'scale[T=f16]'"},
                                         {"k.kiln", "-t sm_90a --ptx-assembler=none", "-k 'scale[T=f32]'"},
                                         {"k.ttir", "-t gfx1100", "--warps 8"},
                                         {"k.ttir", "-t host", ""}};
  const unsigned rounds = rounds_of(40, 400);
  uint64_t seed = 54;
  printf("seed %llu\n", (unsigned long long)seed);
  write_in("k.kiln", kiln_source, sizeof kiln_source - 1);
  write_in("k.ttir", ttir_source, sizeof ttir_source - 1);
  for (unsigned round = 0; round < rounds; round++) {
    char command[1500], *out;
    const char *const *line = DRAW(lines), *env = DRAW(around), *more = DRAW(around), *edit = DRAW(edits),
                      *word = DRAW(spare);
    const bool is_turned = kiln_test_random(&seed) % 2;
    snprintf(command, sizeof command,
             "cd %s && export KILN_CACHE_DIR=$PWD/cache && f=%s && rm -rf other%u && mkdir other%u && "
             "%s/bin/kiln compile -q %s %s -o want $f && cp $f other%u && cd other%u && %s && "
             "env %s %s %s/bin/kiln compile -q --must-hit %s %s %s -o found $f && cmp ../want found",
             kiln_test_folder(), line[0], round % 3, round % 3, kiln_test_build_path(), line[1], line[2],
             round % 3, round % 3, edit, env, more, kiln_test_build_path(), line[is_turned ? 2 : 1], word,
             line[is_turned ? 1 : 2]);
    if (kiln_test_run(&out, "(%s) 2>&1", command)) FAIL("round %u: %s\n%s", round, command, out);
    free(out);
  }
  printf("%u changes that do not matter, %u hits\n", rounds, rounds);
}

/// Each option, each value: the command after another one that differs in it alone.
TEST(compiled, every_option_after_its_default) {
  tally t = {0};
  char words[300];
  write_in("k.kiln", kiln_source, sizeof kiln_source - 1);
  for (size_t i = 0; i < kiln_option_count(); i++) {
    const kiln_option_info *o = kiln_option_at(i);
    if (o->kind == KILN_OPTION_TEXT || !strcmp(o->name, "print-after")) continue;
    for (unsigned value = o->least; value <= o->most; value++) {
      kiln_codegen_options options;
      kiln_buffer text = {0};
      kiln_codegen_options_init(&options);
      memcpy((char *)&options + o->offset, &(uint8_t){(uint8_t)value}, 1);
      kiln_option_value(&options, o, &text);
      compare("k.kiln -t gfx942 -k 'scale[T=f32]'", "the default", &t);
      snprintf(words, sizeof words, "k.kiln -t gfx942 -k 'scale[T=f32]' --%s=%.*s", o->name, (int)text.size,
               (const char *)text.bytes);
      compare(words, o->name, &t);
      kiln_buffer_deinit(&text);
    }
  }
  printf("%u commands\n", t.commands);
  CHECK(t.commands > 20);
}

/// The same of what chooses an object, and of what Triton IR is compiled with.
TEST(compiled, every_choice_after_another) {
  static const char *const lines[] = {
      "k.kiln -t gfx942 -k 'scale[T=f32]'",
      "k.kiln -t gfx942 -k 'scale[T=f32]' --variant 0",
      "k.kiln -t gfx942 -k 'scale[T=f32]' --variant 1",
      "k.kiln -t gfx942 -k 'scale[T=f32]' --configs-all --config 1",
      "k.kiln -t gfx942 -k 'scale[T=f32]' --configs-all --config 1 --variant 0",
      "k.kiln -t gfx942 -k 'scale[T=f16]'",
      "k.ttir -t gfx942",
      "k.ttir -t gfx942 --warps 8",
      "k.ttir -t gfx942 --warps 2",
      "k.ttir -t gfx942 --stages 2",
      "k.ttir -t gfx1100",
      "k.ttir -t gfx1100:wave64"};
  tally t = {0};
  char *codes[sizeof lines / sizeof *lines];
  unsigned different = 0;
  write_in("k.kiln", kiln_source, sizeof kiln_source - 1);
  write_in("k.ttir", ttir_source, sizeof ttir_source - 1);
  for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++) {
    compare(lines[i], "a choice", &t);
    codes[i] = run(lines[i], "--cache-dir=cache");
    different += !i || strcmp(codes[i], codes[i - 1]) != 0;
  }
  for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++) free(codes[i]);
  CHECK_INT(t.failed, 0);
  CHECK(different > 9);
}

static char *in_folder(const char *command) {
  char *out;
  if (kiln_test_run(&out, "cd %s && PATH=%s/bin:$PATH && export KILN_CACHE_DIR=$PWD/cache && %s",
                    kiln_test_folder(), kiln_test_build_path(), command))
    FAIL("%s: %s", command, out);
  return out;
}

/// Entries of the cache that are gone, empty, cut or damaged, any of them: what they held is made again.
TEST(compiled, damaged_and_missing_entries) {
  uint64_t seed = 53;
  tally t = {0};
  char command[400];
  printf("seed %llu\n", (unsigned long long)seed);
  write_in("k.kiln", kiln_source, sizeof kiln_source - 1);
  for (unsigned round = 0; round < 24; round++) {
    static const char *const changes[] = {"rm -f $e", ": > $e", "head -c 100 $e > t; cat t > $e",
                                          "printf x | dd of=$e bs=1 seek=%u conv=notrunc"};
    compare("k.kiln -t gfx942 -k 'scale[T=f32]'", "damage", &t);
    char change[200];
    snprintf(change, sizeof change, changes[round % 4], (unsigned)(kiln_test_random(&seed) % 1500));
    snprintf(command, sizeof command,
             "for e in $(ls cache/v1/main.default/entries/*/* | sed -n %up); do chmod u+w $e; %s; done 2>&1",
             1 + (unsigned)(kiln_test_random(&seed) % 2), change);
    free(in_folder(command));
  }
  CHECK_INT(t.failed, 0);
}

/// What the second run does: a hit, nothing stored, and the warning again.
TEST(compiled, an_unchanged_kernel_is_a_hit) {
  write_in("k.kiln", kiln_source, sizeof kiln_source - 1);
  free(in_folder("kiln compile -t gfx942 -k 'scale[T=f32]' -o o k.kiln 2>told && kiln cache stats --zero"));
  char *out = in_folder(
      "kiln compile --must-hit -t gfx942 -k 'scale[T=f32]' -o o k.kiln 2>again && cmp told again && "
      "grep -q warning: again && kiln cache stats --json");
  if (!strstr(out, "\"HIT_LOCAL\": 1,") || !strstr(out, "\"misses\": 0,") || !strstr(out, "\"STORED\": 0,"))
    FAIL("%s", out);
  free(out);
  // Another front end, and another code generator, believe nothing of it; the same ones, stripped, all.
  out = in_folder(
      "mkdir p && cp $(dirname $(which kiln))/kiln* p && export PATH=$PWD/p:$PATH && strip p/kiln && "
      "kiln compile --must-hit -t gfx942 -k 'scale[T=f32]' -o o k.kiln && kiln cache stats --zero && "
      "LC_ALL=C sed -i 's/did you mean/did yuo mean/' p/kiln && "
      "kiln compile --must-hit -t gfx942 -k 'scale[T=f32]' -o o k.kiln && kiln cache stats --json");
  if (!strstr(out, "\"HIT_LOCAL\": 1,") || !strstr(out, "\"STORED\": 1,")) FAIL("%s", out);
  free(out);
}

/// A cache that may not be written says so as often as it did, and serves.
TEST(compiled, a_cache_that_is_only_read) {
  write_in("k.kiln", kiln_source, sizeof kiln_source - 1);
  free(in_folder(
      "kiln build -q -t gfx942 -k 'scale[T=f32]' -o k.kb k.kiln && export KILN_CACHE_READ_ONLY=1 && "
      "kiln compile --must-hit -t gfx942 -k 'scale[T=f32]' -o o k.kiln 2>one && "
      "kiln compile --must-hit -t gfx942 -k 'scale[T=f32]' -o o k.kiln 2>two && cmp one two && ! grep note: "
      "one && "
      "[ $(ls cache/v1/main.default/entries/*/* | wc -l) -ge 1 ]"));
}
