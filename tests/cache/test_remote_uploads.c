// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests uploads to remote levels that wait, are interrupted, are refused, or are given up.
#include "tests/cache/servers.h"

enum { ENTRIES = 12 };

/// A helper that takes a second to start, as on a busy machine, takes every upload while the build runs.
TEST(remote, a_helper_that_starts_slowly_uploads) {
  const char *folder = kiln_test_folder();
  char url[64], program[300], text[600], root[300];
  snprintf(url, sizeof url, "http://127.0.0.1:%d", start_nginx(folder));
  snprintf(program, sizeof program, "%s/slow-remote", folder);
  snprintf(root, sizeof root, "%s/writer", folder);
  int size = snprintf(text, sizeof text, "#!/bin/sh\nsleep 1\nexec %s/bin/kiln-remote \"$@\"\n",
                      kiln_test_build_path());
  kiln_test_write(program, text, (size_t)size);
  CHECK_INT(chmod(program, 0700), 0);
  kiln_cache_config config = config_in(root);
  config.remote_program = program;
  config.remote_url = url;
  config.remote_ms = DEADLINE_MS;
  config.remote_write = true;
  kiln_cache *writer = open_with(&config);
  kiln_key a = key_of("a"), b = key_of("b");
  CHECK_INT(put_size(writer, &a, SIZE), KILN_OK);
  pause_ms(2000);
  CHECK_INT(put_size(writer, &b, SIZE), KILN_OK);
  wait_uploaded(writer, 2);
  kiln_cache_close(writer);
  kiln_key_deinit(&a);
  kiln_key_deinit(&b);
}

/// A helper that takes requests and never answers costs a few deadlines, not one for each look-up.
TEST(remote, a_helper_that_never_answers_costs_a_bounded_delay_once) {
  const char *folder = kiln_test_folder();
  char program[300], root[300];
  static const char text[] = "#!/bin/sh\nsleep 30 &\n"; // it holds the listening socket
  snprintf(program, sizeof program, "%s/mute-remote", folder);
  snprintf(root, sizeof root, "%s/reader", folder);
  kiln_test_write(program, text, sizeof text - 1);
  CHECK_INT(chmod(program, 0700), 0);
  kiln_cache_config config = config_in(root);
  config.remote_program = program;
  config.remote_url = "http://127.0.0.1:1";
  config.remote_ms = DEADLINE_MS;
  kiln_cache *reader = open_with(&config);
  int64_t start = now_ms();
  for (unsigned i = 0; i < 20; i++) {
    kiln_key key = key_number(i);
    CHECK_INT(get_size(reader, &key, SIZE), 0);
    kiln_key_deinit(&key);
  }
  int64_t took = now_ms() - start;
  if (took > ONCE_MS) FAIL("20 look-ups took %d ms, allowed are %d", (int)took, ONCE_MS);
  CHECK_INT(kiln_cache_counted(reader, KILN_OUTCOME_REMOTE_FAILED), 3);
  CHECK_INT(kiln_cache_counted(reader, KILN_OUTCOME_REMOTE_SKIPPED), 17);
  kiln_cache_close(reader);
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
  kiln_test_run(
      &out, "find %s/writer/v1/main.default/spool -type f | wc -l; rm -f %s/writer/v1/main.default/breaker-*",
      folder, folder);
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

/// What the server will never take is not tried for ever, and does not stand in the way of the rest.
TEST(remote, a_refused_body_does_not_stop_the_others) {
  enum { COUNT = 12, LARGE = 400000 };
  const char *folder = kiln_test_folder();
  char url[64], *out;
  snprintf(url, sizeof url, "http://127.0.0.1:%d", start_nginx_with(folder, "", "64k"));
  kiln_cache *writer = open_remote(folder, "writer", url, true);
  for (unsigned i = 0; i < COUNT; i++) {
    kiln_key key = key_number(i);
    uint64_t seed = i;
    uint8_t *bytes = malloc(LARGE); // nothing that packing makes small
    for (size_t k = 0; k < LARGE; k++) bytes[k] = (uint8_t)kiln_test_random(&seed);
    kiln_cache_content content = {.payload = {bytes, i % 2 ? 1000 : LARGE}};
    CHECK_INT(kiln_cache_put(writer, &key, &content, NULL), KILN_OK);
    free(bytes);
    kiln_key_deinit(&key);
  }
  wait_uploaded(writer, COUNT / 2);
  for (unsigned i = 0; i < 300; i++) { // the last ones may be large
    kiln_test_run(&out, "find %s/writer/v1/main.default/spool -type f | wc -l", folder);
    bool empty = !strcmp(out, "0\n");
    free(out);
    if (empty) break;
    if (i == 299) FAIL("what is refused stays in the spool");
    pause_ms(20);
  }
  CHECK_INT(in_stats(writer, KILN_OUTCOME_REMOTE_UNWANTED), COUNT / 2);
  kiln_cache_close(writer);
  kiln_test_run(&out, "ls %s/www/main/ac | wc -l", folder);
  CHECK_TEXT(out, "6\n");
  free(out);
}

/// `kiln cache push` says what a server will never take, and does not end well.
TEST(remote, push_says_what_is_refused) {
  const char *folder = kiln_test_folder();
  char url[64], *out;
  int port = free_port();
  snprintf(url, sizeof url, "http://127.0.0.1:%d", port);
  kiln_cache *writer = open_remote(folder, "writer", url, true);
  for (unsigned i = 0; i < 3; i++) {
    kiln_key key = key_number(i);
    uint64_t seed = i;
    uint8_t *bytes = malloc(SIZE * 100);
    for (size_t k = 0; k < SIZE * 100; k++) bytes[k] = (uint8_t)kiln_test_random(&seed);
    kiln_cache_content content = {.payload = {bytes, i ? SIZE * 100 : SIZE}};
    CHECK_INT(kiln_cache_put(writer, &key, &content, NULL), KILN_OK);
    free(bytes);
    kiln_key_deinit(&key);
  }
  kiln_cache_close(writer);
  pause_ms(300); // its kiln-remote gives up
  snprintf(url, sizeof url, "http://127.0.0.1:%d", start_nginx_with(folder, "", "16k"));
  int code = kiln_test_run(&out, "KILN_CACHE_DIR=%s/writer KILN_CACHE_REMOTE=%s %s/bin/kiln cache push",
                           folder, url, kiln_test_build());
  CHECK_TEXT(out, "1 uploaded, 2 will never be taken, 0 wait\n");
  CHECK_INT(code, 1);
  free(out);
}

/// Answers uploads: 500 where the body has RARE, 201 else, and forgets them.
static int start_picky(const char *rare) {
  int port, listening = listen_any(&port);
  if (fork_server()) {
    close(listening);
    return port;
  }
  for (;;) {
    static char request[1 << 16];
    size_t size = 0, want = 0;
    int fd = accept(listening, NULL, NULL);
    while (fd >= 0 && size < sizeof request - 1 && (!want || size < want)) {
      ssize_t got = recv(fd, request + size, sizeof request - 1 - size, 0);
      if (got <= 0) break;
      size += (size_t)got;
      request[size] = 0;
      char *end = strstr(request, "\r\n\r\n"), *length = strcasestr(request, "content-length: ");
      if (end && length) want = (size_t)(end + 4 - request) + (size_t)atoi(length + 16);
    }
    const char *answer = memmem(request, size, rare, strlen(rare))
                             ? "HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                             : "HTTP/1.1 201 Yes\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    send(fd, answer, strlen(answer), MSG_NOSIGNAL);
    close(fd);
  }
}

/// A server may always fail at one body, in a way that looks as if it could pass; the others go out. Nothing
/// is to run out: a server that is late is left alone for half a minute, and so is one on a busy machine.
TEST(remote, a_body_at_which_the_server_fails_does_not_stop_the_others) {
  enum { COUNT = 9, PATIENCE_MS = 20000 };
  static const char rare[] = "a body that it does not like";
  const char *folder = kiln_test_folder();
  for (unsigned bad = 0; bad < COUNT; bad += 4) { // folders are read in any order
    char url[64], name[16], command[600], *out;
    snprintf(url, sizeof url, "http://127.0.0.1:%d", start_picky(rare));
    snprintf(name, sizeof name, "writer%u", bad);
    kiln_cache *writer = open_remote_within(folder, name, url, true, PATIENCE_MS);
    for (unsigned i = 0; i < COUNT; i++) {
      kiln_key key = key_number(i);
      kiln_cache_content content = {
          .payload = {(const uint8_t *)(i == bad ? rare : "fine"), i == bad ? sizeof rare : 4}};
      CHECK_INT(kiln_cache_put(writer, &key, &content, NULL), KILN_OK);
      kiln_key_deinit(&key);
    }
    wait_uploaded(writer, COUNT - 1);
    kiln_cache_close(writer);
    snprintf(command, sizeof command, "cat $(find %s/%s/v1/main.default/spool -type f)", folder, name);
    kiln_test_run(&out, "%s | grep -ac '%s'", command, rare);
    CHECK_TEXT(out, "1\n");
    free(out);
    stop();
  }
}

/// However often it is tried, with nothing else to be uploaded in between.
TEST(remote, a_body_at_which_the_server_fails_is_one_failure) {
  enum { TRIES = 8, PATIENCE_MS = 20000 };
  static const char rare[] = "a body that it does not like";
  const char *folder = kiln_test_folder();
  char url[64];
  snprintf(url, sizeof url, "http://127.0.0.1:%d", start_picky(rare));
  kiln_cache *writer = open_remote_within(folder, "writer", url, true, PATIENCE_MS);
  for (unsigned i = 0; i <= TRIES; i++) {
    kiln_key key = key_number(i == TRIES);
    const char *body = i == TRIES ? "fine" : rare;
    kiln_cache_content content = {.payload = {(const uint8_t *)body, strlen(body)}};
    CHECK_INT(kiln_cache_put(writer, &key, &content, NULL), KILN_OK);
    kiln_key_deinit(&key);
    pause_ms(100); // a round of its own
  }
  wait_uploaded(writer, 1);
  kiln_cache_close(writer);
  stop();
}

/// What was listed weeks ago goes, however often its entry was used since; a wrong clock's listings go, too.
TEST(remote, uploads_expire_by_the_week_of_their_listing) {
  const char *folder = kiln_test_folder();
  char url[64], *out;
  snprintf(url, sizeof url, "http://127.0.0.1:%d", free_port());
  kiln_cache *writer = open_remote(folder, "writer", url, true);
  kiln_key key = key_of("a"), other = key_of("b");
  CHECK_INT(put_size(writer, &key, SIZE), KILN_OK);
  CHECK_INT(put_size(writer, &other, SIZE), KILN_OK);
  static const char move[] =
      "cd %s/writer/v1/main.default/spool && now=$(($(date +%%s) / 604800)) && "
      "for f in $now $((now - 1)); do [ ! -d $f ] || mv $f t; done && mv t $((now + %d))";
  static const struct {
    int weeks;
    bool stays;
  } rows[] = {{0, true}, {-1, true}, {-2, false}};
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
    CHECK_INT(kiln_test_run(NULL, move, folder, rows[i].weeks), 0);
    CHECK_INT(get_size(writer, &key, SIZE), 1);
    kiln_test_run(NULL, "touch %s/writer/v1/main.default/entries/*/*", folder); // used just now
    if (rows[i].stays) CHECK_INT(put_size(writer, &key, SIZE), KILN_OK);        // is listed once only
    kiln_cache_step(writer);
    kiln_test_run(&out, "find %s/writer/v1/main.default/spool -type f | wc -l", folder);
    CHECK_TEXT(out, rows[i].stays ? "2\n" : "0\n");
    free(out);
  }
  kiln_test_run(&out, "find %s/writer/v1/main.default/entries -type f -links 1 | wc -l", folder);
  CHECK_TEXT(out, "2\n"); // the entries themselves stay, and nothing pins them
  free(out);
  kiln_cache_close(writer);
  kiln_key_deinit(&key);
  kiln_key_deinit(&other);
}

/// `kiln cache push` says when everything is there, and what still waits.
TEST(remote, push_uploads_what_waits) {
  const char *folder = kiln_test_folder();
  char url[64], want[160], *out;
  snprintf(url, sizeof url, "http://127.0.0.1:%d", free_port());
  kiln_cache *writer = open_remote(folder, "writer", url, true);
  for (unsigned i = 0; i < ENTRIES; i++) {
    kiln_key key = key_number(i);
    CHECK_INT(put_size(writer, &key, SIZE), KILN_OK);
    kiln_key_deinit(&key);
  }
  kiln_cache_close(writer);
  pause_ms(300); // its kiln-remote gives up
  static const char push[] = "KILN_CACHE_DIR=%s/writer KILN_CACHE_REMOTE=%s %s/bin/kiln cache push %s";
  int64_t start = now_ms();
  CHECK_INT(kiln_test_run(&out, push, folder, url, kiln_test_build(), "--wait=1"), 1);
  snprintf(want, sizeof want, "0 uploaded, 12 wait\nkiln: note: %s: Could", url); // not: in libcurl's words
  CHECK_PART(out, want);
  free(out);
  CHECK(now_ms() - start >= 1000);
  snprintf(url, sizeof url, "redis://127.0.0.1:%d", start_redis(folder));
  CHECK_INT(kiln_test_run(&out, push, folder, url, kiln_test_build(), ""), 0);
  CHECK_TEXT(out, "12 uploaded, 0 wait\n");
  free(out);
  kiln_cache *reader = open_remote(folder, "reader", url, false);
  for (unsigned i = 0; i < ENTRIES; i++) {
    kiln_key key = key_number(i);
    CHECK_INT(get_size(reader, &key, SIZE), 1);
    kiln_key_deinit(&key);
  }
  kiln_cache_close(reader);
  CHECK_INT(kiln_test_run(&out, "KILN_CACHE_DIR=%s/writer %s/bin/kiln cache push", folder, kiln_test_build()),
            1);
  CHECK(strstr(out, "KILN_CACHE_REMOTE names no remote cache"));
  free(out);
}
