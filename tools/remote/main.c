// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln-remote: the network end of the cache, one process per build. `kiln` starts it at its first miss and
// speaks with it over a socket; people need not call it.
//
//   kiln-remote serve OPTIONS                serves look-ups and uploads of a build
//   kiln-remote push [--wait-ms N] [--json] OPTIONS   uploads what waits, for `kiln cache push`
//   kiln-remote check OPTIONS                asks each server once, for `kiln cache doctor`
//   kiln-remote push-bundle|pull-bundle ...  a bundle to and from a registry (bundle.c)
//   kiln-remote board                        values, sets and leases over descriptors 0 and 1, for
//                                            `kiln tune --worker`
//
//   OPTIONS: --store ROOT --domain D --space S [--deadline-ms N] [--lease-ms N] [--max-bytes N] [--write]
//
// The servers' addresses are in KILN_CACHE_REMOTE, because everyone on the machine can see arguments.
// Descriptor 3 listens; the end of descriptor 0 says that the build is over. It detaches itself and returns
// at once.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/program.h"
#include "cache/remote/board.h"
#include "cache/remote/server.h"
#include "tools/common/cli.h"
#include "tools/remote/bundle.h"

enum { LIFE = 0, LISTENING = 3 };

static const char usage[] =
    "usage: kiln-remote serve|push|check --store ROOT --domain D --space S "
    "[--deadline-ms N] [--lease-ms N] [--max-bytes N] [--wait-ms N] [--write] [--json]\n"
    "       kiln-remote board\n"
    "The network end of Kiln's cache, for the servers in KILN_CACHE_REMOTE. `kiln` starts it; see "
    "docs/cache.md.\n";

typedef struct request {
  kiln_remote_server_config config;
  bool push, check;
  bool json;        ///< of push
  uint32_t wait_ms; ///< of push
} request;

static bool parse(int argc, char **argv, request *out) {
  kiln_remote_server_config *config = &out->config;
  const char *wait = "0", *deadline = "2000", *lease = "0", *limit = "268435456";
  const struct {
    const char *name;
    const char **to;
  } options[] = {{"--store", &config->root},   {"--domain", &config->domain}, {"--space", &config->space},
                 {"--deadline-ms", &deadline}, {"--max-bytes", &limit},       {"--lease-ms", &lease},
                 {"--wait-ms", &wait}};
  out->check = argc > 1 && !strcmp(argv[1], "check");
  out->push = argc > 1 && !strcmp(argv[1], "push");
  if (argc < 2 || (strcmp(argv[1], "serve") && !out->push && !out->check)) return false;
  for (int i = 2; i < argc; i++) {
    unsigned o = 0;
    bool is_write = !strcmp(argv[i], "--write"), is_json = !strcmp(argv[i], "--json");
    config->write |= is_write;
    out->json |= is_json;
    if (is_write || is_json) continue;
    while (o < sizeof options / sizeof *options && strcmp(argv[i], options[o].name)) o++;
    if (o == sizeof options / sizeof *options || i + 1 == argc) return false;
    *options[o].to = argv[++i];
  }
  config->urls = secure_getenv("KILN_CACHE_REMOTE");
  config->deadline_ms = (uint32_t)strtoul(deadline, NULL, 10);
  config->lease_ms = (uint32_t)strtoul(lease, NULL, 10);
  config->max_bytes = strtoull(limit, NULL, 10);
  out->wait_ms = (uint32_t)strtoul(wait, NULL, 10);
  return config->urls && config->root && config->domain && config->space && config->deadline_ms &&
         config->max_bytes;
}

/// What keeps something waiting: servers that do not do what is wanted.
typedef struct troubles {
  unsigned count;
  kiln_buffer *json; ///< NULL: they are printed
} troubles;

static void note_trouble(void *context, const char *url, bool good, const char *text) {
  troubles *t = context;
  if (good) return;
  if (!t->json) fprintf(stderr, "kiln: note: %s: %s\n", url, text);
  if (t->json) {
    kiln_buffer_format(t->json, t->count ? ", {\"server\": " : "{\"server\": ");
    cli_json_text(t->json, url);
    kiln_buffer_format(t->json, ", \"problem\": ");
    cli_json_text(t->json, text);
    kiln_buffer_u8(t->json, '}');
  }
  t->count++;
}

/// What waits, or is not taken, has a reason that only its server knows: each is asked once more.
static void print_pushed(const request *r, const kiln_remote_pushed *pushed) {
  kiln_buffer json = {0};
  troubles t = {.json = r->json ? &json : NULL};
  unsigned long long stored = pushed->stored, refused = pushed->refused, waiting = pushed->waiting;
  if (r->json)
    kiln_buffer_format(&json, "{\"uploaded\": %llu, \"refused\": %llu, \"waiting\": %llu, \"problems\": [",
                       stored, refused, waiting);
  else if (refused) printf("%llu uploaded, %llu will never be taken, %llu wait\n", stored, refused, waiting);
  else printf("%llu uploaded, %llu wait\n", stored, waiting);
  fflush(stdout);
  if (waiting || refused) (void)kiln_remote_check(&r->config, note_trouble, &t);
  if (r->json) {
    kiln_buffer_format(&json, "]}\n");
    fwrite(json.bytes, 1, json.size, stdout);
  } else if (waiting && !t.count) {
    fputs("kiln: note: now every server answers and takes an upload: push again\n", stderr);
  }
  kiln_buffer_deinit(&json);
}

static int push(const request *r) {
  kiln_remote_server *server;
  kiln_error err = {0};
  cli_json_on_failure(r->json);
  if (kiln_remote_server_create(&r->config, &server, &err) != KILN_OK) return cli_report(err.status, &err);
  kiln_remote_pushed pushed = kiln_remote_server_push(server, r->wait_ms);
  kiln_remote_server_destroy(server);
  print_pushed(r, &pushed);
  return pushed.waiting || pushed.refused;
}

// What is on a board goes a week after it was put there.
static int serve_board(const char *url) {
  const kiln_level_options options = {.token = secure_getenv("KILN_CACHE_REMOTE_TOKEN"),
                                      .ca_file = secure_getenv("KILN_CACHE_REMOTE_CA"),
                                      .max_bytes = (uint64_t)1 << 30,
                                      .expire_s = 7 * 86400};
  signal(SIGPIPE, SIG_IGN);
  return !url || !kiln_board_serve(url, &options, 0, 1);
}

static void print_check(void *context, const char *url, bool good, const char *text) {
  (void)context;
  printf("%s %s: %s\n", good ? "ok" : "BAD", url, text);
}

int main(int argc, char **argv) {
  kiln_program_begin();
  request asked = {0};
  kiln_remote_server *server;
  kiln_error err = {0};
  if (argc == 2 && !strcmp(argv[1], "--help")) return fputs(usage, stdout) < 0;
  if (argc == 2 && !strcmp(argv[1], "board")) return serve_board(secure_getenv("KILN_CACHE_REMOTE"));
  if (argc > 1 && (!strcmp(argv[1], "push-bundle") || !strcmp(argv[1], "pull-bundle"))) {
    signal(SIGPIPE, SIG_IGN);
    return remote_bundle(argc, argv);
  }
  if (!parse(argc, argv, &asked)) {
    fputs(usage, stderr);
    return 2;
  }
  const char *expire = secure_getenv("KILN_CACHE_REMOTE_EXPIRE_S");
  unsigned long long seconds = expire ? strtoull(expire, NULL, 10) : 0;
  asked.config.expire_s = seconds > UINT32_MAX / 1000 ? UINT32_MAX / 1000 : (uint32_t)seconds;
  asked.config.token = secure_getenv("KILN_CACHE_REMOTE_TOKEN");
  asked.config.ca_file = secure_getenv("KILN_CACHE_REMOTE_CA");
  asked.config.s3 = kiln_s3_access_of(secure_getenv);
  asked.config.shared = kiln_env_is_yes(secure_getenv("KILN_CACHE_SHARED"));
  asked.config.world_writable = kiln_env_is_yes(secure_getenv("KILN_CACHE_WORLD_WRITABLE"));
  signal(SIGPIPE, SIG_IGN);
  if (asked.push) return push(&asked);
  if (asked.check) return !kiln_remote_check(&asked.config, print_check, NULL);
  pid_t child = fork();
  if (child) return child < 0;
  setsid();
  if (kiln_remote_server_create(&asked.config, &server, &err) != KILN_OK) return 1;
  kiln_remote_server_run(server, LISTENING, LIFE);
  kiln_remote_server_destroy(server);
  return 0;
}
