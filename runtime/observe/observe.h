// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parts of libkiln-observe. Each has a function that begins it, one for events, and one that ends it; one
// thread at a time begins and ends. Events come from any thread.
#ifndef KILN_RUNTIME_OBSERVE_OBSERVE_H
#define KILN_RUNTIME_OBSERVE_OBSERVE_H

#include <stdbool.h>

#include "base/status.h"
#include "runtime/kiln_observe.h"

/// What parts change while events come. Free in the child of a fork.
void observe_lock(void);
void observe_unlock(void);

/// What goes wrong later than kiln_observe_start could say it: a line on standard error.
void observe_complain(const char *text);

/// The library that an event is of, by its own functions.
typedef struct observed_library {
  __typeof__(kiln_hook_add) *hook_add;
  __typeof__(kiln_hook_remove) *hook_remove;
  __typeof__(kiln_choose_reason) *choose_reason;
} observed_library;

/// The number of the word at `*list` among `words` (NULL ends them), and moves on; -1 at the end of the list,
/// -2 for another word, of which `*list` then begins with.
int observe_take_word(const char **list, const char *const *words);

/// Log. `categories` as kiln_observe_start has them. `out_kinds`: the events that it wants.
kiln_status observe_log_begin(const char *categories, const char *path, uint32_t *out_kinds, kiln_error *err);
void observe_log(const observed_library *library, const kiln_event *event); ///< one of these
void observe_log_end(void);

void observe_count(const kiln_event *event);
/// In the child of a fork: what its parent counted is the parent's, and so is the file's name.
void observe_counters_in_child(void);
/// The file for observe_counters_write, "%p" in it being the process; relative to the folder at this time.
void observe_counters_name(const char *path);
/// Writes the file, if it has a name and this process counted anything.
void observe_counters_write(void);

/// Ranges of either vendor.
typedef enum range_kind { RANGE_NVTX, RANGE_ROCTX, RANGE_KINDS } range_kind;
kiln_status observe_ranges_begin(range_kind kind, kiln_error *err);
void observe_ranges(const kiln_event *event);
void observe_ranges_end(void);

/// Where the code of a host kernel is: what LOADED says, read with bounds. False: it is no host kernel, or
/// cannot be told.
typedef struct host_code {
  const void *begin;
  size_t size;
} host_code;
bool observe_host_code(const kiln_event *event, host_code *out);
/// "add_one BLOCK=64": a kernel and its config, and its variant, without control characters.
void observe_name(const kiln_event *event, char *out, size_t size);

void observe_perf(const kiln_event *event);
void observe_perf_end(void);

void observe_gdb(const kiln_event *event);
void observe_gdb_end(void);

#endif
