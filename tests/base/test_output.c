// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Outputs are whole or untouched: every call failing, writers at the same time, file systems without nameless
// files, things that are no files. (behaviours 41, 49)
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/output.h"
#include "tests/harness.h"

enum { SIZE = 200000 };

/// The same in children: a folder belongs to the process that asks first. Each test has another.
static const char *path(void) {
  static char text[300];
  static pid_t owner;
  if (!owner) owner = getpid();
  if (owner == getpid()) snprintf(text, sizeof text, "%s/out", kiln_test_folder());
  return text;
}

static char *content(char fill) {
  char *bytes = malloc(SIZE);
  CHECK(bytes);
  memset(bytes, fill, SIZE);
  return bytes;
}

static void put(char fill) {
  kiln_error err = {0};
  char *bytes = content(fill);
  CHECK_OK(kiln_output_write(path(), bytes, SIZE, &err), err);
  free(bytes);
}

/// The letter that all of the file has.
static char letter(void) {
  size_t size;
  char *bytes = kiln_test_read(path(), &size);
  CHECK(bytes);
  CHECK_INT(size, SIZE);
  for (size_t i = 1; i < size; i++)
    if (bytes[i] != bytes[0]) FAIL("the file is mixed: byte %zu", i);
  char first = bytes[0];
  free(bytes);
  return first;
}

static unsigned files(void) {
  char *out;
  CHECK_INT(kiln_test_run(&out, "ls -A %s | wc -l", kiln_test_folder()), 0);
  unsigned count = (unsigned)strtoul(out, NULL, 10);
  free(out);
  return count;
}

TEST(output, is_replaced_and_keeps_its_time_when_equal) {
  struct stat before, after;
  put('a');
  CHECK_INT(letter(), 'a');
  put('b');
  CHECK_INT(letter(), 'b');
  struct timespec old[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
  CHECK(!utimensat(AT_FDCWD, path(), old, 0) && !stat(path(), &before));
  put('b');
  CHECK(!stat(path(), &after));
  CHECK_INT(after.st_mtime, before.st_mtime);
  CHECK_INT(after.st_ino, before.st_ino);
  CHECK_INT(files(), 1);
}

TEST(output, mode_follows_the_mask) {
  struct stat st;
  umask(027);
  put('a');
  CHECK(!stat(path(), &st));
  CHECK_INT(st.st_mode & 0777, 0640);
}

// ------------------------------------------------------------------------------------------ faults

typedef struct fault {
  unsigned at, seen;
  int error;
  bool short_write;
} fault;

static int fail_at(void *context, kiln_fs_call call, const char *name, size_t *size) {
  fault *f = context;
  (void)name;
  if (f->seen++ != f->at) return 0;
  if (f->short_write && call == KILN_FS_WRITE && size && *size > 1) return *size /= 2, 0;
  return f->error;
}

/// Each call of a replacement fails in turn; the file is the old or the new one and nothing lies beside it.
static void sweep(int error) {
  char *bytes = content('n');
  for (unsigned at = 0;; at++) {
    fault f = {.at = at, .error = error};
    kiln_error err = {0};
    unlink(path());
    put('o');
    kiln_fs_install(fail_at, &f);
    kiln_status status = kiln_output_write(path(), bytes, SIZE, &err);
    kiln_fs_install(NULL, NULL);
    char now = letter();
    if (status == KILN_OK && now != 'n')
      FAIL("error %d at call %u: done, and the file is the old one", error, at);
    if (status != KILN_OK && !err.text[0]) FAIL("error %d at call %u: no message", error, at);
    kiln_output_clean(path());
    CHECK_INT(files(), 1);
    if (f.seen <= at) break; // the whole run was fault free
    if (at > 40) FAIL("the sweep does not end");
  }
  free(bytes);
}

TEST(output, every_call_fails_once) {
  static const int errors[] = {ENOSPC, EIO, EROFS, EACCES, EDQUOT, EPERM, EOPNOTSUPP};
  for (unsigned i = 0; i < sizeof errors / sizeof *errors; i++) sweep(errors[i]);
}

TEST(output, short_writes_are_completed) {
  char *bytes = content('s');
  for (unsigned at = 0; at < 8; at++) {
    fault f = {.at = at, .short_write = true};
    kiln_error err = {0};
    unlink(path());
    kiln_fs_install(fail_at, &f);
    CHECK_OK(kiln_output_write(path(), bytes, SIZE, &err), err);
    kiln_fs_install(NULL, NULL);
    CHECK_INT(letter(), 's');
  }
  free(bytes);
}

TEST(output, what_a_dead_writer_left_is_taken_away) {
  char stale[PATH_MAX];
  CHECK(kiln_output_temporary(path(), 0, stale));
  put('a');
  kiln_test_write(stale, "half", 4);
  put('b'); // has to go by that name
  CHECK_INT(letter(), 'b');
  CHECK_INT(files(), 1);
  kiln_test_write(stale, "half", 4);
  kiln_output_clean(path());
  CHECK_INT(files(), 1);
}

/// Names like ours are the user's own.
TEST(output, files_of_the_user_beside_it_stay) {
  char name[4][320];
  snprintf(name[0], sizeof name[0], "%s.tmp", path());
  snprintf(name[1], sizeof name[1], "%s.%ld.tmp", path(), (long)getpid());
  snprintf(name[2], sizeof name[2], "%s~", path());
  snprintf(name[3], sizeof name[3], "%s/out.tmp", kiln_test_folder());
  for (unsigned i = 0; i < 4; i++) kiln_test_write(name[i], "mine", 4);
  put('a');
  put('b');
  kiln_output_clean(path());
  for (unsigned i = 0; i < 4; i++) {
    char *text = kiln_test_read(name[i], NULL);
    CHECK_TEXT(text ? text : "(gone)", "mine");
    free(text);
  }
}

/// In which order the calls that a journal keeps come.
static char order[64];
static int note_call(void *context, kiln_fs_call call, const char *name, size_t *size) {
  const char letters[] = {
      [KILN_FS_WRITE] = 'w', [KILN_FS_SYNC] = 's', [KILN_FS_LINK] = 'l', [KILN_FS_RENAME] = 'r'};
  (void)context, (void)name, (void)size;
  char letter = call < sizeof letters ? letters[call] : 0;
  if (letter && strlen(order) + 1 < sizeof order) order[strlen(order)] = letter;
  return 0;
}

TEST(output, content_is_settled_before_it_gets_a_name) {
  kiln_fs_install(note_call, NULL);
  put('a');
  CHECK_TEXT(order, "wsl");
  memset(order, 0, sizeof order);
  put('b');
  CHECK_TEXT(order, "wsllr"); // the name is taken, so it goes by way of another
  memset(order, 0, sizeof order);
  kiln_output_complete(true);
  put('c');
  CHECK_TEXT(order, "wsllrs");
  kiln_output_complete(false);
  memset(order, 0, sizeof order);
  put('c');
  CHECK_TEXT(order, ""); // there already
  kiln_fs_install(NULL, NULL);
}

TEST(output, writers_at_the_same_time_leave_one_of_theirs) {
  enum { WRITERS = 8, ROUNDS = 40 };
  pid_t children[WRITERS];
  put('a');
  for (unsigned w = 0; w < WRITERS; w++) {
    children[w] = fork();
    if (!children[w]) {
      for (unsigned i = 0; i < ROUNDS; i++) put((char)('a' + (w * 7 + i) % 26));
      _exit(0);
    }
  }
  for (unsigned i = 0; i < ROUNDS; i++) letter(); // never mixed, while they write
  for (unsigned w = 0; w < WRITERS; w++) {
    int status;
    waitpid(children[w], &status, 0);
    CHECK_INT(status, 0);
  }
  letter();
  CHECK_INT(files(), 1);
}

TEST(output, pipes_and_devices_stay_what_they_are) {
  struct stat st;
  kiln_error err = {0};
  char fifo[300];
  snprintf(fifo, sizeof fifo, "%s/fifo", kiln_test_folder());
  CHECK_OK(kiln_output_write("/dev/null", "x", 1, &err), err);
  CHECK(!stat("/dev/null", &st) && S_ISCHR(st.st_mode));
  CHECK(!mkfifo(fifo, 0600));
  int reader = open(fifo, O_RDWR | O_NONBLOCK);
  char got[4] = "";
  CHECK_OK(kiln_output_write(fifo, "abc", 3, &err), err);
  CHECK_INT(read(reader, got, 3), 3);
  CHECK_TEXT(got, "abc");
  close(reader);
  CHECK_INT(kiln_output_write("/nonexistent/folder/x", "x", 1, &err), KILN_STATUS_NOT_FOUND);
  CHECK(strstr(err.text, "/nonexistent/folder/x"));
}
