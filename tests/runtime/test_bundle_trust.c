// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests what an application may rely on after kiln_open: a file that is changed or cut in place never runs
// other code and raises no signal; what a caller requires of name and version holds; meaningless arguments
// are errors.
#include <fcntl.h>
#include <sys/mman.h>

#include "runtime/bundle/reader.h"
#include "tests/runtime/fixture.h"
#include "tests/runtime/trusting.h"

/// add_one as it should be, and as an attacker wants it: one instruction's constant differs.
#define ADDING(what)                                                                                        \
  "struct a { const float *x; float *y; int n; };\n" HOST_KERNEL(                                           \
      "add_one") " {\n"                                                                                     \
                 "  const struct a *a = args; (void)scratch; (void)grid;\n"                                 \
                 "  for (unsigned i = id[0] * 64; i < id[0] * 64 + 64 && i < (unsigned)a->n; i++) a->y[i] " \
                 "= "                                                                                       \
                 "a->x[i] + " what ";\n"                                                                    \
                 "  return 0;\n}\n"

typedef struct image {
  uint8_t *bytes;
  size_t size;
} image;

static image build(const char *source, const char *options) {
  fixture f;
  image im;
  size_t size;
  uint8_t *object = fixture_object(source, &size);
  fixture_begin(&f);
  uint32_t kernel = fixture_kernel(&f, &ADD_ONE_INTERFACE("add_one"));
  fixture_code(&f, kernel, 0, 0, KILN_FORMAT_HOST, "x86-64-v2", "add_one", object, size);
  fixture_write(&f, kiln_test_path("made.kbundle"), options);
  free(object);
  im.bytes = (uint8_t *)kiln_test_read(kiln_test_path("made.kbundle"), &im.size);
  return im;
}

/// Another code in a bundle of the same size: the constants pack differently.
static image build_alike(size_t size, const char *options) {
  static const char *const sources[] = {ADDING("3"),    ADDING("5"),    ADDING("7"),    ADDING("9"),
                                        ADDING("1.7f"), ADDING("0.3f"), ADDING("1.1f"), ADDING("2.3f")};
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
    image im = build(sources[i], options);
    if (im.size == size) return im;
    free(im.bytes);
  }
  FAIL("no other code makes a bundle of %zu bytes", size);
}

/// How far the application is when the file changes.
enum { AFTER_OPEN, AFTER_DEVICE, AFTER_LOOK_UP, AFTER_LOAD, MOMENTS };

typedef struct attack {
  kiln_source source;
  uint32_t policy;
  kiln_verifier *verifier; // NULL: unsigned
  void (*change)(const struct attack *a);
  const image *to;
  int fd;
  uint8_t *memory;
  size_t cut;
} attack;

static size_t changes;
static void tell_changes(void) { fprintf(stderr, "changed in place %zu times\n", changes); }

static void change(const attack *a) {
  changes++;
  a->change(a);
}

static kiln_status use(const attack *a, int moment, float y[3]) {
  kiln_library *l = NULL;
  kiln_device *d = NULL;
  kiln_kernel *k = NULL;
  kiln_error err = {0};
  float x[3] = {1, 2, 3};
  const float *px = x;
  int n = 3;
  kiln_open_options options = {
      .size = sizeof options, .sources = &a->source, .source_count = 1, .policy = a->policy};
  if (a->verifier) options.verify = kiln_verify_trusted, options.verify_user = a->verifier;
  memset(y, 0, 3 * sizeof *y);
  CHECK_OK(kiln_open(&options, &l, &err), err);
  if (moment == AFTER_OPEN) change(a);
  kiln_status status = kiln_device_open(l, "host:1", &d, &err);
  if (moment == AFTER_DEVICE) change(a);
  if (status == KILN_OK) status = kiln_kernel_get(d, "add_one", NULL, &k, &err);
  if (moment == AFTER_LOOK_UP) change(a);
  if (status == KILN_OK) status = kiln_preload(k, &err);
  if (moment == AFTER_LOAD) change(a);
  if (status == KILN_OK) status = kiln_launch(k, NULL, (const void *const[]){&px, &y, &n}, 3, &err);
  if (status != KILN_OK && !*err.text) FAIL("status %d without a message", (int)status);
  kiln_device_close(d);
  kiln_close(l);
  return status;
}

static void put_file(const image *im) { kiln_test_write(kiln_test_path("a.kbundle"), im->bytes, im->size); }

static void overwrite_file(const attack *a) {
  if (pwrite(a->fd, a->to->bytes, a->to->size, 0) != (ssize_t)a->to->size) FAIL("pwrite");
}
static void overwrite_memory(const attack *a) { memcpy(a->memory, a->to->bytes, a->to->size); }
static void cut_file(const attack *a) {
  if (ftruncate(a->fd, (off_t)a->cut)) FAIL("ftruncate");
}

/// The launch gave the signed code's result, or an error and no result.
static void expect_signed(kiln_status status, const float y[3], const char *what, size_t at, int moment) {
  bool ran = y[0] > 0 || y[1] > 0 || y[2] > 0, right = y[0] == 2 && y[1] == 3 && y[2] == 4;
  if ((status == KILN_OK) != right || (status != KILN_OK && ran))
    FAIL("%s, byte %zu, moment %d: status %d, y = %g %g %g", what, at, moment, (int)status, (double)y[0],
         (double)y[1], (double)y[2]);
}

/// A signed bundle and one of the same size with other code, and every mix of the two: what the attacker
/// writes is `evil` from each of its 32-byte pieces on, and each piece alone.
static void change_in_place(const char *options, bool in_memory) {
  uint8_t key[32];
  char sign[700];
  float y[3];
  fixture_keys("secret", key);
  snprintf(sign, sizeof sign, "%s --sign %s", options, kiln_test_path("secret"));
  image good = build(ADDING("1"), sign), evil = build_alike(good.size, sign),
        mix = {malloc(good.size), good.size};
  kiln_verifier *v = trusting(key);
  attack a = {.verifier = v, .to = &mix, .change = in_memory ? overwrite_memory : overwrite_file};
  size_t step = kiln_test_full() ? 32 : 512;
  put_file(&good);
  a.fd = open(kiln_test_path("a.kbundle"), O_RDWR);
  a.memory = malloc(good.size);
  a.source = in_memory ? (kiln_source){.bytes = a.memory, .size = good.size}
                       : (kiln_source){.path = kiln_test_path("a.kbundle")};
  for (size_t at = 0; at < good.size; at += step)
    for (int way = 0; way < 2 * MOMENTS; way++) {
      size_t left = good.size - at, length = way % 2 || left < step ? left : step;
      memcpy(mix.bytes, good.bytes, good.size);
      memcpy(mix.bytes + at, evil.bytes + at, length);
      memcpy(a.memory, good.bytes, good.size);
      if (pwrite(a.fd, good.bytes, good.size, 0) != (ssize_t)good.size) FAIL("pwrite");
      a.policy = KILN_NEED_SIGNATURE | (at / step % 2 ? KILN_CHECK_ALL : 0);
      kiln_status status = use(&a, way / 2, y);
      expect_signed(status, y, in_memory ? "memory" : "file", at, way / 2);
    }
  tell_changes();
  close(a.fd);
  free(a.memory);
  kiln_verifier_destroy(v);
}

// Four ways for a code to lie in a bundle: as it is, in a frame, in a frame with a dictionary, a member
// alone.
TEST(trust, a_signed_file_changed_in_place_runs_no_other_code) { change_in_place("--level 3", false); }
TEST(trust, a_signed_file_of_members_changed_in_place) { change_in_place("--member-per-kernel", false); }
TEST(trust, signed_memory_changed_in_place_runs_no_other_code) { change_in_place("--level 3", true); }

enum { KERNELS = 5 };

/// A signed bundle of kernels that differ in one constant each, so that their codes could stand for each
/// other.
static image build_several(const char *options) {
  fixture f;
  image im;
  char name[16];
  static const char *const sources[KERNELS] = {ADDING("1"), ADDING("2"), ADDING("3"), ADDING("4"),
                                               ADDING("5")};
  fixture_begin(&f);
  for (int i = 0; i < KERNELS; i++) {
    size_t size;
    snprintf(name, sizeof name, "k%d", i);
    uint8_t *object = fixture_object(sources[i], &size);
    fixture_code(&f, fixture_kernel(&f, &ADD_ONE_INTERFACE(name)), 0, 0, KILN_FORMAT_HOST, "x86-64-v2",
                 "add_one", object, size);
    free(object);
  }
  fixture_write(&f, kiln_test_path("several.kbundle"), options);
  im.bytes = (uint8_t *)kiln_test_read(kiln_test_path("several.kbundle"), &im.size);
  return im;
}

/// Launches each kernel, the file changing at `moment`; each gives its own result or none.
static void launch_several(attack *a, int moment, uint32_t blob) {
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k[KERNELS] = {0};
  kiln_error err;
  float x[3] = {1, 2, 3};
  const float *px = x;
  int n = 3;
  char name[16];
  kiln_open_options options = {.size = sizeof options,
                               .sources = &a->source,
                               .source_count = 1,
                               .policy = a->policy,
                               .verify = kiln_verify_trusted,
                               .verify_user = a->verifier};
  CHECK_OK(kiln_open(&options, &l, &err), err);
  CHECK_OK(kiln_device_open(l, "host:1", &d, &err), err);
  if (moment == AFTER_OPEN) change(a);
  for (int i = 0; i < KERNELS; i++) {
    snprintf(name, sizeof name, "k%d", i);
    CHECK_OK(kiln_kernel_get(d, name, NULL, &k[i], &err), err);
  }
  if (moment == AFTER_LOOK_UP) change(a);
  for (int i = 0; moment == AFTER_LOAD && i < KERNELS; i++) CHECK_OK(kiln_preload(k[i], &err), err);
  if (moment == AFTER_LOAD) change(a);
  int refused = 0;
  for (int i = 0; i < KERNELS; i++) {
    float y[3] = {0}, *py = y;
    kiln_status status = kiln_launch(k[i], NULL, (const void *const[]){&px, &py, &n}, 3, &err);
    refused += status != KILN_OK;
    float want = status == KILN_OK ? (float)(i + 2) : 0;
    if (y[0] != want)
      FAIL("blob %u, moment %d: k%d gives %g, expected %g", blob, moment, i, (double)y[0], (double)want);
  }
  if (refused && moment == AFTER_LOAD) FAIL("blob %u: a loaded kernel is refused", blob);
  if (!refused && moment != AFTER_LOAD) FAIL("blob %u, moment %d: nothing was refused", blob, moment);
  kiln_device_close(d);
  kiln_close(l);
}

// Each blob, dictionaries too, overwritten in place by noise and by the bytes of each other blob.
static void change_every_blob(const char *options, bool in_memory) {
  uint8_t key[32];
  char sign[700];
  uint64_t seed = 3;
  kiln_bundle *b;
  kiln_error err;
  kiln_blob_entry to, from;
  kiln_open_options none = {.size = sizeof none};
  fixture_keys("secret", key);
  snprintf(sign, sizeof sign, "%s --sign %s", options, kiln_test_path("secret"));
  image good = build_several(sign), mix = {malloc(good.size), good.size};
  kiln_verifier *v = trusting(key);
  attack a = {.verifier = v,
              .policy = KILN_NEED_SIGNATURE,
              .to = &mix,
              .change = in_memory ? overwrite_memory : overwrite_file};
  put_file(&good);
  a.fd = open(kiln_test_path("a.kbundle"), O_RDWR);
  a.memory = malloc(good.size);
  a.source = in_memory ? (kiln_source){.bytes = a.memory, .size = good.size}
                       : (kiln_source){.path = kiln_test_path("a.kbundle")};
  CHECK_OK(kiln_bundle_open(&(kiln_source){.bytes = good.bytes, .size = good.size}, &none, &b, &err), err);
  uint32_t blobs = (uint32_t)b->section_count[KILN_BUNDLE_BLOBS];
  CHECK(blobs >= KERNELS);
  for (uint32_t i = 0; i < blobs; i++)
    for (uint32_t j = 0; j <= blobs; j++)
      for (int moment = 0; moment < MOMENTS; moment++) {
        if (i == j || moment == AFTER_DEVICE) continue;
        CHECK_OK(kiln_bundle_blob_at(b, i, &to, &err), err);
        memcpy(mix.bytes, good.bytes, good.size);
        for (uint32_t n = 0; j == blobs && n < to.stored; n++)
          mix.bytes[to.offset + n] = (uint8_t)kiln_test_random(&seed);
        if (j < blobs) {
          CHECK_OK(kiln_bundle_blob_at(b, j, &from, &err), err);
          memcpy(mix.bytes + to.offset, good.bytes + from.offset,
                 to.stored < from.stored ? to.stored : from.stored);
        }
        memcpy(a.memory, good.bytes, good.size);
        if (pwrite(a.fd, good.bytes, good.size, 0) != (ssize_t)good.size) FAIL("pwrite");
        launch_several(&a, moment, i);
      }
  tell_changes();
  kiln_bundle_close(b);
  close(a.fd);
  free(a.memory);
  free(good.bytes);
  free(mix.bytes);
  kiln_verifier_destroy(v);
}

TEST(trust, every_blob_changed_in_place) {
  static const char *const options[] = {"--level 3", "--member-per-kernel", "--dictionary=small",
                                        "--dictionary none"};
  for (int i = 0; i < 8; i++) change_every_blob(options[i / 2], i % 2);
}

/// An object of random bytes after the code does not shrink, so it is stored as it is, at a page.
TEST(trust, a_stored_code_changed_in_place) {
  enum { NOISE = 40000 };
  static char source[2][NOISE * 5 + 2000];
  uint64_t seed = 1;
  for (int i = 0; i < 2; i++) {
    char *at = source[i] + sprintf(source[i], "const unsigned char noise[] = {");
    seed = 1;
    for (int n = 0; n < NOISE; n++) at += sprintf(at, "%u,", (unsigned)kiln_test_random(&seed) & 255);
    sprintf(at, "};\n%s", i ? ADDING("2") : ADDING("1"));
  }
  uint8_t key[32];
  char sign[600];
  float y[3];
  fixture_keys("secret", key);
  snprintf(sign, sizeof sign, "--dictionary none --sign %s", kiln_test_path("secret"));
  image good = build(source[0], sign), evil = build(source[1], sign);
  CHECK_INT(evil.size, good.size);
  kiln_verifier *v = trusting(key);
  for (int moment = 0; moment < MOMENTS; moment++) {
    put_file(&good);
    attack a = {.source = {.path = kiln_test_path("a.kbundle")},
                .policy = KILN_NEED_SIGNATURE,
                .verifier = v,
                .change = overwrite_file,
                .to = &evil,
                .fd = open(kiln_test_path("a.kbundle"), O_RDWR)};
    kiln_status status = use(&a, moment, y);
    expect_signed(status, y, "stored", 0, moment);
    CHECK(moment != AFTER_LOAD || status == KILN_OK);
    close(a.fd);
  }
  kiln_verifier_destroy(v);
}

// Unsigned too: a file that is cut while it is open is an error, never a signal.
TEST(trust, a_file_cut_in_place_is_an_error) {
  float y[3];
  image good = build(ADDING("1"), "");
  for (size_t cut = 0; cut < good.size; cut += kiln_test_full() ? 7 : 61)
    for (int moment = 0; moment < MOMENTS; moment++) {
      put_file(&good);
      attack a = {.source = {.path = kiln_test_path("a.kbundle")},
                  .change = cut_file,
                  .cut = cut,
                  .fd = open(kiln_test_path("a.kbundle"), O_RDWR)};
      kiln_status status = use(&a, moment, y);
      expect_signed(status, y, "cut", cut, moment);
      if (moment == AFTER_LOAD) CHECK_INT(status, KILN_OK);
      if (moment == AFTER_OPEN && !cut) CHECK_INT(status, KILN_STATUS_CORRUPT);
      close(a.fd);
    }
  tell_changes();
}

static uint8_t damage;
static size_t damage_at;
static void damage_file(const attack *a) {
  if (pwrite(a->fd, &damage, 1, (off_t)damage_at) != 1) FAIL("pwrite");
}

// Without a signature anybody may change the code; what was checked is still what is used.
TEST(trust, every_byte_changed_after_the_look_up) {
  float y[3];
  image good = build(ADDING("1"), "");
  put_file(&good);
  attack a = {.source = {.path = kiln_test_path("a.kbundle")},
              .change = damage_file,
              .fd = open(kiln_test_path("a.kbundle"), O_RDWR)};
  for (damage_at = 0; damage_at < good.size; damage_at++) {
    damage = (uint8_t)~good.bytes[damage_at];
    expect_signed(use(&a, AFTER_LOOK_UP, y), y, "damage", damage_at, AFTER_LOOK_UP);
    if (pwrite(a.fd, &good.bytes[damage_at], 1, (off_t)damage_at) != 1) FAIL("pwrite");
  }
  tell_changes();
  close(a.fd);
}

// ------------------------------------------------------------------------------- name and version

static kiln_status open_stated(const image *im, kiln_verifier *v, uint64_t min_version, const char *name,
                               kiln_error *err) {
  kiln_library *l;
  kiln_source source = {.bytes = im->bytes, .size = im->size};
  kiln_status status = kiln_open(&(kiln_open_options){.size = sizeof(kiln_open_options),
                                                      .sources = &source,
                                                      .source_count = 1,
                                                      .policy = v ? KILN_NEED_SIGNATURE : 0,
                                                      .verify = v ? kiln_verify_trusted : NULL,
                                                      .verify_user = v,
                                                      .min_version = min_version,
                                                      .name = name},
                                 &l, err);
  if (status == KILN_OK) kiln_close(l);
  return status;
}

static image sign_again(const char *options) {
  image im;
  char *out;
  if (kiln_test_run(&out, "%s/bin/kiln-tool sign --key=%s %s -o %s %s", kiln_test_build(),
                    kiln_test_path("secret"), options, kiln_test_path("signed.kbundle"),
                    kiln_test_path("made.kbundle")))
    FAIL("%s", out);
  free(out);
  im.bytes = (uint8_t *)kiln_test_read(kiln_test_path("signed.kbundle"), &im.size);
  return im;
}

TEST(trust, an_older_signed_bundle_does_not_pass) {
  uint8_t key[32];
  kiln_error err;
  fixture_keys("secret", key);
  image plain = build(ADDING("1"), "");
  image old = sign_again("--name=app --version=4"), new = sign_again("--name=app --version=5"),
        other = sign_again("--name=tool --version=5"), silent = sign_again("");
  CHECK_INT(old.size, plain.size); // signing moves nothing
  kiln_verifier *v = trusting(key);
  CHECK_OK(open_stated(&new, v, 5, "app", &err), err);
  CHECK_OK(open_stated(&new, v, 0, NULL, &err), err);
  CHECK_OK(open_stated(&old, v, 4, "app", &err), err);
  CHECK_INT(open_stated(&old, v, 5, "app", &err), KILN_STATUS_UNTRUSTED);
  CHECK(strstr(err.text, "version is 4, at least 5 is wanted"));
  CHECK_INT(open_stated(&other, v, 5, "app", &err), KILN_STATUS_UNTRUSTED);
  CHECK(strstr(err.text, "name is 'tool', 'app' is wanted"));
  CHECK_INT(open_stated(&silent, v, 1, NULL, &err), KILN_STATUS_UNTRUSTED);
  CHECK_INT(open_stated(&silent, v, 0, "app", &err), KILN_STATUS_UNTRUSTED);
  CHECK_OK(open_stated(&silent, v, 0, "", &err), err);
  CHECK_INT(open_stated(&plain, NULL, 1, NULL, &err), KILN_STATUS_UNTRUSTED);
  // Raising the number in the file breaks the signature.
  for (size_t i = 0; i + 8 <= old.size; i++) {
    static const uint8_t four_app[] = {4, 0, 0, 0, 0, 0, 0, 0, 'a', 'p', 'p', 0};
    if (i + sizeof four_app <= old.size && !memcmp(old.bytes + i, four_app, sizeof four_app)) {
      old.bytes[i] = 9;
      CHECK_INT(open_stated(&old, v, 5, "app", &err), KILN_STATUS_UNTRUSTED);
      kiln_verifier_destroy(v);
      return;
    }
  }
  FAIL("no statement found");
}

// ---------------------------------------------------------------------------------------- arguments

static kiln_status open_with(const void *options, kiln_error *err) {
  kiln_library *l = (kiln_library *)1;
  kiln_status status = kiln_open(options, &l, err);
  CHECK((status == KILN_OK) == (l != NULL));
  if (l) kiln_close(l);
  return status;
}

// With a bundle as standard input: none of these may find it.
TEST(trust, nothing_means_standard_input) {
  kiln_library *l;
  kiln_error err;
  image good = build(ADDING("1"), "");
  put_file(&good);
  int fd = open(kiln_test_path("a.kbundle"), O_RDONLY);
  CHECK(fd > 0 && dup2(fd, 0) == 0);
  CHECK_INT(kiln_open_file(NULL, &l, &err), KILN_STATUS_INVALID_ARGUMENT);
  CHECK_INT(kiln_open_memory(NULL, 0, &l, &err), KILN_STATUS_INVALID_ARGUMENT);
  CHECK_INT(kiln_open_memory(NULL, 7, &l, &err), KILN_STATUS_INVALID_ARGUMENT);
  CHECK_INT(kiln_open_memory("", 0, &l, &err), KILN_STATUS_CORRUPT);
  CHECK_INT(kiln_open_file("", &l, &err), KILN_STATUS_NOT_FOUND);
  kiln_source nothing = {0}, given = {.fd = fd}, wrong = {.fd = -1};
  kiln_open_options options = {.size = sizeof options, .sources = &nothing, .source_count = 1};
  CHECK_INT(open_with(&options, &err), KILN_STATUS_INVALID_ARGUMENT);
  CHECK(strstr(err.text, "source 0 has no path, no bytes and no descriptor above 0"));
  options.sources = &wrong;
  CHECK_INT(open_with(&options, &err), KILN_STATUS_INVALID_ARGUMENT);
  options.sources = &given;
  CHECK_OK(open_with(&options, &err), err);
  options.sources = NULL;
  CHECK_INT(open_with(&options, &err), KILN_STATUS_INVALID_ARGUMENT);
  CHECK_INT(open_with(NULL, &err), KILN_STATUS_INVALID_ARGUMENT);
}

TEST(trust, unknown_policies_are_refused) {
  kiln_error err;
  for (unsigned bit = 0; bit < 32; bit++) {
    kiln_open_options options = {.size = sizeof options, .policy = 1u << bit};
    CHECK_INT(open_with(&options, &err), bit < 4 ? KILN_OK : KILN_STATUS_INVALID_ARGUMENT);
  }
}

// The struct of the first release ended before min_version; one of a later release may be longer.
TEST(trust, options_of_other_sizes) {
  struct {
    kiln_open_options known;
    uint64_t later[4];
  } o = {.known = {.min_version = UINT64_MAX, .name = (const char *)1}};
  kiln_error err;
  image good = build(ADDING("1"), "");
  kiln_source source = {.bytes = good.bytes, .size = good.size};
  o.known.sources = &source, o.known.source_count = 1;
  o.known.size = offsetof(kiln_open_options, min_version);
  CHECK_OK(open_with(&o, &err), err); // what is beyond its size is not read
  for (o.known.size = 0; o.known.size < offsetof(kiln_open_options, min_version); o.known.size++)
    CHECK_INT(open_with(&o, &err), KILN_STATUS_INVALID_ARGUMENT);
  o.known.min_version = 0, o.known.name = NULL;
  o.known.size = sizeof o;
  CHECK_OK(open_with(&o, &err), err);
  o.later[3] = 1;
  CHECK_INT(open_with(&o, &err), KILN_STATUS_UNSUPPORTED);
}

// A FIFO without a writer must not hang the application.
TEST(trust, what_is_no_file_is_refused) {
  kiln_library *l;
  kiln_error err;
  char *out;
  CHECK_INT(kiln_test_run(&out, "mkfifo %s", kiln_test_path("fifo")), 0);
  CHECK_INT(kiln_open_file(kiln_test_path("fifo"), &l, &err), KILN_STATUS_INVALID_ARGUMENT);
  CHECK_INT(kiln_open_file(kiln_test_folder(), &l, &err), KILN_STATUS_INVALID_ARGUMENT);
}
