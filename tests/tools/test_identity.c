// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Who makes the bytes is in the key by what it is, not by what it calls itself (A15, A16; behaviour 19): a
// code generator or an assembler that is exchanged for another with the same name, size, version and time is
// another key; one that only moved, was touched, stripped or packed is the same. What runs is what the key
// names: a tool that is exchanged, or changed in place, while a build runs leaves no entry of the other's
// making.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "tests/harness.h"

static char folder[200];

/// The key of one kernel with the kiln in `folder`.
static const char *key(const char *options) {
  static char keys[8][65];
  static unsigned next;
  char *out, *to = keys[next++ % 8];
  if (kiln_test_run(&out, "%s/kiln key kernels/transpose.kiln -k 'transpose[T=f32]' -t sm_90 %s", folder,
                    options))
    FAIL("no key: %s", out);
  memcpy(to, out, 64);
  to[64] = 0;
  free(out);
  CHECK_INT(strspn(to, "0123456789abcdef"), 64);
  return to;
}

/// Any ELF file with a build-id stands for the code generator: keys are made without starting it.
static void set_up(void) {
  strcpy(folder, kiln_test_folder());
  CHECK(!kiln_test_run(NULL, "cp %s/bin/kiln %s/kiln && cp %s/bin/kiln-tool %s/kiln-codegen",
                       kiln_test_build(), folder, kiln_test_build(), folder));
}

/// Flips one byte of a file where `marker` ends, and puts the old time back.
static void flip_after(const char *name, const char *marker, size_t marker_size) {
  char path[300];
  size_t size, at = 0;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  char *bytes = kiln_test_read(path, &size);
  CHECK(bytes);
  while (at + marker_size < size && memcmp(bytes + at, marker, marker_size)) at++;
  CHECK(at + marker_size < size);
  bytes[at + marker_size] ^= 1;
  CHECK(!kiln_test_run(NULL, "cp -p %s %s.old", path, path));
  kiln_test_write(path, bytes, size);
  CHECK(!kiln_test_run(NULL, "touch -r %s.old %s", path, path));
  free(bytes);
}

TEST(identity, another_code_generator_is_another_key) {
  set_up();
  const char *before = key("--ptx-assembler=none");
  CHECK(!kiln_test_run(NULL, "touch -d 2001-01-01 %s/kiln-codegen", folder));
  CHECK_TEXT(key("--ptx-assembler=none"), before);
  static const char note[] =
      "\4\0\0\0\24\0\0\0\3\0\0\0GNU"; // name of 4, value of 20, NT_GNU_BUILD_ID; the terminator is the name's
  flip_after("kiln-codegen", note, sizeof note);
  CHECK(strcmp(key("--ptx-assembler=none"), before));
}

/// The content counts, not only the note that linkers leave: files are damaged on disks, and patched.
TEST(identity, a_byte_outside_of_the_note_is_another_key) {
  set_up();
  const char *before = key("--ptx-assembler=none");
  flip_after("kiln-codegen", "bundle-wr", 9); // in some text of the program
  CHECK(strcmp(key("--ptx-assembler=none"), before));
}

/// The build tree, an installation and a package have one cache: what one of them made is a hit for the
/// others, objects and finished bundles, with nothing compiled or packed again.
TEST(identity, stripped_and_packed_programs_share_the_cache) {
  static const char *const tools[] = {
      "for p in kiln kiln-codegen kiln-tool; do install -s $from/$p $to; done",
      "cp $from/* $to && strip --strip-unneeded $to/*",
      "cp $from/* $to && for p in $to/*; do objcopy --add-section .packer=k.kiln $p; done",
      "cp $from/* $to && for p in $to/*; do objcopy --strip-debug --compress-debug-sections $p; done"};
  char *out;
  strcpy(folder, kiln_test_folder());
  if (kiln_test_run(&out,
                    "cd %s && mkdir from && cp %s/bin/kiln %s/bin/kiln-codegen %s/bin/kiln-tool from && "
                    "cp $OLDPWD/kernels/transpose.kiln k.kiln && export KILN_CACHE_DIR=cache && "
                    "from/kiln compile -t gfx942 -o a.o k.kiln -k 'transpose[T=f32]' && "
                    "from/kiln build -t gfx942,host -o a.kb k.kiln",
                    folder, kiln_test_build_path(), kiln_test_build_path(), kiln_test_build_path()))
    FAIL("%s", out);
  free(out);
  for (unsigned i = 0; i < sizeof tools / sizeof *tools; i++) {
    if (kiln_test_run(
            &out,
            "cd %s && rm -rf to && mkdir to && from=from to=to && %s && export KILN_CACHE_DIR=cache && "
            "! cmp -s from/kiln-codegen to/kiln-codegen && ! cmp -s from/kiln-tool to/kiln-tool && "
            "to/kiln compile --must-hit -t gfx942 -o b.o k.kiln -k 'transpose[T=f32]' && cmp a.o b.o && "
            "before=$(to/kiln cache ls | wc -l) && to/kiln build --must-hit -t gfx942,host -o b.kb "
            "k.kiln && cmp a.kb b.kb && [ $before = $(to/kiln cache ls | wc -l) ]",
            folder, tools[i]))
      FAIL("%s: %s", tools[i], out);
    free(out);
  }
}

/// One byte of code, under the same build-id.
TEST(identity, drawn_bytes_of_code_are_another_key) {
  uint64_t seed = 37;
  unsigned long at, size;
  char path[300], before[65], *out;
  printf("seed %llu\n", (unsigned long long)seed);
  set_up();
  strcpy(before, key("--ptx-assembler=none"));
  snprintf(path, sizeof path, "%s/kiln-codegen", folder);
  CHECK(!kiln_test_run(
      &out, "readelf -SW %s | sed -n 's/.* \\.text *PROGBITS *[^ ]* \\([^ ]*\\) \\([^ ]*\\) .*/\\1 \\2/p'",
      path));
  CHECK_INT(sscanf(out, "%lx %lx", &at, &size), 2);
  free(out);
  CHECK(!kiln_test_run(&out, "readelf -nW %s | grep 'Build ID'", path));
  for (unsigned i = 0; i < 20; i++) {
    char *id;
    size_t whole;
    char *bytes = kiln_test_read(path, &whole);
    CHECK(bytes);
    bytes[at + kiln_test_random(&seed) % size] ^= (char)(1 << kiln_test_random(&seed) % 8);
    kiln_test_write(path, bytes, whole);
    free(bytes);
    CHECK(!kiln_test_run(&id, "readelf -nW %s | grep 'Build ID'", path));
    CHECK_TEXT(id, out);
    free(id);
    if (!strcmp(key("--ptx-assembler=none"), before)) FAIL("change %u leaves the key", i);
  }
  free(out);
}

/// Others' programs may read any part of their file: an assembler that is packed otherwise is another one.
TEST(identity, an_assembler_is_known_by_its_whole_file) {
  char option[400];
  set_up();
  CHECK(!kiln_test_run(
      NULL,
      "cp %s/kiln-codegen %s/asm && objcopy --add-section .data2=kernels/transpose.kiln %s/asm %s/packed",
      folder, folder, folder, folder));
  snprintf(option, sizeof option, "--ptx-assembler=ptxas --assembler-path=%s/asm", folder);
  const char *before = key(option);
  snprintf(option, sizeof option, "--ptx-assembler=ptxas --assembler-path=%s/packed", folder);
  CHECK(strcmp(key(option), before));
}

TEST(identity, another_assembler_is_another_key) {
  char option[400];
  set_up();
  kiln_test_write(strcat(strcpy(option, folder), "/asm"), "release 13.0, V13.0.88\nbody one\n", 32);
  snprintf(option, sizeof option, "--ptx-assembler=ptxas --assembler-path=%s/asm", folder);
  const char *before = key(option);
  CHECK(!kiln_test_run(NULL, "mv %s/asm %s/moved && cp %s/moved %s/asm", folder, folder, folder, folder));
  CHECK_TEXT(key(option), before); // another inode and time, the same content
  flip_after("asm", "body ", 5);
  CHECK(strcmp(key(option), before)); // the same version text and size
}

/// A path alone is enough: the kind goes by the name, and a path that leads nowhere is an error.
TEST(identity, an_assembler_is_used_that_only_its_path_names) {
  char option[400], *out;
  set_up();
  kiln_test_write(strcat(strcpy(option, folder), "/asm"), "release 13.0, V13.0.88\nbody one\n", 32);
  snprintf(option, sizeof option, "--ptx-assembler=ptxas --assembler-path=%s/asm", folder);
  const char *both = key(option), *without = key("");
  CHECK_TEXT(key(strstr(option, "--assembler")), both);
  CHECK(strcmp(both, without));
  CHECK_INT(kiln_test_run(&out, "%s/kiln key kernels/transpose.kiln -t sm_90 --assembler-path=%s/none",
                          folder, folder),
            1);
  CHECK(strstr(out, "the PTX assembler cannot be opened: ") && strstr(out, "/none: No such file"));
  free(out);
}

TEST(identity, no_code_generator_is_no_key) {
  char *out;
  set_up();
  CHECK(!kiln_test_run(NULL, "rm %s/kiln-codegen", folder));
  CHECK_INT(kiln_test_run(&out, "%s/kiln key kernels/transpose.kiln -t sm_90", folder), 1);
  CHECK(strstr(out, "kiln-codegen is not next to this program"));
  free(out);
}

// ---------------------------------------------------------------------------------- during a build

static const char ptxas[] = "/usr/local/cuda/bin/ptxas";

/// A source with `count` kernels, each another one.
static void write_kernels(const char *path, unsigned count) {
  FILE *f = fopen(path, "w");
  CHECK(f);
  fprintf(f, "kiln 1\n");
  for (unsigned i = 0; i < count; i++)
    fprintf(f,
            "kernel k%u(x: in *f32, y: out *f32, n: i32) @grid(cdiv(n, 128)) @config(warps = 4)\n{\n"
            "  let i = pid(0) * 128 + iota(128)\n"
            "  store(y + i, load(x + i, i < n) * load(x + i, i < n) + %u.0, i < n)\n}\n",
            i, i);
  fclose(f);
}

/// An assembler that works, and at its first run does `trick` to itself.
static void write_assembler(const char *name, const char *arguments, const char *trick) {
  char path[300], text[1200];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  snprintf(text, sizeof text, "#!/bin/sh\nif [ ! -e %s/done ]; then : > %s/done; %s; fi\nexec %s \"$@\" %s\n",
           folder, folder, trick, ptxas, arguments);
  kiln_test_write(path, text, strlen(text));
  CHECK(!chmod(path, 0755));
}

/// Builds with the assembler at `name`; the text that it printed. The bundle is NAME.kb.
static char *build_with(const char *name, const char *bundle) {
  char *out;
  if (kiln_test_run(&out,
                    "KILN_CACHE_DIR=%s/cache %s/bin/kiln build %s/k.kiln -t sm_80 -j 1 --ptx-assembler=ptxas "
                    "--assembler-path=%s/%s -o %s/%s",
                    folder, kiln_test_build(), folder, folder, name, folder, bundle))
    FAIL("%s", out);
  return out;
}

static void set_up_build(void) {
  char path[300];
  if (access(ptxas, X_OK)) SKIP("%s is not on this machine", ptxas);
  strcpy(folder, kiln_test_folder());
  snprintf(path, sizeof path, "%s/k.kiln", folder);
  write_kernels(path, 6);
}

TEST(identity, an_assembler_exchanged_during_a_build_is_not_run) {
  char trick[900];
  set_up_build();
  write_assembler("other", "-O0", "true");
  snprintf(trick, sizeof trick, "mv %s/other %s/as", folder, folder);
  write_assembler("as", "-O3", trick);
  CHECK(!kiln_test_run(NULL, "cp %s/as %s/copy", folder, folder));
  free(build_with("as", "mixed.kb"));
  // What the build stored under the first one's name is the first one's: the same file again, from scratch.
  free(build_with("copy", "first.kb"));
  CHECK(!kiln_test_run(NULL, "cmp %s/mixed.kb %s/first.kb", folder, folder));
  CHECK(!kiln_test_run(NULL, "rm -r %s/cache", folder));
  free(build_with("copy", "fresh.kb"));
  CHECK(!kiln_test_run(NULL, "cmp %s/mixed.kb %s/fresh.kb", folder, folder));
  free(build_with("as", "second.kb")); // now the other: another key, other code
  CHECK(kiln_test_run(NULL, "cmp %s/mixed.kb %s/second.kb", folder, folder));
}

TEST(identity, an_assembler_changed_in_place_leaves_no_entries) {
  char trick[900], *out;
  set_up_build();
  snprintf(trick, sizeof trick, "echo '# changed' >> %s/as", folder);
  write_assembler("as", "-O3", trick);
  out = build_with("as", "a.kb");
  CHECK(strstr(out, "changed during the build"));
  CHECK(strstr(out, "6 compiled"));
  free(out);
  CHECK(!kiln_test_run(&out, "KILN_CACHE_DIR=%s/cache %s/bin/kiln cache ls", folder, kiln_test_build()));
  CHECK_TEXT(out, "");
  free(out);
  out = build_with("as", "a.kb");
  CHECK(strstr(out, "0 from the cache, 6 compiled"));
  free(out);
}

TEST(identity, a_code_generator_exchanged_during_a_build_is_not_run) {
  char source[300], *out;
  strcpy(folder, kiln_test_folder());
  CHECK(!kiln_test_run(NULL, "cp %s/bin/kiln %s/bin/kiln-codegen %s", kiln_test_build(), kiln_test_build(),
                       folder));
  snprintf(source, sizeof source, "%s/source", folder);
  write_kernels(source, 1);
  // It is opened before the sources are read, and the source comes only when the exchange is done.
  if (kiln_test_run(
          &out,
          "cd %s && mkfifo k.kiln && cp kiln-codegen first || exit 9\n"
          "KILN_CACHE_DIR=cache ./kiln compile -t gfx942 -o k.o k.kiln &\n"
          "for i in $(seq 100); do ls -l /proc/$!/fd | grep -q kiln-codegen && break; sleep 0.02; done\n"
          "cp /bin/false other && mv other kiln-codegen && cat source > k.kiln\nwait $!",
          folder))
    FAIL("%s", out);
  free(out);
  // The entry bears the name of the one that was opened.
  if (kiln_test_run(&out,
                    "cd %s && mv first kiln-codegen && rm k.kiln && mv source k.kiln && "
                    "KILN_CACHE_DIR=cache ./kiln compile --must-hit -t gfx942 -o k.o k.kiln",
                    folder))
    FAIL("%s", out);
  free(out);
}

/// What an assembler leaves that is killed, finds the disk full, or is another program: it ends with 0 all
/// the same, and nothing of it is kept.
TEST(identity, what_an_assembler_left_unfinished_is_refused) {
  static const char *const endings[] = {
      ": > $out",          "head -c 100 full > $out", "head -c -1 full > $out", "head -c -200 full > $out",
      "cp /bin/true $out", "tr 'k' 'j' < full > $out"};
  char path[300], text[1200], *out;
  set_up_build();
  snprintf(path, sizeof path, "%s/k.kiln", folder);
  write_kernels(path, 1);
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    snprintf(text, sizeof text,
             "#!/bin/sh\nfor a; do case $last in -o) out=$a;; esac; last=$a; done\n"
             "%s \"$@\" || exit\ncd %s && cat $out > full\n%s\n",
             ptxas, folder, endings[i]);
    snprintf(path, sizeof path, "%s/as", folder);
    kiln_test_write(path, text, strlen(text));
    CHECK(!chmod(path, 0755));
    int code = kiln_test_run(&out,
                             "KILN_CACHE_DIR=%s/cache %s/bin/kiln compile %s/k.kiln -t sm_80 "
                             "--ptx-assembler=ptxas --assembler-path=%s/as -o %s/k.cubin",
                             folder, kiln_test_build(), folder, folder, folder);
    if (code != 1 || !strstr(out, "cubin")) FAIL("ending \"%s\": exit code %d: %s", endings[i], code, out);
    free(out);
    CHECK(access(strcat(strcpy(path, folder), "/k.cubin"), F_OK));
  }
  CHECK(!kiln_test_run(&out, "KILN_CACHE_DIR=%s/cache %s/bin/kiln cache ls", folder, kiln_test_build()));
  CHECK_TEXT(out, "");
  free(out);
}

/// A disk that changes bytes and no times: the digest that is remembered is no longer that of the content.
TEST(identity, the_doctor_reads_the_tools_again) {
  enum { RECORD = 88, DIGEST_AT = 48, CHECK_AT = 80 };
  char path[300], *out;
  size_t size;
  set_up();
  CHECK(!kiln_test_run(NULL, "cp %s/bin/kiln-tool %s", kiln_test_build(),
                       folder));    // which the doctor misses, too
  kiln_test_run(NULL, "sleep 2.2"); // a file that is new is not remembered
  for (int changed = 0; changed < 2; changed++) {
    int code = kiln_test_run(&out, "KILN_CACHE_DIR=%s/cache %s/kiln cache doctor", folder, folder);
    CHECK_INT(code, changed);
    CHECK(strstr(out,
                 changed ? "BAD  code generator: its content is not what it was" : "ok   code generator: "));
    free(out);
    if (changed) break;
    snprintf(path, sizeof path, "%s/cache/v1/main.default/digests", folder);
    char *bytes = kiln_test_read(path, &size);
    CHECK(bytes && size && size % RECORD == 0);
    for (size_t at = 0; at < size; at += RECORD) {
      bytes[at + DIGEST_AT] ^= 1;
      kiln_check check = kiln_check_of(bytes + at, CHECK_AT);
      memcpy(bytes + at + CHECK_AT, check.bytes, RECORD - CHECK_AT);
    }
    kiln_test_write(path, bytes, size);
    free(bytes);
  }
}
