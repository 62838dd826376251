// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Block pointers: a tensor and the offset of a block in it, as one view (ttir_lex.h). An access makes a view
// of the tensor and looks at the block's place; along axes that it does not check, the place goes into the
// base and all lanes exist.
#include <math.h>

#include "compiler/ttir/ttir_forms.h"

enum { MAX_AXES = IR_MAX_RANK / 2 };

/// Base, extents, strides and offsets of a block pointer of `axes` axes, in order of the parts of its view:
/// the offsets are the strides of its second half.
typedef struct block {
  ir_value *parts[1 + 4 * MAX_AXES];
  ir_type type;
  unsigned axes;
} block;

static ir_value **extent(block *p, unsigned axis) { return &p->parts[1 + axis]; }
static ir_value **stride(block *p, unsigned axis) { return &p->parts[1 + 2 * p->axes + axis]; }
static ir_value **offset(block *p, unsigned axis) { return &p->parts[1 + 3 * p->axes + axis]; }

static void give_block(ttir_reader *r, block *p) {
  ir_op *op = ttir_emit(r, IR_VIEW, NULL, p->parts, 1 + 4 * p->axes, &p->type);
  if (op) ttir_give(r, &op->results[0]);
}

// `: <tensor<128x32xf16>>`, or the type in full
static bool read_block_type(ttir_reader *r, ir_type *out) {
  ttir_expect(r, ':');
  ir_type type = ttir_read_type(r, true).type, tile;
  if (r->failed) return false;
  *out = type;
  if (ttir_block_tile(type, &tile)) return true;
  type.is_view = 0;
  if (!ttir_block_pointer(type, out))
    ttir_error(r, "%s: expected a pointer to a tensor of 1 to %d axes", r->row->name, MAX_AXES);
  return !r->failed;
}

// tt.make_tensor_ptr %p, [%M, %K], [%s, %one], [%i, %j] {order = array<i32: 1, 0>} : <tensor<128x32xf16>>
void ttir_form_make_block(ttir_reader *r, const ttir_row *row) {
  ir_value *base = ttir_value(r), *lists[3][IR_MAX_RANK];
  block p = {.axes = 0};
  uint32_t counts[3] = {0, 0, 0};
  for (unsigned i = 0; i < 3; i++) {
    ttir_expect(r, ',');
    counts[i] = ttir_indices(r, lists[i], IR_MAX_RANK);
  }
  ttir_read_dictionary(r, &r->dictionary); // the order of the axes in memory: an advice
  if (!read_block_type(r, &p.type)) return;
  p.axes = p.type.rank / 2;
  if (counts[0] != p.axes || counts[1] != p.axes || counts[2] != p.axes) {
    ttir_error(r, "%s: expected %u extents, strides and offsets, found %u, %u and %u", row->name, p.axes,
               counts[0], counts[1], counts[2]);
    return;
  }
  p.parts[0] = base;
  for (unsigned i = 0; i < p.axes; i++) {
    *extent(&p, i) = lists[0][i];
    *extent(&p, p.axes + i) = ir_const_int(&r->b, KILN_I64, 1);
    *stride(&p, i) = lists[1][i];
    *offset(&p, i) = lists[2][i];
  }
  give_block(r, &p);
}

static bool take_block(ttir_reader *r, ir_value *pointer, block *out) {
  ir_type tile;
  if (r->failed) return false;
  if (!ttir_block_tile(pointer->type, &tile)) {
    ttir_error(r, "%s: expected a block pointer", r->row->name);
    return false;
  }
  out->type = pointer->type;
  out->axes = tile.rank;
  return ttir_view_parts(r, pointer, out->parts);
}

// tt.advance %p, [%i, %j] : <tensor<128x32xf16>>
void ttir_form_advance(ttir_reader *r, const ttir_row *row) {
  ir_value *pointer = ttir_value(r), *by[IR_MAX_RANK];
  block p;
  ir_type type;
  ttir_expect(r, ',');
  uint32_t count = ttir_indices(r, by, IR_MAX_RANK);
  ttir_read_dictionary(r, &r->dictionary);
  if (!read_block_type(r, &type)) return;
  ttir_check_type(r, pointer, type);
  if (!take_block(r, pointer, &p)) return;
  if (count != p.axes) {
    ttir_error(r, "%s: expected %u offsets, found %u", row->name, p.axes, count);
    return;
  }
  for (unsigned i = 0; i < p.axes; i++) *offset(&p, i) = ir_binary(&r->b, IR_ADD, 0, *offset(&p, i), by[i]);
  give_block(r, &p);
}

/// Bit i: the access checks axis i.
static uint32_t checked_axes(ttir_reader *r, unsigned axes) {
  int64_t list[IR_MAX_RANK];
  uint32_t count = ttir_entry_list(&r->dictionary, "boundaryCheck", list, IR_MAX_RANK), mask = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (list[i] < 0 || list[i] >= axes)
      ttir_error(r, "%s: boundaryCheck: expected axes below %u, found %lld", r->row->name, axes,
                 (long long)list[i]);
    else mask |= 1u << list[i];
  }
  return mask;
}

void ttir_block_access(ttir_reader *r, ir_value *pointer, ir_value *value, const ir_attrs *attrs) {
  enum { PAD_NAN = 2 };
  block p;
  ir_value *parts[1 + 2 * MAX_AXES], *operands[2 + MAX_AXES];
  ir_attrs all = *attrs;
  if (!take_block(r, pointer, &p)) return;
  uint32_t checked = checked_axes(r, p.axes), count = 0;
  ir_type tile = p.type, view;
  ttir_block_tile(p.type, &tile);
  view = tile;
  view.is_view = 1;
  parts[0] = p.parts[0];
  for (unsigned i = 0; i < p.axes && !r->failed; i++) {
    bool is_checked = checked >> i & 1;
    ir_value *moved = ir_binary(&r->b, IR_MUL, 0, *offset(&p, i), *stride(&p, i));
    if (!is_checked) parts[0] = ir_binary(&r->b, IR_PTRADD, 0, parts[0], moved);
    parts[1 + i] = is_checked ? *extent(&p, i) : ir_const_int(&r->b, KILN_I64, (int64_t)1 << tile.log2[i]);
    parts[1 + p.axes + i] = *stride(&p, i);
    operands[1 + i] = is_checked ? *offset(&p, i) : ir_const_int(&r->b, KILN_I64, 0);
    ttir_builder_error(r);
  }
  ir_op *made = ttir_emit(r, IR_VIEW, NULL, parts, 1 + 2 * p.axes, &view);
  if (!made) return;
  operands[0] = &made->results[0];
  count = 1 + p.axes;
  if (value) {
    operands[count++] = value;
    ttir_emit(r, IR_VIEW_STORE, &all, operands, count, NULL);
    return;
  }
  bool is_nan = ttir_entry_int(&r->dictionary, "padding", 0) == PAD_NAN;
  if (is_nan && ir_type_class(tile) == KILN_CLASS_FLOAT) {
    all.access.has_other = true;
    operands[count++] = ttir_splat_float(r, ir_element(tile), NAN);
  }
  ir_op *op = ttir_emit(r, IR_VIEW_LOAD, &all, operands, count, NULL);
  if (op) ttir_give(r, &op->results[0]);
}
