// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix products: factors are packed into scratch memory in the type that is computed in (host_pack.c), then
// a block of accumulators in registers runs along K.
#include "compiler/codegen/host/host.h"

#define B h->builder

enum { MAX_COLUMNS = 4, MAX_SUMS = 32, STEPS = 4 };

typedef struct product {
  unsigned batch, m, n, k;     // log2; with pairs K counts these
  kiln_scalar scalar;          // computed in: f32, f64, i32
  LLVMTypeRef element, vector; // vector is the element itself when a row has one
  unsigned bytes, lanes;
  unsigned rows, columns; // of a register block; columns in vectors
  unsigned steps;         // along K that are written out
  bool pairs;
  host_factor a, b;
  LLVMValueRef c;
} product;

static unsigned at_most(uint64_t x, unsigned limit) { return x < limit ? (unsigned)x : limit; }

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

/// The sums of the products of pairs of 16 bits, in x86's own words.
static LLVMValueRef multiply_pairs(host *h, const product *p, LLVMValueRef a, LLVMValueRef b) {
  const char *name = p->lanes == 4   ? "llvm.x86.sse2.pmadd.wd"
                     : p->lanes == 8 ? "llvm.x86.avx2.pmadd.wd"
                                     : "llvm.x86.avx512.pmaddw.d.512";
  LLVMTypeRef halves = LLVMVectorType(h->i16, 2 * p->lanes);
  LLVMValueRef args[2] = {LLVMBuildBitCast(B, a, halves, ""), LLVMBuildBitCast(B, b, halves, "")};
  return host_intrinsic(h, name, NULL, 0, args, 2);
}

static LLVMValueRef multiply_add(host *h, const product *p, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
  if (p->pairs) return LLVMBuildAdd(B, multiply_pairs(h, p, a, b), c, "");
  if (p->scalar == KILN_I32) return LLVMBuildAdd(B, LLVMBuildMul(B, a, b, ""), c, "");
  LLVMTypeRef type = LLVMTypeOf(a);
  LLVMValueRef args[3] = {a, b, c};
  if (h->has_fma) return host_intrinsic(h, "llvm.fma", &type, 1, args, 3);
  return LLVMBuildFAdd(B, LLVMBuildFMul(B, a, b, ""), c, "");
}

/// A register block: pointers to its first element of each factor and of the sum.
typedef struct register_block {
  LLVMValueRef a, b, c;
  unsigned rows;
} register_block;

/// One step along K; `k` is added to what the counter `along` says.
static void step(host *h, const product *p, const register_block *t, LLVMValueRef along, unsigned k,
                 LLVMValueRef *sums) {
  LLVMValueRef b[MAX_COLUMNS] = {NULL}, a_at = shift(h, along, p->a.step), b_at = shift(h, along, p->b.step);
  for (unsigned j = 0; j < p->columns; j++)
    b[j] =
        load(h, p, p->vector, address(h, p, t->b, b_at, ((uint64_t)k << p->b.step) + (uint64_t)j * p->lanes));
  for (unsigned i = 0; i < t->rows; i++) {
    uint64_t more = ((uint64_t)i << p->a.row) + ((uint64_t)k << p->a.step);
    LLVMValueRef x = load(h, p, p->element, address(h, p, t->a, a_at, more));
    if (p->lanes > 1) x = host_splat(h, x, p->lanes);
    for (unsigned j = 0; j < p->columns; j++) {
      LLVMValueRef *sum = &sums[i * p->columns + j];
      LLVMBuildStore(B, multiply_add(h, p, x, b[j], LLVMBuildLoad2(B, p->vector, *sum, "")), *sum);
    }
  }
}

static LLVMValueRef sum_place(host *h, const product *p, const register_block *t, unsigned i) {
  uint64_t more = ((uint64_t)(i / p->columns) << p->n) + (uint64_t)(i % p->columns) * p->lanes;
  return address(h, p, t->c, host_i64(h, 0), more);
}

static void run_block(host *h, const product *p, const register_block *t, LLVMValueRef *sums) {
  unsigned count = t->rows * p->columns, steps = at_most((uint64_t)1 << p->k, p->steps);
  host_loop along;
  for (unsigned i = 0; i < count; i++)
    LLVMBuildStore(B, load(h, p, p->vector, sum_place(h, p, t, i)), sums[i]);
  host_loop_begin(h, &along, (uint64_t)1 << p->k, steps);
  for (unsigned k = 0; k < steps; k++) step(h, p, t, along.counter, k, sums);
  host_loop_end(h, &along);
  for (unsigned i = 0; i < count; i++) {
    LLVMValueRef sum = LLVMBuildLoad2(B, p->vector, sums[i], "");
    LLVMSetAlignment(LLVMBuildStore(B, sum, sum_place(h, p, t, i)), p->bytes);
  }
}

/// The block whose first row is `row` of the matrices that `t` points at.
static void rows_from(host *h, const product *p, register_block t, LLVMValueRef row, unsigned rows,
                      LLVMValueRef *sums) {
  t.a = address(h, p, t.a, shift(h, row, p->a.row), 0);
  t.c = address(h, p, t.c, shift(h, row, p->n), 0);
  t.rows = rows;
  run_block(h, p, &t, sums);
}

// Panels outside, rows inside: a panel stays in the nearest cache while the rows pass.
static void multiply(host *h, const product *p) {
  LLVMValueRef sums[MAX_SUMS] = {NULL};
  host_loop batch, panels, rows;
  unsigned m = 1u << p->m, whole = m - m % p->rows, width = p->columns * p->lanes;
  for (unsigned i = 0; i < p->rows * p->columns; i++) sums[i] = host_stack(h, p->vector);
  host_loop_begin(h, &batch, (uint64_t)1 << p->batch, 1);
  host_loop_begin(h, &panels, (1u << p->n) / width, 1);
  LLVMValueRef column = LLVMBuildMul(B, panels.counter, host_i64(h, width), "");
  register_block t = {
      .a = address(h, p, p->a.pointer, shift(h, batch.counter, p->m + p->k), 0),
      .c = address(h, p, p->c, LLVMBuildAdd(B, shift(h, batch.counter, p->m + p->n), column, ""), 0)};
  t.b = address(h, p, p->b.pointer, shift(h, batch.counter, p->k + p->n), 0);
  t.b = address(h, p, t.b, shift(h, panels.counter, p->b.row), 0);
  host_loop_begin(h, &rows, whole, p->rows);
  rows_from(h, p, t, rows.counter, p->rows, sums);
  host_loop_end(h, &rows);
  if (whole < m) rows_from(h, p, t, host_i64(h, whole), m - whole, sums);
  host_loop_end(h, &panels);
  host_loop_end(h, &batch);
}

// ------------------------------------------------------------------------------------------- place

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
    return is_factor || host_reads_of(h, op->operands[2], arg->buffer).moved ? NULL : arg->buffer;
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

// --------------------------------------------------------------------------------------- the whole

/// A register block has all the registers that a row of B and an element of A leave; without fma products
/// want some, more of them the longer they take. Rows are shared out evenly. Of integers one step is written
/// out: LLVM would add products of several steps first, which takes a register each.
static void choose_block(const host *h, product *p) {
  bool integer = p->scalar == KILN_I32, fused = h->has_fma && !integer;
  unsigned vectors = (1u << p->n) / p->lanes, m = 1u << p->m;
  p->columns = at_most(vectors, h->vector_registers > 16 && h->vector_bytes < 64 ? 4 : 2);
  unsigned most = (h->vector_registers - p->columns - (fused ? 1 : p->pairs ? 3 : 5)) / p->columns;
  p->steps = integer ? 1 : STEPS;
  unsigned blocks = (m + most - 1) / most;
  p->rows = (m + blocks - 1) / blocks;
}

static product shape_of(const host *h, const ir_op *op) {
  ir_type a = op->operands[0]->type, c = op->results[0].type;
  unsigned r = c.rank;
  product p = {.batch = r == 3 ? c.log2[0] : 0,
               .m = c.log2[r - 2],
               .n = c.log2[r - 1],
               .k = a.log2[r - 1],
               .scalar = (kiln_scalar)c.scalar};
  p.element = h->elements.types[p.scalar];
  p.bytes = kiln_scalars[p.scalar].bytes;
  p.lanes = at_most((uint64_t)1 << p.n, h->vector_bytes / p.bytes);
  p.pairs = host_pack_pairs(h, op);
  p.k -= p.pairs;
  p.vector = p.lanes > 1 ? LLVMVectorType(p.element, p.lanes) : p.element;
  choose_block(h, &p);
  return p;
}

static host_factor factor(host *h, const ir_op *op, const product *p, unsigned side) {
  return host_pack(h, op->operands[side], p->scalar, p->pairs, side, host_log2(p->columns * p->lanes));
}

// The operands are packed before the place of the old sum is touched: they may be computed from it.
void host_dot(host *h, ir_op *op) {
  product p = shape_of(h, op);
  host_flush(h);
  p.a = factor(h, op, &p, 0);
  p.b = factor(h, op, &p, 1);
  host_buffer *result = start(h, op);
  p.c = result->pointer;
  multiply(h, &p);
  host_info(&op->results[0])->buffer = result;
}

// ------------------------------------------------------------------------------ products in a loop

/// True when `v` is the same in each turn and can be pulled before the loop. Loads in the loop may see what
/// its turns write.
static bool is_invariant(const ir_value *v, const ir_op *loop, unsigned depth) {
  if (!ir_is_inside(ir_home(v), loop)) return true;
  if (!v->def || !depth || !host_is_lazy(v->def) || v->def->code == IR_LOAD) return false;
  for (uint32_t i = 0; i < v->def->operand_count; i++)
    if (!is_invariant(v->def->operands[i], loop, depth - 1)) return false;
  return true;
}

enum { MAX_DEPTH = 6 }; // of operations in the loop between an invariant and the product

static void each_product(host *h, const ir_op *loop, const ir_block *block,
                         void (*visit)(host *, const ir_op *loop, const ir_op *dot)) {
  for (const ir_op *op = block->first; op; op = op->next) {
    if (op->code == IR_DOT) visit(h, loop, op);
    for (uint32_t i = 0; i < op->region_count; i++) each_product(h, loop, op->regions[i], visit);
  }
}

static void pack_before(host *h, const ir_op *loop, const ir_op *dot) {
  product p = shape_of(h, dot);
  for (unsigned side = 0; side < 2; side++) {
    ir_value *v = dot->operands[side];
    if (host_info(v)->packed[side] || !is_invariant(v, loop, MAX_DEPTH)) continue;
    host_factor *f = KILN_NEW(h->arena, host_factor);
    *f = factor(h, dot, &p, side);
    f->loop = loop;
    host_info(v)->packed[side] = f;
  }
}

static void forget(host *h, const ir_op *loop, const ir_op *dot) {
  (void)h;
  for (unsigned side = 0; side < 2; side++) {
    host_value *v = host_info(dot->operands[side]);
    if (v->packed[side] && v->packed[side]->loop == loop) v->packed[side] = NULL;
  }
}

void host_dot_before(host *h, const ir_op *loop) {
  for (uint32_t i = 0; i < loop->region_count; i++) each_product(h, loop, loop->regions[i], pack_before);
}

void host_dot_after(host *h, const ir_op *loop) {
  for (uint32_t i = 0; i < loop->region_count; i++) each_product(h, loop, loop->regions[i], forget);
}
