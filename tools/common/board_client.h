// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The client of a board that machines share (cache/remote/board.h): a `kiln-remote board` process does the
// network's part.
#ifndef KILN_TOOLS_COMMON_BOARD_CLIENT_H
#define KILN_TOOLS_COMMON_BOARD_CLIENT_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/board.h"
#include "base/buffer.h"
#include "base/status.h"

/// A zeroed one is closed. It belongs to the process that opened it.
typedef struct board_client {
  const char *url; ///< borrowed
  pid_t pid;
  int to, from;
} board_client;

/// INVALID_ARGUMENT for an address that is not redis://; TOOL if kiln-remote is missing.
kiln_status board_open(board_client *board, const char *url, kiln_error *err);
/// Also drops all leases.
void board_close(board_client *board);

/// `out_yes` (may be NULL): whether the answer is FOUND, not ABSENT. `out` (may be NULL) gets the value. IO
/// when the server does not answer.
kiln_status board_ask(board_client *board, kiln_board_kind kind, const char *room, const char *name,
                      const void *value, size_t size, bool *out_yes, kiln_buffer *out, kiln_error *err);

#endif
