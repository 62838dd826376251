// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reference interpreter: shapes, reductions, scans, dot, sort, gather.
#include "compiler/interpreter/interpreter_inner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "compiler/ir/scalar.h"

// ------------------------------------------------------------------------------------------ shapes

static kiln_status run_splat(machine *m, const ir_op *op) {
  uint64_t value = operand_place(m, op, 0)[0], *out = result_place(m, op, 0);
  for (size_t i = 0; i < element_count(op->results[0].type); i++) out[i] = value;
  return KILN_OK;
}

/// expand, reshape: the order of elements stays.
static kiln_status run_same_order(machine *m, const ir_op *op) {
  memcpy(result_place(m, op, 0), operand_place(m, op, 0),
         element_count(op->results[0].type) * sizeof(uint64_t));
  return KILN_OK;
}

/// Coordinates of element `index`.
static void coordinates(ir_type type, size_t index, size_t out[IR_MAX_RANK]) {
  for (unsigned i = type.rank; i-- > 0;) {
    out[i] = index & (((size_t)1 << type.log2[i]) - 1);
    index >>= type.log2[i];
  }
}

static size_t index_of(ir_type type, const size_t coordinate[IR_MAX_RANK]) {
  size_t index = 0;
  for (unsigned i = 0; i < type.rank; i++) index = index << type.log2[i] | coordinate[i];
  return index;
}

static kiln_status run_broadcast(machine *m, const ir_op *op) {
  const uint64_t *in = operand_place(m, op, 0);
  uint64_t *out = result_place(m, op, 0);
  ir_type from = op->operands[0]->type, to = op->results[0].type;
  size_t at[IR_MAX_RANK];
  for (size_t i = 0; i < element_count(to); i++) {
    coordinates(to, i, at);
    for (unsigned k = 0; k < from.rank; k++)
      if (!from.log2[k]) at[k] = 0;
    out[i] = in[index_of(from, at)];
  }
  return KILN_OK;
}

static kiln_status run_trans(machine *m, const ir_op *op) {
  const uint64_t *in = operand_place(m, op, 0);
  uint64_t *out = result_place(m, op, 0);
  ir_type from = op->operands[0]->type, to = op->results[0].type;
  size_t at[IR_MAX_RANK], source[IR_MAX_RANK];
  for (size_t i = 0; i < element_count(to); i++) {
    coordinates(to, i, at);
    for (unsigned k = 0; k < to.rank; k++) source[op->attrs.perm[k]] = at[k];
    out[i] = in[index_of(from, source)];
  }
  return KILN_OK;
}

static kiln_status run_join(machine *m, const ir_op *op) {
  const uint64_t *a = operand_place(m, op, 0), *b = operand_place(m, op, 1);
  uint64_t *out = result_place(m, op, 0);
  for (size_t i = 0; i < element_count(op->operands[0]->type); i++) {
    out[2 * i] = a[i];
    out[2 * i + 1] = b[i];
  }
  return KILN_OK;
}

static kiln_status run_split(machine *m, const ir_op *op) {
  const uint64_t *in = operand_place(m, op, 0);
  uint64_t *a = result_place(m, op, 0), *b = result_place(m, op, 1);
  for (size_t i = 0; i < element_count(op->results[0].type); i++) {
    a[i] = in[2 * i];
    b[i] = in[2 * i + 1];
  }
  return KILN_OK;
}

// -------------------------------------------------------------------------------- across the lanes

/// An element that a reduction or scan takes or gives.
static uint64_t passed(const machine *m, const ir_op *op, kiln_scalar scalar, uint64_t bits) {
  return m->kernel->fp_flush && kiln_scalar_flushes(op) ? kiln_scalar_flush(scalar, bits) : bits;
}

/// Combines what stands at element `from` of each operand into `total`, one scalar an operand: total =
/// combine(total, from).
static kiln_status combine(machine *m, const ir_op *op, uint64_t *const *operands, size_t from,
                           uint64_t *total) {
  uint32_t n = op->operand_count;
  if (!op->region_count) {
    kiln_scalar scalar = op->operands[0]->type.scalar;
    uint64_t sum = kiln_scalar_combine(op->attrs.kind, scalar, op->attrs.flags, total[0],
                                       passed(m, op, scalar, operands[0][from]));
    total[0] = passed(m, op, scalar, sum);
    return KILN_OK;
  }
  const ir_block *region = op->regions[0];
  for (uint32_t i = 0; i < n; i++) {
    machine_place(m, region->args[i])[0] = total[i];
    machine_place(m, region->args[n + i])[0] = operands[i][from];
  }
  KILN_TRY(machine_run(m, region));
  for (uint32_t i = 0; i < n; i++) total[i] = machine_place(m, ir_combiner_end(op)->operands[i])[0];
  return KILN_OK;
}

/// A row along the axis: element k is at `first + k * step`.
typedef struct row {
  size_t first, step, count;
} row;

static row row_at(const ir_op *op, size_t index) {
  ir_type type = op->operands[0]->type;
  unsigned axis = op->attrs.axis, inner = 0;
  for (unsigned i = axis + 1; i < type.rank; i++) inner += type.log2[i];
  size_t low = index & (((size_t)1 << inner) - 1), high = index >> inner;
  return (row){high << (inner + type.log2[axis]) | low, (size_t)1 << inner, (size_t)1 << type.log2[axis]};
}

static size_t row_count(const ir_op *op) {
  ir_type type = op->operands[0]->type;
  return element_count(type) >> type.log2[op->attrs.axis];
}

static kiln_status run_reduce(machine *m, const ir_op *op) {
  uint64_t *operands[IR_MAX_RESULTS], total[IR_MAX_RESULTS];
  for (uint32_t i = 0; i < op->operand_count; i++) operands[i] = operand_place(m, op, i);
  for (size_t r = 0; r < row_count(op); r++) {
    row line = row_at(op, r);
    for (uint32_t i = 0; i < op->operand_count; i++)
      total[i] = passed(m, op, op->operands[i]->type.scalar, operands[i][line.first]);
    for (size_t k = 1; k < line.count; k++)
      KILN_TRY(combine(m, op, operands, line.first + k * line.step, total));
    for (uint32_t i = 0; i < op->operand_count; i++) result_place(m, op, i)[r] = total[i];
  }
  return KILN_OK;
}

/// Inclusive; reverse runs from the last element, which is then the earliest one that the combiner sees.
static kiln_status run_scan(machine *m, const ir_op *op) {
  uint64_t *operands[IR_MAX_RESULTS], total[IR_MAX_RESULTS];
  bool reverse = op->attrs.flags & IR_REVERSE;
  KILN_ASSERT(op->operand_count > 0);
  for (uint32_t i = 0; i < op->operand_count; i++) operands[i] = operand_place(m, op, i);
  for (size_t r = 0; r < row_count(op); r++) {
    row line = row_at(op, r);
    for (size_t k = 0; k < line.count; k++) {
      size_t at = line.first + (reverse ? line.count - 1 - k : k) * line.step;
      for (uint32_t i = 0; k == 0 && i < op->operand_count; i++)
        total[i] = passed(m, op, op->operands[i]->type.scalar, operands[i][at]);
      if (k > 0) KILN_TRY(combine(m, op, operands, at, total));
      for (uint32_t i = 0; i < op->operand_count; i++) result_place(m, op, i)[at] = total[i];
    }
  }
  return KILN_OK;
}

// --------------------------------------------------------------------------------------------- dot

static uint64_t multiply_add(kiln_scalar left, uint64_t a, kiln_scalar right, uint64_t b, kiln_scalar sum,
                             uint64_t c) {
  if (sum == KILN_I32)
    return kiln_scalar_mask(c + (uint64_t)(kiln_scalar_signed(a, 8) * kiln_scalar_signed(b, 8)), 32);
  double x = ir_bits_to_float(left, a), y = ir_bits_to_float(right, b), z = ir_bits_to_float(sum, c);
  return sum == KILN_F64 ? ir_float_to_bits(sum, fma(x, y, z), false)
                         : ir_float_to_bits(sum, fmaf((float)x, (float)y, (float)z), false);
}

/// Products are added to the accumulator in order of k, each with one rounding.
static kiln_status run_dot(machine *m, const ir_op *op) {
  const uint64_t *a = operand_place(m, op, 0), *b = operand_place(m, op, 1), *c = operand_place(m, op, 2);
  uint64_t *out = result_place(m, op, 0);
  ir_type left = op->operands[0]->type, right = op->operands[1]->type, type = op->results[0].type;
  unsigned r = type.rank;
  size_t rows = (size_t)1 << type.log2[r - 2], columns = (size_t)1 << type.log2[r - 1],
         depth = (size_t)1 << left.log2[r - 1];
  size_t batches = r == 3 ? (size_t)1 << type.log2[0] : 1;
  for (size_t n = 0; n < batches; n++)
    for (size_t i = 0; i < rows; i++)
      for (size_t j = 0; j < columns; j++) {
        size_t at = (n * rows + i) * columns + j;
        uint64_t sum = c[at];
        for (size_t k = 0; k < depth; k++)
          sum = multiply_add(left.scalar, a[(n * rows + i) * depth + k], right.scalar,
                             b[(n * depth + k) * columns + j], type.scalar, sum);
        out[at] = sum;
      }
  return KILN_OK;
}

// --------------------------------------------------------------------------------- orders and indices

static int compare_signed(const void *a, const void *b) {
  int64_t x, y;
  memcpy(&x, a, sizeof x);
  memcpy(&y, b, sizeof y);
  return (x > y) - (x < y);
}

static kiln_status run_sort(machine *m, const ir_op *op) {
  const uint64_t *in = operand_place(m, op, 0);
  uint64_t *out = result_place(m, op, 0);
  ir_type from = op->operands[0]->type, to = op->results[0].type;
  size_t length = (size_t)1 << from.log2[from.rank - 1], kept = (size_t)1 << to.log2[to.rank - 1];
  int64_t *line = malloc(length * sizeof *line);
  if (!line) return kiln_fail(m->err, KILN_STATUS_OUT_OF_MEMORY, "no memory to sort");
  for (size_t r = 0; r < element_count(from) / length; r++) {
    for (size_t k = 0; k < length; k++) line[k] = kiln_scalar_signed(in[r * length + k], ir_type_bits(from));
    qsort(line, length, sizeof *line, compare_signed);
    for (size_t k = 0; k < kept; k++)
      out[r * kept + k] = kiln_scalar_mask((uint64_t)line[k], ir_type_bits(from));
  }
  free(line);
  return KILN_OK;
}

static kiln_status run_gather(machine *m, const ir_op *op) {
  const uint64_t *in = operand_place(m, op, 0), *index = operand_place(m, op, 1);
  uint64_t *out = result_place(m, op, 0);
  ir_type from = op->operands[0]->type, to = op->results[0].type;
  unsigned axis = op->attrs.axis;
  size_t at[IR_MAX_RANK];
  for (size_t i = 0; i < element_count(to); i++) {
    coordinates(to, i, at);
    at[axis] = index[i] & (((size_t)1 << from.log2[axis]) - 1);
    out[i] = in[index_of(from, at)];
  }
  return KILN_OK;
}

execute *interpreter_tile_operation(ir_opcode code) {
  static execute *const operations[IR_OPCODE_COUNT] = {
      [IR_SPLAT] = run_splat,        [IR_EXPAND] = run_same_order,
      [IR_RESHAPE] = run_same_order, [IR_BROADCAST] = run_broadcast,
      [IR_TRANS] = run_trans,        [IR_JOIN] = run_join,
      [IR_SPLIT] = run_split,        [IR_REDUCE] = run_reduce,
      [IR_SCAN] = run_scan,          [IR_DOT] = run_dot,
      [IR_SORT] = run_sort,          [IR_GATHER] = run_gather,
  };
  return operations[code];
}
