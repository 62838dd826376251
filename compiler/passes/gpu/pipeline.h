// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads of a loop's products ahead of their use: which there are, and what they load in iterations to come.
// Shared by the passes `fetch`, `double-buffer` and `prefetch`.
#ifndef KILN_COMPILER_PASSES_GPU_PIPELINE_H
#define KILN_COMPILER_PASSES_GPU_PIPELINE_H

#include "compiler/analysis/facts.h"
#include "compiler/passes/gpu/gpu.h"
#include "compiler/passes/gpu/ring.h"

enum {
  KILN_PIPELINE_LOADS = KILN_RING_TILES,
  KILN_PIPELINE_SLICE = 256, ///< operations that an address and a mask may need
  KILN_PIPELINE_READS = 8,   ///< scalars that addresses and masks are looked up in
  KILN_PIPELINE_LEADS = 8,   ///< carried values that run ahead
  KILN_PIPELINE_STAGES = 4   ///< iterations that are looked at together
};

/// As which iteration a value is computed again: THIS + n is n iterations on, FIRST + n the n-th of the loop.
typedef unsigned kiln_iteration;
enum {
  KILN_THIS = 0,
  KILN_NEXT = 1,
  KILN_FIRST = KILN_PIPELINE_STAGES,
  KILN_ITERATIONS = 2 * KILN_PIPELINE_STAGES
};

/// A load that a product's operand comes from; dot NULL: one beside these.
typedef struct kiln_pipeline_load {
  ir_op *load, *dot;
  unsigned operand; ///< of that product
} kiln_pipeline_load;

/// A carried value that follows from what the loop reads or from a branch: the loop carries it as it is some iterations on,
/// too, so that nothing waits for what is read, and no branch is taken again. A scalar is carried as it is in the iterations
/// between as well: each hands it on to the one before, where it is not computed again.
typedef struct kiln_pipeline_lead {
  ir_value *value; ///< an argument of the body
  unsigned from;   ///< the nearest iteration that it is carried for
  ir_value *first[KILN_PIPELINE_STAGES],
      *ahead[KILN_PIPELINE_STAGES]; ///< by iteration: before the loop; another argument
} kiln_pipeline_lead;

typedef struct kiln_pipeline_copy {
  const ir_value *from;
  kiln_iteration when;
  ir_value *to;
} kiln_pipeline_copy;

/// Work on one loop. The builder stands where kiln_pipeline_open_* put it.
typedef struct kiln_pipeline {
  ir_kernel *kernel;
  const kiln_fetch_machine *machine;
  ir_op *loop;
  ir_block *body;
  unsigned threads; ///< of a block, logarithm
  kiln_pipeline_load loads[KILN_PIPELINE_LOADS];
  unsigned count;
  const ir_op *reads[KILN_PIPELINE_READS]; ///< loads of scalars that addresses and masks of `loads` rest on
  unsigned read_count;
  kiln_pipeline_lead leads[KILN_PIPELINE_LEADS];
  unsigned lead_count;
  ir_builder b;
  ir_value *index[KILN_ITERATIONS];  ///< the loop's counter in that iteration
  ir_value *exists[KILN_ITERATIONS]; ///< i1: the loop comes to it; NULL: it does
  kiln_pipeline_copy copies[KILN_ITERATIONS * KILN_PIPELINE_SLICE];
  unsigned copy_count;
  bool stays;         ///< see kiln_pipeline_stay
  bool allows_stores; ///< loops with stores are taken, too
  bool allows_reads;  ///< addresses and masks may rest on scalars that the loop loads
  bool reads_masks;   ///< a mask that no iteration after the last passes is not asked for again
} kiln_pipeline;

/// Opens every loop of the kernel in turn and calls `pipeline` for it, until an error of a builder.
kiln_status kiln_pipeline_loops(ir_kernel *kernel, kiln_pass_context *context,
                                void (*pipeline)(kiln_pipeline *loop), const char *pass, kiln_error *err);

/// Finds the loads whose addresses and masks follow from the counter, carried values and invariants by pure
/// operations `iterations` on. With `deep` also those whose values are computed with before the product.
/// False: the loop writes memory (but see allows_stores) or meets at barriers, or there are none.
bool kiln_pipeline_find(kiln_pipeline *a, bool deep, unsigned iterations);

/// Adds a load of the loop that is no product's operand, under the same conditions. Whether it is there.
bool kiln_pipeline_add(kiln_pipeline *a, ir_op *load, unsigned iterations);

/// Registers of 32 bits that a tile takes in a thread.
uint64_t kiln_pipeline_words(const kiln_pipeline *a, ir_type type);

/// Whether a thread has registers for the loads of another iteration besides what the loop carries.
bool kiln_pipeline_has_room(const kiln_pipeline *a);

/// Whether the loads of one iteration and what the loop carries are more than a thread has registers for.
bool kiln_pipeline_overflows(const kiln_pipeline *a);

/// Before the loop: the counters of its first `count` iterations.
void kiln_pipeline_open_before(kiln_pipeline *a, unsigned count);
/// At the start of the body: those of `count` iterations to come.
void kiln_pipeline_open_inside(kiln_pipeline *a, unsigned count);

/// At the start of the body: the counters of `count` iterations to come, `step` apart, which the loop comes to.
void kiln_pipeline_open_copies(kiln_pipeline *a, ir_value *step, unsigned count);
/// At the end of the body: what this iteration has computed is there.
void kiln_pipeline_open_end(kiln_pipeline *a);

/// After kiln_pipeline_open_before for `ahead` iterations: finds the carried values that run ahead so far, and emits what
/// they begin with. False: there are too many that have to.
bool kiln_pipeline_lead_before(kiln_pipeline *a, unsigned ahead);
/// After kiln_pipeline_open_inside for as many: the arguments for them stand for their values from now on.
void kiln_pipeline_lead_inside(kiln_pipeline *a, unsigned ahead);
/// What they are an iteration later, at the builder's place: adds to what the loop carries more.
void kiln_pipeline_lead_on(kiln_pipeline *a, unsigned ahead, ir_value **first, ir_value **next,
                           uint32_t *count);

/// After kiln_pipeline_open_inside for one iteration: where no load has a mask and all addresses rest on
/// scalars and on what the loop does not change, the iteration after the last is the last once more. Its
/// loads then need no mask.
void kiln_pipeline_stay(kiln_pipeline *a);

/// The value as it is in that iteration, computed at the builder's place.
ir_value *kiln_pipeline_value(kiln_pipeline *a, ir_value *value, kiln_iteration when);

/// Address and mask of a load as they are in that iteration: nothing is loaded where the loop does not come
/// to it.
typedef struct kiln_pipeline_place {
  ir_value *pointer, *mask, *other; ///< mask: NULL where all is loaded; other: where the load has none
} kiln_pipeline_place;
kiln_pipeline_place kiln_pipeline_at(kiln_pipeline *a, const ir_op *load, kiln_iteration when);

/// The load as it is in that iteration.
ir_value *kiln_pipeline_load_at(kiln_pipeline *a, const ir_op *load, kiln_iteration when);

/// The loop again with more carried values: `first` before it, `next` at the end of its body. The arguments
/// for them are there already. Returns the new loop; NULL after an error of the builder.
ir_op *kiln_pipeline_remake(kiln_pipeline *a, ir_value *const *first, ir_value *const *next, uint32_t count);

#endif
