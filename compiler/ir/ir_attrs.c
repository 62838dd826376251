// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of attributes, and access to the fields that its rows name.
#include "compiler/ir/attrs.h"

#include <string.h>

const char *const ir_predicate_words[] = {"eq", "ne", "lt", "le", "gt", "ge", NULL};
const char *const ir_round_words[] = {"nearest", "zero", NULL};
const char *const ir_cache_words[] = {"default", "ca", "cg", "cv", "wb", "cs", "wt", NULL};
const char *const ir_evict_words[] = {"normal", "first", "last", NULL};
const char *const ir_order_words[] = {"relaxed", "acquire", "release", "acq_rel", NULL};
const char *const ir_scope_words[] = {"gpu", "cta", "system", NULL};
const char *const ir_precision_words[] = {"ieee", "tf32", "tf32x3", "fast", NULL};
static const char *const ir_combine_words[] = {
#define COMBINE(code, text, ...) text,
#include "compiler/ir/combines.def"
#undef COMBINE
    NULL};

const char *const *ir_words_of(ir_word_list list) {
  switch (list) {
  case IR_WORDS_NONE: break;
  case IR_WORDS_PREDICATE: return ir_predicate_words;
  case IR_WORDS_COMBINE: return ir_combine_words;
  case IR_WORDS_ROUND: return ir_round_words;
  case IR_WORDS_CACHE: return ir_cache_words;
  case IR_WORDS_EVICT: return ir_evict_words;
  case IR_WORDS_ORDER: return ir_order_words;
  case IR_WORDS_SCOPE: return ir_scope_words;
  case IR_WORDS_PRECISION: return ir_precision_words;
  }
  return NULL;
}

static const ir_attr_info rows[] = {
#define ATTR(code, field, spelling, form, most, words, canonical)                                        \
  {IR_##code,        IR_ATTR_##form,    most,    offsetof(ir_attrs, field), sizeof((ir_attrs){0}.field), \
   IR_WORDS_##words, IR_IN_##canonical, spelling},
#include "compiler/ir/attrs.def"
#undef ATTR
};
#define ATTR(code, field, text, ...) \
  _Static_assert(sizeof text <= sizeof((ir_attr_info){0}.spelling), "it has room");
#include "compiler/ir/attrs.def"
#undef ATTR
enum { ROW_COUNT = sizeof rows / sizeof *rows };

const ir_attr_info *ir_next_attr(ir_opcode code, const ir_attr_info *row) {
  for (row = row ? row + 1 : rows; row < rows + ROW_COUNT; row++)
    if (row->code == code) return row;
  return NULL;
}

static uint64_t get(const ir_attrs *attrs, size_t offset, size_t size) {
  uint64_t value = 0;
  const char *field = (const char *)attrs + offset;
  if (size == 1) return *(const uint8_t *)field;
  if (size == 4) return *(const uint32_t *)(const void *)field;
  memcpy(&value, field, sizeof value);
  return value;
}

uint64_t ir_attr_get(const ir_attrs *attrs, const ir_attr_info *row) {
  KILN_ASSERT(row->form != IR_ATTR_TEXT);
  return get(attrs, row->offset, row->size);
}

void ir_attr_set(ir_attrs *attrs, const ir_attr_info *row, uint64_t value) {
  KILN_ASSERT(row->form != IR_ATTR_TEXT && (row->size == 8 || !(value >> 8 * row->size)));
  char *field = (char *)attrs + row->offset;
  const uint32_t low = (uint32_t)value;
  if (row->size == 1) *(uint8_t *)field = (uint8_t)value;
  else memcpy(field, row->size == 4 ? (const void *)&low : &value, row->size);
}

const char *ir_attr_text(const ir_attrs *attrs, const ir_attr_info *row) {
  const char *text;
  KILN_ASSERT(row->form == IR_ATTR_TEXT);
  memcpy(&text, (const char *)attrs + row->offset, sizeof text);
  return text;
}

void ir_attr_set_text(ir_attrs *attrs, const ir_attr_info *row, const char *text) {
  KILN_ASSERT(row->form == IR_ATTR_TEXT);
  memcpy((char *)attrs + row->offset, &text, sizeof text);
}

const char *ir_word_at(const char *const *words, uint64_t n) {
  while (n && *words) words++, n--;
  return *words;
}

int ir_word_index(const char *const *words, const char *text, size_t length) {
  for (int i = 0; words[i]; i++)
    if (strlen(words[i]) == length && !memcmp(words[i], text, length)) return i;
  return -1;
}

// Every field that holds a number, and the largest one. Texts and axes are what only operations with a row
// have.
enum { ALL_FLAGS = 2 * IR_FEEDS - 1 };
static const struct {
  const char *name;
  uint8_t offset, size;
  uint64_t most;
} fields[] = {
#define FIELD(name, most) \
  { #name, offsetof(ir_attrs, name), sizeof((ir_attrs){0}.name), most }
    FIELD(bits, UINT64_MAX),        FIELD(flags, ALL_FLAGS),        FIELD(kind, IR_COMBINE_COUNT - 1),
    FIELD(axis, IR_MAX_RANK),       FIELD(round, IR_ROUND_ZERO),    FIELD(cache, IR_CACHE_WT),
    FIELD(evict, IR_EVICT_LAST),    FIELD(order, IR_ORDER_ACQ_REL), FIELD(scope, IR_SCOPE_SYSTEM),
    FIELD(precision, IR_PREC_FAST),
#undef FIELD
};
enum { FIELD_COUNT = sizeof fields / sizeof *fields };

static uint64_t foreign(const ir_op *op, size_t i) {
  uint64_t value = get(&op->attrs, fields[i].offset, fields[i].size);
  for (const ir_attr_info *row = ir_next_attr(op->code, NULL); row && value;
       row = ir_next_attr(op->code, row))
    if (row->offset == fields[i].offset) value &= row->form == IR_ATTR_FLAG ? ~(uint64_t)row->most : 0;
  return value;
}

const char *ir_attr_foreign(const ir_op *op, size_t *at, uint64_t *out_value) {
  for (; *at < FIELD_COUNT; ++*at)
    if ((*out_value = foreign(op, *at))) return fields[(*at)++].name;
  return NULL;
}

bool ir_attr_set_foreign(ir_attrs *attrs, const char *name, size_t length, uint64_t value) {
  for (size_t i = 0; i < FIELD_COUNT; i++) {
    if (strlen(fields[i].name) != length || memcmp(fields[i].name, name, length) || value > fields[i].most)
      continue;
    const ir_attr_info row = {.offset = fields[i].offset, .size = fields[i].size};
    ir_attr_set(attrs, &row, ir_attr_get(attrs, &row) | value);
    return true;
  }
  return false;
}
