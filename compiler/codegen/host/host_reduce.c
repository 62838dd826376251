// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions: accumulators as wide as a chunk, folded over the lanes at the end.
//
// Named combinations may be taken in any order. A region says which elements come earlier, so there each
// chunk is folded first, neighbours with neighbours, and the accumulator takes the fold: the order of the
// elements is kept.
#include "compiler/codegen/host/host.h"

#define B h->builder

uint32_t host_axis_bits(ir_type type, unsigned axis, unsigned *out_first) {
  unsigned first = 0;
  for (unsigned i = axis + 1; i < type.rank; i++) first += type.log2[i];
  *out_first = first;
  return ((1u << type.log2[axis]) - 1u) << first ? (uint32_t)((((uint64_t)1 << type.log2[axis]) - 1) << first)
                                                 : 0;
}

static bool is_region(const ir_op *op) { return op->attrs.kind == IR_COMBINE_REGION; }

// ------------------------------------------------------------------------------------ combinations

void host_combine_lanes(host *h, const ir_op *op, const LLVMValueRef *a, const LLVMValueRef *b,
                        LLVMValueRef *out) {
  if (!is_region(op)) {
    out[0] = kiln_element_combine(&h->elements, op, (kiln_scalar)op->operands[0]->type.scalar, a[0], b[0]);
    return;
  }
  const ir_block *block = op->regions[0];
  uint32_t n = op->operand_count;
  for (uint32_t i = 0; i < 2 * n; i++) {
    host_value *info = host_info(block->args[i]);
    info->lanes = (host_lanes){i < n ? a[i] : b[i - n], 0, HOST_VECTOR};
    info->has_lanes = true;
  }
  unsigned width = kiln_lanes_of(a[0]);
  for (ir_op *inner = block->first; inner; inner = inner->next) {
    LLVMValueRef x[3];
    if (inner->code == IR_YIELD) {
      for (uint32_t i = 0; i < n; i++) {
        host_lanes y = host_info(inner->operands[i])->lanes;
        out[i] = width && !kiln_lanes_of(y.value) ? host_splat(h, y.value, width) : y.value;
      }
      return;
    }
    host_value *info = host_info(&inner->results[0]);
    info->has_lanes = true;
    if (inner->code == IR_CONST) {
      LLVMValueRef c = host_constant(h, inner->results[0].type, inner->attrs.bits);
      info->lanes = (host_lanes){width ? host_splat(h, c, width) : c, 0, HOST_VECTOR};
      continue;
    }
    if (!kiln_element_has(inner->code)) {
      host_fail(h, KILN_STATUS_UNSUPPORTED, "%s: the host cannot run %s in a combination",
                ir_ops[op->code].text, ir_ops[inner->code].text);
      for (uint32_t i = 0; i < n; i++) out[i] = a[i];
      return;
    }
    for (uint32_t i = 0; i < inner->operand_count; i++) {
      host_lanes y = host_info(inner->operands[i])->lanes;
      x[i] = width && !kiln_lanes_of(y.value) ? host_splat(h, y.value, width) : y.value;
    }
    info->lanes = (host_lanes){kiln_element(&h->elements, inner, x), 0, HOST_VECTOR};
  }
}

// Splits the lanes of `v` by bit `bit` of their number.
static LLVMValueRef half(host *h, LLVMValueRef v, unsigned bit, unsigned side) {
  uint32_t lanes[1024];
  unsigned width = kiln_lanes_of(v), count = 0;
  for (unsigned l = 0; l < width; l++)
    if ((l >> bit & 1) == side) lanes[count++] = l;
  if (count == 1) return LLVMBuildExtractElement(B, v, host_i64(h, lanes[0]), "");
  return host_shuffle(h, v, NULL, lanes, count);
}

/// Folds lanes along the reduced bits among the low `log2` ones. With `upward` from the lowest bit
/// (neighbours first), else from the highest.
static void fold(host *h, const ir_op *op, uint32_t reduced, unsigned log2, bool upward, LLVMValueRef *x) {
  uint32_t n = op->operand_count;
  LLVMValueRef *a = KILN_NEW_ARRAY(h->arena, LLVMValueRef, 2 * n), *b = a + n;
  unsigned gone = 0;
  for (unsigned k = 0; k < log2; k++) {
    unsigned bit = upward ? k : log2 - 1 - k;
    if (!(reduced >> bit & 1)) continue;
    unsigned at = upward ? bit - gone : bit;
    for (uint32_t i = 0; i < n; i++) a[i] = half(h, x[i], at, 0), b[i] = half(h, x[i], at, 1);
    host_combine_lanes(h, op, a, b, x);
    gone++;
  }
}

// ------------------------------------------------------------------------------------------ states

/// Bits of the element that changes nothing; false when there is none that is exact.
static bool identity(ir_type type, ir_combine kind, uint32_t flags, uint64_t *out) {
  kiln_scalar scalar = (kiln_scalar)type.scalar;
  unsigned bits = ir_type_bits(type);
  uint64_t ones = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1, top = (uint64_t)1 << (bits - 1);
  bool real = ir_type_class(type) == KILN_CLASS_FLOAT, unsign = (flags & IR_UNSIGNED) || bits == 1;
  double most = kind == IR_COMBINE_MAX ? -__builtin_inf() : __builtin_inf();
  switch (kind) {
  case IR_COMBINE_ADD: *out = real ? top : 0; return true; // -0.0
  case IR_COMBINE_MUL: *out = real ? ir_float_to_bits(scalar, 1, false) : 1; return true;
  case IR_COMBINE_MAX:
  case IR_COMBINE_MIN:
    if (real) *out = ir_float_to_bits(scalar, flags & IR_NAN ? most : __builtin_nan(""), false);
    else if (kind == IR_COMBINE_MAX) *out = unsign ? 0 : top;
    else *out = unsign ? ones : ones ^ top;
    return true;
  case IR_COMBINE_AND: *out = ones; return true;
  case IR_COMBINE_OR:
  case IR_COMBINE_XOR: *out = 0; return true;
  default: return false;
  }
}

/// Lanes of the accumulators: a region's hold folded chunks.
static unsigned state_lanes_log2(const host *h, const ir_op *op, uint32_t reduced) {
  unsigned log2 = h->point->lanes_log2;
  return is_region(op) ? log2 - (unsigned)__builtin_popcount(reduced & ((1u << log2) - 1)) : log2;
}

static uint32_t reduced_bits(const ir_op *op) {
  unsigned first;
  return host_axis_bits(op->operands[0]->type, op->attrs.axis, &first);
}

static LLVMTypeRef state_type(host *h, const ir_op *op, uint32_t i, unsigned log2) {
  LLVMTypeRef element = host_element_type(h, ir_element(op->operands[i]->type));
  return log2 ? LLVMVectorType(element, 1u << log2) : element;
}

void host_reduce_begin(host *h, host_root *root) {
  ir_op *op = root->op;
  unsigned log2 = state_lanes_log2(h, op, reduced_bits(op));
  uint64_t bits = 0;
  bool known =
      identity(ir_element(op->operands[0]->type), (ir_combine)op->attrs.kind, op->attrs.flags, &bits);
  root->state = KILN_NEW_ARRAY(h->arena, LLVMValueRef, op->operand_count);
  for (uint32_t i = 0; i < op->operand_count; i++) {
    LLVMTypeRef type = state_type(h, op, i, log2);
    root->state[i] = host_stack(h, type);
    LLVMValueRef first =
        known ? host_constant(h, ir_element(op->operands[0]->type), bits) : LLVMConstNull(type);
    LLVMBuildStore(B, known && log2 ? host_splat(h, first, 1u << log2) : first, root->state[i]);
  }
  if (known) return;
  root->begun = host_stack(h, h->i1);
  LLVMBuildStore(B, LLVMConstInt(h->i1, 0, false), root->begun);
}

void host_reduce_chunk(host *h, host_root *root, const host_map *map) {
  ir_op *op = root->op;
  uint32_t n = op->operand_count, reduced = reduced_bits(op);
  LLVMValueRef *x = KILN_NEW_ARRAY(h->arena, LLVMValueRef, 3 * n), *before = x + n, *after = x + 2 * n;
  unsigned log2 = state_lanes_log2(h, op, reduced);
  for (uint32_t i = 0; i < n; i++) x[i] = host_pull_vector(h, op->operands[i], map);
  if (is_region(op)) fold(h, op, reduced, h->point->lanes_log2, true, x);
  for (uint32_t i = 0; i < n; i++)
    before[i] = LLVMBuildLoad2(B, state_type(h, op, i, log2), root->state[i], "");
  host_combine_lanes(h, op, before, x, after);
  LLVMValueRef begun = root->begun ? LLVMBuildLoad2(B, h->i1, root->begun, "") : NULL;
  for (uint32_t i = 0; i < n; i++)
    LLVMBuildStore(B, begun ? LLVMBuildSelect(B, begun, after[i], x[i], "") : after[i], root->state[i]);
  if (begun) LLVMBuildStore(B, LLVMConstInt(h->i1, 1, false), root->begun);
}

// Where an element of the result stands in terms of the root's index: the bits that were not reduced.
static host_map result_map(unsigned bits, uint32_t reduced, unsigned lanes_log2) {
  host_map map = {0};
  unsigned lane = 0;
  for (unsigned b = 0; b < bits; b++) {
    if (reduced >> b & 1) continue;
    map.from[map.count++] = (uint8_t)(b < lanes_log2 ? lane++ : b);
  }
  return map;
}

void host_reduce_end(host *h, host_root *root, const host_group *group) {
  ir_op *op = root->op;
  uint32_t n = op->operand_count, reduced = reduced_bits(op);
  unsigned log2 = state_lanes_log2(h, op, reduced), lanes = h->point->lanes_log2;
  LLVMValueRef *x = KILN_NEW_ARRAY(h->arena, LLVMValueRef, n);
  for (uint32_t i = 0; i < n; i++) x[i] = LLVMBuildLoad2(B, state_type(h, op, i, log2), root->state[i], "");
  if (!is_region(op)) fold(h, op, reduced, lanes, false, x);
  unsigned left = lanes - (unsigned)__builtin_popcount(reduced & ((1u << lanes) - 1));
  host_map map = result_map(group->bits, reduced, lanes);
  host_point point = *h->point, *outer = h->point;
  point.id = ++h->point_count;
  point.lanes_log2 = (uint8_t)left;
  h->point = &point;
  for (uint32_t i = 0; i < n; i++) {
    host_value *info = host_info(&op->results[i]);
    if (!op->results[i].type.rank) {
      info->lanes = (host_lanes){x[i], 0, HOST_UNIFORM};
      info->has_lanes = true;
    } else host_buffer_store(h, info->buffer, &map, (host_lanes){x[i], 0, left ? HOST_VECTOR : HOST_UNIFORM});
  }
  h->point = outer;
}
