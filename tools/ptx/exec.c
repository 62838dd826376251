// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Holds what handlers of instructions share: operands, definedness, findings.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "tools/ptx/handlers.h"

static const char *const kind_names[PTX_FINDING_KINDS] = {[PTX_RACE] = "race",
                                                          [PTX_UNDEFINED] = "undefined value",
                                                          [PTX_OUTSIDE] = "access outside of memory",
                                                          [PTX_MISALIGNED] = "misaligned access",
                                                          [PTX_BARRIER] = "barrier",
                                                          [PTX_DEADLOCK] = "deadlock",
                                                          [PTX_ENDLESS] = "endless",
                                                          [PTX_UNKNOWN] = "not modelled"};

uint64_t ptx_random(ptx_run *run) {
  uint64_t z = run->random += 0x9e3779b97f4a7c15ull; // splitmix64
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

const char *ptx_who(const ptx_block *block, uint32_t thread) {
  static char texts[4][64];
  static unsigned next;
  char *text = texts[next++ % 4];
  snprintf(text, sizeof *texts, "block %u, thread %u", block->number, thread);
  return text;
}

static void add_finding(ptx_run *run, ptx_report *report, ptx_finding_kind kind, const char *format,
                        va_list arguments) {
  const ptx_instruction *i = run->at;
  for (uint32_t k = 0; k < report->count; k++)
    if (report->items[k].kind == kind && report->items[k].line == i->line) return;
  if (report->count == PTX_FINDINGS) return;
  ptx_finding *f = &report->items[report->count++];
  *f = (ptx_finding){.kind = kind, .line = i->line};
  int used = snprintf(f->text, sizeof f->text, "%s:%u: %s: %s: ", run->module->name, i->line,
                      kind_names[kind], i->spelling);
  used += vsnprintf(f->text + used, sizeof f->text - (size_t)used, format, arguments);
  if (i->file && i->file < run->module->file_count && run->module->files[i->file] &&
      used < (int)sizeof f->text)
    snprintf(f->text + used, sizeof f->text - (size_t)used, " (%s:%u:%u)", run->module->files[i->file],
             i->source_line, i->source_column);
}

void ptx_find(ptx_run *run, ptx_finding_kind kind, const char *format, ...) {
  va_list arguments;
  run->is_stopped |= (kind != PTX_RACE && kind != PTX_UNDEFINED) || run->report->count == PTX_FINDINGS;
  va_start(arguments, format);
  add_finding(run, run->report, kind, format, arguments);
  va_end(arguments);
}

// -------------------------------------------------------------------------------------- loads that race

static uint64_t load_key(uint32_t block, uint32_t thread, uint32_t load) {
  return (uint64_t)block << 44 | (uint64_t)thread << 34 | load;
}

// Where the key is, or where it would be.
static uint32_t find_raced(const ptx_run *run, uint64_t key) {
  uint32_t at = (uint32_t)(key * 0x9e3779b97f4a7c15ull >> 32) % run->raced_capacity;
  while (run->raced[at] && run->raced[at] != key) at = (at + 1) % run->raced_capacity;
  return at;
}

bool ptx_raced_has(const ptx_run *run, uint32_t block, uint32_t thread, uint32_t load) {
  return run->raced_capacity && run->raced[find_raced(run, load_key(block, thread, load))];
}

static void add_raced(ptx_run *run, uint64_t key) {
  if (2 * run->raced_count >= run->raced_capacity) {
    uint64_t *old = run->raced;
    uint32_t old_capacity = run->raced_capacity;
    run->raced_capacity = old_capacity ? 2 * old_capacity : 256;
    run->raced = calloc(run->raced_capacity, sizeof *run->raced);
    KILN_ASSERT(run->raced);
    for (uint32_t k = 0; k < old_capacity; k++)
      if (old[k]) run->raced[find_raced(run, old[k])] = old[k];
    free(old);
  }
  uint64_t *place = &run->raced[find_raced(run, key)];
  run->raced_count += !*place;
  *place = key;
}

void ptx_find_read_race(ptx_run *run, uint32_t block, uint32_t thread, uint32_t load, const char *format,
                        ...) {
  va_list arguments;
  if (!run->read_races && load) return; // the value is undefined, which shows whether it matters
  va_start(arguments, format);
  add_finding(run, load ? run->read_races : run->report, PTX_RACE, format, arguments);
  va_end(arguments);
  if (load) add_raced(run, load_key(block, thread, load));
}

// -------------------------------------------------------------------------------------- special registers

static uint64_t special(const ptx_exec *x, ptx_special which, uint32_t lane) {
  const uint32_t *grid = x->run->launch->grid, *block = x->run->launch->block, *at = x->block->at;
  const uint32_t *cluster = x->run->cluster, *cluster_at = x->block->cluster->at;
  uint32_t thread = ptx_thread_of(x, lane);
  switch (which) {
  case SPECIAL_tid_x: return thread % block[0];
  case SPECIAL_tid_y: return thread / block[0] % block[1];
  case SPECIAL_tid_z: return thread / block[0] / block[1];
  case SPECIAL_ntid_x: return block[0];
  case SPECIAL_ntid_y: return block[1];
  case SPECIAL_ntid_z: return block[2];
  case SPECIAL_ctaid_x: return at[0];
  case SPECIAL_ctaid_y: return at[1];
  case SPECIAL_ctaid_z: return at[2];
  case SPECIAL_nctaid_x: return grid[0];
  case SPECIAL_nctaid_y: return grid[1];
  case SPECIAL_nctaid_z: return grid[2];
  case SPECIAL_clusterid_x: return cluster_at[0];
  case SPECIAL_clusterid_y: return cluster_at[1];
  case SPECIAL_clusterid_z: return cluster_at[2];
  case SPECIAL_nclusterid_x: return grid[0] / cluster[0];
  case SPECIAL_nclusterid_y: return grid[1] / cluster[1];
  case SPECIAL_nclusterid_z: return grid[2] / cluster[2];
  case SPECIAL_cluster_ctaid_x: return at[0] % cluster[0];
  case SPECIAL_cluster_ctaid_y: return at[1] % cluster[1];
  case SPECIAL_cluster_ctaid_z: return at[2] % cluster[2];
  case SPECIAL_cluster_nctaid_x: return cluster[0];
  case SPECIAL_cluster_nctaid_y: return cluster[1];
  case SPECIAL_cluster_nctaid_z: return cluster[2];
  case SPECIAL_cluster_ctarank: return x->block->rank;
  case SPECIAL_cluster_nctarank: return x->block->cluster->block_count;
  case SPECIAL_is_explicit_cluster: return x->run->kernel->cluster[0] != 0;
  case SPECIAL_laneid: return lane;
  case SPECIAL_warpid: return x->warp->index;
  case SPECIAL_nwarpid: return x->block->warp_count;
  case SPECIAL_smid: return x->block->number % 4;
  case SPECIAL_nsmid: return 4;
  case SPECIAL_clock:
  case SPECIAL_clock64:
  case SPECIAL_globaltimer: return x->run->steps;
  case SPECIAL_lanemask_eq: return 1u << lane;
  case SPECIAL_lanemask_lt: return (1u << lane) - 1;
  case SPECIAL_lanemask_le: return (2ull << lane) - 1;
  case SPECIAL_lanemask_gt: return 0xffffffff & ~((2ull << lane) - 1);
  case SPECIAL_lanemask_ge: return 0xffffffff & ~((1ull << lane) - 1);
  case SPECIAL_dynamic_smem_size: return x->run->launch->dynamic_shared;
  case SPECIAL_total_smem_size: return x->block->shared.size;
  case SPECIAL_COUNT: break;
  }
  return 0;
}

// --------------------------------------------------------------------------------------------- operands

// Between a wgmma and its wait nothing else may touch its registers.
static void check_product(ptx_exec *x, const ptx_register *r) {
  if (x->i->op->handler != ptx_do_wgmma)
    ptx_find(x->run, PTX_RACE,
             "warp %u of block %u uses a register that the wgmma of line %u may still be writing",
             x->warp->index, x->block->number, r->product);
}

const uint64_t *ptx_source(ptx_exec *x, const ptx_operand *o, uint64_t *buffer, uint32_t *out_defined) {
  if (o->kind == OPERAND_REGISTER) {
    const ptx_register *r = &x->warp->registers[o->index];
    if (r->product) check_product(x, r);
    *out_defined &= r->full;
    if (!o->is_negated) return r->v;
    for (uint32_t lane = 0; lane < PTX_LANES; lane++) buffer[lane] = !r->v[lane];
    return buffer;
  }
  for (uint32_t lane = 0; lane < PTX_LANES; lane++)
    buffer[lane] = o->kind == OPERAND_SPECIAL ? special(x, (ptx_special)o->index, lane) : o->immediate;
  return buffer;
}

const uint64_t *ptx_decider(ptx_exec *x, const ptx_operand *o, uint64_t *buffer, const char *what) {
  uint32_t defined = ~0u;
  const uint64_t *v = ptx_source(x, o, buffer, &defined);
  uint32_t lacking = x->mask & ~defined;
  if (lacking)
    ptx_find(x->run, PTX_UNDEFINED, "%s of %s is undefined", what,
             ptx_who(x->block, ptx_thread_of(x, (uint32_t)__builtin_ctz(lacking))));
  return v;
}

uint8_t ptx_defined_bytes(ptx_exec *x, const ptx_operand *o, uint32_t lane) {
  if (o->kind != OPERAND_REGISTER) return 0xff;
  const ptx_register *r = &x->warp->registers[o->index];
  return r->full >> lane & 1 ? 0xff : r->part[lane];
}

void ptx_write_parts(ptx_exec *x, const ptx_operand *o, uint32_t lane, uint64_t value, uint8_t defined) {
  if (o->kind != OPERAND_REGISTER) return;
  ptx_register *r = &x->warp->registers[o->index];
  uint32_t bits = x->run->kernel->register_bits[o->index];
  uint8_t all = (uint8_t)ptx_mask_bits((bits + 7) / 8);
  if (r->product) check_product(x, r);
  if (x->i->op->handler != ptx_do_wgmma) r->written = x->run->steps;
  r->v[lane] = value & ptx_mask_bits(bits);
  r->part[lane] = defined;
  r->full = (r->full & ~(1u << lane)) | (uint32_t)((defined & all) == all) << lane;
}

void ptx_write(ptx_exec *x, const ptx_operand *o, uint32_t lane, uint64_t value, bool is_defined) {
  ptx_write_parts(x, o, lane, value, is_defined ? 0xff : 0);
}

void ptx_addresses(ptx_exec *x, const ptx_operand *o, uint64_t *out) {
  uint64_t buffer[PTX_LANES];
  ptx_operand base = {.kind = o->index >= 0 ? OPERAND_REGISTER : OPERAND_IMMEDIATE, .index = o->index};
  const uint64_t *v = ptx_decider(x, &base, buffer, "the address");
  bool is_narrow = o->index >= 0 && x->run->kernel->register_bits[o->index] == 32;
  for (uint32_t lane = 0; lane < PTX_LANES; lane++)
    out[lane] = (v[lane] + o->immediate) & (is_narrow ? 0xffffffff : ~0ull);
}
