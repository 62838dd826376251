// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Factors of matrix products, packed in scratch memory in the type that is computed in.
//
// A lies row by row, or column by column where memory has it so: its elements are broadcast one by one. B
// lies in panels as wide as a register block, so that a block reads one run of memory from end to end. Where
// memory has B column by column, squares of a vector's lanes each way are transposed in registers.
//
// All of this is the order of index bits: a packed factor is a root that pulls under one map and is written
// under another.
//
// Bytes may be packed as pairs: two neighbours along K, 16 bits each, are one element of 32 bits to all that
// follows.
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
  return from == to ? x : LLVMBuildSExt(B, x, kiln_type_like(h->elements.types[to], x), "");
}

/// A row of a square, or elements in the order of the buffer.
void host_pack_chunk(host *h, const host_root *root) {
  const host_packing *p = root->packing;
  const host_buffer *to = p->turned ? p->turned : root->buffer;
  host_map identity = host_identity(p->turned ? 2u * p->side + p->pairs : p->order.count);
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

/// The point of a column of the square that the rows around `outer` made. Pairs are elements here.
static host_point column_point(host *h, const host_point *outer, const host_packing *p, unsigned column) {
  unsigned rows_end = 2u * p->side + p->pairs;
  host_point point;
  host_point_init(h, &point, p->side);
  for (unsigned i = 0; i < outer->digit_count; i++) {
    const host_digit *d = &outer->digits[i];
    if (d->first >= rows_end) host_point_digit(&point, d->counter, d->first - p->pairs, d->count);
  }
  host_point_digit(&point, host_i64(h, column), p->side, p->side);
  return point;
}

/// After the rows of a square: writes its columns.
void host_pack_end(host *h, const host_root *root) {
  const host_packing *p = root->packing;
  unsigned count = 1u << p->side;
  LLVMValueRef x[MAX_SQUARE] = {NULL};
  host_point *outer = h->point;
  if (!p->turned) return;
  host_map square = host_identity(2u * p->side);
  host_buffer rows = *p->turned;
  if (p->pairs) rows.scalar = KILN_I32;
  for (unsigned side = 0; side < 2; side++) {
    for (unsigned i = 0; i < count; i++) {
      host_point point = column_point(h, outer, p, i);
      h->point = &point;
      if (side) host_buffer_store(h, root->buffer, &p->place, (host_lanes){x[i], 0, HOST_VECTOR});
      else x[i] = host_buffer_load(h, &rows, &square).value;
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

/// The same, pulled with K along the lanes: [.., N / side, K / side, side of N, side of K], a pair along K
/// below these.
static void order_squares(extents e, unsigned panel, host_packing *p) {
  unsigned pair = p->pairs, k = e.reduced - pair, n = e.other, side = p->side;
  for (unsigned b = 0; b < n; b++) p->order.from[b] = (uint8_t)(pair + (b < side ? side : k) + b);
  for (unsigned b = 0; b < k; b++) p->order.from[n + pair + b] = (uint8_t)(pair + (b < side ? b : side + b));
  if (pair) p->order.from[n] = 0;
  p->place = host_identity(e.bits - pair);
  for (unsigned b = side; b < panel; b++) p->place.from[b] = (uint8_t)(k + b);
  for (unsigned b = 0; b < k; b++) p->place.from[panel + b] = (uint8_t)(side + b);
  for (unsigned b = panel; b < n; b++) p->place.from[k + b] = (uint8_t)(k + b);
  p->splits = 1u << (pair + k + side) | 1u << (pair + n + k);
  p->lanes_log2 = (uint8_t)(side + pair);
}

static LLVMValueRef pack_root(host *h, ir_value *v, kiln_scalar to, const host_packing *p) {
  host_buffer *buffer = host_buffer_create(h, ir_with_element(v->type, ir_scalar_type(to)));
  host_root root = {.kind = HOST_ROOT_PACK, .value = v, .buffer = buffer, .packing = p};
  uint32_t rows = ((1u << p->side) - 1) << p->lanes_log2;
  if (p->pairs && p->turned) buffer->scalar = KILN_I32;
  host_flush(h);
  host_add_root(h, &root, v->type, p->turned ? rows : 0);
  host_flush(h);
  return buffer->pointer;
}

static host_factor pack_rows(host *h, ir_value *v, kiln_scalar to, extents e, host_packing *p) {
  const host_buffer *kept = host_info(v)->buffer;
  host_factor f = {.row = (uint8_t)(e.reduced - p->pairs)};
  if (kept && kept->scalar == to) {
    f.pointer = kept->pointer;
    return f;
  }
  if (!kept && host_info(v)->swapped && e.other > 1) {
    f = (host_factor){.step = (uint8_t)e.other};
    order_columns(e, p);
  }
  f.pointer = pack_root(h, v, to, p);
  return f;
}

static unsigned square_side(const host *h, kiln_scalar element, unsigned k, unsigned n) {
  return least(host_log2(h->vector_bytes / kiln_scalars[element].bytes), least(k, n));
}

static host_factor pack_panels(host *h, ir_value *v, kiln_scalar to, extents e, unsigned panel,
                               host_packing *p) {
  const host_buffer *kept = host_info(v)->buffer;
  unsigned k = e.reduced - p->pairs, side = square_side(h, p->pairs ? KILN_I32 : to, k, e.other);
  host_factor f = {.row = (uint8_t)(panel + k), .step = (uint8_t)panel};
  if (kept && kept->scalar == to && panel == e.other) {
    f.pointer = kept->pointer;
    return f;
  }
  if (!kept && host_info(v)->swapped && side > 1) {
    ir_type square = {.rank = 2, .scalar = (uint8_t)to, .log2 = {(uint8_t)side, (uint8_t)(side + p->pairs)}};
    p->side = (uint8_t)side;
    p->turned = host_buffer_create(h, square);
    order_squares(e, panel, p);
  } else if (panel < e.other) order_panels(e, panel, p);
  f.pointer = pack_root(h, v, to, p);
  return f;
}

bool host_pack_pairs(const host *h, const ir_op *dot) {
  const host_value *a = host_info(dot->operands[0]), *b = host_info(dot->operands[1]);
  extents e = extents_of(dot->operands[1]->type, 1);
  return h->has_pairs && dot->operands[0]->type.scalar == KILN_I8 && e.reduced &&
         (a->buffer || !a->swapped) && !b->buffer && b->swapped &&
         square_side(h, KILN_I32, e.reduced - 1, e.other) > 1;
}

host_factor host_pack(host *h, ir_value *v, kiln_scalar to, bool pairs, unsigned side, unsigned panel) {
  extents e = extents_of(v->type, side);
  const host_factor *before = host_info(v)->packed[side];
  if (before && before->pairs == pairs) return *before;
  host_packing *p = KILN_NEW(h->arena, host_packing);
  p->order = host_identity(e.bits);
  p->pairs = pairs;
  if (pairs) to = KILN_I16;
  host_factor f = side ? pack_panels(h, v, to, e, panel, p) : pack_rows(h, v, to, e, p);
  f.pairs = pairs;
  return f;
}
