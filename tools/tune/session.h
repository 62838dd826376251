// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the parts of `kiln tune` share: the settings of the command line, and the state of one process.
#ifndef KILN_TOOLS_TUNE_SESSION_H
#define KILN_TOOLS_TUNE_SESSION_H

#include <stdatomic.h>

#include "tools/common/cli.h"
#include "tools/case/recording.h"
#include "tools/tune/contest.h"
#include "tools/tune/job.h"
#include "tools/tune/shapes.h"

enum { TUNE_MOST_KEYS = 16 };

typedef struct tune_settings {
  const char *output, *shapes, *record, *devices, *budget, *keep, *gate, *band, *cache_folder, *html;
  const char *post, *worker, *collect, *sign_key; // addresses of boards
  const char *only;                               // only shapes of this kernel; NULL: all
  const char *key;                                // of Triton IR
  const char *case_folder;                        // the one of `cases` that is being measured
  cli_list words, kernels, instances, trust, among, cases;
  const uint8_t *result_key; // signs results of a job; NULL: they are not signed
  const tune_job *job;       // the job of another machine that is being done; NULL: none
  int64_t timeout_s, judge_s, most_spill, all_below, jobs;
  bool hot, again, check, merge, verbose, progress;
  tune_rules rules;
  double gate_band;
} tune_settings;

// One contest: a kernel of the bundle with a shape.
typedef struct tune_pair {
  const view_kernel *kernel;
  const tune_shape *shape;
  uint64_t elements;      // in all buffers of the shape
  uint32_t group, number; // number of the kernel, in order of first mention; number of the pair
} tune_pair;

// What the processes of several devices share.
typedef struct tune_shared {
  atomic_uint next, failed, broken, compared, checked, contests, processes;
  _Atomic(int64_t) log_sum; // for --gate: logarithms of ratios, in millionths
  _Atomic(uint64_t) values_ns, judge_ns, spent_ns[TUNE_TASKS]; // of all devices together
} tune_shared;

typedef struct tuner {
  const tune_settings *s;
  const char *bundle_path, *device, *shapes_path;
  bundle_view view;
  kiln_library *library; // of the same bundle, for parameters
  kiln_device *null_device;
  kiln_arena *arena;
  tune_shape *shapes;
  uint32_t shape_count;
  tune_pair *pairs; // owned
  uint32_t pair_count;
  kiln_tuner_table known, old; // the table at --output; the one that --gate compares with
  kiln_tuner_table *among;     // of --among, one each: owned
  tune_shared *shared;
  case_file *recorded;             // of a case: owned
  int html_fd;                     // of --html; -1: none
  board_client board;              // of s->job
  char turn_id[KILN_TUNER_ID + 1]; // the id whose lease it has; "": none
  uint64_t beaten_ns;
  tune_worker worker; // of the device
  tune_reply where;   // product, processor and units of the device
  char toolchain[KILN_TUNER_ID + 1];
} tuner;

/// The text of note PREFIX NAME of the bundle, or NULL.
const char *tune_note_of(const bundle_view *view, const char *prefix, const char *name);
/// The text of the shapes: of --shapes, of --record combined with it, or of the job.
/// Whether the shapes can be read, before anything is compiled. Not for what can be read only once.
kiln_status tune_shapes_check(const tune_settings *settings, kiln_error *err);
kiln_status tune_shapes_text(const tune_settings *settings, kiln_buffer *out, kiln_error *err);
/// Makes the pairs of the tuner. An error in the text is also printed with its line.
kiln_status tune_pairs_read(tuner *t, kiln_error *err);
/// Makes the arguments of a pair. The caller frees the subject, also after an error.
kiln_status tune_pair_values(const tuner *t, const tune_pair *pair, tune_subject *s, kiln_error *err);
/// Reads the case; its one pair is the bundle's kernel, with the recorded arguments.
kiln_status tune_case_read(tuner *t, kiln_error *err);
/// Sets the values, which were begun, and the expected contents of the subject.
kiln_status tune_case_values(const tuner *t, const tune_pair *pair, tune_subject *s, kiln_error *err);
/// Writes the case's kernel into a folder as kernel.ttir, with its launch facts next to it.
kiln_status tune_case_source(const char *folder, const char *into, kiln_error *err);
/// "softmax[T=f32] rows=128 cols=256"
void tune_pair_title(const tune_pair *pair, const tune_subject *s, char *out, size_t capacity);

/// The number of the config with this text; config_count: none.
uint32_t tune_config_called(const kiln_interface *in, const char *text);
/// The entry of a measurement, without choice and history; arena.
kiln_tuned_entry *tune_entry_make(const tuner *t, const tune_subject *s);
/// Its identity as one line; arena.
const char *tune_entry_identity(const tuner *t, const kiln_tuned_entry *e);
/// Fills in the choice of the contest and how it was found.
void tune_entry_fill(const tuner *t, kiln_tuned_entry *e, const tune_subject *s, const tune_contest *c);

/// The configs that won for the kernel in the table at --output, nearest shapes first, also those of other
/// devices. With --among: the choices of those tables for this identity.
void tune_entry_hints(const tuner *t, const kiln_tuned_entry *e, const tune_subject *s, tune_hints *out);

/// Finds out which device it is, in a process of its own.
kiln_status tune_ask_device(const char *device, tune_reply *out, kiln_error *err);

/// Measure the pairs of a bundle, of sources, of cases. Exit codes.
int tune_bundle(const tune_settings *s, const char *path);
int tune_sources(const tune_settings *s);
int tune_cases(const tune_settings *s);

/// --post, --worker, --collect. Exit codes.
int tune_post(const tune_settings *s, const char *bundle_path);
int tune_work_for_others(const tune_settings *s);
int tune_collect(const tune_settings *s);

#endif
