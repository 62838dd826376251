// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cuts the power after a command has succeeded: what is on the disk then, with its journal replayed, holds
// every output complete or not at all. The disk is an image with ext4, mounted here and copied while it is
// mounted: a copy is what a restarted machine finds.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/harness.h"

enum { KERNELS = 12 };

static char folder[200];

/// Copies the image as it is at one moment: that the copy ended with, since it equals the image read after
/// that. Writes that come while it is read make another try.
#define SNAPSHOT                                                                                            \
  "for t in $(seq 100); do cp --sparse=always image cut; cmp -s image cut && break; [ $t != 100 ] || exit " \
  "3; done; "

/// Makes and mounts the disk at disk/. The journal is written each second, contents after half a minute.
static void set_up(void) {
  char *out;
  strcpy(folder, kiln_test_folder());
  if (kiln_test_run(&out,
                    "cd %s && mkdir disk copy && truncate -s 48M image && mkfs.ext4 -q image && "
                    "mount -o loop,commit=1 image disk",
                    folder))
    SKIP("no file system can be mounted here: %s", out);
  free(out);
}

static void tear_down(void) { kiln_test_run(NULL, "cd %s && umount copy disk 2>/dev/null", folder); }

/// One source a kernel; their objects are in a cache of the ordinary disk, so that making them takes no time.
static void make_objects(const char *environment, const char *to) {
  char *out;
  if (kiln_test_run(
          &out,
          "cd %s && for i in $(seq %d); do [ -e k$i.kiln ] || printf 'kiln 1\\nkernel k(x: in *f32, "
          "y: out *f32, n: i32) @grid(1) @warps(4)\\n{\\n  let i = iota(128)\\n  store(y + i, load(x + i) + "
          "%%d.0)\\n}\\n' $i > k$i.kiln; %s KILN_CACHE_DIR=%s/cache $OLDPWD/%s/bin/kiln compile -q -t gfx942 "
          "-o %s/k$i.o k$i.kiln || exit 1; done",
          folder, KERNELS, environment, folder, kiln_test_build(), to))
    tear_down(), FAIL("%s", out);
  free(out);
}

/// Takes a snapshot of the image, mounts the copy and counts the objects that are whole; others must not be
/// there.
static unsigned whole_after_power_cut(void) {
  char *out;
  if (kiln_test_run(
          &out,
          "cd %s; " SNAPSHOT "mount -o loop cut copy || exit 3\n"
          "n=0; for i in $(seq %d); do [ ! -e copy/k$i.o ] && continue; cmp good/k$i.o copy/k$i.o || exit 4; "
          "n=$((n + 1)); done; umount copy; echo $n",
          folder, KERNELS))
    tear_down(), FAIL("after the power cut: %s", out);
  unsigned n = (unsigned)atoi(out);
  free(out);
  return n;
}

TEST(power, an_output_is_whole_or_not_there) {
  set_up();
  kiln_test_run(NULL, "mkdir %s/good", folder);
  make_objects("", "good");
  make_objects("", "disk");
  unsigned last = 0;
  // Around the moments at which the journal is written; a busy disk takes longer than its second for that.
  for (unsigned i = 0; i < 6 || (i < 120 && last < KERNELS); i++) {
    last = whole_after_power_cut();
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
  }
  tear_down();
  CHECK_INT(last, KERNELS);
}

TEST(power, replaced_outputs_are_whole_too) {
  set_up();
  kiln_test_run(NULL, "mkdir %s/good", folder);
  make_objects("", "good");
  kiln_test_run(NULL, "for i in $(seq %d); do echo old > %s/disk/k$i.o; done; sync -f %s/disk", KERNELS,
                folder, folder);
  make_objects("", "disk");
  for (unsigned i = 0; i < 4; i++) {
    char *out;
    if (kiln_test_run(
            &out,
            "cd %s; " SNAPSHOT "mount -o loop cut copy || exit 3\n"
            "for i in $(seq %d); do echo old | cmp -s - copy/k$i.o || cmp good/k$i.o copy/k$i.o || exit 4; "
            "done; umount copy",
            folder, KERNELS))
      tear_down(), FAIL("after the power cut: %s", out);
    free(out);
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
  }
  tear_down();
}

TEST(power, on_request_they_are_there_at_once) {
  set_up();
  kiln_test_run(NULL, "mkdir %s/good", folder);
  make_objects("", "good");
  make_objects("KILN_CACHE_DURABLE=1", "disk");
  unsigned there = whole_after_power_cut();
  tear_down();
  CHECK_INT(there, KERNELS);
}
