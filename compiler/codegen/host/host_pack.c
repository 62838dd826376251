// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Factors of matrix products, packed in scratch memory in the type that is computed in.
//
// A lies row by row, or column by column where memory has it so: its elements are broadcast one by one. B lies
// in panels as wide as a register block, so that a block reads one run of memory from end to end. Where memory
// has B column by column, squares of a vector's lanes each way are transposed in registers.
//
// All of this is the order of index bits: a packed factor is a root that pulls under one map and is written
// under another.
#include "compiler/codegen/host/host.h"

#define B h->builder

enum { MAX_SQUARE = 64 };

static unsigned least(unsigned a, unsigned b) { return a < b ? a : b; }

/// Log2 of the extents of a factor: `reduced` is K, `other` M or N.
typedef struct extents {
  unsigned batch, reduced, other, bits;
} extents;

static extents extents_of(ir_type type, unsigned side) {
  unsigned rows = type.log2[type.rank - 2], columns = type.log2[type.rank - 1], bits = ir_log2_elements(type);
  return (extents){bits - rows - columns, side ? rows : columns, side ? columns : rows, bits};
}

// --------------------------------------------------------------------------------------- in chunks

static LLVMValueRef convert(host *h, kiln_scalar from, kiln_scalar to, LLVMValueRef x) {
  return from == to ? x : LLVMBuildSExt(B, x, host_like(h->types[to], x), "");
}

/// A row of a square, or elements in the order of the buffer.
void host_pack_chunk(host *h, const host_root *root) {
  const host_packing *p = root->packing;
  const host_buffer *to = p->turned ? p->turned : root->buffer;
  host_map identity = host_identity(p->turned ? 2u * h->point->lanes_log2 : p->order.count);
  LLVMValueRef x = host_pull_vector(h, root->value, &p->order);
  x = convert(h, (kiln_scalar)root->value->type.scalar, to->scalar, x);
  host_buffer_store(h, to, &identity, (host_lanes){x, 0, h->point->lanes_log2 ? HOST_VECTOR : HOST_UNIFORM});
}

// Swaps bit by bit of row and column: after step d, rows i and i + d have exchanged their off-diagonal
// squares of d lanes.
static void transpose_registers(host *h, LLVMValueRef *x, unsigned count) {
  uint32_t low[MAX_SQUARE], high[MAX_SQUARE];
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

/// Behind the rows of a square: writes its columns. The point has one digit more than those around the square:
/// the column.
void host_pack_end(host *h, const host_root *root) {
  const host_packing *p = root->packing;
  unsigned log2 = h->point->lanes_log2, count = 1u << log2;
  host_map square = host_identity(2 * log2);
  LLVMValueRef x[MAX_SQUARE];
  host_point around = *h->point, *outer = h->point;
  if (!p->turned) return;
  around.digit_count = 0;
  for (unsigned i = 0; i < outer->digit_count; i++)
    if (outer->digits[i].first >= 2 * log2) around.digits[around.digit_count++] = outer->digits[i];
  host_point_digit(&around, NULL, log2, log2);
  h->point = &around;
  for (unsigned side = 0; side < 2; side++) {
    for (unsigned i = 0; i < count; i++) {
      around.id = ++h->point_count;
      around.digits[around.digit_count - 1].counter = host_i64(h, i);
      if (side) host_buffer_store(h, root->buffer, &p->place, (host_lanes){x[i], 0, HOST_VECTOR});
      else x[i] = host_buffer_load(h, p->turned, &square).value;
    }
    if (!side) transpose_registers(h, x, count);
  }
  h->point = outer;
}

// ------------------------------------------------------------------------------------------- order

/// A column by column: [.., K, M].
static void order_columns(extents e, host_packing *p) {
  for (unsigned b = 0; b < e.reduced; b++) p->order.from[b] = (uint8_t)(e.other + b);
  for (unsigned b = 0; b < e.other; b++) p->order.from[e.reduced + b] = (uint8_t)b;
  p->splits = 1u << e.other | 1u << (e.other + e.reduced);
}

/// B in panels, [.., N / panel, K, panel], pulled in this order.
static void order_panels(extents e, unsigned panel, host_packing *p) {
  for (unsigned b = panel; b < e.other; b++) p->order.from[b] = (uint8_t)(e.reduced + b);
  for (unsigned b = 0; b < e.reduced; b++) p->order.from[e.other + b] = (uint8_t)(panel + b);
  p->splits = 1u << panel | 1u << (panel + e.reduced) | 1u << (e.other + e.reduced);
  p->lanes_log2 = (uint8_t)panel;
}

/// The same, pulled with K along the lanes: [.., N / side, K / side, side of N, side of K].
static void order_squares(extents e, unsigned panel, unsigned side, host_packing *p) {
  unsigned k = e.reduced, n = e.other;
  for (unsigned b = 0; b < n; b++) p->order.from[b] = (uint8_t)(b < side ? side + b : k + b);
  for (unsigned b = 0; b < k; b++) p->order.from[n + b] = (uint8_t)(b < side ? b : side + b);
  for (unsigned b = side; b < panel; b++) p->place.from[b] = (uint8_t)(k + b);
  for (unsigned b = 0; b < k; b++) p->place.from[panel + b] = (uint8_t)(side + b);
  for (unsigned b = panel; b < n; b++) p->place.from[k + b] = (uint8_t)(k + b);
  p->splits = 1u << (k + side) | 1u << (n + k);
  p->lanes_log2 = (uint8_t)side;
}

static LLVMValueRef pack_root(host *h, ir_value *v, kiln_scalar to, const host_packing *p, uint32_t reduced) {
  host_buffer *buffer = host_buffer_create(h, ir_with_element(v->type, ir_scalar_type(to)));
  host_root root = {.kind = HOST_ROOT_PACK, .value = v, .buffer = buffer, .packing = p};
  host_flush(h);
  host_add_root(h, &root, v->type, reduced);
  host_flush(h);
  return buffer->pointer;
}

static host_factor pack_rows(host *h, ir_value *v, kiln_scalar to, extents e, host_packing *p) {
  const host_buffer *kept = host_info(v)->buffer;
  host_factor f = {.row = (uint8_t)e.reduced};
  if (kept && kept->scalar == to) {
    f.pointer = kept->pointer;
    return f;
  }
  if (!kept && host_info(v)->swapped && e.other > 1) {
    f = (host_factor){.step = (uint8_t)e.other};
    order_columns(e, p);
  }
  f.pointer = pack_root(h, v, to, p, 0);
  return f;
}

static host_factor pack_panels(host *h, ir_value *v, kiln_scalar to, extents e, unsigned panel,
                               host_packing *p) {
  const host_buffer *kept = host_info(v)->buffer;
  host_factor f = {.row = (uint8_t)(panel + e.reduced), .step = (uint8_t)panel};
  unsigned side = least(host_log2(h->vector_bytes / kiln_scalars[to].bytes), least(e.reduced, e.other));
  uint32_t reduced = 0;
  if (kept && kept->scalar == to && panel == e.other) {
    f.pointer = kept->pointer;
    return f;
  }
  if (!kept && host_info(v)->swapped && side > 1) {
    ir_type square = {.rank = 2, .scalar = (uint8_t)to, .log2 = {(uint8_t)side, (uint8_t)side}};
    order_squares(e, panel, side, p);
    p->turned = host_buffer_create(h, square);
    reduced = ((1u << side) - 1) << side;
  } else if (panel < e.other) order_panels(e, panel, p);
  f.pointer = pack_root(h, v, to, p, reduced);
  return f;
}

host_factor host_pack(host *h, ir_value *v, kiln_scalar to, unsigned side, unsigned panel) {
  extents e = extents_of(v->type, side);
  host_packing *p = KILN_NEW(h->arena, host_packing);
  if (host_info(v)->packed[side]) return *host_info(v)->packed[side];
  p->order = p->place = host_identity(e.bits);
  return side ? pack_panels(h, v, to, e, panel, p) : pack_rows(h, v, to, e, p);
}
