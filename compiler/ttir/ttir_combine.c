// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions and scans with their regions, gather and histogram.
#include "compiler/ttir/ttir_forms.h"

// True when the region is one commuting operation on its two arguments; its kind and flags go to `attrs`.
static bool is_named(const ir_block *block, ir_attrs *attrs) {
  const ir_op *op = block->first, *end = ir_terminator(block);
  if (block->arg_count != 2 || !op || !end || op->next != end || op->operand_count != 2 ||
      end->operands[0] != op->results)
    return false;
  bool straight = op->operands[0] == block->args[0] && op->operands[1] == block->args[1];
  bool crossed = op->operands[0] == block->args[1] && op->operands[1] == block->args[0];
  if (!straight && !crossed) return false;
  for (unsigned kind = 0; kind < IR_COMBINE_COUNT; kind++)
    if (ir_combines[kind].operation == op->code) {
      attrs->kind = (uint8_t)kind;
      attrs->flags |= op->attrs.flags;
      return true;
    }
  return false;
}

// Constants of outer blocks are repeated inside: a combiner is a function of its own in the kernel language.
static void repeat_constants(ttir_reader *r, ir_block *block) {
  ir_builder inside = {.arena = r->arena, .block = block, .before = block->first};
  for (ir_op *op = block->first; op; op = op->next)
    for (uint32_t i = 0; i < op->operand_count; i++) {
      const ir_value *v = op->operands[i];
      if (v->def && v->def->code == IR_CONST && v->def->block != block)
        op->operands[i] = ir_const_bits(&inside, v->type, v->def->attrs.bits);
    }
}

// ({ ^bb0(%a: f32, %b: f32): .. })
static ir_block *read_combiner(ttir_reader *r) {
  ttir_expect(r, '(');
  ttir_expect(r, '{');
  ttir_region region = ttir_open_region(r);
  ttir_block_label(r, region.block);
  ttir_statements(r);
  ttir_expect(r, '}');
  ttir_expect(r, ')');
  ttir_close_region(r, &region);
  if (!r->failed) repeat_constants(r, region.block);
  return region.block;
}

// : (T, U) -> (V, W)   Types of operands are checked; results follow from the rules.
void ttir_read_signature(ttir_reader *r, ir_value *const *operands, uint32_t count) {
  ttir_expect(r, ':');
  ttir_expect(r, '(');
  for (uint32_t i = 0; i < count && !r->failed; i++) {
    if (i) ttir_expect(r, ',');
    ttir_check_type(r, operands[i], ttir_read_type(r, false).type);
  }
  ttir_expect(r, ')');
  if (r->lex.token.kind == TTIR_ARROW) ttir_lex_next(&r->lex);
  bool many = ttir_accept(r, '(');
  do ttir_read_type(r, false);
  while (!r->failed && many && ttir_accept(r, ','));
  if (many) ttir_expect(r, ')');
}

// "tt.reduce"(%a, %b) <{axis = 0 : i32}> ({ .. }) {axis = 0 : i32} : (T, U) -> (V, W); "tt.scan" also has
// reverse
void ttir_form_reduce(ttir_reader *r, const ttir_row *row) {
  ir_value *operands[TTIR_MAX_VALUES];
  ttir_dictionary *attributes = KILN_NEW(r->arena, ttir_dictionary);
  ttir_expect(r, '(');
  uint32_t count = ttir_values(r, operands, TTIR_MAX_VALUES);
  ttir_expect(r, ')');
  ttir_read_dictionary(r, attributes);
  if (r->failed) return;
  ir_block *block = read_combiner(r);
  ttir_read_dictionary(r, attributes);
  r->row = row;
  ttir_read_signature(r, operands, count);
  if (r->failed) return;
  int64_t axis = ttir_entry_int(attributes, "axis", 0);
  ir_attrs attrs = {.axis = (uint8_t)(axis < 0 || axis >= IR_MAX_RANK ? IR_MAX_RANK : axis),
                    .flags = ttir_entry_int(attributes, "reverse", 0) ? IR_REVERSE : 0};
  bool named = count == 1 && is_named(block, &attrs);
  ir_op *op = ttir_emit_regions(r, (ir_opcode)row->code, &attrs, operands, count, &block, named ? 0 : 1);
  for (uint32_t i = 0; op && i < op->result_count; i++) ttir_give(r, &op->results[i]);
}

// ------------------------------------------------------------------------------- gather and histogram

// tt.gather %src[%idx] {axis = 0 : i32} : (T, U) -> V
void ttir_form_gather(ttir_reader *r, const ttir_row *row) {
  ir_value *v[2];
  v[0] = ttir_value(r);
  ttir_expect(r, '[');
  v[1] = ttir_value(r);
  ttir_expect(r, ']');
  ttir_read_dictionary(r, &r->dictionary);
  ttir_read_signature(r, v, 2);
  if (r->failed) return;
  int64_t axis = ttir_entry_int(&r->dictionary, "axis", 0);
  ir_type source = v[0]->type, index = v[1]->type;
  bool fits = source.rank == index.rank && axis >= 0 && axis < source.rank && source.rank < IR_MAX_RANK &&
              !source.pointer;
  for (unsigned i = 0; fits && i < source.rank; i++)
    fits = i == (unsigned)axis || source.log2[i] == index.log2[i];
  if (!fits) ttir_error(r, "%s: expected indices in the shape of the source apart from the axis", row->name);
  if (!r->failed && index.scalar != KILN_I32) v[1] = ir_cast(&r->b, v[1], KILN_I32, 0, IR_ROUND_NEAREST);
  ttir_builder_error(r);
  ir_attrs attrs = {.axis = (uint8_t)axis};
  ir_op *op = r->failed ? NULL : ttir_emit(r, (ir_opcode)row->code, &attrs, v, 2, NULL);
  if (op) ttir_give(r, &op->results[0]);
}

// Of each element the bin that counts it, as an i32; -1: none does.
static ir_value *bins_of(ttir_reader *r, ir_value *v, ir_value *mask, unsigned log2_bins) {
  const unsigned bits = ir_type_bits(v->type);
  ir_value *bin = bits == 32 ? v : ir_cast(&r->b, v, KILN_I32, bits < 32 ? IR_UNSIGNED : 0, IR_ROUND_NEAREST);
  ir_value *none = ir_const_like(&r->b, ir_with_element(v->type, ir_scalar_type(KILN_I32)), -1);
  if (bits > 32) {
    ir_value *end = ir_const_like(&r->b, v->type, (int64_t)1 << log2_bins);
    ttir_builder_error(r);
    if (r->failed) return NULL;
    ir_value *is_bin = ir_compare(&r->b, IR_LT, IR_UNSIGNED, v, end);
    mask = mask ? ir_binary(&r->b, IR_AND, 0, mask, is_bin) : is_bin;
  }
  ttir_builder_error(r);
  if (r->failed) return NULL;
  return mask ? ir_ternary(&r->b, IR_SELECT, 0, mask, bin, none) : bin;
}

// tt.histogram %x[, %mask] : tensor<NxI> -> tensor<Mxi32>: how many elements equal each number below M
void ttir_form_histogram(ttir_reader *r, const ttir_row *row) {
  ir_value *v[2] = {NULL, NULL};
  ttir_values(r, v, 2);
  ttir_read_dictionary(r, &r->dictionary);
  ttir_check_type(r, v[0], ttir_colon_type(r).type);
  if (r->lex.token.kind == TTIR_ARROW) ttir_lex_next(&r->lex);
  ir_type to = ttir_read_type(r, false).type;
  if (r->failed) return;
  ir_type from = v[0]->type;
  if (from.rank != 1 || to.rank != 1 || ir_type_class(from) != KILN_CLASS_INT ||
      ir_type_class(to) != KILN_CLASS_INT) {
    ttir_error(r, "%s: expected integer tiles of one axis", row->name);
    return;
  }
  const ir_type count = ir_type_bits(to) < 32 ? ir_with_element(to, ir_scalar_type(KILN_I32)) : to;
  ir_value *operands[3] = {ir_const_like(&r->b, count, 0), bins_of(r, v[0], v[1], to.log2[0]),
                           ir_const_like(&r->b, ir_with_element(from, ir_element(count)), 1)};
  ttir_builder_error(r);
  ir_op *op = r->failed ? NULL : ttir_emit(r, (ir_opcode)row->code, NULL, operands, 3, NULL);
  if (!op) return;
  ir_value *counts = &op->results[0];
  if (!ir_type_equal(count, to)) counts = ir_cast(&r->b, counts, (kiln_scalar)to.scalar, 0, IR_ROUND_NEAREST);
  ttir_builder_error(r);
  if (!r->failed) ttir_give(r, counts);
}
