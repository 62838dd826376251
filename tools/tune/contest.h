// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A contest between the configs of one kernel for one set of arguments: they are launched, judged, and
// measured in turn until the fastest is certain.
#ifndef KILN_TOOLS_TUNE_CONTEST_H
#define KILN_TOOLS_TUNE_CONTEST_H

#include "tools/tune/judge.h"
#include "tools/tune/progress.h"
#include "tuner/samples.h"

typedef struct tune_rules {
  double budget_s;     ///< for measuring one shape
  double keep;         ///< share of the candidates that stays after the first times; 1: all
  unsigned limit_ms;   ///< of one step of a candidate
  unsigned judge_ms;   ///< of the reference interpreter
  uint32_t most_spill; ///< bytes; candidates that spill more are dropped
  uint32_t all_below;  ///< up to this many candidates, all are tried; of more, those that the search reaches
} tune_rules;

enum { TUNE_MOST_HINTS = 8 };

/// What is known before a contest begins.
typedef struct tune_hints {
  uint32_t units;                    ///< of the device
  uint32_t configs[TUNE_MOST_HINTS]; ///< that won for shapes nearby, or on other devices
  uint32_t count;
  bool is_all; ///< no other configs are candidates
} tune_hints;

typedef struct tune_candidate {
  uint32_t config;
  uint32_t registers, spill_bytes, shared_bytes, block_threads, grid[3];
  const view_code *code;  ///< the code that is launched; NULL: unknown
  double score, work;     ///< by the model, before it was measured
  bool is_tried, is_left; ///< is_left: all configs that differ from it in one knob were tried
  char why_out[400];      ///< why it was dropped; "": it was not dropped
} tune_candidate;

typedef struct tune_contest {
  tune_candidate *candidates;  ///< owned: configs that may run, in the source's order
  kiln_contender *contenders;  ///< owned: one each
  size_t count, usual, winner; ///< usual: what is launched without a table
  tune_judge judge;
  unsigned rounds, tried;
  uint64_t spent_ns[TUNE_TASKS], judge_ns; ///< in tasks of the worker; in judging its results
} tune_contest;

/// `usual_config` wins ties; UINT32_MAX: the config that a launch takes without a table. `worker` keeps
/// running. NO_VARIANT when no config may run, or all were dropped: the text has the reason of each.
kiln_status tune_contest_run(tune_contest *contest, tune_subject *subject, const bundle_view *view,
                             tune_worker *worker, const tune_rules *rules, const tune_hints *hints,
                             uint32_t usual_config, tune_progress *progress, kiln_error *err);
void tune_contest_deinit(tune_contest *contest);

#endif
