// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes how many waves of a kernel a processor of a device holds at a time. Sources: CUDA programming
// guide, "compute capabilities"; LLVM's AMDGPU back end (IsaInfo) and AMD's ISA manuals.
#include "targets/occupancy.h"

typedef struct nvidia_limits {
  uint16_t number, threads, blocks, shared_kib;
} nvidia_limits;

/// Of a multiprocessor; all have 65,536 registers.
static const nvidia_limits nvidia[] = {
    {70, 2048, 32, 96},   {75, 1024, 16, 64},   {80, 2048, 32, 164},  {86, 1536, 16, 100},
    {87, 1536, 16, 164},  {89, 1536, 24, 100},  {90, 2048, 32, 228},  {100, 2048, 32, 228},
    {103, 2048, 32, 228}, {110, 1536, 24, 228}, {120, 1536, 24, 100}, {121, 1536, 24, 100},
};
enum { REGISTERS = 65536, REGISTER_UNIT = 256, RESERVED_SHARED = 1024, SHARED_UNIT = 128, PARTITIONS = 4 };

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }
static uint32_t round_up(uint32_t n, uint32_t unit) { return (n + unit - 1) / unit * unit; }

static void occupancy_nvptx(const kiln_target *target, const kiln_cost *c, kiln_occupancy *out) {
  const nvidia_limits *l = NULL;
  for (size_t i = 0; i < sizeof nvidia / sizeof *nvidia; i++)
    if (nvidia[i].number == target->processor->number) l = &nvidia[i];
  uint32_t warps = round_up(c->threads, 32) / 32;
  if (!l || !warps) return;
  uint32_t reserved = l->number >= 80 ? RESERVED_SHARED : 0;
  uint32_t by_shared =
      c->shared ? l->shared_kib * 1024u / (round_up(c->shared, SHARED_UNIT) + reserved) : l->blocks;
  uint32_t a_warp = round_up(c->registers * 32, REGISTER_UNIT);
  uint32_t by_registers = c->registers ? REGISTERS / PARTITIONS / a_warp * PARTITIONS / warps : l->blocks;
  out->most = l->threads / 32u;
  out->blocks = least(least(l->blocks, l->threads / 32u / warps), least(by_shared, by_registers));
  out->waves = out->blocks * warps;
  out->is_known = true;
}

/// Registers of a lane in one of the SIMDs, and the unit they are given in.
static void amd_registers(const kiln_target *t, uint32_t *out_total, uint32_t *out_unit) {
  const kiln_processor *p = t->processor;
  bool is_cdna2 = p->major == 9 && (p->minor >= 4 || (p->minor == 0 && p->step == 10) || p->minor == 5);
  bool is_large = p->major >= 12 || (p->major == 11 && !p->generic_version &&
                                     ((p->minor == 0 && p->step < 2) || (p->minor == 5 && p->step == 1)));
  uint32_t halves = t->wave == 64 ? 2 : 1;
  if (is_cdna2) *out_total = 512, *out_unit = 8;
  else if (p->major < 10) *out_total = 256, *out_unit = 4;
  else if (is_large) *out_total = 1536 / halves, *out_unit = 24 / halves;
  else *out_total = 1024 / halves, *out_unit = (p->major > 10 || p->minor >= 3 ? 16 : 8) / halves;
}

static uint32_t amd_most(const kiln_processor *p) {
  if (p->major >= 10) return p->major == 10 && p->minor < 3 ? 20 : 16;
  return p->minor >= 4 || p->step == 10 ? 8 : 10;
}

/// By registers, and by shared memory of a compute unit with four SIMDs, of RDNA two.
static void occupancy_amdgpu(const kiln_target *target, const kiln_cost *c, kiln_occupancy *out) {
  uint32_t total, unit, waves = round_up(c->threads, target->wave) / target->wave,
                        simds = target->processor->major >= 10 ? 2 : 4;
  if (!waves || !c->registers) return;
  amd_registers(target, &total, &unit);
  out->most = amd_most(target->processor) * simds;
  uint32_t by_registers = least(total / round_up(c->registers, unit), amd_most(target->processor)) * simds;
  uint32_t blocks = by_registers / waves;
  if (c->shared) blocks = least(blocks, target->processor->shared_bytes / c->shared);
  out->blocks = blocks;
  out->waves = blocks * waves;
  out->is_known = true;
}

static void (*const rows[KILN_FAMILY_COUNT])(const kiln_target *, const kiln_cost *, kiln_occupancy *) = {
    [KILN_FAMILY_NVPTX] = occupancy_nvptx, [KILN_FAMILY_AMDGPU] = occupancy_amdgpu};

kiln_occupancy kiln_target_occupancy(const kiln_target *target, const kiln_cost *cost) {
  kiln_occupancy out = {0};
  if (rows[target->processor->family]) rows[target->processor->family](target, cost, &out);
  return out;
}
