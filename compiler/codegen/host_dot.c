// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix products: operands are packed into scratch memory in the type that is computed in, then a block of accumulators in registers runs along K.
#include "compiler/codegen/host.h"

#define B h->builder

enum { MAX_ROWS = 8, MAX_COLUMNS = 4 };

typedef struct product {
  unsigned batch, m, n, k;     // log2
  kiln_scalar scalar;          // computed in: f32, f64, i32
  LLVMTypeRef element, vector; // vector is the element itself when a row has one
  unsigned bytes, lanes;
  unsigned rows, columns;      // of a register block; columns in vectors
  LLVMValueRef a, b, c;
} product;

// ----------------------------------------------------------------------------------------------------------------- packing

static LLVMValueRef convert(host *h, kiln_scalar from, LLVMValueRef x) {
  return from == KILN_I8 ? LLVMBuildSExt(B, x, host_like(h->i32, x), "") : x;
}

/// The operand as a row-major matrix of `to`.
static LLVMValueRef pack(host *h, ir_value *v, kiln_scalar to) {
  ir_type type = v->type;
  unsigned bits = ir_log2_elements(type), log2 = 0, row = type.log2[type.rank - 1];
  const host_buffer *kept = host_info(v)->buffer;
  if (kept && kept->scalar == to) return kept->pointer;
  while ((4u << (log2 + 1)) <= h->vector_bytes && log2 < bits) log2++;
  host_buffer *buffer = host_buffer_create(h, ir_with_element(type, ir_scalar_type(to)));
  host_map map = host_identity(bits);
  host_point point;
  host_loop rows, columns;
  unsigned split = row > log2 ? row : log2;
  host_point_init(h, &point, log2);
  h->point = &point;
  host_loop_begin(h, &rows, (uint64_t)1 << (bits - split), 1);
  host_point_digit(&point, rows.counter, split, bits - split);
  host_loop_begin(h, &columns, (uint64_t)1 << (split - log2), 1);
  host_point_digit(&point, columns.counter, log2, split - log2);
  LLVMValueRef x = convert(h, (kiln_scalar)type.scalar, host_pull_vector(h, v, &map));
  host_buffer_store(h, buffer, &map, (host_lanes){x, 0, log2 ? HOST_VECTOR : HOST_UNIFORM});
  host_loop_end(h, &columns);
  host_loop_end(h, &rows);
  h->point = NULL;
  return buffer->pointer;
}

// ----------------------------------------------------------------------------------------------------------------- product

static LLVMValueRef address(host *h, const product *p, LLVMValueRef base, LLVMValueRef index, uint64_t more) {
  LLVMValueRef at = LLVMBuildInBoundsGEP2(B, p->element, base, &index, 1, ""), offset = host_i64(h, (int64_t)more);
  return LLVMBuildInBoundsGEP2(B, p->element, at, &offset, 1, "");
}

static LLVMValueRef load(host *h, const product *p, LLVMTypeRef type, LLVMValueRef pointer) {
  LLVMValueRef x = LLVMBuildLoad2(B, type, pointer, "");
  LLVMSetAlignment(x, p->bytes);
  return x;
}

static LLVMValueRef shift(host *h, LLVMValueRef x, unsigned log2) { return LLVMBuildShl(B, x, host_i64(h, log2), ""); }

static LLVMValueRef multiply_add(host *h, const product *p, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
  if (p->scalar == KILN_I32) return LLVMBuildAdd(B, LLVMBuildMul(B, a, b, ""), c, "");
  LLVMTypeRef type = LLVMTypeOf(a);
  LLVMValueRef args[3] = {a, b, c};
  if (h->has_fma) return host_intrinsic(h, "llvm.fma", &type, 1, args, 3);
  return LLVMBuildFAdd(B, LLVMBuildFMul(B, a, b, ""), c, "");
}

/// One step along K of a register block. `a_at`: index of A's element (first row, k); `b_at`: of B's (k, first column).
static void step(host *h, const product *p, LLVMValueRef a_at, LLVMValueRef b_at, LLVMValueRef *sums) {
  LLVMValueRef b[MAX_COLUMNS];
  for (unsigned j = 0; j < p->columns; j++) b[j] = load(h, p, p->vector, address(h, p, p->b, b_at, j * p->lanes));
  for (unsigned i = 0; i < p->rows; i++) {
    LLVMValueRef x = load(h, p, p->element, address(h, p, p->a, a_at, (uint64_t)i << p->k));
    if (p->lanes > 1) x = host_splat(h, x, p->lanes);
    for (unsigned j = 0; j < p->columns; j++) {
      LLVMValueRef *sum = &sums[i * p->columns + j];
      LLVMBuildStore(B, multiply_add(h, p, x, b[j], LLVMBuildLoad2(B, p->vector, *sum, "")), *sum);
    }
  }
}

static void block(host *h, const product *p, LLVMValueRef batch, LLVMValueRef row, LLVMValueRef column, LLVMValueRef *sums) {
  LLVMValueRef c_at = LLVMBuildAdd(B, LLVMBuildAdd(B, shift(h, batch, p->m + p->n), shift(h, row, p->n), ""), column, "");
  host_loop along;
  for (unsigned i = 0; i < p->rows * p->columns; i++) {
    uint64_t more = ((uint64_t)(i / p->columns) << p->n) + (uint64_t)(i % p->columns) * p->lanes;
    LLVMBuildStore(B, load(h, p, p->vector, address(h, p, p->c, c_at, more)), sums[i]);
  }
  host_loop_begin(h, &along, (uint64_t)1 << p->k, 1);
  LLVMValueRef a_at = LLVMBuildAdd(B, shift(h, LLVMBuildAdd(B, shift(h, batch, p->m), row, ""), p->k), along.counter, "");
  LLVMValueRef b_at = LLVMBuildAdd(B, shift(h, LLVMBuildAdd(B, shift(h, batch, p->k), along.counter, ""), p->n), column, "");
  step(h, p, a_at, b_at, sums);
  host_loop_end(h, &along);
  for (unsigned i = 0; i < p->rows * p->columns; i++) {
    uint64_t more = ((uint64_t)(i / p->columns) << p->n) + (uint64_t)(i % p->columns) * p->lanes;
    LLVMValueRef store = LLVMBuildStore(B, LLVMBuildLoad2(B, p->vector, sums[i], ""), address(h, p, p->c, c_at, more));
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

void host_dot(host *h, ir_op *op) {
  ir_type a = op->operands[0]->type, c = op->results[0].type;
  unsigned r = c.rank;
  product p = {.batch = r == 3 ? c.log2[0] : 0, .m = c.log2[r - 2], .n = c.log2[r - 1], .k = a.log2[r - 1], .scalar = (kiln_scalar)c.scalar};
  p.element = h->types[p.scalar];
  p.bytes = kiln_scalars[p.scalar].bytes;
  p.lanes = at_most((uint64_t)1 << p.n, h->vector_bytes / p.bytes);
  p.vector = p.lanes > 1 ? LLVMVectorType(p.element, p.lanes) : p.element;
  p.rows = at_most((uint64_t)1 << p.m, h->vector_bytes >= 64 ? 8 : 4);
  p.columns = at_most(((uint64_t)1 << p.n) / p.lanes, 2);
  host_flush(h);
  host_buffer *result = host_buffer_create(h, c);
  host_root root = {.kind = HOST_ROOT_KEEP, .value = op->operands[2], .buffer = result};
  host_add_root(h, &root, c, 0);
  host_flush(h);
  uint64_t mark = h->scratch_at;
  p.a = pack(h, op->operands[0], p.scalar);
  p.b = pack(h, op->operands[1], p.scalar);
  p.c = result->pointer;
  multiply(h, &p);
  h->scratch_at = mark;
  host_info(&op->results[0])->buffer = result;
}
