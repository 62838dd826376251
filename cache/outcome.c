// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names the outcomes that statistics count.
#include "cache/cache.h"

const char *kiln_outcome_name(uint32_t outcome) {
  switch (outcome) {
#define OUTCOME(name, number, group, text) \
  case number:                             \
    return #name;
#include "cache/outcomes.def"
#undef OUTCOME
  default: return "UNKNOWN";
  }
}

const char *kiln_outcome_text(uint32_t outcome) {
  switch (outcome) {
#define OUTCOME(name, number, group, text) \
  case number:                             \
    return text;
#include "cache/outcomes.def"
#undef OUTCOME
  default: return "an event of another release";
  }
}
