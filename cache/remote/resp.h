// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is spoken with Redis (RESP2). A command is a list of byte strings. Of a reply only what was asked for
// is taken, and nothing is kept, or asked memory for, beyond what the caller allows, whatever a server
// announces:
//
//   +TEXT        -TEXT        :NUMBER        lines of at most KILN_RESP_LINE bytes
//   $SIZE ... or $-1                         at most limits.bytes; kept as it comes
//   *COUNT $... $...                         at most limits.elements strings, no list in a list
#ifndef KILN_CACHE_REMOTE_RESP_H
#define KILN_CACHE_REMOTE_RESP_H

#include "base/buffer.h"

enum { KILN_RESP_LINE = 512, KILN_RESP_WINDOW = 1 << 14 };

/// Begins a command of `count` words, which follow.
void kiln_resp_command(kiln_buffer *out, size_t count);
void kiln_resp_word(kiln_buffer *out, const void *bytes, size_t size);

typedef struct kiln_resp_limits {
  uint64_t bytes;     ///< of a string; of each in a list
  uint32_t elements;  ///< of a list; 0: no list was asked for
  const char *begins; ///< what a string must begin with; NULL: anything
} kiln_resp_limits;

typedef enum kiln_resp_kind {
  KILN_RESP_NONE, ///< nothing that was asked for, or it did not come whole
  KILN_RESP_STATUS,
  KILN_RESP_ERROR,
  KILN_RESP_NUMBER,
  KILN_RESP_NIL,
  KILN_RESP_STRING,
  KILN_RESP_LIST,
} kiln_resp_kind;

/// Bytes of a connection: up to `size` of them, 0 at its end.
typedef size_t kiln_resp_source(void *context, uint8_t *out, size_t size);

typedef struct kiln_resp {
  kiln_resp_source *source;
  void *context;
  size_t at, end;            ///< of what of the window is not read yet
  char line[KILN_RESP_LINE]; ///< of STATUS and ERROR, printable
  int64_t number;
  bool is_refused; ///< of NONE: more, or something else, was announced than the limits allow
  uint8_t window[KILN_RESP_WINDOW];
} kiln_resp;

/// Reads one reply; a string's bytes, or a block for each of a list, are appended to `out`.
kiln_resp_kind kiln_resp_read(kiln_resp *r, const kiln_resp_limits *limits, kiln_buffer *out);

#endif
