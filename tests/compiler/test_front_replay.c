// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fuzz target of the front end without a fuzzer: kept inputs (tests/fuzz/corpus/front) replayed, and sources and canonical bytes changed at
// random from printed seeds.
#include <dirent.h>

#include "tests/fuzz/fuzz_front.c"
#include "tests/harness.h"

enum { LARGEST_INPUT = 1 << 16 };

static size_t read_into(const char *path, uint8_t *out) {
  size_t size;
  char *text = kiln_test_read(path, &size);
  if (!text) return 0;
  if (size > LARGEST_INPUT - 1) size = LARGEST_INPUT - 1;
  memcpy(out, text, size);
  free(text);
  return size;
}

static void replay_folder(const char *folder) {
  static uint8_t bytes[LARGEST_INPUT];
  char path[600];
  DIR *d = opendir(folder);
  if (!d) return;
  for (struct dirent *entry; (entry = readdir(d));) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    LLVMFuzzerTestOneInput(bytes, read_into(path, bytes));
  }
  closedir(d);
}

TEST(front_replay, corpus) { replay_folder("tests/fuzz/corpus/front"); }

// One change: a byte, a piece removed, a piece copied elsewhere, a piece of punctuation.
static size_t mutate(uint8_t *bytes, size_t size, uint64_t *state) {
  static const char pieces[][8] = {"(", ")", "{", "}", "[", "]", ",", "..", "as", "let ", "if ", "loop ", "= ", "*", "@", "1", "0.5", "i32", "n", "\"", "break ", "yield "};
  uint64_t r = kiln_test_random(state);
  size_t at = 1 + kiln_test_random(state) % (size - 1), from = 1 + kiln_test_random(state) % (size - 1), length = kiln_test_random(state) % 40;
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

static void storm(const uint8_t *seed, size_t size, unsigned rounds, uint64_t state) {
  static uint8_t bytes[LARGEST_INPUT];
  printf("seed %llu, %u rounds\n", (unsigned long long)state, rounds);
  for (unsigned i = 0; i < rounds; i++) {
    size_t now = size;
    memcpy(bytes, seed, size);
    for (uint64_t changes = 1 + kiln_test_random(&state) % 4; changes; changes--) now = mutate(bytes, now, &state);
    bytes[0] = seed[0];
    LLVMFuzzerTestOneInput(bytes, now);
  }
}

TEST(front_replay, changed_sources) {
  static const char *const seeds[] = {"tests/golden/front/operations.kiln", "tests/golden/front/five.kiln", "tests/golden/front/mistakes.kiln"};
  static uint8_t bytes[LARGEST_INPUT];
  unsigned rounds = kiln_test_full() ? 40000 : 1500;
  for (size_t i = 0; i < 3; i++) {
    size_t size = read_into(seeds[i], bytes + 1);
    CHECK(size > 100);
    bytes[0] = 0;
    storm(bytes, size + 1, rounds, 20 + i);
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
    CHECK(b.size + 1 < LARGEST_INPUT);
    bytes[0] = 1;
    memcpy(bytes + 1, b.bytes, b.size);
    storm(bytes, b.size + 1, kiln_test_full() ? 100000 : 5000, 40 + i);
    kiln_buffer_deinit(&b);
  }
  kiln_arena_destroy(arena);
  free(text);
}
