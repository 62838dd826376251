// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests digests of files that the store's folder remembers: which files are read again, and which records
// are never believed.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "tests/cache/common.h"

enum { SIZE = 3 << 20 };

static char path[300], folder[300];
static kiln_digest truth;

/// Long enough ago to be remembered: only the kernel's clock makes the time of change.
static void let_settle(void) { nanosleep(&(struct timespec){.tv_sec = 2, .tv_nsec = 100000000}, NULL); }

static void write_file(uint64_t seed) {
  uint8_t *bytes = malloc(SIZE);
  for (size_t i = 0; i < SIZE; i++) bytes[i] = (uint8_t)kiln_test_random(&seed);
  truth = kiln_digest_of(bytes, SIZE);
  kiln_test_write(path, bytes, SIZE);
  free(bytes);
}

static void set_up(void) {
  snprintf(folder, sizeof folder, "%s/cache", kiln_test_folder());
  snprintf(path, sizeof path, "%s/tool", kiln_test_folder());
  write_file(1);
}

/// Asks for the digest of the file, which must be right. True: it was read for that (its time of access says
/// so to whoever looks before and after).
static bool was_read(kiln_cache *cache) {
  kiln_digest digest;
  kiln_file_mark mark;
  kiln_error err = {0};
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  CHECK(fd >= 0);
  // Bytes that the process read, the system says: the only ones of that size are of the file.
  char before[4096] = "", after[4096] = "";
  size_t size;
  char *text = kiln_test_read("/proc/self/io", &size);
  if (!text) SKIP("/proc/self/io cannot be read");
  snprintf(before, sizeof before, "%s", text);
  free(text);
  CHECK_OK(kiln_cache_file_digest(cache, fd, KILN_FILE_WHOLE, &mark, &digest, &err), err);
  text = kiln_test_read("/proc/self/io", &size);
  snprintf(after, sizeof after, "%s", text);
  free(text);
  close(fd);
  if (memcmp(&digest, &truth, sizeof truth)) FAIL("the digest is not that of the content");
  long long was = atoll(strstr(before, "rchar:") + 6), is = atoll(strstr(after, "rchar:") + 6);
  return is - was >= SIZE;
}

/// The others wait for what it remembers.
TEST(files, one_of_those_that_start_together_reads) {
  enum { PROCESSES = 8 };
  pid_t children[PROCESSES];
  int readers = 0, start[2];
  char byte;
  set_up();
  let_settle();
  CHECK(!pipe(start));
  for (unsigned i = 0; i < PROCESSES; i++) {
    children[i] = fork();
    if (children[i]) continue;
    kiln_cache *cache = open_in(folder);
    close(start[1]);
    if (read(start[0], &byte, 1)) _exit(2); // until all are there
    _exit(was_read(cache));
  }
  close(start[0]), close(start[1]);
  for (unsigned i = 0; i < PROCESSES; i++) {
    int status;
    CHECK_INT(waitpid(children[i], &status, 0), children[i]);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) < 2);
    readers += WEXITSTATUS(status);
  }
  CHECK_INT(readers, 1);
}

TEST(files, a_file_that_stays_is_read_once) {
  set_up();
  let_settle();
  kiln_cache *cache = open_in(folder);
  CHECK(was_read(cache));
  CHECK(!was_read(cache));
  kiln_cache_close(cache);
  cache = open_in(folder); // another process
  CHECK(!was_read(cache));
  kiln_cache_close(cache);
  CHECK(was_read(NULL));
}

TEST(files, a_file_that_changed_a_moment_ago_is_read_again) {
  set_up();
  kiln_cache *cache = open_in(folder);
  CHECK(was_read(cache));
  CHECK(was_read(cache));
  let_settle();
  CHECK(was_read(cache));
  CHECK(!was_read(cache));
  kiln_cache_close(cache);
}

TEST(files, every_kind_of_change_is_seen) {
  set_up();
  let_settle();
  kiln_cache *cache = open_in(folder);
  CHECK(was_read(cache));
  // In place, the same size, the old time of modification: only the time of change tells.
  struct stat st;
  CHECK(!stat(path, &st));
  write_file(2);
  const struct timespec times[2] = {st.st_atim, st.st_mtim};
  CHECK(!utimensat(AT_FDCWD, path, times, 0));
  CHECK(was_read(cache));
  let_settle();
  CHECK(was_read(cache));
  CHECK(!was_read(cache));
  // Another file in its place, with the same size and times but that of change.
  CHECK(!kiln_test_run(NULL, "mv %s %s.old && cp -p %s.old %s", path, path, path, path));
  CHECK(was_read(cache));
  // The old one again: its name changed, so its time of change did.
  CHECK(!kiln_test_run(NULL, "mv %s.old %s", path, path));
  CHECK(was_read(cache));
  kiln_cache_close(cache);
}

TEST(files, damaged_memory_is_not_believed) {
  char memory[400];
  set_up();
  let_settle();
  kiln_cache *cache = open_in(folder);
  CHECK(was_read(cache));
  snprintf(memory, sizeof memory, "%s/v1/main.default/digests", folder);
  size_t size;
  char *bytes = kiln_test_read(memory, &size);
  CHECK(bytes && size == 88);
  for (size_t i = 0; i < size; i++) {
    bytes[i] ^= 1;
    kiln_test_write(memory, bytes, size);
    kiln_cache_close(cache);
    cache = open_in(folder);
    CHECK(was_read(cache)); // and remembers it again
    bytes[i] ^= 1;
  }
  for (size_t i = 0; i < size; i += 7) {
    kiln_test_write(memory, bytes, i);
    kiln_cache_close(cache);
    cache = open_in(folder);
    CHECK(was_read(cache));
  }
  CHECK(!was_read(cache));
  free(bytes);
  kiln_cache_close(cache);
}

TEST(files, in_a_shared_folder_nobody_else_is_believed) {
  char command[600];
  set_up();
  let_settle();
  kiln_cache_config config = config_in(folder);
  config.shared = true;
  kiln_cache *cache = open_with(&config);
  CHECK(was_read(cache));
  CHECK(!was_read(cache));
  if (geteuid()) SKIP("only root can give files away");
  snprintf(command, sizeof command, "chown 1 %s/v1/main.default/digests.0", folder);
  CHECK(!kiln_test_run(NULL, "%s", command));
  kiln_cache_close(cache);
  cache = open_with(&config);
  CHECK(was_read(cache));
  kiln_cache_close(cache);
}

TEST(files, what_is_no_file_is_an_error) {
  set_up();
  kiln_digest digest;
  kiln_file_mark mark;
  kiln_error err = {0};
  kiln_cache *cache = open_in(folder);
  int fd = open("/dev/null", O_RDONLY);
  CHECK(kiln_cache_file_digest(cache, fd, KILN_FILE_WHOLE, &mark, &digest, &err) != KILN_OK);
  close(fd);
  kiln_cache_close(cache);
}

TEST(files, many_files_stay_within_bounds) {
  char memory[400];
  struct stat st;
  set_up();
  kiln_cache *cache = open_in(folder);
  for (unsigned i = 0; i < 100; i++) {
    char name[400];
    snprintf(name, sizeof name, "%s.%u", path, i);
    kiln_test_write(name, &i, sizeof i);
  }
  let_settle();
  for (unsigned i = 0; i < 100; i++) {
    char name[400];
    kiln_digest digest, want = kiln_digest_of(&i, sizeof i);
    kiln_file_mark mark;
    kiln_error err = {0};
    snprintf(name, sizeof name, "%s.%u", path, i);
    int fd = open(name, O_RDONLY);
    for (int again = 0; again < 2; again++) {
      CHECK_OK(kiln_cache_file_digest(cache, fd, KILN_FILE_WHOLE, &mark, &digest, &err), err);
      CHECK(!memcmp(&digest, &want, sizeof want));
    }
    close(fd);
  }
  snprintf(memory, sizeof memory, "%s/v1/main.default/digests", folder);
  CHECK(!stat(memory, &st));
  CHECK_INT(st.st_size, 64 * 88);
  kiln_cache_close(cache);
}
