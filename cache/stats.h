// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statistics: fixed-size records that are only ever appended, one write call a batch, summed by who reads.
// Losing some costs nothing else.
//
//   offset size                       offset size
//        0    2  "KS"                     28    8  bytes
//        2    1  version                  36    8  ns: compile time, or the time saved
//        3    1  outcome                  44    4  errno
//        4    4  run                      48    8  how many events the record stands for
//        8    4  time, seconds            56    8  first half of XXH3-128 of bytes 0..55
//       12   16  first half of the key
#ifndef KILN_CACHE_STATS_H
#define KILN_CACHE_STATS_H

#include "cache/store.h"

enum { KILN_STATS_RECORD = 64, KILN_STATS_BATCH = 32, KILN_STATS_ROTATE = 4 << 20 };

typedef struct kiln_stats_record {
  uint8_t outcome;
  uint32_t run, time;
  uint8_t key[16];
  uint64_t bytes, ns;
  int32_t error_number;
  uint64_t count;
} kiln_stats_record;

void kiln_stats_encode(const kiln_stats_record *record, uint8_t out[KILN_STATS_RECORD]);
bool kiln_stats_decode(const uint8_t bytes[KILN_STATS_RECORD], kiln_stats_record *out);
/// Appends `count` encoded records in one write call; 0 or -errno.
int kiln_stats_append(kiln_store *store, const uint8_t *records, size_t count);

typedef struct kiln_stats_sum {
  uint64_t count[KILN_OUTCOME_LIMIT], bytes[KILN_OUTCOME_LIMIT], ns[KILN_OUTCOME_LIMIT];
  uint64_t damaged; ///< records that were skipped
  uint64_t since;   ///< time of the first record; 0: there is none
} kiln_stats_sum;

/// Sums stats.sum, stats.old and stats.
void kiln_stats_read(kiln_store *store, kiln_stats_sum *out);
/// Calls `each` for the records still in the files, oldest first.
void kiln_stats_walk(kiln_store *store, void (*each)(void *context, const kiln_stats_record *record),
                     void *context);
/// Folds old records into stats.sum when stats has grown beyond KILN_STATS_ROTATE. Called under the cleaner's
/// lock.
void kiln_stats_rotate(kiln_store *store);
/// Forgets all; 0 or -errno.
int kiln_stats_clear(kiln_store *store);

#endif
