// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The file `usage`: 64 bytes under a lock of their own. Damaged or missing means "unknown", which the next
// round of steps corrects.
//
//   offset size                         offset size
//        0    4  "KUSE"                     32    8  place of the round: cookie
//        4    4  1: the sums were counted   40    8  bytes seen in this round
//        8    8  bytes                      48    8  files seen in this round
//       16    8  files                      56    8  first half of XXH3-128 of bytes 0..55
//       24    8  place of the round: shard
#ifndef KILN_CACHE_USAGE_H
#define KILN_CACHE_USAGE_H

#include "cache/scan.h"

typedef struct kiln_usage {
  bool counted;
  uint64_t bytes, files, round_bytes, round_files;
  kiln_scan_place place;
} kiln_usage;

/// Opens, locks and reads; the descriptor, -EAGAIN when another process has it, or another -errno.
int kiln_usage_lock(kiln_store *store, kiln_usage *out);
/// The sums as they are, without a lock; false where there are none to go by.
bool kiln_usage_read(kiln_store *store, kiln_usage *out);
/// Stores with more entries than this are not walked where sums are good enough.
enum { KILN_USAGE_WALKED = 20000 };
/// kiln_usage_read for a store of so many entries that the sums are to be used.
bool kiln_usage_large(kiln_store *store, kiln_usage *out);
int kiln_usage_save(int fd, const kiln_usage *usage);
/// Closing gives the lock back.
void kiln_usage_unlock(int fd);

#endif
