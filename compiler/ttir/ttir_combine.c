// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions and scans with their regions, and what is expanded into them: gather and histogram.
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

// -------------------------------------------------------------------------------------- expansions

enum { MAX_LOG2_EXPANSION = 18 }; // elements of the tile in which all pairs stand

static bool pairs_fit(ttir_reader *r, unsigned log2) {
  if (log2 <= MAX_LOG2_EXPANSION) return true;
  ttir_error(r, "%s compares all pairs; expected at most 2^%d of them, found 2^%u", r->row->name,
             MAX_LOG2_EXPANSION, log2);
  return false;
}

// The numbers 0.. along `axis` in the shape of `type`, as i32.
static ir_value *numbers_along(ttir_reader *r, ir_type type, unsigned axis) {
  ir_value *v = ir_iota(&r->b, type.log2[axis]);
  for (unsigned i = 0; v && i < type.rank; i++)
    if (i != axis) v = ir_expand(&r->b, v, i);
  return v ? ir_broadcast(&r->b, v, type) : NULL;
}

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

// tt.histogram %x[, %mask] : tensor<NxI> -> tensor<Mxi32>: how many elements equal each number below M
void ttir_form_histogram(ttir_reader *r, const ttir_row *row) {
  ir_value *v[2] = {NULL, NULL};
  uint32_t count = ttir_values(r, v, 2);
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
  if (!pairs_fit(r, (unsigned)from.log2[0] + to.log2[0])) return;
  ir_type pairs = {.scalar = from.scalar, .rank = 2, .log2 = {from.log2[0], to.log2[0]}};
  ir_value *values = ir_broadcast(&r->b, ir_expand(&r->b, v[0], 1), pairs);
  ir_value *bins = numbers_along(r, ir_with_element(pairs, ir_scalar_type(KILN_I32)), 1);
  if (bins && from.scalar != KILN_I32)
    bins = ir_cast(&r->b, bins, (kiln_scalar)from.scalar, 0, IR_ROUND_NEAREST);
  ttir_builder_error(r);
  if (r->failed) return;
  ir_value *hit = ir_compare(&r->b, IR_EQ, 0, values, bins);
  if (count == 2 && hit) {
    ir_value *mask =
        ir_broadcast(&r->b, ir_expand(&r->b, v[1], 1), ir_with_element(pairs, ir_scalar_type(KILN_I1)));
    ttir_builder_error(r);
    hit = r->failed ? NULL : ir_binary(&r->b, IR_AND, 0, hit, mask);
  }
  ir_value *ones = hit ? ir_cast(&r->b, hit, (kiln_scalar)to.scalar, 0, IR_ROUND_NEAREST) : NULL;
  ir_attrs attrs = {.kind = IR_COMBINE_ADD, .axis = 0};
  ttir_builder_error(r);
  ir_op *op = ones ? ttir_emit(r, IR_REDUCE, &attrs, &ones, 1, NULL) : NULL;
  if (op) ttir_give(r, &op->results[0]);
}
