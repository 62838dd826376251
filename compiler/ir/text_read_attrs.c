// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attributes of operations in a kernel's text, by attrs.def.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/ir/text_read.h"

/// "one of eq, ne, lt".
static const char *list_words(const char *const *words, char out[160]) {
  size_t used = (size_t)snprintf(out, 160, "one of ");
  for (unsigned i = 0; words[i] && used < 140; i++)
    used += (size_t)snprintf(out + used, 160 - used, "%s%s", i ? ", " : "", words[i]);
  return out;
}

bool ir_read_kind(ir_reading *r, const char *kind, ir_read_op *op) {
  const ir_attr_info *row = ir_next_attr(op->code, NULL);
  char list[160];
  while (row && row->form != IR_ATTR_KIND) row = ir_next_attr(op->code, row);
  if (!row && kind) return ir_words_fail(&r->w, "an operation that comes in one kind");
  if (row) {
    int n =
        kind ? ir_word_index(ir_words_of(row->words), kind, (size_t)(r->w.start + r->w.length - kind)) : -1;
    if (n < 0)
      return ir_words_fail_at(&r->w, op->place, "%s: expected its kind after a '.', %s",
                              ir_ops[op->code].text, list_words(ir_words_of(row->words), list));
    ir_attr_set(&op->attrs, row, (uint64_t)n);
  }
  ir_words_next(&r->w);
  return true;
}

static bool read_real(ir_reading *r, kiln_scalar scalar, uint64_t *out) {
  char text[64], *end;
  if (r->w.kind != IR_TOKEN_NUMBER || r->w.length >= sizeof text) return ir_words_fail(&r->w, "a number");
  memcpy(text, r->w.start, r->w.length);
  text[r->w.length] = 0;
  double value = strtod(text, &end);
  if (*end) return ir_words_fail(&r->w, "a number");
  *out = ir_float_to_bits(scalar, value, false);
  ir_words_next(&r->w);
  return true;
}

/// "0x..." is what the constant's bits are, whatever its type.
bool ir_read_constant(ir_reading *r, ir_read_op *op) {
  const ir_attr_info *row = ir_next_attr(op->code, NULL);
  const bool is_bits = r->w.length > 2 && r->w.start[0] == '0' && r->w.start[1] == 'x';
  uint64_t bits;
  if (!row || row->form != IR_ATTR_VALUE) return true;
  const bool is_real = ir_type_class(op->result) & (KILN_CLASS_FLOAT | KILN_CLASS_FP8);
  if (is_real && !is_bits) {
    if (!read_real(r, (kiln_scalar)op->result.scalar, &bits)) return false;
  } else {
    const unsigned unused = 64 - ir_type_bits(op->result);
    if (!ir_words_bits(&r->w, &bits)) return false;
    if (!is_bits) bits = bits << unused >> unused;
  }
  ir_attr_set(&op->attrs, row, bits);
  return true;
}

static bool read_axes(ir_reading *r, ir_read_op *op) {
  int64_t axis;
  if (!ir_words_expect(&r->w, "=") || !ir_words_expect(&r->w, "[")) return false;
  for (unsigned i = 0; i < IR_MAX_RANK && !ir_words_at(&r->w, "]"); i++) {
    if (i && !ir_words_expect(&r->w, ",")) return false;
    if (!ir_words_number(&r->w, 0, IR_MAX_RANK - 1, &axis)) return false;
    op->attrs.perm[i] = (uint8_t)axis;
  }
  return ir_words_expect(&r->w, "]");
}

static bool read_word(ir_reading *r, const ir_attr_info *row, uint64_t *out) {
  char list[160];
  int n = ir_word_index(ir_words_of(row->words), r->w.start, r->w.length);
  if (n < 0) return ir_words_fail(&r->w, list_words(ir_words_of(row->words), list));
  *out = (uint64_t)n;
  ir_words_next(&r->w);
  return true;
}

static bool read_attribute(ir_reading *r, const ir_attr_info *row, ir_read_op *op) {
  int64_t number;
  uint64_t value = 0;
  const char *text;
  if (row->form == IR_ATTR_FLAG) {
    op->attrs.flags |= (uint32_t)row->most;
    return true;
  }
  if (row->form == IR_ATTR_BOOL) return ir_attr_set(&op->attrs, row, true), true;
  if (row->form == IR_ATTR_AXES) return read_axes(r, op);
  if (!ir_words_expect(&r->w, "=")) return false;
  if (row->form == IR_ATTR_TEXT) {
    if (!ir_words_text(&r->w, &text)) return false;
    return ir_attr_set_text(&op->attrs, row, text), true;
  }
  if (row->form == IR_ATTR_WORD) {
    if (!read_word(r, row, &value)) return false;
  } else {
    if (!ir_words_number(&r->w, 0, row->most, &number)) return false;
    value = (uint64_t)number;
  }
  ir_attr_set(&op->attrs, row, value);
  return true;
}

static const ir_attr_info *find_attribute(const ir_reading *r, ir_opcode code) {
  const ir_attr_info *row = ir_next_attr(code, NULL);
  while (row &&
         (row->form == IR_ATTR_KIND || row->form == IR_ATTR_VALUE || !ir_words_at(&r->w, row->spelling)))
    row = ir_next_attr(code, row);
  return row;
}

/// "?flags=2": what no row names.
static bool read_foreign(ir_reading *r, ir_read_op *op) {
  const char *name = r->w.start;
  const size_t length = r->w.length;
  const ir_place place = r->w.place;
  uint64_t value;
  if (r->w.kind != IR_TOKEN_WORD) return ir_words_fail(&r->w, "the name of a field");
  ir_words_next(&r->w);
  if (!ir_words_expect(&r->w, "=") || !ir_words_bits(&r->w, &value)) return false;
  return ir_attr_set_foreign(&op->attrs, name, length, value) ||
         ir_words_fail_at(&r->w, place, "expected a field of attributes that holds this number, found '%.*s'",
                          length > 40 ? 40 : (int)length, name);
}

bool ir_read_attributes(ir_reading *r, uint32_t line, ir_read_op *op) {
  while (r->w.place.line == line && !ir_words_at(&r->w, "with")) {
    if (ir_words_take(&r->w, "?")) {
      if (!read_foreign(r, op)) return false;
      continue;
    }
    if (r->w.kind != IR_TOKEN_WORD) break;
    const ir_attr_info *row = find_attribute(r, op->code);
    if (!row) {
      char expected[80];
      snprintf(expected, sizeof expected, "an attribute of %s", ir_ops[op->code].text);
      return ir_words_fail(&r->w, expected);
    }
    ir_words_next(&r->w);
    if (!read_attribute(r, row, op)) return false;
  }
  return r->w.error.status == KILN_OK;
}
