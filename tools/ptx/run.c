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
  free(block->visits);
  free(block->warps);
  free(block->threads);
  free(block);
}

static ptx_block *create_block(ptx_run *run, ptx_cluster *cluster, uint32_t rank) {
  const ptx_launch *launch = run->launch;
  const ptx_kernel *kernel = run->kernel;
  ptx_block *b = must(calloc(1, sizeof *b));
  const uint32_t *n = run->cluster;
  b->cluster = cluster;
  b->rank = rank;
  b->at[0] = cluster->at[0] * n[0] + rank % n[0];
  b->at[1] = cluster->at[1] * n[1] + rank / n[0] % n[1];
  b->at[2] = cluster->at[2] * n[2] + rank / n[0] / n[1];
  b->number = (b->at[2] * launch->grid[1] + b->at[1]) * launch->grid[0] + b->at[0];
  b->thread_count = launch->block[0] * launch->block[1] * launch->block[2];
  b->warp_count = b->live_warps = (b->thread_count + PTX_LANES - 1) / PTX_LANES;
  b->threads = must(calloc(b->thread_count, sizeof *b->threads));
  b->bulk_groups = must(calloc(b->thread_count, sizeof *b->bulk_groups));
  b->warps = must(calloc(b->warp_count, sizeof *b->warps));
  for (uint32_t t = 0; t < b->thread_count; t++) b->threads[t].clock = 1;
  KILN_ASSERT(
      ptx_region_init(&b->shared, 0, (uint64_t)kernel->dynamic_offset + launch->dynamic_shared, false));
  b->shared.owner = b;
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
    warp->held = ptx_start_registers(kernel);
    warp->registers = must(calloc(kernel->register_count + 1, sizeof *warp->registers));
    for (uint32_t r = 0; r < kernel->register_count; r++)
      for (uint32_t lane = 0; lane < PTX_LANES; lane++)
        warp->registers[r].v[lane] =
            (0x5bd1e995u * (r + 1) ^ run->random) & ptx_mask_bits(kernel->register_bits[r]);
    ptx_strand_add(warp, 0, warp->live);
  }
  return b;
}

static void destroy_cluster(ptx_cluster *c) {
  for (uint32_t k = 0; k < c->block_count; k++) destroy_block(c->blocks[k]);
  ptx_cluster_deinit(c);
  free(c);
}

static ptx_cluster *create_cluster(ptx_run *run, uint32_t number) {
  ptx_cluster *c = must(calloc(1, sizeof *c));
  uint32_t count[3];
  for (uint32_t axis = 0; axis < 3; axis++) count[axis] = run->launch->grid[axis] / run->cluster[axis];
  c->at[0] = number % count[0];
  c->at[1] = number / count[0] % count[1];
  c->at[2] = number / count[0] / count[1];
  uint32_t blocks = run->cluster[0] * run->cluster[1] * run->cluster[2];
  for (; c->block_count < blocks; c->block_count++)
    c->blocks[c->block_count] = create_block(run, c, c->block_count);
  return c;
}

static bool has_ended(const ptx_cluster *c) {
  for (uint32_t k = 0; k < c->block_count; k++)
    if (!c->blocks[k]->has_ended) return false;
  return true;
}

// Blocks that have ended run too: what they sent may be on its way.
static bool run_cluster(ptx_run *run, ptx_cluster *c) {
  uint32_t start = (uint32_t)ptx_random(run) % c->block_count;
  bool has_run = false;
  for (uint32_t n = 0; n < c->block_count && !has_run; n++) {
    ptx_block *block = c->blocks[(start + n) % c->block_count];
    for (uint32_t k = 0; k < SLICES && !run->is_stopped && ptx_block_runs(run, block); k++) has_run = true;
  }
  return has_run;
}

static void report_stuck(ptx_run *run) {
  for (uint32_t k = 0; k < run->resident; k++)
    for (uint32_t b = 0; run->clusters[k] && b < run->clusters[k]->block_count; b++)
      if (!run->clusters[k]->blocks[b]->has_ended && !run->is_stopped)
        ptx_block_stuck(run, run->clusters[k]->blocks[b]);
}

// Clusters start in order, as the hardware's do, and run at the same time as far as there is room.
static void run_clusters(ptx_run *run) {
  uint32_t living = 0;
  for (;;) {
    for (uint32_t k = 0; k < run->resident && run->next_cluster < run->cluster_count; k++)
      if (!run->clusters[k]) {
        run->clusters[k] = create_cluster(run, (uint32_t)run->next_cluster++);
        living++;
      }
    if (!living || run->is_stopped) return;
    uint32_t start = (uint32_t)ptx_random(run) % run->resident;
    bool has_run = false;
    for (uint32_t n = 0; n < run->resident && !has_run; n++) {
      ptx_cluster **place = &run->clusters[(start + n) % run->resident];
      if (*place) has_run = run_cluster(run, *place);
      if (*place && has_ended(*place)) {
        destroy_cluster(*place);
        *place = NULL;
        living--;
        has_run = true;
      }
    }
    if (!has_run) report_stuck(run);
    if (run->launch->max_steps && run->steps > run->launch->max_steps)
      ptx_find(run, PTX_ENDLESS, "not done after %llu steps", (unsigned long long)run->launch->max_steps);
  }
}

// Blocks of a cluster that the kernel asks for.
static uint32_t cluster_of(const ptx_kernel *k, uint32_t out[3]) {
  for (uint32_t axis = 0; axis < 3; axis++) out[axis] = k->cluster[0] ? k->cluster[axis] : 1;
  uint64_t count = (uint64_t)out[0] * out[1];
  return count <= PTX_CLUSTER && count * out[2] <= PTX_CLUSTER ? (uint32_t)count * out[2] : 0;
}

static kiln_status check_cluster(const ptx_kernel *k, const ptx_launch *l, kiln_error *err) {
  uint32_t cluster[3];
  if (k->is_cluster_explicit && !k->cluster[0])
    return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "%s: clusters whose size the launch chooses", k->name);
  if (!cluster_of(k, cluster))
    return kiln_fail(err, KILN_STATUS_LAUNCH, "%s: expected clusters of 1 to %d blocks, found %u x %u x %u",
                     k->name, PTX_CLUSTER, cluster[0], cluster[1], cluster[2]);
  for (uint32_t axis = 0; axis < 3; axis++)
    if (l->grid[axis] % cluster[axis])
      return kiln_fail(err, KILN_STATUS_LAUNCH, "%s: %u blocks along axis %u; a cluster has %u", k->name,
                       l->grid[axis], axis, cluster[axis]);
  return KILN_OK;
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
  KILN_TRY(check_cluster(k, l, err));
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
  uint32_t blocks = cluster_of(run->kernel, run->cluster);
  run->resident = ((launch->resident ? launch->resident : DEFAULT_RESIDENT) + blocks - 1) / blocks;
  run->cluster_count = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2] / blocks;
  run->clusters = must(calloc(run->resident, sizeof *run->clusters));
  run->at = run->kernel->code;
  KILN_ASSERT(ptx_region_init(&run->parameters, 0, run->kernel->parameter_bytes, true));
  if (run->kernel->parameter_bytes)
    memcpy(run->parameters.bytes, launch->parameters, run->kernel->parameter_bytes);
  for (size_t k = 0; k < module->memory->count; k++)
    if (launch->is_dependent) ptx_race_succeed(&module->memory->regions[k], read_races != NULL);
    else ptx_region_forget(&module->memory->regions[k]);
  run_clusters(run);
  report->steps += run->steps;
  for (uint32_t k = 0; k < run->resident; k++)
    if (run->clusters[k]) destroy_cluster(run->clusters[k]);
  free(run->clusters);
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
