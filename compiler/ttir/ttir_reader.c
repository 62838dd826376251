// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names in scope, values, and what a form makes of an operation: emission, results, types that the text states.
#include <string.h>

#include "compiler/ttir/ttir_reader.h"

// ------------------------------------------------------------------------------------------- names

static uint32_t hash_of(const char *text, uint32_t length) {
  uint32_t hash = 2166136261u;
  for (uint32_t i = 0; i < length; i++) hash = (hash ^ (uint8_t)text[i]) * 16777619u;
  return hash;
}

static const ttir_name *find_name(const ttir_reader *r, const char *text, uint32_t length) {
  uint32_t hash = hash_of(text, length);
  for (uint32_t at = r->slots[hash % TTIR_SLOTS]; at > r->name_floor; at = r->names[at - 1].shadowed) {
    const ttir_name *name = &r->names[at - 1];
    if (name->hash == hash && name->length == length && memcmp(name->text, text, length) == 0) return name;
  }
  return NULL;
}

void ttir_define(ttir_reader *r, ttir_token token, ir_value *const *values, uint32_t count) {
  if (r->failed) return;
  if (find_name(r, token.at, token.length)) {
    ttir_error(r, "%%%.*s is defined twice", (int)token.length, token.at);
    return;
  }
  ttir_name name = {
      .text = token.at, .length = token.length, .hash = hash_of(token.at, token.length), .count = count};
  if (count == 1) name.values.one = values[0];
  else name.values.many = kiln_arena_copy(r->arena, values, count * sizeof *values);
  uint32_t *slot = &r->slots[name.hash % TTIR_SLOTS];
  name.shadowed = *slot;
  KILN_GROW(r->arena, r->names, r->name_count, r->name_capacity);
  r->names[r->name_count++] = name;
  *slot = r->name_count;
}

uint32_t ttir_scope(const ttir_reader *r) { return r->name_count; }

void ttir_leave(ttir_reader *r, uint32_t scope) {
  while (r->name_count > scope) {
    const ttir_name *name = &r->names[--r->name_count];
    r->slots[name->hash % TTIR_SLOTS] = name->shadowed;
  }
}
ttir_region ttir_open_region(ttir_reader *r) {
  ttir_region region = {.block = KILN_NEW(r->arena, ir_block), .outer = r->b.block, .scope = ttir_scope(r)};
  if (++r->depth > TTIR_MAX_DEPTH) ttir_error(r, "regions are nested deeper than %d", TTIR_MAX_DEPTH);
  r->b.block = region.block;
  return region;
}

void ttir_close_region(ttir_reader *r, const ttir_region *region) {
  r->depth--;
  ttir_leave(r, region->scope);
  r->b.block = region->outer;
  r->result_count = 0;
  r->dictionary.count = 0;
}

ir_value *ttir_value(ttir_reader *r) {
  ttir_token token = ttir_take(r, TTIR_VALUE, "a value");
  if (r->failed) return NULL;
  const ttir_name *name = find_name(r, token.at, token.length);
  uint32_t index = 0;
  bool indexed = r->lex.token.kind == TTIR_ALIAS && r->lex.token.start == token.at + token.length;
  if (indexed) {
    const ttir_token *number = &r->lex.token;
    for (uint32_t i = 0; i < number->length && index < TTIR_MAX_VALUES; i++) {
      if (number->at[i] < '0' || number->at[i] > '9')
        ttir_error(r, "expected a number after '%%%.*s#'", (int)token.length, token.at);
      index = index * 10 + (uint32_t)(number->at[i] - '0');
    }
    ttir_lex_next(&r->lex);
  }
  if (r->failed) return NULL;
  if (!name) {
    ttir_error(r, "%%%.*s is not defined", (int)token.length, token.at);
    return NULL;
  }
  if (index >= name->count || (!indexed && name->count != 1)) {
    ttir_error(r, "%%%.*s has %u values, number %u was asked for", (int)token.length, token.at, name->count,
               index);
    return NULL;
  }
  return name->count == 1 ? name->values.one : name->values.many[index];
}

uint32_t ttir_values(ttir_reader *r, ir_value **out, uint32_t capacity) {
  uint32_t count = 0;
  do {
    ir_value *value = ttir_value(r);
    if (r->failed) return 0;
    if (count == capacity) {
      ttir_error(r, "expected at most %u values", capacity);
      return 0;
    }
    out[count++] = value;
  } while (ttir_accept(r, ','));
  return count;
}

bool ttir_operands(ttir_reader *r, ir_value **out, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (i) ttir_expect(r, ',');
    out[i] = ttir_value(r);
  }
  return !r->failed;
}

// ---------------------------------------------------------------------------------------- emission

void ttir_give(ttir_reader *r, ir_value *value) {
  ttir_builder_error(r);
  if (r->failed || !value) return;
  if (r->result_count == TTIR_MAX_VALUES) {
    ttir_error(r, "expected at most %d results", TTIR_MAX_VALUES);
    return;
  }
  r->results[r->result_count++] = value;
}

void ttir_give_results(ttir_reader *r, const ir_op *op) {
  for (uint32_t i = 0; op && i < op->result_count; i++) ttir_give(r, &op->results[i]);
}

void ttir_check_type(ttir_reader *r, const ir_value *value, ir_type stated) {
  ttir_builder_error(r);
  if (r->failed || !value || ir_type_equal(value->type, stated)) return;
  char want[IR_TYPE_TEXT], got[IR_TYPE_TEXT];
  ttir_error(r, "%s: the text says %s, the value is %s", r->row->name, ir_type_text(stated, want),
             ir_type_text(value->type, got));
}

ir_type ttir_read_operand_types(ttir_reader *r, ir_value *const *v, uint32_t count) {
  ttir_read_dictionary(r, &r->dictionary);
  ttir_expect(r, ':');
  ttir_expect(r, '(');
  for (uint32_t i = 0; i < count && !r->failed; i++) {
    if (i) ttir_expect(r, ',');
    ttir_check_type(r, v[i], ttir_read_type(r, false).type);
  }
  ttir_expect(r, ')');
  if (r->lex.token.kind == TTIR_ARROW) ttir_lex_next(&r->lex);
  return ttir_read_type(r, false).type;
}

ir_op *ttir_emit_regions(ttir_reader *r, ir_opcode code, const ir_attrs *attrs, ir_value *const *operands,
                         size_t count, ir_block *const *regions, size_t region_count) {
  if (r->failed) return NULL;
  ir_op *op = ir_emit(&r->b, code, attrs, operands, count, NULL, regions, region_count);
  ttir_builder_error(r);
  return op;
}

ir_op *ttir_emit(ttir_reader *r, ir_opcode code, const ir_attrs *attrs, ir_value *const *operands,
                 size_t count, const ir_type *given) {
  ttir_builder_error(r);
  if (r->failed) return NULL;
  ir_op *op = ir_emit(&r->b, code, attrs, operands, count, given, NULL, 0);
  ttir_builder_error(r);
  return op;
}

ir_value *ttir_splat_bits(ttir_reader *r, ir_type like, uint64_t bits) {
  if (r->failed) return NULL;
  ir_value *value = ir_const_bits(&r->b, ir_element(like), bits);
  return like.rank ? ir_splat(&r->b, value, like) : value;
}

ir_value *ttir_splat_float(ttir_reader *r, ir_type like, double value) {
  return ttir_splat_bits(r, like, ir_float_to_bits((kiln_scalar)like.scalar, value, true));
}

ir_value *ttir_spread(ttir_reader *r, ir_value *value, ir_type like) {
  if (r->failed || !value || !like.rank || value->type.rank) return value;
  return ir_splat(&r->b, value, ir_with_element(like, value->type));
}

void ttir_spread_all(ttir_reader *r, ir_value **v, uint32_t from, uint32_t count) {
  for (uint32_t i = from; i < count; i++) v[i] = ttir_spread(r, v[i], v[0]->type);
}
