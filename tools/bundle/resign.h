// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What becomes of signatures where a bundle is made of others: they are not of the new one. That is said, or
// the new one is signed, if each that it is made of was signed by somebody who is trusted.
#ifndef KILN_TOOLS_BUNDLE_RESIGN_H
#define KILN_TOOLS_BUNDLE_RESIGN_H

#include "tools/common/cli.h"
#include "tools/bundle/check.h"

enum { RESIGN_MOST_KEYS = 32 };

typedef struct resign {
  const char *key; ///< --sign; NULL: the new bundle is not signed
  cli_list trust;  ///< --trust
  uint8_t secret[KEY_FILE_SECRET], keys[RESIGN_MOST_KEYS][KEY_FILE_PUBLIC];
  size_t key_count, inputs, signed_inputs; ///< of the last time of making it
  char first[256];                         ///< of those signed
  uint64_t version;                        ///< what the only input states
  char name[KILN_BS_NAME_SIZE];
} resign;

/// The rows of its options, for a page.
#define RESIGN_OPTIONS(r)                                                                        \
  {"sign",    0,     CLI_TEXT,                                                                   \
   &(r)->key, "KEY", "sign it with this secret key, if all inputs are signed by a trusted key"}, \
  {                                                                                              \
    "trust", 0, CLI_LIST, &(r)->trust, "FILE",                                                   \
        "with --sign: a public key that is trusted in addition to KEY's own"                     \
  }

void resign_deinit(resign *r);
/// Reads the keys.
kiln_status resign_open(resign *r, kiln_error *err);
/// Before the inputs are read, once more or for the first time.
void resign_begin(resign *r);
/// An input is signed or not, and states a name and a version, by its header as it was signed.
void resign_note_input(resign *r, const char *path, const uint8_t *header, const kiln_statement *statement);
/// The new bundle: states what its only input stated, and is signed where that was asked for.
kiln_status resign_finish(const resign *r, const char *path, kiln_buffer *bundle, kiln_error *err);
/// Says on standard error which signatures are lost.
void resign_report(const resign *r, const char *path);

#endif
