// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds the sources of `kiln tune` with all their configs for the device, then measures them.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/plural.h"
#include "base/stream.h"
#include "tools/case/replay.h"
#include "tools/tune/session.h"

// The target of code for the first device.
static kiln_status find_target(const tune_settings *s, char out[100], kiln_error *err) {
  char device[200];
  tune_reply where;
  snprintf(device, sizeof device, "%.*s", (int)strcspn(s->devices, ","), s->devices);
  KILN_TRY(tune_ask_device(device, &where, err));
  bool is_host = s->devices[0] == 'h' && s->devices[1] == 'o';
  snprintf(out, 100, "%s", is_host ? "host" : case_code_target(where.processor));
  return KILN_OK;
}

// Builds the sources with all configs; `only`: this kernel, NULL: all kernels.
static kiln_status build(const tune_settings *s, const char *target, const char *only, const char *path,
                         kiln_error *err) {
  char program[PATH_MAX], jobs[32];
  int status = 0;
  if (!cli_find_program("kiln", program, sizeof program, NULL) &&
      !cli_find_program("../../bin/kiln", program, sizeof program, NULL))
    return kiln_fail(err, KILN_STATUS_TOOL,
                     "kiln is not beside this program, so that sources cannot be built; give a bundle");
  const char **words =
      calloc(s->words.count + 2 * s->kernels.count + 2 * s->instances.count + 20, sizeof *words);
  if (!words) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  // One kernel after another is compiled while others are measured, which show their own progress.
  bool is_shown = !only && (s->progress || isatty(2));
  const char *fixed[] = {program, "build", "--tuning", "--keep-going", "-o", path, "-t", target};
  size_t n = sizeof fixed / sizeof *fixed;
  memcpy(words, fixed, sizeof fixed);
  if (!is_shown) words[n++] = "-q";
  snprintf(jobs, sizeof jobs, "%lld", (long long)s->jobs);
  if (s->jobs > 0) words[n++] = "-j", words[n++] = jobs;
  if (s->cache_folder) words[n++] = "--cache-dir", words[n++] = s->cache_folder;
  if (s->key) words[n++] = "--key", words[n++] = s->key;
  if (s->post) words[n++] = "--sign", words[n++] = s->sign_key; // what is posted is signed: of trusted parts
  if (only) words[n++] = "-k", words[n++] = only;
  for (size_t i = 0; i < s->kernels.count; i++) words[n++] = "-k", words[n++] = s->kernels.items[i];
  for (size_t i = 0; i < s->instances.count; i++) words[n++] = "-i", words[n++] = s->instances.items[i];
  for (size_t i = 0; i < s->words.count; i++) words[n++] = s->words.items[i];
  uint64_t begin = cli_now_ns();
  if (is_shown)
    fprintf(stderr, "kiln: tune: compiling %zu source%s with all configs for %s\n", s->words.count,
            kiln_plural(s->words.count), target);
  fflush(NULL);
  pid_t pid = fork();
  if (!pid) {
    int nowhere = open("/dev/null", O_WRONLY); // its sum names a file that is gone soon
    if (nowhere >= 0) dup2(nowhere, 1);
    execv(program, (char **)(uintptr_t)words);
    _exit(127);
  }
  if (pid > 0)
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
  free(words);
  if (is_shown) fprintf(stderr, "kiln: tune: compiled in %.1f s\n", (double)(cli_now_ns() - begin) / 1e9);
  // A config that does not compile is no candidate; its message is above.
  return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) <= CLI_FAILED && !access(path, R_OK)
             ? KILN_OK
             : kiln_fail(err, KILN_STATUS_TOOL, "the sources were not built (the message is above)");
}

static int tune_whole(const tune_settings *s, const char *target, const char *folder) {
  char path[PATH_MAX];
  kiln_error err = {0};
  snprintf(path, sizeof path, "%s/all.kbundle", folder);
  kiln_status status = build(s, target, NULL, path, &err);
  int code = status != KILN_OK ? cli_report(status, &err)
             : s->post         ? tune_post(s, path)
                               : tune_bundle(s, path);
  unlink(path);
  return code;
}

// ------------------------------------------------------------------------- one kernel after another

enum { MOST_PARTS = 256 };

// The kernels of the shapes in order of the lines.
typedef struct parts {
  kiln_arena *arena; // owned
  const char *names[MOST_PARTS];
  uint32_t count;
} parts;

static void add_part(parts *p, const char *name) {
  for (uint32_t i = 0; i < p->count; i++)
    if (!strcmp(p->names[i], name)) return;
  if (p->count < MOST_PARTS) p->names[p->count++] = name;
}

// Errors in the shapes are reported when they are measured.
static void find_parts(const tune_settings *s, parts *out) {
  kiln_buffer text = {0};
  kiln_tuned_place place;
  kiln_error unseen;
  tune_shape *shapes;
  uint32_t count = 0;
  out->arena = kiln_arena_create();
  if (tune_shapes_text(s, &text, &unseen) != KILN_OK ||
      tune_shapes_read(out->arena, s->shapes, (const char *)text.bytes, text.size, &shapes, &count, &place,
                       &unseen) != KILN_OK)
    count = 0;
  for (uint32_t i = 0; i < count; i++) add_part(out, shapes[i].kernel);
  kiln_buffer_deinit(&text);
}

static void part_path(const char *folder, uint32_t part, char out[PATH_MAX]) {
  snprintf(out, PATH_MAX, "%s/part%u.kbundle", folder, part);
}

// Builds one part after another and reports each through the pipe; ends with the first that fails.
static void build_parts(const tune_settings *s, const char *target, const parts *p, const char *folder,
                        int to) {
  for (uint32_t i = 0; i < p->count; i++) {
    char path[PATH_MAX];
    kiln_error err = {0};
    part_path(folder, i, path);
    kiln_status status = build(s, target, p->names[i], path, &err);
    uint8_t is_there = status == KILN_OK;
    if (!is_there) cli_report(status, &err);
    if (!kiln_stream_write(to, &is_there, 1) || !is_there) break;
  }
  fflush(NULL);
  _exit(0);
}

static int measure_parts(const tune_settings *s, const parts *p, const char *folder, int from) {
  int code = CLI_OK;
  for (uint32_t i = 0; i < p->count; i++) {
    char path[PATH_MAX];
    uint8_t is_there = 0;
    tune_settings own = *s;
    part_path(folder, i, path);
    own.only = p->names[i];
    bool is_told = kiln_stream_read(from, &is_there, 1) == 1 && is_there;
    int this = is_told ? tune_bundle(&own, path) : CLI_FAILED;
    unlink(path);
    if (this != CLI_OK) code = this;
    if (!is_told) break;
  }
  return code;
}

// While one kernel is measured the next ones are compiled.
static int tune_parts(const tune_settings *s, const char *target, const parts *p, const char *folder) {
  int ends[2], status;
  kiln_error err = {0};
  if (pipe2(ends, O_CLOEXEC)) {
    kiln_status why = kiln_fail(&err, kiln_status_of_errno(errno), "pipe: %s", strerror(errno));
    return cli_report(why, &err);
  }
  fflush(NULL);
  pid_t pid = fork();
  if (!pid) {
    close(ends[0]);
    build_parts(s, target, p, folder, ends[1]);
  }
  close(ends[1]);
  int code = pid < 0 ? tune_whole(s, target, folder) : measure_parts(s, p, folder, ends[0]);
  close(ends[0]);
  if (pid > 0)
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
  return code;
}

// On a host, compiling would take processors from the measured kernels; a page and a gate sum up all kernels,
// and recorded shapes may be of other sources.
static bool may_overlap(const tune_settings *s) {
  return strncmp(s->devices, "host", 4) && s->shapes && !s->record && !s->html && !s->gate && !s->post &&
         !s->kernels.count;
}

int tune_sources(const tune_settings *s) {
  char folder[] = "/tmp/kiln-tune-XXXXXX", target[100];
  kiln_error err = {0};
  parts p = {0};
  kiln_status status = find_target(s, target, &err);
  if (status != KILN_OK) return cli_report(status, &err);
  if (!mkdtemp(folder)) {
    status = kiln_fail(&err, kiln_status_of_errno(errno), "%s: %s", folder, strerror(errno));
    return cli_report(status, &err);
  }
  if (may_overlap(s)) find_parts(s, &p);
  int code = p.count ? tune_parts(s, target, &p, folder) : tune_whole(s, target, folder);
  if (p.arena) kiln_arena_destroy(p.arena);
  rmdir(folder);
  return code;
}

// ------------------------------------------------------------------------------------------- cases

// Each case is a source of its own and the shape.
int tune_cases(const tune_settings *s) {
  int code = CLI_OK;
  for (size_t i = 0; i < s->cases.count; i++) {
    char folder[] = "/tmp/kiln-case-XXXXXX", path[sizeof folder + 20];
    tune_settings own = *s;
    kiln_error err = {0};
    const char *word = path;
    own.case_folder = s->cases.items[i];
    own.words = (cli_list){.items = &word, .count = 1};
    if (!mkdtemp(folder)) {
      kiln_status status = kiln_fail(&err, kiln_status_of_errno(errno), "%s: %s", folder, strerror(errno));
      return cli_report(status, &err);
    }
    snprintf(path, sizeof path, "%s/kernel.ttir", folder);
    kiln_status status = tune_case_source(own.case_folder, folder, &err);
    int this = status == KILN_OK ? tune_sources(&own) : cli_report(status, &err);
    unlink(path);
    snprintf(path, sizeof path, "%s/kernel.json", folder);
    unlink(path);
    rmdir(folder);
    if (this != CLI_OK) code = this;
  }
  return code;
}
