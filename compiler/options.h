// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The options of code generation as a table: spelled on a command line, listed in a key, sent to a worker.
// Uses no LLVM. Thread safe.
#ifndef KILN_COMPILER_OPTIONS_H
#define KILN_COMPILER_OPTIONS_H

#include "base/buffer.h"
#include "base/status.h"
#include "compiler/codegen.h"

typedef enum kiln_option_kind {
  KILN_OPTION_NUMBER, ///< least..most
  KILN_OPTION_CHOICE, ///< one word of `choices`; kept as its position
  KILN_OPTION_FLAG,   ///< 0 or 1; "on", "off", "true", "false", "yes", "no" and nothing (on) are read too
  KILN_OPTION_TEXT,   ///< anything; not set: NULL
} kiln_option_kind;

/// A row of options.def.
typedef struct kiln_option_info {
  const char *name;
  kiln_option_kind kind;
  bool in_key;
  uint8_t least, most, fallback;
  const char *choices; ///< words parted by commas
  const char *help;    ///< one line
  size_t offset;       ///< in kiln_codegen_options
} kiln_option_info;

size_t kiln_option_count(void);
const kiln_option_info *kiln_option_at(size_t index);
/// NULL when there is no such option.
const kiln_option_info *kiln_option_find(const char *name, size_t length);

/// Sets one option from "name=value" (or "name" for a flag). The options borrow the text. INVALID_ARGUMENT
/// names what was expected.
kiln_status kiln_codegen_options_set(kiln_codegen_options *options, const char *text, kiln_error *err);
/// Appends the value of an option as text: what kiln_codegen_options_set reads after the '='.
void kiln_option_value(const kiln_codegen_options *options, const kiln_option_info *option, kiln_buffer *out);

/// The wire form: one byte a number, a block for texts (with its NUL; empty: NULL).
void kiln_codegen_options_encode(const kiln_codegen_options *options, kiln_buffer *out);
/// Texts point into `bytes`, which must outlive the options. CORRUPT names the first option that is wrong.
kiln_status kiln_codegen_options_decode(const uint8_t *bytes, size_t size, kiln_codegen_options *out,
                                        kiln_error *err);

#endif
