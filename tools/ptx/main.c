// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln-ptx: runs a kernel of a PTX file in the interpreter, on memory from files, and says what it found.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/cli.h"
#include "tools/ptx/ptx.h"

enum { MOST_BUFFERS = 256, MOST_TEXT = 1 << 28 };
static const size_t most_buffer = 1ull << 32;

typedef struct buffer {
  char *from, *to; // owned; `to` NULL: the result is not written
  kiln_buffer before;
  uint64_t size, address;
  bool is_file;
} buffer;

typedef struct command {
  const char *kernel, *grid, *block;
  int64_t shared, seed, schedules, resident, max_steps;
  bool is_census;
  cli_list words, buffer_texts;
  buffer buffers[MOST_BUFFERS];
} command;

// FILE or SIZE, then perhaps :OUTPUT.
static kiln_status read_buffer(const char *text, buffer *b, kiln_error *err) {
  const char *colon = strchr(text, ':');
  b->from = strndup(text, colon ? (size_t)(colon - text) : strlen(text));
  b->to = colon ? strdup(colon + 1) : NULL;
  if (!b->from || (colon && !b->to)) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  char *end;
  errno = 0;
  b->size = strtoull(b->from, &end, 10);
  b->is_file = *end || end == b->from || errno;
  if (!b->is_file)
    return b->size <= most_buffer
               ? KILN_OK
               : kiln_fail(err, KILN_STATUS_LIMIT, "a buffer of %llu bytes", (unsigned long long)b->size);
  KILN_TRY(cli_read_file(b->from, "", most_buffer, &b->before, err));
  b->size = b->before.size;
  return KILN_OK;
}

static kiln_status make_buffers(command *c, ptx_memory *memory, kiln_error *err) {
  for (size_t i = 0; i < c->buffer_texts.count; i++) {
    buffer *b = &c->buffers[i];
    b->address = ptx_memory_alloc(memory, b->size, b->is_file);
    if (!b->address)
      return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for %llu bytes",
                       (unsigned long long)b->size);
    if (b->is_file && b->size)
      memcpy(ptx_memory_bytes(memory, b->address, b->size, true), b->before.bytes, b->size);
  }
  return KILN_OK;
}

static kiln_status write_buffers(command *c, ptx_memory *memory, kiln_error *err) {
  for (size_t i = 0; i < c->buffer_texts.count; i++)
    if (c->buffers[i].to)
      KILN_TRY(cli_write_file(c->buffers[i].to,
                              ptx_memory_bytes(memory, c->buffers[i].address, c->buffers[i].size, false),
                              c->buffers[i].size, err));
  return KILN_OK;
}

// buffer:N+OFFSET, i8:.. to i64:.., f32:X, f64:X, bits:HEX
static kiln_status read_argument(const command *c, const char *text, uint32_t size, uint8_t *out,
                                 kiln_error *err) {
  const char *value = strchr(text, ':');
  char *end = NULL;
  uint64_t bits = 0;
  errno = 0;
  if (!value) return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "argument '%s': expected TYPE:VALUE", text);
  value++;
  if (!strncmp(text, "buffer:", 7)) {
    uint64_t number = strtoull(value, &end, 10), offset = *end == '+' ? strtoull(end + 1, &end, 10) : 0;
    if (number >= c->buffer_texts.count)
      return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "argument '%s': there are %zu buffers", text,
                       c->buffer_texts.count);
    bits = c->buffers[number].address + offset;
  } else if (!strncmp(text, "f32:", 4)) {
    float f = strtof(value, &end);
    memcpy(&bits, &f, sizeof f);
  } else if (!strncmp(text, "f64:", 4)) {
    double d = strtod(value, &end);
    memcpy(&bits, &d, sizeof d);
  } else if (!strncmp(text, "bits:", 5)) {
    bits = strtoull(value, &end, 16);
  } else if ((*text == 'i' || *text == 'u') && value - text <= 4) {
    bits = *value == '-' ? (uint64_t)strtoll(value, &end, 0) : strtoull(value, &end, 0);
  }
  if (!end || *end || end == value || errno)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "argument '%s': expected buffer:N+OFFSET, i32:V, f32:V, f64:V or bits:HEX", text);
  if (size > 8)
    return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "argument '%s': the parameter has %u bytes", text, size);
  memcpy(out, &bits, size);
  return KILN_OK;
}

static kiln_status find_kernel(const command *c, const ptx_module *module, uint32_t *out, kiln_error *err) {
  ptx_kernel_facts facts;
  for (*out = 0; ptx_module_kernel(module, *out, &facts); ++*out)
    if (!c->kernel || !strcmp(c->kernel, facts.name)) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_NOT_FOUND, "no kernel '%s'", c->kernel ? c->kernel : "");
}

static kiln_status read_extents(const char *text, uint32_t out[3], kiln_error *err) {
  int used = 0;
  out[0] = out[1] = out[2] = 1;
  int count = sscanf(text, "%u%n,%u%n,%u%n", &out[0], &used, &out[1], &used, &out[2], &used);
  return count >= 1 && !text[used]
             ? KILN_OK
             : kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "'%s': expected X, X,Y or X,Y,Z", text);
}

static kiln_status prepare(const command *c, const ptx_module *module, uint32_t kernel, ptx_launch *launch,
                           kiln_buffer *parameters, kiln_error *err) {
  ptx_kernel_facts facts;
  ptx_module_kernel(module, kernel, &facts);
  KILN_TRY(read_extents(c->grid ? c->grid : "1", launch->grid, err));
  memcpy(launch->block, facts.block, sizeof launch->block);
  if (c->block) KILN_TRY(read_extents(c->block, launch->block, err));
  if (c->words.count - 1 != facts.parameter_count)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "%s takes %u arguments, found %zu", facts.name,
                     facts.parameter_count, c->words.count - 1);
  for (uint32_t k = 0; k < facts.parameter_bytes; k++) kiln_buffer_u8(parameters, 0);
  if (parameters->failed || (facts.parameter_bytes && !parameters->bytes))
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  for (uint32_t k = 0; k < facts.parameter_count; k++) {
    uint32_t offset, size;
    ptx_module_parameter(module, kernel, k, &offset, &size);
    KILN_TRY(read_argument(c, c->words.items[k + 1], size, parameters->bytes + offset, err));
  }
  launch->dynamic_shared = (uint32_t)c->shared;
  launch->parameters = parameters->bytes;
  launch->parameter_size = parameters->size;
  launch->resident = (uint32_t)c->resident;
  launch->max_steps = (uint64_t)c->max_steps;
  return KILN_OK;
}

static void print_count(void *context, const char *name, uint32_t count) {
  (void)context;
  printf("%8u %s\n", count, name);
}

static void print_report(const ptx_report *report, uint64_t seed) {
  for (uint32_t k = 0; k < report->count; k++) printf("%s\n", report->items[k].text);
  if (report->count)
    printf("%u found with seed %llu, after %llu steps\n", report->count, (unsigned long long)seed,
           (unsigned long long)report->steps);
}

// One schedule on memory of its own.
static kiln_status run_once(command *c, const kiln_buffer *text, uint64_t seed, bool *out_found,
                            kiln_error *err) {
  ptx_memory *memory = ptx_memory_create();
  ptx_module *module = NULL;
  kiln_buffer parameters = {0};
  ptx_launch launch = {.seed = seed};
  ptx_report report = {0};
  uint32_t kernel;
  if (!memory) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  kiln_status status =
      ptx_module_create(memory, c->words.items[0], (const char *)text->bytes, text->size, &module, err);
  if (!status && c->is_census) ptx_module_census(module, print_count, NULL);
  if (!status && !c->is_census) {
    status = make_buffers(c, memory, err);
    if (!status) status = find_kernel(c, module, &kernel, err);
    if (!status) status = prepare(c, module, kernel, &launch, &parameters, err);
    if (!status) status = ptx_module_run(module, kernel, &launch, &report, err);
    print_report(&report, seed);
    if (status == KILN_STATUS_ASSERT) *out_found = true, status = KILN_OK;
    if (!status) status = write_buffers(c, memory, err);
  }
  ptx_module_destroy(module);
  ptx_memory_destroy(memory);
  kiln_buffer_deinit(&parameters);
  return status;
}

static kiln_status run(command *c, bool *out_found, kiln_error *err) {
  kiln_buffer text = {0};
  kiln_status status = cli_read_file(c->words.items[0], "", MOST_TEXT, &text, err);
  for (size_t i = 0; !status && i < c->buffer_texts.count; i++)
    status = read_buffer(c->buffer_texts.items[i], &c->buffers[i], err);
  for (int64_t k = 0; !status && !*out_found && k < (c->is_census ? 1 : c->schedules); k++)
    status = run_once(c, &text, (uint64_t)(c->seed + k), out_found, err);
  for (size_t i = 0; i < c->buffer_texts.count; i++) {
    free(c->buffers[i].from);
    free(c->buffers[i].to);
    kiln_buffer_deinit(&c->buffers[i].before);
  }
  kiln_buffer_deinit(&text);
  return status;
}

int main(int argc, char **argv) {
  static command c = {.schedules = 1, .seed = 1};
  kiln_error err = {0};
  bool is_found = false;
  const cli_option options[] = {
      {"kernel", 'k', CLI_TEXT, &c.kernel, "NAME", "which kernel (the first)"},
      {"grid", 'g', CLI_TEXT, &c.grid, "X,Y,Z", "blocks (1)"},
      {"block", 'b', CLI_TEXT, &c.block, "X,Y,Z", "threads of a block (what .reqntid or .maxntid says)"},
      {"shared", 0, CLI_NUMBER, &c.shared, "BYTES", "dynamic shared memory (0)", 1 << 20},
      {"buffer", 0, CLI_LIST, &c.buffer_texts, "FILE[:OUTPUT]",
       "memory with the file's bytes, or of a SIZE without content; written to OUTPUT afterwards"},
      {"seed", 's', CLI_NUMBER, &c.seed, "N", "of the order in which warps and their parts run (1)"},
      {"schedules", 'n', CLI_COUNT, &c.schedules, "N",
       "run that many times, with seeds from --seed on, until something is found (1)"},
      {"resident", 0, CLI_COUNT, &c.resident, "N", "blocks that run at the same time (4)", 1 << 16},
      {"max-steps", 0, CLI_NUMBER, &c.max_steps, "N",
       "give up after that many instructions of warps (0: never)"},
      {"census", 0, CLI_FLAG, &c.is_census, NULL, "only count the instructions of all kernels"},
  };
  cli_page page = CLI_PAGE("kiln-ptx [options] FILE.ptx [ARGUMENT...]",
                           "Runs a kernel of a PTX file without a GPU, and reports races, accesses outside "
                           "of memory, undefined values,\n"
                           "misaligned accesses and barriers that cannot open, with their lines.",
                           options);
  page.more =
      "arguments, one a parameter: buffer:N+OFFSET (N from 0), i8:V to i64:V, f32:V, f64:V, bits:HEX.\n"
      "exit codes: 0 nothing was found, 1 something was, 2 the command line is wrong.\n";
  int code = cli_parse(&page, argc, argv, &c.words);
  if (code == -1 && !c.words.count) code = cli_usage(&page, "expected a PTX file");
  if (code == -1 && c.buffer_texts.count > MOST_BUFFERS)
    code = cli_usage(&page, "expected at most %d buffers", MOST_BUFFERS);
  if (code == -1) {
    kiln_status status = run(&c, &is_found, &err);
    code = status ? cli_report(status, &err) : is_found ? CLI_FAILED : CLI_OK;
  }
  cli_list_deinit(&c.words);
  cli_list_deinit(&c.buffer_texts);
  return code;
}
