// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Says what a launch would run, and why, without running it.
#include <string.h>

#include "runtime/more/core.h"

static kiln_status decide(const kiln_kernel *k, const void *block, size_t size, kiln_launch_call *out,
                          kiln_error *err) {
  if (!k || size != k->interface.block_bytes || (!block && size)) return kiln_refuse_size(k, size, err);
  return kiln_decide(k, block, NULL, out, err);
}

kiln_status kiln_more_choose(kiln_kernel *k, const void *block, size_t size, kiln_choice *out,
                             kiln_error *err) {
  kiln_launch_call call;
  KILN_NEED(out, "result");
  memset(out, 0, sizeof *out);
  KILN_TRY(decide(k, block, size, &call, err));
  kiln_choice_of(call.code, call.grid, out);
  return KILN_OK;
}

// The line `number` of a text.
static const char *line_at(const char *text, uint32_t number, size_t *out_size) {
  while (--number) text = strchr(text, '\n') + 1;
  *out_size = strcspn(text, "\n");
  return text;
}

typedef struct nearest_search {
  const kiln_weighing weighing;
  const kiln_tuned_choice *found;
} nearest_search;

static bool may_be_used(void *context, uint32_t number) {
  nearest_search *s = context;
  const kiln_tuned_choice *choice = &s->weighing.kernel->tuned->choices[number];
  if (kiln_try_config(&s->weighing, choice->config)) s->found = choice;
  return s->found != NULL;
}

// The nearest tuned choice that may be used, or NULL; and the cell that it is from, 0 without one.
static const kiln_tuned_choice *find_nearest(const kiln_kernel *k, const uint8_t *block, uint64_t *out_cell) {
  int64_t values[KILN_MOST_PARAMS];
  uint8_t inputs[KILN_TUNED_MOST_AXES];
  nearest_search s = {{k, block, values}, NULL};
  *out_cell = k->tuned ? kiln_tuned_cell(k->tuned, block) : 0;
  if (!*out_cell) return NULL;
  kiln_read_values(k, block, values);
  k->tuned->values(k->tuned, block, inputs);
  k->tuned->search(k->tuned, inputs, may_be_used, &s);
  return s.found;
}

/// `config`: what was decided.
static void explain_choice(const kiln_kernel *k, uint32_t config, const uint8_t *block, kiln_reason *out) {
  uint64_t cell;
  const kiln_tuned_choice *tuned = find_nearest(k, block, &cell);
  bool is_tuned = k->tuned && k->tuned->choice_count;
  bool is_first = tuned && tuned->config + 1u == (cell & 0xffff),
       is_declined = tuned && tuned->config != config;
  out->by = !tuned || is_declined                 ? k->has_costs ? KILN_BY_COST
                                                    : is_tuned   ? KILN_BY_DEFAULT
                                                                 : KILN_BY_ORDER
            : is_first && cell & KILN_TUNED_EXACT ? KILN_BY_TABLE
                                                  : KILN_BY_NEAREST;
  out->text = out->by == KILN_BY_TABLE     ? "tuned for arguments like these"
              : out->by == KILN_BY_NEAREST ? "tuned for the nearest arguments"
              : is_declined ? "more than a quarter above the least cost: the config that has it"
              : !is_tuned   ? "nothing was tuned for kernel and device: by order, or least cost"
              : !cell       ? "the arguments lie outside of what was tuned: by order, or least cost"
                            : "nothing that may be used was tuned near: by order, or least cost";
  if (is_tuned) out->bundle = k->tuned->bundle->name;
  if (tuned) out->entry = line_at(k->tuned->note, tuned->line, &out->entry_size);
}

kiln_status kiln_more_choose_reason(kiln_kernel *k, const void *block, size_t size, kiln_reason *out,
                                    kiln_error *err) {
  kiln_launch_call call;
  kiln_reason reason = {.size = sizeof reason, .text = "", .entry = "", .bundle = ""};
  if (!out || out->size < sizeof reason)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "a reason has %zu bytes, the caller's has %zu",
                     sizeof reason, out ? out->size : 0);
  reason.size = out->size;
  kiln_status status = decide(k, block, size, &call, err);
  if (status == KILN_OK) explain_choice(k, call.code->config, block, &reason);
  memcpy(out, &reason, sizeof reason);
  return status;
}
