// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A board that machines share (cache/remote/board.h), through `kiln-remote board`: a process of its own has
// the network.
#ifndef KILN_TOOLS_COMMON_BOARD_CLIENT_H
#define KILN_TOOLS_COMMON_BOARD_CLIENT_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/board.h"
#include "base/buffer.h"
#include "base/status.h"

/// Zeroed is closed. Belongs to the process that opened it.
typedef struct board_client {
  const char *url; ///< borrowed
  pid_t pid;
  int to, from;
} board_client;

/// INVALID_ARGUMENT for an address that is not redis://; TOOL where kiln-remote is not there.
kiln_status board_open(board_client *board, const char *url, kiln_error *err);
/// Gives back what is leased.
void board_close(board_client *board);

/// `out_yes` (may be NULL): the answer is FOUND, not ABSENT. `out` (may be NULL) gets what was found. IO when
/// the server does not answer.
kiln_status board_ask(board_client *board, kiln_board_kind kind, const char *room, const char *name,
                      const void *value, size_t size, bool *out_yes, kiln_buffer *out, kiln_error *err);

#endif
