// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests libkiln.so.0 as a file: what it exports, what it needs, how large it is, and that its header
// compiles alone in C11 and C++17.
#include "tests/runtime/fixture.h"

// For gcc 12, with which the figures of docs/runtime.md were taken. Only a commit of their own may raise them. 6
// KiB of our own part are what the compiler's hardening costs (stack protector, CET, fortified calls), and as
// much of the rest: their stubs, unwind tables and the page that they begin. Other compilers and versions of
// zstd make other code of the same sources, up to OTHER percent more.
enum { MOST_BYTES = 260 << 10, MOST_OWN = 72 << 10, OTHER = 10 };

static char *shell(const char *command) {
  char *out;
  char library[512], program[1500];
  snprintf(library, sizeof library, "%s/lib/libkiln.so.0", kiln_test_build());
  if (kiln_test_run(&out, "test -e %s", library)) SKIP("%s is not built", library);
  free(out);
  snprintf(program, sizeof program, command, library, kiln_test_folder());
  if (kiln_test_run(&out, "%s", program)) FAIL("%s\n%s", program, out);
  return out;
}

/// The limit for the compiler that made the library, which it names in .comment.
static int limit(int bytes) {
  char *made = shell("readelf -p .comment %1$s");
  bool is_known = strstr(made, "GCC: (Debian 12.") != NULL;
  free(made);
  return is_known ? bytes : bytes + bytes * OTHER / 100;
}

TEST(library, exports_are_the_map) {
  char *exports =
      shell("nm -D --defined-only %1$s | awk '$2 == \"T\" {print $3}' | sed 's/@.*//' | LC_ALL=C sort");
  char *map;
  CHECK_INT(kiln_test_run(&map, "sed -n 's/^ *\\(kiln_[a-z_]*\\);/\\1/p' runtime/kiln.map | LC_ALL=C sort"),
            0);
  CHECK_TEXT(exports, map);
  free(exports);
  free(map);
}

TEST(library, the_map_is_the_header) {
  char *map, *header;
  CHECK_INT(kiln_test_run(&map, "sed -n 's/^ *\\(kiln_[a-z_]*\\);/\\1/p' runtime/kiln.map | LC_ALL=C sort"),
            0);
  CHECK_INT(
      kiln_test_run(&header,
                    "sed -n 's/^KILN_API .*[ *]\\(kiln_[a-z_]*\\)(.*/\\1/p' runtime/kiln.h | LC_ALL=C sort"),
      0);
  CHECK_TEXT(header, map);
  free(map);
  free(header);
}

// What an application sees declared, it can link: every function declared by the header and by what it
// includes is in the library.
static void check_declared(const char *header, const char *library, const char *besides) {
  char *missing;
  if (kiln_test_run(&missing, "test -e %s/lib/%s", kiln_test_build(), library))
    SKIP("%s is not built", library);
  free(missing);
  if (kiln_test_run(
          &missing,
          "nm -D --defined-only %s/lib/%s | sed 's/.* //; s/@.*//' >%s/exported; "
          "gcc -E -P -I. -x c %s | tr '\\n' ' ' | awk 'BEGIN {RS = \";\"} !/typedef/' | "
          "grep -o '\\bkiln_[a-z0-9_]* *(' | tr -d ' (' | grep -vwF -e '%s' | sort -u >%s/declared; "
          "test -s %s/declared && grep -vxFf %s/exported %s/declared || true",
          kiln_test_build(), library, kiln_test_folder(), header, besides, kiln_test_folder(),
          kiln_test_folder(), kiln_test_folder(), kiln_test_folder()))
    FAIL("%s", missing);
  CHECK_TEXT(missing, "");
  free(missing);
}

TEST(library, what_is_declared_is_exported) { check_declared("runtime/kiln.h", "libkiln.so.0", "no such"); }
// kiln_verify.h includes kiln.h, whose functions the other library has.
TEST(library, what_the_verifier_declares_is_exported) {
  char *shared, words[4000];
  CHECK_INT(kiln_test_run(&shared, "sed -n 's/^ *\\(kiln_[a-z_]*\\);/\\1/p' runtime/kiln.map"), 0);
  snprintf(words, sizeof words, "%s", shared);
  words[strlen(words) - 1] = 0; // grep takes one word a line
  check_declared("runtime/kiln_verify.h", "libkiln-verify.so.0", words);
  free(shared);
}

TEST(library, what_the_observer_declares_is_exported) {
  char *shared, words[4000];
  CHECK_INT(kiln_test_run(&shared, "sed -n 's/^ *\\(kiln_[a-z_]*\\);/\\1/p' runtime/kiln.map"), 0);
  snprintf(words, sizeof words, "%s", shared);
  words[strlen(words) - 1] = 0;
  check_declared("runtime/kiln_observe.h", "libkiln-observe.so.0", words);
  free(shared);
}

// It works with whatever libkiln a program has, so it needs none; and it is small.
TEST(library, the_observer_needs_libc_only_and_is_small) {
  enum { MOST_OBSERVER = 48 << 10 };
  char *out;
  if (KILN_TEST_SANITIZED || strstr(kiln_test_build(), "debug")) SKIP("not a release build");
  if (kiln_test_run(
          &out,
          "readelf -d %s/lib/libkiln-observe.so.0 | sed -n 's/.*(NEEDED).*\\[\\(.*\\)\\]/\\1/p'; strip -o "
          "%s/observer %s/lib/libkiln-observe.so.0 && stat -c %%s %s/observer",
          kiln_test_build(), kiln_test_folder(), kiln_test_build(), kiln_test_folder()))
    SKIP("libkiln-observe.so.0 is not built");
  if (strncmp(out, "libc.so.6\n", 10) != 0) FAIL("%s", out);
  int size = atoi(out + 10);
  printf("libkiln-observe.so.0: %d bytes stripped, of %d allowed\n", size, MOST_OBSERVER);
  if (size > MOST_OBSERVER)
    FAIL("libkiln-observe.so.0 has %d bytes stripped; the limit is %d", size, MOST_OBSERVER);
  free(out);
}

// It is given a table of what it calls, so that it works with the libkiln that opens it and no other; base, which
// it has inside, comes without zstd.
TEST(library, the_second_file_needs_libc_only_and_is_small) {
  enum { MOST_MORE = 80 << 10 };
  char *out;
  if (KILN_TEST_SANITIZED || strstr(kiln_test_build(), "debug")) SKIP("not a release build");
  if (kiln_test_run(
          &out,
          "f=%s/lib/libkiln-more.so.0; readelf -d $f | sed -n 's/.*(NEEDED).*\\[\\(.*\\)\\]/\\1/p'; "
          "nm -D --defined-only $f | sed 's/.* //; s/@.*//' | grep -v '^KILN_'; strip -o %s/more $f && "
          "stat -c %%s %s/more",
          kiln_test_build(), kiln_test_folder(), kiln_test_folder()))
    SKIP("libkiln-more.so.0 is not built");
  if (strncmp(out, "libc.so.6\nkiln_more_start\n", 26) != 0) FAIL("%s", out);
  int size = atoi(out + 26), most = limit(MOST_MORE);
  printf("libkiln-more.so.0: %d bytes stripped, of %d allowed\n", size, most);
  if (size > most) FAIL("libkiln-more.so.0 has %d bytes stripped; the limit is %d", size, most);
  free(out);
}

// zstd's decoders of old formats are an application's own matter: the archive brings no second ones.
TEST(library, the_archive_defines_nothing_of_zstd) {
  char *out;
  if (kiln_test_run(&out, "test -e %s/lib/libkiln.a", kiln_test_build())) SKIP("libkiln.a is not built");
  free(out);
  CHECK_INT(kiln_test_run(
                &out, "nm --defined-only %s/lib/libkiln.a 2>/dev/null | grep -E ' [A-Z] Z(STD|BUFF)' || true",
                kiln_test_build()),
            0);
  CHECK_TEXT(out, "");
  free(out);
}

TEST(library, needs_libc_only) {
  if (KILN_TEST_SANITIZED) SKIP("a sanitizer is a library of its own");
  char *needed = shell("readelf -d %1$s | sed -n 's/.*(NEEDED).*\\[\\(.*\\)\\]/\\1/p'");
  CHECK_TEXT(needed, "libc.so.6\n");
  free(needed);
}

// The one entry of .init_array is the compiler's frame_dummy.
TEST(library, has_no_constructors) {
  if (KILN_TEST_SANITIZED) SKIP("a sanitizer has constructors");
  char *size = shell("readelf -d %1$s | sed -n 's/.*(INIT_ARRAYSZ) *\\([0-9]*\\).*/\\1/p'");
  CHECK_INT(atoi(size), 8);
  free(size);
}

// It never ends the process: an arena that cannot go on says so (tests/runtime/test_memory.c).
TEST(library, cannot_end_the_process) {
  char *ends = shell(
      "nm -D --undefined-only %1$s | grep -wE 'abort|exit|_exit|quick_exit|__assert_fail|raise' || true");
  CHECK_TEXT(ends, "");
  free(ends);
}

TEST(library, is_small) {
  char *size = shell("strip -o %2$s/stripped %1$s && stat -c %%s %2$s/stripped");
  if (strstr(kiln_test_build(), "asan") || strstr(kiln_test_build(), "debug") ||
      strstr(kiln_test_build(), "tsan"))
    SKIP("not a release build");
  int most = limit(MOST_BYTES);
  if (atoi(size) > most) FAIL("libkiln.so.0 has %d bytes stripped; the limit is %d", atoi(size), most);
  printf("libkiln.so.0: %d bytes stripped, of %d allowed\n", atoi(size), most);
  free(size);
}

// Text and data of our own objects as they are linked: told apart from zstd's by name.
TEST(library, our_own_part_is_small) {
  if (strstr(kiln_test_build(), "asan") || strstr(kiln_test_build(), "debug") ||
      strstr(kiln_test_build(), "tsan"))
    SKIP("not a release build");
  char *sums = shell("nm -S -t d --defined-only %1$s | awk 'NF == 4 { size = $2 + 0; if ($4 ~ "
                     "/^(ZSTD|HUF|FSE|XXH|ERR|POOL|BIT|MEM|LL|ML|OF)_|^(algoTime|dec[36][24]table)/) z += "
                     "size; else own += size } "
                     "END { print own, z }'");
  int own = 0, zstd = 0;
  CHECK_INT(sscanf(sums, "%d %d", &own, &zstd), 2);
  CHECK(own > 0 && zstd > 0);
  int most = limit(MOST_OWN);
  printf("libkiln.so.0: %d bytes of our own functions and data, of %d allowed; %d of zstd's\n", own, most,
         zstd);
  if (own > most) FAIL("libkiln's own part has %d bytes; the limit is %d", own, most);
  free(sums);
}

// An initialiser of a large local variable becomes that many bytes in the file.
TEST(library, holds_no_zeros_to_copy_from) {
  enum { MOST_ZEROS = 512 };
  size_t size, run = 0;
  free(shell("objcopy -O binary --only-section=.rodata %1$s %2$s/rodata"));
  char *bytes = kiln_test_read(kiln_test_path("rodata"), &size);
  CHECK(bytes && size > 4096);
  for (size_t i = 0; i < size; i++) {
    run = bytes[i] ? 0 : run + 1;
    if (run > MOST_ZEROS) FAIL(".rodata has more than %d zeros in a row, up to byte %zu", MOST_ZEROS, i);
  }
  free(bytes);
}

// What docs/runtime.md says of the parts is counted by a script: every object belongs to a part, and nothing is lost.
TEST(library, every_byte_belongs_to_a_part) {
  if (kiln_test_run(NULL, "python3 -c 0 && test -e %s/lib/libkiln.so.0.map", kiln_test_build()))
    SKIP("python3 or the linker's map of libkiln.so.0 is not there");
  if (KILN_TEST_SANITIZED) SKIP("a sanitizer has objects of its own");
  char *sum = shell("tools/library-parts.py %1$s.map | tee %2$s/parts | awk '/^together/ {print $5}'"),
       *kept = shell("size -A %1$s | awk '$1 ~ /^\\.(text|rodata|data|data\\.rel\\.ro|eh_frame)$/ {n += $2} "
                     "END {print n}'"),
       *rows = shell(": %1$s; awk 'NR > 1 && !/^together/ {n += $NF} END {print n}' %2$s/parts");
  long together = atol(sum), sections = atol(kept), parts = atol(rows);
  if (sections < 4096 || together < sections - sections / 50 || together > sections + sections / 50)
    FAIL("the parts have %ld bytes together, the sections %ld", together, sections);
  if (labs(parts - together) > 20) FAIL("the rows have %ld bytes, their sum says %ld", parts, together);
  free(sum), free(kept), free(rows);
  free(shell("tools/library-parts.py $(dirname %1$s)/libkiln-more.so.0.map"));
}

// A pointer in a table of constants is 24 bytes more of the file: texts stand inside of rows.
TEST(library, tables_hold_their_texts) {
  enum { MOST_RELOCATIONS = 120 };
  if (KILN_TEST_SANITIZED) SKIP("a sanitizer has tables of its own");
  char *count = shell("readelf -rW %1$s | grep -cE 'R_(X86_64|AARCH64)_RELATIV'");
  if (atoi(count) > MOST_RELOCATIONS)
    FAIL("libkiln.so.0 has %d relocated pointers, the limit is %d", atoi(count), MOST_RELOCATIONS);
  free(count);
}

TEST(library, header_in_c_and_cpp) {
  static const char program[] =
      "#include \"runtime/kiln.h\"\nint main(void) { return kiln_version() == 0; }\n";
  char *out;
  kiln_test_write(kiln_test_path("t.c"), program, sizeof program - 1);
  if (kiln_test_run(&out,
                    "gcc -std=c11 -Wall -Wextra -pedantic -Werror -I. -fsyntax-only %s/t.c && "
                    "g++ -std=c++17 -Wall -Wextra -pedantic -Werror -I. -x c++ -fsyntax-only %s/t.c",
                    kiln_test_folder(), kiln_test_folder()))
    FAIL("%s", out);
  free(out);
}
