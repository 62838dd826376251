// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensor descriptors, which are views here: made from a pointer, or passed by the host as a view parameter.
#include <math.h>
#include <string.h>

#include "compiler/ttir/ttir_forms.h"

static const ttir_view_fact *fact_of(const ttir_reader *r, const ir_value *view) {
  for (uint32_t i = r->view_count; i > 0; i--)
    if (r->views[i - 1].view == view) return &r->views[i - 1];
  return NULL;
}

uint32_t ttir_indices(ttir_reader *r, ir_value **out, uint32_t capacity) {
  ttir_expect(r, '[');
  uint32_t count = r->failed ? 0 : ttir_values(r, out, capacity);
  ttir_expect(r, ']');
  for (uint32_t i = 0; i < count && !r->failed; i++) {
    if (out[i]->type.scalar != KILN_I64) out[i] = ir_cast(&r->b, out[i], KILN_I64, 0, IR_ROUND_NEAREST);
    ttir_builder_error(r);
  }
  return r->failed ? 0 : count;
}

bool ttir_view_parts(ttir_reader *r, ir_value *view, ir_value **out) {
  unsigned rank = view->type.rank;
  for (unsigned i = 0; i < 1 + 2 * rank; i++) {
    ir_attrs attrs = {.axis = (uint8_t)(!i ? 0 : i <= rank ? i - 1 : i - 1 - rank)};
    ir_opcode part = i == 0 ? IR_VIEW_BASE : i <= rank ? IR_DIM : IR_VIEW_STRIDE;
    ir_op *op = ttir_emit(r, part, &attrs, &view, 1, NULL);
    if (!op) return false;
    out[i] = &op->results[0];
  }
  return true;
}

static ir_value *promise_multiple(ttir_reader *r, ir_value *value, int64_t of) {
  const ir_op *maker = value->def;
  if (of < 2 || (maker && maker->code == IR_CONST)) return value;
  ir_op *op = ttir_emit(r, IR_HINT, &(ir_attrs){.hint = {.divisible = of}}, &value, 1, NULL);
  return op ? &op->results[0] : value;
}

static void promise_alignment(ttir_reader *r, ir_value **parts, unsigned rank) {
  unsigned bytes = kiln_scalars[parts[0]->type.scalar].bytes;
  parts[0] = promise_multiple(r, parts[0], TTIR_DESCRIPTOR_BYTES);
  for (unsigned axis = 0; axis + 1 < rank; axis++)
    parts[1 + rank + axis] = promise_multiple(r, parts[1 + rank + axis], TTIR_DESCRIPTOR_BYTES / bytes);
}

// tt.make_tensor_descriptor %p, [%M, %K], [%s, %one] {padding = ..} : <f16>, <tensor<64x32xf16>>
void ttir_form_make_view(ttir_reader *r, const ttir_row *row) {
  ir_value *v[1 + 2 * IR_MAX_RANK];
  v[0] = ttir_value(r);
  ttir_expect(r, ',');
  uint32_t extents = ttir_indices(r, v + 1, IR_MAX_RANK);
  ttir_expect(r, ',');
  uint32_t strides = ttir_indices(r, v + 1 + extents, IR_MAX_RANK);
  ttir_read_dictionary(r, &r->dictionary);
  ttir_expect(r, ':');
  ttir_check_type(r, v[0], ttir_read_type(r, true).type);
  ttir_expect(r, ',');
  ttir_type to = ttir_read_type(r, true);
  if (r->failed) return;
  if (!to.type.is_view || extents != to.type.rank || strides != extents) {
    ttir_error(r, "%s: expected as many extents and strides as axes, found %u and %u", row->name, extents,
               strides);
    return;
  }
  promise_alignment(r, v, extents);
  ir_op *op = ttir_emit(r, (ir_opcode)row->code, NULL, v, 1 + extents + strides, &to.type);
  if (!op) return;
  ttir_view_fact fact = {.view = &op->results[0],
                         .is_unsigned = to.is_unsigned,
                         .pads_nan = ttir_entry_int(&r->dictionary, "padding", 1) == 2};
  KILN_GROW(r->arena, r->views, r->view_count, r->view_capacity);
  r->views[r->view_count++] = fact;
  ttir_give(r, &op->results[0]);
}

static void refuse_opaque(ttir_reader *r) {
  ttir_error(r,
             "%s: the descriptor lies in memory, in NVIDIA's own format; expected one of "
             "tt.make_tensor_descriptor or a parameter !tt.tensordesc",
             r->row->name);
}

// tt.reinterpret_tensor_descriptor, tt.experimental_tensormap_create
void ttir_form_opaque(ttir_reader *r, const ttir_row *row) {
  (void)row;
  refuse_opaque(r);
}

// `%d[%i, %j]`: the view and its indices into `v`. Returns their count.
static uint32_t read_place(ttir_reader *r, ir_value **v) {
  v[0] = ttir_value(r);
  uint32_t count = 1 + ttir_indices(r, v + 1, IR_MAX_RANK);
  ir_type tile;
  if (!r->failed && v[0]->type.pointer) refuse_opaque(r);
  if (!r->failed &&
      (!v[0]->type.is_view || ttir_block_tile(v[0]->type, &tile) || count != 1u + v[0]->type.rank))
    ttir_error(r, "%s: expected a descriptor with %u indices", r->row->name, v[0]->type.rank);
  return count;
}

// A word after a value list, such as a cache modifier: an advice only.
static void skip_advice(ttir_reader *r) {
  while (r->lex.token.kind == TTIR_WORD) {
    ttir_lex_next(&r->lex);
    if (ttir_accept(r, '=')) ttir_lex_next(&r->lex);
  }
  ttir_read_dictionary(r, &r->dictionary);
}

// tt.descriptor_load %d[%i, %j] : D -> T. T may leave out axes of extent 1.
void ttir_form_view_load(ttir_reader *r, const ttir_row *row) {
  ir_value *v[2 + IR_MAX_RANK];
  ir_attrs attrs = {0};
  uint32_t count = read_place(r, v);
  skip_advice(r);
  if (!r->failed) ttir_check_type(r, v[0], ttir_colon_type(r).type);
  if (r->lex.token.kind == TTIR_ARROW) ttir_lex_next(&r->lex);
  ir_type to = ttir_read_type(r, false).type;
  if (r->failed) return;
  const ttir_view_fact *fact = fact_of(r, v[0]);
  if (fact && fact->pads_nan && ir_type_class(to) == KILN_CLASS_FLOAT) {
    attrs.access.has_other = true;
    v[count++] = ttir_splat_float(r, ir_element(to), NAN);
  }
  ir_op *op = ttir_emit(r, (ir_opcode)row->code, &attrs, v, count, NULL);
  if (!op) return;
  bool same = ir_type_equal(op->results[0].type, to);
  ttir_give(r, same ? &op->results[0] : ir_reshape(&r->b, &op->results[0], to));
}

// `: D, T`; the value in the shape of the view's tile.
static ir_value *fit_value(ttir_reader *r, const ir_value *view, ir_value *value) {
  ttir_check_type(r, view, ttir_colon_type(r).type);
  ttir_expect(r, ',');
  ttir_check_type(r, value, ttir_read_type(r, false).type);
  if (r->failed) return NULL;
  ir_type tile = ir_view_tile(view->type);
  ir_value *fit = ir_same_shape(tile, value->type) ? value : ir_reshape(&r->b, value, tile);
  ttir_builder_error(r);
  return fit;
}

// tt.descriptor_store %d[%i, %j], %v : D, T
void ttir_form_view_store(ttir_reader *r, const ttir_row *row) {
  ir_value *v[2 + IR_MAX_RANK];
  uint32_t count = read_place(r, v);
  ttir_expect(r, ',');
  v[count] = ttir_value(r);
  skip_advice(r);
  if (!r->failed) v[count] = fit_value(r, v[0], v[count]);
  ttir_emit(r, (ir_opcode)row->code, NULL, v, count + 1, NULL);
}

/// A combination of two integers that atomics have too; 0: the word means none.
static uint8_t kind_of(ttir_token word) {
  for (unsigned kind = 0; kind < IR_COMBINE_COUNT; kind++) {
    const ir_combine_info *c = &ir_combines[kind];
    bool is_meant = strlen(c->text) == word.length && !memcmp(c->text, word.at, word.length);
    if (is_meant && c->classes && c->least_int) return (uint8_t)kind;
  }
  return 0;
}

// tt.descriptor_reduce add, %d[%i, %j], %v : D, T
void ttir_form_view_reduce(ttir_reader *r, const ttir_row *row) {
  ir_value *v[2 + IR_MAX_RANK];
  ttir_token word = ttir_take(r, TTIR_WORD, "what the reduction does");
  ir_attrs attrs = {.kind = r->failed ? 0 : kind_of(word)};
  if (!r->failed && attrs.kind == 0)
    ttir_error(r, "%s: unknown kind '%.*s'", row->name, (int)word.length, word.at);
  ttir_expect(r, ',');
  uint32_t count = read_place(r, v);
  ttir_expect(r, ',');
  v[count] = ttir_value(r);
  skip_advice(r);
  if (!r->failed) v[count] = fit_value(r, v[0], v[count]);
  if (r->failed) return;
  const ttir_view_fact *fact = fact_of(r, v[0]);
  bool ordered = attrs.kind == IR_COMBINE_MIN || attrs.kind == IR_COMBINE_MAX;
  if (ordered && fact && fact->is_unsigned) attrs.flags = IR_UNSIGNED;
  ttir_emit(r, (ir_opcode)row->code, &attrs, v, count + 1, NULL);
}
