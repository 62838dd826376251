// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs one case, from its text to the verdict. Buffers lie in larger blocks (base/canary.h), so that accesses
// next to them are detected.
#include "tools/case/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/canary.h"
#include "cache/bundle/writer.h"
#include "compiler/front.h"
#include "compiler/interpreter/interpreter.h"
#include "compiler/options.h"
#include "runtime/kiln.h"
#include "tools/common/cli.h"

static const uint64_t most_pointed = 4ull << 30;
enum { AROUND = 4096, ALIGNMENT = 256, PROMISED = 16 };

enum { MOST_WAITING = 256 }; // program instances that get a thread each

// Everything that a case owns while it runs.
typedef struct running {
  case_runner *runner;
  case_file file;
  kiln_arena *arena;
  kiln_unit *unit;
  const kiln_interface *interface; ///< borrowed from the unit
  ir_kernel *kernel;
  kiln_buffer args;
  kiln_canary around[CASE_MAX_BUFFERS]; ///< how each buffer lies in its block
  uint8_t *host[CASE_MAX_BUFFERS];      ///< the blocks
  void *device_memory[CASE_MAX_BUFFERS];
  uint64_t addresses[CASE_MAX_BUFFERS];
  case_span pointed; ///< what addresses in the buffers point into; on the device all zeros
  void *pointed_host, *pointed_device;
  bool coarse, follows, waits; ///< facts of the kernel: see look_at
  worker_reply reply;
  kiln_buffer bundle;
  kiln_library *library;
  kiln_device *device;
  case_outcome *out;
} running;

static bool interprets(const case_runner *runner) { return !strcmp(runner->device, "interpreter"); }

/// As libkiln knows the device.
static const char *opened_name(const case_runner *runner) {
  return runner->ptx.driver ? PTX_DEVICE_OPENED : runner->device;
}

const char *case_code_target(const char *device_target) {
  return !strcmp(device_target, "sm_90") ? "sm_90a" : device_target;
}

// ------------------------------------------------------------------------------------------ kernel

static kiln_status first_error(const kiln_diagnostics *d, kiln_error *err) {
  for (uint32_t i = 0; i < d->count; i++)
    if (d->items[i].severity == KILN_ERROR)
      return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "kernel.ttir:%u: %s", d->items[i].line,
                       d->items[i].text);
  return kiln_fail(err, KILN_STATUS_INTERNAL, "the front end failed without a message");
}

static void find_signal(ir_op *op, void *context) {
  bool reads = op->code == IR_LOAD && op->attrs.flags & IR_VOLATILE;
  *(bool *)context |= reads || op->code == IR_ATOMIC || op->code == IR_CAS;
}

// Products in less than f32, pointers made of integers, and loops that wait for another program instance.
static void look_at(ir_op *op, void *context) {
  running *c = context;
  if (op->code == IR_DOT && ir_type_class(op->operands[0]->type) != KILN_CLASS_INT)
    c->coarse |= ir_type_bits(op->operands[0]->type) < 32 || op->attrs.precision == IR_PREC_TF32;
  if (op->code == IR_BITCAST) c->follows |= op->results[0].type.pointer && !op->operands[0]->type.pointer;
  for (uint32_t i = 0; op->code == IR_WHILE && i < op->region_count; i++)
    ir_walk(op->regions[i], find_signal, &c->waits);
}

static kiln_status lower(running *c, const kiln_target *target, kiln_error *err) {
  kiln_diagnostics d = {.arena = c->arena};
  kiln_front_options options = {.metadata = (const char *)c->file.metadata.bytes,
                                .metadata_size = c->file.metadata.size};
  uint64_t begin = cli_now_ns();
  c->unit = kiln_unit_open(c->arena, "kernel.ttir", (const char *)c->file.text.bytes, c->file.text.size,
                           &options, &d);
  if (!c->unit) return first_error(&d, err);
  c->interface = kiln_unit_interface(c->unit, 0);
  c->kernel = kiln_unit_lower(c->unit, c->arena, 0, 0, 0, target, &d);
  c->out->front_ns = cli_now_ns() - begin;
  if (!c->kernel) return first_error(&d, err);
  ir_walk(c->kernel->body, look_at, c);
  if (c->follows && c->file.golden) c->pointed = case_file_addresses(&c->file);
  if (c->pointed.size > most_pointed)
    return kiln_fail(err, KILN_STATUS_UNSUPPORTED,
                     "the recorded memory holds addresses %llu bytes apart; at most %llu are mapped",
                     (unsigned long long)c->pointed.size, (unsigned long long)most_pointed);
  return KILN_OK;
}

// ------------------------------------------------------------------------------------------ memory

// Maps zeros in this process for the memory that recorded addresses point to; the buffers then hold addresses
// of this process.
static kiln_status map_pointed(running *c, kiln_error *err) {
  if (!c->pointed.size) return KILN_OK;
  void *memory =
      mmap(NULL, c->pointed.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for %llu bytes",
                     (unsigned long long)c->pointed.size);
  c->pointed_host = memory;
  case_file_relocate(&c->file, c->pointed, (uint64_t)(uintptr_t)memory);
  return KILN_OK;
}

// The same on the device.
static kiln_status alloc_pointed(running *c, kiln_error *err) {
  if (!c->pointed.size) return KILN_OK;
  KILN_TRY(kiln_alloc(c->device, c->pointed.size, &c->pointed_device, err));
  KILN_TRY(kiln_fill(c->device, c->pointed_device, 0, c->pointed.size, err));
  case_file_relocate(&c->file, c->pointed, (uint64_t)(uintptr_t)c->pointed_device);
  return KILN_OK;
}

static size_t bytes_of(case_element element) {
  static const uint8_t bytes[CASE_ELEMENTS] = {
      [CASE_F64] = 8, [CASE_F32] = 4, [CASE_F16] = 2, [CASE_BF16] = 2, [CASE_E4M3] = 1, [CASE_E5M2] = 1};
  return bytes[element] ? bytes[element] : 1;
}

/// Buffers begin at different multiples of 16 bytes, which is what recorded kernels promise at most.
static kiln_canary around_buffer(const running *c, uint32_t i) {
  const case_buffer *b = &c->file.buffers[i];
  const size_t place = PROMISED * (5 * i + 3) % ALIGNMENT,
               element = b->size % bytes_of(b->element) ? 1 : bytes_of(b->element);
  kiln_canary around = {.element = element,
                        .rows = 1,
                        .columns = b->size / element,
                        .pitch = b->size / element,
                        .is_read = !b->changed};
  if (!c->runner->exact) around.before = AROUND + place, around.after = AROUND;
  return around;
}

static kiln_status make_host_memory(running *c, kiln_error *err) {
  for (uint32_t i = 0; i < c->file.buffer_count; i++) {
    const case_buffer *b = &c->file.buffers[i];
    c->around[i] = around_buffer(c, i);
    uint64_t whole = (kiln_canary_bytes(&c->around[i]) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    c->host[i] = aligned_alloc(ALIGNMENT, whole);
    if (!c->host[i])
      return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "buffer %u: no memory for %llu bytes", i,
                       (unsigned long long)whole);
    kiln_canary_write(&c->around[i], b->before.bytes, c->host[i]);
    c->addresses[i] = (uint64_t)(uintptr_t)(c->host[i] + c->around[i].before);
  }
  return KILN_OK;
}

enum { BUFFER_NAME = 120 };
static void name_buffer(const running *c, uint32_t i, char out[BUFFER_NAME]) {
  snprintf(out, BUFFER_NAME, "buffer %u (%s)", i, c->file.buffers[i].name ? c->file.buffers[i].name : "");
}

static kiln_status check_around(const running *c, uint32_t i, kiln_error *err) {
  char name[BUFFER_NAME], text[KILN_ERROR_TEXT];
  name_buffer(c, i, name);
  if (kiln_canary_holds(&c->around[i], name, c->host[i], text, sizeof text)) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_MISMATCH, "%s", text);
}

static kiln_status compare(const running *c, kiln_error *err) {
  for (uint32_t i = 0; i < c->file.buffer_count; i++) {
    KILN_TRY(check_around(c, i, err));
    KILN_TRY(case_file_compare(&c->file, i, c->coarse, c->host[i] + c->around[i].before, err));
  }
  return KILN_OK;
}

// ------------------------------------------------------------------------------------- interpreter

static kiln_status interpret(running *c, kiln_error *err) {
  kiln_target target;
  kiln_memory_range ranges[CASE_MAX_BUFFERS + 1];
  KILN_TRY(kiln_target_parse(c->runner->target ? c->runner->target : "host", &target, err));
  KILN_TRY(lower(c, &target, err));
  if (!c->file.golden) return KILN_OK;
  KILN_TRY(map_pointed(c, err));
  KILN_TRY(make_host_memory(c, err));
  KILN_TRY(case_file_pack(&c->file, c->interface, c->addresses, &c->args, err));
  for (uint32_t i = 0; i < c->file.buffer_count; i++)
    ranges[i] = (kiln_memory_range){c->host[i] + c->around[i].before, c->file.buffers[i].size};
  ranges[c->file.buffer_count] = (kiln_memory_range){c->pointed_host, c->pointed.size};
  kiln_interpret_options options = {
      .ranges = ranges, .range_count = c->file.buffer_count + 1, .max_steps = c->runner->max_steps};
  uint64_t begin = cli_now_ns();
  kiln_status status = kiln_interpret(c->kernel, c->args.bytes, c->file.grid, &options, err);
  c->out->run_ns = cli_now_ns() - begin;
  return status == KILN_OK ? compare(c, err) : status;
}

// ------------------------------------------------------------------------------------------ device

static kiln_status find_target(running *c, kiln_target *out, kiln_error *err) {
  case_runner *runner = c->runner;
  if (!runner->probe_library) {
    kiln_open_options options = {.size = sizeof options};
    KILN_TRY(kiln_open(&options, &runner->probe_library, err));
  }
  if (!runner->probe)
    KILN_TRY(kiln_device_open(runner->probe_library, opened_name(runner), &runner->probe, err));
  const char *own = runner->ptx.driver ? runner->ptx.processor->name
                                       : case_code_target(kiln_device_target_name(runner->probe));
  return kiln_target_parse(runner->target ? runner->target : own, out, err);
}

static kiln_status compile(running *c, const kiln_target *target, kiln_error *err) {
  char name[KILN_TARGET_NAME];
  kiln_buffer options = {0}, canonical = {0};
  kiln_codegen_options_encode(&c->runner->options, &options);
  uint64_t begin = cli_now_ns();
  kiln_status status =
      kiln_canonical_encode(c->kernel, &canonical)
          ? worker_compile(&c->runner->worker, kiln_target_name(target, name), c->interface->symbol, &options,
                           &canonical, NULL, &c->reply, err)
          : kiln_fail(err, KILN_STATUS_INTERNAL, "the front end made an operation of machines");
  c->out->compile_ns = cli_now_ns() - begin;
  kiln_buffer_deinit(&options);
  kiln_buffer_deinit(&canonical);
  return status;
}

static kiln_status write_bundle(running *c, const kiln_target *target, kiln_bundle_writer *writer,
                                kiln_error *err) {
  char name[KILN_TARGET_NAME];
  kiln_buffer record = {0};
  kiln_bundle_code code = {.target = kiln_target_name(target, name),
                           .family = "case",
                           .info = c->reply.info,
                           .info_size = c->reply.info_size,
                           .code = c->reply.code,
                           .code_size = c->reply.code_size};
  kiln_interface_encode(c->interface, &record);
  kiln_status status =
      kiln_bundle_writer_kernel(writer, c->interface->name, record.bytes, record.size, &code.kernel, err);
  if (status == KILN_OK) status = kiln_bundle_writer_code(writer, &code, err);
  kiln_bundle_options options = {.level = 1, .dictionary = KILN_BUNDLE_DICTIONARY_NONE};
  if (status == KILN_OK) status = kiln_bundle_writer_build(writer, &options, &c->bundle, NULL, err);
  kiln_buffer_deinit(&record);
  return status;
}

// The host guarantees progress of started instances only; a barrier across the grid needs all instances
// started, so each gets a thread.
static const char *device_name(const running *c, char out[32]) {
  const uint32_t *g = c->file.grid;
  uint64_t programs = (uint64_t)g[0] * g[1] * g[2];
  if (!c->waits || strcmp(c->runner->device, "host") || programs < 2 || programs > MOST_WAITING)
    return opened_name(c->runner);
  snprintf(out, 32, "host:%u", (unsigned)programs);
  return out;
}

static kiln_status open_bundle(running *c, const kiln_target *target, kiln_error *err) {
  char name[32];
  kiln_bundle_writer *writer = kiln_bundle_writer_create();
  if (!writer) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  kiln_status status = write_bundle(c, target, writer, err);
  kiln_bundle_writer_destroy(writer);
  KILN_TRY(status);
  KILN_TRY(kiln_open_memory(c->bundle.bytes, c->bundle.size, &c->library, err));
  return kiln_device_open(c->library, device_name(c, name), &c->device, err);
}

// The surroundings are copied, too: each buffer's device memory is laid out as on the host.
static kiln_status copy_in(running *c, kiln_error *err) {
  for (uint32_t i = 0; i < c->file.buffer_count; i++) {
    uint64_t whole = kiln_canary_bytes(&c->around[i]);
    KILN_TRY(kiln_alloc(c->device, whole + !whole, &c->device_memory[i], err));
    KILN_TRY(kiln_copy_in(c->device, c->device_memory[i], c->host[i], whole, err));
    c->addresses[i] = (uint64_t)(uintptr_t)c->device_memory[i] + c->around[i].before;
    if (!c->runner->ptx.driver) continue;
    char name[BUFFER_NAME];
    name_buffer(c, i, name);
    ptx_device_name(&c->runner->ptx, c->device_memory[i], name);
  }
  return KILN_OK;
}

static kiln_status copy_out(running *c, kiln_error *err) {
  for (uint32_t i = 0; i < c->file.buffer_count; i++)
    KILN_TRY(
        kiln_copy_out(c->device, c->host[i], c->device_memory[i], kiln_canary_bytes(&c->around[i]), err));
  return KILN_OK;
}

static kiln_status run_once(running *c, kiln_error *err) {
  kiln_kernel *kernel;
  KILN_TRY(kiln_kernel_get(c->device, c->interface->name, NULL, &kernel, err));
  uint64_t begin = cli_now_ns();
  KILN_TRY(kiln_launch_grid(kernel, NULL, c->file.grid, c->args.bytes, c->args.size, err));
  KILN_TRY(kiln_sync(c->device, NULL, err));
  c->out->run_ns = cli_now_ns() - begin;
  return KILN_OK;
}

static kiln_status run_kernel(running *c, kiln_error *err) {
  ptx_device *ptx = &c->runner->ptx;
  if (!ptx->driver) return run_once(c, err);
  ptx_device_seed(ptx, 1);
  return ptx_device_explain(ptx, c->interface->name, 1, run_once(c, err), err);
}

static kiln_status launch(running *c, kiln_error *err) {
  KILN_TRY(alloc_pointed(c, err));
  KILN_TRY(make_host_memory(c, err));
  KILN_TRY(copy_in(c, err));
  KILN_TRY(case_file_pack(&c->file, c->interface, c->addresses, &c->args, err));
  KILN_TRY(run_kernel(c, err));
  KILN_TRY(copy_out(c, err));
  return compare(c, err);
}

static kiln_status run_on_device(running *c, kiln_error *err) {
  kiln_target target;
  KILN_TRY(find_target(c, &target, err));
  KILN_TRY(lower(c, &target, err));
  KILN_TRY(compile(c, &target, err));
  if (!c->file.golden) return KILN_OK;
  KILN_TRY(open_bundle(c, &target, err));
  return launch(c, err);
}

// ----------------------------------------------------------------------------------------- verdict

static void release(running *c) {
  for (uint32_t i = 0; i < c->file.buffer_count; i++) {
    if (c->device && c->device_memory[i]) kiln_free(c->device, c->device_memory[i]);
    free(c->host[i]);
  }
  if (c->pointed_device) kiln_free(c->device, c->pointed_device);
  if (c->pointed_host) munmap(c->pointed_host, c->pointed.size);
  if (c->device) kiln_device_close(c->device);
  if (c->library) kiln_close(c->library);
  kiln_buffer_deinit(&c->reply.bytes);
  kiln_buffer_deinit(&c->bundle);
  kiln_buffer_deinit(&c->args);
  case_file_deinit(&c->file);
  kiln_arena_destroy(c->arena);
}

static void set_verdict(const running *c, kiln_status status, const kiln_error *err, case_outcome *out) {
  if (status == KILN_OK) {
    out->verdict = c->file.golden ? CASE_PASS : CASE_SKIP;
    if (!c->file.golden) snprintf(out->text, sizeof out->text, "no memory was recorded; it compiles");
    else if (c->pointed.size)
      snprintf(out->text, sizeof out->text, "what it points to was not recorded: run on zeros");
    return;
  }
  bool refused =
      status == KILN_STATUS_UNSUPPORTED || status == KILN_STATUS_LIMIT || status == KILN_STATUS_NO_VARIANT;
  out->verdict = refused ? CASE_UNSUPPORTED : CASE_FAIL;
  out->spoiled = status == KILN_STATUS_DRIVER;
  snprintf(out->text, sizeof out->text, "%s", err->text);
}

void case_run(case_runner *runner, const char *folder, case_outcome *out) {
  kiln_error err = {0};
  memset(out, 0, sizeof *out);
  running *c = calloc(1, sizeof *c);
  if (!c) {
    out->verdict = CASE_FAIL;
    snprintf(out->text, sizeof out->text, "memory is exhausted");
    return;
  }
  c->runner = runner;
  c->arena = kiln_arena_create();
  c->out = out;
  kiln_status status = case_file_read(c->arena, folder, &c->file, &err);
  if (status == KILN_OK) status = interprets(runner) ? interpret(c, &err) : run_on_device(c, &err);
  set_verdict(c, status, &err, out);
  release(c);
  free(c);
}

kiln_status case_runner_init(case_runner *runner, kiln_error *err) {
  if (interprets(runner)) return KILN_OK;
  if (ptx_device_is(runner->device)) {
    KILN_TRY(ptx_device_load(runner->device, &runner->ptx, err));
    KILN_TRY(kiln_codegen_options_set(&runner->options, "emit=ptx", err));
    runner->exact = true; // it knows where buffers end
  }
  return worker_client_init(&runner->worker, err);
}

void case_runner_deinit(case_runner *runner) {
  if (runner->probe) kiln_device_close(runner->probe);
  if (runner->probe_library) kiln_close(runner->probe_library);
  if (!interprets(runner)) worker_client_deinit(&runner->worker);
}
