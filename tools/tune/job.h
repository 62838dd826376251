// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tuning jobs that one machine posts on a board and others do: a bundle, shapes and how to measure. They are
// signed, because whoever measures runs the code. Results are lines of tables, stored under their identity,
// which names the product, so results of different products stay apart.
//
//   room tune       set jobs: names of jobs
//                   value JOB: public key (32 bytes), signature (64), content
//   content         block "kiln tune job 1", block bundle, block shapes, block options
//   JOB             32 digits of the content's digest
//   room tune-JOB   set results: ids
//                   value ID: a line of a table, or one that is signed
//                   lease ID: who measures it
//   signed line     "kiln tune result 1\n", public key (32), signature (64), line; the signature is of
//                   block "kiln tune result 1\n", block JOB, block ID, block line
//
// Everybody who can write to the board can put anything there: malformed entries are left out and counted,
// and do not stop the others.
#ifndef KILN_TOOLS_TUNE_JOB_H
#define KILN_TOOLS_TUNE_JOB_H

#include "tools/common/board_client.h"
#include "tools/common/key_file.h"
#include "tuner/table.h"

enum { TUNE_JOB_NAME = 32, TUNE_JOB_ROOM = 40 };

typedef struct tune_job {
  char name[TUNE_JOB_NAME + 1], room[TUNE_JOB_ROOM];
  kiln_buffer bundle, shapes, options; ///< owned
} tune_job;
void tune_job_deinit(tune_job *job);

/// Signs and posts a job; the same content gives the same job. `out_name` gets its name.
kiln_status tune_job_post(board_client *board, const tune_job *content, const uint8_t secret[KEY_FILE_SECRET],
                          char out_name[TUNE_JOB_NAME + 1], kiln_error *err);
/// The names of the jobs in order, TUNE_JOB_NAME digits each. Entries that are not names are left out, and a
/// warning says so.
kiln_status tune_jobs_list(board_client *board, kiln_buffer *out, kiln_error *err);
/// UNTRUSTED when none of `keys` signed it; CORRUPT when it is not what its name says.
kiln_status tune_job_get(board_client *board, const char *name, const uint8_t (*keys)[KEY_FILE_PUBLIC],
                         size_t key_count, tune_job *out, kiln_error *err);
/// Adds an id to the job and stores the result under it, signed if there is a key. A machine that stops in
/// between leaves an id without a result, and another machine measures it.
kiln_status tune_result_put(board_client *board, const char *job, const char *id, const kiln_buffer *line,
                            const uint8_t *secret, kiln_error *err);
/// Adds the job's results to the table: with keys, only those that one of the keys signed for this job and
/// identity. Results that are left out are counted, with a warning for each reason.
kiln_status tune_job_collect(board_client *board, const char *name, const uint8_t (*keys)[KEY_FILE_PUBLIC],
                             size_t key_count, kiln_tuner_table *table, kiln_error *err);

#endif
