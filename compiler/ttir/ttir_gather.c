// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rows of a descriptor by a list of numbers: no view reaches them, so they are pointers and masks to the
// memory that the descriptor was made of.
#include <math.h>

#include "compiler/ttir/ttir_forms.h"

/// What a row list needs of `%d[%rows, %column]`.
typedef struct picked {
  ir_value *parts[5]; ///< base, two extents, two strides; scalars
  ir_value *rows, *column;
  bool pads_nan;
} picked;

enum { BASE, ROWS, COLUMNS, ROW_STRIDE, COLUMN_STRIDE };

static bool read_picked(ttir_reader *r, picked *p) {
  ir_value *view = ttir_value(r);
  ttir_expect(r, '[');
  p->rows = ttir_value(r);
  ttir_expect(r, ',');
  p->column = ttir_value(r);
  ttir_expect(r, ']');
  if (r->failed) return false;
  ir_type tile;
  if (!view->type.is_view || view->type.rank != 2 || ttir_block_tile(view->type, &tile)) {
    ttir_error(r, "%s: expected a descriptor of two axes", r->row->name);
    return false;
  }
  for (uint32_t i = 0; i < r->view_count; i++)
    if (r->views[i].view == view) p->pads_nan = r->views[i].pads_nan;
  if (!ttir_view_parts(r, view, p->parts)) return false;
  if (p->rows->type.rank == 1 && p->rows->type.scalar == KILN_I32 && p->column->type.scalar == KILN_I32 &&
      !p->column->type.rank)
    return true;
  ttir_error(r, "%s: expected a list of i32 rows and one i32 column", r->row->name);
  return false;
}

/// `index` (i32, one axis) as i64 along axis `along` of `shape`, its place in elements and whether it lies
/// within `extent`.
static ir_value *place_along(ttir_reader *r, ir_value *index, unsigned along, ir_value *extent,
                             ir_value *stride, ir_type shape, ir_value **inside) {
  ir_builder *b = &r->b;
  ir_value *wide = ir_cast(b, index, KILN_I64, 0, IR_ROUND_NEAREST);
  if (!wide) return NULL;
  ir_value *least = ir_compare(b, IR_GE, 0, wide, ir_const_like(b, wide->type, 0));
  ir_value *below = ir_compare(b, IR_LT, 0, wide, ir_splat(b, extent, wide->type));
  ir_value *fits = ir_expand(b, ir_binary(b, IR_AND, 0, least, below), 1 - along);
  ir_value *place = ir_expand(b, ir_binary(b, IR_MUL, 0, wide, ir_splat(b, stride, wide->type)), 1 - along);
  *inside = ir_broadcast(b, fits, ir_with_element(shape, ir_scalar_type(KILN_I1)));
  return ir_broadcast(b, place, ir_with_element(shape, ir_scalar_type(KILN_I64)));
}

/// Pointers to elements of `tile` and the mask of those that exist.
static bool addresses(ttir_reader *r, const picked *p, ir_type tile, ir_value **pointer, ir_value **mask) {
  ir_builder *b = &r->b;
  if (tile.rank != 2 || tile.pointer || tile.log2[0] != p->rows->type.log2[0]) {
    ttir_error(r, "%s: expected a tile of as many rows as are listed", r->row->name);
    return false;
  }
  ir_value *inside[2] = {NULL, NULL}, *lanes = ir_iota(b, tile.log2[1]);
  ir_value *columns = lanes ? ir_binary(b, IR_ADD, 0, ir_splat(b, p->column, lanes->type), lanes) : NULL;
  ir_value *down =
      columns ? place_along(r, p->rows, 0, p->parts[ROWS], p->parts[ROW_STRIDE], tile, &inside[0]) : NULL;
  ir_value *across =
      columns ? place_along(r, columns, 1, p->parts[COLUMNS], p->parts[COLUMN_STRIDE], tile, &inside[1])
              : NULL;
  if (down && across) {
    ir_value *base = ir_splat(b, p->parts[BASE], ir_with_element(tile, p->parts[BASE]->type));
    *pointer = ir_binary(b, IR_PTRADD, 0, base, ir_binary(b, IR_ADD, 0, down, across));
    *mask = ir_binary(b, IR_AND, 0, inside[0], inside[1]);
  }
  ttir_builder_error(r);
  return !r->failed;
}

// tt.descriptor_gather %d[%rows, %y] : (D, tensor<32xi32>, i32) -> tensor<32x64xf16>
void ttir_form_view_gather(ttir_reader *r, const ttir_row *row) {
  picked p = {.pads_nan = false};
  ir_value *v[3];
  if (!read_picked(r, &p)) return;
  ttir_read_dictionary(r, &r->dictionary);
  ttir_expect(r, ':');
  ttir_expect(r, '(');
  ttir_read_type(r, false);
  ttir_expect(r, ',');
  ttir_check_type(r, p.rows, ttir_read_type(r, false).type);
  ttir_expect(r, ',');
  ttir_check_type(r, p.column, ttir_read_type(r, false).type);
  ttir_expect(r, ')');
  if (r->lex.token.kind == TTIR_ARROW) ttir_lex_next(&r->lex);
  ir_type to = ttir_read_type(r, false).type;
  if (r->failed || !addresses(r, &p, to, &v[0], &v[1])) return;
  bool is_nan = p.pads_nan && ir_type_class(to) == KILN_CLASS_FLOAT;
  v[2] = is_nan ? ttir_splat_float(r, to, NAN) : ttir_splat_bits(r, to, 0);
  ir_op *op = r->failed ? NULL : ttir_emit(r, (ir_opcode)row->code, NULL, v, 3, NULL);
  if (op) ttir_give(r, &op->results[0]);
}

// tt.descriptor_scatter %d[%rows, %y], %v : D, tensor<32xi32>, i32, tensor<32x64xf16>
void ttir_form_view_scatter(ttir_reader *r, const ttir_row *row) {
  picked p = {.pads_nan = false};
  ir_value *v[3];
  if (!read_picked(r, &p)) return;
  ttir_expect(r, ',');
  v[1] = ttir_value(r);
  ttir_read_dictionary(r, &r->dictionary);
  ttir_expect(r, ':');
  ttir_read_type(r, false);
  ttir_expect(r, ',');
  ttir_check_type(r, p.rows, ttir_read_type(r, false).type);
  ttir_expect(r, ',');
  ttir_check_type(r, p.column, ttir_read_type(r, false).type);
  ttir_expect(r, ',');
  ttir_type value = ttir_read_type(r, false);
  if (r->failed) return;
  ttir_check_type(r, v[1], value.type);
  if (r->failed || !addresses(r, &p, v[1]->type, &v[0], &v[2])) return;
  ttir_emit(r, (ir_opcode)row->code, NULL, v, 3, NULL);
}
