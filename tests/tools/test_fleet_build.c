// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests `kiln build --fleet`: builds that share nothing but a Redis server compile each object once;
// whatever happens to one of them or to the server, the others finish. The cost of a compile is simulated:
// the code generator sleeps before each, so that a machine with two processors stands for four.
#include "tests/cache/servers.h"

// Stands in for the code generator, whose work it has done: sleeps before each request, notes it in a log;
// dies then where it is to sleep 0 ms. What it is told stands in the file `slow` beside it, since no variable
// reaches it: milliseconds, log, code generator. A reply ends with the mark of the file that made it, in
// place of which it puts its own.
static const char slow[] =
    "#include <fcntl.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
    "#include <sys/stat.h>\n#include <time.h>\n#include <unistd.h>\n"
    "static int all(int fd, unsigned char *at, size_t size, int out) {\n"
    "  for (ssize_t n; size; at += n, size -= n)\n"
    "    if ((n = out ? write(fd, at, size) : read(fd, at, size)) <= 0) return 0;\n"
    "  return 1;\n}\n"
    "static unsigned char bytes[1 << 24];\n"
    "static uint32_t message(int fd) {\n"
    "  if (!all(fd, bytes, 4, 0)) exit(0);\n"
    "  uint32_t size = bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (uint32_t)bytes[3] << 24;\n"
    "  if (size > sizeof bytes - 4 || !all(fd, bytes + 4, size, 0)) exit(4);\n"
    "  return size;\n}\n"
    "static uint64_t ns(struct timespec t) { return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec; }\n"
    "int main(int argc, char **argv) {\n"
    "  char path[4096], log[4096], real[4096];\n  long ms, length = readlink(\"/proc/self/exe\", path, "
    "4000);\n"
    "  int to[2], from[2];\n  struct stat st;\n"
    "  path[length < 0 ? 0 : length] = 0;\n  strcpy(strrchr(path, '/'), \"/slow\");\n"
    "  FILE *told = fopen(path, \"r\");\n"
    "  if (!told || fscanf(told, \"%ld %4095s %4095s\", &ms, log, real) != 3 || pipe(to) || pipe(from)) "
    "return 5;\n"
    "  fclose(told);\n  if (stat(\"/proc/self/exe\", &st)) return 5;\n"
    "  if (!fork()) {\n    dup2(to[0], 0), dup2(from[1], 1), close(to[1]), close(from[0]);\n"
    "    execv(real, argv);\n    _exit(127);\n  }\n  close(to[0]), close(from[1]);\n"
    "  for (;;) {\n    uint32_t size = message(0);\n"
    "    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0666);\n"
    "    if (argc < 0 || write(fd, \".\", 1) < 0) abort();\n    close(fd);\n    if (!ms) _exit(3);\n"
    "    if (ms > 0) nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, 0);\n"
    "    for (clock_t begun = clock(); ms < 0 && clock() - begun < -ms * (CLOCKS_PER_SEC / 1000);) {}\n"
    "    if (!all(to[1], bytes, size + 4, 1)) return 6;\n    size = message(from[0]);\n"
    "    uint64_t mark[5] = {st.st_dev, st.st_ino, st.st_size, ns(st.st_mtim), ns(st.st_ctim)};\n"
    "    if (size > 40 && !bytes[4]) memcpy(bytes + 4 + size - 40, mark, 40);\n"
    "    if (!all(1, bytes, size + 4, 1)) return 7;\n  }\n}\n";

static void make_slow(void) {
  char *out;
  kiln_test_write(kiln_test_path("slow.c"), slow, strlen(slow));
  if (kiln_test_run(&out, "cc -O1 -o %s %s", kiln_test_path("slow.bin"), kiln_test_path("slow.c")))
    FAIL("%s", out);
  free(out);
}

// Kernels k0, k1, ... that differ by what they store.
static const char *write_kernels(const char *name, unsigned count) {
  static char paths[2][400]; // of the last two
  static unsigned written;
  char *path = paths[written++ % 2];
  kiln_buffer text = {0};
  kiln_buffer_format(&text, "kiln 1\n\n");
  for (unsigned i = 0; i < count; i++)
    kiln_buffer_format(
        &text, "kernel k%u(y: out *i32)\n  @grid(1)\n{\n  let i = iota(64)\n  store(y + i, i + %u)\n}\n", i,
        i);
  kiln_test_write(kiln_test_path(name), text.bytes, text.size);
  kiln_buffer_deinit(&text);
  snprintf(path, sizeof *paths, "%s", kiln_test_path(name));
  return path;
}

// Starts `kiln build` as a machine of its own: programs, cache, output NAME.kbundle, what it says in
// NAME.txt.
static pid_t begin(const char *name, const char *url, const char *source, int ms) {
  char command[2000];
  if (kiln_test_run(NULL,
                    "d=%s.bin; mkdir -p $d && cp %s/bin/kiln $d && cp -p %s $d/kiln-codegen && "
                    "ln -sf $PWD/%s/bin/kiln-tool $PWD/%s/bin/kiln-remote $d && echo %d %s.log "
                    "$PWD/%s/bin/kiln-codegen >$d/slow",
                    kiln_test_path(name), kiln_test_build(), kiln_test_path("slow.bin"), kiln_test_build(),
                    kiln_test_build(), ms, kiln_test_path(name), kiln_test_build()))
    FAIL("the programs of %s were not made", name);
  snprintf(command, sizeof command,
           "exec env KILN_CACHE_DIR=%s.cache %s.bin/kiln build --fleet %s -j 1 -t host -o %s.kbundle %s > "
           "%s.txt 2>&1",
           kiln_test_path(name), kiln_test_path(name), url, kiln_test_path(name), source,
           kiln_test_path(name));
  return start_shell(command);
}

static int end(pid_t pid) {
  int status;
  for (unsigned i = 0; waitpid(pid, &status, WNOHANG) != pid; i++) {
    if (i > 9000) FAIL("a build does not end");
    pause_ms(10);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

// How many compiles the machine began.
static unsigned compiles(const char *name) {
  size_t size = 0;
  char path[400];
  snprintf(path, sizeof path, "%s.log", kiln_test_path(name));
  if (access(path, R_OK)) return 0;
  free(kiln_test_read(path, &size));
  return (unsigned)size;
}

static char *said(const char *name) {
  char path[400];
  snprintf(path, sizeof path, "%s.txt", kiln_test_path(name));
  return kiln_test_read(path, NULL);
}

static const char *redis_url(void) {
  static char url[64];
  if (access("/usr/bin/redis-cli", X_OK)) SKIP("redis-cli is not installed");
  snprintf(url, sizeof url, "redis://127.0.0.1:%d", start_redis(kiln_test_folder()));
  make_slow();
  return url;
}

static void expect_done(const char *name, int code) {
  if (code) {
    char *text = said(name);
    FAIL("%s: exit status %d:\n%s", name, code, text);
  }
}

static void expect_same(const char *a, const char *b) {
  if (kiln_test_run(NULL, "cmp %s.kbundle %s.kbundle", kiln_test_path(a), kiln_test_path(b)))
    FAIL("%s and %s differ", a, b);
}

static const char *const names[] = {"a", "b", "c", "d"};

static void forget(const char *url) { // what the server has
  if (kiln_test_run(NULL, "redis-cli -p %s flushall", strrchr(url, ':') + 1)) FAIL("redis-cli does not work");
}

// Objects a millisecond of four machines; each object was compiled once.
static double four_builds(const char *url, const char *source, unsigned objects, unsigned ms,
                          unsigned round) {
  char own[4][8];
  pid_t pids[4];
  unsigned sum = 0, least = objects;
  for (unsigned i = 0; i < 4; i++) snprintf(own[i], sizeof own[i], "%s%u", names[i], round % 10);
  int64_t start = now_ms();
  for (unsigned i = 0; i < 4; i++) pids[i] = begin(own[i], url, source, ms);
  for (unsigned i = 0; i < 4; i++) expect_done(own[i], end(pids[i]));
  double rate = objects / (double)(now_ms() - start);
  for (unsigned i = 0; i < 4; i++) {
    unsigned count = compiles(own[i]);
    sum += count;
    if (count < least) least = count;
    if (i) expect_same(own[0], own[i]);
  }
  CHECK_INT(sum, objects);
  CHECK(least > objects / 8);
  return rate;
}

// The machine that tests run on may be busy with other things, so the best of a few rounds counts.
TEST(fleet_build, four_machines_compile_each_object_once_and_four_times_as_fast) {
  enum { EACH = 10, MS = 1500, ROUNDS = 5 };
  const double want =
      KILN_TEST_SANITIZED ? 1.0 : 3.4; // a sanitizer's programs take longer to start than to wait
  const char *url = redis_url(), *few = write_kernels("few.kiln", EACH),
             *all = write_kernels("all.kiln", 4 * EACH);
  int64_t start = now_ms();
  expect_done("one", end(begin("one", url, few, MS)));
  double one = EACH / (double)(now_ms() - start), four = 0;
  for (unsigned round = 0; round < ROUNDS && four < want * one; round++) {
    forget(url);
    double rate = four_builds(url, all, 4 * EACH, MS, round);
    if (rate > four) four = rate;
  }
  printf("%.2f objects a second by one machine, %.2f by four: %.2f x\n", 1000 * one, 1000 * four, four / one);
  if (four < want * one)
    FAIL("%.2f x the objects a second of one machine, expected %.1f x", four / one, want);
}

static void wait_compiles(const char *name, unsigned count) {
  for (unsigned i = 0; compiles(name) < count; i++) {
    if (i > 3000) FAIL("%s does not begin to compile", name);
    pause_ms(10);
  }
}

TEST(fleet_build, what_a_killed_machine_held_is_made_by_another) {
  const char *url = redis_url(), *source = write_kernels("k.kiln", 8);
  pid_t a = begin("a", url, source, 1000);
  wait_compiles("a", 3); // two are made
  kill(-a, SIGKILL);
  waitpid(a, NULL, 0);
  expect_done("b", end(begin("b", url, source, 10)));
  unsigned count = compiles("b");
  if (count < 6 || count > 7) FAIL("%u objects were compiled after one was held and two were made", count);
}

// ------------------------------------------------------------------------------------------- storm

enum { SOURCES = 6, STORES = 8, AT_ONCE = 32, KERNELS_EACH = 4 };

/// One build of many at a time; it may share its store with others, and with one that was killed before.
typedef struct stormy {
  pid_t pid; ///< 0: it has ended
  unsigned source;
} stormy;

static unsigned number_of(const char *variable, unsigned otherwise) {
  const char *text = getenv(variable);
  return text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

/// Sources that no batch had before, and for each what a build without a fleet makes of it.
static void write_sources(unsigned batch) {
  for (unsigned s = 0; s < SOURCES; s++) {
    char name[16];
    kiln_buffer text = {0};
    kiln_buffer_format(&text, "kiln 1\n\n");
    for (unsigned k = 0; k < KERNELS_EACH; k++)
      kiln_buffer_format(&text,
                         "kernel k%u(y: out *i32)\n  @grid(1)\n{\n  store(y + iota(64), iota(64) + %u)\n}\n",
                         k, (batch * SOURCES + s) * KERNELS_EACH + k);
    snprintf(name, sizeof name, "s%u.kiln", s);
    kiln_test_write(kiln_test_path(name), text.bytes, text.size);
    kiln_buffer_deinit(&text);
    char *out;
    if (kiln_test_run(&out, "%s/bin/kiln build --no-cache -q -t host -o %s.alone %s 2>&1", kiln_test_build(),
                      kiln_test_path(name), kiln_test_path(name)))
      FAIL("%s", out);
    free(out);
  }
}

static pid_t begin_stormy(const char *url, unsigned number, unsigned source, unsigned store) {
  char command[2000];
  snprintf(command, sizeof command,
           "exec env KILN_CACHE_DIR=%s/store%u %s/bin/kiln build --fleet %s -j 1 -t host -o %s/b%u.kbundle "
           "%s/s%u.kiln > %s/b%u.txt 2>&1",
           kiln_test_folder(), store, kiln_test_build(), url, kiln_test_folder(), number, kiln_test_folder(),
           source, kiln_test_folder(), number);
  return start_shell(command);
}

/// Kills a build, unless it has ended, or waits for it. One that ends by itself has made what one without a
/// fleet makes. Whether it was killed.
static bool finish(stormy *b, unsigned number, bool is_killed) {
  char name[16];
  int status = 0;
  snprintf(name, sizeof name, "b%u", number);
  if (is_killed) {
    kill(-b->pid, SIGKILL);
    waitpid(b->pid, &status, 0);
  }
  const pid_t pid = b->pid;
  b->pid = 0;
  if (WIFSIGNALED(status)) return true;
  expect_done(name, is_killed ? WEXITSTATUS(status) : end(pid));
  if (kiln_test_run(NULL, "cmp %s.kbundle %s/s%u.kiln.alone", kiln_test_path(name), kiln_test_folder(),
                    b->source))
    FAIL("build %u made something else of source %u than a build without a fleet", number, b->source);
  return false;
}

/// AT_ONCE builds, of which about half are killed; how many were.
static unsigned batch_of_builds(const char *url, uint64_t *seed) {
  stormy all[AT_ONCE];
  unsigned killed = 0;
  for (unsigned i = 0; i < AT_ONCE; i++) {
    const unsigned source = (unsigned)(kiln_test_random(seed) % SOURCES),
                   store = (unsigned)(kiln_test_random(seed) % STORES);
    all[i] = (stormy){begin_stormy(url, i, source, store), source};
    pause_ms((unsigned)(kiln_test_random(seed) % 40));
    stormy *victim = &all[i - kiln_test_random(seed) % (i < 3 ? i + 1 : 4)]; // begun now or a while ago
    if (victim->pid && kiln_test_random(seed) % 5) killed += finish(victim, (unsigned)(victim - all), true);
  }
  for (unsigned i = 0; i < AT_ONCE; i++)
    if (all[i].pid) killed += finish(&all[i], i, false);
  return killed;
}

/// KILN_TEST_BUILDS says how many builds, KILN_TEST_SEED what is drawn.
TEST(fleet_build, storm) {
  const char *url = redis_url();
  const unsigned builds = number_of("KILN_TEST_BUILDS", kiln_test_full() ? 576 : AT_ONCE);
  uint64_t seed = number_of("KILN_TEST_SEED", 476);
  unsigned killed = 0, all = 0;
  printf("seed %llu\n", (unsigned long long)seed);
  for (; all < builds; all += AT_ONCE) {
    write_sources(all / AT_ONCE);
    killed += batch_of_builds(url, &seed);
  }
  printf("%u builds killed, %u finished\n", killed, all - killed);
  if (!killed || killed == all) FAIL("%u of %u builds were killed: the storm shows nothing", killed, all);
}

TEST(fleet_build, without_the_server_everybody_gets_on) {
  const char *url = redis_url(), *source = write_kernels("k.kiln", 8);
  pid_t a = begin("a", url, source, 300), b = begin("b", url, source, 300);
  wait_compiles("a", 2);
  stop();
  expect_done("a", end(a));
  expect_done("b", end(b));
  expect_same("a", "b");
}

// What a fleet needs of its server is asked by the doctor, and what lacks it is said.
TEST(fleet_build, the_doctor_asks_the_server) {
  const char *url = redis_url();
  char *out;
  if (kiln_test_run(&out, "KILN_CACHE_DIR=%s/cache %s/bin/kiln cache doctor --fleet %s | grep fleet",
                    kiln_test_folder(), kiln_test_build(), url))
    FAIL("%s", out);
  if (!strstr(out, ": answers, takes an upload and gives it back; gives leases and takes them back\n"))
    FAIL("%s", out);
  free(out);
  stop();
  CHECK_INT(kiln_test_run(&out, "KILN_CACHE_DIR=%s/cache %s/bin/kiln cache doctor --fleet %s",
                          kiln_test_folder(), kiln_test_build(), url),
            1);
  if (!strstr(out, "BAD  fleet: redis://")) FAIL("%s", out);
  free(out);
}

TEST(fleet_build, what_does_not_compile_keeps_nobody_waiting) {
  const char *url = redis_url(), *source = write_kernels("k.kiln", 8);
  int64_t start = now_ms();
  pid_t a = begin("a", url, source, 0), b = begin("b", url, source, 0);
  int codes[] = {end(a), end(b)};
  int64_t took = now_ms() - start;
  CHECK_INT(codes[0], 1);
  CHECK_INT(codes[1], 1);
  for (unsigned i = 0; i < 2; i++) {
    char *text = said(names[i]);
    if (!strstr(text, "8 of 8 objects failed")) FAIL("%s", text);
    free(text);
  }
  if (took > 20000) FAIL("two builds of nothing that compiles took %d ms", (int)took);
}

// ------------------------------------------------------------------- holders that do not get on, liars,
// silence

// Sends a signal to the processes of a machine whose command lines have one of two texts, its helper for the
// network excepted.
static void signal_parts(const char *name, pid_t pid, const char *signal, const char *one,
                         const char *other) {
  kiln_test_run(NULL,
                "for p in $(pgrep -g %d) $(pgrep -f '%s.bin/'); do case \"$(tr '\\0' ' ' "
                "</proc/$p/cmdline)\" in *kiln-remote*|sh*) ;; "
                "*'%s'*|*'%s'*) kill -%s $p ;; esac; done",
                (int)pid, kiln_test_path(name), one, other, signal);
}

static void end_parts(const char *name, pid_t pid) {
  signal_parts(name, pid, "KILL", "kiln", "kiln");
  kill(-pid, SIGKILL);
  waitpid(pid, NULL, 0);
}

/// A machine that holds leases and is suspended, in whatever part, keeps nobody waiting: its lease ends with
/// its work, not with its helper.
TEST(fleet_build, a_suspended_machine_is_not_waited_for) {
  static const struct {
    const char *what, *one, *other;
  } rows[] = {{"the build", "kiln build", "kiln build"},
              {"the code generator", "kiln-codegen", "kiln-codegen"},
              {"all but its helper", "kiln build", "kiln-codegen"}};
  const char *url = redis_url();
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
    char a[8], b[8], source[16];
    snprintf(a, sizeof a, "a%u", i);
    snprintf(b, sizeof b, "b%u", i);
    snprintf(source, sizeof source, "k%u.kiln", i);
    forget(url);
    const char *text = write_kernels(source, 6);
    pid_t held = begin(a, url, text, -60000);
    for (unsigned n = 0;
         kiln_test_run(NULL, "redis-cli -p %s keys '*lease' | grep -q lease", strrchr(url, ':') + 1); n++) {
      if (n > 500) FAIL("no lease is taken");
      pause_ms(10);
    }
    pause_ms(500);
    signal_parts(a, held, "STOP", rows[i].one, rows[i].other);
    int64_t start = now_ms();
    expect_done(b, end(begin(b, url, text, 10)));
    int64_t took = now_ms() - start;
    end_parts(a, held);
    if (took > 40000) FAIL("%s of a machine was suspended: the other took %d ms", rows[i].what, (int)took);
  }
}

/// A compile that works on is waited for, longer than a lease lives without.
TEST(fleet_build, a_long_compile_is_waited_for) {
  const char *url = redis_url(), *source = write_kernels("k.kiln", 1);
  pid_t a = begin("a", url, source, -12000);
  wait_compiles("a", 1);
  expect_done("b", end(begin("b", url, source, 10)));
  expect_done("a", end(a));
  CHECK_INT(compiles("a"), 1);
  CHECK_INT(compiles("b"), 0);
  expect_same("a", "b");
}

/// A compile that hangs, without taking time of a processor: others make the object.
TEST(fleet_build, a_hung_compile_is_not_waited_for) {
  const char *url = redis_url(), *source = write_kernels("k.kiln", 3);
  pid_t a = begin("a", url, source, 300000);
  wait_compiles("a", 1);
  int64_t start = now_ms();
  expect_done("b", end(begin("b", url, source, 10)));
  int64_t took = now_ms() - start;
  end_parts("a", a);
  if (took > 40000) FAIL("waited %d ms for a compile that hangs", (int)took);
}

/// Leases that nobody of ours can have given: without an end, or with one far away.
TEST(fleet_build, leases_that_do_not_end_are_none) {
  static const char *const ends[] = {"", "px 600000", "ex 100000"};
  const char *url = redis_url();
  for (unsigned i = 0; i < sizeof ends / sizeof *ends; i++) {
    char name[8], source[16];
    snprintf(name, sizeof name, "m%u", i);
    snprintf(source, sizeof source, "k%u.kiln", i);
    const char *text = write_kernels(source, 12);
    CHECK_INT(kiln_test_run(NULL,
                            "for k in $(%s/bin/kiln key -t host %s | cut -c1-64); do redis-cli -p %s set "
                            "kiln:main:$k:lease liar %s; "
                            "done >/dev/null",
                            kiln_test_build(), text, strrchr(url, ':') + 1, ends[i]),
              0);
    int64_t start = now_ms();
    // The stand-in for the code generator has another content, so other keys: here it is the code generator
    // itself.
    char command[1500];
    snprintf(command, sizeof command,
             "KILN_CACHE_DIR=%s.cache %s/bin/kiln build --fleet %s -t host -o %s.kbundle %s > %s.txt 2>&1",
             kiln_test_path(name), kiln_test_build(), url, kiln_test_path(name), text, kiln_test_path(name));
    expect_done(name, end(start_shell(command)));
    if (now_ms() - start > 20000) FAIL("leases with \"%s\" cost %d ms", ends[i], (int)(now_ms() - start));
  }
}

/// One line says what became of the server, and how many objects that cost.
static void expect_line(const char *name, const char *says) {
  char *text = said(name);
  const unsigned notes = kiln_test_count(text, "kiln: note: "), lines = kiln_test_count(text, says);
  if (lines != 1 || notes != 1) FAIL("%u notes, %u of them \"%s\":\n%s", notes, lines, says, text);
  free(text);
}

TEST(fleet_build, a_lost_server_is_one_line) {
  const char *url = redis_url(), *source = write_kernels("k.kiln", 8);
  pid_t a = begin("a", url, source, 300);
  wait_compiles("a", 3);
  stop();
  expect_done("a", end(a));
  expect_line("a", "server lost, ");
  expect_done("b", end(begin("b", url, source, 10))); // it is gone from the beginning
  expect_line("b", "the server does not answer, 8 compiled here");
}

/// A server that accepts and says nothing costs its deadline once, not once an object; one that falls silent
/// in the middle, too.
TEST(fleet_build, a_silent_server_costs_its_deadline_once) {
  enum { OBJECTS = 16 };
  const char *source = write_kernels("k.kiln", OBJECTS);
  char url[64];
  int port, listening = listen_any(&port);
  make_slow();
  snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
  int64_t start = now_ms();
  expect_done("a", end(begin("a", url, source, 10)));
  int64_t took = now_ms() - start;
  close(listening);
  if (took > 12000) FAIL("a silent server cost %d objects %d ms", OBJECTS, (int)took);
  expect_line("a", "the server does not answer, 16 compiled here");
  snprintf(url, sizeof url, "redis://127.0.0.1:%d", start_redis(kiln_test_folder()));
  pid_t b = begin("b", url, source, 200);
  wait_compiles("b", 4);
  kill(server, SIGSTOP);
  start = now_ms();
  expect_done("b", end(b));
  took = now_ms() - start;
  kill(server, SIGCONT);
  if (took > 15000) FAIL("a server that fell silent cost %d ms", (int)took);
  expect_line("b", "server lost, ");
}

TEST(fleet_build, a_wrong_password_is_said) {
  const char *url = redis_url(), *source = write_kernels("k.kiln", 4);
  char wrong[100];
  if (kiln_test_run(NULL, "redis-cli -p %s config set requirepass right", strrchr(url, ':') + 1))
    FAIL("redis-cli does not work");
  expect_done("a", end(begin("a", url, source, 10)));
  expect_line("a", "the server refuses the password (KILN_CACHE_REMOTE_TOKEN), 4 compiled here");
  snprintf(wrong, sizeof wrong, "redis://:wrong@127.0.0.1%s", strrchr(url, ':'));
  expect_done("b", end(begin("b", wrong, source, 10)));
  expect_line("b", "--fleet redis://***@127.0.0.1");
  snprintf(wrong, sizeof wrong, "redis://:right@127.0.0.1%s", strrchr(url, ':'));
  expect_done("c", end(begin("c", wrong, source, 10)));
  char *text = said("c");
  if (strstr(text, "note")) FAIL("%s", text);
  free(text);
}

TEST(fleet_build, mistakes_are_named) {
  static const struct {
    const char *options, *says;
    int code;
  } wrong[] = {{"--fleet http://x",
                "--fleet=http://x: expected redis://HOST[:PORT][/DATABASE]; rediss:// is by TLS", 2},
               {"--fleet redis://x --no-cache",
                "--fleet needs the cache, and with --no-cache nothing is looked up", 2},
               {"--fleet redis://x --force", "--fleet needs the cache", 2}};
  const char *source = write_kernels("k.kiln", 1);
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    char *out;
    int code = kiln_test_run(&out, "KILN_CACHE_DIR=%s %s/bin/kiln build %s -t host -o %s %s",
                             kiln_test_path("cache"), kiln_test_build(), wrong[i].options,
                             kiln_test_path("x.kbundle"), source);
    if (code != wrong[i].code || !strstr(out, wrong[i].says)) FAIL("exit status %d:\n%s", code, out);
    free(out);
  }
}
