// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names the outcomes that statistics count.
#include "cache/cache.h"

static const struct {
  const char *name, *text;
} rows[KILN_OUTCOME_LIMIT] = {
#define OUTCOME(name, number, group, text) [number] = {#name, text},
#include "cache/outcomes.def"
#undef OUTCOME
};

const char *kiln_outcome_name(uint32_t outcome) {
  return outcome < KILN_OUTCOME_LIMIT && rows[outcome].name ? rows[outcome].name : "UNKNOWN";
}

const char *kiln_outcome_text(uint32_t outcome) {
  return outcome < KILN_OUTCOME_LIMIT && rows[outcome].text ? rows[outcome].text
                                                            : "an event of another release";
}
