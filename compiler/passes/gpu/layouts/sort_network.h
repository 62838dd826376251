// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The steps by which a tile's rows are sorted, and where its bits lie meanwhile: without LLVM, so that the
// layout of a sort's result is known before any code is made. Who emits it acts at each step.
#ifndef KILN_COMPILER_PASSES_GPU_SORT_NETWORK_H
#define KILN_COMPILER_PASSES_GPU_SORT_NETWORK_H

#include "compiler/passes/gpu/layouts/layouts.h"

enum { KILN_NO_BIT_OF_ROW = -1 };

/// What a machine bit holds: a bit of the place in the row, or of the number of the row, or nothing.
typedef struct kiln_holder {
  int bit;      ///< of the row's place; KILN_NO_BIT_OF_ROW
  uint32_t row; ///< basis within the number of the row
} kiln_holder;

typedef struct kiln_network kiln_network;

/// What is done to the elements at a step. Places are machine bits: registers, then lanes, then warps.
typedef struct kiln_network_actions {
  /// Complements the elements whose bit at `place` is set.
  void (*complement)(void *context, const kiln_network *n, unsigned place);
  /// The tile goes from one layout to the other, through shared memory.
  void (*exchange)(void *context, const kiln_network *n, const kiln_layout *from, const kiln_layout *to);
  /// Lane bit and register bit trade places. A thread keeps the elements whose register bit is its lane bit;
  /// the order of the two that it then has does not matter, as they are compared at once.
  void (*trade)(void *context, const kiln_network *n, unsigned lane, unsigned place);
  /// Compares elements that differ at `place`; registers in `falling` (a mask, or 0) have the greater first.
  void (*compare)(void *context, const kiln_network *n, unsigned place, uint32_t falling);
  /// Sorts the runs of 2^run elements that threads hold whole.
  void (*sort_runs)(void *context, const kiln_network *n, uint32_t falling);
  /// Merges runs of 2^registers elements, which rise, to whole rows: bit i of a row's place lies at place i.
  void (*merge_rows)(void *context, const kiln_network *n);
  /// Of elements that differ at `place` the lesser are left.
  void (*halve)(void *context, const kiln_network *n, unsigned place);
  /// A stage has ended; all of them.
  void (*end_stage)(void *context);
  void (*end)(void *context, const kiln_network *n);
} kiln_network_actions;

struct kiln_network {
  unsigned bits, kept; ///< log2 of the elements of a row that are left, and that are wanted
  unsigned rows;       ///< log2
  unsigned registers, lanes, warps;
  kiln_holder at[LAYOUT_MAX_PLACES]; ///< registers, lanes, warps
  unsigned run;                      ///< log2 of the runs that are being made
  bool is_turned;                    ///< runs that shall fall are complemented
  const kiln_network_actions *actions;
  void *context;
};

/// The layout in which a sort takes its operand.
kiln_layout kiln_layout_of_sorted(const kiln_layouts *c, const ir_op *op);
/// Goes through all steps from that layout on; `actions` NULL: only the layout changes. The result's layout.
kiln_layout kiln_network_run(const ir_op *op, const kiln_layout *from, const kiln_network_actions *actions,
                             void *context);
/// Register of element i of the run that begins in register `base`.
uint32_t kiln_network_register(const kiln_network *n, uint32_t base, uint32_t i);

#endif
