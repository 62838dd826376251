// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// generated-check DEVICE FIRST COUNT [--no-maths] [--rereads] [--products] [--cubin] [--reduce] [--print]:
// runs random kernels (tests/kernelgen.h) the whole way through worker, bundle, libkiln and device, and compares
// memory bit for bit with the interpreter's. It is carried to machines that have a device.
//
// There is no tolerance. A kernel that keeps a mathematical operation the device only approximates
// (exp2.approx and its like) has no single right answer, so its seed counts as skipped. --no-maths makes
// kernels without any, so that no seed is skipped for it. --rereads makes kernels that read again
// what they have written, --products kernels that multiply matrices. --reduce drops statements of a
// failing kernel as long as it fails, and prints what is left. --print prints the kernels instead.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bundle_format.h"
#include "cache/bundle/writer.h"
#include "compiler/front.h"
#include "compiler/interpreter/interpreter.h"
#include "compiler/options.h"
#include "compiler/passes/stages.h"
#include "runtime/kiln.h"
#include "tests/harness.h"
#include "tests/kernelgen.h"
#include "tools/common/worker_client.h"

enum { MAX_STEPS = 4000000, MAX_PARAMS = KERNELGEN_BUFFERS + 8 };

// What the generator needs of the harness, which itself wants a test runner.
void kiln_test_fail(const char *file, int line, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "%s:%d: ", file, line);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  exit(3);
}

uint64_t
kiln_test_random(uint64_t *state) { // the same sequence as in tests: a seed names one kernel everywhere
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

typedef struct checker {
  const char *device_name;
  kiln_library *library; ///< empty; holds `device` open through the whole run
  kiln_device *device;
  kiln_target target;
  worker_client worker;
  kernelgen_options generator;
  kiln_codegen_options codegen;
  bool only_prints, reduces;
} checker;

// Everything one seed owns while it runs.
typedef struct seed_run {
  const checker *checker;
  worker_client *worker;
  kiln_arena *arena;
  kernelgen_case layout; ///< grid, buffers and parameters; its kernel is never changed
  kernelgen_memory want, got;
  kiln_param_record params[MAX_PARAMS];
  kiln_interface interface;
  worker_reply reply;
  kiln_buffer bundle;
  kiln_library *library;
  kiln_device *device;
  void *memory[KERNELGEN_BUFFERS];
  const char *approximated; ///< spelling of an operation that keeps the seed from being compared
} seed_run;

// ---------------------------------------------------------------------------------------- expected

static void find_approximation(ir_op *op, void *context) {
  seed_run *r = context;
  bool rounded = op->code == IR_SQRT || op->code == IR_DIV;
  if (!op->operand_count || ir_type_class(op->operands[0]->type) != KILN_CLASS_FLOAT) return;
  if (ir_has(op->code, IR_INEXACT) || (rounded && !(op->attrs.flags & IR_PRECISE)))
    r->approximated = ir_ops[op->code].text;
}

static void share(const seed_run *r, kernelgen_memory *m) {
  if (r->checker->generator.rereads) kernelgen_rereads_share(r->layout.seed, m->args);
}

/// The kernel as the device gets it, interpreted here.
static kiln_status interpret(seed_run *r, kiln_error *err) {
  kernelgen_case c;
  kernelgen_make(r->arena, r->layout.seed, &r->checker->generator, &c);
  kiln_canonicalise(c.kernel);
  kernelgen_memory_init(&r->layout, &r->want);
  share(r, &r->want);
  KILN_TRY(kiln_lower(c.kernel, &r->checker->target, err));
  if (strncmp(r->checker->device_name, "host", 4)) ir_walk(c.kernel->body, find_approximation, r);
  if (r->approximated) return KILN_OK;
  return kiln_interpret(c.kernel, r->want.args, c.grid, &(kiln_interpret_options){.max_steps = MAX_STEPS},
                        err);
}

// ------------------------------------------------------------------------------------------ bundle

static void describe(seed_run *r) {
  static kiln_config_record config = {.text = ""};
  static kiln_variant_record variant = {.text = ""};
  const ir_kernel *k = r->layout.kernel;
  config.warps = k->warps;
  for (uint32_t i = 0; i < k->param_count; i++) {
    const ir_param *p = &k->params[i];
    r->params[i] = (kiln_param_record){.name = p->name,
                                       .scalar = p->type.scalar,
                                       .pointer = p->type.pointer,
                                       .view_rank = p->type.is_view ? p->type.rank : 0,
                                       .access = p->access,
                                       .noalias = p->noalias,
                                       .has_range = p->has_range,
                                       .align = p->align,
                                       .rows = p->rows,
                                       .div = p->div,
                                       .lo = p->lo,
                                       .hi = p->hi};
  }
  r->interface = (kiln_interface){.name = k->name,
                                  .symbol = k->name,
                                  .params = r->params,
                                  .param_count = k->param_count,
                                  .configs = &config,
                                  .config_count = 1,
                                  .variants = &variant,
                                  .variant_count = 1};
  kiln_layout_params(&r->interface);
}

static kiln_status compile(seed_run *r, kiln_error *err) {
  char target[KILN_TARGET_NAME];
  kiln_buffer options = {0}, canonical = {0};
  kernelgen_case c;
  kernelgen_make(r->arena, r->layout.seed, &r->checker->generator, &c);
  kiln_canonicalise(c.kernel);
  kiln_codegen_options_encode(&r->checker->codegen, &options);
  kiln_canonical_encode(c.kernel, &canonical);
  kiln_status status = worker_compile(r->worker, kiln_target_name(&r->checker->target, target),
                                      c.kernel->name, &options, &canonical, NULL, &r->reply, err);
  kiln_buffer_deinit(&options);
  kiln_buffer_deinit(&canonical);
  return status;
}

static kiln_status fill_bundle(seed_run *r, kiln_bundle_writer *writer, kiln_error *err) {
  static const uint32_t flags[] = {[KILN_FORMAT_PTX] = KILN_BUNDLE_CODE_PTX,
                                   [KILN_FORMAT_CUBIN] = 0,
                                   [KILN_FORMAT_HSACO] = 0,
                                   [KILN_FORMAT_HOST] = KILN_BUNDLE_CODE_HOST};
  char target[KILN_TARGET_NAME];
  kiln_code_info info;
  if (!kiln_code_info_decode(r->reply.info, r->reply.info_size, &info) ||
      info.format >= sizeof flags / sizeof *flags)
    return kiln_fail(err, KILN_STATUS_CORRUPT, "code info of %zu bytes is damaged", r->reply.info_size);
  kiln_bundle_code code = {.target = kiln_target_name(&r->checker->target, target),
                           .family = "generated",
                           .flags = flags[info.format],
                           .info = r->reply.info,
                           .info_size = r->reply.info_size,
                           .code = r->reply.code,
                           .code_size = r->reply.code_size};
  kiln_buffer record = {0};
  kiln_interface_encode(&r->interface, &record);
  kiln_status status =
      kiln_bundle_writer_kernel(writer, r->interface.name, record.bytes, record.size, &code.kernel, err);
  kiln_buffer_deinit(&record);
  KILN_TRY(status);
  KILN_TRY(kiln_bundle_writer_code(writer, &code, err));
  kiln_bundle_options options = {.level = 1, .dictionary = KILN_BUNDLE_DICTIONARY_NONE};
  return kiln_bundle_writer_build(writer, &options, &r->bundle, NULL, err);
}

static kiln_status open_bundle(seed_run *r, kiln_error *err) {
  kiln_bundle_writer *writer = kiln_bundle_writer_create();
  if (!writer) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  kiln_status status = fill_bundle(r, writer, err);
  kiln_bundle_writer_destroy(writer);
  KILN_TRY(status);
  KILN_TRY(kiln_open_memory(r->bundle.bytes, r->bundle.size, &r->library, err));
  return kiln_device_open(r->library, r->checker->device_name, &r->device, err);
}

// ------------------------------------------------------------------------------------------ device

static size_t block_bytes(const seed_run *r, uint32_t i) { return kiln_canary_bytes(&r->got.around[i]); }

/// Buffers go to the device, with what stands around them; arguments and tables then point to them there.
static kiln_status copy_in(seed_run *r, kiln_error *err) {
  kernelgen_memory_init(&r->layout, &r->got);
  for (uint32_t i = 0; i < r->layout.buffer_count; i++) {
    KILN_TRY(kiln_alloc(r->device, block_bytes(r, i), &r->memory[i], err));
    r->got.addresses[i] = (uintptr_t)r->memory[i] + r->got.around[i].before;
  }
  kernelgen_memory_place(&r->layout, &r->got);
  share(r, &r->got);
  for (uint32_t i = 0; i < r->layout.buffer_count; i++)
    KILN_TRY(kiln_copy_in(r->device, r->memory[i], r->got.blocks[i], block_bytes(r, i), err));
  return KILN_OK;
}

static kiln_status launch(seed_run *r, kiln_error *err) {
  kiln_kernel *kernel;
  KILN_TRY(copy_in(r, err));
  KILN_TRY(kiln_kernel_get(r->device, r->interface.name, NULL, &kernel, err));
  KILN_TRY(kiln_launch_grid(kernel, NULL, r->layout.grid, r->got.args, r->interface.block_bytes, err));
  KILN_TRY(kiln_sync(r->device, NULL, err));
  for (uint32_t i = 0; i < r->layout.buffer_count; i++)
    KILN_TRY(kiln_copy_out(r->device, r->got.blocks[i], r->memory[i], block_bytes(r, i), err));
  char text[KILN_ERROR_TEXT];
  if (kernelgen_memory_equal(&r->layout, &r->want, &r->got, text, sizeof text)) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_MISMATCH, "%s", text);
}

static void release(seed_run *r) {
  for (uint32_t i = 0; i < r->layout.buffer_count; i++)
    if (r->memory[i]) kiln_free(r->device, r->memory[i]);
  if (r->device) kiln_device_close(r->device);
  if (r->library) kiln_close(r->library);
  kiln_buffer_deinit(&r->reply.bytes);
  kiln_buffer_deinit(&r->bundle);
  kernelgen_memory_deinit(&r->want);
  kernelgen_memory_deinit(&r->got);
  kiln_arena_destroy(r->arena);
}

// --------------------------------------------------------------------------------------------- run

typedef enum outcome { PASSED, FAILED, SKIPPED } outcome;

static kiln_status run_seed(seed_run *r, kiln_error *err) {
  if (r->layout.kernel->param_count > MAX_PARAMS)
    return kiln_fail(err, KILN_STATUS_INTERNAL, "%u parameters, at most %d", r->layout.kernel->param_count,
                     MAX_PARAMS);
  KILN_TRY(interpret(r, err));
  KILN_TRY(compile(r, err));
  if (r->approximated) return KILN_OK;
  describe(r);
  KILN_TRY(open_bundle(r, err));
  return launch(r, err);
}

/// A skipped seed has compiled; `text` says why it was skipped, or what differs.
static outcome run(checker *c, uint64_t seed, char text[KILN_ERROR_TEXT]) {
  kiln_error err = {0};
  seed_run r = {.checker = c, .worker = &c->worker, .arena = kiln_arena_create()};
  kernelgen_make(r.arena, seed, &c->generator, &r.layout);
  kiln_status status = run_seed(&r, &err);
  outcome how = status != KILN_OK ? FAILED : r.approximated ? SKIPPED : PASSED;
  if (how == SKIPPED) snprintf(text, KILN_ERROR_TEXT, "%s is approximated on this device", r.approximated);
  else memcpy(text, err.text, KILN_ERROR_TEXT);
  release(&r);
  return how;
}

/// As it was made: text, or the canonical form.
static void print(checker *c, uint64_t seed) {
  kiln_arena *arena = kiln_arena_create();
  kernelgen_case made;
  kiln_buffer text = {0};
  if (c->generator.products) kernelgen_products_text(seed, &text);
  else if (c->generator.rereads) kernelgen_rereads_text(seed, &text);
  else {
    kernelgen_make(arena, seed, &c->generator, &made);
    kiln_canonicalise(made.kernel);
    ir_print(made.kernel, NULL, &text);
    kiln_buffer_u8(&text, 0);
  }
  printf("// seed %llu\n%s\n", (unsigned long long)seed, (const char *)text.bytes);
  kiln_buffer_deinit(&text);
  kiln_arena_destroy(arena);
}

static bool still_fails(uint64_t seed, const kernelgen_options *options, void *context) {
  checker *c = context;
  char text[KILN_ERROR_TEXT];
  c->generator = *options;
  return run(c, seed, text) == FAILED;
}

static void reduce(checker *c, uint64_t seed) {
  const kernelgen_options all = c->generator;
  c->generator.dropped = kernelgen_reduce(seed, &all, still_fails, c);
  print(c, seed);
  c->generator = all;
}

static outcome check(checker *c, uint64_t seed) {
  char text[KILN_ERROR_TEXT];
  const outcome how = run(c, seed, text);
  if (how != PASSED)
    printf("seed %llu %s: %s\n", (unsigned long long)seed, how == FAILED ? "fail" : "skip", text);
  if (how == FAILED && c->reduces) reduce(c, seed);
  fflush(stdout);
  return how;
}

static kiln_status start(checker *c, kiln_error *err) {
  kiln_open_options options = {.size = sizeof options};
  KILN_TRY(kiln_open(&options, &c->library, err));
  KILN_TRY(kiln_device_open(c->library, c->device_name, &c->device, err));
  const char *name = kiln_device_target_name(c->device);
  KILN_TRY(kiln_target_parse(!strcmp(name, "sm_90") ? "sm_90a" : name, &c->target,
                             err)); // as the tools choose for that device
  printf("%s (%s)\n", kiln_device_description(c->device), name);
  return worker_client_init(&c->worker, err);
}

static void stop(checker *c) {
  worker_client_deinit(&c->worker);
  if (c->device) kiln_device_close(c->device);
  if (c->library) kiln_close(c->library);
}

static bool read_number(const char *text, unsigned long long *out) {
  char *end;
  *out = strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && !*end;
}

static bool read_flag(checker *c, const char *text) {
  if (!strcmp(text, "--no-maths")) c->generator.no_maths = true;
  else if (!strcmp(text, "--rereads")) c->generator.rereads = true;
  else if (!strcmp(text, "--products")) c->generator.products = true;
  else if (!strcmp(text, "--reduce")) c->reduces = true;
  else if (!strcmp(text, "--print")) c->only_prints = true;
  else if (!strcmp(text, "--cubin")) c->codegen.assembler = KILN_ASSEMBLER_NVJITLINK;
  else return false;
  return true;
}

int main(int argc, char **argv) {
  unsigned long long first, count;
  unsigned counts[3] = {0};
  kiln_error err = {0};
  checker c = {.device_name = argc > 1 ? argv[1] : NULL};
  kiln_codegen_options_init(&c.codegen);
  bool right = argc > 3 && read_number(argv[2], &first) && read_number(argv[3], &count);
  for (int i = 4; right && i < argc; i++) right = read_flag(&c, argv[i]);
  if (!right)
    return fprintf(
               stderr,
               "usage: generated-check DEVICE FIRST COUNT [--no-maths] [--rereads] [--products] [--cubin] "
               "[--reduce] [--print]\n"),
           2;
  if (c.only_prints) {
    for (unsigned long long i = 0; i < count; i++) print(&c, first + i);
    return 0;
  }
  if (start(&c, &err) != KILN_OK) {
    fprintf(stderr, "generated-check: %s\n", err.text);
    stop(&c);
    return 1;
  }
  for (unsigned long long i = 0; i < count; i++) counts[check(&c, first + i)]++;
  stop(&c);
  printf("%u passed, %u failed, %u skipped\n", counts[PASSED], counts[FAILED], counts[SKIPPED]);
  return counts[FAILED] != 0;
}
