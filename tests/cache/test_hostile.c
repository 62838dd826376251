// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests malicious servers, and what must neither reach them nor leave the process: the memory that a reply
// may take, redirects away from TLS, certificates, passwords.
#include "tests/cache/servers.h"

#include <dirent.h>

enum { KEYS = 12, MOST_MIB = 48 };

// ------------------------------------------------------------------------------------------- floods

typedef struct flood {
  const char *scheme, *head, *piece; ///< the piece is sent without end; NULL: 8 MiB of A
  unsigned megabytes;                ///< 0: without end
} flood;

static void pour(int fd, const flood *f) {
  static char big[8 << 20], request[1 << 16];
  size_t size = f->piece ? strlen(f->piece) : 1, filled = sizeof big / size * size;
  for (size_t i = 0; i < filled; i++) big[i] = f->piece ? f->piece[i % size] : 'A';
  while (recv(fd, request, sizeof request, 0) > 0) {
    if (send(fd, f->head, strlen(f->head), MSG_NOSIGNAL) < 0) return;
    for (unsigned n = 0; !f->megabytes || n < f->megabytes; n += 8)
      if (send(fd, big, filled, MSG_NOSIGNAL) < 0) return;
  }
}

static int start_flood(const flood *f) {
  int port, listening = listen_any(&port);
  if (!fork_server()) {
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
      int fd = accept(listening, NULL, NULL);
      if (fd < 0) _exit(0);
      if (!fork()) {
        pour(fd, f);
        _exit(0);
      }
      close(fd);
    }
  }
  close(listening);
  return port;
}

/// The most memory that kiln-remote for this store has had so far, in MiB; 0: there is none.
static unsigned peak_of_helper(const char *root) {
  unsigned peak = 0;
  DIR *all = opendir("/proc");
  CHECK(all != NULL);
  for (struct dirent *d; (d = readdir(all));) {
    char path[300], text[8192];
    unsigned long kib;
    snprintf(path, sizeof path, "/proc/%.20s/cmdline", d->d_name);
    int fd = *d->d_name >= '1' && *d->d_name <= '9' ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text);
    if (fd >= 0) close(fd);
    if (got <= 0 || !memmem(text, (size_t)got, "kiln-remote", 11) ||
        !memmem(text, (size_t)got, root, strlen(root) + 1))
      continue;
    snprintf(path, sizeof path, "/proc/%.20s/status", d->d_name);
    FILE *status = fopen(path, "r");
    while (status && fgets(text, sizeof text, status))
      if (sscanf(text, "VmHWM: %lu kB", &kib) == 1 && kib / 1024 > peak) peak = (unsigned)(kib / 1024) + 1;
    if (status) fclose(status);
  }
  closedir(all);
  return peak;
}

static void ignore_entry(void *context, size_t index, kiln_cache_entry *entry) {
  (void)context, (void)index;
  FAIL("a flood is an entry of %zu bytes", entry->content.payload.size);
}

/// Whatever a server announces or sends, a look-up takes little memory; many at once, too.
TEST(hostile, replies_take_little_memory) {
  static const flood floods[] = {
      {"redis", "$9000000000000\r\n", NULL, 0},
      {"redis", "$268435457\r\n", NULL, 0},
      {"redis", "$200000000\r\n", NULL, 0}, // not more than an entry may have, but none
      {"redis", "$99999999999999999999999\r\n", NULL, 0},
      {"redis", "$-2\r\n", NULL, 0},
      {"redis", "$", "9", 0},
      {"redis", "$12x\r\n", NULL, 0},
      {"redis", "*1000000000\r\n", "$1\r\nx\r\n", 0},
      {"redis", "*-1000000000\r\n", "$1\r\nx\r\n", 0},
      {"redis", "*3\r\n", "*3\r\n", 0},
      {"redis", "*1\r\n$200000000\r\n", NULL, 0},
      {"redis", "*", "*1\r\n", 0},
      {"redis", "+", NULL, 0},
      {"redis", "-ERR ", NULL, 0},
      {"redis", ":", "1", 0},
      {"redis", "%1000000\r\n", "+a\r\n+b\r\n", 0},
      {"redis", "~1000000\r\n", "+a\r\n", 0},
      {"redis", ">1000000\r\n", "+a\r\n", 0},
      {"redis", "=200000000\r\ntxt:", NULL, 0},
      {"redis", "(", "1", 0},
      {"redis", "$-1\r\n", "$-1\r\n", 64},
      {"redis", "+OK\r\n", "+OK\r\n", 64},
      {"redis", "", NULL, 0},
      {"http", "HTTP/1.1 200 OK\r\n", "X-A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n", 0},
      {"http", "HTTP/1.1 200 OK\r\nX-A: ", NULL, 0},
      {"http", "", "HTTP/1.1 100 Continue\r\n\r\n", 0},
      {"http", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nA\r\n", 0},
      {"http", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", NULL, 0},
      {"http", "HTTP/1.1 200 OK\r\nContent-Length: 9000000000000\r\n\r\n", NULL, 0},
      {"http", "HTTP/1.1 404 No\r\n\r\n", NULL, 0},
      {"http", "HTTP/1.1 302 Go\r\nLocation: ", NULL, 0}};
  enum { FLOODS = sizeof floods / sizeof *floods };
  unsigned most = 0;
  if (KILN_TEST_SANITIZED) SKIP("a sanitizer takes memory of its own");
  for (unsigned i = 0; i < FLOODS; i++) {
    char url[64], name[16], root[300];
    kiln_key keys[KEYS];
    const kiln_key *pointers[KEYS];
    int port = start_flood(&floods[i]);
    snprintf(url, sizeof url, "%s://127.0.0.1:%d", floods[i].scheme, port);
    snprintf(name, sizeof name, "flood%u", i);
    snprintf(root, sizeof root, "%s/%s", kiln_test_folder(), name);
    for (unsigned k = 0; k < KEYS; k++) pointers[k] = (keys[k] = key_number(k), &keys[k]);
    kiln_cache *cache = open_remote_within(kiln_test_folder(), name, url, false, 3000);
    int64_t start = now_ms();
    kiln_cache_get_many(cache, pointers, KEYS, ignore_entry, NULL);
    unsigned peak = peak_of_helper(root);
    if (peak > most) most = peak;
    if (!peak) FAIL("no kiln-remote is there for %s", root);
    if (peak > MOST_MIB)
      FAIL("%s %.20s: kiln-remote took %u MiB, allowed are %d", url, floods[i].head, peak, MOST_MIB);
    if (now_ms() - start > 20000) FAIL("%.20s took %d ms", floods[i].head, (int)(now_ms() - start));
    kiln_cache_close(cache);
    for (unsigned k = 0; k < KEYS; k++) kiln_key_deinit(&keys[k]);
    stop();
  }
  printf("kiln-remote took at most %u MiB\n", most);
}

// ---------------------------------------------------------------------------------------------- TLS

static void make_certificate(void) {
  char *out;
  if (access("/usr/bin/openssl", X_OK)) SKIP("openssl, which makes the certificate, is not installed");
  if (kiln_test_run(
          &out,
          "cd %s && openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj "
          "/CN=here -addext subjectAltName=IP:127.0.0.1 && openssl req -x509 -newkey rsa:2048 -nodes -keyout "
          "k2.pem -out "
          "other.pem -days 2 -subj /CN=there -addext subjectAltName=IP:127.0.0.1 && chmod 644 *.pem",
          kiln_test_folder()))
    FAIL("%s", out);
  free(out);
}

static void use_authority(const char *name) {
  char path[300];
  snprintf(path, sizeof path, "%s/%s", kiln_test_folder(), name);
  if (name) setenv("KILN_CACHE_REMOTE_CA", path, 1);
}

/// Whether what `writer` put is found at `url`, by a cache of its own.
static bool is_found(const char *name, const char *url, const kiln_key *key) {
  kiln_cache *cache = open_remote_within(kiln_test_folder(), name, url, false, 5000);
  bool found = get_size(cache, key, SIZE);
  uint64_t told = kiln_cache_counted(cache, KILN_OUTCOME_REMOTE_FAILED) +
                  kiln_cache_counted(cache, KILN_OUTCOME_REMOTE_REFUSED) +
                  kiln_cache_counted(cache, KILN_OUTCOME_REMOTE_DENIED);
  if (!found && !told) FAIL("%s: a miss that nobody hears of", url);
  kiln_cache_close(cache);
  return found;
}

/// nginx with files on a plain and a TLS port; what it is asked under /NAME/ on either it sends elsewhere.
TEST(hostile, redirects_do_not_leave_tls) {
  static const struct {
    bool tls, to_tls;
    const char *place; ///< NULL: of the other kind
    bool is_followed;
  } rows[] = {{false, false, NULL, true},
              {false, true, NULL, true},
              {true, true, NULL, true},
              {true, false, NULL, false},
              {true, false, "file://", false},
              {false, false, "file://", false},
              {true, false, "ftp://127.0.0.1", false},
              {false, false, "dict://127.0.0.1", false},
              {false, false, "gopher://127.0.0.1", false}};
  const char *folder = kiln_test_folder();
  char conf[300], text[4000], url[100], ca[300];
  int plain = free_port(), tls = free_port();
  if (access("/usr/sbin/nginx", X_OK) || access("/usr/lib/nginx/modules/ngx_http_dav_ext_module.so", R_OK))
    SKIP("nginx with WebDAV is not installed");
  make_certificate();
  size_t at = (size_t)snprintf(
      text, sizeof text,
      "%sdaemon off; master_process off; pid %s/nginx.pid; error_log %s/nginx.log;\nevents {}\nhttp { "
      "access_log off;\n"
      " client_body_temp_path %s/body; proxy_temp_path %s/p; fastcgi_temp_path %s/f; uwsgi_temp_path %s/u; "
      "scgi_temp_path "
      "%s/s;\n server { listen 127.0.0.1:%d; listen 127.0.0.1:%d ssl; ssl_certificate %s/cert.pem; "
      "ssl_certificate_key "
      "%s/key.pem; root %s/www;\n location / { dav_methods PUT; create_full_put_path on; }\n",
      geteuid() ? "" : "user root; ", folder, folder, folder, folder, folder, folder, folder, plain, tls,
      folder, folder, folder);
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
    char place[400];
    snprintf(place, sizeof place, "%s://127.0.0.1:%d", rows[i].to_tls ? "https" : "http",
             rows[i].to_tls ? tls : plain);
    if (rows[i].place)
      snprintf(place, sizeof place, "%s%s%s", rows[i].place, strcmp(rows[i].place, "file://") ? "" : folder,
               strcmp(rows[i].place, "file://") ? "" : "/www");
    at += (size_t)snprintf(text + at, sizeof text - at, " location ~ ^/r%u/(.*) { return 302 %s/$1; }\n", i,
                           place);
  }
  snprintf(text + at, sizeof text - at, " } }\n");
  snprintf(conf, sizeof conf, "%s/nginx.conf", folder);
  kiln_test_write(conf, text, strlen(text));
  kiln_test_run(NULL, "mkdir -p %s/www", folder);
  start(plain, (char *[]){"/usr/sbin/nginx", "-c", conf, "-p", (char *)folder, NULL});
  snprintf(ca, sizeof ca, "%s/cert.pem", folder);
  setenv("KILN_CACHE_REMOTE_CA", ca, 1);
  kiln_key key = key_of("a");
  snprintf(url, sizeof url, "http://127.0.0.1:%d", plain);
  kiln_cache *writer = open_remote(folder, "writer", url, true);
  put_size(writer, &key, SIZE);
  wait_uploaded(writer, 1);
  kiln_cache_close(writer);
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
    char name[16];
    snprintf(name, sizeof name, "reader%u", i);
    snprintf(url, sizeof url, "%s://127.0.0.1:%d/r%u", rows[i].tls ? "https" : "http",
             rows[i].tls ? tls : plain, i);
    if (is_found(name, url, &key) != rows[i].is_followed)
      FAIL("row %u: %s is%s followed", i, url, rows[i].is_followed ? " not" : "");
  }
  unsetenv("KILN_CACHE_REMOTE_CA");
  kiln_key_deinit(&key);
}

/// Redis by TLS: the certificate is checked, for who made it and for whom.
TEST(hostile, redis_with_tls) {
  char number[16], cert[300], secret[300], url[100], elsewhere[100];
  const char *folder = kiln_test_folder();
  kiln_key key = key_of("a");
  make_certificate();
  if (access("/usr/bin/redis-server", X_OK)) SKIP("redis-server is not installed");
  if (kiln_test_run(NULL, "redis-server --version --tls-port 0 >/dev/null 2>&1 && ldd /usr/bin/redis-server "
                          "| grep -q libssl"))
    SKIP("redis-server has no TLS");
  int port = free_port();
  snprintf(number, sizeof number, "%d", port);
  snprintf(cert, sizeof cert, "%s/cert.pem", folder);
  snprintf(secret, sizeof secret, "%s/key.pem", folder);
  start(port, (char *[]){"/usr/bin/redis-server",
                         "--port",
                         "0",
                         "--tls-port",
                         number,
                         "--bind",
                         "127.0.0.1",
                         "--save",
                         "",
                         "--dir",
                         (char *)folder,
                         "--tls-cert-file",
                         cert,
                         "--tls-key-file",
                         secret,
                         "--tls-ca-cert-file",
                         cert,
                         "--tls-auth-clients",
                         "no",
                         "--requirepass",
                         "right",
                         NULL});
  snprintf(url, sizeof url, "rediss://:right@127.0.0.1:%d/2", port);
  snprintf(elsewhere, sizeof elsewhere, "rediss://:right@localhost:%d/2", port);
  use_authority("cert.pem");
  kiln_cache *writer = open_remote_within(folder, "writer", url, true, 5000);
  put_size(writer, &key, SIZE);
  wait_uploaded(writer, 1);
  kiln_cache_close(writer);
  CHECK(is_found("reader", url, &key));
  CHECK(!is_found("localhost", elsewhere, &key)); // the certificate is of another name
  use_authority("other.pem");
  CHECK(!is_found("other", url, &key));
  unsetenv("KILN_CACHE_REMOTE_CA");
  CHECK(!is_found("system", url, &key));
  use_authority("cert.pem");
  snprintf(url, sizeof url, "redis://:right@127.0.0.1:%d/2", port);
  CHECK(!is_found("plain", url, &key));
  snprintf(url, sizeof url, "rediss://:wrong@127.0.0.1:%d/2", port);
  CHECK(!is_found("wrong", url, &key));
  unsetenv("KILN_CACHE_REMOTE_CA");
  kiln_key_deinit(&key);
}

// ---------------------------------------------------------------------------------------- passwords

/// User and password of an address, with what must be written as %XX, and those of the setting.
TEST(hostile, passwords_open_redis) {
  static const struct {
    const char *user, *token;
    bool is_right;
  } rows[] = {
      {":right@", NULL, true},    {":right@", "wrong", true},         {"", "right", true},
      {":wrong@", NULL, false},   {":wrong@", "right", false},        {"", "wrong", false},
      {"", NULL, false},          {"me:p%40s%2F%25%3a@", NULL, true}, {"me:p@s/%25:@", NULL, true},
      {"me:right@", NULL, false}, {"default:right@", NULL, true},     {"you:p%40s%2F%25%3a@", NULL, false}};
  const char *folder = kiln_test_folder();
  char url[200];
  kiln_key key = key_of("a");
  if (access("/usr/bin/redis-cli", X_OK)) SKIP("redis-cli is not installed");
  int port = start_redis(folder);
  CHECK_INT(kiln_test_run(NULL,
                          "redis-cli -p %d acl setuser me on '>p@s/%%:' '~*' '+@all' && redis-cli -p %d "
                          "config set requirepass right",
                          port, port),
            0);
  snprintf(url, sizeof url, "redis://:right@127.0.0.1:%d", port);
  kiln_cache *writer = open_remote_within(folder, "writer", url, true, 5000);
  put_size(writer, &key, SIZE);
  wait_uploaded(writer, 1);
  kiln_cache_close(writer);
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
    char name[16];
    snprintf(name, sizeof name, "reader%u", i);
    snprintf(url, sizeof url, "redis://%s127.0.0.1:%d", rows[i].user, port);
    if (rows[i].token) setenv("KILN_CACHE_REMOTE_TOKEN", rows[i].token, 1);
    kiln_cache *cache = open_remote_within(folder, name, url, false, 5000);
    bool found = get_size(cache, &key, SIZE);
    uint64_t denied = kiln_cache_counted(cache, KILN_OUTCOME_REMOTE_DENIED);
    kiln_cache_close(cache);
    unsetenv("KILN_CACHE_REMOTE_TOKEN");
    if (found != rows[i].is_right || denied != !found)
      FAIL("%s with %s: found %d, denied %d", url, rows[i].token ? rows[i].token : "nothing", found,
           (int)denied);
  }
  kiln_key_deinit(&key);
}

/// Answers everything with an error that repeats what it was sent.
static int start_echo(void) {
  int port, listening = listen_any(&port);
  if (!fork_server()) {
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
      int fd = accept(listening, NULL, NULL);
      char got[4096], answer[5000];
      if (fd < 0) _exit(0);
      for (ssize_t size; (size = recv(fd, got, sizeof got - 1, 0)) > 0;) {
        got[size] = 0;
        for (char *at = got; (at = strpbrk(at, "\r\n"));) *at++ = ' ';
        int length =
            snprintf(answer, sizeof answer, "-ERR unknown command, with args beginning with: %s\r\n", got);
        send(fd, answer, (size_t)length, MSG_NOSIGNAL);
      }
      close(fd);
    }
  }
  close(listening);
  return port;
}

/// No message, file or list of processes has the password, whatever is wrong with the address or the server.
TEST(hostile, passwords_are_not_shown) {
  static const char source[] =
      "kiln 1\nkernel k(y: out *i32) @grid(1) { let i = iota(64) store(y + i, i) }\n";
  static const char *const forms[] = {
      "redis://u:HUSH@127.0.0.1:%d",      "redis://:HUSH@127.0.0.1:%d/0",
      "rediss://u:HUSH@127.0.0.1:%d",     "http://u:HUSH@127.0.0.1:%d/a",
      "https://HUSH@127.0.0.1:%d",        "ftp://u:HUSH@127.0.0.1:%d",
      "redis://u:HU/HUSH@127.0.0.1:%d",   "redis://u:HU@HUSH@127.0.0.1:%d",
      "redis://u:HUSH@127.0.0.1:%d/x",    "redis://u:HUSH@127.0.0.1:99%d",
      "http://127.0.0.1:%d/a?token=HUSH", "u:HUSH@127.0.0.1:%d",
      "redis:/u:HUSH@127.0.0.1:%d",       "redis://u:HUSH@127.0.0.1 x://u:HUSH@b:%d"};
  static const char *const commands[] = {"KILN_CACHE_REMOTE='%s' $k build -q -t host k.kiln -o o.kb",
                                         "KILN_CACHE_REMOTE='%s' KILN_CACHE_REMOTE_WRITE=1 $k build -t host "
                                         "k.kiln -o o.kb --trace t.json --json",
                                         "$k build --fleet '%s' -t host k.kiln -o o.kb",
                                         "KILN_CACHE_REMOTE='%s' KILN_CACHE_REMOTE_WRITE=1 $k cache push",
                                         "KILN_CACHE_REMOTE='%s' $k cache doctor",
                                         "KILN_CACHE_REMOTE='%s' $k cache doctor --json",
                                         "KILN_CACHE_REMOTE='%s' $k cache stats",
                                         "KILN_CACHE_REMOTE='%s' $k env",
                                         "$k tune --collect '%s' -o t.table",
                                         "$k tune --worker '%s' --trust key.pub",
                                         "$k tune --post '%s' --sign key --shapes s k.kiln"};
  const char *folder = kiln_test_folder();
  char path[300];
  snprintf(path, sizeof path, "%s/bin/kiln", kiln_test_build());
  if (access(path, X_OK)) SKIP("%s is not built", path);
  snprintf(path, sizeof path, "%s/k.kiln", folder);
  kiln_test_write(path, source, sizeof source - 1);
  CHECK_INT(kiln_test_run(NULL, "k=$PWD/%s/bin/kiln; cd %s && $k cache keygen key && echo 'k y=zeros:64' >s",
                          kiln_test_build(), folder),
            0);
  int port = start_echo();
  for (unsigned f = 0; f < sizeof forms / sizeof *forms; f++)
    for (unsigned c = 0; c < sizeof commands / sizeof *commands; c++) {
      if (!kiln_test_full() && (f + c) % 3) continue;
      char url[200], line[600], *out;
      snprintf(url, sizeof url, forms[f], port);
      snprintf(line, sizeof line, commands[c], url);
      // Processes are looked at while it runs; the shell's own command line is none of ours.
      kiln_test_run(&out,
                    "k=$PWD/%s/bin/kiln; cd %s && export KILN_CACHE_DIR=$PWD/c%u KILN_CACHE_REMOTE_MS=300 "
                    "HOME=$PWD && rm -rf c%u; { %s; } "
                    ">said 2>&1 & while kill -0 $! 2>/dev/null; do for p in $(pgrep -f '[k]iln-remote'); do "
                    "tr '\\0' ' ' </proc/$p/cmdline; done; done "
                    "2>/dev/null; cat said; find c%u t.json t.table o.kb 2>/dev/null; grep -rl HUSH c%u "
                    "t.json t.table o.kb 2>/dev/null",
                    kiln_test_build(), folder, f, f, line, f, f);
      if (strstr(out, "HUSH")) FAIL("%s:\n%s", line, out);
      free(out);
    }
  char line[300], *out;
  snprintf(line, sizeof line, "redis://127.0.0.1:%d", port);
  kiln_test_run(
      &out,
      "KILN_CACHE_DIR=%s/c KILN_CACHE_REMOTE='%s' KILN_CACHE_REMOTE_TOKEN=HUSH %s/bin/kiln cache doctor",
      folder, line, kiln_test_build());
  if (strstr(out, "HUSH")) FAIL("%s", out);
  CHECK(strstr(out, "refuses the password"));
  free(out);
}

/// An upload that waits because of a password says so, and the address of a fleet is not among the arguments
/// for long.
TEST(hostile, wrong_passwords_are_said_and_hidden) {
  static const char source[] =
      "kiln 1\nkernel k(y: out *i32) @grid(1) { let i = iota(64) store(y + i, i) }\n";
  const char *folder = kiln_test_folder();
  char path[300], *out;
  snprintf(path, sizeof path, "%s/bin/kiln", kiln_test_build());
  if (access(path, X_OK) || access("/usr/bin/redis-cli", X_OK)) SKIP("%s or redis-cli is not there", path);
  snprintf(path, sizeof path, "%s/k.kiln", folder);
  kiln_test_write(path, source, sizeof source - 1);
  int port = start_redis(folder);
  CHECK_INT(kiln_test_run(NULL, "redis-cli -p %d config set requirepass right", port), 0);
  int code = kiln_test_run(&out,
                           "export KILN_CACHE_DIR=%s/cache KILN_CACHE_REMOTE=redis://:wrong@127.0.0.1:%d "
                           "KILN_CACHE_REMOTE_WRITE=1; { "
                           "%s/bin/kiln build -t host %s -o %s/o.kb && %s/bin/kiln cache push; }",
                           folder, port, kiln_test_build(), path, folder, kiln_test_build());
  if (code != 1 || !strstr(out, "the remote store refused the password or token (KILN_CACHE_REMOTE_TOKEN)") ||
      !strstr(out, "redis://***@127.0.0.1") || !strstr(out, "WRONGPASS: the password is wrong") ||
      !strstr(out, "1 wait"))
    FAIL("%d: %s", code, out);
  free(out);
  stop();
  int silent, listening = listen_any(&silent);
  kiln_test_run(&out,
                "KILN_CACHE_DIR=%s/c2 KILN_CACHE_REMOTE_MS=3000 %s/bin/kiln build --fleet "
                "redis://u:HUSH@127.0.0.1:%d -q -t host %s -o %s/o.kb & "
                "sleep 1; for p in $(pgrep -x kiln); do tr '\\0' ' ' </proc/$p/cmdline | grep %s; done; wait",
                folder, kiln_test_build(), silent, path, folder, folder);
  close(listening);
  if (!strstr(out, "--fleet redis://******") || strstr(out, "HUSH")) FAIL("%s", out);
  free(out);
}
