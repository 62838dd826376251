// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches configs in a child process, so that a crash or a hang costs only that config.
#include "tools/tune/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/stream.h"
#include "base/tuned.h"
#include "cache/bundle/writer.h"
#include "tools/common/cli.h"
#include "tools/run/bounds.h"
#include "tools/tune/timer.h"

enum { ACCESS_IN = 1, ACCESS_OUT = 2, ACCESS_ACCUM = 4, ALIGNMENT = 256, POISON = 0xff };

// ----------------------------------------------------------------------------------------- subject

static size_t room_of(const run_value *v) { return (v->size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static size_t whole_of(const tune_subject *s) {
  size_t size = 0;
  for (size_t i = 0; i < s->count; i++) size += room_of(&s->values[i]);
  return size + ALIGNMENT;
}

// Both halves of the file are mapped at once: `want`, then `got`.
static kiln_status map_shared(tune_subject *s, int file, kiln_error *err) {
  size_t size = whole_of(s), at = 0;
  void *memory = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  s->at = calloc(s->count + 1, sizeof *s->at);
  if (memory != MAP_FAILED) s->want = memory, s->got = s->want + size;
  if (!s->at || !s->want)
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for twice %zu bytes", size);
  for (size_t i = 0; i < s->count; i++) {
    s->at[i] = at;
    at += room_of(&s->values[i]);
  }
  return KILN_OK;
}

void tune_subject_deinit(tune_subject *s) {
  if (s->want) munmap(s->want, 2 * whole_of(s));
  free(s->at);
  for (size_t i = 0; i < s->count; i++) run_value_deinit(&s->values[i]);
  free(s->values);
  *s = (tune_subject){0};
}

bool tune_subject_is_judged(const tune_subject *s, size_t index) {
  const run_value *v = &s->values[index];
  return v->bytes && (s->after || v->param.access != ACCESS_IN);
}

void tune_subject_contents(const tune_subject *s, size_t index, uint8_t *out) {
  const run_value *v = &s->values[index];
  if (s->after) memcpy(out, v->bytes, v->size); // what is not written must be as it was
  else if (v->param.access == ACCESS_OUT) memset(out, POISON, v->size);
  else if (v->param.access == ACCESS_ACCUM) memset(out, 0, v->size);
  else memcpy(out, v->bytes, v->size);
}

// ----------------------------------------------------------------------------------------- process

// A config of the kernel. Loaded ones stay for the next subjects of the same kernel.
typedef struct opened {
  kiln_buffer override; // a bundle in memory that chooses it
  kiln_library *library;
  kiln_device *device;
  kiln_kernel *kernel;
  // For the arguments of the subject.
  kiln_prepared *prepared;
  kiln_choice choice;
} opened;

typedef struct process {
  const tune_worker *worker;
  kiln_library *library;
  kiln_device *device; // stays open, and with it the context of a GPU
  tune_timer *timer;
  const kiln_interface *interface; // whose configs are loaded
  opened *configs;
  // For the subject of the last task.
  bool has_subject;
  tune_subject subject;
  void **fresh; // one a value: what it holds before a launch, as memory of the device; NULL: it is copied
                // from this process
  tune_restore *restores;
  size_t restore_count;
} process;

// Makes a bundle without codes whose only choice is this config for all arguments.
static kiln_status make_override(const tune_subject *s, uint32_t config, kiln_buffer *out, kiln_error *err) {
  kiln_buffer types = {0}, note = {0};
  char key[KILN_TUNED_NOTE];
  kiln_interface_types(s->interface, &types);
  kiln_buffer_u8(&types, 0);
  kiln_tuned_entry entry = {.texts = {[KILN_TUNED_KERNEL] = s->interface->name,
                                      [KILN_TUNED_TYPES] = (const char *)types.bytes,
                                      [KILN_TUNED_PRODUCT] = "*",
                                      [KILN_TUNED_PROCESSOR] = "*",
                                      [KILN_TUNED_UNITS] = "0",
                                      [KILN_TUNED_CONFIG] = s->interface->configs[config].text}};
  kiln_tuned_write_head(KILN_TUNED_WITHOUT_HISTORY, &note);
  kiln_tuned_write(&entry, KILN_TUNED_WITHOUT_HISTORY, &note);
  kiln_buffer_u8(&note, 0);
  kiln_bundle_writer *w = kiln_bundle_writer_create();
  kiln_bundle_options options = {.level = 1, .dictionary = KILN_BUNDLE_DICTIONARY_NONE};
  kiln_status status = w && kiln_tuned_note_key(s->interface->name, key)
                           ? kiln_bundle_writer_note(w, key, (const char *)note.bytes, err)
                           : kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  if (status == KILN_OK) status = kiln_bundle_writer_build(w, &options, out, NULL, err);
  kiln_bundle_writer_destroy(w);
  kiln_buffer_deinit(&types);
  kiln_buffer_deinit(&note);
  return status;
}

static kiln_status open_device(process *p, kiln_error *err) {
  kiln_source source = {.path = p->worker->bundle};
  kiln_open_options options = {
      .size = sizeof options, .sources = &source, .source_count = source.path != NULL};
  KILN_TRY(kiln_open(&options, &p->library, err));
  return kiln_device_open(p->library, p->worker->device, &p->device, err);
}

// The contents of the value before a launch, in memory of this process.
static const uint8_t *contents_of(const tune_subject *s, size_t index) {
  uint8_t *got = s->got + s->at[index];
  if (!tune_subject_is_judged(s, index)) return s->values[index].bytes;
  tune_subject_contents(s, index, got);
  return got;
}

static bool is_changed(const tune_subject *s, size_t index) {
  const run_value *v = &s->values[index];
  return s->after ? memcmp(v->bytes, s->after[index], v->size) != 0 : v->param.access > ACCESS_OUT;
}

static run_guard guard_of(const tune_subject *s) { return s->is_host ? RUN_GUARD_PAGES : RUN_GUARD_ZONES; }

// Keeps a copy of the initial contents on the device, if it can copy by itself: required for restored
// buffers, for the others if there is room.
static kiln_status keep_initial_copy(process *p, size_t index, kiln_error *err) {
  size_t size = p->subject.values[index].size;
  if (!tune_timer_copies(p->timer)) return KILN_OK;
  kiln_status status = kiln_alloc(p->device, size + 1, &p->fresh[index], err);
  if (status != KILN_OK) return is_changed(&p->subject, index) ? status : KILN_OK;
  return kiln_copy_in(p->device, p->fresh[index], contents_of(&p->subject, index), size, err);
}

// Adds the contents of a buffer that a launch changes, to be restored before each measured launch.
static kiln_status add_restore(process *p, size_t index, kiln_error *err) {
  run_value *v = &p->subject.values[index];
  const void *from = p->fresh[index];
  if (!from) {
    uint8_t *copy = malloc(v->size + 1);
    if (!copy) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
    tune_subject_contents(&p->subject, index, copy);
    from = copy;
  }
  p->restores[p->restore_count++] = (tune_restore){v->memory.at, from, v->size};
  return KILN_OK;
}

static void close_config(opened *o) {
  kiln_prepared_free(o->prepared);
  kiln_device_close(o->device);
  kiln_close(o->library);
  kiln_buffer_deinit(&o->override);
  *o = (opened){0};
}

static void close_configs(process *p) {
  for (uint32_t c = 0; p->configs && c < p->interface->config_count; c++) close_config(&p->configs[c]);
  free(p->configs);
  p->configs = NULL;
  p->interface = NULL;
}

static void close_subject(process *p) {
  for (uint32_t c = 0; p->configs && c < p->interface->config_count; c++) {
    kiln_prepared_free(p->configs[c].prepared);
    p->configs[c].prepared = NULL;
  }
  if (p->timer) tune_timer_restore(p->timer, NULL, 0);
  for (size_t i = 0; i < p->restore_count; i++)
    if (!tune_timer_copies(p->timer)) free((void *)(uintptr_t)p->restores[i].from);
  for (size_t i = 0; p->fresh && i < p->subject.count; i++)
    if (p->fresh[i]) kiln_free(p->device, p->fresh[i]);
  free(p->fresh);
  free(p->restores);
  tune_subject_deinit(&p->subject);
  p->fresh = NULL;
  p->restores = NULL;
  p->restore_count = 0;
  p->has_subject = false;
}

// With the code that a launch without tuning takes.
static kiln_status check_values(const process *p, const tune_subject *s, kiln_error *err) {
  run_call call = {.device = p->device,
                   .name = s->interface->name,
                   .values = s->values,
                   .count = s->count,
                   .guard = guard_of(s),
                   .grid = s->grid};
  kiln_choice usual;
  KILN_TRY(kiln_kernel_get(p->device, call.name, NULL, &call.kernel, err));
  call.size = kiln_block_size(call.kernel);
  call.block = calloc(1, call.size + 1);
  if (!call.block) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  kiln_status status = run_call_begin(&call, &usual, err);
  if (status == KILN_OK) status = run_call_find_outside(&call, &usual, err);
  free(call.block);
  return status;
}

static kiln_status open_subject(process *p, uint32_t number, bool is_checked, kiln_error *err) {
  tune_subject *s = &p->subject;
  KILN_TRY(p->worker->make(p->worker->context, number, s, err));
  KILN_TRY(map_shared(s, p->worker->memory, err));
  if (is_checked) KILN_TRY(check_values(p, s, err));
  if (!p->timer) KILN_TRY(tune_timer_open(p->device, p->worker->device, s->is_hot, &p->timer, err));
  if (p->interface != s->interface) close_configs(p);
  p->interface = s->interface;
  if (!p->configs) p->configs = calloc(s->interface->config_count + 1, sizeof *p->configs);
  p->fresh = calloc(s->count + 1, sizeof *p->fresh);
  p->restores = calloc(s->count + 1, sizeof *p->restores);
  if (!p->configs || !p->fresh || !p->restores)
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  for (size_t i = 0; i < s->count; i++) {
    KILN_TRY(run_value_place(&s->values[i], p->device, guard_of(s),
                             (run_place){.alignment = ALIGNMENT, .zone = 0xa5}, err));
    if (!s->values[i].bytes) continue;
    KILN_TRY(keep_initial_copy(p, i, err));
    if (is_changed(s, i)) KILN_TRY(add_restore(p, i, err));
  }
  tune_timer_restore(p->timer, p->restores, p->restore_count);
  p->has_subject = true;
  return KILN_OK;
}

static kiln_status open_config(process *p, uint32_t config, kiln_error *err) {
  opened *o = &p->configs[config];
  KILN_TRY(make_override(&p->subject, config, &o->override, err));
  kiln_source sources[] = {{.bytes = o->override.bytes, .size = o->override.size},
                           {.path = p->worker->bundle}};
  kiln_open_options options = {.size = sizeof options, .sources = sources, .source_count = 2};
  KILN_TRY(kiln_open(&options, &o->library, err));
  KILN_TRY(kiln_device_open(o->library, p->worker->device, &o->device, err));
  return kiln_kernel_get(o->device, p->interface->name, NULL, &o->kernel, err);
}

static kiln_status prepare(process *p, uint32_t config, kiln_error *err) {
  const tune_subject *s = &p->subject;
  opened *o = &p->configs[config];
  const void *args[512];
  uint8_t block[4096] = {0};
  if (s->count > sizeof args / sizeof *args || s->interface->block_bytes > sizeof block)
    return kiln_fail(err, KILN_STATUS_LIMIT, "%zu arguments", s->count);
  for (size_t i = 0; i < s->count; i++) {
    args[i] = s->values[i].packed;
    memcpy(block + s->values[i].param.offset, s->values[i].packed, s->values[i].param.size);
  }
  KILN_TRY(kiln_choose(o->kernel, block, s->interface->block_bytes, &o->choice, err));
  if (strcmp(o->choice.config, s->interface->configs[config].text))
    return kiln_fail(err, KILN_STATUS_NO_VARIANT,
                     "it has no code for this device, or its @require does not hold");
  if (s->grid) memcpy(o->choice.grid, s->grid, sizeof o->choice.grid);
  return kiln_prepare(o->kernel, args, s->count, s->grid, &o->prepared, err);
}

static kiln_status load(process *p, uint32_t config, tune_reply *out, kiln_error *err) {
  opened *o = &p->configs[config];
  kiln_status status = o->kernel ? KILN_OK : open_config(p, config, err);
  if (status == KILN_OK && !o->prepared) status = prepare(p, config, err);
  if (!o->kernel) close_config(o);
  if (status != KILN_OK) return status;
  out->registers = o->choice.registers;
  out->spill_bytes = o->choice.spill_bytes;
  out->shared_bytes = o->choice.shared_bytes;
  out->block_threads = o->choice.block_threads;
  memcpy(out->grid, o->choice.grid, sizeof out->grid);
  snprintf(out->target, sizeof out->target, "%s", o->choice.target);
  const kiln_interface *interface = p->subject.interface;
  KILN_ASSERT(o->choice.variant != NULL); // what was prepared was chosen
  while (out->variant + 1 < interface->variant_count &&
         strcmp(interface->variants[out->variant].text, o->choice.variant))
    out->variant++;
  return KILN_OK;
}

// Read-only buffers are set again, too, since a wrong config may have written them. They are not compared.
static kiln_status set_contents(process *p, size_t index, kiln_error *err) {
  const run_value *v = &p->subject.values[index];
  if (p->fresh[index]) return tune_timer_copy(p->timer, v->memory.at, p->fresh[index], v->size, err);
  return kiln_copy_in(p->device, v->memory.at, contents_of(&p->subject, index), v->size, err);
}

static kiln_status run_once(process *p, uint32_t config, kiln_error *err) {
  const tune_subject *s = &p->subject;
  opened *o = &p->configs[config];
  for (size_t i = 0; i < s->count; i++)
    if (s->values[i].bytes) KILN_TRY(set_contents(p, i, err));
  if (s->is_host) run_memory_watch(true);
  kiln_status status = kiln_prepared_launch(o->prepared, NULL, err);
  if (status == KILN_OK) status = kiln_sync(o->device, NULL, err);
  if (s->is_host) run_memory_watch(false);
  for (size_t i = 0; i < s->count && status == KILN_OK; i++)
    status = run_memory_check(&s->values[i].memory, err);
  for (size_t i = 0; i < s->count && status == KILN_OK; i++)
    if (tune_subject_is_judged(s, i))
      status = kiln_copy_out(p->device, s->got + s->at[i], s->values[i].memory.at, s->values[i].size, err);
  return status;
}

static kiln_status do_task(process *p, const tune_request *request, tune_reply *out) {
  kiln_error *err = &out->error;
  if (!p->device) KILN_TRY(open_device(p, err));
  if (request->task == TUNE_HELLO) {
    snprintf(out->product, sizeof out->product, "%s", kiln_device_description(p->device));
    snprintf(out->processor, sizeof out->processor, "%s", kiln_device_target_name(p->device));
    out->units = kiln_device_units(p->device);
    return KILN_OK;
  }
  const bool is_checked = request->task == TUNE_CHECK;
  if (!p->has_subject || p->subject.number != request->subject || is_checked) close_subject(p);
  if (!p->has_subject) KILN_TRY(open_subject(p, request->subject, is_checked, err));
  if (is_checked) return KILN_OK;
  KILN_TRY(load(p, request->config, out, err));
  if (request->task == TUNE_RUN) return run_once(p, request->config, err);
  if (request->task != TUNE_TIME) return KILN_OK;
  uint32_t count = request->count < TUNE_MOST_TIMES ? request->count : TUNE_MOST_TIMES;
  return tune_timer_time(p->timer, p->configs[request->config].prepared, out->ns, count, err);
}

static int answer; // where replies go

// The reply to a task whose launch ends the process.
static int reply_fault(kiln_status status, const kiln_error *err) {
  static tune_reply reply;
  reply.error = *err;
  reply.error.status = status;
  kiln_stream_write(answer, &reply, sizeof reply);
  return CLI_FAILED;
}

// Ends when the pipe is closed, so with the parent.
static void serve(const tune_worker *worker, int in, int out) {
  process p = {.worker = worker};
  tune_request request;
  answer = out;
  run_memory_report(reply_fault);
  while (kiln_stream_read(in, &request, sizeof request) == sizeof request) {
    static tune_reply reply;
    memset(&reply, 0, sizeof reply);
    kiln_status status = do_task(&p, &request, &reply);
    reply.error.status = status;
    if (!kiln_stream_write(out, &reply, sizeof reply)) break;
  }
  _exit(0);
}

// ------------------------------------------------------------------------------------------ asking

kiln_status tune_worker_open(tune_worker *w, kiln_error *err) {
  w->memory = memfd_create("kiln-tune", MFD_CLOEXEC);
  return w->memory >= 0 ? KILN_OK
                        : kiln_fail(err, kiln_status_of_errno(errno), "memfd_create: %s", strerror(errno));
}

void tune_worker_close(tune_worker *w) {
  tune_worker_end(w);
  if (w->memory >= 0) close(w->memory);
  w->memory = -1;
}

kiln_status tune_worker_subject(tune_worker *w, uint32_t number, tune_subject *out, kiln_error *err) {
  KILN_TRY(w->make(w->context, number, out, err));
  size_t size = 2 * whole_of(out); // pages of the one before are given back
  if (ftruncate(w->memory, 0) < 0 || ftruncate(w->memory, (off_t)size) < 0)
    return kiln_fail(err, kiln_status_of_errno(errno), "%zu bytes: %s", size, strerror(errno));
  return map_shared(out, w->memory, err);
}

static kiln_status start(tune_worker *w, kiln_error *err) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC)) return kiln_fail(err, kiln_status_of_errno(errno), "pipe: %s", strerror(errno));
  if (pipe2(out, O_CLOEXEC)) {
    close(in[0]), close(in[1]);
    return kiln_fail(err, kiln_status_of_errno(errno), "pipe: %s", strerror(errno));
  }
  signal(SIGPIPE, SIG_IGN);
  fflush(NULL);
  pid_t pid = fork();
  if (!pid) {
    close(in[1]), close(out[0]);
    serve(w, in[0], out[1]);
  }
  close(in[0]), close(out[1]);
  if (pid < 0) {
    close(in[1]), close(out[0]);
    return kiln_fail(err, kiln_status_of_errno(errno), "fork: %s", strerror(errno));
  }
  w->pid = pid;
  w->to = in[1];
  w->from = out[0];
  w->starts++;
  return KILN_OK;
}

// Reports how the process ended.
static int reap(tune_worker *w, bool by_force) {
  int status = 0;
  if (by_force) kill(w->pid, SIGKILL);
  close(w->to);
  close(w->from);
  while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR) {
  }
  w->pid = 0;
  return status;
}

void tune_worker_end(tune_worker *w) {
  if (w->pid) reap(w, true); // it has nothing that must be put in order
}

static kiln_status tell_death(int status, kiln_error *err) {
  if (WIFSIGNALED(status))
    return kiln_fail(err, KILN_STATUS_TOOL, "the process died: %s", strsignal(WTERMSIG(status)));
  return kiln_fail(err, KILN_STATUS_TOOL, "the process ended with exit status %d", WEXITSTATUS(status));
}

// Waits for a whole reply; 0: the process ended, -1: it took too long.
static int wait_reply(tune_worker *w, unsigned limit_ms, tune_reply *out) {
  uint64_t end = cli_now_ns() + (uint64_t)limit_ms * 1000000u;
  size_t got = 0;
  while (got < sizeof *out) {
    uint64_t now = cli_now_ns();
    struct pollfd p = {.fd = w->from, .events = POLLIN};
    if (now >= end) return -1;
    int ready = poll(&p, 1, (int)((end - now) / 1000000u) + 1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) continue;
    ssize_t n = read(w->from, (uint8_t *)out + got, sizeof *out - got);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return 0;
    got += (size_t)n;
  }
  return 1;
}

kiln_status tune_worker_ask(tune_worker *w, const tune_subject *subject, tune_request request,
                            unsigned limit_ms, tune_reply *out, kiln_error *err) {
  if (subject) request.subject = subject->number;
  if (!w->pid) KILN_TRY(start(w, err));
  int got = kiln_stream_write(w->to, &request, sizeof request) ? wait_reply(w, limit_ms, out) : 0;
  if (got < 0) {
    reap(w, true);
    return kiln_fail(err, KILN_STATUS_TIMEOUT, "it took longer than %u ms", limit_ms);
  }
  if (!got) return tell_death(reap(w, false), err);
  if (out->error.status == KILN_OK) return KILN_OK;
  // After an error, a driver's results mean nothing, and damage by a launch remains.
  if (out->error.status == KILN_STATUS_DRIVER || request.task >= TUNE_CHECK) reap(w, true);
  return kiln_fail(err, out->error.status, "%s", out->error.text);
}
