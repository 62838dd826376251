// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that outputs are complete or untouched: with every call failing in turn, several writers at once,
// file systems without nameless files, and outputs that are not regular files. (behaviours 41, 49)
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
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
  static const int errors[] = {ENOSPC, EIO, EROFS, EACCES, EDQUOT, EPERM, EOPNOTSUPP, EXDEV, ENOENT};
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

static int die_at_rename(void *context, kiln_fs_call call, const char *name, size_t *size) {
  (void)context, (void)name, (void)size;
  if (call == KILN_FS_RENAME) _exit(9);
  return 0;
}

static int no_links(void *context, kiln_fs_call call, const char *name, size_t *size) {
  if (call == KILN_FS_LINK) return EPERM;
  return die_at_rename(context, call, name, size);
}

static void die_while_writing(kiln_fs_hook *hook) {
  int status;
  pid_t child = fork();
  if (!child) {
    kiln_fs_install(hook, NULL);
    put('x');
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
  CHECK_INT(WEXITSTATUS(status), 9);
}

TEST(output, what_a_dead_writer_left_is_taken_away) {
  kiln_fs_hook *const ways[] = {die_at_rename, no_links};
  for (unsigned i = 0; i < 2; i++) {
    put('a');
    die_while_writing(ways[i]);
    CHECK_INT(letter(), 'a');
    CHECK_INT(files(), 2);
    put('b');
    CHECK_INT(letter(), 'b');
    CHECK_INT(files(), 1);
    die_while_writing(ways[i]);
    CHECK_INT(files(), 2);
    kiln_output_clean(path());
    CHECK_INT(files(), 1);
  }
}

/// With `context`, files get their names when they are made.
static unsigned files_after_clean;
static int clean_at_rename(void *context, kiln_fs_call call, const char *name, size_t *size) {
  (void)name, (void)size;
  if (call == KILN_FS_LINK && context) return EPERM;
  if (call != KILN_FS_RENAME) return 0;
  pid_t child = fork();
  if (!child) {
    kiln_output_clean(path());
    _exit(0);
  }
  CHECK(waitpid(child, NULL, 0) == child);
  files_after_clean = files();
  return 0;
}

TEST(output, what_a_living_writer_has_stays) {
  for (uintptr_t named = 0; named < 2; named++) {
    put('a');
    files_after_clean = 0;
    kiln_fs_install(clean_at_rename, named ? &files_after_clean : NULL);
    put('b');
    kiln_fs_install(NULL, NULL);
    CHECK_INT(files_after_clean, 2);
    CHECK_INT(letter(), 'b');
  }
}

// A name that an attacker might know beforehand: each one that is asked for is a link to a file of somebody
// else by then. `refuse` makes links between files impossible, so that files get their names when they are
// made.
typedef struct planter {
  const char *victim;
  bool refuse;
  unsigned planted;
  char names[16][PATH_MAX];
} planter;

static int plant(void *context, kiln_fs_call call, const char *name, size_t *size) {
  planter *p = context;
  (void)size;
  if (call == KILN_FS_LINK && p->refuse) return EPERM;
  bool is_new = name && strstr(name, ".kiln-") && (call == KILN_FS_LINK || call == KILN_FS_OPEN);
  if (is_new && p->planted < 3) {
    CHECK(!symlink(p->victim, name));
    snprintf(p->names[p->planted++], PATH_MAX, "%s", name);
  }
  return 0;
}

TEST(output, names_are_new_and_nobody_knows_them) {
  for (unsigned refuse = 0; refuse < 2; refuse++) {
    static planter p;
    char victim[300];
    p = (planter){.refuse = refuse};
    snprintf(victim, sizeof victim, "%s/victim", kiln_test_folder());
    kiln_test_write(victim, "mine", 4);
    p.victim = victim;
    put('a');
    kiln_fs_install(plant, &p);
    put('b');
    kiln_fs_install(NULL, NULL);
    CHECK_INT(letter(), 'b');
    CHECK_INT(p.planted, 3);
    char *text = kiln_test_read(victim, NULL);
    CHECK_TEXT(text, "mine");
    free(text);
    for (unsigned i = 0; i < 3; i++) {
      // Not its number, not the time, not one name for all: 128 bits that differ.
      const char *mark = strrchr(p.names[i], '-') + 1, *other = strrchr(p.names[(i + 1) % 3], '-') + 1;
      CHECK_INT(strspn(mark, "0123456789abcdef"), 32);
      unsigned same = 0;
      for (unsigned d = 0; d < 32; d++) same += mark[d] == other[d];
      if (same > 16) FAIL("%s and %s have %u digits in common", mark, other, same);
      unlink(p.names[i]);
    }
    unlink(victim);
  }
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

// Runs `body` in a child, whose exit code it gives; a signal is 128 and its number.
static int in_child(void (*body)(void)) {
  int status;
  path();
  pid_t child = fork();
  if (!child) {
    body();
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static kiln_status put_status(const char *to, char fill) {
  kiln_error err = {0};
  char *bytes = content(fill);
  kiln_status status = kiln_output_write(to, bytes, SIZE, &err);
  free(bytes);
  return status;
}

static int say_something(void *context, kiln_fs_call call, const char *name, size_t *size) {
  (void)context, (void)call, (void)name, (void)size;
  for (int fd = 0; fd < 3; fd++) (void)!write(fd, "this is no content", 18);
  return 0;
}

static void write_with_closed_descriptors(void) {
  for (int fd = 0; fd < 3; fd++) close(fd);
  kiln_fs_install(say_something, NULL);
  for (unsigned i = 0; i < 3; i++)
    if (put_status(path(), (char)('c' + i)) != KILN_OK) _exit(1);
}

TEST(output, nothing_that_is_printed_lands_in_it) {
  put('a');
  CHECK_INT(in_child(write_with_closed_descriptors), 0);
  CHECK_INT(letter(), 'e');
}

static void write_beyond_the_limit(void) {
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){SIZE / 2, SIZE / 2});
  if (put_status(path(), 'n') != KILN_STATUS_NO_SPACE) _exit(1);
  sigset_t pending;
  if (sigpending(&pending) || sigismember(&pending, SIGXFSZ)) _exit(2);
}

TEST(output, a_limit_on_files_is_an_error) {
  put('a');
  CHECK_INT(in_child(write_beyond_the_limit), 0);
  CHECK_INT(letter(), 'a');
  CHECK_INT(files(), 1);
}

static void write_to_nobody(void) {
  char fifo[300];
  snprintf(fifo, sizeof fifo, "%s.fifo", path());
  if (mkfifo(fifo, 0600)) _exit(1);
  pid_t reader = fork();
  if (!reader) _exit(open(fifo, O_RDONLY) < 0); // and goes
  if (put_status(fifo, 'a') != KILN_STATUS_IO) _exit(2);
  unlink(fifo);
}

TEST(output, a_reader_that_goes_is_an_error) { CHECK_INT(in_child(write_to_nobody), 0); }

static void write_to_own(void) {
  char to[300];
  snprintf(to, sizeof to, "%s.own", path());
  int fd = open(to, O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (write(fd, "before ", 7) != 7 || dup2(fd, 1) != 1) _exit(1);
  if (kiln_output_write("/dev/stdout", "within ", 7, NULL) != KILN_OK) _exit(2);
  snprintf(to, sizeof to, "/dev/fd/%d", fd);
  if (kiln_output_write(to, "within ", 7, NULL) != KILN_OK || write(1, "after", 5) != 5) _exit(3);
}

TEST(output, links_to_own_descriptors_are_these) {
  struct stat st;
  char name[300];
  if (lstat("/dev/stdout", &st) || !S_ISLNK(st.st_mode)) SKIP("/dev/stdout is no link here");
  CHECK_INT(in_child(write_to_own), 0);
  snprintf(name, sizeof name, "%s.own", path());
  char *text = kiln_test_read(name, NULL);
  CHECK_TEXT(text, "before within within after");
  free(text);
  CHECK(!lstat("/dev/stdout", &st) && S_ISLNK(st.st_mode));
}

TEST(output, a_link_is_replaced_and_its_end_stays) {
  char victim[300], *text;
  struct stat st;
  snprintf(victim, sizeof victim, "%s/victim", kiln_test_folder());
  kiln_test_write(victim, "mine", 4);
  CHECK(!symlink(victim, path()));
  put('a');
  CHECK_INT(letter(), 'a');
  CHECK(!lstat(path(), &st) && S_ISREG(st.st_mode));
  CHECK_TEXT(text = kiln_test_read(victim, NULL), "mine");
  free(text);
}

// As root every device could be replaced by a file.
TEST(output, devices_and_links_to_them_stay) {
  struct stat st;
  char device[300], link[300];
  snprintf(device, sizeof device, "%s/null", kiln_test_folder());
  snprintf(link, sizeof link, "%s/link", kiln_test_folder());
  if (mknod(device, S_IFCHR | 0600, makedev(1, 3))) SKIP("no device can be made here: %s", strerror(errno));
  int probe = open(device, O_WRONLY);
  if (probe < 0) SKIP("a device of one's own cannot be opened here: %s", strerror(errno));
  close(probe);
  CHECK(!symlink(device, link));
  CHECK_INT(put_status(device, 'a'), KILN_OK);
  CHECK_INT(put_status(link, 'a'), KILN_OK);
  CHECK(!lstat(device, &st) && S_ISCHR(st.st_mode));
  CHECK(!lstat(link, &st) && S_ISLNK(st.st_mode));
  CHECK_INT(files(), 2);
}

TEST(output, keys_are_new_files) {
  kiln_error err;
  struct stat st;
  char victim[300], *text;
  snprintf(victim, sizeof victim, "%s/victim", kiln_test_folder());
  CHECK_OK(kiln_output_create(victim, 0600, "key", 3, &err), err);
  CHECK(!stat(victim, &st));
  CHECK_INT(st.st_mode & 0777, 0600);
  CHECK_INT(kiln_output_create(victim, 0600, "other", 5, &err), KILN_STATUS_EXISTS);
  CHECK_TEXT(text = kiln_test_read(victim, NULL), "key");
  free(text);
  CHECK(!symlink("nothing", path()));
  CHECK_INT(kiln_output_create(path(), 0600, "other", 5, &err), KILN_STATUS_EXISTS);
  CHECK(access("nothing", F_OK));
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
