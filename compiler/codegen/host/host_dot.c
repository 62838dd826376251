// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix products: operands are packed into scratch memory in the type that is computed in, then a block of
// accumulators in registers runs along K.
#include "compiler/codegen/host/host.h"

#define B h->builder

enum { MAX_ROWS = 8, MAX_COLUMNS = 4 };

typedef struct product {
  unsigned batch, m, n, k;     // log2
  kiln_scalar scalar;          // computed in: f32, f64, i32
  LLVMTypeRef element, vector; // vector is the element itself when a row has one
  unsigned bytes, lanes;
  unsigned rows, columns; // of a register block; columns in vectors
  LLVMValueRef a, b, c;
} product;

// ----------------------------------------------------------------------------------------- packing

static LLVMValueRef convert(host *h, kiln_scalar from, LLVMValueRef x) {
  return from == KILN_I8 ? LLVMBuildSExt(B, x, host_like(h->i32, x), "") : x;
}

/// The index of [.., rows, columns] in terms of that of [.., columns, rows].
static host_map swapped_map(unsigned bits, unsigned rows, unsigned columns) {
  host_map map = host_identity(bits);
  for (unsigned b = 0; b < columns; b++) map.from[b] = (uint8_t)(rows + b);
  for (unsigned b = 0; b < rows; b++) map.from[columns + b] = (uint8_t)b;
  return map;
}

static unsigned vector_log2(const host *h, unsigned limit) {
  unsigned log2 = 0;
  while ((4u << (log2 + 1)) <= h->vector_bytes && log2 < limit) log2++;
  return log2;
}

/// Pulls `v` under `map` in order of the root's index and writes it in that order; `row` bits are the
/// innermost axis.
static host_buffer *pack_in_order(host *h, ir_value *v, kiln_scalar to, const host_map *map, unsigned row) {
  unsigned bits = map->count, log2 = vector_log2(h, bits), split = row > log2 ? row : log2;
  host_buffer *buffer = host_buffer_create(h, ir_with_element(v->type, ir_scalar_type(to)));
  host_map identity = host_identity(bits);
  host_point point;
  host_loop rows, columns;
  host_point_init(h, &point, log2);
  h->point = &point;
  // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): neither a row nor a vector is longer
  host_loop_begin(h, &rows, (uint64_t)1 << (bits - split), 1);
  host_point_digit(&point, rows.counter, split, bits - split);
  host_loop_begin(h, &columns, (uint64_t)1 << (split - log2), 1);
  host_point_digit(&point, columns.counter, log2, split - log2);
  LLVMValueRef x = convert(h, (kiln_scalar)v->type.scalar, host_pull_vector(h, v, map));
  host_buffer_store(h, buffer, &identity, (host_lanes){x, 0, log2 ? HOST_VECTOR : HOST_UNIFORM});
  host_loop_end(h, &columns);
  host_loop_end(h, &rows);
  h->point = NULL;
  return buffer;
}

// Swaps bit by bit of row and column: after step d, rows i and i + d have exchanged their off-diagonal
// squares of d lanes.
static void transpose_registers(host *h, LLVMValueRef *x, unsigned count) {
  uint32_t low[64], high[64];
  for (unsigned d = 1; d < count; d *= 2) {
    for (unsigned l = 0; l < count; l++) {
      low[l] = l & d ? count + l - d : l;
      high[l] = l & d ? count + l : l + d;
    }
    for (unsigned i = 0; i < count; i++) {
      if (i & d) continue;
      LLVMValueRef a = x[i], b = x[i + d];
      x[i] = host_shuffle(h, a, b, low, count);
      x[i + d] = host_shuffle(h, a, b, high, count);
    }
  }
}

/// Writes the transpose of each [rows, columns] matrix of `from`, in squares that registers hold.
static host_buffer *transpose(host *h, const host_buffer *from, ir_type type, unsigned batch, unsigned rows,
                              unsigned columns) {
  unsigned log2 = vector_log2(h, rows < columns ? rows : columns), count = 1u << log2,
           bytes = kiln_scalars[from->scalar].bytes;
  host_buffer *to = host_buffer_create(h, ir_with_element(type, ir_scalar_type(from->scalar)));
  LLVMTypeRef element = h->types[from->scalar], vector = LLVMVectorType(element, count);
  LLVMValueRef x[64];
  host_loop all, down, along;
  host_loop_begin(h, &all, (uint64_t)1 << batch, 1);
  host_loop_begin(h, &down, (uint64_t)1 << rows, count);
  host_loop_begin(h, &along, (uint64_t)1 << columns, count);
  for (unsigned side = 0; side < 2; side++) {
    unsigned inner = side ? rows : columns;
    LLVMValueRef outer_at = side ? along.counter : down.counter,
                 inner_at = side ? down.counter : along.counter;
    LLVMValueRef matrix = LLVMBuildShl(B, all.counter, host_i64(h, rows + columns), "");
    LLVMValueRef at = LLVMBuildAdd(
        B, LLVMBuildAdd(B, matrix, LLVMBuildShl(B, outer_at, host_i64(h, inner), ""), ""), inner_at, "");
    if (side) transpose_registers(h, x, count);
    for (unsigned i = 0; i < count; i++) {
      LLVMValueRef index = LLVMBuildAdd(B, at, host_i64(h, (int64_t)i << inner), "");
      LLVMValueRef p = LLVMBuildInBoundsGEP2(B, element, side ? to->pointer : from->pointer, &index, 1, "");
      LLVMValueRef access = side ? LLVMBuildStore(B, x[i], p) : LLVMBuildLoad2(B, vector, p, "");
      LLVMSetAlignment(access, bytes);
      if (!side) x[i] = access;
    }
  }
  host_loop_end(h, &along);
  host_loop_end(h, &down);
  host_loop_end(h, &all);
  return to;
}

/// The operand as a row-major matrix of `to`.
static LLVMValueRef pack(host *h, ir_value *v, kiln_scalar to) {
  ir_type type = v->type;
  unsigned bits = ir_log2_elements(type), rows = type.log2[type.rank - 2], columns = type.log2[type.rank - 1];
  const host_buffer *kept = host_info(v)->buffer;
  host_map map = host_identity(bits);
  if (kept && kept->scalar == to) return kept->pointer;
  if (rows < 2 || columns < 2 || kept || !host_info(v)->swapped)
    return pack_in_order(h, v, to, &map, columns)->pointer;
  map = swapped_map(bits, rows, columns);
  return transpose(h, pack_in_order(h, v, to, &map, rows), type, bits - rows - columns, columns, rows)
      ->pointer;
}

// ----------------------------------------------------------------------------------------- product

static LLVMValueRef address(host *h, const product *p, LLVMValueRef base, LLVMValueRef index, uint64_t more) {
  LLVMValueRef at = LLVMBuildInBoundsGEP2(B, p->element, base, &index, 1, ""),
               offset = host_i64(h, (int64_t)more);
  return LLVMBuildInBoundsGEP2(B, p->element, at, &offset, 1, "");
}

static LLVMValueRef load(host *h, const product *p, LLVMTypeRef type, LLVMValueRef pointer) {
  LLVMValueRef x = LLVMBuildLoad2(B, type, pointer, "");
  LLVMSetAlignment(x, p->bytes);
  return x;
}

static LLVMValueRef shift(host *h, LLVMValueRef x, unsigned log2) {
  return LLVMBuildShl(B, x, host_i64(h, log2), "");
}

static LLVMValueRef multiply_add(host *h, const product *p, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
  if (p->scalar == KILN_I32) return LLVMBuildAdd(B, LLVMBuildMul(B, a, b, ""), c, "");
  LLVMTypeRef type = LLVMTypeOf(a);
  LLVMValueRef args[3] = {a, b, c};
  if (h->has_fma) return host_intrinsic(h, "llvm.fma", &type, 1, args, 3);
  return LLVMBuildFAdd(B, LLVMBuildFMul(B, a, b, ""), c, "");
}

/// One step along K of a register block. `a_at`: index of A's element (first row, k); `b_at`: of B's (k,
/// first column).
static void step(host *h, const product *p, LLVMValueRef a_at, LLVMValueRef b_at, LLVMValueRef *sums) {
  LLVMValueRef b[MAX_COLUMNS];
  for (unsigned j = 0; j < p->columns; j++)
    b[j] = load(h, p, p->vector, address(h, p, p->b, b_at, j * p->lanes));
  for (unsigned i = 0; i < p->rows; i++) {
    LLVMValueRef x = load(h, p, p->element, address(h, p, p->a, a_at, (uint64_t)i << p->k));
    if (p->lanes > 1) x = host_splat(h, x, p->lanes);
    for (unsigned j = 0; j < p->columns; j++) {
      LLVMValueRef *sum = &sums[i * p->columns + j];
      LLVMBuildStore(B, multiply_add(h, p, x, b[j], LLVMBuildLoad2(B, p->vector, *sum, "")), *sum);
    }
  }
}

static void block(host *h, const product *p, LLVMValueRef batch, LLVMValueRef row, LLVMValueRef column,
                  LLVMValueRef *sums) {
  LLVMValueRef c_at =
      LLVMBuildAdd(B, LLVMBuildAdd(B, shift(h, batch, p->m + p->n), shift(h, row, p->n), ""), column, "");
  host_loop along;
  for (unsigned i = 0; i < p->rows * p->columns; i++) {
    uint64_t more = ((uint64_t)(i / p->columns) << p->n) + (uint64_t)(i % p->columns) * p->lanes;
    LLVMBuildStore(B, load(h, p, p->vector, address(h, p, p->c, c_at, more)), sums[i]);
  }
  host_loop_begin(h, &along, (uint64_t)1 << p->k, 1);
  LLVMValueRef a_at =
      LLVMBuildAdd(B, shift(h, LLVMBuildAdd(B, shift(h, batch, p->m), row, ""), p->k), along.counter, "");
  LLVMValueRef b_at =
      LLVMBuildAdd(B, shift(h, LLVMBuildAdd(B, shift(h, batch, p->k), along.counter, ""), p->n), column, "");
  step(h, p, a_at, b_at, sums);
  host_loop_end(h, &along);
  for (unsigned i = 0; i < p->rows * p->columns; i++) {
    // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): without columns the loop has no turns
    uint64_t more = ((uint64_t)(i / p->columns) << p->n) + (uint64_t)(i % p->columns) * p->lanes;
    LLVMValueRef store =
        LLVMBuildStore(B, LLVMBuildLoad2(B, p->vector, sums[i], ""), address(h, p, p->c, c_at, more));
    LLVMSetAlignment(store, p->bytes);
  }
}

static void multiply(host *h, const product *p) {
  LLVMValueRef sums[MAX_ROWS * MAX_COLUMNS];
  host_loop batch, columns, rows;
  for (unsigned i = 0; i < p->rows * p->columns; i++) sums[i] = host_stack(h, p->vector);
  host_loop_begin(h, &batch, (uint64_t)1 << p->batch, 1);
  host_loop_begin(h, &columns, (uint64_t)1 << p->n, (uint64_t)p->columns * p->lanes);
  host_loop_begin(h, &rows, (uint64_t)1 << p->m, p->rows);
  block(h, p, batch.counter, rows.counter, columns.counter, sums);
  host_loop_end(h, &rows);
  host_loop_end(h, &columns);
  host_loop_end(h, &batch);
}

static unsigned at_most(uint64_t x, unsigned limit) { return x < limit ? (unsigned)x : limit; }

/// The buffer of a carried argument whose place the product may take: nobody pulls the old value after it.
static host_buffer *carried_place(host *h, const ir_op *op) {
  const host_value *result = host_info(&op->results[0]);
  const ir_block *block = op->block;
  if (result->user_count != 1 || result->users[0]->code != IR_YIELD || result->users[0]->block != block)
    return NULL;
  if (!block->parent || block->parent->code != IR_FOR) return NULL;
  for (uint32_t i = 0; i < result->users[0]->operand_count; i++) {
    const host_value *arg = host_info(block->args[1 + i]);
    if (result->users[0]->operands[i] != &op->results[0] || !arg->buffer || arg->last > op->number) continue;
    bool is_factor = host_info(op->operands[0])->buffer == arg->buffer ||
                     host_info(op->operands[1])->buffer == arg->buffer;
    return is_factor || host_reads_elsewhere(h, op->operands[2], arg->buffer) ? NULL : arg->buffer;
  }
  return NULL;
}

/// Puts the third operand where the product is to be.
static host_buffer *start(host *h, ir_op *op) {
  host_buffer *result = carried_place(h, op);
  if (result && host_info(op->operands[2])->buffer == result) return result;
  if (!result) result = host_buffer_create(h, op->results[0].type);
  host_root root = {.kind = HOST_ROOT_KEEP, .value = op->operands[2], .buffer = result, .carries = true};
  host_add_root(h, &root, op->results[0].type, 0);
  host_flush(h);
  return result;
}

static product shape_of(const host *h, const ir_op *op) {
  ir_type a = op->operands[0]->type, c = op->results[0].type;
  unsigned r = c.rank;
  product p = {.batch = r == 3 ? c.log2[0] : 0,
               .m = c.log2[r - 2],
               .n = c.log2[r - 1],
               .k = a.log2[r - 1],
               .scalar = (kiln_scalar)c.scalar};
  p.element = h->types[p.scalar];
  p.bytes = kiln_scalars[p.scalar].bytes;
  p.lanes = at_most((uint64_t)1 << p.n, h->vector_bytes / p.bytes);
  p.vector = p.lanes > 1 ? LLVMVectorType(p.element, p.lanes) : p.element;
  p.rows = at_most((uint64_t)1 << p.m, h->vector_bytes >= 64 ? 8 : 4);
  p.columns = at_most(((uint64_t)1 << p.n) / p.lanes, 2);
  return p;
}

// The operands are packed before the place of the old sum is touched: they may be computed from it.
void host_dot(host *h, ir_op *op) {
  product p = shape_of(h, op);
  host_flush(h);
  p.a = pack(h, op->operands[0], p.scalar);
  p.b = pack(h, op->operands[1], p.scalar);
  host_buffer *result = start(h, op);
  p.c = result->pointer;
  multiply(h, &p);
  host_info(&op->results[0])->buffer = result;
}
