// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One request of the worker protocol: bytes in, bytes out, whatever the bytes are.
#ifndef KILN_TOOLS_CODEGEN_REQUEST_H
#define KILN_TOOLS_CODEGEN_REQUEST_H

#include "base/buffer.h"
#include "base/file_mark.h"
#include "compiler/codegen.h"

/// What the parent says once, when it starts this process.
typedef struct kiln_request_setting {
  int assembler_fd;   ///< the assembler of all requests, opened; 0: by the path in each
  kiln_file_mark own; ///< of this program's file
} kiln_request_setting;

/// Compiles what `request` asks for and appends the body of the reply: an artifact, or an error.
void kiln_request_answer(const kiln_request_setting *setting, const uint8_t *request, size_t size,
                         kiln_buffer *reply);
/// Appends the body of an error reply. `printed` is what passes printed before it; NULL: nothing.
void kiln_request_refuse(kiln_buffer *reply, const kiln_error *err, const kiln_buffer *printed);

#endif
