// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests damaged bundles in every command that opens one, and in Python: success, or exit code 1 with one
// line that says what is wrong. Bytes are flipped, zeroed or drawn at places drawn from the whole file,
// each page of the index and each of its checks among them; once as a disk damages it, once with checks
// that fit, as a malicious writer would.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "runtime/bundle/reader.h"
#include "tests/runtime/fixture.h"

extern char **environ;

enum { KERNELS = 90, MOST_WORDS = 24, PIECE = 16 };

static const char *program;
static size_t runs, refused;

// ---------------------------------------------------------------------------------------- commands

// %f: the damaged file, %g: the whole one, %d: the folder.
static const char *const commands[] = {
    "run %f add_07 --device null -a x=ones:8 -a y=ones:8 -a n=8",
    "run %f add_07 --device null --check --explain -a x=ones:8 -a y=ones:8 -a n=8",
    "run %f nothing --device null",
    "explain %f -d null:x86-64-v3",
    "explain %f add_11 -d null:x86-64-v3 --all",
    "explain %f add_11 -d null:sm_90 --json",
    "explain %f nothing -d null:x86-64-v3",
    "inspect %f",
    "inspect --json %f",
    "stat --by section %f",
    "stat --by kernel --json %f",
    "report -o %d/o.html %f",
    "diff %f %g",
    "diff --json %g %f",
    "verify %f",
    "verify --json %f",
    "sign --key %d/secret -o %d/o.kb %f",
    "disasm --target x86-64-v2 %f add_05",
    "header -o %d/o.h %f",
    "embed -o %d/o.S %f",
    "merge -o %d/o.kb %f %g",
    "merge -o %d/o.kb %g %f",
    "split --arch x86-64-v2 -o %d/o.kb %f",
    "prune --drop-kernel add_03 -o %d/o.kb %f",
    "fix-index -o %d/o.kb %f",
    "tune -o %d/o.tuned --device null --shapes %d/shapes %f",
    "bundle-write -q -o %d/o.kb %f",
};
enum { COMMANDS = sizeof commands / sizeof *commands };

typedef struct words {
  char text[2048];
  char *all[MOST_WORDS + 1];
} words;

static void expand(const char *command, const char *file, words *out) {
  size_t used = 0, count = 0;
  const char *folder = kiln_test_folder();
  out->all[count++] = (char *)program;
  for (const char *at = command; *at;) {
    out->all[count++] = out->text + used;
    for (; *at && *at != ' '; at++) {
      const char *put = NULL;
      if (*at == '%') put = at[1] == 'f' ? file : at[1] == 'g' ? kiln_test_path("good.kb") : folder;
      used +=
          (size_t)snprintf(out->text + used, sizeof out->text - used, put ? "%s" : "%.1s", put ? put : at);
      at += put != NULL;
    }
    out->text[used++] = 0;
    at += *at == ' ';
  }
  out->all[count] = NULL;
  CHECK(count <= MOST_WORDS && used < sizeof out->text);
}

// Nothing of it drives a terminal, and nothing of a name begins a line.
static void check_printable(const char *path, const char *command, const char *how) {
  size_t size;
  char *text = kiln_test_read(path, &size);
  for (size_t i = 0; i < size; i++) {
    uint8_t byte = (uint8_t)text[i];
    bool is_c1 = byte == 0xc2 && (uint8_t)text[i + 1] >= 0x80 && (uint8_t)text[i + 1] < 0xa0;
    if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f || is_c1)
      FAIL("%s: `%s` prints the control character 0x%02x at %zu: %s", how, command, byte, i, text);
  }
  if (strstr(text, "\nPLANTED")) FAIL("%s: `%s` prints a line of a name's own: %s", how, command, text);
  free(text);
}

// `how` names what was done to the file.
static void try_command(const char *command, const char *file, const char *how) {
  words w;
  pid_t child;
  int status;
  posix_spawn_file_actions_t actions;
  char said[512], printed[512];
  snprintf(said, sizeof said, "%s", kiln_test_path("said"));
  snprintf(printed, sizeof printed, "%s", kiln_test_path("printed"));
  expand(command, file, &w);
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, printed, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  CHECK_INT(posix_spawn(&child, program, &actions, NULL, w.all, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  CHECK(waitpid(child, &status, 0) == child);
  char *text = kiln_test_read(said, NULL);
  runs++;
  if (WIFSIGNALED(status)) FAIL("%s: `%s` dies of signal %d: %s", how, command, WTERMSIG(status), text);
  if (WEXITSTATUS(status) > 1) FAIL("%s: `%s` exits with %d: %s", how, command, WEXITSTATUS(status), text);
  if (WEXITSTATUS(status) == 1) {
    refused++;
    // `verify` and `diff` have their answer in the exit code, and on standard output.
    bool answers = !strncmp(command, "verify", 6) || !strncmp(command, "diff", 4);
    if (kiln_test_count(text, "kiln: error: ") != 1 && !(answers && !*text))
      FAIL("%s: `%s`: expected one line that says why, found: %s", how, command, text);
  }
  check_printable(said, command, how);
  check_printable(printed, command, how);
  free(text);
}

// ------------------------------------------------------------------------------------------ damage

typedef struct bundle {
  uint8_t *bytes, *h; // owned; the header in it
  size_t size, index_at, index_size;
} bundle;

static void write_good(void) {
  fixture f;
  size_t size;
  uint8_t *object = fixture_object(add_one_source, &size);
  fixture_begin(&f);
  for (uint32_t i = 0; i < KERNELS; i++) {
    char name[32];
    snprintf(name, sizeof name, "add_%02u", i);
    uint32_t number = fixture_kernel(&f, &ADD_ONE_INTERFACE(name));
    fixture_code(&f, number, 0, 0, KILN_FORMAT_HOST, "x86-64-v2", "add_one", object, size);
    if (i % 3 == 0) fixture_code(&f, number, 0, 0, KILN_FORMAT_PTX, "sm_80", "add_one", "// ptx", 6);
  }
  kiln_manifest_note(&f.manifest, "compiler", "kiln 0.1");
  kiln_manifest_note(&f.manifest, "tuned add_07", "kiln tuned 1\n");
  fixture_write(&f, kiln_test_path("good.kb"), "");
  free(object);
  fixture_keys("secret", NULL);
  kiln_test_write(kiln_test_path("shapes"), "add_07 x=ones:8 y=ones:8 n=8\n", 29);
}

static bundle read_good(void) {
  bundle b;
  b.bytes = (uint8_t *)kiln_test_read(kiln_test_path("good.kb"), &b.size);
  b.h = b.bytes + KILN_ZIP_LOCAL_SIZE + kiln_le16(b.bytes + KILN_ZIP_NAME_SIZE) +
        kiln_le16(b.bytes + KILN_ZIP_EXTRA_SIZE);
  b.index_at = (size_t)(b.h - b.bytes);
  b.index_size = kiln_le64(b.h + KILN_BH_REGION) + kiln_le64(b.h + KILN_BH_REGION_SIZE);
  return b;
}

static void put_check(uint8_t *at, const void *bytes, size_t size) {
  memcpy(at, kiln_check_of(bytes, size).bytes, KILN_BUNDLE_CHECK);
}

// Checks that fit a changed index of this header.
static void seal(const bundle *b) {
  uint32_t pages = kiln_le32(b->h + KILN_BH_PAGE_COUNT), tops = kiln_le32(b->h + KILN_BH_TOP_COUNT);
  uint64_t size = kiln_le64(b->h + KILN_BH_REGION_SIZE);
  uint8_t *top = b->h + KILN_BUNDLE_TOP, *checks = top + (size_t)tops * KILN_BUNDLE_CHECK,
          *region = b->h + kiln_le64(b->h + KILN_BH_REGION);
  for (uint32_t i = 0; i < pages; i++) {
    uint64_t left = size - (uint64_t)i * KILN_BUNDLE_PAGE;
    put_check(checks + (size_t)KILN_BUNDLE_CHECK * i, region + (size_t)i * KILN_BUNDLE_PAGE,
              left < KILN_BUNDLE_PAGE ? left : KILN_BUNDLE_PAGE);
  }
  size_t whole = (size_t)pages * KILN_BUNDLE_CHECK;
  for (uint32_t i = 0; i < tops; i++) {
    size_t at = (size_t)i * KILN_BUNDLE_PAGE;
    put_check(top + (size_t)KILN_BUNDLE_CHECK * i, checks + at,
              whole - at < KILN_BUNDLE_PAGE ? whole - at : KILN_BUNDLE_PAGE);
  }
  put_check(b->h + KILN_BH_TOP_CHECK, top, (size_t)tops * KILN_BUNDLE_CHECK);
  put_check(b->h + KILN_BH_CHECK, b->h, KILN_BH_CHECK);
}

// Changes one to PIECE bytes at `at`; says how.
static void damage(uint8_t *bytes, size_t size, size_t at, uint64_t *random, char *how, size_t room) {
  static const char *const kinds[] = {"a bit flipped", "zeros", "0xff", "drawn bytes", "a control character"};
  unsigned kind = (unsigned)(kiln_test_random(random) % 5);
  size_t count = kind == 0 || kind == 4 ? 1 : 1 + kiln_test_random(random) % PIECE;
  if (count > size - at) count = size - at;
  for (size_t i = at; i < at + count; i++)
    bytes[i] = kind == 0   ? bytes[i] ^ (uint8_t)(1u << kiln_test_random(random) % 8)
               : kind == 1 ? 0
               : kind == 2 ? 0xff
               : kind == 3 ? (uint8_t)kiln_test_random(random)
                           : 0x1b;
  snprintf(how, room, "%s, %zu bytes at %zu", kinds[kind], count, at);
}

static uint64_t the_seed(void) {
  const char *text = getenv("KILN_TEST_SEED");
  return text ? strtoull(text, NULL, 0) : (uint64_t)getpid() * 0x9e3779b97f4a7c15u;
}

// `rounds` damaged files through every command each. The places are spread over the file and drawn within.
static void try_all(bool sealed, size_t rounds) {
  char path[512], how[200];
  uint64_t random = the_seed();
  snprintf(path, sizeof path, "%s/bin/kiln-tool", kiln_test_build_path());
  program = path;
  write_good();
  bundle b = read_good();
  uint8_t *whole = malloc(b.size);
  memcpy(whole, b.bytes, b.size);
  char file[512];
  snprintf(file, sizeof file, "%s", kiln_test_path("damaged.kbundle"));
  fprintf(stderr, "KILN_TEST_SEED=%llu\n", (unsigned long long)random);
  for (size_t c = 0; c < COMMANDS - 1;
       c++) // whole, nothing fails but what asks for a kernel that is not there
    if (kiln_test_write(file, whole, b.size), !strstr(commands[c], "nothing")) {
      refused = 0;
      try_command(commands[c], file, "undamaged");
      if (refused) FAIL("`%s` fails with an undamaged bundle", commands[c]);
    }
  refused = 0;
  for (size_t r = 0; r < rounds; r++) {
    size_t from = sealed ? b.index_at : 0, size = sealed ? b.index_size : b.size;
    size_t at = from + size * r / rounds + kiln_test_random(&random) % (size / rounds + 1);
    memcpy(b.bytes, whole, b.size);
    damage(b.bytes, b.size, at < b.size ? at : b.size - 1, &random, how, sizeof how);
    if (sealed) {
      bool fits =
          b.index_at + kiln_le64(b.h + KILN_BH_REGION) + kiln_le64(b.h + KILN_BH_REGION_SIZE) <= b.size &&
          !memcmp(b.h + KILN_BH_PAGE_COUNT, whole + b.index_at + KILN_BH_PAGE_COUNT, 8) &&
          !memcmp(b.h + KILN_BH_REGION, whole + b.index_at + KILN_BH_REGION, 16);
      if (fits) seal(&b);
    }
    kiln_test_write(file, b.bytes, b.size);
    for (size_t c = 0; c < COMMANDS; c++) try_command(commands[c], file, how);
  }
  fprintf(stderr, "%zu damaged bundles in %d commands: %zu runs, %zu refused\n", rounds, COMMANDS, runs,
          refused);
  CHECK(refused > rounds);
  free(whole);
  free(b.bytes);
}

static size_t rounds(void) { return kiln_test_full() ? 2000 : KILN_TEST_SANITIZED ? 12 : 60; }

TEST(damaged_commands, as_a_disk_does_it) { try_all(false, rounds()); }
TEST(damaged_commands, with_checks_that_fit) { try_all(true, rounds()); }

// A page whose names cannot be read: what finds a kernel by its name finds those of other pages.
TEST(damaged_commands, a_kernel_of_another_page_runs) {
  char file[512], *out;
  write_good();
  bundle b = read_good();
  snprintf(file, sizeof file, "%s", kiln_test_path("damaged.kbundle"));
  size_t names = 0, ran = 0, pages = kiln_le32(b.h + KILN_BH_PAGE_COUNT);
  CHECK(pages > 2);
  for (size_t page = 0; page < pages; page++) {
    uint8_t *at = b.h + kiln_le64(b.h + KILN_BH_REGION) + page * KILN_BUNDLE_PAGE;
    *at ^= 0x40;
    kiln_test_write(file, b.bytes, b.size);
    *at ^= 0x40;
    for (unsigned k = 0; k < KERNELS; k += 29) {
      int code =
          kiln_test_run(&out, "%s/bin/kiln-tool run %s add_%02u --device null -a x=ones:8 -a y=ones:8 -a n=8",
                        kiln_test_build(), file, k);
      ran += code == 0;
      if (code > 1 || (code == 1 && !strstr(out, "damaged")))
        FAIL("page %zu, kernel %u: %d, %s", page, k, code, out);
      free(out);
    }
    kiln_library *l;
    kiln_error err;
    if (kiln_open_file(file, &l, &err) != KILN_OK) continue;
    for (size_t i = 0; i < kiln_kernel_count(l); i++) {
      const char *name = (const char *)1;
      kiln_status status = kiln_kernel_at(l, i, &name, &err);
      CHECK((status == KILN_OK) == (name != NULL) && (status == KILN_OK || status == KILN_STATUS_CORRUPT));
      if (status != KILN_OK && !strstr(err.text, "damaged")) FAIL("name %zu: %s", i, err.text);
      CHECK((kiln_kernel_name(l, i) != NULL) == (name != NULL));
      names += status != KILN_OK;
    }
    kiln_close(l);
  }
  if (!names || !ran) FAIL("%zu names were unreadable, %zu kernels ran", names, ran);
  free(b.bytes);
}

// Names and texts that would drive a terminal, in every place of a bundle that has one.
TEST(damaged_commands, what_is_printed_drives_no_terminal) {
  static const char *const evil[] = {"\033[2J\033[31m",
                                     "\033]0;title\007",
                                     "a\nPLANTED",
                                     "\r\nPLANTED",
                                     "\xc2\x9b"
                                     "2J",
                                     "\x7f\x08\x0b",
                                     "\xc2\xc2\x9b"
                                     "0m"};
  enum { EVIL = sizeof evil / sizeof *evil };
  size_t size;
  uint8_t *object = fixture_object(add_one_source, &size);
  char path[512], file[512], key[64], names[EVIL][4][64];
  fixture f;
  snprintf(path, sizeof path, "%s/bin/kiln-tool", kiln_test_build_path());
  program = path;
  write_good();
  fixture_begin(&f);
  for (unsigned i = 0; i < EVIL; i++) {
    for (unsigned j = 0; j < 4; j++)
      snprintf(names[i][j], sizeof names[i][j], "%c%u%s", "kxcv"[j], i, evil[i]);
    kiln_interface in = ADD_ONE_INTERFACE(names[i][0]);
    in.params[0].name = names[i][1];
    in.configs[0].text = names[i][2];
    in.variants[0].text = names[i][3];
    in.returns = names[i][1], in.backward = names[i][0];
    uint32_t number = fixture_kernel(&f, &in);
    kiln_buffer info = {0};
    kiln_code_info_encode(&(kiln_code_info){.format = KILN_FORMAT_PTX,
                                            .target = "sm_80",
                                            .symbol = names[i][0],
                                            .block_threads = 128,
                                            .wave = 32,
                                            .producer = names[i][1],
                                            .why_ptx = names[i][2]},
                          &info);
    kiln_manifest_code(&f.manifest, number, 0, 0, "sm_80", info.bytes, info.size, evil[i],
                       strlen(evil[i]) + 1);
    kiln_buffer_deinit(&info);
    snprintf(key, sizeof key, "n%u%s", i, evil[i]);
    // The value of a note is a text of lines: these are shown as they are.
    kiln_manifest_note(&f.manifest, key, strchr(evil[i], '\n') ? "lines" : evil[i]);
  }
  fixture_write(&f, kiln_test_path("evil.kbundle"), "");
  snprintf(file, sizeof file, "%s", kiln_test_path("evil.kbundle"));
  for (size_t c = 0; c < COMMANDS; c++) try_command(commands[c], file, "names that drive terminals");
  for (unsigned i = 0; i < EVIL; i++) {
    // The names on the command line, where these are quoted.
    kiln_library *l;
    kiln_device *d;
    kiln_kernel *k;
    kiln_error err = {0};
    fixture_open(file, "host:1", &l, &d);
    CHECK_INT(kiln_kernel_get(d, names[i][0], NULL, &k, &err), KILN_STATUS_NO_VARIANT);
    for (const char *at = err.text; *at; at++)
      if ((uint8_t)*at < 0x20 && *at != '\n' && *at != '\t') FAIL("the error has 0x%02x: %s", *at, err.text);
    CHECK(!strchr(err.text, 0x7f) && !strstr(err.text, "\xc2\x9b"));
    kiln_device_close(d);
    kiln_close(l);
  }
  static const char *const quoting[] = {"run --device null:sm_80 %f \033[2J", "explain -d \033[2J %f",
                                        "inspect %f\033[2J", "explain -d null:sm_80 %f \033[2J",
                                        "disasm %f \033[2J"};
  for (size_t i = 0; i < sizeof quoting / sizeof *quoting; i++)
    try_command(quoting[i], file, "words of the command line");
  free(object);
}

// Everything that the package reads of a bundle, many damaged ones in one process.
TEST(damaged_commands, in_python) {
  static const char script[] =
      "import sys, random, kiln\n"
      "folder, seed, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])\n"
      "draw = random.Random(seed)\n"
      "whole = open(folder + '/good.kb', 'rb').read()\n"
      "refused = 0\n"
      "def each(path):\n"
      "    yield lambda: list(kiln.Library(path).kernels)\n"
      "    yield lambda: repr(kiln.Library(path))\n"
      "    for name in 'null', 'null:sm_90', 'host:1':\n"
      "        yield lambda: kiln.Library(path).device(name).preflight()\n"
      "        for kernel in 'add_07', 'add_50', 'nothing':\n"
      "            yield lambda: kiln.Library(path).device(name).explain(kernel)\n"
      "            yield lambda: kiln.Library(path).device(name).candidates(kernel)\n"
      "            yield lambda: repr(kiln.Library(path).device(name).kernel(kernel))\n"
      "            yield lambda: kiln.Library(path).device(name).kernel(kernel).params\n"
      "for i in range(rounds):\n"
      "    b = bytearray(whole)\n"
      "    at = len(b) * i // rounds + draw.randrange(len(b) // rounds + 1)\n"
      "    b[min(at, len(b) - 1)] ^= 1 << draw.randrange(8)\n"
      "    path = folder + '/damaged.kbundle'\n"
      "    open(path, 'wb').write(b)\n"
      "    for call in each(path):\n"
      "        try: call()\n"
      "        except kiln.Error as e:\n"
      "            refused += 1\n"
      "            assert str(e) and '\\n' not in str(e).strip(), str(e)\n"
      "assert refused > rounds, refused\n"
      "print(rounds, 'damaged bundles,', refused, 'refusals')\n";
  char *out;
  uint64_t seed = the_seed() >> 1;
  if (KILN_TEST_SANITIZED) SKIP("a sanitizer is not in the interpreter");
  if (kiln_test_run(NULL, "ls %s/python/kiln/_core*.so && /usr/bin/python3 -c 'import numpy'",
                    kiln_test_build()))
    SKIP("the Python package, or Python with NumPy, is not there");
  write_good();
  kiln_test_write(kiln_test_path("each.py"), script, sizeof script - 1);
  fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
  if (kiln_test_run(&out, "PYTHONPATH=%s/python /usr/bin/python3 %s %s %llu %d", kiln_test_build_path(),
                    kiln_test_path("each.py"), kiln_test_folder(), (unsigned long long)seed,
                    kiln_test_full() ? 4000 : 300))
    FAIL("%s", out);
  fprintf(stderr, "%s", out);
  free(out);
}
