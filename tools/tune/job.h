// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Work that one machine posts on a board and others do: a bundle, shapes and how to measure, signed, because
// whoever measures runs the code. Results are lines of tables under the identity that they are for, which
// names the product: those of different products never meet.
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
// Whoever can write to the board can put anything there: what has no form of ours is left out and counted,
// and stops nobody.
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

/// Signs and posts; the same content again is the same job. `out_name` gets its name.
kiln_status tune_job_post(board_client *board, const tune_job *content, const uint8_t secret[KEY_FILE_SECRET],
                          char out_name[TUNE_JOB_NAME + 1], kiln_error *err);
/// The names of the jobs in order, TUNE_JOB_NAME digits each. What is no name is left out, and a line says
/// so.
kiln_status tune_jobs_list(board_client *board, kiln_buffer *out, kiln_error *err);
/// UNTRUSTED when none of `keys` signed it; CORRUPT when it is not what its name says.
kiln_status tune_job_get(board_client *board, const char *name, const uint8_t (*keys)[KEY_FILE_PUBLIC],
                         size_t key_count, tune_job *out, kiln_error *err);
/// Lists an id of the job and puts what was found under it, signed where there is a key. Whoever stops in
/// between leaves an id without a result, which somebody else measures.
kiln_status tune_result_put(board_client *board, const char *job, const char *id, const kiln_buffer *line,
                            const uint8_t *secret, kiln_error *err);
/// Adds what was found for the job to the table: with keys, only what one of them signed for this job and
/// identity. What is left out is counted, in a line for each reason.
kiln_status tune_job_collect(board_client *board, const char *name, const uint8_t (*keys)[KEY_FILE_PUBLIC],
                             size_t key_count, kiln_tuner_table *table, kiln_error *err);

#endif
