// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the commands that compile share: their common options, the opened cache, the number of workers.
#ifndef KILN_TOOLS_BUILD_SESSION_H
#define KILN_TOOLS_BUILD_SESSION_H

#include "tools/build/plan.h"
#include "tools/build/execute.h"

typedef struct session {
  plan plan;
  kiln_cache *cache;  ///< NULL: none
  kiln_cache *memory; ///< of what tools are, without a cache: read only; NULL: none
  cli_list words, targets, instances, only;
  const char *cache_folder; ///< --cache-dir
  int64_t jobs, warps, stages, max_objects, verify;
  const char *tuned; ///< --tuned
  const char *key;   ///< --key
  bool beside;       ///< else the tables in the folders of the sources
  const char *fleet; ///< --fleet
  const char *sign;  ///< --sign
  bool is_misused;   ///< what is wrong is in the command line
  bool no_cache, force, must_hit, all_configs, assembler_given, for_tuning, tuned_strict;
  unsigned quiet; ///< --quiet, how often
} session;

void session_init(session *s);
void session_deinit(session *s);

/// The rows of the common options, for a page: SESSION_OPTIONS(s) inside an array initialiser.
// clang-format off
#define SESSION_OPTIONS(s)                                                                                    \
  {"target", 't', CLI_LIST, &(s)->targets, "NAME,...", "targets to compile for: GPU architectures and CPUs; `kiln targets` lists them"}, \
      {"instance", 'i', CLI_LIST, &(s)->instances, "K[P=V]", "one more instance of a kernel"},                \
      {"kernel", 'k', CLI_LIST, &(s)->only, "NAME", "only this kernel, or this instance of it"},              \
      {"configs-all", 0, CLI_FLAG, &(s)->all_configs, NULL, "every config, also those no launch rule reaches"}, \
      {"warps", 0, CLI_COUNT, &(s)->warps, "N", "warps of Triton IR sources (default: metadata, then 4)", KILN_MOST_WARPS}, \
      {"stages", 0, CLI_COUNT, &(s)->stages, "N", "pipeline stages of Triton IR sources", KILN_MOST_STAGES}, \
      {"jobs", 'j', CLI_COUNT, &(s)->jobs, "N", "workers at the same time (default: one per CPU)", CLI_MOST_JOBS},           \
      {"cache-dir", 0, CLI_TEXT, &(s)->cache_folder, "DIR", "folder of the cache (default: KILN_CACHE_DIR)"}, \
      {"no-cache", 0, CLI_FLAG, &(s)->no_cache, NULL, "neither read nor write the cache"},                    \
      {"force", 0, CLI_FLAG, &(s)->force, NULL, "compile everything again and store it"},                     \
      {"must-hit", 0, CLI_FLAG, &(s)->must_hit, NULL, "fail if something misses, and name the fields that differ"}, \
      {"verify-cache", 0, CLI_NUMBER, &(s)->verify, "PERCENT", "compile that share of the hits again and compare bytes", 100}, \
      {"max-objects", 0, CLI_COUNT, &(s)->max_objects, "N", "refuse to build more objects than this (20000)"}, \
      {"quiet", 'q', CLI_TIMES, &(s)->quiet, NULL, "print only errors and warnings about sources; twice: errors only"}
// clang-format on

/// For cli_page.other: takes options of code generation (--optimise=2, --ptx-assembler=ptxas, --emit=asm,
/// ...). `context` is the session.
bool session_codegen_option(void *context, const char *text, kiln_error *err);
/// For cli_page.other_name: those options.
const char *session_codegen_name(size_t index, bool *out_needs_value);
/// For cli_page.other_row: the same.
const char *session_codegen_row(size_t index, const char **out_choices);
/// For cli_page.other_help: the options of code generation. Static.
const char *session_codegen_help(void);

/// Refuses options that ask for what the cache has with one by which nothing is looked up; -1: none do.
int session_check_cache(const cli_page *page, const session *s);
/// Reports what session_open, or what follows it, failed with. Returns the exit code.
int session_report(const session *s, kiln_status status, const kiln_error *err);
/// Targets (`fallback` when none was named), tools, cache.
kiln_status session_open(session *s, const char *fallback_target, kiln_error *err);
/// After the command line is read: session_open, and the bytes of the sources.
kiln_status session_read(session *s, const char *fallback_target, kiln_error *err);
/// Parses, checks and lowers what was read.
kiln_status session_lower(session *s, kiln_error *err);
/// Both.
kiln_status session_prepare(session *s, const char *fallback_target, kiln_error *err);
/// Looks everything up and compiles what is missing; prints each failure. CLI_OK or CLI_FAILED.
int session_make(session *s, execute_counts *sums);

/// How a bundle is written, by `kiln-tool bundle-write`; NULL and 0 for its defaults.
typedef struct session_bundle {
  const char *output, *dictionary, *sign;
  int64_t level, max_size;
} session_bundle;
/// The rows of these options but `output`, for a page.
#define SESSION_BUNDLE_OPTIONS(b)                                                                            \
  {"level", 0, CLI_COUNT, &(b)->level, "1..19", "zstd level of the bundle (3; 19 for a release)", 19},       \
      {"dictionary", 0, CLI_TEXT, &(b)->dictionary, "WHICH", "auto, none, small or large (auto)"},           \
      {"sign",                                                                                               \
       0,                                                                                                    \
       CLI_INPUT,                                                                                            \
       &(b)->sign,                                                                                           \
       "KEY",                                                                                                \
       "secret key of `kiln cache keygen`: sign the bundle; objects that nobody signed are compiled again"}, \
  {                                                                                                          \
    "max-size", 0, CLI_COUNT, &(b)->max_size, "BYTES",                                                       \
        "fail when the bundle would be larger; nothing is written"                                           \
  }

/// Refuses values of them that kiln-tool would refuse once everything is compiled; -1: none.
int session_check_bundle(const cli_page *page, const session_bundle *how);
/// Writes the objects that did not fail as a bundle, with kiln-tool. A complete bundle is also stored in the
/// cache.
kiln_status session_write_bundle(session *s, const session_bundle *how, kiln_error *err);
/// In place of session_make and session_write_bundle, if the cache has the finished bundle: true when it was
/// written, its notes were printed and every object was counted as a hit.
bool session_reuse_bundle(session *s, const session_bundle *how, execute_counts *sums);
/// The same before session_lower, if the cache knows which bundle this command makes of these sources: no
/// source is parsed, and the plan has no jobs. Sources with messages are not remembered.
bool session_reuse_build(session *s, const session_bundle *how, execute_counts *sums);
/// A cache that does not work does not fail the build; each problem gets a line on stderr. `but_remote`:
/// problems of the remote side were reported already.
void session_print_cache_notes(const session *s, bool but_remote);
/// Notes for the user about the objects that were made, one per line.
void session_notes(const session *s, kiln_buffer *out);

#endif
