// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops, branches and calls. Regions are read straight into blocks of the IR; a call reads the callee's text
// in place.
#include <string.h>

#include "compiler/ttir/ttir_forms.h"

static void define_argument(ttir_reader *r, ir_block *block, ttir_token name, ir_type type) {
  if (r->failed) return;
  ir_value *argument = ir_block_arg(r->arena, block, type);
  ttir_define(r, name, &argument, 1);
}

uint32_t ttir_block_label(ttir_reader *r, ir_block *block) {
  ttir_take(r, TTIR_BLOCK, "a block label");
  if (ttir_accept(r, '(')) {
    while (!r->failed && !ttir_peek(r, ')')) {
      ttir_token name = ttir_take(r, TTIR_VALUE, "a block argument");
      ttir_type type = ttir_colon_type(r);
      ttir_skip_loc(r);
      define_argument(r, block, name, type.type);
      if (!ttir_accept(r, ',')) break;
    }
    ttir_expect(r, ')');
  }
  ttir_expect(r, ':');
  return block->arg_count;
}

// `(T, U)` or `T`. Types of carried values follow from their initial values, so they are only stepped over.
static void skip_types(ttir_reader *r) {
  if (!ttir_accept(r, '(')) {
    ttir_read_type(r, false);
    return;
  }
  while (!r->failed && !ttir_peek(r, ')')) {
    ttir_read_type(r, false);
    if (!ttir_accept(r, ',')) break;
  }
  ttir_expect(r, ')');
}

static void skip_arrow_types(ttir_reader *r) {
  if (r->lex.token.kind != TTIR_ARROW) return;
  ttir_lex_next(&r->lex);
  skip_types(r);
}

// `{ statements }` into the open region; MLIR leaves out a yield of nothing.
static void read_braces(ttir_reader *r, const ttir_region *region) {
  ttir_statements(r);
  ttir_expect(r, '}');
  if (!r->failed && !ir_terminator(region->block)) ttir_emit(r, IR_YIELD, NULL, NULL, 0, NULL);
}

// `(%a = %x, %b = %y)`: names of carried values and their initial values. Returns the count.
static uint32_t read_carried(ttir_reader *r, ttir_token *names, ir_value **values, uint32_t capacity) {
  uint32_t count = 0;
  ttir_expect(r, '(');
  while (!r->failed && !ttir_peek(r, ')')) {
    if (count == capacity) {
      ttir_error(r, "expected at most %u carried values", capacity);
      return 0;
    }
    names[count] = ttir_take(r, TTIR_VALUE, "a carried value");
    ttir_expect(r, '=');
    values[count++] = ttir_value(r);
    if (!ttir_accept(r, ',')) break;
  }
  ttir_expect(r, ')');
  return r->failed ? 0 : count;
}

// %i = %lo to %hi step %st iter_args(%a = %x) -> (T)  : i32 { .. } {tt.num_stages = 3 : i32}
void ttir_form_for(ttir_reader *r, const ttir_row *row) {
  ttir_token *names = KILN_NEW_ARRAY(r->arena, ttir_token, TTIR_MAX_VALUES);
  ir_value *operands[TTIR_MAX_VALUES + IR_FOR_BOUNDS], **initials = operands + IR_FOR_BOUNDS;
  uint32_t count = 0;
  if (ttir_peek_word(r, "unsigned")) ttir_error(r, "scf.for with unsigned bounds is not supported");
  ttir_token iv = ttir_take(r, TTIR_VALUE, "the loop's variable");
  ttir_expect(r, '=');
  operands[0] = ttir_value(r);
  ttir_expect_word(r, "to");
  operands[1] = ttir_value(r);
  ttir_expect_word(r, "step");
  operands[2] = ttir_value(r);
  if (ttir_accept_word(r, "iter_args")) count = read_carried(r, names, initials, TTIR_MAX_VALUES);
  skip_arrow_types(r);
  if (ttir_peek(r, ':')) ttir_check_type(r, operands[0], ttir_colon_type(r).type);
  ttir_expect(r, '{');
  if (r->failed) return;
  ttir_region region = ttir_open_region(r);
  define_argument(r, region.block, iv, operands[0]->type);
  for (uint32_t i = 0; i < count; i++) define_argument(r, region.block, names[i], initials[i]->type);
  read_braces(r, &region);
  ttir_close_region(r, &region);
  ttir_read_dictionary(r, &r->dictionary);
  int64_t stages = ttir_entry_int(&r->dictionary, "tt.num_stages", 0);
  ir_attrs attrs = {.loop = {.stages = (uint8_t)(stages > 0 && stages < 256 ? stages : 0),
                             .is_flattened = ttir_entry_int(&r->dictionary, "tt.flatten", 0)}};
  ttir_hint_arguments(r, region.block, operands[0], operands[2]);
  r->dictionary.count = 0;
  r->row = row;
  ttir_give_results(r,
                    ttir_emit_regions(r, IR_FOR, &attrs, operands, count + IR_FOR_BOUNDS, &region.block, 1));
}

// %c -> (T) { .. } else { .. }
void ttir_form_if(ttir_reader *r, const ttir_row *row) {
  ir_value *condition = ttir_value(r);
  ir_block *blocks[2];
  skip_arrow_types(r);
  for (int side = 0; side < 2; side++) {
    ttir_region region = ttir_open_region(r);
    blocks[side] = region.block;
    if (side == 0 || ttir_accept_word(r, "else")) {
      ttir_expect(r, '{');
      read_braces(r, &region);
    } else {
      ttir_emit(r, IR_YIELD, NULL, NULL, 0, NULL);
    }
    ttir_close_region(r, &region);
    if (r->failed) return;
  }
  ttir_read_dictionary(r, &r->dictionary);
  r->row = row;
  ttir_give_results(r, ttir_emit_regions(r, IR_IF, NULL, &condition, 1, blocks, 2));
}

// (%a = %x) : (T) -> (T) { .. scf.condition(%c) %a : T } do { ^bb0(%a: T): .. scf.yield .. }
void ttir_form_while(ttir_reader *r, const ttir_row *row) {
  ttir_token *names = KILN_NEW_ARRAY(r->arena, ttir_token, TTIR_MAX_VALUES);
  ir_value *initial[TTIR_MAX_VALUES];
  ir_block *blocks[2];
  uint32_t count = ttir_peek(r, '(') ? read_carried(r, names, initial, TTIR_MAX_VALUES) : 0;
  ttir_expect(r, ':');
  skip_types(r);
  skip_arrow_types(r);
  ttir_expect(r, '{');
  ttir_region before = ttir_open_region(r);
  blocks[0] = before.block;
  for (uint32_t i = 0; i < count; i++) define_argument(r, before.block, names[i], initial[i]->type);
  ttir_statements(r);
  ttir_expect(r, '}');
  ttir_close_region(r, &before);
  ttir_expect_word(r, "do");
  ttir_expect(r, '{');
  ttir_region after = ttir_open_region(r);
  blocks[1] = after.block;
  if (r->lex.token.kind == TTIR_BLOCK) ttir_block_label(r, after.block);
  read_braces(r, &after);
  ttir_close_region(r, &after);
  if (ttir_accept_word(r, "attributes") || ttir_peek(r, '{')) ttir_read_dictionary(r, &r->dictionary);
  // Both regions may have said it, and what the first passes on has the same place in the second.
  ttir_hint_arguments(r, after.block, NULL, NULL);
  r->dictionary.count = 0;
  r->row = row;
  ttir_give_results(r, ttir_emit_regions(r, IR_WHILE, NULL, initial, count, blocks, 2));
}

// scf.yield %a, %b : T, U; tt.reduce.return and tt.scan.return alike
void ttir_form_yield(ttir_reader *r, const ttir_row *row) {
  (void)row;
  ir_value *values[TTIR_MAX_VALUES];
  uint32_t count = 0;
  if (r->lex.token.kind == TTIR_VALUE) {
    count = ttir_values(r, values, TTIR_MAX_VALUES);
    ttir_expect(r, ':');
    for (uint32_t i = 0; i < count && !r->failed; i++) {
      if (i) ttir_expect(r, ',');
      ttir_check_type(r, values[i], ttir_read_type(r, false).type);
    }
  }
  ttir_emit(r, IR_YIELD, NULL, values, count, NULL);
}

// scf.condition(%c) %a : T
void ttir_form_condition(ttir_reader *r, const ttir_row *row) {
  (void)row;
  ir_value *values[TTIR_MAX_VALUES];
  uint32_t count = 1;
  ttir_expect(r, '(');
  values[0] = ttir_value(r);
  ttir_expect(r, ')');
  if (r->lex.token.kind == TTIR_VALUE) {
    count += ttir_values(r, values + 1, TTIR_MAX_VALUES - 1);
    ttir_expect(r, ':');
    for (uint32_t i = 1; i < count && !r->failed; i++) {
      if (i > 1) ttir_expect(r, ',');
      ttir_check_type(r, values[i], ttir_read_type(r, false).type);
    }
  }
  ttir_emit(r, IR_COND, NULL, values, count, NULL);
}

// ------------------------------------------------------------------------------------------- calls

// Names the callee's parameters as the caller's values.
static void bind_params(ttir_reader *r, const ttir_function *f, ir_value *const *arguments, uint32_t count) {
  uint32_t at = 0;
  r->lex = f->params;
  ttir_expect(r, '(');
  while (!r->failed && !ttir_peek(r, ')')) {
    ttir_token name = ttir_take(r, TTIR_VALUE, "a parameter");
    ttir_colon_type(r);
    ttir_dictionary facts = {.count = 0};
    ttir_read_dictionary(r, &facts);
    ttir_skip_loc(r);
    if (at < count) ttir_define(r, name, &arguments[at], 1);
    at++;
    if (!ttir_accept(r, ',')) break;
  }
  if (!r->failed && at != count)
    ttir_error(r, "a call passes %u values to @%s, which takes %u", count, f->name, at);
}

// tt.call @"f"(%a, %b) : (T, U) -> V
void ttir_form_call(ttir_reader *r, const ttir_row *row) {
  ir_value *arguments[TTIR_MAX_VALUES], *results[TTIR_MAX_VALUES];
  ttir_token name = ttir_take(r, TTIR_SYMBOL, "the function to call");
  const ttir_function *f = ttir_find_function(r->module, name.at, name.length);
  ttir_expect(r, '(');
  uint32_t count = r->lex.token.kind == TTIR_VALUE ? ttir_values(r, arguments, TTIR_MAX_VALUES) : 0;
  ttir_expect(r, ')');
  ttir_read_dictionary(r, &r->dictionary);
  ttir_expect(r, ':');
  skip_types(r);
  skip_arrow_types(r);
  if (r->failed) return;
  if (!f || f->body.token.kind != TTIR_MARK || *f->body.token.at != '{') {
    ttir_error(r, "call of @%.*s, which has no body in this file", (int)name.length, name.at);
    return;
  }
  if (++r->depth > TTIR_MAX_DEPTH) {
    ttir_error(r, "calls are nested deeper than %d: recursion is not supported", TTIR_MAX_DEPTH);
    return;
  }
  ttir_lexer back = r->lex;
  uint32_t scope = ttir_scope(r), floor = r->name_floor;
  r->name_floor = scope;
  bind_params(r, f, arguments, count);
  r->lex = f->body;
  ttir_expect(r, '{');
  uint32_t result_count = r->failed ? 0 : ttir_body(r, results);
  ttir_leave(r, scope);
  r->name_floor = floor;
  r->depth--;
  if (r->failed) return;
  r->lex = back;
  r->row = row;
  r->result_count = 0;
  r->dictionary.count = 0;
  for (uint32_t i = 0; i < result_count; i++) ttir_give(r, results[i]);
}
