// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Who makes the bytes: the identity of the code generator and of the vendor's assembler, known without
// starting either.
#ifndef KILN_TOOLS_KILN_IDENTITY_H
#define KILN_TOOLS_KILN_IDENTITY_H

#include "base/digest.h"
#include "base/status.h"
#include "compiler/codegen.h"

typedef struct identity {
  kiln_digest compiler;   ///< of kiln-codegen's build-id, or of its whole content when it has none
  char compiler_text[80]; ///< "build-id 6f3a..."
  kiln_digest assembler;  ///< the same of the assembler; zero when none is used
  char assembler_text[80];
  char assembler_path[4096]; ///< "" when none is used
} identity;

/// Identity of an ELF file: its build-id, else its content. NOT_FOUND or IO with the path.
kiln_status identity_of_file(const char *path, kiln_digest *out, char text[80], kiln_error *err);

/// Fills `out`. `options->assembler` chooses the assembler; its path is options->assembler_path or the first
/// of an explicit list of places that exists. `wanted`: some target needs an assembler; else none is looked
/// for. `automatic`: take nvJitLink, else ptxas, else none, and set options->assembler to what was found.
kiln_status identity_find(identity *out, kiln_codegen_options *options, bool wanted, bool automatic,
                          kiln_error *err);

#endif
