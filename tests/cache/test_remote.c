// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The remote level against real servers (nginx with WebDAV, Redis) and against bad ones: right bytes or a miss, a bounded delay that is paid once.
// (fault tests 22 to 24; behaviour 35)
#include "tests/cache/common.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cache/admin.h"

enum { SIZE = 9000, DEADLINE_MS = 400 };

static pid_t server; // of the running test

static void stop(void) {
  if (server > 0) {
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
  }
  server = 0;
}

static void pause_ms(unsigned ms) { nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL); }

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/// A bound and listening socket on loopback; its port.
static int listen_any(int *out_port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof a;
  CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&a, sizeof a) && !listen(fd, 64) && !getsockname(fd, (struct sockaddr *)&a, &size));
  *out_port = ntohs(a.sin_port);
  return fd;
}

static int free_port(void) {
  int port, fd = listen_any(&port);
  close(fd);
  return port;
}

static bool answers(int port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  bool yes = !connect(fd, (struct sockaddr *)&a, sizeof a);
  close(fd);
  return yes;
}

static void start(int port, char *const argv[]) {
  server = fork();
  if (!server) {
    int null = open("/dev/null", O_RDWR);
    dup2(null, 1);
    dup2(null, 2);
    execvp(argv[0], argv);
    _exit(127);
  }
  atexit(stop);
  for (unsigned n = 0; !answers(port); n++) {
    int status;
    if (n > 500 || waitpid(server, &status, WNOHANG) == server) FAIL("%s does not start", argv[0]);
    pause_ms(10);
  }
}

/// nginx as a WebDAV store of files under FOLDER/www.
static int start_nginx(const char *folder) {
  static const char module[] = "/usr/lib/nginx/modules/ngx_http_dav_ext_module.so";
  char conf[300], text[2000];
  int port = free_port();
  if (access("/usr/sbin/nginx", X_OK) || access(module, R_OK)) SKIP("nginx with WebDAV is not installed");
  snprintf(conf, sizeof conf, "%s/nginx.conf", folder);
  snprintf(text, sizeof text,
           "%sdaemon off; master_process off; pid %s/nginx.pid; error_log %s/nginx.log;\nevents {}\nhttp { access_log off;\n"
           " client_body_temp_path %s/body; proxy_temp_path %s/p; fastcgi_temp_path %s/f; uwsgi_temp_path %s/u; scgi_temp_path %s/s;\n"
           " client_max_body_size 100m;\n"
           " server { listen 127.0.0.1:%d; root %s/www; location / { dav_methods PUT DELETE; create_full_put_path on; } } }\n",
           geteuid() ? "" : "user root; ", folder, folder, folder, folder, folder, folder, folder, port, folder);
  kiln_test_write(conf, text, strlen(text));
  kiln_test_run(NULL, "mkdir -p %s/www", folder);
  start(port, (char *[]){"/usr/sbin/nginx", "-c", conf, "-p", (char *)folder, NULL});
  return port;
}

static int start_redis(const char *folder) {
  char number[16];
  int port = free_port();
  if (access("/usr/bin/redis-server", X_OK)) SKIP("redis-server is not installed");
  snprintf(number, sizeof number, "%d", port);
  start(port, (char *[]){"/usr/bin/redis-server", "--port", number, "--bind", "127.0.0.1", "--save", "", "--dir", (char *)folder, NULL});
  return port;
}

static kiln_cache *open_remote(const char *folder, const char *name, const char *url, bool write) {
  static char program[300];
  char root[300];
  snprintf(program, sizeof program, "%s/bin/kiln-remote", kiln_test_build());
  if (access(program, X_OK)) SKIP("%s is not built", program);
  snprintf(root, sizeof root, "%s/%s", folder, name);
  kiln_cache_config config = config_in(root);
  config.remote_program = program;
  config.remote_url = url;
  config.remote_ms = DEADLINE_MS;
  config.remote_write = write;
  return open_with(&config);
}

static uint64_t in_stats(kiln_cache *cache, kiln_outcome outcome) {
  kiln_stats_sum sum;
  kiln_stats_read(kiln_cache_store(cache), &sum);
  return sum.count[outcome];
}

static void wait_uploaded(kiln_cache *cache, uint64_t count) {
  for (unsigned n = 0; in_stats(cache, KILN_OUTCOME_REMOTE_STORED) < count; n++) {
    if (n > 1000) FAIL("%d of %d entries were uploaded in 10 s", (int)in_stats(cache, KILN_OUTCOME_REMOTE_STORED), (int)count);
    pause_ms(10);
  }
}

enum { ENTRIES = 12 };

/// One machine writes, another reads, then needs the network no more.
static void write_here_read_there(const char *url) {
  const char *folder = kiln_test_folder();
  kiln_key keys[ENTRIES];
  kiln_cache *writer = open_remote(folder, "writer", url, true), *reader = open_remote(folder, "reader", url, false);
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
  kiln_test_run(&out, "ls %s/writer/v1/main.default/spool", folder);
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

// ------------------------------------------------------------------------------------------------------- poisoned contents

/// Each command changes the server's files; the reader must refuse what it then gets.
TEST(remote, poison) {
  static const struct { const char *what, *command; } rows[] = {
      {"a flipped byte", "for f in */cas/*; do printf X | dd of=$f bs=1 seek=200 conv=notrunc; done"},
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
    uint64_t refused = kiln_cache_counted(reader, KILN_OUTCOME_REMOTE_REFUSED), failed = kiln_cache_counted(reader, KILN_OUTCOME_REMOTE_FAILED);
    if (refused + failed != 2 || !refused) FAIL("%s: %d refused, %d failed", rows[i].what, (int)refused, (int)failed);
    CHECK_INT(kiln_cache_counted(reader, KILN_OUTCOME_MISS_ABSENT), 2);
    CHECK(!kiln_cache_contains(reader, &a.digest)); // nothing of it came into the store
    kiln_cache_close(reader);
  }
  kiln_key_deinit(&a);
  kiln_key_deinit(&b);
}

// ------------------------------------------------------------------------------------------------------------- bad servers

enum bad { STALL, SLOW_HEADER, SLOW_BODY, ERROR_500, ERROR_507, EMPTY_200, ENDLESS, REDIRECTS, CLOSES, HUGE_LENGTH, BAD_KINDS };

static void misbehave(int fd, enum bad how) {
  static const char *const heads[BAD_KINDS] = {
      [ERROR_500] = "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", [ERROR_507] = "HTTP/1.1 507 Full\r\nContent-Length: 0\r\n\r\n",
      [EMPTY_200] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", [ENDLESS] = "HTTP/1.1 200 OK\r\n\r\n", [CLOSES] = "",
      [REDIRECTS] = "HTTP/1.1 302 Go\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n",
      [HUGE_LENGTH] = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", [SLOW_BODY] = "HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n"};
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
  server = fork();
  if (!server) {
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
  atexit(stop);
  return port;
}

static uint64_t told_by(const kiln_cache *cache) {
  return kiln_cache_counted(cache, KILN_OUTCOME_REMOTE_FAILED) + kiln_cache_counted(cache, KILN_OUTCOME_REMOTE_REFUSED);
}

TEST(remote, bad_servers_cost_a_bounded_delay_once) {
  static const char *const names[BAD_KINDS] = {"stalls",        "dribbles its header", "dribbles its body", "says 500",        "says 507",
                                               "says nothing",  "never ends",          "redirects in a loop", "closes",        "lies about its size"};
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
      if (took > 3 * DEADLINE_MS) FAIL("a server that %s cost %d ms, allowed are %d", names[how], (int)took, 3 * DEADLINE_MS);
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
  CHECK(now_ms() - start < 1000);
  CHECK(kiln_cache_counted(cache, KILN_OUTCOME_REMOTE_FAILED) >= 1);
  CHECK(kiln_cache_counted(cache, KILN_OUTCOME_REMOTE_SKIPPED) >= 40); // the breaker
  CHECK_INT(put_size(cache, &key, SIZE), KILN_OK);
  CHECK_INT(get_size(cache, &key, SIZE), 1);
  kiln_cache_close(cache);
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

/// Uploads that could not be made wait in the spool and go out with the next build.
TEST(remote, interrupted_uploads_go_on) {
  const char *folder = kiln_test_folder();
  char url[64];
  kiln_key key = key_of("a");
  int port = free_port();
  snprintf(url, sizeof url, "http://127.0.0.1:%d", port);
  kiln_cache *writer = open_remote(folder, "writer", url, true);
  put_size(writer, &key, SIZE);
  kiln_cache_close(writer);
  pause_ms(300);
  char *out;
  kiln_test_run(&out, "ls %s/writer/v1/main.default/spool | wc -l; rm -f %s/writer/v1/main.default/breaker-*", folder, folder);
  CHECK_TEXT(out, "1\n");
  free(out);
  snprintf(url, sizeof url, "redis://127.0.0.1:%d", start_redis(folder));
  writer = open_remote(folder, "writer", url, true);
  kiln_key other = key_of("b");
  put_size(writer, &other, SIZE);
  wait_uploaded(writer, 2);
  kiln_cache_close(writer);
  kiln_key_deinit(&key);
  kiln_key_deinit(&other);
}
