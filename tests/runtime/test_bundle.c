// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests bundles that are written and read again: same bytes from any order, standard tools, dictionaries,
// layers, signatures, sources of every kind.
#include <fcntl.h>
#include <sodium/crypto_generichash_blake2b.h>
#include <sodium/crypto_sign_ed25519.h>
#include <time.h>
#include <unistd.h>

#include "base/digest.h"
#include "runtime/bundle/reader.h"
#include "tests/runtime/fixture.h"

enum { KERNELS = 40, CODE = 3000 };

static void fill_code(uint8_t code[CODE], uint32_t seed) {
  uint64_t state = seed;
  for (unsigned i = 0; i < CODE; i++) code[i] = (uint8_t)(i < 300 ? kiln_test_random(&state) : i * i >> 4);
}

// `step` is coprime to KERNELS: another order of the same set.
static void write_many(const char *path, uint32_t step, const char *options) {
  fixture f;
  fixture_begin(&f);
  kiln_manifest_note(&f.manifest, step == 1 ? "compiler" : "language", step == 1 ? "kiln 0.1" : "1");
  for (uint32_t i = 0; i < KERNELS; i++) {
    char name[32];
    uint8_t code[CODE];
    uint32_t n = i * step % KERNELS;
    snprintf(name, sizeof name, "kernel[N=%u]", n);
    fill_code(code, n % 30); // ten codes are shared by two kernels
    uint32_t kernel = fixture_kernel(&f, &ADD_ONE_INTERFACE(name));
    fixture_code(&f, kernel, 0, 0, KILN_FORMAT_HSACO, "gfx942", "add_one", code, CODE);
    fixture_code(&f, kernel, 0, 0, KILN_FORMAT_PTX, "sm_90", "add_one", code + 1, CODE - 1);
  }
  kiln_manifest_note(&f.manifest, step == 1 ? "language" : "compiler", step == 1 ? "1" : "kiln 0.1");
  fixture_write(&f, path, options);
}

static void check_same(const char *a, const char *b) {
  size_t a_size, b_size;
  char *x = kiln_test_read(a, &a_size), *y = kiln_test_read(b, &b_size);
  CHECK_INT(a_size, b_size);
  CHECK(!memcmp(x, y, a_size));
  free(x);
  free(y);
}

// 41: the same set in another order, on another number of threads, in another time zone: the same bytes.
TEST(bundle, same_set_same_bytes) {
  static const char *const levels[] = {"", "--level 19", "--dictionary none", "--dictionary large",
                                       "--member-per-kernel"};
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    char one[80], two[80];
    snprintf(one, sizeof one, "%s -j 1", levels[i]);
    snprintf(two, sizeof two, "%s -j 5", levels[i]);
    write_many(kiln_test_path("a.kbundle"), 1, one);
    setenv("TZ", "Asia/Tokyo", 1);
    write_many(kiln_test_path("b.kbundle"), 7, two);
    check_same(kiln_test_path("a.kbundle"), kiln_test_path("b.kbundle"));
  }
}

TEST(bundle, every_code_comes_back) {
  static const char *const levels[] = {"",
                                       "--level 19",
                                       "--dictionary none",
                                       "--dictionary small",
                                       "--dictionary large",
                                       "--member-per-kernel"};
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    kiln_bundle *b;
    kiln_error err;
    kiln_source source = {.path = kiln_test_path("a.kbundle")};
    kiln_open_options options = {.size = sizeof options};
    write_many(source.path, 1, levels[i]);
    CHECK_OK(kiln_bundle_open(&source, &options, &b, &err), err);
    for (uint32_t n = 0; n < KERNELS; n++) {
      char name[32];
      uint8_t want[CODE];
      kiln_kernel_entry kernel;
      kiln_code_entry code;
      kiln_bytes bytes;
      snprintf(name, sizeof name, "kernel[N=%u]", n);
      fill_code(want, n % 30);
      kiln_check hash = kiln_check_of(name, strlen(name));
      CHECK_OK(kiln_bundle_kernel_find(b, name, &hash, &kernel, &err), err);
      CHECK_INT(kernel.code_count, 2);
      for (uint32_t c = 0; c < 2; c++) {
        CHECK_OK(kiln_bundle_code_at(b, &kernel, c, &code, &err), err);
        bool is_ptx = code.flags & KILN_BUNDLE_CODE_PTX;
        CHECK_TEXT(kiln_bundle_target_at(b, code.target, &err), is_ptx ? "sm_90" : "gfx942");
        CHECK_OK(kiln_bundle_load(b, code.blob, &bytes, &err), err);
        CHECK_INT(bytes.size, CODE - is_ptx);
        CHECK(!memcmp(bytes.bytes, want + is_ptx, bytes.size));
        kiln_bytes_deinit(&bytes);
      }
    }
    CHECK_OK(kiln_bundle_check_all(b, &err), err);
    kiln_bundle_close(b);
  }
}

// Forty codes, each the same patterns in another order: small frames, whose tables weigh more than what they
// hold.
static void write_patterns(const char *path, const char *options) {
  fixture f;
  fixture_begin(&f);
  for (uint32_t n = 0; n < KERNELS; n++) {
    char name[32];
    uint8_t code[CODE];
    uint64_t state = n + 1;
    for (unsigned at = 0; at < CODE; at += 20) {
      uint64_t pattern = kiln_test_random(&state) % 97;
      for (unsigned i = 0; i < 20; i++)
        code[at + i] =
            (uint8_t)(i % 20 < 17 ? kiln_test_random(&pattern) & 0x3f : kiln_test_random(&state) & 0xf);
    }
    snprintf(name, sizeof name, "pattern%u", n);
    fixture_code(&f, fixture_kernel(&f, &ADD_ONE_INTERFACE(name)), 0, 0, KILN_FORMAT_HSACO, "gfx942",
                 "add_one", code, CODE);
  }
  fixture_write(&f, path, options);
}

// At strong levels a dictionary brings entropy tables where they pay; the header says so, and a form that is
// not known is refused.
TEST(bundle, dictionaries_with_tables) {
  static const struct {
    const char *options;
    unsigned features, form;
  } cases[] = {{"--level 3", 0, KILN_BUNDLE_FORM_CONTENT},
               {"--level 19", KILN_BUNDLE_FEATURE_TABLES, KILN_BUNDLE_FORM_TABLES}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kiln_bundle *b;
    kiln_error err;
    kiln_blob_entry e;
    kiln_source source = {.path = kiln_test_path("tables.kbundle")};
    kiln_open_options options = {.size = sizeof options};
    write_patterns(source.path, cases[i].options);
    CHECK_OK(kiln_bundle_open(&source, &options, &b, &err), err);
    CHECK_INT(kiln_le32(b->header + KILN_BH_MUST), cases[i].features);
    CHECK_OK(kiln_bundle_blob_at(b, 0, &e, &err), err);
    CHECK_INT(e.form, cases[i].form);
    CHECK_OK(kiln_bundle_check_all(b, &err), err);
    kiln_bundle_close(b);
  }
}

// Equal codes are stored once.
TEST(bundle, equal_codes_are_stored_once) {
  kiln_bundle *b;
  kiln_error err;
  kiln_source source = {.path = kiln_test_path("a.kbundle")};
  kiln_open_options options = {.size = sizeof options};
  write_many(source.path, 1, "--dictionary none");
  CHECK_OK(kiln_bundle_open(&source, &options, &b, &err), err);
  CHECK_INT(b->section_count[KILN_BUNDLE_CODES], 2 * KERNELS);
  CHECK_INT(b->section_count[KILN_BUNDLE_BLOBS], 2 * 30);
  kiln_bundle_close(b);
}

// Stock tools list, test and extract the archive; frames of a member are one zstd stream.
TEST(bundle, stock_tools_read_the_archive) {
  char *out;
  const char *f = kiln_test_folder();
  write_many(kiln_test_path("a.kbundle"), 1, "--dictionary none");
  if (kiln_test_run(&out, "bsdtar -tf %s/a.kbundle", f)) FAIL("bsdtar: %s", out);
  CHECK_TEXT(out, "KILN-INDEX\ncode/gfx9.zst\ncode/ptx.zst\n");
  free(out);
  if (kiln_test_run(&out,
                    "python3 -m zipfile -t %s/a.kbundle && mkdir %s/x && bsdtar -xf %s/a.kbundle -C %s/x", f,
                    f, f, f))
    FAIL("%s", out);
  free(out);
  if (!kiln_test_run(&out, "command -v zstd")) {
    free(out);
    if (kiln_test_run(&out, "zstd -dc %s/x/code/gfx9.zst | wc -c", f)) FAIL("zstd: %s", out);
    CHECK_INT(atoi(out), 30 * CODE);
  }
  free(out);
}

// 49: a failed build leaves the former bundle.
TEST(bundle, failed_write_keeps_the_old_file) {
  char *out;
  const char *f = kiln_test_folder();
  write_many(kiln_test_path("a.kbundle"), 1, "");
  write_many(kiln_test_path("b.kbundle"), 1, "");
  kiln_test_write(kiln_test_path("bad"), "KILNMAN1\x07", 9);
  CHECK_INT(
      kiln_test_run(&out, "%s/bin/kiln-tool bundle-write -o %s/a.kbundle %s/bad", kiln_test_build(), f, f),
      1);
  CHECK(strstr(out, "manifest is damaged near byte 9 of 9"));
  free(out);
  CHECK_INT(kiln_test_run(&out, "%s/bin/kiln-tool bundle-write --max-size 10 -o %s/a.kbundle %s/manifest",
                          kiln_test_build(), f, f),
            1);
  CHECK(strstr(out, "--max-size allows 10"));
  free(out);
  check_same(kiln_test_path("a.kbundle"), kiln_test_path("b.kbundle"));
}

TEST(bundle, conflicting_entries_are_refused) {
  char manifest[512], *out;
  fixture f;
  fixture_begin(&f);
  uint32_t kernel = fixture_kernel(&f, &ADD_ONE_INTERFACE("k"));
  fixture_code(&f, kernel, 0, 0, KILN_FORMAT_HSACO, "gfx942", "k", "one", 3);
  fixture_code(&f, kernel, 0, 0, KILN_FORMAT_HSACO, "gfx942", "k", "one", 3); // the same again is allowed
  fixture_code(&f, kernel, 0, 0, KILN_FORMAT_HSACO, "gfx942", "k", "two", 3);
  kiln_manifest_end(&f.manifest);
  snprintf(manifest, sizeof manifest, "%s/m", kiln_test_folder());
  kiln_test_write(manifest, f.manifest.bytes, f.manifest.size);
  CHECK_INT(kiln_test_run(&out, "%s/bin/kiln-tool bundle-write -o %s/a.kbundle %s", kiln_test_build(),
                          kiln_test_folder(), manifest),
            1);
  CHECK(strstr(out, "'k' config 0 variant 0 for gfx942 is added twice with different codes"));
  free(out);
  kiln_buffer_deinit(&f.manifest);
}

// The same bundle as file, bytes and descriptor.
TEST(bundle, every_source_opens) {
  kiln_library *l;
  kiln_error err;
  size_t size;
  fixture_add_one(kiln_test_path("a.kbundle"), "");
  char *bytes = kiln_test_read(kiln_test_path("a.kbundle"), &size);
  int fd = open(kiln_test_path("a.kbundle"), O_RDONLY);
  kiln_source sources[] = {{.path = kiln_test_path("a.kbundle")}, {.bytes = bytes, .size = size}, {.fd = fd}};
  kiln_open_options options = {.size = sizeof options, .sources = sources, .source_count = 3};
  CHECK_OK(kiln_open(&options, &l, &err), err);
  close(fd);
  CHECK_INT(kiln_kernel_count(l), 3);
  for (size_t i = 0; i < 3; i++) CHECK_TEXT(kiln_kernel_name(l, i), "add_one");
  kiln_close(l);
  CHECK_INT(kiln_open_file(kiln_test_path("absent"), &l, &err), KILN_STATUS_NOT_FOUND);
  CHECK_INT(kiln_open_file(kiln_test_folder(), &l, &err), KILN_STATUS_INVALID_ARGUMENT);
  free(bytes);
}

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static long resident_pages(void) {
  long total = 0, resident = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  CHECK(f && fscanf(f, "%ld %ld", &total, &resident) == 2);
  fclose(f);
  return resident;
}

// Open takes at most 100 us and 1 MiB, whatever the number of kernels.
TEST(bundle, open_does_not_grow_with_the_bundle) {
  enum { MANY = 10000, OPENS = 30 };
  fixture f;
  fixture_begin(&f);
  for (uint32_t i = 0; i < MANY; i++) {
    char name[32];
    snprintf(name, sizeof name, "kernel[N=%u]", i);
    fixture_code(&f, fixture_kernel(&f, &ADD_ONE_INTERFACE(name)), 0, 0, KILN_FORMAT_HSACO, "gfx942",
                 "add_one", name, strlen(name));
  }
  fixture_write(&f, kiln_test_path("many.kbundle"), "--dictionary none");
  kiln_library *small;
  kiln_error first;
  fixture_add_one(kiln_test_path("a.kbundle"), "");
  CHECK_OK(kiln_open_file(kiln_test_path("a.kbundle"), &small, &first),
           first); // the library's own code is resident from here on
  uint64_t least = UINT64_MAX;
  long before = resident_pages();
  for (int i = 0; i < OPENS; i++) {
    kiln_library *l;
    kiln_error err;
    uint64_t begin = now_ns();
    CHECK_OK(kiln_open_file(kiln_test_path("many.kbundle"), &l, &err), err);
    uint64_t took = now_ns() - begin;
    if (took < least) least = took;
    if (i == 0 && resident_pages() - before > 256)
      FAIL("%ld pages more are resident after open", resident_pages() - before);
    CHECK_INT(kiln_kernel_count(l), MANY);
    kiln_close(l);
  }
  kiln_close(small);
  if (least > 100000) FAIL("open took %llu ns at best", (unsigned long long)least);
}

// A bundle inside a program: assembled in by .incbin, opened from memory.
TEST(bundle, embedded_in_a_program) {
  static const char program[] =
      "#include <stdio.h>\n#include \"runtime/kiln.h\"\n"
      "extern const unsigned char bundle_begin[], bundle_end[];\n"
      "__asm__(\".section .rodata\\n.balign 4096\\n.globl bundle_begin\\nbundle_begin: .incbin \\\"\" FOLDER "
      "\"/a.kbundle\\\"\\n.globl bundle_end\\nbundle_end:\\n.previous\");\n"
      "int main(void) {\n  kiln_library *l; kiln_device *d; kiln_kernel *k; kiln_error err;\n"
      "  float x[3] = {1, 2, 3}, y[3] = {0, 0, 0}; void *px = x, *py = y; int n = 3;\n"
      "  if (kiln_open_memory(bundle_begin, (size_t)(bundle_end - bundle_begin), &l, &err) || "
      "kiln_device_open(l, \"host\", &d, &err) ||\n"
      "      kiln_kernel_get(d, \"add_one\", NULL, &k, &err) || kiln_launch(k, NULL, (const void "
      "*const[]){&px, &py, &n}, 3, &err))\n"
      "    return printf(\"%s\\n\", err.text), 1;\n"
      "  printf(\"%g %g %g\\n\", (double)y[0], (double)y[1], (double)y[2]);\n  kiln_device_close(d);\n  "
      "kiln_close(l);\n  return 0;\n}\n";
  char *out;
  const char *f = kiln_test_folder();
  fixture_add_one(kiln_test_path("a.kbundle"), "");
  kiln_test_write(kiln_test_path("app.c"), program, sizeof program - 1);
  if (kiln_test_run(&out,
                    "gcc -std=c11 " KILN_TEST_COMPILE
                    " -I. -DFOLDER='\"%s\"' %s/app.c %s/lib/libruntime.a %s/lib/libtargets.a "
                    "%s/lib/libbase.a -l:libzstd.a -lpthread -ldl -o %s/app && "
                    "rm %s/a.kbundle && mkdir %s/moved && mv %s/app %s/moved/ && %s/moved/app",
                    f, f, kiln_test_build(), kiln_test_build(), kiln_test_build(), f, f, f, f, f, f))
    FAIL("%s", out);
  CHECK_TEXT(out, "2 3 4\n");
  free(out);
}

// Layers: the better rank wins, then the earlier bundle.
TEST(bundle, layers_choose_by_rank_then_order) {
  static const char *const targets[] = {"x86-64-v2", "host", "host"};
  kiln_source sources[3];
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  kiln_choice choice;
  for (int i = 0; i < 3; i++) {
    fixture f;
    char name[32];
    snprintf(name, sizeof name, "%d.kbundle", i);
    sources[i] = (kiln_source){.path = kiln_test_path(name)};
    fixture_begin(&f);
    uint32_t kernel = fixture_kernel(&f, &ADD_ONE_INTERFACE("add_one"));
    fixture_code(&f, kernel, 0, 0, KILN_FORMAT_HOST, i ? "x86-64-v3" : targets[0], "add_one", targets[i], 4);
    fixture_write(&f, sources[i].path, "");
  }
  kiln_open_options options = {.size = sizeof options, .sources = sources, .source_count = 3};
  CHECK_OK(kiln_open(&options, &l, &err), err);
  CHECK_OK(kiln_device_open(l, "host", &d, &err), err);
  if (strstr(kiln_device_target_name(d), "v2")) SKIP("this processor is below x86-64-v3");
  CHECK_OK(kiln_kernel_get(d, "add_one", NULL, &k, &err), err);
  uint8_t block[64] = {0};
  CHECK_OK(kiln_choose(k, block, kiln_block_size(k), &choice, &err), err);
  CHECK_TEXT(choice.bundle, sources[1].path);
  CHECK_TEXT(choice.target, "x86-64-v3");
  kiln_device_close(d);
  kiln_close(l);
}

// -------------------------------------------------------------------------------------- signatures

typedef struct trust {
  const uint8_t *key;
  unsigned bundles, codes;
} trust;

static int verify(void *user, const kiln_verify_request *r) {
  trust *t = user;
  uint8_t digest[32];
  crypto_generichash_blake2b(digest, sizeof digest, r->index, r->index_size, NULL, 0);
  if (memcmp(digest, r->digest, 32)) return 0;
  if (!r->signed_bytes) return t->codes++, 1;
  t->bundles++;
  return r->signature && !memcmp(r->public_key, t->key, 32) &&
         !crypto_sign_ed25519_verify_detached(r->signature, r->signed_bytes, r->signed_size, r->public_key);
}

TEST(bundle, signatures_are_asked_for) {
  uint8_t public_key[32], other[32] = {1};
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  fixture_keys("key", public_key);
  char sign[600];
  snprintf(sign, sizeof sign, "--sign %s", kiln_test_path("key"));
  fixture_add_one(kiln_test_path("a.kbundle"), sign);
  trust t = {.key = public_key};
  kiln_source source = {.path = kiln_test_path("a.kbundle")};
  kiln_open_options options = {.size = sizeof options,
                               .sources = &source,
                               .source_count = 1,
                               .policy = KILN_NEED_SIGNATURE,
                               .verify = verify,
                               .verify_user = &t};
  CHECK_OK(kiln_open(&options, &l, &err), err);
  CHECK_OK(kiln_device_open(l, "host", &d, &err), err);
  CHECK_OK(kiln_kernel_get(d, "add_one", NULL, &k, &err), err);
  CHECK_OK(kiln_preload(k, &err), err);
  CHECK_INT(t.bundles, 1);
  CHECK_INT(t.codes, 1);
  kiln_device_close(d);
  kiln_close(l);
  t.key = other; // a key that is not trusted
  CHECK_INT(kiln_open(&options, &l, &err), KILN_STATUS_UNTRUSTED);
  fixture_add_one(kiln_test_path("a.kbundle"), "");
  CHECK_INT(kiln_open(&options, &l, &err), KILN_STATUS_UNTRUSTED);
  CHECK(strstr(err.text, "not signed"));
}
