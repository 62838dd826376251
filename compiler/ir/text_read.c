// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reading a kernel (ir/text.h): the body, an operation a line. Operations are made by ir_emit, which types
// them; the types that the text states must be those.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/ir/text_read.h"

enum { DEEPEST = 256, MOST_OPERATIONS = 1 << 20, MOST_OPERANDS = 4096 };

static bool failed(const ir_reading *r) { return r->w.error.status != KILN_OK; }

// ------------------------------------------------------------------------------------------ values

/// What the text says of a value before the operation that makes it.
typedef struct stated {
  ir_name name;
  ir_type type;
  const kiln_layout *layout;
  ir_place place; ///< of the type
} stated;

/// "%3: f32[128] @l0".
static bool read_stated(ir_reading *r, stated *out) {
  if (!ir_read_name(r, &out->name) || !ir_words_expect(&r->w, ":")) return false;
  out->place = r->w.place;
  return ir_read_type(r, &out->type) && ir_read_layout(r, &out->layout);
}

static bool check_layout(ir_reading *r, const ir_value *value, const kiln_layout *layout, ir_place place) {
  const ir_type type = value->type;
  if (!layout || (type.rank && !type.is_view && !type.slots && layout->bits == ir_log2_elements(type)))
    return true;
  char text[IR_TYPE_TEXT];
  return ir_words_fail_at(&r->w, place, "expected a layout of the elements of a %s, found one of %u",
                          ir_type_text(type, text), 1u << layout->bits);
}

static bool define(ir_reading *r, const stated *s, ir_value *value) {
  value->layout = s->layout;
  return check_layout(r, value, s->layout, s->place) && ir_define_name(r, &s->name, value);
}

static bool read_operands(ir_reading *r, uint32_t line, ir_read_op *op) {
  while (r->w.kind == IR_TOKEN_VALUE && r->w.place.line == line) {
    ir_name name;
    ir_value *value;
    const kiln_layout *taken;
    if (op->operand_count == MOST_OPERANDS) return ir_words_fail(&r->w, "at most 4096 operands");
    if (!ir_read_name(r, &name) || !ir_find_name(r, &name, &value) || !ir_read_layout(r, &taken))
      return false;
    if (!check_layout(r, value, taken, name.place)) return false;
    KILN_GROW(r->w.arena, op->operands, op->operand_count, op->operand_capacity);
    KILN_GROW(r->w.arena, op->operand_layouts, op->operand_count, op->layout_capacity);
    op->operands[op->operand_count] = value;
    op->operand_layouts[op->operand_count++] = taken;
    op->has_operand_layouts |= taken != NULL;
    if (!ir_words_take(&r->w, ",")) return true;
    if (r->w.kind != IR_TOKEN_VALUE || r->w.place.line != line) return ir_words_fail(&r->w, "an operand");
  }
  return !failed(r);
}

// ---------------------------------------------------------------------------------------- places

/// "!7", "!7@12:3", "!@12:3".
static bool read_place(ir_reading *r, uint32_t line, ir_place *out) {
  int64_t number;
  *out = (ir_place){0};
  if (r->w.place.line != line || !ir_words_take(&r->w, "!")) return !failed(r);
  if (r->w.kind == IR_TOKEN_NUMBER && r->w.place.line == line) {
    if (!ir_words_number(&r->w, 0, UINT32_MAX - 1, &number)) return false;
    out->operation = (uint32_t)number + 1;
  }
  if (r->w.place.line != line || !ir_words_take(&r->w, "@")) return !failed(r);
  if (!ir_words_number(&r->w, 1, UINT32_MAX, &number)) return false;
  out->line = (uint32_t)number;
  if (!ir_words_expect(&r->w, ":") || !ir_words_number(&r->w, 0, UINT32_MAX, &number)) return false;
  out->column = (uint32_t)number;
  return true;
}

// -------------------------------------------------------------------------------------- operations

static bool read_block(ir_reading *r, ir_block *block);

/// "(%10: i32, %11: i32) { ... }".
static bool read_region(ir_reading *r, ir_block *block) {
  if (!ir_words_expect(&r->w, "(")) return false;
  while (!ir_words_at(&r->w, ")")) {
    stated s;
    if (block->arg_count == MOST_OPERANDS) return ir_words_fail(&r->w, "at most 4096 arguments");
    if (block->arg_count && !ir_words_expect(&r->w, ",")) return false;
    if (!read_stated(r, &s) || !define(r, &s, ir_block_arg(r->w.arena, block, s.type))) return false;
  }
  return ir_words_expect(&r->w, ")") && ir_words_expect(&r->w, "{") && read_block(r, block) &&
         ir_words_expect(&r->w, "}");
}

static bool read_regions(ir_reading *r, uint32_t line, ir_read_op *op) {
  ir_block *outer = r->b.block;
  for (; r->w.place.line == line && ir_words_at(&r->w, "("); op->region_count++) {
    if (op->region_count == IR_READ_REGIONS) return ir_words_fail(&r->w, "at most two regions");
    if (++r->depth > DEEPEST) return ir_words_fail(&r->w, "regions at most 256 deep");
    const uint32_t outside = ir_names_begin(r);
    ir_block *block = r->b.block = op->regions[op->region_count] = KILN_NEW(r->w.arena, ir_block);
    if (!read_region(r, block)) return false;
    ir_names_end(r, outside);
    r->b.block = outer;
    r->depth--;
    line = r->w.last_line;
  }
  op->end_line = line;
  return !failed(r);
}

static bool read_opcode(ir_reading *r, ir_read_op *op) {
  const char *dot = memchr(r->w.start, '.', r->w.length);
  const size_t length = dot ? (size_t)(dot - r->w.start) : r->w.length;
  uint32_t code = 0;
  if (r->w.kind != IR_TOKEN_WORD) return ir_words_fail(&r->w, "an operation");
  while (code < IR_OPCODE_COUNT &&
         (strlen(ir_ops[code].text) != length || memcmp(ir_ops[code].text, r->w.start, length)))
    code++;
  if (code == IR_OPCODE_COUNT) return ir_words_fail(&r->w, "an operation");
  op->code = (ir_opcode)code;
  op->place = r->w.place;
  return ir_read_kind(r, dot ? dot + 1 : NULL, op);
}

static bool check_arity(ir_reading *r, const ir_read_op *op) {
  const ir_op_info *info = &ir_ops[op->code];
  const int64_t count = op->operand_count;
  if (count >= info->least && (info->most < 0 || count <= info->most)) return true;
  char range[40] = "or more";
  if (info->most >= 0) snprintf(range, sizeof range, "to %d", info->most);
  return ir_words_fail_at(&r->w, op->place, "%s: expected %d %s operands, found %u", info->text, info->least,
                          range, op->operand_count);
}

static bool emit(ir_reading *r, const ir_read_op *op, const stated *results, uint32_t count, ir_op **out) {
  if (!check_arity(r, op)) return false;
  const ir_type *given = count ? &results[0].type : NULL;
  r->b.place = op->source;
  ir_op *made = *out = ir_emit(&r->b, op->code, &op->attrs, op->operands, op->operand_count, given,
                               op->regions, op->region_count);
  if (!made) return ir_words_fail_at(&r->w, op->place, "%s", r->b.error.text);
  if (op->has_operand_layouts) made->operand_layouts = op->operand_layouts;
  if (made->result_count != count)
    return ir_words_fail_at(&r->w, op->place, "%s: expected %u results, found %u", ir_ops[op->code].text,
                            made->result_count, count);
  for (uint32_t i = 0; i < count; i++) {
    char expected[IR_TYPE_TEXT], found[IR_TYPE_TEXT];
    if (!ir_type_equal(made->results[i].type, results[i].type))
      return ir_words_fail_at(&r->w, results[i].place, "%s: expected a result of %s, found %s",
                              ir_ops[op->code].text, ir_type_text(made->results[i].type, expected),
                              ir_type_text(results[i].type, found));
    if (!define(r, &results[i], &made->results[i])) return false;
  }
  return true;
}

static bool read_notes(ir_reading *r, uint32_t line, ir_op *op) {
  if (r->w.place.line != line || !ir_words_take(&r->w, "with")) return !failed(r);
  if (r->w.place.line != line || !r->notes) return ir_words_fail(&r->w, "a note");
  while (r->w.place.line == line && r->w.kind == IR_TOKEN_WORD)
    if (!r->notes->read_op(r, op)) return ir_words_fail(&r->w, "a note");
  return !failed(r);
}

/// Nothing but notes and a "}" stands after an operation.
static bool end_line(ir_reading *r, uint32_t line) {
  return r->w.place.line != line || r->w.kind == IR_TOKEN_END || ir_words_at(&r->w, "with") ||
         ir_words_at(&r->w, "}") || ir_words_fail(&r->w, "the end of the line");
}

static bool read_results(ir_reading *r, stated **out, uint32_t *out_count) {
  uint32_t capacity = 0;
  *out = NULL, *out_count = 0;
  if (r->w.kind != IR_TOKEN_VALUE) return true;
  do {
    if (*out_count == IR_MAX_RESULTS) return ir_words_fail(&r->w, "at most 256 results");
    KILN_GROW(r->w.arena, *out, *out_count, capacity);
    if (!read_stated(r, &(*out)[(*out_count)++])) return false;
  } while (ir_words_take(&r->w, ","));
  return ir_words_expect(&r->w, "=");
}

static bool read_op(ir_reading *r) {
  ir_read_op op = {0};
  stated *results;
  uint32_t count;
  ir_op *made;
  if (r->operations++ == MOST_OPERATIONS) return ir_words_fail(&r->w, "at most 2^20 operations");
  if (!read_results(r, &results, &count)) return false;
  const uint32_t line = r->w.place.line;
  op.result = count ? results[0].type : (ir_type){0};
  return read_opcode(r, &op) && ir_read_constant(r, &op) && read_operands(r, line, &op) &&
         ir_read_attributes(r, line, &op) && read_place(r, line, &op.source) && read_regions(r, line, &op) &&
         end_line(r, op.end_line) && emit(r, &op, results, count, &made) && read_notes(r, op.end_line, made);
}

static bool read_block(ir_reading *r, ir_block *block) {
  r->b.block = block;
  while (!ir_words_at(&r->w, "}")) {
    const uint32_t line = r->w.last_line;
    if (r->w.place.line == line && (block->first || block->parent))
      return ir_words_fail(&r->w, "an operation on a line of its own");
    if (r->w.kind != IR_TOKEN_WORD && r->w.kind != IR_TOKEN_VALUE)
      return ir_words_fail(&r->w, "an operation or '}'");
    if (!read_op(r)) return false;
  }
  return true;
}

// ------------------------------------------------------------------------------------------ kernel

static bool verify(ir_reading *r) {
  ir_fault fault;
  kiln_error err;
  const ir_place kernel = {.line = r->kernel_line, .column = 1};
  if (ir_verify_fault(r->kernel, "reading", &fault, &err) == KILN_OK) return true;
  return ir_words_fail_at(&r->w, kernel, "the kernel does not verify: %s", err.text);
}

bool ir_text_read(ir_reading *r, const ir_text_notes *notes) {
  r->notes = notes;
  r->kernel_line = r->w.place.line;
  if (!ir_read_head(r)) return false;
  r->b = (ir_builder){.arena = r->w.arena, .machine = true};
  if (!ir_words_expect(&r->w, "{") || !read_block(r, r->kernel->body) || !ir_words_at(&r->w, "}"))
    return false;
  if (!verify(r) || !ir_resolve_later(r)) return false;
  ir_count_uses(r->kernel);
  if (notes && !notes->finish(r, r->kernel)) return ir_words_fail(&r->w, "a kernel whose notes fit");
  return ir_words_expect(&r->w, "}");
}
