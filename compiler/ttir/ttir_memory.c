// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pointers, loads and stores, barriers, facts.
#include <string.h>

#include "compiler/ttir/ttir_forms.h"

static const ttir_keyword caches[] = {
    {"none", IR_CACHE_DEFAULT}, {"ca", IR_CACHE_CA}, {"cg", IR_CACHE_CG}, {"cv", IR_CACHE_CV},
    {"wb", IR_CACHE_WB},        {"cs", IR_CACHE_CS}, {"wt", IR_CACHE_WT},
};
static const ttir_keyword evictions[] = {
    {"evict_normal", IR_EVICT_NORMAL},
    {"evict_first", IR_EVICT_FIRST},
    {"evict_last", IR_EVICT_LAST},
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

// `cacheModifier = cg evictionPolicy = evict_last {isVolatile = true}`, in any order.
static void read_hints(ttir_reader *r, ir_attrs *attrs) {
  while (!r->failed) {
    if (ttir_accept_word(r, "cacheModifier")) {
      ttir_expect(r, '=');
      attrs->cache = ttir_read_keyword(r, caches, COUNT(caches), "cache modifier");
    } else if (ttir_accept_word(r, "evictionPolicy")) {
      ttir_expect(r, '=');
      attrs->evict = ttir_read_keyword(r, evictions, COUNT(evictions), "eviction policy");
    } else break;
  }
  ttir_read_dictionary(r, &r->dictionary);
  if (ttir_entry_int(&r->dictionary, "isVolatile", 0)) attrs->flags |= IR_VOLATILE;
}

// True when an access goes through a block pointer: then it has been emitted, or refused.
static bool through_block(ttir_reader *r, ir_value *const *v, uint32_t count, uint32_t most,
                          const ir_attrs *attrs) {
  ir_type tile;
  int64_t axis;
  if (r->failed || !ttir_block_tile(v[0]->type, &tile)) {
    bool checks = !r->failed && ttir_entry_list(&r->dictionary, "boundaryCheck", &axis, 1);
    if (checks) ttir_error(r, "%s: boundaryCheck belongs to block pointers", r->row->name);
    return false;
  }
  if (count != most) ttir_error(r, "%s: a block pointer has no mask", r->row->name);
  else ttir_block_access(r, v[0], most == 2 ? v[1] : NULL, attrs);
  return true;
}

// tt.addptr %p, %i : PTR, INT
void ttir_form_addptr(ttir_reader *r, const ttir_row *row) {
  ir_value *v[2];
  if (!ttir_operands(r, v, 2)) return;
  ttir_read_dictionary(r, &r->dictionary);
  ttir_check_type(r, v[0], ttir_colon_type(r).type);
  ttir_expect(r, ',');
  ttir_check_type(r, v[1], ttir_read_type(r, false).type);
  if (r->failed) return;
  if (ir_type_class(v[1]->type) == KILN_CLASS_INT && ir_type_bits(v[1]->type) < 32)
    v[1] = ir_cast(&r->b, v[1], KILN_I32, 0, IR_ROUND_NEAREST);
  ir_op *op = ttir_emit(r, (ir_opcode)row->code, NULL, v, 2, NULL);
  if (op) ttir_give(r, &op->results[0]);
}

// tt.load %p[, %mask[, %other]] hints : PTR
void ttir_form_load(ttir_reader *r, const ttir_row *row) {
  ir_value *v[3];
  ir_attrs attrs = {0};
  uint32_t count = ttir_values(r, v, 3);
  read_hints(r, &attrs);
  ttir_check_type(r, v[0], ttir_colon_type(r).type);
  if (through_block(r, v, count, 1, &attrs) || r->failed) return;
  ttir_spread_all(r, v, 1, count);
  ir_op *op = ttir_emit(r, (ir_opcode)row->code, &attrs, v, count, NULL);
  if (op) ttir_give(r, &op->results[0]);
}

// tt.store %p, %v[, %mask] hints : PTR
void ttir_form_store(ttir_reader *r, const ttir_row *row) {
  ir_value *v[3];
  ir_attrs attrs = {0};
  uint32_t count = ttir_values(r, v, 3);
  read_hints(r, &attrs);
  ttir_check_type(r, v[0], ttir_colon_type(r).type);
  if (!r->failed && count < 2) ttir_error(r, "%s: expected a pointer and a value", row->name);
  attrs.flags = 0;
  if (through_block(r, v, count, 2, &attrs) || r->failed) return;
  ttir_spread_all(r, v, 1, count);
  ttir_emit(r, (ir_opcode)row->code, &attrs, v, count, NULL);
}

// --------------------------------------------------------------------------------- order and facts

// gpu.barrier; ttg.barrier local
void ttir_form_barrier(ttir_reader *r, const ttir_row *row) {
  while (r->lex.token.kind == TTIR_WORD && r->lex.token.line == r->line && !ttir_peek_word(r, "loc")) {
    ttir_lex_next(&r->lex); // the memories it orders: ours orders all
    ttir_accept(r, '|');
  }
  ttir_read_dictionary(r, &r->dictionary);
  ttir_emit(r, (ir_opcode)row->code, NULL, NULL, 0, NULL);
}

// llvm.intr.assume %c : i1
void ttir_form_assume(ttir_reader *r, const ttir_row *row) {
  ir_value *v = ttir_value(r);
  ttir_read_dictionary(r, &r->dictionary);
  ttir_check_type(r, v, ttir_colon_type(r).type);
  if (!r->failed) ttir_emit(r, (ir_opcode)row->code, NULL, &v, 1, NULL);
}

// tt.assert %c, "message" : T
void ttir_form_assert(ttir_reader *r, const ttir_row *row) {
  ir_value *v = ttir_value(r);
  ttir_expect(r, ',');
  ttir_token text = ttir_take(r, TTIR_STRING, "the message of an assertion");
  for (int i = 0; i < 2 && ttir_accept(r, ','); i++)
    ttir_take(r, TTIR_STRING, "the file or function of an assertion"); // Triton 3.1
  if (ttir_accept(r, ',')) ttir_integer(r);
  ttir_read_dictionary(r, &r->dictionary);
  ir_type type = ttir_colon_type(r).type;
  ttir_check_type(r, v, type);
  if (r->failed) return;
  ir_attrs attrs = {.assertion = {ttir_unquote(r->arena, text.at, text.length), r->line}};
  bool integer = ir_type_class(type) == KILN_CLASS_INT;
  if (integer) v = ir_compare(&r->b, IR_NE, 0, v, ttir_splat_bits(r, type, 0));
  ttir_builder_error(r);
  if (!r->failed) ttir_emit(r, (ir_opcode)row->code, &attrs, &v, 1, NULL);
}

// tt.print "prefix" {hex = false, isSigned = array<i32: 1, 0>} : %a, %b : T, U. One line for each element, of one
// operand after the other.
void ttir_form_print(ttir_reader *r, const ttir_row *row) {
  (void)row;
  ir_value *v[TTIR_MAX_VALUES];
  uint32_t count = 0;
  ttir_token prefix = ttir_take(r, TTIR_STRING, "the prefix of a print");
  ttir_read_dictionary(r, &r->dictionary);
  const bool is_hex = ttir_entry_int(&r->dictionary, "hex", 0);
  int64_t is_signed[TTIR_MAX_VALUES];
  const uint32_t known = ttir_entry_list(&r->dictionary, "isSigned", is_signed, TTIR_MAX_VALUES);
  if (ttir_accept(r, ':')) {
    count = ttir_values(r, v, TTIR_MAX_VALUES);
    ttir_expect(r, ':');
  }
  for (uint32_t i = 0; i < count && !r->failed; i++) {
    if (i) ttir_expect(r, ',');
    ttir_check_type(r, v[i], ttir_read_type(r, false).type);
  }
  if (r->failed) return;
  const char *text = ttir_unquote(r->arena, prefix.at, prefix.length);
  if (!count) ir_print_value(&r->b, text, NULL, false, 0);
  for (uint32_t i = 0; i < count; i++) {
    const char *its = count > 1 ? kiln_arena_format(r->arena, "%s(operand %u) ", text, i) : text;
    const unsigned digits = is_hex && !v[i]->type.pointer ? (ir_type_bits(v[i]->type) + 3) / 4 : 0;
    ir_print_value(&r->b, its, v[i], i < known && !is_signed[i], digits);
  }
  ttir_builder_error(r);
}

// tt.grid_dependency_wait: launches here do not overlap, so there is nothing to wait for.
void ttir_form_nothing(ttir_reader *r, const ttir_row *row) {
  (void)row;
  ttir_read_dictionary(r, &r->dictionary);
}
