// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KILN_TOOLS_PTX_SCHEDULE_H
#define KILN_TOOLS_PTX_SCHEDULE_H

#include "tools/ptx/machine.h"

/// Runs a strand of a random warp for a random while. False when none of the block can run.
bool ptx_block_runs(ptx_run *run, ptx_block *block);
/// Reports where the strands of a block wait that nobody will wake.
void ptx_block_stuck(ptx_run *run, const ptx_block *block);

#endif
