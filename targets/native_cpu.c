// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Detects the features of this CPU with CPUID, under LLVM's names. A feature counts only when the system
// saves the registers that it needs (XCR0).
#include "targets/native_cpu.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

enum { EAX, EBX, ECX, EDX };
enum { EXTENDED = 0x80u };
// System state a feature needs, as bits of XCR0.
enum { STATE_NONE = 0, STATE_AVX = 0x6, STATE_512 = 0xe6 };

// Sorted by name: the list that comes out is canonical. `level`: the psABI level that requires it; 0: none.
static const struct {
  char name[16];
  uint8_t leaf; // EXTENDED | n: 0x80000000 + n
  uint8_t subleaf, reg, bit, state, level;
} features[] = {
    {"adx", 7, 0, EBX, 19, STATE_NONE, 0},
    {"aes", 1, 0, ECX, 25, STATE_NONE, 0},
    {"avx", 1, 0, ECX, 28, STATE_AVX, 3},
    {"avx2", 7, 0, EBX, 5, STATE_AVX, 3},
    {"avx512bf16", 7, 1, EAX, 5, STATE_512, 0},
    {"avx512bitalg", 7, 0, ECX, 12, STATE_512, 0},
    {"avx512bw", 7, 0, EBX, 30, STATE_512, 4},
    {"avx512cd", 7, 0, EBX, 28, STATE_512, 4},
    {"avx512dq", 7, 0, EBX, 17, STATE_512, 4},
    {"avx512f", 7, 0, EBX, 16, STATE_512, 4},
    {"avx512fp16", 7, 0, EDX, 23, STATE_512, 0},
    {"avx512ifma", 7, 0, EBX, 21, STATE_512, 0},
    {"avx512vbmi", 7, 0, ECX, 1, STATE_512, 0},
    {"avx512vbmi2", 7, 0, ECX, 6, STATE_512, 0},
    {"avx512vl", 7, 0, EBX, 31, STATE_512, 4},
    {"avx512vnni", 7, 0, ECX, 11, STATE_512, 0},
    {"avx512vpopcntdq", 7, 0, ECX, 14, STATE_512, 0},
    {"avxvnni", 7, 1, EAX, 4, STATE_AVX, 0},
    {"bmi", 7, 0, EBX, 3, STATE_NONE, 3},
    {"bmi2", 7, 0, EBX, 8, STATE_NONE, 3},
    {"cx16", 1, 0, ECX, 13, STATE_NONE, 2},
    {"f16c", 1, 0, ECX, 29, STATE_AVX, 3},
    {"fma", 1, 0, ECX, 12, STATE_AVX, 3},
    {"gfni", 7, 0, ECX, 8, STATE_NONE, 0},
    {"lzcnt", EXTENDED | 1, 0, ECX, 5, STATE_NONE, 3},
    {"movbe", 1, 0, ECX, 22, STATE_NONE, 3},
    {"pclmul", 1, 0, ECX, 1, STATE_NONE, 0},
    {"popcnt", 1, 0, ECX, 23, STATE_NONE, 2},
    {"sahf", EXTENDED | 1, 0, ECX, 0, STATE_NONE, 2},
    {"sha", 7, 0, EBX, 29, STATE_NONE, 0},
    {"sse3", 1, 0, ECX, 0, STATE_NONE, 2},
    {"sse4.1", 1, 0, ECX, 19, STATE_NONE, 2},
    {"sse4.2", 1, 0, ECX, 20, STATE_NONE, 2},
    {"ssse3", 1, 0, ECX, 9, STATE_NONE, 2},
    {"vaes", 7, 0, ECX, 9, STATE_AVX, 0},
    {"vpclmulqdq", 7, 0, ECX, 10, STATE_AVX, 0},
};
enum { FEATURE_COUNT = sizeof features / sizeof *features };

static uint64_t saved_state(void) {
  uint32_t r[4], low, high;
  if (!__get_cpuid(1, &r[0], &r[1], &r[2], &r[3]) || !(r[ECX] >> 27 & 1)) return 0; // OSXSAVE
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

static bool has_feature(size_t i, uint64_t state) {
  uint32_t r[4];
  const uint32_t leaf =
      features[i].leaf & EXTENDED ? 0x80000000u + (features[i].leaf & ~EXTENDED) : features[i].leaf;
  if (!__get_cpuid_count(leaf, features[i].subleaf, &r[0], &r[1], &r[2], &r[3])) return false;
  return (r[features[i].reg] >> features[i].bit & 1) && (state & features[i].state) == features[i].state;
}

static unsigned native_level(void) {
  uint64_t state = saved_state();
  unsigned level = 4;
  for (size_t i = 0; i < FEATURE_COUNT; i++)
    if (features[i].level && level >= features[i].level && !has_feature(i, state))
      level = features[i].level - 1u;
  return level;
}

#define NATIVE(level_, host_, vector_bytes_)                                                               \
  {                                                                                                        \
    .name = "native", .family = KILN_FAMILY_HOST, .wave = 1, .host = host_, .vector_bytes = vector_bytes_, \
    .level = level_                                                                                        \
  }

static const kiln_processor rows[] = {
    NATIVE(1, KILN_HOST_X86_64, 16),
    NATIVE(2, KILN_HOST_X86_64_V2, 16),
    NATIVE(3, KILN_HOST_X86_64_V3, 32),
    NATIVE(4, KILN_HOST_X86_64_V4, 64),
};

const kiln_processor *kiln_native_processor(void) { return &rows[native_level() - 1]; }

const char *kiln_native_features(char out[KILN_TARGET_FEATURES]) {
  uint64_t state = saved_state();
  size_t used = 0;
  out[0] = 0;
  for (size_t i = 0; i < FEATURE_COUNT; i++) {
    size_t length = strlen(features[i].name);
    if (!has_feature(i, state) || used + length + 3 > KILN_TARGET_FEATURES) continue;
    if (used) out[used++] = ',';
    out[used++] = '+';
    memcpy(out + used, features[i].name, length + 1);
    used += length;
  }
  return out;
}

#elif defined(__aarch64__)

// The baseline of the architecture holds all that is used.
static const kiln_processor row = {
    .name = "native", .family = KILN_FAMILY_HOST, .wave = 1, .host = KILN_HOST_AARCH64, .vector_bytes = 16};

const kiln_processor *kiln_native_processor(void) { return &row; }

const char *kiln_native_features(char out[KILN_TARGET_FEATURES]) {
  out[0] = 0;
  return out;
}

#else
#error "Kiln runs on x86-64 and aarch64: this processor is neither"
#endif
