// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The finished bundle: packed by kiln-tool from what a plan made, and kept in the cache as an artifact of its
// own. Its key is what the bundle is made of (kernels, keys of objects, notes), how it is packed, and by
// whom.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/output.h"
#include "base/stream.h"
#include "cache/bundle/manifest.h"
#include "tools/common/key_file.h"
#include "tools/kiln/session.h"
#include "tools/kiln/tuning.h"

/// Kernels are numbered in the manifest by source and instance.
static void add_kernels(const plan *p, kiln_buffer *out, uint32_t *numbers) {
  uint32_t next = 0;
  for (size_t i = 0; i < p->job_count; i++) {
    const plan_job *job = &p->jobs[i];
    const plan_job *previous = i ? job - 1 : NULL;
    if (!previous || previous->source != job->source || previous->instance != job->instance) {
      kiln_buffer record = {0};
      const kiln_interface *interface = plan_interface(p, job);
      kiln_interface_encode(interface, &record);
      kiln_manifest_kernel(out, interface->name, record.bytes, record.size);
      kiln_buffer_deinit(&record);
      next++;
    }
    numbers[i] = next - 1;
  }
}

/// What the writer reads. `by_key`: the same with each object's key in place of its bytes.
static void write_manifest(const plan *p, bool by_key, kiln_buffer *out) {
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

enum { MOST_WORDS = 16 };

/// The command line of the writer, which writes to its standard output.
static void writer_words(const session *s, const session_bundle *how, const char *program,
                         const char *out[MOST_WORDS]) {
  const struct {
    const char *option, *value;
  } rows[] = {{"--name", how->output},
              {"--level", how->level},
              {"--dictionary", how->dictionary},
              {"--sign", how->sign},
              {"--max-size", how->max_size}};
  unsigned at = 0;
  out[at++] = program, out[at++] = "bundle-write", out[at++] = "-o", out[at++] = "-";
  if (s->quiet) out[at++] = "--quiet";
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].value) out[at++] = rows[i].option, out[at++] = rows[i].value;
  out[at] = NULL;
}

static void run_writer(const identity_tool *tool, const char *const *words, const int in[2],
                       const int out[2]) {
  char open_file[40];
  snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", tool->fd);
  dup2(in[0], 0);
  dup2(out[1], 1);
  execv(open_file, (char **)(uintptr_t)words);
  execv(tool->path, (char **)(uintptr_t)words); // where there is no /proc
  _exit(127);
}

/// Everything up to the end of `fd`. False when memory or reading fails.
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

/// Has kiln-tool pack the manifest.
static kiln_status pack(const session *s, const session_bundle *how, const identity_tool *tool,
                        kiln_buffer *bundle, kiln_error *err) {
  const char *words[MOST_WORDS];
  kiln_buffer manifest = {0};
  int in[2], out[2], code = 0;
  if (pipe2(in, O_CLOEXEC)) return kiln_fail(err, kiln_status_of_errno(errno), "pipe: %s", strerror(errno));
  if (pipe2(out, O_CLOEXEC)) {
    close(in[0]), close(in[1]);
    return kiln_fail(err, kiln_status_of_errno(errno), "pipe: %s", strerror(errno));
  }
  writer_words(s, how, tool->path, words);
  write_manifest(&s->plan, false, &manifest);
  signal(SIGPIPE, SIG_IGN); // a writer that ended says why by its exit code
  fflush(NULL);
  pid_t pid = fork();
  if (!pid) run_writer(tool, words, in, out);
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

static kiln_status deliver(const session_bundle *how, const void *bytes, size_t size, kiln_error *err) {
  KILN_TRY(cli_write_file(how->output, bytes, size, err));
  if (strcmp(how->output, "-")) kiln_output_clean(how->output);
  return KILN_OK;
}

// ------------------------------------------------------------------------------------------ its key

/// Who signs, as the public half of the key; "" for an unsigned bundle.
static kiln_status signer(const session_bundle *how, char out[2 * KEY_FILE_PUBLIC + 1], kiln_error *err) {
  uint8_t secret[KEY_FILE_SECRET];
  *out = 0;
  if (!how->sign) return KILN_OK;
  KILN_TRY(key_file_secret(how->sign, secret, err));
  const uint8_t *public_half = secret + KEY_FILE_SECRET - KEY_FILE_PUBLIC;
  for (unsigned i = 0; i < KEY_FILE_PUBLIC; i++) snprintf(out + 2 * i, 3, "%02x", public_half[i]);
  memset(secret, 0, sizeof secret);
  return KILN_OK;
}

// What is said of a bundle follows from the history of the choices, too.
static void add_table(kiln_key_builder *b, const session *s) {
  char hex[KILN_DIGEST_HEX + 1];
  kiln_buffer text = {0};
  kiln_buffer_text(&text, s->plan.tuned_path);
  kiln_buffer_u8(&text, s->tuned_strict);
  kiln_tuner_table_write(s->plan.tuned, &text);
  kiln_digest digest = kiln_digest_of(text.bytes, text.size);
  kiln_digest_hex(&digest, hex);
  kiln_key_named_text(b, KILN_FIELD_OPTION, "tuned", hex);
  kiln_buffer_deinit(&text);
}

static kiln_status bundle_key(const session *s, const session_bundle *how, const identity_tool *tool,
                              kiln_key *out, kiln_error *err) {
  char name[64], signed_by[2 * KEY_FILE_PUBLIC + 1];
  kiln_buffer made_of = {0};
  kiln_key_builder b;
  KILN_TRY(signer(how, signed_by, err));
  write_manifest(&s->plan, true, &made_of);
  kiln_digest digest = kiln_digest_of(made_of.bytes, made_of.size);
  bool failed = made_of.failed;
  kiln_buffer_deinit(&made_of);
  if (failed) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for a key");
  snprintf(name, sizeof name, "bundle of %zu objects", s->plan.job_count);
  kiln_key_begin(&b, KILN_KEY_BUNDLE);
  kiln_key_bytes(&b, KILN_FIELD_IR, digest.bytes, sizeof digest.bytes);
  kiln_key_text(&b, KILN_FIELD_SYMBOL, name);
  kiln_key_text(&b, KILN_FIELD_FORMAT, "kbundle");
  kiln_key_named_text(&b, KILN_FIELD_OPTION, "level", how->level ? how->level : "3");
  kiln_key_named_text(&b, KILN_FIELD_OPTION, "dictionary", how->dictionary ? how->dictionary : "auto");
  kiln_key_named_text(&b, KILN_FIELD_OPTION, "max-size", how->max_size ? how->max_size : "");
  kiln_key_named_text(&b, KILN_FIELD_OPTION, "signer", signed_by);
  if (s->plan.tuned) add_table(&b, s);
  kiln_key_bytes(&b, KILN_FIELD_COMPILER, tool->digest.bytes, KILN_DIGEST_SIZE);
  kiln_status status = kiln_key_finish(&b, out, err);
  kiln_key_builder_deinit(&b);
  return status;
}

// --------------------------------------------------------------------------------- making and finding

/// Keeps a bundle whose objects are all in it and are what their keys say. What does not work costs the next
/// build time, no more.
static void keep(session *s, const session_bundle *how, identity_tool *tool, const kiln_buffer *bundle,
                 uint64_t cost) {
  kiln_key key;
  kiln_buffer notes = {0};
  for (size_t i = 0; i < s->plan.job_count; i++) {
    if (s->plan.jobs[i].state == JOB_FAILED || s->plan.jobs[i].is_foreign) return;
    cost += s->plan.jobs[i].cost_ns;
  }
  if (!identity_tool_holds(tool) || bundle_key(s, how, tool, &key, NULL) != KILN_OK) return;
  session_notes(s, &notes);
  kiln_cache_content content = {.diagnostics = {notes.bytes, notes.size},
                                .payload = {bundle->bytes, bundle->size},
                                .cost_ns = cost,
                                .here_only = true}; // no other machine asks for it
  (void)kiln_cache_put(s->cache, &key, &content, NULL);
  kiln_buffer_deinit(&notes);
  kiln_key_deinit(&key);
}

kiln_status session_write_bundle(session *s, const session_bundle *how, kiln_error *err) {
  identity_tool tool;
  kiln_buffer bundle = {0};
  uint64_t start = cli_now_ns();
  KILN_TRY(identity_tool_open(&tool, "kiln-tool", s->cache, err));
  kiln_status status = pack(s, how, &tool, &bundle, err);
  if (status == KILN_OK) status = deliver(how, bundle.bytes, bundle.size, err);
  if (status == KILN_OK && s->cache) keep(s, how, &tool, &bundle, cli_now_ns() - start);
  kiln_buffer_deinit(&bundle);
  close(tool.fd);
  return status;
}

/// The objects that are in a bundle that was found were used, too.
static void touch_objects(session *s, work_sums *sums) {
  for (size_t i = 0; i < s->plan.job_count; i++) {
    s->plan.jobs[i].state = JOB_HIT;
    kiln_cache_touch(s->cache, &s->plan.jobs[i].key.digest);
  }
  sums->hits = s->plan.job_count;
}

bool session_reuse_bundle(session *s, const session_bundle *how, work_sums *sums) {
  identity_tool tool;
  kiln_key key;
  kiln_cache_entry entry;
  kiln_error err = {0};
  memset(sums, 0, sizeof *sums);
  if (!s->cache || s->force || s->verify) return false;
  if (identity_tool_open(&tool, "kiln-tool", s->cache, &err) != KILN_OK) return false;
  bool found = bundle_key(s, how, &tool, &key, &err) == KILN_OK;
  close(tool.fd);
  if (!found) return false;
  found = kiln_cache_contains(s->cache, &key.digest) && kiln_cache_get(s->cache, &key, &entry);
  kiln_key_deinit(&key);
  if (!found) return false;
  found = deliver(how, entry.content.payload.bytes, entry.content.payload.size, &err) == KILN_OK;
  if (found) {
    if (!s->quiet) fwrite(entry.content.diagnostics.bytes, 1, entry.content.diagnostics.size, stderr);
    touch_objects(s, sums);
  }
  kiln_cache_entry_deinit(&entry);
  return found;
}
