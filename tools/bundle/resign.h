// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Signatures of a bundle that is made from others: those of the inputs do not apply to it. Either a message
// says so, or the new bundle is signed, if all inputs were signed by trusted keys.
#ifndef KILN_TOOLS_BUNDLE_RESIGN_H
#define KILN_TOOLS_BUNDLE_RESIGN_H

#include "tools/common/cli.h"
#include "tools/bundle/check.h"

enum { RESIGN_MOST_KEYS = 32 };

typedef struct resign {
  const char *key; ///< --sign; NULL: the new bundle is not signed
  cli_list trust;  ///< --trust
  uint8_t secret[KEY_FILE_SECRET], keys[RESIGN_MOST_KEYS][KEY_FILE_PUBLIC];
  size_t key_count, inputs, signed_inputs; ///< of the last run
  char first[256];                         ///< of those signed
  uint64_t version;                        ///< what the only input states
  char name[KILN_BS_NAME_SIZE];
} resign;

/// The rows of its options, for a page.
#define RESIGN_OPTIONS(r)                                                                        \
  {"sign",    0,     CLI_INPUT,                                                                  \
   &(r)->key, "KEY", "sign it with this secret key, if all inputs are signed by a trusted key"}, \
  {                                                                                              \
    "trust", 0, CLI_INPUTS, &(r)->trust, "FILE",                                                 \
        "with --sign: a public key that is trusted in addition to KEY's own"                     \
  }

void resign_deinit(resign *r);
/// Reads the keys.
kiln_status resign_open(resign *r, kiln_error *err);
/// Called before the inputs are read, each time that they are.
void resign_begin(resign *r);
/// Notes whether an input is signed, and the name and version that it states. `header`: as it was signed.
void resign_note_input(resign *r, const char *path, const uint8_t *header, const kiln_statement *statement);
/// Completes the new bundle: it states what its only input stated, and is signed if that was requested.
kiln_status resign_finish(const resign *r, const char *path, kiln_buffer *bundle, kiln_error *err);
/// Reports on standard error which signatures are lost.
void resign_report(const resign *r, const char *path);

#endif
