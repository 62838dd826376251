// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One request of the worker protocol: bytes in, bytes out, whatever the bytes are.
#ifndef KILN_TOOLS_CODEGEN_REQUEST_H
#define KILN_TOOLS_CODEGEN_REQUEST_H

#include "base/buffer.h"
#include "compiler/codegen.h"

/// Compiles what `request` asks for and appends the body of the reply: an artifact, or an error.
void kiln_request_answer(const uint8_t *request, size_t size, kiln_buffer *reply);
/// Appends the body of an error reply. `printed` is what passes printed before it; NULL: nothing.
void kiln_request_refuse(kiln_buffer *reply, const kiln_error *err, const kiln_buffer *printed);

#endif
