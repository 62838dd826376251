// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Redis: redis://HOST[:PORT][/DATABASE]. One value an entry, under "kiln:DOMAIN:KEY". The reply is read in
// pieces against the deadline, so that a server that dribbles cannot hold anybody up.
#include <hiredis/hiredis.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/remote/level.h"

enum { IDLE = 64, PORT = 6379, SLACK = 4096, FAULT = 200 };

typedef struct redis {
  char host[256], token[512];
  int port, database;
  uint64_t max_bytes;
  uint32_t expire_s;        ///< 0: never
  pthread_mutex_t mutex;    ///< guards idle
  redisContext *idle[IDLE]; ///< owned
  unsigned idle_count;
} redis;

static void *create(const char *url, const kiln_level_options *options) {
  redis *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  const char *host = url + strlen("redis://");
  size_t length = strcspn(host, ":/");
  const char *rest = host + length;
  r->port = PORT;
  bool good = length && length < sizeof r->host;
  if (good) memcpy(r->host, host, length);
  if (*rest == ':') {
    char *end;
    long port = strtol(rest + 1, &end, 10);
    good = good && port > 0 && port < 65536;
    r->port = (int)port;
    rest = end;
  }
  if (*rest == '/') r->database = atoi(rest + 1);
  r->max_bytes = options->max_bytes;
  r->expire_s = options->expire_s;
  if (options->token) snprintf(r->token, sizeof r->token, "%s", options->token);
  pthread_mutex_init(&r->mutex, NULL);
  if (good) return r;
  free(r);
  return NULL;
}

static void destroy(void *state) {
  redis *r = state;
  while (r->idle_count) redisFree(r->idle[--r->idle_count]);
  pthread_mutex_destroy(&r->mutex);
  free(r);
}

static bool ready(int fd, short events, int64_t deadline) {
  int64_t left = deadline - kiln_wire_now();
  struct pollfd p = {fd, events, 0};
  return left > 0 && poll(&p, 1, (int)left) > 0;
}

/// Sends what was appended and waits for one reply; NULL when it did not come whole in time.
static redisReply *converse(redis *r, redisContext *c, int64_t deadline) {
  int written = 0;
  void *reply = NULL;
  while (!written)
    if (!ready(c->fd, POLLOUT, deadline) || redisBufferWrite(c, &written) != REDIS_OK) return NULL;
  for (;;) {
    if (redisGetReplyFromReader(c, &reply) != REDIS_OK) return NULL;
    if (reply) return reply;
    if (c->reader->len > r->max_bytes + SLACK) return NULL;
    if (!ready(c->fd, POLLIN, deadline) || redisBufferRead(c) != REDIS_OK) return NULL;
  }
}

static bool succeed(redisReply *reply) {
  bool good = reply && reply->type != REDIS_REPLY_ERROR;
  if (reply) freeReplyObject(reply);
  return good;
}

/// True for a reply that is no error; else why not, in words, in `why` (FAULT bytes; may be NULL).
static bool accepted(redisReply *reply, char *why) {
  if (why)
    snprintf(why, FAULT, "%s", reply && reply->type == REDIS_REPLY_ERROR ? reply->str : "no answer in time");
  return succeed(reply);
}

static redisContext *connect_new(redis *r, int64_t deadline, char *why) {
  int64_t left = deadline - kiln_wire_now();
  if (left <= 0) return NULL;
  struct timeval limit = {left / 1000, left % 1000 * 1000};
  redisContext *c = redisConnectWithTimeout(r->host, r->port, limit);
  bool good = c && !c->err && redisSetTimeout(c, limit) == REDIS_OK;
  if (!good && why) snprintf(why, FAULT, "%s", c ? c->errstr : "no memory");
  if (good && *r->token)
    good = redisAppendCommand(c, "AUTH %s", r->token) == REDIS_OK && accepted(converse(r, c, deadline), why);
  if (good && r->database)
    good = redisAppendCommand(c, "SELECT %d", r->database) == REDIS_OK &&
           accepted(converse(r, c, deadline), why);
  if (good) return c;
  if (c) redisFree(c);
  return NULL;
}

static redisContext *take(redis *r, int64_t deadline) {
  pthread_mutex_lock(&r->mutex);
  redisContext *c = r->idle_count ? r->idle[--r->idle_count] : NULL;
  pthread_mutex_unlock(&r->mutex);
  return c ? c : connect_new(r, deadline, NULL);
}

/// A connection whose last exchange was not whole is of no more use.
static void give(redis *r, redisContext *c, bool whole) {
  pthread_mutex_lock(&r->mutex);
  bool kept = whole && r->idle_count < IDLE;
  if (kept) r->idle[r->idle_count++] = c;
  pthread_mutex_unlock(&r->mutex);
  if (!kept) redisFree(c);
}

static kiln_remote_state get(void *state, const char *domain, const char *key_hex, int64_t deadline,
                             kiln_buffer *out) {
  redis *r = state;
  kiln_remote_state result = KILN_REMOTE_FAILED;
  redisContext *c = take(r, deadline);
  if (!c) return result;
  redisReply *reply =
      redisAppendCommand(c, "GET kiln:%s:%s", domain, key_hex) == REDIS_OK ? converse(r, c, deadline) : NULL;
  if (reply && reply->type == REDIS_REPLY_NIL) result = KILN_REMOTE_ABSENT;
  if (reply && reply->type == REDIS_REPLY_STRING) {
    kiln_buffer_clear(out);
    kiln_buffer_bytes(out, reply->str, (size_t)reply->len);
    result = out->failed ? KILN_REMOTE_FAILED : KILN_REMOTE_FOUND;
  }
  bool whole = reply != NULL;
  if (reply) freeReplyObject(reply);
  give(r, c, whole);
  return result;
}

static kiln_remote_state put(void *state, const char *domain, const char *key_hex, const uint8_t *bytes,
                             size_t size, int64_t deadline) {
  redis *r = state;
  redisContext *c = take(r, deadline);
  if (!c) return KILN_REMOTE_FAILED;
  int appended = r->expire_s ? redisAppendCommand(c, "SET kiln:%s:%s %b EX %u", domain, key_hex, bytes, size,
                                                  r->expire_s)
                             : redisAppendCommand(c, "SET kiln:%s:%s %b", domain, key_hex, bytes, size);
  redisReply *reply = appended == REDIS_OK ? converse(r, c, deadline) : NULL;
  bool whole = reply != NULL, stored = succeed(reply);
  give(r, c, whole);
  return stored ? KILN_REMOTE_FOUND : KILN_REMOTE_FAILED;
}

/// One command whose answer is no data: FOUND, ABSENT for nil or 0, FAILED.
static kiln_remote_state command(redis *r, int64_t deadline, const char *format, ...) {
  va_list args;
  redisContext *c = take(r, deadline);
  if (!c) return KILN_REMOTE_FAILED;
  va_start(args, format);
  redisReply *reply = redisvAppendCommand(c, format, args) == REDIS_OK ? converse(r, c, deadline) : NULL;
  va_end(args);
  bool whole = reply != NULL;
  kiln_remote_state state =
      !reply || reply->type == REDIS_REPLY_ERROR ? KILN_REMOTE_FAILED
      : reply->type == REDIS_REPLY_NIL || (reply->type == REDIS_REPLY_INTEGER && !reply->integer)
          ? KILN_REMOTE_ABSENT
          : KILN_REMOTE_FOUND;
  if (reply) freeReplyObject(reply);
  give(r, c, whole);
  return state;
}

static kiln_remote_state lease(void *state, const char *domain, const char *key_hex, const char *token,
                               uint32_t ms, int64_t deadline) {
  return command(state, deadline, "SET kiln:%s:%s:lease %s NX PX %u", domain, key_hex, token, ms);
}

/// Only the holder's: compared and changed in one step.
static kiln_remote_state renew(void *state, const char *domain, const char *key_hex, const char *token,
                               uint32_t ms, int64_t deadline) {
  static const char script[] = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end "
                               "if ARGV[2] == '0' then return redis.call('del', KEYS[1]) end return "
                               "redis.call('pexpire', KEYS[1], ARGV[2])";
  return command(state, deadline, "EVAL %s 1 kiln:%s:%s:lease %s %u", script, domain, key_hex, token, ms);
}

static kiln_remote_state add(void *state, const char *domain, const char *name, const uint8_t *bytes,
                             size_t size, int64_t deadline) {
  redis *r = state;
  kiln_remote_state added = command(r, deadline, "SADD kiln:%s:%s %b", domain, name, bytes, size);
  if (added != KILN_REMOTE_FAILED && r->expire_s)
    command(r, deadline, "EXPIRE kiln:%s:%s %u", domain, name, r->expire_s);
  return added;
}

static kiln_remote_state list(void *state, const char *domain, const char *name, int64_t deadline,
                              kiln_buffer *out) {
  redis *r = state;
  redisContext *c = take(r, deadline);
  if (!c) return KILN_REMOTE_FAILED;
  redisReply *reply = redisAppendCommand(c, "SMEMBERS kiln:%s:%s", domain, name) == REDIS_OK
                          ? converse(r, c, deadline)
                          : NULL;
  bool whole = reply != NULL, good = whole && reply->type == REDIS_REPLY_ARRAY;
  for (size_t i = 0; good && i < reply->elements; i++)
    kiln_buffer_block(out, reply->element[i]->str, (size_t)reply->element[i]->len);
  if (reply) freeReplyObject(reply);
  give(r, c, whole);
  return good && !out->failed ? KILN_REMOTE_FOUND : KILN_REMOTE_FAILED;
}

static bool check(void *state, const char *domain, int64_t deadline, char *out, size_t capacity) {
  redis *r = state;
  char why[FAULT] = "";
  redisContext *c = connect_new(r, deadline, why);
  bool good = c && redisAppendCommand(c, "GET kiln:%s:%064d", domain, 0) == REDIS_OK &&
              accepted(converse(r, c, deadline), why);
  if (c) redisFree(c);
  bool access = !strncmp(why, "NOAUTH", 6) || !strncmp(why, "WRONGPASS", 9) || !strncmp(why, "NOPERM", 6);
  snprintf(out, capacity, "%s%s", good ? "answers" : why, access ? " (KILN_CACHE_REMOTE_TOKEN)" : "");
  return good;
}

const kiln_level_kind kiln_level_redis = {"redis://", create, destroy, get, put,
                                          check,      lease,  renew,   add, list};
