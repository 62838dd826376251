// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the fuzz targets for texts without a fuzzer: on kept inputs (tests/fuzz/corpus), and on sources and
// canonical bytes changed at random from printed seeds.
#include <dirent.h>

#define FUZZ_NO_ENTRY
#include "tests/fuzz/fuzz_canonical.c"
#include "tests/fuzz/fuzz_checker.c"
#include "tests/fuzz/fuzz_kir.c"
#include "tests/fuzz/fuzz_parser.c"
#include "tests/fuzz/fuzz_tuned.c"
#include "tests/harness.h"

enum { LARGEST_INPUT = FUZZ_LARGEST };

typedef void fuzz_function(kiln_arena *arena, const uint8_t *bytes, size_t size);

static void feed(fuzz_function *function, const uint8_t *bytes, size_t size) {
  kiln_arena *arena = kiln_arena_create();
  function(arena, bytes, size);
  kiln_arena_destroy(arena);
}

static size_t read_into(const char *path, uint8_t *out) {
  size_t size;
  char *text = kiln_test_read(path, &size);
  if (!text) return 0;
  if (size > LARGEST_INPUT - 1) size = LARGEST_INPUT - 1;
  memcpy(out, text, size);
  free(text);
  return size;
}

// How many files there were.
static unsigned replay_folder(fuzz_function *function, const char *folder) {
  static uint8_t bytes[LARGEST_INPUT];
  char path[600];
  DIR *d = opendir(folder);
  unsigned count = 0;
  if (!d) return 0;
  for (struct dirent *entry; (entry = readdir(d));) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    feed(function, bytes, read_into(path, bytes));
    count++;
  }
  closedir(d);
  return count;
}

TEST(front_replay, corpus) { CHECK(replay_folder(fuzz_checker, "tests/fuzz/corpus/checker") > 0); }

// Tables of tuned choices: kept inputs, and each with bytes changed, dropped and doubled.
TEST(front_replay, tuned_tables) {
  uint64_t state = 97;
  size_t size;
  CHECK(replay_folder(fuzz_tuned, "tests/fuzz/corpus/tuned") > 2);
  char *whole = kiln_test_read("tests/fuzz/corpus/tuned/whole", &size);
  CHECK(whole);
  for (int i = 0; i < 20000; i++) {
    uint8_t bytes[1024];
    CHECK(size < sizeof bytes);
    memcpy(bytes, whole, size);
    for (uint64_t k = kiln_test_random(&state) % 4; k > 0; k--) {
      static const char likely[] = "= \"\\\n.0#ay\x7f\xff";
      bytes[kiln_test_random(&state) % size] =
          (uint8_t)likely[kiln_test_random(&state) % (sizeof likely - 1)];
    }
    feed(fuzz_tuned, bytes, kiln_test_random(&state) % 8 ? size : kiln_test_random(&state) % size);
  }
  free(whole);
}

TEST(front_replay, shipped_sources) {
  CHECK(replay_folder(fuzz_parser, "kernels") > 5);
  CHECK(replay_folder(fuzz_checker, "kernels") > 5);
}

// ----------------------------------------------------------------------------------- trees as text

static void read_back(const char *text) {
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  kiln_module *module = kiln_parse(arena, "a.kiln", text, strlen(text), &d);
  if (d.count) FAIL("%u:%u: %s", d.items[0].line, d.items[0].column, d.items[0].text);
  check_tree(arena, module);
  kiln_arena_destroy(arena);
}

TEST(front_replay, trees_keep_precedence) {
  read_back(
      "kiln 1\nconst a = -(1 + 2) * (3 - (4 - 5)) - 6 as i64[_, :] + ((1 < 2) == (3 < 4)) as i32 << 2 & ~-1\n"
      "const b = (-1) as f32 + (-x)[0] + *f32 + 0x1.8p-3 + 1e300 + nan + \"a\\\"\\\\\\n\"\n");
}

TEST(front_replay, trees_keep_statements) {
  read_back("kiln 1\nkernel k[A: i32 = 1, T: type = f32, B: tune = 2](p: inout *T @align(16), v: view f32[A, "
            "_]) @grid(1) @config(B = 3) {\n"
            "  let x = if A < 2 { yield 1 } else if A < 3 { yield 2 } else { yield 3 }\n  var y, z = 1, 2\n"
            "  for i in 0 .. 4 step 2 @unroll(2) { y = i }\n  while y < 2 { y, z = z, y }\n  loop h = 1 "
            "@stages(2) { break q = 2 if h > 1 }\n"
            "  when A == 1 { store(p, x) } else { atomic.add(p, 1.0, order = relaxed) }\n  return\n}\nfn "
            "f(a, b: f32) { return a, b }\n");
}

// That the other telling does change what it should.
TEST(front_replay, told_differently) {
  static const char text[] = "kiln 1\n// comment\nconst two = 2.0\nfn twice(x) { return x * two }\n"
                             "kernel k[N: tune = 4](p: inout *f32) @grid(1) @config(N = 8) { let v = load(p, "
                             "cache = cg)\n atomic.add(p, twice(v), order = relaxed) }\n";
  static const char want[] =
      "kiln 1\nkernel other_k[other_N: tune = 4](other_p: inout *f32) @grid(1) @config(other_N = 8) {\nlet "
      "other_v = load(other_p, cache = cg)\n"
      "atomic.add(other_p, other_twice(other_v), order = relaxed)\n}\nfn other_twice(other_x) {\nreturn "
      "other_x * other_two\n}\nconst other_two = 0x1p+1\n";
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  kiln_buffer out = {0};
  tree_text_differently(kiln_parse(arena, "a.kiln", text, sizeof text - 1, &d), &out);
  kiln_buffer_u8(&out, 0);
  CHECK_TEXT((const char *)out.bytes, want);
  kiln_buffer_deinit(&out);
  kiln_arena_destroy(arena);
}

// ------------------------------------------------------------------------------------------ storms

// One change: a byte, a piece removed, a piece copied elsewhere, a piece of punctuation.
static size_t mutate(uint8_t *bytes, size_t size, uint64_t *state) {
  static const char pieces[][8] = {"(",   ")",    "{",   "}",     "[",      "]",      ",",  "..",
                                   "as",  "let ", "if ", "loop ", "= ",     "*",      "@",  "1",
                                   "0.5", "i32",  "n",   "\"",    "break ", "yield ", "%7", " @l1",
                                   "-1",  "64",   "\n",  "with ", "split="};
  uint64_t r = kiln_test_random(state);
  size_t at = kiln_test_random(state) % size, from = kiln_test_random(state) % size,
         length = kiln_test_random(state) % 40;
  if (from + length > size) length = size - from;
  switch (r % 4) {
  case 0: bytes[at] = (uint8_t)(r >> 8); return size;
  case 1:
    if (length >= size - 2) return size;
    memmove(bytes + from, bytes + from + length, size - from - length);
    return size - length;
  case 2:
    if (at + length > size) length = size - at;
    memmove(bytes + at, bytes + from, length);
    return size;
  default: {
    const char *piece = pieces[(r >> 8) % (sizeof pieces / sizeof *pieces)];
    size_t more = strlen(piece);
    if (size + more > LARGEST_INPUT) return size;
    memmove(bytes + at + more, bytes + at, size - at);
    memcpy(bytes + at, piece, more);
    return size + more;
  }
  }
}

static void storm(fuzz_function *function, const uint8_t *seed, size_t size, unsigned rounds,
                  uint64_t state) {
  static uint8_t bytes[LARGEST_INPUT];
  printf("seed %llu, %u rounds\n", (unsigned long long)state, rounds);
  for (unsigned i = 0; i < rounds; i++) {
    size_t now = size;
    memcpy(bytes, seed, size);
    for (uint64_t changes = 1 + kiln_test_random(&state) % 4; changes; changes--)
      now = mutate(bytes, now, &state);
    feed(function, bytes, now);
  }
}

TEST(front_replay, changed_sources) {
  static const char *const seeds[] = {"tests/golden/front/operations.kiln", "tests/golden/front/five.kiln",
                                      "tests/golden/front/mistakes.kiln"};
  static uint8_t bytes[LARGEST_INPUT];
  unsigned rounds = kiln_test_full() ? 40000 : 1500;
  for (size_t i = 0; i < 3; i++) {
    size_t size = read_into(seeds[i], bytes);
    CHECK(size > 100);
    storm(fuzz_checker, bytes, size, rounds, 20 + i);
    storm(fuzz_parser, bytes, size, rounds, 30 + i);
  }
}

// Kernels at a stage: kept inputs, those of the tests of passes, and these changed.
TEST(front_replay, kernels_between_passes) {
  static const char *const seeds[] = {"beside.roles",
                                      "layouts_mma.layouts",
                                      "converted_queries.conversions",
                                      "double_buffer.double-buffer",
                                      "views_first.views",
                                      "recover.recover",
                                      "chiplets.chiplets",
                                      "layouts_wgmma.layouts",
                                      "fetch.simplify-form",
                                      "guard.guard"};
  static uint8_t bytes[LARGEST_INPUT];
  CHECK(replay_folder(fuzz_kir, "tests/fuzz/corpus/kir") > 0);
  CHECK(replay_folder(fuzz_kir, "tests/text/passes") > 50);
  for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
    char path[200];
    snprintf(path, sizeof path, "tests/text/passes/%s.kir", seeds[i]);
    size_t size = read_into(path, bytes);
    CHECK(size > 100);
    storm(fuzz_kir, bytes, size, kiln_test_full() ? 40000 : 800, 400 + i);
  }
}

TEST(front_replay, changed_bytes) {
  static uint8_t bytes[LARGEST_INPUT];
  size_t size;
  char *text = kiln_test_read("tests/golden/front/operations.kiln", &size);
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  kiln_target target;
  kiln_error err;
  CHECK_OK(kiln_target_parse("gfx942", &target, &err), err);
  kiln_unit *unit = text ? kiln_unit_open(arena, "operations.kiln", text, size, NULL, &d) : NULL;
  CHECK(unit);
  for (size_t i = 0; i < kiln_unit_instance_count(unit); i++) {
    ir_kernel *kernel = kiln_unit_lower(unit, arena, i, 0, 0, &target, &d);
    kiln_buffer b = {0};
    CHECK(kernel);
    kiln_canonical_encode(kernel, &b);
    CHECK(b.size < LARGEST_INPUT);
    memcpy(bytes, b.bytes, b.size);
    storm(fuzz_canonical, bytes, b.size, kiln_test_full() ? 100000 : 5000, 40 + i);
    kiln_buffer_deinit(&b);
  }
  kiln_arena_destroy(arena);
  free(text);
}
