// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reference interpreter: memory. Every access is checked against the ranges of the options before it is
// made.
#include "compiler/interpreter/interpreter_inner.h"

#include <string.h>

#include "compiler/ir/scalar.h"

static size_t bytes_of(ir_type element) { return element.pointer ? 8 : kiln_scalars[element.scalar].bytes; }

static kiln_status check_access(machine *m, const ir_op *op, uint64_t address, size_t size) {
  if (!m->options->range_count) return KILN_OK;
  for (size_t i = 0; i < m->options->range_count; i++) {
    const kiln_memory_range *range = &m->options->ranges[i];
    uint64_t begin = (uintptr_t)range->begin;
    if (address >= begin && size <= range->size && address - begin <= range->size - size) return KILN_OK;
  }
  return kiln_fail_at(
      m->err, KILN_STATUS_LAUNCH, ir_operation(op),
      "operation %u (%s): access of %zu bytes at 0x%llx is outside all buffers, in program (%u, %u, %u)",
      ir_operation(op), ir_ops[op->code].text, size, (unsigned long long)address, m->program[0],
      m->program[1], m->program[2]);
}

static kiln_status read_element(machine *m, const ir_op *op, ir_type element, uint64_t address,
                                uint64_t *out) {
  *out = 0;
  KILN_TRY(check_access(m, op, address, bytes_of(element)));
  memcpy(out, (const void *)(uintptr_t)address, bytes_of(element));
  if (!element.pointer && element.scalar == KILN_I1) *out = *out != 0;
  return KILN_OK;
}

static kiln_status write_element(machine *m, const ir_op *op, ir_type element, uint64_t address,
                                 uint64_t bits) {
  KILN_TRY(check_access(m, op, address, bytes_of(element)));
  memcpy((void *)(uintptr_t)address, &bits, bytes_of(element));
  return KILN_OK;
}

static kiln_status update_element(machine *m, const ir_op *op, ir_type element, uint64_t address,
                                  uint64_t operand, uint64_t *old) {
  KILN_TRY(read_element(m, op, element, address, old));
  return write_element(m, op, element, address,
                       kiln_scalar_combine(op->attrs.kind, element.scalar, op->attrs.flags, *old, operand));
}

// ---------------------------------------------------------------------------------------- pointers

static kiln_status run_ptradd(machine *m, const ir_op *op) {
  const uint64_t *pointer = operand_place(m, op, 0), *offset = operand_place(m, op, 1);
  uint64_t *out = result_place(m, op, 0), scale = bytes_of(ir_element(ir_pointee(op->results[0].type)));
  unsigned width = ir_type_bits(op->operands[1]->type);
  for (size_t i = 0; i < element_count(op->results[0].type); i++)
    out[i] = pointer[i] + (uint64_t)kiln_scalar_signed(offset[i], width) * scale;
  return KILN_OK;
}

/// The mask operand at `i`, or NULL when all lanes are on.
static const uint64_t *mask_at(machine *m, const ir_op *op, uint32_t i) {
  return op->operand_count > i ? operand_place(m, op, i) : NULL;
}

static kiln_status run_load(machine *m, const ir_op *op) {
  const uint64_t *pointer = operand_place(m, op, 0), *mask = mask_at(m, op, 1), *other = mask_at(m, op, 2);
  uint64_t *out = result_place(m, op, 0);
  ir_type element = ir_element(op->results[0].type);
  for (size_t i = 0; i < element_count(op->results[0].type); i++) {
    if (mask && !(mask[i] & 1)) out[i] = other ? other[i] : 0;
    else KILN_TRY(read_element(m, op, element, pointer[i], &out[i]));
  }
  return KILN_OK;
}

static kiln_status run_store(machine *m, const ir_op *op) {
  const uint64_t *pointer = operand_place(m, op, 0), *value = operand_place(m, op, 1),
                 *mask = mask_at(m, op, 2);
  ir_type type = op->operands[1]->type;
  for (size_t i = 0; i < element_count(type); i++)
    if (!mask || (mask[i] & 1)) KILN_TRY(write_element(m, op, ir_element(type), pointer[i], value[i]));
  return KILN_OK;
}

static kiln_status run_atomic(machine *m, const ir_op *op) {
  const uint64_t *pointer = operand_place(m, op, 0), *value = operand_place(m, op, 1),
                 *mask = mask_at(m, op, 2);
  uint64_t *out = result_place(m, op, 0);
  ir_type type = op->operands[1]->type;
  for (size_t i = 0; i < element_count(type); i++) {
    out[i] = 0;
    if (!mask || (mask[i] & 1))
      KILN_TRY(update_element(m, op, ir_element(type), pointer[i], value[i], &out[i]));
  }
  return KILN_OK;
}

static kiln_status run_cas(machine *m, const ir_op *op) {
  const uint64_t *pointer = operand_place(m, op, 0), *expected = operand_place(m, op, 1),
                 *desired = operand_place(m, op, 2);
  uint64_t *out = result_place(m, op, 0);
  ir_type type = op->operands[1]->type;
  for (size_t i = 0; i < element_count(type); i++) {
    KILN_TRY(read_element(m, op, ir_element(type), pointer[i], &out[i]));
    if (out[i] == expected[i]) KILN_TRY(write_element(m, op, ir_element(type), pointer[i], desired[i]));
  }
  return KILN_OK;
}

// ------------------------------------------------------------------------------------------- views

static kiln_status run_view(machine *m, const ir_op *op) {
  uint64_t *out = result_place(m, op, 0);
  for (uint32_t i = 0; i < op->operand_count; i++) out[i] = operand_place(m, op, i)[0];
  return KILN_OK;
}

/// One of base, extents and strides.
static kiln_status run_view_part(machine *m, const ir_op *op) {
  result_place(m, op, 0)[0] = operand_place(m, op, 0)[ir_view_part(op)];
  return KILN_OK;
}

/// Address of element `lane` of an access; false when it is out of range.
static bool view_address(machine *m, const ir_op *op, size_t lane, uint64_t *address) {
  ir_type type = op->operands[0]->type;
  const uint64_t *view = operand_place(m, op, 0);
  bool inside = true;
  *address = view[0];
  for (unsigned i = type.rank; i-- > 0;) {
    unsigned log2 = type.log2[i] == IR_DROPPED ? 0 : type.log2[i];
    size_t place = lane & (((size_t)1 << log2) - 1);
    int64_t at = (int64_t)(operand_place(m, op, 1 + i)[0] + place);
    lane >>= log2;
    inside &= at >= 0 && at < (int64_t)view[1 + i] && place < (size_t)ir_view_count(op, i);
    *address += (uint64_t)at * view[1 + type.rank + i] * bytes_of(ir_scalar_type(type.scalar));
  }
  return inside;
}

static kiln_status run_view_load(machine *m, const ir_op *op) {
  uint64_t *out = result_place(m, op, 0), address;
  uint64_t other = op->attrs.access.has_other ? operand_place(m, op, op->operand_count - 1)[0] : 0;
  for (size_t i = 0; i < element_count(op->results[0].type); i++) {
    if (view_address(m, op, i, &address))
      KILN_TRY(read_element(m, op, ir_element(op->results[0].type), address, &out[i]));
    else out[i] = other;
  }
  return KILN_OK;
}

static kiln_status run_view_write(machine *m, const ir_op *op) {
  const ir_value *value = op->operands[op->operand_count - 1];
  const uint64_t *bits = machine_place(m, value);
  uint64_t address, old;
  for (size_t i = 0; i < element_count(value->type); i++) {
    if (!view_address(m, op, i, &address)) continue;
    if (op->code == IR_VIEW_STORE) KILN_TRY(write_element(m, op, ir_element(value->type), address, bits[i]));
    else KILN_TRY(update_element(m, op, ir_element(value->type), address, bits[i], &old));
  }
  return KILN_OK;
}

execute *interpreter_memory_operation(ir_opcode code) {
  static execute *const operations[IR_OPCODE_COUNT] = {
      [IR_PTRADD] = run_ptradd,
      [IR_LOAD] = run_load,
      [IR_STORE] = run_store,
      [IR_ATOMIC] = run_atomic,
      [IR_CAS] = run_cas,
      [IR_VIEW] = run_view,
      [IR_DIM] = run_view_part,
      [IR_VIEW_BASE] = run_view_part,
      [IR_VIEW_STRIDE] = run_view_part,
      [IR_VIEW_LOAD] = run_view_load,
      [IR_VIEW_STORE] = run_view_write,
      [IR_VIEW_ATOMIC] = run_view_write,
  };
  return operations[code];
}
