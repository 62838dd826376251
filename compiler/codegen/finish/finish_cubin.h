// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One assembler each: PTX in, cubin and what it printed out.
#ifndef KILN_COMPILER_CODEGEN_FINISH_CUBIN_H
#define KILN_COMPILER_CODEGEN_FINISH_CUBIN_H

#include "compiler/codegen.h"

enum { KILN_TOOL_PATH = 4096 };
/// The file of an assembler.
typedef struct kiln_tool_file {
  const char *path;         ///< for messages
  char run[KILN_TOOL_PATH]; ///< what is run or loaded: the path, or the open file
} kiln_tool_file;

/// Appends the cubin to `out` and what the assembler printed to `log`. TOOL when the tool is not there or
/// refuses.
kiln_status kiln_assemble_nvjitlink(const kiln_tool_file *tool, const char *arch, unsigned optimise,
                                    bool debug, const char *ptx, kiln_buffer *out, kiln_buffer *log,
                                    kiln_error *err);
kiln_status kiln_assemble_ptxas(const kiln_tool_file *tool, const char *arch, unsigned optimise, bool debug,
                                const char *ptx, kiln_buffer *out, kiln_buffer *log, kiln_error *err);
/// TOOL with the first words of `log` in one line.
kiln_status kiln_assemble_refused(const char *tool, const kiln_buffer *log, kiln_error *err);

#endif
