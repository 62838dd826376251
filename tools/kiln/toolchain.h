// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The programs that make code: the code generator and the vendor's assembler. Each is opened once, identified
// by its content, and run from the file that was opened. Our own programs are identified by what is loaded of
// them, so that the build tree, an installation and a wheel count as the same program; an assembler is
// identified by its whole file, since it may read any part of it. Replacing or changing a file during a build
// changes nothing that is stored.
#ifndef KILN_TOOLS_KILN_TOOLCHAIN_H
#define KILN_TOOLS_KILN_TOOLCHAIN_H

#include <pthread.h>

#include "base/digest.h"
#include "base/file_mark.h"
#include "base/status.h"
#include "cache/cache.h"
#include "compiler/codegen.h"

typedef struct toolchain_program {
  int fd; ///< open as long as the program runs: workers run it; -1: none is used
  char path[4096];
  kiln_file_extent extent; ///< what the digest is of
  kiln_digest digest;
  char text[80];       ///< "content 6f3a..."; "" when none is used
  kiln_file_mark mark; ///< when the content was read
  bool settled;        ///< the mark would show every later change
} toolchain_program;

typedef struct toolchain {
  toolchain_program compiler, assembler;
  pthread_mutex_t mutex; ///< guards what toolchain_is_unchanged writes
} toolchain;

/// Opens the sibling program `name`; the caller closes out->fd. NOT_FOUND when it is not installed.
kiln_status toolchain_program_open(toolchain_program *out, const char *name, kiln_cache *cache,
                                   kiln_error *err);
/// The digest of what is loaded of this program, even if its path now leads to another file.
kiln_status toolchain_self(kiln_digest *out, kiln_cache *cache, kiln_error *err);
/// Whether the open file is unchanged and its path still leads to it.
bool toolchain_program_is_unchanged(toolchain_program *tool);

/// Fills `out`. `options->assembler` chooses the assembler; its path is options->assembler_path or the first
/// of an explicit list of places that exists. `wanted`: some target needs an assembler; else none is looked
/// for. `automatic`: take what options->assembler_path names, else nvJitLink, else ptxas, else none, and set
/// options->assembler to what was found. `cache` remembers digests of files; may be NULL.
kiln_status toolchain_find(toolchain *out, kiln_codegen_options *options, bool wanted, bool automatic,
                           kiln_cache *cache, kiln_error *err);

/// The file descriptors of the programs that builds without further options use, for the caller to close; -1:
/// there is none. Nothing of them is read.
void toolchain_open_usual(int *out_compiler, int *out_assembler);

/// Whether the open files still have the content of which the digests are, so that what they made belongs to
/// the key. `by_path`: the code generator was started by its path, which must lead to the same file. Thread
/// safe.
bool toolchain_is_unchanged(toolchain *who, bool by_path);

#endif
