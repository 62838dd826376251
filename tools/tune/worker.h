// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A child process that launches configs of kernels, so that a crash or a hang costs that config only. The
// parent never opens a GPU. The child is kept for all subjects as long as nothing goes wrong, since making a
// GPU context takes longer than measuring most kernels.
#ifndef KILN_TOOLS_TUNE_WORKER_H
#define KILN_TOOLS_TUNE_WORKER_H

#include <sys/types.h>

#include "base/record.h"
#include "tools/run/arguments.h"

enum { TUNE_MOST_TIMES = 32 };

/// A kernel with arguments, on a device.
typedef struct tune_subject {
  uint32_t number;                 ///< a worker makes the subject again by this number
  const kiln_interface *interface; ///< borrowed
  run_value *values;               ///< with their contents; not placed
  size_t count;
  uint8_t *want, *got; ///< shared memory: buffers after a launch, one after another
  size_t *at;          ///< where the buffer of each value begins in them
  bool is_host, is_hot;
  const uint32_t *grid;  ///< of a recorded launch; NULL: the kernel's own
  const uint8_t **after; ///< of a recorded launch, borrowed: contents after it; NULL: not recorded
} tune_subject;

void tune_subject_deinit(tune_subject *subject);
/// Whether buffer `index` is compared after a launch: the kernel may write it, or its contents were recorded.
bool tune_subject_is_judged(const tune_subject *subject, size_t index);
/// The contents of buffer `index` before a launch: poison if it is only written, zeros if it is added to.
void tune_subject_contents(const tune_subject *subject, size_t index, uint8_t *out);

typedef enum tune_task {
  TUNE_HELLO, ///< which device it is
  TUNE_LOAD,  ///< opens the config; NO_VARIANT where it may not be used for these arguments
  TUNE_CHECK, ///< the arguments, as `kiln run` checks them: INVALID_ARGUMENT or LAUNCH names the one that does not fit
  TUNE_RUN,  ///< one launch from fresh contents; the buffers are in `got` then
  TUNE_TIME, ///< `count` times
  TUNE_TASKS,
} tune_task;

typedef struct tune_request {
  tune_task task;
  uint32_t config, count, subject;
} tune_request;

typedef struct tune_reply {
  kiln_error error; ///< status OK: it worked
  char product[128], processor[64];
  char target[96]; ///< of the code that is launched, and its variant
  uint32_t variant, units, registers, spill_bytes, shared_bytes, block_threads, grid[3];
  double ns[TUNE_MOST_TIMES];
} tune_reply;

/// Makes the subject `number` with its values. A worker calls it again in its own process, with the `context`
/// of the time when it was started.
typedef kiln_status tune_make_subject(const void *context, uint32_t number, tune_subject *out,
                                      kiln_error *err);

typedef struct tune_worker {
  const char *bundle, *device; ///< path or NULL, name; borrowed
  tune_make_subject *make;
  const void *context; ///< borrowed
  int memory;          ///< owned: file without a name that `want` and `got` of the subject are in
  pid_t pid;           ///< 0: not running
  int to, from;
  unsigned starts; ///< how many processes were started
} tune_worker;

/// No process runs yet.
kiln_status tune_worker_open(tune_worker *worker, kiln_error *err);
void tune_worker_close(tune_worker *worker);
/// Makes a subject and the memory that it shares with the worker; this ends the previous subject.
kiln_status tune_worker_subject(tune_worker *worker, uint32_t number, tune_subject *out, kiln_error *err);
/// Sends a request and waits for the reply; starts the process if none runs. TOOL, with the cause, when it
/// died; TIMEOUT when it took longer than `limit_ms` and was ended. Other errors come from the task.
/// `subject`: NULL if the task has none.
kiln_status tune_worker_ask(tune_worker *worker, const tune_subject *subject, tune_request request,
                            unsigned limit_ms, tune_reply *out, kiln_error *err);
/// Ends the process; the next task starts another one.
void tune_worker_end(tune_worker *worker);

#endif
