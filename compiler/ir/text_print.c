// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Printing a kernel (ir/text.h). It shows whatever is there, also what does not verify: such a text is for
// people, any other reads back to the same kernel.
#include <inttypes.h>
#include <string.h>

#include "compiler/ir/text_read.h"

struct ir_printing {
  kiln_buffer *out;
  const ir_kernel *kernel;
  const ir_fault *fault;       // NULL: none
  const ir_text_notes *notes;  // NULL: none
  const kiln_layout **layouts; // in order of their first use; the kernel's arena
  uint32_t count, capacity;
};

kiln_buffer *ir_printing_out(const ir_printing *p) { return p->out; }

void ir_printing_layout(ir_printing *p, const kiln_layout *layout) {
  uint32_t i = 0;
  while (i < p->count && memcmp(p->layouts[i], layout, sizeof *layout)) i++;
  if (i == p->count) {
    KILN_GROW(p->kernel->arena, p->layouts, p->count, p->capacity);
    p->layouts[p->count++] = layout;
  }
  kiln_buffer_format(p->out, " @l%u", i);
}

static void put_typed(ir_printing *p, const ir_value *v) {
  char text[IR_TYPE_TEXT];
  kiln_buffer_format(p->out, "%%%u: %s", v->id, ir_type_text(v->type, text));
  if (v->layout) ir_printing_layout(p, v->layout);
}

void ir_text_quote(const char *text, kiln_buffer *out) {
  kiln_buffer_u8(out, '"');
  for (; *text; text++) {
    if (*text == '\n') kiln_buffer_format(out, "\\n");
    else if (*text == '"' || *text == '\\') kiln_buffer_format(out, "\\%c", *text);
    else if ((unsigned char)*text < ' ' || *text == 127)
      kiln_buffer_format(out, "\\x%02x", (unsigned char)*text);
    else kiln_buffer_u8(out, (uint8_t)*text);
  }
  kiln_buffer_u8(out, '"');
}

// -------------------------------------------------------------------------------------- attributes

/// As its type is written where that gives the same bits again, else as bits.
static void put_constant(kiln_buffer *out, const ir_op *op) {
  const uint64_t bits = op->attrs.bits;
  if (op->result_count != 1) return;
  const ir_type type = op->results[0].type;
  const unsigned width = ir_type_bits(type), unused = 64 - width;
  const bool is_real = ir_type_class(type) & (KILN_CLASS_FLOAT | KILN_CLASS_FP8);
  if (is_real) {
    double value = ir_bits_to_float(type.scalar, bits);
    bool is_finite = value - value == 0;
    if (is_finite && ir_float_to_bits(type.scalar, value, false) == bits)
      kiln_buffer_format(out, " %.17g", value);
    else kiln_buffer_format(out, " 0x%" PRIx64, bits);
  } else if (bits << unused >> unused != bits) {
    kiln_buffer_format(out, " 0x%" PRIx64, bits);
  } else {
    kiln_buffer_format(out, " %" PRId64, width == 1 ? (int64_t)bits : (int64_t)(bits << unused) >> unused);
  }
}

static void put_axes(kiln_buffer *out, const ir_attr_info *row, const ir_op *op) {
  kiln_buffer_format(out, " %s=[", row->spelling);
  for (unsigned i = 0; op->operand_count && op->operands[0] && i < op->operands[0]->type.rank; i++)
    kiln_buffer_format(out, i ? ", %u" : "%u", op->attrs.perm[i]);
  kiln_buffer_u8(out, ']');
}

static void put_attribute(kiln_buffer *out, const ir_attr_info *row, const ir_op *op) {
  const char *text, *name = row->spelling;
  if (row->form == IR_ATTR_TEXT) {
    if (!(text = ir_attr_text(&op->attrs, row))) return;
    kiln_buffer_format(out, " %s=", name);
    ir_text_quote(text, out);
    return;
  }
  const uint64_t value = row->form == IR_ATTR_AXES ? 0 : ir_attr_get(&op->attrs, row);
  switch (row->form) {
  case IR_ATTR_NUMBER:
    if (!value) return;
    __attribute__((fallthrough));
  case IR_ATTR_SHOWN: kiln_buffer_format(out, " %s=%" PRId64, name, (int64_t)value); return;
  case IR_ATTR_WORD:
    text = ir_word_at(ir_words_of(row->words), value);
    if (value) kiln_buffer_format(out, " %s=%s", name, text ? text : "?");
    return;
  case IR_ATTR_FLAG:
    if (value & (uint64_t)row->most) kiln_buffer_format(out, " %s", name);
    return;
  case IR_ATTR_AXES: put_axes(out, row, op); return;
  case IR_ATTR_BOOL:
    if (value) kiln_buffer_format(out, " %s", name);
    return;
  case IR_ATTR_VALUE: put_constant(out, op); return;
  case IR_ATTR_TEXT:
  case IR_ATTR_KIND: return; // above; stands after the name
  }
}

/// The kind of comparisons and combinations belongs to the name: cmp.lt, reduce.add.
static void put_name(kiln_buffer *out, const ir_op *op) {
  kiln_buffer_format(out, "%s", ir_ops[op->code].text);
  for (const ir_attr_info *row = ir_next_attr(op->code, NULL); row; row = ir_next_attr(op->code, row)) {
    const char *word = row->form == IR_ATTR_KIND ? ir_word_at(ir_words_of(row->words), op->attrs.kind) : NULL;
    if (row->form == IR_ATTR_KIND) kiln_buffer_format(out, ".%s", word ? word : "?");
  }
}

static void put_place(kiln_buffer *out, ir_place place) {
  if (!place.operation && !place.line) return;
  kiln_buffer_format(out, " !");
  if (place.operation) kiln_buffer_format(out, "%u", place.operation - 1);
  if (place.line) kiln_buffer_format(out, "@%u:%u", place.line, place.column);
}

// -------------------------------------------------------------------------------------- operations

static void put_block(ir_printing *p, const ir_block *block, unsigned depth);

static void put_regions(ir_printing *p, const ir_op *op, unsigned depth) {
  for (uint32_t i = 0; i < op->region_count; i++) {
    const ir_block *block = op->regions[i];
    kiln_buffer_format(p->out, i ? "%*s} (" : " (", i ? (int)(2 * depth) : 0, "");
    for (uint32_t k = 0; k < block->arg_count; k++) {
      if (k) kiln_buffer_format(p->out, ", ");
      put_typed(p, block->args[k]);
    }
    kiln_buffer_format(p->out, ") {\n");
    put_block(p, block, depth + 1);
  }
  if (op->region_count) kiln_buffer_format(p->out, "%*s}", (int)(2 * depth), "");
}

static void put_op(ir_printing *p, const ir_op *op, unsigned depth) {
  kiln_buffer_format(p->out, "%*s", (int)(2 * depth), "");
  for (uint32_t i = 0; i < op->result_count; i++) {
    if (i) kiln_buffer_format(p->out, ", ");
    put_typed(p, &op->results[i]);
  }
  kiln_buffer_format(p->out, "%s", op->result_count ? " = " : "");
  put_name(p->out, op);
  for (uint32_t i = 0; i < op->operand_count; i++) {
    kiln_buffer_format(p->out, i ? ", %%" : " %%");
    if (op->operands[i]) kiln_buffer_format(p->out, "%u", op->operands[i]->id);
    else kiln_buffer_format(p->out, "none");
    if (op->operand_layouts && op->operand_layouts[i]) ir_printing_layout(p, op->operand_layouts[i]);
  }
  for (const ir_attr_info *row = ir_next_attr(op->code, NULL); row; row = ir_next_attr(op->code, row))
    put_attribute(p->out, row, op);
  uint64_t value;
  size_t at = 0;
  for (const char *foreign; (foreign = ir_attr_foreign(op, &at, &value));)
    kiln_buffer_format(p->out, " ?%s=%" PRIu64, foreign, value);
  put_place(p->out, op->place);
  put_regions(p, op, depth);
  const size_t before = p->out->size;
  if (p->notes) p->notes->put_op(p, p->kernel, op);
  if (p->out->size > before) KILN_ASSERT(p->out->bytes[before] == ' ');
  kiln_buffer_u8(p->out, '\n');
  if (p->fault && p->fault->op == op)
    kiln_buffer_format(p->out, "%*s^ %s\n", (int)(2 * depth), "", p->fault->text);
}

static void put_block(ir_printing *p, const ir_block *block, unsigned depth) {
  for (const ir_op *op = block->first; op; op = op->next) put_op(p, op, depth);
}

// ------------------------------------------------------------------------------------------ kernel

static bool is_word(const char *text) {
  for (const char *c = text; *c; c++)
    if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_' ||
          (c > text && *c >= '0' && *c <= '9')))
      return false;
  return *text;
}

static void put_param(kiln_buffer *out, const ir_param *p, const ir_value *v) {
  static const char *const modes[] = {"", "in ", "out ", "inout ", "accum "};
  char text[IR_TYPE_TEXT];
  kiln_buffer_format(out, "  %%%u", v->id);
  if (p->name && *p->name) {
    kiln_buffer_u8(out, ' ');
    if (is_word(p->name)) kiln_buffer_format(out, "%s", p->name);
    else ir_text_quote(p->name, out);
  }
  kiln_buffer_format(out, ": %s%s", p->access < 5 ? modes[p->access] : "? ", ir_type_text(v->type, text));
  if (p->noalias) kiln_buffer_format(out, " noalias");
  if (p->within) kiln_buffer_format(out, " within");
  if (p->align) kiln_buffer_format(out, " align=%u", p->align);
  if (p->rows) kiln_buffer_format(out, " rows=%u", p->rows);
  if (p->div) kiln_buffer_format(out, " div=%" PRId64, p->div);
  if (p->has_range) kiln_buffer_format(out, " range=%" PRId64 "..%" PRId64, p->lo, p->hi);
  kiln_buffer_u8(out, '\n');
}

static void put_layout(kiln_buffer *out, uint32_t number, const kiln_layout *l) {
  const unsigned counts[] = {l->registers, l->lanes, l->warps};
  const uint32_t *basis = l->basis;
  kiln_buffer_format(out, "  layout l%u of %u: (", number, 1u << l->bits);
  for (unsigned kind = 0; kind < 3; kind++) {
    if (kind) kiln_buffer_format(out, " |");
    for (unsigned i = 0; i < counts[kind]; i++) kiln_buffer_format(out, kind || i ? " %u" : "%u", *basis++);
  }
  kiln_buffer_format(out, ")\n");
}

static void put_head(ir_printing *p, kiln_buffer *out) {
  const ir_kernel *k = p->kernel;
  kiln_buffer_format(out, "kernel %s warps=%u stages=%u", k->name, k->warps, k->stages);
  if (k->max_registers) kiln_buffer_format(out, " registers=%u", k->max_registers);
  if (k->fp_strict) kiln_buffer_format(out, " strict");
  if (k->fp_flush) kiln_buffer_format(out, " flush");
  if (k->groups_beside) kiln_buffer_format(out, " groups_beside");
  if (k->grid_limit[0] || k->grid_limit[1] || k->grid_limit[2])
    kiln_buffer_format(out, " grid=%" PRId64 ",%" PRId64 ",%" PRId64, k->grid_limit[0], k->grid_limit[1],
                       k->grid_limit[2]);
  if (k->tests.programs[0] || k->tests.programs[1] || k->tests.programs[2])
    kiln_buffer_format(out, " tested=%u,%u,%u", k->tests.programs[0], k->tests.programs[1],
                       k->tests.programs[2]);
  kiln_buffer_u8(out, '\n');
  for (uint32_t i = 0; i < k->param_count && i < k->body->arg_count; i++)
    put_param(out, &k->params[i], k->body->args[i]);
  ir_put_conditions(k, out);
  if (p->notes) p->notes->put_kernel(k, out);
  for (uint32_t i = 0; i < p->count; i++) put_layout(out, i, p->layouts[i]);
}

void ir_text_print(ir_kernel *kernel, const ir_fault *fault, const ir_text_notes *notes, kiln_buffer *out) {
  kiln_buffer body = {0};
  ir_printing p = {.out = &body, .kernel = kernel, .fault = fault, .notes = notes};
  ir_number(kernel);
  put_block(&p, kernel->body, 1); // before the head, which lists the layouts that it uses
  put_head(&p, out);
  kiln_buffer_format(out, "{\n");
  kiln_buffer_bytes(out, body.bytes, body.size);
  kiln_buffer_format(out, "}\n");
  if (fault && !fault->op) kiln_buffer_format(out, "^ %s\n", fault->text);
  out->failed |= body.failed;
  kiln_buffer_deinit(&body);
}

void ir_print(ir_kernel *kernel, const ir_fault *fault, kiln_buffer *out) {
  ir_text_print(kernel, fault, NULL, out);
}
