// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PTX to cubin: picks the assembler, reads its report on registers and spills.
#include "compiler/codegen/finish/finish_cubin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/codegen/finish/finish.h"

typedef kiln_status assemble(const kiln_tool_file *tool, const char *arch, unsigned optimise, bool debug,
                             const char *ptx, kiln_buffer *out, kiln_buffer *log, kiln_error *err);

static const struct {
  const char *name;
  assemble *run;
} assemblers[] = {
    [KILN_ASSEMBLER_NONE] = {"none", NULL},
    [KILN_ASSEMBLER_NVJITLINK] = {"libnvJitLink", kiln_assemble_nvjitlink},
    [KILN_ASSEMBLER_PTXAS] = {"ptxas", kiln_assemble_ptxas},
};

// What an assembler says when it is not the PTX that is wrong; anything else is.
static kiln_status status_of_log(const char *text) {
  static const struct {
    const char *words;
    kiln_status status;
  } known[] = {{"Unsupported .version", KILN_STATUS_TOOL},
               {"Memory allocation", KILN_STATUS_TOOL},
               {"uses too much", KILN_STATUS_LIMIT}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strstr(text, known[i].words)) return known[i].status;
  return KILN_STATUS_INTERNAL;
}

kiln_status kiln_assemble_refused(const char *tool, const kiln_buffer *log, kiln_error *err) {
  char text[700];
  snprintf(text, sizeof text, "%.*s", (int)(log->size < sizeof text ? log->size : sizeof text - 1),
           log->size ? (const char *)log->bytes : "");
  for (char *p = text; *p; p++)
    if (*p == '\n') *p = p[1] ? ';' : 0;
  return kiln_fail(err, status_of_log(text), "%s refuses the PTX: %s", tool,
                   text[0] ? text : "without a message");
}

// The number in front of `words` where they first stand in `log`; 0 when they do not.
static uint32_t number_before(const char *log, const char *words) {
  const char *at = strstr(log, words);
  if (!at) return 0;
  while (at > log && at[-1] == ' ') at--;
  while (at > log && at[-1] >= '0' && at[-1] <= '9') at--;
  return (uint32_t)strtoul(at, NULL, 10);
}

// "ptxas info : Used 32 registers, ..." and "0 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads".
static void read_report(kiln_buffer *log, kiln_code_info *info) {
  kiln_buffer_u8(log, 0);
  if (log->failed) return;
  const char *text = (const char *)log->bytes, *used = strstr(text, "Used ");
  if (used) info->registers = (uint32_t)strtoul(used + 5, NULL, 10);
  info->spill_bytes = number_before(text, "bytes spill stores");
}

static kiln_status name_tool(const kiln_codegen_options *options, kiln_tool_file *out, kiln_error *err) {
  int length = options->assembler_fd
                   ? snprintf(out->run, sizeof out->run, "/proc/self/fd/%d", options->assembler_fd)
                   : snprintf(out->run, sizeof out->run, "%s", options->assembler_path);
  out->path = options->assembler_path;
  return length < (int)sizeof out->run
             ? KILN_OK
             : kiln_fail(err, KILN_STATUS_TOOL,
                         "the path of the assembler has %d bytes, at most %d are taken", length,
                         KILN_TOOL_PATH - 1);
}

kiln_status kiln_finish_cubin(const kiln_target *target, const kiln_codegen_options *options, const char *ptx,
                              kiln_buffer *out, kiln_code_info *info, kiln_buffer *producer,
                              kiln_error *err) {
  const char *arch = target->processor->name, *path = options->assembler_path;
  unsigned kind = options->assembler;
  if (kind >= sizeof assemblers / sizeof *assemblers || !assemblers[kind].run)
    return kiln_fail(err, KILN_STATUS_TOOL,
                     "a cubin for %s needs an assembler (--ptx-assembler=nvjitlink or ptxas); PTX needs none",
                     arch);
  if (!path || !path[0])
    return kiln_fail(err, KILN_STATUS_TOOL,
                     "a cubin for %s: the file of %s is not given (--assembler-path); PTX needs none", arch,
                     assemblers[kind].name);
  kiln_buffer log = {0};
  kiln_tool_file tool;
  size_t before = out->size;
  kiln_status status = name_tool(options, &tool, err);
  if (status == KILN_OK)
    status = assemblers[kind].run(&tool, arch, options->optimise, options->debug, ptx, out, &log, err);
  if (status == KILN_OK && !out->failed)
    status = kiln_finish_check_cubin(out->bytes + before, out->size - before, ptx, err);
  if (status == KILN_OK) {
    read_report(&log, info);
    kiln_buffer_format(producer, ", %s", assemblers[kind].name);
  }
  kiln_buffer_deinit(&log);
  return status;
}
