// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles a kernel from the text form of a stage (.kir), without the cache.
#include "tools/build/compile_kir.h"

#include <stdio.h>
#include <string.h>

#include "compiler/passes/stages.h"
#include "compiler/options.h"
#include "tools/common/worker_client.h"

enum { MOST_TEXT = 64 << 20 };

/// `text` has been read once, so its errors were reported already.
static int compile(const compile_kir *c, const kiln_buffer *text) {
  kiln_error err = {0};
  worker_client worker;
  worker_reply reply = {0};
  kiln_buffer options = {0};
  kiln_codegen_options_encode(&c->s->plan.options, &options);
  kiln_status status = worker_client_init(&worker, &err);
  if (status == KILN_OK) {
    worker.program_fd = c->s->plan.who.compiler.fd;
    worker.assembler_fd = c->s->plan.who.assembler.fd;
    status = worker_compile_stage(&worker, c->until, &options, text, &reply, &err);
    if (reply.printed_size) fwrite(reply.printed, 1, reply.printed_size, stderr);
    for (unsigned i = 0; status == KILN_OK && c->times && i < PLAN_STAGES; i++)
      fprintf(stderr, "%-10s %9.3f ms\n", plan_stage_names[i], (double)reply.times[i] / 1e6);
    if (status == KILN_OK && (c->output || c->until))
      status = cli_write_file(c->output ? c->output : "-", reply.code, reply.code_size, &err);
    kiln_buffer_deinit(&reply.bytes);
    worker_client_deinit(&worker);
  }
  kiln_buffer_deinit(&options);
  return status == KILN_OK ? CLI_OK : cli_report(status, &err);
}

/// Reports where the text is wrong.
static int report_fault(const char *path, const kiln_buffer *text, ir_place place, const kiln_error *err,
                        kiln_arena *arena) {
  kiln_buffer out = {0};
  kiln_diagnostics d = {.arena = arena};
  kiln_diagnose(&d, KILN_ERROR, path, place, "%s", err->text);
  kiln_diagnostics_print(&d, (const char *)text->bytes, text->size, &out);
  fwrite(out.bytes, 1, out.size, stderr);
  kiln_buffer_deinit(&out);
  return CLI_FAILED;
}

/// Opens the session for the text's target.
static kiln_status open_session(session *s, const char *path, const char *target, kiln_error *err) {
  for (size_t i = 0; i < s->targets.count; i++) {
    kiln_target asked;
    char name[KILN_TARGET_NAME];
    KILN_TRY(kiln_target_parse(s->targets.items[i], &asked, err));
    if (strcmp(kiln_target_name(&asked, name), target) != 0)
      return kiln_fail(err, KILN_STATUS_TARGET, "%s is a kernel on its way to %s, not to %s", path, target,
                       name);
  }
  s->no_cache = true;
  return session_open(s, target, err);
}

int compile_kir_file(const compile_kir *c, const char *path) {
  kiln_error err = {0};
  kiln_buffer text = {0};
  kiln_arena *arena = kiln_arena_create();
  kiln_stage stage;
  ir_kernel *kernel;
  ir_place place;
  char target[KILN_TARGET_NAME];
  int code = CLI_OK;
  kiln_status status = cli_read_file(path, "", MOST_TEXT, &text, &err);
  if (status == KILN_OK &&
      kiln_stage_read(arena, (const char *)text.bytes, text.size, &stage, &kernel, &place, &err) != KILN_OK) {
    code = report_fault(path, &text, place, &err, arena);
  } else if (status == KILN_OK) {
    status = open_session(c->s, path, kiln_target_name(&stage.target, target), &err);
    if (status == KILN_OK) code = compile(c, &text);
  }
  kiln_buffer_deinit(&text);
  kiln_arena_destroy(arena);
  return status == KILN_OK ? code : cli_report(status, &err);
}

int compile_kir_job(const compile_kir *c) {
  const plan_job *job = &c->s->plan.jobs[0];
  kiln_error err = {0};
  kiln_buffer text = {0};
  ir_kernel *kernel;
  kiln_arena *arena = kiln_arena_create();
  int code;
  kiln_status status = kiln_canonical_decode(arena, job->canonical.bytes, job->canonical.size,
                                             plan_interface(&c->s->plan, job)->symbol, &kernel, &err);
  if (status == KILN_OK) {
    const kiln_stage front = {.target = c->s->plan.targets[job->target]};
    kiln_stage_print(&front, kernel, &text);
    code = compile(c, &text);
  } else {
    code = cli_report(status, &err);
  }
  kiln_buffer_deinit(&text);
  kiln_arena_destroy(arena);
  return code;
}
