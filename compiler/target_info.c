// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Looks things up in the tables of the families.
#include "compiler/target_info.h"

#include <string.h>

#include "base/check.h"

static const kiln_target_info *const families[KILN_FAMILY_COUNT] = {[KILN_FAMILY_HOST] = &kiln_host_info,
                                                                    [KILN_FAMILY_NVPTX] = &kiln_nvptx_info,
                                                                    [KILN_FAMILY_AMDGPU] = &kiln_amdgpu_info};

const kiln_target_info *kiln_target_info_of(kiln_family family) {
  KILN_ASSERT((unsigned)family < KILN_FAMILY_COUNT && families[family]);
  return families[family];
}

const kiln_matrix_unit *kiln_matrix_unit_of(const kiln_target *target) {
  static const kiln_matrix_unit none = {KILN_MATRIX_NONE};
  const kiln_target_info *info = kiln_target_info_of(target->processor->family);
  for (size_t i = 0; i < info->unit_count; i++)
    if (info->units[i].matrix == target->processor->matrix) return &info->units[i];
  return &none;
}

// ------------------------------------------------------------------------------- special registers

bool kiln_has_special_register(const kiln_target *target, const kiln_special_register *row) {
  const kiln_processor *p = target->processor;
  if (row->arch) return !strcmp(row->arch, kiln_host_processor_of(p)->arch);
  return p->major >= row->first && p->major <= row->last && (!row->matrix || row->matrix == p->matrix);
}

const kiln_special_register *kiln_special_register_of(const kiln_target *target, ptx_special special) {
  const kiln_target_info *info = kiln_target_info_of(target->processor->family);
  for (size_t i = 0; i < info->register_count; i++)
    if (info->registers[i].special == special && kiln_has_special_register(target, &info->registers[i]))
      return &info->registers[i];
  return NULL;
}

// ------------------------------------------------------------------------ products from registers

const kiln_matrix_form *kiln_matrix_form_of(kiln_matrix matrix, unsigned lanes, const ir_op *dot,
                                            kiln_report_reason *out_why) {
  const ir_type a = dot->operands[0]->type, b = dot->operands[1]->type;
  const unsigned m = a.log2[a.rank - 2], n = b.log2[b.rank - 1], k = a.log2[a.rank - 1];
  const kiln_matrix_form *found = NULL;
  kiln_report_reason why = KILN_REASON_TYPES;
  for (unsigned family = 1; family < KILN_FAMILY_COUNT; family++)
    for (size_t i = 0; i < families[family]->form_count && !found; i++) {
      const kiln_matrix_form *f = &families[family]->forms[i];
      const bool has_types = f->units >> matrix & 1 && f->lanes == 1u << lanes && f->from_left == a.scalar &&
                             f->from_right == b.scalar;
      const bool is_exact = a.scalar != KILN_F32 || f->precision == dot->attrs.precision;
      if (!has_types) continue;
      if (is_exact && f->m <= m && f->n <= n && f->k <= k && f->least <= m + n) found = f;
      else if (is_exact) why = KILN_REASON_SMALL;
      else if (why == KILN_REASON_TYPES) why = KILN_REASON_EXACT;
    }
  if (found) why = found->emission == KILN_EMIT_FMA ? KILN_REASON_EXACT : KILN_REASON_NONE;
  if (out_why) *out_why = why;
  return found;
}

// -------------------------------------------------------------------- products from shared memory

const kiln_matrix_machine *kiln_matrix_machine_of(const kiln_target *target) {
  return kiln_matrix_unit_of(target)->shared;
}

enum { STEP = 8 }; // of setmaxnreg, and of what threads start with

unsigned kiln_start_registers(const kiln_matrix_machine *m, unsigned groups, unsigned blocks) {
  return m->registers / (blocks * (groups + 1) * m->group_warps * 32u) / STEP * STEP;
}

unsigned kiln_consumer_registers(const kiln_matrix_machine *m, unsigned groups, unsigned blocks) {
  unsigned room = kiln_start_registers(m, groups, blocks) * (groups + 1); // setmaxnreg gives no more
  unsigned left = (room - m->producer_registers) / groups / STEP * STEP;
  return left < m->most_thread_registers ? left : m->most_thread_registers;
}

unsigned kiln_blocks_within(const kiln_matrix_machine *m, const kiln_target *target, uint32_t bytes) {
  return (target->processor->shared_bytes + m->block_reserve) / (bytes + m->block_reserve);
}

// ------------------------------------------------------------------- loads ahead of their products

unsigned kiln_target_lanes(const kiln_target *target) {
  enum { WIDE_WAVE = 64 };
  return target->wave == WIDE_WAVE ? 6 : 5;
}

kiln_fetch_machine kiln_fetch_machine_of(const kiln_target *target) {
  enum { BLOCK_THREADS = 1024, SIMDS = 4 };
  const kiln_processor *p = target->processor;
  const kiln_matrix_unit *unit = kiln_matrix_unit_of(target);
  const kiln_target_info *info = kiln_target_info_of(p->family);
  kiln_fetch_machine m = {.lanes = (uint8_t)kiln_target_lanes(target),
                          .threads = BLOCK_THREADS,
                          .shared_bytes = p->shared_bytes,
                          .matrix = p->matrix,
                          .has_fetch = unit->has_fetch,
                          .has_buffers = kiln_family_of(p->family)->has_buffers,
                          .resident_shared = p->shared_bytes,
                          .turns = unit->turns,
                          .has_matrix_loads = unit->has_matrix_loads,
                          .shifts_pieces = unit->shifts_pieces,
                          .unit = unit->shared,
                          .dies = unit->dies ? unit->dies : 1,
                          .simds = SIMDS};
  if (info->set_fetch) info->set_fetch(&m, p);
  return m;
}
