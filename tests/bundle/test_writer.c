// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the bundle writer alone: what it refuses, what its sums are, and what libarchive finds in the
// result.
#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bundle_format.h"
#include "cache/bundle/seal.h"
#include "cache/bundle/writer.h"
#include "tests/harness.h"

static uint32_t add_kernel(kiln_bundle_writer *w, const char *name) {
  kiln_error err;
  uint32_t kernel;
  CHECK_OK(kiln_bundle_writer_kernel(w, name, name, strlen(name), &kernel, &err), err);
  return kernel;
}

static kiln_bundle_code code_of(uint32_t kernel, const void *bytes, size_t size) {
  return (kiln_bundle_code){.kernel = kernel,
                            .target = "gfx942",
                            .family = "gfx9",
                            .info = "info",
                            .info_size = 4,
                            .code = bytes,
                            .code_size = size};
}

static void fill(uint8_t *code, size_t size, uint64_t seed) {
  for (size_t i = 0; i < size; i++) code[i] = (uint8_t)(i % 40 ? i * i >> 4 : kiln_test_random(&seed));
}

static kiln_bundle_writer *many(uint32_t count, uint32_t step) {
  kiln_bundle_writer *w = kiln_bundle_writer_create();
  kiln_error err;
  uint8_t code[2000];
  for (uint32_t i = 0; i < count; i++) {
    char name[16];
    uint32_t n = i * step % count;
    snprintf(name, sizeof name, "k%u", n);
    fill(code, sizeof code, n / 2); // in pairs
    kiln_bundle_code c = code_of(add_kernel(w, name), code, sizeof code);
    CHECK_OK(kiln_bundle_writer_code(w, &c, &err), err);
  }
  return w;
}

TEST(writer, order_and_threads_change_nothing) {
  kiln_buffer a = {0}, b = {0};
  kiln_error err;
  for (int dictionary = 0; dictionary <= KILN_BUNDLE_DICTIONARY_LARGE; dictionary++) {
    kiln_bundle_writer *x = many(31, 1), *y = many(31, 12);
    kiln_bundle_options one = {.dictionary = (kiln_bundle_dictionary)dictionary, .threads = 1}, five = one;
    five.threads = 5;
    CHECK_OK(kiln_bundle_writer_build(x, &one, &a, NULL, &err), err);
    CHECK_OK(kiln_bundle_writer_build(y, &five, &b, NULL, &err), err);
    CHECK_INT(a.size, b.size);
    CHECK(!memcmp(a.bytes, b.bytes, a.size));
    CHECK_OK(kiln_bundle_writer_build(x, &five, &b, NULL, &err), err); // the same writer again
    CHECK(a.size == b.size && !memcmp(a.bytes, b.bytes, a.size));
    kiln_bundle_writer_destroy(x);
    kiln_bundle_writer_destroy(y);
  }
  kiln_buffer_deinit(&a);
  kiln_buffer_deinit(&b);
}

TEST(writer, sums_are_those_of_the_file) {
  kiln_buffer out = {0};
  kiln_bundle_sums sums;
  kiln_error err;
  kiln_bundle_writer *w = many(30, 1);
  CHECK_OK(kiln_bundle_writer_build(w, NULL, &out, &sums, &err), err);
  CHECK_INT(sums.file, out.size);
  CHECK_INT(sums.kernels, 30);
  CHECK_INT(sums.codes, 30);
  CHECK_INT(sums.raw, 15 * 2000);
  CHECK_INT(sums.payload + sums.dictionaries + sums.index + sums.container, sums.file);
  // libarchive finds the same members, sizes and checksums.
  struct archive *archive = archive_read_new();
  struct archive_entry *entry;
  uint64_t members = 0, contents = 0;
  archive_read_support_format_zip(archive);
  CHECK_INT(archive_read_open_memory(archive, out.bytes, out.size), ARCHIVE_OK);
  while (archive_read_next_header(archive, &entry) == ARCHIVE_OK) {
    char bytes[4096];
    la_ssize_t n;
    if (!members) CHECK_TEXT(archive_entry_pathname(entry), KILN_BUNDLE_INDEX_NAME);
    while ((n = archive_read_data(archive, bytes, sizeof bytes)) > 0) contents += (uint64_t)n;
    CHECK_INT(n, 0);
    members++;
  }
  archive_read_free(archive);
  CHECK_INT(members, sums.members);
  CHECK_INT(contents, sums.payload + sums.dictionaries + sums.index);
  kiln_bundle_writer_destroy(w);
  kiln_buffer_deinit(&out);
}

// A kernel's name and its interface, which is the same text here, are one record however many there are.
TEST(writer, equal_records_are_stored_once) {
  enum { KERNELS = 1000 };
  kiln_buffer out = {0};
  kiln_error err;
  kiln_bundle_writer *w = many(KERNELS, 1);
  CHECK_OK(kiln_bundle_writer_build(w, NULL, &out, NULL, &err), err);
  for (unsigned i = 0; i < KERNELS; i++) {
    uint8_t record[16] = {0};
    const int length = snprintf((char *)record + 4, sizeof record - 4, "k%u", i);
    record[0] = (uint8_t)length;
    const size_t size = 4 + (size_t)length + 1;
    const uint8_t *first = memmem(out.bytes, out.size, record, size);
    if (!first) FAIL("%s is not there", record + 4);
    if (memmem(first + size, out.size - (size_t)(first + size - out.bytes), record, size))
      FAIL("%s is there twice", record + 4);
  }
  kiln_bundle_writer_destroy(w);
  kiln_buffer_deinit(&out);
}

// What a signature says of the archive around the index covers each of its bytes.
TEST(writer, every_byte_of_the_container_is_in_its_digest) {
  kiln_buffer out = {0};
  kiln_error err;
  kiln_bundle_writer *w = many(4, 1);
  kiln_digest good, other;
  CHECK_OK(kiln_bundle_writer_build(w, NULL, &out, NULL, &err), err);
  CHECK_OK(kiln_bundle_container(out.bytes, out.size, &good, &err), err);
  unsigned outside = 0;
  for (size_t at = 0; at < out.size; at++) {
    out.bytes[at] ^= 1;
    const kiln_status status = kiln_bundle_container(out.bytes, out.size, &other, &err);
    out.bytes[at] ^= 1;
    if (status == KILN_OK && !memcmp(&good, &other, sizeof good)) FAIL("byte %zu may change", at);
    outside += status == KILN_OK;
  }
  CHECK(outside > 100);
  kiln_bundle_writer_destroy(w);
  kiln_buffer_deinit(&out);
}

// Codes that resemble no other take no room in the dictionary, though they come first by name and fill it on
// their own.
TEST(writer, the_dictionary_holds_what_is_shared) {
  enum { LONERS = 48, LONER = 1 << 16, RELATIVES = 64, RELATIVE = 20000, OWN = 1000 };
  static uint8_t code[LONER];
  kiln_buffer out = {0};
  kiln_bundle_sums sums;
  kiln_error err;
  kiln_bundle_writer *w = kiln_bundle_writer_create();
  for (uint32_t i = 0; i < LONERS + RELATIVES; i++) {
    bool is_loner = i < LONERS;
    uint64_t common = 9, own = i + 100;
    char name[16];
    snprintf(name, sizeof name, "%c%u", is_loner ? 'a' : 'z', i);
    for (int at = 0; at < (is_loner ? LONER : RELATIVE); at++)
      code[at] = (uint8_t)kiln_test_random(is_loner || at < OWN ? &own : &common);
    kiln_bundle_code c = code_of(add_kernel(w, name), code, is_loner ? LONER : RELATIVE);
    CHECK_OK(kiln_bundle_writer_code(w, &c, &err), err);
  }
  CHECK_OK(kiln_bundle_writer_build(w, NULL, &out, &sums, &err), err);
  CHECK(sums.dictionaries > RELATIVE - OWN && sums.dictionaries < RELATIVE + RELATIVE / 10);
  CHECK(sums.payload < LONERS * LONER + RELATIVES * (OWN + OWN / 10));
  kiln_bundle_writer_destroy(w);
  kiln_buffer_deinit(&out);
}

TEST(writer, an_empty_bundle_is_a_bundle) {
  kiln_buffer out = {0};
  kiln_bundle_sums sums;
  kiln_error err;
  kiln_bundle_writer *w = kiln_bundle_writer_create();
  CHECK_OK(kiln_bundle_writer_build(w, NULL, &out, &sums, &err), err);
  CHECK_INT(sums.codes, 0);
  CHECK_INT(sums.members, 1);
  kiln_bundle_writer_destroy(w);
  kiln_buffer_deinit(&out);
}

TEST(writer, stored_codes_begin_at_pages) {
  enum { SIZE = 10000 };
  kiln_buffer out = {0};
  kiln_error err;
  kiln_bundle_writer *w = kiln_bundle_writer_create();
  uint8_t code[SIZE];
  uint64_t seed = 5;
  for (int i = 0; i < SIZE; i++) code[i] = (uint8_t)kiln_test_random(&seed); // does not shrink
  kiln_bundle_code c = code_of(add_kernel(w, "k"), code, SIZE);
  CHECK_OK(kiln_bundle_writer_code(w, &c, &err), err);
  CHECK_OK(kiln_bundle_writer_build(w, NULL, &out, NULL, &err), err);
  const uint8_t *at = memmem(out.bytes, out.size, code, SIZE);
  CHECK(at != NULL);
  CHECK_INT((at - out.bytes) % KILN_BUNDLE_ALIGN_STORED, 0);
  kiln_bundle_writer_destroy(w);
  kiln_buffer_deinit(&out);
}

TEST(writer, what_is_refused) {
  kiln_bundle_writer *w = kiln_bundle_writer_create();
  kiln_error err;
  uint32_t kernel = add_kernel(w, "k"), other;
  CHECK_INT(kiln_bundle_writer_kernel(w, "k", "another", 7, &other, &err), KILN_STATUS_EXISTS);
  CHECK_INT(kiln_bundle_writer_kernel(w, "", "x", 1, &other, &err), KILN_STATUS_LIMIT);
  CHECK_INT(add_kernel(w, "k"), kernel);
  kiln_bundle_code c = code_of(kernel, "code", 4);
  CHECK_OK(kiln_bundle_writer_code(w, &c, &err), err);
  CHECK_OK(kiln_bundle_writer_code(w, &c, &err), err);
  c.flags = KILN_BUNDLE_CODE_PTX; // beside machine code of the same target
  CHECK_OK(kiln_bundle_writer_code(w, &c, &err), err);
  c.code = "edoc";
  CHECK_INT(kiln_bundle_writer_code(w, &c, &err), KILN_STATUS_EXISTS);
  kiln_bundle_code bad[] = {code_of(kernel + 1, "code", 4), code_of(kernel, "", 0),
                            code_of(kernel, "code", 4), code_of(kernel, "code", 4)};
  bad[2].family = "../escape";
  bad[3].config = 1 << 16;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    kiln_status status = kiln_bundle_writer_code(w, &bad[i], &err);
    if (status != KILN_STATUS_INVALID_ARGUMENT && status != KILN_STATUS_LIMIT)
      FAIL("case %zu: status %d", i, (int)status);
  }
  CHECK_OK(kiln_bundle_writer_note(w, "a", "1", &err), err);
  CHECK_OK(kiln_bundle_writer_note(w, "a", "1", &err), err);
  CHECK_INT(kiln_bundle_writer_note(w, "a", "2", &err), KILN_STATUS_EXISTS);
  kiln_bundle_writer_destroy(w);
}
