// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Requests to a board (cache/remote/board.h), for the client and the server.
#ifndef KILN_BASE_BOARD_H
#define KILN_BASE_BOARD_H

typedef enum kiln_board_kind {
  KILN_BOARD_GET = 1,   ///< FOUND with the value, ABSENT
  KILN_BOARD_PUT = 2,   ///< FOUND when it is stored
  KILN_BOARD_ADD = 3,   ///< the value joins the set: FOUND when it was not in it
  KILN_BOARD_LIST = 4,  ///< FOUND with the members
  KILN_BOARD_LEASE = 5, ///< FOUND: ours until dropped; ABSENT: another one's. The value: how many ms it lives
                        ///< without a BEAT, as a u32, or nothing: a minute
  KILN_BOARD_DROP = 6,  ///< FOUND
  KILN_BOARD_BEAT = 7,  ///< the work on a lease of ours goes on: FOUND
} kiln_board_kind;

enum { KILN_BOARD_MOST = 1 << 28 }; ///< bytes of a request or a reply

#endif
