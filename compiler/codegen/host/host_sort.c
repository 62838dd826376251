// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sort: a bitonic network over rows in memory, all runs rising: the first step of a merge compares elements
// that lie opposite of each other. Steps within a vector are done together while it is in a register.
// gather: element by element from memory.
#include "compiler/codegen/host/host.h"

#define B h->builder

typedef struct network {
  host_buffer *buffer;
  LLVMTypeRef element, vector;
  unsigned bits;       ///< log2 of the elements of all rows
  unsigned length;     ///< log2 of a row
  unsigned lanes_log2; ///< at most `length`
} network;

static LLVMValueRef pick(host *h, const char *name, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef type = LLVMTypeOf(a);
  return host_intrinsic(h, name, &type, 1, (LLVMValueRef[]){a, b}, 2);
}

static LLVMValueRef address(host *h, const network *n, LLVMValueRef index) {
  return LLVMBuildInBoundsGEP2(B, n->element, n->buffer->pointer, &index, 1, "");
}

static LLVMValueRef read(host *h, const network *n, LLVMValueRef index) {
  LLVMValueRef x = LLVMBuildLoad2(B, n->vector, address(h, n, index), "");
  LLVMSetAlignment(x, host_memory_bytes(ir_scalar_type(n->buffer->scalar)));
  return x;
}

static void write(host *h, const network *n, LLVMValueRef index, LLVMValueRef x) {
  LLVMSetAlignment(LLVMBuildStore(B, x, address(h, n, index)),
                   host_memory_bytes(ir_scalar_type(n->buffer->scalar)));
}

static LLVMValueRef crossed(host *h, LLVMValueRef x, unsigned lanes, unsigned mask) {
  uint32_t from[1024];
  for (unsigned i = 0; i < lanes; i++) from[i] = i ^ mask;
  return host_shuffle(h, x, NULL, from, lanes);
}

/// One step inside a vector: lane i with lane i ^ mask; those with bit `high` get the greater.
static LLVMValueRef step_within(host *h, const network *n, LLVMValueRef x, unsigned mask, unsigned high) {
  unsigned lanes = 1u << n->lanes_log2;
  uint32_t from[1024];
  LLVMValueRef y = crossed(h, x, lanes, mask);
  for (unsigned i = 0; i < lanes; i++) from[i] = i & high ? lanes + i : i;
  return host_shuffle(h, pick(h, "llvm.smin", x, y), pick(h, "llvm.smax", x, y), from, lanes);
}

/// All steps of distances below a vector, for runs of 2^run; `mirrors`: the first is that of the merge.
static void within_vectors(host *h, const network *n, unsigned first_run, unsigned last_run) {
  host_loop loop;
  if (!n->lanes_log2) return;
  host_loop_begin(h, &loop, (uint64_t)1 << n->bits, (uint64_t)1 << n->lanes_log2);
  LLVMValueRef x = read(h, n, loop.counter);
  for (unsigned run = first_run; run <= last_run; run++) {
    unsigned bit = run < n->lanes_log2 ? run : n->lanes_log2;
    if (run <= n->lanes_log2) bit--, x = step_within(h, n, x, (2u << bit) - 1, 1u << bit);
    while (bit-- > 0) x = step_within(h, n, x, 1u << bit, 1u << bit);
  }
  write(h, n, loop.counter, x);
  host_loop_end(h, &loop);
}

/// One step between vectors 2^bit elements apart in runs of 2^(bit + 1); `mirrors`: elements opposite of each
/// other.
static void between_vectors(host *h, const network *n, unsigned bit, bool mirrors) {
  host_loop runs, inner;
  uint64_t half = (uint64_t)1 << bit, lanes = (uint64_t)1 << n->lanes_log2;
  host_loop_begin(h, &runs, (uint64_t)1 << n->bits, 2 * half);
  host_loop_begin(h, &inner, half, lanes);
  LLVMValueRef low = LLVMBuildAdd(B, runs.counter, inner.counter, ""), high;
  if (mirrors) {
    high = LLVMBuildAdd(B, runs.counter, host_i64(h, (int64_t)(2 * half - lanes)), "");
    high = LLVMBuildSub(B, high, inner.counter, "");
  } else {
    high = LLVMBuildAdd(B, low, host_i64(h, (int64_t)half), "");
  }
  LLVMValueRef x = read(h, n, low), y = read(h, n, high);
  if (mirrors && lanes > 1) y = crossed(h, y, (unsigned)lanes, (unsigned)lanes - 1);
  LLVMValueRef greater = pick(h, "llvm.smax", x, y);
  if (mirrors && lanes > 1) greater = crossed(h, greater, (unsigned)lanes, (unsigned)lanes - 1);
  write(h, n, low, pick(h, "llvm.smin", x, y));
  write(h, n, high, greater);
  host_loop_end(h, &inner);
  host_loop_end(h, &runs);
}

static void sort_rows(host *h, const network *n) {
  unsigned lanes = n->lanes_log2;
  if (n->length) within_vectors(h, n, 1, lanes);
  for (unsigned run = lanes + 1; run <= n->length; run++) {
    for (unsigned bit = run; bit-- > lanes;) between_vectors(h, n, bit, bit + 1 == run);
    within_vectors(h, n, run, run);
  }
}

host_buffer *host_copied(host *h, ir_value *v) {
  host_root root = {.kind = HOST_ROOT_KEEP, .value = v, .buffer = host_buffer_create(h, v->type)};
  host_flush(h);
  host_add_root(h, &root, v->type, 0);
  host_flush(h);
  return root.buffer;
}

/// The first 2^kept elements of each row, one row after the other.
static void keep_first(host *h, const network *n, host_buffer *to, unsigned kept) {
  host_loop rows, inner;
  network out = *n;
  out.buffer = to;
  out.lanes_log2 = kept < n->lanes_log2 ? kept : n->lanes_log2;
  out.vector = out.lanes_log2 ? LLVMVectorType(n->element, 1u << out.lanes_log2) : n->element;
  network in = out;
  in.buffer = n->buffer;
  host_loop_begin(h, &rows, (uint64_t)1 << (n->bits - n->length), 1);
  host_loop_begin(h, &inner, (uint64_t)1 << kept, (uint64_t)1 << out.lanes_log2);
  LLVMValueRef from = LLVMBuildShl(B, rows.counter, host_i64(h, n->length), ""),
               at = LLVMBuildShl(B, rows.counter, host_i64(h, kept), "");
  write(h, &out, LLVMBuildAdd(B, at, inner.counter, ""),
        read(h, &in, LLVMBuildAdd(B, from, inner.counter, "")));
  host_loop_end(h, &inner);
  host_loop_end(h, &rows);
}

void host_sort(host *h, ir_op *op) {
  ir_type from = op->operands[0]->type, to = op->results[0].type;
  network n = {.element = host_element_type(h, ir_element(from)),
               .bits = ir_log2_elements(from),
               .length = from.log2[from.rank - 1]};
  unsigned bytes = host_memory_bytes(from);
  while (n.lanes_log2 < n.length && (bytes << (n.lanes_log2 + 1)) <= h->vector_bytes) n.lanes_log2++;
  n.vector = n.lanes_log2 ? LLVMVectorType(n.element, 1u << n.lanes_log2) : n.element;
  n.buffer = host_copied(h, op->operands[0]);
  sort_rows(h, &n);
  host_buffer *result = n.buffer;
  if (!ir_type_equal(from, to)) {
    result = host_buffer_create(h, to);
    keep_first(h, &n, result, to.log2[to.rank - 1]);
  }
  host_info(&op->results[0])->buffer = result;
}

// ------------------------------------------------------------------------------------------- gather

static LLVMValueRef field(host *h, LLVMValueRef x, unsigned first, unsigned count) {
  x = LLVMBuildLShr(B, x, host_i64(h, first), "");
  return LLVMBuildAnd(B, x, host_i64(h, (int64_t)(((uint64_t)1 << count) - 1)), "");
}

static LLVMValueRef element_at(host *h, const host_buffer *buffer, LLVMTypeRef type, LLVMValueRef index) {
  return LLVMBuildInBoundsGEP2(B, type, buffer->pointer, &index, 1, "");
}

void host_gather(host *h, ir_op *op) {
  ir_type from = op->operands[0]->type, to = op->results[0].type;
  unsigned axis = op->attrs.axis, inner, along = to.log2[axis], length = from.log2[axis],
           bits = ir_log2_elements(to);
  LLVMTypeRef type = host_memory_type(h, ir_element(from));
  host_buffer *source = host_keep_now(h, op->operands[0]), *index = host_keep_now(h, op->operands[1]),
              *out = host_buffer_create(h, to);
  host_loop loop;
  host_flush(h);
  host_axis_bits(to, axis, &inner);
  host_loop_begin(h, &loop, (uint64_t)1 << bits, 1);
  LLVMValueRef i = LLVMBuildLoad2(B, h->i32, element_at(h, index, h->i32, loop.counter), "");
  i = field(h, LLVMBuildZExt(B, i, h->i64, ""), 0, length);
  LLVMValueRef low = field(h, loop.counter, 0, inner),
               high = field(h, loop.counter, inner + along, bits - inner - along);
  LLVMValueRef at = LLVMBuildShl(B, high, host_i64(h, length), "");
  at = LLVMBuildShl(B, LLVMBuildOr(B, at, i, ""), host_i64(h, inner), "");
  LLVMValueRef x = LLVMBuildLoad2(B, type, element_at(h, source, type, LLVMBuildOr(B, at, low, "")), "");
  LLVMBuildStore(B, x, element_at(h, out, type, loop.counter));
  host_loop_end(h, &loop);
  host_info(&op->results[0])->buffer = out;
}
