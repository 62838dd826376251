// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes the artifacts of a plan: takes them from the cache, and compiles the others in worker processes, one
// per thread.
#ifndef KILN_TOOLS_BUILD_EXECUTE_H
#define KILN_TOOLS_BUILD_EXECUTE_H

#include "tools/build/plan.h"

typedef struct execute_options {
  unsigned threads;  ///< workers at the same time
  bool progress;     ///< a line on the terminal that is rewritten
  bool fleet;        ///< other machines make the same objects: what one of them makes is left for the end
  bool must_hit;     ///< a miss is an error that names the differing fields
  unsigned verify;   ///< compile hits again and compare: percent of them; 0: none
  kiln_cache *cache; ///< NULL: none
} execute_options;

typedef struct execute_counts {
  size_t hits, compiled, failed, verified;
  size_t alone; ///< of a fleet, of those compiled: its server could not be asked
} execute_counts;

/// Runs every pending job. A job that fails keeps its error, and the others go on.
void plan_execute(plan *p, const execute_options *options, execute_counts *out);
/// Only looks jobs up; true when every job hit. Cheap: it starts no thread and no worker.
bool plan_look_up(plan *p, kiln_cache *cache, execute_counts *sums);

#endif
