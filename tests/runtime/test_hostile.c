// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests small bundles that demand much: entries of the index that share dictionaries, codes, names and
// ranges. They are laid out here from the words of docs/bundle.md, not by the writer, which makes no such
// bundle. Each ends in an error, soon and with little memory; what the writer makes stays within every
// bound.
#include <time.h>
#include <zstd.h>

#include "runtime/bundle/reader.h"
#include "tests/runtime/fixture.h"

/// An index under construction: bytes of each section, and what lies after the index.
typedef struct craft {
  kiln_buffer sections[KILN_BUNDLE_SECTIONS];
  uint64_t counts[KILN_BUNDLE_SECTIONS];
  kiln_buffer payload;
} craft;

static uint32_t add_record(craft *c, const void *bytes, size_t size) {
  uint32_t at = (uint32_t)c->sections[KILN_BUNDLE_RECORDS].size;
  kiln_buffer_u32(&c->sections[KILN_BUNDLE_RECORDS], (uint32_t)size);
  kiln_buffer_bytes(&c->sections[KILN_BUNDLE_RECORDS], bytes, size);
  kiln_buffer_u8(&c->sections[KILN_BUNDLE_RECORDS], 0);
  return at;
}
static uint32_t add_text(craft *c, const char *text) { return add_record(c, text, strlen(text)); }

static void add_entry(craft *c, kiln_bundle_section section, const void *bytes, size_t size) {
  kiln_buffer_bytes(&c->sections[section], bytes, size);
  c->counts[section]++;
}

static uint32_t interface_record(craft *c, const char *name) {
  kiln_buffer record = {0};
  kiln_interface in = ADD_ONE_INTERFACE(name);
  kiln_layout_params(&in);
  kiln_interface_encode(&in, &record);
  uint32_t at = add_record(c, record.bytes, record.size);
  kiln_buffer_deinit(&record);
  return at;
}

static uint32_t info_record(craft *c) {
  kiln_buffer record = {0};
  kiln_code_info_encode(&(kiln_code_info){.format = KILN_FORMAT_HSACO,
                                          .target = "gfx942",
                                          .symbol = "k",
                                          .block_threads = 64,
                                          .wave = 64,
                                          .producer = "test"},
                        &record);
  uint32_t at = add_record(c, record.bytes, record.size);
  kiln_buffer_deinit(&record);
  return at;
}

static void add_kernel(craft *c, const char *name, uint32_t name_at, uint32_t interface_at, uint32_t code,
                       uint32_t codes) {
  uint8_t e[KILN_BK_SIZE];
  memcpy(e + KILN_BK_HASH, kiln_check_of(name, strlen(name)).bytes, KILN_CHECK_SIZE);
  kiln_put32(e + KILN_BK_NAME, name_at);
  kiln_put32(e + KILN_BK_INTERFACE, interface_at);
  kiln_put32(e + KILN_BK_CODE, code);
  kiln_put32(e + KILN_BK_CODE_COUNT, codes);
  add_entry(c, KILN_BUNDLE_KERNELS, e, sizeof e);
}

static void add_name(craft *c, uint32_t kernel) {
  uint8_t e[4];
  kiln_put32(e, kernel);
  add_entry(c, KILN_BUNDLE_NAMES, e, sizeof e);
}

static void add_code(craft *c, uint32_t kernel, uint32_t blob, uint32_t info) {
  uint8_t e[KILN_BC_SIZE] = {0};
  kiln_put32(e + KILN_BC_KERNEL, kernel);
  kiln_put32(e + KILN_BC_BLOB, blob);
  kiln_put32(e + KILN_BC_INFO, info);
  kiln_put32(e + KILN_BC_MAPS, KILN_BUNDLE_NONE);
  add_entry(c, KILN_BUNDLE_CODES, e, sizeof e);
}

/// A frame in the payload, compressed here.
typedef struct frame {
  uint64_t at;
  uint32_t stored, raw;
  kiln_check check;
} frame;

/// `noise` bytes that do not shrink, then zeros.
static frame add_frame(craft *c, uint32_t raw, uint32_t noise) {
  uint64_t seed = 7;
  uint8_t *bytes = calloc(raw, 1), *packed = malloc(ZSTD_compressBound(raw));
  for (uint32_t i = 0; i < noise; i++) bytes[i] = (uint8_t)kiln_test_random(&seed);
  size_t size = ZSTD_compress(packed, ZSTD_compressBound(raw), bytes, raw, 1);
  frame f = {c->payload.size, (uint32_t)size, raw, kiln_check_of(bytes, raw)};
  kiln_buffer_bytes(&c->payload, packed, size);
  free(bytes);
  free(packed);
  return f;
}

static void add_blob(craft *c, const frame *f, uint32_t dictionary) {
  uint8_t e[KILN_BB_SIZE] = {0};
  kiln_put64(e + KILN_BB_OFFSET, f->at);
  kiln_put32(e + KILN_BB_STORED, f->stored);
  kiln_put32(e + KILN_BB_RAW, f->raw);
  memcpy(e + KILN_BB_CHECK, f->check.bytes, KILN_BUNDLE_CHECK);
  e[KILN_BB_CODEC] = KILN_BUNDLE_CODEC_ZSTD;
  kiln_put16(e + KILN_BB_DICTIONARY, (uint16_t)dictionary);
  kiln_put32(e + KILN_BB_MEMBER, 1);
  kiln_put32(e + KILN_BB_REFERENCES, 1);
  add_entry(c, KILN_BUNDLE_BLOBS, e, sizeof e);
}

static void put_check(uint8_t *at, const void *bytes, size_t size) {
  memcpy(at, kiln_check_of(bytes, size).bytes, KILN_BUNDLE_CHECK);
}

static void put_checks(uint8_t *out, const uint8_t *bytes, size_t size) {
  for (size_t at = 0; at < size; at += KILN_BUNDLE_PAGE, out += KILN_BUNDLE_CHECK)
    put_check(out, bytes + at, size - at < KILN_BUNDLE_PAGE ? size - at : KILN_BUNDLE_PAGE);
}

/// The bundle: a local header, the index, the payload as member 1. Checks are as they should be.
static void finish(craft *c, const char *path) {
  enum { NAME = sizeof KILN_BUNDLE_INDEX_NAME - 1, BEGIN = KILN_ZIP_LOCAL_SIZE + NAME };
  kiln_buffer region = {0};
  uint8_t h[KILN_BUNDLE_TOP] = {0}, local[KILN_ZIP_LOCAL_SIZE] = {0};
  uint8_t target[4], member[2][KILN_BM_SIZE] = {{0}};
  kiln_put32(target, add_text(c, "gfx942"));
  add_entry(c, KILN_BUNDLE_TARGETS, target, 4);
  kiln_put32(member[0], add_text(c, KILN_BUNDLE_INDEX_NAME));
  kiln_put32(member[1], add_text(c, "code/gfx9.zst"));
  add_entry(c, KILN_BUNDLE_MEMBERS, member[0], KILN_BM_SIZE);
  add_entry(c, KILN_BUNDLE_MEMBERS, member[1], KILN_BM_SIZE);
  uint64_t members_at = 0;
  for (unsigned i = 0; i < KILN_BUNDLE_SECTIONS; i++) {
    if (i == KILN_BUNDLE_MEMBERS) members_at = region.size;
    kiln_put64(h + KILN_BH_SECTIONS + 16 * i, region.size);
    kiln_put64(h + KILN_BH_SECTIONS + 16 * i + 8,
               i == KILN_BUNDLE_RECORDS ? c->sections[i].size : c->counts[i]);
    kiln_buffer_bytes(&region, c->sections[i].bytes, c->sections[i].size);
  }
  size_t pages = (region.size + KILN_BUNDLE_PAGE - 1) / KILN_BUNDLE_PAGE,
         tops = (pages * KILN_BUNDLE_CHECK + KILN_BUNDLE_PAGE - 1) / KILN_BUNDLE_PAGE;
  size_t region_at = KILN_BUNDLE_TOP + (tops + pages) * KILN_BUNDLE_CHECK, content = region_at + region.size;
  size_t size = BEGIN + content + c->payload.size;
  uint8_t *m = region.bytes + members_at;
  kiln_put64(m + KILN_BM_OFFSET, BEGIN);
  kiln_put64(m + KILN_BM_BYTES, content);
  kiln_put64(m + KILN_BM_SIZE + KILN_BM_OFFSET, BEGIN + content);
  kiln_put64(m + KILN_BM_SIZE + KILN_BM_BYTES, c->payload.size);
  uint8_t *out = calloc(size, 1), *index = out + BEGIN;
  kiln_put32(local, KILN_ZIP_LOCAL);
  kiln_put16(local + KILN_ZIP_NAME_SIZE, NAME);
  memcpy(out, local, sizeof local);
  memcpy(out + sizeof local, KILN_BUNDLE_INDEX_NAME, NAME);
  memcpy(index + region_at, region.bytes, region.size);
  put_checks(index + KILN_BUNDLE_TOP + tops * KILN_BUNDLE_CHECK, region.bytes, region.size);
  put_checks(index + KILN_BUNDLE_TOP, index + KILN_BUNDLE_TOP + tops * KILN_BUNDLE_CHECK,
             pages * KILN_BUNDLE_CHECK);
  memcpy(h + KILN_BH_MAGIC, KILN_BUNDLE_MAGIC, 8);
  kiln_put16(h + KILN_BH_MAJOR, KILN_BUNDLE_MAJOR);
  kiln_put16(h + KILN_BH_ABI, KILN_KERNEL_ABI);
  kiln_put64(h + KILN_BH_FILE_SIZE, size);
  kiln_put64(h + KILN_BH_CONTENT_SIZE, content);
  kiln_put64(h + KILN_BH_REGION, region_at);
  kiln_put64(h + KILN_BH_REGION_SIZE, region.size);
  kiln_put32(h + KILN_BH_PAGE_COUNT, (uint32_t)pages);
  kiln_put32(h + KILN_BH_TOP_COUNT, (uint32_t)tops);
  put_check(h + KILN_BH_TOP_CHECK, index + KILN_BUNDLE_TOP, tops * KILN_BUNDLE_CHECK);
  put_check(h + KILN_BH_CHECK, h, KILN_BH_CHECK);
  memcpy(index, h, sizeof h);
  memcpy(out + BEGIN + content, c->payload.bytes, c->payload.size);
  kiln_test_write(path, out, size);
  for (unsigned i = 0; i < KILN_BUNDLE_SECTIONS; i++) kiln_buffer_deinit(&c->sections[i]);
  kiln_buffer_deinit(&c->payload);
  kiln_buffer_deinit(&region);
  free(out);
}

// ------------------------------------------------------------------------------------------- judges

static kiln_status open_all(const char *path, uint32_t policy, kiln_library **l, kiln_error *err) {
  kiln_source source = {.path = path};
  kiln_open_options options = {
      .size = sizeof options, .sources = &source, .source_count = 1, .policy = policy};
  return kiln_open(&options, l, err);
}

/// A program of ours in 1 GiB of address space (of memory where a sanitizer is in it) and 10 seconds of
/// processor time ends with `want`, saying `text`.
static void expect(int want, const char *command, const char *text) {
  char *out;
  int status = kiln_test_run(&out, "cd %s && " KILN_TEST_GIGABYTE " && ulimit -t %d && %s/bin/kiln-tool %s",
                             kiln_test_folder(), 10 * KILN_TEST_PATIENCE, kiln_test_build_path(), command);
  if (status != want || !strstr(out, text))
    FAIL("%s: exit %d, expected %d and '%s'\n%.2000s", command, status, want, text, out);
  free(out);
}

static void expect_all(const char *path, const char *text, const char *const *commands) {
  kiln_library *l;
  kiln_error err;
  CHECK_INT(open_all(path, KILN_CHECK_ALL, &l, &err), KILN_STATUS_CORRUPT);
  if (!strstr(err.text, text)) FAIL("found '%s', expected '%s'", err.text, text);
  for (; *commands; commands++) expect(1, *commands, "KILN-E0008");
}

TEST(hostile, what_the_craft_makes_is_a_bundle) {
  craft c = {0};
  kiln_library *l;
  kiln_error err;
  frame f = add_frame(&c, 1000, 10);
  add_kernel(&c, "k", add_text(&c, "k"), interface_record(&c, "k"), 0, 1);
  add_name(&c, 0);
  add_code(&c, 0, 0, info_record(&c));
  add_blob(&c, &f, KILN_BUNDLE_NO_DICTIONARY);
  finish(&c, kiln_test_path("h.kb"));
  CHECK_OK(open_all(kiln_test_path("h.kb"), KILN_CHECK_ALL, &l, &err), err);
  kiln_close(l);
  expect(0, "inspect h.kb", "1 kernel, 1 code");
  expect(0, "merge -o m.kb h.kb", "1 kernel, 1 code");
}

// 15 KB that would become 1.6 GB: one frame, the dictionary of a hundred codes under a hundred numbers.
TEST(hostile, aliased_dictionaries) {
  enum { COUNT = 100 };
  craft c = {0};
  char name[20];
  frame d = add_frame(&c, KILN_BUNDLE_MAX_DICTIONARY, 5000), f = add_frame(&c, 50, 50);
  uint32_t info = info_record(&c);
  for (uint32_t i = 0; i < COUNT; i++) {
    snprintf(name, sizeof name, "k%05u", i);
    add_kernel(&c, name, add_text(&c, name), interface_record(&c, name), i, 1);
    add_name(&c, i);
    add_code(&c, i, COUNT + i, info);
    add_blob(&c, &d, KILN_BUNDLE_NO_DICTIONARY);
  }
  for (uint32_t i = 0; i < COUNT; i++) add_blob(&c, &f, i);
  finish(&c, kiln_test_path("h.kb"));
  expect_all(kiln_test_path("h.kb"), "overlaps the one before",
             (const char *const[]){"verify h.kb", "merge -o m.kb h.kb", "split --arch=gfx942 -o m.kb h.kb",
                                   "fix-index -o m.kb h.kb", NULL});
  // Without looking at the whole: the dictionaries that are kept have a bound.
  kiln_bundle *b;
  kiln_error err;
  kiln_open_options options = {.size = sizeof options};
  uint32_t loaded = 0;
  CHECK_OK(kiln_bundle_open(&(kiln_source){.path = kiln_test_path("h.kb")}, &options, &b, &err), err);
  for (uint32_t i = 0; i < COUNT; i++) {
    kiln_bytes bytes;
    kiln_status status = kiln_bundle_load(b, COUNT + i, &bytes, &err);
    if (status == KILN_OK) kiln_bytes_deinit(&bytes), loaded++;
    else CHECK_INT(status, KILN_STATUS_CORRUPT);
  }
  CHECK_INT(loaded, KILN_BUNDLE_MAX_DICTIONARIES / KILN_BUNDLE_MAX_DICTIONARY);
  kiln_bundle_close(b);
}

// 1.7 MB with 400 million pairs of kernel and code.
TEST(hostile, overlapping_code_ranges) {
  enum { COUNT = 20000 };
  craft c = {0};
  char name[20];
  kiln_library *l;
  kiln_device *d;
  kiln_preflight found;
  kiln_error err;
  frame f = add_frame(&c, 50, 50);
  uint32_t info = info_record(&c), interface_at = interface_record(&c, "k00000");
  for (uint32_t i = 0; i < COUNT; i++) {
    snprintf(name, sizeof name, "k%05u", i);
    add_kernel(&c, name, add_text(&c, name), interface_at, 0, COUNT);
    add_name(&c, i);
    add_code(&c, 0, 0, info);
  }
  add_blob(&c, &f, KILN_BUNDLE_NO_DICTIONARY);
  finish(&c, kiln_test_path("h.kb"));
  expect_all(kiln_test_path("h.kb"), "the codes of kernel 1 begin at 0",
             (const char *const[]){"verify h.kb", "inspect h.kb", "stat --by=kernel h.kb",
                                   "merge -o m.kb h.kb", "diff h.kb h.kb", "report -o r.html h.kb",
                                   "header h.kb", NULL});
  CHECK_OK(open_all(kiln_test_path("h.kb"), 0, &l, &err), err);
  CHECK_OK(kiln_device_open(l, "null:gfx942", &d, &err), err);
  CHECK_INT(kiln_device_preflight(d, &found, &err), KILN_STATUS_CORRUPT);
  CHECK(strstr(err.text, "code 0 is listed for kernel 1 and says it is of kernel 0"));
  kiln_device_close(d);
  kiln_close(l);
}

// The same through the names: each is that of the one kernel with all the codes.
TEST(hostile, names_of_one_kernel) {
  enum { COUNT = 20000 };
  craft c = {0};
  frame f = add_frame(&c, 50, 50);
  uint32_t info = info_record(&c), name = add_text(&c, "k"), interface_at = interface_record(&c, "k");
  for (uint32_t i = 0; i < COUNT; i++) {
    add_kernel(&c, "k", name, interface_at, i ? COUNT : 0, i ? 0 : COUNT);
    add_name(&c, 0);
    add_code(&c, 0, 0, info);
  }
  add_blob(&c, &f, KILN_BUNDLE_NO_DICTIONARY);
  finish(&c, kiln_test_path("h.kb"));
  expect_all(kiln_test_path("h.kb"), "the names 'k' and 'k' are not in order",
             (const char *const[]){"verify h.kb", "inspect h.kb", "merge -o m.kb h.kb", NULL});
}

// A gigabyte a blob: zeros alone shrink more than any code, and with noise the frame is there once.
TEST(hostile, aliased_codes_of_a_gigabyte) {
  enum { COUNT = 50 };
  for (int noise = 0; noise < 2; noise++) {
    craft c = {0};
    char name[20];
    frame f = add_frame(&c, KILN_BUNDLE_MAX_BLOB, noise ? 300000 : 0);
    uint32_t info = info_record(&c);
    for (uint32_t i = 0; i < COUNT; i++) {
      snprintf(name, sizeof name, "k%05u", i);
      add_kernel(&c, name, add_text(&c, name), interface_record(&c, name), i, 1);
      add_name(&c, i);
      add_code(&c, i, i, info);
      add_blob(&c, &f, KILN_BUNDLE_NO_DICTIONARY);
    }
    finish(&c, kiln_test_path("h.kb"));
    expect_all(kiln_test_path("h.kb"), noise ? "overlaps the one before" : "raw bytes in a frame of",
               (const char *const[]){"verify h.kb", NULL});
  }
}

// One code of 64 MB that four hundred kernels share is a real bundle: it is decoded once.
TEST(hostile, many_kernels_of_one_large_code) {
  enum { COUNT = 400 };
  craft c = {0};
  char name[20];
  frame f = add_frame(&c, 64 << 20, 20000);
  uint32_t info = info_record(&c);
  for (uint32_t i = 0; i < COUNT; i++) {
    snprintf(name, sizeof name, "k%05u", i);
    add_kernel(&c, name, add_text(&c, name), interface_record(&c, name), i, 1);
    add_name(&c, i);
    add_code(&c, i, 0, info);
  }
  add_blob(&c, &f, KILN_BUNDLE_NO_DICTIONARY);
  finish(&c, kiln_test_path("h.kb"));
  expect(0, "merge -o m.kb h.kb", "400 kernels, 400 codes");
}

// A megabyte of note under a thousand keys; a megabyte of text as each of a thousand names.
TEST(hostile, aliased_records) {
  enum { COUNT = 1000 };
  char *large = malloc(KILN_BUNDLE_MAX_RECORD), key[20];
  memset(large, 'x', KILN_BUNDLE_MAX_RECORD);
  for (int kind = 0; kind < 3; kind++) {
    craft c = {0};
    frame f = add_frame(&c, 50, 50);
    uint32_t text = add_record(&c, large, KILN_BUNDLE_MAX_RECORD), info = info_record(&c);
    for (uint32_t i = 0; i < COUNT; i++) {
      uint8_t note[8];
      snprintf(key, sizeof key, "k%05u", i);
      uint32_t name = kind == 1 ? text : add_text(&c, key), own = interface_record(&c, key);
      add_kernel(&c, key, name, own, i, 1);
      add_name(&c, i);
      add_code(&c, i, 0, kind == 2 ? text : info);
      kiln_put32(note, add_text(&c, key));
      kiln_put32(note + 4, text);
      if (!kind) add_entry(&c, KILN_BUNDLE_NOTES, note, sizeof note);
    }
    add_blob(&c, &f, KILN_BUNDLE_NO_DICTIONARY);
    finish(&c, kiln_test_path("h.kb"));
    expect(1, "inspect h.kb", kind ? "the limit of its kind" : "the notes have more than");
  }
  free(large);
}

// 60 KB that unpack to 60 MB, in the place of the index and beside it.
TEST(hostile, archives_that_unpack_to_much) {
  char *out;
  if (kiln_test_run(NULL, "bsdtar --version")) SKIP("bsdtar is not installed");
  fixture_add_one(kiln_test_path("a.kbundle"), "");
  if (kiln_test_run(
          &out,
          "cd %s && mkdir x && bsdtar -xf a.kbundle -C x && cd x && truncate -s 60M zeros && "
          "bsdtar --format=zip -cf ../beside.zip KILN-INDEX code zeros && truncate -s 60M KILN-INDEX "
          "&& bsdtar --format=zip -cf ../index.zip KILN-INDEX code && rm -r ../x",
          kiln_test_folder()))
    FAIL("%s", out);
  free(out);
  expect(1, "fix-index -o m.kb beside.zip", "KILN-E0010");
  expect(1, "fix-index -o m.kb index.zip", "no bundle does");
}

// --------------------------------------------------------------------------------------- the sweep

/// Kernels with codes for two targets, two variants' worth of sharing and a dictionary.
static uint8_t *write_rich(size_t *size) {
  fixture f;
  char name[20], code[600];
  fixture_begin(&f);
  for (uint32_t i = 0; i < 12; i++) {
    snprintf(name, sizeof name, "k%02u", i);
    uint32_t kernel = fixture_kernel(&f, &ADD_ONE_INTERFACE(name));
    for (size_t n = 0; n < sizeof code; n++) code[n] = (char)(n * n >> 3 ^ (n % 97 ? 0 : i));
    fixture_code(&f, kernel, 0, 0, KILN_FORMAT_HSACO, "gfx942", name, code, sizeof code - i % 4);
    fixture_code(&f, kernel, 0, 0, KILN_FORMAT_PTX, "sm_80", name, code, 100 + i / 2);
    kiln_manifest_note(&f.manifest, name, name);
  }
  fixture_write(&f, kiln_test_path("rich.kb"), "--dictionary=small");
  return (uint8_t *)kiln_test_read(kiln_test_path("rich.kb"), size);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/// Opens, walks and loads; whatever is refused has a text. Returns whether KILN_CHECK_ALL took it.
static bool walk(const uint8_t *bytes, size_t size) {
  kiln_library *l = NULL;
  kiln_device *d = NULL;
  kiln_kernel *k;
  kiln_report *r;
  kiln_preflight found;
  kiln_error err = {0};
  kiln_source source = {.bytes = bytes, .size = size};
  kiln_open_options options = {.size = sizeof options, .sources = &source, .source_count = 1};
  if (kiln_open(&options, &l, &err) == KILN_OK && kiln_device_open(l, "null:gfx942", &d, &err) == KILN_OK) {
    (void)!kiln_device_preflight(d, &found, &err);
    for (size_t i = 0; i < kiln_kernel_count(l); i++) {
      const char *name = kiln_kernel_name(l, i);
      if (!name) continue;
      if (kiln_kernel_get(d, name, NULL, &k, &err) == KILN_OK) (void)!kiln_preload(k, &err);
      if (kiln_explain(d, name, &r, &err) == KILN_OK) kiln_report_free(r);
    }
  }
  kiln_device_close(d);
  kiln_close(l);
  options.policy = KILN_CHECK_ALL;
  memset(&err, 0, sizeof err);
  bool whole = kiln_open(&options, &l, &err) == KILN_OK;
  if (whole) kiln_close(l);
  else if (!*err.text) FAIL("refused without a message");
  return whole;
}

static void seal(uint8_t *h) {
  uint32_t pages = kiln_le32(h + KILN_BH_PAGE_COUNT), tops = kiln_le32(h + KILN_BH_TOP_COUNT);
  uint8_t *top = h + KILN_BUNDLE_TOP, *region = h + kiln_le64(h + KILN_BH_REGION);
  put_checks(top + tops * KILN_BUNDLE_CHECK, region, kiln_le64(h + KILN_BH_REGION_SIZE));
  put_checks(top, top + tops * KILN_BUNDLE_CHECK, pages * KILN_BUNDLE_CHECK);
  put_check(h + KILN_BH_TOP_CHECK, top, tops * KILN_BUNDLE_CHECK);
  put_check(h + KILN_BH_CHECK, h, KILN_BH_CHECK);
}

// Entries copied over others, fields of one put into another, sections laid over each other: any number may
// come to mean what another one means. Time stays small, and no two blobs ever share bytes in a bundle that
// KILN_CHECK_ALL takes.
TEST(hostile, aliasing_and_overlap_of_the_index) {
  static const uint32_t sizes[KILN_BUNDLE_SECTIONS] = {
      KILN_BK_SIZE, 4, KILN_BC_SIZE, KILN_BB_SIZE, 4, KILN_BM_SIZE, 8, 1};
  size_t size, taken = 0, rounds = kiln_test_full() ? 250000 : 20000;
  uint8_t *good = write_rich(&size), *bytes = malloc(size);
  uint8_t *h = bytes + KILN_ZIP_LOCAL_SIZE + kiln_le16(good + KILN_ZIP_NAME_SIZE) +
               kiln_le16(good + KILN_ZIP_EXTRA_SIZE);
  double slowest = 0;
  CHECK(walk(good, size));
  for (size_t round = 0; round < rounds; round++) {
    uint64_t seed = round;
    memcpy(bytes, good, size);
    uint8_t *region = h + kiln_le64(h + KILN_BH_REGION);
    bool shares_blob = false;
    for (unsigned n = 1 + (unsigned)(kiln_test_random(&seed) % 4); n; n--) {
      unsigned s = (unsigned)(kiln_test_random(&seed) % KILN_BUNDLE_SECTIONS);
      uint8_t *section = h + KILN_BH_SECTIONS + 16 * s;
      uint64_t at = kiln_le64(section), count = kiln_le64(section + 8);
      if (!count || s == KILN_BUNDLE_RECORDS) continue;
      uint64_t a = kiln_test_random(&seed) % count, b = kiln_test_random(&seed) % count;
      uint64_t fields = sizes[s] / 4, field = kiln_test_random(&seed) % fields;
      switch (kiln_test_random(&seed) % 3) {
      case 0:
        memcpy(region + at + b * sizes[s], region + at + a * sizes[s], sizes[s]);
        shares_blob |= s == KILN_BUNDLE_BLOBS && a != b;
        break;
      case 1:
        memcpy(region + at + b * sizes[s] + 4 * field, region + at + a * sizes[s] + 4 * field, 4);
        break;
      default: // a section over another, as far as it goes
        kiln_put64(section, kiln_le64(h + KILN_BH_SECTIONS + 16 * (kiln_test_random(&seed) % 8)));
        break;
      }
    }
    seal(h);
    double begin = seconds();
    bool whole = walk(bytes, size);
    double took = seconds() - begin;
    if (took > slowest) slowest = took;
    if (whole && shares_blob && memcmp(bytes, good, size)) {
      // Unless a later step undid it: the blobs are looked at once more, pair by pair.
      const uint8_t *section = h + KILN_BH_SECTIONS + 16 * KILN_BUNDLE_BLOBS;
      const uint8_t *blobs = region + kiln_le64(section);
      for (uint64_t i = 0; i < kiln_le64(section + 8); i++)
        for (uint64_t j = 0; j < i; j++)
          if (!memcmp(blobs + i * KILN_BB_SIZE, blobs + j * KILN_BB_SIZE, KILN_BB_SIZE))
            FAIL("round %zu: blobs %d and %d are the same and pass", round, (int)j, (int)i);
    }
    taken += whole;
  }
  fprintf(stderr, "%zu variants, %zu taken whole, the slowest %.1f ms\n", rounds, taken, slowest * 1e3);
  CHECK(slowest < 1);
  CHECK(taken < rounds / 2);
  free(good);
  free(bytes);
}

// Codes that shrink beyond the bound are stored as they are, so whatever the writer makes can be read.
TEST(hostile, the_writer_stays_within_the_bounds) {
  enum { ZEROS = 3 << 20 };
  fixture f;
  kiln_library *l;
  kiln_error err;
  uint8_t *zeros = calloc(1, ZEROS);
  static const char *const names[] = {"a", "b", "c"};
  fixture_begin(&f);
  for (unsigned i = 0; i < 3; i++) {
    zeros[0] = (uint8_t)i;
    fixture_code(&f, fixture_kernel(&f, &ADD_ONE_INTERFACE(names[i])), 0, 0, KILN_FORMAT_HSACO, "gfx942", "k",
                 zeros, ZEROS - i);
  }
  free(zeros);
  fixture_write(&f, kiln_test_path("z.kb"), "--dictionary=large --level 19");
  CHECK_OK(open_all(kiln_test_path("z.kb"), KILN_CHECK_ALL, &l, &err), err);
  kiln_close(l);
  expect(0, "verify z.kb", "all as written");
}
