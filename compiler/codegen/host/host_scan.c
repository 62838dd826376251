// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scans: along the axis chunk after chunk; inside a chunk by doubling steps, and what came before is carried.
#include "compiler/codegen/host/host.h"

#define B h->builder

typedef struct scan {
  ir_op *op;
  uint32_t n; // operands
  unsigned lanes_log2;
  unsigned first, count; // bits of the axis that are lanes: [first, first + count)
  bool reverse;
  LLVMValueRef *carry, begun; // stack slots
} scan;

/// Place of a lane along the axis, in the order of the scan.
static unsigned place(const scan *s, unsigned lane) {
  unsigned a = lane >> s->first & ((1u << s->count) - 1);
  return s->reverse ? (1u << s->count) - 1 - a : a;
}

/// The lane that stands at `want` along the axis and agrees with `lane` elsewhere.
static unsigned lane_at(const scan *s, unsigned lane, unsigned want) {
  unsigned mask = ((1u << s->count) - 1) << s->first;
  if (s->reverse) want = (1u << s->count) - 1 - want;
  return (lane & ~mask) | want << s->first;
}

static void step(host *h, const scan *s, unsigned distance, LLVMValueRef *x) {
  unsigned lanes = 1u << s->lanes_log2;
  uint32_t from[1024];
  LLVMValueRef moved[1024], *a = KILN_NEW_ARRAY(h->arena, LLVMValueRef, 2 * s->n), *y = a + s->n;
  for (unsigned l = 0; l < lanes; l++) {
    unsigned at = place(s, l);
    from[l] = at >= distance ? lane_at(s, l, at - distance) : l;
    moved[l] = LLVMConstInt(h->i1, at >= distance, false);
  }
  for (uint32_t i = 0; i < s->n; i++) a[i] = host_shuffle(h, x[i], NULL, from, lanes);
  host_combine_lanes(h, s->op, a, x, y);
  for (uint32_t i = 0; i < s->n; i++)
    x[i] = LLVMBuildSelect(B, LLVMConstVector(moved, lanes), y[i], x[i], "");
}

/// The last element along the axis for all lanes.
static LLVMValueRef last(host *h, const scan *s, LLVMValueRef x) {
  unsigned lanes = 1u << s->lanes_log2;
  uint32_t from[1024];
  if (!kiln_lanes_of(x) || !s->count) return x;
  for (unsigned l = 0; l < lanes; l++) from[l] = lane_at(s, l, (1u << s->count) - 1);
  return host_shuffle(h, x, NULL, from, lanes);
}

static void chunk(host *h, const scan *s, const host_map *map, host_buffer **buffers) {
  LLVMValueRef *x = KILN_NEW_ARRAY(h->arena, LLVMValueRef, 3 * s->n), *before = x + s->n, *y = x + 2 * s->n;
  for (uint32_t i = 0; i < s->n; i++) x[i] = host_pull_vector(h, s->op->operands[i], map);
  for (unsigned k = 0; k < s->count; k++) step(h, s, 1u << k, x);
  for (uint32_t i = 0; i < s->n; i++) before[i] = LLVMBuildLoad2(B, LLVMTypeOf(x[i]), s->carry[i], "");
  LLVMValueRef begun = LLVMBuildLoad2(B, h->i1, s->begun, "");
  host_combine_lanes(h, s->op, before, x, y);
  for (uint32_t i = 0; i < s->n; i++) {
    y[i] = LLVMBuildSelect(B, begun, y[i], x[i], "");
    LLVMBuildStore(B, last(h, s, y[i]), s->carry[i]);
    if (buffers[i])
      host_buffer_store(h, buffers[i], map,
                        (host_lanes){y[i], 0, s->lanes_log2 ? HOST_VECTOR : HOST_UNIFORM});
  }
  LLVMBuildStore(B, LLVMConstInt(h->i1, 1, false), s->begun);
}

static void begin(host *h, scan *s) {
  for (uint32_t i = 0; i < s->n; i++) {
    LLVMTypeRef element = host_element_type(h, ir_element(s->op->operands[i]->type));
    LLVMTypeRef type = s->lanes_log2 ? LLVMVectorType(element, 1u << s->lanes_log2) : element;
    s->carry[i] = host_stack(h, type);
    LLVMBuildStore(B, LLVMConstNull(type), s->carry[i]);
  }
  s->begun = host_stack(h, h->i1);
  LLVMBuildStore(B, LLVMConstInt(h->i1, 0, false), s->begun);
}

/// Loops over [first, last) without the axis, then over the axis.
static void open_loop(host *h, host_loop *loop, const scan *s, unsigned first, unsigned end, bool along) {
  uint64_t count = (uint64_t)1 << (end - first);
  host_loop_begin(h, loop, count, 1);
  LLVMValueRef counter = loop->counter;
  if (along && s->reverse) counter = LLVMBuildSub(B, host_i64(h, (int64_t)count - 1), counter, "");
  host_point_digit(h->point, counter, first, end - first);
}

static unsigned clamp(unsigned x, unsigned least) { return x < least ? least : x; }

void host_scan(host *h, ir_op *op) {
  ir_type type = op->operands[0]->type;
  unsigned bits = ir_log2_elements(type), first, log2 = 0, length = type.log2[op->attrs.axis];
  host_axis_bits(type, op->attrs.axis, &first);
  while ((4u << (log2 + 1)) <= h->vector_bytes && log2 < bits) log2++;
  scan s = {
      .op = op, .n = op->operand_count, .lanes_log2 = log2, .reverse = (op->attrs.flags & IR_REVERSE) != 0};
  unsigned low = clamp(first, log2),
           high = clamp(first + length, log2); // axis bits that loops count: [low, high)
  s.first = first < log2 ? first : 0;
  s.count = first < log2 ? (first + length < log2 ? length : log2 - first) : 0;
  s.carry = KILN_NEW_ARRAY(h->arena, LLVMValueRef, s.n);
  host_buffer **buffers = KILN_NEW_ARRAY(h->arena, host_buffer *, s.n);
  host_map map = host_identity(bits);
  host_point point;
  host_loop upper, lower, along;
  host_flush(h);
  for (uint32_t i = 0; i < s.n; i++)
    if (host_info(&op->results[i])->user_count) buffers[i] = host_buffer_create(h, op->results[i].type);
  host_point_init(h, &point, log2);
  h->point = &point;
  open_loop(h, &upper, &s, high, bits, false);
  open_loop(h, &lower, &s, log2, low, false);
  begin(h, &s);
  open_loop(h, &along, &s, low, high, true);
  chunk(h, &s, &map, buffers);
  host_loop_end(h, &along);
  host_loop_end(h, &lower);
  host_loop_end(h, &upper);
  h->point = NULL;
  for (uint32_t i = 0; i < s.n; i++) host_info(&op->results[i])->buffer = buffers[i];
}
