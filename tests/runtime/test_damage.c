// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests damaged bundles: every cut and every flipped byte ends in a clean error or in the right result,
// never in a crash or a wrong one.
#include "runtime/bundle/reader.h"
#include "tests/runtime/fixture.h"

typedef struct outcome {
  kiln_status status;
  bool right; // the result, when the launch succeeded
} outcome;

static size_t tried;
static void tell_tried(void) { fprintf(stderr, "%zu damaged bundles\n", tried); }

static outcome try_on(const char *device, const uint8_t *bytes, size_t size, uint32_t policy) {
  outcome o = {0};
  tried++;
  kiln_library *l = NULL;
  kiln_device *d = NULL;
  kiln_kernel *k;
  kiln_error err = {0};
  kiln_source source = {.bytes = bytes, .size = size};
  kiln_open_options options = {
      .size = sizeof options, .sources = &source, .source_count = 1, .policy = policy};
  float x[3] = {1, 2, 3}, y[3] = {0};
  // A hostile interface may claim views where the caller has pointers; each argument has room for the
  // largest.
  union {
    const void *pointer;
    int number;
    uint8_t room[256];
  } args[3] = {{.pointer = x}, {.pointer = y}, {.number = 3}};
  o.status = kiln_open(&options, &l, &err);
  if (o.status == KILN_OK) o.status = kiln_device_open(l, device, &d, &err);
  if (o.status == KILN_OK) o.status = kiln_kernel_get(d, "add_one", NULL, &k, &err);
  if (o.status == KILN_OK)
    o.status = kiln_launch(k, NULL, (const void *const[]){&args[0], &args[1], &args[2]}, 3, &err);
  if (o.status != KILN_OK && !*err.text) FAIL("status %d without a message", (int)o.status);
  o.right = y[0] == 2 && y[1] == 3 && y[2] == 4;
  kiln_device_close(d);
  kiln_close(l);
  return o;
}

static outcome try_bytes(const uint8_t *bytes, size_t size, uint32_t policy) {
  return try_on("host:1", bytes, size, policy);
}

static uint8_t *read_bundle(const char *options, size_t *size) {
  fixture_add_one(kiln_test_path("a.kbundle"), options);
  return (uint8_t *)kiln_test_read(kiln_test_path("a.kbundle"), size);
}

TEST(damage, every_cut_is_an_error) {
  size_t size;
  uint8_t *bytes = read_bundle("", &size);
  for (size_t cut = 0; cut < size; cut++) {
    uint8_t *copy = malloc(cut + 1); // of its own size, so that a memory checker sees reads past the end
    memcpy(copy, bytes, cut);
    if (try_bytes(copy, cut, 0).status == KILN_OK) FAIL("cut to %zu of %zu bytes was accepted", cut, size);
    free(copy);
  }
  CHECK_INT(try_bytes(bytes, size, 0).status, KILN_OK);
  tell_tried();
  free(bytes);
}

static void flip_all(const char *options, uint32_t policy) {
  size_t size, errors = 0;
  uint8_t *bytes = read_bundle(options, &size);
  CHECK(try_bytes(bytes, size, policy).right);
  for (size_t at = 0; at < size; at++)
    for (unsigned bit = 0; bit < 8; bit += kiln_test_full() ? 1 : 5) {
      bytes[at] ^= (uint8_t)(1u << bit);
      outcome o = try_bytes(bytes, size, policy);
      if (o.status == KILN_OK && !o.right) FAIL("bit %u of byte %zu flipped: a wrong result", bit, at);
      errors += o.status != KILN_OK;
      bytes[at] ^= (uint8_t)(1u << bit);
    }
  CHECK(errors > size); // the index and the code are most of the file
  tell_tried();
  free(bytes);
}

TEST(damage, every_flip_is_an_error_or_harmless) { flip_all("", 0); }
TEST(damage, every_flip_with_everything_checked) { flip_all("--dictionary none", KILN_CHECK_ALL); }

// Fresh checks over a changed index: what a writer with bad intent would make. It can make a host kernel
// misread its arguments, which is why an unsigned bundle is like a program; so these are run on the null
// device.
static void seal(uint8_t *bytes) {
  uint8_t *h = bytes + KILN_ZIP_LOCAL_SIZE + kiln_le16(bytes + KILN_ZIP_NAME_SIZE) +
               kiln_le16(bytes + KILN_ZIP_EXTRA_SIZE);
  uint32_t pages = kiln_le32(h + KILN_BH_PAGE_COUNT), tops = kiln_le32(h + KILN_BH_TOP_COUNT);
  uint64_t size = kiln_le64(h + KILN_BH_REGION_SIZE);
  uint8_t *top = h + KILN_BUNDLE_TOP, *checks = top + tops * 8, *region = h + kiln_le64(h + KILN_BH_REGION);
  for (uint32_t i = 0; i < pages; i++) {
    uint64_t left = size - (uint64_t)i * KILN_BUNDLE_PAGE;
    memcpy(checks + 8 * i,
           kiln_check_of(region + (size_t)i * KILN_BUNDLE_PAGE,
                         left < KILN_BUNDLE_PAGE ? left : KILN_BUNDLE_PAGE)
               .bytes,
           8);
  }
  memcpy(top, kiln_check_of(checks, pages * 8).bytes, 8);
  memcpy(h + KILN_BH_TOP_CHECK, kiln_check_of(top, 8).bytes, 8);
  memcpy(h + KILN_BH_CHECK, kiln_check_of(h, KILN_BH_CHECK).bytes, 8);
}

TEST(damage, hostile_index_fields_are_bounded) {
  size_t size;
  uint8_t *bytes = read_bundle("", &size);
  uint8_t *h = bytes + KILN_ZIP_LOCAL_SIZE + kiln_le16(bytes + KILN_ZIP_NAME_SIZE) +
               kiln_le16(bytes + KILN_ZIP_EXTRA_SIZE);
  size_t region = (size_t)(h - bytes) + kiln_le64(h + KILN_BH_REGION),
         region_size = kiln_le64(h + KILN_BH_REGION_SIZE);
  uint8_t *copy = malloc(size);
  static const uint32_t extremes[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffff0};
  for (size_t at = 0; at + 4 <= region_size; at++)
    for (size_t e = 0; e < sizeof extremes / sizeof *extremes; e++) {
      memcpy(copy, bytes, size);
      kiln_put32(copy + region + at, extremes[e]);
      seal(copy);
      try_on("null", copy, size, 0);
      if (at % 7 == 0) try_on("null", copy, size, KILN_CHECK_ALL);
    }
  for (size_t at = KILN_BH_MAJOR; at < KILN_BH_CHECK - 4; at++)
    for (size_t e = 0; e < sizeof extremes / sizeof *extremes; e++) {
      memcpy(copy, bytes, size);
      kiln_put32(copy + (h - bytes) + at, extremes[e]);
      memcpy(copy + (h - bytes) + KILN_BH_CHECK, kiln_check_of(copy + (h - bytes), KILN_BH_CHECK).bytes, 8);
      try_on("null", copy, size, 0);
    }
  tell_tried();
  free(copy);
  free(bytes);
}

// 42: a newer format and another kernel ABI are named as such.
TEST(damage, newer_formats_are_named) {
  size_t size;
  uint8_t *bytes = read_bundle("", &size);
  uint8_t *h = bytes + KILN_ZIP_LOCAL_SIZE + kiln_le16(bytes + KILN_ZIP_NAME_SIZE) +
               kiln_le16(bytes + KILN_ZIP_EXTRA_SIZE);
  static const struct {
    unsigned at;
    uint16_t value;
    kiln_status want;
  } cases[] = {{KILN_BH_MAJOR, 2, KILN_STATUS_VERSION},
               {KILN_BH_MINIMUM, 2, KILN_STATUS_VERSION},
               {KILN_BH_MUST, 2, KILN_STATUS_VERSION},
               {KILN_BH_ABI, 2, KILN_STATUS_ABI},
               {KILN_BH_MINOR, 7, KILN_OK},
               {KILN_BH_MAY, 1, KILN_OK}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint16_t old = kiln_le16(h + cases[i].at);
    kiln_put16(h + cases[i].at, cases[i].value);
    memcpy(h + KILN_BH_CHECK, kiln_check_of(h, KILN_BH_CHECK).bytes, 8);
    CHECK_INT(try_bytes(bytes, size, 0).status, cases[i].want);
    kiln_put16(h + cases[i].at, old);
  }
  free(bytes);
}

static kiln_status look_up(const uint8_t *bytes, size_t size, kiln_error *err) {
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_status status = kiln_open_memory(bytes, size, &l, err);
  if (status != KILN_OK) return status;
  status = kiln_device_open(l, "host:1", &d, err);
  if (status == KILN_OK) status = kiln_kernel_get(d, "add_one", NULL, &k, err);
  if (status == KILN_OK) kiln_device_close(d);
  kiln_close(l);
  return status;
}

/// Every first byte of the two records: a later version is named with both numbers, all else is damage.
TEST(damage, newer_records_are_named) {
  static const struct {
    const char *bytes; // how the record of add_one begins, after its version
    size_t size;
    unsigned kind, newest;
  } records[] = {{"\x08"
                  "add_one",
                  9, 0, 4},
                 {"\x04\x0a"
                  "x86-64-v2",
                  12, 64, 5}};
  size_t size;
  uint8_t *bytes = read_bundle("", &size);
  for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
    uint8_t *at = memmem(bytes, size, records[i].bytes, records[i].size);
    CHECK(at != NULL);
    uint8_t own = *--at;
    CHECK(own > records[i].kind && own <= records[i].kind + records[i].newest);
    for (unsigned value = 0; value < 256; value++) {
      kiln_error err = {0};
      *at = (uint8_t)value;
      seal(bytes);
      unsigned version = value - records[i].kind;
      bool newer = value > records[i].kind + records[i].newest && version < 64;
      kiln_status status = look_up(bytes, size, &err);
      if (newer != (status == KILN_STATUS_VERSION)) FAIL("first byte %u: %s", value, err.text);
      if (!newer) continue;
      char text[60];
      snprintf(text, sizeof text, "version %u of a newer Kiln, this program reads up to %u", version,
               records[i].newest);
      if (!strstr(err.text, text)) FAIL("%s", err.text);
    }
    *at = own;
  }
  free(bytes);
}
