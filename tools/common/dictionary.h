// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The words of the option --dictionary, for all commands that write bundles.
#ifndef KILN_TOOLS_COMMON_DICTIONARY_H
#define KILN_TOOLS_COMMON_DICTIONARY_H

#include <stdbool.h>

#include "cache/bundle/writer.h"

/// "auto", "none", "small" or "large"; false for other words.
bool dictionary_parse(const char *text, kiln_bundle_dictionary *out);

#endif
