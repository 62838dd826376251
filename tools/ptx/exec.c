// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What handlers of instructions share: operands, definedness, findings.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/ptx/machine.h"

static const char *const kind_names[PTX_FINDING_KINDS] = {
    [PTX_RACE] = "race",       [PTX_UNDEFINED] = "undefined value", [PTX_OUTSIDE] = "access outside of memory",
    [PTX_MISALIGNED] = "misaligned access", [PTX_BARRIER] = "barrier", [PTX_DEADLOCK] = "deadlock",
    [PTX_ENDLESS] = "endless", [PTX_UNKNOWN] = "not modelled"};

const char *ptx_finding_name(ptx_finding_kind kind) { return kind < PTX_FINDING_KINDS ? kind_names[kind] : "?"; }

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

void ptx_find(ptx_run *run, ptx_finding_kind kind, const char *format, ...) {
  ptx_report *report = run->report;
  const ptx_instruction *i = run->at;
  run->is_stopped |= kind != PTX_RACE && kind != PTX_UNDEFINED;
  for (uint32_t k = 0; k < report->count; k++)
    if (report->items[k].kind == kind && report->items[k].line == i->line) return;
  if (report->count == PTX_FINDINGS) {
    run->is_stopped = true;
    return;
  }
  ptx_finding *f = &report->items[report->count++];
  *f = (ptx_finding){.kind = kind, .line = i->line};
  int used = snprintf(f->text, sizeof f->text, "%s:%u: %s: %s: ", run->module->name, i->line, kind_names[kind], i->spelling);
  va_list arguments;
  va_start(arguments, format);
  used += vsnprintf(f->text + used, sizeof f->text - (size_t)used, format, arguments);
  va_end(arguments);
  if (i->file && i->file < run->module->file_count && run->module->files[i->file] && used < (int)sizeof f->text)
    snprintf(f->text + used, sizeof f->text - (size_t)used, " (%s:%u:%u)", run->module->files[i->file], i->source_line, i->source_column);
}

// -------------------------------------------------------------------------------------- special registers

static uint64_t special(const ptx_exec *x, ptx_special which, uint32_t lane) {
  const uint32_t *grid = x->run->launch->grid, *block = x->run->launch->block, *at = x->block->at;
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

const uint64_t *ptx_source(ptx_exec *x, const ptx_operand *o, uint64_t *buffer, uint32_t *out_defined) {
  if (o->kind == OPERAND_REGISTER) {
    const ptx_register *r = &x->warp->registers[o->index];
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
  if (lacking) ptx_find(x->run, PTX_UNDEFINED, "%s of %s is undefined", what, ptx_who(x->block, ptx_thread_of(x, (uint32_t)__builtin_ctz(lacking))));
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
  for (uint32_t lane = 0; lane < PTX_LANES; lane++) out[lane] = (v[lane] + o->immediate) & (is_narrow ? 0xffffffff : ~0ull);
}
