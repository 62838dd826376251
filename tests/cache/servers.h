// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Real servers on loopback for the tests of the remote level: nginx with WebDAV, Redis; one a test.
#ifndef KILN_TESTS_CACHE_SERVERS_H
#define KILN_TESTS_CACHE_SERVERS_H

#include "tests/cache/common.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cache/admin.h"

/// ONCE_MS is more than one deadline costs on a busy machine, and far less than one for each of many
/// requests.
enum { SIZE = 9000, DEADLINE_MS = 400, ONCE_MS = 10 * DEADLINE_MS + 1000 * (KILN_TEST_PATIENCE - 1) };

static pid_t server; // of the running test

/// A command in a process group of its own, which a test can kill as a whole. Its end stops no server.
static inline pid_t start_shell(const char *command) {
  pid_t pid = fork();
  if (!pid) {
    server = 0;
    setpgid(0, 0);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
  }
  return pid;
}

static inline void stop(void) {
  if (server > 0) {
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
  }
  server = 0;
}

/// Starts the test's server, 0 in it. It ends with the test's process, however that ends: who reads the
/// test's output would wait for a server that is left.
static inline pid_t fork_server(void) {
  pid_t parent = getpid();
  server = fork();
  if (!server && (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)) _exit(127);
  return server;
}

static inline void pause_ms(unsigned ms) {
  nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

static inline int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/// A bound and listening socket on loopback; its port.
static inline int listen_any(int *out_port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof a;
  CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&a, sizeof a) && !listen(fd, 64) &&
        !getsockname(fd, (struct sockaddr *)&a, &size));
  *out_port = ntohs(a.sin_port);
  return fd;
}

static inline int free_port(void) {
  int port, fd = listen_any(&port);
  close(fd);
  return port;
}

static inline bool answers(int port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in a = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  bool yes = !connect(fd, (struct sockaddr *)&a, sizeof a);
  close(fd);
  return yes;
}

static inline void start(int port, char *const argv[]) {
  if (!fork_server()) {
    int null = open("/dev/null", O_RDWR);
    dup2(null, 1);
    dup2(null, 2);
    execvp(argv[0], argv);
    _exit(127);
  }
  for (unsigned n = 0; !answers(port); n++) {
    int status;
    if (n > 500 || waitpid(server, &status, WNOHANG) == server) FAIL("%s does not start", argv[0]);
    pause_ms(10);
  }
}

/// nginx as a WebDAV store of files under FOLDER/www; `tls`: of its listening line; `body`: the largest it
/// takes.
static inline int start_nginx_with(const char *folder, const char *tls, const char *body) {
  static const char module[] = "/usr/lib/nginx/modules/ngx_http_dav_ext_module.so";
  char conf[300], text[2000];
  int port = free_port();
  if (access("/usr/sbin/nginx", X_OK) || access(module, R_OK)) SKIP("nginx with WebDAV is not installed");
  snprintf(conf, sizeof conf, "%s/nginx.conf", folder);
  snprintf(text, sizeof text,
           "%sdaemon off; master_process off; pid %s/nginx.pid; error_log %s/nginx.log;\nevents {}\nhttp { "
           "access_log off;\n"
           " client_body_temp_path %s/body; proxy_temp_path %s/p; fastcgi_temp_path %s/f; uwsgi_temp_path "
           "%s/u; scgi_temp_path %s/s;\n"
           " client_max_body_size %s;\n"
           " server { listen 127.0.0.1:%d %s; root %s/www; location / { dav_methods PUT DELETE; "
           "create_full_put_path on; } } }\n",
           geteuid() ? "" : "user root; ", folder, folder, folder, folder, folder, folder, folder, body, port,
           tls, folder);
  kiln_test_write(conf, text, strlen(text));
  kiln_test_run(NULL, "mkdir -p %s/www", folder);
  start(port, (char *[]){"/usr/sbin/nginx", "-c", conf, "-p", (char *)folder, NULL});
  return port;
}

static inline int start_nginx(const char *folder) { return start_nginx_with(folder, "", "100m"); }

/// With FOLDER/cert.pem and FOLDER/key.pem.
static inline int start_nginx_tls(const char *folder) {
  char text[700];
  snprintf(text, sizeof text, "ssl; ssl_certificate %s/cert.pem; ssl_certificate_key %s/key.pem", folder,
           folder);
  return start_nginx_with(folder, text, "100m");
}

static inline int start_redis(const char *folder) {
  char number[16];
  int port = free_port();
  if (access("/usr/bin/redis-server", X_OK)) SKIP("redis-server is not installed");
  snprintf(number, sizeof number, "%d", port);
  start(port, (char *[]){"/usr/bin/redis-server", "--port", number, "--bind", "127.0.0.1", "--save", "",
                         "--dir", (char *)folder, NULL});
  return port;
}

/// A server that speaks as S3 does, with the bucket "kernels", and the settings that lead to it.
static inline void start_s3(void) {
  char number[16], url[64];
  int port = free_port();
  snprintf(number, sizeof number, "%d", port);
  snprintf(url, sizeof url, "http://127.0.0.1:%d", port);
  if (access("/usr/bin/python3", X_OK)) SKIP("python3 is not installed");
  start(port, (char *[]){"/usr/bin/python3", "-B", "tests/python/s3_server.py", number, NULL});
  setenv("KILN_CACHE_S3_ENDPOINT", url, 1);
  setenv("KILN_CACHE_S3_KEY", "AKIAEXAMPLE", 1);
  setenv("KILN_CACHE_S3_SECRET", "se/cr+et=EXAMPLE", 1);
}

static inline kiln_cache *open_remote_within(const char *folder, const char *name, const char *url,
                                             bool write, uint32_t deadline_ms) {
  static char program[300];
  char root[300];
  snprintf(program, sizeof program, "%s/bin/kiln-remote", kiln_test_build());
  if (access(program, X_OK)) SKIP("%s is not built", program);
  snprintf(root, sizeof root, "%s/%s", folder, name);
  kiln_cache_config config = config_in(root);
  config.remote_program = program;
  config.remote_url = url;
  config.remote_ms = deadline_ms;
  config.remote_write = write;
  return open_with(&config);
}

static inline kiln_cache *open_remote(const char *folder, const char *name, const char *url, bool write) {
  return open_remote_within(folder, name, url, write, DEADLINE_MS);
}

static inline uint64_t in_stats(kiln_cache *cache, kiln_outcome outcome) {
  kiln_stats_sum sum;
  kiln_stats_read(kiln_cache_store(cache), &sum);
  return sum.count[outcome];
}

static inline void wait_uploaded(kiln_cache *cache, uint64_t count) {
  for (unsigned n = 0; in_stats(cache, KILN_OUTCOME_REMOTE_STORED) < count; n++) {
    if (n > 6000)
      FAIL("%d of %d entries were uploaded in a minute", (int)in_stats(cache, KILN_OUTCOME_REMOTE_STORED),
           (int)count);
    pause_ms(10);
  }
}

#endif
