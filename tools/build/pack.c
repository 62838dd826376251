// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes the finished bundle: kiln-tool packs it from what a plan made.
#include "tools/build/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/env.h"
#include "base/expr.h"
#include "base/launches.h"
#include "base/output.h"
#include "base/sizes.h"
#include "base/stream.h"
#include "cache/bundle/manifest.h"
#include "tools/build/tuning.h"
#include "tools/common/dictionary.h"

int session_check_bundle(const cli_page *page, const session_bundle *how) {
  kiln_bundle_dictionary which;
  if (!how->dictionary || dictionary_parse(how->dictionary, &which)) return -1;
  return cli_usage(page, "--dictionary: expected auto, none, small or large, found '%s'", how->dictionary);
}

/// Whether something of the instance that begins with this job was made. --keep-going leaves out the others.
static bool has_code(const plan *p, size_t first) {
  const plan_job *one = &p->jobs[first];
  for (size_t i = first; i < p->job_count; i++) {
    const plan_job *job = &p->jobs[i];
    if (job->source != one->source || job->instance != one->instance) return false;
    if (job->state != JOB_FAILED) return true;
  }
  return false;
}

/// A note about the kernel, unless it is empty. Ends `text`.
static void add_note(const char *prefix, const kiln_interface *in, kiln_buffer *text, kiln_buffer *out) {
  kiln_buffer key = {0};
  kiln_buffer_format(&key, "%s%s", prefix, in->name);
  kiln_buffer_u8(&key, 0);
  kiln_buffer_u8(text, 0);
  if (text->size > 1) kiln_manifest_note(out, (const char *)key.bytes, (const char *)text->bytes);
  kiln_buffer_deinit(text);
  kiln_buffer_deinit(&key);
}

/// What the kernel states of the sizes of its buffers: base/sizes.h.
static void add_sizes(const kiln_interface *in, kiln_buffer *out) {
  kiln_buffer lines = {0};
  char text[512];
  const char **names = calloc(in->param_count + 1, sizeof *names);
  if (!names) abort();
  for (uint32_t i = 0; i < in->param_count; i++) names[i] = in->params[i].name;
  for (uint32_t i = 0; i < in->param_count; i++) {
    const kiln_span code = in->params[i].needs;
    if (!code.size) continue;
    kiln_buffer_format(&lines, "%s%s ", lines.size ? "\n" : "", names[i]);
    kiln_expr_to_hex(code.bytes, code.size, &lines);
    kiln_buffer_format(&lines, " %s",
                       kiln_expr_text(code.bytes, code.size, names, in->param_count, text, sizeof text));
  }
  add_note(KILN_SIZES_PREFIX, in, &lines, out);
  free(names);
}

/// What may be launched in place of the kernel: base/launches.h.
static void add_launches(const kiln_interface *in, kiln_buffer *out) {
  kiln_buffer lines = {0};
  if (in->launch_count) kiln_launches_encode(in, &lines);
  add_note(KILN_LAUNCHES_PREFIX, in, &lines, out);
}

/// Kernels are numbered in the manifest by source and instance.
static void add_kernels(const plan *p, kiln_buffer *out, uint32_t *numbers) {
  uint32_t next = 0;
  for (size_t i = 0; i < p->job_count; i++) {
    const plan_job *job = &p->jobs[i];
    const plan_job *previous = i ? job - 1 : NULL;
    bool begins = !previous || previous->source != job->source || previous->instance != job->instance;
    if (begins && has_code(p, i)) {
      kiln_buffer record = {0};
      const kiln_interface *interface = plan_interface(p, job);
      kiln_interface_encode(interface, &record);
      add_sizes(interface, out);
      add_launches(interface, out);
      kiln_manifest_kernel(out, interface->name, record.bytes, record.size);
      kiln_buffer_deinit(&record);
      next++;
    }
    numbers[i] = next - 1;
  }
}

void pack_manifest(const plan *p, bool by_key, kiln_buffer *out) {
  uint32_t *numbers = calloc(p->job_count + 1, sizeof *numbers);
  char target[KILN_TARGET_NAME];
  if (!numbers) abort();
  kiln_manifest_begin(out);
  kiln_manifest_note(out, "kiln", KILN_VERSION);
  kiln_manifest_note(out, "compiler", p->who.compiler.text);
  if (p->who.assembler.text[0]) kiln_manifest_note(out, "assembler", p->who.assembler.text);
  tuning_notes(p, out);
  add_kernels(p, out, numbers);
  for (size_t i = 0; i < p->job_count; i++) {
    const plan_job *job = &p->jobs[i];
    if (job->state == JOB_FAILED) continue;
    kiln_target_name(&p->targets[job->target], target);
    if (by_key)
      kiln_manifest_code(out, numbers[i], job->config, job->variant, target, "", 0, job->key.digest.bytes,
                         KILN_DIGEST_SIZE);
    else
      kiln_manifest_code(out, numbers[i], job->config, job->variant, target, job->info.bytes, job->info.size,
                         job->code.bytes, job->code.size);
  }
  kiln_manifest_end(out);
  free(numbers);
}

// --------------------------------------------------------------------------------------- the writer

enum { MOST_WORDS = 16, NUMBER = 24 };

typedef struct command_line {
  const char *words[MOST_WORDS];
  char level[NUMBER], max_size[NUMBER];
} command_line;

/// The command line of the writer, which writes to its standard output.
static void writer_words(const session *s, const session_bundle *how, const char *program,
                         command_line *line) {
  const char **out = line->words;
  snprintf(line->level, NUMBER, "%" PRId64, how->level);
  snprintf(line->max_size, NUMBER, "%" PRId64, how->max_size);
  const struct {
    const char *option, *value;
  } rows[] = {{"--name", how->output},
              {"--level", how->level ? line->level : NULL},
              {"--dictionary", how->dictionary},
              {"--sign", how->sign},
              {"--max-size", how->max_size ? line->max_size : NULL}};
  unsigned at = 0;
  out[at++] = program, out[at++] = "bundle-write", out[at++] = "-o", out[at++] = "-";
  if (s->quiet) out[at++] = "--quiet";
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].value) out[at++] = rows[i].option, out[at++] = rows[i].value;
  out[at] = NULL;
}

static void run_writer(const toolchain_program *tool, const char *const *words, const int in[2],
                       const int out[2]) {
  char open_file[40], *clean[KILN_ENV_MOST + 1];
  snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", tool->fd);
  dup2(in[0], 0);
  dup2(out[1], 1);
  kiln_env_for(KILN_ENV_HELPER, environ, clean);
  execve(open_file, (char **)(uintptr_t)words, clean);
  execve(tool->path, (char **)(uintptr_t)words, clean); // where there is no /proc
  fprintf(stderr, "kiln: error: cannot run %s: %s\n", tool->path, strerror(errno));
  _exit(127);
}

/// Reads `fd` to its end. False when memory or reading fails.
static bool read_all(int fd, kiln_buffer *out) {
  for (;;) {
    enum { PIECE = 1 << 16 };
    if (!kiln_buffer_reserve(out, PIECE)) return false;
    ssize_t got = read(fd, out->bytes + out->size, PIECE);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    out->size += (size_t)got;
  }
}

kiln_status pack_bundle(const session *s, const session_bundle *how, const toolchain_program *tool,
                        kiln_buffer *bundle, kiln_error *err) {
  command_line line;
  kiln_buffer manifest = {0};
  int in[2], out[2], code = 0;
  if (pipe2(in, O_CLOEXEC)) return kiln_fail(err, kiln_status_of_errno(errno), "pipe: %s", strerror(errno));
  if (pipe2(out, O_CLOEXEC)) {
    close(in[0]), close(in[1]);
    return kiln_fail(err, kiln_status_of_errno(errno), "pipe: %s", strerror(errno));
  }
  writer_words(s, how, tool->path, &line);
  pack_manifest(&s->plan, false, &manifest);
  signal(SIGPIPE, SIG_IGN); // a writer that ended says why by its exit code
  fflush(NULL);
  pid_t pid = fork();
  if (!pid) run_writer(tool, line.words, in, out);
  int e = errno;
  close(in[0]), close(out[1]);
  if (pid > 0) kiln_stream_write(in[1], manifest.bytes, manifest.size);
  close(in[1]);
  kiln_buffer_deinit(&manifest);
  bool whole = pid > 0 && read_all(out[0], bundle);
  close(out[0]);
  if (pid < 0) return kiln_fail(err, KILN_STATUS_TOOL, "cannot run %s: %s", tool->path, strerror(e));
  while (waitpid(pid, &code, 0) < 0)
    if (errno != EINTR)
      return kiln_fail(err, KILN_STATUS_TOOL, "waiting for %s: %s", tool->path, strerror(errno));
  if (code || !whole)
    return kiln_fail(err, KILN_STATUS_TOOL, "writing %s failed (its message is above)", how->output);
  return KILN_OK;
}

kiln_status pack_write(const session_bundle *how, const void *bytes, size_t size, kiln_error *err) {
  KILN_TRY(cli_write_file(how->output, bytes, size, err));
  if (strcmp(how->output, "-")) kiln_output_clean(how->output);
  return KILN_OK;
}
