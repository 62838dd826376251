// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests `kiln tune --post`, `--worker` and `--collect` with a real Redis: shapes are measured once per
// product, whichever worker dies, and only jobs that a trusted key signed are run.
#include <limits.h>
#include <poll.h>

#include "tests/cache/servers.h"

enum { SHAPES = 12 };

// Takes a while, so that whoever begins a little later finds something left.
static const char kernel[] =
    "kiln 1\n\nkernel k[BLOCK: tune = 64](x: in *f32, y: out *f32, n: i32)\n  @grid(cdiv(n, BLOCK)) @key(n)\n"
    "  @config(BLOCK = 64)\n  @config(BLOCK = 128)\n{\n  let i = pid(0) * BLOCK + iota(BLOCK)\n"
    "  let live = i < n\n  var s = load(x + i, live)\n  for k in 0 .. 20000 { s = s * 0.5 + 1.0 }\n"
    "  store(y + i, s, live)\n}\n";
// Each of a bin of its own.
static const char shapes[] =
    "k n={100,200,300,400,500,600,700,1000,1100,1300,1600,1900} x=random:n y=zeros:n\n";

typedef struct place {
  char url[64];
  int port;
} place;

static const char *program(void) { // commands run in the test's folder
  static char path[PATH_MAX + 20];
  char folder[PATH_MAX];
  CHECK(realpath(kiln_test_build(), folder));
  snprintf(path, sizeof path, "%s/bin/kiln", folder);
  return path;
}

static char *kiln(int want, const char *format, ...) {
  char words[1500], *out;
  va_list list;
  va_start(list, format);
  vsnprintf(words, sizeof words, format, list);
  va_end(list);
  int code = kiln_test_run(&out, "cd %s && KILN_CACHE_DIR=cache %s %s", kiln_test_folder(), program(), words);
  if (code != want) FAIL("kiln %s: exit status is %d, expected %d:\n%s", words, code, want, out);
  return out;
}

static char *read_file(const char *name) {
  const char *path = kiln_test_path(name);
  char *text = access(path, R_OK) ? strdup("") : kiln_test_read(path, NULL);
  CHECK(text);
  return text;
}

// A server with one job, signed by the key `ours`; `theirs` is another one.
static place begin(const char *budget) {
  place p;
  if (access("/usr/bin/redis-cli", X_OK)) SKIP("redis-cli is not installed");
  p.port = start_redis(kiln_test_folder());
  snprintf(p.url, sizeof p.url, "redis://127.0.0.1:%d", p.port);
  kiln_test_put("k.kiln", kernel);
  kiln_test_put("shapes", shapes);
  free(kiln(0, "cache keygen ours"));
  free(kiln(0, "cache keygen theirs"));
  free(kiln(0, "build --tuning -q -t host -o all.kbundle k.kiln"));
  char *out = kiln(0, "tune --post %s --sign ours --judge-limit 0 --budget %s --shapes shapes all.kbundle",
                   p.url, budget);
  CHECK_PART(out, "job ");
  free(out);
  return p;
}

static pid_t start_worker(const place *p, const char *name, const char *options) {
  char command[6000];
  snprintf(command, sizeof command, "cd %s && exec %s tune --worker %s --trust ours.pub %s > %s.txt 2>&1",
           kiln_test_folder(), program(), p->url, options, name);
  return start_shell(command);
}

static int end(pid_t pid) {
  int status;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

// How many shapes a worker measured, by what it said.
static unsigned measured(const char *name) {
  char file[100];
  snprintf(file, sizeof file, "%s.txt", name);
  char *text = read_file(file);
  unsigned count = kiln_test_count(text, "judged by");
  free(text);
  return count;
}

static unsigned collected(const place *p, const char *table) {
  free(kiln(0, "tune --collect %s -o %s", p->url, table));
  char *text = read_file(table);
  unsigned count = kiln_test_count(text, "\nkernel=k");
  free(text);
  return count;
}

TEST(tune_worker, two_workers_share_the_shapes) {
  place p = begin("0.5");
  pid_t a = start_worker(&p, "a", "-d host:1"), b = start_worker(&p, "b", "-d host:1 -o own.table");
  CHECK_INT(end(a), 0);
  CHECK_INT(end(b), 0);
  CHECK_INT(measured("a") + measured("b"), SHAPES);
  if (!measured("a") || !measured("b")) FAIL("one worker did everything");
  char *a_said = read_file("a.txt"), *b_said = read_file("b.txt"), *own = read_file("own.table");
  for (const char *at = a_said; (at = strstr(at, "k n=")); at++) { // disjoint
    char shape[40];
    snprintf(shape, sizeof shape, "%.*s:", (int)strcspn(at, ":"), at);
    if (strstr(b_said, shape)) FAIL("both measured %s", shape);
  }
  CHECK_INT(kiln_test_count(own, "\nkernel=k"), measured("b"));
  CHECK_INT(collected(&p, "t.table"), SHAPES);
  // a third one finds nothing left, and what was collected is collected again as it was
  CHECK_INT(end(start_worker(&p, "c", "-d host:1")), 0);
  CHECK_INT(measured("c"), 0);
  CHECK_INT(collected(&p, "u.table"), SHAPES);
  CHECK_INT(kiln_test_run(NULL, "cd %s && cmp t.table u.table", kiln_test_folder()), 0);
  free(a_said), free(b_said), free(own);
}

TEST(tune_worker, different_devices_each_measure_everything) {
  place p = begin("0.1");
  CHECK_INT(end(start_worker(&p, "a", "-d host:1")), 0);
  CHECK_INT(end(start_worker(&p, "b", "-d host:2")), 0);
  CHECK_INT(measured("a"), SHAPES);
  CHECK_INT(measured("b"), SHAPES);
  CHECK_INT(collected(&p, "t.table"), 2 * SHAPES);
  char *text = read_file("t.table");
  CHECK_INT(kiln_test_count(text, " units=1 "), SHAPES);
  CHECK_INT(kiln_test_count(text, " units=2 "), SHAPES);
  free(text);
}

// Two devices of one host take from one queue, and from the board.
TEST(tune_worker, devices_of_one_host_share_too) {
  place p = begin("0.1");
  CHECK_INT(end(start_worker(&p, "a", "-d host:1,host:1")), 0);
  CHECK_INT(measured("a"), SHAPES);
  CHECK_INT(collected(&p, "t.table"), SHAPES);
}

static void wait_measured(const char *name, unsigned count) {
  for (unsigned i = 0; measured(name) < count; i++) {
    if (i > 3000) FAIL("%s measures nothing", name);
    pause_ms(10);
  }
}

TEST(tune_worker, what_a_killed_worker_held_is_measured_by_another) {
  place p = begin("0.4");
  pid_t a = start_worker(&p, "a", "-d host:1");
  wait_measured("a", 3);
  kill(-a, SIGKILL); // its connection to the server too, so that the lease runs out by itself
  end(a);
  CHECK_INT(end(start_worker(&p, "b", "-d host:1")), 0);
  CHECK_INT(collected(&p, "t.table"), SHAPES);
  if (measured("b") > SHAPES - 2) FAIL("the second worker measured %u of %d again", measured("b"), SHAPES);
}

TEST(tune_worker, without_the_server_a_worker_ends_and_what_it_found_is_whole) {
  place p = begin("0.4");
  pid_t a = start_worker(&p, "a", "-d host:1 -o own.table");
  wait_measured("a", 2);
  stop();
  int64_t start = now_ms();
  CHECK_INT(end(a), 1);
  if (now_ms() - start > 60000) FAIL("it took %d ms to see that the server is gone", (int)(now_ms() - start));
  char *said = read_file("a.txt");
  CHECK_PART(said, "does not answer");
  free(said);
  free(kiln(0, "tune --merge -o again.table own.table"));
  char *text = read_file("again.table");
  CHECK(kiln_test_count(text, "\nkernel=k") >= 2);
  free(text);
}

TEST(tune_worker, only_signed_jobs_are_run) {
  place p = begin("0.1");
  char *out = kiln(1, "tune --worker %s --trust theirs.pub -d host:1", p.url);
  CHECK_PART(out, "is not signed by a key of --trust: it is not run");
  free(out);
  CHECK_INT(collected(&p, "t.table"), 0);
  // somebody who can write to the server changes what is to be run
  kiln_test_run(&out, "redis-cli -p %d smembers kiln:tune:jobs", p.port);
  char name[33];
  snprintf(name, sizeof name, "%.32s", out);
  free(out);
  CHECK_INT(kiln_test_run(NULL, "redis-cli -p %d setrange kiln:tune:%s 500 xxxx", p.port, name), 0);
  out = kiln(1, "tune --worker %s --trust theirs.pub --trust ours.pub -d host:1", p.url);
  CHECK_PART(out, "the signature is not of this content: it is not run");
  free(out);
  CHECK_INT(kiln_test_run(NULL, "redis-cli -p %d set kiln:tune:%s short", p.port, name), 0);
  free(kiln(1, "tune --worker %s --trust ours.pub -d host:1", p.url));
  CHECK_INT(kiln_test_run(NULL, "redis-cli -p %d sadd kiln:tune:jobs nonsense", p.port), 0);
  out = kiln(1, "tune --worker %s --trust ours.pub -d host:1", p.url);
  CHECK_PART(out, "1 name is left out");
  free(out);
}

// Names that are none stop nobody: what else is there is done and collected, and one line says what is not.
TEST(tune_worker, damaged_names_and_results_stop_nobody) {
  static const char *const names[] = {"nonsense",
                                      "''",
                                      "0123456789abcdef0123456789abcdeX",
                                      "\"a b\"",
                                      "ABCDEF0123456789ABCDEF0123456789",
                                      "$(printf '%032d' 0)x",
                                      "$(head -c 200 /dev/zero | tr '\\0' a)"};
  place p = begin("0.1");
  enum { NAMES = sizeof names / sizeof *names };
  for (unsigned i = 0; i < NAMES; i++)
    if (kiln_test_run(NULL, "redis-cli -p %d sadd kiln:tune:jobs %s", p.port, names[i])) FAIL("%s", names[i]);
  CHECK_INT(end(start_worker(&p, "a", "-d host:1")), 0);
  CHECK_INT(measured("a"), SHAPES);
  char *said = read_file("a.txt"), *out, job[33];
  CHECK_PART(said, "7 names are left out: not that of a job");
  CHECK_INT(kiln_test_count(said, "kiln: warning"), 1);
  free(said);
  kiln_test_run(&out, "redis-cli -p %d keys 'kiln:tune-*:results' | cut -d: -f2 | cut -c6-", p.port);
  snprintf(job, sizeof job, "%.32s", out);
  free(out);
  // Ids that are none, values that are no line, another one's line, too much.
  for (unsigned i = 0; i < NAMES; i++)
    if (kiln_test_run(NULL, "redis-cli -p %d sadd kiln:tune-%s:results %s", p.port, job, names[i]))
      FAIL("%s", names[i]);
  CHECK_INT(
      kiln_test_run(
          NULL,
          "r='redis-cli -p %d'; set -- $($r smembers kiln:tune-%s:results | grep -x '[0-9a-f]\\{16\\}'); "
          "$r set kiln:tune-%s:$1 rubbish && $r set kiln:tune-%s:$2 \"$($r get kiln:tune-%s:$3)\" && "
          "head -c 100000 /dev/zero | tr '\\0' a | $r -x set kiln:tune-%s:$4",
          p.port, job, job, job, job, job),
      0);
  out = kiln(0, "tune --collect %s -o t.table", p.url);
  CHECK_PART(out, "10 results are left out: ");
  CHECK_INT(kiln_test_count(out, "kiln: warning"), 2);
  free(out);
  char *table = read_file("t.table");
  CHECK_INT(kiln_test_count(table, "\nkernel=k"), SHAPES - 3);
  free(table);
}

// Where trust is asked for, results count that one of its keys signed, for this job and identity.
TEST(tune_worker, results_are_signed) {
  place p = begin("0.1");
  char *out;
  CHECK_INT(end(start_worker(&p, "a", "-d host:1 --sign theirs")), 0);
  CHECK_INT(end(start_worker(&p, "b", "-d host:2")), 0);
  CHECK_INT(collected(&p, "all.table"), 2 * SHAPES); // who asks for no trust gets all
  out = kiln(0, "tune --collect %s --trust theirs.pub -o t.table", p.url);
  CHECK_PART(out, "12 results are left out: not signed by a key of --trust");
  free(out);
  char *table = read_file("t.table");
  CHECK_INT(kiln_test_count(table, "\nkernel=k"), SHAPES);
  CHECK_INT(kiln_test_count(table, " units=1 "), SHAPES);
  free(table);
  out = kiln(0, "tune --collect %s --trust ours.pub --trust theirs.pub -o u.table", p.url);
  CHECK_PART(out, "12 results are left out");
  free(out);
  out = kiln(0, "tune --collect %s --trust ours.pub -o v.table", p.url);
  CHECK_PART(out, "24 results are left out");
  free(out);
  // One changed byte of each signed value, and one value under another id.
  CHECK_INT(kiln_test_run(
                &out,
                "r='redis-cli -p %d'; n=0; for k in $($r keys 'kiln:tune-*' | grep -v 'results\\|lease'); do "
                "s=$($r strlen $k); [ \"$($r getrange $k 0 4)\" = 'kiln ' ] || continue; at=$((20 + n * 17 "
                "%% (s - 20))); "
                "b=01; [ $($r getrange $k $at $at | head -c 1 | od -An -tx1) = 01 ] && b=02; "
                "$r setrange $k $at \"$(printf \"\\\\x$b\")\" >/dev/null && n=$((n + 1)); "
                "done; echo $n",
                p.port),
            0);
  CHECK_INT(atoi(out), SHAPES);
  free(out);
  out = kiln(0, "tune --collect %s --trust theirs.pub -o w.table", p.url);
  CHECK_PART(out, "24 results are left out");
  free(out);
}

// A worker that is suspended keeps its leases no longer than a step may take, whatever its helper does.
TEST(tune_worker, a_suspended_worker_is_not_waited_for) {
  place p = begin("0.4");
  pid_t a = start_worker(&p, "a", "-d host:1");
  wait_measured("a", 2);
  kiln_test_run(NULL,
                "for p in $(pgrep -g %d); do grep -aq kiln-remote /proc/$p/cmdline || kill -STOP $p; done",
                (int)a);
  int64_t start = now_ms();
  CHECK_INT(end(start_worker(&p, "b", "-d host:1")), 0);
  int64_t took = now_ms() - start;
  kill(-a, SIGKILL);
  end(a);
  if (took > 120000) FAIL("waited %d ms for a worker that is suspended", (int)took);
  CHECK_INT(collected(&p, "t.table"), SHAPES);
}

// ------------------------------------------------------------------------------- dying at every request

enum { PEERS = 16 };

// Stands between a worker and the server, and lets `left` more requests through.
typedef struct relay {
  int listening, port, server_port;
  int to_worker[PEERS], to_server[PEERS]; // pairs; -1: free
  unsigned left;
} relay;

static relay open_relay(int server_port, unsigned requests) {
  relay r = {.server_port = server_port, .left = requests};
  r.listening = listen_any(&r.port);
  for (unsigned i = 0; i < PEERS; i++) r.to_worker[i] = r.to_server[i] = -1;
  return r;
}

static int connect_to(int port) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  a.sin_port = htons((uint16_t)port);
  CHECK(fd >= 0 && !connect(fd, (struct sockaddr *)&a, sizeof a));
  return fd;
}

static void accept_peer(relay *r) {
  unsigned i = 0;
  while (i < PEERS && r->to_worker[i] >= 0) i++;
  CHECK(i < PEERS);
  r->to_worker[i] = accept(r->listening, NULL, NULL);
  CHECK(r->to_worker[i] >= 0);
  r->to_server[i] = connect_to(r->server_port);
}

static void hang_up(relay *r, unsigned i) {
  close(r->to_worker[i]), close(r->to_server[i]);
  r->to_worker[i] = r->to_server[i] = -1;
}

// What can be read of one side goes to the other. False: the peer is gone.
static bool pass(int from, int to, ssize_t *out_size) {
  char bytes[1 << 16];
  *out_size = recv(from, bytes, sizeof bytes, 0);
  return *out_size > 0 && send(to, bytes, (size_t)*out_size, MSG_NOSIGNAL) == *out_size;
}

// One request of pair `i`: false when it was the last one; the server has done it then, and the worker does
// not know.
static bool pass_request(relay *r, unsigned i) {
  ssize_t size;
  char reply[1 << 16];
  if (!pass(r->to_worker[i], r->to_server[i], &size)) return hang_up(r, i), true;
  if (--r->left) return true;
  CHECK(recv(r->to_server[i], reply, sizeof reply, 0) > 0);
  return false;
}

// Until the worker ends (true) or has sent the last request (false).
static bool relay_until(relay *r, pid_t worker) {
  siginfo_t ended = {0};
  while (!waitid(P_PID, (id_t)worker, &ended, WEXITED | WNOHANG | WNOWAIT) && !ended.si_pid) {
    struct pollfd fds[1 + 2 * PEERS] = {{.fd = r->listening, .events = POLLIN}};
    for (unsigned i = 0; i < PEERS; i++) {
      fds[1 + 2 * i] = (struct pollfd){.fd = r->to_worker[i], .events = POLLIN};
      fds[2 + 2 * i] = (struct pollfd){.fd = r->to_server[i], .events = POLLIN};
    }
    if (poll(fds, sizeof fds / sizeof *fds, 50) <= 0) continue;
    for (unsigned i = 0; i < PEERS; i++) {
      ssize_t size;
      if (fds[2 + 2 * i].revents && !pass(r->to_server[i], r->to_worker[i], &size)) hang_up(r, i);
      else if (fds[1 + 2 * i].revents && !pass_request(r, i)) return false;
    }
    if (fds[0].revents) accept_peer(r);
  }
  return true;
}

static void close_relay(relay *r) {
  for (unsigned i = 0; i < PEERS; i++)
    if (r->to_worker[i] >= 0) hang_up(r, i);
  close(r->listening);
}

// Nothing is lost wherever a worker dies: after each of its requests in turn, the server having done that
// one, another worker finds what is left, and all results are collected.
TEST(tune_worker, a_worker_may_die_after_any_request) {
  enum { FEW = 2 };
  place p = begin("0.01"); // its shapes are many; this job has few
  CHECK_INT(kiln_test_run(NULL, "redis-cli -p %d flushall", p.port), 0);
  kiln_test_put("shapes", "k n={100,200} x=random:n y=zeros:n\n");
  free(
      kiln(0, "tune --post %s --sign ours --judge-limit 0 --budget 0.01 --shapes shapes all.kbundle", p.url));
  bool is_through = false;
  unsigned last = 0;
  for (unsigned requests = 1; !is_through && requests < 200; last = requests++) {
    relay r = open_relay(p.port, requests);
    place by = {.port = r.port};
    snprintf(by.url, sizeof by.url, "redis://127.0.0.1:%d", r.port);
    pid_t a = start_worker(&by, "a", "-d host:1");
    is_through = relay_until(&r, a);
    if (!is_through) kill(-a, SIGKILL);
    end(a);
    close_relay(&r);
    // time goes by, and the leases of the dead one with it
    kiln_test_run(NULL, "redis-cli -p %d keys 'kiln:*:lease' | xargs -r redis-cli -p %d del", p.port, p.port);
    CHECK_INT(end(start_worker(&p, "b", "-d host:1")), 0);
    if (is_through) CHECK_INT(measured("b"), 0);
    unsigned found = collected(&p, "t.table");
    if (found != FEW) FAIL("%u of %d results after a worker died at request %u", found, FEW, requests);
    kiln_test_run(NULL, "rm %s/t.table; redis-cli -p %d keys 'kiln:tune-*' | xargs -r redis-cli -p %d del",
                  kiln_test_folder(), p.port, p.port);
  }
  CHECK(is_through && last > FEW * 4);
}

TEST(tune_worker, mistakes_are_named) {
  static const struct {
    const char *words, *says;
    int code;
  } wrong[] = {
      {"tune --worker redis://x", "expected 1 to 16 keys of --trust, found 0: a worker runs code", 2},
      {"tune --worker redis://x --trust ours.pub all.kbundle", "takes its bundles from jobs", 2},
      {"tune --post redis://x --shapes shapes all.kbundle", "--sign is missing", 2},
      {"tune --collect redis://x", "--collect: --output is missing", 2},
      {"tune --worker http://x --trust ours.pub", "expected redis://HOST[:PORT][/DATABASE]", 1},
      {"tune --worker redis://127.0.0.1:1 --trust ours.pub", "redis://127.0.0.1:1 does not answer", 1},
      {"tune --worker redis://x --trust nobody.pub", "nobody.pub", 1}};
  free(kiln(0, "cache keygen ours"));
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    char *out = kiln(wrong[i].code, "%s", wrong[i].words);
    CHECK_PART(out, wrong[i].says);
    free(out);
  }
}
