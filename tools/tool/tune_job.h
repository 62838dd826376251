// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Work that one machine posts on a board and others do: a bundle, shapes and how to measure, signed, because
// whoever measures runs the code. Results are lines of tables under the identity that they are for, which
// names the product: those of different products never meet.
//
//   room tune, set jobs: names of jobs; value JOB: public key (32 bytes), signature (64), content
//   content: block "kiln tune job 1", block bundle, block shapes, block options      JOB: 32 digits of its
//   digest room tune-JOB, set results: ids; value ID: a line of a table; lease ID: who measures it
#ifndef KILN_TOOLS_TOOL_TUNE_JOB_H
#define KILN_TOOLS_TOOL_TUNE_JOB_H

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
/// The names of the jobs in order, TUNE_JOB_NAME digits each.
kiln_status tune_jobs_list(board_client *board, kiln_buffer *out, kiln_error *err);
/// UNTRUSTED when none of `keys` signed it; CORRUPT when it is not what its name says.
kiln_status tune_job_get(board_client *board, const char *name, const uint8_t (*keys)[KEY_FILE_PUBLIC],
                         size_t key_count, tune_job *out, kiln_error *err);
/// Adds what was found for the job to the table. What is no line of a table is an error.
kiln_status tune_job_collect(board_client *board, const char *name, kiln_tuner_table *table, kiln_error *err);

#endif
