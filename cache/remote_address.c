// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads addresses of remote caches: HTTP, S3 and Redis.
#include "cache/remote_address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REDIS_PORT = 6379, MOST_DATABASE = 1 << 20, BUCKET_LEAST = 3, BUCKET_MOST = 63, REGION_MOST = 63 };

static const char digits[] = "0123456789";

static bool begins(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

// ------------------------------------------------------------------------------------------- HOST:PORT

typedef struct place {
  const char *host; ///< borrowed, with the brackets of an IPv6 address
  size_t size;
  int port;         ///< 0: none is given
  const char *rest; ///< what follows
} place;

static kiln_status read_place(const char *text, const char *form, place *out, kiln_error *err) {
  *out = (place){.host = text, .size = *text == '[' ? strcspn(text, "]") + 1 : strcspn(text, ":/?#@ ")};
  if (!out->size) return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "expected %s, found no host", form);
  if (*text == '[' && !memchr(text, ']', strlen(text)))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "expected ']' after an IPv6 address");
  out->rest = text + out->size;
  if (*out->rest != ':') return KILN_OK;
  const char *port = out->rest + 1;
  size_t length = strspn(port, digits);
  char end = port[length];
  if (length && length <= 5 && (!end || strchr("/?#", end))) out->port = atoi(port);
  if (!out->port || out->port > 65535)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "expected a port from 1 to 65535, found \"%.*s\"",
                     (int)strcspn(port, "/?# "), port);
  out->rest = port + length;
  return KILN_OK;
}

/// What libcurl is given.
static kiln_status check_http(const char *url, kiln_error *err) {
  place found;
  const char *start = strstr(url, "://") + 3, *user = memrchr(start, '@', strcspn(start, "/?#"));
  if (strlen(url) >= KILN_ADDRESS_MOST)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "expected an address of at most %d bytes, found %zu",
                     KILN_ADDRESS_MOST - 1, strlen(url));
  return read_place(user ? user + 1 : start, "http://HOST[:PORT] or https://HOST[:PORT]", &found, err);
}

// --------------------------------------------------------------------------------------------- Redis

static int hex_digit(char c) {
  const char *hex = "0123456789abcdef", *at = c ? strchr(hex, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
  return at ? (int)(at - hex) : -1;
}

/// A part of an address, with its %XX.
static kiln_status decode(const char *what, const char *text, size_t length, char *out, size_t capacity,
                          kiln_error *err) {
  size_t size = 0;
  for (size_t i = 0; i < length; i++) {
    int high = text[i] == '%' && i + 2 < length ? hex_digit(text[i + 1]) : -1,
        low = high >= 0 ? hex_digit(text[i + 2]) : -1;
    char c = low >= 0 ? (char)(high << 4 | low) : text[i];
    if (!c) return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "expected no %%00 in the %s", what);
    if (size + 1 >= capacity)
      return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "expected a %s of at most %zu bytes, found more",
                       what, capacity - 1);
    out[size++] = c;
    i += low >= 0 ? 2 : 0;
  }
  out[size] = 0;
  return KILN_OK;
}

static kiln_status read_user(const char *text, size_t length, kiln_redis_address *out, kiln_error *err) {
  const char *colon = memchr(text, ':', length);
  size_t user = colon ? (size_t)(colon - text) : length, password = user + (colon != NULL);
  KILN_TRY(decode("user", text, user, out->user, sizeof out->user, err));
  return decode("password", text + password, length - password, out->password, sizeof out->password, err);
}

static kiln_status read_database(const char *text, int *out, kiln_error *err) {
  size_t length = strspn(text, digits);
  if (length == strlen(text) && length <= 7) *out = atoi(text);
  if (length == strlen(text) && length <= 7 && *out <= MOST_DATABASE) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                   "expected the number of a database, at most %d, found \"%.*s\"", MOST_DATABASE,
                   (int)strcspn(text, "?#") + 1, text); // what follows a '?' may be secret
}

kiln_status kiln_redis_address_parse(const char *url, kiln_redis_address *out, kiln_error *err) {
  static const char form[] = "redis://HOST[:PORT][/DATABASE]";
  place found;
  memset(out, 0, sizeof *out);
  if (!begins(url, "redis://") && !begins(url, "rediss://"))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "expected %s; rediss:// is by TLS", form);
  const char *rest = strstr(url, "://") + 3, *at = strrchr(rest, '@');
  out->tls = begins(url, "rediss:");
  if (at) KILN_TRY(read_user(rest, (size_t)(at - rest), out, err));
  KILN_TRY(read_place(at ? at + 1 : rest, form, &found, err));
  KILN_TRY(decode("host", found.host, found.size, out->host, sizeof out->host, err));
  if (strpbrk(out->host, "/?#@ "))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "expected the name of a host, found \"%s\"",
                     out->host);
  out->port = found.port ? found.port : REDIS_PORT;
  if (*found.rest && *found.rest != '/')
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "expected %s, found '%c' after the host", form,
                     *found.rest);
  return *found.rest && found.rest[1] ? read_database(found.rest + 1, &out->database, err) : KILN_OK;
}

// ------------------------------------------------------------------------------------------------ S3

static const char *given(const char *text) { return text && *text ? text : NULL; }

static const char *first_of(char *(*get)(const char *), const char *const *names) {
  while (*names && !given(get(*names))) names++;
  return *names ? get(*names) : NULL;
}

kiln_s3_access kiln_s3_access_of(char *(*get)(const char *name)) {
  static const char *const endpoints[] = {"KILN_CACHE_S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL",
                                          NULL},
                           *const regions[] = {"KILN_CACHE_S3_REGION", "AWS_REGION", "AWS_DEFAULT_REGION",
                                               NULL};
  const bool is_ours = given(get("KILN_CACHE_S3_KEY"));
  return (kiln_s3_access){
      .endpoint = first_of(get, endpoints),
      .region = first_of(get, regions),
      .key = get(is_ours ? "KILN_CACHE_S3_KEY" : "AWS_ACCESS_KEY_ID"),
      .secret = get(is_ours ? "KILN_CACHE_S3_SECRET" : "AWS_SECRET_ACCESS_KEY"),
      .session = is_ours ? NULL : get("AWS_SESSION_TOKEN"),
  };
}

// What a prefix may have is what is the same in an address and in what is signed of it.
#define SMALL "abcdefghijklmnopqrstuvwxyz0123456789"
#define LETTERS SMALL "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_.~/"

static kiln_status check_endpoint(const char *endpoint, kiln_error *err) {
  kiln_error why = {0};
  if (!begins(endpoint, "http://") && !begins(endpoint, "https://"))
    kiln_fail(&why, KILN_STATUS_INVALID_ARGUMENT,
              "expected http://HOST[:PORT] or https://HOST[:PORT], found \"%.100s\"",
              strpbrk(endpoint, "@?#") ? "***" : endpoint);
  else if (strpbrk(endpoint, "@?# "))
    kiln_fail(&why, KILN_STATUS_INVALID_ARGUMENT, "expected an address without '@', '?', '#' and blanks");
  else (void)check_http(endpoint, &why);
  return why.status ? kiln_fail(err, why.status, "KILN_CACHE_S3_ENDPOINT (AWS_ENDPOINT_URL): %s", why.text)
                    : KILN_OK;
}

kiln_status kiln_s3_address(const char *url, const kiln_s3_access *access, char out[KILN_ADDRESS_MOST],
                            kiln_error *err) {
  const char *bucket = url + strlen("s3://"), *endpoint = given(access->endpoint),
             *region = given(access->region) ? access->region : "us-east-1";
  int length = (int)strcspn(bucket, "/"), written;
  const char *prefix = bucket + length;
  size_t prefix_size = strlen(prefix), host = endpoint ? strlen(endpoint) : 0;
  while (prefix_size && prefix[prefix_size - 1] == '/') prefix_size--;
  while (host && endpoint[host - 1] == '/') host--;
  if (length < BUCKET_LEAST || length > BUCKET_MOST || strspn(bucket, SMALL ".-") < (size_t)length)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "expected a bucket of %d to %d small letters, digits, '.' and '-', found \"%.*s\"",
                     BUCKET_LEAST, BUCKET_MOST, length, bucket);
  if (strspn(prefix, LETTERS) < prefix_size)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "expected a prefix of letters, digits and -_.~/, found \"%s\"", prefix);
  if (strspn(region, SMALL "-") < strlen(region) || strlen(region) > REGION_MOST)
    return kiln_fail(
        err, KILN_STATUS_INVALID_ARGUMENT,
        "KILN_CACHE_S3_REGION (AWS_REGION): expected at most %d small letters, digits and '-', found "
        "\"%.100s\"",
        REGION_MOST, region);
  if (endpoint) KILN_TRY(check_endpoint(endpoint, err));
  if (!given(access->key) != !given(access->secret))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "the access key and its secret go together: one of them is not set");
  if (endpoint)
    written = snprintf(out, KILN_ADDRESS_MOST, "%.*s/%.*s%.*s", (int)host, endpoint, length, bucket,
                       (int)prefix_size, prefix);
  else
    written = snprintf(out, KILN_ADDRESS_MOST, "https://%.*s.s3.%s.amazonaws.com%.*s", length, bucket, region,
                       (int)prefix_size, prefix);
  if (written < KILN_ADDRESS_MOST) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "expected an address of at most %d bytes, found %d",
                   KILN_ADDRESS_MOST - 1, written);
}

// ----------------------------------------------------------------------------------------- any of them

kiln_status kiln_remote_address_check(const char *url, const kiln_s3_access *access, kiln_error *err) {
  char objects[KILN_ADDRESS_MOST];
  kiln_redis_address redis;
  if (begins(url, "http://") || begins(url, "https://")) return check_http(url, err);
  if (begins(url, "s3://") && access) return kiln_s3_address(url, access, objects, err);
  if (begins(url, "redis://") || begins(url, "rediss://")) {
    kiln_status status = kiln_redis_address_parse(url, &redis, err);
    memset(redis.password, 0, sizeof redis.password);
    return status;
  }
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                   "expected http://, https://, s3://BUCKET, redis:// or rediss://");
}
