// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A board that machines share: values, sets of names, and leases that are renewed as long as their work is
// reported to go on. After `kiln-remote board`, which programs start that may not be linked with a network
// library.
//
// One request after another, little-endian, both ways a u32 length and that many bytes:
//
//   request   u8 kind (base/board.h), block room, block name, block value
//   reply     u8 state (kiln_remote_state), block: what was asked for, a set as one block per member
//
// The end of the requests ends the process and gives its leases back.
#ifndef KILN_CACHE_REMOTE_BOARD_H
#define KILN_CACHE_REMOTE_BOARD_H

#include "cache/remote/level.h"

/// Serves requests of descriptor `in` until they end. False: the address makes no sense, or its store has no
/// sets and leases.
bool kiln_board_serve(const char *url, const kiln_level_options *options, int in, int out);

#endif
