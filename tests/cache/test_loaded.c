// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the digest of the loaded parts of a program: tools that strip and pack never change it, a change of
// a loaded byte always does, and a file that is not such a program is identified by all of its bytes.
// readelf judges what is loaded.
#include <elf.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "tests/cache/common.h"

enum { MOST_PARTS = 64 };

typedef struct part {
  unsigned long at, size;
} part;

static const char text[] =
    "#include <stdio.h>\n#include <string.h>\n"
    "const char *const names[] = {\"a\", \"bc\", \"def\"};\nint counts[3] = {4, 5, 6}, sum;\n"
    "_Thread_local int mine = 7;\n"
    "int count(int n) { for (int i = 0; i < n; i++) sum += counts[i % 3] * mine; return sum; }\n"
    "int main(int argc, char **argv) { return printf(\"%s %d\\n\", names[argc % 3], count(argc)) < 0 && "
    "argv; }\n";

/// Every kind of file that holds code of ours.
static const char *const kinds[] = {"-pie -fPIE",
                                    "-no-pie",
                                    "-static",
                                    "-static-pie -fPIE",
                                    "-shared -fPIC",
                                    "-pie -fPIE -Wl,-z,noseparate-code",
                                    "-pie -fPIE -Wl,-z,max-page-size=65536"};
enum { KINDS = sizeof kinds / sizeof *kinds };

static kiln_digest digest_in(const char *name, kiln_file_extent extent) {
  kiln_digest digest;
  kiln_file_mark mark;
  kiln_error err = {0};
  int fd = open(kiln_test_path(name), O_RDONLY | O_CLOEXEC);
  CHECK(fd >= 0);
  CHECK_OK(kiln_cache_file_digest(NULL, fd, extent, &mark, &digest, &err), err);
  close(fd);
  return digest;
}

static bool same(kiln_digest a, kiln_digest b) { return !memcmp(a.bytes, b.bytes, sizeof a.bytes); }

static kiln_digest loaded(const char *name) { return digest_in(name, KILN_FILE_LOADED); }

static void must(const char *command) {
  char *out;
  if (kiln_test_run(&out, "cd %s && %s", kiln_test_folder(), command)) FAIL("%s: %s", command, out);
  free(out);
}

static void make_program(unsigned kind) {
  char command[200];
  kiln_test_write(kiln_test_path("p.c"), text, sizeof text - 1);
  snprintf(command, sizeof command, "gcc -g -O1 %s -o p p.c", kinds[kind]);
  must(command);
}

/// What readelf says that program headers name of the file.
static unsigned read_parts(part out[MOST_PARTS]) {
  char *said, *save = NULL;
  unsigned count = 0;
  if (kiln_test_run(&said, "readelf -lW %s", kiln_test_path("p"))) FAIL("%s", said);
  for (char *line = strtok_r(said, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    part p;
    if (sscanf(line, " %*[A-Z0-9_] 0x%lx 0x%*x 0x%*x 0x%lx 0x", &p.at, &p.size) == 2 && count < MOST_PARTS)
      out[count++] = p;
  }
  free(said);
  CHECK(count > 3 && count < MOST_PARTS);
  return count;
}

/// Whether a byte counts: it is of the header, but for its fields about sections, of the program headers, or
/// of what these name.
static bool counts(const part *parts, unsigned count, unsigned long at) {
  if ((at >= 40 && at < 48) || (at >= 58 && at < 64)) return false;
  if (at < 64 + 56ul * count) return true;
  for (unsigned i = 0; i < count; i++)
    if (at >= parts[i].at && at - parts[i].at < parts[i].size) return true;
  return false;
}

TEST(loaded, what_strips_and_packs_changes_nothing) {
  static const char *const tools[] = {
      "install -s p q",
      "strip -o q p",
      "strip --strip-debug -o q p",
      "strip --strip-unneeded -o q p",
      "objcopy --compress-debug-sections p q",
      "head -c 5000 p.c > s; objcopy --add-section .more=s p q",
      "objcopy --only-keep-debug p p.dbg; objcopy --add-gnu-debuglink=p.dbg p q",
      "strip -o s p; objcopy --add-section .note.more=p.c s q",
      "objcopy --remove-section .comment p q",
      "cp p q; cat p.c >> q"};
  for (unsigned kind = 0; kind < KINDS; kind++) {
    make_program(kind);
    kiln_digest want = loaded("p"), whole = digest_in("p", KILN_FILE_WHOLE);
    CHECK(!same(want, whole));
    for (unsigned i = 0; i < sizeof tools / sizeof *tools; i++) {
      must(tools[i]);
      if (same(digest_in("q", KILN_FILE_WHOLE), whole))
        FAIL("%s, %s: the file is as it was", kinds[kind], tools[i]);
      if (!same(loaded("q"), want)) FAIL("%s, %s: another program", kinds[kind], tools[i]);
    }
  }
}

TEST(loaded, every_byte_that_is_loaded_counts_and_no_other) {
  enum { DRAWN = 300 };
  uint64_t seed = 41;
  printf("seed %llu\n", (unsigned long long)seed);
  unsigned counted = 0, of = 0;
  for (unsigned kind = 0; kind < KINDS; kind++) {
    part parts[MOST_PARTS];
    size_t size;
    make_program(kind);
    unsigned count = read_parts(parts);
    kiln_digest want = loaded("p");
    char *bytes = kiln_test_read(kiln_test_path("p"), &size);
    for (unsigned i = 0; i < DRAWN; i++) {
      // a third anywhere, a third in some header's part, and all of the first 64
      unsigned long at = kiln_test_random(&seed) % size;
      const part *p = &parts[kiln_test_random(&seed) % count];
      if (i < 64) at = i;
      else if (i % 2 && p->size) at = p->at + kiln_test_random(&seed) % p->size;
      uint8_t change = (uint8_t)(1 + kiln_test_random(&seed) % 255);
      bytes[at] = (char)((uint8_t)bytes[at] ^ change);
      kiln_test_write(kiln_test_path("q"), bytes, size);
      bytes[at] = (char)((uint8_t)bytes[at] ^ change);
      bool is_counted = counts(parts, count, at);
      if (same(loaded("q"), want) == is_counted)
        FAIL("%s: byte %lu of %zu is %s, and the digest %s", kinds[kind], at, size,
             is_counted ? "loaded" : "not loaded", is_counted ? "is the same" : "changed");
      counted += is_counted;
      of++;
    }
    free(bytes);
  }
  printf("%u of %u changes are of what is loaded\n", counted, of);
  CHECK(counted > of / 3 && counted < of);
}

TEST(loaded, a_file_that_ends_early_is_another) {
  uint64_t seed = 42;
  printf("seed %llu\n", (unsigned long long)seed);
  part parts[MOST_PARTS];
  size_t size, end = 0;
  make_program(0);
  unsigned count = read_parts(parts);
  for (unsigned i = 0; i < count; i++)
    if (parts[i].at + parts[i].size > end) end = parts[i].at + parts[i].size;
  kiln_digest want = loaded("p");
  char *bytes = kiln_test_read(kiln_test_path("p"), &size);
  for (unsigned i = 0; i < 200; i++) {
    size_t kept = i < 70 ? i : i < 80 ? end - 5 + i % 10 : kiln_test_random(&seed) % size;
    kiln_test_write(kiln_test_path("q"), bytes, kept);
    bool is_whole = kept >= end;
    if (same(loaded("q"), want) != is_whole) FAIL("%zu of %zu bytes, %zu are loaded", kept, size, end);
    if (!is_whole && !same(loaded("q"), kiln_digest_of(bytes, kept)))
      FAIL("%zu of %zu bytes: not the digest of all of them", kept, size);
  }
  free(bytes);
}

/// A program of one segment, as the case wants its headers.
typedef struct image {
  Elf64_Ehdr header;
  Elf64_Phdr segments[3];
  uint8_t rest[400];
} image;

static image usual(void) {
  image m = {.header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                        .e_type = ET_DYN,
                        .e_machine = EM_X86_64,
                        .e_version = EV_CURRENT,
                        .e_phoff = sizeof(Elf64_Ehdr),
                        .e_ehsize = sizeof(Elf64_Ehdr),
                        .e_phentsize = sizeof(Elf64_Phdr),
                        .e_phnum = 3},
             .segments = {{.p_type = PT_LOAD, .p_filesz = 300, .p_memsz = 300},
                          {.p_type = PT_LOAD, .p_offset = 300, .p_filesz = 100, .p_memsz = 200},
                          {.p_type = PT_GNU_STACK}}};
  for (unsigned i = 0; i < sizeof m.rest; i++) m.rest[i] = (uint8_t)(i * 7);
  return m;
}

static bool is_whole(const image *m) {
  kiln_test_write(kiln_test_path("m"), m, sizeof *m);
  return same(loaded("m"), digest_in("m", KILN_FILE_WHOLE));
}

/// Such a file is known by all of its bytes: there is no crash, no error, and nothing that goes unseen.
TEST(loaded, odd_headers_leave_the_whole_file) {
  image m = usual();
  CHECK(!is_whole(&m));
#define ODD(change)                         \
  do {                                      \
    m = usual();                            \
    change;                                 \
    if (!is_whole(&m)) FAIL("%s", #change); \
  } while (0)
  ODD(m.header.e_ident[EI_CLASS] = ELFCLASS32);
  ODD(m.header.e_ident[EI_DATA] = ELFDATA2MSB);
  ODD(m.header.e_ident[EI_VERSION] = 0);
  ODD(m.header.e_ident[0] = '#');
  ODD(m.header.e_type = ET_REL);
  ODD(m.header.e_type = ET_CORE);
  ODD(m.header.e_ehsize = 52);
  ODD(m.header.e_phentsize = 32);
  ODD(m.header.e_phnum = 0);
  ODD(m.header.e_phnum = PN_XNUM);
  ODD(m.header.e_phnum = 65);
  ODD(m.header.e_phoff = sizeof m - 3 * sizeof(Elf64_Phdr) + 1);
  ODD(m.header.e_phoff = UINT64_MAX);
  ODD(m.header.e_phoff = UINT64_MAX - 3 * sizeof(Elf64_Phdr) + 1);
  ODD(m.segments[0].p_filesz = sizeof m + 1);
  ODD(m.segments[0].p_filesz = UINT64_MAX);
  ODD(m.segments[1].p_offset = UINT64_MAX);
  ODD(m.segments[1].p_offset = UINT64_MAX - 99);
  ODD(m.segments[1].p_offset = sizeof m - 99);
  ODD(m.segments[0].p_type = m.segments[1].p_type = PT_NOTE);
  ODD(m.segments[0].p_filesz = m.segments[1].p_filesz = 0);
#undef ODD
}

/// Segments that overlap, lie in each other, come in another order or name the same bytes: each byte of them
/// counts, and none besides.
TEST(loaded, segments_may_lie_anywhere) {
  uint64_t seed = 43;
  printf("seed %llu\n", (unsigned long long)seed);
  for (unsigned round = 0; round < 300; round++) {
    image m = usual();
    uint8_t *bytes = (uint8_t *)&m;
    part parts[3];
    for (unsigned i = 0; i < 3; i++) {
      parts[i].at = kiln_test_random(&seed) % sizeof m;
      parts[i].size = kiln_test_random(&seed) % (sizeof m - parts[i].at + 1);
      m.segments[i] = (Elf64_Phdr){.p_type = i ? (uint32_t)(kiln_test_random(&seed) % 8 + 1) : PT_LOAD,
                                   .p_offset = parts[i].at,
                                   .p_filesz = parts[i].size + !i * !parts[i].size};
    }
    parts[0].size += !parts[0].size;
    CHECK(!is_whole(&m));
    kiln_digest want = loaded("m");
    for (unsigned i = 0; i < 20; i++) {
      unsigned long at = sizeof m.header + sizeof m.segments + kiln_test_random(&seed) % sizeof m.rest;
      bytes[at] ^= 0x40;
      kiln_test_write(kiln_test_path("m"), &m, sizeof m);
      bytes[at] ^= 0x40;
      if (same(loaded("m"), want) == counts(parts, 3, at)) FAIL("round %u: byte %lu", round, at);
    }
  }
}

/// Both digests of one file are remembered, and neither for the other.
TEST(loaded, each_extent_is_remembered_by_itself) {
  make_program(0);
  nanosleep(&(struct timespec){.tv_sec = 2, .tv_nsec = 100000000}, NULL);
  kiln_cache *cache = open_in(kiln_test_path("cache"));
  int fd = open(kiln_test_path("p"), O_RDONLY | O_CLOEXEC);
  for (unsigned i = 0; i < 6; i++) {
    kiln_file_extent extent = i % 2 ? KILN_FILE_LOADED : KILN_FILE_WHOLE;
    kiln_digest digest;
    kiln_file_mark mark;
    kiln_error err = {0};
    CHECK_OK(kiln_cache_file_digest(cache, fd, extent, &mark, &digest, &err), err);
    CHECK(same(digest, digest_in("p", extent)));
  }
  size_t size;
  char *memory = kiln_test_read(kiln_test_path("cache/v1/main.default/digests"), &size);
  CHECK(memory && size == 2 * 88);
  free(memory);
  close(fd);
  kiln_cache_close(cache);
}
