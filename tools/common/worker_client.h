// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The caller's side of the worker protocol (docs/architecture.md): one kiln-codegen process, one request at a
// time. When a worker dies, only the kernel that it compiled fails; the next request starts another worker.
// One client per thread.
#ifndef KILN_TOOLS_COMMON_WORKER_CLIENT_H
#define KILN_TOOLS_COMMON_WORKER_CLIENT_H

#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/file_mark.h"
#include "base/status.h"

typedef struct worker_client {
  char program[4096]; ///< path of kiln-codegen
  int program_fd;     ///< that file, opened: this is what runs, whatever is at the path now; -1: run the path
  int assembler_fd;   ///< the same of the PTX assembler; -1: by the path in the options. Both borrowed
  bool by_path;       ///< this system cannot run an open file: the path was run
  bool is_inherited;  ///< it was started by another process, which knows how it ends
  pid_t pid;          ///< 0: not running; read by other threads
  int to, from;
} worker_client;

/// The result of a compile. Spans are borrowed from `bytes`.
typedef struct worker_reply {
  kiln_buffer bytes;   ///< owned: the caller ends the reply by kiln_buffer_deinit
  const char *printed; ///< what passes printed (--print-after, or an unverified kernel), also of errors
  size_t printed_size;
  const uint8_t *info; ///< encoded code info
  size_t info_size;
  const uint8_t *code;
  size_t code_size;
  const uint8_t *report; ///< compiler/report.h
  size_t report_size;
  kiln_file_mark maker; ///< of the file of the program that replied; all zero: unknown
  uint64_t times[6];    ///< ns: middle, lower, optimise, emit, assemble, link
} worker_reply;

/// NOT_FOUND when the program is not installed. The caller may set the descriptors afterwards.
kiln_status worker_client_init(worker_client *client, kiln_error *err);
/// Starts the process, unless it runs. Else the first request does.
kiln_status worker_client_start(worker_client *client, kiln_error *err);
/// From now on, in a process that was forked, the first client that wants to start the same files takes this
/// running worker over. `running` stays the parent's, which reaps it.
void worker_client_inherit(const worker_client *running);
/// Ends the process, if one runs.
void worker_client_deinit(worker_client *client);

/// The processor time, in ticks, that the process and its children have used: it grows as long as they work,
/// and stays the same when they are stopped. Without /proc it always grows. Any thread may call it.
uint64_t worker_client_work(const worker_client *client);

/// Compiles. `options` is the encoding of kiln_codegen_options_encode, `positions` that of
/// kiln_positions_encode (NULL: no line information). Errors are the worker's; TOOL when it died, with how.
kiln_status worker_compile(worker_client *client, const char *target, const char *symbol,
                           const kiln_buffer *options, const kiln_buffer *canonical,
                           const kiln_buffer *positions, worker_reply *out, kiln_error *err);
/// Compiles a kernel in the text form of a stage, as kiln_stage_print makes it. `until`: the last pass to
/// run; the kernel after it is the reply's code, as text. NULL: all passes.
kiln_status worker_compile_stage(worker_client *client, const char *until, const kiln_buffer *options,
                                 const kiln_buffer *text, worker_reply *out, kiln_error *err);

#endif
