// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The data after the parameters in the block of some codes: the logical grid of kernels whose blocks compute
// several programs, then tensor maps.
#ifndef KILN_RUNTIME_LAUNCH_EXTRAS_H
#define KILN_RUNTIME_LAUNCH_EXTRAS_H

#include "runtime/device/device.h"
#include "runtime/tensor_map.h"

/// The logical grid: three u32.
enum { KILN_GRID_BYTES = 12 };

/// Room for what the last launch of the code passed, in the kernel's arena; NULL: none, each launch encodes.
struct kiln_memo *kiln_memo_create(const kiln_kernel *k, const kiln_code *code);

/// Writes them into `block`, which becomes the call's; `changes` and `known` as kiln_maps_encoder has
/// them. A grid of more programs than blocks that the device has room for becomes that many blocks.
kiln_status kiln_extras_encode(const kiln_kernel *k, kiln_launch_call *call, const kiln_block_words *changes,
                               kiln_map_sizes *known, uint8_t *block, kiln_error *err);

/// Launches a call whose block has the parameters alone. The same arguments again encode no map; other
/// arguments encode those maps that depend on the difference.
kiln_status kiln_launch_with_extras(kiln_kernel *k, kiln_launch_call *call, kiln_error *err);

#endif
