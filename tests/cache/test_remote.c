// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the remote level with real servers (nginx with WebDAV, Redis) and with broken ones: the right bytes
// or a miss, and a bounded delay that is paid once. (fault tests 22 to 24; behaviour 35)
#include "tests/cache/servers.h"

enum { ENTRIES = 12 };

/// One machine writes, another reads, then needs the network no more.
static void write_here_read_there(const char *url) {
  const char *folder = kiln_test_folder();
  kiln_key keys[ENTRIES];
  kiln_cache *writer = open_remote(folder, "writer", url, true),
             *reader = open_remote(folder, "reader", url, false);
  for (unsigned i = 0; i < ENTRIES; i++) {
    keys[i] = key_number(i);
    CHECK_INT(get_size(writer, &keys[i], SIZE), 0);
    CHECK_INT(put_size(writer, &keys[i], SIZE), KILN_OK);
  }
  wait_uploaded(writer, ENTRIES);
  for (unsigned i = 0; i < ENTRIES; i++) CHECK_INT(get_size(reader, &keys[i], SIZE), 1);
  CHECK_INT(kiln_cache_counted(reader, KILN_OUTCOME_HIT_REMOTE), ENTRIES);
  for (unsigned i = 0; i < ENTRIES; i++) CHECK_INT(get_size(reader, &keys[i], SIZE), 1);
  CHECK_INT(kiln_cache_counted(reader, KILN_OUTCOME_HIT_LOCAL), ENTRIES);
  CHECK_INT(kiln_cache_counted(reader, KILN_OUTCOME_REMOTE_FAILED), 0);
  char *out;
  kiln_test_run(&out, "find %s/writer/v1/main.default/spool -type f", folder);
  CHECK_TEXT(out, "");
  free(out);
  kiln_cache_close(writer);
  kiln_cache_close(reader);
  for (unsigned i = 0; i < ENTRIES; i++) kiln_key_deinit(&keys[i]);
}

TEST(remote, nginx) {
  char url[64];
  snprintf(url, sizeof url, "http://127.0.0.1:%d", start_nginx(kiln_test_folder()));
  write_here_read_there(url);
}

TEST(remote, redis) {
  char url[64];
  snprintf(url, sizeof url, "redis://127.0.0.1:%d/1", start_redis(kiln_test_folder()));
  write_here_read_there(url);
}

TEST(remote, s3) {
  start_s3();
  write_here_read_there("s3://kernels/some/prefix");
}

/// Of more than a mebibyte libcurl asks first whether it may send it, and does not wait for an answer.
TEST(remote, a_large_entry_goes_to_s3) {
  enum { LARGE = 12 << 20 };
  start_s3();
  kiln_cache *writer = open_remote_within(kiln_test_folder(), "writer", "s3://kernels", true, 20000),
             *reader = open_remote_within(kiln_test_folder(), "reader", "s3://kernels", false, 20000);
  kiln_key key = key_of("a");
  CHECK_INT(put_size(writer, &key, LARGE), KILN_OK);
  wait_uploaded(writer, 1);
  CHECK_INT(get_size(reader, &key, LARGE), 1);
  kiln_cache_close(writer);
  kiln_cache_close(reader);
  kiln_key_deinit(&key);
}

/// Entries of Redis go when the setting says so, and stay without it.
TEST(remote, redis_entries_expire) {
  char url[64], *out;
  int port = start_redis(kiln_test_folder());
  snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
  if (access("/usr/bin/redis-cli", X_OK)) SKIP("redis-cli is not installed");
  for (unsigned i = 0; i < 2; i++) {
    char name[16], hex[KILN_DIGEST_HEX + 1];
    kiln_key key = key_number(i);
    if (i) setenv("KILN_CACHE_REMOTE_EXPIRE_S", "1000", 1);
    snprintf(name, sizeof name, "writer%u", i);
    kiln_cache *writer = open_remote(kiln_test_folder(), name, url, true);
    CHECK_INT(put_size(writer, &key, SIZE), KILN_OK);
    wait_uploaded(writer, 1);
    kiln_cache_close(writer);
    kiln_digest_hex(&key.digest, hex);
    kiln_test_run(&out, "redis-cli -p %d ttl kiln:main:%s", port, hex);
    int left = atoi(out);
    if (i ? left < 900 || left > 1000 : left != -1) FAIL("an entry has %s seconds left", out);
    free(out);
    kiln_key_deinit(&key);
  }
}

TEST(remote, the_second_level_is_asked_when_the_first_is_down) {
  char url[128];
  int port = start_redis(kiln_test_folder());
  snprintf(url, sizeof url, "http://127.0.0.1:%d redis://127.0.0.1:%d", free_port(), port);
  kiln_cache *reader = open_remote(kiln_test_folder(), "reader", url, false);
  snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
  kiln_cache *writer = open_remote(kiln_test_folder(), "writer", url, true);
  kiln_key key = key_of("a");
  put_size(writer, &key, SIZE);
  wait_uploaded(writer, 1);
  CHECK_INT(get_size(reader, &key, SIZE), 1);
  kiln_cache_close(writer);
  kiln_cache_close(reader);
  kiln_key_deinit(&key);
}

// ------------------------------------------------------------------------------- poisoned contents

/// Each command changes the server's files; the reader must refuse what it then gets.
TEST(remote, poison) {
  static const struct {
    const char *what, *command;
  } rows[] = {{"a flipped byte", "for f in */cas/*; do printf X | dd of=$f bs=1 seek=200 conv=notrunc; done"},
              {"truncated entries", "for f in */cas/*; do truncate -s 300 $f; done"},
              {"longer entries", "for f in */cas/*; do echo more >> $f; done"},
              {"empty entries", "for f in */cas/*; do : > $f; done"},
              {"empty actions", "for f in */ac/*; do : > $f; done"},
              {"rubbish actions", "for f in */ac/*; do head -c 500 /dev/urandom > $f; done"},
              {"the action of another key", "set -- main/ac/*; cp $1 t; cp $2 $1; cp t $2"},
              {"entries of a lower domain", "rm -rf main; cp -r pr-1 main"}};
  const char *folder = kiln_test_folder();
  char url[64];
  snprintf(url, sizeof url, "http://127.0.0.1:%d/", start_nginx(folder));
  kiln_key a = key_of("a"), b = key_of("b");
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
    char name[32];
    kiln_test_run(NULL, "rm -rf %s/www/* %s/writer", folder, folder);
    for (unsigned d = 0; d < 2; d++) {
      char root[300], program[300];
      snprintf(root, sizeof root, "%s/writer/%u", folder, d);
      snprintf(program, sizeof program, "%s/bin/kiln-remote", kiln_test_build());
      kiln_cache_config config = config_in(root);
      config.domain = d ? "pr-1" : "main";
      config.remote_program = program;
      config.remote_url = url;
      config.remote_write = true;
      kiln_cache *writer = open_with(&config);
      put_size(writer, &a, SIZE);
      put_size(writer, &b, SIZE);
      wait_uploaded(writer, 2);
      kiln_cache_close(writer);
    }
    CHECK_INT(kiln_test_run(NULL, "cd %s/www && (%s)", folder, rows[i].command), 0);
    snprintf(name, sizeof name, "reader%u", i);
    kiln_cache *reader = open_remote(folder, name, url, false);
    if (get_size(reader, &a, SIZE) || get_size(reader, &b, SIZE)) FAIL("%s: was served", rows[i].what);
    uint64_t refused = kiln_cache_counted(reader, KILN_OUTCOME_REMOTE_REFUSED),
             failed = kiln_cache_counted(reader, KILN_OUTCOME_REMOTE_FAILED);
    if (refused + failed != 2 || !refused)
      FAIL("%s: %d refused, %d failed", rows[i].what, (int)refused, (int)failed);
    CHECK_INT(kiln_cache_counted(reader, KILN_OUTCOME_MISS_ABSENT), 2);
    CHECK(!kiln_cache_contains(reader, &a.digest)); // nothing of it came into the store
    kiln_cache_close(reader);
  }
  kiln_key_deinit(&a);
  kiln_key_deinit(&b);
}

// ------------------------------------------------------------------------------------- bad servers

enum bad {
  STALL,
  SLOW_HEADER,
  SLOW_BODY,
  ERROR_500,
  ERROR_507,
  EMPTY_200,
  ENDLESS,
  REDIRECTS,
  CLOSES,
  HUGE_LENGTH,
  BAD_KINDS
};

static void misbehave(int fd, enum bad how) {
  static const char *const heads[BAD_KINDS] = {
      [ERROR_500] = "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
      [ERROR_507] = "HTTP/1.1 507 Full\r\nContent-Length: 0\r\n\r\n",
      [EMPTY_200] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
      [ENDLESS] = "HTTP/1.1 200 OK\r\n\r\n",
      [CLOSES] = "",
      [REDIRECTS] = "HTTP/1.1 302 Go\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n",
      [HUGE_LENGTH] = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
      [SLOW_BODY] = "HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n"};
  char request[4096];
  if (recv(fd, request, sizeof request, 0) <= 0) return;
  if (heads[how]) send(fd, heads[how], strlen(heads[how]), MSG_NOSIGNAL);
  if (how == STALL) pause_ms(60000);
  for (unsigned n = 0; (how == SLOW_HEADER || how == SLOW_BODY) && n < 3000; n++) {
    if (send(fd, "H", 1, MSG_NOSIGNAL) < 0) return;
    pause_ms(50);
  }
  while (how == ENDLESS || how == HUGE_LENGTH)
    if (send(fd, request, sizeof request, MSG_NOSIGNAL) < 0) return;
}

static int start_bad(enum bad how) {
  int port, listening = listen_any(&port);
  if (!fork_server()) {
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
      int fd = accept(listening, NULL, NULL);
      if (fd < 0) _exit(0);
      if (!fork()) {
        misbehave(fd, how);
        _exit(0);
      }
      close(fd);
    }
  }
  close(listening);
  return port;
}

static uint64_t told_by(const kiln_cache *cache) {
  return kiln_cache_counted(cache, KILN_OUTCOME_REMOTE_FAILED) +
         kiln_cache_counted(cache, KILN_OUTCOME_REMOTE_REFUSED);
}

TEST(remote, bad_servers_cost_a_bounded_delay_once) {
  static const char *const names[BAD_KINDS] = {
      "stalls",       "dribbles its header", "dribbles its body",   "says 500", "says 507",
      "says nothing", "never ends",          "redirects in a loop", "closes",   "lies about its size"};
  const char *folder = kiln_test_folder();
  for (unsigned how = 0; how < BAD_KINDS; how++) {
    char url[64], root[32];
    int port = start_bad((enum bad)how);
    snprintf(root, sizeof root, "reader%u", how);
    for (unsigned scheme = 0; scheme < 2; scheme++) {
      snprintf(url, sizeof url, "%s://127.0.0.1:%d", scheme ? "redis" : "http", port);
      kiln_cache *cache = open_remote(folder, root, url, false);
      int64_t start = now_ms();
      for (unsigned i = 0; i < 20; i++) {
        kiln_key key = key_number(i);
        CHECK_INT(get_size(cache, &key, SIZE), 0);
        kiln_key_deinit(&key);
      }
      uint64_t told = told_by(cache);
      kiln_cache_close(cache);
      cache = open_remote(folder, root, url, false); // another process of the same build
      for (unsigned i = 0; i < 20; i++) {
        kiln_key key = key_number(i);
        CHECK_INT(get_size(cache, &key, SIZE), 0);
        kiln_key_deinit(&key);
      }
      int64_t took = now_ms() - start;
      told += told_by(cache);
      kiln_cache_close(cache);
      if (took > ONCE_MS) FAIL("a server that %s cost %d ms, allowed are %d", names[how], (int)took, ONCE_MS);
      if (!told) FAIL("a server that %s is not counted", names[how]);
    }
    stop();
  }
}

TEST(remote, a_server_that_is_down_or_a_helper_that_is_missing) {
  const char *folder = kiln_test_folder();
  char url[64], root[300];
  kiln_key key = key_of("a");
  snprintf(url, sizeof url, "http://127.0.0.1:%d", free_port());
  kiln_cache *cache = open_remote(folder, "a", url, true);
  int64_t start = now_ms();
  for (unsigned i = 0; i < 50; i++) CHECK_INT(get_size(cache, &key, SIZE), 0);
  CHECK(now_ms() - start < 1000 * KILN_TEST_PATIENCE);
  CHECK(kiln_cache_counted(cache, KILN_OUTCOME_REMOTE_FAILED) >= 1);
  CHECK(kiln_cache_counted(cache, KILN_OUTCOME_REMOTE_SKIPPED) >= 40); // the breaker
  CHECK_INT(put_size(cache, &key, SIZE), KILN_OK);
  CHECK_INT(get_size(cache, &key, SIZE), 1);
  kiln_cache_close(cache);
  // The next build finds in a file that the server failed, and asks it nothing.
  kiln_key other = key_of("b");
  cache = open_remote(folder, "a", url, true);
  CHECK_INT(get_size(cache, &other, SIZE), 0);
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_REMOTE_FAILED), 0);
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_REMOTE_SKIPPED), 1);
  kiln_cache_close(cache);
  kiln_key_deinit(&other);
  snprintf(root, sizeof root, "%s/b", folder);
  kiln_cache_config config = config_in(root);
  config.remote_program = "/nonexistent/kiln-remote";
  config.remote_url = url;
  config.remote_write = true;
  cache = open_with(&config);
  CHECK_INT(get_size(cache, &key, SIZE), 0);
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_REMOTE_FAILED), 1);
  CHECK_INT(put_size(cache, &key, SIZE), KILN_OK);
  CHECK_INT(get_size(cache, &key, SIZE), 1);
  kiln_cache_close(cache);
  kiln_key_deinit(&key);
}

/// Twenty look-ups in each of two processes of one build, while the server is as it is; what they cost.
static int64_t cost_of_misses(const char *name, const char *url, uint64_t *out_told) {
  int64_t start = now_ms();
  *out_told = 0;
  for (unsigned process = 0; process < 2; process++) {
    kiln_cache *cache = open_remote(kiln_test_folder(), name, url, false);
    for (unsigned i = 100; i < 120; i++) {
      kiln_key key = key_number(i);
      CHECK_INT(get_size(cache, &key, SIZE), 0);
      kiln_key_deinit(&key);
    }
    *out_told += told_by(cache);
    kiln_cache_close(cache);
  }
  return now_ms() - start;
}

/// Real servers, in the middle of a build: stopped (SIGSTOP: connections are taken and nothing comes) and
/// killed.
static void server_goes(const char *url) {
  static const int signals[] = {SIGSTOP, SIGKILL};
  for (unsigned i = 0; i < 2; i++) {
    uint64_t told;
    char name[32], beside[32];
    kiln_key key = key_number(i);
    snprintf(name, sizeof name, "before%u", i);
    snprintf(beside, sizeof beside, "after%u", i);
    kiln_cache *writer = open_remote(kiln_test_folder(), name, url, true);
    put_size(writer, &key, SIZE);
    wait_uploaded(writer, 1);
    kill(server, signals[i]);
    if (signals[i] == SIGKILL) waitpid(server, NULL, 0), server = 0;
    int64_t start = now_ms();
    for (unsigned n = 200; n < 210; n++) { // the same process goes on, with connections that were good
      kiln_key other = key_number(n);
      CHECK_INT(get_size(writer, &other, SIZE), 0);
      put_size(writer, &other, SIZE);
      CHECK_INT(get_size(writer, &other, SIZE), 1);
      kiln_key_deinit(&other);
    }
    int64_t took = now_ms() - start;
    if (took > ONCE_MS)
      FAIL("%s after signal %d: %d ms, allowed are %d", url, signals[i], (int)took, ONCE_MS);
    took = cost_of_misses(beside, url, &told);
    if (took > ONCE_MS) FAIL("%s after signal %d, new processes: %d ms", url, signals[i], (int)took);
    if (!told) FAIL("%s after signal %d: not counted", url, signals[i]);
    if (server) kill(server, SIGCONT);
    kiln_cache_close(writer);
    kiln_key_deinit(&key);
  }
}

TEST(remote, nginx_stops_and_dies) {
  char url[64];
  snprintf(url, sizeof url, "http://127.0.0.1:%d", start_nginx(kiln_test_folder()));
  server_goes(url);
}

TEST(remote, redis_stops_and_dies) {
  char url[64];
  snprintf(url, sizeof url, "redis://127.0.0.1:%d", start_redis(kiln_test_folder()));
  server_goes(url);
}

/// A listening socket whose queue is full: the kernel drops what would connect, as a firewall does.
TEST(remote, a_black_hole_costs_its_deadline_once) {
  enum { FILLERS = 8 };
  int port, fd = listen_any(&port), fillers[FILLERS];
  struct sockaddr_in a = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  CHECK(!listen(fd, 0));
  for (unsigned i = 0; i < FILLERS; i++) {
    fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    connect(fillers[i], (struct sockaddr *)&a, sizeof a);
  }
  pause_ms(50);
  for (unsigned scheme = 0; scheme < 2; scheme++) {
    char url[64], name[16];
    uint64_t told;
    snprintf(url, sizeof url, "%s://127.0.0.1:%d", scheme ? "redis" : "http", port);
    snprintf(name, sizeof name, "hole%u", scheme);
    int64_t took = cost_of_misses(name, url, &told);
    if (took > ONCE_MS) FAIL("%s: %d ms, allowed are %d", url, (int)took, ONCE_MS);
    if (took < DEADLINE_MS / 2) FAIL("%s: %d ms: the hole is none", url, (int)took);
    CHECK(told > 0);
  }
  for (unsigned i = 0; i < FILLERS; i++) close(fillers[i]);
  close(fd);
}

/// TLS by a certificate of our own: without its authority a connection is refused before a byte of ours is
/// sent; with it everything works.
TEST(remote, tls) {
  const char *folder = kiln_test_folder();
  char url[64], *out;
  uint64_t told;
  if (access("/usr/bin/openssl", X_OK)) SKIP("openssl, which makes the certificate, is not installed");
  if (kiln_test_run(&out,
                    "cd %s && openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days "
                    "2 -subj /CN=localhost "
                    "-addext subjectAltName=IP:127.0.0.1",
                    folder))
    FAIL("%s", out);
  free(out);
  int port = start_nginx_tls(folder);
  snprintf(url, sizeof url, "https://127.0.0.1:%d", port);
  unsetenv("KILN_CACHE_REMOTE_CA");
  int64_t took = cost_of_misses("untrusting", url, &told);
  if (took > ONCE_MS) FAIL("a certificate that is not trusted cost %d ms", (int)took);
  CHECK(told > 0);
  kiln_test_run(&out, "cat %s/nginx.log", folder);
  CHECK(!strstr(out, "ac/")); // no request got through
  free(out);
  char ca[300];
  snprintf(ca, sizeof ca, "%s/cert.pem", folder);
  setenv("KILN_CACHE_REMOTE_CA", ca, 1);
  write_here_read_there(url);
}

// ------------------------------------------------------------------------------ many look-ups at once

enum { FAR_MS = 300 };

/// Answers one request after another from the files under `folder`/www, each after FAR_MS.
static void answer_from_afar(int fd, const char *folder) {
  char request[4096], path[512];
  for (;;) {
    size_t size = 0;
    while (size < sizeof request - 1 && !memmem(request, size, "\r\n\r\n", 4)) {
      ssize_t got = recv(fd, request + size, sizeof request - 1 - size, 0);
      if (got <= 0) return;
      size += (size_t)got;
    }
    request[size] = 0;
    pause_ms(FAR_MS);
    snprintf(path, sizeof path, "%s/www%.300s", folder, request + strlen("GET "));
    path[strcspn(path, " ")] = 0;
    int file = open(path, O_RDONLY);
    struct stat st = {0};
    if (file >= 0) fstat(file, &st);
    char *body = malloc((size_t)st.st_size + 200);
    int head = sprintf(body, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n", file < 0 ? "404 No" : "200 OK",
                       (int)st.st_size);
    if (file >= 0 && read(file, body + head, (size_t)st.st_size) != st.st_size) return;
    bool sent = send(fd, body, (size_t)head + (size_t)st.st_size, MSG_NOSIGNAL) > 0;
    if (file >= 0) close(file);
    free(body);
    if (!sent) return;
  }
}

static int start_far(const char *folder) {
  int port, listening = listen_any(&port);
  if (fork_server()) {
    close(listening);
    return port;
  }
  signal(SIGCHLD, SIG_IGN);
  for (;;) {
    int fd = accept(listening, NULL, NULL);
    if (fd < 0) _exit(0);
    if (!fork()) {
      answer_from_afar(fd, folder);
      _exit(0);
    }
    close(fd);
  }
}

struct arrivals {
  const kiln_key *const *keys;
  unsigned count[2 * ENTRIES];
};

static void arrive(void *context, size_t index, kiln_cache_entry *entry) {
  struct arrivals *a = context;
  CHECK(index < 2 * ENTRIES && right_bytes(a->keys[index], entry, SIZE));
  a->count[index]++;
  kiln_cache_entry_deinit(entry);
}

/// A server 300 ms away costs a build two journeys (the action, the entry), not two for each object.
TEST(remote, many_keys_take_as_long_as_one) {
  const char *folder = kiln_test_folder();
  char url[64];
  kiln_key keys[2 * ENTRIES];
  const kiln_key *list[2 * ENTRIES];
  snprintf(url, sizeof url, "http://127.0.0.1:%d", start_nginx(folder));
  kiln_cache *writer = open_remote(folder, "writer", url, true);
  for (unsigned i = 0; i < 2 * ENTRIES; i++) {
    keys[i] = key_number(i);
    list[i] = &keys[i];
    if (i % 2) continue; // half of them nobody has
    CHECK_INT(put_size(writer, &keys[i], SIZE), KILN_OK);
  }
  wait_uploaded(writer, ENTRIES);
  kiln_cache_close(writer);
  stop();
  char root[300], program[300];
  snprintf(root, sizeof root, "%s/reader", folder);
  snprintf(program, sizeof program, "%s/bin/kiln-remote", kiln_test_build());
  snprintf(url, sizeof url, "http://127.0.0.1:%d", start_far(folder));
  kiln_cache_config config = config_in(root);
  config.remote_program = program;
  config.remote_url = url;
  config.remote_ms = 5000;
  kiln_cache *reader = open_with(&config);
  struct arrivals arrived = {.keys = list};
  int64_t start = now_ms();
  kiln_cache_get_many(reader, list, 2 * ENTRIES, arrive, &arrived);
  int64_t took = now_ms() - start;
  for (unsigned i = 0; i < 2 * ENTRIES; i++) CHECK_INT(arrived.count[i], i % 2 == 0);
  if (took < 2 * FAR_MS || took > 1000 * KILN_TEST_PATIENCE)
    FAIL("%d look-ups took %d ms", 2 * ENTRIES, (int)took);
  CHECK_INT(kiln_cache_counted(reader, KILN_OUTCOME_HIT_REMOTE), ENTRIES);
  CHECK_INT(kiln_cache_counted(reader, KILN_OUTCOME_MISS_ABSENT), ENTRIES);
  CHECK_INT(kiln_cache_counted(reader, KILN_OUTCOME_REMOTE_FAILED), 0);
  memset(arrived.count, 0, sizeof arrived.count);
  stop(); // what came is here now
  kiln_cache_get_many(reader, list, ENTRIES, arrive, &arrived);
  for (unsigned i = 0; i < ENTRIES; i++) CHECK_INT(arrived.count[i], i % 2 == 0);
  kiln_cache_close(reader);
  for (unsigned i = 0; i < 2 * ENTRIES; i++) kiln_key_deinit(&keys[i]);
}

/// Entries that cannot be uploaded make room like others, the oldest first, and are counted.
TEST(remote, limits_hold_while_the_remote_side_is_down) {
  enum { PUT = 60, MOST = 10 };
  const char *folder = kiln_test_folder();
  char url[64], root[300], program[300], *out;
  snprintf(url, sizeof url, "http://127.0.0.1:%d", free_port());
  snprintf(root, sizeof root, "%s/writer", folder);
  snprintf(program, sizeof program, "%s/bin/kiln-remote", kiln_test_build());
  kiln_cache_config config = config_in(root);
  config.remote_program = program;
  config.remote_url = url;
  config.remote_ms = DEADLINE_MS;
  config.remote_write = true;
  config.max_files = MOST;
  kiln_cache *writer = open_with(&config);
  for (unsigned i = 0; i < PUT; i++) {
    kiln_key key = key_number(i);
    CHECK_INT(put_size(writer, &key, SIZE), KILN_OK);
    kiln_key_deinit(&key);
  }
  kiln_cache_step(writer);
  kiln_test_run(&out, "cd %s/v1/main.default && find entries -type f | wc -l; find spool -type f | wc -l",
                root);
  int entries, spooled;
  CHECK(sscanf(out, "%d %d", &entries, &spooled) == 2);
  if (entries > MOST || spooled != entries || entries < MOST / 2)
    FAIL("%d entries and %d uploads are left, the limit is %d", entries, spooled, MOST);
  free(out);
  CHECK_INT(kiln_cache_counted(writer, KILN_OUTCOME_REMOTE_DROPPED), PUT - entries);
  CHECK_INT(kiln_cache_counted(writer, KILN_OUTCOME_EVICTED), PUT - entries);
  kiln_cache_close(writer);
}

/// Answers one request of each connection, and closes it when the next one comes.
static int start_restless(void) {
  int port, listening = listen_any(&port);
  if (!fork_server()) {
    for (;;) {
      char request[4096];
      int fd = accept(listening, NULL, NULL);
      if (fd < 0) _exit(0);
      for (unsigned n = 0; recv(fd, request, sizeof request, 0) > 0 && !n; n++) {
        const char *answer = *request == 'P' ? "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"
                                             : "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
        send(fd, answer, strlen(answer), MSG_NOSIGNAL);
      }
      close(fd);
    }
  }
  close(listening);
  return port;
}

/// The doctor names each remote cache that does not do what the settings want, and why: a look-up and, where builds
/// upload, an upload.
TEST(remote, the_doctor_asks_each_server) {
  unsetenv("KILN_CACHE_REMOTE_CA"); // of a test before, where all run in one process
  enum {
    REFUSED,
    HTTP,
    UP,
    SMALL,
    OTHER,
    RESTLESS,
    REDIS,
    REDIS_UP,
    PASSWORD,
    DENIED,
    FULL,
    ERROR,
    ADDRESS,
    ROWS
  };
  static const char forgetful[] = "; location /main/cas/ { dav_methods PUT; create_full_put_path on; "
                                  "if ($request_method = GET) { return 200 other; } } keepalive_timeout 60";
  const char *folder = kiln_test_folder();
  if (access("/usr/bin/redis-cli", X_OK)) SKIP("redis-cli is not installed");
  static const struct {
    const char *scheme, *token, *want, *set; ///< `set`: what Redis is set to first
    bool write;
  } rows[ROWS] = {
      [REFUSED] = {"http", "", "BAD  remote cache: http://127.0.0.1:%d: Could", "", false},
      [HTTP] =
          {"http", "",
           "ok   remote cache: http://127.0.0.1:%d: answers; uploads are off (KILN_CACHE_REMOTE_WRITE)\n", "",
           false},
      [UP] = {"http", "",
              "ok   remote cache: http://127.0.0.1:%d: answers, takes an upload and gives it back\n", "",
              true},
      [SMALL] =
          {"http", "",
           "BAD  remote cache: http://127.0.0.1:%d: answers, but an upload fails: status 413: it takes no "
           "bodies of that size\n",
           "", true},
      [OTHER] =
          {"http", "",
           "BAD  remote cache: http://127.0.0.1:%d: takes an upload, but does not give it back: it gives "
           "other bytes\n",
           "", true},
      [RESTLESS] =
          {"http", "",
           "BAD  remote cache: http://127.0.0.1:%d: takes an upload, but does not give it back: status "
           "404: it is not there\n",
           "", true},
      [REDIS] =
          {"redis", "",
           "ok   remote cache: redis://127.0.0.1:%d: answers; uploads are off (KILN_CACHE_REMOTE_WRITE)\n",
           "", false},
      [REDIS_UP] = {"redis", "",
                    "ok   remote cache: redis://127.0.0.1:%d: answers, takes an upload and gives it back\n",
                    "", true},
      [PASSWORD] = {"redis", "wrong", "BAD  remote cache: redis://127.0.0.1:%d: WRONGPASS",
                    "requirepass right", true},
      [DENIED] = {"redis", "", "BAD  remote cache: redis://127.0.0.1:%d: NOAUTH", "requirepass right", false},
      [FULL] = {"redis", "", "BAD  remote cache: redis://127.0.0.1:%d: answers, but an upload fails: OOM",
                "maxmemory 1", true},
      [ERROR] = {"http", "", "BAD  remote cache: http://127.0.0.1:%d: status 500: the server is at fault\n",
                 "", true},
      [ADDRESS] = {"", "", "BAD  remote caches: KILN_CACHE_REMOTE: not: expected http://", "", false}};
  for (unsigned i = 0; i < ROWS; i++) {
    char want[160], url[64] = "not a url", *out;
    int port = i == REFUSED || i == ADDRESS ? free_port()
               : i == HTTP || i == UP       ? start_nginx(folder)
               : i == SMALL                 ? start_nginx_with(folder, "", "10")
               : i == RESTLESS              ? start_restless()
               : i == ERROR                 ? start_bad(ERROR_500)
               : i == OTHER                 ? start_nginx_with(folder, forgetful, "1m")
                                            : start_redis(folder);
    if (*rows[i].set) CHECK_INT(kiln_test_run(NULL, "redis-cli -p %d config set %s", port, rows[i].set), 0);
    if (i != ADDRESS) snprintf(url, sizeof url, "%s://127.0.0.1:%d", rows[i].scheme, port);
    snprintf(want, sizeof want, rows[i].want, port);
    int code = kiln_test_run(&out,
                             "KILN_CACHE_DIR=%s/cache KILN_CACHE_REMOTE='%s' KILN_CACHE_REMOTE_TOKEN=%s "
                             "KILN_CACHE_REMOTE_WRITE=%d "
                             "%s/bin/kiln cache doctor",
                             folder, url, rows[i].token, rows[i].write, kiln_test_build());
    if (!strstr(out, want) || code != (strncmp(want, "ok", 2) != 0))
      FAIL("%s: exit code %d, without \"%s\":\n%s", url, code, want, out);
    free(out);
    stop();
  }
}
