// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A launch from its first block to its last.
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "tools/ptx/handlers.h"
#include "tools/ptx/schedule.h"

enum { DEFAULT_RESIDENT = 4, SLICES = 64 };

static void *must(void *memory) {
  KILN_ASSERT(memory);
  return memory;
}

static void destroy_block(ptx_block *block) {
  ptx_race_block_deinit(block);
  ptx_phase_deinit(block);
  ptx_bulk_deinit(block);
  for (uint32_t w = 0; w < block->warp_count; w++) {
    free(block->warps[w].registers);
    free(block->warps[w].copies);
    ptx_products_deinit(&block->warps[w]);
  }
  for (uint32_t t = 0; block->locals && t < block->thread_count; t++) ptx_region_deinit(&block->locals[t]);
  ptx_region_deinit(&block->shared);
  free(block->locals);
  free(block->warps);
  free(block->threads);
  free(block);
}

static ptx_block *create_block(ptx_run *run, uint32_t number) {
  const ptx_launch *launch = run->launch;
  const ptx_kernel *kernel = run->kernel;
  ptx_block *b = must(calloc(1, sizeof *b));
  b->number = number;
  b->at[0] = number % launch->grid[0];
  b->at[1] = number / launch->grid[0] % launch->grid[1];
  b->at[2] = number / launch->grid[0] / launch->grid[1];
  b->thread_count = launch->block[0] * launch->block[1] * launch->block[2];
  b->warp_count = b->live_warps = (b->thread_count + PTX_LANES - 1) / PTX_LANES;
  b->threads = must(calloc(b->thread_count, sizeof *b->threads));
  b->bulk_groups = must(calloc(b->thread_count, sizeof *b->bulk_groups));
  b->warps = must(calloc(b->warp_count, sizeof *b->warps));
  for (uint32_t t = 0; t < b->thread_count; t++) b->threads[t].clock = 1;
  KILN_ASSERT(
      ptx_region_init(&b->shared, 0, (uint64_t)kernel->dynamic_offset + launch->dynamic_shared, false));
  ptx_shared_gaps(run->module, b, kernel->dynamic_offset);
  // What shared memory and registers hold at first is anything.
  for (uint64_t k = 0; k + 8 <= b->shared.size; k += 8) {
    uint64_t noise = ptx_random(run);
    memcpy(b->shared.bytes + k, &noise, sizeof noise);
  }
  if (kernel->local_bytes) b->locals = must(calloc(b->thread_count, sizeof *b->locals));
  for (uint32_t t = 0; b->locals && t < b->thread_count; t++)
    KILN_ASSERT(ptx_region_init(&b->locals[t], 0, kernel->local_bytes, false));
  for (uint32_t w = 0; w < b->warp_count; w++) {
    ptx_warp *warp = &b->warps[w];
    uint32_t lanes = b->thread_count - w * PTX_LANES;
    *warp = (ptx_warp){.block = b, .index = w, .live = lanes >= PTX_LANES ? ~0u : (1u << lanes) - 1};
    warp->registers = must(calloc(kernel->register_count + 1, sizeof *warp->registers));
    for (uint32_t r = 0; r < kernel->register_count; r++)
      for (uint32_t lane = 0; lane < PTX_LANES; lane++)
        warp->registers[r].v[lane] =
            (0x5bd1e995u * (r + 1) ^ run->random) & ptx_mask_bits(kernel->register_bits[r]);
    ptx_strand_add(warp, 0, warp->live);
  }
  return b;
}

// Blocks start in order, as the hardware's do, and run at the same time as far as there is room.
static void run_blocks(ptx_run *run) {
  uint32_t living = 0;
  for (;;) {
    for (uint32_t k = 0; k < run->resident && run->next_block < run->block_count; k++)
      if (!run->blocks[k]) {
        run->blocks[k] = create_block(run, (uint32_t)run->next_block++);
        living++;
      }
    if (!living || run->is_stopped) return;
    uint32_t start = (uint32_t)ptx_random(run) % run->resident;
    bool has_run = false;
    for (uint32_t n = 0; n < run->resident && !has_run; n++) {
      ptx_block **place = &run->blocks[(start + n) % run->resident];
      for (uint32_t k = 0; *place && k < SLICES && !run->is_stopped && ptx_block_runs(run, *place); k++)
        has_run = true;
      if (*place && !(*place)->live_warps) {
        destroy_block(*place);
        *place = NULL;
        living--;
        has_run = true;
      }
    }
    for (uint32_t k = 0; !has_run && k < run->resident; k++)
      if (run->blocks[k] && !run->is_stopped) ptx_block_stuck(run, run->blocks[k]);
    if (run->launch->max_steps && run->steps > run->launch->max_steps)
      ptx_find(run, PTX_ENDLESS, "not done after %llu steps", (unsigned long long)run->launch->max_steps);
  }
}

static kiln_status check_launch(const ptx_module *module, uint32_t kernel, const ptx_launch *l,
                                kiln_error *err) {
  if (kernel >= module->kernel_count)
    return kiln_fail(err, KILN_STATUS_NOT_FOUND, "%s: no kernel %u", module->name, kernel);
  const ptx_kernel *k = &module->kernels[kernel];
  uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2],
           blocks = (uint64_t)l->grid[0] * l->grid[1];
  uint64_t most = (uint64_t)k->block[0] * k->block[1] * k->block[2];
  if (!threads || l->block[0] > PTX_MAX_THREADS || l->block[1] > PTX_MAX_THREADS || threads > PTX_MAX_THREADS)
    return kiln_fail(err, KILN_STATUS_LAUNCH, "%s: expected 1 to %d threads a block", k->name,
                     PTX_MAX_THREADS);
  if (most && (k->is_block_exact ? threads != most : threads > most))
    return kiln_fail(err, KILN_STATUS_LAUNCH, "%s: %llu threads a block; the kernel says %llu", k->name,
                     (unsigned long long)threads, (unsigned long long)most);
  if (!blocks || !l->grid[2] || blocks * l->grid[2] >> PTX_BLOCK_BITS || blocks >> PTX_BLOCK_BITS)
    return kiln_fail(err, KILN_STATUS_LIMIT, "%s: expected 1 to %d blocks", k->name,
                     (1 << PTX_BLOCK_BITS) - 1);
  if (l->parameter_size < k->parameter_bytes)
    return kiln_fail(err, KILN_STATUS_LAUNCH, "%s: %zu bytes of arguments; the kernel takes %u", k->name,
                     l->parameter_size, k->parameter_bytes);
  if (l->dynamic_shared > 1 << 20)
    return kiln_fail(err, KILN_STATUS_LIMIT, "%s: %u bytes of shared memory", k->name, l->dynamic_shared);
  return k->code_count ? KILN_OK : kiln_fail(err, KILN_STATUS_LAUNCH, "%s: no instructions", k->name);
}

// One run of all blocks. `read_races` NULL: the second, in which loads of `raced` give undefined values.
static void run_launch(const ptx_module *module, uint32_t kernel, const ptx_launch *launch,
                       ptx_report *report, ptx_report *read_races, ptx_journal *journal, ptx_run *out) {
  *out = (ptx_run){.module = module,
                   .kernel = &module->kernels[kernel],
                   .launch = launch,
                   .memory = module->memory,
                   .report = report,
                   .random = launch->seed,
                   .read_races = read_races,
                   .journal = journal,
                   .raced = out->raced,
                   .raced_count = out->raced_count,
                   .raced_capacity = out->raced_capacity};
  ptx_run *run = out;
  run->resident = launch->resident ? launch->resident : DEFAULT_RESIDENT;
  run->block_count = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
  run->blocks = must(calloc(run->resident, sizeof *run->blocks));
  run->at = run->kernel->code;
  KILN_ASSERT(ptx_region_init(&run->parameters, 0, run->kernel->parameter_bytes, true));
  if (run->kernel->parameter_bytes)
    memcpy(run->parameters.bytes, launch->parameters, run->kernel->parameter_bytes);
  for (size_t k = 0; k < module->memory->count; k++) ptx_region_forget(&module->memory->regions[k]);
  run_blocks(run);
  report->steps += run->steps;
  for (uint32_t k = 0; k < run->resident; k++)
    if (run->blocks[k]) destroy_block(run->blocks[k]);
  free(run->blocks);
  ptx_race_run_deinit(run);
  ptx_region_deinit(&run->parameters);
}

// A load that races counts when its value matters. The first run notes such loads; the second, in the same
// order, takes their values as undefined: only what they reach makes findings.
kiln_status ptx_module_run(ptx_module *module, uint32_t kernel, const ptx_launch *launch, ptx_report *report,
                           kiln_error *err) {
  ptx_memory *m = module->memory;
  *report = (ptx_report){0};
  KILN_TRY(check_launch(module, kernel, launch, err));
  ptx_report read_races = {0}, second = {0};
  ptx_run run = {0};
  ptx_journal journal = {0};
  run_launch(module, kernel, launch, report, &read_races, &journal, &run);
  if (read_races.count) {
    ptx_journal_undo(&journal, m);
    run_launch(module, kernel, launch, &second, NULL, NULL, &run);
    report->steps += second.steps;
    for (uint32_t k = 0; second.count > report->count && k < read_races.count && report->count < PTX_FINDINGS;
         k++)
      report->items[report->count++] = read_races.items[k];
  }
  ptx_journal_deinit(&journal);
  free(run.raced);
  return report->count ? kiln_fail(err, KILN_STATUS_ASSERT, "%s", report->items[0].text) : KILN_OK;
}
