// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reports what a launch would run, and why, without running it.
#include <string.h>

#include "runtime/decision.h"
#include "runtime/tuned_choice.h"

static kiln_status decide(const kiln_kernel *k, const void *block, size_t size, kiln_launch_call *out,
                          kiln_error *err) {
  if (!k || size != k->interface.block_bytes || (!block && size)) return kiln_refuse_size(k, size, err);
  return kiln_decide(k, block, NULL, out, err);
}

void kiln_choice_of(const kiln_code *code, const uint32_t *grid, kiln_choice *out) {
  const kiln_kernel *k = code->kernel;
  const kiln_code_info *info = &code->info;
  *out = (kiln_choice){
      .config = k->interface.configs[kiln_code_config(k, code)].text,
      .variant = k->interface.variants[kiln_code_variant(k, code)].text,
      .target = info->target,
      .bundle = k->bundle->name,
      .grid = {grid[0], grid[1], grid[2]},
      .block_threads = info->block_threads,
      .shared_bytes = info->shared_bytes,
      .registers = info->registers,
      .spill_bytes = info->spill_bytes,
      .rank = code->rank,
  };
}

kiln_status kiln_choose(kiln_kernel *k, const void *block, size_t size, kiln_choice *out, kiln_error *err) {
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

/// `config`: what was decided.
static void explain_choice(const kiln_kernel *k, uint32_t config, const uint8_t *block, kiln_reason *out) {
  uint64_t cell;
  const kiln_tuned_choice *tuned = kiln_decide_nearest(k, block, &cell);
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

kiln_status kiln_choose_reason(kiln_kernel *k, const void *block, size_t size, kiln_reason *out,
                               kiln_error *err) {
  kiln_launch_call call;
  kiln_reason reason = {.size = sizeof reason, .text = "", .entry = "", .bundle = ""};
  if (!out || out->size < sizeof reason)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "a reason has %zu bytes, the caller's has %zu",
                     sizeof reason, out ? out->size : 0);
  reason.size = out->size;
  kiln_status status = decide(k, block, size, &call, err);
  if (status == KILN_OK) explain_choice(k, kiln_code_config(k, call.code), block, &reason);
  memcpy(out, &reason, sizeof reason);
  return status;
}
