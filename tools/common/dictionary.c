// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the option --dictionary.
#include "tools/common/dictionary.h"

#include <string.h>

bool dictionary_parse(const char *text, kiln_bundle_dictionary *out) {
  static const char *const names[] = {[KILN_BUNDLE_DICTIONARY_AUTO] = "auto",
                                      [KILN_BUNDLE_DICTIONARY_NONE] = "none",
                                      [KILN_BUNDLE_DICTIONARY_SMALL] = "small",
                                      [KILN_BUNDLE_DICTIONARY_LARGE] = "large"};
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(text, names[i])) return *out = (kiln_bundle_dictionary)i, true;
  return false;
}
