// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Who makes the bytes is in the key by what it is, not by what it calls itself (A15, A16; behaviour 19): a
// code generator or an assembler that is exchanged for another with the same name, size, version and time is
// another key; one that only moved or was touched is the same.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

TEST(identity, no_code_generator_is_no_key) {
  char *out;
  set_up();
  CHECK(!kiln_test_run(NULL, "rm %s/kiln-codegen", folder));
  CHECK_INT(kiln_test_run(&out, "%s/kiln key kernels/transpose.kiln -t sm_90", folder), 1);
  CHECK(strstr(out, "kiln-codegen is not beside this program"));
  free(out);
}
