// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Faults planted into good PTX: what tests of it share.
#ifndef KILN_TESTS_PTX_PLANTED_H
#define KILN_TESTS_PTX_PLANTED_H

#include <stdio.h>
#include <stdlib.h>

#include "tests/ptx/ptx_case.h"

enum { GOOD_SEEDS = 25, FAULT_SEEDS = 12 };

/// What a fault may show itself as: bits of ptx_finding_kind, or results that differ.
#define AS(kind) (1u << PTX_##kind)
enum { WRONG = 1u << 30 };

/// True when the results are right, or when there are none to ask for because something was found.
typedef bool good(const char *text, uint64_t seed, ptx_report *report, kiln_error *err);

typedef struct fault {
  const char *fixture;
  good *run;
  const char *from; ///< the text that is replaced,
  int which;        ///< its n-th place, from 1 on; 0: all of them, one after another
  const char *to;
  uint32_t as; ///< how it may show
} fault;

static char *read_fixture(const char *name) {
  char path[200];
  snprintf(path, sizeof path, "tests/ptx/%s.ptx", name);
  char *text = kiln_test_read(path, NULL);
  if (!text) FAIL("%s cannot be read", path);
  return text;
}

/// The text runs clean and right under many schedules.
static void run_good(const char *name, good *run, uint32_t seeds) {
  char *text = read_fixture(name);
  for (uint64_t seed = 1; seed <= seeds * (kiln_test_full() ? 40u : 1u); seed++) {
    ptx_report report;
    kiln_error err = {0};
    if (!run(text, seed, &report, &err) || report.count)
      FAIL("%s, seed %llu: %s", name, (unsigned long long)seed, err.text[0] ? err.text : "wrong results");
  }
  free(text);
}

// The n-th place of `from` in `text`, or NULL.
static const char *place_of(const char *text, const char *from, int which) {
  const char *at = text;
  for (int n = 0; at && n < which; n++) at = strstr(n ? at + 1 : at, from);
  return at;
}

static char *mutated(const char *text, const char *at, const fault *f) {
  size_t before = (size_t)(at - text), size = strlen(text) + strlen(f->to) + 1;
  char *out = malloc(size);
  CHECK(out != NULL);
  snprintf(out, size, "%.*s%s%s", (int)before, text, f->to, at + strlen(f->from));
  return out;
}

// Whether some schedule shows the fault in one of its ways; nothing else may be said of it first.
static bool is_found(const fault *f, const char *text, char *said, size_t said_size) {
  for (uint64_t seed = 1; seed <= FAULT_SEEDS; seed++) {
    ptx_report report;
    kiln_error err = {0};
    bool right = f->run(text, seed, &report, &err);
    if (!right && !report.count && err.text[0]) FAIL("%s does not parse: %s", f->to, err.text);
    for (uint32_t k = 0; k < report.count; k++) {
      snprintf(said, said_size, "%s", report.items[k].text);
      if (f->as & 1u << report.items[k].kind) return true;
    }
    if (report.count) return false;
    if (!right && f->as & WRONG) return true;
    snprintf(said, said_size, "%s", right ? "nothing" : "wrong results");
  }
  return false;
}

/// Plants each of them in each of its places; all have to be found. Returns how many were planted.
static int plant(const fault *faults, size_t count) {
  int planted = 0, missed = 0;
  for (size_t i = 0; i < count; i++) {
    const fault *f = &faults[i];
    char *text = read_fixture(f->fixture);
    int first = f->which ? f->which : 1;
    if (!place_of(text, f->from, first)) FAIL("%s.ptx has no place %d of '%s'", f->fixture, first, f->from);
    for (int which = first; (f->which == 0 || which == f->which) && place_of(text, f->from, which); which++) {
      char *bad = mutated(text, place_of(text, f->from, which), f), said[600] = "";
      planted++;
      if (!is_found(f, bad, said, sizeof said)) {
        missed++;
        printf("%s.ptx, place %d of '%s' as '%s': %s\n", f->fixture, which, f->from, f->to, said);
      }
      free(bad);
    }
    free(text);
  }
  printf("%d faults planted, %d missed\n", planted, missed);
  CHECK_INT(missed, 0);
  return planted;
}

#endif
