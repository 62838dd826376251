// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reference interpreter. Every access to memory is checked against the ranges of the options before it is made.
#include "compiler/interpreter/interpreter_inner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/float_state.h"
#include "base/printed.h"
#include "compiler/ir/scalar.h"

uint64_t *machine_place(machine *m, const ir_value *v) {
  uint64_t **place = &m->places[v->id];
  if (!*place) *place = KILN_NEW_ARRAY(m->arena, uint64_t, element_count(v->type));
  return *place;
}

void machine_copy(machine *m, ir_value *const *from, ir_value *const *to, uint32_t count) {
  uint64_t *copies[IR_MAX_RESULTS];
  kiln_arena *scratch = kiln_arena_create();
  for (uint32_t i = 0; i < count; i++)
    copies[i] =
        kiln_arena_copy(scratch, machine_place(m, from[i]), element_count(from[i]->type) * sizeof(uint64_t));
  for (uint32_t i = 0; i < count; i++)
    memcpy(machine_place(m, to[i]), copies[i], element_count(to[i]->type) * sizeof(uint64_t));
  kiln_arena_destroy(scratch);
}

// ---------------------------------------------------------------------------------------------- memory

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

static kiln_status run_scatter(machine *m, const ir_op *op) {
  const uint64_t *into = operand_place(m, op, 0), *index = operand_place(m, op, 1),
                 *values = operand_place(m, op, 2);
  uint64_t *out = result_place(m, op, 0);
  ir_type type = op->results[0].type;
  const int64_t count = (int64_t)element_count(type);
  memcpy(out, into, (size_t)count * sizeof *out);
  for (size_t i = 0; i < element_count(op->operands[1]->type); i++) {
    int64_t at = kiln_scalar_signed(index[i], 32);
    if (at >= 0 && at < count) out[at] = kiln_scalar_mask(out[at] + values[i], ir_type_bits(type));
  }
  return KILN_OK;
}

// ------------------------------------------------------------------------------------ control flow

/// Pointers to the results, as machine_copy wants them.
static void result_list(const ir_op *op, ir_value **out) {
  for (uint32_t i = 0; i < op->result_count; i++) out[i] = &op->results[i];
}

static int64_t integer(machine *m, const ir_value *v) {
  return kiln_scalar_signed(machine_place(m, v)[0], ir_type_bits(v->type));
}

static kiln_status run_for(machine *m, const ir_op *op) {
  ir_value *counter = ir_for_counter(op), **args = ir_loop_args(op), **next = ir_loop_next(op)->operands;
  int64_t lo = integer(m, ir_for_lower(op)), hi = integer(m, ir_for_upper(op)),
          step = integer(m, ir_for_step(op));
  ir_value *results[IR_MAX_RESULTS];
  result_list(op, results);
  if (step <= 0)
    return kiln_fail_at(m->err, KILN_STATUS_LAUNCH, ir_operation(op),
                        "operation %u (for): expected a step above 0, found %lld", ir_operation(op),
                        (long long)step);
  machine_copy(m, ir_loop_initials(op), args, op->result_count);
  bool more = lo < hi;
  for (int64_t i = lo; more;) {
    machine_place(m, counter)[0] = kiln_scalar_mask((uint64_t)i, ir_type_bits(counter->type));
    KILN_TRY(machine_run(m, ir_loop_body(op)));
    machine_copy(m, next, args, op->result_count);
    more = !__builtin_add_overflow(i, step, &i) && i < hi;
  }
  machine_copy(m, args, results, op->result_count);
  return KILN_OK;
}

static kiln_status run_while(machine *m, const ir_op *op) {
  const ir_block *test = op->regions[0], *body = ir_loop_body(op);
  const ir_op *cond = ir_while_test(op);
  ir_value *results[IR_MAX_RESULTS];
  result_list(op, results);
  machine_copy(m, ir_loop_initials(op), ir_loop_args(op), ir_carried_count(op));
  for (;;) {
    KILN_TRY(machine_run(m, test));
    if (!(machine_place(m, ir_cond_condition(cond))[0] & 1)) break;
    machine_copy(m, ir_cond_passed(cond), body->args, op->result_count);
    KILN_TRY(machine_run(m, body));
    machine_copy(m, ir_loop_next(op)->operands, ir_loop_args(op), ir_carried_count(op));
  }
  machine_copy(m, ir_cond_passed(cond), results, op->result_count);
  return KILN_OK;
}

static kiln_status run_if(machine *m, const ir_op *op) {
  const ir_block *block = op->regions[machine_place(m, ir_if_condition(op))[0] & 1 ? 0 : 1];
  ir_value *results[IR_MAX_RESULTS];
  result_list(op, results);
  KILN_TRY(machine_run(m, block));
  machine_copy(m, ir_terminator(block)->operands, results, op->result_count);
  return KILN_OK;
}

// -------------------------------------------------------------------------------- small operations

static kiln_status run_pid(machine *m, const ir_op *op) {
  result_place(m, op, 0)[0] = m->program[op->attrs.axis];
  return KILN_OK;
}

static kiln_status run_npid(machine *m, const ir_op *op) {
  result_place(m, op, 0)[0] = m->grid[op->attrs.axis];
  return KILN_OK;
}

static kiln_status run_const(machine *m, const ir_op *op) {
  result_place(m, op, 0)[0] = op->attrs.bits;
  return KILN_OK;
}

static kiln_status run_iota(machine *m, const ir_op *op) {
  uint64_t *out = result_place(m, op, 0);
  for (size_t i = 0; i < element_count(op->results[0].type); i++) out[i] = i;
  return KILN_OK;
}

static kiln_status run_nothing(machine *m, const ir_op *op) {
  (void)m;
  (void)op;
  return KILN_OK;
}

static kiln_status run_print(machine *m, const ir_op *op) {
  const ir_print_line *print = &op->attrs.print;
  const ir_value *v = ir_printed(op);
  const ir_type type = v ? v->type : (ir_type){0};
  const uint64_t *values = v ? machine_place(m, v) : NULL;
  kiln_printed what = {.has_value = values != NULL,
                       .scalar = type.pointer ? KILN_I64 : type.scalar,
                       .is_pointer = type.pointer != 0,
                       .is_unsigned = op->attrs.flags & IR_UNSIGNED,
                       .digits = print->digits,
                       .rank = type.rank};
  memcpy(what.log2, type.log2, type.rank);
  const size_t count = element_count(type), bytes = values ? kiln_scalars[what.scalar].bytes : 0;
  uint8_t *elements = malloc(count * bytes + 1);
  if (!elements) return kiln_fail(m->err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  for (size_t i = 0; values && i < count; i++) memcpy(elements + i * bytes, &values[i], bytes);
  kiln_print_lines(&what, print->text ? print->text : "", m->program, elements);
  free(elements);
  return KILN_OK;
}

/// assume and assert: every element has to be true.
static kiln_status run_claim(machine *m, const ir_op *op) {
  const uint64_t *claim = operand_place(m, op, 0);
  for (size_t i = 0; i < element_count(op->operands[0]->type); i++)
    if (!(claim[i] & 1))
      return kiln_fail_at(
          m->err, KILN_STATUS_ASSERT, ir_operation(op),
          "operation %u (%s): expected true, found false at element %zu in program (%u, %u, %u)%s%s",
          ir_operation(op), ir_ops[op->code].text, i, m->program[0], m->program[1], m->program[2],
          op->attrs.assertion.text ? ": " : "", op->attrs.assertion.text ? op->attrs.assertion.text : "");
  return KILN_OK;
}

static kiln_status run_asm(machine *m, const ir_op *op) {
  return kiln_fail_at(m->err, KILN_STATUS_UNSUPPORTED, ir_operation(op),
                      "operation %u (asm): the interpreter has no assembler", ir_operation(op));
}

static kiln_status run_elementwise(machine *m, const ir_op *op) {
  const uint64_t *operands[3];
  bool spread[3];
  size_t count = element_count(op->results[0].type);
  for (uint32_t i = 0; i < op->operand_count; i++) {
    operands[i] = operand_place(m, op, i);
    spread[i] = element_count(op->operands[i]->type) == 1;
  }
  uint64_t *out = result_place(m, op, 0),
           (*eval)(const ir_op *, const uint64_t *) =
               m->kernel->fp_flush ? kiln_scalar_eval_flushed : kiln_scalar_eval;
  for (size_t k = 0; k < count; k++) {
    uint64_t bits[3] = {0, 0, 0};
    for (uint32_t i = 0; i < op->operand_count; i++) bits[i] = operands[i][spread[i] ? 0 : k];
    out[k] = eval(op, bits);
  }
  return KILN_OK;
}

/// All but elementwise operations, whose elements go through compiler/ir/scalar.c.
static execute *const executors[IR_OPCODE_COUNT] = {
    [IR_PID] = run_pid,
    [IR_NPID] = run_npid,
    [IR_CONST] = run_const,
    [IR_IOTA] = run_iota,
    [IR_SPLAT] = run_splat,
    [IR_EXPAND] = run_same_order,
    [IR_RESHAPE] = run_same_order,
    [IR_BROADCAST] = run_broadcast,
    [IR_TRANS] = run_trans,
    [IR_JOIN] = run_join,
    [IR_SPLIT] = run_split,
    [IR_REDUCE] = run_reduce,
    [IR_SCAN] = run_scan,
    [IR_DOT] = run_dot,
    [IR_SORT] = run_sort,
    [IR_GATHER] = run_gather,
    [IR_SCATTER] = run_scatter,
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
    [IR_FOR] = run_for,
    [IR_WHILE] = run_while,
    [IR_IF] = run_if,
    [IR_YIELD] = run_nothing,
    [IR_COND] = run_nothing,
    [IR_BARRIER] = run_nothing,
    [IR_ASSUME] = run_claim,
    [IR_ASSERT] = run_claim,
    [IR_PRINT] = run_print,
    [IR_ASM] = run_asm,
};

execute *machine_executor(ir_opcode code) {
  return kiln_scalar_knows(code) ? run_elementwise : executors[code];
}

kiln_status machine_run(machine *m, const ir_block *block) {
  for (const ir_op *op = block->first; op; op = op->next) {
    if (m->options->max_steps && ++m->steps > m->options->max_steps)
      return kiln_fail(m->err, KILN_STATUS_TIMEOUT, "expected at most %llu operations, found more",
                       (unsigned long long)m->options->max_steps);
    KILN_TRY(machine_executor(op->code)(m, op));
    for (uint32_t i = 0; m->options->observe && i < op->result_count; i++)
      m->options->observe(m->options->context, &op->results[i], result_place(m, op, i));
  }
  return KILN_OK;
}

// ------------------------------------------------------------------------------------------- whole

static size_t aligned(size_t offset, size_t alignment) { return (offset + alignment - 1) & ~(alignment - 1); }

/// Parameters out of the packed block of base/record.h.
static void read_arguments(machine *m, const uint8_t *args) {
  size_t offset = 0;
  for (uint32_t i = 0; i < m->kernel->param_count; i++) {
    ir_type type = m->kernel->params[i].type;
    uint64_t *place = machine_place(m, m->kernel->body->args[i]);
    size_t size = type.pointer || type.is_view ? 8 : kiln_scalars[type.scalar].bytes,
           count = element_count(type);
    offset = aligned(offset, size);
    for (size_t k = 0; k < count; k++, offset += size) memcpy(&place[k], args + offset, size);
    if (!type.pointer && !type.is_view && type.scalar == KILN_I1) place[0] = place[0] != 0;
  }
}

static kiln_status interpret(ir_kernel *kernel, const void *args, const uint32_t grid[3],
                             const kiln_interpret_options *options, kiln_error *err) {
  static const kiln_interpret_options defaults;
  machine m = {
      .kernel = kernel, .arena = kiln_arena_create(), .options = options ? options : &defaults, .err = err};
  kiln_status status = KILN_OK;
  m.places = KILN_NEW_ARRAY(m.arena, uint64_t *, ir_number(kernel) + 1u);
  memcpy(m.grid, grid, sizeof m.grid);
  read_arguments(&m, args);
  for (m.program[2] = 0; status == KILN_OK && m.program[2] < grid[2]; m.program[2]++)
    for (m.program[1] = 0; status == KILN_OK && m.program[1] < grid[1]; m.program[1]++)
      for (m.program[0] = 0; status == KILN_OK && m.program[0] < grid[0]; m.program[0]++)
        status = machine_run(&m, kernel->body);
  kiln_arena_destroy(m.arena);
  return status;
}

kiln_status kiln_interpret(ir_kernel *kernel, const void *args, const uint32_t grid[3],
                           const kiln_interpret_options *options, kiln_error *err) {
  kiln_float_all was = kiln_float_enter_all();
  kiln_status status = interpret(kernel, args, grid, options, err);
  kiln_float_leave_all(&was);
  return status;
}
