// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a command line asks to compile: sources x instances x configs x variants x targets, each lowered and
// with its key.
#ifndef KILN_TOOLS_BUILD_PLAN_H
#define KILN_TOOLS_BUILD_PLAN_H

#include "base/buffer.h"
#include "cache/cache.h"
#include "compiler/front.h"
#include "tools/common/cli.h"
#include "tools/build/compile_key.h"
#include "tools/kiln/toolchain.h"
#include "tuner/table.h"

typedef struct plan_source {
  const char *path;
  kiln_buffer text, metadata; ///< owned; metadata is the JSON next to a .ttir file
  bool is_read;               ///< text is there
  kiln_digest digest;         ///< of the text, where it was only looked at
  kiln_arena *arena;          ///< owned
  kiln_unit *unit;            ///< NULL: it has errors, or was not opened yet
  kiln_error error;           ///< of --keep-going: why nothing of it is compiled
  cli_place place;            ///< its first error that has a place
} plan_source;

enum { PLAN_STAGES = 6 };
extern const char *const plan_stage_names[PLAN_STAGES];

typedef enum job_state { JOB_PENDING, JOB_HIT, JOB_COMPILED, JOB_FAILED } job_state;

/// One artifact to make.
typedef struct plan_job {
  uint32_t source, instance, config, variant, target;
  kiln_buffer canonical; ///< owned
  kiln_buffer positions; ///< owned; empty without --debug
  kiln_key key;          ///< owned
  kiln_digest interface_digest;
  job_state state;
  bool is_late;           ///< in a fleet: another machine made it before this one began
  bool is_foreign;        ///< made by tools that changed during the build, so the key does not describe it
  bool is_alone;          ///< in a fleet: the server could not be asked whether another machine makes it
  bool is_vouched;        ///< HIT: signed by a key that this build trusts
  kiln_buffer info, code; ///< owned; set when HIT or COMPILED
  kiln_buffer report;     ///< owned; with them: compiler/report.h
  kiln_buffer printed;    ///< owned; what passes printed, also when FAILED
  uint64_t times[PLAN_STAGES]; ///< of a compile; names: plan_stage_names
  uint64_t cost_ns;            ///< what making it took, when it was stored or now
  uint64_t start_ns, ns;       ///< of the look-up that hit, or of the compile
  uint64_t since_ns;           ///< when work on it began; 0: nothing works on it. Guarded by the crew's lock
  uint32_t lane;               ///< 0 the command's thread, n worker n
  kiln_error error;            ///< of FAILED
  cli_place *place;            ///< of FAILED: its first error in the source: owned; NULL: none
} plan_job;

typedef struct plan {
  const char *const *targets_text;
  kiln_target *targets; ///< owned
  size_t target_count;
  plan_source *sources; ///< owned
  size_t source_count;
  plan_job *jobs; ///< owned
  size_t job_count, job_capacity;
  kiln_codegen_options options;
  toolchain who;
  bool all_configs;
  bool with_launched;      ///< a bundle: what may be launched in place of a kernel that was asked for, too
  bool for_tuning;         ///< --tuning: the bundle says what `kiln tune` wants to know
  kiln_tuner_table *tuned; ///< choices to take into the bundle: owned; NULL: none
  char *tuned_path;        ///< path of the table, for messages: owned
  uint32_t left_out;       ///< of --tuning: objects of ranges that could not but spill
  char first_left_out[400];
  cli_list tuned_files; ///< the tables that were read: texts are owned
  bool tuned_beside;    ///< they were not named, but found next to the sources
  size_t max_jobs;      ///< --max-objects
  bool keep_going;      ///< what fails is left out, and noted: plan_failures
  bool has_spoken;      ///< something was printed (or suppressed by --quiet) that is not stored with a bundle
  unsigned quiet;       ///< --quiet, how often
  kiln_buffer said;     ///< owned: messages about the sources, also suppressed ones; by plan_add_said
  uint64_t front_ns;
} plan;

/// `p` must be zero.
void plan_init(plan *p);
void plan_deinit(plan *p);

/// Reads targets ("sm_90a,gfx942" or several words).
kiln_status plan_targets(plan *p, const cli_list *texts, kiln_error *err);
/// Whether the path names a .kir file.
bool plan_is_kir_path(const char *path);
/// Whether a tuned choice is for devices that run code for the target.
bool plan_is_choice_for(const kiln_tuned_entry *choice, const kiln_target *target);
/// Reads the bytes of one source, and of the metadata next to it.
kiln_status plan_read_source(plan *p, const char *path, kiln_error *err);
/// The same, but of a regular file only the digest is kept: the cache is asked for nothing more, and a start
/// is faster that does not fill new pages with a text that nobody parses.
kiln_status plan_look_at_source(plan *p, const char *path, kiln_error *err);
/// Reads a source that was only looked at. What it has now is what counts.
kiln_status plan_finish_source(plan_source *source, kiln_error *err);
/// The digest of its bytes, all of which went through this process.
kiln_digest plan_source_digest(const plan_source *source);
/// Parses and checks a source that was read; its diagnostics go to stderr. SOURCE when it has errors.
kiln_status plan_open_source(plan *p, plan_source *source, const kiln_front_options *options,
                             kiln_error *err);
/// Both.
kiln_status plan_add_source(plan *p, const char *path, const kiln_front_options *options, kiln_error *err);
/// Lowers every kernel whose look-up name or plain name is in `only` (empty: all), and with_launched what it
/// launches, and computes the keys.
/// SOURCE when a kernel cannot be lowered; with keep_going its jobs are FAILED instead.
/// Two sources with instances of the same name are an error.
kiln_status plan_lower(plan *p, const cli_list *only, kiln_error *err);

/// How many sources, and objects that could not be lowered, were left out so far (--keep-going).
size_t plan_failures(const plan *p);

/// How many --quiet suppress a message.
typedef enum plan_said {
  PLAN_SAID_ONCE_QUIET = 1,
  PLAN_SAID_TWICE_QUIET = 2,
  PLAN_SAID_ALWAYS = 255
} plan_said;

/// Appends a message to those that were printed.
void plan_add_said(kiln_buffer *said, plan_said unless, const void *text, size_t size);
/// Prints these messages to stderr, except those that --quiet suppresses.
void plan_say(const uint8_t *said, size_t size, unsigned quiet);

const kiln_interface *plan_interface(const plan *p, const plan_job *job);
/// "softmax[T=bf16] BLOCK=1024,warps=4": instance, config and variant of a job.
const char *plan_job_name(const plan *p, const plan_job *job, char *out, size_t capacity);
/// The same with " for sm_90a": the name of a job in messages.
const char *plan_job_title(const plan *p, const plan_job *job, char *out, size_t capacity);

/// The job's kernel in canonical form, lowered once more, with the places of its operations.
ir_kernel *plan_kernel(const plan *p, const plan_job *job, kiln_arena *arena);

/// Prints where operation `number` of the job's kernel stands in its source, with `text` before it, to
/// stderr; nothing when it has no place.
void plan_print_place(const plan *p, const plan_job *job, uint32_t number, const char *text);

#endif
