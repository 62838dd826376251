// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The attributes of operations as a table: attrs.def, where the columns are explained.
#ifndef KILN_COMPILER_IR_ATTRS_H
#define KILN_COMPILER_IR_ATTRS_H

#include "compiler/ir/ir.h"

typedef enum ir_attr_form {
  IR_ATTR_NUMBER,
  IR_ATTR_SHOWN,
  IR_ATTR_WORD,
  IR_ATTR_KIND,
  IR_ATTR_FLAG,
  IR_ATTR_BOOL,
  IR_ATTR_TEXT,
  IR_ATTR_AXES,
  IR_ATTR_VALUE,
} ir_attr_form;

/// Where canonical bytes have an attribute: bits of a mask, in order, or of the flags.
typedef enum ir_canonical_place {
  IR_IN_NONE,
  IR_IN_SHARED,
  IR_IN_BITS,
  IR_IN_DIVISIBLE,
  IR_IN_CONTIGUOUS,
  IR_IN_TEXT,
  IR_IN_CONSTRAINTS,
  IR_IN_AXIS,
  IR_IN_PACK,
  IR_IN_STAGES,
  IR_IN_UNROLL,
  IR_IN_SPLIT,
  IR_IN_FIRST,
  IR_IN_ACROSS,
  IR_IN_PLACES,
  IR_IN_FLAG_6 = IR_IN_PLACES,
  IR_IN_FLAG_7,
  IR_IN_FLAG_8,
  IR_IN_FLAG_10,
} ir_canonical_place;

/// Lists of words that attributes are chosen from.
typedef enum ir_word_list {
  IR_WORDS_NONE,
  IR_WORDS_PREDICATE,
  IR_WORDS_COMBINE,
  IR_WORDS_ROUND,
  IR_WORDS_CACHE,
  IR_WORDS_EVICT,
  IR_WORDS_ORDER,
  IR_WORDS_SCOPE,
  IR_WORDS_PRECISION,
} ir_word_list;

typedef struct ir_attr_info {
  ir_opcode code;
  ir_attr_form form;
  int64_t most;         ///< FLAG: the bit
  uint8_t offset, size; ///< of the field in ir_attrs
  uint8_t words;        ///< ir_word_list
  uint8_t canonical;    ///< ir_canonical_place
  char spelling[16];
} ir_attr_info;

/// The list, ended by NULL; of NONE: NULL.
const char *const *ir_words_of(ir_word_list list);

/// As ir_cache_words and the others of ir.h.
extern const char *const ir_predicate_words[], *const ir_round_words[];

/// The row after `row` of the same operation, in order of the table; with NULL the first one. NULL: no more.
const ir_attr_info *ir_next_attr(ir_opcode code, const ir_attr_info *row);

/// A field that holds a number. Fields of 8 bytes are read and written as they are.
uint64_t ir_attr_get(const ir_attrs *attrs, const ir_attr_info *row);
void ir_attr_set(ir_attrs *attrs, const ir_attr_info *row, uint64_t value);

/// A field that holds a text, of a row of form TEXT; NULL: none.
const char *ir_attr_text(const ir_attrs *attrs, const ir_attr_info *row);
void ir_attr_set_text(ir_attrs *attrs, const ir_attr_info *row, const char *text);

/// A word of a table, NULL after its end; and the place of a word, -1 where it has none.
const char *ir_word_at(const char *const *words, uint64_t n);
int ir_word_index(const char *const *words, const char *text, size_t length);

/// Fields that are not zero and that no row of the operation names, which nothing reads: the next one from
/// `*at` on, which begins at 0: its name in ir_attrs, and its value, of flags the bits that no row names.
/// NULL: no more.
const char *ir_attr_foreign(const ir_op *op, size_t *at, uint64_t *out_value);
/// Sets such a field; false where there is none of that name that holds the value.
bool ir_attr_set_foreign(ir_attrs *attrs, const char *name, size_t length, uint64_t value);

#endif
