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

// Whether code spills while the launch leaves its threads more registers than it takes: ptxas 13.0 gives some
// kernels of 256 threads 32 registers and 30 KB of spills, and 255 once it is told that a block may have a
// processor for itself. Others only lose neighbours by that, so it is not said of them.
static bool holds_back(const kiln_code_info *info, const char *ptx) {
  enum { PROCESSOR = 65536, MOST = 255, STEP = 8 };
  if (!info->spill_bytes || !info->block_threads) return false;
  if (strstr(ptx, "\n.minnctapersm ") || strstr(ptx, "\n.maxnreg ")) return false;
  uint32_t share = PROCESSOR / info->block_threads / STEP * STEP;
  return info->registers < (share < MOST ? share : MOST);
}

// The PTX with one block a processor as what is wanted; empty where it has no bound of threads.
static void allow_all(const char *ptx, kiln_buffer *out) {
  const char *at = strstr(ptx, "\n.maxntid "), *end = at ? strchr(at + 1, '\n') : NULL;
  if (!end) return;
  static const char line[] = "\n.minnctapersm 1";
  kiln_buffer_bytes(out, ptx, (size_t)(end - ptx));
  kiln_buffer_bytes(out, line, sizeof line - 1);
  kiln_buffer_bytes(out, end, strlen(end));
  kiln_buffer_u8(out, 0);
}

static kiln_status assemble_once(const kiln_codegen_options *options, const kiln_tool_file *tool,
                                 const char *arch, const char *ptx, kiln_buffer *out, kiln_code_info *info,
                                 kiln_error *err) {
  kiln_buffer log = {0};
  size_t before = out->size;
  kiln_status status =
      assemblers[options->assembler].run(tool, arch, options->optimise, options->debug, ptx, out, &log, err);
  if (status == KILN_OK && !out->failed)
    status = kiln_finish_check_cubin(out->bytes + before, out->size - before, ptx, err);
  if (status == KILN_OK) read_report(&log, info);
  kiln_buffer_deinit(&log);
  return status;
}

// Puts what the assembler makes of all registers in place of the code from `before` on, where that spills
// less.
static kiln_status assemble_wider(const kiln_codegen_options *options, const kiln_tool_file *tool,
                                  const char *arch, const char *ptx, kiln_buffer *out, size_t before,
                                  kiln_code_info *info, kiln_error *err) {
  kiln_buffer text = {0}, code = {0};
  kiln_code_info wide = *info;
  kiln_status status = KILN_OK;
  allow_all(ptx, &text);
  if (text.size && !text.failed)
    status = assemble_once(options, tool, arch, (const char *)text.bytes, &code, &wide, err);
  if (status == KILN_OK && !code.failed && wide.spill_bytes < info->spill_bytes) {
    *info = wide;
    out->size = before;
    kiln_buffer_bytes(out, code.bytes, code.size);
  }
  kiln_buffer_deinit(&text), kiln_buffer_deinit(&code);
  return status;
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
  kiln_tool_file tool;
  size_t before = out->size;
  KILN_TRY(name_tool(options, &tool, err));
  KILN_TRY(assemble_once(options, &tool, arch, ptx, out, info, err));
  if (holds_back(info, ptx)) KILN_TRY(assemble_wider(options, &tool, arch, ptx, out, before, info, err));
  kiln_buffer_format(producer, ", %s", assemblers[kind].name);
  return KILN_OK;
}
