// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stores entries in Redis, with TLS for rediss://. Each entry is one value, under "kiln:DOMAIN:KEY". Replies are read in
// pieces before the deadline and within limits (resp.h), so that a server can neither block a build nor fill its memory.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/remote/connection.h"
#include "cache/remote/level.h"
#include "cache/remote/resp.h"

enum { IDLE = 64, FAULT = 200, MOST_MEMBERS = 1 << 16, MOST_MEMBER = 256 };

typedef struct peer {
  kiln_connection *connection; ///< owned
  int64_t deadline;
  kiln_resp resp;
} peer;

typedef struct redis {
  kiln_redis_address address;
  char ca_file[KILN_LEVEL_URL];
  const char *begins; ///< as kiln_level_options says
  uint64_t max_bytes;
  uint32_t expire_s;     ///< 0: never
  pthread_mutex_t mutex; ///< guards idle
  peer *idle[IDLE];      ///< owned
  unsigned idle_count;
} redis;

static void *create(const char *url, const kiln_level_options *options, kiln_error *err) {
  redis *r = calloc(1, sizeof *r);
  if (!r) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for a server"), NULL;
  r->max_bytes = options->max_bytes;
  r->expire_s = options->expire_s;
  r->begins = options->begins;
  kiln_status status = kiln_redis_address_parse(url, &r->address, err);
  char *password = r->address.password;
  if (!status && !*password && options->token &&
      snprintf(password, sizeof r->address.password, "%s", options->token) >= (int)sizeof r->address.password)
    status = kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                       "KILN_CACHE_REMOTE_TOKEN: expected at most %d bytes for a password of Redis",
                       KILN_ADDRESS_SECRET - 1);
  snprintf(r->ca_file, sizeof r->ca_file, "%s", options->ca_file ? options->ca_file : "");
  pthread_mutex_init(&r->mutex, NULL);
  if (!status) return r;
  free(r);
  return NULL;
}

// ------------------------------------------------------------------------------------- conversation

static size_t receive(void *context, uint8_t *out, size_t size) {
  peer *p = context;
  return kiln_connection_receive(p->connection, out, size, p->deadline);
}

static void hang_up(peer *p) {
  if (p) kiln_connection_close(p->connection);
  free(p);
}

static void destroy(void *state) {
  redis *r = state;
  while (r->idle_count) hang_up(r->idle[--r->idle_count]);
  pthread_mutex_destroy(&r->mutex);
  memset(r->address.password, 0, sizeof r->address.password);
  free(r);
}

/// Sends the command, which is taken over, and reads the reply.
static kiln_resp_kind converse(peer *p, kiln_buffer *command, const kiln_resp_limits *limits,
                               int64_t deadline, kiln_buffer *out) {
  p->deadline = deadline;
  bool sent =
      !command->failed && kiln_connection_send(p->connection, command->bytes, command->size, deadline);
  kiln_buffer_deinit(command);
  return sent ? kiln_resp_read(&p->resp, limits, out) : KILN_RESP_NONE;
}

/// A command of texts, ended by NULL.
static kiln_buffer words(const char *const *texts) {
  kiln_buffer out = {0};
  size_t count = 0;
  while (texts[count]) count++;
  kiln_resp_command(&out, count);
  for (size_t i = 0; i < count; i++) kiln_resp_word(&out, texts[i], strlen(texts[i]));
  return out;
}

/// What an error of Redis says of who asks, in words of our own: a server may repeat what it was sent. NULL:
/// nothing.
static const char *denial(const char *line) {
  static const struct {
    const char *begins, *says;
  } rows[] = {{"NOAUTH", "NOAUTH: it wants a password (KILN_CACHE_REMOTE_TOKEN)"},
              {"WRONGPASS", "WRONGPASS: the password is wrong (KILN_CACHE_REMOTE_TOKEN)"},
              {"ERR invalid password", "the password is wrong (KILN_CACHE_REMOTE_TOKEN)"},
              {"NOPERM", "NOPERM: the user has no right to do that (KILN_CACHE_REMOTE_TOKEN)"}};
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!strncmp(line, rows[i].begins, strlen(rows[i].begins))) return rows[i].says;
  return NULL;
}

/// FOUND, DENIED or FAILED with the reason in `why` (FAULT bytes; may be NULL).
static kiln_remote_state accepted(const peer *p, kiln_resp_kind kind, bool shows_error, char *why) {
  if (kind != KILN_RESP_NONE && kind != KILN_RESP_ERROR) return KILN_REMOTE_FOUND;
  const char *denied = kind == KILN_RESP_ERROR ? denial(p->resp.line) : NULL;
  if (why)
    snprintf(why, FAULT, "%.190s",
             denied ? denied
             : kind == KILN_RESP_ERROR
                 ? shows_error ? p->resp.line : "it refuses the password (KILN_CACHE_REMOTE_TOKEN)"
             : p->resp.is_refused ? "it answers with something else than was asked for"
                                  : "no answer in time");
  if (denied || (kind == KILN_RESP_ERROR && !shows_error)) return KILN_REMOTE_DENIED;
  return p->resp.is_refused ? KILN_REMOTE_REFUSED : KILN_REMOTE_FAILED;
}

static const kiln_resp_limits nothing = {.bytes = KILN_RESP_LINE};

/// FOUND with the peer, or why not.
static kiln_remote_state call(redis *r, int64_t deadline, peer **out, char *why) {
  char number[16];
  kiln_buffer none = {0};
  kiln_remote_state state = KILN_REMOTE_FAILED;
  peer *p = calloc(1, sizeof *p);
  if (p)
    p->connection = kiln_connection_open(r->address.host, r->address.port, r->address.tls, r->ca_file,
                                         deadline, why, FAULT);
  if (p && p->connection) {
    p->resp.source = receive;
    p->resp.context = p;
    state = KILN_REMOTE_FOUND;
  }
  if (state == KILN_REMOTE_FOUND && *r->address.password) {
    const char *const with_user[] = {"AUTH", r->address.user, r->address.password, NULL},
                      *const without[] = {"AUTH", r->address.password, NULL};
    kiln_buffer command = words(*r->address.user ? with_user : without);
    state = accepted(p, converse(p, &command, &nothing, deadline, &none), false, why);
  }
  if (state == KILN_REMOTE_FOUND && r->address.database) {
    snprintf(number, sizeof number, "%d", r->address.database);
    kiln_buffer command = words((const char *const[]){"SELECT", number, NULL});
    state = accepted(p, converse(p, &command, &nothing, deadline, &none), true, why);
  }
  kiln_buffer_deinit(&none);
  if (state != KILN_REMOTE_FOUND) hang_up(p);
  *out = state == KILN_REMOTE_FOUND ? p : NULL;
  return state;
}

static kiln_remote_state take(redis *r, int64_t deadline, peer **out) {
  pthread_mutex_lock(&r->mutex);
  *out = r->idle_count ? r->idle[--r->idle_count] : NULL;
  pthread_mutex_unlock(&r->mutex);
  return *out ? KILN_REMOTE_FOUND : call(r, deadline, out, NULL);
}

/// A connection whose last exchange was not whole, or that says more than it was asked, is of no more use.
static void give(redis *r, peer *p, bool whole) {
  pthread_mutex_lock(&r->mutex);
  bool kept = whole && p->resp.at == p->resp.end && r->idle_count < IDLE;
  if (kept) r->idle[r->idle_count++] = p;
  pthread_mutex_unlock(&r->mutex);
  if (!kept) hang_up(p);
}

/// One command, which is taken over: FOUND with what was found, ABSENT for nil or 0, or what is wrong.
static kiln_remote_state ask(redis *r, kiln_buffer *command, const kiln_resp_limits *limits, int64_t deadline,
                             kiln_buffer *out) {
  peer *p;
  kiln_buffer none = {0};
  kiln_remote_state state = take(r, deadline, &p);
  if (state != KILN_REMOTE_FOUND) {
    kiln_buffer_deinit(command);
    return state;
  }
  kiln_resp_kind kind = converse(p, command, limits, deadline, out ? out : &none);
  state = accepted(p, kind, true, NULL);
  if (kind == KILN_RESP_NIL || (kind == KILN_RESP_NUMBER && !p->resp.number)) state = KILN_REMOTE_ABSENT;
  if ((out ? out : &none)->failed) state = KILN_REMOTE_FAILED;
  give(r, p, kind != KILN_RESP_NONE);
  kiln_buffer_deinit(&none);
  return state;
}

// ------------------------------------------------------------------------------------------ commands

typedef struct place {
  char text[320];
} place;

static place key_of(const char *domain, const char *name, const char *more) {
  place p;
  snprintf(p.text, sizeof p.text, "kiln:%.100s:%.130s%s", domain, name, more);
  return p;
}

static kiln_remote_state get(void *state, const char *domain, const char *key_hex, int64_t deadline,
                             kiln_buffer *out) {
  redis *r = state;
  place key = key_of(domain, key_hex, "");
  const kiln_resp_limits limits = {.bytes = r->max_bytes, .begins = r->begins};
  kiln_buffer command = words((const char *const[]){"GET", key.text, NULL});
  kiln_buffer_clear(out);
  return ask(r, &command, &limits, deadline, out);
}

static kiln_remote_state put(void *state, const char *domain, const char *key_hex, const uint8_t *bytes,
                             size_t size, int64_t deadline) {
  redis *r = state;
  char seconds[16];
  kiln_buffer command = {0};
  place key = key_of(domain, key_hex, "");
  kiln_resp_command(&command, r->expire_s ? 5 : 3);
  kiln_resp_word(&command, "SET", 3);
  kiln_resp_word(&command, key.text, strlen(key.text));
  kiln_resp_word(&command, bytes, size);
  snprintf(seconds, sizeof seconds, "%u", r->expire_s);
  if (r->expire_s) kiln_resp_word(&command, "EX", 2);
  if (r->expire_s) kiln_resp_word(&command, seconds, strlen(seconds));
  kiln_remote_state stored = ask(r, &command, &nothing, deadline, NULL);
  return stored == KILN_REMOTE_FOUND || stored == KILN_REMOTE_DENIED ? stored : KILN_REMOTE_FAILED;
}

/// What a lease without an end, or with one further off than any that we give, is: nobody's. Set and looked
/// at in one step.
static kiln_remote_state lease(void *state, const char *domain, const char *key_hex, const char *token,
                               uint32_t ms, int64_t deadline) {
  static const char script[] = "local left = redis.call('pttl', KEYS[1]) "
                               "if left >= 0 and left <= tonumber(ARGV[2]) then return 0 end "
                               "redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1";
  char text[16];
  place key = key_of(domain, key_hex, ":lease");
  snprintf(text, sizeof text, "%u", ms);
  kiln_buffer command = words((const char *const[]){"EVAL", script, "1", key.text, token, text, NULL});
  return ask(state, &command, &nothing, deadline, NULL);
}

/// Only the holder's: compared and changed in one step.
static kiln_remote_state renew(void *state, const char *domain, const char *key_hex, const char *token,
                               uint32_t ms, int64_t deadline) {
  static const char script[] = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end "
                               "if ARGV[2] == '0' then return redis.call('del', KEYS[1]) end return "
                               "redis.call('pexpire', KEYS[1], ARGV[2])";
  char text[16];
  place key = key_of(domain, key_hex, ":lease");
  snprintf(text, sizeof text, "%u", ms);
  kiln_buffer command = words((const char *const[]){"EVAL", script, "1", key.text, token, text, NULL});
  return ask(state, &command, &nothing, deadline, NULL);
}

static kiln_remote_state add(void *state, const char *domain, const char *name, const uint8_t *bytes,
                             size_t size, int64_t deadline) {
  redis *r = state;
  char seconds[16];
  kiln_buffer command = {0};
  place key = key_of(domain, name, "");
  if (size > MOST_MEMBER) return KILN_REMOTE_REFUSED;
  kiln_resp_command(&command, 3);
  kiln_resp_word(&command, "SADD", 4);
  kiln_resp_word(&command, key.text, strlen(key.text));
  kiln_resp_word(&command, bytes, size);
  kiln_remote_state added = ask(r, &command, &nothing, deadline, NULL);
  if (!r->expire_s || (added != KILN_REMOTE_FOUND && added != KILN_REMOTE_ABSENT)) return added;
  snprintf(seconds, sizeof seconds, "%u", r->expire_s);
  command = words((const char *const[]){"EXPIRE", key.text, seconds, NULL});
  ask(r, &command, &nothing, deadline, NULL);
  return added;
}

static kiln_remote_state list(void *state, const char *domain, const char *name, int64_t deadline,
                              kiln_buffer *out) {
  const kiln_resp_limits limits = {.bytes = MOST_MEMBER, .elements = MOST_MEMBERS};
  place key = key_of(domain, name, "");
  kiln_buffer command = words((const char *const[]){"SMEMBERS", key.text, NULL});
  return ask(state, &command, &limits, deadline, out);
}

static bool check(void *state, const char *domain, int64_t deadline, char *out, size_t capacity) {
  redis *r = state;
  char why[FAULT] = "", zeros[KILN_DIGEST_HEX + 1];
  peer *p;
  kiln_buffer none = {0};
  memset(zeros, '0', sizeof zeros);
  zeros[KILN_DIGEST_HEX] = 0;
  kiln_remote_state good = call(r, deadline, &p, why);
  if (p) {
    place key = key_of(domain, zeros, "");
    kiln_buffer command = words((const char *const[]){"GET", key.text, NULL});
    good = accepted(p, converse(p, &command, &nothing, deadline, &none), true, why);
    hang_up(p);
  }
  kiln_buffer_deinit(&none);
  snprintf(out, capacity, "%s", good == KILN_REMOTE_FOUND ? "answers" : why);
  return good == KILN_REMOTE_FOUND;
}

/// One connection; the bytes go by themselves after a minute.
static bool check_put(void *state, const char *domain, int64_t deadline, char *out, size_t capacity) {
  redis *r = state;
  static const char trial[] = KILN_LEVEL_TRIAL;
  char why[FAULT] = "";
  peer *p;
  kiln_buffer got = {0};
  place key = key_of(domain, "doctor", "");
  bool same = false;
  kiln_remote_state stored = call(r, deadline, &p, why);
  if (p) {
    kiln_buffer command = words((const char *const[]){"SET", key.text, trial, "EX", "60", NULL});
    stored = accepted(p, converse(p, &command, &nothing, deadline, &got), true, why);
  }
  if (stored != KILN_REMOTE_FOUND) snprintf(out, capacity, "answers, but an upload fails: %s", why);
  else {
    const kiln_resp_limits limits = {.bytes = sizeof trial};
    kiln_buffer command = words((const char *const[]){"GET", key.text, NULL});
    kiln_buffer_clear(&got);
    kiln_resp_kind kind = converse(p, &command, &limits, deadline, &got);
    bool found = accepted(p, kind, true, why) == KILN_REMOTE_FOUND;
    same = found && got.size == sizeof trial - 1 && !memcmp(got.bytes, trial, sizeof trial - 1);
    if (same) snprintf(out, capacity, "answers, takes an upload and gives it back");
    else
      snprintf(out, capacity, "takes an upload, but does not give it back: %s",
               !found                  ? why
               : kind == KILN_RESP_NIL ? "it does not have it"
                                       : "it gives other bytes");
  }
  hang_up(p);
  kiln_buffer_deinit(&got);
  return same;
}

const kiln_level_kind kiln_level_redis = {"redis://", create, destroy, get, put, check,
                                          check_put,  lease,  renew,   add, list},
                      kiln_level_rediss = {"rediss://", create, destroy, get, put, check,
                                           check_put,   lease,  renew,   add, list};
